// run.c - the command `weft run`: all statements of some files together, and what sharing saved.
//
// What files and options say is read here; run_clients.c runs it, run_report.c sums it up.

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "shell/run.h"

static const char help_text[] =
    "Usage: weft run [OPTION]... DB FILE...\n"
    "\n"
    "Runs the statements in the files on the database in directory DB, all at the same time and each in a session of\n"
    "its own, and says what they took: time, how often each table was read, what sharing the reads has saved.\n"
    "FILE may be - for standard input.  There is no order between the statements.\n"
    "\n"
    "  -r, --repeat N         run the whole set N times\n"
    "  -c, --clients N        closed loop: N clients, each takes the next statement when its last has ended\n"
    "      --rate R           open loop: R statements a second arrive, whether or not others have ended\n"
    "      --seed N           with --rate: arrivals at random (a Poisson process) instead of evenly spaced\n"
    "      --duration S       continue for S seconds, over and over\n"
    "      --set NAME=VALUE   change a setting in every session, as in sharing=off; may be given more than once\n"
    "  -q, --quiet            print the summary only, not the results\n"
    "      --json             print the summary as JSON, and no results\n"
    "      --top              show on the terminal what is running\n"
    "      --progress         say once a second how many statements ended, also where there is no terminal\n"
    "      --help             this text\n"
    "\n"
    "A statement that fails does not stop the others.  Ctrl-C cancels all.\n"
    "Exit status: 0 when all went well, 1 when a statement failed, 2 for a usage error.\n";

// ---- the command line -----------------------------------------------------------------------------------------------

enum { OPTION_RATE = 256, OPTION_SEED, OPTION_DURATION, OPTION_SET, OPTION_JSON, OPTION_TOP, OPTION_PROGRESS,
       OPTION_HELP };

static const struct option long_options[] = {
    { "repeat",   required_argument, NULL, 'r' },
    { "clients",  required_argument, NULL, 'c' },
    { "rate",     required_argument, NULL, OPTION_RATE },
    { "seed",     required_argument, NULL, OPTION_SEED },
    { "duration", required_argument, NULL, OPTION_DURATION },
    { "set",      required_argument, NULL, OPTION_SET },
    { "quiet",    no_argument,       NULL, 'q' },
    { "json",     no_argument,       NULL, OPTION_JSON },
    { "top",      no_argument,       NULL, OPTION_TOP },
    { "progress", no_argument,       NULL, OPTION_PROGRESS },
    { "help",     no_argument,       NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

__attribute__((format(printf, 1, 2), noreturn)) static void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("weft run: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\nTry 'weft run --help'.\n", stderr);
    exit(EXIT_USAGE);
}

static long whole_number(const char *option, const char *text, long max)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < 1 || number > max)
        usage_error("%s takes a number from 1 to %ld, not '%s'", option, max, text);
    return number;
}

static double positive_number(const char *option, const char *text, double max)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number > 0) || number > max)
        usage_error("%s takes a number above 0 and at most %.0f, not '%s'", option, max, text);
    return number;
}

static void set_mode(RunOptions *options, RunMode mode)
{
    if (options->mode != RUN_AT_ONCE && options->mode != mode)
        usage_error("--clients and --rate do not go together");
    options->mode = mode;
}

static void add_setting(RunOptions *options, const char *assignment)
{
    Buffer sql = { 0 };
    if (!setting_sql(assignment, &sql))
        usage_error("--set takes NAME=VALUE, not '%s'", assignment);
    buffer_free(&sql);
    options->settings = must_realloc(options->settings, (size_t)(options->n_settings + 1) * sizeof *options->settings);
    options->settings[options->n_settings++] = assignment;
}

static void set_seed(RunOptions *options, const char *text)
{
    char *end;
    options->seed = strtoull(text, &end, 10);
    options->is_poisson = true;
    if (end == text || *end || *text == '-')
        usage_error("--seed takes a whole number, not '%s'", text);
}

