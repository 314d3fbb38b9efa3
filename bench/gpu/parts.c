// parts.c - what bench/gpu measures.
//
// Times of kernels are Weft's own (EXPLAIN ANALYZE), times from SQL text to result are taken by the clock around the
// call.  Answers are compared with DuckDB's before any clock runs.  The targets and the times of Crystal, a library of
// hand-written kernels, are for SF 20 on an H200; elsewhere the figures stand without a verdict.

#define _GNU_SOURCE
#include "gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../concurrency/concurrency.h"
#include "device/cuda_driver.h"
#include "device/survey.h"

static const struct { const char *name; double ms;
} CRYSTAL[] = {
    { "q11", 0.564 }, { "q12", 0.560 }, { "q13", 0.565 }, { "q21", 1.58 }, { "q22", 1.52 },
    { "q23", 1.60 },  { "q31", 2.66 },  { "q32", 1.37 },  { "q33", 1.48 }, { "q34", 1.40 },
    { "q41", 13.75 }, { "q42", 1.68 },  { "q43", 1.58 },
};

static double crystal_ms(const char *query)
{
    for (int i = 0; i < COUNT(CRYSTAL); i++)
        if (!strcmp(CRYSTAL[i].name, query))
            return CRYSTAL[i].ms;
    return NAN;
}

// ---- helpers --------------------------------------------------------------------------------------------------------

void verdict(GpuBench *gpu, const char *what, double value, const char *unit, bool at_most, double limit)
{
    say(&gpu->bench, "- %s: %.2f %s", what, value, unit);
    if (gpu->has_targets)
        say(&gpu->bench, " (wanted: at %s %.2f): **%s**", at_most ? "most" : "least", limit,
            (at_most ? value <= limit : value >= limit) ? "met" : "missed");
    say(&gpu->bench, "\n");
}

Peer *open_on_device(GpuBench *gpu)
{
    Peer *weft = open_weft(&gpu->bench);
    must(weft, peer_runf(weft, "set device = '%s'", gpu->device), "set device");
    return weft;
}

static char *joined_rows(const Rows *rows)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (size_t r = 0; r < rows->n_rows; r++)
        fprintf(out, "%s\n", rows_cell(rows, r, 0) ? rows_cell(rows, r, 0) : "");
    fclose(out);
    return text;
}

char *explain_text(Peer *weft, const char *sql)
{
    char *statement;
    Rows rows;
    if (asprintf(&statement, "explain analyze %s", sql) < 0)
        die("explain", "out of memory");
    must(weft, peer_run(weft, statement, &rows), statement);
    char *text = joined_rows(&rows);
    free(statement);
    rows_free(&rows);
    return text;
}

void explain_analyze(Peer *weft, const char *sql, Figures *figures)
{
    char *text = explain_text(weft, sql);
    if (!figures_of(text, figures))
        die("EXPLAIN ANALYZE names no kernel", text);
    free(text);
}

// Query N of a family that differs in constants alone: the shape of Q1.1 without its join.
char *shape_query(int n)
{
    char *sql;
    int year = 1992 + n % 7, discount = 1 + n % 7;
    if (asprintf(&sql,
                 "select sum(lo_extendedprice * lo_discount) from lineorder where lo_orderdate between %d0101 and "
                 "%d1231 and lo_discount between %d and %d and lo_quantity < %d",
                 year, year, discount, discount + 2, 20 + n % 29) < 0)
        die("query", "out of memory");
    return sql;
}

// ---- what launches cost where they go on beside kernels, and beside each other: each is made to take longer, and what

enum { SLOWER = 3 };                                           // by so many times what one takes

static __typeof__(((CudaDriver *)NULL)->LaunchKernel) quick_launch;
static double slower_ms;

static CuResult launch_slowly(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, CuStream stream, void **parameters,
                              void **extra)
{
    double until = now_ms() + slower_ms;
    while (now_ms() < until) {}
    return quick_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}

