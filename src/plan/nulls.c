// nulls.c - what a condition says about NULLs.
//
// A condition that cannot be true where a column is NULL rejects the column's NULLs: x > 5 does, x is null or x > 5
// does not.  That is what makes an outer join an inner one, and what proves a column to be without NULLs above a
// filter.

#include "plan/rewrite.h"

static ColumnSet in_both(Arena *arena, const ColumnSet *a, const ColumnSet *b)
{
    ColumnSet set = { 0 };
    for (int column = columns_next(a, -1); column >= 0; column = columns_next(a, column))
        if (columns_has(b, column)) columns_add(arena, &set, column);
    return set;
}

typedef void CollectColumns(Arena *arena, const Expr *expr, ColumnSet *set);

static void collect_common(Arena *arena, const Expr *expr, CollectColumns *collect, ColumnSet *set)
{
    ColumnSet a = { 0 }, b = { 0 };
    collect(arena, expr->args[0], &a);
    collect(arena, expr->args[1], &b);
    a = in_both(arena, &a, &b);
    columns_add_all(arena, set, &a);
}

void columns_strict(Arena *arena, const Expr *expr, ColumnSet *set)
{
    if (expr->kind == EXPR_COLUMN) columns_add(arena, set, expr->column);
    if (expr->kind != EXPR_CALL) return;
    switch (expr->op) {
        case OP_IS_NULL: case OP_IS_NOT_NULL: case OP_COALESCE: return;
        case OP_AND: case OP_OR: collect_common(arena, expr, columns_strict, set); return;
        case OP_IN: columns_strict(arena, expr->args[0], set); return;
        default:
            for (int i = 0; i < expr->n_args; i++) columns_strict(arena, expr->args[i], set);
    }
}

void columns_rejected(Arena *arena, const Expr *condition, ColumnSet *set)
{
    if (condition->kind == EXPR_CALL && condition->op == OP_AND) {
        columns_rejected(arena, condition->args[0], set);
        columns_rejected(arena, condition->args[1], set);
    } else if (condition->kind == EXPR_CALL && condition->op == OP_OR) {
        collect_common(arena, condition, columns_rejected, set);
    } else if (condition->kind == EXPR_CALL && condition->op == OP_IS_NOT_NULL) {
        columns_strict(arena, condition->args[0], set);
    } else {
        columns_strict(arena, condition, set);
    }
}
