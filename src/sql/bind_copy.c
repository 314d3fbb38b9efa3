// bind_copy.c - COPY table FROM 'file', and its options.
//
// Without any option a file is read as dbgen writes it: | between fields and one at the end of the line.  With options
// the defaults are PostgreSQL's: a tab, or a comma with FORMAT csv.

#include "sql/sql_int.h"

typedef struct CopyState {
    Binder      *binder;
    CopyOptions *options;
    bool         has_delimiter, has_null, has_quote, has_escape;
    const PgQuery__DefElem *quote;     // csv only: checked when the format is known
} CopyState;

static weft_status bad_option(CopyState *state, const PgQuery__DefElem *option, const char *what)
{
    return fail(state->binder->err, WEFT_INVALID_PARAMETER, option->location, "COPY %s %s", option->defname, what);
}

static weft_status option_text(CopyState *state, const PgQuery__DefElem *option, const char **text)
{
    *text = option->arg ? node_string(option->arg) : NULL;
    return *text ? WEFT_OK : bad_option(state, option, "needs a text value");
}

static weft_status option_byte(CopyState *state, const PgQuery__DefElem *option, char *byte)
{
    const char *text;
    TRY(option_text(state, option, &text));
    if (strlen(text) != 1 || (unsigned char)*text >= 0x80)
        return bad_option(state, option, "must be a single one-byte character");
    if (*text == '\n' || *text == '\r') return bad_option(state, option, "cannot be newline or carriage return");
    *byte = *text;
    return WEFT_OK;
}

static weft_status option_flag(CopyState *state, const PgQuery__DefElem *option, bool *flag)
{
    *flag = true;
    if (!option->arg) return WEFT_OK;
    if (option->arg->node_case == PG_QUERY__NODE__NODE_BOOLEAN) {
        *flag = option->arg->boolean->boolval;
        return WEFT_OK;
    }
    if (option->arg->node_case == PG_QUERY__NODE__NODE_INTEGER) {
        *flag = option->arg->integer->ival != 0;
        return WEFT_OK;
    }
    const char *word = node_string(option->arg);
    if (word && strcmp(word, "match") == 0) return refuse(state->binder, option->location, "HEADER MATCH");
    if (word && (strcmp(word, "false") == 0 || strcmp(word, "off") == 0)) *flag = false;
    else if (!word || (strcmp(word, "true") != 0 && strcmp(word, "on") != 0))
        return bad_option(state, option, "requires a Boolean value");
    return WEFT_OK;
}

static weft_status option_format(CopyState *state, const PgQuery__DefElem *option)
{
    const char *name;
    TRY(option_text(state, option, &name));
    state->options->csv = strcmp(name, "csv") == 0;
    if (state->options->csv || strcmp(name, "text") == 0) return WEFT_OK;
    if (strcmp(name, "binary") == 0) return refuse(state->binder, option->location, "COPY format binary");
    return fail(state->binder->err, WEFT_INVALID_PARAMETER, option->location, "COPY format \"%s\" not recognized",
                name);
}

static weft_status option_encoding(CopyState *state, const PgQuery__DefElem *option)
{
    const char *name;
    TRY(option_text(state, option, &name));
    static const char *const names[] = { "utf8", "UTF8", "utf-8", "UTF-8", "unicode", "UNICODE" };
    for (int i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], name) == 0) return WEFT_OK;
    return refuse(state->binder, option->location, "an encoding other than UTF8");
}

static weft_status bind_option(CopyState *state, const PgQuery__DefElem *option)
{
    CopyOptions *options = state->options;
    const char  *name = option->defname;
    if (strcmp(name, "format") == 0) return option_format(state, option);
    if (strcmp(name, "header") == 0) return option_flag(state, option, &options->header);
    if (strcmp(name, "encoding") == 0) return option_encoding(state, option);
    if (strcmp(name, "delimiter") == 0) {
        state->has_delimiter = true;
        return option_byte(state, option, &options->delimiter);
    }
    if (strcmp(name, "null") == 0) {
        const char *text;
        TRY(option_text(state, option, &text));
        state->has_null = true;
        options->null_text = arena_strdup(state->binder->arena, text);
        return strpbrk(text, "\r\n") ? bad_option(state, option, "cannot use newline or carriage return") : WEFT_OK;
    }
    if (strcmp(name, "quote") == 0 || strcmp(name, "escape") == 0) {
        const bool is_quote = *name == 'q';
        *(is_quote ? &state->has_quote : &state->has_escape) = true;
        state->quote = option;
        return option_byte(state, option, is_quote ? &options->quote : &options->escape);
    }
    if (strncmp(name, "force_", 6) == 0 || strcmp(name, "freeze") == 0)
        return fail(state->binder->err, WEFT_UNSUPPORTED, option->location, "COPY option \"%s\" is not supported yet",
                    name);
    return fail(state->binder->err, WEFT_SYNTAX_ERROR, option->location, "option \"%s\" not recognized", name);
}

