// test_wide.c - numbers of 128 bits: kernels (of tcc and of cc) agree with the interpreter, and sums with arithmetic of
// 128 bits.
//
// Rows are random numbers of all sizes, NULL, and edges of 64 bits and 38 digits.  They come from VALUES and are joined
// to a stored table, so that a kernel computes with them.  For each row and call the interpreter says what constants
// give; all calls that give a value are then asked for in one query, and of those that fail, some for one row alone.

#include "test.h"

#include "engine_help.h"
#include "plan/expr_int.h"

enum { ROWS = 24, TEXT_MAX = 64, ERRORS_PER_CALL = 2 };

static const char *const calls[] = {
    "X + Y", "X - Y", "X * Y", "X % Y", "- X", "X = Y", "X <> Y", "X < Y", "X <= Y", "X > Y", "X >= Y",
    "X between Y and 5", "X in (Y, 5)", "X * 10.50", "X + 0.01", "X < 5", "X > 18446744073709551616",
    "X = 9223372036854775807", "X is null", "coalesce(X, Y, 3)", "case when X > Y then X else Y end",
    "cast(X as double precision)", "cast(X as bigint)", "cast(X as integer)", "cast(X as decimal(18,1))",
    "cast(X as numeric(38,4))", "cast(X as numeric(38,0))", "cast(X as numeric(25,1))", "round(X, 1)",
    "(X + Y) * 2 - X > Y", "cast(X as double precision) < 1e19",
};

static char values[2][ROWS][TEXT_MAX];                      // x and y as literals; "null" for NULL
static i128 numbers[2][ROWS];                               // in hundredths
static char wanted[COUNT_OF(calls)][ROWS][TEXT_MAX];

static u64 seed = 88172645463325252ull;

static u64 random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static i128 power_of(int n)
{
    i128 power = 1;
    while (n-- > 0) power *= 10;
    return power;
}

// Mostly of a random number of digits, up to 37; some next to what 64 bits hold.
static i128 random_number(void)
{
    static const i128 word = (i128)1 << 63;
    const i128 edges[] = { 0, 1, -1, word, word - 1, -word, -word - 1, 2 * word, 2 * word - 1, -2 * word,
                           power_of(38) - 1, 1 - power_of(38), power_of(18), power_of(18) - 1 };
    if (random_bits() % 4 == 0) return edges[random_bits() % COUNT_OF(edges)];
    const i128 wide = (i128)((u128)random_bits() << 64 | random_bits()) % power_of(1 + (int)(random_bits() % 37));
    return wide;
}

static void print_number(i128 number, int scale, char out[TEXT_MAX])
{
    Value value = { .type = { TYPE_NUMERIC, 38, (u8)scale }, .i = number };
    value_format(&value, out, TEXT_MAX);
}

static void make_rows(void)
{
    for (int side = 0; side < 2; side++)
        for (int r = 0; r < ROWS; r++) {
            numbers[side][r] = random_number();
            print_number(numbers[side][r], 2, values[side][r]);
            if (random_bits() % 8 == 0) strcpy(values[side][r], "null");
        }
}

static bool is_null(int side, int row) { return strcmp(values[side][row], "null") == 0; }

static void add_rows(Text *sql)
{
    text_add(sql, "with v(id, x, y) as (values ");
    for (int r = 0; r < ROWS; r++)
        text_add(sql, "%s(%d, cast(%s as numeric(38,2)), cast(%s as numeric(38,2)))", r ? ", " : "", r, values[0][r],
                 values[1][r]);
    text_add(sql, "), t as (select ids.id, x, y from ids left join v on ids.id = v.id) ");
}

static void add_applied(Text *sql, const char *call, const char *x, const char *y)
{
    for (const char *p = call; *p; p++) {
        if (*p == 'X') text_add(sql, "%s", x);
        else if (*p == 'Y') text_add(sql, "%s", y);
        else text_add_bytes(sql, p, 1);
    }
}

