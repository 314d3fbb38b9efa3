// window.c - window nodes: made, pruned, proved and printed.

#include "plan/window.h"

#include <math.h>

#include "plan/aggregates.h"
#include "plan/rewrite.h"
#include "plan/time.h"

// ---- names ----------------------------------------------------------------------------------------------------------

static const WindowName window_names[] = {
    { "row_number", WINDOW_ROW_NUMBER, 0, 0, "row_number()", "bigint", "the row's number in its partition, from 1" },
    { "rank", WINDOW_RANK, 0, 0, "rank()", "bigint", "the number of the first of its peers" },
    { "dense_rank", WINDOW_DENSE_RANK, 0, 0, "dense_rank()", "bigint", "the number of its group of peers" },
    { "percent_rank", WINDOW_PERCENT_RANK, 0, 0, "percent_rank()", "double precision", "(rank - 1) / (rows - 1)" },
    { "cume_dist", WINDOW_CUME_DIST, 0, 0, "cume_dist()", "double precision",
      "the share of rows that come before it or are its peers" },
    { "ntile", WINDOW_NTILE, 1, 1, "ntile(n)", "integer", "which of n equal parts it is in" },
    { "lag", WINDOW_LAG, 1, 3, "lag(x [, n [, other]])", "the argument's type",
      "x of the row n (1) rows before; other where there is none" },
    { "lead", WINDOW_LEAD, 1, 3, "lead(x [, n [, other]])", "the argument's type", "x of the row n rows after" },
    { "first_value", WINDOW_FIRST_VALUE, 1, 1, "first_value(x)", "the argument's type", "x of the frame's first row" },
    { "last_value", WINDOW_LAST_VALUE, 1, 1, "last_value(x)", "the argument's type", "x of the frame's last row" },
    { "nth_value", WINDOW_NTH_VALUE, 2, 2, "nth_value(x, n)", "the argument's type", "x of the frame's n-th row" },
};

const WindowName *window_name_at(int i)
{
    return i < COUNT_OF(window_names) ? &window_names[i] : NULL;
}

const WindowName *window_find(const char *name)
{
    for (int i = 0; i < COUNT_OF(window_names); i++)
        if (strcmp(window_names[i].name, name) == 0) return &window_names[i];
    return NULL;
}

bool window_uses_frame(WindowKind kind)
{
    return kind == WINDOW_FIRST_VALUE || kind == WINDOW_LAST_VALUE || kind == WINDOW_NTH_VALUE ||
           kind == WINDOW_AGGREGATE || kind == WINDOW_STRING_AGG;
}

// ---- frames ---------------------------------------------------------------------------------------------------------

Frame frame_default(void)
{
    return (Frame){ .unit = FRAME_RANGE, .start.edge = EDGE_FIRST, .end.edge = EDGE_CURRENT };
}

static bool bound_equal(const FrameBound *a, const FrameBound *b)
{
    const Expr x = { .kind = EXPR_CONST, .type = a->offset.type, .value = a->offset };
    const Expr y = { .kind = EXPR_CONST, .type = b->offset.type, .value = b->offset };
    return a->edge == b->edge && ((a->edge != EDGE_PRECEDING && a->edge != EDGE_FOLLOWING) || expr_equal(&x, &y));
}

bool frame_equal(const Frame *a, const Frame *b)
{
    return a->unit == b->unit && a->exclude == b->exclude && bound_equal(&a->start, &b->start) &&
           bound_equal(&a->end, &b->end);
}

bool frame_shift_time(Type type, i64 number, const Value *interval, int sign, i64 *out)
{
    if (type.kind == TYPE_TIMESTAMPTZ) return timestamptz_shift(type.scale, number, interval, sign, out);
    return timestamp_shift(frame_micros(type, number), interval, sign, out);
}

i64 frame_micros(Type type, i64 number) { return type.kind == TYPE_DATE ? number * DAY_MICROS : number; }

// ---- nodes ----------------------------------------------------------------------------------------------------------

void window_settle_out(Plan *plan, Node *node)
{
    const Node *input = node->inputs[0];
    node->n_out = input->n_out + node->windows->n_funcs;
    node->out = arena_array(plan->arena, int, node->n_out + 1);
    if (input->n_out) memcpy(node->out, input->out, (size_t)input->n_out * sizeof *node->out);
    for (int f = 0; f < node->windows->n_funcs; f++) node->out[input->n_out + f] = node->windows->funcs[f].column;
}

