// repeat.c - recursion: the rows of all rounds, and those that the last one added.
//
// The rows of a round are appended to those before; for UNION a row that is there already is left out.  A set of row
// numbers, hashed, finds it: rows are equal where all their cells are, NULL and NULL too, and intervals of one length
// (their high words).  What a round added is a
// stretch at the end, which the next round reads in the place of the first term's rows (semi-naive evaluation: a round
// never looks at older rows).  Texts are copied, since the dictionary of a round goes with it.
//
// Not done: the rows are added by one thread, and those of a GPU come to the host each round.

#include "engine/repeat.h"

#include <math.h>

enum { TEXT_BLOCK = 1 << 16, ROWS_FIRST = 64 };

typedef struct RepeatColumn {
    Type  type;
    View  view;                        // its data: cells of all rows
    u8   *nulls;
    int   width;                       // bytes of a cell
    bool  is_by_length;                // a stored interval
} RepeatColumn;

// The only one of all rows, which wants few of them.  Pipeline NULL: all are wanted.
typedef struct FewReader {
    const Pipeline *pipeline;
    const Pipeline *copy;              // of the rows, which it reads; NULL: it reads the rows themselves
} FewReader;

struct RepeatRows {
    const Repeat *repeat;
    Arena        *home;                // the query's
    int           n_columns;
    RepeatColumn *columns;
    u64           n_rows, n_before, n_room;    // before: when rows were added last
    FewReader     reader;
    u64           n_looked_at, n_passed;       // rows that it was found to read, and those that pass its filters
    u64          *slots, n_slots;      // UNION: row + 1 by hash; 0: free
    char         *texts;               // room for texts,
    size_t        n_texts_left;        // of which so much is left
};

// ---- readers that want few rows -------------------------------------------------------------------------------------
//
// A reader that wants few rows, in any order, has enough after some rounds: recursion without an end has answers, too.
// Rows that it would let through are counted by the interpreter, so its filters must depend on nothing else.

static int place_in(const Pipeline *pipeline, int column)
{
    int c = 0;
    while (c < pipeline->n_columns && pipeline->columns[c] != column) c++;
    return c < pipeline->n_columns ? pipeline->places[c] : -1;
}

// Of a copy's input: what its output of this number is.
static int place_before(const Pipeline *copy, int output)
{
    for (int o = 0; o < copy->n_outputs; o++) {
        const Expr *value = copy->outputs[o].value;
        if (copy->outputs[o].column != copy->finish.outputs[output].column) continue;
        return value->kind == EXPR_COLUMN ? place_in(copy, value->column) : -1;
    }
    return -1;
}

// A reader's column as one of the repeat.
static int place_of(FewReader reader, int column)
{
    const int place = place_in(reader.pipeline, column);
    return reader.copy && place >= 0 ? place_before(reader.copy, place) : place;
}

static bool can_count(FewReader reader, const Expr *filter)
{
    if (filter->kind == EXPR_PARAM) return false;
    if (filter->kind == EXPR_COLUMN && place_of(reader, filter->column) < 0) return false;
    for (int a = 0; a < filter->n_args; a++)
        if (!can_count(reader, filter->args[a])) return false;
    return true;
}

static bool is_plain(const Pipeline *pipeline)
{
    const Finish *finish = &pipeline->finish;
    return pipeline->n_inputs == 1 && !pipeline->n_probes && pipeline->sink == SINK_ROWS && !finish->windows &&
           !finish->n_distinct_on && !finish->n_conditions && !finish->n_sort && finish->copies < 0;
}

static bool wants_few(FewReader reader)
{
    if (!is_plain(reader.pipeline) || query_rows_enough(reader.pipeline) < 0) return false;
    for (int f = 0; f < reader.pipeline->n_filters; f++)
        if (!can_count(reader, reader.pipeline->filters[f])) return false;
    return true;
}

// Fewer columns of the same rows.
static bool is_copy(const Pipeline *pipeline)
{
    return is_plain(pipeline) && !pipeline->n_filters && pipeline->finish.limit < 0 && pipeline->finish.offset <= 0;
}

static bool reads(const Pipeline *pipeline, int input)
{
    for (int i = 0; i < pipeline->n_inputs; i++)
        if (pipeline->inputs[i] == input) return true;
    return false;
}

static bool is_in_rounds(const Graph *graph, int pipeline)
{
    for (int r = 0; r < graph->n_repeats; r++)
        if (pipeline > graph->repeats[r].first && pipeline <= graph->repeats[r].last) return true;
    return false;
}

