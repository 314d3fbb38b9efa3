// bind_numeric.c - casts to numeric without a precision.
//
// In PostgreSQL such a number has as many digits behind the point as the value that it comes from.  Here a column of a
// query has one scale, and it is chosen so that no value loses a digit: that of the type for exact numbers, that of the
// constant, what the statistics prove for floats, and the texts themselves for a column of text.  Where nothing is
// known, or the sizes differ too much for 38 digits, it is one that does for usual values.  A value of which digits
// would be lost all the same is an error when it comes (22003).

#include <math.h>

#include "sql/sql_int.h"

// With a scale of 20, floats from 10^-6 to 10^18 keep all of their 15 digits; with one of 15, those from 1 to 10^23.
enum { DIGITS_MOST = 38, TEXT_SCALE = 18, FLOAT_SCALE = 20, FLOAT_SCALE_LEAST = 15, TEXTS_MOST = 1 << 22 };

// ---- floats ---------------------------------------------------------------------------------------------------------

static Range range_of_source(void *context, const Expr *column);

// The least and the greatest value are values; a mean lies between them, but for how it is rounded.
static Range range_of_agg(const Plan *plan, const Agg *agg)
{
    Range      range = range_of_type(agg->type);
    const bool is_value = agg->kind == AGG_MIN || agg->kind == AGG_MAX;
    if (!type_is_float(agg->type) || !(is_value || agg->kind == AGG_AVG)) return range;
    range.f = range_of(agg->arg, range_of_source, (void *)(uintptr_t)plan).f;
    if (!is_value) range.f.unit = range.f.least = float_range_any().least;
    return range;
}

// What is proved about a column while the query is bound: what the statistics of its table say.
static Range range_of_source(void *context, const Expr *column)
{
    const Plan       *plan = context;
    const PlanColumn *source = &plan->columns[column->column];
    if (source->table) return plan_range_of_stored(source->table, source->place);
    if (source->agg) return range_of_agg(plan, source->agg);
    if (source->value) return range_of(source->value, range_of_source, context);
    return range_of_type(column->type);
}

// Digits behind the point with which all floats of the range keep their first N_DIGITS.  A float of at least 10^k has
// N_DIGITS - 1 - k of them at most, and a multiple of 2^-u no more than u.  Where 38 digits have no room for all, the
// scale is no larger than it must be, since what is computed from these numbers has to fit as well.
static int scale_of_floats(FloatRange range, int n_digits)
{
    if (!range.known) return FLOAT_SCALE;
    const double most = range.low > range.high ? 0 : fmax(fabs(range.low), fabs(range.high));
    const int    least = (int)floor(range.least * 0.30102999566398120);
    const int    whole = most >= 1 ? (int)floor(log10(most)) + 2 : 1, room = DIGITS_MOST - whole;
    const int    scale = MAX_OF(MIN_OF(n_digits - 1 - least, -range.unit), 0);
    if (most == 0) return 0;
    if (scale <= room) return scale;
    return room >= FLOAT_SCALE_LEAST ? MIN_OF(room, FLOAT_SCALE) : FLOAT_SCALE;
}

static weft_status cast_float(Binder *binder, Expr *arg, int at, Expr **out)
{
    const bool is_real = arg->type.kind == TYPE_REAL;
    if (arg->kind == EXPR_CONST && !arg->value.is_null && isfinite(arg->value.f)) {
        Value value;
        Error local;
        error_clear(&local);
        if (value_free_of_float(arg->value.f, is_real, &value, &local))
            return fail(binder->err, local.status, at, "%s", local.message);
        *out = expr_const(binder->arena, value, at);
        return WEFT_OK;
    }
    const Range range = range_of(arg, range_of_source, binder->plan);
    const int   scale = scale_of_floats(range.f, is_real ? 6 : 15);
    return expr_cast(binder->arena, arg, (Type){ TYPE_NUMERIC, NUMERIC_TRIMMED, (u8)scale }, at, out, binder->err);
}

// ---- text -----------------------------------------------------------------------------------------------------------

static int count_whole_digits(const Value *value)
{
    int  n = 0;
    i128 rest = value->i;
    for (int i = 0; i < value->type.scale; i++) rest /= 10;
    for (; rest; rest /= 10) n++;
    return n;
}

// Those that are no numbers do not count: they are errors when they come.
static int count_scale(Dictionary *dict, u32 count)
{
    int whole = 0, most = 0;
    for (u32 code = 0; code < count; code++) {
        const weft_text text = dict_get(dict, code);
        Value           value;
        if (value_parse_free(text.bytes, text.length, &value, &(Error){ 0 })) continue;
        most = MAX_OF(most, value.type.scale);
        whole = MAX_OF(whole, count_whole_digits(&value));
    }
    return MIN_OF(most, DIGITS_MOST - whole);
}

// The scale that the texts of a column need: counted once, and kept with them.
static weft_status scale_of_texts(Dictionary *dict, u32 count, int *scale, Error *err)
{
    static const char key[] = "scale of texts";
    TRY(dict_load(dict, err));
    const DictNote *note = dict_note_find(dict, count, key, sizeof key);
    if (note) {
        memcpy(scale, note->bytes, sizeof *scale);
        dict_note_release(dict, note);
        return WEFT_OK;
    }
    *scale = count_scale(dict, count);
    TRY(dict_status(dict, err));
    dict_note_put(dict, count, key, sizeof key, (DictNote){ .bytes = scale, .n_bytes = sizeof *scale });
    return WEFT_OK;
}

static weft_status cast_text(Binder *binder, Expr *arg, int at, Expr **out)
{
    int scale = TEXT_SCALE;
    const PlanColumn *source = arg->kind == EXPR_COLUMN ? &binder->plan->columns[arg->column] : NULL;
    if (source && source->table && source->table->columns[source->place].dict_count <= TEXTS_MOST) {
        const Column *column = &source->table->columns[source->place];
        TRY(scale_of_texts(column->dict, column->dict_count, &scale, binder->err));
    }
    return expr_cast(binder->arena, arg, (Type){ TYPE_NUMERIC, NUMERIC_TRIMMED, (u8)scale }, at, out, binder->err);
}

static bool has_scale(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC; }

weft_status bind_bare_numeric(Binder *binder, Expr *arg, int at, Expr **out)
{
    *out = arg;
    if (has_scale(arg->type)) return WEFT_OK;
    if (arg->kind == EXPR_CONST && !arg->value.is_null && (arg->type.kind == TYPE_NULL || arg->type.kind == TYPE_TEXT))
        TRY(expr_number(binder->arena, arg->value.text.bytes, arg->value.text.length, at, &arg, binder->err));
    *out = arg;
    if (has_scale(arg->type)) return WEFT_OK;
    if (type_is_float(arg->type)) return cast_float(binder, arg, at, out);
    if (arg->type.kind == TYPE_TEXT) return cast_text(binder, arg, at, out);
    Type type = { TYPE_NUMERIC, DIGITS_MOST, 0 };
    if (arg->type.kind == TYPE_INTEGER || arg->type.kind == TYPE_SMALLINT)
        type = (Type){ TYPE_DECIMAL, arg->type.kind == TYPE_INTEGER ? 10 : 5, 0 };
    return expr_cast(binder->arena, arg, type, at, out, binder->err);
}
