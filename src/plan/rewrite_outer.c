// rewrite_outer.c - joins that keep rows which are dropped above anyway become stricter, and so freer.
//
// Down the tree goes what must hold of a row for it to survive above: columns that may not be NULL, marks that must be
// true or false.  Then
//     left   with a right column that may not be NULL: inner
//     full   the same for either side: left, right or inner
//     mark   that must be true: semi; false: anti
//     single whose right side has one row per key at most, by its groups or by statistics: left
//     right  becomes left, with its sides exchanged
// Nothing goes down through LIMIT, DISTINCT ON, sets, or into a subplan that others use, too.

#include "plan/rewrite.h"

typedef struct Demands { ColumnSet not_null, is_true, is_false; } Demands;

typedef struct Outer { Plan *plan; Error *err; } Outer;

static weft_status visit(const Outer *o, Node **slot, const Demands *demands);

static Demands copy_of(const Outer *o, const Demands *from)
{
    Demands copy = { 0 };
    columns_add_all(o->plan->arena, &copy.not_null, &from->not_null);
    columns_add_all(o->plan->arena, &copy.is_true, &from->is_true);
    columns_add_all(o->plan->arena, &copy.is_false, &from->is_false);
    return copy;
}

static void demand(const Outer *o, Demands *demands, const Expr *condition)
{
    columns_rejected(o->plan->arena, condition, &demands->not_null);
    if (condition->kind == EXPR_COLUMN) columns_add(o->plan->arena, &demands->is_true, condition->column);
    if (condition->kind != EXPR_CALL) return;
    if (condition->op == OP_NOT && condition->args[0]->kind == EXPR_COLUMN)
        columns_add(o->plan->arena, &demands->is_false, condition->args[0]->column);
    if (condition->op != OP_AND) return;
    demand(o, demands, condition->args[0]);
    demand(o, demands, condition->args[1]);
}

// What a pair must satisfy to match.
static void demand_match(const Outer *o, Demands *demands, const Node *join)
{
    for (int c = 0; c < join->n_conditions; c++) demand(o, demands, join->conditions[c]);
    for (int k = 0; k < join->n_keys; k++) {
        columns_strict(o->plan->arena, join->keys[k], &demands->not_null);
        columns_strict(o->plan->arena, join->right_keys[k], &demands->not_null);
    }
}

// ---- joins ----------------------------------------------------------------------------------------------------------

static bool meets(const Outer *o, const ColumnSet *set, const Node *side)
{
    for (int c = 0; c < side->n_out; c++)
        if (columns_has(set, side->out[c])) return true;
    return false;
}

// Right columns that a match makes equal to something of the left side.
static void add_equated(const Outer *o, const Node *join, const Expr *condition, const ColumnSet *left,
                        const ColumnSet *right, ColumnSet *equated)
{
    if (condition->kind != EXPR_CALL) return;
    for (int i = 0; i < 2 && condition->op == OP_AND; i++)
        add_equated(o, join, condition->args[i], left, right, equated);
    for (int i = 0; i < 2 && condition->op == OP_EQ; i++) {
        const Expr *own = condition->args[i];
        if (own->kind == EXPR_COLUMN && columns_has(right, own->column) && expr_uses_only(condition->args[1 - i], left))
            columns_add(o->plan->arena, equated, own->column);
    }
}

static bool matches_once(const Outer *o, const Node *join)
{
    ColumnSet left = { 0 }, right = { 0 }, equated = { 0 };
    node_columns(o->plan->arena, join->inputs[0], &left);
    node_columns(o->plan->arena, join->inputs[1], &right);
    for (int c = 0; c < join->n_conditions; c++) add_equated(o, join, join->conditions[c], &left, &right, &equated);
    for (int k = 0; k < join->n_keys; k++)
        if (join->right_keys[k]->kind == EXPR_COLUMN)
            columns_add(o->plan->arena, &equated, join->right_keys[k]->column);
    return node_is_unique(o->plan, join->inputs[1], &equated);
}

static JoinKind stricter(const Outer *o, const Node *join, const Demands *demands)
{
    JoinKind kind = join->join;
    if (kind == JOIN_SINGLE && matches_once(o, join)) kind = JOIN_LEFT;
    const bool needs_left = meets(o, &demands->not_null, join->inputs[0]),
               needs_right = meets(o, &demands->not_null, join->inputs[1]);
    if (kind == JOIN_FULL)
        kind = needs_left && needs_right ? JOIN_INNER : needs_left ? JOIN_LEFT : needs_right ? JOIN_RIGHT : JOIN_FULL;
    else if (kind == JOIN_LEFT && needs_right) kind = JOIN_INNER;
    else if (kind == JOIN_RIGHT && needs_left) kind = JOIN_INNER;
    return kind;
}

