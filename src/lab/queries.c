// queries.c - paper 2: queries Q1 to Q5 alone, in pairs, and up to 16 at once.
//
// A query is a list of copies and kernels.  A kernel waits for the copies before it and for the kernel before it;
// copies wait for nothing but each other, since there is one engine for them.  Three ways to run several queries:
//
//     sequential   one step after the other, query by query, from pageable memory: the host waits for each
//     MultiQx      copies from pinned memory beside the kernels, but one kernel at a time
//     model        the same copies; kernels run at once with launch parameters of the model
//
// On a simulated card copies take their bytes at a stated speed, and a kernel starts as soon as the model finds launch
// parameters with which it fits beside those that run.  On a GPU each query has a stream, and all of it is measured.

#include "lab/sql.h"

enum { N_QUERIES = 5, AT_ONCE_MAX = 16, CHAIN_MAX = 3, GPU_RUNS_MAX = 20 };

// Of PCI Express 3.0 with 16 lanes, which the papers' cards have: what is usually measured.
static const double pageable_gbs = 5, pinned_gbs = 10;

typedef struct QueryStep {
    LabPool     pool;
    const char *kernel;                                     // NULL: there is no such step
    int         bytes_per_thread;                           // of the kernel's input, copied before it
} QueryStep;

typedef struct LabQuery {
    const char *name, *title;
    QueryStep   steps[CHAIN_MAX];                           // a copy and a kernel each
} LabQuery;

// Bytes of a thread: its items (work_*.c) times the bytes of an item.
static const LabQuery queries[N_QUERIES] = {
    { "Q1", "hash join of two tables",
      { { LAB_POOL_QUERY, "hash_build", 1024 * 8 }, { LAB_POOL_QUERY, "hash_probe", 2048 * 8 } } },
    { "Q2", "hash join of three tables",
      { { LAB_POOL_QUERY, "hash_build", 1024 * 8 },
        { LAB_POOL_QUERY, "hash_build", 1024 * 8 },
        { LAB_POOL_QUERY, "hash_probe_2", 2048 * 12 } } },
    { "Q3", "md5 verification", { { LAB_POOL_REAL, "md5", 512 * 48 } } },
    { "Q4", "matrix multiplication", { { LAB_POOL_REAL, "matrix_multiply", 1456 } } },
    { "Q5", "distances of atoms", { { LAB_POOL_REAL, "radial_distribution", 68 } } },
};

typedef enum QueryWay { WAY_SEQUENTIAL, WAY_MULTIQX, WAY_MODEL, N_WAYS } QueryWay;

// ---- queries on this card -------------------------------------------------------------------------------------------

typedef struct ReadyQuery {
    int       n_kernels;
    LabMember kernels[CHAIN_MAX];
    LabLaunch alone[CHAIN_MAX];                             // with the best block size of a kernel alone
    i64       alone_ns[CHAIN_MAX];                          // simulated
    i64       bytes[CHAIN_MAX];                             // copied before the kernel
} ReadyQuery;

static weft_status make_query_ready(Lab *lab, const LabQuery *query, ReadyQuery *ready)
{
    for (int i = 0; i < CHAIN_MAX && query->steps[i].kernel; i++) {
        const LabKernel *kernel = lab_pool_find(query->steps[i].pool, query->steps[i].kernel);
        TRY(lab_member(lab, kernel, &ready->kernels[i]));
        TRY(lab_shape_alone(lab, &ready->kernels[i], 0, &ready->alone[i]));
        ready->bytes[i] = ready->kernels[i].launch.n_threads * query->steps[i].bytes_per_thread;
        if (lab->is_sim)
            TRY(lab_run_set(lab, &ready->alone[i], 1, &ready->alone_ns[i]));
        ready->n_kernels++;
    }
    return WEFT_OK;
}

static i64 copy_ns(i64 bytes, double gbs)
{
    return (i64)((double)bytes / gbs);                      // bytes per nanosecond are GB per second
}

// ---- simulated ------------------------------------------------------------------------------------------------------

