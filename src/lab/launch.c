// launch.c - paper 1, section V-B: several kernels at once with the launch parameters of the model.
//
// A set of kernels, each in a stream of its own, runs three times: one kernel after the other, each with its best block
// size; all at once with random block sizes; all at once with the model's.  Only sets are taken that the model can run
// at once, as in the paper.

#include <math.h>

#include "lab/lab_int.h"

enum { SET_MAX = 31, ATTEMPTS_MAX = 2000, PAPER_RUNS = 400, PAPER_RUNS_SYNTHETIC = 1000 };

typedef enum DrawKind { DRAW_FIXED, DRAW_RANDOM } DrawKind;

typedef struct LaunchSeries {
    const char *name;                                       // of its file
    const char *title;
    LabPool     pool;
    DrawKind     kind;
    int         n_streams;
    int         paper_runs;
    const char *paper_over_sequential, *paper_over_random;
    const char *paper_lost;                                 // cases in which random parameters were faster
} LaunchSeries;

static const LaunchSeries all_series[] = {
    { "fixed-16", "fixed set", LAB_POOL_REAL, DRAW_FIXED, 16, PAPER_RUNS, "min 3.90", "\"min\" 1.39", "7.25 %" },
    { "fixed-31", "fixed set", LAB_POOL_REAL, DRAW_FIXED, 31, PAPER_RUNS, "min 4.16", "\"min\" 1.44", "5.75 %" },
    { "random-16", "random set", LAB_POOL_REAL, DRAW_RANDOM, 16, PAPER_RUNS, "", "", "20.75 %" },
    { "random-31", "random set", LAB_POOL_REAL, DRAW_RANDOM, 31, PAPER_RUNS, "", "", "14.5 %" },
    { "table1", "Table I's kernels", LAB_POOL_TABLE1, DRAW_RANDOM, 8, PAPER_RUNS_SYNTHETIC, "",
      "957 won, mean 1.43, max 3.78", "4.3 %" },
};

typedef struct LaunchRun {
    i64    sequential_ns, random_ns, model_ns;
    double solve_ms;
    double over_sequential, over_random;
} LaunchRun;

typedef struct SeriesRuns {
    LaunchRun *runs;
    int        n_runs;
    int        n_refused;                                   // sets that do not fit at once
    double    *over_sequential, *over_random, *solve_ms;
} SeriesRuns;

// ---- sets -----------------------------------------------------------------------------------------------------------

static void shuffle(LabRandom *random, const LabMember **members, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int other = lab_random_below(random, i + 1);
        const LabMember *kept = members[i];
        members[i] = members[other];
        members[other] = kept;
    }
}

// Fixed: every kernel of the pool in turn, in an order that is drawn for each run.  Random: any kernels.
static void draw_set(LabRandom *random, DrawKind kind, const LabMember *pool, int n_pool, int n,
                     const LabMember **members)
{
    const LabMember *order[16];
    ASSERT(n_pool <= COUNT_OF(order));
    for (int i = 0; i < n_pool; i++)
        order[i] = &pool[i];
    shuffle(random, order, n_pool);
    for (int i = 0; i < n; i++)
        members[i] = kind == DRAW_FIXED ? order[i % n_pool] : &pool[lab_random_below(random, n_pool)];
}

static bool solve(Arena *scratch, const Lab *lab, const LabMember *const *members, int n, LaunchPlan *plan,
                  double *solve_ms)
{
    LaunchKernel kernels[SET_MAX];
    for (int i = 0; i < n; i++)
        kernels[i] = members[i]->launch;
    const double before_ms = lab_cpu_ms();
    const bool is_planned = launch_plan(scratch, &lab->limits, kernels, n, plan);
    *solve_ms = lab_cpu_ms() - before_ms;
    return is_planned;
}

// Sets are drawn until one fits at once.  False: none of many did.
static bool draw_feasible(Lab *lab, Arena *scratch, LabRandom *random, const LaunchSeries *series,
                          const LabMember *pool, int n_pool, const LabMember **members, LaunchPlan *plan,
                          SeriesRuns *runs, double *solve_ms)
{
    for (int i = 0; i < ATTEMPTS_MAX && series->n_streams <= lab->limits.grids; i++) {
        draw_set(random, series->kind, pool, n_pool, series->n_streams, members);
        if (solve(scratch, lab, members, series->n_streams, plan, solve_ms))
            return true;
        runs->n_refused++;
    }
    return false;
}

