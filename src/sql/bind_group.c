// bind_group.c - GROUP BY and HAVING.
//
// Every clause is bound over columns first.  When the query turns out to be grouped, a last pass looks at each output
// from the top down: what equals a key becomes the key's column, and a column that no key covers is the error everyone
// knows:
//
//     select a + 1, b, sum(c) from t group by a + 1        outputs: the key; b: 42803; the aggregate's column

#include "sql/sql_int.h"

#include <stdlib.h>

// ---- keys -----------------------------------------------------------------------------------------------------------

static int order_agg(const void *column, const void *agg)
{
    return *(const int *)column - ((const BoundAgg *)agg)->column;
}

// Ids grow, so the aggregates are in order.
static bool is_agg(const Block *block, int column)
{
    return block->n_aggs && bsearch(&column, block->aggs, (size_t)block->n_aggs, sizeof *block->aggs, order_agg);
}

static bool has_agg(const Binder *binder, const Block *block, const Expr *expr);

static bool mark_has_agg(const Binder *binder, const Block *block, const Mark *mark)
{
    ColumnSet columns = { 0 };
    mark_columns(binder->arena, mark, &columns);
    for (int column = columns_next(&columns, -1); column >= 0; column = columns_next(&columns, column)) {
        const Mark *other = find_mark(block, column);
        if (is_agg(block, column) || (other && mark_has_agg(binder, block, other))) return true;
    }
    return false;
}

static bool has_agg(const Binder *binder, const Block *block, const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) {
        const Mark *mark = find_mark(block, expr->column);
        return is_agg(block, expr->column) || (mark && mark_has_agg(binder, block, mark));
    }
    for (int i = 0; i < expr->n_args; i++)
        if (has_agg(binder, block, expr->args[i])) return true;
    return false;
}

static bool is_input_column(const Block *block, const ParseNode *node)
{
    const char *name = bare_name(node);
    return name && scope_has_name(&block->scope, name);
}

static void put_mark_below(const Binder *binder, const Block *block, Mark *mark)
{
    ColumnSet columns = { 0 };
    mark->is_below = true;
    mark_columns(binder->arena, mark, &columns);
    for (int column = columns_next(&columns, -1); column >= 0; column = columns_next(&columns, column)) {
        Mark *other = find_mark(block, column);
        if (other) put_mark_below(binder, block, other);
    }
}

// The columns of this query that named[FIRST .. LAST - 1] are, a key of it names.  A subquery there is joined below the
// groups, even if folding has left nothing of it.
static void note_key_names(Binder *binder, Block *block, int first, int last)
{
    for (int i = first; i < last; i++) {
        if (binder->named[i].owner != block) continue;
        Mark *mark = binder->named[i].mark < 0 ? NULL : find_mark(block, binder->named[i].mark);
        if (mark) put_mark_below(binder, block, mark);
        binder->named[i].in_key = true;
        columns_add(binder->arena, &block->key_names, binder->named[i].column);
    }
}

static weft_status bind_key(Binder *binder, Block *block, const ParseNode *node, int *number)
{
    const int first = binder->n_named;
    Expr     *key;
    int       output;
    TRY(output_by_number(binder, block, node, "GROUP BY", &output));
    if (output < 0 && !is_input_column(block, node)) TRY(output_by_name(binder, block, node, "GROUP BY", &output));
    if (output >= 0) key = block->outputs[output].expr;
    else TRY(bind_expr(binder, node, &key));
    const Output *const meant = output >= 0 ? &block->outputs[output] : NULL;
    note_key_names(binder, block, meant ? meant->named_first : first, meant ? meant->named_last : binder->n_named);
    if (has_window(block, key))
        return fail(binder->err, WEFT_WINDOWING_ERROR, node_at(node), "window functions are not allowed in GROUP BY");
    if (has_agg(binder, block, key))
        return fail(binder->err, WEFT_GROUPING_ERROR, node_at(node), "aggregate functions are not allowed in GROUP BY");
    TRY(bind_settle(binder, key, &key));
    for (*number = 0; *number < block->n_keys; ++*number)
        if (expr_equal(block->keys[*number], key)) return WEFT_OK;
    *LIST_PUSH(binder->arena, block->keys, block->n_keys) = key;
    return bind_count(binder, key);
}

