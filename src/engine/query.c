// query.c - a query's pipelines, run in order: each is woven, compiled and pushed through a device.
//
// Weaving on, a pipeline is one kernel, or several where one would need more than weave_budget (segments.c): rows are
// stored and read again between two of them.  Weaving off, every step is a kernel of its own: slower, and a second
// implementation that all answers are compared with.
// A pipeline is woven when the tables it probes are built, so their real hit rates order the probes and their real
// contents decide the shape of the text.

#include "engine/engine.h"
#include "engine/kinds.h"
#include "engine/network.h"
#include "engine/remote.h"
#include "engine/repeat.h"
#include "engine/spill.h"
#include "engine/wide.h"
#include "plan/window.h"

#include <stdlib.h>

// A scan that takes tcc's code longer than this is worth cc's while it runs; shorter ones get it for the next time.
#define IMPROVE_NOW_MS 100.0
#define TCC_NS_PER_ROW_AND_STEP \
    1.0  // SSB's scans took 0.4 to 0.6 on a Neoverse V1, 0.5 to 1.7 on a Xeon; arithmetic takes more

// A row that meets more rows than this takes so long that nobody else should wait for it.
#define FAN_OUT_SHARED 16384.0

// Code for a GPU that is not there yet is waited for (100 to 600 ms) unless the CPU will be done sooner: then the CPU
// runs the pipeline, and the GPU's code is compiled meanwhile, for the next time.  It is begun when the query is done,
// so that the compiler does not take a core from it; at once where the CPU takes longer than this.
#define COMPILE_NOW_MS 100.0
#define GPU_CROWD      48              // queries: fewer share a sieve, which is quicker then,
#define GPU_CROWD_MS   10000           // and how long that counts

// ---- sources --------------------------------------------------------------------------------------------------------

static void add_word(QueryRun *run, const Table *table, int place, int id, int *chunk_column, Source *source)
{
    const ColumnRange known = table_column_range(table, place);
    const Range       range = { .known = true, .nullable = known.n_nulls > 0, .low = known.min, .high = known.max };
    chunk_column[source->n_columns] = place;
    source->columns[source->n_columns++] =
        (SourceColumn){ .id = id,
                        .name = wide_column_name(run, id),
                        .type = TYPE(BIGINT),
                        .width = known.width,
                        .range = range };
}

// A column of 128 bits is two of the source.
static void add_words(QueryRun *run, const Table *table, int place, int id, int *chunk_column, Source *source)
{
    add_word(run, table, place, id, chunk_column, source);
    add_word(run, table, table->columns[place].low, weave_low_id(id), chunk_column, source);
}

// Texts are read here, where it is known which columns the pipeline needs.
static weft_status table_source(QueryRun *run, const Pipeline *pipeline, const ColumnSet *needed, Source **out)
{
    const Table *table = pipeline->table;
    Source      *source = *out = arena_make(run->arena, Source);
    int         *chunk_column = arena_array(run->arena, int, 2 * pipeline->n_columns + 1);
    *source = (Source){ .name = pipeline->name,
                        .n_chunks = table->n_chunks,
                        .chunks = table->chunks,
                        .n_rows = table->n_rows,
                        .from_store = true };
    source->columns = arena_array(run->arena, SourceColumn, 2 * pipeline->n_columns + 1);
    source->chunk_column = chunk_column;
    for (int i = 0; i < pipeline->n_columns; i++) {
        const int     place = pipeline->places[i];
        const Column *column = &table->columns[place];
        const Range   range = plan_range_of_stored(table, place);
        if (!columns_has(needed, pipeline->columns[i])) continue;
        if (column->dict) TRY(dict_load(column->dict, run->err));
        if (column->low && !range_is_word(range)) {
            add_words(run, table, place, pipeline->columns[i], chunk_column, source);
            continue;
        }
        const int stored = column->low ? column->low : place;          // high words are all 0
        chunk_column[source->n_columns] = stored;
        source->columns[source->n_columns++] = (SourceColumn){
            .id = pipeline->columns[i],
            .name = column->name,
            .type = column->type,
            .dict = column->dict,
            .dict_count = column->dict_count,
            .width = table_column_range(table, stored).width,
            .range = range,
        };
    }
    return WEFT_OK;
}

// ---- steps: filters as early as they can be, probes by what they let through ----------------------------------------

typedef struct Steps {
    WeaveStep *steps;
    int        n_steps;
    ColumnSet  available;              // columns that are there
    bool      *filter_done, *probe_done, *let_done;
} Steps;

static void push_step(QueryRun *run, Steps *steps, WeaveStep step)
{
    *LIST_PUSH(run->arena, steps->steps, steps->n_steps) = step;
}

// Filters that may raise an error come after those that cannot, on fewer rows.
static void add_filters(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    for (int pass = 0; pass < 2; pass++)
        for (int f = 0; f < pipeline->n_filters; f++) {
            const Expr *filter = pipeline->filters[f];
            if (steps->filter_done[f] || expr_can_fail(filter) != (pass == 1) ||
                !expr_uses_only(filter, &steps->available))
                continue;
            push_step(run, steps, (WeaveStep){ .filter = filter });
            steps->filter_done[f] = true;
        }
}

// A computed column is made when a step that is due needs it: see next_step.
static bool add_lets(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    bool any = false;
    for (int i = 0; i < pipeline->n_lets; i++) {
        const Binding *let = &pipeline->lets[i];
        if (steps->let_done[i] || !expr_uses_only(let->value, &steps->available)) continue;
        push_step(run, steps, (WeaveStep){ .value = let->value, .let = let->column });
        columns_add(run->arena, &steps->available, let->column);
        steps->let_done[i] = any = true;
    }
    return any;
}

// A row whose key is NULL matches nothing: it never enters a table.
static weft_status add_key_filters(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    for (int k = 0; pipeline->sink == SINK_TABLE && k < pipeline->n_keys; k++) {
        Expr *filter, *key = pipeline->keys[k].value;
        if (!plan_range(run->plan, key).nullable) continue;
        TRY(expr_call(run->arena, OP_IS_NOT_NULL, &key, 1, key->at, &filter, run->err));
        push_step(run, steps, (WeaveStep){ .filter = filter });
    }
    return WEFT_OK;
}

// What a probe costs, about: where in the caches the table lies decides.
static double probe_cost(const JoinTable *table)
{
    const double size = (double)table->bytes, reach = size < 48e3 ? 1 : size < 700e3 ? 2 : size < 16e6 ? 4 : 12;
    return table->shape == SHAPE_HASH ? 2 * reach : reach;
}

static ProbeKind probe_kind(JoinKind join)
{
    static const ProbeKind kinds[] = {
        [JOIN_INNER] = PROBE_INNER, [JOIN_LEFT] = PROBE_LEFT,     [JOIN_SEMI] = PROBE_SEMI,
        [JOIN_ANTI] = PROBE_ANTI,   [JOIN_SINGLE] = PROBE_SINGLE, [JOIN_MARK] = PROBE_MARK
    };
    return kinds[join];
}

// Cheap tests that drop many rows first: cost per row dropped.  Those that drop none, or multiply rows, go last.
static double probe_rank(const Probe *probe, const JoinTable *table)
{
    const double pass = probe_pass_rate(probe_kind(probe->join), table);
    return pass < 0.999 ? probe_cost(table) / (1 - pass) : 1e6 * (pass + probe_cost(table) * 1e-3);
}

static bool uses_what_is_there(const QueryRun *run, const Expr *expr, const ColumnSet *available, int build)
{
    const Pipeline *pipeline = &run->graph->pipelines[build];
    if (expr->kind == EXPR_COLUMN && !columns_has(available, expr->column)) {
        for (int p = 0; p < pipeline->n_payload; p++)
            if (pipeline->payload[p].column == expr->column) return true;
        return false;
    }
    for (int i = 0; i < expr->n_args; i++)
        if (!uses_what_is_there(run, expr->args[i], available, build)) return false;
    return true;
}

static bool is_ready(const QueryRun *run, const Probe *probe, const ColumnSet *available)
{
    for (int k = 0; k < probe->n_keys; k++)
        if (!expr_uses_only(probe->keys[k], available)) return false;
    return !probe->residual || uses_what_is_there(run, probe->residual, available, probe->build);
}

