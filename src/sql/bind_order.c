// bind_order.c - outputs, by name and by number; ORDER BY, DISTINCT ON and LIMIT.
//
// ORDER BY and GROUP BY read names as PostgreSQL does: ORDER BY tries output names first, GROUP BY columns first.  What
// is sorted by and not shown becomes an output behind the visible ones.  A set operation is sorted by outputs alone.

#include "sql/sql_int.h"

// ---- outputs --------------------------------------------------------------------------------------------------------

weft_status add_output(Binder *binder, Block *block, Expr *expr, const char *name)
{
    Expr *literal = NULL;
    if (block->n_outputs == OUTPUTS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, expr->at, "target lists can have at most %d entries",
                    OUTPUTS_MAX);
    if (block->keeps_literals && expr->type.kind == TYPE_NULL && expr_is_const(expr)) literal = expr;
    TRY(bind_settle(binder, expr, &expr));
    TRY(bind_count(binder, expr));
    *LIST_PUSH(binder->arena, block->outputs, block->n_outputs) =
        (Output){ .expr = expr, .name = name, .literal = literal };
    return WEFT_OK;
}

// Each is compared with all before it, so there must not be too many.
weft_status check_list_length(Binder *binder, const char *clause, size_t n)
{
    if (n <= OUTPUTS_MAX) return WEFT_OK;
    return fail(binder->err, WEFT_TOO_MANY_COLUMNS, -1, "%s can have at most %d expressions", clause, OUTPUTS_MAX);
}

// ORDER BY 2: *OUTPUT is 1.  -1 when the node is no constant.
weft_status output_by_number(Binder *binder, const Block *block, const ParseNode *node, const char *clause, int *output)
{
    *output = -1;
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST) return WEFT_OK;
    const PgQuery__AConst *constant = node->a_const;
    if (constant->isnull || constant->val_case != PG_QUERY__A__CONST__VAL_IVAL)
        return fail(binder->err, WEFT_SYNTAX_ERROR, constant->location, "non-integer constant in %s", clause);
    *output = constant->ival->ival - 1;
    if (constant->ival->ival >= 1 && constant->ival->ival <= block->n_visible) return WEFT_OK;
    return fail(binder->err, WEFT_INVALID_REFERENCE, constant->location, "%s position %d is not in select list", clause,
                constant->ival->ival);
}

// -1 when no output has the name.  Two outputs of one name are fine when they are the same.
weft_status output_by_name(Binder *binder, const Block *block, const ParseNode *node, const char *clause, int *output)
{
    const char *name = bare_name(node);
    *output = -1;
    for (int i = 0; name && i < block->n_visible; i++) {
        if (strcmp(block->outputs[i].name, name) != 0) continue;
        if (*output >= 0 && !expr_equal(block->outputs[*output].expr, block->outputs[i].expr))
            return fail(binder->err, WEFT_AMBIGUOUS_COLUMN, node_at(node), "%s \"%s\" is ambiguous", clause, name);
        if (*output < 0) *output = i;
    }
    return WEFT_OK;
}

// ---- ORDER BY -------------------------------------------------------------------------------------------------------

static weft_status refuse_set_order(Binder *binder, const ParseNode *node)
{
    fail(binder->err, WEFT_UNSUPPORTED, node_at(node), "invalid UNION/INTERSECT/EXCEPT ORDER BY clause");
    error_hint(binder->err, "Only result column names can be used. Add the expression to every SELECT, or move the "
                            "UNION into a FROM clause.");
    return WEFT_UNSUPPORTED;
}

static weft_status sort_output(Binder *binder, Block *block, const ParseNode *node, int *output)
{
    const char *clause = binder->place.clause;
    Expr       *expr;
    TRY(output_by_number(binder, block, node, clause, output));
    if (*output < 0) TRY(output_by_name(binder, block, node, clause, output));
    if (*output >= 0) return WEFT_OK;
    TRY(bind_expr(binder, node, &expr));
    if (block->is_set) return refuse_set_order(binder, node);
    TRY(bind_settle(binder, expr, &expr));
    for (*output = 0; *output < block->n_outputs; ++*output)
        if (expr_equal(block->outputs[*output].expr, expr)) return WEFT_OK;
    return add_output(binder, block, expr, "?sort?");
}

static void add_sort_item(Binder *binder, Block *block, SortItem item)
{
    for (int i = 0; i < block->n_sort; i++)
        if (block->sort[i].output == item.output) return;                      // equal rows are equal in any direction
    *LIST_PUSH(binder->arena, block->sort, block->n_sort) = item;
}

weft_status sort_direction(Binder *binder, const PgQuery__SortBy *by, SortItem *item)
{
    *item = (SortItem){ .descending = by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_DESC };
    if (by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_USING)
        return refuse(binder, node_at(by->node), "ORDER BY USING");
    item->nulls_first = item->descending;
    if (by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_FIRST) item->nulls_first = true;
    if (by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_LAST) item->nulls_first = false;
    return WEFT_OK;
}

