// complete.c - the Tab key: names of tables, columns and functions, words of SQL, commands.
//
// The word before tells what may come: tables and views behind FROM, JOIN, INTO and the like, settings behind SET and
// SHOW, words behind CREATE and DROP, columns of that table behind its name and a point.  Elsewhere all names and words
// are candidates: more would need the grammar, and a short list to choose from is good enough.

#include <ctype.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/manual.h"
#include "shell/shell.h"

static const char *const words[] = {
    "alter",     "analyze",   "and",       "as",        "asc",       "between",   "bigint",    "boolean",   "by",
    "case",      "copy",      "create",    "cross",     "csv",       "date",      "decimal",   "delimiter", "desc",
    "distinct",  "double",    "drop",      "else",      "end",       "exists",    "explain",   "false",     "first",
    "from",      "group",     "having",    "header",    "if",        "ilike",     "in",        "index",     "inner",
    "insert",    "integer",   "interval",  "into",      "is",        "join",      "kernel",    "last",      "like",
    "limit",     "not",       "null",      "nulls",     "numeric",   "offset",    "on",        "or",        "order",
    "precision", "real",      "select",    "set",       "show",      "smallint",  "table",     "text",      "then",
    "true",      "truncate",  "using",     "values",    "varchar",   "view",      "when",      "where",     "with",
};

typedef struct Completions {
    const char *prefix;
    size_t      prefix_length;
    char      **texts;
    int         n_texts;
    size_t      common;                                    // how many letters all of them share
} Completions;

static bool is_word_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_upper_case(const Completions *matches)
{
    return matches->prefix_length && isupper((unsigned char)matches->prefix[0]);
}

static size_t shared_letters(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static void offer(Completions *matches, const char *text)
{
    if (strncasecmp(text, matches->prefix, matches->prefix_length))
        return;
    for (int i = 0; i < matches->n_texts; i++) {
        if (!strcmp(matches->texts[i], text))
            return;
    }
    size_t common = matches->n_texts ? shared_letters(matches->texts[0], text) : strlen(text);
    if (!matches->n_texts || common < matches->common)
        matches->common = common;
    matches->texts = must_realloc(matches->texts, (size_t)(matches->n_texts + 1) * sizeof(char *));
    matches->texts[matches->n_texts++] = must_copy(text);
}

static void offer_names(Completions *matches, Shell *shell, const char *sql)
{
    weft_result *result = NULL;
    weft_error error;
    if (weft_query(shell->session, sql, &result, &error))
        return;
    for (size_t row = 0; row < weft_result_rows(result); row++)
        offer(matches, weft_result_column(result, 0)->text[row].bytes);
    weft_result_free(result);
}

// SHOW ALL has lines: name = value.
static void offer_settings(Completions *matches, Shell *shell)
{
    weft_result *result = NULL;
    weft_error error;
    if (weft_query(shell->session, "show all", &result, &error))
        return;
    for (size_t row = 0; row < weft_result_rows(result); row++) {
        const char *line = weft_result_column(result, 0)->text[row].bytes;
        Buffer name = { 0 };
        buffer_add(&name, line, strcspn(line, " "));
        offer(matches, name.bytes);
        buffer_free(&name);
    }
    weft_result_free(result);
}

static void offer_word(Completions *matches, const char *text)
{
    char word[32] = "";
    for (size_t c = 0; text[c] && c + 1 < sizeof word; c++)
        word[c] = (char)(is_upper_case(matches) ? toupper((unsigned char)text[c]) : text[c]);
    offer(matches, word);
}

static void offer_words(Completions *matches)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        offer_word(matches, words[i]);
}

