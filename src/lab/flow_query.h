// flow_query.h - a filter and a sum over columns, asked for in several ways: the experiments that decide whether the
// engine is better served by launches or by frames to a kernel that stays.
//
//     TRY(query_door_open(flow, &door, err));                      // a flow with one operator, filter_sums
//     TRY(query_by_frames(door, &query, SLICES, &sum, err));       // a frame for each slice of the rows
//     query_door_close(door);
//     TRY(query_by_call(flow, &query, &sum, err));                 // the CPU's answer, by the same text
//     TRY(query_launch(flow, slot, &query, err));                  // on a GPU: arguments, kernel, result
//
// A frame is a query, not a part of a table: it names rows and the addresses of columns, wherever the operator can read
// them.

#ifndef WEFT_LAB_FLOW_QUERY_H
#define WEFT_LAB_FLOW_QUERY_H

#include "lab/flow_lab.h"

enum { QUERY_COLUMNS = 8, QUERY_FRAMES_MAX = 256 };         // frames under way

typedef struct FilterQuery {                                // the words of filter_sums (operators.tile)
    u64 n_rows, low, high, n_columns;                       // 2, 4 or 8 columns, the key first
    u64 columns[QUERY_COLUMNS];                             // addresses
} FilterQuery;

typedef struct QueryDoor QueryDoor;

weft_status query_door_open(FlowLab *flow, QueryDoor **door, Error *err);
void        query_door_close(QueryDoor *door);              // NULL is fine
// All rows in N_SLICES frames, QUERY_FRAMES_MAX of them under way at most.
weft_status query_by_frames(QueryDoor *door, const FilterQuery *query, int n_slices, i64 *sum, Error *err);
// In two steps, for several queries at once: their answers come in the order of the posts.  Together they have
// QUERY_FRAMES_MAX slices at most.
weft_status query_post(QueryDoor *door, const FilterQuery *query, int n_slices, Error *err);
weft_status query_take(QueryDoor *door, int n_slices, i64 *sum, Error *err);

weft_status query_by_call(FlowLab *flow, const FilterQuery *query, i64 *sum, Error *err);

// ---- on a GPU: slot 0 to 7 has a stream, arguments and a result of its own ------------------------------------------

// As the engine does: arguments copied, kernel, result copied back; returns before it is done.
weft_status query_launch(FlowLab *flow, int slot, const FilterQuery *query, Error *err);
weft_status query_wait(FlowLab *flow, int slot, i64 *sum, Error *err);

// Rows FIRST to FIRST + N of all columns.
static inline FilterQuery query_slice(const FilterQuery *query, u64 first, u64 n)
{
    FilterQuery slice = *query;
    slice.n_rows = n;
    for (u64 c = 0; c < query->n_columns; c++)
        slice.columns[c] = query->columns[c] + first * sizeof(i32);
    return slice;
}

#endif
