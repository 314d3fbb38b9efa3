// rewrite_sets.c - UNION, INTERSECT and EXCEPT become groups over UNION ALL: groups take NULLs to be equal, as sets do.
//
//     a union b             aggregate by all columns over a union all b
//     a intersect b         the rows that both sides have:        count(a's mark) > 0 and count(b's mark) > 0
//     a except b            that only the left one has:           count(a's mark) > 0 and count(b's mark) = 0
//     ... all               each so many times:                   the smaller of the counts; the first less the second
//
// A column that is a stored interval is grouped by its length; the least of its group's intervals stands for all, for
// INTERSECT and EXCEPT the least of the left side.

#include "plan/rewrite.h"

typedef struct Sets { Plan *plan; Error *err; } Sets;

static Expr *whole_number(Plan *plan, TypeKind kind, i64 value)
{
    return expr_const(plan->arena, (Value){ .type = { .kind = (u8)kind }, .i = value }, -1);
}

static int *copied_columns(Plan *plan, const int *columns, int n_columns, int n_more)
{
    int *copy = arena_array(plan->arena, int, n_columns + n_more + 1);
    for (int c = 0; c < n_columns; c++) {
        copy[c] = plan_copy_column(plan, columns[c]);
        plan->columns[copy[c]].value = NULL, plan->columns[copy[c]].agg = NULL;
    }
    return copy;
}

static Expr **column_exprs(Plan *plan, const int *columns, int n_columns, int n_more)
{
    Expr **exprs = arena_array(plan->arena, Expr *, n_columns + n_more + 1);
    for (int c = 0; c < n_columns; c++) exprs[c] = plan_column_expr(plan, columns[c], -1);
    return exprs;
}

static bool is_by_length(const Node *set, int column) { return column < set->n_by_length && set->by_length[column]; }

static int count_by_length(const Node *set)
{
    int n = 0;
    for (int c = 0; c < set->n_out; c++) n += is_by_length(set, c);
    return n;
}

// ---- groups ---------------------------------------------------------------------------------------------------------

typedef struct Groups {                // of the rows of a set
    Expr **keys;                       // one for each of its columns
    int   *key_columns;
    Agg   *aggs;                       // the intervals that stand for others, then what the caller adds
    int   *agg_columns, n_aggs;
} Groups;

static weft_status length_of(const Sets *sets, Expr *number, Expr **out)
{
    Expr *interval;
    TRY(interval_of_stored(sets->plan->arena, number, -1, &interval, sets->err));
    return interval_as_length(sets->plan->arena, interval, -1, out, sets->err);
}

// COLUMNS are those of the rows.  CARRIED: the intervals that may stand for others, in the order of SET's columns.
static weft_status start_groups(const Sets *sets, const Node *set, const int *columns, const int *carried,
                                int n_more, Groups *groups)
{
    Plan *plan = sets->plan;
    int   n_carried = 0;
    groups->keys = column_exprs(plan, columns, set->n_out, 0);
    groups->key_columns = arena_array(plan->arena, int, set->n_out + 1);
    groups->aggs = arena_array(plan->arena, Agg, set->n_out + n_more + 1);
    groups->agg_columns = arena_array(plan->arena, int, set->n_out + n_more + 1);
    groups->n_aggs = 0;
    for (int c = 0; c < set->n_out; c++) {
        groups->key_columns[c] = set->out[c];
        if (!is_by_length(set, c)) continue;
        Expr *number = plan_column_expr(plan, carried[n_carried++], -1);
        TRY(length_of(sets, groups->keys[c], &groups->keys[c]));
        groups->key_columns[c] = plan_add_column(plan, TYPE(BIGINT), "length", NULL);
        TRY(expr_agg(AGG_MIN, number, -1, &groups->aggs[groups->n_aggs], sets->err));
        groups->agg_columns[groups->n_aggs++] = set->out[c];
    }
    return WEFT_OK;
}

static Node *end_groups(const Sets *sets, const Node *set, Node *rows, const Groups *groups)
{
    return plan_aggregate(sets->plan, rows, groups->keys, groups->key_columns, set->n_out, groups->aggs,
                          groups->agg_columns, groups->n_aggs);
}

static weft_status union_to_groups(const Sets *sets, Node *set, Node **out)
{
    Plan      *plan = sets->plan;
    const int *columns = copied_columns(plan, set->out, set->n_out, 0);
    int       *carried = arena_array(plan->arena, int, set->n_out + 1), n_carried = 0;
    Node      *all = plan_set(plan, SET_UNION, true, set->inputs[0], set->inputs[1], columns);
    Groups     groups;
    for (int c = 0; c < set->n_out; c++)
        if (is_by_length(set, c)) carried[n_carried++] = columns[c];
    TRY(start_groups(sets, set, columns, carried, 0, &groups));
    *out = end_groups(sets, set, all, &groups);
    if (n_carried) *out = node_in_order(plan, *out, set->out, set->n_out);
    return WEFT_OK;
}

// SIDE's rows with two more columns: 1 in its own, NULL in the other's.  Then the left side's intervals once more.
static Node *marked_side(Plan *plan, const Node *set, int number)
{
    Node     *side = set->inputs[number];
    const int n = side->n_out, n_all = n + 2 + count_by_length(set);
    int      *columns = arena_array(plan->arena, int, n_all + 1), next = n + 2;
    Expr    **exprs = column_exprs(plan, side->out, n, n_all - n);
    for (int c = 0; c < n; c++) columns[c] = side->out[c];
    for (int mark = 0; mark < 2; mark++) {
        columns[n + mark] = plan_add_column(plan, TYPE(INTEGER), mark ? "in_right" : "in_left", NULL);
        exprs[n + mark] = mark == number ? whole_number(plan, TYPE_INTEGER, 1)
                                         : expr_null(plan->arena, TYPE(INTEGER), -1);
    }
    for (int c = 0; c < n; c++) {
        if (!is_by_length(set, c)) continue;
        const Type type = plan->columns[side->out[c]].type;
        columns[next] = plan_add_column(plan, type, "interval", NULL);
        exprs[next++] = number ? expr_null(plan->arena, type, -1) : plan_column_expr(plan, side->out[c], -1);
    }
    return plan_project(plan, side, exprs, columns, n_all);
}

