// bind_mark.c - subqueries in expressions.
//
//     (select max(a) from u)      a parameter of the plan: known before the rows are read
//     exists (select ...)         $1 > 0, where $1 counts the rows of the subquery's first one
//     x in (select y ...)         a join: as a condition of its own a semi join, else a mark join and an expression
//
// While clauses are bound, a boolean column stands for x IN (subquery), and the block lists it as a mark.  The join is
// made when it is known where: for WHERE at once, for outputs above the groups, for a group key below them.  The join's
// mark says whether there is a match.  IN can also be NULL, because of a NULL x or y.  Where those cannot be ruled out,
// the subquery is shared, two parameters count its rows ($1) and its y that are not NULL ($2), and the column becomes
//
//     case when mark then true when x is null and $1 > 0 then null when $1 > $2 then null else false end
//
// A condition under nothing but AND and OR treats NULL as false, so there the mark itself will do.
// Not done: columns of the outer query in a subquery (bind_name.c refuses them), rows, operators other than =.

#include "sql/sql_int.h"

#include <stdlib.h>

// ---- the subquery ---------------------------------------------------------------------------------------------------

static weft_status bind_inner(Binder *binder, const PgQuery__SubLink *link, Bound *bound)
{
    const Place place = binder->place;
    binder->place.keeps_literals = false;
    TRY(binder->bind_query(binder, link->subselect->select_stmt, bound));      // it puts the place back
    binder->place = place;
    return WEFT_OK;
}

Node *visible_rows(Binder *binder, const Bound *bound)
{
    if (bound->node->n_out == bound->n_columns) return bound->node;
    return term_project(binder, bound->node, bound->exprs, bound->names, bound->n_columns);
}

// The same subquery twice is one parameter, so that expressions with it are equal: GROUP BY needs that.
static int find_param(const Plan *plan, const Node *subplan)
{
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].subplan && plan_is_same_tree(plan, plan->params[i].subplan, subplan)) return i;
    return -1;
}

static Expr *param_for(Binder *binder, Type type, Node *subplan, int at)
{
    const int same = find_param(binder->plan, subplan);
    return expr_param(binder->arena, same >= 0 ? same : plan_add_param(binder->plan, type, subplan, at), type, at);
}

// count(*) of the rows, or count(ARG), as a parameter.
static weft_status count_rows(Binder *binder, Node *rows, Expr *arg, int at, Expr **out)
{
    Plan *plan = binder->plan;
    Agg  *agg = arena_make(binder->arena, Agg);
    TRY(expr_agg(arg ? AGG_COUNT : AGG_COUNT_ALL, arg, at, agg, binder->err));
    const int column = plan_add_column(plan, agg->type, "count", NULL);
    Node     *count = plan_aggregate(plan, rows, NULL, NULL, 0, agg, &column, 1);
    *out = param_for(binder, agg->type, count, at);
    return WEFT_OK;
}

static weft_status bind_exists(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    Bound     bound;
    Expr     *count;
    TRY(bind_inner(binder, link, &bound));
    TRY(count_rows(binder, plan_limit(binder->plan, bound.node, 1, 0), NULL, at, &count));
    return bind_call(binder, OP_GT, count, term_integer(binder, 0, at), at, out);
}

static weft_status bind_scalar(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    Bound     bound;
    TRY(bind_inner(binder, link, &bound));
    if (bound.n_columns != 1)
        return fail(binder->err, WEFT_SYNTAX_ERROR, at, "subquery must return only one column");
    *out = param_for(binder, bound.exprs[0]->type, visible_rows(binder, &bound), at);
    return WEFT_OK;
}

// The mark of the same question, as long as its join can still be made anywhere; NULL: there is none.
static Mark *find_same_mark(const Binder *binder, const Block *block, const Mark *wanted)
{
    for (int i = 0; i < block->n_marks; i++) {
        Mark *mark = &block->marks[i];
        if (!mark->is_placed && expr_equal(mark->arg, wanted->arg) &&
            plan_is_same_tree(binder->plan, mark->rows, wanted->rows))
            return mark;
    }
    return NULL;
}

static weft_status bind_in(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    Block    *block = binder->place.block;
    Mark      mark = { .at = at };
    Bound     bound;
    Expr     *column, *equal;
    if (!block)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "IN (subquery) in %s is not supported yet",
                    binder->place.clause);
    TRY(binder->bind_expr(binder, link->testexpr, &mark.arg));
    TRY(bind_inner(binder, link, &bound));
    if (bound.n_columns != 1) return fail(binder->err, WEFT_SYNTAX_ERROR, at, "subquery has too many columns");
    mark.rows = visible_rows(binder, &bound);
    column = plan_column_expr(binder->plan, mark.rows->out[0], at);
    TRY(bind_call(binder, OP_EQ, mark.arg, column, at, &equal));    // the types fit; joined later
    mark.is_below = binder->place.in_agg || strcmp(binder->place.clause, "GROUP BY") == 0;
    Mark *same = find_same_mark(binder, block, &mark);
    if (same) {
        same->is_below |= mark.is_below;
        *out = plan_column_expr(binder->plan, same->column, at);
        return WEFT_OK;
    }
    mark.column = plan_add_column(binder->plan, TYPE(BOOLEAN), "mark", NULL);
    *LIST_PUSH(binder->arena, block->marks, block->n_marks) = mark;
    *out = plan_column_expr(binder->plan, mark.column, at);
    return bind_count(binder, mark.arg);
}

