// random.h - random tables and random queries, written in two dialects at once.
//
// Everything is drawn from a number, so a failing query can be made again: tables from (seed, data set), a query from
// (seed, query).  An expression is a tree of forms, each form the text in either dialect with @0, @1, .. for its
// arguments, so it can be written for Weft and for SQLite and cut down when it fails:
//
//     weft "extract(year from @0)"        sqlite "cast(strftime('%Y', @0) as integer)"
//
// SQLite has no dates, decimals or booleans: dates are text there ('1995-03-01'), decimals are integers scaled by their
// power of ten, booleans are 0 and 1.  What the two engines may rightly answer differently is never drawn: see query.c.

#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

enum { IN_WEFT, IN_SQLITE, N_FORMS, IN_POSTGRES = N_FORMS };     // PostgreSQL reads Weft's form, but for extract()

// ---- numbers ------------------------------------------------------------------------------------------------------

typedef struct Rng { uint64_t state; } Rng;

Rng  rng_from(uint64_t seed, uint64_t stream, uint64_t number);
int  rng_below(Rng *rng, int n);                                  // 0 .. n-1
int  rng_between(Rng *rng, int low, int high);                    // both included
bool rng_chance(Rng *rng, int percent);

// ---- data ---------------------------------------------------------------------------------------------------------

typedef enum ColumnType {
    COLUMN_SMALLINT, COLUMN_INTEGER, COLUMN_BIGINT, COLUMN_DOUBLE, COLUMN_DECIMAL, COLUMN_TEXT, COLUMN_DATE,
    COLUMN_BOOLEAN,
    COLUMN_N
} ColumnType;

typedef enum Spread { SPREAD_EVEN, SPREAD_SKEWED, SPREAD_GROWING, SPREAD_RISING, SPREAD_UNIQUE } Spread;

typedef struct RandomColumn {
    char       name[16];
    ColumnType type;
    Spread     spread;
    int        n_distinct;             // values are the numbers 0 .. n_distinct-1, told in the column's type
    int64_t    offset;                 // of integers, decimals, quarters of a double; days of a date since 1904
    int        stride;                 // integers: value N is offset + N * stride
    int        null_percent;
    bool       is_not_null;            // declared so
} RandomColumn;

enum { MAX_TABLES = 4, MAX_COLUMNS = 10 };

typedef struct RandomTable {
    char         name[8];
    int          n_rows, n_columns;
    RandomColumn columns[MAX_COLUMNS];
} RandomTable;

typedef struct DataSet {
    uint64_t    seed, number;
    int         n_tables;
    RandomTable tables[MAX_TABLES];
} DataSet;

void  data_draw(DataSet *data, uint64_t seed, uint64_t number);
// VALUE is 0 .. n_distinct-1.
void  column_literal(const RandomColumn *column, int value, int dialect, char *text, size_t capacity);
char *data_create_sql(const DataSet *data, int table, int dialect);                     // to be freed
// Rows FIRST .. FIRST+N-1 of the table as INSERT; the same rows whichever way they are asked for.
char *data_insert_sql(const DataSet *data, int table, int first, int n, int dialect);   // to be freed
void  data_write_csv(const DataSet *data, int table, FILE *out);

// ---- queries ------------------------------------------------------------------------------------------------------

typedef enum Kind { KIND_INTEGER, KIND_DOUBLE, KIND_DECIMAL, KIND_TEXT, KIND_DATE, KIND_BOOLEAN } Kind;

enum { MAX_ARGS = 6, MAX_REFS = 4, MAX_CONDITIONS = 16, MAX_KEYS = 3, MAX_ITEMS = 7, MAX_WITH = 2, MAX_VALUES = 5 };

typedef struct RandomQuery RandomQuery;
typedef struct Term Term;
struct Term {
    Kind        kind;
    int         bits;                  // integers: 16, 32, 64
    int         scale;                 // decimals
    double      bound;                 // no value is larger than this (decimals: as scaled); keeps clear of overflow
    bool        is_exact;              // doubles: the same bits in every engine, so fit to compare, group and sort by
    bool        is_constant;
    uint32_t    refs;                  // bit r: this node (not its arguments) names a column of reference r
    const RandomColumn *column;        // a plain column, to draw fitting literals; else NULL
    const char *form[N_FORMS];         // @0, @1, .. are the arguments, @q the nested query
    int         n_args;
    Term       *args[MAX_ARGS];
    RandomQuery *query;                // nested in this term; or NULL
};

typedef enum QueryKind { QUERY_SELECT, QUERY_VALUES, QUERY_SET } QueryKind;
typedef enum SourceKind { FROM_TABLE, FROM_QUERY, FROM_WITH } SourceKind;
typedef enum JoinKind { JOIN_COMMA, JOIN_INNER, JOIN_LEFT, JOIN_RIGHT, JOIN_FULL, JOIN_CROSS } JoinKind;
typedef enum SetKind {
    SET_UNION_ALL, SET_UNION, SET_INTERSECT, SET_EXCEPT, SET_INTERSECT_ALL, SET_EXCEPT_ALL, SET_N
} SetKind;

// One relation in FROM.  Its alias is r0, r1, .., or s0, s1, .. in a query within a query, and so on.
typedef struct Source {
    SourceKind   kind;
    int          table;                // of the data set, or of WITH
    RandomQuery *query;                // FROM_QUERY
    bool         is_used;              // false once minimised away
    JoinKind     join;                 // to all before it; never read for the first
    Term        *on[MAX_CONDITIONS];
    int          n_on;
} Source;

// Outputs are named c0, c1, .. in every query.
struct RandomQuery {
    QueryKind kind;
    RandomQuery *with[MAX_WITH];       // named w0, w1; only of a whole query
    int   n_with;

    SetKind      set;                  // QUERY_SET: LEFT and RIGHT have outputs of the same kinds
    RandomQuery *left, *right;
    Term *rows[MAX_VALUES][MAX_ITEMS]; // QUERY_VALUES
    int   n_rows;

    int   n_refs;                      // QUERY_SELECT, from here to keys_by_position
    Source from[MAX_REFS];
    bool  has_aliases;
    char  alias;                       // r, s, ..
    Term *where[MAX_CONDITIONS];
    int   n_where;
    bool  is_grouped, is_distinct;
    Term *keys[MAX_KEYS];
    int   n_keys;
    Term *having;                      // or NULL
    int   distinct_on;                 // the first so many of ORDER; then the order is over all items
    Term *order_first;                 // sorted by before all others, not put out; only with an order over all items
    Term *order_last;                  // sorted by after all others, not put out; or NULL
    bool  keys_by_position;            // "group by 1, 2": the keys are the first items

    Term *items[MAX_ITEMS];            // outputs; of QUERY_SET and QUERY_VALUES only what they measure
    int   n_items;
    int   order[MAX_ITEMS];            // items, the most important first
    bool  order_descends[MAX_ITEMS], order_nulls_first[MAX_ITEMS];
    int   n_order;
    int   limit, offset;               // -1: none.  Only with an order over all items, all exact
};

void     query_draw(Arena *arena, const DataSet *data, uint64_t number, RandomQuery *query);
char    *query_sql(const RandomQuery *query, const DataSet *data, int dialect);         // to be freed
uint32_t term_refs(const Term *term);                                                   // of the whole tree

// Makes the query smaller, part by part, as long as STILL_FAILS says that it does; asks at most N_TRIES times.
void query_cut(RandomQuery *query, int n_tries, bool (*still_fails)(void *context), void *context);

#endif
