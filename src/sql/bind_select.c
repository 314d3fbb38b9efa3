// bind_select.c - SELECT: its clauses in turn, and the nodes that they become.
//
//     FROM -> joins of subqueries, filter (WHERE) -> aggregate -> joins of subqueries, filter (HAVING) -> window
//          -> project (outputs) -> aggregate (DISTINCT) -> sort -> limit

#include "sql/sql_int.h"

// ---- what is refused ------------------------------------------------------------------------------------------------

static weft_status refuse_clauses(Binder *binder, const PgQuery__SelectStmt *stmt)
{
    if (stmt->into_clause) return refuse_word(binder, "into", "SELECT INTO");
    if (stmt->group_distinct && !has_grouping_sets(stmt)) return refuse_word(binder, "group", "GROUP BY DISTINCT");
    if (!stmt->n_target_list) return refuse_word(binder, "select", "SELECT without columns");
    return WEFT_OK;
}

// ---- outputs --------------------------------------------------------------------------------------------------------

static bool is_star(const ParseNode *node)
{
    if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF) return false;
    const PgQuery__ColumnRef *ref = node->column_ref;
    return ref->n_fields && ref->fields[ref->n_fields - 1]->node_case == PG_QUERY__NODE__NODE_A_STAR;
}

static weft_status bind_star_target(Binder *binder, Block *block, const PgQuery__ColumnRef *ref)
{
    const ScopeColumn *columns;
    int                n_columns;
    TRY(bind_star(binder, ref, &columns, &n_columns));
    for (int i = 0; i < n_columns; i++) {
        Expr *column;
        TRY(term_of_column(binder, columns[i].column, ref->location, &column));
        TRY(add_output(binder, block, column, columns[i].name));
    }
    return WEFT_OK;
}

static weft_status bind_targets(Binder *binder, Block *block)
{
    binder->place.clause = "SELECT";
    binder->place.allows_aggs = binder->place.allows_windows = true;
    for (size_t i = 0; i < block->stmt->n_target_list; i++) {
        const PgQuery__ResTarget *target = block->stmt->target_list[i]->res_target;
        const int first = binder->n_named;
        Expr *expr;
        if (is_star(target->val)) {
            TRY(bind_star_target(binder, block, target->val->column_ref));
            continue;
        }
        TRY(bind_expr(binder, target->val, &expr));
        TRY(add_output(binder, block, expr,
                       arena_strdup(binder->arena, target->name[0] ? target->name : output_name(target->val))));
        Output *output = &block->outputs[block->n_outputs - 1];
        output->named_first = first, output->named_last = binder->n_named;
    }
    block->n_visible = block->n_outputs;
    return WEFT_OK;
}

// ---- the tree -------------------------------------------------------------------------------------------------------

static weft_status bind_where(Binder *binder, Block *block)
{
    const int first = block->n_marks;
    Expr     *condition, **conditions = NULL;
    int       n_conditions = 0;
    binder->place.clause = "WHERE";
    if (!block->stmt->where_clause) return WEFT_OK;
    TRY(bind_condition(binder, block->stmt->where_clause, &condition));
    TRY(bind_conjuncts(binder, condition, &conditions, &n_conditions));
    TRY(place_condition_marks(binder, block, first, block->n_marks, conditions, &n_conditions, &block->node));
    block->node = plan_filter(binder->plan, block->node, conditions, n_conditions);
    return WEFT_OK;
}

static weft_status build_tree(Binder *binder, Block *block)
{
    if (block->is_grouped) TRY(build_groups(binder, block));
    TRY(place_condition_marks(binder, block, block->having_first, block->having_last, block->having, &block->n_having,
                              &block->node));
    block->node = plan_filter(binder->plan, block->node, block->having, block->n_having);
    TRY(place_marks(binder, block, false, &block->node));
    for (int i = 0; i < block->n_outputs; i++)
        TRY(bind_values_of_marks(binder, block, block->outputs[i].expr, &block->outputs[i].expr));
    return build_windows(binder, block);
}

// DISTINCT without ON is a list of an empty node.
static bool is_plain_distinct(const PgQuery__SelectStmt *stmt)
{
    return stmt->n_distinct_clause && stmt->distinct_clause[0]->node_case == PG_QUERY__NODE__NODE__NOT_SET;
}

// Whether rows can be equal at all: a group that shows its keys is the only one of its kind.
static bool needs_distinct(const Block *block)
{
    if (!block->is_distinct) return false;
    return block->is_grouped ? !shows_all_keys(block) : block->stmt->n_from_clause > 0;
}

