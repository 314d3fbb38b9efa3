// test_value.c - types, dates, and values to and from text.

#include <locale.h>

#include "test.h"

#include "store/store.h"

static const Type dec_5_2 = { TYPE_DECIMAL, 5, 2 };
static const Type dec_18_0 = { TYPE_DECIMAL, 18, 0 };
static const Type num_38_2 = { TYPE_NUMERIC, 38, 2 };

// Reads the text as a value of the type and prints it again.  On failure: the status's name.
static const char *again(Type type, const char *text)
{
    static char buffers[8][256];
    static int next;
    char *buffer = buffers[next++ % 8];
    Value value;
    Error err;
    error_clear(&err);
    weft_status status = value_parse(type, text, strlen(text), &value, &err);
    if (status)
        return weft_status_name(status);
    value_format(&value, buffer, sizeof(buffers[0]));
    return buffer;
}

static const char *message_of(Type type, const char *text)
{
    static Error err;
    Value value;
    error_clear(&err);
    (void)value_parse(type, text, strlen(text), &value, &err);
    return err.message;
}

TEST(types_have_names)
{
    char buffer[32];
    CHECK_STR(type_name(TYPE(DOUBLE), buffer), "double precision");
    CHECK_STR(type_name((Type){ TYPE_DECIMAL, 12, 2 }, buffer), "decimal(12,2)");
    CHECK_STR(type_name(TYPE(BIGINT), buffer), "bigint");
    CHECK_STR(type_name(TYPE(NULL), buffer), "unknown");
    CHECK(type_is_integer(TYPE(SMALLINT)) && !type_is_integer(TYPE(DATE)));
    CHECK(type_is_float(TYPE(REAL)) && !type_is_float(dec_5_2));
    CHECK(type_equal(TYPE(DATE), TYPE(DATE)) && !type_equal(dec_5_2, dec_18_0) && !type_equal(TYPE(TEXT), TYPE(DATE)));
    CHECK_INT(power_of_ten(0), 1);
    CHECK_INT(power_of_ten(18), 1000000000000000000);
}

TEST(booleans)
{
    const char *yes[] = { "t", "true", "TRUE", "tr", "y", "yes", "on", "1", " true\n" };
    const char *no[] = { "f", "false", "n", "no", "off", "of", "0", "F" };
    const char *bad[] = { "", "o", "2", "truee", "maybe", "10", " " };
    for (int i = 0; i < COUNT_OF(yes); i++)
        CHECK_STR(again(TYPE(BOOLEAN), yes[i]), "t");
    for (int i = 0; i < COUNT_OF(no); i++)
        CHECK_STR(again(TYPE(BOOLEAN), no[i]), "f");
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(BOOLEAN), bad[i]), "BAD_TEXT");
}

TEST(integers_keep_to_their_range)
{
    CHECK_STR(again(TYPE(SMALLINT), "32767"), "32767");
    CHECK_STR(again(TYPE(SMALLINT), "-32768"), "-32768");
    CHECK_STR(again(TYPE(SMALLINT), "32768"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(INTEGER), " +2147483647 "), "2147483647");
    CHECK_STR(again(TYPE(INTEGER), "-2147483649"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(BIGINT), "9223372036854775807"), "9223372036854775807");
    CHECK_STR(again(TYPE(BIGINT), "-9223372036854775808"), "-9223372036854775808");
    CHECK_STR(again(TYPE(BIGINT), "9223372036854775808"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(BIGINT), "18446744073709551617"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(BIGINT), "184467440737095516170000000000000000000000001"), "OUT_OF_RANGE");
    const char *bad[] = { "", "-", "+", "1.0", "1e3", "abc", "1 2", "0x10", "--1" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(INTEGER), bad[i]), "BAD_TEXT");
    CHECK_STR(message_of(TYPE(INTEGER), "abc"), "invalid input syntax for type integer: \"abc\"");
    CHECK_STR(message_of(TYPE(SMALLINT), "99999"), "value \"99999\" is out of range for type smallint");
}

