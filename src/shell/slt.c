// slt.c - weft slt: runs SQL tests in the form of sqllogictest.
//
//     # a row without a match is dropped
//     query II
//     select o.id, c.id from orders o join customers c on o.cust = c.id order by 1
//     ----
//     1 10
//     3 11
//
// A file is a list of records with an empty line after each.  Every file gets a database of its own, in memory.
// docs/shell.md describes the records; slt_values.c compares results.

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "shell/slt.h"

#define SHOWN_LINES 40

static const char help_text[] =
    "Usage: weft slt [OPTION]... FILE...      run SQL tests (sqllogictest), each file in a fresh database\n"
    "\n"
    "      --engine NAME      be called NAME by skipif and onlyif (weft); postgresql for files made for many engines\n"
    "      --set NAME=VALUE   change a setting first; may be given more than once\n"
    "      --tally            a line of fields between tabs for each failure and for each file, for scripts\n"
    "  -v, --verbose          name every record that passes or is skipped\n"
    "      --help             this text\n"
    "\n"
    "Exit status: 0 when all pass, 1 when any fails, 2 for a usage error.\n";

typedef struct Label { char *name; char hash[33]; } Label;

typedef struct Slt {
    bool          is_verbose, is_tally;
    const char   *engine;                                  // what skipif and onlyif call us
    char        **settings;                                // "name=value"
    int           n_settings;
    int           passed, failed, skipped;
    // of the file being run
    int           passed_before, failed_before, skipped_before;
    const char   *path;
    char         *text;                                    // all of it, cut into lines
    char        **lines;
    int           n_lines, next;                           // next: line to read, from 0
    weft_db      *db;
    weft_session *session;
    Label        *labels;
    int           n_labels;
} Slt;

typedef struct Record {
    int         line;                                      // of its first word, from 1
    bool        is_skipped, is_query, wants_error, is_halt, is_nothing;
    const char *pattern;                                   // of the error; "" takes any
    const char *label;                                     // or NULL
    Buffer      sql;
    SltExpect   expect;
} Record;

// ---- verdicts ----------------------------------------------------------------------------------------------------

static void show_sql(const Record *record)
{
    if (!record->sql.length)
        return;
    fputs("    ", stdout);
    for (const char *p = record->sql.bytes; *p; p++) {
        fputc(*p, stdout);
        if (*p == '\n')
            fputs("    ", stdout);
    }
    fputc('\n', stdout);
}

// A field between tabs, on one line.
static void put_field(const char *text)
{
    fputc('\t', stdout);
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' ? ' ' : *text, stdout);
}

// failed, place, how many have passed in this file, SQLSTATE (empty when there was no error), what happened, the SQL.
static void tally_failure(const Slt *slt, const Record *record, const char *what, const weft_error *error)
{
    printf("failed\t%s:%d\t%d", slt->path, record->line, slt->passed - slt->passed_before);
    put_field(error ? error->sqlstate : "");
    put_field(error ? error->message : what);
    put_field(record->sql.length ? record->sql.bytes : "");
    fputc('\n', stdout);
}

// True when that is all that is wanted.
static bool failed(Slt *slt, const Record *record, const char *what, const weft_error *error)
{
    slt->failed++;
    if (slt->is_tally) {
        tally_failure(slt, record, what, error);
        return true;
    }
    printf("%s:%d: %s\n", slt->path, record->line, what);
    show_sql(record);
    return false;
}

static void passed(Slt *slt, const Record *record)
{
    slt->passed++;
    if (slt->is_verbose)
        printf("%s:%d: ok\n", slt->path, record->line);
}

static void show_expected(const SltExpect *expect)
{
    puts("  expected:");
    for (int i = 0; i < expect->n_lines && i < SHOWN_LINES; i++)
        printf("    %s\n", expect->lines[i]);
    if (expect->n_lines > SHOWN_LINES)
        printf("    ... and %d more lines\n", expect->n_lines - SHOWN_LINES);
}

// ---- reading a file ----------------------------------------------------------------------------------------------

