// value_error.c - what is said of a text that is no value of its type.  Messages are PostgreSQL's.

#include <ctype.h>
#include <strings.h>

#include "store/store_int.h"

enum { QUOTE_BYTES = VALUE_QUOTE_BYTES - 4 };

// The input for a message: cut to a sensible length, and always UTF-8, since the message goes to a client.
const char *value_quote(const char *bytes, size_t length, char buffer[VALUE_QUOTE_BYTES])
{
    size_t shown = MIN_OF(length, QUOTE_BYTES), n = 0;
    while (n < shown) {
        size_t good = utf8_valid_length(bytes + n, shown - n);
        memcpy(buffer + n, bytes + n, good);
        n += good;
        if (n < shown)
            buffer[n++] = '?';
    }
    strcpy(buffer + n, shown < length ? "..." : "");
    return buffer;
}

// What PostgreSQL has as numerics and Weft has not: NaN, Infinity.
static const char *not_a_number(const char *bytes, size_t length)
{
    while (length && isspace((unsigned char)*bytes)) bytes++, length--;
    while (length && isspace((unsigned char)bytes[length - 1])) length--;
    if (length == 3 && strncasecmp(bytes, "nan", 3) == 0) return "NaN";
    if (length && (*bytes == '-' || *bytes == '+')) bytes++, length--;
    const bool is_infinity = (length == 3 && strncasecmp(bytes, "inf", 3) == 0) ||
                             (length == 8 && strncasecmp(bytes, "infinity", 8) == 0);
    return is_infinity ? "infinity" : NULL;
}

static weft_status no_such_numeric(const char *what, Error *err)
{
    fail(err, WEFT_OUT_OF_RANGE, -1, "a numeric cannot be %s", what);
    error_hint(err, "double precision has NaN and infinity.");
    return WEFT_OUT_OF_RANGE;
}

weft_status value_bad_text(Type type, const char *bytes, size_t length, Error *err)
{
    char name[32], quoted[QUOTE_BYTES + 4];
    bool is_time = type_is_time(type);
    const bool is_numeric = type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
    const char *special = is_numeric ? not_a_number(bytes, length) : NULL;
    if (special)
        return no_such_numeric(special, err);
    if (type.kind == TYPE_DECIMAL)
        type = TYPE(NUMERIC);                               // "numeric", without the digits
    if (type.kind == TYPE_TIMESTAMP || type.kind == TYPE_TIME)
        return fail(err, WEFT_BAD_DATETIME, -1, "invalid input syntax for type %s: \"%s\"",
                    type.kind == TYPE_TIME ? "time" : "timestamp", value_quote(bytes, length, quoted));
    return fail(err, is_time ? WEFT_BAD_DATETIME : WEFT_BAD_TEXT, -1, "invalid input syntax for type %s: \"%s\"",
                type_name(type, name), value_quote(bytes, length, quoted));
}
