// loops.c - clients that come back for more: the parts loop and attach.

#define _GNU_SOURCE
#include "concurrency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLIENTS = 256, BACKGROUND = 8, N_PROBES = 200 };

// ---- loop: clients that come back --------------------------------------------------------------------------------

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
    say(bench, "| %d | %s | %.1f | %.2f | %.2f | %.2f | %.2f |", row->n_clients, row->side->name, f->per_second,
        f->large.p50, f->large.p95, f->large.p99, f->large.max);
    if (row->side->is_weft)
        say(bench, " %.2f | %.2f |\n", row->reads.bytes_read / 1e6 / n, row->reads.times_read / n);
    else
        say(bench, " | |\n");
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

void part_loop(Bench *bench, const Engines *engines)
{
    LoopSide sides[] = { { "Weft", engines->weft, NULL, true, MOST_CLIENTS, 0 },
                         { "Weft, sharing off", engines->weft, SHARING_OFF, true, MOST_CLIENTS, 0 },
                         { "DuckDB", engines->duckdb, NULL, false, settings.duckdb_clients, 0 } };
    int counts[16], n_counts = client_counts(counts), n_rows = 0;
    LoopRow rows[COUNT(sides) * 16];
    char **queries = draw_queries(-1, N_RANDOM, settings.seed);
    check_all(engines, queries, N_RANDOM);
    for (int s = 0; s < COUNT(sides); s++)
        find_small_alone(&sides[s], queries);
    say(bench, "## Closed loops: each client runs one of %d random queries after the other, for %g s\n\n", N_RANDOM,
        settings.seconds);
    say(bench, "| clients | engine | queries/s | p50 ms | p95 ms | p99 ms | max ms | MB read per query | "
               "lineorder reads per query |\n| --: | :-- | --: | --: | --: | --: | --: | --: | --: |\n");
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
    say(bench, "\n### A small query among them\n\n`%s` and the like, with 5 ms between two, while the other clients "
               "run large queries.  Slowdown is against the median alone.\n\n", SMALL[0]);
    say(bench, "| clients | engine | p50 ms | p95 ms | p99 ms | max ms | slowdown | worst |\n"
               "| --: | :-- | --: | --: | --: | --: | --: | --: |\n");
    for (int r = 0; r < n_rows; r++)
        say_small(bench, &rows[r]);
    say(bench, "\n");
    free_queries(queries, N_RANDOM);
}

// ---- attach: getting on while a scan runs ------------------------------------------------------------------------

