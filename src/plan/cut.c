// cut.c - the tree as a graph of pipelines.
//
// We go down to a leaf and come back up with a stream: a pipeline that has a source and steps, but no sink yet.
//
//     scan, shared, union all     open a stream
//     filter, project             a step more; a projected column is put in place where it is used, or computed once
//     (let)
//     join                        the right side's stream ends in a table, the left one goes on with a probe of it
//     aggregate                   the stream ends in groups; what follows happens to the groups when all are there
//     (Finish)
//     sort, limit                 part of the Finish, too
//     window                      the first part of a Finish, and its end: the rows with their new columns are stored
//
// A stream that has its Finish and meets a join, an aggregate or another sort is emitted: its rows are stored, and a
// new
// stream reads them.  So a pipeline is as long as it can be.
//
// Columns are asked for from above: a node is told which of its columns are NEEDED, and gives no others.

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/window.h"

#define LET_SIZE 12                    // expressions of more nodes are computed once, not wherever they are used

typedef enum StreamState {
    STREAM_OPEN,                       // steps can be added
    STREAM_ROWS,                       // its rows are sorted or limited
    STREAM_DONE                        // groups or values: they can be filtered until they are sorted or limited
} StreamState;

typedef struct Stream {
    StreamState state;
    bool        is_ordered;            // has a sort, limit or copies: no more conditions
    Pipeline    p;
} Stream;

typedef struct Cutter {
    Arena      *arena;
    const Plan *plan;
    Graph      *graph;
    Error      *err;
    Expr      **stands_for;            // by column: the expression that is put in its place; NULL: it is there itself
    int        *shared;                // by number: the pipeline with its rows; -1: not cut yet
    const struct Rounds *rounds;       // of the repeats that the node at hand is below; NULL: of none
} Cutter;

typedef struct Rounds { const Node *repeat; int first; const struct Rounds *next; } Rounds;    // first: see Repeat

static weft_status cut_root(Cutter *c, const Node *root, i64 most_rows, int *number);
static weft_status cut_repeat(Cutter *c, const Node *node, Stream *s);
static weft_status cut_node(Cutter *c, const Node *node, const ColumnSet *needed, Stream *out);

// ---- expressions ----------------------------------------------------------------------------------------------------

static const Expr *give_stand_in(void *context, const Expr *leaf)
{
    const Cutter *c = context;
    return leaf->kind == EXPR_COLUMN ? c->stands_for[leaf->column] : NULL;
}

static weft_status in_place(Cutter *c, const Expr *expr, Expr **out)
{
    return expr_replace(c->arena, expr, give_stand_in, c, out, c->err);
}

static weft_status list_in_place(Cutter *c, Expr *const *exprs, int n, Expr ***out)
{
    *out = arena_array(c->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) TRY(in_place(c, exprs[i], &(*out)[i]));
    return WEFT_OK;
}

static weft_status bind_column(Cutter *c, int column, Binding *out)
{
    out->column = column;
    return in_place(c, plan_column_expr_in(c->arena, c->plan, column), &out->value);
}

static void need_exprs(Cutter *c, ColumnSet *needed, Expr *const *exprs, int n)
{
    for (int i = 0; i < n; i++) columns_add_expr(c->arena, needed, exprs[i]);
}

static ColumnSet copy_of(Cutter *c, const ColumnSet *set)
{
    ColumnSet copy = { 0 };
    columns_add_all(c->arena, &copy, set);
    return copy;
}

// ---- streams --------------------------------------------------------------------------------------------------------

static Stream new_stream(void)
{
    return (Stream){ .p = { .finish = { .limit = -1, .copies = -1 }, .param = -1 } };
}

static weft_status add_binding(Cutter *c, Binding **list, int *n_list, int column)
{
    return bind_column(c, column, LIST_PUSH(c->arena, *list, *n_list));
}

static bool has_binding(const Binding *list, int n_list, int column)
{
    for (int i = 0; i < n_list; i++)
        if (list[i].column == column) return true;
    return false;
}

// The columns OUT in this order, and behind them what only the order and the copies look at.
static weft_status list_outputs(Cutter *c, const Finish *finish, const int *out, int n_out, Binding **list, int *n_list)
{
    for (int i = 0; i < n_out; i++) TRY(add_binding(c, list, n_list, out[i]));
    for (int k = 0; k < finish->n_sort; k++)
        if (!has_binding(*list, *n_list, finish->sort[k].column))
            TRY(add_binding(c, list, n_list, finish->sort[k].column));
    if (finish->copies >= 0 && !has_binding(*list, *n_list, finish->copies))
        TRY(add_binding(c, list, n_list, finish->copies));
    return WEFT_OK;
}

