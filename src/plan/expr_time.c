// expr_time.c - which types arithmetic, comparison and casts of dates, times, timestamps and intervals take.
//
// All of it becomes calls of functions (functions_time.c) and operators on whole numbers of microseconds:
//
//     ts + interval '1 mon'       timestamp_shift_months(ts, interval)        a constant interval: a kernel does it
//     ts + (b - a)                timestamp_plus(ts, interval_between(b, a))  the host does it
//     b - a > interval '1 hour'   micros(b) - micros(a) > 3600000000          a kernel does it
//     d + time '12:00'            timestamp_of_micros(micros(d::timestamp) + micros(time))
//     d < timestamp '...'         d <= date '...'                             no cast on the column

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/time.h"

static bool is_kind(const Expr *expr, TypeKind kind) { return expr->type.kind == kind; }
static bool is_stamp(const Expr *expr) { return is_kind(expr, TYPE_TIMESTAMP) || is_kind(expr, TYPE_TIMESTAMPTZ); }
static bool is_dated(const Expr *expr) { return is_kind(expr, TYPE_DATE) || is_stamp(expr); }

static weft_status make2(Arena *arena, Op op, Type type, Expr *a, Expr *b, int at, Expr **out, Error *err)
{
    Expr **args = arena_array(arena, Expr *, 2);
    args[0] = a, args[1] = b;
    return expr_make_call(arena, op, type, args, 2, at, out, err);
}

static weft_status call1(const Call *call, const char *hidden, Expr *a, Expr **out)
{
    return time_call(call->arena, hidden, &a, 1, call->at, out, call->err);
}

static weft_status call2(const Call *call, const char *hidden, Expr *a, Expr *b, Expr **out)
{
    Expr *args[2] = { a, b };
    return time_call(call->arena, hidden, args, 2, call->at, out, call->err);
}

// ---- types ---------------------------------------------------------------------------------------------------------

bool time_common(Type a, Type b, Type *common)
{
    const Type wider = a.kind == TYPE_TIMESTAMPTZ || a.kind == TYPE_INTERVAL || b.kind == TYPE_DATE ? a : b;
    *common = wider.kind == TYPE_DATE ? (a.kind == TYPE_DATE ? b : a) : wider;
    if (a.kind == b.kind) return true;
    return time_can_cast(a.kind, common->kind, true) && time_can_cast(b.kind, common->kind, true);
}

static weft_status as_kind(const Call *call, Expr *arg, Type type, Expr **out)
{
    *out = arg;
    return type_equal(arg->type, type) ? WEFT_OK : time_cast(call->arena, arg, type, call->at, out, call->err);
}

// ---- arithmetic ----------------------------------------------------------------------------------------------------

static weft_status negated(const Call *call, Expr *interval, Expr **out)
{
    return call2(call, "interval_sub", expr_const(call->arena, interval_of(0, 0, 0), call->at), interval, out);
}

// A constant interval goes into a kernel, where it need not look at a zone.
static weft_status shift_stamp(Call *call, Expr *stamp, Expr *interval)
{
    const bool  is_minus = call->op == OP_SUB;
    const Value constant = interval->value;
    const bool  is_const = interval->kind == EXPR_CONST && !constant.is_null;
    const bool  by_calendar = is_const && (constant.interval.months || constant.interval.days);
    const Type  type = stamp->type;
    if (!is_const || (type.kind == TYPE_TIMESTAMPTZ && type.scale && by_calendar)) {
        TRY(call2(call, is_minus ? "timestamp_minus" : "timestamp_plus", stamp, interval, &call->result));
    } else {
        if (is_minus) TRY(negated(call, interval, &interval));
        if (interval->kind != EXPR_CONST)
            return fail(call->err, WEFT_DATETIME_OVERFLOW, call->at, "interval out of range");
        TRY(call2(call, constant.interval.months ? "timestamp_shift_months" : "timestamp_shift", stamp, interval,
                  &call->result));
    }
    return WEFT_OK;
}

static weft_status shift_time(Call *call, Expr *time, Expr *interval)
{
    const bool is_minus = call->op == OP_SUB;
    if (interval->kind != EXPR_CONST || interval->value.is_null)
        return call2(call, is_minus ? "time_minus" : "time_plus", time, interval, &call->result);
    if (is_minus) TRY(negated(call, interval, &interval));
    return call2(call, "time_shift", time, interval, &call->result);
}

static weft_status shift(Call *call, Expr *moment, Expr *interval)
{
    if (is_kind(moment, TYPE_TIME)) return shift_time(call, moment, interval);
    if (is_kind(moment, TYPE_DATE)) TRY(as_kind(call, moment, TYPE(TIMESTAMP), &moment));
    return shift_stamp(call, moment, interval);
}