// Times in ms, best of as many rounds each, in turns.  The driver's calls are in a table of ours, which this changes
// while nobody launches.
static void time_slow_launches(GpuBench *gpu, const Crowd *crowd, double *quick_ms, double *slow_ms)
{
    CudaDriver *driver = (CudaDriver *)(uintptr_t)cuda_driver();
    quick_launch = driver->LaunchKernel;
    slower_ms = SLOWER * gpu->launch_us / 1e3;
    *quick_ms = *slow_ms = INFINITY;
    for (int r = 0; r < 4 * ONCE_ROUNDS * gpu->bench.options.repeats; r++) {
        *quick_ms = fmin(*quick_ms, run_at_once(crowd));
        driver->LaunchKernel = launch_slowly;
        *slow_ms = fmin(*slow_ms, run_at_once(crowd));
        driver->LaunchKernel = quick_launch;
    }
}

static void say_launch_cost(GpuBench *gpu, const Crowd *crowd)
{
    double quick_ms, slow_ms;
    if (gpu->launch_us <= 0)
        return;
    time_slow_launches(gpu, crowd, &quick_ms, &slow_ms);
    say(&gpu->bench, "- with launches that take %d times as long: %.3f ms, beside %.3f\n", SLOWER + 1, slow_ms,
        quick_ms);
    verdict(gpu, "so launches cost, of the whole", 100 * fmax(0, slow_ms - quick_ms) / SLOWER / quick_ms, "%", true, 5);
}

// ---- peaks ----------------------------------------------------------------------------------------------------------

void measure_peaks(GpuBench *gpu)
{
    Error err = { 0 };
    if (!strcmp(gpu->device, "cpu")) {
        CpuSpeeds speeds;
        if (measure_cpu(&speeds, &err))
            die("measuring the CPU", err.message);
        gpu->read_gb_s = speeds.read_all;
        say(&gpu->bench, "- measured: memory is read at %.1f GB/s\n\n", speeds.read_all);
        return;
    }
    GpuInfo info;
    GpuSpeeds speeds;
    const char *number = strchr(gpu->device, ':');
    int ordinal = number ? atoi(number + 1) : 0;
    if (survey_gpu(ordinal, &info, &err) || measure_gpu(ordinal, &speeds, &err))
        die("measuring the GPU", err.message);
    if (speeds.no_kernel.status)
        die("measuring the GPU", speeds.no_kernel.message);
    char driver[64];
    survey_driver_version(driver, sizeof driver);
    gpu->link_gb_s = speeds.to_device_pinned;
    gpu->read_gb_s = speeds.read;
    gpu->launch_us = speeds.launch_us;
    say(&gpu->bench, "- card: %s, %.1f GiB, compute capability %d.%d, driver %s\n", info.name,
        (double)info.memory_bytes / 1073741824, info.major, info.minor, driver);
    say(&gpu->bench,
        "- measured: its memory is read at %.0f GB/s, pinned memory copied to it at %.1f GB/s, pageable at %.1f; "
        "a launch takes %.1f us\n\n",
        speeds.read, speeds.to_device_pinned, speeds.to_device_pageable, speeds.launch_us);
}

// ---- one query at a time --------------------------------------------------------------------------------------------

Single time_single(GpuBench *gpu, const char *sql)
{
    Single best = { .kernels_ms = INFINITY, .whole_ms = INFINITY };
    for (int r = -2; r < gpu->bench.options.repeats; r++) {    // the first two are warm-up
        Figures figures;
        explain_analyze(gpu->weft, sql, &figures);
        double whole_ms = run_ms(gpu->weft, sql);
        if (r < 0)
            continue;
        if (figures.kernels_ms + figures.build_ms < best.kernels_ms) {
            best.kernels_ms = figures.kernels_ms + figures.build_ms;
            best.figures = figures;
        }
        best.whole_ms = fmin(best.whole_ms, whole_ms);
    }
    return best;
}

static void say_single(GpuBench *gpu, const char *name, const Single *single)
{
    const Figures *figures = &single->figures;
    double rate = figures->bytes / figures->kernels_ms / 1e6, crystal = crystal_ms(name);
    say(&gpu->bench, "| %s | %.3f | %.3f | %.0f | %.0f %% | ", name, single->kernels_ms, figures->build_ms, rate,
        100 * rate / gpu->read_gb_s);
    if (gpu->has_targets)
        say(&gpu->bench, "%.3f | %.2f | ", crystal, crystal / single->kernels_ms);
    else
        say(&gpu->bench, "- | - | ");
    say(&gpu->bench, "%.3f | %.3f | %d of %d |\n", single->whole_ms, single->whole_ms - single->kernels_ms,
        figures->n_on_device, figures->n_on_device + figures->n_on_cpu);
}

