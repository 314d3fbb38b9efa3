// test_functions.c - every function has one meaning: constants (the interpreter) and stored columns (kernels of tcc and
// of cc) give the same answer or the same error.
//
// The functions come from their lists, so a new one is tested by being there.  Each type has a table of edge values and
// random ones, x and y in a row.  The interpreter says for each row what a call gives.  One query per type computes all
// calls where they give a value; each call that fails for a row is asked for that row alone.

#include "test.h"

#include "engine_help.h"
#include "plan/functions.h"
#include "plan/manual.h"

enum { ROWS_MAX = 64, CALLS_MAX = 512, TEXT_MAX = 96, FAILURES_PER_CALL = 3 };

typedef struct Values {
    const char *type, *table;
    const char *edges[32];             // NULL ends them
    const char *random;                // what kind of random ones there are; NULL: none
    enum { TCC, CC_VALUES, CC_ALL } compilers;              // cc takes longest: once for each kind of formula
} Values;

static const Values values[] = {
    { "smallint", "t0", { "0", "1", "-1", "7", "-5", "10", "15", "-25", "32767", "-32768" }, "small", TCC },
    { "integer", "t1", { "0", "1", "-1", "2", "-15", "709", "710", "-746", "2147483647", "-2147483648" },
      "small", TCC },
    { "bigint", "t2", { "0", "1", "-1", "3", "-15", "4294967296", "9223372036854775807", "-9223372036854775808" },
      "large", CC_VALUES },
    { "decimal(9,2)", "t3", { "0", "0.01", "-0.01", "0.05", "-0.05", "0.5", "-0.5", "1.5", "2.5", "-2.5", "99.99",
      "9999999.99", "-9999999.99" }, "cents", CC_VALUES },
    { "decimal(18,4)", "t4", { "0", "0.0001", "-0.5", "0.5", "1.25", "-7", "99999999999999.9999",
      "-99999999999999.9999", "50000000000000" }, "cents", TCC },
    { "double precision", "t5", { "0", "-0.0", "1", "-1", "0.5", "-0.5", "1.5", "2.5", "-3.5", "0.49999999999999994",
      "4503599627370495.5", "4503599627370497", "-2251799813685248.5", "1e308", "-1e308", "5e-324", "-5e-324",
      "2.2250738585072014e-308", "NaN", "Infinity", "-Infinity", "709.78", "709.79", "-745.1", "-745.2", "1e16" },
      "double", CC_ALL },
    { "real", "t6", { "0", "-0.0", "1", "-1", "0.5", "-1.5", "3e38", "-3e38", "1e-45", "NaN", "Infinity", "-Infinity",
      "16777216", "0.1" }, "cents", TCC },
    { "date", "t7", { "0001-01-01", "9999-12-31", "1970-01-01", "1969-12-31", "2000-02-29", "1900-02-28", "1900-03-01",
      "2024-12-31", "2023-12-31", "0400-02-29", "2021-01-03", "2020-12-28", "0009-05-05" }, NULL, CC_VALUES },
    { "timestamp", "t8", { "0001-01-01", "9999-12-31 23:59:59.999999", "1970-01-01", "1969-12-31 23:59:59.999999",
      "2000-02-29 12:34:56.789", "1900-02-28 23:00:00", "2024-03-31 02:30:00", "2024-12-30 00:00:00.000001",
      "0400-02-29 01:02:03", "2023-10-31 10:00" }, NULL, CC_VALUES },
    { "timestamptz", "t9", { "0001-01-01 00:00+00", "9999-12-31 23:59:59.999999+00", "1970-01-01 00:00+00",
      "2024-03-31 01:30+00", "2000-02-29 12:34:56.789-08" }, NULL, TCC },
    { "time", "t10", { "00:00", "24:00", "23:59:59.999999", "12:34:56.5", "00:00:00.000001" }, NULL, TCC },
    { "text", "t11", { "", "a", "Hello World", "\u00e4\u00d6\u00fc \u00df", "12", "-7.5", "2024-02-29", " pad ",
      "a.b.c", "(", "[a-z]+", "xyzzy", "true", "10:00", "%", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11" },
      NULL, CC_VALUES },
    { "uuid", "t12", { "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000",
      "FFFFFFFF-ffff-ffff-ffff-ffffffffffff" }, NULL, TCC },
};

// What has no name in the list: operators, casts, forms of the grammar.
static const char *const forms[] = {
    "%1 || '-'", "%1 || %2", "%1 ~ 'a'", "%1 !~* 'A'", "%1 like '%a%'", "%1 like %2", "concat(%1, %2, 1)",
    "concat_ws(',', %1, %2)", "%1::text", "%1::integer", "%1::bigint", "%1::double precision",
    "%1::date", "%1::timestamp", "%1::timestamptz", "%1::time", "%1::boolean", "%1::uuid", "%1::interval",
    "date_trunc('week', %1)", "date_trunc('month', %1)", "date_trunc('quarter', %1)", "date_trunc('year', %1)",
    "date_trunc('decade', %1)", "date_trunc('century', %1)", "date_trunc('millennium', %1)", "date_trunc('day', %1)",
    "date_trunc('hour', %1)", "date_trunc('second', %1)", "date_bin('15 min', %1, timestamp '2001-01-01')",
    "%1 + interval '1 month'", "%1 - interval '1 month 3 days'", "%1 + interval '1 day 02:00'", "%1 - interval '1 us'",
    "%1 + interval '100000 years'", "%1 - %2", "%1 - %2 > interval '1 day'", "extract(epoch from %1 - %2)",
    "extract(hour from %1 - %2)", "%1 + (%2 - %1)", "%1 < %2", "%1 = %2", "%1 in (%2)", "age(%1, %2)",
    "extract(epoch from %1)", "extract(year from %1)", "extract(hour from %1)", "extract(second from %1)",
    "extract(isoyear from %1)", "extract(week from %1)", "to_char(%1, 'YYYY-MM-DD HH24:MI:SS.US')",
    "to_char(%1, 'FM999,990.00')", "%1 at time zone 'Europe/Berlin'", "date_part('minute', %1)",
    "coalesce(upper(%1), 'none')", "case when %1 > %2 then length(%1) else 0 end", "position('b' in %1)",
};

static int  n_rows;
static char x[ROWS_MAX][TEXT_MAX], y[ROWS_MAX][TEXT_MAX];   // as literals; "null" for NULL
static int  n_calls;
static char calls[CALLS_MAX][TEXT_MAX];                     // "power(%1, %2)"

// ---- values ---------------------------------------------------------------------------------------------------------

static u64 seed = 88172645463325252ull;

static u64 random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void random_value(const char *kind, char out[TEXT_MAX])
{
    const i64 bits = (i64)random_bits();
    if (strcmp(kind, "small") == 0) snprintf(out, TEXT_MAX, "'%d'", (int)(bits % 32768));
    else if (strcmp(kind, "large") == 0) snprintf(out, TEXT_MAX, "'%lld'", (long long)(bits >> (random_bits() % 60)));
    else if (strcmp(kind, "cents") == 0) snprintf(out, TEXT_MAX, "'%.2f'", (double)(bits % 100000000) / 100);
    else snprintf(out, TEXT_MAX, "'%.17g'", ldexp((double)bits, (int)(random_bits() % 140) - 130));
}

static void make_rows(const Values *of)
{
    n_rows = 0;
    strcpy(x[n_rows++], "null");
    for (int e = 0; of->edges[e]; e++) snprintf(x[n_rows++], TEXT_MAX, "'%s'", of->edges[e]);
    for (int r = 0; r < 10 && of->random; r++) random_value(of->random, x[n_rows++]);
    for (int r = 0; r < n_rows; r++) strcpy(y[r], x[random_bits() % (u64)n_rows]);
    Text sql = { 0 };
    text_add(&sql, "create table %s (id integer, x %s, y %s); insert into %s values ", of->table, of->type, of->type,
             of->table);
    for (int r = 0; r < n_rows; r++) text_add(&sql, "%s(%d, %s, %s)", r ? ", " : "", r, x[r], y[r]);
    run(sql.bytes);
    text_free(&sql);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

static void add_call(const char *call)
{
    for (int c = 0; c < n_calls; c++)
        if (strcmp(calls[c], call) == 0) return;            // an overload of one that is there
    CHECK(n_calls < CALLS_MAX);
    strcpy(calls[n_calls++], call);
}

static const char *sample_of(ArgRule rule, bool is_second)
{
    switch (rule) {
        case ARG_TEXT:      return is_second ? "'b'" : "'a'";
        case ARG_INTEGER:   return is_second ? "-2" : "2";
        case ARG_DOUBLE:    return "1.5";
        case ARG_TIMESTAMP: return "timestamp '2024-02-29 12:00'";
        case ARG_INTERVAL:  return "interval '1 mon 2 days 03:04:05'";
        default:            return "%2";
    }
}

// Arguments behind the first one: the other column, and constants of their kinds.
static void list_samples(const Function *function)
{
    for (int way = 0; way < 2; way++) {
        Text call = { 0 };
        text_add(&call, "%s(%%1", function->names[0]);
        for (int a = 1; a < function->n_args; a++) text_add(&call, ", %s", sample_of(function->args[a], way));
        text_add(&call, ")");
        if (call.length < TEXT_MAX) add_call(call.bytes);
        text_free(&call);
    }
}

static void list_calls(void)
{
    static const int digits[] = { -20, -2, -1, 0, 1, 3, 20 };
    char             call[TEXT_MAX];
    n_calls = 0;
    for (int f = 0; f < functions_count(); f++) {
        const Function *function = function_at(f);
        const char     *name = function->names[0];
        if (function->is_hidden) continue;
        const bool has_digits = function->n_args == 2 && function->args[1] == ARG_DIGITS;
        for (int d = 0; d < (has_digits ? COUNT_OF(digits) : 1); d++) {
            if (function->is_field) snprintf(call, sizeof call, "extract(%s from %%1)", name);
            else if (has_digits) snprintf(call, sizeof call, "%s(%%1, %d)", name, digits[d]);
            else snprintf(call, sizeof call, function->n_args == 2 ? "%s(%%1, %%2)" : "%s(%%1)", name);
            if (function->n_args <= 2) add_call(call);
        }
        if (!function->is_field && !has_digits && function->n_args > 1) list_samples(function);
    }
    for (int f = 0; f < COUNT_OF(forms); f++) add_call(forms[f]);
}

static void add_applied(Text *sql, const char *call, const char *first, const char *second)
{
    for (const char *p = call; *p; p++) {
        if (p[0] == '%' && p[1] == '1') text_add(sql, "%s", first), p++;
        else if (p[0] == '%' && p[1] == '2') text_add(sql, "%s", second), p++;
        else text_add_bytes(sql, p, 1);
    }
}

// ---- answers --------------------------------------------------------------------------------------------------------

// The value of the first column as text, or the SQLSTATE in brackets.
static void ask(Text *sql, char out[TEXT_MAX])
{
    weft_result *result = NULL;
    if (weft_query(session, sql->bytes, &result, &err)) snprintf(out, TEXT_MAX, "[%s]", err.sqlstate);
    else if (weft_result_rows(result) != 1) strcpy(out, "not one row");
    else if (weft_result_column(result, 0)->is_null && weft_result_column(result, 0)->is_null[0]) strcpy(out, "null");
    else weft_format(result, 0, 0, out, TEXT_MAX);
    weft_result_free(result);
    sql->length = 0;
}

static void ask_constant(const char *type, const char *call, int row, char out[TEXT_MAX])
{
    Text sql = { 0 };
    char first[4 * TEXT_MAX + 4096], second[4 * TEXT_MAX + 4096];
    snprintf(first, sizeof first, "cast(%s as %s)", x[row], type);
    snprintf(second, sizeof second, "cast(%s as %s)", y[row], type);
    text_add(&sql, "select ");
    add_applied(&sql, call, first, second);
    ask(&sql, out);
    text_free(&sql);
}

static void ask_row(const char *table, const char *call, int row, char out[TEXT_MAX])
{
    Text sql = { 0 };
    text_add(&sql, "select ");
    add_applied(&sql, call, "x", "y");
    text_add(&sql, " from %s where id = %d", table, row);
    ask(&sql, out);
    text_free(&sql);
}

static char wanted[CALLS_MAX][ROWS_MAX][TEXT_MAX];          // what the interpreter says; "" where types do not fit

static bool is_error(const char *answer)
{
    return answer[0] == '[';
}

static bool can_fail(int c)
{
    for (int r = 0; r < n_rows; r++)
        if (is_error(wanted[c][r])) return true;
    return false;
}

// f(x), or case when id not in (rows that fail) then f(x) end
static void add_guarded(Text *sql, int c)
{
    const bool has_guard = can_fail(c);
    text_add(sql, has_guard ? ", case when id not in (-1" : ", ");
    for (int r = 0; r < n_rows; r++)
        if (is_error(wanted[c][r])) text_add(sql, ", %d", r);
    if (has_guard) text_add(sql, ") then ");
    add_applied(sql, calls[c], "x", "y");
    if (has_guard) text_add(sql, " end");
}

// All calls that give a value, in one query.
static void check_values(const Values *of)
{
    Text sql = { 0 };
    int  columns[CALLS_MAX], n_columns = 0;
    text_add(&sql, "select id");
    for (int c = 0; c < n_calls; c++) {
        if (!wanted[c][0][0]) continue;
        columns[n_columns++] = c;
        add_guarded(&sql, c);
    }
    text_add(&sql, " from %s order by id", of->table);
    weft_result *result = query(sql.bytes);
    CHECK_INT(weft_result_rows(result), n_rows);
    for (int i = 0; i < n_columns; i++) {
        const weft_column *column = weft_result_column(result, i + 1);
        for (int r = 0; r < n_rows; r++) {
            char got[TEXT_MAX] = "null";
            if (is_error(wanted[columns[i]][r])) continue;
            if (!column->is_null || !column->is_null[r]) weft_format(result, i + 1, (size_t)r, got, sizeof got);
            if (strcmp(got, wanted[columns[i]][r]) != 0)
                CHECK_FAIL("%s of %s, x = %s, y = %s: stored %s, constant %s", calls[columns[i]], of->type, x[r], y[r],
                           got, wanted[columns[i]][r]);
        }
    }
    weft_result_free(result);
    text_free(&sql);
}

// The first failures of a call, each alone.
static int check_errors(const Values *of, int c)
{
    int n = 0;
    for (int r = 0; r < n_rows && n < FAILURES_PER_CALL; r++) {
        char got[TEXT_MAX];
        if (!wanted[c][0][0] || !is_error(wanted[c][r])) continue;
        ask_row(of->table, calls[c], r, got);
        if (strcmp(got, wanted[c][r]) != 0)
            CHECK_FAIL("%s of %s, x = %s, y = %s: stored %s, constant %s", calls[c], of->type, x[r], y[r], got,
                       wanted[c][r]);
        n++;
    }
    return n;
}

static bool is_unfit(const char *answer)
{
    return strcmp(answer, "[42883]") == 0 || strcmp(answer, "[42846]") == 0 || strcmp(answer, "[0A000]") == 0;
}

static void ask_interpreter(const Values *of)
{
    for (int c = 0; c < n_calls; c++)
        for (int r = 0; r < n_rows; r++) {
            ask_constant(of->type, calls[c], r, wanted[c][r]);
            if (r > 0 || !is_unfit(wanted[c][r])) continue;
            wanted[c][r][0] = '\0';                         // NULL of a type that it does not take
            break;
        }
}

static void use_device(const char *name)
{
    char sql[64];
    snprintf(sql, sizeof sql, "set device = '%s'", name);
    run(sql);
}

// Which compilers, or which device, is asked: WEFT_TEST_DEVICE names one that compiles by itself.
static int check_kernels(const Values *of, const char *device)
{
    int n_errors = 0;
    if (device) use_device(device);
    else run("set jit = tcc");
    check_values(of);
    for (int c = 0; c < n_calls; c++) n_errors += check_errors(of, c);
    if (device) return n_errors;
    run("set jit = cc");
    if (of->compilers >= CC_VALUES) check_values(of);
    for (int c = 0; c < n_calls && of->compilers == CC_ALL; c++) n_errors += check_errors(of, c);
    return n_errors;
}

TEST(constants_and_columns_agree)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    int         n_errors = 0, n_fit = 0;
    open_db(NULL);
    list_calls();
    for (int v = 0; v < COUNT_OF(values); v++) {
        make_rows(&values[v]);
        ask_interpreter(&values[v]);
        n_errors += check_kernels(&values[v], device);
        for (int c = 0; c < n_calls; c++) n_fit += wanted[c][0][0] != 0;
    }
    printf("%d calls of a type, %d errors compared\n", n_fit, n_errors);
    CHECK(n_errors > 50 && n_fit > 100);
    close_db();
}

// The manual is written by "weft functions".
TEST(manual_is_up_to_date)
{
    Text  text = { 0 };
    char  line[1024];
    FILE *file = fopen("docs/functions.md", "r");
    if (!file) return;                                      // run from elsewhere
    manual_write(&text);
    const char *at = text.bytes;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(at, line, strlen(line)) != 0) CHECK_FAIL("docs/functions.md: the lists have not \"%s\"", line);
        at += strlen(line);
    }
    CHECK_STR(at, "");
    fclose(file);
    text_free(&text);
}

TEST(names_are_told_once)
{
    for (int a = 0; manual_name(a); a++)
        for (int b = 0; b < a; b++) CHECK(strcmp(manual_name(a), manual_name(b)) != 0);
}