TEST(decimals_round_half_away_from_zero)
{
    CHECK_STR(again(dec_5_2, "1"), "1.00");
    CHECK_STR(again(dec_5_2, "-0.005"), "-0.01");
    CHECK_STR(again(dec_5_2, "0.0049999"), "0.00");
    CHECK_STR(again(dec_5_2, "1.005"), "1.01");
    CHECK_STR(again(dec_5_2, ".5"), "0.50");
    CHECK_STR(again(dec_5_2, "5."), "5.00");
    CHECK_STR(again(dec_5_2, "1e2"), "100.00");
    CHECK_STR(again(dec_5_2, "12345E-3"), "12.35");
    CHECK_STR(again(dec_5_2, "1e-999999999999"), "0.00");
    CHECK_STR(again(dec_5_2, "0e999999999999"), "0.00");
    CHECK_STR(again(dec_5_2, "5e-3"), "0.01");
    CHECK_STR(again(dec_5_2, "9e-4"), "0.00");
    CHECK_STR(again(dec_5_2, "000000000000000000000000000000000000000000000000001.5"), "1.50");
    CHECK_STR(again(dec_5_2, "0.00000000000000000000000000000000000000000000000000000000000001"), "0.00");
    CHECK_STR(again(dec_5_2, "999.994"), "999.99");
}

TEST(decimals_overflow)
{
    CHECK_STR(again(dec_5_2, "999.995"), "OUT_OF_RANGE");
    CHECK_STR(again(dec_5_2, "1000"), "OUT_OF_RANGE");
    CHECK_STR(again(dec_5_2, "1e99999999999"), "OUT_OF_RANGE");
    CHECK_STR(again(dec_18_0, "999999999999999999"), "999999999999999999");
    CHECK_STR(again(dec_18_0, "-1000000000000000000"), "OUT_OF_RANGE");
    CHECK_STR(again(num_38_2, "999999999999999999999999999999999999.99"), "999999999999999999999999999999999999.99");
    CHECK_STR(again(num_38_2, "-999999999999999999999999999999999999.994"), "-999999999999999999999999999999999999.99");
    CHECK_STR(again(num_38_2, "999999999999999999999999999999999999.995"), "OUT_OF_RANGE");
    CHECK_STR(again(num_38_2, "9999999999999999999999999999999999999"), "OUT_OF_RANGE");
    const char *bad[] = { "", ".", "-.", "1e", "1e+", "1.2.3", "nano", "1x", "e5", "1 e5" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(dec_5_2, bad[i]), "BAD_TEXT");
    CHECK_STR(message_of(dec_5_2, " NaN "), "a numeric cannot be NaN");
    CHECK_STR(message_of(num_38_2, "-inf"), "a numeric cannot be infinity");
    CHECK_STR(message_of(dec_5_2, "x"), "invalid input syntax for type numeric: \"x\"");
}

TEST(floats_print_the_shortest_text)
{
    const struct { const char *in, *out; } doubles[] = {
        { "0.1", "0.1" },           { "100", "100" },           { "1e20", "1e+20" },
        { "1e15", "1e+15" },        { "1e14", "100000000000000" }, { "123456789012345", "123456789012345" },
        { "0.0001", "0.0001" },     { "0.00001", "1e-05" },     { "0.30000000000000004", "0.30000000000000004" },
        { "5e-324", "5e-324" },     { "1.7976931348623157e308", "1.7976931348623157e+308" },
        { "-0", "-0" },             { "0", "0" },               { "1234567890123456.7", "1.2345678901234568e+15" },
        { "nan", "NaN" },           { "inf", "Infinity" },      { "-Infinity", "-Infinity" },
        { " 1.50 ", "1.5" },        { "0.00012345", "0.00012345" }, { "1e-310", "1e-310" },
        { "3.141592653589793", "3.141592653589793" }, { "2.5e-7", "2.5e-07" },
    };
    for (int i = 0; i < COUNT_OF(doubles); i++)
        CHECK_STR(again(TYPE(DOUBLE), doubles[i].in), doubles[i].out);
    const struct { const char *in, *out; } reals[] = {
        { "0.1", "0.1" },           { "1e6", "1e+06" },         { "123456", "123456" },   { "1234567", "1.234567e+06" },
        { "16777217", "1.6777216e+07" }, { "3.4028235e38", "3.4028235e+38" }, { "1e-45", "1e-45" }, { "0.3", "0.3" },
    };
    for (int i = 0; i < COUNT_OF(reals); i++)
        CHECK_STR(again(TYPE(REAL), reals[i].in), reals[i].out);
}