static void format_cell(weft_result *result, int column, size_t row, char out[TEXT_MAX])
{
    const weft_column *cells = weft_result_column(result, column);
    if (cells->is_null && cells->is_null[row]) strcpy(out, "null");
    else weft_format(result, column, row, out, TEXT_MAX);
}

static void ask_one(const char *sql, char out[TEXT_MAX])
{
    weft_result *result = NULL;
    if (weft_query(session, sql, &result, &err)) snprintf(out, TEXT_MAX, "[%s]", err.sqlstate);
    else format_cell(result, 0, 0, out);
    weft_result_free(result);
}

static void ask_interpreter(void)
{
    for (int c = 0; c < COUNT_OF(calls); c++)
        for (int r = 0; r < ROWS; r++) {
            Text sql = { 0 };
            char x[2 * TEXT_MAX], y[2 * TEXT_MAX];
            snprintf(x, sizeof x, "cast(%.63s as numeric(38,2))", values[0][r]);
            snprintf(y, sizeof y, "cast(%.63s as numeric(38,2))", values[1][r]);
            text_add(&sql, "select ");
            add_applied(&sql, calls[c], x, y);
            ask_one(sql.bytes, wanted[c][r]);
            text_free(&sql);
        }
}

static bool is_error(int c, int r) { return wanted[c][r][0] == '['; }

// IN takes constants: those of one row would not do for the others.
static bool takes_columns(int c) { return !strstr(calls[c], " in ("); }

static void check_values(void)
{
    Text sql = { 0 };
    add_rows(&sql);
    text_add(&sql, "select id");
    for (int c = 0; c < COUNT_OF(calls); c++) {
        if (!takes_columns(c)) continue;
        text_add(&sql, ", case when id not in (-1");
        for (int r = 0; r < ROWS; r++)
            if (is_error(c, r)) text_add(&sql, ", %d", r);
        text_add(&sql, ") then ");
        add_applied(&sql, calls[c], "x", "y");
        text_add(&sql, " end");
    }
    text_add(&sql, " from t order by id");
    weft_result *result = query(sql.bytes);
    CHECK_INT(weft_result_rows(result), ROWS);
    for (int c = 0, column = 1; c < COUNT_OF(calls); c++) {
        if (!takes_columns(c)) continue;
        for (int r = 0; r < ROWS; r++) {
            char got[TEXT_MAX];
            format_cell(result, column, (size_t)r, got);
            if (!is_error(c, r) && strcmp(got, wanted[c][r]) != 0)
                CHECK_FAIL("%s, x = %s, y = %s: kernel %s, constant %s", calls[c], values[0][r], values[1][r], got,
                           wanted[c][r]);
        }
        column++;
    }
    weft_result_free(result);
    text_free(&sql);
}

static int check_alone(int c)
{
    int n = 0;
    for (int r = 0; r < ROWS && n < ERRORS_PER_CALL; r++) {
        Text sql = { 0 };
        char got[TEXT_MAX];
        if (takes_columns(c) && !is_error(c, r)) continue;
        add_rows(&sql);
        text_add(&sql, "select ");
        add_applied(&sql, calls[c], "x", takes_columns(c) ? "y" : values[1][r]);
        text_add(&sql, " from t where id = %d", r);
        ask_one(sql.bytes, got);
        if (strcmp(got, wanted[c][r]) != 0)
            CHECK_FAIL("%s, x = %s, y = %s: kernel %s, constant %s", calls[c], values[0][r], values[1][r], got,
                       wanted[c][r]);
        text_free(&sql);
        n++;
    }
    return n;
}