static int best_probe(const QueryRun *run, const Pipeline *pipeline, const Steps *steps)
{
    int    best = -1;
    double best_rank = 0;
    for (int p = 0; p < pipeline->n_probes; p++) {
        const Probe *probe = &pipeline->probes[p];
        if (steps->probe_done[p] || !is_ready(run, probe, &steps->available)) continue;
        const double rank = probe_rank(probe, run->tables[probe->build]);
        if (best >= 0 && rank >= best_rank) continue;
        best = p, best_rank = rank;
    }
    return best;
}

static void add_probe(QueryRun *run, const Pipeline *pipeline, int number, Steps *steps)
{
    const Probe    *probe = &pipeline->probes[number];
    const Pipeline *build = &run->graph->pipelines[probe->build];
    push_step(run, steps,
              (WeaveStep){ .table = run->tables[probe->build],
                           .keys = probe->keys,
                           .probe = probe_kind(probe->join),
                           .residual = probe->residual,
                           .mark = probe->mark });
    steps->probe_done[number] = true;
    for (int p = 0; p < build->n_payload; p++)
        if (probe->join == JOIN_INNER || probe->join == JOIN_LEFT || probe->join == JOIN_SINGLE)
            columns_add(run->arena, &steps->available, build->payload[p].column);
    if (probe->join == JOIN_MARK) columns_add(run->arena, &steps->available, probe->mark);
}

// Filters as soon as they can be, then the best probe; what is computed comes when nothing else can go on, so on few
// rows.
static weft_status list_steps(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    *steps = (Steps){ 0 };
    steps->filter_done = arena_array(run->arena, bool, pipeline->n_filters + 1);
    steps->probe_done = arena_array(run->arena, bool, pipeline->n_probes + 1);
    steps->let_done = arena_array(run->arena, bool, pipeline->n_lets + 1);
    for (int c = 0; c < pipeline->n_columns; c++) columns_add(run->arena, &steps->available, pipeline->columns[c]);
    for (bool goes_on = true; goes_on;) {
        add_filters(run, pipeline, steps);
        const int probe = best_probe(run, pipeline, steps);
        if (probe >= 0) add_probe(run, pipeline, probe, steps);
        else goes_on = add_lets(run, pipeline, steps);
    }
    for (int f = 0; f < pipeline->n_filters; f++)
        if (!steps->filter_done[f])
            return fail(run->err, WEFT_INTERNAL, pipeline->filters[f]->at, "a filter has no columns");
    return add_key_filters(run, pipeline, steps);
}

// ---- one kernel -----------------------------------------------------------------------------------------------------

static KernelReport *report(QueryRun *run, int pipeline, const char *label, const Launch *launch, const Woven *woven)
{
    PipelineReport *reports = &run->reports[pipeline];
    KernelReport   *kernel = LIST_PUSH(run->own, reports->kernels, reports->n_kernels);
    *kernel = (KernelReport){ .label = label,
                              .woven = woven,
                              .device = launch ? launch->device : run->session->db->cpu };
    if (!launch) return kernel;
    const LaunchOutcome *out = &launch->out;
    memcpy(kernel->morsels, out->morsels, sizeof out->morsels);
    kernel->rows_in = out->rows_in, kernel->rows_out = out->rows_out, kernel->bytes_read = out->bytes_read;
    kernel->chunks_read = out->chunks_read, kernel->chunks_skipped = out->chunks_skipped,
    kernel->n_workers = out->n_workers;
    kernel->compile_ms = out->compile_ms;
    kernel->time_ms = out->time_ms, kernel->wait_ms = out->wait_ms, kernel->n_beside = out->n_beside;
    kernel->woven_as = out->woven_as, kernel->n_woven = out->n_woven, kernel->gain = out->gain;
    kernel->body = out->body;
    kernel->gpu = out->gpu;
    kernel->n_runs = out->n_runs, kernel->groups_in_runs = out->groups_in_runs;
    kernel->reads_kept = launch->source->kept != NULL;
    kernel->counts = arena_array(run->own, u64, woven->n_counts + 1);
    if (out->counts) memcpy(kernel->counts, out->counts, (size_t)woven->n_counts * sizeof(u64));
    return kernel;
}

static double expected_ms(const QueryRun *run, const WeaveJob *job)
{
    return (double)job->source->n_rows * (job->n_steps + 1) * TCC_NS_PER_ROW_AND_STEP * 1e-6 /
           run->session->settings.threads;
}

// More queries run than there are cores for them.  A compile then takes time from one of them.
static bool is_crowded(const QueryRun *run)
{
    const weft_db *db = run->session->db;
    return db->n_running > network_threads(db->network);
}

// Each row meets very many: it is not the rows that are read which take the time.
static double times_each_row(const Woven *woven) { return woven->fan_out > FAN_OUT_SHARED ? woven->fan_out : 1; }

static void ask_for_better_code(QueryRun *run, Code *code, const WeaveJob *job, const Woven *woven)
{
    JitTier      tier;
    const double wall_ms = expected_ms(run, job) * times_each_row(woven);
    code_function(code, &tier);
    if (run->session->settings.jit != JIT_AUTO || tier == TIER_CC || wall_ms <= IMPROVE_NOW_MS) return;
    jit_offer(run->session->db->jit, code,
              &(JitUse){ .left_ms = wall_ms * run->session->settings.threads, .is_crowded = is_crowded(run) });
}

static void add_code(QueryRun *run, Code *code, double spent_ms)
{
    int c = 0;
    while (c < run->n_codes && run->codes[c].code != code) c++;
    if (c == run->n_codes) *LIST_PUSH(run->own, run->codes, run->n_codes) = (UsedCode){ code, 0 };
    run->codes[c].spent_ms += spent_ms;
}

// The better compiler is asked once the query is done, so that it does not take a core from it.
static void note_code(QueryRun *run, const Launch *launch)
{
    if (run->session->settings.jit == JIT_AUTO && launch->code && launch->out.slow_ms > 0)
        add_code(run, launch->code, launch->out.slow_ms);
}

// A LIMIT without ORDER BY takes the first rows of the table, so it must begin there; a query held to fewer threads
// than there are
// must not hold up others; stored rows, and tables made when asked for (virtual.c), belong to the query.  These scan
// alone.
static bool is_virtual(const Table *table) { return strncmp(table->name, "weft_", 5) == 0; }

static bool shares_scan(const QueryRun *run, const Table *table, i64 limit)
{
    const weft_session *session = run->session;
    return session->settings.sharing && table && limit < 0 && !run->spills &&
           session->settings.threads >= network_threads(session->db->network);
}

// Where a query is to wait for its own code, only "always" has it run otherwise.
static GenericUse generic_use(const Settings *settings)
{
    return settings->gpu_wait && settings->gpu_generic == GENERIC_AUTO ? GENERIC_OFF : settings->gpu_generic;
}

// Kernels for several queries would be of another.
static bool is_one_compiler(JitMode mode) { return mode == JIT_TCC || mode == JIT_PROGRAM; }

static Launch make_launch(QueryRun *run, int pipeline, const char *label, const WeaveJob *job, const Woven *woven,
                          i64 limit)
{
    weft_session *session = run->session;
    const Table  *scanned = run->graph->pipelines[pipeline].table,
                *table = job->source->from_store && !table_is_passing(scanned) ? scanned : NULL;
    return (Launch){ .table = shares_scan(run, table, limit) ? table->id : 0,
                     .scanned = table,
                     .label = label,
                     .query = session->query_number,
                     .is_explained = run->is_explained,
                     .may_weave = session->settings.weave_queries && session->settings.weave,
                     .schedule = session->settings.gpu_schedule,
                     .generic = generic_use(&session->settings),
                     .priority = session->settings.priority,
                     .max_threads = session->settings.threads,
                     .is_alone = woven->fan_out > FAN_OUT_SHARED || run->spills,
                     .woven = woven,
                     .source = job->source,
                     .sink = job->sink,
                     .n_slots = network_threads(session->db->network),
                     .team = query_team(run),
                     .limit = limit,
                     .budget = query_budget(run),
                     .group_bytes = spill_group_bytes(run),
                     .jit = is_one_compiler(session->settings.jit) ? NULL : session->db->jit,
                     .stop = &session->stop,
                     .rows_done = &session->rows_done };
}

