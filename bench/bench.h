// bench.h - what the benchmarks share: options, the report, the two engines on the same data, the SSB queries.
//
//     Bench bench = { .options = ... };
//     bench_begin(&bench);                             // reads the queries, loads DuckDB's file if it is not there
//     write_heading(&bench, "Star Schema Benchmark");  // date, machine, versions, command
//     ... open_weft, open_duckdb, say ...
//     bench_end(&bench);                               // --record
//
// Whatever goes wrong ends the program: half a benchmark is none.

#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdio.h>

#include "../tests/peer/peer.h"
#include "weft.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { MAX_QUERIES = 32 };

typedef struct Options {
    const char *db, *tbl, *ssb, *duckdb, *scratch, *scale, *parts, *record;
    int         threads, repeats;
    const char *child, *child_query;   // bench/ssb only: in the processes that the first-run part starts
    const char *program;
    char        command[1024];
} Options;

typedef struct SsbQuery { char name[16], path[512]; char *sql; } SsbQuery;

typedef struct Bench {
    Options  options;
    SsbQuery queries[MAX_QUERIES];
    int      n_queries;
    char     duckdb_path[512];
    char    *text;                     // the report, also when it is printed as it grows
    size_t   text_length;
    FILE    *report;
} Bench;

void bench_begin(Bench *bench);
void bench_end(Bench *bench);

void   die(const char *what, const char *why) __attribute__((noreturn));
void   must(Peer *peer, bool ok, const char *what);            // dies with the peer's error unless OK
double now_ms(void);

void say(Bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
void write_heading(Bench *bench, const char *title);

Peer *open_weft(const Bench *bench);
Peer *open_duckdb(const Bench *bench);                         // its tables in memory
void  create_tables(Bench *bench, Peer *peer);
void  set_duckdb_path(Bench *bench);
void  check_answers(Peer *weft, Peer *duckdb, const char *name, const char *sql);      // dies when they differ

#endif
