// explain_json.c - EXPLAIN (FORMAT JSON): the pipelines, and with ANALYZE what each of them did, for programs.
//
// One document in one line.  Keys are always there and in this order, but for "limit", "offset", "parameter",
// "condition", "window", "repeat" and "table", which are there where there is such a thing, and all that a run tells:
// "kernels" and "table" of pipelines, "memory" and "answer" of the whole, which are there after ANALYZE.  Keys are
// added as Weft grows, and keep their meaning.  Times are in milliseconds, sizes in bytes.

#include "engine/engine.h"
#include "engine/remote.h"
#include "plan/window.h"

#include <math.h>

// ---- the words of JSON ----------------------------------------------------------------------------------------------

typedef struct Json { const QueryRun *run; Text *text; bool needs_comma; } Json;

static void separate(Json *json)
{
    if (json->needs_comma) text_add(json->text, ", ");
    json->needs_comma = true;
}

static void add_string(Json *json, const char *string)
{
    text_add(json->text, "\"");
    for (const char *at = string; *at; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') text_add(json->text, "\\%c", byte);
        else if (byte < 0x20) text_add(json->text, "\\u%04x", byte);
        else text_add_bytes(json->text, at, 1);
    }
    text_add(json->text, "\"");
}

static void add_key(Json *json, const char *key)
{
    separate(json);
    text_add(json->text, "\"%s\": ", key);
}

static void open_with(Json *json, const char *key, const char *bracket)
{
    if (key) add_key(json, key);
    else separate(json);
    text_add(json->text, "%s", bracket);
    json->needs_comma = false;
}

static void close_with(Json *json, const char *bracket)
{
    text_add(json->text, "%s", bracket);
    json->needs_comma = true;
}

static void put_string(Json *json, const char *key, const char *string)
{
    if (key) add_key(json, key);
    else separate(json);
    add_string(json, string);
}

static void put_count(Json *json, const char *key, u64 count)
{
    if (key) add_key(json, key);
    else separate(json);
    text_add(json->text, "%llu", (unsigned long long)count);
}

// JSON has no infinity and no NaN.
static void put_number(Json *json, const char *key, double number, int n_digits)
{
    add_key(json, key);
    if (isfinite(number)) text_add(json->text, "%.*f", n_digits, number);
    else text_add(json->text, "null");
}

static void put_bool(Json *json, const char *key, bool value)
{
    add_key(json, key);
    text_add(json->text, value ? "true" : "false");
}

static void put_text(Json *json, const char *key, Text *text)
{
    put_string(json, key, text->bytes ? text->bytes : "");
    text_free(text);
}

static void put_expr(Json *json, const char *key, const Expr *expr)
{
    Text text = { 0 };
    expr_print(expr, json->run->plan, &text);
    put_text(json, key, &text);
}

static void put_exprs(Json *json, const char *key, Expr *const *exprs, int n)
{
    open_with(json, key, "[");
    for (int i = 0; i < n; i++) put_expr(json, NULL, exprs[i]);
    close_with(json, "]");
}

static void put_values(Json *json, const char *key, const Binding *bindings, int n)
{
    open_with(json, key, "[");
    for (int i = 0; i < n; i++) put_expr(json, NULL, bindings[i].value);
    close_with(json, "]");
}

// ---- a pipeline as it is planned ------------------------------------------------------------------------------------

static void put_source(Json *json, const Pipeline *pipeline)
{
    open_with(json, "source", "{");
    put_string(json, "kind",
               pipeline->table ? "scan" : pipeline->sink == SINK_VALUES ? "values" : "read");
    put_string(json, "table", pipeline->table ? pipeline->table->name : "");
    put_string(json, "name", pipeline->name ? pipeline->name : "");
    open_with(json, "pipelines", "[");
    for (int i = 0; i < pipeline->n_inputs; i++) put_count(json, NULL, (u64)pipeline->inputs[i] + 1);
    close_with(json, "]");
    close_with(json, "}");
}

static void put_probe(Json *json, const Probe *probe)
{
    static const char *const names[] = {
        [JOIN_INNER] = "inner", [JOIN_LEFT] = "left",     [JOIN_SEMI] = "semi",
        [JOIN_ANTI] = "anti",   [JOIN_SINGLE] = "single", [JOIN_MARK] = "mark"
    };
    const Pipeline *build = &json->run->graph->pipelines[probe->build];
    open_with(json, NULL, "{");
    put_string(json, "kind", names[probe->join]);
    put_count(json, "pipeline", (u64)probe->build + 1);
    put_exprs(json, "keys", probe->keys, probe->n_keys);
    put_values(json, "table_keys", build->keys, build->n_keys);
    if (probe->residual) put_expr(json, "condition", probe->residual);
    close_with(json, "}");
}

