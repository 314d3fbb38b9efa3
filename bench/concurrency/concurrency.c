// concurrency.c - many queries at the same time, Weft beside DuckDB: same rows, same machine, same process, same cores.
//
//     concurrency --db DB --tbl DIR --ssb bench/ssb --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N]
//         [--seconds S] [--seed N] [--scale SF] [--quick] [--record FILE]
//         [--parts thirteen,random,loop,marginal,alone,attach]
//
// thirteen  The 13 SSB queries submitted at once, against DuckDB's better of one after the other and a connection each.
// random    64 SSB queries with random constants, the same way; DuckDB's best of 1, 2, 4 and 8 connections.
// loop      Closed loops of 1 to 256 clients that draw from these 64: throughput, latency, bytes read; and what a small
//           query suffers among large ones.  DuckDB up to 16 clients.
// marginal  1 to 64 queries of one shape at once: what one more costs.
// alone     Each of the 13 by itself, with sharing on and off.
// attach    How long a query that needs one chunk takes while the table is being scanned for others.
//
// Answers are compared before the clock runs.  Data is in memory and code compiled.  Runs of the engines alternate and
// the best of each counts, except in closed loops, where the clock says when it is over.  A run ends when the engine has
// the whole answer in its own form; neither side caches results, and all random queries are different.  DuckDB has its
// tables in memory, uncompressed, which is its fastest form.  When there are more cores than --threads, the process is
// kept to that many: clients are threads, too.

#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "concurrency.h"

enum { N_RANDOM = 64, MOST_CLIENTS = 256, MOST_DUCKDB_CLIENTS = 16, WARM_ROUNDS = 5, BACKGROUND = 8, N_PROBES = 200 };

static struct Settings {
    double   seconds;                  // of a closed loop
    uint64_t seed;
    bool     is_quick;
} settings;

static const char SHARING_OFF[] = "set sharing = off";

typedef struct Engines { Peer *weft, *duckdb; } Engines;

static void progress(const char *what, int n)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s %d\r", what, n);
}

static void rest(double ms)
{
    usleep((useconds_t)(ms * 1e3));
}

// ---- queries submitted together -------------------------------------------------------------------------------------

typedef struct Sessions { Peer **peers; int n; } Sessions;

static Sessions sessions_new(Peer *weft, int n, const char *setting)
{
    char error[PEER_ERROR_BYTES] = "";
    Sessions sessions = { calloc((size_t)n, sizeof(Peer *)), n };
    for (int i = 0; i < n; i++) {
        sessions.peers[i] = peer_connect(weft, error);
        if (!sessions.peers[i])
            die("weft", error);
        if (setting)
            must(sessions.peers[i], peer_run(sessions.peers[i], setting, NULL), setting);
    }
    return sessions;
}

static void sessions_free(Sessions *sessions)
{
    for (int i = 0; i < sessions->n; i++)
        peer_close(sessions->peers[i]);
    free(sessions->peers);
}

// Submits all, waits for all.  Freeing the answers is not counted.
static double submit_all(const Sessions *sessions, char *const *queries, int n)
{
    weft_task *tasks[MOST_CLIENTS];
    weft_result *results[MOST_CLIENTS];
    weft_error error;
    double start = now_ms();
    for (int i = 0; i < n; i++)
        if (weft_submit(peer_weft_session(sessions->peers[i]), queries[i], &tasks[i], &error))
            die(queries[i], error.message);
    for (int i = 0; i < n; i++)
        if (weft_wait(tasks[i], &results[i], &error))
            die(queries[i], error.message);
    double elapsed = now_ms() - start;
    for (int i = 0; i < n; i++)
        weft_result_free(results[i]);
    return elapsed;
}

static double run_in_turn(Peer *peer, char *const *queries, int n)
{
    double start = now_ms();
    for (int i = 0; i < n; i++)
        must(peer, peer_run(peer, queries[i], NULL), queries[i]);
    return now_ms() - start;
}

// Every kernel compiled by cc, and every answer the same on both sides.
static void check_all(const Engines *engines, char *const *queries, int n)
{
    must(engines->weft, peer_run(engines->weft, "set jit = cc", NULL), "set jit");
    for (int i = 0; i < n; i++) {
        progress("checking answer", i + 1);
        check_answers(engines->weft, engines->duckdb, queries[i], queries[i]);
    }
    must(engines->weft, peer_run(engines->weft, "set jit = auto", NULL), "set jit");
}

