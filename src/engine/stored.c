// stored.c - rows that a pipeline left, as the source of later ones.
//
// Each column becomes cells of 8 bytes: numbers, doubles, or codes of a dictionary.  Those of groups that were put into
// columns (finish.c) are that already, and are not copied.  What is known of the rows now is exact, so ranges are
// measured here, by all threads, and kernels over the rows can rest on them.  Several pipelines can be read one after
// the other (UNION ALL): a chunk each, and one dictionary for a text column of all of them.

#include "engine/wide.h"

#define STORED_CHUNK_ROWS (1u << 30)
#define COMPILE_ROWS ((u64)1 << 23)      // so many are worth waiting for the compiler (as in table.c)

static void release_dict(void *dict) { dict_release(dict); }

static Dictionary *keep_dict(QueryRun *run, Dictionary *dict)
{
    if (dict) arena_defer(run->arena, release_dict, dict_hold(dict));
    return dict;
}

static u64 row_of(const Order *order, u64 r) { return order->rows ? order->rows[order->first + r] : order->first + r; }

// ---- one column -----------------------------------------------------------------------------------------------------

// The cell of ROW, which is not NULL, as 8 bytes.
static weft_status cell_of(QueryRun *run, const View *view, Dictionary *dict, u64 row, i64 *cell)
{
    u32 code;
    switch (view->kind) {
        case VIEW_INT: case VIEW_FLOAT: case VIEW_CODE: break;                 // see copy_plain_cells
        case VIEW_WIDE:
            if (view->type.kind == TYPE_INTERVAL)
                return fail(run->err, WEFT_UNSUPPORTED, -1,
                            "an interval among the rows of a subquery is not supported yet");
            *cell = (i64)((const i128 *)view->data)[row];   // the low word
            return WEFT_OK;
        case VIEW_TEXT: break;
    }
    ASSERT(view->kind == VIEW_TEXT);
    const weft_text *text = &((const weft_text *)view->data)[row];
    TRY(dict_intern(dict, text->bytes, text->length, &code, run->err));
    *cell = code;
    return WEFT_OK;
}

static weft_status copy_cells(QueryRun *run, const View *view, const Order *order, Dictionary *dict, i64 *cells,
                              u64 **valid)
{
    u64 n_null = 0;
    *valid = NULL;
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64 row = row_of(order, r);
        if (query_should_stop(run, r)) return query_canceled(run);
        if (!view->nulls || !view->nulls[row]) TRY(cell_of(run, view, dict, row, &cells[r]));
        else n_null++;
    }
    if (!n_null) return WEFT_OK;
    TRY(query_alloc(run, order->n_rows / 8 + 64, (void **)valid));
    for (u64 r = 0; r < order->n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        if (!view->nulls[row_of(order, r)]) (*valid)[r >> 6] |= (u64)1 << (r & 63);
    }
    return WEFT_OK;
}

// Cells as they lie in the view, by all threads.
typedef struct CellCopy {
    const View  *view;
    const Order *order;
    i64         *cells;
    u64         *valid;                // of a view with NULLs
    _Atomic bool has_nulls;
} CellCopy;

static void copy_part(void *context, int part, u64 first, u64 end)
{
    CellCopy  *copy = context;
    const i64 *from = copy->view->data;
    const u8  *nulls = copy->view->nulls;
    bool       has_nulls = false;
    (void)part;
    for (u64 r = first; r < end; r++) {
        const u64 row = row_of(copy->order, r);
        copy->cells[r] = from[row];
        if (!nulls) continue;
        has_nulls |= nulls[row] != 0;
        copy->valid[r >> 6] |= (u64)!nulls[row] << (r & 63);
    }
    if (has_nulls) atomic_store_explicit(&copy->has_nulls, true, memory_order_relaxed);
}

