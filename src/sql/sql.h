// sql.h - SQL text to a bound statement, with PostgreSQL's grammar (libpg_query).
//
//     TRY(sql_bind(arena, text, &names, &statement, err));
//
// TEXT is one statement (sql_split gives them one at a time).  Errors carry a byte offset in TEXT.
// libpg_query recurses without a guard, so parsing and binding run on a thread with a large known stack, the length of
// a statement is limited by that stack, and every walk of ours counts its depth: 54001 instead of a crash.  A query
// whose text came before, but for its constants, is bound from the tree of then, on the caller's thread.

#ifndef WEFT_SQL_H
#define WEFT_SQL_H

#include "plan/plan.h"

// A row's type with its digits or length, over information_schema.columns: for DESCRIBE and \d.
#define SQL_SHOWN_TYPE                                                                                              \
    "data_type || case when character_maximum_length is not null then '(' || character_maximum_length || ')' "      \
    "when numeric_precision_radix = 10 and numeric_precision is not null "                                          \
    "then '(' || numeric_precision || ',' || numeric_scale || ')' else '' end"

typedef struct ViewText {              // a view, as it was made
    const char        *text;           // of its query
    int                n_columns;
    const char *const *columns;        // names
    const ViewRows    *kept;           // a continuous view's groups, for plan_read_groups; NULL: it is computed
} ViewText;

// ---- the shape of a text: its tokens without the values of its literals (shape.c) -----------------------------------

typedef enum LiteralKind { LITERAL_NONE, LITERAL_INTEGER, LITERAL_NUMBER, LITERAL_TEXT } LiteralKind;

typedef struct Literal {
    LiteralKind kind;
    int         token;                 // its number
    const char *bytes;                 // in the text, with quotes
    size_t      length;
    i32         number;                // of an integer
} Literal;

typedef struct TextShape {             // lives as long as its text and its arena
    const char *text;
    size_t      length;
    char       *key;                   // texts of equal keys have equal tokens, but for the values of literals
    size_t      key_length;
    u64         hash;                  // of the key
    bool        is_exact;              // the key is the text; nothing was taken out
    int         n_tokens, n_literals;
    i32        *starts;                // offsets of the tokens
    Literal    *literals;              // in order
} TextShape;

int  shape_token_at(const TextShape *shape, int place);         // the token that begins there; -1: none does
void sql_shape(Arena *arena, const char *text, size_t length, bool is_exact, TextShape *shape);
// Whether trees and plans are kept of such a text: a query, and not too long.
bool sql_has_shape(const char *text, size_t length);

// ---- holes: literals that a plan does not know the values of (holes.c) ----------------------------------------------
//
// A literal that is compared with an expression in WHERE or ON can be bound as a parameter of the plan.  The plan is
// then good for all texts of the shape for which holes_fill says so, with the values that it gives put in:
//
//     d_year = 1993 and lo_discount between 1 and 3        d_year = $1 and lo_discount >= $2 and lo_discount <= $3

typedef struct TextHole {
    int  literal, param;
    bool is_negated;
    Type cast;                         // date '...': what the literal is cast to; of kind NULL: it is not
    Op   op, result;                   // as it was written, what the comparison became; OP_IN: one of a list
    int  side;                         // of the literal
    Type compared, type;               // of the other side; of the constant that the literal becomes
} TextHole;

enum { HOLES_MOST = 32 };

typedef struct TextHoles {             // of one text, which lives as long
    Arena           *arena;
    const TextShape *shape;
    int              n, n_params;
    TextHole         list[HOLES_MOST];
    Expr            *values[HOLES_MOST];       // by parameter, of this text
    int             *n_bound, *n_holes;        // by literal: how often it was bound, and of that as a hole
    bool             has_failed;       // too many
} TextHoles;

// For Names.holes: the next sql_bind finds holes.
void holes_begin(TextHoles *holes, Arena *arena, const TextShape *shape);
// Whether all of what HOLES' text took from this literal is in holes, so that another one may have its place.
bool holes_cover(const TextHoles *holes, int literal);
// The values of the parameters for another text of the shape, in ARENA.  False: the plan may not be used for it, since
// a literal is no value of the hole's type, or has one that is equal to another's where that of HOLES' text is not.
bool holes_fill(const TextHoles *holes, const TextShape *shape, Arena *arena, Expr **values);

typedef enum TreeKeeping {             // which parse trees are kept for the next time, and looked for
    KEEP_SHAPES,                       // for all texts that differ from theirs in constants only
    KEEP_TEXTS,                        // for the same text
    KEEP_NOTHING
} TreeKeeping;

typedef struct RandomSource { bool is_seeded; u64 seed, n_drawn; } RandomSource;      // a session's random numbers

typedef struct Names {                 // how table names are looked up; the engine adds its virtual tables here
    const Table *(*table)(void *context, const char *name, TableHome home);    // held for the caller; NULL: none
    void *context;
    const _Atomic u32 *stop;           // looked at while waiting for a thread to parse on; may be NULL
    u8    zone;                        // the session's time zone
    i64   now;                         // the statement's time, in microseconds since 1970; 0: whatever the clock says
    // Each of these may be NULL: then there are none.
    const ViewText *(*view)(void *context, const char *name, TableHome home);  // NULL: no such view
    const Table *(*file)(void *context, const char *path, const char *format); // csv, json, or NULL: by its name
    int  (*list)(void *context, Arena *arena, const char ***names);            // of all tables and views, for hints
    const Value *params;               // $1, $2, ...; of type NULL: as untyped literals
    RandomSource *random;              // the session's; may be NULL
    int  quotient_scale;               // digits behind the point that quotients have room for; -1: none; 0:
                                       // QUOTIENT_SCALE
    bool *has_quotients;               // gets whether there are any, even where binding fails; may be NULL
    int  n_params;
    TreeKeeping keeps;
    const TextShape *shape;            // of the text, with KEEP_SHAPES; NULL: it is not known
    TextHoles *holes;                  // gets the literals that were bound as parameters; NULL: all are constants
} Names;

weft_status sql_bind(Arena *arena, const char *text, const Names *names, Statement **statement, Error *err);

// Length of the first statement in TEXT with its ';', or 0 when the text ends before one does (see
// weft_statement_length).
size_t sql_statement_length(const char *text);

typedef struct TreeCounts {             // of the process's parse trees that are kept
    i64    n_found, n_missed;
    int    n_trees;                    // that wait for a user
    size_t bytes;
} TreeCounts;

TreeCounts tree_counts(void);

// What a text means that PostgreSQL's grammar does not know.  DESCRIBE t, DESC t: the name (in ARENA), else NULL.
char *sql_described(Arena *arena, const char *text, TableHome *home);
char *sql_subscribed(Arena *arena, const char *text, int *at);     // SUBSCRIBE TO v: the same; AT: where it is
bool  sql_is_show_tables(const char *text);                        // SHOW TABLES
const char *sql_explained(const char *text);                       // EXPLAIN's query, in TEXT; NULL: it is no EXPLAIN
int   sql_count_params(const char *text);                          // the largest n of $n; at most 65,535

#endif
