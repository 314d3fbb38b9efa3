// ssb.c - the Star Schema Benchmark, Weft beside DuckDB: same rows, same machine, same process, same number of threads.
//
//     ssb --db DB --tbl DIR --folder bench/ssb --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N] [--scale SF]
//         [--parts hot,first,copy] [--record FILE]
//
// hot     see bench.h
// first   The first run of a query in a new process.  Weft has nothing compiled: its cache folder is new and empty.
//         All columns that any of the queries needs were read once on both sides before, so files and buffers are
//         warm, queries are not.  Reported is the best of several such processes.
// copy    COPY of lineorder.tbl into a new table of a new database on disk.
//
// A run ends when the engine has the whole answer in its own form; it is never turned into text.  Neither side caches
// results.  Weft works on a database folder.  DuckDB works on tables in memory, where it does not compress them: on a
// database file of its own it is about 1.5 times slower.

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../bench.h"

enum { PROCESSES_PER_QUERY = 3, COPIES = 3 };

// Reads every value of every column that one of the queries needs.  Sums and comparisons, because statistics could
// answer min and max without a look at the data.
#define TEXT(column) "sum(case when " column " > 'M' then 1 else 0 end)"
static const char *const TOUCH[] = {
    "select sum(lo_orderdate), sum(lo_custkey), sum(lo_partkey), sum(lo_suppkey), sum(lo_quantity), "
    "sum(lo_extendedprice), sum(lo_discount), sum(lo_revenue), sum(lo_supplycost) from lineorder",
    "select sum(d_datekey), sum(d_year), sum(d_yearmonthnum), sum(d_weeknuminyear), " TEXT("d_yearmonth") " from date",
    "select sum(p_partkey), " TEXT("p_mfgr") ", " TEXT("p_category") ", " TEXT("p_brand1") " from part",
    "select sum(s_suppkey), " TEXT("s_city") ", " TEXT("s_nation") ", " TEXT("s_region") " from supplier",
    "select sum(c_custkey), " TEXT("c_city") ", " TEXT("c_nation") ", " TEXT("c_region") " from customer",
};

// ---- first run: in processes of their own -------------------------------------------------------------------------

static int run_as_child(Bench *bench)
{
    bool is_weft = strcmp(bench->options.child, "weft") == 0;
    set_duckdb_path(bench);
    Peer *peer = is_weft ? open_weft(bench) : open_duckdb(bench);
    char *sql = read_whole_file(bench->options.child_query);
    if (!sql)
        die(bench->options.child_query, "cannot be read");
    // With tcc alone nothing compiles in the background when the clock starts.
    if (is_weft)
        must(peer, peer_run(peer, "set jit = tcc", NULL), "set jit");
    for (int t = 0; t < COUNT(TOUCH); t++)
        must(peer, peer_run(peer, TOUCH[t], NULL), TOUCH[t]);
    if (is_weft)
        must(peer, peer_run(peer, "set jit = auto", NULL), "set jit");
    printf("%.6f\n", run_ms(peer, sql));
    free(sql);
    peer_close(peer);
    return 0;
}

static double first_run_ms(const Bench *bench, const char *engine, const char *query_path)
{
    char cache[600];
    double answer;
    make_empty_cache(bench, cache, sizeof cache);
    ask_child(bench, &(Child){ .what = engine, .query_path = query_path, .name = "WEFT_CACHE", .value = cache },
              &answer, 1);
    remove_tree(cache);
    return answer;
}

static void part_first(Bench *bench)
{
    TimeTable table = { 0 };
    say(bench, "## First run: new process, no compiled code, warm data; best of %d processes\n\n", PROCESSES_PER_QUERY);
    table_begin(bench, "query");
    for (int q = 0; q < bench->n_queries; q++) {
        double weft_ms = INFINITY, duckdb_ms = INFINITY;
        for (int p = 0; p < PROCESSES_PER_QUERY; p++) {
            weft_ms = fmin(weft_ms, first_run_ms(bench, "weft", bench->queries[q].path));
            duckdb_ms = fmin(duckdb_ms, first_run_ms(bench, "duckdb", bench->queries[q].path));
        }
        table_row(bench, &table, bench->queries[q].name, weft_ms, duckdb_ms);
    }
    table_end(bench, &table);
}

