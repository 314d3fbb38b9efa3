// sink.c - where a kernel's rows end: totals, groups, or rows.
//
// Accumulators are private to a worker and merged by the host.  Without keys they are registers for the length of the
// kernel.
// With keys whose domains are proved small, the group's number is computed from the codes of the keys (array);
// otherwise it
// is looked up in a hash table that grows through the host.  Sums take 64 bits where ranges and row counts prove that
// to be
// enough, else 128.
//
// Sums of floats are exact, so they do not depend on the order of rows.  A float is an integer of multiples of 2^unit
// (statistics say of
// which), and integers can be added in any order:
//
//     value = part[0] + part[1] * 2^digits + ...     each part in a sum of its own, 64 bits; few parts: PART, many:
//     SPREAD
//
// A part has DIGITS bits, so that the sum of as many parts as there are rows fits 64: no carry, no check, and a GPU's
// atomic additions will do.  The host puts the parts together and rounds once (engine/exact.c).  NaN and infinities are
// counted apart, where
// they can occur; what they leave in the parts is then not looked at.

#include "weave/weave_int.h"

#include <math.h>

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

#define ARRAY_BYTES_SMALL ((u64)1 << 20)       // always worth it: stays in L2
#define ARRAY_BYTES_LARGE ((u64)1 << 24)       // worth it when there are many rows per group

