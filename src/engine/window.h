// window.h - window functions over the rows that a pipeline left.
//
//     rows -> sorted by partition and order (sort.c) -> partitions and groups of peers (window_frame.c)
//          -> for each row its frame, up to three stretches of places
//          -> sums and counts from prefixes (window_sum.c), extremes from a tree (window_tree.c), all else by place
//
// Every row is computed on its own, so all threads work on one partition as well as on many.  No frame costs more than
// O(log n).  Places are numbers of rows in sorted order.

#ifndef WEFT_ENGINE_WINDOW_H
#define WEFT_ENGINE_WINDOW_H

#include "engine/engine.h"
#include "plan/window.h"

// ---- partitions and frames (window_frame.c) -------------------------------------------------------------------------

typedef struct Sorted {                // the rows in the order of a window
    u64        n_rows;
    const u64 *rows;                   // by place: the row; NULL: they come in this order
    u32       *group_of;               // by place: the group of rows that are equal in all keys
    u32        n_groups, n_parts;
    u32       *group_first;            // by group: its first place; one more at the end
    u32       *part_of;                // by group: its partition
    u32       *part_group;             // by partition: its first group; one more at the end
} Sorted;

typedef struct Stretch { u64 first, end; } Stretch;                    // of places; empty where first >= end
typedef struct Stretches { int n; Stretch list[3]; } Stretches;       // not empty, in order

typedef struct FrameLook {             // a frame, with what it needs to know of the rows
    const Frame  *frame;
    const Sorted *sorted;
    const View   *view;                // RANGE with offsets: what it is ordered by
    bool          descending, nulls_first;
    i128          start, end;          // the offsets: rows, groups or numbers of the view's scale
    bool          has_start_offset, has_end_offset;
} FrameLook;

static inline u64 sorted_row(const Sorted *sorted, u64 place) { return sorted->rows ? sorted->rows[place] : place; }

// Rows are equal where IS_SAME says so, of their partitions and of all keys.
typedef struct Likeness {
    bool      (*is_same)(const void *context, bool all_keys, u64 a, u64 b);
    const void *context;
} Likeness;
// Fills in the groups of SORTED, which has its rows; memory from ALLOC, which is query_alloc but for tests.
typedef struct WindowMemory {
    weft_status (*alloc)(void *context, size_t bytes, void **out);
    void         *context;
    Team          team;
} WindowMemory;
weft_status sorted_group(const WindowMemory *memory, const Likeness *likeness, Sorted *sorted, bool *is_stopped);
Stretch     sorted_part(const Sorted *sorted, u64 place);              // its partition
Stretch     sorted_peers(const Sorted *sorted, u64 place);
Stretches   frame_of(const FrameLook *look, u64 place);                // what is left of it once rows are excluded

// ---- sums of frames (window_sum.c) ----------------------------------------------------------------------------------

typedef struct Counts { const u32 *before; } Counts;                   // NULL: every row counts
typedef struct PrefixSums {
    const Sorted *sorted;
    const View   *view;                // numbers; NULL: nothing is summed
    Counts        values;              // rows that are not NULL
    Counts        plus, minus;         // floats: infinities, and NaN as both; has_special: there are some
    bool          has_special;
    int           n_words, unit;       // sums are two's complement numbers of so many words, times 2^unit
    u64           step;                // a sum is stored before every so many places
    u64          *sums;
} PrefixSums;

// VIEW NULL: count(*).  WITH_SUMS false: only the rows that are not NULL are counted.
weft_status prefix_make(const WindowMemory *memory, const Sorted *sorted, const View *view, bool with_sums,
                        PrefixSums *out, bool *is_stopped);
u64         prefix_count(const PrefixSums *sums, const Stretches *frame);          // values that are not NULL
bool        prefix_int(const PrefixSums *sums, const Stretches *frame, i128 *sum); // false: it does not fit
double      prefix_float(const PrefixSums *sums, const Stretches *frame, AggKind kind, u64 count);

// ---- extremes of frames (window_tree.c) -----------------------------------------------------------------------------

typedef struct MinTree { u64 n; u64 *keys; } MinTree;                  // keys[n + place]; above them the least of two

weft_status tree_room(const WindowMemory *memory, u64 n, MinTree *tree);   // fill in keys[n ..], then
bool        tree_build(const Team *team, MinTree *tree);               // false: it was stopped
u64         tree_least(const MinTree *tree, const Stretches *frame);   // of no place: UINT64_MAX

// ---- texts joined (window_text.c) -----------------------------------------------------------------------------------

// The VALUES of each row's frame that are not NULL, in the order of its places, each but the first behind its
// delimiter; NULL where it has no value.  IS_DISTINCT: of equal neighbours the first one counts.
weft_status window_join_texts(QueryRun *run, const FrameLook *look, const View *values, const View *delimiters,
                              bool is_distinct, View *out);

// ---- all of it (window.c) -------------------------------------------------------------------------------------------

// FINISHED has a view for each input of the pipeline's windows, and becomes what the pipeline gives.
weft_status window_finish(QueryRun *run, int pipeline, Finished *finished);

#endif
