// result.c - what the last pipeline left, as the table that the user sees.
//
// Rows come as columns of numbers (text as codes).  Groups are filtered by HAVING and decoded column by column; only outputs that are more
// than a key or an aggregate go through the interpreter, since by then groups are few.  Both become views, which are sorted (sort.c), cut by
// LIMIT, and only then copied.

#include "engine/engine.h"
#include "engine/exact.h"

#include <math.h>
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
    result->budget = &db->looks;       // a query's result is counted with the query
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

void result_add_notice(weft_result *result, const char *notice) { *LIST_PUSH(result->arena, result->notices, result->n_notices) = arena_strdup(result->arena, notice); }

void result_add_notices(weft_result *result, const QueryRun *run)
{
    for (int i = 0; i < run->n_notices; i++) result_add_notice(result, run->notices[i]);
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

static weft_status copy_column(QueryRun *run, weft_result *result, const View *view, const Order *order, const char *name, weft_column *out)
{
    const size_t size = view->kind == VIEW_INT || view->kind == VIEW_FLOAT ? 8 : 16;
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
            if (size == 16 && view->kind != VIEW_WIDE) ((weft_text *)data)[r].bytes = "";
            continue;
        }
        copy_cell(view, from, data, r);
    }
    if (view->dict) arena_defer(result->arena, release_dict, dict_hold(view->dict));
    *out = (weft_column){ .name = arena_strdup(result->arena, name), .type = public_type(view->type), .precision = view->type.precision,
                          .scale = view->type.scale, .is_null = any ? nulls : NULL, .i64 = data };
    return WEFT_OK;
}

static weft_status copy_out(QueryRun *run, weft_result *result, View *views, u64 n_rows, const Tie *tie)
{
    const Query *query = run->query;
    Order        order;
    TRY(order_rows(run, views, n_rows, tie, &order));
    result->n_rows = order.n_rows;
    result->n_columns = query->n_visible;
    result->columns = arena_array(result->arena, weft_column, query->n_visible + 1);
    for (int c = 0; c < query->n_visible; c++) TRY(copy_column(run, result, &views[c], &order, query->outputs[c].name, &result->columns[c]));
    return WEFT_OK;
}

// ---- rows ----------------------------------------------------------------------------------------------------------------------------

static weft_status result_from_rows(QueryRun *run, weft_result *result)
{
    const Query *query = run->query;
    View        *views = arena_array(run->arena, View, query->n_outputs + 1);
    for (int c = 0; c < query->n_outputs; c++) {
        const OutColumn *out = &run->last_woven->outputs[c];
        views[c] = (View){ .kind = view_kind(out->type), .type = out->type, .data = run->last->rows.columns[out->value], .dict = out->dict,
                           .dict_count = out->dict_count, .nulls = out->null < 0 ? NULL : run->last->rows.columns[out->null] };
        if (views[c].kind == VIEW_TEXT) views[c].kind = VIEW_CODE;
    }
    return copy_out(run, result, views, run->last->rows.n_rows, NULL);
}

// ---- groups --------------------------------------------------------------------------------------------------------------------------

// Column by column: most outputs are a key or an aggregate as it is, and go from the groups' cells to the output's without the interpreter.

typedef struct Cells {                 // an output column
    ViewKind    kind;
    Type        type;
    void       *data;
    u8         *nulls;                 // NULL: there are none
    size_t      size;
    Dictionary *dict;                  // text: where it lies; NULL: in the query's arena
} Cells;

typedef struct Groups {
    QueryRun    *run;
    const Woven *woven;
    const GroupSet *set;
    const u64   *words;                // hashed keys of several words, else NULL
    const u32  **code_of_rank;         // by aggregate: min and max of text
    Cells       *cells;
    u64         *places;               // of the groups that become rows; NULL: all, in order
    u64          n_rows;
    u64          group;                // at hand, for the interpreter
} Groups;

static u64 group_of(const Groups *groups, u64 row) { return groups->places ? groups->places[row] : row; }

static u64 key_code(const Groups *groups, int k, u64 group, bool *is_null)
{
    const Woven    *woven = groups->woven;
    const GroupKey *key = &woven->group_keys[k];
    if (groups->words) {
        const u64 *words = groups->words + group * (u64)woven->n_words;
        const u64  null_bits = woven->has_null_word ? words[groups->run->query->n_keys] : 0;
        *is_null = key->nullable && (key->n_codes ? words[k] == key->null_code : (null_bits >> k & 1) != 0);
        return words[k];
    }
    const u64 word = woven->group_kind == GROUP_ARRAY ? group : groups->set->keys[group];
    const u64 code = word / key->stride % MAX_OF(key->n_codes, 1);
    *is_null = key->nullable && key->n_codes && code == key->null_code;
    return code;
}

