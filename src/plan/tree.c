// tree.c - plans and their nodes: made by front ends and by rewrites.
//
// A node's OUT says which columns come out of it and in which order.  Filter, sort and limit let their input's through;
// a
// join puts its two sides one after the other (semi and anti: the left alone; mark: the left and the mark).  Every
// column
// that is computed gets an id of its own, and no id is ever used for a second column.

#include "plan/expr_int.h"

Plan *plan_new(Arena *arena)
{
    Plan *plan = arena_make(arena, Plan);
    plan->arena = arena;
    return plan;
}

// Names may lie in the tree that the parser made, and a plan outlives it.
static const char *own_name(const Plan *plan, const char *name)
{
    return name ? arena_strdup(plan->arena, name) : NULL;
}

int plan_add_column(Plan *plan, Type type, const char *name, const char *qualifier)
{
    *LIST_PUSH(plan->arena, plan->columns, plan->n_columns) = (PlanColumn){ .type = type,
                                                                            .range = range_of_type(type),
                                                                            .n_distinct = 1,
                                                                            .name = own_name(plan, name),
                                                                            .qualifier = own_name(plan, qualifier) };
    return plan->n_columns - 1;
}

int plan_add_param(Plan *plan, Type type, Node *subplan, int at)
{
    *LIST_PUSH(plan->arena, plan->params, plan->n_params) = (PlanParam){ .type = type, .subplan = subplan, .at = at };
    return plan->n_params - 1;
}

Expr *plan_column_expr(const Plan *plan, int column, int at)
{
    Expr *expr = expr_column(plan->arena, column, plan->columns[column].type, at);
    expr->is_declared = plan->columns[column].is_declared;
    return expr;
}

