// occupancy.c - paper 3, section III: one kernel, its running rounds against its time, for every block size.
//
// The number of threads is fixed; the block size goes through all whole warps.  Kernels I to III of the paper are the
// radial distribution function, the histogram and the nested-loop join of the pool.

#include <math.h>

#include "lab/lab_int.h"

enum { SIZES_MAX = 32, REPEATS = 5 };

static const double capacity_times = 12.5;                  // threads of the grid: so often what the card holds

typedef struct VerifiedKernel {
    const char *number;                                     // in the paper
    const char *name;                                       // in the pool
    double      pearson;                                    // the paper's, Table II
} VerifiedKernel;

static const VerifiedKernel verified[] = {
    { "I", "radial_distribution", 0.9974 },
    { "II", "histogram", 0.9791 },
    { "III", "nested_loop_join", 0.9606 },
};

typedef struct SizeRun {
    int       threads_per_block;
    Occupancy occupancy;
    i64       rounds;
    i64       time_ns;
} SizeRun;

typedef struct KernelRun {
    const VerifiedKernel *verified;
    const LabKernel      *kernel;
    KernelNeeds           needs;
    BlockSize             best;
    SizeRun               sizes[SIZES_MAX];
    int                   n_sizes;
} KernelRun;

static i64 grid_threads(const Lab *lab)
{
    const GpuLimits *limits = &lab->limits;
    const i64 capacity = (i64)limits->n_multiprocessors * limits->warps * limits->threads_per_warp;
    return (i64)(capacity_times * (double)capacity);
}

// The median of several runs; one is enough on a simulated card, where all take the same.
static weft_status time_of(Lab *lab, const LabLaunch *launch, i64 *time_ns)
{
    const int n = lab->is_sim ? 1 : lab_runs(lab, REPEATS);
    double *times = arena_array(lab->arena, double, n);
    for (int i = 0; i < n; i++) {
        TRY(lab_run_set(lab, launch, 1, time_ns));
        times[i] = (double)*time_ns;
    }
    *time_ns = (i64)lab_figures(times, n).median;
    return WEFT_OK;
}

static weft_status run_size(Lab *lab, KernelRun *run, int threads_per_block)
{
    const i64 n_threads = grid_threads(lab), n_blocks = (n_threads + threads_per_block - 1) / threads_per_block;
    SizeRun *size = &run->sizes[run->n_sizes++];
    *size = (SizeRun){ .threads_per_block = threads_per_block,
                       .occupancy = occupancy_of(&lab->limits, &run->needs, threads_per_block),
                       .rounds = running_rounds(&lab->limits, &run->needs, threads_per_block, n_blocks) };
    return time_of(lab, &(LabLaunch){ run->kernel, threads_per_block, n_blocks, 0 }, &size->time_ns);
}

static weft_status run_kernel(Lab *lab, const VerifiedKernel *wanted, KernelRun *run)
{
    run->verified = wanted;
    run->kernel = lab_pool_find(LAB_POOL_REAL, wanted->name);
    TRY(lab_needs(lab, run->kernel, &run->needs));
    const int n = MIN_OF(block_warps_max(&lab->limits, &run->needs), SIZES_MAX);
    if (!best_block_size(&lab->limits, &run->needs, grid_threads(lab), &run->best))
        return fail(lab->err, WEFT_TOO_LONG, -1, "kernel %s does not fit on the %s", wanted->name, lab->device_title);
    for (int warps = 1; warps <= n; warps++) {
        TRY(run_size(lab, run, warps * lab->limits.threads_per_warp));
        lab_progress(lab, wanted->name, warps, n);
    }
    return WEFT_OK;
}

// ---- figures --------------------------------------------------------------------------------------------------------

static double pearson_all(const KernelRun *run)
{
    double rounds[SIZES_MAX], times[SIZES_MAX];
    for (int i = 0; i < run->n_sizes; i++) {
        rounds[i] = (double)run->sizes[i].rounds;
        times[i] = (double)run->sizes[i].time_ns;
    }
    return lab_pearson(rounds, times, run->n_sizes);
}

