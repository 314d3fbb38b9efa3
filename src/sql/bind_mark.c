// bind_mark.c - subqueries in expressions, as joins.
//
// While clauses are bound, a column stands for a subquery that has to be joined, and the block lists it as a mark:
//
//     x in (select y ...)         as a condition of its own a semi join, else a mark join and an expression
//     exists (select ...)         the same, when it names columns of this query or of one around; else a parameter
//     (select max(a) ...)         a single join, when it names such columns; else a parameter
//
// The join is made when it is known where: for WHERE at once, for outputs above the groups, for a group key below them.
// Its right side may name columns of its left side; a rewrite of plan/ removes that.
//
// A mark join's mark says whether there is a match.  IN can also be NULL, because of a NULL x or y.  Where those cannot
// be ruled out, the rows of the subquery are counted ($1), and its y that are not NULL ($2), and the column becomes
//
//     case when mark then true when x is null and $1 > 0 then null when $1 > $2 then null else false end
//
// The counts are parameters, or, of a correlated subquery, the columns of one more join.  A condition under nothing but
// AND and OR treats NULL as false, so there the mark itself will do.

#include "plan/window.h"
#include "sql/sql_int.h"

#include <stdlib.h>

enum { COPIED_NODES_MAX = 4096 };

// ---- rows -----------------------------------------------------------------------------------------------------------

Node *visible_rows(Binder *binder, const Bound *bound)
{
    if (bound->node->n_out == bound->n_columns) return bound->node;
    return term_project(binder, bound->node, term_stored_all(binder, bound->exprs, bound->n_columns), bound->names,
                        bound->n_columns);
}

static int count_nodes(const Node *node)
{
    int n = 1;
    for (int i = 0; i < node->n_inputs; i++) n += count_nodes(node->inputs[i]);
    return n;
}

weft_status copy_rows(Binder *binder, const Node *rows, int at, Node **copy)
{
    Plan *plan = binder->plan;
    binder->n_copied += count_nodes(rows);
    if (binder->n_copied > COPIED_NODES_MAX)
        return fail(binder->err, WEFT_TOO_COMPLEX, at, "correlated queries are used too often");
    TRY(plan_copy_tree(plan, rows, copy, binder->err));
    if (plan->n_scans > MAX_RELATIONS)
        return fail(binder->err, WEFT_TOO_COMPLEX, at, "a query can have at most %d tables", MAX_RELATIONS);
    for (int c = 0; c < rows->n_out; c++)
        if (term_is_not_null(binder, plan_column_expr(plan, rows->out[c], -1)))
            columns_add(binder->arena, &binder->not_null, (*copy)->out[c]);
    for (int c = 0; c < rows->n_out; c++)
        if (columns_has(&binder->intervals, rows->out[c]))
            columns_add(binder->arena, &binder->intervals, (*copy)->out[c]);
    return WEFT_OK;
}

static bool is_correlated(const Binder *binder, const Node *rows)
{
    ColumnSet free_columns = { 0 };
    plan_free_columns(binder->arena, rows, &free_columns);
    return columns_count(&free_columns) > 0;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

// The same subquery twice is one parameter, so that expressions with it are equal: GROUP BY needs that.
static int find_param(const Plan *plan, const Node *subplan)
{
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].subplan && plan_is_same_tree(plan, plan->params[i].subplan, subplan)) return i;
    return -1;
}

Expr *param_for(Binder *binder, Type type, Node *subplan, int at)
{
    const int same = find_param(binder->plan, subplan);
    return expr_param(binder->arena, same >= 0 ? same : plan_add_param(binder->plan, type, subplan, at), type, at);
}

weft_status agg_param(Binder *binder, Node *rows, AggKind kind, Expr *arg, int at, Expr **out)
{
    Plan *plan = binder->plan;
    Agg  *agg = arena_make(binder->arena, Agg);
    TRY(expr_agg(kind, arg, at, agg, binder->err));
    const int column = plan_add_column(plan, agg->type, "count", NULL);
    Node     *total = plan_aggregate(plan, rows, NULL, NULL, 0, agg, &column, 1);
    *out = param_for(binder, agg->type, total, at);
    return WEFT_OK;
}

