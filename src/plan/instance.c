// instance.c - a plan that was made for parameters, copied with constants in their place.
//
// The parameters stand for literals of the text (sql/holes.c).  Nothing was taken from their values, so the plan is
// right for any; what depends on them is made anew here: lists of IN are sorted, and plan_prove takes ranges and
// estimates from the constants, as at the end of plan_rewrite.  Places move along with the text.
//
// A run does not change a plan, so the copy shares with the template what holds neither expressions nor places.

#include "plan/rewrite.h"

enum { EXPRS_MOST = 4096, MANY_ROWS = 1000 };

// ---- what can be a template -----------------------------------------------------------------------------------------

static bool has_param(const Expr *expr)
{
    if (expr->kind == EXPR_PARAM) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_param(expr->args[i])) return true;
    return false;
}

static bool has_input(const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_input(expr->args[i])) return true;
    return false;
}

// With constants alone a call would be folded, and what is above it.
static bool would_fold(const Expr *expr)
{
    if (expr->n_args && has_param(expr) && !has_input(expr)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (would_fold(expr->args[i])) return true;
    return false;
}

typedef struct TemplateCheck { int n_exprs; bool fits; } TemplateCheck;

static weft_status check_expr(void *context, Expr **expr)
{
    TemplateCheck *check = context;
    check->n_exprs += MAX_OF((*expr)->size, 1);
    check->fits &= check->n_exprs <= EXPRS_MOST && !would_fold(*expr);
    return WEFT_OK;
}

static weft_status check_node(void *context, Node **node)
{
    TemplateCheck *check = context;
    check->fits &= (*node)->kind != NODE_WINDOW && (*node)->kind != NODE_SHARED && (*node)->kind != NODE_REPEAT;
    return node_visit_exprs(*node, check_expr, check);
}

bool plan_is_template(const Plan *plan)
{
    const bool    is_plain = !plan->n_shared && !plan->is_recursive && !plan->is_correlated && !plan->is_momentary;
    TemplateCheck check = { .fits = is_plain };
    Node         *root = plan->root;
    for (int p = 0; p < plan->n_params; p++) check.fits &= plan->params[p].guess != NULL;
    for (int c = 0; c < plan->n_columns; c++) {
        const Agg *agg = plan->columns[c].agg;
        check.fits &= !agg || !agg->arg || !has_param(agg->arg);
    }
    (void)tree_visit(&root, check_node, &check);
    return check.fits;
}

// ---- copies ---------------------------------------------------------------------------------------------------------

typedef struct Copier { Plan *plan; const Constants *constants; Error *err; } Copier;

static int moved(const Copier *copier, int at)
{
    return at < 0 ? at : copier->constants->move(copier->constants->context, at);
}

static weft_status copy_expr(const Copier *copier, const Expr *expr, Expr **out);

static Expr *copy_leaf(const Copier *copier, const Expr *expr)
{
    Expr *copy = arena_make(copier->plan->arena, Expr);
    *copy = expr->kind == EXPR_PARAM ? *copier->constants->values[expr->param] : *expr;
    copy->at = moved(copier, expr->at);
    return copy;
}

static weft_status copy_exprs(const Copier *copier, Expr *const *exprs, int n_exprs, Expr ***out)
{
    Expr **copies = arena_alloc(copier->plan->arena, (size_t)(n_exprs + 1) * sizeof *copies);
    for (int i = 0; i < n_exprs; i++) TRY(copy_expr(copier, exprs[i], &copies[i]));
    *out = copies;
    return WEFT_OK;
}

static bool is_list_of_params(const Expr *expr)
{
    bool has_any = false;
    for (int i = 1; i < expr->n_args; i++) has_any |= expr->args[i]->kind == EXPR_PARAM;
    return has_any && expr->kind == EXPR_CALL && expr->op == OP_IN;
}

static weft_status copy_expr(const Copier *copier, const Expr *expr, Expr **out)
{
    if (!expr->n_args) {
        *out = copy_leaf(copier, expr);
        return WEFT_OK;
    }
    Arena *arena = copier->plan->arena;
    Expr **args;
    TRY(copy_exprs(copier, expr->args, expr->n_args, &args));
    if (is_list_of_params(expr))
        return expr_call(arena, OP_IN, args, expr->n_args, moved(copier, expr->at), out, copier->err);
    *out = expr_with_args(arena, expr, args, expr->n_args);
    (*out)->at = moved(copier, expr->at);
    return WEFT_OK;
}

static weft_status copy_aggs(const Copier *copier, Node *copy)
{
    Agg *aggs = arena_array(copier->plan->arena, Agg, copy->n_aggs + 1);
    for (int a = 0; a < copy->n_aggs; a++) {
        aggs[a] = copy->aggs[a];
        aggs[a].at = moved(copier, aggs[a].at);
        if (aggs[a].arg) TRY(copy_expr(copier, aggs[a].arg, &aggs[a].arg));
    }
    copy->aggs = aggs;
    return WEFT_OK;
}

static weft_status copy_tree(const Copier *copier, const Node *node, Node **out)
{
    Node *copy = arena_make(copier->plan->arena, Node);
    *copy = *node;
    copy->at = moved(copier, node->at);
    for (int i = 0; i < node->n_inputs; i++) TRY(copy_tree(copier, node->inputs[i], &copy->inputs[i]));
    if (node->n_conditions) TRY(copy_exprs(copier, node->conditions, node->n_conditions, &copy->conditions));
    if (node->kind == NODE_PROJECT) TRY(copy_exprs(copier, node->exprs, node->n_out, &copy->exprs));
    if (node->n_keys) TRY(copy_exprs(copier, node->keys, node->n_keys, &copy->keys));
    if (node->n_keys && node->kind == NODE_JOIN)
        TRY(copy_exprs(copier, node->right_keys, node->n_keys, &copy->right_keys));
    if (node->n_aggs) TRY(copy_aggs(copier, copy));
    *out = copy;
    return WEFT_OK;
}

// What a column prints as may be such an expression, too.
static weft_status copy_columns(const Copier *copier, const Plan *plan)
{
    Plan *copy = copier->plan;
    copy->columns = arena_alloc(copy->arena, (size_t)(plan->n_columns + 1) * sizeof *copy->columns);
    memcpy(copy->columns, plan->columns, (size_t)plan->n_columns * sizeof *copy->columns);
    for (int c = 0; c < plan->n_columns; c++) {
        const Expr *value = plan->columns[c].value;
        Expr       *own;
        if (!value || !has_param(value)) continue;
        TRY(copy_expr(copier, value, &own));
        copy->columns[c].value = own;
    }
    return WEFT_OK;
}

// ---- estimates ------------------------------------------------------------------------------------------------------

// Few rows are soon done with, however they are joined.
static double change_of(double before, double now)
{
    const double a = MAX_OF(before, MANY_ROWS), b = MAX_OF(now, MANY_ROWS);
    return a > b ? a / b : b / a;
}

static double largest_change(const Node *before, const Node *now)
{
    double change = change_of(before->rows, now->rows);
    for (int i = 0; i < before->n_inputs; i++)
        change = MAX_OF(change, largest_change(before->inputs[i], now->inputs[i]));
    return change;
}

static void keep_rows(Node *node, const Node *of)
{
    node->rows = of->rows;
    for (int i = 0; i < node->n_inputs; i++) keep_rows(node->inputs[i], of->inputs[i]);
}

void plan_keep_rows(Plan *plan, const Plan *instance) { keep_rows(plan->root, instance->root); }

weft_status plan_instance(Arena *arena, const Plan *plan, const Constants *constants, Plan **out, double *change,
                          Error *err)
{
    Plan *copy = *out = arena_make(arena, Plan);
    *copy = *plan;
    copy->arena = arena;
    copy->n_params = 0, copy->params = NULL;
    const Copier copier = { copy, constants, err };
    TRY(copy_columns(&copier, plan));
    TRY(copy_tree(&copier, plan->root, &copy->root));
    plan_prove(copy, copy->root);
    *change = largest_change(plan->root, copy->root);
    return WEFT_OK;
}
