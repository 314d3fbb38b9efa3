// value.c - one value at a time: from text, to text, compared.  All as PostgreSQL does it, messages included.

#include <stdio.h>
#include <stdlib.h>

#include "store/store_int.h"

// ---- helpers -------------------------------------------------------------------------------------------------------

typedef struct Input { const char *at, *end; } Input;       // what is left of the input

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static Input trimmed(const char *bytes, size_t length)
{
    if (length == 0)
        return (Input){ "", "" };
    Input span = { bytes, bytes + length };
    while (span.at < span.end && is_blank(*span.at))
        span.at++;
    while (span.end > span.at && is_blank(span.end[-1]))
        span.end--;
    return span;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// Whether the span is the first letters of WORD, at least N_LEAST of them, in either case.
static bool is_prefix(Input span, const char *word, size_t n_least)
{
    size_t length = (size_t)(span.end - span.at);
    if (length < n_least || length > strlen(word))
        return false;
    for (size_t i = 0; i < length; i++)
        if (lower(span.at[i]) != word[i])
            return false;
    return true;
}

// ---- booleans and integers -----------------------------------------------------------------------------------------

static weft_status parse_boolean(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    static const struct { const char *word; size_t n_least; bool is_true; } words[] = {
        { "true", 1, true }, { "false", 1, false }, { "yes", 1, true }, { "no", 1, false },
        { "on", 2, true },   { "off", 2, false },   { "1", 1, true },   { "0", 1, false },
    };
    Input span = trimmed(bytes, length);
    for (int i = 0; i < COUNT_OF(words); i++) {
        if (is_prefix(span, words[i].word, words[i].n_least)) {
            value->i = words[i].is_true;
            return WEFT_OK;
        }
    }
    return value_bad_text(type, bytes, length, err);
}

static bool take_sign(Input *span)
{
    if (span->at == span->end || (*span->at != '-' && *span->at != '+'))
        return false;
    return *span->at++ == '-';
}

static weft_status parse_integer(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    Input span = trimmed(bytes, length);
    bool is_negative = take_sign(&span);
    if (span.at == span.end)
        return value_bad_text(type, bytes, length, err);
    u64 magnitude = 0;
    bool is_too_large = false;
    for (; span.at < span.end; span.at++) {
        if (!is_digit(*span.at))
            return value_bad_text(type, bytes, length, err);
        is_too_large |= magnitude > (u64)INT64_MAX / 10;
        magnitude = magnitude * 10 + (u64)(*span.at - '0');
    }
    i64 min, max;
    type_limits(type, &min, &max);
    value->i = is_negative ? -(i128)magnitude : (i128)magnitude;
    if (!is_too_large && value->i >= min && value->i <= max)
        return WEFT_OK;
    char name[32], quoted[VALUE_QUOTE_BYTES];
    return fail(err, WEFT_OUT_OF_RANGE, -1, "value \"%s\" is out of range for type %s",
                value_quote(bytes, length, quoted), type_name(type, name));
}

// ---- decimals ------------------------------------------------------------------------------------------------------

// The parts of a decimal number: the digits with perhaps a point among them, and the exponent.
typedef struct Decimal {
    bool        is_negative;
    const char *digits, *digits_end;
    i64         n_digits, n_before;                         // all; before the point
    i64         exponent;
} Decimal;

enum { EXPONENT_MAX = 1000000000 };                         // larger ones are cut to this: 0 or too large in any case

static bool scan_exponent(Input *span, i64 *exponent)
{
    *exponent = 0;
    if (span->at == span->end || lower(*span->at) != 'e')
        return true;
    span->at++;
    bool is_negative = take_sign(span);
    if (span->at == span->end)
        return false;
    for (; span->at < span->end && is_digit(*span->at); span->at++)
        *exponent = MIN_OF(*exponent * 10 + (*span->at - '0'), EXPONENT_MAX);
    if (is_negative)
        *exponent = -*exponent;
    return true;
}

static bool scan_decimal(Input span, Decimal *decimal)
{
    *decimal = (Decimal){ .is_negative = take_sign(&span), .digits = span.at };
    bool has_point = false;
    for (; span.at < span.end && (is_digit(*span.at) || (*span.at == '.' && !has_point)); span.at++) {
        bool is_point = *span.at == '.';
        has_point |= is_point;
        decimal->n_digits += !is_point;
        decimal->n_before += !has_point;
    }
    decimal->digits_end = span.at;
    return decimal->n_digits > 0 && scan_exponent(&span, &decimal->exponent) && span.at == span.end;
}

static u128 wide_power_of_ten(int n)
{
    return n <= 18 ? (u128)power_of_ten(n) : (u128)power_of_ten(18) * wide_power_of_ten(n - 18);
}

// The number times 10^SCALE, rounded half away from zero: the digits that stand before the moved point, and the one
// after it for rounding.  False when it is not below LIMIT, a power of ten from 10 to 10^38.
static bool scale_decimal(const Decimal *decimal, int scale, u128 limit, u128 *scaled)
{
    i64 n_wanted = decimal->n_before + decimal->exponent + scale, n = 0;
    u128 sum = 0;
    for (const char *at = decimal->digits; at < decimal->digits_end && n <= n_wanted; at++) {
        if (*at == '.')
            continue;
        if (n == n_wanted)
            sum += *at >= '5';
        else if (sum >= limit / 10)
            return false;                                   // before it overflows: 10^39 does not fit
        else
            sum = sum * 10 + (u128)(*at - '0');
        n++;
    }
    for (; n < n_wanted && sum > 0; n++) {
        if (sum >= limit / 10)
            return false;
        sum *= 10;
    }
    *scaled = sum;
    return sum < limit;
}

// Whether a digit other than 0 stands behind those that SCALE keeps.
static bool loses_digits(const Decimal *decimal, int scale)
{
    i64 n_left = decimal->n_before + decimal->exponent + scale;
    for (const char *at = decimal->digits; at < decimal->digits_end; at++)
        if (*at != '.' && n_left-- <= 0 && *at != '0')
            return true;
    return false;
}

static weft_status parse_decimal(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    int most = type.kind == TYPE_DECIMAL ? DECIMAL_DIGITS : NUMERIC_DIGITS;
    int precision = type.precision > 0 && type.precision < most ? type.precision : most;
    Decimal decimal;
    u128 magnitude;
    if (!scan_decimal(trimmed(bytes, length), &decimal))
        return value_bad_text(type, bytes, length, err);
    if (type_is_trimmed(type) && loses_digits(&decimal, type.scale)) {
        fail(err, WEFT_OUT_OF_RANGE, -1, "numeric field overflow");
        error_hint(err, "A number has more than %d digits behind the point; numeric(p,s) rounds to s.", type.scale);
        return WEFT_OUT_OF_RANGE;
    }
    if (!scale_decimal(&decimal, type.scale, wide_power_of_ten(precision), &magnitude)) {
        fail(err, WEFT_OUT_OF_RANGE, -1, "numeric field overflow");
        error_hint(err, "A field with precision %d, scale %d must round to an absolute value less than 10^%d.",
                   precision, type.scale, precision - type.scale);
        return WEFT_OUT_OF_RANGE;
    }
    value->i = decimal.is_negative ? -(i128)magnitude : (i128)magnitude;
    return WEFT_OK;
}

bool value_scale_up(i128 *number, int up)
{
    ASSERT(up >= 0);
    const u128 magnitude = *number < 0 ? -(u128)*number : (u128)*number;
    if (magnitude == 0)
        return true;
    if (up >= NUMERIC_DIGITS || magnitude >= wide_power_of_ten(NUMERIC_DIGITS - up))
        return false;
    *number *= (i128)wide_power_of_ten(up);
    return true;
}

weft_status value_parse_free(const char *bytes, size_t length, Value *value, Error *err)
{
    Decimal decimal;
    u128 magnitude = 0;
    *value = (Value){ .type = { TYPE_NUMERIC, NUMERIC_DIGITS, 0 } };
    if (!scan_decimal(trimmed(bytes, length), &decimal))
        return value_bad_text(value->type, bytes, length, err);
    const i64 scale = MAX_OF(decimal.n_digits - decimal.n_before - decimal.exponent, 0);
    if (scale > NUMERIC_DIGITS || !scale_decimal(&decimal, (int)scale, wide_power_of_ten(NUMERIC_DIGITS), &magnitude)) {
        char quoted[VALUE_QUOTE_BYTES];
        fail(err, WEFT_OUT_OF_RANGE, -1, "numeric field overflow");
        error_hint(err, "%s takes more than %d digits.", value_quote(bytes, length, quoted), NUMERIC_DIGITS);
        return WEFT_OUT_OF_RANGE;
    }
    value->type.scale = (u8)scale;
    value->i = decimal.is_negative ? -(i128)magnitude : (i128)magnitude;
    return WEFT_OK;
}

weft_status value_free_of_float(double number, bool is_real, Value *value, Error *err)
{
    char text[64];
    if (!(number - number == 0)) {
        fail(err, WEFT_OUT_OF_RANGE, -1, "%s cannot be stored in a column of type numeric",
             number != number ? "NaN" : "infinity");
        return WEFT_OUT_OF_RANGE;
    }
    const int n = snprintf(text, sizeof text, "%.*g", is_real ? 6 : 15, number);
    return value_parse_free(text, (size_t)n, value, err);
}

// ---- floats --------------------------------------------------------------------------------------------------------

static weft_status parse_float(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    char short_text[128], name[32], quoted[VALUE_QUOTE_BYTES];
    Input span = trimmed(bytes, length);
    size_t n = (size_t)(span.end - span.at);
    if (n == 0 || memchr(span.at, '\0', n))
        return value_bad_text(type, bytes, length, err);
    char *text = n < sizeof(short_text) ? short_text : malloc(n + 1);
    if (!text)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory reading a number of %zu bytes", n);
    memcpy(text, span.at, n);
    text[n] = '\0';
    FloatText kind = float_parse(text, type.kind == TYPE_REAL, &value->f);
    if (text != short_text)
        free(text);
    if (kind == FLOAT_NONE)
        return value_bad_text(type, bytes, length, err);
    if (kind == FLOAT_TOO_LARGE)
        return fail(err, WEFT_OUT_OF_RANGE, -1, "\"%s\" is out of range for type %s",
                    value_quote(bytes, length, quoted), type_name(type, name));
    return WEFT_OK;
}

// ---- uuids ---------------------------------------------------------------------------------------------------------

// 32 hexadecimal digits, with a hyphen behind any four of them, in braces or not.
bool uuid_canonical(const char *bytes, size_t length, char out[37])
{
    Input span = trimmed(bytes, length);
    int n = 0, n_out = 0;
    bool has_brace = span.at < span.end && *span.at == '{';
    if (has_brace && (span.end - span.at < 2 || span.end[-1] != '}'))
        return false;
    span.at += has_brace, span.end -= has_brace;
    for (; span.at < span.end; span.at++) {
        char c = lower(*span.at);
        if (c == '-' && n > 0 && n % 4 == 0 && n < 32 && span.at[-1] != '-')
            continue;
        if (n == 32 || (!is_digit(c) && (c < 'a' || c > 'f')))
            return false;
        if (n == 8 || n == 12 || n == 16 || n == 20)
            out[n_out++] = '-';
        out[n_out++] = c, n++;
    }
    out[n_out] = '\0';
    return n == 32;
}

// ---- text ----------------------------------------------------------------------------------------------------------

static weft_status parse_text(const char *bytes, size_t length, Value *value, Error *err)
{
    size_t good = utf8_valid_length(bytes, length);
    if (good < length)
        return fail(err, WEFT_BAD_ENCODING, -1, "invalid byte sequence for encoding \"UTF8\": 0x%02x",
                    (unsigned)(unsigned char)bytes[good]);
    if (length > TEXT_BYTES_MAX)
        return fail(err, WEFT_TOO_LONG, -1, "text of %zu bytes is too long", length);
    value->text.bytes = length ? bytes : "";
    value->text.length = (u32)length;
    return WEFT_OK;
}

// The bytes of the first N characters.
static size_t bytes_of_characters(const char *bytes, size_t length, int n)
{
    size_t at = 0;
    for (; at < length; at++)
        if (((unsigned char)bytes[at] & 0xC0) != 0x80 && n-- == 0)
            break;
    return at;
}

weft_status value_fit_text(Type type, const char *bytes, size_t *length, Error *err)
{
    const int most = type_text_length(type);
    if (type_is_char(type))
        *length = text_without_blanks(bytes, *length);
    if (!most || *length <= (size_t)most)
        return WEFT_OK;
    const size_t fits = bytes_of_characters(bytes, *length, most);
    for (size_t i = fits; i < *length; i++)
        if (bytes[i] != ' ')
            return fail(err, WEFT_TEXT_TOO_LONG, -1, "value too long for type character%s(%d)",
                        type_is_char(type) ? "" : " varying", most);
    *length = fits;
    return WEFT_OK;
}

static weft_status parse_stored_interval(const char *bytes, size_t length, Value *value, Error *err)
{
    Value interval = { .type = TYPE(INTERVAL) };
    TRY(parse_interval(TYPE(INTERVAL), bytes, length, &interval, err));
    if (!interval_to_number(&interval, &value->i))
        return fail(err, WEFT_DATETIME_OVERFLOW, -1, "interval is too long to be stored");
    return WEFT_OK;
}

weft_status value_parse(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    *value = (Value){ .type = type };
    switch ((TypeKind)type.kind) {
    case TYPE_BOOLEAN:
        return parse_boolean(type, bytes, length, value, err);
    case TYPE_SMALLINT:
    case TYPE_INTEGER:
    case TYPE_BIGINT:
        return parse_integer(type, bytes, length, value, err);
    case TYPE_DECIMAL:
    case TYPE_NUMERIC:
        if (type_is_stored_interval(type))
            return parse_stored_interval(bytes, length, value, err);
        return parse_decimal(type, bytes, length, value, err);
    case TYPE_REAL:
    case TYPE_DOUBLE:
        return parse_float(type, bytes, length, value, err);
    case TYPE_DATE:
    case TYPE_TIMESTAMP:
    case TYPE_TIMESTAMPTZ:
    case TYPE_TIME:
        return parse_moment(type, bytes, length, value, err);
    case TYPE_INTERVAL:
        return parse_interval(type, bytes, length, value, err);
    case TYPE_TEXT:
    case TYPE_NULL:
        return parse_text(bytes, length, value, err);
    }
    return fail(err, WEFT_INTERNAL, -1, "no type with number %d", type.kind);
}

// ---- to text -------------------------------------------------------------------------------------------------------

enum { SHORT_TEXT = 512 };                                  // a numeric with scale 255 and its zeros is the longest

// A processor divides words, and calls a function for more: so it is done once for as many digits as a word has.
#define WORD_DIGITS 18
#define WORD_POWER  ((u64)1000000000000000000)

static int format_scaled(i128 number, int scale, char *buffer)
{
    char reversed[SHORT_TEXT];
    int n = 0, n_digits = 0;
    const u128 whole = number < 0 ? -(u128)number : (u128)number;
    u64 rest = (u64)(whole < WORD_POWER ? whole : whole % WORD_POWER);
    u128 more = whole < WORD_POWER ? 0 : whole / WORD_POWER;
    do {
        // cppcheck-suppress negativeIndex  ; it thinks of n == scale when scale is 0, but n is at least 1 there
        reversed[n++] = (char)('0' + (int)(rest % 10));
        rest /= 10;
        if (++n_digits % WORD_DIGITS == 0 && more > 0) {
            rest = (u64)(more % WORD_POWER);
            more /= WORD_POWER;
        }
        if (n == scale)
            reversed[n++] = '.';
    } while (rest > 0 || more > 0 || n <= scale + (scale > 0));         // at least one digit before the point
    if (number < 0)
        reversed[n++] = '-';
    for (int i = 0; i < n; i++)
        buffer[i] = reversed[n - 1 - i];
    buffer[n] = '\0';
    return n;
}

static int trimmed_scale(i128 number, int scale)
{
    for (; scale > 0 && number % 10 == 0; scale--)
        number /= 10;
    return scale;
}

int value_shown(const Value *value)
{
    if (value->shown)
        return MIN_OF(value->shown - 1, value->type.scale);
    if (type_is_trimmed(value->type))
        return trimmed_scale(value->i, value->type.scale);
    if (type_is_quotient(value->type))
        return wide_shown((i64)(value->i >> 64), (i64)value->i, value->type.scale);
    return value->type.kind == TYPE_DECIMAL || value->type.kind == TYPE_NUMERIC ? value->type.scale : 0;
}

// Digits that are not shown are 0.
static int format_quotient(const Value *value, char *buffer)
{
    int n = format_scaled(value->i, value->type.scale, buffer);
    for (int hidden = value->type.scale - value_shown(value); hidden > 0 && buffer[n - 1] == '0'; hidden--)
        n--;
    n -= buffer[n - 1] == '.';
    buffer[n] = '\0';
    return n;
}

static int format_short(const Value *value, char buffer[SHORT_TEXT])
{
    switch ((TypeKind)value->type.kind) {
    case TYPE_BOOLEAN:
        return snprintf(buffer, SHORT_TEXT, "%s", value->i ? "t" : "f");
    case TYPE_REAL:
    case TYPE_DOUBLE:
        return float_format(value->f, value->type.kind == TYPE_REAL, buffer, SHORT_TEXT);
    case TYPE_DATE:
    case TYPE_TIMESTAMP:
    case TYPE_TIMESTAMPTZ:
    case TYPE_TIME:
        return format_moment(value->type, (i64)value->i, buffer);
    case TYPE_INTERVAL:
        return format_interval(value, buffer);
    case TYPE_DECIMAL:
    case TYPE_NUMERIC:
        if (type_is_stored_interval(value->type)) {
            const Value interval = interval_from_number(value->i);
            return format_interval(&interval, buffer);
        }
        if (value->shown || type_is_quotient(value->type))
            return format_quotient(value, buffer);
        return format_scaled(value->i, value->type.scale, buffer);
    default:
        return format_scaled(value->i, 0, buffer);
    }
}

size_t value_format(const Value *value, char *buffer, size_t capacity)
{
    char short_text[SHORT_TEXT];
    const char *bytes = short_text;
    size_t length = 0;
    if (value->is_null) {
        short_text[0] = '\0';
    } else if (value->type.kind == TYPE_TEXT || value->type.kind == TYPE_NULL) {
        bytes = value->text.bytes;
        length = value->text.length;
    } else {
        length = (size_t)format_short(value, short_text);
    }
    if (capacity > 0) {
        size_t n = MIN_OF(length, capacity - 1);
        if (n > 0)
            memcpy(buffer, bytes, n);
        buffer[n] = '\0';
    }
    return length;
}

// ---- order ---------------------------------------------------------------------------------------------------------

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_floats(double a, double b)
{
    bool a_is_nan = a != a, b_is_nan = b != b;
    return a_is_nan || b_is_nan ? a_is_nan - b_is_nan : COMPARE(a, b);
}

int compare_bytes(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t n = MIN_OF(a_length, b_length);
    int order = n > 0 ? memcmp(a, b, n) : 0;
    return order ? order : COMPARE(a_length, b_length);
}

int value_compare(const Value *a, const Value *b)
{
    switch ((TypeKind)a->type.kind) {
    case TYPE_REAL:
    case TYPE_DOUBLE:
        return compare_floats(a->f, b->f);
    case TYPE_TEXT:
    case TYPE_NULL:
        return compare_bytes(a->text.bytes, a->text.length, b->text.bytes, b->text.length);
    case TYPE_INTERVAL: {                                   // a month counts as 30 days, as in PostgreSQL
        i128 a_micros = interval_micros(a), b_micros = interval_micros(b);
        return COMPARE(a_micros, b_micros);
    }
    default:
        return COMPARE(a->i, b->i);
    }
}
