// tree.c - trees of SQL text: written down, and cut down.

#define _GNU_SOURCE
#include "tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

Tree *tree_new(Arena *arena, TreeType type, const char *form, int n_args, Tree *const *args)
{
    Tree *tree = arena_make(arena, Tree);
    tree->type = type;
    tree->form = form;
    tree->n_args = n_args;
    for (int i = 0; i < n_args; i++)
        tree->args[i] = args[i];
    return tree;
}

Tree *tree_list(Arena *arena, const char *between)
{
    return tree_new(arena, PART_LIST, between, 0, NULL);
}

bool tree_push(Tree *list, Tree *element)
{
    if (list->n_args == TREE_ARGS)
        return false;
    list->args[list->n_args++] = element;
    return true;
}

int tree_size(const Tree *tree)
{
    int size = tree->is_gone ? 0 : 1;
    for (int i = 0; size && i < tree->n_args; i++)
        size += tree_size(tree->args[i]);
    return size;
}

// ---- writing ------------------------------------------------------------------------------------------------------

static void write_order(FILE *out, const Tree *list, unsigned salt)
{
    static const char *const ORDERS[] = { "", " desc", " nulls first", " desc nulls last" };
    for (int i = 0; i < list->n_args; i++)
        fprintf(out, "%s%d%s", i ? ", " : "", i + 1, ORDERS[salt >> (2 * i) & 3]);
}

static void write_tree(FILE *out, const Tree *tree)
{
    if (tree->is_gone)
        return;
    if (tree->type == PART_LIST) {
        for (int i = 0; i < tree->n_args; i++) {
            fputs(i ? tree->form : "", out);
            write_tree(out, tree->args[i]);
        }
        return;
    }
    for (const char *c = tree->form; *c; c++) {
        if (*c == '@' && c[1] == '*') {
            write_order(out, tree->args[0], (unsigned)tree->salt);
            c++;
        } else if (*c == '@' && isdigit((unsigned char)c[1])) {
            write_tree(out, tree->args[c[1] - '0']);
            c++;
        } else {
            fputc(*c, out);
        }
    }
}

char *tree_sql(const Tree *tree)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_tree(out, tree);
    fclose(out);
    return text;
}

// ---- cutting ------------------------------------------------------------------------------------------------------

typedef struct Cut {
    int   n_left;                                                 // questions
    bool (*still_fails)(void *context);
    void *context;
} Cut;

static bool holds(Cut *cut)
{
    return cut->n_left > 0 && (cut->n_left--, cut->still_fails(cut->context));
}

static bool cut_clause(Cut *cut, Tree *tree)
{
    if (!tree->can_go || tree->is_gone)
        return false;
    tree->is_gone = true;
    if (holds(cut))
        return true;
    tree->is_gone = false;
    return false;
}

static bool cut_list(Cut *cut, Tree *list)
{
    bool has_cut = false;
    for (int i = list->n_args - 1; i >= 0 && list->n_args > 1; i--) {
        Tree before = *list;
        memmove(&list->args[i], &list->args[i + 1], (size_t)(list->n_args - i - 1) * sizeof list->args[0]);
        list->n_args--;
        if (holds(cut))
            has_cut = true;
        else
            *list = before;
    }
    return has_cut;
}

// The highest node below TREE that has TYPE and makes the whole fail as before.
static bool put_descendant(Cut *cut, Tree **slot, Tree *tree, TreeType type)
{
    Tree *before = *slot;
    for (int i = 0; i < tree->n_args; i++) {
        Tree *below = tree->args[i];
        if (below->type == type && !below->is_gone) {
            *slot = below;
            if (holds(cut))
                return true;
            *slot = before;
        }
    }
    for (int i = 0; i < tree->n_args; i++)
        if (put_descendant(cut, slot, tree->args[i], type))
            return true;
    return false;
}

static const char *const SIMPLEST[TYPE_N] = {
    "cast(1 as smallint)", "1", "cast(1 as bigint)", "1.5", "cast(1 as real)", "cast(1 as double precision)", "true",
    "date '2020-01-01'", "timestamp '2020-01-01'", "timestamptz '2020-01-01 00:00+00'", "time '12:00'",
    "interval '1 day'", "cast('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' as uuid)", "'a'"
};

static bool put_literal(Cut *cut, Tree *tree)
{
    if (tree->type >= TYPE_N || tree->n_args == 0)
        return false;
    Tree before = *tree;
    tree->form = SIMPLEST[tree->type];
    tree->n_args = 0;
    if (holds(cut))
        return true;
    *tree = before;
    return false;
}

static bool cut_slot(Cut *cut, Tree **slot)
{
    bool has_cut = cut_clause(cut, *slot);
    if ((*slot)->is_gone || cut->n_left <= 0)
        return has_cut;
    if ((*slot)->type == PART_LIST)
        has_cut |= cut_list(cut, *slot);
    else
        has_cut |= put_literal(cut, *slot);
    if ((*slot)->type != PART_CLAUSE && (*slot)->type != PART_LIST)
        while (put_descendant(cut, slot, *slot, (*slot)->type))
            has_cut = true;
    for (int i = 0; i < (*slot)->n_args; i++)
        has_cut |= cut_slot(cut, &(*slot)->args[i]);
    return has_cut;
}

void tree_cut(Tree **root, int n_tries, bool (*still_fails)(void *context), void *context)
{
    Cut cut = { n_tries, still_fails, context };
    while (cut.n_left > 0 && cut_slot(&cut, root))
        ;
}
