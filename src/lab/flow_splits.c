// flow_splits.c - operators of different weight side by side (paper 5, figure 13 and Table 2): how the warps of a block
// are split between them, predicted by src/model/tune.c and measured.

#include <math.h>

#include "lab/flow_lab.h"
#include "model/tune.h"

enum { WARPS = 32, STEP = 4, N_SPLITS = WARPS / STEP - 1 };

static const char *const pairs[][2] = {
    { "FMA4", "FMA64" }, { "FMA8", "FMA32" }, { "FMA4", "FMA16" }, { "FMA16", "FMA64" }
};

// Short measurements are tests: one pair is enough.
static int n_pairs(const FlowLab *flow)
{
    return flow->measure_ms < 10 ? 1 : COUNT_OF(pairs);
}

// ---- on a GPU: every split ------------------------------------------------------------------------------------------

typedef struct SplitRun {
    const LabOperator *ops[2];
    FlowSplit splits[N_SPLITS];
    double concurrent;  // GB/s of two kernels at once
    TuneFit fits[2];
    int predicted[2], equal[2];  // by equation 1 and by equation 3
    double tuning_us;
} SplitRun;

static weft_status measure_splits(FlowLab *flow, SplitRun *run, Error *err)
{
    FlowSplit concurrent = { .x = { run->ops[0]->number, run->ops[1]->number } };
    for (int i = 0; i < N_SPLITS; i++) {
        run->splits[i] = (FlowSplit){ .x = { run->ops[0]->number, run->ops[1]->number }, .warps = STEP * (i + 1) };
        TRY(flow_gpu_split(flow, &run->splits[i], err));
    }
    TRY(flow_gpu_split(flow, &concurrent, err));
    run->concurrent = concurrent.gb_s;
    return WEFT_OK;
}

// From four of the splits, as an operator that is new would be sampled.
static weft_status predict(SplitRun *run, Error *err)
{
    TuneSample samples[2][N_SPLITS];
    int n = 0;
    for (int i = 0; i < N_SPLITS; i += 2, n++)
        for (int op = 0; op < 2; op++)
            samples[op][n] =
                (TuneSample){ op ? WARPS - run->splits[i].warps : run->splits[i].warps, run->splits[i].round_us[op] };
    const double start_ms = time_now_ms();
    const bool is_fit = tune_fit(samples[0], n, &run->fits[0]) && tune_fit(samples[1], n, &run->fits[1]) &&
                        tune_split(run->fits, 2, WARPS, run->predicted, NULL);
    run->tuning_us = (time_now_ms() - start_ms) * 1000;
    if (!is_fit)
        return fail(err, WEFT_DEVICE_FAILED, -1, "round times could not be fitted");
    tune_split_equal(run->fits, 2, WARPS, 0, run->equal, NULL);
    return WEFT_OK;
}

// Throughput is so many bytes a round over its time; how many is taken from the sampled splits.
static double predicted_gb_s(const SplitRun *run, int i)
{
    const int warps[2] = { run->splits[i].warps, WARPS - run->splits[i].warps };
    double work = 0;
    int n = 0;
    for (int s = 0; s < N_SPLITS; s += 2, n++)
        work += run->splits[s].gb_s * MAX_OF(run->splits[s].round_us[0], run->splits[s].round_us[1]);
    const double slowest = tune_slowest(run->fits, 2, warps);
    return slowest > 0 ? work / n / slowest : NAN;
}

static weft_status plot_splits(FlowLab *flow, const SplitRun *run)
{
    double x[N_SPLITS], measured[N_SPLITS], predicted[N_SPLITS], concurrent[N_SPLITS];
    Text svg = { 0 };
    for (int i = 0; i < N_SPLITS; i++) {
        x[i] = run->splits[i].warps;
        measured[i] = run->splits[i].gb_s;
        predicted[i] = predicted_gb_s(run, i);
        concurrent[i] = run->concurrent;
    }
    const PlotSeries series[] = { { "measured", x, measured, N_SPLITS, true, true },
                                  { "predicted", x, predicted, N_SPLITS, true, true },
                                  { "concurrent kernels", x, concurrent, N_SPLITS, true, false } };
    char *name = arena_printf(flow->arena, "flow-split-%s-%s", run->ops[0]->title, run->ops[1]->title);
    plot_lines(&(LinePlot){ .title = arena_printf(flow->arena, "%s and %s", run->ops[0]->title, run->ops[1]->title),
                            .description = "Throughput by the number of warps of the first operator.",
                            .x_label = "warps of the first of 32",
                            .y_label = "GB/s",
                            .series = series,
                            .n_series = COUNT_OF(series) },
               &svg);
    return lab_plot(flow->lab, name, "Splits of 32 warps (beside the paper's figure 13)", &svg);
}

