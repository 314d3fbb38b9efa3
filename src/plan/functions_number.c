// functions_number.c - functions of numbers that kernels have no words for, and operators on the bits of integers.
//
// Sines and their kin are the C library's, as in PostgreSQL, so they are computed by the host: no two devices' would be
// the same.  Operators on bits are kernels' own.

#include "plan/functions.h"

#include "plan/expr_int.h"

#include <math.h>

#define EVAL(name) static weft_status name(const Expr *call, const Value *args, Value *value, Error *err)

// ---- types ----------------------------------------------------------------------------------------------------------

static bool give_double(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DOUBLE);
    return true;
}

// Integers of one kind: the wider one.
static bool give_wider(Expr *const *args, Type *types, Type *result)
{
    if (!type_is_integer(types[0]) || !type_is_integer(types[1])) return false;
    *result = types[0] = types[1] = types[0].kind > types[1].kind ? types[0] : types[1];
    return true;
}

static bool give_integer_kind(Expr *const *args, Type *types, Type *result)
{
    return type_is_integer(*result = types[0]);
}

static bool give_numeric(Expr *const *args, Type *types, Type *result)
{
    *result = (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, 0 };
    return true;
}

static bool give_factorial(Expr *const *args, Type *types, Type *result)
{
    if (!type_is_integer(types[0])) return false;
    types[0] = TYPE(BIGINT);
    return give_numeric(args, types, result);
}

// ---- angles and curves ----------------------------------------------------------------------------------------------

static weft_status input_error(const Expr *call, Error *err)
{
    return fail(err, WEFT_OUT_OF_RANGE, call->at, "input is out of range");
}

// NaN gives NaN; what lies outside of LOW .. HIGH is an error.
static weft_status curve(const Expr *call, double x, double low, double high, double (*f)(double x), Value *value,
                         Error *err)
{
    if (x < low || x > high) return input_error(call, err);
    value->f = f(x);
    return WEFT_OK;
}

#define MOST 1.7976931348623157e308

EVAL(eval_sin) { return curve(call, args[0].f, -MOST, MOST, sin, value, err); }
EVAL(eval_cos) { return curve(call, args[0].f, -MOST, MOST, cos, value, err); }
EVAL(eval_tan) { return curve(call, args[0].f, -MOST, MOST, tan, value, err); }
EVAL(eval_asin) { return curve(call, args[0].f, -1, 1, asin, value, err); }
EVAL(eval_acos) { return curve(call, args[0].f, -1, 1, acos, value, err); }
EVAL(eval_atan) { return curve(call, args[0].f, -INFINITY, INFINITY, atan, value, err); }
EVAL(eval_sinh) { return curve(call, args[0].f, -INFINITY, INFINITY, sinh, value, err); }
EVAL(eval_cosh) { return curve(call, args[0].f, -INFINITY, INFINITY, cosh, value, err); }
EVAL(eval_tanh) { return curve(call, args[0].f, -INFINITY, INFINITY, tanh, value, err); }
EVAL(eval_asinh) { return curve(call, args[0].f, -INFINITY, INFINITY, asinh, value, err); }
EVAL(eval_acosh) { return curve(call, args[0].f, 1, INFINITY, acosh, value, err); }
EVAL(eval_atanh) { return curve(call, args[0].f, -1, 1, atanh, value, err); }
EVAL(eval_cbrt) { return curve(call, args[0].f, -INFINITY, INFINITY, cbrt, value, err); }

EVAL(eval_cot)
{
    TRY(curve(call, args[0].f, -MOST, MOST, tan, value, err));
    value->f = 1.0 / value->f;
    return WEFT_OK;
}

EVAL(eval_atan2)
{
    value->f = atan2(args[0].f, args[1].f);
    return WEFT_OK;
}

static weft_status check_finite(const Expr *call, double x, Value *value, Error *err)
{
    if (isinf(value->f) && !isinf(x)) return fail(err, WEFT_OUT_OF_RANGE, call->at, "value out of range: overflow");
    if (value->f == 0 && x != 0) return fail(err, WEFT_OUT_OF_RANGE, call->at, "value out of range: underflow");
    return WEFT_OK;
}

static const double radians_per_degree = 0.0174532925199432957692;

EVAL(eval_degrees)
{
    value->f = args[0].f / radians_per_degree;
    return check_finite(call, args[0].f, value, err);
}

EVAL(eval_radians)
{
    value->f = args[0].f * radians_per_degree;
    return check_finite(call, args[0].f, value, err);
}