// What does not pay on a GPU, and why; NULL: it may.
static const char *unsuited(const Woven *woven, i64 limit)
{
    if (limit >= 0) return "the LIMIT may soon be reached";
    if (woven->is_for_cpu) return "min or max of numbers beyond 64 bits";
    return woven->fan_out > FAN_OUT_SHARED ? "each row may meet very many" : NULL;
}

static weft_status choose_device(QueryRun *run, const WeaveJob *job, const Woven *woven, i64 limit, Device **device)
{
    const Settings *settings = &run->session->settings;
    weft_db        *db = run->session->db;
    Device         *gpu = NULL;
    *device = db->cpu;
    if (settings->device == DEVICE_CPU || run->must_use_cpu || unsuited(woven, limit)) return WEFT_OK;
    if (settings->device == DEVICE_CUDA) TRY(gpus_get(db->gpus, settings->gpu, &gpu, run->err));
    else if (stored_device(job->source)) gpu = stored_device(job->source);     // however few: they are there
    else if (job->source->n_rows >= GPU_ROWS) gpu = gpus_ready(db->gpus);
    if (gpu) *device = gpu;
    return WEFT_OK;
}

// For people, once it has run on the CPU.
static const char *why_not_on_gpu(const QueryRun *run, const WeaveJob *job, const Woven *woven, i64 limit)
{
    const bool is_auto = run->session->settings.device == DEVICE_AUTO;
    if (run->session->settings.device == DEVICE_CPU || (run->must_use_cpu && !run->spills)) return NULL;
    if (is_auto && !gpus_is_wanted(run->session->db->gpus)) return NULL;
    if (is_auto && job->source->n_rows < GPU_ROWS) return "fewer than 4,194,304 rows";
    if (run->spills) return "the query goes through temporary files";
    const char *reason = unsuited(woven, limit);
    return reason || !is_auto ? reason : "it is being opened";
}

// ---- tables that a device made, or that are yet to be filled, where the pipeline runs elsewhere ---------------------

static void set_parts(Woven *woven, const JoinTable *table)
{
    for (int t = 0; t < woven->n_tables; t++) {
        const WovenTable *facts = &woven->table_facts[t];
        if (facts->owner == table->id && !woven->tables[t]) woven->tables[t] = remote_part(table, facts->number);
    }
}

// A GPU asks for it by itself, where it needs it.
static weft_status fill_table(QueryRun *run, JoinTable *table, Woven *woven, const Device *device)
{
    if (device != run->session->db->cpu) return WEFT_OK;
    const void *data = table_filled(table);
    if (!data) return fail(run->err, WEFT_OUT_OF_MEMORY, -1, "out of memory: no room for a join table");
    for (int t = 0; t < woven->n_tables; t++)
        if (woven->table_facts[t].late == table->late) woven->tables[t] = data;
    return WEFT_OK;
}

static weft_status bring_tables(QueryRun *run, const WeaveJob *job, Woven *woven, const Device *device)
{
    for (int s = 0; s < job->n_steps; s++) {
        JoinTable *table = NULL;
        for (int p = 0; p < run->graph->n_pipelines; p++)
            if (job->steps[s].table && run->tables[p] == job->steps[s].table) table = run->tables[p];
        if (table && table->late) TRY(fill_table(run, table, woven, device));
        if (!table || !table->remote || remote_is_on(table->remote, device)) continue;
        TRY(query_device_failed(run, remote_fetch(table, run->err)));
        set_parts(woven, table);
    }
    return WEFT_OK;
}

// The CPU will be done before a compiler would be (and its own code is not cc's, to be waited for as well).
static bool should_stand_in(QueryRun *run, const WeaveJob *job, Device *device, const Launch *launch)
{
    if (!device->wait_ms || run->session->settings.gpu_wait || run->session->settings.jit == JIT_CC) return false;
    const double cpu_ms = expected_ms(run, job) * MAX_OF(launch->woven->fan_out, 1),
                 wait_ms = device->wait_ms(device, launch);
    if (wait_ms <= 0 || cpu_ms > wait_ms) return false;
    run->unready = device;
    if (cpu_ms > COMPILE_NOW_MS) device->get_ready(device, !is_crowded(run));
    return true;
}

// ---- announcing: a device may wait for those who will share a scan --------------------------------------------------

// NULL: the last pipeline reads what others have stored.
static const Table *last_table(const QueryRun *run) { return run->graph->pipelines[run->graph->n_pipelines - 1].table; }

static void announce(QueryRun *run)
{
    const Settings *settings = &run->session->settings;
    weft_db        *db = run->session->db;
    Device         *device = NULL;
    Error           ignored = { 0 };
    if (settings->device == DEVICE_CPU || run->must_use_cpu || run->is_explained || !settings->sharing ||
        !last_table(run))
        return;
    if (settings->device == DEVICE_AUTO) device = last_table(run)->n_rows < GPU_ROWS ? NULL : gpus_ready(db->gpus);
    else if (gpus_get(db->gpus, settings->gpu, &device, &ignored)) device = NULL;
    if (!device || !device->expect) return;
    device->expect(device, last_table(run)->id, 1);
    run->announced = device;
}

static void take_back(QueryRun *run)
{
    if (run->announced) run->announced->expect(run->announced, last_table(run)->id, -1);
    run->announced = NULL;
}

// The launch that was announced takes it over; any other takes it back.
static void arrive(QueryRun *run, int pipeline, Launch *launch)
{
    if (pipeline != run->graph->n_pipelines - 1 || !run->announced) return;
    launch->is_expected = run->announced == launch->device && launch->table == last_table(run)->id;
    if (!launch->is_expected) take_back(run);
    run->announced = NULL;
}

// ---- a launch and its device ----------------------------------------------------------------------------------------

// The CPU's code.  STANDS_IN: it will run on another device, so better code is not worth asking for.
static weft_status get_code(QueryRun *run, const WeaveJob *job, bool stands_in, Launch *launch)
{
    weft_session *session = run->session;
    const Woven  *woven = launch->woven;
    const char   *notice = NULL;
    const double  start = time_now_ms();
    TRY(jit_get_woven(session->db->jit, woven, session->settings.jit, is_crowded(run), &launch->code, &notice,
                      run->err));
    launch->out.compile_ms = time_now_ms() - start;
    if (notice) query_notice(run, notice);
    if (!stands_in) ask_for_better_code(run, launch->code, job, woven);
    return WEFT_OK;
}

// With what it reads brought there.
static weft_status ride_on(Device *device, QueryRun *run, int pipeline, const WeaveJob *job, Woven *woven,
                           bool stands_in, Launch *launch)
{
    launch->device = device;
    TRY(bring_tables(run, job, woven, device));
    if (stored_device(job->source) != device) TRY(stored_fetch(run, job->source));
    if (device == run->session->db->cpu) TRY(get_code(run, job, stands_in, launch));
    arrive(run, pipeline, launch);
    return device->ride(device, launch, run->err);
}

// Why, as a notice says it, too.  The launch is as it was.
static const char *note_refusal(QueryRun *run, Launch *launch)
{
    const char *refused = arena_printf(run->own, "%s", launch->out.refused);
    query_notice(run,
                 arena_printf(run->own, "%s did not run a pipeline, the CPU did: %s", launch->device->name, refused));
    launch->out = (LaunchOutcome){ 0 };
    return refused;
}

// The kernel that counts, in ARENA with what it reads but the tables and the source, which the pipeline reads as well.
static weft_status weave_fits(QueryRun *run, const WeaveJob *job, Arena *arena, WeaveJob *count, Woven **woven)
{
    Arena *const of_pipeline = run->arena;
    run->arena = arena;
    weft_status status = fits_count_job(run, job, count);
    if (!status) status = weave(arena, count, woven, run->err);
    run->arena = of_pipeline;
    return status;
}

