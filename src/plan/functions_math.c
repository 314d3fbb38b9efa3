// functions_math.c - functions of numbers, with PostgreSQL's meaning and errors.
//
// Integers become doubles where PostgreSQL makes them doubles (floor, sign, sqrt).  Decimals stay exact where the
// result is: floor, round and their kind are whole divisions of the stored number by a power of ten.  Roots, logarithms
// and powers of decimals are doubles: here Weft differs from PostgreSQL, which computes them with decimal digits.

#include "plan/functions.h"

#include "plan/expr_int.h"

#include <math.h>

// The words of kernels, as the interpreter computes them.
#define SQRT_F64(x)     math_sqrt(x)
#define EXP_F64(x)      math_exp(x)
#define LN_F64(x)       math_ln(x)
#define LOG10_F64(x)    math_log10(x)
#define POWER_F64(x, y) math_power(x, y)
#define FLOOR_F64(x)    math_floor(x)
#define CEIL_F64(x)     math_ceil(x)
#define NEAREST_F64(x)  math_round(x)
#define TRUNC_F64(x)    math_trunc(x)
#define FINITE(x)       ((x) - (x) == 0)

// ---- types ----------------------------------------------------------------------------------------------------------

static Type decimal_like(Type type, int whole_digits, int scale)
{
    if (type.kind == TYPE_BIGINT) return type;              // its digits fill a decimal; kernels have no more
    if (type.kind == TYPE_NUMERIC) return (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, (u8)scale };
    return (Type){ TYPE_DECIMAL, (u8)MAX_OF(1, MIN_OF(whole_digits + scale, DECIMAL_DIGITS)), (u8)scale };
}

static int whole_digits(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: return 5;
        case TYPE_INTEGER:  return 10;
        case TYPE_BIGINT:   return 19;
        default:            return type.precision - type.scale;
    }
}

static bool give_whole(Expr *const *args, Type *types, Type *result)           // a carry may add a digit
{
    *result = decimal_like(types[0], whole_digits(types[0]) + 1, 0);
    return true;
}

static bool give_sign(Expr *const *args, Type *types, Type *result)
{
    *result = decimal_like(types[0], 1, 0);
    return true;
}

static i64 digits_of(const Expr *arg)
{
    return arg->kind != EXPR_CONST || arg->value.is_null ? 0 : (i64)MAX_OF(MIN_OF(arg->value.i, 100), -100);
}

// The first N digits after the point: as many as the type has room for.
static bool give_digits(Type *types, i64 n, Type *result)
{
    const int whole = whole_digits(types[0]), scale = types[0].scale;
    const int most = types[0].kind == TYPE_NUMERIC ? DECIMAL_DIGITS : DECIMAL_DIGITS - whole;
    const int kept = (int)MAX_OF(0, n > scale ? MIN_OF(n, MAX_OF(most, scale)) : n);
    *result = decimal_like(types[0], whole + (n < scale), kept);
    if (type_is_integer(types[0])) types[0] = decimal_like(types[0], whole, 0);
    return true;
}

// A cast rounds as round(x, n) does.
static bool give_rounded(Expr *const *args, Type *types, Type *result)
{
    return digits_of(args[1]) >= 0 && give_digits(types, digits_of(args[1]), result);
}

static bool give_rounded_to_whole(Expr *const *args, Type *types, Type *result)
{
    return give_digits(types, 0, result);
}

// A float becomes a decimal by its first 15 digits, as PostgreSQL makes a numeric of it.  There round(x, n) takes only
// numerics; but avg and / give them there, where they give doubles here.
static bool give_rounded_float(Expr *const *args, Type *types, Type *result)
{
    const i64 n = digits_of(args[1]);
    if (n < 0) return false;
    *result = (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, (u8)MIN_OF(n, NUMERIC_DIGITS) };
    return true;
}

static bool give_truncated_cast(Expr *const *args, Type *types, Type *result)
{
    return digits_of(args[1]) >= types[0].scale && give_digits(types, digits_of(args[1]), result);
}

