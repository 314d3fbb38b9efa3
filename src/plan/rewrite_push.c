// rewrite_push.c - conditions go as far down as they can, and equalities between the two sides of a join become its
// keys.
//
//     filter t.a = u.a and t.x > 5            join inner on t.a = u.a
//       join inner                    ->        filter t.x > 5
//         scan t                                  scan t
//         scan u                                scan u
//
// Where a condition may go:
//   - through PROJECT by substitution, through AGGREGATE if it names keys alone, through WINDOW if it names what all
//     of its orders are partitioned by, through SORT, into both sides of a set;
//   - inner: to the side whose columns it names; left, single, semi, anti and mark: to the left side;
//   - a join's own condition over the right side alone: to the right side, for all of these kinds; over the left side
//     alone: to the left side of inner and semi, while of the others it decides only whether a left row has a match;
//   - never below LIMIT or DISTINCT ON, and never into a subplan that others use, too.
// A condition without columns (a parameter) goes to both sides of an inner join: if it is false, neither is read.
// The order of conditions stays, those from below first.

#include "plan/rewrite.h"
#include "plan/window.h"

typedef struct Push { Plan *plan; Error *err; } Push;

static weft_status push(const Push *p, Node **slot, const Conditions *list);

static weft_status push_into_input(const Push *p, Node *node, const Conditions *list)
{
    return push(p, &node->inputs[0], list);
}

static void keep_above(const Push *p, Node **slot, const Conditions *list)
{
    const double rows = (*slot)->rows;
    *slot = plan_filter(p->plan, *slot, list->items, list->n);
    (*slot)->rows = rows;
}

static weft_status push_filter(const Push *p, Node **slot, const Conditions *list)
{
    Conditions all = { 0 };
    Node      *node = *slot;
    conditions_add_all(p->plan, &all, node->conditions, node->n_conditions);
    for (int c = 0; c < list->n; c++)
        if (!conditions_has(&all, list->items[c])) *LIST_PUSH(p->plan->arena, all.items, all.n) = list->items[c];
    *slot = node->inputs[0];
    return push(p, slot, &all);
}

// Those conditions of LIST that use only columns in WITHIN, rewritten, go to BELOW; the others stay in ABOVE, as do
// those that would become too large.
static void substitute_all(const Push *p, const Conditions *list, const Substitution *substitution,
                           const ColumnSet *within, Conditions *below, Conditions *above)
{
    for (int c = 0; c < list->n; c++) {
        Expr *condition = list->items[c];
        if (within && !expr_uses_only(condition, within)) {
            *LIST_PUSH(p->plan->arena, above->items, above->n) = condition;
            continue;
        }
        Expr *substituted;
        Error too_large;
        error_clear(&too_large);
        if (expr_substitute(p->plan, condition, substitution, &substituted, &too_large))
            *LIST_PUSH(p->plan->arena, above->items, above->n) = condition;
        else conditions_add(p->plan, below, substituted);
    }
}

static weft_status push_project(const Push *p, Node **slot, const Conditions *list)
{
    Conditions   below = { 0 }, above = { 0 };
    if (list->n) {
        const Substitution substitution = substitution_of(p->plan, *slot);
        substitute_all(p, list, &substitution, NULL, &below, &above);
    }
    TRY(push_into_input(p, *slot, &below));
    keep_above(p, slot, &above);
    return WEFT_OK;
}

static weft_status push_aggregate(const Push *p, Node **slot, const Conditions *list)
{
    Node      *node = *slot;
    Conditions below = { 0 }, above = { 0 };
    ColumnSet  keys = { 0 };
    if (list->n && node->n_keys) {
        const Substitution substitution = substitution_of(p->plan, node);
        for (int k = 0; k < node->n_keys; k++) columns_add(p->plan->arena, &keys, node->out[k]);
        substitute_all(p, list, &substitution, &keys, &below, &above);
    } else {
        above = *list;                                     // a total has a row, whatever is counted
    }
    TRY(push_into_input(p, node, &below));
    keep_above(p, slot, &above);
    return WEFT_OK;
}

// A condition on what all orders are partitioned by keeps or drops whole partitions.
static weft_status push_window(const Push *p, Node **slot, const Conditions *list)
{
    Conditions below = { 0 }, above = { 0 };
    ColumnSet  within = { 0 };
    window_partition_columns(p->plan->arena, *slot, &within);
    for (int c = 0; c < list->n; c++) {
        Conditions *to = expr_uses_only(list->items[c], &within) && !expr_has_no_column(list->items[c]) ? &below
                                                                                                        : &above;
        *LIST_PUSH(p->plan->arena, to->items, to->n) = list->items[c];
    }
    TRY(push_into_input(p, *slot, &below));
    keep_above(p, slot, &above);
    return WEFT_OK;
}

// One of several equal intervals stands for the others: a condition on it can be asked above only.
static weft_status push_set(const Push *p, Node **slot, const Conditions *list)
{
    Node      *node = *slot;
    ColumnSet  passed = { 0 };
    Conditions above = { 0 };
    for (int c = 0; c < node->n_out; c++)
        if (c >= node->n_by_length || !node->by_length[c]) columns_add(p->plan->arena, &passed, node->out[c]);
    for (int i = 0; i < 2; i++) {
        const Node  *input = node->inputs[i];
        Conditions   below = { 0 };
        Substitution substitution = { .n = p->plan->n_columns };
        substitution.map = arena_array(p->plan->arena, const Expr *, substitution.n + 1);
        for (int c = 0; c < node->n_out; c++)
            substitution.map[node->out[c]] = plan_column_expr(p->plan, input->out[c], -1);
        above = (Conditions){ 0 };
        substitute_all(p, list, &substitution, node->n_by_length ? &passed : NULL, &below, &above);
        TRY(push(p, &node->inputs[i], &below));
    }
    keep_above(p, slot, &above);
    return WEFT_OK;
}