static bool read_text(Slt *slt)
{
    Buffer text = { 0 };
    char piece[65536];
    size_t length;
    FILE *file = fopen(slt->path, "r");
    if (!file)
        return false;
    buffer_clear(&text);
    while ((length = fread(piece, 1, sizeof piece, file)) > 0)
        buffer_add(&text, piece, length);
    bool is_fine = !ferror(file);
    fclose(file);
    slt->text = text.bytes;
    return is_fine;
}

static void cut_lines(Slt *slt)
{
    char *line = slt->text;
    int capacity = 0;
    slt->n_lines = slt->next = 0;
    while (*line) {
        if (slt->n_lines == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            slt->lines = must_realloc(slt->lines, (size_t)capacity * sizeof *slt->lines);
        }
        slt->lines[slt->n_lines++] = line;
        size_t length = strcspn(line, "\n");
        char *end = line + length;
        line = *end ? end + 1 : end;
        *end = '\0';
        if (length && end[-1] == '\r')
            end[-1] = '\0';
    }
}

static bool is_blank(const char *line)
{
    return !line[strspn(line, " \t")];
}

// The next word of *REST, cut off with a NUL, or NULL.  *REST moves past it.
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t");
    size_t length = strcspn(word, " \t");
    if (!length)
        return NULL;
    *rest = word + length;
    if (**rest)
        *(*rest)++ = '\0';
    return word;
}

// skipif and onlyif lines before the record.
static bool read_condition(const Slt *slt, Record *record, char *line)
{
    bool is_skip = !strncmp(line, "skipif ", 7), is_only = !strncmp(line, "onlyif ", 7);
    if (!is_skip && !is_only)
        return false;
    char *rest = line + 7, *name = next_word(&rest);
    bool is_us = name && !strcmp(name, slt->engine);
    record->is_skipped |= is_skip ? is_us : !is_us;
    return true;
}

static void read_sql(Slt *slt, Record *record)
{
    buffer_clear(&record->sql);
    for (; slt->next < slt->n_lines && !is_blank(slt->lines[slt->next]); slt->next++) {
        if (!strcmp(slt->lines[slt->next], "----"))
            break;
        buffer_puts(&record->sql, record->sql.length ? "\n" : "");
        buffer_puts(&record->sql, slt->lines[slt->next]);
    }
}

// From ---- to the empty line.
static void read_expected(Slt *slt, Record *record)
{
    if (slt->next < slt->n_lines && !strcmp(slt->lines[slt->next], "----"))
        slt->next++;
    record->expect.lines = slt->lines + slt->next;
    while (slt->next < slt->n_lines && !is_blank(slt->lines[slt->next])) {
        slt->next++;
        record->expect.n_lines++;
    }
}

static const char *read_statement(Slt *slt, Record *record, char *rest)
{
    const char *outcome = next_word(&rest);
    read_sql(slt, record);
    if (!outcome || (strcmp(outcome, "ok") && strcmp(outcome, "error")))
        return "a statement is 'ok' or 'error'";
    record->wants_error = !strcmp(outcome, "error");
    record->pattern = rest + strspn(rest, " \t");
    return NULL;
}

static const char *read_query(Slt *slt, Record *record, char *rest)
{
    static const char *const sorts[] = { "nosort", "rowsort", "valuesort" };     // as in SltSort
    const char *types = next_word(&rest), *sort = next_word(&rest);
    record->is_query = true;
    record->label = next_word(&rest);
    read_sql(slt, record);
    read_expected(slt, record);
    if (!types || types[strspn(types, "IRT")])
        return "a query needs a letter I, R or T per column";
    record->expect.types = types;
    for (int i = 0; sort; i++) {
        if (i > SLT_VALUESORT)
            return "results are sorted by nosort, rowsort or valuesort";
        if (!strcmp(sort, sorts[i])) {
            record->expect.sort = (SltSort)i;
            break;
        }
    }
    return NULL;
}

static const char *read_record(Slt *slt, Record *record, char *line)
{
    char *rest = line;
    const char *kind = next_word(&rest);
    if (!strcmp(kind, "statement"))
        return read_statement(slt, record, rest);
    if (!strcmp(kind, "query"))
        return read_query(slt, record, rest);
    record->is_halt = !strcmp(kind, "halt");
    record->is_nothing = !strcmp(kind, "hash-threshold");  // matters only to those who write expected results
    if (record->is_halt || record->is_nothing)
        return NULL;
    for (; slt->next < slt->n_lines && !is_blank(slt->lines[slt->next]); slt->next++)
        ;
    return "no such record; they are statement, query, halt, hash-threshold, skipif, onlyif";
}

