// range.c - what statistics prove about an expression: interval arithmetic over 128 bits.
//
// A range is a proof, never a guess: every value the expression can take on the rows at hand lies in it.  It decides
// whether an overflow check is needed, whether a value or a sum fits 64 bits, whether groups can be an array.  Of
// numbers of 38 digits a range is known only within 120 bits, so that whoever has one may add to it and take its span;
// the arithmetic here saturates.  Floats have bounds of their own (float_range.c).

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/time.h"

static Range range_make(i128 low, i128 high, bool nullable)
{
    return (Range){ .known = true, .nullable = nullable, .low = low, .high = high };
}

static i128 power_of_ten_wide(int n)
{
    i128 power = 1;
    while (n-- > 0) power *= 10;
    return power;
}

#define TEN_TO_18 ((i128)1000000000000000000)

static i128 digits_most(void)
{
    _Static_assert(NUMERIC_DIGITS == 38, "it is 36 digits and 2");
    return TEN_TO_18 * TEN_TO_18 * 100 - 1;
}

static Range range_of_any_numeric(bool nullable)
{
    return (Range){ .known = false, .nullable = nullable, .low = -digits_most(), .high = digits_most() };
}

bool range_is_word(Range range) { return range.low >= INT64_MIN && range.high <= INT64_MAX; }

// Of a number of 38 digits: known where it has 120 bits at most.
static Range numeric_range(Range range)
{
    const i128 limit = (i128)1 << 120;
    return range.low >= -limit && range.high <= limit ? range : range_of_any_numeric(range.nullable);
}

Range range_of_type(Type type)
{
    const i128 decimal_max = TEN_TO_18 - 1;
    switch ((TypeKind)type.kind) {
        case TYPE_BOOLEAN:  return range_make(0, 1, true);
        case TYPE_SMALLINT: return range_make(INT16_MIN, INT16_MAX, true);
        case TYPE_INTEGER:  return range_make(INT32_MIN, INT32_MAX, true);
        case TYPE_DATE:     return range_make(date_from_civil(1, 1, 1), date_from_civil(9999, 12, 31), true);
        case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ:
            return range_make(date_from_civil(1, 1, 1) * (i128)DAY_MICROS,
                              (date_from_civil(9999, 12, 31) + 1) * (i128)DAY_MICROS - 1, true);
        case TYPE_TIME:     return range_make(0, DAY_MICROS, true);
        case TYPE_BIGINT:   return range_make(INT64_MIN, INT64_MAX, true);
        case TYPE_DECIMAL:  return range_make(-decimal_max, decimal_max, true);
        case TYPE_TEXT:     return range_make(0, INT32_MAX, true);
        case TYPE_NUMERIC:  return range_of_any_numeric(true);
        default:            return (Range){ .known = false, .nullable = true, .low = INT64_MIN, .high = INT64_MAX };
    }
}

Range range_of_words(Range high)
{
    const i128 limit = (i128)1 << 56;
    if (high.low > high.high) return high;
    if (!high.known || high.low < -limit || high.high >= limit) return range_of_any_numeric(high.nullable);
    const i128 word = (i128)1 << 64, half = (i128)1 << 63;
    return (Range){ .known = true, .nullable = high.nullable, .low = high.low * word - half,
                    .high = high.high * word + half - 1 };
}

static bool range_is_empty(Range range) { return range.low > range.high; }

// Every arithmetic result is checked against its type when it is computed, so the type bounds it in any case.
static Range clip_to_type(Range range, Type type)
{
    const Range bound = range_of_type(type);
    if (type.kind == TYPE_NUMERIC && range.known) return numeric_range(range);
    if (!range.known || !bound.known)
        return (Range){
            .known = bound.known, .nullable = range.nullable, .low = bound.low, .high = bound.high, .f = range.f
        };
    range.low = MAX_OF(range.low, bound.low);
    range.high = MIN_OF(range.high, bound.high);
    return range;
}

