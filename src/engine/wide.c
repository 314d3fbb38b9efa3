// wide.c - numbers of 128 bits between pipelines: which values of a pipeline need them, and how they are handed on.
//
// A kernel computes with 128 bits where ranges do not prove that 64 are enough (weave/value.c).  What is handed on has
// words of 64 bits, so each key, payload or output that may need more becomes two when the pipeline's turn has come:
//
//     groups by total  ->  groups by high_word(total), low_word(total)         both keys have the column total
//
// By then the rows and tables that it reads are there, and their ranges are facts: most sums fit 64 bits after all, and
// stay one word.  Column ids of low words: weave_low_id.

#include "engine/wide.h"

// ---- what is known of a column when its pipeline runs ---------------------------------------------------------------

typedef struct WideScope { const QueryRun *run; const Pipeline *pipeline; } WideScope;

static Range unite(Range a, Range b)
{
    a.nullable |= b.nullable;
    if (b.low > b.high) return a;
    if (a.low > a.high) return b;
    return (Range){ .known = a.known && b.known,
                    .nullable = a.nullable,
                    .low = MIN_OF(a.low, b.low),
                    .high = MAX_OF(a.high, b.high) };
}

static Range range_of_stored(const WideScope *scope, int place)
{
    Range range = { .known = true, .low = 0, .high = -1 };
    for (int i = 0; i < scope->pipeline->n_inputs; i++) {
        const Stored *stored = scope->run->stored[scope->pipeline->inputs[i]];
        if (stored && stored->n_rows) range = unite(range, stored->columns[place].range);
    }
    return range;
}

static bool range_of_payload(const WideScope *scope, int column, Range *range)
{
    for (int q = 0; q < scope->pipeline->n_probes; q++) {
        const JoinTable *table = scope->run->tables[scope->pipeline->probes[q].build];
        bool             is_found = false, has_low = false;
        for (int p = 0; table && p < table->n_payloads; p++) {
            if (table->payloads[p].id == column) *range = table->payloads[p].range, is_found = true;
            has_low |= table->payloads[p].id == weave_low_id(column);
        }
        if (has_low) *range = range_of_words(*range);
        if (is_found) return true;
    }
    return false;
}

static Range range_of_column(void *context, const Expr *column)
{
    const WideScope    *scope = context;
    const Pipeline *pipeline = scope->pipeline;
    Range           range;
    for (int c = 0; c < pipeline->n_columns; c++)
        if (pipeline->columns[c] == column->column)
            return pipeline->table ? plan_range_of_stored(pipeline->table, pipeline->places[c])
                                   : range_of_stored(scope, pipeline->places[c]);
    for (int l = 0; l < pipeline->n_lets; l++)
        if (pipeline->lets[l].column == column->column)
            return range_of(pipeline->lets[l].value, range_of_column, context);
    if (range_of_payload(scope, column->column, &range)) return range;
    return scope->run->plan->columns[column->column].range;
}

bool wide_is_needed(const QueryRun *run, const Pipeline *pipeline, const Expr *expr)
{
    WideScope scope = { run, pipeline };
    return expr->type.kind == TYPE_NUMERIC && !range_is_word(range_of(expr, range_of_column, &scope));
}

bool wide_has_digits(i128 value)
{
    const Range range = range_of_type((Type){ .kind = TYPE_NUMERIC });
    return value >= range.low && value <= range.high;
}

int wide_column_id(const Expr *output)
{
    if (expr_is_low_word(output)) return weave_low_id(output->args[0]->column);
    return expr_is_high_word(output) ? output->args[0]->column : output->column;
}

const char *wide_column_name(const QueryRun *run, int id)
{
    if (id >= 0) return run->plan->columns[id].name;
    return arena_printf(run->arena, "%s_low", run->plan->columns[weave_low_id(id)].name);
}

// ---- one binding becomes two ----------------------------------------------------------------------------------------

static void split_bindings(QueryRun *run, const Pipeline *pipeline, Binding **bindings, int *n)
{
    Binding *old = *bindings, *list = NULL;
    int      n_list = 0;
    bool     any = false;
    for (int i = 0; i < *n; i++) any |= wide_is_needed(run, pipeline, old[i].value);
    for (int i = 0; any && i < *n; i++) {
        const bool is_wide = wide_is_needed(run, pipeline, old[i].value);
        *LIST_PUSH(run->own, list, n_list) =
            (Binding){ old[i].column, is_wide ? expr_high_word(run->own, old[i].value) : old[i].value };
        if (is_wide)
            *LIST_PUSH(run->own, list, n_list) = (Binding){ old[i].column, expr_low_word(run->own, old[i].value) };
    }
    if (any) *bindings = list, *n = n_list;
}

// The keys that pair with those of the table, which has two where it had one.
static void split_probe(QueryRun *run, const Pipeline *build, Probe *probe)
{
    Expr **keys = arena_array(run->own, Expr *, build->n_keys + 1);
    int    from = 0;
    for (int k = 0; k < build->n_keys; k++) {
        if (expr_is_low_word(build->keys[k].value)) keys[k] = expr_low_word(run->own, probe->keys[from++]);
        else if (expr_is_high_word(build->keys[k].value)) keys[k] = expr_high_word(run->own, probe->keys[from]);
        else keys[k] = probe->keys[from++];
    }
    probe->keys = keys, probe->n_keys = build->n_keys;
}

static void split_probes(QueryRun *run, int number)
{
    const Graph *graph = run->graph;
    for (int p = number + 1; p < graph->n_pipelines; p++)
        for (int q = 0; q < graph->pipelines[p].n_probes; q++)
            if (graph->pipelines[p].probes[q].build == number)
                split_probe(run, &graph->pipelines[number], &graph->pipelines[p].probes[q]);
}

void wide_prepare(QueryRun *run, int number)
{
    Pipeline *pipeline = &run->graph->pipelines[number];
    const int n_keys = pipeline->n_keys;
    if (pipeline->sink == SINK_VALUES) return;
    split_bindings(run, pipeline, &pipeline->keys, &pipeline->n_keys);
    split_bindings(run, pipeline, &pipeline->payload, &pipeline->n_payload);
    split_bindings(run, pipeline, &pipeline->outputs, &pipeline->n_outputs);
    if (pipeline->sink == SINK_TABLE && pipeline->n_keys != n_keys) split_probes(run, number);
}

void wide_follow(QueryRun *run, int number)
{
    Pipeline *pipeline = &run->graph->pipelines[number];
    for (int q = 0; q < pipeline->n_probes; q++) {
        const Pipeline *build = &run->graph->pipelines[pipeline->probes[q].build];
        if (build->n_keys != pipeline->probes[q].n_keys) split_probe(run, build, &pipeline->probes[q]);
    }
}

Expr **wide_columns(QueryRun *run, const Pipeline *pipeline, const ColumnSet *columns, int *n_exprs)
{
    Expr **exprs = arena_array(run->arena, Expr *, 2 * columns_count(columns) + 1);
    *n_exprs = 0;
    for (int c = columns_next(columns, -1); c >= 0; c = columns_next(columns, c)) {
        Expr      *column = plan_column_expr_in(run->arena, run->plan, c);
        const bool is_wide = wide_is_needed(run, pipeline, column);
        exprs[(*n_exprs)++] = is_wide ? expr_high_word(run->arena, column) : column;
        if (is_wide) exprs[(*n_exprs)++] = expr_low_word(run->arena, column);
    }
    return exprs;
}
