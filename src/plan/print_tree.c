// print_tree.c - a plan as text, for EXPLAIN (TREE): a line per node, its inputs below it, further in.
//
//     sort revenue desc
//       aggregate sum(l_extendedprice * (1 - l_discount)) as revenue by l_orderkey    (rows 11,234)
//         join inner on l_orderkey = o_orderkey    (rows 30,120)
//           scan lineitem    (rows 3,241,776): l_orderkey, l_extendedprice, l_discount
//           ...
//
// Shared subplans and the subplans of parameters come below, each once, under its name.

#include "plan/aggregates.h"
#include "plan/rewrite.h"
#include "plan/window.h"

#include <stdio.h>

typedef struct TreePrinter { const Plan *plan; Text *text; } TreePrinter;

static const char *const join_names[] = {
    [JOIN_INNER] = "inner", [JOIN_LEFT] = "left", [JOIN_RIGHT] = "right", [JOIN_FULL] = "full",
    [JOIN_SEMI] = "semi", [JOIN_ANTI] = "anti", [JOIN_SINGLE] = "single", [JOIN_MARK] = "mark",
};
static const char *const set_names[] = {
    [SET_UNION] = "union", [SET_INTERSECT] = "intersect", [SET_EXCEPT] = "except"
};

static void print_column(const TreePrinter *printer, int column)
{
    expr_print(plan_column_expr(printer->plan, column, -1), printer->plan, printer->text);
}

static void print_separator(const TreePrinter *printer, int i, const char *separator)
{
    if (i > 0) text_add(printer->text, "%s", separator);
}


// " as name", where the column is called by another name than it reads.
static void print_name(const TreePrinter *printer, int column, size_t from)
{
    const char  *name = printer->plan->columns[column].name;
    const char  *read = printer->text->bytes ? printer->text->bytes + from : "";
    const size_t n_read = strlen(read), n_name = name ? strlen(name) : 0;
    if (!n_name || (n_read >= n_name && strcmp(read + n_read - n_name, name) == 0)) return;
    text_add(printer->text, " as %s", name);
}

static void print_named_expr(const TreePrinter *printer, const Expr *expr, int column)
{
    const size_t from = printer->text->length;
    expr_print(expr, printer->plan, printer->text);
    print_name(printer, column, from);
}

static void print_conditions(const TreePrinter *printer, Expr *const *conditions, int n_conditions)
{
    for (int c = 0; c < n_conditions; c++) {
        const bool is_or = n_conditions > 1 && conditions[c]->kind == EXPR_CALL && conditions[c]->op == OP_OR;
        print_separator(printer, c, " and ");
        if (is_or) text_add(printer->text, "(");
        expr_print(conditions[c], printer->plan, printer->text);
        if (is_or) text_add(printer->text, ")");
    }
}

// 3,241,776
static void print_count(Text *text, double count)
{
    char      digits[64];
    const int n = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < n; i++) text_add(text, "%c%s", digits[i], (n - i) % 3 == 1 && i + 1 < n ? "," : "");
}

static void print_rows(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "    (rows ");
    print_count(printer->text, node->rows);
    text_add(printer->text, ")");
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

static void print_scan(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "scan %s", node->table->name);
    if (node->alias && strcmp(node->alias, node->table->name) != 0) text_add(printer->text, " %s", node->alias);
    print_rows(printer, node);
    if (node->n_out) text_add(printer->text, ": ");
    for (int c = 0; c < node->n_out; c++) {
        print_separator(printer, c, ", ");
        text_add(printer->text, "%s", node->table->columns[node->table_columns[c]].name);
    }
}

static void print_project(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "project%s", node->n_out ? " " : "");
    for (int c = 0; c < node->n_out; c++) {
        print_separator(printer, c, ", ");
        print_named_expr(printer, node->exprs[c], node->out[c]);
    }
    if (node->copies < 0) return;
    text_add(printer->text, ", each row times ");
    print_column(printer, node->copies);
}

static void print_join(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "join %s%s", join_names[node->join], node->n_keys + node->n_conditions ? " on " : "");
    for (int k = 0; k < node->n_keys; k++) {
        print_separator(printer, k, " and ");
        expr_print(node->keys[k], printer->plan, printer->text);
        text_add(printer->text, " = ");
        expr_print(node->right_keys[k], printer->plan, printer->text);
    }
    if (node->n_keys && node->n_conditions) text_add(printer->text, " if ");
    print_conditions(printer, node->conditions, node->n_conditions);
    print_rows(printer, node);
}

static void print_aggregate(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "aggregate%s", node->n_aggs ? " " : "");
    for (int a = 0; a < node->n_aggs; a++) {
        const size_t from = printer->text->length;
        print_separator(printer, a, ", ");
        agg_print(&node->aggs[a], printer->plan, printer->text);
        const char *name = printer->plan->columns[node->out[node->n_keys + a]].name;
        if (name && strcmp(name, agg_name(node->aggs[a].kind)) != 0)
            print_name(printer, node->out[node->n_keys + a], from);
    }
    for (int k = 0; k < node->n_keys; k++) {
        text_add(printer->text, k ? ", " : " by ");
        print_named_expr(printer, node->keys[k], node->out[k]);
    }
    print_rows(printer, node);
}

