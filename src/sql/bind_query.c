// bind_query.c - a query of any kind: WITH before it, then SELECT, VALUES or a set operation.
//
// The two sides of a set operation are brought to the same types, column by column, by a project above a side that
// needs it.  A literal takes the other side's type, so a SELECT that is a side leaves its literals open (Bound.exprs).

#include "sql/sql_int.h"

enum { QUERIES_MAX = 512, VALUES_MAX = 1 << 18 };

static weft_status bind_query(Binder *binder, const PgQuery__SelectStmt *stmt, Bound *out);

// ---- WITH -----------------------------------------------------------------------------------------------------------

static weft_status check_with_names(Binder *binder, const PgQuery__WithClause *clause)
{
    for (size_t i = 0; i < clause->n_ctes; i++)
        for (size_t j = 0; j < i; j++) {
            const PgQuery__CommonTableExpr *expr = clause->ctes[i]->common_table_expr;
            if (strcmp(expr->ctename, clause->ctes[j]->common_table_expr->ctename) == 0)
                return fail(binder->err, WEFT_DUPLICATE_ALIAS, expr->location,
                            "WITH query name \"%s\" specified more than once", expr->ctename);
        }
    return WEFT_OK;
}

static weft_status bind_plain_query(Binder *binder, const PgQuery__CommonTableExpr *expr, With *with)
{
    Bound bound;
    TRY(bind_query(binder, expr->ctequery->select_stmt, &bound));
    with->names = bound.names;
    TRY(bind_column_names(binder, "WITH query", with->name, expr->aliascolnames, expr->n_aliascolnames, with->names,
                          bound.n_columns, expr->location));
    with->root = visible_rows(binder, &bound);
    if (!bound.is_correlated) with->shared = plan_share(binder->plan, with->root, with->name);
    return WEFT_OK;
}

static weft_status bind_with_query(Binder *binder, const PgQuery__CommonTableExpr *expr, bool may_recurse)
{
    With *with = arena_make(binder->arena, With);
    if (expr->ctequery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, expr->location, "INSERT, UPDATE or DELETE in WITH");
    if (expr->search_clause)
        return refuse(binder, expr->search_clause->location, "SEARCH in a recursive query");
    if (expr->cycle_clause)
        return refuse(binder, expr->cycle_clause->location, "CYCLE in a recursive query");
    with->name = arena_strdup(binder->arena, expr->ctename);
    with->around = binder->place.block;
    if (may_recurse) TRY(bind_recursive_query(binder, expr, with));
    if (!with->root) TRY(bind_plain_query(binder, expr, with));
    with->next = binder->with;
    binder->with = with;
    return WEFT_OK;
}

static bool is_union(const PgQuery__CommonTableExpr *expr)
{
    const PgQuery__SelectStmt *stmt =
        expr->ctequery->node_case == PG_QUERY__NODE__NODE_SELECT_STMT ? expr->ctequery->select_stmt : NULL;
    return stmt && stmt->larg && stmt->rarg && stmt->op == PG_QUERY__SET_OPERATION__SETOP_UNION && !stmt->with_clause;
}

static weft_status bind_with(Binder *binder, const PgQuery__WithClause *clause)
{
    if (!clause) return WEFT_OK;
    TRY(check_with_names(binder, clause));
    if (clause->recursive) binder->with = hide_with_queries(binder, clause);
    for (size_t i = 0; i < clause->n_ctes; i++) {
        const PgQuery__CommonTableExpr *expr = clause->ctes[i]->common_table_expr;
        TRY(bind_with_query(binder, expr, clause->recursive && is_union(expr)));
    }
    return WEFT_OK;
}

// ---- set operations -------------------------------------------------------------------------------------------------

static SetKind set_kind(const PgQuery__SelectStmt *stmt)
{
    switch (stmt->op) {
        case PG_QUERY__SET_OPERATION__SETOP_INTERSECT: return SET_INTERSECT;
        case PG_QUERY__SET_OPERATION__SETOP_EXCEPT:    return SET_EXCEPT;
        default:                                       return SET_UNION;
    }
}

