// columns.c - sets of column ids: what a node gives, what an expression needs.

#include "plan/plan.h"

static void grow(Arena *arena, ColumnSet *set, int n_words)
{
    if (n_words <= set->n_words) return;
    u64 *words = arena_array(arena, u64, n_words);
    if (set->n_words) memcpy(words, set->words, (size_t)set->n_words * sizeof *words);
    set->words = words, set->n_words = n_words;
}

void columns_add(Arena *arena, ColumnSet *set, int column)
{
    grow(arena, set, column / 64 + 1);
    set->words[column / 64] |= (u64)1 << column % 64;
}

void columns_add_all(Arena *arena, ColumnSet *set, const ColumnSet *other)
{
    grow(arena, set, other->n_words);
    for (int w = 0; w < other->n_words; w++) set->words[w] |= other->words[w];
}

void columns_add_expr(Arena *arena, ColumnSet *set, const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) columns_add(arena, set, expr->column);
    for (int i = 0; i < expr->n_args; i++) columns_add_expr(arena, set, expr->args[i]);
}

bool columns_has(const ColumnSet *set, int column)
{
    return column >= 0 && column / 64 < set->n_words && (set->words[column / 64] >> column % 64 & 1);
}

bool columns_is_subset(const ColumnSet *set, const ColumnSet *of)
{
    for (int w = 0; w < set->n_words; w++)
        if (set->words[w] & ~(w < of->n_words ? of->words[w] : 0)) return false;
    return true;
}

bool columns_meet(const ColumnSet *a, const ColumnSet *b)
{
    for (int w = 0; w < a->n_words && w < b->n_words; w++)
        if (a->words[w] & b->words[w]) return true;
    return false;
}

int columns_count(const ColumnSet *set)
{
    int n = 0;
    for (int w = 0; w < set->n_words; w++) n += __builtin_popcountll(set->words[w]);
    return n;
}

int columns_next(const ColumnSet *set, int after)
{
    for (int word = (after + 1) / 64; word < set->n_words; word++) {
        const u64 later = word == (after + 1) / 64 ? ~(u64)0 << (after + 1) % 64 : ~(u64)0;
        if (set->words[word] & later) return word * 64 + __builtin_ctzll(set->words[word] & later);
    }
    return -1;
}

bool expr_uses_only(const Expr *expr, const ColumnSet *set)
{
    if (expr->kind == EXPR_COLUMN && !columns_has(set, expr->column)) return false;
    for (int i = 0; i < expr->n_args; i++)
        if (!expr_uses_only(expr->args[i], set)) return false;
    return true;
}

bool expr_uses_any(const Expr *expr, const ColumnSet *set)
{
    if (expr->kind == EXPR_COLUMN && columns_has(set, expr->column)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (expr_uses_any(expr->args[i], set)) return true;
    return false;
}

bool expr_has_column(const Expr *expr, int column)
{
    if (expr->kind == EXPR_COLUMN && expr->column == column) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (expr_has_column(expr->args[i], column)) return true;
    return false;
}
