// expr_type.c - which types an operator takes, and the casts that make its arguments fit.
//
// PostgreSQL's rules, with one difference: decimals are 64-bit integers over a fixed power of ten, so a scale is part
// of the type and has to be lined up before anything is added or compared:
//
//     l_quantity < 24           decimal(12,2) < integer      ->  l_quantity < 24.00           the constant moves
//     o_orderkey < 1.5          integer < decimal(2,1)       ->  o_orderkey <= 1              no cast on the column
//     a + b                     decimal(9,2) + decimal(9,4)  ->  a::decimal(11,4) + b
//
// A constant is moved to the column's type and never the other way round: the column keeps its kernel type, and 18
// digits cannot overflow.  Between two columns the scale grows, and a value that has no room left is an error at run
// time, 22003.

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/time.h"

#include <math.h>
#include <stdlib.h>

static weft_status no_operator(const Call *call)
{
    char left[32], right[32];
    if (call->n_args == 1)
        fail(call->err, WEFT_UNDEFINED_FUNCTION, call->at, "operator does not exist: %s %s", op_text(call->op),
             type_label(call->args[0]->type, left));
    else
        fail(call->err, WEFT_UNDEFINED_FUNCTION, call->at, "operator does not exist: %s %s %s",
             type_label(call->args[0]->type, left), op_text(call->op), type_label(call->args[1]->type, right));
    error_hint(call->err, "A cast may make the types fit.");
    return WEFT_UNDEFINED_FUNCTION;
}

static weft_status coerce_arg(Call *call, int i, Type type)
{
    Expr *arg = call->args[i];
    return expr_coerce(call->arena, arg, type, arg->at >= 0 ? arg->at : call->at, &call->args[i], call->err);
}

static weft_status cast_arg(Call *call, int i, Type type)
{
    return expr_make_cast(call->arena, call->args[i], type, call->args[i]->at, &call->args[i], call->err);
}

static weft_status cast_args(Call *call, Type type)
{
    for (int i = 0; i < call->n_args; i++) TRY(cast_arg(call, i, type));
    return WEFT_OK;
}

// ---- number types ---------------------------------------------------------------------------------------------------

// The decimal type that an exact argument has or becomes.  A constant needs no more digits than it has.
static Type decimal_of(const Expr *expr)
{
    if (expr->type.kind == TYPE_DECIMAL) return expr->type;
    int digits = expr->type.kind == TYPE_SMALLINT ? 5 : expr->type.kind == TYPE_INTEGER ? 10 : DECIMAL_DIGITS;
    if (expr->kind == EXPR_CONST && !expr->value.is_null) digits = count_digits(expr->value.i);
    return (Type){ TYPE_DECIMAL, (u8)MIN_OF(digits, DECIMAL_DIGITS), 0 };
}

static int scale_of(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC ? type.scale : 0; }

// Before the point, of an exact argument that is no numeric.
static int digits_before_point(const Expr *expr)
{
    if (expr->kind == EXPR_CONST && !expr->value.is_null)
        return MAX_OF(count_digits(expr->value.i) - scale_of(expr->type), 0);
    if (expr->type.kind == TYPE_BIGINT) return DECIMAL_DIGITS + 1;
    const Type type = decimal_of(expr);
    return type.precision - type.scale;
}

static Type decimal_type(int whole_digits, int scale)
{
    return (Type){ TYPE_DECIMAL, (u8)MAX_OF(1, MIN_OF(whole_digits + scale, DECIMAL_DIGITS)), (u8)scale };
}

static Type wider_integer(Type a, Type b)
{
    return a.kind > b.kind ? a : b;                         // smallint, integer, bigint are in this order
}

static bool is_wide(const Expr *a, const Expr *b)
{
    return a->type.kind == TYPE_NUMERIC || b->type.kind == TYPE_NUMERIC;
}

// Of 38 digits, a quotient where one of them is.
static Type numeric_type(const Expr *a, const Expr *b, int scale)
{
    const bool is_quotient = type_is_quotient(a->type) || type_is_quotient(b->type);
    return (Type){ TYPE_NUMERIC, is_quotient ? NUMERIC_QUOTIENT : NUMERIC_DIGITS, (u8)scale };
}

// What both sides of +, CASE or COALESCE become.
static Type common_number(const Expr *a, const Expr *b)
{
    if (type_is_integer(a->type) && type_is_integer(b->type)) return wider_integer(a->type, b->type);
    if (type_is_float(a->type) || type_is_float(b->type)) return a->type.kind == b->type.kind ? a->type : TYPE(DOUBLE);
    const int scale = MAX_OF(a->type.scale, b->type.scale);
    if (is_wide(a, b)) return numeric_type(a, b, scale);
    const int whole = MAX_OF(digits_before_point(a), digits_before_point(b));
    return whole + scale > DECIMAL_DIGITS ? numeric_type(a, b, scale) : decimal_type(whole, scale);
}

