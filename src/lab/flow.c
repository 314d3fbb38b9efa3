// flow.c - paper 5 (XeFlow): frames from the host to operators and back, by copies and launches and by topics and
// operators that stay.  The parts that other files have are listed at the end.
//
// No part ends another: where a way cannot run, its row says so and the next one begins.

#include <math.h>

#include "lab/flow_lab.h"

extern const char kernel_flow_text[];

static const FlowWay *const gpu_ways[] = { &flow_way_pageable,  &flow_way_pinned,    &flow_way_streams_2,
                                           &flow_way_streams_4, &flow_way_streams_8, &flow_way_tasks,
                                           &flow_way_managed,   &flow_way_ours };
static const FlowWay *const cpu_ways[] = { &flow_way_call, &flow_way_call_2, &flow_way_ours };

static const FlowWay *base_way(const FlowLab *flow)
{
    return flow->gpu ? &flow_way_pinned : &flow_way_call;
}

// The frame size nearest to what the paper has, of those that are measured.
static size_t nearest_size(const FlowLab *flow, size_t wanted)
{
    size_t nearest = flow->sizes[0];
    for (int i = 1; i < flow->n_sizes; i++)
        if (fabs(log2((double)flow->sizes[i] / (double)wanted)) < fabs(log2((double)nearest / (double)wanted)))
            nearest = flow->sizes[i];
    return nearest;
}

// ---- ping-pong: figures 8 and 10 ------------------------------------------------------------------------------------

typedef struct PingPong {
    FlowFigures figures[FLOW_SIZES_MAX][COUNT_OF(gpu_ways)];
    bool has_run[FLOW_SIZES_MAX][COUNT_OF(gpu_ways)];
} PingPong;

static void add_row(FlowLab *flow, LabTable *table, int size, int w, const PingPong *all, double base)
{
    Lab *lab = flow->lab;
    const FlowFigures *figures = &all->figures[size][w];
    lab_row(table, flow_size_text(lab, flow->sizes[size]), flow->ways[w]->title, lab_number(lab, figures->gb_s, 3),
            lab_number(lab, base > 0 ? figures->gb_s / base : NAN, 2), lab_number(lab, figures->p50_us, 1),
            lab_number(lab, figures->p99_us, 1), lab_number(lab, figures->invocations, 0));
}

static void add_failed(FlowLab *flow, LabTable *table, int size, const char *title, const Error *err)
{
    Lab *lab = flow->lab;
    lab_row(table, flow_size_text(lab, flow->sizes[size]), title, arena_printf(lab->arena, "failed: %s", err->message),
            "-", "-", "-", "-");
}

static void plot_sizes(FlowLab *flow, const PingPong *all, bool is_latency, Text *svg)
{
    PlotSeries series[COUNT_OF(gpu_ways)];
    int n_series = 0;
    for (int w = 0; w < flow->n_ways; w++) {
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
    for (int w = 0; w < flow->n_ways; w++) {
        Error err = { 0 };
        lab_progress(flow->lab, "ping-pong", size * flow->n_ways + w, flow->n_sizes * flow->n_ways);
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
            const FlowTrial trial = {
                .op = operator_find("ping-pong"), .frame_bytes = flow->sizes[i], .is_alone = true
            };
            FlowFigures figures = { 0 };
            Error err = { 0 };
            const bool has_failed = flow_measure(flow, ways[w], &trial, &figures, &err) != WEFT_OK;
            lab_row(table, flow_size_text(lab, flow->sizes[i]), ways[w]->title,
                    has_failed ? arena_printf(lab->arena, "failed: %s", err.message)
                               : lab_number(lab, figures.p50_us, 1),
                    has_failed ? "-" : lab_number(lab, figures.p99_us, 1));
        }
    return lab_table_end(table);
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
            "\"times\" is against %s. Latencies are those of a loaded way. Invocations are the copies and launches "
            "that the host asks for.",
            base_way(flow)->title);
    LabTable *table = lab_table_new(lab, "flow-ping-pong", "Throughput, latency and invocations");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GB/s", LAB_RIGHT);
    lab_column(table, "times", LAB_RIGHT);
    lab_column(table, "p50, us", LAB_RIGHT);
    lab_column(table, "p99, us", LAB_RIGHT);
    lab_column(table, "invocations per GB", LAB_RIGHT);
    for (int i = 0; i < flow->n_sizes; i++)
        measure_size(flow, table, i, all);
    TRY(lab_table_end(table));
    plot_sizes(flow, all, false, &svg);
    TRY(lab_plot(lab, "flow-throughput", "Throughput by frame size (beside the paper's figure 8a)", &svg));
    plot_sizes(flow, all, true, &svg);
    TRY(lab_plot(lab, "flow-latency", "Latency by frame size (beside the paper's figure 8b)", &svg));
    return show_alone(flow);
}

