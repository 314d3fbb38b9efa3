// value.c - expressions as C.
//
// A value is C text plus C text for "is NULL" (none where statistics prove there is no NULL).  Conditions are written
// as what
// a filter needs, "is true" or "is false", so three-valued logic costs nothing: NOT swaps the two, AND and OR join
// them.
// What can fail (overflow, division) is a checked statement of its own, left out where ranges prove it cannot; it runs
// only
// for rows and CASE branches that SQL evaluates.  NULL operands of checked statements are replaced first: their stored
// values are arbitrary.

#include "plan/functions.h"
#include "weave/weave_int.h"

#include <stdio.h>
#include <stdlib.h>

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

static const char *either(Weaver *w, const char *a, const char *b)             // NULL flags of two operands
{
    return !a ? b : !b ? a : PRINT("(%s | %s)", a, b);
}

// Long texts are named, so that using a value twice does not write it twice.
static const char *shorten(Weaver *w, const char *type, const char *value)
{
    return ir_length(w->ir, value) > 72 ? weave_temp(w, type, value) : value;
}

static Val named(Weaver *w, Val val)
{
    val.value = shorten(w, val.is_float ? "f64" : "i64", val.value);
    if (val.high) val.high = shorten(w, "i64", val.high);
    if (val.null) val.null = shorten(w, "u8", val.null);
    return val;
}

static const char *unless_null(Weaver *w, const Val *val, const char *instead)
{
    return val->null ? PRINT("(%s ? %s : %s)", val->null, instead, val->value) : val->value;
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static int payload_part(const Var *var, int part)
{
    return TABLE_PAYLOADS + 3 * (int)(var->payload - var->table->payloads) + part;
}

// The code that stands for NULL, or the bit that says so.
static const char *payload_null(Weaver *w, Var *var)
{
    const Payload *payload = var->payload;
    if (!payload->range.nullable) return NULL;
    if (payload->valid_bytes) {
        if (!var->null)
            var->null = weave_table_of(w, var->table, payload_part(var, 1), "u8", PRINT("%s_valid", var->name),
                                       payload->valid, payload->valid_bytes);
        return var->missing ? PRINT("(%s || !BIT(%s, %s))", var->missing, var->null, var->index)
                            : PRINT("!BIT(%s, %s)", var->null, var->index);
    }
    if (!var->null) var->null = weave_param_i64(w, PRINT("%s_null", var->name), (i64)payload->null_code);
    return either(w, var->missing, PRINT("((i64)%s == %s)", var->code, var->null));
}

static void value_of_payload(Weaver *w, Var *var, Val *out)
{
    const Payload *payload = var->payload;
    if (out->is_float) {
        out->value = var->code;
    } else if (payload->decode) {
        if (!var->decode)
            var->decode = weave_table_of(w, var->table, payload_part(var, 2), "i64", PRINT("%s_map", var->name),
                                         payload->decode, payload->n_codes * sizeof(i64));
        out->value = PRINT("%s[%s]", var->decode, var->code);
    } else {
        if (!var->base) var->base = weave_param_i64(w, PRINT("%s_base", var->name), payload->base);
        out->value = PRINT("(%s + (i64)%s)", var->base, var->code);
    }
    out->null = payload->range.nullable ? payload_null(w, var) : var->missing;
}

static void value_of_var(Weaver *w, Var *var, Val *out)
{
    *out = (Val){
        .range = var->range, .is_float = type_is_float(var->type), .dict = var->dict, .dict_count = var->dict_count
    };
    if (var->value) {
        out->value = var->value, out->null = var->value_null;
        return;
    }
    if (var->source < 0) {
        value_of_payload(w, var, out);
        return;
    }
    weave_load(w, var);
    if (out->is_float) out->value = PRINT("(f64)%s[i]", var->ref);
    else if (var->width == 0) out->value = PRINT("%s[i]", var->ref);
    else out->value = PRINT("VALUE(%s)", var->ref), out->stored = var;
    if (var->range.nullable) out->null = PRINT("IS_NULL(%s)", var->ref);
}

weft_status weave_column(Weaver *w, const Expr *expr, Val *out)
{
    Var *var = weave_var_of(w, expr);
    if (!var) return fail(w->err, WEFT_INTERNAL, expr->at, "column is not available in this pipeline");
    value_of_var(w, var, out);
    if (!weave_low_var(w, expr->column)) return WEFT_OK;
    Val low;
    const Range range = range_of_words(out->range);
    value_of_var(w, weave_low_var(w, expr->column), &low);
    if (range_is_word(range)) {        // all high words are 0
        *out = low;
        return WEFT_OK;
    }
    *out = (Val){ .value = low.value,
                  .high = PRINT("(%s + WIDE_HIGH(%s))", out->value, low.value),
                  .null = out->null,
                  .range = range };
    return WEFT_OK;
}

// A numeric constant may have 128 bits.
static bool fits_word(const Expr *constant)
{
    return type_is_float(constant->type) || constant->value.is_null ||
           (constant->value.i >= INT64_MIN && constant->value.i <= INT64_MAX);
}

static Val value_of_const(Weaver *w, const Expr *expr)
{
    Val out = { .is_float = type_is_float(expr->type), .range = range_of(expr, NULL, NULL) };
    if (expr->value.is_null) {
        out.value = "0", out.null = "1";
        return out;
    }
    out.value = out.is_float ? weave_param_f64(w, expr->value.f) : weave_param_i64(w, NULL, (i64)expr->value.i);
    if (!fits_word(expr)) out.high = weave_param_i64(w, NULL, (i64)(expr->value.i >> 64));
    return out;
}

// ---- numbers of 128 bits --------------------------------------------------------------------------------------------
//
// Such a value is two words of text, two's complement (not as columns have it, see weave_low_id).  It is made where
// ranges do not prove that 64 bits are enough, and its type is numeric then: no other has so many digits.

static Val constant_words(Weaver *w, i128 value)
{
    return (Val){ .value = weave_param_i64(w, NULL, (i64)value), .high = weave_param_i64(w, NULL, (i64)(value >> 64)) };
}

static Val widened(Weaver *w, Val val)
{
    val.stored = NULL;
    if (val.high) return named(w, val);
    val.value = weave_temp(w, "i64", val.value);
    val.high = PRINT("WIDE_HIGH(%s)", val.value);
    return val;
}

// NULL rows hold any words, so they are replaced before anything is checked.
static Val without_null(Weaver *w, Val val, const char *null)
{
    if (!null) return val;
    val.value = weave_temp(w, "i64", PRINT("(%s ? 0 : %s)", null, val.value));
    val.high = weave_temp(w, "i64", PRINT("(%s ? 0 : %s)", null, val.high));
    return val;
}

// R was made by a word of 128 bits, R_high with it.  38 digits are looked at where RANGE does not prove them (it is
// known then); a row that fails goes on with 0.
static Val wide_result(Weaver *w, const char *r, const char *null, Range range, const Expr *expr)
{
    Val out = { .value = r, .high = PRINT("%s_high", r), .null = null, .range = range };
    if (!range.known) {
        const int check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "numeric out of range");
        weave_stmt(w, "WIDE_CHECK(%s, WIDE_DIGITS(%s_high, %s), %d)", r, r, r, check);
    }
    if (range_is_word(out.range)) out.high = NULL;
    return out;
}

// A quotient of a kernel does not say what it shows: as many digits as one of that size.
static int shown_by(Type type) { return type_is_quotient(type) ? -1 : type.scale; }

