// place.c - where an expression is computed: by kernels, per distinct text, or by the host row by row.
//
// Kernels see only numbers, and know what has a formula.  The rest is unknown to them: functions of text, casts from
// and to text, patterns that are not constant.  Where such an expression reads one text column and constants, it is
// worked out once per value of the column's dictionary, and kernels look it up by code (weave/island.c):
//
//     length(name) + 1            length(name) becomes a table, + 1 is the kernel's
//     upper(name) = 'ADA'         all of it becomes a table of booleans
//     first || ' ' || last        two columns: the host computes it over stored rows (rewrite_host.c, engine/compute.c)

#include "plan/expr_int.h"
#include "plan/functions.h"

static bool is_const(const Expr *expr)
{
    return expr->kind == EXPR_CONST || expr->kind == EXPR_PARAM;
}

static bool is_unknown_cast(Type from, Type to)
{
    if (from.kind == TYPE_TEXT && to.kind == TYPE_TEXT) return type_is_uuid(to) && !type_is_uuid(from);
    return from.kind == TYPE_TEXT || to.kind == TYPE_TEXT;
}

// Intervals are no numbers; constant ones may be part of a formula.
static bool has_interval(const Expr *expr)
{
    for (int i = 0; i < expr->n_args; i++)
        if (expr->args[i]->type.kind == TYPE_INTERVAL) return true;
    return expr->type.kind == TYPE_INTERVAL;
}

bool expr_is_unknown(const Expr *expr)
{
    if (expr->kind != EXPR_CALL && expr->kind != EXPR_CASE) return false;
    const Function *function = expr->kind == EXPR_CALL ? function_of(expr->op) : NULL;
    if (function) return !function->formula;
    if (has_interval(expr)) return true;
    if (expr->kind == EXPR_CASE) return false;
    if (expr->op == OP_CAST) return is_unknown_cast(expr->args[0]->type, expr->type);
    if (expr->op != OP_LIKE && expr->op != OP_ILIKE) return false;
    for (int i = 1; i < expr->n_args; i++)
        if (!is_const(expr->args[i])) return true;
    return false;
}

bool expr_is_interpreted(const Expr *expr)
{
    if (expr_is_unknown(expr)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (expr_is_interpreted(expr->args[i])) return true;
    return false;
}

// Whether there is no other column than *COLUMN, which is set by the first one.
static bool reads_one_text(const Expr *expr, int *column)
{
    if (expr->kind == EXPR_COLUMN) {
        if (expr->type.kind != TYPE_TEXT || (*column >= 0 && *column != expr->column)) return false;
        *column = expr->column;
    }
    for (int i = 0; i < expr->n_args; i++)
        if (!reads_one_text(expr->args[i], column)) return false;
    return true;
}

int expr_only_text_column(const Expr *expr)
{
    int column = -1;
    return reads_one_text(expr, &column) ? column : -1;
}

bool expr_needs_host(const Expr *expr)
{
    if (expr_is_unknown(expr)) return expr_only_text_column(expr) < 0;
    for (int i = 0; i < expr->n_args; i++)
        if (expr_needs_host(expr->args[i])) return true;
    return false;
}
