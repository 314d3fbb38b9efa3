// main.c - the command line: weft [OPTION]... [DB], weft run and the other commands.
//
// -c and -f run in the order given; without any, standard input is read: with a prompt when it is a terminal.

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/manual.h"
#include "shell/devices.h"
#include "shell/gen.h"
#include "shell/shell.h"
#include "sql/refusals.h"

static const char help_text[] =
    "Usage: weft [OPTION]... [DB]      run SQL on the database in directory DB, or on one in memory\n"
    "       weft run ... DB FILE...    run many statements together; see weft run --help\n"
    "       weft devices               list CPU and GPUs; see weft devices --help\n"
    "       weft import FILE [TABLE]   make a table from a file of CSV or JSON lines; see weft import --help\n"
    "       weft gen BENCHMARK ...     make the tables of a benchmark; see weft gen --help\n"
    "       weft lab EXPERIMENT        run an experiment of the papers behind Weft; see weft lab --help\n"
    "       weft slt ... FILE...       run SQL tests; see weft slt --help\n"
    "       weft functions             print the manual of functions and aggregates (docs/functions.md)\n"
    "       weft sql [--short]         print what of SQL works and what does not (docs/sql.md)\n"
    "       weft top                   says how to look at what runs\n"
    "\n"
    "  -c, --command SQL      run SQL and exit; may be given more than once, mixed with -f\n"
    "  -f, --file FILE        run the statements in FILE and exit; - is standard input\n"
    "      --csv              print results as CSV with a header line\n"
    "      --json             print results as JSON, an array of objects each\n"
    "  -x, --expanded         print one line per value\n"
    "  -q, --quiet            do not print CREATE TABLE, INSERT 0 3 and the like\n"
    "      --timing           say on standard error how long each statement took\n"
    "      --set NAME=VALUE   change a setting first; may be given more than once\n"
    "      --keep-going       continue after an error (the exit status is still 1)\n"
    "      --help             this text\n"
    "      --version          the version\n"
    "\n"
    "Without -c and -f, statements come from standard input; at a prompt when it is a terminal.\n"
    "Exit status: 0 when all went well, 1 after an SQL error, 2 for a usage error.\n";

// What -c, -f and --set ask for, in order.
typedef struct ShellTask { enum { JOB_COMMAND, JOB_FILE, JOB_SET } kind; const char *argument; } ShellTask;

typedef struct ShellOptions {
    const char *path;                                      // of the database; NULL: in memory
    ShellTask  *jobs;
    int         n_jobs;
    bool        has_work;                                  // -c or -f was given
} ShellOptions;

enum { OPTION_CSV = 256, OPTION_JSON, OPTION_TIMING, OPTION_SET, OPTION_KEEP_GOING, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    { "command",    required_argument, NULL, 'c' },
    { "file",       required_argument, NULL, 'f' },
    { "csv",        no_argument,       NULL, OPTION_CSV },
    { "json",       no_argument,       NULL, OPTION_JSON },
    { "expanded",   no_argument,       NULL, 'x' },
    { "quiet",      no_argument,       NULL, 'q' },
    { "timing",     no_argument,       NULL, OPTION_TIMING },
    { "set",        required_argument, NULL, OPTION_SET },
    { "keep-going", no_argument,       NULL, OPTION_KEEP_GOING },
    { "help",       no_argument,       NULL, OPTION_HELP },
    { "version",    no_argument,       NULL, OPTION_VERSION },
    { NULL, 0, NULL, 0 },
};

static void usage_error(const char *message, const char *argument)
{
    if (message)
        fprintf(stderr, "weft: %s%s\n", message, argument);
    fputs("Try 'weft --help'.\n", stderr);
    exit(EXIT_USAGE);
}

static void add_job(ShellOptions *options, int kind, const char *argument)
{
    options->jobs = must_realloc(options->jobs, (size_t)(options->n_jobs + 1) * sizeof *options->jobs);
    options->jobs[options->n_jobs++] = (ShellTask){ kind, argument };
    options->has_work |= kind != JOB_SET;
}

static void add_setting(ShellOptions *options, const char *assignment)
{
    Buffer sql = { 0 };
    if (!setting_sql(assignment, &sql))
        usage_error("--set takes NAME=VALUE, not ", assignment);
    buffer_free(&sql);
    add_job(options, JOB_SET, assignment);
}