// ---- marks ----------------------------------------------------------------------------------------------------------

void mark_columns(Arena *arena, const Mark *mark, ColumnSet *columns)
{
    for (int i = 0; i < mark->n_args; i++) columns_add_expr(arena, columns, mark->args[i]);
    plan_free_columns(arena, mark->rows, columns);
}

static bool has_same_args(const Mark *a, const Mark *b)
{
    if (a->n_args != b->n_args) return false;
    for (int i = 0; i < a->n_args; i++)
        if (!expr_equal(a->args[i], b->args[i])) return false;
    return true;
}

// The mark of the same question, as long as its join can still be made anywhere; NULL: there is none.
static Mark *find_same_mark(const Binder *binder, const Block *block, const Mark *wanted)
{
    for (int i = 0; i < block->n_marks; i++) {
        Mark *mark = &block->marks[i];
        if (mark->is_placed || mark->kind != wanted->kind) continue;
        if (!has_same_args(mark, wanted)) continue;
        if (plan_is_same_tree(binder->plan, mark->rows, wanted->rows)) return mark;
    }
    return NULL;
}

// The only column under an id that is newer than those of the marks so far.
static void name_value(Binder *binder, Mark *mark)
{
    Expr     *value = plan_column_expr(binder->plan, mark->rows->out[0], mark->at), **exprs;
    const int column = plan_add_column(binder->plan, value->type, binder->plan->columns[value->column].name, NULL);
    exprs = arena_array(binder->arena, Expr *, 1);
    exprs[0] = value;
    if (columns_has(&binder->intervals, mark->rows->out[0])) columns_add(binder->arena, &binder->intervals, column);
    mark->rows = plan_project(binder->plan, mark->rows, exprs, &column, 1);
    mark->column = column;
}

// The names in the subquery at this place of the text are those of the mark.
static void note_mark(Binder *binder, const Block *block, const Mark *mark, int at)
{
    for (int i = block->named_first; i < binder->n_named; i++)
        if (binder->named[i].owner == block && binder->named[i].subquery == at) binder->named[i].mark = mark->column;
}

weft_status add_mark(Binder *binder, Mark mark, Expr **out)
{
    Block *block = binder->place.block;
    mark.is_below = binder->place.in_agg || strcmp(binder->place.clause, "GROUP BY") == 0;
    if (mark.kind == MARK_VALUE || mark.kind == MARK_ROWS) name_value(binder, &mark);
    Mark *same = mark.kind == MARK_RANDOM || mark.kind == MARK_ROWS ? NULL : find_same_mark(binder, block, &mark);
    if (same) {
        same->is_below |= mark.is_below;
        note_mark(binder, block, same, mark.at);
        return term_of_column(binder, same->column, mark.at, out);
    }
    if (mark.kind == MARK_IN || mark.kind == MARK_EXISTS)
        mark.column = plan_add_column(binder->plan, TYPE(BOOLEAN), "mark", NULL);
    *LIST_PUSH(binder->arena, block->marks, block->n_marks) = mark;
    note_mark(binder, block, &mark, mark.at);
    TRY(term_of_column(binder, mark.column, mark.at, out));
    if (mark.kind == MARK_RANDOM) columns_add(binder->arena, &binder->not_null, mark.column);
    for (int i = 0; i < mark.n_args; i++) TRY(bind_count(binder, mark.args[i]));
    return WEFT_OK;
}

// ---- values ---------------------------------------------------------------------------------------------------------

static int order_mark(const void *column, const void *mark)
{
    return *(const int *)column - ((const Mark *)mark)->column;
}

// Ids grow, so the marks are in order.
Mark *find_mark(const Block *block, int column)
{
    if (!block->n_marks) return NULL;
    return bsearch(&column, block->marks, (size_t)block->n_marks, sizeof *block->marks, order_mark);
}

static const Expr *give_value(void *context, const Expr *leaf)
{
    const Mark *mark = leaf->kind == EXPR_COLUMN ? find_mark(context, leaf->column) : NULL;
    return mark ? mark->value : NULL;
}