static weft_status count_fits(QueryRun *run, int pipeline, const WeaveJob *count, Woven *woven, i64 rows_most,
                              const Launch *rows)
{
    Device   *cpu = run->session->db->cpu;
    const i64 limit = woven->fan_out > 1 ? rows_most + 1 : -1;
    Launch    launch = make_launch(run, pipeline, "count", count, woven, limit);
    launch.table = 0, launch.may_weave = false, launch.jit = NULL, launch.rows_done = NULL, launch.only_counts = true;
    weft_status status = ride_on(cpu, run, pipeline, count, woven, false, &launch);
    if (!status && launch.out.rows_out > (u64)rows_most) status = fits_not(run, rows, &launch);
    if (launch.memory) cpu->free_launch(cpu, &launch);
    return status;
}

// Rows that a join multiplies, where they may not fit (fits.c).  A count that follows no chain is soon done, so it is
// of all rows.  What it takes is given back at once: a join in parts is counted part by part.
static weft_status check_fits(QueryRun *run, int pipeline, const WeaveJob *job, const Launch *rows)
{
    WeaveJob count;
    Woven   *woven;
    i64      rows_most;
    if (!fits_is_doubtful(run, pipeline, rows, &rows_most)) return WEFT_OK;
    Arena      *arena = arena_new(run->arena, "count of rows");
    weft_status status = weave_fits(run, job, arena, &count, &woven);
    if (!status) status = count_fits(run, pipeline, &count, woven, rows_most, rows);
    arena_free(arena);
    return status;
}

// On the CPU a query that only counts multiplies its matches (matches.c).  *JOB is then another one.
static weft_status weave_counts(QueryRun *run, const WeaveJob **job, Woven **woven)
{
    WeaveJob *count = arena_make(run->arena, WeaveJob);
    TRY(matches_count_job(run, *job, *woven, count));
    if (!count->weight) return WEFT_OK;
    *job = count;
    return weave(run->arena, count, woven, run->err);
}

static weft_status run_job(QueryRun *run, int pipeline, const char *label, const WeaveJob *job, i64 limit,
                           Launch *launch)
{
    Device     *cpu = run->session->db->cpu, *device;
    Woven      *woven;
    const char *refused = NULL;
    TRY(weave(run->arena, job, &woven, run->err));
    if (run->only_weave && pipeline == run->graph->n_pipelines - 1) {
        report(run, pipeline, label, NULL, woven);
        run->last_woven = woven;
        return WEFT_OK;
    }
    TRY(choose_device(run, job, woven, limit, &device));
    const Woven *const as_asked = woven;                   // a GPU would have to visit all matches
    if (device == cpu) TRY(weave_counts(run, &job, &woven));
    *launch = make_launch(run, pipeline, label, job, woven, limit);
    if (job->weight) launch->may_weave = false, launch->jit = NULL;            // no other query has its table
    if (job->sink == SINK_TABLE && device->make_table) table_facts(run, pipeline, woven, job->notes, launch);
    if (job->sink == SINK_ROWS && job->notes && device->keep_rows) stored_facts(run, job->n_outputs, woven, launch);
    if (device == cpu) TRY(check_fits(run, pipeline, job, launch));
    const bool  stands_in = should_stand_in(run, job, device, launch);
    weft_status status = ride_on(stands_in ? cpu : device, run, pipeline, job, woven, stands_in, launch);
    if (launch->out.refused[0]) {
        refused = note_refusal(run, launch);
        status = ride_on(cpu, run, pipeline, job, woven, false, launch);
    }
    if (!stands_in) note_code(run, launch);
    if (launch->out.gpu.is_generic) run->unready = device;         // its own kernel, for the next time
    KernelReport *kernel = report(run, pipeline, label, launch, woven);
    if (stands_in) kernel->meanwhile = device->name;
    kernel->unsuited = device == cpu ? why_not_on_gpu(run, job, as_asked, limit) : refused;
    run->last_woven = woven;
    return status;
}

// ---- one pipeline ---------------------------------------------------------------------------------------------------

typedef struct PipelineJob { WeaveJob job; const Pipeline *pipeline; int number; i64 limit; } PipelineJob;

static Expr **values_of(QueryRun *run, const Binding *bindings, int n)
{
    Expr **values = arena_array(run->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) values[i] = bindings[i].value;
    return values;
}

static void set_sink(QueryRun *run, PipelineJob *pj)
{
    const Pipeline *pipeline = pj->pipeline;
    WeaveJob       *job = &pj->job;
    job->sink = pipeline->sink;
    if (pipeline->sink == SINK_GROUPS) {
        job->n_keys = pipeline->n_keys, job->keys = values_of(run, pipeline->keys, pipeline->n_keys);
        job->n_aggs = pipeline->n_aggs, job->aggs = pipeline->aggs;
        job->n_groups = pipeline->n_groups, job->array_bytes = query_array_bytes(run);
    } else if (pipeline->sink == SINK_ROWS) {
        job->n_outputs = pipeline->n_outputs, job->outputs = values_of(run, pipeline->outputs, pipeline->n_outputs);
    } else {
        const int n = pipeline->n_keys + pipeline->n_payload;
        Expr    **outputs = arena_array(run->arena, Expr *, n + 1);
        for (int k = 0; k < pipeline->n_keys; k++) outputs[k] = pipeline->keys[k].value;
        for (int p = 0; p < pipeline->n_payload; p++) outputs[pipeline->n_keys + p] = pipeline->payload[p].value;
        job->n_outputs = n, job->outputs = outputs;
        job->notes = table_notes(run, pj->number);
    }
}

// Columns that are stored before STEP, as outputs of the kernel that ends there.
static Expr **columns_before(QueryRun *run, const PipelineJob *pj, int step, int *n_outputs)
{
    const ColumnSet across = weave_columns_across(run->arena, &pj->job, step);
    return wide_columns(run, pj->pipeline, &across, n_outputs);
}

static const char *label_of(const WeaveJob *segment)
{
    const WeaveStep *step = segment->steps;
    if (segment->n_steps != 1) return "woven";
    return step->table ? "join" : step->value ? "compute" : "filter";
}

// A GPU may run it: its rows may stay there.
static bool may_stay(const QueryRun *run, const Source *source)
{
    const Settings *settings = &run->session->settings;
    if (run->must_use_cpu || settings->device == DEVICE_CPU) return false;
    return settings->device == DEVICE_CUDA || source->n_rows >= GPU_ROWS || stored_device(source);
}

// A segment that ends before step END, and its rows as *SOURCE, which is what it reads.  The rows that it read are no
// longer needed then: at most two such sources are there at a time.
static weft_status store_segment(QueryRun *run, const PipelineJob *pj, WeaveJob *segment, int end,
                                 const Source **source)
{
    Launch  launch = { 0 };
    Source *stored = NULL;
    segment->source = *source, segment->sink = SINK_ROWS, segment->team = pj->job.team,
    segment->budget = pj->job.budget;
    segment->outputs = columns_before(run, pj, end, &segment->n_outputs);
    if (may_stay(run, *source)) segment->notes = stored_notes(run, segment->n_outputs);
    const bool only_weave = run->only_weave;
    run->only_weave = false;           // the shape of a kernel depends on what the one before left
    weft_status status = run_job(run, pj->number, label_of(segment), segment, -1, &launch);
    run->only_weave = only_weave;
    stored_drop(*source);
    if (!status) {
        PipelineReport *reports = &run->reports[pj->number];
        status = stored_after(run, &launch, segment, pj->pipeline->sink != SINK_GROUPS,
                              &reports->kernels[reports->n_kernels - 1], &stored);
    }
    if (launch.memory) launch.device->free_launch(launch.device, &launch);
    *source = stored;
    return status;
}

// ---- joins in parts (spill_join.c) ----------------------------------------------------------------------------------

// The filter goes to the front where the key is a column of the source: rows of other parts cost no more than that.
static void steps_of_part(QueryRun *run, const WeaveJob *job, int probe, const Expr *key, const JoinTable *table,
                          const Expr *filter, WeaveJob *segment)
{
    WeaveStep  *steps = arena_array(run->arena, WeaveStep, probe + 3);
    int         n_steps = 0, before = probe;
    for (int c = 0; key->kind == EXPR_COLUMN && c < job->source->n_columns; c++)
        if (job->source->columns[c].id == key->column) before = 0;
    for (int s = 0; s <= probe; s++) {
        if (s == before && filter) steps[n_steps++] = (WeaveStep){ .filter = filter };
        steps[n_steps++] = job->steps[s];
    }
    steps[n_steps - 1].table = table;
    segment->steps = steps, segment->n_steps = n_steps;
}