// Constant keys change nothing, except that even one of them makes no rows no group.
static void drop_constant_keys(Block *block)
{
    int n_kept = 0;
    for (int i = 0; i < block->n_keys; i++)
        if (!expr_is_const(block->keys[i])) block->keys[n_kept++] = block->keys[i];
    block->n_keys = n_kept ? n_kept : MIN_OF(block->n_keys, 1);
}

weft_status bind_keys(Binder *binder, Block *block)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    binder->place.clause = "GROUP BY";
    binder->place.allows_aggs = binder->place.allows_windows = false;
    TRY(check_list_length(binder, "GROUP BY", stmt->n_group_clause));
    if (has_grouping_sets(stmt)) return bind_sets(binder, block, bind_key);
    for (size_t i = 0; i < stmt->n_group_clause; i++) {
        int ignored;
        TRY(bind_key(binder, block, stmt->group_clause[i], &ignored));
    }
    if (!block->n_groupings) drop_constant_keys(block);
    return WEFT_OK;
}

weft_status bind_having(Binder *binder, Block *block)
{
    Expr *having;
    if (!block->stmt->having_clause) return WEFT_OK;
    binder->place.clause = "HAVING";
    binder->place.allows_aggs = true, binder->place.allows_windows = false;
    block->is_grouped = true;
    block->having_first = block->n_marks;
    TRY(bind_condition(binder, block->stmt->having_clause, &having));
    block->having_last = block->n_marks;
    *LIST_PUSH(binder->arena, block->having, block->n_having) = having;        // whole: a key may be one of its ANDs
    return WEFT_OK;
}

// Of several sets, two can give the same row.
bool shows_all_keys(const Block *block)
{
    if (block->n_sets > 1) return false;
    for (int k = 0; k < block->n_keys; k++) {
        int i = 0;
        while (i < block->n_visible && !expr_equal(block->outputs[i].expr, block->keys[k])) i++;
        if (i == block->n_visible) return false;
    }
    return true;
}

// ---- keys in place of what they cover -------------------------------------------------------------------------------

static weft_status not_grouped(Binder *binder, const Block *block, const Expr *column)
{
    const PlanColumn *own = &binder->plan->columns[column->column];
    const char       *table = own->qualifier, *name = own->name;
    for (int s = 0; s < block->n_sources; s++) {
        const FromItem *source = block->sources[s];
        for (int c = 0; c < source->n_columns; c++)
            if (source->columns[c] == column->column) table = source->name, name = source->names[c];
    }
    return fail(binder->err, WEFT_GROUPING_ERROR, column->at,
                "column \"%s%s%s\" must appear in the GROUP BY clause or be used in an aggregate function",
                table ? table : "", table ? "." : "", name);
}

static weft_status not_grouped_in_subquery(Binder *binder, int column, int at)
{
    const PlanColumn *own = &binder->plan->columns[column];
    return fail(binder->err, WEFT_GROUPING_ERROR, at, "subquery uses ungrouped column \"%s%s%s\" from outer query",
                own->qualifier ? own->qualifier : "", own->qualifier ? "." : "", own->name);
}

static weft_status is_key_column(Binder *binder, const Block *block, int column, bool *is_key)
{
    Expr *expr;
    TRY(term_of_column(binder, column, -1, &expr));
    *is_key = false;
    for (int k = 0; k < block->n_keys; k++) *is_key |= expr_equal(block->keys[k], expr);
    return WEFT_OK;
}

// It is named in a subquery that a key has, too: both are one mark.
static bool is_in_subquery_of_key(const Block *block, const NamedColumn *named)
{
    const Mark *mark = named->mark < 0 ? NULL : find_mark(block, named->mark);
    return named->user != block && mark && mark->is_below;
}