// Groups of three rows at most.
static void check_sums(void)
{
    Text sql = { 0 };
    add_rows(&sql);
    text_add(&sql, "select id %% 8, sum(x), min(x), max(x), count(distinct x) from t where x between -1e35 and 1e35 "
                   "group by id %% 8 order by 1");
    weft_result *result = query(sql.bytes);
    const i128   most = power_of(37);
    size_t       row = 0;
    for (int g = 0; g < 8; g++) {
        i128 sum = 0, low = most, high = -most;
        int  n = 0;
        char text[TEXT_MAX], got[TEXT_MAX];
        for (int r = g; r < ROWS; r += 8) {
            const i128 number = numbers[0][r];
            if (is_null(0, r) || number < -most || number > most) continue;
            sum += number, low = MIN_OF(low, number), high = MAX_OF(high, number), n++;
        }
        if (!n) continue;
        const i128 expected[] = { sum, low, high };
        for (int a = 0; a < COUNT_OF(expected); a++) {
            print_number(expected[a], 2, text);
            format_cell(result, 1 + a, row, got);
            CHECK_STR(got, text);
        }
        row++;
    }
    CHECK_INT(weft_result_rows(result), row);
    weft_result_free(result);
    text_free(&sql);
}

static int check_kernels(const char *jit)
{
    int n_alone = 0;
    run(jit);
    check_values();
    check_sums();
    for (int c = 0; c < COUNT_OF(calls); c++) n_alone += check_alone(c);
    return n_alone;
}

static void make_ids(void)
{
    Text sql = { 0 };
    text_add(&sql, "create table ids (id integer); insert into ids values ");
    for (int r = 0; r < ROWS; r++) text_add(&sql, "%s(%d)", r ? ", " : "", r);
    run(sql.bytes);
    text_free(&sql);
}

TEST(kernels_compute_with_128_bits_as_the_interpreter_does)
{
    int n_alone = 0;
    open_db(NULL);
    make_ids();
    for (int round = 0; round < 3; round++) {
        make_rows();
        ask_interpreter();
        n_alone += check_kernels("set jit = tcc");
        if (round) continue;
        run("set jit = cc");
        check_values();
        check_sums();
    }
    CHECK(n_alone > 40);
    close_db();
}

TEST(two_words_multiply_and_divide_as_one_of_128_bits)
{
    for (int n = 0; n < 20000; n++) {
        const i128 a = random_number(), b = random_number();
        i128       product;
        i64        high, low;
        const bool fits = multiply_wide(a, b, &product) && product != (i128)((u128)1 << 127);
        CHECK_INT(wide_multiply((i64)(a >> 64), (i64)a, (i64)(b >> 64), (i64)b, &high, &low), fits);
        if (fits) CHECK((i128)((u128)(u64)high << 64 | (u64)low) == product);
        CHECK(wide_to_f64((i64)(a >> 64), (i64)a) == (double)a);
        if (b == 0) continue;
        wide_divide((i64)(a >> 64), (i64)a, (i64)(b >> 64), (i64)b, 1, &high, &low);
        CHECK((i128)((u128)(u64)high << 64 | (u64)low) == a % b);
        wide_divide((i64)(a >> 64), (i64)a, (i64)(b >> 64), (i64)b, 0, &high, &low);
        const i128 rest = a % b < 0 ? -(a % b) : a % b, size = b < 0 ? -b : b;
        const i128 rounded = a / b + (rest >= size - rest ? ((a < 0) != (b < 0) ? -1 : 1) : 0);
        CHECK((i128)((u128)(u64)high << 64 | (u64)low) == rounded);
    }
}

// By long division, a digit at a time: |A| * 10^UP / B, rounded.  False: beyond 38 digits.
static bool slow_quotient(i128 a, int up, i128 b, i128 *out)
{
    const u128 size = b < 0 ? -(u128)b : (u128)b, limit = (u128)ten_to(38);
    u128       rest = a < 0 ? -(u128)a : (u128)a, quotient = rest / size;
    rest %= size;
    for (; up > 0; up--) {
        u128 digit = 0, left = 0;
        for (int i = 0; i < 10; i++) {                      // rest * 10 may leave 128 bits
            left += rest;
            if (left >= size) left -= size, digit++;
        }
        if (quotient >= limit / 10 + 1) return false;
        quotient = quotient * 10 + digit, rest = left;
    }
    quotient += rest >= size - rest;
    *out = (a < 0) != (b < 0) ? -(i128)quotient : (i128)quotient;
    return quotient < limit;
}

