// plan.h - what a query means: typed expressions, a tree of operators, rewrites of the tree, and the pipelines cut from
// it.
//
// A front end (sql, datalog) builds a Plan: a tree of nodes over columns.  Every column of a plan has one id, and
// expressions name columns by it, so an expression means the same above and below a join:
//
//     plan_scan(plan, table, alias, at)                          // a node, with a fresh column for each of the table's
//     expr_call(arena, OP_MUL, args, 2, at, &product, err)       // finds the types, inserts the casts, folds constants
//     plan_rewrite(plan, err)                                    // tree to tree: pushdown, join order, pruning, ...
//     plan_cut(arena, plan, &graph, err)                         // pipelines, in an order in which they can run
//
// Expressions are never changed once made.  Nodes belong to the plan's arena; only rewrites change them.

#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "store/store.h"

// ---- expressions ----------------------------------------------------------------------------------------------------

// Operators: name, text for EXPLAIN, number of arguments (-1: any), properties.  Semantics are PostgreSQL's unless
// said otherwise.
// After expr_call, arguments obey:
//   ADD SUB MUL MOD  both integer kinds (result: the wider kind), or both decimal (ADD SUB MOD: equal scale; MUL:
//   scales add up),
//                    or both real, or both double, or both numeric (38 digits).  Date + integer, date - integer
//                    give a date, date - date an integer.  A result out of range of its type is an error, 22003.
//   DIV              both integer kinds (truncates), or both numeric, of any scales (gives a quotient), or both double.
//                    22012 on zero.
//   NEG              any number
//   EQ .. GE         both integer kinds, both decimal or numeric of equal scale, both double, both date, boolean or
//   text
//   AND OR NOT       boolean, three-valued
//   IS_NULL, IS_NOT_NULL   any; never NULL
//   LIKE ILIKE       text, constant pattern; optional third argument: constant escape text ("" for none; default "\")
//   IN               an expression and constants of its type (NULLs among them allowed, with SQL's meaning)
//   COALESCE         arguments of one type
//   CAST             one argument, to the node's type: between numbers, boolean <-> integer, text <-> anything only on
//   constants
//                    (and text -> text).  Decimals round half away from zero, double -> integer half to even; 22003 out
//                    of range.
//                    A float that becomes numeric without a precision (type_is_trimmed) loses no digit: else 22003.
// Functions are operators too, from OP_FUNCTION on, in the order of their lists: see functions.h.
enum { OP_FAILS = 1, OP_TESTS = 2, OP_LAX = 4 };            // may be an error; is a test; NULL may give a value

#define PLAN_OP_LIST(X)                                                                                              \
    X(ADD, "+", 2, OP_FAILS) X(SUB, "-", 2, OP_FAILS) X(MUL, "*", 2, OP_FAILS) X(DIV, "/", 2, OP_FAILS)              \
    X(MOD, "%", 2, OP_FAILS) X(NEG, "-", 1, OP_FAILS)                                                                \
    X(EQ, "=", 2, OP_TESTS) X(NE, "<>", 2, OP_TESTS) X(LT, "<", 2, OP_TESTS) X(LE, "<=", 2, OP_TESTS)                \
    X(GT, ">", 2, OP_TESTS) X(GE, ">=", 2, OP_TESTS)                                                                 \
    X(AND, "and", 2, OP_TESTS | OP_LAX) X(OR, "or", 2, OP_TESTS | OP_LAX) X(NOT, "not", 1, OP_TESTS)                 \
    X(IS_NULL, "is null", 1, OP_TESTS | OP_LAX) X(IS_NOT_NULL, "is not null", 1, OP_TESTS | OP_LAX)                  \
    X(LIKE, "like", -1, OP_TESTS) X(ILIKE, "ilike", -1, OP_TESTS) X(IN, "in", -1, OP_TESTS | OP_LAX)                 \
    X(COALESCE, "coalesce", -1, OP_LAX) X(CAST, "cast", 1, OP_FAILS)

#define NUMERIC_LOSES_DIGITS "float does not fit a numeric of 38 digits; numeric(p,s) rounds it"

typedef enum Op {
#define PLAN_OP_ENUM(name, text, n_args, properties) OP_##name,
    PLAN_OP_LIST(PLAN_OP_ENUM)
#undef PLAN_OP_ENUM
    OP_N,
    OP_FUNCTION,                       // the first function; OP_N is none
    OP_LAST = 1 << 15
} Op;

typedef enum ExprKind {
    EXPR_CONST,   // value
    EXPR_COLUMN,  // column: its id in the plan
    EXPR_PARAM,   // param: its number in the plan; known when the query runs, the same for all rows
    EXPR_CALL,    // op, args
    EXPR_CASE     // args: condition, result, ..., else (always an odd count; no operand form)
} ExprKind;

