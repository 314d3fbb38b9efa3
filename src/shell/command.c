// command.c - lines that begin with a backslash: \d, \timing, \i, ...
//
// They work at the prompt and in scripts alike.  One entry in the list is one command; \? prints the list.

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"

typedef struct Command {
    const char *name, *argument, *help;
    bool (*run)(Shell *shell, const char *argument);       // argument: trimmed, "" when there is none
} Command;

// ---- looking at tables -------------------------------------------------------------------------------------------

static bool list_tables(Shell *shell, const char *argument)
{
    (void)argument;
    static const char sql[] = "select name as \"table\", rows, chunks, bytes from weft_tables order by name";
    return run_statement(shell, sql, NULL, 1);
}

// The name as SQL would read it: folded to lower case, unless in double quotes.
static char *fold_name(const char *argument)
{
    size_t length = strlen(argument);
    char *name = must_copy(argument);
    if (length >= 2 && argument[0] == '"' && argument[length - 1] == '"') {
        memmove(name, name + 1, length - 2);
        name[length - 2] = '\0';
    } else {
        for (char *p = name; *p; p++)
            *p = (char)tolower((unsigned char)*p);
    }
    return name;
}

static bool describe_table(Shell *shell, const char *name)
{
    Buffer sql = { 0 };
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    buffer_puts(&sql, "select column_name as \"column\", type, not_null from weft_columns where table_name = ");
    buffer_add_quoted(&sql, name);
    buffer_puts(&sql, " order by position");
    bool is_fine = weft_query(shell->session, sql.bytes, &result, &error) == WEFT_OK;
    if (!is_fine) {
        report_error(shell, &error, NULL, NULL, 1);
    } else if (!weft_result_rows(result)) {
        report_problem(shell, "there is no table \"%s\"; \\d lists the tables", name);
        is_fine = false;
    } else {
        print_result(shell, result, stdout);
    }
    weft_result_free(result);
    buffer_free(&sql);
    return is_fine;
}

static bool describe(Shell *shell, const char *argument)
{
    if (!*argument)
        return list_tables(shell, argument);
    char *name = fold_name(argument);
    bool is_fine = describe_table(shell, name);
    free(name);
    return is_fine;
}

// Which queries ride on which scans, their memory, and how often tables were read since the database was opened.  At a
// prompt that is the only session, nothing else runs; a program that serves a shell beside other sessions sees those.
static bool show_top(Shell *shell, const char *argument)
{
    (void)argument;
    static const char riders[] = "select query, table_name as \"table\", chunks_done as done, chunks, "
                                 "fellow_riders as fellows, woven_with as woven, pipeline "
                                 "from weft_riders order by query, chunks_done";
    static const char queue[] = "select query, state, position as place, priority, bytes_wanted as wanted, "
                                "bytes_reserved as reserved, bytes_used as used, waited_ms "
                                "from weft_queue order by state, position, query";
    static const char scans[] = "select table_name as \"table\", rides, chunks_read, chunks_ridden, bytes_read, "
                                "bytes_ridden from weft_scans where table_name not like 'weft%' "
                                "order by bytes_ridden desc";
    return run_statement(shell, riders, NULL, 1) && run_statement(shell, queue, NULL, 1) &&
           run_statement(shell, scans, NULL, 1);
}

// ---- switches ----------------------------------------------------------------------------------------------------

// Sets the switch to "on" or "off", or turns it over when neither is said.
static bool flip(Shell *shell, bool *is_on, const char *what, const char *argument)
{
    if (!*argument) {
        *is_on = !*is_on;
    } else if (!strcmp(argument, "on") || !strcmp(argument, "off")) {
        *is_on = !strcmp(argument, "on");
    } else {
        report_problem(shell, "%s is on or off, not \"%s\"", what, argument);
        return false;
    }
    if (shell->is_interactive)
        printf("%s is %s.\n", what, *is_on ? "on" : "off");
    return true;
}

static bool set_timing(Shell *shell, const char *argument)
{
    return flip(shell, &shell->has_timing, "Timing", argument);
}

static bool set_expanded(Shell *shell, const char *argument)
{
    return flip(shell, &shell->is_expanded, "Expanded display", argument);
}

static bool set_format(Shell *shell, const char *argument)
{
    static const char *const names[] = { [FORMAT_TABLE] = "table", [FORMAT_CSV] = "csv", [FORMAT_JSON] = "json" };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (!strcmp(argument, names[i])) {
            shell->format = (OutputFormat)i;
            return true;
        }
    }
    report_problem(shell, "\\format takes table, csv or json");
    return false;
}

// ---- the rest ----------------------------------------------------------------------------------------------------

static bool include(Shell *shell, const char *argument)
{
    if (!*argument) {
        report_problem(shell, "\\i needs a file name");
        return false;
    }
    return script_run_file(shell, argument);
}

static bool quit(Shell *shell, const char *argument)
{
    (void)argument;
    shell->wants_exit = true;
    return true;
}

static bool help(Shell *shell, const char *argument);

static const Command commands[] = {
    { "\\d",      "[TABLE]",        "the tables, or the columns of one",              describe },
    { "\\dt",     "",               "the tables",                                     list_tables },
    { "\\format", "table|csv|json", "how results are printed",                        set_format },
    { "\\i",      "FILE",           "run the statements in a file",                   include },
    { "\\timing", "[on|off]",       "say how long each statement took",               set_timing },
    { "\\top",    "",               "what is running, and how often tables were read", show_top },
    { "\\x",      "[on|off]",       "one line per value instead of one line per row", set_expanded },
    { "\\?",      "",               "this list",                                      help },
    { "\\q",      "",               "exit (so does Ctrl-D)",                         quit },
};

static bool help(Shell *shell, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %-15s %s\n", commands[i].name, commands[i].argument, commands[i].help);
    if (shell->is_interactive)
        puts("A statement ends with ';'.  Ctrl-C cancels it, or drops what you have typed.");
    return true;
}

const char *command_name(int n)
{
    return n < (int)(sizeof commands / sizeof *commands) ? commands[n].name : NULL;
}

bool command_run(Shell *shell, const char *line)
{
    size_t name_length = strcspn(line, " \t\r\n;");
    const char *argument = line + name_length + strspn(line + name_length, " \t\r\n;");
    size_t length = strlen(argument);
    while (length && strchr(" \t\r\n;", argument[length - 1]))   // the ';' is habit, not part of a name
        length--;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) != name_length || strncmp(commands[i].name, line, name_length))
            continue;
        char *trimmed = must_copy(argument);
        trimmed[length] = '\0';
        bool is_fine = commands[i].run(shell, trimmed);
        free(trimmed);
        fflush(stdout);
        return is_fine;
    }
    report_problem(shell, "there is no %.*s; \\? lists the commands", (int)name_length, line);
    return false;
}