Node *plan_window(Plan *plan, Node *input, Expr **keys, int n_keys, Windows *windows)
{
    Node *node = arena_make(plan->arena, Node);
    *node = (Node){ .kind = NODE_WINDOW, .at = -1, .n_inputs = 1, .inputs = { input }, .mark = -1, .copies = -1,
                    .limit = -1, .keys = keys, .n_keys = n_keys, .windows = windows };
    window_settle_out(plan, node);
    return node;
}

Node *plan_number_rows(Plan *plan, Node *input)
{
    Windows *windows = arena_make(plan->arena, Windows);
    windows->n_orders = windows->n_funcs = 1;
    windows->orders = arena_array(plan->arena, WindowOrder, 1);
    windows->funcs = arena_array(plan->arena, WindowFunc, 1);
    windows->funcs[0] = (WindowFunc){ .kind = WINDOW_ROW_NUMBER, .type = TYPE(BIGINT), .arg = -1, .n = -1,
                                      .column = plan_add_column(plan, TYPE(BIGINT), "number", NULL),
                                      .frame = frame_default(), .name = "row_number", .at = -1 };
    return plan_window(plan, input, NULL, 0, windows);
}

Node *plan_numbered_as(Plan *plan, Node *reference, const Node *side)
{
    Expr **exprs = arena_array(plan->arena, Expr *, reference->n_out);
    int   *columns = arena_array(plan->arena, int, reference->n_out);
    for (int c = 0; c < reference->n_out; c++) {
        exprs[c] = plan_column_expr(plan, reference->out[c], -1);
        columns[c] = c < side->n_out ? side->out[c] : reference->out[c];
    }
    return plan_project(plan, reference, exprs, columns, reference->n_out);
}

static bool order_is_same(const WindowOrder *a, const WindowOrder *b)
{
    if (a->n_partition != b->n_partition || a->n_keys != b->n_keys) return false;
    for (int k = 0; k < a->n_keys; k++)
        if (a->keys[k].column != b->keys[k].column || a->keys[k].descending != b->keys[k].descending ||
            a->keys[k].nulls_first != b->keys[k].nulls_first)
            return false;
    return true;
}

// What is built from parts follows from its name and its parts.
bool window_func_is_same(const WindowFunc *a, const WindowFunc *b)
{
    if (a->kind != b->kind || a->order != b->order || a->arg != b->arg || a->n != b->n || a->n_parts != b->n_parts ||
        a->is_distinct != b->is_distinct || a->seed != b->seed)
        return false;
    for (int p = 0; p < a->n_parts; p++)
        if (a->parts[p].kind != b->parts[p].kind || a->parts[p].arg != b->parts[p].arg) return false;
    return strcmp(a->name, b->name) == 0 && frame_equal(&a->frame, &b->frame);
}

bool window_is_same(const Windows *a, const Windows *b)
{
    if (a->n_orders != b->n_orders || a->n_funcs != b->n_funcs) return false;
    for (int o = 0; o < a->n_orders; o++)
        if (!order_is_same(&a->orders[o], &b->orders[o])) return false;
    for (int f = 0; f < a->n_funcs; f++)
        if (!window_func_is_same(&a->funcs[f], &b->funcs[f])) return false;
    return true;
}

static void *copy_list(Arena *arena, const void *from, int n, size_t size)
{
    void *copy = arena_alloc(arena, (size_t)(n + 1) * size);
    if (n) memcpy(copy, from, (size_t)n * size);
    return copy;
}

Windows *window_copy(Arena *arena, const Windows *windows)
{
    Windows *copy = arena_make(arena, Windows);
    *copy = *windows;
    copy->orders = copy_list(arena, copy->orders, copy->n_orders, sizeof *copy->orders);
    copy->funcs = copy_list(arena, copy->funcs, copy->n_funcs, sizeof *copy->funcs);
    for (int o = 0; o < copy->n_orders; o++)
        copy->orders[o].keys = copy_list(arena, copy->orders[o].keys, copy->orders[o].n_keys, sizeof(SortKey));
    for (int f = 0; f < copy->n_funcs; f++)
        copy->funcs[f].parts = copy_list(arena, copy->funcs[f].parts, copy->funcs[f].n_parts, sizeof(WindowPart));
    return copy;
}