typedef struct Expr Expr;
struct Expr {
    ExprKind kind;
    Type     type;
    int      at;                       // byte offset in the SQL text, -1 when made up
    Op       op;
    int      n_args;
    Expr   **args;
    Value    value;
    int      column;
    int      param;
    bool     is_given;                 // a parameter that stands for a constant of the text: never NULL
    int      depth, size;              // height, and nodes counted with repetition; 0 in a leaf made by hand
    bool     is_long;                  // a number of more than 38 digits (1e300), as a double: only where doubles are
                                       // meant (expr_refuse_long)
    Type    *decides;                  // of an untyped $1: gets the type of a date or time that it is read as
    bool     is_declared;              // a column or a cast whose numeric(p,s) the user wrote (expr_is_declared)
};

typedef enum AggKind {
    AGG_COUNT_ALL,
    AGG_COUNT,
    AGG_SUM,
    AGG_MIN,
    AGG_MAX,
    AGG_AVG,
    AGG_SUM_REST,                      // what a sum of floats lost when it was rounded, for what is built from sums
    AGG_ANY  // the value of any row, NULL or not: a rewrite makes it where all rows of a group agree
} AggKind;

// sum: smallint and integer give bigint, bigint numeric(38,0), decimal(p,s) numeric(38,s), real and double double.
// avg of exact numbers is a NUMERIC_QUOTIENT, of floats double.  min and max keep the type.  Aggregates of no rows are
// NULL, counts 0.
typedef struct Agg {
    AggKind kind;
    Expr   *arg;                       // NULL for count(*)
    bool    is_distinct;               // of equal arguments one counts; a rewrite removes it
    Type    type;
    int     at;
} Agg;

#define expr_const weft_expr_const     // libtcc, linked statically, has an expr_const of its own
// Constructors.  They type-check, insert casts and fold constants; errors carry AT and, where useful, a hint.
Expr       *expr_const(Arena *arena, Value value, int at);                     // copies text into the arena
Expr       *expr_column(Arena *arena, int column, Type type, int at);
Expr       *expr_param(Arena *arena, int param, Type type, int at);
Expr       *expr_hole(Arena *arena, int param, Type type, int at);             // a parameter for a constant of the text
weft_status expr_number(Arena *arena, const char *bytes, size_t length, int at, Expr **out,
                        Error *err);  // a literal, typed by its digits
weft_status expr_call(Arena *arena, Op op, Expr *const *args, int n_args, int at, Expr **out, Error *err);
// NOT as it was written, and what expr_call makes of NOT at once, made of each in EXPR: a >= b of NOT a < b.
weft_status expr_not(Arena *arena, Expr *arg, int at, Expr **out, Error *err);
weft_status expr_fold_nots(Arena *arena, Expr *expr, Expr **out, Error *err);
weft_status expr_case(Arena *arena, Expr *const *args, int n_args, int at, Expr **out, Error *err);  // n_args odd
weft_status expr_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err);           // explicit cast
weft_status expr_coerce(Arena *arena, Expr *arg, Type type, int at, Expr **out,
                        Error *err);  // implicit: literals and widening only
// Brings N_ARGS of ARGS, every STEP-th, to one type, literals included; WHAT names the construct in messages.
weft_status expr_unify(Arena *arena, Expr **args, int n_args, int step, const char *what, int at, Error *err);
weft_status expr_agg(AggKind kind, Expr *arg, int at, Agg *out, Error *err);

// CALL with other arguments of the same types; nothing is folded.
Expr *expr_with_args(Arena *arena, const Expr *call, Expr **args, int n_args);

bool expr_equal(const Expr *a, const Expr *b);
bool expr_is_const(const Expr *expr);
weft_status expr_refuse_long(const Expr *expr, Error *err);       // 22003 where EXPR is_long
// Whether EXPR's precision and scale are what a declared column or a cast says; else they are only the digits that its
// values have.  CASE and COALESCE keep what all their results have, as in PostgreSQL.
bool expr_is_declared(const Expr *expr);
bool expr_is_never(const Expr *condition);                                      // a constant that is not true
bool expr_can_fail(const Expr *expr);  // evaluation may raise an error, judged without ranges
int expr_depth_limit(void);            // deepest tree that constructors accept: else TOO_COMPLEX

// The interpreter: for constants, dictionary values, rows above aggregates.  COLUMN is asked for EXPR_COLUMN nodes; it
// may
// be NULL when there are none.  Text results point into arguments or the arena.
typedef struct EvalContext {
    Arena *arena;
    void (*column)(void *context, const Expr *node, Value *value);
    void  *context;
} EvalContext;
weft_status expr_eval(const Expr *expr, const EvalContext *context, Value *value, Error *err);

