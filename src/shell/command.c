// command.c - lines that begin with a backslash: \d, \timing, \i, ...
//
// They work at the prompt and in scripts alike.  One entry in the list is one command; \? prints the list.  A command
// that has a file of statements run only names it (Shell.next_file): whoever gave the command runs it (script.c).

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plan/manual.h"
#include "shell/shell.h"
#include "sql/sql.h"

typedef struct Command {
    const char *name, *argument, *help;
    bool (*run)(Shell *shell, const char *argument);       // argument: trimmed, "" when there is none
} Command;

// A query of a command's own: the last statement, which \e and \watch run, stays the one that was typed.
static bool run_own(Shell *shell, const char *sql)
{
    char *typed = shell->last_sql;
    shell->last_sql = NULL;
    const bool is_fine = run_statement(shell, sql, NULL, 1);
    free(shell->last_sql);
    shell->last_sql = typed;
    return is_fine;
}

// ---- looking at tables -------------------------------------------------------------------------------------------

static bool list_tables(Shell *shell, const char *argument)
{
    (void)argument;
    static const char sql[] = "select name as \"table\", rows, chunks, bytes from weft_tables order by name";
    return run_own(shell, sql);
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

// Keys and indexes of a table, when it has some.
static void show_indexes(Shell *shell, const char *name)
{
    Buffer sql = { 0 };
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    buffer_puts(&sql, "select index_name as index, kind, columns from weft_indexes where table_name = ");
    buffer_add_quoted(&sql, name);
    buffer_puts(&sql, " order by index_name");
    if (weft_query(shell->session, sql.bytes, &result, &error) == WEFT_OK && weft_result_rows(result))
        show_result(shell, result);
    weft_result_free(result);
    buffer_free(&sql);
}

static bool describe_table(Shell *shell, const char *name)
{
    Buffer sql = { 0 };
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    buffer_puts(&sql, "select column_name as \"column\", " SQL_SHOWN_TYPE " as type, is_nullable = 'NO' as not_null "
                      "from information_schema.columns where table_name = ");
    buffer_add_quoted(&sql, name);
    buffer_puts(&sql, " and table_schema = (select min(table_schema) from information_schema.tables "
                      "where table_name = ");
    buffer_add_quoted(&sql, name);
    buffer_puts(&sql, ") order by ordinal_position");      // pg_temp's hides public's
    bool is_fine = weft_query(shell->session, sql.bytes, &result, &error) == WEFT_OK;
    if (!is_fine) {
        report_error(shell, &error, NULL, NULL, 1);
    } else if (!weft_result_rows(result)) {
        report_problem(shell, "there is no table \"%s\"; \\d lists the tables", name);
        is_fine = false;
    } else {
        show_result(shell, result);
        show_indexes(shell, name);
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

// Which kernels serve how many queries, which queries ride on which scans, their memory, how often tables were read
// since the database was opened, and what is kept of earlier queries.  At a prompt only \bg has others run beside it; a
// program that serves a shell beside other sessions sees those.
static bool show_top(Shell *shell, const char *argument)
{
    (void)argument;
    static const char bodies[] = "select table_name as \"table\", " TOP_SHAPE " as shape, " TOP_RUNS " as runs, "
                                 "count(*) as queries, max(classes) as classes, max(slots) as slots, "
                                 "max(cells) as cells, max(expected_gain) as expected_gain from weft_riders "
                                 "group by 1, 2, 3 order by queries desc, 1, 2";
    static const char riders[] = "select query, table_name as \"table\", chunks_done as done, chunks, "
                                 "fellow_riders as fellows, woven_with as woven, pipeline "
                                 "from weft_riders order by query, chunks_done";
    static const char queue[] = "select query, state, position as place, priority, bytes_wanted as wanted, "
                                "bytes_reserved as reserved, bytes_used as used, bytes_spilled as spilled, waited_ms "
                                "from weft_queue order by state, position, query";
    static const char scans[] = "select table_name as \"table\", rides, chunks_read, chunks_ridden, bytes_read, "
                                "bytes_ridden, " TOP_PER_READ " as per_read, " TOP_PER_KERNEL " as per_kernel "
                                "from weft_scans where table_name not like 'weft%' "
                                "order by bytes_ridden desc";
    static const char plans[] = "select what, kept, found, missed from weft_plans";
    const char *const views[] = { bodies, riders, queue, scans, plans };
    for (size_t v = 0; v < sizeof views / sizeof *views; v++)
        if (!run_own(shell, views[v]))
            return false;
    return true;
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
    shell->is_auto_expanded = !strcmp(argument, "auto");
    if (shell->is_auto_expanded) {
        shell->is_expanded = false;
        if (shell->is_interactive)
            puts("Expanded display is used where rows are too wide.");
        return true;
    }
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

static bool set_print_option(Shell *shell, const char *argument)
{
    char name[16] = "", value[24] = "";
    char *end;
    sscanf(argument, "%15s %23s", name, value);
    if (!strcmp(name, "pager"))
        return flip(shell, &shell->has_pager, "Pager", value);
    if (!strcmp(name, "expanded"))
        return set_expanded(shell, value);
    unsigned long long rows = strtoull(value, &end, 10);
    if (strcmp(name, "rows") || end == value || *end || *value == '-') {
        report_problem(shell, "\\pset takes pager on|off, expanded on|off|auto, or rows N (0: all)");
        return false;
    }
    shell->rows_shown = (size_t)rows;
    return true;
}

// ---- files ---------------------------------------------------------------------------------------------------------

static bool copy(Shell *shell, const char *argument)
{
    Buffer sql = { 0 };
    bool is_fine = copy_command_sql(shell, argument, &sql) && run_statement(shell, sql.bytes, NULL, 1);
    buffer_free(&sql);
    return is_fine;
}

static bool set_output(Shell *shell, const char *argument)
{
    return output_to(shell, argument);
}

// ---- the statement before
// --------------------------------------------------------------------------------------------

static bool has_last(Shell *shell, const char *command)
{
    if (shell->last_sql)
        return true;
    report_problem(shell, "%s: there is no statement yet", command);
    return false;
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool is_fine = file && fputs(text, file) >= 0 && fputc('\n', file) >= 0;
    return file && fclose(file) == 0 && is_fine;
}

static bool edit(Shell *shell, const char *argument)
{
    const char *editor = getenv("VISUAL") ? getenv("VISUAL") : getenv("EDITOR") ? getenv("EDITOR") : "vi";
    char path[] = "/tmp/weft-edit-XXXXXX";
    Buffer command = { 0 };
    if (*argument) {
        report_problem(shell, "\\e edits the statement before; \\i runs a file");
        return false;
    }
    int fd = mkstemp(path);
    bool is_fine = fd >= 0 && write_text(path, shell->last_sql ? shell->last_sql : "");
    if (fd >= 0)
        close(fd);
    if (!is_fine) {
        report_problem(shell, "could not write %s: %s", path, strerror(errno));
        return false;
    }
    buffer_puts(&command, editor);
    buffer_puts(&command, " ");
    buffer_puts(&command, path);
    is_fine = system(command.bytes) == 0;
    if (is_fine) {
        shell->next_file = (NextFile){ must_copy(path), .is_temporary = true };
    } else {
        report_problem(shell, "%s failed", editor);
        unlink(path);
    }
    buffer_free(&command);
    return is_fine;
}

// Until Ctrl-C, or an error.
static bool watch(Shell *shell, const char *argument)
{
    char *end;
    double seconds = *argument ? strtod(argument, &end) : 2;
    if (*argument && (*end || !(seconds >= 0.05) || seconds > 86400)) {
        report_problem(shell, "\\watch takes seconds, not \"%s\"", argument);
        return false;
    }
    if (!has_last(shell, "\\watch"))
        return false;
    bool is_fine = true;
    while (is_fine && !watch_interrupted()) {
        is_fine = run_statement(shell, shell->last_sql, NULL, 1);
        time_t whole = (time_t)seconds;
        struct timespec pause = { .tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9) };
        if (is_fine && !watch_interrupted())
            nanosleep(&pause, NULL);
    }
    if (shell->is_interactive)
        watch_forget();
    return is_fine;
}

static bool list_functions(Shell *shell, const char *argument)
{
    (void)shell;
    for (int n = 0; manual_name(n); n++)
        if (!strncmp(manual_name(n), argument, strlen(argument)))
            printf("  %s\n", manual_name(n));
    puts("docs/functions.md and `weft functions` say what they do.");
    return true;
}

// ---- the rest ----------------------------------------------------------------------------------------------------

static bool include(Shell *shell, const char *argument)
{
    if (!*argument) {
        report_problem(shell, "\\i needs a file name");
        return false;
    }
    shell->next_file = (NextFile){ .path = must_copy(argument) };
    return true;
}

static bool quit(Shell *shell, const char *argument)
{
    (void)argument;
    shell->wants_exit = true;
    return true;
}

static bool help(Shell *shell, const char *argument);

static const Command commands[] = {
    { "\\bg",     "[STATEMENT]",    "run it beside the prompt; cancel N, wait; else: list", background_run },
    { "\\copy",   "TABLE FROM ...", "COPY, as psql spells it",                        copy },
    { "\\d",      "[TABLE]",        "the tables, or the columns of one",              describe },
    { "\\df",     "[PREFIX]",       "the functions",                                  list_functions },
    { "\\dt",     "",               "the tables",                                     list_tables },
    { "\\e",      "",               "edit the last statement in $EDITOR and run it",  edit },
    { "\\format", "table|csv|json", "how results are printed",                        set_format },
    { "\\i",      "FILE",           "run the statements in a file",                   include },
    { "\\o",      "[FILE]",         "results go to the file, or back to the screen",  set_output },
    { "\\pset",   "NAME VALUE",     "pager on|off, rows N (0: all), expanded auto",   set_print_option },
    { "\\timing", "[on|off]",       "say how long each statement took",               set_timing },
    { "\\top",    "",               "what is running, and how often tables were read", show_top },
    { "\\watch",  "[SECONDS]",      "run the last statement again and again",         watch },
    { "\\x",      "[on|off|auto]",  "one line per value instead of one line per row", set_expanded },
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
