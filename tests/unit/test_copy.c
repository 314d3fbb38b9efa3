// test_copy.c - text files into tables: every form, every error with its line, and the same whatever the block size and
// the number of workers.

#define _GNU_SOURCE                                         // F_SETPIPE_SZ

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "test.h"

#include "store/copy_int.h"
#include "store/store_int.h"

// ---- a table to copy into -------------------------------------------------------------------------------------------

typedef struct Fixture {
    Budget budget;
    Store *store;
    Pool  *pool;
    Error  err;
    u64    n_rows;
    CopyFigures figures;                     // of the last copy
} Fixture;

static Fixture make_fixture(int n_workers)
{
    Fixture fixture = { .pool = pool_new(n_workers) };
    error_clear(&fixture.err);
    return fixture;
}

static void open_store(Fixture *fixture, const ColumnDef *columns, int n_columns)
{
    CHECK_OK(store_open(NULL, &fixture->budget, &fixture->store, &fixture->err), fixture->err);
    CHECK_OK(store_create_table(fixture->store, "t", columns, n_columns, &fixture->err), fixture->err);
}

static void close_fixture(Fixture *fixture)
{
    store_close(fixture->store);
    pool_free(fixture->pool);
    copy_set_block_bytes(0);
    copy_set_careful(false);
    CHECK_INT(fixture->budget.used, 0);
}

static const char *write_file(const char *name, const void *bytes, size_t length)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
    return path;
}

static CopyOptions text_options(void)
{
    return (CopyOptions){ .delimiter = '|', .null_text = "\\N", .quote = '"', .escape = '"' };
}

static CopyOptions csv_options(void)
{
    return (CopyOptions){ .delimiter = ',', .csv = true, .null_text = "", .quote = '"', .escape = '"' };
}

static weft_status copy_file(Fixture *fixture, const char *path, CopyOptions options)
{
    error_clear(&fixture->err);
    const weft_status status = copy_from_file(fixture->store, fixture->pool, &fixture->budget, "t", path, &options,
                                              NULL, NULL, &fixture->figures, &fixture->err);
    fixture->n_rows = fixture->figures.n_rows;
    return status;
}

static weft_status copy_text(Fixture *fixture, const char *text, CopyOptions options)
{
    return copy_file(fixture, write_file("in.txt", text, strlen(text)), options);
}

// ---- reading it back ------------------------------------------------------------------------------------------------

// One value as psql prints it; NULL as "-".
static void add_value(Text *text, const Table *table, const Chunk *chunk, u32 row, int number)
{
    const Column *column = &table->columns[number];
    const ColumnChunk *data = &chunk->columns[number];
    Value value = { .type = column->type };
    char buffer[128];
    if (data->valid && !(data->valid[row / 64] >> row % 64 & 1)) {
        text_add(text, "-");
        return;
    }
    u64 stored = (u64)data->base;
    if (column->type.kind == TYPE_REAL)
        value.f = ((const float *)data->data)[row];
    else if (column->type.kind == TYPE_DOUBLE)
        value.f = ((const double *)data->data)[row];
    else
        stored += data->width == 1   ? ((const u8 *)data->data)[row]
                  : data->width == 2 ? ((const u16 *)data->data)[row]
                  : data->width == 4 ? ((const u32 *)data->data)[row]
                                     : ((const u64 *)data->data)[row];
    if (column->type.kind == TYPE_TEXT) {
        weft_text word = dict_get(column->dict, (u32)stored);
        text_add_bytes(text, word.bytes, word.length);
        return;
    }
    if (!type_is_float(column->type))
        value.i = (i64)stored;
    text_add_bytes(text, buffer, value_format(&value, buffer, sizeof(buffer)));
}

// All rows, as a|b;c|d;
static char *table_text(Fixture *fixture)
{
    static Text text;
    const Table *table = store_table(fixture->store, "t");
    text_clear(&text);
    text_add(&text, "%s", "");
    for (int chunk = 0; chunk < table->n_chunks; chunk++) {
        for (u32 row = 0; row < table->chunks[chunk]->n_rows; row++) {
            for (int column = 0; column < table->n_columns; column++) {
                if (column > 0)
                    text_add(&text, "|");
                add_value(&text, table, table->chunks[chunk], row, column);
            }
            text_add(&text, ";");
        }
    }
    table_release(table);
    return text.bytes;
}

static const ColumnDef int_text[] = { { "number", { .kind = TYPE_INTEGER }, false },
                                      { "word", { .kind = TYPE_TEXT }, false } };
static const ColumnDef one_text[] = { { "word", { .kind = TYPE_TEXT }, false } };

// Copies TEXT into a table of columns number and word (or word alone) with blocks of all sizes and compares the rows.
static void check_copy_into(const ColumnDef *columns, int n_columns, const char *text, size_t length,
                            CopyOptions options, const char *rows)
{
    const char *path = write_file("in.txt", text, length);
    for (size_t bytes = 0; bytes <= MIN_OF(length + 2, 80); bytes++) {
        Fixture fixture = make_fixture(1 + (int)(bytes % 2));
        open_store(&fixture, columns, n_columns);
        copy_set_block_bytes(bytes);
        CHECK_OK(copy_file(&fixture, path, options), fixture.err);
        CHECK_STR(table_text(&fixture), rows);
        close_fixture(&fixture);
    }
}

static void check_copy(const char *text, CopyOptions options, const char *rows)
{
    check_copy_into(int_text, 2, text, strlen(text), options, rows);
}

static void check_copy_words(const char *text, CopyOptions options, const char *rows)
{
    check_copy_into(one_text, 1, text, strlen(text), options, rows);
}

// The same for a file that has an error.
static void check_fails_into(const ColumnDef *columns, int n_columns, const char *text, size_t length,
                             CopyOptions options, weft_status status, const char *message)
{
    const char *path = write_file("in.txt", text, length);
    for (size_t bytes = 0; bytes <= MIN_OF(length + 2, 80); bytes++) {
        Fixture fixture = make_fixture(1 + (int)(bytes % 3));
        open_store(&fixture, columns, n_columns);
        copy_set_block_bytes(bytes);
        CHECK_STATUS(copy_file(&fixture, path, options), status);
        CHECK_HAS(fixture.err.message, message);
        CHECK_STR(table_text(&fixture), "");
        close_fixture(&fixture);
    }
}

static void check_fails(const char *text, CopyOptions options, weft_status status, const char *message)
{
    check_fails_into(int_text, 2, text, strlen(text), options, status, message);
}

// ---- lines ----------------------------------------------------------------------------------------------------------

TEST(copy_lines)
{
    check_copy("1|one\n2|two\n", text_options(), "1|one;2|two;");
    check_copy("1|one\n2|two", text_options(), "1|one;2|two;");
    check_copy("1|one\r\n2|two\r\n", text_options(), "1|one;2|two;");
    check_copy("1|one\n2|two\n\n", text_options(), "1|one;2|two;");
    check_copy("1|one\r\n2|two\r\n\r\n", text_options(), "1|one;2|two;");
    check_copy("1,one\r\n2,two", csv_options(), "1|one;2|two;");
    check_copy("\n", text_options(), "");
}

// As in PostgreSQL the first line end decides, and the others have to be like it.
TEST(copy_lines_that_end_in_returns)
{
    CopyOptions header = csv_options(), escape = csv_options();
    header.header = true;
    escape.escape = '\\';
    check_copy("1|one\r2|two\r", text_options(), "1|one;2|two;");
    check_copy("1|one\r2|two", text_options(), "1|one;2|two;");
    check_copy("1|one\r\r", text_options(), "1|one;");
    check_copy("1|o\\\rne\\\r\r2|t\\\nwo\r", text_options(), "1|o\rne\r;2|t\nwo;");
    check_copy("\xEF\xBB\xBFnumber,word\r1,one\r2,two\r", header, "1|one;2|two;");
    check_copy("1,\"o\rn\ne\r\"\r2,two\r", csv_options(), "1|o\rn\ne\r;2|two;");
    check_copy("1,\"o\\\"\rn\"\r2,two\r", escape, "1|o\"\rn;2|two;");
    check_copy("\"1\",\"o\r\"\n2,two\n", csv_options(), "1|o\r;2|two;");
    check_copy_words("one\rtwo\r", csv_options(), "one;two;");
    check_fails("1,one\r2,two\n3,three\r", csv_options(), WEFT_BAD_COPY, "line 2: unquoted newline found in data");
    check_fails("1|one\r2|two\r3|three\r\n", text_options(), WEFT_BAD_COPY, "line 4: literal newline found in data");
    check_fails("1,one\n2,two\r3,three\r", csv_options(), WEFT_BAD_COPY, "line 2: 3 fields where");
}

TEST(copy_empty_file)
{
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    CHECK_OK(copy_text(&fixture, "", text_options()), fixture.err);
    CHECK_INT(fixture.n_rows, 0);
    CopyOptions options = csv_options();
    options.header = true;
    CHECK_OK(copy_text(&fixture, "", options), fixture.err);
    CHECK_OK(copy_text(&fixture, "number,word\n", options), fixture.err);
    CHECK_STR(table_text(&fixture), "");
    close_fixture(&fixture);
}

