// sql_int.h - what the files of sql/ share: the lexer that looks before libpg_query does, the workers, parse trees, the
// binder.

#ifndef WEFT_SQL_INT_H
#define WEFT_SQL_INT_H

#include <pg_query/pg_query.pb-c.h>

#include "sql/refusals.h"
#include "sql/sql.h"

typedef PgQuery__Node ParseNode;                          // plan.h has a Node of its own

// ---- before parsing -------------------------------------------------------------------------------------------------

typedef enum TokenKind {
    TOKEN_END,                         // of the text
    TOKEN_CUT,                         // the text ends inside a quote or a comment
    TOKEN_WORD,                        // a keyword or a name without quotes
    TOKEN_SYMBOL,                      // one character: a bracket, a comma, part of an operator
    TOKEN_OTHER                        // a number, a literal, a quoted name, a parameter
} TokenKind;

typedef struct ParseTree ParseTree;                         // opened up only in trees.c

typedef struct Token { TokenKind kind; const char *start; size_t length; } Token;

Token token_next(const char **text);                                           // skips blanks and comments first
bool  token_is(const Token *token, const char *word);                          // in any case; words are lower case
int   sql_first_token(const char *text);                                       // offset; of the end when there is none
int   sql_find_word(const char *text, const char *word);                       // offset of a keyword, or -1

// An upper bound on how deep the parse tree nests, from tokens alone.  When it exceeds LIMIT, *AT is where it does.
int   sql_nesting(const char *text, int limit, int *at);

// Characters that libpg_query's lexer looks at again: /*/*/*... and +-+-... take it the square of their length.
i64   sql_rescans(const char *text);

// The text before the parser sees it: FROM 'file.csv' becomes FROM "file.csv".  NULL: nothing is to be changed.
// *MAY_CHANGE: a text stands where a file may be, so that it depends on its value.
char *sql_quote_files(Arena *arena, const char *text, bool *may_change);

enum { NESTING_KEPT = 100 };           // of trees that are bound on the caller's stack: less than 100 kB of it

// UTF-8, not too long, and not nested deeper than the stack allows; *NESTING: how deep.
weft_status sql_check_text(const char *text, size_t length, size_t stack_bytes, int *nesting, Error *err);
// MESSAGE and CURSOR are libpg_query's.
weft_status sql_syntax_error(const char *text, const char *message, int cursor, Error *err);
// The tree of a text, kept or parsed here and now; for a thread with a large stack.
weft_status sql_parse_text(Arena *arena, const char *text, ParseTree **tree, Error *err);

// Runs WORK on a thread with a large stack and waits for it.
weft_status sql_worker_run(void (*work)(void *context, size_t stack_bytes), void *context,
                           const _Atomic u32 *stop, Error *err);

// ---- the shape of a text: its tokens without the values of its literals (shape.c) -----------------------------------

// The number of the literal that is, or follows a minus, at PLACE; -1: there is none.
int  shape_literal_at(const TextShape *shape, int place, bool *is_negated);
// The same of a constant of the tree that has the literal's value.
int  shape_literal_of(Arena *arena, const TextShape *shape, const PgQuery__AConst *constant, bool *is_negated);
// What the literal says, as the parse tree has it: a text without its quotes, digits with a minus.  NUL at its end.
const char *literal_bytes(Arena *arena, const Literal *literal, bool is_negated);

// ---- a tree made for one text, filled in for another one of its shape (fill.c) --------------------------------------

typedef struct TreeFields TreeFields;                       // opened up only in fill.c

// What is to be filled in: in RESULT, which was parsed from SHAPE's text.  IS_EXACT: it is good for no other text.
TreeFields *tree_fields(Arena *arena, PgQuery__ParseResult *result, const TextShape *shape, bool is_exact);
bool        fields_suit(const TreeFields *fields, const TextShape *shape);             // of an equal key
bool        fields_equal(const TreeFields *a, const TreeFields *b);                    // they suit the same texts
size_t      fields_bytes(const TreeFields *fields);
// Makes the tree that of SHAPE's text, which it suits; returns how much of ARENA that took.
size_t      fields_fill(Arena *arena, TreeFields *fields, const TextShape *shape);

// ---- parse trees: kept by their shape for the next time (trees.c) ---------------------------------------------------
// A tree has one user, who releases it, and binding does not change it.  Any thread may call.

enum { TREE_TEXT_BYTES_MOST = 64 << 10 };

