// plot.c - charts as SVG, by hand: a frame with axes, and marks inside it.
//
// All plots are WIDTH units wide, so that text has the same size in each.  Colours are classes s0 to s7; a mark has a
// pale fill and a strong edge, which reads on light and on dark and keeps labels inside readable.

#include <math.h>
#include <stdio.h>

#include "lab/plot.h"

enum { WIDTH = 720, LEFT = 62, RIGHT = 16, TOP = 58, LEGEND_LINE = 18, PLOT_HEIGHT = 240, BOTTOM = 46, TICKS_MAX = 32 };

const char plot_style[] =
    ":root { --page: #f6f7f9; --card: #ffffff; --ink: #1c2430; --soft: #566274; --rule: #d9dee6; --hover: #eef2f8;\n"
    "  --link: #0b5cad; --s0: #0b6bcb; --s1: #d9480f; --s2: #2b8a3e; --s3: #9c36b5; --s4: #a87900; --s5: #0b7285;\n"
    "  --s6: #c2255c; --s7: #5f6b7a }\n"
    "@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1a2029; --ink: #e6eaf0; --soft: #9fabba;\n"
    "  --rule: #333d4a; --hover: #232b36; --link: #7db8ff; --s0: #6cb2ff; --s1: #ff9a62; --s2: #6fd08c;\n"
    "  --s3: #d69bea; --s4: #e6c14c; --s5: #5cc8dc; --s6: #ff8fb8; --s7: #a9b4c0 } }\n"
    "svg { background: var(--card); color: var(--ink); font: 12px system-ui, -apple-system, 'Segoe UI', Roboto,\n"
    "  'DejaVu Sans', sans-serif }\n"
    "svg text { fill: var(--ink) }\n"
    "svg .title { font-size: 14px; font-weight: 600 }\n"
    "svg .soft { fill: var(--soft) }\n"
    "svg .small { font-size: 10px }\n"
    "svg .grid { stroke: var(--rule); stroke-width: 1 }\n"
    "svg .axis { stroke: var(--soft); stroke-width: 1 }\n"
    "svg .mark { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4 }\n"
    "svg .s0 { --own: var(--s0) } svg .s1 { --own: var(--s1) } svg .s2 { --own: var(--s2) }\n"
    "svg .s3 { --own: var(--s3) } svg .s4 { --own: var(--s4) } svg .s5 { --own: var(--s5) }\n"
    "svg .s6 { --own: var(--s6) } svg .s7 { --own: var(--s7) }\n"
    "svg .area { fill: var(--own); fill-opacity: .3; stroke: var(--own); stroke-width: 1 }\n"
    "svg .line { fill: none; stroke: var(--own); stroke-width: 2; stroke-linejoin: round }\n"
    "svg .point { fill: var(--own) }\n";

// ---- the frame ------------------------------------------------------------------------------------------------------

typedef struct PlotAxis {
    double from, to;                                        // values at its ends; logarithms if is_log
    double step;                                            // between ticks
    bool   is_log;
    double base;                                            // of the logarithm
} PlotAxis;

typedef struct PlotFrame {
    Text  *svg;
    double top, height;                                     // of the inner part; its width is always the same
    PlotAxis x, y;
} PlotFrame;

static const double inner_width = WIDTH - LEFT - RIGHT;

static double to_axis(const PlotAxis *axis, double value)
{
    return axis->is_log ? log(value) / log(axis->base) : value;
}

static bool is_shown(const PlotAxis *axis, double value)
{
    return isfinite(value) && (!axis->is_log || value > 0);
}

static double at_x(const PlotFrame *frame, double value)
{
    const PlotAxis *x = &frame->x;
    return LEFT + (to_axis(x, value) - x->from) / (x->to - x->from) * inner_width;
}

static double at_y(const PlotFrame *frame, double value)
{
    const PlotAxis *y = &frame->y;
    return frame->top + frame->height - (to_axis(y, value) - y->from) / (y->to - y->from) * frame->height;
}