static weft_status set_defaults(CopyState *state, bool has_options)
{
    CopyOptions *options = state->options;
    if (state->quote && !options->csv)
        return fail(state->binder->err, WEFT_UNSUPPORTED, state->quote->location, "COPY %s available only in CSV mode",
                    state->quote->defname);
    if (!state->has_delimiter) options->delimiter = options->csv ? ',' : has_options ? '\t' : '|';
    if (!state->has_null) options->null_text = options->csv ? "" : "\\N";
    if (!state->has_quote) options->quote = '"';
    if (!state->has_escape) options->escape = options->quote;
    options->trailing_delimiter = options->delimiter == '|';
    if (options->csv && options->delimiter == options->quote)
        return fail(state->binder->err, WEFT_INVALID_PARAMETER, -1, "COPY delimiter and quote must be different");
    return WEFT_OK;
}

static weft_status bind_options(Binder *binder, const PgQuery__CopyStmt *copy, CopyOptions *options)
{
    CopyState state = { .binder = binder, .options = options };
    for (size_t i = 0; i < copy->n_options; i++) {
        const PgQuery__DefElem *option = copy->options[i]->def_elem;
        for (size_t j = 0; j < i; j++)
            if (strcmp(copy->options[j]->def_elem->defname, option->defname) == 0)
                return fail(binder->err, WEFT_SYNTAX_ERROR, option->location, "conflicting or redundant options");
        TRY(bind_option(&state, option));
    }
    return set_defaults(&state, copy->n_options > 0);
}

static weft_status bind_columns(Binder *binder, const PgQuery__CopyStmt *copy, const Table *table, CopyOptions *options)
{
    if (copy->n_attlist == 0) return WEFT_OK;
    int  *columns = arena_array(binder->arena, int, copy->n_attlist);
    bool *used = arena_array(binder->arena, bool, table->n_columns + 1);
    for (size_t i = 0; i < copy->n_attlist; i++) {
        const char *name = node_string(copy->attlist[i]);
        columns[i] = table_find_column(table, name);
        if (columns[i] < 0) return unknown_column(binder, table, name, copy->relation->location);
        if (used[columns[i]])
            return fail(binder->err, WEFT_DUPLICATE_COLUMN, copy->relation->location,
                        "column \"%s\" specified more than once", name);
        used[columns[i]] = true;
    }
    options->columns = columns;
    options->n_columns = (int)copy->n_attlist;
    return WEFT_OK;
}

weft_status bind_copy(Binder *binder, const PgQuery__CopyStmt *copy, Statement *statement)
{
    const Table *table;
    statement->kind = STATEMENT_COPY;
    if (copy->query) return refuse(binder, statement->at, "COPY of a query");
    statement->at = copy->relation->location;
    if (!copy->is_from) return refuse(binder, sql_find_word(binder->text, "to"), "COPY TO");
    if (copy->is_program) return refuse(binder, sql_find_word(binder->text, "program"), "COPY FROM PROGRAM");
    if (!copy->filename[0]) return refuse(binder, sql_find_word(binder->text, "from"), "COPY FROM STDIN");
    if (copy->where_clause) return refuse(binder, sql_find_word(binder->text, "where"), "COPY ... WHERE");
    TRY(bind_table_name(binder, copy->relation, &statement->name));
    TRY(bind_table(binder, copy->relation, &table));
    statement->path = arena_strdup(binder->arena, copy->filename);
    TRY(bind_columns(binder, copy, table, &statement->copy));
    statement->copy.zone = binder->names->zone;
    return bind_options(binder, copy, &statement->copy);
}
