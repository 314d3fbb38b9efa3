// correlation_push.c - the distinct outer values go down into the right side of a dependent join.
//
// Neumann and Kemper, "Unnesting Arbitrary Queries" (2015).  The domain is the set of distinct values of the outer
// columns.  It is joined to what does not name them, as far down as need be, and every node above carries the values
// on:
//
//     filter u.b = t.b                   filter u.b = d.b                    filter u.b is not null, u.b stands for t.b
//       scan u                   ->        join inner                 or       scan u
//                                            domain d, scan u
//     aggregate max(u.x)         ->      aggregate max(u.x) by d.b
//     sort u.x, limit 2          ->      sort d.b, u.x, distinct on d.b, 2 each
//     union                      ->      union, with d.b on both sides
//
// Where the right side says that a column of its own equals the outer one, that column stands in for it and no domain
// is needed: the join above drops the values that do not occur.  Such values could raise an error that no row of the
// query raises, so a tree in which that may happen gets the domain.
//
// A left, semi, anti, mark or single join below gets its left side this way.  Its right side then names the stand-in
// there instead of the outer column, which makes it a dependent join that comes next (as in Neumann's "Improving
// Unnesting of Complex Queries", 2025).

#include "plan/correlation.h"
#include "plan/window.h"

// ---- the domain -----------------------------------------------------------------------------------------------------

// The left rows are needed twice: they are shared, and the left side reads them under the names that they had.
static weft_status share_left(OuterColumns *outer, Shared **shared)
{
    Plan *plan = outer->plan;
    Node *left = outer->join->inputs[0], *copy;
    TRY(plan_copy_tree(plan, left, &copy, outer->err));
    *shared = plan_share(plan, copy, "outer");
    Node  *reference = plan_reference(plan, *shared, "outer", -1);
    Expr **exprs = arena_array(plan->arena, Expr *, left->n_out + 1);
    for (int c = 0; c < left->n_out; c++) exprs[c] = plan_column_expr(plan, reference->out[c], -1);
    outer->join->inputs[0] = plan_project(plan, reference, exprs, left->out, left->n_out);
    return WEFT_OK;
}

static int place_of(const Node *node, int column)
{
    int c = 0;
    while (c < node->n_out && node->out[c] != column) c++;
    return c;
}

static weft_status make_domain(OuterColumns *outer)
{
    Plan   *plan = outer->plan;
    Shared *rows;
    if (outer->domain) return WEFT_OK;
    TRY(share_left(outer, &rows));
    Node  *reference = plan_reference(plan, rows, "outer", -1);
    Expr **keys = arena_array(plan->arena, Expr *, outer->n + 1);
    int   *columns = arena_array(plan->arena, int, outer->n + 1);
    for (int i = 0; i < outer->n; i++) {
        keys[i] = plan_column_expr(plan, reference->out[place_of(outer->join->inputs[0], outer->columns[i])], -1);
        columns[i] = plan_copy_column(plan, outer->columns[i]);
    }
    outer->domain = plan_share(plan, plan_aggregate(plan, reference, keys, columns, outer->n, NULL, NULL, 0), "domain");
    return WEFT_OK;
}

static weft_status use_domain(OuterColumns *outer, Node **domain, StandIn *stand_ins)
{
    TRY(make_domain(outer));
    *domain = plan_reference(outer->plan, outer->domain, "domain", -1);
    for (int i = 0; i < outer->n; i++) stand_ins[i] = (StandIn){ .column = (*domain)->out[i] };
    return WEFT_OK;
}

static bool is_one_row(const Node *node) { return node->kind == NODE_VALUES && node->n_rows == 1 && !node->n_out; }

static weft_status cross_with_domain(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Node *domain;
    TRY(use_domain(outer, &domain, stand_ins));
    *slot = is_one_row(*slot) ? domain : plan_join(outer->plan, JOIN_INNER, domain, *slot, NULL, 0);
    return WEFT_OK;
}

// ---- equality -------------------------------------------------------------------------------------------------------

static Expr *any_value(const OuterColumns *outer, Type type)
{
    Value value = { .type = type };
    if (type.kind == TYPE_TEXT) value.text.bytes = "";
    return expr_const(outer->plan->arena, value, -1);
}

static weft_status null_test(const OuterColumns *outer, Expr *expr, Expr **out)
{
    return expr_call(outer->plan->arena, OP_IS_NULL, &expr, 1, -1, out, outer->err);
}

