// functions_hidden.c - functions without a name in SQL, which aggregates are built with.

#include "plan/functions.h"

#include "plan/expr_int.h"

#include <float.h>
#include <math.h>

#define FINITE(x) ((x) - (x) == 0)

static bool give_double(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DOUBLE);
    return true;
}

static bool give_bigint(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BIGINT);
    return true;
}

// ---- numbers of 106 bits: high + low, low being at most half of high's last place -----------------------------------

typedef struct Pair { double high, low; } Pair;

static Pair pair_sum(double a, double b)                    // exact
{
    const double sum = a + b, part = sum - a;
    return (Pair){ sum, (a - (sum - part)) + (b - part) };
}

static Pair pair_product(double a, double b)                // exact
{
    const double product = a * b;
    return (Pair){ product, fma(a, b, -product) };
}

static Pair pair_add(Pair a, Pair b)
{
    const Pair high = pair_sum(a.high, b.high), low = pair_sum(a.low, b.low);
    const Pair most = pair_sum(high.high, high.low + low.high);
    return pair_sum(most.high, most.low + low.low);
}

static Pair pair_times(Pair a, Pair b)
{
    const Pair product = pair_product(a.high, b.high);
    return pair_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static Pair pair_minus(Pair a) { return (Pair){ -a.high, -a.low }; }

static Pair pair_divided(Pair a, Pair b)
{
    const double first = a.high / b.high;
    const Pair   rest = pair_add(a, pair_minus(pair_times((Pair){ first, 0 }, b)));
    const double second = rest.high / b.high;
    const Pair   last = pair_add(rest, pair_minus(pair_times((Pair){ second, 0 }, b)));
    return pair_add(pair_sum(first, second), (Pair){ last.high / b.high, 0 });
}

// ---- whole numbers of 256 bits --------------------------------------------------------------------------------------

typedef struct Wide { u64 words[4]; } Wide;                 // two's complement, the lowest first

static Wide wide_add(Wide a, Wide b)
{
    u128 carry = 0;
    for (int i = 0; i < 4; i++) {
        carry += (u128)a.words[i] + b.words[i];
        a.words[i] = (u64)carry;
        carry >>= 64;
    }
    return a;
}

static Wide wide_minus(Wide a)
{
    for (int i = 0; i < 4; i++) a.words[i] = ~a.words[i];
    return wide_add(a, (Wide){ { 1 } });
}

static Wide wide_of(i128 number)
{
    const u64 sign = number < 0 ? UINT64_MAX : 0;
    return (Wide){ { (u64)number, (u64)(number >> 64), sign, sign } };
}

static Wide wide_shifted(Wide a, int bits)                  // to the left, by 1 to 64
{
    for (int i = 3; i >= 0; i--) {
        const u64 below = i ? a.words[i - 1] : 0;
        a.words[i] = bits == 64 ? below : a.words[i] << bits | below >> (64 - bits);
    }
    return a;
}

static Wide wide_times(Wide a, u64 factor)                  // A is not negative
{
    u128 carry = 0;
    for (int i = 0; i < 4; i++) {
        carry += (u128)a.words[i] * factor;
        a.words[i] = (u64)carry;
        carry >>= 64;
    }
    return a;
}

static Wide wide_square(i128 number)
{
    const u128 size = number < 0 ? -(u128)number : (u128)number;
    const Wide low = wide_times((Wide){ { (u64)size, (u64)(size >> 64) } }, (u64)size);
    const Wide high = wide_times((Wide){ { (u64)size, (u64)(size >> 64) } }, (u64)(size >> 64));
    return wide_add(low, wide_shifted(high, 64));
}

// Good to 2^-52: what three words and more below leave out is less than the last of 64 bits.
static double wide_to_double(Wide a)                        // not negative
{
    double number = 0;
    for (int i = 3; i >= 0; i--) number = number * 0x1p64 + (double)a.words[i];
    return number;
}

// ---- sums of squares around the mean --------------------------------------------------------------------------------

// (n * squares - sum^2) / n.  All of it fits: sums are of fewer than 2^63 numbers of 64 bits.
static double whole_around_mean(i128 n, i128 sum, Wide squares)
{
    const Wide around = wide_add(wide_times(squares, (u64)n), wide_minus(wide_square(sum)));
    return wide_to_double(around) / (double)n;
}

// squares - sum^2 / n.  Values that are all equal leave what the last bits of 106 hold, which is nothing.
static double float_around_mean(double n, Pair sum, Pair squares)
{
    if (!FINITE(sum.high) || !FINITE(squares.high)) return NAN;
    const Pair around = pair_add(squares, pair_minus(pair_divided(pair_times(sum, sum), (Pair){ n, 0 })));
    return n == 1 || around.high < squares.high * 0x1p-98 ? 0 : around.high + around.low;
}

static weft_status eval_squares(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double unit = (double)ten_to(call->args[2]->type.scale);
    value->f = whole_around_mean(args[0].i, args[1].i, wide_of(args[2].i)) / unit;
    return WEFT_OK;
}

// (h * 2^32 + l)^2 = h * h * 2^64 + h * l * 2^33 + l * l
static weft_status eval_long_squares(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double unit = (double)ten_to(call->args[1]->type.scale);
    const Wide   high = wide_shifted(wide_of(args[2].i), 64), middle = wide_shifted(wide_of(args[3].i), 33);
    const Wide   squares = wide_add(wide_add(high, middle), wide_of(args[4].i));
    value->f = whole_around_mean(args[0].i, args[1].i, squares) / unit / unit;
    return WEFT_OK;
}

// A count above 2^53 is a number of rows that nobody has.
static weft_status eval_float_squares(const Expr *call, const Value *args, Value *value, Error *err)
{
    const Pair sum = pair_sum(args[1].f, args[2].f), squares = pair_sum(args[3].f, args[4].f);
    const Pair low = { call->n_args > 5 ? args[5].f : 0, 0 };
    value->f = float_around_mean((double)args[0].i, sum, pair_add(squares, low));
    return WEFT_OK;
}

// ---- products around the means --------------------------------------------------------------------------------------

// products - sum of x * sum of y / n, and 0 where that is no more than the last bits of 106 hold.
static double products_around_means(double n, Pair x, Pair y, Pair products)
{
    if (!FINITE(x.high) || !FINITE(y.high) || !FINITE(products.high)) return NAN;
    const Pair   means = pair_divided(pair_times(x, y), (Pair){ n, 0 });
    const Pair   around = pair_add(products, pair_minus(means));
    const double size = fmax(fabs(products.high), fabs(means.high));
    return n == 1 || fabs(around.high) < size * 0x1p-98 ? 0 : around.high + around.low;
}

// n, then x, y and x * y, each as its sum and what rounding that took away; last what rounding took from x * y.
static weft_status eval_products(const Expr *call, const Value *args, Value *value, Error *err)
{
    const Pair x = pair_sum(args[1].f, args[2].f), y = pair_sum(args[3].f, args[4].f);
    const Pair low = { call->n_args > 7 ? args[7].f : 0, 0 };
    const Pair products = pair_add(pair_sum(args[5].f, args[6].f), low);
    value->f = products_around_means((double)args[0].i, x, y, products);
    return WEFT_OK;
}

// ---- what corr and regr_... make of these sums: sxx and syy of squares, sxy of products -----------------------------

static weft_status give_or_null(bool is_null, double number, Value *value)
{
    value->is_null = is_null;
    if (!is_null) value->f = number;
    return WEFT_OK;
}

// sxx * syy may leave the doubles where the result does not.
static weft_status eval_correlation(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double sxx = args[0].f, syy = args[1].f, sxy = args[2].f, product = sxx * syy;
    const bool   is_whole = FINITE(product) && product > DBL_MIN;
    return give_or_null(sxx == 0 || syy == 0, sxy / (is_whole ? sqrt(product) : sqrt(sxx) * sqrt(syy)), value);
}

static weft_status eval_determination(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double sxx = args[0].f, syy = args[1].f, sxy = args[2].f, product = sxx * syy, square = sxy * sxy;
    const bool   is_whole = FINITE(product) && product > DBL_MIN && FINITE(square) && square > DBL_MIN;
    return give_or_null(sxx == 0, syy == 0 ? 1 : is_whole ? square / product : (sxy / sxx) * (sxy / syy), value);
}

static weft_status eval_slope(const Expr *call, const Value *args, Value *value, Error *err)
{
    return give_or_null(args[0].f == 0, args[1].f / args[0].f, value);
}

// sxx, sxy, n, and the sums of x and y
static weft_status eval_intercept(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double slope = args[1].f / args[0].f, n = (double)args[2].i;
    return give_or_null(args[0].f == 0, (args[4].f - args[3].f * slope) / n, value);
}

// ---- parts of squares -----------------------------------------------------------------------------------------------

// The nearest multiple of 2^32, and what is left, from -2^31 on.
FORMULA_WHOLE(high_half, (x >> 32) + ((x & 4294967295ll) >= 2147483648ll))
FORMULA_WHOLE(low_half, (x & 4294967295ll) - ((x & 4294967295ll) >= 2147483648ll) * 4294967296ll)

static Range range_of_low_half(const Function *function, const Expr *call, const Range *args)
{
    const i128 half = (i128)1 << 31;
    Range      range = { .known = true, .low = -half, .high = half - 1 };
    const bool is_whole = args[0].known && args[0].low >= -half && args[0].high < half;
    if (is_whole) range.low = args[0].low, range.high = args[0].high;
    return range;
}

FORMULA_F64(square, x * x)
FORMULA_F64(product, x * y)
FORMULA_F64(product_overflows, !FINITE(r) && FINITE(x) && FINITE(y))
FORMULA_F64(overflows, !FINITE(r) && FINITE(x))

// x * x - square(x), exact (Dekker): c = 134217729 * x; h = c - (c - x), the upper 26 bits of x; l = x - h, the others.
// ((h * h - x * x) + 2 * h * l) + l * l
FORMULA_F64(square_low,
            (((134217729 * x - (134217729 * x - x)) * (134217729 * x - (134217729 * x - x)) - x * x) +
             2 * (134217729 * x - (134217729 * x - x)) * (x - (134217729 * x - (134217729 * x - x)))) +
                (x - (134217729 * x - (134217729 * x - x))) * (x - (134217729 * x - (134217729 * x - x))))

// x * y - product(x, y): the same with the upper and lower bits of both; 0 of numbers so large that a part of it would
// leave the doubles.
// ((hx * hy - x * y) + hx * ly + lx * hy) + lx * ly
FORMULA_F64(product_low,
            x * y > 1e300 || x * y < -1e300 || x > 1e290 || x < -1e290 || y > 1e290 || y < -1e290 ? 0 :
            (((134217729 * x - (134217729 * x - x)) * (134217729 * y - (134217729 * y - y)) - x * y) +
             (134217729 * x - (134217729 * x - x)) * (y - (134217729 * y - (134217729 * y - y))) +
             (x - (134217729 * x - (134217729 * x - x))) * (134217729 * y - (134217729 * y - y))) +
                (x - (134217729 * x - (134217729 * x - x))) * (y - (134217729 * y - (134217729 * y - y))))

static bool product_can_overflow(const Range *args)
{
    return !args[0].f.known || !args[1].f.known ||
           float_range_most(args[0].f) + float_range_most(args[1].f) > 1020;
}

static Range range_of_product(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .f = float_range_of_call(OP_MUL, args[0].f, args[1].f, false) };
}