// The answers of queries that run together are those that DuckDB gives one by one.
static void check_together(const Engines *engines, const Sessions *sessions, char *const *queries, int n)
{
    weft_task *tasks[MOST_CLIENTS];
    weft_error error;
    for (int i = 0; i < n; i++)
        if (weft_submit(peer_weft_session(sessions->peers[i]), queries[i], &tasks[i], &error))
            die(queries[i], error.message);
    for (int i = 0; i < n; i++) {
        weft_result *result;
        Rows ours, theirs;
        if (weft_wait(tasks[i], &result, &error))
            die(queries[i], error.message);
        peer_weft_rows(result, &ours);
        must(engines->duckdb, peer_run(engines->duckdb, queries[i], &theirs), queries[i]);
        char *difference = rows_difference(&ours, &theirs, NULL, NULL, 0);
        if (difference)
            die(queries[i], difference);
        rows_free(&ours);
        rows_free(&theirs);
        weft_result_free(result);
    }
}

// Kernels for several queries are compiled in the background when queries meet: let them meet, and wait for the compiler.
static void warm_together(const Sessions *sessions, char *const *queries, int n)
{
    for (int i = 0; i < WARM_ROUNDS; i++) {
        submit_all(sessions, queries, n);
        rest(200);
    }
}

// ---- what Weft counts --------------------------------------------------------------------------------------------------

typedef struct Reads { double rides, times_read, times_ridden, chunks_read, bytes_read, bytes_ridden; } Reads;

static double sum_of(Peer *weft, const char *sql)
{
    Rows rows;
    must(weft, peer_run(weft, sql, &rows), sql);
    const char *cell = rows.n_rows ? rows_cell(&rows, 0, 0) : NULL;
    double value = cell ? strtod(cell, NULL) : 0;
    rows_free(&rows);
    return value;
}

#define OF_LINEORDER " from weft_scans where table_name = 'lineorder'"

static Reads reads_now(Peer *weft)
{
    double n_rows = sum_of(weft, "select rows from weft_tables where name = 'lineorder'");
    return (Reads){ .rides = sum_of(weft, "select sum(rides)" OF_LINEORDER),
                    .times_read = sum_of(weft, "select sum(rows_read)" OF_LINEORDER) / n_rows,
                    .times_ridden = sum_of(weft, "select sum(rows_ridden)" OF_LINEORDER) / n_rows,
                    .chunks_read = sum_of(weft, "select sum(chunks_read)" OF_LINEORDER),
                    .bytes_read = sum_of(weft, "select sum(bytes_read) from weft_scans"),
                    .bytes_ridden = sum_of(weft, "select sum(bytes_ridden) from weft_scans") };
}

static Reads reads_since(Peer *weft, const Reads *before)
{
    Reads now = reads_now(weft);
    return (Reads){ now.rides - before->rides, now.times_read - before->times_read, now.times_ridden - before->times_ridden,
                    now.chunks_read - before->chunks_read, now.bytes_read - before->bytes_read,
                    now.bytes_ridden - before->bytes_ridden };
}

// ---- thirteen, random: a set of queries at once -------------------------------------------------------------------------

enum { MOST_WAYS = 8 };

typedef struct Way {
    const char *name;
    bool        is_weft;
    const Sessions *sessions;          // submitted at once, or
    Crew       *crew;                  // by the clients of a crew, or
    Peer       *peer;                  // one after the other
    double      best_ms;
} Way;

static double run_way(const Way *way, char *const *queries, int n)
{
    if (way->sessions)
        return submit_all(way->sessions, queries, n);
    return way->crew ? crew_once(way->crew, queries, n) : run_in_turn(way->peer, queries, n);
}

// All ways in turn, over and over; the best run of each counts.
static void time_ways(Way *ways, int n_ways, char *const *queries, int n, int repeats)
{
    for (int w = 0; w < n_ways; w++)
        ways[w].best_ms = INFINITY;
    for (int r = -1; r < repeats; r++) {
        progress("round", r + 1);
        for (int w = 0; w < n_ways; w++) {
            double ms = run_way(&ways[w], queries, n);
            if (r >= 0)
                ways[w].best_ms = fmin(ways[w].best_ms, ms);
        }
    }
}