static void parse_options(int argc, char **argv, Shell *shell, ShellOptions *options)
{
    int option;
    while ((option = getopt_long(argc, argv, "c:f:xq", long_options, NULL)) != -1) {
        switch (option) {
        case 'c':               add_job(options, JOB_COMMAND, optarg); break;
        case 'f':               add_job(options, JOB_FILE, optarg); break;
        case 'x':               shell->is_expanded = true; break;
        case 'q':               shell->is_quiet = true; break;
        case OPTION_CSV:        shell->format = FORMAT_CSV; break;
        case OPTION_JSON:       shell->format = FORMAT_JSON; break;
        case OPTION_TIMING:     shell->has_timing = true; break;
        case OPTION_SET:        add_setting(options, optarg); break;
        case OPTION_KEEP_GOING: shell->keep_going = true; break;
        case OPTION_HELP:       fputs(help_text, stdout); exit(0);
        case OPTION_VERSION:    puts("weft " WEFT_VERSION); exit(0);
        default:                usage_error(NULL, NULL);   // getopt has said what is wrong
        }
    }
    if (optind < argc)
        options->path = argv[optind++];
    if (options->path && strcmp(options->path, ":memory:") == 0)
        options->path = NULL;
    if (optind < argc)
        usage_error("only one database at a time: ", argv[optind]);
}

// A setting is said quietly, and before any other work.
static bool run_settings(Shell *shell, const ShellOptions *options)
{
    bool is_fine = true;
    for (int i = 0; i < options->n_jobs && is_fine; i++) {
        Buffer sql = { 0 };
        weft_result *result = NULL;
        weft_error error = { .status = WEFT_OK };
        if (options->jobs[i].kind != JOB_SET || !setting_sql(options->jobs[i].argument, &sql))
            continue;
        is_fine = weft_query(shell->session, sql.bytes, &result, &error) == WEFT_OK;
        if (is_fine)
            report_notices(result);
        else
            report_error(shell, &error, NULL, NULL, 1);
        weft_result_free(result);
        buffer_free(&sql);
    }
    return is_fine;
}

static bool run_job(Shell *shell, const ShellTask *job)
{
    if (job->kind == JOB_COMMAND)
        return script_run_text(shell, job->argument);
    if (job->kind == JOB_FILE && !strcmp(job->argument, "-"))
        return script_run_stream(shell, stdin, NULL);
    return job->kind == JOB_SET || script_run_file(shell, job->argument);
}

static bool run_jobs(Shell *shell, const ShellOptions *options)
{
    bool is_fine = true;
    for (int i = 0; i < options->n_jobs && !shell->wants_exit; i++) {
        if (!run_job(shell, &options->jobs[i])) {
            is_fine = false;
            if (!shell->keep_going || watch_interrupted())
                break;
        }
    }
    return is_fine;
}

static int work(Shell *shell, const ShellOptions *options)
{
    if (!run_settings(shell, options))
        return EXIT_SQL_ERROR;
    if (shell->is_interactive)
        return repl_run(shell, options->path);
    bool is_fine = options->has_work ? run_jobs(shell, options) : script_run_stream(shell, stdin, NULL);
    return is_fine ? 0 : EXIT_SQL_ERROR;
}

// weft sales.csv would make a database sales.csv.weft beside the file.  Names in .weft are the library's to refuse.
static void refuse_file(const char *path)
{
    struct stat info;
    const size_t length = path ? strlen(path) : 0;
    const bool is_ours = length > 5 && !strcmp(path + length - 5, ".weft");
    if (!path || is_ours || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return;
    fprintf(stderr, "weft: %s is a file, and a database is a directory.\n"
                    "To query the file: weft -c \"select * from '%s'\"; to make a table of it: weft import %s\n",
            path, path, path);
    exit(EXIT_USAGE);
}

static int shell_main(int argc, char **argv)
{
    Shell shell = { .format = FORMAT_TABLE, .has_pager = true, .is_auto_expanded = true, .rows_shown = 1000 };
    ShellOptions options = { 0 };
    weft_error error = { .status = WEFT_OK };
    int status = EXIT_SQL_ERROR;

    terminal_look(&shell);
    parse_options(argc, argv, &shell, &options);
    refuse_file(options.path);
    shell.is_interactive = !options.has_work && isatty(STDIN_FILENO) && shell.out_is_terminal;
    if (weft_open(options.path, &shell.db, &error) || weft_connect(shell.db, &shell.session, &error)) {
        report_error(&shell, &error, NULL, NULL, 1);
    } else {
        watch_start(&shell);
        status = work(&shell, &options);
        watch_stop();
    }
    background_end(&shell);
    weft_disconnect(shell.session);
    weft_close(shell.db);
    output_to(&shell, "");
    free(shell.last_sql);
    free(options.jobs);
    if (fflush(stdout) || ferror(stdout)) {
        report_problem(&shell, "could not write the output: %s", strerror(errno));
        status = EXIT_SQL_ERROR;
    }
    return status;
}

static int print_manual(void (*write)(Text *text))
{
    Text text = { 0 };
    write(&text);
    fputs(text.bytes, stdout);
    text_free(&text);
    return 0;
}

static int functions_main(int argc, char **argv)
{
    if (argc > 1)
        usage_error("weft functions takes no arguments: ", argv[1]);
    return print_manual(manual_write);
}

static int sql_main(int argc, char **argv)
{
    const bool is_short = argc == 2 && !strcmp(argv[1], "--short");
    if (argc > 1 && !is_short)
        usage_error("weft sql takes --short, not ", argv[1]);
    return print_manual(is_short ? refusals_write_short : refusals_write);
}

static int help_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    fputs(help_text, stdout);
    return 0;
}

