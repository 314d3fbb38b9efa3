// bind_from.c - FROM: relations, joins, and what a column name means.
//
// All joins are inner, so a join is its relations and its conditions, and the conditions go where WHERE's go.  What is
// left of the tree of joins is the scope: which names are visible, in which order * shows them, and that USING merged
// two columns:
//
//     a(x, y) join b(x, z) using (x)     scope: x of a, y, z      b.x is still there when asked for by table
//
// A condition sees only the two sides of its join.

#include "sql/sql_int.h"

// ---- names ----------------------------------------------------------------------------------------------------------

static const char *relation_name(const Relation *relation)
{
    return relation->alias ? relation->alias : relation->table->name;
}

static bool is_visible(const Binder *binder, int relation)
{
    return binder->scope && (binder->scope->relations >> relation & 1);
}

static Expr *column_expr(const Binder *binder, int relation, int column, int at)
{
    return expr_column(binder->arena, relation, column, binder->query->relations[relation].table->columns[column].type,
                       at);
}

static weft_status no_column(Binder *binder, const char *name, int at)
{
    const int    n_columns = binder->scope ? binder->scope->n_columns : 0;
    const char **names = arena_array(binder->arena, const char *, n_columns + 1);
    for (int i = 0; i < n_columns; i++) names[i] = binder->scope->columns[i].name;
    const char *nearest = nearest_name(name, names, n_columns);
    fail(binder->err, WEFT_UNDEFINED_COLUMN, at, "column \"%s\" does not exist", name);
    if (nearest) error_hint(binder->err, "Perhaps you meant \"%s\".", nearest);
    return WEFT_UNDEFINED_COLUMN;
}

static weft_status find_relation(Binder *binder, const char *name, int at, int *relation)
{
    const Query *query = binder->query;
    for (int r = 0; query && r < query->n_relations; r++) {
        if (strcmp(relation_name(&query->relations[r]), name) != 0) continue;
        *relation = r;
        if (is_visible(binder, r)) return WEFT_OK;
        return fail(binder->err, WEFT_UNDEFINED_TABLE, at, "invalid reference to FROM-clause entry for table \"%s\"",
                    name);
    }
    return fail(binder->err, WEFT_UNDEFINED_TABLE, at, "missing FROM-clause entry for table \"%s\"", name);
}

// The table's name in schema.table.column, table.column or table.*; NULL when there is none.
static weft_status qualifier(Binder *binder, const PgQuery__ColumnRef *ref, const char **table)
{
    *table = NULL;
    if (ref->n_fields > 3) return refuse(binder, ref->location, "naming a database");
    if (ref->n_fields == 3) {
        const char *schema = node_string(ref->fields[0]);
        if (!schema || strcmp(schema, "public") != 0)
            return refuse(binder, ref->location, "a schema other than public");
    }
    if (ref->n_fields > 1) {
        *table = node_string(ref->fields[ref->n_fields - 2]);
        if (!*table) return fail(binder->err, WEFT_SYNTAX_ERROR, ref->location, "improper use of \"*\"");
    }
    return WEFT_OK;
}

static weft_status bind_qualified(Binder *binder, const char *table_name, const char *name, int at, Expr **out)
{
    int relation;
    TRY(find_relation(binder, table_name, at, &relation));
    const Table *table = binder->query->relations[relation].table;
    const int    column = table_find_column(table, name);
    if (column >= 0) {
        *out = column_expr(binder, relation, column, at);
        return WEFT_OK;
    }
    unknown_column(binder, table, name, at);
    return WEFT_UNDEFINED_COLUMN;
}

weft_status bind_column(Binder *binder, const PgQuery__ColumnRef *ref, Expr **out)
{
    const int   at = ref->location;
    const char *table, *name = ref->n_fields ? node_string(ref->fields[ref->n_fields - 1]) : NULL;
    const ScopeColumn *found = NULL;
    if (!name) return fail(binder->err, WEFT_SYNTAX_ERROR, at, "row expansion via \"*\" is not supported here");
    TRY(qualifier(binder, ref, &table));
    if (table) return bind_qualified(binder, table, name, at, out);
    for (int i = 0; binder->scope && i < binder->scope->n_columns; i++) {
        if (strcmp(binder->scope->columns[i].name, name) != 0) continue;
        if (found) return fail(binder->err, WEFT_AMBIGUOUS_COLUMN, at, "column reference \"%s\" is ambiguous", name);
        found = &binder->scope->columns[i];
    }
    if (!found) return no_column(binder, name, at);
    *out = column_expr(binder, found->relation, found->column, at);
    return WEFT_OK;
}