weft_status bind_values_of_marks(Binder *binder, const Block *block, Expr *expr, Expr **out)
{
    *out = expr;
    if (!block->n_marks) return WEFT_OK;
    return expr_replace(binder->arena, expr, give_value, (void *)(uintptr_t)block, out, binder->err);
}

// The mark's own expressions, with what stands for earlier marks in their place.
static weft_status settle_mark(Binder *binder, const Block *block, Mark *mark)
{
    for (int i = 0; i < mark->n_args; i++)
        TRY(bind_values_of_marks(binder, block, mark->args[i], &mark->args[i]));
    if (!block->n_marks) return WEFT_OK;
    return plan_replace_leaves(binder->arena, mark->rows, give_value, (void *)(uintptr_t)block, binder->err);
}

typedef struct InCounts { Expr *n_rows, *n_values; } InCounts;      // n_values NULL: no y is NULL

static weft_status make_value(Binder *binder, const Mark *mark, Expr *arg, InCounts counts, Expr **out)
{
    const int at = mark->at;
    Expr     *args[7], *is_null, *has_rows;
    int       n_args = 0;
    args[n_args++] = plan_column_expr(binder->plan, mark->column, at);
    args[n_args++] = term_boolean(binder, true, at);
    if (!term_is_not_null(binder, arg)) {
        TRY(bind_call(binder, OP_IS_NULL, arg, NULL, at, &is_null));
        TRY(bind_call(binder, OP_GT, counts.n_rows, term_integer(binder, 0, at), at, &has_rows));
        TRY(bind_call(binder, OP_AND, is_null, has_rows, at, &args[n_args++]));
        args[n_args++] = term_null(binder, at);
    }
    if (counts.n_values) {
        TRY(bind_call(binder, OP_GT, counts.n_rows, counts.n_values, at, &args[n_args++]));
        args[n_args++] = term_null(binder, at);
    }
    args[n_args++] = term_boolean(binder, false, at);
    return expr_case(binder->arena, args, n_args, at, out, binder->err);
}

// ---- joins ----------------------------------------------------------------------------------------------------------

static void join_where(Binder *binder, JoinKind kind, Expr **conditions, int n_conditions, Node *rows, int at,
                       Node **node)
{
    binder->plan->is_correlated |= is_correlated(binder, rows);
    *node = plan_join(binder->plan, kind, *node, rows, conditions, n_conditions);
    (*node)->at = at;
}

// *NODE joined to ROWS where ARGS, if there are any, equal their columns.
static weft_status join_rows(Binder *binder, JoinKind kind, Expr *const *args, int n_args, Node *rows, int at,
                             Node **node)
{
    Expr  *equal, **conditions = NULL;
    int    n_conditions = 0;
    for (int i = 0; i < n_args; i++) {
        TRY(term_of_column(binder, rows->out[i], at, &equal));
        TRY(bind_call(binder, OP_EQ, args[i], equal, at, &equal));
        TRY(bind_conjuncts(binder, equal, &conditions, &n_conditions));
    }
    join_where(binder, kind, conditions, n_conditions, rows, at, node);
    return WEFT_OK;
}

// A mark join whose mark is the column that stands for the mark so far.
static weft_status join_mark(Binder *binder, Mark *mark, Node *rows, Node **node)
{
    TRY(join_rows(binder, JOIN_MARK, mark->args, mark->n_args, rows, mark->at, node));
    (*node)->mark = (*node)->out[(*node)->n_out - 1] = mark->column;
    columns_add(binder->arena, &binder->not_null, mark->column);
    mark->is_placed = true;
    return WEFT_OK;
}

static weft_status join_value(Binder *binder, Mark *mark, Node **node)
{
    columns_add(binder->arena, &binder->made_null, mark->column);
    mark->is_placed = true;
    return join_rows(binder, JOIN_SINGLE, NULL, 0, mark->rows, mark->at, node);
}

// ---- random numbers -------------------------------------------------------------------------------------------------

