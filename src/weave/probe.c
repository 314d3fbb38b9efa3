// probe.c - rows looked up in join tables: the six kinds of join, over the four shapes of table.
//
// An inner join drops rows without a match; where keys are not unique, the rest of the kernel runs in a loop, once per
// match (MATCHES).
// The other kinds are written as one block per row, which finds the first built row of the row's key, and, where the
// residual has to
// be asked, goes along the chain of such rows until it is decided:
//
//     semi, anti, mark        until a match is found
//     single                  to the end: a second match is an error
//     left, keys unique       the one built row
//     left, chained           no walk, but the loop of the inner join: a row stays in it for one pass more, without a
//     built row, when its chain
//                             ends and none was a match.  So the rest of the kernel is written once
//
// What a left or single join brings can be NULL, whatever is known of the table's own values (Var.missing).

#include "weave/weave_int.h"

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

// ---- keys -----------------------------------------------------------------------------------------------------------

typedef struct ProbeKey {
    const char *at;                    // the one-word key, or
    const char **words;                // its words
    const char *inside;                // condition under which there can be a match; NULL: always
    bool        is_filtered;           // the table's filter was asked before
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
    if (out->high) {                   // built keys have one word: no other number is among them
        const Range word = range_of_type(TYPE(BIGINT));
        require(w, key, PRINT("WIDE_FITS(%s, %s)", out->high, out->value));
        out->high = NULL, out->range.known = true;
        out->range.low = word.low, out->range.high = word.high;
    }
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
    const char *offset =
        weave_temp(w, "u64", weave_distance(w, val, weave_name(w, PRINT("%s_from", table)), join->low));
    if (val->range.known && val->range.low >= join->low && val->range.high <= join->high) return offset;
    const char *size = weave_param_i64(w, weave_name(w, PRINT("%s_keys", table)), join->high - join->low + 1);
    require(w, key, PRINT("INSIDE(%s, %s)", offset, size));
    return offset;
}

static const char *filter_bits(Weaver *w, const JoinTable *table, const char *name)
{
    return weave_table_of(w, table, TABLE_FILTER, "u8", weave_name(w, PRINT("%s_may", name)), table->filter,
                          (size_t)table->span / 8 + 1);
}

