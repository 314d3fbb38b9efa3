// explain.c - EXPLAIN: the plan as a tree of pipelines, and with ANALYZE what each of them did; EXPLAIN (NETWORK): what
// runs now.

#include "engine/engine.h"
#include "engine/remote.h"
#include "plan/window.h"

#include <stdio.h>

static void print_bytes(Text *text, double bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
    text_add(text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

// 1234567 -> 1,234,567
static void print_count(Text *text, u64 count)
{
    char      digits[32];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++)
        text_add(text, "%c%s", digits[i], (length - i - 1) % 3 == 0 && i + 1 < length ? "," : "");
}

static void print_table(const JoinTable *table, Text *text)
{
    static const char *const shapes[] = {
        [SHAPE_BITS] = "bits", [SHAPE_DIRECT] = "direct", [SHAPE_HEADS] = "direct, chained", [SHAPE_HASH] = "hash"
    };
    text_add(text, "%s",
             table->shape == SHAPE_HASH && !table->is_unique   ? "hash, chained"
             : table->shape == SHAPE_HEADS && table->is_unique ? "direct to rows"
                                                               : shapes[table->shape]);
    if (table->filter) text_add(text, ", filter");
    if (table->shape != SHAPE_HASH || table->filter)
        text_add(text, " over %llu keys", (unsigned long long)table->span);
    for (int p = 0; p < table->n_payloads; p++)
        text_add(text, "%s%s in %d bits", p ? ", " : ": ", table->payloads[p].name, 8 * table->payloads[p].width);
}

static void print_list(const QueryRun *run, const Binding *list, int n, const char *before, Text *text)
{
    for (int i = 0; i < n; i++) {
        text_add(text, "%s", i ? ", " : before);
        expr_print(list[i].value, run->plan, text);
    }
}

static void print_sink(const QueryRun *run, const Pipeline *pipeline, Text *text)
{
    if (pipeline->sink == SINK_ROWS || pipeline->sink == SINK_VALUES) {
        text_add(text, "rows");
    } else if (pipeline->sink == SINK_GROUPS) {
        for (int a = 0; a < pipeline->n_aggs; a++) {
            text_add(text, "%s", a ? ", " : "");
            agg_print(&pipeline->aggs[a], run->plan, text);
        }
        if (!pipeline->n_aggs) text_add(text, "groups");
        print_list(run, pipeline->keys, pipeline->n_keys, " by ", text);
    } else {
        text_add(text, "table on ");
        print_list(run, pipeline->keys, pipeline->n_keys, "", text);
        if (!pipeline->n_keys) text_add(text, "nothing (cross join)");
        for (int p = 0; p < pipeline->n_payload; p++)
            text_add(text, "%s%s", p ? ", " : " -> ", run->plan->columns[pipeline->payload[p].column].name);
    }
}

static void indent(Text *text, int depth) { text_add(text, "%*s", 4 * depth, ""); }

// "9 x 115 blocks of 256 threads x 8 rows, 40 registers, 12.3 kB shared, occupancy 75 %, 3 launches"
static void print_shape(const KernelReport *kernel, Text *text)
{
    const GpuFigures *gpu = &kernel->gpu;
    text_add(text, "%u x %u blocks of %d threads x %d rows, %d registers, ", gpu->grid_x, gpu->grid_y, gpu->threads,
             gpu->items, gpu->registers);
    print_bytes(text, gpu->shared_bytes);
    text_add(text, " shared, occupancy %d %%, %d launch%s", gpu->occupancy, gpu->n_launches,
             gpu->n_launches == 1 ? "" : "es");
    if (gpu->n_repeats)
        text_add(text, " (begun anew %d time%s for lack of room)", gpu->n_repeats, gpu->n_repeats == 1 ? "" : "s");
}

static void print_rate(const KernelReport *kernel, Text *text)
{
    const GpuFigures *gpu = &kernel->gpu;
    const double      rate_gbs = (double)kernel->bytes_read / gpu->kernel_ms * 1e-6;
    text_add(text, "kernels %.3f ms", gpu->kernel_ms);
    if (!kernel->bytes_read) return;
    text_add(text, " at %.*f GB/s", rate_gbs < 10, rate_gbs);
    if (gpu->peak_gbs >= 1)
        text_add(text, " (%.0f %% of the %s %.0f)", 100 * rate_gbs / gpu->peak_gbs,
                 gpu->is_peak_measured ? "measured" : "nominal", gpu->peak_gbs);
}

// "kernels 0.500 ms at 4200 GB/s (93 % of the measured 4500), 1.2 GB over the link"
static void print_transfer(const KernelReport *kernel, Text *text)
{
    const GpuFigures *gpu = &kernel->gpu;
    if (gpu->kernel_ms > 0) print_rate(kernel, text);
    if (gpu->bytes_host) {
        text_add(text, gpu->kernel_ms > 0 ? ", " : "");
        print_bytes(text, (double)gpu->bytes_host);
        text_add(text, " over the link");
        if (gpu->bytes_straight)
            text_add(text, " (%.0f %% from pinned columns)",
                     100 * (double)gpu->bytes_straight / (double)gpu->bytes_host);
    }
    if (kernel->reads_kept)
        text_add(text, "%s%sits rows were in the memory of %s", gpu->kernel_ms > 0 || gpu->bytes_host ? ", " : "",
                 gpu->bytes_host ? "" : "0 B over the link: ", kernel->device->name);
    if (gpu->bytes_in_place) {
        text_add(text, gpu->kernel_ms > 0 || gpu->bytes_host ? ", " : "");
        print_bytes(text, (double)gpu->bytes_in_place);
        text_add(text, " of columns left in the host's memory");
    }
}

// "predicted 3 running rounds, occupancy 75 %, limited by registers; measured 0.123 ms"
static void print_predicted(const KernelReport *kernel, Text *text)
{
    const GpuFigures *gpu = &kernel->gpu;
    text_add(text, "predicted %lld running round%s, occupancy %.0f %%, limited by %s", (long long)gpu->rounds,
             gpu->rounds == 1 ? "" : "s", 100 * gpu->model_occupancy, gpu->limit);
    if (gpu->kernel_ms > 0) text_add(text, "; measured %.3f ms", gpu->kernel_ms);
}

// "its rows stay in the memory of cuda:0: 1.2 MB, put together in 0.010 ms"
static void print_kept(const KernelReport *kernel, Text *text)
{
    text_add(text, "its rows stay in the memory of %s: ", kernel->device->name);
    print_bytes(text, (double)kernel->bytes_kept);
    if (kernel->keep_ms > 0) text_add(text, ", put together in %.3f ms", kernel->keep_ms);
}

static void print_gpu_line(const KernelReport *kernel, void (*print)(const KernelReport *, Text *), int depth,
                           Text *text)
{
    indent(text, depth);
    text_add(text, "    ");
    print(kernel, text);
    text_add(text, "\n");
}

static void print_gpu(const KernelReport *kernel, int depth, Text *text)
{
    const GpuFigures *gpu = &kernel->gpu;
    print_gpu_line(kernel, print_shape, depth, text);
    if (gpu->rounds) print_gpu_line(kernel, print_predicted, depth, text);
    if (gpu->kernel_ms > 0 || gpu->bytes_host || gpu->bytes_in_place || kernel->reads_kept)
        print_gpu_line(kernel, print_transfer, depth, text);
    if (kernel->bytes_kept) print_gpu_line(kernel, print_kept, depth, text);
}

// "; over joins: 61 classes, 128 slots, 51,200 cells"
static void print_body(const BodyFigures *body, Text *text)
{
    if (!body->n_classes) return;
    text_add(text, "; %s: ", body->is_over_joins ? "over joins" : "over columns");
    print_count(text, body->n_classes);
    text_add(text, " classes, ");
    print_count(text, body->n_slots);
    text_add(text, " slots, ");
    print_count(text, body->n_cells);
    text_add(text, " cells");
}

// ", cc", or ", tcc then cc (3 and 40 morsels)"
static void print_tiers(const KernelReport *kernel, Text *text)
{
    static const JitTier in_turn[] = { TIER_TCC, TIER_PROGRAM, TIER_CC };
    Text                 morsels = { 0 };
    int                  n = 0;
    for (int i = 0; i < COUNT_OF(in_turn); i++) {
        if (!kernel->morsels[in_turn[i]]) continue;
        text_add(text, n ? " then %s" : ", %s", jit_tier_name(in_turn[i]));
        text_add(&morsels, n++ ? " and %u" : "%u", kernel->morsels[in_turn[i]]);
    }
    if (!n) text_add(text, ", nothing to run");
    if (n > 1) text_add(text, " (%s morsels)", morsels.bytes);
    text_free(&morsels);
}

static void print_kernel_figures(const KernelReport *kernel, int depth, Text *text)
{
    indent(text, depth);
    text_add(text, "  %s on %s", kernel->label, kernel->device->name);
    if (kernel->unsuited) text_add(text, " (not on a GPU: %s)", kernel->unsuited);
    if (!kernel->gpu.threads) {
        print_tiers(kernel, text);
        text_add(text, ", %d thread%s", kernel->n_workers, kernel->n_workers == 1 ? "" : "s");
    }
    text_add(text, ": rows in ");
    print_count(text, kernel->rows_in);
    text_add(text, ", out ");
    print_count(text, kernel->rows_out);
    text_add(text, ", read ");
    print_bytes(text, (double)kernel->bytes_read);
    text_add(text, ", chunks read %d, skipped %d, time %.2f ms", kernel->chunks_read, kernel->chunks_skipped,
             kernel->time_ms);
    if (kernel->compile_ms >= 0.005) text_add(text, " + %.2f ms to get the code", kernel->compile_ms);
    if (kernel->gpu.count_ms >= 0.005) text_add(text, " + %.2f ms to count rows step by step", kernel->gpu.count_ms);
    if (kernel->gpu.is_quick) text_add(text, "; better code is compiled meanwhile");
    if (kernel->gpu.is_generic)
        text_add(text, "; by the generic kernel, %d operations", kernel->gpu.n_generic_ops);
    if (kernel->meanwhile) text_add(text, "; code for %s is compiled meanwhile", kernel->meanwhile);
    text_add(text, "\n");
    if (kernel->n_runs) {
        indent(text, depth);
        text_add(text, "    ");
        print_count(text, kernel->groups_in_runs);
        text_add(text, " groups in %d run%s of %d partitions in temporary files\n", kernel->n_runs,
                 kernel->n_runs == 1 ? "" : "s", GROUP_PARTITIONS);
    }
    if (kernel->gpu.threads) print_gpu(kernel, depth, text);
    if (kernel->n_beside) {
        indent(text, depth);
        text_add(text, "    got on a running scan after %.2f ms, beside %d others; ", kernel->wait_ms,
                 kernel->n_beside);
        if (!kernel->woven_as) {
            text_add(text, "side by side\n");
        } else {
            text_add(text, "%s with %d of them (expected gain %.1f", kernel->woven_as, kernel->n_woven - 1,
                     kernel->gain);
            print_body(&kernel->body, text);
            text_add(text, "), so rows are not counted step by step\n");
        }
    }
    for (int c = 0; !kernel->woven_as && c < kernel->woven->n_counts; c++) {
        indent(text, depth);
        text_add(text, "    after %s: ", kernel->woven->counts[c].what);
        print_count(text, kernel->counts[c]);
        text_add(text, " rows\n");
    }
}

static void print_condition(const QueryRun *run, const char *what, const Expr *condition, int depth, Text *text)
{
    indent(text, depth);
    text_add(text, "%s ", what);
    expr_print(condition, run->plan, text);
    text_add(text, "\n");
}

static void print_finish(const QueryRun *run, const Pipeline *pipeline, int depth, Text *text)
{
    const Finish *finish = &pipeline->finish;
    const char   *having = pipeline->sink == SINK_GROUPS ? "having" : "where";
    for (int c = 0; c < finish->n_conditions; c++) print_condition(run, having, finish->conditions[c], depth, text);
    if (finish->n_sort) indent(text, depth);
    for (int k = 0; k < finish->n_sort; k++)
        text_add(text, "%s%s%s%s",
                 k                       ? ", "
                 : finish->run_more || finish->run_skipped ? "some of each, by "
                 : finish->n_distinct_on ? "first of each, by "
                                         : "sort by ",
                 run->plan->columns[finish->sort[k].column].name, finish->sort[k].descending ? " desc" : "",
                 k + 1 == finish->n_sort ? "\n" : "");
    if (finish->limit >= 0) indent(text, depth), text_add(text, "limit %lld\n", (long long)finish->limit);
    if (finish->offset > 0) indent(text, depth), text_add(text, "offset %lld\n", (long long)finish->offset);
}

static void print_need(WeaveNeed need, WeaveNeed limits, Text *text)
{
    if (limits.registers) text_add(text, "%d registers", need.registers);
    if (!limits.shared_bytes) return;
    text_add(text, limits.registers ? ", " : "");
    print_bytes(text, (double)need.shared_bytes);
    text_add(text, " shared");
}

// "split before join b: about 18 registers so far, 24 registers with join b, the budget is 20 registers; stores about
// 14400 rows of 3 columns, 345.6 kB"
static void print_split(const SplitReport *split, int depth, Text *text)
{
    const WeaveCut *cut = &split->cut;
    indent(text, depth);
    text_add(text, "  split before %s: about ", split->before);
    print_need(cut->need, split->budget, text);
    text_add(text, " so far, ");
    print_need(cut->passed, split->budget, text);
    text_add(text, " with %s, the budget is ", split->passed_by);
    print_need(split->budget, split->budget, text);
    text_add(text, "; stores about %.0f rows of %d column%s, ", cut->n_rows, cut->n_columns,
             cut->n_columns == 1 ? "" : "s");
    print_bytes(text, cut->bytes);
    text_add(text, "\n");
}

static void print_built(const PipelineReport *figures, int depth, Text *text)
{
    if (!figures || !figures->table) return;
    indent(text, depth);
    text_add(text, "  table: ");
    if (figures->n_parts) text_add(text, "in %d parts, one after the other", figures->n_parts);
    else print_table(figures->table, text);
    text_add(text, ", ");
    print_count(text, figures->table->n_rows);
    text_add(text, " rows, ");
    print_bytes(text, (double)figures->table->bytes);
    if (figures->table->remote)
        text_add(text, ", built in %.3f ms by %s\n", figures->build_ms, remote_device(figures->table->remote));
    else text_add(text, ", built in %.2f ms by cpu\n", figures->build_ms);
}

static void print_source(const QueryRun *run, const Pipeline *pipeline, Text *text)
{
    if (!pipeline->table) {
        text_add(text, "%s", pipeline->sink == SINK_VALUES ? "values" : "read");
        for (int i = 0; i < pipeline->n_inputs; i++)
            text_add(text, "%s pipeline %d", i ? "," : "", pipeline->inputs[i] + 1);
        return;
    }
    text_add(text, "scan %s", pipeline->table->name);
    if (strcmp(pipeline->name, pipeline->table->name) != 0) text_add(text, " as %s", pipeline->name);
}

const Repeat *explain_repeat(const QueryRun *run, int number)
{
    for (int r = 0; r < run->graph->n_repeats; r++)
        if (run->graph->repeats[r].last == number) return &run->graph->repeats[r];
    return NULL;
}

static void print_pipeline(const QueryRun *run, int number, int depth, bool with_figures, Text *text);

static void print_probe(const QueryRun *run, const Probe *probe, int depth, bool with_figures, Text *text)
{
    static const char *const names[] = {
        [JOIN_INNER] = "join",     [JOIN_LEFT] = "left join",     [JOIN_SEMI] = "semi-join",
        [JOIN_ANTI] = "anti-join", [JOIN_SINGLE] = "single join", [JOIN_MARK] = "mark join"
    };
    indent(text, depth);
    text_add(text, "  %s", names[probe->join]);
    for (int k = 0; k < probe->n_keys; k++) {
        text_add(text, "%s", k ? " and " : " ");
        expr_print(probe->keys[k], run->plan, text);
        text_add(text, " = ");
        expr_print(run->graph->pipelines[probe->build].keys[k].value, run->plan, text);
    }
    if (probe->residual) {
        text_add(text, " if ");
        expr_print(probe->residual, run->plan, text);
    }
    text_add(text, "\n");
    print_pipeline(run, probe->build, depth + 1, with_figures, text);
}

// Window functions are not computed by kernels, wherever the pipeline runs.
static void print_windows(const QueryRun *run, const FinishWindows *windows, const PipelineReport *figures, int depth,
                          Text *text)
{
    indent(text, depth);
    text_add(text, "window ");
    window_print(run->plan, windows->windows, windows->keys, text);
    text_add(text, "\n");
    if (!figures) return;
    indent(text, depth);
    text_add(text, "  by the host, %d thread%s: rows ", run->session->settings.threads,
             run->session->settings.threads == 1 ? "" : "s");
    print_count(text, figures->window_rows);
    text_add(text, ", time %.2f ms\n", figures->window_ms);
}

// "  sorted on cuda:0: rows 4,300,000, key of 23 bits, 3 passes, kernels 0.41 ms, time 3.52 ms"
static void print_sort(const SortReport *sort, int depth, Text *text)
{
    if (!sort->device && !sort->refused) return;
    indent(text, depth);
    if (!sort->device) {
        text_add(text, "  sorted on cpu (not on a GPU: %s)\n", sort->refused);
        return;
    }
    text_add(text, "  sorted on %s: rows ", sort->device->name);
    print_count(text, sort->n_rows);
    text_add(text, ", key of %d bit%s, %d pass%s", sort->n_bits, sort->n_bits == 1 ? "" : "s", sort->n_passes,
             sort->n_passes == 1 ? "" : "es");
    if (sort->n_sorts > 1) text_add(text, ", the last of %d sorts", sort->n_sorts);
    if (sort->kernel_ms > 0) text_add(text, ", kernels %.2f ms", sort->kernel_ms);
    text_add(text, ", time %.2f ms\n", sort->time_ms);
}

// "  repeat, union, until a round adds no row: 5 rounds, 5 rows, time 1.20 ms after the first, whose kernels these are"
static void print_rounds(const QueryRun *run, int number, const PipelineReport *figures, int depth, Text *text)
{
    const Repeat *repeat = explain_repeat(run, number);
    if (!repeat) return;
    indent(text, depth);
    text_add(text, "  repeat over what pipeline %d and the last round added, union%s, until a round adds no row",
             repeat->first + 1, repeat->is_all ? " all" : "");
    if (figures && figures->n_rounds) {
        text_add(text, ": ");
        print_count(text, figures->n_rounds);
        text_add(text, " round%s, ", figures->n_rounds == 1 ? "" : "s");
        print_count(text, figures->n_round_rows);
        text_add(text, " rows, time %.2f ms after the first round, whose kernels are shown", figures->rounds_ms);
    }
    text_add(text, "\n");
}

static void print_pipeline(const QueryRun *run, int number, int depth, bool with_figures, Text *text)
{
    const Pipeline       *pipeline = &run->graph->pipelines[number];
    const PipelineReport *figures = with_figures ? &run->reports[number] : NULL;
    if (pipeline->sink != SINK_TABLE) print_finish(run, pipeline, depth, text);
    if (pipeline->finish.windows) print_windows(run, pipeline->finish.windows, figures, depth, text);
    indent(text, depth);
    text_add(text, "pipeline %d: ", number + 1);
    print_source(run, pipeline, text);
    if (pipeline->param >= 0) text_add(text, " -> $%d", pipeline->param + 1);
    text_add(text, " -> ");
    print_sink(run, pipeline, text);
    text_add(text, "  (rows %.0f, estimated out %.0f)\n", pipeline->rows_in, pipeline->rows_out);
    print_rounds(run, number, figures, depth, text);
    for (int f = 0; f < pipeline->n_filters; f++) print_condition(run, "  filter", pipeline->filters[f], depth, text);
    for (int l = 0; l < pipeline->n_lets; l++) print_condition(run, "  compute", pipeline->lets[l].value, depth, text);
    for (int s = 0; s < run->reports[number].n_splits; s++) print_split(&run->reports[number].splits[s], depth, text);
    for (int k = 0; figures && k < figures->n_kernels; k++) print_kernel_figures(&figures->kernels[k], depth, text);
    if (figures) print_sort(&figures->sort, depth, text);
    print_built(figures, depth, text);
    for (int p = 0; p < pipeline->n_probes; p++) print_probe(run, &pipeline->probes[p], depth, with_figures, text);
    for (int i = 0; i < pipeline->n_inputs; i++) {
        bool is_first = true;          // a shared subplan is shown where it is first read
        for (int p = number + 1; p < run->graph->n_pipelines; p++)
            for (int q = 0; q < run->graph->pipelines[p].n_inputs; q++)
                is_first &= run->graph->pipelines[p].inputs[q] != pipeline->inputs[i];
        if (is_first) print_pipeline(run, pipeline->inputs[i], depth + 1, with_figures, text);
    }
}

static void print_memory(const ClaimFigures *figures, Text *text)
{
    text_add(text, "memory: estimated ");
    print_bytes(text, (double)figures->wanted);
    text_add(text, ", used at most ");
    print_bytes(text, (double)figures->most);
    text_add(text, ", waited %.2f ms to be admitted%s\n", figures->waited_ms,
             figures->is_alone ? ", alone after meeting the memory limit" : "");
}

// A query uses one GPU: that is asked once, so that all kernels are compared with the same.
static void learn_peak(QueryRun *run)
{
    GpuFigures told = { 0 };
    bool       is_told = false;
    for (int p = 0; p < run->graph->n_pipelines; p++)
        for (int k = 0; k < run->reports[p].n_kernels; k++) {
            KernelReport *kernel = &run->reports[p].kernels[k];
            if (kernel->gpu.kernel_ms <= 0 || !kernel->device->tell_peak) continue;
            if (!is_told) kernel->device->tell_peak(kernel->device, &told);
            is_told = true;
            kernel->gpu.peak_gbs = told.peak_gbs, kernel->gpu.is_peak_measured = told.is_peak_measured;
        }
}

void explain_plan(QueryRun *run, bool with_figures, Text *text)
{
    if (with_figures) learn_peak(run);
    for (int p = 0; p < run->graph->n_pipelines - 1; p++)
        if (run->graph->pipelines[p].param >= 0) print_pipeline(run, p, 0, with_figures, text);
    print_pipeline(run, run->graph->n_pipelines - 1, 0, with_figures, text);
    if (!with_figures) return;
    if (run->is_empty) {
        text_add(text, "no row can come out: nothing was run\n");
        return;
    }
    if (!run->claim) return;           // it has no kernel
    const ClaimFigures figures = claim_figures(run->claim);
    print_memory(&figures, text);
}

// ---- the network ----------------------------------------------------------------------------------------------------

// Served by one kernel, or by one sieve, as far as can be told from outside; or by a kernel each, of one name.
static bool is_same_body(const RiderFigures *a, const RiderFigures *b)
{
    if (strcmp(a->table, b->table) != 0 || a->n_woven != b->n_woven) return false;
    if (!a->n_woven) return strcmp(a->kernel, b->kernel) == 0;
    return strcmp(a->woven_as, b->woven_as) == 0 && strcmp(a->body.kernel, b->body.kernel) == 0 &&
           a->gain == b->gain && a->body.n_classes == b->body.n_classes && a->body.n_cells == b->body.n_cells;
}

// "one body of 20 queries, kernel c_9c41d07e (expected gain 8.1; over joins: 61 classes, 128 slots, 51,200 cells)"
static void print_way(const RiderFigures *rider, int n_riders, Text *text)
{
    if (!rider->n_woven) {
        text_add(text, "  %s: kernel %s\n", rider->n_fellow ? "side by side" : "alone", rider->kernel);
        return;
    }
    text_add(text, "  %s, %d queries", rider->woven_as, n_riders);
    if (n_riders != rider->n_woven) text_add(text, ", %d at a time", rider->n_woven);
    if (rider->body.kernel[0]) text_add(text, ": kernel %s", rider->body.kernel);
    text_add(text, " (expected gain %.1f", rider->gain);
    print_body(&rider->body, text);
    text_add(text, ")\n");
}

static void print_rider(const RiderFigures *rider, Text *text)
{
    text_add(text, "    query %llu: %s, kernel %s, chunk %d of %d\n", (unsigned long long)rider->query, rider->label,
             rider->kernel, rider->n_chunks_done, rider->n_chunks);
}

static void print_claim(const ClaimFigures *claim, Text *text)
{
    text_add(text, "    query %llu: ", (unsigned long long)claim->query);
    if (claim->position)
        text_add(text, "waiting for memory, place %d, priority %d, for %.0f ms, wants ", claim->position,
                 claim->priority, claim->waited_ms);
    else text_add(text, "running, priority %d, waited %.0f ms, wanted ", claim->priority, claim->waited_ms);
    print_bytes(text, (double)claim->wanted);
    if (claim->position) {
        text_add(text, "%s\n", claim->is_alone ? ", alone" : "");
        return;
    }
    text_add(text, ", reserved ");
    print_bytes(text, (double)claim->reserved);
    text_add(text, ", uses ");
    print_bytes(text, (double)claim->used);
    text_add(text, "%s\n", claim->is_alone ? ", alone" : "");
}

static void print_queue(const weft_db *db, const ClaimFigures *claims, int n_claims, Text *text)
{
    const i64 limit = atomic_load(&db->budget.limit);
    if (!n_claims) return;
    text_add(text, "memory: ");
    print_bytes(text, (double)atomic_load(&db->budget.used));
    text_add(text, " in use, limit ");
    if (limit) print_bytes(text, (double)limit);
    else text_add(text, "none");
    text_add(text, "\n");
    for (int i = 0; i < n_claims; i++) print_claim(&claims[i], text);
}

// What sharing gained so far, as it was counted.
static void print_scan(const DeviceFigures *figures, const char *table, Text *text)
{
    text_add(text, "scan of %s\n", table);
    for (int s = 0; s < figures->n_scans; s++) {
        const ScanFigures *scan = &figures->scans[s];
        if (strcmp(scan->table, table) != 0 || !scan->chunks_read) continue;
        text_add(text, "  so far: a read served %.1f queries", (double)scan->chunks_ridden / (double)scan->chunks_read);
        if (scan->chunks_woven)
            text_add(text, "; where a kernel or sieve was shared, by %.1f",
                     (double)scan->chunks_woven_ridden / (double)scan->chunks_woven);
        text_add(text, "\n");
    }
}

static void print_bodies(const RiderFigures *riders, int n_riders, const char *table, bool *is_printed, Text *text)
{
    for (int i = 0; i < n_riders; i++) {
        int n = 0;
        if (is_printed[i] || strcmp(riders[i].table, table) != 0) continue;
        for (int j = i; j < n_riders; j++) n += !is_printed[j] && is_same_body(&riders[i], &riders[j]);
        print_way(&riders[i], n, text);
        for (int j = i; j < n_riders; j++) {
            if (is_printed[j] || !is_same_body(&riders[i], &riders[j])) continue;
            print_rider(&riders[j], text);
            is_printed[j] = true;
        }
    }
}

static void print_as_text(const DeviceFigures *figures, Arena *arena, Text *text)
{
    bool *is_printed = arena_array(arena, bool, figures->n_riders + 1);
    if (!figures->n_riders) text_add(text, "nothing runs\n");
    for (int i = 0; i < figures->n_riders; i++) {
        if (is_printed[i]) continue;
        print_scan(figures, figures->riders[i].table, text);
        print_bodies(figures->riders, figures->n_riders, figures->riders[i].table, is_printed, text);
    }
}

// Names in quotes; a quote or backslash in a table's name would end the string.
static void print_quoted(const char *name, Text *text)
{
    text_add(text, "\"");
    for (; *name; name++) text_add(text, "%s%c", *name == '"' || *name == '\\' ? "\\" : "", *name);
    text_add(text, "\"");
}

static void print_waiting_as_dot(const ClaimFigures *claims, int n_claims, Text *text)
{
    for (int i = 0; i < n_claims; i++) {
        if (!claims[i].position) continue;
        text_add(text, "  \"memory\" [shape = house];\n  \"memory\" -> \"query %llu\" [label = \"waits, place %d: ",
                 (unsigned long long)claims[i].query, claims[i].position);
        print_bytes(text, (double)claims[i].wanted);
        text_add(text, "\", style = dashed];\n");
    }
}

static void print_as_dot(const RiderFigures *riders, int n_riders, const ClaimFigures *claims, int n_claims, Text *text)
{
    text_add(text, "digraph network {\n  rankdir = LR;\n");
    for (int i = 0; i < n_riders; i++) {
        text_add(text, "  ");
        print_quoted(riders[i].table, text);
        text_add(text, " [shape = cylinder];\n  \"%s\" [shape = box];\n  ", riders[i].kernel);
        print_quoted(riders[i].table, text);
        text_add(text, " -> \"%s\" [label = \"%s\"];\n", riders[i].kernel,
                 riders[i].n_woven ? riders[i].woven_as : "");
        text_add(text, "  \"%s\" -> \"query %llu\" [label = \"%d / %d\"];\n", riders[i].kernel,
                 (unsigned long long)riders[i].query, riders[i].n_chunks_done, riders[i].n_chunks);
    }
    print_waiting_as_dot(claims, n_claims, text);
    text_add(text, "}\n");
}

void explain_network(weft_db *db, Arena *arena, bool as_dot, Text *text)
{
    const DeviceFigures figures = gpus_figures_with(db->gpus, db->cpu, arena);
    ClaimFigures       *claims;
    int                 n_claims;
    admission_list(db->admission, arena, &claims, &n_claims);
    if (as_dot) {
        print_as_dot(figures.riders, figures.n_riders, claims, n_claims, text);
        return;
    }
    print_as_text(&figures, arena, text);
    print_queue(db, claims, n_claims, text);
}