static void take_option(RunOptions *options, int option)
{
    switch (option) {
    case 'r':             options->repeat = whole_number("--repeat", optarg, 1000000000); break;
    case 'c':
        options->n_clients = whole_number("--clients", optarg, MOST_CLIENTS);
        set_mode(options, RUN_CLIENTS);
        break;
    case OPTION_RATE:
        options->rate = positive_number("--rate", optarg, 1e6);
        set_mode(options, RUN_RATE);
        break;
    case OPTION_SEED:     set_seed(options, optarg); break;
    case OPTION_DURATION: options->duration_ms = 1e3 * positive_number("--duration", optarg, 1e6); break;
    case OPTION_SET:      add_setting(options, optarg); break;
    case 'q':             options->is_quiet = true; break;
    case OPTION_JSON:     options->is_json = true; break;
    case OPTION_TOP:      options->has_top = true; break;
    case OPTION_PROGRESS: options->has_progress = true; break;
    case OPTION_HELP:     fputs(help_text, stdout); exit(0);
    default:              fputs("Try 'weft run --help'.\n", stderr); exit(EXIT_USAGE);   // getopt has said why
    }
}

static void parse_options(int argc, char **argv, RunOptions *options)
{
    int option;
    *options = (RunOptions){ .mode = RUN_AT_ONCE, .n_clients = 2 };
    argv[0] = (char *)"weft run";                          // getopt begins its messages with it
    optind = 1;
    while ((option = getopt_long(argc, argv, "r:c:q", long_options, NULL)) != -1)
        take_option(options, option);
    if (!options->repeat && !options->duration_ms)
        options->repeat = 1;
    if (options->is_poisson && options->mode != RUN_RATE)
        usage_error("--seed needs --rate");
    if (argc - optind < 2)
        usage_error("needs a database and at least one file");
    options->path = argv[optind++];
}

// ---- files ----------------------------------------------------------------------------------------------------------

static void add_statement(Run *run, const char *path, int line, const char *sql, size_t length)
{
    Buffer text = { 0 };
    buffer_add(&text, sql, length);
    if ((run->n_statements & (run->n_statements - 1)) == 0)  // a power of two: twice the room
        run->statements = must_realloc(run->statements, (size_t)(2 * run->n_statements + 1) * sizeof *run->statements);
    run->statements[run->n_statements++] = (RunStatement){ .path = path, .line = line, .sql = text.bytes };
}

// q11 for bench/ssb/queries/q11.sql; all:3 for the third of several.
static void name_statements(Run *run, long first)
{
    for (long i = first; i < run->n_statements; i++) {
        const char *path = run->statements[i].path, *slash = strrchr(path, '/');
        const char *base = slash ? slash + 1 : path;
        size_t length = strlen(base);
        if (length > 4 && !strcmp(base + length - 4, ".sql"))
            length -= 4;
        Buffer name = { 0 };
        buffer_add(&name, base, length);
        if (run->n_statements - first > 1) {
            char number[24];
            snprintf(number, sizeof number, ":%ld", i - first + 1);
            buffer_puts(&name, number);
        }
        run->statements[i].name = name.bytes;
    }
}

static int count_lines(const char *from, const char *to)
{
    int lines = 0;
    for (; from < to; from++)
        lines += *from == '\n';
    return lines;
}

static bool cut_statements(Run *run, const char *path, const char *text)
{
    const char *at = text;
    long first = run->n_statements;
    int line = 1;
    for (;;) {
        const char *sql = skip_blank_sql(at);
        if (!*sql)
            break;
        line += count_lines(at, sql);                      // from the last statement on: a file may have thousands
        if (*sql == '\\') {
            report_problem(&run->shell, "%s:%d: weft run takes SQL only, no commands", path, line);
            return false;
        }
        size_t length = weft_statement_length(sql);
        length = length ? length : strlen(sql);            // the last one needs no ';'
        if (*sql != ';')
            add_statement(run, path, line, sql, length);
        line += count_lines(sql, sql + length);
        at = sql + length;
    }
    name_statements(run, first);
    return true;
}

static bool read_stream(FILE *stream, Buffer *text)
{
    char block[65536];
    size_t n_bytes;
    buffer_clear(text);
    while ((n_bytes = fread(block, 1, sizeof block, stream)) > 0)
        buffer_add(text, block, n_bytes);
    return !ferror(stream);
}