// -1: there are none, or several.
static int only_reader_of(const Graph *graph, int input)
{
    int found = -1;
    for (int p = input + 1; p < graph->n_pipelines; p++) {
        if (!reads(&graph->pipelines[p], input)) continue;
        if (found >= 0 || is_in_rounds(graph, p)) return -1;
        found = p;
    }
    return found;
}

static FewReader find_reader(const Graph *graph, const Repeat *repeat)
{
    FewReader reader = { 0 };
    int       p = only_reader_of(graph, repeat->last);
    if (p >= 0 && is_copy(&graph->pipelines[p])) {
        reader.copy = &graph->pipelines[p];
        p = only_reader_of(graph, p);
    }
    if (p < 0) return (FewReader){ 0 };
    reader.pipeline = &graph->pipelines[p];
    return wants_few(reader) ? reader : (FewReader){ 0 };
}

typedef struct RowOf { const RepeatRows *rows; u64 row; } RowOf;

static void give_cell(void *context, const Expr *node, Value *value)
{
    const RowOf *at = context;
    *value = view_value(&at->rows->columns[place_of(at->rows->reader, node->column)].view, at->row);
}

static weft_status passes(QueryRun *run, const RepeatRows *rows, u64 row, bool *is_in)
{
    Arena            *scratch = arena_new(run->arena, "row");
    RowOf             at = { rows, row };
    const EvalContext context = { .arena = scratch, .column = give_cell, .context = &at };
    weft_status       status = WEFT_OK;
    *is_in = true;
    for (int f = 0; f < rows->reader.pipeline->n_filters && *is_in && !status; f++) {
        Value value;
        status = expr_eval(rows->reader.pipeline->filters[f], &context, &value, run->err);
        *is_in = !status && !value.is_null && value.i;
    }
    arena_free(scratch);
    return status;
}

weft_status repeat_is_enough(QueryRun *run, RepeatRows *rows, bool *is_enough)
{
    *is_enough = false;
    if (!rows->reader.pipeline) return WEFT_OK;
    const u64 n_wanted = (u64)query_rows_enough(rows->reader.pipeline);
    for (; rows->n_looked_at < rows->n_rows && rows->n_passed < n_wanted; rows->n_looked_at++) {
        bool is_in = true;
        if (query_should_stop(run, rows->n_looked_at)) return query_canceled(run);
        if (rows->reader.pipeline->n_filters) TRY(passes(run, rows, rows->n_looked_at, &is_in));
        rows->n_passed += is_in;
    }
    *is_enough = rows->n_passed >= n_wanted;
    return WEFT_OK;
}

void repeat_begin(QueryRun *run)
{
    const Graph *graph = run->graph;
    run->repeats = arena_array(run->own, RepeatRows *, graph->n_repeats + 1);
    for (int r = 0; r < graph->n_repeats; r++) {
        run->repeats[r] = arena_make(run->own, RepeatRows);
        *run->repeats[r] = (RepeatRows){ .repeat = &graph->repeats[r],
                                         .home = run->own,
                                         .reader = find_reader(graph, &graph->repeats[r]) };
    }
}

RepeatRows *repeat_of(const QueryRun *run, int pipeline)
{
    for (int r = 0; r < run->graph->n_repeats; r++)
        if (run->graph->repeats[r].first == pipeline || run->graph->repeats[r].last == pipeline) return run->repeats[r];
    return NULL;
}

const Repeat *repeat_of_last(const QueryRun *run, int pipeline, RepeatRows **rows)
{
    *rows = repeat_of(run, pipeline);
    return *rows && (*rows)->repeat->last == pipeline ? (*rows)->repeat : NULL;
}

bool repeat_has_more(const RepeatRows *rows) { return rows->n_rows > rows->n_before; }

u64 repeat_count(const RepeatRows *rows) { return rows->n_rows; }

// ---- room -----------------------------------------------------------------------------------------------------------

static weft_status take(QueryRun *run, RepeatRows *rows, size_t bytes, void *out)
{
    return counted_alloc(rows->home, query_budget(run), bytes, out, run->err);
}

static weft_status move(QueryRun *run, RepeatRows *rows, const void *old, u64 bytes, u64 room, void *out)
{
    void *larger;
    TRY(take(run, rows, room, &larger));
    if (bytes) TRY(query_copy(run, larger, old, bytes));
    *(void **)out = larger;
    return WEFT_OK;
}

