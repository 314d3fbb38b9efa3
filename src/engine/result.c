// result.c - what the last pipeline left, as the table that the user sees.

#include "engine/engine.h"

#include <stdlib.h>

// ---- memory ---------------------------------------------------------------------------------------------------------

static void release_dict(void *dict) { dict_release(dict); }

weft_result *result_new(weft_db *db)
{
    Arena       *arena = arena_new(NULL, "result");
    weft_result *result = arena_make(arena, weft_result);
    result->arena = arena;
    result->budget = &db->looks;       // a query's result is counted with the query
    return result;
}

weft_status result_alloc(weft_result *result, size_t bytes, void **out, Error *err)
{
    return counted_alloc(result->arena, result->budget, bytes, out, err);
}

void result_add_notice(weft_result *result, const char *notice)
{
    *LIST_PUSH(result->arena, result->notices, result->n_notices) = arena_strdup(result->arena, notice);
}

void result_add_notices(weft_result *result, const QueryRun *run)
{
    for (int i = 0; i < run->n_notices; i++) result_add_notice(result, run->notices[i]);
}

// ---- copying out ----------------------------------------------------------------------------------------------------

static weft_type public_type(Type type)
{
    static const weft_type types[] = {
        [TYPE_BOOLEAN] = WEFT_BOOLEAN, [TYPE_SMALLINT] = WEFT_SMALLINT, [TYPE_INTEGER] = WEFT_INTEGER,
        [TYPE_BIGINT] = WEFT_BIGINT,   [TYPE_DECIMAL] = WEFT_DECIMAL,   [TYPE_REAL] = WEFT_REAL,
        [TYPE_DOUBLE] = WEFT_DOUBLE,   [TYPE_DATE] = WEFT_DATE,         [TYPE_TEXT] = WEFT_TEXT,
        [TYPE_NUMERIC] = WEFT_NUMERIC, [TYPE_INTERVAL] = WEFT_INTERVAL, [TYPE_NULL] = WEFT_TEXT,
        [TYPE_TIMESTAMP] = WEFT_TIMESTAMP, [TYPE_TIMESTAMPTZ] = WEFT_TIMESTAMPTZ, [TYPE_TIME] = WEFT_TIME
    };
    if (type_is_uuid(type)) return WEFT_UUID;
    return types[type.kind];
}

static weft_int128 widened(i64 value) { return (weft_int128){ (u64)value, value < 0 ? -1 : 0 }; }

static void copy_cell(const View *view, u64 from, void *data, u64 to)
{
    switch (view->kind) {
        case VIEW_INT:
            if (view->type.kind == TYPE_NUMERIC) ((weft_int128 *)data)[to] = widened(((const i64 *)view->data)[from]);
            else ((i64 *)data)[to] = ((const i64 *)view->data)[from];
            break;
        case VIEW_FLOAT: ((double *)data)[to] = ((const double *)view->data)[from]; break;
        case VIEW_WIDE: {
            const i128 wide = ((const i128 *)view->data)[from];
            ((weft_int128 *)data)[to] = (weft_int128){ (u64)wide, (i64)(wide >> 64) };
            break;
        }
        case VIEW_TEXT: ((weft_text *)data)[to] = ((const weft_text *)view->data)[from]; break;
        case VIEW_CODE: ((weft_text *)data)[to] = dict_get(view->dict, (u32)((const i64 *)view->data)[from]); break;
    }
}

static void copy_interval(weft_result *result, const View *view, u64 from, weft_text *out)
{
    char        buffer[128];
    const Value value = { .type = view->type, .i = ((const i128 *)view->data)[from] };
    out->length = value_format(&value, buffer, sizeof buffer);
    out->bytes = arena_strdup(result->arena, buffer);
}

static weft_status copy_shown(QueryRun *run, weft_result *result, const View *view, const Order *order,
                              weft_column *column)
{
    u8 *shown;
    if (!type_is_quotient(view->type)) return WEFT_OK;
    TRY(result_alloc(result, order->n_rows + 1, (void **)&shown, run->err));
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64 from = order->rows ? order->rows[order->first + r] : order->first + r;
        if (query_should_stop(run, r)) return query_canceled(run);
        if (view->nulls && view->nulls[from]) continue;
        const weft_int128 number = column->i128[r];
        const Value value = { .type = view->type, .shown = view->shown ? view->shown[from] : 0,
                              .i = (i128)((u128)number.low | (u128)(u64)number.high << 64) };
        shown[r] = (u8)value_shown(&value);
    }
    column->shown = shown;
    return WEFT_OK;
}