// IN has no operator; it is = ANY.
static bool has_operator(const PgQuery__SubLink *link, const char *name)
{
    const char *own = link->n_oper_name ? node_string(link->oper_name[link->n_oper_name - 1]) : "=";
    return own && strcmp(own, name) == 0;
}

weft_status bind_subquery(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    const int at = link->location;
    switch (link->sub_link_type) {
        case PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK: return bind_exists(binder, link, out);
        case PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK:   return bind_scalar(binder, link, out);
        case PG_QUERY__SUB_LINK_TYPE__ANY_SUBLINK:
            if (!has_operator(link, "=")) return refuse(binder, at, "ANY (subquery) with an operator other than =");
            return bind_in(binder, link, out);
        case PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK:
            if (!has_operator(link, "<>")) return refuse(binder, at, "ALL (subquery) with an operator other than <>");
            TRY(bind_in(binder, link, out));
            return bind_call(binder, OP_NOT, *out, NULL, at, out);
        case PG_QUERY__SUB_LINK_TYPE__ARRAY_SUBLINK:  return refuse(binder, at, "ARRAY (subquery)");
        default:                                      return refuse(binder, at, "a row (a, b)");
    }
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

// *NODE joined to ROWS where ARG equals their column.
static weft_status join_rows(Binder *binder, JoinKind kind, Expr *arg, Node *rows, int at, Node **node)
{
    Expr  *equal, **conditions = NULL;
    int    n_conditions = 0;
    TRY(bind_call(binder, OP_EQ, arg, plan_column_expr(binder->plan, rows->out[0], at), at, &equal));
    TRY(bind_conjuncts(binder, equal, &conditions, &n_conditions));
    *node = plan_join(binder->plan, kind, *node, rows, conditions, n_conditions);
    (*node)->at = at;
    return WEFT_OK;
}

// A mark join whose mark is the column that stands for the mark so far.
static weft_status join_mark(Binder *binder, Mark *mark, Expr *arg, Node *rows, Node **node)
{
    TRY(join_rows(binder, JOIN_MARK, arg, rows, mark->at, node));
    (*node)->mark = (*node)->out[(*node)->n_out - 1] = mark->column;
    columns_add(binder->arena, &binder->not_null, mark->column);
    mark->is_placed = true;
    return WEFT_OK;
}

static Node *use_shared(Binder *binder, Shared *shared, int at)
{
    return plan_reference(binder->plan, shared, "subquery", at);
}

static weft_status place_mark(Binder *binder, Block *block, Mark *mark, Node **node)
{
    const int at = mark->at;
    InCounts  counts = { 0 };
    Expr     *arg;
    TRY(bind_values_of_marks(binder, block, mark->arg, &arg));
    const bool has_nulls = !term_is_not_null(binder, plan_column_expr(binder->plan, mark->rows->out[0], at));
    if (!has_nulls && term_is_not_null(binder, arg)) return join_mark(binder, mark, arg, mark->rows, node);
    Shared *shared = plan_share(binder->plan, mark->rows, "subquery");
    TRY(join_mark(binder, mark, arg, use_shared(binder, shared, at), node));
    TRY(count_rows(binder, use_shared(binder, shared, at), NULL, at, &counts.n_rows));
    if (has_nulls) {
        Node *rows = use_shared(binder, shared, at);
        TRY(count_rows(binder, rows, plan_column_expr(binder->plan, rows->out[0], at), at, &counts.n_values));
    }
    TRY(make_value(binder, mark, arg, counts, &mark->value));
    return bind_count(binder, mark->value);
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

static bool is_used_by_mark(const Block *block, int column)
{
    for (int i = 0; i < block->n_marks; i++)
        if (!block->marks[i].is_placed && expr_has_column(block->marks[i].arg, column)) return true;
    return false;
}

static bool are_positive(const Block *block, Expr *const *conditions, int n_conditions, int column)
{
    for (int i = 0; i < n_conditions; i++)
        if (!is_positive(conditions[i], column)) return false;
    return !is_used_by_mark(block, column);
}

// The condition that is COLUMN and nothing else, when no other uses it; -1: there is none.
static int find_alone(const Block *block, Expr *const *conditions, int n_conditions, int column)
{
    int found = -1, n_uses = 0;
    for (int i = 0; i < n_conditions; i++) {
        if (!expr_has_column(conditions[i], column)) continue;
        n_uses++;
        if (conditions[i]->kind == EXPR_COLUMN) found = i;
    }
    return n_uses == 1 && !is_used_by_mark(block, column) ? found : -1;
}

weft_status place_side_mark(Binder *binder, Block *block, Mark *mark, Expr *const *conditions, int n_conditions,
                            Node **node)
{
    Expr *arg;
    if (!are_positive(block, conditions, n_conditions, mark->column)) return place_mark(binder, block, mark, node);
    TRY(bind_values_of_marks(binder, block, mark->arg, &arg));
    return join_mark(binder, mark, arg, mark->rows, node);
}

static weft_status place_condition_mark(Binder *binder, Block *block, Mark *mark, Expr **conditions, int *n_conditions,
                                        Node **node)
{
    const int alone = find_alone(block, conditions, *n_conditions, mark->column);
    Expr     *arg;
    if (alone < 0) return place_side_mark(binder, block, mark, conditions, *n_conditions, node);
    TRY(bind_values_of_marks(binder, block, mark->arg, &arg));
    mark->is_placed = true;
    memmove(conditions + alone, conditions + alone + 1, sizeof(Expr *) * (size_t)(--*n_conditions - alone));
    return join_rows(binder, JOIN_SEMI, arg, mark->rows, mark->at, node);
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
