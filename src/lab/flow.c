// flow.c - paper 5 (XeFlow): frames from the host to operators and back, by copies and launches and by topics and
// operators that stay.  The parts that other files have are listed at the end.
//
// No part ends another: where a way cannot run, its row says so and the next one begins.

#include <math.h>
#include <stdio.h>

#include "lab/flow_lab.h"

extern const char kernel_flow_text[];

enum { GPU_WAYS = 9, WAYS_MAX = 13 };  // of every part; and of ping-pong
static const FlowWay *const gpu_ways[WAYS_MAX] = {
    &flow_way_pageable, &flow_way_pinned,  &flow_way_streams_2,    &flow_way_streams_4, &flow_way_streams_8,
    &flow_way_tasks,    &flow_way_managed, &flow_way_xeflow,       &flow_way_ours,      &flow_way_topics,
    &flow_way_catalog,  &flow_way_index,   &flow_way_ours_managed,
};
static const FlowWay *const cpu_ways[] = { &flow_way_call, &flow_way_call_2, &flow_way_ours };

static const FlowWay *base_way(const FlowLab *flow)
{
    return flow->gpu ? &flow_way_pinned : &flow_way_call;
}

// ---- ping-pong: figures 8 and 10 ------------------------------------------------------------------------------------

typedef struct PingPong {
    FlowFigures figures[FLOW_SIZES_MAX][WAYS_MAX];
    bool has_run[FLOW_SIZES_MAX][WAYS_MAX];
} PingPong;

static void add_row(FlowLab *flow, LabTable *table, int size, int w, const PingPong *all, double base)
{
    Lab *lab = flow->lab;
    const FlowFigures *figures = &all->figures[size][w];
    const double under_way = figures->gb_s * figures->p50_us * 1000 / (double)flow->sizes[size];
    lab_row(table, flow_size_text(lab, flow->sizes[size]), flow->ways[w]->title, lab_number(lab, figures->gb_s, 3),
            lab_number(lab, base > 0 ? figures->gb_s / base : NAN, 2), lab_number(lab, figures->p50_us, 1),
            lab_number(lab, figures->p99_us, 1), lab_number(lab, under_way, 1),
            lab_number(lab, figures->invocations, 0));
}

static void add_failed(FlowLab *flow, LabTable *table, int size, const char *title, const Error *err)
{
    Lab *lab = flow->lab;
    lab_row(table, flow_size_text(lab, flow->sizes[size]), title, flow_problem(lab, err), "-", "-", "-", "-", "-");
}

// Ways FIRST to END.
static void plot_sizes(FlowLab *flow, const PingPong *all, int first, int end, bool is_latency, Text *svg)
{
    PlotSeries series[WAYS_MAX];
    int n_series = 0;
    for (int w = first; w < end; w++) {
        double *x = arena_array(flow->arena, double, flow->n_sizes),
               *y = arena_array(flow->arena, double, flow->n_sizes);
        for (int i = 0; i < flow->n_sizes; i++) {
            x[i] = (double)flow->sizes[i] / 1024;
            const FlowFigures *figures = &all->figures[i][w];
            y[i] = !all->has_run[i][w] ? NAN : is_latency ? figures->p50_us : figures->gb_s;
        }
        series[n_series++] = (PlotSeries){ flow->ways[w]->title, x, y, flow->n_sizes, true, true };
    }
    plot_lines(&(LinePlot){ .title = is_latency ? "Latency of a frame" : "Throughput of ping-pong",
                            .description = is_latency
                                               ? "Median time of a frame from the host to the host, by frame size."
                                               : "Gigabytes of input a second, by frame size.",
                            .x_label = "frame, KB",
                            .y_label = is_latency ? "us" : "GB/s",
                            .series = series,
                            .n_series = n_series,
                            .x_is_log = true,
                            .y_is_log = true },
               svg);
}

static void measure_size(FlowLab *flow, LabTable *table, int size, PingPong *all)
{
    const FlowTrial trial = { .op = operator_find("ping-pong"), .frame_bytes = flow->sizes[size] };
    double base = 0;
    for (int w = 0; w < flow->n_all; w++) {
        Error err = { 0 };
        lab_progress(flow->lab, "ping-pong", size * flow->n_all + w, flow->n_sizes * flow->n_all);
        all->has_run[size][w] = !flow_measure(flow, flow->ways[w], &trial, &all->figures[size][w], &err);
        if (flow->ways[w] == base_way(flow))
            base = all->figures[size][w].gb_s;
        if (all->has_run[size][w])
            add_row(flow, table, size, w, all, base);
        else
            add_failed(flow, table, size, flow->ways[w]->title, &err);
    }
}

