// correlation.c - which columns a tree needs from outside, and other columns in their place.
//
// A shared subplan needs none: a front end copies a correlated one to each place that uses it.  So a reference is a
// leaf.

#include "plan/correlation.h"

// ---- columns from outside -------------------------------------------------------------------------------------------

typedef struct Ties { Arena *arena; ColumnSet made, used; } Ties;

static weft_status tie_expr(void *context, Expr **expr)
{
    Ties *ties = context;
    columns_add_expr(ties->arena, &ties->used, *expr);
    return WEFT_OK;
}

static void tie_tree(Ties *ties, const Node *node)
{
    for (int i = 0; i < node->n_inputs; i++) tie_tree(ties, node->inputs[i]);
    node_visit_exprs((Node *)(uintptr_t)node, tie_expr, ties);
    for (int k = 0; k < node->n_sort; k++) columns_add(ties->arena, &ties->used, node->sort[k].column);
    for (int c = 0; c < node->n_out; c++) columns_add(ties->arena, &ties->made, node->out[c]);
}

void plan_free_columns(Arena *arena, const Node *node, ColumnSet *free_columns)
{
    Ties ties = { .arena = arena };
    tie_tree(&ties, node);
    for (int c = columns_next(&ties.used, -1); c >= 0; c = columns_next(&ties.used, c))
        if (!columns_has(&ties.made, c)) columns_add(arena, free_columns, c);
}

bool exprs_refer_to(const OuterColumns *outer, Expr *const *exprs, int n_exprs)
{
    for (int i = 0; i < n_exprs; i++)
        if (expr_uses_any(exprs[i], &outer->set)) return true;
    return false;
}

static weft_status find_outer(void *context, Expr **expr)
{
    const OuterColumns *outer = context;
    return expr_uses_any(*expr, &outer->set) ? WEFT_UNSUPPORTED : WEFT_OK;      // any error ends the walk
}

bool tree_refers_to(const OuterColumns *outer, const Node *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (tree_refers_to(outer, node->inputs[i])) return true;
    return node_visit_exprs((Node *)(uintptr_t)node, find_outer, (void *)(uintptr_t)outer) != WEFT_OK;
}

// ---- other columns in their place -----------------------------------------------------------------------------------

typedef struct Replacing { Arena *arena; ReplaceLeaf *give; void *context; Error *err; } Replacing;

static weft_status replace_in_expr(void *context, Expr **expr)
{
    const Replacing *replacing = context;
    return expr_replace(replacing->arena, *expr, replacing->give, replacing->context, expr, replacing->err);
}

static weft_status replace_in_tree(Replacing *replacing, Node *node)
{
    for (int i = 0; i < node->n_inputs; i++) TRY(replace_in_tree(replacing, node->inputs[i]));
    return node_visit_exprs(node, replace_in_expr, replacing);
}

weft_status plan_replace_leaves(Arena *arena, Node *node, ReplaceLeaf *give, void *context, Error *err)
{
    Replacing replacing = { arena, give, context, err };
    return replace_in_tree(&replacing, node);
}

typedef struct Standing { const OuterColumns *outer; const StandIn *stand_ins; } Standing;

static const Expr *give_stand_in(void *context, const Expr *leaf)
{
    const Standing *standing = context;
    if (leaf->kind != EXPR_COLUMN || !columns_has(&standing->outer->set, leaf->column)) return NULL;
    int i = 0;
    while (standing->outer->columns[i] != leaf->column) i++;
    return plan_column_expr(standing->outer->plan, standing->stand_ins[i].column, leaf->at);
}

weft_status tree_use_stand_ins(const OuterColumns *outer, Node *node, const StandIn *stand_ins)
{
    Standing standing = { outer, stand_ins };
    return plan_replace_leaves(outer->plan->arena, node, give_stand_in, &standing, outer->err);
}

weft_status exprs_use_stand_ins(const OuterColumns *outer, Expr **exprs, int n_exprs, const StandIn *stand_ins)
{
    Standing standing = { outer, stand_ins };
    for (int i = 0; i < n_exprs; i++)
        TRY(expr_replace(outer->plan->arena, exprs[i], give_stand_in, &standing, &exprs[i], outer->err));
    return WEFT_OK;
}
