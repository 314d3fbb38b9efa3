// rewrite_full.c - a FULL join is a LEFT join and, below it, the right rows that have no match.
//
//     a full join b on c        a left join b on c
//                               union all
//                               select NULLs, b.* from b where no row of a matches (anti)
//
// Both sides are needed twice.  A scan with filters is read twice; anything else is a subplan that is computed once.
// All of it gets fresh columns, since the union gives those of the FULL join.

#include "plan/rewrite.h"

typedef struct Full { Plan *plan; Error *err; } Full;

// Two trees that give the rows of SIDE.  MAPS[i]: SIDE's columns -> tree i's.
static weft_status twice(const Full *full, Node *side, int *maps[2], Node *trees[2])
{
    Plan   *plan = full->plan;
    Shared *shared = NULL;
    for (int i = 0; i < 2; i++) {
        maps[i] = plan_new_map(plan);
        if (tree_is_cheap(side)) {
            TRY(plan_clone(plan, side, maps[i], &trees[i], full->err));
            continue;
        }
        if (!shared) {
            Node *copy;
            TRY(plan_clone(plan, side, plan_new_map(plan), &copy, full->err));
            shared = plan_share(plan, copy, NULL);
        }
        trees[i] = plan_reference(plan, shared, NULL, -1);
        for (int c = 0; c < side->n_out; c++) maps[i][side->out[c]] = trees[i]->out[c];
    }
    return WEFT_OK;
}

static void add_names(Plan *plan, Substitution *substitution, const Node *side, const int *map)
{
    for (int c = 0; c < side->n_out; c++)
        substitution->map[side->out[c]] = plan_column_expr(plan, map[side->out[c]], -1);
}

static weft_status rename_all(const Full *full, const Substitution *names, Expr *const *from, int n, Expr ***out)
{
    *out = arena_array(full->plan->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) TRY(expr_substitute(full->plan, from[i], names, &(*out)[i], full->err));
    return WEFT_OK;
}

// A join on the conditions of FULL's, over trees with other columns.
static weft_status joined(const Full *full, const Node *join, JoinKind kind, Node *left, Node *right,
                          const int *left_map, const int *right_map, Node **out)
{
    Plan        *plan = full->plan;
    Substitution names = { .n = plan->n_columns };
    Expr       **conditions;
    names.map = arena_array(plan->arena, const Expr *, names.n + 1);
    add_names(plan, &names, join->inputs[0], left_map);
    add_names(plan, &names, join->inputs[1], right_map);
    TRY(rename_all(full, &names, join->conditions, join->n_conditions, &conditions));
    *out = plan_join(plan, kind, left, right, conditions, join->n_conditions);
    (*out)->n_keys = join->n_keys;
    TRY(rename_all(full, &names, kind == JOIN_ANTI ? join->right_keys : join->keys, join->n_keys, &(*out)->keys));
    return rename_all(full, &names, kind == JOIN_ANTI ? join->keys : join->right_keys, join->n_keys,
                      &(*out)->right_keys);
}

// Tree with the FULL join's columns in its order; those that it does not have are NULL.
static Node *padded(Plan *plan, const Node *join, Node *tree, const int *left_map, const int *right_map)
{
    Expr **exprs = arena_array(plan->arena, Expr *, join->n_out + 1);
    int   *columns = arena_array(plan->arena, int, join->n_out + 1);
    for (int c = 0; c < join->n_out; c++) {
        const int  column = join->out[c];
        const int *map = node_gives(join->inputs[0], column) ? left_map : right_map;
        columns[c] = map ? map[column] : plan_copy_column(plan, column);
        exprs[c] = map ? plan_column_expr(plan, map[column], -1)
                       : expr_null(plan->arena, plan->columns[column].type, -1);
    }
    return plan_project(plan, tree, exprs, columns, join->n_out);
}

static weft_status rewrite_join(void *context, Node **slot)
{
    const Full *full = context;
    Node       *join = *slot, *left[2], *right[2], *with_match, *without;
    int        *left_maps[2], *right_maps[2];
    if (join->kind != NODE_JOIN || join->join != JOIN_FULL) return WEFT_OK;
    TRY(twice(full, join->inputs[0], left_maps, left));
    TRY(twice(full, join->inputs[1], right_maps, right));
    TRY(joined(full, join, JOIN_LEFT, left[0], right[0], left_maps[0], right_maps[0], &with_match));
    TRY(joined(full, join, JOIN_ANTI, right[1], left[1], left_maps[1], right_maps[1], &without));
    with_match = padded(full->plan, join, with_match, left_maps[0], right_maps[0]);
    without = padded(full->plan, join, without, NULL, right_maps[1]);
    *slot = plan_set(full->plan, SET_UNION, true, with_match, without, join->out);
    return WEFT_OK;
}

weft_status rewrite_full_joins(Plan *plan, Node **root, Error *err)
{
    Full full = { plan, err };
    return tree_visit(root, rewrite_join, &full);
}