static weft_status show_alone(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const FlowWay *ways[] = { base_way(flow), &flow_way_ours };
    LabTable *table = lab_table_new(lab, "flow-alone", "One frame at a time, there and back");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "p50, us", LAB_RIGHT);
    lab_column(table, "p99, us", LAB_RIGHT);
    for (int i = 0; i < flow->n_sizes; i++)
        for (int w = 0; w < COUNT_OF(ways); w++) {
            const FlowTrial trial = { .op = operator_find("ping-pong"),
                                      .frame_bytes = flow->sizes[i],
                                      .is_alone = true };
            FlowFigures figures = { 0 };
            Error err = { 0 };
            const bool has_failed = flow_measure(flow, ways[w], &trial, &figures, &err) != WEFT_OK;
            lab_row(table, flow_size_text(lab, flow->sizes[i]), ways[w]->title,
                    has_failed ? flow_problem(lab, &err) : lab_number(lab, figures.p50_us, 1),
                    has_failed ? "-" : lab_number(lab, figures.p99_us, 1));
        }
    return lab_table_end(table);
}

// What each layer's rule brings (figure 10c), and what managed memory costs ours.
static weft_status show_rules(FlowLab *flow, const PingPong *all)
{
    Lab *lab = flow->lab;
    const int steps[] = { GPU_WAYS, GPU_WAYS + 1, GPU_WAYS + 2, GPU_WAYS - 2 };  // no rule, catalog, index, frames
    Text svg = { 0 };
    lab_say(lab,
            "Topics over managed memory, the rule of one layer after the other: in the paper, for small frames, the "
            "catalog's brings 21 %%, the index's 52 %% and the frames' 334 %%; for large ones the frames' brings "
            "79 %%. Each gain is against the row before it.");
    LabTable *table = lab_table_new(lab, "flow-rules", "The rules of the layers, one after the other");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GB/s", LAB_RIGHT);
    lab_column(table, "gain", LAB_RIGHT);
    lab_column(table, "p50, us", LAB_RIGHT);
    for (int i = 0; i < flow->n_sizes; i++)
        for (int s = 0; s < COUNT_OF(steps); s++) {
            const FlowFigures *is = &all->figures[i][steps[s]];
            const double before = s > 0 && all->has_run[i][steps[s - 1]] ? all->figures[i][steps[s - 1]].gb_s : NAN;
            if (all->has_run[i][steps[s]])
                lab_row(table, flow_size_text(lab, flow->sizes[i]), gpu_ways[steps[s]]->title,
                        lab_number(lab, is->gb_s, 3), lab_percent(lab, is->gb_s / before - 1),
                        lab_number(lab, is->p50_us, 1));
        }
    TRY(lab_table_end(table));
    plot_sizes(flow, all, GPU_WAYS - 2, WAYS_MAX, false, &svg);
    return lab_plot(lab, "flow-rules-plot", "Throughput rule by rule (beside the paper's figure 10c)", &svg);
}

static weft_status run_ping_pong(FlowLab *flow)
{
    Lab *lab = flow->lab;
    PingPong *all = arena_make(flow->arena, PingPong);
    Text svg = { 0 };
    lab_section(lab, "Ping-pong (figures 8 and 10)");
    lab_say(lab,
            "Frames go from the host to one operator, which doubles each number, and back. The paper (P40, PCIe 3) "
            "has 2.4 to 3.1 times the throughput of copy-kernel-copy and about a third of its latency. The column "
            "\"times\" is against %s. Latencies are those of a loaded way, where frames wait for each other: under way "
            "is the rate times the median, so many frames were between the two ends at a time. The table below has "
            "the latency of one frame alone. Invocations are the copies and launches that the host asks for.",
            base_way(flow)->title);
    LabTable *table = lab_table_new(lab, "flow-ping-pong", "Throughput, latency and invocations");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GB/s", LAB_RIGHT);
    lab_column(table, "times", LAB_RIGHT);
    lab_column(table, "p50, us", LAB_RIGHT);
    lab_column(table, "p99, us", LAB_RIGHT);
    lab_column(table, "under way", LAB_RIGHT);
    lab_column(table, "invocations per GB", LAB_RIGHT);
    for (int i = 0; i < flow->n_sizes; i++)
        measure_size(flow, table, i, all);
    TRY(lab_table_end(table));
    plot_sizes(flow, all, 0, flow->n_ways, false, &svg);
    TRY(lab_plot(lab, "flow-throughput", "Throughput by frame size (beside the paper's figure 8a)", &svg));
    plot_sizes(flow, all, 0, flow->n_ways, true, &svg);
    TRY(lab_plot(lab, "flow-latency", "Latency by frame size (beside the paper's figure 8b)", &svg));
    if (flow->gpu)
        TRY(show_rules(flow, all));
    return show_alone(flow);
}

