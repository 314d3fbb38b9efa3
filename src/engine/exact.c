// exact.c - the end of an exact sum: from its parts to the nearest double; averages of exact numbers.
//
//     parts, overlapping, signed  ->  one two's complement number  ->  sign and magnitude  ->  / divisor  ->  53 bits
//     and a rest
//
// The only rounding is the last step, and it sees all bits: those that are cut off decide by the first of them (half or
// not) and by
// whether any of the others, or the remainder of the division, is other than 0.

#include "engine/exact.h"

#include <math.h>

enum {
    SPARE_WORDS = 2,  // below the number, for the digits of a quotient: a divisor takes at most one word from the top
    WORDS = EXACT_BITS / 64 + 2 + SPARE_WORDS,
    UNIT_MIN = -1074,  // of the smallest subnormal
    DIGITS = 53
};

typedef struct Number {                // little-endian words times 2^unit
    u64  words[WORDS];
    int  n_words, unit;
    bool is_negative, has_more;        // more: something other than 0 below the last word
} Number;

static void add_part(Number *number, i64 part, int bit)
{
    const u128 shifted = (u128)(i128)part << (bit % 64);                       // 63 bits and a sign, by at most 63
    const u64  sign = part < 0 ? UINT64_MAX : 0;
    bool       carry = false;
    for (int i = bit / 64, n = 0; i < number->n_words; i++, n++) {
        const u64  more = n == 0 ? (u64)shifted : n == 1 ? (u64)(shifted >> 64) : sign;
        const u128 sum = (u128)number->words[i] + more + carry;
        number->words[i] = (u64)sum;
        carry = sum >> 64 != 0;
    }
}

static void take_sign(Number *number)
{
    number->is_negative = number->words[number->n_words - 1] >> 63;
    bool carry = number->is_negative;
    for (int i = 0; number->is_negative && i < number->n_words; i++) {
        number->words[i] = ~number->words[i] + carry;
        carry = carry && number->words[i] == 0;
    }
}

static void divide(Number *number, u64 divisor)
{
    u64 rest = 0;
    for (int i = number->n_words - 1; i >= 0; i--) {
        const u128 above = (u128)rest << 64 | number->words[i];
        number->words[i] = (u64)(above / divisor);
        rest = (u64)(above % divisor);
    }
    number->has_more = rest != 0;
}

static int top_bit(const Number *number)
{
    for (int i = number->n_words - 1; i >= 0; i--)
        if (number->words[i]) return 64 * i + 63 - __builtin_clzll(number->words[i]);
    return -1;
}

static u64 word_from(const Number *number, int bit)
{
    const int i = bit / 64, shift = bit % 64;
    const u64 low = i < number->n_words ? number->words[i] : 0,
              high = i + 1 < number->n_words ? number->words[i + 1] : 0;
    return shift ? low >> shift | high << (64 - shift) : low;
}

static bool any_below(const Number *number, int bit)
{
    for (int i = 0; i < bit / 64; i++)
        if (number->words[i]) return true;
    return bit % 64 && number->words[bit / 64] << (64 - bit % 64);
}

static double nearest(const Number *number)
{
    const int top = top_bit(number);
    const int last = MAX_OF(MAX_OF(top - (DIGITS - 1), UNIT_MIN - number->unit), 0);  // the last bit that is kept
    u64       digits = top < last ? 0 : word_from(number, last) & (((u64)1 << DIGITS) - 1);
    if (last > 0) {
        const bool is_half = word_from(number, last - 1) & 1, is_more = number->has_more || any_below(number, last - 1);
        digits += is_half && (is_more || (digits & 1));
    }
    return ldexp((double)digits, number->unit + last);
}

static void add_parts(Number *number, const i64 *parts, int n_parts, int digits, int first_bit)
{
    for (int i = 0; i < n_parts; i++) add_part(number, parts[i], first_bit + i * digits);
}

static double signed_nearest(Number *number, u64 divisor)
{
    take_sign(number);
    if (divisor > 1) divide(number, divisor);
    const double magnitude = nearest(number);
    return number->is_negative ? -magnitude : magnitude;
}

double exact_round(const i64 *parts, int n_parts, int digits, int unit, u64 divisor)
{
    const int spare = divisor > 1 ? SPARE_WORDS : 0;
    Number    number = { .n_words = (n_parts * digits + 63) / 64 + 2 + spare, .unit = unit - 64 * spare };
    add_parts(&number, parts, n_parts, digits, 64 * spare);
    return signed_nearest(&number, divisor);
}

// The rounded sum is a multiple of 2^unit, too: its last bit is one that the sum has, or a higher one.
double exact_rest(const i64 *parts, int n_parts, int digits, int unit)
{
    const double rounded = exact_round(parts, n_parts, digits, unit, 1);
    Number       number = { .n_words = (n_parts * digits + 63) / 64 + 2, .unit = unit };
    int          exponent;
    if (rounded == 0 || isinf(rounded)) return 0;
    const i64 mantissa = (i64)ldexp(frexp(rounded, &exponent), DIGITS);
    const int bit = exponent - DIGITS - unit;               // of the mantissa's last one
    add_parts(&number, parts, n_parts, digits, 0);
    if (bit >= 0) add_part(&number, -mantissa, bit);
    else add_part(&number, -(mantissa >> -bit), 0);         // what is cut off is 0
    return signed_nearest(&number, 1);
}

// ---- averages -------------------------------------------------------------------------------------------------------

bool exact_average(Value *value, Type arg, i64 count)
{
    const int scale = arg.kind == TYPE_DECIMAL || arg.kind == TYPE_NUMERIC ? arg.scale : 0;
    i64       high, low;
    int       shown;
    if (!wide_quotient((i64)(value->i >> 64), (i64)value->i, scale, type_is_quotient(arg) ? -1 : scale, 0, count, 0, 0,
                       value->type.scale, &high, &low, &shown))
        return false;
    value->i = (i128)((u128)(u64)high << 64 | (u64)low);
    value->shown = (u8)(shown + 1);
    return true;
}
