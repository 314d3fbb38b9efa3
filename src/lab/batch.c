// batch.c - paper 1, section V-C: more kernels than fit at once, in batches.
//
//     S    one kernel after the other, random launch parameters
//     CR   random batches, random launch parameters
//     CO   random batches, launch parameters of the model
//     BO   batches and launch parameters of the model
//
// A batch begins when the one before it has ended.  The paper does not say how random batches are made.  Here kernels
// come in a random order, and a batch is closed when the model cannot run the next one beside those that it has; CR and
// CO have the same batches.  C13 is another reading, since the paper's numbers of kernels are multiples of 13: batches
// of 13 kernels, with launch parameters of the model.

#include <math.h>

#include "lab/lab_int.h"

enum { KERNELS_MAX = 65, BATCH_KERNELS = 13, PAPER_RUNS = 200 };

typedef enum BatchSet { SET_S, SET_CR, SET_CO, SET_C13, SET_BO, SET_N } BatchSet;

static const char *const set_names[] = { "S", "CR", "CO", "C13", "BO" };

typedef struct BatchSeries {
    int n_kernels;
    const char *over[SET_N];                                // the paper's mean speedups of BO
} BatchSeries;

static const BatchSeries all_series[] = {
    { 39, { "6.05", "1.43", "1.33", "", "" } },
    { 52, { "6.44", "1.45", "1.40", "", "" } },
    { 65, { "6.50", "1.47", "1.39", "", "" } },
};

typedef struct BatchRun {
    i64    times_ns[SET_N];
    int    n_batches[SET_N];
    int    bound;
    bool   is_bound_known;
    double solve_ms;
} BatchRun;

typedef struct BatchRuns {
    BatchRun *runs;
    int       n_runs;
    double   *over[SET_N];                                  // speedups of BO
    double   *solve_ms;
} BatchRuns;

// What one run needs in many places.
typedef struct BatchTask {
    Lab              *lab;
    Arena            *scratch;
    LabRandom        *random;
    const LabMember **members;                              // in a random order
    int               n;
} BatchTask;

// ---- one batch ------------------------------------------------------------------------------------------------------

static weft_status run_random(const BatchTask *task, int first, int n, bool is_sequential, i64 *time_ns)
{
    LabLaunch launches[KERNELS_MAX];
    i64 own_ns;
    for (int i = 0; i < n; i++)
        TRY(lab_shape_random(task->lab, task->members[first + i], task->random, is_sequential ? 0 : i, &launches[i]));
    TRY(lab_run_set(task->lab, launches, n, &own_ns));
    *time_ns += own_ns;
    return WEFT_OK;
}

static weft_status run_plan(const BatchTask *task, const LabMember *const *members, int n, const LaunchPlan *plan,
                            i64 *time_ns)
{
    LabLaunch launches[KERNELS_MAX];
    i64 own_ns;
    lab_shapes_planned(members, n, plan, launches);
    TRY(lab_run_set(task->lab, launches, n, &own_ns));
    *time_ns += own_ns;
    return WEFT_OK;
}

static bool plan_of(const BatchTask *task, int first, int n, LaunchPlan *plan)
{
    LaunchKernel kernels[KERNELS_MAX];
    for (int i = 0; i < n; i++)
        kernels[i] = task->members[first + i]->launch;
    return launch_plan(task->scratch, &task->lab->limits, kernels, n, plan);
}

// As many of the N kernels from FIRST on as fit at once; PLAN is theirs.
static weft_status take_fitting(const BatchTask *task, int first, int n, int *n_taken, LaunchPlan *plan)
{
    LaunchPlan next;
    *n_taken = 0;
    while (*n_taken < n && plan_of(task, first, *n_taken + 1, &next)) {
        *plan = next;
        (*n_taken)++;
    }
    return *n_taken ? WEFT_OK
                    : fail(task->lab->err, WEFT_TOO_LONG, -1, "kernel %s does not fit on the %s",
                           task->members[first]->kernel->name, task->lab->device_title);
}

// ---- the sets -------------------------------------------------------------------------------------------------------

// CR and CO: the same batches, as full as they get in this order.
static weft_status run_full(const BatchTask *task, BatchRun *run)
{
    for (int first = 0, taken; first < task->n; first += taken) {
        LaunchPlan plan;
        TRY(take_fitting(task, first, task->n - first, &taken, &plan));
        TRY(run_random(task, first, taken, false, &run->times_ns[SET_CR]));
        TRY(run_plan(task, &task->members[first], taken, &plan, &run->times_ns[SET_CO]));
        run->n_batches[SET_CR]++;
        run->n_batches[SET_CO]++;
    }
    return WEFT_OK;
}