// ---- workloads after Parboil: figure 9 ------------------------------------------------------------------------------

static const char *const workload_titles[] = { "mri-q", "cutcp", "sgemm", "stencil", "spmv", "sad" };

static void measure_workload(FlowLab *flow, LabTable *table, const LabOperator *op, size_t size, double *times)
{
    Lab *lab = flow->lab;
    const FlowWay *const ways[] = { base_way(flow), &flow_way_ours };
    const FlowTrial trial = { .op = op, .frame_bytes = size };
    FlowFigures figures[2] = { 0 };
    Error err = { 0 };
    weft_status status = WEFT_OK;
    for (int w = 0; w < 2 && !status; w++) {
        status = flow_check(flow, ways[w], op, MIN_OF(size, 16 << 10), &err);
        if (!status)
            status = flow_measure(flow, ways[w], &trial, &figures[w], &err);
    }
    *times = status ? NAN : figures[1].gb_s / figures[0].gb_s;
    lab_row(table, op->title, op->is_heavy ? "computing" : "data", flow_size_text(lab, size),
            status ? flow_problem(lab, &err) : lab_number(lab, figures[0].gb_s, 3),
            status ? "-" : lab_number(lab, figures[1].gb_s, 3), lab_number(lab, *times, 2));
}

static weft_status run_workloads(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const size_t sizes[] = { flow_nearest_size(flow, 16 << 10), flow_nearest_size(flow, 256 << 10),
                             flow_nearest_size(flow, 4 << 20) };
    const char *groups[COUNT_OF(workload_titles)], *series[COUNT_OF(sizes)];
    double values[COUNT_OF(workload_titles) * COUNT_OF(sizes)];
    int n_sizes = 0;
    Text svg = { 0 };
    lab_section(lab, "Workloads after Parboil (figure 9)");
    lab_say(lab,
            "Three operators that compute much for each byte and three that compute little. In the paper the gain of "
            "the first kind shrinks as frames grow, since arithmetic becomes the limit; that of the second stays. "
            "Each result is compared with the CPU's, byte by byte.");
    LabTable *table = lab_table_new(lab, "flow-workloads", "Six workloads");
    lab_column(table, "workload", LAB_LEFT);
    lab_column(table, "bound by", LAB_LEFT);
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, base_way(flow)->title, LAB_RIGHT);
    lab_column(table, "ours, GB/s", LAB_RIGHT);
    lab_column(table, "times", LAB_RIGHT);
    for (int s = 0; s < COUNT_OF(sizes); s++)
        if (s == 0 || sizes[s] != sizes[s - 1])
            series[n_sizes++] = flow_size_text(lab, sizes[s]);
    for (int i = 0; i < COUNT_OF(workload_titles); i++) {
        int column = 0;
        groups[i] = workload_titles[i];
        lab_progress(lab, "workloads", i, COUNT_OF(workload_titles));
        for (int s = 0; s < COUNT_OF(sizes); s++)
            if (s == 0 || sizes[s] != sizes[s - 1])
                measure_workload(flow, table, operator_find(workload_titles[i]), sizes[s],
                                 &values[i * n_sizes + column++]);
    }
    TRY(lab_table_end(table));
    plot_bars(&(BarPlot){ .title = "Ours against copies",
                          .description = "Speedup of six workloads by frame size.",
                          .y_label = "times",
                          .groups = groups,
                          .n_groups = COUNT_OF(groups),
                          .series = series,
                          .n_series = n_sizes,
                          .values = values },
              &svg);
    return lab_plot(lab, "flow-workloads-plot", "Speedups (beside the paper's figure 9)", &svg);
}

// ---- where a round's time goes: figure 11 ---------------------------------------------------------------------------

static weft_status plot_rounds(FlowLab *flow, const char *const *groups, const double *shares)
{
    static const char *const series[] = { "computing", "the rest" };
    Text svg = { 0 };
    plot_bars(&(BarPlot){ .title = "Shares of a round",
                          .description = "Percent of the time that the operator computes, and the rest, by frame size.",
                          .y_label = "%",
                          .groups = groups,
                          .n_groups = flow->n_sizes,
                          .series = series,
                          .n_series = COUNT_OF(series),
                          .values = shares },
              &svg);
    return lab_plot(flow->lab, "flow-rounds-plot", "Where a round's time goes (beside the paper's figure 11)", &svg);
}