static weft_status add_set_output(Binder *binder, Block *block, const Bound sides[2], int i, int *column)
{
    const Expr *left = sides[0].exprs[i];
    Expr       *output;
    *column = side_column(binder, left, sides[0].names[i]);
    if (term_is_not_null(binder, left) && term_is_not_null(binder, sides[1].exprs[i]))
        columns_add(binder->arena, &binder->not_null, *column);
    scope_add_column(binder, &block->scope, (ScopeColumn){ sides[0].names[i], *column });
    TRY(term_of_column(binder, *column, left->at, &output));
    return add_output(binder, block, output, sides[0].names[i]);
}

static weft_status bind_set(Binder *binder, Block *block, Bound *out)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    const SetKind kind = set_kind(stmt);
    Bound        *sides = arena_array(binder->arena, Bound, 2);
    binder->place.keeps_literals = true;
    TRY(bind_query(binder, stmt->larg, &sides[0]));
    TRY(bind_query(binder, stmt->rarg, &sides[1]));
    TRY(unify_sides(binder, kind, sides));
    for (int i = 0; i < 2; i++) columns_add_all(binder->arena, &block->outer, &sides[i].outer);
    int  *columns = arena_array(binder->arena, int, sides[0].n_columns + 1);
    Node *left = side_rows(binder, &sides[0]), *right = side_rows(binder, &sides[1]);
    block->is_set = true;
    block->keeps_literals = false;
    binder->place = (Place){ .block = block, .scope = &block->scope };
    for (int i = 0; i < sides[0].n_columns; i++) TRY(add_set_output(binder, block, sides, i, &columns[i]));
    block->n_visible = block->n_outputs;
    block->node = plan_set(binder->plan, kind, stmt->all, left, right, columns);
    if (kind != SET_UNION || !stmt->all) compare_by_length(binder, block->node);
    TRY(bind_sort(binder, block));
    return finish_block(binder, block, false, out);
}

// ---- VALUES ---------------------------------------------------------------------------------------------------------

typedef struct Rows { int n_rows, n_columns; Expr **exprs; } Rows;

static weft_status bind_rows(Binder *binder, const PgQuery__SelectStmt *stmt, Rows *rows)
{
    const size_t n_rows = stmt->n_values_lists, n_columns = stmt->values_lists[0]->list->n_items;
    if (n_rows > VALUES_MAX / MAX_OF(n_columns, 1))
        return fail(binder->err, WEFT_TOO_LONG, -1, "VALUES can have at most %d values", VALUES_MAX);
    *rows = (Rows){ (int)n_rows, (int)n_columns, arena_array(binder->arena, Expr *, n_rows * n_columns + 1) };
    for (size_t r = 0; r < n_rows; r++) {
        const PgQuery__List *list = stmt->values_lists[r]->list;
        if (list->n_items != n_columns)
            return fail(binder->err, WEFT_SYNTAX_ERROR, list->n_items ? node_at(list->items[0]) : -1,
                        "VALUES lists must all be the same length");
        for (size_t c = 0; c < n_columns; c++) TRY(bind_expr(binder, list->items[c], &rows->exprs[r * n_columns + c]));
    }
    return WEFT_OK;
}

static bool has_input(const Expr *expr)
{
    if (expr->kind == EXPR_PARAM || expr->kind == EXPR_COLUMN) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_input(expr->args[i])) return true;
    return false;
}

static bool rows_have_inputs(const Rows *rows)
{
    for (int i = 0; i < rows->n_rows * rows->n_columns; i++)
        if (has_input(rows->exprs[i])) return true;
    return false;
}

// Rows that name columns of a query around them, or hold subqueries, are not known yet: VALUES (a), (b) is then
// SELECT a AS column1 UNION ALL SELECT b AS column1.

