// text.c - text that grows.
//
// For kernel text, messages and file contents.  A builder starts as {0} and owns its bytes until text_free or
// text_keep.  Out of memory ends the process, as in arenas, so there is nothing to check in between or at the end.

#include <stdlib.h>

#include "base/base_int.h"

// As much as malloc hands out from the thread's own cache; kernel texts and signatures are as long.
enum { LEAST = 1024 };

// Makes room for LENGTH more bytes and the NUL behind them.
static void reserve(Text *text, size_t length)
{
    ASSERT(text->bytes ? text->length < text->capacity : text->length == 0 && text->capacity == 0);
    if (length > PTRDIFF_MAX - text->length - 1)
        out_of_small_memory(length);
    size_t needed = text->length + length + 1;
    if (needed <= text->capacity)
        return;
    size_t capacity = MAX_OF(MAX_OF(text->capacity * 2, needed), LEAST);
    text->bytes = small_realloc(text->bytes, capacity);
    text->capacity = capacity;
}

void text_add_args(Text *text, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const size_t room = text->capacity - text->length;
    const size_t length = format_args(text->bytes ? text->bytes + text->length : NULL, room, format, args);
    if (length >= room) {
        reserve(text, length);
        format_args(text->bytes + text->length, length + 1, format, again);
    }
    va_end(again);
    text->length += length;
}

void text_add(Text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add_args(text, format, args);
    va_end(args);
}

void text_add_bytes(Text *text, const char *bytes, size_t length)
{
    ASSERT(bytes || length == 0);
    reserve(text, length);
    if (length)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_add_blanks(Text *text, size_t count)
{
    reserve(text, count);
    memset(text->bytes + text->length, ' ', count);
    text->length += count;
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