static weft_status not_null(const OuterColumns *outer, Expr *expr, Expr **out)
{
    Expr *args[2] = { expr, any_value(outer, expr->type) };
    return expr_call(outer->plan->arena, OP_COALESCE, args, 2, -1, out, outer->err);
}

// a is not distinct from b, as two equalities, so that both can be keys of a join.
weft_status add_equality(const OuterColumns *outer, Conditions *list, Expr *a, bool is_nullable, StandIn stand_in)
{
    Plan *plan = outer->plan;
    Expr *b = plan_column_expr(plan, stand_in.column, -1), *pairs[2][2] = { { a, b } }, *equal;
    const bool needs_two = is_nullable && !stand_in.never_null;
    if (needs_two) {
        TRY(null_test(outer, a, &pairs[1][0]));
        TRY(null_test(outer, b, &pairs[1][1]));
        TRY(not_null(outer, a, &pairs[0][0]));
        TRY(not_null(outer, b, &pairs[0][1]));
    }
    for (int i = 0; i <= (int)needs_two; i++) {
        TRY(expr_equals(plan, pairs[i][0], pairs[i][1], &equal, outer->err));
        conditions_add(plan, list, equal);
    }
    return WEFT_OK;
}

static weft_status add_equalities(const OuterColumns *outer, Conditions *list, const StandIn *a, const StandIn *b)
{
    for (int i = 0; i < outer->n; i++)
        TRY(add_equality(outer, list, plan_column_expr(outer->plan, a[i].column, -1),
                         outer->is_nullable[i] && !a[i].never_null, b[i]));
    return WEFT_OK;
}

// ---- filters --------------------------------------------------------------------------------------------------------

// What the conditions say that the outer column equals, other than in its bits; NULL: nothing of the input.
static Expr *equal_of(const OuterColumns *outer, const Node *filter, int column)
{
    const Type type = outer->plan->columns[column].type;
    for (int c = 0; c < filter->n_conditions && !type_is_float(type); c++) {
        const Expr *condition = filter->conditions[c];
        if (condition->kind != EXPR_CALL || condition->op != OP_EQ) continue;
        for (int side = 0; side < 2; side++) {
            const Expr *own = condition->args[side];
            Expr       *other = condition->args[1 - side];
            if (own->kind != EXPR_COLUMN || own->column != column || !type_equal(other->type, type)) continue;
            if (!expr_has_no_column(other) && !expr_uses_any(other, &outer->set)) return other;
        }
    }
    return NULL;
}

// The input with EXPR among its columns; gives its id.
static int give_column(OuterColumns *outer, Node **input, Expr *expr)
{
    Plan *plan = outer->plan;
    if (expr->kind == EXPR_COLUMN && node_gives(*input, expr->column)) return expr->column;
    const int n = (*input)->n_out;
    Expr    **exprs = arena_array(plan->arena, Expr *, n + 2);
    int      *columns = arena_array(plan->arena, int, n + 2);
    for (int c = 0; c < n; c++) exprs[c] = plan_column_expr(plan, columns[c] = (*input)->out[c], -1);
    exprs[n] = expr;
    columns[n] = plan_add_column(plan, expr->type, "outer", NULL);
    *input = plan_project(plan, *input, exprs, columns, n + 1);
    return columns[n];
}

// Columns of the input in the place of all outer ones; *FOUND: there were such.
static weft_status take_equals(OuterColumns *outer, Node *filter, StandIn *stand_ins, bool *found)
{
    Plan      *plan = outer->plan;
    Conditions all = { 0 };
    *found = false;
    if (outer->needs_domain || tree_refers_to(outer, filter->inputs[0])) return WEFT_OK;
    for (int i = 0; i < outer->n; i++)
        if (!equal_of(outer, filter, outer->columns[i])) return WEFT_OK;
    for (int i = 0; i < outer->n; i++) {
        Expr *column, *is_there;
        stand_ins[i].column = give_column(outer, &filter->inputs[0], equal_of(outer, filter, outer->columns[i]));
        stand_ins[i].never_null = true;
        column = plan_column_expr(plan, stand_ins[i].column, -1);
        TRY(expr_call(plan->arena, OP_IS_NOT_NULL, &column, 1, -1, &is_there, outer->err));
        conditions_add(plan, &all, is_there);
    }
    conditions_add_all(plan, &all, filter->conditions, filter->n_conditions);
    filter->conditions = all.items, filter->n_conditions = all.n;
    *found = true;
    return WEFT_OK;
}