// The constant as a value of the column's type, when there is exactly that value.
static bool const_fits(const Expr *constant, Type type, i128 *value)
{
    i128 back;
    if (!rescale(constant->value.i, constant->type.scale, type.scale, value)) return false;
    return rescale(*value, type.scale, constant->type.scale, &back) && back == constant->value.i &&
           value_fits(*value, type);
}

static Expr *exact_const(Arena *arena, i128 value, Type type, int at)
{
    if (type.kind == TYPE_DECIMAL) type.precision = (u8)MAX_OF(MAX_OF(count_digits(value), type.scale), 1);
    return expr_const(arena, (Value){ .type = type, .i = value }, at);
}

// ---- literals take the type of the other side -----------------------------------------------------------------------

static weft_status settle_literal(Call *call, int literal, Type other)
{
    Expr *arg = call->args[literal];
    if (arg->kind != EXPR_CONST) return WEFT_OK;
    const bool keeps_digits = other.kind == TYPE_DECIMAL || other.kind == TYPE_NUMERIC;  // '1.234' against decimal(9,2)
    if (!keeps_digits || arg->value.is_null) return coerce_arg(call, literal, other);
    return expr_number(call->arena, arg->value.text.bytes, arg->value.text.length, arg->at, &call->args[literal],
                       call->err);
}

static weft_status settle_literals(Call *call)
{
    Expr **args = call->args;
    if (expr_is_untyped(args[0]) && !expr_is_untyped(args[1])) return settle_literal(call, 0, args[1]->type);
    if (expr_is_untyped(args[1]) && !expr_is_untyped(args[0])) return settle_literal(call, 1, args[0]->type);
    return WEFT_OK;
}

// ---- literals of more than 38 digits --------------------------------------------------------------------------------

static bool is_double_value(const Expr *expr) { return type_is_float(expr->type) && !expr->is_long; }

// PostgreSQL has such numerics.  Here they are doubles, where another value says that these are meant.
static weft_status settle_long(Arena *arena, Expr **args, int n_args, int step, Error *err)
{
    bool has_double = false;
    for (int i = 0; i < n_args; i++) has_double |= is_double_value(args[i * step]);
    for (int i = 0; i < n_args; i++) {
        Expr **arg = &args[i * step];
        if (!has_double) TRY(expr_refuse_long(*arg, err));
        if ((*arg)->is_long) *arg = expr_as_double(arena, *arg);
    }
    return WEFT_OK;
}

// No number of 38 digits equals it, and as doubles all of them are on the same side of it.
static bool is_beyond_numerics(const Expr *expr)
{
    const double size = fabs(expr->value.f);
    return size >= 1e38 || size < 1e-38;
}