// Queries that statistics confine to a chunk: orders lie in the table in the order of their keys.
static char **draw_probes(Peer *weft)
{
    int most = (int)sum_of(weft, "select max(lo_orderkey) from lineorder");
    uint64_t state = settings.seed;
    char **probes = calloc(N_PROBES, sizeof(char *));
    for (int i = 0; i < N_PROBES; i++) {
        int first = draw_between(&state, 1, most - 20);
        if (asprintf(&probes[i], "select count(*), sum(lo_revenue) from lineorder where lo_orderkey between %d and %d",
                     first, first + 20) < 0)
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

// How long the query waited until a chunk was opened with it on, as EXPLAIN ANALYZE says; 0: nobody else was there.
static double wait_ms(Peer *peer, const char *sql)
{
    Rows rows;
    char *explain;
    double most = 0;
    if (asprintf(&explain, "explain analyze %s", sql) < 0)
        abort();
    must(peer, peer_run(peer, explain, &rows), explain);
    for (size_t row = 0; row < rows.n_rows; row++) {
        const char *line = rows_cell(&rows, row, 0), *at = line ? strstr(line, "got on a running scan after ") : NULL;
        if (at)
            most = fmax(most, atof(at + strlen("got on a running scan after ")));
    }
    rows_free(&rows);
    free(explain);
    return most;
}

static void measure_waits(Peer *weft, char *const *queries, LoopFigures *figures)
{
    Crew *crew = crew_new(weft, BACKGROUND + 1, NULL);
    Loop loop = large_loop(queries, 1, BACKGROUND);
    loop.small = (const char *const *)queries;
    loop.n_small = N_RANDOM;
    loop.pause_ms = 3;
    loop.min_done = N_PROBES;
    loop.sample = wait_ms;
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

static void say_probes(Bench *bench, const char *name, const Latencies *probes)
{
    say(bench, "| %s | %.2f | %.2f | %.2f | %.2f |\n", name, probes->p50, probes->p95, probes->p99, probes->max);
}

void part_attach(Bench *bench, const Engines *engines)
{
    LoopFigures alone, among, waits;
    char **queries = draw_queries(-1, N_RANDOM, settings.seed), **probes = draw_probes(engines->weft);
    check_all(engines, queries, N_RANDOM);
    check_all(engines, probes, 3);
    double chunk = chunk_ms(engines->weft, queries);
    measure_probes(engines->weft, 0, queries, probes, &alone);
    measure_probes(engines->weft, BACKGROUND, queries, probes, &among);
    measure_waits(engines->weft, queries, &waits);
    say(bench, "## Getting on a running scan, beside %d clients\n\n", BACKGROUND);
    say(bench,
        "A query that scans all of lineorder waits until the next chunk is opened: %.2f ms at the median, %.2f at "
        "p99, %.2f at most (%zu queries).  The scan goes through a chunk in %.2f ms on average, so the p99 is "
        "**%.2f** chunk times.\n\n",
        waits.small.p50, waits.small.p99, waits.small.max, waits.small.n, chunk, waits.small.p99 / chunk);
    say(bench, "A query that needs one chunk, from text to answer:\n\n");
    say(bench, "| | p50 ms | p95 ms | p99 ms | max ms |\n| :-- | --: | --: | --: | --: |\n");
    say_probes(bench, "alone", &alone.small);
    say_probes(bench, "beside others", &among.small);
    say(bench, "\nMore than alone: %.2f chunk times at the median, %.2f at p99 (%zu queries).\n\n",
        (among.small.p50 - alone.small.p50) / chunk, (among.small.p99 - alone.small.p50) / chunk, among.small.n);
    free_queries(queries, N_RANDOM);
    free_queries(probes, N_PROBES);
}

// ---- new: shapes that nobody has seen ----------------------------------------------------------------------------

// The sum of an expression in which columns and operators are drawn, other ones in every run: neither memory nor the
// cache on disk has code for it.
static char *draw_shape(uint64_t *state)
{
    static const char *const COLUMNS[] = { "lo_discount",   "lo_quantity",   "lo_tax",           "lo_revenue",
                                           "lo_supplycost", "lo_linenumber", "lo_extendedprice", "lo_custkey" };
    char *sql, expression[800] = "lo_revenue";
    for (int i = 0; i < 12; i++) {
        size_t length = strlen(expression);
        const char *sign = draw_between(state, 0, 1) ? "+" : "-";
        snprintf(expression + length, sizeof expression - length, " %s %s", sign,
                 COLUMNS[draw_between(state, 0, COUNT(COLUMNS) - 1)]);
    }
    if (asprintf(&sql, "select sum(%s) from lineorder where lo_discount between 1 and 3 and lo_quantity < 25",
                 expression) < 0)
        abort();
    return sql;
}

static char **draw_shapes(int n)
{
    char **queries = calloc((size_t)n, sizeof(char *));
    uint64_t state = (uint64_t)(now_ms() * 1e3) * 2654435761u + settings.seed;
    for (int i = 0; i < n; i++)
        queries[i] = draw_shape(&state);
    return queries;
}

// Milliseconds after WHAT in EXPLAIN ANALYZE's lines, the most of them.
static double explained_ms(const Rows *rows, const char *what, bool is_before)
{
    double most = 0;
    for (size_t row = 0; row < rows->n_rows; row++) {
        const char *line = rows_cell(rows, row, 0), *at = line ? strstr(line, what) : NULL;
        if (!at)
            continue;
        while (is_before && at > line && at[-1] != '+')
            at--;
        most = fmax(most, atof(is_before ? at : at + strlen(what)));
    }
    return most;
}

// From asking for code until the first chunk was opened.
static double first_chunk_ms(Peer *peer, const char *sql)
{
    Rows rows;
    char *explain;
    if (asprintf(&explain, "explain analyze %s", sql) < 0)
        abort();
    must(peer, peer_run(peer, explain, &rows), explain);
    double ms = explained_ms(&rows, " ms to get the code", true) +
                explained_ms(&rows, "got on a running scan after ", false);
    rows_free(&rows);
    free(explain);
    return ms;
}

// Clients that never ask for the same shape twice, while one asks for what is compiled already.
static void measure_beside_new(Peer *weft, char *const *queries, LoopFigures *figures)
{
    enum { N_SHAPES_BESIDE = 4000 };
    char **shapes = draw_shapes(N_SHAPES_BESIDE);
    Crew *crew = crew_new(weft, BACKGROUND + 1, NULL);
    Loop loop = { .queries = shapes, .n_queries = N_SHAPES_BESIDE, .min_ms = settings.seconds * 1e3,
                  .min_done = N_RANDOM, .seed = settings.seed, .small = (const char *const *)queries,
                  .n_small = N_RANDOM, .pause_ms = 3, .sample = wait_ms };
    crew_loop(crew, &loop, figures);
    crew_free(crew);
    free_queries(shapes, N_SHAPES_BESIDE);
}

void part_new(Bench *bench, const Engines *engines)
{
    enum { N_NEW = 160 };
    _Static_assert(BACKGROUND == 8, "the text says so");
    char **queries = draw_queries(-1, N_RANDOM, settings.seed), **shapes = draw_shapes(2 * N_NEW);
    LoopFigures beside;
    check_all(engines, queries, N_RANDOM);
    Crew *one = crew_new(engines->weft, 1, NULL), *many = crew_new(engines->weft, BACKGROUND, NULL);
    Latencies alone = crew_sample(one, shapes, N_NEW, first_chunk_ms);
    Reads before = reads_now(engines->weft);
    double start = now_ms();
    Latencies together = crew_sample(many, shapes + N_NEW, N_NEW, first_chunk_ms);
    double chunk = (now_ms() - start) / reads_since(engines->weft, &before).chunks_read;
    crew_free(one);
    crew_free(many);
    measure_beside_new(engines->weft, queries, &beside);
    say(bench,
        "## Getting on with new shapes\n\nQueries of shapes never seen before, until their first chunk is opened: "
        "compiling, and waiting.\n\n");
    say(bench, "| | p50 ms | p95 ms | p99 ms | max ms |\n| :-- | --: | --: | --: | --: |\n");
    say_probes(bench, "one client", &alone);
    say_probes(bench, "8 clients at once", &together);
    say_probes(bench, "one whose code is there, beside 8", &beside.small);
    say(bench,
        "\nThe scan goes through a chunk in %.2f ms on average then, most of it with tcc's code.  So the 8 wait, "
        "beyond "
        "what compiling takes alone, %.2f chunk times at the median and **%.2f** at p99; the one whose code is "
        "there %.2f at p99 (%zu queries).\n\n",
        chunk, (together.p50 - alone.p50) / chunk, (together.p99 - alone.p50) / chunk, beside.small.p99 / chunk,
        beside.small.n);
    free_queries(queries, N_RANDOM);
    free_queries(shapes, 2 * N_NEW);
}
