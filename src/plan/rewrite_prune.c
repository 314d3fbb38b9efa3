// rewrite_prune.c - columns that nobody above needs leave the plan.
//
// Needs go down: the root needs all of its columns, a node needs what is needed of it and what its own expressions
// name.  What a node gives shrinks on the way back up: projects, aggregates, values and scans drop what is not needed,
// a set drops the same places on both sides, and filter, sort, limit and join give what their inputs give.  A shared
// subplan keeps what at least one of its references needs; so its users are pruned before it.
//
// On the way: a left join that adds nothing needed, neither a column nor a row, goes; an aggregate without keys of
// which nothing is needed is one row, and a mark that nobody reads needs no join.

#include "plan/rewrite.h"
#include "plan/window.h"

typedef struct Prune {
    Plan  *plan;
    bool **needed;                     // by shared subplan: places that some reference needs
    Node **references;
    int    n_references;
} Prune;

static void prune(Prune *p, Node **slot, const ColumnSet *needed);

static ColumnSet copy_of_set(Plan *plan, const ColumnSet *set)
{
    ColumnSet copy = { 0 };
    columns_add_all(plan->arena, &copy, set);
    return copy;
}

typedef struct Need { Arena *arena; ColumnSet *set; } Need;

static weft_status need_expr(void *context, Expr **expr)
{
    const Need *need = context;
    columns_add_expr(need->arena, need->set, *expr);
    return WEFT_OK;
}