static weft_status settle_long_compared(Call *call)
{
    for (int i = 0; i < 2; i++) {
        Expr *arg = call->args[i];
        if (!arg->is_long) continue;
        const Expr *other = call->args[1 - i];
        if (other->is_long || !(is_double_value(other) || is_beyond_numerics(arg)))
            TRY(expr_refuse_long(arg, call->err));
        call->args[i] = expr_as_double(call->arena, arg);
    }
    return WEFT_OK;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

static weft_status type_decimal_call(Call *call)
{
    const Type a = decimal_of(call->args[0]), b = decimal_of(call->args[1]);
    if (call->op == OP_MUL) {
        call->type = decimal_type(a.precision - a.scale + b.precision - b.scale, a.scale + b.scale);
        TRY(cast_arg(call, 0, a));
        return cast_arg(call, 1, b);
    }
    const int scale = MAX_OF(a.scale, b.scale);
    const int whole = MAX_OF(a.precision - a.scale, b.precision - b.scale);
    call->type = decimal_type(whole + (call->op != OP_MOD), scale);
    if (a.scale != scale || call->args[0]->type.kind != TYPE_DECIMAL)
        TRY(cast_arg(call, 0, decimal_type(a.precision - a.scale, scale)));
    if (b.scale != scale || call->args[1]->type.kind != TYPE_DECIMAL)
        TRY(cast_arg(call, 1, decimal_type(b.precision - b.scale, scale)));
    return WEFT_OK;
}

static _Thread_local struct { int scale; bool any; } quotients = { .scale = QUOTIENT_SCALE };

// Digits behind the point of a product that would have more than 38, or more than this where a quotient is among its
// factors: such a one is rounded already.
static int product_scale(void) { return quotients.scale + 4; }

// Sums have 128 bits; what is computed with them has too.
static weft_status type_numeric_call(Call *call)
{
    const int  a = scale_of(call->args[0]->type), b = scale_of(call->args[1]->type), larger = MAX_OF(a, b);
    const bool is_product = call->op == OP_MUL;
    call->type = numeric_type(call->args[0], call->args[1], is_product ? a + b : larger);
    if (is_product && a + b > (type_is_quotient(call->type) ? product_scale() : NUMERIC_DIGITS))
        call->type.scale = (u8)MAX_OF(product_scale(), larger);
    for (int i = 0; i < 2; i++) {
        const Type own = call->args[i]->type;
        const bool is_quotient = type_is_quotient(is_product ? own : call->type);      // so a sum's know what they show
        TRY(cast_arg(call, i, (Type){ TYPE_NUMERIC, is_quotient ? NUMERIC_QUOTIENT : NUMERIC_DIGITS,
                                      (u8)(is_product ? scale_of(own) : larger) }));
    }
    return WEFT_OK;
}

// ---- quotients ------------------------------------------------------------------------------------------------------

void quotients_begin(int scale)
{
    quotients.scale = scale;
    quotients.any = false;
}

bool quotients_made(void) { return quotients.any; }

static Type quotient_type(int scale)
{
    quotients.any = true;
    return (Type){ TYPE_NUMERIC, NUMERIC_QUOTIENT, (u8)MAX_OF(scale, quotients.scale) };
}

Type type_of_quotient(Type a, Type b)
{
    return quotient_type(MAX_OF(scale_of(a), scale_of(b)));
}

Type type_of_average(Type type)
{
    return quotient_type(scale_of(type));
}

// A quotient of constants has the scale that it shows.
static int const_quotient_scale(const Call *call)
{
    const Expr *a = call->args[0], *b = call->args[1];
    const int   least = MAX_OF(a->type.scale, b->type.scale);
    i64         high, low;
    int         shown;
    if (a->kind != EXPR_CONST || b->kind != EXPR_CONST || a->value.is_null || b->value.is_null || b->value.i == 0)
        return call->type.scale;
    (void)wide_quotient((i64)(a->value.i >> 64), (i64)a->value.i, a->type.scale, value_shown(&a->value),
                        (i64)(b->value.i >> 64), (i64)b->value.i, b->type.scale, value_shown(&b->value),
                        NUMERIC_DIGITS, &high, &low, &shown);
    return MAX_OF(shown, least);
}

static weft_status type_quotient(Call *call)
{
    call->type = type_of_quotient(call->args[0]->type, call->args[1]->type);
    for (int i = 0; i < 2; i++) {
        const Type own = call->args[i]->type;
        if (own.kind != TYPE_NUMERIC)
            TRY(cast_arg(call, i, (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, (u8)scale_of(own) }));
    }
    call->type.scale = (u8)const_quotient_scale(call);
    return WEFT_OK;
}

// The types alone do not prove that 18 digits do; where the values' ranges do, kernels take 64 bits for a numeric, too.
static bool may_be_wide(const Call *call)
{
    const Expr *a = call->args[0], *b = call->args[1];
    const int   whole_a = digits_before_point(a), whole_b = digits_before_point(b);
    const int   scale_a = scale_of(a->type), scale_b = scale_of(b->type);
    if (is_wide(a, b)) return true;
    if (call->op == OP_MUL) return whole_a + whole_b + scale_a + scale_b > DECIMAL_DIGITS;
    return MAX_OF(whole_a, whole_b) + (call->op != OP_MOD) + MAX_OF(scale_a, scale_b) > DECIMAL_DIGITS;
}

static weft_status type_number_call(Call *call)
{
    Expr *a = call->args[0], *b = call->args[1];
    if (type_is_integer(a->type) && type_is_integer(b->type)) {
        call->type = wider_integer(a->type, b->type);
        return WEFT_OK;
    }
    const bool is_float = type_is_float(a->type) || type_is_float(b->type);
    if (is_float && call->op == OP_MOD) return no_operator(call);
    if (is_float) {
        call->type = common_number(a, b);
        return cast_args(call, call->type);
    }
    if (call->op == OP_DIV) return type_quotient(call);
    return may_be_wide(call) ? type_numeric_call(call) : type_decimal_call(call);
}

static bool is_kind(const Expr *expr, TypeKind kind)
{
    return expr->type.kind == kind;
}

static bool is_day_count(const Expr *expr)
{
    return is_kind(expr, TYPE_INTEGER) || is_kind(expr, TYPE_SMALLINT);
}

static weft_status type_date_call(Call *call)
{
    Expr             *a = call->args[0], *b = call->args[1];
    const bool        is_add = call->op == OP_ADD;
    const weft_status status = type_time_call(call);
    if (status != WEFT_UNDEFINED_FUNCTION || call->err->status) return status;
    if (call->op != OP_ADD && call->op != OP_SUB) return no_operator(call);
    call->type = TYPE(DATE);
    if (is_kind(a, TYPE_DATE) && is_day_count(b)) return WEFT_OK;
    if (is_day_count(a) && is_kind(b, TYPE_DATE) && is_add) {
        call->args[0] = b, call->args[1] = a;
        return WEFT_OK;
    }
    call->type = TYPE(INTEGER);
    return is_kind(a, TYPE_DATE) && is_kind(b, TYPE_DATE) && !is_add ? WEFT_OK : no_operator(call);
}

static bool is_time(const Expr *expr)
{
    return type_is_time(expr->type);
}

// ts + '1 day': the literal is an interval.  2 * '1 day' is none of ours.
static weft_status settle_time_literal(Call *call)
{
    for (int i = 0; i < 2; i++) {
        const Expr *other = call->args[1 - i];
        if (!expr_is_untyped(call->args[i]) || !is_time(other)) continue;
        if (call->op == OP_ADD && !is_kind(other, TYPE_DATE)) return coerce_arg(call, i, TYPE(INTERVAL));
        if ((call->op == OP_MUL || call->op == OP_DIV) && (is_kind(other, TYPE_INTERVAL) || is_kind(other, TYPE_TIME)))
            return coerce_arg(call, i, TYPE(DOUBLE));
    }
    return WEFT_OK;
}

static weft_status type_arithmetic(Call *call)
{
    TRY(settle_time_literal(call));
    TRY(settle_literals(call));
    Expr *a = call->args[0], *b = call->args[1];
    if (is_time(a) || is_time(b)) return type_date_call(call);
    if (!type_is_number(a->type) || !type_is_number(b->type)) return no_operator(call);
    TRY(settle_long(call->arena, call->args, 2, 1, call->err));
    return type_number_call(call);
}

static weft_status type_sign(Call *call)
{
    Expr *arg = call->args[0];
    if (expr_is_untyped(arg)) TRY(coerce_arg(call, 0, TYPE(DOUBLE)));
    arg = call->args[0];
    if (is_kind(arg, TYPE_INTERVAL) || is_kind(arg, TYPE_TIME)) return type_interval_sign(call);
    call->type = arg->type;
    TRY(expr_refuse_long(arg, call->err));
    return type_is_number(arg->type) ? WEFT_OK : no_operator(call);
}

// ---- comparison -----------------------------------------------------------------------------------------------------

static Op mirrored(Op op)
{
    switch (op) {
        case OP_LT: return OP_GT;
        case OP_LE: return OP_GE;
        case OP_GT: return OP_LT;
        case OP_GE: return OP_LE;
        default:    return op;
    }
}

static weft_status make_call2(Call *call, Op op, Expr *a, Expr *b, Expr **out)
{
    Expr **args = arena_array(call->arena, Expr *, 2);
    args[0] = a, args[1] = b;
    return expr_make_call(call->arena, op, TYPE(BOOLEAN), args, 2, call->at, out, call->err);
}

// x = c where no value of x's type is c: false, or NULL when x is.
static weft_status never_equal(Call *call, Expr *x, bool is_equal, Expr **out)
{
    Expr **args = arena_array(call->arena, Expr *, 1);
    Expr  *test;
    args[0] = x;
    TRY(expr_make_call(call->arena, is_equal ? OP_IS_NULL : OP_IS_NOT_NULL, TYPE(BOOLEAN), args, 1, call->at, &test,
                       call->err));
    return make_call2(call, is_equal ? OP_AND : OP_OR, test, expr_null(call->arena, TYPE(BOOLEAN), call->at), out);
}

static i128 floor_to_scale(i128 value, int from_scale, int to_scale)
{
    if (to_scale >= from_scale) {
        i128 scaled;
        if (rescale(value, from_scale, to_scale, &scaled)) return scaled;
        return value < 0 ? -ten_to(NUMERIC_DIGITS) : ten_to(NUMERIC_DIGITS);
    }
    const i128 power = ten_to(MIN_OF(from_scale - to_scale, NUMERIC_DIGITS));
    const i128 quotient = value / power;
    return value % power < 0 ? quotient - 1 : quotient;
}

static i128 largest_of(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_DECIMAL: return ten_to(DECIMAL_DIGITS) - 1;
        case TYPE_NUMERIC: return ten_to(NUMERIC_DIGITS) - 1;
        default:           return INT64_MAX;
    }
}

