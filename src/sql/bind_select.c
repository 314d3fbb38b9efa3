// bind_select.c - SELECT: outputs, groups, order.
//
// Every clause is bound over columns first.  When the query turns out to be grouped, a last pass looks at each output
// from the top down: what equals a key becomes that key, and a column that no key covers is the error everyone knows:
//
//     select a + 1, b, sum(c) from t group by a + 1        outputs: key 0; b: 42803; aggregate 0
//
// ORDER BY and GROUP BY read names as PostgreSQL does: ORDER BY tries output names first, GROUP BY columns first.

#include "sql/sql_int.h"

enum { OUTPUTS_MAX = 1664 };                                // as in PostgreSQL

typedef struct Select {
    Binder                    *binder;
    const PgQuery__SelectStmt *stmt;
    Query                     *query;
    Scope                      scope;
} Select;

// ---- what is refused ------------------------------------------------------------------------------------------------

static weft_status refuse_word(Binder *binder, const char *word, const char *what)
{
    return refuse(binder, sql_find_word(binder->text, word), what);
}

static weft_status refuse_clauses(Binder *binder, const PgQuery__SelectStmt *stmt)
{
    if (stmt->with_clause) return refuse(binder, stmt->with_clause->location, "WITH");
    switch (stmt->op) {
        case PG_QUERY__SET_OPERATION__SETOP_UNION:     return refuse_word(binder, "union", "UNION");
        case PG_QUERY__SET_OPERATION__SETOP_INTERSECT: return refuse_word(binder, "intersect", "INTERSECT");
        case PG_QUERY__SET_OPERATION__SETOP_EXCEPT:    return refuse_word(binder, "except", "EXCEPT");
        default: break;
    }
    if (stmt->n_values_lists) return refuse_word(binder, "values", "VALUES");
    if (stmt->into_clause) return refuse_word(binder, "into", "SELECT INTO");
    if (stmt->n_window_clause) return refuse_word(binder, "window", "WINDOW");
    if (stmt->n_locking_clause) return refuse_word(binder, "for", "FOR UPDATE or FOR SHARE");
    if (stmt->group_distinct) return refuse_word(binder, "group", "GROUP BY DISTINCT");
    if (stmt->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES)
        return refuse_word(binder, "ties", "WITH TIES");
    if (stmt->n_distinct_clause && stmt->distinct_clause[0]->node_case != PG_QUERY__NODE__NODE__NOT_SET)
        return refuse(binder, node_at(stmt->distinct_clause[0]), "DISTINCT ON");
    if (!stmt->n_target_list) return refuse_word(binder, "select", "SELECT without columns");
    return WEFT_OK;
}

// ---- outputs --------------------------------------------------------------------------------------------------------

// PostgreSQL's names for what has no AS: the strongest hint wins, a column's or function's name over a type's.
static const char *named(const Node *node, int *strength)
{
    *strength = 2;
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_COLUMN_REF: {
            const PgQuery__ColumnRef *ref = node->column_ref;
            const char *name = ref->n_fields ? node_string(ref->fields[ref->n_fields - 1]) : NULL;
            if (name) return name;
            break;
        }
        case PG_QUERY__NODE__NODE_FUNC_CALL: {
            const PgQuery__FuncCall *call = node->func_call;
            const char *name = call->n_funcname ? node_string(call->funcname[call->n_funcname - 1]) : NULL;
            if (name) return name;
            break;
        }
        case PG_QUERY__NODE__NODE_A_EXPR:
            if (node->a_expr->kind == PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF) return "nullif";
            break;
        case PG_QUERY__NODE__NODE_COALESCE_EXPR: return "coalesce";
        case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:
            return node->min_max_expr->op == PG_QUERY__MIN_MAX_OP__IS_GREATEST ? "greatest" : "least";
        case PG_QUERY__NODE__NODE_TYPE_CAST: {
            const PgQuery__TypeName *type = node->type_cast->type_name;
            const char *inner = named(node->type_cast->arg, strength);
            if (*strength > 1 || !type->n_names) return inner;
            *strength = 1;
            const char *name = node_string(type->names[type->n_names - 1]);
            return name ? name : "?column?";
        }
        case PG_QUERY__NODE__NODE_CASE_EXPR: {
            *strength = 0;
            const char *inner = node->case_expr->defresult ? named(node->case_expr->defresult, strength) : NULL;
            if (*strength > 1) return inner;
            *strength = 1;
            return "case";
        }
        case PG_QUERY__NODE__NODE_A_CONST:
            if (node->a_const->val_case != PG_QUERY__A__CONST__VAL_BOOLVAL || node->a_const->isnull) break;
            *strength = 1;
            return "bool";
        default: break;
    }
    *strength = 0;
    return "?column?";
}

