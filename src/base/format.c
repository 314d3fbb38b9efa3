// format.c - printf for texts that are built by the thousand.
//
// Kernel text and signatures are made anew for every query, from names and small numbers.  The C library's printf sets
// up a stream for each call, which costs more than the copying.  Here the few directives that such text is made of are
// plain copies; at the first other one the rest of the format goes to vsnprintf, so the outcome is always what printf
// would say:
//
//     format_args(buffer, room, "%s[%d] %5.2f %s", ...)
//                                ^^^^^^^    here ^^^^^^^^ from here on the library
//
// Like vsnprintf it writes what fits and a NUL, and returns the length of the whole.

#include <stdio.h>

#include "base/base_int.h"

typedef struct Out {
    char  *bytes;
    size_t room, length;               // length goes on where the room ends
} Out;

static void put(Out *out, const char *bytes, size_t length)
{
    if (out->length < out->room) memcpy(out->bytes + out->length, bytes, MIN_OF(length, out->room - out->length));
    out->length += length;
}

static void put_blanks(Out *out, size_t count)
{
    if (out->length < out->room) memset(out->bytes + out->length, ' ', MIN_OF(count, out->room - out->length));
    out->length += count;
}

// BASE is a constant at each call, so that digits are found without a division.
static inline void put_number(Out *out, u64 number, bool is_negative, unsigned base)
{
    char  digits[24];
    char *first = digits + sizeof digits;
    do {
        *--first = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    if (is_negative) *--first = '-';
    ASSERT(first >= digits);
    put(out, first, (size_t)(digits + sizeof digits - first));
}

static void put_signed(Out *out, i64 number)
{
    put_number(out, number < 0 ? -(u64)number : (u64)number, number < 0, 10);
}

// What comes before the next directive is a few bytes for the most part, so they are looked at and copied one by one:
// two calls of the library for them cost more.
static const char *put_literal(Out *out, const char *format)
{
    char *const  bytes = out->bytes;
    const size_t room = out->room;
    size_t       length = out->length;
    for (; *format && *format != '%'; format++, length++)
        if (length < room) bytes[length] = *format;
    out->length = length;
    return format;
}

static void put_text(Out *out, const char *text, size_t most)
{
    if (!text) text = most < 6 ? "" : "(null)";              // as the library does
    put(out, text, most == SIZE_MAX ? strlen(text) : strnlen(text, most));
}

typedef enum Directive {
    DIRECTIVE_OTHER,
    DIRECTIVE_PERCENT,
    DIRECTIVE_TEXT,
    DIRECTIVE_CUT_TEXT,
    DIRECTIVE_WIDE_TEXT,
    DIRECTIVE_CHAR,
    DIRECTIVE_INT,
    DIRECTIVE_UINT,
    DIRECTIVE_HEX_INT,
    DIRECTIVE_LLONG,
    DIRECTIVE_ULLONG,
    DIRECTIVE_HEX,
    DIRECTIVE_SIZE
} Directive;

// What begins at FORMAT, which is at '%', and how long it is.
static Directive directive_at(const char *format, size_t *length)
{
    static const struct { const char *text; u8 length; u8 directive; } longer[] = {
        { "%.*s", 4, DIRECTIVE_CUT_TEXT }, { "%*s", 3, DIRECTIVE_WIDE_TEXT }, { "%lld", 4, DIRECTIVE_LLONG },
        { "%llu", 4, DIRECTIVE_ULLONG },   { "%llx", 4, DIRECTIVE_HEX },      { "%zu", 3, DIRECTIVE_SIZE },
    };
    *length = 2;
    switch (format[1]) {
        case '%': return DIRECTIVE_PERCENT;
        case 's': return DIRECTIVE_TEXT;
        case 'd': return DIRECTIVE_INT;
        case 'u': return DIRECTIVE_UINT;
        case 'x': return DIRECTIVE_HEX_INT;
        case 'c': return DIRECTIVE_CHAR;
        default: break;
    }
    for (int i = 0; i < COUNT_OF(longer); i++) {
        *length = longer[i].length;
        if (strncmp(format, longer[i].text, *length) == 0) return (Directive)longer[i].directive;
    }
    return DIRECTIVE_OTHER;
}

static size_t end_text(Out *out)
{
    if (out->room) out->bytes[MIN_OF(out->length, out->room - 1)] = '\0';
    return out->length;
}

static size_t format_rest(Out *out, const char *format, va_list args)
{
    const bool has_room = out->length < out->room;
    const int length =
        vsnprintf(has_room ? out->bytes + out->length : NULL, has_room ? out->room - out->length : 0, format, args);
    if (!has_room) end_text(out);
    if (length < 0) out_of_small_memory((size_t)INT32_MAX);  // one call of the library can write 2 GiB
    return out->length + (size_t)length;
}

size_t format_args(char *buffer, size_t room, const char *format, va_list args)
{
    Out    out = { buffer, room, 0 };
    size_t length;
    ASSERT(buffer || room == 0);
    for (;;) {
        const char *percent = put_literal(&out, format);
        if (!*percent) return end_text(&out);
        switch (directive_at(percent, &length)) {
            case DIRECTIVE_PERCENT: put(&out, "%", 1); break;
            case DIRECTIVE_TEXT: put_text(&out, va_arg(args, const char *), SIZE_MAX); break;
            case DIRECTIVE_CUT_TEXT: {
                const int most = va_arg(args, int);
                put_text(&out, va_arg(args, const char *), most < 0 ? SIZE_MAX : (size_t)most);
                break;
            }
            case DIRECTIVE_WIDE_TEXT: {
                const int    width = va_arg(args, int);
                const char  *text = va_arg(args, const char *);
                const size_t n_text = text ? strlen(text) : 6, n_wide = (size_t)(width < 0 ? -(i64)width : width);
                if (width > 0 && n_wide > n_text) put_blanks(&out, n_wide - n_text);
                put_text(&out, text, SIZE_MAX);
                if (width < 0 && n_wide > n_text) put_blanks(&out, n_wide - n_text);
                break;
            }
            case DIRECTIVE_CHAR: put(&out, &(char){ (char)va_arg(args, int) }, 1); break;
            case DIRECTIVE_INT: put_signed(&out, va_arg(args, int)); break;
            case DIRECTIVE_UINT: put_number(&out, va_arg(args, unsigned), false, 10); break;
            case DIRECTIVE_HEX_INT: put_number(&out, va_arg(args, unsigned), false, 16); break;
            case DIRECTIVE_LLONG: put_signed(&out, va_arg(args, long long)); break;
            case DIRECTIVE_ULLONG: put_number(&out, va_arg(args, unsigned long long), false, 10); break;
            case DIRECTIVE_HEX: put_number(&out, va_arg(args, unsigned long long), false, 16); break;
            case DIRECTIVE_SIZE: put_number(&out, va_arg(args, size_t), false, 10); break;
            case DIRECTIVE_OTHER: return format_rest(&out, percent, args);
        }
        format = percent + length;
    }
}
