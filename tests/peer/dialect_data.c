// dialect_data.c - tables with a column of every type, and literals of every type.

#define _GNU_SOURCE
#include "dialect.h"

#include <stdlib.h>

const char *const TYPE_NAMES[TYPE_N] = {
    "smallint", "integer", "bigint", "numeric(20,4)", "real", "double precision", "boolean", "date", "timestamp",
    "timestamptz", "time", "interval", "uuid", "text"
};

const DialectColumn DIALECT_COLUMNS[] = {
    { "s", "smallint", TYPE_SMALLINT },           { "i", "integer", TYPE_INTEGER },
    { "k", "integer", TYPE_INTEGER },             { "l", "bigint", TYPE_BIGINT },
    { "n", "numeric(12,3)", TYPE_NUMERIC },       { "w", "numeric(30,8)", TYPE_NUMERIC },
    { "e", "numeric", TYPE_NUMERIC },
    { "r", "real", TYPE_REAL },                   { "f", "double precision", TYPE_DOUBLE },
    { "b", "boolean", TYPE_BOOLEAN },             { "d", "date", TYPE_DATE },
    { "m", "timestamp", TYPE_TIMESTAMP },         { "z", "timestamptz", TYPE_TIMESTAMPTZ },
    { "c", "time", TYPE_TIME },                   { "u", "uuid", TYPE_UUID },
    { "t", "text", TYPE_TEXT },                   { "v", "varchar(12)", TYPE_TEXT },
};

int dialect_column_count(void)
{
    return COUNT_OF(DIALECT_COLUMNS);
}

// ---- values: first the tame ones, which most draws take, then those at the ends of the range --------------------

typedef struct Values { int n_tame, n; const char *const *list; } Values;

#define VALUES(n_tame, ...)                                                                                            \
    { n_tame, COUNT_OF(((const char *[]){ __VA_ARGS__ })), (const char *const[]){ __VA_ARGS__ } }

static const Values VALUES_OF[TYPE_N] = {
    [TYPE_SMALLINT] = VALUES(7, "0", "1", "2", "-1", "7", "12", "-3", "32767", "-32768", "181"),
    [TYPE_INTEGER] = VALUES(9, "0", "1", "2", "3", "-1", "10", "42", "-17", "100", "2147483647", "-2147483648",
                            "46341", "1000000"),
    [TYPE_BIGINT] = VALUES(7, "0", "1", "-1", "5", "1234567", "-99", "3000000000", "9223372036854775807",
                           "-9223372036854775808", "3037000500", "4294967296"),
    [TYPE_NUMERIC] = VALUES(9, "0", "1", "1.5", "-2.25", "0.005", "10.125", "-0.5", "99.999", "1234.5",
                            "999999999.999", "-999999999.999", "0.001", "123456789.5"),
    [TYPE_REAL] = VALUES(6, "0", "1", "1.5", "-2.25", "100", "0.125", "3.4e38", "1e-30", "NaN", "Infinity",
                         "-Infinity", "0.1", "-0"),
    [TYPE_DOUBLE] = VALUES(7, "0", "1", "1.5", "-2.25", "1000000", "0.1", "-7", "1e308", "1e-300", "NaN", "Infinity",
                           "-Infinity", "-0", "9007199254740993"),
    [TYPE_BOOLEAN] = VALUES(2, "true", "false"),
    [TYPE_DATE] = VALUES(8, "2020-02-29", "2020-01-01", "1999-12-31", "2021-03-28", "2000-02-29", "1970-01-01",
                         "2024-11-03", "2020-12-31", "9999-12-31", "0001-01-01", "1582-10-15", "1900-02-28"),
    [TYPE_TIMESTAMP] = VALUES(7, "2020-02-29 12:34:56.789", "2020-01-01 00:00:00", "1999-12-31 23:59:59.999999",
                              "2021-03-28 02:30:00", "1970-01-01 00:00:00", "2024-11-03 01:30:00.5",
                              "2020-12-31 18:00:00", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00",
                              "1969-12-31 23:59:59.5"),
    [TYPE_TIMESTAMPTZ] = VALUES(6, "2020-02-29 12:34:56.789+00", "2020-01-01 00:00:00+02", "1999-12-31 23:59:59-05",
                                "2021-03-28 01:00:00+00", "1970-01-01 00:00:00+00", "2024-11-03 06:00:00.25+00",
                                "9999-12-31 23:59:59+00", "0001-01-02 00:00:00+00"),
    [TYPE_TIME] = VALUES(6, "00:00:00", "12:00:00", "23:59:59.999999", "06:30:00.5", "18:45:10", "01:00:00",
                         "24:00:00"),
    [TYPE_INTERVAL] = VALUES(8, "1 day", "1 month", "2 hours 30 minutes", "-1 day", "1 year 2 months 3 days", "0",
                             "90 seconds", "1 mon -1 day 00:00:01.5", "100 years", "-5 mons 40 days", "1000000 hours"),
    [TYPE_UUID] = VALUES(3, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000",
                         "6ecd8c99-4036-403d-bf84-cf8400f67836", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    [TYPE_TEXT] = VALUES(13, "a", "b", "abc", "", "ABC", "hello world", "a,b,c", "Zoë", "10", " x ", "a%b",
                         "2020-02-29", "aab", "ÄÖÜ straße", "日本語", "-7.5", "back\\slash", "line\nbreak"),
};

static const char *pick(Rng *rng, const Values *values, bool is_wild)
{
    return values->list[rng_below(rng, is_wild && rng_chance(rng, 30) ? values->n : values->n_tame)];
}

static const char *value_of(Rng *rng, TreeType type, bool is_wild)
{
    return pick(rng, &VALUES_OF[type], is_wild);
}

const char *dialect_literal(Arena *arena, Rng *rng, TreeType type, bool is_wild)
{
    if (rng_chance(rng, 6))
        return arena_printf(arena, "cast(null as %s)", TYPE_NAMES[type]);
    const char *value = value_of(rng, type, is_wild);
    switch (type) {
    case TYPE_INTEGER:
        return !strcmp(value, "-2147483648") ? "(-2147483647 - 1)" : value;
    case TYPE_NUMERIC:
        return strchr(value, '.') ? value : arena_printf(arena, "%s.0", value);
    case TYPE_BOOLEAN:
        return value;
    case TYPE_TEXT:
        return arena_printf(arena, rng_chance(rng, 70) ? "text '%s'" : "'%s'", value);
    case TYPE_DATE: case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ: case TYPE_TIME: case TYPE_INTERVAL:
        return arena_printf(arena, "%s '%s'", TYPE_NAMES[type], value);
    default:
        return arena_printf(arena, "cast('%s' as %s)", value, TYPE_NAMES[type]);
    }
}

// ---- tables -------------------------------------------------------------------------------------------------------

void dialect_data_draw(DialectData *data, uint64_t seed, uint64_t number)
{
    static const int SIZES[] = { 0, 1, 5, 12, 20, 30, 45 };
    Rng rng = rng_from(seed, 11, number);
    *data = (DialectData){ .seed = seed, .number = number, .is_wild = rng_chance(&rng, 30) };
    data->n_rows[0] = rng_between(&rng, 20, 60);
    for (int t = 1; t < N_DIALECT_TABLES; t++)
        data->n_rows[t] = SIZES[rng_below(&rng, COUNT_OF(SIZES))];
}

char *dialect_create_sql(int table)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "create table t%d (id integer not null", table);
    for (int c = 0; c < COUNT_OF(DIALECT_COLUMNS); c++)
        fprintf(out, ", %s %s", DIALECT_COLUMNS[c].name, DIALECT_COLUMNS[c].sql_type);
    fputc(')', out);
    fclose(out);
    return text;
}

