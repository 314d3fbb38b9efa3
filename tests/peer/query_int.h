// query_int.h - between the files that draw queries: terms.c, expressions.c, subqueries.c, query.c.

#ifndef WEFT_QUERY_INT_H
#define WEFT_QUERY_INT_H

#include "random.h"

enum { MAX_LEAVES = 64, MAX_OUTER = 32 };

#define LARGEST_DECIMAL 1e15                                      // scaled; three digits below what 18 digits hold
#define LARGEST_DOUBLE  1e9                                       // with at most 16 bits behind the point: always exact
#define MOST_ROWS       1e6                                       // that a join may give before SQLite gives up on it

// What may be named where an expression stands, and what may be nested there.
typedef struct Scope {
    Arena         *arena;
    Rng           *rng;
    const DataSet *data;
    Term          *leaves[MAX_LEAVES];
    int            n_leaves;
    bool           needs_exact;        // doubles drawn now will be compared
    bool           has_all;            // draw what this file's newer shapes need; false: one SELECT over tables
    int            level;              // how many queries may be nested below this one
    int           *n_nested_left;      // in the whole query, which keeps its text short
    RandomQuery   *with[MAX_WITH];     // the queries that WITH has named so far
    int            n_with;
    Term          *outer[MAX_OUTER];   // columns of the queries around, where this one may be correlated
    int            n_outer;
    uint32_t       outer_refs;         // and their references, in the query around
    char           alias;              // its references are called r0, r1, .., those of a query below s0, s1, ..
} Scope;

// What the outputs of a query must be: decimals have two digits, doubles are exact.
typedef struct Shape {
    int  n_items;
    Kind kinds[MAX_ITEMS];
} Shape;

// ---- terms.c ------------------------------------------------------------------------------------------------------

// SQLITE is NULL when it reads like WEFT.
Term  *term_new(Scope *s, Kind kind, const char *weft, const char *sqlite, int n_args, Term **args);
Term  *term_1(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a);
Term  *term_2(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a, Term *b);
Term  *like_this(Term *term, const Term *other);                  // with the measure (bits, scale, bound) of another
Term  *either(Term *made, const Term *a, const Term *b);          // with a measure that holds both
double largest_integer(int bits);
Term  *pick_leaf(Scope *s, Kind kind);                            // NULL when there is none
Term  *to_scale(Scope *s, Term *term, int scale);
Term  *to_double(Scope *s, Term *term);
bool   unify(Scope *s, Term **a, Term **b);
Kind   kind_of_column(ColumnType type);
double column_bound(const RandomColumn *column);
Term  *literal(Scope *s, Kind kind);
Term  *literal_for(Scope *s, const Term *term);                   // one to compare it with

// ---- expressions.c ------------------------------------------------------------------------------------------------

Term *draw_kind(Scope *s, Kind kind, int depth);
Term *draw_boolean(Scope *s, int depth);
Term *draw_shaped(Scope *s, Kind kind, int depth);                // fit to be an output of a Shape
Term *sum_or_product(Scope *s, Kind kind, Term *a, Term *b, double largest);
Kind  kind_to_compare(Scope *s);                                  // one that has a leaf, when it can be found

// ---- aggregates.c -------------------------------------------------------------------------------------------------

Term *draw_aggregate(Scope *s);
Term *draw_aggregate_of(Scope *s, Kind kind);                     // NULL: there is none that gives this kind

// ---- windows.c ----------------------------------------------------------------------------------------------------

Term *draw_window(Scope *s);                                      // over the rows, or groups, in scope

// ---- subqueries.c -------------------------------------------------------------------------------------------------

// True now and then, and never where nothing more may be nested.
bool  may_nest(Scope *s, int percent);
Scope scope_below(Scope *s);                                      // of a query nested in this one; counts it
Term *draw_scalar_subquery(Scope *s, Kind kind);
Term *draw_in_subquery(Scope *s, int depth);
Term *draw_exists(Scope *s);
void  draw_with(Scope *s, RandomQuery *query);

// ---- query.c ------------------------------------------------------------------------------------------------------

RandomQuery *query_new(Scope *s, QueryKind kind);
void  draw_query(Scope *s, RandomQuery *query, const Shape *shape);          // of any kind; SHAPE may be NULL
void  draw_select(Scope *s, RandomQuery *query, const Shape *shape);
void  draw_from_where(Scope *s, RandomQuery *query);
void  draw_order(Scope *s, RandomQuery *query);
Shape draw_shape(Scope *s);

#endif
