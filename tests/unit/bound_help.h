// bound_help.h - plans as the tests see them: a tree as one line of text, and what must hold for any tree.
//
//     plan_line(plan, &text)      project[t.a](left[t.a = u.a](t, u))
//     plan_fault(plan)            NULL, or what is wrong with it
//
// Inline, so that a program may leave some of them unused.

#ifndef WEFT_BOUND_HELP_H
#define WEFT_BOUND_HELP_H

#include "plan/plan.h"

// ---- a tree as text -------------------------------------------------------------------------------------------------

static inline void plan_line_list(const Plan *plan, Expr *const *exprs, int n_exprs, Text *text)
{
    for (int i = 0; i < n_exprs; i++) {
        if (i > 0) text_add(text, ", ");
        expr_print(exprs[i], plan, text);
    }
}

static inline void plan_line_node(const Plan *plan, const Node *node, Text *text);

static inline void plan_line_inputs(const Plan *plan, const Node *node, Text *text)
{
    text_add(text, "(");
    for (int i = 0; i < node->n_inputs; i++) {
        if (i > 0) text_add(text, ", ");
        plan_line_node(plan, node->inputs[i], text);
    }
    text_add(text, ")");
}

static inline void plan_line_values(const Node *node, Text *text)
{
    char buffer[128];
    text_add(text, "values");
    for (u64 r = 0; r < node->n_rows; r++) {
        text_add(text, "%s", r ? ", (" : " (");
        for (int c = 0; c < node->n_out; c++) {
            const Value *value = &node->values[r * (u64)node->n_out + (u64)c];
            value_format(value, buffer, sizeof buffer);
            text_add(text, "%s%s", c ? ", " : "", value->is_null ? "null" : buffer);
        }
        text_add(text, ")");
    }
}

static inline void plan_line_aggregate(const Plan *plan, const Node *node, Text *text)
{
    text_add(text, "group[");
    plan_line_list(plan, node->keys, node->n_keys, text);
    for (int i = 0; i < node->n_aggs; i++) {
        text_add(text, "%s", i ? ", " : node->n_keys ? "; " : "");
        agg_print(&node->aggs[i], plan, text);
    }
    text_add(text, "]");
}

static inline void plan_line_sort(const Plan *plan, const Node *node, Text *text)
{
    text_add(text, "sort[");
    for (int i = 0; i < node->n_sort; i++) {
        const Expr column = { .kind = EXPR_COLUMN, .column = node->sort[i].column };
        if (i > 0) text_add(text, ", ");
        expr_print(&column, plan, text);
        text_add(text, "%s", node->sort[i].descending ? " desc" : "");
    }
    if (node->n_distinct_on) text_add(text, "; first of %d", node->n_distinct_on);
    text_add(text, "]");
}

static inline void plan_line_node(const Plan *plan, const Node *node, Text *text)
{
    static const char *const joins[] = { "inner", "left", "right", "full", "semi", "anti", "single", "mark" };
    static const char *const sets[] = { "union", "intersect", "except" };
    switch (node->kind) {
        case NODE_SCAN:      text_add(text, "%s", node->alias);         break;
        case NODE_VALUES:    plan_line_values(node, text);              break;
        case NODE_FILTER:    text_add(text, "filter[");                 break;
        case NODE_PROJECT:   text_add(text, "project[");                break;
        case NODE_JOIN:      text_add(text, "%s[", joins[node->join]);  break;
        case NODE_AGGREGATE: plan_line_aggregate(plan, node, text);     break;
        case NODE_SORT:      plan_line_sort(plan, node, text);          break;
        case NODE_LIMIT:
            text_add(text, "limit[%lld, %lld]", (long long)node->limit, (long long)node->offset);
            break;
        case NODE_SET:       text_add(text, "%s%s", sets[node->set], node->is_all ? " all" : "");  break;
        case NODE_SHARED:    text_add(text, "%s#%d", node->alias, node->shared->number);  break;
        default:             text_add(text, "?");
    }
    if (node->kind == NODE_PROJECT) plan_line_list(plan, node->exprs, node->n_out, text);
    if (node->kind == NODE_FILTER || node->kind == NODE_JOIN)
        plan_line_list(plan, node->conditions, node->n_conditions, text);
    if (node->kind == NODE_FILTER || node->kind == NODE_JOIN || node->kind == NODE_PROJECT) text_add(text, "]");
    if (node->n_inputs) plan_line_inputs(plan, node, text);
}