static Val wide_quotient_of(Weaver *w, const Expr *expr, Val a, Val b)
{
    const Type  of = expr->args[0]->type, by = expr->args[1]->type;
    const char *null = either(w, a.null, b.null), *r = PRINT("e%d", w->n_temps++);
    if (null) null = shorten(w, "u8", null);
    a = without_null(w, widened(w, a), null), b = without_null(w, widened(w, b), null);
    const char *divisor = null ? PRINT("(%s | %s)", b.value, null) : b.value;
    weave_stmt(w, "WIDE_DIV(%s, %s, %s, %d, %d, %s, %s, %d, %d, %d, %d, %d)", r, a.high, a.value, of.scale,
               shown_by(of), b.high, divisor, by.scale, shown_by(by), expr->type.scale,
               weave_check(w, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero"),
               weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "numeric out of range"));
    return (Val){ .value = r, .high = PRINT("%s_high", r), .null = null,
                  .range = range_of_arithmetic(expr, a.range, b.range) };
}

static Val wide_cut_product(Weaver *w, const Expr *expr, Val a, Val b)
{
    const char *null = either(w, a.null, b.null), *r = PRINT("e%d", w->n_temps++);
    if (null) null = shorten(w, "u8", null);
    a = without_null(w, widened(w, a), null), b = without_null(w, widened(w, b), null);
    weave_stmt(w, "WIDE_MUL_ROUND(%s, %s, %s, %s, %s, %d, %d)", r, a.high, a.value, b.high, b.value, product_cut(expr),
               weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "numeric out of range"));
    return (Val){ .value = r, .high = PRINT("%s_high", r), .null = null,
                  .range = range_of_arithmetic(expr, a.range, b.range) };
}

static Val wide_arithmetic(Weaver *w, const Expr *expr, Val a, Val b)
{
    static const char *const words[] = { [OP_ADD] = "ADD", [OP_SUB] = "SUB", [OP_MUL] = "MUL", [OP_MOD] = "MOD" };
    if (expr->op == OP_DIV) return wide_quotient_of(w, expr, a, b);
    if (product_cut(expr) > 0) return wide_cut_product(w, expr, a, b);
    const Range range = range_of_call(expr->op, expr->type, a.range, b.range);
    const char *null = either(w, a.null, b.null), *r = PRINT("e%d", w->n_temps++);
    if (null) null = shorten(w, "u8", null);
    a = without_null(w, widened(w, a), null), b = without_null(w, widened(w, b), null);
    const bool  divides = expr->op == OP_MOD;
    const int   check = divides ? weave_check(w, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero")
                                : weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "numeric out of range");
    const char *divisor = divides && null ? PRINT("(%s | %s)", b.value, null) : b.value;
    weave_stmt(w, "WIDE_%s(%s, %s, %s, %s, %s, %d)", words[expr->op], r, a.high, a.value, b.high, divisor, check);
    return wide_result(w, r, null, range, expr);
}

static Val narrowed(Weaver *w, Val val, weft_status status, const char *message, int at)
{
    if (!val.high) return val;
    const Range word = range_of_type(TYPE(BIGINT));
    const char *name = PRINT("e%d", w->n_temps++);
    if (val.null) val.null = shorten(w, "u8", val.null);
    val = without_null(w, val, val.null);
    weave_stmt(w, "NARROW_CHECKED(%s, %s, %s, %d)", name, val.high, val.value, weave_check(w, status, at, message));
    val.value = name, val.high = NULL;
    val.range.known = true;
    val.range.low = MIN_OF(MAX_OF(val.range.low, word.low), 0);
    val.range.high = MAX_OF(MIN_OF(val.range.high, word.high), 0);
    return val;
}

weft_status weave_word(Weaver *w, const Expr *expr, Val *out)
{
    TRY(weave_value(w, expr, out));
    *out = narrowed(w, *out, WEFT_OUT_OF_RANGE, "a numeric value does not fit 64 bits", expr->at);
    return WEFT_OK;
}

static weft_status value_of_word(Weaver *w, const Expr *expr, Val *out)
{
    const bool is_high = expr_is_high_word(expr);
    TRY(weave_value(w, expr->args[0], out));
    const Range range = function_range(expr, &out->range);
    *out = widened(w, *out);
    *out = (Val){ .value = is_high ? PRINT("(%s - WIDE_HIGH(%s))", out->high, out->value) : out->value,
                  .null = out->null,
                  .range = range };
    return WEFT_OK;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

static const char *overflow_message(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: return "smallint out of range";
        case TYPE_INTEGER:  return "integer out of range";
        case TYPE_BIGINT:   return "bigint out of range";
        case TYPE_DATE:     return "date out of range";
        case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ: case TYPE_TIME: return "timestamp out of range";
        case TYPE_NUMERIC:  return "numeric out of range";
        default:            return "decimal out of range";
    }
}

static bool fits(Range range, Range bound) { return range.low >= bound.low && range.high <= bound.high; }

// VALUE is exact in 64 bits; fail where it leaves BOUND, unless RANGE proves that it cannot.
static const char *checked_inside(Weaver *w, const char *value, const char *null, Range range, Range bound, Type type,
                                  int at)
{
    if (fits(range, bound)) return value;
    const char *name = weave_temp(w, "i64", value);
    const int check =
        weave_check(w, type_is_time(type) ? WEFT_DATETIME_OVERFLOW : WEFT_OUT_OF_RANGE, at, overflow_message(type));
    weave_stmt(w, "CHECK(%s%s(%s >= %lldll && %s <= %lldll), %d)", null ? null : "", null ? " || " : "", name,
               (long long)bound.low, name, (long long)bound.high, check);
    return name;
}

static const char *checked_to_type(Weaver *w, const char *value, const char *null, Range range, Type type, int at)
{
    return checked_inside(w, value, null, range, range_of_type(type), type, at);
}

// CAN_FAIL: where a check fails so does the query, but the row goes on to the end of its tile.  It does so with a value
// of its range, since that may become an index.
static Val clipped(Weaver *w, Val val, Range bound, bool can_fail)
{
    val.range.low = MAX_OF(val.range.low, bound.low);
    val.range.high = MIN_OF(val.range.high, bound.high);
    if (!can_fail) return val;
    if (val.range.low > val.range.high) {          // every row fails
        val.range.low = val.range.high = 0;
        val.value = "0";
        return val;
    }
    if (val.range.high - val.range.low == (i128)UINT64_MAX) return val;        // a word holds no other
    const char *value = weave_temp(w, "i64", val.value), *low = weave_param_i64(w, NULL, (i64)val.range.low);
    const char *size = weave_param_i64(w, NULL, (i64)(u64)(val.range.high - val.range.low + 1));
    val.value = PRINT("(INSIDE((u64)%s - (u64)%s, %s) ? %s : %s)", value, low, size, value, low);
    return val;
}

static Val integer_arithmetic(Weaver *w, const Expr *expr, Val a, Val b)
{
    static const char *const symbols[] = { [OP_ADD] = "+", [OP_SUB] = "-", [OP_MUL] = "*" };
    static const char *const checked[] = {
        [OP_ADD] = "ADD_CHECKED", [OP_SUB] = "SUB_CHECKED", [OP_MUL] = "MUL_CHECKED"
    };
    Val out = { .null = either(w, a.null, b.null), .range = range_of_call(expr->op, expr->type, a.range, b.range) };
    const Range              word = range_of_type(TYPE(BIGINT));
    const bool               proved = fits(out.range, range_of_type(expr->type));
    if (out.null && !proved) out.null = shorten(w, "u8", out.null);
    if (fits(out.range, word)) {
        out.value = PRINT("(%s %s %s)", a.value, symbols[expr->op], b.value);
        out.value = checked_to_type(w, out.value, out.null, out.range, expr->type, expr->at);
    } else {
        const char *name = PRINT("e%d", w->n_temps++);
        const int   check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
        weave_stmt(w, "%s(%s, %s, %s, %d)", checked[expr->op], name, unless_null(w, &a, "0"), unless_null(w, &b, "0"),
                   check);
        out.value = checked_to_type(w, name, out.null, word, expr->type, expr->at);
    }
    return clipped(w, out, range_of_type(expr->type), !proved);
}

