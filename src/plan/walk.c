// walk.c - ways through a tree, and small trees made of trees.

#include "plan/rewrite.h"
#include "plan/window.h"

static weft_status visit_list(Expr **list, int n_list, VisitExpr *visit, void *context)
{
    for (int i = 0; i < n_list; i++) TRY(visit(context, &list[i]));
    return WEFT_OK;
}

weft_status node_visit_exprs(Node *node, VisitExpr *visit, void *context)
{
    TRY(visit_list(node->conditions, node->n_conditions, visit, context));
    if (node->kind == NODE_PROJECT) TRY(visit_list(node->exprs, node->n_out, visit, context));
    TRY(visit_list(node->keys, node->n_keys, visit, context));
    if (node->kind == NODE_JOIN) TRY(visit_list(node->right_keys, node->n_keys, visit, context));
    for (int a = 0; a < node->n_aggs; a++)
        if (node->aggs[a].arg) TRY(visit(context, &node->aggs[a].arg));
    return WEFT_OK;
}

weft_status tree_visit(Node **root, VisitNode *visit, void *context)
{
    for (int i = 0; i < (*root)->n_inputs; i++) TRY(tree_visit(&(*root)->inputs[i], visit, context));
    return visit(context, root);
}

// A visit may share subplans, and lists may move: nothing is held across one.
weft_status plan_visit_trees(Plan *plan, VisitNode *visit, void *context)
{
    for (int s = 0; s < plan->n_shared; s++) TRY(visit(context, &plan->shared[s]->root));
    for (int p = 0; p < plan->n_params; p++) {
        Node *root = plan->params[p].subplan;
        if (!root) continue;
        TRY(visit(context, &root));
        plan->params[p].subplan = root;
    }
    return visit(context, &plan->root);
}

// ---- small trees ----------------------------------------------------------------------------------------------------

bool node_is_in_order(const Node *node, const int *columns, int n_columns)
{
    return node->n_out == n_columns &&
           (!n_columns || memcmp(node->out, columns, (size_t)n_columns * sizeof *columns) == 0);
}

Node *node_in_order(Plan *plan, Node *node, const int *columns, int n_columns)
{
    if (node_is_in_order(node, columns, n_columns)) return node;
    Expr **exprs = arena_array(plan->arena, Expr *, n_columns + 1);
    for (int c = 0; c < n_columns; c++) exprs[c] = plan_column_expr(plan, columns[c], -1);
    Node *project = plan_project(plan, node, exprs, columns, n_columns);
    project->rows = node->rows;
    return project;
}

Node *node_empty(Plan *plan, const Node *node) { return plan_values(plan, 0, node->n_out, node->out, NULL); }

bool join_gives_right(JoinKind kind) { return kind != JOIN_SEMI && kind != JOIN_ANTI && kind != JOIN_MARK; }

static void settle_join(Plan *plan, Node *node)
{
    const Node *left = node->inputs[0], *right = node->inputs[1];
    const bool  gives_right = join_gives_right(node->join);
    const int   n_out = left->n_out + (gives_right ? right->n_out : node->join == JOIN_MARK);
    int        *out = arena_array(plan->arena, int, n_out + 1);
    if (left->n_out) memcpy(out, left->out, (size_t)left->n_out * sizeof *out);
    if (gives_right && right->n_out) memcpy(out + left->n_out, right->out, (size_t)right->n_out * sizeof *out);
    if (node->join == JOIN_MARK) out[left->n_out] = node->mark;
    node->out = out, node->n_out = n_out;
}

void node_settle_out(Plan *plan, Node *node)
{
    if (node->kind == NODE_JOIN) settle_join(plan, node);
    if (node->kind == NODE_WINDOW) window_settle_out(plan, node);
    if (node->kind != NODE_FILTER && node->kind != NODE_SORT && node->kind != NODE_LIMIT) return;
    node->n_out = node->inputs[0]->n_out;
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    if (node->n_out) memcpy(node->out, node->inputs[0]->out, (size_t)node->n_out * sizeof *node->out);
}

int plan_copy_column(Plan *plan, int column)
{
    const PlanColumn from = plan->columns[column];                     // a copy: the list may move
    const int        copy = plan_add_column(plan, from.type, from.name, from.qualifier);
    plan->columns[copy].value = from.value, plan->columns[copy].agg = from.agg;
    plan->columns[copy].is_declared = from.is_declared;
    return copy;
}