static void best_and_worst(const SplitRun *run, int *best, int *worst)
{
    *best = *worst = 0;
    for (int i = 1; i < N_SPLITS; i++) {
        *best = run->splits[i].gb_s > run->splits[*best].gb_s ? i : *best;
        *worst = run->splits[i].gb_s < run->splits[*worst].gb_s ? i : *worst;
    }
}

static void add_split_rows(FlowLab *flow, const SplitRun *run, LabTable *all, LabTable *best_table)
{
    Lab *lab = flow->lab;
    int best, worst;
    char *pair = arena_printf(lab->arena, "%s, %s", run->ops[0]->title, run->ops[1]->title);
    for (int i = 0; i < N_SPLITS; i++)
        lab_row(all, pair, arena_printf(lab->arena, "%d:%d", run->splits[i].warps, WARPS - run->splits[i].warps),
                lab_number(lab, run->splits[i].gb_s, 2), lab_number(lab, predicted_gb_s(run, i), 2),
                lab_number(lab, run->splits[i].round_us[0], 1), lab_number(lab, run->splits[i].round_us[1], 1));
    best_and_worst(run, &best, &worst);
    const int near = MIN_OF(MAX_OF((run->predicted[0] + STEP / 2) / STEP - 1, 0), N_SPLITS - 1);
    lab_row(best_table, pair,
            arena_printf(lab->arena, "%d:%d", run->splits[best].warps, WARPS - run->splits[best].warps),
            arena_printf(lab->arena, "%d:%d", run->predicted[0], run->predicted[1]),
            arena_printf(lab->arena, "%d:%d", run->equal[0], run->equal[1]),
            lab_percent(lab, run->splits[near].gb_s / run->splits[best].gb_s),
            lab_number(lab, run->splits[best].gb_s / run->concurrent, 2),
            lab_number(lab, run->splits[best].gb_s / run->splits[worst].gb_s, 2), lab_number(lab, run->tuning_us, 1));
}

static weft_status splits_on_gpu(FlowLab *flow)
{
    Lab *lab = flow->lab;
    LabTable *all = lab_table_new(lab, "flow-splits", "Splits of the 32 warps of a block");
    LabTable *best = lab_table_new(lab, "flow-splits-best", "The best split, measured and predicted");
    lab_column(all, "operators", LAB_LEFT);
    lab_column(all, "warps", LAB_RIGHT);
    lab_column(all, "GB/s", LAB_RIGHT);
    lab_column(all, "predicted", LAB_RIGHT);
    lab_column(all, "round of the first, us", LAB_RIGHT);
    lab_column(all, "of the second, us", LAB_RIGHT);
    lab_column(best, "operators", LAB_LEFT);
    lab_column(best, "best", LAB_RIGHT);
    lab_column(best, "equation 1", LAB_RIGHT);
    lab_column(best, "equation 3", LAB_RIGHT);
    lab_column(best, "equation 1 reaches", LAB_RIGHT);
    lab_column(best, "times concurrent", LAB_RIGHT);
    lab_column(best, "times worst", LAB_RIGHT);
    lab_column(best, "tuning, us", LAB_RIGHT);
    for (int i = 0; i < n_pairs(flow); i++) {
        SplitRun *run = arena_make(flow->arena, SplitRun);
        Error err = { 0 };
        lab_progress(lab, "splits", i, n_pairs(flow));
        run->ops[0] = operator_find(pairs[i][0]);
        run->ops[1] = operator_find(pairs[i][1]);
        if (measure_splits(flow, run, &err) || predict(run, &err)) {
            lab_say(lab, "%s and %s: %s", pairs[i][0], pairs[i][1], err.message);
            continue;
        }
        add_split_rows(flow, run, all, best);
        TRY(plot_splits(flow, run));
    }
    TRY(lab_table_end(all));
    return lab_table_end(best);
}

// ---- through flow: workers instead of warps -------------------------------------------------------------------------