// A window over all rows gives each one its number.
static weft_status number_rows(Binder *binder, Mark *mark, Node **node)
{
    Windows *windows = arena_make(binder->arena, Windows);
    windows->n_orders = windows->n_funcs = 1;
    windows->orders = arena_array(binder->arena, WindowOrder, 1);
    windows->funcs = arena_array(binder->arena, WindowFunc, 1);
    windows->funcs[0] = (WindowFunc){ .kind = WINDOW_RANDOM, .type = binder->plan->columns[mark->column].type,
                                      .column = mark->column, .arg = -1, .n = -1, .seed = mark->seed,
                                      .frame = frame_default(), .name = "random", .at = mark->at };
    *node = plan_window(binder->plan, *node, NULL, 0, windows);
    mark->is_placed = true;
    return WEFT_OK;
}

// ---- IN with NULLs --------------------------------------------------------------------------------------------------

// The rows twice: shared, or a copy where they depend on the row that asks.
static weft_status rows_again(Binder *binder, Shared **shared, Node **rows, int at, Node **again)
{
    if (!*shared && is_correlated(binder, *rows)) return copy_rows(binder, *rows, at, again);
    if (!*shared) {
        *shared = plan_share(binder->plan, *rows, "subquery");
        *rows = plan_reference(binder->plan, *shared, "subquery", at);
    }
    *again = plan_reference(binder->plan, *shared, "subquery", at);
    for (int c = 0; c < (*shared)->root->n_out; c++) {
        if (!columns_has(&binder->intervals, (*shared)->root->out[c])) continue;
        columns_add(binder->arena, &binder->intervals, (*rows)->out[c]);
        columns_add(binder->arena, &binder->intervals, (*again)->out[c]);
    }
    return WEFT_OK;
}

// The counts of a correlated subquery, by a join of their own.
static weft_status join_counts(Binder *binder, Node *rows, int at, InCounts *counts, Node **node)
{
    Plan *plan = binder->plan;
    Agg  *aggs = arena_array(binder->arena, Agg, 2);
    int   columns[2];
    TRY(expr_agg(AGG_COUNT_ALL, NULL, at, &aggs[0], binder->err));
    TRY(expr_agg(AGG_COUNT, plan_column_expr(plan, rows->out[0], at), at, &aggs[1], binder->err));
    for (int i = 0; i < 2; i++) columns[i] = plan_add_column(plan, aggs[i].type, "count", NULL);
    TRY(join_rows(binder, JOIN_SINGLE, NULL, 0, plan_aggregate(plan, rows, NULL, NULL, 0, aggs, columns, 2), at, node));
    counts->n_rows = plan_column_expr(plan, columns[0], at);
    counts->n_values = plan_column_expr(plan, columns[1], at);
    return WEFT_OK;
}

static weft_status place_in(Binder *binder, Mark *mark, Node **node)
{
    const int at = mark->at;
    InCounts  counts = { 0 };
    Shared   *shared = NULL;
    Node     *rows = mark->rows, *again;
    const bool has_nulls = !term_is_not_null(binder, plan_column_expr(binder->plan, rows->out[0], at));
    if (!has_nulls && term_is_not_null(binder, mark->args[0])) return join_mark(binder, mark, rows, node);
    TRY(rows_again(binder, &shared, &rows, at, &again));
    TRY(join_mark(binder, mark, rows, node));
    if (!shared) TRY(join_counts(binder, again, at, &counts, node));
    else TRY(agg_param(binder, again, AGG_COUNT_ALL, NULL, at, &counts.n_rows));
    if (shared && has_nulls) {
        TRY(rows_again(binder, &shared, &rows, at, &again));
        TRY(agg_param(binder, again, AGG_COUNT, plan_column_expr(binder->plan, again->out[0], at), at,
                      &counts.n_values));
    }
    TRY(make_value(binder, mark, mark->args[0], counts, &mark->value));
    return bind_count(binder, mark->value);
}

// ---- rows: (a, b) IN with NULLs -------------------------------------------------------------------------------------

// Of a stored interval the number is looked at: kernels know no intervals.
static weft_status test_null(Binder *binder, Expr *field, int at, Expr **out)
{
    TRY(term_stored(binder, field, &field));
    return bind_call(binder, OP_IS_NULL, field, NULL, at, out);
}

