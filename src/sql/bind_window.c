// bind_window.c - window functions: OVER, WINDOW, and the node that computes them.
//
// A call becomes a column, as an aggregate does.  What it looks at (partitions, order, arguments) goes to the block's
// list of keys, over the columns of FROM; where the query is grouped, they are looked at again over the groups.
//
//     select a, rank() over w, sum(count(*)) over w from t group by a window w as (order by count(*))
//     FROM -> aggregate count(*) by a -> window rank(), sum(count) over (order by count) -> project

#include "plan/aggregates.h"
#include "plan/functions.h"
#include "plan/window.h"
#include "sql/sql_int.h"

enum { WINDOWS_MAX = 1664 };

enum {                                 // of PostgreSQL's parsenodes.h: the grammar's bits
    OPTION_NONDEFAULT = 0x1, OPTION_ROWS = 0x4, OPTION_GROUPS = 0x8,
    OPTION_START_FIRST = 0x20, OPTION_END_FIRST = 0x40, OPTION_START_LAST = 0x80, OPTION_END_LAST = 0x100,
    OPTION_START_PRECEDING = 0x800, OPTION_END_PRECEDING = 0x1000, OPTION_START_FOLLOWING = 0x2000,
    OPTION_END_FOLLOWING = 0x4000, OPTION_EXCLUDE_CURRENT = 0x8000, OPTION_EXCLUDE_GROUP = 0x10000,
    OPTION_EXCLUDE_TIES = 0x20000
};

struct BoundWindow {                   // a window definition
    const char *name;                  // of WINDOW; NULL: it stands in OVER
    int         order;                 // in the block's windows
    bool        has_frame;
    Frame       frame;
};

// ---- keys and orders ------------------------------------------------------------------------------------------------

static weft_status add_window_key(Binder *binder, Block *block, Expr *key, int *number)
{
    for (int k = 0; k < block->n_window_keys; k++) {
        *number = k;
        if (expr_equal(block->window_keys[k], key)) return WEFT_OK;
    }
    if (key->type.kind == TYPE_INTERVAL)                    // it is a number by now
        return fail(binder->err, WEFT_INTERNAL, key->at, "a window has an interval as its key");
    *LIST_PUSH(binder->arena, block->window_keys, block->n_window_keys) = key;
    *number = block->n_window_keys - 1;
    return bind_count(binder, key);
}

static bool same_order(const WindowOrder *a, const WindowOrder *b)
{
    if (a->n_partition != b->n_partition || a->n_keys != b->n_keys) return false;
    for (int k = 0; k < a->n_keys; k++)
        if (a->keys[k].column != b->keys[k].column || a->keys[k].descending != b->keys[k].descending ||
            a->keys[k].nulls_first != b->keys[k].nulls_first)
            return false;
    return true;
}

static int add_order(Binder *binder, Block *block, const WindowOrder *order)
{
    Windows *windows = block->windows;
    for (int o = 0; o < windows->n_orders; o++)
        if (same_order(&windows->orders[o], order)) return o;
    *LIST_PUSH(binder->arena, windows->orders, windows->n_orders) = *order;
    return windows->n_orders - 1;
}

static weft_status bind_window_key(Binder *binder, Block *block, const ParseNode *node, int *number)
{
    Expr *key;
    TRY(bind_expr(binder, node, &key));
    TRY(bind_settle(binder, key, &key));
    const bool is_interval = key->type.kind == TYPE_INTERVAL;
    if (is_interval) TRY(interval_as_length(binder->arena, key, key->at, &key, binder->err));
    TRY(add_window_key(binder, block, key, number));
    if (is_interval) columns_add(binder->arena, &block->window_lengths, *number);
    return WEFT_OK;
}

static weft_status bind_partition(Binder *binder, Block *block, const PgQuery__WindowDef *def, WindowOrder *order)
{
    TRY(check_list_length(binder, "PARTITION BY", def->n_partition_clause));
    for (size_t i = 0; i < def->n_partition_clause; i++) {
        int number;
        TRY(bind_window_key(binder, block, def->partition_clause[i], &number));
        *LIST_PUSH(binder->arena, order->keys, order->n_keys) = (SortKey){ .column = number };
    }
    order->n_partition = order->n_keys;
    return WEFT_OK;
}