EVAL(eval_log)
{
    for (int i = 0; i < 2; i++) {
        if (args[i].f == 0) return fail(err, WEFT_BAD_LOGARITHM, call->at, "cannot take logarithm of zero");
        if (args[i].f < 0)
            return fail(err, WEFT_BAD_LOGARITHM, call->at, "cannot take logarithm of a negative number");
    }
    if (args[0].f == 1) return fail(err, WEFT_DIVISION_BY_ZERO, call->at, "division by zero");
    value->f = log(args[1].f) / log(args[0].f);
    return WEFT_OK;
}

// ---- whole numbers --------------------------------------------------------------------------------------------------

static i128 gcd_of(i128 a, i128 b)
{
    while (b) {
        const i128 rest = a % b;
        a = b, b = rest;
    }
    return a < 0 ? -a : a;
}

static weft_status give_fitting(const Expr *call, i128 number, Value *value, Error *err)
{
    value->i = number;
    return value_fits(number, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

EVAL(eval_gcd) { return give_fitting(call, gcd_of(args[0].i, args[1].i), value, err); }

EVAL(eval_lcm)
{
    const i128 a = args[0].i, b = args[1].i, least = a && b ? a / gcd_of(a, b) * b : 0;
    return give_fitting(call, least < 0 ? -least : least, value, err);
}

// The quotient, cut towards zero.
EVAL(eval_div)
{
    const int scale = MAX_OF(args[0].type.scale, args[1].type.scale);
    i128      a, b;
    if (args[1].i == 0) return fail(err, WEFT_DIVISION_BY_ZERO, call->at, "division by zero");
    if (!rescale(args[0].i, args[0].type.scale, scale, &a) || !rescale(args[1].i, args[1].type.scale, scale, &b))
        return range_error(call->type, call->at, err);
    return give_fitting(call, a / b, value, err);
}

EVAL(eval_factorial)
{
    i128 product = 1;
    if (args[0].i < 0)
        return fail(err, WEFT_OUT_OF_RANGE, call->at, "factorial of a negative number is undefined");
    for (i128 i = 2; i <= args[0].i; i++)
        if (!multiply_wide(product, i, &product) || !value_fits(product, call->type))
            return range_error(call->type, call->at, err);
    return give_fitting(call, product, value, err);
}

EVAL(eval_scale)
{
    value->i = call->args[0]->type.scale;
    return WEFT_OK;
}

EVAL(eval_min_scale)
{
    i128 rest = args[0].i;
    int  scale = call->args[0]->type.scale;
    for (; scale > 0 && rest % 10 == 0; scale--) rest /= 10;
    value->i = scale;
    return WEFT_OK;
}

// ---- bits -----------------------------------------------------------------------------------------------------------

static const Formula bits_and = { .text = "(x & y)" }, bits_or = { .text = "(x | y)" },
                     bits_xor = { .text = "(x ^ y)" }, bits_not = { .text = "(~x)" };

EVAL(eval_bits_and) { return value->i = args[0].i & args[1].i, WEFT_OK; }
EVAL(eval_bits_or) { return value->i = args[0].i | args[1].i, WEFT_OK; }
EVAL(eval_bits_xor) { return value->i = args[0].i ^ args[1].i, WEFT_OK; }
EVAL(eval_bits_not) { return value->i = ~args[0].i, WEFT_OK; }

// As processors shift: by the last 5 or 6 bits of the number, and what leaves the type is lost.
static int shift_of(const Expr *call, const Value *args)
{
    return (int)((u64)args[1].i & (call->type.kind == TYPE_BIGINT ? 63 : 31));
}

EVAL(eval_shift_left)
{
    const u64 bits = (u64)(i64)args[0].i << shift_of(call, args);
    value->i = call->type.kind == TYPE_BIGINT ? (i64)bits : call->type.kind == TYPE_INTEGER ? (i32)bits : (i16)bits;
    return WEFT_OK;
}

EVAL(eval_shift_right)
{
    value->i = (i64)args[0].i >> shift_of(call, args);
    return WEFT_OK;
}

// ---- the list -------------------------------------------------------------------------------------------------------

#define CURVE(name, shown, meaning, value, ...)                                                               \
    { .names = { name }, .usage = shown, .gives = "double precision", .about = meaning, .n_args = 1,          \
      .args = { ARG_DOUBLE }, .types = give_double, .eval = value, __VA_ARGS__ }
#define HIDDEN(name, n, ...) { .names = { name }, .is_hidden = true, .n_args = n, .args = { ARG_EXACT, ARG_EXACT }, \
      __VA_ARGS__ }

static const Function functions[] = {
    CURVE("cbrt", "cbrt(number)", "the cube root", eval_cbrt),
    CURVE("degrees", "degrees(number)", "an angle in degrees", eval_degrees, .can_fail = true),
    CURVE("radians", "radians(number)", "an angle in radians", eval_radians, .can_fail = true),
    CURVE("sin", "sin(number)", "the sine of an angle in radians", eval_sin, .can_fail = true),
    CURVE("cos", "cos(number)", "the cosine", eval_cos, .can_fail = true),
    CURVE("tan", "tan(number)", "the tangent", eval_tan, .can_fail = true),
    CURVE("cot", "cot(number)", "the cotangent", eval_cot, .can_fail = true),
    CURVE("asin", "asin(number)", "the angle of this sine", eval_asin, .can_fail = true),
    CURVE("acos", "acos(number)", "the angle of this cosine", eval_acos, .can_fail = true),
    CURVE("atan", "atan(number)", "the angle of this tangent", eval_atan),
    { .names = { "atan2" }, .usage = "atan2(y, x)", .gives = "double precision", .about = "the angle of the point x, y",
      .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE }, .types = give_double, .eval = eval_atan2 },
    CURVE("sinh", "sinh(number)", "the hyperbolic sine", eval_sinh),
    CURVE("cosh", "cosh(number)", "the hyperbolic cosine", eval_cosh),
    CURVE("tanh", "tanh(number)", "the hyperbolic tangent", eval_tanh),
    CURVE("asinh", "asinh(number)", "its inverse: of sinh", eval_asinh),
    CURVE("acosh", "acosh(number)", "of cosh", eval_acosh, .can_fail = true),
    CURVE("atanh", "atanh(number)", "of tanh", eval_atanh, .can_fail = true),
    { .names = { "log" }, .usage = "log(base, number)", .gives = "double precision",
      .about = "the logarithm to a base", .n_args = 2, .args = { ARG_DOUBLE, ARG_DOUBLE }, .types = give_double,
      .eval = eval_log, .can_fail = true },
    { .names = { "div" }, .usage = "div(number, number)", .gives = "numeric", .about = "the quotient, cut towards zero",
      .n_args = 2, .args = { ARG_EXACT, ARG_EXACT }, .types = give_numeric, .eval = eval_div, .can_fail = true },
    { .names = { "gcd" }, .usage = "gcd(integer, integer)", .gives = "the wider type",
      .about = "the greatest common divisor", .n_args = 2, .args = { ARG_EXACT, ARG_EXACT }, .types = give_wider,
      .eval = eval_gcd, .can_fail = true },
    { .names = { "lcm" }, .usage = "lcm(integer, integer)", .gives = "the wider type",
      .about = "the least common multiple", .n_args = 2, .args = { ARG_EXACT, ARG_EXACT }, .types = give_wider,
      .eval = eval_lcm, .can_fail = true },
    { .names = { "factorial" }, .usage = "factorial(integer)", .gives = "numeric", .about = "1 * 2 * ... * n, up to 33",
      .n_args = 1, .args = { ARG_EXACT }, .types = give_factorial, .eval = eval_factorial, .can_fail = true },
    { .names = { "scale" }, .usage = "scale(decimal)", .gives = "integer", .about = "digits after the point",
      .n_args = 1, .args = { ARG_DECIMAL }, .types = function_gives_integer, .eval = eval_scale },
    { .names = { "min_scale" }, .usage = "min_scale(decimal)", .gives = "integer",
      .about = "digits after the point that are needed", .n_args = 1, .args = { ARG_DECIMAL },
      .types = function_gives_integer, .eval = eval_min_scale },
    HIDDEN("bits_and", 2, .types = give_wider, .formula = &bits_and, .eval = eval_bits_and),
    HIDDEN("bits_or", 2, .types = give_wider, .formula = &bits_or, .eval = eval_bits_or),
    HIDDEN("bits_xor", 2, .types = give_wider, .formula = &bits_xor, .eval = eval_bits_xor),
    HIDDEN("bits_not", 1, .types = give_integer_kind, .formula = &bits_not, .eval = eval_bits_not),
    HIDDEN("shift_left", 2, .types = give_integer_kind, .eval = eval_shift_left),
    HIDDEN("shift_right", 2, .types = give_integer_kind, .eval = eval_shift_right),
};

extern const FunctionFamily functions_number;
const FunctionFamily functions_number = { "Angles, curves and whole numbers", functions, COUNT_OF(functions) };