// (a, b) in (select c, d ...) is NULL where no row equals it and one may: in each field they are equal or one is NULL.
// A second mark finds that.
static weft_status may_be_equal(Binder *binder, Expr *field, Expr *other, int at, Expr **out)
{
    Expr *terms[3], *const sides[2] = { field, other };
    int   n_terms = 0;
    TRY(bind_call(binder, OP_EQ, field, other, at, &terms[n_terms++]));
    for (int i = 0; i < 2; i++)
        if (!term_is_not_null(binder, sides[i]))
            TRY(test_null(binder, sides[i], at, &terms[n_terms++]));
    return bind_chain(binder, OP_OR, terms, n_terms, at, out);
}

static bool row_is_not_null(const Binder *binder, Expr *const *fields, int n_fields)
{
    for (int i = 0; i < n_fields; i++)
        if (!term_is_not_null(binder, fields[i])) return false;
    return true;
}

// Where no field of the row that asks is NULL, only rows with a NULL can leave the answer open.
static weft_status rows_with_null(Binder *binder, Expr **columns, int n_columns, int at, Node **rows)
{
    Expr **tests = arena_array(binder->arena, Expr *, n_columns), **condition = arena_array(binder->arena, Expr *, 1);
    int    n_tests = 0;
    for (int i = 0; i < n_columns; i++)
        if (!term_is_not_null(binder, columns[i]))
            TRY(test_null(binder, columns[i], at, &tests[n_tests++]));
    TRY(bind_chain(binder, OP_OR, tests, n_tests, at, condition));
    *rows = plan_filter(binder->plan, *rows, condition, 1);
    return WEFT_OK;
}

static Expr **columns_of(Binder *binder, const Node *rows, int n, int at)
{
    Expr **columns = arena_array(binder->arena, Expr *, n);
    for (int i = 0; i < n; i++)
        if (term_of_column(binder, rows->out[i], at, &columns[i]))
            columns[i] = plan_column_expr(binder->plan, rows->out[i], at);
    return columns;
}

static weft_status join_unknown(Binder *binder, const Mark *mark, Node *rows, int *column, Node **node)
{
    const int at = mark->at, n = mark->n_args;
    Expr    **columns = columns_of(binder, rows, n, at), **conditions = NULL, *test;
    int       n_conditions = 0;
    if (row_is_not_null(binder, mark->args, n)) TRY(rows_with_null(binder, columns, n, at, &rows));
    for (int i = 0; i < n; i++) {
        TRY(may_be_equal(binder, mark->args[i], columns[i], at, &test));
        TRY(bind_conjuncts(binder, test, &conditions, &n_conditions));
    }
    join_where(binder, JOIN_MARK, conditions, n_conditions, rows, at, node);
    *column = (*node)->mark;
    return WEFT_OK;
}

static weft_status place_row_in(Binder *binder, Mark *mark, Node **node)
{
    const int at = mark->at, n = mark->n_args;
    Shared   *shared = NULL;
    Node     *rows = mark->rows, *again;
    int       unknown = -1;
    if (row_is_not_null(binder, mark->args, n) && row_is_not_null(binder, columns_of(binder, rows, n, at), n))
        return join_mark(binder, mark, rows, node);
    TRY(rows_again(binder, &shared, &rows, at, &again));
    TRY(join_mark(binder, mark, rows, node));
    TRY(join_unknown(binder, mark, again, &unknown, node));
    Expr *args[5] = { plan_column_expr(binder->plan, mark->column, at), term_boolean(binder, true, at),
                      plan_column_expr(binder->plan, unknown, at), term_null(binder, at),
                      term_boolean(binder, false, at) };
    return expr_case(binder->arena, args, 5, at, &mark->value, binder->err);
}

// ---- places ---------------------------------------------------------------------------------------------------------

static weft_status place_mark(Binder *binder, Block *block, Mark *mark, Node **node)
{
    TRY(settle_mark(binder, block, mark));
    switch (mark->kind) {
        case MARK_IN:     return mark->n_args > 1 ? place_row_in(binder, mark, node) : place_in(binder, mark, node);
        case MARK_EXISTS: return join_mark(binder, mark, mark->rows, node);
        case MARK_RANDOM: return number_rows(binder, mark, node);
        case MARK_ROWS:
            mark->is_placed = true;
            return join_rows(binder, JOIN_INNER, NULL, 0, mark->rows, mark->at, node);
        case MARK_VALUE:  break;
    }
    return join_value(binder, mark, node);
}