static weft_status bind_window_order(Binder *binder, Block *block, const PgQuery__WindowDef *def, WindowOrder *order)
{
    TRY(check_list_length(binder, "ORDER BY", def->n_order_clause));
    for (size_t i = 0; i < def->n_order_clause; i++) {
        const PgQuery__SortBy *by = def->order_clause[i]->sort_by;
        SortItem               item;
        SortKey                key;
        TRY(sort_direction(binder, by, &item));
        key = (SortKey){ .descending = item.descending, .nulls_first = item.nulls_first };
        TRY(bind_window_key(binder, block, by->node, &key.column));
        *LIST_PUSH(binder->arena, order->keys, order->n_keys) = key;
    }
    return WEFT_OK;
}

// ---- frames ---------------------------------------------------------------------------------------------------------

static bool has_columns(const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_columns(expr->args[i])) return true;
    return false;
}

static bool is_number(Type type)
{
    return type_is_integer(type) || type_is_float(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// What is added to the key of RANGE: an interval to a date, else a number of the key's kind.
static bool is_dated(Type type)
{
    return type.kind == TYPE_DATE || type.kind == TYPE_TIMESTAMP || type.kind == TYPE_TIMESTAMPTZ;
}

static weft_status coerce_range_offset(Binder *binder, Type type, Expr *offset, Expr **out)
{
    const bool is_decimal = type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
    const bool takes_decimal = offset->type.kind == TYPE_DECIMAL || offset->type.kind == TYPE_NUMERIC;
    char       key_text[32], offset_text[32];
    *out = offset;
    const bool takes_interval = is_dated(type) || type.kind == TYPE_INTERVAL;
    if (takes_interval && offset->type.kind == TYPE_NULL)
        return expr_coerce(binder->arena, offset, TYPE(INTERVAL), offset->at, out, binder->err);
    if (takes_interval && offset->type.kind == TYPE_INTERVAL) return WEFT_OK;
    if (type_is_integer(type) && (offset->type.kind == TYPE_NULL || type_is_integer(offset->type)))
        return expr_coerce(binder->arena, offset, TYPE(BIGINT), offset->at, out, binder->err);
    if (type_is_float(type) && (offset->type.kind == TYPE_NULL || is_number(offset->type)))
        return expr_cast(binder->arena, offset, TYPE(DOUBLE), offset->at, out, binder->err);
    if (is_decimal && offset->type.kind == TYPE_NULL) return bind_bare_numeric(binder, offset, offset->at, out);
    if (is_decimal && (type_is_integer(offset->type) || takes_decimal)) return WEFT_OK;
    if (takes_interval || is_number(type))
        return fail(binder->err, WEFT_UNSUPPORTED, offset->at,
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type %s and offset type %s",
                    type_name(type, key_text), type_name(offset->type, offset_text));
    return fail(binder->err, WEFT_UNSUPPORTED, offset->at,
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type %s", type_name(type, key_text));
}

// Intervals are as far apart as their lengths are.
static weft_status length_of_offset(Binder *binder, int at, Value *offset)
{
    const i128 micros = interval_micros(offset);
    if (micros != (i64)micros) return fail(binder->err, WEFT_DATETIME_OVERFLOW, at, "interval out of range");
    *offset = (Value){ .type = TYPE(BIGINT), .i = micros };
    return WEFT_OK;
}

static weft_status check_offset(Binder *binder, FrameUnit unit, const char *which, const Value *offset, int at)
{
    if (offset->is_null)
        return fail(binder->err, WEFT_NULL_NOT_ALLOWED, at, "frame %s offset must not be null", which);
    const bool is_negative = offset->type.kind == TYPE_INTERVAL
                                 ? interval_micros(offset) < 0
                             : type_is_float(offset->type) ? !(offset->f >= 0)
                                                           : offset->i < 0;
    if (!is_negative) return WEFT_OK;
    if (unit == FRAME_RANGE)
        return fail(binder->err, WEFT_BAD_FRAME, at, "invalid preceding or following size in window function");
    return fail(binder->err, WEFT_BAD_FRAME, at, "frame %s offset must not be negative", which);
}

static weft_status bind_offset(Binder *binder, const Block *block, const WindowOrder *order, FrameUnit unit,
                               const char *which, const ParseNode *node, Value *out)
{
    static const char *const units[] = { [FRAME_RANGE] = "RANGE", [FRAME_ROWS] = "ROWS", [FRAME_GROUPS] = "GROUPS" };
    const Place              place = binder->place;
    const int                at = node_at(node);
    Expr                    *offset;
    char                     buffer[32];
    binder->place.clause = arena_printf(binder->arena, "window %s", units[unit]);
    binder->place.allows_aggs = binder->place.allows_windows = false;
    TRY(bind_expr(binder, node, &offset));
    binder->place = place;
    if (has_columns(offset))
        return fail(binder->err, WEFT_INVALID_REFERENCE, at, "argument of %s must not contain variables", units[unit]);
    const int  key = unit == FRAME_RANGE ? order->keys[order->n_partition].column : -1;
    const bool is_length = key >= 0 && columns_has(&block->window_lengths, key);
    if (unit == FRAME_RANGE) {
        const Type type = is_length ? TYPE(INTERVAL) : block->window_keys[key]->type;
        TRY(coerce_range_offset(binder, type, offset, &offset));
    } else {
        if (offset->type.kind != TYPE_NULL && !is_number(offset->type))
            return fail(binder->err, WEFT_TYPE_MISMATCH, at, "argument of %s must be type bigint, not type %s",
                        units[unit], type_name(offset->type, buffer));
        TRY(expr_cast(binder->arena, offset, TYPE(BIGINT), at, &offset, binder->err));
    }
    if (!expr_is_const(offset)) return refuse(binder, at, "a subquery in a window frame");
    *out = offset->value;
    TRY(check_offset(binder, unit, which, out, at));
    return is_length ? length_of_offset(binder, at, out) : WEFT_OK;
}

static FrameEdge edge_of(int options, int first, int preceding, int following, int last)
{
    if (options & first) return EDGE_FIRST;
    if (options & preceding) return EDGE_PRECEDING;
    if (options & following) return EDGE_FOLLOWING;
    return options & last ? EDGE_LAST : EDGE_CURRENT;
}

static weft_status bind_frame(Binder *binder, const Block *block, const PgQuery__WindowDef *def,
                              const WindowOrder *order, Frame *frame)
{
    const int options = def->frame_options, n_sort = order->n_keys - order->n_partition;
    frame->unit = options & OPTION_ROWS ? FRAME_ROWS : options & OPTION_GROUPS ? FRAME_GROUPS : FRAME_RANGE;
    frame->start.edge = edge_of(options, OPTION_START_FIRST, OPTION_START_PRECEDING, OPTION_START_FOLLOWING,
                                OPTION_START_LAST);
    frame->end.edge = edge_of(options, OPTION_END_FIRST, OPTION_END_PRECEDING, OPTION_END_FOLLOWING, OPTION_END_LAST);
    frame->exclude = options & OPTION_EXCLUDE_CURRENT ? EXCLUDE_CURRENT
                     : options & OPTION_EXCLUDE_GROUP ? EXCLUDE_GROUP
                     : options & OPTION_EXCLUDE_TIES  ? EXCLUDE_TIES
                                                      : EXCLUDE_NONE;
    if (frame->unit == FRAME_GROUPS && !n_sort)
        return fail(binder->err, WEFT_WINDOWING_ERROR, def->location, "GROUPS mode requires an ORDER BY clause");
    if (frame->unit == FRAME_RANGE && (def->start_offset || def->end_offset) && n_sort != 1)
        return fail(binder->err, WEFT_WINDOWING_ERROR, def->location,
                    "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column");
    if (def->start_offset)
        TRY(bind_offset(binder, block, order, frame->unit, "starting", def->start_offset, &frame->start.offset));
    if (def->end_offset)
        TRY(bind_offset(binder, block, order, frame->unit, "ending", def->end_offset, &frame->end.offset));
    return WEFT_OK;
}

// ---- definitions ----------------------------------------------------------------------------------------------------

static weft_status find_window(Binder *binder, const Block *block, const char *name, int at, const BoundWindow **out)
{
    for (int i = 0; i < block->n_named_windows; i++)
        if (strcmp(block->named_windows[i].name, name) == 0) {
            *out = &block->named_windows[i];
            return WEFT_OK;
        }
    return fail(binder->err, WEFT_UNDEFINED_OBJECT, at, "window \"%s\" does not exist", name);
}

// What DEF takes from the window that it names.
static weft_status inherit(Binder *binder, const Block *block, const PgQuery__WindowDef *def, WindowOrder *order)
{
    const BoundWindow *base = NULL;
    TRY(find_window(binder, block, def->refname, def->location, &base));
    const WindowOrder *from = &block->windows->orders[base->order];
    const bool         has_order = from->n_keys > from->n_partition;
    if (def->n_partition_clause)
        return fail(binder->err, WEFT_WINDOWING_ERROR, def->location,
                    "cannot override PARTITION BY clause of window \"%s\"", def->refname);
    if (def->n_order_clause && has_order)
        return fail(binder->err, WEFT_WINDOWING_ERROR, def->location,
                    "cannot override ORDER BY clause of window \"%s\"", def->refname);
    if (base->has_frame) {
        fail(binder->err, WEFT_WINDOWING_ERROR, def->location,
             "cannot copy window \"%s\" because it has a frame clause", def->refname);
        if (!def->n_order_clause && !(def->frame_options & OPTION_NONDEFAULT))
            error_hint(binder->err, "Omit the parentheses in this OVER clause.");
        return WEFT_WINDOWING_ERROR;
    }
    for (int k = 0; k < from->n_keys; k++)
        *LIST_PUSH(binder->arena, order->keys, order->n_keys) = from->keys[k];
    order->n_partition = from->n_partition;
    return WEFT_OK;
}

static weft_status bind_definition(Binder *binder, Block *block, const PgQuery__WindowDef *def, BoundWindow *out)
{
    const Place place = binder->place;
    WindowOrder order = { 0 };
    *out = (BoundWindow){ .frame = frame_default(), .has_frame = def->frame_options & OPTION_NONDEFAULT };
    binder->place.clause = "window definitions";
    binder->place.allows_aggs = true, binder->place.allows_windows = false;
    if (def->refname[0]) TRY(inherit(binder, block, def, &order));
    else TRY(bind_partition(binder, block, def, &order));
    TRY(bind_window_order(binder, block, def, &order));
    if (out->has_frame) TRY(bind_frame(binder, block, def, &order, &out->frame));
    binder->place = place;
    out->order = add_order(binder, block, &order);
    return WEFT_OK;
}

weft_status bind_named_windows(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    block->windows = arena_make(binder->arena, Windows);
    for (size_t i = 0; i < stmt->n_window_clause; i++) {
        const PgQuery__WindowDef *def = stmt->window_clause[i]->window_def;
        BoundWindow               window;
        for (int w = 0; w < block->n_named_windows; w++)
            if (strcmp(block->named_windows[w].name, def->name) == 0)
                return fail(binder->err, WEFT_WINDOWING_ERROR, def->location, "window \"%s\" is already defined",
                            def->name);
        TRY(bind_definition(binder, block, def, &window));
        window.name = def->name;
        *LIST_PUSH(binder->arena, block->named_windows, block->n_named_windows) = window;
    }
    return WEFT_OK;
}

static weft_status bind_over(Binder *binder, Block *block, const PgQuery__WindowDef *over, BoundWindow *out)
{
    const BoundWindow *named = NULL;
    if (!over->name[0]) return bind_definition(binder, block, over, out);
    TRY(find_window(binder, block, over->name, over->location, &named));
    *out = *named;
    return WEFT_OK;
}

// ---- functions ------------------------------------------------------------------------------------------------------

static bool same_parts(const WindowFunc *a, const WindowFunc *b)
{
    if (a->n_parts != b->n_parts) return false;
    for (int p = 0; p < a->n_parts; p++)
        if (a->parts[p].kind != b->parts[p].kind || a->parts[p].arg != b->parts[p].arg) return false;
    return true;
}

static bool same_func(const WindowFunc *a, const WindowFunc *b)
{
    return a->kind == b->kind && a->order == b->order && a->arg == b->arg && a->n == b->n &&
           strcmp(a->name, b->name) == 0 && frame_equal(&a->frame, &b->frame) && same_parts(a, b);
}

static bool is_never_null(const WindowFunc *func)
{
    if (func->kind == WINDOW_AGGREGATE)
        return !func->built && (func->parts[0].kind == AGG_COUNT || func->parts[0].kind == AGG_COUNT_ALL);
    return func->kind <= WINDOW_CUME_DIST;
}

// The same function twice is computed once.
static weft_status add_func(Binder *binder, Block *block, WindowFunc *func, Expr **out)
{
    Windows   *windows = block->windows;
    const bool is_interval = func->type.kind == TYPE_INTERVAL;
    int        f = 0;
    if (is_interval) func->type = (Type){ TYPE_NUMERIC, 38, 0 };
    while (f < windows->n_funcs && !same_func(&windows->funcs[f], func)) f++;
    if (f == WINDOWS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, func->at,
                    "a query can have at most %d different window functions", WINDOWS_MAX);
    if (f == windows->n_funcs) {
        func->column = plan_add_column(binder->plan, func->type, func->name, NULL);
        if (is_never_null(func)) columns_add(binder->arena, &binder->not_null, func->column);
        if (is_interval) columns_add(binder->arena, &binder->intervals, func->column);
        *LIST_PUSH(binder->arena, windows->funcs, windows->n_funcs) = *func;
    }
    return term_of_column(binder, windows->funcs[f].column, func->at, out);
}

typedef struct PartBuilder { Binder *binder; Block *block; WindowFunc *func; } PartBuilder;

static weft_status add_part_of(const PartBuilder *builder, const Agg *agg, Expr **out)
{
    Binder     *binder = builder->binder;
    WindowFunc *func = builder->func;
    WindowPart  part = { .kind = agg->kind, .arg = -1, .type = agg->type };
    if (agg->arg) TRY(add_window_key(binder, builder->block, agg->arg, &part.arg));
    for (int p = 0; p < func->n_parts; p++)
        if (func->parts[p].kind == part.kind && func->parts[p].arg == part.arg) {
            *out = plan_column_expr(binder->plan, func->parts[p].column, func->at);
            return WEFT_OK;
        }
    part.column = plan_add_column(binder->plan, agg->type, agg_name(agg->kind), NULL);
    *LIST_PUSH(binder->arena, func->parts, func->n_parts) = part;
    *out = plan_column_expr(binder->plan, part.column, func->at);
    return WEFT_OK;
}

static weft_status add_window_part(void *context, AggKind kind, Expr *arg, Expr **out)
{
    const PartBuilder *builder = context;
    Agg                agg;
    TRY(expr_agg(kind, arg, builder->func->at, &agg, builder->binder->err));
    return add_part_of(builder, &agg, out);
}

static weft_status bind_window_agg(Binder *binder, Block *block, const PgQuery__FuncCall *call, const char *name,
                                   const Aggregate *aggregate, WindowFunc *func)
{
    PartBuilder parts = { binder, block, func };
    AggKind     kind = aggregate_is_built(aggregate) ? AGG_SUM : aggregate->kind;
    Expr       *args[2], *value;
    TRY(bind_agg_args(binder, call, name, aggregate, &kind, args));
    const bool is_interval = args[0] && args[0]->type.kind == TYPE_INTERVAL;
    if (is_interval && kind == AGG_COUNT)
        TRY(interval_as_length(binder->arena, args[0], func->at, &args[0], binder->err));
    else if (is_interval && aggregate_of_interval(name)) aggregate = aggregate_of_interval(name);
    TRY(aggregate_check(aggregate, name, args[0], func->at, binder->err));
    func->kind = WINDOW_AGGREGATE;
    if (aggregate_is_built(aggregate)) {
        const AggBuilder builder = { binder->arena, func->at, binder->err, add_window_part, &parts };
        TRY(aggregate_build(aggregate, &builder, args, &func->built));
        func->type = func->built->type;
        return term_stored(binder, func->built, &func->built);
    }
    const Agg agg = aggregate_make(aggregate, kind, args[0], func->at);
    func->type = agg.type;
    return add_part_of(&parts, &agg, &value);
}

static weft_status bind_joined(Binder *binder, Block *block, const PgQuery__FuncCall *call, WindowFunc *func)
{
    AggKind ignored = AGG_SUM;
    Expr   *args[2];
    TRY(bind_joined_args(binder, call, args));
    if (call->agg_filter) TRY(bind_agg_filter(binder, call->agg_filter, &ignored, &args[0]));
    func->kind = WINDOW_STRING_AGG, func->type = TYPE(TEXT);
    TRY(add_window_key(binder, block, args[0], &func->arg));
    return add_window_key(binder, block, args[1], &func->n);
}

static Type type_of_window(WindowKind kind, const Expr *arg)
{
    switch (kind) {
        case WINDOW_ROW_NUMBER: case WINDOW_RANK: case WINDOW_DENSE_RANK: return TYPE(BIGINT);
        case WINDOW_PERCENT_RANK: case WINDOW_CUME_DIST: return TYPE(DOUBLE);
        case WINDOW_NTILE: return TYPE(INTEGER);
        default: return arg->type;
    }
}

static weft_status no_such_window_function(Binder *binder, const PgQuery__FuncCall *call, const char *name)
{
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s with %zu argument%s does not exist", name,
         call->n_args, call->n_args == 1 ? "" : "s");
    return WEFT_UNDEFINED_FUNCTION;
}

// The count of lag, ntile and others.
static weft_status bind_n(Binder *binder, Block *block, const PgQuery__FuncCall *call, const char *name, Expr *n,
                          WindowFunc *func)
{
    char buffer[32];
    if (n->type.kind == TYPE_NULL) TRY(expr_coerce(binder->arena, n, TYPE(INTEGER), n->at, &n, binder->err));
    if (!type_is_integer(n->type))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s cannot take a %s", name,
                    type_name(n->type, buffer));
    return add_window_key(binder, block, n, &func->n);
}

// lag(x, n, other): other where the partition has no such row, which lag(1, n) tells.
static weft_status add_default(Binder *binder, Block *block, const WindowFunc *func, Expr *n, Expr *value, Expr *other,
                               Expr **out)
{
    WindowFunc found = *func;
    Expr      *is_there, *is_known, *args[3] = { NULL, other, value };
    found.type = TYPE(INTEGER);
    TRY(add_window_key(binder, block, term_integer(binder, 1, func->at), &found.arg));
    TRY(add_func(binder, block, &found, &is_there));
    TRY(bind_call(binder, OP_IS_NULL, is_there, NULL, func->at, &args[0]));
    if (!term_is_not_null(binder, n)) {
        TRY(bind_call(binder, OP_IS_NOT_NULL, n, NULL, func->at, &is_known));
        TRY(bind_call(binder, OP_AND, is_known, args[0], func->at, &args[0]));
    }
    return expr_case(binder->arena, args, 3, func->at, out, binder->err);
}

static weft_status bind_plain(Binder *binder, Block *block, const PgQuery__FuncCall *call, const WindowName *name,
                              WindowFunc *func, Expr **out)
{
    Expr     *args[3] = { 0 };
    const int n_args = (int)call->n_args;
    if (n_args < name->n_least || n_args > name->n_most || call->agg_star)
        return no_such_window_function(binder, call, name->name);
    for (int i = 0; i < n_args; i++) TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    func->kind = name->kind;
    if (name->kind == WINDOW_NTILE) TRY(bind_n(binder, block, call, name->name, args[0], func));
    if (n_args > 1) TRY(bind_n(binder, block, call, name->name, args[1], func));
    if (name->kind != WINDOW_NTILE && n_args) {
        if (n_args == 3) {
            Expr *both[2] = { args[0], args[2] };
            TRY(expr_unify(binder->arena, both, 2, 1, name->name, call->location, binder->err));
            args[0] = both[0], args[2] = both[1];
        }
        Expr *stored;
        TRY(bind_settle(binder, args[0], &args[0]));
        TRY(term_stored(binder, args[0], &stored));
        TRY(add_window_key(binder, block, stored, &func->arg));
    }
    func->type = type_of_window(name->kind, args[0]);
    TRY(add_func(binder, block, func, out));
    if (n_args < 3) return WEFT_OK;
    TRY(bind_settle(binder, args[2], &args[2]));
    return add_default(binder, block, func, args[1], *out, args[2], out);
}

static weft_status check_place(Binder *binder, const PgQuery__FuncCall *call)
{
    const Place *place = &binder->place;
    if (place->in_agg)
        return fail(binder->err, WEFT_GROUPING_ERROR, call->location,
                    "aggregate function calls cannot contain window function calls");
    if (place->in_window)
        return fail(binder->err, WEFT_WINDOWING_ERROR, call->location, "window function calls cannot be nested");
    if (!place->allows_windows || !place->block)
        return fail(binder->err, WEFT_WINDOWING_ERROR, call->location, "window functions are not allowed in %s",
                    place->clause ? place->clause : "this context");
    return WEFT_OK;
}

static weft_status refuse_options(Binder *binder, const PgQuery__FuncCall *call, const char *name, bool is_agg)
{
    const int at = call->location;
    if (call->agg_within_group)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "OVER is not supported for ordered-set aggregate %s", name);
    if (call->agg_distinct)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "DISTINCT is not implemented for window functions");
    if (call->n_agg_order)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "aggregate ORDER BY is not implemented for window functions");
    if (call->agg_filter && !is_agg)
        return fail(binder->err, WEFT_UNSUPPORTED, at,
                    "FILTER is not implemented for non-aggregate window functions");
    if (call->func_variadic) return refuse(binder, at, "VARIADIC");
    return WEFT_OK;
}

