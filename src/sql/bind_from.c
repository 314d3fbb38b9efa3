// bind_from.c - FROM: scans, subqueries, uses of WITH, and joins.
//
// USING and NATURAL show two columns as one: the left one, the right one for a right join, and for a full join, where
// either can be missing, coalesce(left, right), which a project above the join makes.

#include "sql/sql_int.h"

enum { ITEMS_MAX = 256, COLUMNS_MAX = 1 << 17 };

static weft_status bind_item(Binder *binder, const ParseNode *node, Scope *scope, Node **out);

// ---- items ----------------------------------------------------------------------------------------------------------

static weft_status count_item(Binder *binder, int at)
{
    if (++binder->n_items > ITEMS_MAX || binder->plan->n_columns > COLUMNS_MAX) {
        fail(binder->err, WEFT_TOO_COMPLEX, at, "query is too large");
        error_hint(binder->err, "The limit is %d items of FROM and %d columns, subqueries included.", ITEMS_MAX,
                   COLUMNS_MAX);
        return WEFT_TOO_COMPLEX;
    }
    return WEFT_OK;
}

weft_status bind_column_names(Binder *binder, const char *what, const char *name, ParseNode *const *aliases,
                              size_t n_aliases, const char **names, int n_names, int at)
{
    if (n_aliases > (size_t)n_names)
        return fail(binder->err, WEFT_INVALID_REFERENCE, at,
                    "%s \"%s\" has %d columns available but %zu columns specified", what, name, n_names, n_aliases);
    for (size_t i = 0; i < n_aliases; i++) names[i] = arena_strdup(binder->arena, node_string(aliases[i]));
    return WEFT_OK;
}

// The columns of NODE under NAMES, or the alias's names.  TABLE: of which they are all columns, or NULL.
static weft_status add_source(Binder *binder, Scope *scope, const Node *node, const Table *table, TableHome home,
                              const char *name, const char *shown, const char *const *names,
                              const PgQuery__Alias *alias, int at)
{
    FromItem *source = arena_make(binder->arena, FromItem);
    *source = (FromItem){ .name = name, .shown = shown, .n_columns = node->n_out, .columns = node->out,
                          .table = table, .home = home };
    source->names = arena_array(binder->arena, const char *, node->n_out + 1);
    for (int i = 0; i < node->n_out; i++) source->names[i] = names[i];
    if (alias)
        TRY(bind_column_names(binder, "table", name, alias->colnames, alias->n_colnames, source->names,
                              source->n_columns, at));
    return scope_add_source(binder, scope, source, at);
}

static weft_status scan_table(Binder *binder, const Table *table, TableHome home, const char *name,
                              const PgQuery__Alias *alias, int at, Scope *scope, Node **out)
{
    if (binder->plan->n_scans == MAX_RELATIONS)
        return fail(binder->err, WEFT_TOO_COMPLEX, at, "a query can have at most %d tables", MAX_RELATIONS);
    *out = plan_scan(binder->plan, table, name, at);
    const char **names = arena_array(binder->arena, const char *, table->n_columns + 1);
    for (int c = 0; c < table->n_columns; c++) {
        names[c] = table->columns[c].name;
        if (table->columns[c].type.kind == TYPE_TIMESTAMPTZ)
            binder->plan->columns[(*out)->out[c]].type = bind_zoned(binder);
        if (type_is_stored_interval(table->columns[c].type)) {
            binder->plan->columns[(*out)->out[c]].type = (Type){ TYPE_NUMERIC, 38, 0 };
            columns_add(binder->arena, &binder->intervals, (*out)->out[c]);
        }
        if (table->columns[c].not_null) columns_add(binder->arena, &binder->not_null, (*out)->out[c]);
    }
    return add_source(binder, scope, *out, table, home, name, table->name, names, alias, at);
}

// Which TABLE is: what can stand before its name in schema.table.column.
static TableHome home_of(Binder *binder, const PgQuery__RangeVar *range, const Table *table)
{
    const Names *names = binder->names;
    TableHome    home;
    const char  *name = name_in_schema(binder, range->schemaname, range->relname, &home);
    if (range->alias) return HOME_ANY;
    if (home != HOME_ANY || range->schemaname[0]) return home;
    const Table *own = binder->n_views ? NULL : names->table(names->context, name, HOME_TEMPORARY);
    home = own == table ? HOME_TEMPORARY : HOME_PUBLIC;
    table_release(own);
    return home;
}

static weft_status bind_scan(Binder *binder, const PgQuery__RangeVar *range, const char *name, Scope *scope, Node **out)
{
    const Table *table;
    TRY(bind_table(binder, range, &table));
    return scan_table(binder, table, home_of(binder, range, table), name, range->alias, range->location, scope, out);
}