// ---- one set, three ways --------------------------------------------------------------------------------------------

static weft_status run_set(Lab *lab, LabRandom *random, const LabMember *const *members, int n, const LaunchPlan *plan,
                           LaunchRun *run)
{
    LabLaunch sequential[SET_MAX], at_random[SET_MAX], planned[SET_MAX];
    for (int i = 0; i < n; i++) {
        TRY(lab_shape_alone(lab, members[i], 0, &sequential[i]));
        TRY(lab_shape_random(lab, members[i], random, i, &at_random[i]));
    }
    lab_shapes_planned(members, n, plan, planned);
    TRY(lab_run_set(lab, sequential, n, &run->sequential_ns));
    TRY(lab_run_set(lab, at_random, n, &run->random_ns));
    TRY(lab_run_set(lab, planned, n, &run->model_ns));
    run->over_sequential = (double)run->sequential_ns / (double)run->model_ns;
    run->over_random = (double)run->random_ns / (double)run->model_ns;
    return WEFT_OK;
}

// If no set fits, the series ends with the runs that it has.
static weft_status draw_and_run(Lab *lab, Arena *scratch, LabRandom *random, const LaunchSeries *series,
                                const LabMember *pool, int n_pool, SeriesRuns *runs, bool *is_over)
{
    const LabMember *members[SET_MAX];
    LaunchPlan plan;
    LaunchRun *run = &runs->runs[runs->n_runs];
    *is_over = !draw_feasible(lab, scratch, random, series, pool, n_pool, members, &plan, runs, &run->solve_ms);
    if (*is_over)
        return WEFT_OK;
    TRY(run_set(lab, random, members, series->n_streams, &plan, run));
    runs->over_sequential[runs->n_runs] = run->over_sequential;
    runs->over_random[runs->n_runs] = run->over_random;
    runs->solve_ms[runs->n_runs++] = run->solve_ms;
    return WEFT_OK;
}

static weft_status run_series(Lab *lab, const LaunchSeries *series, SeriesRuns *runs)
{
    const int n_wanted = lab_runs(lab, series->paper_runs);
    LabRandom random = lab_random(lab, series->name);
    LabMember *pool;
    int n_pool;
    bool is_over = false;
    TRY(lab_members(lab, series->pool, &pool, &n_pool));
    runs->runs = arena_array(lab->arena, LaunchRun, n_wanted);
    runs->over_sequential = arena_array(lab->arena, double, n_wanted);
    runs->over_random = arena_array(lab->arena, double, n_wanted);
    runs->solve_ms = arena_array(lab->arena, double, n_wanted);
    while (runs->n_runs < n_wanted && !is_over) {
        Arena *scratch = arena_new(NULL, "launch");
        const weft_status status = draw_and_run(lab, scratch, &random, series, pool, n_pool, runs, &is_over);
        arena_free(scratch);
        TRY(status);
        lab_progress(lab, series->name, runs->n_runs, n_wanted);
    }
    return WEFT_OK;
}

// ---- tables and plots -----------------------------------------------------------------------------------------------

static const char *series_title(Lab *lab, const LaunchSeries *series)
{
    return arena_printf(lab->arena, "%s, %d streams", series->title, series->n_streams);
}

static weft_status show_sequential(Lab *lab, const SeriesRuns *runs)
{
    LabTable *table = lab_table_new(lab, "launch-sequential", "Speedup of the model over one kernel after the other");
    lab_column(table, "set", LAB_LEFT);
    lab_column(table, "runs", LAB_RIGHT);
    lab_column(table, "min", LAB_RIGHT);
    lab_column(table, "mean", LAB_RIGHT);
    lab_column(table, "max", LAB_RIGHT);
    lab_column(table, "paper", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        const LabFigures figures = lab_figures(runs[i].over_sequential, runs[i].n_runs);
        lab_row(table, series_title(lab, &all_series[i]), lab_count_text(lab, figures.n),
                lab_number(lab, figures.min, 2), lab_number(lab, figures.mean, 2), lab_number(lab, figures.max, 2),
                all_series[i].paper_over_sequential);
    }
    return lab_table_end(table);
}

