// functions_series.c - hidden functions behind generate_series of values that are not constant (sql/bind_series.c):
// how many rows it has, and the value of the row with a number.

#include "plan/functions.h"

#include "plan/expr_int.h"
#include "plan/time.h"

enum { SERIES_MOST = 10 << 20 };

static bool give_count(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BIGINT);
    return true;
}

static weft_status zero_step(const Expr *call, Error *err)
{
    return fail(err, WEFT_INVALID_PARAMETER, call->at, "step size cannot equal zero");
}

static weft_status too_long(const Expr *call, Error *err)
{
    return fail(err, WEFT_TOO_LONG, call->at, "generate_series can give at most %d rows", SERIES_MOST);
}

// first, last, step: of one type.
static weft_status eval_count(const Expr *call, const Value *args, Value *value, Error *err)
{
    const i128 first = args[0].i, last = args[1].i, step = args[2].i;
    if (step == 0) return zero_step(call, err);
    value->i = 0;
    if (step > 0 ? first > last : first < last) return WEFT_OK;
    value->i = (last - first) / step + 1;
    return value->i <= SERIES_MOST ? WEFT_OK : too_long(call, err);
}

static bool shift(const Value *stamp, i64 micros, const Value *step, i64 *out)
{
    if (stamp->type.kind == TYPE_TIMESTAMPTZ) return timestamptz_shift(stamp->type.scale, micros, step, 1, out);
    return timestamp_shift(micros, step, 1, out);
}

// As PostgreSQL: step by step, so a day that a month did not have stays lost.
static weft_status eval_time_count(const Expr *call, const Value *args, Value *value, Error *err)
{
    const i128 size = interval_micros(&args[2]);
    i64        at = (i64)args[0].i;
    if (size == 0) return zero_step(call, err);
    value->i = 0;
    while (size > 0 ? at <= args[1].i : at >= args[1].i) {
        const i64 before = at;
        if (++value->i > SERIES_MOST) return too_long(call, err);
        if (!shift(&args[0], at, &args[2], &at) || (size > 0 ? at <= before : at >= before)) break;
    }
    return WEFT_OK;
}

bool series_is_even(Type type, const Value *step)
{
    return step->interval.months == 0 && (type.kind == TYPE_TIMESTAMP || step->interval.days == 0);
}

// first, step, number: from 1 on.
static weft_status eval_time_value(const Expr *call, const Value *args, Value *value, Error *err)
{
    i64 at = (i64)args[0].i;
    if (series_is_even(args[0].type, &args[1])) {
        value->i = at + (args[2].i - 1) * interval_micros(&args[1]);
        return value_fits(value->i, TYPE(TIMESTAMP)) ? WEFT_OK
                                                     : fail(err, WEFT_DATETIME_OVERFLOW, call->at,
                                                            "timestamp out of range");
    }
    for (i128 i = 1; i < args[2].i; i++)
        if (!shift(&args[0], at, &args[1], &at))
            return fail(err, WEFT_DATETIME_OVERFLOW, call->at, "timestamp out of range");
    value->i = at;
    return WEFT_OK;
}

static const Function functions[] = {
    { .names = { "series_count" }, .is_hidden = true, .n_args = 3, .args = { ARG_EXACT, ARG_EXACT, ARG_EXACT },
      .types = give_count, .eval = eval_count, .can_fail = true },
    { .names = { "series_time_count" }, .is_hidden = true, .n_args = 3,
      .args = { ARG_MOMENT, ARG_MOMENT, ARG_INTERVAL }, .types = give_count, .eval = eval_time_count,
      .can_fail = true },
    { .names = { "series_time" }, .is_hidden = true, .n_args = 3, .args = { ARG_MOMENT, ARG_INTERVAL, ARG_BIGINT },
      .eval = eval_time_value, .can_fail = true },
};

extern const FunctionFamily functions_series;
const FunctionFamily functions_series = { NULL, functions, COUNT_OF(functions) };
