// report.c - errors and notices, to standard error.
//
//     error: column "pricee" does not exist [42703]
//     LINE 3: where pricee > 10
//                   ^
//     hint: Perhaps you meant "price".
//
// The library counts places in characters from the start of the statement; here they become a line, and a column as the
// terminal shows it: a tab is printed as one space, a wide character takes two.  Of a very long line only the
// surroundings of the place are shown.

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"

#define SHOWN_COLUMNS 100                                  // of a line, when no terminal says otherwise

static const char *red(const Shell *shell)   { return shell->err_is_terminal && shell->has_color ? "\033[1;31m" : ""; }
static const char *plain(const Shell *shell) { return shell->err_is_terminal && shell->has_color ? "\033[0m" : ""; }

// The byte where the POSITIONth character (from 1) of SQL starts, or its end.
static const char *find_character(const char *sql, int position)
{
    while (*sql && --position > 0) {
        sql++;
        while (((unsigned char)*sql & 0xC0) == 0x80)
            sql++;
    }
    return sql;
}

// Where a line is cut: bytes from START to END, as COLUMNS columns.
typedef struct Cut { const char *start, *end; int columns; } Cut;

// Moves the start to the right until at most LIMIT columns are left before END.
static Cut keep_right(const char *start, const char *end, int limit)
{
    Cut cut = { start, end, glyph_columns(start, (size_t)(end - start)) };
    while (cut.columns > limit) {
        int columns;
        cut.start += glyph_next(cut.start, (size_t)(end - cut.start), &columns);
        cut.columns -= columns;
    }
    return cut;
}

static Cut keep_left(const char *start, const char *end, int limit)
{
    Cut cut = { start, start, 0 };
    while (cut.end < end) {
        int columns;
        size_t bytes = glyph_next(cut.end, (size_t)(end - cut.end), &columns);
        if (cut.columns + columns > limit)
            break;
        cut.end += bytes;
        cut.columns += columns;
    }
    return cut;
}

static void put_line(const char *from, const char *to)
{
    for (; from < to; from++)
        fputc((unsigned char)*from < ' ' || *from == 0x7f ? ' ' : *from, stderr);
}

// A message may quote what it found in a file, and that must not move the cursor.
static void put_message(const char *text)
{
    for (; *text; text++) {
        bool is_control = ((unsigned char)*text < ' ' && *text != '\n') || *text == 0x7f;
        fprintf(stderr, is_control ? "\\x%02x" : "%c", (unsigned char)*text);
    }
}

static void show_place(const char *sql, int position, int first_line)
{
    const char *at = find_character(sql, position), *line = at, *end = at + strcspn(at, "\n");
    int number = first_line;
    while (line > sql && line[-1] != '\n')
        line--;
    for (const char *p = sql; p < line; p++)
        number += *p == '\n';

    int room = terminal_columns(stderr);
    room = (room > 40 ? room : SHOWN_COLUMNS) - 20;        // 20: "LINE 123: " and the dots
    Cut before = keep_right(line, at, room * 2 / 3), after = keep_left(at, end, room - before.columns);
    const char *dots_before = before.start > line ? "..." : "", *dots_after = after.end < end ? "..." : "";

    int prefix = fprintf(stderr, "LINE %d: %s", number, dots_before);
    put_line(before.start, after.end);
    fprintf(stderr, "%s\n%*s^\n", dots_after, prefix + before.columns, "");
}

void report_error(const Shell *shell, const weft_error *error, const char *sql, const char *name, int line)
{
    if (name && sql) {
        const char *at = error->position > 0 ? find_character(sql, error->position) : sql;
        int number = line;
        for (const char *p = sql; p < at; p++)
            number += *p == '\n';
        fprintf(stderr, "%s:%d: ", name, number);
    }
    fprintf(stderr, "%serror:%s ", red(shell), plain(shell));
    put_message(error->message);
    fprintf(stderr, " [%s]\n", error->sqlstate);
    if (sql && error->position > 0)
        show_place(sql, error->position, line);
    if (*error->hint) {
        fputs("hint: ", stderr);
        put_message(error->hint);
        fputc('\n', stderr);
    }
}

void report_notices(const weft_result *result)
{
    for (int i = 0; i < weft_result_notices(result); i++) {
        fputs("notice: ", stderr);
        put_message(weft_result_notice(result, i));
        fputc('\n', stderr);
    }
}

void report_problem(const Shell *shell, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%serror:%s ", red(shell), plain(shell));
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
