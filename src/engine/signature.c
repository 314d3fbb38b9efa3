// signature.c - what decides a pipeline's outcome, as text: equal signatures, equal work.
//
// Relations are numbered in the order in which the pipeline tree names them, so queries that list their tables in another order or
// under other names agree.  A table is named by its snapshot, which all who use the piece hold.  Its id and version would not do: the
// tables that are made when asked for (virtual.c) come from stores of their own, which all count from 1.  Constants are part of it.
// So is the device that was asked for: who asked for a GPU is not given what another had the CPU do.
//
// The signature of a table that is probed is part of the prober's as it stands, after "=", if there is one.  Its numbers are its own, so the
// numbers that its relations have for the prober follow, in its order.  So each pipeline is written once, and equal texts still mean equal trees.

#include "engine/engine.h"

typedef struct Signer { const QueryRun *run; Text *text; int number[MAX_RELATIONS]; u8 order[MAX_RELATIONS]; int n_numbers; } Signer;

static int number_of(Signer *signer, int relation)
{
    if (!signer->number[relation]) {
        signer->order[signer->n_numbers] = (u8)relation;
        signer->number[relation] = ++signer->n_numbers;
    }
    return signer->number[relation];
}

static void sign_value(Signer *signer, const Value *value)
{
    if (value->is_null) {
        text_add(signer->text, "null");
    } else if (value->type.kind == TYPE_TEXT) {
        text_add(signer->text, "%u:", value->text.length);
        text_add_bytes(signer->text, value->text.bytes, value->text.length);
    } else if (type_is_float(value->type)) {
        text_add(signer->text, "%a", value->f);
    } else {
        text_add(signer->text, "%llx.%llx", (unsigned long long)(value->i >> 64), (unsigned long long)value->i);
    }
}

static void sign_expr(Signer *signer, const Expr *expr)
{
    const Type type = expr->type;
    if (expr->kind == EXPR_COLUMN) {
        text_add(signer->text, "(r%d.%d)", number_of(signer, expr->relation), expr->column);   // a column has its type
        return;
    }
    text_add(signer->text, "(%d.%d.%d.%d op%d ", expr->kind, type.kind, type.precision, type.scale, expr->kind == EXPR_CALL ? (int)expr->op : -1);
    if (expr->kind == EXPR_CONST) sign_value(signer, &expr->value);
    for (int i = 0; i < expr->n_args; i++) sign_expr(signer, expr->args[i]);
    text_add_bytes(signer->text, ")", 1);
}

static void sign_exprs(Signer *signer, const char *what, Expr *const *exprs, int n_exprs)
{
    text_add(signer->text, " %s", what);
    for (int i = 0; i < n_exprs; i++) sign_expr(signer, exprs[i]);
}

// A table is widened to cover the column that probes it, and renumbers what is only grouped by: both are part of the piece.
static void sign_use(Signer *signer, int number)
{
    const Pipeline *pipeline = &signer->run->plan->pipelines[number];
    const Probe    *probe = query_probe_of(signer->run->plan, number);
    for (int k = 0; k < probe->n_keys; k++) {
        const Range range = range_of(probe->keys[k], query_column_range, (void *)signer->run);
        text_add(signer->text, " cover %d %llx %llx", probe->keys[k]->kind, (unsigned long long)range.low, (unsigned long long)range.high);
    }
    for (int p = 0; p < pipeline->n_payload; p++)
        text_add(signer->text, " %d", query_only_grouped_by(signer->run, number, pipeline->payload[p]));
}

static void sign_pipeline(Signer *signer, int number);

static void sign_build(Signer *signer, int number)
{
    const Signature *made = &signer->run->signatures[number];
    if (!made->text) {
        sign_pipeline(signer, number);
        return;
    }
    text_add_bytes(signer->text, "=", 1);
    text_add_bytes(signer->text, made->text, made->length);
    for (int r = 0; r < made->n_relations; r++) text_add(signer->text, " r%d", number_of(signer, made->relations[r]));
}

static void sign_pipeline(Signer *signer, int number)
{
    const Pipeline *pipeline = &signer->run->plan->pipelines[number];
    const Table    *table = signer->run->query->relations[pipeline->relation].table;
    text_add(signer->text, "{r%d=%p", number_of(signer, pipeline->relation), (const void *)table);
    sign_exprs(signer, "where", pipeline->filters, pipeline->n_filters);
    for (int p = 0; p < pipeline->n_probes; p++) {
        sign_exprs(signer, "probe", pipeline->probes[p].keys, pipeline->probes[p].n_keys);
        sign_build(signer, pipeline->probes[p].build);
    }
    sign_exprs(signer, "key", pipeline->keys, pipeline->n_keys);
    text_add(signer->text, " payload");
    for (int p = 0; p < pipeline->n_payload; p++)
        text_add(signer->text, " r%d.%d", number_of(signer, pipeline->payload[p].relation), pipeline->payload[p].column);
    if (pipeline->sink == SINK_TABLE) sign_use(signer, number);
    text_add(signer->text, "}");
}

static Signature keep_signature(Signer *signer)
{
    Signature made = { .length = signer->text->length, .n_relations = signer->n_numbers };
    made.relations = arena_array(signer->run->arena, u8, signer->n_numbers + 1);
    memcpy(made.relations, signer->order, (size_t)signer->n_numbers);
    made.text = text_keep(signer->run->arena, signer->text);
    return made;
}

Signature query_signature(const QueryRun *run, int pipeline)
{
    Text         text = { 0 };
    Signer       signer = { .run = run, .text = &text };
    const Query *query = run->query;
    text_add(&text, "on%d.%d ", run->session->settings.device, run->session->settings.gpu);
    sign_pipeline(&signer, pipeline);
    if (run->plan->pipelines[pipeline].sink != SINK_TABLE) {
        sign_exprs(&signer, "group", query->keys, query->n_keys);
        for (int a = 0; a < query->n_aggs; a++) {
            text_add(&text, " agg%d", query->aggs[a].kind);
            if (query->aggs[a].arg) sign_expr(&signer, query->aggs[a].arg);
        }
        text_add(&text, " grouped%d out", query->is_grouped);
        for (int o = 0; !query->is_grouped && o < query->n_outputs; o++) sign_expr(&signer, query->outputs[o].expr);
    }
    return keep_signature(&signer);
}