typedef struct SimQuery {                                   // a query while it is simulated
    const ReadyQuery *query;
    i64  copied_ns[CHAIN_MAX];                              // when the copy before each kernel is done
    int  next;                                              // kernel to start; n_kernels: all have started
    i64  free_ns;                                           // when the kernel before it ends
    bool is_running;
} SimQuery;

static i64 ready_at(const SimQuery *query)
{
    return MAX_OF(query->copied_ns[query->next], query->free_ns);
}

static bool has_next(const SimQuery *query)
{
    return query->next < query->query->n_kernels;
}

// Copies come query by query.
static void place_copies(SimQuery *sims, int n)
{
    i64 at_ns = 0;
    for (int q = 0; q < n; q++)
        for (int k = 0; k < sims[q].query->n_kernels; k++)
            sims[q].copied_ns[k] = at_ns += copy_ns(sims[q].query->bytes[k], pinned_gbs);
}

static i64 simulate_sequential(const ReadyQuery *const *set, int n)
{
    i64 time_ns = 0;
    for (int q = 0; q < n; q++)
        for (int k = 0; k < set[q]->n_kernels; k++)
            time_ns += copy_ns(set[q]->bytes[k], pageable_gbs) + set[q]->alone_ns[k];
    return time_ns;
}

// One kernel at a time, that which has been ready for longest.
static i64 simulate_multiqx(SimQuery *sims, int n)
{
    i64 now_ns = 0;
    for (;;) {
        SimQuery *first = NULL;
        for (int q = 0; q < n; q++)
            if (has_next(&sims[q]) && (!first || ready_at(&sims[q]) < ready_at(first)))
                first = &sims[q];
        if (!first)
            return now_ns;
        now_ns = MAX_OF(now_ns, ready_at(first)) + first->query->alone_ns[first->next++];
        first->free_ns = now_ns;
    }
}

// Whether the kernel fits beside those that run.
static bool fits_beside(Lab *lab, const SimQuery *sims, int n, const LabMember *member)
{
    LaunchKernel kernels[AT_ONCE_MAX + 1];
    LaunchPlan plan;
    int n_kernels = 0;
    Arena *scratch = arena_new(NULL, "fits");
    for (int q = 0; q < n; q++)
        if (sims[q].is_running)
            kernels[n_kernels++] = sims[q].query->kernels[sims[q].next - 1].launch;
    kernels[n_kernels++] = member->launch;
    const bool fits = launch_plan(scratch, &lab->limits, kernels, n_kernels, &plan);
    arena_free(scratch);
    return fits;
}

static void start_ready(Lab *lab, SimQuery *sims, int n, i64 now_ns)
{
    for (int q = 0; q < n; q++) {
        SimQuery *own = &sims[q];
        if (own->is_running || !has_next(own) || ready_at(own) > now_ns)
            continue;
        const LabMember *member = &own->query->kernels[own->next];
        if (!fits_beside(lab, sims, n, member))
            continue;
        own->is_running = true;
        own->free_ns = now_ns + member->kernel->duration_ns;
        own->next++;
    }
}

// The next time at which a kernel ends or becomes ready after NOW; -1: never.
static i64 next_event(const SimQuery *sims, int n, i64 now_ns)
{
    i64 next_ns = -1;
    for (int q = 0; q < n; q++) {
        const i64 at_ns = sims[q].is_running ? sims[q].free_ns : has_next(&sims[q]) ? ready_at(&sims[q]) : -1;
        if (at_ns > now_ns && (next_ns < 0 || at_ns < next_ns))
            next_ns = at_ns;
    }
    return next_ns;
}

static i64 simulate_model(Lab *lab, SimQuery *sims, int n)
{
    i64 now_ns = 0, next_ns;
    start_ready(lab, sims, n, now_ns);
    while ((next_ns = next_event(sims, n, now_ns)) >= 0) {
        now_ns = next_ns;
        for (int q = 0; q < n; q++)
            if (sims[q].free_ns <= now_ns)
                sims[q].is_running = false;
        start_ready(lab, sims, n, now_ns);
    }
    return now_ns;
}