// The tree, then the shared subplans and the parameters that it uses.
static inline void plan_line(const Plan *plan, Text *text)
{
    plan_line_node(plan, plan->root, text);
    for (int i = 0; i < plan->n_shared; i++) {
        text_add(text, "; #%d: ", i);
        plan_line_node(plan, plan->shared[i]->root, text);
    }
    for (int i = 0; i < plan->n_params; i++) {
        text_add(text, "; $%d: ", i + 1);
        plan_line_node(plan, plan->params[i].subplan, text);
    }
}

// ---- what must hold -------------------------------------------------------------------------------------------------

typedef struct PlanCheck {
    const Plan *plan;
    Arena      *arena;
    bool       *is_made;               // by column id
    ColumnSet   outer;                 // of the left sides around: what a right side may name, too
    int         n_shared;              // what may be used: subplans before this one
    const char *fault;
} PlanCheck;

static inline void check_that(PlanCheck *check, bool holds, const char *what)
{
    if (!holds && !check->fault) check->fault = what;
}

static inline void check_expr(PlanCheck *check, const Expr *expr, const ColumnSet *columns)
{
    const Plan *plan = check->plan;
    check_that(check, expr->depth <= expr_depth_limit(), "depth is limited");
    if (expr->kind == EXPR_COLUMN)
        check_that(check, (columns_has(columns, expr->column) || columns_has(&check->outer, expr->column)) &&
                          type_equal(expr->type, plan->columns[expr->column].type), "a column is there, with its type");
    if (expr->kind == EXPR_PARAM)
        check_that(check, expr->param < plan->n_params && type_equal(expr->type, plan->params[expr->param].type),
                   "a parameter is there, with its type");
    for (int i = 0; i < expr->n_args; i++) check_expr(check, expr->args[i], columns);
}

static inline void check_conditions(PlanCheck *check, const Node *node, const ColumnSet *columns)
{
    for (int i = 0; i < node->n_conditions; i++) {
        check_expr(check, node->conditions[i], columns);
        check_that(check, node->conditions[i]->type.kind == TYPE_BOOLEAN, "a condition is boolean");
    }
}

static inline void check_made(PlanCheck *check, int column)
{
    const Type type = check->plan->columns[column].type;
    check_that(check, !check->is_made[column], "a column is made once");
    check_that(check, type.kind != TYPE_NULL, "a column has a type");
    check->is_made[column] = true;
}

static inline void check_project(PlanCheck *check, const Node *node, const ColumnSet *columns)
{
    ColumnSet own = { 0 };
    for (int i = 0; i < node->n_out; i++) {
        const Expr *expr = node->exprs[i];
        const int   column = node->out[i];
        check_expr(check, expr, columns);
        check_that(check, expr_equal(expr, expr), "an expression equals itself");
        check_that(check, type_equal(expr->type, check->plan->columns[column].type), "a project's column has its type");
        if (expr->kind != EXPR_COLUMN || expr->column != column) check_made(check, column);
        check_that(check, !columns_has(&own, column), "a project gives a column once");
        columns_add(check->arena, &own, column);
    }
}

static inline void check_aggregate(PlanCheck *check, const Node *node, const ColumnSet *columns)
{
    check_that(check, node->n_out == node->n_keys + node->n_aggs, "groups give keys and aggregates");
    for (int i = 0; i < node->n_out; i++) {
        const int   a = i - node->n_keys;
        const Expr *expr = a < 0 ? node->keys[i] : node->aggs[a].arg;
        const Type  type = a < 0 ? node->keys[i]->type : node->aggs[a].type;
        if (expr) check_expr(check, expr, columns);
        check_that(check, type_equal(type, check->plan->columns[node->out[i]].type), "a group's column has its type");
        check_made(check, node->out[i]);
    }
}

static inline void check_set(PlanCheck *check, const Node *node)
{
    const PlanColumn *columns = check->plan->columns;
    for (int side = 0; side < 2; side++) {
        check_that(check, node->inputs[side]->n_out == node->n_out, "sides have as many columns");
        for (int i = 0; i < node->n_out && !check->fault; i++)
            check_that(check, type_equal(columns[node->out[i]].type, columns[node->inputs[side]->out[i]].type),
                       "sides have the same types");
    }
    for (int i = 0; i < node->n_out; i++) check_made(check, node->out[i]);
}