ParseTree  *tree_unpack(const void *packed, size_t length); // NULL when it cannot be read
const PgQuery__ParseResult *tree_result(const ParseTree *tree);
void        tree_release(ParseTree *tree);                  // NULL is fine; one that is to be kept can be found now
// Of a text of at most TREE_TEXT_BYTES_MOST.
ParseTree  *tree_find(const TextShape *shape);              // as if it was parsed from its text; NULL: there is none
// It is kept when it is released, unless it is no query, or large.  IS_EXACT: for this very text only.
void        tree_keep(ParseTree *tree, const TextShape *shape, bool is_exact);

// ---- binding: names -------------------------------------------------------------------------------------------------

enum { OUTPUTS_MAX = 1664, AGGS_MAX = 1664 };               // as in PostgreSQL; as many aggregates as outputs

typedef struct FromItem {              // an item of FROM that has a name: a table, a subquery, a use of WITH
    const char  *name;
    const char  *shown;                // what messages call it: the table's own name
    int          n_columns;
    const char **names;
    int         *columns;              // ids
    const Table *table;                // whose columns these are, in its order; NULL: it is none
    TableHome    home;                 // what its schema is, for schema.table.column; HOME_ANY: it has an alias or none
} FromItem;

typedef struct ScopeColumn { const char *name; int column; } ScopeColumn;

typedef struct Scope {                 // what names mean in a clause
    ScopeColumn        *columns;       // names without a table, in the order of *
    int                 n_columns;
    const FromItem    **sources;       // what can stand before the dot
    int                 n_sources;
    const struct Scope *outer;         // the enclosing query's; NULL: there is none
    const struct Block *owner;         // the query whose FROM it is
} Scope;

typedef struct With {                  // a query of WITH, bound once
    const char        *name;
    Shared            *shared;         // NULL: it names columns of queries around it, and each use has a copy of
    Node              *root;
    const char       **names;          // of its columns
    const Node        *repeat;         // it is the recursive query around: its last round is what is meant
    bool               is_hidden;      // its place in WITH RECURSIVE has not come: it may not be named yet
    struct Recursion  *recursion;      // counts its uses; NULL: it is not recursive
    const struct Block *around;        // the query around the one that has the WITH; NULL: none
    const struct With *next;           // those that it hides or sees: the newest first
} With;

typedef struct Recursion { int n_uses, at; } Recursion;        // of a recursive query in its own text; at: the last one

// ---- binding: a query -----------------------------------------------------------------------------------------------

typedef struct Output {
    Expr       *expr;
    const char *name;
    int         named_first, named_last;       // what its text names: Binder.named from first to before last
    Expr       *literal;               // a literal whose type is still open, where the block keeps those; else NULL
} Output;

typedef struct SortItem { int output; bool descending, nulls_first; } SortItem;

typedef struct BoundAgg { Agg agg; int column; } BoundAgg;  // column: the id that stands for it

typedef enum MarkKind {
    MARK_IN,                           // x IN (subquery): boolean
    MARK_EXISTS,                       // EXISTS (subquery): boolean
    MARK_ROWS,                         // the rows of generate_series in a select list
    MARK_RANDOM,                       // a random number for each row (bind_random.c)
    MARK_VALUE                         // the value of the subquery's only row; NULL: it has none
} MarkKind;

// A subquery as long as it is not joined: a column stands for it in expressions (see bind_mark.c).
typedef struct Mark {
    MarkKind kind;
    int   column;                      // the id that stands for it
    Expr **args;                       // IN: x, or the fields of a row
    int   n_args;
    Node *rows;                        // the subquery; IN: as many columns as args; value: its only column is COLUMN
    int   at;
    bool  is_below;                    // groups are made of it: it is joined below them
    bool  is_placed;
    u64   seed;                        // random
    Expr *value;                       // when placed: what takes the column's place; NULL: the column stays
} Mark;

typedef struct GroupingCall {          // grouping(a, b)
    Expr **args;
    int    n_args, column, at;         // column: the id that stands for it
} GroupingCall;

// A place of the text that names a column.  Folding may remove the column from the expression; whether it may be named
// there, and which query an aggregate belongs to, goes by the text.
typedef struct NamedColumn {
    int                 column, at;
    const struct Block *owner;         // the query whose FROM has it: only compared, while that is being bound
    const struct Block *user;          // the query that names it: only compared
    bool                in_agg, in_key;    // within an aggregate of its owner, or grouping(); in a key of GROUP BY
    int                 subquery;      // of the owner, that names it: its place in the text; -1: none
    int                 mark;          // what stands for that subquery; -1: nothing does
} NamedColumn;

