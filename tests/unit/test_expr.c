// test_expr.c - expressions: which types they have, which casts appear, what folds, what they evaluate to.
//
// Most checks build an expression and compare how it reads: "p * (1.00 - q) decimal(18,4)".

#include "test.h"

#include "plan/functions.h"
#include "plan/plan.h"

static Arena *arena;
static Error err;

// Columns of a made-up relation; the number is the column.
static const Type columns[] = {
    { TYPE_SMALLINT, 0, 0 }, { TYPE_INTEGER, 0, 0 }, { TYPE_BIGINT, 0, 0 },    { TYPE_DECIMAL, 12, 2 },
    { TYPE_DECIMAL, 9, 4 },  { TYPE_REAL, 0, 0 },    { TYPE_DOUBLE, 0, 0 },    { TYPE_DATE, 0, 0 },
    { TYPE_TEXT, 0, 0 },     { TYPE_BOOLEAN, 0, 0 }, { TYPE_DECIMAL, 18, 10 }, { TYPE_DECIMAL, 18, 0 },
};
enum { SMALL, INT, BIG, MONEY, RATE, REAL, DOUBLE, DATE, TEXT, BOOL, FINE, WIDE };

static void free_arena(void)
{
    arena_free(arena);
}

static void begin(void)
{
    if (arena)
        arena_free(arena);
    else
        atexit(free_arena);
    arena = arena_new(NULL, "test");
    error_clear(&err);
}

// ---- building: NULL once something has failed -----------------------------------------------------------------------

static Expr *column(int number)
{
    return expr_column(arena, number, columns[number], number);
}

static Expr *number(const char *text)
{
    Expr *expr = NULL;
    return expr_number(arena, text, strlen(text), 100, &expr, &err) ? NULL : expr;
}

static Expr *text_value(Type type, const char *text)
{
    Value value = { .type = type };
    value.text.bytes = text;
    value.text.length = (u32)strlen(text);
    return expr_const(arena, value, 101);
}

static Expr *literal(const char *text)
{
    return text_value(TYPE(NULL), text);
}

static Expr *null_literal(void)
{
    return expr_const(arena, (Value){ .type = TYPE(NULL), .is_null = true }, 102);
}

static Expr *cast(Expr *arg, Type type)
{
    Expr *expr = NULL;
    return !arg || expr_cast(arena, arg, type, 103, &expr, &err) ? NULL : expr;
}

static Expr *typed(const char *text, Type type)
{
    return cast(literal(text), type);
}

static Expr *boolean(bool value)
{
    return expr_const(arena, (Value){ .type = TYPE(BOOLEAN), .i = value }, 104);
}

static Expr *call_n(Op op, Expr **args, int n_args)
{
    Expr *expr = NULL;
    for (int i = 0; i < n_args; i++)
        if (!args[i])
            return NULL;
    return expr_call(arena, op, args, n_args, 50, &expr, &err) ? NULL : expr;
}

static Expr *call(Op op, Expr *a, Expr *b)
{
    return call_n(op, (Expr *[]){ a, b }, 2);
}

static Expr *call1(Op op, Expr *a)
{
    return call_n(op, &a, 1);
}

static Expr *call_function(const char *name, Expr *a)
{
    return a ? call_n(function_find(name, &a, 1), &a, 1) : NULL;
}

static Expr *choose(Expr *condition, Expr *yes, Expr *no)
{
    Expr *expr = NULL;
    return expr_case(arena, (Expr *[]){ condition, yes, no }, 3, 50, &expr, &err) ? NULL : expr;
}

#define CALL(op, ...) call_n(op, (Expr *[]){ __VA_ARGS__ }, COUNT_OF(((Expr *[]){ __VA_ARGS__ })))

// ---- looking --------------------------------------------------------------------------------------------------------

// The SQLSTATE and the message of what failed; starts anew.
static const char *failure(void)
{
    const char *text = arena_printf(arena, "%s %s", err.sqlstate, err.message);
    error_clear(&err);
    return text;
}

static const char *shown(const Expr *expr)
{
    char name[32];
    Text text = { 0 };
    if (!expr)
        return failure();
    expr_print(expr, NULL, &text);
    text_add(&text, " %s", type_name(expr->type, name));
    return text_keep(arena, &text);
}

// What it evaluates to: as output, "NULL", or the failure.
static const char *result(const Expr *expr)
{
    Value value;
    if (!expr || expr_eval(expr, &(EvalContext){ .arena = arena }, &value, &err))
        return failure();
    if (value.is_null)
        return "NULL";
    CHECK(type_equal(value.type, expr->type));
    size_t length = value_format(&value, NULL, 0);
    char *buffer = arena_alloc(arena, length + 1);
    value_format(&value, buffer, length + 1);
    return buffer;
}

static const char *compute(Op op, const char *a, Type a_type, const char *b, Type b_type)
{
    return result(call(op, typed(a, a_type), typed(b, b_type)));
}

// ---- literals -------------------------------------------------------------------------------------------------------

TEST(numbers_are_typed_by_their_digits)
{
    begin();
    CHECK_STR(shown(number("0")), "0 integer");
    CHECK_STR(shown(number("2147483647")), "2147483647 integer");
    CHECK_STR(shown(number("2147483648")), "2147483648 bigint");
    CHECK_STR(shown(number("-2147483648")), "-2147483648 integer");
    CHECK_STR(shown(number("9223372036854775807")), "9223372036854775807 bigint");
    CHECK_STR(shown(number("-9223372036854775808")), "-9223372036854775808 bigint");
    CHECK_STR(shown(number("9223372036854775808")), "9223372036854775808 numeric");
    CHECK_STR(shown(number("1.50")), "1.50 decimal(3,2)");
    CHECK_STR(shown(number(".5")), "0.5 decimal(1,1)");
    CHECK_STR(shown(number("5.")), "5 decimal(1,0)");
    CHECK_STR(shown(number("0.000")), "0.000 decimal(3,3)");
    CHECK_STR(shown(number("00012.5")), "12.5 decimal(3,1)");
    CHECK_STR(shown(number("123456789012345.678")), "123456789012345.678 decimal(18,3)");
    CHECK_STR(shown(number("1234567890123456.789")), "1234567890123456.789 numeric");
    CHECK_STR(shown(number("1e3")), "1000 decimal(4,0)");
    CHECK_STR(shown(number("00000000000000000000000000000000000000000000000000007")), "7 integer");
    CHECK_STR(shown(number("1e-5")), "0.00001 decimal(5,5)");
    CHECK_STR(shown(number("1e20")), "100000000000000000000 numeric");
    CHECK_STR(shown(number("1e300")), "1e+300 double precision");
    CHECK_STR(shown(number("1e999")), "22003 \"1e999\" is out of range for type double precision");
    CHECK_STR(shown(number("1.2.3")), "22P02 invalid input syntax for type numeric: \"1.2.3\"");
    CHECK_STR(shown(number("1e")), "22P02 invalid input syntax for type numeric: \"1e\"");
    CHECK_STR(shown(number("")), "22P02 invalid input syntax for type numeric: \"\"");
}