const char *output_name(const Node *node)
{
    int strength;
    return named(node, &strength);
}

static weft_status add_output(Select *select, Expr *expr, const char *name)
{
    Query *query = select->query;
    if (query->n_outputs == OUTPUTS_MAX)
        return fail(select->binder->err, WEFT_TOO_MANY_COLUMNS, expr->at, "target lists can have at most %d entries",
                    OUTPUTS_MAX);
    TRY(bind_settle(select->binder, expr, &expr));
    if (expr->type.kind == TYPE_INTERVAL) return refuse(select->binder, expr->at, "a result of type interval");
    TRY(bind_count(select->binder, expr));
    *LIST_PUSH(select->binder->arena, query->outputs, query->n_outputs) = (Output){ expr, name };
    return WEFT_OK;
}

static bool is_star(const Node *node)
{
    if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF) return false;
    const PgQuery__ColumnRef *ref = node->column_ref;
    return ref->n_fields && ref->fields[ref->n_fields - 1]->node_case == PG_QUERY__NODE__NODE_A_STAR;
}

static weft_status bind_star_target(Select *select, const PgQuery__ColumnRef *ref)
{
    Expr       **columns = NULL;
    const char **names = NULL;
    int          n_columns = 0;
    TRY(bind_star(select->binder, ref, &columns, &names, &n_columns));
    for (int i = 0; i < n_columns; i++) TRY(add_output(select, columns[i], names[i]));
    return WEFT_OK;
}

static weft_status bind_targets(Select *select)
{
    Binder *binder = select->binder;
    binder->clause = "SELECT";
    binder->allows_aggs = true;
    for (size_t i = 0; i < select->stmt->n_target_list; i++) {
        const PgQuery__ResTarget *target = select->stmt->target_list[i]->res_target;
        Expr *expr;
        if (is_star(target->val)) {
            TRY(bind_star_target(select, target->val->column_ref));
            continue;
        }
        TRY(bind_expr(binder, target->val, &expr));
        TRY(add_output(select, expr,
                       arena_strdup(binder->arena, target->name[0] ? target->name : output_name(target->val))));
    }
    select->query->n_visible = select->query->n_outputs;
    return WEFT_OK;
}

// Each is compared with all before it, so there must not be too many.
static weft_status check_count(const Select *select, const char *clause, size_t n)
{
    if (n <= OUTPUTS_MAX) return WEFT_OK;
    return fail(select->binder->err, WEFT_TOO_MANY_COLUMNS, -1, "%s can have at most %d expressions", clause,
                OUTPUTS_MAX);
}

// ---- names and numbers of outputs -----------------------------------------------------------------------------------

// ORDER BY 2: *OUTPUT is 1.  -1 when the node is no constant.
static weft_status output_by_number(const Select *select, const Node *node, const char *clause, int *output)
{
    Error *err = select->binder->err;
    *output = -1;
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST) return WEFT_OK;
    const PgQuery__AConst *constant = node->a_const;
    if (constant->isnull || constant->val_case != PG_QUERY__A__CONST__VAL_IVAL)
        return fail(err, WEFT_SYNTAX_ERROR, constant->location, "non-integer constant in %s", clause);
    *output = constant->ival->ival - 1;
    if (constant->ival->ival >= 1 && constant->ival->ival <= select->query->n_visible) return WEFT_OK;
    return fail(err, WEFT_INVALID_REFERENCE, constant->location, "%s position %d is not in select list", clause,
                constant->ival->ival);
}