static void put_sink(Json *json, const Pipeline *pipeline)
{
    static const char *const kinds[] = {
        [SINK_TABLE] = "table", [SINK_GROUPS] = "groups", [SINK_ROWS] = "rows", [SINK_VALUES] = "rows"
    };
    open_with(json, "sink", "{");
    put_string(json, "kind", kinds[pipeline->sink]);
    put_values(json, "keys", pipeline->keys, pipeline->n_keys);
    open_with(json, "aggregates", "[");
    for (int a = 0; a < pipeline->n_aggs; a++) {
        Text text = { 0 };
        agg_print(&pipeline->aggs[a], json->run->plan, &text);
        put_text(json, NULL, &text);
    }
    close_with(json, "]");
    if (pipeline->sink == SINK_TABLE) put_values(json, "columns", pipeline->payload, pipeline->n_payload);
    else put_values(json, "columns", pipeline->finish.outputs, pipeline->finish.n_outputs);
    close_with(json, "}");
}

static void put_window(Json *json, const FinishWindows *windows)
{
    Text text = { 0 };
    window_print(json->run->plan, windows->windows, windows->keys, &text);
    put_text(json, "window", &text);
}

static void put_finish(Json *json, const Finish *finish)
{
    put_exprs(json, "having", finish->conditions, finish->n_conditions);
    open_with(json, "order_by", "[");
    for (int k = 0; k < finish->n_sort; k++) {
        open_with(json, NULL, "{");
        put_string(json, "column", json->run->plan->columns[finish->sort[k].column].name);
        put_bool(json, "descending", finish->sort[k].descending);
        put_bool(json, "nulls_first", finish->sort[k].nulls_first);
        close_with(json, "}");
    }
    close_with(json, "]");
    if (finish->limit >= 0) put_count(json, "limit", (u64)finish->limit);
    if (finish->offset > 0) put_count(json, "offset", (u64)finish->offset);
    if (finish->windows) put_window(json, finish->windows);
}

// ---- what it did ----------------------------------------------------------------------------------------------------

static void put_steps(Json *json, const KernelReport *kernel)
{
    open_with(json, "steps", "[");
    for (int c = 0; !kernel->woven_as && c < kernel->woven->n_counts; c++) {
        open_with(json, NULL, "{");
        put_string(json, "after", kernel->woven->counts[c].what);
        put_count(json, "rows", kernel->counts[c]);
        close_with(json, "}");
    }
    close_with(json, "]");
}

static void put_kernel(Json *json, const KernelReport *kernel)
{
    const bool is_on_gpu = kernel->gpu.threads != 0;
    open_with(json, NULL, "{");
    put_string(json, "label", kernel->label);
    put_string(json, "device", kernel->device->name);
    put_string(json, "not_on_gpu", kernel->unsuited ? kernel->unsuited : "");
    put_count(json, "threads", is_on_gpu ? (u64)kernel->gpu.threads : (u64)kernel->n_workers);
    put_count(json, "rows_in", kernel->rows_in);
    put_count(json, "rows_out", kernel->rows_out);
    put_count(json, "bytes_read", kernel->bytes_read);
    put_count(json, "chunks_read", (u64)kernel->chunks_read);
    put_count(json, "chunks_skipped", (u64)kernel->chunks_skipped);
    put_number(json, "time_ms", kernel->time_ms, 3);
    put_number(json, "compile_ms", kernel->compile_ms, 3);
    put_number(json, "kernel_ms", kernel->gpu.kernel_ms, 3);
    put_count(json, "bytes_over_link", kernel->gpu.bytes_host);
    put_count(json, "registers", is_on_gpu ? (u64)kernel->gpu.registers : 0);
    put_bool(json, "generic", kernel->gpu.is_generic);
    put_steps(json, kernel);
    close_with(json, "}");
}

static void put_table(Json *json, const PipelineReport *report)
{
    static const char *const shapes[] = {
        [SHAPE_BITS] = "bits", [SHAPE_DIRECT] = "direct", [SHAPE_HEADS] = "heads", [SHAPE_HASH] = "hash"
    };
    const JoinTable *table = report->table;
    open_with(json, "table", "{");
    put_string(json, "shape", shapes[table->shape]);
    put_bool(json, "unique", table->is_unique);
    put_count(json, "rows", table->n_rows);
    put_count(json, "bytes", table->bytes);
    put_number(json, "build_ms", report->build_ms, 3);
    put_string(json, "device", table->remote ? remote_device(table->remote) : "cpu");
    close_with(json, "}");
}

