// fuse.c - paper 4 (Kernel Weaver): patterns (a) to (e), TPC-H Q1 and Q21, fused against unfused.
//
// Patterns (a) to (c) are queries of Weft's own engine.  SET weave = on makes one kernel of everything between a scan
// and a sink; SET weave = off makes a kernel of every operator, with the rows stored in between, on a GPU in its
// memory.  Pattern (d) in Weft is two queries at once that scan one table: weave_queries makes one kernel of both.
// EXPLAIN ANALYZE does not say what the kernels of such a pair take, and an expression is one operator whatever weave
// says.  So (d) and (e) have kernels of the lab, and (d) the engine's two queries beside them, by the host's clock.
//
// Times are of kernels: by the GPU's clock, or the CPU's where the lab's card is simulated.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/sql.h"

enum { KEYS = 1 << 16, PAPER_RUNS = 10, QUICK_RUNS = 10 };

typedef struct Fuse {
    Lab    *lab;
    LabSql *sql;
    bool    is_quick;                                       // few runs: less data, and tcc instead of cc
    i64     n_rows;                                         // of a file
    int     n_times;                                        // that it is appended
    int     n_runs;
} Fuse;

typedef struct FuseRun { SqlFigures fused, unfused; } FuseRun;

static double ratio(double unfused, double fused)
{
    return fused > 0 ? unfused / fused : NAN;
}

// ---- data -----------------------------------------------------------------------------------------------------------

static const SqlColumn four_numbers[] = { { .below = 1u << 31 }, { .below = 1u << 31 }, { .below = 1u << 31 },
                                          { .below = 1u << 31 } };
static const SqlColumn keys_and_numbers[] = { { .below = KEYS }, { .below = KEYS }, { .below = 1u << 31 },
                                              { .below = 1u << 31 } };
static const SqlColumn every_second_key[] = { { .is_row_number = true, .step = 2 }, { .below = 1000 } };

static weft_status make_dimensions(const Fuse *fuse)
{
    static const char *const dimensions[] = { "d1", "d2" };
    const SqlRows dimension = { every_second_key, COUNT_OF(every_second_key), KEYS / 2, 1 };
    for (int i = 0; i < COUNT_OF(dimensions); i++) {
        TRY(sql_run(fuse->sql, "create table %s (k integer, v integer)", dimensions[i]));
        TRY(sql_fill(fuse->sql, dimensions[i], &dimension));
    }
    return WEFT_OK;
}

static weft_status make_inputs(const Fuse *fuse)
{
    TRY(sql_run(fuse->sql, "create table t (a integer, b integer, c integer, d integer);"
                           "create table j (k1 integer, k2 integer, c integer, d integer)"));
    TRY(sql_fill(fuse->sql, "t", &(SqlRows){ four_numbers, 4, fuse->n_rows, fuse->n_times }));
    return sql_fill(fuse->sql, "j", &(SqlRows){ keys_and_numbers, 4, fuse->n_rows, fuse->n_times });
}

static weft_status make_tables(const Fuse *fuse)
{
    lab_progress(fuse->lab, "making tables", 0, 2);
    TRY(make_inputs(fuse));
    lab_progress(fuse->lab, "making tables", 1, 2);
    return make_dimensions(fuse);
}

static weft_status measure_both(const Fuse *fuse, const char *query, FuseRun *run)
{
    TRY(sql_run(fuse->sql, "set weave = on"));
    TRY(sql_measure(fuse->sql, query, fuse->n_runs, &run->fused));
    TRY(sql_run(fuse->sql, "set weave = off"));
    TRY(sql_measure(fuse->sql, query, fuse->n_runs, &run->unfused));
    return sql_run(fuse->sql, "set weave = on");
}

// ---- patterns -------------------------------------------------------------------------------------------------------

typedef struct FusePattern {
    const char *name, *title;
    const char *query;                                      // NULL: not by one query
    const char *paper;                                      // registers, shared memory and occupancy when fused
} FusePattern;

static const FusePattern patterns[] = {
    { "(a)", "three selects, projection",
      "select c, d from t where a < 1073741824 and b < 1073741824 and c < 1073741824", "22, 2308, 88 %" },
    { "(b)", "two joins", "select j.c, d1.v, d2.v from j join d1 on j.k1 = d1.k join d2 on j.k2 = d2.k",
      "55, 23560, 33 %" },
    { "(c)", "joins of three selected tables",
      "select j.c, d1.v, d2.v from j join d1 on j.k1 = d1.k join d2 on j.k2 = d2.k "
      "where j.d < 1073741824 and d1.v < 500 and d2.v < 500", "62, 23048, 17 %" },
    { "(d)", "two selects of one input", NULL, "30, 4612, 67 %" },
    { "(e)", "arithmetic", NULL, "27, 0, 75 %" },
};

enum { PATTERN_D = 3, PATTERN_E = 4, N_PATTERNS = COUNT_OF(patterns) };