typedef struct Block {                 // a SELECT, VALUES or set operation while it is bound
    const PgQuery__SelectStmt *stmt;
    struct Block              *around; // the query in which it stands
    Scope                      scope;
    const FromItem           **sources;    // all of FROM, those too that a condition of a join cannot see
    int                        n_sources;
    Node                      *node;       // the rows so far
    Output                    *outputs;    // visible ones first
    int                        n_outputs, n_visible;
    SortItem                  *sort;
    int                        n_sort, n_distinct_on;
    bool                       is_distinct, is_grouped, is_set;
    bool                       keeps_literals;     // its place's
    Expr                     **keys;       // of GROUP BY, over the columns below
    int                       *key_columns;
    int                       *key_lengths;    // of keys that are intervals: what the groups are made of
    int                        n_keys, n_named_keys;   // the latter: those that GROUP BY names (bind_covered.c)
    BoundAgg                  *aggs;
    int                        n_aggs;
    Expr                     **having;
    int                        n_having, having_first, having_last;    // and its marks: from first to before last
    Mark                      *marks;
    int                        n_marks;
    const struct Place        *asks;       // where its subquery that is being bound stands; NULL: in FROM, or none is
    u64                       *sets;       // GROUPING SETS: masks of keys (bind_sets.c); none: one of all keys
    int                        n_sets;
    GroupingCall              *groupings;
    int                        n_groupings;
    struct OrderedSet         *ordered;    // what ordered-set aggregates need below the groups (bind_ordered.c)
    int                        n_ordered;
    struct JoinedText         *joined;     // what string_agg needs there (bind_string_agg.c)
    int                        n_joined;
    struct Windows            *windows;    // its window functions; NULL: no SELECT
    Expr                     **window_keys;    // what they look at, over the columns below (bind_window.c)
    int                        n_window_keys;
    ColumnSet                  window_lengths; // numbers of those that are lengths of intervals
    struct BoundWindow        *named_windows;
    int                        n_named_windows;
    int                        named_first;    // Binder.named from here on are above the groups, or in their keys
    ColumnSet                  key_names;  // columns that the text of GROUP BY names
    ColumnSet                  below;      // columns of the rows that are grouped
    ColumnSet                  outer;      // columns of queries around it that it names, or a query within it does
    i64                        limit, offset;
} Block;

typedef struct Bound {                 // a query that is bound
    Node        *node;                 // may give more columns than are visible, behind them
    int          n_columns;            // visible
    const char **names;
    Expr       **exprs;                // each as a column of the node, or as a literal whose type is still open
    ColumnSet    outer;                // columns of queries around it that it names
    bool         is_correlated;        // there are such
} Bound;

typedef struct Place {                 // where in the statement the binder is: saved and put back around a subquery
    Block       *block;                // NULL where no columns can be: INSERT, LIMIT
    const Scope *scope;
    const char  *clause;               // "WHERE": for messages
    bool         allows_aggs;          // this clause may have aggregates
    bool         in_agg;               // inside an aggregate's argument
    bool         allows_windows;       // this clause may have window functions
    bool         in_window;            // inside a window function's argument
    bool         keeps_literals;       // a set operation asks: literals may stay untyped
    bool         is_lazy;              // in a branch of CASE or COALESCE that may not be taken: nothing may fail early
    const Scope *lateral;              // FROM: what LATERAL sees beside the queries around; NULL: nothing
} Place;

typedef struct Binder Binder;
struct Binder {
    Arena       *arena;                // of the statement
    const char  *text;
    const Names *names;
    Type        *param_types;          // what $1, $2, ... have been read as; TYPE_NULL: nothing yet
    Error       *err;
    Plan        *plan;                 // NULL: the statement has none (INSERT)
    Place        place;
    const With  *with;                 // the queries of WITH that are visible
    ColumnSet    not_null;             // ids that are not NULL where they are made,
    ColumnSet    made_null;            // and those that an outer join fills with NULLs
    ColumnSet    intervals;            // ids of numbers that are stored intervals
    NamedColumn *named;                // as the text goes
    int          n_named;
    const PgQuery__SelectStmt *root;   // the statement's own query, whose intervals are shown
    i64          size;                 // of all expressions kept so far
    i64          now;                  // the statement's time; 0: not asked for yet
    int          n_queries, n_items;   // bound so far: SELECTs and the like; items of FROM
    int          n_views;              // inside of which the binder is
    bool         is_on_worker;         // its stack is large
    bool         needs_worker;         // a view was met where the stack may be small
    int          n_copied;             // nodes of correlated queries that were copied
    // Calls back up, so that files need each other in one direction only.
    weft_status (*bind_expr)(Binder *binder, const ParseNode *node, Expr **out);
    weft_status (*bind_query)(Binder *binder, const PgQuery__SelectStmt *stmt, Bound *out);
    weft_status (*bind_ordered)(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);
    weft_status (*bind_string_agg)(Binder *binder, const PgQuery__FuncCall *call, Expr **out);
    weft_status (*bind_window)(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);
    weft_status (*bind_subquery)(Binder *binder, const PgQuery__SubLink *link, Expr **out);   // NULL: none are allowed
};

