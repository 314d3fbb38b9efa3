// bind_ordered.c - ordered-set aggregates: percentile_cont, percentile_disc and mode, WITHIN GROUP (ORDER BY x).
//
// Each is an aggregate over rows that a window has numbered within their group:
//
//     percentile_disc(0.5) within group (order by x)     group by g
//     window r = row_number() over (partition by g order by x), n = count(x) over (partition by g)
//     max(case when r = ceil(0.5 * n) then x end)
//
//     mode() within group (order by x)
//     window n = count(x) over (partition by g, x), then r = row_number() over (partition by g order by n desc, x)
//     max(case when r = 1 then x end)
//
// percentile_cont takes the two rows around the place, and what is between them is computed above the groups.
// An interval is ordered by its length, and its number goes through the groups.  Each of several GROUPING SETS has
// these windows by its own keys (GroupRows).

#include "plan/functions.h"
#include "plan/window.h"
#include "sql/sql_int.h"

struct OrderedSet {                    // what a window below the groups gives
    Expr *value;                       // x; of an interval its number,
    Expr *key;                         // and what orders x: an interval's length
    bool  descending, is_mode;
    int   number_column, count_column; // r and n
};

// ---- the call -------------------------------------------------------------------------------------------------------

static OrderedSet *add_ordered(Binder *binder, Block *block, OrderedSet wanted)
{
    for (int i = 0; i < block->n_ordered; i++) {
        OrderedSet *set = &block->ordered[i];
        if (set->descending == wanted.descending && set->is_mode == wanted.is_mode &&
            expr_equal(set->value, wanted.value))
            return set;
    }
    wanted.number_column = plan_add_column(binder->plan, TYPE(BIGINT), "row_number", NULL);
    wanted.count_column = plan_add_column(binder->plan, TYPE(BIGINT), "count", NULL);
    columns_add(binder->arena, &binder->not_null, wanted.number_column);
    columns_add(binder->arena, &binder->not_null, wanted.count_column);
    *LIST_PUSH(binder->arena, block->ordered, block->n_ordered) = wanted;
    return &block->ordered[block->n_ordered - 1];
}

static Expr *double_of(Binder *binder, double value, int at)
{
    return expr_const(binder->arena, (Value){ .type = TYPE(DOUBLE), .f = value }, at);
}

// max(case when r = PLACE then x end): the one row of the group.
static weft_status value_at(Binder *binder, Block *owner, const OrderedSet *set, Expr *place, Expr *value, int at,
                            Expr **out)
{
    Expr *args[3] = { NULL, value, term_null(binder, at) };
    Expr *number = plan_column_expr(binder->plan, set->number_column, at);
    TRY(expr_cast(binder->arena, place, TYPE(BIGINT), at, &place, binder->err));
    TRY(bind_call(binder, OP_EQ, number, place, at, &args[0]));
    TRY(expr_case(binder->arena, args, 3, at, &args[0], binder->err));
    const Agg agg = { .kind = AGG_MAX, .arg = args[0], .type = value->type, .at = at };
    return bind_add_agg(binder, owner, &agg, "max", out);
}

// SHARE * (n - LESS), as a double.
static weft_status place_of(Binder *binder, double share, Expr *count, int less, int at, Expr **out)
{
    Expr *n;
    TRY(bind_call(binder, OP_SUB, count, term_integer(binder, less, at), at, &n));
    TRY(expr_cast(binder->arena, n, TYPE(DOUBLE), at, &n, binder->err));
    return bind_call(binder, OP_MUL, double_of(binder, share, at), n, at, out);
}

static weft_status build_disc(Binder *binder, Block *owner, const OrderedSet *set, double share, int at, Expr **out)
{
    Expr *place, *is_first, *args[3];
    TRY(place_of(binder, share, plan_column_expr(binder->plan, set->count_column, at), 0, at, &place));
    TRY(bind_by_name(binder, "ceil", &place, 1, at, &place));
    TRY(bind_call(binder, OP_LT, place, double_of(binder, 1, at), at, &is_first));
    args[0] = is_first, args[1] = double_of(binder, 1, at), args[2] = place;
    TRY(expr_case(binder->arena, args, 3, at, &place, binder->err));
    return value_at(binder, owner, set, place, set->value, at, out);
}

