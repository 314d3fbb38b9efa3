// eval.c - the interpreter: an expression over one row.
//
// For constants when a statement is bound, for the distinct values of a dictionary, and for the few rows above an
// aggregate.  Rows of tables go through kernels, which must agree with this file; it is the reference.
//
// All exact arithmetic is done in 128 bits and then checked against the result's type, so no operation on 64-bit inputs
// can go wrong unseen; only numeric itself (sums) needs overflow checks of its own.

#include "plan/expr_int.h"
#include "plan/functions.h"

#include <math.h>

static weft_status eval(const Expr *expr, const EvalContext *context, Value *value, Error *err);

static weft_status exact_result(i128 result, Type type, int at, Value *value, Error *err)
{
    value->i = result;
    return value_fits(result, type) ? WEFT_OK : range_error(type, at, err);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

// Digits behind the point that an argument shows, or -1: as many as a quotient of that size.
static int shown_by(const Expr *arg, const Value *value)
{
    if (value->shown) return MIN_OF(value->shown - 1, arg->type.scale);
    return type_is_quotient(arg->type) ? -1 : arg->type.scale;
}

static weft_status numeric_quotient(const Expr *expr, const Value *args, Value *value, Error *err)
{
    const Expr *a = expr->args[0], *b = expr->args[1];
    i64         high, low;
    int         shown;
    if (args[1].i == 0) return fail(err, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero");
    if (!wide_quotient((i64)(args[0].i >> 64), (i64)args[0].i, a->type.scale, shown_by(a, &args[0]),
                       (i64)(args[1].i >> 64), (i64)args[1].i, b->type.scale, shown_by(b, &args[1]),
                       expr->type.scale, &high, &low, &shown))
        return range_error(expr->type, expr->at, err);
    value->i = (i128)((u128)(u64)high << 64 | (u64)low);
    value->shown = (u8)(shown + 1);
    return WEFT_OK;
}

static weft_status cut_product(const Expr *expr, const Value *args, Value *value, Error *err)
{
    i64 high, low;
    if (!wide_rounded_product((i64)(args[0].i >> 64), (i64)args[0].i, (i64)(args[1].i >> 64), (i64)args[1].i,
                              product_cut(expr), &high, &low))
        return range_error(expr->type, expr->at, err);
    value->i = (i128)((u128)(u64)high << 64 | (u64)low);
    return WEFT_OK;
}

// + - and * of quotients show what PostgreSQL's do, where the arguments say what they show.
static void show_digits(const Expr *expr, const Value *args, Value *value)
{
    const int a = shown_by(expr->args[0], &args[0]), b = shown_by(expr->args[1], &args[1]);
    if (!type_is_quotient(expr->type) || a < 0 || b < 0) return;
    value->shown = (u8)(1 + MIN_OF(expr->op == OP_MUL ? a + b : MAX_OF(a, b), expr->type.scale));
}

static weft_status exact_arithmetic(const Expr *expr, i128 a, i128 b, Value *value, Error *err)
{
    i128 result = 0;
    bool overflow = false;
    switch (expr->op) {
        case OP_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
        case OP_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
        case OP_MUL: overflow = !multiply_wide(a, b, &result); break;
        default:                                            // DIV, MOD
            if (b == 0) return fail(err, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero");
            if (b == -1)
                overflow = expr->op == OP_DIV && __builtin_sub_overflow((i128)0, a, &result);  // a % -1 is 0, for any a
            else result = expr->op == OP_DIV ? a / b : a % b;
    }
    return overflow ? range_error(expr->type, expr->at, err) : exact_result(result, expr->type, expr->at, value, err);
}

static weft_status check_float(const Expr *expr, double a, double b, double result, Value *value, Error *err)
{
    value->f = result;
    if (isinf(result) && !isinf(a) && !isinf(b))
        return fail(err, WEFT_OUT_OF_RANGE, expr->at, "value out of range: overflow");
    const bool may_vanish = expr->op == OP_MUL ? a != 0 && b != 0 : expr->op == OP_DIV && a != 0 && !isinf(b);
    if (result == 0 && may_vanish) return fail(err, WEFT_OUT_OF_RANGE, expr->at, "value out of range: underflow");
    return WEFT_OK;
}

static weft_status float_arithmetic(const Expr *expr, double a, double b, Value *value, Error *err)
{
    const bool is_real = expr->type.kind == TYPE_REAL;
    double     result;
    switch (expr->op) {
        case OP_ADD: result = a + b; break;
        case OP_SUB: result = a - b; break;
        case OP_MUL: result = a * b; break;
        default:
            if (b == 0 && !isnan(a)) return fail(err, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero");
            result = a / b;
    }
    return check_float(expr, a, b, is_real ? (double)(float)result : result, value,
                       err);  // double holds real's exact result
}

static weft_status eval_arithmetic(const Expr *expr, const Value *args, Value *value, Error *err)
{
    if (type_is_float(expr->type)) return float_arithmetic(expr, args[0].f, args[1].f, value, err);
    if (expr->type.kind == TYPE_NUMERIC && expr->op == OP_DIV) return numeric_quotient(expr, args, value, err);
    if (product_cut(expr) > 0) TRY(cut_product(expr, args, value, err));
    else TRY(exact_arithmetic(expr, args[0].i, args[1].i, value, err));
    if (expr->type.kind == TYPE_NUMERIC) show_digits(expr, args, value);
    return WEFT_OK;
}

static weft_status eval_negation(const Expr *expr, const Value *arg, Value *value, Error *err)
{
    if (type_is_float(expr->type)) {
        value->f = -arg->f;
        return WEFT_OK;
    }
    i128 negated;
    value->shown = arg->shown;
    if (__builtin_sub_overflow((i128)0, arg->i, &negated)) return range_error(expr->type, expr->at, err);
    return exact_result(negated, expr->type, expr->at, value, err);
}

static bool eval_comparison(Op op, const Value *args)
{
    const int order = value_compare(&args[0], &args[1]);
    switch (op) {
        case OP_EQ: return order == 0;
        case OP_NE: return order != 0;
        case OP_LT: return order < 0;
        case OP_LE: return order <= 0;
        case OP_GT: return order > 0;
        default:    return order >= 0;
    }
}

// ---- text -----------------------------------------------------------------------------------------------------------

static weft_status eval_like(const Expr *expr, const Value *args, Value *value, Error *err)
{
    const char *escape = "\\";
    size_t      escape_length = 1;
    bool        matches;
    if (expr->n_args > 2) {
        escape = args[2].text.bytes;
        escape_length = args[2].text.length;
    }
    TRY(like_match(&args[0], &args[1], escape, escape_length, expr->op == OP_ILIKE, expr->at, &matches, err));
    value->i = matches;
    return WEFT_OK;
}

// ---- operators that are not strict ----------------------------------------------------------------------------------

// AND stops at false, OR at true; otherwise NULL wins over the neutral value.
static weft_status eval_logic(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    const bool decides = expr->op == OP_OR;
    Value      left, right;
    TRY(eval(expr->args[0], context, &left, err));
    value->i = decides;
    if (!left.is_null && (left.i != 0) == decides) return WEFT_OK;
    TRY(eval(expr->args[1], context, &right, err));
    if (!right.is_null && (right.i != 0) == decides) return WEFT_OK;
    value->is_null = left.is_null || right.is_null;
    value->i = value->is_null ? 0 : !decides;
    return WEFT_OK;
}

static weft_status eval_coalesce(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    for (int i = 0; i < expr->n_args; i++) {
        TRY(eval(expr->args[i], context, value, err));
        if (!value->is_null) break;
    }
    return WEFT_OK;
}

// The constants are sorted, NULL last: see type_in.
static weft_status eval_in(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    Value wanted;
    TRY(eval(expr->args[0], context, &wanted, err));
    value->is_null = wanted.is_null;
    if (wanted.is_null) return WEFT_OK;
    const bool has_null = expr->args[expr->n_args - 1]->value.is_null;
    int        low = 1, high = expr->n_args - has_null;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = value_compare(&wanted, &expr->args[middle]->value);
        if (order == 0) {
            value->i = 1;
            return WEFT_OK;
        }
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    value->is_null = has_null;
    return WEFT_OK;
}

static weft_status eval_case(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    for (int i = 0; i + 1 < expr->n_args; i += 2) {
        Value condition;
        TRY(eval(expr->args[i], context, &condition, err));
        if (!condition.is_null && condition.i) return eval(expr->args[i + 1], context, value, err);
    }
    return eval(expr->args[expr->n_args - 1], context, value, err);
}

// ---- any expression -------------------------------------------------------------------------------------------------

static weft_status eval_strict(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    Value args[FUNCTION_ARGS];                              // LIKE has as many
    for (int i = 0; i < expr->n_args; i++) {
        TRY(eval(expr->args[i], context, &args[i], err));
        value->is_null |= args[i].is_null;
    }
    if (value->is_null) return WEFT_OK;
    switch (expr->op) {
        case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MOD:
            return eval_arithmetic(expr, args, value, err);
        case OP_NEG:
            return eval_negation(expr, &args[0], value, err);
        case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
            value->i = eval_comparison(expr->op, args);
            return WEFT_OK;
        case OP_NOT:
            value->i = !args[0].i;
            return WEFT_OK;
        case OP_LIKE: case OP_ILIKE:
            return eval_like(expr, args, value, err);
        case OP_CAST:
            return value_cast(context->arena, &args[0], expr->type, expr->at, value, err);
        default:
            return function_eval(context->arena, expr, args, value, err);
    }
}

static weft_status eval_call(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    *value = (Value){ .type = expr->type };
    switch (expr->op) {
        case OP_AND: case OP_OR: return eval_logic(expr, context, value, err);
        case OP_COALESCE:        return eval_coalesce(expr, context, value, err);
        case OP_IN:              return eval_in(expr, context, value, err);
        case OP_IS_NULL: case OP_IS_NOT_NULL: {
            Value arg;
            TRY(eval(expr->args[0], context, &arg, err));
            value->i = arg.is_null == (expr->op == OP_IS_NULL);
            return WEFT_OK;
        }
        default: return eval_strict(expr, context, value, err);
    }
}

static weft_status eval(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    switch (expr->kind) {
        case EXPR_CONST:
            *value = expr->value;
            return WEFT_OK;
        case EXPR_CALL:
            return eval_call(expr, context, value, err);
        case EXPR_CASE:
            return eval_case(expr, context, value, err);
        default:
            if (!context->column) return fail(err, WEFT_INTERNAL, expr->at, "a column where only constants can be");
            context->column(context->context, expr, value);
            return WEFT_OK;
    }
}

weft_status expr_eval(const Expr *expr, const EvalContext *context, Value *value, Error *err)
{
    return eval(expr, context, value, err);
}