static weft_status add_date_and_time(Call *call, Expr *date, Expr *time)
{
    Expr *sum[2];
    TRY(as_kind(call, date, TYPE(TIMESTAMP), &date));
    TRY(call1(call, "micros", date, &sum[0]));
    TRY(call1(call, "micros", time, &sum[1]));
    TRY(make2(call->arena, OP_ADD, TYPE(BIGINT), sum[0], sum[1], call->at, &sum[0], call->err));
    return call1(call, "timestamp_of_micros", sum[0], &call->result);
}

static weft_status subtract(Call *call, Expr *a, Expr *b)
{
    Type common;
    if (!time_common(a->type, b->type, &common)) return WEFT_UNDEFINED_FUNCTION;
    TRY(as_kind(call, a, common, &a));
    TRY(as_kind(call, b, common, &b));
    return call2(call, common.kind == TYPE_TIME ? "time_between" : "interval_between", a, b, &call->result);
}

static weft_status scale_interval(Call *call, Expr *interval, Expr *factor)
{
    if (!type_is_number(factor->type) && !expr_is_untyped(factor)) return WEFT_UNDEFINED_FUNCTION;
    TRY(as_kind(call, interval, TYPE(INTERVAL), &interval));
    return call2(call, call->op == OP_MUL ? "interval_mul" : "interval_div", interval, factor, &call->result);
}

// WEFT_UNDEFINED_FUNCTION without an error: there is no such operator.
static weft_status type_sum(Call *call, Expr *a, Expr *b)
{
    const bool is_add = call->op == OP_ADD;
    if (is_kind(a, TYPE_INTERVAL) && is_kind(b, TYPE_INTERVAL))
        return call2(call, is_add ? "interval_add" : "interval_sub", a, b, &call->result);
    if (is_moment(a->type) && is_kind(b, TYPE_INTERVAL)) return shift(call, a, b);
    if (is_kind(a, TYPE_INTERVAL) && is_moment(b->type) && is_add) return shift(call, b, a);
    if (is_kind(a, TYPE_DATE) && is_kind(b, TYPE_TIME) && is_add) return add_date_and_time(call, a, b);
    if (is_kind(a, TYPE_TIME) && is_kind(b, TYPE_DATE) && is_add) return add_date_and_time(call, b, a);
    const bool takes_interval = is_dated(a) || (is_kind(a, TYPE_INTERVAL) && !is_add);
    if (is_kind(b, TYPE_TIME) && takes_interval) {
        TRY(as_kind(call, b, TYPE(INTERVAL), &b));
        return type_sum(call, a, b);
    }
    if (is_kind(a, TYPE_TIME) && is_stamp(b) && is_add) return type_sum(call, b, a);
    const bool are_dated = is_dated(a) && is_dated(b) && !(is_kind(a, TYPE_DATE) && is_kind(b, TYPE_DATE));
    if (!is_add && (are_dated || (is_kind(a, TYPE_TIME) && is_kind(b, TYPE_TIME)))) return subtract(call, a, b);
    return WEFT_UNDEFINED_FUNCTION;
}

// A time is scaled as the interval that it becomes.
weft_status type_time_call(Call *call)
{
    Expr *a = call->args[0], *b = call->args[1];
    if (call->op == OP_ADD || call->op == OP_SUB) return type_sum(call, a, b);
    const bool is_left = is_kind(a, TYPE_INTERVAL) || is_kind(a, TYPE_TIME);
    const bool is_right = is_kind(b, TYPE_INTERVAL) || is_kind(b, TYPE_TIME);
    if (call->op == OP_MUL && !is_left && is_right) return scale_interval(call, b, a);
    return is_left && (call->op == OP_MUL || call->op == OP_DIV) ? scale_interval(call, a, b) : WEFT_UNDEFINED_FUNCTION;
}

weft_status type_interval_sign(Call *call)
{
    Expr *interval;
    TRY(as_kind(call, call->args[0], TYPE(INTERVAL), &interval));
    return negated(call, interval, &call->result);
}

// ---- comparison ----------------------------------------------------------------------------------------------------

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

static bool is_value(const Expr *expr) { return expr->kind == EXPR_CONST && !expr->value.is_null; }

bool date_of_stamp(const Expr *stamp, i128 *days)
{
    *days = days_of_micros((i64)stamp->value.i);
    return *days * DAY_MICROS == stamp->value.i;
}

// A date beside a constant timestamp: the constant becomes a date.  Where it is none, x < c is x <= the day of c.
static weft_status compare_date(Call *call, int side)
{
    const Expr *constant = call->args[side];
    i128        days;
    Op          op = side == 1 ? call->op : mirrored(call->op);
    const bool  is_day = date_of_stamp(constant, &days);
    if (!is_day && (op == OP_EQ || op == OP_NE)) return WEFT_UNDEFINED_FUNCTION;
    if (!is_day) op = op == OP_LT || op == OP_LE ? OP_LE : OP_GT;
    Expr *date = expr_const(call->arena, (Value){ .type = TYPE(DATE), .i = days }, constant->at);
    return make2(call->arena, op, TYPE(BOOLEAN), call->args[1 - side], date, call->at, &call->result, call->err);
}

