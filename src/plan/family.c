// family.c - continuous views of one shape: queries that differ only in constants that columns are compared with.
//
//     where x > 5  and y = 1  group by k          group by k, class of x, class of y
//     where x > 9  and y <> 3 group by k    ->
//                                                 class of x: 0 below 6, 1 from 6 to 9, 2 above; of y: 0, 1, 2, 3, 4
//
// Values of a column that no view tells from each other are a class.  One query groups the rows by the views' keys and
// by the classes of the columns that they test, so its work does not grow with the number of views; each view's groups
// are those of the classes it wants.  A class is a number: how many of the column's breaks are not above the value.
// So a view's test of the column becomes a test of the class.
//
// Every view of a family tests the same columns, in any way.  NULL passes no test: such rows are left out, and so are
// those outside of what the views' tests leave of a column.
// Not done: tests of text, IN and OR.  Queries that differ in these are of different families.

#include "plan/rewrite.h"

#include <stdlib.h>

enum { TIME_MOST_BITS = 61 };          // values of a tested column are below 2^61, so that a value has a next one
#define CLASSES_MOST ((i64)1 << 31)    // more are as many

// ---- the form of a query --------------------------------------------------------------------------------------------

static void form_type(Text *form, Type type) { text_add(form, ":%d.%d.%d", type.kind, type.precision, type.scale); }

static void form_value(Text *form, const Value *value)
{
    form_type(form, value->type);
    if (value->is_null) {
        text_add(form, "null");
        return;
    }
    if (value->type.kind != TYPE_TEXT && value->type.kind != TYPE_NULL) {
        u64 words[2] = { 0 };
        memcpy(words, &value->i, type_is_float(value->type) ? sizeof value->f : sizeof value->i);
        text_add(form, "%llx.%llx", (unsigned long long)words[0], (unsigned long long)words[1]);
        return;
    }
    text_add(form, "%u'", value->text.length);
    for (u32 i = 0; i < value->text.length; i++) text_add(form, "%02x", (u8)value->text.bytes[i]);
}

// Exact: expressions of one form are equal.  A text that is bound again has the same column ids.
static void form_expr(Text *form, const Expr *expr)
{
    text_add(form, "(%d", expr->kind);
    form_type(form, expr->type);
    switch (expr->kind) {
        case EXPR_CONST:  form_value(form, &expr->value); break;
        case EXPR_COLUMN: text_add(form, "c%d", expr->column); break;
        case EXPR_PARAM:  text_add(form, "p%d", expr->param); break;
        case EXPR_CALL:   text_add(form, "o%d", expr->op); break;
        case EXPR_CASE:   break;
    }
    for (int i = 0; i < expr->n_args; i++) form_expr(form, expr->args[i]);
    text_add(form, ")");
}

static void form_exprs(Text *form, const char *what, Expr *const *exprs, int n)
{
    text_add(form, "%s%d", what, n);
    for (int i = 0; i < n; i++) form_expr(form, exprs[i]);
}

static void form_names(Text *form, const char *name) { text_add(form, "%zu'%s", strlen(name), name); }

static void form_ids(Text *form, const int *ids, int n)
{
    for (int i = 0; i < n; i++) text_add(form, ",%d", ids[i]);
}

// False: a node that families do not know.
static bool form_tree(Text *form, const Node *node)
{
    text_add(form, "[%d", node->kind);
    form_ids(form, node->out, node->n_out);
    switch (node->kind) {
        case NODE_SCAN:
            form_names(form, node->table->name);
            form_ids(form, node->table_columns, node->n_out);
            break;
        case NODE_FILTER: form_exprs(form, "f", node->conditions, node->n_conditions); break;
        case NODE_PROJECT:
            text_add(form, "x%d", node->copies);
            form_exprs(form, "e", node->exprs, node->n_out);
            break;
        case NODE_JOIN:
            text_add(form, "j%d.%d", node->join, node->mark);
            form_exprs(form, "c", node->conditions, node->n_conditions);
            form_exprs(form, "l", node->keys, node->n_keys);
            form_exprs(form, "r", node->right_keys, node->n_keys);
            break;
        default: return false;
    }
    for (int i = 0; i < node->n_inputs; i++)
        if (!form_tree(form, node->inputs[i])) return false;
    text_add(form, "]");
    return true;
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static bool has_classes(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: case TYPE_INTEGER: case TYPE_BIGINT: case TYPE_DATE: case TYPE_TIMESTAMP:
        case TYPE_TIMESTAMPTZ: case TYPE_DECIMAL: return true;
        default: return false;
    }
}