static i64 key_number(const GroupKey *key, u64 code) { return key->decode ? key->decode[code] : (i64)((u64)key->base + code); }

static void decode_key(const Groups *groups, int k, u64 group, Value *value)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    bool            is_null;
    const u64       code = key_code(groups, k, group, &is_null);
    *value = (Value){ .type = key->type, .is_null = is_null };
    if (is_null) return;
    if (type_is_float(key->type)) {
        memcpy(&value->f, &code, sizeof value->f);
    } else if (key->type.kind == TYPE_TEXT) {
        const weft_text text = dict_get(key->dict, (u32)key_number(key, code));
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = key_number(key, code);
    }
}

static i64 cell_of(const Groups *groups, int slot, u64 group) { return ((const i64 *)groups->set->state[slot])[group]; }

// NaN counts as an infinity of both signs, and so do infinities of both signs make NaN.
static bool special_sum(const Groups *groups, const AggState *state, u64 group, double *sum)
{
    if (state->special < 0) return false;
    const bool has_infinity = cell_of(groups, state->special, group) != 0, has_minus_infinity = cell_of(groups, state->special + 1, group) != 0;
    *sum = has_infinity && has_minus_infinity ? NAN : has_infinity ? INFINITY : -INFINITY;
    return has_infinity || has_minus_infinity;
}

static double float_sum(const Groups *groups, const AggState *state, u64 group, u64 divisor)
{
    i64    parts[EXACT_BITS / 8];
    double sum;
    if (special_sum(groups, state, group, &sum)) return sum;
    for (int p = 0; p < state->n_parts; p++) parts[p] = cell_of(groups, state->sum + p, group);
    return exact_round(parts, state->n_parts, state->digits, state->unit, divisor);
}

static i128 sum_of(const Groups *groups, const AggState *state, u64 group)
{
    const i64 low = cell_of(groups, state->sum, group);
    return state->high < 0 ? low : (i128)((u128)(u64)low | (u128)(u64)cell_of(groups, state->high, group) << 64);
}

// Also of groups and sums that nobody comes to see: what a statement says must not depend on how it is computed.
static weft_status check_sums(const Groups *groups)
{
    for (int a = 0; a < groups->run->query->n_aggs; a++) {
        const Agg      *agg = &groups->run->query->aggs[a];
        const AggState *state = &groups->woven->aggs[a];
        if (agg->kind != AGG_SUM || agg->type.kind != TYPE_BIGINT || state->high < 0) continue;
        for (u64 r = 0; r < groups->n_rows; r++) {
            if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
            const i128 sum = sum_of(groups, state, group_of(groups, r));
            if (sum < INT64_MIN || sum > INT64_MAX) return fail(groups->run->err, WEFT_OUT_OF_RANGE, agg->at, "bigint out of range");
        }
    }
    return WEFT_OK;
}

// One division of exact numbers: avg of equal values is that value.
static void average(Value *value, const Agg *agg, i64 count)
{
    const bool is_decimal = agg->arg->type.kind == TYPE_DECIMAL;
    value->f = (double)value->i / ((double)count * (is_decimal ? (double)power_of_ten(agg->arg->type.scale) : 1));
}

static weft_text extreme_text(const Groups *groups, int a, const AggState *state, u64 group)
{
    return dict_get(state->dict, groups->code_of_rank[a][cell_of(groups, state->sum, group)]);
}

static void extreme_value(const Groups *groups, int a, const AggState *state, u64 group, Value *value)
{
    if (state->is_float) {
        value->f = ((const double *)groups->set->state[state->sum])[group] + 0.0;      // -0 and 0 are equal: which one came first must not show
    } else if (state->is_rank) {
        const weft_text text = extreme_text(groups, a, state, group);
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = cell_of(groups, state->sum, group);
    }
}

