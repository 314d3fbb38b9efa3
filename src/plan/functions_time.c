// functions_time.c - times and timestamps as numbers: what casts, arithmetic, date_trunc and extract are made of
// (expr_time.c, sql/bind_time.c).  All is counted in microseconds.
//
// What depends on one value and constants has a formula, so kernels compute it.  What needs zone data, two intervals or
// a calendar of two values is the interpreter's.

#include "plan/functions.h"

#include "plan/expr_int.h"
#include "plan/time.h"

#define DAY 86400000000ll

static bool give_date(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DATE);
    return true;
}

static bool give_timestamp(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(TIMESTAMP);
    return true;
}

static bool give_timestamptz(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(TIMESTAMPTZ);
    return true;
}

static bool give_time(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(TIME);
    return true;
}

static bool give_bigint(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BIGINT);
    return true;
}

static bool give_interval(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(INTERVAL);
    return true;
}

static bool give_seconds(Expr *const *args, Type *types, Type *result)
{
    *result = (Type){ TYPE_DECIMAL, 18, 6 };
    return true;
}

static bool give_milliseconds(Expr *const *args, Type *types, Type *result)
{
    *result = (Type){ TYPE_DECIMAL, 18, 3 };
    return true;
}

// ---- from one kind to another ---------------------------------------------------------------------------------------

FORMULA_WHOLE(same, x)
FORMULA_WHOLE(midnight, x * 86400000000ll)
FORMULA_WHOLE(day, x / 86400000000ll - (x % 86400000000ll < 0))
FORMULA_WHOLE(time_of_day, (x % 86400000000ll + 86400000000ll) % 86400000000ll)
// The remainder of a negative number is negative: then one step more.  One division, where the compiler sees it twice.
FORMULA_WHOLE(floor_to, x - x % k - (x % k < 0) * k)
FORMULA_WHOLE(bin, x - (x - m) % k - ((x - m) % k < 0) * k)

static i128 constant_1(const Expr *call) { return call->args[1]->value.i; }
static i128 constant_2(const Expr *call) { return call->args[2]->value.i; }

static Range range_of_time_of_day(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .known = true, .low = 0, .high = DAY - 1 };
}

static Range arg_range(const Expr *call, const Range *args)
{
    const Range all = { .known = true, .nullable = true, .low = date_from_civil(1, 1, 1) * (i128)DAY,
                        .high = (date_from_civil(9999, 12, 31) + 1) * (i128)DAY };
    return args[0].known && args[0].low <= args[0].high ? args[0] : all;
}

static Range range_of_bin(const Function *function, const Expr *call, const Range *args)
{
    Range range = arg_range(call, args);
    range.low -= constant_1(call);
    return range;
}

// ---- timestamp + a constant interval --------------------------------------------------------------------------------

// Beyond these every result is out of range, and within them no step leaves 64 bits.
#define MONTHS_MOST 240000
#define MICROS_MOST ((i128)400000000000000000)

static i128 clamped(i128 value, i128 most) { return value > most ? most : value < -most ? -most : value; }

static i128 months_of_shift(const Expr *call) { return clamped(call->args[1]->value.interval.months, MONTHS_MOST); }

static i128 micros_of_shift(const Expr *call)
{
    const Value *interval = &call->args[1]->value;
    return clamped((i128)interval->interval.days * DAY + interval->interval.micros, MICROS_MOST);
}

FORMULA_WHOLE(shift_micros, x + m)

static i128 shift_months_of(i128 x, i128 k, i128 m, i128 r)
{
    Calendar  calendar = calendar_of((i64)x);
    const i64 all = (i64)calendar.year * 12 + calendar.month - 1 + (i64)k, year = floor_div(all, 12);
    calendar.year = (int)year, calendar.month = (int)(all - year * 12) + 1;
    calendar.day = MIN_OF(calendar.day, days_in_month(year < 0 ? -year : year, calendar.month));
    return calendar_micros(calendar) + m;
}

// The last days of a month may become one, so the order of times is kept but for a few days.
static Range range_of_shift_months(const Function *function, const Expr *call, const Range *args)
{
    Range      range = arg_range(call, args);
    const i128 k = months_of_shift(call), m = micros_of_shift(call);
    range.low = shift_months_of(range.low, k, m, 0) - 4 * DAY;
    range.high = shift_months_of(range.high, k, m, 0) + 4 * DAY;
    return range;
}