// ---- running one record ------------------------------------------------------------------------------------------

static bool matches(const char *pattern, const weft_error *error)
{
    regex_t regex;
    if (!*pattern || strstr(error->message, pattern) || !strcmp(error->sqlstate, pattern))
        return true;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB))
        return false;
    bool is_match = !regexec(&regex, error->message, 0, NULL, 0) || !regexec(&regex, error->sqlstate, 0, NULL, 0);
    regfree(&regex);
    return is_match;
}

static void show_error(const weft_error *error)
{
    printf("  got:\n    %s [%s]\n", error->message, error->sqlstate);
}

static void check_statement(Slt *slt, const Record *record, weft_status status, const weft_error *error)
{
    if (!status && record->wants_error) {
        if (!failed(slt, record, "an error was expected, and there was none", NULL))
            printf("  expected:\n    %s\n", *record->pattern ? record->pattern : "any error");
    } else if (status && !record->wants_error) {
        if (!failed(slt, record, "failed", error))
            show_error(error);
    } else if (status && !matches(record->pattern, error)) {
        if (!failed(slt, record, "another error was expected", error)) {
            printf("  expected:\n    %s\n", record->pattern);
            show_error(error);
        }
    } else {
        passed(slt, record);
    }
}

// Equal labels promise equal results.  Remembers the first; false when this one differs from it.
static bool label_agrees(Slt *slt, const char *name, const char *hash)
{
    for (int i = 0; i < slt->n_labels; i++) {
        if (!strcmp(slt->labels[i].name, name))
            return !strcmp(slt->labels[i].hash, hash);
    }
    slt->labels = must_realloc(slt->labels, (size_t)(slt->n_labels + 1) * sizeof *slt->labels);
    Label *label = &slt->labels[slt->n_labels++];
    label->name = must_copy(name);
    strcpy(label->hash, hash);
    return true;
}

static void check_query(Slt *slt, const Record *record, const weft_result *result)
{
    SltValues values;
    char what[128];
    int n_columns = weft_result_columns(result);
    if ((size_t)n_columns != strlen(record->expect.types)) {
        snprintf(what, sizeof what, "%zu columns expected, %d came", strlen(record->expect.types), n_columns);
        failed(slt, record, what, NULL);
        return;
    }
    slt_values_get(result, &record->expect, &values);
    if (!slt_values_match(&values, &record->expect)) {
        if (!failed(slt, record, "wrong result", NULL)) {
            show_expected(&record->expect);
            puts("  got:");
            slt_values_print(&values, &record->expect, stdout);
        }
    } else if (record->label && !label_agrees(slt, record->label, values.hash)) {
        failed(slt, record, "the result differs from an earlier one with the same label", NULL);
    } else {
        passed(slt, record);
    }
    slt_values_free(&values);
}

static void run_record(Slt *slt, const Record *record)
{
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    weft_status status = weft_query(slt->session, record->sql.bytes, &result, &error);
    if (!record->is_query) {
        check_statement(slt, record, status, &error);
    } else if (status) {
        if (!failed(slt, record, "failed", &error))
            show_error(&error);
    } else {
        check_query(slt, record, result);
    }
    weft_result_free(result);
}

// ---- running a file ----------------------------------------------------------------------------------------------

// Reads and runs the next record.  False at the end of the file, or at a halt.
static bool step(Slt *slt)
{
    Record record = { .pattern = "" };
    while (slt->next < slt->n_lines) {
        char *line = slt->lines[slt->next++];
        if (is_blank(line) || *line == '#' || read_condition(slt, &record, line))
            continue;
        record.line = slt->next;
        const char *complaint = read_record(slt, &record, line);
        bool goes_on = !record.is_halt || record.is_skipped;
        if (complaint) {
            failed(slt, &record, complaint, NULL);
        } else if (record.is_skipped && !record.is_halt && !record.is_nothing) {
            slt->skipped++;
            if (slt->is_verbose)
                printf("%s:%d: skipped\n", slt->path, record.line);
        } else if (!record.is_halt && !record.is_nothing) {
            run_record(slt, &record);
        }
        buffer_free(&record.sql);
        return goes_on;
    }
    return false;
}

