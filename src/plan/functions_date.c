// functions_date.c - fields of a date: extract(year from d), date_part('year', d).

#include "plan/functions.h"

#include "plan/expr_int.h"

static bool give_integer(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(INTEGER);
    return true;
}

// ---- the interpreter ------------------------------------------------------------------------------------------------

static i128 year_of(i128 x, i128 k, i128 m, i128 r)
{
    int year, month, day;
    date_to_civil((i32)x, &year, &month, &day);
    return year;
}

static i128 month_of(i128 x, i128 k, i128 m, i128 r)
{
    int year, month, day;
    date_to_civil((i32)x, &year, &month, &day);
    return month;
}

static i128 day_of(i128 x, i128 k, i128 m, i128 r)
{
    int year, month, day;
    date_to_civil((i32)x, &year, &month, &day);
    return day;
}

static i128 quarter_of(i128 x, i128 k, i128 m, i128 r)
{
    return (month_of(x, k, m, r) + 2) / 3;
}

static i128 day_of_year_of(i128 x, i128 k, i128 m, i128 r)
{
    return x - date_from_civil((int)year_of(x, k, m, r), 1, 1) + 1;
}

static i128 weekday_of(i128 x, i128 k, i128 m, i128 r)
{
    return ((x + 4) % 7 + 7) % 7;                           // 1970-01-01 was a Thursday
}

static i128 iso_weekday_of(i128 x, i128 k, i128 m, i128 r)
{
    return weekday_of(x, k, m, r) ? weekday_of(x, k, m, r) : 7;
}

static const Formula year = { .text = "t_year", .whole = year_of };
static const Formula quarter = { .text = "((t_month + 2) / 3)", .whole = quarter_of };
static const Formula month = { .text = "t_month", .whole = month_of };
static const Formula day = { .text = "t_day", .whole = day_of };
static const Formula day_of_year = { .text = "DAY_OF_YEAR(t)", .whole = day_of_year_of };
static const Formula weekday = { .text = "WEEKDAY(x)", .whole = weekday_of };
static const Formula iso_weekday = { .text = "(WEEKDAY(x) == 0 ? 7 : WEEKDAY(x))", .whole = iso_weekday_of };

// ---- ranges ---------------------------------------------------------------------------------------------------------

static Range between(i128 low, i128 high)
{
    return (Range){ .known = true, .low = low, .high = high };
}

static Range range_of_year(const Function *function, const Expr *call, const Range *args)
{
    const Range a = *args;
    if (!a.known || a.low > a.high || a.low < INT32_MIN || a.high > INT32_MAX) return between(INT32_MIN, INT32_MAX);
    return between(year_of(a.low, 0, 0, 0), year_of(a.high, 0, 0, 0));
}

#define RANGE(name, low, high)                                                                      \
    static Range name(const Function *function, const Expr *call, const Range *args)                \
    {                                                                                               \
        return between(low, high);                                                                  \
    }

RANGE(range_of_quarter, 1, 4)
RANGE(range_of_month, 1, 12)
RANGE(range_of_day, 1, 31)
RANGE(range_of_weekday, 0, 6)
RANGE(range_of_iso_weekday, 1, 7)
RANGE(range_of_day_of_year, 1, 366)

// ---- the list -------------------------------------------------------------------------------------------------------

#define FIELD(name_, about_, formula_, setup_, range_)                                              \
    { .names = { name_ }, .usage = "extract(" name_ " from date)", .gives = "integer", .about = about_, \
      .is_field = true, .n_args = 1, .args = { ARG_DATE }, .types = give_integer, .formula = &formula_, \
      .setup = setup_, .range = range_ }
#define PARTS "DATE_PARTS(t, x)"

static const Function functions[] = {
    FIELD("year", "the year", year, PARTS, range_of_year),
    FIELD("quarter", "1 to 4", quarter, PARTS, range_of_quarter),
    FIELD("month", "1 to 12", month, PARTS, range_of_month),
    FIELD("day", "the day of the month", day, PARTS, range_of_day),
    FIELD("dow", "the day of the week, 0 for Sunday", weekday, NULL, range_of_weekday),
    FIELD("isodow", "the day of the week, 7 for Sunday", iso_weekday, NULL, range_of_iso_weekday),
    FIELD("doy", "the day of the year, from 1", day_of_year, PARTS, range_of_day_of_year),
};

extern const FunctionFamily functions_date;
const FunctionFamily functions_date = { "Dates", functions, COUNT_OF(functions) };
