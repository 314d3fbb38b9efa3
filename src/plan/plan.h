// plan.h - what a query means: typed expressions, the bound query, and its pipelines.
//
// A front end (sql, datalog) builds a Query: relations, conjuncts, keys, aggregates, outputs, every expression typed and
// every implicit cast made explicit, so nothing below looks at SQL again:
//
//     expr_call(arena, OP_MUL, args, 2, at, &product, err)        // finds the types, inserts the casts, folds constants
//     plan_pipelines(arena, query, &plan, err)                    // join order, pushdown, sinks
//
// Nodes live in the arena they were made in and are never changed once made, except by the function that made them.

#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "store/store.h"

// ---- expressions ------------------------------------------------------------------------------------------------------

// Operators: name, text for EXPLAIN, number of arguments (-1: any).  Semantics are PostgreSQL's unless said otherwise.
// After expr_call, arguments obey:
//   ADD SUB MUL MOD  both integer kinds (result: the wider kind), or both decimal (ADD SUB MOD: equal scale; MUL: scales add up),
//                    or both real, or both double; NUMERIC (128 bits) only above aggregates.  Date + integer, date - integer
//                    give a date, date - date an integer.  A result out of range of its type is an error, 22003.
//   DIV              both integer kinds (truncates), or both double; decimal / anything is double / double.  22012 on zero.
//   NEG ABS          any number
//   EQ .. GE         both integer kinds, both decimal or numeric of equal scale, both double, both date, boolean or text
//   AND OR NOT       boolean, three-valued
//   IS_NULL, IS_NOT_NULL   any; never NULL
//   LIKE ILIKE       text, constant pattern; optional third argument: constant escape text ("" for none; default "\")
//   IN               an expression and constants of its type (NULLs among them allowed, with SQL's meaning)
//   COALESCE         arguments of one type
//   CAST             one argument, to the node's type: between numbers, boolean <-> integer, text <-> anything only on constants
//                    (and text -> text).  Decimals round half away from zero, double -> integer half to even; 22003 out of range.
//   YEAR ..          field of a date, as integer
#define PLAN_OP_LIST(X)                                                            \
    X(ADD, "+", 2) X(SUB, "-", 2) X(MUL, "*", 2) X(DIV, "/", 2) X(MOD, "%", 2)     \
    X(NEG, "-", 1) X(ABS, "abs", 1)                                                \
    X(EQ, "=", 2) X(NE, "<>", 2) X(LT, "<", 2) X(LE, "<=", 2) X(GT, ">", 2) X(GE, ">=", 2) \
    X(AND, "and", 2) X(OR, "or", 2) X(NOT, "not", 1)                               \
    X(IS_NULL, "is null", 1) X(IS_NOT_NULL, "is not null", 1)                      \
    X(LIKE, "like", -1) X(ILIKE, "ilike", -1) X(IN, "in", -1)                      \
    X(COALESCE, "coalesce", -1) X(CAST, "cast", 1)                                 \
    X(YEAR, "year", 1) X(QUARTER, "quarter", 1) X(MONTH, "month", 1) X(DAY, "day", 1) \
    X(DOW, "dow", 1) X(ISODOW, "isodow", 1) X(DOY, "doy", 1)

typedef enum Op {
#define PLAN_OP_ENUM(name, text, n_args) OP_##name,
    PLAN_OP_LIST(PLAN_OP_ENUM)
#undef PLAN_OP_ENUM
    OP_N
} Op;

typedef enum ExprKind {
    EXPR_CONST,                        // value
    EXPR_COLUMN,                       // relation, column
    EXPR_CALL,                         // op, args
    EXPR_CASE,                         // args: condition, result, condition, result, ..., else (always an odd count; no operand form)
    EXPR_KEY,                          // index: a group key, in outputs and HAVING of a grouped query
    EXPR_AGG                           // index: an aggregate, likewise
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
    int      relation, column;
    int      index;
    int      depth, size;              // height, and nodes counted with repetition; kept by the constructors, 0 in a leaf made by hand
};