// x < c with c between two values of x's type, or beyond them: x <= floor(c), and x > floor(c) for the other direction.
static weft_status compare_between(Call *call, Op op, Expr *x, const Expr *constant)
{
    const Type type = type_is_integer(x->type) ? TYPE(BIGINT) : x->type;
    const i128 largest = largest_of(type), smallest = type.kind == TYPE_BIGINT ? (i128)INT64_MIN : -largest;
    i128       bound = floor_to_scale(constant->value.i, constant->type.scale, type.scale);
    const bool is_less = op == OP_LT || op == OP_LE;
    Op         with = is_less ? OP_LE : OP_GT;
    if (bound > largest) bound = largest;                   // x <= largest: always; x > largest: never
    if (bound < smallest) {
        bound = smallest;
        with = is_less ? OP_LT : OP_GE;                     // x < smallest: never; x >= smallest: always
    }
    return make_call2(call, with, x, exact_const(call->arena, bound, type, constant->at), &call->result);
}

static weft_status compare_with_const(Call *call, int side)
{
    Expr *constant = call->args[side], *x = call->args[1 - side];
    i128  value;
    if (type_is_integer(x->type) && type_is_integer(constant->type)) return WEFT_OK;
    const Type type = type_is_integer(x->type) ? TYPE(BIGINT) : x->type;
    if (const_fits(constant, type, &value)) {
        const bool is_small = type.kind == TYPE_BIGINT && value_fits(value, TYPE(INTEGER));
        call->args[side] = exact_const(call->arena, value, is_small ? TYPE(INTEGER) : type, constant->at);
        return WEFT_OK;
    }
    const Op op = side == 1 ? call->op : mirrored(call->op);
    if (op == OP_EQ || op == OP_NE) return never_equal(call, x, op == OP_EQ, &call->result);
    return compare_between(call, op, x, constant);
}