static weft_status run_part(QueryRun *run, PipelineJob *pj, WeaveJob *segment, Source **out)
{
    Launch      launch = { 0 };
    const bool  only_weave = run->only_weave;
    run->only_weave = false;
    weft_status status = run_job(run, pj->number, "join of a part", segment, -1, &launch);
    run->only_weave = only_weave;
    PipelineReport *reports = &run->reports[pj->number];
    if (!status)
        status = stored_after(run, &launch, segment, true, &reports->kernels[reports->n_kernels - 1], out);
    if (launch.memory) launch.device->free_launch(launch.device, &launch);
    return status;
}

static weft_status probe_part(QueryRun *run, PipelineJob *pj, int probe, const JoinParts *parts, int part,
                              Source **out)
{
    Arena      *home = arena_new(run->own, "part of a join");
    JoinTable  *table;
    Expr       *filter, *key = pj->job.steps[probe].keys[spill_join_key(parts)];
    WeaveJob    segment = { .source = pj->job.source, .sink = SINK_ROWS, .team = pj->job.team,
                         .budget = pj->job.budget };
    weft_status status = spill_join_table(run, parts, part, home, &table);
    if (!status) status = spill_join_filter(run, parts, part, key, &filter);
    if (!status) {
        steps_of_part(run, &pj->job, probe, key, table, filter, &segment);
        segment.outputs = columns_before(run, pj, probe + 1, &segment.n_outputs);
        status = run_part(run, pj, &segment, out);
    }
    arena_free(home);
    return status;
}

static void drop_steps(PipelineJob *pj, int n, const Source *source)
{
    pj->job.steps += n, pj->job.n_steps -= n;
    pj->job.source = source;
}

// A function of text makes a dictionary each time that it is woven: what goes before the probe is done once then.
static weft_status store_before(QueryRun *run, PipelineJob *pj, int *probe)
{
    const Source *source = pj->job.source;
    bool          has_text = false;
    for (int s = 0; s < *probe; s++)
        has_text |= pj->job.steps[s].value && pj->job.steps[s].value->type.kind == TYPE_TEXT;
    if (!has_text) return WEFT_OK;
    WeaveJob segment = { .steps = pj->job.steps, .n_steps = *probe };
    TRY(store_segment(run, pj, &segment, *probe, &source));
    drop_steps(pj, *probe, source);
    *probe = 0;
    return WEFT_OK;
}

static weft_status probe_parts(QueryRun *run, PipelineJob *pj, int probe, JoinParts *parts)
{
    const int n_parts = spill_join_count(parts);
    Source  **sources = arena_array(run->arena, Source *, n_parts + 1), *all;
    TRY(store_before(run, pj, &probe));
    for (int p = 0; p < n_parts; p++) TRY(probe_part(run, pj, probe, parts, p, &sources[p]));
    spill_join_end(run, parts);
    TRY(stored_union(run, sources, n_parts, &all));
    drop_steps(pj, probe + 1, all);
    return WEFT_OK;
}

// All steps up to the last whose table is in parts; what is left of the job reads their rows.
static weft_status run_parts(QueryRun *run, PipelineJob *pj)
{
    for (int s = 0; s < pj->job.n_steps; s++) {
        JoinParts *parts = spill_join_parts(run, pj->job.steps[s].table);
        if (!parts) continue;
        TRY(probe_parts(run, pj, s, parts));
        s = -1;
    }
    return WEFT_OK;
}

// Each segment is a kernel; the last one ends in the sink.
static weft_status run_segments(QueryRun *run, PipelineJob *pj, Launch *launch)
{
    WeaveCut     *cuts;
    if (run->spills) TRY(run_parts(run, pj));
    const int     n_cuts = segments_of(run, pj->number, &pj->job, &cuts);
    const Source *source = pj->job.source;
    WeaveJob      last = pj->job;
    for (int c = 0; c < n_cuts; c++) {
        const int first = c ? cuts[c - 1].before : 0, end = cuts[c].before;
        WeaveJob  segment = { .steps = pj->job.steps + first, .n_steps = end - first };
        TRY(store_segment(run, pj, &segment, end, &source));
        last.source = source, last.steps = pj->job.steps + end, last.n_steps = pj->job.n_steps - end;
    }
    const bool        is_sink = !last.n_steps && (n_cuts || !run->session->settings.weave);
    const weft_status status = run_job(run, pj->number, is_sink ? "sink" : "woven", &last, pj->limit, launch);
    stored_drop(source);
    return status;
}

// ---- parameters: known by the time that a pipeline runs -------------------------------------------------------------

static const Expr *give_param(void *context, const Expr *leaf)
{
    const QueryRun *run = context;
    return leaf->kind == EXPR_PARAM ? run->params[leaf->param] : NULL;
}

static weft_status fill_in(QueryRun *run, Expr **expr)
{
    return *expr ? expr_replace(run->own, *expr, give_param, run, expr, run->err) : WEFT_OK;
}

static weft_status fill_in_list(QueryRun *run, Expr **exprs, int n)
{
    for (int i = 0; i < n; i++) TRY(fill_in(run, &exprs[i]));
    return WEFT_OK;
}

static weft_status fill_in_bindings(QueryRun *run, Binding *bindings, int n)
{
    for (int i = 0; i < n; i++) TRY(fill_in(run, &bindings[i].value));
    return WEFT_OK;
}

static weft_status fill_in_params(QueryRun *run, Pipeline *pipeline)
{
    if (!run->plan->n_params) return WEFT_OK;
    TRY(fill_in_list(run, pipeline->filters, pipeline->n_filters));
    for (int p = 0; p < pipeline->n_probes; p++) {
        TRY(fill_in_list(run, pipeline->probes[p].keys, pipeline->probes[p].n_keys));
        TRY(fill_in(run, &pipeline->probes[p].residual));
    }
    TRY(fill_in_bindings(run, pipeline->lets, pipeline->n_lets));
    TRY(fill_in_bindings(run, pipeline->keys, pipeline->n_keys));
    TRY(fill_in_bindings(run, pipeline->payload, pipeline->n_payload));
    for (int a = 0; a < pipeline->n_aggs; a++) TRY(fill_in(run, &pipeline->aggs[a].arg));
    TRY(fill_in_bindings(run, pipeline->outputs, pipeline->n_outputs));
    TRY(fill_in_list(run, pipeline->finish.conditions, pipeline->finish.n_conditions));
    const FinishWindows *windows = pipeline->finish.windows;
    if (windows) TRY(fill_in_bindings(run, windows->inputs, windows->n_inputs));
    return fill_in_bindings(run, pipeline->finish.outputs, pipeline->finish.n_outputs);
}

// All but the source of what another pipeline left.
static weft_status make_job(QueryRun *run, int number, PipelineJob *pj)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    Steps           steps;
    *pj = (PipelineJob){ .pipeline = pipeline, .number = number, .limit = query_rows_enough(pipeline) };
    TRY(list_steps(run, pipeline, &steps));
    pj->job = (WeaveJob){ .steps = steps.steps, .n_steps = steps.n_steps, .team = query_team(run),
                          .budget = query_budget(run) };
    set_sink(run, pj);
    if (!pipeline->table) return WEFT_OK;
    const ColumnSet needed = weave_columns_needed(run->arena, &pj->job, 0);
    Source         *source;
    TRY(table_source(run, pipeline, &needed, &source));
    pj->job.source = source;
    return WEFT_OK;
}

// The pipeline's rows or groups, in LAUNCH.  What it points to lives in run->arena.
static weft_status push_pipeline(QueryRun *run, int number, Launch *launch)
{
    PipelineJob pj;
    TRY(make_job(run, number, &pj));
    if (!pj.pipeline->table) {
        const ColumnSet needed = weave_columns_needed(run->arena, &pj.job, 0);
        Source         *stored;
        TRY(stored_source(run, pj.pipeline, &needed, &stored));
        pj.job.source = stored;
    }
    return run_segments(run, &pj, launch);
}

