// cubes.c - queries of the thirteen SSB shapes with random constants, many at once: each gives what it gives alone.
//
//     cubes DB [--queries N] [--seed N] [--shapes all]  what tests/check-cubes runs; DB: what `weft gen ssb` makes
//     WEFT_DEVICE=cuda cubes DB                         the same on a GPU
//
// A shape of each flight, or all, and one of our own.  Each is submitted again and again, in groups of 2 to N, until
// its queries were one body; meanwhile rows arrive that no query wants (their order date is in no row of date), and
// queries are cancelled.  Then all shapes at once.

#define _GNU_SOURCE
#include "../../bench/concurrency/concurrency.h"
#include "engine/engine.h"
#include "engine/gpus.h"

#include <stdlib.h>

enum { SHAPE_SEVERAL = N_SHAPES };      // behind those of SSB: groups by several columns of one dimension
enum { ROUNDS = 3, ROUNDS_MOST = 30, ROUNDS_GPU = 6, MOST_QUERIES = 300, MOST_ADDED = 20, N_MIXED = 256 };

static weft_db      *db;
static weft_session *sessions[MOST_QUERIES], *alone, *writer;
static weft_error    error;
static int           n_passed, n_failed, n_added;

static void ended(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, error.message);
    exit(1);
}

static void run(weft_session *session, const char *sql)
{
    weft_result *result;
    if (weft_query(session, sql, &result, &error)) ended(sql);
    weft_result_free(result);
}

static char *as_text(const weft_result *result)
{
    char  *text = NULL, cell[200];
    size_t length;
    FILE  *out = open_memstream(&text, &length);
    for (size_t row = 0; row < weft_result_rows(result); row++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            weft_format(result, c, row, cell, sizeof cell);
            fprintf(out, "%s%c", cell, c + 1 < weft_result_columns(result) ? '|' : '\n');
        }
    fclose(out);
    return text;
}

static char *answer_alone(const char *sql)
{
    weft_result *result;
    if (weft_query(alone, sql, &result, &error)) ended(sql);
    char *text = as_text(result);
    weft_result_free(result);
    return text;
}

// The rows once more in many small chunks, so that queries meet on the way.
static void cut_chunks(void)
{
    char  *schema = calloc(1, 1 << 16);
    FILE  *file = fopen("bench/ssb/schema.sql", "r");
    size_t length = file ? fread(schema, 1, (1 << 16) - 1, file) : 0;
    char  *create = length ? strstr(schema, "create table lineorder") : NULL;
    if (!create) ended("bench/ssb/schema.sql");
    create[weft_statement_length(create)] = 0;
    run(writer, "set chunk_rows = 65536");
    run(writer, "create table whole as select * from lineorder");
    run(writer, "drop table lineorder");
    run(writer, create);
    run(writer, "insert into lineorder select * from whole");
    run(writer, "drop table whole");
    fclose(file);
    free(schema);
}

static ScanFigures figures(void)
{
    Arena       *arena = arena_new(NULL, "figures");
    ScanFigures  found = { 0 };
    const DeviceFigures all = gpus_figures_with(db->gpus, db->cpu, arena);
    for (int i = 0; i < all.n_scans; i++)
        if (strcmp(all.scans[i].table, "lineorder") == 0) found = all.scans[i];
    arena_free(arena);
    return found;
}

// Some that no query wants: their order dates are not in date.  Their chunk has columns of the same widths as others:
// queries over columns of several widths are never one body.
static void add_rows(void)
{
    run(writer, "insert into lineorder select lo_orderkey, lo_linenumber, lo_custkey, lo_partkey, lo_suppkey, "
                "case when lo_linenumber = 1 then 19910101 else 19971399 end, lo_orderpriority, lo_shippriority, "
                "lo_quantity, lo_extendedprice, lo_ordertotalprice, lo_discount, lo_revenue, lo_supplycost, lo_tax, "
                "lo_commitdate, lo_shipmode from lineorder where lo_orderkey < 300 and lo_orderdate not in (19910101, "
                "19971399)");
}

static bool saw_body;                  // over joins, from outside

static void look_at_bodies(void)
{
    char *bodies = answer_alone("select distinct woven_as, substr(shared_kernel, 1, 2), classes > 0 and slots > 0 and "
                                "cells >= slots and expected_gain > 0 from weft_riders where classes > 0");
    char *network = answer_alone("explain (network) select 1");
    saw_body |= strstr(bodies, "one body|j_|t\n") && strstr(network, "; over joins: ");
    free(bodies);
    free(network);
}

// Every FIFTH-th is cancelled; 0: none.
static void check_at_once(char *const *queries, char *const *answers, int n, int fifth)
{
    weft_task *tasks[MOST_QUERIES];
    for (int i = 0; i < n; i++) {
        if (weft_submit(sessions[i], queries[i], &tasks[i], &error)) ended(queries[i]);
        if (i == n / 2 && n_added++ < MOST_ADDED) add_rows();
    }
    while (!fifth && !weft_is_done(tasks[n - 1]) && !saw_body) look_at_bodies();
    for (int i = 0; fifth && i < n; i += fifth) weft_cancel(sessions[i]);
    for (int i = 0; i < n; i++) {
        weft_result      *result = NULL;
        const weft_status status = weft_wait(tasks[i], &result, &error);
        if (status == WEFT_QUERY_CANCELED && fifth && i % fifth == 0) continue;
        if (status) ended(queries[i]);
        char *text = as_text(result);
        if (strcmp(text, answers[i]) == 0) n_passed++;
        else if (n_failed++ < 3)
            printf("differs among %d:\n%s\nalone\n%stogether\n%s", n, queries[i], answers[i], text);
        free(text);
        weft_result_free(result);
    }
    jit_wait_idle(db->jit);
}