TEST(literals_take_the_type_of_the_other_side)
{
    begin();
    CHECK_STR(shown(call(OP_EQ, column(INT), literal("7"))), "c1 = 7 boolean");
    CHECK_STR(shown(call(OP_EQ, literal("7"), column(INT))), "7 = c1 boolean");
    CHECK_STR(shown(call(OP_LT, column(DATE), literal("1994-01-01"))), "c7 < date '1994-01-01' boolean");
    CHECK_STR(shown(call(OP_EQ, column(BOOL), literal("yes"))), "c9 = true boolean");
    CHECK_STR(shown(call(OP_EQ, column(MONEY), literal("1.5"))), "c3 = 1.50 boolean");
    CHECK_STR(shown(call(OP_LT, column(MONEY), literal("1.555"))), "c3 <= 1.55 boolean");
    CHECK_STR(shown(call(OP_ADD, column(MONEY), literal("1.555"))), "c3::decimal(13,3) + 1.555 decimal(14,3)");
    CHECK_STR(shown(call(OP_EQ, literal("a"), literal("a"))), "true boolean");
    CHECK_STR(shown(call(OP_EQ, column(INT), literal("x"))), "22P02 invalid input syntax for type integer: \"x\"");
    CHECK_STR(shown(call(OP_EQ, column(INT), text_value(TYPE(TEXT), "7"))),
              "42883 operator does not exist: integer = text");
    CHECK_STR(shown(call(OP_ADD, literal("1"), literal("2"))), "42883 operator does not exist: unknown + unknown");
    CHECK_STR(shown(call(OP_SUB, column(DATE), literal("1994-01-01"))), "c7 - date '1994-01-01' integer");
}

TEST(errors_say_where)
{
    begin();
    CHECK(!call(OP_EQ, column(INT), literal("x")));
    CHECK_INT(err.position, 101);
    error_clear(&err);
    CHECK(!call(OP_ADD, column(BOOL), column(INT)));
    CHECK_INT(err.position, 50);
    CHECK_HAS(err.hint, "cast");
}

// ---- arithmetic: types ----------------------------------------------------------------------------------------------

TEST(integers_widen_without_a_cast)
{
    begin();
    CHECK_STR(shown(call(OP_ADD, column(SMALL), column(SMALL))), "c0 + c0 smallint");
    CHECK_STR(shown(call(OP_ADD, column(SMALL), column(INT))), "c0 + c1 integer");
    CHECK_STR(shown(call(OP_MUL, column(BIG), column(INT))), "c2 * c1 bigint");
    CHECK_STR(shown(call(OP_DIV, column(INT), column(SMALL))), "c1 / c0 integer");
    CHECK_STR(shown(call(OP_MOD, column(BIG), column(SMALL))), "c2 % c0 bigint");
    CHECK_STR(shown(call1(OP_NEG, column(SMALL))), "- c0 smallint");
    CHECK_STR(shown(call_function("abs", column(BIG))), "abs(c2) bigint");
}

TEST(decimals_line_up_their_scales)
{
    begin();
    CHECK_STR(shown(call(OP_ADD, column(MONEY), column(MONEY))), "c3 + c3 decimal(13,2)");
    CHECK_STR(shown(call(OP_ADD, column(MONEY), column(RATE))), "c3::decimal(14,4) + c4 decimal(15,4)");
    CHECK_STR(shown(call(OP_SUB, number("1"), column(MONEY))), "1.00 - c3 decimal(13,2)");
    CHECK_STR(shown(call(OP_ADD, column(INT), column(MONEY))), "c1::decimal(12,2) + c3 decimal(13,2)");
    CHECK_STR(shown(call(OP_ADD, column(BIG), column(MONEY))), "c2::numeric + c3 numeric");
    CHECK_STR(shown(call(OP_MUL, column(MONEY), column(RATE))), "c3 * c4 numeric");
    CHECK_STR(shown(call(OP_MUL, column(INT), column(RATE))), "c1::numeric * c4 numeric");
    CHECK_STR(shown(call(OP_MOD, column(MONEY), column(RATE))), "c3::decimal(14,4) % c4 decimal(14,4)");
    CHECK_STR(shown(call(OP_MUL, column(FINE), column(FINE))), "c10 * c10 numeric");
    CHECK_STR(shown(call(OP_DIV, column(MONEY), column(INT))), "c3 / c1::numeric numeric");
    CHECK_STR(shown(call(OP_DIV, column(MONEY), number("2"))), "c3 / 2 numeric");
}

TEST(floats_swallow_the_rest)
{
    begin();
    CHECK_STR(shown(call(OP_ADD, column(REAL), column(REAL))), "c5 + c5 real");
    CHECK_STR(shown(call(OP_ADD, column(REAL), column(INT))),
              "c5::double precision + c1::double precision double precision");
    CHECK_STR(shown(call(OP_MUL, column(DOUBLE), column(MONEY))), "c6 * c3::double precision double precision");
    CHECK_STR(shown(call(OP_DIV, column(REAL), column(REAL))), "c5 / c5 real");
    CHECK_STR(shown(call(OP_MOD, column(DOUBLE), column(DOUBLE))),
              "42883 operator does not exist: double precision % double precision");
    CHECK_STR(shown(call(OP_MUL, column(REAL), number("1.5"))), "c5::double precision * 1.5 double precision");
}

TEST(dates_add_days)
{
    begin();
    CHECK_STR(shown(call(OP_ADD, column(DATE), column(INT))), "c7 + c1 date");
    CHECK_STR(shown(call(OP_ADD, column(INT), column(DATE))), "c7 + c1 date");
    CHECK_STR(shown(call(OP_SUB, column(DATE), column(SMALL))), "c7 - c0 date");
    CHECK_STR(shown(call(OP_SUB, column(DATE), column(DATE))), "c7 - c7 integer");
    CHECK_STR(shown(call(OP_ADD, column(DATE), column(BIG))), "42883 operator does not exist: date + bigint");
    CHECK_STR(shown(call(OP_ADD, column(DATE), column(DATE))), "42883 operator does not exist: date + date");
    CHECK_STR(shown(call(OP_SUB, column(INT), column(DATE))), "42883 operator does not exist: integer - date");
    CHECK_STR(shown(call(OP_MUL, column(DATE), column(INT))), "42883 operator does not exist: date * integer");
}

TEST(intervals_move_constant_dates)
{
    Type interval = TYPE(INTERVAL), date = TYPE(DATE);
    begin();
    CHECK_STR(compute(OP_ADD, "1994-01-01", date, "1 year", interval), "1995-01-01 00:00:00");
    CHECK_STR(compute(OP_SUB, "1998-12-01", date, "90 days", interval), "1998-09-02 00:00:00");
    CHECK_STR(compute(OP_ADD, "1 month", interval, "1996-01-31", date), "1996-02-29 00:00:00");
    CHECK_STR(compute(OP_SUB, "1996-02-29", date, "1 year", interval), "1995-02-28 00:00:00");
    CHECK_STR(compute(OP_SUB, "1996-03-31", date, "1 month 1 day", interval), "1996-02-28 00:00:00");
    CHECK_STR(compute(OP_ADD, "2000-12-15", date, "-13 months", interval), "1999-11-15 00:00:00");
    CHECK_STR(compute(OP_SUB, "0001-01-01", date, "1 day", interval), "22008 timestamp out of range");
    CHECK_STR(compute(OP_ADD, "9999-12-31", date, "1 month", interval), "22008 timestamp out of range");
    CHECK_STR(compute(OP_ADD, "2000-01-01", date, "2147483647 months", interval), "22008 timestamp out of range");
    CHECK_STR(shown(call(OP_ADD, column(DATE), typed("3 days", interval))),
              "timestamp_shift(date_to_timestamp(c7), interval '3 days') timestamp without time zone");
    CHECK_STR(shown(call(OP_SUB, column(DATE), typed("2 weeks", interval))),
              "timestamp_shift(date_to_timestamp(c7), interval '-14 days') timestamp without time zone");
    CHECK_STR(shown(call(OP_ADD, column(DATE), typed("1 month", interval))),
              "timestamp_shift_months(date_to_timestamp(c7), interval '1 mon') timestamp without time zone");
    CHECK_STR(shown(call(OP_ADD, typed("1 year", interval), typed("1 month", interval))),
              "interval '1 year 1 mon' interval");
    CHECK_STR(shown(call1(OP_NEG, typed("1 year", interval))), "interval '-1 years' interval");
    CHECK_STR(shown(call(OP_MUL, typed("1 year", interval), number("2"))),
              "interval '2 years' interval");
    CHECK_STR(shown(call(OP_LT, typed("1 year", interval), typed("1 year", interval))),
              "false boolean");
}