static void say_ways(Bench *bench, const Way *ways, int n_ways, int n_queries)
{
    double duckdb_ms = INFINITY;
    say(bench, "| way | ms | queries/s |\n| :-- | --: | --: |\n");
    for (int w = 0; w < n_ways; w++) {
        say(bench, "| %s | %.2f | %.1f |\n", ways[w].name, ways[w].best_ms, n_queries * 1e3 / ways[w].best_ms);
        if (!ways[w].is_weft)
            duckdb_ms = fmin(duckdb_ms, ways[w].best_ms);
    }
    say(bench, "\nBest of DuckDB / Weft at once: **%.2f**\n\n", duckdb_ms / ways[0].best_ms);
}

// How often lineorder was read when all ran at once, on average over a few rounds.
static void say_reads(Bench *bench, Peer *weft, const Sessions *sessions, char *const *queries, int n)
{
    enum { ROUNDS = 5 };
    Reads before = reads_now(weft);
    for (int r = 0; r < ROUNDS; r++)
        submit_all(sessions, queries, n);
    Reads reads = reads_since(weft, &before);
    say(bench, "At once, lineorder is read %.2f times for %.1f scans of it (without sharing %.2f times), and %.1f MB are read "
               "in all (without sharing %.1f).\n\n", reads.times_read / ROUNDS, reads.rides / ROUNDS,
        reads.times_ridden / ROUNDS, reads.bytes_read / 1e6 / ROUNDS, reads.bytes_ridden / 1e6 / ROUNDS);
}

static void compare_sets(Bench *bench, const Engines *engines, char *const *queries, int n, const int *connections,
                         int n_connections)
{
    static char names[MOST_WAYS][64];
    Sessions on = sessions_new(engines->weft, n, NULL), off = sessions_new(engines->weft, n, SHARING_OFF);
    Way ways[MOST_WAYS] = { { .name = "Weft, at once", .is_weft = true, .sessions = &on },
                            { .name = "Weft, at once, sharing off", .is_weft = true, .sessions = &off },
                            { .name = "Weft, one after the other", .is_weft = true, .peer = engines->weft },
                            { .name = "DuckDB, one after the other", .peer = engines->duckdb } };
    int n_ways = 4;
    for (int c = 0; c < n_connections; c++) {
        snprintf(names[c], sizeof names[c], "DuckDB, %d connections", connections[c]);
        ways[n_ways++] = (Way){ .name = names[c], .crew = crew_new(engines->duckdb, connections[c], NULL) };
    }
    check_all(engines, queries, n);
    check_together(engines, &on, queries, n);
    warm_together(&on, queries, n);
    time_ways(ways, n_ways, queries, n, bench->options.repeats);
    say_ways(bench, ways, n_ways, n);
    say_reads(bench, engines->weft, &on, queries, n);
    for (int w = 4; w < n_ways; w++)
        crew_free(ways[w].crew);
    sessions_free(&on);
    sessions_free(&off);
}

static void part_thirteen(Bench *bench, const Engines *engines)
{
    char *queries[MAX_QUERIES];
    for (int q = 0; q < bench->n_queries; q++)
        queries[q] = bench->queries[q].sql;
    say(bench, "## The %d SSB queries at once; best of %d alternating runs\n\n", bench->n_queries, bench->options.repeats);
    compare_sets(bench, engines, queries, bench->n_queries, (int[]){ bench->n_queries }, 1);
}

static void part_random(Bench *bench, const Engines *engines)
{
    char **queries = draw_queries(-1, N_RANDOM, settings.seed);
    say(bench, "## %d SSB queries with random constants (seed %llu); best of %d alternating runs\n\n", N_RANDOM,
        (unsigned long long)settings.seed, bench->options.repeats);
    compare_sets(bench, engines, queries, N_RANDOM, (int[]){ 2, 4, 8 }, 3);
    free_queries(queries, N_RANDOM);
}

// ---- loop: clients that come back ------------------------------------------------------------------------------------------

