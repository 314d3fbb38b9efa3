// flow_chains.c - chains of one to four operators, C(GC)n and C(G)nC (paper 5, figure 12).

#include <math.h>

#include "lab/flow_lab.h"

enum { CHAIN_WAYS = 2, CHAIN_FORMS = 2, CHAIN_SIZES = 2 };

static const FlowWay *chain_way(const FlowLab *flow, int w)
{
    static const FlowWay *const gpu[CHAIN_WAYS] = { &flow_way_streams_4, &flow_way_ours };
    static const FlowWay *const cpu[CHAIN_WAYS] = { &flow_way_call, &flow_way_ours };
    return (flow->gpu ? gpu : cpu)[w];
}

static const char *form_title(int form)
{
    return form == 0 ? "C(GC)n" : "C(G)nC";
}

// GB_S: of one to FLOW_OPS_MAX operators.
static void measure_chain(FlowLab *flow, LabTable *table, size_t size, int form, const FlowWay *way, double *gb_s)
{
    Lab *lab = flow->lab;
    double first = NAN;
    for (int n = 1; n <= FLOW_OPS_MAX; n++) {
        const FlowTrial trial = {
            .op = operator_find("ping-pong"), .frame_bytes = size, .n_ops = n, .is_back_and_forth = form == 0
        };
        FlowFigures figures = { 0 };
        Error err = { 0 };
        const bool has_failed = flow_measure(flow, way, &trial, &figures, &err) != WEFT_OK;
        const double hops_s = (double)figures.n_frames * n / MAX_OF(figures.seconds, 1e-9);
        if (n == 1 && !has_failed)
            first = hops_s;
        gb_s[n - 1] = has_failed ? NAN : figures.gb_s;
        lab_row(table, flow_size_text(lab, size), form_title(form), lab_count_text(lab, n), way->title,
                has_failed ? flow_problem(lab, &err) : lab_number(lab, figures.gb_s, 3),
                has_failed ? "-" : lab_number(lab, hops_s, 0), has_failed ? "-" : lab_percent(lab, 1 - hops_s / first));
    }
}

weft_status flow_chains(FlowLab *flow)
{
    static const double numbers[FLOW_OPS_MAX] = { 1, 2, 3, 4 };
    Lab *lab = flow->lab;
    const size_t sizes[CHAIN_SIZES] = { flow_nearest_size(flow, 16 << 10), flow_nearest_size(flow, 4 << 20) };
    PlotSeries series[CHAIN_SIZES * CHAIN_FORMS * CHAIN_WAYS];
    int n_series = 0;
    Text svg = { 0 };
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
    for (int s = 0; s < (sizes[0] == sizes[1] ? 1 : CHAIN_SIZES); s++)
        for (int form = 0; form < CHAIN_FORMS; form++)
            for (int w = 0; w < CHAIN_WAYS; w++) {
                double *gb_s = arena_array(flow->arena, double, FLOW_OPS_MAX);
                lab_progress(lab, "chains", n_series, COUNT_OF(series));
                measure_chain(flow, table, sizes[s], form, chain_way(flow, w), gb_s);
                const char *name = arena_printf(lab->arena, "%s, %s, %s", form_title(form), chain_way(flow, w)->title,
                                                flow_size_text(lab, sizes[s]));
                series[n_series++] = (PlotSeries){ name, numbers, gb_s, FLOW_OPS_MAX, true, true };
            }
    TRY(lab_table_end(table));
    plot_lines(&(LinePlot){ .title = "Chains of operators",
                            .description = "Gigabytes of input a second for one to four operators in a chain.",
                            .x_label = "operators",
                            .y_label = "GB/s",
                            .series = series,
                            .n_series = n_series,
                            .y_is_log = true },
               &svg);
    return lab_plot(lab, "flow-chains-plot", "Throughput by operators (beside the paper's figure 12)", &svg);
}