typedef enum AggKind { AGG_COUNT_ALL, AGG_COUNT, AGG_SUM, AGG_MIN, AGG_MAX, AGG_AVG } AggKind;

// sum: smallint and integer give bigint, bigint numeric(38,0), decimal(p,s) numeric(38,s), real and double double.
// avg is always double.  min and max keep the type.  Aggregates of no rows are NULL, counts 0.
typedef struct Agg {
    AggKind kind;
    Expr   *arg;                       // NULL for count(*)
    Type    type;
    int     at;
} Agg;

#define expr_const weft_expr_const     // libtcc, linked statically, has an expr_const of its own
// Constructors.  They type-check, insert casts and fold constants; errors carry AT and, where useful, a hint.
Expr       *expr_const(Arena *arena, Value value, int at);                     // copies text into the arena
Expr       *expr_column(Arena *arena, int relation, int column, Type type, int at);
weft_status expr_number(Arena *arena, const char *bytes, size_t length, int at, Expr **out, Error *err);   // a literal, typed by its digits
weft_status expr_call(Arena *arena, Op op, Expr *const *args, int n_args, int at, Expr **out, Error *err);
weft_status expr_case(Arena *arena, Expr *const *args, int n_args, int at, Expr **out, Error *err);  // n_args odd
weft_status expr_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err);           // explicit cast
weft_status expr_coerce(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err);         // implicit: literals and widening only
weft_status expr_agg(AggKind kind, Expr *arg, int at, Agg *out, Error *err);

bool expr_equal(const Expr *a, const Expr *b);
bool expr_is_const(const Expr *expr);
bool expr_is_never(const Expr *condition);                                      // a constant that is not true
u64  expr_relations(const Expr *expr);                                         // bit r: uses relation r
bool expr_can_fail(const Expr *expr);                                           // evaluation may raise an error, judged without ranges
int  expr_depth_limit(void);                                                   // deepest tree that constructors accept: else TOO_COMPLEX

// The interpreter: for constants, dictionary values, rows above aggregates.  COLUMN is asked for EXPR_COLUMN, EXPR_KEY and
// EXPR_AGG nodes; it may be NULL when there are none.  Text results point into arguments or the arena.
typedef struct EvalContext {
    Arena *arena;
    void (*column)(void *context, const Expr *node, Value *value);
    void  *context;
} EvalContext;
weft_status expr_eval(const Expr *expr, const EvalContext *context, Value *value, Error *err);

// ---- the bound query -----------------------------------------------------------------------------------------------------

#define MAX_RELATIONS 64

typedef struct Relation { const Table *table; const char *alias; int at; } Relation;   // table is held by the query's arena

typedef struct Output { Expr *expr; const char *name; } Output;

typedef struct SortKey { int output; bool descending, nulls_first; } SortKey;

typedef struct Query {
    int        n_relations;            // 0: select without from, one row
    Relation  *relations;
    int        n_conjuncts;            // WHERE and ON, split at AND; boolean; a row passes when all are true
    Expr     **conjuncts;
    bool       is_grouped;             // has keys or aggregates or HAVING
    int        n_keys;
    Expr     **keys;                   // over columns
    int        n_aggs;
    Agg       *aggs;                   // distinct ones; arguments over columns
    Expr      *having;                 // over EXPR_KEY and EXPR_AGG; NULL when there is none
    int        n_outputs, n_visible;   // outputs past the visible ones are only sorted by
    Output    *outputs;                // over columns, or over EXPR_KEY and EXPR_AGG when grouped
    bool       is_distinct;            // only with is_grouped; an ungrouped DISTINCT is bound as GROUP BY all outputs
    int        n_sort;
    SortKey   *sort;
    i64        limit, offset;          // limit -1: none
} Query;

void expr_print(const Expr *expr, const Query *query, Text *text);             // as SQL, for EXPLAIN; QUERY may be NULL

// ---- statements: what a front end hands to the engine --------------------------------------------------------------------