// x = x is left of what made x stand in; x is not NULL, by a condition of its own.
static void drop_certain(Node *filter)
{
    int n_kept = 0;
    for (int c = 0; c < filter->n_conditions; c++) {
        const Expr *condition = filter->conditions[c];
        const bool  is_equality = condition->kind == EXPR_CALL && condition->op == OP_EQ;
        const Expr *x = is_equality ? condition->args[0] : NULL;
        if (x && x->kind == EXPR_COLUMN && expr_equal(x, condition->args[1])) continue;
        filter->conditions[n_kept++] = filter->conditions[c];
    }
    filter->n_conditions = n_kept;
}

static void note_never_null(const OuterColumns *outer, const Node *filter, StandIn *stand_ins)
{
    ColumnSet rejected = { 0 };
    for (int c = 0; c < filter->n_conditions; c++)
        columns_rejected(outer->plan->arena, filter->conditions[c], &rejected);
    for (int i = 0; i < outer->n; i++) stand_ins[i].never_null |= columns_has(&rejected, stand_ins[i].column);
}

static weft_status push_below_filter(OuterColumns *outer, Node *filter, StandIn *stand_ins)
{
    Conditions all = { 0 };
    bool       found;
    conditions_add_all(outer->plan, &all, filter->conditions, filter->n_conditions);
    filter->conditions = all.items, filter->n_conditions = all.n;
    TRY(take_equals(outer, filter, stand_ins, &found));
    if (!found) TRY(push_domain(outer, &filter->inputs[0], stand_ins));
    TRY(exprs_use_stand_ins(outer, filter->conditions, filter->n_conditions, stand_ins));
    if (found) drop_certain(filter);
    note_never_null(outer, filter, stand_ins);
    node_settle_out(outer->plan, filter);
    return WEFT_OK;
}

// ---- project --------------------------------------------------------------------------------------------------------

static void carry_stand_ins(const OuterColumns *outer, Node *project, const StandIn *stand_ins)
{
    Plan  *plan = outer->plan;
    Expr **exprs = arena_array(plan->arena, Expr *, project->n_out + outer->n + 1);
    int   *out = arena_array(plan->arena, int, project->n_out + outer->n + 1), n = project->n_out;
    for (int c = 0; c < n; c++) exprs[c] = project->exprs[c], out[c] = project->out[c];
    for (int i = 0; i < outer->n; i++) {
        bool is_there = false;
        for (int c = 0; c < n; c++) is_there |= out[c] == stand_ins[i].column;
        if (is_there) continue;
        exprs[n] = plan_column_expr(plan, stand_ins[i].column, -1);
        out[n++] = stand_ins[i].column;
    }
    project->exprs = exprs, project->out = out, project->n_out = n;
}

static weft_status push_below_project(OuterColumns *outer, Node *project, StandIn *stand_ins)
{
    TRY(push_domain(outer, &project->inputs[0], stand_ins));
    TRY(exprs_use_stand_ins(outer, project->exprs, project->n_out, stand_ins));
    carry_stand_ins(outer, project, stand_ins);
    return WEFT_OK;
}

// ---- aggregate ------------------------------------------------------------------------------------------------------

// The stand-ins as keys behind those that there are; they become the keys' columns.
static void group_by_stand_ins(const OuterColumns *outer, Node *node, StandIn *stand_ins)
{
    Plan  *plan = outer->plan;
    const int n_keys = node->n_keys, n = n_keys + outer->n;
    Expr **keys = arena_array(plan->arena, Expr *, n + 1);
    int   *out = arena_array(plan->arena, int, n + node->n_aggs + 1);
    for (int k = 0; k < n_keys; k++) keys[k] = node->keys[k], out[k] = node->out[k];
    for (int i = 0; i < outer->n; i++) {
        keys[n_keys + i] = plan_column_expr(plan, stand_ins[i].column, -1);
        out[n_keys + i] = stand_ins[i].column = plan_copy_column(plan, stand_ins[i].column);
        plan->columns[out[n_keys + i]].value = keys[n_keys + i];
    }
    for (int a = 0; a < node->n_aggs; a++) out[n + a] = node->out[n_keys + a];
    node->keys = keys, node->n_keys = n, node->out = out, node->n_out = n + node->n_aggs;
}