// 9 * 10^18 rounds to 10^19, which no bigint is.
static bool give_rounded_cut(Expr *const *args, Type *types, Type *result)
{
    if (types[0].kind == TYPE_BIGINT && digits_of(args[1]) == -DECIMAL_DIGITS - 1) return false;
    return give_digits(types, digits_of(args[1]), result);
}

static bool give_cut(Expr *const *args, Type *types, Type *result)
{
    return give_digits(types, digits_of(args[1]), result);
}

static bool give_double(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DOUBLE);
    return true;
}

// ---- constants of formulas ------------------------------------------------------------------------------------------

static i128 one_of_scale(const Expr *call)
{
    return ten_to(call->args[0]->type.scale);
}

// What is cut to N digits is divided by K and then multiplied by M.  Of a decimal, which has 18 digits, nothing is left
// by more than that.
static i128 cut_unit(const Expr *call)
{
    const Type type = call->args[0]->type;
    const i64  shift = type.scale - digits_of(call->args[1]);
    return ten_to((int)MAX_OF(0, MIN_OF(shift, type.kind == TYPE_NUMERIC ? NUMERIC_DIGITS - 1 : DECIMAL_DIGITS)));
}

static i128 cut_factor(const Expr *call)
{
    const Type type = call->args[0]->type;
    const i64  n = digits_of(call->args[1]), most = type.kind == TYPE_NUMERIC ? NUMERIC_DIGITS - 1 : DECIMAL_DIGITS;
    return n >= 0 ? 1 : type.scale - n > most ? 0 : ten_to((int)-n);
}

// ---- formulas -------------------------------------------------------------------------------------------------------

FORMULA_F64(size, x <= 0 ? 0 - x : x)                       // so that -0 is 0
FORMULA_WHOLE(whole_size, x <= 0 ? 0 - x : x)
FORMULA_F64(sign, (x > 0) - (x < 0))
FORMULA_WHOLE(whole_sign, (x > 0) - (x < 0))
FORMULA_F64(rounded_down, FLOOR_F64(x))
FORMULA_WHOLE(whole_down, x / k - (x % k < 0))
FORMULA_F64(rounded_up, CEIL_F64(x))
FORMULA_WHOLE(whole_up, x / k + (x % k > 0))
FORMULA_F64(truncated, TRUNC_F64(x))
FORMULA_WHOLE(whole_truncated, x / k)
FORMULA_WHOLE(whole_cut, x / k * m)
// Half to even: a number that lies halfway is twice a number that lies a quarter from a whole one.
FORMULA_F64(rounded, x - TRUNC_F64(x) == 0.5 || TRUNC_F64(x) - x == 0.5 ? 2 * NEAREST_F64(0.5 * x) : NEAREST_F64(x))
// Half away from zero, without leaving 64 bits.
FORMULA_WHOLE(whole_rounded_cut,
              (x / k + (x % k > 0 && x % k >= k - x % k) - (x % k < 0 && 0 - x % k >= k + x % k)) * m)
FORMULA_F64(square_root, SQRT_F64(x))
FORMULA_F64(exponential, EXP_F64(x))
FORMULA_F64(logarithm, LN_F64(x))
FORMULA_F64(logarithm_10, LOG10_F64(x))
FORMULA_F64(power, POWER_F64(x, y))

// ---- errors ---------------------------------------------------------------------------------------------------------

FORMULA_F64(is_zero, x == 0)
FORMULA_F64(is_negative, x < 0)
FORMULA_F64(overflows, !FINITE(r) && FINITE(x))
FORMULA_F64(underflows, r == 0 && FINITE(x))
FORMULA_F64(divides_by_zero, x == 0 && y < 0)
FORMULA_F64(is_complex, x < 0 && y == y && FLOOR_F64(y) != y)
FORMULA_F64(power_overflows, !FINITE(r) && FINITE(x) && FINITE(y))
FORMULA_F64(power_underflows, r == 0 && x != 0 && FINITE(x) && FINITE(y))

static bool can_be_negative(const Range *args)
{
    return !args->f.known || args->f.has_special || args->f.low < 0;
}

static bool can_be_zero(const Range *args)
{
    return !args->f.known || (args->f.low <= 0 && args->f.high >= 0);
}