// The files, each with what it needs above it.

// nodes.c: parse nodes, messages, tables
// "WHAT is not supported yet", with the hint of refusals.def, where WHAT must be (tests/check-readme).
weft_status refuse(Binder *binder, int at, const char *what);
// False, and no error: the list has no function, type or operator of this name.
bool        refuse_known(Binder *binder, int at, RefusalKind kind, const char *name);
weft_status refuse_word(Binder *binder, const char *word, const char *what);        // at the word's first place
int         node_at(const ParseNode *node);                                         // byte offset, -1 when it has none
const char *node_string(const ParseNode *node);                                     // NULL when it is not a string
const char *bare_name(const ParseNode *node);                                       // a column without a table; or NULL
const char *output_name(const ParseNode *node);                                     // as PostgreSQL names a column
const char *nearest_name(const char *wanted, const char *const *names, int n_names);   // NULL: nothing close
// SCHEMA is empty where the text names none.
const char *name_in_schema(Binder *binder, const char *schema, const char *name, TableHome *home);
weft_status bind_new_table_name(Binder *binder, const PgQuery__RangeVar *range, Statement *statement);   // CREATE
weft_status bind_table_name(Binder *binder, const PgQuery__RangeVar *range, const char **name, TableHome *home);
weft_status bind_table(Binder *binder, const PgQuery__RangeVar *range,
                       const Table **table);                                        // held by the binder's arena
weft_status unknown_column(Binder *binder, const Table *table, const char *name, int at);
// 42703 with the nearest of the names as a hint.  TABLE may be NULL.
weft_status no_such_column(Binder *binder, const char *table, const char *const *names, int n_names, const char *name,
                           int at);

// bind_term.c: expressions and columns put together
// 42803: an aggregate may not stand in the clause that is being bound.
weft_status bind_no_agg_here(Binder *binder, int at);
Expr       *term_boolean(Binder *binder, bool value, int at);
Expr       *term_null(Binder *binder, int at);
Expr       *term_integer(Binder *binder, int value, int at);
weft_status bind_call(Binder *binder, Op op, Expr *a, Expr *b, int at, Expr **out); // B may be NULL
// A scalar function; an error where none of that name takes these arguments.
weft_status bind_by_name(Binder *binder, const char *name, Expr *const *args, int n_args, int at, Expr **out);
weft_status bind_no_function(Binder *binder, const char *name, Expr *const *args, int n_args, int at);  // that error
weft_status bind_chain(Binder *binder, Op op, Expr **args, int n_args, int at, Expr **out);  // AND, OR of a list
weft_status bind_settle(Binder *binder, Expr *expr, Expr **out);  // what is still untyped becomes text; no long literal
weft_status bind_count(Binder *binder, const Expr *expr);         // adds to the size of the query: 54001
weft_status bind_conjuncts(Binder *binder, Expr *condition, Expr ***list, int *n_list);      // split at AND, counted
bool        term_is_not_null(const Binder *binder, const Expr *expr);               // proved by what is declared
// A new column of the plan that stands for EXPR, as printing shows it.
int         term_column(Binder *binder, Expr *expr, const char *name);
void        term_name_long_columns(Binder *binder, const int *columns, int n_columns);    // print by name what is long
// A column as expressions name it: an interval, where its number is one.
weft_status term_of_column(Binder *binder, int column, int at, Expr **out);
// EXPR as a column of a table has it, or of a query that others read.
weft_status term_stored(Binder *binder, Expr *expr, Expr **out);
Expr      **term_stored_all(Binder *binder, Expr *const *exprs, int n_exprs);          // a list of them; never fails
// The columns of NODE that EXPRS are, by a project where they are not just that.  NAMES: for new columns.
Node       *term_project(Binder *binder, Node *node, Expr **exprs, const char *const *names, int n_exprs);

