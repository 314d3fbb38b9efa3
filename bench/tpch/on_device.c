// on_device.c - TPC-H on a device that is told; see on_device.h.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "on_device.h"

typedef struct DeviceTimes { double weft_ms, duckdb_ms; int n_on_device, n_on_cpu; } DeviceTimes;

// EXPLAIN ANALYZE has a line for each kernel: "woven on cuda:0: rows in 6,001,747, ...".
static void count_kernels(Peer *weft, const BenchQuery *query, DeviceTimes *times)
{
    size_t capacity = strlen(query->sql) + 32;
    char  *sql = malloc(capacity);
    Rows   rows;
    snprintf(sql, capacity, "explain analyze %s", query->sql);
    must(weft, peer_run(weft, sql, &rows), query->name);
    for (size_t row = 0; row < rows.n_rows; row++) {
        const char *line = rows_cell(&rows, row, 0);
        if (!line || !strstr(line, ": rows in "))
            continue;
        times->n_on_cpu += strstr(line, " on cpu") != NULL;
        times->n_on_device += strstr(line, " on cuda") != NULL;
    }
    rows_free(&rows);
    free(sql);
}

static DeviceTimes time_query(Bench *bench, Peer *weft, Peer *duckdb, const BenchQuery *query)
{
    DeviceTimes times = { .weft_ms = INFINITY, .duckdb_ms = INFINITY };
    if (duckdb)
        check_answers(weft, duckdb, query->name, query->sql);
    for (int r = -2; r < bench->options.repeats; r++) {        // the first two are warm-up
        double ours = run_ms(weft, query->sql), theirs = duckdb ? run_ms(duckdb, query->sql) : INFINITY;
        if (r < 0)
            continue;
        times.weft_ms = fmin(times.weft_ms, ours);
        times.duckdb_ms = fmin(times.duckdb_ms, theirs);
    }
    count_kernels(weft, query, &times);
    return times;
}

static void begin_table(Bench *bench, const char *device, bool has_peer)
{
    say(bench, "## Hot on %s: data in memory, code compiled; best of %d%s runs\n\n", device, bench->options.repeats,
        has_peer ? " alternating" : "");
    say(bench, "| query | kernels on %s | on the CPU | Weft ms |%s\n", device,
        has_peer ? " DuckDB ms | DuckDB / Weft |" : "");
    say(bench, "| :---- | ---: | ---: | ---: |%s\n", has_peer ? " ---: | ---: |" : "");
}

static void add_row(Bench *bench, const char *name, const DeviceTimes *times, bool has_peer)
{
    say(bench, "| %-5s | %3d | %3d | %8.2f |", name, times->n_on_device, times->n_on_cpu, times->weft_ms);
    if (has_peer)
        say(bench, " %9.2f | %6.2f |", times->duckdb_ms, times->duckdb_ms / times->weft_ms);
    say(bench, "\n");
}

void part_device(Bench *bench, const char *device)
{
    setenv("WEFT_GPU_WAIT", "on", 1);          // kernels are compiled before the clock runs
    Peer       *weft = open_weft(bench), *duckdb = bench->options.alone ? NULL : open_duckdb(bench);
    DeviceTimes sum = { 0 };
    double      log_sum = 0;
    must(weft, peer_runf(weft, "set device = '%s'", device), "set device");
    begin_table(bench, device, duckdb != NULL);
    for (int q = 0; q < bench->n_queries; q++) {
        const DeviceTimes times = time_query(bench, weft, duckdb, &bench->queries[q]);
        add_row(bench, bench->queries[q].name, &times, duckdb != NULL);
        sum.weft_ms += times.weft_ms;
        sum.duckdb_ms += times.duckdb_ms;
        sum.n_on_device += times.n_on_device;
        sum.n_on_cpu += times.n_on_cpu;
        log_sum += log(times.duckdb_ms / times.weft_ms);
    }
    add_row(bench, "sum", &sum, duckdb != NULL);
    if (duckdb)
        say(bench, "\nGeometric mean of DuckDB / Weft: **%.2f**\n\n", exp(log_sum / bench->n_queries));
    peer_close(weft);
    peer_close(duckdb);
}