weft_status push_domain_below_total(OuterColumns *outer, Node *total, StandIn *stand_ins)
{
    TRY(push_domain(outer, &total->inputs[0], stand_ins));
    TRY(exprs_use_stand_ins(outer, total->keys, total->n_keys, stand_ins));
    for (int a = 0; a < total->n_aggs; a++)
        if (total->aggs[a].arg) TRY(exprs_use_stand_ins(outer, &total->aggs[a].arg, 1, stand_ins));
    group_by_stand_ins(outer, total, stand_ins);
    return WEFT_OK;
}

weft_status rename_counts(const OuterColumns *outer, Node *total, Expr **exprs)
{
    Plan *plan = outer->plan;
    for (int c = 0; c < total->n_out; c++) {
        const int  column = total->out[c];
        const Agg *agg = c >= total->n_keys ? &total->aggs[c - total->n_keys] : NULL;
        exprs[c] = plan_column_expr(plan, column, -1);
        if (!agg || (agg->kind != AGG_COUNT && agg->kind != AGG_COUNT_ALL)) continue;
        total->out[c] = plan_copy_column(plan, column);
        Expr *args[2] = { plan_column_expr(plan, total->out[c], -1), any_value(outer, agg->type) };
        TRY(expr_call(plan->arena, OP_COALESCE, args, 2, -1, &exprs[c], outer->err));
        plan->columns[column].agg = NULL;
        plan->columns[column].value = exprs[c];
    }
    return WEFT_OK;
}

// A total has a row for every outer value, with rows or without.
static weft_status push_below_total(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Plan      *plan = outer->plan;
    Node      *total = *slot, *domain;
    const int  n_out = total->n_out;
    int       *out = total->out;                              // as it was
    Conditions equal = { 0 };
    StandIn   *groups = arena_array(plan->arena, StandIn, outer->n + 1);
    TRY(push_domain_below_total(outer, total, groups));
    TRY(use_domain(outer, &domain, stand_ins));
    TRY(add_equalities(outer, &equal, stand_ins, groups));
    Expr **exprs = arena_array(plan->arena, Expr *, total->n_out + 1);
    TRY(rename_counts(outer, total, exprs));
    Node *join = plan_join(plan, JOIN_LEFT, domain, total, equal.items, equal.n);
    *slot = plan_project(plan, join, exprs + outer->n, out, n_out);
    carry_stand_ins(outer, *slot, stand_ins);
    return WEFT_OK;
}

// ---- join -----------------------------------------------------------------------------------------------------------

static bool is_dependent(const OuterColumns *outer, const Node *join)
{
    ColumnSet free_columns = { 0 }, left = { 0 };
    plan_free_columns(outer->plan->arena, join->inputs[1], &free_columns);
    node_columns(outer->plan->arena, join->inputs[0], &left);
    return columns_meet(&free_columns, &left);
}

// Conditions that name outer columns go into a filter above.
static weft_status push_below_conditions(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Node      *join = *slot;
    Conditions above = { 0 }, stay = { 0 };
    for (int c = 0; c < join->n_conditions; c++)
        conditions_add(outer->plan, expr_uses_any(join->conditions[c], &outer->set) ? &above : &stay,
                       join->conditions[c]);
    join->conditions = stay.items, join->n_conditions = stay.n;
    *slot = plan_filter(outer->plan, join, above.items, above.n);
    return push_below_filter(outer, *slot, stand_ins);
}

static weft_status push_below_left(OuterColumns *outer, Node *join, StandIn *stand_ins)
{
    TRY(push_domain(outer, &join->inputs[0], stand_ins));
    TRY(tree_use_stand_ins(outer, join->inputs[1], stand_ins));
    TRY(exprs_use_stand_ins(outer, join->conditions, join->n_conditions, stand_ins));
    node_settle_out(outer->plan, join);
    return WEFT_OK;
}

static weft_status push_below_inner(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Node *join = *slot;
    if (exprs_refer_to(outer, join->conditions, join->n_conditions))
        return push_below_conditions(outer, slot, stand_ins);
    if (tree_refers_to(outer, join->inputs[0]) || is_dependent(outer, join))
        return push_below_left(outer, join, stand_ins);
    TRY(push_domain(outer, &join->inputs[1], stand_ins));
    node_settle_out(outer->plan, join);
    return WEFT_OK;
}