// ---- arithmetic: values ---------------------------------------------------------------------------------------------

TEST(integer_arithmetic_ends_at_its_type)
{
    Type small = TYPE(SMALLINT), integer = TYPE(INTEGER), big = TYPE(BIGINT);
    begin();
    CHECK_STR(compute(OP_ADD, "2147483647", integer, "1", integer), "22003 integer out of range");
    CHECK_STR(compute(OP_SUB, "-2147483648", integer, "1", integer), "22003 integer out of range");
    CHECK_STR(compute(OP_MUL, "65536", integer, "65536", integer), "22003 integer out of range");
    CHECK_STR(compute(OP_ADD, "2147483647", integer, "1", big), "2147483648");
    CHECK_STR(compute(OP_ADD, "32767", small, "1", small), "22003 smallint out of range");
    CHECK_STR(compute(OP_ADD, "32767", small, "1", integer), "32768");
    CHECK_STR(compute(OP_MUL, "9223372036854775807", big, "9223372036854775807", big), "22003 bigint out of range");
    CHECK_STR(compute(OP_MUL, "-9223372036854775808", big, "-1", big), "22003 bigint out of range");
    CHECK_STR(compute(OP_DIV, "-9223372036854775808", big, "-1", big), "22003 bigint out of range");
    CHECK_STR(compute(OP_DIV, "-2147483648", integer, "-1", integer), "22003 integer out of range");
    CHECK_STR(compute(OP_MOD, "-9223372036854775808", big, "-1", big), "0");
    CHECK_STR(compute(OP_DIV, "-7", integer, "2", integer), "-3");
    CHECK_STR(compute(OP_MOD, "-7", integer, "2", integer), "-1");
    CHECK_STR(compute(OP_MOD, "7", integer, "-2", integer), "1");
    CHECK_STR(compute(OP_DIV, "1", integer, "0", integer), "22012 division by zero");
    CHECK_STR(compute(OP_MOD, "1", integer, "0", integer), "22012 division by zero");
    CHECK_STR(result(call1(OP_NEG, typed("-32768", small))), "22003 smallint out of range");
    CHECK_STR(result(call_function("abs", typed("-9223372036854775808", big))), "22003 bigint out of range");
    CHECK_STR(result(call_function("abs", typed("-5", integer))), "5");
}

TEST(decimal_arithmetic_is_exact)
{
    Type money = columns[MONEY], rate = columns[RATE];
    begin();
    CHECK_STR(compute(OP_ADD, "0.10", money, "0.2000", rate), "0.3000");
    CHECK_STR(compute(OP_MUL, "-1.50", money, "0.0300", rate), "-0.045000");
    CHECK_STR(compute(OP_MOD, "-7.50", money, "2.00", money), "-1.50");
    CHECK_STR(compute(OP_MOD, "-7.50", money, "0", money), "22012 division by zero");
    CHECK_STR(compute(OP_DIV, "1.00", money, "3", TYPE(INTEGER)), "0.33333333333333333333");
    CHECK_STR(compute(OP_DIV, "1.00", money, "0", money), "22012 division by zero");
    CHECK_STR(result(call(OP_MUL, number("999999999.999999999"), number("999999999.9"))),
              "999999999899999999.0000000001");
    CHECK_STR(result(call(OP_ADD, number("999999999999999999."), number("1."))), "1000000000000000000");
    CHECK_STR(result(call(OP_ADD, number("1.0000000000"), number("9223372036854775807"))),
              "9223372036854775808.0000000000");
    CHECK_STR(result(call(OP_ADD, number("99999999999999999999999999999999999999"), number("1."))),
              "22003 numeric out of range");
}

TEST(float_arithmetic_reports_overflow)
{
    Type big = TYPE(DOUBLE), small = TYPE(REAL);
    begin();
    CHECK_STR(compute(OP_ADD, "1e308", big, "1e308", big), "22003 value out of range: overflow");
    CHECK_STR(compute(OP_MUL, "1e200", big, "1e200", big), "22003 value out of range: overflow");
    CHECK_STR(compute(OP_MUL, "1e-200", big, "1e-200", big), "22003 value out of range: underflow");
    CHECK_STR(compute(OP_MUL, "3e38", small, "10", small), "22003 value out of range: overflow");
    CHECK_STR(compute(OP_ADD, "Infinity", big, "1", big), "Infinity");
    CHECK_STR(compute(OP_SUB, "Infinity", big, "Infinity", big), "NaN");
    CHECK_STR(compute(OP_DIV, "1", big, "0", big), "22012 division by zero");
    CHECK_STR(compute(OP_DIV, "NaN", big, "0", big), "NaN");
    CHECK_STR(compute(OP_DIV, "1", big, "Infinity", big), "0");
    CHECK_STR(compute(OP_ADD, "0.1", small, "0.2", small), "0.3");
    CHECK_STR(compute(OP_ADD, "0.1", big, "0.2", big), "0.30000000000000004");
    CHECK_STR(result(call1(OP_NEG, typed("NaN", big))), "NaN");
    CHECK_STR(result(call_function("abs", typed("-0.5", small))), "0.5");
}

// ---- comparison -----------------------------------------------------------------------------------------------------

