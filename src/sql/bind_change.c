// bind_change.c - CREATE TABLE AS, CREATE VIEW, TRUNCATE, ALTER ... RENAME, PREPARE, EXECUTE, DEALLOCATE.

#include "sql/sql_int.h"

void bind_outputs(Binder *binder, Plan *plan, Expr **exprs, const char **names, int n_exprs)
{
    plan->root = term_project(binder, plan->root, exprs, names, n_exprs);
    plan->n_visible = n_exprs;
    plan->names = names;
}

// ---- CREATE TABLE AS ------------------------------------------------------------------------------------------------

static bool has_scale(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC; }

// Whether a column of a table, or a cast to char(n), is all that EXPR is: CASE, UNION and the like may give longer
// texts than the first side.
static bool is_of_table(const Plan *plan, const Expr *expr)
{
    for (int depth = 0; expr && expr->kind == EXPR_COLUMN && depth < 100; depth++) {
        if (plan->columns[expr->column].table) return true;
        expr = plan->columns[expr->column].value;
    }
    const bool is_call = expr && expr->kind == EXPR_CALL && expr->op != OP_COALESCE;
    return (is_call || (expr && expr->kind == EXPR_CONST)) && type_is_char(expr->type);
}

// The type of the column that stores EXPR.  A number without a declared precision (a constant, a sum, a quotient)
// becomes a numeric without a precision, so that later rows keep their digits.
static Type stored_type(const Plan *plan, const Expr *expr)
{
    const Type type = expr->type;
    if ((type_text_length(type) || type_is_char(type)) && !is_of_table(plan, expr)) return TYPE(TEXT);
    if (has_scale(type) && !type_is_stored_interval(type) && !expr_is_declared(expr)) return TYPE_OF_FREE_NUMERIC;
    if (type.kind == TYPE_NULL) return TYPE(TEXT);
    if (type.kind == TYPE_INTERVAL) return TYPE_OF_STORED_INTERVAL;
    if (type.kind == TYPE_TIMESTAMPTZ) return TYPE(TIMESTAMPTZ);        // the zone is the session's, not the table's
    return type;
}

static weft_status check_into(Binder *binder, const PgQuery__IntoClause *into)
{
    const int at = into->rel->location;
    if (strcmp(into->rel->relpersistence, "u") == 0) return refuse(binder, at, "CREATE UNLOGGED TABLE");
    if (into->n_options) return refuse(binder, node_at(into->options[0]), "WITH");
    if (into->table_space_name[0]) return refuse(binder, at, "TABLESPACE");
    if (into->access_method[0]) return refuse(binder, at, "USING");
    if (into->on_commit > PG_QUERY__ON_COMMIT_ACTION__ONCOMMIT_NOOP) return refuse(binder, at, "ON COMMIT");
    return WEFT_OK;
}

// As the engine stores numbers of a numeric without a precision: quotients row by row, others at their scale.
static weft_status widen_free(Binder *binder, Expr *expr, Expr **out)
{
    *out = expr;
    if (type_is_quotient(expr->type)) return WEFT_OK;
    return expr_cast(binder->arena, expr, (Type){ TYPE_NUMERIC, 38, expr->type.scale }, -1, out, binder->err);
}

// The columns of the table, and of the plan, which gives them with the types that are stored.
static weft_status make_columns(Binder *binder, const PgQuery__IntoClause *into, Statement *statement)
{
    Plan        *plan = statement->plan;
    Expr       **exprs = arena_array(binder->arena, Expr *, plan->n_visible + 1);
    const char **names = arena_array(binder->arena, const char *, plan->n_visible + 1);
    for (int i = 0; i < plan->n_visible; i++) names[i] = plan->names[i];
    if (into->n_col_names > (size_t)plan->n_visible)
        return fail(binder->err, WEFT_SYNTAX_ERROR, statement->at, "too many column names were specified");
    TRY(bind_column_names(binder, "table", statement->name, into->col_names, into->n_col_names, names, plan->n_visible,
                          statement->at));
    for (int i = 0; i < plan->n_visible; i++) {
        ColumnDef *def = LIST_PUSH(binder->arena, statement->columns, statement->n_columns);
        Expr      *expr = plan_column_expr(plan, plan->root->out[i], -1);
        *def = (ColumnDef){ .name = names[i], .type = stored_type(plan, expr) };
        if (expr->type.kind == TYPE_INTERVAL) TRY(term_stored(binder, expr, &exprs[i]));
        else if (type_is_free_numeric(def->type)) TRY(widen_free(binder, expr, &exprs[i]));
        else TRY(expr_cast(binder->arena, expr, def->type, -1, &exprs[i], binder->err));
    }
    bind_outputs(binder, plan, exprs, names, plan->n_visible);
    return WEFT_OK;
}