// A row of either side is there for each outer value; one that has no match has the value on its own side alone.
static weft_status push_below_full(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Plan      *plan = outer->plan;
    Node      *join = *slot;
    StandIn   *right = arena_array(plan->arena, StandIn, outer->n + 1);
    Conditions all = { 0 };
    TRY(push_domain(outer, &join->inputs[0], stand_ins));
    TRY(push_domain(outer, &join->inputs[1], right));
    TRY(exprs_use_stand_ins(outer, join->conditions, join->n_conditions, stand_ins));
    conditions_add_all(plan, &all, join->conditions, join->n_conditions);
    TRY(add_equalities(outer, &all, stand_ins, right));
    join->conditions = all.items, join->n_conditions = all.n;
    node_settle_out(plan, join);
    for (int i = 0; i < outer->n; i++) {
        Expr *args[2] = { plan_column_expr(plan, stand_ins[i].column, -1),
                          plan_column_expr(plan, right[i].column, -1) };
        Expr *either;
        TRY(expr_call(plan->arena, OP_COALESCE, args, 2, -1, &either, outer->err));
        stand_ins[i] = (StandIn){ give_column(outer, slot, either), stand_ins[i].never_null && right[i].never_null };
    }
    return WEFT_OK;
}

static void make_left(Node *join)
{
    Node  *left = join->inputs[0];
    Expr **keys = join->keys;
    join->inputs[0] = join->inputs[1], join->inputs[1] = left;
    join->keys = join->right_keys, join->right_keys = keys;
    join->join = JOIN_LEFT;
}

static weft_status push_below_join(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    if ((*slot)->join == JOIN_RIGHT) make_left(*slot);        // columns are found by id; sets put theirs in order
    switch ((*slot)->join) {
        case JOIN_INNER: return push_below_inner(outer, slot, stand_ins);
        case JOIN_FULL:  return push_below_full(outer, slot, stand_ins);
        default:         return push_below_left(outer, *slot, stand_ins);
    }
}

// ---- sort, limit, set -----------------------------------------------------------------------------------------------

// Keys of a sort that has the stand-ins before the others, and tells runs by them and N_RUN of the others.
static void sort_by_stand_ins(const OuterColumns *outer, Node *sort, const SortKey *keys, int n_keys, int n_run,
                              const StandIn *stand_ins)
{
    SortKey *all = arena_array(outer->plan->arena, SortKey, outer->n + n_keys + 1);
    for (int i = 0; i < outer->n; i++) all[i] = (SortKey){ .column = stand_ins[i].column };
    for (int k = 0; k < n_keys; k++) all[outer->n + k] = keys[k];
    sort->sort = all, sort->n_sort = outer->n + n_keys, sort->n_distinct_on = outer->n + n_run;
}

static weft_status push_below_sort(OuterColumns *outer, Node *sort, StandIn *stand_ins)
{
    TRY(push_domain(outer, &sort->inputs[0], stand_ins));
    if (sort->n_distinct_on)
        sort_by_stand_ins(outer, sort, sort->sort, sort->n_sort, sort->n_distinct_on, stand_ins);
    node_settle_out(outer->plan, sort);
    return WEFT_OK;
}

// So many rows for each outer value.
static weft_status push_below_limit(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Plan       *plan = outer->plan;
    const Node *limit = *slot;
    Node       *input = limit->inputs[0];
    const SortKey *keys = input->kind == NODE_SORT ? input->sort : NULL;
    const int   n_keys = input->kind == NODE_SORT ? input->n_sort : 0;
    if (input->kind == NODE_SORT && !input->n_distinct_on) input = input->inputs[0];
    TRY(push_domain(outer, &input, stand_ins));
    if (limit->limit == 0) {
        *slot = node_empty(plan, input);
        return WEFT_OK;
    }
    *slot = plan_sort(plan, input, NULL, 0);
    sort_by_stand_ins(outer, *slot, keys, n_keys, 0, stand_ins);
    (*slot)->run_skipped = limit->offset;
    (*slot)->run_more = limit->limit < 0 ? RUN_ALL : MIN_OF(limit->limit - 1, RUN_ALL);
    return WEFT_OK;
}

