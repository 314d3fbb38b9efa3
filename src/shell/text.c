// text.c - the little about bytes and characters that the shell needs.
//
// Text is UTF-8.  The C library knows how wide a character is only in a UTF-8 locale, so one is set even when the
// user's is another; whether the terminal can show more than ASCII is remembered apart.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1                                      // wcwidth
#endif

#include <ctype.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "shell/shell.h"

void *must_realloc(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes);
    if (!grown) {
        fputs("weft: out of memory\n", stderr);
        exit(EXIT_SQL_ERROR);
    }
    return grown;
}

char *must_copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(must_realloc(NULL, bytes), text, bytes);
}

void buffer_add(Buffer *buffer, const char *bytes, size_t length)
{
    if (buffer->length + length + 1 > buffer->capacity) {
        buffer->capacity = 2 * (buffer->length + length) + 64;
        buffer->bytes = must_realloc(buffer->bytes, buffer->capacity);
    }
    if (length)
        memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    buffer->bytes[buffer->length] = '\0';
}

void buffer_puts(Buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_clear(Buffer *buffer)
{
    buffer->length = 0;
    buffer_add(buffer, "", 0);
}

void buffer_free(Buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (Buffer){ 0 };
}

size_t glyph_next(const char *text, size_t length, int *columns)
{
    unsigned char first = (unsigned char)*text;
    *columns = 1;
    if (first < 0x80)
        return 1;
    wchar_t wide;
    mbstate_t state;
    memset(&state, 0, sizeof state);
    size_t bytes = mbrtowc(&wide, text, length, &state);
    if (bytes == (size_t)-1 || bytes == (size_t)-2 || bytes == 0)
        return 1;                                          // not UTF-8: a byte at a time
    int width = wcwidth(wide);
    *columns = width < 0 ? 1 : width;
    return bytes;
}

int glyph_columns(const char *text, size_t length)
{
    int total = 0;
    for (size_t i = 0; i < length;) {
        int columns;
        i += glyph_next(text + i, length - i, &columns);
        total += columns;
    }
    return total;
}

bool terminal_use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (!strcmp(nl_langinfo(CODESET), "UTF-8"))
        return true;
    setlocale(LC_CTYPE, "C.UTF-8");
    return false;
}

void terminal_look(Shell *shell)
{
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
    shell->has_unicode = terminal_use_utf8();
    shell->out_is_terminal = isatty(STDOUT_FILENO);
    shell->err_is_terminal = isatty(STDERR_FILENO);
    shell->has_escapes = terminal && strcmp(terminal, "dumb");
    shell->has_color = shell->has_escapes && !(no_color && *no_color);
}

int terminal_rows(FILE *stream)
{
    struct winsize size;
    if (!isatty(fileno(stream)))
        return 0;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) || !size.ws_row ? 24 : size.ws_row;
}

int terminal_columns(FILE *stream)
{
    struct winsize size;
    if (!isatty(fileno(stream)))
        return 0;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) || !size.ws_col)
        return 80;
    return size.ws_col;
}

// The end of the block comment that starts at SQL, or NULL when it does not end.  They nest.
static const char *skip_block_comment(const char *sql)
{
    int depth = 0;
    do {
        if (sql[0] == '/' && sql[1] == '*') {
            depth++;
            sql += 2;
        } else if (sql[0] == '*' && sql[1] == '/') {
            depth--;
            sql += 2;
        } else if (*sql) {
            sql++;
        } else {
            return NULL;
        }
    } while (depth);
    return sql;
}

const char *skip_blank_sql(const char *sql)
{
    for (;;) {
        if (isspace((unsigned char)*sql)) {
            sql++;
        } else if (sql[0] == '-' && sql[1] == '-') {
            sql += strcspn(sql, "\n");
        } else if (sql[0] == '/' && sql[1] == '*') {
            const char *end = skip_block_comment(sql);
            if (!end)
                return sql;
            sql = end;
        } else {
            return sql;
        }
    }
}

void buffer_add_quoted(Buffer *buffer, const char *text)
{
    buffer_puts(buffer, "'");
    for (; *text; text++)
        buffer_add(buffer, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    buffer_puts(buffer, "'");
}

void result_text(const weft_result *result, int column, size_t row, Buffer *raw)
{
    buffer_clear(raw);
    size_t length = weft_format(result, column, row, raw->bytes, raw->capacity);
    if (length >= raw->capacity) {
        raw->capacity = length + 1;
        raw->bytes = must_realloc(raw->bytes, raw->capacity);
        length = weft_format(result, column, row, raw->bytes, raw->capacity);
    }
    raw->length = length;
}

bool result_is_null(const weft_result *result, int column, size_t row)
{
    const weft_column *values = weft_result_column(result, column);
    return values->is_null && values->is_null[row];
}

static bool is_number(const char *text)
{
    char *end;
    size_t length = strspn(text, "+-0123456789.eE");
    strtod(text, &end);
    return *text && !text[length] && !*end;
}

bool setting_sql(const char *assignment, Buffer *sql)
{
    const char *equals = strchr(assignment, '=');
    size_t name_length = strspn(assignment, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (!equals || !name_length || assignment + name_length != equals)
        return false;
    buffer_puts(sql, "set ");
    buffer_add(sql, assignment, name_length);
    buffer_puts(sql, " = ");
    if (is_number(equals + 1))
        buffer_puts(sql, equals + 1);
    else
        buffer_add_quoted(sql, equals + 1);
    return true;
}