// bind_type.c: the type that a name stands for.  HAS_LENGTH: varchar(n), char(n); IS_BARE: numeric without a
// precision, TYPE_OF_FREE_NUMERIC.
typedef struct TypeDetail { Type type; bool has_length, is_bare; } TypeDetail;
weft_status bind_type(Binder *binder, const PgQuery__TypeName *name, TypeDetail *out);
// To numeric without a precision (bind_numeric.c).
weft_status bind_bare_numeric(Binder *binder, Expr *arg, int at, Expr **out);
weft_status bind_cast(Binder *binder, const PgQuery__TypeCast *cast, Expr *arg, Expr **out);

// bind_name.c: columns
weft_status bind_column(Binder *binder, const PgQuery__ColumnRef *ref, Expr **out);
weft_status bind_star(Binder *binder, const PgQuery__ColumnRef *ref, const ScopeColumn **columns, int *n_columns);
weft_status scope_add_source(Binder *binder, Scope *scope, const FromItem *source, int at);  // 42712: its name is taken
void        scope_add_column(Binder *binder, Scope *scope, ScopeColumn column);
bool        scope_has_name(const Scope *scope, const char *name);
// SQL gives an aggregate to the innermost query whose columns its text names: this one where it names none.  FROM: the
// length of Binder.named before the aggregate's arguments.
Block      *named_owner(const Binder *binder, int from);
void        named_in_agg(Binder *binder, int from, const Block *owner);      // notes it in what it names of its owner

// holes.c: literals as parameters of the plan.  These do nothing where Names has no holes.
void bind_note_literal(Binder *binder, int at);             // the literal at this place is bound as a constant
// *OUT, made of SIDES, which came from NODES: where one is a literal that may be a hole, it becomes one.
void bind_hole(Binder *binder, Op op, const ParseNode *const *nodes, Expr *const *sides, Expr **out);
// The same of an IN, made of ARGS, the first of them no constant; the others came from NODES.
void bind_list_holes(Binder *binder, const ParseNode *const *nodes, Expr *const *args, int n_args, Expr **out);

// bind_row.c: rows of fields, (a, b) and ROW(a, b), where they are compared
bool        is_row(const ParseNode *node);
weft_status bind_row_comparison(Binder *binder, Op op, const ParseNode *a, const ParseNode *b, int at, Expr **out);
weft_status bind_row_in_list(Binder *binder, const PgQuery__AExpr *expr, bool is_negated, Expr **out);
weft_status bind_rows_distinct(Binder *binder, const ParseNode *a, const ParseNode *b, int at, Expr **out);
weft_status bind_row_null_test(Binder *binder, const PgQuery__NullTest *test, Expr **out);
weft_status bind_distinct(Binder *binder, Expr *a, Expr *b, int at, Expr **out);         // of two values

// bind_array.c: arrays as lists of elements.  NULL instead of an array: *IS_NULL.
weft_status bind_array(Binder *binder, const ParseNode *node, Expr ***list, int *n, bool *is_null);
typedef weft_status BindNamed(Binder *binder, const char *name, Expr *a, Expr *b, int at, Expr **out);
weft_status bind_any_of_array(Binder *binder, const PgQuery__AExpr *expr, const char *name, bool is_all,
                              BindNamed *compare, Expr **out);

// bind_func.c, bind_expr.c: expressions
weft_status bind_function(Binder *binder, const PgQuery__FuncCall *call, Expr **out);
weft_status bind_grouping(Binder *binder, const PgQuery__GroupingFunc *call, Expr **out);
// The arguments of an aggregate with its FILTER: one, which is NULL for count(*), or two; and a FILTER of one argument.
// Both may change the kind.
struct Aggregate;
weft_status bind_agg_args(Binder *binder, const PgQuery__FuncCall *call, const char *name,
                          const struct Aggregate *aggregate, AggKind *kind, Expr *args[2]);
weft_status bind_agg_filter(Binder *binder, const ParseNode *filter, AggKind *kind, Expr **arg);
// The text and the delimiter of string_agg.
weft_status bind_joined_args(Binder *binder, const PgQuery__FuncCall *call, Expr *args[2]);
// An aggregate, or grouping(), belongs to this query or to one around (named_owner), and is bound here:
//
//     begin_agg, the arguments; if again_for_owner the arguments again; end_agg
//
// Arguments that are joined to the rows of this query, a subquery say, are bound again as those of the owner's rows.
typedef struct AggPlace {
    Place       place;
    int         first, n_marks, at;
    Block      *owner;
    const char *what;                  // messages call it
} AggPlace;
weft_status begin_agg(Binder *binder, int at, AggPlace *agg);
bool        again_for_owner(Binder *binder, AggPlace *agg, Expr *const *args, int n_args);
// The owner may have one there, and it is not inside of another one.
weft_status end_agg(Binder *binder, AggPlace *agg, Expr *const *args, int n_args);
// An aggregate of OWNER, this query or one around; *OUT: its column.
weft_status bind_add_agg(Binder *binder, Block *owner, const Agg *agg, const char *name, Expr **out);
weft_status bind_expr(Binder *binder, const ParseNode *node, Expr **out);
weft_status bind_condition(Binder *binder, const ParseNode *node, Expr **out);      // a boolean; the clause names it