TEST(constants_move_to_the_column)
{
    begin();
    CHECK_STR(shown(call(OP_LT, column(MONEY), number("24"))), "c3 < 24.00 boolean");
    CHECK_STR(shown(call(OP_GE, column(MONEY), number("0.05"))), "c3 >= 0.05 boolean");
    CHECK_STR(shown(call(OP_LT, column(INT), number("1.5"))), "c1 <= 1 boolean");
    CHECK_STR(shown(call(OP_LE, column(INT), number("-1.5"))), "c1 <= -2 boolean");
    CHECK_STR(shown(call(OP_GT, column(INT), number("1.5"))), "c1 > 1 boolean");
    CHECK_STR(shown(call(OP_GE, column(INT), number("-1.5"))), "c1 > -2 boolean");
    CHECK_STR(shown(call(OP_GT, number("1.5"), column(INT))), "c1 <= 1 boolean");
    CHECK_STR(shown(call(OP_EQ, column(INT), number("2.00"))), "c1 = 2 boolean");
    CHECK_STR(shown(call(OP_EQ, column(INT), number("1.5"))), "c1 is null and null boolean");
    CHECK_STR(shown(call(OP_NE, column(INT), number("1.5"))), "c1 is not null or null boolean");
    CHECK_STR(shown(call(OP_LT, column(MONEY), number("0.123456789012345678"))), "c3 <= 0.12 boolean");
    CHECK_STR(shown(call(OP_LT, column(MONEY), number("1000000000000000000"))), "c3 <= 9999999999999999.99 boolean");
    CHECK_STR(shown(call(OP_GT, column(MONEY), number("1000000000000000000"))), "c3 > 9999999999999999.99 boolean");
    CHECK_STR(shown(call(OP_GT, column(MONEY), number("-1000000000000000000"))),
              "c3 >= -9999999999999999.99 boolean");
    CHECK_STR(shown(call(OP_EQ, column(MONEY), number("1000000000000000000"))), "c3 is null and null boolean");
    CHECK_STR(shown(call(OP_EQ, column(SMALL), number("100000"))), "c0 = 100000 boolean");
    CHECK_STR(shown(call(OP_EQ, column(BIG), column(INT))), "c2 = c1 boolean");
    CHECK_STR(shown(call(OP_EQ, column(MONEY), column(RATE))), "c3::decimal(14,4) = c4::decimal(14,4) boolean");
    CHECK_STR(shown(call(OP_EQ, column(INT), column(MONEY))), "c1::decimal(12,2) = c3 boolean");
    CHECK_STR(shown(call(OP_EQ, column(REAL), number("0.1"))), "c5::double precision = 0.1 boolean");
    CHECK_STR(shown(call(OP_EQ, column(REAL), column(REAL))),
              "c5::double precision = c5::double precision boolean");
    CHECK_STR(shown(call(OP_LT, column(MONEY), column(DOUBLE))), "c3::double precision < c6 boolean");
    CHECK_STR(shown(call(OP_EQ, column(DATE), column(INT))), "42883 operator does not exist: date = integer");
    CHECK_STR(shown(call(OP_EQ, column(BOOL), column(INT))), "42883 operator does not exist: boolean = integer");
}

TEST(constants_compare_across_types)
{
    begin();
    CHECK_STR(result(call(OP_LT, number("1"), number("1.5"))), "t");
    CHECK_STR(result(call(OP_EQ, number("999999999999999999"), number("0.999999999999999999"))), "f");
    CHECK_STR(result(call(OP_EQ, number("9223372036854775807"), number("9223372036854775807"))), "t");
    CHECK_STR(result(call(OP_EQ, number("1.50"), number("1.5"))), "t");
    CHECK_STR(result(call(OP_EQ, number("1.5"), number("15e-1"))), "t");
}

TEST(nan_is_the_largest_and_zero_has_no_sign)
{
    Type type = TYPE(DOUBLE);
    begin();
    CHECK_STR(compute(OP_EQ, "NaN", type, "NaN", type), "t");
    CHECK_STR(compute(OP_GT, "NaN", type, "Infinity", type), "t");
    CHECK_STR(compute(OP_LT, "NaN", type, "1", type), "f");
    CHECK_STR(compute(OP_NE, "1", type, "NaN", type), "t");
    CHECK_STR(compute(OP_EQ, "-0", type, "0", type), "t");
    CHECK_STR(compute(OP_LT, "-0", type, "0", type), "f");
}

TEST(text_compares_by_bytes)
{
    Type text = TYPE(TEXT);
    begin();
    CHECK_STR(compute(OP_LT, "B", text, "a", text), "t");
    CHECK_STR(compute(OP_LT, "ab", text, "abc", text), "t");
    CHECK_STR(compute(OP_LT, "z", text, "ä", text), "t");
    CHECK_STR(compute(OP_EQ, "", text, "", text), "t");
    CHECK_STR(compute(OP_GE, "a", text, "a ", text), "f");
}

// ---- logic ----------------------------------------------------------------------------------------------------------

TEST(logic_has_three_values)
{
    const char *names[] = { "f", "t", "NULL" };
    const char *and_table[3][3] = { { "f", "f", "f" }, { "f", "t", "NULL" }, { "f", "NULL", "NULL" } };
    const char *or_table[3][3] = { { "f", "t", "NULL" }, { "t", "t", "t" }, { "NULL", "t", "NULL" } };
    begin();
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            Expr *a = i < 2 ? boolean(i) : null_literal(), *b = j < 2 ? boolean(j) : null_literal();
            CHECK_STR(result(call(OP_AND, a, b)), and_table[i][j]);
            CHECK_STR(result(call(OP_OR, a, b)), or_table[i][j]);
        }
        CHECK_STR(result(call1(OP_NOT, i < 2 ? boolean(i) : null_literal())), i < 2 ? names[!i] : "NULL");
    }
}

TEST(logic_is_simplified)
{
    begin();
    CHECK_STR(shown(call(OP_AND, column(BOOL), boolean(true))), "c9 boolean");
    CHECK_STR(shown(call(OP_AND, column(BOOL), boolean(false))), "false boolean");
    CHECK_STR(shown(call(OP_OR, boolean(true), column(BOOL))), "true boolean");
    CHECK_STR(shown(call(OP_AND, boolean(true), boolean(false))), "false boolean");
    CHECK_STR(shown(call(OP_OR, boolean(false), boolean(true))), "true boolean");
    CHECK_STR(shown(call(OP_AND, column(BOOL), null_literal())), "c9 and null boolean");
    CHECK_STR(shown(call1(OP_NOT, call1(OP_NOT, column(BOOL)))), "c9 boolean");
    CHECK_STR(shown(call1(OP_NOT, call(OP_LT, column(INT), number("5")))), "c1 >= 5 boolean");
    CHECK_STR(shown(call1(OP_NOT, call1(OP_IS_NULL, column(INT)))), "c1 is not null boolean");
    CHECK_STR(shown(call(OP_AND, column(INT), boolean(true))),
              "42804 argument of AND must be type boolean, not type integer");
    CHECK_STR(shown(call1(OP_IS_NULL, null_literal())), "true boolean");
    CHECK_STR(shown(call1(OP_IS_NOT_NULL, number("1"))), "true boolean");
    CHECK_STR(shown(call(OP_ADD, column(INT), null_literal())), "null integer");
    CHECK_STR(shown(call(OP_EQ, column(INT), null_literal())), "null boolean");
}

TEST(in_sorts_and_drops_what_cannot_match)
{
    begin();
    CHECK_STR(shown(CALL(OP_IN, column(INT), number("3"), number("1"), number("3"))), "c1 in (1, 3) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(INT), number("2.0"), number("2.5"))), "c1 in (2) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(INT), number("2.5"), number("3.5"))), "c1 is null and null boolean");
    CHECK_STR(shown(CALL(OP_IN, column(SMALL), number("1"), number("100000"))), "c0 in (1) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(MONEY), number("2"), literal("1.5"))), "c3 in (1.50, 2.00) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(TEXT), literal("b"), literal("a"))), "c8 in ('a', 'b') boolean");
    CHECK_STR(shown(CALL(OP_IN, column(INT), null_literal(), number("1"))), "c1 in (1, null) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(INT), number("1"), number("1e0"))), "c1 in (1) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(REAL), number("1"))), "c5::double precision in (1) boolean");
    CHECK_STR(shown(CALL(OP_IN, column(DATE), literal("1994-01-01"))), "c7 in (date '1994-01-01') boolean");
    CHECK_STR(shown(CALL(OP_IN, column(INT), text_value(TYPE(TEXT), "1"))),
              "42883 operator does not exist: integer = text");
    CHECK_STR(result(CALL(OP_IN, number("2"), number("1"), number("2"))), "t");
    CHECK_STR(result(CALL(OP_IN, number("2"), number("1"), number("3"))), "f");
    CHECK_STR(result(CALL(OP_IN, number("2"), number("1"), null_literal())), "NULL");
    CHECK_STR(result(CALL(OP_IN, number("2"), number("2"), null_literal())), "t");
    CHECK_STR(result(CALL(OP_IN, null_literal(), number("2"))), "NULL");
    CHECK_STR(result(CALL(OP_IN, literal("b"), literal("a"), literal("b"))), "t");
}