// 1, 2 or 5 times a power of ten, so that there are about N steps.
static double nice_step(double range, int n)
{
    const double rough = range / n, power = pow(10, floor(log10(rough))), digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

// From LOW to HIGH, widened to whole steps.
static PlotAxis make_axis(double low, double high, bool is_log, double base)
{
    PlotAxis axis = { .is_log = is_log, .base = base };
    if (!(low <= high))
        low = is_log ? 1 : 0, high = is_log ? base : 1;
    double from = to_axis(&axis, low), to = to_axis(&axis, high);
    if (to - from < 1e-9 * MAX_OF(fabs(to), 1e-3))
        to = from + 1;
    axis.step = is_log ? MAX_OF(1, ceil((to - from) / 8)) : nice_step(to - from, 6);
    axis.from = floor(from / axis.step + 1e-9) * axis.step;
    axis.to = ceil(to / axis.step - 1e-9) * axis.step;
    return axis;
}

static int decimals_of(double step)
{
    int n = 0;
    for (double rest = step; n < 6 && fabs(rest - round(rest)) > 1e-6; n++)
        rest *= 10;
    return n;
}

static void tick_text(const PlotAxis *axis, double at, char *text, size_t room)
{
    const double value = axis->is_log ? pow(axis->base, at) : at;
    if (axis->is_log && value < 1)
        snprintf(text, room, "%g", value);
    else
        snprintf(text, room, "%.*f", axis->is_log ? 0 : decimals_of(axis->step), fabs(value) < 1e-12 ? 0 : value);
}

static void begin_svg(Text *svg, const char *title, const char *description, double height)
{
    text_add(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", WIDTH,
             height);
    html_escape(svg, title);
    if (description) {
        text_add(svg, ". ");
        html_escape(svg, description);
    }
    text_add(svg, "\">\n<text class=\"title\" x=\"12\" y=\"24\">");
    html_escape(svg, title);
    text_add(svg, "</text>\n");
}

static void end_svg(Text *svg)
{
    text_add(svg, "</svg>");
}

// Letters are at most so wide on average; exact widths are not known here.
static double text_units(const char *text)
{
    return 6.6 * (double)strlen(text);
}

static void add_text(Text *svg, const char *classes, const char *anchor, double x, double y, const char *text)
{
    text_add(svg, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", classes, anchor, x, y);
    html_escape(svg, text);
    text_add(svg, "</text>\n");
}

static void add_line(Text *svg, const char *classes, double x1, double y1, double x2, double y2)
{
    text_add(svg, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", classes, x1, y1, x2, y2);
}

static int color_of(int series)
{
    return series % PLOT_SERIES_MAX;
}

// Squares with names, below the title, in as many lines as they take; how many is returned.  SVG may be NULL.
static int add_legend(Text *svg, const char *const *names, int n_names)
{
    int line = 0;
    double x = 12;
    for (int i = 0; i < n_names; i++) {
        const double width = 18 + text_units(names[i]) + 14;
        if (x > 12 && x + width > WIDTH) {
            x = 12;
            line++;
        }
        if (svg) {
            const double y = 36 + line * LEGEND_LINE;
            text_add(svg, "<rect class=\"area s%d\" x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" rx=\"2\"/>\n",
                     color_of(i), x, y);
            add_text(svg, "soft", "start", x + 17, y + 10, names[i]);
        }
        x += width;
    }
    return n_names ? line + 1 : 0;
}

static double legend_top(const char *const *names, int n_names)
{
    return TOP + (add_legend(NULL, names, n_names) - 1) * LEGEND_LINE + 8;
}

static void add_y_axis(const PlotFrame *frame, const char *label)
{
    char text[32];
    const PlotAxis *y = &frame->y;
    for (int i = 0; i < TICKS_MAX && y->from + i * y->step <= y->to + 1e-9 * y->step; i++) {
        const double at = y->from + i * y->step;
        const double place = frame->top + frame->height - (at - y->from) / (y->to - y->from) * frame->height;
        add_line(frame->svg, "grid", LEFT, place, WIDTH - RIGHT, place);
        tick_text(y, at, text, sizeof(text));
        add_text(frame->svg, "soft", "end", LEFT - 7, place + 4, text);
    }
    const double middle = frame->top + frame->height / 2;
    text_add(frame->svg, "<text class=\"soft\" text-anchor=\"middle\" transform=\"translate(15 %.1f) rotate(-90)\">",
             middle);
    html_escape(frame->svg, label);
    text_add(frame->svg, "</text>\n");
}

static void add_x_label(const PlotFrame *frame, const char *label)
{
    const double bottom = frame->top + frame->height;
    add_line(frame->svg, "axis", LEFT, bottom, WIDTH - RIGHT, bottom);
    add_text(frame->svg, "soft", "middle", LEFT + inner_width / 2, bottom + 36, label);
}

static void add_x_axis(const PlotFrame *frame, const char *label)
{
    char text[32];
    const PlotAxis *x = &frame->x;
    const double bottom = frame->top + frame->height;
    for (int i = 0; i < TICKS_MAX && x->from + i * x->step <= x->to + 1e-9 * x->step; i++) {
        const double at = x->from + i * x->step, place = LEFT + (at - x->from) / (x->to - x->from) * inner_width;
        add_line(frame->svg, "axis", place, bottom, place, bottom + 4);
        tick_text(x, at, text, sizeof(text));
        add_text(frame->svg, "soft", "middle", place, bottom + 18, text);
    }
    add_x_label(frame, label);
}

// ---- lines and points -----------------------------------------------------------------------------------------------

static PlotAxis axis_of(const LinePlot *plot, bool is_y)
{
    const bool is_log = is_y ? plot->y_is_log : plot->x_is_log;
    const PlotAxis probe = { .is_log = is_log };
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < plot->n_series; i++)
        for (int k = 0; k < plot->series[i].n; k++) {
            const double value = is_y ? plot->series[i].y[k] : plot->series[i].x[k];
            if (!is_shown(&probe, value))
                continue;
            low = MIN_OF(low, value);
            high = MAX_OF(high, value);
        }
    if (is_y && !is_log && low > 0)
        low = 0;                                            // heights are compared by eye
    return make_axis(low, high, is_log, is_y ? 10 : 2);
}

static void add_series(const PlotFrame *frame, const PlotSeries *series, int color)
{
    bool is_first = true;
    if (series->has_line) {
        text_add(frame->svg, "<path class=\"line s%d\" d=\"", color);
        for (int k = 0; k < series->n; k++) {
            if (!is_shown(&frame->x, series->x[k]) || !is_shown(&frame->y, series->y[k]))
                continue;
            text_add(frame->svg, "%s%.1f %.1f", is_first ? "M" : " L", at_x(frame, series->x[k]),
                     at_y(frame, series->y[k]));
            is_first = false;
        }
        text_add(frame->svg, "\"/>\n");
    }
    for (int k = 0; series->has_points && k < series->n; k++)
        if (is_shown(&frame->x, series->x[k]) && is_shown(&frame->y, series->y[k]))
            text_add(frame->svg, "<circle class=\"point s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", color,
                     at_x(frame, series->x[k]), at_y(frame, series->y[k]));
}

// Names of series in the order of the array; in ARENA.
static const char **series_names(Arena *arena, const PlotSeries *series, int n_series)
{
    const char **names = arena_array(arena, const char *, n_series);
    for (int i = 0; i < n_series; i++)
        names[i] = series[i].name;
    return names;
}

void plot_lines(const LinePlot *plot, Text *svg)
{
    Arena *arena = arena_new(NULL, "plot");
    const char **names = series_names(arena, plot->series, plot->n_series);
    PlotFrame frame = { svg, legend_top(names, plot->n_series), PLOT_HEIGHT, axis_of(plot, false),
                        axis_of(plot, true) };
    begin_svg(svg, plot->title, plot->description, frame.top + frame.height + BOTTOM);
    add_legend(svg, names, plot->n_series);
    add_y_axis(&frame, plot->y_label);
    add_x_axis(&frame, plot->x_label);
    for (int i = 0; i < plot->n_series; i++)
        add_series(&frame, &plot->series[i], color_of(i));
    end_svg(svg);
    arena_free(arena);
}

// ---- histograms -----------------------------------------------------------------------------------------------------

enum { BINS_MAX = 60 };

typedef struct Bins {
    double from, width;
    int    n;
} Bins;

static Bins choose_bins(const HistogramPlot *plot)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < plot->n_series; i++)
        for (int k = 0; k < plot->series[i].n; k++) {
            low = MIN_OF(low, plot->series[i].x[k]);
            high = MAX_OF(high, plot->series[i].x[k]);
        }
    if (!(low <= high))
        low = 0, high = 1;
    if (isfinite(plot->mark)) {
        low = MIN_OF(low, plot->mark);
        high = MAX_OF(high, plot->mark);
    }
    double width = plot->bin > 0 ? plot->bin : nice_step(MAX_OF(high - low, 1e-6), 20);
    while ((high - low) / width > BINS_MAX - 2)
        width *= 2;
    const double from = floor(low / width + 1e-9) * width;
    return (Bins){ from, width, (int)floor((high - from) / width + 1e-9) + 1 };
}

