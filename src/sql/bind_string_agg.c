// bind_string_agg.c - string_agg(text, delimiter [order by ...]): an aggregate that no accumulator computes.
//
// A window below the groups joins the texts of a group, and the group takes what any of its rows has:
//
//     string_agg(x, ',' order by y)     group by g
//     window s = string_agg(x, ',') over (partition by g order by y range between unbounded preceding and unbounded
//         following)
//     any(s)
//
// FILTER makes texts NULL, which are skipped.  DISTINCT orders by the text, so that equal ones are neighbours.  Each of
// several GROUPING SETS has a window of its own (bind_sets.c).

#include "plan/window.h"
#include "sql/sql_int.h"

typedef struct JoinedKey { Expr *expr; bool descending, nulls_first; } JoinedKey;

struct JoinedText {
    Expr      *value, *delimiter;
    bool       is_distinct;
    JoinedKey *order;
    int        n_order;
    int        column, at;             // what the window gives
};

typedef struct JoinedText JoinedText;

// ---- the call -------------------------------------------------------------------------------------------------------

static bool same_joined(const JoinedText *a, const JoinedText *b)
{
    if (a->is_distinct != b->is_distinct || a->n_order != b->n_order || !expr_equal(a->value, b->value) ||
        !expr_equal(a->delimiter, b->delimiter))
        return false;
    for (int k = 0; k < a->n_order; k++)
        if (a->order[k].descending != b->order[k].descending || a->order[k].nulls_first != b->order[k].nulls_first ||
            !expr_equal(a->order[k].expr, b->order[k].expr))
            return false;
    return true;
}

static weft_status bind_joined_order(Binder *binder, const PgQuery__FuncCall *call, JoinedText *text)
{
    TRY(check_list_length(binder, "ORDER BY", call->n_agg_order));
    for (size_t i = 0; i < call->n_agg_order; i++) {
        const PgQuery__SortBy *by = call->agg_order[i]->sort_by;
        SortItem               item;
        JoinedKey              key;
        TRY(sort_direction(binder, by, &item));
        key = (JoinedKey){ .descending = item.descending, .nulls_first = item.nulls_first };
        TRY(binder->bind_expr(binder, by->node, &key.expr));
        TRY(bind_settle(binder, key.expr, &key.expr));
        TRY(bind_count(binder, key.expr));
        if (key.expr->type.kind == TYPE_INTERVAL)
            TRY(interval_as_length(binder->arena, key.expr, key.expr->at, &key.expr, binder->err));
        *LIST_PUSH(binder->arena, text->order, text->n_order) = key;
    }
    return WEFT_OK;
}

// The delimiter is a constant, so the text alone tells calls apart.
static weft_status order_by_text(Binder *binder, JoinedText *text)
{
    bool has_text = false;
    if (!expr_is_const(text->delimiter))
        return refuse(binder, text->at, "string_agg(DISTINCT) with a delimiter that is not a constant");
    for (int k = 0; k < text->n_order; k++) {
        has_text |= expr_equal(text->order[k].expr, text->value);
        if (!expr_equal(text->order[k].expr, text->value) && !expr_equal(text->order[k].expr, text->delimiter))
            return fail(binder->err, WEFT_INVALID_REFERENCE, text->order[k].expr->at,
                        "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list");
    }
    if (!has_text) *LIST_PUSH(binder->arena, text->order, text->n_order) = (JoinedKey){ .expr = text->value };
    return WEFT_OK;
}

static const JoinedText *add_joined(Binder *binder, Block *block, JoinedText wanted)
{
    for (int i = 0; i < block->n_joined; i++)
        if (same_joined(&block->joined[i], &wanted)) return &block->joined[i];
    wanted.column = plan_add_column(binder->plan, TYPE(TEXT), "string_agg", NULL);
    *LIST_PUSH(binder->arena, block->joined, block->n_joined) = wanted;
    return &block->joined[block->n_joined - 1];
}

static weft_status bind_joined_call(Binder *binder, const PgQuery__FuncCall *call, JoinedText *wanted)
{
    AggKind ignored = AGG_SUM;
    Expr   *args[2];
    *wanted = (JoinedText){ .is_distinct = call->agg_distinct, .at = call->location };
    TRY(bind_joined_args(binder, call, args));
    wanted->value = args[0], wanted->delimiter = args[1];
    TRY(bind_joined_order(binder, call, wanted));
    if (wanted->is_distinct) TRY(order_by_text(binder, wanted));
    return call->agg_filter ? bind_agg_filter(binder, call->agg_filter, &ignored, &wanted->value) : WEFT_OK;
}