static int whole_digits(const Expr *expr)
{
    switch ((TypeKind)expr->type.kind) {
        case TYPE_SMALLINT: return 5;
        case TYPE_INTEGER:  return 10;
        case TYPE_BIGINT:   return 19;
        case TYPE_NUMERIC:
            return expr->kind == EXPR_CONST && !expr->value.is_null
                       ? MAX_OF(count_digits(expr->value.i) - expr->type.scale, 1)
                       : NUMERIC_DIGITS - expr->type.scale;
        default:            return expr->type.precision - expr->type.scale;
    }
}

// With the scales lined up.
static int digits_to_compare(const Expr *a, const Expr *b)
{
    return MAX_OF(whole_digits(a), whole_digits(b)) + MAX_OF(a->type.scale, b->type.scale);
}

// Rescaled in 128 bits where 18 digits are not proved to do: every integer and decimal fits.  Of a numeric that has no
// room left for the other side's scale, 22003 (it has more than 38 - scale digits).
static weft_status compare_exact(Call *call)
{
    Expr      *a = call->args[0], *b = call->args[1];
    const bool a_is_const = a->kind == EXPR_CONST, b_is_const = b->kind == EXPR_CONST;
    if (a_is_const != b_is_const) return compare_with_const(call, b_is_const);
    if (type_is_integer(a->type) && type_is_integer(b->type)) return WEFT_OK;
    if (a->type.kind == b->type.kind && a->type.scale == b->type.scale) return WEFT_OK;
    Type common = common_number(a, b);
    if (a_is_const || digits_to_compare(a, b) > DECIMAL_DIGITS)
        common = numeric_type(a, b, common.scale);
    return cast_args(call, common);
}

// char(n) = varchar(n): blanks at the end do not count.  With text they do.
static weft_status strip_varchar(Call *call)
{
    for (int i = 0; i < 2; i++) {
        const Type own = call->args[i]->type;
        if (!type_is_char(call->args[1 - i]->type) || type_is_char(own) || !type_text_length(own)) continue;
        Expr   **arg = arena_array(call->arena, Expr *, 1);
        const Op op = function_find("rtrim", &call->args[i], 1);
        arg[0] = call->args[i];
        TRY(expr_make_call(call->arena, op, TYPE(TEXT), arg, 1, call->at, &call->args[i], call->err));
    }
    return WEFT_OK;
}