// Sets of column ids.  All zero: the empty set.  Sets grow in the arena that is handed in.
typedef struct ColumnSet { int n_words; u64 *words; } ColumnSet;
void      columns_add(Arena *arena, ColumnSet *set, int column);
void      columns_add_all(Arena *arena, ColumnSet *set, const ColumnSet *other);
void      columns_add_expr(Arena *arena, ColumnSet *set, const Expr *expr);             // those that it names
bool      columns_has(const ColumnSet *set, int column);
bool      columns_is_subset(const ColumnSet *set, const ColumnSet *of);
bool      columns_meet(const ColumnSet *a, const ColumnSet *b);                         // have a column in common
int       columns_count(const ColumnSet *set);
int       columns_next(const ColumnSet *set, int after);                                // -1: none; begin with -1
bool      expr_uses_only(const Expr *expr, const ColumnSet *set);                       // no allocation
bool      expr_uses_any(const Expr *expr, const ColumnSet *set);
bool      expr_has_column(const Expr *expr, int column);

// A copy of EXPR in which GIVE stands in for each leaf (column or parameter) for which it gives one; EXPR itself where
// it
// gives none.  Constants are folded anew.
typedef const Expr *ReplaceLeaf(void *context, const Expr *leaf);                        // NULL: it stays
weft_status expr_replace(Arena *arena, const Expr *expr, ReplaceLeaf *give, void *context, Expr **out, Error *err);

// A number of 128 bits as two of 64, for what knows no others (words.c).  Each is a call over EXPR, even where
// that is constant.
Expr *expr_high_word(Arena *arena, Expr *expr);
Expr *expr_low_word(Arena *arena, Expr *expr);
bool  expr_is_high_word(const Expr *expr);
bool  expr_is_low_word(const Expr *expr);

// Intervals as numbers (expr_time.c): as they are stored, back, and the length, which is equal where intervals are.
weft_status interval_as_number(Arena *arena, Expr *interval, int at, Expr **out, Error *err);
weft_status interval_of_stored(Arena *arena, Expr *number, int at, Expr **out, Error *err);
weft_status interval_as_length(Arena *arena, Expr *interval, int at, Expr **out, Error *err);

// ---- ranges: what statistics prove about an expression --------------------------------------------------------------

// Floats.  All zero: nothing is proved.
typedef struct FloatRange {
    bool   known;
    bool   has_special;                // NaN or an infinity can occur
    double low, high;                  // of the finite values; low > high: there are none
    int    unit;                       // each of them is a multiple of 2^unit
    int    least;                      // and 0 or at least 2^least in magnitude
} FloatRange;

FloatRange float_range_any(void);
FloatRange float_range_none(void);
FloatRange float_range_of_bits(FloatBits bits, bool has_range, double low, double high,
                               bool has_nan);                                  // what a column's statistics say
int        float_range_most(FloatRange range);                                 // magnitudes are below 2^(most + 1)

typedef struct Range {
    bool known;                        // false: floats, or nothing proved; LOW and HIGH then span the type.  Known:
                                       // they have 120 bits at most
    bool nullable;
    i128 low, high;                    // of the non-NULL values; low > high: there are none
    FloatRange f;                      // the same for floats
} Range;

Range range_of_type(Type type);
bool  range_is_word(Range range);          // all of it fits 64 bits
Range range_of_words(Range high);          // of numbers of 128 bits: what the range of their high words proves
// COLUMN gives what is known of a column; called for EXPR_COLUMN only.
typedef Range (*RangeOfColumn)(void *context, const Expr *column);
Range range_of(const Expr *expr, RangeOfColumn column, void *context);
FloatRange float_range_of_cast(Range a, Type from, Type to);                    // to real or double
bool float_call_overflows(Op op, Type type, FloatRange a,
                          FloatRange b);  // finite operands may give an infinity; + - * /
bool float_call_underflows(Op op, Type type, FloatRange a, FloatRange b);       // operands may give a 0 by rounding
bool float_cast_overflows(FloatRange a, Type to);                               // the same of a double that is cast
bool float_cast_underflows(FloatRange a, Type to);
// The range of an arithmetic result before it is checked against its type: what decides whether a check is needed.
Range range_of_call(Op op, Type type, Range a, Range b);
// Digits by which the product of two numerics is cut, since what it has behind the point is limited; 0: it is exact.
int   product_cut(const Expr *call);
// How many digits behind the point quotients have room for where nothing else decides: of what this thread binds from
// now on.  Whether any were made since.
enum { QUOTIENT_SCALE = 24, QUOTIENT_SCALE_LEAST = 16 };    // with fewer, a quotient that loses digits is an error
void  quotients_begin(int scale);
bool  quotients_made(void);
// The same, where a quotient of numerics or a product that is cut can be among them.
Range range_of_arithmetic(const Expr *call, Range a, Range b);