static weft_status bind_sort_item(Binder *binder, Block *block, const PgQuery__SortBy *by)
{
    SortItem item;
    TRY(sort_direction(binder, by, &item));
    TRY(sort_output(binder, block, by->node, &item.output));
    if (block->is_distinct && item.output >= block->n_visible)
        return fail(binder->err, WEFT_INVALID_REFERENCE, node_at(by->node),
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list");
    add_sort_item(binder, block, item);
    return WEFT_OK;
}

// ---- DISTINCT ON ----------------------------------------------------------------------------------------------------

static bool is_among(const int *outputs, int n_outputs, int output)
{
    for (int i = 0; i < n_outputs; i++)
        if (outputs[i] == output) return true;
    return false;
}

static bool is_sorted_by(const Block *block, int n_sort, int output)
{
    for (int i = 0; i < n_sort; i++)
        if (block->sort[i].output == output) return true;
    return false;
}

// ORDER BY begins with the expressions of ON, in any order, or ends before it has had them all.
static weft_status match_distinct_on(Binder *binder, Block *block, const int *outputs, int n_outputs,
                                     ParseNode *const *nodes)
{
    int n_first = 0;
    while (n_first < block->n_sort && is_among(outputs, n_outputs, block->sort[n_first].output)) n_first++;
    const bool has_more = n_first < block->n_sort;
    for (int i = 0; i < n_outputs; i++) {
        if (is_sorted_by(block, n_first, outputs[i])) continue;
        if (has_more)
            return fail(binder->err, WEFT_INVALID_REFERENCE, node_at(nodes[i]),
                        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
        add_sort_item(binder, block, (SortItem){ .output = outputs[i] });
    }
    block->n_distinct_on = has_more ? n_first : block->n_sort;
    return WEFT_OK;
}

static weft_status bind_distinct_on(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    int *outputs = arena_array(binder->arena, int, stmt->n_distinct_clause + 1);
    binder->place.clause = "DISTINCT ON";
    TRY(check_list_length(binder, "DISTINCT ON", stmt->n_distinct_clause));
    for (size_t i = 0; i < stmt->n_distinct_clause; i++)
        TRY(sort_output(binder, block, stmt->distinct_clause[i], &outputs[i]));
    return match_distinct_on(binder, block, outputs, (int)stmt->n_distinct_clause, stmt->distinct_clause);
}

weft_status bind_sort(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    binder->place.clause = "ORDER BY";
    binder->place.allows_aggs = binder->place.allows_windows = !block->is_set && !stmt->n_values_lists;
    TRY(check_list_length(binder, "ORDER BY", stmt->n_sort_clause));
    for (size_t i = 0; i < stmt->n_sort_clause; i++) TRY(bind_sort_item(binder, block, stmt->sort_clause[i]->sort_by));
    if (stmt->n_distinct_clause && !block->is_distinct) return bind_distinct_on(binder, block);
    return WEFT_OK;
}

// ---- LIMIT ----------------------------------------------------------------------------------------------------------

static bool has_kind(const Expr *expr, ExprKind kind)
{
    if (expr->kind == kind) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_kind(expr->args[i], kind)) return true;
    return false;
}

static bool is_number(Type type)
{
    return type_is_integer(type) || type_is_float(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// A number, rounded to a whole one; *BOUND stays as it is where it is NULL.
static weft_status bind_bound(Binder *binder, Block *block, const ParseNode *node, const char *clause,
                              weft_status if_negative, i64 *bound)
{
    Expr *expr;
    Value value;
    char  buffer[32];
    if (!node) return WEFT_OK;
    // Columns are seen, so that the error can tell one that is there from one that is not.
    binder->place = (Place){ .block = block, .scope = &block->scope, .clause = clause };
    TRY(bind_expr(binder, node, &expr));
    if (has_kind(expr, EXPR_COLUMN))
        return fail(binder->err, WEFT_INVALID_REFERENCE, node_at(node), "argument of %s must not contain variables",
                    clause);
    if (expr->type.kind != TYPE_NULL && !is_number(expr->type))
        return fail(binder->err, WEFT_TYPE_MISMATCH, node_at(node), "argument of %s must be type bigint, not type %s",
                    clause, type_name(expr->type, buffer));
    if (has_kind(expr, EXPR_PARAM))
        return fail(binder->err, WEFT_UNSUPPORTED, node_at(node), "a subquery in %s is not supported yet", clause);
    TRY(expr_cast(binder->arena, expr, TYPE(BIGINT), node_at(node), &expr, binder->err));
    TRY(expr_eval(expr, &(EvalContext){ .arena = binder->arena }, &value, binder->err));
    if (value.is_null) return WEFT_OK;
    if (value.i < 0) return fail(binder->err, if_negative, node_at(node), "%s must not be negative", clause);
    *bound = (i64)value.i;
    return WEFT_OK;
}

weft_status bind_limits(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    block->limit = -1;
    TRY(bind_bound(binder, block, stmt->limit_count, "LIMIT", WEFT_BAD_LIMIT, &block->limit));
    if (stmt->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES && stmt->limit_count && block->limit < 0)
        return fail(binder->err, WEFT_BAD_LIMIT, node_at(stmt->limit_count),
                    "row count cannot be null in FETCH FIRST ... WITH TIES clause");
    return bind_bound(binder, block, stmt->limit_offset, "OFFSET", WEFT_BAD_OFFSET, &block->offset);
}