static weft_status type_comparison(Call *call)
{
    TRY(settle_literals(call));
    TRY(strip_varchar(call));
    TRY(settle_long_compared(call));
    if (expr_is_untyped(call->args[0]))
        for (int i = 0; i < 2; i++) TRY(coerce_arg(call, i, TYPE(TEXT)));
    const Expr *a = call->args[0], *b = call->args[1];
    call->type = TYPE(BOOLEAN);
    const bool is_number = type_is_number(a->type) && type_is_number(b->type);
    if (is_time(a) && is_time(b)) {
        const weft_status status = type_time_comparison(call);
        return status == WEFT_UNDEFINED_FUNCTION && !call->err->status ? no_operator(call) : status;
    }
    if (!is_number && (a->type.kind != b->type.kind || type_is_uuid(a->type) != type_is_uuid(b->type)))
        return no_operator(call);
    if (!is_number || expr_is_null_const(a) || expr_is_null_const(b))
        return WEFT_OK;  // NULL folds whatever its type
    if (type_is_float(a->type) || type_is_float(b->type)) return cast_args(call, TYPE(DOUBLE));
    return compare_exact(call);
}

// ---- logic ----------------------------------------------------------------------------------------------------------

static weft_status type_logic(Call *call)
{
    static const char *const names[OP_N] = { [OP_AND] = "AND", [OP_OR] = "OR", [OP_NOT] = "NOT" };
    char buffer[32];
    call->type = TYPE(BOOLEAN);
    for (int i = 0; i < call->n_args; i++) {
        const Expr *arg = call->args[i];
        if (!is_kind(arg, TYPE_BOOLEAN) && !expr_is_untyped(arg))
            return fail(call->err, WEFT_TYPE_MISMATCH, arg->at, "argument of %s must be type boolean, not type %s",
                        names[call->op], type_label(arg->type, buffer));
        TRY(coerce_arg(call, i, TYPE(BOOLEAN)));
    }
    return WEFT_OK;
}

static weft_status type_null_test(Call *call)
{
    call->type = TYPE(BOOLEAN);
    return WEFT_OK;
}

// ---- text -----------------------------------------------------------------------------------------------------------

static weft_status check_escape(const Call *call, const Expr *escape)
{
    if (escape->value.is_null) return WEFT_OK;
    u32 n_characters = 0;
    for (u32 i = 0; i < escape->value.text.length; i++)
        n_characters += ((unsigned char)escape->value.text.bytes[i] & 0xC0) != 0x80;
    if (n_characters <= 1) return WEFT_OK;
    fail(call->err, WEFT_BAD_ESCAPE, escape->at, "invalid escape string");
    error_hint(call->err, "Escape string must be empty or one character.");
    return WEFT_BAD_ESCAPE;
}

static weft_status type_like(Call *call)
{
    call->type = TYPE(BOOLEAN);
    for (int i = 0; i < call->n_args; i++) {
        if (expr_is_untyped(call->args[i])) TRY(coerce_arg(call, i, TYPE(TEXT)));
        if (!is_kind(call->args[i], TYPE_TEXT) || type_is_uuid(call->args[i]->type)) return no_operator(call);
        if (i > 1 && call->args[i]->kind != EXPR_CONST)
            return fail(call->err, WEFT_UNSUPPORTED, call->args[i]->at,
                        "escape characters that are not constant are not supported yet");
    }
    return call->n_args == 3 ? check_escape(call, call->args[2]) : WEFT_OK;
}

// ---- IN -------------------------------------------------------------------------------------------------------------

static int order_consts(const void *a, const void *b)
{
    const Expr *x = *(Expr *const *)a, *y = *(Expr *const *)b;
    if (x->value.is_null || y->value.is_null) return x->value.is_null - y->value.is_null;
    return value_compare(&x->value, &y->value);
}

// Sorted, each once, NULL last: the interpreter and the kernels search.
static void sort_consts(Call *call)
{
    qsort(call->args + 1, (size_t)call->n_args - 1, sizeof(Expr *), order_consts);
    int n_kept = 1;
    for (int i = 1; i < call->n_args; i++)
        if (n_kept == 1 || order_consts(&call->args[n_kept - 1], &call->args[i]) != 0)
            call->args[n_kept++] = call->args[i];
    call->n_args = n_kept;
}

// The type that IN compares in: the first argument's, or double when a float is among the constants, or interval for
// a time among intervals.
static Type in_type(const Call *call)
{
    Type type = call->args[0]->type;
    if (expr_is_untyped(call->args[0])) type = TYPE(TEXT);
    for (int i = 1; i < call->n_args; i++) {
        const Type other = call->args[i]->type;
        if (expr_is_untyped(call->args[0]) && other.kind != TYPE_NULL && type.kind == TYPE_TEXT) type = other;
        if (type_is_number(type) && is_double_value(call->args[i])) type = TYPE(DOUBLE);
        if (type.kind == TYPE_TIME && other.kind == TYPE_INTERVAL) type = other;
    }
    return type.kind == TYPE_REAL ? TYPE(DOUBLE) : type;
}