// ---- computed columns -----------------------------------------------------------------------------------------------

typedef weft_status OnExpr(Cutter *c, Expr **expr, void *context);

static weft_status on_bindings(Cutter *c, Binding *list, int n, OnExpr *visit, void *context)
{
    for (int i = 0; i < n; i++) TRY(visit(c, &list[i].value, context));
    return WEFT_OK;
}

// Every expression that the pipeline's kernel computes.
static weft_status on_exprs(Cutter *c, Pipeline *p, OnExpr *visit, void *context)
{
    for (int f = 0; f < p->n_filters; f++) TRY(visit(c, &p->filters[f], context));
    for (int q = 0; q < p->n_probes; q++) {
        for (int k = 0; k < p->probes[q].n_keys; k++) TRY(visit(c, &p->probes[q].keys[k], context));
        if (p->probes[q].residual) TRY(visit(c, &p->probes[q].residual, context));
    }
    TRY(on_bindings(c, p->lets, p->n_lets, visit, context));
    TRY(on_bindings(c, p->keys, p->n_keys, visit, context));
    TRY(on_bindings(c, p->payload, p->n_payload, visit, context));
    for (int a = 0; a < p->n_aggs; a++)
        if (p->aggs[a].arg) TRY(visit(c, &p->aggs[a].arg, context));
    return on_bindings(c, p->outputs, p->n_outputs, visit, context);
}

typedef struct LetUses {                  // by column
    int  *counts;
    bool *in_lookup;                   // below what kernels look up by a text's code
} LetUses;

static void count_column(const Expr *expr, bool in_lookup, const LetUses *uses)
{
    in_lookup |= expr_is_unknown(expr);
    if (expr->kind == EXPR_COLUMN) uses->counts[expr->column]++, uses->in_lookup[expr->column] |= in_lookup;
    for (int i = 0; i < expr->n_args; i++) count_column(expr->args[i], in_lookup, uses);
}

static weft_status count_uses(Cutter *c, Expr **expr, void *context)
{
    (void)c;
    count_column(*expr, false, context);
    return WEFT_OK;
}

static weft_status put_in_place(Cutter *c, Expr **expr, void *context)
{
    (void)context;
    return in_place(c, *expr, expr);
}

// A text function finds its outcome by the text's code, which a let has.  What the let is made of has none, unless that
// is one text and constants.
static bool stays_let(const LetUses *uses, int column, const Expr *value)
{
    return uses->counts[column] > 1 || (uses->in_lookup[column] && expr_only_text_column(value) < 0);
}

// What is used once is computed where it is used.
static weft_status settle_lets(Cutter *c, Pipeline *p)
{
    int  n_kept = 0;
    LetUses uses;
    if (!p->n_lets) return WEFT_OK;
    uses.counts = arena_array(c->arena, int, c->plan->n_columns + 1);
    uses.in_lookup = arena_array(c->arena, bool, c->plan->n_columns + 1);
    TRY(on_exprs(c, p, count_uses, &uses));
    for (int l = 0; l < p->n_lets; l++) {
        const int column = p->lets[l].column;
        Expr     *value;
        TRY(in_place(c, p->lets[l].value, &value));
        if (stays_let(&uses, column, value)) p->lets[n_kept++] = p->lets[l];
        else c->stands_for[column] = value;
    }
    p->n_lets = n_kept;
    return on_exprs(c, p, put_in_place, NULL);
}

static weft_status push_pipeline(Cutter *c, Pipeline *pipeline, int *number)
{
    TRY(settle_lets(c, pipeline));
    *LIST_PUSH(c->arena, c->graph->pipelines, c->graph->n_pipelines) = *pipeline;
    *number = c->graph->n_pipelines - 1;
    return WEFT_OK;
}

// ---- sinks ----------------------------------------------------------------------------------------------------------

// Columns that EXPR reads, as outputs of the kernel.
static void output_leaves(Cutter *c, Pipeline *p, const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN && !has_binding(p->outputs, p->n_outputs, expr->column))
        *LIST_PUSH(c->arena, p->outputs, p->n_outputs) =
            (Binding){ expr->column, plan_column_expr_in(c->arena, c->plan, expr->column) };
    for (int i = 0; i < expr->n_args; i++) output_leaves(c, p, expr->args[i]);
}