// All that it looks at.
static Expr **exprs_of(Binder *binder, const JoinedText *text, int *n)
{
    Expr **exprs = arena_array(binder->arena, Expr *, text->n_order + 2);
    exprs[0] = text->value, exprs[1] = text->delimiter, *n = text->n_order + 2;
    for (int k = 0; k < text->n_order; k++) exprs[k + 2] = text->order[k].expr;
    return exprs;
}

weft_status bind_string_agg(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    JoinedText wanted;
    AggPlace   place;
    Expr     **exprs;
    int        n;
    TRY(begin_agg(binder, call->location, &place));
    TRY(bind_joined_call(binder, call, &wanted));
    exprs = exprs_of(binder, &wanted, &n);
    if (again_for_owner(binder, &place, exprs, n)) {
        TRY(bind_joined_call(binder, call, &wanted));
        exprs = exprs_of(binder, &wanted, &n);
    }
    TRY(end_agg(binder, &place, exprs, n));
    const JoinedText *text = add_joined(binder, place.owner, wanted);
    const Agg         agg = { .kind = AGG_ANY, .type = TYPE(TEXT), .at = call->location,
                              .arg = plan_column_expr(binder->plan, text->column, call->location) };
    return bind_add_agg(binder, place.owner, &agg, "string_agg", out);
}

// ---- the window -----------------------------------------------------------------------------------------------------

weft_status settle_joined(Binder *binder, Block *block)
{
    for (int i = 0; i < block->n_joined; i++) {
        JoinedText *text = &block->joined[i];
        TRY(bind_values_of_marks(binder, block, text->value, &text->value));
        TRY(bind_values_of_marks(binder, block, text->delimiter, &text->delimiter));
        for (int k = 0; k < text->n_order; k++)
            TRY(bind_values_of_marks(binder, block, text->order[k].expr, &text->order[k].expr));
    }
    return WEFT_OK;
}

void joined_columns(Binder *binder, const Block *block, ColumnSet *named, ColumnSet *made)
{
    for (int i = 0; i < block->n_joined; i++) {
        const JoinedText *text = &block->joined[i];
        columns_add_expr(binder->arena, named, text->value);
        columns_add_expr(binder->arena, named, text->delimiter);
        for (int k = 0; k < text->n_order; k++) columns_add_expr(binder->arena, named, text->order[k].expr);
        columns_add(binder->arena, made, text->column);
    }
}

static weft_status list_text(WindowList *list, const JoinedText *text)
{
    Binder  *binder = list->binder;
    SortKey *keys = arena_array(binder->arena, SortKey, text->n_order + 1);
    Expr    *value, *delimiter, *by;
    Frame    frame = frame_default();
    frame.end.edge = EDGE_LAST;
    TRY(rows_expr(binder, list->rows, text->value, &value));
    TRY(rows_expr(binder, list->rows, text->delimiter, &delimiter));
    for (int k = 0; k < text->n_order; k++) {
        TRY(rows_expr(binder, list->rows, text->order[k].expr, &by));
        keys[k] = (SortKey){ list_key(list, by), text->order[k].descending, text->order[k].nulls_first };
    }
    const WindowFunc func = { .kind = WINDOW_STRING_AGG, .type = TYPE(TEXT),
                              .column = rows_new_column(binder, list->rows, text->column),
                              .order = list_order(list, keys, text->n_order, 0), .arg = list_key(list, value),
                              .n = list_key(list, delimiter), .is_distinct = text->is_distinct,
                              .frame = frame, .name = "string_agg", .at = text->at };
    *LIST_PUSH(binder->arena, list->windows->funcs, list->windows->n_funcs) = func;
    return WEFT_OK;
}

weft_status build_joined(Binder *binder, const Block *block, GroupRows *rows)
{
    WindowList list = start_list(binder, rows);
    for (int i = 0; i < block->n_joined; i++) TRY(list_text(&list, &block->joined[i]));
    close_list(&list);
    return WEFT_OK;
}