static weft_status copy_column(QueryRun *run, weft_result *result, const View *view, const Order *order,
                               const char *name, weft_column *out)
{
    const bool   is_small = (view->kind == VIEW_INT && view->type.kind != TYPE_NUMERIC) || view->kind == VIEW_FLOAT;
    const size_t size = is_small ? 8 : 16;
    void        *data;
    u8          *nulls = NULL;
    TRY(result_alloc(result, order->n_rows * size + 16, &data, run->err));
    if (view->nulls) TRY(result_alloc(result, order->n_rows + 1, (void **)&nulls, run->err));
    bool any = false;
    for (u64 r = 0; r < order->n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        const u64 from = order->rows ? order->rows[order->first + r] : order->first + r;
        if (view->nulls && view->nulls[from]) {
            nulls[r] = 1, any = true;
            if (size == 16 && view->type.kind != TYPE_NUMERIC) ((weft_text *)data)[r].bytes = "";
            continue;
        }
        if (view->type.kind == TYPE_INTERVAL) copy_interval(result, view, from, &((weft_text *)data)[r]);
        else copy_cell(view, from, data, r);
    }
    if (view->dict) arena_defer(result->arena, release_dict, dict_hold(view->dict));
    *out = (weft_column){ .name = arena_strdup(result->arena, name),
                          .type = public_type(view->type),
                          .precision = type_is_quotient(view->type) ? 38 : view->type.precision,
                          .scale = view->type.scale,
                          .is_null = any ? nulls : NULL,
                          .i64 = data };
    return copy_shown(run, result, view, order, out);
}

// ---- the answer -----------------------------------------------------------------------------------------------------

static weft_status keep_texts(QueryRun *run, weft_result *result, weft_text *texts)
{
    char  *bytes;
    size_t n_bytes = 0;
    for (size_t r = 0; r < result->n_rows; r++) n_bytes += texts[r].length + 1;
    TRY(result_alloc(result, n_bytes + 1, (void **)&bytes, run->err));
    for (size_t r = 0; r < result->n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        if (texts[r].length) memcpy(bytes, texts[r].bytes, texts[r].length);   // zeroed: the NUL is there
        texts[r].bytes = bytes;
        bytes += texts[r].length + 1;
    }
    return WEFT_OK;
}

// Texts of a dictionary stay there, and the result holds it (copy_column); others move to the result.
static weft_status copy_out(QueryRun *run, weft_result *result, const Finished *finished)
{
    const Plan *plan = run->plan;
    result->n_rows = finished->order.n_rows;
    result->n_columns = plan->n_visible;
    result->columns = arena_array(result->arena, weft_column, plan->n_visible + 1);
    for (int c = 0; c < plan->n_visible; c++) {
        const View *view = &finished->views[c];
        TRY(copy_column(run, result, view, &finished->order, plan->names[c], &result->columns[c]));
        if (view->kind == VIEW_TEXT && !view->dict) TRY(keep_texts(run, result, (weft_text *)result->columns[c].text));
    }
    return WEFT_OK;
}

// Blocks of a dictionary's file are read when their texts are asked for, and those of a damaged block are empty: no
// answer may be made of them.
static weft_status check_texts(QueryRun *run)
{
    for (int p = 0; p < run->graph->n_pipelines; p++) {
        const Pipeline *pipeline = &run->graph->pipelines[p];
        for (int i = 0; pipeline->table && i < pipeline->n_columns; i++) {
            const Column *column = &pipeline->table->columns[pipeline->places[i]];
            if (column->dict) TRY(dict_status(column->dict, run->err));
        }
    }
    return WEFT_OK;
}

weft_status result_from_query(QueryRun *run, weft_result *result)
{
    const int       last = run->graph->n_pipelines - 1;
    const Pipeline *pipeline = &run->graph->pipelines[last];
    Finished        finished;
    if (run->is_empty) TRY(finish_nothing(run, &pipeline->finish, &finished));
    else TRY(finish_pipeline(run, last, run->last, run->last_woven, false, false, &finished));
    TRY(copy_out(run, result, &finished));
    return check_texts(run);
}

