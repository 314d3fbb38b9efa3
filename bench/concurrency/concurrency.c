// concurrency.c - many queries at the same time, Weft beside DuckDB: same rows, same machine, same process, same cores.
//
//     concurrency --db DB --tbl DIR --folder bench/ssb --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N]
//         [--seconds S] [--seed N] [--scale SF] [--duckdb-clients N] [--device cpu|cuda|cuda:N] [--strangers PERCENT]
//         [--clients N,N,...] [--check] [--quick] [--alone] [--record FILE]
//         [--parts thirteen,random,loop,marginal,alone,attach,new,clients,fair]
//
// thirteen  The 13 SSB queries submitted at once, against DuckDB's better of one after the other and a connection each.
// random    64 SSB queries with random constants, the same way; DuckDB's best of 1, 2, 4, 8 and 64 connections.
// loop      Closed loops of 1 to 256 clients that draw from these 64: throughput, latency, bytes read; and what a small
//           query suffers among large ones.  DuckDB gets the same seconds, and with many clients takes longer: a loop
//           goes on until there are two answers per client.  --duckdb-clients leaves out the larger ones.
// marginal  1 to 64 queries of one shape at once: what one more costs.
// alone     Each of the 13 by itself, with sharing on and off.
// attach    How long a query that needs one chunk takes while the table is being scanned for others.
// new       How long queries of shapes that were never seen wait for their first chunk, beyond compiling, and how long
//           others do because of them.
// clients   Closed loops of 1 to 4,096 clients, driven through weft_submit by at most 16 threads, no two queries the
//           same; then with a share of queries whose shapes never come again (--strangers).  --check: every answer is
//           compared with that of the query alone.
// fair      What others wait for among 1,000 clients with long queries: short ones, important ones, cancelled ones.
//
// --device is where Weft's kernels run, in all parts.  --alone leaves DuckDB out, in the parts clients and fair only.
//
// Answers are compared before the clock runs.  Data is in memory and code compiled.  Runs of the engines alternate and
// the best of each counts, except in closed loops, where the clock says when it is over.  A run ends when the engine
// has the whole answer in its own form; neither side caches results, and the queries of a set are all different.
// DuckDB has its tables in memory, uncompressed, which is its fastest form.  When there are more cores than --threads,
// the process is kept to that many: clients are threads, too.

#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "concurrency.h"

BenchSettings settings;

void progress(const char *what, int n)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s %d\r", what, n);
}

void check_all(const Engines *engines, char *const *queries, int n)
{
    must(engines->weft, peer_run(engines->weft, "set jit = cc; set gpu_wait = on", NULL), "set jit");
    for (int i = 0; i < n; i++) {
        progress("checking answer", i + 1);
        if (engines->duckdb)
            check_answers(engines->weft, engines->duckdb, queries[i], queries[i]);
        else
            must(engines->weft, peer_run(engines->weft, queries[i], NULL), queries[i]);
    }
    must(engines->weft, peer_run(engines->weft, "set jit = auto; set gpu_wait = default", NULL), "set jit");
}

// ---- what Weft counts --------------------------------------------------------------------------------------------

double sum_of(Peer *weft, const char *sql)
{
    Rows rows;
    must(weft, peer_run(weft, sql, &rows), sql);
    const char *cell = rows.n_rows ? rows_cell(&rows, 0, 0) : NULL;
    double value = cell ? strtod(cell, NULL) : 0;
    rows_free(&rows);
    return value;
}

#define OF_LINEORDER " from weft_scans where table_name = 'lineorder'"

Reads reads_now(Peer *weft)
{
    double n_rows = sum_of(weft, "select rows from weft_tables where name = 'lineorder'");
    return (Reads){ .rides = sum_of(weft, "select sum(rides)" OF_LINEORDER),
                    .times_read = sum_of(weft, "select sum(rows_read)" OF_LINEORDER) / n_rows,
                    .times_ridden = sum_of(weft, "select sum(rows_ridden)" OF_LINEORDER) / n_rows,
                    .chunks_read = sum_of(weft, "select sum(chunks_read)" OF_LINEORDER),
                    .joined = sum_of(weft, "select sum(rides_join_cubed)" OF_LINEORDER),
                    .cubed = sum_of(weft, "select sum(rides_cubed)" OF_LINEORDER),
                    .sieved = sum_of(weft, "select sum(rides_sieved)" OF_LINEORDER),
                    .fused = sum_of(weft, "select sum(rides_fused)" OF_LINEORDER),
                    .bytes_read = sum_of(weft, "select sum(bytes_read) from weft_scans"),
                    .bytes_ridden = sum_of(weft, "select sum(bytes_ridden) from weft_scans") };
}

