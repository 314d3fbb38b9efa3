// text.c - see text.h.  Letters and their case come from utf8proc.

#include "plan/text.h"

#include <utf8proc.h>

Chars chars_of(const Value *value)
{
    const char *bytes = value->text.bytes ? value->text.bytes : "";
    return (Chars){ bytes, bytes + value->text.length };
}

static int char_length(const char *at, const char *end)
{
    const unsigned char first = (unsigned char)*at;
    const int           length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return (int)MIN_OF(length, end - at);
}

u32 chars_count(Chars chars)
{
    u32 n = 0;
    for (; chars.at < chars.end; chars.at++) n += ((unsigned char)*chars.at & 0xC0) != 0x80;
    return n;
}

i32 chars_take(Chars *chars)
{
    if (chars->at == chars->end) return -1;
    const int length = char_length(chars->at, chars->end);
    i32       code_point = (unsigned char)*chars->at;
    if (length > 1) code_point &= 0x7F >> length;
    for (int i = 1; i < length; i++) code_point = code_point << 6 | ((unsigned char)chars->at[i] & 0x3F);
    chars->at += length;
    return code_point;
}

Chars chars_skip(Chars chars, i64 n)
{
    for (; n > 0 && chars.at < chars.end; n--) chars.at += char_length(chars.at, chars.end);
    return chars;
}

int char_put(i32 c, char *out)
{
    const int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    static const unsigned char first[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    out[0] = (char)(first[length] | c);
    return length;
}

i32 char_upper(i32 c)
{
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
    return c == 0xDF ? c : utf8proc_toupper(c);             // sharp s has no capital in Unicode's simple mapping
}

i32 char_lower(i32 c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    return utf8proc_tolower(c);
}

bool char_is_word(i32 c)
{
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    switch (utf8proc_category(c)) {
        case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_NO:
            return true;
        default: return false;
    }
}

weft_status text_make(Arena *arena, const Expr *call, u64 length, char **bytes, Value *value, Error *err)
{
    if (length > TEXT_RESULT_MAX) return fail(err, WEFT_TOO_LONG, call->at, "requested length too large");
    *bytes = arena_alloc(arena, length + 1);
    text_set(value, *bytes, length);
    return WEFT_OK;
}

void text_set(Value *value, const char *bytes, size_t length)
{
    value->text.bytes = length ? bytes : "";
    value->text.length = (u32)length;
}