// Shares of the series' values, in percent.
static void fill_bins(const Bins *bins, const PlotSeries *series, double *shares)
{
    for (int k = 0; k < series->n; k++) {
        const int bin = (int)floor((series->x[k] - bins->from) / bins->width + 1e-9);
        if (isfinite(series->x[k]))
            shares[MIN_OF(MAX_OF(bin, 0), bins->n - 1)] += 100.0 / series->n;
    }
}

static void add_bar(const PlotFrame *frame, int color, double left, double right, double value, const char *label)
{
    const double bottom = frame->top + frame->height, top = MIN_OF(at_y(frame, value), bottom);
    text_add(frame->svg, "<rect class=\"area s%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>", color,
             left, top, MAX_OF(right - left, 0.5), bottom - top);
    html_escape(frame->svg, label);
    text_add(frame->svg, "</title></rect>\n");
}

static void add_bins(const PlotFrame *frame, const HistogramPlot *plot, const Bins *bins, double *const *shares)
{
    char label[160];
    for (int i = 0; i < plot->n_series; i++)
        for (int bin = 0; bin < bins->n; bin++) {
            const double from = bins->from + bin * bins->width, part = bins->width / plot->n_series;
            if (shares[i][bin] <= 0)
                continue;
            snprintf(label, sizeof(label), "%s: %.1f %% from %g to %g", plot->series[i].name, shares[i][bin], from,
                     from + bins->width);
            add_bar(frame, color_of(i), at_x(frame, from + part * i), at_x(frame, from + part * (i + 1)),
                    shares[i][bin], label);
        }
}