static Range range_of_corners(const i128 corners[4])
{
    Range range = range_make(corners[0], corners[0], false);
    for (int i = 1; i < 4; i++) {
        range.low = MIN_OF(range.low, corners[i]);
        range.high = MAX_OF(range.high, corners[i]);
    }
    return range;
}

#define WIDEST ((i128)(~(u128)0 >> 1))

static i128 add_up(i128 a, i128 b)
{
    i128 sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? -WIDEST : WIDEST) : sum;
}

static i128 times(i128 a, i128 b)
{
    i128 product;
    return multiply_wide(a, b, &product) ? product : (a < 0) != (b < 0) ? -WIDEST : WIDEST;
}

static Range multiply(Range a, Range b)
{
    const i128 corners[4] = { times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high) };
    return range_of_corners(corners);
}

static Range magnitude(Range a)
{
    if (a.low >= 0) return a;
    if (a.high <= 0) return range_make(-a.high, -a.low, a.nullable);
    return range_make(0, MAX_OF(-a.low, a.high), a.nullable);
}

// Quotients are cut towards zero, so they grow with what is divided, and shrink as the divisor grows on either side of
// zero.
static Range divide(Range a, Range b)
{
    const i128 most = magnitude(a).high;
    if (b.low <= 0 && b.high >= 0) return range_make(-most, most, false);
    const i128 corners[4] = { a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high };
    return range_of_corners(corners);
}

static FloatRange float_call(Op op, Type type, FloatRange a, FloatRange b)
{
    if (op == OP_NEG) return float_range_negate(a);
    return float_range_of_call(op, a, b, type.kind == TYPE_REAL);
}

Range range_of_call(Op op, Type type, Range a, Range b)
{
    Range      range = range_of_type(type);
    const bool nullable = a.nullable || b.nullable;
    range.nullable = nullable;
    if (type_is_float(type)) range.f = float_call(op, type, a.f, b.f);
    const bool is_numeric = type.kind == TYPE_NUMERIC;
    if ((!range.known && !is_numeric) || !a.known || !b.known) return range;
    if (range_is_empty(a) || range_is_empty(b)) return range_make(0, -1, nullable);
    const i128 most = MAX_OF(magnitude(b).high, 1) - 1;
    switch (op) {
        case OP_ADD: range = range_make(add_up(a.low, b.low), add_up(a.high, b.high), nullable); break;
        case OP_SUB: range = range_make(add_up(a.low, -b.high), add_up(a.high, -b.low), nullable); break;
        case OP_MUL: range = multiply(a, b); break;
        case OP_DIV: range = divide(a, b); break;
        case OP_MOD:
            range = range_make(a.low < 0 ? -MIN_OF(most, -a.low) : 0, a.high > 0 ? MIN_OF(most, a.high) : 0, nullable);
            break;
        case OP_NEG: range = range_make(-a.high, -a.low, nullable); break;
        default: break;
    }
    range.nullable = nullable;
    return is_numeric ? numeric_range(range) : range;
}

Range range_of_arithmetic(const Expr *call, Range a, Range b)
{
    const bool is_numeric = call->type.kind == TYPE_NUMERIC;
    if (is_numeric && (call->op == OP_DIV || product_cut(call) > 0))
        return range_of_any_numeric(a.nullable || b.nullable);
    return range_of_call(call->op, call->type, a, b);
}

static Range unite_exact(Range a, Range b)
{
    if (a.known && range_is_empty(a)) { b.nullable |= a.nullable; return b; }
    if (b.known && range_is_empty(b)) { a.nullable |= b.nullable; return a; }
    if (!a.known || !b.known) {
        Range unknown = a.known ? b : a;
        unknown.nullable = a.nullable || b.nullable;
        return unknown;
    }
    return range_make(MIN_OF(a.low, b.low), MAX_OF(a.high, b.high), a.nullable || b.nullable);
}

Range range_unite(Range a, Range b)
{
    Range range = unite_exact(a, b);
    range.f = float_range_unite(a.f, b.f);
    return range;
}

