// text.c - text that grows.
//
// For kernel text, messages and file contents.  A builder starts as {0} and owns its bytes until text_free or
// text_keep.  Out of memory ends the process, as in arenas, so there is nothing to check in between or at the end.

#include <stdio.h>
#include <stdlib.h>

#include "base/base_int.h"

// Makes room for LENGTH more bytes and the NUL behind them.
static void reserve(Text *text, size_t length)
{
    if (length > PTRDIFF_MAX - text->length - 1)
        out_of_small_memory(length);
    size_t needed = text->length + length + 1;
    if (needed <= text->capacity)
        return;
    size_t capacity = MAX_OF(MAX_OF(text->capacity * 2, needed), 64);
    text->bytes = small_realloc(text->bytes, capacity);
    text->capacity = capacity;
}

void text_add(Text *text, const char *format, ...)
{
    va_list args;
    size_t room = text->capacity - text->length;
    va_start(args, format);
    int length = vsnprintf(text->bytes ? text->bytes + text->length : NULL, room, format, args);
    va_end(args);
    if (length < 0)                                         // one call can add 2 GiB; text_add_bytes has no such limit
        out_of_small_memory((size_t)INT32_MAX);
    if ((size_t)length >= room) {
        reserve(text, (size_t)length);
        va_start(args, format);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, args);
        va_end(args);
    }
    text->length += (size_t)length;
}

void text_add_bytes(Text *text, const char *bytes, size_t length)
{
    reserve(text, length);
    if (length)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_clear(Text *text)
{
    text->length = 0;
    if (text->bytes)
        text->bytes[0] = '\0';
}

void text_free(Text *text)
{
    free(text->bytes);
    *text = (Text){ 0 };
}

char *text_keep(Arena *arena, Text *text)
{
    char *kept = arena_strndup(arena, text->bytes ? text->bytes : "", text->length);
    text_free(text);
    return kept;
}
