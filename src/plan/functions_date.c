// functions_date.c - fields of a date: extract(year from d), date_part('year', d).

#include "plan/functions.h"

#include "plan/expr_int.h"

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

// The year to which its week belongs is that of the Thursday.
static i128 thursday_of(i128 x) { return x - weekday_of(x - 1, 0, 0, 0) + 3; }
static i128 iso_year_of(i128 x, i128 k, i128 m, i128 r) { return year_of(thursday_of(x), k, m, r); }

static i128 week_of(i128 x, i128 k, i128 m, i128 r)
{
    return (day_of_year_of(thursday_of(x), k, m, r) - 1) / 7 + 1;
}

static i128 decade_of(i128 x, i128 k, i128 m, i128 r) { return year_of(x, k, m, r) / 10; }
static i128 century_of(i128 x, i128 k, i128 m, i128 r) { return (year_of(x, k, m, r) + 99) / 100; }
static i128 millennium_of(i128 x, i128 k, i128 m, i128 r) { return (year_of(x, k, m, r) + 999) / 1000; }

FORMULA_WHOLE(epoch, x * 86400ll)
FORMULA_WHOLE(julian, x + 2440588)

static const Formula iso_year = { .text = "t_year", .whole = iso_year_of };
static const Formula week = { .text = "((DAY_OF_YEAR(t) - 1) / 7 + 1)", .whole = week_of };
static const Formula decade = { .text = "(t_year / 10)", .whole = decade_of };
static const Formula century = { .text = "((t_year + 99) / 100)", .whole = century_of };
static const Formula millennium = { .text = "((t_year + 999) / 1000)", .whole = millennium_of };

// ---- the first day of a year, a month, ... --------------------------------------------------------------------------

static i128 first_of_year(i128 year) { return date_from_civil((int)year, 1, 1); }

static i128 trunc_week_of(i128 x, i128 k, i128 m, i128 r) { return x - weekday_of(x - 1, k, m, r); }
static i128 trunc_month_of(i128 x, i128 k, i128 m, i128 r) { return x - day_of(x, k, m, r) + 1; }

static i128 trunc_quarter_of(i128 x, i128 k, i128 m, i128 r)
{
    return date_from_civil((int)year_of(x, k, m, r), (int)(quarter_of(x, k, m, r) * 3 - 2), 1);
}

static i128 trunc_year_of(i128 x, i128 k, i128 m, i128 r) { return first_of_year(year_of(x, k, m, r)); }
static i128 trunc_decade_of(i128 x, i128 k, i128 m, i128 r) { return first_of_year(year_of(x, k, m, r) / 10 * 10); }

static i128 trunc_century_of(i128 x, i128 k, i128 m, i128 r)
{
    return first_of_year((century_of(x, k, m, r) - 1) * 100 + 1);
}

static i128 trunc_millennium_of(i128 x, i128 k, i128 m, i128 r)
{
    return first_of_year((millennium_of(x, k, m, r) - 1) * 1000 + 1);
}

// The first of January of year y + 1 is 365 * y + y / 4 - y / 100 + y / 400 days after that of year 1.
#define JANUARY(y) "(365 * (" y ") + (" y ") / 4 - (" y ") / 100 + (" y ") / 400 - 719162)"

static const Formula trunc_week = { .text = "(x - WEEKDAY(x - 1))", .whole = trunc_week_of };
static const Formula trunc_month = { .text = "(x - t_day + 1)", .whole = trunc_month_of };
static const Formula trunc_quarter = { .text = "(x - DAY_OF_YEAR(t) + 1 + (t_month < 4 ? 0 : LEAP(t_year) + "
                                               "(t_month < 7 ? 90 : t_month < 10 ? 181 : 273)))",
                                       .whole = trunc_quarter_of };
static const Formula trunc_year = { .text = "(x - DAY_OF_YEAR(t) + 1)", .whole = trunc_year_of };
static const Formula trunc_decade = { .text = "(t_year < 10 ? -719528 : " JANUARY("t_year / 10 * 10 - 1") ")",
                                      .whole = trunc_decade_of };