TEST(in_searches_many_constants)
{
    enum { N = 10000 };
    begin();
    Expr **args = arena_array(arena, Expr *, N + 1);
    for (int wanted = -1; wanted < 2 * N + 1; wanted += 997) {
        args[0] = expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = wanted }, -1);
        for (int i = 1; i <= N; i++)
            args[i] = expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = 2 * ((i * 7919) % N) }, -1);
        bool is_in = wanted >= 0 && wanted < 2 * N && wanted % 2 == 0;
        CHECK_STR(result(call_n(OP_IN, args, N + 1)), is_in ? "t" : "f");
    }
}

// ---- choices --------------------------------------------------------------------------------------------------------

TEST(case_takes_live_branches_only)
{
    begin();
    Expr *bad = call(OP_DIV, number("1"), number("0"));
    CHECK_STR(shown(choose(boolean(false), bad, number("2"))), "2 integer");
    CHECK_STR(shown(choose(boolean(true), number("1"), bad)), "1 integer");
    CHECK_STR(shown(choose(null_literal(), bad, number("2"))), "2 integer");
    CHECK_STR(shown(choose(column(BOOL), bad, number("2"))), "case when c9 then 1 / 0 else 2 end integer");
    CHECK_STR(result(choose(boolean(true), bad, number("2"))), "22012 division by zero");
    CHECK_STR(shown(choose(column(BOOL), number("1"), number("2.5"))),
              "case when c9 then 1.0 else 2.5 end decimal(11,1)");
    CHECK_STR(shown(choose(column(BOOL), column(INT), column(BIG))),
              "case when c9 then c1::bigint else c2 end bigint");
    CHECK_STR(shown(choose(column(BOOL), literal("a"), null_literal())), "case when c9 then 'a' else null end text");
    CHECK_STR(shown(choose(column(BOOL), column(DATE), literal("1994-01-01"))),
              "case when c9 then c7 else date '1994-01-01' end date");
    CHECK_STR(shown(choose(column(BOOL), column(DATE), column(INT))),
              "42804 CASE types date and integer cannot be matched");
    CHECK_STR(shown(choose(column(INT), number("1"), number("2"))),
              "42804 argument of CASE/WHEN must be type boolean, not type integer");
}

static Expr *written_not(Expr *arg)
{
    Expr *out;
    CHECK_OK(expr_not(arena, arg, -1, &out, &err), err);
    return out;
}

static Expr *folded(Expr *expr)
{
    Expr *out;
    CHECK_OK(expr_fold_nots(arena, expr, &out, &err), err);
    return out;
}

TEST(not_is_folded_when_it_is_asked_for)
{
    begin();
    Expr *twice = written_not(written_not(column(BOOL))), *less = call(OP_LT, column(INT), number("5"));
    Expr *distinct = CALL(OP_COALESCE, call(OP_NE, column(INT), column(BIG)),
                          call(OP_OR, call1(OP_IS_NOT_NULL, column(INT)), call1(OP_IS_NOT_NULL, column(BIG))));
    CHECK_STR(shown(twice), "not not c9 boolean");
    CHECK_STR(shown(written_not(boolean(true))), "false boolean");
    CHECK_STR(shown(folded(twice)), "c9 boolean");
    CHECK_STR(shown(folded(call(OP_AND, written_not(less), written_not(twice)))), "c1 >= 5 and not c9 boolean");
    CHECK_STR(shown(folded(written_not(call(OP_AND, less, column(BOOL))))), "not (c1 < 5 and c9) boolean");
    CHECK_STR(shown(folded(written_not(distinct))), "coalesce(c1 = c2, c1 is null and c2 is null) boolean");
    CHECK_STR(shown(folded(written_not(CALL(OP_COALESCE, column(BOOL), boolean(false))))),
              "not coalesce(c9, false) boolean");
    CHECK(folded(distinct) == distinct);
}

TEST(coalesce_stops_at_the_first_value)
{
    begin();
    Expr *bad = call(OP_DIV, number("1"), number("0"));
    CHECK_STR(shown(CALL(OP_COALESCE, null_literal(), number("3"), bad)), "3 integer");
    CHECK_STR(shown(CALL(OP_COALESCE, column(INT), null_literal(), number("3"), column(INT))),
              "coalesce(c1, 3) integer");
    CHECK_STR(shown(CALL(OP_COALESCE, column(INT), column(MONEY))),
              "coalesce(c1::decimal(12,2), c3) decimal(12,2)");
    CHECK_STR(shown(CALL(OP_COALESCE, column(MONEY), literal("1.234"))),
              "coalesce(c3::decimal(13,3), 1.234) decimal(13,3)");
    CHECK_STR(shown(CALL(OP_COALESCE, null_literal(), null_literal())), "null text");
    CHECK_STR(shown(CALL(OP_COALESCE, column(INT), column(TEXT))),
              "42804 COALESCE types integer and text cannot be matched");
    CHECK_STR(shown(CALL(OP_COALESCE, column(REAL), column(INT))),
              "coalesce(c5::double precision, c1::double precision) double precision");
}

// ---- casts ----------------------------------------------------------------------------------------------------------

TEST(casts_round_as_postgresql_does)
{
    begin();
    CHECK_STR(result(cast(number("1.5"), TYPE(INTEGER))), "2");
    CHECK_STR(result(cast(number("2.5"), TYPE(INTEGER))), "3");
    CHECK_STR(result(cast(number("-2.5"), TYPE(INTEGER))), "-3");
    CHECK_STR(result(cast(cast(number("25e-1"), TYPE(DOUBLE)), TYPE(INTEGER))), "2");
    CHECK_STR(result(cast(cast(number("35e-1"), TYPE(DOUBLE)), TYPE(INTEGER))), "4");
    CHECK_STR(result(cast(cast(number("-25e-1"), TYPE(DOUBLE)), TYPE(BIGINT))), "-2");
    CHECK_STR(result(cast(number("1.005"), columns[MONEY])), "1.01");
    CHECK_STR(result(cast(number("-1.005"), columns[MONEY])), "-1.01");
    CHECK_STR(result(cast(cast(number("1.005"), TYPE(DOUBLE)), columns[MONEY])), "1.01");  // by its digits
    CHECK_STR(result(cast(number("1.004999"), columns[MONEY])), "1.00");
    CHECK_STR(result(cast(number("1e15"), TYPE(INTEGER))), "22003 integer out of range");
    CHECK_STR(result(cast(number("1e19"), TYPE(BIGINT))), "22003 bigint out of range");
    CHECK_STR(result(cast(typed("NaN", TYPE(DOUBLE)), TYPE(INTEGER))), "22003 integer out of range");
    CHECK_STR(result(cast(typed("NaN", TYPE(DOUBLE)), columns[MONEY])), "22003 cannot convert NaN to decimal(12,2)");
    CHECK_STR(result(cast(number("12345678901.5"), columns[MONEY])), "22003 value out of range for decimal(12,2)");
    CHECK_STR(result(cast(number("9999999999.995"), columns[MONEY])), "22003 value out of range for decimal(12,2)");
    CHECK_STR(result(cast(number("1e300"), TYPE(REAL))), "22003 value out of range: overflow");
    CHECK_STR(result(cast(number("1e-300"), TYPE(REAL))), "22003 value out of range: underflow");
    CHECK_STR(result(cast(number("16777217"), TYPE(REAL))), "1.6777216e+07");
    CHECK_STR(result(cast(number("0.1"), TYPE(DOUBLE))), "0.1");
    CHECK_STR(result(cast(typed("0.1", TYPE(REAL)), TYPE(DOUBLE))), "0.10000000149011612");
    CHECK_STR(result(cast(typed("0.1", TYPE(REAL)), columns[RATE])), "0.1000");
}