typedef enum StatementKind {
    STATEMENT_SELECT, STATEMENT_EXPLAIN, STATEMENT_CREATE_TABLE, STATEMENT_DROP_TABLE,
    STATEMENT_INSERT, STATEMENT_COPY, STATEMENT_SET, STATEMENT_SHOW, STATEMENT_EMPTY
} StatementKind;

typedef struct Statement {
    StatementKind kind;
    Query        *query;               // select, explain
    bool          explain_analyze, explain_kernel;
    bool          explain_network, explain_dot;     // the network as it is now, as text or for Graphviz
    const char   *name;                // create, insert, copy: table; set, show: setting
    const char  **names;               // drop
    int           n_names;
    bool          if_exists;           // drop: IF EXISTS; create: IF NOT EXISTS
    ColumnDef    *columns;             // create
    int           n_columns;
    Value        *rows;                // insert: n_rows x table columns, cast to the column types; missing columns NULL
    u64           n_rows;
    const char   *path;                // copy
    CopyOptions   copy;
    const char   *value;               // set: text of the value; NULL: DEFAULT
    int           at;
} Statement;

// ---- pipelines ---------------------------------------------------------------------------------------------------------------
// A pipeline scans one relation, filters, probes tables that earlier pipelines built, and ends in a sink.  The pipelines of a
// query form a tree: the last one is the root, over the largest relation; every other one builds the table its parent probes.

typedef struct ColumnRef { int relation, column; } ColumnRef;

typedef struct Probe {
    int    build;                      // the pipeline that builds the table; always an earlier one
    int    n_keys;                     // 0: a cross join
    Expr **keys;                       // over columns that are available when the probe happens; pairs with the build's keys
} Probe;

typedef enum SinkKind { SINK_TABLE, SINK_GROUPS, SINK_ROWS } SinkKind;

typedef struct Pipeline {
    int        relation;               // scanned
    u64        relations;              // bit r: columns of relation r are available at the sink
    int        n_filters;              // each is applied as soon as its columns are there
    Expr     **filters;
    int        n_probes;               // in planned order; once the tables are built the real hit rates decide
    Probe     *probes;
    SinkKind   sink;                   // groups and rows: what the query says
    int        n_keys;                 // table: its key
    Expr     **keys;
    int        n_payload;              // table: columns that pipelines above need
    ColumnRef *payload;
    double     rows_in, rows_out;      // estimates
} Pipeline;

typedef struct Plan {
    const Query *query;
    int          n_pipelines;          // at least one; builds before their probes
    Pipeline    *pipelines;
} Plan;

weft_status plan_pipelines(Arena *arena, const Query *query, Plan **plan, Error *err);   // n_relations > 0
double      plan_selectivity(const Query *query, const Expr *condition);                  // estimate, 0 to 1
bool        plan_is_empty(const Query *query);                                            // proved by its text alone: no row comes out
void        plan_collect_columns(Arena *arena, const Expr *expr, ColumnRef **refs, int *n_refs);   // adds those not yet there

// ---- ranges: what statistics prove about an expression -------------------------------------------------------------------------

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
FloatRange float_range_of_bits(FloatBits bits, bool has_range, double low, double high, bool has_nan);   // what a column's statistics say
int        float_range_most(FloatRange range);                                 // magnitudes are below 2^(most + 1)

typedef struct Range {
    bool known;                        // false: floats, or nothing proved; LOW and HIGH then span the type
    bool nullable;
    i128 low, high;                    // of the non-NULL values; low > high: there are none
    FloatRange f;                      // the same for floats
} Range;

Range range_of_type(Type type);
// COLUMN gives what is known of a column; called for EXPR_COLUMN only.
typedef Range (*RangeOfColumn)(void *context, const Expr *column);
Range range_of(const Expr *expr, RangeOfColumn column, void *context);
FloatRange float_range_of_cast(Range a, Type from, Type to);                    // to real or double
bool       float_call_overflows(Op op, Type type, FloatRange a, FloatRange b);   // finite operands may give an infinity; + - * /
// The range of an arithmetic result before it is checked against its type: what decides whether a check is needed.
Range range_of_call(Op op, Type type, Range a, Range b);

#endif