static void offer_functions(Completions *matches)
{
    for (int n = 0; manual_name(n); n++)
        offer_word(matches, manual_name(n));
    for (int n = 0; manual_field(n); n++)
        offer_word(matches, manual_field(n));
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(Completions *matches)
{
    int widest = 0, room = terminal_columns(stdout);
    for (int i = 0; i < matches->n_texts; i++) {
        int columns = glyph_columns(matches->texts[i], strlen(matches->texts[i]));
        widest = columns > widest ? columns : widest;
    }
    qsort(matches->texts, (size_t)matches->n_texts, sizeof(char *), compare);
    int per_line = room / (widest + 2) > 0 ? room / (widest + 2) : 1;
    for (int i = 0; i < matches->n_texts; i++) {
        int columns = glyph_columns(matches->texts[i], strlen(matches->texts[i]));
        printf("%s%s%*s", i % per_line ? "" : "\n", matches->texts[i], widest + 2 - columns, "");
    }
    puts("");
}

// Types what is certain; a second Tab, when nothing more is, shows the choice.
static unsigned char apply(Completions *matches, EditLine *edit)
{
    if (!matches->n_texts)
        return CC_ERROR;
    if (matches->n_texts > 1 && matches->common <= matches->prefix_length) {
        list(matches);
        return CC_REDISPLAY;
    }
    Buffer rest = { 0 };
    buffer_add(&rest, matches->texts[0] + matches->prefix_length, matches->common - matches->prefix_length);
    buffer_puts(&rest, matches->n_texts == 1 ? " " : "");
    el_insertstr(edit, rest.bytes);
    buffer_free(&rest);
    return CC_REFRESH;
}

// The word before START, on this line, without the blanks between.  *BEFORE: the byte before that, or 0.
static size_t word_before(const char *line, const char *start, const char **word, char *before)
{
    while (start > line && strchr(" \t", start[-1]))
        start--;
    const char *end = start;
    while (start > line && is_word_letter(start[-1]))
        start--;
    *word = start;
    *before = start > line ? start[-1] : '\0';
    return (size_t)(end - start);
}

static bool is_one_of(const char *word, size_t length, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (length == strlen(list[i]) && !strncasecmp(word, list[i], length))
            return true;
    return false;
}

#define IS_ONE_OF(word, length, ...) \
    is_one_of(word, length, (const char *const[]){ __VA_ARGS__ }, \
              sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

typedef enum Wanted { WANTS_ALL, WANTS_TABLES, WANTS_SETTINGS, WANTS_WORDS } Wanted;

static Wanted what_follows(const char *line, const char *start)
{
    const char *word;
    char before;
    const size_t n = word_before(line, start, &word, &before);
    if (before == '\\')
        return IS_ONE_OF(word, n, "d") ? WANTS_TABLES : WANTS_ALL;
    if (IS_ONE_OF(word, n, "from", "join", "into", "table", "truncate", "copy", "describe", "view"))
        return WANTS_TABLES;
    if (IS_ONE_OF(word, n, "set", "show", "reset"))
        return WANTS_SETTINGS;
    return IS_ONE_OF(word, n, "create", "drop", "alter") ? WANTS_WORDS : WANTS_ALL;
}

// Columns of the table whose name stands before the point.  False: there is no such table; it may be an alias.
static bool offer_columns_of(Completions *matches, Shell *shell, const char *line, const char *point)
{
    const char *word;
    char before;
    Buffer name = { 0 }, sql = { 0 };
    buffer_add(&name, "", 0);
    const size_t n = word_before(line, point, &word, &before);
    for (size_t i = 0; i < n; i++)
        buffer_add(&name, (char[]){ (char)tolower((unsigned char)word[i]) }, 1);
    buffer_puts(&sql, "select column_name from information_schema.columns where table_name = ");
    buffer_add_quoted(&sql, name.bytes);
    buffer_puts(&sql, " order by ordinal_position");
    offer_names(matches, shell, sql.bytes);
    buffer_free(&name);
    buffer_free(&sql);
    return matches->n_texts > 0;
}

static void offer_all(Completions *matches, Shell *shell, const char *tables)
{
    offer_names(matches, shell, tables);
    offer_names(matches, shell, "select distinct column_name from information_schema.columns order by column_name");
    if (!matches->prefix_length)
        return;
    offer_words(matches);
    offer_functions(matches);
}

static void offer_sql(Completions *matches, Shell *shell, const char *line, const char *start)
{
    static const char tables[] = "select table_name from information_schema.tables order by table_name";
    if (start > line && start[-1] == '.' && offer_columns_of(matches, shell, line, start - 1))
        return;
    switch (what_follows(line, start)) {
    case WANTS_TABLES:   offer_names(matches, shell, tables); break;
    case WANTS_SETTINGS: offer_settings(matches, shell); break;
    case WANTS_WORDS:    offer_words(matches); break;
    case WANTS_ALL:      offer_all(matches, shell, tables); break;
    }
}

unsigned char complete_word(Shell *shell, struct editline *edit)
{
    const LineInfo *line = el_line(edit);
    const char *start = line->cursor;
    while (start > line->buffer && is_word_letter(start[-1]))
        start--;
    bool is_command = start > line->buffer && start[-1] == '\\';
    start -= is_command;

    Completions matches = { .prefix = start, .prefix_length = (size_t)(line->cursor - start) };
    for (int i = 0; is_command && command_name(i); i++)
        offer(&matches, command_name(i));
    if (!is_command)
        offer_sql(&matches, shell, line->buffer, start);
    unsigned char outcome = apply(&matches, edit);
    for (int i = 0; i < matches.n_texts; i++)
        free(matches.texts[i]);
    free(matches.texts);
    return outcome;
}
