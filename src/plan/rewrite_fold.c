// rewrite_fold.c - expressions anew, with what is proved by now, and what can give no row goes.
//
// Constructors fold what is constant when a query is bound.  Here it is known, too, which columns are never NULL: "x
// is null" is false, coalesce(x, y) is x.  A filter that is true goes; what gives no row becomes VALUES without rows,
// as far up as that holds.  Comparisons that ranges would decide are left alone: a kernel's text must not depend on
// constants.

#include "plan/rewrite.h"

typedef struct FoldRewrite { Plan *plan; Error *err; bool has_empty; } FoldRewrite;

static weft_status fold_expr(FoldRewrite *fold, Expr *expr, Expr **out);

static bool is_never_null(const FoldRewrite *fold, const Expr *expr) { return !plan_range(fold->plan, expr).nullable; }

// ---- expressions ----------------------------------------------------------------------------------------------------

static weft_status fold_coalesce(FoldRewrite *fold, Expr *expr, Expr **args, Expr **out)
{
    int n_args = 0;
    while (n_args < expr->n_args && (n_args == 0 || !is_never_null(fold, args[n_args - 1]))) n_args++;
    *out = args[0];
    if (n_args == 1) return WEFT_OK;
    return expr_call(fold->plan->arena, OP_COALESCE, args, n_args, expr->at, out, fold->err);
}

static weft_status fold_call(FoldRewrite *fold, Expr *expr, Expr **args, bool is_changed, Expr **out)
{
    switch (expr->op) {
        case OP_IS_NULL: case OP_IS_NOT_NULL:
            if (expr_can_fail(args[0]) || !is_never_null(fold, args[0])) break;
            *out = expr_boolean(fold->plan->arena, expr->op == OP_IS_NOT_NULL, expr->at);
            return WEFT_OK;
        case OP_AND: case OP_OR:
            *out = args[0];
            if (expr_equal(args[0], args[1])) return WEFT_OK;
            if (is_changed) return expr_call(fold->plan->arena, expr->op, args, 2, expr->at, out, fold->err);
            break;
        case OP_NOT:
            return expr_call(fold->plan->arena, OP_NOT, args, 1, expr->at, out, fold->err);
        case OP_COALESCE: return fold_coalesce(fold, expr, args, out);
        default: break;
    }
    *out = expr;
    if (!is_changed) return WEFT_OK;
    return expr_make_call(fold->plan->arena, expr->op, expr->type, args, expr->n_args, expr->at, out, fold->err);
}

static bool results_are_equal(Expr *const *args, int n_args)
{
    for (int i = 1; i < n_args; i += 2) {
        if (!expr_equal(args[i], args[n_args - 1]) || expr_can_fail(args[i - 1])) return false;
    }
    return true;
}

static weft_status fold_case(FoldRewrite *fold, Expr *expr, Expr **args, bool is_changed, Expr **out)
{
    *out = args[expr->n_args - 1];
    if (results_are_equal(args, expr->n_args)) return WEFT_OK;
    *out = expr;
    return is_changed ? expr_case(fold->plan->arena, args, expr->n_args, expr->at, out, fold->err) : WEFT_OK;
}

static bool is_foldable(const Expr *expr)
{
    if (expr->kind == EXPR_CASE) return true;
    if (expr->kind != EXPR_CALL) return false;
    if (expr->op == OP_IS_NULL || expr->op == OP_IS_NOT_NULL || expr->op == OP_COALESCE || expr->op == OP_AND ||
        expr->op == OP_OR || (expr->op == OP_NOT && expr->args[0]->kind == EXPR_CALL))
        return true;
    for (int i = 0; i < expr->n_args; i++)
        if (is_foldable(expr->args[i])) return true;
    return false;
}

static weft_status fold_expr(FoldRewrite *fold, Expr *expr, Expr **out)
{
    bool is_changed = false;
    *out = expr;
    if (!is_foldable(expr)) return WEFT_OK;
    Expr **args = arena_array(fold->plan->arena, Expr *, expr->n_args + 1);
    for (int i = 0; i < expr->n_args; i++) {
        TRY(fold_expr(fold, expr->args[i], &args[i]));
        is_changed |= args[i] != expr->args[i];
    }
    if (expr->kind == EXPR_CASE) return fold_case(fold, expr, args, is_changed, out);
    return fold_call(fold, expr, args, is_changed, out);
}

static weft_status fold_slot(void *context, Expr **slot) { return fold_expr(context, *slot, slot); }

// ---- nodes ----------------------------------------------------------------------------------------------------------

static weft_status fold_node(void *context, Node **slot)
{
    FoldRewrite *fold = context;
    Node        *node = *slot;
    Conditions   list = { 0 };
    TRY(node_visit_exprs(node, fold_slot, fold));
    if (node->n_conditions) {
        conditions_add_all(fold->plan, &list, node->conditions, node->n_conditions);
        node->conditions = list.items, node->n_conditions = list.n;
        for (int c = 0; c < list.n; c++) fold->has_empty |= expr_is_never(list.items[c]);
    }
    fold->has_empty |= (node->kind == NODE_VALUES && !node->n_rows) || (node->kind == NODE_LIMIT && !node->limit);
    fold->has_empty |= node->kind == NODE_SHARED && plan_is_empty(fold->plan, node);
    if (node->kind == NODE_FILTER && !node->n_conditions) *slot = node->inputs[0];
    return WEFT_OK;
}

static bool gives_nothing(const Node *node) { return node->kind == NODE_VALUES && node->n_rows == 0; }

// The side that is left of UNION ALL, under the union's names.
static Node *remaining_side(Plan *plan, const Node *set, Node *side)
{
    Expr **exprs = arena_array(plan->arena, Expr *, set->n_out + 1);
    for (int c = 0; c < set->n_out; c++) exprs[c] = plan_column_expr(plan, side->out[c], -1);
    return plan_project(plan, side, exprs, set->out, set->n_out);
}

static weft_status drop_empty(void *context, Node **slot)
{
    FoldRewrite *fold = context;
    Node        *node = *slot;
    if (node->kind == NODE_VALUES) return WEFT_OK;
    if (plan_is_empty(fold->plan, node)) {
        *slot = node_empty(fold->plan, node);
    } else if (node->kind == NODE_JOIN && node->join == JOIN_ANTI && gives_nothing(node->inputs[1])) {
        *slot = node->inputs[0];
    } else if (node->kind == NODE_SET && node->set == SET_UNION && node->is_all) {
        for (int i = 0; i < 2; i++)
            if (gives_nothing(node->inputs[i])) *slot = remaining_side(fold->plan, node, node->inputs[1 - i]);
    }
    return WEFT_OK;
}

weft_status rewrite_fold(Plan *plan, Node **root, Error *err)
{
    FoldRewrite fold = { .plan = plan, .err = err };
    plan_prove(plan, *root);
    TRY(tree_visit(root, fold_node, &fold));
    return fold.has_empty ? tree_visit(root, drop_empty, &fold) : WEFT_OK;
}