static const char *const SMALL[] = { "select count(*) from supplier where s_region = 'ASIA'",
                                     "select count(*) from supplier where s_region = 'EUROPE'",
                                     "select count(*) from supplier where s_region = 'AFRICA'" };

typedef struct LoopSide {              // an engine in one setting
    const char *name;
    Peer       *peer;
    const char *setting;
    bool        is_weft;
    int         most_clients;
    double      small_alone_ms;
} LoopSide;

typedef struct LoopRow { int n_clients; const LoopSide *side; LoopFigures figures, beside; Reads reads; } LoopRow;

static Loop large_loop(char *const *queries, double share, int n_clients)
{
    return (Loop){ .queries = queries, .n_queries = N_RANDOM, .min_ms = settings.seconds * 1e3 * share,
                   .min_done = 2 * (size_t)n_clients, .seed = settings.seed };
}

static void measure_loop(LoopRow *row, char *const *queries)
{
    const LoopSide *side = row->side;
    LoopFigures warm;
    Crew *crew = crew_new(side->peer, row->n_clients, side->setting);
    Loop loop = large_loop(queries, 0.3, row->n_clients);
    crew_loop(crew, &loop, &warm);
    Reads before = side->is_weft ? reads_now(side->peer) : (Reads){ 0 };
    loop = large_loop(queries, 1, row->n_clients);
    crew_loop(crew, &loop, &row->figures);
    if (side->is_weft)
        row->reads = reads_since(side->peer, &before);
    loop = large_loop(queries, 0.7, row->n_clients);
    loop.small = SMALL;
    loop.n_small = COUNT(SMALL);
    loop.pause_ms = 5;
    loop.min_done = 20;
    crew_loop(crew, &loop, &row->beside);
    crew_free(crew);
}

static void say_loop(Bench *bench, const LoopRow *row)
{
    const LoopFigures *f = &row->figures;
    double n = (double)f->large.n;
    say(bench, "| %d | %s | %.1f | %.2f | %.2f | %.2f | %.2f |", row->n_clients, row->side->name, f->per_second, f->large.p50,
        f->large.p95, f->large.p99, f->large.max);
    if (row->side->is_weft)
        say(bench, " %.2f | %.2f | %.2f |\n", row->reads.bytes_read / 1e6 / n, row->reads.bytes_ridden / 1e6 / n,
            row->reads.times_read / n);
    else
        say(bench, " | | |\n");
}

static void say_small(Bench *bench, const LoopRow *row)
{
    const Latencies *small = &row->beside.small;
    double alone = row->side->small_alone_ms;
    say(bench, "| %d | %s | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f |\n", row->n_clients, row->side->name, small->p50,
        small->p95, small->p99, small->max, small->p50 / alone, small->max / alone);
}

static int client_counts(int counts[16])
{
    int n = 0;
    for (int clients = 1; clients <= MOST_CLIENTS; clients *= settings.is_quick ? 4 : 2)
        counts[n++] = clients;
    return n;
}

static void find_small_alone(LoopSide *side, char *const *queries)
{
    LoopFigures figures;
    Crew *crew = crew_new(side->peer, 1, side->setting);
    Loop loop = large_loop(queries, 0.3, 1);
    loop.small = SMALL;
    loop.n_small = COUNT(SMALL);
    loop.pause_ms = 5;
    loop.min_done = 30;
    crew_loop(crew, &loop, &figures);
    side->small_alone_ms = figures.small.p50;
    crew_free(crew);
}