// Of a column without a precision.  Scales of 0 to 9, and 20 digits before the point at most: 38 digits are enough for
// all of them at one scale.
static const Values FREE_NUMBERS =
    VALUES(10, "0", "1", "1.5", "1.50", "-2.25", "0.125", "1e3", "-0.001000", "99.9", "42", "12345678901234567890.5",
           "-98765432109876543210", "0.000000001", "1e-9");

static void write_cell(FILE *out, Rng *rng, const DialectColumn *column, bool is_wild, int null_percent)
{
    if (rng_chance(rng, null_percent))
        fputs(", null", out);
    else if (!strcmp(column->name, "k"))
        fprintf(out, ", %d", rng_between(rng, 1, 12));
    else if (!strcmp(column->name, "v"))
        fprintf(out, ", '%.4s'", VALUES_OF[TYPE_TEXT].list[rng_below(rng, 5)]);
    else if (!strcmp(column->name, "e"))
        fprintf(out, ", '%s'", pick(rng, &FREE_NUMBERS, is_wild));
    else if (!strcmp(column->name, "w") && rng_chance(rng, 20))
        fprintf(out, ", %d12345678901234567.%08d", rng_between(rng, -9, 9), rng_below(rng, 100000000));
    else if (column->type == TYPE_BOOLEAN)
        fprintf(out, ", %s", value_of(rng, column->type, is_wild));
    else
        fprintf(out, ", '%s'", value_of(rng, column->type, is_wild));
}

char *dialect_insert_sql(const DialectData *data, int table)
{
    if (data->n_rows[table] == 0)
        return NULL;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    Rng rng = rng_from(data->seed, 12 + (uint64_t)table, data->number);
    int null_percent[COUNT_OF(DIALECT_COLUMNS)];
    for (int c = 0; c < COUNT_OF(DIALECT_COLUMNS); c++)
        null_percent[c] = rng_chance(&rng, 25) ? 0 : rng_chance(&rng, 5) ? 100 : rng_between(&rng, 5, 40);
    fprintf(out, "insert into t%d values ", table);
    for (int row = 0; row < data->n_rows[table]; row++) {
        fprintf(out, "%s(%d", row ? ", " : "", row + 1);
        for (int c = 0; c < COUNT_OF(DIALECT_COLUMNS); c++)
            write_cell(out, &rng, &DIALECT_COLUMNS[c], data->is_wild, null_percent[c]);
        fputc(')', out);
    }
    fclose(out);
    return text;
}