static PgQuery__Node *named_item(Arena *arena, PgQuery__Node *value, size_t number)
{
    PgQuery__Node *item = arena_make(arena, PgQuery__Node);
    pg_query__node__init(item);
    item->node_case = PG_QUERY__NODE__NODE_RES_TARGET;
    item->res_target = arena_make(arena, PgQuery__ResTarget);
    pg_query__res_target__init(item->res_target);
    item->res_target->name = (char *)arena_printf(arena, "column%zu", number);
    item->res_target->val = value;
    item->res_target->location = node_at(value);
    return item;
}

static PgQuery__SelectStmt *select_of_row(Arena *arena, const PgQuery__List *row)
{
    PgQuery__SelectStmt *select = arena_make(arena, PgQuery__SelectStmt);
    pg_query__select_stmt__init(select);
    select->n_target_list = row->n_items;
    select->target_list = arena_array(arena, PgQuery__Node *, row->n_items + 1);
    for (size_t i = 0; i < row->n_items; i++) select->target_list[i] = named_item(arena, row->items[i], i + 1);
    return select;
}

static PgQuery__SelectStmt *union_all(Arena *arena, PgQuery__SelectStmt *left, PgQuery__SelectStmt *right)
{
    PgQuery__SelectStmt *both = arena_make(arena, PgQuery__SelectStmt);
    pg_query__select_stmt__init(both);
    both->op = PG_QUERY__SET_OPERATION__SETOP_UNION;
    both->all = true;
    both->larg = left, both->rarg = right;
    return both;
}

static const PgQuery__SelectStmt *union_of_rows(Arena *arena, const PgQuery__SelectStmt *stmt)
{
    PgQuery__SelectStmt *all = select_of_row(arena, stmt->values_lists[0]->list);
    for (size_t r = 1; r < stmt->n_values_lists; r++)
        all = union_all(arena, all, select_of_row(arena, stmt->values_lists[r]->list));
    all->n_sort_clause = stmt->n_sort_clause, all->sort_clause = stmt->sort_clause;
    all->limit_count = stmt->limit_count, all->limit_offset = stmt->limit_offset;
    all->limit_option = stmt->limit_option;
    return all;
}

static weft_status evaluate_column(Binder *binder, const Rows *rows, int column, Value *values, bool *has_null)
{
    const EvalContext context = { .arena = binder->arena };
    *has_null = false;
    for (int r = 0; r < rows->n_rows; r++) {
        const int   i = r * rows->n_columns + column;
        const Expr *expr = rows->exprs[i];
        TRY(expr_eval(expr, &context, &values[i], binder->err));
        values[i].type = expr->type;
        *has_null |= values[i].is_null;
    }
    return WEFT_OK;
}

static bool are_declared(const Rows *rows, int column)
{
    for (int r = 0; r < rows->n_rows; r++)
        if (!expr_is_declared(rows->exprs[r * rows->n_columns + column])) return false;
    return true;
}

static weft_status bind_values_column(Binder *binder, Block *block, Rows *rows, int c, Value *values, int *column)
{
    const char *name = arena_printf(binder->arena, "column%d", c + 1);
    bool        has_null;
    TRY(expr_unify(binder->arena, rows->exprs + c, rows->n_rows, rows->n_columns, "VALUES", rows->exprs[c]->at,
                   binder->err));
    const bool is_interval = rows->exprs[c]->type.kind == TYPE_INTERVAL;
    Expr      *output;
    for (int r = 0; r < rows->n_rows && is_interval; r++)
        TRY(term_stored(binder, rows->exprs[r * rows->n_columns + c], &rows->exprs[r * rows->n_columns + c]));
    const Expr *first = rows->exprs[c];
    *column = plan_add_column(binder->plan, first->type, name, NULL);
    if (is_interval) columns_add(binder->arena, &binder->intervals, *column);
    binder->plan->columns[*column].is_declared = are_declared(rows, c);
    TRY(term_of_column(binder, *column, first->at, &output));
    TRY(add_output(binder, block, output, name));
    TRY(evaluate_column(binder, rows, c, values, &has_null));
    if (!has_null) columns_add(binder->arena, &binder->not_null, *column);
    scope_add_column(binder, &block->scope, (ScopeColumn){ name, *column });
    return WEFT_OK;
}