// ---- the operator tree ----------------------------------------------------------------------------------------------

// A column of the plan: made by one node, seen by the nodes above.  Its place in plan->columns is its id.
typedef struct PlanColumn {
    Type        type;
    Range       range;                 // proved by plan_prove; range.nullable: NULL can occur
    double      n_distinct;            // estimated by plan_prove, at least 1
    double      typical;               // a sum's or a count's mean, estimated; 0: not known
    const Table *table;                // of a stored column; NULL: it is another
    int         place;                 // in the table
    bool        is_declared;           // its numeric(p,s) is (expr_is_declared)
    const char *name;                  // for people, and for the result
    const char *qualifier;             // the alias of its table; NULL: it has none
    const Expr *value;                 // what PROJECT or a group key computes; NULL: a stored column, or
    const struct Agg *agg;             // an aggregate; NULL: none.  Both only for printing.
    bool is_measured;  // plan_prove has read the statistics behind it (scan) or looked at its values (values):
    Range       measured;              // what they prove
    double      n_measured;            // distinct values
} PlanColumn;

typedef enum NodeKind {
    NODE_SCAN,                         // a table
    NODE_VALUES,                       // constants
    NODE_FILTER,                       // rows for which all conditions are true
    NODE_PROJECT,                      // new columns from expressions
    NODE_JOIN,
    NODE_AGGREGATE,                    // groups; without keys one row, always
    NODE_WINDOW,                       // the input's rows, each with the values of window functions (window.h)
    NODE_SORT,                         // order, and DISTINCT ON
    NODE_LIMIT,
    NODE_SET,                          // UNION, INTERSECT, EXCEPT, by position
    NODE_SHARED,                       // rows of a subplan that is computed once
    NODE_REPEAT                        // WITH RECURSIVE: inputs[0] once, then inputs[1] again and again until a round
                                       // gives no new row; without inputs: the rows that REPEAT's last round added
} NodeKind;

// Left is inputs[0], right inputs[1].  Pairs match where all keys are equal (NULL equals nothing) and all conditions
// hold.  The right side of a join may name columns of the left one (a correlated subquery, LATERAL): it is then
// computed for each left row, until rewrite_remove_correlation has found a way without that.
typedef enum JoinKind {
    JOIN_INNER,                        // matching pairs
    JOIN_LEFT,                         // and left rows without a match, the right columns NULL
    JOIN_RIGHT,                        // and right rows without a match; a rewrite makes it LEFT
    JOIN_FULL,                         // and both
    JOIN_SEMI,                         // left rows that have a match, once
    JOIN_ANTI,                         // left rows that have none
    JOIN_SINGLE,                       // like LEFT; a left row with a second match is an error (21000)
    JOIN_MARK                          // left rows, each with MARK: whether it has a match (never NULL)
} JoinKind;

typedef enum SetKind { SET_UNION, SET_INTERSECT, SET_EXCEPT } SetKind;

typedef struct SortKey { int column; bool descending, nulls_first; } SortKey;          // column: an id

typedef struct Windows Windows;        // window.h

typedef struct Shared {                // a subplan with several users: WITH, and rewrites that need rows twice
    struct Node *root;
    int          n_uses;               // references in the tree; counted by plan_rewrite at its end
    int          number;               // in plan->shared
    const char  *name;                 // WITH's; for people
    bool         is_kept;              // too many read it to be computed by each: its rows are stored
} Shared;

typedef struct Node Node;
struct Node {
    NodeKind   kind;
    int        at;                     // place in the text, -1: made up
    int        n_inputs;
    Node      *inputs[2];
    int        n_out;                  // what comes out, in order: column ids
    int       *out;
    double     rows;                   // estimated by plan_prove

