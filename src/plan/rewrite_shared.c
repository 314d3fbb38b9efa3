// rewrite_shared.c - subplans that are not worth computing on their own are put in the place of their references.
//
// A subplan with one reference moves there, so that filters reach it and its joins are ordered with the others.  A
// subplan that is a scan with filters and projects is copied into the place of each reference: to scan again costs
// less than to keep its rows.  A reference has columns of its own, so what is put in its place is a PROJECT that
// renames; names that say nothing are then dropped all over the plan.

#include "plan/rewrite.h"

typedef struct Sharing { Plan *plan; Error *err; } Sharing;

static weft_status count_reference(void *context, Node **node)
{
    if ((*node)->kind == NODE_SHARED) (*node)->shared->n_uses++;
    return WEFT_OK;
}

// References from what is reachable.  A subplan comes after those that it uses, so users are counted before what they
// use.
static weft_status count_uses(Plan *plan)
{
    for (int s = 0; s < plan->n_shared; s++) plan->shared[s]->n_uses = 0;
    TRY(tree_visit(&plan->root, count_reference, NULL));
    for (int p = 0; p < plan->n_params; p++)
        if (plan->params[p].subplan) TRY(tree_visit(&plan->params[p].subplan, count_reference, NULL));
    for (int s = plan->n_shared - 1; s >= 0; s--)
        if (plan->shared[s]->n_uses) TRY(tree_visit(&plan->shared[s]->root, count_reference, NULL));
    return WEFT_OK;
}

static bool is_inlined(const Shared *shared)
{
    if (shared->root->kind == NODE_REPEAT) return false;   // its rows are stored anyway
    return shared->n_uses == 1 || (!shared->is_kept && tree_is_cheap(shared->root));
}

// For people: the copy is called what the reference was called.
static weft_status rename_scan(void *context, Node **slot)
{
    const Node *reference = ((void **)context)[0];
    const Plan *plan = ((void **)context)[1];
    if ((*slot)->kind != NODE_SCAN || !reference->alias) return WEFT_OK;
    (*slot)->alias = reference->alias;
    for (int c = 0; c < (*slot)->n_out; c++) plan->columns[(*slot)->out[c]].qualifier = reference->alias;
    return WEFT_OK;
}

static weft_status copy_for(const Sharing *sharing, Node *reference, Node **tree)
{
    Plan *plan = sharing->plan;
    TRY(plan_clone(plan, *tree, plan_new_map(plan), tree, sharing->err));
    return tree_visit(tree, rename_scan, (void *[]){ reference, plan });
}

// Nothing is taken out of a tree that is copied for others too: those are cheap, and hold no references any more.
static weft_status inline_reference(void *context, Node **slot)
{
    Sharing *sharing = context;
    Plan    *plan = sharing->plan;
    Node    *node = *slot, *tree = node->kind == NODE_SHARED ? node->shared->root : NULL;
    if (!tree || !is_inlined(node->shared)) return WEFT_OK;
    if (node->shared->n_uses > 1) TRY(copy_for(sharing, node, &tree));
    Expr **exprs = arena_array(plan->arena, Expr *, node->n_out + 1);
    for (int c = 0; c < node->n_out; c++) exprs[c] = plan_column_expr(plan, tree->out[c], -1);
    *slot = plan_project(plan, tree, exprs, node->out, node->n_out);
    return WEFT_OK;
}

static weft_status inline_in_tree(void *context, Node **root) { return tree_visit(root, inline_reference, context); }

static void drop_unused(Plan *plan)
{
    Shared   **kept = NULL;
    int        n_kept = 0;
    for (int s = 0; s < plan->n_shared; s++) {
        Shared *shared = plan->shared[s];
        if (!shared->n_uses || is_inlined(shared)) continue;
        shared->number = n_kept;
        *LIST_PUSH(plan->arena, kept, n_kept) = shared;
    }
    plan->shared = kept, plan->n_shared = n_kept;
}

// A front end counts references as it makes them, so that a plan without any is not walked.
weft_status rewrite_inline_shared(Plan *plan, Error *err)
{
    Sharing sharing = { .plan = plan, .err = err };
    if (plan->n_shared) {
        TRY(count_uses(plan));
        TRY(plan_visit_trees(plan, inline_in_tree, &sharing));
        drop_unused(plan);
    }
    return rewrite_drop_names(plan, err);
}

// ---- the order of shared subplans -----------------------------------------------------------------------------------

typedef struct SharedOrder { Plan *plan; Shared **list; int n_list; } SharedOrder;

static weft_status order_reference(void *context, Node **node)
{
    SharedOrder *order = context;
    Shared      *shared = (*node)->kind == NODE_SHARED ? (*node)->shared : NULL;
    if (!shared) return WEFT_OK;
    const bool is_first = shared->n_uses++ == 0;
    if (!is_first) return WEFT_OK;
    TRY(tree_visit(&shared->root, order_reference, order));
    *LIST_PUSH(order->plan->arena, order->list, order->n_list) = shared;
    return WEFT_OK;
}

static weft_status order_tree(void *context, Node **root) { return tree_visit(root, order_reference, context); }

weft_status plan_order_shared(Plan *plan)
{
    SharedOrder order = { .plan = plan };
    if (!plan->n_shared) return WEFT_OK;
    for (int s = 0; s < plan->n_shared; s++) plan->shared[s]->n_uses = 0;
    for (int p = 0; p < plan->n_params; p++)
        if (plan->params[p].subplan) TRY(order_tree(&order, &plan->params[p].subplan));
    TRY(order_tree(&order, &plan->root));
    for (int s = 0; s < order.n_list; s++) order.list[s]->number = s;
    plan->shared = order.list, plan->n_shared = order.n_list;
    return WEFT_OK;
}
