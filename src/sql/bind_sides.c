// bind_sides.c - the two sides of a set operation, or of a recursive query, brought to the same types.

#include "sql/sql_int.h"

static const char *set_name(SetKind kind)
{
    static const char *const names[] = { "UNION", "INTERSECT", "EXCEPT" };
    return names[kind];
}

weft_status unify_sides(Binder *binder, SetKind kind, Bound sides[2])
{
    const int at = sides[1].n_columns ? sides[1].exprs[0]->at : -1;
    if (sides[0].n_columns != sides[1].n_columns)
        return fail(binder->err, WEFT_SYNTAX_ERROR, at, "each %s query must have the same number of columns",
                    set_name(kind));
    for (int i = 0; i < sides[0].n_columns; i++) {
        Expr *pair[2] = { sides[0].exprs[i], sides[1].exprs[i] };
        TRY(expr_unify(binder->arena, pair, 2, 1, set_name(kind), pair[1]->at, binder->err));
        sides[0].exprs[i] = pair[0], sides[1].exprs[i] = pair[1];
    }
    return WEFT_OK;
}

int side_column(Binder *binder, const Expr *expr, const char *name)
{
    const bool is_interval = expr->type.kind == TYPE_INTERVAL;
    const int  column = plan_add_column(binder->plan, is_interval ? (Type){ TYPE_NUMERIC, 38, 0 } : expr->type, name,
                                        NULL);
    if (is_interval) columns_add(binder->arena, &binder->intervals, column);
    binder->plan->columns[column].is_declared = expr_is_declared(expr);
    return column;
}

void compare_by_length(Binder *binder, Node *node)
{
    bool *by_length = arena_array(binder->arena, bool, node->n_out + 1);
    node->by_length = by_length;
    for (int c = 0; c < node->n_out; c++) {
        by_length[c] = columns_has(&binder->intervals, node->out[c]);
        if (by_length[c]) node->n_by_length = c + 1;
    }
}

// The rows of a side with what its columns have become.
Node *side_rows(Binder *binder, const Bound *side)
{
    Expr **exprs = term_stored_all(binder, side->exprs, side->n_columns);
    bool   is_same = side->node->n_out == side->n_columns;
    for (int i = 0; is_same && i < side->n_columns; i++)
        is_same = exprs[i]->kind == EXPR_COLUMN && exprs[i]->column == side->node->out[i];
    return is_same ? side->node : term_project(binder, side->node, exprs, side->names, side->n_columns);
}