static bool can_be_huge(const Range *args)
{
    return !args->f.known || args->f.high > 709;
}

static bool can_be_tiny(const Range *args)
{
    return !args->f.known || args->f.low < -744;
}

#define LOG_CHECKS                                                                                              \
    { { &is_zero, WEFT_BAD_LOGARITHM, "cannot take logarithm of zero", can_be_zero },                           \
      { &is_negative, WEFT_BAD_LOGARITHM, "cannot take logarithm of a negative number", can_be_negative } }

// ---- ranges ---------------------------------------------------------------------------------------------------------

static Range range_of_size(const Function *function, const Expr *call, const Range *args)
{
    Range range = *args;
    if (type_is_float(call->type)) range.f = float_range_abs(range.f);
    if (range.low > range.high) return range;
    range.low = args->low > 0 ? args->low : args->high < 0 ? -args->high : 0;
    range.high = MAX_OF(args->high, -args->low);
    return range;
}

static Range range_of_sign(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .known = !type_is_float(call->type), .low = -1, .high = 1, .f = float_range_of_exact(-1, 1, 0) };
}

// ---- width_bucket ---------------------------------------------------------------------------------------------------

// One that is no integer makes all of them numerics of one scale; integers alone become doubles, as in PostgreSQL.
static bool give_exact_bucket(Expr *const *args, Type *types, Type *result)
{
    bool has_decimal = false;
    int  scale = 0;
    for (int i = 0; i < 3; i++) {
        has_decimal |= !type_is_integer(types[i]);
        if (!type_is_integer(types[i])) scale = MAX_OF(scale, types[i].scale);
    }
    for (int i = 0; i < 3; i++) types[i] = (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, (u8)scale };
    *result = TYPE(INTEGER);
    return has_decimal;
}

static bool give_bucket(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(INTEGER);
    return true;
}

static weft_status bucket_error(const Expr *call, const char *message, Error *err)
{
    return fail(err, WEFT_BAD_WIDTH_BUCKET, call->at, "%s", message);
}