weft_status bind_select(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    TRY(refuse_clauses(binder, stmt));
    block->is_distinct = is_plain_distinct(stmt);
    block->keeps_literals &= !stmt->n_distinct_clause && !stmt->n_sort_clause;
    TRY(bind_from(binder, block));
    binder->place = (Place){ .block = block, .scope = &block->scope };
    TRY(bind_where(binder, block));
    block->named_first = binder->n_named;
    TRY(bind_named_windows(binder, block));
    TRY(bind_targets(binder, block));
    TRY(bind_keys(binder, block));
    TRY(bind_having(binder, block));
    TRY(bind_sort(binder, block));
    block->is_grouped |= stmt->n_group_clause > 0 || block->n_aggs > 0 || block->n_groupings > 0;
    block->is_distinct = needs_distinct(block);
    return build_tree(binder, block);
}

// ---- DISTINCT -------------------------------------------------------------------------------------------------------

typedef struct Distinct {
    Expr **keys;
    int   *columns;
    int    n_keys;
    bool   is_constant;                // all outputs are constants
    Agg   *aggs;                       // of intervals: the one that stands for all of the same length
    int   *agg_columns;
    int    n_aggs;
} Distinct;

// A key of the length, and the least of the intervals that have it.
static weft_status add_interval_key(Binder *binder, Distinct *distinct, Expr *number, const char *name, Expr **out)
{
    Expr *interval, *length;
    int   n = distinct->n_aggs;
    TRY(interval_of_stored(binder->arena, number, number->at, &interval, binder->err));
    TRY(interval_as_length(binder->arena, interval, number->at, &length, binder->err));
    distinct->keys[distinct->n_keys] = length;
    distinct->columns[distinct->n_keys++] = plan_add_column(binder->plan, length->type, "length", NULL);
    TRY(expr_agg(AGG_MIN, number, number->at, LIST_PUSH(binder->arena, distinct->aggs, n), binder->err));
    const int column = plan_add_column(binder->plan, number->type, name, NULL);
    *LIST_PUSH(binder->arena, distinct->agg_columns, distinct->n_aggs) = column;
    columns_add(binder->arena, &binder->intervals, column);
    return term_of_column(binder, column, number->at, out);
}

// Constants and what is shown twice need no key; one there must be.  EXPR becomes the key's column.
static weft_status add_distinct_key(Binder *binder, const Block *block, Distinct *distinct, int output, Expr **exprs)
{
    const Expr *own = block->outputs[output].expr;
    for (int i = 0; i < output; i++) {
        if (!expr_equal(block->outputs[i].expr, own)) continue;
        exprs[output] = exprs[i];
        return WEFT_OK;
    }
    if (expr_is_const(own) && (!distinct->is_constant || distinct->n_keys)) {
        exprs[output] = block->outputs[output].expr;
        return WEFT_OK;
    }
    const char *name = block->outputs[output].name;
    if (columns_has(&binder->intervals, block->node->out[output]))
        return add_interval_key(binder, distinct, plan_column_expr(binder->plan, block->node->out[output], own->at),
                                name, &exprs[output]);
    const int k = distinct->n_keys++;
    distinct->keys[k] = plan_column_expr(binder->plan, block->node->out[output], own->at);
    distinct->columns[k] = plan_add_column(binder->plan, own->type, name, NULL);
    if (term_is_not_null(binder, own)) columns_add(binder->arena, &binder->not_null, distinct->columns[k]);
    exprs[output] = plan_column_expr(binder->plan, distinct->columns[k], own->at);
    return WEFT_OK;
}

// What others read has numbers in the place of intervals.
static weft_status project_outputs(Binder *binder, Block *block, Expr **exprs, const char *const *names)
{
    const int n = block->n_outputs;
    ColumnSet numbers = { 0 };
    for (int i = 0; i < n; i++) {
        if (block->stmt == binder->root && !block->is_distinct && expr_is_const(exprs[i])) continue;
        if (exprs[i]->type.kind == TYPE_INTERVAL) columns_add(binder->arena, &numbers, i);
        TRY(term_stored(binder, exprs[i], &exprs[i]));
    }
    block->node = term_project(binder, block->node, exprs, names, n);
    for (int i = 0; i < n; i++)
        if (columns_has(&numbers, i)) columns_add(binder->arena, &binder->intervals, block->node->out[i]);
    return WEFT_OK;
}

