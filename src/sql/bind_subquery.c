// bind_subquery.c - subqueries in expressions.
//
//     (select max(a) from u)      a parameter of the plan: known before the rows are read
//     case ... then (select a ...)    its first row, once a count of its rows has shown that there is no other: that
//                                 is an error where the branch is taken, and only there
//     exists (select ...)         $1 > 0, where $1 counts the rows of the subquery's first one
//     x in (select y ...)         a join (bind_mark.c)
//     x < any (select y ...)      a question to the largest y, to how many there are, and to how many are NULL:
//                                 case when x < $max then true when x is null and $rows > 0 or $rows > $values
//                                 then null else false end
//     x < all (select y ...)      not x >= any (select y ...)
//
// A subquery that names columns of a query around it has no value of its own: it is joined, too.
// Not done: rows with other operators, (a, b) = (select ...).

#include "plan/functions.h"
#include "sql/sql_int.h"

static weft_status bind_inner(Binder *binder, const PgQuery__SubLink *link, Bound *bound)
{
    const Place place = binder->place;
    const Place *const asked = place.block ? place.block->asks : NULL;
    const int   first = binder->n_named;
    binder->place.keeps_literals = false;
    if (place.block) place.block->asks = &place;
    TRY(binder->bind_query(binder, link->subselect->select_stmt, bound));      // it puts the place back
    if (place.block) place.block->asks = asked;
    binder->place = place;
    for (int i = first; i < binder->n_named; i++)
        if (binder->named[i].owner == place.block) binder->named[i].subquery = link->location;
    binder->plan->is_correlated |= bound->is_correlated;
    if (!bound->is_correlated || place.block) return WEFT_OK;
    return fail(binder->err, WEFT_UNSUPPORTED, link->location, "a correlated subquery in %s is not supported yet",
                place.clause);
}

static weft_status bind_exists(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    Bound     bound;
    Expr     *count;
    TRY(bind_inner(binder, link, &bound));
    if (bound.is_correlated) return add_mark(binder, (Mark){ .kind = MARK_EXISTS, .rows = bound.node, .at = at }, out);
    TRY(agg_param(binder, plan_limit(binder->plan, bound.node, 1, 0), AGG_COUNT_ALL, NULL, at, &count));
    return bind_call(binder, OP_GT, count, term_integer(binder, 0, at), at, out);
}

// ---- one value ------------------------------------------------------------------------------------------------------

static bool gives_one_row(const Node *node)
{
    while (node->kind == NODE_PROJECT || node->kind == NODE_SORT) node = node->inputs[0];
    return (node->kind == NODE_AGGREGATE && !node->n_keys) ||
           (node->kind == NODE_LIMIT && node->limit >= 0 && node->limit <= 1) ||
           (node->kind == NODE_VALUES && node->n_rows <= 1);
}

// A total of ROWS as a mark: the value of any of them, or how many there are.
static weft_status total_as_mark(Binder *binder, AggKind kind, Node *rows, int at, Expr **out)
{
    const int first = rows->out[0];
    Expr     *arg = kind == AGG_COUNT_ALL ? NULL : plan_column_expr(binder->plan, first, at);
    Agg      *agg = arena_make(binder->arena, Agg);
    TRY(expr_agg(kind, arg, at, agg, binder->err));
    const int column = plan_add_column(binder->plan, agg->type, binder->plan->columns[first].name, NULL);
    if (arg && columns_has(&binder->intervals, first)) columns_add(binder->arena, &binder->intervals, column);
    Node *total = plan_aggregate(binder->plan, rows, NULL, NULL, 0, agg, &column, 1);
    return add_mark(binder, (Mark){ .kind = MARK_VALUE, .rows = total, .at = at }, out);
}

// The first of ROWS, which do not depend on the row that asks, as a parameter; and how many there are, up to two.
static weft_status row_as_params(Binder *binder, Node *rows, int at, Expr **value, Expr **count)
{
    Plan      *plan = binder->plan;
    Shared    *shared = plan_share(plan, rows, "subquery");
    Node      *first = plan_limit(plan, plan_reference(plan, shared, "subquery", at), 1, 0);
    const bool is_interval = columns_has(&binder->intervals, rows->out[0]);
    *value = param_for(binder, plan->columns[first->out[0]].type, first, at);
    if (is_interval) TRY(interval_of_stored(binder->arena, *value, at, value, binder->err));
    Node *two = plan_limit(plan, plan_reference(plan, shared, "subquery", at), 2, 0);
    return agg_param(binder, two, AGG_COUNT_ALL, NULL, at, count);
}

