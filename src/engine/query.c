// query.c - a query's pipelines, run in order: each is woven, compiled and pushed through a device.
//
// Weaving on, a pipeline is one kernel.  Weaving off, every step is a kernel of its own whose rows are stored and read again by
// the next one: slower, and a second implementation that all answers are compared with.
// A pipeline is woven when the tables it probes are built, so their real hit rates order the probes and their real contents
// decide the shape of the text.

#include "engine/engine.h"
#include "engine/remote.h"

#include <stdlib.h>

// A scan that takes tcc's code longer than this is worth cc's while it runs; shorter ones get it for the next time.
#define IMPROVE_NOW_MS 100.0
#define TCC_NS_PER_ROW_AND_STEP 1.0    // SSB's scans took 0.4 to 0.6 on a Neoverse V1, 0.5 to 1.7 on a Xeon; arithmetic takes more

// A row that meets more rows than this takes so long that nobody else should wait for it.
#define FAN_OUT_SHARED 16384.0

// A GPU is asked by itself (SET device = auto) from so many rows on: below, the CPU is done before a launch would be prepared.
#define GPU_ROWS (4u << 20)            // why_not_on_gpu says it in words

// Code for a GPU that is not there yet is waited for (100 to 600 ms) unless the CPU will be done sooner: then the CPU runs the pipeline, and the
// GPU's code is compiled meanwhile, for the next time.  It is begun when the query is done, so that the compiler does not take a core
// from it; at once where the CPU takes longer than this.
#define COMPILE_NOW_MS 100.0

// ---- memory of the query ------------------------------------------------------------------------------------------------

typedef struct Counted { Budget *budget; void *memory; size_t bytes; } Counted;

static void free_counted(void *context)
{
    Counted *counted = context;
    mem_free(counted->budget, counted->memory, counted->bytes);
}

weft_status counted_alloc(Arena *arena, Budget *budget, size_t bytes, void **out, Error *err)
{
    Counted *counted = arena_make(arena, Counted);
    *counted = (Counted){ .budget = budget, .bytes = bytes };
    TRY(mem_alloc(counted->budget, bytes, &counted->memory, err));
    arena_defer(arena, free_counted, counted);
    *out = counted->memory;
    return WEFT_OK;
}

Budget *query_budget(const QueryRun *run) { return run->claim ? claim_budget(run->claim) : &run->session->db->looks; }

weft_status query_alloc(QueryRun *run, size_t bytes, void **out)
{
    return counted_alloc(run->arena, query_budget(run), bytes, out, run->err);
}

weft_status query_ranks(QueryRun *run, Dictionary *dict, u32 count, const u32 **ranks)
{
    return dict_hold_ranks(run->arena, dict, count, &run->session->stop, ranks, run->err);
}

void query_notice(QueryRun *run, const char *notice)
{
    for (int i = 0; i < run->n_notices; i++)
        if (strcmp(run->notices[i], notice) == 0) return;
    *LIST_PUSH(run->own, run->notices, run->n_notices) = arena_strdup(run->own, notice);
}

bool query_should_stop(const QueryRun *run, u64 step)
{
    return (step & 4095) == 0 && atomic_load_explicit(&run->session->stop, memory_order_relaxed);
}

weft_status query_copy(QueryRun *run, void *to, const void *from, u64 bytes)
{
    const u64 piece = 4 << 20;
    for (u64 at = 0; at < bytes; at += piece) {
        if (query_should_stop(run, 0)) return query_canceled(run);
        memcpy((u8 *)to + at, (const u8 *)from + at, MIN_OF(piece, bytes - at));
    }
    return WEFT_OK;
}