weft_status bind_create_as(Binder *binder, const PgQuery__CreateTableAsStmt *create, Statement *statement)
{
    const PgQuery__IntoClause *into = create->into;
    if (!create->query || create->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, statement->at, "CREATE TABLE AS of anything but a SELECT");
    statement->kind = STATEMENT_CREATE_AS;
    statement->if_exists = create->if_not_exists;
    statement->at = into->rel->location;
    statement->without_data = into->skip_data;
    TRY(check_into(binder, into));
    TRY(bind_new_table_name(binder, into->rel, statement));
    TRY(bind_plan(binder, create->query->select_stmt, &statement->plan));
    return make_columns(binder, into, statement);
}

// ---- the text behind AS ---------------------------------------------------------------------------------------------

// CREATE VIEW v (a, b) AS ...: what follows the first AS outside of brackets, without the ';'.
static void keep_text_behind_as(Binder *binder, Statement *statement)
{
    const char *p = binder->text;
    int         depth = 0;
    for (Token token = token_next(&p); token.kind != TOKEN_END; token = token_next(&p)) {
        if (token.kind == TOKEN_SYMBOL) depth += (*token.start == '(') - (*token.start == ')');
        if (depth == 0 && token_is(&token, "as")) break;
    }
    size_t length = strlen(p);
    while (length && strchr(" \t\r\n\f;", p[length - 1])) length--;
    statement->text = arena_strndup(binder->arena, p, length), statement->text_at = (int)(p - binder->text);
}

weft_status bind_create_view(Binder *binder, const PgQuery__ViewStmt *view, Statement *statement)
{
    statement->kind = STATEMENT_CREATE_VIEW;
    statement->at = view->view->location;
    statement->or_replace = view->replace;
    if (view->n_options) return refuse(binder, node_at(view->options[0]), "WITH");
    if (view->with_check_option > PG_QUERY__VIEW_CHECK_OPTION__NO_CHECK_OPTION)
        return refuse_word(binder, "check", "WITH CHECK OPTION");
    return bind_view_query(binder, view->view, view->query, view->aliases, view->n_aliases, statement);
}

weft_status bind_view_query(Binder *binder, const PgQuery__RangeVar *name, const ParseNode *query,
                            ParseNode *const *aliases, size_t n_aliases, Statement *statement)
{
    if (!query || query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, statement->at, "a view of anything but a SELECT");
    TRY(bind_new_table_name(binder, name, statement));
    if (statement->is_temporary) return refuse(binder, statement->at, "CREATE TEMPORARY VIEW");
    TRY(bind_plan(binder, query->select_stmt, &statement->plan));
    Plan *plan = statement->plan;
    TRY(bind_column_names(binder, "view", statement->name, aliases, n_aliases, plan->names, plan->n_visible,
                          statement->at));
    for (int i = 0; i < plan->n_visible; i++) {
        const PlanColumn *column = &plan->columns[plan->root->out[i]];
        const bool        is_free = has_scale(column->type) && !type_is_stored_interval(column->type) &&
                             !column->is_declared && !statement->is_continuous;
        *LIST_PUSH(binder->arena, statement->columns, statement->n_columns) =
            (ColumnDef){ .name = plan->names[i], .type = is_free ? TYPE_OF_FREE_NUMERIC : column->type };
        for (int j = 0; j < i; j++)
            if (strcmp(plan->names[i], plan->names[j]) == 0)
                return fail(binder->err, WEFT_DUPLICATE_COLUMN, statement->at,
                            "column \"%s\" specified more than once", plan->names[i]);
    }
    keep_text_behind_as(binder, statement);
    return WEFT_OK;
}

// ---- TRUNCATE, RENAME -----------------------------------------------------------------------------------------------