static bool read_file(Run *run, const char *path)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    Buffer text = { 0 };
    bool is_stdin = !strcmp(path, "-");
    FILE *stream = is_stdin ? stdin : fopen(path, "r");
    const char *shown = is_stdin ? "stdin" : path;         // in errors, and in the names of statements
    bool is_fine = stream && read_stream(stream, &text);
    if (!is_fine) {
        report_problem(&run->shell, "could not read %s: %s", shown, strerror(errno));
    } else if (strlen(text.bytes) != text.length) {
        report_problem(&run->shell, "%s has a NUL byte; is it text?", shown);
        is_fine = false;
    } else {
        is_fine = cut_statements(run, shown, text.bytes + (strncmp(text.bytes, byte_order_mark, 3) ? 0 : 3));
    }
    if (stream && !is_stdin)
        fclose(stream);
    buffer_free(&text);
    return is_fine;
}

static bool read_files(Run *run, int argc, char **argv)
{
    for (int i = optind; i < argc; i++)
        if (!read_file(run, argv[i]))
            return false;
    if (!run->n_statements) {
        report_problem(&run->shell, "there is no statement in these files");
        return false;
    }
    if (run->options.mode == RUN_AT_ONCE && run->n_statements > MOST_CLIENTS) {
        report_problem(&run->shell, "at most %d statements at once; --clients takes any number", MOST_CLIENTS);
        return false;
    }
    return true;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

// Results in the order of the files, each after a line that names it.
static void print_results(Run *run)
{
    for (long i = 0; i < run->n_statements; i++) {
        RunStatement *statement = &run->statements[i];
        if (statement->result) {
            report_notices(statement->result);
            printf("%s-- %s\n", i ? "\n" : "", statement->name);
            run->shell.n_printed = 0;                      // the empty line is there already
            print_result(&run->shell, statement->result, stdout);
        }
        if (statement->n_failed && !(run->is_stopped && statement->error.status == WEFT_QUERY_CANCELED)) {
            fflush(stdout);
            report_error(&run->shell, &statement->error, statement->sql, statement->path, statement->line);
        }
    }
    if (!run->options.is_quiet && !run->options.is_json)
        putchar('\n');
}

static bool run_all(Run *run)
{
    weft_error error = { .status = WEFT_OK };
    Shell *shell = &run->shell;
    if (weft_open(run->options.path, &shell->db, &error) || weft_connect(shell->db, &shell->session, &error)) {
        report_error(shell, &error, NULL, NULL, 1);
        return false;
    }
    if (!run_rounds(run))
        return false;
    print_results(run);
    if (run->options.is_json)
        print_summary_json(run, stdout);
    else
        print_summary(run, stdout);
    bool is_fine = !run->is_stopped;
    for (long i = 0; i < run->n_statements; i++)
        is_fine &= !run->statements[i].n_failed;
    return is_fine;
}

static void free_statements(Run *run)
{
    for (long i = 0; i < run->n_statements; i++) {
        RunStatement *statement = &run->statements[i];
        weft_result_free(statement->result);
        free(statement->times_ms);
        free(statement->notice);
        free(statement->name);
        free(statement->sql);
    }
    free(run->statements);
}

int run_main(int argc, char **argv)
{
    Run run = { .shell.format = FORMAT_TABLE };
    parse_options(argc, argv, &run.options);
    terminal_look(&run.shell);
    if (run.options.has_top && !(run.shell.err_is_terminal && run.shell.has_escapes)) {
        fputs("notice: --top needs a terminal for standard error; going on without\n", stderr);
        run.options.has_top = false;
    }
    bool is_fine = read_files(&run, argc, argv) && run_all(&run);
    free_statements(&run);
    figures_free(&run.figures);
    free(run.rate.seconds);
    weft_disconnect(run.shell.session);
    weft_close(run.shell.db);
    free(run.options.settings);
    if (fflush(stdout) || ferror(stdout)) {
        report_problem(&run.shell, "could not write the output: %s", strerror(errno));
        is_fine = false;
    }
    return is_fine ? 0 : EXIT_SQL_ERROR;
}
