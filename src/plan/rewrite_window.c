// rewrite_window.c - an argument that can fail is worked out for the rows that a window function chooses.
//
//     first_value(a / b) over w           project case when first_value(a) over w is not null
//                                                      then first_value(a) over w / first_value(b) over w end
//
// PostgreSQL works an argument out for no other rows, so that b may be 0 in them.  The CASE is for rows without such a
// row: lag's first, an empty frame.  A column that is never NULL tells them; else the constant true is chosen, too.
// Arguments that are proved not to fail stay where they are: they are computed once for each row, below the window.

#include "plan/rewrite.h"
#include "plan/window.h"

typedef struct WindowRewrite { Plan *plan; Error *err; bool is_changed; } WindowRewrite;

// A function that is replaced, and the node's lists, which grow.
typedef struct Chooser { Plan *plan; Node *node; WindowFunc func; } Chooser;

static bool is_choice(WindowKind kind)
{
    return kind == WINDOW_LAG || kind == WINDOW_LEAD || kind == WINDOW_FIRST_VALUE || kind == WINDOW_LAST_VALUE ||
           kind == WINDOW_NTH_VALUE;
}

static bool is_lazy_choice(const Plan *plan, const Node *node, const WindowFunc *func)
{
    if (!is_choice(func->kind)) return false;
    const Expr *arg = node->keys[func->arg];
    return plan_can_fail(plan, arg) && !expr_has_no_column(arg) && arg->depth < expr_depth_limit() - 1;
}

static int add_key(const Chooser *chooser, Expr *key)
{
    Node *node = chooser->node;
    for (int k = 0; k < node->n_keys; k++)
        if (expr_equal(node->keys[k], key)) return k;
    *LIST_PUSH(chooser->plan->arena, node->keys, node->n_keys) = key;
    return node->n_keys - 1;
}

// The same function of another argument, which NAME is for people.
static Expr *chosen(const Chooser *chooser, Expr *arg, const char *name)
{
    Plan      *plan = chooser->plan;
    Windows   *windows = chooser->node->windows;
    WindowFunc func = chooser->func;
    func.arg = add_key(chooser, arg), func.type = arg->type;
    for (int f = 0; f < windows->n_funcs; f++)
        if (window_func_is_same(&windows->funcs[f], &func))
            return plan_column_expr(plan, windows->funcs[f].column, func.at);
    func.column = plan_add_column(plan, arg->type, arena_printf(plan->arena, "%s(%s)", func.name, name), NULL);
    *LIST_PUSH(plan->arena, windows->funcs, windows->n_funcs) = func;
    return plan_column_expr(plan, func.column, func.at);
}

// Whether a row is chosen.
static weft_status make_is_there(const Chooser *chooser, const ColumnSet *columns, Expr **out, Error *err)
{
    Plan *plan = chooser->plan;
    for (int c = columns_next(columns, -1); c >= 0; c = columns_next(columns, c)) {
        if (plan->columns[c].range.nullable) continue;
        Expr *value = chosen(chooser, plan_column_expr(plan, c, -1), plan->columns[c].name);
        return expr_call(plan->arena, OP_IS_NOT_NULL, &value, 1, chooser->func.at, out, err);
    }
    *out = chosen(chooser, expr_const(plan->arena, (Value){ .type = TYPE(BOOLEAN), .i = 1 }, -1), "true");
    return WEFT_OK;
}

// The function's value, over what is chosen of the columns of its argument.
static weft_status make_value(const Chooser *chooser, Expr **out, Error *err)
{
    Plan        *plan = chooser->plan;
    const Expr  *arg = chooser->node->keys[chooser->func.arg];
    Substitution map = { arena_array(plan->arena, const Expr *, plan->n_columns), plan->n_columns };
    ColumnSet    columns = { 0 };
    Expr        *branches[3];
    columns_add_expr(plan->arena, &columns, arg);
    for (int c = columns_next(&columns, -1); c >= 0; c = columns_next(&columns, c))
        map.map[c] = chosen(chooser, plan_column_expr(plan, c, -1), plan->columns[c].name);
    TRY(make_is_there(chooser, &columns, &branches[0], err));
    TRY(expr_substitute(plan, arg, &map, &branches[1], err));
    branches[2] = expr_const(plan->arena, (Value){ .type = arg->type, .is_null = true }, -1);
    return expr_case(plan->arena, branches, 3, chooser->func.at, out, err);
}

// The node's lists anew, since those it has may not grow.
static void own_lists(Plan *plan, Node *node)
{
    Windows *windows = window_copy(plan->arena, node->windows);
    Expr   **keys = NULL;
    int      n_keys = 0;
    windows->funcs = NULL, windows->n_funcs = 0;
    for (int f = 0; f < node->windows->n_funcs; f++)
        *LIST_PUSH(plan->arena, windows->funcs, windows->n_funcs) = node->windows->funcs[f];
    for (int k = 0; k < node->n_keys; k++) *LIST_PUSH(plan->arena, keys, n_keys) = node->keys[k];
    node->windows = windows, node->keys = keys;
}

// NODE computes what VALUES need, by output; NULL: the output is the node's own.
static Node *project_values(Plan *plan, Node *node, Expr **values)
{
    const int n_out = node->n_out;
    int      *columns = arena_array(plan->arena, int, n_out + 1);
    ColumnSet kept = { 0 };
    memcpy(columns, node->out, (size_t)n_out * sizeof *columns);
    for (int f = 0; f < node->windows->n_funcs; f++) {
        const int out = node->inputs[0]->n_out + f;
        if (out >= n_out || !values[out]) columns_add(plan->arena, &kept, node->windows->funcs[f].column);
    }
    window_prune(plan, node, &kept);
    window_settle_out(plan, node);
    for (int i = 0; i < n_out; i++)
        if (!values[i]) values[i] = plan_column_expr(plan, columns[i], -1);
    return plan_project(plan, node, values, columns, n_out);
}

static weft_status choose_first(void *context, Node **slot)
{
    WindowRewrite *w = context;
    Node          *node = *slot;
    if (node->kind != NODE_WINDOW) return WEFT_OK;
    Expr   **values = arena_array(w->plan->arena, Expr *, node->n_out + 1);
    const int n_funcs = node->windows->n_funcs;
    int       n_lazy = 0;
    for (int f = 0; f < n_funcs; f++) n_lazy += is_lazy_choice(w->plan, node, &node->windows->funcs[f]);
    if (!n_lazy) return WEFT_OK;
    own_lists(w->plan, node);
    for (int f = 0; f < n_funcs; f++) {
        const Chooser chooser = { w->plan, node, node->windows->funcs[f] };
        if (is_lazy_choice(w->plan, node, &chooser.func))
            TRY(make_value(&chooser, &values[node->inputs[0]->n_out + f], w->err));
    }
    *slot = project_values(w->plan, node, values);
    w->is_changed = true;
    return WEFT_OK;
}

weft_status rewrite_window_args(Plan *plan, Node **root, Error *err)
{
    WindowRewrite w = { .plan = plan, .err = err };
    TRY(tree_visit(root, choose_first, &w));
    if (w.is_changed) plan_prove(plan, *root);
    return WEFT_OK;
}