// case when one_row(count) < 2 then value end: what fails is asked where the value is, and nowhere else.
static weft_status bind_lazy(Binder *binder, Node *rows, bool is_correlated, int at, Expr **out)
{
    Expr *value, *count, *args[3];
    Node *again;
    if (is_correlated) {
        TRY(copy_rows(binder, rows, at, &again));
        TRY(total_as_mark(binder, AGG_ANY, rows, at, &value));
        TRY(total_as_mark(binder, AGG_COUNT_ALL, again, at, &count));
    } else {
        TRY(row_as_params(binder, rows, at, &value, &count));
    }
    TRY(expr_call(binder->arena, function_find_hidden("one_row"), &count, 1, at, &count, binder->err));
    TRY(bind_call(binder, OP_LT, count, term_integer(binder, 2, at), at, &args[0]));
    args[1] = value, args[2] = term_null(binder, at);
    return expr_case(binder->arena, args, 3, at, out, binder->err);
}

static weft_status bind_scalar(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    Bound     bound;
    TRY(bind_inner(binder, link, &bound));
    if (bound.n_columns != 1)
        return fail(binder->err, WEFT_SYNTAX_ERROR, at, "subquery must return only one column");
    Node *rows = visible_rows(binder, &bound);
    if (binder->place.is_lazy && !gives_one_row(rows)) return bind_lazy(binder, rows, bound.is_correlated, at, out);
    if (bound.is_correlated) return add_mark(binder, (Mark){ .kind = MARK_VALUE, .rows = rows, .at = at }, out);
    *out = param_for(binder, binder->plan->columns[rows->out[0]].type, rows, at);
    return columns_has(&binder->intervals, rows->out[0]) ? interval_of_stored(binder->arena, *out, at, out, binder->err)
                                                         : WEFT_OK;
}

// x, and the rows of one column that it is compared with by OP.
static weft_status bind_compared(Binder *binder, const PgQuery__SubLink *link, Op op, Expr **arg, Bound *bound,
                                 Node **rows)
{
    const int at = link->location;
    Expr     *compared;
    if (!binder->place.block)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "IN (subquery) in %s is not supported yet",
                    binder->place.clause);
    TRY(binder->bind_expr(binder, link->testexpr, arg));
    TRY(bind_inner(binder, link, bound));
    if (bound->n_columns != 1) return fail(binder->err, WEFT_SYNTAX_ERROR, at, "subquery has too many columns");
    *rows = visible_rows(binder, bound);
    TRY(term_of_column(binder, (*rows)->out[0], at, &compared));
    return bind_call(binder, op, *arg, compared, at, &compared);
}

// (a, b) in (select c, d ...): the fields, and rows of as many columns.
static weft_status bind_row_in(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const PgQuery__RowExpr *row = link->testexpr->row_expr;
    const int at = link->location, n = (int)row->n_args;
    Mark      mark = { .kind = MARK_IN, .at = at, .n_args = n, .args = arena_array(binder->arena, Expr *, n + 1) };
    Bound     bound;
    Expr     *equal;
    if (!binder->place.block)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "IN (subquery) in %s is not supported yet",
                    binder->place.clause);
    for (int i = 0; i < n; i++) TRY(binder->bind_expr(binder, row->args[i], &mark.args[i]));
    TRY(bind_inner(binder, link, &bound));
    if (bound.n_columns != n || n == 0)
        return fail(binder->err, WEFT_SYNTAX_ERROR, at, "subquery has too %s columns",
                    bound.n_columns > n ? "many" : "few");
    mark.rows = visible_rows(binder, &bound);
    for (int i = 0; i < n; i++) {
        TRY(term_of_column(binder, mark.rows->out[i], at, &equal));
        TRY(bind_call(binder, OP_EQ, mark.args[i], equal, at, &equal));
    }
    return add_mark(binder, mark, out);
}