weft_status bind_star(Binder *binder, const PgQuery__ColumnRef *ref, Expr ***columns, const char ***names,
                      int *n_columns)
{
    const char *table_name;
    int         relation, n_names = 0;
    TRY(qualifier(binder, ref, &table_name));
    if (!table_name) {
        if (!binder->query->n_relations)
            return fail(binder->err, WEFT_SYNTAX_ERROR, ref->location,
                        "SELECT * with no tables specified is not valid");
        for (int i = 0; i < binder->scope->n_columns; i++) {
            const ScopeColumn *column = &binder->scope->columns[i];
            *LIST_PUSH(binder->arena, *columns, *n_columns) =
                column_expr(binder, column->relation, column->column, ref->location);
            *LIST_PUSH(binder->arena, *names, n_names) = column->name;
        }
        return WEFT_OK;
    }
    TRY(find_relation(binder, table_name, ref->location, &relation));
    const Table *table = binder->query->relations[relation].table;
    for (int i = 0; i < table->n_columns; i++) {
        *LIST_PUSH(binder->arena, *columns, *n_columns) = column_expr(binder, relation, i, ref->location);
        *LIST_PUSH(binder->arena, *names, n_names) = table->columns[i].name;
    }
    return WEFT_OK;
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static weft_status add_conjunct(Binder *binder, Expr *expr)
{
    if (expr->kind == EXPR_CALL && expr->op == OP_AND) {
        TRY(add_conjunct(binder, expr->args[0]));
        return add_conjunct(binder, expr->args[1]);
    }
    if (expr_is_const(expr) && !expr->value.is_null && expr->value.i) return WEFT_OK;
    *LIST_PUSH(binder->arena, binder->query->conjuncts, binder->query->n_conjuncts) = expr;
    return bind_count(binder, expr);
}

weft_status bind_conjuncts(Binder *binder, const Node *node, const char *clause)
{
    Expr *condition;
    binder->clause = clause;
    binder->allows_aggs = false;
    TRY(bind_condition(binder, node, &condition));
    return add_conjunct(binder, condition);
}

// ---- relations ------------------------------------------------------------------------------------------------------

static weft_status bind_item(Binder *binder, const Node *node, Scope *scope);

static void add_scope_column(Binder *binder, Scope *scope, ScopeColumn column)
{
    *LIST_PUSH(binder->arena, scope->columns, scope->n_columns) = column;
}

static weft_status check_alias(Binder *binder, const char *name, int at)
{
    const Query *query = binder->query;
    for (int r = 0; r < query->n_relations; r++)
        if (strcmp(relation_name(&query->relations[r]), name) == 0)
            return fail(binder->err, WEFT_DUPLICATE_ALIAS, at, "table name \"%s\" specified more than once", name);
    return WEFT_OK;
}

static weft_status bind_relation(Binder *binder, const PgQuery__RangeVar *range, Scope *scope)
{
    Query *query = binder->query;
    const int r = query->n_relations;
    Relation  relation = { .at = range->location };
    if (range->alias && range->alias->n_colnames) return refuse(binder, range->location, "a list of column aliases");
    if (r == MAX_RELATIONS)
        return fail(binder->err, WEFT_TOO_COMPLEX, range->location, "a query can have at most %d tables",
                    MAX_RELATIONS);
    TRY(bind_table(binder, range, &relation.table));
    relation.alias = arena_strdup(binder->arena, range->alias ? range->alias->aliasname : range->relname);
    TRY(check_alias(binder, relation.alias, range->location));
    *LIST_PUSH(binder->arena, query->relations, query->n_relations) = relation;
    scope->relations |= (u64)1 << r;
    for (int c = 0; c < relation.table->n_columns; c++)
        add_scope_column(binder, scope, (ScopeColumn){ relation.table->columns[c].name, r, c });
    return WEFT_OK;
}

// ---- joins ----------------------------------------------------------------------------------------------------------

static weft_status find_once(Binder *binder, const Scope *scope, const char *name, const char *side, int at,
                             const ScopeColumn **found)
{
    *found = NULL;
    for (int i = 0; i < scope->n_columns; i++) {
        if (strcmp(scope->columns[i].name, name) != 0) continue;
        if (*found)
            return fail(binder->err, WEFT_AMBIGUOUS_COLUMN, at,
                        "common column name \"%s\" appears more than once in %s table", name, side);
        *found = &scope->columns[i];
    }
    if (*found || !side) return WEFT_OK;
    return fail(binder->err, WEFT_UNDEFINED_COLUMN, at,
                "column \"%s\" specified in USING clause does not exist in %s table", name, side);
}

// Merges one column of both sides: it is shown once, as the left one, and the two are equal.
static weft_status merge_column(Binder *binder, const Scope *left, const Scope *right, const char *name, int at,
                                Scope *merged)
{
    const ScopeColumn *a, *b;
    Expr *equal;
    TRY(find_once(binder, left, name, "left", at, &a));
    TRY(find_once(binder, right, name, "right", at, &b));
    for (int i = 0; i < merged->n_columns; i++)
        if (strcmp(merged->columns[i].name, name) == 0)
            return fail(binder->err, WEFT_DUPLICATE_COLUMN, at,
                        "column name \"%s\" appears more than once in USING clause", name);
    TRY(bind_call(binder, OP_EQ, column_expr(binder, a->relation, a->column, at),
                  column_expr(binder, b->relation, b->column, at), at, &equal));
    add_scope_column(binder, merged, *a);
    return add_conjunct(binder, equal);
}

static void add_unmerged(Binder *binder, const Scope *side, int n_merged, Scope *scope)
{
    for (int i = 0; i < side->n_columns; i++) {
        bool is_merged = false;
        for (int j = 0; j < n_merged; j++) is_merged |= strcmp(scope->columns[j].name, side->columns[i].name) == 0;
        if (!is_merged) add_scope_column(binder, scope, side->columns[i]);
    }
}

static bool has_name(const Scope *scope, const char *name)
{
    for (int i = 0; i < scope->n_columns; i++)
        if (strcmp(scope->columns[i].name, name) == 0) return true;
    return false;
}

static weft_status merge_columns(Binder *binder, const PgQuery__JoinExpr *join, const Scope *left, const Scope *right,
                                 int at, Scope *scope)
{
    for (size_t i = 0; i < join->n_using_clause; i++)
        TRY(merge_column(binder, left, right, node_string(join->using_clause[i]), at, scope));
    for (int i = 0; join->is_natural && i < left->n_columns; i++)
        if (has_name(right, left->columns[i].name))
            TRY(merge_column(binder, left, right, left->columns[i].name, at, scope));
    const int n_merged = scope->n_columns;
    add_unmerged(binder, left, n_merged, scope);
    add_unmerged(binder, right, n_merged, scope);
    return WEFT_OK;
}

static weft_status refuse_join(Binder *binder, const PgQuery__JoinExpr *join)
{
    switch (join->jointype) {
        case PG_QUERY__JOIN_TYPE__JOIN_INNER: break;
        case PG_QUERY__JOIN_TYPE__JOIN_LEFT:  return refuse(binder, sql_find_word(binder->text, "left"), "LEFT JOIN");
        case PG_QUERY__JOIN_TYPE__JOIN_RIGHT: return refuse(binder, sql_find_word(binder->text, "right"), "RIGHT JOIN");
        default:                              return refuse(binder, sql_find_word(binder->text, "full"), "FULL JOIN");
    }
    if (join->alias || join->join_using_alias) return refuse(binder, node_at(join->rarg), "an alias for a join");
    return WEFT_OK;
}

static weft_status bind_join(Binder *binder, const PgQuery__JoinExpr *join, Scope *scope)
{
    Scope left = { 0 }, right = { 0 };
    TRY(refuse_join(binder, join));
    TRY(bind_item(binder, join->larg, &left));
    TRY(bind_item(binder, join->rarg, &right));
    scope->relations = left.relations | right.relations;
    TRY(merge_columns(binder, join, &left, &right, node_at(join->rarg), scope));
    if (!join->quals) return WEFT_OK;
    binder->scope = scope;
    TRY(bind_conjuncts(binder, join->quals, "JOIN/ON"));
    binder->scope = NULL;
    return WEFT_OK;
}

static weft_status bind_item(Binder *binder, const Node *node, Scope *scope)
{
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_RANGE_VAR: return bind_relation(binder, node->range_var, scope);
        case PG_QUERY__NODE__NODE_JOIN_EXPR: return bind_join(binder, node->join_expr, scope);
        case PG_QUERY__NODE__NODE_RANGE_SUBSELECT: {
            const Node *query = node->range_subselect->subquery;
            if (node->range_subselect->lateral)
                return refuse(binder, sql_find_word(binder->text, "lateral"), "LATERAL");
            if (query && query->node_case == PG_QUERY__NODE__NODE_SELECT_STMT && query->select_stmt->n_values_lists)
                return refuse(binder, sql_find_word(binder->text, "values"), "VALUES in FROM");
            return refuse(binder, node_at(query), "a subquery in FROM");
        }
        case PG_QUERY__NODE__NODE_RANGE_FUNCTION:
            return refuse(binder, sql_find_word(binder->text, "from"), "a function in FROM");
        case PG_QUERY__NODE__NODE_RANGE_TABLE_SAMPLE:
            return refuse(binder, node->range_table_sample->location, "TABLESAMPLE");
        case PG_QUERY__NODE__NODE_RANGE_TABLE_FUNC:
            return refuse(binder, node->range_table_func->location, "XMLTABLE");
        default:
            return refuse(binder, node_at(node), "this item in FROM");
    }
}

weft_status bind_from(Binder *binder, const PgQuery__SelectStmt *select, Scope *scope)
{
    for (size_t i = 0; i < select->n_from_clause; i++) {
        Scope item = { 0 };
        TRY(bind_item(binder, select->from_clause[i], &item));
        scope->relations |= item.relations;
        for (int c = 0; c < item.n_columns; c++) add_scope_column(binder, scope, item.columns[c]);
    }
    return WEFT_OK;
}