static i64 simulate(Lab *lab, const ReadyQuery *const *set, int n, QueryWay way)
{
    SimQuery sims[AT_ONCE_MAX] = { 0 };
    for (int q = 0; q < n; q++)
        sims[q].query = set[q];
    place_copies(sims, n);
    switch (way) {
        case WAY_SEQUENTIAL: return simulate_sequential(set, n);
        case WAY_MULTIQX: return simulate_multiqx(sims, n);
        default: return simulate_model(lab, sims, n);
    }
}

// ---- measured -------------------------------------------------------------------------------------------------------

typedef struct StepList {
    LabStep steps[2 * CHAIN_MAX * AT_ONCE_MAX];
    int     copies[AT_ONCE_MAX][CHAIN_MAX];                 // where each query's copies are among them
    int     n_steps;
} StepList;

static int add_step(StepList *list, LabStep step)
{
    list->steps[list->n_steps] = step;
    return list->n_steps++;
}

static void list_sequential(const ReadyQuery *const *set, int n, StepList *list)
{
    for (int q = 0; q < n; q++)
        for (int k = 0; k < set[q]->n_kernels; k++) {
            add_step(list, (LabStep){ .kind = LAB_STEP_COPY, .bytes = set[q]->bytes[k], .stream = 0, .after = -1 });
            add_step(list, (LabStep){ .kind = LAB_STEP_KERNEL, .launch = set[q]->alone[k], .stream = 0, .after = -1 });
        }
}

static void list_copies(const ReadyQuery *const *set, int n, StepList *list)
{
    for (int q = 0; q < n; q++)
        for (int k = 0; k < set[q]->n_kernels; k++)
            list->copies[q][k] = add_step(
                list, (LabStep){ .kind = LAB_STEP_COPY, .bytes = set[q]->bytes[k], .stream = 0, .after = -1 });
}

// Kernels of one stream: those that come first in their queries first.
static void list_multiqx(const ReadyQuery *const *set, int n, StepList *list)
{
    list_copies(set, n, list);
    for (int k = 0; k < CHAIN_MAX; k++)
        for (int q = 0; q < n; q++)
            if (k < set[q]->n_kernels)
                add_step(list, (LabStep){ .kind = LAB_STEP_KERNEL, .launch = set[q]->alone[k], .stream = 1,
                                          .after = list->copies[q][k] });
}

// The shapes of the K-th kernels of all queries: those of the batches that they make.
static weft_status plan_shapes(Lab *lab, const ReadyQuery *const *set, int n, int k, LabLaunch *launches)
{
    LaunchKernel kernels[AT_ONCE_MAX];
    int owners[AT_ONCE_MAX], n_kernels = 0;
    BatchPlan plan;
    Error why = { 0 };
    for (int q = 0; q < n; q++)
        if (k < set[q]->n_kernels) {
            owners[n_kernels] = q;
            kernels[n_kernels++] = set[q]->kernels[k].launch;
        }
    if (!n_kernels)
        return WEFT_OK;
    TRY(batch_plan(lab->arena, &lab->limits, lp_library(&why), kernels, n_kernels, &plan, lab->err));
    for (int b = 0; b < plan.n_batches; b++)
        for (int i = 0; i < plan.batches[b].n_kernels; i++) {
            const int q = owners[plan.batches[b].kernels[i]];
            const LaunchShape *shape = &plan.batches[b].plan.shapes[i];
            launches[q] = (LabLaunch){ set[q]->kernels[k].kernel, shape->threads_per_block, shape->n_blocks, 0 };
        }
    return WEFT_OK;
}

static weft_status list_model(Lab *lab, const ReadyQuery *const *set, int n, StepList *list)
{
    list_copies(set, n, list);
    for (int k = 0; k < CHAIN_MAX; k++) {
        LabLaunch launches[AT_ONCE_MAX];
        TRY(plan_shapes(lab, set, n, k, launches));
        for (int q = 0; q < n; q++)
            if (k < set[q]->n_kernels)
                add_step(list, (LabStep){ .kind = LAB_STEP_KERNEL, .launch = launches[q], .stream = 1 + q,
                                          .after = list->copies[q][k] });
    }
    return WEFT_OK;
}