static weft_status run_rounds(FlowLab *flow)
{
    Lab *lab = flow->lab;
    lab_section(lab, "Where the time goes (figure 11)");
    lab_say(lab, "From flow's counters: the share of the time that the operator computes, and the rest, which is "
                 "subscribing, publishing, the work vector and waiting for the source and the sink. In the paper small "
                 "frames spend most of a round publishing and subscribing, and the work vector takes 0.02 to 2.5 %%.");
    LabTable *table = lab_table_new(lab, "flow-rounds", "Shares of a round");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "round, us", LAB_RIGHT);
    lab_column(table, "computing", LAB_RIGHT);
    lab_column(table, "the rest", LAB_RIGHT);
    lab_column(table, "rounds sat out per frame", LAB_RIGHT);
    lab_column(table, "workers", LAB_RIGHT);
    double shares[FLOW_SIZES_MAX * 2];
    const char *groups[FLOW_SIZES_MAX];
    for (int i = 0; i < flow->n_sizes; i++) {
        const FlowTrial trial = { .op = operator_find("ping-pong"), .frame_bytes = flow->sizes[i] };
        FlowFigures figures = { 0 };
        Error err = { 0 };
        groups[i] = flow_size_text(lab, flow->sizes[i]);
        shares[2 * i] = shares[2 * i + 1] = NAN;
        if (flow_measure(flow, &flow_way_ours, &trial, &figures, &err)) {
            lab_row(table, flow_size_text(lab, flow->sizes[i]), flow_problem(lab, &err), "-", "-", "-", "-");
            continue;
        }
        const double busy = MIN_OF(figures.busy, 1);
        shares[2 * i] = busy * 100;
        shares[2 * i + 1] = (1 - busy) * 100;
        lab_row(table, flow_size_text(lab, flow->sizes[i]),
                lab_number(lab, figures.seconds * 1e6 / (double)MAX_OF(figures.n_frames, 1), 1), lab_percent(lab, busy),
                lab_percent(lab, 1 - busy), lab_number(lab, figures.waits, 2), lab_count_text(lab, figures.workers));
    }
    TRY(lab_table_end(table));
    return plot_rounds(flow, groups, shares);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void choose_sizes(FlowLab *flow)
{
    static const size_t all[] = { 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20 };
    const i64 wanted = flow->lab->options.frame_bytes;
    const size_t most = flow->lab->is_sim ? 1 << 20 : 16 << 20;
    if (wanted)
        flow->sizes[flow->n_sizes++] = (size_t)wanted;
    for (int i = 0; i < COUNT_OF(all) && !wanted; i++)
        if (all[i] <= most)
            flow->sizes[flow->n_sizes++] = all[i];
}

static void free_jit(void *jit)
{
    jit_free(jit);
}

static void say_where(FlowLab *flow)
{
    Lab *lab = flow->lab;
    if (flow->gpu)
        lab_say(lab, "Copies and kernels run on %s.", lab->device_title);
    else
        lab_say(lab,
                "There is no GPU in this run, so this is the CPU's form: copies are copies in memory, a launch is a "
                "call, frames are small, and figures say nothing about a link. Use --device cuda for a GPU.");
    lab_say(lab, "A measurement takes %.0f ms; the best of %d counts.", flow->measure_ms, flow->n_runs);
}

static weft_status check_answers(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const LabOperator *op = operator_find("ping-pong");
    int n_right = 0;
    for (int w = 0; w < flow->n_all; w++) {
        Error err = { 0 };
        if (flow_check(flow, flow->ways[w], op, flow->sizes[0], &err))
            lab_say(lab, "%s: %s", flow->ways[w]->title, err.message);
        else
            n_right++;
    }
    lab_say(lab, "Ours goes through weft_flow.h; its operators of the DEVICE side run on %s.",
            flow->place[0] ? flow->place : "nothing: it failed");
    lab_say(lab, "%d of %d ways give the right answer for a frame of random bytes.", n_right, flow->n_all);
    return WEFT_OK;
}

// ---- parts ----------------------------------------------------------------------------------------------------------

typedef struct FlowPart {
    const char *name;
    weft_status (*run)(FlowLab *flow);
    int weight;  // of the time
} FlowPart;