static weft_status build_table(QueryRun *run, int number, Arena *home, JoinTable **table)
{
    Launch      launch = { 0 };
    weft_status status = push_pipeline(run, number, &launch);
    const double start = time_now_ms();
    double       kernel_ms = 0;
    if (!status)
        status = spill_join_suits(run, number, &launch)
                     ? spill_join_cut(run, number, &launch, table)
                     : table_build(run, home, number, &launch, table, &kernel_ms);
    run->reports[number].build_ms = !status && (*table)->remote ? kernel_ms : time_now_ms() - start;
    if (launch.memory) launch.device->free_launch(launch.device, &launch);
    return status;
}

// A shared table names columns as the query that made it does: this query's own view of it.
static JoinTable *own_view(QueryRun *run, const Pipeline *pipeline, const JoinTable *shared)
{
    JoinTable *table = arena_make(run->arena, JoinTable);
    *table = *shared;
    table->payloads = arena_array(run->arena, Payload, shared->n_payloads + 1);
    for (int p = 0; p < shared->n_payloads; p++) {
        table->payloads[p] = shared->payloads[p];
        const Binding *payload = &pipeline->payload[shared->payloads[p].number];
        table->payloads[p].id = expr_is_low_word(payload->value) ? weave_low_id(payload->column) : payload->column;
    }
    return table;
}

// Who shares what another query made is told what that one was told meanwhile, as that a GPU did not run it.
static void pass_on_notices(const QueryRun *run, int n_before, Piece *piece)
{
    for (int n = n_before; n < run->n_notices; n++) piece_add_notice(piece, run->notices[n]);
}

static void take_notices(QueryRun *run, const Piece *piece)
{
    for (int n = 0; n < piece_notices(piece); n++) query_notice(run, piece_notice(piece, n));
}

// ---- join tables that stay when no query uses them ------------------------------------------------------------------

#define KEPT_SHARE   16                // of the memory that queries may have: 1 / this, for all that stays,
#define KEPT_DEFAULT ((i64)1 << 30)    // or this where there is no limit

static void release_table(void *table) { table_release(table); }

// What the piece was made of is held with it: it is named by snapshots, and points into their dictionaries.  False:
// some of it is no table of this database as it is now.
static bool hold_tables(QueryRun *run, int number, Arena *home)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    const Table    *now = pipeline->table ? store_table(run->session->db->store, pipeline->table->name) : NULL;
    if (now) arena_defer(home, release_table, (void *)(uintptr_t)now);
    if (!now || now != pipeline->table) return false;
    for (int p = 0; p < pipeline->n_probes; p++)
        if (!hold_tables(run, pipeline->probes[p].build, home)) return false;
    return true;
}

// Where the device made it, the host may have a copy, too.
static double share_of_room(const QueryRun *run, const JoinTable *table)
{
    const i64     limit = atomic_load(&run->session->db->budget.limit);
    const Device *device = table->remote ? remote_on(table->remote) : NULL;
    const double  bytes = (double)table->bytes, most = (double)(limit ? limit / KEPT_SHARE : KEPT_DEFAULT);
    if (!device) return bytes / most;
    return device->kept_most ? MAX_OF(bytes / most, bytes / MAX_OF((double)device->kept_most(device), 1)) : 2;
}

// A later query is told nothing that this one was told on the way, so a table with notices does not stay.
static void keep_table(QueryRun *run, int number, Piece *piece, const JoinTable *table)
{
    if (!run->session->settings.keep_tables || piece_notices(piece)) return;
    const double share = share_of_room(run, table);
    if (share <= 0.5 && hold_tables(run, number, piece_arena(piece))) piece_keep(piece, share);
}

// ---- join tables by kinds of rows (kinds.h) -------------------------------------------------------------------------

// Crowds come again, and of one crowd all should have tables of one sort.
static bool is_gpu_crowd(const QueryRun *run)
{
    weft_db  *db = run->session->db;
    const i64 now_ms = (i64)time_now_ms();
    if (db->n_running > GPU_CROWD) atomic_store(&db->gpu_crowd_until_ms, now_ms + GPU_CROWD_MS);
    return now_ms < atomic_load(&db->gpu_crowd_until_ms);
}

// A crowd: what a filter costs counts there more than what its table does to one query.  A GPU serves fewer queries
// better by a sieve, which looks at tables by key.
static bool should_use_kinds(const QueryRun *run)
{
    const RowKinds how = run->session->settings.row_kinds;
    if (how == ROW_KINDS_OFF || run->spills || run->is_explained) return false;
    if (how == ROW_KINDS_ON) return true;
    return run->session->settings.keep_tables && (query_is_for_cpu(run) ? is_crowded(run) : is_gpu_crowd(run));
}

// Decided once for all tables of a query: bodies of both sorts of tables would be further kernels to compile.
static bool wants_kinds(QueryRun *run)
{
    if (!run->has_chosen_kinds) run->wants_kinds = should_use_kinds(run), run->has_chosen_kinds = true;
    return run->wants_kinds;
}

// A filtered table with a key that nothing else looks at.
static bool suits_kinds(const Pipeline *pipeline)
{
    const Expr *key = pipeline->n_keys == 1 ? pipeline->keys[0].value : NULL;
    if (!pipeline->table || table_is_passing(pipeline->table) || pipeline->n_probes || pipeline->n_lets || !key ||
        key->kind != EXPR_COLUMN || pipeline->n_payload > 1)
        return false;
    for (int f = 0; f < pipeline->n_filters; f++)
        if (expr_has_column(pipeline->filters[f], key->column)) return false;
    return !pipeline->n_payload || !expr_has_column(pipeline->payload[0].value, key->column);
}

// The columns that filters and payload look at, and the key's.
static const Kinds *kinds_for(QueryRun *run, int number)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    weft_db        *db = run->session->db;
    int             key = -1, n_places = 0, *places = arena_array(run->own, int, pipeline->n_columns + 1);
    ColumnSet       used = { 0 };
    if (!wants_kinds(run) || !suits_kinds(pipeline)) return NULL;
    for (int f = 0; f < pipeline->n_filters; f++) columns_add_expr(run->own, &used, pipeline->filters[f]);
    for (int p = 0; p < pipeline->n_payload; p++) columns_add_expr(run->own, &used, pipeline->payload[p].value);
    for (int c = 0; c < pipeline->n_columns; c++) {
        if (pipeline->columns[c] == pipeline->keys[0].value->column) key = pipeline->places[c];
        else if (columns_has(&used, pipeline->columns[c])) places[n_places++] = pipeline->places[c];
    }
    return key < 0 ? NULL
                   : kinds_get(db->kinds, db->store, pipeline->table, key, places, n_places, &run->session->stop);
}

static weft_status run_over_kinds(QueryRun *run, int number, const Kinds *kinds, Launch *launch)
{
    PipelineJob pj;
    TRY(make_job(run, number, &pj));
    const ColumnSet needed = weave_columns_needed(run->arena, &pj.job, 0);
    pj.job.source = kinds_source(kinds, run->arena, pj.pipeline, &needed);
    const bool must_use_cpu = run->must_use_cpu;
    run->must_use_cpu = true;          // rows are few
    const weft_status status = run_segments(run, &pj, launch);
    run->must_use_cpu = must_use_cpu;
    return status;
}

// *IS_DONE false: the table is to be made of all rows.
static weft_status build_of_kinds(QueryRun *run, int number, const Kinds *kinds, Arena *home, JoinTable **table,
                                  bool *is_done)
{
    Launch       launch = { 0 };
    Woven        woven = { 0 };
    const double start = time_now_ms();
    weft_status  status = WEFT_OK;
    if (kind_rows(run->arena, kinds, &run->graph->pipelines[number], &woven, &launch.out.rows)) launch.woven = &woven;
    else status = run_over_kinds(run, number, kinds, &launch);
    if (!status) status = table_build_by_kind(run, home, number, &launch, kinds, table, is_done);
    run->reports[number].build_ms = time_now_ms() - start;
    if (launch.memory) launch.device->free_launch(launch.device, &launch);
    return status;
}