static weft_status show_random(Lab *lab, const SeriesRuns *runs)
{
    LabTable *table = lab_table_new(lab, "launch-random", "Speedup of the model over random launch parameters");
    lab_column(table, "set", LAB_LEFT);
    lab_column(table, "runs", LAB_RIGHT);
    lab_column(table, "min", LAB_RIGHT);
    lab_column(table, "mean", LAB_RIGHT);
    lab_column(table, "max", LAB_RIGHT);
    lab_column(table, "won", LAB_RIGHT);
    lab_column(table, "equal", LAB_RIGHT);
    lab_column(table, "lost", LAB_RIGHT);
    lab_column(table, "paper", LAB_LEFT);
    lab_column(table, "paper, lost", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        const LabFigures figures = lab_figures(runs[i].over_random, runs[i].n_runs);
        int n_won = 0, n_lost = 0;
        for (int k = 0; k < figures.n; k++) {
            n_won += runs[i].runs[k].random_ns > runs[i].runs[k].model_ns;
            n_lost += runs[i].runs[k].random_ns < runs[i].runs[k].model_ns;
        }
        lab_row(table, series_title(lab, &all_series[i]), lab_count_text(lab, figures.n),
                lab_number(lab, figures.min, 2), lab_number(lab, figures.mean, 2), lab_number(lab, figures.max, 2),
                lab_count_text(lab, n_won), lab_count_text(lab, figures.n - n_won - n_lost),
                lab_percent(lab, figures.n ? (double)n_lost / figures.n : NAN), all_series[i].paper_over_random,
                all_series[i].paper_lost);
    }
    return lab_table_end(table);
}

static weft_status show_solves(Lab *lab, const SeriesRuns *runs)
{
    LabTable *table = lab_table_new(lab, "launch-solves", "Time to find the launch parameters, ms of CPU time");
    lab_column(table, "set", LAB_LEFT);
    lab_column(table, "solves", LAB_RIGHT);
    lab_column(table, "mean", LAB_RIGHT);
    lab_column(table, "p99", LAB_RIGHT);
    lab_column(table, "max", LAB_RIGHT);
    lab_column(table, "sets that do not fit", LAB_RIGHT);
    lab_column(table, "paper 2", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(all_series); i++) {
        const LabFigures figures = lab_figures(runs[i].solve_ms, runs[i].n_runs);
        lab_row(table, series_title(lab, &all_series[i]), lab_count_text(lab, figures.n),
                lab_number(lab, figures.mean, 4), lab_number(lab, figures.p99, 4), lab_number(lab, figures.max, 4),
                lab_count_text(lab, runs[i].n_refused), "mean 0.571, max 1.487");
    }
    return lab_table_end(table);
}

static weft_status write_runs(Lab *lab, const SeriesRuns *runs)
{
    LabTable *table = lab_table_new(lab, "launch-runs", "All runs");
    lab_column(table, "set", LAB_LEFT);
    lab_column(table, "run", LAB_RIGHT);
    lab_column(table, "sequential, ms", LAB_RIGHT);
    lab_column(table, "random, ms", LAB_RIGHT);
    lab_column(table, "model, ms", LAB_RIGHT);
    lab_column(table, "solve, ms", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(all_series); i++)
        for (int k = 0; k < runs[i].n_runs; k++) {
            const LaunchRun *run = &runs[i].runs[k];
            lab_row(table, all_series[i].name, lab_count_text(lab, k + 1), lab_ms(lab, run->sequential_ns),
                    lab_ms(lab, run->random_ns), lab_ms(lab, run->model_ns), lab_number(lab, run->solve_ms, 4));
        }
    return lab_table_file(table);
}

static weft_status draw_histogram(Lab *lab, const SeriesRuns *runs, int first, int n, const char *name,
                                  const char *title, const char *caption)
{
    PlotSeries series[COUNT_OF(all_series)];
    Text svg = { 0 };
    for (int i = 0; i < n; i++)
        series[i] = (PlotSeries){ .name = series_title(lab, &all_series[first + i]), .x = runs[first + i].over_random,
                                  .n = runs[first + i].n_runs };
    plot_histogram(&(HistogramPlot){ .title = title,
                                     .description = "Share of runs by speedup; right of the dashed line the model was "
                                                    "faster.",
                                     .x_label = "speedup over random launch parameters", .series = series,
                                     .n_series = n, .bin = 0.1, .mark = 1 },
                   &svg);
    return lab_plot(lab, name, caption, &svg);
}