static const FlowPart parts[] = {
    { "answers", check_answers, 3 },     { "ping-pong", run_ping_pong, 20 },     { "chains", flow_chains, 8 },
    { "rounds", run_rounds, 3 },         { "splits", flow_splits, 8 },           { "encoding", flow_encoding, 20 },
    { "workloads", run_workloads, 8 },   { "crossover", flow_crossover, 6 },     { "streaming", flow_streaming, 10 },
    { "set-query", flow_set_query, 14 }, { "page-faults", flow_page_faults, 4 },
};

// The next name of a list with commas; NULL behind the last.
static const char *next_name(const char **list, size_t *length)
{
    const char *name = *list;
    if (!name || !*name)
        return NULL;
    *length = strcspn(name, ",");
    *list = name + *length + (name[*length] == ',');
    return name;
}

static bool is_named(const char *list, const char *part)
{
    size_t length;
    for (const char *name; (name = next_name(&list, &length));)
        if (strlen(part) == length && !strncmp(part, name, length))
            return true;
    return false;
}

static weft_status check_parts(const char *list, Error *err)
{
    size_t length;
    for (const char *name; (name = next_name(&list, &length));) {
        int i = 0;
        while (i < COUNT_OF(parts) && (strlen(parts[i].name) != length || strncmp(parts[i].name, name, length)))
            i++;
        if (i < COUNT_OF(parts))
            continue;
        fail(err, WEFT_UNDEFINED_OBJECT, -1, "flow has no part \"%.*s\"", (int)length, name);
        Text names = { 0 };
        for (int p = 0; p < COUNT_OF(parts); p++)
            text_add(&names, "%s%s", p ? ", " : "", parts[p].name);
        error_hint(err, "Parts are %s.", names.bytes);
        text_free(&names);
        return err->status;
    }
    return WEFT_OK;
}

// A part has its share of the time that is left, so what one does not need goes to those after it.
static void share_time(FlowLab *flow, double end_ms, int weight, int weight_left)
{
    const double now_ms = time_now_ms(), share_ms = (end_ms - now_ms) * weight / weight_left;
    flow->n_measured = 0;
    flow->half_ms = end_ms ? now_ms + share_ms / 2 : 0;
    flow->until_ms = end_ms ? now_ms + MAX_OF(share_ms, 1) : 0;
}

static weft_status run_parts(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const char *list = lab->options.parts;
    const int seconds = lab->options.seconds ? lab->options.seconds : lab->is_sim ? 0 : 85;
    const double end_ms = seconds ? time_now_ms() + seconds * 1000.0 : 0;
    int weight_left = 0;
    for (int i = 0; i < COUNT_OF(parts); i++)
        weight_left += !list || is_named(list, parts[i].name) ? parts[i].weight : 0;
    for (int i = 0; i < COUNT_OF(parts); i++) {
        if (list && !is_named(list, parts[i].name))
            continue;
        if (lab->options.progress && !lab->options.progress_is_terminal)
            fprintf(lab->options.progress, "flow: %s, after %.1f s\n", parts[i].name,
                    (time_now_ms() - lab->started_ms) / 1000);
        share_time(flow, end_ms, parts[i].weight, weight_left);
        weight_left -= parts[i].weight;
        TRY(parts[i].run(flow));
    }
    return WEFT_OK;
}

weft_status run_flow(Lab *lab)
{
    FlowLab *flow = arena_make(lab->arena, FlowLab);
    Error err = { 0 };
    TRY(check_parts(lab->options.parts, lab->err));
    *flow = (FlowLab){ .lab = lab,
                       .arena = lab->arena,
                       .measure_ms = lab->options.measure_ms ? lab->options.measure_ms : 50,
                       .n_runs = lab_runs(lab, lab->is_sim ? 1 : 3),
                       .ways = cpu_ways,
                       .n_ways = COUNT_OF(cpu_ways),
                       .n_all = COUNT_OF(cpu_ways) };
    flow->jit = jit_new(&(JitOptions){ .prelude = kernel_flow_text });
    arena_defer(lab->arena, free_jit, flow->jit);
    choose_sizes(flow);
    lab_section(lab, "Ways");
    if (!lab->is_sim && flow_gpu_open(flow, &err)) {
        lab_say(lab, "The baselines on the GPU cannot run: %s", err.message);
    } else if (!lab->is_sim) {
        flow->ways = gpu_ways;
        flow->n_ways = GPU_WAYS;
        flow->n_all = WAYS_MAX;
    }
    say_where(flow);
    return run_parts(flow);
}