static void part_loop(Bench *bench, const Engines *engines)
{
    LoopSide sides[] = { { "Weft", engines->weft, NULL, true, MOST_CLIENTS, 0 },
                         { "Weft, sharing off", engines->weft, SHARING_OFF, true, MOST_CLIENTS, 0 },
                         { "DuckDB", engines->duckdb, NULL, false, MOST_DUCKDB_CLIENTS, 0 } };
    int counts[16], n_counts = client_counts(counts), n_rows = 0;
    LoopRow rows[COUNT(sides) * 16];
    char **queries = draw_queries(-1, N_RANDOM, settings.seed);
    check_all(engines, queries, N_RANDOM);
    for (int s = 0; s < COUNT(sides); s++)
        find_small_alone(&sides[s], queries);
    say(bench, "## Closed loops: each client runs one of %d random queries after the other, for %g s\n\n", N_RANDOM,
        settings.seconds);
    say(bench, "| clients | engine | queries/s | p50 ms | p95 ms | p99 ms | max ms | MB read per query | without sharing | "
               "lineorder reads per query |\n| --: | :-- | --: | --: | --: | --: | --: | --: | --: | --: |\n");
    for (int c = 0; c < n_counts; c++)
        for (int s = 0; s < COUNT(sides); s++) {
            if (counts[c] > sides[s].most_clients)
                continue;
            progress(sides[s].name, counts[c]);
            LoopRow *row = &rows[n_rows++];
            *row = (LoopRow){ .n_clients = counts[c], .side = &sides[s] };
            measure_loop(row, queries);
            say_loop(bench, row);
        }
    say(bench, "\n### A small query among them\n\n`%s` and the like, with 5 ms between two, while the other clients run "
               "large queries.  Slowdown is against the median alone.\n\n", SMALL[0]);
    say(bench, "| clients | engine | p50 ms | p95 ms | p99 ms | max ms | slowdown | worst |\n"
               "| --: | :-- | --: | --: | --: | --: | --: | --: |\n");
    for (int r = 0; r < n_rows; r++)
        say_small(bench, &rows[r]);
    say(bench, "\n");
    free_queries(queries, N_RANDOM);
}

// ---- marginal: one more of the same shape -----------------------------------------------------------------------------------

// Least squares: TIMES as a line over NUMBERS.
static void fit_line(const int *numbers, const double *times, int n, double *slope, double *intercept)
{
    double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
    for (int i = 0; i < n; i++) {
        sum_x += numbers[i];
        sum_y += times[i];
        sum_xx += (double)numbers[i] * numbers[i];
        sum_xy += numbers[i] * times[i];
    }
    *slope = (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x);
    *intercept = (sum_y - *slope * sum_x) / n;
}

static void part_marginal(Bench *bench, const Engines *engines)
{
    static const int NUMBERS[] = { 1, 2, 4, 8, 16, 32, 48, 64 };
    enum { N_NUMBERS = COUNT(NUMBERS), MOST = 64 };
    double best[N_NUMBERS], best_off[N_NUMBERS], slope, intercept;
    char **queries = draw_queries(TEMPLATE_Q11, MOST, settings.seed);
    Sessions on = sessions_new(engines->weft, MOST, NULL), off = sessions_new(engines->weft, MOST, SHARING_OFF);
    check_all(engines, queries, MOST);
    for (int i = 0; i < N_NUMBERS; i++) {
        best[i] = best_off[i] = INFINITY;
        warm_together(&on, queries, NUMBERS[i]);
    }
    for (int r = 0; r < 2 * bench->options.repeats; r++) {
        progress("round", r + 1);
        for (int i = 0; i < N_NUMBERS; i++) {
            best[i] = fmin(best[i], submit_all(&on, queries, NUMBERS[i]));
            if (r < bench->options.repeats)
                best_off[i] = fmin(best_off[i], submit_all(&off, queries, NUMBERS[i]));
        }
    }
    say(bench, "## One more query of the same shape: Q1.1 with other constants, N at once; best of %d\n\n",
        2 * bench->options.repeats);
    say(bench, "| queries | ms | per query | sharing off, ms |\n| --: | --: | --: | --: |\n");
    for (int i = 0; i < N_NUMBERS; i++)
        say(bench, "| %d | %.2f | %.3f | %.2f |\n", NUMBERS[i], best[i], best[i] / NUMBERS[i], best_off[i]);
    fit_line(NUMBERS, best, N_NUMBERS, &slope, &intercept);
    say(bench, "\nA line through these points: %.3f ms for each query, %.2f ms besides.  One more costs **%.1f %%** of one alone "
               "(%.2f ms).\n", slope, intercept, 100 * slope / best[0], best[0]);
    fit_line(NUMBERS + 4, best + 4, N_NUMBERS - 4, &slope, &intercept);
    say(bench, "From 16 queries on: %.3f ms for each, %.1f %% of one alone.\n\n", slope, 100 * slope / best[0]);
    sessions_free(&on);
    sessions_free(&off);
    free_queries(queries, MOST);
}