static weft_status copy_plain_cells(QueryRun *run, const View *view, const Order *order, i64 *cells, u64 **valid)
{
    const Team     team = query_team(run);
    const RowParts parts = team_split(&team, order->n_rows);
    CellCopy       copy = { .view = view, .order = order, .cells = cells };
    *valid = NULL;
    if (view->nulls) TRY(query_alloc(run, order->n_rows / 8 + 64, (void **)&copy.valid));
    if (!team_rows(&team, &parts, copy_part, &copy)) return query_canceled(run);
    if (copy.has_nulls) *valid = copy.valid;
    return WEFT_OK;
}

static bool is_plain(const View *view)
{
    return view->kind == VIEW_INT || view->kind == VIEW_FLOAT || view->kind == VIEW_CODE;
}

static bool is_valid(const u64 *valid, u64 r) { return !valid || (valid[r >> 6] >> (r & 63) & 1); }

typedef struct CellSpan { i64 low, high; } CellSpan;

typedef struct CellLook { const u64 *valid; const i64 *cells; CellSpan *spans; } CellLook;     // spans: by part

static void look_at_cells(void *context, int part, u64 first, u64 end)
{
    const CellLook *look = context;
    i64             low = look->spans[part].low, high = look->spans[part].high;
    for (u64 r = first; r < end; r++) {
        if (!is_valid(look->valid, r)) continue;
        low = MIN_OF(low, look->cells[r]), high = MAX_OF(high, look->cells[r]);
    }
    look->spans[part].low = low, look->spans[part].high = high;
}

// Cells of NULL rows get a value of the range, since kernels may compute with them before they look at the bits.
static weft_status measure(QueryRun *run, StoredColumn *column, i64 *cells, u64 n_rows)
{
    const Team     team = query_team(run);
    const RowParts parts = team_split(&team, n_rows);
    CellLook       look = { column->valid, cells, NULL };
    i64            low = INT64_MAX, high = INT64_MIN;
    column->range = range_of_type(column->type);
    column->range.nullable = column->valid != NULL;
    if (type_is_float(column->type)) return WEFT_OK;
    look.spans = arena_array(run->arena, CellSpan, parts.n_parts);
    for (int p = 0; p < parts.n_parts; p++) look.spans[p] = (CellSpan){ INT64_MAX, INT64_MIN };
    if (!team_rows(&team, &parts, look_at_cells, &look)) return query_canceled(run);
    for (int p = 0; p < parts.n_parts; p++)
        low = MIN_OF(low, look.spans[p].low), high = MAX_OF(high, look.spans[p].high);
    column->range.known = true, column->range.low = low, column->range.high = high;
    if (low > high) column->range.low = 0, column->range.high = -1;
    for (u64 r = 0; column->valid && r < n_rows; r++)
        if (!is_valid(column->valid, r)) cells[r] = low > high ? 0 : low;
    return WEFT_OK;
}

// ---- numbers of 128 bits: a column of high words beside the low ones ------------------------------------------------

static bool is_null_at(const View *view, u64 row) { return view->nulls && view->nulls[row]; }

// RANGE stays empty where all rows are NULL.
static weft_status find_wide_range(QueryRun *run, const View *view, const Order *order, Range *range)
{
    *range = (Range){ .known = true, .low = 0, .high = -1 };
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64  row = row_of(order, r);
        const i128 value = ((const i128 *)view->data)[row];
        if (query_should_stop(run, r)) return query_canceled(run);
        if (is_null_at(view, row)) continue;
        if (range->low > range->high) range->low = range->high = value;
        range->low = MIN_OF(range->low, value), range->high = MAX_OF(range->high, value);
    }
    return WEFT_OK;
}

// Words of NULL rows get values of the range, as in measure.  A range of more than 120 bits is not known (plan.h).
static weft_status keep_high_words(QueryRun *run, const View *view, const Order *order, Range range, i64 *cells,
                                   StoredColumn *out)
{
    const i128 limit = (i128)1 << 120;
    i64       *high;
    TRY(query_alloc(run, order->n_rows * 8 + 64, (void **)&high));
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64  row = row_of(order, r);
        const i128 value = is_null_at(view, row) ? range.low : ((const i128 *)view->data)[row];
        if (query_should_stop(run, r)) return query_canceled(run);
        high[r] = wide_high_word(value), cells[r] = (i64)value;
    }
    out->high = high;
    out->range = range.low < -limit || range.high > limit ? range_of_type(view->type) : range;
    out->range.nullable = out->valid != NULL;
    out->high_low = wide_high_word(range.low), out->high_high = wide_high_word(range.high);
    return WEFT_OK;
}