static weft_status in_const(Call *call, Expr *constant, Type type, Expr **out)
{
    char a[32], b[32];
    i128 value;
    *out = constant;
    if (expr_is_untyped(constant) && !constant->value.is_null &&
        (type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC))
        TRY(expr_number(call->arena, constant->value.text.bytes, constant->value.text.length, constant->at, &constant,
                        call->err));
    if (expr_is_untyped(constant) || constant->value.is_null)
        return expr_cast(call->arena, constant, type, constant->at, out, call->err);
    if (constant->is_long && type_is_exact(type)) {
        if (!is_beyond_numerics(constant)) return expr_refuse_long(constant, call->err);
        *out = NULL;
        return WEFT_OK;
    }
    if (constant->is_long) *out = constant = expr_as_double(call->arena, constant);
    if (type_is_exact(type) && type_is_exact(constant->type)) {
        *out = const_fits(constant, type, &value) ? exact_const(call->arena, value, type, constant->at) : NULL;
        return WEFT_OK;
    }
    if (type_is_number(type) && type_is_number(constant->type))
        return expr_make_cast(call->arena, constant, type, constant->at, out, call->err);
    if (type_is_time(type) && type_is_time(constant->type) && type.kind != constant->type.kind) {
        Type common;
        if (type.kind == TYPE_DATE && constant->type.kind == TYPE_TIMESTAMP) {
            *out = date_of_stamp(constant, &value)
                       ? expr_const(call->arena, (Value){ .type = type, .i = value }, constant->at) : NULL;
            return WEFT_OK;
        }
        if (time_common(type, constant->type, &common) && common.kind == type.kind)
            return expr_make_cast(call->arena, constant, type, constant->at, out, call->err);
    }
    if (constant->type.kind == type.kind) return WEFT_OK;
    return fail(call->err, WEFT_UNDEFINED_FUNCTION, call->at, "operator does not exist: %s = %s", type_label(type, a),
                type_label(constant->type, b));
}

static weft_status type_in(Call *call)
{
    const Type type = in_type(call);
    int        n_kept = 1;
    call->type = TYPE(BOOLEAN);
    TRY(expr_refuse_long(call->args[0], call->err));
    TRY(coerce_arg(call, 0, type));
    for (int i = 1; i < call->n_args; i++) {
        Expr *constant;
        if (call->args[i]->kind != EXPR_CONST)
            return fail(call->err, WEFT_INTERNAL, call->args[i]->at, "IN takes constants");
        TRY(in_const(call, call->args[i], type, &constant));
        if (constant) call->args[n_kept++] = constant;      // else: no value of the type equals it
    }
    call->n_args = n_kept;
    if (n_kept == 1) return never_equal(call, call->args[0], true, &call->result);
    sort_consts(call);
    for (int i = 1; i < call->n_args && type.kind == TYPE_DECIMAL; i++)        // constants of its type
        call->args[i]->type = call->args[i]->value.type = type;
    return WEFT_OK;
}

// ---- one type for several -------------------------------------------------------------------------------------------

typedef struct Unify {
    Arena      *arena;
    Expr      **args;
    int         n_args, step;                               // every STEP-th
    const char *what;
    int         at;
    Error      *err;
} Unify;

static weft_status no_common_type(const Unify *unify, Type a, const Expr *b)
{
    char x[32], y[32];
    return fail(unify->err, WEFT_TYPE_MISMATCH, b->at >= 0 ? b->at : unify->at, "%s types %s and %s cannot be matched",
                unify->what, type_label(a, x), type_label(b->type, y));
}

// Neither numbers that come from floats nor whole ones end in zeros behind the point.
static bool shows_no_zeros(Type type) { return type_is_trimmed(type) || (!scale_of(type) && !type_is_quotient(type)); }

static Type unified_number(const Expr *a, const Expr *b)
{
    Type       type = common_number(a, b);
    const bool is_trimmed = type_is_trimmed(a->type) || type_is_trimmed(b->type);
    if (is_trimmed && type.kind == TYPE_NUMERIC && shows_no_zeros(a->type) && shows_no_zeros(b->type))
        type.precision = NUMERIC_TRIMMED;
    return type;
}

static weft_status common_type(const Unify *unify, Type *type)
{
    Expr common = { .kind = EXPR_COLUMN, .type = TYPE(NULL) };
    for (int i = 0; i < unify->n_args; i++) {
        const Expr *arg = unify->args[i * unify->step];
        if (expr_is_untyped(arg)) continue;
        if (expr_is_untyped(&common)) common.type = arg->type;
        else if (type_is_number(arg->type) && type_is_number(common.type)) common.type = unified_number(&common, arg);
        else if (type_is_time(arg->type) && type_is_time(common.type)) {
            const bool is_length = is_kind(arg, TYPE_INTERVAL);
            if (is_length != is_kind(&common, TYPE_INTERVAL) ||
                !time_common(common.type, arg->type, &common.type))
                return no_common_type(unify, common.type, arg);
        }
        else if (!type_equal(arg->type, common.type)) return no_common_type(unify, common.type, arg);
    }
    *type = expr_is_untyped(&common) ? TYPE(TEXT) : common.type;
    return WEFT_OK;
}