void plot_histogram(const HistogramPlot *plot, Text *svg)
{
    Arena *arena = arena_new(NULL, "plot");
    const char **names = series_names(arena, plot->series, plot->n_series);
    const Bins bins = choose_bins(plot);
    double **shares = arena_array(arena, double *, plot->n_series), most = 0;
    for (int i = 0; i < plot->n_series; i++) {
        shares[i] = arena_array(arena, double, bins.n);
        fill_bins(&bins, &plot->series[i], shares[i]);
        for (int bin = 0; bin < bins.n; bin++)
            most = MAX_OF(most, shares[i][bin]);
    }
    PlotFrame frame = { svg, legend_top(names, plot->n_series), PLOT_HEIGHT,
                        make_axis(bins.from, bins.from + bins.n * bins.width, false, 0), make_axis(0, most, false, 0) };
    begin_svg(svg, plot->title, plot->description, frame.top + frame.height + BOTTOM);
    add_legend(svg, names, plot->n_series);
    add_y_axis(&frame, "runs, %");
    add_bins(&frame, plot, &bins, shares);
    add_x_axis(&frame, plot->x_label);
    if (isfinite(plot->mark))
        add_line(svg, "mark", at_x(&frame, plot->mark), frame.top, at_x(&frame, plot->mark), frame.top + frame.height);
    end_svg(svg);
    arena_free(arena);
}

