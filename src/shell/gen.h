// gen.h - test data: `weft gen ssb` makes the five tables of the Star Schema Benchmark, `weft gen tpch` the eight of
// TPC-H, `weft gen setquery` the one of the Set Query benchmark.
//
//     GenOptions options = { .scale = 1, .seed = 1 };
//     TRY(gen_ssb(store, pool, &options, err));            // or with tbl_dir: as files for other engines, too
//
// The same scale and seed give the same tables and files, whatever the number of workers.

#ifndef WEFT_GEN_H
#define WEFT_GEN_H

#include "store/store.h"

enum {
    GEN_SSB_TABLES = 5,
    GEN_TPCH_TABLES = 8,
    GEN_SETQUERY_TABLES = 1,
    GEN_TABLES_MAX = 8,
    GEN_SCALE_MAX = 350,               // beyond it, keys of orders do not fit an integer
    GEN_SETQUERY_SCALE_MAX = 200       // likewise kseq
};

typedef struct GenCount { const char *table; u64 n_rows; } GenCount;

typedef struct GenOptions {
    double        scale;               // 1: about 6 million rows in lineorder or lineitem, 10 million in bench
    u64           seed;                // not of TPC-H: its numbers are fixed by its specification
    const char   *tbl_dir;             // directory for part.tbl and so on; made when missing.  NULL: no files
    _Atomic int  *progress;            // goes from 0 to 1000; may be NULL
    _Atomic bool *cancel;              // becomes true: QUERY_CANCELED; may be NULL
    GenCount     *counts;              // one for each table to fill; may be NULL
} GenOptions;

// STORE may be NULL: only files.  Tables and files that exist already are never overwritten (DUPLICATE_TABLE).
// All or nothing: on failure what was begun is removed.
weft_status gen_ssb(Store *store, Pool *pool, const GenOptions *options, Error *err);

// The same for TPC-H.  The files are those of dbgen 2.14, byte for byte.
weft_status gen_tpch(Store *store, Pool *pool, const GenOptions *options, Error *err);

// The table "bench" of the Set Query benchmark.
weft_status gen_setquery(Store *store, Pool *pool, const GenOptions *options, Error *err);

// `weft gen ssb|tpch|setquery [--sf N] [--seed N] [--tbl DIR] [DB]`; argv[0] is "gen".  Returns the exit status.
int gen_main(int argc, char **argv);

#endif