// Rows of a subquery or view as an item of FROM.
static weft_status add_rows(Binder *binder, const Bound *bound, TableHome home, const char *name,
                            const PgQuery__Alias *alias, int at, Scope *scope, Node **out)
{
    *out = visible_rows(binder, bound);
    for (int c = 0; c < (*out)->n_out; c++) {
        PlanColumn *column = &binder->plan->columns[(*out)->out[c]];
        if (!column->value && !column->agg && !column->qualifier) column->qualifier = name;
    }
    return add_source(binder, scope, *out, NULL, home, name, name, bound->names, alias, at);
}

static weft_status bind_view_use(Binder *binder, const PgQuery__RangeVar *range, const ViewText *view, const char *name,
                                 Scope *scope, Node **out)
{
    Bound bound;
    TRY(bind_view(binder, view, range->relname, range->location, &bound));
    const TableHome home = range->alias ? HOME_ANY : HOME_PUBLIC;
    return add_rows(binder, &bound, home, name, range->alias, range->location, scope, out);
}

static weft_status bind_file(Binder *binder, const PgQuery__RangeFunction *function, Scope *scope, Node **out)
{
    const Table *table;
    const char  *name;
    TRY(count_item(binder, -1));
    TRY(bind_table_function(binder, function, &table, &name));
    if (function->alias) name = arena_strdup(binder->arena, function->alias->aliasname);
    return scan_table(binder, table, HOME_ANY, name, function->alias, -1, scope, out);
}

static const With *find_with(const Binder *binder, const PgQuery__RangeVar *range)
{
    if (range->schemaname[0] || range->catalogname[0]) return NULL;
    for (const With *with = binder->with; with; with = with->next)
        if (strcmp(with->name, range->relname) == 0) return with;
    return NULL;
}

// Columns of queries around are named here, too.
static weft_status copy_with(Binder *binder, const With *with, int at, Node **out)
{
    ColumnSet outer = { 0 };
    plan_free_columns(binder->arena, with->root, &outer);
    for (Block *block = binder->place.block; block && block != with->around; block = block->around)
        columns_add_all(binder->arena, &block->outer, &outer);
    return copy_rows(binder, with->root, at, out);
}

static weft_status bind_with_use(Binder *binder, const PgQuery__RangeVar *range, const With *with, const char *name,
                                 Scope *scope, Node **out)
{
    const Node *root = with->repeat ? with->repeat : with->root;
    if (with->is_hidden)
        return fail(binder->err, WEFT_UNSUPPORTED, range->location,
                    "a use of \"%s\" before its own UNION, or before its place in WITH RECURSIVE, is not supported yet",
                    with->name);
    if (with->recursion) with->recursion->n_uses++, with->recursion->at = range->location;
    if (with->repeat) *out = plan_last_round(binder->plan, with->repeat, name, range->location);
    else if (with->shared) *out = plan_reference(binder->plan, with->shared, name, range->location);
    else TRY(copy_with(binder, with, range->location, out));
    for (int c = 0; c < root->n_out; c++) {
        const int column = (*out)->out[c];
        binder->plan->columns[column].name = with->names[c];
        if (term_is_not_null(binder, plan_column_expr(binder->plan, root->out[c], -1)))
            columns_add(binder->arena, &binder->not_null, column);
        if (columns_has(&binder->intervals, root->out[c])) columns_add(binder->arena, &binder->intervals, column);
    }
    return add_source(binder, scope, *out, NULL, HOME_ANY, name, name, with->names, range->alias, range->location);
}

static weft_status bind_relation(Binder *binder, const PgQuery__RangeVar *range, Scope *scope, Node **out)
{
    const char *name = arena_strdup(binder->arena, range->alias ? range->alias->aliasname : range->relname);
    const With *with = find_with(binder, range);
    TRY(count_item(binder, range->location));
    if (with) return bind_with_use(binder, range, with, name, scope, out);
    const char *whole;
    TableHome   home;
    TRY(bind_table_name(binder, range, &whole, &home));
    const ViewText *view = find_view(binder, whole, home);
    if (view) return bind_view_use(binder, range, view, name, scope, out);
    return bind_scan(binder, range, name, scope, out);
}