static Val integer_division(Weaver *w, const Expr *expr, Val a, Val b)
{
    const bool  is_div = expr->op == OP_DIV;
    Val out = { .null = either(w, a.null, b.null), .range = range_of_call(expr->op, expr->type, a.range, b.range) };
    const char *name = PRINT("e%d", w->n_temps++);
    const int   check = weave_check(w, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero");
    const char *guard = out.null ? shorten(w, "u8", out.null) : NULL;
    const char *dividend = guard ? PRINT("(%s ? 0 : %s)", guard, a.value) : a.value,
               *divisor = guard ? PRINT("(%s ? 1 : %s)", guard, b.value) : b.value;
    weave_stmt(w, "%s_CHECKED(%s, %s, %s, %d)", is_div ? "DIV" : "MOD", name, dividend, divisor, check);
    out.null = guard;
    out.value = name;
    // Only the smallest value / -1 leaves the type; in 64 bits it wraps to itself, which the operand's range tells.
    const bool can_overflow =
        is_div && a.range.low <= range_of_type(expr->type).low && b.range.low <= -1 && b.range.high >= -1;
    if (can_overflow) {
        const int overflow = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
        weave_stmt(w, "CHECK(%s%s!(%s == -1 && %s == -%lldll - 1), %d)", guard ? guard : "", guard ? " || " : "",
                   b.value, a.value, (long long)-(range_of_type(expr->type).low + 1), overflow);
    }
    return clipped(w, out, range_of_type(expr->type), can_overflow);
}

// Infinity out of finite operands is an overflow, as in PostgreSQL; no check where ranges prove that there is none: it
// keeps loops from
// being vectorised.
static const char *checked_float(Weaver *w, const Expr *expr, const char *value, const char *a, const char *b,
                                 const char *null, bool can_overflow)
{
    const char *name = weave_temp(w, "f64", PRINT("%s%s", expr->type.kind == TYPE_REAL ? "(f64)(f32)" : "", value));
    if (!can_overflow) return name;
    const int check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "value out of range: overflow");
    weave_stmt(w, "CHECK(%s%sFINITE(%s) | !FINITE(%s) | !FINITE(%s), %d)", null ? null : "", null ? " | " : "", name, a,
               b, check);
    return name;
}

static Val float_arithmetic(Weaver *w, const Expr *expr, Val a, Val b)
{
    Val out = { .is_float = true,
                .null = either(w, a.null, b.null),
                .range = range_of_call(expr->op, expr->type, a.range, b.range) };
    if (out.null) out.null = shorten(w, "u8", out.null);
    const char *value, *x = weave_temp(w, "f64", a.value), *y = weave_temp(w, "f64", b.value);
    if (expr->op == OP_DIV) {
        value = PRINT("e%d", w->n_temps++);
        const int check = weave_check(w, WEFT_DIVISION_BY_ZERO, expr->at, "division by zero");
        weave_stmt(w, "DIV_F64_CHECKED(%s, %s, %s, %d)", value, x, out.null ? PRINT("(%s ? 1.0 : %s)", out.null, y) : y,
                   check);
    } else {
        value = PRINT("(%s %c %s)", x, expr->op == OP_ADD ? '+' : expr->op == OP_SUB ? '-' : '*', y);
    }
    out.value =
        checked_float(w, expr, value, x, y, out.null, float_call_overflows(expr->op, expr->type, a.range.f, b.range.f));
    if (float_call_underflows(expr->op, expr->type, a.range.f, b.range.f)) {
        const int check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "value out of range: underflow");
        weave_stmt(w, "CHECK(%s%s%s != 0 | %s == 0 | %s%s%s, %d)", out.null ? out.null : "", out.null ? " | " : "",
                   out.value, x, expr->op == OP_MUL ? "" : "!FINITE(", y, expr->op == OP_MUL ? " == 0" : ")", check);
    }
    return out;
}

static Val negate(Weaver *w, const Expr *expr, Val a)
{
    Val out = a;
    out.stored = NULL;
    if (a.is_float) {
        const char *value = weave_temp(w, "f64", a.value);
        out.value = PRINT("(-%s)", value);
        out.range = range_of_call(expr->op, expr->type, a.range, a.range);
        return out;
    }
    const Range word = range_of_type(TYPE(BIGINT));
    out.range = range_of_call(expr->op, expr->type, a.range, (Range){ .known = true });
    const char *value = weave_temp(w, "i64", a.value);
    const bool  can_fail = !fits(out.range, range_of_type(expr->type));
    if (!fits(out.range, word)) {      // the smallest bigint has no opposite
        const int check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
        weave_stmt(w, "CHECK(%s%s%s != -9223372036854775807ll - 1, %d)", a.null ? a.null : "", a.null ? " || " : "",
                   value, check);
        out.range = word;
    }
    out.value = checked_to_type(w, PRINT("(i64)(0 - (u64)%s)", value), a.null, out.range, expr->type, expr->at);
    return clipped(w, out, range_of_type(expr->type), can_fail);
}

static bool is_wide_call(const Expr *expr, Val a, Val b)
{
    if (expr->type.kind != TYPE_NUMERIC) return false;
    return a.high || b.high || !range_is_word(range_of_arithmetic(expr, a.range, b.range));
}

static Val wide_negation(Weaver *w, const Expr *expr, Val a)
{
    const Val zero = { .value = "0", .high = "0", .range = { .known = true } };
    Expr      difference = *expr;
    difference.op = OP_SUB;
    return wide_arithmetic(w, &difference, zero, a);
}

static weft_status value_of_arithmetic(Weaver *w, const Expr *expr, Val *out)
{
    Val a, b;
    TRY(weave_value(w, expr->args[0], &a));
    a = named(w, a);
    if (expr->op == OP_NEG) {
        const bool is_wide = is_wide_call(expr, a, (Val){ .range = { .known = true } });
        *out = is_wide ? wide_negation(w, expr, a) : negate(w, expr, a);
        return WEFT_OK;
    }
    TRY(weave_value(w, expr->args[1], &b));
    b = named(w, b);
    if (is_wide_call(expr, a, b)) {
        *out = wide_arithmetic(w, expr, a, b);
        return WEFT_OK;
    }
    if (type_is_float(expr->type) && expr->op == OP_MOD)
        return fail(w->err, WEFT_UNSUPPORTED, expr->at, "%% of floating-point numbers is not supported");
    *out = type_is_float(expr->type)                  ? float_arithmetic(w, expr, a, b)
           : expr->op == OP_DIV || expr->op == OP_MOD ? integer_division(w, expr, a, b)
                                                      : integer_arithmetic(w, expr, a, b);
    return WEFT_OK;
}

// ---- casts ----------------------------------------------------------------------------------------------------------

static int scale_of(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC ? type.scale : 0; }

static bool is_number(Type type) { return type.kind <= TYPE_DOUBLE || type.kind == TYPE_NUMERIC; }

static i128 power_of(int n)
{
    i128 power = 1;
    while (n-- > 0) power *= 10;
    return power;
}

static double ten_to_f64(int n) { return (double)power_of(n); }

// What a cast may give: a decimal's digits are those that it says.  What is computed has as many as a word holds.
static Range range_of_target(Type type)
{
    Range bound = range_of_type(type);
    if (type.kind == TYPE_DECIMAL && power_of_ten(type.precision) - 1 < bound.high)
        bound.high = power_of_ten(type.precision) - 1, bound.low = -bound.high;
    return bound;
}

