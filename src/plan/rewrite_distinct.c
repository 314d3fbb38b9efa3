// rewrite_distinct.c - aggregates of distinct values become two levels of groups.
//
//     count(distinct x) by k          count(x) by k  over  groups by k, x
//
// Where there are several such arguments, or plain aggregates beside them, each kind gets groups of its own over the
// same input, and the results come together by their keys:
//
//     sum(y), count(distinct x) by k        max(sum), max(count) by k  over
//                                               sum(y), NULL by k  union all  NULL, count(x) by k, over groups by k, x
//
// Each kind has a row for every group, so max finds one value and no other.  avg stays avg: it is computed at once
// from the distinct values, never from averages.  min and max do not care how often a value occurs.

#include "plan/rewrite.h"

typedef struct DistinctRewrite { Plan *plan; Error *err; } DistinctRewrite;

// Aggregates that can share groups: the plain ones, or those of one distinct argument.
typedef struct Kind { const Expr *distinct; int n_aggs; int *aggs; } Kind;

static int fresh_column(Plan *plan, Type type, int like)
{
    return plan_add_column(plan, type, plan->columns[like].name, NULL);
}

static void add_to_kind(const DistinctRewrite *d, Kind **kinds, int *n_kinds, const Agg *agg, int number)
{
    const Expr *distinct = agg->is_distinct ? agg->arg : NULL;
    int         k = 0;
    while (k < *n_kinds && !((*kinds)[k].distinct ? distinct && expr_equal((*kinds)[k].distinct, distinct) : !distinct))
        k++;
    if (k == *n_kinds) *LIST_PUSH(d->plan->arena, *kinds, *n_kinds) = (Kind){ .distinct = distinct };
    Kind *kind = &(*kinds)[k];
    *LIST_PUSH(d->plan->arena, kind->aggs, kind->n_aggs) = number;
}

static weft_status substituted(const DistinctRewrite *d, const Substitution *names, const Expr *expr, Expr **out)
{
    *out = (Expr *)(uintptr_t)expr;
    return names ? expr_substitute(d->plan, expr, names, out, d->err) : WEFT_OK;
}

// Groups by NODE's keys and the distinct argument; the columns of the keys, then of the argument.
static weft_status inner_groups(const DistinctRewrite *d, const Node *node, const Kind *kind, Node *input,
                                const Substitution *names, Node **out)
{
    const int n = node->n_keys;
    Expr    **keys = arena_array(d->plan->arena, Expr *, n + 1);
    int      *columns = arena_array(d->plan->arena, int, n + 1);
    for (int k = 0; k < n; k++) {
        TRY(substituted(d, names, node->keys[k], &keys[k]));
        columns[k] = fresh_column(d->plan, keys[k]->type, node->out[k]);
    }
    TRY(substituted(d, names, kind->distinct, &keys[n]));
    columns[n] = plan_add_column(d->plan, keys[n]->type, "distinct", NULL);
    *out = plan_aggregate(d->plan, input, keys, columns, n + 1, NULL, NULL, 0);
    return WEFT_OK;
}

// NODE's aggregates of one kind over INPUT.  KEY_COLUMNS and AGG_COLUMNS are what comes out.
static weft_status kind_groups(const DistinctRewrite *d, const Node *node, const Kind *kind, Node *input,
                               const Substitution *names, const int *key_columns, const int *agg_columns, Node **out)
{
    Plan  *plan = d->plan;
    Expr **keys = arena_array(plan->arena, Expr *, node->n_keys + 1);
    Agg   *aggs = arena_array(plan->arena, Agg, kind->n_aggs + 1);
    if (kind->distinct) TRY(inner_groups(d, node, kind, input, names, &input));
    for (int k = 0; k < node->n_keys; k++) {
        if (kind->distinct) keys[k] = plan_column_expr(plan, input->out[k], -1);
        else TRY(substituted(d, names, node->keys[k], &keys[k]));
    }
    for (int a = 0; a < kind->n_aggs; a++) {
        aggs[a] = node->aggs[kind->aggs[a]];
        aggs[a].is_distinct = false;
        if (kind->distinct) aggs[a].arg = plan_column_expr(plan, input->out[node->n_keys], -1);
        else if (aggs[a].arg) TRY(substituted(d, names, aggs[a].arg, &aggs[a].arg));
    }
    *out = plan_aggregate(plan, input, keys, key_columns, node->n_keys, aggs, agg_columns, kind->n_aggs);
    return WEFT_OK;
}

// ---- several kinds --------------------------------------------------------------------------------------------------