    const Table *table;                // scan; held by the plan's arena
    const char  *alias;                // scan, shared: what the text calls it
    int         *table_columns;        // scan: n_out of them, the table's column behind out[i]
    u64          n_rows;               // values
    Value       *values;               // values: n_rows x n_out, of the columns' types
    int          n_conditions;         // filter: all must be true; join: beside the keys, over both sides' columns
    Expr       **conditions;
    Expr **exprs;  // project: n_out, expression behind out[i]; a column that stays as it is keeps its id
    int          copies;               // project: each row so many times: a bigint column of the input; -1: once
    JoinKind     join;
    int          n_keys;               // join: pairs; aggregate: group keys
    Expr       **keys;                 // join: over left; aggregate: expressions behind out[0 .. n_keys - 1];
                                       // window: what its functions and orders look at
    Expr       **right_keys;           // join: over right, of the same types
    int          mark;                 // join: the boolean column of JOIN_MARK
    int          n_aggs;               // aggregate: out[n_keys + a] is aggregate a
    Agg         *aggs;
    int          n_sort;               // sort
    SortKey     *sort;
    int n_distinct_on;  // sort: of rows equal in the first so many keys only the first stays; 0: all stay
    i64 run_skipped, run_more;         // of such a run so many are left out first, and so many more than one stay
    i64          limit, offset;        // limit -1: none
    Windows     *windows;              // window: n_keys expressions are its keys
    SetKind      set;
    bool         is_all;               // set, repeat: ALL; else the rows of a repeat are all different
    int          n_by_length;          // set but for UNION ALL, repeat: of the first so many columns,
    const bool  *by_length;            // which are stored intervals: equal where their lengths (high words) are
    const Node  *repeat;               // repeat without inputs: whose rows it reads; it is below inputs[1] of that
    Shared      *shared;
};

typedef struct PlanParam {             // an EXPR_PARAM: the value of a subquery, or of $1
    Type        type;
    Node *subplan;  // its one row and column; no row: NULL; a second row: an error (21000).  NULL: a constant
    int         at;
    const Value *guess;                // of a constant: for estimates only
} PlanParam;

typedef struct Plan {
    Arena      *arena;
    int         n_columns;
    PlanColumn *columns;               // by id
    int         n_params;
    PlanParam  *params;
    int         n_shared;
    Shared    **shared;                // a subplan comes after those that it uses
    int         n_scans;               // how many tables it scans: MAX_RELATIONS at most
    bool        is_correlated;         // has a join whose right side names columns of its left side, until a rewrite
    Node       *root;                  // its out: the result's columns first
    int         n_visible;             // so many of them are shown; the rest is only sorted by
    const char **names;                // n_visible: what the result calls them
    bool        is_recursive;          // it has a repeat
    bool        is_eager;              // for tests: rewrites that cost decides on are done wherever they may be
    bool        is_momentary;          // it holds for the moment and the session's time zone: not to be kept
} Plan;

#define MAX_RELATIONS 64
#define RUN_ALL ((i64)1 << 62)         // run_more: no limit

Plan *plan_new(Arena *arena);
int   plan_add_column(Plan *plan, Type type, const char *name, const char *qualifier);          // gives its id
int   plan_add_param(Plan *plan, Type type, Node *subplan, int at);                             // gives its number
Expr *plan_column_expr(const Plan *plan, int column, int at);
Expr *plan_column_expr_in(Arena *arena, const Plan *plan, int column);                          // for a run of the plan

// Constructors: they fill in kind, inputs and out.  Lists that are handed in become the node's own.
Node *plan_scan(Plan *plan, const Table *table, const char *alias, int at);
Node *plan_values(Plan *plan, u64 n_rows, int n_columns, const int *columns,
                  Value *values);  // no column: rows all the same
Node *plan_filter(Plan *plan, Node *input, Expr **conditions, int n_conditions);                 // none: INPUT itself
Node *plan_project(Plan *plan, Node *input, Expr **exprs, const int *columns, int n_columns);
Node *plan_join(Plan *plan, JoinKind kind, Node *left, Node *right, Expr **conditions,
                int n_conditions);  // mark: makes it
Node *plan_aggregate(Plan *plan, Node *input, Expr **keys, const int *key_columns, int n_keys, Agg *aggs,
                     const int *agg_columns, int n_aggs);
Node *plan_sort(Plan *plan, Node *input, SortKey *keys, int n_keys);
Node *plan_limit(Plan *plan, Node *input, i64 limit, i64 offset);
Node *plan_set(Plan *plan, SetKind kind, bool is_all, Node *left, Node *right,
               const int *columns);  // fresh ids, a type each
Shared *plan_share(Plan *plan, Node *root, const char *name);
Node *plan_reference(Plan *plan, Shared *shared, const char *alias, int at);  // fresh columns for its rows
// A repeat gets its inputs when they are known: what is below the second one names the first.
Node *plan_repeat(Plan *plan, bool is_all, const int *columns, int n_columns);
Node *plan_last_round(Plan *plan, const Node *repeat, const char *alias, int at);  // fresh columns for its rows