// One point for each number of rounds: the mean time of the block sizes that have it.
static double pearson_distinct(const KernelRun *run, int *n_distinct)
{
    double rounds[SIZES_MAX], times[SIZES_MAX];
    int counts[SIZES_MAX] = { 0 };
    *n_distinct = 0;
    for (int i = 0; i < run->n_sizes; i++) {
        int k = 0;
        while (k < *n_distinct && rounds[k] != (double)run->sizes[i].rounds)
            k++;
        if (k == *n_distinct) {
            rounds[k] = (double)run->sizes[i].rounds;
            times[k] = 0;
            (*n_distinct)++;
        }
        times[k] = (times[k] * counts[k] + (double)run->sizes[i].time_ns) / (counts[k] + 1);
        counts[k]++;
    }
    return lab_pearson(rounds, times, *n_distinct);
}

static const SizeRun *size_at(const KernelRun *run, int threads_per_block)
{
    for (int i = 0; i < run->n_sizes; i++)
        if (run->sizes[i].threads_per_block == threads_per_block)
            return &run->sizes[i];
    return NULL;
}

static const SizeRun *fastest(const KernelRun *run)
{
    const SizeRun *best = &run->sizes[0];
    for (int i = 1; i < run->n_sizes; i++)
        if (run->sizes[i].time_ns < best->time_ns)
            best = &run->sizes[i];
    return best;
}

static const char *limit_text(LimitKind limit)
{
    static const char *const names[] = { [LIMIT_BLOCK] = "does not run", [LIMIT_BLOCKS] = "blocks",
                                         [LIMIT_WARPS] = "warps", [LIMIT_REGISTERS] = "registers",
                                         [LIMIT_SHARED] = "shared memory" };
    return names[limit];
}

// ---- tables and plots -----------------------------------------------------------------------------------------------

static weft_status show_correlation(Lab *lab, const KernelRun *runs)
{
    LabTable *table = lab_table_new(lab, "occupancy-correlation", "Correlation of predicted rounds and time (Pearson)");
    lab_column(table, "kernel", LAB_LEFT);
    lab_column(table, "registers", LAB_RIGHT);
    lab_column(table, "shared, bytes", LAB_RIGHT);
    lab_column(table, "all block sizes", LAB_RIGHT);
    lab_column(table, "sizes", LAB_RIGHT);
    lab_column(table, "one per round number", LAB_RIGHT);
    lab_column(table, "round numbers", LAB_RIGHT);
    lab_column(table, "paper", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(verified); i++) {
        const KernelRun *run = &runs[i];
        int n_distinct;
        const double distinct = pearson_distinct(run, &n_distinct);
        lab_row(table, arena_printf(lab->arena, "%s, %s", run->verified->number, run->kernel->title),
                lab_count_text(lab, run->needs.registers), lab_count_text(lab, run->needs.shared),
                lab_number(lab, pearson_all(run), 4), lab_count_text(lab, run->n_sizes), lab_number(lab, distinct, 4),
                lab_count_text(lab, n_distinct), lab_number(lab, run->verified->pearson, 4));
    }
    return lab_table_end(table);
}

static weft_status show_best(Lab *lab, const KernelRun *runs)
{
    LabTable *table = lab_table_new(lab, "occupancy-best", "Best block size (equations 10 to 13) and what was fastest");
    lab_column(table, "kernel", LAB_LEFT);
    lab_column(table, "chosen, threads", LAB_RIGHT);
    lab_column(table, "rounds", LAB_RIGHT);
    lab_column(table, "ms", LAB_RIGHT);
    lab_column(table, "fastest, threads", LAB_RIGHT);
    lab_column(table, "rounds", LAB_RIGHT);
    lab_column(table, "ms", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(verified); i++) {
        const KernelRun *run = &runs[i];
        const SizeRun *chosen = size_at(run, run->best.threads_per_block), *best = fastest(run);
        lab_row(table, run->verified->number, lab_count_text(lab, run->best.threads_per_block),
                lab_count_text(lab, run->best.rounds), chosen ? lab_ms(lab, chosen->time_ns) : "-",
                lab_count_text(lab, best->threads_per_block), lab_count_text(lab, best->rounds),
                lab_ms(lab, best->time_ns));
    }
    return lab_table_end(table);
}

static LabTable *sizes_table(Lab *lab, const char *name, const char *title)
{
    LabTable *table = lab_table_new(lab, name, title);
    lab_column(table, "kernel", LAB_LEFT);
    lab_column(table, "threads per block", LAB_RIGHT);
    lab_column(table, "concurrent blocks", LAB_RIGHT);
    lab_column(table, "occupancy", LAB_RIGHT);
    lab_column(table, "limit", LAB_LEFT);
    lab_column(table, "rounds", LAB_RIGHT);
    lab_column(table, "ms", LAB_RIGHT);
    return table;
}

