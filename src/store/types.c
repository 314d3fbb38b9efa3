// types.c - what a column can be, and the numbers it can hold.

#include <stdio.h>

#include "store/store_int.h"

static const char *const names[] = {
    [TYPE_BOOLEAN] = "boolean", [TYPE_SMALLINT] = "smallint",        [TYPE_INTEGER] = "integer",
    [TYPE_BIGINT] = "bigint",   [TYPE_DECIMAL] = "decimal",          [TYPE_REAL] = "real",
    [TYPE_DOUBLE] = "double precision", [TYPE_DATE] = "date",        [TYPE_TEXT] = "text",
    [TYPE_NUMERIC] = "numeric", [TYPE_INTERVAL] = "interval",        [TYPE_NULL] = "unknown",
    [TYPE_TIMESTAMP] = "timestamp without time zone", [TYPE_TIMESTAMPTZ] = "timestamp with time zone",
    [TYPE_TIME] = "time without time zone",
};

const char *type_name(Type type, char buffer[32])
{
    const char *name = type.kind < COUNT_OF(names) ? names[type.kind] : "unknown";
    if (type_is_uuid(type))
        name = "uuid";
    if (type_is_stored_interval(type))
        name = "interval";
    if (type.kind == TYPE_DECIMAL || (type.kind == TYPE_NUMERIC && type.precision && type.precision < NUMERIC_DIGITS))
        snprintf(buffer, 32, "%s(%d,%d)", name, type.precision, type.scale);
    else
        snprintf(buffer, 32, "%s", name);
    return buffer;
}

const char *type_whole_name(Type type, char buffer[32])
{
    if (type_is_char(type) && !type_text_length(type))
        snprintf(buffer, 32, "bpchar");
    else if (type_is_char(type))
        snprintf(buffer, 32, "char(%d)", type_text_length(type));
    else if (type_text_length(type))
        snprintf(buffer, 32, "varchar(%d)", type_text_length(type));
    else if (type.kind == TYPE_NUMERIC && type.precision == NUMERIC_DIGITS)
        snprintf(buffer, 32, "numeric(%d,%d)", type.precision, type.scale);
    else
        type_name(type, buffer);
    return buffer;
}

const char *column_type_name(const Column *column, char buffer[32])
{
    return column->is_free ? type_name(TYPE_OF_FREE_NUMERIC, buffer) : type_whole_name(column->type, buffer);
}

bool type_is_integer(Type type)
{
    return type.kind == TYPE_SMALLINT || type.kind == TYPE_INTEGER || type.kind == TYPE_BIGINT;
}

bool type_is_float(Type type)
{
    return type.kind == TYPE_REAL || type.kind == TYPE_DOUBLE;
}

bool type_is_trimmed(Type type)
{
    return type.kind == TYPE_NUMERIC && type.precision == NUMERIC_TRIMMED;
}

bool type_is_quotient(Type type)
{
    return type_is_trimmed(type) || (type.kind == TYPE_NUMERIC && type.precision == NUMERIC_QUOTIENT);
}

bool type_is_uuid(Type type)
{
    return type.kind == TYPE_TEXT && type.precision == 255 && type.scale == 255;
}

bool type_is_stored_interval(Type type)
{
    return type.kind == TYPE_NUMERIC && type.precision == 255;
}

bool type_is_free_numeric(Type type)
{
    return type.kind == TYPE_NUMERIC && type.precision == NUMERIC_FREE;
}

bool type_is_time(Type type)
{
    return type.kind == TYPE_DATE || type.kind == TYPE_INTERVAL || type.kind >= TYPE_TIMESTAMP;
}

bool type_equal(Type a, Type b)
{
    if (a.kind != b.kind || type_is_uuid(a) != type_is_uuid(b))
        return false;
    bool has_scale = a.kind == TYPE_DECIMAL || a.kind == TYPE_NUMERIC;
    return !has_scale || (a.precision == b.precision && a.scale == b.scale);
}

bool type_is_storable(Type type)
{
    if (type.kind == TYPE_DECIMAL)
        return type.precision >= 1 && type.precision <= DECIMAL_DIGITS && type.scale <= type.precision;
    if (type_is_stored_interval(type))
        return type.scale == 0;
    if (type_is_free_numeric(type))
        return type.scale <= NUMERIC_DIGITS;
    if (type.kind == TYPE_NUMERIC)
        return type.precision > DECIMAL_DIGITS && type.precision <= NUMERIC_DIGITS && type.scale <= type.precision;
    return type.kind <= TYPE_TEXT || (type.kind >= TYPE_TIMESTAMP && type.kind <= TYPE_TIME);
}

void type_limits(Type type, i64 *min, i64 *max)
{
    switch ((TypeKind)type.kind) {
    case TYPE_BOOLEAN:
        *min = 0;
        *max = 1;
        break;
    case TYPE_SMALLINT:
        *min = INT16_MIN;
        *max = INT16_MAX;
        break;
    case TYPE_INTEGER:
        *min = INT32_MIN;
        *max = INT32_MAX;
        break;
    case TYPE_DECIMAL:
        *max = power_of_ten(type.precision) - 1;
        *min = -*max;
        break;
    case TYPE_DATE:
        *min = DATE_MIN;
        *max = DATE_MAX;
        break;
    case TYPE_TIMESTAMP:
    case TYPE_TIMESTAMPTZ:
        *min = TIMESTAMP_MIN;
        *max = TIMESTAMP_MAX;
        break;
    case TYPE_TIME:
        *min = 0;
        *max = DAY_MICROS;
        break;
    case TYPE_TEXT:
        *min = 0;
        *max = DICT_MAX - 1;
        break;
    default:
        *min = INT64_MIN;
        *max = INT64_MAX;
        break;
    }
}

i64 power_of_ten(int n)
{
    static const i64 powers[] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
        1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
        1000000000000000000,
    };
    ASSERT(n >= 0 && n < COUNT_OF(powers));
    return powers[n];
}