// Kernels have no intervals: one may be part of a formula, but only the host can put it out, even where it is made of
// one text and could be worked out once for each text.
static bool output_needs_host(const Expr *expr)
{
    return (expr->type.kind == TYPE_INTERVAL && expr->kind != EXPR_COLUMN) || expr_needs_host(expr);
}

// Outputs that kernels cannot compute: they leave what those are computed from, and the Finish does the rest.
static void leave_to_host(Cutter *c, Pipeline *p)
{
    Finish *finish = &p->finish;
    bool    needs_host = false;
    for (int o = 0; o < p->n_outputs; o++) needs_host |= output_needs_host(p->outputs[o].value);
    if (!needs_host) return;
    finish->is_computed = true;
    p->n_outputs = 0, p->outputs = NULL;
    for (int o = 0; o < finish->n_outputs; o++) {
        if (output_needs_host(finish->outputs[o].value)) continue;
        if (!has_binding(p->outputs, p->n_outputs, finish->outputs[o].column))
            *LIST_PUSH(c->arena, p->outputs, p->n_outputs) = finish->outputs[o];
        finish->outputs[o].value = plan_column_expr_in(c->arena, c->plan, finish->outputs[o].column);
    }
    for (int o = 0; o < finish->n_outputs; o++)
        if (output_needs_host(finish->outputs[o].value)) output_leaves(c, p, finish->outputs[o].value);
}

// Gives the stream its sink and its place in the graph.  From here on the columns are there, and nothing stands for
// them.
static weft_status emit(Cutter *c, Stream *s, const int *out, int n_out, double rows, int *number)
{
    Pipeline *p = &s->p;
    Finish   *finish = &p->finish;
    if (s->state != STREAM_DONE) {
        p->sink = SINK_ROWS;
        p->rows_out = rows;
        TRY(list_outputs(c, finish, out, n_out, &p->outputs, &p->n_outputs));
        finish->n_outputs = p->n_outputs, finish->outputs = p->outputs;
        leave_to_host(c, p);
    } else {
        TRY(list_outputs(c, finish, out, n_out, &finish->outputs, &finish->n_outputs));
    }
    TRY(push_pipeline(c, p, number));
    for (int o = 0; o < finish->n_outputs; o++) c->stands_for[finish->outputs[o].column] = NULL;
    return WEFT_OK;
}

// A stream over what pipelines have stored: COLUMNS are their outputs by position.
static void read_stored(Cutter *c, const int *inputs, int n_inputs, const int *columns, int n_columns, const char *name,
                        Stream *s)
{
    *s = new_stream();
    Pipeline *p = &s->p;
    p->n_inputs = n_inputs, p->n_columns = n_columns, p->name = name;
    p->inputs = arena_array(c->arena, int, n_inputs + 1);
    p->columns = arena_array(c->arena, int, n_columns + 1);
    p->places = arena_array(c->arena, int, n_columns + 1);
    if (n_inputs) memcpy(p->inputs, inputs, (size_t)n_inputs * sizeof *inputs);
    for (int i = 0; i < n_columns; i++) p->columns[i] = columns[i], p->places[i] = i;
    for (int i = 0; i < n_inputs; i++) {
        const Pipeline *input = &c->graph->pipelines[inputs[i]];
        p->rows_in += input->sink == SINK_GROUPS ? input->n_groups : input->rows_out;
    }
}

static int *needed_of(Cutter *c, const Node *node, const ColumnSet *needed, int *n_columns)
{
    int *columns = arena_array(c->arena, int, node->n_out + 1);
    *n_columns = 0;
    for (int i = 0; i < node->n_out; i++)
        if (columns_has(needed, node->out[i])) columns[(*n_columns)++] = node->out[i];
    return columns;
}

// Makes sure that steps can be added: what has a Finish is stored and read again.
static weft_status open_stream(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    int n_columns, number;
    if (s->state == STREAM_OPEN) return WEFT_OK;
    const int *columns = needed_of(c, node, needed, &n_columns);
    TRY(emit(c, s, columns, n_columns, node->rows, &number));
    read_stored(c, &number, 1, columns, n_columns, "stored", s);
    return WEFT_OK;
}

static weft_status cut_open(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    TRY(cut_node(c, node, needed, s));
    return open_stream(c, node, needed, s);
}