// Planning is part of the time, as in the paper.
static weft_status measure_once(Lab *lab, const ReadyQuery *const *set, int n, QueryWay way, i64 *time_ns)
{
    StepList list = { .n_steps = 0 };
    const double start_ms = time_now_ms();
    if (way == WAY_SEQUENTIAL)
        list_sequential(set, n, &list);
    else if (way == WAY_MULTIQX)
        list_multiqx(set, n, &list);
    else
        TRY(list_model(lab, set, n, &list));
    const i64 plan_ns = (i64)((time_now_ms() - start_ms) * 1e6);
    TRY(lab_gpu_run_steps(lab->gpu, list.steps, list.n_steps, way != WAY_SEQUENTIAL, time_ns, lab->err));
    *time_ns += plan_ns;
    return WEFT_OK;
}

// The median of some runs; the first, which compiles and makes input, does not count.
static weft_status measure(Lab *lab, const ReadyQuery *const *set, int n, QueryWay way, i64 *time_ns)
{
    const int n_runs = MIN_OF(lab_runs(lab, GPU_RUNS_MAX), GPU_RUNS_MAX);
    double times[GPU_RUNS_MAX];
    TRY(measure_once(lab, set, n, way, time_ns));
    for (int i = 0; i < n_runs; i++) {
        TRY(measure_once(lab, set, n, way, time_ns));
        times[i] = (double)*time_ns;
    }
    *time_ns = (i64)lab_figures(times, n_runs).median;
    return WEFT_OK;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

typedef struct QueryTimes { i64 time_ns[N_WAYS]; } QueryTimes;

static double speedup(const QueryTimes *times, QueryWay way)
{
    return (double)times->time_ns[WAY_SEQUENTIAL] / (double)MAX_OF(times->time_ns[way], 1);
}

static weft_status run_ways(Lab *lab, const ReadyQuery *const *set, int n, QueryTimes *times)
{
    for (int way = 0; way < N_WAYS; way++)
        if (lab->is_sim)
            times->time_ns[way] = simulate(lab, set, n, (QueryWay)way);
        else
            TRY(measure(lab, set, n, (QueryWay)way, &times->time_ns[way]));
    return WEFT_OK;
}

static LabTable *times_table(Lab *lab, const char *name, const char *title, const char *first)
{
    static const char *const columns[] = { "sequential, ms", "MultiQx, ms", "model, ms", "MultiQx, times as fast",
                                           "model, times as fast", "paper, MultiQx", "paper, model" };
    LabTable *table = lab_table_new(lab, name, title);
    lab_column(table, first, LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    return table;
}

static void times_row(Lab *lab, LabTable *table, const char *name, const QueryTimes *times, const char *paper_multiqx,
                      const char *paper_model)
{
    lab_row(table, name, lab_ms(lab, times->time_ns[WAY_SEQUENTIAL]), lab_ms(lab, times->time_ns[WAY_MULTIQX]),
            lab_ms(lab, times->time_ns[WAY_MODEL]), lab_number(lab, speedup(times, WAY_MULTIQX), 2),
            lab_number(lab, speedup(times, WAY_MODEL), 2), paper_multiqx, paper_model);
}

static weft_status show_queries(Lab *lab, const ReadyQuery *ready)
{
    LabTable *table = lab_table_new(lab, "queries-kernels", "The queries and what they are made of");
    lab_column(table, "query", LAB_LEFT);
    lab_column(table, "kernel", LAB_LEFT);
    lab_column(table, "registers", LAB_RIGHT);
    lab_column(table, "shared, bytes", LAB_RIGHT);
    lab_column(table, "threads", LAB_RIGHT);
    lab_column(table, "copied before it, MB", LAB_RIGHT);
    for (int q = 0; q < N_QUERIES; q++)
        for (int k = 0; k < ready[q].n_kernels; k++) {
            const LaunchKernel *launch = &ready[q].kernels[k].launch;
            lab_row(table, k ? "" : arena_printf(lab->arena, "%s, %s", queries[q].name, queries[q].title),
                    ready[q].kernels[k].kernel->title, lab_count_text(lab, launch->needs.registers),
                    lab_count_text(lab, launch->needs.shared), lab_count_text(lab, launch->n_threads),
                    lab_number(lab, (double)ready[q].bytes[k] / 1e6, 1));
        }
    return lab_table_end(table);
}

static weft_status run_alone(Lab *lab, const ReadyQuery *ready)
{
    LabTable *table = times_table(lab, "queries-alone", "One query", "query");
    for (int q = 0; q < N_QUERIES; q++) {
        QueryTimes times;
        lab_progress(lab, "queries alone", q, N_QUERIES);
        TRY(run_ways(lab, (const ReadyQuery *const[]){ &ready[q] }, 1, &times));
        times_row(lab, table, queries[q].name, &times, q ? "" : "0.91 (kernels only)", q ? "" : "1.00");
    }
    return lab_table_end(table);
}

static weft_status run_pairs(Lab *lab, const ReadyQuery *ready)
{
    enum { N_PAIRS = N_QUERIES * (N_QUERIES + 1) / 2 };
    LabTable *table = times_table(lab, "queries-pairs", "Two queries at once (figure 9)", "queries");
    double values[2 * N_PAIRS], model[N_PAIRS];
    const char *names[N_PAIRS];
    int n = 0;
    for (int a = 0; a < N_QUERIES; a++)
        for (int b = a; b < N_QUERIES; b++, n++) {
            QueryTimes times;
            const bool is_first = a == 0 && b == 1;
            lab_progress(lab, "pairs of queries", n, N_PAIRS);
            TRY(run_ways(lab, (const ReadyQuery *const[]){ &ready[a], &ready[b] }, 2, &times));
            names[n] = arena_printf(lab->arena, "%s %s", queries[a].name, queries[b].name);
            times_row(lab, table, names[n], &times, is_first ? "1.81" : "", is_first ? "2.02" : "");
            values[2 * n] = speedup(&times, WAY_MULTIQX);
            values[2 * n + 1] = model[n] = speedup(&times, WAY_MODEL);
        }
    TRY(lab_table_end(table));
    const LabFigures figures = lab_figures(model, n);
    lab_say(lab, "The model's pairs: least %.2f, mean %.2f, most %.2f. Paper: least 2.01, about 2.0 on average; "
            "MultiQx at least 1.37.", figures.min, figures.mean, figures.max);
    Text svg = { 0 };
    plot_bars(&(BarPlot){ .title = "Two queries at once", .description = "Speedup over sequential, for each pair.",
                          .y_label = "times as fast as sequential", .groups = names, .n_groups = n,
                          .series = (const char *const[]){ "MultiQx", "model" }, .n_series = 2, .values = values },
              &svg);
    return lab_plot(lab, "queries-pairs", "Speedup of each pair over sequential (paper 2, figure 9)", &svg);
}

typedef struct PaperPoint { int n; const char *multiqx, *model; } PaperPoint;

static const PaperPoint paper_points[] = { { 1, "", "1.00" }, { 2, "1.81", "2.02" }, { 5, "1.15", "3.38" },
                                           { 16, "1.03", "7.33" } };

static const PaperPoint *paper_point(int n)
{
    static const PaperPoint none = { 0, "", "" };
    for (int i = 0; i < COUNT_OF(paper_points); i++)
        if (paper_points[i].n == n)
            return &paper_points[i];
    return &none;
}

typedef struct ManyRuns {                                   // speedups over sequential, by number of queries
    double x[AT_ONCE_MAX], multiqx[AT_ONCE_MAX], model[AT_ONCE_MAX];
} ManyRuns;

static weft_status plot_many(Lab *lab, const ManyRuns *copied, const ManyRuns *resident)
{
    static const double paper_x[] = { 1, 2, 5, 16 }, paper_model[] = { 1, 2.02, 3.38, 7.33 };
    static const double paper_multiqx_x[] = { 2, 5, 16 }, paper_multiqx[] = { 1.81, 1.15, 1.03 };
    const PlotSeries series[] = {
        { "model", copied->x, copied->model, AT_ONCE_MAX, true, true },
        { "MultiQx", copied->x, copied->multiqx, AT_ONCE_MAX, true, true },
        { "model, data resident", resident->x, resident->model, AT_ONCE_MAX, true, true },
        { "paper, model", paper_x, paper_model, COUNT_OF(paper_x), false, true },
        { "paper, MultiQx", paper_multiqx_x, paper_multiqx, COUNT_OF(paper_multiqx_x), false, true },
    };
    Text svg = { 0 };
    plot_lines(&(LinePlot){ .title = "1 to 16 queries at once",
                            .description = "Speedup over sequential against the number of queries.",
                            .x_label = "queries", .y_label = "times as fast as sequential", .series = series,
                            .n_series = COUNT_OF(series) }, &svg);
    return lab_plot(lab, "queries-many", "Speedup against the number of queries (paper 2, figure 10)", &svg);
}

static weft_status run_many(Lab *lab, const ReadyQuery *ready, const char *name, const char *title, ManyRuns *runs)
{
    LabTable *table = times_table(lab, name, title, "queries");
    const ReadyQuery *set[AT_ONCE_MAX];
    for (int n = 1; n <= AT_ONCE_MAX; n++) {
        QueryTimes times;
        lab_progress(lab, "queries at once", n, AT_ONCE_MAX);
        set[n - 1] = &ready[(n - 1) % N_QUERIES];
        TRY(run_ways(lab, set, n, &times));
        times_row(lab, table, lab_count_text(lab, n), &times, paper_point(n)->multiqx, paper_point(n)->model);
        runs->x[n - 1] = n;
        runs->multiqx[n - 1] = speedup(&times, WAY_MULTIQX);
        runs->model[n - 1] = speedup(&times, WAY_MODEL);
    }
    return lab_table_end(table);
}

// With copies, and with all input on the device already.
static weft_status run_both(Lab *lab, ReadyQuery *ready)
{
    ManyRuns copied, resident;
    TRY(run_many(lab, ready, "queries-many", "Queries at once: Q1 to Q5 in turn (figure 10)", &copied));
    for (int q = 0; q < N_QUERIES; q++)
        memset(ready[q].bytes, 0, sizeof(ready[q].bytes));
    TRY(run_many(lab, ready, "queries-resident", "The same with all input on the card: kernels only", &resident));
    return plot_many(lab, &copied, &resident);
}

static void explain(Lab *lab)
{
    lab_say(lab, "The paper's MultiQx falls from 1.81 for two queries to 1.03 for 16 and does not say why. Here it "
            "stays, since nothing but copies and kernels is counted: no set-up of its environment, and no swapping of "
            "query state, for which these inputs are too small.");
    lab_say(lab, "The model gains until copies are what takes longest: they come one after the other over one link. "
            "The paper's inputs and speeds are not published, so both cases are shown.");
}

// ---- Q1 and Q2 as SQL -----------------------------------------------------------------------------------------------

static weft_status make_sql_tables(LabSql *sql, i64 n_rows, int n_times)
{
    static const SqlColumn dimension[] = { { .is_row_number = true }, { .below = 1000 } };
    static const SqlColumn facts[] = { { .below = 1 << 17 }, { .below = 1 << 17 }, { .below = 1000 } };
    static const char *const names[] = { "r", "u" };
    TRY(sql_run(sql, "create table r (k integer, v integer); create table u (k integer, v integer);"
                     "create table s (k1 integer, k2 integer, v integer)"));
    for (int i = 0; i < 2; i++)                             // half of the keys are there
        TRY(sql_fill(sql, names[i], &(SqlRows){ dimension, 2, 1 << 16, 1 }));
    return sql_fill(sql, "s", &(SqlRows){ facts, 3, n_rows, n_times });
}

// Queries differ in a constant, as those of several users would.
static const char *sql_query(Lab *lab, int i)
{
    if (i % 2 == 0)
        return arena_printf(lab->arena, "select count(*), sum(s.v * r.v) from s join r on s.k1 = r.k "
                            "where s.v <> %d", i);
    return arena_printf(lab->arena, "select count(*), sum(s.v * r.v * u.v) from s join r on s.k1 = r.k "
                        "join u on s.k2 = u.k where s.v <> %d", i);
}

static weft_status run_sql(Lab *lab)
{
    static const int counts[] = { 1, 2, 5, 16 };
    const bool is_quick = lab_runs(lab, GPU_RUNS_MAX) < 10;
    const int n_runs = MIN_OF(lab_runs(lab, GPU_RUNS_MAX), 5);
    const char *queries_sql[AT_ONCE_MAX];
    LabSql *sql;
    TRY(sql_open(lab, &sql));
    TRY(make_sql_tables(sql, is_quick && lab->is_sim ? 1 << 16 : 1 << 20, lab->is_sim ? 1 : 4));
    LabTable *table = lab_table_new(lab, "queries-sql", "Q1 and Q2 in turn, as SQL in Weft's engine");
    lab_column(table, "queries", LAB_RIGHT);
    lab_column(table, "one after the other, ms", LAB_RIGHT);
    lab_column(table, "at once, ms", LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    for (int i = 0; i < AT_ONCE_MAX; i++)
        queries_sql[i] = sql_query(lab, i);
    for (int i = 0; i < COUNT_OF(counts); i++) {
        double one_by_one_ms, at_once_ms;
        SqlCrowd crowd = { queries_sql, counts[i], is_quick ? "set jit = tcc" : "set jit = cc", false };
        lab_progress(lab, "queries as SQL", i, COUNT_OF(counts));
        TRY(sql_measure_crowd(sql, &crowd, n_runs, &one_by_one_ms));
        crowd.is_at_once = true;
        TRY(sql_measure_crowd(sql, &crowd, n_runs, &at_once_ms));
        lab_row(table, lab_count_text(lab, counts[i]), lab_number(lab, one_by_one_ms, 3),
                lab_number(lab, at_once_ms, 3), lab_number(lab, one_by_one_ms / at_once_ms, 2));
    }
    sql_close(sql);
    return lab_table_end(table);
}

weft_status run_queries(Lab *lab)
{
    ReadyQuery *ready = arena_array(lab->arena, ReadyQuery, N_QUERIES);
    lab_section(lab, "The queries");
    lab_say(lab, "Sequential: copies from pageable memory and kernels, one step after the other. MultiQx: copies from "
            "pinned memory beside kernels, one kernel at a time. Model: the same copies, kernels at once with launch "
            "parameters of the model.");
    if (lab->is_sim)
        lab_say(lab, "Simulated: kernels take their stated times (see launch), copies their bytes at %.0f GB/s from "
                "pageable and %.0f GB/s from pinned memory, stated for PCI Express 3.0.", pageable_gbs, pinned_gbs);
    else
        lab_say(lab, "Measured by the host's clock, the median of %d runs; planning is included.",
                MIN_OF(lab_runs(lab, GPU_RUNS_MAX), GPU_RUNS_MAX));
    for (int q = 0; q < N_QUERIES; q++)
        TRY(make_query_ready(lab, &queries[q], &ready[q]));
    TRY(show_queries(lab, ready));
    lab_section(lab, "Alone, in pairs, and up to 16 at once");
    TRY(run_alone(lab, ready));
    TRY(run_pairs(lab, ready));
    TRY(run_both(lab, ready));
    explain(lab);
    lab_section(lab, "Q1 and Q2 as SQL");
    lab_say(lab, "SQL suffices for the joins. Queries at once share the scan of the large table, the join tables and, "
            "where it pays, the kernel, which is another way to the same end than kernels side by side.%s",
            lab->is_sim ? " Queries cannot be simulated: this is the CPU of this machine." : "");
    return run_sql(lab);
}