static weft_status bind_derived(Binder *binder, const PgQuery__RangeSubselect *item, Scope *scope, Node **out)
{
    const int    at = node_at(item->subquery);
    const Scope *scope_around = binder->place.scope;
    Bound        bound;
    TRY(count_item(binder, at));
    if (item->lateral && binder->place.lateral) binder->place.scope = binder->place.lateral;
    TRY(binder->bind_query(binder, item->subquery->select_stmt, &bound));
    binder->place.scope = scope_around;
    binder->plan->is_correlated |= item->lateral && bound.is_correlated;
    const char *name = item->alias ? arena_strdup(binder->arena, item->alias->aliasname) : NULL;
    return add_rows(binder, &bound, HOME_ANY, name, item->alias, at, scope, out);
}

// A function that gives rows.  It sees what stands before it, with or without LATERAL.
static weft_status bind_function_rows(Binder *binder, const PgQuery__RangeFunction *range, Scope *scope, Node **out)
{
    const PgQuery__FuncCall *call = NULL;
    if (range->n_functions == 1 && range->functions[0]->node_case == PG_QUERY__NODE__NODE_LIST &&
        range->functions[0]->list->n_items && range->functions[0]->list->items[0]->node_case ==
        PG_QUERY__NODE__NODE_FUNC_CALL)
        call = range->functions[0]->list->items[0]->func_call;
    const char *function = call ? node_string(call->funcname[call->n_funcname - 1]) : NULL;
    if (!function || !bind_gives_rows(function))
        return refuse_word(binder, "from", "a function in FROM other than generate_series and unnest");
    if (range->ordinality) return refuse(binder, call->location, "WITH ORDINALITY");
    if (range->n_coldeflist) return refuse(binder, call->location, "a list of column definitions");
    TRY(count_item(binder, call->location));
    const char *name = arena_strdup(binder->arena, range->alias ? range->alias->aliasname : function);
    const Place place = binder->place;
    ColumnSet   outer = { 0 };
    if (place.lateral) binder->place.scope = place.lateral;
    TRY(bind_rows_of(binder, call, function, name, out));
    binder->place = place;
    plan_free_columns(binder->arena, *out, &outer);
    binder->plan->is_correlated |= columns_count(&outer) > 0;
    return add_source(binder, scope, *out, NULL, HOME_ANY, name, function, &name, range->alias, call->location);
}

// ---- merged columns -------------------------------------------------------------------------------------------------

enum { NAMED_TWICE = -1 };

// From a name to its column's place in the scope.
static Map *map_names(Binder *binder, const Scope *scope)
{
    Map *names = map_new(binder->arena);
    u64  ignored;
    for (int i = 0; i < scope->n_columns; i++) {
        const char  *name = scope->columns[i].name;
        const size_t length = strlen(name);
        map_set(names, name, length, map_get(names, name, length, &ignored) ? (u64)NAMED_TWICE : (u64)i);
    }
    return names;
}

static weft_status find_once(Binder *binder, const Scope *scope, const Map *names, const char *name, const char *side,
                             int at, const ScopeColumn **found)
{
    u64 place;
    if (!map_get(names, name, strlen(name), &place))
        return fail(binder->err, WEFT_UNDEFINED_COLUMN, at,
                    "column \"%s\" specified in USING clause does not exist in %s table", name, side);
    if (place == (u64)NAMED_TWICE)
        return fail(binder->err, WEFT_AMBIGUOUS_COLUMN, at,
                    "common column name \"%s\" appears more than once in %s table", name, side);
    *found = &scope->columns[place];
    return WEFT_OK;
}

static weft_status coalesce_column(Binder *binder, Join *join, Expr *left, Expr *right, const char *name, int at,
                                   int *column)
{
    Expr *either;
    TRY(bind_call(binder, OP_COALESCE, left, right, at, &either));
    const bool is_interval = either->type.kind == TYPE_INTERVAL;
    TRY(term_stored(binder, either, &either));
    *column = term_column(binder, either, name);
    if (is_interval) columns_add(binder->arena, &binder->intervals, *column);
    *LIST_PUSH(binder->arena, join->merged, join->n_merged) = either;
    *LIST_PUSH(binder->arena, join->merged_columns, join->n_merged_columns) = *column;
    return bind_count(binder, either);
}

typedef struct Merge { Map *left, *right, *merged; } Merge;  // names

