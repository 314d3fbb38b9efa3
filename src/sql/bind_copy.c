// bind_copy.c - COPY table FROM, COPY table TO, COPY (query) TO, and their options.
//
// Formats and defaults are PostgreSQL's: text with tabs and \N, or csv.  Ours are FORMAT json (an object on each line),
// TRAILING_DELIMITER (each line ends in a delimiter, as dbgen writes them) and REJECT 'file' (where ON_ERROR ignore, of
// PostgreSQL 17, puts the rows that it leaves out).

#include "sql/sql_int.h"

typedef struct CopyState {
    Binder      *binder;
    CopyOptions *options;
    bool         is_from;
    bool         has_delimiter, has_null, has_quote, has_escape;
    const PgQuery__DefElem *quote;     // csv only: checked when the format is known
    const PgQuery__DefElem *field;     // text and csv only: the same
    const PgQuery__DefElem *reject;
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
    if (strlen(text) != 1 || (unsigned char)*text >= 0x80) {
        bad_option(state, option, "must be a single one-byte character");
        if (strcmp(text, "\\t") == 0) error_hint(state->binder->err, "A tab is E'\\t'.");
        return WEFT_INVALID_PARAMETER;
    }
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
    state->options->json = strcmp(name, "json") == 0 || strcmp(name, "jsonl") == 0 || strcmp(name, "ndjson") == 0;
    if (state->options->csv || state->options->json || strcmp(name, "text") == 0) return WEFT_OK;
    if (strcmp(name, "binary") == 0) return refuse(state->binder, option->location, "COPY format binary");
    if (strcmp(name, "parquet") == 0) return refuse(state->binder, option->location, "COPY format parquet");
    fail(state->binder->err, WEFT_INVALID_PARAMETER, option->location, "COPY format \"%s\" not recognized", name);
    error_hint(state->binder->err, "There are text, csv and json.");
    return WEFT_INVALID_PARAMETER;
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

static weft_status option_on_error(CopyState *state, const PgQuery__DefElem *option)
{
    const char *what;
    TRY(option_text(state, option, &what));
    if (!state->is_from) return bad_option(state, option, "cannot be used with COPY TO");
    state->options->ignores_errors = strcmp(what, "ignore") == 0;
    if (state->options->ignores_errors || strcmp(what, "stop") == 0) return WEFT_OK;
    return bad_option(state, option, "is stop or ignore");
}

static weft_status option_reject(CopyState *state, const PgQuery__DefElem *option)
{
    const char *path;
    TRY(option_text(state, option, &path));
    state->reject = option;
    state->options->reject_path = arena_strdup(state->binder->arena, path);
    return *path ? WEFT_OK : bad_option(state, option, "needs the name of a file");
}

static weft_status option_null(CopyState *state, const PgQuery__DefElem *option)
{
    const char *text;
    TRY(option_text(state, option, &text));
    state->has_null = true;
    state->field = option;
    state->options->null_text = arena_strdup(state->binder->arena, text);
    return strpbrk(text, "\r\n") ? bad_option(state, option, "cannot use newline or carriage return") : WEFT_OK;
}

static weft_status option_quote(CopyState *state, const PgQuery__DefElem *option)
{
    const bool is_quote = *option->defname == 'q';
    *(is_quote ? &state->has_quote : &state->has_escape) = true;
    state->quote = option;
    return option_byte(state, option, is_quote ? &state->options->quote : &state->options->escape);
}

static weft_status bind_option(CopyState *state, const PgQuery__DefElem *option)
{
    CopyOptions *options = state->options;
    const char  *name = option->defname;
    if (strcmp(name, "format") == 0) return option_format(state, option);
    if (strcmp(name, "header") == 0) {
        state->field = option;
        return option_flag(state, option, &options->header);
    }
    if (strcmp(name, "encoding") == 0) return option_encoding(state, option);
    if (strcmp(name, "delimiter") == 0) {
        state->has_delimiter = true;
        state->field = option;
        return option_byte(state, option, &options->delimiter);
    }
    if (strcmp(name, "trailing_delimiter") == 0) {
        state->field = option;
        return option_flag(state, option, &options->trailing_delimiter);
    }
    if (strcmp(name, "null") == 0) return option_null(state, option);
    if (strcmp(name, "quote") == 0 || strcmp(name, "escape") == 0) return option_quote(state, option);
    if (strcmp(name, "on_error") == 0) return option_on_error(state, option);
    if (strcmp(name, "reject") == 0) return option_reject(state, option);
    if (strncmp(name, "force_", 6) == 0 || strcmp(name, "freeze") == 0 || strcmp(name, "log_verbosity") == 0 ||
        strcmp(name, "reject_limit") == 0 || strcmp(name, "default") == 0)
        return fail(state->binder->err, WEFT_UNSUPPORTED, option->location, "COPY option \"%s\" is not supported yet",
                    name);
    return fail(state->binder->err, WEFT_SYNTAX_ERROR, option->location, "option \"%s\" not recognized", name);
}

static weft_status set_defaults(CopyState *state)
{
    CopyOptions *options = state->options;
    Error       *err = state->binder->err;
    if (state->quote && !options->csv)
        return fail(err, WEFT_UNSUPPORTED, state->quote->location, "COPY %s available only in CSV mode",
                    state->quote->defname);
    if (state->field && options->json) return bad_option(state, state->field, "cannot be used with FORMAT json");
    if (state->reject && !options->ignores_errors)
        return bad_option(state, state->reject, "needs ON_ERROR ignore");
    if (!state->has_delimiter) options->delimiter = options->csv ? ',' : '\t';
    if (!state->has_null) options->null_text = options->csv ? "" : "\\N";
    if (!state->has_quote) options->quote = '"';
    if (!state->has_escape) options->escape = options->quote;
    if (options->csv && options->delimiter == options->quote)
        return fail(err, WEFT_INVALID_PARAMETER, -1, "COPY delimiter and quote must be different");
    if (strchr(options->null_text, options->delimiter))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "COPY delimiter must not appear in the NULL specification");
    return WEFT_OK;
}