weft_status bind_truncate(Binder *binder, const PgQuery__TruncateStmt *truncate, Statement *statement)
{
    statement->kind = STATEMENT_TRUNCATE;
    if (truncate->restart_seqs) return refuse_word(binder, "restart", "RESTART IDENTITY");
    for (size_t i = 0; i < truncate->n_relations; i++) {
        const PgQuery__RangeVar *range = truncate->relations[i]->range_var;
        const Table             *table;
        TRY(bind_table(binder, range, &table));
        TRY(bind_table_name(binder, range, LIST_PUSH(binder->arena, statement->names, statement->n_names),
                            LIST_PUSH(binder->arena, statement->homes, statement->n_homes)));
    }
    return WEFT_OK;
}

weft_status bind_rename(Binder *binder, const PgQuery__RenameStmt *rename, Statement *statement)
{
    const Table *table;
    statement->kind = STATEMENT_RENAME;
    statement->if_exists = rename->missing_ok;
    statement->is_view = rename->rename_type == PG_QUERY__OBJECT_TYPE__OBJECT_VIEW;
    const bool is_column = rename->rename_type == PG_QUERY__OBJECT_TYPE__OBJECT_COLUMN &&
                           rename->relation_type == PG_QUERY__OBJECT_TYPE__OBJECT_TABLE;
    if (!is_column && !statement->is_view && rename->rename_type != PG_QUERY__OBJECT_TYPE__OBJECT_TABLE)
        return refuse(binder, statement->at, "ALTER ... RENAME of anything but a table, its columns or a view");
    statement->at = rename->relation->location;
    TRY(bind_table_name(binder, rename->relation, &statement->name, &statement->home));
    statement->new_name = arena_strdup(binder->arena, rename->newname);
    if (!is_column) return WEFT_OK;
    TRY(bind_table(binder, rename->relation, &table));
    statement->column = arena_strdup(binder->arena, rename->subname);
    if (table_find_column(table, statement->column) < 0)
        return unknown_column(binder, table, statement->column, statement->at);
    return WEFT_OK;
}

// ---- PREPARE, EXECUTE, DEALLOCATE -----------------------------------------------------------------------------------

weft_status bind_prepare(Binder *binder, const PgQuery__PrepareStmt *prepare, Statement *statement)
{
    statement->kind = STATEMENT_PREPARE;
    statement->name = arena_strdup(binder->arena, prepare->name);
    statement->types = arena_array(binder->arena, Type, prepare->n_argtypes + 1);
    statement->n_types = (int)prepare->n_argtypes;
    for (int i = 0; i < statement->n_types; i++) {
        const PgQuery__TypeName *name = prepare->argtypes[i]->type_name;
        const char *last = name->n_names ? node_string(name->names[name->n_names - 1]) : NULL;
        TypeDetail  detail = { .type = TYPE(NULL) };
        if (!last || strcmp(last, "unknown") != 0) TRY(bind_type(binder, name, &detail));
        statement->types[i] = detail.type;
    }
    keep_text_behind_as(binder, statement);
    return WEFT_OK;
}

weft_status bind_execute(Binder *binder, const PgQuery__ExecuteStmt *execute, Statement *statement)
{
    Binder inner = *binder;
    statement->kind = STATEMENT_EXECUTE;
    statement->name = arena_strdup(binder->arena, execute->name);
    statement->arguments = arena_array(binder->arena, Value, execute->n_params + 1);
    statement->n_arguments = (int)execute->n_params;
    inner.place.clause = "EXECUTE";
    inner.bind_expr = bind_expr;                            // and neither columns nor subqueries
    for (int i = 0; i < statement->n_arguments; i++) {
        const EvalContext context = { .arena = binder->arena };
        Expr             *expr;
        TRY(bind_expr(&inner, execute->params[i], &expr));
        TRY(expr_eval(expr, &context, &statement->arguments[i], binder->err));
    }
    return WEFT_OK;
}

weft_status bind_deallocate(Binder *binder, const PgQuery__DeallocateStmt *deallocate, Statement *statement)
{
    statement->kind = STATEMENT_DEALLOCATE;
    statement->name = deallocate->name[0] ? arena_strdup(binder->arena, deallocate->name) : NULL;      // NULL: ALL
    return WEFT_OK;
}