static void decode_agg(const Groups *groups, int a, u64 group, Value *value)
{
    const Agg      *agg = &groups->run->query->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    const i64       count = state->count >= 0 ? cell_of(groups, state->count, group) : 1;
    *value = (Value){ .type = agg->type };
    if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) {
        value->i = count;
    } else if (count == 0) {
        value->is_null = true;
    } else if (agg->kind == AGG_MIN || agg->kind == AGG_MAX) {
        extreme_value(groups, a, state, group, value);
    } else if (state->is_float) {
        value->f = float_sum(groups, state, group, agg->kind == AGG_AVG ? (u64)count : 1);
    } else {
        value->i = sum_of(groups, state, group);
        if (agg->kind == AGG_AVG) average(value, agg, count);
    }
}

static void give_value(void *context, const Expr *node, Value *value)
{
    const Groups *groups = context;
    if (node->kind == EXPR_KEY) decode_key(groups, node->index, groups->group, value);
    else decode_agg(groups, node->index, groups->group, value);
}

// Texts stay where they are, in a dictionary or the query's arena; the result gets copies in the end.
static void put_value(Cells *cells, u64 at, const Value *value)
{
    if (value->is_null) {
        cells->nulls[at] = 1;
        return;
    }
    switch (cells->kind) {
        case VIEW_INT: ((i64 *)cells->data)[at] = (i64)value->i; break;
        case VIEW_FLOAT: ((double *)cells->data)[at] = value->f; break;
        case VIEW_WIDE: ((i128 *)cells->data)[at] = value->i; break;
        default: ((weft_text *)cells->data)[at] = (weft_text){ value->text.bytes, value->text.length }; break;
    }
}

// ---- which groups become rows -------------------------------------------------------------------------------------------------------------

static bool group_exists(const Groups *groups, u64 group)
{
    const int seen = groups->woven->seen;
    return groups->woven->state[seen].bytes == 1 ? ((const u8 *)groups->set->state[seen])[group] != 0 : cell_of(groups, seen, group) != 0;
}

static weft_status find_groups(Groups *groups)
{
    const u64 n_groups = groups->set->n_groups;
    u64       n = 0;
    groups->n_rows = n_groups;
    if (groups->woven->group_kind != GROUP_ARRAY) return WEFT_OK;
    for (u64 g = 0; g < n_groups; g++) {
        if (query_should_stop(groups->run, g)) return query_canceled(groups->run);
        n += group_exists(groups, g);
    }
    TRY(query_alloc(groups->run, (n + 1) * sizeof *groups->places, (void **)&groups->places));
    groups->n_rows = n, n = 0;
    for (u64 g = 0; n < groups->n_rows; g++) {
        if (query_should_stop(groups->run, g)) return query_canceled(groups->run);
        groups->places[n] = g;
        n += group_exists(groups, g);
    }
    return WEFT_OK;
}

static weft_status keep_having(Groups *groups, const EvalContext *context)
{
    u64   n = 0, *places = groups->places;
    Value value;
    if (!groups->run->query->having) return WEFT_OK;
    if (!places) TRY(query_alloc(groups->run, (groups->n_rows + 1) * sizeof *places, (void **)&places));
    for (u64 r = 0; r < groups->n_rows; r++) {
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        groups->group = group_of(groups, r);
        TRY(expr_eval(groups->run->query->having, context, &value, groups->run->err));
        if (!value.is_null && value.i) places[n++] = groups->group;
    }
    groups->places = places, groups->n_rows = n;
    return WEFT_OK;
}

// ---- outputs --------------------------------------------------------------------------------------------------------------------------------

static bool can_be_null(const Groups *groups, const Expr *expr)
{
    const AggKind kind = expr->kind == EXPR_AGG ? groups->run->query->aggs[expr->index].kind : AGG_SUM;
    if (expr->kind == EXPR_KEY) return groups->woven->group_keys[expr->index].nullable;
    if (expr->kind != EXPR_AGG) return true;
    return kind != AGG_COUNT && kind != AGG_COUNT_ALL && groups->woven->aggs[expr->index].count >= 0;
}

static weft_status room_for_cells(QueryRun *run, Cells *cells, u64 n_rows, bool has_nulls)
{
    TRY(query_alloc(run, (n_rows + 1) * cells->size, &cells->data));
    return has_nulls ? query_alloc(run, n_rows + 1, (void **)&cells->nulls) : WEFT_OK;
}

// Texts that were looked up, by code; where rows are not many more than codes, each row looks up its own.  (Not all codes have a text:
// the domain of a key is as wide as ranges prove, and values need not be dense in it.)
static weft_status room_for_texts(const Groups *groups, const GroupKey *key, weft_text **texts)
{
    *texts = NULL;
    if (!key->n_codes || key->n_codes > groups->n_rows / 2) return WEFT_OK;
    return query_alloc(groups->run, key->n_codes * sizeof **texts, (void **)texts);
}