Range range_of_value(const Value *value)
{
    if (value->is_null)
        return (Range){ .known = true, .nullable = true, .low = 0, .high = -1, .f = float_range_none() };
    Range range = range_of_type(value->type);
    if (type_is_float(value->type)) range.f = float_range_of_value(value->f);
    if (value->type.kind == TYPE_NUMERIC) return numeric_range(range_make(value->i, value->i, false));
    if (!range.known || value->type.kind == TYPE_TEXT) { range.nullable = false; return range; }
    return range_make(value->i, value->i, false);
}

static Range range_rescaled(Range a, Type from, Type to)
{
    const int  from_scale = from.kind == TYPE_DECIMAL || from.kind == TYPE_NUMERIC ? from.scale : 0;
    const int  to_scale = to.kind == TYPE_DECIMAL || to.kind == TYPE_NUMERIC ? to.scale : 0;
    if (!a.known) {
        Range range = range_of_type(to);
        range.nullable = a.nullable;
        return range;
    }
    if (range_is_empty(a)) return a;
    if (to_scale >= from_scale) {
        const i128 factor = power_of_ten_wide(to_scale - from_scale);
        return numeric_range(range_make(times(a.low, factor), times(a.high, factor), a.nullable));
    }
    const i128 factor = power_of_ten_wide(from_scale - to_scale);
    return range_make(a.low / factor - 1, a.high / factor + 1, a.nullable);      // rounding moves by at most one
}

FloatRange float_range_of_cast(Range a, Type from, Type to)
{
    FloatRange range = a.f;
    if (from.kind == TYPE_NUMERIC || from.kind == TYPE_TEXT) return float_range_any();
    if (!type_is_float(from) && from.kind != TYPE_NULL)
        range = float_range_of_exact(a.low, a.high, from.kind == TYPE_DECIMAL ? from.scale : 0);
    return to.kind == TYPE_REAL && from.kind != TYPE_REAL ? float_range_to_real(range) : range;
}

static Range range_of_cast(const Expr *expr, Range a)
{
    const Type from = expr->args[0]->type;
    Range      range = range_of_type(expr->type);
    range.nullable = a.nullable;
    if (type_is_float(expr->type)) range.f = float_range_of_cast(a, from, expr->type);
    if ((!range.known && expr->type.kind != TYPE_NUMERIC) || type_is_float(from) || from.kind == TYPE_NULL ||
        from.kind == TYPE_TEXT)
        return range;
    if (expr->type.kind == TYPE_TEXT || expr->type.kind == TYPE_BOOLEAN) return range;
    return range_rescaled(a, from, expr->type);
}

static Range range_of_condition(const Expr *expr, RangeOfColumn column, void *context)
{
    bool nullable = false;
    if (expr->op == OP_IS_NULL || expr->op == OP_IS_NOT_NULL) return range_make(0, 1, false);
    for (int i = 0; i < expr->n_args; i++) {
        const bool is_pattern = i > 0 && (expr->op == OP_LIKE || expr->op == OP_ILIKE);
        if (!is_pattern || expr->args[i]->kind != EXPR_CONST)
            nullable |= range_of(expr->args[i], column, context).nullable;
    }
    return range_make(0, 1, nullable);
}

Range function_range(const Expr *call, const Range *args)
{
    const Function *function = function_of(call->op);
    Range           range = function->range ? function->range(function, call, args) : range_of_type(call->type);
    range.nullable = function->may_be_null;
    for (int i = 0; i < call->n_args; i++) range.nullable |= args[i].nullable;
    return range;
}

static Range range_of_function(const Expr *expr, RangeOfColumn column, void *context)
{
    Range args[FUNCTION_ARGS];
    for (int i = 0; i < expr->n_args; i++) args[i] = range_of(expr->args[i], column, context);
    return clip_to_type(function_range(expr, args), expr->type);
}

