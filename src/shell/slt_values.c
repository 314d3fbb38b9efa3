// slt_values.c - the values of a query as a test file writes them, and whether they are the expected ones.
//
// Three forms are understood: one value per line (as SQLite's own test files have it), one row per line with blanks or
// tabs between the values, and "30 values hashing to 3c13dee48d9356ae19af2515e05e6b54".  Which of the first two it is
// follows from the number of lines, so a file needs no switch.

#include <math.h>
#include <md5.h>
#include <stdlib.h>
#include <string.h>

#include "shell/slt.h"

#define SHOWN_LINES 40
#define INT64_MAX_AS_LONG 9223372036854775807LL

static void add_real(const char *text, Buffer *value)
{
    char fixed[400];                                       // the largest double has 309 digits
    double number = strtod(text, NULL);
    snprintf(fixed, sizeof fixed, "%.3f", number);
    buffer_puts(value, isfinite(number) ? fixed : text);
}

// Control characters would break the file's lines; sqllogictest writes them as @.
static void add_text(const char *text, Buffer *value)
{
    if (!*text)
        buffer_puts(value, "(empty)");
    for (; *text; text++)
        buffer_add(value, (unsigned char)*text < ' ' || *text == 0x7f ? "@" : text, 1);
}

// As C reads a whole number: what is behind the digits is dropped, and what has none is 0.  So does the standard
// runner.
static void add_integer(const weft_result *result, int column, size_t row, const char *text, Buffer *value)
{
    char number[32];
    weft_type type = weft_result_column(result, column)->type;
    bool is_float = type == WEFT_REAL || type == WEFT_DOUBLE;
    double real = is_float ? weft_result_column(result, column)->f64[row] : 0;
    if (is_float && !(fabs(real) < 9.2e18))
        snprintf(number, sizeof number, "%lld", real > 0 ? INT64_MAX_AS_LONG : -INT64_MAX_AS_LONG - 1);
    else
        snprintf(number, sizeof number, "%lld", is_float ? (long long)real : strtoll(text, NULL, 10));
    buffer_puts(value, number);
}

// Of a decimal, which may have more digits than a 64-bit integer: what is before the point.
static void add_whole_part(const char *text, Buffer *value)
{
    size_t length = strcspn(text, ".");
    bool is_minus_zero = length == 2 && text[0] == '-' && text[1] == '0';
    buffer_add(value, text + is_minus_zero, length - is_minus_zero);
}

static bool is_made_integer(weft_type type)
{
    return type == WEFT_TEXT || type == WEFT_REAL || type == WEFT_DOUBLE;
}

static bool is_decimal(weft_type type)
{
    return type == WEFT_DECIMAL || type == WEFT_NUMERIC;
}

static char *format_value(const weft_result *result, int column, size_t row, char type)
{
    Buffer raw = { 0 }, value = { 0 };
    bool is_boolean = weft_result_column(result, column)->type == WEFT_BOOLEAN;
    result_text(result, column, row, &raw);
    if (result_is_null(result, column, row))
        buffer_puts(&value, "NULL");
    else if (type == 'R')
        add_real(raw.bytes, &value);
    else if (type == 'I' && is_boolean)
        buffer_puts(&value, *raw.bytes == 't' ? "1" : "0");
    else if (type == 'I' && is_made_integer(weft_result_column(result, column)->type))
        add_integer(result, column, row, raw.bytes, &value);
    else if (type == 'I' && is_decimal(weft_result_column(result, column)->type))
        add_whole_part(raw.bytes, &value);
    else
        add_text(raw.bytes, &value);
    buffer_free(&raw);
    return value.bytes;
}

// ---- sorting -----------------------------------------------------------------------------------------------------

static int sort_columns;                                   // for qsort, which takes no context; one thread sorts

static int compare_rows(const void *a, const void *b)
{
    char *const *row_a = a, *const *row_b = b;
    for (int i = 0; i < sort_columns; i++) {
        int order = strcmp(row_a[i], row_b[i]);
        if (order)
            return order;
    }
    return 0;
}

static void sort_values(SltValues *values, int columns)
{
    sort_columns = columns;
    if (values->n_values)
        qsort(values->values, (size_t)(values->n_values / columns), (size_t)columns * sizeof(char *), compare_rows);
}

// ---- getting them ------------------------------------------------------------------------------------------------

static void hash_values(SltValues *values)
{
    MD5_CTX state;
    MD5Init(&state);
    for (int i = 0; i < values->n_values; i++) {
        MD5Update(&state, (const uint8_t *)values->values[i], strlen(values->values[i]));
        MD5Update(&state, (const uint8_t *)"\n", 1);
    }
    MD5End(&state, values->hash);
}