// Calls VISIT for the place of every number of a key.
typedef void VisitKey(void *context, int *key);

static void visit_keys(Windows *windows, VisitKey *visit, void *context)
{
    for (int o = 0; o < windows->n_orders; o++)
        for (int k = 0; k < windows->orders[o].n_keys; k++) visit(context, &windows->orders[o].keys[k].column);
    for (int f = 0; f < windows->n_funcs; f++) {
        visit(context, &windows->funcs[f].arg);
        visit(context, &windows->funcs[f].n);
        for (int p = 0; p < windows->funcs[f].n_parts; p++) visit(context, &windows->funcs[f].parts[p].arg);
    }
}

static void note_key(void *context, int *key)
{
    if (*key >= 0) ((int *)context)[*key] = 1;
}

static void renumber_key(void *context, int *key)
{
    if (*key >= 0) *key = ((const int *)context)[*key];
}

static void drop_orders(Plan *plan, Windows *windows)
{
    int *numbers = arena_array(plan->arena, int, windows->n_orders + 1), n_kept = 0;
    for (int f = 0; f < windows->n_funcs; f++) numbers[windows->funcs[f].order] = 1;
    for (int o = 0; o < windows->n_orders; o++) {
        if (!numbers[o]) continue;
        windows->orders[n_kept] = windows->orders[o];
        numbers[o] = n_kept++;
    }
    windows->n_orders = n_kept;
    for (int f = 0; f < windows->n_funcs; f++) windows->funcs[f].order = numbers[windows->funcs[f].order];
}

static void drop_keys(Plan *plan, Node *node)
{
    int *numbers = arena_array(plan->arena, int, node->n_keys + 1), n_kept = 0;
    visit_keys(node->windows, note_key, numbers);
    for (int k = 0; k < node->n_keys; k++) {
        if (!numbers[k]) continue;
        node->keys[n_kept] = node->keys[k];
        numbers[k] = n_kept++;
    }
    node->n_keys = n_kept;
    visit_keys(node->windows, renumber_key, numbers);
}

bool window_prune(Plan *plan, Node *node, const ColumnSet *needed)
{
    Windows *windows = node->windows;
    int      n_kept = 0;
    for (int f = 0; f < windows->n_funcs; f++)
        if (columns_has(needed, windows->funcs[f].column)) windows->funcs[n_kept++] = windows->funcs[f];
    if (n_kept < windows->n_funcs) {
        windows->n_funcs = n_kept;
        drop_orders(plan, windows);
        drop_keys(plan, node);
    }
    return n_kept > 0;
}

static bool is_partitioned_by(const Node *node, const WindowOrder *order, int column)
{
    for (int k = 0; k < order->n_partition; k++) {
        const Expr *key = node->keys[order->keys[k].column];
        if (key->kind == EXPR_COLUMN && key->column == column) return true;
    }
    return false;
}

