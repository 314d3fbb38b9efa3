// bind_insert.c - INSERT ... VALUES: constants, cast to the types of their columns; INSERT ... SELECT: a plan whose
// columns are those of the table.
//
// A statement can hold hundreds of thousands of values, and each is an expression only for a moment: expressions are
// made in an arena that is emptied now and then, and only values stay.

#include "plan/functions.h"
#include "sql/sql_int.h"

enum { VALUES_MAX = 8 << 20, ROWS_PER_ARENA = 256 };

typedef struct Insert {
    Binder      *binder;
    Binder       inner;                // the same with an arena that does not last
    const Table *table;
    int         *targets;              // table column of each value
    int          n_targets;
    bool         has_list;
    Statement   *statement;
} Insert;

static weft_status bind_targets(Insert *insert, const PgQuery__InsertStmt *stmt)
{
    Binder *binder = insert->binder;
    const int n_columns = insert->table->n_columns;
    insert->has_list = stmt->n_cols > 0;
    insert->n_targets = insert->has_list ? (int)stmt->n_cols : n_columns;
    insert->targets = arena_array(binder->arena, int, insert->n_targets + 1);
    bool *used = arena_array(binder->arena, bool, n_columns + 1);
    for (int i = 0; i < insert->n_targets; i++) {
        insert->targets[i] = i;
        if (!insert->has_list) continue;
        const PgQuery__ResTarget *target = stmt->cols[i]->res_target;
        const int column = table_find_column(insert->table, target->name);
        if (target->n_indirection) return refuse(binder, target->location, "a part of a column as target");
        if (column < 0) return unknown_column(binder, insert->table, target->name, target->location);
        if (used[column])
            return fail(binder->err, WEFT_DUPLICATE_COLUMN, target->location, "column \"%s\" specified more than once",
                        target->name);
        used[column] = true;
        insert->targets[i] = column;
    }
    return WEFT_OK;
}

