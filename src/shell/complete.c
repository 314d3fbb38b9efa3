// complete.c - the Tab key: names of tables, columns and functions, words of SQL, commands.
//
// The word before tells what may come: behind FROM, JOIN, INTO and the like only tables and views do.  Elsewhere all
// names and words are candidates: more would need the grammar, and a short list to choose from is good enough.

#include <ctype.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/manual.h"
#include "shell/shell.h"

static const char *const words[] = {
    "analyze",   "and",       "as",      "asc",    "between", "bigint", "boolean", "by",       "case",   "copy",
    "create",    "cross",     "csv",     "date",   "decimal", "desc",   "distinct", "double",  "drop",   "delimiter",
    "else",      "end",       "exists",  "explain", "false",  "first",  "from",    "group",    "having", "header",
    "if",        "ilike",     "in",      "inner",  "insert",  "integer", "interval", "into",   "is",     "join",
    "kernel",    "last",      "like",    "limit",  "not",     "null",   "nulls",   "numeric",  "offset", "on",
    "or",        "order",     "precision", "real", "select",  "set",    "show",    "smallint", "table",  "text",
    "then",      "true",      "using",   "values", "varchar", "when",   "where",   "with",
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

// Whether the word before START, on this line, is one that a table follows; or a comma behind such a name.
static bool wants_table(const char *line, const char *start)
{
    static const char *const before[] = { "from", "join",     "into", "table", "truncate",
                                          "copy", "describe", "view", "d" };
    while (start > line && strchr(" \t", start[-1]))
        start--;
    const char *end = start;
    while (start > line && is_word_letter(start[-1]))
        start--;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        bool is_command = !strcmp(before[i], "d");
        if ((size_t)(end - start) == strlen(before[i]) && !strncasecmp(start, before[i], (size_t)(end - start)) &&
            is_command == (start > line && start[-1] == '\\'))
            return true;
    }
    return false;
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
    static const char tables[] = "select table_name from information_schema.tables order by table_name";
    if (!is_command && wants_table(line->buffer, start)) {
        offer_names(&matches, shell, tables);
    } else if (!is_command) {
        offer_names(&matches, shell, tables);
        offer_names(&matches, shell,
                    "select distinct column_name from information_schema.columns order by column_name");
        if (matches.prefix_length)
            offer_words(&matches);
    }
    unsigned char outcome = apply(&matches, edit);
    for (int i = 0; i < matches.n_texts; i++)
        free(matches.texts[i]);
    free(matches.texts);
    return outcome;
}
