// steps.c - filters and probes as kernel text.
//
// Filters at the start that compare one stored column with constants become dense tests over the mask, on the values as they
// are stored: the host moves the constants into each chunk's domain (PARAM_RANGE_*), so an 8-bit column is compared in 8 bits.
// The same ranges are zone tests: a chunk outside of one is never read.  Everything later works on the selection.

#include "weave/weave_int.h"

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

// ---- ranges over stored columns ------------------------------------------------------------------------------------------

typedef struct RangeTest { Var *var; i64 low, high; } RangeTest;

static bool source_var(Weaver *w, const Expr *expr, Var **var)
{
    if (expr->kind != EXPR_COLUMN) return false;
    *var = weave_var(w, (ColumnRef){ expr->relation, expr->column });
    return *var && (*var)->source >= 0 && !type_is_float((*var)->type);
}

static i64 clamp(i128 value) { return value < INT64_MIN ? INT64_MIN : value > INT64_MAX ? INT64_MAX : (i64)value; }

static RangeTest compare_range(Var *var, Op op, i128 constant)
{
    RangeTest test = { var, INT64_MIN, INT64_MAX };
    if ((op == OP_LT && constant <= INT64_MIN) || (op == OP_GT && constant >= INT64_MAX)) return (RangeTest){ var, 0, -1 };        // no number is beyond these
    switch (op) {
        case OP_EQ: test.low = test.high = clamp(constant); break;
        case OP_LT: test.high = clamp(constant - 1); break;
        case OP_LE: test.high = clamp(constant); break;
        case OP_GT: test.low = clamp(constant + 1); break;
        default:    test.low = clamp(constant); break;
    }
    return test;
}

// Whether the filter is a range over one stored column; its ends are then known here and parameters there.
static weft_status as_range(Weaver *w, const Expr *filter, bool *is_range, RangeTest *test)
{
    *is_range = false;
    if (weave_is_text_test(filter)) {
        TextTest text;
        Var     *var;
        TRY(weave_text_test(w, filter, &text));
        if (!text.is_run || !source_var(w, text.text, &var)) return WEFT_OK;
        *test = (RangeTest){ var, text.low, text.high };
        *is_range = true;
        return WEFT_OK;
    }
    if (filter->kind != EXPR_CALL || filter->op < OP_EQ || filter->op > OP_GE || filter->op == OP_NE) return WEFT_OK;
    static const Op mirrored[] = { [OP_EQ] = OP_EQ, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE };
    for (int side = 0; side < 2; side++) {
        const Expr *constant = filter->args[1 - side];
        Var        *var;
        if (!source_var(w, filter->args[side], &var) || constant->kind != EXPR_CONST || constant->value.is_null) continue;
        if (var->type.kind == TYPE_TEXT) continue;
        *test = compare_range(var, side == 0 ? filter->op : mirrored[filter->op], constant->value.i);
        *is_range = true;
    }
    return WEFT_OK;
}

bool weave_is_range(Weaver *w, const Expr *filter)
{
    bool      is_range;
    RangeTest test;
    return as_range(w, filter, &is_range, &test) == WEFT_OK && is_range;
}

static RangeTest *test_on(RangeTest *tests, int n_tests, const Var *var)
{
    for (int i = 0; i < n_tests; i++)
        if (tests[i].var == var) return &tests[i];
    return NULL;
}

// Values are taken to lie evenly.
static double share_of(const RangeTest *test)
{
    const Range *range = &test->var->range;
    const double low = MAX_OF((double)test->low, (double)range->low), high = MIN_OF((double)test->high, (double)range->high);
    return high < low ? 0 : (high - low + 1) / ((double)range->high - (double)range->low + 1);
}