static weft_status make_table(QueryRun *run, int number, const Kinds *kinds, Arena *home, JoinTable **table)
{
    bool is_done = false;
    if (kinds) TRY(build_of_kinds(run, number, kinds, home, table, &is_done));
    return is_done ? WEFT_OK : build_table(run, number, home, table);
}

static weft_status get_piece(QueryRun *run, int number, const Kinds *kinds, Piece **piece, bool *must_make)
{
    const char *signature = run->signatures[number].text;
    if (kinds) signature = arena_printf(run->own, "kinds%llu %s", (unsigned long long)kinds->id, signature);
    return pieces_get(run->session->db->pieces, signature, &run->session->stop, piece, must_make, run->err);
}

static weft_status get_table_by(QueryRun *run, int number, const Kinds *kinds)
{
    Pieces    *pieces = run->session->db->pieces;
    Piece     *piece;
    JoinTable *table = NULL;
    bool       must_make;
    TRY(get_piece(run, number, kinds, &piece, &must_make));
    if (must_make) {
        const int n_notices = run->n_notices;
        claim_make(run->claim, number);
        const weft_status status = make_table(run, number, kinds, piece_arena(piece), &table);
        pass_on_notices(run, n_notices, piece);
        if (!status) keep_table(run, number, piece, table);
        piece_made(pieces, piece, table, !status, true);
        if (status) {
            piece_release(pieces, piece);
            return status;
        }
    }
    *LIST_PUSH(run->own, run->pieces, run->n_pieces) = piece;
    take_notices(run, piece);
    run->tables[number] = own_view(run, &run->graph->pipelines[number], piece_value(piece));
    return WEFT_OK;
}

static weft_status get_table(QueryRun *run, int number)
{
    if (!run->signatures[number].text) return build_table(run, number, run->arena, &run->tables[number]);
    const Kinds      *kinds = kinds_for(run, number);
    const weft_status status = get_table_by(run, number, kinds);
    kinds_release(kinds);
    return status;
}

struct SharedRun { Launch launch; const Woven *woven; };

static void free_shared_run(void *context)
{
    SharedRun *shared = context;
    if (shared->launch.memory) shared->launch.device->free_launch(shared->launch.device, &shared->launch);
}

// What comes out names groups as the maker's tables do, so who shares it must hold the same tables.  Equal builds are
// one table, but where kinds are asked for there may be one for each of several kinds.
static const char *answer_signature(QueryRun *run, int number)
{
    const char *signature = run->signatures[number].text;
    for (int p = 0; p < number && run->wants_kinds; p++)
        if (run->tables[p])
            signature = arena_printf(run->own, "%llu %s", (unsigned long long)run->tables[p]->id, signature);
    return signature;
}

// The root of another query that is at the same work over the same snapshot serves this one, too.
static weft_status get_answer(QueryRun *run, int number)
{
    Pieces    *pieces = run->session->db->pieces;
    Piece     *piece;
    bool       must_make;
    SharedRun *shared;
    if (!run->signatures[number].text) {
        run->last = arena_make(run->arena, Launch);
        return push_pipeline(run, number, run->last);
    }
    TRY(pieces_get(pieces, answer_signature(run, number), &run->session->stop, &piece, &must_make, run->err));
    if (must_make) {
        const int n_notices = run->n_notices;
        claim_make(run->claim, number);
        shared = arena_make(piece_arena(piece), SharedRun);
        arena_defer(piece_arena(piece), free_shared_run, shared);
        run->arena = piece_arena(piece);           // what is woven must outlive this query
        const weft_status status = push_pipeline(run, number, &shared->launch);
        run->arena = run->own;
        shared->woven = run->last_woven;
        pass_on_notices(run, n_notices, piece);
        piece_made(pieces, piece, shared, !status, false);
        if (status) {
            piece_release(pieces, piece);
            return status;
        }
    }
    *LIST_PUSH(run->own, run->pieces, run->n_pieces) = piece;
    shared = piece_value(piece);
    *LIST_PUSH(run->own, run->answers, run->n_answers) = shared;
    take_notices(run, piece);
    run->last = &shared->launch;
    run->last_woven = shared->woven;
    return WEFT_OK;
}

// Rows that later pipelines read, or a parameter.  Where a LIMIT will choose among them, their order must depend on
// nothing but the data.
static bool needs_order(const QueryRun *run, int number)
{
    for (int p = number; p < run->graph->n_pipelines; p++)
        if (run->graph->pipelines[p].finish.limit >= 0 || run->graph->pipelines[p].finish.n_distinct_on ||
            run->graph->pipelines[p].finish.windows)
            return true;
    return false;
}

static weft_status keep_rows(QueryRun *run, int number)
{
    Finished finished;
    TRY(finish_pipeline(run, number, run->last, run->last_woven, true, !needs_order(run, number), &finished));
    if (run->graph->pipelines[number].param >= 0) return stored_param(run, number, &finished);
    RepeatRows *rows = repeat_of(run, number);
    if (rows) {
        TRY(repeat_add(run, number, &finished));
        return repeat_of_last(run, number, &rows) ? WEFT_OK : repeat_hand_on(run, rows);
    }
    return stored_keep(run, number, &finished, &run->stored[number]);
}

static bool is_shared_launch(const QueryRun *run)
{
    for (int i = 0; i < run->n_answers; i++)
        if (run->last == &run->answers[i]->launch) return true;
    return false;
}

static void drop_last(QueryRun *run)
{
    if (run->last && run->last->memory && !is_shared_launch(run))
        run->last->device->free_launch(run->last->device, run->last);
    run->last = NULL;
}

// What was made takes the place of what was expected.  A table can be found by others as long as this query uses it; an
// answer serves only
// queries that wait for it already.
static weft_status run_once(QueryRun *run, int number)
{
    Pipeline   *pipeline = &run->graph->pipelines[number];
    const bool  is_table = pipeline->sink == SINK_TABLE, is_last = number == run->graph->n_pipelines - 1;
    weft_status status = fill_in_params(run, pipeline);
    if (!status) wide_prepare(run, number);
    if (!status && pipeline->sink != SINK_VALUES) status = is_table ? get_table(run, number) : get_answer(run, number);
    run->reports[number].table = run->tables[number];
    if (!status && !is_table && !is_last) {
        status = keep_rows(run, number);
        drop_last(run);
    }
    if (run->claim) claim_made(run->claim, number, (is_table || !is_last) && !status);
    return status;
}

// ---- recursion ------------------------------------------------------------------------------------------------------
//
// A round weaves its pipelines anew, since the rows that they read have other ranges.  What it makes lives in an arena
// of its own and goes with it, but for notices and code.  EXPLAIN shows the kernels of the first round, which ran in
// the query's arena.

// Pipelines as they were cut: those of the round before have parameters filled in and words split.
static weft_status cut_again(QueryRun *run, const Repeat *repeat)
{
    Graph *fresh;
    TRY(plan_cut(run->arena, run->plan, &fresh, run->err));
    for (int p = repeat->first + 1; p <= repeat->last; p++) {
        if (!repeat->again[p]) continue;
        run->graph->pipelines[p] = fresh->pipelines[p];
        run->reports[p] = (PipelineReport){ 0 };
    }
    for (int p = repeat->first + 1; p <= repeat->last; p++)
        if (repeat->again[p]) wide_follow(run, p);
    return WEFT_OK;
}

static weft_status run_round(QueryRun *run, const Repeat *repeat, RepeatRows *rows)
{
    if (query_should_stop(run, 0)) return query_canceled(run);
    TRY(repeat_hand_on(run, rows));
    TRY(cut_again(run, repeat));
    for (int p = repeat->first + 1; p <= repeat->last; p++)
        if (repeat->again[p]) TRY(run_once(run, p));
    return WEFT_OK;
}