// ---- alone: does sharing cost anything when there is nobody to share with? ----------------------------------------------------

static void part_alone(Bench *bench, const Engines *engines)
{
    int repeats = 4 * bench->options.repeats;
    double sum_on = 0, sum_off = 0;
    Sessions on = sessions_new(engines->weft, 1, NULL), off = sessions_new(engines->weft, 1, SHARING_OFF);
    say(bench, "## One query alone, sharing on and off; best of %d alternating runs\n\n", repeats);
    say(bench, "| query | on, ms | off, ms | on / off |\n| :-- | --: | --: | --: |\n");
    for (int q = 0; q < bench->n_queries; q++) {
        char *sql = bench->queries[q].sql;
        double best_on = INFINITY, best_off = INFINITY;
        check_all(engines, &sql, 1);
        for (int r = -2; r < repeats; r++) {
            bool is_first = r & 1;                         // who comes second finds the cache warmer
            double first = run_in_turn(is_first ? on.peers[0] : off.peers[0], &sql, 1);
            double second = run_in_turn(is_first ? off.peers[0] : on.peers[0], &sql, 1);
            if (r < 0)
                continue;
            best_on = fmin(best_on, is_first ? first : second);
            best_off = fmin(best_off, is_first ? second : first);
        }
        say(bench, "| %s | %.3f | %.3f | %.3f |\n", bench->queries[q].name, best_on, best_off, best_on / best_off);
        sum_on += best_on;
        sum_off += best_off;
    }
    say(bench, "| sum | %.3f | %.3f | **%.3f** |\n\n", sum_on, sum_off, sum_on / sum_off);
    sessions_free(&on);
    sessions_free(&off);
}

// ---- attach: getting on while a scan runs ----------------------------------------------------------------------------------

// Queries that statistics confine to a chunk: orders lie in the table in the order of their keys.
static char **draw_probes(Peer *weft)
{
    int most = (int)sum_of(weft, "select max(lo_orderkey) from lineorder");
    uint64_t state = settings.seed;
    char **probes = calloc(N_PROBES, sizeof(char *));
    for (int i = 0; i < N_PROBES; i++) {
        int first = draw_between(&state, 1, most - 20);
        if (asprintf(&probes[i], "select count(*), sum(lo_revenue) from lineorder where lo_orderkey between %d and %d", first,
                     first + 20) < 0)
            abort();
    }
    return probes;
}

static void measure_probes(Peer *weft, int n_background, char *const *queries, char **probes, LoopFigures *figures)
{
    Crew *crew = crew_new(weft, n_background + 1, NULL);
    Loop loop = large_loop(queries, 1, n_background);
    loop.small = (const char *const *)probes;
    loop.n_small = N_PROBES;
    loop.pause_ms = 3;
    loop.min_done = N_PROBES;
    crew_loop(crew, &loop, figures);
    crew_free(crew);
}

// Wall time per chunk of lineorder while BACKGROUND clients keep its scan going.
static double chunk_ms(Peer *weft, char *const *queries)
{
    LoopFigures figures;
    Crew *crew = crew_new(weft, BACKGROUND, NULL);
    Loop loop = large_loop(queries, 0.5, BACKGROUND);
    crew_loop(crew, &loop, &figures);
    Reads before = reads_now(weft);
    crew_loop(crew, &loop, &figures);
    Reads reads = reads_since(weft, &before);
    crew_free(crew);
    return figures.time_ms / reads.chunks_read;
}

