// skip.h - columnar pages with a min-max entry and a bloom filter each, and which of them a query must read (paper 5,
// 4.3).
//
//     SkipTable table = { .seed = 1, .n_rows = 10000000, .page_bytes = 4096 };
//     SkipResult results[SET_QUERY_SQLS];
//     skip_run(&table, queries, n_queries, results);
//     results[0].bytes_indexed                             // crossed the link: index entries, and pages that are alive
//
// A page has values of one column, 4 bytes each; pages of all columns hold the same rows.  A query first reads the
// min-max entries of the columns that it has conditions on, then bloom filters of pages that are still alive where that
// is expected to save more than they cost, then the pages of its columns that may hold a row.  The answer is computed
// from those pages only, so a page that was skipped wrongly would show.

#ifndef WEFT_LAB_SKIP_H
#define WEFT_LAB_SKIP_H

#include "base/base.h"

enum { SKIP_RANGES_MAX = 5, SKIP_TERMS_MAX = 5, SKIP_PAGE_MOST = 65536 };

typedef struct SkipRange { i32 low, high; } SkipRange;      // both included

typedef struct SkipTerm {                                   // the column is in one of the ranges, or in none
    int       column;
    int       n_ranges;
    SkipRange ranges[SKIP_RANGES_MAX];
    bool      is_not;
} SkipTerm;

typedef struct SkipQuery {
    const char *title;
    int         n_terms;                                    // all must hold
    SkipTerm    terms[SKIP_TERMS_MAX];
    int         n_outputs;
    int         outputs[2];                                 // columns that it returns or sums up
} SkipQuery;

typedef struct SkipTable {
    u64    seed, n_rows;
    size_t page_bytes;                                      // 4 KB to 64 KB
} SkipTable;

typedef struct SkipResult {
    u64 bytes_all;                                          // of all 13 columns
    u64 bytes_columns;                                      // of pages of its columns
    u64 bytes_index;                                        // of min-max entries and bloom filters that it reads
    u64 bytes_indexed;                                      // those, and the pages that are alive
    u64 bytes_late;                                         // likewise, and outputs only of pages where a row is left
    u64 n_pages, n_pages_read;                              // groups of pages with the same rows
    u64 n_rows, sum;                                        // the answer: rows, and the sum of the first output
} SkipResult;

// Makes the table page by page and runs all queries over it.  OUT_OF_MEMORY.
weft_status skip_run(const SkipTable *table, const SkipQuery *queries, int n_queries, SkipResult *results, Error *err);

#endif
