// script.c - text to statements and commands.
//
// Only the library knows where a statement ends (weft_statement_length); here text is kept until one has.  A statement
// can end only where a ';' came in, so the library is asked only then: a long INSERT stays linear in its length.

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "shell/shell.h"

#define MAX_SCRIPT_DEPTH 16

// ---- COPY ... FROM STDIN: its rows are the lines that follow -----------------------------------------------------

static size_t word_at(const char *text)
{
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '_')
        n++;
    return n;
}

// COPY, and later FROM and STDIN beside each other, outside of quotes.
static bool is_copy_from_stdin(const char *sql)
{
    bool is_first = true, is_after_from = false;
    for (const char *p = skip_blank_sql(sql); *p; p = skip_blank_sql(p)) {
        size_t n = word_at(p);
        if (is_first && (n != 4 || strncasecmp(p, "copy", 4)))
            return false;
        if (is_after_from)
            return n == 5 && !strncasecmp(p, "stdin", 5);
        is_after_from = n == 4 && !strncasecmp(p, "from", 4);
        is_first = false;
        if (*p == '\'' || *p == '"') {
            const char *end = strchr(p + 1, *p);
            p = end ? end + 1 : p + strlen(p);
        } else {
            p += n ? n : 1;
        }
    }
    return false;
}

static bool run_with_data(Script *script)
{
    rewind(script->data);
    weft_set_input(script->shell->session, fileno(script->data));
    bool is_fine = run_statement(script->shell, script->data_sql, script->name, script->line);
    weft_set_input(script->shell->session, 0);
    fclose(script->data);
    free(script->data_sql);
    script->data = NULL;
    script->data_sql = NULL;
    script->has_failed |= !is_fine;
    return is_fine;
}