static weft_status keep_cells(QueryRun *run, const View *view, const Finished *finished, Dictionary *dict, i64 **cells,
                              u64 **valid)
{
    const Order *order = &finished->order;
    *valid = NULL, *cells = (i64 *)(uintptr_t)view->data;
    if (finished->is_lasting && is_plain(view) && !view->nulls && !order->rows && !order->first) return WEFT_OK;
    TRY(query_alloc(run, order->n_rows * 8 + 64, (void **)cells));
    return is_plain(view) ? copy_plain_cells(run, view, order, *cells, valid)
                          : copy_cells(run, view, order, dict, *cells, valid);
}

static weft_status keep_column(QueryRun *run, const View *view, const Finished *finished, StoredColumn *out)
{
    const Order *order = &finished->order;
    i64 *cells;
    u64 *valid;
    *out = (StoredColumn){ .type = view->type };
    if (view->type.kind == TYPE_NULL) out->type = TYPE(TEXT);
    if (view->kind == VIEW_CODE) out->dict = keep_dict(run, view->dict), out->dict_count = view->dict_count;
    if (view->kind == VIEW_TEXT) arena_defer(run->arena, release_dict, out->dict = dict_new(query_budget(run)));
    TRY(keep_cells(run, view, finished, out->dict, &cells, &valid));
    if (view->kind == VIEW_TEXT) out->dict_count = dict_count(out->dict);
    out->cells = cells, out->valid = valid;
    if (view->kind == VIEW_WIDE) {
        Range range;
        TRY(find_wide_range(run, view, order, &range));
        if (!range_is_word(range)) return keep_high_words(run, view, order, range, cells, out);
    }
    return measure(run, out, cells, order->n_rows);
}