static weft_status start(QueryRun *run, RepeatRows *rows, const Finish *finish)
{
    rows->n_columns = finish->n_outputs;
    rows->columns = arena_array(rows->home, RepeatColumn, finish->n_outputs + 1);
    for (int c = 0; c < rows->n_columns; c++) {
        RepeatColumn *column = &rows->columns[c];
        const Type    type = run->plan->columns[finish->outputs[c].column].type;
        column->type = type.kind == TYPE_NULL ? TYPE(TEXT) : type;
        column->view = (View){ .kind = view_kind(column->type), .type = column->type };
        column->is_by_length = c < rows->repeat->n_by_length && rows->repeat->by_length[c];
        column->width = column->view.kind == VIEW_WIDE   ? (int)sizeof(i128)
                        : column->view.kind == VIEW_TEXT ? (int)sizeof(weft_text)
                                                         : (int)sizeof(i64);
    }
    return WEFT_OK;
}

// Twice as much as before, so all that was ever taken is at most twice what is in use.
static weft_status grow(QueryRun *run, RepeatRows *rows)
{
    const u64 n_room = rows->n_room ? 2 * rows->n_room : ROWS_FIRST;
    for (int c = 0; c < rows->n_columns; c++) {
        RepeatColumn *column = &rows->columns[c];
        const u64     width = (u64)column->width;
        TRY(move(run, rows, column->view.data, rows->n_rows * width, n_room * width + 64, &column->view.data));
        TRY(move(run, rows, column->nulls, rows->n_rows, n_room + 64, &column->nulls));
        column->view.nulls = column->nulls;
    }
    rows->n_room = n_room;
    return WEFT_OK;
}

// ---- cells ----------------------------------------------------------------------------------------------------------

static weft_status copy_text(QueryRun *run, RepeatRows *rows, const Value *value, weft_text *cell)
{
    const size_t length = value->text.length;
    if (length > rows->n_texts_left) {
        rows->n_texts_left = MAX_OF((size_t)TEXT_BLOCK, length);
        TRY(take(run, rows, rows->n_texts_left, &rows->texts));
    }
    if (length) memcpy(rows->texts, value->text.bytes, length);
    *cell = (weft_text){ .bytes = rows->texts, .length = length };
    rows->texts += length, rows->n_texts_left -= length;
    return WEFT_OK;
}

// Zeros of either sign are one value, and so are all NaNs.
static double same_float(double value) { return value == 0 ? 0 : isnan(value) ? (double)NAN : value; }

static i64 interval_length(i128 number) { return (i64)((number - (i64)number) >> 64); }

static u64 hash_value(const RepeatColumn *column, const Value *value)
{
    if (value->is_null) return 1;
    if (column->is_by_length) {
        const i64 length = interval_length(value->i);
        return hash_bytes(&length, sizeof length);
    }
    if (column->view.kind == VIEW_TEXT) return hash_bytes(value->text.bytes, value->text.length);
    if (column->view.kind != VIEW_FLOAT) return hash_bytes(&value->i, sizeof value->i);
    const double same = same_float(value->f);
    return hash_bytes(&same, sizeof same);
}

static bool is_value(const RepeatColumn *column, u64 row, const Value *value)
{
    if (column->nulls[row] || value->is_null) return column->nulls[row] && value->is_null;
    const void *data = column->view.data;
    if (column->is_by_length) return interval_length(((const i128 *)data)[row]) == interval_length(value->i);
    switch (column->view.kind) {
        case VIEW_WIDE:  return ((const i128 *)data)[row] == value->i;
        case VIEW_FLOAT: {
            const double a = ((const double *)data)[row];
            return a == value->f || (isnan(a) && isnan(value->f));
        }
        case VIEW_TEXT: {
            const weft_text *text = &((const weft_text *)data)[row];
            return text->length == value->text.length &&
                   (!text->length || memcmp(text->bytes, value->text.bytes, text->length) == 0);
        }
        default: return ((const i64 *)data)[row] == (i64)value->i;
    }
}

static weft_status put_value(QueryRun *run, RepeatRows *rows, RepeatColumn *column, u64 row, const Value *value)
{
    void *cell = (u8 *)(uintptr_t)column->view.data + row * (u64)column->width;
    column->nulls[row] = value->is_null;
    if (value->is_null) return WEFT_OK;                    // the memory is zeroed
    switch (column->view.kind) {
        case VIEW_WIDE:  *(i128 *)cell = value->i; return WEFT_OK;
        case VIEW_FLOAT: *(double *)cell = value->f; return WEFT_OK;
        case VIEW_TEXT:  return copy_text(run, rows, value, cell);
        default:         *(i64 *)cell = (i64)value->i; return WEFT_OK;
    }
}

