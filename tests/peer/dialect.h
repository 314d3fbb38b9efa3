// dialect.h - random statements over the whole dialect, for Weft and PostgreSQL alike.
//
// Where random.h keeps to what SQLite can say, this draws every type and function: overflow, division by zero and bad
// text are drawn, too, since PostgreSQL raises the same errors.  A statement depends on (seed, number) alone.

#ifndef WEFT_DIALECT_H
#define WEFT_DIALECT_H

#include "peer.h"
#include "random.h"
#include "tree.h"

enum { N_DIALECT_TABLES = 3, MAX_NAMES = 96 };

extern const char *const TYPE_NAMES[TYPE_N];

// ---- data ---------------------------------------------------------------------------------------------------------

// A tame data set has values that few expressions overflow on, a wild one the ends of every type's range, too.
typedef struct DialectData {
    uint64_t seed, number;
    bool     is_wild;
    int      n_rows[N_DIALECT_TABLES];
} DialectData;

typedef struct DialectColumn { const char *name, *sql_type; TreeType type; } DialectColumn;

extern const DialectColumn DIALECT_COLUMNS[];                     // of every table, after "id integer not null"
int   dialect_column_count(void);
void  dialect_data_draw(DialectData *data, uint64_t seed, uint64_t number);
char *dialect_create_sql(int table);                              // to be freed
char *dialect_insert_sql(const DialectData *data, int table);     // to be freed; NULL: no rows
// A literal with its type spelt out, or NULL of that type now and then.
const char *dialect_literal(Arena *arena, Rng *rng, TreeType type, bool is_wild);

// ---- expressions --------------------------------------------------------------------------------------------------

typedef struct Name { const char *text; TreeType type; Tree *tree; } Name;   // TREE: a key of a group, else NULL

typedef struct Names {                                            // what an expression may name
    Arena *arena;
    Rng   *rng;
    bool   is_wild;
    Name   list[MAX_NAMES];
    int    n;
    const struct Names *outer;                                    // of the query around, or NULL
    const char *unique;                                           // "r0.id, r1.id": no two rows alike; or NULL
    int    level;                                                 // how many queries may nest below
    int   *n_left;                                                // in the whole statement
    int   *n_aliases;
    bool   has_subqueries;
    bool   has_typed_text;                                        // 'a' alone has no type where PostgreSQL needs one
    const Name *ctes;                                             // named queries: text is the name
    int    n_ctes;
} Names;

Tree *draw_value(Names *names, TreeType type, int depth);
Tree *draw_output(Names *names, TreeType type, int depth);        // its last digits may be inexact
Tree *draw_dialect_aggregate(Names *rows, TreeType type);         // TYPE_N: of any type; may be inexact then
Tree *draw_dialect_window(Names *names);
TreeType draw_type(Names *names);                                 // one that may be stored, grouped and sorted

// ---- statements ---------------------------------------------------------------------------------------------------

typedef enum Oracle { ORACLE_PEER, ORACLE_ROWS, ORACLE_DISTINCT, ORACLE_SUMS, ORACLE_GROUPS, ORACLE_COUNT } Oracle;

typedef struct Statement {
    Oracle oracle;
    Tree  *root;                       // ORACLE_PEER: the query; else a list of items, FROM and a condition
    Tree  *items;                      // of the query, in order; each has its expression as argument 0
    bool   has_all_rows;               // every expression meets every row, so that errors must agree
} Statement;

void  dialect_draw(Arena *arena, const DialectData *data, uint64_t seed, uint64_t number, Statement *statement);
// The same for the oracles that need Weft alone.
void  oracle_draw(Arena *arena, const DialectData *data, uint64_t seed, uint64_t number, Statement *statement);
// Ternary logic partitioning and NoREC: the two texts whose rows must agree.  To be freed.
void  oracle_sql(const Statement *statement, char **whole, char **parts);

// ---- answers ------------------------------------------------------------------------------------------------------

// NULL: the same rows; else what differs (to be freed).  Numbers in the cells are made comparable.
char *dialect_difference(const Statement *statement, Rows *ours, Rows *theirs);

// Takes away from both answers what is open (explained.def); false: the statement has nothing of that kind.
typedef bool SetAside(const Statement *statement, const char *sql, Rows *ours, Rows *theirs);
SetAside set_aside_zeros;              // the sign of zeros that min and max choose among
SetAside set_aside_remainders;         // of covariances that are 0
SetAside set_aside_digits;             // of quotients, behind the 16th behind the point

// ---- queries in expressions ---------------------------------------------------------------------------------------

Tree *draw_scalar(Names *names, TreeType type);                   // a subquery of one row, or NULL: none may nest
Tree *draw_condition_query(Names *names);                         // EXISTS or IN, or NULL

#endif