TEST(casts_between_other_types)
{
    begin();
    CHECK_STR(shown(cast(boolean(true), TYPE(INTEGER))), "1 integer");
    CHECK_STR(shown(cast(number("7"), TYPE(BOOLEAN))), "true boolean");
    CHECK_STR(shown(cast(boolean(true), TYPE(BIGINT))), "42846 cannot cast type boolean to bigint");
    CHECK_STR(shown(cast(column(DATE), TYPE(INTEGER))), "42846 cannot cast type date to integer");
    CHECK_STR(shown(cast(boolean(false), TYPE(TEXT))), "'false' text");
    CHECK_STR(shown(cast(number("1.50"), TYPE(TEXT))), "'1.50' text");
    CHECK_STR(shown(cast(text_value(TYPE(TEXT), " 42 "), TYPE(INTEGER))), "42 integer");
    CHECK_STR(result(cast(text_value(TYPE(TEXT), "x"), TYPE(INTEGER))),
              "22P02 invalid input syntax for type integer: \"x\"");
    CHECK_STR(shown(cast(literal("1994-02-30"), TYPE(DATE))),
              "22008 date/time field value out of range: \"1994-02-30\"");
    CHECK_STR(shown(cast(null_literal(), TYPE(DATE))), "null date");
    CHECK_STR(shown(cast(column(INT), TYPE(INTEGER))), "c1 integer");
    CHECK_STR(shown(cast(column(INT), TYPE(BIGINT))), "c1::bigint bigint");
    CHECK_STR(shown(cast(column(TEXT), TYPE(INTEGER))),
              "c8::integer integer");
    CHECK_STR(shown(cast(column(INT), TYPE(TEXT))),
              "c1::text text");
}

TEST(coerce_only_widens)
{
    Expr *out;
    begin();
    CHECK_OK(expr_coerce(arena, column(INT), TYPE(BIGINT), 1, &out, &err), err);
    CHECK_STR(shown(out), "c1::bigint bigint");
    CHECK_OK(expr_coerce(arena, literal("7"), TYPE(SMALLINT), 1, &out, &err), err);
    CHECK_STR(shown(out), "7 smallint");
    CHECK_STATUS(expr_coerce(arena, column(BIG), TYPE(INTEGER), 9, &out, &err), WEFT_TYPE_MISMATCH);
    CHECK_INT(err.position, 9);
    error_clear(&err);
    CHECK_STATUS(expr_coerce(arena, column(RATE), columns[MONEY], 1, &out, &err), WEFT_TYPE_MISMATCH);
    error_clear(&err);
    CHECK_STATUS(expr_coerce(arena, column(TEXT), TYPE(DATE), 1, &out, &err), WEFT_TYPE_MISMATCH);
}

// ---- text -----------------------------------------------------------------------------------------------------------

static const char *like(const char *text, const char *pattern)
{
    return result(call(OP_LIKE, literal(text), literal(pattern)));
}

TEST(like_matches_characters)
{
    begin();
    CHECK_STR(like("abc", "abc"), "t");
    CHECK_STR(like("abc", "a%"), "t");
    CHECK_STR(like("abc", "%c"), "t");
    CHECK_STR(like("abc", "%b%"), "t");
    CHECK_STR(like("abc", "a_c"), "t");
    CHECK_STR(like("abc", "a_"), "f");
    CHECK_STR(like("abc", "%d%"), "f");
    CHECK_STR(like("", ""), "t");
    CHECK_STR(like("", "%"), "t");
    CHECK_STR(like("", "_"), "f");
    CHECK_STR(like("abc", ""), "f");
    CHECK_STR(like("aXbXc", "%X%X%"), "t");
    CHECK_STR(like("aXbXc", "%X%X%X%"), "f");
    CHECK_STR(like("mississippi", "%iss%ip%i"), "t");
    CHECK_STR(like("special packages requests", "%special%requests%"), "t");
    CHECK_STR(like("ä", "_"), "t");
    CHECK_STR(like("äö", "_"), "f");
    CHECK_STR(like("日本語", "_本_"), "t");
    CHECK_STR(like("日本語", "%語"), "t");
    CHECK_STR(like("xä", "%_ä"), "t");
    CHECK_STR(like("a\nb", "a_b"), "t");
    CHECK_STR(like("ABC", "abc"), "f");
    CHECK_STR(result(call(OP_ILIKE, literal("ABC"), literal("a%C"))), "t");
    CHECK_STR(result(call(OP_ILIKE, literal("ABD"), literal("a%C"))), "f");
    CHECK_STR(result(call(OP_LIKE, null_literal(), literal("a"))), "NULL");
    CHECK_STR(shown(call(OP_LIKE, column(TEXT), literal("PROMO%"))), "c8 like 'PROMO%' boolean");
    CHECK_STR(shown(call(OP_LIKE, column(TEXT), column(TEXT))),
              "c8 like c8 boolean");
    CHECK_STR(shown(call(OP_LIKE, column(INT), literal("a"))), "42883 operator does not exist: integer like unknown");
}

TEST(like_escapes)
{
    begin();
    CHECK_STR(like("a%c", "a\\%c"), "t");
    CHECK_STR(like("abc", "a\\%c"), "f");
    CHECK_STR(like("a_c", "a\\_c"), "t");
    CHECK_STR(like("a\\c", "a\\\\c"), "t");
    CHECK_STR(like("abc", "a\\bc"), "t");
    CHECK_STR(like("abc", "abc\\"), "f");
    CHECK_STR(like("abcd", "abc\\"), "22025 LIKE pattern must not end with escape character");
    CHECK_STR(like("xyz", "abc\\"), "f");
    CHECK_STR(result(CALL(OP_LIKE, literal("a%c"), literal("a!%c"), literal("!"))), "t");
    CHECK_STR(result(CALL(OP_LIKE, literal("abc"), literal("a!%c"), literal("!"))), "f");
    CHECK_STR(result(CALL(OP_LIKE, literal("a%c"), literal("aä%c"), literal("ä"))), "t");
    CHECK_STR(result(CALL(OP_LIKE, literal("a\\c"), literal("a\\c"), literal(""))), "t");
    CHECK_STR(result(CALL(OP_LIKE, literal("a\\xc"), literal("a\\%c"), literal(""))), "t");
    CHECK_STR(result(CALL(OP_LIKE, literal("a"), literal("a"), literal("xx"))), "22025 invalid escape string");
    CHECK_STR(result(CALL(OP_LIKE, literal("%b"), literal("%%b"), literal("%"))), "t");
}

