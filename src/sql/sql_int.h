// sql_int.h - what the files of sql/ share: the lexer that looks before libpg_query does, the workers, parse trees, the binder.

#ifndef WEFT_SQL_INT_H
#define WEFT_SQL_INT_H

#include <pg_query/pg_query.pb-c.h>

#include "sql/sql.h"

typedef PgQuery__Node Node;

// ---- before parsing -------------------------------------------------------------------------------------------------

typedef enum TokenKind {
    TOKEN_END,                         // of the text
    TOKEN_CUT,                         // the text ends inside a quote or a comment
    TOKEN_WORD,                        // a keyword or a name without quotes
    TOKEN_SYMBOL,                      // one character: a bracket, a comma, part of an operator
    TOKEN_OTHER                        // a number, a literal, a quoted name, a parameter
} TokenKind;

typedef struct Token { TokenKind kind; const char *start; size_t length; } Token;

Token token_next(const char **text);                                           // skips blanks and comments first
bool  token_is(const Token *token, const char *word);                          // in any case; words are lower case
int   sql_first_token(const char *text);                                       // offset; of the end when there is none
int   sql_find_word(const char *text, const char *word);                       // offset of a keyword, or -1

// An upper bound on how deep the parse tree nests, from tokens alone.  When it exceeds LIMIT, *AT is where it does.
int   sql_nesting(const char *text, int limit, int *at);

// Characters that libpg_query's lexer looks at again: /*/*/*... and +-+-... take it the square of their length.
i64   sql_rescans(const char *text);

// Runs WORK on a thread with a large stack and waits for it.
weft_status sql_worker_run(void (*work)(void *context, size_t stack_bytes), void *context,
                           const _Atomic u32 *stop, Error *err);

// ---- parse trees: kept by their text for the next time (trees.c) ------------------------------------------------------
// A tree has users, who release it, and nobody changes it.  Any thread may call.

typedef struct ParseTree ParseTree;                         // opened up only in trees.c
typedef struct TreeCounts { i64 n_found, n_missed; int n_trees; size_t bytes; } TreeCounts;

ParseTree  *tree_unpack(const void *packed, size_t length); // NULL when it cannot be read
const PgQuery__ParseResult *tree_result(const ParseTree *tree);
void        tree_release(ParseTree *tree);                  // NULL is fine
ParseTree  *tree_find(const char *text, size_t length);     // NULL: there is none
void        tree_keep(ParseTree *tree, const char *text, size_t length);   // unless it is no query, or large
TreeCounts  tree_counts(void);

// ---- binding --------------------------------------------------------------------------------------------------------

typedef struct ScopeColumn { const char *name; int relation, column; } ScopeColumn;

typedef struct Scope {                 // what names without a table mean, and the order of *
    ScopeColumn *columns;
    int          n_columns;
    u64          relations;            // bit r: relation r may be named
} Scope;

typedef struct Binder {
    Arena       *arena;                // of the statement
    const char  *text;
    const Names *names;
    Error       *err;
    Query       *query;                // NULL where no columns can be: INSERT, LIMIT
    const Scope *scope;
    const char  *clause;               // "WHERE": for messages
    bool         allows_aggs;          // this clause may have aggregates
    bool         in_agg;               // inside an aggregate's argument
    i64          size;                 // of all expressions kept so far
} Binder;

weft_status bind_statement(Binder *binder, const PgQuery__RawStmt *raw, Statement **out);
weft_status bind_select(Binder *binder, const PgQuery__SelectStmt *select, Query **out);
weft_status bind_create(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement);
weft_status bind_drop(Binder *binder, const PgQuery__DropStmt *drop, Statement *statement);
weft_status bind_insert(Binder *binder, const PgQuery__InsertStmt *insert, Statement *statement);
weft_status bind_copy(Binder *binder, const PgQuery__CopyStmt *copy, Statement *statement);

weft_status bind_from(Binder *binder, const PgQuery__SelectStmt *select, Scope *scope);
weft_status bind_conjuncts(Binder *binder, const Node *node, const char *clause);   // a condition into the query's list
weft_status bind_expr(Binder *binder, const Node *node, Expr **out);
weft_status bind_exprs(Binder *binder, Node *const *nodes, size_t n_nodes, Expr ***out);
weft_status bind_condition(Binder *binder, const Node *node, Expr **out);  // a boolean, named by the binder's clause
weft_status bind_function(Binder *binder, const PgQuery__FuncCall *call, Expr **out);
weft_status bind_column(Binder *binder, const PgQuery__ColumnRef *ref, Expr **out);
weft_status bind_star(Binder *binder, const PgQuery__ColumnRef *ref, Expr ***columns, const char ***names,
                      int *n_columns);
weft_status bind_cast(Binder *binder, const PgQuery__TypeCast *cast, Expr **out);
weft_status bind_call(Binder *binder, Op op, Expr *a, Expr *b, int at, Expr **out); // B may be NULL
weft_status bind_chain(Binder *binder, Op op, Expr **args, int n_args, int at, Expr **out);  // AND, OR: a balanced tree
weft_status bind_settle(Binder *binder, Expr *expr, Expr **out);  // what is still untyped becomes text
weft_status bind_count(Binder *binder, const Expr *expr);         // adds to the size of the query: 54001

// The type that a name stands for.  HAS_LENGTH: varchar(n), char(n); IS_BARE: numeric without precision.
typedef struct TypeDetail { Type type; bool has_length, is_bare; } TypeDetail;
weft_status bind_type(Binder *binder, const PgQuery__TypeName *name, TypeDetail *out);

weft_status bind_table(Binder *binder, const PgQuery__RangeVar *range,
                       const Table **table);  // held by the binder's arena
weft_status bind_table_name(Binder *binder, const PgQuery__RangeVar *range, const char **name);
weft_status unknown_column(Binder *binder, const Table *table, const char *name, int at);

weft_status refuse(Binder *binder, int at, const char *what);                       // "... is not supported yet"
int         node_at(const Node *node);                                              // byte offset, -1 when it has none
const char *node_string(const Node *node);                                          // NULL when it is not a string
const char *output_name(const Node *node);                                          // as PostgreSQL names a column
const char *nearest_name(const char *wanted, const char *const *names, int n_names);   // NULL: nothing close

#endif