// Groups of equal rows, with how many of them each side has: columns COUNTS[0] and COUNTS[1].
static weft_status counted_rows(const Sets *sets, Node *node, int counts[2], Node **out)
{
    Plan      *plan = sets->plan;
    const int  n = node->n_out, n_carried = count_by_length(node);
    int       *columns = copied_columns(plan, node->out, n, 2 + n_carried);
    Groups     groups;
    for (int mark = 0; mark < 2; mark++)
        columns[n + mark] = plan_add_column(plan, TYPE(INTEGER), mark ? "in_right" : "in_left", NULL);
    for (int i = 0; i < n_carried; i++)
        columns[n + 2 + i] = plan_add_column(plan, (Type){ TYPE_NUMERIC, 38, 0 }, "interval", NULL);
    Node *left = marked_side(plan, node, 0), *right = marked_side(plan, node, 1);
    Node *all = plan_set(plan, SET_UNION, true, left, right, columns);
    TRY(start_groups(sets, node, columns, columns + n + 2, 2, &groups));
    for (int mark = 0; mark < 2; mark++) {
        Agg *agg = &groups.aggs[groups.n_aggs];
        TRY(expr_agg(AGG_COUNT, plan_column_expr(plan, columns[n + mark], -1), -1, agg, sets->err));
        groups.agg_columns[groups.n_aggs++] = counts[mark] = plan_add_column(plan, TYPE(BIGINT), "count", NULL);
    }
    *out = end_groups(sets, node, all, &groups);
    return WEFT_OK;
}

static weft_status compare_counts(const Sets *sets, Op op, Expr *a, Expr *b, Conditions *list)
{
    Expr *condition;
    TRY(expr_call(sets->plan->arena, op, (Expr *[]){ a, b }, 2, -1, &condition, sets->err));
    *LIST_PUSH(sets->plan->arena, list->items, list->n) = condition;
    return WEFT_OK;
}

static weft_status keep_by_counts(const Sets *sets, const Node *set, const int counts[2], Node **node)
{
    Conditions list = { 0 };
    Expr      *left = plan_column_expr(sets->plan, counts[0], -1), *right = plan_column_expr(sets->plan, counts[1], -1);
    Expr      *zero = whole_number(sets->plan, TYPE_BIGINT, 0);
    if (set->set == SET_EXCEPT && set->is_all) {
        TRY(compare_counts(sets, OP_GT, left, right, &list));
    } else {
        TRY(compare_counts(sets, OP_GT, left, zero, &list));
        TRY(compare_counts(sets, set->set == SET_INTERSECT ? OP_GT : OP_EQ, right, zero, &list));
    }
    *node = plan_filter(sets->plan, *node, list.items, list.n);
    return WEFT_OK;
}

// How many copies of a group's row there are.
static weft_status copies_of(const Sets *sets, const Node *set, const int counts[2], Expr **out)
{
    Arena *arena = sets->plan->arena;
    Expr *left = plan_column_expr(sets->plan, counts[0], -1), *right = plan_column_expr(sets->plan, counts[1], -1),
         *is_less;
    if (set->set == SET_EXCEPT) return expr_call(arena, OP_SUB, (Expr *[]){ left, right }, 2, -1, out, sets->err);
    TRY(expr_call(arena, OP_LT, (Expr *[]){ left, right }, 2, -1, &is_less, sets->err));
    return expr_case(arena, (Expr *[]){ is_less, left, right }, 3, -1, out, sets->err);
}

static weft_status repeat_rows(const Sets *sets, const Node *set, const int counts[2], Node **node)
{
    Plan     *plan = sets->plan;
    const int n = set->n_out;
    int      *columns = arena_array(plan->arena, int, n + 1);
    Expr    **exprs = column_exprs(plan, set->out, n, 1);
    for (int c = 0; c < n; c++) columns[c] = set->out[c];
    TRY(copies_of(sets, set, counts, &exprs[n]));
    columns[n] = plan_add_column(plan, TYPE(BIGINT), "copies", NULL);
    Node *with_copies = plan_project(plan, *node, exprs, columns, n + 1);
    *node = plan_project(plan, with_copies, column_exprs(plan, set->out, n, 0), set->out, n);
    (*node)->copies = columns[n];
    return WEFT_OK;
}

static weft_status rewrite_set(void *context, Node **slot)
{
    const Sets *sets = context;
    Node       *set = *slot;
    int         counts[2];
    if (set->kind != NODE_SET || (set->set == SET_UNION && set->is_all)) return WEFT_OK;
    if (set->set == SET_UNION) return union_to_groups(sets, set, slot);
    TRY(counted_rows(sets, set, counts, slot));
    TRY(keep_by_counts(sets, set, counts, slot));
    if (set->is_all) return repeat_rows(sets, set, counts, slot);
    *slot = node_in_order(sets->plan, *slot, set->out, set->n_out);
    return WEFT_OK;
}

weft_status rewrite_sets(Plan *plan, Node **root, Error *err)
{
    Sets sets = { plan, err };
    return tree_visit(root, rewrite_set, &sets);
}
