// island.c - expressions over one text column that kernels do not know: worked out once per distinct value.
//
//     substring(phone from 1 for 2)::integer + x         code of phone ──> table of integers;  + x is the kernel's
//
// The interpreter gives what the expression is for each value of the column's dictionary, and for NULL, by all threads,
// unless another pipeline has left that with the dictionary (island_note.c).
// The kernel looks it up by code, in a table of as few bytes as the results need, which is what is kept as well.  A
// text among the results is a code of a new dictionary.  A value for which the expression fails is marked: only where a
// live row has it, the query fails.
//
// Where all that reads the column is one expression that gives few texts, that is worked out for each value, and the
// rest for each of these texts:
//
//     substring(phone from 1 for 2) in ('13', '31')      150,000 phones ──> 25 texts ──> true or false

#include "plan/functions.h"
#include "weave/island_note.h"

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

enum { ISLAND_VALUE, ISLAND_NULL, ISLAND_FAILS };

bool weave_is_island(const Expr *expr)
{
    return (expr->kind == EXPR_CALL || expr->kind == EXPR_CASE) && expr_is_interpreted(expr) &&
           expr_only_text_column(expr) >= 0;
}

// ---- its values -----------------------------------------------------------------------------------------------------

typedef struct IslandWork {
    const Expr       *expr;
    const Dictionary *from;
    u32               n_codes;
    Dictionary       *into;            // text
    bool              is_float;
    i64              *values;          // or doubles, or codes of INTO
    i64              *highs;           // numeric: what is above the 64 bits of VALUES; NULL: another type
    u8               *states;
    Error            *errors;          // by part: its first
} IslandWork;

static void give_text(void *context, const Expr *node, Value *value)
{
    (void)node;
    *value = *(const Value *)context;
}

static weft_status put_value(const IslandWork *work, u64 code, const Value *value, Error *err)
{
    u32 found;
    work->states[code] = value->is_null ? ISLAND_NULL : ISLAND_VALUE;
    if (value->is_null) return WEFT_OK;
    if (work->is_float) {
        memcpy(&work->values[code], &value->f, sizeof value->f);
    } else if (work->into) {
        TRY(dict_intern(work->into, value->text.bytes, value->text.length, &found, err));
        work->values[code] = found;
    } else {
        work->values[code] = (i64)value->i;
        if (work->highs) work->highs[code] = (i64)(value->i >> 64);
    }
    return WEFT_OK;
}

static void work_out(const IslandWork *work, u64 code, Arena *scratch, Error *err)
{
    Value             text = { .type = TYPE(TEXT), .is_null = code == work->n_codes }, value;
    const EvalContext of = { .arena = scratch, .column = give_text, .context = &text };
    if (!text.is_null) {
        const weft_text bytes = dict_get(work->from, (u32)code);
        text.text.bytes = bytes.bytes, text.text.length = (u32)bytes.length;
    }
    if (expr_eval(work->expr, &of, &value, err) || put_value(work, code, &value, err))
        work->states[code] = ISLAND_FAILS;
}

// A block of values shares the memory that working them out takes: getting it for each takes longer than most values.
enum { SCRATCH_VALUES = 64 };

static void work_out_block(const IslandWork *work, u64 first, u64 end, Error *first_error)
{
    Arena *scratch = arena_new(NULL, "island");
    Error  err;
    error_clear(&err);
    for (u64 code = first; code < end; code++) {
        work_out(work, code, scratch, &err);
        if (work->states[code] != ISLAND_FAILS) continue;
        if (!first_error->status) *first_error = err;
        error_clear(&err);
    }
    arena_free(scratch);
}

static void work_out_part(void *context, int part, u64 first, u64 end)
{
    const IslandWork *work = context;
    for (u64 at = first; at < end; at += SCRATCH_VALUES)
        work_out_block(work, at, MIN_OF(end, at + SCRATCH_VALUES), &work->errors[part]);
}

static void release_dict(void *dict) { dict_release(dict); }