// Folding removes columns, so that the expressions do not show all that the text names.  A subquery may name columns
// that are keys.  Outside of subqueries a column may be named that a key is made of: within an expression that equals
// the key, which use_keys looks at.
static weft_status check_named(Binder *binder, const Block *block)
{
    for (int i = block->named_first; i < binder->n_named; i++) {
        const NamedColumn *named = &binder->named[i];
        bool               is_key;
        if (named->owner != block || named->in_agg || named->in_key || is_in_subquery_of_key(block, named)) continue;
        if (named->user == block && columns_has(&block->key_names, named->column)) continue;
        TRY(is_key_column(binder, block, named->column, &is_key));
        if (is_key) continue;
        if (named->user != block) return not_grouped_in_subquery(binder, named->column, named->at);
        return not_grouped(binder, block, plan_column_expr(binder->plan, named->column, named->at));
    }
    return WEFT_OK;
}

static Expr *key_expr(Binder *binder, const Block *block, int key, int at)
{
    Expr *out;
    return term_of_column(binder, block->key_columns[key], at, &out) ? NULL : out;
}

static weft_status use_keys(Binder *binder, const Block *block, Expr *expr, Expr **out);

// The types above still hold, since a key's column has the type of what it covers.
static weft_status use_keys_in_args(Binder *binder, const Block *block, const Expr *expr, Expr **out)
{
    Expr *copy = arena_make(binder->arena, Expr);
    *copy = *expr;
    copy->args = arena_array(binder->arena, Expr *, expr->n_args);
    copy->depth = copy->size = 1;
    for (int i = 0; i < expr->n_args; i++) {
        TRY(use_keys(binder, block, expr->args[i], &copy->args[i]));
        copy->size += copy->args[i]->size;
        copy->depth = MAX_OF(copy->depth, copy->args[i]->depth + 1);
    }
    *out = copy;
    return WEFT_OK;
}

// The number or the length of a key that is an interval: comparisons are made of these.
static weft_status use_interval_key(Binder *binder, const Block *block, int key, Expr *expr, Expr **out)
{
    Expr *number, *length;
    TRY(interval_as_number(binder->arena, block->keys[key], -1, &number, binder->err));
    TRY(interval_as_length(binder->arena, block->keys[key], -1, &length, binder->err));
    if (expr_equal(length, expr)) *out = plan_column_expr(binder->plan, block->key_lengths[key], expr->at);
    else if (expr_equal(number, expr)) *out = plan_column_expr(binder->plan, block->key_columns[key], expr->at);
    return WEFT_OK;
}

static bool is_float_as_numeric(const Expr *expr)
{
    return expr->kind == EXPR_CALL && expr->op == OP_CAST && expr->type.kind == TYPE_NUMERIC &&
           type_is_float(expr->args[0]->type);
}

// The key is x::numeric of a float; round(x::numeric, n) was made round(x, n), a cast of x (bind_func.c).
static weft_status use_numeric_key(Binder *binder, const Block *block, int key, const Expr *expr, Expr **out)
{
    const Expr *own = block->keys[key];
    if (!is_float_as_numeric(own) || own->type.precision != NUMERIC_TRIMMED ||
        !expr_equal(own->args[0], expr->args[0])) return WEFT_OK;
    return expr_cast(binder->arena, key_expr(binder, block, key, expr->at), expr->type, expr->at, out, binder->err);
}

static weft_status use_keys(Binder *binder, const Block *block, Expr *expr, Expr **out)
{
    for (int i = 0; i < block->n_keys; i++) {
        if (!expr_equal(block->keys[i], expr)) continue;
        *out = key_expr(binder, block, i, expr->at);
        return WEFT_OK;
    }
    *out = NULL;
    for (int i = 0; i < block->n_keys && block->key_lengths && !*out; i++)
        if (block->keys[i]->type.kind == TYPE_INTERVAL) TRY(use_interval_key(binder, block, i, expr, out));
    for (int i = 0; i < block->n_keys && is_float_as_numeric(expr) && !*out; i++)
        TRY(use_numeric_key(binder, block, i, expr, out));
    if (*out) return WEFT_OK;
    *out = expr;
    if (expr->kind == EXPR_COLUMN && !is_agg(block, expr->column) && !is_window_column(block, expr->column) &&
        !is_grouping_column(block, expr->column) && !columns_has(&block->outer, expr->column)) {
        const Mark *mark = find_mark(block, expr->column);
        return mark && !mark->is_below ? WEFT_OK : not_grouped(binder, block, expr);
    }
    return expr->n_args ? use_keys_in_args(binder, block, expr, out) : WEFT_OK;
}

