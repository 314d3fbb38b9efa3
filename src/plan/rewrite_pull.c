// rewrite_pull.c - a PROJECT that computes goes above the inner joins that it stands between.
//
//     join on x = c.k                                  project b.y * 2 as z, ...
//       project a.x, b.y * 2 as z          ->            join on a.x = c.k
//         join a, b                                        join a, b
//       scan c                                             scan c
//
// So all the joins can be ordered together, and what is computed is computed for the rows that are left.  Conditions
// name what the project computes it from.  A project goes up only if there is an inner join below it; through a left
// join only from the left side, since on the right side the columns of rows without a match are NULL, and an
// expression need not be.

#include "plan/rewrite.h"

typedef struct Pull { Plan *plan; Error *err; } Pull;

static bool has_inner_join(const Node *node)
{
    if (node->kind == NODE_FILTER) return has_inner_join(node->inputs[0]);
    return node->kind == NODE_JOIN && (node->join == JOIN_INNER || has_inner_join(node->inputs[0]));
}

static bool can_go_up(const Node *join, int side)
{
    const Node *project = join->inputs[side];
    const bool  may_pass = join->join == JOIN_INNER || (join->join == JOIN_LEFT && side == 0);
    return may_pass && project->kind == NODE_PROJECT && project->copies < 0 &&
           has_inner_join(project->inputs[0]) && exprs_fit(join, project);
}

typedef struct Put { const Pull *pull; Substitution substitution; } Put;

static weft_status put_expr(void *context, Expr **expr)
{
    const Put *put = context;
    return expr_substitute(put->pull->plan, *expr, &put->substitution, expr, put->pull->err);
}

// The join without the project on one side, below a project that gives what the join gave.
static weft_status pull_up(const Pull *pull, Node **slot, int side)
{
    Plan *plan = pull->plan;
    Node *join = *slot;
    Put   put = { pull, substitution_of(plan, join->inputs[side]) };
    TRY(node_visit_exprs(join, put_expr, &put));
    Expr **exprs = arena_array(plan->arena, Expr *, join->n_out + 1);
    for (int c = 0; c < join->n_out; c++) {
        const Expr *expr = put.substitution.map[join->out[c]];
        exprs[c] = expr ? (Expr *)(uintptr_t)expr : plan_column_expr(plan, join->out[c], -1);
    }
    Node *project = plan_project(plan, join, exprs, join->out, join->n_out);
    project->rows = join->rows;
    join->inputs[side] = join->inputs[side]->inputs[0];
    node_settle_out(plan, join);
    *slot = project;
    return WEFT_OK;
}

static weft_status pull_node(void *context, Node **slot)
{
    const Pull *pull = context;
    Node       *join = *slot;
    for (int side = 0; join->kind == NODE_JOIN && side < 2; side++) {
        if (!can_go_up(join, side)) continue;
        TRY(pull_up(pull, slot, side));
        slot = &(*slot)->inputs[0];                         // the join: its other side may have one, too
    }
    return WEFT_OK;
}

weft_status rewrite_pull_projects(Plan *plan, Node **root, Error *err)
{
    Pull pull = { plan, err };
    return tree_visit(root, pull_node, &pull);
}
