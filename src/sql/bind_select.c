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
    for (int i = 0; i < n_columns; i++)
        TRY(add_output(binder, block, plan_column_expr(binder->plan, columns[i].column, ref->location),
                       columns[i].name));
    return WEFT_OK;
}

static weft_status bind_targets(Binder *binder, Block *block)
{
    binder->place.clause = "SELECT";
    binder->place.allows_aggs = binder->place.allows_windows = true;
    for (size_t i = 0; i < block->stmt->n_target_list; i++) {
        const PgQuery__ResTarget *target = block->stmt->target_list[i]->res_target;
        Expr *expr;
        if (is_star(target->val)) {
            TRY(bind_star_target(binder, block, target->val->column_ref));
            continue;
        }
        TRY(bind_expr(binder, target->val, &expr));
        TRY(add_output(binder, block, expr,
                       arena_strdup(binder->arena, target->name[0] ? target->name : output_name(target->val))));
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
    int *columns;
    int n_keys;
    bool is_constant;
} Distinct;  // all outputs are constants

// Constants and what is shown twice need no key; one there must be.  EXPR becomes the key's column.
static void add_distinct_key(Binder *binder, const Block *block, Distinct *distinct, int output, Expr **exprs)
{
    const Expr *own = block->outputs[output].expr;
    for (int i = 0; i < output; i++) {
        if (!expr_equal(block->outputs[i].expr, own)) continue;
        exprs[output] = exprs[i];
        return;
    }
    if (expr_is_const(own) && (!distinct->is_constant || distinct->n_keys)) {
        exprs[output] = block->outputs[output].expr;
        return;
    }
    const int   k = distinct->n_keys++;
    const char *name = block->outputs[output].name;
    distinct->keys[k] = plan_column_expr(binder->plan, block->node->out[output], own->at);
    distinct->columns[k] = plan_add_column(binder->plan, own->type, name, NULL);
    if (term_is_not_null(binder, own)) columns_add(binder->arena, &binder->not_null, distinct->columns[k]);
    exprs[output] = plan_column_expr(binder->plan, distinct->columns[k], own->at);
}

static void build_distinct(Binder *binder, Block *block, const char *const *names)
{
    const int n = block->n_outputs;
    Distinct  distinct = { arena_array(binder->arena, Expr *, n + 1), arena_array(binder->arena, int, n + 1), 0, true };
    Expr    **exprs = arena_array(binder->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) distinct.is_constant &= expr_is_const(block->outputs[i].expr);
    for (int i = 0; i < n; i++) add_distinct_key(binder, block, &distinct, i, exprs);
    block->node = plan_aggregate(binder->plan, block->node, distinct.keys, distinct.columns, distinct.n_keys, NULL,
                                 NULL, 0);
    term_name_long_columns(binder, block->node->out, block->node->n_out);
    if (distinct.n_keys < n) block->node = term_project(binder, block->node, exprs, names, n);
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

static void give_bound(Binder *binder, const Block *block, Bound *out)
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
        if (!output->literal) out->exprs[i] = plan_column_expr(binder->plan, block->node->out[i], output->expr->at);
    }
}

weft_status finish_block(Binder *binder, Block *block, bool has_project, Bound *out)
{
    const int    n = block->n_outputs;
    Expr       **exprs = arena_array(binder->arena, Expr *, n + 1);
    const char **names = arena_array(binder->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) exprs[i] = block->outputs[i].expr, names[i] = block->outputs[i].name;
    if (has_project) block->node = term_project(binder, block->node, exprs, names, n);
    if (block->is_distinct) build_distinct(binder, block, names);
    TRY(bind_limits(binder, block));
    const bool has_ties = block->stmt->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES &&
                          block->limit > 0 && block->n_sort > 0;
    if (has_ties && block->n_distinct_on) build_sort(binder, block);
    if (has_ties) TRY(build_ties(binder, block));
    if (has_ties) block->n_distinct_on = 0;
    if (block->n_sort) build_sort(binder, block);
    if (!has_ties && (block->limit >= 0 || block->offset > 0))
        block->node = plan_limit(binder->plan, block->node, block->limit, block->offset);
    give_bound(binder, block, out);
    return WEFT_OK;
}