// (d) as two queries at once.  Their time is the host's, so what a query costs beside its kernel is in it.
static weft_status run_two_queries(const Fuse *fuse, FuseRun *run)
{
    static const char *const queries[] = { "select sum(c) from t where a < 1073741824",
                                           "select sum(d) from t where b < 1073741824" };
    char settings[128];
    const SqlCrowd crowd = { queries, 2, settings, true };
    const char *jit = fuse->is_quick ? "set jit = tcc;" : "set jit = cc;";
    snprintf(settings, sizeof(settings), "%sset weave_queries = on; set sharing = on", jit);
    TRY(sql_measure_crowd(fuse->sql, &crowd, fuse->n_runs, &run->fused.time_ms));
    snprintf(settings, sizeof(settings), "%sset weave_queries = off; set sharing = off", jit);
    TRY(sql_measure_crowd(fuse->sql, &crowd, fuse->n_runs, &run->unfused.time_ms));
    run->fused.n_kernels = 1;
    run->unfused.n_kernels = 2;
    return WEFT_OK;
}

// (d) and (e) on a GPU.
static weft_status time_launches(Lab *lab, const LabLaunch *launches, int n, int n_runs, double *time_ms)
{
    for (int i = 0; i <= n_runs; i++) {
        i64 time_ns;
        TRY(lab_gpu_run(lab->gpu, launches, n, &time_ns, lab->err));
        *time_ms = i <= 1 ? (double)time_ns / 1e6 : MIN_OF(*time_ms, (double)time_ns / 1e6);
    }
    return WEFT_OK;
}

static weft_status read_needs(Lab *lab, const LabKernel *kernel, SqlFigures *figures)
{
    KernelNeeds needs;
    TRY(lab_needs(lab, kernel, &needs));
    const int occupancy = (int)(occupancy_of(&lab->limits, &needs, 256).share * 100);
    figures->registers = MAX_OF(figures->registers, needs.registers);
    figures->shared = MAX_OF(figures->shared, needs.shared);
    figures->occupancy = figures->occupancy ? MIN_OF(figures->occupancy, occupancy) : occupancy;
    return WEFT_OK;
}

static i64 grid_threads(const Lab *lab)                     // as many as the card holds
{
    return (i64)lab->limits.n_multiprocessors * lab->limits.warps * lab->limits.threads_per_warp;
}

// One kernel, and the kernels of its parts one after the other, over input of the same size.
static weft_status run_lab_kernels(Lab *lab, const char *all, const char *const *parts, int n_parts, int n_runs,
                                   FuseRun *run)
{
    LabLaunch one = { lab_pool_find(LAB_POOL_FUSE, all), 256, grid_threads(lab) / 256, 0 }, each[4];
    ASSERT(n_parts <= COUNT_OF(each));
    TRY(read_needs(lab, one.kernel, &run->fused));
    for (int i = 0; i < n_parts; i++) {
        each[i] = one;
        each[i].kernel = lab_pool_find(LAB_POOL_FUSE, parts[i]);
        TRY(read_needs(lab, each[i].kernel, &run->unfused));
    }
    TRY(time_launches(lab, &one, 1, n_runs, &run->fused.time_ms));
    return time_launches(lab, each, n_parts, n_runs, &run->unfused.time_ms);
}

// (d) and (e) on the CPU: loops over arrays, as the kernels have them.
typedef struct Arrays { const float *price, *discount, *tax; float *left, *right, *product, *out; i64 n; } Arrays;

static i64 select_rows(const float *test, const float *other, float *out, i64 n)
{
    i64 n_out = 0;
    for (i64 i = 0; i < n; i++)
        if (test[i] < 0.05f)
            out[n_out++] = other[i];
    return n_out;
}

static void select_fused(const Arrays *arrays)
{
    i64 n_left = 0, n_right = 0;
    for (i64 i = 0; i < arrays->n; i++) {
        const float discount = arrays->discount[i], tax = arrays->tax[i], price = arrays->price[i];
        if (discount < 0.05f)
            arrays->left[n_left++] = price;
        if (tax < 0.05f)
            arrays->right[n_right++] = price;
    }
}

static void select_unfused(const Arrays *arrays)
{
    select_rows(arrays->discount, arrays->price, arrays->left, arrays->n);
    select_rows(arrays->tax, arrays->price, arrays->right, arrays->n);
}

static void compute_fused(const Arrays *arrays)
{
    for (i64 i = 0; i < arrays->n; i++)
        arrays->out[i] = arrays->price[i] * (1.0f - arrays->discount[i]) * (1.0f + arrays->tax[i]);
}

static void compute_unfused(const Arrays *arrays)
{
    for (i64 i = 0; i < arrays->n; i++)
        arrays->left[i] = 1.0f - arrays->discount[i];
    for (i64 i = 0; i < arrays->n; i++)
        arrays->right[i] = 1.0f + arrays->tax[i];
    for (i64 i = 0; i < arrays->n; i++)
        arrays->product[i] = arrays->price[i] * arrays->left[i];
    for (i64 i = 0; i < arrays->n; i++)
        arrays->out[i] = arrays->product[i] * arrays->right[i];
}

static double time_loops(void (*compute)(const Arrays *arrays), const Arrays *arrays, int n_runs)
{
    double least_ms = INFINITY;
    for (int i = 0; i <= n_runs; i++) {
        const double start_ms = time_now_ms();
        compute(arrays);
        if (i > 0)
            least_ms = MIN_OF(least_ms, time_now_ms() - start_ms);
    }
    return least_ms;
}

