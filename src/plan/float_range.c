// float_range.c - what statistics prove about a float expression: an interval, and which bits its values use.
//
//     |        least                 unit
//     v          v                     v
//     most ... 2^least ... . ... 2^unit        every value is a sum of powers of two between these
//
// An exact sum is an integer of multiples of 2^unit (weave/sink.c), so UNIT and the interval say how long it can get.
// LEAST is
// carried because rounding keeps 53 bits from the highest one on: a product of numbers that are not small is a multiple
// of
// something that is not small, whatever its factors' units.  Rounding to nearest is monotone, so an interval's ends,
// computed
// as the kernel computes values, bound the rounded results, with no allowance for error.
//
// Where finite operands give an infinity the kernel raises an error, so results are special (NaN, an infinity) only
// where operands
// are; casts to real are the exception.

#include "plan/expr_int.h"

#include <float.h>
#include <math.h>

#define UNIT_MIN  (-1074)              // of the smallest subnormal
#define REAL_UNIT_MIN (-149)            // the same of reals
#define DIGITS    53

FloatRange float_range_any(void)
{
    return (FloatRange){ .has_special = true, .low = -DBL_MAX, .high = DBL_MAX, .unit = UNIT_MIN, .least = UNIT_MIN };
}

FloatRange float_range_none(void)
{
    return (FloatRange){ .known = true, .low = INFINITY, .high = -INFINITY };
}

static bool is_none(FloatRange a) { return a.low > a.high; }

// What is not known is everything.
static FloatRange spelled_out(FloatRange a) { return a.known ? a : float_range_any(); }

int float_range_most(FloatRange range)
{
    range = spelled_out(range);
    const double most = is_none(range) ? 0 : fmax(fabs(range.low), fabs(range.high));
    return most == 0 ? range.unit : ilogb(most);
}

// What is known twice is known better.
static FloatRange settled(FloatRange range)
{
    if (is_none(range)) range.low = INFINITY, range.high = -INFINITY, range.unit = range.least = 0;
    range.known = true;
    if (isinf(range.low) || isinf(range.high)) {
        if (is_none(range)) return range;
        range.low = fmax(range.low, -DBL_MAX), range.high = fmin(range.high, DBL_MAX);
    }
    const double nearest = range.low > 0 ? range.low : range.high < 0 ? -range.high : 0;
    if (nearest > 0) range.least = MAX_OF(range.least, ilogb(nearest));
    range.unit = MAX_OF(range.unit, MAX_OF(range.least - (DIGITS - 1), UNIT_MIN));
    range.least = MAX_OF(range.least, range.unit);
    return range;
}

FloatRange float_range_of_bits(FloatBits bits, bool has_range, double low, double high, bool has_nan)
{
    if (!has_range) return (FloatRange){ .known = true, .has_special = has_nan, .low = INFINITY, .high = -INFINITY };
    FloatRange range = { .has_special = has_nan || isinf(low) || isinf(high),
                         .low = low,
                         .high = high,
                         .unit = UNIT_MIN,
                         .least = UNIT_MIN };
    if (!bits.is_known) return settled(range);
    const bool   has_bits = bits.least <= bits.most;
    const double bound = !has_bits ? 0 : bits.most >= 1023 ? DBL_MAX : ldexp(1, bits.most + 1);
    if (isinf(low)) range.low = -bound;
    if (isinf(high)) range.high = bound;
    range.unit = has_bits ? bits.unit : 0, range.least = has_bits ? bits.least : 0;
    return settled(range);
}

FloatRange float_range_of_value(double value)
{
    return float_range_of_bits(float_bits_of(value), !isnan(value), value, value, isnan(value));
}

// Numbers LOW to HIGH, as doubles, divided by 10^SCALE.
FloatRange float_range_of_exact(i128 low, i128 high, int scale)
{
    if (low > high) return float_range_none();
    const double power = (double)power_of_ten(scale);
    FloatRange   range = { .low = (double)low / power, .high = (double)high / power, .unit = UNIT_MIN };
    if (scale == 0) range.unit = range.least = 0;
    else range.least = ilogb(1 / power);                                       // of 1, which no other number is below
    return settled(range);
}

