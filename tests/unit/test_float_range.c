// test_float_range.c - what is proved about float expressions holds for all values: computed, and looked up in the
// range.

#include "test.h"
#include "float_help.h"

#include "plan/expr_int.h"

typedef struct Sample {
    double     values[6];
    FloatRange range;
} Sample;

static Sample random_sample(void)
{
    Sample sample;
    FloatBits bits = float_bits_none();
    int low = (int)(random_bits() % 5) * 200 - 500, high = low + 1 + (int)(random_bits() % 60);
    double min = INFINITY, max = -INFINITY;
    for (int i = 0; i < 6; i++) {
        double value = random_float(low, high);
        value = random_bits() % 3 ? value : (double)(i64)(random_bits() % 2000) - 1000;
        value = random_bits() % 5 ? value : (double)(float)value;
        value = isinf(value) ? 0 : value;
        bits = float_bits_unite(bits, float_bits_of(value));
        min = fmin(min, value);
        max = fmax(max, value);
        sample.values[i] = value;
    }
    sample.range = float_range_of_bits(bits, true, min, max, false);
    return sample;
}

static bool holds(FloatRange range, double value)
{
    if (!isfinite(value))
        return range.has_special;
    FloatBits bits = float_bits_of(value);
    if (value < range.low || value > range.high)
        return false;
    return bits.least > bits.most ||
           (bits.unit >= range.unit && bits.least >= range.least && bits.most <= float_range_most(range));
}

static void check_holds(FloatRange range, double value, const char *what)
{
    if (!holds(range, value))
        CHECK_FAIL("%s gave %a, which is not in %a .. %a, unit %d, least %d", what, value, range.low, range.high,
                   range.unit, range.least);
}

TEST(ranges_of_floats_hold_what_is_computed)
{
    state = 1;
    for (int round = 0; round < 20000; round++) {
        const Sample a = random_sample(), b = random_sample();
        const Op op = (Op[]){ OP_ADD, OP_SUB, OP_MUL, OP_DIV }[round % 4];
        const bool is_real = random_bits() % 2;
        const FloatRange range = float_range_of_call(op, a.range, b.range, is_real),
                         either = float_range_unite(a.range, b.range);
        for (int i = 0; i < 36; i++) {
            const double x = a.values[i / 6], y = b.values[i % 6];
            double z = op == OP_ADD ? x + y : op == OP_SUB ? x - y : op == OP_MUL ? x * y : x / y;
            z = is_real ? (double)(float)z : z;
            check_holds(either, x, "x");
            check_holds(either, y, "y");
            check_holds(float_range_abs(a.range), fabs(x), "abs");
            check_holds(float_range_negate(a.range), -x, "-");
            check_holds(float_range_to_real(a.range), (double)(float)x, "real");
            if (isfinite(z))                                // else the kernel raises an error
                check_holds(range, z, "call");
            else if (op != OP_DIV || y != 0)
                CHECK(float_call_overflows(op, is_real ? TYPE(REAL) : TYPE(DOUBLE), a.range, b.range));
        }
    }
}

TEST(ranges_know_what_cannot_overflow)
{
    const FloatRange one = float_range_of_value(1), large = float_range_of_value(1e200),
                     infinity = float_range_of_value(INFINITY);
    CHECK(!float_call_overflows(OP_MUL, TYPE(DOUBLE), one, large));
    CHECK(float_call_overflows(OP_MUL, TYPE(DOUBLE), large, large));
    CHECK(!float_call_overflows(OP_ADD, TYPE(DOUBLE), large, large));
    CHECK(float_call_overflows(OP_ADD, TYPE(REAL), float_range_of_value(3e38), float_range_of_value(3e38)));
    CHECK(!float_call_overflows(OP_ADD, TYPE(DOUBLE), infinity, one));      // an infinity out of an infinity is none
    CHECK(float_call_overflows(OP_DIV, TYPE(DOUBLE), large, float_range_unite(float_range_of_value(-1e-200), one)));
    CHECK(float_call_overflows(OP_ADD, TYPE(DOUBLE), (FloatRange){ 0 }, one) == false);        // the largest double + 1
    CHECK(float_call_overflows(OP_MUL, TYPE(DOUBLE), (FloatRange){ 0 }, float_range_of_value(2)));
}

TEST(ranges_know_what_is_special)
{
    const FloatRange nan = float_range_of_value(NAN), infinity = float_range_of_value(INFINITY),
                     one = float_range_of_value(1);
    CHECK(nan.known && nan.has_special && infinity.has_special && !one.has_special);
    CHECK(float_range_unite(one, nan).has_special);
    const FloatRange zero = float_range_of_call(OP_DIV, one, infinity, false);
    CHECK(zero.has_special);
    check_holds(zero, 1 / (double)INFINITY, "1 / infinity");
    CHECK(float_range_to_real(float_range_of_value(1e300)).has_special);
    CHECK(!float_range_to_real(one).has_special);
    const FloatRange cents = float_range_of_exact(-12345, 99999, 2);
    for (int i = -12345; i <= 99999; i += 17)
        check_holds(cents, i / 100.0, "cents");
    check_holds(cents, 0.01, "cents");
    check_holds(float_range_of_exact(INT64_MIN, INT64_MAX, 0), (double)INT64_MAX, "bigint");
    check_holds((FloatRange){ .known = true,
                              .has_special = true,
                              .low = -0x1.fffffffffffffp1023,
                              .high = 0x1.fffffffffffffp1023,
                              .unit = float_range_any().unit,
                              .least = float_range_any().least },
                0x1p-1074, "any");
}