static void part_attach(Bench *bench, const Engines *engines)
{
    LoopFigures alone, among;
    char **queries = draw_queries(-1, N_RANDOM, settings.seed), **probes = draw_probes(engines->weft);
    check_all(engines, queries, N_RANDOM);
    check_all(engines, probes, 3);
    double chunk = chunk_ms(engines->weft, queries);
    measure_probes(engines->weft, 0, queries, probes, &alone);
    measure_probes(engines->weft, BACKGROUND, queries, probes, &among);
    say(bench, "## Getting on a running scan: a query that needs one chunk of lineorder, beside %d clients\n\n", BACKGROUND);
    say(bench, "| | p50 ms | p95 ms | p99 ms | max ms |\n| :-- | --: | --: | --: | --: |\n");
    say(bench, "| alone | %.2f | %.2f | %.2f | %.2f |\n", alone.small.p50, alone.small.p95, alone.small.p99, alone.small.max);
    say(bench, "| beside others | %.2f | %.2f | %.2f | %.2f |\n", among.small.p50, among.small.p95, among.small.p99,
        among.small.max);
    double wait_p50 = (among.small.p50 - alone.small.p50) / chunk, wait_p99 = (among.small.p99 - alone.small.p50) / chunk;
    say(bench, "\nThe scan goes through a chunk in %.2f ms on average.  What the query takes more than alone, which is waiting for "
               "the next chunk and having its own pushed together with others: %.2f chunk times at the median, **%.2f** at "
               "p99 (%zu queries).\n\n", chunk, wait_p50, wait_p99, among.small.n);
    free_queries(queries, N_RANDOM);
    free_queries(probes, N_PROBES);
}

// ---- main ---------------------------------------------------------------------------------------------------------------

static bool parse_options(int argc, char **argv, Options *options)
{
    enum { DB, TBL, SSB, DUCKDB, SCRATCH, SCALE, PARTS, RECORD, THREADS, REPEATS, COMMAND, SECONDS, SEED, QUICK };
    static const struct option LONG[] = { { "db", 1, NULL, DB },           { "tbl", 1, NULL, TBL },
                                          { "ssb", 1, NULL, SSB },         { "duckdb", 1, NULL, DUCKDB },
                                          { "scratch", 1, NULL, SCRATCH }, { "scale", 1, NULL, SCALE },
                                          { "parts", 1, NULL, PARTS },     { "record", 1, NULL, RECORD },
                                          { "threads", 1, NULL, THREADS }, { "repeats", 1, NULL, REPEATS },
                                          { "command", 1, NULL, COMMAND }, { "seconds", 1, NULL, SECONDS },
                                          { "seed", 1, NULL, SEED },       { "quick", 0, NULL, QUICK },
                                          { 0 } };
    *options = (Options){ .ssb = "bench/ssb", .scale = "1", .parts = "thirteen,random,loop,marginal,alone,attach",
                          .threads = 2, .program = argv[0], .command = "bench/concurrency/run.sh" };
    settings = (struct Settings){ .seed = 1 };
    const char **texts[] = { &options->db,      &options->tbl,   &options->ssb,   &options->duckdb,
                             &options->scratch, &options->scale, &options->parts, &options->record };
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (option) {
        case THREADS: options->threads = atoi(optarg); break;
        case REPEATS: options->repeats = atoi(optarg); break;
        case COMMAND: snprintf(options->command, sizeof options->command, "%s", optarg); break;
        case SECONDS: settings.seconds = atof(optarg); break;
        case SEED:    settings.seed = strtoull(optarg, NULL, 10); break;
        case QUICK:   settings.is_quick = true; break;
        default:
            if (option < 0 || option >= COUNT(texts))
                return false;
            *texts[option] = optarg;
        }
    }
    options->repeats = options->repeats ? options->repeats : settings.is_quick ? 3 : 10;
    settings.seconds = settings.seconds > 0 ? settings.seconds : settings.is_quick ? 0.5 : 4;
    return optind == argc && options->db && options->tbl && options->duckdb && options->scratch &&
           options->threads > 0 && options->repeats > 0;
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
    };
    static Bench bench;
    if (!parse_options(argc, argv, &bench.options)) {
        fprintf(stderr,
                "usage: concurrency --db DB --tbl DIR --ssb DIR --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N]\n"
                "           [--seconds S] [--seed N] [--scale SF] [--quick] [--record FILE]\n"
                "           [--parts thirteen,random,loop,marginal,alone,attach]\n");
        return 2;
    }
    keep_to_cores(bench.options.threads);
    bench_begin(&bench);
    write_heading(&bench, "Many queries at once");
    Engines engines = { open_weft(&bench), open_duckdb(&bench) };
    for (int p = 0; p < COUNT(PARTS); p++)
        if (strstr(bench.options.parts, PARTS[p].name))
            PARTS[p].run(&bench, &engines);
    peer_close(engines.weft);
    peer_close(engines.duckdb);
    bench_end(&bench);
    return 0;
}