static void put_repeat(Json *json, const Repeat *repeat, const PipelineReport *report, bool with_figures)
{
    open_with(json, "repeat", "{");
    put_count(json, "first_pipeline", (u64)repeat->first + 1);
    put_bool(json, "all", repeat->is_all);
    if (with_figures) {
        put_count(json, "rounds", report->n_rounds);
        put_count(json, "rows", report->n_round_rows);
        put_number(json, "time_ms", report->rounds_ms, 3);
    }
    close_with(json, "}");
}

// Of a sort that a GPU was asked for.
static void put_sort(Json *json, const SortReport *sort)
{
    if (!sort->device && !sort->refused) return;
    open_with(json, "sort", "{");
    put_string(json, "device", sort->device ? sort->device->name : "cpu");
    if (sort->refused) put_string(json, "refused", sort->refused);
    if (sort->device) {
        put_count(json, "sorts", (u64)sort->n_sorts);
        put_count(json, "rows", sort->n_rows);
        put_count(json, "key_bits", (u64)sort->n_bits);
        put_count(json, "passes", (u64)sort->n_passes);
        put_number(json, "kernel_ms", sort->kernel_ms, 3);
        put_number(json, "time_ms", sort->time_ms, 3);
    }
    close_with(json, "}");
}

static void put_report(Json *json, const PipelineReport *report)
{
    open_with(json, "kernels", "[");
    for (int k = 0; k < report->n_kernels; k++) put_kernel(json, &report->kernels[k]);
    close_with(json, "]");
    if (report->table) put_table(json, report);
    put_sort(json, &report->sort);
    put_number(json, "window_ms", report->window_ms, 3);
}

static void put_pipeline(Json *json, int number, bool with_figures)
{
    const Pipeline *pipeline = &json->run->graph->pipelines[number];
    const Repeat   *repeat = explain_repeat(json->run, number);
    open_with(json, NULL, "{");
    put_count(json, "number", (u64)number + 1);
    put_source(json, pipeline);
    if (pipeline->param >= 0) put_count(json, "parameter", (u64)pipeline->param + 1);
    put_exprs(json, "filters", pipeline->filters, pipeline->n_filters);
    put_values(json, "computes", pipeline->lets, pipeline->n_lets);
    open_with(json, "joins", "[");
    for (int p = 0; p < pipeline->n_probes; p++) put_probe(json, &pipeline->probes[p]);
    close_with(json, "]");
    put_sink(json, pipeline);
    put_finish(json, &pipeline->finish);
    put_number(json, "rows_in_estimated", pipeline->rows_in, 0);
    put_number(json, "rows_out_estimated", pipeline->rows_out, 0);
    put_count(json, "splits", (u64)json->run->reports[number].n_splits);
    if (repeat) put_repeat(json, repeat, &json->run->reports[number], with_figures);
    if (with_figures) put_report(json, &json->run->reports[number]);
    close_with(json, "}");
}

// ---- the document ---------------------------------------------------------------------------------------------------

static void put_memory(Json *json, Claim *claim)
{
    const ClaimFigures figures = claim_figures(claim);
    open_with(json, "memory", "{");
    put_count(json, "estimated_bytes", (u64)figures.wanted);
    put_count(json, "most_bytes", (u64)figures.most);
    put_number(json, "waited_ms", figures.waited_ms, 3);
    put_count(json, "spilled_bytes", (u64)figures.temp_bytes);
    close_with(json, "}");
}

static void put_answer(Json *json, const AnswerFigures *answer)
{
    open_with(json, "answer", "{");
    put_count(json, "rows", answer->n_rows);
    put_number(json, "time_ms", answer->answer_ms, 3);
    put_number(json, "total_ms", answer->total_ms, 3);
    close_with(json, "}");
}

void explain_json(QueryRun *run, const AnswerFigures *answer, Text *text)
{
    Json json = { .run = run, .text = text };
    open_with(&json, NULL, "{");
    put_bool(&json, "analyzed", answer != NULL);
    put_bool(&json, "proved_empty", run->is_empty);
    open_with(&json, "pipelines", "[");
    for (int p = 0; p < run->graph->n_pipelines; p++) put_pipeline(&json, p, answer != NULL);
    close_with(&json, "]");
    if (answer && run->claim) put_memory(&json, run->claim);
    if (answer) put_answer(&json, answer);
    close_with(&json, "}\n");
}
