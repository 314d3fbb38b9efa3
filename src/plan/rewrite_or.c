// rewrite_or.c - what all branches of an OR have in common, and what an OR says about one table alone.
//
//     (a and b) or (a and c)                           a and (b or c)
//     x = 1 or x = 2                                   x in (1, 2)
//     (n1 = 'F' and n2 = 'G') or (n1 = 'G' and n2 = 'F')     the same, and n1 in ('F', 'G'), and n2 in ('F', 'G')
//
// The first finds join keys inside of an OR, and filters before the join; the last adds conditions that follow from
// the OR, which stays, so that tables are filtered before they are joined.  A table here is the node that makes the
// columns.

#include "plan/rewrite.h"

typedef struct Or {
    Plan *plan;
    Error *err;
    int *makers;
    int n_makers;
} Or;  // by column: the node that makes it, numbered

static weft_status factor(const Or *o, Expr *expr, Expr **out);

static bool is_op(const Expr *expr, Op op) { return expr->kind == EXPR_CALL && expr->op == op; }

static void push_item(const Or *o, Conditions *list, Expr *expr)
{
    *LIST_PUSH(o->plan->arena, list->items, list->n) = expr;
}

static bool is_same(const Expr *a, const Expr *b)
{
    if (expr_equal(a, b)) return true;
    return is_op(a, OP_EQ) && is_op(b, OP_EQ) && expr_equal(a->args[0], b->args[1]) &&
           expr_equal(a->args[1], b->args[0]);
}

static bool has_same(const Conditions *list, const Expr *expr)
{
    for (int i = 0; i < list->n; i++)
        if (is_same(list->items[i], expr)) return true;
    return false;
}

// The branches of an OR, each factored.
static weft_status add_branches(const Or *o, Expr *expr, Conditions *branches)
{
    Expr *branch;
    if (is_op(expr, OP_OR)) {
        TRY(add_branches(o, expr->args[0], branches));
        return add_branches(o, expr->args[1], branches);
    }
    TRY(factor(o, expr, &branch));
    push_item(o, branches, branch);
    return WEFT_OK;
}

// Halves of halves: a chain of a thousand would be too deep.
static weft_status combine(const Or *o, Op op, Expr *const *items, int n_items, Expr **out)
{
    Expr *a, *b;
    *out = n_items ? items[0] : NULL;
    if (n_items < 2) return WEFT_OK;
    TRY(combine(o, op, items, n_items / 2, &a));
    TRY(combine(o, op, items + n_items / 2, n_items - n_items / 2, &b));
    return expr_both(o->plan, op, a, b, out, o->err);
}

static weft_status all_of(const Or *o, Op op, const Conditions *list, Expr **out)
{
    return combine(o, op, list->items, list->n, out);
}

// ---- x = 1 or x = 2 -------------------------------------------------------------------------------------------------

// Constants, and parameters that stand for them.
static bool is_constant(const Expr *expr)
{
    return expr->kind == EXPR_CONST ? !expr->value.is_null : expr->is_given;
}

// The expression of "x = constant" or "x in (constants)"; NULL: neither.
static Expr *listed(const Expr *branch)
{
    if (is_op(branch, OP_IN)) return branch->args[0];
    if (!is_op(branch, OP_EQ)) return NULL;
    const int side = expr_is_const(branch->args[1]) || branch->args[1]->is_given ? 0 : 1;
    if (!is_constant(branch->args[1 - side]) || type_is_float(branch->args[side]->type)) return NULL;
    return branch->args[side];
}

static void add_constants(const Or *o, Expr *branch, Conditions *args)
{
    const bool is_right = expr_is_const(branch->args[1]) || branch->args[1]->is_given;
    if (is_op(branch, OP_EQ)) push_item(o, args, branch->args[is_right]);
    else for (int i = 1; i < branch->n_args; i++) push_item(o, args, branch->args[i]);
}

// X and its constants.  The parameters among them get their values later, and are sorted then.
static weft_status make_list(const Or *o, const Conditions *args, int at, Expr **out)
{
    bool has_given = false;
    for (int i = 1; i < args->n; i++) has_given |= args->items[i]->is_given;
    if (!has_given) return expr_call(o->plan->arena, OP_IN, args->items, args->n, at, out, o->err);
    return expr_make_call(o->plan->arena, OP_IN, TYPE(BOOLEAN), args->items, args->n, at, out, o->err);
}

// Branches about the same expression become one.
static weft_status merge_lists(const Or *o, const Conditions *branches, Conditions *merged)
{
    bool *is_done = arena_array(o->plan->arena, bool, branches->n + 1);
    for (int b = 0; b < branches->n; b++) {
        Conditions args = { 0 };
        Expr      *x = listed(branches->items[b]), *list = branches->items[b];
        int        n_merged = 0;
        if (is_done[b]) continue;
        if (x) push_item(o, &args, x);
        for (int e = b; x && e < branches->n; e++) {
            const Expr *other = is_done[e] ? NULL : listed(branches->items[e]);
            if (!other || !expr_equal(other, x)) continue;
            add_constants(o, branches->items[e], &args);
            is_done[e] = true;
            n_merged++;
        }
        if (n_merged > 1) TRY(make_list(o, &args, list->at, &list));
        push_item(o, merged, list);
    }
    return WEFT_OK;
}

// ---- what is common -------------------------------------------------------------------------------------------------