// Thirteen that do not fit at once are two batches.
static weft_status run_thirteens(const BatchTask *task, BatchRun *run)
{
    for (int first = 0, taken; first < task->n; first += taken) {
        const int n = MIN_OF(BATCH_KERNELS - first % BATCH_KERNELS, task->n - first);
        LaunchPlan plan;
        TRY(take_fitting(task, first, n, &taken, &plan));
        TRY(run_plan(task, &task->members[first], taken, &plan, &run->times_ns[SET_C13]));
        run->n_batches[SET_C13]++;
    }
    return WEFT_OK;
}

static weft_status run_bo(const BatchTask *task, const LpLibrary *lp, BatchRun *run)
{
    Lab *lab = task->lab;
    LaunchKernel kernels[KERNELS_MAX];
    BatchPlan plan;
    for (int i = 0; i < task->n; i++)
        kernels[i] = task->members[i]->launch;
    const double before_ms = lab_cpu_ms();
    TRY(batch_plan(task->scratch, &lab->limits, lp, kernels, task->n, &plan, lab->err));
    run->solve_ms = lab_cpu_ms() - before_ms;
    run->n_batches[SET_BO] = plan.n_batches;
    run->is_bound_known = plan.is_bound_known;
    run->bound = plan.bound;
    for (int i = 0; i < plan.n_batches; i++) {
        const KernelBatch *batch = &plan.batches[i];
        const LabMember *members[KERNELS_MAX];
        for (int k = 0; k < batch->n_kernels; k++)
            members[k] = task->members[batch->kernels[k]];
        TRY(run_plan(task, members, batch->n_kernels, &batch->plan, &run->times_ns[SET_BO]));
    }
    return WEFT_OK;
}

static weft_status run_sets(const BatchTask *task, const LpLibrary *lp, BatchRun *run)
{
    TRY(run_random(task, 0, task->n, true, &run->times_ns[SET_S]));
    run->n_batches[SET_S] = task->n;
    TRY(run_full(task, run));
    TRY(run_thirteens(task, run));
    return run_bo(task, lp, run);
}

// ---- many runs ------------------------------------------------------------------------------------------------------

static weft_status run_once(Lab *lab, LabRandom *random, const LabMember *pool, int n_pool, int n_kernels,
                            const LpLibrary *lp, BatchRun *run)
{
    const LabMember *members[KERNELS_MAX];
    Arena *scratch = arena_new(NULL, "batch");
    for (int i = 0; i < n_kernels; i++)
        members[i] = &pool[lab_random_below(random, n_pool)];
    const BatchTask task = { lab, scratch, random, members, n_kernels };
    const weft_status status = run_sets(&task, lp, run);
    arena_free(scratch);
    return status;
}

static void count_run(BatchRuns *runs, int number)
{
    const BatchRun *run = &runs->runs[number];
    for (int set = 0; set < SET_N; set++)
        runs->over[set][number] = (double)run->times_ns[set] / (double)run->times_ns[SET_BO];
    runs->solve_ms[number] = run->solve_ms;
}

static weft_status run_batch_series(Lab *lab, const BatchSeries *series, const LpLibrary *lp, BatchRuns *runs)
{
    const char *name = arena_printf(lab->arena, "%d kernels", series->n_kernels);
    LabRandom random = lab_random(lab, name);
    LabMember *pool;
    int n_pool;
    TRY(lab_members(lab, LAB_POOL_REAL, &pool, &n_pool));
    runs->n_runs = lab_runs(lab, PAPER_RUNS);
    runs->runs = arena_array(lab->arena, BatchRun, runs->n_runs);
    runs->solve_ms = arena_array(lab->arena, double, runs->n_runs);
    for (int set = 0; set < SET_N; set++)
        runs->over[set] = arena_array(lab->arena, double, runs->n_runs);
    for (int i = 0; i < runs->n_runs; i++) {
        TRY(run_once(lab, &random, pool, n_pool, series->n_kernels, lp, &runs->runs[i]));
        count_run(runs, i);
        lab_progress(lab, name, i + 1, runs->n_runs);
    }
    return WEFT_OK;
}

// ---- tables and plots -----------------------------------------------------------------------------------------------

static double mean_ms(const BatchRuns *runs, BatchSet set)
{
    double sum = 0;
    for (int i = 0; i < runs->n_runs; i++)
        sum += (double)runs->runs[i].times_ns[set] / 1e6;
    return sum / runs->n_runs;
}

static double mean_batches(const BatchRuns *runs, BatchSet set)
{
    double sum = 0;
    for (int i = 0; i < runs->n_runs; i++)
        sum += runs->runs[i].n_batches[set];
    return sum / runs->n_runs;
}