Expr *plan_column_expr_in(Arena *arena, const Plan *plan, int column)
{
    return expr_column(arena, column, plan->columns[column].type, -1);
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

static Node *node_new(Plan *plan, NodeKind kind, Node *left, Node *right)
{
    Node *node = arena_make(plan->arena, Node);
    *node = (Node){ .kind = kind, .at = -1, .inputs = { left, right }, .mark = -1, .copies = -1, .limit = -1 };
    node->n_inputs = (left != NULL) + (right != NULL);
    return node;
}

static void give_columns(Plan *plan, Node *node, const int *columns, int n_columns)
{
    node->n_out = n_columns;
    node->out = arena_array(plan->arena, int, n_columns + 1);
    if (n_columns) memcpy(node->out, columns, (size_t)n_columns * sizeof *columns);
}

static void pass_through(Plan *plan, Node *node)
{
    give_columns(plan, node, node->inputs[0]->out, node->inputs[0]->n_out);
}

Node *plan_scan(Plan *plan, const Table *table, const char *alias, int at)
{
    Node *node = node_new(plan, NODE_SCAN, NULL, NULL);
    node->table = table, node->alias = alias, node->at = at;
    node->n_out = table->n_columns;
    node->out = arena_array(plan->arena, int, table->n_columns + 1);
    node->table_columns = arena_array(plan->arena, int, table->n_columns + 1);
    // The names of the table's columns live as long as the table, which the plan holds on to.
    const char *qualifier = own_name(plan, alias);
    PlanColumn *columns = LIST_PUSH_SOME(plan->arena, plan->columns, plan->n_columns, table->n_columns);
    for (int c = 0; c < table->n_columns; c++) {
        PlanColumn   *column = &columns[c];                // zeroed
        const Column *of = &table->columns[c];
        column->type = of->type, column->range = range_of_type(of->type), column->n_distinct = 1;
        column->table = table, column->place = c, column->is_declared = !of->is_free;
        column->name = of->name, column->qualifier = qualifier;
        node->table_columns[c] = c;
        node->out[c] = (int)(column - plan->columns);
    }
    plan->n_scans++;
    return node;
}

Node *plan_values(Plan *plan, u64 n_rows, int n_columns, const int *columns, Value *values)
{
    Node *node = node_new(plan, NODE_VALUES, NULL, NULL);
    node->n_rows = n_rows, node->values = values;
    give_columns(plan, node, columns, n_columns);
    return node;
}

Node *plan_filter(Plan *plan, Node *input, Expr **conditions, int n_conditions)
{
    if (!n_conditions) return input;
    Node *node = node_new(plan, NODE_FILTER, input, NULL);
    node->conditions = conditions, node->n_conditions = n_conditions;
    pass_through(plan, node);
    return node;
}

Node *plan_project(Plan *plan, Node *input, Expr **exprs, const int *columns, int n_columns)
{
    Node *node = node_new(plan, NODE_PROJECT, input, NULL);
    node->exprs = exprs;
    give_columns(plan, node, columns, n_columns);
    return node;
}

static bool gives_right(JoinKind kind) { return kind != JOIN_SEMI && kind != JOIN_ANTI && kind != JOIN_MARK; }

Node *plan_join(Plan *plan, JoinKind kind, Node *left, Node *right, Expr **conditions, int n_conditions)
{
    Node *node = node_new(plan, NODE_JOIN, left, right);
    node->join = kind, node->conditions = conditions, node->n_conditions = n_conditions;
    node->n_out = left->n_out + (gives_right(kind) ? right->n_out : kind == JOIN_MARK);
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    if (left->n_out) memcpy(node->out, left->out, (size_t)left->n_out * sizeof *left->out);
    if (gives_right(kind) && right->n_out)
        memcpy(node->out + left->n_out, right->out, (size_t)right->n_out * sizeof *right->out);
    if (kind == JOIN_MARK) node->mark = node->out[left->n_out] = plan_add_column(plan, TYPE(BOOLEAN), "mark", NULL);
    return node;
}

Node *plan_aggregate(Plan *plan, Node *input, Expr **keys, const int *key_columns, int n_keys, Agg *aggs,
                     const int *agg_columns, int n_aggs)
{
    Node *node = node_new(plan, NODE_AGGREGATE, input, NULL);
    node->keys = keys, node->n_keys = n_keys, node->aggs = aggs, node->n_aggs = n_aggs;
    node->n_out = n_keys + n_aggs;
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    for (int k = 0; k < n_keys; k++) {
        node->out[k] = key_columns[k];
        plan->columns[key_columns[k]].value = keys[k];
    }
    for (int a = 0; a < n_aggs; a++) {
        node->out[n_keys + a] = agg_columns[a];
        plan->columns[agg_columns[a]].agg = &aggs[a];
    }
    return node;
}

Node *plan_sort(Plan *plan, Node *input, SortKey *keys, int n_keys)
{
    Node *node = node_new(plan, NODE_SORT, input, NULL);
    node->sort = keys, node->n_sort = n_keys;
    pass_through(plan, node);
    return node;
}

Node *plan_limit(Plan *plan, Node *input, i64 limit, i64 offset)
{
    Node *node = node_new(plan, NODE_LIMIT, input, NULL);
    node->limit = limit, node->offset = offset;
    pass_through(plan, node);
    return node;
}

Node *plan_set(Plan *plan, SetKind kind, bool is_all, Node *left, Node *right, const int *columns)
{
    Node *node = node_new(plan, NODE_SET, left, right);
    node->set = kind, node->is_all = is_all;
    give_columns(plan, node, columns, left->n_out);
    return node;
}

Shared *plan_share(Plan *plan, Node *root, const char *name)
{
    Shared *shared = arena_make(plan->arena, Shared);
    *shared = (Shared){ .root = root, .number = plan->n_shared, .name = name };
    *LIST_PUSH(plan->arena, plan->shared, plan->n_shared) = shared;
    return shared;
}

Node *plan_reference(Plan *plan, Shared *shared, const char *alias, int at)
{
    Node *node = node_new(plan, NODE_SHARED, NULL, NULL);
    node->shared = shared, node->alias = alias, node->at = at;
    node->n_out = shared->root->n_out;
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    for (int c = 0; c < node->n_out; c++) {
        const PlanColumn column = plan->columns[shared->root->out[c]];     // a copy: the list may move
        node->out[c] = plan_add_column(plan, column.type, column.name, alias);
        plan->columns[node->out[c]].is_declared = column.is_declared;
    }
    shared->n_uses++;
    return node;
}

Node *plan_repeat(Plan *plan, bool is_all, const int *columns, int n_columns)
{
    Node *node = node_new(plan, NODE_REPEAT, NULL, NULL);
    node->is_all = is_all;
    give_columns(plan, node, columns, n_columns);
    plan->is_recursive = true;
    return node;
}

Node *plan_last_round(Plan *plan, const Node *repeat, const char *alias, int at)
{
    Node *node = node_new(plan, NODE_REPEAT, NULL, NULL);
    node->repeat = repeat, node->alias = alias, node->at = at;
    node->n_out = repeat->n_out;
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    for (int c = 0; c < node->n_out; c++) {
        const PlanColumn column = plan->columns[repeat->out[c]];           // a copy: the list may move
        node->out[c] = plan_add_column(plan, column.type, column.name, alias);
        plan->columns[node->out[c]].is_declared = column.is_declared;
    }
    return node;
}

// ---- questions ------------------------------------------------------------------------------------------------------

bool node_gives(const Node *node, int column)
{
    for (int c = 0; c < node->n_out; c++)
        if (node->out[c] == column) return true;
    return false;
}

void node_columns(Arena *arena, const Node *node, ColumnSet *set)
{
    for (int c = 0; c < node->n_out; c++) columns_add(arena, set, node->out[c]);
}

void plan_split_condition(Arena *arena, Expr *condition, Expr ***list, int *n_list)
{
    if (condition->kind == EXPR_CALL && condition->op == OP_AND) {
        plan_split_condition(arena, condition->args[0], list, n_list);
        plan_split_condition(arena, condition->args[1], list, n_list);
        return;
    }
    if (expr_is_const(condition) && !expr_is_never(condition)) return;
    *LIST_PUSH(arena, *list, *n_list) = condition;
}
