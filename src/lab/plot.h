// plot.h - charts as SVG.
//
// Each function adds one <svg> element to TEXT: with a title and a description for those who cannot see it, with
// classes instead of colours, so that a page decides about light and dark.  plot_style has the rules for the classes;
// plot_file makes a file of its own out of an element.  Values that are not finite are left out.

#ifndef WEFT_LAB_PLOT_H
#define WEFT_LAB_PLOT_H

#include "model/model.h"

enum { PLOT_SERIES_MAX = 8 };                               // there are so many colours; more begin anew

typedef struct PlotSeries {
    const char *name;
    const double *x, *y;                                    // histograms use x only
    int  n;
    bool has_line, has_points;
} PlotSeries;

typedef struct LinePlot {                                   // lines and points, with axes
    const char *title, *description;                        // description: what the plot shows, in a sentence
    const char *x_label, *y_label;
    const PlotSeries *series;
    int  n_series;
    bool x_is_log, y_is_log;                                // base 2 and base 10
} LinePlot;

typedef struct HistogramPlot {
    const char *title, *description;
    const char *x_label;
    const PlotSeries *series;
    int    n_series;
    double bin;                                             // its width; 0: chosen
    double mark;                                            // a line there, as at 1 for "as fast"; NAN: none
} HistogramPlot;

typedef struct BarPlot {                                    // groups of bars
    const char *title, *description;
    const char *y_label;
    const char *const *groups;
    int n_groups;
    const char *const *series;                              // names
    int n_series;
    const double *values;                                   // [group * n_series + series]
    bool y_is_log;
} BarPlot;

typedef struct GanttPlot {                                  // blocks on multiprocessors over time
    const char *title, *description;
    const Timeline *timeline;
    int n_multiprocessors;
    int n_streams;
    const char *const *names;                               // of streams, or of kernels of streams if n_kernels > 1
    int n_kernels;                                          // of each stream; names[stream * n_kernels + kernel]
} GanttPlot;

void plot_lines(const LinePlot *plot, Text *svg);
void plot_histogram(const HistogramPlot *plot, Text *svg);
void plot_bars(const BarPlot *plot, Text *svg);
void plot_gantt(const GanttPlot *plot, Text *svg);

extern const char plot_style[];                             // CSS, with light and dark
void plot_file(const Text *svg, Text *file);                // the element as a file, with the style inside

// & < > and " become entities, control characters go: for SVG and HTML (markup.c).
void html_escape(Text *out, const char *text);

#endif