static weft_status one_word(Weaver *w, const WeaveStep *step, const char *name, ProbeKey *key)
{
    const JoinTable *table = step->table;
    const char      *sum = NULL;
    for (int k = 0; k < table->n_keys; k++) {
        Val val;
        TRY(key_word(w, step->keys[k], &table->keys[k], key, &val));
        if (table->shape == SHAPE_HASH && table->n_keys == 1) {
            key->at = weave_temp(w, "u64", PRINT("(u64)%s", val.value));
            if (!table->filter || key->is_filtered) return WEFT_OK;
            const char *offset = key_offset(w, &val, &table->keys[k], name, key);
            require(w, key, PRINT("BIT(%s, %s)", filter_bits(w, table, name), offset));
            return WEFT_OK;
        }
        const char *offset = key_offset(w, &val, &table->keys[k], name, key);
        if (k + 1 < table->n_keys)
            offset = PRINT("%s * (u64)%s", offset, weave_param_i64(w, NULL, (i64)table->keys[k].stride));
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

// ---- payloads -------------------------------------------------------------------------------------------------------

static Var *add_payload_var(Weaver *w, const JoinTable *table, const Payload *payload)
{
    Var *var = LIST_PUSH(w->arena, w->vars, w->n_vars);
    *var = (Var){ .id = payload->id,
                  .name = weave_name(w, payload->name),
                  .type = payload->type,
                  .dict = payload->dict,
                  .dict_count = payload->dict_count,
                  .range = payload->range,
                  .source = -1,
                  .table = table,
                  .payload = payload,
                  .width = payload->width,
                  .column = -1 };
    return var;
}

static const char *payload_type(const Payload *payload)
{
    return type_is_float(payload->type) ? "f64" : weave_width_type(payload->width);
}

static void declare_payload(Weaver *w, const JoinTable *table, Var *var)
{
    const Payload *payload = var->payload;
    var->slots = weave_table_of(w, table, TABLE_PAYLOADS + 3 * (int)(payload - table->payloads), payload_type(payload),
                                PRINT("%s_of", var->name), payload->data, payload->bytes);
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
        Var *var = add_payload_var(w, table, &table->payloads[p]);
        declare_payload(w, table, var);
        var->code = PRINT("%s[%s]", var->slots, index);
        var->index = index;
    }
}

// All payloads of a table in which a plain step looks a stored column up: the first is carried.
static void add_looked_up(Weaver *w, const JoinTable *table, const char *index)
{
    const int first = w->n_vars - 1;
    add_late_payloads(w, table, 1, index);
    for (int v = first; v < w->n_vars; v++) w->vars[v].is_looked_up = true;
}

static bool is_chained(const JoinTable *table) { return !table->is_unique && table->shape != SHAPE_BITS; }

// ---- inner joins ----------------------------------------------------------------------------------------------------

// One stored column that is proved to be inside needs no row block to be looked up: that is a word of its own.
static bool has_plain_key(Weaver *w, const WeaveStep *step, Var **var)
{
    const JoinTable *table = step->table;
    if (table->n_keys != 1 || table->keys[0].type.kind == TYPE_TEXT) return false;
    if (!weave_source_var(w, step->keys[0], var) || (*var)->width == 0 || (*var)->range.nullable) return false;
    return (*var)->range.low >= table->keys[0].low && (*var)->range.high <= table->keys[0].high;
}

static bool is_plain(Weaver *w, const WeaveStep *step, Var **var)
{
    return step->table->shape <= SHAPE_DIRECT && has_plain_key(w, step, var);
}

bool weave_probe_filters(const WeaveStep *step)
{
    return step->table && (step->probe == PROBE_INNER || step->probe == PROBE_SEMI);
}

bool weave_is_sure_probe(Weaver *w, const WeaveStep *step)
{
    Var *var;
    return weave_probe_filters(step) && step->table->shape == SHAPE_BITS && is_plain(w, step, &var);
}

static void probe_plain(Weaver *w, const JoinTable *table, const char *name, Var *var)
{
    const char *type = weave_width_type(var->width);
    const bool  is_sieved = w->out->can_pick && table->shape == SHAPE_BITS;
    weave_load(w, var);
    const Param offset = {
        .kind = PARAM_OFFSET, .value = table->keys[0].low, .column = var->column, .is_sieved = is_sieved
    };
    const char *from = weave_param(w, "u64", weave_name(w, PRINT("%s_from", name)), offset);
    if (is_sieved && w->out->n_tables < 64) w->out->sieved_tables |= (u64)1 << w->out->n_tables;
    Step step = { .kind = STEP_LOOKUP,
                  .word = table->is_bytes ? "FLAG" : "BIT",
                  .is_unsure = is_sieved,
                  .test = weave_step_test(w, var->column, INT64_MIN, INT64_MAX, table) };
    if (table->shape == SHAPE_BITS) {
        step.text = PRINT("%s, %s, %s, %s", type, var->ref, from, key_set(w, table, name));
    } else {
        const char *column = var->ref, *carried = payload_type(&table->payloads[0]);           // VAR may move
        Var        *payload = add_payload_var(w, table, &table->payloads[0]);
        declare_payload(w, table, payload);
        const char *value = weave_carry(w, carried, payload->name, 8);
        step.word = "LOOKUP";
        step.text = PRINT("%s, %s, %s, %s, %s, %s", type, column, from, carried, payload->slots, value);
        payload->code = PRINT("%s[i]", value);
        add_looked_up(w, table, PRINT("(%s[i] + %s)", column, from));
    }
    weave_step(w, step);
    w->is_all = false;
}

static void probe_bits(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key)
{
    const char *bits = key_set(w, table, name);
    const char *hit = PRINT("%s(%s, %s)", table->is_bytes ? "FLAG" : "BIT", bits, key->at);
    weave_keep(w, key->inside ? PRINT("%s && %s", key->inside, hit) : hit);
}

static void probe_direct(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key)
{
    const Payload *first = &table->payloads[0];
    const char    *type = weave_width_type(first->width);
    Var           *var = add_payload_var(w, table, first);
    declare_payload(w, table, var);
    const char *found = weave_temp(w, type, when_inside(w, key, PRINT("%s[%s]", var->slots, key->at)));
    const char *value = weave_carry(w, type, var->name, 8);
    weave_stmt(w, "%s[i] = (%s)(%s - 1);", value, type, found);
    var->code = PRINT("%s[i]", value);
    if (table->n_payloads > 1) {
        const char *place = weave_carry(w, "u32", PRINT("%s_at", name), 4);
        weave_stmt(w, "%s[i] = (u32)%s;", place, key->at);
        add_late_payloads(w, table, 1, PRINT("%s[i]", place));
    }
    weave_keep(w, PRINT("%s != 0", found));
}

static void find_row(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key, const char *row)
{
    if (table->shape == SHAPE_HEADS) {
        const char *heads = weave_table_of(w, table, TABLE_SLOTS, "u32", weave_name(w, PRINT("%s_head", name)),
                                           table->slots, (size_t)table->span * sizeof(u32));
        weave_stmt(w, "const u32 %s = %s;", row, when_inside(w, key, PRINT("%s[%s]", heads, key->at)));
        return;
    }
    const char *slots = weave_table_of(w, table, TABLE_SLOTS, "KernelSlot", weave_name(w, PRINT("%s_slots", name)),
                                       table->slots, (table->mask + 1) * 16);
    const char *mask = weave_param_i64(w, weave_name(w, PRINT("%s_last", name)), (i64)table->mask), *confirm = "1";
    if (!table->is_one_word) {
        const char *words = weave_table_of(w, table, TABLE_WORDS, "u64", weave_name(w, PRINT("%s_words", name)),
                                           table->words, table->n_rows * (u64)table->n_keys * sizeof(u64));
        for (int k = 0; k < table->n_keys; k++)
            confirm = PRINT("%s%s%s[(u64)(c_ - 1) * %d + %d] == %s", k ? confirm : "", k ? " && " : "", words,
                            table->n_keys, k, key->words[k]);
    }
    weave_stmt(w, "u32 %s = 0;", row);
    weave_stmt(w, "%s%s%sFIND(%s, %s, (u64)%s, %s, %s)", key->inside ? "if (" : "", key->inside ? key->inside : "",
               key->inside ? ") " : "", row, slots, mask, key->at, confirm);
}

// *CARRIED: what holds the row; NULL where no step reads it.
static void probe_rows(Weaver *w, const JoinTable *table, const char *name, const ProbeKey *key, const char **carried)
{
    const char *row = PRINT("e%d", w->n_temps++);
    find_row(w, table, name, key, row);
    if (table->n_payloads || !table->is_unique) {
        *carried = weave_carry(w, "u32", PRINT("%s_row", name), 4);
        weave_stmt(w, "%s[i] = %s;", *carried, row);
        add_late_payloads(w, table, 0, PRINT("%s[i] - 1", *carried));
    }
    weave_keep(w, PRINT("%s != 0", row));
}

static const char *next_rows(Weaver *w, const JoinTable *table, const char *name)
{
    return weave_table_of(w, table, TABLE_NEXT, "u32", PRINT("%s_next", name), table->next,
                          table->n_rows * sizeof(u32));
}

// The rest of the kernel runs once per match.  ROW: what is carried of the built row.  HIT: of a left join, a fragment
// that is not 0 where the row
// has had a match; NULL: rows without one are gone.
static void open_matches(Weaver *w, const JoinTable *table, const char *name, const char *row, const char *hit)
{
    const char *inner = PRINT("live%d", ++w->n_lives);
    weave_step(w,
               (Step){
                   .kind = STEP_MATCHES, .inner = inner, .row = row, .next = next_rows(w, table, name), .hit = hit });
    w->live = inner;
    w->max_rows *= (double)(hit ? MAX_OF(table->max_chain, 1) : table->max_chain);
    w->out->fan_out *= (double)MAX_OF(table->max_chain, 1);
    weave_on_stack(w, 2);
}

// Rows of the probed relation are taken to meet each of its keys equally often.
static double hit_rate(const JoinTable *table)
{
    return MIN_OF(1.0, (double)table->n_rows / (double)MAX_OF(table->n_scanned, 1));
}

static void add_probe_zone(Weaver *w, const WeaveStep *step)
{
    const JoinTable *table = step->table;
    for (int k = 0; k < table->n_keys; k++) {
        Var *var;
        if (table->keys[k].type.kind == TYPE_TEXT || type_is_float(table->keys[k].type) ||
            !weave_source_var(w, step->keys[k], &var))
            continue;
        const ZoneTest zone = { var->source, table->keys[k].zone_low, table->keys[k].zone_high };
        *LIST_PUSH(w->arena, w->out->zones, w->out->n_zones) = zone;
        const bool is_direct = table->n_keys == 1 && table->shape != SHAPE_HASH;
        *LIST_PUSH(w->arena, w->out->sieves, w->out->n_sieves) =
            (Sieve){ zone.column,    zone.low, zone.high, is_direct ? table : NULL, weave_is_sure_probe(w, step),
                     hit_rate(table) };
    }
}

static weft_status find_key(Weaver *w, const WeaveStep *step, const char *name, ProbeKey *key)
{
    return step->table->is_one_word ? one_word(w, step, name, key) : several_words(w, step, key);
}

// Most rows are gone before the hash table is looked at.
static void filter_plain(Weaver *w, const JoinTable *table, const char *name, Var *var)
{
    weave_load(w, var);
    const Param offset = { .kind = PARAM_OFFSET, .value = table->keys[0].low, .column = var->column };
    const char *from = weave_param(w, "u64", weave_name(w, PRINT("%s_from", name)), offset);
    const char *type = weave_width_type(var->width), *column = var->ref;
    weave_step(w, (Step){ .kind = STEP_LOOKUP,
                          .word = "BIT",
                          .text = PRINT("%s, %s, %s, %s", type, column, from, filter_bits(w, table, name)) });
    w->is_all = false;
}

static weft_status probe_inner(Weaver *w, const WeaveStep *step, const char *name)
{
    const JoinTable *table = step->table;
    ProbeKey         key = { 0 };
    const char      *row = NULL;
    Var             *var;
    if (is_plain(w, step, &var)) {
        probe_plain(w, table, name, var);
        weave_pass(w, hit_rate(table));
        return WEFT_OK;
    }
    if (table->filter && has_plain_key(w, step, &var)) {
        filter_plain(w, table, name, var);
        key.is_filtered = true;
    }
    TRY(find_key(w, step, name, &key));
    if (table->shape == SHAPE_BITS) probe_bits(w, table, name, &key);
    else if (table->shape == SHAPE_DIRECT) probe_direct(w, table, name, &key);
    else probe_rows(w, table, name, &key, &row);
    weave_pass(w, hit_rate(table));
    if (is_chained(table)) open_matches(w, table, name, row, NULL);
    return WEFT_OK;
}

// ---- the other kinds ------------------------------------------------------------------------------------------------

typedef struct Finding {
    const WeaveStep *step;
    const JoinTable *table;
    const char      *name;
    ProbeKey         key;
    const char *found;  // not 0 where the key is there: a row + 1, or of a direct table the first payload's code + 1
    const char      *next;             // name of the table to walk along; NULL: there is nothing to walk
    int              first_var, n_vars;        // the payloads' Vars; none where no step reads them
    const char      *row, *place;      // carried: what was found, and of direct tables with several payloads where
} Finding;

static void add_payloads(Weaver *w, Finding *f)
{
    f->first_var = w->n_vars;
    f->n_vars = f->table->n_payloads;
    for (int p = 0; p < f->table->n_payloads; p++)
        declare_payload(w, f->table, add_payload_var(w, f->table, &f->table->payloads[p]));
}

static void find_first(Weaver *w, Finding *f)
{
    const JoinTable *table = f->table;
    if (table->shape == SHAPE_BITS) {
        const char *hit = PRINT("%s(%s, %s)", table->is_bytes ? "FLAG" : "BIT", key_set(w, table, f->name), f->key.at);
        f->found = weave_temp(w, "u8", when_inside(w, &f->key, hit));
    } else if (table->shape == SHAPE_DIRECT) {
        const char *type = weave_width_type(table->payloads[0].width), *slots;
        if (f->n_vars) slots = w->vars[f->first_var].slots;
        else
            slots = weave_table_of(w, table, TABLE_PAYLOADS, type, weave_name(w, PRINT("%s_of", f->name)),
                                   table->payloads[0].data, table->payloads[0].bytes);
        f->found = weave_temp(w, type, when_inside(w, &f->key, PRINT("%s[%s]", slots, f->key.at)));
    } else {
        f->found = PRINT("e%d", w->n_temps++);
        find_row(w, table, f->name, &f->key, f->found);
    }
}

// What a payload is called where ROW (of a direct table, its first code + 1) is not 0.
static void name_payloads(Weaver *w, const Finding *f, const char *row, const char *place)
{
    const bool is_direct = f->table->shape == SHAPE_DIRECT;
    for (int v = f->first_var; v < f->first_var + f->n_vars; v++) {
        Var *var = &w->vars[v];
        var->index = is_direct ? place : PRINT("%s - 1", row);
        var->code = is_direct && v == f->first_var ? PRINT("(%s - 1)", row) : PRINT("%s[%s]", var->slots, var->index);
    }
}

static void hide_payloads(Weaver *w, const Finding *f)
{
    for (int v = f->first_var; v < f->first_var + f->n_vars; v++) w->vars[v].is_gone = true;
}

// ROW is a variable of the block that goes along the chain while MORE; DO is done where the residual is true.
static weft_status walk(Weaver *w, const Finding *f, const char *row, const char *more, const char *make)
{
    const char *condition, *statements;
    TRY(weave_truth_apart(w, f->step->residual, true, &condition, &statements));
    if (f->next) weave_stmt(w, "WALK(%s, %s) {", row, more);
    else weave_stmt(w, "if (%s) {", row);
    if (statements) text_add(&w->block, "%s", statements);
    weave_stmt(w, "if (%s) { %s }", condition, make);
    if (f->next) weave_stmt(w, "%s = %s[%s - 1];", row, f->next, row);
    weave_stmt(w, "}");
    return WEFT_OK;
}

// *HIT: C text that is not 0 where there is a match.
static weft_status find_any(Weaver *w, Finding *f, const char **hit)
{
    *hit = PRINT("%s != 0", f->found);
    if (!f->step->residual) return WEFT_OK;
    const char *row = f->found, *is_hit = PRINT("e%d", w->n_temps++);
    if (f->next) {
        row = PRINT("e%d", w->n_temps++);
        weave_stmt(w, "u32 %s = %s;", row, f->found);
    }
    name_payloads(w, f, row, f->key.at);
    weave_stmt(w, "u8 %s = 0;", is_hit);
    *hit = is_hit;
    return walk(w, f, row, PRINT("!%s", is_hit), PRINT("%s = 1;", is_hit));
}

// The one row that matches, as ROW + 1, or 0.
static weft_status find_single(Weaver *w, Finding *f, const char **row)
{
    const int   check = weave_check(w, WEFT_CARDINALITY, f->step->residual ? f->step->residual->at : -1,
                                    "more than one row returned by a subquery used as an expression");
    *row = f->found;
    if (!f->step->residual) {
        weave_stmt(w, "CHECK(!%s || !%s[%s - 1], %d)", f->found, f->next, f->found, check);
        return WEFT_OK;
    }
    const char *at = PRINT("e%d", w->n_temps++), *match = *row = PRINT("e%d", w->n_temps++);
    weave_stmt(w, "u32 %s = %s, %s = 0;", at, f->found, match);
    name_payloads(w, f, at, NULL);
    return walk(w, f, at, "1", PRINT("CHECK(!%s, %d) %s = %s;", match, check, match, at));
}

// Where there is no match code and index are those of place 0, which may be looked at.
static void carry_payloads(Weaver *w, const Finding *f)
{
    const char *row = PRINT("%s[i]", f->row);
    name_payloads(w, f, row, f->place ? PRINT("%s[i]", f->place) : NULL);
    for (int v = f->first_var; v < f->first_var + f->n_vars; v++) {
        Var *var = &w->vars[v];
        if (f->table->shape != SHAPE_DIRECT || v == f->first_var) var->code = PRINT("(%s ? %s : 0)", row, var->code);
        var->missing = PRINT("!%s", row);
        var->range.nullable = true;
    }
}

// ROW, and for direct tables with several payloads its place, to the steps that come.
static void carry_row(Weaver *w, Finding *f, const char *row)
{
    const JoinTable *table = f->table;
    const bool       is_direct = table->shape == SHAPE_DIRECT;
    f->row =
        weave_carry(w, is_direct ? weave_width_type(table->payloads[0].width) : "u32", PRINT("%s_row", f->name), 8);
    weave_stmt(w, "%s[i] = %s;", f->row, row);
    if (!is_direct || table->n_payloads < 2) return;
    f->place = weave_carry(w, "u32", PRINT("%s_at", f->name), 4);
    weave_stmt(w, "%s[i] = %s ? (u32)(%s) : 0;", f->place, f->found, f->key.at);
}

// The residual of a left join within the loop over matches: a pass with a built row goes on where it is true, one
// without where no other did.
static weft_status ask_match(Weaver *w, const Finding *f, const char *hit)
{
    const char *row = PRINT("%s[i]", f->row), *passes = PRINT("e%d", w->n_temps++), *condition, *statements;
    name_payloads(w, f, row, NULL);
    TRY(weave_truth_apart(w, f->step->residual, true, &condition, &statements));
    weave_stmt(w, "u8 %s = !%s;", passes, row);
    weave_stmt(w, "if (%s) {", row);
    if (statements) text_add(&w->block, "%s", statements);
    weave_stmt(w, "%s = (u8)(%s);", passes, condition);
    weave_stmt(w, "%s = %s | %s;", hit, hit, passes);
    weave_stmt(w, "}");
    weave_keep(w, passes);             // a row that has had a match is gone when its chain ends
    return WEFT_OK;
}

// Passes through the rest of the kernel with the next built row of each row.  They go over a selection.
static weft_status left_chained(Weaver *w, Finding *f)
{
    const bool  has_residual = f->step->residual;
    const char *hit = "1";
    carry_row(w, f, f->found);
    if (has_residual) {
        hit = PRINT("%s[i]", weave_carry(w, "u8", PRINT("%s_hit", f->name), 1));
        weave_stmt(w, "%s = 0;", hit);
    }
    if (w->is_all) weave_keep(w, "1");
    else weave_each(w);
    open_matches(w, f->table, f->name, f->row, hit);
    if (has_residual) TRY(ask_match(w, f, hit));
    carry_payloads(w, f);
    return WEFT_OK;
}

// LEFT with unique keys, and SINGLE.
static weft_status probe_outer(Weaver *w, Finding *f)
{
    const char *row = f->found, *hit;
    if (is_chained(f->table) && f->step->probe == PROBE_LEFT) return left_chained(w, f);
    if (f->next) {
        TRY(find_single(w, f, &row));
    } else if (f->step->residual) {
        TRY(find_any(w, f, &hit));
        row = PRINT("%s ? %s : 0", hit, f->found);
    }
    carry_row(w, f, row);
    weave_each(w);
    carry_payloads(w, f);
    return WEFT_OK;
}

static weft_status probe_mark(Weaver *w, Finding *f)
{
    const char *hit, *name = weave_name(w, PRINT("in_%s", f->name)), *mark = weave_carry(w, "u8", name, 1);
    const Val   val = { .value = PRINT("(i64)%s[i]", mark), .range = { .known = true, .low = 0, .high = 1 } };
    TRY(find_any(w, f, &hit));
    weave_stmt(w, "%s[i] = (u8)(%s);", mark, hit);
    weave_each(w);
    hide_payloads(w, f);
    weave_add_value(w, f->step->mark, name, TYPE(BOOLEAN), &val);
    return WEFT_OK;
}

static weft_status probe_semi_or_anti(Weaver *w, Finding *f)
{
    const double rate = hit_rate(f->table);
    const char  *hit;
    TRY(find_any(w, f, &hit));
    weave_keep(w, f->step->probe == PROBE_SEMI ? hit : PRINT("!(%s)", hit));
    weave_pass(w, f->step->probe == PROBE_SEMI ? rate : MAX_OF(1 - rate, 0.1));
    hide_payloads(w, f);
    return WEFT_OK;
}

static weft_status probe_other(Weaver *w, const WeaveStep *step, const char *name)
{
    Finding    f = { .step = step, .table = step->table, .name = name };
    const bool is_outer = step->probe == PROBE_LEFT || step->probe == PROBE_SINGLE;
    if (is_outer && !f.table->n_payloads && !is_chained(f.table))
        return WEFT_OK;  // each row goes on once, with nothing new
    if (is_outer || step->residual) add_payloads(w, &f);
    if (is_chained(f.table) && step->probe != PROBE_LEFT && (is_outer || step->residual))
        f.next = next_rows(w, f.table, name);
    TRY(find_key(w, step, name, &f.key));
    find_first(w, &f);
    if (is_outer) return probe_outer(w, &f);
    return step->probe == PROBE_MARK ? probe_mark(w, &f) : probe_semi_or_anti(w, &f);
}

// ---- any kind -------------------------------------------------------------------------------------------------------

const char *weave_join_name(const WeaveStep *step)
{
    static const char *const names[] = {
        [PROBE_INNER] = "join",     [PROBE_LEFT] = "left join",     [PROBE_SEMI] = "semi-join",
        [PROBE_ANTI] = "anti-join", [PROBE_SINGLE] = "single join", [PROBE_MARK] = "mark join"
    };
    return names[step->probe];
}

weft_status weave_probe(Weaver *w, const WeaveStep *step, int at_step)
{
    const char *name = weave_name(w, step->table->name);
    if (weave_probe_filters(step)) {
        add_probe_zone(w, step);
        if (step->table->n_rows == 0) w->out->is_empty = true;
    }
    if (step->probe == PROBE_INNER || weave_is_sure_probe(w, step)) {          // of a bit table a semi-join is the same
        TRY(probe_inner(w, step, name));
        if (step->residual) TRY(weave_filter_rows(w, step->residual));
    } else {
        TRY(probe_other(w, step, name));
    }
    weave_count(w, PRINT("%s %s", weave_join_name(step), step->table->name),
                at_step);  // of a row with several matches each pass
    return WEFT_OK;
}
