// weave.c - one kernel from the steps of a pipeline.
//
// Same work, same text, byte for byte: names come from columns, numbers from the order of use, and the kernel's own
// name is
// the hash of its text.  value.c, steps.c, probe.c and sink.c put the kernel together, print.c writes it.

#include "weave/weave_int.h"

#include <stdlib.h>

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

static void add_source_vars(Weaver *w)
{
    for (int c = 0; c < w->job->source->n_columns; c++) {
        const SourceColumn *column = &w->job->source->columns[c];
        *LIST_PUSH(w->arena, w->vars, w->n_vars) = (Var){
            .id = column->id, .name = weave_name(w, column->name), .type = column->type, .dict = column->dict,
            .dict_count = column->dict_count, .range = column->range, .source = c, .width = column->width, .column = -1,
        };
    }
}

// ---- the whole ------------------------------------------------------------------------------------------------------

static const char *title(Weaver *w)
{
    TakenNames names = names_begin(w->arena);  // titles pass the same alphabet as identifiers
    const char *separator = ": ";
    Text        text = { 0 };
    text_add(&text, "%s", names_new(&names, w->job->source->name));
    for (int s = 0; s < w->job->n_steps; s++) {
        const WeaveStep *step = &w->job->steps[s];
        if (step->table)
            text_add(&text, "%s%s %s", separator, weave_join_name(step), names_new(&names, step->table->name));
        else if (s == 0 && step->filter) text_add(&text, "%sfilter", separator);
        else continue;
        separator = ", ";
    }
    text_add(&text, "%s%s", separator, w->job->sink == SINK_GROUPS ? (w->job->n_keys ? "groups" : "totals") : "rows");
    return text_keep(w->arena, &text);
}

#define PICK_COLUMNS 16                // gathered columns lie on the stack

// Rows can be gathered where columns are of one width and without NULLs, and there are not too many of them.
static bool can_pick(const WeaveJob *job)
{
    const Source *source = job->source;
    bool ok = source->from_store && job->sink != SINK_TABLE && job->n_steps > 0 && source->n_columns <= PICK_COLUMNS;
    for (int c = 0; c < source->n_columns; c++)
        ok = ok && source->columns[c].width && !source->columns[c].range.nullable;
    return ok;
}

void weave_step_columns(Arena *arena, const WeaveStep *step, ColumnSet *columns)
{
    if (step->filter) columns_add_expr(arena, columns, step->filter);
    if (step->value) columns_add_expr(arena, columns, step->value);
    if (step->residual) columns_add_expr(arena, columns, step->residual);
    for (int k = 0; step->table && k < step->table->n_keys; k++) columns_add_expr(arena, columns, step->keys[k]);
}

// Everything but the steps that a sieve makes sure of (see weave_tests and probe_plain).  Filters after a probe are
// never that, and may use
// columns that are not there yet.
static void find_later_columns(Weaver *w)
{
    const WeaveJob *job = w->job;
    bool            is_first = true;
    for (int s = 0; s < job->n_steps; s++) {
        const WeaveStep *step = &job->steps[s];
        is_first = is_first && step->filter;
        if (is_first && weave_is_range(w, step->filter)) continue;
        if (!step->table || !weave_is_sure_probe(w, step)) weave_step_columns(w->arena, step, &w->later);
        else if (step->residual) columns_add_expr(w->arena, &w->later, step->residual);
    }
    for (int k = 0; k < job->n_keys; k++) columns_add_expr(w->arena, &w->later, job->keys[k]);
    for (int a = 0; a < job->n_aggs; a++)
        if (job->aggs[a].arg) columns_add_expr(w->arena, &w->later, job->aggs[a].arg);
    if (job->weight) columns_add_expr(w->arena, &w->later, job->weight);
    for (int o = 0; o < job->n_outputs; o++) columns_add_expr(w->arena, &w->later, job->outputs[o]);
}

static weft_status write_kernel(Weaver *w)
{
    w->done = arena_array(w->arena, bool, w->job->n_steps + 1);
    w->out->can_pick = w->ir->can_pick = can_pick(w->job);
    if (w->out->can_pick) find_later_columns(w);
    w->live = "live";
    w->is_all = true;
    weave_on_stack(w, 4);              // and its mask
    TRY(weave_tests(w));
    for (int step = 0; step < w->job->n_steps; step++) {
        const WeaveStep *next = &w->job->steps[step];
        if (w->done[step]) continue;
        if (next->table) TRY(weave_probe(w, next, step));
        else if (next->value) TRY(weave_let(w, next));
        else TRY(weave_filter(w, next->filter, step));
    }
    return w->job->sink == SINK_GROUPS ? weave_groups(w) : weave_rows(w);
}

weft_status weave(Arena *arena, const WeaveJob *job, Woven **out, Error *err)
{
    Weaver w = { .arena = arena,
                 .job = job,
                 .err = err,
                 .out = arena_make(arena, Woven),
                 .ir = arena_make(arena, Ir),
                 .names = names_begin(arena) };
    w.max_rows = (double)job->source->n_rows;
    w.pass = 1;
    w.out->fan_out = 1;
    w.out->ir = w.ir;
    w.ir->title = title(&w);
    add_source_vars(&w);
    const weft_status status = write_kernel(&w);
    if (!status) texts_get(arena, w.ir, &w.out->name, &w.out->text);
    w.out->has_matches = ir_has_matches(w.ir);
    text_free(&w.block);
    *out = w.out;
    return status;
}