static weft_status build_distinct(Binder *binder, Block *block, const char *const *names)
{
    const int n = block->n_outputs;
    Distinct  distinct = { .keys = arena_array(binder->arena, Expr *, n + 1),
                           .columns = arena_array(binder->arena, int, n + 1), .is_constant = true };
    Expr    **exprs = arena_array(binder->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) distinct.is_constant &= expr_is_const(block->outputs[i].expr);
    for (int i = 0; i < n; i++) TRY(add_distinct_key(binder, block, &distinct, i, exprs));
    block->node = plan_aggregate(binder->plan, block->node, distinct.keys, distinct.columns, distinct.n_keys,
                                 distinct.aggs, distinct.agg_columns, distinct.n_aggs);
    term_name_long_columns(binder, block->node->out, block->node->n_out);
    if (distinct.n_keys < n || distinct.n_aggs)
        TRY(project_outputs(binder, block, exprs, names));
    return WEFT_OK;
}

// ---- the end of a block ---------------------------------------------------------------------------------------------

static void build_sort(Binder *binder, Block *block)
{
    SortKey *keys = arena_array(binder->arena, SortKey, block->n_sort + 1);
    for (int i = 0; i < block->n_sort; i++) {
        const SortItem *item = &block->sort[i];
        keys[i] = (SortKey){ block->node->out[item->output], item->descending, item->nulls_first };
    }
    block->node = plan_sort(binder->plan, block->node, keys, block->n_sort);
    block->node->n_distinct_on = block->n_distinct_on;
}

static weft_status give_bound(Binder *binder, const Block *block, Bound *out)
{
    const int n = block->n_visible;
    *out = (Bound){ .node = block->node, .n_columns = n, .outer = block->outer };
    out->is_correlated = columns_count(&block->outer) > 0;
    out->names = arena_array(binder->arena, const char *, n + 1);
    out->exprs = arena_array(binder->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) {
        const Output *output = &block->outputs[i];
        out->names[i] = output->name;
        out->exprs[i] = output->literal;
        if (!output->literal)
            TRY(term_of_column(binder, block->node->out[i], output->expr->at, &out->exprs[i]));
    }
    return WEFT_OK;
}

static bool is_interval_key(const Block *block, int i)
{
    return block->outputs[block->sort[i].output].expr->type.kind == TYPE_INTERVAL && !block->is_distinct;
}

// Rows of a set and of VALUES are sorted as they are, but where an interval and more decides.
static bool needs_lengths(const Block *block)
{
    for (int i = 0; i < block->n_sort - 1; i++)
        if (is_interval_key(block, i)) return true;
    return false;
}

// Intervals are equal where their lengths are, so these are sorted by.
static weft_status sort_by_lengths(Binder *binder, Block *block)
{
    for (int i = 0; i < block->n_sort; i++) {
        const Output *output = &block->outputs[block->sort[i].output];
        Expr         *length;
        if (!is_interval_key(block, i)) continue;
        TRY(interval_as_length(binder->arena, output->expr, output->expr->at, &length, binder->err));
        block->sort[i].output = block->n_outputs;
        TRY(add_output(binder, block, length, "?sort?"));
    }
    return WEFT_OK;
}

// Above all else: what is shown is an interval again.
static weft_status show_intervals(Binder *binder, Block *block)
{
    const int    n = block->n_visible;
    Expr       **exprs = arena_array(binder->arena, Expr *, n + 1);
    const char **names = arena_array(binder->arena, const char *, n + 1);
    bool         has_any = false;
    for (int i = 0; i < n; i++) {
        TRY(term_of_column(binder, block->node->out[i], -1, &exprs[i]));
        names[i] = block->outputs[i].name;
        has_any |= exprs[i]->type.kind == TYPE_INTERVAL;
    }
    if (has_any) block->node = term_project(binder, block->node, exprs, names, n);
    return WEFT_OK;
}

weft_status finish_block(Binder *binder, Block *block, bool has_project, Bound *out)
{
    has_project |= needs_lengths(block);
    if (has_project) TRY(sort_by_lengths(binder, block));
    const int    n = block->n_outputs;
    Expr       **exprs = arena_array(binder->arena, Expr *, n + 1);
    const char **names = arena_array(binder->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) exprs[i] = block->outputs[i].expr, names[i] = block->outputs[i].name;
    if (has_project) TRY(project_outputs(binder, block, exprs, names));
    if (block->is_distinct) TRY(build_distinct(binder, block, names));
    TRY(bind_limits(binder, block));
    const bool has_ties = block->stmt->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES &&
                          block->limit > 0 && block->n_sort > 0;
    if (has_ties && block->n_distinct_on) build_sort(binder, block);
    if (has_ties) TRY(build_ties(binder, block));
    if (has_ties) block->n_distinct_on = 0;
    if (block->n_sort) build_sort(binder, block);
    if (!has_ties && (block->limit >= 0 || block->offset > 0))
        block->node = plan_limit(binder->plan, block->node, block->limit, block->offset);
    if (block->stmt == binder->root) TRY(show_intervals(binder, block));
    return give_bound(binder, block, out);
}