static weft_status bind_values(Binder *binder, Block *block, Bound *out)
{
    const Place place = binder->place;
    Rows        rows = { 0 };
    binder->place = (Place){ .block = block, .scope = &block->scope, .clause = "VALUES" };
    block->keeps_literals = false;
    TRY(bind_rows(binder, block->stmt, &rows));
    if (rows_have_inputs(&rows)) {
        binder->place = place;
        return bind_query(binder, union_of_rows(binder->arena, block->stmt), out);
    }
    int   *columns = arena_array(binder->arena, int, rows.n_columns + 1);
    Value *values = arena_array(binder->arena, Value, (size_t)rows.n_rows * (size_t)rows.n_columns + 1);
    for (int c = 0; c < rows.n_columns; c++) TRY(bind_values_column(binder, block, &rows, c, values, &columns[c]));
    block->n_visible = block->n_outputs;
    block->node = plan_values(binder->plan, (u64)rows.n_rows, rows.n_columns, columns, values);
    TRY(bind_sort(binder, block));
    TRY(place_marks(binder, block, false, &block->node));
    for (int i = 0; i < block->n_outputs; i++)
        TRY(bind_values_of_marks(binder, block, block->outputs[i].expr, &block->outputs[i].expr));
    return finish_block(binder, block, block->n_outputs > block->n_visible, out);
}

// ---- any query ------------------------------------------------------------------------------------------------------

static weft_status refuse_clauses(Binder *binder, const PgQuery__SelectStmt *stmt)
{
    if (stmt->n_locking_clause) return refuse_word(binder, "for", "FOR UPDATE or FOR SHARE");
    return WEFT_OK;
}

static weft_status count_query(Binder *binder, const PgQuery__SelectStmt *stmt)
{
    if (++binder->n_queries <= QUERIES_MAX) return WEFT_OK;
    fail(binder->err, WEFT_TOO_COMPLEX, stmt->n_target_list ? node_at(stmt->target_list[0]) : -1,
         "statement is too complex");
    error_hint(binder->err, "The limit is %d queries: subqueries, and the members of UNION and the like.", QUERIES_MAX);
    return WEFT_TOO_COMPLEX;
}

static weft_status bind_kind(Binder *binder, Block *block, Bound *out)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    if (stmt->larg && stmt->rarg) return bind_set(binder, block, out);
    if (stmt->n_values_lists) return bind_values(binder, block, out);
    TRY(bind_select(binder, block));
    return finish_block(binder, block, true, out);
}

// Stands in the binder's place, and leaves the place and WITH as they were.
static weft_status bind_query(Binder *binder, const PgQuery__SelectStmt *stmt, Bound *out)
{
    const Place place = binder->place;
    const With *with = binder->with;
    Block      *block = arena_make(binder->arena, Block);
    *block = (Block){ .stmt = stmt, .around = place.block, .keeps_literals = place.keeps_literals };
    block->scope.outer = place.scope, block->scope.owner = block;
    TRY(count_query(binder, stmt));
    TRY(refuse_clauses(binder, stmt));
    binder->place.keeps_literals = false;
    TRY(bind_with(binder, stmt->with_clause));
    TRY(bind_kind(binder, block, out));
    binder->place = place;
    binder->with = with;
    return WEFT_OK;
}

weft_status bind_plan(Binder *binder, const PgQuery__SelectStmt *stmt, Plan **out)
{
    Bound bound;
    binder->plan = *out = plan_new(binder->arena);
    binder->bind_expr = bind_expr;
    binder->bind_query = bind_query;
    binder->bind_subquery = bind_subquery;
    binder->bind_window = bind_window;
    binder->bind_ordered = bind_ordered;
    binder->bind_string_agg = bind_string_agg;
    binder->root = stmt;
    TRY(bind_query(binder, stmt, &bound));
    binder->plan->root = bound.node;
    binder->plan->n_visible = bound.n_columns;
    binder->plan->names = bound.names;
    return WEFT_OK;
}
