// gen.h - test data: `weft gen ssb` makes the five tables of the Star Schema Benchmark.
//
//     GenOptions options = { .scale = 1, .seed = 1 };
//     TRY(gen_ssb(store, pool, &options, err));            // or with tbl_dir: as files for other engines, too
//
// The same scale and seed give the same rows, whatever the number of workers.

#ifndef WEFT_GEN_H
#define WEFT_GEN_H

#include "store/store.h"

enum {
    GEN_SSB_TABLES = 5,
    GEN_SSB_SCALE_MAX = 350            // beyond it, lo_orderkey does not fit an integer
};

typedef struct GenCount { const char *table; u64 n_rows; } GenCount;

typedef struct GenOptions {
    double        scale;               // 1: about 6 million rows in lineorder
    u64           seed;
    const char   *tbl_dir;             // directory for part.tbl and so on; made when missing.  NULL: no files
    _Atomic int  *progress;            // goes from 0 to 1000; may be NULL
    _Atomic bool *cancel;              // becomes true: QUERY_CANCELED; may be NULL
    GenCount     *counts;              // GEN_SSB_TABLES of them to fill; may be NULL
} GenOptions;

// STORE may be NULL: only files.  Tables and files that exist already are never overwritten (DUPLICATE_TABLE).
// All or nothing: on failure what was begun is removed.
weft_status gen_ssb(Store *store, Pool *pool, const GenOptions *options, Error *err);

// `weft gen ssb [--sf N] [--seed N] [--tbl DIR] [DB]`; argv[0] is "gen".  Returns the exit status.
int gen_main(int argc, char **argv);

#endif
