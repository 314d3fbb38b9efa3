// rewrite_early.c - groups by a key of the left side are made before the LEFT join, of the right side alone.
//
//     count(o.key) by c.key                      project c.key, coalesce(n, 0)
//       left on c.key = o.customer     ->          left on c.key = o.customer
//         scan customer                              scan customer
//         scan orders                                count(o.key) as n by o.customer
//                                                      scan orders
//
// So the right side streams into groups, and no table with chains of all its rows is built.  It is right where a group
// is one row of the left side, by proof (unique.c), and the aggregates look at the right side alone: a group without a
// match has one row of NULLs, so count(*) is 1, and what NULL makes NULL counts 0 or is NULL, as a missing row is.
//
// It is done where the right side has several rows for most keys, and the left side asks for many of them; where it
// asks for few, rewrite_reduce.c does better.  Not done: inner joins, keys of several left rows.

#include "plan/rewrite.h"

#define EARLY_ROWS  5e4                // fewer rows are not worth it
#define EARLY_SHARE 0.5                // of the right side's rows, that its groups may be at most

typedef struct Early { Plan *plan; Error *err; } Early;

// ---- where it is right ----------------------------------------------------------------------------------------------

static bool groups_are_left_rows(const Plan *plan, const Node *node)
{
    const Node *left = node->inputs[0]->inputs[0];
    ColumnSet   keys = { 0 };
    for (int k = 0; k < node->n_keys; k++) {
        if (node->keys[k]->kind != EXPR_COLUMN || !node_gives(left, node->keys[k]->column)) return false;
        columns_add(plan->arena, &keys, node->keys[k]->column);
    }
    return node_is_unique(plan, left, &keys);
}

// Of the right side alone, and NULL in a row without a match.
static bool is_of_right_rows(const Plan *plan, const Expr *arg, const ColumnSet *right)
{
    ColumnSet strict = { 0 };
    columns_strict(plan->arena, arg, &strict);
    for (int column = columns_next(&strict, -1); column >= 0; column = columns_next(&strict, column))
        if (columns_has(right, column)) return expr_uses_only(arg, right) && !expr_can_fail(arg);
    return false;
}

static bool is_moved(const Plan *plan, const Agg *agg, const ColumnSet *left, const ColumnSet *right)
{
    switch (agg->kind) {
        case AGG_COUNT_ALL: return true;
        case AGG_ANY: return expr_uses_only(agg->arg, left);               // a value of the group's one left row
        case AGG_COUNT: case AGG_SUM: case AGG_MIN: case AGG_MAX: case AGG_AVG:
            return !agg->is_distinct && is_of_right_rows(plan, agg->arg, right);
        default: return false;
    }
}

static bool may_go_early(const Plan *plan, const Node *node)
{
    ColumnSet left = { 0 }, right = { 0 };
    if (node->kind != NODE_AGGREGATE || !node->n_keys || node->inputs[0]->kind != NODE_JOIN) return false;
    const Node *join = node->inputs[0];
    if (join->join != JOIN_LEFT || !join->n_keys || join->n_conditions || !groups_are_left_rows(plan, node))
        return false;
    node_columns(plan->arena, join->inputs[0], &left);
    node_columns(plan->arena, join->inputs[1], &right);
    for (int a = 0; a < node->n_aggs; a++)
        if (!is_moved(plan, &node->aggs[a], &left, &right)) return false;
    return true;
}

static bool is_worth_it(Plan *plan, Node *join)
{
    if (plan->is_eager) return true;
    for (int i = 0; i < 2; i++) plan_prove(plan, join->inputs[i]);
    const double rows = join->inputs[1]->rows, n_groups = estimate_groups(plan, join->right_keys, join->n_keys, rows);
    return rows >= EARLY_ROWS && n_groups <= EARLY_SHARE * rows && n_groups <= 4 * join->inputs[0]->rows;
}

// ---- the change -----------------------------------------------------------------------------------------------------

// The right side's groups; TOTALS gets the column of each of NODE's aggregates, -1 where the left side has the value.
static Node *right_groups(Plan *plan, const Node *node, const Node *join, int *totals)
{
    int *keys = arena_array(plan->arena, int, join->n_keys + 1);
    int *columns = arena_array(plan->arena, int, node->n_aggs + 1);
    Agg *aggs = arena_array(plan->arena, Agg, node->n_aggs + 1);
    int  n_aggs = 0;
    for (int k = 0; k < join->n_keys; k++) keys[k] = plan_add_column(plan, join->right_keys[k]->type, "key", NULL);
    for (int a = 0; a < node->n_aggs; a++) {
        totals[a] = -1;
        if (node->aggs[a].kind == AGG_ANY) continue;
        totals[a] = columns[n_aggs] = plan_copy_column(plan, node->out[node->n_keys + a]);
        aggs[n_aggs++] = node->aggs[a];
    }
    return plan_aggregate(plan, join->inputs[1], join->right_keys, keys, join->n_keys, aggs, columns, n_aggs);
}

// What the aggregate is, above the join: a group without a row counts one row, and no value.
static weft_status total_above(const Early *early, const Agg *agg, int total, Expr **out)
{
    const bool is_count = agg->kind == AGG_COUNT_ALL || agg->kind == AGG_COUNT;
    if (total < 0) *out = agg->arg;
    else *out = plan_column_expr(early->plan, total, -1);
    if (total < 0 || !is_count) return WEFT_OK;
    const Value none = { .type = agg->type, .i = agg->kind == AGG_COUNT_ALL };
    Expr       *args[] = { *out, expr_const(early->plan->arena, none, -1) };
    return expr_call(early->plan->arena, OP_COALESCE, args, 2, -1, out, early->err);
}

static weft_status go_early(void *context, Node **slot)
{
    const Early *early = context;
    Plan        *plan = early->plan;
    Node        *node = *slot;
    if (!may_go_early(plan, node) || !is_worth_it(plan, node->inputs[0])) return WEFT_OK;
    const Node *old = node->inputs[0];
    int        *totals = arena_array(plan->arena, int, node->n_aggs + 1);
    Node       *groups = right_groups(plan, node, old, totals);
    Node       *join = plan_join(plan, JOIN_LEFT, old->inputs[0], groups, NULL, 0);
    Expr      **exprs = arena_array(plan->arena, Expr *, node->n_out + 1);
    join->n_keys = old->n_keys, join->keys = old->keys;
    join->right_keys = arena_array(plan->arena, Expr *, old->n_keys + 1);
    for (int k = 0; k < old->n_keys; k++) join->right_keys[k] = plan_column_expr(plan, groups->out[k], -1);
    for (int k = 0; k < node->n_keys; k++) exprs[k] = node->keys[k];
    for (int a = 0; a < node->n_aggs; a++)
        TRY(total_above(early, &node->aggs[a], totals[a], &exprs[node->n_keys + a]));
    *slot = plan_project(plan, join, exprs, node->out, node->n_out);
    return WEFT_OK;
}

weft_status rewrite_group_early(Plan *plan, Node **root, Error *err)
{
    Early early = { plan, err };
    return tree_visit(root, go_early, &early);
}