void window_partition_columns(Arena *arena, const Node *node, ColumnSet *set)
{
    for (int c = 0; c < node->inputs[0]->n_out; c++) {
        const int column = node->inputs[0]->out[c];
        bool      is_in_all = true;
        for (int o = 0; o < node->windows->n_orders && is_in_all; o++)
            is_in_all = is_partitioned_by(node, &node->windows->orders[o], column);
        if (is_in_all) columns_add(arena, set, column);
    }
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

static Range count_range(i128 low, i128 high)
{
    return (Range){ .known = true, .low = low, .high = MIN_OF(high, (i128)INT64_MAX) };
}

static Range range_of_part(const Plan *plan, const Node *node, const WindowPart *part, i128 rows_most)
{
    Range range = range_of_type(part->type);
    if (part->kind == AGG_COUNT || part->kind == AGG_COUNT_ALL) return count_range(0, rows_most);
    if (part->kind == AGG_MIN || part->kind == AGG_MAX) range = plan_range(plan, node->keys[part->arg]);
    range.nullable = true;
    return range;
}

static Range range_of_func(const Plan *plan, const Node *node, const WindowFunc *func, i128 rows_most)
{
    Range range = range_of_type(func->type);
    switch (func->kind) {
        case WINDOW_ROW_NUMBER: case WINDOW_RANK: case WINDOW_DENSE_RANK: return count_range(1, rows_most);
        case WINDOW_PERCENT_RANK: case WINDOW_CUME_DIST: case WINDOW_RANDOM: range.nullable = false; return range;
        case WINDOW_NTILE: case WINDOW_STRING_AGG: break;
        case WINDOW_AGGREGATE:
            if (!func->built) return range_of_part(plan, node, &func->parts[0], rows_most);
            break;
        default: range = plan_range(plan, node->keys[func->arg]); break;
    }
    range.nullable = true;
    return range;
}

void window_prove(Plan *plan, const Node *node, i128 rows_most)
{
    for (int f = 0; f < node->windows->n_funcs; f++) {
        const WindowFunc *func = &node->windows->funcs[f];
        PlanColumn       *column = &plan->columns[func->column];
        column->range = range_of_func(plan, node, func, rows_most);
        column->n_distinct = fmax(1, node->rows);
    }
}

// ---- printing -------------------------------------------------------------------------------------------------------

static void print_value(const Value *value, Text *text)
{
    const Expr expr = { .kind = EXPR_CONST, .type = value->type, .value = *value };
    expr_print(&expr, NULL, text);
}

static void print_bound(const FrameBound *bound, Text *text)
{
    static const char *const names[] = {
        [EDGE_FIRST] = "unbounded preceding", [EDGE_PRECEDING] = " preceding", [EDGE_CURRENT] = "current row",
        [EDGE_FOLLOWING] = " following", [EDGE_LAST] = "unbounded following"
    };
    if (bound->edge == EDGE_PRECEDING || bound->edge == EDGE_FOLLOWING) print_value(&bound->offset, text);
    text_add(text, "%s", names[bound->edge]);
}

static void print_frame(const Frame *frame, bool *is_first, Text *text)
{
    static const char *const units[] = { [FRAME_RANGE] = "range", [FRAME_ROWS] = "rows", [FRAME_GROUPS] = "groups" };
    static const char *const excluded[] = {
        [EXCLUDE_NONE] = "", [EXCLUDE_CURRENT] = " exclude current row", [EXCLUDE_GROUP] = " exclude group",
        [EXCLUDE_TIES] = " exclude ties"
    };
    const Frame usual = frame_default();
    if (frame_equal(frame, &usual)) return;
    text_add(text, "%s%s between ", *is_first ? "" : " ", units[frame->unit]);
    print_bound(&frame->start, text);
    text_add(text, " and ");
    print_bound(&frame->end, text);
    text_add(text, "%s", excluded[frame->exclude]);
    *is_first = false;
}

static void print_order(const Plan *plan, const WindowOrder *order, Expr *const *keys, bool *is_first, Text *text)
{
    for (int k = 0; k < order->n_keys; k++) {
        const SortKey *key = &order->keys[k];
        const char    *before = k == 0 && order->n_partition ? "partition by " : k == order->n_partition ? "order by "
                                                                                                         : NULL;
        text_add(text, "%s%s", before ? (*is_first ? "" : " ") : ", ", before ? before : "");
        expr_print(keys[key->column], plan, text);
        if (key->descending) text_add(text, " desc");
        if (key->nulls_first != key->descending) text_add(text, " nulls %s", key->nulls_first ? "first" : "last");
        *is_first = false;
    }
}

static void print_args(const Plan *plan, const WindowFunc *func, Expr *const *keys, Text *text)
{
    const int arg = func->kind == WINDOW_AGGREGATE ? func->parts[0].arg : func->arg;
    if (func->kind == WINDOW_AGGREGATE && arg < 0) text_add(text, "*");
    if (func->is_distinct) text_add(text, "distinct ");
    if (arg >= 0) expr_print(keys[arg], plan, text);
    if (func->n < 0) return;
    text_add(text, "%s", arg >= 0 ? ", " : "");
    expr_print(keys[func->n], plan, text);
}

void window_print(const Plan *plan, const Windows *windows, Expr *const *keys, Text *text)
{
    for (int f = 0; f < windows->n_funcs; f++) {
        const WindowFunc *func = &windows->funcs[f];
        bool              is_first = true;
        text_add(text, "%s%s(", f ? ", " : "", func->name);
        print_args(plan, func, keys, text);
        text_add(text, ") over (");
        print_order(plan, &windows->orders[func->order], keys, &is_first, text);
        if (window_uses_frame(func->kind)) print_frame(&func->frame, &is_first, text);
        text_add(text, ")");
    }
}