static weft_status show_times(Lab *lab, const BatchRuns *runs)
{
    LabTable *table = lab_table_new(lab, "batch-times", "Mean time and number of batches");
    lab_column(table, "kernels", LAB_RIGHT);
    lab_column(table, "runs", LAB_RIGHT);
    for (int set = 0; set < SET_N; set++)
        lab_column(table, arena_printf(lab->arena, "%s, ms", set_names[set]), LAB_RIGHT);
    lab_column(table, "BO < CO < CR < S", LAB_LEFT);
    for (int set = SET_CR; set < SET_N; set++)
        lab_column(table, arena_printf(lab->arena, "%s, batches", set_names[set]), LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        const char *cells[2 + SET_N + 1 + SET_N];
        int n = 0;
        cells[n++] = lab_count_text(lab, all_series[i].n_kernels);
        cells[n++] = lab_count_text(lab, runs[i].n_runs);
        for (int set = 0; set < SET_N; set++)
            cells[n++] = lab_number(lab, mean_ms(&runs[i], set), 3);
        cells[n++] = mean_ms(&runs[i], SET_BO) < mean_ms(&runs[i], SET_CO) &&
                             mean_ms(&runs[i], SET_CO) < mean_ms(&runs[i], SET_CR) &&
                             mean_ms(&runs[i], SET_CR) < mean_ms(&runs[i], SET_S)
                         ? "yes"
                         : "no";
        for (int set = SET_CR; set < SET_N; set++)
            cells[n++] = lab_number(lab, mean_batches(&runs[i], set), 2);
        lab_row_cells(table, n, cells);
    }
    return lab_table_end(table);
}

static weft_status show_speedups(Lab *lab, const BatchRuns *runs)
{
    LabTable *table = lab_table_new(lab, "batch-speedups", "Speedup of BO");
    lab_column(table, "kernels", LAB_RIGHT);
    lab_column(table, "over", LAB_LEFT);
    lab_column(table, "min", LAB_RIGHT);
    lab_column(table, "mean", LAB_RIGHT);
    lab_column(table, "max", LAB_RIGHT);
    lab_column(table, "won", LAB_RIGHT);
    lab_column(table, "lost", LAB_RIGHT);
    lab_column(table, "paper, mean", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++)
        for (int set = 0; set < SET_BO; set++) {
            const LabFigures figures = lab_figures(runs[i].over[set], runs[i].n_runs);
            int n_won = 0, n_lost = 0;
            for (int k = 0; k < runs[i].n_runs; k++) {
                n_won += runs[i].over[set][k] > 1;
                n_lost += runs[i].over[set][k] < 1;
            }
            lab_row(table, lab_count_text(lab, all_series[i].n_kernels), set_names[set],
                    lab_number(lab, figures.min, 2), lab_number(lab, figures.mean, 2),
                    lab_number(lab, figures.max, 2), lab_percent(lab, (double)n_won / figures.n),
                    lab_percent(lab, (double)n_lost / figures.n), all_series[i].over[set]);
        }
    return lab_table_end(table);
}

static weft_status show_solve_times(Lab *lab, const BatchRuns *runs)
{
    LabTable *table = lab_table_new(lab, "batch-solves", "Time to find the batches, ms of CPU, and the proven gap");
    lab_column(table, "kernels", LAB_RIGHT);
    lab_column(table, "solves", LAB_RIGHT);
    lab_column(table, "mean", LAB_RIGHT);
    lab_column(table, "p99", LAB_RIGHT);
    lab_column(table, "max", LAB_RIGHT);
    lab_column(table, "proved best", LAB_RIGHT);
    lab_column(table, "one batch from the bound", LAB_RIGHT);
    lab_column(table, "more, or not known", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        const LabFigures figures = lab_figures(runs[i].solve_ms, runs[i].n_runs);
        int gaps[3] = { 0 };
        for (int k = 0; k < runs[i].n_runs; k++) {
            const BatchRun *run = &runs[i].runs[k];
            gaps[run->is_bound_known ? MIN_OF(run->n_batches[SET_BO] - run->bound, 2) : 2]++;
        }
        lab_row(table, lab_count_text(lab, all_series[i].n_kernels), lab_count_text(lab, figures.n),
                lab_number(lab, figures.mean, 3), lab_number(lab, figures.p99, 3), lab_number(lab, figures.max, 3),
                lab_count_text(lab, gaps[0]), lab_count_text(lab, gaps[1]), lab_count_text(lab, gaps[2]));
    }
    return lab_table_end(table);
}

static weft_status write_runs(Lab *lab, const BatchRuns *runs)
{
    LabTable *table = lab_table_new(lab, "batch-runs", "All runs");
    lab_column(table, "kernels", LAB_RIGHT);
    lab_column(table, "run", LAB_RIGHT);
    for (int set = 0; set < SET_N; set++)
        lab_column(table, arena_printf(lab->arena, "%s, ms", set_names[set]), LAB_RIGHT);
    lab_column(table, "solve, ms", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++)
        for (int k = 0; k < runs[i].n_runs; k++) {
            const char *cells[2 + SET_N + 1];
            int n = 0;
            cells[n++] = lab_count_text(lab, all_series[i].n_kernels);
            cells[n++] = lab_count_text(lab, k + 1);
            for (int set = 0; set < SET_N; set++)
                cells[n++] = lab_ms(lab, runs[i].runs[k].times_ns[set]);
            cells[n++] = lab_number(lab, runs[i].solve_ms[k], 4);
            lab_row_cells(table, n, cells);
        }
    return lab_table_file(table);
}

