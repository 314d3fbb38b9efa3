// result.c - what the last pipeline left, as the table that the user sees.
//
// Rows come as columns of numbers (text as codes); groups are decoded, filtered by HAVING and computed with the interpreter,
// since by then they are few.  Both become views, which are sorted as a permutation, cut by LIMIT, and only then copied.

#define _GNU_SOURCE    // qsort_r
#include "engine/engine.h"

#include <stdlib.h>

// ---- memory ---------------------------------------------------------------------------------------------------------------

typedef struct Counted { Budget *budget; void *memory; size_t bytes; } Counted;

static void free_counted(void *context)
{
    Counted *counted = context;
    mem_free(counted->budget, counted->memory, counted->bytes);
}

static void release_dict(void *dict) { dict_release(dict); }

weft_result *result_new(weft_db *db)
{
    Arena       *arena = arena_new(NULL, "result");
    weft_result *result = arena_make(arena, weft_result);
    result->arena = arena;
    result->budget = &db->budget;
    return result;
}

weft_status result_alloc(weft_result *result, size_t bytes, void **out, Error *err)
{
    Counted *counted = arena_make(result->arena, Counted);
    *counted = (Counted){ .budget = result->budget, .bytes = bytes };
    TRY(mem_alloc(counted->budget, bytes, &counted->memory, err));
    arena_defer(result->arena, free_counted, counted);
    *out = counted->memory;
    return WEFT_OK;
}

void result_add_notices(weft_result *result, const QueryRun *run)
{
    for (int i = 0; i < run->n_notices; i++) *LIST_PUSH(result->arena, result->notices, result->n_notices) = arena_strdup(result->arena, run->notices[i]);
}

// ---- views: columns before they are ordered ----------------------------------------------------------------------------------

typedef enum ViewKind { VIEW_INT, VIEW_FLOAT, VIEW_WIDE, VIEW_TEXT, VIEW_CODE } ViewKind;

typedef struct View {
    ViewKind    kind;
    Type        type;
    const void *data;                  // i64, double, i128, weft_text, or i64 codes of
    Dictionary *dict;
    const u32  *ranks;                 // codes: by which they are sorted; set when needed
    u32         dict_count;
    const u8   *nulls;
} View;

static ViewKind view_kind(Type type)
{
    return type_is_float(type) ? VIEW_FLOAT : type.kind == TYPE_NUMERIC ? VIEW_WIDE : type.kind == TYPE_TEXT || type.kind == TYPE_NULL ? VIEW_TEXT : VIEW_INT;
}