static const Formula shift_months = { .text = "(t_later * 86400000000ll + "
                                              "(x % 86400000000ll + 86400000000ll) % 86400000000ll + m)",
                                      .whole = shift_months_of };

static i128 time_shift_of(i128 x, i128 k, i128 m, i128 r) { return ((x + m) % DAY + DAY) % DAY; }

static const Formula time_shifted = { .text = "(((x + m) % 86400000000ll + 86400000000ll) % 86400000000ll)",
                                      .whole = time_shift_of };

static i128 micros_of_time_shift(const Expr *call) { return call->args[1]->value.interval.micros % DAY; }

#define PARTS_OF_TIMESTAMP "SHIFT_MONTHS(t, x / 86400000000ll - (x % 86400000000ll < 0), k)"

static weft_status shift_stamp(const Expr *call, const Value *args, int sign, Value *value, Error *err)
{
    i64        out;
    const bool fits = call->type.kind == TYPE_TIMESTAMPTZ
                          ? timestamptz_shift(call->type.scale, (i64)args[0].i, &args[1], sign, &out)
                          : timestamp_shift((i64)args[0].i, &args[1], sign, &out);
    value->i = out;
    return fits ? WEFT_OK : range_error(call->type, call->at, err);
}

static weft_status eval_plus(const Expr *call, const Value *args, Value *value, Error *err)
{
    return shift_stamp(call, args, 1, value, err);
}

static weft_status eval_minus(const Expr *call, const Value *args, Value *value, Error *err)
{
    return shift_stamp(call, args, -1, value, err);
}

static weft_status eval_time_plus(const Expr *call, const Value *args, Value *value, Error *err)
{
    value->i = ((args[0].i + args[1].interval.micros % DAY) % DAY + DAY) % DAY;
    return WEFT_OK;
}

static weft_status eval_time_minus(const Expr *call, const Value *args, Value *value, Error *err)
{
    value->i = ((args[0].i - args[1].interval.micros % DAY) % DAY + DAY) % DAY;
    return WEFT_OK;
}

// ---- zones ----------------------------------------------------------------------------------------------------------

