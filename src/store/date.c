// date.c - days since 1970-01-01 in the proleptic Gregorian calendar.
//
// The year is taken to begin in March, so that the leap day is its last day and the lengths of the months repeat every
// five (153 days).  400 years have 146097 days.  After Howard Hinnant, "chrono-compatible low-level date algorithms".

#include "store/store_int.h"

enum { DAYS_PER_ERA = 146097, DAYS_TO_EPOCH = 719468 };     // from 0000-03-01 to 1970-01-01

i32 date_from_civil(int year, int month, int day)
{
    i64 y = (i64)year - (month <= 2);
    i64 era = (y >= 0 ? y : y - 399) / 400;
    i64 year_of_era = y - era * 400;
    i64 day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    i64 day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i64 days = era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH;
    return (i32)MAX_OF(INT32_MIN, MIN_OF(INT32_MAX, days));
}

void date_to_civil(i32 days, int *year, int *month, int *day)
{
    i64 z = (i64)days + DAYS_TO_EPOCH;
    i64 era = (z >= 0 ? z : z - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    i64 day_of_era = z - era * DAYS_PER_ERA;
    i64 year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    i64 day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    i64 month_from_march = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    *year = (int)(year_of_era + era * 400 + (*month <= 2));
}

bool date_is_valid(int year, int month, int day)
{
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1)
        return false;
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= lengths[month - 1] + (month == 2 && is_leap);
}