static void need_exprs(Prune *p, Node *node, ColumnSet *set)
{
    Need need = { p->plan->arena, set };
    node_visit_exprs(node, need_expr, &need);
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static void prune_scan(Node *node, const ColumnSet *needed)
{
    int n_kept = 0;
    for (int c = 0; c < node->n_out; c++) {
        if (!columns_has(needed, node->out[c])) continue;
        node->out[n_kept] = node->out[c];
        node->table_columns[n_kept++] = node->table_columns[c];
    }
    node->n_out = n_kept;
}

static void prune_values(Prune *p, Node *node, const ColumnSet *needed)
{
    int *out = arena_array(p->plan->arena, int, node->n_out + 1),
        *places = arena_array(p->plan->arena, int, node->n_out + 1), n_kept = 0;
    for (int c = 0; c < node->n_out; c++)
        if (columns_has(needed, node->out[c])) out[n_kept] = node->out[c], places[n_kept++] = c;
    if (n_kept == node->n_out) return;
    Value *values = arena_array(p->plan->arena, Value, node->n_rows * (u64)n_kept + 1);
    for (u64 row = 0; row < node->n_rows; row++)
        for (int c = 0; c < n_kept; c++)
            values[row * (u64)n_kept + (u64)c] = node->values[row * (u64)node->n_out + (u64)places[c]];
    node->out = out, node->n_out = n_kept, node->values = values;
}

static void prune_reference(Prune *p, Node *node, const ColumnSet *needed)
{
    bool *places = p->needed[node->shared->number];
    for (int c = 0; c < node->n_out; c++) places[c] |= columns_has(needed, node->out[c]);
    *LIST_PUSH(p->plan->arena, p->references, p->n_references) = node;
}

// ---- inner nodes ----------------------------------------------------------------------------------------------------

static void prune_project(Prune *p, Node *node, const ColumnSet *needed)
{
    ColumnSet below = { 0 };
    int       n_kept = 0;
    for (int c = 0; c < node->n_out; c++) {
        if (!columns_has(needed, node->out[c])) continue;
        node->out[n_kept] = node->out[c];
        node->exprs[n_kept++] = node->exprs[c];
    }
    node->n_out = n_kept;
    need_exprs(p, node, &below);
    if (node->copies >= 0) columns_add(p->plan->arena, &below, node->copies);
    prune(p, &node->inputs[0], &below);
}

static void prune_aggregate(Prune *p, Node **slot, const ColumnSet *needed)
{
    Node     *node = *slot;
    ColumnSet below = { 0 };
    int       n_kept = 0;
    for (int a = 0; a < node->n_aggs; a++) {
        const int column = node->out[node->n_keys + a];
        if (!columns_has(needed, column)) continue;
        node->out[node->n_keys + n_kept] = column;
        node->aggs[n_kept] = node->aggs[a];
        p->plan->columns[column].agg = &node->aggs[n_kept++];
    }
    node->n_aggs = n_kept;
    node->n_out = node->n_keys + n_kept;
    if (node->n_out == 0) {
        *slot = plan_values(p->plan, 1, 0, NULL, NULL);
        return;
    }
    need_exprs(p, node, &below);
    prune(p, &node->inputs[0], &below);
}

// A left join whose right columns nobody needs, and whose keys tell the right rows apart.
static bool adds_nothing(Prune *p, const Node *node, const ColumnSet *needed)
{
    ColumnSet keys = { 0 };
    if (node->join != JOIN_LEFT) return false;
    for (int c = 0; c < node->inputs[1]->n_out; c++)
        if (columns_has(needed, node->inputs[1]->out[c])) return false;
    for (int k = 0; k < node->n_keys; k++)
        if (node->right_keys[k]->kind == EXPR_COLUMN) columns_add(p->plan->arena, &keys, node->right_keys[k]->column);
    return node_is_unique(p->plan, node->inputs[1], &keys);
}

static void prune_join(Prune *p, Node **slot, const ColumnSet *needed)
{
    Node *node = *slot;
    if (node->join == JOIN_MARK && !columns_has(needed, node->mark)) {
        *slot = node->inputs[0];
        prune(p, slot, needed);
        return;
    }
    if (adds_nothing(p, node, needed)) {
        *slot = node->inputs[0];
        prune(p, slot, needed);
        return;
    }
    ColumnSet below = copy_of_set(p->plan, needed);
    need_exprs(p, node, &below);
    for (int i = 0; i < 2; i++) prune(p, &node->inputs[i], &below);
    node_settle_out(p->plan, node);
}

static void prune_passing(Prune *p, Node *node, const ColumnSet *needed)
{
    ColumnSet below = copy_of_set(p->plan, needed);
    need_exprs(p, node, &below);
    for (int k = 0; k < node->n_sort; k++) columns_add(p->plan->arena, &below, node->sort[k].column);
    prune(p, &node->inputs[0], &below);
    node_settle_out(p->plan, node);
}

static void prune_window(Prune *p, Node **slot, const ColumnSet *needed)
{
    Node     *node = *slot;
    ColumnSet below = copy_of_set(p->plan, needed);
    if (!window_prune(p->plan, node, needed)) {
        *slot = node->inputs[0];
        prune(p, slot, needed);
        return;
    }
    need_exprs(p, node, &below);
    prune(p, &node->inputs[0], &below);
    node_settle_out(p->plan, node);
}

// INPUT is to give the columns at the kept places, in this order.
static void prune_to_places(Prune *p, Node **input, const int *places, int n_places)
{
    int      *columns = arena_array(p->plan->arena, int, n_places + 1);
    ColumnSet needed = { 0 };
    for (int i = 0; i < n_places; i++) {
        columns[i] = (*input)->out[places[i]];
        columns_add(p->plan->arena, &needed, columns[i]);
    }
    prune(p, input, &needed);
    *input = node_in_order(p->plan, *input, columns, n_places);
}

static void prune_set(Prune *p, Node *node, const ColumnSet *needed)
{
    int       *places = arena_array(p->plan->arena, int, node->n_out + 1), n_places = 0;
    const bool needs_all = !(node->set == SET_UNION && node->is_all);
    for (int c = 0; c < node->n_out; c++)
        if (needs_all || columns_has(needed, node->out[c])) places[n_places++] = c;
    for (int i = 0; i < 2; i++) prune_to_places(p, &node->inputs[i], places, n_places);
    for (int i = 0; i < n_places; i++) node->out[i] = node->out[places[i]];
    node->n_out = n_places;
}

// Each round needs what the next one reads, and rows are told apart by all of their columns.
static void prune_repeat(Prune *p, Node *node)
{
    int *places = arena_array(p->plan->arena, int, node->n_out + 1);
    for (int c = 0; c < node->n_out; c++) places[c] = c;
    for (int i = 0; i < node->n_inputs; i++) prune_to_places(p, &node->inputs[i], places, node->n_out);
}

static void prune(Prune *p, Node **slot, const ColumnSet *needed)
{
    Node *node = *slot;
    switch (node->kind) {
        case NODE_SCAN:      prune_scan(node, needed); break;
        case NODE_VALUES:    prune_values(p, node, needed); break;
        case NODE_SHARED:    prune_reference(p, node, needed); break;
        case NODE_PROJECT:   prune_project(p, node, needed); break;
        case NODE_AGGREGATE: prune_aggregate(p, slot, needed); break;
        case NODE_JOIN:      prune_join(p, slot, needed); break;
        case NODE_SET:       prune_set(p, node, needed); break;
        case NODE_FILTER: case NODE_SORT: case NODE_LIMIT: prune_passing(p, node, needed); break;
        case NODE_WINDOW:    prune_window(p, slot, needed); break;
        case NODE_REPEAT:    prune_repeat(p, node); break;
    }
}

// ---- whole trees ----------------------------------------------------------------------------------------------------

static void prune_root(Prune *p, Node **root)
{
    int *places = arena_array(p->plan->arena, int, (*root)->n_out + 1), n_places = (*root)->n_out;
    for (int c = 0; c < n_places; c++) places[c] = c;
    prune_to_places(p, root, places, n_places);
}

static void prune_shared(Prune *p, Shared *shared)
{
    const bool *needed = p->needed[shared->number];
    int        *places = arena_array(p->plan->arena, int, shared->root->n_out + 1), n_places = 0;
    for (int c = 0; c < shared->root->n_out; c++)
        if (needed[c]) places[n_places++] = c;
    prune_to_places(p, &shared->root, places, n_places);
}

static void shrink_references(const Prune *p)
{
    for (int r = 0; r < p->n_references; r++) {
        Node *node = p->references[r];
        int   n_kept = 0;
        for (int c = 0; c < node->n_out; c++)
            if (p->needed[node->shared->number][c]) node->out[n_kept++] = node->out[c];
        node->n_out = n_kept;
    }
}

// What stands above a reference saw its columns before they shrank.
static weft_status settle_node(void *context, Node **node)
{
    node_settle_out(context, *node);
    return WEFT_OK;
}

static weft_status settle_tree(void *context, Node **root) { return tree_visit(root, settle_node, context); }

weft_status rewrite_prune(Plan *plan, Error *err)
{
    Prune p = { .plan = plan };
    TRY(plan_order_shared(plan));
    p.needed = arena_array(plan->arena, bool *, plan->n_shared + 1);
    for (int s = 0; s < plan->n_shared; s++)
        p.needed[s] = arena_array(plan->arena, bool, plan->shared[s]->root->n_out + 1);
    prune_root(&p, &plan->root);
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].subplan) prune_root(&p, &plan->params[i].subplan);
    for (int s = plan->n_shared - 1; s >= 0; s--) prune_shared(&p, plan->shared[s]);
    shrink_references(&p);
    return p.n_references ? plan_visit_trees(plan, settle_tree, plan) : WEFT_OK;
}
