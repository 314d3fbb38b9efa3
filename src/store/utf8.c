// utf8.c - is this text UTF-8, as PostgreSQL wants it: shortest forms, no surrogates, nothing past U+10FFFF, no NUL.

#include "store/store_int.h"

// How many of the bytes at AT are plain ASCII without NUL, in steps of eight.
static size_t ascii_run(const u8 *at, const u8 *end)
{
    const u8 *start = at;
    for (; end - at >= 8; at += 8) {
        u64 word;
        memcpy(&word, at, 8);
        u64 has_zero = (word - 0x0101010101010101u) & ~word;
        if ((word | has_zero) & 0x8080808080808080u)
            break;
    }
    return (size_t)(at - start);
}

// The length of the character at AT, or 0 when it is none.  The second byte's range depends on the first (RFC 3629).
static size_t character_length(const u8 *at, const u8 *end)
{
    u8 lead = at[0];
    if (lead < 0x80)
        return lead != 0;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || (size_t)(end - at) < length)
        return 0;
    u8 low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    u8 high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

size_t utf8_valid_length(const char *bytes, size_t length)
{
    if (length == 0)
        return 0;
    const u8 *start = (const u8 *)bytes, *at = start, *end = start + length;
    while (at < end) {
        at += ascii_run(at, end);
        if (at == end)
            break;
        size_t step = character_length(at, end);
        if (step == 0)
            break;
        at += step;
    }
    return (size_t)(at - start);
}