static void run_loops(const Fuse *fuse, void (*fused)(const Arrays *), void (*unfused)(const Arrays *), FuseRun *run)
{
    Arena *scratch = arena_new(NULL, "arithmetic");
    float *arrays[7];
    const i64 n = fuse->n_rows;
    for (int i = 0; i < COUNT_OF(arrays); i++) {
        arrays[i] = arena_array(scratch, float, n);
        for (i64 row = 0; row < n; row++)
            arrays[i][row] = (float)((row * (2 * i + 7919)) % 100) / (i ? 1000.0f : 1.0f);
    }
    const Arrays all = { arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5], arrays[6], n };
    run->fused.time_ms = time_loops(fused, &all, fuse->n_runs);
    run->unfused.time_ms = time_loops(unfused, &all, fuse->n_runs);
    arena_free(scratch);
}

static weft_status run_pattern_d(const Fuse *fuse, FuseRun *run)
{
    static const char *const parts[] = { "first_select", "second_select" };
    const double bytes = fuse->lab->is_sim ? (double)fuse->n_rows * 8 : (double)grid_threads(fuse->lab) * 32 * 16;
    run->fused.n_kernels = 1;
    run->unfused.n_kernels = COUNT_OF(parts);
    run->fused.bytes_read = fuse->lab->is_sim ? bytes * 3 / 2 : bytes;
    run->unfused.bytes_read = bytes * 2;
    if (!fuse->lab->is_sim)
        return run_lab_kernels(fuse->lab, "two_selects", parts, COUNT_OF(parts), fuse->n_runs, run);
    run_loops(fuse, select_fused, select_unfused, run);
    return WEFT_OK;
}

static weft_status run_pattern_e(const Fuse *fuse, FuseRun *run)
{
    static const char *const parts[] = { "one_minus", "one_plus", "product", "product" };
    const double n = fuse->lab->is_sim ? (double)fuse->n_rows : (double)grid_threads(fuse->lab) * 64;
    run->fused.n_kernels = 1;
    run->unfused.n_kernels = 4;
    run->fused.bytes_read = n * 3 * sizeof(float);
    run->unfused.bytes_read = n * 6 * sizeof(float);
    if (!fuse->lab->is_sim)
        return run_lab_kernels(fuse->lab, "arithmetic", parts, COUNT_OF(parts), fuse->n_runs, run);
    run_loops(fuse, compute_fused, compute_unfused, run);
    return WEFT_OK;
}

static weft_status run_patterns(const Fuse *fuse, FuseRun *runs, FuseRun *two_queries)
{
    for (int i = 0; i < N_PATTERNS; i++) {
        lab_progress(fuse->lab, "patterns", i, N_PATTERNS);
        if (patterns[i].query)
            TRY(measure_both(fuse, patterns[i].query, &runs[i]));
    }
    TRY(run_two_queries(fuse, two_queries));
    TRY(run_pattern_d(fuse, &runs[PATTERN_D]));
    return run_pattern_e(fuse, &runs[PATTERN_E]);
}

// ---- tables of the patterns -----------------------------------------------------------------------------------------

static const char *megabytes(Lab *lab, double bytes)
{
    return bytes > 0 ? lab_number(lab, bytes / 1e6, 1) : "-";
}

static void times_row(Lab *lab, LabTable *table, const char *name, const FuseRun *run)
{
    const SqlFigures *fused = &run->fused, *unfused = &run->unfused;
    lab_row(table, name, lab_count_text(lab, fused->n_kernels), lab_count_text(lab, unfused->n_kernels),
            lab_number(lab, fused->time_ms, 3), lab_number(lab, unfused->time_ms, 3),
            lab_number(lab, ratio(unfused->time_ms, fused->time_ms), 2), megabytes(lab, fused->bytes_read),
            megabytes(lab, unfused->bytes_read));
}