// What stands for a column can make an expression one that kernels do not know: of cast(t as date), where t is a stored
// text, they look the dates up, but not of cast(case when b then 'x' else 'y' end as date).  Then the rows are stored.
static weft_status store_for(Cutter *c, const Node *node, const ColumnSet *needed, Expr *const *exprs, int n, Stream *s)
{
    bool needs_host = false;
    for (int i = 0; i < n && s->state == STREAM_OPEN && !needs_host; i++) {
        Expr *expr;
        TRY(in_place(c, exprs[i], &expr));
        needs_host = expr_needs_host(expr);
    }
    if (!needs_host) return WEFT_OK;
    s->state = STREAM_ROWS;
    return open_stream(c, node, needed, s);
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static weft_status cut_scan(const Node *node, Stream *s)
{
    *s = new_stream();
    s->p.table = node->table, s->p.name = node->alias ? node->alias : node->table->name;
    s->p.n_columns = node->n_out, s->p.columns = node->out, s->p.places = node->table_columns;
    s->p.rows_in = (double)node->table->n_rows;
    return WEFT_OK;
}

static weft_status cut_values(const Node *node, Stream *s)
{
    *s = new_stream();
    s->state = STREAM_DONE;
    s->p.sink = SINK_VALUES, s->p.values = node, s->p.name = "values";
    s->p.n_columns = node->n_out, s->p.columns = node->out;
    s->p.rows_in = s->p.rows_out = (double)node->n_rows;
    return WEFT_OK;
}

static weft_status cut_shared(Cutter *c, const Node *node, Stream *s)
{
    const Shared *shared = node->shared;
    ColumnSet     all = { 0 };
    if (c->shared[shared->number] < 0 && shared->root->kind == NODE_REPEAT) {
        TRY(cut_repeat(c, shared->root, s));
        c->shared[shared->number] = s->p.inputs[0];
    }
    if (c->shared[shared->number] < 0) {
        Stream inner;
        node_columns(c->arena, shared->root, &all);
        TRY(cut_node(c, shared->root, &all, &inner));
        TRY(emit(c, &inner, shared->root->out, shared->root->n_out, shared->root->rows, &c->shared[shared->number]));
    }
    read_stored(c, &c->shared[shared->number], 1, node->out, node->n_out, node->alias ? node->alias : "shared", s);
    if (shared->root->kind == NODE_REPEAT) s->p.rows_in = shared->root->rows;          // of all rounds
    return WEFT_OK;
}

// ---- UNION ALL ------------------------------------------------------------------------------------------------------

typedef struct Branches { int *pipelines; int n_pipelines; } Branches;

// The rows of NODE, its columns at PLACES of its out, as one or more pipelines of equal outputs.
static weft_status cut_branch(Cutter *c, const Node *node, const int *places, int n_places, Branches *branches)
{
    const bool is_union = node->kind == NODE_SET && node->set == SET_UNION && node->is_all;
    ColumnSet  needed = { 0 };
    Stream     s;
    int        number, *columns = arena_array(c->arena, int, n_places + 1);
    for (int i = 0; is_union && i < 2; i++) TRY(cut_branch(c, node->inputs[i], places, n_places, branches));
    if (is_union) return WEFT_OK;
    for (int i = 0; i < n_places; i++) {
        columns[i] = node->out[places[i]];
        columns_add(c->arena, &needed, columns[i]);
    }
    TRY(cut_node(c, node, &needed, &s));
    TRY(emit(c, &s, columns, n_places, node->rows, &number));
    *LIST_PUSH(c->arena, branches->pipelines, branches->n_pipelines) = number;
    return WEFT_OK;
}

static weft_status cut_set(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    Branches branches = { 0 };
    int      n_places = 0, *places = arena_array(c->arena, int, node->n_out + 1);
    int     *columns = arena_array(c->arena, int, node->n_out + 1);
    if (node->set != SET_UNION || !node->is_all)
        return fail(c->err, WEFT_INTERNAL, node->at, "a set operation was not rewritten");
    for (int i = 0; i < node->n_out; i++) {
        if (!columns_has(needed, node->out[i])) continue;
        columns[n_places] = node->out[i], places[n_places++] = i;
    }
    TRY(cut_branch(c, node, places, n_places, &branches));
    read_stored(c, branches.pipelines, branches.n_pipelines, columns, n_places, "union", s);
    return WEFT_OK;
}

// ---- filter, project ------------------------------------------------------------------------------------------------

static weft_status cut_filter(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    const Node *input = node->inputs[0];
    ColumnSet   below = copy_of(c, needed);
    need_exprs(c, &below, node->conditions, node->n_conditions);
    TRY(cut_node(c, input, &below, s));
    if (s->state == STREAM_ROWS || s->is_ordered) TRY(open_stream(c, input, &below, s));
    TRY(store_for(c, input, &below, node->conditions, node->n_conditions, s));
    for (int i = 0; i < node->n_conditions; i++) {
        Expr *condition;
        TRY(in_place(c, node->conditions[i], &condition));
        if (s->state == STREAM_OPEN) *LIST_PUSH(c->arena, s->p.filters, s->p.n_filters) = condition;
        else *LIST_PUSH(c->arena, s->p.finish.conditions, s->p.finish.n_conditions) = condition;
    }
    return WEFT_OK;
}

static bool is_same_column(const Node *node, int i)
{
    return node->exprs[i]->kind == EXPR_COLUMN && node->exprs[i]->column == node->out[i];
}

static weft_status project_column(Cutter *c, Stream *s, int column, const Expr *expr)
{
    Expr *value;
    TRY(in_place(c, expr, &value));
    if (s->state == STREAM_OPEN && value->size > LET_SIZE)
        *LIST_PUSH(c->arena, s->p.lets, s->p.n_lets) = (Binding){ column, value };
    else c->stands_for[column] = value;
    return WEFT_OK;
}

static bool project_needs_host(const Node *node, const ColumnSet *needed)
{
    for (int i = 0; i < node->n_out; i++)
        if (columns_has(needed, node->out[i]) && output_needs_host(node->exprs[i])) return true;
    return false;
}

static weft_status cut_project(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    ColumnSet below = { 0 };
    for (int i = 0; i < node->n_out; i++)
        if (columns_has(needed, node->out[i])) columns_add_expr(c->arena, &below, node->exprs[i]);
    if (node->copies >= 0) columns_add(c->arena, &below, node->copies);
    TRY(cut_node(c, node->inputs[0], &below, s));
    if (node->copies >= 0 && (s->is_ordered || s->state == STREAM_ROWS))
        TRY(open_stream(c, node->inputs[0], &below, s));
    if (node->copies >= 0) {
        if (s->state == STREAM_OPEN) s->state = STREAM_ROWS;
        s->p.finish.copies = node->copies, s->is_ordered = true;
    }
    if (s->state == STREAM_OPEN && project_needs_host(node, needed)) s->state = STREAM_ROWS;
    for (int i = 0; i < node->n_out; i++)
        if (columns_has(needed, node->out[i]) && !is_same_column(node, i))
            TRY(project_column(c, s, node->out[i], node->exprs[i]));
    return WEFT_OK;
}

// ---- join -----------------------------------------------------------------------------------------------------------

static bool brings_columns(JoinKind kind) { return kind == JOIN_INNER || kind == JOIN_LEFT || kind == JOIN_SINGLE; }

static weft_status all_of(Cutter *c, Expr *const *conditions, int n, Expr **out)
{
    *out = NULL;
    for (int i = 0; i < n; i++) {
        Expr *both[2] = { *out, NULL };
        TRY(in_place(c, conditions[i], &both[1]));
        if (*out) TRY(expr_call(c->arena, OP_AND, both, 2, both[1]->at, out, c->err));
        else *out = both[1];
    }
    return WEFT_OK;
}

// The right side as a table: its keys, and the columns that the left side's pipeline will look at.
static weft_status cut_build(Cutter *c, const Node *join, const ColumnSet *above, int *number)
{
    const Node *right = join->inputs[1];
    ColumnSet   needed = { 0 }, payload = { 0 };
    Stream      s;
    need_exprs(c, &payload, join->conditions, join->n_conditions);
    if (brings_columns(join->join)) columns_add_all(c->arena, &payload, above);
    columns_add_all(c->arena, &needed, &payload);
    need_exprs(c, &needed, join->right_keys, join->n_keys);
    TRY(cut_open(c, right, &needed, &s));
    TRY(store_for(c, right, &needed, join->right_keys, join->n_keys, &s));
    Pipeline *p = &s.p;
    p->sink = SINK_TABLE, p->rows_out = right->rows;
    for (int k = 0; k < join->n_keys; k++) {
        Binding *key = LIST_PUSH(c->arena, p->keys, p->n_keys);
        key->column = -1;
        TRY(in_place(c, join->right_keys[k], &key->value));
    }
    for (int i = 0; i < right->n_out; i++)
        if (columns_has(&payload, right->out[i]) && !has_binding(p->payload, p->n_payload, right->out[i]))
            TRY(add_binding(c, &p->payload, &p->n_payload, right->out[i]));
    TRY(push_pipeline(c, p, number));
    for (int i = 0; i < p->n_payload; i++) c->stands_for[p->payload[i].column] = NULL;
    return WEFT_OK;
}

static weft_status cut_join(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    Probe     probe = { .join = node->join, .n_keys = node->n_keys, .mark = node->mark };
    ColumnSet below = copy_of(c, needed);
    if (node->join == JOIN_RIGHT || node->join == JOIN_FULL)
        return fail(c->err, WEFT_INTERNAL, node->at, "a join was not rewritten");
    need_exprs(c, &below, node->keys, node->n_keys);
    need_exprs(c, &below, node->conditions, node->n_conditions);
    TRY(cut_build(c, node, needed, &probe.build));
    TRY(cut_open(c, node->inputs[0], &below, s));
    TRY(store_for(c, node->inputs[0], &below, node->keys, node->n_keys, s));
    TRY(store_for(c, node->inputs[0], &below, node->conditions, node->n_conditions, s));
    TRY(list_in_place(c, node->keys, node->n_keys, &probe.keys));
    if (node->join != JOIN_INNER) {
        TRY(all_of(c, node->conditions, node->n_conditions, &probe.residual));
    } else {
        for (int i = 0; i < node->n_conditions; i++)
            TRY(in_place(c, node->conditions[i], LIST_PUSH(c->arena, s->p.filters, s->p.n_filters)));
    }
    *LIST_PUSH(c->arena, s->p.probes, s->p.n_probes) = probe;
    return WEFT_OK;
}

// ---- aggregate, sort, limit -----------------------------------------------------------------------------------------

static weft_status cut_aggregate(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    const Node *input = node->inputs[0];
    ColumnSet   below = { 0 };
    need_exprs(c, &below, node->keys, node->n_keys);
    for (int a = 0; a < node->n_aggs; a++)
        if (node->aggs[a].arg && columns_has(needed, node->out[node->n_keys + a]))
            columns_add_expr(c->arena, &below, node->aggs[a].arg);
    TRY(cut_open(c, input, &below, s));
    TRY(store_for(c, input, &below, node->keys, node->n_keys, s));
    for (int a = 0; a < node->n_aggs; a++)
        if (node->aggs[a].arg && columns_has(needed, node->out[node->n_keys + a]))
            TRY(store_for(c, input, &below, &node->aggs[a].arg, 1, s));
    Pipeline *p = &s->p;
    for (int k = 0; k < node->n_keys; k++) {
        Binding *key = LIST_PUSH(c->arena, p->keys, p->n_keys);
        key->column = node->out[k];
        TRY(in_place(c, node->keys[k], &key->value));
    }
    for (int a = 0; a < node->n_aggs; a++) {
        const int column = node->out[node->n_keys + a];
        int       n_columns = p->n_aggs;
        if (!columns_has(needed, column)) continue;
        *LIST_PUSH(c->arena, p->agg_columns, n_columns) = column;
        Agg *agg = LIST_PUSH(c->arena, p->aggs, p->n_aggs);
        *agg = node->aggs[a];
        if (agg->arg) TRY(in_place(c, agg->arg, &agg->arg));
    }
    for (int i = 0; i < node->n_out; i++) c->stands_for[node->out[i]] = NULL;
    p->sink = SINK_GROUPS, p->rows_out = input->rows, p->n_groups = node->rows;
    s->state = STREAM_DONE;
    return WEFT_OK;
}

static weft_status cut_sort(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    ColumnSet below = copy_of(c, needed);
    for (int k = 0; k < node->n_sort; k++) columns_add(c->arena, &below, node->sort[k].column);
    TRY(cut_node(c, node->inputs[0], &below, s));
    Finish *finish = &s->p.finish;
    if (finish->limit >= 0 || finish->offset > 0 || finish->n_distinct_on || finish->copies >= 0)
        TRY(open_stream(c, node->inputs[0], &below, s));
    if (s->state == STREAM_OPEN) s->state = STREAM_ROWS;
    s->is_ordered = true;
    s->p.finish.n_sort = node->n_sort, s->p.finish.sort = node->sort, s->p.finish.n_distinct_on = node->n_distinct_on;
    s->p.finish.run_skipped = node->run_skipped, s->p.finish.run_more = node->run_more;
    return WEFT_OK;
}

static weft_status cut_limit(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    TRY(cut_node(c, node->inputs[0], needed, s));
    if (s->p.finish.limit >= 0 || s->p.finish.offset > 0) TRY(open_stream(c, node->inputs[0], needed, s));
    if (s->state == STREAM_OPEN) s->state = STREAM_ROWS;
    s->is_ordered = true;
    s->p.finish.limit = node->limit, s->p.finish.offset = node->offset;
    return WEFT_OK;
}

// ---- window ---------------------------------------------------------------------------------------------------------

// The columns that pass, then the keys that no constant is and no passed column.
static weft_status list_window_inputs(Cutter *c, const Node *node, const int *columns, FinishWindows *windows)
{
    for (int i = 0; i < windows->n_passed; i++) TRY(add_binding(c, &windows->inputs, &windows->n_inputs, columns[i]));
    windows->n_keys = node->n_keys;
    windows->places = arena_array(c->arena, int, node->n_keys + 1);
    TRY(list_in_place(c, node->keys, node->n_keys, &windows->keys));
    for (int k = 0; k < node->n_keys; k++) {
        Expr *key = windows->keys[k];
        int   i = 0;
        windows->places[k] = -1;
        if (expr_is_const(key)) continue;
        while (i < windows->n_inputs && !expr_equal(windows->inputs[i].value, key)) i++;
        if (i == windows->n_inputs)
            *LIST_PUSH(c->arena, windows->inputs, windows->n_inputs) = (Binding){ -1, key };
        windows->places[k] = i;
    }
    return WEFT_OK;
}

static weft_status list_window_outputs(Cutter *c, const Node *node, const int *columns, int n_columns,
                                       FinishWindows *windows, Finish *finish)
{
    const int n_input = node->n_out - node->windows->n_funcs;
    windows->funcs = arena_array(c->arena, int, node->windows->n_funcs + 1);
    for (int i = 0; i < windows->n_passed; i++)
        *LIST_PUSH(c->arena, finish->outputs, finish->n_outputs) = windows->inputs[i];
    for (int i = windows->n_passed; i < n_columns; i++) {
        const Expr *value = plan_column_expr_in(c->arena, c->plan, columns[i]);
        *LIST_PUSH(c->arena, finish->outputs, finish->n_outputs) = (Binding){ columns[i], (Expr *)(uintptr_t)value };
        for (int f = 0; f < node->windows->n_funcs; f++)
            if (node->out[n_input + f] == columns[i]) windows->funcs[windows->n_funcs++] = f;
    }
    return WEFT_OK;
}

static weft_status cut_window(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    const Node    *input = node->inputs[0];
    FinishWindows *windows = arena_make(c->arena, FinishWindows);
    ColumnSet      below = copy_of(c, needed);
    int            n_columns, number;
    const int     *columns = needed_of(c, node, needed, &n_columns);
    need_exprs(c, &below, node->keys, node->n_keys);
    TRY(cut_node(c, input, &below, s));
    if (s->state == STREAM_ROWS || s->is_ordered) TRY(open_stream(c, input, &below, s));
    TRY(store_for(c, input, &below, node->keys, node->n_keys, s));
    Pipeline *p = &s->p;
    windows->windows = node->windows;
    while (windows->n_passed < n_columns && node_gives(input, columns[windows->n_passed])) windows->n_passed++;
    TRY(list_window_inputs(c, node, columns, windows));
    TRY(list_window_outputs(c, node, columns, n_columns, windows, &p->finish));
    p->finish.windows = windows;
    if (s->state == STREAM_OPEN)
        p->sink = SINK_ROWS, p->rows_out = input->rows, p->outputs = windows->inputs, p->n_outputs = windows->n_inputs;
    TRY(push_pipeline(c, p, &number));
    for (int i = 0; i < n_columns; i++) c->stands_for[columns[i]] = NULL;
    read_stored(c, &number, 1, columns, n_columns, "window", s);
    return WEFT_OK;
}

// ---- recursion ------------------------------------------------------------------------------------------------------

static bool reads_again(const Repeat *repeat, const Pipeline *p)
{
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i] == repeat->first || repeat->again[p->inputs[i]]) return true;
    for (int q = 0; q < p->n_probes; q++)
        if (repeat->again[p->probes[q].build]) return true;
    return false;
}

