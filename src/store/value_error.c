// value_error.c - what is said of a text that is no value of its type.  Messages are PostgreSQL's.

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

weft_status value_bad_text(Type type, const char *bytes, size_t length, Error *err)
{
    char name[32], quoted[QUOTE_BYTES + 4];
    bool is_time = type_is_time(type);
    if (type.kind == TYPE_DECIMAL)
        type = TYPE(NUMERIC);                               // "numeric", without the digits
    if (type.kind == TYPE_TIMESTAMP || type.kind == TYPE_TIME)
        return fail(err, WEFT_BAD_DATETIME, -1, "invalid input syntax for type %s: \"%s\"",
                    type.kind == TYPE_TIME ? "time" : "timestamp", value_quote(bytes, length, quoted));
    return fail(err, is_time ? WEFT_BAD_DATETIME : WEFT_BAD_TEXT, -1, "invalid input syntax for type %s: \"%s\"",
                type_name(type, name), value_quote(bytes, length, quoted));
}
