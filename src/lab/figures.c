// figures.c - means, percentiles and correlation of many runs, and random numbers that are the same everywhere.

#include <math.h>
#include <stdlib.h>

#include "lab/lab_int.h"

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The smallest value that is not below SHARE of all.
static double percentile(const double *sorted, int n, double share)
{
    const int at = (int)ceil(share * n) - 1;
    return sorted[MIN_OF(MAX_OF(at, 0), n - 1)];
}

LabFigures lab_figures(const double *values, int n)
{
    LabFigures figures = { n, NAN, NAN, NAN, NAN, NAN, NAN };
    if (n < 1)
        return figures;
    Arena *arena = arena_new(NULL, "figures");
    double *sorted = arena_array(arena, double, n);
    double sum = 0, sum_log = 0;
    for (int i = 0; i < n; i++) {
        sorted[i] = values[i];
        sum += values[i];
        sum_log += log(values[i]);
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_doubles);
    figures.mean = sum / n;
    figures.geomean = exp(sum_log / n);
    figures.min = sorted[0];
    figures.max = sorted[n - 1];
    figures.median = percentile(sorted, n, 0.5);
    figures.p99 = percentile(sorted, n, 0.99);
    arena_free(arena);
    return figures;
}

double lab_pearson(const double *x, const double *y, int n)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        mean_x += x[i] / n;
        mean_y += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

// ---- random numbers: splitmix64 -------------------------------------------------------------------------------------

LabRandom lab_random(const Lab *lab, const char *what)
{
    return (LabRandom){ lab->options.seed * 0x9E3779B97F4A7C15u ^ hash_bytes(what, strlen(what)) };
}

u64 lab_random_next(LabRandom *random)
{
    u64 z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

int lab_random_below(LabRandom *random, int n)
{
    return (int)((u128)lab_random_next(random) * (u128)n >> 64);
}
