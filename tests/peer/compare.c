// compare.c - the queries of the Star Schema Benchmark, answered by Weft in every setting and by other engines.
//
//     compare --weft DB --tbl DIR --ssb bench/ssb [--sqlite] [--duckdb LIBRARY] [--threads N]
//     compare --weft DB --tbl DIR --ssb bench/setquery --table bench --duckdb LIBRARY         another benchmark, of one
//                                                                                             table
//
// The others load the same rows from the .tbl files that `weft gen ssb --tbl` wrote.  Their answers are taken once;
// Weft answers woven and unwoven, with each compiler.  Rows must be the same, and in an order that ORDER BY allows.
// The last line is "N passed, N failed", one for each query, setting and peer.

#define _GNU_SOURCE
#include "peer.h"

#include <getopt.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_QUERIES = 32, MAX_PEERS = 2, MAX_SORT = 8 };

static const char *const TABLES[] = { "part", "supplier", "customer", "date", "lineorder" };

static const struct { const char *weave, *jit; } SETTINGS[] = {
    { "on", "tcc" }, { "off", "tcc" }, { "on", "cc" }, { "off", "cc" }, { "on", "auto" }, { "off", "auto" },
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

typedef struct Options {
    const char *weft, *tbl, *ssb, *table, *duckdb;
    bool        use_sqlite;
    int         threads;
} Options;

typedef struct SsbQuery {
    char name[32];
    char *sql;
    int  n_sort;
    int  sort[MAX_SORT];               // result columns in ORDER BY
} SsbQuery;

typedef struct Answers {
    Peer *peer;
    Rows  rows[MAX_QUERIES];
} Answers;

static void die(const char *what, const char *why)
{
    printf("FAIL: %s: %s\n", what, why);
    exit(1);
}

// ---- queries ------------------------------------------------------------------------------------------------------

static int load_queries(const char *folder, SsbQuery *queries)
{
    char pattern[512];
    glob_t files;
    int n = 0;
    snprintf(pattern, sizeof pattern, "%s/queries/q*.sql", folder);
    if (glob(pattern, 0, NULL, &files))
        die(pattern, "no queries");
    for (size_t i = 0; i < files.gl_pathc && n < MAX_QUERIES; i++) {
        SsbQuery *query = &queries[n++];
        *query = (SsbQuery){ .sql = read_whole_file(files.gl_pathv[i]) };
        if (!query->sql)
            die(files.gl_pathv[i], "cannot be read");
        snprintf(query->name, sizeof query->name, "%s", basename(files.gl_pathv[i]));
        query->name[strcspn(query->name, ".")] = 0;
    }
    globfree(&files);
    return n;
}

// The columns named after ORDER BY, looked up among the columns of an answer.
static void find_sort_columns(SsbQuery *query, const Rows *rows)
{
    const char *order = strcasestr(query->sql, "order by");
    if (!order)
        return;
    char *list = strdup(order + strlen("order by")), *rest = list, *item;
    while ((item = strsep(&rest, ",;")) != NULL) {
        char word[64] = "";
        if (sscanf(item, " %63[A-Za-z0-9_]", word) != 1)
            continue;
        for (int c = 0; c < rows->n_columns; c++)
            if (!strcasecmp(rows->names[c], word) && query->n_sort < MAX_SORT)
                query->sort[query->n_sort++] = c;
    }
    free(list);
}

// ---- the others ---------------------------------------------------------------------------------------------------

static Peer *open_loaded(const Options *options, bool is_duckdb)
{
    char error[PEER_ERROR_BYTES] = "", path[512];
    Peer *peer = is_duckdb ? peer_open_duckdb(options->duckdb, NULL, error) : peer_open_sqlite(NULL, error);
    if (!peer)
        die(is_duckdb ? "duckdb" : "sqlite", error);
    snprintf(path, sizeof path, "%s/schema.sql", options->ssb);
    char *schema = read_whole_file(path);
    if (!schema || !peer_run(peer, schema, NULL))
        die(path, schema ? peer->error : "cannot be read");
    free(schema);
    for (int t = 0; t < (options->table ? 1 : COUNT(TABLES)); t++) {
        const char *table = options->table ? options->table : TABLES[t];
        snprintf(path, sizeof path, "%s/%s.tbl", options->tbl, table);
        if (!(is_duckdb ? peer_load_duckdb : peer_load_sqlite)(peer, table, path))
            die(path, peer->error);
    }
    return peer;
}

// Indexes for SQLite on the keys of the dimensions: without, it builds them anew in each query.
static void index_dimensions(Peer *sqlite)
{
    static const char *const KEYS[] = { "p_partkey", "s_suppkey", "c_custkey", "d_datekey" };
    for (int t = 0; t < COUNT(KEYS); t++)
        if (!peer_runf(sqlite, "create unique index key_of_%s on %s(%s)", TABLES[t], TABLES[t], KEYS[t]))
            die("sqlite", sqlite->error);
    if (!peer_run(sqlite, "analyze", NULL))
        die("sqlite", sqlite->error);
}

static void take_answers(Answers *answers, SsbQuery *queries, int n_queries)
{
    int n_empty = 0;
    for (int q = 0; q < n_queries; q++) {
        if (!peer_run(answers->peer, queries[q].sql, &answers->rows[q]))
            die(answers->peer->name, answers->peer->error);
        n_empty += answers->rows[q].n_rows == 0;
    }
    printf("%s: %d answers, %d of them empty\n", answers->peer->name, n_queries, n_empty);
    fflush(stdout);
}

static int open_peers(const Options *options, Answers *answers, SsbQuery *queries, int n_queries)
{
    int n = 0;
    if (options->use_sqlite) {
        answers[n].peer = open_loaded(options, false);
        if (!options->table)
            index_dimensions(answers[n].peer);
        n++;
    }
    if (options->duckdb)
        answers[n++].peer = open_loaded(options, true);
    for (int p = 0; p < n; p++)
        take_answers(&answers[p], queries, n_queries);
    return n;
}

// ---- Weft ---------------------------------------------------------------------------------------------------------

static bool agrees(const SsbQuery *query, const Rows *ours, const Answers *answers, int q, const char *setting)
{
    char *difference = rows_difference(ours, &answers->rows[q], NULL, query->sort, query->n_sort);
    if (difference)
        printf("FAIL %s (%s) against %s: %s\n", query->name, setting, answers->peer->name, difference);
    free(difference);
    return !difference;
}

static void check_setting(Peer *weft, int setting, SsbQuery *queries, int n_queries, const Answers *answers,
                          int n_peers, int *n_passed, int *n_failed)
{
    char name[64];
    int passed_before = *n_passed;
    snprintf(name, sizeof name, "weave = %s, jit = %s", SETTINGS[setting].weave, SETTINGS[setting].jit);
    if (!peer_runf(weft, "set weave = %s", SETTINGS[setting].weave) ||
        !peer_runf(weft, "set jit = %s", SETTINGS[setting].jit))
        die(name, weft->error);
    for (int q = 0; q < n_queries; q++) {
        Rows ours;
        if (!peer_run(weft, queries[q].sql, &ours)) {
            printf("FAIL %s (%s): %s\n", queries[q].name, name, weft->error);
            *n_failed += n_peers;
            continue;
        }
        for (int p = 0; p < n_peers; p++)
            *(agrees(&queries[q], &ours, &answers[p], q, name) ? n_passed : n_failed) += 1;
        rows_free(&ours);
    }
    printf("%-26s %d of %d agree\n", name, *n_passed - passed_before, n_queries * n_peers);
    fflush(stdout);
}

static bool parse_options(int argc, char **argv, Options *options)
{
    static const struct option LONG[] = { { "weft", required_argument, NULL, 'w' },
                                          { "tbl", required_argument, NULL, 't' },
                                          { "ssb", required_argument, NULL, 'q' },
                                          { "table", required_argument, NULL, 'b' },
                                          { "duckdb", required_argument, NULL, 'd' },
                                          { "sqlite", no_argument, NULL, 's' },
                                          { "threads", required_argument, NULL, 'n' },
                                          { 0 } };
    *options = (Options){ .ssb = "bench/ssb", .threads = 2 };
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (option) {
        case 'w': options->weft = optarg; break;
        case 't': options->tbl = optarg; break;
        case 'q': options->ssb = optarg; break;
        case 'b': options->table = optarg; break;
        case 'd': options->duckdb = optarg; break;
        case 's': options->use_sqlite = true; break;
        case 'n': options->threads = atoi(optarg); break;
        default: return false;
        }
    }
    return optind == argc && options->weft && options->tbl && (options->duckdb || options->use_sqlite);
}