// '1.234' among decimals keeps its own digits.
static weft_status settle_numbers(const Unify *unify)
{
    for (int i = 0; i < unify->n_args; i++) {
        Expr **arg = &unify->args[i * unify->step];
        if (!expr_is_untyped(*arg) || expr_is_null_const(*arg) || (*arg)->kind != EXPR_CONST) continue;
        TRY(expr_number(unify->arena, (*arg)->value.text.bytes, (*arg)->value.text.length, (*arg)->at, arg,
                        unify->err));
    }
    return WEFT_OK;
}

weft_status expr_unify(Arena *arena, Expr **args, int n_args, int step, const char *what, int at, Error *err)
{
    const Unify unify = { arena, args, n_args, step, what, at, err };
    Type        type;
    TRY(common_type(&unify, &type));
    if (type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC) {
        TRY(settle_numbers(&unify));
        TRY(common_type(&unify, &type));
    }
    TRY(settle_long(arena, args, n_args, step, err));
    for (int i = 0; i < n_args; i++) {
        Expr **arg = &args[i * step];
        if (expr_is_untyped(*arg)) TRY(expr_coerce(arena, *arg, type, (*arg)->at, arg, err));
        else TRY(expr_make_cast(arena, *arg, type, (*arg)->at, arg, err));
    }
    return WEFT_OK;
}

static weft_status type_coalesce(Call *call)
{
    TRY(expr_unify(call->arena, call->args, call->n_args, 1, "COALESCE", call->at, call->err));
    call->type = call->args[0]->type;
    return WEFT_OK;
}

// ---- functions ------------------------------------------------------------------------------------------------------

static weft_status no_function(const Call *call, const Function *function)
{
    char types[FUNCTION_ARGS * 34] = "", name[32];
    for (int i = 0; i < MIN_OF(call->n_args, FUNCTION_ARGS); i++) {
        if (i > 0) strcat(types, ", ");
        strcat(types, type_label(call->args[i]->type, name));
    }
    return fail(call->err, WEFT_UNDEFINED_FUNCTION, call->at,
                function->is_field ? "function extract(%s from %s) does not exist" : "function %s(%s) does not exist",
                function->names[0], types);
}

// The descriptor says which types the arguments become.
static weft_status type_function(Call *call, const Function *function)
{
    Type types[FUNCTION_ARGS];
    if (!function_types(function, call->args, call->n_args, types, &call->type)) return no_function(call, function);
    for (int i = 0; i < call->n_args; i++) {
        if (function->args[i] == ARG_CONSTANT) continue;
        if (function->args[i] == ARG_DOUBLE && call->args[i]->is_long)
            call->args[i] = expr_as_double(call->arena, call->args[i]);
        if (function->args[i] == ARG_DIGITS && call->args[i]->kind != EXPR_CONST)
            return fail(call->err, WEFT_UNSUPPORTED, call->args[i]->at,
                        "%s to a number of digits that is not constant is not supported yet", function->names[0]);
        if (expr_is_untyped(call->args[i]) && function->args[i] != ARG_DIGITS) TRY(coerce_arg(call, i, types[i]));
        else if (function->args[i] != ARG_DIGITS) TRY(cast_arg(call, i, types[i]));
    }
    TRY(settle_long(call->arena, call->args, call->n_args, 1, call->err));
    if (!function->is_cast || expr_is_null_const(call->args[call->n_args - 1])) return WEFT_OK;
    return expr_make_cast(call->arena, call->args[0], call->type, call->at, &call->result, call->err);
}

// ---- by operator ----------------------------------------------------------------------------------------------------

weft_status type_call(Call *call)
{
    switch (call->op) {
        case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MOD:
            return type_arithmetic(call);
        case OP_NEG:
            return type_sign(call);
        case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
            return type_comparison(call);
        case OP_AND: case OP_OR: case OP_NOT:
            return type_logic(call);
        case OP_IS_NULL: case OP_IS_NOT_NULL:
            return type_null_test(call);
        case OP_LIKE: case OP_ILIKE:
            return type_like(call);
        case OP_IN:
            return type_in(call);
        case OP_COALESCE:
            return type_coalesce(call);
        default:
            if (function_of(call->op)) return type_function(call, function_of(call->op));
    }
    return fail(call->err, WEFT_INTERNAL, call->at, "not an operator");
}