// Merges one column of both sides: it is shown once, and the two are equal.
static weft_status merge_column(Binder *binder, Join *join, Merge *merge, const char *name, int at, Scope *scope)
{
    const ScopeColumn *a = NULL, *b = NULL;
    Expr *equal;
    u64   ignored;
    TRY(find_once(binder, &join->left, merge->left, name, "left", at, &a));
    TRY(find_once(binder, &join->right, merge->right, name, "right", at, &b));
    if (map_get(merge->merged, name, strlen(name), &ignored))
        return fail(binder->err, WEFT_DUPLICATE_COLUMN, at, "column name \"%s\" appears more than once in USING clause",
                    name);
    map_set(merge->merged, name, strlen(name), 1);
    Expr *left, *right;
    TRY(term_of_column(binder, a->column, at, &left));
    TRY(term_of_column(binder, b->column, at, &right));
    TRY(bind_call(binder, OP_EQ, left, right, at, &equal));
    TRY(bind_conjuncts(binder, equal, &join->conditions, &join->n_conditions));
    ScopeColumn shown = join->kind == JOIN_RIGHT ? *b : *a;
    if (join->kind == JOIN_FULL) TRY(coalesce_column(binder, join, left, right, a->name, at, &shown.column));
    scope_add_column(binder, scope, shown);
    return WEFT_OK;
}

static weft_status merge_columns(Binder *binder, const PgQuery__JoinExpr *expr, Join *join, Merge *merge, Scope *scope)
{
    const int at = node_at(expr->rarg);
    u64       ignored;
    for (size_t i = 0; i < expr->n_using_clause; i++)
        TRY(merge_column(binder, join, merge, node_string(expr->using_clause[i]), at, scope));
    for (int i = 0; expr->is_natural && i < join->left.n_columns; i++) {
        const char *name = join->left.columns[i].name;
        if (map_get(merge->right, name, strlen(name), &ignored))
            TRY(merge_column(binder, join, merge, name, at, scope));
    }
    return WEFT_OK;
}

static void add_unmerged(Binder *binder, const Scope *side, const Map *merged, Scope *scope)
{
    u64 ignored;
    for (int i = 0; i < side->n_columns; i++) {
        const char *name = side->columns[i].name;
        const bool  is_merged = merged && map_get(merged, name, strlen(name), &ignored);
        if (!is_merged) scope_add_column(binder, scope, side->columns[i]);
    }
}

static void add_sources(Binder *binder, const Scope *side, Scope *scope)
{
    for (int i = 0; i < side->n_sources; i++)
        *LIST_PUSH(binder->arena, scope->sources, scope->n_sources) = side->sources[i];
}

static weft_status merge_scopes(Binder *binder, const PgQuery__JoinExpr *expr, Join *join, Scope *scope)
{
    Merge merge = { 0 };
    if (expr->n_using_clause || expr->is_natural) {
        merge = (Merge){ map_names(binder, &join->left), map_names(binder, &join->right), map_new(binder->arena) };
        TRY(merge_columns(binder, expr, join, &merge, scope));
    }
    add_unmerged(binder, &join->left, merge.merged, scope);
    add_unmerged(binder, &join->right, merge.merged, scope);
    add_sources(binder, &join->left, scope);
    add_sources(binder, &join->right, scope);
    return WEFT_OK;
}

// ---- joins ----------------------------------------------------------------------------------------------------------

static Node *add_merged(Binder *binder, const Join *join, Node *node)
{
    const int n_out = node->n_out + join->n_merged;
    Expr    **exprs = arena_array(binder->arena, Expr *, n_out + 1);
    int      *columns = arena_array(binder->arena, int, n_out + 1);
    for (int i = 0; i < n_out; i++) {
        const int m = i - node->n_out;
        columns[i] = m < 0 ? node->out[i] : join->merged_columns[m];
        exprs[i] = m < 0 ? plan_column_expr(binder->plan, columns[i], -1) : join->merged[m];
    }
    return plan_project(binder->plan, node, exprs, columns, n_out);
}

// Notes which columns an outer join fills with NULLs.
static void make_null(Binder *binder, const Join *join)
{
    const bool is_full = join->kind == JOIN_FULL;
    if (is_full || join->kind == JOIN_LEFT) node_columns(binder->arena, join->nodes[1], &binder->made_null);
    if (is_full || join->kind == JOIN_RIGHT) node_columns(binder->arena, join->nodes[0], &binder->made_null);
}

static JoinKind join_kind(const PgQuery__JoinExpr *expr)
{
    switch (expr->jointype) {
        case PG_QUERY__JOIN_TYPE__JOIN_LEFT:  return JOIN_LEFT;
        case PG_QUERY__JOIN_TYPE__JOIN_RIGHT: return JOIN_RIGHT;
        case PG_QUERY__JOIN_TYPE__JOIN_FULL:  return JOIN_FULL;
        default:                              return JOIN_INNER;
    }
}

