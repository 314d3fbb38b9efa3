// clone.c - a copy of a tree with fresh columns, for a rewrite that needs the same rows twice.

#include "plan/rewrite.h"
#include "plan/window.h"

typedef struct Clone { Plan *plan; int *map; int n_map; Error *err; } Clone;

int *plan_new_map(Plan *plan)
{
    int *map = arena_array(plan->arena, int, plan->n_columns + 1);
    for (int c = 0; c < plan->n_columns; c++) map[c] = -1;
    return map;
}

bool tree_is_cheap(const Node *node)
{
    if (node->kind == NODE_SCAN) return true;
    if (node->kind == NODE_VALUES) return node->n_rows <= 16;
    return (node->kind == NODE_FILTER || (node->kind == NODE_PROJECT && node->copies < 0)) &&
           tree_is_cheap(node->inputs[0]);
}

static const Expr *clone_leaf(void *context, const Expr *leaf)
{
    const Clone *clone = context;
    if (leaf->kind != EXPR_COLUMN || leaf->column >= clone->n_map || clone->map[leaf->column] < 0) return NULL;
    return expr_column(clone->plan->arena, clone->map[leaf->column], leaf->type, leaf->at);
}

static weft_status clone_expr(void *context, Expr **expr)
{
    Clone *clone = context;
    return expr_replace(clone->plan->arena, *expr, clone_leaf, clone, expr, clone->err);
}

static void *copy_of(Plan *plan, const void *from, int n_items, size_t item_size)
{
    void *copy = arena_alloc(plan->arena, (size_t)(n_items + 1) * item_size);
    if (n_items) memcpy(copy, from, (size_t)n_items * item_size);
    return copy;
}

static int mapped(const Clone *clone, int column)
{
    return column >= 0 && clone->map[column] >= 0 ? clone->map[column] : column;
}

static void copy_lists(Plan *plan, Node *copy)
{
    copy->out = copy_of(plan, copy->out, copy->n_out, sizeof *copy->out);
    if (copy->kind == NODE_SCAN)
        copy->table_columns = copy_of(plan, copy->table_columns, copy->n_out, sizeof *copy->table_columns);
    copy->conditions = copy_of(plan, copy->conditions, copy->n_conditions, sizeof *copy->conditions);
    if (copy->kind == NODE_PROJECT) copy->exprs = copy_of(plan, copy->exprs, copy->n_out, sizeof *copy->exprs);
    copy->keys = copy_of(plan, copy->keys, copy->n_keys, sizeof *copy->keys);
    if (copy->kind == NODE_JOIN)
        copy->right_keys = copy_of(plan, copy->right_keys, copy->n_keys, sizeof *copy->right_keys);
    copy->aggs = copy_of(plan, copy->aggs, copy->n_aggs, sizeof *copy->aggs);
    copy->sort = copy_of(plan, copy->sort, copy->n_sort, sizeof *copy->sort);
    if (copy->windows) copy->windows = window_copy(plan->arena, copy->windows);
}

// Whether the node makes its out[C], so that the copy needs a fresh column.
static bool makes_column(const Node *node, int c)
{
    switch (node->kind) {
        case NODE_FILTER: case NODE_SORT: case NODE_LIMIT: return false;
        case NODE_JOIN:    return node->join == JOIN_MARK && node->out[c] == node->mark;
        case NODE_WINDOW:  return c >= node->n_out - node->windows->n_funcs;
        case NODE_PROJECT: return node->exprs[c]->kind != EXPR_COLUMN || node->exprs[c]->column != node->out[c];
        default:           return true;
    }
}

static void fresh_columns(Clone *clone, const Node *node, Node *copy)
{
    for (int c = 0; c < node->n_out; c++) {
        if (makes_column(node, c)) clone->map[node->out[c]] = plan_copy_column(clone->plan, node->out[c]);
        copy->out[c] = mapped(clone, node->out[c]);
    }
    for (int k = 0; k < copy->n_sort; k++) copy->sort[k].column = mapped(clone, copy->sort[k].column);
    if (copy->kind == NODE_JOIN) copy->mark = mapped(clone, copy->mark);
    copy->copies = mapped(clone, copy->copies);
    for (int f = 0; copy->windows && f < copy->windows->n_funcs; f++)
        copy->windows->funcs[f].column = mapped(clone, copy->windows->funcs[f].column);
}

// For printing: a copied column reads as what the copy computes.
static void explain_columns(Clone *clone, const Node *copy)
{
    if (copy->kind != NODE_AGGREGATE) return;
    for (int k = 0; k < copy->n_keys; k++) clone->plan->columns[copy->out[k]].value = copy->keys[k];
    for (int a = 0; a < copy->n_aggs; a++) clone->plan->columns[copy->out[copy->n_keys + a]].agg = &copy->aggs[a];
}

static weft_status clone_tree(Clone *clone, const Node *node, Node **out)
{
    Node *copy = arena_make(clone->plan->arena, Node);
    *copy = *node;
    if (node->kind == NODE_REPEAT && node->n_inputs)       // what reads its last round names it, not the copy
        return fail(clone->err, WEFT_UNSUPPORTED, node->at, "a copy of a recursive query is not supported yet");
    for (int i = 0; i < node->n_inputs; i++) TRY(clone_tree(clone, node->inputs[i], &copy->inputs[i]));
    copy_lists(clone->plan, copy);
    TRY(node_visit_exprs(copy, clone_expr, clone));                    // over the inputs' columns, mapped by now
    fresh_columns(clone, node, copy);
    explain_columns(clone, copy);
    if (node->kind == NODE_SCAN) clone->plan->n_scans++;
    if (node->kind == NODE_SHARED) node->shared->n_uses++;
    *out = copy;
    return WEFT_OK;
}

weft_status plan_clone(Plan *plan, const Node *node, int *map, Node **copy, Error *err)
{
    Clone clone = { .plan = plan, .map = map, .n_map = plan->n_columns, .err = err };
    return clone_tree(&clone, node, copy);
}

weft_status plan_copy_tree(Plan *plan, const Node *node, Node **copy, Error *err)
{
    return plan_clone(plan, node, plan_new_map(plan), copy, err);
}
