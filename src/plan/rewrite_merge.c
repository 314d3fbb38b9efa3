// rewrite_merge.c - nodes that say the same as their neighbours go.
//
// Two filters, two projects, or an aggregate and a project below it become one; a project that only passes columns
// through goes, unless somebody looks at the order of columns; a sort goes where nobody looks at the order of rows.
// Expressions must stay small: what is computed once and used twice stays where it is computed.

#include "plan/functions.h"
#include "plan/rewrite.h"

typedef struct MergeRewrite { Plan *plan; Error *err; } MergeRewrite;

// What a node above relies on, beyond which columns and which rows there are.
typedef struct OrderDemand { bool columns_in_order, rows_in_order; } OrderDemand;

static OrderDemand demand_of_input(const Node *node, OrderDemand demand)
{
    switch (node->kind) {
        case NODE_FILTER:  return demand;
        case NODE_LIMIT:   return (OrderDemand){ demand.columns_in_order, true };
        case NODE_WINDOW:  return (OrderDemand){ demand.columns_in_order, true };   // rows: it breaks ties by it
        case NODE_SORT: case NODE_JOIN: return (OrderDemand){ demand.columns_in_order, false };
        case NODE_PROJECT: return (OrderDemand){ false, demand.rows_in_order };
        case NODE_SET: case NODE_REPEAT: return (OrderDemand){ true, false };
        default:           return (OrderDemand){ false, false };
    }
}

static bool passes_through(const Node *node)
{
    for (int c = 0; c < node->n_out; c++)
        if (node->exprs[c]->kind != EXPR_COLUMN || node->exprs[c]->column != node->out[c]) return false;
    return node->copies < 0;
}

// ---- expressions of one node put into those of the node above ------------------------------------------------------

typedef struct Uses { int *counts; int n; } Uses;

static void count_uses(const Expr *expr, const Uses *uses)
{
    if (expr->kind == EXPR_COLUMN && expr->column < uses->n) uses->counts[expr->column]++;
    for (int i = 0; i < expr->n_args; i++) count_uses(expr->args[i], uses);
}

static weft_status count_visited(void *context, Expr **expr)
{
    count_uses(*expr, context);
    return WEFT_OK;
}

static bool is_leaf(const Expr *expr) { return expr->kind != EXPR_CALL && expr->kind != EXPR_CASE; }

// Whether NODE can compute what PROJECT below it computes without computing anything twice.
static bool stays_small(const MergeRewrite *m, Node *node, const Node *project)
{
    Uses uses = { .n = m->plan->n_columns };
    uses.counts = arena_array(m->plan->arena, int, uses.n + 1);
    node_visit_exprs(node, count_visited, &uses);
    if (!exprs_fit(node, project)) return false;
    for (int c = 0; c < project->n_out; c++)
        if (uses.counts[project->out[c]] > 1 && !is_leaf(project->exprs[c])) return false;
    return true;
}

typedef struct MergeSubstitution { const MergeRewrite *m; Substitution substitution; } MergeSubstitution;

static weft_status put_expr(void *context, Expr **expr)
{
    const MergeSubstitution *put = context;
    return expr_substitute(put->m->plan, *expr, &put->substitution, expr, put->m->err);
}

// NODE computes what the project below it computed, which goes.
static weft_status absorb_project(const MergeRewrite *m, Node *node)
{
    Node             *project = node->inputs[0];
    MergeSubstitution put = { m, substitution_of(m->plan, project) };
    TRY(node_visit_exprs(node, put_expr, &put));
    for (int k = 0; k < node->n_keys && node->kind == NODE_AGGREGATE; k++)
        m->plan->columns[node->out[k]].value = node->keys[k];
    node->inputs[0] = project->inputs[0];
    return WEFT_OK;
}

// The column behind the count of copies, once PROJECT is gone; -2: it has none.
static int copies_through(const Node *node, const Node *project)
{
    if (node->copies < 0) return project->copies;
    if (project->copies >= 0) return -2;
    for (int c = 0; c < project->n_out; c++)
        if (project->out[c] == node->copies && project->exprs[c]->kind == EXPR_COLUMN) return project->exprs[c]->column;
    return -2;
}

static weft_status merge_projects(const MergeRewrite *m, Node *node)
{
    Node     *below = node->inputs[0];
    const int copies = below->kind == NODE_PROJECT ? copies_through(node, below) : -2;
    if (copies == -2 || !stays_small(m, node, below)) return WEFT_OK;
    TRY(absorb_project(m, node));
    node->copies = copies;
    return merge_projects(m, node);
}

// What kernels cannot compute has to stay above its groups, where the interpreter does it.
static bool is_interpreted(const Node *project)
{
    for (int c = 0; c < project->n_out; c++)
        if (expr_is_interpreted(project->exprs[c])) return true;
    return false;
}

static weft_status merge_into_aggregate(const MergeRewrite *m, Node *node)
{
    const Node *below = node->inputs[0];
    if (below->kind != NODE_PROJECT || below->copies >= 0 || is_interpreted(below) || !stays_small(m, node, below))
        return WEFT_OK;
    return absorb_project(m, node);
}

// ---- filters --------------------------------------------------------------------------------------------------------

static void merge_filters(const MergeRewrite *m, Node *node)
{
    const Node *below = node->inputs[0];
    Conditions  all = { 0 };
    if (below->kind != NODE_FILTER) return;
    conditions_add_all(m->plan, &all, below->conditions, below->n_conditions);
    conditions_add_all(m->plan, &all, node->conditions, node->n_conditions);
    node->conditions = all.items, node->n_conditions = all.n;
    node->inputs[0] = below->inputs[0];
}

static weft_status merge(const MergeRewrite *m, Node **slot, OrderDemand demand)
{
    Node *node = *slot;
    for (int i = 0; i < node->n_inputs; i++) TRY(merge(m, &node->inputs[i], demand_of_input(node, demand)));
    node_settle_out(m->plan, node);
    switch (node->kind) {
        case NODE_FILTER: merge_filters(m, node); break;
        case NODE_AGGREGATE: return merge_into_aggregate(m, node);
        case NODE_SORT:
            if (!node->n_distinct_on && !demand.rows_in_order) *slot = node->inputs[0];
            break;
        case NODE_PROJECT:
            TRY(merge_projects(m, node));
            if (passes_through(node) &&
                (!demand.columns_in_order || node_is_in_order(node->inputs[0], node->out, node->n_out)))
                *slot = node->inputs[0];
            break;
        default: break;
    }
    return WEFT_OK;
}

static weft_status merge_tree(void *context, Node **root)
{
    const MergeRewrite *m = context;
    return merge(m, root, (OrderDemand){ true, *root == m->plan->root });
}

weft_status rewrite_merge(Plan *plan, Error *err)
{
    MergeRewrite m = { plan, err };
    return plan_visit_trees(plan, merge_tree, &m);
}