static const char *bare_name(const Node *node)
{
    if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF || node->column_ref->n_fields != 1) return NULL;
    return node_string(node->column_ref->fields[0]);
}

// -1 when no output has the name.  Two outputs of one name are fine when they are the same.
static weft_status output_by_name(const Select *select, const Node *node, const char *clause, int *output)
{
    const Query *query = select->query;
    const char  *name = bare_name(node);
    *output = -1;
    for (int i = 0; name && i < query->n_visible; i++) {
        if (strcmp(query->outputs[i].name, name) != 0) continue;
        if (*output >= 0 && !expr_equal(query->outputs[*output].expr, query->outputs[i].expr))
            return fail(select->binder->err, WEFT_AMBIGUOUS_COLUMN, node_at(node), "%s \"%s\" is ambiguous", clause,
                        name);
        if (*output < 0) *output = i;
    }
    return WEFT_OK;
}

// ---- GROUP BY -------------------------------------------------------------------------------------------------------

static bool has_agg(const Expr *expr)
{
    if (expr->kind == EXPR_AGG) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_agg(expr->args[i])) return true;
    return false;
}

static weft_status add_key(Select *select, Expr *key)
{
    Query *query = select->query;
    for (int i = 0; i < query->n_keys; i++)
        if (expr_equal(query->keys[i], key)) return WEFT_OK;
    *LIST_PUSH(select->binder->arena, query->keys, query->n_keys) = key;
    return bind_count(select->binder, key);
}

static bool is_input_column(const Select *select, const Node *node)
{
    const char *name = bare_name(node);
    for (int i = 0; name && i < select->scope.n_columns; i++)
        if (strcmp(select->scope.columns[i].name, name) == 0) return true;
    return false;
}

static weft_status bind_key(Select *select, const Node *node)
{
    Binder *binder = select->binder;
    Expr   *key;
    int     output;
    if (node->node_case == PG_QUERY__NODE__NODE_GROUPING_SET)
        return refuse(binder, node_at(node), "GROUPING SETS, ROLLUP or CUBE");
    TRY(output_by_number(select, node, "GROUP BY", &output));
    if (output < 0 && !is_input_column(select, node)) TRY(output_by_name(select, node, "GROUP BY", &output));
    if (output >= 0) key = select->query->outputs[output].expr;
    else TRY(bind_expr(binder, node, &key));
    if (has_agg(key))
        return fail(binder->err, WEFT_GROUPING_ERROR, node_at(node), "aggregate functions are not allowed in GROUP BY");
    TRY(bind_settle(binder, key, &key));
    return add_key(select, key);
}

// Constant keys change nothing, except that even one of them makes no rows no group.
static void drop_constant_keys(Query *query)
{
    int n_kept = 0;
    for (int i = 0; i < query->n_keys; i++)
        if (!expr_is_const(query->keys[i])) query->keys[n_kept++] = query->keys[i];
    query->n_keys = n_kept ? n_kept : MIN_OF(query->n_keys, 1);
}

static weft_status bind_keys(Select *select)
{
    select->binder->clause = "GROUP BY";
    select->binder->allows_aggs = false;
    TRY(check_count(select, "GROUP BY", select->stmt->n_group_clause));
    for (size_t i = 0; i < select->stmt->n_group_clause; i++) TRY(bind_key(select, select->stmt->group_clause[i]));
    drop_constant_keys(select->query);
    return WEFT_OK;
}

// ---- keys in place of what they cover -------------------------------------------------------------------------------

static Expr *key_expr(const Select *select, int index, int at)
{
    Expr *expr = arena_make(select->binder->arena, Expr);
    *expr = (Expr){
        .kind = EXPR_KEY, .type = select->query->keys[index]->type, .at = at, .index = index, .depth = 1, .size = 1
    };
    return expr;
}

static weft_status not_grouped(const Select *select, const Expr *column)
{
    const Relation *relation = &select->query->relations[column->relation];
    return fail(select->binder->err, WEFT_GROUPING_ERROR, column->at,
                "column \"%s.%s\" must appear in the GROUP BY clause or be used in an aggregate function",
                relation->alias, relation->table->columns[column->column].name);
}

