// segments.c - a pipeline as a list of segments, a kernel each: where it is split, and why.
//
//     scan -> filter -> join -> join -> sum            weave = on:             one segment, normally
//     scan -> filter -> join -|-> join -> sum          weave_budget passed:    cut where the fewest bytes flow
//     scan -> filter -|-> join -|-> join -|-> sum      weave = off:            every step, and the sink
//
// weave/budget.c has the model and the search; here is what the engine knows: the budget, and how many rows each step
// lets pass.  A table that is built says it better than the plan, so the decision is made when the pipeline's turn has
// come.  EXPLAIN does not build: it shows what the plan expects.

#include "engine/engine.h"

// What the compiler may give a thread, on every NVIDIA GPU that is used.  Shared memory has no limit of its own: what
// does not fit stays in the device's memory (device/gpu_kernel.c).
#define GPU_REGISTERS 255

// ---- what the plan expects, before anything is built ----------------------------------------------------------------

static u8 expected_width(Range range)
{
    return range.known && (double)range.high - (double)range.low < 4e9 ? 4 : 8;
}

static void expect_payload(QueryRun *run, const Binding *binding, Payload *payload)
{
    const Range range = plan_range(run->plan, binding->value);
    *payload = (Payload){ .id = binding->column,
                          .name = run->plan->columns[binding->column].name,
                          .type = binding->value->type,
                          .range = range,
                          .width = expected_width(range) };
}

JoinTable *expected_table(QueryRun *run, int number)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    JoinTable      *table = arena_make(run->arena, JoinTable);
    double          n_distinct = 1;
    for (int k = 0; k < pipeline->n_keys; k++) n_distinct *= plan_distinct_of(run->plan, pipeline->keys[k].value);
    *table = (JoinTable){ .name = pipeline->name,
                          .shape = !pipeline->n_payload ? SHAPE_BITS : pipeline->n_keys > 1 ? SHAPE_HASH : SHAPE_DIRECT,
                          .is_unique = n_distinct >= pipeline->rows_out,
                          .n_keys = pipeline->n_keys,
                          .n_rows = (u64)pipeline->rows_out,
                          .n_scanned = (u64)pipeline->rows_in,
                          .n_distinct = (u64)MIN_OF(n_distinct, pipeline->rows_out),
                          .n_payloads = pipeline->n_payload,
                          .payloads = arena_array(run->arena, Payload, pipeline->n_payload + 1) };
    for (int p = 0; p < pipeline->n_payload; p++) {
        expect_payload(run, &pipeline->payload[p], &table->payloads[p]);
        table->bytes += table->n_rows * table->payloads[p].width;
    }
    if (table->shape == SHAPE_BITS) table->bytes = table->n_rows / 8;
    return table;
}

Source *expected_source(QueryRun *run, const Pipeline *pipeline)
{
    Source *source = arena_make(run->arena, Source);
    *source = (Source){ .name = pipeline->name, .n_rows = (u64)pipeline->rows_in, .n_columns = pipeline->n_columns };
    source->columns = arena_array(run->arena, SourceColumn, pipeline->n_columns + 1);
    for (int c = 0; c < pipeline->n_columns; c++) {
        const Expr *column = plan_column_expr_in(run->arena, run->plan, pipeline->columns[c]);
        source->columns[c] = (SourceColumn){ .id = column->column,
                                             .name = run->plan->columns[column->column].name,
                                             .type = column->type,
                                             .width = 8,
                                             .range = plan_range(run->plan, column) };
    }
    return source;
}

// ---- rows that a step lets pass -------------------------------------------------------------------------------------

// The share of the scanned rows that entered the table, or more where keys repeat.
double probe_pass_rate(ProbeKind probe, const JoinTable *table)
{
    const double share = (double)table->n_rows / (double)MAX_OF(table->n_scanned, 1);
    switch (probe) {
        case PROBE_MARK: case PROBE_LEFT: case PROBE_SINGLE: return 1;
        case PROBE_ANTI: return 1 - 0.5 * MIN_OF(share, 1);
        case PROBE_INNER:
            if (table->is_unique || table->shape == SHAPE_BITS) return share;
            return 1 + (double)table->n_rows / (double)MAX_OF(table->n_distinct, 1);
        default: return share;
    }
}