bool  node_gives(const Node *node, int column);                                                  // among its out
void  node_columns(Arena *arena, const Node *node, ColumnSet *set);                              // all of its out
bool plan_is_same_tree(const Plan *plan, const Node *a, const Node *b);               // same rows, column by column
// The columns that the tree names and does not make: those of the queries around a correlated subquery.
void  plan_free_columns(Arena *arena, const Node *node, ColumnSet *free_columns);
// expr_replace in all expressions of the tree; what others share is left alone.
weft_status plan_replace_leaves(Arena *arena, Node *node, ReplaceLeaf *give, void *context, Error *err);
// A copy of the tree with fresh columns, paired with the tree's by place in out.
weft_status plan_copy_tree(Plan *plan, const Node *node, Node **copy, Error *err);
void plan_split_condition(Arena *arena, Expr *condition, Expr ***list, int *n_list);  // at its ANDs; true is left out

// Ranges, NULLs, distinct counts and row estimates of all columns and nodes, from the leaves up.
void  plan_prove(Plan *plan, Node *root);
double plan_selectivity(const Plan *plan, const Expr *condition);                                // estimate, 0 to 1
double plan_distinct_of(const Plan *plan, const Expr *expr);                                     // estimate, at least 1
Range plan_range(const Plan *plan, const Expr *expr);                                            // proved
bool  plan_can_fail(const Plan *plan, const Expr *expr);    // expr_can_fail, but for what ranges rule out
Range plan_range_of_stored(const Table *table, int column);                                      // proved by statistics
bool plan_is_empty(const Plan *plan, const Node *node);  // proved by its text: no row comes out

// ---- a plan for many texts: its parameters are constants that are put in (instance.c) -------------------------------

// Whether plan_instance knows all that is in PLAN, which has been rewritten and whose parameters are all holes.
bool plan_is_template(const Plan *plan);
typedef int MovePlace(void *context, int at);              // where the text has now what was at AT; AT is no negative
typedef struct Constants { const Expr *const *values; MovePlace *move; void *context; } Constants;
// A copy of PLAN in ARENA with the VALUES, by parameter, in the place of parameters.  It shares with PLAN all that has
// neither expressions nor places.  *CHANGE: by how much its estimates of rows differ from PLAN's, where most; at least
// 1.  Fails where a call with the new constants does.
weft_status plan_instance(Arena *arena, const Plan *plan, const Constants *constants, Plan **out, double *change,
                          Error *err);
void plan_keep_rows(Plan *plan, const Plan *instance);      // PLAN gets the estimates of an instance of it
void plan_dump(const Plan *plan, Text *text);               // all that a run looks at, to compare two plans

void expr_print(const Expr *expr, const Plan *plan, Text *text);  // as SQL; PLAN may be NULL
void  agg_print(const Agg *agg, const Plan *plan, Text *text);
void plan_print(const Plan *plan, Text *text);  // the tree, for EXPLAIN (TREE)

// ---- rewrites: one subject, one file each ---------------------------------------------------------------------------

typedef struct Rewrite {
    const char  *name;                 // for EXPLAIN (REWRITES)
    weft_status (*apply)(Plan *plan, Node **root, Error *err);     // the tree is *ROOT before and after; NULL: it takes
    weft_status (*apply_plan)(Plan *plan, Error *err);             // the plan as a whole
} Rewrite;

// All of them, in order, on the root, each shared subplan and each parameter's subplan; then plan_prove.  TRACE may be
// NULL;
// else it gets the tree as it was bound and after each rewrite that changed it.
weft_status plan_rewrite(Plan *plan, Text *trace, Error *err);

// ---- continuous views (continuous.c) --------------------------------------------------------------------------------

// The columns that are kept of a view's groups: keys first, then partial aggregates.
typedef struct KeptColumn { Type type; AggKind merge; } KeptColumn;            // merge: how two values become one
typedef struct KeptGroups { int n_keys, n_columns; KeptColumn *columns; } KeptGroups;

// A test of a column against a constant: COLUMN is an id, or the number of a class column (family.c).
typedef struct FamilyTest { int column; Type type; Op op; i64 value; } FamilyTest;
typedef struct WantedClasses { int n_columns, n_tests; FamilyTest *tests; } WantedClasses;     // n_columns: of classes

// The rows that are kept for a view.  A group may have several.
typedef struct ViewRows {
    const Table  *own;
    const Table  *shared;              // of its family, with classes behind the keys; NULL: none
    WantedClasses wants;               // of these
} ViewRows;

