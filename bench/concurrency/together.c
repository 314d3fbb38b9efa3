// together.c - sets of queries submitted at once, and single queries: the parts thirteen, random, marginal and alone.

#define _GNU_SOURCE
#include "concurrency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_ROUNDS = 5, MOST_TOGETHER = 64 };

// ---- queries submitted together ----------------------------------------------------------------------------------

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
    weft_task *tasks[MOST_TOGETHER];
    weft_result *results[MOST_TOGETHER];
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

// The answers of queries that run together are those that DuckDB gives one by one.
static void check_together(const Engines *engines, const Sessions *sessions, char *const *queries, int n)
{
    weft_task *tasks[MOST_TOGETHER];
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

// Kernels for several queries are compiled in the background when these meet: let them meet, and wait for the compiler.
static void warm_together(const Sessions *sessions, char *const *queries, int n)
{
    for (int i = 0; i < WARM_ROUNDS; i++) {
        submit_all(sessions, queries, n);
        usleep(200000);
    }
}

// ---- thirteen, random: a set of queries at once ------------------------------------------------------------------

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
    say(bench, "At once, lineorder is read %.2f times for %.1f scans of it (without sharing %.2f times), and %.1f MB "
               "are read in all (without sharing %.1f).\n\n", reads.times_read / ROUNDS, reads.rides / ROUNDS,
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

void part_thirteen(Bench *bench, const Engines *engines)
{
    char *queries[MAX_QUERIES];
    for (int q = 0; q < bench->n_queries; q++)
        queries[q] = bench->queries[q].sql;
    say(bench, "## The %d SSB queries at once; best of %d alternating runs\n\n", bench->n_queries,
        bench->options.repeats);
    compare_sets(bench, engines, queries, bench->n_queries, (int[]){ bench->n_queries }, 1);
}

void part_random(Bench *bench, const Engines *engines)
{
    char **queries = draw_queries(-1, N_RANDOM, settings.seed);
    say(bench, "## %d SSB queries with random constants (seed %llu); best of %d alternating runs\n\n", N_RANDOM,
        (unsigned long long)settings.seed, bench->options.repeats);
    compare_sets(bench, engines, queries, N_RANDOM, (int[]){ 2, 4, 8, N_RANDOM }, 4);
    free_queries(queries, N_RANDOM);
}

// ---- marginal: one more of the same shape ------------------------------------------------------------------------

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

void part_marginal(Bench *bench, const Engines *engines)
{
    static const int NUMBERS[] = { 1, 2, 4, 8, 16, 32, 48, 64 };
    enum { N_NUMBERS = COUNT(NUMBERS), MOST = 64 };
    double best[N_NUMBERS], best_off[N_NUMBERS], slope, intercept;
    char **queries = draw_queries(SHAPE_Q11, MOST, settings.seed);
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
    say(bench, "\nA line through these points: %.3f ms for each query, %.2f ms besides.  One more costs **%.1f %%** of "
               "one alone (%.2f ms).\n", slope, intercept, 100 * slope / best[0], best[0]);
    fit_line(NUMBERS + 4, best + 4, N_NUMBERS - 4, &slope, &intercept);
    say(bench, "From 16 queries on: %.3f ms for each, %.1f %% of one alone.\n\n", slope, 100 * slope / best[0]);
    sessions_free(&on);
    sessions_free(&off);
    free_queries(queries, MOST);
}

// ---- alone: does sharing cost anything when there is nobody to share with? ---------------------------------------

void part_alone(Bench *bench, const Engines *engines)
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