static char **answers_of(char *const *queries, int n)
{
    char **answers = calloc((size_t)n, sizeof *answers);
    for (int i = 0; i < n; i++) answers[i] = answer_alone(queries[i]);
    return answers;
}

// Group keys of one table in an order that is not the table's, with another table's between them.
static char **draw_several(int n, uint64_t seed)
{
    char **queries = calloc((size_t)n, sizeof *queries);
    for (int q = 0; q < n; q++) {
        const int year = draw_between(&seed, 1992, 1997), city = draw_between(&seed, 0, 7);
        if (asprintf(&queries[q],
                     "select c_region, s_nation, d_year, c_nation, s_region, c_mktsegment, sum(lo_revenue), count(*), "
                     "min(lo_discount) from lineorder, customer, supplier, date\n"
                     "where lo_custkey = c_custkey and lo_suppkey = s_suppkey and lo_orderdate = d_datekey\n"
                     "and c_city between 'A' and '%c' and s_city like '%%%d' and d_year between %d and %d\n"
                     "group by d_year, c_nation, s_region, c_region, c_mktsegment, s_nation\n"
                     "order by d_year, c_nation, c_mktsegment, s_nation",
                     draw_between(&seed, 'B', 'V'), city, year, year + draw_between(&seed, 0, 2)) < 0)
            exit(1);
    }
    return queries;
}

// Whether its queries were ever in a cube.
static void check_shape(int shape, int n, uint64_t seed)
{
    char            **queries = shape == SHAPE_SEVERAL ? draw_several(n, seed) : draw_queries(shape, n, seed);
    char            **answers = answers_of(queries, n);
    const ScanFigures before = figures();
    const int         rounds_most = getenv("WEFT_DEVICE") ? ROUNDS_GPU : ROUNDS_MOST;
    bool              is_cubed = false;
    for (int round = 0; round < ROUNDS || (round < rounds_most && !is_cubed); round++) {
        check_at_once(queries, answers, round % 4 == 1 ? 2 + round % (n - 1) : n, round % 3 == 2 ? 5 : 0);
        is_cubed = figures().rides_cubed > before.rides_cubed;
    }
    const ScanFigures after = figures();
    printf("shape %2d: %llu rides, %llu in cubes, %llu of them over joins\n", shape + 1,
           (unsigned long long)(after.n_rides - before.n_rides),
           (unsigned long long)(after.rides_cubed - before.rides_cubed),
           (unsigned long long)(after.rides_join_cubed - before.rides_join_cubed));
    // On a GPU it pays from some number of queries on, and so many need not meet (tests/gpu/join_cubed.c sees to that).
    if (shape > 2 && after.rides_join_cubed == before.rides_join_cubed && !getenv("WEFT_DEVICE")) {
        printf("shape %d was never one body over joins\n", shape + 1);
        n_failed++;
    }
    free_queries(queries, n);
    free_queries(answers, n);
}

static void check_mixed(uint64_t seed)
{
    char **queries = draw_queries(-1, N_MIXED, seed), **answers = answers_of(queries, N_MIXED);
    for (int round = 0; round < 2; round++) check_at_once(queries, answers, N_MIXED, 7 * round);
    free_queries(queries, N_MIXED);
    free_queries(answers, N_MIXED);
}

int main(int argc, char **argv)
{
    int      n = 20;
    bool     is_all = false;
    uint64_t seed = 1;
    for (int a = 2; a + 1 < argc; a += 2) {
        if (strcmp(argv[a], "--queries") == 0) n = MIN_OF(MAX_OF(atoi(argv[a + 1]), 2), 100);
        else if (strcmp(argv[a], "--seed") == 0) seed = strtoull(argv[a + 1], NULL, 10);
        else if (strcmp(argv[a], "--shapes") == 0) is_all = strcmp(argv[a + 1], "all") == 0;
    }
    if (argc < 2 || weft_open(argv[1], &db, &error)) return 2;
    for (int i = 0; i < MOST_QUERIES; i++)
        if (weft_connect(db, &sessions[i], &error)) return 2;
    if (weft_connect(db, &alone, &error) || weft_connect(db, &writer, &error)) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    run(alone, "set sharing = off");
    cut_chunks();
    for (int shape = 0; shape <= SHAPE_SEVERAL; shape++)
        if (is_all || shape == 0 || shape == 4 || shape == 7 || shape == 12 || shape == SHAPE_SEVERAL)
            check_shape(shape, n, seed);
    if (is_all) check_mixed(seed + 1);
    for (int round = 0; round < ROUNDS_MOST && !saw_body && !getenv("WEFT_DEVICE"); round++)
        check_shape(7, n, seed + (uint64_t)round);
    if (!saw_body && !getenv("WEFT_DEVICE")) printf("no body over joins was seen from outside\n"), n_failed++;
    for (int i = 0; i < MOST_QUERIES; i++) weft_disconnect(sessions[i]);
    weft_disconnect(alone);
    weft_disconnect(writer);
    if (jit_counts(db->jit)->failures) printf("a kernel did not compile\n"), n_failed++;
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