static weft_text key_text(const GroupKey *key, u64 code, weft_text *texts)
{
    if (!texts) return dict_get(key->dict, (u32)key_number(key, code));
    if (!texts[code].bytes) texts[code] = dict_get(key->dict, (u32)key_number(key, code));
    return texts[code];
}

static weft_status put_key_texts(const Groups *groups, int k, Cells *cells)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    weft_text      *out = cells->data, *texts;
    cells->dict = key->dict;
    TRY(room_for_texts(groups, key, &texts));
    for (u64 r = 0; r < groups->n_rows; r++) {
        bool      is_null;
        const u64 code = key_code(groups, k, group_of(groups, r), &is_null);
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if (is_null) cells->nulls[r] = 1;
        else out[r] = key_text(key, code, texts);
    }
    return WEFT_OK;
}

static weft_status put_key(const Groups *groups, int k, Cells *cells)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    const bool      is_float = type_is_float(key->type);
    u64            *out = cells->data; // a double goes as its bits
    if (key->type.kind == TYPE_TEXT) return put_key_texts(groups, k, cells);
    for (u64 r = 0; r < groups->n_rows; r++) {
        bool      is_null;
        const u64 code = key_code(groups, k, group_of(groups, r), &is_null);
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if (is_null) cells->nulls[r] = 1;
        else out[r] = is_float ? code : (u64)key_number(key, code);
    }
    return WEFT_OK;
}

// Sums and counts of 64 bits that are never NULL: the cells as they are.
static bool is_plain_agg(const Groups *groups, int a, int *slot)
{
    const Agg      *agg = &groups->run->query->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    const bool      is_count = agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL;
    *slot = is_count ? state->count : state->sum;
    if (is_count) return state->count >= 0;
    return agg->kind != AGG_AVG && !state->is_float && !state->is_rank && state->count < 0;
}

static weft_status put_agg(const Groups *groups, int a, Cells *cells)
{
    const AggState *state = &groups->woven->aggs[a];
    int             slot;
    const bool      is_plain = is_plain_agg(groups, a, &slot) && cells->kind == VIEW_INT;
    if (state->is_rank) cells->dict = state->dict;
    for (u64 r = 0; r < groups->n_rows; r++) {
        const u64 group = group_of(groups, r);
        Value     value;
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if (is_plain) {
            ((i64 *)cells->data)[r] = cell_of(groups, slot, group);
        } else {
            decode_agg(groups, a, group, &value);
            put_value(cells, r, &value);
        }
    }
    return WEFT_OK;
}

static bool is_plain_output(const Expr *expr) { return expr->kind == EXPR_KEY || expr->kind == EXPR_AGG; }

static weft_status put_plain_outputs(Groups *groups)
{
    const Query *query = groups->run->query;
    for (int c = 0; c < query->n_outputs; c++) {
        const Expr *expr = query->outputs[c].expr;
        Cells      *cells = &groups->cells[c];
        TRY(room_for_cells(groups->run, cells, groups->n_rows, can_be_null(groups, expr)));
        if (expr->kind == EXPR_KEY) TRY(put_key(groups, expr->index, cells));
        if (expr->kind == EXPR_AGG) TRY(put_agg(groups, expr->index, cells));
    }
    return WEFT_OK;
}

static weft_status put_other_outputs(Groups *groups, const EvalContext *context)
{
    const Query *query = groups->run->query;
    int          n_others = 0;
    int         *others = arena_array(groups->run->arena, int, query->n_outputs + 1);
    Value        value;
    for (int c = 0; c < query->n_outputs; c++)
        if (!is_plain_output(query->outputs[c].expr)) others[n_others++] = c;
    for (u64 r = 0; n_others && r < groups->n_rows; r++) {
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        groups->group = group_of(groups, r);
        for (int o = 0; o < n_others; o++) {
            TRY(expr_eval(query->outputs[others[o]].expr, context, &value, groups->run->err));
            put_value(&groups->cells[others[o]], r, &value);
        }
    }
    return WEFT_OK;
}