weft_status stored_keep(QueryRun *run, int number, const Finished *finished, Stored **out)
{
    const Finish *finish = &run->graph->pipelines[number].finish;
    Stored       *stored = *out = arena_make(run->arena, Stored);
    stored->n_rows = finished->order.n_rows;
    stored->columns = arena_array(run->arena, StoredColumn, finish->n_outputs + 1);
    for (int o = 0; o < finish->n_outputs; o++)
        TRY(keep_column(run, &finished->views[o], finished, &stored->columns[o]));
    return WEFT_OK;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

Value view_value(const View *view, u64 row)
{
    Value value = { .type = view->type, .is_null = view->nulls && view->nulls[row] };
    if (value.is_null) return value;
    switch (view->kind) {
        case VIEW_INT:   value.i = ((const i64 *)view->data)[row]; break;
        case VIEW_FLOAT: value.f = ((const double *)view->data)[row]; break;
        case VIEW_WIDE:
            value.i = ((const i128 *)view->data)[row];
            if (view->shown) value.shown = view->shown[row];
            break;
        case VIEW_TEXT: case VIEW_CODE: {
            const weft_text text = view->kind == VIEW_TEXT ? ((const weft_text *)view->data)[row]
                                                           : dict_get(view->dict, (u32)((const i64 *)view->data)[row]);
            value.text.bytes = text.bytes, value.text.length = (u32)text.length;
            break;
        }
    }
    return value;
}

weft_status stored_param(QueryRun *run, int number, const Finished *finished)
{
    const int        param = run->graph->pipelines[number].param;
    const PlanParam *wanted = &run->plan->params[param];
    const u64        n_rows = finished->order.n_rows;
    if (n_rows > 1)
        return fail(run->err, WEFT_CARDINALITY, wanted->at,
                    "more than one row returned by a subquery used as an expression");
    Value value = n_rows ? view_value(&finished->views[0], row_of(&finished->order, 0)) : (Value){ .is_null = true };
    value.type = wanted->type;
    run->params[param] = expr_const(run->own, value, wanted->at);
    return WEFT_OK;
}

// ---- sources --------------------------------------------------------------------------------------------------------

// One dictionary for column PLACE of all INPUTS: theirs, where they have the same one, or a new one with all their
// texts.
static weft_status common_dict(QueryRun *run, const Pipeline *pipeline, int place, Dictionary **dict, u32 *count)
{
    bool is_mixed = false;
    *dict = NULL, *count = 0;
    for (int i = 0; i < pipeline->n_inputs; i++) {
        const StoredColumn *column = &run->stored[pipeline->inputs[i]]->columns[place];
        is_mixed |= *dict && column->dict != *dict;
        *dict = column->dict, *count = MAX_OF(*count, column->dict_count);
    }
    if (!is_mixed) return WEFT_OK;
    arena_defer(run->arena, release_dict, *dict = dict_new(query_budget(run)));
    for (int i = 0; i < pipeline->n_inputs; i++) {
        const StoredColumn *column = &run->stored[pipeline->inputs[i]]->columns[place];
        for (u32 code = 0; code < column->dict_count; code++) {
            const weft_text text = dict_get(column->dict, code);
            u32             ignored;
            if (query_should_stop(run, code)) return query_canceled(run);
            TRY(dict_intern(*dict, text.bytes, text.length, &ignored, run->err));
        }
    }
    *count = dict_count(*dict);
    return WEFT_OK;
}

static weft_status recode(QueryRun *run, const StoredColumn *column, u64 n_rows, const Dictionary *dict,
                          const i64 **out)
{
    u32 *codes;
    i64 *cells;
    TRY(query_alloc(run, ((size_t)column->dict_count + 1) * sizeof *codes, (void **)&codes));
    TRY(query_alloc(run, n_rows * 8 + 64, (void **)&cells));
    for (u32 code = 0; code < column->dict_count; code++) {
        const weft_text text = dict_get(column->dict, code);
        if (query_should_stop(run, code)) return query_canceled(run);
        dict_find(dict, text.bytes, text.length, &codes[code]);
    }
    for (u64 r = 0; r < n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        cells[r] = column->dict_count ? codes[column->cells[r]] : 0;
    }
    *out = cells;
    return WEFT_OK;
}

static ColumnChunk chunk_of(const StoredColumn *column, const i64 *cells)
{
    ColumnChunk chunk = {
        .data = cells, .valid = column->valid, .width = 8, .has_range = true, .min = INT64_MIN, .max = INT64_MAX
    };
    if (type_is_float(column->type) || !column->range.known) return chunk;
    chunk.min = (i64)column->range.low, chunk.max = (i64)column->range.high;
    if (chunk.min > chunk.max) chunk.has_range = false, chunk.min = chunk.max = 0;
    return chunk;
}

static Range unite(Range a, Range b)
{
    if (!a.known || !b.known) a.known = false;
    a.nullable |= b.nullable;
    if (a.low > a.high) a.low = b.low, a.high = b.high;
    else if (b.low <= b.high) a.low = MIN_OF(a.low, b.low), a.high = MAX_OF(a.high, b.high);
    a.f = float_range_any();
    return a;
}

// ---- columns of 128 bits: two of the source, of a word each (weave_low_id) ------------------------------------------

static bool has_high_words(const QueryRun *run, const Pipeline *pipeline, int place)
{
    for (int i = 0; i < pipeline->n_inputs; i++)
        if (run->stored[pipeline->inputs[i]]->columns[place].high) return true;
    return false;
}

static ColumnChunk chunk_of_words(const StoredColumn *column, const i64 *cells, i64 low, i64 high)
{
    return (ColumnChunk){
        .data = cells, .valid = column->valid, .width = 8, .has_range = true, .min = low, .max = high
    };
}

static weft_status add_word_columns(QueryRun *run, const Pipeline *pipeline, int c, Source *source, Chunk *chunks)
{
    const int     place = pipeline->places[c], id = pipeline->columns[c], at = source->n_columns;
    SourceColumn *high = &source->columns[source->n_columns++], *low = &source->columns[source->n_columns++];
    int           chunk = 0;
    *high = (SourceColumn){ .id = id, .name = run->plan->columns[id].name, .type = TYPE(BIGINT), .width = 8,
                            .range = { .known = true, .low = 0, .high = -1 } };
    *low = *high;
    low->id = weave_low_id(id), low->name = arena_printf(run->arena, "%s_low", high->name);
    low->range = range_of_type(TYPE(BIGINT)), low->range.nullable = false;
    for (int i = 0; i < pipeline->n_inputs; i++) {
        const Stored       *stored = run->stored[pipeline->inputs[i]];
        const StoredColumn *column = &stored->columns[place];
        const i64          *words = column->high;
        if (!stored->n_rows) continue;
        if (!words) TRY(query_alloc(run, stored->n_rows * 8 + 64, (void **)&words));      // all 0
        chunks[chunk].columns[at] = chunk_of_words(column, words, column->high_low, column->high_high);
        chunks[chunk].columns[at + 1] = chunk_of_words(column, column->cells, INT64_MIN, INT64_MAX);
        high->range = unite(high->range, (Range){ .known = true, .low = column->high_low, .high = column->high_high });
        high->range.nullable |= column->valid != NULL;
        chunk++;
    }
    low->range.nullable = high->range.nullable;
    return WEFT_OK;
}

// Column C of the source: its cells in every chunk, and what is known of all of them.
static weft_status add_source_column(QueryRun *run, const Pipeline *pipeline, int c, Source *source, Chunk *chunks)
{
    const int     place = pipeline->places[c], id = pipeline->columns[c], at = source->n_columns;
    SourceColumn *out = &source->columns[source->n_columns++];
    int           chunk = 0;
    *out = (SourceColumn){
        .id = id, .name = run->plan->columns[id].name, .type = run->plan->columns[id].type, .width = 8
    };
    if (out->type.kind == TYPE_TEXT) TRY(common_dict(run, pipeline, place, &out->dict, &out->dict_count));
    out->range = (Range){ .known = true, .low = 0, .high = -1 };
    for (int i = 0; i < pipeline->n_inputs; i++) {
        const Stored       *stored = run->stored[pipeline->inputs[i]];
        const StoredColumn *column = &stored->columns[place];
        const i64          *cells = column->cells;
        if (!stored->n_rows) continue;
        if (out->dict && out->dict != column->dict) TRY(recode(run, column, stored->n_rows, out->dict, &cells));
        chunks[chunk].columns[at] = chunk_of(column, cells);
        out->range = unite(out->range, column->range);
        if (out->dict) {               // codes of the common dictionary: any of them
            out->range.low = 0, out->range.high = (i128)out->dict_count - 1;
            chunks[chunk].columns[at].has_range = true, chunks[chunk].columns[at].min = 0,
            chunks[chunk].columns[at].max = (i64)out->dict_count - 1;
        }
        chunk++;
    }
    if (type_is_float(out->type)) out->range.known = false;
    return WEFT_OK;
}

weft_status stored_source(QueryRun *run, const Pipeline *pipeline, const ColumnSet *needed, Source **out)
{
    Source       *source = *out = arena_make(run->arena, Source);
    Chunk        *chunks = arena_array(run->arena, Chunk, pipeline->n_inputs + 1);
    const Chunk **list = arena_array(run->arena, const Chunk *, pipeline->n_inputs + 1);
    int          *chunk_column = arena_array(run->arena, int, 2 * pipeline->n_columns + 1);
    *source = (Source){ .name = pipeline->name, .chunks = list, .chunk_column = chunk_column };
    source->columns = arena_array(run->arena, SourceColumn, 2 * pipeline->n_columns + 1);
    for (int i = 0; i < pipeline->n_inputs; i++) {
        const u64 n_rows = run->stored[pipeline->inputs[i]]->n_rows;
        if (n_rows > STORED_CHUNK_ROWS)
            return fail(run->err, WEFT_UNSUPPORTED, -1, "more than %u rows of a subquery", STORED_CHUNK_ROWS);
        if (!n_rows) continue;
        chunks[source->n_chunks] =
            (Chunk){ .n_rows = (u32)n_rows,
                     .columns = arena_array(run->arena, ColumnChunk, 2 * pipeline->n_columns + 1) };
        list[source->n_chunks] = &chunks[source->n_chunks];
        source->n_chunks++, source->n_rows += n_rows;
    }
    for (int c = 0; c < pipeline->n_columns; c++) {
        if (!columns_has(needed, pipeline->columns[c])) continue;
        if (has_high_words(run, pipeline, pipeline->places[c])) TRY(add_word_columns(run, pipeline, c, source, chunks));
        else TRY(add_source_column(run, pipeline, c, source, chunks));
    }
    for (int c = 0; c < source->n_columns; c++) chunk_column[c] = c;
    return WEFT_OK;
}

// ---- between the kernels of one pipeline (segments.c) ---------------------------------------------------------------
//
// A kernel leaves rows, and the next one reads them: from the host's memory, or where they are, in that of a device.
// There they become a chunk without data here, of which the device was told the widths; the range of its columns was
// found out by the kernel that left the rows, and is what the next one is woven with.  At most two such chunks are
// there at a time: the one that a kernel reads goes when that is done.

static weft_status bitmap_of(QueryRun *run, const u8 *nulls, u64 n_rows, u64 **valid)
{
    TRY(query_alloc(run, n_rows / 8 + 64, (void **)valid));
    for (u64 r = 0; r < n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        if (!nulls[r]) (*valid)[r >> 6] |= (u64)1 << (r & 63);
    }
    return WEFT_OK;
}

struct KeptRows {
    Device *device;                    // NULL: it was told to drop them
    Source *source;
    Chunk  *chunk;
};

// A source of one chunk with so many rows; what its columns hold is for the caller to say.
static Source *one_chunk(QueryRun *run, const Launch *launch, const WeaveJob *job, Chunk **out)
{
    const int     n = job->n_outputs;
    Source       *source = arena_make(run->arena, Source);
    Chunk        *chunk = *out = arena_make(run->arena, Chunk);
    const Chunk **chunks = arena_array(run->arena, const Chunk *, 1);
    int          *chunk_column = arena_array(run->arena, int, n + 1);
    chunks[0] = chunk;
    *chunk = (Chunk){ .n_rows = (u32)launch->out.rows.n_rows, .columns = arena_array(run->arena, ColumnChunk, n + 1) };
    *source = (Source){ .name = "stored",
                        .n_columns = n,
                        .columns = arena_array(run->arena, SourceColumn, n + 1),
                        .n_chunks = 1,
                        .chunks = chunks,
                        .chunk_column = chunk_column,
                        .n_rows = launch->out.rows.n_rows };
    for (int o = 0; o < n; o++) {
        const OutColumn *column = &launch->woven->outputs[o];
        const Expr      *output = job->outputs[o];
        const int        id = wide_column_id(output);
        chunk_column[o] = o;
        source->columns[o] = (SourceColumn){ .id = id,
                                             .name = wide_column_name(run, id),
                                             .type = output->type,
                                             .dict = column->dict,
                                             .dict_count = column->dict_count,
                                             .width = 8,
                                             .range = column->range };
    }
    return source;
}

static weft_status store_here(QueryRun *run, const Launch *launch, const WeaveJob *job, Source **out)
{
    Chunk    *chunk;
    const u64 n_rows = launch->out.rows.n_rows;
    if (n_rows > STORED_CHUNK_ROWS)
        return fail(run->err, WEFT_UNSUPPORTED, -1, "more than %u rows between two kernels of a pipeline",
                    STORED_CHUNK_ROWS);
    *out = one_chunk(run, launch, job, &chunk);
    for (int o = 0; o < job->n_outputs; o++) {
        const OutColumn *column = &launch->woven->outputs[o];
        void            *data;
        u64             *valid = NULL;
        TRY(query_alloc(run, n_rows * 8 + 64, &data));
        TRY(query_copy(run, data, launch->out.rows.columns[column->value], n_rows * 8));
        if (column->null >= 0) TRY(bitmap_of(run, launch->out.rows.columns[column->null], n_rows, &valid));
        chunk->columns[o] = (ColumnChunk){
            .data = data, .valid = valid, .width = 8, .has_range = true, .min = INT64_MIN, .max = INT64_MAX
        };
    }
    return WEFT_OK;
}

// Ranges are those of all: a part was woven with what its own table proves.
static weft_status unite_columns(QueryRun *run, const Source *from, Source *to)
{
    for (int c = 0; c < to->n_columns; c++) {
        SourceColumn       *column = &to->columns[c];
        const SourceColumn *other = &from->columns[c];
        if (column->dict != other->dict || column->id != other->id)
            return fail(run->err, WEFT_INTERNAL, -1, "parts of a join do not have the same columns");
        const bool is_known = column->range.known && other->range.known;
        column->range = unite(column->range, other->range);
        column->range.known = is_known && !type_is_float(column->type);
        column->dict_count = MAX_OF(column->dict_count, other->dict_count);
    }
    return WEFT_OK;
}

weft_status stored_union(QueryRun *run, Source *const *sources, int n_sources, Source **out)
{
    const int     n_columns = sources[0]->n_columns;
    const Chunk **chunks = arena_array(run->arena, const Chunk *, n_sources + 1);
    Source       *all = *out = arena_make(run->arena, Source);
    *all = *sources[0];
    all->columns = arena_array(run->arena, SourceColumn, n_columns + 1);
    memcpy(all->columns, sources[0]->columns, (size_t)n_columns * sizeof *all->columns);
    all->chunks = chunks, all->n_chunks = 0, all->n_rows = 0;
    for (int s = 0; s < n_sources; s++) {
        if (s) TRY(unite_columns(run, sources[s], all));
        if (!sources[s]->n_rows) continue;
        chunks[all->n_chunks++] = sources[s]->chunks[0];
        all->n_rows += sources[s]->n_rows;
    }
    return WEFT_OK;
}

const u8 *stored_notes(QueryRun *run, int n_outputs)
{
    u8 *notes = arena_alloc(run->arena, (size_t)n_outputs + 1);
    for (int o = 0; o < n_outputs; o++) notes[o] = NOTE_RANGE;
    return notes;
}

void stored_facts(QueryRun *run, int n_outputs, const Woven *woven, Launch *launch)
{
    launch->n_facts = n_outputs;
    launch->facts = arena_array(run->arena, RowFacts, n_outputs + 1);
    for (int o = 0; o < n_outputs; o++)
        launch->facts[o] = (RowFacts){ .value = woven->outputs[o].value, .null = woven->outputs[o].null };
}

static u8 width_of(i64 low, i64 high)
{
    const u64 span = (u64)high - (u64)low;
    return span <= UINT8_MAX ? 1 : span <= UINT16_MAX ? 2 : span <= UINT32_MAX ? 4 : 8;
}

// As a store describes a column: what the kernel found out about it.  A column that is nothing but NULL has no range.
static ColumnChunk describe_column(const RowFacts *facts, bool is_float)
{
    static const u64  somewhere_else;  // validity that is not here either
    const bool        has_range = is_float || facts->low <= facts->high;
    ColumnChunk       column = { .width = 8, .has_range = has_range };
    column.valid = facts->has_null ? &somewhere_else : NULL;
    if (is_float) column.min = INT64_MIN, column.max = INT64_MAX;
    else if (!has_range) column.width = 1;
    else {
        column.base = column.min = facts->low, column.max = facts->high;
        column.width = width_of(facts->low, facts->high);
    }
    return column;
}

static void describe_source_column(const ColumnChunk *column, bool is_float, SourceColumn *out)
{
    out->width = column->width;
    out->range.nullable = column->valid != NULL;
    if (is_float) return;
    out->range.known = true;
    out->range.low = column->has_range ? column->min : 0, out->range.high = column->has_range ? column->max : -1;
}

static void drop_kept(void *context)
{
    KeptRows *kept = context;
    if (kept->device) kept->device->drop_rows(kept->device, kept->chunk->id);
    kept->device = NULL;
}

static void describe_kept(QueryRun *run, const Launch *launch, const WeaveJob *job, KeptRows *kept, RowKeep *keep)
{
    const int n = job->n_outputs;
    int      *values = arena_array(run->arena, int, n + 1), *nulls = arena_array(run->arena, int, n + 1);
    kept->source = one_chunk(run, launch, job, &kept->chunk);
    kept->chunk->id = chunk_new_id();
    for (int o = 0; o < n; o++) {
        const RowFacts *facts = &launch->facts[o];
        const bool      is_float = launch->woven->outputs[o].is_float;
        kept->chunk->columns[o] = describe_column(facts, is_float);
        describe_source_column(&kept->chunk->columns[o], is_float, &kept->source->columns[o]);
        values[o] = facts->value, nulls[o] = facts->null;
    }
    *keep = (RowKeep){ .chunk = kept->chunk, .n_columns = n, .values = values, .nulls = nulls };
}

// *OUT NULL: they did not stay there.
static void keep_there(QueryRun *run, Launch *launch, const WeaveJob *job, bool in_order, KernelReport *report,
                       Source **out)
{
    Device *device = launch->device;
    KeptRows   *kept = arena_make(run->arena, KeptRows);
    RowKeep keep;
    *out = NULL;
    if (launch->out.rows.n_rows > STORED_CHUNK_ROWS) return;
    describe_kept(run, launch, job, kept, &keep);
    keep.in_order = in_order;
    keep.may_compile = run->session->settings.gpu_wait || launch->out.rows.n_rows >= COMPILE_ROWS;
    const bool are_there = device->keep_rows(device, launch, &keep);
    if (keep.refused[0])
        query_notice(run, arena_printf(run->own, "%s did not keep the rows between two kernels, the CPU did: %s",
                                       device->name, keep.refused));
    if (!are_there) return;
    kept->device = device, kept->source->kept = kept;
    arena_defer(run->arena, drop_kept, kept);
    report->bytes_kept = keep.bytes, report->keep_ms = keep.kernel_ms;
    *out = kept->source;
}

weft_status stored_after(QueryRun *run, Launch *launch, const WeaveJob *job, bool in_order, KernelReport *report,
                         Source **out)
{
    if (launch->out.keeps_rows) {
        keep_there(run, launch, job, in_order, report, out);
        if (*out) return WEFT_OK;
        TRY(query_device_failed(run, launch->device->fetch_rows(launch->device, launch, run->err)));
    }
    return store_here(run, launch, job, out);
}

Device *stored_device(const Source *source) { return source->kept ? source->kept->device : NULL; }

static weft_status fetch_kept(QueryRun *run, KeptRows *kept)
{
    Chunk *chunk = kept->chunk;
    for (int c = 0; c < kept->source->n_columns; c++) {
        ColumnChunk *column = &chunk->columns[c];
        void        *data, *valid = NULL;
        TRY(query_alloc(run, (u64)chunk->n_rows * column->width + 64, &data));
        if (column->valid) TRY(query_alloc(run, chunk->n_rows / 8 + 64, &valid));
        if (query_should_stop(run, 0)) return query_canceled(run);
        TRY(query_device_failed(run, kept->device->fetch_column(kept->device, chunk, c, data, valid, run->err)));
        column->data = data, column->valid = valid;
    }
    return WEFT_OK;
}

weft_status stored_fetch(QueryRun *run, const Source *source)
{
    KeptRows *kept = source->kept;
    if (!kept) return WEFT_OK;
    TRY(fetch_kept(run, kept));
    stored_drop(source);
    kept->source->kept = NULL;
    kept->chunk->id = 0;               // what a device copies of it is not looked up
    return WEFT_OK;
}

void stored_drop(const Source *source)
{
    if (source && source->kept) drop_kept(source->kept);
}