static weft_status build_cont(Binder *binder, Block *owner, const OrderedSet *set, bool is_interval, double share,
                              int at, Expr **out)
{
    Expr     *count = plan_column_expr(binder->plan, set->count_column, at), *one = double_of(binder, 1, at);
    Expr     *value, *place, *first, *last, *before, *after, *rest, *is_whole, *args[3];
    const Agg most = { .kind = AGG_MAX, .arg = count, .type = TYPE(BIGINT), .at = at };
    value = set->value;
    if (!is_interval) TRY(expr_cast(binder->arena, value, TYPE(DOUBLE), at, &value, binder->err));
    TRY(place_of(binder, share, count, 1, at, &place));
    TRY(bind_by_name(binder, "floor", &place, 1, at, &first));
    TRY(bind_by_name(binder, "ceil", &place, 1, at, &last));
    TRY(bind_call(binder, OP_ADD, first, one, at, &first));
    TRY(bind_call(binder, OP_ADD, last, one, at, &last));
    TRY(value_at(binder, owner, set, first, value, at, &before));
    TRY(value_at(binder, owner, set, last, value, at, &after));
    if (is_interval) TRY(interval_of_stored(binder->arena, before, at, &before, binder->err));
    if (is_interval) TRY(interval_of_stored(binder->arena, after, at, &after, binder->err));
    TRY(bind_add_agg(binder, owner, &most, "max", &count));
    TRY(place_of(binder, share, count, 1, at, &place));
    TRY(bind_by_name(binder, "floor", &place, 1, at, &first));
    TRY(bind_call(binder, OP_EQ, place, first, at, &is_whole));
    TRY(bind_call(binder, OP_SUB, place, first, at, &rest));
    TRY(bind_call(binder, OP_SUB, after, before, at, &last));
    TRY(bind_call(binder, OP_MUL, is_interval ? last : rest, is_interval ? rest : last, at, &rest));
    TRY(bind_call(binder, OP_ADD, before, rest, at, &rest));
    args[0] = is_whole, args[1] = before, args[2] = rest;
    return expr_case(binder->arena, args, 3, at, out, binder->err);
}

static weft_status bind_share(Binder *binder, const ParseNode *node, Value *share)
{
    Expr *expr;
    TRY(binder->bind_expr(binder, node, &expr));
    TRY(expr_cast(binder->arena, expr, TYPE(DOUBLE), node_at(node), &expr, binder->err));
    if (!expr_is_const(expr)) return refuse(binder, node_at(node), "a percentile that is not a constant");
    *share = expr->value;
    if (share->is_null || (share->f >= 0 && share->f <= 1)) return WEFT_OK;
    return fail(binder->err, WEFT_OUT_OF_RANGE, node_at(node), "percentile value %g is not between 0 and 1", share->f);
}

static bool is_number(Type type)
{
    return type_is_integer(type) || type_is_float(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// The number and the length of a value that is an interval.
static weft_status store_ordered(Binder *binder, int at, OrderedSet *wanted)
{
    wanted->key = wanted->value;
    if (wanted->value->type.kind != TYPE_INTERVAL) return WEFT_OK;
    TRY(interval_as_length(binder->arena, wanted->value, at, &wanted->key, binder->err));
    return term_stored(binder, wanted->value, &wanted->value);
}

// x, as FILTER leaves it, and its direction.
static weft_status bind_ordered_value(Binder *binder, const PgQuery__FuncCall *call, OrderedSet *wanted)
{
    const PgQuery__SortBy *by = call->agg_order[0]->sort_by;
    SortItem               item;
    AggKind                ignored = AGG_SUM;
    TRY(sort_direction(binder, by, &item));
    wanted->descending = item.descending;
    TRY(binder->bind_expr(binder, by->node, &wanted->value));
    TRY(bind_settle(binder, wanted->value, &wanted->value));
    return call->agg_filter ? bind_agg_filter(binder, call->agg_filter, &ignored, &wanted->value) : WEFT_OK;
}

static weft_status check_ordered(Binder *binder, const PgQuery__FuncCall *call, const char *name, size_t n_args)
{
    if (call->n_args == n_args && call->n_agg_order == 1 && !call->func_variadic) return WEFT_OK;
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s with %zu argument%s does not exist",
                name, call->n_args, call->n_args == 1 ? "" : "s");
}

typedef struct OrderedCall { bool is_mode, is_cont, is_interval; Value share; int at; } OrderedCall;

static weft_status bind_ordered_args(Binder *binder, const PgQuery__FuncCall *call, OrderedCall *ordered,
                                     OrderedSet *wanted)
{
    *wanted = (OrderedSet){ .is_mode = ordered->is_mode };
    if (!ordered->is_mode) TRY(bind_share(binder, call->args[0], &ordered->share));
    TRY(bind_ordered_value(binder, call, wanted));
    if (ordered->is_cont && wanted->value->type.kind == TYPE_TIME)
        TRY(expr_cast(binder->arena, wanted->value, TYPE(INTERVAL), ordered->at, &wanted->value, binder->err));
    ordered->is_interval = wanted->value->type.kind == TYPE_INTERVAL;
    return WEFT_OK;
}

static weft_status build_ordered_value(Binder *binder, Block *owner, const OrderedCall *call, const OrderedSet *set,
                                       Expr **out)
{
    const int  at = call->at;
    const Type type = call->is_cont && !call->is_interval ? TYPE(DOUBLE) : set->value->type;
    if (!call->share.is_null && call->is_cont)
        return build_cont(binder, owner, set, call->is_interval, call->share.f, at, out);
    if (call->share.is_null) {         // the query is grouped all the same
        TRY(value_at(binder, owner, set, term_integer(binder, 0, at), set->value, at, out));
        TRY(expr_cast(binder->arena, *out, type, at, out, binder->err));
    } else if (call->is_mode) {
        TRY(value_at(binder, owner, set, term_integer(binder, 1, at), set->value, at, out));
    } else {
        TRY(build_disc(binder, owner, set, call->share.f, at, out));
    }
    return call->is_interval ? interval_of_stored(binder->arena, *out, at, out, binder->err) : WEFT_OK;
}

static bool is_hypothetical(const char *name)
{
    return strcmp(name, "rank") == 0 || strcmp(name, "dense_rank") == 0 || strcmp(name, "percent_rank") == 0 ||
           strcmp(name, "cume_dist") == 0;
}

weft_status bind_ordered(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const int   at = call->location;
    OrderedCall ordered = { .is_mode = strcmp(name, "mode") == 0, .is_cont = strcmp(name, "percentile_cont") == 0,
                            .at = at };
    OrderedSet  wanted;
    AggPlace    place;
    char        buffer[32];
    if (is_hypothetical(name)) return refuse(binder, at, "the rank that a value would have, WITHIN GROUP");
    if (!ordered.is_mode && !ordered.is_cont && strcmp(name, "percentile_disc") != 0)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "%s is not an ordered-set aggregate, so it cannot have WITHIN GROUP", name);
    TRY(begin_agg(binder, at, &place));
    TRY(check_ordered(binder, call, name, ordered.is_mode ? 0 : 1));
    if (call->over)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "OVER is not supported for ordered-set aggregate %s", name);
    TRY(bind_ordered_args(binder, call, &ordered, &wanted));
    if (again_for_owner(binder, &place, &wanted.value, 1)) TRY(bind_ordered_args(binder, call, &ordered, &wanted));
    TRY(end_agg(binder, &place, &wanted.value, 1));
    if (ordered.is_cont && !ordered.is_interval && !is_number(wanted.value->type))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function percentile_cont(double precision, %s) does not "
                                                              "exist", type_name(wanted.value->type, buffer));
    TRY(store_ordered(binder, at, &wanted));
    const OrderedSet set = *add_ordered(binder, place.owner, wanted);
    return build_ordered_value(binder, place.owner, &ordered, &set, out);
}