// What reads the rows of the first term reads those of the last round after that; the rest runs once.
static void find_again(Cutter *c, Repeat *repeat)
{
    repeat->again = arena_array(c->arena, bool, c->graph->n_pipelines + 1);
    for (int p = repeat->first + 1; p <= repeat->last; p++)
        repeat->again[p] = reads_again(repeat, &c->graph->pipelines[p]);
}

static weft_status cut_last_round(Cutter *c, const Node *node, Stream *s)
{
    const Rounds *rounds = c->rounds;
    while (rounds && rounds->repeat != node->repeat) rounds = rounds->next;
    if (!rounds) return fail(c->err, WEFT_INTERNAL, node->at, "the rows of a round are read outside of it");
    read_stored(c, &rounds->first, 1, node->out, node->n_out, node->alias ? node->alias : "last round", s);
    return WEFT_OK;
}

static weft_status cut_repeat(Cutter *c, const Node *node, Stream *s)
{
    Repeat repeat = { .is_all = node->is_all, .n_by_length = node->n_by_length, .by_length = node->by_length };
    Rounds rounds = { .repeat = node, .next = c->rounds };
    if (!node->n_inputs) return cut_last_round(c, node, s);
    TRY(cut_root(c, node->inputs[0], -1, &repeat.first));
    rounds.first = repeat.first;
    c->rounds = &rounds;
    const weft_status status = cut_root(c, node->inputs[1], -1, &repeat.last);
    c->rounds = rounds.next;
    TRY(status);
    find_again(c, &repeat);
    *LIST_PUSH(c->arena, c->graph->repeats, c->graph->n_repeats) = repeat;
    read_stored(c, &repeat.last, 1, node->out, node->n_out, "repeat", s);
    s->p.rows_in = node->rows;
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static weft_status cut_node(Cutter *c, const Node *node, const ColumnSet *needed, Stream *s)
{
    switch (node->kind) {
        case NODE_SCAN:      return cut_scan(node, s);
        case NODE_VALUES:    return cut_values(node, s);
        case NODE_FILTER:    return cut_filter(c, node, needed, s);
        case NODE_PROJECT:   return cut_project(c, node, needed, s);
        case NODE_JOIN:      return cut_join(c, node, needed, s);
        case NODE_AGGREGATE: return cut_aggregate(c, node, needed, s);
        case NODE_SORT:      return cut_sort(c, node, needed, s);
        case NODE_LIMIT:     return cut_limit(c, node, needed, s);
        case NODE_SET:       return cut_set(c, node, needed, s);
        case NODE_SHARED:    return cut_shared(c, node, s);
        case NODE_WINDOW:    return cut_window(c, node, needed, s);
        case NODE_REPEAT:    return cut_repeat(c, node, s);
    }
    return fail(c->err, WEFT_UNSUPPORTED, node->at, "this operator cannot be run yet");
}

static weft_status cut_root(Cutter *c, const Node *root, i64 most_rows, int *number)
{
    ColumnSet all = { 0 };
    Stream    s;
    node_columns(c->arena, root, &all);
    TRY(cut_node(c, root, &all, &s));
    if (most_rows >= 0 && s.p.finish.limit < 0) s.p.finish.limit = most_rows;
    return emit(c, &s, root->out, root->n_out, root->rows, number);
}

// Of a subquery's rows two are enough to see that there is more than one.
static weft_status cut_params(Cutter *c)
{
    for (int i = 0; i < c->plan->n_params; i++) {
        int number;
        if (!c->plan->params[i].subplan) continue;
        TRY(cut_root(c, c->plan->params[i].subplan, 2, &number));
        c->graph->pipelines[number].param = i;
    }
    return WEFT_OK;
}

weft_status plan_cut(Arena *arena, const Plan *plan, Graph **graph, Error *err)
{
    int    number;
    Cutter c = { .arena = arena, .plan = plan, .graph = arena_make(arena, Graph), .err = err };
    c.stands_for = arena_array(arena, Expr *, plan->n_columns + 1);
    c.shared = arena_array(arena, int, plan->n_shared + 1);
    for (int i = 0; i < plan->n_shared; i++) c.shared[i] = -1;
    c.graph->plan = plan;
    *graph = c.graph;
    TRY(cut_params(&c));
    return cut_root(&c, plan->root, -1, &number);
}