// bind_mark.c: subqueries that are joined
// bind_sides.c: the sides of a set operation
weft_status unify_sides(Binder *binder, SetKind kind, Bound sides[2]);
int         side_column(Binder *binder, const Expr *expr, const char *name);   // a new one, stored as EXPR
void        compare_by_length(Binder *binder, Node *node);     // a set or repeat: columns that are stored intervals
Node       *side_rows(Binder *binder, const Bound *side);      // with what its columns have become

// bind_recursive.c: WITH RECURSIVE
const With *hide_with_queries(Binder *binder, const PgQuery__WithClause *clause);       // names that are bound later
// Without a root: it does not name itself, and has an order or a limit, so it is to be bound as any other query.
weft_status bind_recursive_query(Binder *binder, const PgQuery__CommonTableExpr *expr, With *with);

Node       *visible_rows(Binder *binder, const Bound *bound);     // without columns that are only sorted by
weft_status copy_rows(Binder *binder, const Node *rows, int at, Node **copy);   // of a correlated query; 54001
// The column that stands for MARK, which has all but that; for the same question twice it is the same.
weft_status add_mark(Binder *binder, Mark mark, Expr **out);
Mark       *find_mark(const Block *block, int column);            // that the column stands for; NULL: none
// count(*) of the rows, or another aggregate of ARG, as a parameter.
weft_status agg_param(Binder *binder, Node *rows, AggKind kind, Expr *arg, int at, Expr **out);
Expr       *param_for(Binder *binder, Type type, Node *subplan, int at);
void        mark_columns(Arena *arena, const Mark *mark, ColumnSet *columns);   // that it names, of all queries
weft_status bind_values_of_marks(Binder *binder, const Block *block, Expr *expr, Expr **out);
// A mark join above *NODE, for a mark that nothing but the conditions use.
weft_status place_side_mark(Binder *binder, Block *block, Mark *mark, Expr *const *conditions, int n_conditions,
                            Node **node);
weft_status place_marks(Binder *binder, Block *block, bool is_below, Node **node);  // all that wait
// Conditions over marks FIRST .. LAST - 1 become joins above *NODE; those that stay are left in the list, with values.
weft_status place_condition_marks(Binder *binder, Block *block, int first, int last, Expr **conditions,
                                  int *n_conditions, Node **node);

// bind_on.c: joins with the conditions of ON, where subqueries may stand
typedef struct Join {
    JoinKind kind;
    Scope    left, right;
    Node    *nodes[2];
    Expr   **conditions;
    int      n_conditions;
    int      marks_first;              // those of the block from here on are ON's
    Expr   **merged;                   // full join: what USING made, and
    int     *merged_columns;           // the columns that stand for it
    int      n_merged, n_merged_columns;
} Join;

weft_status join_inner_on(Binder *binder, Join *join, Node **out);
weft_status join_outer_on(Binder *binder, Join *join, Node **out);

// bind_random.c: random numbers
bool        bind_is_random(const char *name);
weft_status bind_random(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);

// bind_view.c: views and files in FROM
const ViewText *find_view(const Binder *binder, const char *name, TableHome home);       // NULL: there is none
weft_status bind_view(Binder *binder, const ViewText *view, const char *name, int at, Bound *out);
bool        is_file_function(const PgQuery__RangeFunction *function);           // read_csv, read_json
weft_status bind_table_function(Binder *binder, const PgQuery__RangeFunction *function, const Table **table,
                                const char **name);
// bind_subquery.c: subqueries in expressions
weft_status bind_subquery(Binder *binder, const PgQuery__SubLink *link, Expr **out);

// bind_stream.c: streams and continuous views
weft_status bind_stream_options(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement);
weft_status check_stream(Binder *binder, const Statement *statement);         // its columns and keys, all known
weft_status bind_continuous_view(Binder *binder, const PgQuery__CreateTableAsStmt *create, Statement *statement);
// bind_change.c: a view's name, query and columns
weft_status bind_view_query(Binder *binder, const PgQuery__RangeVar *name, const ParseNode *query,
                            ParseNode *const *aliases, size_t n_aliases, Statement *statement);