TEST(copy_skips_byte_order_mark)
{
    check_copy("\xEF\xBB\xBF"
               "1|one\n",
               text_options(), "1|one;");
}

TEST(copy_header)
{
    CopyOptions options = csv_options();
    options.header = true;
    check_copy("number,word\n1,one\n", options, "1|one;");
    check_copy("\"num\nber\",word,and,more\n1,one\n2,two\n", options, "1|one;2|two;");
}

TEST(copy_trailing_delimiter)
{
    CopyOptions options = text_options();
    options.trailing_delimiter = true;
    check_copy("1|one|\n2|two\n3|three|\r\n4|four|", options, "1|one;2|two;3|three;4|four;");
    check_fails("1|one||\n", options, WEFT_BAD_COPY, "line 1: 4 fields where the table has 2 columns");
    check_fails("1|one|x\n", options, WEFT_BAD_COPY, "line 1: 3 fields");
    check_fails("1|one|\n", text_options(), WEFT_BAD_COPY, "line 1: 3 fields");
}

TEST(copy_single_column)
{
    check_copy_words("a\n\nb\n", text_options(), "a;;b;");
    check_copy_words("a\n\n", text_options(), "a;;");
    check_copy_words("a\n\nb\n", csv_options(), "a;-;b;");
    CopyOptions options = text_options();
    options.trailing_delimiter = true;
    check_copy_words("a|\n|\nb\n", options, "a;;b;");
}

TEST(copy_other_delimiters)
{
    CopyOptions options = text_options();
    options.delimiter = '\t';
    check_copy("1\ta|b\n-2\tc\n", options, "1|a|b;-2|c;");
    options.delimiter = '-';
    check_copy("1-a\n-b\n", (options.null_text = "", options), "1|a;-|b;");
}

// ---- types ----------------------------------------------------------------------------------------------------------

static void check_type(Type type, const char *text, const char *rows)
{
    const ColumnDef columns[] = { { "x", type, false } };
    check_copy_into(columns, 1, text, strlen(text), text_options(), rows);
    CopyOptions quoted = csv_options();                     // each field once more in quotes
    quoted.null_text = "\\N";
    Text csv = { 0 };
    for (const char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        bool is_null = !strncmp(line, "\\N", 2);
        text_add(&csv, is_null ? "%.*s\r\n" : "\"%.*s\"\r\n", (int)(end - line), line);
    }
    check_copy_into(columns, 1, csv.bytes, csv.length, quoted, rows);
    text_free(&csv);
}

static void check_no_value(Type type, const char *text, weft_status status)
{
    const ColumnDef columns[] = { { "x", type, false } };
    check_fails_into(columns, 1, text, strlen(text), text_options(), status, "line 2, column x: ");
}

TEST(copy_integers)
{
    check_type(TYPE(INTEGER), "0\n7\n-7\n+7\n 42 \n00012\n2147483647\n-2147483648\n\\N\n",
               "0;7;-7;7;42;12;2147483647;-2147483648;-;");
    check_type(TYPE(INTEGER), "12345678\n123456789\n-12345678\n", "12345678;123456789;-12345678;");
    check_type(TYPE(SMALLINT), "32767\n-32768\n1\n", "32767;-32768;1;");
    check_type(TYPE(BIGINT), "9223372036854775807\n-9223372036854775808\n1234567890123456\n12345678901234567\n",
               "9223372036854775807;-9223372036854775808;1234567890123456;12345678901234567;");
    check_no_value(TYPE(INTEGER), "1\n2147483648\n", WEFT_OUT_OF_RANGE);
    check_no_value(TYPE(SMALLINT), "1\n32768\n", WEFT_OUT_OF_RANGE);
    check_no_value(TYPE(SMALLINT), "1\n-99999\n", WEFT_OUT_OF_RANGE);
    check_no_value(TYPE(BIGINT), "1\n9223372036854775808\n", WEFT_OUT_OF_RANGE);
    const char *const bad[] = { "1\n\n2", "1\nx",  "1\n1x", "1\n-",        "1\n1-",         "1\n1.5",
                                "1\n:",   "1\n/", "1\n--1", "1\n1234567x", "1\n12345678x", "1\n1234567890123456x" };
    for (int i = 0; i < COUNT_OF(bad); i++)
        check_no_value(TYPE(INTEGER), bad[i], WEFT_BAD_TEXT);
}

TEST(copy_decimals)
{
    Type type = { .kind = TYPE_DECIMAL, .precision = 12, .scale = 2 };
    check_type(type, "1.25\n-1.25\n0.05\n.5\n7\n1.5\n1.005\n9999999999.99\n-9999999999.99\n\\N\n1e2\n",
               "1.25;-1.25;0.05;0.50;7.00;1.50;1.01;9999999999.99;-9999999999.99;-;100.00;");
    check_no_value(type, "1\n10000000000\n", WEFT_OUT_OF_RANGE);
    check_no_value(type, "1\n1.2x\n", WEFT_BAD_TEXT);
    check_no_value(type, "1\n1..2\n", WEFT_BAD_TEXT);
    check_no_value(type, "1\n.\n", WEFT_BAD_TEXT);
    check_type((Type){ .kind = TYPE_DECIMAL, .precision = 18, .scale = 18 }, "0.123456789012345678\n-0.5\n",
               "0.123456789012345678;-0.500000000000000000;");
    check_type((Type){ .kind = TYPE_DECIMAL, .precision = 5, .scale = 0 }, "12345\n-1\n1.5\n", "12345;-1;2;");
}

TEST(copy_floats)
{
    check_type(TYPE(DOUBLE), "0.1\n-0.25\n1e300\n123456789012345\n1234567890123456789\nNaN\n-Infinity\n5.\n\\N\n",
               "0.1;-0.25;1e+300;123456789012345;1.2345678901234568e+18;NaN;-Infinity;5;-;");
    check_type(TYPE(REAL), "0.1\n-1.5\n16777217\n123456.7\n", "0.1;-1.5;1.6777216e+07;123456.7;");
    check_no_value(TYPE(DOUBLE), "1\n1.2.3\n", WEFT_BAD_TEXT);
    check_no_value(TYPE(DOUBLE), "1\n-\n", WEFT_BAD_TEXT);
    check_no_value(TYPE(DOUBLE), "1\n1e999\n", WEFT_OUT_OF_RANGE);
}

// The fast way and strtod must agree to the last bit.
TEST(copy_floats_round_right)
{
    enum { N = 20000 };
    const ColumnDef columns[] = { { "x", TYPE(DOUBLE), false } };
    Text text = { 0 };
    double *should = malloc(N * sizeof(double));
    u64 state = 1;
    for (int i = 0; i < N; i++) {
        char number[64];
        state = state * 6364136223846793005u + 1442695040888963407u;
        snprintf(number, sizeof(number), "%llu.%0*llu", (unsigned long long)(state >> 40), (int)(state % 9) + 1,
                 (unsigned long long)(state >> 20 & 0xFFFFF));
        should[i] = strtod(number, NULL);
        text_add(&text, "%s\n", number);
    }
    Fixture fixture = make_fixture(2);
    open_store(&fixture, columns, 1);
    CHECK_OK(copy_file(&fixture, write_file("in.txt", text.bytes, text.length), text_options()), fixture.err);
    const Table *table = store_table(fixture.store, "t");
    CHECK_INT(table->n_rows, N);
    CHECK_BYTES(table->chunks[0]->columns[0].data, should, N * sizeof(double));
    table_release(table);
    close_fixture(&fixture);
    text_free(&text);
    free(should);
}

TEST(copy_dates_and_booleans)
{
    check_type(TYPE(DATE), "1970-01-01\n1992-02-29\n0001-01-01\n9999-12-31\n\\N\n",
               "1970-01-01;1992-02-29;0001-01-01;9999-12-31;-;");
    const char *const bad[] = { "1970-01-01\n1993-02-29", "1970-01-01\n1993-13-01", "1970-01-01\n1993-00-10",
                                "1970-01-01\n199a-01-01", "1970-01-01\n1993x01-01" };
    for (int i = 0; i < COUNT_OF(bad); i++) {
        Fixture fixture = make_fixture(1);
        open_store(&fixture, (const ColumnDef[]){ { "x", TYPE(DATE), false } }, 1);
        CHECK(copy_text(&fixture, bad[i], text_options()) != WEFT_OK);
        CHECK_HAS(fixture.err.message, "line 2, column x: ");
        close_fixture(&fixture);
    }
    check_type(TYPE(BOOLEAN), "t\nf\n1\n0\ntrue\nfalse\n\\N\n", "t;f;t;f;t;f;-;");
    check_no_value(TYPE(BOOLEAN), "t\nx\n", WEFT_BAD_TEXT);
}