// A partition more for each outer value.
static void partition_by_stand_ins(const OuterColumns *outer, WindowOrder *order, int first)
{
    SortKey *keys = arena_array(outer->plan->arena, SortKey, outer->n + order->n_keys + 1);
    for (int i = 0; i < outer->n; i++) keys[i] = (SortKey){ .column = first + i };
    for (int k = 0; k < order->n_keys; k++) keys[outer->n + k] = order->keys[k];
    order->keys = keys, order->n_keys += outer->n, order->n_partition += outer->n;
}

static weft_status push_below_window(OuterColumns *outer, Node *window, StandIn *stand_ins)
{
    Plan     *plan = outer->plan;
    const int n = window->n_keys;
    Expr    **keys = arena_array(plan->arena, Expr *, n + outer->n + 1);
    TRY(push_domain(outer, &window->inputs[0], stand_ins));
    for (int k = 0; k < n; k++) keys[k] = window->keys[k];
    TRY(exprs_use_stand_ins(outer, keys, n, stand_ins));
    for (int i = 0; i < outer->n; i++) keys[n + i] = plan_column_expr(plan, stand_ins[i].column, -1);
    window->keys = keys, window->n_keys = n + outer->n;
    window->windows = window_copy(plan->arena, window->windows);
    for (int o = 0; o < window->windows->n_orders; o++) partition_by_stand_ins(outer, &window->windows->orders[o], n);
    node_settle_out(plan, window);
    return WEFT_OK;
}

// The columns that the input gave, and then the stand-ins under ids of their own: a set pairs by place.
static weft_status push_below_side(OuterColumns *outer, Node **input, StandIn *stand_ins)
{
    Plan     *plan = outer->plan;
    const int n = (*input)->n_out, *was = (*input)->out;
    int      *out = arena_array(plan->arena, int, n + outer->n + 1);
    Expr    **exprs = arena_array(plan->arena, Expr *, n + outer->n + 1);
    for (int c = 0; c < n; c++) out[c] = was[c];
    TRY(push_domain(outer, input, stand_ins));
    for (int c = 0; c < n; c++) exprs[c] = plan_column_expr(plan, out[c], -1);
    for (int i = 0; i < outer->n; i++) {
        exprs[n + i] = plan_column_expr(plan, stand_ins[i].column, -1);
        out[n + i] = plan_copy_column(plan, stand_ins[i].column);
    }
    *input = plan_project(plan, *input, exprs, out, n + outer->n);
    return WEFT_OK;
}

static weft_status push_below_set(OuterColumns *outer, Node *set, StandIn *stand_ins)
{
    Plan    *plan = outer->plan;
    StandIn *right = arena_array(plan->arena, StandIn, outer->n + 1);
    int     *out = arena_array(plan->arena, int, set->n_out + outer->n + 1);
    TRY(push_below_side(outer, &set->inputs[0], stand_ins));
    TRY(push_below_side(outer, &set->inputs[1], right));
    for (int c = 0; c < set->n_out; c++) out[c] = set->out[c];
    for (int i = 0; i < outer->n; i++) {
        out[set->n_out + i] = plan_copy_column(plan, stand_ins[i].column);
        stand_ins[i].column = out[set->n_out + i];
        stand_ins[i].never_null &= right[i].never_null;
    }
    set->out = out, set->n_out += outer->n;
    return WEFT_OK;
}

// ---- any node -------------------------------------------------------------------------------------------------------

weft_status push_domain(OuterColumns *outer, Node **slot, StandIn *stand_ins)
{
    Node *node = *slot;
    if (!tree_refers_to(outer, node)) return cross_with_domain(outer, slot, stand_ins);
    switch (node->kind) {
        case NODE_FILTER:  return push_below_filter(outer, node, stand_ins);
        case NODE_PROJECT: return push_below_project(outer, node, stand_ins);
        case NODE_JOIN:    return push_below_join(outer, slot, stand_ins);
        case NODE_SORT:    return push_below_sort(outer, node, stand_ins);
        case NODE_WINDOW:  return push_below_window(outer, node, stand_ins);
        case NODE_LIMIT:   return push_below_limit(outer, slot, stand_ins);
        case NODE_SET:     return push_below_set(outer, node, stand_ins);
        case NODE_AGGREGATE:
            return node->n_keys ? push_domain_below_total(outer, node, stand_ins)
                                : push_below_total(outer, slot, stand_ins);
        default:
            return fail(outer->err, WEFT_UNSUPPORTED, node->at, "this in a correlated subquery is not supported yet");
    }
}