static int pair_workers(void)
{
    return MIN_OF(MAX_OF(cpu_count(), 4), WARPS);
}

// Round times of one operator alone with one worker and more.
static weft_status sample_alone(FlowLab *flow, const LabOperator *op, size_t bytes, TuneFit *fit, Error *err)
{
    TuneSample samples[3];
    int n = 0;
    for (int workers = 1; workers <= 4 && n < COUNT_OF(samples); workers *= 2) {
        FlowPair alone = { .ops = { op }, .frame_bytes = bytes, .n_workers = workers };
        TRY(flow_run_pair(flow, &alone, err));
        samples[n++] = (TuneSample){ workers, alone.round_us[0] };
    }
    return tune_fit(samples, n, fit) ? WEFT_OK : fail(err, WEFT_DEVICE_FAILED, -1, "round times could not be fitted");
}

static weft_status run_pair(FlowLab *flow, LabTable *table, const char *const names[2])
{
    Lab *lab = flow->lab;
    const LabOperator *ops[2] = { operator_find(names[0]), operator_find(names[1]) };
    const size_t bytes = flow->sizes[MIN_OF(1, flow->n_sizes - 1)];
    FlowPair even = {
        .ops = { ops[0], ops[1] }, .frame_bytes = bytes, .n_workers = pair_workers(), .is_untuned = true
    };
    FlowPair tuned = { .ops = { ops[0], ops[1] }, .frame_bytes = bytes, .n_workers = pair_workers() };
    TuneFit fits[2];
    int predicted[2];
    Error err = { 0 };
    weft_status status = sample_alone(flow, ops[0], bytes, &fits[0], &err);
    if (!status)
        status = sample_alone(flow, ops[1], bytes, &fits[1], &err);
    if (!status && !tune_split(fits, 2, pair_workers(), predicted, NULL))
        status = fail(&err, WEFT_DEVICE_FAILED, -1, "there is no split");
    if (!status)
        status = flow_run_pair(flow, &even, &err);
    if (!status)
        status = flow_run_pair(flow, &tuned, &err);
    if (status)
        lab_say(lab, "%s and %s through flow: %s", names[0], names[1], err.message);
    else
        lab_row(table, arena_printf(lab->arena, "%s, %s", names[0], names[1]), lab_count_text(lab, pair_workers()),
                arena_printf(lab->arena, "%d:%d", predicted[0], predicted[1]),
                arena_printf(lab->arena, "%d:%d", tuned.workers[0], tuned.workers[1]), lab_number(lab, even.gb_s, 3),
                lab_number(lab, tuned.gb_s, 3), lab_number(lab, tuned.gb_s / even.gb_s, 2));
    return WEFT_OK;
}

static weft_status splits_of_flow(FlowLab *flow)
{
    Lab *lab = flow->lab;
    lab_say(lab,
            "The same pairs as two chains of one flow, whose workers (%s) are split evenly, and as flow tunes them. "
            "The prediction is from each operator alone with 1, 2 and 4 workers.",
            flow->place);
    LabTable *table = lab_table_new(lab, "flow-pairs", "Two operators in one flow");
    lab_column(table, "operators", LAB_LEFT);
    lab_column(table, "workers", LAB_RIGHT);
    lab_column(table, "predicted", LAB_RIGHT);
    lab_column(table, "at last", LAB_RIGHT);
    lab_column(table, "even, GB/s", LAB_RIGHT);
    lab_column(table, "tuned, GB/s", LAB_RIGHT);
    lab_column(table, "times", LAB_RIGHT);
    for (int i = 0; i < n_pairs(flow); i++) {
        lab_progress(lab, "pairs", i, n_pairs(flow));
        TRY(run_pair(flow, table, pairs[i]));
    }
    return lab_table_end(table);
}

weft_status flow_splits(FlowLab *flow)
{
    Lab *lab = flow->lab;
    lab_section(lab, "Operators of different weight (figure 13, Table 2)");
    lab_say(lab,
            "FMAx multiplies and adds x times for each value. Two of them share the warps of a block; a round is over "
            "when both are done. The paper reaches 4.1 and 3.2 times concurrent kernels at the best split, 24:8 and "
            "20:12, and needs 2.6 to 150 ms for tuning by gradient descent.");
    if (flow->gpu)
        TRY(splits_on_gpu(flow));
    return splits_of_flow(flow);
}