// A database belongs to one process, so there is nothing for another to look at.
static int top_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    fputs("weft: weft top cannot look into another process, which has its database to itself.\n"
          "Look from inside:\n"
          "  weft run --top DB FILE...    shows what runs while it runs\n"
          "  \\top at the prompt           shows what runs beside it (\\bg STATEMENT)\n"
          "  explain (network) select 1   and weft_riders, in any session of the process\n"
          "A database of that name is ./top\n", stderr);
    return EXIT_USAGE;
}

// ---- which command ------------------------------------------------------------------------------------------------

static const struct Subcommand { const char *name; int (*run)(int argc, char **argv); } subcommands[] = {
    { "run", run_main },   { "devices", devices_main },     { "gen", gen_main }, { "import", import_main },
    { "lab", lab_main },   { "functions", functions_main }, { "sql", sql_main }, { "slt", slt_main },
    { "help", help_main }, { "top", top_main },
};

enum { N_SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

// Whether MORE is FEWER with one letter more.
static bool has_one_more(const char *more, const char *fewer)
{
    while (*fewer && *more == *fewer)
        more++, fewer++;
    return *more && !strcmp(more + 1, fewer);
}

// Two letters that stand next to each other were exchanged, or one is another.
static bool is_mistyped(const char *word, const char *name, bool may_differ)
{
    while (*name && *word == *name)
        word++, name++;
    if (!*name || !*word)
        return false;
    const bool is_exchanged = word[0] == name[1] && word[1] == name[0] && !strcmp(word + 2, name + 2);
    return is_exchanged || (may_differ && !strcmp(word + 1, name + 1));
}

// The command that was meant, perhaps.  Of short names fewer slips are looked for: too many words are near them.
static const char *meant_command(const char *word)
{
    for (int i = 0; i < N_SUBCOMMANDS; i++) {
        const char *name = subcommands[i].name;
        const bool is_long = strlen(name) > 4;
        if (has_one_more(word, name) || (is_long && has_one_more(name, word)) ||
            (strlen(word) == strlen(name) && is_mistyped(word, name, is_long)))
            return name;
    }
    return NULL;
}

static bool is_database(const char *name)
{
    Buffer path = { 0 };
    buffer_puts(&path, name);
    buffer_puts(&path, ".weft");
    const bool is_there = access(name, F_OK) == 0 || access(path.bytes, F_OK) == 0;
    buffer_free(&path);
    return is_there;
}

// A slip of the finger should not leave a directory behind.
static void refuse_mistyped(const char *word)
{
    const char *meant = meant_command(word);
    if (!meant || is_database(word))
        return;
    fprintf(stderr, "weft: there is no command and no database \"%s\". Did you mean weft %s?\n"
                    "For a new database of that name, write weft ./%s\n", word, meant, word);
    exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN);                               // a file that may not grow is an error of the statement
    for (int i = 0; argc > 1 && i < N_SUBCOMMANDS; i++)
        if (!strcmp(argv[1], subcommands[i].name))
            return subcommands[i].run(argc - 1, argv + 1);
    if (argc > 1)
        refuse_mistyped(argv[1]);
    return shell_main(argc, argv);
}