TEST(like_takes_no_exponential_time)
{
    begin();
    char text[2001], pattern[201];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 200; i += 2)
        memcpy(pattern + i, "a%", 3);
    pattern[199] = 'b';
    pattern[200] = '\0';
    CHECK_STR(like(text, pattern), "f");
}

// ---- dates ----------------------------------------------------------------------------------------------------------

static const char *field(const char *name, const char *date)
{
    Expr *arg = typed(date, TYPE(DATE));
    return result(call1(function_find_field(name, arg), arg));
}

TEST(date_fields)
{
    begin();
    CHECK_STR(field("year", "1994-02-28"), "1994");
    CHECK_STR(field("month", "1994-02-28"), "2");
    CHECK_STR(field("day", "1994-02-28"), "28");
    CHECK_STR(field("quarter", "1994-03-31"), "1");
    CHECK_STR(field("quarter", "1994-04-01"), "2");
    CHECK_STR(field("quarter", "1994-12-31"), "4");
    CHECK_STR(field("dow", "1970-01-01"), "4");
    CHECK_STR(field("dow", "2024-06-02"), "0");
    CHECK_STR(field("isodow", "2024-06-02"), "7");
    CHECK_STR(field("dow", "1969-12-28"), "0");
    CHECK_STR(field("dow", "0001-01-01"), "1");
    CHECK_STR(field("doy", "2024-12-31"), "366");
    CHECK_STR(field("doy", "2023-03-01"), "60");
    CHECK_STR(field("year", "0001-01-01"), "1");
    CHECK_STR(compute(OP_ADD, "9999-12-31", TYPE(DATE), "1", TYPE(INTEGER)), "22008 date out of range");
    CHECK_STR(compute(OP_SUB, "2000-03-01", TYPE(DATE), "2000-02-01", TYPE(DATE)), "29");
    CHECK(function_find_field("year", column(INT)) == OP_N);
}

// ---- aggregates and what stands above them --------------------------------------------------------------------------

static const char *agg_type(AggKind kind, Expr *arg)
{
    Agg agg;
    char name[32];
    if (expr_agg(kind, arg, 5, &agg, &err))
        return failure();
    return arena_printf(arena, "%s scale %d", type_name(agg.type, name), agg.type.scale);
}

TEST(aggregates_have_room)
{
    begin();
    CHECK_STR(agg_type(AGG_COUNT_ALL, NULL), "bigint scale 0");
    CHECK_STR(agg_type(AGG_COUNT, column(TEXT)), "bigint scale 0");
    CHECK_STR(agg_type(AGG_SUM, column(SMALL)), "bigint scale 0");
    CHECK_STR(agg_type(AGG_SUM, column(INT)), "bigint scale 0");
    CHECK_STR(agg_type(AGG_SUM, column(BIG)), "numeric scale 0");
    CHECK_STR(agg_type(AGG_SUM, column(MONEY)), "numeric scale 2");
    CHECK_STR(agg_type(AGG_SUM, column(REAL)), "double precision scale 0");
    CHECK_STR(agg_type(AGG_AVG, column(MONEY)), "numeric scale 24");
    CHECK_STR(agg_type(AGG_MIN, column(MONEY)), "decimal(12,2) scale 2");
    CHECK_STR(agg_type(AGG_MAX, column(TEXT)), "text scale 0");
    CHECK_STR(agg_type(AGG_SUM, column(TEXT)), "42883 function sum(text) does not exist");
    CHECK_STR(agg_type(AGG_AVG, column(DATE)), "42883 function avg(date) does not exist");
    CHECK_STR(agg_type(AGG_MIN, column(BOOL)), "42883 function min(boolean) does not exist");
}

static Value row_value;                                     // what the next row has in its only column

static void give_row_value(void *context, const Expr *node, Value *value)
{
    (void)context;
    *value = row_value;
    CHECK_INT(node->kind, EXPR_COLUMN);
}

// SUM has 128 bits: 10^30 and a scale of 2.
static const char *above_sum(Expr *(*make)(Expr *sum))
{
    Type type = { TYPE_NUMERIC, 38, 2 };
    Value value;
    Expr *sum = expr_column(arena, 0, type, 3);
    Expr *expr = make(sum);
    row_value = (Value){ .type = type, .i = (i128)1000000000000000 * 1000000000000000 };
    if (!expr || expr_eval(expr, &(EvalContext){ .arena = arena, .column = give_row_value }, &value, &err))
        return failure();
    char *buffer = arena_alloc(arena, 128);
    value_format(&value, buffer, 128);
    return buffer;
}

static Expr *plus_one(Expr *sum) { return call(OP_ADD, sum, number("1")); }
static Expr *times_itself(Expr *sum) { return call(OP_MUL, sum, sum); }
static Expr *times_rate(Expr *sum) { return call(OP_MUL, sum, number("0.07")); }
static Expr *halved(Expr *sum) { return call(OP_DIV, sum, number("2")); }
static Expr *negated(Expr *sum) { return call1(OP_NEG, sum); }
static Expr *modulo(Expr *sum) { return call(OP_MOD, sum, number("7")); }
static Expr *as_bigint(Expr *sum) { return cast(sum, TYPE(BIGINT)); }
static Expr *as_double(Expr *sum) { return cast(sum, TYPE(DOUBLE)); }
static Expr *is_more(Expr *sum) { return call(OP_GT, sum, number("300")); }
static Expr *is_more_than_half_a_cent(Expr *sum) { return call(OP_GT, sum, number("0.005")); }
static Expr *is_one_of(Expr *sum) { return CALL(OP_IN, sum, number("1"), number("2.5")); }

TEST(sums_are_computed_with)
{
    begin();
    CHECK_STR(above_sum(plus_one), "10000000000000000000000000001.00");
    CHECK_STR(above_sum(times_itself), "22003 numeric out of range");
    CHECK_STR(above_sum(times_rate), "700000000000000000000000000.0000");
    CHECK_STR(above_sum(halved), "22003 numeric out of range");           // the engine tries again (execute)
    CHECK_STR(above_sum(negated), "-10000000000000000000000000000.00");
    CHECK_STR(above_sum(modulo), "4.00");
    CHECK_STR(above_sum(as_bigint), "22003 bigint out of range");
    CHECK_STR(above_sum(as_double), "1e+28");
    CHECK_STR(above_sum(is_more), "t");
    CHECK_STR(above_sum(is_more_than_half_a_cent), "t");
    CHECK_STR(above_sum(is_one_of), "f");
}

// ---- trees ----------------------------------------------------------------------------------------------------------

