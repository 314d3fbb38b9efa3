// interval.c - what an interval does to a date or a timestamp, and intervals among themselves.
//
// Months, days and microseconds stay apart, because a month and a day (where clocks change) have no fixed length.

#include "plan/expr_int.h"
#include "plan/time.h"

#include <math.h>

i64 floor_div(i64 value, i64 by) { return value / by - (value % by < 0); }

i64 days_of_micros(i64 micros) { return floor_div(micros, DAY_MICROS); }

Calendar calendar_of(i64 micros)
{
    Calendar  calendar;
    const i64 days = days_of_micros(micros);
    date_to_civil((i32)days, &calendar.year, &calendar.month, &calendar.day);
    calendar.micros = micros - days * DAY_MICROS;
    return calendar;
}

i64 calendar_micros(Calendar calendar)
{
    return date_from_civil(calendar.year, calendar.month, calendar.day) * DAY_MICROS + calendar.micros;
}

int days_in_month(i64 year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool       is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap);
}

// ---- timestamps -----------------------------------------------------------------------------------------------------

static bool shift_months(i64 micros, i64 months, i64 *out)
{
    *out = micros;
    if (!months) return true;
    Calendar  calendar = calendar_of(micros);
    const i64 all = (i64)calendar.year * 12 + (calendar.month - 1) + months, year = floor_div(all, 12);
    if (year < 1 || year > 9999) return false;
    calendar.year = (int)year, calendar.month = (int)(all - year * 12) + 1;
    calendar.day = MIN_OF(calendar.day, days_in_month(year, calendar.month));
    *out = calendar_micros(calendar);
    return true;
}

static bool add_micros(i64 micros, i128 more, i64 *out)
{
    const i128 sum = (i128)micros + more;
    *out = (i64)sum;
    return value_fits(sum, TYPE(TIMESTAMP));
}

bool timestamp_shift(i64 micros, const Value *interval, int sign, i64 *out)
{
    const i128 rest = (i128)interval->interval.days * DAY_MICROS + interval->interval.micros;
    return shift_months(micros, (i64)sign * interval->interval.months, out) && add_micros(*out, sign * rest, out);
}

bool timestamptz_shift(u8 zone, i64 micros, const Value *interval, int sign, i64 *out)
{
    i64 local = zone_to_local(zone, micros);
    *out = micros;
    if (interval->interval.months || interval->interval.days) {
        if (!shift_months(local, (i64)sign * interval->interval.months, &local)) return false;
        if (!add_micros(local, (i128)sign * interval->interval.days * DAY_MICROS, &local)) return false;
        *out = zone_from_local(zone, local);
    }
    return add_micros(*out, (i128)sign * interval->interval.micros, out);
}

// ---- intervals ------------------------------------------------------------------------------------------------------

Value interval_of(i32 months, i32 days, i64 micros)
{
    return (Value){ .type = TYPE(INTERVAL), .interval = { months, days, micros } };
}

Value interval_between(i64 micros, i64 other)
{
    const i64 apart = micros - other;
    return interval_of(0, (i32)(apart / DAY_MICROS), apart % DAY_MICROS);
}

weft_status interval_checked(i128 months, i128 days, i128 micros, int at, Value *out, Error *err)
{
    if (months != (i32)months || days != (i32)days || micros != (i64)micros)
        return fail(err, WEFT_DATETIME_OVERFLOW, at, "interval out of range");
    *out = interval_of((i32)months, (i32)days, (i64)micros);
    return WEFT_OK;
}

static double micro_rounded(double value) { return rint(value * 1e6) / 1e6; }

// As PostgreSQL: what is left of months becomes days, of which a month has 30, and what is left of days the rest.
weft_status interval_scaled(const Value *interval, double factor, bool divides, int at, Value *out, Error *err)
{
    if (divides && factor == 0) return fail(err, WEFT_DIVISION_BY_ZERO, at, "division by zero");
#define SCALED(x) (divides ? (double)(x) / factor : (double)(x) * factor)
    const double months = SCALED(interval->interval.months), days = SCALED(interval->interval.days);
    if (!(fabs(months) < 2147483648.0 && fabs(days) < 2147483648.0))
        return fail(err, WEFT_DATETIME_OVERFLOW, at, "interval out of range");
    const double whole_months = trunc(months), whole_days = trunc(days);
    const double more_days = micro_rounded((months - whole_months) * 30);
    double       seconds = micro_rounded((days - whole_days + more_days - trunc(more_days)) * 86400);
    double       all_days = whole_days + trunc(more_days);
    if (fabs(seconds) >= 86400) {
        all_days += trunc(seconds / 86400);
        seconds -= trunc(seconds / 86400) * 86400;
    }
    const double micros = rint(SCALED(interval->interval.micros) + seconds * 1e6);
#undef SCALED
    if (!(fabs(micros) < 9.2e18)) return fail(err, WEFT_DATETIME_OVERFLOW, at, "interval out of range");
    return interval_checked((i128)whole_months, (i128)all_days, (i128)micros, at, out, err);
}
