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

// By which it is sorted.
static inline i128 view_wide(const View *view, u64 row)
{
    const Value value = { .type = view->type, .i = ((const i128 *)view->data)[row] };
    return view->type.kind == TYPE_INTERVAL ? interval_micros(&value) : value.i;
}

// Order-preserving numbers.
static inline u64 prefix_of_int(i64 value) { return (u64)value ^ (u64)1 << 63; }

static inline u64 prefix_of_float(double value)
{
    u64 bits;
    if (value != value) return UINT64_MAX;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (u64)1 << 63;
}

// By all keys, then by the tie; without one by their places.
typedef int RowCompare(const Sorter *sorter, u64 a, u64 b);

// The rows by the GPU that left them, where SET gpu_sort and their number say so.  *ROWS is NULL where the host is to
// sort: run->sort_report says why.  N_WANTED: so many of the first ones are needed.  Codes that are
// keys have ranks.
weft_status sort_on_gpu(const Sorter *sorter, RowCompare *compare, u64 n_rows, u64 n_wanted, u64 **rows);

#endif
