// bench.h - what the benchmarks share: options, the report, the two engines on the same data, the queries.
//
//     Bench bench = { .options = ... };                // what holds when nothing is said
//     if (!bench_options(argc, argv, &bench.options, own, COUNT(own))) return usage();
//     if (!options_are_whole(&bench.options)) return usage();
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
    const char *db, *tbl, *duckdb, *scratch, *scale, *parts, *record;
    const char *folder;                // of the workload: schema.sql and queries/q*.sql
    int         threads, repeats;
    bool        alone;                 // without DuckDB: no file is made for it, and it is not opened
    const char *child, *child_query;   // in the processes that a benchmark starts: what they do, and with which query
    const char *program;
    char        command[1024];
} Options;

typedef struct Workload { const char *name; const char *const *tables; int n_tables; } Workload;

extern const Workload WORKLOAD_SSB, WORKLOAD_TPCH, WORKLOAD_SETQUERY;

typedef struct BenchQuery { char name[16], path[512]; char *sql; } BenchQuery;

typedef struct Bench {
    const Workload *workload;
    Options         options;
    BenchQuery      queries[MAX_QUERIES];
    int             n_queries;
    char            duckdb_path[512];
    char           *text;              // the report, also when it is printed as it grows
    size_t          text_length;
    FILE           *report;
} Bench;

// What a benchmark takes beside the options of all: TEXT is what follows the name, or FLAG is set and nothing follows
// it.
typedef struct OwnOption { const char *name; const char **text; bool *flag; } OwnOption;

// False: one is not known.
bool bench_options(int argc, char **argv, Options *options, const OwnOption *own, int n_own);
bool options_are_whole(const Options *options);

void bench_begin(Bench *bench);
void bench_end(Bench *bench);
void load_queries(Bench *bench);       // what bench_begin does first; all that a process of its own needs

// What is settled when a process starts (an empty cache, device memory) is measured in one of its own: this program
// again, with one more variable in its environment.  It prints N_ANSWERS numbers.
typedef struct Child { const char *what, *query_path, *name, *value, *device; } Child;     // device NULL: not told

void ask_child(const Bench *bench, const Child *child, double *answers, int n_answers);
// A folder without compiled code, for WEFT_CACHE.
void make_empty_cache(const Bench *bench, char *path, size_t capacity);
void remove_tree(const char *path);

void   die(const char *what, const char *why) __attribute__((noreturn));
void   must(Peer *peer, bool ok, const char *what);            // dies with the peer's error unless OK
double now_ms(void);
double run_ms(Peer *peer, const char *sql);                    // until the whole answer is there, in the engine's own
                                                               // form

void say(Bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
void write_heading(Bench *bench, const char *title);

Peer *open_weft(const Bench *bench);
Peer *open_duckdb(const Bench *bench);                         // its tables in memory
void  create_tables(Bench *bench, Peer *peer);
void  set_duckdb_path(Bench *bench);
void  check_answers(Peer *weft, Peer *duckdb, const char *name, const char *sql);      // dies when they differ

// ---- a table of times, and the part that all workloads have (hot.c) -------------------------------------------------

typedef struct TimeTable { double weft_sum, duckdb_sum, log_sum; int n; } TimeTable;

void table_begin(Bench *bench, const char *first_column);
void table_row(Bench *bench, TimeTable *table, const char *name, double weft_ms, double duckdb_ms);
void table_end(Bench *bench, const TimeTable *table);

// All data is in memory and all code is compiled (for Weft by cc, waited for) before the clock runs.  Answers are
// compared first.  Runs of the two engines alternate, and the best of each counts: what else the machine does hits
// both.
void part_hot(Bench *bench);

#endif