// ---- the rows -------------------------------------------------------------------------------------------------------

weft_status rows_of_groups(Binder *binder, const Block *block, GroupRows *rows)
{
    *rows = (GroupRows){ .node = block->node, .n_keys = block->n_keys };
    rows->keys = arena_array(binder->arena, Expr *, block->n_keys + 1);
    for (int k = 0; k < block->n_keys; k++) {
        TRY(bind_values_of_marks(binder, block, block->keys[k], &rows->keys[k]));
        if (rows->keys[k]->type.kind == TYPE_INTERVAL)
            TRY(interval_as_length(binder->arena, rows->keys[k], -1, &rows->keys[k], binder->err));
    }
    return WEFT_OK;
}

static int mapped(const GroupRows *rows, int column)
{
    return rows->map && column < rows->n_map && rows->map[column] >= 0 ? rows->map[column] : column;
}

typedef struct RowsLeaves { const Binder *binder; const GroupRows *rows; } RowsLeaves;

static const Expr *give_mapped(void *context, const Expr *leaf)
{
    const RowsLeaves *leaves = context;
    if (leaf->kind != EXPR_COLUMN || mapped(leaves->rows, leaf->column) == leaf->column) return NULL;
    return plan_column_expr(leaves->binder->plan, mapped(leaves->rows, leaf->column), leaf->at);
}

weft_status rows_expr(Binder *binder, const GroupRows *rows, Expr *expr, Expr **out)
{
    RowsLeaves leaves = { binder, rows };
    *out = expr;
    return rows->map ? expr_replace(binder->arena, expr, give_mapped, &leaves, out, binder->err) : WEFT_OK;
}

int rows_new_column(Binder *binder, GroupRows *rows, int column)
{
    const PlanColumn like = binder->plan->columns[column];
    if (!rows->map) return column;
    return rows->map[column] = plan_add_column(binder->plan, like.type, like.name, like.qualifier);
}

// ---- the windows ----------------------------------------------------------------------------------------------------

int list_key(WindowList *list, Expr *key)
{
    for (int k = 0; k < list->n_keys; k++)
        if (expr_equal(list->keys[k], key)) return k;
    *LIST_PUSH(list->binder->arena, list->keys, list->n_keys) = key;
    return list->n_keys - 1;
}

