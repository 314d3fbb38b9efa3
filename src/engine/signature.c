// signature.c - what decides a pipeline's outcome, as text: equal signatures, equal work.
//
// Sources and computed columns ("things") are numbered in the order in which the pipeline tree names them, so queries
// that list
// their tables in another order or under other names agree.  A table is named by its snapshot, which all queries that
// use the piece
// hold.  Its id and version would not do: the tables that are made when asked for (virtual.c) come from stores of their
// own, which
// all count from 1.  Constants are part of it.  So is the device that was asked for.
//
// The signature of a table that is probed is part of the prober's as it stands, after "=", if there is one.  Its
// numbers are its own,
// so the numbers that its things have for the prober follow, in its order.  So each pipeline is written once, and equal
// texts still
// mean equal trees.
//
// A pipeline that reads what another one has stored, or that uses a parameter, has no signature: it is shared with
// nobody.

#include "engine/engine.h"

typedef struct Signer {
    const QueryRun *run;
    Text           *text;
    int            *numbers;           // by thing; 0: none yet
    int             n_things, *things; // in the order of their numbers
    int            *home, *place;      // by column: the pipeline whose table has it, and where; -1: it is computed
    bool            is_private;        // something in it cannot be shared
} Signer;

// A thing is a pipeline that scans, or (past these) a computed column.
static int number_of(Signer *signer, int thing)
{
    if (!signer->numbers[thing]) {
        signer->things[signer->n_things] = thing;
        signer->numbers[thing] = ++signer->n_things;
    }
    return signer->numbers[thing];
}

// A word that stands for itself: no format has to be read.
static void sign_word(Signer *signer, const char *word) { text_add_bytes(signer->text, word, strlen(word)); }

static void sign_value(Signer *signer, const Value *value)
{
    if (value->is_null) {
        sign_word(signer, "null");
    } else if (value->type.kind == TYPE_TEXT) {
        text_add(signer->text, "%u:", value->text.length);
        text_add_bytes(signer->text, value->text.bytes, value->text.length);
    } else if (type_is_float(value->type)) {
        text_add(signer->text, "%a", value->f);
    } else {
        text_add(signer->text, "%llx.%llx", (unsigned long long)(value->i >> 64), (unsigned long long)value->i);
    }
}

static void sign_column(Signer *signer, int column)
{
    const int home = signer->home[column];
    if (home >= 0)
        text_add(signer->text, "(r%d.%d)", number_of(signer, home), signer->place[column]);  // a column has its type
    else text_add(signer->text, "(x%d)", number_of(signer, signer->run->graph->n_pipelines + column));
}

static void sign_expr(Signer *signer, const Expr *expr)
{
    const Type type = expr->type;
    if (expr->kind == EXPR_PARAM) signer->is_private = true;
    if (expr->kind == EXPR_COLUMN) {
        sign_column(signer, expr->column);
        return;
    }
    text_add(signer->text, "(%d.%d.%d.%d op%d ", expr->kind, type.kind, type.precision, type.scale,
             expr->kind == EXPR_CALL ? (int)expr->op : -1);
    if (expr->kind == EXPR_CONST) sign_value(signer, &expr->value);
    for (int i = 0; i < expr->n_args; i++) sign_expr(signer, expr->args[i]);
    sign_word(signer, ")");
}

static void sign_exprs(Signer *signer, const char *what, Expr *const *exprs, int n_exprs)
{
    sign_word(signer, " ");
    sign_word(signer, what);
    for (int i = 0; i < n_exprs; i++) sign_expr(signer, exprs[i]);
}

// A table is widened to cover the column that probes it, and renumbers what is only grouped by: both are part of the
// piece.
static void sign_use(Signer *signer, int number)
{
    const Pipeline *pipeline = &signer->run->graph->pipelines[number];
    const Probe    *probe = query_probe_of(signer->run->graph, number);
    if (query_probe_is_test(probe)) sign_word(signer, " test");   // its table may lack repeated keys
    for (int k = 0; k < probe->n_keys; k++) {
        const Range range = plan_range(signer->run->plan, probe->keys[k]);
        text_add(signer->text, " cover %d %llx %llx", probe->keys[k]->kind, (unsigned long long)range.low,
                 (unsigned long long)range.high);
    }
    for (int p = 0; p < pipeline->n_payload; p++)
        text_add(signer->text, " %d", query_only_grouped_by(signer->run, number, pipeline->payload[p].column));
}