int main(int argc, char **argv)
{
    static SsbQuery queries[MAX_QUERIES];
    static Answers answers[MAX_PEERS];
    char error[PEER_ERROR_BYTES] = "";
    Options options;
    if (!parse_options(argc, argv, &options)) {
        fprintf(stderr, "usage: compare --weft DB --tbl DIR [--ssb DIR [--table NAME]] [--sqlite] [--duckdb LIBRARY] "
                        "[--threads N]\n");
        return 2;
    }
    int n_queries = load_queries(options.ssb, queries);
    int n_peers = open_peers(&options, answers, queries, n_queries);
    for (int q = 0; q < n_queries; q++)
        find_sort_columns(&queries[q], &answers[0].rows[q]);
    Peer *weft = peer_open_weft(options.weft, error);
    if (!weft)
        die(options.weft, error);
    if (!peer_runf(weft, "set threads = %d", options.threads))
        die("set threads", weft->error);
    int n_passed = 0, n_failed = 0;
    for (int s = 0; s < COUNT(SETTINGS); s++)
        check_setting(weft, s, queries, n_queries, answers, n_peers, &n_passed, &n_failed);
    peer_close(weft);
    for (int p = 0; p < n_peers; p++) {
        for (int q = 0; q < n_queries; q++)
            rows_free(&answers[p].rows[q]);
        peer_close(answers[p].peer);
    }
    for (int q = 0; q < n_queries; q++)
        free(queries[q].sql);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed ? 1 : 0;
}
