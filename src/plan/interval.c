// interval.c - what an interval of months and days does to a date.
//
// Intervals exist only as constants: "date '1994-01-01' + interval '1 year'" is a date before any row is read.  Months
// and days stay apart because a month has no fixed length; a time of day is refused, since there are no timestamps.

#include "plan/expr_int.h"

static int days_in_month(i64 year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool       is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap);
}

weft_status date_shift(i128 days, const Value *interval, int sign, int at, i128 *out, Error *err)
{
    *out = days;
    if (!value_fits(days, TYPE(DATE))) return range_error(TYPE(DATE), at, err);
    if (interval->interval.months) {
        int year, month, day;
        date_to_civil((i32)days, &year, &month, &day);
        const i64 months = (i64)year * 12 + (month - 1) + (i64)sign * interval->interval.months;
        const i64 new_year = (months >= 0 ? months : months - 11) / 12;        // rounds down
        if (new_year < 1 || new_year > 9999) return range_error(TYPE(DATE), at, err);
        month = (int)(months - new_year * 12) + 1;
        *out = date_from_civil((int)new_year, month, MIN_OF(day, days_in_month(new_year, month)));
    }
    *out += (i64)sign * interval->interval.days;
    return value_fits(*out, TYPE(DATE)) ? WEFT_OK : range_error(TYPE(DATE), at, err);
}
