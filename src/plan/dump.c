// dump.c - all that a run looks at in a plan, as text, to compare two plans byte by byte.

#include "plan/rewrite.h"

// Estimates that are made in another order may differ in their last bits.
static void dump_estimate(double estimate, Text *text)
{
    const float rounded = (float)estimate;
    u32         bits;
    memcpy(&bits, &rounded, sizeof bits);
    text_add(text, " %x", bits);
}

static void dump_value(const Value *value, Text *text)
{
    text_add(text, "%d.%d.%d", value->type.kind, value->type.precision, value->type.scale);
    if (value->is_null) text_add(text, " null");
    else if (value->type.kind == TYPE_TEXT || value->type.kind == TYPE_NULL)
        text_add(text, " '%.*s'", (int)value->text.length, value->text.bytes);
    else if (type_is_float(value->type)) text_add(text, " %a", value->f);
    else if (value->type.kind == TYPE_INTERVAL)
        text_add(text, " %d %d %lld", (int)value->interval.months, (int)value->interval.days,
                 (long long)value->interval.micros);
    else text_add(text, " %llx.%llx", (unsigned long long)(value->i >> 64), (unsigned long long)value->i);
}

static void dump_expr(const Expr *expr, Text *text)
{
    text_add(text, "(%d@%d %d.%d.%d %d %d", expr->kind, expr->at, expr->type.kind, expr->type.precision,
             expr->type.scale, expr->depth, expr->size);
    if (expr->kind == EXPR_CONST) dump_value(&expr->value, text);
    if (expr->kind == EXPR_COLUMN) text_add(text, " c%d", expr->column);
    if (expr->kind == EXPR_PARAM) text_add(text, " p%d", expr->param);
    if (expr->kind == EXPR_CALL) text_add(text, " op%d", expr->op);
    for (int i = 0; i < expr->n_args; i++) dump_expr(expr->args[i], text);
    text_add(text, ")");
}

static void dump_exprs(const char *what, Expr *const *exprs, int n_exprs, Text *text)
{
    if (n_exprs) text_add(text, " %s", what);
    for (int i = 0; i < n_exprs; i++) dump_expr(exprs[i], text);
}

static void dump_details(const Node *node, Text *text)
{
    if (node->kind == NODE_SCAN)
        for (int c = 0; c < node->n_out; c++) text_add(text, " t%d", node->table_columns[c]);
    if (node->kind == NODE_VALUES)
        for (u64 v = 0; v < node->n_rows * (u64)node->n_out; v++) dump_value(&node->values[v], text);
    for (int a = 0; a < node->n_aggs; a++) {
        text_add(text, " agg%d.%d@%d", node->aggs[a].kind, node->aggs[a].is_distinct, node->aggs[a].at);
        if (node->aggs[a].arg) dump_expr(node->aggs[a].arg, text);
    }
    for (int s = 0; s < node->n_sort; s++)
        text_add(text, " sort%d.%d.%d", node->sort[s].column, node->sort[s].descending, node->sort[s].nulls_first);
    if (node->kind == NODE_JOIN) text_add(text, " join%d mark%d", node->join, node->mark);
    if (node->kind == NODE_SET) text_add(text, " set%d.%d.%d", node->set, node->is_all, node->n_by_length);
    for (int b = 0; b < node->n_by_length; b++) text_add(text, ".%d", node->by_length[b]);
}

static void dump_node(const Node *node, int depth, Text *text)
{
    text_add(text, "%*s%d@%d table %p rows", 2 * depth, "", node->kind, node->at, (const void *)node->table);
    dump_estimate(node->rows, text);
    for (int c = 0; c < node->n_out; c++) text_add(text, " c%d", node->out[c]);
    dump_exprs("if", node->conditions, node->n_conditions, text);
    if (node->kind == NODE_PROJECT) dump_exprs("give", node->exprs, node->n_out, text);
    dump_exprs("keys", node->keys, node->n_keys, text);
    if (node->kind == NODE_JOIN) dump_exprs("and", node->right_keys, node->n_keys, text);
    dump_details(node, text);
    text_add(text, " %llu %d %d %lld %lld %lld %lld\n", (unsigned long long)node->n_rows, node->copies,
             node->n_distinct_on, (long long)node->run_skipped, (long long)node->run_more, (long long)node->limit,
             (long long)node->offset);
    for (int i = 0; i < node->n_inputs; i++) dump_node(node->inputs[i], depth + 1, text);
}

static void dump_range(const Range *range, Text *text)
{
    text_add(text, " %d%d %llx.%llx %llx.%llx", range->known, range->nullable, (unsigned long long)(range->low >> 64),
             (unsigned long long)range->low, (unsigned long long)(range->high >> 64), (unsigned long long)range->high);
    if (range->f.known)
        text_add(text, " f%d %a %a %d %d", range->f.has_special, range->f.low, range->f.high, range->f.unit,
                 range->f.least);
}

static void dump_column(const Plan *plan, int number, Text *text)
{
    const PlanColumn *column = &plan->columns[number];
    const Expr        expr = { .kind = EXPR_COLUMN, .type = column->type, .column = number };
    text_add(text, "c%d %d.%d.%d %s.%s", number, column->type.kind, column->type.precision, column->type.scale,
             column->qualifier ? column->qualifier : "", column->name ? column->name : "");
    dump_estimate(column->n_distinct, text);
    dump_estimate(column->typical, text);
    dump_range(&column->range, text);
    expr_print(&expr, plan, text);                          // what stands behind it, for names in kernels
    text_add(text, "\n");
}

static void dump_columns(const Plan *plan, const Node *node, bool *is_done, Text *text)
{
    for (int i = 0; i < node->n_inputs; i++) dump_columns(plan, node->inputs[i], is_done, text);
    for (int c = 0; c < node->n_out; c++) {
        if (!is_done[node->out[c]]) dump_column(plan, node->out[c], text);
        is_done[node->out[c]] = true;
    }
}

void plan_dump(const Plan *plan, Text *text)
{
    Arena *scratch = arena_new(NULL, "dump");
    dump_node(plan->root, 0, text);
    dump_columns(plan, plan->root, arena_array(scratch, bool, plan->n_columns + 1), text);
    arena_free(scratch);
    text_add(text, "%d of %d, %d parameters, %d shared, %d scans\n", plan->n_visible, plan->root->n_out, plan->n_params,
             plan->n_shared, plan->n_scans);
    for (int c = 0; c < plan->n_visible; c++) text_add(text, "%s\n", plan->names[c]);
}