static void write_test(Weaver *w, const RangeTest *test, bool is_first)
{
    const Var  *var = test->var;
    const char *also = is_first ? "" : "_ALSO";
    const char *low = PRINT("%s_low", var->name), *span = PRINT("%s_span", var->name), *type = var->width ? weave_width_type(var->width) : "u64";
    weave_load(w, test->var);
    const bool  is_sieved = w->out->can_pick;
    const Param a = { .kind = var->width ? PARAM_RANGE_LOW : PARAM_VALUE, .value = test->low, .column = var->column, .is_sieved = is_sieved };
    const Param b = { .kind = PARAM_RANGE_SPAN, .value = test->high, .other = test->low, .column = var->column, .is_sieved = is_sieved };
    text_add(&w->head, "    PARAM(%s, %s, %d)\n", type, low, weave_param(w, a));
    const Param spread = { .kind = PARAM_VALUE, .value = (i64)((u64)test->high - (u64)test->low) };
    text_add(&w->head, "    PARAM(%s, %s, %d)\n", type, span, weave_param(w, var->width ? b : spread));
    if (!var->range.nullable) weave_line(w, "%sBETWEEN_TEST%s(live, %s, %s, %s, %s)", weave_unsure(w), also, type, var->name, low, span);
    else weave_line(w, "TEST(live) { PASS%s(live, BETWEEN(%s, %s[i], %s, %s) & !IS_NULL(%s)); }", also, type, var->name, low, span, var->name);
    *LIST_PUSH(w->arena, w->out->zones, w->out->n_zones) = (ZoneTest){ var->source, test->low, test->high };
    *LIST_PUSH(w->arena, w->out->sieves, w->out->n_sieves) = (Sieve){ var->source, test->low, test->high, NULL, true, share_of(test) };
    if (test->low > test->high) w->out->is_empty = true;
    w->pass *= share_of(test);
}

weft_status weave_tests(Weaver *w)
{
    RangeTest *tests = NULL;
    int        n_tests = 0;
    for (int s = 0; s < w->job->n_steps && !w->job->steps[s].table; s++) {
        bool      is_range;
        RangeTest test;
        TRY(as_range(w, w->job->steps[s].filter, &is_range, &test));
        if (!is_range) continue;
        RangeTest *same = test_on(tests, n_tests, test.var);
        if (!same) *LIST_PUSH(w->arena, tests, n_tests) = test;
        else same->low = MAX_OF(same->low, test.low), same->high = MIN_OF(same->high, test.high);
        w->done[s] = true;
    }
    if (!n_tests) return WEFT_OK;
    weave_line(w, "MASK(live)");
    for (int i = 0; i < n_tests; i++) write_test(w, &tests[i], i == 0);
    weave_line(w, "PICK%s(live)", w->out->can_pick ? "_UNSURE" : "");
    weave_count(w, "range tests", 0);
    w->is_all = false;
    return WEFT_OK;
}

// While all rows are at hand, rows pass through the mask; once there is a selection it is narrowed.
const char *weave_keep(Weaver *w, const char *condition)
{
    return PRINT("%s(%s, %s);", w->is_all ? "PASS" : "KEEP", w->live, condition);
}

void weave_filter_block(Weaver *w)
{
    if (!w->is_all) {
        weave_block(w, PRINT("FILTER(%s)", w->live));
        return;
    }
    weave_line(w, "MASK(%s)", w->live);
    weave_block(w, PRINT("TEST(%s)", w->live));
    weave_line(w, "PICK(%s)", w->live);
    w->is_all = false;
}

// The distance of a value from LOW: one addition for a stored column, since the host knows each chunk's base.
const char *weave_distance(Weaver *w, const Val *val, const char *name, i64 low)
{
    if (!val->stored) return PRINT("(u64)(%s) - (u64)%s", val->value, weave_param_i64(w, name, low));
    const int k = weave_param(w, (Param){ .kind = PARAM_OFFSET, .value = low, .column = val->stored->column });
    if (!name) name = PRINT("p%d", k);
    text_add(&w->head, "    PARAM(u64, %s, %d)\n", name, k);
    return PRINT("%s[i] + %s", val->stored->name, name);
}

weft_status weave_filter(Weaver *w, const Expr *filter, int at_step)
{
    const char *condition;
    if (expr_is_never(filter)) w->out->is_empty = true;
    TRY(weave_truth(w, filter, true, &condition));
    weave_stmt(w, "%s", weave_keep(w, condition));
    weave_filter_block(w);
    w->pass *= 0.5;                    // nothing is known
    weave_count(w, "filter", at_step);
    return WEFT_OK;
}

// ---- probes ---------------------------------------------------------------------------------------------------------------------

typedef struct ProbeKey {
    const char *at;                    // the one-word key, or
    const char **words;                // its words
    const char *inside;                // condition under which there can be a match; NULL: always
} ProbeKey;

static void require(Weaver *w, ProbeKey *key, const char *condition)
{
    key->inside = key->inside ? PRINT("%s && %s", key->inside, condition) : condition;
}

static weft_status key_word(Weaver *w, const Expr *expr, const JoinKey *join, ProbeKey *key, Val *out)
{
    if (join->type.kind == TYPE_TEXT) TRY(weave_text_in(w, expr, join->dict, join->dict_count, out));
    else TRY(weave_value(w, expr, out));
    if (out->null) require(w, key, PRINT("!%s", weave_temp(w, "u8", out->null)));
    if (out->is_float) {
        const char *name = PRINT("e%d", w->n_temps++);
        weave_stmt(w, "F64_BITS(%s, %s)", name, out->value);
        out->value = name;
    }
    return WEFT_OK;
}