// ---- rows that are there already ------------------------------------------------------------------------------------

static u64 hash_values(const RepeatRows *rows, const Value *values)
{
    u64 hash = 0;
    for (int c = 0; c < rows->n_columns; c++)
        hash = (hash ^ hash_value(&rows->columns[c], &values[c])) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static bool is_row(const RepeatRows *rows, u64 row, const Value *values)
{
    for (int c = 0; c < rows->n_columns; c++)
        if (!is_value(&rows->columns[c], row, &values[c])) return false;
    return true;
}

static void row_values(const RepeatRows *rows, u64 row, Value *values)
{
    for (int c = 0; c < rows->n_columns; c++) values[c] = view_value(&rows->columns[c].view, row);
}

// The row's slot: a free one where it is not there.
static u64 *find_slot(const RepeatRows *rows, const Value *values)
{
    u64 slot = hash_values(rows, values) & (rows->n_slots - 1);
    while (rows->slots[slot] && !is_row(rows, rows->slots[slot] - 1, values)) slot = (slot + 1) & (rows->n_slots - 1);
    return &rows->slots[slot];
}

static weft_status grow_slots(QueryRun *run, RepeatRows *rows, Value *values)
{
    if (2 * rows->n_rows < rows->n_slots) return WEFT_OK;
    rows->n_slots = rows->n_slots ? 2 * rows->n_slots : 4 * ROWS_FIRST;
    TRY(take(run, rows, rows->n_slots * sizeof *rows->slots, &rows->slots));
    for (u64 r = 0; r < rows->n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        row_values(rows, r, values);
        *find_slot(rows, values) = r + 1;
    }
    return WEFT_OK;
}

// ---- one round ------------------------------------------------------------------------------------------------------

static weft_status add_row(QueryRun *run, RepeatRows *rows, const Value *values)
{
    if (rows->n_rows == rows->n_room) TRY(grow(run, rows));
    if (!rows->repeat->is_all) {
        u64 *slot = find_slot(rows, values);
        if (*slot) return WEFT_OK;
        *slot = rows->n_rows + 1;
    }
    for (int c = 0; c < rows->n_columns; c++) TRY(put_value(run, rows, &rows->columns[c], rows->n_rows, &values[c]));
    rows->n_rows++;
    return WEFT_OK;
}

// What is stored for pipeline NUMBER: the rows from FIRST on.
static weft_status keep_from(QueryRun *run, const RepeatRows *rows, int number, u64 first)
{
    Finished finished = { .n_rows = rows->n_rows, .order = { .first = first, .n_rows = rows->n_rows - first } };
    finished.views = arena_array(run->arena, View, rows->n_columns + 1);
    for (int c = 0; c < rows->n_columns; c++) finished.views[c] = rows->columns[c].view;
    return stored_keep(run, number, &finished, &run->stored[number]);
}

weft_status repeat_add(QueryRun *run, int number, const Finished *finished)
{
    RepeatRows *rows = repeat_of(run, number);
    if (!rows->columns) TRY(start(run, rows, &run->graph->pipelines[number].finish));
    Value      *values = arena_array(run->arena, Value, rows->n_columns + 1);
    Value      *scratch = arena_array(run->arena, Value, rows->n_columns + 1);
    const Order order = finished->order;
    rows->n_before = rows->n_rows;
    for (u64 r = 0; r < order.n_rows; r++) {
        const u64 row = order.rows ? order.rows[order.first + r] : order.first + r;
        if (query_should_stop(run, r)) return query_canceled(run);
        if (!rows->repeat->is_all) TRY(grow_slots(run, rows, scratch));
        for (int c = 0; c < rows->n_columns; c++) values[c] = view_value(&finished->views[c], row);
        TRY(add_row(run, rows, values));
    }
    return WEFT_OK;
}

weft_status repeat_hand_on(QueryRun *run, RepeatRows *rows)
{
    return keep_from(run, rows, rows->repeat->first, rows->n_before);
}

weft_status repeat_end(QueryRun *run, RepeatRows *rows) { return keep_from(run, rows, rows->repeat->last, 0); }