// ---- C(GC)n and C(G)nC: figure 12 -----------------------------------------------------------------------------------

static const FlowWay *chain_way(const FlowLab *flow, int w)
{
    static const FlowWay *const gpu[] = { &flow_way_streams_4, &flow_way_ours };
    static const FlowWay *const cpu[] = { &flow_way_call, &flow_way_ours };
    return (flow->gpu ? gpu : cpu)[w];
}

static void measure_chain(FlowLab *flow, LabTable *table, size_t size, bool is_back_and_forth, const FlowWay *way)
{
    Lab *lab = flow->lab;
    double first = NAN;
    for (int n = 1; n <= FLOW_OPS_MAX; n++) {
        const FlowTrial trial = {
            .op = operator_find("ping-pong"), .frame_bytes = size, .n_ops = n, .is_back_and_forth = is_back_and_forth
        };
        FlowFigures figures = { 0 };
        Error err = { 0 };
        const bool has_failed = flow_measure(flow, way, &trial, &figures, &err) != WEFT_OK;
        const double hops_s = (double)figures.n_frames * n / MAX_OF(figures.seconds, 1e-9);
        if (n == 1 && !has_failed)
            first = hops_s;
        lab_row(table, flow_size_text(lab, size), is_back_and_forth ? "C(GC)n" : "C(G)nC", lab_count_text(lab, n),
                way->title,
                has_failed ? arena_printf(lab->arena, "failed: %s", err.message) : lab_number(lab, figures.gb_s, 3),
                has_failed ? "-" : lab_number(lab, hops_s, 0), has_failed ? "-" : lab_percent(lab, 1 - hops_s / first));
    }
}

static weft_status run_chains(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const size_t sizes[] = { nearest_size(flow, 16 << 10), nearest_size(flow, 4 << 20) };
    lab_section(lab, "More operators (figure 12)");
    lab_say(lab,
            "C(GC)n has n operators on the device with the host between two of them; C(G)nC has n operators in a "
            "row. The paper loses 1.7 to 3.6 %% from one operator to four at 16 KB, where copies lose most of their "
            "throughput. Hops are frames times operators: with enough workers their rate would stay the same, or "
            "rise.");
    LabTable *table = lab_table_new(lab, "flow-chains", "Chains of one to four operators");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "topology", LAB_LEFT);
    lab_column(table, "n", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GB/s", LAB_RIGHT);
    lab_column(table, "hops per s", LAB_RIGHT);
    lab_column(table, "loss of hops", LAB_RIGHT);
    for (int s = 0; s < (sizes[0] == sizes[1] ? 1 : 2); s++)
        for (int form = 0; form < 2; form++)
            for (int w = 0; w < 2; w++) {
                lab_progress(lab, "chains", s * 4 + form * 2 + w, 8);
                measure_chain(flow, table, sizes[s], form == 0, chain_way(flow, w));
            }
    return lab_table_end(table);
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
            status ? arena_printf(lab->arena, "failed: %s", err.message) : lab_number(lab, figures[0].gb_s, 3),
            status ? "-" : lab_number(lab, figures[1].gb_s, 3), lab_number(lab, *times, 2));
}