static bool is_integer(Type type)
{
    return type.kind == TYPE_SMALLINT || type.kind == TYPE_INTEGER || type.kind == TYPE_BIGINT;
}

// Whether CONDITION compares a column with a constant.
static bool is_test(const Expr *condition, FamilyTest *test)
{
    const Expr *column, *constant = expr_constant_side(condition, &test->op, &column);
    if (!constant || column->kind != EXPR_COLUMN || constant->value.is_null || !has_classes(column->type)) return false;
    const bool is_same = is_integer(column->type) ? is_integer(constant->type)
                                                  : column->type.kind == constant->type.kind &&
                                                        (column->type.kind != TYPE_DECIMAL ||
                                                         column->type.scale == constant->type.scale);
    const i128 most = (i128)1 << TIME_MOST_BITS;
    if (!is_same || constant->value.i > most || constant->value.i < -most) return false;
    if (column->type.kind == TYPE_DATE && constant->value.i > ((i128)1 << 30)) return false;     // infinity
    test->column = column->column, test->type = column->type, test->value = (i64)constant->value.i;
    return true;
}

// The conditions of the filters right below the groups: tests, and the others.  Gives what is below the filters.
static Node *split_filters(Arena *arena, const Node *groups, FamilyForm *form, Expr ***others, int *n_others)
{
    Node *node = groups->inputs[0];
    for (; node->kind == NODE_FILTER; node = node->inputs[0])
        for (int i = 0; i < node->n_conditions; i++) {
            Expr **list = NULL;
            int    n_list = 0;
            plan_split_condition(arena, node->conditions[i], &list, &n_list);
            for (int k = 0; k < n_list; k++) {
                FamilyTest test;
                if (is_test(list[k], &test)) *LIST_PUSH(arena, form->tests, form->n_tests) = test;
                else *LIST_PUSH(arena, *others, *n_others) = list[k];
            }
        }
    return node;
}

static void form_aggs(Text *form, const Node *groups)
{
    form_exprs(form, "k", groups->keys, groups->n_keys);
    for (int a = 0; a < groups->n_aggs; a++) {
        text_add(form, "a%d.%d", groups->aggs[a].kind, groups->aggs[a].is_distinct);
        form_type(form, groups->aggs[a].type);
        if (groups->aggs[a].arg) form_expr(form, groups->aggs[a].arg);
    }
}

bool plan_family_form(const Plan *plan, Arena *arena, FamilyForm *form)
{
    Text       text = { 0 };
    Expr     **others = NULL;
    int        n_others = 0;
    ColumnSet  tested = { 0 };
    *form = (FamilyForm){ 0 };
    if (plan->root->kind != NODE_AGGREGATE) return false;
    const Node *below = split_filters(arena, plan->root, form, &others, &n_others);
    for (int t = 0; t < form->n_tests; t++) columns_add(arena, &tested, form->tests[t].column);
    form_aggs(&text, plan->root);
    form_exprs(&text, "f", others, n_others);
    for (int c = columns_next(&tested, -1); c >= 0; c = columns_next(&tested, c)) {
        text_add(&text, "t%d", c);
        form_type(&text, plan->columns[c].type);
    }
    const bool is_known = form->n_tests && form_tree(&text, below);
    form->text = text_keep(arena, &text);
    return is_known;
}

// ---- classes --------------------------------------------------------------------------------------------------------