// Doubles that a word does not hold fail before they are rounded; of those below 2^63, this is the largest.
#define WORD_LOW  (-9223372036854775808.0)
#define WORD_HIGH 9223372036854774784.0

static Val float_to_integer(Weaver *w, const Expr *expr, Val a)
{
    const Range bound = range_of_target(expr->type), word = range_of_type(TYPE(BIGINT));
    const char *name = PRINT("e%d", w->n_temps++), *value = a.value;
    const int   check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
    Val         out = { .null = a.null, .range = word };
    if (a.null) value = PRINT("(%s ? 0.0 : %s)", a.null, value);
    weave_stmt(w, "ROUND_F64(%s, %s, %s, %s, %d)", name, value, weave_param_f64(w, WORD_LOW),
               weave_param_f64(w, WORD_HIGH), check);
    out.value = checked_inside(w, name, a.null, word, bound, expr->type, expr->at);
    return clipped(w, out, bound, !fits(word, bound));
}

static Val rescale(Weaver *w, const Expr *expr, Val a)
{
    const int   up = scale_of(expr->type) - scale_of(expr->args[0]->type);
    const Range word = range_of_type(TYPE(BIGINT)), bound = range_of_target(expr->type);
    Val         out = { .null = a.null, .range = a.range };
    if (up == 0) {
        out.value = checked_inside(w, a.value, a.null, a.range, bound, expr->type, expr->at);
        return clipped(w, out, bound, !fits(a.range, bound));
    }
    const char *name = PRINT("e%d", w->n_temps), *power = weave_param_i64(w, NULL, power_of_ten(up > 0 ? up : -up));
    const i128  factor = power_of_ten(up > 0 ? up : -up);
    if (up < 0) {
        w->n_temps++;
        weave_stmt(w, "ROUND_DIV(%s, %s, %s)", name, a.value, power);
        out.range.low = a.range.low / factor - 1, out.range.high = a.range.high / factor + 1;
        out.value = checked_inside(w, name, a.null, out.range, bound, expr->type, expr->at);
        return clipped(w, out, bound, !fits(out.range, bound));
    }
    out.range.low = a.range.low * factor, out.range.high = a.range.high * factor;
    if (fits(out.range, word)) {
        out.value =
            checked_inside(w, PRINT("(%s * %s)", a.value, power), a.null, out.range, bound, expr->type, expr->at);
    } else {
        w->n_temps++;
        const int check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
        weave_stmt(w, "MUL_CHECKED(%s, %s, %s, %d)", name, unless_null(w, &a, "0"), power, check);
        out.value = checked_inside(w, name, a.null, word, bound, expr->type, expr->at);
    }
    return clipped(w, out, bound, !fits(out.range, bound));
}

static Range rescaled_range(Range a, int up)
{
    const Type to = { TYPE_NUMERIC, 38, 0 };
    const i128 factor = power_of(up < 0 ? -up : up);
    const Range power = { .known = true, .low = factor, .high = factor };
    if (up >= 0) return up ? range_of_call(OP_MUL, to, a, power) : a;
    return (Range){ .known = true, .nullable = a.nullable, .low = a.low / factor - 1, .high = a.high / factor + 1 };
}

static bool is_wide_cast(const Expr *expr, Val a)
{
    const int up = scale_of(expr->type) - scale_of(expr->args[0]->type);
    if (a.is_float || type_is_float(expr->type) || expr->type.kind == TYPE_BOOLEAN) return false;
    return a.high || up > 18 || up < -18 ||
           (expr->type.kind == TYPE_NUMERIC && !range_is_word(rescaled_range(a.range, up)));
}

// numeric(p, s) with fewer than 38 digits.
static Val has_digits(Weaver *w, const Expr *expr, Val val)
{
    if (!val.high || expr->type.precision >= 38) return val;            // a quotient's type says 39
    const i128 most = power_of(expr->type.precision);
    if (val.range.low > -most && val.range.high < most) return val;
    const Val   least = constant_words(w, -most), end = constant_words(w, most);
    const char *name = PRINT("e%d", w->n_temps++);
    const int   check = weave_check(w, WEFT_OUT_OF_RANGE, expr->at, overflow_message(expr->type));
    weave_stmt(w, "i64 %s = %s, %s_high = %s;", name, val.value, name, val.high);
    const char *above = PRINT("WIDE_LESS(%s, %s, %s_high, %s)", least.high, least.value, name, name),
               *below = PRINT("WIDE_LESS(%s_high, %s, %s, %s)", name, name, end.high, end.value);
    weave_stmt(w, "WIDE_CHECK(%s, %s & %s, %d)", name, above, below, check);
    val.value = name, val.high = PRINT("%s_high", name);
    return val;
}

// Between exact types, where one side has 128 bits, or what lies between: rescaled, then looked at.
static Val wide_rescale(Weaver *w, const Expr *expr, Val a)
{
    const int   up = scale_of(expr->type) - scale_of(expr->args[0]->type);
    const Range range = rescaled_range(a.range, up), bound = range_of_target(expr->type);
    const char *null = a.null ? shorten(w, "u8", a.null) : NULL, *r;
    Val         out = without_null(w, widened(w, a), null);
    out.null = null;
    if (up) {
        const Val power = constant_words(w, power_of(up < 0 ? -up : up));
        r = PRINT("e%d", w->n_temps++);
        if (up > 0)
            weave_stmt(w, "WIDE_MUL(%s, %s, %s, %s, %s, %d)", r, out.high, out.value, power.high, power.value,
                       weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "numeric out of range"));
        else
            weave_stmt(w, "WIDE_ROUND(%s, %s, %s, %s, %s)", r, out.high, out.value, power.high, power.value);
        out = wide_result(w, r, null, range, expr);
    }
    if (expr->type.kind == TYPE_NUMERIC) return has_digits(w, expr, out);
    out = narrowed(w, out, WEFT_OUT_OF_RANGE, overflow_message(expr->type), expr->at);
    out.value = checked_inside(w, out.value, null, out.range, bound, expr->type, expr->at);
    return clipped(w, out, bound, !fits(out.range, bound));
}

// By the digits that its type has, as the interpreter does it (plan/eval_cast.c).  Rounded first, then looked at:
// 99.994 is a decimal(4,2).  A numeric without a precision loses none of them.
static Val float_to_decimal(Weaver *w, const Expr *expr, Val a)
{
    const Range bound = range_of_target(expr->type);
    const bool  is_exact = type_is_trimmed(expr->type);
    const int   n_digits = (expr->args[0]->type.kind == TYPE_REAL ? 6 : 15) * (is_exact ? -1 : 1);
    const char *name = PRINT("e%d", w->n_temps++);
    const char *message = is_exact ? NUMERIC_LOSES_DIGITS : overflow_message(expr->type);
    Range       range = range_of_type((Type){ TYPE_NUMERIC, 38, 0 });
    range.nullable = a.range.nullable;
    weave_stmt(w, "WIDE_FROM_F64(%s, %s, %d, %d, %d)", name, unless_null(w, &a, "0.0"), n_digits,
               scale_of(expr->type), weave_check(w, WEFT_OUT_OF_RANGE, expr->at, message));
    if (expr->type.kind == TYPE_NUMERIC) return has_digits(w, expr, wide_result(w, name, a.null, range, expr));
    Val out = { .value = name, .high = PRINT("%s_high", name), .null = a.null, .range = range };
    out = narrowed(w, out, WEFT_OUT_OF_RANGE, message, expr->at);
    out.value = checked_inside(w, out.value, out.null, out.range, bound, expr->type, expr->at);
    return clipped(w, out, bound, !fits(out.range, bound));
}