static weft_status run_workloads(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const size_t sizes[] = { nearest_size(flow, 16 << 10), nearest_size(flow, 256 << 10), nearest_size(flow, 4 << 20) };
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
    for (int i = 0; i < flow->n_sizes; i++) {
        const FlowTrial trial = { .op = operator_find("ping-pong"), .frame_bytes = flow->sizes[i] };
        FlowFigures figures = { 0 };
        Error err = { 0 };
        if (flow_measure(flow, &flow_way_ours, &trial, &figures, &err)) {
            lab_row(table, flow_size_text(lab, flow->sizes[i]), arena_printf(lab->arena, "failed: %s", err.message),
                    "-", "-", "-", "-");
            continue;
        }
        const double busy = MIN_OF(figures.busy, 1);
        lab_row(table, flow_size_text(lab, flow->sizes[i]),
                lab_number(lab, figures.seconds * 1e6 / (double)MAX_OF(figures.n_frames, 1), 1), lab_percent(lab, busy),
                lab_percent(lab, 1 - busy), lab_number(lab, figures.waits, 2), lab_count_text(lab, figures.workers));
    }
    return lab_table_end(table);
}

// ---- page faults: figure 10b ----------------------------------------------------------------------------------------

static weft_status run_page_faults(FlowLab *flow)
{
    enum { COUNTED = 8 };
    Lab *lab = flow->lab;
    if (!flow->gpu)
        return WEFT_OK;
    lab_section(lab, "Page faults (figure 10b)");
    lab_say(lab, "Of a kernel over managed memory, counted by CUPTI after everything else. The other ways have no "
                 "memory that could fault.");
    LabTable *table = lab_table_new(lab, "flow-page-faults", "Page faults of the kernel over managed memory");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "page faults per GB", LAB_RIGHT);
    lab_column(table, "why not", LAB_LEFT);
    for (int i = 0; i < flow->n_sizes; i++) {
        const size_t bytes = flow->sizes[i];
        const FlowTrial trial = { .op = operator_find("ping-pong"), .frame_bytes = bytes, .n_frames_max = COUNTED };
        Error err = { 0 };
        double per_gb = 0;
        const bool has_failed = flow_gpu_faults(flow, &trial, &per_gb, &err) != WEFT_OK;
        lab_row(table, flow_size_text(lab, bytes), has_failed ? "not counted" : lab_number(lab, per_gb, 0),
                has_failed ? err.message : "");
    }
    return lab_table_end(table);
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
    for (int w = 0; w < flow->n_ways; w++) {
        Error err = { 0 };
        if (flow_check(flow, flow->ways[w], op, flow->sizes[0], &err))
            lab_say(lab, "%s: %s", flow->ways[w]->title, err.message);
        else
            n_right++;
    }
    lab_say(lab, "Ours goes through weft_flow.h; its operators of the DEVICE side run on %s.",
            flow->place[0] ? flow->place : "nothing: it failed");
    lab_say(lab, "%d of %d ways give the right answer for a frame of random bytes.", n_right, flow->n_ways);
    return WEFT_OK;
}

weft_status run_flow(Lab *lab)
{
    static weft_status (*const parts[])(FlowLab *flow) = {
        check_answers, run_ping_pong, run_chains, run_rounds,     flow_splits,
        flow_encoding, run_workloads, flow_set_query, run_page_faults,
    };
    FlowLab *flow = arena_make(lab->arena, FlowLab);
    Error err = { 0 };
    *flow = (FlowLab){ .lab = lab,
                       .arena = lab->arena,
                       .measure_ms = lab->options.measure_ms ? lab->options.measure_ms : 50,
                       .n_runs = lab_runs(lab, lab->is_sim ? 1 : 3),
                       .ways = cpu_ways,
                       .n_ways = COUNT_OF(cpu_ways) };
    flow->jit = jit_new(&(JitOptions){ .prelude = kernel_flow_text });
    arena_defer(lab->arena, free_jit, flow->jit);
    choose_sizes(flow);
    lab_section(lab, "Ways");
    if (!lab->is_sim && flow_gpu_open(flow, &err)) {
        lab_say(lab, "The baselines on the GPU cannot run: %s", err.message);
    } else if (!lab->is_sim) {
        flow->ways = gpu_ways;
        flow->n_ways = COUNT_OF(gpu_ways);
    }
    say_where(flow);
    for (int i = 0; i < COUNT_OF(parts); i++)
        TRY(parts[i](flow));
    return WEFT_OK;
}