// NOT (a < b) was made a >= b when it was bound, so a key a < b has to be found behind that, too.
static weft_status use_negated_key(const Select *select, Expr *expr, Expr **out)
{
    const Query *query = select->query;
    Expr        *negated;
    if (expr->kind != EXPR_CALL || expr->type.kind != TYPE_BOOLEAN || expr->n_args > 2) return WEFT_OK;
    TRY(expr_call(select->binder->arena, OP_NOT, &expr, 1, expr->at, &negated, select->binder->err));
    for (int i = 0; i < query->n_keys; i++) {
        Expr *key = key_expr(select, i, expr->at);
        if (expr_equal(query->keys[i], negated)) return expr_call(select->binder->arena, OP_NOT, &key, 1, expr->at, out, select->binder->err);
    }
    return WEFT_OK;
}

static weft_status use_keys(const Select *select, Expr *expr, Expr **out)
{
    const Query *query = select->query;
    for (int i = 0; i < query->n_keys; i++) {
        if (!expr_equal(query->keys[i], expr)) continue;
        *out = key_expr(select, i, expr->at);
        return WEFT_OK;
    }
    *out = NULL;
    TRY(use_negated_key(select, expr, out));
    if (*out) return WEFT_OK;
    *out = expr;
    if (expr->kind == EXPR_COLUMN) return not_grouped(select, expr);
    if (expr->n_args == 0) return WEFT_OK;
    Expr *copy = arena_make(select->binder->arena, Expr);
    *copy = *expr;
    copy->args = arena_array(select->binder->arena, Expr *, expr->n_args);
    for (int i = 0; i < expr->n_args; i++) TRY(use_keys(select, expr->args[i], &copy->args[i]));
    *out = copy;
    return WEFT_OK;
}

static weft_status group_outputs(Select *select)
{
    Query *query = select->query;
    for (int i = 0; i < query->n_outputs; i++) TRY(use_keys(select, query->outputs[i].expr, &query->outputs[i].expr));
    return query->having ? use_keys(select, query->having, &query->having) : WEFT_OK;
}

static weft_status bind_having(Select *select)
{
    Query *query = select->query;
    if (!select->stmt->having_clause) return WEFT_OK;
    select->binder->clause = "HAVING";
    select->binder->allows_aggs = true;
    query->is_grouped = true;
    TRY(bind_condition(select->binder, select->stmt->having_clause, &query->having));
    return bind_count(select->binder, query->having);
}

// ---- ORDER BY -------------------------------------------------------------------------------------------------------

static weft_status sort_output(Select *select, const Node *node, int *output)
{
    Query *query = select->query;
    Expr  *expr;
    TRY(output_by_number(select, node, "ORDER BY", output));
    if (*output < 0) TRY(output_by_name(select, node, "ORDER BY", output));
    if (*output >= 0) return WEFT_OK;
    TRY(bind_expr(select->binder, node, &expr));
    TRY(bind_settle(select->binder, expr, &expr));
    for (*output = 0; *output < query->n_outputs; ++*output)
        if (expr_equal(query->outputs[*output].expr, expr)) return WEFT_OK;
    return add_output(select, expr, "?sort?");
}