TEST(floats_read_back_what_they_print)
{
    u64 state = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Value value = { .type = TYPE(DOUBLE) }, back;
        memcpy(&value.f, &state, sizeof(value.f));
        if (value.f != value.f)
            continue;
        if (i % 2) {
            u32 half = (u32)state;
            float f;
            memcpy(&f, &half, sizeof(f));
            if (f != f)
                continue;
            value = (Value){ .type = TYPE(REAL), .f = f };
        }
        char text[64];
        Error err;
        error_clear(&err);
        size_t length = value_format(&value, text, sizeof(text));
        CHECK(length < 32);
        CHECK_OK(value_parse(value.type, text, length, &back, &err), err);
        CHECK(memcmp(&value.f, &back.f, sizeof(double)) == 0);
    }
}

TEST(floats_refuse)
{
    const char *bad[] = { "", "abc", "1.5x", "1 2", "e5", "--1", "infinit" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(DOUBLE), bad[i]), "BAD_TEXT");
    CHECK_STR(again(TYPE(DOUBLE), "1e400"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(DOUBLE), "1e-400"), "OUT_OF_RANGE");
    CHECK_STR(again(TYPE(REAL), "1e39"), "OUT_OF_RANGE");
    CHECK_STR(message_of(TYPE(REAL), "1e39"), "\"1e39\" is out of range for type real");
    CHECK_STR(message_of(TYPE(DOUBLE), "a"), "invalid input syntax for type double precision: \"a\"");
}

TEST(floats_of_many_digits)
{
    char text[2000];
    memset(text, '1', sizeof(text));
    memcpy(text, "0.", 2);
    Value value;
    Error err;
    error_clear(&err);
    CHECK_OK(value_parse(TYPE(DOUBLE), text, sizeof(text), &value, &err), err);
    CHECK_DOUBLE(value.f, 1.0 / 9, 1e-16);
}

TEST(floats_do_not_mind_the_locale)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        setlocale(LC_ALL, "");
    CHECK_STR(again(TYPE(DOUBLE), "1.5"), "1.5");
    CHECK_STR(again(TYPE(DOUBLE), "1.2345e-7"), "1.2345e-07");
    setlocale(LC_ALL, "C");
}

TEST(dates)
{
    CHECK_STR(again(TYPE(DATE), "1998-12-01"), "1998-12-01");
    CHECK_STR(again(TYPE(DATE), " 2024-2-29 "), "2024-02-29");
    CHECK_STR(again(TYPE(DATE), "19980902"), "1998-09-02");
    CHECK_STR(again(TYPE(DATE), "0001-01-01"), "0001-01-01");
    CHECK_STR(again(TYPE(DATE), "9999-12-31"), "9999-12-31");
    CHECK_STR(again(TYPE(DATE), "2000/01/31"), "2000-01-31");
    CHECK_STR(again(TYPE(DATE), "1/31/70"), "1970-01-31");
    CHECK_STR(again(TYPE(DATE), "Mon, Jan 31 2000"), "2000-01-31");
    const char *over[] = { "2023-02-29", "1900-02-29", "2000-13-01", "2000-00-10", "2000-01-00", "2000-01-32",
                           "0000-01-01", "10000-01-01", "99-01-01", "0044-03-15 BC", "123456789-01-01" };
    for (int i = 0; i < COUNT_OF(over); i++)
        CHECK_STR(again(TYPE(DATE), over[i]), "DATETIME_OVERFLOW");
    const char *bad[] = { "", "2000-01", "2000-01-01x", "2000-01/01", "2000-001-01", "-2000-01-01",
                          "2000-01-01 x", "1234567" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(DATE), bad[i]), "BAD_DATETIME");
    CHECK_STR(again(TYPE(DATE), "today"), "UNSUPPORTED");
    CHECK_STR(again(TYPE(DATE), "2000-01-01 10:00"), "2000-01-01");
    CHECK_STR(message_of(TYPE(DATE), "2023-02-29"), "date/time field value out of range: \"2023-02-29\"");
}