static inline void check_join(PlanCheck *check, const Node *node, const ColumnSet *columns)
{
    check_conditions(check, node, columns);
    const bool is_left_only = node->join == JOIN_SEMI || node->join == JOIN_ANTI || node->join == JOIN_MARK;
    const int  n_left = node->inputs[0]->n_out;
    check_that(check, node->n_out == n_left + (is_left_only ? node->join == JOIN_MARK : node->inputs[1]->n_out),
               "a join gives both sides");
    if (node->join == JOIN_MARK) {
        check_that(check, node->mark == node->out[n_left], "the mark comes last");
        check_made(check, node->mark);
    }
}

static inline void check_shared(PlanCheck *check, const Node *node)
{
    const Node *root = node->shared->root;
    check_that(check, node->shared->number < check->n_shared, "a subplan comes before its uses");
    check_that(check, root->n_out == node->n_out, "a use has all columns");
    for (int i = 0; i < node->n_out; i++) check_made(check, node->out[i]);
}

static inline void check_passes(PlanCheck *check, const Node *node)
{
    check_that(check, node->n_out == node->inputs[0]->n_out &&
                      (!node->n_out || memcmp(node->out, node->inputs[0]->out, sizeof(int) * (size_t)node->n_out) == 0),
               "columns pass through");
    for (int i = 0; i < node->n_sort; i++)
        check_that(check, node_gives(node, node->sort[i].column), "sorted by a column");
    check_that(check, node->n_distinct_on <= node->n_sort, "DISTINCT ON is sorted by");
}

static inline void check_node(PlanCheck *check, const Node *node)
{
    ColumnSet columns = { 0 };
    for (int i = 0; i < node->n_inputs; i++) {
        const ColumnSet outer = check->outer;
        if (i == 1 && check->plan->is_correlated) {
            check->outer = (ColumnSet){ 0 };
            columns_add_all(check->arena, &check->outer, &outer);
            columns_add_all(check->arena, &check->outer, &columns);
        }
        check_node(check, node->inputs[i]);
        check->outer = outer;
        node_columns(check->arena, node->inputs[i], &columns);
    }
    switch (node->kind) {
        case NODE_SCAN: case NODE_VALUES: case NODE_REPEAT:
            for (int i = 0; i < node->n_out; i++) check_made(check, node->out[i]);
            break;
        case NODE_FILTER:
            check_conditions(check, node, &columns);
            check_passes(check, node);
            break;
        case NODE_SORT: case NODE_LIMIT: check_passes(check, node);               break;
        case NODE_PROJECT:               check_project(check, node, &columns);    break;
        case NODE_JOIN:                  check_join(check, node, &columns);       break;
        case NODE_AGGREGATE:             check_aggregate(check, node, &columns);  break;
        case NODE_SET:                   check_set(check, node);                  break;
        case NODE_SHARED:                check_shared(check, node);               break;
        case NODE_WINDOW:                break;                                   // adds columns of its own
        default:                         check_that(check, false, "a kind of node that is made");
    }
}

static inline const char *plan_fault(const Plan *plan)
{
    Arena    *arena = arena_new(NULL, "check");
    PlanCheck check = { .plan = plan, .arena = arena, .is_made = arena_array(arena, bool, plan->n_columns + 1) };
    for (; check.n_shared < plan->n_shared; check.n_shared++) check_node(&check, plan->shared[check.n_shared]->root);
    for (int i = 0; i < plan->n_params; i++) {
        const Node *subplan = plan->params[i].subplan;
        check_node(&check, subplan);
        check_that(&check, subplan->n_out == 1 && type_equal(plan->columns[subplan->out[0]].type, plan->params[i].type),
                   "a parameter has one column");
    }
    check_node(&check, plan->root);
    check_that(&check, plan->n_visible >= 1 && plan->n_visible <= plan->root->n_out, "some columns are shown");
    check_that(&check, plan->n_scans <= MAX_RELATIONS, "scans are limited");
    arena_free(arena);
    return check.fault;
}

#endif
