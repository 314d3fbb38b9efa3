// rewrite_host.c - what only the host can compute becomes a column of a PROJECT of its own.
//
//     filter first || last like 'Ada%'          filter c like 'Ada%'
//       scan people                      ─>       project c = first || last         the host, over stored rows
//                                                   scan people
//
// Kernels are then left with columns (place.c says what they cannot do).  A PROJECT that is there already stays as it
// is: the cut (cut.c) leaves its expressions to the host.  The last rewrite, so that filters and joins that kernels can
// do are below such a PROJECT already.

#include "plan/functions.h"
#include "plan/rewrite.h"

typedef struct HostRewrite {
    Plan   *plan;
    Error  *err;
    Expr  **exprs;                                          // of the PROJECT to come
    int    *columns;
    int     n_columns;
} HostRewrite;

// ---- expressions ----------------------------------------------------------------------------------------------------

static weft_status become_column(HostRewrite *h, Expr *expr, Expr **out)
{
    char buffer[32];
    if (expr->type.kind == TYPE_INTERVAL) {
        fail(h->err, WEFT_UNSUPPORTED, expr->at,
             "a value of type %s in a condition, a join, a group or an aggregate is not supported yet",
             type_label(expr->type, buffer));
        error_hint(h->err, "extract(epoch from ...) makes a number of it.");
        return WEFT_UNSUPPORTED;
    }
    for (int i = 0; i < h->n_columns; i++)
        if (expr_equal(h->exprs[i], expr)) {
            *out = plan_column_expr(h->plan, h->columns[i], expr->at);
            return WEFT_OK;
        }
    int n = h->n_columns;
    const int column = plan_add_column(h->plan, expr->type, "computed", NULL);
    h->plan->columns[column].value = expr;
    *LIST_PUSH(h->plan->arena, h->exprs, n) = expr;
    *LIST_PUSH(h->plan->arena, h->columns, h->n_columns) = column;
    *out = plan_column_expr(h->plan, column, expr->at);
    return WEFT_OK;
}

// CASE and COALESCE compute what they come to and nothing else, so that what is in them may fail elsewhere.
static bool is_lazy(const Expr *expr)
{
    return expr->kind == EXPR_CASE || (expr->kind == EXPR_CALL && expr->op == OP_COALESCE);
}

static weft_status take_out(HostRewrite *h, Expr **place)
{
    Expr *expr = *place;
    if (!expr_needs_host(expr)) return WEFT_OK;
    if (expr_is_unknown(expr) || is_lazy(expr)) return become_column(h, expr, place);
    Expr **args = arena_array(h->plan->arena, Expr *, expr->n_args);
    for (int i = 0; i < expr->n_args; i++) {
        args[i] = expr->args[i];
        TRY(take_out(h, &args[i]));
    }
    if (expr->kind == EXPR_CALL)
        return expr_make_call(h->plan->arena, expr->op, expr->type, args, expr->n_args, expr->at, place, h->err);
    return expr_make_case(h->plan->arena, expr->type, args, expr->n_args, expr->at, place, h->err);
}

static weft_status take_out_all(HostRewrite *h, Expr **exprs, int n_exprs)
{
    for (int i = 0; i < n_exprs; i++) TRY(take_out(h, &exprs[i]));
    return WEFT_OK;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

// What was taken out is computed above INPUT, beside its columns.
static void put_project(HostRewrite *h, Node **input)
{
    const int n_in = (*input)->n_out, n = n_in + h->n_columns;
    if (!h->n_columns) return;
    Expr **exprs = arena_array(h->plan->arena, Expr *, n);
    int   *columns = arena_array(h->plan->arena, int, n);
    for (int c = 0; c < n_in; c++) {
        columns[c] = (*input)->out[c];
        exprs[c] = plan_column_expr(h->plan, columns[c], -1);
    }
    for (int c = 0; c < h->n_columns; c++) exprs[n_in + c] = h->exprs[c], columns[n_in + c] = h->columns[c];
    *input = plan_project(h->plan, *input, exprs, columns, n);
    h->n_columns = 0, h->exprs = NULL, h->columns = NULL;
}

static bool any_needs_host(Expr *const *exprs, int n_exprs)
{
    for (int i = 0; i < n_exprs; i++)
        if (expr_needs_host(exprs[i])) return true;
    return false;
}

// Conditions of an inner join go above it.
static void lift_conditions(HostRewrite *h, Node **slot)
{
    Node   *join = *slot;
    Expr  **lifted = arena_array(h->plan->arena, Expr *, join->n_conditions);
    int     n_lifted = 0, n_kept = 0;
    for (int i = 0; i < join->n_conditions; i++) {
        if (expr_needs_host(join->conditions[i])) lifted[n_lifted++] = join->conditions[i];
        else join->conditions[n_kept++] = join->conditions[i];
    }
    join->n_conditions = n_kept;
    *slot = plan_filter(h->plan, join, lifted, n_lifted);
}

static weft_status compute_for_side(HostRewrite *h, Node *join, int side)
{
    ColumnSet given = { 0 };
    node_columns(h->plan->arena, join->inputs[side], &given);
    for (int i = 0; i < join->n_conditions; i++)
        if (expr_needs_host(join->conditions[i]) && expr_uses_only(join->conditions[i], &given))
            TRY(take_out(h, &join->conditions[i]));
    TRY(take_out_all(h, side ? join->right_keys : join->keys, join->n_keys));
    put_project(h, &join->inputs[side]);
    return WEFT_OK;
}

static weft_status compute_for_join(HostRewrite *h, Node **slot)
{
    Node *join = *slot;
    TRY(compute_for_side(h, join, 0));
    TRY(compute_for_side(h, join, 1));
    if (!any_needs_host(join->conditions, join->n_conditions)) return WEFT_OK;
    if (join->join != JOIN_INNER)
        return fail(h->err, WEFT_INTERNAL, join->conditions[0]->at, "a join was not made of its pairs");
    lift_conditions(h, slot);
    TRY(take_out_all(h, (*slot)->conditions, (*slot)->n_conditions));
    put_project(h, &(*slot)->inputs[0]);
    return WEFT_OK;
}

// The interpreter works on groups and values in any case, until copies of rows are stored.
static bool is_interpreted_input(const Node *input)
{
    while (input->kind == NODE_FILTER || (input->kind == NODE_PROJECT && input->copies < 0)) input = input->inputs[0];
    return input->kind == NODE_AGGREGATE || input->kind == NODE_VALUES;
}

static weft_status compute_for(void *context, Node **slot)
{
    HostRewrite *h = context;
    Node        *node = *slot;
    switch (node->kind) {
        case NODE_FILTER:
            if (is_interpreted_input(node->inputs[0])) return WEFT_OK;
            TRY(take_out_all(h, node->conditions, node->n_conditions));
            break;
        case NODE_AGGREGATE:
            TRY(take_out_all(h, node->keys, node->n_keys));
            for (int a = 0; a < node->n_aggs; a++)
                if (node->aggs[a].arg) TRY(take_out(h, &node->aggs[a].arg));
            break;
        case NODE_WINDOW:
            if (is_interpreted_input(node->inputs[0])) return WEFT_OK;
            TRY(take_out_all(h, node->keys, node->n_keys));
            break;
        case NODE_JOIN: return compute_for_join(h, slot);
        default: return WEFT_OK;
    }
    put_project(h, &node->inputs[0]);
    return WEFT_OK;
}

weft_status rewrite_host(Plan *plan, Node **root, Error *err)
{
    HostRewrite h = { .plan = plan, .err = err };
    return tree_visit(root, compute_for, &h);
}
