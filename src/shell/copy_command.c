// copy_command.c - \copy as psql takes it, to COPY.
//
//     \copy sales from ~/sales.csv csv header   ->   copy sales from '/home/me/sales.csv' csv header
//
// The shell and the database are one process, so all that is left to do is the file's name.  It ends at a blank, unless
// it is in quotes.  COPY takes the options of both spellings.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shell/shell.h"

static size_t word_length(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return n;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && !strncasecmp(text, word, length);
}

// Behind FROM or TO, outside of quotes and parentheses; NULL: there is none.
static const char *find_target(const char *argument)
{
    int depth = 0;
    for (const char *p = skip_blank_sql(argument); *p; p = skip_blank_sql(p)) {
        const size_t n = word_length(p);
        if (!depth && (is_word(p, n, "from") || is_word(p, n, "to")))
            return p + n + strspn(p + n, " \t");
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (*p == '\'' || *p == '"') {
            const char *end = strchr(p + 1, *p);
            p = end ? end + 1 : p + strlen(p);
        } else {
            p += n ? n : 1;
        }
    }
    return NULL;
}

static void put_file_name(Buffer *sql, const char *name, size_t length)
{
    const char *home = length && name[0] == '~' && (length == 1 || name[1] == '/') ? getenv("HOME") : NULL;
    Buffer path = { 0 };
    buffer_puts(&path, home ? home : "");
    buffer_add(&path, name + (home ? 1 : 0), length - (home ? 1 : 0));
    buffer_add_quoted(sql, path.bytes);
    buffer_free(&path);
}

// Behind FROM or TO: the name, or the standard stream, and what follows it.
static bool put_target(Shell *shell, Buffer *sql, const char *target)
{
    const size_t n = strcspn(target, " \t\r\n");
    if (is_word(target, n, "program")) {
        report_problem(shell, "\\copy does not run programs; use a pipe, and stdin or stdout");
        return false;
    }
    if (is_word(target, n, "pstdin") || is_word(target, n, "pstdout"))
        buffer_add(sql, target + 1, n - 1);
    else if (!n || *target == '\'' || is_word(target, n, "stdin") || is_word(target, n, "stdout"))
        buffer_add(sql, target, n);
    else
        put_file_name(sql, target, n);
    buffer_puts(sql, target + n);
    return true;
}

bool copy_command_sql(Shell *shell, const char *argument, Buffer *sql)
{
    const char *target = find_target(argument);
    buffer_puts(sql, "copy ");
    if (target) {
        buffer_add(sql, argument, (size_t)(target - argument));
        return put_target(shell, sql, target);
    }
    report_problem(shell, "\\copy takes TABLE FROM FILE or TABLE TO FILE, and options");
    return false;
}
