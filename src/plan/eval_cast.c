// eval_cast.c - values from one type to another.
//
// Every exact number is a whole number over a power of ten, so all casts between them are one rescale and one range
// check:
//
//     decimal(12,2) 1234.56 = 123456 / 10^2  ->  numeric scale 4: 12345600 / 10^4  ->  integer: 1235 / 10^0
//
// Rounding is PostgreSQL's: exact numbers half away from zero, floats to integers half to even, and a float becomes
// exact through its 15 (real: 6) significant digits, so that 1.005 is 1.005 and not what the bits say.

#include "plan/expr_int.h"
#include "plan/time.h"

#include <math.h>
#include <stdio.h>

bool type_is_exact(Type type)
{
    return type_is_integer(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

bool type_is_number(Type type)
{
    return type_is_exact(type) || type_is_float(type);
}

const char *type_label(Type type, char buffer[32])
{
    if (type.kind == TYPE_NULL) return "unknown";
    return type_name(type, buffer);
}

// A table: casts of numerics ask for it for every row.  Unsigned here and below: clang checks signed 128-bit products
// by a function that libgcc does not have.
i128 ten_to(int n)
{
    enum { HALF = 19 };
    static const u64 powers[HALF + 1] = {
        1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull, 10000000ull, 100000000ull, 1000000000ull,
        10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull, 100000000000000ull, 1000000000000000ull,
        10000000000000000ull, 100000000000000000ull, 1000000000000000000ull, 10000000000000000000ull
    };
    ASSERT(n <= 2 * HALF);
    if (n <= 0) return 1;
    return (i128)(n <= HALF ? (u128)powers[n] : (u128)powers[HALF] * powers[n - HALF]);
}

bool multiply_wide(i128 a, i128 b, i128 *product)
{
    const u128 x = a < 0 ? -(u128)a : (u128)a, y = b < 0 ? -(u128)b : (u128)b;
    const bool is_negative = (a < 0) != (b < 0);
    const u128 most = ((u128)1 << 127) - !is_negative;
    if (x != 0 && y > most / x) return false;
    *product = (i128)(is_negative ? -(x * y) : x * y);
    return true;
}

int count_digits(i128 value)
{
    u128 rest = value < 0 ? -(u128)value : (u128)value;
    int  digits = 1;
    while (rest /= 10) digits++;
    return digits;
}

bool rescale(i128 value, int from_scale, int to_scale, i128 *out)
{
    const int shift = to_scale - from_scale;
    if (shift > NUMERIC_DIGITS || shift < -NUMERIC_DIGITS) {
        *out = 0;
        return value == 0 || shift < 0;
    }
    if (shift >= 0) return multiply_wide(value, ten_to(shift), out);
    const i128 power = ten_to(-shift);
    const i128 rest = value % power;
    *out = value / power;
    if (rest >= power - rest && rest > 0) *out += 1;        // rest * 2 >= power, without the overflow
    if (-rest >= power + rest && rest < 0) *out -= 1;
    return true;
}

enum { DATE_FIRST = -719162, DATE_LAST = 2932896 };         // years 1 to 9999, as the store reads them

bool value_fits(i128 value, Type type)
{
    const i128 decimal_end = (i128)1000000000000000000;
    switch ((TypeKind)type.kind) {
        case TYPE_BOOLEAN:  return value == 0 || value == 1;
        case TYPE_SMALLINT: return value >= INT16_MIN && value <= INT16_MAX;
        case TYPE_INTEGER:  return value >= INT32_MIN && value <= INT32_MAX;
        case TYPE_BIGINT:   return value >= INT64_MIN && value <= INT64_MAX;
        case TYPE_DECIMAL:  return value > -decimal_end && value < decimal_end;
        case TYPE_NUMERIC:  return value > -ten_to(NUMERIC_DIGITS) && value < ten_to(NUMERIC_DIGITS);
        case TYPE_DATE:     return value >= DATE_FIRST && value <= DATE_LAST;
        case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ:
            return value >= (i128)DATE_FIRST * DAY_MICROS && value < (i128)(DATE_LAST + 1) * DAY_MICROS;
        case TYPE_TIME:     return value >= 0 && value <= DAY_MICROS;
        default:            return true;
    }
}

weft_status range_error(Type type, int at, Error *err)
{
    char buffer[32];
    if (type.kind == TYPE_DATE) return fail(err, WEFT_DATETIME_OVERFLOW, at, "date out of range");
    if (type_is_time(type)) return fail(err, WEFT_DATETIME_OVERFLOW, at, "timestamp out of range");
    if (type.kind == TYPE_DECIMAL) return fail(err, WEFT_OUT_OF_RANGE, at, "decimal out of range");
    if (type.kind == TYPE_NUMERIC) return fail(err, WEFT_OUT_OF_RANGE, at, "numeric out of range");
    return fail(err, WEFT_OUT_OF_RANGE, at, "%s out of range", type_label(type, buffer));
}

// ---- numbers --------------------------------------------------------------------------------------------------------

static weft_status exact_from_exact(i128 value, int scale, Type to, int at, Value *out, Error *err)
{
    if (!rescale(value, scale, to.scale, &out->i)) return range_error(to, at, err);
    const bool has_precision = to.kind == TYPE_DECIMAL || (to.kind == TYPE_NUMERIC && to.precision < NUMERIC_DIGITS);
    if (has_precision && count_digits(out->i) > to.precision) {
        char buffer[32];
        return fail(err, WEFT_OUT_OF_RANGE, at, "value out of range for %s", type_label(to, buffer));
    }
    return value_fits(out->i, to) ? WEFT_OK : range_error(to, at, err);
}

static weft_status integer_from_float(double value, Type to, int at, Value *out, Error *err)
{
    const double rounded = rint(value);                     // half to even in the default rounding mode
    const double end = 9223372036854775808.0;               // 2^63
    if (!(rounded >= -end && rounded < end)) return range_error(to, at, err);
    out->i = (i128)rounded;
    return value_fits(out->i, to) ? WEFT_OK : range_error(to, at, err);
}

// The significant digits as a whole number: VALUE is about *DIGITS * 10^*EXPONENT.
static void significant_digits(double value, int n_digits, i128 *digits, int *exponent)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", n_digits - 1, fabs(value));
    u128        sum = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') sum = sum * 10 + (u128)(*p - '0');     // skips the locale's decimal point
    *exponent = 0;
    const bool is_negative = *p && p[1] == '-';
    for (; *p; p++)
        if (*p >= '0' && *p <= '9') *exponent = *exponent * 10 + (*p - '0');
    *exponent = (is_negative ? -*exponent : *exponent) - (n_digits - 1);
    *digits = value < 0 ? -(i128)sum : (i128)sum;
}

// DIGITS of scale FROM as they are: none may be lost, as one is that TO's scale has no place for.
static weft_status all_digits(i128 digits, int from, int to, int at, Value *out, Error *err)
{
    for (; from > to && digits % 10 == 0 && digits; from--) digits /= 10;
    if (digits && from > to) return fail(err, WEFT_OUT_OF_RANGE, at, NUMERIC_LOSES_DIGITS);
    if (!digits) from = to;
    if (!rescale(digits, from, to, &out->i)) return fail(err, WEFT_OUT_OF_RANGE, at, NUMERIC_LOSES_DIGITS);
    return value_fits(out->i, out->type) ? WEFT_OK : range_error(out->type, at, err);
}

static weft_status exact_from_float(double value, Type from, Type to, int at, Value *out, Error *err)
{
    char buffer[32];
    if (!isfinite(value))
        return fail(err, WEFT_OUT_OF_RANGE, at, "cannot convert %s to %s", isnan(value) ? "NaN" : "infinity",
                    type_label(to, buffer));
    i128 digits;
    int  exponent;
    significant_digits(value, from.kind == TYPE_REAL ? 6 : 15, &digits, &exponent);
    if (type_is_trimmed(to)) return all_digits(digits, -exponent, to.scale, at, out, err);
    return exact_from_exact(digits, -exponent, to, at, out, err);
}

static weft_status real_from_double(double value, int at, Value *out, Error *err)
{
    const float narrow = (float)value;
    if (isinf(narrow) && !isinf(value)) return fail(err, WEFT_OUT_OF_RANGE, at, "value out of range: overflow");
    if (narrow == 0 && value != 0) return fail(err, WEFT_OUT_OF_RANGE, at, "value out of range: underflow");
    out->f = narrow;
    return WEFT_OK;
}

static weft_status number_cast(const Value *from, Type to, int at, Value *out, Error *err)
{
    if (type_is_quotient(to) && type_is_exact(from->type)) out->shown = (u8)(1 + MIN_OF(value_shown(from), to.scale));
    if (type_is_exact(from->type) && type_is_exact(to))
        return exact_from_exact(from->i, from->type.scale, to, at, out, err);
    if (type_is_exact(to))
        return type_is_integer(to) ? integer_from_float(from->f, to, at, out, err)
                                   : exact_from_float(from->f, from->type, to, at, out, err);
    out->f = from->f;
    if (type_is_exact(from->type))
        out->f = wide_decimal_to_f64((i64)(from->i >> 64), (i64)from->i,
                                     type_is_integer(from->type) ? 0 : from->type.scale);
    return to.kind == TYPE_REAL ? real_from_double(out->f, at, out, err) : WEFT_OK;
}

// ---- text -----------------------------------------------------------------------------------------------------------

// Errors of value_parse have no place: the store does not know the statement.
static weft_status parse_at(Type to, const char *bytes, size_t length, int at, Value *out, Error *err)
{
    Error local;
    error_clear(&local);
    if (value_parse(to, bytes, length, out, &local) == WEFT_OK) return WEFT_OK;
    const weft_status status = fail(err, local.status, at, "%s", local.message);
    if (local.hint[0]) error_hint(err, "%s", local.hint);
    return status;
}

static weft_status uuid_from_text(Arena *arena, const Value *from, int at, Value *out, Error *err)
{
    char canonical[37];
    if (!uuid_canonical(from->text.bytes, from->text.length, canonical))
        return fail(err, WEFT_BAD_TEXT, at, "invalid input syntax for type uuid: \"%.*s\"",
                    (int)MIN_OF(from->text.length, 100), from->text.bytes);
    out->text.bytes = arena_strdup(arena, canonical);
    out->text.length = 36;
    return WEFT_OK;
}

static weft_status value_from_text(Arena *arena, const Value *from, Type to, int at, Value *out, Error *err)
{
    if (type_is_uuid(to) && !type_is_uuid(from->type)) return uuid_from_text(arena, from, at, out, err);
    if (to.kind == TYPE_TEXT) {
        out->text = from->text;
        if (type_is_char(to)) out->text.length = (u32)text_without_blanks(from->text.bytes, from->text.length);
        return WEFT_OK;
    }
    return parse_at(to, from->text.bytes, from->text.length, at, out, err);
}

static weft_status text_from_value(Arena *arena, const Value *from, Value *out)
{
    if (from->type.kind == TYPE_BOOLEAN) {                  // a cast spells it out, output does not
        out->text.bytes = from->i ? "true" : "false";
        out->text.length = from->i ? 4 : 5;
        return WEFT_OK;
    }
    const size_t length = value_format(from, NULL, 0);
    char        *bytes = arena_alloc(arena, length + 1);
    value_format(from, bytes, length + 1);
    out->text.bytes = bytes;
    out->text.length = (u32)length;
    return WEFT_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

typedef struct Numeral {
    bool is_negative, has_point, has_exponent;
    int  n_whole, n_fraction;                               // digits, without leading zeros of the whole part
    u128 digits;                                            // all of them, as long as there are at most 38
} Numeral;

static bool scan_numeral(const char *p, const char *end, Numeral *numeral)
{
    bool has_digit = false;
    *numeral = (Numeral){ 0 };
    if (p < end && (*p == '-' || *p == '+')) numeral->is_negative = *p++ == '-';
    for (; p < end && (is_digit(*p) || (*p == '.' && !numeral->has_point)); p++) {
        if (*p == '.') {
            numeral->has_point = true;
            continue;
        }
        has_digit = true;
        if (numeral->has_point) numeral->n_fraction++;
        else if (*p != '0' || numeral->n_whole > 0) numeral->n_whole++;
        if (numeral->n_whole + numeral->n_fraction <= NUMERIC_DIGITS)
            numeral->digits = numeral->digits * 10 + (u128)(*p - '0');
    }
    if (!has_digit) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        numeral->has_exponent = true;
        p++;
        if (p < end && (*p == '-' || *p == '+')) p++;
        if (p == end || !is_digit(*p)) return false;
        while (p < end && is_digit(*p)) p++;
    }
    return p == end;
}

// 1.5e3 is 1500 and 1e-5 has five digits behind the point, as in PostgreSQL; a double where 38 digits do not do.
static weft_status parse_exponent(const char *bytes, size_t length, int at, Value *value, Error *err)
{
    if (value_parse_free(bytes, length, value, &(Error){ 0 })) {
        *value = (Value){ .type = TYPE(DOUBLE) };
        return parse_at(TYPE(DOUBLE), bytes, length, at, value, err);
    }
    const int n_digits = MAX_OF(count_digits(value->i), value->type.scale);
    if (n_digits <= DECIMAL_DIGITS) value->type = (Type){ TYPE_DECIMAL, (u8)n_digits, value->type.scale };
    return WEFT_OK;
}

weft_status number_parse(const char *bytes, size_t length, int at, Value *value, Error *err)
{
    const char *p = bytes, *end = bytes + length;
    while (p < end && is_blank(*p)) p++;
    while (p < end && is_blank(end[-1])) end--;
    Numeral numeral;
    if (!scan_numeral(p, end, &numeral)) {
        TRY(parse_at((Type){ TYPE_NUMERIC, NUMERIC_DIGITS, 0 }, bytes, length, at, value, err));
        return fail(err, WEFT_BAD_TEXT, at, "invalid input syntax for type numeric: \"%.*s\"", (int)MIN_OF(length, 200),
                    bytes);
    }
    const i128 whole = numeral.is_negative ? -(i128)numeral.digits : (i128)numeral.digits;
    const int  n_digits = numeral.n_whole + numeral.n_fraction;
    *value = (Value){ .i = whole };
    if (!numeral.has_exponent && !numeral.has_point && n_digits <= NUMERIC_DIGITS && value_fits(whole, TYPE(BIGINT))) {
        value->type = value_fits(whole, TYPE(INTEGER)) ? TYPE(INTEGER) : TYPE(BIGINT);
        return WEFT_OK;
    }
    if (!numeral.has_exponent && numeral.has_point && n_digits <= DECIMAL_DIGITS) {
        value->type = (Type){ TYPE_DECIMAL, (u8)MAX_OF(n_digits, 1), (u8)numeral.n_fraction };
        return WEFT_OK;
    }
    if (!numeral.has_exponent && n_digits <= NUMERIC_DIGITS) {
        value->type = (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, (u8)numeral.n_fraction };
        return WEFT_OK;
    }
    if (!numeral.has_exponent) {
        fail(err, WEFT_OUT_OF_RANGE, at, "a number of %d digits is too long", n_digits);
        error_hint(err, "Exact numbers have %d digits at most. As a text it can be cast to double precision.",
                   NUMERIC_DIGITS);
        return WEFT_OUT_OF_RANGE;
    }
    return parse_exponent(p, (size_t)(end - p), at, value, err);
}

// ---- any type to any ------------------------------------------------------------------------------------------------

weft_status value_cast(Arena *arena, const Value *from, Type to, int at, Value *out, Error *err)
{
    const Value source = *from;                             // FROM and OUT may be the same
    char        from_name[32], to_name[32];
    *out = (Value){ .type = to, .is_null = source.is_null };
    if (source.is_null) return WEFT_OK;
    const bool from_text = source.type.kind == TYPE_NULL || source.type.kind == TYPE_TEXT;
    weft_status status = WEFT_OK;
    if (from_text) status = value_from_text(arena, &source, to, at, out, err);
    else if (to.kind == TYPE_TEXT) status = text_from_value(arena, &source, out);
    else if (type_is_number(source.type) && type_is_number(to)) status = number_cast(&source, to, at, out, err);
    else if (source.type.kind == TYPE_BOOLEAN && to.kind == TYPE_INTEGER) out->i = source.i;
    else if (source.type.kind == TYPE_INTEGER && to.kind == TYPE_BOOLEAN) out->i = source.i != 0;
    else if (source.type.kind == to.kind) *out = source;
    else
        status = fail(err, WEFT_CANNOT_COERCE, at, "cannot cast type %s to %s", type_label(source.type, from_name),
                      type_label(to, to_name));
    out->type = to;
    return status;
}