// The key's distance from the smallest built one; proved to be inside, or tested.
static const char *key_offset(Weaver *w, const Val *val, const JoinKey *join, const char *table, ProbeKey *key)
{
    const char *offset = weave_temp(w, "u64", weave_distance(w, val, weave_name(w, PRINT("%s_from", table)), join->low));
    if (val->range.known && val->range.low >= join->low && val->range.high <= join->high) return offset;
    const char *size = weave_param_i64(w, weave_name(w, PRINT("%s_keys", table)), join->high - join->low + 1);
    require(w, key, PRINT("INSIDE(%s, %s)", offset, size));
    return offset;
}

static weft_status one_word(Weaver *w, const WeaveStep *step, const char *name, ProbeKey *key)
{
    const JoinTable *table = step->table;
    const char      *sum = NULL;
    for (int k = 0; k < table->n_keys; k++) {
        Val val;
        TRY(key_word(w, step->keys[k], &table->keys[k], key, &val));
        if (table->kind == JOIN_HASH && table->n_keys == 1) {
            key->at = weave_temp(w, "u64", PRINT("(u64)%s", val.value));
            return WEFT_OK;
        }
        const char *offset = key_offset(w, &val, &table->keys[k], name, key);
        if (k + 1 < table->n_keys) offset = PRINT("%s * (u64)%s", offset, weave_param_i64(w, NULL, (i64)table->keys[k].stride));
        sum = sum ? PRINT("%s + %s", sum, offset) : offset;
    }
    key->at = sum ? (table->n_keys > 1 ? weave_temp(w, "u64", sum) : sum) : "0";
    return WEFT_OK;
}

static weft_status several_words(Weaver *w, const WeaveStep *step, ProbeKey *key)
{
    const char *hash = "HASH_SEED";
    key->words = arena_array(w->arena, const char *, step->table->n_keys);
    for (int k = 0; k < step->table->n_keys; k++) {
        Val val;
        TRY(key_word(w, step->keys[k], &step->table->keys[k], key, &val));
        key->words[k] = weave_temp(w, "u64", PRINT("(u64)%s", val.value));
        hash = weave_temp(w, "u64", PRINT("HASH_MIX(%s, %s)", hash, key->words[k]));
    }
    key->at = hash;
    return WEFT_OK;
}

static const char *when_inside(Weaver *w, const ProbeKey *key, const char *value)
{
    return key->inside ? PRINT("%s ? %s : 0", key->inside, value) : value;
}

static Var *add_payload_var(Weaver *w, const JoinTable *table, const Payload *payload)
{
    Var *var = LIST_PUSH(w->arena, w->vars, w->n_vars);
    *var = (Var){ .ref = payload->ref, .name = weave_name(w, payload->name), .type = payload->type, .dict = payload->dict,
                  .dict_count = payload->dict_count, .range = payload->range, .source = -1, .table = table, .payload = payload,
                  .width = payload->width, .column = -1 };
    return var;
}

static const char *payload_table(Weaver *w, const JoinTable *table, const Payload *payload, const char *type, const char *name)
{
    return weave_table_of(w, table, TABLE_PAYLOADS + 3 * (int)(payload - table->payloads), type, name, payload->data, payload->bytes);
}

// A bit or a byte per key.
static const char *key_set(Weaver *w, const JoinTable *table, const char *name)
{
    const size_t bytes = table->is_bytes ? (size_t)table->span : (size_t)table->span / 8 + 1;
    return weave_table_of(w, table, TABLE_SLOTS, "u8", weave_name(w, PRINT("%s_ok", name)), table->slots, bytes);
}

// Payloads past the carried one are looked up where they are used: only for rows that got so far.
static void add_late_payloads(Weaver *w, const JoinTable *table, int first, const char *index)
{
    for (int p = first; p < table->n_payloads; p++) {
        const Payload *payload = &table->payloads[p];
        Var           *var = add_payload_var(w, table, payload);
        const char    *type = type_is_float(payload->type) ? "f64" : weave_width_type(payload->width);
        var->code = PRINT("%s[%s]", payload_table(w, table, payload, type, PRINT("%s_of", var->name)), index);
        var->index = index;
    }
}