static weft_status show_pool(Lab *lab)
{
    static const LabPool pools[] = { LAB_POOL_REAL, LAB_POOL_TABLE1 };
    LabTable *table = lab_table_new(lab, "launch-pool", "The kernels");
    lab_column(table, "kernel", LAB_LEFT);
    lab_column(table, "registers", LAB_RIGHT);
    lab_column(table, "shared, bytes", LAB_RIGHT);
    lab_column(table, "warps per multiprocessor", LAB_RIGHT);
    lab_column(table, lab->is_sim ? "stated, ms" : "alone, ms", LAB_RIGHT);
    if (lab->is_sim)
        lab_column(table, "from", LAB_LEFT);
    for (int p = 0; p < COUNT_OF(pools); p++)
        for (int i = 0; i < lab_pool_count(pools[p]); i++) {
            LabMember member;
            LabLaunch alone;
            i64 time_ns;
            TRY(lab_member(lab, lab_pool(pools[p], i), &member));
            TRY(lab_shape_alone(lab, &member, 0, &alone));
            TRY(lab_run_set(lab, &alone, 1, &time_ns));
            const char *cells[] = { member.kernel->title, lab_count_text(lab, member.launch.needs.registers),
                                    lab_count_text(lab, member.launch.needs.shared),
                                    lab_count_text(lab, member.kernel->warps), lab_ms(lab, time_ns),
                                    member.kernel->duration_from };
            lab_row_cells(table, lab->is_sim ? COUNT_OF(cells) : COUNT_OF(cells) - 1, cells);
        }
    return lab_table_end(table);
}

weft_status run_launch(Lab *lab)
{
    SeriesRuns *runs = arena_array(lab->arena, SeriesRuns, COUNT_OF(all_series));
    lab_section(lab, "Kernels");
    if (lab->is_sim)
        lab_say(lab, "The papers publish neither resources nor durations of their 13 kernels, and of Table I's only "
                     "resources. Durations are stated: 10 ns for an instruction and 400 ns for an access to memory, "
                     "for each thread; Table I's kernels take 1 ms each. None is fitted to a figure.");
    TRY(show_pool(lab));
    for (int i = 0; i < COUNT_OF(all_series); i++)
        TRY(run_series(lab, &all_series[i], &runs[i]));
    lab_section(lab, "Speedups");
    lab_say(lab, "Fixed set: the 13 kernels in an order drawn for each run, from the start again until all streams are "
                 "filled. Random set: any kernels. The paper does not say how many of Table I's kernels run at once; "
                 "here it is 8. Sets that do not fit at once are drawn anew, as in the paper.");
    for (int i = 0; i < COUNT_OF(all_series); i++)
        if (runs[i].n_runs < lab_runs(lab, all_series[i].paper_runs))
            lab_say(lab, "Sets of \"%s\" do not fit on this card at once, which runs at most %d kernels and %d blocks "
                         "per multiprocessor at a time.", series_title(lab, &all_series[i]), lab->limits.grids,
                    lab->limits.blocks);
    TRY(show_sequential(lab, runs));
    TRY(show_random(lab, runs));
    lab_say(lab, "The paper calls 1.44 and 1.39 minimum speedups over random parameters, which cannot be, since random "
                 "parameters won some cases.");
    if (lab->is_sim)
        lab_say(lab, "Simulated blocks take their time whatever runs beside them. So kernels at once cost only the "
                     "longest, and speedups over sequential grow with the number of streams, while on a real card "
                     "kernels also share arithmetic units and memory. For the same reason random parameters never win "
                     "here: the model starts every block at once, and nothing ends before the longest block. Cases are "
                     "equal where random blocks do not delay the longest: the 13 kernels are small enough for 31 "
                     "streams, so 16 take half of the card, and random blocks find room, too.");
    TRY(draw_histogram(lab, runs, 0, 2, "launch-fixed", "Fixed set: speedup over random parameters",
                       "Paper 1, figure 7"));
    TRY(draw_histogram(lab, runs, 2, 2, "launch-random-set", "Random set: speedup over random parameters",
                       "Paper 1, figure 9"));
    TRY(draw_histogram(lab, runs, 4, 1, "launch-table1", "Table I's kernels: speedup over random parameters",
                       "Paper 1, figure 11"));
    lab_section(lab, "Solve times");
    TRY(show_solves(lab, runs));
    return write_runs(lab, runs);
}