static weft_status show_times(Lab *lab, const FuseRun *runs, const FuseRun *two_queries)
{
    static const char *const columns[] = { "kernels, fused", "unfused", "ms, fused", "unfused", "times as fast",
                                           "read, MB, fused", "unfused" };
    LabTable *table = lab_table_new(lab, "fuse-patterns", "Patterns fused and unfused (figure 16)");
    double speedups[N_PATTERNS];
    lab_column(table, "pattern", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    for (int i = 0; i < N_PATTERNS; i++) {
        speedups[i] = ratio(runs[i].unfused.time_ms, runs[i].fused.time_ms);
        times_row(lab, table, arena_printf(lab->arena, "%s %s", patterns[i].name, patterns[i].title), &runs[i]);
    }
    times_row(lab, table, "(d) as two queries at once, host's clock", two_queries);
    TRY(lab_table_end(table));
    const LabFigures figures = lab_figures(speedups, N_PATTERNS);
    lab_say(lab, "Mean over (a) to (e): %.2f times as fast, geometric mean %.2f. Paper: mean 2.89, most for (a) and "
            "(e), least for (d); it does not print the single figures.", figures.mean, figures.geomean);
    const char *names[N_PATTERNS];
    for (int i = 0; i < N_PATTERNS; i++)
        names[i] = patterns[i].name;
    Text svg = { 0 };
    plot_bars(&(BarPlot){ .title = "Fused against unfused",
                          .description = "How many times as fast the fused pattern is.",
                          .y_label = "times as fast", .groups = names, .n_groups = N_PATTERNS,
                          .series = (const char *const[]){ "fused over unfused" }, .n_series = 1, .values = speedups },
              &svg);
    return lab_plot(lab, "fuse-patterns", "Patterns (a) to (e): unfused over fused time (paper 4, figure 16)", &svg);
}

static const char *percent_less(Lab *lab, double fused, double unfused)
{
    return unfused > 0 && fused > 0 ? lab_percent(lab, 1 - fused / unfused) : "-";
}

// Figures 17 and 18: there is no counter of memory cycles here, so bytes that kernels read stand for them.
static weft_status show_memory(Lab *lab, const FuseRun *runs)
{
    LabTable *table = lab_table_new(lab, "fuse-memory", "Memory: what is stored between kernels, and what is read");
    static const char *const columns[] = { "stored in between, MB", "host memory, MB, fused", "unfused", "saved",
                                           "read less" };
    lab_column(table, "pattern", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    for (int i = 0; i < PATTERN_D; i++) {
        const SqlFigures *fused = &runs[i].fused, *unfused = &runs[i].unfused;
        lab_row(table, patterns[i].name, megabytes(lab, unfused->bytes_kept), megabytes(lab, fused->memory),
                megabytes(lab, unfused->memory), percent_less(lab, fused->memory, unfused->memory),
                percent_less(lab, fused->bytes_read, unfused->bytes_read));
    }
    TRY(lab_table_end(table));
    lab_say(lab, "Paper: fusion needs less memory in all patterns but (d) (figure 17), and takes 59 %% off the cycles "
            "of global memory (figure 18). Its cycles cannot be counted here: bytes that kernels read stand for them; "
            "what they write comes on top.");
    return WEFT_OK;
}

static weft_status show_resources(Lab *lab, const FuseRun *runs)
{
    if (lab->is_sim) {
        lab_say(lab, "Registers, shared memory and occupancy of Weft's kernels (the paper's Table 3) need a GPU: "
                "--device cuda. The CPU ran these.");
        return WEFT_OK;
    }
    LabTable *table = lab_table_new(lab, "fuse-resources", "Registers, shared memory, occupancy (Table 3)");
    static const char *const columns[] = { "registers, unfused", "fused", "shared, bytes, unfused", "fused",
                                           "occupancy, unfused", "fused", "paper, fused" };
    lab_column(table, "pattern", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    for (int i = 0; i < N_PATTERNS; i++) {
        const SqlFigures *fused = &runs[i].fused, *unfused = &runs[i].unfused;
        lab_row(table, patterns[i].name, lab_count_text(lab, unfused->registers),
                lab_count_text(lab, fused->registers), lab_number(lab, unfused->shared, 0),
                lab_number(lab, fused->shared, 0), arena_printf(lab->arena, "%d %%", unfused->occupancy),
                arena_printf(lab->arena, "%d %%", fused->occupancy), patterns[i].paper);
    }
    TRY(lab_table_end(table));
    lab_say(lab, "Unfused: the most registers and shared memory, and the least occupancy, of its kernels. Paper: "
            "registers, shared memory in bytes and occupancy of the fused kernel on a C2070.");
    return WEFT_OK;
}

static void warn_of_fallbacks(Lab *lab, const FuseRun *runs, int n_runs)
{
    bool is_elsewhere = false;
    for (int i = 0; i < n_runs; i++)
        is_elsewhere |= runs[i].fused.is_elsewhere || runs[i].unfused.is_elsewhere;
    if (is_elsewhere)
        lab_say(lab, "Some of these kernels ran on the CPU although a GPU was asked for: these figures say nothing.");
}

// ---- optimisation levels (figure 19) --------------------------------------------------------------------------------

static weft_status show_levels(Lab *lab, const FuseRun *low, const FuseRun *high, const char *low_name,
                               const char *high_name)
{
    LabTable *table = lab_table_new(lab, "fuse-levels", "What the compiler's optimisation is worth (figure 19)");
    lab_column(table, "pattern", LAB_LEFT);
    lab_column(table, arena_printf(lab->arena, "fused, ms, %s", low_name), LAB_RIGHT);
    lab_column(table, high_name, LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    lab_column(table, arena_printf(lab->arena, "unfused, ms, %s", low_name), LAB_RIGHT);
    lab_column(table, high_name, LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    for (int i = 0; i < PATTERN_D; i++)
        lab_row(table, patterns[i].name, lab_number(lab, low[i].fused.time_ms, 3),
                lab_number(lab, high[i].fused.time_ms, 3),
                lab_number(lab, ratio(low[i].fused.time_ms, high[i].fused.time_ms), 2),
                lab_number(lab, low[i].unfused.time_ms, 3), lab_number(lab, high[i].unfused.time_ms, 3),
                lab_number(lab, ratio(low[i].unfused.time_ms, high[i].unfused.time_ms), 2));
    TRY(lab_table_end(table));
    lab_say(lab, "Paper: -O3 gains more over -O0 where kernels are fused, since the compiler sees more at once.");
    return WEFT_OK;
}

static weft_status measure_levels(const Fuse *fuse, FuseRun *runs)
{
    for (int i = 0; i < PATTERN_D; i++) {
        lab_progress(fuse->lab, "optimisation levels", i, PATTERN_D);
        TRY(measure_both(fuse, patterns[i].query, &runs[i]));
    }
    return WEFT_OK;
}

// Another database, whose kernels are compiled without ptxas's optimisation.
static weft_status measure_unoptimised_on_gpu(const Fuse *fuse, FuseRun *runs)
{
    Fuse other = *fuse;
    setenv("WEFT_NVRTC_OPTIONS", "--ptxas-options=-O0", 1);
    weft_status status = sql_open(fuse->lab, &other.sql);
    if (!status)
        status = make_tables(&other);
    if (!status)
        status = measure_levels(&other, runs);
    unsetenv("WEFT_NVRTC_OPTIONS");
    if (!status)
        sql_close(other.sql);
    return status;
}

static weft_status run_levels(const Fuse *fuse, const FuseRun *optimised)
{
    FuseRun low[PATTERN_D] = { 0 };
    if (fuse->is_quick) {
        lab_say(fuse->lab, "Figure 19, optimisation levels, is left out with fewer than %d runs.", QUICK_RUNS);
        return WEFT_OK;
    }
    if (!fuse->lab->is_sim) {
        TRY(measure_unoptimised_on_gpu(fuse, low));
        return show_levels(fuse->lab, low, optimised, "ptxas -O0", "ptxas -O3");
    }
    TRY(sql_run(fuse->sql, "set jit = tcc"));
    TRY(measure_levels(fuse, low));
    TRY(sql_run(fuse->sql, "set jit = cc"));
    return show_levels(fuse->lab, low, optimised, "tcc", "cc -O3");
}

// ---- selectivity (figure 20) ----------------------------------------------------------------------------------------

static weft_status run_selectivity(const Fuse *fuse)
{
    enum { N_SHARES = 9 };
    Lab *lab = fuse->lab;
    LabTable *table =
        lab_table_new(lab, "fuse-selectivity", "Two selects, by the share of rows that pass each (figure 20)");
    double shares[N_SHARES], speedups[N_SHARES];
    lab_column(table, "pass, percent", LAB_RIGHT);
    lab_column(table, "fused, ms", LAB_RIGHT);
    lab_column(table, "unfused, ms", LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    lab_column(table, "paper", LAB_RIGHT);
    for (int i = 0; i < N_SHARES; i++) {
        const int percent = 10 * (i + 1);
        const u32 limit = (u32)((u64)percent * (1u << 31) / 100);
        FuseRun run;
        lab_progress(lab, "selectivity", i, N_SHARES);
        const char *query = arena_printf(lab->arena, "select c, d from t where a < %u and b < %u", limit, limit);
        TRY(measure_both(fuse, query, &run));
        shares[i] = percent;
        speedups[i] = ratio(run.unfused.time_ms, run.fused.time_ms);
        lab_row(table, lab_count_text(lab, percent), lab_number(lab, run.fused.time_ms, 3),
                lab_number(lab, run.unfused.time_ms, 3), lab_number(lab, speedups[i], 2),
                percent == 10 ? "1.28" : percent == 90 ? "2.01" : "");
    }
    TRY(lab_table_end(table));
    const double paper_x[] = { 10, 90 }, paper_y[] = { 1.28, 2.01 };
    const PlotSeries series[] = { { "here", shares, speedups, N_SHARES, true, true },
                                  { "paper", paper_x, paper_y, 2, false, true } };
    Text svg = { 0 };
    plot_lines(&(LinePlot){ .title = "Fused against unfused, by selectivity",
                            .description = "How many times as fast two fused selects are.",
                            .x_label = "percent of rows that pass each select", .y_label = "times as fast",
                            .series = series, .n_series = 2 }, &svg);
    return lab_plot(lab, "fuse-selectivity", "Two selects by selectivity (paper 4, figure 20)", &svg);
}

// ---- inputs that do not fit (figure 21) -----------------------------------------------------------------------------

// The input comes in pieces, as in the paper: what is stored between the kernels of a piece must fit, too.  All pieces
// together take three times the memory, so none is there any more when its turn comes again.
enum { N_PIECES = 12, PIECE_SHARE = 4, INPUT_BYTES = 16, TIMES_THE_MEMORY = 3, WARM_PASSES = 4 };

static const char *const piece_tables[] = { "t", "j" };

static weft_status rename_piece(const Fuse *fuse, int piece, bool is_out)
{
    for (int i = 0; i < COUNT_OF(piece_tables); i++) {
        const char *name = piece_tables[i];
        TRY(is_out ? sql_run(fuse->sql, "alter table %s rename to %s_%d", name, name, piece)
                   : sql_run(fuse->sql, "alter table %s_%d rename to %s", name, piece, name));
    }
    return WEFT_OK;
}

static weft_status make_pieces(const Fuse *fuse)
{
    TRY(make_dimensions(fuse));
    for (int piece = 0; piece < N_PIECES; piece++) {
        lab_progress(fuse->lab, "making pieces", piece, N_PIECES);
        TRY(make_inputs(fuse));
        TRY(rename_piece(fuse, piece, true));
    }
    return WEFT_OK;
}

static void add_figures(SqlFigures *sum, const SqlFigures *piece)
{
    sum->n_kernels += piece->n_kernels;
    sum->time_ms += piece->time_ms;
    sum->total_ms += piece->total_ms;
    sum->is_elsewhere |= piece->is_elsewhere;
}

static weft_status pass_pieces(const Fuse *fuse, const char *query, SqlFigures *sum)
{
    *sum = (SqlFigures){ 0 };
    for (int piece = 0; piece < N_PIECES; piece++) {
        SqlFigures figures;
        TRY(rename_piece(fuse, piece, false));
        TRY(sql_measure_once(fuse->sql, query, &figures));
        TRY(rename_piece(fuse, piece, true));
        add_figures(sum, &figures);
    }
    return WEFT_OK;
}

static weft_status measure_pass(const Fuse *fuse, bool is_fused, const char *query, SqlFigures *figures)
{
    TRY(sql_run(fuse->sql, is_fused ? "set weave = on" : "set weave = off"));
    return pass_pieces(fuse, query, figures);
}

static void keep_fastest(SqlFigures *best, const SqlFigures *pass, bool is_first)
{
    if (is_first || pass->total_ms < best->total_ms)
        *best = *pass;
}

// The fastest of passes that alternate.  Columns are pinned when they pass for the second time, which takes the host as
// long as several passes; so the first passes do not count, whichever side makes them.
static weft_status measure_pieces(const Fuse *fuse, const char *query, FuseRun *run)
{
    SqlFigures pass;
    for (int i = 0; i < WARM_PASSES; i++)
        TRY(measure_pass(fuse, i % 2 == 0, query, &pass));
    for (int i = 0; i < MAX_OF(fuse->n_runs, 1); i++) {
        TRY(measure_pass(fuse, true, query, &pass));
        keep_fastest(&run->fused, &pass, i == 0);
        TRY(measure_pass(fuse, false, query, &pass));
        keep_fastest(&run->unfused, &pass, i == 0);
    }
    return WEFT_OK;
}

static weft_status measure_patterns_of_pieces(const Fuse *fuse, FuseRun *runs)
{
    for (int i = 0; i < PATTERN_D; i++) {
        lab_progress(fuse->lab, "inputs that do not fit", i, PATTERN_D);
        TRY(measure_pieces(fuse, patterns[i].query, &runs[i]));
    }
    return WEFT_OK;
}

// Another database, with less memory.
static weft_status measure_large(const Fuse *fuse, FuseRun *runs)
{
    Fuse other = *fuse;
    char memory[32];
    const char *before = getenv("WEFT_DEVICE_MEMORY");
    char *kept = before ? arena_strdup(fuse->lab->arena, before) : NULL;
    other.n_times = MAX_OF(1, fuse->n_times / PIECE_SHARE);
    const i64 bytes = fuse->n_rows * other.n_times * N_PIECES * INPUT_BYTES;
    snprintf(memory, sizeof(memory), "%lldkB", (long long)(bytes / TIMES_THE_MEMORY >> 10));
    setenv("WEFT_DEVICE_MEMORY", memory, 1);
    weft_status status = sql_open(fuse->lab, &other.sql);
    if (!status)
        status = make_pieces(&other);
    if (!status)
        status = measure_patterns_of_pieces(&other, runs);
    if (kept)
        setenv("WEFT_DEVICE_MEMORY", kept, 1);
    else
        unsetenv("WEFT_DEVICE_MEMORY");
    if (!status)
        sql_close(other.sql);
    return status;
}

static weft_status run_large(const Fuse *fuse)
{
    Lab *lab = fuse->lab;
    FuseRun runs[PATTERN_D] = { 0 };
    if (lab->is_sim) {
        lab_say(lab, "Figure 21, inputs that do not fit in device memory, needs a GPU: --device cuda.");
        return WEFT_OK;
    }
    TRY(measure_large(fuse, runs));
    LabTable *table =
        lab_table_new(lab, "fuse-large", "Inputs of three times the device memory, in 12 pieces (figure 21)");
    lab_column(table, "pattern", LAB_LEFT);
    lab_column(table, "kernels, ms, fused", LAB_RIGHT);
    lab_column(table, "unfused", LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    lab_column(table, "all, ms, fused", LAB_RIGHT);
    lab_column(table, "unfused", LAB_RIGHT);
    lab_column(table, "times as fast", LAB_RIGHT);
    for (int i = 0; i < PATTERN_D; i++)
        lab_row(table, patterns[i].name, lab_number(lab, runs[i].fused.time_ms, 3),
                lab_number(lab, runs[i].unfused.time_ms, 3),
                lab_number(lab, ratio(runs[i].unfused.time_ms, runs[i].fused.time_ms), 2),
                lab_number(lab, runs[i].fused.total_ms, 3), lab_number(lab, runs[i].unfused.total_ms, 3),
                lab_number(lab, ratio(runs[i].unfused.total_ms, runs[i].fused.total_ms), 2));
    TRY(lab_table_end(table));
    lab_say(lab, "All: by the host's clock, copies included. Paper: 2.91 in computation, 2.08 in transfers, 1.98 in "
            "all.");
    warn_of_fallbacks(lab, runs, PATTERN_D);
    return WEFT_OK;
}

// ---- TPC-H Q1 -------------------------------------------------------------------------------------------------------

typedef struct Q1Column { const char *name; SqlColumn values; } Q1Column;

static const Q1Column q1_columns[] = {
    { "quantity", { .least = 1, .below = 51 } },      { "price", { .least = 90000, .below = 10500000 } },
    { "discount", { .below = 11 } },                  { "tax", { .below = 9 } },
    { "flag", { .below = 3 } },                       { "status", { .below = 2 } },
    { "shipdate", { .below = 2556 } },
};

enum { N_Q1_COLUMNS = COUNT_OF(q1_columns) };

// The paper has a table of row number and value for each column, which joins put together; ours is one table.
static weft_status make_q1_tables(const Fuse *fuse)
{
    SqlColumn whole[N_Q1_COLUMNS];
    TRY(sql_run(fuse->sql, "create table item (quantity integer, price bigint, discount integer, tax integer, "
                           "flag integer, status integer, shipdate integer)"));
    for (int i = 0; i < N_Q1_COLUMNS; i++) {
        const SqlColumn columns[] = { { .is_row_number = true }, q1_columns[i].values };
        lab_progress(fuse->lab, "making the tables of Q1", i, N_Q1_COLUMNS);
        whole[i] = q1_columns[i].values;
        TRY(sql_run(fuse->sql, "create table c_%s (id integer, v bigint)", q1_columns[i].name));
        TRY(sql_fill(fuse->sql, arena_printf(fuse->lab->arena, "c_%s", q1_columns[i].name),
                     &(SqlRows){ columns, 2, fuse->n_rows, 1 }));
    }
    return sql_fill(fuse->sql, "item", &(SqlRows){ whole, N_Q1_COLUMNS, fuse->n_rows, fuse->n_times });
}

static const char *const q1_forms[][2] = {
    { "the paper's: six joins of columns",
      "select f.v, s.v, sum(q.v), sum(p.v), sum(p.v * (100 - d.v)), sum(p.v * (100 - d.v) * (100 + x.v)), count(*) "
      "from c_quantity q join c_price p on p.id = q.id join c_discount d on d.id = q.id join c_tax x on x.id = q.id "
      "join c_flag f on f.id = q.id join c_status s on s.id = q.id join c_shipdate w on w.id = q.id "
      "where w.v <= 2465 group by f.v, s.v order by f.v, s.v" },
    { "ours: one table",
      "select flag, status, sum(quantity), sum(price), sum(price * (100 - discount)), "
      "sum(price * (100 - discount) * (100 + tax)), count(*) "
      "from item where shipdate <= 2465 group by flag, status order by flag, status" },
};

static weft_status run_q1(const Fuse *fuse)
{
    Lab *lab = fuse->lab;
    FuseRun runs[2] = { 0 };
    TRY(make_q1_tables(fuse));
    LabTable *table = lab_table_new(lab, "fuse-q1", "TPC-H Q1");
    static const char *const columns[] = { "kernels, fused", "unfused", "ms, fused", "unfused", "times as fast",
                                           "paper" };
    lab_column(table, "form", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(q1_forms); i++) {
        lab_progress(lab, "Q1", i, COUNT_OF(q1_forms));
        TRY(measure_both(fuse, q1_forms[i][1], &runs[i]));
        lab_row(table, q1_forms[i][0], lab_count_text(lab, runs[i].fused.n_kernels),
                lab_count_text(lab, runs[i].unfused.n_kernels), lab_number(lab, runs[i].fused.time_ms, 3),
                lab_number(lab, runs[i].unfused.time_ms, 3),
                lab_number(lab, ratio(runs[i].unfused.time_ms, runs[i].fused.time_ms), 2),
                i ? "" : "3.18; 1.25 with its sort");
    }
    TRY(lab_table_end(table));
    lab_say(lab, "The paper sorts all rows for its groups, which takes 71 %% of its time and gains nothing from "
            "fusion. Weft has no such sort: groups are found by their number, and the answer's few rows are sorted at "
            "the end. The builds of the six join tables count on both sides.");
    warn_of_fallbacks(lab, runs, 2);
    return WEFT_OK;
}

// ---- TPC-H Q21 ------------------------------------------------------------------------------------------------------

// Suppliers that alone were late with an order of several.  Names are numbers; sizes are to each other as in TPC-H.
static weft_status make_q21_tables(const Fuse *fuse)
{
    const u32 n_items = (u32)fuse->n_rows, n_orders = n_items / 4, n_suppliers = MAX_OF(n_items / 600, 25);
    const SqlColumn items[] = { { .below = n_orders }, { .below = n_suppliers }, { .below = 2556 }, { .below = 2556 } },
                    orders[] = { { .is_row_number = true }, { .below = 2 } },
                    suppliers[] = { { .is_row_number = true }, { .is_row_number = true }, { .below = 25 } },
                    nations[] = { { .is_row_number = true }, { .is_row_number = true } };
    TRY(sql_run(fuse->sql, "create table lineitem (l_orderkey integer, l_suppkey integer, l_commitdate integer, "
                           "l_receiptdate integer); create table orders (o_orderkey integer, o_orderstatus integer); "
                           "create table supplier (s_suppkey integer, s_name integer, s_nationkey integer); "
                           "create table nation (n_nationkey integer, n_name integer)"));
    lab_progress(fuse->lab, "making the tables of Q21", 0, 1);
    TRY(sql_fill(fuse->sql, "lineitem", &(SqlRows){ items, COUNT_OF(items), n_items, 1 }));
    TRY(sql_fill(fuse->sql, "orders", &(SqlRows){ orders, COUNT_OF(orders), n_orders, 1 }));
    TRY(sql_fill(fuse->sql, "supplier", &(SqlRows){ suppliers, COUNT_OF(suppliers), n_suppliers, 1 }));
    return sql_fill(fuse->sql, "nation", &(SqlRows){ nations, COUNT_OF(nations), 25, 1 });
}

static const char q21[] =
    "select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation "
    "where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 0 "
    "and l1.l_receiptdate > l1.l_commitdate "
    "and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey) "
    "and not exists (select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey "
    "and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate) "
    "and s_nationkey = n_nationkey and n_name = 20 group by s_name order by numwait desc, s_name limit 100";

static weft_status run_q21(const Fuse *fuse)
{
    Lab *lab = fuse->lab;
    FuseRun run = { 0 };
    TRY(make_q21_tables(fuse));
    lab_progress(lab, "Q21", 0, 1);
    TRY(measure_both(fuse, q21, &run));
    LabTable *table = lab_table_new(lab, "fuse-q21", "TPC-H Q21");
    static const char *const columns[] = { "kernels, fused", "unfused", "ms, fused", "unfused", "times as fast",
                                           "stored in between, MB", "paper" };
    lab_column(table, "form", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(columns); i++)
        lab_column(table, columns[i], LAB_RIGHT);
    lab_row(table, "as its text is, all kernels", lab_count_text(lab, run.fused.n_kernels),
            lab_count_text(lab, run.unfused.n_kernels), lab_number(lab, run.fused.time_ms, 3),
            lab_number(lab, run.unfused.time_ms, 3), lab_number(lab, ratio(run.unfused.time_ms, run.fused.time_ms), 2),
            megabytes(lab, run.unfused.bytes_kept), "1.22 with its sorts");
    TRY(lab_table_end(table));
    lab_say(lab, "%lld lineitems, a quarter as many orders. Relational work, little arithmetic: EXISTS and NOT EXISTS "
            "are joins, each a table that is built. The paper sorts before its joins, and its sorts cannot be fused; "
            "Weft's joins look tables up, and their builds count on both sides.", (long long)fuse->n_rows);
    warn_of_fallbacks(lab, &run, 1);
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void introduce(const Fuse *fuse)
{
    Lab *lab = fuse->lab;
    const i64 n_rows = fuse->n_rows * fuse->n_times;
    if (lab->is_sim)
        lab_say(lab, "The lab's card is simulated, and queries cannot be: these figures are of the CPU of this "
                "machine, with %lld rows of 16 bytes, compiled by %s. The paper's figures are of a GPU.",
                (long long)n_rows, fuse->is_quick ? "tcc" : "cc");
    else
        lab_say(lab, "Weft's engine on the GPU, with %lld rows of 16 bytes in its memory; rows between unfused kernels "
                "stay there, too. Times are of kernels, by the GPU's clock.", (long long)n_rows);
    lab_say(lab, "The fastest of %d runs. A select passes half of its rows, a join half. Patterns (d) and (e) are %s.",
            fuse->n_runs, lab->is_sim ? "loops over arrays, on one thread" : "kernels of the lab");
}

static Fuse settings_of(Lab *lab)
{
    Fuse fuse = { .lab = lab, .n_times = lab->is_sim ? 1 : 16 };
    fuse.n_runs = MIN_OF(lab_runs(lab, PAPER_RUNS), PAPER_RUNS);
    fuse.is_quick = lab_runs(lab, PAPER_RUNS) < QUICK_RUNS;
    fuse.n_rows = !lab->is_sim ? 1 << 20 : fuse.is_quick ? 1 << 16 : 1 << 20;
    return fuse;
}

weft_status run_fuse(Lab *lab)
{
    Fuse fuse = settings_of(lab);
    FuseRun runs[N_PATTERNS] = { 0 }, two_queries = { 0 };
    lab_section(lab, "Patterns (a) to (e)");
    introduce(&fuse);
    TRY(sql_open(lab, &fuse.sql));
    TRY(sql_run(fuse.sql, "set jit = %s", fuse.is_quick ? "tcc" : "cc"));
    TRY(make_tables(&fuse));
    TRY(run_patterns(&fuse, runs, &two_queries));
    TRY(show_times(lab, runs, &two_queries));
    warn_of_fallbacks(lab, runs, N_PATTERNS);
    TRY(show_memory(lab, runs));
    TRY(show_resources(lab, runs));
    TRY(run_levels(&fuse, runs));
    TRY(run_selectivity(&fuse));
    TRY(run_large(&fuse));
    lab_section(lab, "TPC-H Q1");
    TRY(run_q1(&fuse));
    lab_section(lab, "TPC-H Q21");
    TRY(run_q21(&fuse));
    sql_close(fuse.sql);
    return WEFT_OK;
}
