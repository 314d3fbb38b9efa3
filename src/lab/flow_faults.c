// flow_faults.c - page faults of the ways over managed memory (paper 5, figure 10b), counted by CUPTI.

#include <math.h>

#include "lab/flow_lab.h"

static const FlowWay *const faulting[] = { &flow_way_managed, &flow_way_topics, &flow_way_catalog, &flow_way_index,
                                           &flow_way_xeflow };

static weft_status plot_faults(FlowLab *flow, double faults[COUNT_OF(faulting)][FLOW_SIZES_MAX])
{
    PlotSeries series[COUNT_OF(faulting)];
    double x[FLOW_SIZES_MAX];
    Text svg = { 0 };
    for (int i = 0; i < flow->n_sizes; i++)
        x[i] = (double)flow->sizes[i] / 1024;
    for (int w = 0; w < COUNT_OF(faulting); w++)
        series[w] = (PlotSeries){ faulting[w]->title, x, faults[w], flow->n_sizes, true, true };
    plot_lines(&(LinePlot){ .title = "Page faults",
                            .description = "Page faults of both sides for each gigabyte of input, by frame size.",
                            .x_label = "frame, KB",
                            .y_label = "faults per GB",
                            .series = series,
                            .n_series = COUNT_OF(series),
                            .x_is_log = true,
                            .y_is_log = true },
               &svg);
    return lab_plot(flow->lab, "flow-page-faults-plot", "Page faults (beside the paper's figure 10b)", &svg);
}

static double count_faults(FlowLab *flow, LabTable *table, const FlowWay *way, size_t bytes)
{
    enum { COUNTED_LEAST = 8, COUNTED_MOST = 256, COUNTED_BYTES = 16 << 20 };
    Lab *lab = flow->lab;
    const i64 n_frames = MIN_OF(MAX_OF(COUNTED_BYTES / (i64)bytes, COUNTED_LEAST), COUNTED_MOST);
    const FlowTrial trial = { .op = operator_find("ping-pong"),
                              .frame_bytes = bytes,
                              .n_frames_max = flow->measure_ms < 10 ? COUNTED_LEAST : n_frames };
    Error err = { 0 };
    PageFaults per_gb = { 0 };
    weft_status status = flow_has_time(flow, &err);
    if (!status)
        status = flow_gpu_faults(flow, way, &trial, &per_gb, &err);
    if (status)
        lab_row(table, flow_size_text(lab, bytes), way->title, "not counted", "-", "-", "-", err.message);
    else
        lab_row(table, flow_size_text(lab, bytes), way->title, lab_number(lab, per_gb.gpu, 0),
                lab_number(lab, per_gb.cpu, 0), lab_number(lab, per_gb.bytes_there / 1e9, 2),
                lab_number(lab, per_gb.bytes_back / 1e9, 2), "");
    return status ? NAN : per_gb.gpu + per_gb.cpu;
}

weft_status flow_page_faults(FlowLab *flow)
{
    Lab *lab = flow->lab;
    double faults[COUNT_OF(faulting)][FLOW_SIZES_MAX];
    if (!flow->gpu)
        return WEFT_OK;
    lab_section(lab, "Page faults (figure 10b)");
    lab_say(lab,
            "Of the ways over managed memory, counted by CUPTI after everything else. The other ways have no memory "
            "that could fault. \"GB there\" and \"GB back\" are what pages moved for each GB of input; what is "
            "read where it is does not move.");
    LabTable *table = lab_table_new(lab, "flow-page-faults", "Page faults and what moved, for each GB of input");
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GPU's faults", LAB_RIGHT);
    lab_column(table, "CPU's faults", LAB_RIGHT);
    lab_column(table, "GB there", LAB_RIGHT);
    lab_column(table, "GB back", LAB_RIGHT);
    lab_column(table, "why not", LAB_LEFT);
    for (int i = 0; i < flow->n_sizes; i++)
        for (int w = 0; w < COUNT_OF(faulting); w++) {
            lab_progress(lab, "page faults", i * COUNT_OF(faulting) + w, flow->n_sizes * COUNT_OF(faulting));
            faults[w][i] = count_faults(flow, table, faulting[w], flow->sizes[i]);
        }
    TRY(lab_table_end(table));
    bool is_counted = false;
    for (int w = 0; w < COUNT_OF(faulting); w++)
        is_counted |= isfinite(faults[w][0]);
    return is_counted ? plot_faults(flow, faults) : WEFT_OK;
}
