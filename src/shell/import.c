// import.c - the command `weft import FILE [TABLE]`: a table from a file, names and types guessed.
//
// What is guessed is printed as the SQL that does it, CREATE TABLE and COPY, so that it can be kept and changed.  When
// a value further down does not fit its column's type, the column becomes text and the file is read again.

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"
#include "store/guess.h"

static const char help_text[] =
    "Usage: weft import [OPTION]... FILE [TABLE]\n"
    "\n"
    "Makes a table from a file of CSV or JSON lines (.csv, .tsv, .json, .jsonl, .ndjson; .gz and .zst behind that are\n"
    "decompressed).  Names and types of the columns are guessed.  TABLE is the file's name without its suffix unless\n"
    "said, and so is the database.\n"
    "\n"
    "      --db DB            the database, a directory; made when it is missing\n"
    "      --format csv|json  whatever the file is called\n"
    "      --dry-run          print the SQL, and do nothing\n"
    "      --help             this text\n"
    "\n"
    "Exit status: 0 when all went well, 1 when it failed, 2 for a usage error.\n";

typedef struct Import {
    const char *db, *format, *path;
    char       *table, *db_name;       // as guessed
    bool        is_dry;
} Import;

enum { OPTION_DB = 256, OPTION_FORMAT, OPTION_DRY_RUN, OPTION_HELP };

static const struct option long_options[] = {
    { "db",      required_argument, NULL, OPTION_DB },      { "format", required_argument, NULL, OPTION_FORMAT },
    { "dry-run", no_argument,       NULL, OPTION_DRY_RUN }, { "help",   no_argument,       NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

__attribute__((noreturn)) static void usage_error(const char *message)
{
    if (message)
        fprintf(stderr, "weft import: %s\n", message);
    fputs("Try 'weft import --help'.\n", stderr);
    exit(EXIT_USAGE);
}

// "data/Sales 2026.csv.gz" becomes sales_2026.
static char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = must_copy(slash ? slash + 1 : path);
    name[strcspn(name, ".")] = '\0';
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80 ? (char)tolower((unsigned char)*c) : '_';
    if (strlen(name) > 63)
        name[63] = '\0';
    return name;
}

static void parse_options(int argc, char **argv, Import *import)
{
    int option;
    argv[0] = (char *)"weft import";
    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case OPTION_DB:      import->db = optarg; break;
        case OPTION_FORMAT:  import->format = optarg; break;
        case OPTION_DRY_RUN: import->is_dry = true; break;
        case OPTION_HELP:    fputs(help_text, stdout); exit(0);
        default:             usage_error(NULL);
        }
    }
    if (import->format && strcmp(import->format, "csv") && strcmp(import->format, "json"))
        usage_error("--format is csv or json");
    if (argc - optind < 1 || argc - optind > 2)
        usage_error("takes a file and, maybe, the name of a table");
    import->path = argv[optind];
    import->table = argc - optind == 2 ? must_copy(argv[optind + 1]) : base_name(import->path);
    import->db_name = base_name(import->path);
    if (!import->db)
        import->db = import->db_name;
    if (!*import->table)
        usage_error("the file has no name that a table could have: give one");
}