void slt_values_get(const weft_result *result, const SltExpect *expect, SltValues *out)
{
    int n_columns = weft_result_columns(result), n_rows = (int)weft_result_rows(result), n = 0;
    *out = (SltValues){ .n_columns = n_columns, .n_rows = n_rows, .n_values = n_rows * n_columns };
    out->values = must_realloc(NULL, ((size_t)out->n_values + 1) * sizeof(char *));
    for (size_t row = 0; row < (size_t)n_rows; row++) {
        for (int c = 0; c < n_columns; c++)
            out->values[n++] = format_value(result, c, row, expect->types[c]);
    }
    if (expect->sort == SLT_ROWSORT)
        sort_values(out, n_columns);
    else if (expect->sort == SLT_VALUESORT)
        sort_values(out, 1);
    hash_values(out);
}

void slt_values_free(SltValues *values)
{
    for (int i = 0; i < values->n_values; i++)
        free(values->values[i]);
    free(values->values);
    *values = (SltValues){ 0 };
}

// ---- comparing them ----------------------------------------------------------------------------------------------

static bool is_hash(const SltExpect *expect, int *n_values, char hash[33])
{
    int end = 0;
    if (expect->n_lines != 1)
        return false;
    int found = sscanf(expect->lines[0], "%d values hashing to %32[0-9a-f]%n", n_values, hash, &end);
    return found == 2 && !expect->lines[0][end];
}

static bool is_row_per_line(const SltValues *values, const SltExpect *expect)
{
    return values->n_columns > 1 && expect->n_lines == values->n_rows && expect->sort != SLT_VALUESORT;
}

static char *join_row(char *const *row, int n_columns, const char *between)
{
    Buffer line = { 0 };
    for (int c = 0; c < n_columns; c++) {
        buffer_puts(&line, c ? between : "");
        buffer_puts(&line, row[c]);
    }
    return line.bytes;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Row per line.  With rowsort both sides are sorted as whole lines, so the file may list its rows in any order.
static bool rows_match(const SltValues *values, const SltExpect *expect, const char *between)
{
    size_t n_rows = (size_t)values->n_rows;
    char **got = must_realloc(NULL, n_rows * sizeof(char *)), **wanted = must_realloc(NULL, n_rows * sizeof(char *));
    bool is_same = true;
    for (size_t i = 0; i < n_rows; i++) {
        got[i] = join_row(values->values + i * (size_t)values->n_columns, values->n_columns, between);
        wanted[i] = expect->lines[i];
    }
    if (expect->sort == SLT_ROWSORT) {
        qsort(got, n_rows, sizeof(char *), compare_lines);
        qsort(wanted, n_rows, sizeof(char *), compare_lines);
    }
    for (size_t i = 0; i < n_rows; i++) {
        is_same &= !strcmp(got[i], wanted[i]);
        free(got[i]);
    }
    free(got);
    free(wanted);
    return is_same;
}

static bool lines_match(const SltValues *values, const SltExpect *expect)
{
    if (values->n_values != expect->n_lines)
        return false;
    for (int i = 0; i < values->n_values; i++) {
        if (strcmp(values->values[i], expect->lines[i]))
            return false;
    }
    return true;
}

bool slt_values_match(const SltValues *values, const SltExpect *expect)
{
    int n_values;
    char hash[33];
    if (is_hash(expect, &n_values, hash) && (values->n_values != 1 || strcmp(values->values[0], expect->lines[0])))
        return n_values == values->n_values && !strcmp(hash, values->hash);
    if (lines_match(values, expect))
        return true;
    return is_row_per_line(values, expect) && (rows_match(values, expect, " ") || rows_match(values, expect, "\t"));
}

void slt_values_print(const SltValues *values, const SltExpect *expect, FILE *out)
{
    int n_values, shown = 0;
    char hash[33];
    if (is_hash(expect, &n_values, hash)) {
        fprintf(out, "    %d values hashing to %s\n", values->n_values, values->hash);
        return;
    }
    for (int row = 0; row < values->n_rows && shown < SHOWN_LINES; row++, shown++) {
        char *line = join_row(values->values + (size_t)row * (size_t)values->n_columns, values->n_columns, " ");
        fprintf(out, "    %s\n", line);
        free(line);
    }
    if (shown < values->n_rows)
        fprintf(out, "    ... and %d more rows\n", values->n_rows - shown);
}