static bool is_number(Type type)
{
    return type_is_integer(type) || type_is_float(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// What may be stored without asking for a cast: numbers in each other, everything as text, literals as what they look
// like.
static bool is_assignable(Type from, Type to)
{
    if (type_is_stored_interval(to))
        return from.kind == TYPE_NULL || from.kind == TYPE_INTERVAL || from.kind == TYPE_TIME;
    if (type_is_uuid(to)) return from.kind == TYPE_NULL || type_is_uuid(from);
    return from.kind == TYPE_NULL || from.kind == to.kind || to.kind == TYPE_TEXT || (is_number(from) && is_number(to));
}

// A numeric without a precision takes numbers as they are.  Floats and quotients become numerics row by row, when they
// are stored: each has a scale of its own.
static weft_status cast_to_free(Binder *binder, Expr *expr, int at, Expr **out)
{
    const Type type = expr->type;
    *out = expr;
    if (type_is_float(type) || type_is_quotient(type)) return WEFT_OK;
    if (expr->kind == EXPR_CONST && !expr->value.is_null && (type.kind == TYPE_TEXT || type.kind == TYPE_NULL)) {
        Value value;
        Error local;
        error_clear(&local);
        if (value_parse_free(expr->value.text.bytes, expr->value.text.length, &value, &local)) {
            fail(binder->err, local.status, at, "%s", local.message);
            if (local.hint[0]) error_hint(binder->err, "%s", local.hint);
            return local.status;
        }
        *out = expr_const(binder->arena, value, at);
        return WEFT_OK;
    }
    const bool has_scale = type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
    return expr_cast(binder->arena, expr, (Type){ TYPE_NUMERIC, 38, has_scale ? type.scale : 0 }, at, out, binder->err);
}

// As the column has it.
static weft_status cast_to_column(Binder *binder, Expr *expr, const Column *column, int at, Expr **out)
{
    const Type type = column->type;
    if (column->is_free) return cast_to_free(binder, expr, at, out);
    if (!type_is_stored_interval(type)) return expr_cast(binder->arena, expr, type, at, out, binder->err);
    TRY(expr_cast(binder->arena, expr, TYPE(INTERVAL), at, &expr, binder->err));
    return term_stored(binder, expr, out);
}

// A constant with the digits behind the point that it shows.
static weft_status settle_free(Binder *binder, int at, Value *value)
{
    Error local;
    error_clear(&local);
    if (type_is_float(value->type)) {
        if (value_free_of_float(value->f, value->type.kind == TYPE_REAL, value, &local))
            return fail(binder->err, local.status, at, "%s", local.message);
        return WEFT_OK;
    }
    const int shown = value_shown(value);
    for (; value->type.scale > shown; value->type.scale--) value->i /= 10;      // a 0 that is not shown
    value->type.precision = 38;
    return WEFT_OK;
}

static weft_status bind_value(Insert *insert, const ParseNode *node, const Column *column, Value *value)
{
    Binder *binder = &insert->inner;
    Expr   *expr;
    char    from[32], to[32];
    if (node->node_case == PG_QUERY__NODE__NODE_SET_TO_DEFAULT)
        return WEFT_OK;  // no column has a default but NULL
    TRY(bind_expr(binder, node, &expr));
    if (!is_assignable(expr->type, column->type)) {
        fail(binder->err, WEFT_TYPE_MISMATCH, node_at(node), "column \"%s\" is of type %s but expression is of type %s",
             column->name, type_name(column->type, to), type_name(expr->type, from));
        error_hint(binder->err, "You will need to rewrite or cast the expression.");
        return WEFT_TYPE_MISMATCH;
    }
    if (column->type.kind == TYPE_TEXT) TRY(expr_refuse_long(expr, binder->err));
    const EvalContext context = { .arena = binder->arena };
    TRY(expr_eval(expr, &context, value, binder->err));                                // 1/0 fails here, not later
    TRY(cast_to_column(binder, expr_const(binder->arena, *value, expr->at), column, expr->at, &expr));
    TRY(expr_eval(expr, &context, value, binder->err));
    if (column->is_free && !value->is_null) TRY(settle_free(binder, expr->at, value));
    if (value->type.kind == TYPE_TEXT && !value->is_null) {
        size_t length = value->text.length;
        Error  local;
        error_clear(&local);
        if (value_fit_text(column->type, value->text.bytes, &length, &local))
            return fail(binder->err, local.status, expr->at, "%s", local.message);
        value->text.length = (u32)length;
        value->text.bytes = arena_strndup(insert->binder->arena, value->text.bytes, value->text.length);
    }
    return WEFT_OK;
}

static weft_status check_nulls(const Insert *insert, const Value *row, int at)
{
    const Table *table = insert->table;
    for (int i = 0; i < table->n_columns; i++)
        if (row[i].is_null && table->columns[i].not_null)
            return fail(insert->binder->err, WEFT_NOT_NULL_VIOLATION, at,
                        "null value in column \"%s\" of table \"%s\" violates not-null constraint",
                        table->columns[i].name, table->name);
    return WEFT_OK;
}

static weft_status bind_row(Insert *insert, const PgQuery__List *items, Value *row)
{
    const Table *table = insert->table;
    const int    at = items->n_items ? node_at(items->items[0]) : -1;
    for (int i = 0; i < table->n_columns; i++) row[i] = (Value){ .type = table->columns[i].type, .is_null = true };
    for (size_t i = 0; i < items->n_items; i++) {
        const int column = insert->targets[i];
        TRY(bind_value(insert, items->items[i], &table->columns[column], &row[column]));
    }
    return check_nulls(insert, row, at);
}

static weft_status check_count(const Insert *insert, const PgQuery__List *items, size_t n_first)
{
    Error    *err = insert->binder->err;
    const int at = items->n_items ? node_at(items->items[items->n_items - 1]) : -1;
    if (items->n_items != n_first) return fail(err, WEFT_SYNTAX_ERROR, at, "VALUES lists must all be the same length");
    if (items->n_items > (size_t)insert->n_targets)
        return fail(err, WEFT_SYNTAX_ERROR, at, "INSERT has more expressions than target columns");
    if (insert->has_list && items->n_items < (size_t)insert->n_targets)
        return fail(err, WEFT_SYNTAX_ERROR, at, "INSERT has more target columns than expressions");
    return WEFT_OK;
}

static weft_status bind_rows(Insert *insert, ParseNode *const *lists, size_t n_lists)
{
    const size_t n_columns = (size_t)insert->table->n_columns;
    Statement   *statement = insert->statement;
    weft_status  status = WEFT_OK;
    if (n_lists > VALUES_MAX / MAX_OF(n_columns, 1)) {
        fail(insert->binder->err, WEFT_TOO_LONG, statement->at, "INSERT of %zu rows of %zu columns is too large",
             n_lists, n_columns);
        error_hint(insert->binder->err, "Insert fewer rows at once, or use COPY.");
        return WEFT_TOO_LONG;
    }
    statement->rows = arena_array(insert->binder->arena, Value, n_lists * n_columns);
    statement->n_rows = n_lists;
    for (size_t i = 0; i < n_lists && status == WEFT_OK; i++) {
        if (i % ROWS_PER_ARENA == 0) {
            arena_free(insert->inner.arena);
            insert->inner.arena = arena_new(NULL, "values");
        }
        status = check_count(insert, lists[i]->list, lists[0]->list->n_items);
        if (status == WEFT_OK) status = bind_row(insert, lists[i]->list, statement->rows + i * n_columns);
    }
    arena_free(insert->inner.arena);
    insert->inner.arena = NULL;
    return status;
}

static weft_status refuse_insert_options(Binder *binder, const PgQuery__InsertStmt *stmt)
{
    if (stmt->with_clause) return refuse(binder, stmt->with_clause->location, "WITH");
    if (stmt->on_conflict_clause) return refuse(binder, stmt->on_conflict_clause->location, "ON CONFLICT");
    if (stmt->n_returning_list) return refuse(binder, sql_find_word(binder->text, "returning"), "RETURNING");
    if (stmt->override > PG_QUERY__OVERRIDING_KIND__OVERRIDING_NOT_SET)
        return refuse(binder, sql_find_word(binder->text, "overriding"), "OVERRIDING");
    if (!stmt->select_stmt) return refuse(binder, sql_find_word(binder->text, "default"), "INSERT ... DEFAULT VALUES");
    return WEFT_OK;
}

// A list of constants, without anything that needs a plan.
static bool is_plain_values(const PgQuery__SelectStmt *select)
{
    return select->n_values_lists && !select->n_sort_clause && !select->limit_count && !select->limit_offset &&
           !select->with_clause && !select->n_locking_clause;
}

// ---- INSERT ... SELECT ----------------------------------------------------------------------------------------------

// A text that stands in the select list as a literal is of the type of its column, as in VALUES.
static bool is_literal(const Plan *plan, int column)
{
    const Expr *value = plan->columns[column].value;
    return value && value->kind == EXPR_CONST && value->type.kind == TYPE_TEXT;
}

// What comes from a table's column that is no longer fits.
static weft_status fit_text(Binder *binder, const PlanColumn *source, Type type, Expr **expr)
{
    const Type own = source->table ? source->type : TYPE(TEXT);
    const int  length = type_text_length(type), own_length = type_text_length(own);
    if (type.kind != TYPE_TEXT || (!length && !type_is_char(type))) return WEFT_OK;
    if (own_length && own_length <= length && type_is_char(own) == type_is_char(type)) return WEFT_OK;
    Expr *args[2] = { *expr, term_integer(binder, type_text_code(type), -1) };
    return expr_call(binder->arena, function_find_hidden("fitted"), args, 2, -1, expr, binder->err);
}

static weft_status bind_assignment(Insert *insert, const Plan *plan, int source, const Column *column, Expr **out)
{
    Binder *binder = insert->binder;
    char    from[32], to[32];
    Expr   *expr = plan_column_expr(plan, source, -1);
    if (!is_assignable(expr->type, column->type) && !is_literal(plan, source)) {
        fail(binder->err, WEFT_TYPE_MISMATCH, insert->statement->at,
             "column \"%s\" is of type %s but expression is of type %s", column->name, type_name(column->type, to),
             type_name(expr->type, from));
        error_hint(binder->err, "You will need to rewrite or cast the expression.");
        return WEFT_TYPE_MISMATCH;
    }
    if (is_literal(plan, source)) expr = expr_const(binder->arena, plan->columns[source].value->value, -1);
    TRY(cast_to_column(binder, expr, column, -1, out));
    return fit_text(binder, &plan->columns[source], column->type, out);
}

static weft_status bind_insert_query(Insert *insert, const PgQuery__SelectStmt *select)
{
    Binder      *binder = insert->binder;
    const Table *table = insert->table;
    Statement   *statement = insert->statement;
    Plan        *plan;
    statement->kind = STATEMENT_INSERT_QUERY;
    TRY(bind_plan(binder, select, &plan));
    statement->plan = plan;
    if (plan->n_visible > insert->n_targets)
        return fail(binder->err, WEFT_SYNTAX_ERROR, statement->at, "INSERT has more expressions than target columns");
    if (insert->has_list && plan->n_visible < insert->n_targets)
        return fail(binder->err, WEFT_SYNTAX_ERROR, statement->at, "INSERT has more target columns than expressions");
    Expr       **exprs = arena_array(binder->arena, Expr *, table->n_columns + 1);
    const char **names = arena_array(binder->arena, const char *, table->n_columns + 1);
    for (int i = 0; i < plan->n_visible; i++) {
        const int column = insert->targets[i];
        TRY(bind_assignment(insert, plan, plan->root->out[i], &table->columns[column], &exprs[column]));
    }
    for (int c = 0; c < table->n_columns; c++) {
        names[c] = table->columns[c].name;
        if (!exprs[c])
            TRY(cast_to_column(binder, term_null(binder, -1), &table->columns[c], -1, &exprs[c]));
    }
    bind_outputs(binder, plan, exprs, names, table->n_columns);
    return WEFT_OK;
}

weft_status bind_insert(Binder *binder, const PgQuery__InsertStmt *stmt, Statement *statement)
{
    Insert insert = { .binder = binder, .inner = *binder, .statement = statement };
    statement->kind = STATEMENT_INSERT;
    statement->at = stmt->relation->location;
    TRY(refuse_insert_options(binder, stmt));
    if (stmt->relation->alias) return refuse(binder, stmt->relation->location, "an alias in INSERT");
    TRY(bind_table_name(binder, stmt->relation, &statement->name, &statement->home));
    TRY(bind_table(binder, stmt->relation, &insert.table));
    TRY(bind_targets(&insert, stmt));
    if (stmt->select_stmt->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, statement->at, "this source of INSERT");
    if (!is_plain_values(stmt->select_stmt->select_stmt))
        return bind_insert_query(&insert, stmt->select_stmt->select_stmt);
    insert.inner.arena = NULL;
    insert.inner.place.clause = "VALUES";
    insert.inner.bind_expr = bind_expr;                     // and no subqueries
    return bind_rows(&insert, stmt->select_stmt->select_stmt->values_lists,
                     stmt->select_stmt->select_stmt->n_values_lists);
}