TEST(quotients_have_the_digits_of_postgresql)
{
    int n_made = 0;
    for (int n = 0; n < 50000; n++) {
        const i128 a = random_number(), b = random_number();
        const int  a_scale = n % 7, b_scale = n % 5, scale = 16 + n % 9;
        i128       expected;
        i64        high, low;
        int        shown;
        if (b == 0) continue;
        const int is_made = wide_quotient((i64)(a >> 64), (i64)a, a_scale, a_scale, (i64)(b >> 64), (i64)b, b_scale,
                                          b_scale, scale, &high, &low, &shown);
        CHECK(shown >= a_scale && shown >= b_scale && shown <= scale);
        bool fits = slow_quotient(a, shown + b_scale - a_scale, b, &expected);
        for (int i = shown; fits && i < scale; i++)
            fits = multiply_wide(expected, 10, &expected) && expected < ten_to(38) && expected > -ten_to(38);
        CHECK_INT(is_made, fits);
        n_made += is_made;
        if (is_made) CHECK((i128)((u128)(u64)high << 64 | (u64)low) == expected);
    }
    CHECK(n_made > 10000);
}

TEST(a_decimal_becomes_the_nearest_double)
{
    for (int n = 0; n < 20000; n++) {
        const i128 a = random_number();
        const int  scale = n % 39;
        char       text[TEXT_MAX];
        print_number(a, scale, text);
        CHECK(wide_decimal_to_f64((i64)(a >> 64), (i64)a, scale) == strtod(text, NULL));
    }
}

// ---- tables ---------------------------------------------------------------------------------------------------------

enum { COPIED = 5000 };

static void write_numbers(const char *path, i128 *sum, i128 *least)
{
    FILE *file = fopen(path, "w");
    CHECK(file);
    *sum = 0, *least = 0;
    for (int r = 0; r < COPIED; r++) {
        const i128 number = random_number() / 100000;
        char       text[TEXT_MAX];
        print_number(number, 3, text);
        fprintf(file, r % 10 ? "%d,%s\n" : "%d,\n", r, text);
        if (r % 10 == 0) continue;
        *sum += number, *least = MIN_OF(*least, number);
    }
    fclose(file);
}

static void check_table(i128 sum, i128 least)
{
    weft_result *result = query("select count(x), sum(x), min(x), count(*) from n");
    char         got[TEXT_MAX], text[TEXT_MAX];
    format_cell(result, 0, 0, got);
    CHECK_INT(atoi(got), COPIED - COPIED / 10);
    print_number(sum, 3, text);
    format_cell(result, 1, 0, got);
    CHECK_STR(got, text);
    print_number(least, 3, text);
    format_cell(result, 2, 0, got);
    CHECK_STR(got, text);
    weft_result_free(result);
}

TEST(numerics_of_two_words_are_copied_and_found_again)
{
    const char *path = fresh_path();
    char        data[512], sql[1024];
    i128        sum, least;
    snprintf(data, sizeof data, "%s.csv", path);
    snprintf(sql, sizeof sql, "copy n (id, x) from '%s' with (format csv)", data);
    write_numbers(data, &sum, &least);
    open_db(path);
    run("set chunk_rows = 1024");
    run("create table n (x numeric(38,3), id integer, y numeric(19,0))");
    run(sql);
    check_table(sum, least);
    close_db();
    open_db(path);
    check_table(sum, least);
    run("insert into n values (0.001, 1, 5), (-0.001, 2, null)");
    run("select * from n where y = 5");
    close_db();
}