static const Formula trunc_century = { .text = JANUARY("(t_year - 1) / 100 * 100"), .whole = trunc_century_of };
static const Formula trunc_millennium = { .text = JANUARY("(t_year - 1) / 1000 * 1000"),
                                          .whole = trunc_millennium_of };

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
RANGE(range_of_week, 1, 53)
RANGE(range_of_iso_year, 0, 10000)
RANGE(range_of_decade, 0, 999)
RANGE(range_of_century, 1, 100)
RANGE(range_of_millennium, 1, 10)

static bool give_bigint(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BIGINT);
    return true;
}

// ---- the list -------------------------------------------------------------------------------------------------------

#define FIELD(name_, about_, formula_, setup_, range_)                                              \
    { .names = { name_ }, .usage = "extract(" name_ " from date)", .gives = "integer", .about = about_, \
      .is_field = true, .n_args = 1, .args = { ARG_DATE }, .types = function_gives_integer, .formula = &formula_, \
      .setup = setup_, .range = range_ }
// The decade of year 1 began in year 0, which is none of ours.
static Range range_of_trunc(const Function *function, const Expr *call, const Range *args)
{
    const bool is_known = args[0].known && args[0].low <= args[0].high;
    const i128 low = is_known ? args[0].low : date_from_civil(1, 1, 1);
    return between(function->formula->whole(low, 0, 0, 0), is_known ? args[0].high : date_from_civil(9999, 12, 31));
}

#define PARTS "DATE_PARTS(t, x)"
#define THURSDAY "DATE_PARTS(t, x - WEEKDAY(x - 1) + 3)"
#define TRUNC(name_, formula_, setup_)                                                              \
    { .names = { "trunc_" name_ }, .is_hidden = true, .n_args = 1, .args = { ARG_DATE }, .formula = &formula_, \
      .setup = setup_, .can_overflow = true, .range = range_of_trunc }

static const Function functions[] = {
    FIELD("year", "the year", year, PARTS, range_of_year),
    FIELD("quarter", "1 to 4", quarter, PARTS, range_of_quarter),
    FIELD("month", "1 to 12", month, PARTS, range_of_month),
    FIELD("day", "the day of the month", day, PARTS, range_of_day),
    FIELD("dow", "the day of the week, 0 for Sunday", weekday, NULL, range_of_weekday),
    FIELD("isodow", "the day of the week, 7 for Sunday", iso_weekday, NULL, range_of_iso_weekday),
    FIELD("doy", "the day of the year, from 1", day_of_year, PARTS, range_of_day_of_year),
    FIELD("week", "the week of ISO 8601, 1 to 53", week, THURSDAY, range_of_week),
    FIELD("isoyear", "the year of that week", iso_year, THURSDAY, range_of_iso_year),
    FIELD("decade", "the year divided by 10", decade, PARTS, range_of_decade),
    FIELD("century", "the 21st begins in 2001", century, PARTS, range_of_century),
    FIELD("millennium", "the third begins in 2001", millennium, PARTS, range_of_millennium),
    { .names = { "epoch" }, .usage = "extract(epoch from date)", .gives = "bigint", .about = "seconds since 1970-01-01",
      .is_field = true, .n_args = 1, .args = { ARG_DATE }, .types = give_bigint, .formula = &epoch,
      .range = range_of_whole },
    FIELD("julian", "days since 4714-11-24 BC", julian, NULL, range_of_whole),
    TRUNC("week", trunc_week, NULL),
    TRUNC("month", trunc_month, PARTS),
    TRUNC("quarter", trunc_quarter, PARTS),
    TRUNC("year", trunc_year, PARTS),
    TRUNC("decade", trunc_decade, PARTS),
    TRUNC("century", trunc_century, PARTS),
    TRUNC("millennium", trunc_millennium, PARTS),
};

extern const FunctionFamily functions_date;
const FunctionFamily functions_date = { "Dates", functions, COUNT_OF(functions) };
