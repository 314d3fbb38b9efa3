// data.c - random tables, small enough for thousands of queries and crooked enough to matter.
//
// A column is a spread over the numbers 0 .. n_distinct-1, told in its type, so columns of different tables meet often
// and joins find partners: few values with many duplicates, one value far more common than all others, values that
// need more bytes from chunk to chunk, rising keys (which the store can prove unique), shuffled unique keys, constants,
// values at the end of their type's range, all NULL.  A cell is drawn from (data set, table, column, row) alone.

#define _GNU_SOURCE
#include "random.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- numbers: splitmix64 (Steele, Lea, Flood 2014) ----------------------------------------------------------------

static uint64_t rng_next(Rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

Rng rng_from(uint64_t seed, uint64_t stream, uint64_t number)
{
    Rng rng = { seed };
    rng.state = rng_next(&rng) + stream;
    rng.state = rng_next(&rng) + number;
    rng_next(&rng);
    return rng;
}

int rng_below(Rng *rng, int n)
{
    return (int)((rng_next(rng) >> 33) % (uint64_t)n);
}

int rng_between(Rng *rng, int low, int high)
{
    return low + rng_below(rng, high - low + 1);
}

bool rng_chance(Rng *rng, int percent)
{
    return rng_below(rng, 100) < percent;
}

// ---- tables -------------------------------------------------------------------------------------------------------

static const char *const WORDS[] = {
    "", "a", "b", "ab", "ba", "aa", "abc", "A", "B", "aB", "a%b", "a_b", "it's", "\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC",
    " ", "a ", "null", "0", "1", "x,y", "say \"no\"", "a|b", "zz",
};

static const char *const TYPE_LETTER[] = { "s", "i", "l", "f", "m", "t", "d", "b" };
static const char *const WEFT_TYPE[] = {
    "smallint", "integer", "bigint", "double precision", "decimal(10,2)", "text", "date", "boolean" };
static const char *const SQLITE_TYPE[] = {
    "integer", "integer", "integer", "real", "integer", "text", "text", "integer" };

// Most columns start at or around zero, so that they meet; some are far away, at the end of their range, or wide.
static void draw_range(Rng *rng, RandomColumn *column)
{
    static const int64_t FAR_SMALLINT[] = { 32000, -32768 + 400 };
    static const int64_t FAR_INTEGER[] = { 100000, 2147483647 - 6000, -2147483647 };
    static const int64_t FAR_BIGINT[] = { INT64_C(5000000000), INT64_MAX - 6000, -INT64_MAX, 1 << 16 };
    static const int DATES[] = { 32142, 32142, 32142, 0, 24000 };             // 1992, 1904, 1969
    bool is_far = rng_chance(rng, 10), is_integer = column->type <= COLUMN_BIGINT;
    column->stride = 1;
    column->offset = rng_chance(rng, 25) ? -column->n_distinct / 2 : 0;
    if (is_integer && rng_chance(rng, 10))
        column->stride = column->type == COLUMN_SMALLINT ? 5 : rng_chance(rng, 50) ? 300 : 70000;
    else if (is_far && column->type == COLUMN_SMALLINT && column->n_distinct <= 300)
        column->offset = FAR_SMALLINT[rng_below(rng, COUNT_OF(FAR_SMALLINT))];
    else if (is_far && column->type == COLUMN_INTEGER)
        column->offset = FAR_INTEGER[rng_below(rng, COUNT_OF(FAR_INTEGER))];
    else if (is_far && column->type == COLUMN_BIGINT)
        column->offset = FAR_BIGINT[rng_below(rng, COUNT_OF(FAR_BIGINT))];
    if (column->type == COLUMN_DATE)
        column->offset = DATES[rng_below(rng, COUNT_OF(DATES))];
}

static void draw_column(Rng *rng, RandomColumn *column, int table, int number, int n_rows)
{
    static const int SIZES[] = { 1, 2, 3, 5, 10, 10, 30, 100, 300 };
    column->type = number < 2 ? COLUMN_INTEGER : (ColumnType)rng_below(rng, COLUMN_N);  // always something to join on
    snprintf(column->name, sizeof column->name, "%c_%s%d", 'a' + table, TYPE_LETTER[column->type], number);
    column->n_distinct = SIZES[rng_below(rng, COUNT_OF(SIZES))];
    column->spread = (Spread)rng_below(rng, SPREAD_UNIQUE);
    if (number == 0 && rng_chance(rng, 60) && n_rows > 0) {
        column->spread = rng_chance(rng, 50) ? SPREAD_RISING : SPREAD_UNIQUE;
        column->n_distinct = n_rows;
    }
    if (column->type == COLUMN_BOOLEAN)
        column->n_distinct = 2;
    draw_range(rng, column);
    static const int NULLS[] = { 0, 0, 0, 5, 20, 50, 100 };
    column->null_percent = NULLS[rng_below(rng, COUNT_OF(NULLS) - (rng_chance(rng, 80) ? 1 : 0))];
    if (column->spread >= SPREAD_RISING && rng_chance(rng, 80))
        column->null_percent = 0;
    column->is_not_null = column->null_percent == 0 && rng_chance(rng, 50);
}

static int draw_table_size(Rng *rng, int table)
{
    static const int SIZES[] = { 0, 1, 2, 10, 50, 100, 300 };
    if (table == 0)
        return rng_between(rng, 1500, 5000);                   // several chunks, when chunks are made small
    if (rng_chance(rng, 40))
        return SIZES[rng_below(rng, COUNT_OF(SIZES))];
    return rng_between(rng, 0, 300);
}

void data_draw(DataSet *data, uint64_t seed, uint64_t number)
{
    Rng rng = rng_from(seed, 1, number);
    *data = (DataSet){ .seed = seed, .number = number, .n_tables = rng_between(&rng, 2, MAX_TABLES) };
    for (int t = 0; t < data->n_tables; t++) {
        RandomTable *table = &data->tables[t];
        snprintf(table->name, sizeof table->name, "t%c", 'a' + t);
        table->n_rows = draw_table_size(&rng, t);
        table->n_columns = rng_between(&rng, 3, MAX_COLUMNS);
        for (int c = 0; c < table->n_columns; c++)
            draw_column(&rng, &table->columns[c], t, c, table->n_rows);
    }
}

// ---- cells --------------------------------------------------------------------------------------------------------

static void quote_sql(const char *word, char *text, size_t capacity)
{
    size_t n = 0;
    text[n++] = '\'';
    for (const char *c = word; *c && n + 3 < capacity; c++) {
        if (*c == '\'')
            text[n++] = '\'';
        text[n++] = *c;
    }
    text[n++] = '\'';
    text[n] = 0;
}

static void date_text(int64_t day, char *text, size_t capacity)
{
    static const int LENGTHS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year = 1904, month = 0;
    for (;;) {
        bool is_leap = year % 4 == 0;                             // true until 2100
        int length = LENGTHS[month] + (month == 1 && is_leap);
        if (day < length)
            break;
        day -= length;
        if (++month == 12) {
            month = 0;
            year++;
        }
    }
    snprintf(text, capacity, "%04d-%02d-%02d", year, month + 1, (int)day + 1);
}

static void text_word(int value, char *text, size_t capacity)
{
    if (value < COUNT_OF(WORDS))
        snprintf(text, capacity, "%s", WORDS[value]);
    else
        snprintf(text, capacity, "k%d", value);
}

// The value without quotes, as COPY reads it.
static void plain_text(const RandomColumn *column, int value, int dialect, char *text, size_t capacity)
{
    int64_t number = column->offset + value;
    switch (column->type) {
    case COLUMN_DOUBLE:
        snprintf(text, capacity, "%.2f", 0.25 * (double)number);
        break;
    case COLUMN_DECIMAL:
        number = number * 35;                                  // 0.35 apart
        if (dialect == IN_SQLITE)
            snprintf(text, capacity, "%" PRId64, number);
        else
            snprintf(text, capacity, "%s%" PRId64 ".%02d", number < 0 ? "-" : "", (number < 0 ? -number : number) / 100,
                     (int)((number < 0 ? -number : number) % 100));
        break;
    case COLUMN_TEXT:
        text_word(value, text, capacity);
        break;
    case COLUMN_DATE:
        date_text(column->offset + value * 11, text, capacity);   // 11 days apart: 300 values are nine years
        break;
    case COLUMN_BOOLEAN:
        snprintf(text, capacity, "%s", dialect == IN_SQLITE ? value ? "1" : "0" : value ? "true" : "false");
        break;
    default:
        snprintf(text, capacity, "%" PRId64, column->offset + (int64_t)value * column->stride);
    }
}

void column_literal(const RandomColumn *column, int value, int dialect, char *text, size_t capacity)
{
    char plain[64];
    plain_text(column, value, dialect, plain, sizeof plain);
    if (column->type == COLUMN_TEXT || column->type == COLUMN_DATE)
        quote_sql(plain, text, capacity);
    else if (column->type == COLUMN_BOOLEAN && dialect == IN_SQLITE && !value)
        snprintf(text, capacity, "(1 = 0)");   // of "0 AND max(x)" SQLite 3.40 drops the aggregate, and gives every row
    else if (plain[0] == '-')
        snprintf(text, capacity, "(%s)", plain);
    else
        snprintf(text, capacity, "%s", plain);
}

// The number of the value in this cell, or -1 for NULL.
static int cell_value(const DataSet *data, int table, int column, int row)
{
    const RandomColumn *spec = &data->tables[table].columns[column];
    Rng rng =
        rng_from(data->seed, 2 + data->number, ((uint64_t)table << 48) + ((uint64_t)column << 40) + (uint64_t)row);
    if (rng_chance(&rng, spec->null_percent))
        return -1;
    switch (spec->spread) {
    case SPREAD_SKEWED:
        return rng_chance(&rng, 80) ? 0 : rng_below(&rng, spec->n_distinct);
    case SPREAD_GROWING:
        return rng_below(&rng, 1 + (int)((int64_t)row * spec->n_distinct / data->tables[table].n_rows));
    case SPREAD_RISING:
        return (int)((int64_t)row * spec->n_distinct / data->tables[table].n_rows);
    case SPREAD_UNIQUE:
        return (int)((int64_t)row * 7919 % spec->n_distinct);     // a prime larger than any table: a permutation
    default:
        return rng_below(&rng, spec->n_distinct);
    }
}

// ---- as SQL and as CSV --------------------------------------------------------------------------------------------

char *data_create_sql(const DataSet *data, int table, int dialect)
{
    const RandomTable *spec = &data->tables[table];
    char *sql = NULL;
    size_t length;
    FILE *out = open_memstream(&sql, &length);
    fprintf(out, "create table %s (", spec->name);
    for (int c = 0; c < spec->n_columns; c++) {
        const RandomColumn *column = &spec->columns[c];
        const char *type = dialect == IN_SQLITE ? SQLITE_TYPE[column->type] : WEFT_TYPE[column->type];
        fprintf(out, "%s%s %s%s", c ? ", " : "", column->name, type, column->is_not_null ? " not null" : "");
    }
    fprintf(out, ")");
    fclose(out);
    return sql;
}

char *data_insert_sql(const DataSet *data, int table, int first, int n, int dialect)
{
    const RandomTable *spec = &data->tables[table];
    char *sql = NULL, text[160];
    size_t length;
    FILE *out = open_memstream(&sql, &length);
    fprintf(out, "insert into %s values ", spec->name);
    for (int row = first; row < first + n; row++) {
        fprintf(out, "%s(", row > first ? ", " : "");
        for (int c = 0; c < spec->n_columns; c++) {
            int value = cell_value(data, table, c, row);
            if (value >= 0)
                column_literal(&spec->columns[c], value, dialect, text, sizeof text);
            fprintf(out, "%s%s", c ? ", " : "", value >= 0 ? text : "null");
        }
        fprintf(out, ")");
    }
    fclose(out);
    return sql;
}

static void write_csv_cell(const char *text, bool is_text, FILE *out)
{
    if (!is_text) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

void data_write_csv(const DataSet *data, int table, FILE *out)
{
    const RandomTable *spec = &data->tables[table];
    char text[64];
    for (int row = 0; row < spec->n_rows; row++) {
        for (int c = 0; c < spec->n_columns; c++) {
            int value = cell_value(data, table, c, row);
            if (c)
                fputc(',', out);
            if (value < 0)
                continue;                                      // an empty field without quotes is NULL
            plain_text(&spec->columns[c], value, IN_WEFT, text, sizeof text);
            write_csv_cell(text, spec->columns[c].type == COLUMN_TEXT, out);
        }
        fputc('\n', out);
    }
}