// ---- copy ---------------------------------------------------------------------------------------------------------

static double copy_ms(Bench *bench, bool is_weft, const char *path, const char *tbl)
{
    char error[PEER_ERROR_BYTES] = "", wal[700];
    snprintf(wal, sizeof wal, "%s.wal", path);
    remove_tree(path);
    remove_tree(wal);
    Peer *peer = is_weft ? peer_open_weft(path, error) : peer_open_duckdb(bench->options.duckdb, path, error);
    if (!peer)
        die(path, error);
    must(peer, peer_runf(peer, "set threads = %d", bench->options.threads), "set threads");
    create_tables(bench, peer);
    double start = now_ms();
    bool ok = is_weft ? peer_load_weft(peer, "lineorder", tbl) : peer_load_duckdb(peer, "lineorder", tbl);
    double elapsed = now_ms() - start;
    must(peer, ok, "copy");
    peer_close(peer);
    remove_tree(path);
    remove_tree(wal);
    return elapsed;
}

static void part_copy(Bench *bench)
{
    char tbl[600], weft_path[600], duckdb_path[600];
    struct stat file;
    snprintf(tbl, sizeof tbl, "%s/lineorder.tbl", bench->options.tbl);
    snprintf(weft_path, sizeof weft_path, "%s/copy.weft", bench->options.scratch);
    snprintf(duckdb_path, sizeof duckdb_path, "%s/copy.duckdb", bench->options.scratch);
    if (stat(tbl, &file))
        die(tbl, "cannot be read");
    double weft_ms = INFINITY, duckdb_ms = INFINITY;
    for (int c = 0; c < COPIES; c++) {
        weft_ms = fmin(weft_ms, copy_ms(bench, true, weft_path, tbl));
        duckdb_ms = fmin(duckdb_ms, copy_ms(bench, false, duckdb_path, tbl));
    }
    double megabytes = (double)file.st_size / 1e6;
    say(bench, "## COPY of lineorder.tbl (%.0f MB) into a new table on disk; best of %d\n\n", megabytes, COPIES);
    say(bench, "| engine | seconds | MB/s |\n| :----- | ------: | ---: |\n");
    say(bench, "| Weft   | %7.2f | %4.0f |\n", weft_ms / 1e3, megabytes / weft_ms * 1e3);
    say(bench, "| DuckDB | %7.2f | %4.0f |\n\nDuckDB / Weft: **%.2f**\n\n", duckdb_ms / 1e3,
        megabytes / duckdb_ms * 1e3, duckdb_ms / weft_ms);
}

// ---- main ---------------------------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
    static Bench bench = { .workload = &WORKLOAD_SSB,
                           .options = { .folder = "bench/ssb",
                                        .scale = "1",
                                        .parts = "hot,first,copy",
                                        .threads = 2,
                                        .repeats = 15,
                                        .command = "bench/ssb/run.sh" } };
    if (!bench_options(argc, argv, &bench.options, NULL, 0) || !options_are_whole(&bench.options)) {
        fprintf(stderr,
                "usage: ssb --db DB --tbl DIR --folder DIR --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N]\n"
                "           [--scale SF] [--parts hot,first,copy] [--record FILE]\n");
        return 2;
    }
    if (bench.options.child)
        return run_as_child(&bench);
    bench_begin(&bench);
    write_heading(&bench, "Star Schema Benchmark");
    if (strstr(bench.options.parts, "hot"))
        part_hot(&bench);
    if (strstr(bench.options.parts, "first"))
        part_first(&bench);
    if (strstr(bench.options.parts, "copy"))
        part_copy(&bench);
    bench_end(&bench);
    return 0;
}