// What was put together for the sink.
static void end_sink(Weaver *w)
{
    IrSink *sink = &w->ir->sink;
    sink->kind = w->job->sink, sink->live = w->live, sink->is_dense = w->is_all, sink->can_fail = w->can_fail,
    sink->groups = w->out->group_kind;
    sink->first_column = w->n_placed, sink->end_column = w->ir->n_columns;
    ir_find_uses(w->arena, sink->keys, &sink->uses, &sink->n_uses);
    ir_find_uses(w->arena, sink->adds, &sink->uses, &sink->n_uses);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// A join table will be made of them: what a device that keeps them is to find out on the way.
static void add_note(Weaver *w, int o, const Val *val)
{
    const u8 wanted = w->job->notes ? w->job->notes[o] : NOTE_NOTHING;
    if (!wanted) return;
    const char *note = val->is_float ? ""
                                     : PRINT("NOTE(%d, %s)%s", o, val->value,
                                             wanted == NOTE_VALUES ? PRINT(" MARK(%d, %s)", o, val->value) : "");
    weave_notes(w, o);
    if (val->null) weave_stmt(w, "if (%s) { NOTE_NULL(%d) } else { %s }", val->null, o, note);
    else if (*note) weave_stmt(w, "%s", note);
}

weft_status weave_rows(Weaver *w)
{
    const WeaveJob *job = w->job;
    w->out->outputs = arena_array(w->arena, OutColumn, job->n_outputs + 1);
    for (int o = 0; o < job->n_outputs; o++) {
        OutColumn *out = &w->out->outputs[o];
        Val        val;
        TRY(weave_word(w, job->outputs[o], &val));
        *out = (OutColumn){ .type = job->outputs[o]->type,
                            .is_float = val.is_float,
                            .dict = val.dict,
                            .dict_count = val.dict_count,
                            .range = val.range,
                            .null = -1 };
        out->range.nullable = val.null != NULL;
        if (val.is_float) out->range.f = weave_float_range(w, job->outputs[o]);
        out->value = weave_state(w, SLOT_OUT, 8, 0);
        weave_stmt(w, "PUT(o%d, %s)", out->value, val.value);
        add_note(w, o, &val);
        if (!val.null) continue;
        out->null = weave_state(w, SLOT_OUT, 1, 0);
        weave_stmt(w, "PUT(o%d, %s)", out->null, val.null);
    }
    w->ir->sink.n_outs = job->n_outputs, w->ir->sink.outs = w->out->outputs, w->ir->sink.notes = job->notes;
    w->ir->sink.keys = "", w->ir->sink.adds = weave_take_block(w);
    end_sink(w);
    return WEFT_OK;
}

// ---- group keys -----------------------------------------------------------------------------------------------------

typedef struct KeyCode {
    const char    *code;               // u64 text
    const char    *null;  // unbounded keys that can be NULL: no code is free to say so, a bit beside the words does
    bool           is_bounded;
    const Payload *payload;            // as IrKey.payload
} KeyCode;

// A joined column is grouped by its code; where there may be no match, the code of NULL comes after all others.
static void payload_key(Weaver *w, const Var *var, GroupKey *key, KeyCode *out)
{
    const Payload *payload = var->payload;
    const char    *code = PRINT("(u64)%s", var->code);
    *key = (GroupKey){ .type = var->type,
                       .dict = var->dict,
                       .base = payload->base,
                       .decode = payload->decode,
                       .n_codes = payload->n_codes,
                       .nullable = payload->range.nullable,
                       .null_code = payload->null_code };
    if (var->missing) {
        key->n_codes += !payload->range.nullable;
        key->nullable = true, key->null_code = key->n_codes - 1;
        code = PRINT("(%s ? (u64)%s : %s)", var->missing, weave_param_i64(w, NULL, (i64)key->null_code), code);
    }
    *out = (KeyCode){ .code = code,
                      .is_bounded = payload->n_codes > 0,                      // 0: they span 63 bits or more
                      .payload = var->is_looked_up && !var->missing ? payload : NULL };
}

static weft_status value_key(Weaver *w, const Expr *expr, GroupKey *key, KeyCode *out)
{
    Val val;
    TRY(weave_word(w, expr, &val));
    *key = (GroupKey){ .type = expr->type, .dict = val.dict, .nullable = val.null != NULL };
    const Range range = val.range.low <= val.range.high ? val.range : (Range){ .low = 0, .high = 0 };
    const u128  n_codes = (u128)range.high - (u128)range.low + 1 + key->nullable;
    const char *code;
    out->is_bounded = !val.is_float && n_codes < (u128)1 << 62;
    if (val.is_float) {
        code = PRINT("e%d", w->n_temps++);
        weave_stmt(w, "F64_BITS(%s, %s)", code, val.value);
    } else {
        key->base = (i64)range.low;
        code = PRINT("(%s)", weave_distance(w, &val, NULL, key->base));
    }
    const char *instead = "0";
    if (out->is_bounded) {
        key->n_codes = (u64)n_codes;
        key->null_code = key->n_codes - 1;
        if (val.null) instead = PRINT("(u64)%s", weave_param_i64(w, NULL, (i64)key->null_code));
    } else if (val.null) {
        out->null = val.null = weave_temp(w, "u8", val.null);
    }
    out->code = weave_temp(w, "u64", val.null ? PRINT("%s ? %s : %s", val.null, instead, code) : code);
    return WEFT_OK;
}

static weft_status key_codes(Weaver *w, KeyCode *codes)
{
    for (int k = 0; k < w->job->n_keys; k++) {
        const Expr *expr = w->job->keys[k];
        GroupKey   *key = &w->out->group_keys[k];
        const Var  *var = expr->kind == EXPR_COLUMN ? weave_var_of(w, expr) : NULL;
        if (var && var->payload && !weave_low_var(w, expr->column) && !type_is_float(var->type) &&
            (var->payload->n_codes || !var->range.nullable)) {
            payload_key(w, var, key, &codes[k]);
            continue;
        }
        TRY(value_key(w, expr, key, &codes[k]));
    }
    return WEFT_OK;
}

static bool domain_of(const Weaver *w, const KeyCode *codes, u128 *domain)
{
    *domain = 1;
    for (int k = 0; k < w->job->n_keys; k++) {
        if (!codes[k].is_bounded) return false;
        *domain *= MAX_OF(w->out->group_keys[k].n_codes, 1);
        if (*domain >> 62) return false;
    }
    return true;
}

static const char *one_word_key(Weaver *w, const KeyCode *codes)
{
    const char *word = NULL;
    u64         stride = 1;
    for (int k = w->job->n_keys - 1; k >= 0; k--) {
        GroupKey   *key = &w->out->group_keys[k];
        const char *term = k == w->job->n_keys - 1
                               ? codes[k].code
                               : PRINT("%s * (u64)%s", codes[k].code, weave_param_i64(w, NULL, (i64)stride));
        word = word ? PRINT("%s + %s", word, term) : term;
        key->stride = stride;
        stride *= MAX_OF(key->n_codes, 1);
    }
    return word;
}

// ---- aggregates -----------------------------------------------------------------------------------------------------

typedef struct Sink {
    int         rows;                  // slot of count(*), -1
    const char *weight;                // of a row: what is added to counts
    int         n_counts;              // slots that count the non-NULL values of an argument
    struct { const Expr *arg; int slot; } counts[64];
    int         n_sums;                // sums of an argument: sum and avg share one
    struct { const Expr *arg; AggState state; } sums[64];
} Sink;

static int add_slot(Weaver *w, SlotKind kind, const char *type, u64 init)
{
    const int slot = weave_state(w, kind, kind == SLOT_SEEN ? 1 : 8, init);
    *LIST_PUSH(w->arena, w->ir->sink.accumulators, w->ir->sink.n_accumulators) = (Accumulator){ slot, kind, type };
    return slot;
}

static const char *cell(Weaver *w, int slot) { return PRINT("%cc%d%c", REF_OPEN, slot, REF_CLOSE); }

static weft_status set_weight(Weaver *w, Sink *sink)
{
    Val val;
    if (!w->job->weight) return WEFT_OK;
    TRY(weave_value(w, w->job->weight, &val));
    sink->weight = weave_temp(w, "i64", val.value);
    return WEFT_OK;
}

static int rows_slot(Weaver *w, Sink *sink)
{
    if (sink->rows < 0) sink->rows = add_slot(w, SLOT_ADD, "i64", 0);
    return sink->rows;
}

// The slot that counts non-NULL values of ARG; *IS_NEW when this aggregate has to write it.
static int count_slot(Weaver *w, Sink *sink, const Expr *arg, bool nullable, bool *is_new)
{
    *is_new = false;
    if (!nullable) return rows_slot(w, sink);
    for (int i = 0; i < sink->n_counts; i++)
        if (expr_equal(sink->counts[i].arg, arg)) return sink->counts[i].slot;
    *is_new = true;
    const int slot = add_slot(w, SLOT_ADD, "i64", 0);
    if (sink->n_counts < COUNT_OF(sink->counts)) {
        sink->counts[sink->n_counts].arg = arg;
        sink->counts[sink->n_counts++].slot = slot;
    }
    return slot;
}

static bool sum_fits(const Weaver *w, Range range)
{
    if (range.low > range.high) return true;
    const double most = MAX_OF(-(double)range.low, (double)range.high);
    return most * (w->max_rows + 1) < 9.0e18;
}

// ---- sums of floats -------------------------------------------------------------------------------------------------

#define PARTS_MAX 8                    // beyond, SPREAD: it touches at most a few slots whatever their number

typedef struct FloatSum {
    int  n_parts, digits, unit;
    bool is_spread, has_special;
} FloatSum;

// DIGITS and PARTS such that the parts of max_rows values fit: |part| <= 2^digits, and as many of them as there are
// rows below 2^62.
static FloatSum float_sum(Weaver *w, const Expr *arg)
{
    const FloatRange range = weave_float_range(w, arg);
    const int        row_bits = ilogb(w->max_rows + 1) + 1, span = float_range_most(range) + 1 - range.unit;
    FloatSum sum = { .unit = range.unit, .has_special = range.has_special, .digits = MIN_OF(51, 62 - row_bits) };
    sum.n_parts = sum.digits > 0 ? (span - 1) / sum.digits + 1 : PARTS_MAX + 1;
    const int top = range.unit + sum.digits * (sum.n_parts - 1);  // 2^-top is multiplied by, so it must be a number
    sum.is_spread = sum.n_parts > PARTS_MAX || top < -1000 || top > 1000;
    if (sum.is_spread) {
        sum.digits = row_bits <= 30   ? 32
                     : row_bits <= 46 ? 16
                                      : 8;  // 8: enough for 2^54 rows, which nobody has the time to add
        sum.n_parts = (span - 1) / sum.digits + 1;
    }
    return sum;
}

static void add_parts(Weaver *w, Sink *sink, AggState *state, const FloatSum *sum)
{
    for (int p = 0; p < sum->n_parts; p++) {
        const int slot = sum->is_spread ? weave_state(w, SLOT_ADD, 8, 0) : add_slot(w, SLOT_ADD, "i64", 0);
        if (p == 0) state->sum = slot;
    }
    state->n_parts = sum->n_parts, state->digits = sum->digits, state->unit = sum->unit;
    if (!sum->has_special) return;
    state->special = add_slot(w, SLOT_ADD, "i64", 0);
    add_slot(w, SLOT_ADD, "i64", 0);
}

static void write_float_sum(Weaver *w, Sink *sink, const Expr *arg, AggState *state, const Val *val, Text *writes)
{
    const FloatSum sum = float_sum(w, arg);
    const char    *value = PRINT("e%d", w->n_temps++), *rest = PRINT("e%d", w->n_temps++);
    add_parts(w, sink, state, &sum);
    text_add(writes, "const f64 %s = %s;\n", value, val->value);
    if (sum.has_special) {
        const char *infinity = weave_param_f64(w, __builtin_inf());
        text_add(writes, "if (!(%s < %s)) {\nADD(%s, 1)\n}\n", value, infinity, cell(w, state->special));
        text_add(writes, "if (!(%s > -%s)) {\nADD(%s, 1)\n}\n", value, infinity, cell(w, state->special + 1));
    }
    if (sum.is_spread) {
        const char *unit = weave_param_i64(w, NULL, sum.unit), *log = weave_param_i64(w, NULL, ilogb(sum.digits)),
                   *n = weave_param_i64(w, NULL, sum.n_parts);
        text_add(writes, "SPREAD(%d, %s, %s, %s, %s, %s)\n", state->sum, PRINT("%cg%c", REF_OPEN, REF_CLOSE), value,
                 unit, log, n);
        return;
    }
    const char *radix = sum.n_parts > 1 ? weave_param_f64(w, ldexp(1, sum.digits)) : "1";
    text_add(writes, "f64 %s = %s * %s;\n", rest, value,
             weave_param_f64(w, ldexp(1, -(sum.unit + sum.digits * (sum.n_parts - 1)))));
    for (int p = sum.n_parts - 1; p >= 0; p--) {
        const char *part = PRINT("e%d", w->n_temps++);
        text_add(writes, "PART(%s, %s, %s)\nADD(%s, %s)\n", part, rest, radix, cell(w, state->sum + p), part);
    }
}

static void add_wide_sum(Weaver *w, const char *value, int *low, int *high, Text *writes)
{
    *low = add_slot(w, SLOT_WIDE_LOW, "i64", 0);
    *high = add_slot(w, SLOT_WIDE_HIGH, "i64", 0);
    text_add(writes, "ADD_WIDE(%s, %s, %s)\n", cell(w, *low), cell(w, *high), value);
}

// Of numbers of 128 bits the words are added apart, each as a signed number in a sum of 128 bits, so none overflows:
// number = upper * 2^64 + low, where upper is one more than the high word where low is negative.
static void write_wide_sum(Weaver *w, AggState *state, const Val *val, Text *writes)
{
    int ignored;
    add_wide_sum(w, val->value, &state->sum, &state->high, writes);
    add_wide_sum(w, PRINT("%s - WIDE_HIGH(%s)", val->high, val->value), &state->upper, &ignored, writes);
}

static void write_sum(Weaver *w, Sink *sink, const Expr *arg, AggState *state, const Val *val, Text *writes)
{
    if (val->high) {
        write_wide_sum(w, state, val, writes);
    } else if (val->is_float) {
        write_float_sum(w, sink, arg, state, val, writes);
    } else if (sum_fits(w, val->range)) {
        state->sum = add_slot(w, SLOT_ADD, "i64", 0);
        text_add(writes, "ADD(%s, %s)\n", cell(w, state->sum), val->value);
    } else {
        add_wide_sum(w, val->value, &state->sum, &state->high, writes);
    }
}

// The sum of ARG, once.
static void share_sum(Weaver *w, Sink *sink, const Expr *arg, AggState *state, const Val *val, Text *writes)
{
    for (int i = 0; i < sink->n_sums; i++) {
        if (!expr_equal(sink->sums[i].arg, arg)) continue;
        const int count = state->count;
        *state = sink->sums[i].state;
        state->count = count;
        return;
    }
    write_sum(w, sink, arg, state, val, writes);
    if (sink->n_sums == COUNT_OF(sink->sums)) return;
    sink->sums[sink->n_sums].arg = arg;
    sink->sums[sink->n_sums++].state = *state;
}

// Both words change together, which a GPU cannot do.
static void write_wide_extreme(Weaver *w, AggState *state, bool is_min, const Val *val, Text *writes)
{
    state->high = add_slot(w, is_min ? SLOT_MIN_WIDE : SLOT_MAX_WIDE, "i64", is_min ? (u64)INT64_MAX : (u64)INT64_MIN);
    state->sum = add_slot(w, SLOT_EXTREME_LOW, "i64", is_min ? UINT64_MAX : 0);
    text_add(writes, "%s_WIDE(%s, %s, %s, %s)\n", is_min ? "LEAST" : "MOST", cell(w, state->high), cell(w, state->sum),
             val->high, val->value);
    w->out->is_for_cpu = true;
}

static void write_extreme(Weaver *w, Sink *sink, AggState *state, bool is_min, const Val *val, Text *writes)
{
    if (val->high) {
        write_wide_extreme(w, state, is_min, val, writes);
        return;
    }
    static const double float_init[2] = { -__builtin_inf(), __builtin_nan("") };
    u64                 init = is_min ? (u64)INT64_MAX : (u64)INT64_MIN;
    if (val->is_float) memcpy(&init, &float_init[is_min], sizeof init);
    const SlotKind kind =
        is_min ? (val->is_float ? SLOT_MIN_F64 : SLOT_MIN) : (val->is_float ? SLOT_MAX_F64 : SLOT_MAX);
    state->sum = add_slot(w, kind, val->is_float ? "f64" : "i64", init);
    text_add(writes, "%s%s(%s, %s)\n", is_min ? "LEAST" : "MOST", val->is_float ? "_F64" : "", cell(w, state->sum),
             val->value);
}

static bool is_sum(AggKind kind) { return kind == AGG_SUM || kind == AGG_AVG || kind == AGG_SUM_REST; }

static weft_status write_agg(Weaver *w, Sink *sink, const Agg *agg, AggState *state)
{
    Val  val;
    bool counts = false;
    *state = (AggState){ .sum = -1, .high = -1, .upper = -1, .count = -1, .special = -1 };
    if (agg->kind == AGG_COUNT_ALL) {
        state->count = rows_slot(w, sink);
        return WEFT_OK;
    }
    TRY(weave_value(w, agg->arg, &val));
    if (val.high) val.high = weave_temp(w, "i64", val.high), val.value = weave_temp(w, "i64", val.value);
    state->is_float = val.is_float, state->dict = val.dict, state->dict_count = val.dict_count;
    // Groups of a hash or array exist only with rows, so a never-NULL sum needs no count.
    const bool needs_count =
        val.null || agg->kind == AGG_COUNT || agg->kind == AGG_AVG || w->out->group_kind == GROUP_ONE;
    if (needs_count) state->count = count_slot(w, sink, agg->arg, val.null != NULL, &counts);
    if ((agg->kind == AGG_MIN || agg->kind == AGG_MAX) && val.dict) {
        const u32 *by_code;
        TRY(weave_ranks(w, val.dict, val.dict_count, &by_code));
        const char *ranks =
            weave_table(w, "u32", weave_name(w, "ranks"), by_code, (size_t)val.dict_count * sizeof *by_code);
        val.value = PRINT("(i64)%s[%s]", ranks, val.null ? PRINT("(%s ? 0 : %s)", val.null, val.value) : val.value);
        state->is_rank = true;
    }
    Text writes = { 0 };
    if (is_sum(agg->kind)) share_sum(w, sink, agg->arg, state, &val, &writes);
    else if (agg->kind != AGG_COUNT) write_extreme(w, sink, state, agg->kind == AGG_MIN, &val, &writes);
    if (counts) text_add(&writes, "ADD(%s, %s)\n", cell(w, state->count), sink->weight);
    char *lines = text_keep(w->arena, &writes);
    const bool has_writes = *lines;    // strtok_r changes them
    if (val.null && has_writes) weave_stmt(w, "if (!%s) {", val.null);
    for (char *save, *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        weave_stmt(w, "%s", line);
    if (val.null && has_writes) weave_stmt(w, "}");
    return WEFT_OK;
}

static weft_status write_aggs(Weaver *w, Sink *sink)
{
    w->out->aggs = arena_array(w->arena, AggState, w->job->n_aggs + 1);
    for (int a = 0; a < w->job->n_aggs; a++) TRY(write_agg(w, sink, &w->job->aggs[a], &w->out->aggs[a]));
    return WEFT_OK;
}

// ---- the three kinds ------------------------------------------------------------------------------------------------

static weft_status write_totals(Weaver *w, Sink *sink)
{
    w->out->seen = rows_slot(w, sink);
    TRY(set_weight(w, sink));
    TRY(write_aggs(w, sink));
    if (w->job->weight) weave_stmt(w, "ADD(%s, %s)", cell(w, sink->rows), sink->weight);
    w->ir->sink.keys = "", w->ir->sink.adds = weave_take_block(w), w->ir->sink.rows = w->job->weight ? -1 : sink->rows;
    end_sink(w);
    return WEFT_OK;
}

// Aggregates, then the row count or the mark that the group has rows.
static weft_status write_grouped(Weaver *w, Sink *sink)
{
    const bool is_array = w->out->group_kind == GROUP_ARRAY;
    w->ir->sink.keys = weave_take_block(w);
    TRY(set_weight(w, sink));
    TRY(write_aggs(w, sink));
    if (sink->rows >= 0) weave_stmt(w, "ADD(%s, %s)", cell(w, sink->rows), sink->weight);
    w->out->seen = is_array ? sink->rows : -1;
    if (is_array && sink->rows < 0) {
        w->out->seen = add_slot(w, SLOT_SEEN, "u8", 0);
        weave_stmt(w, "SEEN(%s)", cell(w, w->out->seen));
    }
    w->ir->sink.adds = weave_take_block(w);
    end_sink(w);
    return WEFT_OK;
}

static u64 bytes_per_group(Weaver *w)
{
    u64 bytes = 8;
    for (int a = 0; a < w->job->n_aggs; a++) {
        const Agg *agg = &w->job->aggs[a];
        const bool is_float_sum = is_sum(agg->kind) && type_is_float(agg->arg->type);
        bytes += is_float_sum ? 8 * (u64)float_sum(w, agg->arg).n_parts + 16 : 16;
    }
    return bytes;
}

// Keys that do not fit one word are stored as words beside the table, which then holds their hash.
static void write_several_words(Weaver *w, const KeyCode *codes)
{
    Woven *out = w->out;
    Text   nulls = { 0 }, confirm = { 0 };
    for (int k = 0; k < w->job->n_keys; k++)
        if (codes[k].null) text_add(&nulls, "%s(u64)%s << %d", nulls.length ? " | " : "", codes[k].null, k);
    out->has_null_word = nulls.length > 0;
    out->n_words = w->job->n_keys + out->has_null_word;
    weave_stmt(w, "u64 words[%d];", out->n_words);
    for (int k = 0; k < out->n_words; k++) {
        weave_stmt(w, "words[%d] = %s;", k, k < w->job->n_keys ? codes[k].code : nulls.bytes);
        text_add(&confirm, "%sA->group_words[(u64)(c_ - 1) * %d + %d] == words[%d]", k ? " && " : "", out->n_words, k,
                 k);
    }
    weave_stmt(w, "u64 key = HASH_SEED;");
    for (int k = 0; k < out->n_words; k++) weave_stmt(w, "key = HASH_MIX(key, words[%d]);", k);
    weave_stmt(w, "u32 group; GROUP(group, key, words, %s)", text_keep(w->arena, &confirm));
    text_free(&nulls);
}

// The number of the group in its parts, for kernels that number their groups otherwise (join_cube.c).
static void note_key_codes(Weaver *w, const KeyCode *codes)
{
    IrSink *sink = &w->ir->sink;
    IrKey  *keys = arena_array(w->arena, IrKey, w->job->n_keys);
    for (int k = 0; k < w->job->n_keys; k++) keys[k] = (IrKey){ codes[k].code, codes[k].payload };
    sink->n_keys = w->job->n_keys, sink->key_codes = keys;
    sink->key_values = w->block.length ? arena_strndup(w->arena, w->block.bytes, w->block.length) : "";
}

// Whether groups are an array with a place for each of DOMAIN keys, instead of a hash table.  Beyond the caches a place
// is still reached sooner than a slot, and places of several threads are added up without a search: an array is better
// as long as few of its places stay empty.
static bool is_array_better(Weaver *w, u128 domain)
{
    const WeaveJob *job = w->job;
    const u128      bytes = domain * bytes_per_group(w);
    const double    n_places = (double)domain;
    if (bytes <= ARRAY_BYTES_SMALL || (bytes <= ARRAY_BYTES_LARGE && n_places * 16 < w->max_rows)) return true;
    return bytes <= job->array_bytes && n_places <= w->max_rows && n_places <= GROUP_PLACES_MOST * job->n_groups;
}

static void write_group_number(Weaver *w, const KeyCode *codes)
{
    Woven *out = w->out;
    u128   domain;
    out->is_one_word = domain_of(w, codes, &domain);
    out->group_kind = out->is_one_word && is_array_better(w, domain) ? GROUP_ARRAY : GROUP_HASH;
    if (out->group_kind == GROUP_ARRAY) {
        out->n_groups = (u64)MAX_OF(domain, (u128)1);
        note_key_codes(w, codes);
        weave_stmt(w, "const u64 group = %s;", one_word_key(w, codes));
    } else if (out->is_one_word) {
        out->n_words = 1;
        out->group_domain = (u64)MAX_OF(domain, (u128)1);
        weave_stmt(w, "const u64 key = %s;", one_word_key(w, codes));
        weave_stmt(w, "u32 group; GROUP(group, key, 0, 1)");
    } else {
        write_several_words(w, codes);
    }
}

weft_status weave_groups(Weaver *w)
{
    Sink    sink = { .rows = -1, .weight = "1" };
    KeyCode codes[64] = { 0 };
    w->out->group_keys = arena_array(w->arena, GroupKey, w->job->n_keys + 1);
    if (w->job->n_keys > COUNT_OF(codes))
        return fail(w->err, WEFT_TOO_COMPLEX, -1, "more than %d group keys", COUNT_OF(codes));
    w->out->group_kind = GROUP_ONE;
    if (w->job->n_keys == 0) return write_totals(w, &sink);
    TRY(key_codes(w, codes));
    write_group_number(w, codes);
    return write_grouped(w, &sink);
}