// ---- the aggregate --------------------------------------------------------------------------------------------------

// What a key is made of is joined below.
static void put_below(const Binder *binder, const Block *block, const Expr *key)
{
    Mark *mark = key->kind == EXPR_COLUMN ? find_mark(block, key->column) : NULL;
    if (mark) put_mark_below(binder, block, mark);
    for (int i = 0; i < key->n_args; i++) put_below(binder, block, key->args[i]);
}

// A subquery above the groups sees the keys, and of the rows below them nothing else.
typedef struct KeyLeaves { Binder *binder; const Block *block; weft_status status; } KeyLeaves;

static const Expr *give_key(void *context, const Expr *leaf)
{
    KeyLeaves   *keys = context;
    const Block *block = keys->block;
    if (leaf->kind != EXPR_COLUMN || !columns_has(&block->below, leaf->column)) return NULL;
    for (int k = 0; k < block->n_keys; k++)
        if (expr_equal(block->keys[k], leaf)) return key_expr(keys->binder, block, k, leaf->at);
    keys->status = not_grouped_in_subquery(keys->binder, leaf->column, leaf->at);
    return NULL;
}

static weft_status use_keys_in_mark(Binder *binder, const Block *block, Mark *mark)
{
    KeyLeaves keys = { binder, block, WEFT_OK };
    for (int i = 0; i < mark->n_args; i++) TRY(use_keys(binder, block, mark->args[i], &mark->args[i]));
    TRY(plan_replace_leaves(binder->arena, mark->rows, give_key, &keys, binder->err));
    return keys.status;
}

static int add_key_column(Binder *binder, const Expr *key)
{
    const PlanColumn *own = key->kind == EXPR_COLUMN ? &binder->plan->columns[key->column] : NULL;
    const int column = plan_add_column(binder->plan, key->type, own ? own->name : "key", own ? own->qualifier : NULL);
    if (term_is_not_null(binder, key)) columns_add(binder->arena, &binder->not_null, column);
    binder->plan->columns[column].is_declared = expr_is_declared(key);
    return column;
}

// Groups are made of the length, and the least interval that has it stands for all.
static weft_status add_interval_key(Binder *binder, Expr **key, Agg *agg, int *column)
{
    const int at = (*key)->at;
    Expr     *number;
    TRY(term_stored(binder, *key, &number));
    TRY(expr_agg(AGG_MIN, number, at, agg, binder->err));
    *column = plan_add_column(binder->plan, number->type, "interval", NULL);
    columns_add(binder->arena, &binder->intervals, *column);
    return interval_as_length(binder->arena, *key, at, key, binder->err);
}

static weft_status build_aggregate(Binder *binder, Block *block)
{
    const int n_keys = block->n_keys;
    int       n_aggs = block->n_aggs;
    Expr    **keys = arena_array(binder->arena, Expr *, n_keys + 1);
    Agg      *aggs = arena_array(binder->arena, Agg, n_aggs + n_keys + 1);
    int      *agg_columns = arena_array(binder->arena, int, n_aggs + n_keys + 1);
    int      *columns = block->key_lengths = arena_array(binder->arena, int, n_keys + 1);
    for (int k = 0; k < n_keys; k++) {
        TRY(bind_values_of_marks(binder, block, block->keys[k], &keys[k]));
        TRY(expr_fold_nots(binder->arena, keys[k], &keys[k], binder->err));
        if (keys[k]->type.kind == TYPE_INTERVAL) {
            TRY(add_interval_key(binder, &keys[k], &aggs[n_aggs], &agg_columns[n_aggs]));
            block->key_columns[k] = agg_columns[n_aggs++];
            columns[k] = plan_add_column(binder->plan, TYPE(BIGINT), "length", NULL);
        } else {
            columns[k] = block->key_columns[k] = add_key_column(binder, keys[k]);
        }
    }
    for (int a = 0; a < block->n_aggs; a++) {
        aggs[a] = block->aggs[a].agg;
        agg_columns[a] = block->aggs[a].column;
        if (aggs[a].arg) TRY(bind_values_of_marks(binder, block, aggs[a].arg, &aggs[a].arg));
    }
    block->node = plan_aggregate(binder->plan, block->node, keys, columns, n_keys, aggs, agg_columns, n_aggs);
    term_name_long_columns(binder, block->node->out, block->node->n_out);
    return WEFT_OK;
}