static weft_status invert_ranks(Groups *groups)
{
    groups->code_of_rank = arena_array(groups->run->arena, const u32 *, groups->run->query->n_aggs + 1);
    for (int a = 0; a < groups->run->query->n_aggs; a++) {
        const AggState *state = &groups->woven->aggs[a];
        if (!state->is_rank) continue;
        const u32 *ranks;
        u32       *codes;
        TRY(query_ranks(groups->run, state->dict, state->dict_count, &ranks));
        TRY(query_alloc(groups->run, ((size_t)state->dict_count + 1) * sizeof *codes, (void **)&codes));
        for (u32 code = 0; code < state->dict_count; code++) {
            if (query_should_stop(groups->run, code)) return query_canceled(groups->run);
            codes[ranks[code]] = code;
        }
        groups->code_of_rank[a] = codes;
    }
    return WEFT_OK;
}

// ---- DISTINCT -------------------------------------------------------------------------------------------------------------------------------

static bool is_null_cell(const Cells *cells, u64 row) { return cells->nulls && cells->nulls[row]; }

static u64 hash_row(const Groups *groups, u64 row)
{
    u64 hash = HASH_SEED;
    for (int c = 0; c < groups->run->query->n_visible; c++) {
        const Cells *cells = &groups->cells[c];
        const void  *bytes = (const u8 *)cells->data + row * cells->size;
        const bool   is_null = is_null_cell(cells, row);
        size_t       length = is_null ? 0 : cells->size;
        if (length && cells->kind == VIEW_TEXT) length = ((const weft_text *)bytes)->length, bytes = ((const weft_text *)bytes)->bytes;
        hash = HASH_MIX(hash, length ? hash_bytes(bytes, length) : is_null);
    }
    return hash;
}

static bool same_cell(const Cells *cells, u64 a, u64 b)
{
    const void *x = (const u8 *)cells->data + a * cells->size, *y = (const u8 *)cells->data + b * cells->size;
    if (is_null_cell(cells, a) || is_null_cell(cells, b)) return is_null_cell(cells, a) == is_null_cell(cells, b);
    if (cells->kind != VIEW_TEXT) return memcmp(x, y, cells->size) == 0;
    const weft_text *s = x, *t = y;
    return s->length == t->length && (s->length == 0 || memcmp(s->bytes, t->bytes, s->length) == 0);
}

static bool same_rows(const Groups *groups, u64 a, u64 b)
{
    for (int c = 0; c < groups->run->query->n_visible; c++)
        if (!same_cell(&groups->cells[c], a, b)) return false;
    return true;
}

static void move_row(Groups *groups, u64 from, u64 to)
{
    for (int c = 0; c < groups->run->query->n_outputs; c++) {
        Cells *cells = &groups->cells[c];
        memmove((u8 *)cells->data + to * cells->size, (u8 *)cells->data + from * cells->size, cells->size);
        if (cells->nulls) cells->nulls[to] = cells->nulls[from];
    }
}

// DISTINCT over groups: rows whose visible values were there before go.
static weft_status drop_repeated(Groups *groups)
{
    u64  n_slots = 16, n_kept = 0;
    u64 *slots;                        // kept row + 1, by hash
    while (n_slots < 2 * groups->n_rows) n_slots *= 2;
    TRY(query_alloc(groups->run, n_slots * sizeof *slots, (void **)&slots));
    for (u64 r = 0; r < groups->n_rows; r++) {
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        u64 at = hash_row(groups, r) & (n_slots - 1);
        while (slots[at] && !same_rows(groups, r, slots[at] - 1)) at = (at + 1) & (n_slots - 1);
        if (slots[at]) continue;
        move_row(groups, r, n_kept);
        slots[at] = ++n_kept;
    }
    groups->n_rows = n_kept;
    return WEFT_OK;
}

// ---- which groups a LIMIT lets through ----------------------------------------------------------------------------------------------------------

// Codes of texts and floats are in no order.  NULLs last.
static int compare_key(const Groups *groups, int k, u64 a, u64 b)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    bool            a_null, b_null;
    const u64       a_code = key_code(groups, k, a, &a_null), b_code = key_code(groups, k, b, &b_null);
    if (a_null || b_null) return a_null - b_null;
    if (a_code == b_code) return 0;
    if (type_is_float(key->type) || key->type.kind == TYPE_TEXT) {
        Value x, y;
        decode_key(groups, k, a, &x);
        decode_key(groups, k, b, &y);
        return value_compare(&x, &y);
    }
    return key_number(key, a_code) < key_number(key, b_code) ? -1 : 1;
}