// ---- conditions -----------------------------------------------------------------------------------------------------

void conditions_add(Plan *plan, Conditions *list, Expr *condition)
{
    plan_split_condition(plan->arena, condition, &list->items, &list->n);
}

void conditions_add_all(Plan *plan, Conditions *list, Expr *const *items, int n_items)
{
    for (int i = 0; i < n_items; i++) conditions_add(plan, list, items[i]);
}

bool conditions_has(const Conditions *list, const Expr *condition)
{
    for (int i = 0; i < list->n; i++)
        if (expr_equal(list->items[i], condition)) return true;
    return false;
}

weft_status expr_both(Plan *plan, Op op, Expr *a, Expr *b, Expr **out, Error *err)
{
    *out = a ? a : b;
    if (!a || !b) return WEFT_OK;
    return expr_call(plan->arena, op, (Expr *[]){ a, b }, 2, a->at, out, err);
}

// Of operands that agreed before: no cast is needed, and none may be added.
weft_status expr_equals(Plan *plan, Expr *a, Expr *b, Expr **out, Error *err)
{
    Expr **args = arena_array(plan->arena, Expr *, 2);
    args[0] = a, args[1] = b;
    return expr_make_call(plan->arena, OP_EQ, TYPE(BOOLEAN), args, 2, a->at, out, err);
}

bool expr_has_no_column(const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN) return false;
    for (int i = 0; i < expr->n_args; i++)
        if (!expr_has_no_column(expr->args[i])) return false;
    return true;
}

Op op_mirrored(Op op)
{
    static const Op mirrored[OP_N] = {
        [OP_EQ] = OP_EQ, [OP_NE] = OP_NE, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE
    };
    return mirrored[op];
}

const Expr *expr_constant_side(const Expr *comparison, Op *op, const Expr **other)
{
    if (comparison->kind != EXPR_CALL || comparison->op < OP_EQ || comparison->op > OP_GE) return NULL;
    const int side = comparison->args[1]->kind == EXPR_CONST ? 1 : 0;
    if (comparison->args[side]->kind != EXPR_CONST) return NULL;
    *op = side == 1 ? comparison->op : op_mirrored(comparison->op);
    *other = comparison->args[1 - side];
    return comparison->args[side];
}

// ---- substitution ---------------------------------------------------------------------------------------------------

static const Expr *substitute_leaf(void *context, const Expr *leaf)
{
    const Substitution *substitution = context;
    if (leaf->kind != EXPR_COLUMN || leaf->column >= substitution->n) return NULL;
    return substitution->map[leaf->column];
}

weft_status expr_substitute(Plan *plan, const Expr *expr, const Substitution *substitution, Expr **out, Error *err)
{
    return expr_replace(plan->arena, expr, substitute_leaf, (void *)(uintptr_t)substitution, out, err);
}

typedef struct Extent { int depth; i64 size; } Extent;

static weft_status note_extent(void *context, Expr **expr)
{
    Extent *extent = context;
    extent->depth = MAX_OF(extent->depth, (*expr)->depth);
    extent->size = MAX_OF(extent->size, (*expr)->size);
    return WEFT_OK;
}

bool exprs_fit(const Node *above, const Node *below)
{
    Extent a = { 0 }, b = { 0 };
    node_visit_exprs((Node *)(uintptr_t)above, note_extent, &a);
    node_visit_exprs((Node *)(uintptr_t)below, note_extent, &b);
    return a.depth + b.depth <= expr_depth_limit() && a.size * b.size <= 1 << 18;
}

Substitution substitution_of(Plan *plan, const Node *node)
{
    Substitution substitution = { .n = plan->n_columns };
    Expr *const *exprs = node->kind == NODE_PROJECT ? node->exprs : node->keys;
    const int    n_exprs = node->kind == NODE_PROJECT ? node->n_out : node->n_keys;
    substitution.map = arena_array(plan->arena, const Expr *, substitution.n + 1);
    for (int c = 0; c < n_exprs; c++) substitution.map[node->out[c]] = exprs[c];
    return substitution;
}