static void exchange_sides(Node *join)
{
    Node  *left = join->inputs[0];
    Expr **keys = join->keys;
    join->inputs[0] = join->inputs[1], join->inputs[1] = left;
    join->keys = join->right_keys, join->right_keys = keys;
    join->join = JOIN_LEFT;
}

// The mark is known of every row that survives; who still reads it reads a constant.
static void decide_mark(const Outer *o, Node **slot, bool is_semi)
{
    Node   *join = *slot;
    Plan   *plan = o->plan;
    Expr  **exprs = arena_array(plan->arena, Expr *, join->n_out + 1);
    for (int c = 0; c < join->n_out; c++)
        exprs[c] = join->out[c] == join->mark ? expr_boolean(plan->arena, is_semi, -1)
                                              : plan_column_expr(plan, join->out[c], -1);
    Node *project = plan_project(plan, join, exprs, join->out, join->n_out);
    join->join = is_semi ? JOIN_SEMI : JOIN_ANTI;
    join->mark = -1;
    node_settle_out(plan, join);
    *slot = project;
}

static weft_status visit_sides(const Outer *o, Node *join, const Demands *demands)
{
    const JoinKind kind = join->join;
    Demands        left = copy_of(o, demands), right = { 0 };
    if (kind == JOIN_INNER) right = copy_of(o, demands);
    if (kind == JOIN_FULL) left = (Demands){ 0 };
    if (kind == JOIN_INNER || kind == JOIN_SEMI) demand_match(o, &left, join);
    if (kind != JOIN_FULL) demand_match(o, &right, join);             // a right row without a match is not seen
    TRY(visit(o, &join->inputs[0], &left));
    return visit(o, &join->inputs[1], &right);
}

static weft_status visit_join(const Outer *o, Node **slot, const Demands *demands)
{
    Node      *join = *slot;
    const int  n_out = join->n_out;
    const int *out = join->out;
    join->join = stricter(o, join, demands);
    if (join->join == JOIN_RIGHT) exchange_sides(join);
    TRY(visit_sides(o, join, demands));
    node_settle_out(o->plan, join);
    if (join->join == JOIN_MARK && columns_has(&demands->is_true, join->mark)) decide_mark(o, slot, true);
    else if (join->join == JOIN_MARK && columns_has(&demands->is_false, join->mark)) decide_mark(o, slot, false);
    *slot = node_in_order(o->plan, *slot, out, n_out);
    return WEFT_OK;
}

// ---- others ---------------------------------------------------------------------------------------------------------

// What is demanded of what the node computes, as a demand on its input.
static weft_status visit_computed(const Outer *o, Node *node, Expr *const *exprs, int n_exprs, const Demands *demands)
{
    Demands below = { 0 };
    for (int c = 0; c < n_exprs; c++) {
        if (columns_has(&demands->not_null, node->out[c])) columns_strict(o->plan->arena, exprs[c], &below.not_null);
        if (columns_has(&demands->is_true, node->out[c])) demand(o, &below, exprs[c]);
        if (columns_has(&demands->is_false, node->out[c]) && exprs[c]->kind == EXPR_COLUMN)
            columns_add(o->plan->arena, &below.is_false, exprs[c]->column);
    }
    return visit(o, &node->inputs[0], &below);
}

static weft_status visit(const Outer *o, Node **slot, const Demands *demands)
{
    Node   *node = *slot;
    Demands below = { 0 };
    switch (node->kind) {
        case NODE_JOIN:      return visit_join(o, slot, demands);
        case NODE_PROJECT:   return visit_computed(o, node, node->exprs, node->n_out, demands);
        case NODE_AGGREGATE: return visit_computed(o, node, node->keys, node->n_keys, demands);
        case NODE_FILTER:
            below = copy_of(o, demands);
            for (int c = 0; c < node->n_conditions; c++) demand(o, &below, node->conditions[c]);
            break;
        case NODE_SORT:
            if (!node->n_distinct_on) below = *demands;
            break;
        default: break;
    }
    for (int i = 0; i < node->n_inputs; i++) TRY(visit(o, &node->inputs[i], &below));
    return WEFT_OK;
}

weft_status rewrite_outer_to_inner(Plan *plan, Node **root, Error *err)
{
    const Outer   o = { plan, err };
    const Demands none = { 0 };
    return visit(&o, root, &none);
}
