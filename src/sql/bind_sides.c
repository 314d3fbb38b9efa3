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

// The rows of a side with what its columns have become.
Node *side_rows(Binder *binder, const Bound *side)
{
    Expr **exprs = term_stored_all(binder, side->exprs, side->n_columns);
    bool   is_same = side->node->n_out == side->n_columns;
    for (int i = 0; is_same && i < side->n_columns; i++)
        is_same = exprs[i]->kind == EXPR_COLUMN && exprs[i]->column == side->node->out[i];
    return is_same ? side->node : term_project(binder, side->node, exprs, side->names, side->n_columns);
}