static void print_sort_keys(const TreePrinter *printer, const Node *node, int first, int end)
{
    for (int k = first; k < end; k++) {
        print_separator(printer, k - first, ", ");
        print_column(printer, node->sort[k].column);
        if (node->sort[k].descending) text_add(printer->text, " desc");
        if (node->sort[k].nulls_first != node->sort[k].descending)
            text_add(printer->text, " nulls %s", node->sort[k].nulls_first ? "first" : "last");
    }
}

static void print_sort(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "sort ");
    print_sort_keys(printer, node, 0, node->n_sort);
    if (!node->n_distinct_on) return;
    text_add(printer->text, ", distinct on ");
    print_sort_keys(printer, node, 0, node->n_distinct_on);
    if (node->run_more >= RUN_ALL) text_add(printer->text, ", all of each");
    else if (node->run_more > 0) text_add(printer->text, ", %lld each", (long long)node->run_more + 1);
    if (node->run_skipped) text_add(printer->text, " but the first %lld", (long long)node->run_skipped);
}

static void print_limit(const TreePrinter *printer, const Node *node)
{
    if (node->limit >= 0) text_add(printer->text, "limit %lld", (long long)node->limit);
    if (node->offset) text_add(printer->text, "%soffset %lld", node->limit >= 0 ? " " : "", (long long)node->offset);
    if (node->limit < 0 && !node->offset) text_add(printer->text, "limit all");
}

static void print_values(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "values    (rows ");
    print_count(printer->text, (double)node->n_rows);
    text_add(printer->text, ")%s", node->n_out ? ": " : "");
    for (int c = 0; c < node->n_out; c++) {
        const char *name = printer->plan->columns[node->out[c]].name;
        print_separator(printer, c, ", ");
        text_add(printer->text, "%s", name ? name : "?");
    }
}

static void print_shared_name(const TreePrinter *printer, const Shared *shared)
{
    if (shared->name) text_add(printer->text, "%s", shared->name);
    else text_add(printer->text, "shared %d", shared->number + 1);
}

static void print_reference(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "rows of ");
    print_shared_name(printer, node->shared);
    if (node->alias && (!node->shared->name || strcmp(node->alias, node->shared->name) != 0))
        text_add(printer->text, " %s", node->alias);
    print_rows(printer, node);
}

static void print_set(const TreePrinter *printer, const Node *node)
{
    text_add(printer->text, "%s%s", set_names[node->set], node->is_all ? " all" : "");
    print_rows(printer, node);
}

static void print_line(const TreePrinter *printer, const Node *node)
{
    switch (node->kind) {
        case NODE_SCAN:      print_scan(printer, node); break;
        case NODE_VALUES:    print_values(printer, node); break;
        case NODE_PROJECT:   print_project(printer, node); break;
        case NODE_JOIN:      print_join(printer, node); break;
        case NODE_AGGREGATE: print_aggregate(printer, node); break;
        case NODE_SORT:      print_sort(printer, node); break;
        case NODE_LIMIT:     print_limit(printer, node); break;
        case NODE_SET:       print_set(printer, node); break;
        case NODE_SHARED:    print_reference(printer, node); break;
        case NODE_WINDOW:
            text_add(printer->text, "window ");
            window_print(printer->plan, node->windows, node->keys, printer->text);
            print_rows(printer, node);
            break;
        case NODE_REPEAT:
            if (node->n_inputs) text_add(printer->text, "repeat, union%s", node->is_all ? " all" : "");
            else text_add(printer->text, "rows of the last round");
            print_rows(printer, node);
            break;
        case NODE_FILTER:
            text_add(printer->text, "filter ");
            print_conditions(printer, node->conditions, node->n_conditions);
            print_rows(printer, node);
            break;
    }
}

static void print_tree(const TreePrinter *printer, const Node *node, int depth)
{
    text_add(printer->text, "%*s", depth * 2, "");
    print_line(printer, node);
    text_add(printer->text, "\n");
    for (int i = 0; i < node->n_inputs; i++) print_tree(printer, node->inputs[i], depth + 1);
}

void plan_print(const Plan *plan, Text *text)
{
    const TreePrinter printer = { plan, text };
    print_tree(&printer, plan->root, 0);
    for (int p = 0; p < plan->n_params; p++) {
        if (!plan->params[p].subplan) continue;
        text_add(text, "$%d =\n", p + 1);
        print_tree(&printer, plan->params[p].subplan, 1);
    }
    for (int s = 0; s < plan->n_shared; s++) {
        print_shared_name(&printer, plan->shared[s]);
        text_add(text, " =\n");
        print_tree(&printer, plan->shared[s]->root, 1);
    }
}