static Range range_of_product_low(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .f = float_range_of_product_low(args[0].f, args[1].f) };
}

static bool can_overflow(const Range *args) { return !args[0].f.known || float_range_most(args[0].f) > 510; }

static Range range_of_square(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .f = float_range_of_call(OP_MUL, float_range_abs(args[0].f), float_range_abs(args[0].f), false) };
}

static Range range_of_square_low(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .f = float_range_of_product_low(args[0].f, args[0].f) };
}

// ---- uuids ----------------------------------------------------------------------------------------------------------

static bool give_uuid(Expr *const *args, Type *types, Type *result)
{
    *result = (Type){ TYPE_TEXT, 255, 255 };
    return true;
}

// Of version 4 and variant 1 (RFC 4122).
static weft_status eval_uuid(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)
{
    const u64 high = ((u64)args[0].i & ~(u64)0xf000) | 0x4000, low = ((u64)args[1].i << 2 >> 2) | (u64)1 << 63;
    value->text.bytes = arena_printf(arena, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long)(high >> 32),
                                     (unsigned long long)(high >> 16 & 0xffff), (unsigned long long)(high & 0xffff),
                                     (unsigned long long)(low >> 48), (unsigned long long)(low & 0xffffffffffff));
    value->text.length = 36;
    return WEFT_OK;
}