static weft_status bind_in(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    Mark  mark = { .kind = MARK_IN, .at = link->location, .n_args = 1 };
    Bound bound;
    if (is_row(link->testexpr)) return bind_row_in(binder, link, out);
    mark.args = arena_array(binder->arena, Expr *, 1);
    TRY(bind_compared(binder, link, OP_EQ, &mark.args[0], &bound, &mark.rows));
    return add_mark(binder, mark, out);
}

// ---- ANY and ALL ----------------------------------------------------------------------------------------------------

typedef struct Extremes { Expr *low, *high, *n_rows, *n_values; } Extremes;      // of a subquery's only column

// Whether X stands in that relation to one value at least: to the one that makes it easiest.
static weft_status compare_extremes(Binder *binder, Op op, Expr *x, const Extremes *extremes, int at, Expr **out)
{
    Expr *low, *high;
    if (op == OP_LT || op == OP_LE) return bind_call(binder, op, x, extremes->high, at, out);
    if (op == OP_GT || op == OP_GE) return bind_call(binder, op, x, extremes->low, at, out);
    TRY(bind_call(binder, OP_NE, x, extremes->low, at, &low));
    TRY(bind_call(binder, OP_NE, x, extremes->high, at, &high));
    return bind_call(binder, OP_OR, low, high, at, out);
}

static weft_status value_of_any(Binder *binder, Op op, Expr *x, const Extremes *extremes, int at, Expr **out)
{
    Expr *args[5], *is_null, *has_rows, *asks_null, *has_nulls;
    TRY(compare_extremes(binder, op, x, extremes, at, &args[0]));
    TRY(bind_call(binder, OP_IS_NULL, x, NULL, at, &is_null));
    TRY(bind_call(binder, OP_GT, extremes->n_rows, term_integer(binder, 0, at), at, &has_rows));
    TRY(bind_call(binder, OP_AND, is_null, has_rows, at, &asks_null));
    TRY(bind_call(binder, OP_GT, extremes->n_rows, extremes->n_values, at, &has_nulls));
    TRY(bind_call(binder, OP_OR, asks_null, has_nulls, at, &args[2]));
    args[1] = term_boolean(binder, true, at);
    args[3] = term_null(binder, at);
    args[4] = term_boolean(binder, false, at);
    return expr_case(binder->arena, args, 5, at, out, binder->err);
}

enum { EXTREMES = 4 };
static const AggKind extreme_kinds[EXTREMES] = { AGG_MIN, AGG_MAX, AGG_COUNT_ALL, AGG_COUNT };

static bool needs_extreme(Op op, AggKind kind)
{
    if (kind == AGG_MIN) return op != OP_LT && op != OP_LE;
    return kind != AGG_MAX || (op != OP_GT && op != OP_GE);
}

// Of intervals the least and the largest are numbers so far.
static weft_status show_extremes(Binder *binder, int at, Expr *extremes[EXTREMES])
{
    for (int i = 0; i < 2; i++)
        if (extremes[i]) TRY(interval_of_stored(binder->arena, extremes[i], at, &extremes[i], binder->err));
    return WEFT_OK;
}

// Parameters: the rows are shared.
static weft_status extremes_as_params(Binder *binder, Op op, Node *rows, int at, Expr *extremes[EXTREMES])
{
    Shared *shared = plan_share(binder->plan, rows, "subquery");
    for (int i = 0; i < EXTREMES; i++) {
        if (!needs_extreme(op, extreme_kinds[i])) continue;
        Node *use = plan_reference(binder->plan, shared, "subquery", at);
        Expr *arg = extreme_kinds[i] == AGG_COUNT_ALL ? NULL : plan_column_expr(binder->plan, use->out[0], at);
        TRY(agg_param(binder, use, extreme_kinds[i], arg, at, &extremes[i]));
    }
    return WEFT_OK;
}