static void sign_pipeline(Signer *signer, int number);

static void sign_build(Signer *signer, int number)
{
    const Signature *made = &signer->run->signatures[number];
    if (!made->text) {
        sign_pipeline(signer, number);
        return;
    }
    sign_word(signer, "=");
    text_add_bytes(signer->text, made->text, made->length);
    for (int r = 0; r < made->n_things; r++) text_add(signer->text, " r%d", number_of(signer, made->things[r]));
}

static void sign_bindings(Signer *signer, const char *what, const Binding *bindings, int n)
{
    sign_word(signer, " ");
    sign_word(signer, what);
    for (int i = 0; i < n; i++) sign_expr(signer, bindings[i].value);
}

static void sign_probe(Signer *signer, const Probe *probe)
{
    text_add(signer->text, " join%d", probe->join);
    if (probe->join == JOIN_MARK) sign_column(signer, probe->mark);
    sign_exprs(signer, "probe", probe->keys, probe->n_keys);
    if (probe->residual) sign_exprs(signer, "if", &probe->residual, 1);
    sign_build(signer, probe->build);
}

static void sign_pipeline(Signer *signer, int number)
{
    const Pipeline *pipeline = &signer->run->graph->pipelines[number];
    if (!pipeline->table) {
        signer->is_private = true;
        return;
    }
    text_add(signer->text, "{r%d=%llx", number_of(signer, number),
             (unsigned long long)(uintptr_t)pipeline->table);   // by the library, %p would take longer
    sign_exprs(signer, "where", pipeline->filters, pipeline->n_filters);
    for (int p = 0; p < pipeline->n_probes && !signer->is_private; p++) sign_probe(signer, &pipeline->probes[p]);
    for (int l = 0; l < pipeline->n_lets; l++) {
        sign_word(signer, " let");
        sign_column(signer, pipeline->lets[l].column);
        sign_expr(signer, pipeline->lets[l].value);
    }
    sign_bindings(signer, "key", pipeline->keys, pipeline->n_keys);
    sign_bindings(signer, "payload", pipeline->payload, pipeline->n_payload);
    if (pipeline->sink == SINK_TABLE) sign_use(signer, number);
    for (int a = 0; a < pipeline->n_aggs; a++) {
        text_add(signer->text, " agg%d", pipeline->aggs[a].kind);
        if (pipeline->aggs[a].arg) sign_expr(signer, pipeline->aggs[a].arg);
    }
    text_add(signer->text, " sink%d", pipeline->sink);
    sign_bindings(signer, "out", pipeline->outputs, pipeline->n_outputs);
    sign_word(signer, "}");
}

static void find_homes(Signer *signer)
{
    const Graph *graph = signer->run->graph;
    Arena       *arena = signer->run->arena;
    const int    n_columns = graph->plan->n_columns;
    signer->numbers = arena_array(arena, int, graph->n_pipelines + n_columns + 1);
    signer->things = arena_array(arena, int, graph->n_pipelines + n_columns + 1);
    signer->home = arena_array(arena, int, n_columns + 1);
    signer->place = arena_array(arena, int, n_columns + 1);
    for (int c = 0; c < n_columns; c++) signer->home[c] = -1;
    for (int p = 0; p < graph->n_pipelines; p++)
        for (int c = 0; graph->pipelines[p].table && c < graph->pipelines[p].n_columns; c++) {
            signer->home[graph->pipelines[p].columns[c]] = p;
            signer->place[graph->pipelines[p].columns[c]] = graph->pipelines[p].places[c];
        }
}

Signature query_signature(const QueryRun *run, int pipeline)
{
    Text      text = { 0 };
    Signer    signer = { .run = run, .text = &text };
    Signature made = { 0 };
    find_homes(&signer);
    text_add(&text, "on%d.%d ", run->session->settings.device, run->session->settings.gpu);
    sign_pipeline(&signer, pipeline);
    made.length = text.length, made.n_things = signer.n_things, made.things = signer.things;
    made.text = text_keep(run->arena, &text);
    if (signer.is_private) made.text = NULL;
    return made;
}