// ---- joins ----------------------------------------------------------------------------------------------------------

typedef struct Sides {
    ColumnSet  left, right;
    Conditions to_left, to_right, above;
    Conditions residual;               // what stays in the join beside its keys
    Conditions keys, right_keys;
} Sides;

static void add_to(const Push *p, Conditions *list, Expr *condition)
{
    *LIST_PUSH(p->plan->arena, list->items, list->n) = condition;
}

// left = right, either way round: a pair of keys.
static bool take_as_key(const Push *p, Sides *sides, const Expr *condition)
{
    if (condition->kind != EXPR_CALL || condition->op != OP_EQ) return false;
    for (int i = 0; i < 2; i++) {
        Expr *a = condition->args[i], *b = condition->args[1 - i];
        if (expr_has_no_column(a) || expr_has_no_column(b)) continue;
        if (!expr_uses_only(a, &sides->left) || !expr_uses_only(b, &sides->right)) continue;
        for (int k = 0; k < sides->keys.n; k++)
            if (expr_equal(sides->keys.items[k], a) && expr_equal(sides->right_keys.items[k], b)) return true;
        add_to(p, &sides->keys, a);
        add_to(p, &sides->right_keys, b);
        return true;
    }
    return false;
}

// A condition of the join itself.
static void place_own(const Push *p, Sides *sides, JoinKind kind, Expr *condition)
{
    const bool filters_left = kind == JOIN_INNER || kind == JOIN_SEMI;
    const bool is_left = expr_uses_only(condition, &sides->left), is_right = expr_uses_only(condition, &sides->right);
    if (is_left && filters_left) add_to(p, &sides->to_left, condition);
    if (is_right) add_to(p, &sides->to_right, condition);
    if (is_right || (is_left && filters_left)) return;
    if (!take_as_key(p, sides, condition)) add_to(p, &sides->residual, condition);
}

// A condition from above.
static void place_above(const Push *p, Sides *sides, JoinKind kind, Expr *condition)
{
    if (kind == JOIN_INNER) place_own(p, sides, kind, condition);
    else if (expr_uses_only(condition, &sides->left)) add_to(p, &sides->to_left, condition);
    else add_to(p, &sides->above, condition);
}

static void start_sides(const Push *p, const Node *node, Sides *sides)
{
    node_columns(p->plan->arena, node->inputs[0], &sides->left);
    node_columns(p->plan->arena, node->inputs[1], &sides->right);
    for (int k = 0; k < node->n_keys; k++) {
        add_to(p, &sides->keys, node->keys[k]);
        add_to(p, &sides->right_keys, node->right_keys[k]);
    }
}

static weft_status push_join(const Push *p, Node **slot, const Conditions *list)
{
    Node      *node = *slot;
    Sides      sides = { 0 };
    Conditions own = { 0 };
    if (node->join == JOIN_FULL || node->join == JOIN_RIGHT) {         // made into others before
        const Conditions none = { 0 };
        for (int i = 0; i < 2; i++) TRY(push(p, &node->inputs[i], &none));
        keep_above(p, slot, list);
        return WEFT_OK;
    }
    start_sides(p, node, &sides);
    conditions_add_all(p->plan, &own, node->conditions, node->n_conditions);
    for (int c = 0; c < own.n; c++) place_own(p, &sides, node->join, own.items[c]);
    for (int c = 0; c < list->n; c++) place_above(p, &sides, node->join, list->items[c]);
    TRY(push(p, &node->inputs[0], &sides.to_left));
    TRY(push(p, &node->inputs[1], &sides.to_right));
    node->n_keys = sides.keys.n, node->keys = sides.keys.items, node->right_keys = sides.right_keys.items;
    node->n_conditions = sides.residual.n, node->conditions = sides.residual.items;
    keep_above(p, slot, &sides.above);
    return WEFT_OK;
}

// ---- all kinds ------------------------------------------------------------------------------------------------------

static weft_status push_below_nothing(const Push *p, Node **slot, const Conditions *list)
{
    const Conditions none = { 0 };
    for (int i = 0; i < (*slot)->n_inputs; i++) TRY(push(p, &(*slot)->inputs[i], &none));
    keep_above(p, slot, list);
    return WEFT_OK;
}

static weft_status push(const Push *p, Node **slot, const Conditions *list)
{
    switch ((*slot)->kind) {
        case NODE_FILTER:    return push_filter(p, slot, list);
        case NODE_PROJECT:   return push_project(p, slot, list);
        case NODE_JOIN:      return push_join(p, slot, list);
        case NODE_AGGREGATE: return push_aggregate(p, slot, list);
        case NODE_SET:       return push_set(p, slot, list);
        case NODE_WINDOW:    return push_window(p, slot, list);
        case NODE_SORT:
            return (*slot)->n_distinct_on ? push_below_nothing(p, slot, list) : push_into_input(p, *slot, list);
        default:             return push_below_nothing(p, slot, list);
    }
}

weft_status push_conditions(Plan *plan, Node **node, const Conditions *conditions, Error *err)
{
    const Push p = { plan, err };
    return push(&p, node, conditions);
}

weft_status rewrite_push_filters(Plan *plan, Node **root, Error *err)
{
    const Conditions none = { 0 };
    return push_conditions(plan, root, &none, err);
}