FloatRange float_range_unite(FloatRange a, FloatRange b)
{
    a = spelled_out(a), b = spelled_out(b);
    const bool has_special = a.has_special || b.has_special;
    FloatRange range = is_none(a) ? b : a;
    if (!is_none(a) && !is_none(b))
        range = (FloatRange){ .low = fmin(a.low, b.low),
                              .high = fmax(a.high, b.high),
                              .unit = MIN_OF(a.unit, b.unit),
                              .least = MIN_OF(a.least, b.least) };
    range.has_special = has_special;
    return settled(range);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

static double computed(Op op, double a, double b, bool is_real)
{
    const double exact = op == OP_ADD ? a + b : op == OP_SUB ? a - b : op == OP_MUL ? a * b : a / b;
    return is_real ? (double)(float)exact : exact;
}

// From the corners.  0 * infinity cannot happen, as ends are finite; ends that overflow are clipped by settled.
static FloatRange corners(Op op, FloatRange a, FloatRange b, bool is_real)
{
    const double ends[4] = { computed(op, a.low, b.low, is_real), computed(op, a.low, b.high, is_real),
                             computed(op, a.high, b.low, is_real), computed(op, a.high, b.high, is_real) };
    FloatRange   range = { .low = ends[0], .high = ends[0], .unit = UNIT_MIN, .least = UNIT_MIN };
    for (int i = 1; i < 4; i++) range.low = fmin(range.low, ends[i]), range.high = fmax(range.high, ends[i]);
    return range;
}

// Division by zero is an error, so a divisor is at least 2^least away from it.
static FloatRange quotient(FloatRange a, FloatRange b, bool is_real)
{
    FloatRange range;
    if (b.low > 0 || b.high < 0) {
        range = corners(OP_DIV, a, b, is_real);
    } else {
        const double most = computed(OP_DIV, fmax(fabs(a.low), fabs(a.high)), ldexp(1, b.least), is_real);
        range = (FloatRange){ .low = -most, .high = most };
    }
    if (b.has_special) range.low = fmin(range.low, 0), range.high = fmax(range.high, 0);          // x / infinity
    range.least = a.least - float_range_most(b) - 1;
    range.unit = UNIT_MIN;
    return range;
}

bool float_call_overflows(Op op, Type type, FloatRange a, FloatRange b)
{
    a = spelled_out(a), b = spelled_out(b);
    if (is_none(a) || is_none(b)) return false;
    const bool       is_real = type.kind == TYPE_REAL;
    const FloatRange range = op == OP_DIV ? quotient(a, b, is_real) : corners(op, a, b, is_real);
    return isinf(range.low) || isinf(range.high);
}

static bool rounds_to_zero(int least, Type type) { return least < (type.kind == TYPE_REAL ? REAL_UNIT_MIN : UNIT_MIN); }

bool float_call_underflows(Op op, Type type, FloatRange a, FloatRange b)
{
    a = spelled_out(a), b = spelled_out(b);
    if ((op != OP_MUL && op != OP_DIV) || is_none(a) || is_none(b)) return false;
    return rounds_to_zero(op == OP_MUL ? a.least + b.least : a.least - float_range_most(b) - 1, type);
}

bool float_cast_overflows(FloatRange a, Type to)
{
    a = spelled_out(a);
    return to.kind == TYPE_REAL && !is_none(a) && (isinf((float)a.low) || isinf((float)a.high));
}

bool float_cast_underflows(FloatRange a, Type to)
{
    a = spelled_out(a);
    return to.kind == TYPE_REAL && !is_none(a) && rounds_to_zero(a.least, to);
}

FloatRange float_range_of_call(Op op, FloatRange a, FloatRange b, bool is_real)
{
    FloatRange range;
    a = spelled_out(a), b = spelled_out(b);
    const bool has_special = a.has_special || b.has_special;
    if (is_none(a) || is_none(b)) {  // but NaN and infinities can give anything: 1 / infinity is 0
        range = has_special ? (FloatRange){ .low = 0, .high = 0 } : float_range_none();
        range.has_special = has_special;
        return settled(range);
    }
    switch (op) {
        case OP_ADD: case OP_SUB:
            range = corners(op, a, b, is_real);
            range.unit = range.least = MIN_OF(a.unit, b.unit);  // whatever cancels, these bits are the last
            break;
        case OP_MUL:
            range = corners(op, a, b, is_real);
            range.unit = a.unit + b.unit, range.least = a.least + b.least;
            break;
        case OP_DIV: range = quotient(a, b, is_real); break;
        default: return float_range_any();
    }
    range.has_special = has_special;
    range.least = MAX_OF(range.least, UNIT_MIN);
    return settled(range);
}

FloatRange float_range_negate(FloatRange a)
{
    const double low = a.low;
    a.low = -a.high, a.high = -low;
    return a;
}

FloatRange float_range_abs(FloatRange a)
{
    a = spelled_out(a);
    if (is_none(a) || a.low >= 0) return a;
    if (a.high <= 0) return float_range_negate(a);
    a.high = fmax(-a.low, a.high), a.low = 0;
    return a;
}

// At most half of the last place of the rounded product, and a multiple of what x * y is one of.
FloatRange float_range_of_product_low(FloatRange a, FloatRange b)
{
    a = spelled_out(a), b = spelled_out(b);
    if (is_none(a)) return a;
    if (is_none(b)) return b;
    const int  most = float_range_most(a) + float_range_most(b) + 1, unit = MAX_OF(a.unit + b.unit, UNIT_MIN);
    const bool is_exact = most - unit < DIGITS;
    const double bound = is_exact ? 0 : ldexp(1, MAX_OF(most - DIGITS, UNIT_MIN));
    FloatRange range = { .has_special = a.has_special || b.has_special,
                         .low = -bound, .high = bound, .unit = unit, .least = unit };
    return settled(range);
}

// A double beyond the reals becomes an infinity.
FloatRange float_range_to_real(FloatRange a)
{
    a = spelled_out(a);
    if (is_none(a)) return a;
    a.low = (double)(float)a.low, a.high = (double)(float)a.high;
    a.has_special |= isinf(a.low) || isinf(a.high);
    a.low = fmax(a.low, -FLT_MAX), a.high = fmin(a.high, FLT_MAX);
    return settled(a);
}

// What NaN and the infinities give may be finite: exp(-infinity) is 0.
static FloatRange with_specials(FloatRange range, double (*f)(double x, double y, double r))
{
    const double specials[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < COUNT_OF(specials); i++) {
        const double value = f(specials[i], 0, 0);
        if (isfinite(value)) range.low = fmin(range.low, value), range.high = fmax(range.high, value);
    }
    return range;
}

// The values at the ends, the lower one at 0 or just above it where F has none below.
FloatRange float_range_of_rising(FloatRange a, double (*f)(double x, double y, double r), Rising rising)
{
    const double slack = rising == RISING_SMOOTH ? 0x1p-50 : 0;
    a = spelled_out(a);
    FloatRange range = float_range_none();
    if (!is_none(a)) {
        const double least = ldexp(1, a.least), low = isnan(f(a.low, 0, 0)) ? 0 : a.low;
        range.low = f(isinf(f(low, 0, 0)) && low == 0 ? least : low, 0, 0);
        range.high = f(a.high, 0, 0);
        if (isnan(range.high)) range = float_range_none();             // every value fails
        else range.low -= fabs(range.low) * slack, range.high += fabs(range.high) * slack;
    }
    if (a.has_special) range = with_specials(range, f);
    range.has_special = a.has_special;
    range.unit = range.least = rising == RISING_WHOLE || is_none(range) ? 0 : UNIT_MIN;
    if (rising == RISING_ROOT && !is_none(a)) range.least = ilogb(f(ldexp(1, a.least), 0, 0));
    return settled(range);
}