// A probe by one stored column that is proved to be inside needs no row block: it is a word of its own.
static bool is_plain(Weaver *w, const WeaveStep *step, Var **var)
{
    const JoinTable *table = step->table;
    if (table->n_keys != 1 || table->kind > JOIN_DIRECT || table->n_payloads > 1 || table->keys[0].type.kind == TYPE_TEXT) return false;
    if (!source_var(w, step->keys[0], var) || (*var)->width == 0 || (*var)->range.nullable) return false;
    return (*var)->range.low >= table->keys[0].low && (*var)->range.high <= table->keys[0].high;
}

bool weave_is_sure_probe(Weaver *w, const WeaveStep *step)
{
    Var *var;
    return step->table->kind == JOIN_BITS && is_plain(w, step, &var);
}

static void probe_plain(Weaver *w, const JoinTable *table, const char *name, Var *var)
{
    const char *mode = w->is_all ? "TEST" : "FILTER", *type = weave_width_type(var->width), *from = weave_name(w, PRINT("%s_from", name));
    weave_load(w, var);
    const bool is_sieved = w->out->can_pick && table->kind == JOIN_BITS;
    const int  k = weave_param(w, (Param){ .kind = PARAM_OFFSET, .value = table->keys[0].low, .column = var->column, .is_sieved = is_sieved });
    text_add(&w->head, "    PARAM(u64, %s, %d)\n", from, k);
    if (is_sieved && w->out->n_tables < 64) w->out->sieved_tables |= (u64)1 << w->out->n_tables;
    if (w->is_all) weave_line(w, "MASK(%s)", w->live);
    if (table->kind == JOIN_BITS) {
        const char *set = key_set(w, table, name);
        weave_line(w, "%s%s_%s(%s, %s, %s, %s, %s)", weave_unsure(w), table->is_bytes ? "FLAG" : "BIT", mode, w->live, type, var->name, from, set);
    } else {
        Var        *payload = add_payload_var(w, table, &table->payloads[0]);
        const char *payload_type = weave_width_type(table->payloads[0].width);
        const char *slots = payload_table(w, table, &table->payloads[0], payload_type, PRINT("%s_of", payload->name));
        weave_line(w, "CARRY(%s, %s)", payload_type, payload->name);
        weave_on_stack(w, 8);
        weave_line(w, "LOOKUP_%s(%s, %s, %s, %s, %s, %s, %s)", mode, w->live, type, var->name, from, payload_type, slots, payload->name);
        payload->code = PRINT("%s[i]", payload->name);
    }
    if (w->is_all) weave_line(w, "PICK%s(%s)", w->out->can_pick && table->kind == JOIN_BITS ? "_UNSURE" : "", w->live);
    w->is_all = false;
}

static void probe_bits(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key)
{
    const char *bits = key_set(w, table, name);
    const char *hit = PRINT("%s(%s, %s)", table->is_bytes ? "FLAG" : "BIT", bits, key->at);
    weave_stmt(w, "%s", weave_keep(w, key->inside ? PRINT("%s && %s", key->inside, hit) : hit));
}

static void probe_direct(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key)
{
    const Payload *first = &table->payloads[0];
    const char    *type = weave_width_type(first->width);
    Var           *var = add_payload_var(w, table, first);
    const char    *slots = payload_table(w, table, first, type, PRINT("%s_of", var->name));
    const char    *found = weave_temp(w, type, when_inside(w, key, PRINT("%s[%s]", slots, key->at)));
    weave_line(w, "CARRY(%s, %s)", type, var->name);
    weave_on_stack(w, 12);             // and the place
    weave_stmt(w, "%s[i] = (%s)(%s - 1);", var->name, type, found);
    var->code = PRINT("%s[i]", var->name);
    if (table->n_payloads > 1) {
        weave_line(w, "CARRY(u32, %s_at)", name);
        weave_stmt(w, "%s_at[i] = (u32)%s;", name, key->at);
        add_late_payloads(w, table, 1, PRINT("%s_at[i]", name));
    }
    weave_stmt(w, "%s", weave_keep(w, PRINT("%s != 0", found)));
}

