// rewrite_names.c - a PROJECT that only gives a column another name is not needed: everything above can use the old
// one.
//
//     project a as x  <-  scan t: a          becomes          project a  <-  scan t: a
//
// Every column has one id in the whole plan, so the old name means the same above as below.  What is left of such a
// PROJECT passes columns through, and where nobody looks at their order it is dropped.  That matters: a PROJECT
// between two joins keeps them from being ordered together.  The result's columns keep their ids: the topmost PROJECT
// gives the names, and it and what is above it stay as they are.

#include "plan/rewrite.h"

typedef struct NamesRewrite {
    Plan        *plan;
    Substitution instead;              // column -> the column whose name it is
    Node        *top;                  // the topmost project
    bool         has_any;
    Error       *err;
} NamesRewrite;

static int name_of(const NamesRewrite *names, int column)
{
    const Expr *instead = column >= 0 && column < names->instead.n ? names->instead.map[column] : NULL;
    return instead ? instead->column : column;
}

// A second name for the same column stays, so that no list has a column twice.
static bool is_taken(const NamesRewrite *names, const Node *project, int place, int column)
{
    for (int c = 0; c < project->n_out; c++)
        if (c != place && name_of(names, project->out[c]) == column) return true;
    return false;
}

static weft_status find_names(void *context, Node **slot)
{
    NamesRewrite *names = context;
    Node         *node = *slot;
    if (node->kind != NODE_PROJECT || node->copies >= 0 || node == names->top) return WEFT_OK;
    for (int c = 0; c < node->n_out; c++) {
        const Expr *expr = node->exprs[c];
        const int   column = expr->kind == EXPR_COLUMN ? name_of(names, expr->column) : -1;
        if (column < 0 || column == node->out[c] || is_taken(names, node, c, column)) continue;
        names->instead.map[node->out[c]] = plan_column_expr(names->plan, column, expr->at);
        names->has_any = true;
    }
    return WEFT_OK;
}

static weft_status use_name(void *context, Expr **expr)
{
    NamesRewrite *names = context;
    return expr_substitute(names->plan, *expr, &names->instead, expr, names->err);
}

static weft_status use_names(void *context, Node **slot)
{
    NamesRewrite *names = context;
    Node         *node = *slot;
    TRY(node_visit_exprs(node, use_name, names));
    for (int c = 0; c < node->n_out; c++) node->out[c] = name_of(names, node->out[c]);
    for (int k = 0; k < node->n_sort; k++) node->sort[k].column = name_of(names, node->sort[k].column);
    node->copies = name_of(names, node->copies);
    return WEFT_OK;
}

static weft_status find_in_tree(void *context, Node **root) { return tree_visit(root, find_names, context); }

static weft_status use_in_tree(void *context, Node **root)
{
    NamesRewrite *names = context;
    if (*root != names->plan->root) return tree_visit(root, use_names, names);
    TRY(node_visit_exprs(names->top, use_name, names));
    names->top->copies = name_of(names, names->top->copies);
    return tree_visit(&names->top->inputs[0], use_names, names);
}

static bool lets_through(const Node *node)
{
    return node->kind == NODE_SORT || node->kind == NODE_LIMIT || node->kind == NODE_FILTER;
}

// The topmost project, or one that is put there: it passes through what comes, under the result's ids.
static Node *top_project(Plan *plan)
{
    Node *node = plan->root;
    while (lets_through(node)) node = node->inputs[0];
    if (node->kind == NODE_PROJECT) return node;
    Expr **exprs = arena_array(plan->arena, Expr *, plan->root->n_out + 1);
    for (int c = 0; c < plan->root->n_out; c++) exprs[c] = plan_column_expr(plan, plan->root->out[c], -1);
    return plan->root = plan_project(plan, plan->root, exprs, plan->root->out, plan->root->n_out);
}

weft_status rewrite_drop_names(Plan *plan, Error *err)
{
    NamesRewrite names = { .plan = plan, .err = err, .instead.n = plan->n_columns, .top = top_project(plan) };
    names.instead.map = arena_array(plan->arena, const Expr *, plan->n_columns + 1);
    TRY(plan_visit_trees(plan, find_in_tree, &names));
    if (names.has_any) TRY(plan_visit_trees(plan, use_in_tree, &names));
    return WEFT_OK;
}
