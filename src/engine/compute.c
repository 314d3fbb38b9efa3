// compute.c - outputs that kernels cannot compute, row by row, by the interpreter and all threads.
//
// The kernel has left the columns that an output is computed from (plan/cut.c).  Texts that come out become codes of a
// dictionary made here, so that they are sorted, stored and joined like any other text column.

#include "engine/engine.h"

enum { SCRATCH_ROWS = 256 };           // rows until the memory of texts on the way is given back

typedef struct Computing {
    const View  *inputs;               // what the kernel left
    const int   *places;               // by column of the plan: its number among them
    const Expr  *expr;
    View        *out;
    void        *data;
    u8          *nulls;
    _Atomic bool has_nulls;
    Error       *errors;               // by part: its first
} Computing;

typedef struct Row { const Computing *computing; u64 row; } Row;

static void give_cell(void *context, const Expr *node, Value *value)
{
    const Row  *at = context;
    const View *view = &at->computing->inputs[at->computing->places[node->column]];
    *value = view_value(view, at->row);
}

static weft_status put_cell(const Computing *computing, u64 row, const Value *value, Error *err)
{
    u32 code;
    switch (computing->out->kind) {
        case VIEW_INT:   ((i64 *)computing->data)[row] = (i64)value->i; break;
        case VIEW_FLOAT: ((double *)computing->data)[row] = value->f; break;
        case VIEW_WIDE:  ((i128 *)computing->data)[row] = value->i; break;
        case VIEW_TEXT: case VIEW_CODE:
            TRY(dict_intern(computing->out->dict, value->text.bytes, value->text.length, &code, err));
            ((i64 *)computing->data)[row] = code;
            break;
    }
    return WEFT_OK;
}

static void compute_rows(void *context, int part, u64 first, u64 end)
{
    Computing *computing = context;
    Error     *err = &computing->errors[part];
    Arena     *scratch = NULL;
    for (u64 row = first; row < end && !err->status; row++) {
        if (!scratch) scratch = arena_new(NULL, "computed row");
        Row               at = { computing, row };
        const EvalContext of = { .arena = scratch, .column = give_cell, .context = &at };
        Value             value;
        if (expr_eval(computing->expr, &of, &value, err)) break;
        if (value.is_null) computing->nulls[row] = 1, atomic_store(&computing->has_nulls, true);
        else if (put_cell(computing, row, &value, err)) break;
        if ((row + 1) % SCRATCH_ROWS) continue;
        arena_free(scratch);
        scratch = NULL;
    }
    if (scratch) arena_free(scratch);
}

static void release_dict(void *dict) { dict_release(dict); }

static weft_status compute_output(QueryRun *run, Computing *computing, u64 n_rows)
{
    const Team     team = query_team(run);
    const RowParts parts = team_split(&team, n_rows);
    View          *out = computing->out;
    if (out->kind == VIEW_TEXT) {
        out->kind = VIEW_CODE;
        arena_defer(run->arena, release_dict, out->dict = dict_new(query_budget(run)));
    }
    TRY(query_alloc(run, (n_rows + 1) * (out->kind == VIEW_WIDE ? 16 : 8), &computing->data));
    TRY(query_alloc(run, n_rows + 1, (void **)&computing->nulls));
    computing->errors = arena_array(run->arena, Error, parts.n_parts + 1);
    for (int p = 0; p < parts.n_parts; p++) error_clear(&computing->errors[p]);
    if (!team_rows(&team, &parts, compute_rows, computing)) return query_canceled(run);
    for (int p = 0; p < parts.n_parts; p++)
        if (computing->errors[p].status) {
            *run->err = computing->errors[p];
            return run->err->status;
        }
    out->data = computing->data;
    out->nulls = atomic_load(&computing->has_nulls) ? computing->nulls : NULL;
    if (out->dict) out->dict_count = dict_count(out->dict);
    return WEFT_OK;
}

static int *find_places(QueryRun *run, const Pipeline *pipeline)
{
    int *places = arena_array(run->arena, int, run->plan->n_columns + 1);
    int  n = 0;
    for (int o = 0; o < pipeline->n_outputs; o++) {
        places[pipeline->outputs[o].column] = n++;
        o += expr_is_high_word(pipeline->outputs[o].value);             // two words are one number
    }
    return places;
}

weft_status compute_outputs(QueryRun *run, const Pipeline *pipeline, Finished *out)
{
    const Finish *finish = &pipeline->finish;
    View         *views = arena_array(run->arena, View, finish->n_outputs + 1);
    const int    *places = find_places(run, pipeline);
    for (int o = 0; o < finish->n_outputs; o++) {
        const Expr *expr = finish->outputs[o].value;
        if (expr->kind == EXPR_COLUMN) {
            views[o] = out->views[places[expr->column]];
            continue;
        }
        views[o] = (View){ .kind = view_kind(expr->type), .type = expr->type };
        Computing computing = { .inputs = out->views, .places = places, .expr = expr, .out = &views[o] };
        TRY(compute_output(run, &computing, out->n_rows));
    }
    out->views = views;
    return WEFT_OK;
}