TEST(equal_ignores_places)
{
    begin();
    Expr *a = call(OP_ADD, expr_column(arena, 1, columns[INT], 5), number("1"));
    Expr *b = call(OP_ADD, expr_column(arena, 1, columns[INT], 9), number("1"));
    CHECK(expr_equal(a, b));
    CHECK(!expr_equal(a, call(OP_ADD, column(INT), number("2"))));
    CHECK(!expr_equal(a, call(OP_SUB, column(INT), number("1"))));
    CHECK(!expr_equal(a, call(OP_ADD, column(BIG), number("1"))));
    CHECK(!expr_equal(number("1"), number("1.0")));
    CHECK(!expr_equal(literal("a"), text_value(TYPE(TEXT), "a")));
    CHECK(expr_equal(literal(""), literal("")));
    CHECK(!expr_equal(typed("0", TYPE(DOUBLE)), typed("-0", TYPE(DOUBLE))));
    CHECK(expr_equal(typed("NaN", TYPE(DOUBLE)), typed("NaN", TYPE(DOUBLE))));
    CHECK(expr_equal(null_literal(), null_literal()));
}

TEST(columns_are_collected)
{
    begin();
    ColumnSet set = { 0 }, other = { 0 };
    Expr *a = expr_column(arena, 3, TYPE(INTEGER), 0), *b = expr_column(arena, 63, TYPE(INTEGER), 0),
         *c = expr_column(arena, 200, TYPE(INTEGER), 0);
    columns_add_expr(arena, &set, call(OP_EQ, a, call(OP_ADD, b, c)));
    CHECK_INT(columns_count(&set), 3);
    CHECK_INT(columns_next(&set, -1), 3);
    CHECK_INT(columns_next(&set, 3), 63);
    CHECK_INT(columns_next(&set, 63), 200);
    CHECK_INT(columns_next(&set, 200), -1);
    CHECK(expr_uses_only(a, &set) && expr_uses_any(c, &set) && !columns_has(&set, 4));
    columns_add(arena, &other, 63);
    CHECK(columns_is_subset(&other, &set) && !columns_is_subset(&set, &other) && columns_meet(&set, &other));
    columns_add(arena, &other, 500);
    CHECK(!columns_is_subset(&other, &set));
    CHECK(expr_has_column(call(OP_ADD, a, b), 63) && !expr_has_column(number("1"), 0));
}

static const Expr *give_seven(void *context, const Expr *leaf)
{
    return leaf->kind == EXPR_COLUMN && leaf->column == INT ? context : NULL;
}

TEST(leaves_are_replaced_and_folded)
{
    begin();
    Expr *sum = call(OP_ADD, column(INT), number("1")), *other = call(OP_ADD, column(BIG), number("1")), *out;
    CHECK_OK(expr_replace(arena, sum, give_seven, number("7"), &out, &err), err);
    CHECK(out->kind == EXPR_CONST && out->value.i == 8);
    CHECK_OK(expr_replace(arena, other, give_seven, number("7"), &out, &err), err);
    CHECK(out == other);
}

TEST(deep_and_large_trees_are_refused)
{
    begin();
    Expr *expr = column(INT);
    int depth = 1;
    for (; expr && depth <= 2 * expr_depth_limit(); depth++)
        expr = call(OP_ADD, expr, column(INT));
    CHECK_INT(depth, expr_depth_limit() + 1);
    CHECK_STR(failure(), "54001 expression is nested too deeply");
    expr = column(INT);
    int doublings = 0;
    for (; expr && doublings < 100; doublings++)
        expr = call(OP_ADD, expr, expr);                    // shared, but walked twice
    CHECK_INT(doublings, 20);
    CHECK_STR(failure(), "54001 expression is too large");
}

TEST(printing_needs_few_parentheses)
{
    begin();
    Expr *i = column(INT), *b = column(BOOL);
    CHECK_STR(shown(call(OP_MUL, call(OP_ADD, i, i), i)), "(c1 + c1) * c1 integer");
    CHECK_STR(shown(call(OP_ADD, call(OP_MUL, i, i), i)), "c1 * c1 + c1 integer");
    CHECK_STR(shown(call(OP_SUB, i, call(OP_SUB, i, i))), "c1 - (c1 - c1) integer");
    CHECK_STR(shown(call(OP_SUB, call(OP_SUB, i, i), i)), "c1 - c1 - c1 integer");
    CHECK_STR(shown(call1(OP_NEG, call1(OP_NEG, i))), "- - c1 integer");
    CHECK_STR(shown(call1(OP_NEG, call(OP_ADD, i, i))), "- (c1 + c1) integer");
    CHECK_STR(shown(call(OP_AND, call(OP_OR, b, b), b)), "(c9 or c9) and c9 boolean");
    CHECK_STR(shown(call(OP_AND, b, call(OP_AND, b, b))), "c9 and c9 and c9 boolean");
    CHECK_STR(shown(call1(OP_NOT, call(OP_AND, b, b))), "not (c9 and c9) boolean");
    CHECK_STR(shown(call(OP_EQ, call(OP_EQ, i, i), b)), "(c1 = c1) = c9 boolean");
    CHECK_STR(shown(call1(OP_IS_NULL, call(OP_EQ, i, i))), "c1 = c1 is null boolean");
    CHECK_STR(shown(cast(call(OP_ADD, i, i), TYPE(BIGINT))), "(c1 + c1)::bigint bigint");
    CHECK_STR(shown(call(OP_SUB, i, number("-1"))), "c1 - -1 integer");
    CHECK_STR(shown(cast(cast(i, TYPE(BIGINT)), TYPE(DOUBLE))), "c1::bigint::double precision double precision");
    CHECK_STR(shown(text_value(TYPE(TEXT), "it's")), "'it''s' text");
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

static i128 computed(Op op, i128 a, i128 b)
{
    switch (op) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: return a * b;
    case OP_DIV: return a / b;
    default: return a % b;
    }
}

// What the values of two small ranges come to, all of them.
static Range all_computed(Op op, Range a, Range b)
{
    Range range = { .low = 1, .high = 0 };
    for (i128 x = a.low; x <= a.high; x++)
        for (i128 y = b.low; y <= b.high; y++) {
            if (y == 0 && (op == OP_DIV || op == OP_MOD))
                continue;
            i128 value = computed(op, x, y);
            bool is_first = range.low > range.high;
            range.low = is_first || value < range.low ? value : range.low;
            range.high = is_first || value > range.high ? value : range.high;
        }
    return range;
}

// How many of three things are not so.
static int count_wrong(Op op, Range a, Range b)
{
    Range range = range_of_call(op, TYPE(BIGINT), a, b), all = all_computed(op, a, b);
    bool has_zero = b.low <= 0 && b.high >= 0, can_fail = has_zero && (op == OP_DIV || op == OP_MOD);
    bool is_tight = range.low == all.low && range.high == all.high;
    if (all.low > all.high)
        return 0;
    return !(range.low <= all.low && range.high >= all.high)
         + (op != OP_MOD && !can_fail && !is_tight)                // of remainders it is not the narrowest
         + (can_fail && !(range.low <= 0 && range.high >= 0));     // what fails goes on as 0
}

TEST(ranges_hold_what_is_computed)
{
    static const Op ops[] = { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD };
    int n_wrong = 0;
    for (int a = -7; a <= 7; a++)
        for (int n = 0; n <= 7; n++)
            for (int b = -5; b <= 5; b++)
                for (int m = 0; m <= 5; m++)
                    for (int o = 0; o < COUNT_OF(ops); o++)
                        n_wrong += count_wrong(ops[o], (Range){ .known = true, .low = a, .high = a + n },
                                               (Range){ .known = true, .low = b, .high = b + m });
    CHECK_INT(n_wrong, 0);
}