static weft_status bind_options(Binder *binder, const PgQuery__CopyStmt *copy, CopyOptions *options)
{
    CopyState state = { .binder = binder, .options = options, .is_from = copy->is_from };
    for (size_t i = 0; i < copy->n_options; i++) {
        const PgQuery__DefElem *option = copy->options[i]->def_elem;
        for (size_t j = 0; j < i; j++)
            if (strcmp(copy->options[j]->def_elem->defname, option->defname) == 0)
                return fail(binder->err, WEFT_SYNTAX_ERROR, option->location, "conflicting or redundant options");
        TRY(bind_option(&state, option));
    }
    return set_defaults(&state);
}

static weft_status bind_columns(Binder *binder, const PgQuery__CopyStmt *copy, const Table *table, CopyOptions *options)
{
    options->table_id = table->id;
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

// ---- TO: a query ----------------------------------------------------------------------------------------------------

static ParseNode *node_new(Arena *arena, int kind)
{
    ParseNode *node = arena_make(arena, ParseNode);
    pg_query__node__init(node);
    node->node_case = kind;
    return node;
}

// A column, or * for NULL, as the select list has it.
static ParseNode *select_item(Arena *arena, char *name, int at)
{
    ParseNode *field = node_new(arena, name ? PG_QUERY__NODE__NODE_STRING : PG_QUERY__NODE__NODE_A_STAR);
    if (name) {
        field->string = arena_make(arena, PgQuery__String);
        pg_query__string__init(field->string);
        field->string->sval = name;
    } else {
        field->a_star = arena_make(arena, PgQuery__AStar);
        pg_query__a__star__init(field->a_star);
    }
    ParseNode *column = node_new(arena, PG_QUERY__NODE__NODE_COLUMN_REF), *item;
    column->column_ref = arena_make(arena, PgQuery__ColumnRef);
    pg_query__column_ref__init(column->column_ref);
    column->column_ref->fields = arena_make(arena, ParseNode *);
    column->column_ref->fields[0] = field;
    column->column_ref->n_fields = 1;
    column->column_ref->location = at;
    item = node_new(arena, PG_QUERY__NODE__NODE_RES_TARGET);
    item->res_target = arena_make(arena, PgQuery__ResTarget);
    pg_query__res_target__init(item->res_target);
    item->res_target->val = column;
    item->res_target->location = at;
    return item;
}

// COPY t (a, b) TO is COPY (select a, b from t) TO.
static const PgQuery__SelectStmt *select_of_table(Arena *arena, const PgQuery__CopyStmt *copy)
{
    PgQuery__SelectStmt *select = arena_make(arena, PgQuery__SelectStmt);
    const int            at = copy->relation->location;
    pg_query__select_stmt__init(select);
    select->n_target_list = MAX_OF(copy->n_attlist, 1);
    select->target_list = arena_array(arena, ParseNode *, select->n_target_list);
    for (size_t i = 0; i < select->n_target_list; i++)
        select->target_list[i] =
            select_item(arena, copy->n_attlist ? copy->attlist[i]->string->sval : NULL, at);
    select->n_from_clause = 1;
    select->from_clause = arena_make(arena, ParseNode *);
    select->from_clause[0] = node_new(arena, PG_QUERY__NODE__NODE_RANGE_VAR);
    select->from_clause[0]->range_var = copy->relation;
    return select;
}

static weft_status bind_copy_to(Binder *binder, const PgQuery__CopyStmt *copy, Statement *statement)
{
    statement->kind = STATEMENT_COPY_TO;
    if (copy->query && copy->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, statement->at, "COPY of anything but a SELECT");
    const PgQuery__SelectStmt *select =
        copy->query ? copy->query->select_stmt : select_of_table(binder->arena, copy);
    return bind_plan(binder, select, &statement->plan);
}

weft_status bind_copy(Binder *binder, const PgQuery__CopyStmt *copy, Statement *statement)
{
    const Table *table;
    statement->kind = STATEMENT_COPY;
    if (copy->relation) statement->at = copy->relation->location;
    if (copy->is_program) return refuse(binder, sql_find_word(binder->text, "program"), "COPY ... PROGRAM");
    if (copy->where_clause) return refuse(binder, sql_find_word(binder->text, "where"), "COPY ... WHERE");
    statement->copy.is_std = !copy->filename[0];
    statement->path = copy->filename[0] ? arena_strdup(binder->arena, copy->filename)
                      : copy->is_from   ? "standard input"
                                        : "standard output";
    statement->copy.zone = binder->names->zone;
    TRY(bind_options(binder, copy, &statement->copy));
    if (!copy->is_from) return bind_copy_to(binder, copy, statement);
    TRY(bind_table_name(binder, copy->relation, &statement->name, &statement->home));
    TRY(bind_table(binder, copy->relation, &table));
    return bind_columns(binder, copy, table, &statement->copy);
}