weft_status result_from_lines(weft_result *result, const char *name, const char *lines, Error *err)
{
    size_t     n_lines = 0;
    weft_text *texts;
    for (const char *c = lines; *c; c++) n_lines += *c == '\n';
    TRY(result_alloc(result, (n_lines + 1) * sizeof *texts, (void **)&texts, err));
    for (size_t n = 0; n < n_lines; n++) {
        const char *end = strchr(lines, '\n');
        texts[n] = (weft_text){ arena_strndup(result->arena, lines, (size_t)(end - lines)), (size_t)(end - lines) };
        lines = end + 1;
    }
    result->n_rows = n_lines, result->n_columns = 1;
    result->columns = arena_make(result->arena, weft_column);
    *result->columns = (weft_column){ .name = arena_strdup(result->arena, name), .type = WEFT_TEXT, .text = texts };
    return WEFT_OK;
}

// ---- looking at results ---------------------------------------------------------------------------------------------

size_t             weft_result_rows(const weft_result *result) { return result->n_rows; }
int                weft_result_columns(const weft_result *result) { return result->n_columns; }
const weft_column *weft_result_column(const weft_result *result, int column)
{
    return column < 0 || column >= result->n_columns ? NULL : &result->columns[column];
}
const char        *weft_result_tag(const weft_result *result) { return result->tag; }
int                weft_result_notices(const weft_result *result) { return result->n_notices; }
const char *weft_result_notice(const weft_result *result, int n)
{
    return n < 0 || n >= result->n_notices ? NULL : result->notices[n];
}

void weft_result_free(weft_result *result)
{
    if (result) arena_free(result->arena);
}

static Type internal_type(const weft_column *column)
{
    static const TypeKind kinds[] = {
        [WEFT_BOOLEAN] = TYPE_BOOLEAN, [WEFT_SMALLINT] = TYPE_SMALLINT, [WEFT_INTEGER] = TYPE_INTEGER,
        [WEFT_BIGINT] = TYPE_BIGINT,   [WEFT_DECIMAL] = TYPE_DECIMAL,   [WEFT_NUMERIC] = TYPE_NUMERIC,
        [WEFT_REAL] = TYPE_REAL,       [WEFT_DOUBLE] = TYPE_DOUBLE,     [WEFT_DATE] = TYPE_DATE,
        [WEFT_TEXT] = TYPE_TEXT,       [WEFT_TIMESTAMP] = TYPE_TIMESTAMP, [WEFT_TIMESTAMPTZ] = TYPE_TIMESTAMPTZ,
        [WEFT_TIME] = TYPE_TIME,       [WEFT_INTERVAL] = TYPE_TEXT,     [WEFT_UUID] = TYPE_TEXT
    };
    return (Type){ .kind = (u8)kinds[column->type], .precision = (u8)column->precision, .scale = (u8)column->scale };
}

size_t weft_format(const weft_result *result, int number, size_t row, char *buffer, size_t capacity)
{
    const weft_column *column = weft_result_column(result, number);
    if (capacity) buffer[0] = 0;
    if (!column || row >= result->n_rows || (column->is_null && column->is_null[row])) return 0;
    Value value = { .type = internal_type(column) };
    switch (column->type) {
        case WEFT_REAL: case WEFT_DOUBLE: value.f = column->f64[row]; break;
        case WEFT_NUMERIC:
            value.i = (i128)((u128)column->i128[row].low | (u128)(u64)column->i128[row].high << 64);
            if (column->shown) value.shown = (u8)(column->shown[row] + 1);
            break;
        case WEFT_TEXT: case WEFT_INTERVAL: case WEFT_UUID:
            value.text.bytes = column->text[row].bytes, value.text.length = (u32)column->text[row].length;
            break;
        default: value.i = column->i64[row]; break;
    }
    return value_format(&value, buffer, capacity);
}

const char *weft_type_name(weft_type type)
{
    static const char *const names[] = {
        [WEFT_BOOLEAN] = "boolean", [WEFT_SMALLINT] = "smallint",       [WEFT_INTEGER] = "integer",
        [WEFT_BIGINT] = "bigint",   [WEFT_DECIMAL] = "decimal",         [WEFT_NUMERIC] = "numeric",
        [WEFT_REAL] = "real",       [WEFT_DOUBLE] = "double precision", [WEFT_DATE] = "date",
        [WEFT_TEXT] = "text",       [WEFT_TIMESTAMP] = "timestamp",     [WEFT_TIMESTAMPTZ] = "timestamptz",
        [WEFT_TIME] = "time",       [WEFT_INTERVAL] = "interval",       [WEFT_UUID] = "uuid"
    };
    return (unsigned)type < COUNT_OF(names) ? names[type] : "?";
}