int list_order(WindowList *list, const SortKey *keys, int n_keys, int n_more)
{
    const GroupRows *rows = list->rows;
    WindowOrder      order = { 0 };
    for (int k = 0; k < rows->n_keys; k++)
        *LIST_PUSH(list->binder->arena, order.keys, order.n_keys) =
            (SortKey){ .column = list_key(list, rows->keys[k]) };
    for (int k = 0; k < n_keys; k++) *LIST_PUSH(list->binder->arena, order.keys, order.n_keys) = keys[k];
    order.n_partition = rows->n_keys + n_more;
    *LIST_PUSH(list->binder->arena, list->windows->orders, list->windows->n_orders) = order;
    return list->windows->n_orders - 1;
}

static void list_count(WindowList *list, const OrderedSet *set, int value, int order)
{
    const int   column = rows_new_column(list->binder, list->rows, set->count_column);
    WindowPart *part = arena_make(list->binder->arena, WindowPart);
    *part = (WindowPart){ AGG_COUNT, value, TYPE(BIGINT), column };
    Frame frame = frame_default();
    frame.end.edge = EDGE_LAST;
    *LIST_PUSH(list->binder->arena, list->windows->funcs, list->windows->n_funcs) =
        (WindowFunc){ .kind = WINDOW_AGGREGATE, .type = TYPE(BIGINT), .column = column, .order = order,
                      .arg = -1, .n = -1, .frame = frame, .n_parts = 1, .parts = part, .name = "count", .at = -1 };
}

static void list_number(WindowList *list, const OrderedSet *set, int order)
{
    const int column = rows_new_column(list->binder, list->rows, set->number_column);
    *LIST_PUSH(list->binder->arena, list->windows->funcs, list->windows->n_funcs) =
        (WindowFunc){ .kind = WINDOW_ROW_NUMBER, .type = TYPE(BIGINT), .column = column, .order = order,
                      .arg = -1, .n = -1, .frame = frame_default(), .name = "row_number", .at = -1 };
}

WindowList start_list(Binder *binder, GroupRows *rows)
{
    return (WindowList){ .binder = binder, .rows = rows, .windows = arena_make(binder->arena, Windows) };
}

void close_list(WindowList *list)
{
    if (list->windows->n_funcs)
        list->rows->node = plan_window(list->binder->plan, list->rows->node, list->keys, list->n_keys, list->windows);
}

weft_status settle_ordered(Binder *binder, Block *block)
{
    for (int i = 0; i < block->n_ordered; i++) {
        OrderedSet *set = &block->ordered[i];
        TRY(bind_values_of_marks(binder, block, set->value, &set->value));
        TRY(bind_values_of_marks(binder, block, set->key, &set->key));
    }
    return WEFT_OK;
}

void ordered_columns(Binder *binder, const Block *block, ColumnSet *named, ColumnSet *made)
{
    for (int i = 0; i < block->n_ordered; i++) {
        const OrderedSet *set = &block->ordered[i];
        columns_add_expr(binder->arena, named, set->value);
        columns_add_expr(binder->arena, named, set->key);
        columns_add(binder->arena, made, set->number_column);
        columns_add(binder->arena, made, set->count_column);
    }
}

// Of each set the values' number, and of percentiles each row's.  NULLs come last, and are not counted.
static weft_status list_ordered(WindowList *list, const OrderedSet *set)
{
    Expr *key;
    TRY(rows_expr(list->binder, list->rows, set->key, &key));
    const SortKey value = { list_key(list, key), set->descending, false };
    list_count(list, set, value.column, list_order(list, &value, 1, set->is_mode));
    if (!set->is_mode) list_number(list, set, list->windows->n_orders - 1);
    return WEFT_OK;
}

static weft_status list_mode(WindowList *list, const OrderedSet *set)
{
    Binder *binder = list->binder;
    Expr   *count, *key;
    TRY(rows_expr(binder, list->rows, plan_column_expr(binder->plan, set->count_column, -1), &count));
    TRY(rows_expr(binder, list->rows, set->key, &key));
    const SortKey keys[2] = { { list_key(list, count), true, false }, { list_key(list, key), set->descending, false } };
    list_number(list, set, list_order(list, keys, 2, 0));
    return WEFT_OK;
}

weft_status build_ordered(Binder *binder, const Block *block, GroupRows *rows)
{
    WindowList counts = start_list(binder, rows), numbers = start_list(binder, rows);
    for (int i = 0; i < block->n_ordered; i++) TRY(list_ordered(&counts, &block->ordered[i]));
    close_list(&counts);
    for (int i = 0; i < block->n_ordered; i++)
        if (block->ordered[i].is_mode) TRY(list_mode(&numbers, &block->ordered[i]));
    close_list(&numbers);
    return WEFT_OK;
}
