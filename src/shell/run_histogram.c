// run_histogram.c - how long the statements of `weft run` took, as bars.
//
// Buckets grow by a constant factor, since times do: a tail of 100 ms is as visible as a body of 1 ms.  Their bounds
// are round numbers, three, five, ten or twenty of them to a factor of ten: as many as fit into MOST_BUCKETS.
//
//     statements  ms
//            162   8 to 10    ███████▊
//            640  10 to 12.5  ██████████████████████████████  p50
//             61  16 to 20    ██▉                             p99

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shell/run.h"

enum { MOST_BUCKETS = 20, BAR_CELLS = 40, FEWEST_TIMES = 10 };

typedef struct BoundSeries { int n; double steps[20]; } BoundSeries;

static const BoundSeries SERIES[] = {
    { 20, { 1, 1.12, 1.25, 1.4, 1.6, 1.8, 2, 2.24, 2.5, 2.8, 3.15, 3.55, 4, 4.5, 5, 5.6, 6.3, 7.1, 8, 9 } },
    { 10, { 1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8 } },
    { 5, { 1, 1.6, 2.5, 4, 6.3 } },
    { 3, { 1, 2, 5 } },
    { 1, { 1 } },
};

typedef struct Histogram {
    int    n_buckets;
    double bounds[MOST_BUCKETS + 1];   // bucket i: from bounds[i], up to and without bounds[i + 1]
    size_t counts[MOST_BUCKETS];
} Histogram;

// The bound number I of SERIES, counted from 1 ms; negative below.
static double bound_at(const BoundSeries *series, int i)
{
    int decade = (int)floor((double)i / series->n);
    return series->steps[i - decade * series->n] * pow(10, decade);
}

static int bound_below(const BoundSeries *series, double time_ms)
{
    int i = (int)floor(log10(time_ms)) * series->n;
    while (bound_at(series, i + 1) <= time_ms)
        i++;
    while (bound_at(series, i) > time_ms)                  // where the logarithm was rounded up
        i--;
    return i;
}

// The finest series whose buckets from LEAST to MOST are few enough.
static void choose_bounds(Histogram *histogram, double least, double most)
{
    for (int s = 0; s < (int)(sizeof SERIES / sizeof *SERIES); s++) {
        int first = bound_below(&SERIES[s], least), last = bound_below(&SERIES[s], most);
        if (last - first >= MOST_BUCKETS)
            continue;
        histogram->n_buckets = last - first + 1;
        for (int i = 0; i <= histogram->n_buckets; i++)
            histogram->bounds[i] = bound_at(&SERIES[s], first + i);
        return;
    }
}

// Nothing is as short as a microsecond; what the clock could not tell from nothing is put there.
static Histogram histogram_of(const double *sorted, size_t n)
{
    Histogram histogram = { 0 };
    choose_bounds(&histogram, fmax(sorted[0], 1e-3), fmax(sorted[n - 1], 1e-3));
    int bucket = 0;
    for (size_t i = 0; i < n; i++) {
        while (bucket + 1 < histogram.n_buckets && sorted[i] >= histogram.bounds[bucket + 1])
            bucket++;
        histogram.counts[bucket]++;
    }
    return histogram;
}

// ---- for people -----------------------------------------------------------------------------------------------------

// SHARE of BAR_CELLS cells, to an eighth of a cell; anything at all shows.  Returns the cells it took.
static int put_bar(const Shell *shell, double share, FILE *out)
{
    static const char *const eighths[] = { "", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589" };
    int parts = (int)ceil(share * BAR_CELLS * 8), n_cells = parts / 8;
    if (!shell->has_unicode)
        n_cells = (parts + 7) / 8;
    for (int i = 0; i < n_cells; i++)
        fputs(shell->has_unicode ? "\u2588" : "#", out);
    if (!shell->has_unicode || parts % 8 == 0)
        return n_cells;
    fputs(eighths[parts % 8], out);
    return n_cells + 1;
}

static bool is_in(const Histogram *histogram, int bucket, double time_ms)
{
    return (bucket == 0 || time_ms >= histogram->bounds[bucket]) &&
           (bucket + 1 == histogram->n_buckets || time_ms < histogram->bounds[bucket + 1]);
}

static void put_marks(const Histogram *histogram, int bucket, const Times *times, int n_cells, FILE *out)
{
    const struct { const char *name; double time_ms; } marks[] = {
        { "p50", times->p50 }, { "p90", times->p90 }, { "p99", times->p99 }, { "max", times->max },
    };
    bool is_first = true;
    for (int m = 0; m < (int)(sizeof marks / sizeof *marks); m++) {
        if (!is_in(histogram, bucket, marks[m].time_ms))
            continue;
        fprintf(out, "%*s%s %.4g", is_first ? BAR_CELLS - n_cells + 2 : 2, "", marks[m].name, marks[m].time_ms);
        is_first = false;
    }
    fputc('\n', out);
}

void print_histogram(const Run *run, const double *sorted, const Times *times, FILE *out)
{
    if (times->n < FEWEST_TIMES)
        return;
    Histogram histogram = histogram_of(sorted, times->n);
    size_t most = 0;
    for (int b = 0; b < histogram.n_buckets; b++)
        most = histogram.counts[b] > most ? histogram.counts[b] : most;
    fprintf(out, "\n%17s  %10s  %5s\n", "ms", "statements", "%");
    for (int b = 0; b < histogram.n_buckets; b++) {
        double count = (double)histogram.counts[b];
        fprintf(out, "%6.4g to %-7.4g  %10zu  %5.1f  ", histogram.bounds[b], histogram.bounds[b + 1],
                histogram.counts[b], 100 * count / (double)times->n);
        put_marks(&histogram, b, times, put_bar(&run->shell, count / (double)most, out), out);
    }
}

// ---- for programs ---------------------------------------------------------------------------------------------------

void print_histogram_json(const double *sorted, size_t n, FILE *out)
{
    Histogram histogram = n ? histogram_of(sorted, n) : (Histogram){ 0 };
    fputs("  \"histogram\": [", out);
    for (int b = 0; b < histogram.n_buckets; b++)
        fprintf(out, "%s{\"from_ms\": %.6g, \"to_ms\": %.6g, \"runs\": %zu}", b ? ", " : "", histogram.bounds[b],
                histogram.bounds[b + 1], histogram.counts[b]);
    fputs("],\n", out);
}