// Lists that grew in the round's arena are put into the query's.
static void keep_of_round(QueryRun *run, UsedCode *codes, int n_codes, const char **notices, int n_notices)
{
    UsedCode    *new_codes = run->codes;
    const char **new_notices = run->notices;
    const int   n_new_codes = run->n_codes, n_new_notices = run->n_notices;
    run->codes = codes, run->n_codes = n_codes, run->notices = notices, run->n_notices = n_notices;
    for (int c = 0; c < n_new_codes; c++) add_code(run, new_codes[c].code, new_codes[c].spent_ms);
    for (int n = 0; n < n_new_notices; n++) query_notice(run, new_notices[n]);
}

static weft_status run_round_apart(QueryRun *run, const Repeat *repeat, RepeatRows *rows)
{
    Arena       *own = run->own, *round = arena_new(own, "round");
    UsedCode    *codes = run->codes;
    const char **notices = run->notices;
    const int    n_codes = run->n_codes, n_notices = run->n_notices;
    run->own = run->arena = round;
    run->codes = NULL, run->n_codes = 0, run->notices = NULL, run->n_notices = 0;
    const weft_status status = run_round(run, repeat, rows);
    drop_last(run);
    run->own = run->arena = own;
    keep_of_round(run, codes, n_codes, notices, n_notices);
    arena_free(round);
    return status;
}

static weft_status run_rounds(QueryRun *run, const Repeat *repeat, RepeatRows *rows)
{
    const int       n = repeat->last - repeat->first, from = repeat->first + 1;
    const double    start = time_now_ms();
    Pipeline       *pipelines = arena_array(run->own, Pipeline, n + 1);
    PipelineReport *reports = arena_array(run->own, PipelineReport, n + 1);
    weft_status     status = WEFT_OK;
    u64             n_rounds = 1;
    memcpy(pipelines, run->graph->pipelines + from, (size_t)n * sizeof *pipelines);
    memcpy(reports, run->reports + from, (size_t)n * sizeof *reports);
    bool is_enough = false;
    while (!status && repeat_has_more(rows) && repeat->again[repeat->last]) {
        status = repeat_is_enough(run, rows, &is_enough);
        if (status || is_enough) break;
        status = run_round_apart(run, repeat, rows);
        n_rounds++;
    }
    memcpy(run->graph->pipelines + from, pipelines, (size_t)n * sizeof *pipelines);
    memcpy(run->reports + from, reports, (size_t)n * sizeof *reports);
    run->reports[repeat->last].n_rounds = n_rounds;
    run->reports[repeat->last].n_round_rows = repeat_count(rows);
    run->reports[repeat->last].rounds_ms = time_now_ms() - start;
    return status ? status : repeat_end(run, rows);
}

static weft_status run_pipeline(QueryRun *run, int number)
{
    RepeatRows *rows;
    TRY(run_once(run, number));
    const Repeat *repeat = repeat_of_last(run, number, &rows);
    return repeat ? run_rounds(run, repeat, rows) : WEFT_OK;
}

// ---- admission ------------------------------------------------------------------------------------------------------

static bool only_looks(const QueryRun *run)
{
    for (int p = 0; p < run->graph->n_pipelines; p++)
        if (run->graph->pipelines[p].table && !is_virtual(run->graph->pipelines[p].table)) return false;
    return true;
}

static bool may_share(const QueryRun *run, int number)
{
    return run->session->settings.sharing && !run->is_explained && !run->must_use_cpu &&
           query_rows_enough(&run->graph->pipelines[number]) < 0;
}

// Before anything is built or scanned, and before the query holds what others could wait for.
static weft_status wait_for_memory(QueryRun *run)
{
    if (run->spills) return spill_wait_for_memory(run);
    const int n_pipelines = run->graph->n_pipelines;
    Part     *parts = arena_array(run->arena, Part, n_pipelines + 1);
    query_estimate(run, parts);
    for (int p = 0; p < n_pipelines; p++) {
        if (!may_share(run, p)) continue;
        run->signatures[p] = query_signature(run, p);
        if (!run->signatures[p].text) continue;
        parts[p].key = hash_bytes(run->signatures[p].text, run->signatures[p].length) | 1;
    }
    const Wish wish = { .query = run->session->query_number,
                        .priority = run->session->settings.priority,
                        .is_alone = run->is_second_try,
                        .is_look = only_looks(run) && !run->is_second_try,
                        .n_parts = n_pipelines + 1,
                        .parts = parts,
                        .stop = &run->session->stop,
                        .position = &run->session->position };
    run->claim = admission_ask(run->session->db->admission, &wish);
    // The first to wait has what is kept dropped.  If all did, in a crowd, it would be made anew for each of them.
    if (atomic_load(&run->session->position) == 1) db_trim(run->session->db, true);
    return claim_wait(run->claim, run->err);
}

NextTry query_next_try(const QueryRun *run, weft_status status)
{
    if (run->has_lost_tables)
        return run->must_use_cpu ? TRY_NO_MORE : TRY_ON_CPU;  // one that was cancelled meanwhile says so as it begins
    if (status != WEFT_OUT_OF_MEMORY || !run->claim) return TRY_NO_MORE;
    if (query_may_be_alone(run) || (!run->is_second_try && only_looks(run))) return TRY_ALONE;
    return spill_is_possible(run) ? TRY_SPILLING : TRY_NO_MORE;
}

bool query_has_kernels(const QueryRun *run)
{
    for (int p = 0; p < run->graph->n_pipelines; p++)
        if (run->graph->pipelines[p].sink != SINK_VALUES) return true;
    return false;
}

static void set_progress(QueryRun *run)
{
    u64 n_rows = 0;
    for (int p = 0; p < run->graph->n_pipelines; p++)
        if (run->graph->pipelines[p].table) n_rows += run->graph->pipelines[p].table->n_rows;
    atomic_store(&run->session->rows_done, 0);
    atomic_store(&run->session->rows_total, n_rows);
}

static weft_status cut_plan(QueryRun *run)
{
    TRY(plan_cut(run->arena, run->plan, &run->graph, run->err));
    const int n_pipelines = run->graph->n_pipelines;
    run->tables = arena_array(run->arena, JoinTable *, n_pipelines);
    run->stored = arena_array(run->arena, Stored *, n_pipelines);
    run->params = arena_array(run->arena, Expr *, run->plan->n_params + 1);
    run->reports = arena_array(run->arena, PipelineReport, n_pipelines);
    run->signatures = arena_array(run->arena, Signature, n_pipelines);
    run->join_parts = arena_array(run->arena, JoinParts *, n_pipelines);
    repeat_begin(run);
    return WEFT_OK;
}

weft_status query_foresee(QueryRun *run)
{
    TRY(cut_plan(run));
    for (int p = 0; p < run->graph->n_pipelines; p++) {
        const Pipeline *pipeline = &run->graph->pipelines[p];
        PipelineJob     pj;
        WeaveCut       *ignored;
        if (pipeline->sink == SINK_VALUES) continue;
        TRY(make_job(run, p, &pj));
        if (!pipeline->table) pj.job.source = expected_source(run, pipeline);
        segments_of(run, p, &pj.job, &ignored);
        if (pipeline->sink == SINK_TABLE) run->tables[p] = expected_table(run, p);
    }
    return WEFT_OK;
}

weft_status query_run(QueryRun *run)
{
    TRY(cut_plan(run));
    const int n_pipelines = run->graph->n_pipelines;
    run->is_empty = !run->only_weave && plan_is_empty(run->plan, run->plan->root);
    if (run->is_empty) return WEFT_OK;
    set_progress(run);
    if (query_has_kernels(run)) TRY(wait_for_memory(run));
    if (!run->is_counted) run->session->db->n_running++;
    run->is_counted = true;
    announce(run);
    for (int p = 0; p < n_pipelines; p++) TRY(run_pipeline(run, p));
    return WEFT_OK;
}

void query_free(QueryRun *run)
{
    drop_last(run);
    for (int i = 0; i < run->n_pieces; i++) piece_release(run->session->db->pieces, run->pieces[i]);
    for (int i = 0; i < run->n_codes; i++)
        jit_offer(run->session->db->jit, run->codes[i].code,
                  &(JitUse){ .spent_ms = run->codes[i].spent_ms, .is_crowded = is_crowded(run) });
    if (run->unready) run->unready->get_ready(run->unready, !is_crowded(run));
    if (run->is_counted) run->session->db->n_running--;
    run->is_counted = false;
    take_back(run);
}