// The interval that stands for a key is one more aggregate.
static weft_status add_interval_of_set(Binder *binder, Block *block, int k)
{
    Expr     *key = block->keys[k];
    BoundAgg *agg = LIST_PUSH(binder->arena, block->aggs, block->n_aggs);
    TRY(add_interval_key(binder, &key, &agg->agg, &agg->column));
    block->key_columns[k] = agg->column;
    return WEFT_OK;
}

// A key that a set leaves out is NULL in its rows.  Lengths come first: the ids of aggregates grow.
static weft_status add_set_columns(Binder *binder, Block *block)
{
    block->key_lengths = arena_array(binder->arena, int, block->n_keys + 1);
    for (int k = 0; k < block->n_keys; k++) {
        const bool        is_interval = block->keys[k]->type.kind == TYPE_INTERVAL;
        const PlanColumn *own = block->keys[k]->kind == EXPR_COLUMN ? &binder->plan->columns[block->keys[k]->column]
                                                                    : NULL;
        block->key_columns[k] = block->key_lengths[k] =
            plan_add_column(binder->plan, is_interval ? TYPE(BIGINT) : block->keys[k]->type, own ? own->name : "key",
                            own ? own->qualifier : NULL);
        binder->plan->columns[block->key_columns[k]].is_declared = expr_is_declared(block->keys[k]);
    }
    for (int k = 0; k < block->n_keys; k++)
        if (block->keys[k]->type.kind == TYPE_INTERVAL) TRY(add_interval_of_set(binder, block, k));
    return WEFT_OK;
}

// What aggregates need that no accumulator computes.
static weft_status build_windows_below(Binder *binder, Block *block)
{
    GroupRows rows;
    TRY(rows_of_groups(binder, block, &rows));
    TRY(build_ordered(binder, block, &rows));
    TRY(build_joined(binder, block, &rows));
    block->node = rows.node;
    return WEFT_OK;
}

weft_status build_groups(Binder *binder, Block *block)
{
    TRY(add_covered_keys(binder, block));
    block->key_columns = arena_array(binder->arena, int, block->n_keys + 1);
    for (int k = 0; k < block->n_keys; k++) put_below(binder, block, block->keys[k]);
    TRY(place_marks(binder, block, true, &block->node));
    TRY(settle_ordered(binder, block));
    TRY(settle_joined(binder, block));
    node_columns(binder->arena, block->node, &block->below);
    const bool has_sets = block->n_sets || block->n_groupings;
    if (has_sets) TRY(add_set_columns(binder, block));
    else TRY(build_windows_below(binder, block));
    if (!has_sets) TRY(build_aggregate(binder, block));
    for (int i = 0; i < block->n_outputs; i++)
        TRY(use_keys(binder, block, block->outputs[i].expr, &block->outputs[i].expr));
    for (int k = 0; k < block->n_window_keys; k++)
        TRY(use_keys(binder, block, block->window_keys[k], &block->window_keys[k]));
    if (block->n_having) {
        Expr *having;
        TRY(use_keys(binder, block, block->having[0], &having));
        block->having = NULL, block->n_having = 0;
        TRY(bind_conjuncts(binder, having, &block->having, &block->n_having));
    }
    for (int i = 0; i < block->n_marks; i++)
        if (!block->marks[i].is_placed) TRY(use_keys_in_mark(binder, block, &block->marks[i]));
    TRY(check_named(binder, block));
    return has_sets ? build_sets(binder, block) : WEFT_OK;
}