// meant.c: the one name at P, with nothing behind it but a ';', as SQL reads it; NULL: it is something else
char       *sql_last_name(Arena *arena, const char *p);

// bind_from.c: FROM
weft_status bind_from(Binder *binder, Block *block);              // the block's node, scope and sources
weft_status bind_column_names(Binder *binder, const char *what, const char *name, ParseNode *const *aliases,
                              size_t n_aliases, const char **names, int n_names, int at);

// bind_order.c: outputs by name and number, ORDER BY, DISTINCT ON, LIMIT
weft_status add_output(Binder *binder, Block *block, Expr *expr, const char *name);
weft_status output_by_number(Binder *binder, const Block *block, const ParseNode *node, const char *clause,
                             int *output);
weft_status output_by_name(Binder *binder, const Block *block, const ParseNode *node, const char *clause, int *output);
weft_status check_list_length(Binder *binder, const char *clause, size_t n);
weft_status sort_direction(Binder *binder, const PgQuery__SortBy *by, SortItem *item);
weft_status bind_sort(Binder *binder, Block *block);
weft_status bind_limits(Binder *binder, Block *block);

// bind_ties.c: the rows of WITH TIES; limit and offset are known, and what is sorted by
weft_status build_ties(Binder *binder, Block *block);

// bind_window.c: window functions
typedef struct BoundWindow BoundWindow;
weft_status bind_window(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);
weft_status bind_named_windows(Binder *binder, Block *block);     // WINDOW; before any clause that may name one
bool        is_window_column(const Block *block, int column);
bool        has_window(const Block *block, const Expr *expr);
weft_status build_windows(Binder *binder, Block *block);          // the window node, if it has functions

// bind_ordered.c: WITHIN GROUP
typedef struct GroupRows {             // rows that groups are made of, and windows over them
    Node  *node;
    Expr **keys;                       // of the groups
    int    n_keys;
    int   *map, n_map;                 // GROUPING SETS: what the block's columns are in these rows; NULL: the same
} GroupRows;
typedef struct OrderedSet OrderedSet;
weft_status bind_ordered(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);
weft_status settle_ordered(Binder *binder, Block *block);         // its subqueries are joined
void        ordered_columns(Binder *binder, const Block *block, ColumnSet *named, ColumnSet *made);
weft_status build_ordered(Binder *binder, const Block *block, GroupRows *rows);    // windows, where they are needed
weft_status rows_of_groups(Binder *binder, const Block *block, GroupRows *rows);   // those of a plain GROUP BY
weft_status rows_expr(Binder *binder, const GroupRows *rows, Expr *expr, Expr **out);   // as these rows have it
int         rows_new_column(Binder *binder, GroupRows *rows, int column);  // that the rows get; its id there
typedef struct WindowList {            // a window node below the groups while it is made
    Binder         *binder;
    GroupRows      *rows;
    Expr          **keys;
    int             n_keys;
    struct Windows *windows;
} WindowList;
WindowList  start_list(Binder *binder, GroupRows *rows);
int         list_key(WindowList *list, Expr *key);                // its number among the node's keys
// The groups' keys, then KEYS, of which the first N_MORE tell partitions apart, too; the order's number.
int         list_order(WindowList *list, const SortKey *keys, int n_keys, int n_more);
void        close_list(WindowList *list);                         // the node, where it has functions

// bind_string_agg.c: texts joined
weft_status bind_string_agg(Binder *binder, const PgQuery__FuncCall *call, Expr **out);
weft_status settle_joined(Binder *binder, Block *block);
void        joined_columns(Binder *binder, const Block *block, ColumnSet *named, ColumnSet *made);
weft_status build_joined(Binder *binder, const Block *block, GroupRows *rows);     // their window, where it is needed

// bind_sets.c: GROUPING SETS.  BIND_KEY gives the number of a key of GROUP BY.
typedef weft_status BindKey(Binder *binder, Block *block, const ParseNode *node, int *number);
bool        has_grouping_sets(const PgQuery__SelectStmt *stmt);
weft_status bind_sets(Binder *binder, Block *block, BindKey *bind_key);
bool        is_grouping_column(const Block *block, int column);
weft_status build_sets(Binder *binder, Block *block);             // the aggregates and their union

// bind_covered.c: columns that a primary key among the keys of GROUP BY tells become keys, too
weft_status add_covered_keys(Binder *binder, Block *block);