// Whether the groups of a query, as it was bound, can be kept up to date; UNSUPPORTED says what is in the way.
weft_status  plan_check_continuous(const Plan *plan, Error *err);
const Table *plan_stream(const Node *node);                // that it scans; NULL: none
// The plan becomes that of its groups' columns, which are to be kept.
weft_status  plan_keep_groups(Plan *plan, KeptGroups *kept, Error *err);
// An empty plan becomes that which merges the rows that are kept, so that each group has one.
weft_status  plan_merge_groups(Plan *plan, const ViewRows *rows, const KeptGroups *kept, Error *err);
// The groups below ROOT, a query that was bound in PLAN, come from ROWS instead of being computed.
weft_status  plan_read_groups(Plan *plan, Node *root, const ViewRows *rows, Error *err);

// ---- continuous views of one shape (family.c) -----------------------------------------------------------------------

// What a view says of its family, of a plan that plan_keep_groups has made: the queries of two views with the same text
// here differ in their tests at most.  False: it is for no family.
typedef struct FamilyForm { const char *text; int n_tests; FamilyTest *tests; } FamilyForm;
bool plan_family_form(const Plan *plan, Arena *arena, FamilyForm *form);

// Classes of the values of the columns that views of one form test.
typedef struct FamilyColumn {
    int  column;                       // id, in the plan of any of them
    Type type;
    int  n_breaks;
    i64 *breaks;                       // ascending; a value's class is the number of those that are not above it
    i64  low, high;                    // no view wants values outside
} FamilyColumn;
typedef struct FamilyClasses { int n_columns; FamilyColumn *columns; i64 n_classes; } FamilyClasses;    // all together
void plan_family_classes(Arena *arena, const FamilyForm *const *forms, int n_forms, FamilyClasses *classes);

// PLAN, of plan_keep_groups, becomes that of the groups of all views: by the keys, then by the classes.
weft_status plan_family_groups(Plan *plan, const FamilyClasses *classes, Error *err);
// What is kept of these, where VIEW is what is kept of one view's.
void plan_family_kept(Arena *arena, const KeptGroups *view, const FamilyClasses *classes, KeptGroups *kept);
// The classes that a view wants, in ARENA.
void plan_family_wants(Arena *arena, const FamilyClasses *classes, const FamilyForm *form, WantedClasses *wants);
// A view's rows of the family's, without the classes.
weft_status plan_family_rows(Plan *plan, const Table *cells, int n_keys, const WantedClasses *wants, Node **out,
                             Error *err);

// ---- statements: what a front end hands to the engine ---------------------------------------------------------------

typedef enum StatementKind {
    STATEMENT_SELECT, STATEMENT_EXPLAIN, STATEMENT_CREATE_TABLE, STATEMENT_DROP_TABLE,
    STATEMENT_INSERT, STATEMENT_COPY, STATEMENT_SET, STATEMENT_SHOW, STATEMENT_EMPTY,
    STATEMENT_COPY_TO, STATEMENT_INSERT_QUERY, STATEMENT_CREATE_AS, STATEMENT_CREATE_VIEW, STATEMENT_TRUNCATE,
    STATEMENT_RENAME, STATEMENT_PREPARE, STATEMENT_EXECUTE, STATEMENT_DEALLOCATE,
    STATEMENT_ADD_INDEX,               // CREATE INDEX; ALTER TABLE ... ADD of a key
    STATEMENT_DROP_INDEX               // DROP INDEX; with a table's name ALTER TABLE ... DROP CONSTRAINT
} StatementKind;

// Which of two tables of one name is meant: public.t, pg_temp.t, or t, which is the session's own where it has one.
typedef enum TableHome { HOME_ANY, HOME_PUBLIC, HOME_TEMPORARY } TableHome;

typedef struct Statement {
    StatementKind kind;
    struct Plan  *plan;                // select, explain; copy to, insert query, create as, create view: the query
    bool          explain_analyze, explain_kernel;
    bool          explain_tree;        // the operator tree after all rewrites
    bool          explain_rewrites;    // the tree as it was bound, and after each rewrite that changed it
    bool          explain_json;        // FORMAT JSON
    bool          explain_network, explain_dot;     // the network as it is now, as text or for Graphviz
    const char   *name;                // create, insert, copy: table; set, show: setting
    TableHome     home;                // of the table NAME
    const char  **names;               // drop, truncate
    TableHome    *homes;               // of each
    int           n_names, n_homes;    // as many
    bool          if_exists;           // drop: IF EXISTS; create: IF NOT EXISTS
    ColumnDef    *columns;             // create
    int           n_columns;
    IndexDef     *indexes;             // create: keys; add index: the one
    int           n_indexes;
    Value        *rows;                // insert: n_rows x table columns, cast to the column types; missing columns NULL
    u64           n_rows;
    const char   *path;                // copy
    CopyOptions   copy;
    const char   *value;               // set: text of the value; NULL: DEFAULT
    const char   *text;                // create view: the query; prepare: the statement
    int           text_at;             // where that begins
    const char   *new_name;            // rename
    const char   *column;              // rename: of a column; NULL: of the table.  Create view: see watermark_us
    Type         *types;               // prepare: of the parameters that have one; of kind NULL: it is open
    int           n_types;
    Value        *arguments;           // execute
    int           n_arguments;
    bool          is_temporary;        // create
    bool          or_replace;          // create view
    bool          is_view;             // drop, rename: a view, not a table
    bool          cascade;             // drop: views that use it, too
    bool          without_data;        // create as: no rows
    TableTraits   traits;              // create: of a stream
    bool          is_continuous;       // create view, drop: a materialized view
    i64           watermark_us;        // create view: of a continuous one; -1: none.  COLUMN is its event time
    bool          has_quotients;       // numerics are divided in it
    int           at;
} Statement;

