// time.h - arithmetic of dates, times and intervals that files of plan/ share.

#ifndef WEFT_PLAN_TIME_H
#define WEFT_PLAN_TIME_H

#include "plan/plan.h"

#define SECOND_MICROS ((i64)1000000)
#define MINUTE_MICROS (60 * SECOND_MICROS)
#define HOUR_MICROS   (60 * MINUTE_MICROS)
#define DAY_MICROS    (24 * HOUR_MICROS)

typedef struct Calendar { int year, month, day; i64 micros; } Calendar;        // micros: of the day

i64      floor_div(i64 value, i64 by);
i64      days_of_micros(i64 micros);                        // rounded down
Calendar calendar_of(i64 micros);                           // of a timestamp
i64      calendar_micros(Calendar calendar);
int      days_in_month(i64 year, int month);

// MICROS plus SIGN times the interval: months first, then days, then the rest.  A day past its month's end becomes the
// last one.  False: it leaves the years 1 to 9999.
bool timestamp_shift(i64 micros, const Value *interval, int sign, i64 *out);
bool timestamptz_shift(u8 zone, i64 micros, const Value *interval, int sign, i64 *out);        // by the clock of a zone

Value interval_of(i32 months, i32 days, i64 micros);
Value interval_between(i64 micros, i64 other);              // days and what is left of them
weft_status interval_checked(i128 months, i128 days, i128 micros, int at, Value *out, Error *err);
weft_status interval_scaled(const Value *interval, double factor, bool divides, int at, Value *out, Error *err);

// expr_time.c: typing.
bool        is_moment(Type type);                           // date, timestamps, time: a number in one word
weft_status time_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err);   // both are times
bool        time_can_cast(TypeKind from, TypeKind to, bool is_implicit);
bool        time_common(Type a, Type b, Type *common);      // what both become to be compared or united
bool        date_of_stamp(const Expr *stamp, i128 *days);   // whether a constant timestamp is a day's beginning
bool        time_is_difference(const Expr *expr);           // of two timestamps
weft_status time_difference(Arena *arena, const Expr *interval, int at, Expr **out, Error *err);    // in microseconds
weft_status time_call(Arena *arena, const char *hidden, Expr *const *args, int n_args, int at, Expr **out, Error *err);

// Every step of a series of TYPE is as long as STEP: no month, and no day that a change of clocks makes longer.
bool series_is_even(Type type, const Value *step);

#endif