// bind_group.c: GROUP BY, HAVING
weft_status bind_keys(Binder *binder, Block *block);
weft_status bind_having(Binder *binder, Block *block);
bool        shows_all_keys(const Block *block);                   // rows that show all keys are distinct
weft_status build_groups(Binder *binder, Block *block);           // the aggregate, and outputs over it

// bind_select.c: SELECT
weft_status bind_select(Binder *binder, Block *block);
// The nodes above: project, if it HAS_PROJECT, DISTINCT, sort, limit.
weft_status finish_block(Binder *binder, Block *block, bool has_project, Bound *out);

// bind_query.c: WITH, set operations, VALUES, SELECT
weft_status bind_plan(Binder *binder, const PgQuery__SelectStmt *stmt, Plan **out);

// Other statements
// bind_keys.c: keys and indexes.  A key of the table that STATEMENT makes, whose columns are known; COLUMN: the one
// behind which the constraint stands, or NULL.
bool        is_key_constraint(const PgQuery__Constraint *constraint);
weft_status bind_table_key(Binder *binder, const PgQuery__Constraint *constraint, const char *column,
                           Statement *statement);
weft_status bind_create_index(Binder *binder, const PgQuery__IndexStmt *stmt, Statement *statement);
weft_status bind_alter_table(Binder *binder, const PgQuery__AlterTableStmt *alter, Statement *statement);

weft_status bind_create(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement);
weft_status bind_drop(Binder *binder, const PgQuery__DropStmt *drop, Statement *statement);
weft_status bind_insert(Binder *binder, const PgQuery__InsertStmt *insert, Statement *statement);
weft_status bind_copy(Binder *binder, const PgQuery__CopyStmt *copy, Statement *statement);
weft_status bind_create_as(Binder *binder, const PgQuery__CreateTableAsStmt *create, Statement *statement);
weft_status bind_create_view(Binder *binder, const PgQuery__ViewStmt *view, Statement *statement);
weft_status bind_truncate(Binder *binder, const PgQuery__TruncateStmt *truncate, Statement *statement);
weft_status bind_rename(Binder *binder, const PgQuery__RenameStmt *rename, Statement *statement);
weft_status bind_prepare(Binder *binder, const PgQuery__PrepareStmt *prepare, Statement *statement);
weft_status bind_execute(Binder *binder, const PgQuery__ExecuteStmt *execute, Statement *statement);
weft_status bind_deallocate(Binder *binder, const PgQuery__DeallocateStmt *deallocate, Statement *statement);
// The plan's visible columns become EXPRS, by a project above it where they are not just that.
void        bind_outputs(Binder *binder, Plan *plan, Expr **exprs, const char **names, int n_exprs);
weft_status bind_statement(Binder *binder, const PgQuery__RawStmt *raw, Statement **out);

// ---- bind_series.c

bool        bind_gives_rows(const char *name);              // generate_series, unnest
// The rows of a call as a node of one column.
weft_status bind_rows_of(Binder *binder, const PgQuery__FuncCall *call, const char *function, const char *name,
                         Node **out);
weft_status bind_rows_in_list(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);

// ---- bind_time.c

Type        bind_zoned(Binder *binder);                     // timestamptz, shown in the session's zone
Expr       *bind_shown_in(Binder *binder, const Expr *stamp, Type type);       // the same timestamptz, of another zone
// The statement's time as TYPE, with so many digits of a second; -1: all.
weft_status bind_now(Binder *binder, Type type, int digits, int at, Expr **out);
weft_status bind_extract(Binder *binder, Expr *field, Expr *arg, bool as_double, int at, Expr **out);
bool        bind_is_time_function(const char *name, size_t n_args);
weft_status bind_time_function(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);

// ---- bind_forms.c

bool        bind_is_op_form(const char *name, int n_args);          // an operator that is a function
weft_status bind_op_form(Binder *binder, const char *name, Expr **args, int n_args, int at, Expr **out);
weft_status bind_similar(Binder *binder, const PgQuery__AExpr *expr, const char *name, Expr **out);  // name: ~ or !~
bool        bind_is_form(const char *name);
weft_status bind_form(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out);

// ---- bind_text.c

weft_status bind_concat_operator(Binder *binder, Expr *a, Expr *b, int at, Expr **out);              // a || b
weft_status bind_regexp_operator(Binder *binder, const char *name, Expr *a, Expr *b, int at, Expr **out);   // a ~ b
// The arguments are bound; the list is changed.
weft_status bind_concat(Binder *binder, Expr **args, int n_args, int at, Expr **out);
weft_status bind_concat_ws(Binder *binder, Expr **args, int n_args, int at, Expr **out);             // at least one

#endif