// A line of data; false: it was the last one.
static bool take_data(Script *script, const char *bytes, size_t length)
{
    size_t n = length;
    while (n && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
        n--;
    if (n == 2 && !memcmp(bytes, "\\.", 2))
        return false;
    fwrite(bytes, 1, length, script->data);
    return true;
}

static bool begin_data(Script *script, const char *sql)
{
    script->data = tmpfile();
    if (!script->data) {
        report_problem(script->shell, "could not make a temporary file: %s", strerror(errno));
        return false;
    }
    script->data_sql = must_copy(sql);
    return true;
}

static int count_lines(const char *from, const char *to)
{
    int lines = 0;
    for (; from < to; from++)
        lines += *from == '\n';
    return lines;
}

// \copy from standard input: its rows follow, as those of COPY.  False: it is another command.
static bool begins_data(Script *script, const char *line, bool *is_fine)
{
    const size_t name_length = strcspn(line, " \t");
    Buffer sql = { 0 };
    if (!script->has_data || name_length != 5 || strncmp(line, "\\copy", 5))
        return false;
    *is_fine = copy_command_sql(script->shell, line + 5, &sql);
    const bool begins = !*is_fine || is_copy_from_stdin(sql.bytes);
    if (*is_fine && begins)
        *is_fine = begin_data(script, sql.bytes);
    buffer_free(&sql);
    return begins;
}

static bool run_command(Script *script, const char *line)
{
    bool is_fine;
    return begins_data(script, line, &is_fine) ? is_fine : script_run_command(script->shell, line);
}

// Runs the statement or command of LENGTH bytes at SQL.  The byte after it may be anything.
static bool run_piece(Script *script, char *sql, size_t length, bool is_command)
{
    char after = sql[length];
    sql[length] = '\0';
    bool is_fine = is_command ? run_command(script, sql)
                   : script->has_data && is_copy_from_stdin(sql)
                       ? begin_data(script, sql)
                       : run_statement(script->shell, sql, script->name, script->line);
    sql[length] = after;
    return is_fine;
}

// The length of the next piece at SQL, which is not blank: a backslash line, a statement, or at the end all there is.
static size_t piece_length(const char *sql, bool is_command, bool is_end)
{
    if (is_command) {
        size_t length = strcspn(sql, "\n");
        return sql[length] || is_end ? length : 0;
    }
    size_t length = weft_statement_length(sql);
    return length || !is_end ? length : strlen(sql);
}

static bool goes_on(const Script *script)
{
    const Shell *shell = script->shell;
    if (shell->wants_exit)
        return false;
    if (shell->is_interactive && !script->name)            // at the prompt, as opposed to \i
        return true;
    return !watch_interrupted() && (shell->keep_going || !script->has_failed);
}

// Runs every piece that is complete, or with IS_END all of it, and keeps the rest.
static bool drain(Script *script, bool is_end)
{
    char *start = script->pending.bytes, *at = start;
    while (at && goes_on(script) && !script->data) {
        char *sql = (char *)skip_blank_sql(at);
        bool is_command = *sql == '\\';
        size_t length = *sql ? piece_length(sql, is_command, is_end) : 0;
        if (!length)
            break;
        script->line += count_lines(at, sql);
        if (*sql != ';' && !run_piece(script, sql, length, is_command))
            script->has_failed = true;
        script->line += count_lines(sql, sql + length);
        at = sql + length;
    }
    if (at != start) {
        script->pending.length -= (size_t)(at - start);
        memmove(start, at, script->pending.length + 1);
    }
    return goes_on(script);
}

// Text that cannot be given to the library, whose strings end at a NUL.
static bool refuse_nul(Script *script)
{
    report_problem(script->shell, "%s%sthe input has a NUL byte; is it text?", script->name ? script->name : "",
                   script->name ? ": " : "");
    script->has_failed = true;
    return false;
}

bool script_feed(Script *script, const char *bytes, size_t length)
{
    if (script->data) {
        if (!take_data(script, bytes, length))
            run_with_data(script);
        return goes_on(script);
    }
    if (memchr(bytes, '\0', length))
        return refuse_nul(script);
    buffer_add(&script->pending, bytes, length);
    bool may_end = memchr(bytes, ';', length) || *skip_blank_sql(script->pending.bytes) == '\\';
    return may_end ? drain(script, false) : goes_on(script);
}

bool script_finish(Script *script)
{
    if (goes_on(script))
        drain(script, true);
    if (script->data)
        run_with_data(script);                             // the end of the file ends the data, too
    buffer_free(&script->pending);
    return !script->has_failed && !watch_interrupted();
}

void script_drop(Script *script)
{
    buffer_clear(&script->pending);
    script->line = 1;
}

bool script_is_inside(const Script *script)
{
    return script->data || (script->pending.bytes && *skip_blank_sql(script->pending.bytes));
}

bool script_run_text(Shell *shell, const char *text)
{
    Script script = { .shell = shell, .line = 1 };
    script_feed(&script, text, strlen(text));
    return script_finish(&script);
}

bool script_run_stream(Shell *shell, FILE *stream, const char *name)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    Script script = { .shell = shell, .name = name, .line = 1, .has_data = true };
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&line, &capacity, stream);
    size_t skip = length >= 3 && !memcmp(line, byte_order_mark, 3) ? 3 : 0;
    while (length >= 0 && script_feed(&script, line + skip, (size_t)length - skip)) {
        skip = 0;
        length = getline(&line, &capacity, stream);
    }
    free(line);
    if (ferror(stream)) {
        report_problem(shell, "could not read %s: %s", name ? name : "standard input", strerror(errno));
        script.has_failed = true;
    }
    return script_finish(&script);
}

bool script_run_file(Shell *shell, const char *path)
{
    if (shell->script_depth >= MAX_SCRIPT_DEPTH) {
        report_problem(shell, "%s: \\i goes deeper than %d files", path, MAX_SCRIPT_DEPTH);
        return false;
    }
    FILE *stream = fopen(path, "r");
    if (!stream) {
        report_problem(shell, "could not open %s: %s", path, strerror(errno));
        return false;
    }
    shell->script_depth++;
    bool is_fine = script_run_stream(shell, stream, path);
    shell->script_depth--;
    fclose(stream);
    return is_fine;
}

bool script_run_command(Shell *shell, const char *line)
{
    bool is_fine = command_run(shell, line);
    const NextFile next = shell->next_file;
    if (!next.path)
        return is_fine;
    shell->next_file = (NextFile){ 0 };                    // the file may name another one
    is_fine = script_run_file(shell, next.path);
    if (next.is_temporary)
        unlink(next.path);
    free(next.path);
    fflush(stdout);
    return is_fine;
}