// ---- pipelines ------------------------------------------------------------------------------------------------------
//
// A pipeline reads a source, takes each row through filters and probes of tables that earlier pipelines built, and ends
// in
// a sink.  It reads a table, or what earlier pipelines left as rows.  The order of steps is not fixed here: a step can
// be
// taken as soon as the columns that it needs are there, and the engine knows best, once the tables are built.

typedef struct Binding { int column; Expr *value; } Binding;                   // a column and the expression behind it

typedef struct Probe {
    int       build;                   // the pipeline that builds the table; always an earlier one
    JoinKind  join;                    // inner, left, semi, anti, single or mark
    int       n_keys;                  // 0: every row meets every built row
    Expr    **keys;                    // pairs with the build's keys
    Expr     *residual;                // what else a pair must satisfy; NULL: nothing
    int       mark;                    // JOIN_MARK: the column that says whether there is a match
} Probe;

typedef enum SinkKind {
    SINK_TABLE,                        // a join table
    SINK_GROUPS,                       // groups and their aggregates
    SINK_ROWS,                         // rows
    SINK_VALUES                        // no kernel: the rows of a VALUES node
} SinkKind;

// What is done with groups, rows or values once they are all there: by the host, or by a kernel of its own.
typedef struct Finish {
    const struct FinishWindows *windows;       // window functions, computed before the outputs are ordered; NULL: none
    int        n_conditions;           // groups and values only: which of them stay
    Expr     **conditions;
    int        n_outputs;              // what is left, over the sink's columns; n_visible of the last one's are shown
    Binding   *outputs;
    bool       is_computed;            // rows: outputs that are no columns of the kernel's outputs are the host's
    int        n_sort;                 // column: an id among the outputs
    SortKey   *sort;
    int        n_distinct_on;          // as in NODE_SORT, and
    i64        run_skipped, run_more;
    i64        limit, offset;          // limit -1: none
    int        copies;                 // each row so many times: the id of an output; -1: once
} Finish;

typedef struct Pipeline {
    // source
    const Table *table;                // NULL: the rows of
    int          n_inputs;             // earlier pipelines, one after the other, their outputs by position
    int         *inputs;
    const char  *name;                 // of the source, for people
    int          n_columns;            // column ids that the source gives
    int         *columns;
    int         *places;               // table: its column; inputs: the output's number
    // steps
    int          n_filters;
    Expr       **filters;
    int          n_probes;
    Probe       *probes;
    int          n_lets;               // columns that are computed on the way
    Binding     *lets;
    // sink
    SinkKind     sink;
    int          n_keys;               // table: its key; groups: keys, each with its column
    Binding     *keys;
    int          n_payload;            // table: columns that pipelines above need
    Binding     *payload;
    int          n_aggs;               // groups
    Agg         *aggs;
    int         *agg_columns;
    int          n_outputs;            // rows
    Binding     *outputs;
    const Node  *values;               // values
    Finish       finish;               // groups, rows, values
    int          param;                // its row is this parameter's value; -1: none
    double       rows_in, rows_out;    // estimates: read, and left for the sink
    double       n_groups;             // groups: how many, estimated
} Pipeline;

// Recursion.  LAST's rows are added to FIRST's, then the pipelines after FIRST that depend on its rows run again, over
// the rows that were added last in the place of FIRST's, until none are.  Who reads LAST reads all of them.
typedef struct Repeat {
    int         first, last;
    bool        is_all, *again;        // again: by pipeline
    int         n_by_length;           // as the node's
    const bool *by_length;
} Repeat;

typedef struct Graph {
    const Plan  *plan;
    int          n_pipelines;          // at least one; the last one is the answer
    Pipeline    *pipelines;
    int          n_repeats;
    Repeat      *repeats;
} Graph;

weft_status plan_cut(Arena *arena, const Plan *plan, Graph **graph, Error *err);

#endif