weft_status bind_window(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const Aggregate  *aggregate = aggregate_find(name);
    const WindowName *window = window_find(name);
    const Place       place = binder->place;
    const bool        is_joined = strcmp(name, "string_agg") == 0;
    Block            *block = place.block;
    BoundWindow       over;
    WindowFunc        func = { .arg = -1, .n = -1, .name = arena_strdup(binder->arena, name), .at = call->location };
    if (!aggregate && !window && !is_joined)
        return fail(binder->err, WEFT_WRONG_OBJECT, call->location,
                    "OVER specified, but %s is not a window function nor an aggregate function", name);
    TRY(check_place(binder, call));
    TRY(refuse_options(binder, call, name, aggregate || is_joined));
    binder->place.in_window = true;
    if (aggregate) TRY(bind_window_agg(binder, block, call, name, aggregate, &func));
    if (is_joined) TRY(bind_joined(binder, block, call, &func));
    binder->place = place;
    TRY(bind_over(binder, block, call->over, &over));
    func.order = over.order, func.frame = over.frame;
    if (aggregate || is_joined) return add_func(binder, block, &func, out);
    binder->place.in_window = true;
    TRY(bind_plain(binder, block, call, window, &func, out));
    binder->place = place;
    return WEFT_OK;
}

// ---- the node -------------------------------------------------------------------------------------------------------