// ---- bars -----------------------------------------------------------------------------------------------------------

static PlotAxis bars_axis(const BarPlot *plot)
{
    const PlotAxis probe = { .is_log = plot->y_is_log };
    double low = plot->y_is_log ? INFINITY : 0, high = -INFINITY;
    for (int i = 0; i < plot->n_groups * plot->n_series; i++) {
        if (!is_shown(&probe, plot->values[i]))
            continue;
        low = MIN_OF(low, plot->values[i]);
        high = MAX_OF(high, plot->values[i]);
    }
    return make_axis(low, high, plot->y_is_log, 10);
}

static void add_group(const PlotFrame *frame, const BarPlot *plot, int group)
{
    char label[160], value_text[32];
    const double width = inner_width / plot->n_groups, left = LEFT + group * width, bar = width * 0.8 / plot->n_series;
    for (int i = 0; i < plot->n_series; i++) {
        const double value = plot->values[group * plot->n_series + i], x = left + width * 0.1 + i * bar;
        if (!is_shown(&frame->y, value))
            continue;
        snprintf(value_text, sizeof(value_text), value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
        snprintf(label, sizeof(label), "%s, %s: %s", plot->groups[group], plot->series[i], value_text);
        add_bar(frame, color_of(i), x + 1, x + bar - 1, value, label);
        if (bar >= 24)
            add_text(frame->svg, "small", "middle", x + bar / 2, at_y(frame, value) - 4, value_text);
    }
    const bool is_tight = text_units(plot->groups[group]) > width;
    add_text(frame->svg, is_tight ? "soft small" : "soft", "middle", left + width / 2, frame->top + frame->height + 18,
             plot->groups[group]);
}

void plot_bars(const BarPlot *plot, Text *svg)
{
    PlotFrame frame = { .svg = svg, .top = legend_top(plot->series, plot->n_series) + 6, .height = PLOT_HEIGHT,
                        .y = bars_axis(plot) };
    begin_svg(svg, plot->title, plot->description, frame.top + frame.height + BOTTOM - 14);
    add_legend(svg, plot->series, plot->n_series);
    add_y_axis(&frame, plot->y_label);
    for (int group = 0; group < plot->n_groups; group++)
        add_group(&frame, plot, group);
    add_line(svg, "axis", LEFT, frame.top + frame.height, WIDTH - RIGHT, frame.top + frame.height);
    end_svg(svg);
}

// ---- Gantt charts ---------------------------------------------------------------------------------------------------
// A multiprocessor is a row with as many lanes as blocks run on it at once.

enum { LANE = 16, ROW_GAP = 6, PHASES_SHOWN = 12 };

typedef struct Lanes {
    int *lane;                                              // of each span
    int *n_lanes;                                           // of each multiprocessor
} Lanes;

static Lanes assign_lanes(Arena *arena, const GanttPlot *plot)
{
    const Timeline *timeline = plot->timeline;
    Lanes lanes = { arena_array(arena, int, timeline->n_spans + 1), arena_array(arena, int, plot->n_multiprocessors) };
    i64 *busy_until = arena_array(arena, i64, timeline->n_spans + 1);
    for (int mp = 0; mp < plot->n_multiprocessors; mp++) {
        int n = 0;
        for (int i = timeline->first_span[mp]; i < timeline->first_span[mp + 1]; i++) {
            int lane = 0;
            while (lane < n && busy_until[lane] > timeline->spans[i].start_ns)
                lane++;
            n = MAX_OF(n, lane + 1);
            busy_until[lane] = timeline->spans[i].end_ns;
            lanes.lane[i] = lane;
        }
        lanes.n_lanes[mp] = MAX_OF(n, 1);
    }
    return lanes;
}

static double gantt_height(const Lanes *lanes, int n_multiprocessors)
{
    double height = 0;
    for (int mp = 0; mp < n_multiprocessors; mp++)
        height += lanes->n_lanes[mp] * LANE + ROW_GAP;
    return height;
}

static void add_span(const PlotFrame *frame, const GanttPlot *plot, const SimSpan *span, double top)
{
    const char *name = plot->names[span->stream * plot->n_kernels + span->kernel];
    const double left = at_x(frame, (double)span->start_ns / 1e6), right = at_x(frame, (double)span->end_ns / 1e6);
    text_add(frame->svg, "<rect class=\"area s%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
             color_of(span->stream), left + 0.5, top, MAX_OF(right - left - 1, 0.5), LANE - 2);
    if (text_units(name) < right - left)
        add_text(frame->svg, "small", "middle", (left + right) / 2, top + LANE - 5, name);
}

static void add_multiprocessors(const PlotFrame *frame, const GanttPlot *plot, const Lanes *lanes)
{
    char label[32];
    double top = frame->top;
    for (int mp = 0; mp < plot->n_multiprocessors; mp++) {
        const double height = lanes->n_lanes[mp] * LANE;
        snprintf(label, sizeof(label), "MP %d", mp + 1);
        add_text(frame->svg, "soft", "end", LEFT - 8, top + height / 2 + 3, label);
        for (int i = plot->timeline->first_span[mp]; i < plot->timeline->first_span[mp + 1]; i++)
            add_span(frame, plot, &plot->timeline->spans[i], top + lanes->lane[i] * LANE);
        top += height + ROW_GAP;
        add_line(frame->svg, "grid", LEFT, top - ROW_GAP / 2.0 - 1, WIDTH - RIGHT, top - ROW_GAP / 2.0 - 1);
    }
}

// A line where blocks ended, with the time below it.
static void add_phases(const PlotFrame *frame, const Timeline *timeline)
{
    char text[32];
    const double bottom = frame->top + frame->height;
    for (int i = 0; i < timeline->n_phases; i++) {
        const double ms = (double)timeline->phase_ends_ns[i] / 1e6, x = at_x(frame, ms);
        add_line(frame->svg, "mark", x, frame->top - 4, x, bottom);
        snprintf(text, sizeof(text), "%g", ms);
        add_text(frame->svg, "soft", "middle", x, bottom + 18, text);
    }
    add_text(frame->svg, "soft", "middle", LEFT, bottom + 18, "0");
    add_x_label(frame, "ms");
}

void plot_gantt(const GanttPlot *plot, Text *svg)
{
    Arena *arena = arena_new(NULL, "plot");
    const Timeline *timeline = plot->timeline;
    const Lanes lanes = assign_lanes(arena, plot);
    const double end_ms = timeline->n_phases ? (double)timeline->phase_ends_ns[timeline->n_phases - 1] / 1e6 : 1;
    const bool has_phases = timeline->n_phases <= PHASES_SHOWN;
    PlotFrame frame = { .svg = svg, .top = TOP - 14, .height = gantt_height(&lanes, plot->n_multiprocessors),
                        .x = make_axis(0, end_ms, false, 0) };
    if (has_phases)
        frame.x.to = end_ms;
    begin_svg(svg, plot->title, plot->description, frame.top + frame.height + BOTTOM);
    add_multiprocessors(&frame, plot, &lanes);
    if (has_phases)
        add_phases(&frame, timeline);
    else
        add_x_axis(&frame, "ms");
    end_svg(svg);
    arena_free(arena);
}

// ---- files ----------------------------------------------------------------------------------------------------------

void plot_file(const Text *svg, Text *file)
{
    const char *inside = strchr(svg->bytes, '>');
    const size_t head = (size_t)(inside - svg->bytes) + 1;
    text_add_bytes(file, svg->bytes, head);
    text_add(file, "\n<style>\n%s</style>", plot_style);
    text_add_bytes(file, svg->bytes + head, svg->length - head);
    text_add(file, "\n");
}