static weft_status bind_sort_key(Select *select, const PgQuery__SortBy *by)
{
    Query  *query = select->query;
    SortKey key = { .descending = by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_DESC };
    if (by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_USING)
        return refuse(select->binder, node_at(by->node), "ORDER BY USING");
    key.nulls_first = key.descending;
    if (by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_FIRST) key.nulls_first = true;
    if (by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_LAST) key.nulls_first = false;
    TRY(sort_output(select, by->node, &key.output));
    if (select->stmt->n_distinct_clause && key.output >= query->n_visible)
        return fail(select->binder->err, WEFT_INVALID_REFERENCE, node_at(by->node),
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list");
    for (int i = 0; i < query->n_sort; i++)
        if (query->sort[i].output == key.output) return WEFT_OK;            // equal rows are equal in any direction
    *LIST_PUSH(select->binder->arena, query->sort, query->n_sort) = key;
    return WEFT_OK;
}

static weft_status bind_sort(Select *select)
{
    select->binder->clause = "ORDER BY";
    select->binder->allows_aggs = true;
    TRY(check_count(select, "ORDER BY", select->stmt->n_sort_clause));
    for (size_t i = 0; i < select->stmt->n_sort_clause; i++)
        TRY(bind_sort_key(select, select->stmt->sort_clause[i]->sort_by));
    return WEFT_OK;
}

// ---- DISTINCT -------------------------------------------------------------------------------------------------------

static weft_status distinct_as_keys(Select *select)
{
    Query *query = select->query;
    if (query->n_relations == 0) return WEFT_OK;            // one row
    for (int i = 0; i < query->n_visible; i++) TRY(add_key(select, query->outputs[i].expr));
    drop_constant_keys(query);
    query->is_grouped = true;
    return WEFT_OK;
}

// Groups differ in their keys, so rows that show all keys are distinct already.
static bool shows_all_keys(const Query *query)
{
    for (int k = 0; k < query->n_keys; k++) {
        int i = 0;
        while (i < query->n_visible && !expr_equal(query->outputs[i].expr, query->keys[k])) i++;
        if (i == query->n_visible) return false;
    }
    return true;
}

static weft_status bind_distinct(Select *select)
{
    Query *query = select->query;
    if (!select->stmt->n_distinct_clause) return WEFT_OK;
    if (!query->is_grouped) return distinct_as_keys(select);
    query->is_distinct = !shows_all_keys(query);
    return WEFT_OK;
}

// ---- LIMIT ----------------------------------------------------------------------------------------------------------

static weft_status bind_bound(Select *select, const Node *node, const char *clause, i64 *bound)
{
    Binder *binder = select->binder;
    Expr   *expr;
    Value   value;
    char    buffer[32];
    if (!node) return WEFT_OK;
    binder->clause = clause;
    binder->allows_aggs = false;
    binder->scope = NULL;
    TRY(bind_expr(binder, node, &expr));
    if (expr->type.kind != TYPE_NULL && !type_is_integer(expr->type))
        return fail(binder->err, WEFT_TYPE_MISMATCH, node_at(node), "argument of %s must be type bigint, not type %s",
                    clause, type_name(expr->type, buffer));
    TRY(expr_coerce(binder->arena, expr, TYPE(BIGINT), node_at(node), &expr, binder->err));
    TRY(expr_eval(expr, &(EvalContext){ .arena = binder->arena }, &value, binder->err));
    if (value.is_null) return WEFT_OK;
    if (value.i < 0) return fail(binder->err, WEFT_BAD_LIMIT, node_at(node), "%s must not be negative", clause);
    *bound = (i64)value.i;
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

weft_status bind_select(Binder *binder, const PgQuery__SelectStmt *stmt, Query **out)
{
    Query  *query = arena_make(binder->arena, Query);
    Select *select = arena_make(binder->arena, Select);
    *select = (Select){ .binder = binder, .stmt = stmt, .query = query };
    *out = binder->query = query;
    query->limit = -1;
    TRY(refuse_clauses(binder, stmt));
    TRY(bind_from(binder, stmt, &select->scope));
    binder->scope = &select->scope;
    if (stmt->where_clause) TRY(bind_conjuncts(binder, stmt->where_clause, "WHERE"));
    TRY(bind_targets(select));
    TRY(bind_keys(select));
    TRY(bind_having(select));
    TRY(bind_sort(select));
    query->is_grouped |= stmt->n_group_clause > 0 || query->n_aggs > 0;
    TRY(bind_distinct(select));
    if (query->is_grouped) TRY(group_outputs(select));
    TRY(bind_bound(select, stmt->limit_count, "LIMIT", &query->limit));
    TRY(bind_bound(select, stmt->limit_offset, "OFFSET", &query->offset));
    binder->scope = NULL;
    return WEFT_OK;
}