static weft_status for_all_codes(Weaver *w, u32 n_codes, void (*work)(void *, int, u64, u64), void *context)
{
    const RowParts parts = team_split(&w->job->team, (u64)n_codes + 1);
    if (team_rows(&w->job->team, &parts, work, context)) return WEFT_OK;
    return fail(w->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

static void make_room(Weaver *w, u32 n_codes, IslandWork *work)
{
    work->n_codes = n_codes;
    work->values = arena_array(w->arena, i64, (size_t)n_codes + 1);
    if (work->expr->type.kind == TYPE_NUMERIC) work->highs = arena_array(w->arena, i64, (size_t)n_codes + 1);
    work->states = arena_array(w->arena, u8, (size_t)n_codes + 1);
}

static weft_status work_out_all(Weaver *w, const Expr *expr, const Dictionary *from, u32 n_codes, Island *island,
                                IslandWork *work)
{
    const RowParts parts = team_split(&w->job->team, (u64)n_codes + 1);
    *work = (IslandWork){ .expr = expr, .from = from, .is_float = type_is_float(expr->type) };
    if (expr->type.kind == TYPE_TEXT) arena_defer(w->arena, release_dict, work->into = dict_new(w->job->budget));
    make_room(w, n_codes, work);
    work->errors = arena_array(w->arena, Error, parts.n_parts);
    for (int p = 0; p < parts.n_parts; p++) error_clear(&work->errors[p]);
    TRY(for_all_codes(w, n_codes, work_out_part, work));
    for (int p = 0; p < parts.n_parts && !island->error; p++)
        if (work->errors[p].status) island->error = &work->errors[p];
    return WEFT_OK;
}

// ---- how they are stored --------------------------------------------------------------------------------------------

static IslandForm narrowest(i128 low, i128 high)
{
    if (low >= 0 && high <= UINT8_MAX) return ISLAND_U8;
    if (low >= 0 && high <= UINT16_MAX) return ISLAND_U16;
    return low >= INT32_MIN && high <= INT32_MAX ? ISLAND_I32 : ISLAND_I64;
}

// Of numbers and of texts, whose numbers are codes.
static i64 number_at(const Island *island, u64 code)
{
#define FORM_NUMBER(form, name, type, width) case form: return (i64)((const type *)island->values)[code];
    switch (island->form) { ISLAND_FORM_LIST(FORM_NUMBER) }
    return 0;
}

// ---- an island within an island -------------------------------------------------------------------------------------

enum { MANY_CODES = 1 << 14, SAMPLE = 1 << 11, SAMPLE_TEXTS = SAMPLE / 8 };

// The first text that is worked out below EXPR, or NULL.
static const Expr *text_island_below(const Expr *expr)
{
    for (int i = 0; i < expr->n_args; i++) {
        const Expr *arg = expr->args[i];
        if (arg->type.kind == TYPE_TEXT && weave_is_island(arg)) return arg;
        const Expr *found = text_island_below(arg);
        if (found) return found;
    }
    return NULL;
}

static bool reads_only_through(const Expr *expr, const Expr *inner)
{
    if (expr->kind == EXPR_COLUMN) return false;
    if (expr_equal(expr, inner)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (!reads_only_through(expr->args[i], inner)) return false;
    return true;
}

// Judged by some values, so that nothing is made of texts that all differ.
static bool gives_few_texts(const Expr *inner, const Var *var)
{
    Arena *scratch = arena_new(NULL, "island sample");
    Map   *seen = map_new(scratch);
    u64    n_texts = 0, ignored;
    Error  err = { 0 };
    bool   is_right = true;
    for (u64 i = 0; i < SAMPLE && is_right && n_texts <= SAMPLE_TEXTS; i++) {
        const weft_text   bytes = dict_get(var->dict, (u32)(i * var->dict_count / SAMPLE));
        Value             text = { .type = TYPE(TEXT) }, value;
        const EvalContext of = { .arena = scratch, .column = give_text, .context = &text };
        text.text.bytes = bytes.bytes, text.text.length = (u32)bytes.length;
        is_right = expr_eval(inner, &of, &value, &err) == WEFT_OK;
        if (!is_right || value.is_null || map_get(seen, value.text.bytes, value.text.length, &ignored)) continue;
        map_set(seen, value.text.bytes, value.text.length, ++n_texts);
    }
    arena_free(scratch);
    return is_right && n_texts <= SAMPLE_TEXTS;
}

// What EXPR is made of: INNER for each value of the column, and the rest of it for each text that INNER gives.
static const Expr *find_inner(const Expr *expr, const Var *var)
{
    const Expr *inner = var->dict_count >= MANY_CODES ? text_island_below(expr) : NULL;
    return inner && reads_only_through(expr, inner) && gives_few_texts(inner, var) ? inner : NULL;
}

// EXPR over a column of texts instead of INNER.
static Expr *over_texts(Arena *arena, const Expr *expr, const Expr *inner)
{
    if (expr_equal(expr, inner)) return expr_column(arena, expr_only_text_column(inner), inner->type, inner->at);
    Expr *copy = arena_make(arena, Expr);
    *copy = *expr;
    if (!expr->n_args) return copy;
    copy->args = arena_array(arena, Expr *, expr->n_args);
    for (int i = 0; i < expr->n_args; i++) copy->args[i] = over_texts(arena, expr->args[i], inner);
    return copy;
}

// Which of the texts that INNER gives, or n_codes of WORK for NULL.
static u64 text_of(const Island *inner, u64 code)
{
    const bool is_null = code == inner->n_codes ? inner->null_is_null
                                                : inner->states && inner->states[code] == ISLAND_NULL;
    return is_null ? inner->dict_count : (u64)number_at(inner, code);
}

typedef struct Composing { const Island *inner; const IslandWork *of_texts, *into; } Composing;

static void compose_part(void *context, int part, u64 first, u64 end)
{
    const Composing  *composing = context;
    const IslandWork *from = composing->of_texts, *into = composing->into;
    (void)part;
    for (u64 code = first; code < end; code++) {
        const u64 text = text_of(composing->inner, code);
        into->values[code] = from->values[text];
        if (into->highs) into->highs[code] = from->highs[text];
        into->states[code] = from->states[text];
    }
}

static weft_status compose(Weaver *w, const Island *inner, const IslandWork *of_texts, IslandWork *work)
{
    *work = *of_texts;
    make_room(w, inner->n_codes, work);
    return for_all_codes(w, inner->n_codes, compose_part, &(Composing){ inner, of_texts, work });
}

static weft_status find_island(Weaver *w, const Expr *expr, const Island **out);

static weft_status work_out_island(Weaver *w, const Expr *expr, const Var *var, Island *island, IslandWork *work)
{
    const Expr   *inner_expr = find_inner(expr, var);
    const Island *found;
    IslandWork    of_texts;
    if (inner_expr) TRY(find_island(w, inner_expr, &found));
    // Where INNER fails, the error is that of the whole expression, which may not get as far.
    if (!inner_expr || found->error) return work_out_all(w, expr, var->dict, var->dict_count, island, work);
    const Island inner = *found;
    TRY(work_out_all(w, over_texts(w->arena, expr, inner_expr), inner.dict, inner.dict_count, island, &of_texts));
    return compose(w, &inner, &of_texts, work);
}

// ---- what is known of them ------------------------------------------------------------------------------------------

static i128 number_of(const IslandWork *work, u64 code)
{
    const i64 low = work->values[code];
    return work->highs ? (i128)((u128)(i128)work->highs[code] << 64 | (u64)low) : low;
}

typedef struct IslandExtremes { i128 low, high; bool has_number, has_null, has_states; } IslandExtremes;

typedef struct Measuring { const IslandWork *work; IslandExtremes *extremes; } Measuring;    // by part

static void see_number(IslandExtremes *seen, i128 low, i128 high)
{
    seen->low = seen->has_number ? MIN_OF(seen->low, low) : low;
    seen->high = seen->has_number ? MAX_OF(seen->high, high) : high;
    seen->has_number = true;
}

static void measure_part(void *context, int part, u64 first, u64 end)
{
    const Measuring  *measuring = context;
    const IslandWork *work = measuring->work;
    IslandExtremes    seen = measuring->extremes[part];
    for (u64 code = first; code < end; code++) {
        const bool is_text = code < work->n_codes, is_value = work->states[code] == ISLAND_VALUE;
        const i128 number = number_of(work, code);
        seen.has_null |= is_text && work->states[code] == ISLAND_NULL;
        seen.has_states |= is_text && !is_value;
        if (is_value) see_number(&seen, number, number);
    }
    measuring->extremes[part] = seen;
}

static weft_status measure(Weaver *w, const IslandWork *work, IslandExtremes *all)
{
    const RowParts parts = team_split(&w->job->team, (u64)work->n_codes + 1);
    Measuring      measuring = { work, arena_array(w->arena, IslandExtremes, parts.n_parts) };
    TRY(for_all_codes(w, work->n_codes, measure_part, &measuring));
    *all = (IslandExtremes){ 0 };
    for (int p = 0; p < parts.n_parts; p++) {
        const IslandExtremes *seen = &measuring.extremes[p];
        if (seen->has_number) see_number(all, seen->low, seen->high);
        all->has_null |= seen->has_null, all->has_states |= seen->has_states;
    }
    return WEFT_OK;
}

static void set_facts(Island *island, const IslandWork *work, const IslandExtremes *seen)
{
    const i128 limit = (i128)1 << 119;                      // of what is known (Range)
    const u8   of_null = work->states[work->n_codes];
    island->states = seen->has_states || of_null == ISLAND_FAILS ? work->states : NULL;
    island->has_null = seen->has_null, island->null_is_null = of_null == ISLAND_NULL;
    island->range = range_of_type(island->expr->type);
    island->range.nullable = island->has_null || island->null_is_null;
    island->values = work->values;
    island->form = ISLAND_F64;
    if (work->is_float) {
        island->range.f = float_range_any();
        return;
    }
    island->form = narrowest(seen->low, seen->high);
    if (seen->low < INT64_MIN || seen->high > INT64_MAX) island->highs = work->highs, island->form = ISLAND_I64;
    if (seen->low > -limit && seen->high < limit)
        island->range.known = true, island->range.low = seen->low, island->range.high = seen->high;
}

// What has no value gets the least one, since kernels may compute with it before they look at its state.
typedef struct Narrowing { const IslandWork *work; i128 least; IslandForm form; void *into; } Narrowing;

static void narrow_part(void *context, int part, u64 first, u64 end)
{
    const Narrowing  *narrowing = context;
    const IslandWork *work = narrowing->work;
    const i64         least = (i64)narrowing->least, least_high = (i64)(narrowing->least >> 64);
    (void)part;
    for (u64 code = first; code < end && work->highs; code++)
        if (work->states[code] != ISLAND_VALUE) work->highs[code] = least_high;
#define FORM_NARROW(form, name, type, width)                                                                           \
    case form:                                                                                                         \
        for (u64 code = first; code < end; code++)                                                                     \
            ((type *)narrowing->into)[code] =                                                                          \
                (type)(work->states[code] == ISLAND_VALUE ? work->values[code] : least);                               \
        return;
    switch (narrowing->form) { ISLAND_FORM_LIST(FORM_NARROW) }
}

// Its values in the form that fits them: the table is looked up for every row, and kept with the dictionary.
static weft_status narrow(Weaver *w, const IslandWork *work, i128 least, Island *island)
{
    Narrowing narrowing = { work, least, island->form, work->values };
    if (island->form == ISLAND_F64) return WEFT_OK;
    if (island->form != ISLAND_I64)
        narrowing.into = arena_alloc(w->arena, ((size_t)work->n_codes + 1) * island_width(island->form));
    island->values = narrowing.into;
    return for_all_codes(w, work->n_codes, narrow_part, &narrowing);
}

static weft_status make_island(Weaver *w, const Expr *expr, Island *island)
{
    const Expr  column = { .kind = EXPR_COLUMN, .type = TYPE(TEXT), .column = expr_only_text_column(expr) };
    const Var  *var = weave_var_of(w, &column);
    IslandWork  work;
    u32         ignored;
    IslandExtremes seen;
    if (!var) return fail(w->err, WEFT_INTERNAL, expr->at, "column is not available in this pipeline");
    *island = (Island){ .expr = expr, .n_codes = var->dict_count };
    if (island_note_find(w->arena, var->dict, island)) return WEFT_OK;
    TRY(work_out_island(w, expr, var, island, &work));
    if (work.into) {
        // A code must have a text, even where only rows that fail or are NULL look at it.
        if (!dict_count(work.into)) TRY(dict_intern(work.into, "", 0, &ignored, w->err));
        island->dict = work.into, island->dict_count = dict_count(work.into);
    }
    TRY(measure(w, &work, &seen));
    set_facts(island, &work, &seen);
    TRY(narrow(w, &work, seen.low, island));
    if (!island->highs) island_note_keep(var->dict, island);
    return WEFT_OK;
}

static weft_status find_island(Weaver *w, const Expr *expr, const Island **out)
{
    Island made;
    for (int i = 0; i < w->n_islands; i++)
        if (expr_equal(w->islands[i].expr, expr)) {
            *out = &w->islands[i];
            return WEFT_OK;
        }
    TRY(make_island(w, expr, &made));
    *LIST_PUSH(w->arena, w->islands, w->n_islands) = made;
    *out = &w->islands[w->n_islands - 1];
    return WEFT_OK;
}

weft_status weave_island_dict(Weaver *w, const Expr *expr, Dictionary **dict, u32 *dict_count)
{
    const Island *island;
    TRY(find_island(w, expr, &island));
    *dict = island->dict, *dict_count = island->dict_count;
    return WEFT_OK;
}

// ---- in the kernel --------------------------------------------------------------------------------------------------

weft_status weave_island(Weaver *w, const Expr *expr, const Val *column, Val *out)
{
    const Island *island;
    const Val     text = *column;
    TRY(find_island(w, expr, &island));
    const Island it = *island;
    const char *code = text.null ? PRINT("(%s ? %s : %s)", text.null, weave_param_i64(w, NULL, it.n_codes), text.value)
                                 : text.value;
    code = weave_temp(w, "i64", code);
    *out = (Val){ .is_float = type_is_float(expr->type), .range = it.range, .dict = it.dict,
                  .dict_count = it.dict_count };
    const char *values = weave_table(w, island_form_name(it.form), weave_name(w, "values"), it.values,
                                     ((size_t)it.n_codes + 1) * island_width(it.form));
    out->value = PRINT(out->is_float ? "%s[%s]" : "(i64)%s[%s]", values, code);
    if (it.highs) {
        const char *highs = weave_table(w, "i64", weave_name(w, "highs"), it.highs, ((size_t)it.n_codes + 1) * 8);
        out->high = PRINT("%s[%s]", highs, code);
    }
    out->range.nullable = it.has_null || (text.null && it.null_is_null);
    if (text.null && it.null_is_null) out->null = text.null;
    if (!it.states) return WEFT_OK;
    const char *states = weave_table(w, "u8", weave_name(w, "states"), it.states, (size_t)it.n_codes + 1);
    if (it.error) {
        const char *message = arena_strdup(w->arena, it.error->message);
        const int   check = weave_check(w, it.error->status, it.error->position, message);
        weave_stmt(w, "CHECK(%s[%s] != %d, %d)", states, code, ISLAND_FAILS, check);
    }
    if (it.has_null) out->null = PRINT("(%s[%s] == %d)", states, code, ISLAND_NULL);    // NULL's entry says so, too
    return WEFT_OK;
}