bool is_window_column(const Block *block, int column)
{
    for (int f = 0; block->windows && f < block->windows->n_funcs; f++)
        if (block->windows->funcs[f].column == column) return true;
    return false;
}

bool has_window(const Block *block, const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) return is_window_column(block, expr->column);
    for (int i = 0; i < expr->n_args; i++)
        if (has_window(block, expr->args[i])) return true;
    return false;
}

typedef struct Lift { Expr **exprs; int *columns; int n; } Lift;       // what is computed below the window

// An interval becomes its number.
static weft_status lift_whole(Binder *binder, Lift *lift, Expr *expr, Expr **out)
{
    const bool is_interval = expr->type.kind == TYPE_INTERVAL;
    int        n_columns = lift->n;
    if (is_interval) TRY(term_stored(binder, expr, &expr));
    if (is_interval && !expr_is_interpreted(expr)) return WEFT_OK;
    const int column = term_column(binder, expr, "?lifted?");
    if (is_interval) columns_add(binder->arena, &binder->intervals, column);
    *LIST_PUSH(binder->arena, lift->columns, n_columns) = column;
    *LIST_PUSH(binder->arena, lift->exprs, lift->n) = expr;
    return term_of_column(binder, column, expr->at, out);
}

// What only the interpreter computes is computed above groups and below the window; kernels do the rest above it.
static weft_status lift_interpreted(Binder *binder, const Block *block, Lift *lift, Expr *expr, Expr **out)
{
    *out = expr;
    if (!expr_is_interpreted(expr)) return WEFT_OK;
    if (!has_window(block, expr)) return lift_whole(binder, lift, expr, out);
    Expr *copy = arena_make(binder->arena, Expr);
    *copy = *expr;
    copy->args = arena_array(binder->arena, Expr *, expr->n_args);
    for (int i = 0; i < expr->n_args; i++)
        TRY(lift_interpreted(binder, block, lift, expr->args[i], &copy->args[i]));
    *out = copy;
    return WEFT_OK;
}