static Range range_of_operator(const Expr *expr, RangeOfColumn column, void *context)
{
    if (op_has(expr->op, OP_TESTS)) return range_of_condition(expr, column, context);
    if (function_of(expr->op)) return range_of_function(expr, column, context);
    Range a = range_of(expr->args[0], column, context);
    switch (expr->op) {
        case OP_COALESCE:
            for (int i = 1; i < expr->n_args; i++) {
                const Range b = range_of(expr->args[i], column, context);
                const bool  nullable = a.nullable && b.nullable;
                a = range_unite(a, b);
                a.nullable = nullable;
            }
            return a;
        case OP_CAST: return clip_to_type(range_of_cast(expr, a), expr->type);
        default: break;
    }
    const Range b = expr->n_args > 1 ? range_of(expr->args[1], column, context) : range_make(0, 0, false);
    return clip_to_type(range_of_arithmetic(expr, a, b), expr->type);
}

static Range range_of_case(const Expr *expr, RangeOfColumn column, void *context)
{
    Range range = range_of(expr->args[expr->n_args - 1], column, context);
    for (int i = 1; i < expr->n_args; i += 2) range = range_unite(range, range_of(expr->args[i], column, context));
    return range;
}

Range range_of(const Expr *expr, RangeOfColumn column, void *context)
{
    switch (expr->kind) {
        case EXPR_CONST:  return range_of_value(&expr->value);
        case EXPR_COLUMN: return column(context, expr);
        case EXPR_CALL:   return range_of_operator(expr, column, context);
        case EXPR_CASE:   return range_of_case(expr, column, context);
        default:          break;
    }
    Range range = range_of_type(expr->type);               // of a parameter
    range.nullable = !expr->is_given;
    return range;
}

static Range range_of_column(void *context, const Expr *column)
{
    return ((const Plan *)context)->columns[column->column].range;
}

Range plan_range(const Plan *plan, const Expr *expr)
{
    return range_of(expr, range_of_column, (void *)(uintptr_t)plan);
}

bool expr_can_fail(const Expr *expr)
{
    if (expr->kind == EXPR_CALL && op_has(expr->op, OP_FAILS)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (expr_can_fail(expr->args[i])) return true;
    return false;
}

static bool is_proved_float(const Expr *expr, Range a, Range b)
{
    const Op op = expr->op;
    if (op == OP_CAST) return !float_cast_overflows(a.f, expr->type) && !float_cast_underflows(a.f, expr->type);
    if (op == OP_NEG) return true;
    return (op == OP_ADD || op == OP_SUB || op == OP_MUL) && !float_call_overflows(op, expr->type, a.f, b.f) &&
           !float_call_underflows(op, expr->type, a.f, b.f);
}

// Arithmetic and casts of numbers do not fail where what comes out fits the type, and nothing is divided by 0.
static bool is_proved_number(const Plan *plan, const Expr *expr)
{
    const Op op = expr->op;
    if (!type_is_number(expr->type) || !type_is_number(expr->args[0]->type) || function_of(op)) return false;
    const Range a = plan_range(plan, expr->args[0]), type = range_of_type(expr->type);
    const Range b = expr->n_args > 1 ? plan_range(plan, expr->args[1]) : range_make(0, 0, false);
    if (type_is_float(expr->type)) return is_proved_float(expr, a, b);
    if (type_is_float(expr->args[0]->type) || !a.known || !b.known) return false;
    if ((op == OP_DIV || op == OP_MOD) && (!type_is_integer(expr->type) || (b.low <= 0 && b.high >= 0))) return false;
    const Range range = op == OP_CAST ? range_of_cast(expr, a) : range_of_arithmetic(expr, a, b);
    return range.known && range.low >= type.low && range.high <= type.high;
}

bool plan_can_fail(const Plan *plan, const Expr *expr)
{
    for (int i = 0; i < expr->n_args; i++)
        if (plan_can_fail(plan, expr->args[i])) return true;
    return expr->kind == EXPR_CALL && op_has(expr->op, OP_FAILS) && !is_proved_number(plan, expr);
}