// x < BREAK is what tells values apart: x <= 5 is x < 6.  Gives how many breaks a test has.
static int breaks_of(const FamilyTest *test, i64 breaks[2])
{
    const bool is_exact = test->op == OP_EQ || test->op == OP_NE;
    breaks[0] = test->op == OP_LE || test->op == OP_GT ? test->value + 1 : test->value;
    breaks[1] = test->value + 1;
    return is_exact ? 2 : 1;
}

static int compare_breaks(const void *a, const void *b)
{
    const i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

static FamilyColumn *column_of(FamilyClasses *classes, int column)
{
    for (int c = 0; c < classes->n_columns; c++)
        if (classes->columns[c].column == column) return &classes->columns[c];
    return NULL;
}

static void sort_breaks(FamilyColumn *column)
{
    int n = 0;
    qsort(column->breaks, (size_t)column->n_breaks, sizeof *column->breaks, compare_breaks);
    for (int i = 0; i < column->n_breaks; i++)
        if (!n || column->breaks[i] != column->breaks[n - 1]) column->breaks[n++] = column->breaks[i];
    column->n_breaks = n;
}

// What FORM's tests of the column leave of it: LOW .. HIGH, of which parts may be missing.
static void hull_of(const FamilyForm *form, int column, i64 *low, i64 *high)
{
    *low = INT64_MIN, *high = INT64_MAX;
    for (int t = 0; t < form->n_tests; t++) {
        const FamilyTest *test = &form->tests[t];
        if (test->column != column || test->op == OP_NE) continue;
        if (test->op == OP_EQ || test->op == OP_GE) *low = MAX_OF(*low, test->value);
        if (test->op == OP_EQ || test->op == OP_LE) *high = MIN_OF(*high, test->value);
        if (test->op == OP_GT) *low = MAX_OF(*low, test->value + 1);
        if (test->op == OP_LT) *high = MIN_OF(*high, test->value - 1);
    }
}

void plan_family_classes(Arena *arena, const FamilyForm *const *forms, int n_forms, FamilyClasses *classes)
{
    *classes = (FamilyClasses){ .n_classes = 1 };
    for (int f = 0; f < n_forms; f++)
        for (int t = 0; t < forms[f]->n_tests; t++) {
            const FamilyTest *test = &forms[f]->tests[t];
            FamilyColumn     *column = column_of(classes, test->column);
            i64               breaks[2];
            if (!column) {
                column = LIST_PUSH(arena, classes->columns, classes->n_columns);
                *column = (FamilyColumn){ .column = test->column, .type = test->type, .low = INT64_MAX,
                                          .high = INT64_MIN };
            }
            const int n = breaks_of(test, breaks);
            for (int b = 0; b < n; b++) *LIST_PUSH(arena, column->breaks, column->n_breaks) = breaks[b];
        }
    for (int c = 0; c < classes->n_columns; c++) {
        FamilyColumn *column = &classes->columns[c];
        sort_breaks(column);
        classes->n_classes = MIN_OF(classes->n_classes, CLASSES_MOST) * (column->n_breaks + 1);
        for (int f = 0; f < n_forms; f++) {
            i64 low, high;
            hull_of(forms[f], column->column, &low, &high);
            if (low > high) continue;
            column->low = MIN_OF(column->low, low), column->high = MAX_OF(column->high, high);
        }
    }
}

// ---- the groups of all views ----------------------------------------------------------------------------------------

static Expr *break_const(Plan *plan, Type type, i64 value)
{
    return expr_const(plan->arena, (Value){ .type = is_integer(type) ? TYPE(BIGINT) : type, .i = value }, -1);
}

static weft_status compare(Plan *plan, Op op, Expr *column, i64 value, Expr **out, Error *err)
{
    return expr_call(plan->arena, op, (Expr *[]){ column, break_const(plan, column->type, value) }, 2, -1, out, err);
}

// The number of breaks FROM .. END - 1 that are not above the column: as a balanced tree of additions.
static weft_status count_reached(Plan *plan, const FamilyColumn *column, int from, int end, Expr **out, Error *err)
{
    if (end - from > 1) {
        const int middle = from + (end - from) / 2;
        Expr     *halves[2];
        TRY(count_reached(plan, column, from, middle, &halves[0], err));
        TRY(count_reached(plan, column, middle, end, &halves[1], err));
        return expr_call(plan->arena, OP_ADD, halves, 2, -1, out, err);
    }
    Expr *is_reached;
    TRY(compare(plan, OP_GE, plan_column_expr(plan, column->column, -1), column->breaks[from], &is_reached, err));
    return expr_cast(plan->arena, is_reached, TYPE(INTEGER), -1, out, err);
}

static int next_power(int n)
{
    int power = 1;
    while (power < n) power *= 2;
    return power;
}

// The breaks that can tell rows of this plan apart: those within what the statistics of a stored column prove.  Their
// number is rounded up, so that rounds with other ranges have the same kernel.
static void breaks_in_range(const Plan *plan, const FamilyColumn *column, int *from, int *end)
{
    const PlanColumn *planned = &plan->columns[column->column];
    *from = 0, *end = column->n_breaks;
    const Range range = planned->table ? plan_range_of_stored(planned->table, planned->place) : (Range){ 0 };
    if (!range.known) return;
    while (*from < *end && column->breaks[*from] <= range.low) ++*from;
    while (*end > *from && column->breaks[*end - 1] > range.high) --*end;
    if (*from == *end) return;
    *from = MAX_OF(0, *end - next_power(*end - *from));
    *end = MIN_OF(column->n_breaks, *from + next_power(*end - *from));
}

static weft_status class_expr(Plan *plan, const FamilyColumn *column, Expr **out, Error *err)
{
    int from, end;
    breaks_in_range(plan, column, &from, &end);
    Expr *reached = expr_const(plan->arena, (Value){ .type = TYPE(INTEGER), .i = from }, -1), *more;
    *out = reached;
    if (from == end) return WEFT_OK;
    TRY(count_reached(plan, column, from, end, &more, err));
    return expr_call(plan->arena, OP_ADD, (Expr *[]){ more, reached }, 2, -1, out, err);
}

// Rows that some view may want.
static weft_status wanted_rows(Plan *plan, const FamilyColumn *column, Expr ***conditions, int *n, Error *err)
{
    Expr *value = plan_column_expr(plan, column->column, -1), *condition;
    TRY(expr_call(plan->arena, OP_IS_NOT_NULL, &value, 1, -1, &condition, err));
    *LIST_PUSH(plan->arena, *conditions, *n) = condition;
    if (column->low > INT64_MIN) {
        TRY(compare(plan, OP_GE, value, column->low, &condition, err));
        *LIST_PUSH(plan->arena, *conditions, *n) = condition;
    }
    if (column->high < INT64_MAX) {
        TRY(compare(plan, OP_LE, value, column->high, &condition, err));
        *LIST_PUSH(plan->arena, *conditions, *n) = condition;
    }
    return WEFT_OK;
}

static void name_columns(Plan *plan)
{
    plan->n_visible = plan->root->n_out;
    plan->names = arena_array(plan->arena, const char *, plan->n_visible + 1);
    for (int i = 0; i < plan->n_visible; i++)
        plan->names[i] = plan->columns[plan->root->out[i]].name = arena_printf(plan->arena, "c%d", i);
}

weft_status plan_family_groups(Plan *plan, const FamilyClasses *classes, Error *err)
{
    const Node *groups = plan->root;
    FamilyForm  form = { 0 };
    const int   n_keys = groups->n_keys + classes->n_columns;
    Expr      **conditions = NULL, **keys = arena_array(plan->arena, Expr *, n_keys + 1);
    int         n_conditions = 0, *columns = arena_array(plan->arena, int, n_keys + groups->n_aggs + 1);
    Node       *below = split_filters(plan->arena, groups, &form, &conditions, &n_conditions);
    for (int k = 0; k < groups->n_keys; k++) keys[k] = groups->keys[k], columns[k] = groups->out[k];
    for (int c = 0; c < classes->n_columns; c++) {
        const FamilyColumn *column = &classes->columns[c];
        TRY(wanted_rows(plan, column, &conditions, &n_conditions, err));
        TRY(class_expr(plan, column, &keys[groups->n_keys + c], err));
        columns[groups->n_keys + c] = plan_add_column(plan, TYPE(INTEGER), "class", NULL);
    }
    for (int a = 0; a < groups->n_aggs; a++) columns[n_keys + a] = groups->out[groups->n_keys + a];
    plan->root = plan_aggregate(plan, plan_filter(plan, below, conditions, n_conditions), keys, columns, n_keys,
                                groups->aggs, columns + n_keys, groups->n_aggs);
    name_columns(plan);
    return WEFT_OK;
}

void plan_family_kept(Arena *arena, const KeptGroups *view, const FamilyClasses *classes, KeptGroups *kept)
{
    *kept = (KeptGroups){ .n_keys = view->n_keys + classes->n_columns,
                          .n_columns = view->n_columns + classes->n_columns };
    kept->columns = arena_array(arena, KeptColumn, kept->n_columns);
    for (int c = 0; c < kept->n_columns; c++) {
        if (c < view->n_keys) kept->columns[c] = view->columns[c];
        else if (c < kept->n_keys) kept->columns[c] = (KeptColumn){ TYPE(INTEGER), AGG_ANY };
        else kept->columns[c] = view->columns[c - classes->n_columns];
    }
}

// ---- one view's part of them ----------------------------------------------------------------------------------------

// Number of the class that begins at the break.
static int class_from(const FamilyColumn *column, i64 at)
{
    int n = 0;
    while (n < column->n_breaks && column->breaks[n] <= at) n++;
    return n;
}

void plan_family_wants(Arena *arena, const FamilyClasses *classes, const FamilyForm *form, WantedClasses *wants)
{
    *wants = (WantedClasses){ .n_columns = classes->n_columns, .n_tests = form->n_tests };
    wants->tests = arena_array(arena, FamilyTest, form->n_tests + 1);
    for (int t = 0; t < form->n_tests; t++) {
        const FamilyTest *test = &form->tests[t];
        i64               breaks[2];
        int               c = 0;
        while (classes->columns[c].column != test->column) c++;
        (void)breaks_of(test, breaks);
        const Op op = test->op == OP_LE ? OP_LT : test->op == OP_GT ? OP_GE : test->op;
        wants->tests[t] = (FamilyTest){ .column = c, .type = TYPE(INTEGER), .op = op,
                                        .value = class_from(&classes->columns[c], breaks[0]) };
    }
}

weft_status plan_family_rows(Plan *plan, const Table *cells, int n_keys, const WantedClasses *wants, Node **out,
                             Error *err)
{
    Node     *scan = plan_scan(plan, cells, "cells", -1);
    Expr    **conditions = NULL;
    const int n = scan->n_out - wants->n_columns;
    Expr    **exprs = arena_array(plan->arena, Expr *, n + 1);
    int       n_conditions = 0, *columns = arena_array(plan->arena, int, n + 1);
    for (int t = 0; t < wants->n_tests; t++) {
        const FamilyTest *test = &wants->tests[t];
        Expr             *class = plan_column_expr(plan, scan->out[n_keys + test->column], -1), *condition;
        TRY(compare(plan, test->op, class, test->value, &condition, err));
        *LIST_PUSH(plan->arena, conditions, n_conditions) = condition;
    }
    for (int c = 0; c < n; c++) {
        columns[c] = scan->out[c < n_keys ? c : c + wants->n_columns];
        exprs[c] = plan_column_expr(plan, columns[c], -1);
    }
    *out = plan_project(plan, plan_filter(plan, scan, conditions, n_conditions), exprs, columns, n);
    return WEFT_OK;
}