static weft_status build_lifted(Binder *binder, Block *block)
{
    Lift lift = { 0 };
    for (int c = 0; c < block->node->n_out; c++) {
        int n_columns = lift.n;
        *LIST_PUSH(binder->arena, lift.columns, n_columns) = block->node->out[c];
        *LIST_PUSH(binder->arena, lift.exprs, lift.n) = plan_column_expr(binder->plan, block->node->out[c], -1);
    }
    const int n_passed = lift.n;
    for (int i = 0; i < block->n_outputs; i++)
        TRY(lift_interpreted(binder, block, &lift, block->outputs[i].expr, &block->outputs[i].expr));
    if (lift.n > n_passed) block->node = plan_project(binder->plan, block->node, lift.exprs, lift.columns, lift.n);
    return WEFT_OK;
}

// Its argument, or what it is compared with inside.
static bool mark_has_window(const Binder *binder, const Block *block, const Mark *mark)
{
    ColumnSet columns = { 0 };
    mark_columns(binder->arena, mark, &columns);
    for (int column = columns_next(&columns, -1); column >= 0; column = columns_next(&columns, column))
        if (is_window_column(block, column)) return true;
    return false;
}

weft_status build_windows(Binder *binder, Block *block)
{
    Windows *windows = block->windows;
    if (!windows || !windows->n_funcs) return WEFT_OK;
    for (int m = 0; m < block->n_marks; m++)
        if (block->marks[m].kind == MARK_ROWS)
            return refuse(binder, block->marks[m].at, "a set-returning function beside a window function");
    for (int m = 0; m < block->n_marks; m++)
        if (mark_has_window(binder, block, &block->marks[m]))
            return refuse(binder, block->marks[m].at, "a window function before IN (subquery)");
    for (int k = 0; k < block->n_window_keys; k++)
        TRY(bind_values_of_marks(binder, block, block->window_keys[k], &block->window_keys[k]));
    if (block->is_grouped) TRY(build_lifted(binder, block));
    block->node = plan_window(binder->plan, block->node, block->window_keys, block->n_window_keys, windows);
    block->node->at = windows->funcs[0].at;
    return WEFT_OK;
}