// Columns of one total over ROWS, which it becomes.
static weft_status extremes_as_total(Binder *binder, Node **rows, int at, Expr *extremes[EXTREMES])
{
    Plan *plan = binder->plan;
    Agg  *aggs = arena_array(binder->arena, Agg, EXTREMES);
    int   columns[EXTREMES];
    for (int i = 0; i < EXTREMES; i++) {
        Expr *arg = extreme_kinds[i] == AGG_COUNT_ALL ? NULL : plan_column_expr(plan, (*rows)->out[0], at);
        TRY(expr_agg(extreme_kinds[i], arg, at, &aggs[i], binder->err));
        columns[i] = plan_add_column(plan, aggs[i].type, "extreme", NULL);
        extremes[i] = plan_column_expr(plan, columns[i], at);
    }
    *rows = plan_aggregate(plan, *rows, NULL, NULL, 0, aggs, columns, EXTREMES);
    return WEFT_OK;
}

static weft_status bind_any(Binder *binder, const PgQuery__SubLink *link, Op op, Expr **out)
{
    const int at = link->location;
    Bound     bound;
    Expr     *x, *list[EXTREMES] = { 0 }, *value;
    Node     *rows;
    TRY(bind_compared(binder, link, op, &x, &bound, &rows));
    const bool is_interval = columns_has(&binder->intervals, rows->out[0]);
    if (bound.is_correlated) TRY(extremes_as_total(binder, &rows, at, list));
    else TRY(extremes_as_params(binder, op, rows, at, list));
    if (is_interval) TRY(show_extremes(binder, at, list));
    const Extremes extremes = { list[0], list[1], list[2], list[3] };
    TRY(value_of_any(binder, op, x, &extremes, at, &value));
    TRY(bind_count(binder, value));
    *out = value;
    if (!bound.is_correlated) return WEFT_OK;
    const char *name = "any";
    Expr      **exprs = arena_array(binder->arena, Expr *, 1);
    exprs[0] = value;
    rows = term_project(binder, rows, exprs, &name, 1);
    return add_mark(binder, (Mark){ .kind = MARK_VALUE, .rows = rows, .at = at }, out);
}

// ---- all kinds ------------------------------------------------------------------------------------------------------

// IN has no operator; it is = ANY.  OP_N: one that does not compare.
static Op compares_by(const PgQuery__SubLink *link)
{
    static const struct { const char *name; Op op; } names[] = {
        { "=", OP_EQ }, { "<>", OP_NE }, { "<", OP_LT }, { "<=", OP_LE }, { ">", OP_GT }, { ">=", OP_GE },
    };
    const char *own = link->n_oper_name ? node_string(link->oper_name[link->n_oper_name - 1]) : "=";
    for (int i = 0; own && i < COUNT_OF(names); i++)
        if (strcmp(own, names[i].name) == 0) return names[i].op;
    return OP_N;
}

static Op opposite(Op op)
{
    static const Op others[OP_N] = {
        [OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE, [OP_LE] = OP_GT, [OP_GT] = OP_LE, [OP_GE] = OP_LT
    };
    return others[op];
}

static weft_status bind_quantified(Binder *binder, const PgQuery__SubLink *link, bool is_all, Expr **out)
{
    Op op = compares_by(link);
    if (op == OP_N) return refuse(binder, link->location, "ANY or ALL (subquery) with this operator");
    if (is_all) op = opposite(op);
    if (op != OP_EQ && is_row(link->testexpr))
        return refuse(binder, link->location, "this comparison of a row with a subquery");
    if (op == OP_EQ) TRY(bind_in(binder, link, out));
    else TRY(bind_any(binder, link, op, out));
    return is_all ? bind_call(binder, OP_NOT, *out, NULL, link->location, out) : WEFT_OK;
}

weft_status bind_subquery(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    switch (link->sub_link_type) {
        case PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK: return bind_exists(binder, link, out);
        case PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK:   return bind_scalar(binder, link, out);
        case PG_QUERY__SUB_LINK_TYPE__ANY_SUBLINK:    return bind_quantified(binder, link, false, out);
        case PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK:    return bind_quantified(binder, link, true, out);
        case PG_QUERY__SUB_LINK_TYPE__ARRAY_SUBLINK:  return refuse(binder, at, "ARRAY (subquery)");
        default:                                      return refuse(binder, at, "(a, b) = (subquery)");
    }
}