static void add_size(Lab *lab, LabTable *table, const KernelRun *run, const SizeRun *size)
{
    lab_row(table, run->verified->number, lab_count_text(lab, size->threads_per_block),
            lab_count_text(lab, size->occupancy.blocks), lab_percent(lab, size->occupancy.share),
            limit_text(size->occupancy.limit), lab_count_text(lab, size->rounds), lab_ms(lab, size->time_ns));
}

static weft_status show_sizes(Lab *lab, const KernelRun *runs)
{
    static const int shown[] = { 32, 64, 128, 192, 256, 384, 512, 768, 1024 };
    LabTable *some = sizes_table(lab, "occupancy-sizes", "Some block sizes (occupancy-all-sizes.csv has all)");
    LabTable *all = sizes_table(lab, "occupancy-all-sizes", "All block sizes");
    for (int i = 0; i < COUNT_OF(verified); i++) {
        for (int k = 0; k < COUNT_OF(shown); k++)
            if (size_at(&runs[i], shown[k]))
                add_size(lab, some, &runs[i], size_at(&runs[i], shown[k]));
        for (int k = 0; k < runs[i].n_sizes; k++)
            add_size(lab, all, &runs[i], &runs[i].sizes[k]);
    }
    TRY(lab_table_file(all));
    return lab_table_end(some);
}

// Time is drawn in rounds: divided by the time of a round that fits best (least squares).
static weft_status draw_kernel(Lab *lab, const KernelRun *run)
{
    double x[SIZES_MAX], rounds[SIZES_MAX], times[SIZES_MAX], rt = 0, rr = 0;
    for (int i = 0; i < run->n_sizes; i++) {
        x[i] = run->sizes[i].threads_per_block;
        rounds[i] = (double)run->sizes[i].rounds;
        rt += rounds[i] * (double)run->sizes[i].time_ns;
        rr += rounds[i] * rounds[i];
    }
    const double round_ns = rt / rr;
    for (int i = 0; i < run->n_sizes; i++)
        times[i] = (double)run->sizes[i].time_ns / round_ns;
    const PlotSeries series[] = {
        { "running rounds, predicted", x, rounds, run->n_sizes, true, false },
        { arena_printf(lab->arena, "time, %s, / %.3f ms", lab->is_sim ? "simulated" : "measured", round_ns / 1e6), x,
          times, run->n_sizes, false, true },
    };
    Text svg = { 0 };
    plot_lines(&(LinePlot){ .title = arena_printf(lab->arena, "Kernel %s: rounds and time against block size",
                                                  run->verified->number),
                            .description = "Predicted running rounds as a line, time in units of one round as points, "
                                           "for block sizes of 32 to 1024 threads.",
                            .x_label = "threads per block", .y_label = "rounds", .series = series,
                            .n_series = COUNT_OF(series) },
               &svg);
    return lab_plot(lab, arena_printf(lab->arena, "occupancy-kernel-%s", run->verified->number),
                    arena_printf(lab->arena, "Paper 3, figure 4: %s on the %s", run->kernel->title, lab->device_title),
                    &svg);
}

weft_status run_occupancy(Lab *lab)
{
    KernelRun *runs = arena_array(lab->arena, KernelRun, COUNT_OF(verified));
    for (int i = 0; i < COUNT_OF(verified); i++)
        TRY(run_kernel(lab, &verified[i], &runs[i]));
    lab_section(lab, "Running rounds and time, by block size");
    lab_say(lab, "Each kernel has %lld threads, %.1f times what the card holds, in blocks of 32 to 1024. Equations 1 "
                 "to 9 predict how many rounds that takes. Where several block sizes share a round number, \"one per "
                 "round number\" takes the mean of their times.", (long long)grid_threads(lab), capacity_times);
    if (lab->is_sim)
        lab_say(lab, "On a simulated card a block takes the same time whatever its size, so time is rounds times "
                     "duration, and 1.0000 says only that the equations and the simulated scheduler agree. What the "
                     "model is worth shows on a real card: --device cuda.");
    TRY(show_correlation(lab, runs));
    TRY(show_best(lab, runs));
    TRY(show_sizes(lab, runs));
    for (int i = 0; i < COUNT_OF(verified); i++)
        TRY(draw_kernel(lab, &runs[i]));
    return WEFT_OK;
}