static weft_status draw_speedups(Lab *lab, const BatchRuns *runs)
{
    static const char *const names[] = { "BO over S", "over S, paper", "BO over CR", "over CR, paper", "BO over CO",
                                         "over CO, paper" };
    static const double paper[][3] = { { 6.05, 1.43, 1.33 }, { 6.44, 1.45, 1.40 }, { 6.50, 1.47, 1.39 } };
    const char *groups[COUNT_OF(all_series)];
    double values[COUNT_OF(all_series) * COUNT_OF(names)];
    Text svg = { 0 };
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        groups[i] = arena_printf(lab->arena, "%d kernels", all_series[i].n_kernels);
        for (int set = 0; set < 3; set++) {
            values[i * COUNT_OF(names) + 2 * set] = lab_figures(runs[i].over[set], runs[i].n_runs).mean;
            values[i * COUNT_OF(names) + 2 * set + 1] = paper[i][set];
        }
    }
    plot_bars(&(BarPlot){ .title = "Mean speedup of optimised batches", .y_label = "speedup",
                          .description = "Bars for 39, 52 and 65 kernels: ours beside the paper's.", .groups = groups,
                          .n_groups = COUNT_OF(groups), .series = names, .n_series = COUNT_OF(names),
                          .values = values },
              &svg);
    return lab_plot(lab, "batch-speedup", "Paper 1, figure 12", &svg);
}

static weft_status draw_distribution(Lab *lab, const BatchRuns *runs, BatchSet set, const char *figure)
{
    PlotSeries series[COUNT_OF(all_series)];
    Text svg = { 0 };
    for (int i = 0; i < COUNT_OF(all_series); i++)
        series[i] = (PlotSeries){ .name = arena_printf(lab->arena, "%d kernels", all_series[i].n_kernels),
                                  .x = runs[i].over[set], .n = runs[i].n_runs };
    plot_histogram(&(HistogramPlot){ .title = arena_printf(lab->arena, "Speedup of BO over %s", set_names[set]),
                                     .description = "Share of runs by speedup; right of the dashed line BO was faster.",
                                     .x_label = "speedup", .series = series, .n_series = COUNT_OF(series), .bin = 0.1,
                                     .mark = 1 },
                   &svg);
    return lab_plot(lab, arena_printf(lab->arena, "batch-over-%s", set_names[set]), figure, &svg);
}

weft_status run_batch(Lab *lab)
{
    BatchRuns *runs = arena_array(lab->arena, BatchRuns, COUNT_OF(all_series));
    Error why = { .status = WEFT_OK };
    const LpLibrary *lp = lp_library(&why);
    for (int i = 0; i < COUNT_OF(all_series); i++)
        TRY(run_batch_series(lab, &all_series[i], lp, &runs[i]));
    lab_section(lab, "Sets S, CR, CO and BO");
    lab_say(lab, "S: one kernel after the other with random launch parameters. CR: random batches, random parameters. "
                 "CO: random batches, parameters of the model. BO: batches and parameters of the model. A batch begins "
                 "when the one before it has ended.");
    lab_say(lab, "The paper does not say how its random batches are made. Here kernels come in a random order, and a "
                 "batch is closed when the next kernel does not fit beside those that it has. C13 is another reading, "
                 "since 39, 52 and 65 are multiples of 13: batches of 13, with parameters of the model.");
    if (!lp)
        lab_say(lab, "There is no LP library here (%s), so BO is first-fit decreasing, and the bound is not known.",
                why.message);
    TRY(show_times(lab, runs));
    TRY(show_speedups(lab, runs));
    if (lab->is_sim)
        lab_say(lab, "A simulated batch takes as long as its longest kernel, whatever runs beside it, so times follow "
                     "the number of batches. That is why S is further behind than in the paper: real kernels that run "
                     "at once slow each other down. CO is nearer than in the paper, since its random batches are as "
                     "full as their order allows; C13 shows what less full ones cost. BO counts batches, not time, so "
                     "it loses where a random order happens to put the long kernels together.");
    TRY(draw_speedups(lab, runs));
    TRY(draw_distribution(lab, runs, SET_CR, "Paper 1, figure 13"));
    TRY(draw_distribution(lab, runs, SET_CO, "Paper 1, figure 14"));
    lab_section(lab, "Solve times");
    TRY(show_solve_times(lab, runs));
    return write_runs(lab, runs);
}
