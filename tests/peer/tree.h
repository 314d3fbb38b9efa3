// tree.h - random SQL as a tree of text, so that a failing statement can be cut down without knowing the grammar.
//
// A node has a type (of its value, or the part of a statement that it is) and a form: text in which @0, @1, .. stand
// for its arguments.  A node of the same type may take the place of any other, and parts that can_go may be left out;
// whether what remains is still valid SQL, the engines say.
//
//     Tree *sum = tree_new(arena, TYPE_INTEGER, "(@0 + @1)", 2, (Tree *[]){ a, b });
//     char *sql = tree_sql(sum);                                    // to be freed
//     tree_cut(&root, 500, still_fails, context);

#ifndef WEFT_TREE_H
#define WEFT_TREE_H

#include "base/base.h"

enum { TREE_ARGS = 12 };

typedef enum TreeType {
    TYPE_SMALLINT, TYPE_INTEGER, TYPE_BIGINT, TYPE_NUMERIC, TYPE_REAL, TYPE_DOUBLE, TYPE_BOOLEAN, TYPE_DATE,
    TYPE_TIMESTAMP, TYPE_TIMESTAMPTZ, TYPE_TIME, TYPE_INTERVAL, TYPE_UUID, TYPE_TEXT,
    TYPE_N,                            // types of values end here; parts of statements follow
    PART_ITEM = TYPE_N, PART_LIST, PART_CLAUSE, PART_SOURCE, PART_QUERY
} TreeType;

typedef struct Tree Tree;
struct Tree {
    TreeType    type;
    const char *form;                  // of PART_LIST what stands between its elements
    bool        can_go;                // a clause that may be left out, or a list that may be empty
    bool        is_gone;
    bool        is_inexact;            // its last digits are the engine's own: compared within a bound
    int         salt;                  // @*: ORDER BY over all elements of list 0, in directions that this draws
    int         n_args;
    Tree       *args[TREE_ARGS];
};

Tree *tree_new(Arena *arena, TreeType type, const char *form, int n_args, Tree *const *args);
Tree *tree_list(Arena *arena, const char *between);
bool  tree_push(Tree *list, Tree *element);                       // false: it is full
char *tree_sql(const Tree *tree);                                 // to be freed
int   tree_size(const Tree *tree);

// Makes the tree at *ROOT smaller as long as STILL_FAILS says so; asks at most N_TRIES times.
void  tree_cut(Tree **root, int n_tries, bool (*still_fails)(void *context), void *context);

#endif