static weft_status bind_on(Binder *binder, const ParseNode *condition, Join *join, Scope *scope)
{
    const Place place = binder->place;
    Expr       *on;
    if (!condition) return WEFT_OK;
    scope->outer = place.block->scope.outer, scope->owner = place.block;
    binder->place = (Place){ .block = place.block, .scope = scope, .clause = "JOIN/ON" };
    TRY(bind_condition(binder, condition, &on));
    binder->place = place;
    return bind_conjuncts(binder, on, &join->conditions, &join->n_conditions);
}

// What LATERAL sees on the right side of a join: the left side, beside what it sees on the left side.
static weft_status bind_right_side(Binder *binder, const PgQuery__JoinExpr *expr, Join *join)
{
    const Place place = binder->place;
    Scope      *seen = arena_make(binder->arena, Scope);
    if (place.lateral) *seen = *place.lateral;
    else *seen = (Scope){ .outer = place.scope, .owner = place.block };
    seen->columns = NULL, seen->n_columns = 0, seen->sources = NULL, seen->n_sources = 0;
    if (place.lateral) add_sources(binder, place.lateral, seen);
    if (place.lateral) add_unmerged(binder, place.lateral, NULL, seen);
    if (join->kind == JOIN_INNER || join->kind == JOIN_LEFT) {
        add_sources(binder, &join->left, seen);
        add_unmerged(binder, &join->left, NULL, seen);
    }
    binder->place.lateral = seen;
    TRY(bind_item(binder, expr->rarg, &join->right, &join->nodes[1]));
    binder->place = place;
    return WEFT_OK;
}

static weft_status bind_join(Binder *binder, const PgQuery__JoinExpr *expr, Scope *scope, Node **out)
{
    Join *join = arena_make(binder->arena, Join);           // not on the stack: joins nest
    if (expr->alias || expr->join_using_alias) return refuse(binder, node_at(expr->rarg), "an alias for a join");
    join->kind = join_kind(expr);
    TRY(bind_item(binder, expr->larg, &join->left, &join->nodes[0]));
    TRY(bind_right_side(binder, expr, join));
    make_null(binder, join);
    TRY(merge_scopes(binder, expr, join, scope));
    join->marks_first = binder->place.block->n_marks;
    TRY(bind_on(binder, expr->quals, join, scope));
    if (join->kind == JOIN_INNER) return join_inner_on(binder, join, out);
    TRY(join_outer_on(binder, join, out));
    if (join->n_merged) *out = add_merged(binder, join, *out);
    return WEFT_OK;
}

// ---- FROM -----------------------------------------------------------------------------------------------------------

static weft_status bind_item(Binder *binder, const ParseNode *node, Scope *scope, Node **out)
{
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_RANGE_VAR:       return bind_relation(binder, node->range_var, scope, out);
        case PG_QUERY__NODE__NODE_JOIN_EXPR:       return bind_join(binder, node->join_expr, scope, out);
        case PG_QUERY__NODE__NODE_RANGE_SUBSELECT: return bind_derived(binder, node->range_subselect, scope, out);
        case PG_QUERY__NODE__NODE_RANGE_FUNCTION:
            if (is_file_function(node->range_function)) return bind_file(binder, node->range_function, scope, out);
            return bind_function_rows(binder, node->range_function, scope, out);
        case PG_QUERY__NODE__NODE_RANGE_TABLE_SAMPLE:
            return refuse(binder, node->range_table_sample->location, "TABLESAMPLE");
        case PG_QUERY__NODE__NODE_RANGE_TABLE_FUNC:
            return refuse(binder, node->range_table_func->location, "XMLTABLE");
        default:
            return refuse(binder, node_at(node), "this item in FROM");
    }
}

// An item sees neither its neighbours nor itself: its scope is the one outside.  LATERAL sees those before it.
weft_status bind_from(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    binder->place = (Place){ .block = block, .scope = block->scope.outer, .clause = "FROM" };
    if (!stmt->n_from_clause) block->node = plan_values(binder->plan, 1, 0, NULL, NULL);
    for (size_t i = 0; i < stmt->n_from_clause; i++) {
        Scope *item = arena_make(binder->arena, Scope);
        Node  *node;
        binder->place.lateral = &block->scope;
        TRY(bind_item(binder, stmt->from_clause[i], item, &node));
        block->node = i ? plan_join(binder->plan, JOIN_INNER, block->node, node, NULL, 0) : node;
        add_sources(binder, item, &block->scope);
        ScopeColumn *columns =
            LIST_PUSH_SOME(binder->arena, block->scope.columns, block->scope.n_columns, item->n_columns);
        for (int c = 0; c < item->n_columns; c++) columns[c] = item->columns[c];
    }
    return WEFT_OK;
}