static const double *pass_of_steps(QueryRun *run, const WeaveJob *job)
{
    double *pass = arena_array(run->arena, double, job->n_steps + 1);
    for (int s = 0; s < job->n_steps; s++) {
        const WeaveStep *step = &job->steps[s];
        pass[s] = step->table    ? probe_pass_rate(step->probe, step->table)
                  : step->filter ? plan_selectivity(run->plan, step->filter)
                                 : 1;
    }
    return pass;
}

// ---- the budget -----------------------------------------------------------------------------------------------------

static bool may_run_on_gpu(const QueryRun *run, u64 n_rows)
{
    const Settings *settings = &run->session->settings;
    if (run->must_use_cpu || settings->device == DEVICE_CPU) return false;
    return settings->device == DEVICE_CUDA || (n_rows >= GPU_ROWS && gpus_is_wanted(run->session->db->gpus));
}

static WeaveNeed budget_of(const QueryRun *run, const WeaveJob *job)
{
    WeaveNeed budget = run->session->settings.weave_budget;
    if (!budget.registers && may_run_on_gpu(run, job->source->n_rows)) budget.registers = GPU_REGISTERS;
    return budget;
}

static bool is_within(WeaveNeed need, WeaveNeed budget)
{
    return (!budget.registers || need.registers <= budget.registers) &&
           (!budget.shared_bytes || need.shared_bytes <= budget.shared_bytes);
}

bool segments_may_be_many(const QueryRun *run)
{
    const Settings *settings = &run->session->settings;
    return !settings->weave || settings->weave_budget.registers || settings->weave_budget.shared_bytes;
}

// ---- segments -------------------------------------------------------------------------------------------------------

static int cut_everywhere(QueryRun *run, const WeaveJob *job, WeaveCut **cuts)
{
    *cuts = arena_array(run->arena, WeaveCut, job->n_steps + 1);
    for (int s = 0; s < job->n_steps; s++) (*cuts)[s].before = s + 1;
    return job->n_steps;
}

static const char *step_name(const QueryRun *run, const WeaveJob *job, int number)
{
    const WeaveStep *step = &job->steps[number];
    Text             text = { 0 };
    if (number == job->n_steps) return "the sink";
    if (step->table) return arena_printf(run->own, "%s %s", weave_join_name(step), step->table->name);
    text_add(&text, step->filter ? "filter " : "compute ");
    expr_print(step->filter ? step->filter : step->value, run->plan, &text);
    return text_keep(run->own, &text);
}

static void report_splits(const QueryRun *run, int pipeline, const WeaveJob *job, WeaveNeed budget,
                          const WeaveCut *cuts, int n_cuts)
{
    PipelineReport *report = &run->reports[pipeline];
    for (int c = 0; c < n_cuts; c++)
        *LIST_PUSH(run->own, report->splits, report->n_splits) =
            (SplitReport){ .cut = cuts[c],
                           .budget = budget,
                           .before = step_name(run, job, cuts[c].before),
                           .passed_by = step_name(run, job, cuts[c].passed_by) };
}

// Nearly always all of it is within the budget; then nothing is estimated of its rows.
int segments_of(QueryRun *run, int pipeline, const WeaveJob *job, WeaveCut **cuts)
{
    const WeaveNeed budget = budget_of(run, job);
    *cuts = NULL;
    if (!run->session->settings.weave) return cut_everywhere(run, job, cuts);
    if (!budget.registers && !budget.shared_bytes) return 0;
    if (is_within(weave_need(run->arena, job, 0, job->n_steps + 1), budget)) return 0;
    const int n_cuts = weave_split(run->arena, job, budget, pass_of_steps(run, job), cuts);
    if (run->is_explained) report_splits(run, pipeline, job, budget, *cuts, n_cuts);
    return n_cuts;
}