void part_single(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    double log_sum = 0, most_over_ms = 0, least_gain = INFINITY, most_launching = 0;
    int n_elsewhere = 0;
    say(bench, "## Resident, one query at a time; best of %d\n\n", bench->options.repeats);
    say(bench,
        "Kernels: of all pipelines, tables that queries join included; GB/s is whole columns that they may look at in "
        "that time, and "
        "its share of the measured peak: at most so much, as late loads skip some.\n\n");
    say(bench,
        "| query | kernels ms | of it tables by the host | GB/s | of peak | Crystal ms | Crystal / Weft | SQL to "
        "result ms | "
        "over kernels ms | kernels on the device |\n| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n");
    for (int q = 0; q < bench->n_queries; q++) {
        const BenchQuery *query = &bench->queries[q];
        if (gpu->duckdb)
            check_answers(gpu->weft, gpu->duckdb, query->name, query->sql);
        Single single = time_single(gpu, query->sql);
        say_single(gpu, query->name, &single);
        gpu->single_ms[q] = single.kernels_ms;
        gpu->single_sum_ms += single.kernels_ms;
        gpu->whole_sum_ms += single.whole_ms;
        double gain = crystal_ms(query->name) / single.kernels_ms;
        log_sum += log(gain);
        least_gain = fmin(least_gain, gain);
        most_over_ms = fmax(most_over_ms, single.whole_ms - single.kernels_ms);
        most_launching = fmax(most_launching, single.figures.n_launches * gpu->launch_us / 1e3 / single.whole_ms);
        n_elsewhere += single.figures.n_on_cpu;
    }
    say(bench, "\n- sum of kernels: %.3f ms; of SQL to result: %.3f ms\n", gpu->single_sum_ms, gpu->whole_sum_ms);
    if (gpu->has_targets) {
        verdict(gpu, "Crystal / Weft, geometric mean", exp(log_sum / bench->n_queries), "", false, 3);
        verdict(gpu, "Crystal / Weft, of the query that gains least", least_gain, "", false, 1);
    }
    verdict(gpu, "from SQL text to result beyond the kernels, at most", most_over_ms, "ms", true, 1);
    if (gpu->launch_us > 0)
        verdict(gpu, "launches, of the time from SQL text to result, at most", 100 * most_launching, "%", true, 5);
    if (strcmp(gpu->device, "cpu") != 0)
        say(bench, "- kernels that ran on the CPU instead: %d\n", n_elsewhere);
    say(bench, "\n");
}

// ---- many at once ---------------------------------------------------------------------------------------------------

void part_together(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    Crowd crowd = { .n = 0 };
    for (int q = 0; q < bench->n_queries; q++)
        crowd_join(gpu, &crowd, gpu->weft, bench->queries[q].sql);
    const AtOnce best = best_at_once(gpu, &crowd, gpu->weft);
    say(bench, "## Resident, all %d at once; best of %d\n\n", crowd.n, ONCE_ROUNDS * bench->options.repeats);
    say(bench, "- from the first submitted to the last answered: %.3f ms\n", best.ms);
    say_launches(gpu, best.counts.kernels, best.ms);
    say_woven(gpu, &best.counts);
    if (gpu->single_sum_ms > 0) {
        verdict(gpu, "of the sum of each alone, from SQL to result", 100 * best.ms / gpu->whole_sum_ms, "%", true, 40);
        say(bench, "- of the sum of the kernels of each alone: %.2f %%\n", 100 * best.ms / gpu->single_sum_ms);
    }
    say_launch_cost(gpu, &crowd);
    say(bench, "\n");
    crowd_free(&crowd);
}