static int compare_text(weft_text a, weft_text b)
{
    const int order = memcmp(a.bytes, b.bytes, MIN_OF(a.length, b.length));
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_cells(const View *view, u64 a, u64 b)
{
    switch (view->kind) {
        case VIEW_INT:  return COMPARE(((const i64 *)view->data)[a], ((const i64 *)view->data)[b]);
        case VIEW_WIDE: return COMPARE(((const i128 *)view->data)[a], ((const i128 *)view->data)[b]);
        case VIEW_TEXT: return compare_text(((const weft_text *)view->data)[a], ((const weft_text *)view->data)[b]);
        case VIEW_CODE: return COMPARE(view->ranks[((const i64 *)view->data)[a]], view->ranks[((const i64 *)view->data)[b]]);
        case VIEW_FLOAT: break;
    }
    const double x = ((const double *)view->data)[a], y = ((const double *)view->data)[b];
    return x != x || y != y ? (x != x) - (y != y) : COMPARE(x, y);
}

typedef struct Sorter { const View *views; const SortKey *keys; int n_keys; } Sorter;

static int compare_rows(const Sorter *sorter, u64 a, u64 b)
{
    for (int k = 0; k < sorter->n_keys; k++) {
        const SortKey *key = &sorter->keys[k];
        const View    *view = &sorter->views[key->output];
        const bool     a_null = view->nulls && view->nulls[a], b_null = view->nulls && view->nulls[b];
        if (a_null && b_null) continue;
        if (a_null || b_null) return a_null == key->nulls_first ? -1 : 1;
        const int order = compare_cells(view, a, b);
        if (order) return key->descending ? -order : order;
    }
    return COMPARE(a, b);              // ties keep the order of the source
}

static int compare_for_sort(const void *a, const void *b, void *context) { return compare_rows(context, *(const u64 *)a, *(const u64 *)b); }

// A heap of the first N rows, the last of them on top: ORDER BY with a small LIMIT does not sort everything.
static void sift_down(u64 *heap, u64 n, u64 at, const Sorter *sorter)
{
    for (;;) {
        u64 last = at;
        for (u64 child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            if (compare_rows(sorter, heap[child], heap[last]) > 0) last = child;
        if (last == at) return;
        const u64 swap = heap[at];
        heap[at] = heap[last], heap[last] = swap;
        at = last;
    }
}

static void keep_first(u64 *rows, u64 n_rows, u64 n_wanted, const Sorter *sorter)
{
    for (u64 at = n_wanted / 2; at-- > 0;) sift_down(rows, n_wanted, at, sorter);
    for (u64 r = n_wanted; r < n_rows; r++) {
        if (compare_rows(sorter, rows[r], rows[0]) >= 0) continue;
        rows[0] = rows[r];
        sift_down(rows, n_wanted, 0, sorter);
    }
}

typedef struct Order { u64 *rows; u64 first, n_rows; } Order;                  // rows NULL: as they are

static weft_status make_order(QueryRun *run, View *views, u64 n_rows, Order *order)
{
    const Query *query = run->query;
    const u64    offset = (u64)MAX_OF(query->offset, 0);
    const u64    wanted = query->limit < 0 || offset + (u64)query->limit < offset ? n_rows : MIN_OF(n_rows, offset + (u64)query->limit);
    *order = (Order){ .first = MIN_OF(offset, wanted), .n_rows = wanted - MIN_OF(offset, wanted) };
    if (!query->n_sort || n_rows < 2) return WEFT_OK;
    for (int k = 0; k < query->n_sort; k++) {
        View *view = &views[query->sort[k].output];
        if (view->kind == VIEW_CODE && !view->ranks) view->ranks = dict_ranks(view->dict, view->dict_count);
    }
    Sorter sorter = { views, query->sort, query->n_sort };
    u64    n_sorted = n_rows;
    TRY(query_alloc(run, n_rows * sizeof(u64), (void **)&order->rows));
    for (u64 r = 0; r < n_rows; r++) order->rows[r] = r;
    if (wanted > 0 && wanted < n_rows / 4) {
        keep_first(order->rows, n_rows, wanted, &sorter);
        n_sorted = wanted;
    }
    qsort_r(order->rows, n_sorted, sizeof(u64), compare_for_sort, &sorter);
    return WEFT_OK;
}

// ---- copying out ----------------------------------------------------------------------------------------------------------------

static weft_type public_type(Type type)
{
    static const weft_type types[] = { [TYPE_BOOLEAN] = WEFT_BOOLEAN, [TYPE_SMALLINT] = WEFT_SMALLINT, [TYPE_INTEGER] = WEFT_INTEGER, [TYPE_BIGINT] = WEFT_BIGINT,
                                       [TYPE_DECIMAL] = WEFT_DECIMAL, [TYPE_REAL] = WEFT_REAL, [TYPE_DOUBLE] = WEFT_DOUBLE, [TYPE_DATE] = WEFT_DATE,
                                       [TYPE_TEXT] = WEFT_TEXT, [TYPE_NUMERIC] = WEFT_NUMERIC, [TYPE_INTERVAL] = WEFT_TEXT, [TYPE_NULL] = WEFT_TEXT };
    return types[type.kind];
}

static void copy_cell(const View *view, u64 from, void *data, u64 to)
{
    switch (view->kind) {
        case VIEW_INT: ((i64 *)data)[to] = ((const i64 *)view->data)[from]; break;
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

static weft_status copy_column(weft_result *result, const View *view, const Order *order, const char *name, weft_column *out, Error *err)
{
    const size_t size = view->kind == VIEW_INT || view->kind == VIEW_FLOAT ? 8 : 16;
    void        *data;
    u8          *nulls = NULL;
    TRY(result_alloc(result, order->n_rows * size + 16, &data, err));
    if (view->nulls) TRY(result_alloc(result, order->n_rows + 1, (void **)&nulls, err));
    bool any = false;
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64 from = order->rows ? order->rows[order->first + r] : order->first + r;
        if (view->nulls && view->nulls[from]) {
            nulls[r] = 1, any = true;
            if (size == 16 && view->kind != VIEW_WIDE) ((weft_text *)data)[r].bytes = "";
            continue;
        }
        copy_cell(view, from, data, r);
    }
    if (view->kind == VIEW_CODE && view->dict) arena_defer(result->arena, release_dict, dict_hold(view->dict));
    *out = (weft_column){ .name = arena_strdup(result->arena, name), .type = public_type(view->type), .precision = view->type.precision,
                          .scale = view->type.scale, .is_null = any ? nulls : NULL, .i64 = data };
    return WEFT_OK;
}

static weft_status copy_out(QueryRun *run, weft_result *result, View *views, u64 n_rows)
{
    const Query *query = run->query;
    Order        order;
    TRY(make_order(run, views, n_rows, &order));
    result->n_rows = order.n_rows;
    result->n_columns = query->n_visible;
    result->columns = arena_array(result->arena, weft_column, query->n_visible + 1);
    for (int c = 0; c < query->n_visible; c++) TRY(copy_column(result, &views[c], &order, query->outputs[c].name, &result->columns[c], run->err));
    return WEFT_OK;
}

// ---- rows ----------------------------------------------------------------------------------------------------------------------------

static weft_status result_from_rows(QueryRun *run, weft_result *result)
{
    const Query *query = run->query;
    View        *views = arena_array(run->arena, View, query->n_outputs + 1);
    for (int c = 0; c < query->n_outputs; c++) {
        const OutColumn *out = &run->last_woven->outputs[c];
        views[c] = (View){ .kind = view_kind(out->type), .type = out->type, .data = run->last.rows.columns[out->value], .dict = out->dict,
                           .dict_count = out->dict_count, .nulls = out->null < 0 ? NULL : run->last.rows.columns[out->null] };
        if (views[c].kind == VIEW_TEXT) views[c].kind = VIEW_CODE;
    }
    return copy_out(run, result, views, run->last.rows.n_rows);
}

// ---- groups --------------------------------------------------------------------------------------------------------------------------

typedef struct Cells {                 // an output column that grows
    ViewKind kind;
    Type     type;
    void    *data;
    u8      *nulls;
    size_t   size;
} Cells;

typedef struct Groups {
    QueryRun    *run;
    const Woven *woven;
    const GroupSet *set;
    Value       *keys, *aggs;          // of the group at hand
    const u32  **code_of_rank;         // by aggregate: min and max of text
    Cells       *cells;
    u64          n_rows, n_room;
} Groups;

static void decode_key(const GroupKey *key, u64 code, bool is_null, Value *value)
{
    *value = (Value){ .type = key->type, .is_null = is_null };
    if (is_null) return;
    if (type_is_float(key->type)) {
        memcpy(&value->f, &code, sizeof value->f);
        return;
    }
    const i64 number = key->decode ? key->decode[code] : (i64)((u64)key->base + code);
    if (key->type.kind == TYPE_TEXT) {
        const weft_text text = dict_get(key->dict, (u32)number);
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = number;
    }
}

static void decode_keys(Groups *groups, u64 group)
{
    const Woven *woven = groups->woven;
    const int    n_keys = groups->run->query->n_keys;
    const u64    word = woven->group_kind == GROUP_ARRAY ? group : woven->is_one_word ? groups->set->keys[group] : 0;
    const u64   *words = woven->group_kind == GROUP_HASH && !woven->is_one_word ? groups->set->words + group * (u64)woven->n_words : NULL;
    const u64    null_bits = words && woven->has_null_word ? words[n_keys] : 0;
    for (int k = 0; k < n_keys; k++) {
        const GroupKey *key = &woven->group_keys[k];
        const u64       code = words ? words[k] : word / key->stride % MAX_OF(key->n_codes, 1);
        const bool      is_null = key->nullable && (key->n_codes ? code == key->null_code : (null_bits >> k & 1) != 0);
        decode_key(key, code, is_null, &groups->keys[k]);
    }
}

static i64 cell_of(const Groups *groups, int slot, u64 group) { return ((const i64 *)groups->set->state[slot])[group]; }

static weft_status sum_value(const Groups *groups, const AggState *state, const Agg *agg, u64 group, Value *value)
{
    if (state->is_float) {
        value->f = ((const double *)groups->set->state[state->sum])[group];
        return WEFT_OK;
    }
    value->i = cell_of(groups, state->sum, group);
    if (state->high >= 0) value->i = (i128)((u128)(u64)value->i | (u128)(u64)cell_of(groups, state->high, group) << 64);
    if (agg->kind == AGG_SUM && agg->type.kind == TYPE_BIGINT && (value->i < INT64_MIN || value->i > INT64_MAX))
        return fail(groups->run->err, WEFT_OUT_OF_RANGE, agg->at, "bigint out of range");
    return WEFT_OK;
}

static void average(Value *value, const Agg *agg, i64 count, bool is_float)
{
    double sum = is_float ? value->f : (double)value->i;
    if (!is_float && agg->arg->type.kind == TYPE_DECIMAL) sum /= (double)power_of_ten(agg->arg->type.scale);
    value->f = sum / (double)count;
}

static void extreme_value(const Groups *groups, int a, const AggState *state, u64 group, Value *value)
{
    if (state->is_float) {
        value->f = ((const double *)groups->set->state[state->sum])[group];
    } else if (state->is_rank) {
        const weft_text text = dict_get(state->dict, groups->code_of_rank[a][cell_of(groups, state->sum, group)]);
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = cell_of(groups, state->sum, group);
    }
}

static weft_status decode_agg(Groups *groups, int a, u64 group)
{
    const Agg      *agg = &groups->run->query->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    Value          *value = &groups->aggs[a];
    const i64       count = state->count >= 0 ? cell_of(groups, state->count, group) : 1;
    *value = (Value){ .type = agg->type };
    if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) {
        value->i = count;
        return WEFT_OK;
    }
    if (count == 0) {
        value->is_null = true;
        return WEFT_OK;
    }
    if (agg->kind == AGG_MIN || agg->kind == AGG_MAX) {
        extreme_value(groups, a, state, group, value);
        return WEFT_OK;
    }
    TRY(sum_value(groups, state, agg, group, value));
    if (agg->kind == AGG_AVG) average(value, agg, count, state->is_float);
    return WEFT_OK;
}

static void give_value(void *context, const Expr *node, Value *value)
{
    const Groups *groups = context;
    *value = node->kind == EXPR_KEY ? groups->keys[node->index] : groups->aggs[node->index];
}

static weft_status grow_cells(Groups *groups)
{
    const u64 n_room = groups->n_room ? groups->n_room * 2 : 64;
    for (int c = 0; c < groups->run->query->n_outputs; c++) {
        Cells *cells = &groups->cells[c];
        void  *data;
        u8    *nulls;
        TRY(query_alloc(groups->run, n_room * cells->size, &data));
        TRY(query_alloc(groups->run, n_room, (void **)&nulls));
        if (groups->n_rows) memcpy(data, cells->data, groups->n_rows * cells->size), memcpy(nulls, cells->nulls, groups->n_rows);
        cells->data = data, cells->nulls = nulls;
    }
    groups->n_room = n_room;
    return WEFT_OK;
}

static void put_value(QueryRun *run, Cells *cells, u64 at, const Value *value)
{
    cells->nulls[at] = value->is_null;
    if (value->is_null) return;
    switch (cells->kind) {
        case VIEW_INT: ((i64 *)cells->data)[at] = (i64)value->i; break;
        case VIEW_FLOAT: ((double *)cells->data)[at] = value->f; break;
        case VIEW_WIDE: ((i128 *)cells->data)[at] = value->i; break;
        default: ((weft_text *)cells->data)[at] = (weft_text){ arena_strndup(run->arena, value->text.bytes, value->text.length), value->text.length }; break;
    }
}

static weft_status put_group(Groups *groups, u64 group, const EvalContext *context)
{
    const Query *query = groups->run->query;
    Value        value;
    decode_keys(groups, group);
    for (int a = 0; a < query->n_aggs; a++) TRY(decode_agg(groups, a, group));
    if (query->having) {
        TRY(expr_eval(query->having, context, &value, groups->run->err));
        if (value.is_null || !value.i) return WEFT_OK;
    }
    if (groups->n_rows == groups->n_room) TRY(grow_cells(groups));
    for (int c = 0; c < query->n_outputs; c++) {
        TRY(expr_eval(query->outputs[c].expr, context, &value, groups->run->err));
        put_value(groups->run, &groups->cells[c], groups->n_rows, &value);
    }
    groups->n_rows++;
    return WEFT_OK;
}

static bool group_exists(const Groups *groups, u64 group)
{
    const int seen = groups->woven->seen;
    if (groups->woven->group_kind != GROUP_ARRAY) return true;
    return groups->woven->state[seen].bytes == 1 ? ((const u8 *)groups->set->state[seen])[group] != 0 : cell_of(groups, seen, group) != 0;
}

static void invert_ranks(Groups *groups)
{
    groups->code_of_rank = arena_array(groups->run->arena, const u32 *, groups->run->query->n_aggs + 1);
    for (int a = 0; a < groups->run->query->n_aggs; a++) {
        const AggState *state = &groups->woven->aggs[a];
        if (!state->is_rank) continue;
        const u32 *ranks = dict_ranks(state->dict, state->dict_count);
        u32       *codes = arena_array(groups->run->arena, u32, state->dict_count + 1);
        for (u32 code = 0; code < state->dict_count; code++) codes[ranks[code]] = code;
        groups->code_of_rank[a] = codes;
    }
}

// DISTINCT over groups: rows whose visible values were there before go.
static void drop_repeated(Groups *groups)
{
    const Query *query = groups->run->query;
    Map         *seen = map_new(groups->run->arena);
    Text         key = { 0 };
    u64          n_kept = 0, ignored;
    for (u64 r = 0; r < groups->n_rows; r++) {
        text_clear(&key);
        for (int c = 0; c < query->n_visible; c++) {
            const Cells *cells = &groups->cells[c];
            const u8    *bytes = (const u8 *)cells->data + r * cells->size;
            text_add_bytes(&key, cells->nulls[r] ? "n" : "v", 1);
            if (cells->nulls[r]) continue;
            if (cells->kind == VIEW_TEXT) {
                const weft_text text = ((const weft_text *)cells->data)[r];
                text_add(&key, "%zu:", text.length);
                text_add_bytes(&key, text.bytes, text.length);
            } else {
                text_add_bytes(&key, (const char *)bytes, cells->size);
            }
        }
        if (map_get(seen, key.bytes, key.length, &ignored)) continue;
        map_set(seen, key.bytes, key.length, 1);
        for (int c = 0; c < query->n_outputs; c++) {
            Cells *cells = &groups->cells[c];
            memmove((u8 *)cells->data + n_kept * cells->size, (u8 *)cells->data + r * cells->size, cells->size);
            cells->nulls[n_kept] = cells->nulls[r];
        }
        n_kept++;
    }
    groups->n_rows = n_kept;
    text_free(&key);
}

static void keep_texts(weft_result *result)
{
    for (int c = 0; c < result->n_columns; c++) {
        if (result->columns[c].type != WEFT_TEXT) continue;
        weft_text *texts = (weft_text *)result->columns[c].text;
        for (size_t r = 0; r < result->n_rows; r++)
            if (texts[r].length) texts[r].bytes = arena_strndup(result->arena, texts[r].bytes, texts[r].length);
            else texts[r].bytes = "";
    }
}

static Cells *make_cells(QueryRun *run)
{
    Cells *cells = arena_array(run->arena, Cells, run->query->n_outputs + 1);
    for (int c = 0; c < run->query->n_outputs; c++) {
        const Type type = run->query->outputs[c].expr->type;
        cells[c] = (Cells){ .kind = view_kind(type), .type = type };
        cells[c].size = cells[c].kind == VIEW_INT || cells[c].kind == VIEW_FLOAT ? 8 : 16;
    }
    return cells;
}

static weft_status cells_out(Groups *groups, weft_result *result)
{
    QueryRun *run = groups->run;
    View     *views = arena_array(run->arena, View, run->query->n_outputs + 1);
    if (run->query->is_distinct) drop_repeated(groups);
    for (int c = 0; c < run->query->n_outputs; c++)
        views[c] = (View){ .kind = groups->cells[c].kind, .type = groups->cells[c].type, .data = groups->cells[c].data, .nulls = groups->cells[c].nulls };
    TRY(copy_out(run, result, views, groups->n_rows));
    keep_texts(result);                // they were in the query's arena
    return WEFT_OK;
}

static weft_status result_from_groups(QueryRun *run, weft_result *result)
{
    Groups groups = { .run = run, .woven = run->last_woven, .set = &run->last.groups };
    groups.keys = arena_array(run->arena, Value, run->query->n_keys + 1);
    groups.aggs = arena_array(run->arena, Value, run->query->n_aggs + 1);
    groups.cells = make_cells(run);
    invert_ranks(&groups);
    const EvalContext context = { .arena = run->arena, .column = give_value, .context = &groups };
    for (u64 g = 0; g < groups.set->n_groups; g++) {
        if ((g & 4095) == 0 && atomic_load(&run->session->stop)) return fail(run->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        if (group_exists(&groups, g)) TRY(put_group(&groups, g, &context));
    }
    return cells_out(&groups, result);
}

weft_status result_from_query(QueryRun *run, weft_result *result)
{
    return run->query->is_grouped ? result_from_groups(run, result) : result_from_rows(run, result);
}

weft_status result_from_constants(QueryRun *run, weft_result *result)
{
    Groups            groups = { .run = run, .cells = make_cells(run) };
    const EvalContext context = { .arena = run->arena };
    Value             value;
    TRY(grow_cells(&groups));
    groups.n_rows = 1;
    for (int c = 0; c < run->query->n_conjuncts; c++) {
        TRY(expr_eval(run->query->conjuncts[c], &context, &value, run->err));
        if (value.is_null || !value.i) groups.n_rows = 0;
    }
    for (int c = 0; groups.n_rows && c < run->query->n_outputs; c++) {
        TRY(expr_eval(run->query->outputs[c].expr, &context, &value, run->err));
        put_value(run, &groups.cells[c], 0, &value);
    }
    return cells_out(&groups, result);
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