static bool is_utc_stamp(const Expr *expr) { return is_value(expr) && is_stamp(expr) && !expr->type.scale; }

// The difference of two timestamps beside a constant.
static bool is_difference(const Expr *expr)
{
    return expr->kind == EXPR_CALL && expr->op == function_find_hidden("interval_between");
}

weft_status time_difference(Arena *arena, const Expr *interval, int at, Expr **out, Error *err)
{
    Expr *micros[2];
    for (int i = 0; i < 2; i++) TRY(time_call(arena, "micros", &interval->args[i], 1, at, &micros[i], err));
    return make2(arena, OP_SUB, TYPE(BIGINT), micros[0], micros[1], at, out, err);
}

bool time_is_difference(const Expr *expr) { return is_difference(expr); }

// Differences stay below 4 * 10^17 microseconds.
static weft_status compare_difference(Call *call, int side)
{
    const i128 most = 400000000000000000, total = interval_micros(&call->args[side]->value);
    Expr      *args[2];
    args[1 - side] = NULL;
    TRY(time_difference(call->arena, call->args[1 - side], call->at, &args[1 - side], call->err));
    const Value bound = { .type = TYPE(BIGINT), .i = total > most ? most : total < -most ? -most : total };
    args[side] = expr_const(call->arena, bound, call->args[side]->at);
    return make2(call->arena, call->op, TYPE(BOOLEAN), args[0], args[1], call->at, &call->result, call->err);
}

// ---- intervals as numbers -------------------------------------------------------------------------------------------

static bool is_stored(const Expr *expr)
{
    return expr->kind == EXPR_CALL && expr->op == function_find_hidden("interval_of_number");
}

// Of a time of day, which kernels know.
static bool is_of_time(const Expr *expr)
{
    return expr->kind == EXPR_CALL && expr->op == function_find_hidden("time_interval");
}

weft_status interval_as_number(Arena *arena, Expr *interval, int at, Expr **out, Error *err)
{
    *out = is_stored(interval) ? interval->args[0] : NULL;
    return *out ? WEFT_OK : time_call(arena, "interval_number", &interval, 1, at, out, err);
}

weft_status interval_of_stored(Arena *arena, Expr *number, int at, Expr **out, Error *err)
{
    return time_call(arena, "interval_of_number", &number, 1, at, out, err);
}

// The high word plus 0: the engine takes a high word that stands alone for half of a number.
weft_status interval_as_length(Arena *arena, Expr *interval, int at, Expr **out, Error *err)
{
    Expr *zero = expr_const(arena, (Value){ .type = TYPE(BIGINT) }, at);
    if (is_stored(interval))
        return make2(arena, OP_ADD, TYPE(BIGINT), expr_high_word(arena, interval->args[0]), zero, at, out, err);
    if (is_difference(interval)) return time_difference(arena, interval, at, out, err);
    if (is_of_time(interval)) return time_call(arena, "micros", interval->args, 1, at, out, err);
    return time_call(arena, "interval_length", &interval, 1, at, out, err);
}

// Kernels know the length of a stored interval, and of a time.
static weft_status compare_lengths(Call *call)
{
    Expr *args[2];
    for (int i = 0; i < 2; i++)
        TRY(interval_as_length(call->arena, call->args[i], call->at, &args[i], call->err));
    return make2(call->arena, call->op, TYPE(BOOLEAN), args[0], args[1], call->at, &call->result, call->err);
}

static weft_status compare_intervals(Call *call)
{
    for (int side = 0; side < 2; side++)
        if (is_stored(call->args[side]) || is_of_time(call->args[side])) return compare_lengths(call);
    for (int side = 0; side < 2; side++)
        if (is_value(call->args[side]) && is_difference(call->args[1 - side])) return compare_difference(call, side);
    return WEFT_OK;
}

weft_status type_time_comparison(Call *call)
{
    Type  common;
    Expr *a = call->args[0], *b = call->args[1];
    if (is_kind(a, TYPE_INTERVAL) && is_kind(b, TYPE_INTERVAL)) return compare_intervals(call);
    if (a->type.kind == b->type.kind) return WEFT_OK;
    if (!time_common(a->type, b->type, &common)) return WEFT_UNDEFINED_FUNCTION;
    for (int side = 0; side < 2; side++) {
        if (!is_utc_stamp(call->args[side]) || !is_kind(call->args[1 - side], TYPE_DATE)) continue;
        if (call->args[1 - side]->kind == EXPR_CONST) continue;
        const weft_status status = compare_date(call, side);
        if (status != WEFT_UNDEFINED_FUNCTION) return status;
    }
    for (int i = 0; i < 2; i++) TRY(as_kind(call, call->args[i], common, &call->args[i]));
    return common.kind == TYPE_INTERVAL ? compare_intervals(call) : WEFT_OK;
}