void part_shape(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    Crowd crowd = { .n = 0 };
    double in_turn_ms = INFINITY;
    for (int i = 0; i < N_SHAPE; i++) {
        char *sql = shape_query(i);
        if (gpu->duckdb)
            check_answers(gpu->weft, gpu->duckdb, sql, sql);
        crowd_join(gpu, &crowd, gpu->weft, sql);
        free(sql);
    }
    const AtOnce best = best_at_once(gpu, &crowd, gpu->weft);
    for (int r = 0; r < bench->options.repeats; r++) {
        double start = now_ms();
        for (int i = 0; i < crowd.n; i++)
            run_ms(gpu->weft, crowd.queries[i]);
        in_turn_ms = fmin(in_turn_ms, now_ms() - start);
    }
    say(bench, "## Resident, %d filter-and-sum queries of one shape; best of %d\n\n", crowd.n,
        ONCE_ROUNDS * bench->options.repeats);
    say(bench, "- one after the other: %.3f ms\n", in_turn_ms);
    verdict(gpu, "at once", best.ms, "ms", true, 1.5);
    say_launches(gpu, best.counts.kernels, best.ms);
    say_woven(gpu, &best.counts);
    say(bench, "\n");
    crowd_free(&crowd);
}

// ---- DuckDB ---------------------------------------------------------------------------------------------------------

void part_duckdb(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    char *queries[MAX_QUERIES];
    double turn_ms[2] = { INFINITY, INFINITY }, once_ms[2] = { INFINITY, INFINITY };           // Weft, DuckDB
    Peer *engines[2] = { gpu->weft, gpu->duckdb };
    char setting[64];
    snprintf(setting, sizeof setting, "set device = '%s'", gpu->device);
    for (int q = 0; q < bench->n_queries; q++)
        queries[q] = bench->queries[q].sql;
    Crew *crews[2] = { crew_new(gpu->weft, bench->n_queries, setting), crew_new(gpu->duckdb, bench->n_queries, NULL) };
    for (int r = -1; r < bench->options.repeats; r++) {        // in turns, so that what else the machine does hits both
        for (int e = 0; e < 2; e++) {
            double start = now_ms();
            for (int q = 0; q < bench->n_queries; q++)
                run_ms(engines[e], queries[q]);
            double in_turn = now_ms() - start, at_once = crew_once(crews[e], queries, bench->n_queries);
            if (r >= 0) {
                turn_ms[e] = fmin(turn_ms[e], in_turn);
                once_ms[e] = fmin(once_ms[e], at_once);
            }
        }
    }
    say(bench, "## The %d queries beside DuckDB with %d threads, from SQL text to result; best of %d\n\n",
        bench->n_queries, bench->options.threads, bench->options.repeats);
    say(bench, "| | Weft ms | DuckDB ms | DuckDB / Weft |\n| :-- | --: | --: | --: |\n");
    say(bench, "| one after the other | %.2f | %.2f | %.1f |\n", turn_ms[0], turn_ms[1], turn_ms[1] / turn_ms[0]);
    say(bench, "| at once, a connection each | %.2f | %.2f | %.1f |\n\n", once_ms[0], once_ms[1],
        once_ms[1] / once_ms[0]);
    crew_free(crews[0]);
    crew_free(crews[1]);
}

// ---- children: what is settled when a process starts (device memory, an empty cache) --------------------------------

// One query alone and 32 at once over data in host memory.
int child_stream(GpuBench *gpu)
{
    Peer *weft = open_on_device(gpu);
    Crowd one = { .n = 0 }, many = { .n = 0 };
    Figures figures;
    double bytes = INFINITY;
    for (int i = 0; i < N_STREAM; i++) {
        char *sql = shape_query(i);
        crowd_join(gpu, &many, weft, sql);
        if (i == 0)
            crowd_join(gpu, &one, weft, sql);
        free(sql);
    }
    const AtOnce best_one = best_at_once(gpu, &one, weft), best_many = best_at_once(gpu, &many, weft);
    // What stays in the pool from one time to the next differs a little: the least that came over the link counts.
    for (int i = 0; i < 5; i++) {
        explain_analyze(weft, one.queries[0], &figures);
        bytes = fmin(bytes, figures.bytes_link > 0 ? figures.bytes_link : figures.bytes);
    }
    printf("%.6f %.6f %.0f %.6f\n", best_one.ms, best_many.ms, bytes, best_many.counts.kernels);
    crowd_free(&one);
    crowd_free(&many);
    peer_close(weft);
    return 0;
}