TEST(copy_texts_of_all_lengths)
{
    Text text = { 0 }, rows = { 0 };
    for (int length = 0; length < 40; length++) {
        for (int same = 0; same < 3; same++) {              // the third and the first are one text, the second is not
            for (int i = 0; i < length; i++) {
                char byte = (char)(i == length - 1 && same == 1 ? 'z' : 'a' + i % 26);
                text_add_bytes(&text, &byte, 1);
                text_add_bytes(&rows, &byte, 1);
            }
            text_add(&text, "\n");
            text_add(&rows, ";");
        }
    }
    check_copy_words(text.bytes, text_options(), rows.bytes);
    text_free(&text);
    text_free(&rows);
}

// ---- null -----------------------------------------------------------------------------------------------------------

TEST(copy_null)
{
    check_copy("1|\\N\n\\N|two\n", text_options(), "1|-;-|two;");
    check_copy("1,\n,two\n3,\"\"\n", csv_options(), "1|-;-|two;3|;");
    CopyOptions options = text_options();
    options.null_text = "0";                                // looks like a number
    check_copy("0|0\n00|00\n", options, "-|-;0|00;");
    options = csv_options();
    options.null_text = "NULL";
    check_copy("NULL,\"NULL\"\n1,NULL\n2,\n", options, "-|NULL;1|-;2|;");
}

TEST(copy_null_where_forbidden)
{
    const ColumnDef columns[] = { { "number", TYPE(INTEGER), true }, { "word", TYPE(TEXT), true } };
    const char *text = "1|a\n2|b\n3|\\N\n\\N|c\n";
    check_fails_into(columns, 2, text, strlen(text), text_options(), WEFT_NOT_NULL_VIOLATION, "line 3, column word: ");
    text = "1|a\n\\N|b\n3|\\N\n";
    check_fails_into(columns, 2, text, strlen(text), text_options(), WEFT_NOT_NULL_VIOLATION, "line 2, column number");
}

// ---- quotes and escapes ---------------------------------------------------------------------------------------------

TEST(copy_csv_quotes)
{
    check_copy("1,\"a,b\"\n\"2\",\"c\"\n", csv_options(), "1|a,b;2|c;");
    check_copy("1,\"say \"\"hi\"\"\"\n2,\"\"\"\"\n3,ab\"c,d\"e\n", csv_options(), "1|say \"hi\";2|\";3|abc,de;");
    check_copy("1,\"a\nb\"\n2,\"\r\n\n\"\n3,\"c\"\n", csv_options(), "1|a\nb;2|\r\n\n;3|c;");
    check_copy("1,a\\nb\n", csv_options(), "1|a\\nb;");
    CopyOptions options = csv_options();
    options.quote = '\'';
    options.escape = '\'';
    check_copy("1,'it''s, \"so\"'\n", options, "1|it's, \"so\";");
}

TEST(copy_csv_escape_of_its_own)
{
    CopyOptions options = csv_options();
    options.escape = '\\';
    check_copy("1,\"a\\\"b,\nc\"\n2,\"\\\\\"\n3,\"\\x\"\n", options, "1|a\"b,\nc;2|\\;3|\\x;");
    check_copy("4,a\\b\n5,\"\"\n", options, "4|a\\b;5|;");
    check_fails("1,\"a\\\"\n", options, WEFT_BAD_COPY, "line 1: a quoted field does not end");
}

TEST(copy_text_escapes)
{
    check_copy("1|a\\tb\\nc\\\\d\n2|\\|\\b\\f\\r\\v\\q\n", text_options(), "1|a\tb\nc\\d;2||\b\f\r\vq;");
    check_copy("1|\\101\\x42\\x4g\\1a\n", text_options(), "1|AB\004g\001a;");
    check_copy("1|a\\\nb\n2|c\\\\\n3|d\n", text_options(), "1|a\nb;2|c\\;3|d;");
    check_copy("1|\\\\N\n2|x\\N\n", text_options(), "1|\\N;2|xN;");
    check_copy("1|\"a\n2|\"b\"\n", text_options(), "1|\"a;2|\"b\";");
    check_copy("1|a\\\n", text_options(), "1|a\n;");
    check_fails("1|a\n2|b\\", text_options(), WEFT_BAD_COPY, "line 2: the file ends behind a backslash");
    check_fails("1|a\\\\\n\"2\"|b\n", text_options(), WEFT_BAD_TEXT, "line 2, column number: ");
}

TEST(copy_end_marker)
{
    check_copy("1|a\n\\.\n", text_options(), "1|a;");
    check_copy("1|a\n\\.", text_options(), "1|a;");
    check_copy_words("a\n\\.\n", text_options(), "a;");
    check_fails("1|a\n\\.\n2|b\n", text_options(), WEFT_BAD_COPY, "line 2: the end marker");
}

