// correlation_pull.c - the plain case: conditions that name outer columns become conditions of the join.
//
//     join semi                                join semi on u.b = t.b and u.x <> t.x
//       scan t                                   scan t
//       project u.a                   ->         project u.a, u.b, u.x
//         filter u.b = t.b and u.x <> t.x          filter u.c = 1
//         filter u.c = 1                             scan u
//           scan u
//
// That is all there is to most correlated subqueries, and it needs no domain.  A condition passes filters, projects,
// sorts, inner joins, and the left sides of other joins; nothing passes an aggregate, a limit or a set.

#include "plan/correlation.h"

typedef struct ConditionPull {
    OuterColumns     *outer;
    bool       drops_columns;          // the join gives no column of its right side
    Conditions lifted;
} ConditionPull;

// IS_TOP: nothing but projects and sorts is above.
static bool can_pull(const ConditionPull *p, const Node *node, bool is_top);

static bool can_pull_join(const ConditionPull *p, const Node *join)
{
    const OuterColumns *outer = p->outer;
    if (join->join == JOIN_INNER) return can_pull(p, join->inputs[0], false) && can_pull(p, join->inputs[1], false);
    if (join->join == JOIN_FULL || join->join == JOIN_RIGHT || join->join == JOIN_SINGLE) return false;
    return can_pull(p, join->inputs[0], false) && !tree_refers_to(outer, join->inputs[1]) &&
           !exprs_refer_to(outer, join->conditions, join->n_conditions);
}

static bool can_pull(const ConditionPull *p, const Node *node, bool is_top)
{
    if (!tree_refers_to(p->outer, node)) return true;
    switch (node->kind) {
        case NODE_FILTER:  return can_pull(p, node->inputs[0], false);
        case NODE_SORT:    return !node->n_distinct_on && can_pull(p, node->inputs[0], is_top);
        case NODE_PROJECT:
            if (node->copies >= 0) return false;
            if (exprs_refer_to(p->outer, node->exprs, node->n_out) && !(is_top && p->drops_columns)) return false;
            return can_pull(p, node->inputs[0], is_top);
        case NODE_JOIN:    return can_pull_join(p, node);
        default:           return false;
    }
}

// ---- pulling --------------------------------------------------------------------------------------------------------

// Those of the node's conditions that name outer columns go into the list.
static void lift(ConditionPull *p, Node *node)
{
    Conditions own = { 0 };
    conditions_add_all(p->outer->plan, &own, node->conditions, node->n_conditions);
    node->conditions = own.items, node->n_conditions = 0;
    for (int c = 0; c < own.n; c++) {
        if (expr_uses_any(own.items[c], &p->outer->set)) conditions_add(p->outer->plan, &p->lifted, own.items[c]);
        else own.items[node->n_conditions++] = own.items[c];
    }
}

// The project gives what the lifted conditions need of its input.
static void show_needed(ConditionPull *p, Node *project)
{
    Plan     *plan = p->outer->plan;
    ColumnSet needed = { 0 };
    int       n = project->n_out;
    for (int c = 0; c < p->lifted.n; c++) columns_add_expr(plan->arena, &needed, p->lifted.items[c]);
    const int n_most = n + columns_count(&needed);
    Expr    **exprs = arena_array(plan->arena, Expr *, n_most + 1);
    int      *out = arena_array(plan->arena, int, n_most + 1);
    for (int c = 0; c < n; c++) exprs[c] = project->exprs[c], out[c] = project->out[c];
    for (int column = columns_next(&needed, -1); column >= 0; column = columns_next(&needed, column)) {
        if (node_gives(project, column) || !node_gives(project->inputs[0], column)) continue;
        exprs[n] = plan_column_expr(plan, column, -1);
        out[n++] = column;
    }
    project->exprs = exprs, project->out = out, project->n_out = n;
}

// Where the join's conditions alone look at the project's columns, what they are is put into the conditions.
static weft_status dissolve(ConditionPull *p, Node **slot)
{
    Node *project = *slot;
    const Substitution substitution = substitution_of(p->outer->plan, project);
    for (int c = 0; c < p->lifted.n; c++)
        TRY(expr_substitute(p->outer->plan, p->lifted.items[c], &substitution, &p->lifted.items[c], p->outer->err));
    *slot = project->inputs[0];
    return WEFT_OK;
}

static weft_status pull(ConditionPull *p, Node **slot, bool is_top)
{
    Node *node = *slot;
    Plan *plan = p->outer->plan;
    if (!tree_refers_to(p->outer, node)) return WEFT_OK;
    if (node->kind == NODE_SORT || (node->kind == NODE_PROJECT && is_top && p->drops_columns)) {
        if (node->kind == NODE_PROJECT) TRY(dissolve(p, slot));
        else *slot = node->inputs[0];
        return pull(p, slot, is_top);
    }
    if (node->kind == NODE_FILTER || node->kind == NODE_JOIN) lift(p, node);
    for (int i = 0; i < node->n_inputs; i++) TRY(pull(p, &node->inputs[i], is_top && node->kind == NODE_PROJECT));
    if (node->kind == NODE_PROJECT) show_needed(p, node);
    node_settle_out(plan, node);
    if (node->kind == NODE_FILTER && !node->n_conditions) *slot = node->inputs[0];
    return WEFT_OK;
}

// ---- the whole right side -------------------------------------------------------------------------------------------

static bool has_outer_outputs(const OuterColumns *outer, const Node *right)
{
    return right->kind == NODE_PROJECT && right->copies < 0 && exprs_refer_to(outer, right->exprs, right->n_out);
}

// The outputs of a lateral inner join may name outer columns: they are computed above the join, and what the join's
// conditions say of them is said above that.
static void raise_outputs(const OuterColumns *outer, Node **slot)
{
    Plan     *plan = outer->plan;
    Node     *join = outer->join, *left = join->inputs[0], *right = join->inputs[1];
    const int n = left->n_out + right->n_out;
    Expr    **exprs = arena_array(plan->arena, Expr *, n + 1);
    for (int c = 0; c < n; c++)
        exprs[c] = c < left->n_out ? plan_column_expr(plan, left->out[c], -1) : right->exprs[c - left->n_out];
    Node *project = plan_project(plan, join, exprs, join->out, n);
    *slot = plan_filter(plan, project, join->conditions, join->n_conditions);
    join->conditions = NULL, join->n_conditions = 0;
    join->inputs[1] = right->inputs[0];
}

weft_status pull_correlation(OuterColumns *outer, Node **slot, bool *done)
{
    Node *join = outer->join;
    ConditionPull  p = { .outer = outer, .drops_columns = !join_gives_right(join->join) };
    const bool raises = join->join == JOIN_INNER && has_outer_outputs(outer, join->inputs[1]) &&
                        can_pull(&p, join->inputs[1]->inputs[0], false);
    *done = raises || can_pull(&p, join->inputs[1], true);
    if (!*done) return WEFT_OK;
    if (raises) raise_outputs(outer, slot);
    conditions_add_all(outer->plan, &p.lifted, join->conditions, join->n_conditions);
    TRY(pull(&p, &join->inputs[1], true));
    join->conditions = p.lifted.items, join->n_conditions = p.lifted.n;
    node_settle_out(outer->plan, join);
    return WEFT_OK;
}