weft_status place_marks(Binder *binder, Block *block, bool is_below, Node **node)
{
    for (int i = 0; i < block->n_marks; i++)
        if (!block->marks[i].is_placed && block->marks[i].is_below == is_below)
            TRY(place_mark(binder, block, &block->marks[i], node));
    return WEFT_OK;
}

// ---- conditions -----------------------------------------------------------------------------------------------------

// Nothing but AND and OR is above COLUMN.
static bool is_positive(const Expr *expr, int column)
{
    if (expr->kind == EXPR_CALL && (expr->op == OP_AND || expr->op == OP_OR))
        return is_positive(expr->args[0], column) && is_positive(expr->args[1], column);
    return expr->kind == EXPR_COLUMN || !expr_has_column(expr, column);
}

static bool is_used_by_mark(const Binder *binder, const Block *block, int column)
{
    for (int i = 0; i < block->n_marks; i++) {
        ColumnSet used = { 0 };
        if (block->marks[i].is_placed) continue;
        mark_columns(binder->arena, &block->marks[i], &used);
        if (columns_has(&used, column)) return true;
    }
    return false;
}

static bool are_positive(const Binder *binder, const Block *block, Expr *const *conditions, int n_conditions,
                         int column)
{
    for (int i = 0; i < n_conditions; i++)
        if (!is_positive(conditions[i], column)) return false;
    return !is_used_by_mark(binder, block, column);
}

// The condition that is COLUMN and nothing else, when no other uses it; -1: there is none.
static int find_alone(const Binder *binder, const Block *block, Expr *const *conditions, int n_conditions, int column)
{
    int found = -1, n_uses = 0;
    for (int i = 0; i < n_conditions; i++) {
        if (!expr_has_column(conditions[i], column)) continue;
        n_uses++;
        if (conditions[i]->kind == EXPR_COLUMN) found = i;
    }
    return n_uses == 1 && !is_used_by_mark(binder, block, column) ? found : -1;
}

weft_status place_side_mark(Binder *binder, Block *block, Mark *mark, Expr *const *conditions, int n_conditions,
                            Node **node)
{
    if (mark->kind != MARK_IN || !are_positive(binder, block, conditions, n_conditions, mark->column))
        return place_mark(binder, block, mark, node);
    TRY(settle_mark(binder, block, mark));
    return join_mark(binder, mark, mark->rows, node);
}

static weft_status place_condition_mark(Binder *binder, Block *block, Mark *mark, Expr **conditions, int *n_conditions,
                                        Node **node)
{
    const int alone = find_alone(binder, block, conditions, *n_conditions, mark->column);
    if (alone < 0 || mark->kind == MARK_VALUE || mark->kind == MARK_RANDOM)
        return place_side_mark(binder, block, mark, conditions, *n_conditions, node);
    TRY(settle_mark(binder, block, mark));
    mark->is_placed = true;
    memmove(conditions + alone, conditions + alone + 1, sizeof(Expr *) * (size_t)(--*n_conditions - alone));
    return join_rows(binder, JOIN_SEMI, mark->args, mark->n_args, mark->rows, mark->at, node);
}

// Every mark looks through all conditions, and each look counts.
weft_status place_condition_marks(Binder *binder, Block *block, int first, int last, Expr **conditions,
                                  int *n_conditions, Node **node)
{
    for (int i = first; i < last; i++) {
        for (int c = 0; c < *n_conditions; c++) TRY(bind_count(binder, conditions[c]));
        if (!block->marks[i].is_placed)
            TRY(place_condition_mark(binder, block, &block->marks[i], conditions, n_conditions, node));
    }
    for (int i = 0; i < *n_conditions; i++)
        TRY(bind_values_of_marks(binder, block, conditions[i], &conditions[i]));
    return WEFT_OK;
}