TEST(copy_quotes_that_do_not_end)
{
    check_fails("1,a\n2,\"b\n3,c\n", csv_options(), WEFT_BAD_COPY, "line 2: a quoted field does not end");
    check_fails("1,\"", csv_options(), WEFT_BAD_COPY, "line 1: a quoted field does not end");
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(copy_counts_fields)
{
    check_fails("1|a\n2\n", text_options(), WEFT_BAD_COPY, "line 2: 1 fields where the table has 2 columns");
    check_fails("1|a\n2|b|c\n", text_options(), WEFT_BAD_COPY, "line 2: 3 fields where the table has 2 columns");
    check_fails("1|a\n\n2|b\n", text_options(), WEFT_BAD_COPY, "line 2: 1 fields");
    check_fails("1,\"x\ny\"\n2\n", csv_options(), WEFT_BAD_COPY, "line 3: 1 fields");
}

TEST(copy_reports_the_first_bad_line)
{
    check_fails("1|a\n2|b\nx|c\n4\n", text_options(), WEFT_BAD_TEXT, "line 3, column number: ");
    check_fails("1|a\n2\nx|c\n", text_options(), WEFT_BAD_COPY, "line 2: 1 fields");
    check_fails("1|a\n2|\xFF\nx|c\n", text_options(), WEFT_BAD_ENCODING, "line 2, column word: ");
    CopyOptions options = csv_options();
    options.header = true;
    check_fails("n,w\n1,\"a\nb\"\nx,c\n", options, WEFT_BAD_TEXT, "line 4, column number: ");
}

TEST(copy_refuses_bad_encoding)
{
    const char *const bad[] = { "\x80", "\xC0\xAF", "a\xE2\x82", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\\xFF" };
    for (int i = 0; i < COUNT_OF(bad); i++) {
        char text[64];
        snprintf(text, sizeof(text), "1|fine\n2|%s\n", bad[i]);
        check_fails(text, text_options(), WEFT_BAD_ENCODING, "line 2, column word: text is not UTF-8");
    }
    check_fails_into(int_text, 2, "1|a\n2|b\0c\n", 11, text_options(), WEFT_BAD_ENCODING, "line 2, column word: ");
    check_copy("1|\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n", text_options(), "1|\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80;");
}

TEST(copy_missing_file_and_table)
{
    Fixture fixture = make_fixture(1);
    open_store(&fixture, int_text, 2);
    CHECK_STATUS(copy_file(&fixture, test_path("not-there"), text_options()), WEFT_UNDEFINED_FILE);
    CHECK(copy_file(&fixture, test_path("."), text_options()) != WEFT_OK);
    CHECK_OK(store_drop_table(fixture.store, "t", &fixture.err), fixture.err);
    CHECK_STATUS(copy_text(&fixture, "1|a\n", text_options()), WEFT_UNDEFINED_TABLE);
    close_fixture(&fixture);
}

TEST(copy_refuses_odd_options)
{
    Fixture fixture = make_fixture(1);
    open_store(&fixture, int_text, 2);
    CopyOptions options = text_options();
    options.delimiter = '\\';
    CHECK_STATUS(copy_text(&fixture, "1\\a\n", options), WEFT_INVALID_PARAMETER);
    options.delimiter = '\n';
    CHECK_STATUS(copy_text(&fixture, "1\na\n", options), WEFT_INVALID_PARAMETER);
    options = csv_options();
    options.quote = ',';
    CHECK_STATUS(copy_text(&fixture, "1,a\n", options), WEFT_INVALID_PARAMETER);
    close_fixture(&fixture);
}

TEST(copy_adds_to_what_is_there)
{
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    CHECK_OK(copy_text(&fixture, "1|a\n2|b\n", text_options()), fixture.err);
    CHECK_INT(fixture.n_rows, 2);
    CHECK_STATUS(copy_text(&fixture, "3|c\nx|d\n", text_options()), WEFT_BAD_TEXT);
    CHECK_OK(copy_text(&fixture, "4|b\n", text_options()), fixture.err);
    CHECK_INT(fixture.n_rows, 1);
    CHECK_STR(table_text(&fixture), "1|a;2|b;4|b;");
    close_fixture(&fixture);
}

// ---- columns --------------------------------------------------------------------------------------------------------

TEST(copy_named_columns)
{
    const ColumnDef columns[] = { { "a", TYPE(INTEGER), false },
                                  { "b", TYPE(TEXT), false },
                                  { "c", TYPE(DOUBLE), false },
                                  { "d", TYPE(DATE), true } };
    CopyOptions options = text_options();
    options.columns = (const int[]){ 3, 1 };
    options.n_columns = 2;
    const char *text = "1970-01-02|x\n1970-01-03|\\N\n";
    check_copy_into(columns, 4, text, strlen(text), options, "-|x|-|1970-01-02;-|-|-|1970-01-03;");
    check_fails_into(columns, 4, "1970-01-02\n", 11, options, WEFT_BAD_COPY, "line 1: 1 fields where 2 columns are");
    options.columns = (const int[]){ 1, 0 };
    check_fails_into(columns, 4, "x|1\n", 4, options, WEFT_NOT_NULL_VIOLATION, "column \"d\" forbids null");
    options.columns = (const int[]){ 3, 3 };
    check_fails_into(columns, 4, "x|1\n", 4, options, WEFT_DUPLICATE_COLUMN, "named twice");
}

// ---- large files ----------------------------------------------------------------------------------------------------

// Rows 0 to N-1 with all that csv can do to them.
static void add_csv_row(Text *text, int row)
{
    static const char *const words[] = { "plain", "\"quoted\"", "\"com,ma\"", "\"new\nline\"", "\"\"\"\"", "", "\"\"",
                                         "a somewhat longer text that is no word at all", "\"end\n\"" };
    text_add(text, row % 3 ? "%d,%s%s" : "\"%d\",%s%s", row, words[row % COUNT_OF(words)], row % 5 ? "\n" : "\r\n");
}

static void add_expected_row(Text *text, int row)
{
    static const char *const words[] = { "plain", "quoted", "com,ma", "new\nline", "\"", "-", "",
                                         "a somewhat longer text that is no word at all", "end\n" };
    text_add(text, "%d|%s;", row, words[row % COUNT_OF(words)]);
}

TEST(copy_keeps_the_order_of_rows)
{
    enum { N = 60000 };
    Text text = { 0 }, rows = { 0 };
    for (int i = 0; i < N; i++) {
        add_csv_row(&text, i);
        add_expected_row(&rows, i);
    }
    const char *path = write_file("big.csv", text.bytes, text.length);
    const size_t sizes[] = { 0, 100, 1001, 4096, 65536 };
    for (int workers = 1; workers <= 4; workers += 3) {
        for (int i = 0; i < COUNT_OF(sizes); i++) {
            Fixture fixture = make_fixture(workers);
            open_store(&fixture, int_text, 2);
            store_set_chunk_rows(fixture.store, 10000);
            copy_set_block_bytes(sizes[i]);
            CHECK_OK(copy_file(&fixture, path, csv_options()), fixture.err);
            CHECK_INT(fixture.n_rows, N);
            CHECK(strcmp(table_text(&fixture), rows.bytes) == 0);
            close_fixture(&fixture);
        }
    }
    text_free(&text);
    text_free(&rows);
}

TEST(copy_first_error_of_many_workers)
{
    enum { N = 50000 };
    Text text = { 0 };
    for (int i = 1; i <= N; i++)
        text_add(&text, i > 20000 && i % 7 == 0 ? "%dx|word\n" : "%d|word\n", i);
    const char *path = write_file("bad.txt", text.bytes, text.length);
    for (int i = 0; i < 20; i++) {
        Fixture fixture = make_fixture(4);
        open_store(&fixture, int_text, 2);
        copy_set_block_bytes(1000);
        CHECK_STATUS(copy_file(&fixture, path, text_options()), WEFT_BAD_TEXT);
        CHECK_HAS(fixture.err.message, "line 20006, column number: ");
        close_fixture(&fixture);
    }
    text_free(&text);
}

TEST(copy_lines_longer_than_a_block)
{
    Text text = { 0 };
    for (int i = 0; i < 5; i++) {
        text_add(&text, "%d|", i);
        for (int k = 0; k < 30000 * i; k++)
            text_add_bytes(&text, "x", 1);
        text_add(&text, "\n");
    }
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    copy_set_block_bytes(500);
    CHECK_OK(copy_file(&fixture, write_file("long.txt", text.bytes, text.length), text_options()), fixture.err);
    CHECK_INT(fixture.n_rows, 5);
    CHECK_INT(strlen(table_text(&fixture)), text.length);
    close_fixture(&fixture);
    text_free(&text);
}

TEST(copy_refuses_endless_lines)
{
    enum { LENGTH = 130 << 20 };
    Fixture fixture = make_fixture(1);
    open_store(&fixture, int_text, 2);
    const char *path = test_path("endless.csv");
    File file;
    CHECK_OK(file_create(path, &file, &fixture.err), fixture.err);
    CHECK_OK(file_write(&file, "1,a\n2,\"", 7, &fixture.err), fixture.err);
    CHECK_OK(file_truncate(&file, LENGTH, &fixture.err), fixture.err);
    file_close(&file);
    CHECK_STATUS(copy_file(&fixture, path, csv_options()), WEFT_TOO_LONG);
    CHECK_HAS(fixture.err.message, "line 2: a line is longer than 64 MiB");
    close_fixture(&fixture);
    remove(path);
}

// ---- against a simple reader ----------------------------------------------------------------------------------------

// Two text columns, byte by byte and without any cleverness.  False: the file is bad.
static bool read_simply(const char *text, size_t length, const CopyOptions *options, Text *rows)
{
    bool is_inside = false, is_last = false;
    char raw[256], line_end = '\0';                         // of the first line: CR alone, or a new line
    for (size_t at = 0; at < length;) {
        size_t n = 0, n_fields = 1, starts[64] = { 0 };
        for (; at < length; at++) {                         // one row, as it stands in the file
            char byte = text[at];
            if (!options->csv && byte == '\\') {
                if (at + 1 == length)
                    return false;
                raw[n++] = byte;
                byte = text[++at];
            } else if (options->csv && is_inside && byte == options->escape && byte != options->quote &&
                       at + 1 < length && (text[at + 1] == options->quote || text[at + 1] == byte)) {
                raw[n++] = byte;
                byte = text[++at];
            } else if (options->csv && byte == options->quote) {
                is_inside = !is_inside;
            } else if ((byte == '\n' || byte == '\r') && !is_inside) {
                if (!line_end)
                    line_end = byte == '\r' && at + 1 < length && text[at + 1] == '\n' ? '\n' : byte;
                if (byte == line_end)
                    break;
                if (byte == '\n')
                    return false;                           // where the first line ended in CR
            } else if (byte == options->delimiter && !is_inside) {
                starts[n_fields++] = n + 1;
            }
            raw[n++] = byte;
        }
        bool has_newline = at++ < length;
        if (is_inside)
            return false;
        if (line_end != '\r' && n > 0 && raw[n - 1] == '\r')
            n--;
        if (is_last)
            return false;                                   // something behind the end marker
        if (!has_newline || at == length) {
            if (n == 0)
                break;                                      // an empty last line
        }
        if (!options->csv && n == 2 && raw[0] == '\\' && raw[1] == '.') {
            is_last = true;
            continue;
        }
        if (n_fields != 2)
            return false;
        starts[2] = n + 1;
        for (int field = 0; field < 2; field++) {
            const char *bytes = raw + starts[field];
            size_t field_length = starts[field + 1] - 1 - starts[field];
            size_t null_length = strlen(options->null_text);
            if (field_length == null_length && !memcmp(bytes, options->null_text, null_length)) {
                text_add(rows, "-");
            } else {
                CopySpace scratch = { 0 };
                FieldText clean = { bytes, field_length };
                CHECK(copy_clean_field(options, &clean, &scratch, NULL, NULL) == WEFT_OK);
                text_add_bytes(rows, clean.bytes, clean.length);
                copy_space_free(&scratch, NULL);
            }
            text_add(rows, field == 0 ? "|" : ";");
        }
    }
    return true;
}

TEST(copy_agrees_with_a_simple_reader)
{
    const ColumnDef columns[] = { { "a", TYPE(TEXT), false }, { "b", TYPE(TEXT), false } };
    u64 state = 12345;
    int n_good = 0;
    for (int round = 0; round < 3000; round++) {
        char text[120];
        CopyOptions options = round % 3 ? csv_options() : text_options();
        options.escape = round % 3 == 1 ? '\\' : '"';
        options.delimiter = '|';
        const char *alphabet = round % 3 ? "a|\"\\\n\r1" : "a|N.\\\n\r1";
        const char line_end = round % 5 ? '\n' : '\r';
        size_t length = 0, n_lines = (size_t)(round % 7);
        for (size_t line = 0; line < n_lines; line++) {     // random bytes, mostly put into the form of rows
            for (int field = 0; field < 2; field++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                int n_bytes = (int)(state >> 60) % 5;
                bool is_quoted = round % 3 && state >> 50 & 1;
                if (is_quoted)
                    text[length++] = '"';
                for (int i = 0; i < n_bytes; i++) {
                    char byte = alphabet[(state >> (8 + 5 * i)) % 7];
                    bool is_harmless = byte == 'a' || byte == '1' || (is_quoted && byte != '"' && byte != '\\');
                    if (is_harmless || (state >> 40 & 3) == 0)
                        text[length++] = byte;
                }
                if (is_quoted)
                    text[length++] = '"';
                text[length++] = field == 0 ? '|' : line_end;
            }
        }
        if (state >> 33 & 1 && length > 0)
            length--;                                       // no new line at the end
        const char *path = write_file("random.txt", text, length);
        Text rows = { 0 };
        text_add(&rows, "%s", "");
        bool is_good = read_simply(text, length, &options, &rows);
        n_good += is_good;
        Fixture fixture = make_fixture(1 + round % 3);
        open_store(&fixture, columns, 2);
        copy_set_block_bytes((size_t)(round % 50));
        weft_status status = copy_file(&fixture, path, options);
        if (is_good != (status == WEFT_OK) || (is_good && strcmp(table_text(&fixture), rows.bytes) != 0))
            CHECK_FAIL("round %d: <<%.*s>> gives %s %s, should give %s", round, (int)length, text,
                       status ? fixture.err.message : "", table_text(&fixture), is_good ? rows.bytes : "an error");
        close_fixture(&fixture);
        text_free(&rows);
    }
    CHECK(n_good > 1000 && n_good < 2900);                  // both kinds were tried
}

// ---- pipes ----------------------------------------------------------------------------------------------------------

typedef struct Writer { const char *path; const Text *text; bool stays_open; _Atomic bool may_go; } Writer;

static void *write_pipe(void *context)
{
    Writer *writer = context;
    int fd = open(writer->path, O_WRONLY);
    for (size_t at = 0; at < writer->text->length;) {       // in small pieces, so that reads come back short
        size_t piece = MIN_OF(writer->text->length - at, 7777);
        ssize_t n = write(fd, writer->text->bytes + at, piece);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    while (writer->stays_open && !writer->may_go)
        usleep(1000);
    close(fd);
    return NULL;
}

TEST(copy_from_a_pipe)
{
    enum { N = 40000 };
    Text text = { 0 }, rows = { 0 };
    for (int i = 0; i < N; i++) {
        add_csv_row(&text, i);
        add_expected_row(&rows, i);
    }
    const char *path = test_path("pipe");
    CHECK(mkfifo(path, 0600) == 0);
    Writer writer = { .path = path, .text = &text };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_pipe, &writer) == 0);
    Fixture fixture = make_fixture(3);
    open_store(&fixture, int_text, 2);
    copy_set_block_bytes(5000);
    weft_status status = copy_file(&fixture, path, csv_options());
    pthread_join(thread, NULL);
    CHECK_OK(status, fixture.err);
    CHECK(strcmp(table_text(&fixture), rows.bytes) == 0);
    close_fixture(&fixture);
    remove(path);
    text_free(&text);
    text_free(&rows);
}

// ---- progress and cancel --------------------------------------------------------------------------------------------

TEST(copy_progress_and_cancel)
{
    _Atomic int progress = -1;
    _Atomic bool cancel = false;
    CopyOptions options = text_options();
    const char *path = write_file("in.txt", "1|a\n2|b\n", 8);
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    CHECK_OK(copy_from_file(fixture.store, fixture.pool, &fixture.budget, "t", path, &options, &progress, &cancel,
                            &fixture.figures, &fixture.err),
             fixture.err);
    CHECK_INT(progress, 1000);
    cancel = true;
    CHECK_STATUS(copy_from_file(fixture.store, fixture.pool, &fixture.budget, "t", path, &options, &progress, &cancel,
                                &fixture.figures, &fixture.err),
                 WEFT_QUERY_CANCELED);
    CHECK_STR(table_text(&fixture), "1|a;2|b;");
    close_fixture(&fixture);
}

static void *cancel_later(void *context)
{
    usleep(50000);
    *(_Atomic bool *)context = true;
    return NULL;
}

// Nothing more comes, and nobody closes the pipe.
TEST(copy_cancel_while_waiting_for_a_pipe)
{
    _Atomic bool cancel = false;
    Text text = { 0 };
    text_add(&text, "1|a\n");
    CopyOptions options = text_options();
    const char *path = test_path("slow-pipe");
    CHECK(mkfifo(path, 0600) == 0);
    Writer writer = { .path = path, .text = &text, .stays_open = true };
    pthread_t writing, canceling;
    CHECK(pthread_create(&writing, NULL, write_pipe, &writer) == 0);
    CHECK(pthread_create(&canceling, NULL, cancel_later, &cancel) == 0);
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    weft_status status = copy_from_file(fixture.store, fixture.pool, &fixture.budget, "t", path, &options, NULL,
                                        &cancel, &fixture.figures, &fixture.err);
    writer.may_go = true;
    pthread_join(writing, NULL);
    pthread_join(canceling, NULL);
    CHECK_STATUS(status, WEFT_QUERY_CANCELED);
    CHECK_STR(table_text(&fixture), "");
    close_fixture(&fixture);
    remove(path);
    text_free(&text);
}

// ---- when something is missing --------------------------------------------------------------------------------------

TEST(copy_within_the_memory_limit)
{
    Fixture fixture = make_fixture(2);
    open_store(&fixture, int_text, 2);
    i64 used = fixture.budget.used;
    fixture.budget.limit = used + 1000;
    CHECK_STATUS(copy_text(&fixture, "1|a\n", text_options()), WEFT_OUT_OF_MEMORY);
    fixture.budget.limit = 0;
    CHECK_OK(copy_text(&fixture, "1|a\n", text_options()), fixture.err);
    CHECK_STR(table_text(&fixture), "1|a;");
    close_fixture(&fixture);
}

// Every file call and every allocation fails once: the copy fails, says so, and leaves nothing behind.
TEST(copy_survives_every_fault)
{
    Text text = { 0 };
    for (int i = 0; i < 300; i++)
        text_add(&text, "%d|word %d\n", i, i % 10);
    const char *path = write_file("fault.txt", text.bytes, text.length);
    const FaultKind kinds[] = { FAULT_FILE, FAULT_MEMORY };
    for (int kind = 0; kind < COUNT_OF(kinds); kind++) {
        weft_status status = WEFT_IO_ERROR;
        for (int nth = 1; status; nth++) {
            Fixture fixture = make_fixture(1 + nth % 2);
            open_store(&fixture, int_text, 2);
            copy_set_block_bytes(1000);
            fault_set(kinds[kind], nth, false);
            status = copy_file(&fixture, path, text_options());
            fault_set(kinds[kind], 0, false);
            CHECK(nth < 1000);
            CHECK(!status || status == (kinds[kind] == FAULT_FILE ? WEFT_IO_ERROR : WEFT_OUT_OF_MEMORY));
            CHECK_INT(fixture.n_rows, status ? 0 : 300);
            CHECK_INT(strlen(table_text(&fixture)) > 0, !status);
            close_fixture(&fixture);
        }
    }
    text_free(&text);
}

TEST(copy_keeps_to_the_length_of_a_column)
{
    const ColumnDef three[] = { { "word", type_text(3), false } };
    Fixture fixture = make_fixture(2);
    open_store(&fixture, three, 1);
    CHECK_OK(copy_text(&fixture, "abc\n\xC3\xA4\xC3\xB6\xC3\xBC\nab    \nabc  \n\n", text_options()), fixture.err);
    CHECK_STR(table_text(&fixture), "abc;\xC3\xA4\xC3\xB6\xC3\xBC;ab ;abc;;");
    CHECK_STATUS(copy_text(&fixture, "abc\nabcd\n", text_options()), WEFT_TEXT_TOO_LONG);
    CHECK(strstr(fixture.err.message, "line 2"));
    CHECK_STATUS(copy_text(&fixture, "ab  c\n", text_options()), WEFT_TEXT_TOO_LONG);
    close_fixture(&fixture);
}

// ---- the fast ways against the careful one --------------------------------------------------------------------------

static const ColumnDef all_kinds[] = {
    { "moment", { .kind = TYPE_TIMESTAMP }, false },    { "number", { .kind = TYPE_INTEGER }, false },
    { "day", { .kind = TYPE_DATE }, false },            { "word", { .kind = TYPE_TEXT }, false },
    { "large", { .kind = TYPE_BIGINT }, false },        { "small", { .kind = TYPE_SMALLINT }, false },
    { "price", { TYPE_DECIMAL, 12, 2 }, false },        { "is_so", { .kind = TYPE_BOOLEAN }, false },
    { "size", { .kind = TYPE_DOUBLE }, false },         { "last", { .kind = TYPE_TEXT }, false },
};
enum { N_KINDS = COUNT_OF(all_kinds), N_GOOD = 12, N_BAD = 8 };

// Of each column what is usual and what is at the edge of it; then what must be refused, or is far from usual.
static const char *const good_fields[N_KINDS][N_GOOD] = {
    { "2026-01-01 00:00:00", "2026-01-01 23:59:59", "2026-01-01T09:08:07", "2026-01-02 10:20:30",
      "2026-01-01 00:00:00.5", "2026-01-01 12:00:00.123456", "2026-01-01 12:00:00.000001", "0001-01-01 00:00:00",
      "9999-12-31 23:59:59.999999", "2024-02-29 19:09:59", "", "2026-01-01 01:01:01" },
    { "0", "7", "12", "123", "12345678", "99999999", "100000000", "2147483647", "-2147483648", "-1", "00000012", "" },
    { "2026-01-01", "2026-01-01", "2026-01-02", "2024-02-29", "1999-12-31", "0001-01-01", "9999-12-31", "1970-01-01",
      "2026-01-01", "2026-10-01", "", "2000-02-29" },
    { "a", "bc", "def", "12345678", "123456789", "1234567890abcdef", "1234567890abcdefg", "\xc3\xa4", "place 01",
      "place 02", "", "place 10" },
    { "1", "99999999", "123456789", "1234567890123456", "12345678901234567", "9223372036854775807",
      "-9223372036854775808", "-12345678", "-123456789", "0", "", "00000000000000001" },
    { "0", "1", "99", "32767", "-32768", "-1", "00001", "12345", "007", "-0", "", "10000" },
    { "0.00", "1.25", "-1.25", "12345678.90", "12345678.9", "9999999999.99", "5", "-5", ".5", "1.", "", "0.005" },
    { "t", "f", "1", "0", "true", "false", "yes", "no", "on", "off", "", "T" },
    { "0", "1.5", "-2.25", "123456789012345", "1e10", "0.1", "-0", ".5", "5.", "1234567.25", "", "3.14159265358979" },
    { "x", "yy", "12345678", "abcdefghijklmnop", "abcdefghijklmnopq", "\xe2\x82\xac", "z", "z", "z", "a b", "", "q" },
};
static const char *const bad_fields[N_KINDS][N_BAD] = {
    { "2026-01-01 24:00:00", "2026-01-01 23:59:60", "2026-02-30 00:00:00", "2026-01-01 24:00:01",
      "2026-01-01 00:00:00.", "2026-01-01 00:00:00.1234567", "2026-01-01 0:00:00", " 2026-01-01 00:00:00 " },
    { "2147483648", "-2147483649", "+5", " 5", "5 ", "1a", "12345:78", "-" },
    { "2026-02-29", "2026-13-01", "2026-00-01", "2026-01-32", "26-01-01", "2026/01/01", "0000-01-01", "2026-1-1" },
    { "\xff", "\xc3", "a\xe2\x82", "\\N", "NULL", "\x01", "abcdefgh\xff", "12345678901234567\x80" },
    { "9223372036854775808", "-9223372036854775809", "99999999999999999999", "1_000", "1e3", "+1", " 1", "1-" },
    { "32768", "-32769", "99999", "1.0", "+1", "12345678", "123456789", " 1" },
    { "10000000000", "9999999999.995", "1.2.3", "1,5", "1e2", "+1.25", "NaN", "-" },
    { "2", "tru", "F", "ON", " t", "maybe", "tt", "of" },
    { "1e400", "NaN", "inf", "1.2.3", "0x10", "1234567890123456", "-", "1e" },
    { "\xff", "\xc3", "a\xe2\x82", "\\N", "NULL", "\x01", "abcdefgh\xff", "12345678901234567\x80" },
};

static u32 draw(u32 *state, u32 n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

// Mostly one field again and again, as in real files, so that runs of usual ones are long.
static void add_random_field(Text *text, u32 *state, int column, u32 bad_in, bool may_quote)
{
    const u32 kind = draw(state, 4) ? draw(state, 3) : draw(state, N_GOOD);
    const bool is_bad = draw(state, 2000) < bad_in, is_quoted = may_quote && draw(state, 8) == 0;
    text_add(text, is_quoted ? "\"%s\"" : "%s",
             is_bad ? bad_fields[column][draw(state, N_BAD)] : good_fields[column][kind]);
}

static void make_random_rows(Text *text, u32 *state, char delimiter)
{
    const u32 n_rows = draw(state, 300), bad_in = draw(state, 3) ? 0 : 4;
    const bool may_quote = draw(state, 3) == 0 && delimiter == ',', has_returns = draw(state, 4) == 0;
    const u32 odd_rows = draw(state, 8) ? 0 : 3;
    text_clear(text);
    text_add(text, "%s", "");
    for (u32 row = 0; row < n_rows; row++) {
        const bool is_odd = draw(state, 300) < odd_rows;
        for (int column = 0; column < N_KINDS + is_odd; column++) {
            if (column > 0)
                text_add(text, "%c", delimiter);
            add_random_field(text, state, column % N_KINDS, bad_in, may_quote);
        }
        text_add(text, has_returns || is_odd ? "\r\n" : "\n");
    }
    if (n_rows > 0 && draw(state, 2))
        text->bytes[--text->length] = '\0';                 // the last line does not end
}

static void ignore_commit(void *context, u64 n_durable)
{
}

static bool nobody_waits(void *context)
{
    return false;
}

// The same through a pipe that holds all of it, so that there is one commit.
static weft_status copy_pipe(Fixture *fixture, const char *path, const Text *text, CopyOptions options)
{
    _Atomic bool cancel = false;
    const LiveCommits commits = { .commit_ms = 60000, .cancel = &cancel, .committed = ignore_commit,
                                  .is_awaited = nobody_waits };
    int fds[2];
    CHECK(pipe(fds) == 0 && fcntl(fds[1], F_SETPIPE_SZ, 1 << 20) > 0);
    CHECK(write(fds[1], text->bytes, text->length) == (ssize_t)text->length);
    close(fds[1]);
    error_clear(&fixture->err);
    options.is_std = true;
    options.fd = fds[0];
    const weft_status status = copy_live(fixture->store, fixture->pool, &fixture->budget, "t", path, &options, &commits,
                                         &fixture->figures, &fixture->err);
    close(fds[0]);
    return status;
}

// That were merged of those of the pieces.
static void check_sketches(Fixture *fixture)
{
    const Table *table = store_table(fixture->store, "t");
    for (int c = 0; c < table->n_chunks; c++) {
        for (int column = 0; column < table->n_columns; column++) {
            const Chunk *chunk = table->chunks[c];
            const SavedSketch *saved = &chunk_stored(chunk)->sketches[column];
            u8 bytes[SKETCH_BYTES_MAX];
            Sketch sketch;
            sketch_column(table->columns[column].type, &chunk->columns[column], chunk->n_rows, &sketch);
            CHECK_INT(saved->length, sketch_save(&sketch, bytes));
            CHECK(memcmp(saved->bytes, bytes, saved->length) == 0);
        }
    }
    table_release(table);
}

typedef enum CopyWay { WAY_QUICK, WAY_CAREFUL, WAY_PIPE } CopyWay;

// What the table holds then, or what was said; to be freed.
static char *copied_one_way(const char *path, const Text *rows, CopyOptions options, CopyWay way, size_t bytes)
{
    Fixture fixture = make_fixture(1);
    open_store(&fixture, all_kinds, N_KINDS);
    copy_set_block_bytes(bytes);
    copy_set_careful(way == WAY_CAREFUL);
    const weft_status status = way == WAY_PIPE ? copy_pipe(&fixture, path, rows, options)
                                               : copy_file(&fixture, path, options);
    if (way == WAY_PIPE)
        check_sketches(&fixture);
    Text text = { 0 };
    text_add(&text, "%d %s %llu %s\n%s", (int)status, fixture.err.message,
             (unsigned long long)fixture.figures.n_rejected, fixture.figures.first_rejected, table_text(&fixture));
    close_fixture(&fixture);
    return text.bytes;
}

TEST(copy_fast_ways_agree_with_the_careful_one)
{
    u32 state = 12345, n_right = 0, n_refused = 0;
    Text text = { 0 };
    for (int round = 0; round < 300; round++) {
        CopyOptions options = round % 3 ? csv_options() : text_options();
        options.ignores_errors = round % 5 == 0;
        make_random_rows(&text, &state, options.delimiter);
        const char *path = write_file("random.txt", text.bytes, text.length);
        const size_t bytes = draw(&state, 2) ? 0 : 500 + draw(&state, 5000);
        char *quick = copied_one_way(path, &text, options, WAY_QUICK, bytes);
        char *careful = copied_one_way(path, &text, options, WAY_CAREFUL, bytes);
        char *live = copied_one_way(path, &text, options, WAY_PIPE, bytes);
        CHECK_STR(quick, careful);
        CHECK_STR(live, careful);
        n_right += quick[0] == '0';
        n_refused += quick[0] != '0';
        free(quick), free(careful), free(live);
    }
    CHECK(n_right > 100 && n_refused > 30);                 // both were seen
    text_free(&text);
}

// Eight bytes of which a wrong one lies in each place, and every byte that may stand there.
TEST(copy_fast_ways_see_every_wrong_byte)
{
    static const char *const rows[] = { "2026-01-01 14:34:56", "12345678", "2026-01-01" };
    static const int columns[] = { 0, 1, 2 };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        const ColumnDef pair[] = { all_kinds[columns[i]], { "word", { .kind = TYPE_TEXT }, false } };
        const size_t length = strlen(rows[i]);
        Text text = { 0 };
        for (size_t at = 0; at < length; at++) {
            for (int byte = 1; byte < 256; byte++) {
                if (byte == '\n' || byte == ',' || byte == '"')
                    continue;
                text_clear(&text);
                text_add(&text, "%s,a\n%s,b\n%s,c\n", rows[i], rows[i], rows[i]);
                text.bytes[length + 3 + at] = (char)byte;
                const char *path = write_file("byte.txt", text.bytes, text.length);
                char *said[2];
                for (int way = 0; way < 2; way++) {
                    Fixture fixture = make_fixture(1);
                    open_store(&fixture, pair, 2);
                    copy_set_careful(way == 1);
                    Text seen = { 0 };
                    const weft_status status = copy_file(&fixture, path, csv_options());
                    text_add(&seen, "%d %s\n%s", (int)status, fixture.err.message, table_text(&fixture));
                    close_fixture(&fixture);
                    said[way] = seen.bytes;
                }
                CHECK_STR(said[0], said[1]);
                free(said[0]), free(said[1]);
            }
        }
        text_free(&text);
    }
}

// ---- several pipes --------------------------------------------------------------------------------------------------

enum { N_PIPES = 6, PIPE_ROWS = 3000, BAD_ROW = 2000 };

typedef struct PipeCopy {
    Fixture    *fixture;
    pthread_t   reader, writer;
    int         number, fds[2], bad_row;                    // -1: no row is bad
    u64         n_rows, durable, table_id;
    weft_status status;
    Error       err;
} PipeCopy;

static void *write_rows_slowly(void *context)
{
    const PipeCopy *pipe = context;
    u32 state = (u32)pipe->number;
    char row[64];
    for (int r = 0; r < PIPE_ROWS; r++) {
        const int n = r == pipe->bad_row ? snprintf(row, sizeof row, "%d,bad,x\n", pipe->number)
                                         : snprintf(row, sizeof row, "%d,%d,word %d\n", pipe->number, r, r % 700);
        if (write(pipe->fds[1], row, (size_t)n) != n)
            break;
        if (draw(&state, 100) == 0)
            usleep(1000);
    }
    close(pipe->fds[1]);
    return NULL;
}

static void note_durable(void *context, u64 n_durable)
{
    PipeCopy *pipe = context;
    pipe->durable = n_durable;                              // TRUNCATE may have made it smaller
}

static void *copy_one_pipe(void *context)
{
    PipeCopy *pipe = context;
    Fixture *fixture = pipe->fixture;
    _Atomic bool cancel = false;
    CopyFigures figures;
    CopyOptions options = csv_options();
    const LiveCommits commits = { .commit_ms = 1, .cancel = &cancel, .committed = note_durable,
                                  .is_awaited = nobody_waits, .context = pipe };
    Pool *pool = pool_new(1);
    options.is_std = true;
    options.fd = pipe->fds[0];
    options.table_id = pipe->table_id;
    pipe->status = copy_live(fixture->store, pool, &fixture->budget, "t", "pipe", &options, &commits, &figures,
                             &pipe->err);
    pipe->n_rows = figures.n_rows;
    pool_free(pool);
    close(pipe->fds[0]);
    return NULL;
}

static void start_pipes(Fixture *fixture, PipeCopy *pipes, int bad_pipe)
{
    for (int p = 0; p < N_PIPES; p++) {
        pipes[p] = (PipeCopy){ .fixture = fixture, .number = p, .bad_row = p == bad_pipe ? BAD_ROW : -1 };
        CHECK(pipe(pipes[p].fds) == 0);
        CHECK(pthread_create(&pipes[p].reader, NULL, copy_one_pipe, &pipes[p]) == 0);
        CHECK(pthread_create(&pipes[p].writer, NULL, write_rows_slowly, &pipes[p]) == 0);
    }
}

static void end_pipes(PipeCopy *pipes)
{
    for (int p = 0; p < N_PIPES; p++) {
        pthread_join(pipes[p].writer, NULL);
        pthread_join(pipes[p].reader, NULL);
    }
}

// Of each pipe the rows are there in their order, from the first that is there on, with their words.
static void check_rows_of_pipes(Fixture *fixture, u64 first[N_PIPES], u64 next[N_PIPES])
{
    for (int p = 0; p < N_PIPES; p++)
        first[p] = next[p] = UINT64_MAX;
    for (char *row = table_text(fixture); *row; row = strchr(row, ';') + 1) {
        int pipe, number, word;
        CHECK(sscanf(row, "%d|%d|word %d;", &pipe, &number, &word) == 3);
        CHECK(pipe >= 0 && pipe < N_PIPES && word == number % 700);
        if (first[pipe] == UINT64_MAX)
            first[pipe] = next[pipe] = (u64)number;
        CHECK_INT(number, (i64)next[pipe]);
        next[pipe]++;
    }
}

static const ColumnDef pipe_columns[] = { { "pipe", { .kind = TYPE_INTEGER }, false },
                                          { "number", { .kind = TYPE_INTEGER }, false },
                                          { "word", { .kind = TYPE_TEXT }, false } };

TEST(pipes_commit_together_and_fail_alone)
{
    Fixture fixture = make_fixture(1);
    PipeCopy pipes[N_PIPES];
    u64 first[N_PIPES], next[N_PIPES];
    open_store(&fixture, pipe_columns, 3);
    signal(SIGPIPE, SIG_IGN);                               // the bad one is closed
    start_pipes(&fixture, pipes, 2);
    end_pipes(pipes);
    check_rows_of_pipes(&fixture, first, next);
    check_sketches(&fixture);
    for (int p = 0; p < N_PIPES; p++) {
        CHECK_STATUS(pipes[p].status, p == 2 ? WEFT_BAD_TEXT : WEFT_OK);
        CHECK(pipes[p].n_rows == 0 || first[p] == 0);
        CHECK_INT(pipes[p].n_rows ? next[p] : 0, pipes[p].n_rows);
        CHECK(p == 2 ? pipes[p].n_rows <= BAD_ROW : pipes[p].n_rows == PIPE_ROWS);
    }
    close_fixture(&fixture);
}

// TRUNCATE gives the table other dictionaries, so rows that were parsed before it are parsed again.
TEST(pipes_go_on_while_the_table_is_truncated)
{
    Fixture fixture = make_fixture(1);
    PipeCopy pipes[N_PIPES];
    u64 first[N_PIPES], next[N_PIPES];
    open_store(&fixture, pipe_columns, 3);
    start_pipes(&fixture, pipes, -1);
    for (int i = 0; i < 10; i++) {
        usleep(3000);
        CHECK_OK(store_truncate_table(fixture.store, "t", NULL, &fixture.err), fixture.err);
    }
    end_pipes(pipes);
    check_rows_of_pipes(&fixture, first, next);
    check_sketches(&fixture);
    for (int p = 0; p < N_PIPES; p++) {
        CHECK(pipes[p].status == WEFT_OK && pipes[p].n_rows == PIPE_ROWS);
        CHECK(first[p] == UINT64_MAX || next[p] == PIPE_ROWS);
    }
    close_fixture(&fixture);
}

static void write_row(const PipeCopy *pipe, const char *row)
{
    CHECK(write(pipe->fds[1], row, strlen(row)) == (ssize_t)strlen(row));
}

static void wait_for_rows(Fixture *fixture, u64 n_rows)
{
    for (bool are_there = false; !are_there; usleep(1000)) {
        const Table *table = store_table(fixture->store, "t");
        are_there = table->n_rows == n_rows;
        table_release(table);
    }
}

TEST(a_pipe_goes_on_behind_truncate_and_not_into_another_table)
{
    for (int is_dropped = 0; is_dropped <= 1; is_dropped++) {
        Fixture fixture = make_fixture(1);
        PipeCopy only = { .fixture = &fixture };
        open_store(&fixture, pipe_columns, 3);
        const Table *table = store_table(fixture.store, "t");
        only.table_id = table->id;
        table_release(table);
        CHECK(pipe(only.fds) == 0);
        CHECK(pthread_create(&only.reader, NULL, copy_one_pipe, &only) == 0);
        write_row(&only, "1,1,before\n");
        wait_for_rows(&fixture, 1);
        if (is_dropped) {
            CHECK_OK(store_drop_table(fixture.store, "t", &fixture.err), fixture.err);
            CHECK_OK(store_create_table(fixture.store, "t", pipe_columns, 3, &fixture.err), fixture.err);
        } else {
            CHECK_OK(store_truncate_table(fixture.store, "t", NULL, &fixture.err), fixture.err);
        }
        write_row(&only, "1,2,behind\n");
        close(only.fds[1]);
        pthread_join(only.reader, NULL);
        CHECK_STATUS(only.status, is_dropped ? WEFT_UNDEFINED_TABLE : WEFT_OK);
        CHECK_STR(only.err.message,
                  is_dropped ? "table \"t\" was dropped or renamed while rows were copied into it" : "");
        CHECK(!is_dropped || strstr(only.err.hint, "the last durable row of the stream is row 1."));
        CHECK_STR(table_text(&fixture), is_dropped ? "" : "1|2|behind;");
        close_fixture(&fixture);
    }
}

TEST(a_pipe_may_have_lines_that_end_in_returns)
{
    static const char *const texts[] = { "a,b\r1,one\r2,\"t\rwo\"\r", "a,b\r1,one\r2,\"t\rwo\"",
                                         "a,b\r1,one\r2,two\n" };
    CopyOptions options = csv_options();
    options.header = true;
    for (int i = 0; i < COUNT_OF(texts); i++) {
        Fixture fixture = make_fixture(1);
        Text text = { 0 };
        text_add(&text, "%s", texts[i]);
        open_store(&fixture, int_text, 2);
        CHECK_STATUS(copy_pipe(&fixture, "pipe", &text, options), i < 2 ? WEFT_OK : WEFT_BAD_COPY);
        CHECK_STR(table_text(&fixture), i < 2 ? "1|one;2|t\rwo;" : "1|one;");
        CHECK(i < 2 || strstr(fixture.err.hint, "carriage return alone"));
        close_fixture(&fixture);
        text_free(&text);
    }
}

// As those of an append that fails.
TEST(texts_of_a_pipe_that_fails_do_not_stay)
{
    enum { N = 10000 };
    Fixture fixture = make_fixture(1);
    Text text = { 0 };
    for (int i = 0; i < N; i++)
        text_add(&text, "1,%d,word %d\n", i, i);
    text_add(&text, "1,bad,x\n");
    open_store(&fixture, pipe_columns, 3);
    CHECK_STATUS(copy_pipe(&fixture, "pipe", &text, csv_options()), WEFT_BAD_TEXT);
    const Table *table = store_table(fixture.store, "t");
    CHECK_INT(dict_count(table->columns[2].dict), 0);
    table_release(table);
    close_fixture(&fixture);
    text_free(&text);
}

static void parse_row(Fixture *fixture, int number, LiveRows *rows)
{
    char text[64 + BLOCK_PADDING];
    CopyMemory memory = { 0 };
    const CopyOptions options = csv_options();
    const int length = snprintf(text, 64, "%d,%d,word %d", number, number, number);
    const CopyLines lines = { .bytes = text, .length = (size_t)length, .memory = &memory, .is_end = true };
    CHECK_OK(store_peek_table(fixture->store, "t", &rows->made_for, &fixture->err), fixture->err);
    CHECK_OK(copy_lines_to_pieces(rows->made_for, fixture->pool, &fixture->budget, "pipe", &options, &lines,
                                  &rows->pieces, &fixture->figures, &fixture->err), fixture->err);
    copy_space_free(&memory.ends, &fixture->budget);
    copy_space_free(&memory.row_ends, &fixture->budget);
    copy_space_free(&memory.values, &fixture->budget);
}

enum { N_TOGETHER = 3 };

typedef struct RowCommit {
    Fixture    *fixture;
    pthread_t   thread;
    LiveRows    rows;
    weft_status status;
} RowCommit;

static void *commit_row(void *context)
{
    RowCommit *commit = context;
    Error err = { 0 };
    commit->status = live_rows_commit(commit->fixture->store, "t", &commit->rows, 1000, &err);
    return NULL;
}

static int count_waiting(Store *store, const TableEntry *entry)
{
    int n = 0;
    pthread_mutex_lock(&store->lock);
    for (const LiveRows *rows = entry->live_rows; rows; rows = rows->next)
        n++;
    pthread_mutex_unlock(&store->lock);
    return n;
}

// They wait in their order for a commit that seems to run.  Then the NTH call for memory fails, or all from it on; the
// number of calls.
static i64 commit_together(Fixture *fixture, RowCommit *commits, u32 alone, i64 nth, bool and_all_after)
{
    Store *store = fixture->store;
    TableEntry *entry = store_take_entry(store, "t");
    pthread_mutex_lock(&store->lock);
    entry->is_committing_live = true;
    pthread_mutex_unlock(&store->lock);
    for (int i = 0; i < N_TOGETHER; i++) {
        commits[i] = (RowCommit){ .fixture = fixture, .rows = { .is_alone = alone >> i & 1 } };
        parse_row(fixture, i + 1, &commits[i].rows);
        CHECK(pthread_create(&commits[i].thread, NULL, commit_row, &commits[i]) == 0);
        while (count_waiting(store, entry) <= i)
            usleep(100);
    }
    fault_set(FAULT_MEMORY, nth, and_all_after);
    pthread_mutex_lock(&store->lock);
    entry->is_committing_live = false;
    pthread_cond_broadcast(&store->append_ended);
    pthread_mutex_unlock(&store->lock);
    for (int i = 0; i < N_TOGETHER; i++) {
        pthread_join(commits[i].thread, NULL);
        live_rows_release(&commits[i].rows);
    }
    const i64 n_calls = fault_count(FAULT_MEMORY);
    fault_set(FAULT_MEMORY, 0, false);
    store_drop_user(store, entry);
    return n_calls;
}

TEST(pipes_whose_commit_finds_no_memory_commit_alone)
{
    static const char first[] = "0|0|word 0;", all[] = "0|0|word 0;1|1|word 1;2|2|word 2;3|3|word 3;";
    int n_failed = 0;
    for (i64 nth = 1, n_calls = nth; n_calls >= nth; nth++) {
        Fixture fixture = make_fixture(1);
        RowCommit commits[N_TOGETHER], only = { .fixture = &fixture };
        open_store(&fixture, pipe_columns, 3);
        parse_row(&fixture, 0, &only.rows);                 // that later commits merge with
        commit_row(&only);
        live_rows_release(&only.rows);
        n_calls = commit_together(&fixture, commits, 0, nth, false);
        const bool has_failed = commits[0].rows.is_stale;
        for (int i = 0; i < N_TOGETHER; i++) {
            CHECK_STATUS(commits[i].status, WEFT_OK);
            CHECK(commits[i].rows.is_stale == has_failed && commits[i].rows.is_alone == has_failed);
            CHECK_INT(commits[i].rows.n_rows, !has_failed);
        }
        CHECK_STR(table_text(&fixture), has_failed ? first : all);
        if (has_failed) {
            n_failed++;
            commit_together(&fixture, commits, 7, 1, true);
            for (int i = 0; i < N_TOGETHER; i++)
                CHECK(commits[i].status == WEFT_OUT_OF_MEMORY && !commits[i].rows.is_stale);
            CHECK_STR(table_text(&fixture), first);
            commit_together(&fixture, commits, nth % 8, 0, false);
            CHECK_STR(table_text(&fixture), all);
        }
        close_fixture(&fixture);
    }
    CHECK(n_failed > 0);
}

TEST(rows_that_were_parsed_before_a_truncate_are_stale)
{
    Fixture fixture = make_fixture(1);
    char text[64 + BLOCK_PADDING] = "1,1,word 1\n1,2,word 2";
    CopyMemory memory = { 0 };
    const CopyLines lines = { .bytes = text, .length = strlen(text), .memory = &memory, .is_end = true };
    const CopyOptions options = csv_options();
    open_store(&fixture, pipe_columns, 3);
    for (int truncates = 1; truncates >= 0; truncates--) {
        LiveRows rows = { 0 };
        CHECK_OK(store_peek_table(fixture.store, "t", &rows.made_for, &fixture.err), fixture.err);
        CHECK_OK(copy_lines_to_pieces(rows.made_for, fixture.pool, &fixture.budget, "pipe", &options, &lines,
                                      &rows.pieces, &fixture.figures, &fixture.err), fixture.err);
        if (truncates)
            CHECK_OK(store_truncate_table(fixture.store, "t", NULL, &fixture.err), fixture.err);
        CHECK_OK(live_rows_commit(fixture.store, "t", &rows, 1000, &fixture.err), fixture.err);
        CHECK(rows.is_stale == truncates && rows.n_rows == (truncates ? 0 : 2));
        CHECK_STR(table_text(&fixture), truncates ? "" : "1|1|word 1;1|2|word 2;");
        live_rows_release(&rows);
    }
    copy_space_free(&memory.ends, &fixture.budget);
    copy_space_free(&memory.row_ends, &fixture.budget);
    copy_space_free(&memory.values, &fixture.budget);
    close_fixture(&fixture);
}

// With new lines that end no row.
enum { LONG_TEXT = 9 << 20 };

static void *write_long_line(void *context)
{
    const PipeCopy *pipe = context;
    char *row = malloc(LONG_TEXT + 64);
    size_t n = (size_t)sprintf(row, "1,1,\"");
    for (int i = 0; i < LONG_TEXT; i++)
        row[n++] = i % 100 == 99 ? '\n' : 'a';
    n += (size_t)sprintf(row + n, "\"\n2,2,b\n");
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(pipe->fds[1], row + done, n - done);
        CHECK(written > 0);
        done += (size_t)written;
    }
    free(row);
    close(pipe->fds[1]);
    return NULL;
}

TEST(a_line_may_be_longer_than_what_a_pipe_gathers)
{
    Fixture fixture = make_fixture(1);
    PipeCopy only = { .fixture = &fixture, .bad_row = -1 };
    open_store(&fixture, pipe_columns, 3);
    CHECK(pipe(only.fds) == 0);
    CHECK(pthread_create(&only.writer, NULL, write_long_line, &only) == 0);
    copy_one_pipe(&only);
    pthread_join(only.writer, NULL);
    CHECK(only.status == WEFT_OK && only.n_rows == 2);
    CHECK_INT(strlen(table_text(&fixture)), LONG_TEXT + strlen("1|1|;2|2|b;"));
    close_fixture(&fixture);
}