Reads reads_since(Peer *weft, const Reads *before)
{
    Reads now = reads_now(weft);
    return (Reads){ .rides = now.rides - before->rides,
                    .times_read = now.times_read - before->times_read,
                    .times_ridden = now.times_ridden - before->times_ridden,
                    .chunks_read = now.chunks_read - before->chunks_read,
                    .joined = now.joined - before->joined,
                    .cubed = now.cubed - before->cubed,
                    .sieved = now.sieved - before->sieved,
                    .fused = now.fused - before->fused,
                    .bytes_read = now.bytes_read - before->bytes_read,
                    .bytes_ridden = now.bytes_ridden - before->bytes_ridden };
}

// ---- main --------------------------------------------------------------------------------------------------------

// The other parts compare.
static bool is_for_weft_alone(const char *parts)
{
    return strcmp(parts, "clients") == 0 || strcmp(parts, "fair") == 0 || strcmp(parts, "clients,fair") == 0;
}

static bool parse_options(int argc, char **argv, Options *options)
{
    const char *seconds = NULL, *seed = NULL, *duckdb_clients = NULL, *strangers = NULL;
    *options = (Options){ .folder = "bench/ssb", .scale = "1", .threads = 2,
                          .parts = "thirteen,random,loop,marginal,alone,attach,new,clients,fair",
                          .command = "bench/concurrency/run.sh" };
    settings = (BenchSettings){ .seed = 1 };
    const OwnOption own[] = { { "seconds", &seconds, NULL },
                              { "seed", &seed, NULL },
                              { "quick", NULL, &settings.is_quick },
                              { "check", NULL, &settings.checks },
                              { "alone", NULL, &options->alone },
                              { "device", &settings.device, NULL },
                              { "clients", &settings.levels, NULL },
                              { "strangers", &strangers, NULL },
                              { "duckdb-clients", &duckdb_clients, NULL } };
    if (!bench_options(argc, argv, options, own, COUNT(own)))
        return false;
    settings.seconds = seconds ? atof(seconds) : 0;
    settings.seed = seed ? strtoull(seed, NULL, 10) : settings.seed;
    settings.duckdb_clients = duckdb_clients ? atoi(duckdb_clients) : 0;
    settings.strangers = strangers ? atoi(strangers) : 20;
    if (settings.strangers < 0 || settings.strangers > 100)
        return false;
    options->repeats = options->repeats ? options->repeats : settings.is_quick ? 3 : 10;
    settings.duckdb_clients = settings.duckdb_clients > 0 ? settings.duckdb_clients : settings.is_quick ? 16 : 256;
    settings.seconds = settings.seconds > 0 ? settings.seconds : settings.is_quick ? 0.5 : 4;
    return options_are_whole(options) && (!options->alone || is_for_weft_alone(options->parts));
}

// Weft and DuckDB count the cores they may use when they are opened, and clients run on the same.
static void keep_to_cores(int n_threads)
{
    cpu_set_t allowed, kept;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    CPU_ZERO(&kept);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&kept) < n_threads; c++)
        if (CPU_ISSET(c, &allowed))
            CPU_SET(c, &kept);
    sched_setaffinity(0, sizeof kept, &kept);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(Bench *bench, const Engines *engines); } PARTS[] = {
        { "thirteen", part_thirteen }, { "random", part_random }, { "loop", part_loop },
        { "marginal", part_marginal }, { "alone", part_alone },   { "attach", part_attach },
        { "new", part_new },           { "clients", part_clients }, { "fair", part_fair },
    };
    static Bench bench = { .workload = &WORKLOAD_SSB };
    if (!parse_options(argc, argv, &bench.options)) {
        fprintf(stderr,
                "usage: concurrency --db DB --tbl DIR --folder DIR --duckdb LIBRARY --scratch DIR [--threads N]\n"
                "           [--repeats N] [--seconds S] [--seed N] [--scale SF] [--quick] [--record FILE]\n"
                "           [--duckdb-clients N] [--device cpu|cuda|cuda:N] [--strangers PERCENT] [--check]\n"
                "           [--clients N,N,...] [--alone]\n"
                "           [--parts thirteen,random,loop,marginal,alone,attach,new,clients,fair]\n");
        return 2;
    }
    keep_to_cores(bench.options.threads);
    if (settings.device)
        setenv("WEFT_DEVICE", settings.device, 1);         // of every session
    bench_begin(&bench);
    write_heading(&bench, "Many queries at once");
    Engines engines = { open_weft(&bench), bench.options.alone ? NULL : open_duckdb(&bench) };
    for (int p = 0; p < COUNT(PARTS); p++)
        if (strstr(bench.options.parts, PARTS[p].name))
            PARTS[p].run(&bench, &engines);
    peer_close(engines.weft);
    if (engines.duckdb)
        peer_close(engines.duckdb);
    bench_end(&bench);
    return 0;
}
