// test_decimal.c - a double or a real becomes the same decimal everywhere: constants (the interpreter, by printf's
// digits), the function of wide_text.h, and stored columns in kernels of tcc and of cc, woven and not.

#include "test.h"

#include "engine_help.h"
#include "plan/expr_int.h"

#include <math.h>

enum { ROWS = 300, ROUNDS = 150000, TEXT_MAX = 64, FAILURES = 3 };

static const Type types[] = {
    { TYPE_DECIMAL, 18, 2 }, { TYPE_DECIMAL, 9, 0 },  { TYPE_DECIMAL, 4, 2 },   { TYPE_DECIMAL, 18, 18 },
    { TYPE_NUMERIC, 38, 0 }, { TYPE_NUMERIC, 38, 6 }, { TYPE_NUMERIC, 38, 20 }, { TYPE_NUMERIC, 38, 38 },
    { TYPE_NUMERIC, 25, 3 }, { TYPE_NUMERIC, 19, 0 },
};

static u64 seed = 88172645463325252ull;

static u64 random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static int random_between(int low, int high) { return low + (int)(random_bits() % (u64)(high - low + 1)); }

static double from_bits(u64 bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// A number that has N digits and then a 5, as text: next to a tie, or one.
static double near_decimal_tie(int n_digits)
{
    char text[64];
    const u64 limit = n_digits >= 15 ? 1000000000000000ull : 1000000ull;
    snprintf(text, sizeof text, "%llu5e%d", (unsigned long long)(random_bits() % limit), random_between(-44, 24));
    return strtod(text, NULL);
}

// Whole numbers and small powers of two are ties in binary as well.
static double near_binary_tie(void)
{
    return ldexp((double)(random_bits() >> random_between(11, 60)), random_between(-30, 40)) + 0.5;
}

static double next_to(double value)
{
    const int step = random_between(-1, 1);
    return step ? nextafter(value, step * INFINITY) : value;
}

static double random_size(int n_digits)
{
    switch (random_bits() % 8) {
        case 0:  return from_bits(random_bits() >> 1);                         // any, also NaN and infinities
        case 1:  return next_to(near_decimal_tie(n_digits));
        case 2:  return near_decimal_tie(n_digits);
        case 3:  return near_binary_tie();
        case 4:  return next_to(pow(10, random_between(-45, 40)));
        case 5:  return (double)random_between(0, 2000000000) / 1000;
        default: return ldexp((double)(random_bits() | 1), random_between(-200, 70));
    }
}

static double random_number(bool is_real)
{
    double value = random_size(is_real ? 6 : 15);
    if (is_real) value = (float)value;
    return random_bits() % 2 ? -value : value;
}

// What constants give.  False: 22003.
static bool cast_of(double number, bool is_real, Type to, Value *out)
{
    const Value from = { .type = is_real ? TYPE(REAL) : TYPE(DOUBLE), .f = number };
    Error       error;
    error_clear(&error);
    const weft_status status = value_cast(NULL, &from, to, -1, out, &error);
    CHECK(status == WEFT_OK || status == WEFT_OUT_OF_RANGE);
    return status == WEFT_OK;
}

static bool has_38_digits(i128 value) { return value > -ten_to(38) && value < ten_to(38); }

// A random number as a numeric with SCALE digits behind the point: by the host, and by the text for kernels.
typedef struct Decimal { double number; bool is_real; int scale; bool fits; Value wanted; } Decimal;

// PRECISION: 38 rounds to the scale, NUMERIC_TRIMMED refuses to lose a digit.
static Decimal make_both_ways(u8 precision)
{
    Decimal it = { .is_real = random_bits() % 2, .scale = random_between(0, 38) };
    i64     high, low;
    it.number = random_number(it.is_real);
    it.fits = cast_of(it.number, it.is_real, (Type){ TYPE_NUMERIC, precision, (u8)it.scale }, &it.wanted);
    const int  digits = it.is_real ? 6 : 15;
    const int  is_made = wide_from_f64(it.number, precision == 38 ? digits : -digits, it.scale, &high, &low);
    const i128 made = (i128)((u128)(u64)high << 64 | (u64)low);
    if (it.fits != (is_made && has_38_digits(made)) || (it.fits && made != it.wanted.i))
        CHECK_FAIL("%a (%.17g) %s with %d digits after the point", it.number, it.number,
                   it.is_real ? "real" : "double", it.scale);
    return it;
}

TEST(the_text_for_kernels_rounds_as_printf_does)
{
    int n_fit = 0;
    for (int n = 0; n < ROUNDS; n++) n_fit += make_both_ways(38).fits;
    CHECK(n_fit > ROUNDS / 4 && n_fit < ROUNDS);
}

// A number without a precision is what its digits say, or an error.
TEST(no_digit_is_lost_without_a_precision)
{
    int n_fit = 0;
    for (int n = 0; n < ROUNDS; n++) {
        const Decimal it = make_both_ways(NUMERIC_TRIMMED);
        Value         digits;
        Error         error;
        error_clear(&error);
        if (value_free_of_float(it.number, it.is_real, &digits, &error) == WEFT_OK) {
            const bool has_room = value_scale_up(&digits.i, MAX_OF(it.scale - digits.type.scale, 0));
            CHECK_INT(it.fits, digits.i == 0 || (digits.type.scale <= it.scale && has_room));
            if (it.fits) CHECK(digits.i == it.wanted.i);
        }
        n_fit += it.fits;
    }
    CHECK(n_fit > ROUNDS / 8 && n_fit < ROUNDS);
}

// type_name leaves out what a numeric of 38 digits has by itself.
static const char *spelled(Type type)
{
    static char text[32];
    snprintf(text, sizeof text, "numeric(%d,%d)", type.precision, type.scale);
    return text;
}

// ---- columns --------------------------------------------------------------------------------------------------------

static double numbers[2][ROWS];
static char   wanted[2][COUNT_OF(types)][ROWS][TEXT_MAX];     // "" where the cast fails

static double random_finite(bool is_real)
{
    double number;
    do number = random_number(is_real); while (!isfinite(number));
    return number;
}

static void make_numbers(void)
{
    static const double edges[] = { 0.0, -0.0, 1.005, -1.005, 294439.43, 123456789012.345, 99.994, 99.995, 0.5, 1.5,
                                    2.675, 1e17, 1e18, 1e37, 1e38, 9.99999999999999e37, 4.9e-324, 1e-38, 5e-39,
                                    4.99e-39, 999999.5, 1000000.5, 1000001.5, 16777217.0, 0.1, 1e22, 1e23 };
    for (int r = 0; r < ROWS; r++) {
        numbers[0][r] = r < COUNT_OF(edges) ? edges[r] : random_finite(false);
        numbers[1][r] = r < COUNT_OF(edges) ? (float)edges[r] : random_finite(true);
        for (int is_real = 0; is_real < 2; is_real++)
            for (int t = 0; t < COUNT_OF(types); t++) {
                Value value;
                wanted[is_real][t][r][0] = 0;
                if (cast_of(numbers[is_real][r], is_real, types[t], &value))
                    value_format(&value, wanted[is_real][t][r], TEXT_MAX);
            }
    }
}

// d_fits and r_fits: a bit for each type that holds the number.
static int fitting_types(int is_real, int row)
{
    int bits = 0;
    for (int t = 0; t < COUNT_OF(types); t++) bits |= (wanted[is_real][t][row][0] != 0) << t;
    return bits;
}

static void make_table(void)
{
    Text sql = { 0 };
    text_add(&sql, "create table t (id integer, d double precision, r real, d_fits integer, r_fits integer); "
                   "insert into t values (-1, null, null, 0, 0)");
    for (int r = 0; r < ROWS; r++)
        text_add(&sql, ", (%d, '%.17g', '%.17g', %d, %d)", r, numbers[0][r], numbers[1][r], fitting_types(0, r),
                 fitting_types(1, r));
    run(sql.bytes);
    text_free(&sql);
}

static void check_columns(const char *how)
{
    Text sql = { 0 };
    text_add(&sql, "select id");
    for (int c = 0; c < 2 * COUNT_OF(types); c++)
        text_add(&sql, ", case when %c_fits / %d %% 2 = 1 then %c::%s end", "dr"[c % 2], 1 << c / 2, "dr"[c % 2],
                 spelled(types[c / 2]));
    text_add(&sql, " from t where id >= 0 order by id");
    weft_result *result = query(sql.bytes);
    CHECK_INT(weft_result_rows(result), ROWS);
    for (int c = 0; c < 2 * COUNT_OF(types); c++)
        for (int r = 0; r < ROWS; r++) {
            const weft_column *cells = weft_result_column(result, c + 1);
            char               got[TEXT_MAX] = "";
            if (!cells->is_null || !cells->is_null[r]) weft_format(result, c + 1, (size_t)r, got, TEXT_MAX);
            if (strcmp(got, wanted[c % 2][c / 2][r]) != 0)
                CHECK_FAIL("%s: %.17g %s to %s: column %s, constant %s", how, numbers[c % 2][r],
                           c % 2 ? "real" : "double", spelled(types[c / 2]), got, wanted[c % 2][c / 2][r]);
        }
    weft_result_free(result);
    text_free(&sql);
}

static void check_failures(void)
{
    for (int c = 0; c < 2 * COUNT_OF(types); c++) {
        int n = 0;
        for (int r = 0; r < ROWS && n < FAILURES; r++) {
            char sql[128];
            if (wanted[c % 2][c / 2][r][0]) continue;
            snprintf(sql, sizeof sql, "select %c::%s from t where id = %d", "dr"[c % 2], spelled(types[c / 2]), r);
            fails(sql, WEFT_OUT_OF_RANGE);
            n++;
        }
        CHECK(n > 0);
    }
}

TEST(columns_become_the_decimals_that_constants_do)
{
    static const char *const ways[] = { "set jit = tcc", "set weave = off", "set weave = on; set jit = cc" };
    make_numbers();
    open_db(NULL);
    make_table();
    for (int w = 0; w < COUNT_OF(ways); w++) {
        run(ways[w]);
        check_columns(ways[w]);
        if (w == 0) check_failures();
    }
    run("insert into t values (-2, 'NaN', 'NaN', 0, 0), (-3, 'inf', '-inf', 0, 0)");
    fails("select d::numeric(38,2) from t where id = -2", WEFT_OUT_OF_RANGE);
    fails("select r::numeric(38,2) from t where id = -2", WEFT_OUT_OF_RANGE);
    fails("select d::numeric(18,2) from t where id = -3", WEFT_OUT_OF_RANGE);
    fails("select r::numeric(38,2) from t where id = -3", WEFT_OUT_OF_RANGE);
    close_db();
}
