// sort_int.h - shared by sort.c, which sorts on all threads, and sort_gpu.c, which has a GPU do it.

#ifndef WEFT_SORT_INT_H
#define WEFT_SORT_INT_H

#include "engine/engine.h"

typedef struct Sorter {
    QueryRun *run;
    Team team;
    const View *views;
    const ViewKey *keys;
    int n_keys;
    const Tie *tie;
    bool is_exact;
} Sorter;  // exact: equal prefixes, equal keys

// Order-preserving numbers.
u64  prefix_of_int(i64 value);
u64  prefix_of_float(double value);
i128 view_wide(const View *view, u64 row);                 // by which it is sorted
// By all keys, then by the tie; without one by their places.
int  compare_rows(const Sorter *sorter, u64 a, u64 b);

// The rows by the GPU that left them, where SET gpu_sort and their number say so.  *ROWS stays NULL where the host is to
// sort: run->sort_report says why.  WANTED: so many of the first ones are needed.  Codes have their ranks.
weft_status sort_on_gpu(const Sorter *sorter, u64 n_rows, u64 n_wanted, u64 **rows);

#endif