TEST(dates_count_every_day)
{
    CHECK_INT(date_from_civil(1970, 1, 1), 0);
    CHECK_INT(date_from_civil(2000, 3, 1), 11017);
    i32 days = date_from_civil(1, 1, 1);
    CHECK_INT(days, -719162);
    for (int year = 1; year <= 9999; year++)
        for (int month = 1; month <= 12; month++)
            for (int day = 1; date_is_valid(year, month, day); day++) {
                int y, m, d;
                if (date_from_civil(year, month, day) != days)
                    CHECK_INT(date_from_civil(year, month, day), days);
                date_to_civil(days++, &y, &m, &d);
                if (y != year || m != month || d != day)
                    CHECK_FAIL("%d-%d-%d came back as %d-%d-%d", year, month, day, y, m, d);
            }
    CHECK_INT(days - 1, 2932896);
    int y, m, d;
    date_to_civil(INT32_MIN, &y, &m, &d);
    CHECK_INT(date_from_civil(y, m, d), INT32_MIN);
    date_to_civil(INT32_MAX, &y, &m, &d);
    CHECK_INT(date_from_civil(y, m, d), INT32_MAX);
}

TEST(dates_before_christ_print)
{
    char text[32];
    Value value = { .type = TYPE(DATE), .i = date_from_civil(-43, 3, 15) };
    value_format(&value, text, sizeof(text));
    CHECK_STR(text, "0044-03-15 BC");
}

TEST(intervals)
{
    CHECK_STR(again(TYPE(INTERVAL), "1 year 2 mons 3 days"), "1 year 2 mons 3 days");
    CHECK_STR(again(TYPE(INTERVAL), "90 days"), "90 days");
    CHECK_STR(again(TYPE(INTERVAL), " 3 MONTHS "), "3 mons");
    CHECK_STR(again(TYPE(INTERVAL), "14 months"), "1 year 2 mons");
    CHECK_STR(again(TYPE(INTERVAL), "2 weeks"), "14 days");
    CHECK_STR(again(TYPE(INTERVAL), "1day"), "1 day");
    CHECK_STR(again(TYPE(INTERVAL), "-1 year 3 days"), "-1 years +3 days");
    CHECK_STR(again(TYPE(INTERVAL), "0 days"), "00:00:00");
    CHECK_STR(again(TYPE(INTERVAL), "2 centuries"), "200 years");
    CHECK_STR(again(TYPE(INTERVAL), "1 hour"), "01:00:00");
    CHECK_STR(again(TYPE(INTERVAL), "1 day 2"), "1 day 00:00:02");
    CHECK_STR(again(TYPE(INTERVAL), "3000000000 days"), "INTERVAL_OVERFLOW");
    CHECK_STR(again(TYPE(INTERVAL), "900000000 years"), "DATETIME_OVERFLOW");
    const char *bad[] = { "", "day", "1 lightyear", "one day", "s", "P", "1:2:3:4" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(INTERVAL), bad[i]), "BAD_DATETIME");
}

