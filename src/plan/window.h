// window.h - window functions: what a NODE_WINDOW computes.
//
// A window node gives its input's columns and behind them one column for each function.  What it looks at (partitions,
// order, arguments) are expressions over its input, node->keys, which everything below names by number: so rewrites
// that visit expressions need to know nothing of windows.
//
//     sum(x) over (partition by a order by b desc rows 2 preceding), rank() over (partition by a order by b desc)
//
//     keys     0: a, 1: b, 2: x
//     orders   0: a | b desc                                 rows are sorted once for both functions
//     funcs    sum of key 2 in order 0, rows 2 preceding .. current row; rank in order 0

#ifndef WEFT_WINDOW_H
#define WEFT_WINDOW_H

#include "plan/plan.h"

typedef enum WindowKind {
    WINDOW_ROW_NUMBER, WINDOW_RANK, WINDOW_DENSE_RANK, WINDOW_PERCENT_RANK, WINDOW_CUME_DIST, WINDOW_NTILE,
    WINDOW_LAG, WINDOW_LEAD, WINDOW_FIRST_VALUE, WINDOW_LAST_VALUE, WINDOW_NTH_VALUE,
    WINDOW_AGGREGATE,                  // any aggregate, over the frame
    WINDOW_RANDOM,                     // a random number of the row's place and a seed: a double, or 64 bits
    WINDOW_STRING_AGG                  // texts of the frame, joined
} WindowKind;

typedef enum FrameUnit { FRAME_RANGE, FRAME_ROWS, FRAME_GROUPS } FrameUnit;
typedef enum FrameEdge { EDGE_FIRST, EDGE_PRECEDING, EDGE_CURRENT, EDGE_FOLLOWING, EDGE_LAST } FrameEdge;
typedef enum FrameExclude { EXCLUDE_NONE, EXCLUDE_CURRENT, EXCLUDE_GROUP, EXCLUDE_TIES } FrameExclude;

typedef struct FrameBound {
    FrameEdge edge;
    Value     offset;                  // preceding, following: not NULL, not negative; a bigint, or of RANGE what is
                                       // added to the order's key: of its type, of a date an interval
} FrameBound;

typedef struct Frame { FrameUnit unit; FrameBound start, end; FrameExclude exclude; } Frame;

typedef struct WindowOrder {
    int      n_partition;              // so many of the keys tell partitions apart, the others order them
    int      n_keys;
    SortKey *keys;                     // column: a number in the node's keys
} WindowOrder;

typedef struct WindowPart {            // an aggregate over the frame
    AggKind kind;
    int     arg;                       // a number in the node's keys; -1: count(*)
    Type    type;
    int     column;                    // by which WindowFunc.built names it: an id that no node gives
} WindowPart;

typedef struct WindowFunc {
    WindowKind  kind;
    Type        type;
    int         column;                // the plan's column that it gives
    int         order;
    int         arg, n;                // numbers in the node's keys, -1: none.  n: of lag, lead, ntile, nth_value; the
                                       // delimiter of string_agg
    bool        is_distinct;           // string_agg: equal texts, which follow each other, count once
    u64         seed;                  // random
    Frame       frame;
    int         n_parts;               // aggregate
    WindowPart *parts;
    Expr       *built;                 // over the columns of its parts; NULL: it is its one part
    const char *name;                  // for people
    int         at;
} WindowFunc;

struct Windows {
    int          n_orders;
    WindowOrder *orders;
    int          n_funcs;
    WindowFunc  *funcs;
};

typedef struct WindowName {            // a function that is nothing but a window function
    const char *name;
    WindowKind  kind;
    int         n_least, n_most;       // arguments
    const char *usage, *gives, *about; // for the manual
} WindowName;
const WindowName *window_find(const char *name);                       // NULL: none but aggregates
const WindowName *window_name_at(int i);                               // NULL past the last
bool              window_uses_frame(WindowKind kind);
Frame             frame_default(void);                                 // range unbounded preceding .. current row
// A date or timestamp in microseconds; and what an interval before or after one is: false where there is none so far.
i64               frame_micros(Type type, i64 number);
bool              frame_shift_time(Type type, i64 number, const Value *interval, int sign, i64 *out);
bool              frame_equal(const Frame *a, const Frame *b);

// KEYS and WINDOWS become the node's own.
Node    *plan_window(Plan *plan, Node *input, Expr **keys, int n_keys, Windows *windows);
Node    *plan_number_rows(Plan *plan, Node *input);                    // its last column: row_number() over ()
// The rows of REFERENCE, which are SIDE's with a number behind them, under the names of SIDE's columns.
Node    *plan_numbered_as(Plan *plan, Node *reference, const Node *side);
void     window_settle_out(Plan *plan, Node *node);                    // out anew, from the input's
bool     window_func_is_same(const WindowFunc *a, const WindowFunc *b);     // of one node
bool     window_is_same(const Windows *a, const Windows *b);           // over the same keys, they compute the same
Windows *window_copy(Arena *arena, const Windows *windows);
// Drops the functions that are not needed, and their keys; false: no function is left.
bool     window_prune(Plan *plan, Node *node, const ColumnSet *needed);
// Columns of the input that are among the partition keys of every order: what they decide, decides whole partitions.
void     window_partition_columns(Arena *arena, const Node *node, ColumnSet *set);
void     window_prove(Plan *plan, const Node *node, i128 rows_most);   // ranges of its columns
void     window_print(const Plan *plan, const Windows *windows, Expr *const *keys, Text *text);

// What a Finish does before all else: its sink's rows are INPUTS, its outputs N_PASSED of them and then the functions.
typedef struct FinishWindows {
    const Windows *windows;
    int            n_inputs, n_passed;
    Binding       *inputs;             // passed columns first; then keys that are computed, of column -1
    int            n_keys;
    Expr         **keys;
    int           *places;             // by key: its number among the inputs; -1: it is a constant
    int            n_funcs;
    int           *funcs;              // by output behind those passed: the function's number
} FinishWindows;

#endif
