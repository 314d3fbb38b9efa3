// bind_stream.c - CREATE TABLE ... WITH (stream), CREATE MATERIALIZED VIEW ... WITH (continuous), SUBSCRIBE TO.
//
// Whether a query can be kept up to date is the plan's business (plan/continuous.c); here are the options only.

#include "sql/sql_int.h"

static weft_status bad_option(Binder *binder, const PgQuery__DefElem *option, const char *what)
{
    return fail(binder->err, WEFT_INVALID_PARAMETER, option->location, "option %s %s", option->defname, what);
}

static weft_status check_repeated(Binder *binder, ParseNode *const *options, size_t n_options)
{
    for (size_t i = 1; i < n_options; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(options[i]->def_elem->defname, options[k]->def_elem->defname) == 0)
                return bad_option(binder, options[i]->def_elem, "is given twice");
    return WEFT_OK;
}

// A name or a text: the grammar reads a bare name as a type's.
static const char *option_text(const PgQuery__DefElem *option)
{
    const ParseNode *arg = option->arg;
    if (!arg) return NULL;
    if (arg->node_case != PG_QUERY__NODE__NODE_TYPE_NAME) return node_string(arg);
    const PgQuery__TypeName *name = arg->type_name;
    return name->n_names == 1 && !name->n_typmods && !name->n_array_bounds ? node_string(name->names[0]) : NULL;
}

static weft_status option_flag(Binder *binder, const PgQuery__DefElem *option, bool *flag)
{
    const char *text = option_text(option);
    *flag = !option->arg || (text && (strcmp(text, "true") == 0 || strcmp(text, "on") == 0));
    if (*flag || (text && (strcmp(text, "false") == 0 || strcmp(text, "off") == 0))) return WEFT_OK;
    return bad_option(binder, option, "requires a Boolean value");
}

// An interval of more than 0; months have 30 days.
static weft_status option_interval(Binder *binder, const PgQuery__DefElem *option, i64 least, i64 *micros)
{
    const char *text = option_text(option);
    Value       value;
    if (!text || value_parse(TYPE(INTERVAL), text, strlen(text), &value, &(Error){ 0 }))
        return bad_option(binder, option, "needs an interval such as '1 hour'");
    const i128 length = interval_micros(&value);
    if (length < least || length > (i128)1 << 60) return bad_option(binder, option, "is out of range");
    *micros = (i64)length;
    return WEFT_OK;
}

// ---- CREATE TABLE ---------------------------------------------------------------------------------------------------

weft_status bind_stream_options(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement)
{
    bool is_stream = false;
    const PgQuery__DefElem *retain = NULL;
    TRY(check_repeated(binder, create->options, create->n_options));
    for (size_t i = 0; i < create->n_options; i++) {
        const PgQuery__DefElem *option = create->options[i]->def_elem;
        if (strcmp(option->defname, "stream") == 0) TRY(option_flag(binder, option, &is_stream));
        else if (strcmp(option->defname, "retain") == 0) retain = option;
        else return refuse(binder, option->location, "WITH");
    }
    if (retain && !is_stream) return bad_option(binder, retain, "is for streams: WITH (stream, retain = ...)");
    if (retain) TRY(option_interval(binder, retain, 1, &statement->traits.retain_us));
    statement->traits.kind = is_stream ? TABLE_STREAM : TABLE_PLAIN;
    if (is_stream && statement->is_temporary) return refuse(binder, statement->at, "a temporary stream");
    return WEFT_OK;
}

weft_status check_stream(Binder *binder, const Statement *statement)
{
    if (statement->traits.kind != TABLE_STREAM) return WEFT_OK;
    if (statement->n_indexes) return refuse(binder, statement->at, "a key of a stream");
    for (int i = 0; i < statement->n_columns; i++)
        if (type_is_free_numeric(statement->columns[i].type))
            return refuse(binder, statement->at, "numeric without a precision in a stream");
    return WEFT_OK;
}

// ---- CREATE MATERIALIZED VIEW ---------------------------------------------------------------------------------------

static weft_status bind_view_options(Binder *binder, const PgQuery__IntoClause *into, Statement *statement)
{
    bool is_continuous = false;
    statement->watermark_us = -1;
    TRY(check_repeated(binder, into->options, into->n_options));
    for (size_t i = 0; i < into->n_options; i++) {
        const PgQuery__DefElem *option = into->options[i]->def_elem;
        if (strcmp(option->defname, "continuous") == 0) {
            TRY(option_flag(binder, option, &is_continuous));
        } else if (strcmp(option->defname, "watermark") == 0) {
            TRY(option_interval(binder, option, 0, &statement->watermark_us));
        } else if (strcmp(option->defname, "event_time") == 0) {
            const char *name = option_text(option);
            if (!name) return bad_option(binder, option, "needs the name of a column");
            statement->column = arena_strdup(binder->arena, name);
        } else {
            return refuse(binder, option->location, "WITH");
        }
    }
    if (!is_continuous) return refuse(binder, statement->at, "CREATE MATERIALIZED VIEW");
    if (statement->column && statement->watermark_us < 0)
        return fail(binder->err, WEFT_INVALID_PARAMETER, statement->at, "option event_time needs a watermark");
    return WEFT_OK;
}

weft_status bind_continuous_view(Binder *binder, const PgQuery__CreateTableAsStmt *create, Statement *statement)
{
    const PgQuery__IntoClause *into = create->into;
    statement->kind = STATEMENT_CREATE_VIEW;
    statement->is_continuous = true;
    statement->at = into->rel->location;
    statement->if_exists = create->if_not_exists;
    TRY(bind_view_options(binder, into, statement));
    if (into->skip_data) return refuse(binder, statement->at, "WITH NO DATA in a continuous view");
    if (into->table_space_name[0]) return refuse(binder, statement->at, "TABLESPACE");
    if (into->access_method[0]) return refuse(binder, statement->at, "USING");
    return bind_view_query(binder, into->rel, create->query, into->col_names, into->n_col_names, statement);
}

// ---- SUBSCRIBE TO v -------------------------------------------------------------------------------------------------

char *sql_subscribed(Arena *arena, const char *text, int *at)
{
    const char *p = text;
    const Token verb = token_next(&p), to = token_next(&p);
    if (!token_is(&verb, "subscribe") || !token_is(&to, "to")) return NULL;
    *at = (int)(p - text) + sql_first_token(p);
    return sql_last_name(arena, p);
}