TEST(text_must_be_utf8)
{
    const char *good[] = { "", " a ", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x92\xA9", ("12345678\xC3\xA9" "12345678"),
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF" };
    const char *bad[] = { "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "12345678\xFF", "\xE2(\xA1" };
    for (int i = 0; i < COUNT_OF(good); i++)
        CHECK_STR(again(TYPE(TEXT), good[i]), good[i]);
    for (int i = 0; i < COUNT_OF(bad); i++)
        CHECK_STR(again(TYPE(TEXT), bad[i]), "BAD_ENCODING");
    Value value;
    Error err;
    error_clear(&err);
    CHECK_STATUS(value_parse(TYPE(TEXT), "abcdefgh\0ijkl", 13, &value, &err), WEFT_BAD_ENCODING);
    CHECK_STR(err.message, "invalid byte sequence for encoding \"UTF8\": 0x00");
}

TEST(messages_are_utf8_and_short)
{
    char text[500];
    memset(text, 'x', sizeof(text));
    text[3] = (char)0xFF;
    Value value;
    Error err;
    error_clear(&err);
    CHECK_STATUS(value_parse(TYPE(INTEGER), text, sizeof(text), &value, &err), WEFT_BAD_TEXT);
    CHECK_HAS(err.message, "\"xxx?xxx");
    CHECK_HAS(err.message, "...\"");
    CHECK(strlen(err.message) < 200);
}

TEST(formatting_is_cut_to_the_buffer)
{
    char buffer[4] = "###";
    Value value = { .type = TYPE(INTEGER), .i = 123456 };
    CHECK_INT(value_format(&value, buffer, sizeof(buffer)), 6);
    CHECK_STR(buffer, "123");
    CHECK_INT(value_format(&value, NULL, 0), 6);
    value.is_null = true;
    CHECK_INT(value_format(&value, buffer, sizeof(buffer)), 0);
    CHECK_STR(buffer, "");
}

TEST(numerics_print_all_128_bits)
{
    char text[64];
    Value value = { .type = { TYPE_NUMERIC, 38, 0 }, .i = (i128)((u128)1 << 127) };
    value_format(&value, text, sizeof(text));
    CHECK_STR(text, "-170141183460469231731687303715884105728");
    value = (Value){ .type = { TYPE_NUMERIC, 38, 4 }, .i = -5 };
    value_format(&value, text, sizeof(text));
    CHECK_STR(text, "-0.0005");
}

// Digits are made a word's worth at a time: what ends or begins with such a word keeps its zeros.
TEST(numerics_print_zeros_between_words)
{
    const i128 word = 1000000000000000000;
    const struct { i128 number; int scale; const char *text; } cases[] = {
        { word - 1, 0, "999999999999999999" },
        { word, 0, "1000000000000000000" },
        { word * word - 1, 0, "999999999999999999999999999999999999" },
        { word * word, 0, "1000000000000000000000000000000000000" },
        { word * word + 7, 18, "1000000000000000000.000000000000000007" },
        { -word * 10, 18, "-10.000000000000000000" },
        { -word, 19, "-0.1000000000000000000" },
        { 5 * word + 42, 36, "0.000000000000000005000000000000000042" },
        { 0, 18, "0.000000000000000000" },
        { INT64_MIN, 0, "-9223372036854775808" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char text[64];
        Value value = { .type = { TYPE_NUMERIC, 38, (u8)cases[i].scale }, .i = cases[i].number };
        value_format(&value, text, sizeof(text));
        CHECK_STR(text, cases[i].text);
    }
}

TEST(comparing)
{
    Value a = { .type = TYPE(DOUBLE), .f = NAN }, b = { .type = TYPE(DOUBLE), .f = INFINITY };
    CHECK(value_compare(&a, &b) > 0 && value_compare(&b, &a) < 0 && value_compare(&a, &a) == 0);
    a = (Value){ .type = TYPE(BIGINT), .i = INT64_MIN };
    b = (Value){ .type = TYPE(BIGINT), .i = INT64_MAX };
    CHECK(value_compare(&a, &b) < 0 && value_compare(&b, &a) > 0 && value_compare(&a, &a) == 0);
    a = (Value){ .type = TYPE(TEXT), .text = { "abc", 3 } };
    b = (Value){ .type = TYPE(TEXT), .text = { "abcd", 4 } };
    CHECK(value_compare(&a, &b) < 0 && value_compare(&b, &a) > 0);
    b = (Value){ .type = TYPE(TEXT), .text = { "\xC3\xA9", 2 } };
    CHECK(value_compare(&a, &b) < 0);                       // bytes are unsigned
    a = (Value){ .type = TYPE(INTERVAL), .interval = { 1, 0, 0 } };
    b = (Value){ .type = TYPE(INTERVAL), .interval = { 0, 30, 0 } };
    CHECK_INT(value_compare(&a, &b), 0);
}