void part_stream(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    double answers[4];
    ask_child(bench, &(Child){ "stream", "-", "WEFT_DEVICE_MEMORY", gpu->pool, gpu->device }, answers, COUNT(answers));
    double one_ms = answers[0], many_ms = answers[1], rate = answers[2] / one_ms / 1e6;
    say(bench, "## Host-resident: %s of device memory, filter-and-sum queries; best of %d\n\n", gpu->pool,
        ONCE_ROUNDS * bench->options.repeats);
    say(bench, "- one query: %.2f ms for %.0f MB, %.1f GB/s\n", one_ms, answers[2] / 1e6, rate);
    if (gpu->link_gb_s > 0)
        verdict(gpu, "of the link's measured rate", 100 * rate / gpu->link_gb_s, "%", false, 90);
    say(bench, "- %d queries at once: %.2f ms\n", N_STREAM, many_ms);
    say_launches(gpu, answers[3], many_ms);
    verdict(gpu, "of the time of one", many_ms / one_ms, "times", true, 1.1);
    say(bench, "\n");
}

// All columns that a query needs are read before, by queries of another form, so that data is where it will be.
void touch_columns(Peer *weft)
{
    static const char *const TOUCH[] = {
        ("select sum(lo_orderdate), sum(lo_custkey), sum(lo_partkey), sum(lo_suppkey), sum(lo_quantity), "
         "sum(lo_extendedprice), sum(lo_discount), sum(lo_revenue), sum(lo_supplycost) from lineorder"),
        "select sum(d_datekey), sum(d_year), sum(d_yearmonthnum), sum(d_weeknuminyear) from date",
        "select sum(p_partkey) from part", "select sum(s_suppkey) from supplier", "select sum(c_custkey) from customer",
    };
    for (int t = 0; t < COUNT(TOUCH); t++)
        run_ms(weft, TOUCH[t]);
}

// The first run and the second, for which part of the code may still be in the making, are as everybody has them
// (gpu_wait = off); the third has all code.
int child_first(GpuBench *gpu)
{
    Peer *weft = open_on_device(gpu);
    char *sql = read_whole_file(gpu->bench.options.child_query);
    if (!sql)
        die(gpu->bench.options.child_query, "cannot be read");
    touch_columns(weft);
    must(weft, peer_run(weft, "set gpu_wait = off", NULL), "set gpu_wait");
    double first_ms = run_ms(weft, sql), second_ms = run_ms(weft, sql);
    must(weft, peer_run(weft, "set gpu_wait = on", NULL), "set gpu_wait");
    run_ms(weft, sql);
    printf("%.6f %.6f %.6f\n", first_ms, second_ms, run_ms(weft, sql));
    free(sql);
    peer_close(weft);
    return 0;
}

void part_first(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    char cache[600];
    double most_ms = 0, most_later_ms = 0;
    say(bench, "## First run with an empty code cache, in a new process, and the second\n\n");
    say(bench,
        "The CPU runs what it does sooner than the code for the GPU is made, mostly the second run as well; later: "
        "with all code there.\n\n");
    say(bench,
        "| query | first ms | second ms | later ms | more than the second | more than later |\n"
        "| :-- | --: | --: | --: | --: | --: |\n");
    for (int q = 0; q < bench->n_queries; q++) {
        double answers[3];
        make_empty_cache(bench, cache, sizeof cache);
        ask_child(bench, &(Child){ "first", bench->queries[q].path, "WEFT_CACHE", cache, gpu->device }, answers,
                  COUNT(answers));
        remove_tree(cache);
        double more_ms = answers[0] - answers[1], more_later_ms = answers[0] - answers[2];
        say(bench, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", bench->queries[q].name, answers[0], answers[1],
            answers[2], more_ms, more_later_ms);
        most_ms = fmax(most_ms, more_ms);
        most_later_ms = fmax(most_later_ms, more_later_ms);
    }
    say(bench, "\n");
    verdict(gpu, "the first run takes longer than the second by at most", most_ms, "ms", true, 60);
    verdict(gpu, "and than a later one by at most", most_later_ms, "ms", true, 60);
    say(bench, "\n");
}