// Number and power of ten are exact as doubles: then their quotient is the nearest double.
static bool divides_exactly(const Val *a, int scale)
{
    const i128 most = (i128)1 << 53;
    return !a->high && scale <= 22 && a->range.low >= -most && a->range.high <= most;
}

// A double that no real holds is an error; so is one that would round to 0.
static const char *double_to_real(Weaver *w, const Expr *expr, Val a)
{
    const char *null = a.null ? shorten(w, "u8", a.null) : NULL, *bar = null ? " | " : "";
    const char *value = weave_temp(w, "f64", a.value), *name = weave_temp(w, "f64", PRINT("(f64)(f32)%s", value));
    if (float_cast_overflows(a.range.f, expr->type))
        weave_stmt(w, "CHECK(%s%sFINITE(%s) | !FINITE(%s), %d)", null ? null : "", bar, name, value,
                   weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "value out of range: overflow"));
    if (float_cast_underflows(a.range.f, expr->type))
        weave_stmt(w, "CHECK(%s%s%s != 0 | %s == 0, %d)", null ? null : "", bar, name, value,
                   weave_check(w, WEFT_OUT_OF_RANGE, expr->at, "value out of range: underflow"));
    return name;
}

static weft_status value_of_cast(Weaver *w, const Expr *expr, Val *out)
{
    const Type from = expr->args[0]->type, to = expr->type;
    Val        a;
    TRY(weave_value(w, expr->args[0], &a));
    a = named(w, a);
    const bool numbers = is_number(from) && is_number(to);
    *out = a;
    if (to.kind == TYPE_BOOLEAN || type_is_float(to)) out->stored = NULL;
    if (type_equal(from, to) || (from.kind == TYPE_TEXT && to.kind == TYPE_TEXT) || from.kind == TYPE_NULL)
        return WEFT_OK;
    if (!numbers && from.kind != to.kind) {
        char a_name[32], b_name[32];
        return fail(w->err, WEFT_UNSUPPORTED, expr->at, "cast from %s to %s is not supported", type_name(from, a_name),
                    type_name(to, b_name));
    }
    if (to.kind == TYPE_BOOLEAN) {
        out->value = PRINT("(i64)(%s != 0)", a.value);
        out->range.low = 0, out->range.high = 1;
    } else if (type_is_float(to)) {
        const char *cast = to.kind == TYPE_REAL ? "(f64)(f32)" : "";
        const char *number = a.high ? PRINT("WIDE_F64(%s, %s)", a.high, a.value) : PRINT("(f64)%s", a.value);
        if (a.is_float) out->value = to.kind == TYPE_REAL ? double_to_real(w, expr, a) : a.value;
        else if (scale_of(from) && !divides_exactly(&a, scale_of(from))) {
            a = widened(w, a);
            out->value = PRINT("%sWIDE_DECIMAL_F64(%s, %s, %d)", cast, a.high, a.value, scale_of(from));
        } else if (scale_of(from))
            out->value = PRINT("%s(%s / %s)", cast, number, weave_param_f64(w, ten_to_f64(scale_of(from))));
        else out->value = PRINT("%s%s", cast, number);
        out->high = NULL;
        out->is_float = true;
        out->range = range_of_type(to);
        out->range.nullable = a.null != NULL;
        out->range.f = float_range_of_cast(a.range, from, to);
    } else {
        *out = a.is_float && type_is_integer(to) ? float_to_integer(w, expr, a)
               : a.is_float                      ? float_to_decimal(w, expr, a)
               : is_wide_cast(expr, a)           ? wide_rescale(w, expr, a)
                                                 : rescale(w, expr, a);
    }
    return WEFT_OK;
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static const char *compare_floats(Weaver *w, Op op, const char *a, const char *b)
{
    a = weave_temp(w, "f64", a), b = weave_temp(w, "f64", b);
    switch (op) {
        case OP_EQ: return PRINT("SAME_F64(%s, %s)", a, b);
        case OP_NE: return PRINT("!SAME_F64(%s, %s)", a, b);
        case OP_LT: return PRINT("LESS_F64(%s, %s)", a, b);
        case OP_GT: return PRINT("LESS_F64(%s, %s)", b, a);
        case OP_LE: return PRINT("!LESS_F64(%s, %s)", b, a);
        default:    return PRINT("!LESS_F64(%s, %s)", a, b);
    }
}

static const char *and_not_null(Weaver *w, const char *condition, const char *null)
{
    return null ? PRINT("(!%s & %s)", null, condition) : condition;
}

static const char *compare_wide(Weaver *w, Op op, Val a, Val b)
{
    a = widened(w, a), b = widened(w, b);
    switch (op) {
        case OP_EQ: return PRINT("WIDE_SAME(%s, %s, %s, %s)", a.high, a.value, b.high, b.value);
        case OP_NE: return PRINT("!WIDE_SAME(%s, %s, %s, %s)", a.high, a.value, b.high, b.value);
        case OP_LT: return PRINT("WIDE_LESS(%s, %s, %s, %s)", a.high, a.value, b.high, b.value);
        case OP_GT: return PRINT("WIDE_LESS(%s, %s, %s, %s)", b.high, b.value, a.high, a.value);
        case OP_LE: return PRINT("!WIDE_LESS(%s, %s, %s, %s)", b.high, b.value, a.high, a.value);
        default:    return PRINT("!WIDE_LESS(%s, %s, %s, %s)", a.high, a.value, b.high, b.value);
    }
}

static weft_status truth_of_comparison(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    static const char *const symbols[] = {
        [OP_EQ] = "==", [OP_NE] = "!=", [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="
    };
    Val                      a, b;
    TRY(weave_value(w, expr->args[0], &a));
    TRY(weave_value(w, expr->args[1], &b));
    if (expr->args[0]->type.kind == TYPE_TEXT) TRY(weave_text_compare(w, expr->op, &a, &b));
    a = named(w, a), b = named(w, b);
    const char *null = either(w, a.null, b.null);
    const char *holds = a.is_float         ? compare_floats(w, expr->op, a.value, b.value)
                        : a.high || b.high ? compare_wide(w, expr->op, a, b)
                                           : PRINT("(%s %s %s)", a.value, symbols[expr->op], b.value);
    *condition = and_not_null(w, wanted ? holds : PRINT("!%s", holds), null);
    return WEFT_OK;
}

weft_status weave_text_in(Weaver *w, const Expr *expr, Dictionary *dict, u32 dict_count, Val *out)
{
    const bool is_const = expr->kind == EXPR_CONST, is_null = is_const && expr->value.is_null;
    if (is_const && !is_null) {
        *out = weave_code_in(w, &expr->value, dict, dict_count);
        return WEFT_OK;
    }
    TRY(weave_value(w, expr, out));
    if (!is_null) TRY(weave_recode(w, out, dict, dict_count));     // the code of NULL is never read
    out->dict = dict, out->dict_count = dict_count;
    return WEFT_OK;
}

static weft_status truth_of_text_test(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    TextTest test;
    Val      text;
    TRY(weave_text_test(w, expr, &test));
    TRY(weave_text_in(w, test.text, test.dict, test.dict_count, &text));
    if (test.is_run) {
        const char *low = weave_param_i64(w, NULL, test.low);
        const char *size = weave_param_i64(w, NULL, test.low <= test.high ? test.high - test.low + 1 : 0);
        *condition =
            and_not_null(w, PRINT("%sINSIDE(%s - %s, %s)", wanted ? "" : "!", text.value, low, size), text.null);
        return WEFT_OK;
    }
    // A NULL's code is arbitrary but a valid one where there are codes at all; it must not be looked up where it is
    // not.
    const char *code = text.null ? PRINT("(%s ? 0 : %s)", text.null, text.value) : text.value, *name, *table;
    if (test.bits) {
        name = weave_name(w, "matches");
        table = weave_table(w, "u8", name, test.bits, ((size_t)test.dict_count / 64 + 1) * sizeof *test.bits);
        *condition = and_not_null(w, PRINT("(BIT(%s, %s) == %d)", table, code, wanted), text.null);
        return WEFT_OK;
    }
    name = weave_name(w, "codes");
    table = weave_table(w, "u8", name, test.outcome, (size_t)test.dict_count + 1);
    *condition = and_not_null(w, PRINT("(%s[%s] == %d)", table, code, wanted), text.null);
    return WEFT_OK;
}

// ---- x in (...) -----------------------------------------------------------------------------------------------------

// Few constants are compared one by one, as compilers make short work of that.  Of many the code would grow with them,
// and what compilers take for it faster:
// they are a table, of bits where they lie close together, or of themselves in order.
#define BITS_OF_EACH  256  // of a table of bits, at most, for each constant: four times what it takes as a word

static const char *one_by_one(Weaver *w, const Expr *expr, const Val *a)
{
    Text text = { 0 };
    for (int i = 1; i < expr->n_args; i++) {
        if (expr->args[i]->value.is_null || !fits_word(expr->args[i])) continue;
        const Val b = value_of_const(w, expr->args[i]);
        text_add(&text, a->is_float ? "%sSAME_F64(%s, %s)" : "%s(%s == %s)", text.length ? " | " : "", a->value,
                 b.value);
    }
    const char *any = text.length ? PRINT("(%s)", text.bytes) : "0";
    text_free(&text);
    return any;
}

static int by_number(const void *a, const void *b)
{
    const i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

static int by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x != x || y != y ? (x != x) - (y != y) : (x > y) - (x < y);     // NaN last
}

static const char *one_of_doubles(Weaver *w, const Expr *expr, const char *value, int n)
{
    double *sorted = arena_array(w->arena, double, (size_t)n);
    int     at = 0;
    for (int i = 1; i < expr->n_args; i++)
        if (!expr->args[i]->value.is_null) sorted[at++] = expr->args[i]->value.f;
    qsort(sorted, (size_t)n, sizeof *sorted, by_double);
    const char *table = weave_table(w, "f64", weave_name(w, "constants"), sorted, (size_t)n * sizeof *sorted);
    const char *found = PRINT("e%d", w->n_temps++);
    weave_stmt(w, "ONE_OF_F64(%s, %s, %s, %s)", found, value, table, weave_param_i64(w, NULL, n));
    return found;
}

static const char *one_of_bits(Weaver *w, const char *value, const i64 *sorted, int n)
{
    const u64 low = (u64)sorted[0], size = (u64)sorted[n - 1] - low + 1;
    u8       *bits = arena_array(w->arena, u8, (size_t)(size / 8 + 1));
    for (int i = 0; i < n; i++) bits[((u64)sorted[i] - low) / 8] |= (u8)(1 << ((u64)sorted[i] - low) % 8);
    const char *table = weave_table(w, "u8", weave_name(w, "constants"), bits, (size_t)(size / 8 + 1));
    const char *at = weave_temp(w, "u64", PRINT("(u64)%s - (u64)%s", value, weave_param_i64(w, NULL, sorted[0])));
    return PRINT("(INSIDE(%s, %s) && BIT(%s, %s))", at, weave_param_i64(w, NULL, (i64)size), table, at);
}

static const char *one_of_numbers(Weaver *w, const Expr *expr, const char *value, int n)
{
    i64 *sorted = arena_array(w->arena, i64, (size_t)n);
    int  at = 0;
    for (int i = 1; i < expr->n_args; i++)
        if (!expr->args[i]->value.is_null && fits_word(expr->args[i])) sorted[at++] = (i64)expr->args[i]->value.i;
    if (!at) return "0";
    n = at;
    qsort(sorted, (size_t)n, sizeof *sorted, by_number);
    if ((u64)sorted[n - 1] - (u64)sorted[0] < (u64)n * BITS_OF_EACH) return one_of_bits(w, value, sorted, n);
    const char *table = weave_table(w, "i64", weave_name(w, "constants"), sorted, (size_t)n * sizeof *sorted);
    const char *found = PRINT("e%d", w->n_temps++);
    weave_stmt(w, "ONE_OF(%s, %s, %s, %s)", found, value, table, weave_param_i64(w, NULL, n));
    return found;
}

// Constants are in order (plan/expr_type.c, type_in).
static const char *one_of_wide(Weaver *w, const Expr *expr, Val a, int n)
{
    i64 *words = arena_array(w->arena, i64, 2 * (size_t)n + 1);
    int  at = 0;
    if (!n) return "0";
    for (int i = 1; i < expr->n_args; i++) {
        const Value *value = &expr->args[i]->value;
        if (!value->is_null) words[at++] = (i64)(value->i >> 64), words[at++] = (i64)value->i;
    }
    const char *table = weave_table(w, "i64", weave_name(w, "constants"), words, 2 * (size_t)n * sizeof *words);
    const char *found = PRINT("e%d", w->n_temps++);
    weave_stmt(w, "WIDE_ONE_OF(%s, %s, %s, %s, %s)", found, a.high, a.value, table, weave_param_i64(w, NULL, n));
    return found;
}

// True when some constant equals, false when all differ and none is NULL.
static weft_status truth_of_in(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    Val a;
    int n = 0;
    for (int i = 1; i < expr->n_args; i++) n += !expr->args[i]->value.is_null;
    TRY(weave_value(w, expr->args[0], &a));
    a.value = weave_temp(w, a.is_float ? "f64" : "i64", a.value);
    const bool  has_null = n < expr->n_args - 1;
    if (a.high) a.high = weave_temp(w, "i64", a.high);
    const char *any = a.high             ? one_of_wide(w, expr, a, n)
                      : n <= FEW_CONSTANTS ? one_by_one(w, expr, &a)
                      : a.is_float       ? one_of_doubles(w, expr, a.value, n)
                                         : one_of_numbers(w, expr, a.value, n);
    *condition = wanted ? and_not_null(w, any, a.null) : has_null ? "0" : and_not_null(w, PRINT("!%s", any), a.null);
    return WEFT_OK;
}

weft_status weave_truth_apart(Weaver *w, const Expr *expr, bool wanted, const char **condition, const char **statements)
{
    const Text outer = w->block;
    w->block = (Text){ 0 };
    const weft_status status = weave_truth(w, expr, wanted, condition);
    *statements = w->block.length ? text_keep(w->arena, &w->block) : NULL;
    text_free(&w->block);
    w->block = outer;
    return status;
}

// Both sides are worked out and joined without a branch, unless the right one can fail: then only where it matters.
static weft_status truth_of_both(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    const bool  needs_both = (expr->op == OP_AND) == wanted;
    const char *a, *b, *statements;
    TRY(weave_truth(w, expr->args[0], wanted, &a));
    TRY(weave_truth_apart(w, expr->args[1], wanted, &b, &statements));
    if (statements && expr_can_fail(expr->args[1])) {
        // The left side decides alone when it is the opposite (AND: false, OR: true), whatever is wanted.
        const char *left = weave_temp(w, "u8", a), *decides = left;
        if (wanted != (expr->op == OP_OR)) TRY(weave_truth(w, expr->args[0], expr->op == OP_OR, &decides));
        const char *name = PRINT("e%d", w->n_temps++);
        weave_stmt(w, "u8 %s = %s;", name, needs_both ? "0" : left);
        weave_stmt(w, "if (!%s) {", decides);
        text_add(&w->block, "%s", statements);
        weave_stmt(w, "%s = %s %s (%s); }", name, left, needs_both ? "&" : "|", b);
        *condition = name;
        return WEFT_OK;
    }
    if (statements) text_add(&w->block, "%s", statements);
    *condition = shorten(w, "u8", PRINT("(%s %s %s)", a, needs_both ? "&" : "|", b));
    return WEFT_OK;
}

static weft_status truth_of_value(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    Val val;
    TRY(weave_value(w, expr, &val));
    *condition = and_not_null(w, PRINT("(%s %s 0)", val.value, wanted ? "!=" : "=="), val.null);
    return WEFT_OK;
}

static weft_status truth_of_null_test(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    Val val;
    TRY(weave_value(w, expr->args[0], &val));
    const bool is_null_wanted = (expr->op == OP_IS_NULL) == wanted;
    *condition = !val.null ? (is_null_wanted ? "0" : "1") : PRINT(is_null_wanted ? "(%s)" : "(!%s)", val.null);
    return WEFT_OK;
}

weft_status weave_truth(Weaver *w, const Expr *expr, bool wanted, const char **condition)
{
    if (expr->kind != EXPR_CALL || weave_is_island(expr)) return truth_of_value(w, expr, wanted, condition);
    if (weave_is_text_test(expr)) return truth_of_text_test(w, expr, wanted, condition);
    switch (expr->op) {
        case OP_AND: case OP_OR: return truth_of_both(w, expr, wanted, condition);
        case OP_NOT: return weave_truth(w, expr->args[0], !wanted, condition);
        case OP_IS_NULL: case OP_IS_NOT_NULL: return truth_of_null_test(w, expr, wanted, condition);
        case OP_IN: return truth_of_in(w, expr, wanted, condition);
        case OP_EQ:
        case OP_NE:
        case OP_LT:
        case OP_LE:
        case OP_GT:
        case OP_GE: return truth_of_comparison(w, expr, wanted, condition);
        case OP_LIKE:
        case OP_ILIKE:
            return fail(w->err, WEFT_UNSUPPORTED, expr->at,
                        "LIKE with a pattern that is not constant is not supported");
        default: return truth_of_value(w, expr, wanted, condition);
    }
}

static Range column_range(void *context, const Expr *column)
{
    const Var *var = weave_var_of(context, column);
    if (var && weave_low_var(context, column->column)) return range_of_words(var->range);
    return var ? var->range : range_of_type(column->type);
}

FloatRange weave_float_range(Weaver *w, const Expr *expr)
{
    const FloatRange range = range_of(expr, column_range, w).f;
    return range.known ? range : float_range_any();
}

static weft_status value_of_condition(Weaver *w, const Expr *expr, Val *out)
{
    const char *is_true, *is_false;
    TRY(weave_truth(w, expr, true, &is_true));
    *out =
        (Val){ .value = PRINT("(i64)%s", shorten(w, "u8", is_true)), .range = { .known = true, .low = 0, .high = 1 } };
    if (!range_of(expr, column_range, w).nullable) return WEFT_OK;
    const char *name = weave_temp(w, "u8", is_true);
    TRY(weave_truth(w, expr, false, &is_false));
    out->value = PRINT("(i64)%s", name);
    out->null = weave_temp(w, "u8", PRINT("!(%s | %s)", name, is_false));
    out->range.nullable = true;
    return WEFT_OK;
}

// ---- choices --------------------------------------------------------------------------------------------------------

static Range unite(Range a, Range b)
{
    if (a.low > a.high) { b.nullable |= a.nullable; return b; }
    if (b.low > b.high) { a.nullable |= b.nullable; return a; }
    return (Range){ .known = a.known && b.known,
                    .nullable = a.nullable || b.nullable,
                    .low = MIN_OF(a.low, b.low),
                    .high = MAX_OF(a.high, b.high) };
}

typedef struct Choice {                // the variable that branches assign to
    const char *name;
    bool        is_float;
    bool        is_wide;               // 128 bits: NAME_high beside it
    Dictionary *dict;                  // text: all branches give codes of this
    u32         dict_count;
    Range       range;
} Choice;

static weft_status assign(Weaver *w, const Expr *expr, Choice *choice)
{
    Val val;
    if (choice->dict) TRY(weave_text_in(w, expr, choice->dict, choice->dict_count, &val));
    else if (choice->is_wide) TRY(weave_value(w, expr, &val));
    else TRY(weave_word(w, expr, &val));
    if (choice->is_wide) {
        val = widened(w, val);
        weave_stmt(w, "%s_high = %s;", choice->name, val.high);
    }
    weave_stmt(w, "%s = %s;", choice->name, val.value);
    weave_stmt(w, "%s_null = %s;", choice->name, val.null ? val.null : "0");
    val.range.nullable |= val.null != NULL;
    choice->range = unite(choice->range, val.range);
    return WEFT_OK;
}

static weft_status open_choice(Weaver *w, const Expr *expr, Choice *choice)
{
    *choice = (Choice){ .name = PRINT("e%d", w->n_temps++),
                        .is_float = type_is_float(expr->type),
                        .is_wide = expr->type.kind == TYPE_NUMERIC && !range_is_word(range_of(expr, column_range, w)),
                        .range = { .known = true, .low = 0, .high = -1 } };
    if (expr->type.kind == TYPE_TEXT) TRY(weave_text_dict(w, expr, &choice->dict, &choice->dict_count));
    weave_stmt(w, "%s %s; u8 %s_null;", choice->is_float ? "f64" : "i64", choice->name, choice->name);
    if (choice->is_wide) weave_stmt(w, "i64 %s_high;", choice->name);
    return WEFT_OK;
}

static Val close_choice(Weaver *w, const Choice *choice)
{
    Val out = { .value = choice->name,
                .is_float = choice->is_float,
                .range = choice->range,
                .dict = choice->dict,
                .dict_count = choice->dict_count };
    if (choice->is_wide) out.high = PRINT("%s_high", choice->name);
    if (choice->range.nullable) out.null = PRINT("%s_null", choice->name);
    return out;
}

static weft_status value_of_case(Weaver *w, const Expr *expr, Val *out)
{
    Choice choice;
    int    depth = 0;
    TRY(open_choice(w, expr, &choice));
    for (int i = 0; i + 1 < expr->n_args; i += 2, depth++) {
        const char *condition;
        TRY(weave_truth(w, expr->args[i], true, &condition));
        weave_stmt(w, "if (%s) {", condition);
        TRY(assign(w, expr->args[i + 1], &choice));
        weave_stmt(w, "} else {");
    }
    TRY(assign(w, expr->args[expr->n_args - 1], &choice));
    Text closing = { 0 };
    for (int i = 0; i < depth; i++) text_add_bytes(&closing, "}", 1);
    weave_stmt(w, "%s", text_keep(w->arena, &closing));
    *out = close_choice(w, &choice);
    return WEFT_OK;
}

static weft_status value_of_coalesce(Weaver *w, const Expr *expr, Val *out)
{
    Choice choice;
    bool   can_be_null = true;
    TRY(open_choice(w, expr, &choice));
    TRY(assign(w, expr->args[0], &choice));
    can_be_null = choice.range.nullable;
    for (int i = 1; i < expr->n_args; i++) {
        choice.range.nullable = false;
        weave_stmt(w, "if (%s_null) {", choice.name);
        TRY(assign(w, expr->args[i], &choice));
        weave_stmt(w, "}");
        can_be_null = can_be_null && choice.range.nullable;
    }
    choice.range.nullable = can_be_null;
    *out = close_choice(w, &choice);
    return WEFT_OK;
}

// ---- functions (plan/functions.h) -----------------------------------------------------------------------------------

// What stands for the words of a formula: x, y, k, m, r, and t, which names what its setup declares.
typedef struct Words { const char *of[128]; } Words;

static bool is_word_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *formula_text(Weaver *w, const char *formula, const Words *words)
{
    Text text = { 0 };
    for (const char *p = formula; *p;) {
        size_t length = 0;
        while (is_word_letter(p[length])) length++;
        const char *word = length == 1 || (length > 1 && p[1] == '_') ? words->of[(unsigned char)*p & 127] : NULL;
        if (word) text_add(&text, "%s%.*s", word, (int)length - 1, p + 1);
        else text_add_bytes(&text, p, MAX_OF(length, 1));
        p += MAX_OF(length, 1);
    }
    return text_keep(w->arena, &text);
}

typedef struct FunctionCall {
    const Expr     *expr;
    const Function *function;
    Words           words;
    Range           ranges[FUNCTION_ARGS];
    const char     *null;              // NULL: it is never NULL
} FunctionCall;

static weft_status weave_function_args(Weaver *w, FunctionCall *call)
{
    static const char names[FUNCTION_ARGS] = { 'x', 'y', 'z' };
    Val               values[FUNCTION_ARGS];
    const int         n = function_n_values(call->function);
    for (int i = 0; i < call->expr->n_args; i++) {
        call->ranges[i] = (Range){ 0 };
        if (i >= n) continue;
        TRY(weave_word(w, call->expr->args[i], &values[i]));
        values[i] = named(w, values[i]);
        call->null = either(w, call->null, values[i].null);
        call->ranges[i] = values[i].range;
    }
    if (call->null) call->null = shorten(w, "u8", call->null);
    for (int i = 0; i < n; i++) {
        const char *type = values[i].is_float ? "f64" : "i64";
        call->words.of[(int)names[i]] = weave_temp(w, type, unless_null(w, &values[i], "0"));
    }
    return WEFT_OK;
}

// False: 64 bits do not hold it.
static bool give_constant(Weaver *w, FunctionCall *call, char name, i128 (*constant)(const Expr *call))
{
    const i128 value = constant ? constant(call->expr) : 1;
    if (value > INT64_MAX) return false;
    if (constant) call->words.of[(int)name] = weave_param_i64(w, NULL, (i64)value);
    return true;
}

static void fail_where(Weaver *w, const FunctionCall *call, const char *condition, weft_status status,
                       const char *message)
{
    const int check = weave_check(w, status, call->expr->at, message);
    weave_stmt(w, "CHECK(%s%s!%s, %d)", call->null ? call->null : "", call->null ? " || " : "",
               formula_text(w, condition, &call->words), check);
}

static void weave_function_checks(Weaver *w, const FunctionCall *call, Range range)
{
    for (int c = 0; c < FUNCTION_CHECKS && call->function->checks[c].fails; c++) {
        const FunctionCheck *check = &call->function->checks[c];
        if (!check->can_happen || check->can_happen(call->ranges))
            fail_where(w, call, check->fails->text, check->status, check->message);
    }
    if (call->function->overflow && !fits(range, range_of_type(TYPE(BIGINT))))
        fail_where(w, call, PRINT("(%s)", call->function->overflow), WEFT_OUT_OF_RANGE,
                   overflow_message(call->expr->type));
}

// The value first, then the checks that may look at it.
static weft_status value_of_function(Weaver *w, const Expr *expr, const Function *function, Val *out)
{
    FunctionCall call = { .expr = expr, .function = function };
    if (function->wide && expr->args[0]->type.kind == TYPE_NUMERIC) {
        Expr *same;
        TRY(weave_wide_form(w->arena, function->wide, expr, &same, w->err));
        return weave_value(w, same, out);
    }
    TRY(weave_function_args(w, &call));
    if (!function->formula || !give_constant(w, &call, 'k', function->k) || !give_constant(w, &call, 'm', function->m))
        return fail(w->err, WEFT_UNSUPPORTED, expr->at, "%s of these types is not supported here", function->names[0]);
    const Range range = function_range(expr, call.ranges), bound = range_of_type(expr->type);
    *out = (Val){ .is_float = type_is_float(expr->type), .null = call.null, .range = range };
    if (function->setup) {
        call.words.of['t'] = PRINT("e%d", w->n_temps++);
        weave_stmt(w, "%s", formula_text(w, function->setup, &call.words));
    }
    const char *value = formula_text(w, function->formula->text, &call.words);
    if (expr->type.kind == TYPE_REAL) value = PRINT("(f64)(f32)%s", value);
    out->value = call.words.of['r'] = weave_temp(w, out->is_float ? "f64" : "i64", value);
    weave_function_checks(w, &call, range);
    if (out->is_float) return WEFT_OK;
    const Range word = range_of_type(TYPE(BIGINT));
    out->range.low = MAX_OF(range.low, word.low), out->range.high = MIN_OF(range.high, word.high);
    out->value = checked_to_type(w, out->value, call.null, out->range, expr->type, expr->at);
    *out = clipped(w, *out, bound, !fits(range, bound));
    return WEFT_OK;
}

static weft_status value_of_island(Weaver *w, const Expr *expr, Val *out)
{
    const Expr column = { .kind = EXPR_COLUMN, .type = TYPE(TEXT), .column = expr_only_text_column(expr) };
    Val        text;
    TRY(weave_column(w, &column, &text));
    return weave_island(w, expr, &text, out);
}

static bool has_only_constants(const Expr *expr)
{
    for (int i = 0; i < expr->n_args; i++)
        if (!has_only_constants(expr->args[i])) return false;
    return expr->kind == EXPR_CONST || expr->kind == EXPR_CALL || expr->kind == EXPR_CASE;
}

// What kernels do not know, of constants that were not folded: a parameter's value has come late, or it fails.  Then it
// is an error only where a row comes.
static weft_status value_of_constants(Weaver *w, const Expr *expr, Val *out)
{
    const EvalContext of = { .arena = w->arena };
    Value             value;
    Error             err;
    error_clear(&err);
    if (expr_eval(expr, &of, &value, &err)) {
        const char *message = arena_strdup(w->arena, err.message);
        weave_stmt(w, "CHECK(0, %d)", weave_check(w, err.status, err.position, message));
        value.is_null = true;
    }
    value.type = expr->type;
    *out = value_of_const(w, expr_const(w->arena, value, expr->at));
    return WEFT_OK;
}

weft_status weave_value(Weaver *w, const Expr *expr, Val *out)
{
    if (expr->type.kind == TYPE_TEXT && expr->kind == EXPR_CONST) return weave_text_const(w, expr, out);
    if (weave_is_island(expr)) return value_of_island(w, expr, out);
    if (expr->n_args && expr->type.kind != TYPE_TEXT && expr_is_interpreted(expr) && has_only_constants(expr))
        return value_of_constants(w, expr, out);
    switch (expr->kind) {
        case EXPR_CONST:
            *out = value_of_const(w, expr);
            return WEFT_OK;
        case EXPR_COLUMN: return weave_column(w, expr, out);
        case EXPR_CASE:   return value_of_case(w, expr, out);
        case EXPR_CALL:   break;
        default: return fail(w->err, WEFT_INTERNAL, expr->at, "aggregate inside a kernel expression");
    }
    switch (expr->op) {
        case OP_ADD: case OP_SUB: case OP_MUL: case OP_DIV: case OP_MOD: case OP_NEG:
            return value_of_arithmetic(w, expr, out);
        case OP_COALESCE: return value_of_coalesce(w, expr, out);
        case OP_CAST: return value_of_cast(w, expr, out);
        default:
            if (expr_is_high_word(expr) || expr_is_low_word(expr)) return value_of_word(w, expr, out);
            if (function_of(expr->op)) return value_of_function(w, expr, function_of(expr->op), out);
            return value_of_condition(w, expr, out);
    }
}