static void find_row(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key, const char *row)
{
    if (table->kind == JOIN_HEADS) {
        const char *heads = weave_table_of(w, table, TABLE_SLOTS, "u32", weave_name(w, PRINT("%s_head", name)), table->slots, (size_t)table->span * sizeof(u32));
        weave_stmt(w, "const u32 %s = %s;", row, when_inside(w, key, PRINT("%s[%s]", heads, key->at)));
        return;
    }
    const char *slots = weave_table_of(w, table, TABLE_SLOTS, "KernelSlot", weave_name(w, PRINT("%s_slots", name)), table->slots, (table->mask + 1) * 16);
    const char *mask = weave_param_i64(w, weave_name(w, PRINT("%s_last", name)), (i64)table->mask), *confirm = "1";
    if (!table->is_one_word) {
        const char *words = weave_table_of(w, table, TABLE_WORDS, "u64", weave_name(w, PRINT("%s_words", name)), table->words, table->n_rows * (u64)table->n_keys * sizeof(u64));
        for (int k = 0; k < table->n_keys; k++)
            confirm = PRINT("%s%s%s[(u64)(c_ - 1) * %d + %d] == %s", k ? confirm : "", k ? " && " : "", words, table->n_keys, k, key->words[k]);
    }
    weave_stmt(w, "u32 %s = 0;", row);
    weave_stmt(w, "%s%s%sFIND(%s, %s, (u64)%s, %s, %s)", key->inside ? "if (" : "", key->inside ? key->inside : "", key->inside ? ") " : "", row,
               slots, mask, key->at, confirm);
}

static void probe_rows(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key)
{
    const char *row = PRINT("e%d", w->n_temps++);
    find_row(w, table, name, key, row);
    if (table->n_payloads || !table->is_unique) {
        weave_line(w, "CARRY(u32, %s_row)", name);
        weave_on_stack(w, 4);
        weave_stmt(w, "%s_row[i] = %s;", name, row);
        add_late_payloads(w, table, 0, PRINT("%s_row[i] - 1", name));
    }
    weave_stmt(w, "%s", weave_keep(w, PRINT("%s != 0", row)));
}

// The rest of the kernel runs once per match: a loop that the sink closes.
static void open_matches(Weaver *w, const JoinTable *table, const char *name)
{
    const char *inner = PRINT("live%d", ++w->n_lives), *next = weave_table_of(w, table, TABLE_NEXT, "u32", PRINT("%s_next", name), table->next, table->n_rows * sizeof(u32));
    weave_line(w, "MATCHES(%s, %s)", w->live, inner);
    *LIST_PUSH(w->arena, w->closings, w->n_open) = PRINT("MATCHES_END(%s, %s_row, %s)", w->live, name, next);
    w->live = inner;
    w->max_rows *= (double)table->max_chain;
    w->out->fan_out *= (double)MAX_OF(table->max_chain, 1);
    weave_on_stack(w, 2);
}

// Rows of the probed relation are taken to meet each of its keys equally often.
static double hit_rate(const JoinTable *table) { return MIN_OF(1.0, (double)table->n_rows / (double)MAX_OF(table->n_scanned, 1)); }

static void add_probe_zone(Weaver *w, const WeaveStep *step)
{
    const JoinTable *table = step->table;
    for (int k = 0; k < table->n_keys; k++) {
        Var *var;
        if (table->keys[k].type.kind == TYPE_TEXT || type_is_float(table->keys[k].type) || !source_var(w, step->keys[k], &var)) continue;
        const ZoneTest zone = { var->source, table->keys[k].zone_low, table->keys[k].zone_high };
        *LIST_PUSH(w->arena, w->out->zones, w->out->n_zones) = zone;
        const bool is_direct = table->n_keys == 1 && table->kind != JOIN_HASH;
        *LIST_PUSH(w->arena, w->out->sieves, w->out->n_sieves) = (Sieve){ zone.column, zone.low, zone.high, is_direct ? table : NULL, weave_is_sure_probe(w, step), hit_rate(table) };
    }
}

weft_status weave_probe(Weaver *w, const WeaveStep *step, int at_step)
{
    const JoinTable *table = step->table;
    const char      *name = weave_name(w, table->name);
    ProbeKey         key = { 0 };
    add_probe_zone(w, step);
    if (table->n_rows == 0) w->out->is_empty = true;
    Var *var;
    if (is_plain(w, step, &var)) {
        probe_plain(w, table, name, weave_var(w, var->ref));
        w->pass *= hit_rate(table);
        weave_count(w, PRINT("join %s", table->name), at_step);
        return WEFT_OK;
    }
    if (table->is_one_word) TRY(one_word(w, step, name, &key));
    else TRY(several_words(w, step, &key));
    if (table->kind == JOIN_BITS) probe_bits(w, table, name, &key);
    else if (table->kind == JOIN_DIRECT) probe_direct(w, table, name, &key);
    else probe_rows(w, table, name, &key);
    weave_filter_block(w);
    w->pass *= hit_rate(table);
    if (!table->is_unique && table->kind != JOIN_BITS) open_matches(w, table, name);
    weave_count(w, PRINT("join %s", table->name), at_step);            // of a row with several matches each pass
    return WEFT_OK;
}