static void add_name(Buffer *sql, const char *name)
{
    buffer_puts(sql, "\"");
    for (; *name; name++)
        buffer_add(sql, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
    buffer_puts(sql, "\"");
}

static char *create_sql(const Import *import, const Guess *guess)
{
    Buffer sql = { 0 };
    buffer_puts(&sql, "create table ");
    add_name(&sql, import->table);
    for (int c = 0; c < guess->n_columns; c++) {
        char type[32];
        buffer_puts(&sql, c ? ",\n    " : " (\n    ");
        add_name(&sql, guess->columns[c].name);
        buffer_puts(&sql, " ");
        buffer_puts(&sql, type_name(guess->columns[c].type, type));
    }
    buffer_puts(&sql, "\n);");
    return sql.bytes;
}

static char *copy_sql(const Import *import, const Guess *guess)
{
    Buffer sql = { 0 };
    char delimiter[] = { guess->options.delimiter, '\0' };
    buffer_puts(&sql, "copy ");
    add_name(&sql, import->table);
    buffer_puts(&sql, " from ");
    buffer_add_quoted(&sql, import->path);
    buffer_puts(&sql, guess->options.json ? " (format json" : " (format csv");
    if (!guess->options.json && guess->options.delimiter != ',') {
        buffer_puts(&sql, ", delimiter ");
        if (guess->options.delimiter == '\t')
            buffer_puts(&sql, "E'\\t'");
        else
            buffer_add_quoted(&sql, delimiter);
    }
    buffer_puts(&sql, guess->has_header ? ", header);" : ");");
    return sql.bytes;
}

static bool run_quietly(Shell *shell, const char *sql, weft_error *error)
{
    weft_result *result = NULL;
    watch_begin();
    bool is_fine = weft_query(shell->session, sql, &result, error) == WEFT_OK;
    watch_end();
    if (is_fine && !strncmp(weft_result_tag(result), "COPY", 4))
        printf("-- %s rows\n", weft_result_tag(result) + 5);
    weft_result_free(result);
    return is_fine;
}

// One try: false with *AGAIN when a column became text.
static bool try_import(Shell *shell, const Import *import, Guess *guess, bool *again)
{
    weft_error error = { .status = WEFT_OK };
    char *create = create_sql(import, guess), *copy = copy_sql(import, guess);
    Buffer drop = { 0 };
    bool is_fine = run_quietly(shell, create, &error), is_made = is_fine;
    if (is_fine)
        is_fine = run_quietly(shell, copy, &error);
    if (is_made && !is_fine) {
        weft_error ignored;
        buffer_puts(&drop, "drop table ");
        add_name(&drop, import->table);
        run_quietly(shell, drop.bytes, &ignored);
    }
    *again = is_made && !is_fine && guess_widen(guess, &error);
    if (!is_made && error.status == WEFT_DUPLICATE_TABLE)
        snprintf(error.hint, sizeof error.hint, "For another table, name it: weft import FILE TABLE.  To add rows to "
                                                "this one, use COPY.");
    if (is_fine)
        printf("%s\n%s\n", create, copy);
    else if (!*again)
        report_error(shell, &error, NULL, NULL, 1);
    buffer_free(&drop);
    free(create);
    free(copy);
    return is_fine;
}

static bool do_import(Shell *shell, const Import *import, Guess *guess)
{
    weft_error error = { .status = WEFT_OK };
    bool is_fine = false, again = true;
    if (weft_open(import->db, &shell->db, &error) || weft_connect(shell->db, &shell->session, &error)) {
        report_error(shell, &error, NULL, NULL, 1);
        return false;
    }
    watch_start(shell);
    while (!is_fine && again)
        is_fine = try_import(shell, import, guess, &again);
    watch_stop();
    return is_fine;
}

int import_main(int argc, char **argv)
{
    Import import = { 0 };
    Shell shell = { .format = FORMAT_TABLE };
    Guess guess;
    weft_error error = { .status = WEFT_OK };
    parse_options(argc, argv, &import);
    terminal_look(&shell);
    Arena *arena = arena_new(NULL, "import");
    bool is_fine = guess_file(arena, import.path, import.format, NULL, &guess, &error) == WEFT_OK;
    if (!is_fine) {
        report_error(&shell, &error, NULL, NULL, 1);
    } else if (import.is_dry) {
        char *create = create_sql(&import, &guess), *copy = copy_sql(&import, &guess);
        printf("%s\n%s\n", create, copy);
        free(create);
        free(copy);
    } else {
        is_fine = do_import(&shell, &import, &guess);
        weft_disconnect(shell.session);
        weft_close(shell.db);
    }
    arena_free(arena);
    free(import.table);
    free(import.db_name);
    return is_fine ? 0 : EXIT_SQL_ERROR;
}