static weft_status factor_branches(const Or *o, const Conditions *branches, Expr **out)
{
    Conditions *parts = arena_array(o->plan->arena, Conditions, branches->n + 1), common = { 0 }, rest = { 0 },
               merged = { 0 };
    for (int b = 0; b < branches->n; b++)
        plan_split_condition(o->plan->arena, branches->items[b], &parts[b].items, &parts[b].n);
    for (int i = 0; i < parts[0].n; i++) {
        bool is_common = true;
        for (int b = 1; b < branches->n && is_common; b++) is_common = has_same(&parts[b], parts[0].items[i]);
        if (is_common && !has_same(&common, parts[0].items[i])) push_item(o, &common, parts[0].items[i]);
    }
    for (int b = 0; b < branches->n; b++) {
        Conditions own = { 0 };
        Expr      *branch;
        for (int i = 0; i < parts[b].n; i++)
            if (!has_same(&common, parts[b].items[i])) push_item(o, &own, parts[b].items[i]);
        if (!own.n) return all_of(o, OP_AND, &common, out);          // a or (a and b): a
        TRY(all_of(o, OP_AND, &own, &branch));
        push_item(o, &rest, branch);
    }
    TRY(merge_lists(o, &rest, &merged));
    TRY(all_of(o, OP_OR, &merged, out));
    push_item(o, &common, *out);
    return all_of(o, OP_AND, &common, out);
}

static weft_status factor(const Or *o, Expr *expr, Expr **out)
{
    Conditions branches = { 0 };
    *out = expr;
    if (is_op(expr, OP_AND)) {
        Expr *a, *b;
        TRY(factor(o, expr->args[0], &a));
        TRY(factor(o, expr->args[1], &b));
        return a == expr->args[0] && b == expr->args[1] ? WEFT_OK : expr_both(o->plan, OP_AND, a, b, out, o->err);
    }
    if (!is_op(expr, OP_OR)) return WEFT_OK;
    TRY(add_branches(o, expr, &branches));
    for (int b = 0; b < branches.n; b++)
        if (expr_is_const(branches.items[b])) return WEFT_OK;          // folding's business
    Expr *factored = NULL;
    TRY(factor_branches(o, &branches, &factored));
    if (factored) *out = factored;
    return WEFT_OK;
}

// ---- what follows for one table -------------------------------------------------------------------------------------

static int maker_of(const Or *o, const Expr *expr)         // of all its columns; -1: it has none, -2: several
{
    int maker = expr->kind == EXPR_COLUMN && expr->column < o->n_makers ? o->makers[expr->column] : -1;
    for (int i = 0; i < expr->n_args && maker != -2; i++) {
        const int other = maker_of(o, expr->args[i]);
        if (other != -1 && other != maker) maker = maker == -1 ? other : -2;
    }
    return maker;
}

// The part of each branch that is about MAKER; NULL: a branch has none, so that nothing follows.
static weft_status implied_for(const Or *o, const Conditions *branches, int maker, Expr **out)
{
    Conditions parts = { 0 };
    *out = NULL;
    for (int b = 0; b < branches->n; b++) {
        Conditions all = { 0 }, own = { 0 };
        Expr      *part;
        plan_split_condition(o->plan->arena, branches->items[b], &all.items, &all.n);
        for (int i = 0; i < all.n; i++)
            if (maker_of(o, all.items[i]) == maker) push_item(o, &own, all.items[i]);
        if (!own.n) return WEFT_OK;
        TRY(all_of(o, OP_AND, &own, &part));
        push_item(o, &parts, part);
    }
    return factor_branches(o, &parts, out);
}

static weft_status add_implied(const Or *o, Expr *condition, Conditions *list)
{
    Conditions branches = { 0 }, first = { 0 };
    if (!is_op(condition, OP_OR) || maker_of(o, condition) != -2) return WEFT_OK;
    TRY(add_branches(o, condition, &branches));
    plan_split_condition(o->plan->arena, branches.items[0], &first.items, &first.n);
    for (int i = 0; i < first.n; i++) {
        Expr     *implied;
        const int maker = maker_of(o, first.items[i]);
        bool      is_done = maker < 0;
        for (int e = 0; e < i; e++) is_done |= maker_of(o, first.items[e]) == maker;
        if (is_done) continue;
        TRY(implied_for(o, &branches, maker, &implied));
        if (implied && !conditions_has(list, implied)) conditions_add(o->plan, list, implied);
    }
    return WEFT_OK;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

static bool has_or(const Expr *expr)
{
    return is_op(expr, OP_OR) || (is_op(expr, OP_AND) && (has_or(expr->args[0]) || has_or(expr->args[1])));
}

static weft_status factor_node(void *context, Node **slot)
{
    const Or  *o = context;
    Node      *node = *slot;
    Conditions list = { 0 };
    bool       has_any = false;
    for (int c = 0; c < node->n_conditions; c++) has_any |= has_or(node->conditions[c]);
    if (!has_any) return WEFT_OK;
    for (int c = 0; c < node->n_conditions; c++) {
        Expr *factored;
        TRY(factor(o, node->conditions[c], &factored));
        conditions_add(o->plan, &list, factored);
    }
    for (int c = 0, n = list.n; c < n; c++) TRY(add_implied(o, list.items[c], &list));
    node->conditions = list.items, node->n_conditions = list.n;
    return WEFT_OK;
}

static weft_status note_makers(void *context, Node **slot)
{
    Or *o = context;
    for (int c = 0; c < (*slot)->n_out; c++)
        if (o->makers[(*slot)->out[c]] < 0) o->makers[(*slot)->out[c]] = o->n_makers;  // the lowest node comes first
    o->n_makers++;
    return WEFT_OK;
}

weft_status rewrite_factor_or(Plan *plan, Node **root, Error *err)
{
    Or o = { .plan = plan, .err = err, .makers = plan_new_map(plan) };
    TRY(tree_visit(root, note_makers, &o));
    o.n_makers = plan->n_columns;
    return tree_visit(root, factor_node, &o);
}