static bool apply_settings(Slt *slt, weft_error *error)
{
    bool is_fine = true;
    for (int i = 0; i < slt->n_settings && is_fine; i++) {
        Buffer sql = { 0 };
        weft_result *result = NULL;
        setting_sql(slt->settings[i], &sql);
        is_fine = weft_query(slt->session, sql.bytes, &result, error) == WEFT_OK;
        weft_result_free(result);
        buffer_free(&sql);
    }
    return is_fine;
}

static void run_records(Slt *slt)
{
    weft_error error = { .status = WEFT_OK };
    if (weft_open(NULL, &slt->db, &error) || weft_connect(slt->db, &slt->session, &error)
        || !apply_settings(slt, &error)) {
        slt->failed++;
        printf("%s: no database: %s [%s]\n", slt->path, error.message, error.sqlstate);
    } else {
        while (step(slt))
            ;
    }
    weft_disconnect(slt->session);
    weft_close(slt->db);
    slt->session = NULL;
    slt->db = NULL;
}

static void forget_file(Slt *slt)
{
    for (int i = 0; i < slt->n_labels; i++)
        free(slt->labels[i].name);
    free(slt->labels);
    free(slt->lines);
    free(slt->text);
    slt->labels = NULL;
    slt->lines = NULL;
    slt->text = NULL;
    slt->n_labels = 0;
}

static void run_file(Slt *slt, const char *path)
{
    slt->passed_before = slt->passed;
    slt->failed_before = slt->failed;
    slt->skipped_before = slt->skipped;
    slt->path = path;
    if (read_text(slt)) {
        cut_lines(slt);
        run_records(slt);
    } else {
        slt->failed++;
        printf("%s: could not be read: %s\n", path, strerror(errno));
    }
    forget_file(slt);
    if (slt->is_tally)                                     // passed, failed, skipped
        printf("file\t%s\t%d\t%d\t%d\n", path, slt->passed - slt->passed_before, slt->failed - slt->failed_before,
               slt->skipped - slt->skipped_before);
    fflush(stdout);
}

static void add_setting(Slt *slt, char *assignment)
{
    Buffer sql = { 0 };
    if (!setting_sql(assignment, &sql)) {
        fprintf(stderr, "weft slt: --set takes NAME=VALUE, not %s\n", assignment);
        exit(EXIT_USAGE);
    }
    buffer_free(&sql);
    slt->settings = must_realloc(slt->settings, (size_t)(slt->n_settings + 1) * sizeof *slt->settings);
    slt->settings[slt->n_settings++] = assignment;
}

static void parse_options(int argc, char **argv, Slt *slt)
{
    static const struct option long_options[] = {
        { "engine",  required_argument, NULL, 'e' },
        { "set",     required_argument, NULL, 's' },
        { "tally",   no_argument,       NULL, 't' },
        { "verbose", no_argument,       NULL, 'v' },
        { "help",    no_argument,       NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;
    while ((option = getopt_long(argc, argv, "v", long_options, NULL)) != -1) {
        switch (option) {
        case 'e': slt->engine = optarg; break;
        case 's': add_setting(slt, optarg); break;
        case 't': slt->is_tally = true; break;
        case 'v': slt->is_verbose = true; break;
        case 'h': fputs(help_text, stdout); exit(0);
        default:  fputs("Try 'weft slt --help'.\n", stderr); exit(EXIT_USAGE);
        }
    }
    if (optind == argc) {
        fputs("weft slt: no file to run\nTry 'weft slt --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

int slt_main(int argc, char **argv)
{
    Slt slt = { .engine = "weft" };
    parse_options(argc, argv, &slt);
    while (optind < argc)
        run_file(&slt, argv[optind++]);
    printf("%d passed, %d failed, %d skipped\n", slt.passed, slt.failed, slt.skipped);
    free(slt.settings);
    return slt.failed ? EXIT_SQL_ERROR : 0;
}