// ---- subqueries in branches -----------------------------------------------------------------------------------------

// How many rows a subquery has, where its value is asked for (sql/bind_subquery.c).
FORMULA_WHOLE(row_count, x)
FORMULA_WHOLE(has_more_rows, r > 1)

static const Function functions[] = {
    { .names = { "one_row" }, .is_hidden = true, .n_args = 1, .args = { ARG_BIGINT }, .types = give_bigint,
      .formula = &row_count,
      .checks = { { &has_more_rows, WEFT_CARDINALITY,
                    "more than one row returned by a subquery used as an expression", NULL } } },
    { .names = { "uuid_of_bits" }, .is_hidden = true, .n_args = 2, .args = { ARG_BIGINT, ARG_BIGINT },
      .types = give_uuid, .eval_in = eval_uuid },
    { .names = { "squares" }, .is_hidden = true, .n_args = 3, .args = { ARG_BIGINT, ARG_EXACT, ARG_EXACT },
      .types = give_double, .eval = eval_squares },
    { .names = { "long_squares" }, .is_hidden = true, .n_args = 5,
      .args = { ARG_BIGINT, ARG_EXACT, ARG_EXACT, ARG_EXACT, ARG_EXACT }, .types = give_double,
      .eval = eval_long_squares },
    { .names = { "real_squares" }, .is_hidden = true, .n_args = 5,
      .args = { ARG_BIGINT, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .eval = eval_float_squares },
    { .names = { "double_squares" }, .is_hidden = true, .n_args = 6,
      .args = { ARG_BIGINT, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .eval = eval_float_squares },
    { .names = { "high_half" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &high_half, .range = range_of_whole },
    { .names = { "low_half" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &low_half, .range = range_of_low_half },
    { .names = { "square" }, .is_hidden = true, .n_args = 1, .args = { ARG_DOUBLE }, .types = give_double,
      .formula = &square, .range = range_of_square,
      .checks = { { &overflows, WEFT_OUT_OF_RANGE, "value out of range: overflow", can_overflow } } },
    { .names = { "square_low" }, .is_hidden = true, .n_args = 1, .args = { ARG_DOUBLE }, .types = give_double,
      .formula = &square_low, .range = range_of_square_low },
    { .names = { "product" }, .is_hidden = true, .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .formula = &product, .range = range_of_product,
      .checks = { { &product_overflows, WEFT_OUT_OF_RANGE, "value out of range: overflow", product_can_overflow } } },
    { .names = { "product_low" }, .is_hidden = true, .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .formula = &product_low, .range = range_of_product_low },
    { .names = { "real_products" }, .is_hidden = true, .n_args = 7,
      .args = { ARG_BIGINT, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .eval = eval_products },
    { .names = { "double_products" }, .is_hidden = true, .n_args = 8,
      .args = { ARG_BIGINT, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .eval = eval_products },
    { .names = { "correlation" }, .is_hidden = true, .n_args = 3, .args = { ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .eval = eval_correlation, .may_be_null = true },
    { .names = { "determination" }, .is_hidden = true, .n_args = 3, .args = { ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .eval = eval_determination, .may_be_null = true },
    { .names = { "slope" }, .is_hidden = true, .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .eval = eval_slope, .may_be_null = true },
    { .names = { "intercept" }, .is_hidden = true, .n_args = 5,
      .args = { ARG_DOUBLE, ARG_DOUBLE, ARG_BIGINT, ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .eval = eval_intercept, .may_be_null = true },
};

extern const FunctionFamily functions_hidden;
const FunctionFamily functions_hidden = { NULL, functions, COUNT_OF(functions) };