// The bucket behind the last one.
static weft_status bucket_behind(const Expr *call, i128 count, Value *value, Error *err)
{
    value->i = count + 1;
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

// COUNT * A / B, cut, of A < B: bit by bit, since the product may have 160 bits.
static i128 share_of(u128 a, u128 b, i128 count)
{
    i128 share = 0;
    u128 rest = 0;                     // less than B
    for (int bit = 31; bit >= 0; bit--) {
        const bool is_over = rest >= b - rest;
        rest = is_over ? rest - (b - rest) : 2 * rest;
        share = 2 * share + is_over;
        if (!(count >> bit & 1)) continue;
        const bool is_next = rest >= b - a;
        rest = is_next ? rest - (b - a) : rest + a;
        share += is_next;
    }
    return share;
}

static weft_status eval_exact_bucket(const Expr *call, const Value *args, Value *value, Error *err)
{
    const i128 x = args[0].i, low = args[1].i, high = args[2].i, count = args[3].i;
    const bool rises = low < high;
    if (count <= 0) return bucket_error(call, "count must be greater than zero", err);
    if (low == high) return bucket_error(call, "lower bound cannot equal upper bound", err);
    value->i = 0;
    if (rises ? x < low : x > low) return WEFT_OK;
    if (rises ? x >= high : x <= high) return bucket_behind(call, count, value, err);
    value->i = 1 + (rises ? share_of((u128)x - (u128)low, (u128)high - (u128)low, count)
                          : share_of((u128)low - (u128)x, (u128)low - (u128)high, count));
    return WEFT_OK;
}

static weft_status eval_bucket(const Expr *call, const Value *args, Value *value, Error *err)
{
    const double x = args[0].f, low = args[1].f, high = args[2].f, half = 0.5;
    const i128   count = args[3].i;
    const bool   rises = low < high;
    if (count <= 0) return bucket_error(call, "count must be greater than zero", err);
    if (isnan(x) || isnan(low) || isnan(high))
        return bucket_error(call, "operand, lower bound, and upper bound cannot be NaN", err);
    if (!FINITE(low) || !FINITE(high)) return bucket_error(call, "lower and upper bounds must be finite", err);
    if (low == high) return bucket_error(call, "lower bound cannot equal upper bound", err);
    value->i = 0;
    if (rises ? x < low : x > low) return WEFT_OK;
    if (rises ? x >= high : x <= high) return bucket_behind(call, count, value, err);
    const double share = FINITE(high - low) ? (x - low) / (high - low)
                                            : (x * half - low * half) / (high * half - low * half);
    value->i = MIN_OF((i128)((double)count * share), count - 1) + 1;           // rounding may have made it 1
    return WEFT_OK;
}

// ---- the list -------------------------------------------------------------------------------------------------------

#define OVERFLOW "value out of range: overflow"
#define UNDERFLOW "value out of range: underflow"

static const Function functions[] = {
    { .names = { "abs" }, .usage = "abs(number)", .gives = "the argument's type",
      .about = "the number without its sign", .n_args = 1, .args = { ARG_EXACT }, .formula = &whole_size,
      .range = range_of_size, .wide = WIDE_FORM_SIZE, .can_overflow = true,
      .overflow = "x < -9223372036854775807ll" },
    { .names = { "abs" }, .n_args = 1, .args = { ARG_NUMBER }, .formula = &size, .range = range_of_size },

    { .names = { "mod" }, .usage = "mod(number, number)", .gives = "the type of `%`",
      .about = "the remainder of a division that is cut towards zero", .n_args = 2, .op = OP_MOD },

    { .names = { "sign" }, .usage = "sign(number)", .gives = "double precision; decimal for decimals",
      .about = "-1, 0 or 1", .n_args = 1, .args = { ARG_DECIMAL }, .types = give_sign, .formula = &whole_sign,
      .range = range_of_sign, .wide = WIDE_FORM_SIGN },
    { .names = { "sign" }, .n_args = 1, .args = { ARG_DOUBLE }, .formula = &sign, .range = range_of_sign },

    { .names = { "floor" }, .usage = "floor(number)", .gives = "double precision; decimal for decimals",
      .about = "the nearest whole number that is not larger", .n_args = 1, .args = { ARG_DECIMAL },
      .types = give_whole, .formula = &whole_down, .k = one_of_scale, .range = range_of_whole,
      .wide = WIDE_FORM_FLOOR },
    { .names = { "floor" }, .n_args = 1, .args = { ARG_DOUBLE }, .formula = &rounded_down, .range = range_of_whole },

    { .names = { "ceil", "ceiling" }, .usage = "ceil(number)", .gives = "double precision; decimal for decimals",
      .about = "the nearest whole number that is not smaller", .n_args = 1, .args = { ARG_DECIMAL },
      .types = give_whole, .formula = &whole_up, .k = one_of_scale, .range = range_of_whole, .wide = WIDE_FORM_CEIL },
    { .names = { "ceil", "ceiling" }, .n_args = 1, .args = { ARG_DOUBLE }, .formula = &rounded_up,
      .range = range_of_whole },

    { .names = { "trunc" }, .usage = "trunc(number)", .gives = "double precision; decimal for decimals",
      .about = "the whole part, cut towards zero", .n_args = 1, .args = { ARG_DECIMAL }, .types = give_whole,
      .formula = &whole_truncated, .k = one_of_scale, .range = range_of_whole, .wide = WIDE_FORM_TRUNC },
    { .names = { "trunc" }, .n_args = 1, .args = { ARG_DOUBLE }, .formula = &truncated, .range = range_of_whole },
    { .names = { "trunc" }, .usage = "trunc(number, digits)", .gives = "decimal",
      .about = "cut to so many digits; digits: constant, may be negative", .n_args = 2,
      .args = { ARG_EXACT, ARG_DIGITS }, .types = give_truncated_cast, .is_cast = true },
    { .names = { "trunc" }, .n_args = 2, .args = { ARG_EXACT, ARG_DIGITS }, .types = give_cut, .formula = &whole_cut,
      .k = cut_unit, .m = cut_factor, .range = range_of_whole, .wide = WIDE_FORM_CUT },

    { .names = { "round" }, .usage = "round(number)", .gives = "double precision; decimal for decimals",
      .about = "the nearest whole number; half: floats to even, others up", .n_args = 1,
      .args = { ARG_DECIMAL }, .types = give_rounded_to_whole, .is_cast = true },
    { .names = { "round" }, .n_args = 1, .args = { ARG_DOUBLE }, .formula = &rounded, .range = range_of_whole },
    { .names = { "round" }, .usage = "round(number, digits)", .gives = "decimal",
      .about = "the nearest with so many digits (constant), halfway up; below 0: not of floats",
      .n_args = 2, .args = { ARG_EXACT, ARG_DIGITS }, .types = give_rounded, .is_cast = true },
    { .names = { "round" }, .n_args = 2, .args = { ARG_EXACT, ARG_DIGITS }, .types = give_rounded_cut,
      .formula = &whole_rounded_cut, .k = cut_unit, .m = cut_factor, .range = range_of_whole, .wide = WIDE_FORM_ROUND,
      .can_overflow = true, .overflow = "x > 9223372036854775807ll - k || x < k - 9223372036854775807ll" },
    { .names = { "round" }, .n_args = 2, .args = { ARG_NUMBER, ARG_DIGITS }, .types = give_rounded_float,
      .is_cast = true },

    { .names = { "sqrt" }, .usage = "sqrt(number)", .gives = "double precision",
      .about = "the square root; 2201F of a negative number", .n_args = 1, .args = { ARG_DOUBLE },
      .formula = &square_root, .range = range_of_root,
      .checks = { { &is_negative, WEFT_BAD_POWER, "cannot take square root of a negative number", can_be_negative } } },
    { .names = { "exp" }, .usage = "exp(number)", .gives = "double precision", .about = "e to this power", .n_args = 1,
      .args = { ARG_DOUBLE }, .formula = &exponential, .range = range_of_smooth,
      .checks = { { &overflows, WEFT_OUT_OF_RANGE, OVERFLOW, can_be_huge },
                  { &underflows, WEFT_OUT_OF_RANGE, UNDERFLOW, can_be_tiny } } },
    { .names = { "ln" }, .usage = "ln(number)", .gives = "double precision",
      .about = "the natural logarithm; 2201E of zero and of a negative number", .n_args = 1, .args = { ARG_DOUBLE },
      .formula = &logarithm, .range = range_of_smooth, .checks = LOG_CHECKS },
    { .names = { "log10", "log" }, .usage = "log10(number), log(number)", .gives = "double precision",
      .about = "the logarithm to base 10", .n_args = 1, .args = { ARG_DOUBLE }, .formula = &logarithm_10,
      .range = range_of_smooth, .checks = LOG_CHECKS },
    { .names = { "power", "pow" }, .usage = "power(number, number)", .gives = "double precision",
      .about = "the first number to the power of the second", .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE },
      .types = give_double, .formula = &power,
      .checks = { { &divides_by_zero, WEFT_BAD_POWER, "zero raised to a negative power is undefined", NULL },
                  { &is_complex, WEFT_BAD_POWER,
                    "a negative number raised to a non-integer power yields a complex result", NULL },
                  { &power_overflows, WEFT_OUT_OF_RANGE, OVERFLOW, NULL },
                  { &power_underflows, WEFT_OUT_OF_RANGE, UNDERFLOW, NULL } } },
    { .names = { "width_bucket" }, .usage = "width_bucket(number, low, high, count)", .gives = "integer",
      .about = "which of count equal parts it is in; 0 before, count + 1 behind",
      .n_args = 4, .args = { ARG_EXACT, ARG_EXACT, ARG_EXACT, ARG_INTEGER }, .types = give_exact_bucket,
      .eval = eval_exact_bucket, .can_fail = true },
    { .names = { "width_bucket" }, .n_args = 4, .args = { ARG_DOUBLE, ARG_DOUBLE, ARG_DOUBLE, ARG_INTEGER },
      .types = give_bucket, .eval = eval_bucket, .can_fail = true },
};

extern const FunctionFamily functions_math;
const FunctionFamily functions_math = { "Numbers", functions, COUNT_OF(functions) };
