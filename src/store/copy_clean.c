// copy_clean.c - a field as it was meant: without quotes, with escapes resolved.
//
// Both forms follow PostgreSQL's COPY.  The result is never longer than the field, so a copy of it is changed in place.

#include "store/copy_int.h"

// Quotes may stand anywhere in a field, as in PostgreSQL: ab"c|d"e is abc|de.  In place; returns the length.
static size_t unquote(const CopyOptions *options, char *bytes, size_t length)
{
    bool is_inside = false;
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char next = i + 1 < length ? bytes[i + 1] : '\0';
        if (is_inside && bytes[i] == options->escape && (next == options->quote || next == options->escape))
            bytes[n++] = bytes[++i];
        else if (bytes[i] == options->quote)
            is_inside = !is_inside;
        else
            bytes[n++] = bytes[i];
    }
    return n;
}

static int digit_value(char byte, int base)
{
    int value = byte >= '0' && byte <= '9'   ? byte - '0'
                : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                             : base;
    return value < base ? value : -1;
}

// A number of up to N_MAX digits as a byte; returns how many there were.
static size_t unescape_code(const char *bytes, size_t length, int base, size_t n_max, char *byte)
{
    int code = 0;
    size_t n = 0;
    for (; n < MIN_OF(n_max, length) && digit_value(bytes[n], base) >= 0; n++)
        code = code * base + digit_value(bytes[n], base);
    *byte = (char)(code & 0xFF);
    return n;
}

// The escapes of PostgreSQL's text format: \b \f \n \r \t \v, octal \101, hexadecimal \x41; any other byte stands for
// itself.  In place; returns the length.
static size_t unescape(char *bytes, size_t length)
{
    static const char letters[] = "bfnrtv", meanings[] = "\b\f\n\r\t\v";
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char byte = bytes[i];
        if (byte == '\\' && i + 1 < length) {
            byte = bytes[++i];
            const char *letter = byte ? strchr(letters, byte) : NULL;
            if (letter)
                byte = meanings[letter - letters];
            else if (digit_value(byte, 8) >= 0)
                i += unescape_code(bytes + i, length - i, 8, 3, &byte) - 1;
            else if (byte == 'x' && i + 1 < length && digit_value(bytes[i + 1], 16) >= 0)
                i += unescape_code(bytes + i + 1, length - i - 1, 16, 2, &byte);
        }
        bytes[n++] = byte;
    }
    return n;
}

// "..." without a quote or escape inside.
static bool is_simply_quoted(const CopyOptions *options, FieldText raw)
{
    return raw.length >= 2 && raw.bytes[0] == options->quote && raw.bytes[raw.length - 1] == options->quote &&
           !memchr(raw.bytes + 1, options->quote, raw.length - 2) &&
           (options->escape == options->quote || !memchr(raw.bytes + 1, options->escape, raw.length - 2));
}

weft_status copy_clean_field(const CopyOptions *options, FieldText *field, CopySpace *scratch, Budget *budget,
                             Error *err)
{
    FieldText raw = *field;
    if (!memchr(raw.bytes, options->csv ? options->quote : '\\', raw.length))
        return WEFT_OK;
    if (options->csv && is_simply_quoted(options, raw)) {
        *field = (FieldText){ raw.bytes + 1, raw.length - 2 };
        return WEFT_OK;
    }
    TRY(copy_space_reserve(scratch, raw.length + 16, budget, err));
    memcpy(scratch->bytes, raw.bytes, raw.length);
    field->bytes = scratch->bytes;
    field->length = options->csv ? unquote(options, scratch->bytes, raw.length) : unescape(scratch->bytes, raw.length);
    return WEFT_OK;
}