// Another tree with the input's rows, and NAMES: the input's columns -> its own.
static weft_status another_input(const DistinctRewrite *d, const Node *input, Shared **shared, Substitution *names,
                                 Node **out)
{
    Plan *plan = d->plan;
    int  *map = plan_new_map(plan);
    *names = (Substitution){ .n = plan->n_columns };
    names->map = arena_array(plan->arena, const Expr *, names->n + 1);
    if (*shared) {
        *out = plan_reference(plan, *shared, NULL, -1);
        for (int c = 0; c < input->n_out; c++) map[input->out[c]] = (*out)->out[c];
    } else {
        TRY(plan_clone(plan, input, map, out, d->err));
    }
    for (int c = 0; c < input->n_out; c++) names->map[input->out[c]] = plan_column_expr(plan, map[input->out[c]], -1);
    return WEFT_OK;
}

// The kind's groups with a column for each of NODE's aggregates, NULL for those of other kinds.
static weft_status padded_groups(const DistinctRewrite *d, const Node *node, const Kind *kind, Node *input,
                                 const Substitution *names, Node **out)
{
    Plan  *plan = d->plan;
    int *columns = arena_array(plan->arena, int, node->n_out + 1),
        *own = arena_array(plan->arena, int, kind->n_aggs + 1);
    Expr **exprs = arena_array(plan->arena, Expr *, node->n_out + 1);
    for (int c = 0; c < node->n_out; c++)
        columns[c] = fresh_column(plan, plan->columns[node->out[c]].type, node->out[c]);
    for (int a = 0; a < kind->n_aggs; a++) own[a] = columns[node->n_keys + kind->aggs[a]];
    TRY(kind_groups(d, node, kind, input, names, columns, own, out));
    for (int c = 0; c < node->n_out; c++)
        exprs[c] = node_gives(*out, columns[c]) ? plan_column_expr(plan, columns[c], -1)
                                                : expr_null(plan->arena, plan->columns[columns[c]].type, -1);
    *out = plan_project(plan, *out, exprs, columns, node->n_out);
    return WEFT_OK;
}

// By hand: max takes a sum's type here, which no query can ask for.
static Node *collected(const DistinctRewrite *d, const Node *node, Node *all)
{
    Plan  *plan = d->plan;
    Expr **keys = arena_array(plan->arena, Expr *, node->n_keys + 1);
    Agg   *aggs = arena_array(plan->arena, Agg, node->n_aggs + 1);
    for (int k = 0; k < node->n_keys; k++) keys[k] = plan_column_expr(plan, all->out[k], -1);
    for (int a = 0; a < node->n_aggs; a++)
        aggs[a] = (Agg){ .kind = AGG_MAX,
                         .arg = plan_column_expr(plan, all->out[node->n_keys + a], -1),
                         .type = node->aggs[a].type,
                         .at = node->aggs[a].at };
    return plan_aggregate(plan, all, keys, node->out, node->n_keys, aggs, node->out + node->n_keys, node->n_aggs);
}

static weft_status rewrite_kinds(const DistinctRewrite *d, Node **slot, const Kind *kinds, int n_kinds)
{
    const Node *node = *slot, *input = node->inputs[0];
    Node       *all = NULL, *groups, *tree;
    Shared     *shared = NULL;
    if (!tree_is_cheap(input)) shared = plan_share(d->plan, node->inputs[0], NULL);
    for (int k = 0; k < n_kinds; k++) {
        Substitution names;
        TRY(another_input(d, input, &shared, &names, &tree));
        TRY(padded_groups(d, node, &kinds[k], tree, &names, &groups));
        int *columns = arena_array(d->plan->arena, int, node->n_out + 1);
        for (int c = 0; c < node->n_out; c++)
            columns[c] = fresh_column(d->plan, d->plan->columns[node->out[c]].type, node->out[c]);
        all = all ? plan_set(d->plan, SET_UNION, true, all, groups, columns) : groups;
    }
    *slot = collected(d, node, all);
    return WEFT_OK;
}

static weft_status rewrite_node(void *context, Node **slot)
{
    const DistinctRewrite *d = context;
    Node                  *node = *slot;
    Kind                  *kinds = NULL;
    int                    n_kinds = 0;
    bool                   has_distinct = false;
    for (int a = 0; node->kind == NODE_AGGREGATE && a < node->n_aggs; a++) {
        if (node->aggs[a].kind == AGG_MIN || node->aggs[a].kind == AGG_MAX) node->aggs[a].is_distinct = false;
        has_distinct |= node->aggs[a].is_distinct;
    }
    if (!has_distinct) return WEFT_OK;
    for (int a = 0; a < node->n_aggs; a++) add_to_kind(d, &kinds, &n_kinds, &node->aggs[a], a);
    if (n_kinds > 1) return rewrite_kinds(d, slot, kinds, n_kinds);
    return kind_groups(d, node, &kinds[0], node->inputs[0], NULL, node->out, node->out + node->n_keys, slot);
}

weft_status rewrite_distinct_aggs(Plan *plan, Node **root, Error *err)
{
    DistinctRewrite d = { plan, err };
    return tree_visit(root, rewrite_node, &d);
}