weft_status query_canceled(QueryRun *run) { return fail(run->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request"); }

// ---- sources ----------------------------------------------------------------------------------------------------------------

static Range range_of_source(const Table *table, int column)
{
    const ColumnRange known = table_column_range(table, column);
    const Column     *def = &table->columns[column];
    Range             range = range_of_type(def->type);
    range.nullable = known.n_nulls > 0;
    if (type_is_float(def->type)) {
        range.f = float_range_of_bits(known.bits, known.has_range, known.fmin, known.fmax, known.has_nan);
        return range;
    }
    if (!known.has_range) return (Range){ .known = true, .nullable = range.nullable, .low = 0, .high = -1 };
    if (def->type.kind == TYPE_TEXT) return (Range){ .known = true, .nullable = range.nullable, .low = 0, .high = (i128)def->dict_count - 1 };
    return (Range){ .known = true, .nullable = range.nullable, .low = known.min, .high = known.max };
}

static Source *table_source(QueryRun *run, int relation, const ColumnRef *refs, int n_refs)
{
    const Table *table = run->query->relations[relation].table;
    Source      *source = arena_make(run->arena, Source);
    int         *chunk_column = arena_array(run->arena, int, n_refs + 1);
    *source = (Source){ .name = run->query->relations[relation].alias, .n_chunks = table->n_chunks, .chunks = table->chunks, .n_rows = table->n_rows,
                        .from_store = true };
    source->columns = arena_array(run->arena, SourceColumn, n_refs + 1);
    source->chunk_column = chunk_column;
    for (int i = 0; i < n_refs; i++) {
        if (refs[i].relation != relation) continue;
        const Column *column = &table->columns[refs[i].column];
        chunk_column[source->n_columns] = refs[i].column;
        source->columns[source->n_columns++] = (SourceColumn){
            .ref = refs[i], .name = column->name, .type = column->type, .dict = column->dict, .dict_count = column->dict_count,
            .width = table_column_range(table, refs[i].column).width, .range = range_of_source(table, refs[i].column),
        };
    }
    return source;
}

// NULL flags as bytes become the bitmap that kernels read.
static weft_status bitmap_of(QueryRun *run, const u8 *nulls, u64 n_rows, u64 **valid)
{
    TRY(query_alloc(run, n_rows / 8 + 64, (void **)valid));
    for (u64 r = 0; r < n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        if (!nulls[r]) (*valid)[r >> 6] |= (u64)1 << (r & 63);
    }
    return WEFT_OK;
}

#define STORED_CHUNK_ROWS (1u << 30)

// The rows a kernel left, as the source of the next one: OUTPUTS[i] is the column that output i holds.
static weft_status stored_source(QueryRun *run, const Launch *launch, Expr *const *outputs, int n_outputs, Source **out)
{
    Source       *source = *out = arena_make(run->arena, Source);
    Chunk        *chunk = arena_make(run->arena, Chunk);
    const Chunk **chunks = arena_array(run->arena, const Chunk *, 1);
    int          *chunk_column = arena_array(run->arena, int, n_outputs + 1);
    if (launch->rows.n_rows > STORED_CHUNK_ROWS)
        return fail(run->err, WEFT_UNSUPPORTED, -1, "more than %u rows between two operators with weave = off", STORED_CHUNK_ROWS);
    *source = (Source){ .name = "stored", .n_columns = n_outputs, .n_chunks = 1, .chunks = chunks, .chunk_column = chunk_column, .n_rows = launch->rows.n_rows };
    source->columns = arena_array(run->arena, SourceColumn, n_outputs + 1);
    chunks[0] = chunk;
    chunk->n_rows = (u32)launch->rows.n_rows;
    chunk->columns = arena_array(run->arena, ColumnChunk, n_outputs + 1);
    for (int o = 0; o < n_outputs; o++) {
        const OutColumn *column = &launch->woven->outputs[o];
        const ColumnRef  ref = { outputs[o]->relation, outputs[o]->column };
        void            *data;
        u64             *valid = NULL;
        TRY(query_alloc(run, launch->rows.n_rows * 8 + 64, &data));
        TRY(query_copy(run, data, launch->rows.columns[column->value], launch->rows.n_rows * 8));
        if (column->null >= 0) TRY(bitmap_of(run, launch->rows.columns[column->null], launch->rows.n_rows, &valid));
        chunk_column[o] = o;
        chunk->columns[o] = (ColumnChunk){ .data = data, .valid = valid, .width = 8, .has_range = true, .min = INT64_MIN, .max = INT64_MAX };
        source->columns[o] = (SourceColumn){ .ref = ref, .name = run->query->relations[ref.relation].table->columns[ref.column].name, .type = outputs[o]->type,
                                             .dict = column->dict, .dict_count = column->dict_count, .width = 8, .range = column->range };
    }
    return WEFT_OK;
}

// ---- steps: filters as early as they can be, probes by what they let through -------------------------------------------------

typedef struct Steps {
    WeaveStep *steps;
    int        n_steps;
    u64        available;              // relations whose columns are there
    bool      *filter_done, *probe_done;
} Steps;

static u64 bit(int relation) { return (u64)1 << relation; }

// Filters that may raise an error come after those that cannot, on fewer rows.
static void add_filters(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    for (int pass = 0; pass < 2; pass++)
        for (int f = 0; f < pipeline->n_filters; f++) {
            const Expr *filter = pipeline->filters[f];
            if (steps->filter_done[f] || (expr_relations(filter) & ~steps->available) || expr_can_fail(filter) != (pass == 1)) continue;
            *LIST_PUSH(run->arena, steps->steps, steps->n_steps) = (WeaveStep){ .filter = filter };
            steps->filter_done[f] = true;
        }
}

Range query_column_range(void *context, const Expr *column)
{
    const QueryRun *run = context;
    return range_of_source(run->query->relations[column->relation].table, column->column);
}

// A row whose key is NULL matches nothing: it never enters a table.
static weft_status add_key_filters(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    for (int k = 0; pipeline->sink == SINK_TABLE && k < pipeline->n_keys; k++) {
        Expr *filter;
        if (!range_of(pipeline->keys[k], query_column_range, run).nullable) continue;
        TRY(expr_call(run->arena, OP_IS_NOT_NULL, &pipeline->keys[k], 1, pipeline->keys[k]->at, &filter, run->err));
        *LIST_PUSH(run->arena, steps->steps, steps->n_steps) = (WeaveStep){ .filter = filter };
    }
    return WEFT_OK;
}

// Rows that pass per row that comes: the share of the scanned rows that entered the table, or more where keys repeat.
static double pass_rate(const JoinTable *table, const Table *scanned)
{
    if (!table->is_unique && table->kind != JOIN_BITS) return 1 + (double)table->n_rows / (double)MAX_OF(table->n_distinct, 1);
    return (double)table->n_rows / (double)MAX_OF(scanned->n_rows, 1);
}

// What a probe costs, about: where in the caches the table lies decides.
static double probe_cost(const JoinTable *table)
{
    const double size = (double)table->bytes, reach = size < 48e3 ? 1 : size < 700e3 ? 2 : size < 16e6 ? 4 : 12;
    return table->kind == JOIN_HASH ? 2 * reach : reach;
}

// Cheap tests that drop many rows first: cost per row dropped.  Those that drop none, or multiply rows, go last.
static double probe_rank(const JoinTable *table, const Table *scanned)
{
    const double pass = pass_rate(table, scanned);
    return pass < 0.999 ? probe_cost(table) / (1 - pass) : 1e6 * (pass + probe_cost(table) * 1e-3);
}

static bool is_ready(const Probe *probe, u64 available)
{
    for (int k = 0; k < probe->n_keys; k++)
        if (expr_relations(probe->keys[k]) & ~available) return false;
    return true;
}

static int best_probe(const QueryRun *run, const Pipeline *pipeline, const Steps *steps)
{
    int    best = -1;
    double best_rank = 0;
    for (int p = 0; p < pipeline->n_probes; p++) {
        const Probe    *probe = &pipeline->probes[p];
        const Pipeline *build = &run->plan->pipelines[probe->build];
        if (steps->probe_done[p] || !is_ready(probe, steps->available)) continue;
        const double rank = probe_rank(run->tables[probe->build], run->query->relations[build->relation].table);
        if (best >= 0 && rank >= best_rank) continue;
        best = p, best_rank = rank;
    }
    return best;
}

static weft_status list_steps(QueryRun *run, const Pipeline *pipeline, Steps *steps)
{
    *steps = (Steps){ .available = bit(pipeline->relation) };
    steps->filter_done = arena_array(run->arena, bool, pipeline->n_filters + 1);
    steps->probe_done = arena_array(run->arena, bool, pipeline->n_probes + 1);
    add_filters(run, pipeline, steps);
    int probe;
    while ((probe = best_probe(run, pipeline, steps)) >= 0) {
        const Probe *next = &pipeline->probes[probe];
        *LIST_PUSH(run->arena, steps->steps, steps->n_steps) = (WeaveStep){ .table = run->tables[next->build], .keys = next->keys };
        steps->probe_done[probe] = true;
        steps->available |= run->plan->pipelines[next->build].relations;
        add_filters(run, pipeline, steps);
    }
    return add_key_filters(run, pipeline, steps);
}

// ---- one kernel ------------------------------------------------------------------------------------------------------------------

static KernelReport *report(QueryRun *run, int pipeline, const char *label, const Launch *launch, const Woven *woven, double compile_ms)
{
    PipelineReport *reports = &run->reports[pipeline];
    KernelReport   *kernel = LIST_PUSH(run->own, reports->kernels, reports->n_kernels);
    *kernel = (KernelReport){ .label = label, .woven = woven, .device = launch ? launch->device : run->session->db->cpu, .compile_ms = compile_ms };
    if (!launch) return kernel;
    kernel->morsels[0] = launch->morsels[0], kernel->morsels[1] = launch->morsels[1];
    kernel->rows_in = launch->rows_in, kernel->rows_out = launch->rows_out, kernel->bytes_read = launch->bytes_read;
    kernel->chunks_read = launch->chunks_read, kernel->chunks_skipped = launch->chunks_skipped, kernel->n_workers = launch->n_workers;
    kernel->time_ms = launch->time_ms, kernel->wait_ms = launch->wait_ms, kernel->n_beside = launch->n_beside;
    kernel->woven_as = launch->woven_as, kernel->n_woven = launch->n_woven, kernel->gain = launch->gain;
    kernel->gpu = launch->gpu;
    kernel->counts = arena_array(run->own, u64, woven->n_counts + 1);
    if (launch->counts) memcpy(kernel->counts, launch->counts, (size_t)woven->n_counts * sizeof(u64));
    return kernel;
}

static double expected_ms(const QueryRun *run, const WeaveJob *job)
{
    return (double)job->source->n_rows * (job->n_steps + 1) * TCC_NS_PER_ROW_AND_STEP * 1e-6 / run->session->settings.threads;
}

static void ask_for_better_code(QueryRun *run, Code *code, const WeaveJob *job)
{
    JitTier tier;
    code_function(code, &tier);
    if (run->session->settings.jit != JIT_AUTO || tier == TIER_CC) return;
    if (expected_ms(run, job) > IMPROVE_NOW_MS) jit_improve(run->session->db->jit, code);
    else *LIST_PUSH(run->own, run->codes, run->n_codes) = code;
}

// A LIMIT without ORDER BY takes the first rows of the table, so it must begin there; a query held to fewer threads than there are
// must not hold up others; stored rows, and tables made when asked for (virtual.c), belong to the query.  These scan alone.
static bool is_virtual(const Table *table) { return strncmp(table->name, "weft_", 5) == 0; }

static Ride make_ride(QueryRun *run, int pipeline, const char *label, Launch *launch)
{
    const weft_session *session = run->session;
    const Table        *scanned = run->query->relations[run->plan->pipelines[pipeline].relation].table;
    const bool          is_own = !launch->source->from_store || is_virtual(scanned);
    const Table        *table = is_own ? NULL : scanned;
    const bool          all_threads = session->settings.threads >= network_threads(session->db->network);
    return (Ride){ .device = session->db->cpu, .launch = launch, .table = table, .label = label, .query = session->query_number,
                   .is_shared = session->settings.sharing && table && launch->limit < 0 && all_threads, .max_threads = session->settings.threads,
                   .priority = session->settings.priority, .may_sieve = session->settings.weave_queries && session->settings.weave };
}

// What does not pay on a GPU, and why; NULL: it may.
static const char *unsuited(const Woven *woven, i64 limit)
{
    if (limit >= 0) return "the LIMIT may soon be reached";
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
    else if (job->source->n_rows >= GPU_ROWS) gpu = gpus_ready(db->gpus);
    if (gpu) *device = gpu;
    return WEFT_OK;
}

// For people, once it has run on the CPU.
static const char *why_not_on_gpu(const QueryRun *run, const WeaveJob *job, const Woven *woven, i64 limit)
{
    const bool is_auto = run->session->settings.device == DEVICE_AUTO;
    if (run->session->settings.device == DEVICE_CPU || run->must_use_cpu) return NULL;
    if (is_auto && !gpus_is_wanted(run->session->db->gpus)) return NULL;
    if (is_auto && job->source->n_rows < GPU_ROWS) return "fewer than 4,194,304 rows";
    const char *reason = unsuited(woven, limit);
    return reason || !is_auto ? reason : "it is being opened";
}

// ---- tables that a device made, where the pipeline runs elsewhere -------------------------------------------------------------------

weft_status query_device_failed(QueryRun *run, weft_status status)
{
    if (status && status != WEFT_QUERY_CANCELED) run->has_lost_tables = true;
    return status;
}

static void set_parts(Woven *woven, const JoinTable *table)
{
    for (int t = 0; t < woven->n_tables; t++) {
        const WovenTable *facts = &woven->table_facts[t];
        if (facts->owner == table->id && !woven->tables[t]) woven->tables[t] = remote_part(table, facts->number);
    }
}

static weft_status bring_tables(QueryRun *run, const WeaveJob *job, Woven *woven, const Device *device)
{
    for (int s = 0; s < job->n_steps; s++) {
        JoinTable *table = NULL;
        for (int p = 0; p < run->plan->n_pipelines; p++)
            if (job->steps[s].table && run->tables[p] == job->steps[s].table) table = run->tables[p];
        if (!table || !table->remote || remote_is_on(table->remote, device)) continue;
        TRY(query_device_failed(run, remote_fetch(table, run->err)));
        set_parts(woven, table);
    }
    return WEFT_OK;
}

// The CPU will be done before a compiler would be (and its own code is not cc's, to be waited for as well).
static bool should_stand_in(QueryRun *run, const WeaveJob *job, const Launch *launch)
{
    Device *device = launch->device;
    if (!device->wait_ms || run->session->settings.gpu_wait || run->session->settings.jit == JIT_CC) return false;
    const double cpu_ms = expected_ms(run, job) * MAX_OF(launch->woven->fan_out, 1), wait_ms = device->wait_ms(device, launch);
    if (wait_ms <= 0 || cpu_ms > wait_ms) return false;
    run->unready = device;
    if (cpu_ms > COMPILE_NOW_MS) device->get_ready(device);
    return true;
}

// IMPROVE: it will run here again, so better code is worth asking for.
static weft_status run_on_cpu(QueryRun *run, int pipeline, const char *label, const WeaveJob *job, bool improve, Launch *launch, double *compile_ms)
{
    weft_session *session = run->session;
    const Woven  *woven = launch->woven;
    const char   *notice = NULL;
    TRY(bring_tables(run, job, (Woven *)(uintptr_t)woven, session->db->cpu));
    const double  start = time_now_ms();
    launch->device = session->db->cpu;
    TRY(jit_get(session->db->jit, woven->text, woven->name, session->settings.jit, &launch->code, &notice, run->err));
    *compile_ms = time_now_ms() - start;
    if (notice) query_notice(run, notice);
    if (improve) ask_for_better_code(run, launch->code, job);
    Ride ride = make_ride(run, pipeline, label, launch);
    return woven->fan_out > FAN_OUT_SHARED ? ride_alone(&ride, run->err) : network_ride(session->db->network, &ride, run->err);
}

// ---- announcing: a device may wait for those who will share a scan ----------------------------------------------------------------------

static const Table *last_table(const QueryRun *run) { return run->query->relations[run->plan->pipelines[run->plan->n_pipelines - 1].relation].table; }

static void announce(QueryRun *run)
{
    const Settings *settings = &run->session->settings;
    weft_db        *db = run->session->db;
    Device         *device = NULL;
    Error           ignored = { 0 };
    if (settings->device == DEVICE_CPU || run->must_use_cpu || run->is_explained || !settings->sharing) return;
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
    if (pipeline != run->plan->n_pipelines - 1 || !run->announced) return;
    launch->is_expected = run->announced == launch->device && launch->table == last_table(run)->id;
    if (!launch->is_expected) take_back(run);
    run->announced = NULL;
}

// *REFUSED says why it did not run it, as a notice does; NULL: it did.
static weft_status run_on_gpu(QueryRun *run, Launch *launch, const char **refused)
{
    Launch            before = *launch;
    const weft_status status = launch->device->scan(launch->device, launch, run->err);
    if (launch->is_expected) launch->device->expect(launch->device, launch->table, -1);
    launch->is_expected = before.is_expected = false;
    *refused = launch->refused[0] ? arena_printf(run->own, "%s", launch->refused) : NULL;
    if (!*refused) return status;
    query_notice(run, arena_printf(run->own, "%s did not run a pipeline, the CPU did: %s", launch->device->name, *refused));
    *launch = before;
    return WEFT_OK;
}

static weft_status run_job(QueryRun *run, int pipeline, const char *label, const WeaveJob *job, i64 limit, Launch *launch)
{
    weft_session *session = run->session;
    Woven        *woven;
    Device       *device;
    const char   *refused = NULL;
    double        compile_ms = 0;
    weft_status   status = WEFT_OK;
    TRY(weave(run->arena, job, &woven, run->err));
    if (run->only_weave && pipeline == run->plan->n_pipelines - 1) {
        report(run, pipeline, label, NULL, woven, 0);
        run->last_woven = woven;
        return WEFT_OK;
    }
    TRY(choose_device(run, job, woven, limit, &device));
    const Ride ride = make_ride(run, pipeline, label, &(Launch){ .source = job->source, .limit = limit });
    *launch = (Launch){ .device = device, .table = ride.is_shared ? ride.table->id : 0, .scanned = ride.table, .label = label, .query = ride.query, .is_explained = run->is_explained, .may_weave = ride.may_sieve, .woven = woven, .source = job->source, .sink = job->sink, .n_slots = network_threads(session->db->network), .limit = limit,
                        .budget = query_budget(run), .jit = session->settings.jit == JIT_TCC ? NULL : session->db->jit, .stop = &session->stop, .rows_done = &session->rows_done };
    if (job->sink == SINK_TABLE && device->make_table) table_facts(run, pipeline, woven, job->notes, launch);
    if (device->scan) TRY(bring_tables(run, job, woven, device));
    const bool stands_in = should_stand_in(run, job, launch), is_asked = device->scan && !stands_in;
    if (is_asked) arrive(run, pipeline, launch);
    if (is_asked) status = run_on_gpu(run, launch, &refused);
    if (pipeline == run->plan->n_pipelines - 1) take_back(run);
    if (is_asked && !refused) compile_ms = launch->compile_ms;
    else status = run_on_cpu(run, pipeline, label, job, !stands_in, launch, &compile_ms);
    KernelReport *kernel = report(run, pipeline, label, launch, woven, compile_ms);
    if (stands_in) kernel->meanwhile = device->name;
    if (!device->scan) kernel->unsuited = why_not_on_gpu(run, job, woven, limit);
    if (refused) kernel->unsuited = refused;
    run->last_woven = woven;
    return status;
}

// ---- one pipeline -----------------------------------------------------------------------------------------------------------------

typedef struct PipelineJob { WeaveJob job; const Pipeline *pipeline; int number; i64 limit; } PipelineJob;

static void set_sink(QueryRun *run, PipelineJob *pj)
{
    const Pipeline *pipeline = pj->pipeline;
    const Query    *query = run->query;
    WeaveJob       *job = &pj->job;
    job->sink = pipeline->sink;
    if (pipeline->sink == SINK_GROUPS) {
        job->n_keys = query->n_keys, job->keys = query->keys, job->n_aggs = query->n_aggs, job->aggs = query->aggs;
        return;
    }
    const int n = pipeline->sink == SINK_TABLE ? pipeline->n_keys + pipeline->n_payload : query->n_outputs;
    Expr    **outputs = arena_array(run->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) {
        if (pipeline->sink == SINK_ROWS) outputs[i] = query->outputs[i].expr;
        else if (i < pipeline->n_keys) outputs[i] = pipeline->keys[i];
        else {
            const ColumnRef ref = pipeline->payload[i - pipeline->n_keys];
            outputs[i] = expr_column(run->arena, ref.relation, ref.column, query->relations[ref.relation].table->columns[ref.column].type, -1);
        }
    }
    job->n_outputs = n, job->outputs = outputs;
    if (pipeline->sink == SINK_TABLE) job->notes = table_notes(run, pj->number);
}

static void collect_from(QueryRun *run, const WeaveJob *job, int first_step, ColumnRef **refs, int *n_refs)
{
    for (int s = first_step; s < job->n_steps; s++) {
        if (job->steps[s].filter) plan_collect_columns(run->arena, job->steps[s].filter, refs, n_refs);
        for (int k = 0; job->steps[s].table && k < job->steps[s].table->n_keys; k++) plan_collect_columns(run->arena, job->steps[s].keys[k], refs, n_refs);
    }
    for (int k = 0; k < job->n_keys; k++) plan_collect_columns(run->arena, job->keys[k], refs, n_refs);
    for (int a = 0; a < job->n_aggs; a++)
        if (job->aggs[a].arg) plan_collect_columns(run->arena, job->aggs[a].arg, refs, n_refs);
    for (int o = 0; o < job->n_outputs; o++) plan_collect_columns(run->arena, job->outputs[o], refs, n_refs);
}

// Columns that steps after STEP need and that are there once it is done, as outputs of its kernel.
static Expr **columns_after(QueryRun *run, const WeaveJob *job, int step, u64 available, int *n_outputs)
{
    ColumnRef *refs = NULL;
    int        n_refs = 0;
    collect_from(run, job, step + 1, &refs, &n_refs);
    Expr **outputs = arena_array(run->arena, Expr *, n_refs + 1);
    *n_outputs = 0;
    for (int i = 0; i < n_refs; i++) {
        if (!(available >> refs[i].relation & 1)) continue;
        const Column *column = &run->query->relations[refs[i].relation].table->columns[refs[i].column];
        outputs[(*n_outputs)++] = expr_column(run->arena, refs[i].relation, refs[i].column, column->type, -1);
    }
    return outputs;
}

static u64 relations_of_table(const JoinTable *table)
{
    u64 relations = 0;
    for (int p = 0; p < table->n_payloads; p++) relations |= bit(table->payloads[p].ref.relation);
    return relations;
}

// Weaving off: every step a kernel, its rows stored; then the sink as a kernel of its own.
static weft_status run_unwoven(QueryRun *run, PipelineJob *pj, Launch *launch)
{
    const WeaveJob whole = pj->job;
    const Source  *source = whole.source;
    u64            available = bit(pj->pipeline->relation);
    for (int s = 0; s < whole.n_steps; s++) {
        Launch   step = { 0 };
        WeaveJob job = { .query = whole.query, .source = source, .steps = &whole.steps[s], .n_steps = 1, .sink = SINK_ROWS, .stop = whole.stop };
        Source  *stored = NULL;
        if (whole.steps[s].table) available |= relations_of_table(whole.steps[s].table);
        job.outputs = columns_after(run, &whole, s, available, &job.n_outputs);
        const bool only_weave = run->only_weave;
        run->only_weave = false;       // the shape of a kernel depends on what the one before left
        weft_status status = run_job(run, pj->number, whole.steps[s].table ? "join" : "filter", &job, -1, &step);
        run->only_weave = only_weave;
        if (!status) status = stored_source(run, &step, job.outputs, job.n_outputs, &stored);
        if (step.memory) step.device->free_launch(step.device, &step);
        if (status) return status;
        source = stored;
    }
    WeaveJob sink = whole;
    sink.source = source, sink.n_steps = 0;
    return run_job(run, pj->number, "sink", &sink, pj->limit, launch);
}

static i64 rows_enough(const QueryRun *run, const Pipeline *pipeline)
{
    const Query *query = run->query;
    if (pipeline->sink != SINK_ROWS || query->limit < 0 || query->n_sort) return -1;
    return query->limit > INT64_MAX - query->offset ? -1 : query->limit + query->offset;
}

// The pipeline's rows or groups, in LAUNCH.  What it points to lives in run->arena.
static weft_status push_pipeline(QueryRun *run, int number, Launch *launch)
{
    const Pipeline *pipeline = &run->plan->pipelines[number];
    PipelineJob     pj = { .pipeline = pipeline, .number = number, .limit = rows_enough(run, pipeline) };
    Steps           steps;
    ColumnRef      *refs = NULL;
    int             n_refs = 0;
    TRY(list_steps(run, pipeline, &steps));
    pj.job = (WeaveJob){ .query = run->query, .steps = steps.steps, .n_steps = steps.n_steps, .stop = &run->session->stop };
    set_sink(run, &pj);
    collect_from(run, &pj.job, 0, &refs, &n_refs);
    pj.job.source = table_source(run, pipeline->relation, refs, n_refs);
    return run->session->settings.weave ? run_job(run, number, "woven", &pj.job, pj.limit, launch) : run_unwoven(run, &pj, launch);
}

static weft_status build_table(QueryRun *run, int number, Arena *home, JoinTable **table)
{
    Launch      launch = { 0 };
    weft_status status = push_pipeline(run, number, &launch);
    const double start = time_now_ms();
    double       kernel_ms = 0;
    if (!status) status = table_build(run, home, number, &launch, table, &kernel_ms);
    run->reports[number].build_ms = !status && (*table)->remote ? kernel_ms : time_now_ms() - start;
    if (launch.memory) launch.device->free_launch(launch.device, &launch);
    return status;
}

// A shared table numbers relations as the query that made it does: this query's own view of it.
static JoinTable *own_view(QueryRun *run, const Pipeline *pipeline, const JoinTable *shared)
{
    JoinTable *table = arena_make(run->arena, JoinTable);
    *table = *shared;
    table->payloads = arena_array(run->arena, Payload, shared->n_payloads + 1);
    for (int p = 0; p < shared->n_payloads; p++) {
        table->payloads[p] = shared->payloads[p];
        table->payloads[p].ref = pipeline->payload[shared->payloads[p].number];
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

static weft_status get_table(QueryRun *run, int number)
{
    Pieces    *pieces = run->session->db->pieces;
    Piece     *piece;
    JoinTable *table = NULL;
    bool       must_make;
    if (!run->signatures[number].text) return build_table(run, number, run->arena, &run->tables[number]);
    TRY(pieces_get(pieces, run->signatures[number].text, &run->session->stop, &piece, &must_make, run->err));
    if (must_make) {
        const int n_notices = run->n_notices;
        claim_make(run->claim, number);
        const weft_status status = build_table(run, number, piece_arena(piece), &table);
        pass_on_notices(run, n_notices, piece);
        piece_made(pieces, piece, table, !status, true);
        if (status) {
            piece_release(pieces, piece);
            return status;
        }
    }
    *LIST_PUSH(run->own, run->pieces, run->n_pieces) = piece;
    take_notices(run, piece);
    run->tables[number] = own_view(run, &run->plan->pipelines[number], piece_value(piece));
    return WEFT_OK;
}

typedef struct SharedRun { Launch launch; const Woven *woven; } SharedRun;

static void free_shared_run(void *context)
{
    SharedRun *shared = context;
    if (shared->launch.memory) shared->launch.device->free_launch(shared->launch.device, &shared->launch);
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
    TRY(pieces_get(pieces, run->signatures[number].text, &run->session->stop, &piece, &must_make, run->err));
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
    take_notices(run, piece);
    run->last = &shared->launch;
    run->last_woven = shared->woven;
    return WEFT_OK;
}

// What was made takes the place of what was expected.  A table can be found by others as long as this query uses it; an answer serves only
// those who wait for it already.
static weft_status run_pipeline(QueryRun *run, int number)
{
    const bool        is_table = run->plan->pipelines[number].sink == SINK_TABLE;
    const weft_status status = is_table ? get_table(run, number) : get_answer(run, number);
    run->reports[number].table = run->tables[number];
    claim_made(run->claim, number, is_table && !status);
    return status;
}

// ---- admission --------------------------------------------------------------------------------------------------------------------

static bool only_looks(const QueryRun *run)
{
    for (int r = 0; r < run->query->n_relations; r++)
        if (!is_virtual(run->query->relations[r].table)) return false;
    return true;
}

static bool may_share(const QueryRun *run, int number)
{
    return run->session->settings.sharing && !run->is_explained && !run->must_use_cpu && rows_enough(run, &run->plan->pipelines[number]) < 0;
}

// Before anything is built or scanned, and before the query holds what others could wait for.
static weft_status wait_for_memory(QueryRun *run)
{
    const int n_pipelines = run->plan->n_pipelines;
    Part     *parts = arena_array(run->arena, Part, n_pipelines + 1);
    query_estimate(run, parts);
    for (int p = 0; p < n_pipelines; p++) {
        if (!may_share(run, p)) continue;
        run->signatures[p] = query_signature(run, p);
        parts[p].key = hash_bytes(run->signatures[p].text, run->signatures[p].length) | 1;
    }
    const Wish wish = { .query = run->session->query_number, .priority = run->session->settings.priority, .is_alone = run->is_second_try,
                        .is_look = only_looks(run) && !run->is_second_try, .n_parts = n_pipelines + 1, .parts = parts, .stop = &run->session->stop,
                        .position = &run->session->position };
    run->claim = admission_ask(run->session->db->admission, &wish);
    return claim_wait(run->claim, run->err);
}

bool query_may_try_again(const QueryRun *run, weft_status status)
{
    if (run->has_lost_tables) return !run->must_use_cpu;                       // one that was cancelled meanwhile says so when it begins
    if (atomic_load(&run->session->cancelled)) return false;
    if (status != WEFT_OUT_OF_MEMORY || run->is_second_try || !run->claim) return false;
    return only_looks(run) || claim_had_company(run->claim);
}

weft_status query_run(QueryRun *run)
{
    u64 n_rows = 0;
    TRY(plan_pipelines(run->arena, run->query, &run->plan, run->err));
    run->tables = arena_array(run->arena, JoinTable *, run->plan->n_pipelines);
    run->reports = arena_array(run->arena, PipelineReport, run->plan->n_pipelines);
    run->signatures = arena_array(run->arena, Signature, run->plan->n_pipelines);
    for (int p = 0; p < run->plan->n_pipelines; p++) n_rows += run->query->relations[run->plan->pipelines[p].relation].table->n_rows;
    atomic_store(&run->session->rows_done, 0);
    run->is_empty = !run->only_weave && plan_is_empty(run->query);
    if (run->is_empty) return WEFT_OK;
    atomic_store(&run->session->rows_total, n_rows);
    TRY(wait_for_memory(run));
    announce(run);
    for (int p = 0; p < run->plan->n_pipelines; p++) TRY(run_pipeline(run, p));
    return WEFT_OK;
}

static bool is_shared_launch(const QueryRun *run)
{
    for (int i = 0; i < run->n_pieces; i++) {
        const SharedRun *shared = piece_value(run->pieces[i]);
        if (run->last == &shared->launch) return true;
    }
    return false;
}

void query_free(QueryRun *run)
{
    if (run->last && run->last->memory && !is_shared_launch(run)) run->last->device->free_launch(run->last->device, run->last);
    for (int i = 0; i < run->n_pieces; i++) piece_release(run->session->db->pieces, run->pieces[i]);
    for (int i = 0; i < run->n_codes; i++) jit_improve(run->session->db->jit, run->codes[i]);
    if (run->unready) run->unready->get_ready(run->unready);
    take_back(run);
}