// Groups of a hash table come as they were found, by the device and its threads.
static int compare_keys(const void *context, u64 a, u64 b)
{
    const Groups *groups = context;
    int           order = 0;
    for (int k = 0; k < groups->run->query->n_keys && !order; k++) order = compare_key(groups, k, group_of(groups, a), group_of(groups, b));
    return order;
}

// Of rows that are DISTINCT any of several groups may be left, but no two look the same.
static int compare_visible(const void *context, u64 a, u64 b)
{
    const Groups *groups = context;
    for (int c = 0; c < groups->run->query->n_visible; c++) {
        const Cells *cells = &groups->cells[c];
        const bool   a_null = is_null_cell(cells, a), b_null = is_null_cell(cells, b);
        const View   view = { .kind = cells->kind, .type = cells->type, .data = cells->data };
        const int    order = a_null || b_null ? a_null - b_null : compare_view_cells(&view, a, b);
        if (order) return order;
    }
    return 0;
}

// ---- all together -----------------------------------------------------------------------------------------------------------------------------

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

// Texts of a dictionary stay there, and the result holds it (copy_column); others move to the result.
static weft_status cells_out(Groups *groups, weft_result *result)
{
    QueryRun *run = groups->run;
    View     *views = arena_array(run->arena, View, run->query->n_outputs + 1);
    if (run->query->is_distinct) TRY(drop_repeated(groups));
    for (int c = 0; c < run->query->n_outputs; c++) {
        const Cells *cells = &groups->cells[c];
        views[c] = (View){ .kind = cells->kind, .type = cells->type, .data = cells->data, .nulls = cells->nulls, .dict = cells->dict };
    }
    const bool is_hash = groups->woven && groups->woven->group_kind == GROUP_HASH;     // others come by key; without FROM there is one row
    const Tie  tie = run->query->is_distinct ? (Tie){ compare_visible, groups } : (Tie){ compare_keys, groups };
    TRY(copy_out(run, result, views, groups->n_rows, is_hash ? &tie : NULL));
    for (int c = 0; c < result->n_columns; c++)
        if (result->columns[c].type == WEFT_TEXT && !groups->cells[c].dict) TRY(keep_texts(run, result, (weft_text *)result->columns[c].text));
    return WEFT_OK;
}

static weft_status result_from_groups(QueryRun *run, weft_result *result)
{
    Groups groups = { .run = run, .woven = run->last_woven, .set = &run->last->groups, .cells = make_cells(run) };
    if (groups.woven->group_kind == GROUP_HASH && !groups.woven->is_one_word) groups.words = groups.set->words;
    const EvalContext context = { .arena = run->arena, .column = give_value, .context = &groups };
    TRY(invert_ranks(&groups));
    TRY(find_groups(&groups));
    TRY(check_sums(&groups));
    TRY(keep_having(&groups, &context));
    TRY(put_plain_outputs(&groups));
    TRY(put_other_outputs(&groups, &context));
    return cells_out(&groups, result);
}

// The columns without a row.
static weft_status result_from_nothing(QueryRun *run, weft_result *result)
{
    View *views = arena_array(run->arena, View, run->query->n_outputs + 1);
    for (int c = 0; c < run->query->n_outputs; c++) {
        const Type type = run->query->outputs[c].expr->type;
        views[c] = (View){ .kind = view_kind(type), .type = type };
    }
    return copy_out(run, result, views, 0, NULL);
}

weft_status result_from_query(QueryRun *run, weft_result *result)
{
    if (run->is_empty) return result_from_nothing(run, result);
    return run->query->is_grouped ? result_from_groups(run, result) : result_from_rows(run, result);
}

weft_status result_from_constants(QueryRun *run, weft_result *result)
{
    Groups            groups = { .run = run, .cells = make_cells(run) };
    const EvalContext context = { .arena = run->arena };
    Value             value;
    for (int c = 0; c < run->query->n_outputs; c++) TRY(room_for_cells(run, &groups.cells[c], 1, true));
    groups.n_rows = 1;
    for (int c = 0; c < run->query->n_conjuncts; c++) {
        TRY(expr_eval(run->query->conjuncts[c], &context, &value, run->err));
        if (value.is_null || !value.i) groups.n_rows = 0;
    }
    for (int c = 0; groups.n_rows && c < run->query->n_outputs; c++) {
        TRY(expr_eval(run->query->outputs[c].expr, &context, &value, run->err));
        put_value(&groups.cells[c], 0, &value);
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
