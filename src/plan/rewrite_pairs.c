// rewrite_pairs.c - an outer join whose condition only the host can compute is made of the pairs that match.
//
// The host computes over stored rows, above a join, and then it is too late to tell which rows have no match at all.
// So the left rows get numbers, the pairs are made as those of an inner join, and the join itself is by number:
//
//     left if a.s || b.s = 'xy'          left on a.number = p.number
//       scan a                   ->        rows of numbered a
//       scan b                             inner if p.s || b.s = 'xy'          the host's, above the join
//                                            rows of numbered p
//                                            scan b
//                                        numbered = a's rows, each with its row_number()
//
// It does for every kind of join that is left here: semi, anti, single and mark ask no more of a pair than its number.
// A FULL join is a LEFT and an ANTI join by now (rewrite_full.c), with pairs of their own.
//
// The left rows are stored, since they are read twice and must have the same numbers both times.
// Not done: a proved key of the left side in the place of a number.

#include "plan/functions.h"
#include "plan/rewrite.h"
#include "plan/window.h"

typedef struct Pairs { Plan *plan; Error *err; } Pairs;

// The host computes what one side alone names below the join (rewrite_host.c).
static bool needs_pairs(const Plan *plan, const Node *join)
{
    ColumnSet sides[2] = { 0 };
    if (join->join == JOIN_INNER) return false;
    for (int i = 0; i < 2; i++) node_columns(plan->arena, join->inputs[i], &sides[i]);
    for (int i = 0; i < join->n_conditions; i++) {
        const Expr *condition = join->conditions[i];
        if (expr_needs_host(condition) && expr_uses_any(condition, &sides[0]) && expr_uses_any(condition, &sides[1]))
            return true;
    }
    return false;
}

// Below a copy that is shared, since SIDE's columns are named above.
static weft_status share_numbered(const Pairs *pairs, const Node *side, Shared **shared)
{
    Node *copy;
    TRY(plan_clone(pairs->plan, side, plan_new_map(pairs->plan), &copy, pairs->err));
    *shared = plan_share(pairs->plan, plan_number_rows(pairs->plan, copy), NULL);
    (*shared)->is_kept = true;
    return WEFT_OK;
}

static weft_status rename_all(const Pairs *pairs, Expr *const *from, int n, const Substitution *names, Expr ***out)
{
    *out = arena_array(pairs->plan->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) TRY(expr_substitute(pairs->plan, from[i], names, &(*out)[i], pairs->err));
    return WEFT_OK;
}

// The pairs that match: an inner join of the left rows, which are read from LEFT here.
static weft_status matching(const Pairs *pairs, const Node *join, Node *left, Node **out)
{
    Plan        *plan = pairs->plan;
    const Node  *side = join->inputs[0];
    Substitution names = { .n = plan->n_columns };
    Expr       **conditions, **keys;
    names.map = arena_array(plan->arena, const Expr *, names.n + 1);
    for (int c = 0; c < side->n_out; c++) names.map[side->out[c]] = plan_column_expr(plan, left->out[c], -1);
    TRY(rename_all(pairs, join->conditions, join->n_conditions, &names, &conditions));
    TRY(rename_all(pairs, join->keys, join->n_keys, &names, &keys));
    *out = plan_join(plan, JOIN_INNER, left, join->inputs[1], conditions, join->n_conditions);
    (*out)->n_keys = join->n_keys, (*out)->keys = keys, (*out)->right_keys = join->right_keys;
    return WEFT_OK;
}

static void join_by_number(Plan *plan, Node *join, int left, int right)
{
    join->n_conditions = 0, join->n_keys = 1;
    join->keys = arena_array(plan->arena, Expr *, 1);
    join->right_keys = arena_array(plan->arena, Expr *, 1);
    join->keys[0] = plan_column_expr(plan, left, -1);
    join->right_keys[0] = plan_column_expr(plan, right, -1);
    node_settle_out(plan, join);
}

static weft_status rewrite_join(void *context, Node **slot)
{
    const Pairs *pairs = context;
    Plan        *plan = pairs->plan;
    Node        *join = *slot, *matches;
    const int   *out = join->out, n_out = join->n_out;
    Shared      *shared;
    if (join->kind != NODE_JOIN || !needs_pairs(plan, join)) return WEFT_OK;
    const int number = join->inputs[0]->n_out;              // its place in the shared rows
    TRY(share_numbered(pairs, join->inputs[0], &shared));
    Node *left = plan_reference(plan, shared, NULL, -1), *again = plan_reference(plan, shared, NULL, -1);
    TRY(matching(pairs, join, again, &matches));
    join->inputs[0] = plan_numbered_as(plan, left, join->inputs[0]);
    join->inputs[1] = matches;
    join_by_number(plan, join, left->out[number], again->out[number]);
    *slot = node_in_order(plan, join, out, n_out);
    return WEFT_OK;
}

weft_status rewrite_pairs(Plan *plan, Node **root, Error *err)
{
    Pairs pairs = { plan, err };
    return tree_visit(root, rewrite_join, &pairs);
}
