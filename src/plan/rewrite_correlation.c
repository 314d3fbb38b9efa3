// rewrite_correlation.c - dependent joins become joins of sides that can be computed on their own.
//
// A front end leaves a join whose right side names columns of its left side (correlation.h).  From the root down, each
// such join is taken by the first of these ways that fits:
//
//     exists (select distinct ... order by ... limit 5)      only whether there are rows counts: such nodes go
//     conditions that name outer columns                     become the join's own               (correlation_pull.c)
//     (select f(count(*)) from u where u.b = t.b)            the total becomes groups by u.b, and a left join; f is
//                                                            computed above it, and a missing count is 0
//     anything else                                          carries the outer values along      (correlation_push.c)
//
// The joins that are left have conditions that say which of the right side's rows belong to which left row.  No row is
// taken one by one.

#include "plan/correlation.h"
#include "plan/functions.h"

static weft_status visit(Plan *plan, Node **slot, Error *err);

// ---- which columns --------------------------------------------------------------------------------------------------

// Overflow of + - * apart: statistics nearly always rule it out.
static bool can_fail(const Expr *expr)
{
    const bool is_plain = expr->op == OP_ADD || expr->op == OP_SUB || expr->op == OP_MUL || expr->op == OP_NEG;
    if (expr->kind == EXPR_CALL && !is_plain && op_has(expr->op, OP_FAILS)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (can_fail(expr->args[i])) return true;
    return false;
}

static weft_status find_failing(void *context, Expr **expr)
{
    (void)context;
    return can_fail(*expr) ? WEFT_UNSUPPORTED : WEFT_OK;                        // any error ends the walk
}

// A total, computed on or not: one row.
static const Node *below_outputs(const Node *node)
{
    while ((node->kind == NODE_PROJECT && node->copies < 0) || (node->kind == NODE_SORT && !node->n_distinct_on) ||
           (node->kind == NODE_LIMIT && node->limit != 0 && node->offset == 0))
        node = node->inputs[0];
    return node;
}

static bool is_total(const Node *node) { return node->kind == NODE_AGGREGATE && !node->n_keys; }

static bool tree_can_fail(const Node *node)
{
    if (node->kind == NODE_JOIN && node->join == JOIN_SINGLE && !is_total(below_outputs(node->inputs[1]))) return true;
    for (int i = 0; i < node->n_inputs; i++)
        if (tree_can_fail(node->inputs[i])) return true;
    return node_visit_exprs((Node *)(uintptr_t)node, find_failing, NULL) != WEFT_OK;
}

static void find_outer(Plan *plan, Node *join, OuterColumns *outer, Error *err)
{
    const Node *left = join->inputs[0];
    ColumnSet   free_columns = { 0 };
    *outer = (OuterColumns){ .plan = plan, .err = err, .join = join };
    plan_free_columns(plan->arena, join->inputs[1], &free_columns);
    outer->columns = arena_array(plan->arena, int, columns_count(&free_columns) + 1);
    for (int column = columns_next(&free_columns, -1); column >= 0; column = columns_next(&free_columns, column)) {
        if (!node_gives(left, column)) continue;
        columns_add(plan->arena, &outer->set, column);
        outer->columns[outer->n++] = column;
    }
}

static void find_nullable(OuterColumns *outer)
{
    outer->is_nullable = arena_array(outer->plan->arena, bool, outer->n + 1);
    plan_prove(outer->plan, outer->join->inputs[0]);
    for (int i = 0; i < outer->n; i++)
        outer->is_nullable[i] = outer->plan->columns[outer->columns[i]].range.nullable;
}

// ---- only whether there are rows ------------------------------------------------------------------------------------

static bool is_distinct(const Node *node) { return node->kind == NODE_AGGREGATE && node->n_keys && !node->n_aggs; }

// EXISTS: what neither adds the first row nor drops the last one goes.
static void strip_rows(Plan *plan, Node **right)
{
    for (;;) {
        const Node *node = *right;
        const bool  has_rows = node->kind == NODE_LIMIT && node->limit != 0 && node->offset == 0;
        const bool  is_group = node->kind == NODE_AGGREGATE && node->n_keys;
        if (is_total(node)) {
            *right = plan_values(plan, 1, 0, NULL, NULL);
            return;
        }
        const bool  is_plain = node->kind == NODE_SORT || (node->kind == NODE_PROJECT && node->copies < 0);
        if (!is_plain && !has_rows && !is_group) return;
        *right = node->inputs[0];
    }
}

// IN: a row more of the same changes nothing.
static void strip_repeats(Plan *plan, Node **right)
{
    for (;;) {
        Node *node = *right;
        if (node->kind == NODE_SORT && !node->n_distinct_on) *right = node->inputs[0];
        else if (is_distinct(node)) *right = plan_project(plan, node->inputs[0], node->keys, node->out, node->n_keys);
        else return;
    }
}

static void strip(Plan *plan, Node *join)
{
    if (join_gives_right(join->join)) return;
    if (join->n_conditions) strip_repeats(plan, &join->inputs[1]);
    else strip_rows(plan, &join->inputs[1]);
}

// ---- totals ---------------------------------------------------------------------------------------------------------

// NODE's left columns, and the project's as the project computes them from NODE's.
static Node *project_above(const OuterColumns *outer, Node *node, const Node *left, Expr **exprs, const int *out,
                           int n_out)
{
    Plan     *plan = outer->plan;
    const int n = left->n_out + n_out;
    Expr    **all = arena_array(plan->arena, Expr *, n + 1);
    int      *columns = arena_array(plan->arena, int, n + 1);
    for (int c = 0; c < n; c++) {
        const int own = c - left->n_out;
        columns[c] = own < 0 ? left->out[c] : out[own];
        all[c] = own < 0 ? plan_column_expr(plan, columns[c], -1) : exprs[own];
    }
    return plan_project(plan, node, all, columns, n);
}

// Puts what is computed from the total above the join, innermost first.
static void raise_outputs(const OuterColumns *outer, const Node *node, const Node *left, Node **above)
{
    if (node->kind == NODE_AGGREGATE) return;
    raise_outputs(outer, node->inputs[0], left, above);
    if (node->kind == NODE_PROJECT) *above = project_above(outer, *above, left, node->exprs, node->out, node->n_out);
}

static weft_status join_groups(OuterColumns *outer, Node *total)
{
    Node      *join = outer->join;
    Plan      *plan = outer->plan;
    StandIn   *stand_ins = arena_array(plan->arena, StandIn, outer->n + 1);
    Conditions equal = { 0 };
    join->inputs[1] = total;
    join->join = JOIN_INNER;                                   // of one row
    if (tree_refers_to(outer, total)) {
        join->join = JOIN_LEFT;
        TRY(push_domain_below_total(outer, total, stand_ins));
        for (int i = 0; i < outer->n; i++)
            TRY(add_equality(outer, &equal, plan_column_expr(plan, outer->columns[i], -1), outer->is_nullable[i],
                             stand_ins[i]));
    }
    join->conditions = equal.items, join->n_conditions = equal.n;
    return WEFT_OK;
}

static weft_status join_total(OuterColumns *outer, Node **slot)
{
    Plan  *plan = outer->plan;
    Node  *join = outer->join, *outputs = join->inputs[1];
    Node  *total = (Node *)(uintptr_t)below_outputs(outputs), *above = join;
    const int n_out = total->n_out, *out = total->out;         // the counts get other ids
    Conditions waiting = { 0 };
    conditions_add_all(plan, &waiting, join->conditions, join->n_conditions);
    TRY(join_groups(outer, total));
    Expr **exprs = arena_array(plan->arena, Expr *, total->n_out + 1);
    int   *names = arena_array(plan->arena, int, n_out + 1);
    const int n_keys = total->n_keys;
    for (int c = 0; c < n_out; c++) names[c] = out[c];
    if (join->join == JOIN_LEFT) TRY(rename_counts(outer, total, exprs));
    node_settle_out(plan, join);
    if (join->join == JOIN_LEFT) above = project_above(outer, join, join->inputs[0], exprs + n_keys, names, n_out);
    raise_outputs(outer, outputs, join->inputs[0], &above);
    *slot = plan_filter(plan, above, waiting.items, waiting.n);
    return WEFT_OK;
}

// An inner join's conditions can wait above it; a left join's cannot.
static bool joins_total(const Node *join)
{
    const bool is_fitting = join->join == JOIN_INNER ||
                            ((join->join == JOIN_LEFT || join->join == JOIN_SINGLE) && !join->n_conditions);
    return is_fitting && is_total(below_outputs(join->inputs[1]));
}

// ---- a dependent join -----------------------------------------------------------------------------------------------

static weft_status join_domain(OuterColumns *outer)
{
    Plan      *plan = outer->plan;
    Node      *join = outer->join;
    StandIn   *stand_ins = arena_array(plan->arena, StandIn, outer->n + 1);
    Conditions all = { 0 };
    TRY(push_domain(outer, &join->inputs[1], stand_ins));
    conditions_add_all(plan, &all, join->conditions, join->n_conditions);
    for (int i = 0; i < outer->n; i++)
        TRY(add_equality(outer, &all, plan_column_expr(plan, outer->columns[i], -1), outer->is_nullable[i],
                         stand_ins[i]));
    join->conditions = all.items, join->n_conditions = all.n;
    node_settle_out(plan, join);
    return WEFT_OK;
}

static weft_status remove_dependence(Plan *plan, Node **slot, Error *err)
{
    Node      *join = *slot;
    const int  n_out = join->n_out, *out = join->out;
    OuterColumns      outer;
    bool       done = false;
    strip(plan, join);
    find_outer(plan, join, &outer, err);
    if (outer.n) TRY(pull_correlation(&outer, slot, &done));
    if (outer.n && !done) {
        find_nullable(&outer);
        outer.needs_domain = tree_can_fail(join->inputs[1]);
        if (joins_total(join)) TRY(join_total(&outer, slot));
        else TRY(join_domain(&outer));
    }
    if (!outer.n) node_settle_out(plan, join);
    *slot = node_in_order(plan, *slot, out, n_out);
    return WEFT_OK;
}

static bool is_dependent(Plan *plan, const Node *join)
{
    ColumnSet free_columns = { 0 }, left = { 0 };
    plan_free_columns(plan->arena, join->inputs[1], &free_columns);
    node_columns(plan->arena, join->inputs[0], &left);
    return columns_meet(&free_columns, &left);
}

// The left side first: it may be needed twice.  Then the join, whose right side may hold joins that depend on it no
// less than on their own left sides.
static weft_status visit(Plan *plan, Node **slot, Error *err)
{
    Node *node = *slot;
    for (int i = 0; i < node->n_inputs - (node->kind == NODE_JOIN); i++) TRY(visit(plan, &node->inputs[i], err));
    if (node->kind != NODE_JOIN) return WEFT_OK;
    if (is_dependent(plan, node)) TRY(remove_dependence(plan, slot, err));
    return visit(plan, &node->inputs[1], err);
}

typedef struct RemoveCorrelation { Plan *plan; Error *err; } RemoveCorrelation;

static weft_status visit_tree(void *context, Node **root)
{
    const RemoveCorrelation *removing = context;
    return visit(removing->plan, root, removing->err);
}

// What is shared names no columns of a query around it: a front end copies rows that do.
static weft_status check_shared(const Plan *plan, Error *err)
{
    for (int s = 0; s < plan->n_shared; s++) {
        ColumnSet free_columns = { 0 };
        plan_free_columns(plan->arena, plan->shared[s]->root, &free_columns);
        if (columns_count(&free_columns))
            return fail(err, WEFT_UNSUPPORTED, -1, "shared rows of a correlated subquery are not supported yet");
    }
    return WEFT_OK;
}

weft_status rewrite_remove_correlation(Plan *plan, Error *err)
{
    RemoveCorrelation removing = { plan, err };
    if (!plan->is_correlated) return WEFT_OK;
    TRY(plan_visit_trees(plan, visit_tree, &removing));
    plan->is_correlated = false;
    TRY(plan_order_shared(plan));
    return check_shared(plan, err);
}