static weft_status eval_to_local(const Expr *call, const Value *args, Value *value, Error *err)
{
    value->i = zone_to_local((u8)args[1].i, (i64)args[0].i);
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

static weft_status eval_from_local(const Expr *call, const Value *args, Value *value, Error *err)
{
    value->i = zone_from_local((u8)args[1].i, (i64)args[0].i);
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

static weft_status eval_zone_seconds(const Expr *call, const Value *args, Value *value, Error *err)
{
    value->i = zone_offset((u8)args[1].i, floor_div((i64)args[0].i, SECOND_MICROS));
    return WEFT_OK;
}

// By the clock of a zone, but with the offset that was: of the two hours at the end of summer time each stays itself.
static weft_status eval_zone_floor(const Expr *call, const Value *args, Value *value, Error *err)
{
    const i64 x = (i64)args[0].i, unit = (i64)args[2].i;
    const i64 offset = zone_offset((u8)args[1].i, floor_div(x, SECOND_MICROS)) * SECOND_MICROS;
    value->i = floor_div(x + offset, unit) * unit - offset;
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

// ---- intervals ------------------------------------------------------------------------------------------------------

#define EVAL(name) static weft_status name(const Expr *call, const Value *args, Value *value, Error *err)

EVAL(eval_between)
{
    *value = interval_between((i64)args[0].i, (i64)args[1].i);
    return WEFT_OK;
}

EVAL(eval_of_micros)
{
    *value = interval_between((i64)args[0].i, 0);
    return WEFT_OK;
}

EVAL(eval_time_interval)
{
    *value = interval_of(0, 0, (i64)args[0].i - (call->n_args > 1 ? (i64)args[1].i : 0));
    return WEFT_OK;
}

EVAL(eval_interval_of) { return interval_checked(args[0].i, args[1].i, args[2].i, call->at, value, err); }

EVAL(eval_interval_add)
{
    const Value *a = &args[0], *b = &args[1];
    return interval_checked((i128)a->interval.months + b->interval.months, (i128)a->interval.days + b->interval.days,
                            (i128)a->interval.micros + b->interval.micros, call->at, value, err);
}

EVAL(eval_interval_sub)
{
    const Value *a = &args[0], *b = &args[1];
    return interval_checked((i128)a->interval.months - b->interval.months, (i128)a->interval.days - b->interval.days,
                            (i128)a->interval.micros - b->interval.micros, call->at, value, err);
}

EVAL(eval_interval_mul) { return interval_scaled(&args[0], args[1].f, false, call->at, value, err); }
EVAL(eval_interval_div) { return interval_scaled(&args[0], args[1].f, true, call->at, value, err); }

EVAL(eval_interval_months)
{
    value->i = args[0].interval.months;
    return WEFT_OK;
}

EVAL(eval_interval_days)
{
    value->i = args[0].interval.days;
    return WEFT_OK;
}

EVAL(eval_interval_micros)
{
    value->i = args[0].interval.micros;
    return WEFT_OK;
}

// A year has 365.25 days here, as in PostgreSQL.
EVAL(eval_interval_epoch)
{
    const Value *a = &args[0];
    const i128   year = (i128)31557600 * SECOND_MICROS;
    value->i = a->interval.months / 12 * year +
               ((i128)(a->interval.months % 12) * 30 + a->interval.days) * DAY + a->interval.micros;
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

EVAL(eval_interval_number)
{
    if (interval_to_number(&args[0], &value->i)) return WEFT_OK;
    return fail(err, WEFT_DATETIME_OVERFLOW, call->at, "interval is too long to be stored");
}

EVAL(eval_interval_of_number)
{
    *value = interval_from_number(args[0].i);
    return WEFT_OK;
}

// Clamped: what it is compared with is no longer than a stored interval.
EVAL(eval_interval_length)
{
    const i128 length = interval_micros(&args[0]);
    value->i = MAX_OF(MIN_OF(length, (i128)INT64_MAX), (i128)INT64_MIN);
    return WEFT_OK;
}

static bool give_number(Expr *const *args, Type *types, Type *result)
{
    *result = (Type){ TYPE_NUMERIC, 38, 0 };
    return true;
}

EVAL(eval_interval_to_time)
{
    value->i = ((i128)args[0].interval.micros % DAY + DAY) % DAY;
    return WEFT_OK;
}

// To multiples of so many months, or of microseconds; of a day, or of a month (0): without time, or without days too.
EVAL(eval_interval_cut)
{
    const Value *a = &args[0];
    const i32    by = (i32)args[1].i;
    const i64    micros = (i64)args[2].i;
    *value = interval_of(a->interval.months / by * by, micros ? a->interval.days : 0,
                         micros && micros < DAY ? a->interval.micros / micros * micros : 0);
    return WEFT_OK;
}

EVAL(eval_justify_hours)
{
    const Value *a = &args[0];
    i128         days = a->interval.days + a->interval.micros / DAY;
    i64          micros = a->interval.micros % DAY;
    if (days > 0 && micros < 0) days--, micros += DAY;
    else if (days < 0 && micros > 0) days++, micros -= DAY;
    return interval_checked(a->interval.months, days, micros, call->at, value, err);
}

EVAL(eval_justify_days)
{
    const Value *a = &args[0];
    i128         months = (i128)a->interval.months + a->interval.days / 30;
    i32          days = a->interval.days % 30;
    if (months > 0 && days < 0) months--, days += 30;
    else if (months < 0 && days > 0) months++, days -= 30;
    return interval_checked(months, days, a->interval.micros, call->at, value, err);
}

EVAL(eval_justify_interval)
{
    const Value *a = &args[0];
    i128         days = (i128)a->interval.days + a->interval.micros / DAY;
    i64          micros = a->interval.micros % DAY;
    i128         months = (i128)a->interval.months + days / 30;
    days %= 30;
    if (months > 0 && (days < 0 || (days == 0 && micros < 0))) days += 30, months--;
    else if (months < 0 && (days > 0 || (days == 0 && micros > 0))) days -= 30, months++;
    if (days > 0 && micros < 0) micros += DAY, days--;
    else if (days < 0 && micros > 0) micros -= DAY, days++;
    return interval_checked(months, days, micros, call->at, value, err);
}

// ---- age ------------------------------------------------------------------------------------------------------------

// By the calendar: years, months and days from one to the other, as PostgreSQL borrows them.
EVAL(eval_age)
{
    const bool     is_before = args[0].i < args[1].i;
    const Calendar a = calendar_of((i64)args[is_before ? 1 : 0].i), b = calendar_of((i64)args[is_before ? 0 : 1].i);
    i64            micros = a.micros - b.micros;
    int            days = a.day - b.day, months = a.month - b.month, years = a.year - b.year;
    if (micros < 0) micros += DAY, days--;
    while (days < 0) days += days_in_month(b.year, b.month), months--;
    while (months < 0) months += 12, years--;
    const int sign = is_before ? -1 : 1;
    *value = interval_of(sign * (years * 12 + months), sign * days, sign * micros);
    return WEFT_OK;
}

// ---- from parts -----------------------------------------------------------------------------------------------------

static weft_status bad_parts(const Expr *call, const char *what, Error *err)
{
    return fail(err, WEFT_DATETIME_OVERFLOW, call->at, "%s field value out of range", what);
}

EVAL(eval_make_date)
{
    if (args[0].i < 1 || args[0].i > 9999 || !date_is_valid((int)args[0].i, (int)args[1].i, (int)args[2].i))
        return bad_parts(call, "date", err);
    value->i = date_from_civil((int)args[0].i, (int)args[1].i, (int)args[2].i);
    return WEFT_OK;
}

static bool time_of_parts(const Value *args, i64 *micros)
{
    const double seconds = args[2].f;
    if (args[0].i < 0 || args[0].i > 24 || args[1].i < 0 || args[1].i > 59 || !(seconds >= 0 && seconds <= 60))
        return false;
    *micros = (i64)args[0].i * HOUR_MICROS + (i64)args[1].i * MINUTE_MICROS + (i64)(seconds * 1e6 + 0.5);
    return *micros <= DAY;
}

EVAL(eval_make_time)
{
    i64 micros;
    if (!time_of_parts(args, &micros)) return bad_parts(call, "time", err);
    value->i = micros;
    return WEFT_OK;
}

EVAL(eval_make_timestamp)
{
    i64 micros;
    if (args[0].i < 1 || args[0].i > 9999 || !date_is_valid((int)args[0].i, (int)args[1].i, (int)args[2].i))
        return bad_parts(call, "date", err);
    if (!time_of_parts(args + 3, &micros)) return bad_parts(call, "time", err);
    value->i = (i128)date_from_civil((int)args[0].i, (int)args[1].i, (int)args[2].i) * DAY + micros;
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

EVAL(eval_to_timestamp)
{
    const double seconds = args[0].f;
    if (!(seconds > -1e11 && seconds < 1e12)) return range_error(call->type, call->at, err);
    value->i = (i128)__builtin_rint(seconds * 1e6);
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

// ---- fields of a time -----------------------------------------------------------------------------------------------

FORMULA_WHOLE(hour, x / 3600000000ll)
FORMULA_WHOLE(minute, x / 60000000ll % 60)
FORMULA_WHOLE(micro_of_minute, x % 60000000ll)

#define RANGE(name, low_, high_)                                                                    \
    static Range name(const Function *function, const Expr *call, const Range *args)                \
    {                                                                                               \
        return (Range){ .known = true, .low = low_, .high = high_ };                                \
    }

RANGE(range_of_hour, 0, 24)
RANGE(range_of_minute, 0, 59)
RANGE(range_of_second, 0, 60000000)

// ---- the list -------------------------------------------------------------------------------------------------------

#define HIDDEN(name_, n_, ...) { .names = { name_ }, .is_hidden = true, .n_args = n_, __VA_ARGS__ }
#define FROM(rule) .args = { rule }
#define FIELD(name_, about_, gives_, ...)                                                           \
    { .names = { name_ }, .usage = "extract(" name_ " from time)", .gives = gives_, .about = about_, .is_field = true, \
      .n_args = 1, .args = { ARG_TIME }, __VA_ARGS__ }
#define SHOWN(name_, usage_, gives_, about_, n_, ...)                                               \
    { .names = { name_ }, .usage = usage_, .gives = gives_, .about = about_, .n_args = n_, __VA_ARGS__ }

static const Function functions[] = {
    FIELD("hour", "0 to 24", "integer", .types = function_gives_integer, .formula = &hour, .range = range_of_hour),
    FIELD("minute", "0 to 59", "integer", .types = function_gives_integer, .formula = &minute,
        .range = range_of_minute),
    FIELD("second", "with its fraction", "decimal(18,6)", .types = give_seconds, .formula = &micro_of_minute,
          .range = range_of_second),
    FIELD("milliseconds", "of the minute", "decimal(18,3)", .types = give_milliseconds, .formula = &micro_of_minute,
          .range = range_of_second),
    FIELD("microseconds", "of the minute", "integer", .types = function_gives_integer, .formula = &micro_of_minute,
          .range = range_of_second),

    HIDDEN("date_to_timestamp", 1, FROM(ARG_DATE), .types = give_timestamp, .formula = &midnight,
           .range = range_of_whole),
    HIDDEN("timestamp_to_date", 1, FROM(ARG_MOMENT), .types = give_date, .formula = &day, .range = range_of_whole),
    HIDDEN("timestamp_to_time", 1, FROM(ARG_MOMENT), .types = give_time, .formula = &time_of_day,
           .range = range_of_time_of_day),
    HIDDEN("as_timestamp", 1, FROM(ARG_MOMENT), .types = give_timestamp, .formula = &same, .range = range_of_whole),
    HIDDEN("as_timestamptz", 1, FROM(ARG_MOMENT), .types = give_timestamptz, .formula = &same,
           .range = range_of_whole),
    HIDDEN("micros", 1, FROM(ARG_MOMENT), .types = give_bigint, .formula = &same, .range = range_of_whole),
    HIDDEN("timestamp_of_micros", 1, FROM(ARG_BIGINT), .types = give_timestamp, .formula = &same, .can_overflow = true,
           .range = range_of_whole),
    HIDDEN("seconds_of_micros", 1, FROM(ARG_BIGINT), .types = give_seconds, .formula = &same, .can_overflow = true,
           .range = range_of_whole),
    HIDDEN("floor_to", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .formula = &floor_to, .k = constant_1,
           .can_overflow = true, .range = range_of_whole),
    HIDDEN("bin", 3, .args = { ARG_MOMENT, ARG_CONSTANT, ARG_CONSTANT }, .formula = &bin, .k = constant_1,
           .m = constant_2, .can_overflow = true, .range = range_of_bin),
    HIDDEN("timestamp_shift", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .formula = &shift_micros, .m = micros_of_shift,
           .can_overflow = true, .range = range_of_whole),
    HIDDEN("timestamp_shift_months", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .formula = &shift_months,
           .setup = PARTS_OF_TIMESTAMP, .k = months_of_shift, .m = micros_of_shift, .can_overflow = true,
           .range = range_of_shift_months),
    HIDDEN("time_shift", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .formula = &time_shifted, .m = micros_of_time_shift,
           .range = range_of_time_of_day),

    HIDDEN("timestamp_plus", 2, .args = { ARG_MOMENT, ARG_INTERVAL }, .eval = eval_plus, .can_fail = true),
    HIDDEN("timestamp_minus", 2, .args = { ARG_MOMENT, ARG_INTERVAL }, .eval = eval_minus, .can_fail = true),
    HIDDEN("time_plus", 2, .args = { ARG_MOMENT, ARG_INTERVAL }, .eval = eval_time_plus),
    HIDDEN("time_minus", 2, .args = { ARG_MOMENT, ARG_INTERVAL }, .eval = eval_time_minus),
    HIDDEN("zone_to_local", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .types = give_timestamp, .eval = eval_to_local,
           .can_fail = true),
    HIDDEN("zone_from_local", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .types = give_timestamptz,
           .eval = eval_from_local, .can_fail = true),
    HIDDEN("zone_seconds", 2, .args = { ARG_MOMENT, ARG_CONSTANT }, .types = function_gives_integer,
        .eval = eval_zone_seconds),
    HIDDEN("zone_floor", 3, .args = { ARG_MOMENT, ARG_CONSTANT, ARG_CONSTANT }, .eval = eval_zone_floor,
           .can_fail = true),

    HIDDEN("interval_between", 2, .args = { ARG_MOMENT, ARG_MOMENT }, .types = give_interval, .eval = eval_between),
    HIDDEN("interval_of_micros", 1, FROM(ARG_BIGINT), .types = give_interval, .eval = eval_of_micros),
    HIDDEN("time_interval", 1, FROM(ARG_MOMENT), .types = give_interval, .eval = eval_time_interval),
    HIDDEN("time_between", 2, .args = { ARG_MOMENT, ARG_MOMENT }, .types = give_interval, .eval = eval_time_interval),
    HIDDEN("interval_of", 3, .args = { ARG_EXACT, ARG_EXACT, ARG_EXACT }, .types = give_interval,
           .eval = eval_interval_of, .can_fail = true),
    HIDDEN("interval_add", 2, .args = { ARG_INTERVAL, ARG_INTERVAL }, .types = give_interval, .eval = eval_interval_add,
           .can_fail = true),
    HIDDEN("interval_sub", 2, .args = { ARG_INTERVAL, ARG_INTERVAL }, .types = give_interval, .eval = eval_interval_sub,
           .can_fail = true),
    HIDDEN("interval_mul", 2, .args = { ARG_INTERVAL, ARG_DOUBLE }, .types = give_interval, .eval = eval_interval_mul,
           .can_fail = true),
    HIDDEN("interval_div", 2, .args = { ARG_INTERVAL, ARG_DOUBLE }, .types = give_interval, .eval = eval_interval_div,
           .can_fail = true),
    HIDDEN("interval_months", 1, FROM(ARG_INTERVAL), .types = give_bigint, .eval = eval_interval_months),
    HIDDEN("interval_days", 1, FROM(ARG_INTERVAL), .types = give_bigint, .eval = eval_interval_days),
    HIDDEN("interval_micros", 1, FROM(ARG_INTERVAL), .types = give_bigint, .eval = eval_interval_micros),
    HIDDEN("interval_epoch", 1, FROM(ARG_INTERVAL), .types = give_seconds, .eval = eval_interval_epoch,
           .can_fail = true),
    HIDDEN("interval_number", 1, FROM(ARG_INTERVAL), .types = give_number, .eval = eval_interval_number,
           .can_fail = true),
    HIDDEN("interval_of_number", 1, FROM(ARG_EXACT), .types = give_interval, .eval = eval_interval_of_number),
    HIDDEN("interval_length", 1, FROM(ARG_INTERVAL), .types = give_bigint, .eval = eval_interval_length),
    HIDDEN("interval_cut", 3, .args = { ARG_INTERVAL, ARG_EXACT, ARG_EXACT }, .types = give_interval,
           .eval = eval_interval_cut),
    HIDDEN("interval_to_time", 1, FROM(ARG_INTERVAL), .types = give_time, .eval = eval_interval_to_time),

    SHOWN("age", "age(timestamp, other)", "interval", "years, months, days and time between them, by the calendar", 2,
          .args = { ARG_TIMESTAMP, ARG_TIMESTAMP }, .types = give_interval, .eval = eval_age),
    SHOWN("justify_hours", "justify_hours(interval)", "interval", "24 hours become a day", 1, FROM(ARG_INTERVAL),
          .types = give_interval, .eval = eval_justify_hours, .can_fail = true),
    SHOWN("justify_days", "justify_days(interval)", "interval", "30 days become a month", 1, FROM(ARG_INTERVAL),
          .types = give_interval, .eval = eval_justify_days, .can_fail = true),
    SHOWN("justify_interval", "justify_interval(interval)", "interval", "both, and one sign for all parts", 1,
          FROM(ARG_INTERVAL), .types = give_interval, .eval = eval_justify_interval, .can_fail = true),
    SHOWN("make_date", "make_date(year, month, day)", "date", "the date", 3,
          .args = { ARG_INTEGER, ARG_INTEGER, ARG_INTEGER }, .types = give_date, .eval = eval_make_date,
          .can_fail = true),
    SHOWN("make_time", "make_time(hour, minute, second)", "time", "the time", 3,
          .args = { ARG_INTEGER, ARG_INTEGER, ARG_DOUBLE }, .types = give_time, .eval = eval_make_time,
          .can_fail = true),
    SHOWN("make_timestamp", "make_timestamp(year, month, day, hour, minute, second)", "timestamp", "the timestamp", 6,
          .args = { ARG_INTEGER, ARG_INTEGER, ARG_INTEGER, ARG_INTEGER, ARG_INTEGER, ARG_DOUBLE },
          .types = give_timestamp, .eval = eval_make_timestamp, .can_fail = true),
    SHOWN("to_timestamp", "to_timestamp(seconds)", "timestamptz", "so long after 1970-01-01 00:00 UTC", 1,
          FROM(ARG_DOUBLE), .types = give_timestamptz, .eval = eval_to_timestamp, .can_fail = true),
};

extern const FunctionFamily functions_time;
const FunctionFamily functions_time = { "Times and intervals", functions, COUNT_OF(functions) };
