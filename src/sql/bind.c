// bind.c - which statement it is: the few that are supported, and a name for each of the many that are not.
//
// Nothing is ignored: a clause that we do not understand would change what the user asked for, so it is refused by its
// name and with its place.

#include "sql/sql_int.h"

// ---- settings -------------------------------------------------------------------------------------------------------

static weft_status add_setting_value(Binder *binder, const ParseNode *node, Text *text)
{
    if (node->node_case == PG_QUERY__NODE__NODE_TYPE_CAST) return refuse(binder, node_at(node), "a typed value in SET");
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST) return refuse(binder, node_at(node), "this value in SET");
    const PgQuery__AConst *constant = node->a_const;
    switch (constant->val_case) {
        case PG_QUERY__A__CONST__VAL_IVAL:    text_add(text, "%d", constant->ival->ival);  break;
        case PG_QUERY__A__CONST__VAL_FVAL:    text_add(text, "%s", constant->fval->fval);  break;
        case PG_QUERY__A__CONST__VAL_SVAL:    text_add(text, "%s", constant->sval->sval);  break;
        case PG_QUERY__A__CONST__VAL_BOOLVAL: text_add(text, constant->boolval->boolval ? "on" : "off");  break;
        default: return refuse(binder, constant->location, "this value in SET");
    }
    return WEFT_OK;
}

static weft_status bind_setting_value(Binder *binder, const PgQuery__VariableSetStmt *set, Statement *statement)
{
    Text        text = { 0 };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < set->n_args && status == WEFT_OK; i++) {
        if (i > 0) text_add(&text, ", ");
        status = add_setting_value(binder, set->args[i], &text);
    }
    statement->value = text_keep(binder->arena, &text);
    return status;
}

static weft_status bind_set(Binder *binder, const PgQuery__VariableSetStmt *set, Statement *statement)
{
    statement->kind = STATEMENT_SET;
    statement->name = arena_strdup(binder->arena, set->name);
    switch (set->kind) {
        case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_VALUE:
            return bind_setting_value(binder, set, statement);
        case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_DEFAULT:
        case PG_QUERY__VARIABLE_SET_KIND__VAR_RESET:
            return WEFT_OK;
        case PG_QUERY__VARIABLE_SET_KIND__VAR_RESET_ALL:
            statement->name = "all";
            return WEFT_OK;
        case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_CURRENT:
            return refuse(binder, statement->at, "SET FROM CURRENT");
        default:
            return refuse(binder, statement->at, "SET TRANSACTION");
    }
}

// ---- EXPLAIN --------------------------------------------------------------------------------------------------------

static const char *bool_words[][2] = { { "false", "true" }, { "off", "on" }, { "0", "1" } };

static weft_status explain_flag(Binder *binder, const PgQuery__DefElem *option, bool *flag)
{
    *flag = true;
    if (!option->arg) return WEFT_OK;
    if (option->arg->node_case == PG_QUERY__NODE__NODE_INTEGER) {
        *flag = option->arg->integer->ival != 0;
        if (option->arg->integer->ival == 0 || option->arg->integer->ival == 1) return WEFT_OK;
    }
    const char *word = node_string(option->arg);
    for (int i = 0; word && i < COUNT_OF(bool_words); i++) {
        for (int value = 0; value < 2; value++) {
            if (strcmp(word, bool_words[i][value]) != 0) continue;
            *flag = value;
            return WEFT_OK;
        }
    }
    return fail(binder->err, WEFT_INVALID_PARAMETER, option->location, "option %s requires a Boolean value",
                option->defname);
}

static weft_status explain_format(Binder *binder, const PgQuery__DefElem *option, Statement *statement)
{
    const char *word = option->arg ? node_string(option->arg) : NULL;
    if (word && (strcmp(word, "xml") == 0 || strcmp(word, "yaml") == 0))
        return refuse(binder, option->location, "an EXPLAIN format other than TEXT and JSON");
    if (!word || (strcmp(word, "text") != 0 && strcmp(word, "json") != 0)) {
        fail(binder->err, WEFT_INVALID_PARAMETER, option->location,
             "unrecognized value for EXPLAIN option \"format\": \"%s\"", word ? word : "");
        error_hint(binder->err, "There are TEXT and JSON.");
        return WEFT_INVALID_PARAMETER;
    }
    statement->explain_json = strcmp(word, "json") == 0;
    return WEFT_OK;
}

static weft_status explain_option(Binder *binder, const PgQuery__DefElem *option, Statement *statement)
{
    static const char *const known[] = { "costs", "settings", "generic_plan", "buffers",
                                         "wal",   "timing",   "summary" };
    bool ignored;
    if (strcmp(option->defname, "analyze") == 0) return explain_flag(binder, option, &statement->explain_analyze);
    if (strcmp(option->defname, "kernel") == 0) return explain_flag(binder, option, &statement->explain_kernel);
    if (strcmp(option->defname, "tree") == 0) return explain_flag(binder, option, &statement->explain_tree);
    if (strcmp(option->defname, "rewrites") == 0) return explain_flag(binder, option, &statement->explain_rewrites);
    if (strcmp(option->defname, "network") == 0) return explain_flag(binder, option, &statement->explain_network);
    if (strcmp(option->defname, "dot") == 0) return explain_flag(binder, option, &statement->explain_dot);
    if (strcmp(option->defname, "format") == 0) return explain_format(binder, option, statement);
    if (strcmp(option->defname, "verbose") == 0) return explain_flag(binder, option, &ignored);    // it always is
    for (int i = 0; i < COUNT_OF(known); i++)
        if (strcmp(option->defname, known[i]) == 0)
            return fail(binder->err, WEFT_UNSUPPORTED, option->location, "EXPLAIN option \"%s\" is not supported yet",
                        option->defname);
    fail(binder->err, WEFT_INVALID_PARAMETER, option->location, "unrecognized EXPLAIN option \"%s\"", option->defname);
    error_hint(binder->err, "There are ANALYZE, FORMAT, KERNEL, TREE, REWRITES, NETWORK, DOT and VERBOSE.");
    return WEFT_INVALID_PARAMETER;
}

static weft_status bind_explain(Binder *binder, const PgQuery__ExplainStmt *explain, Statement *statement)
{
    statement->kind = STATEMENT_EXPLAIN;
    for (size_t i = 0; i < explain->n_options; i++)
        TRY(explain_option(binder, explain->options[i]->def_elem, statement));
    const bool is_text = statement->explain_kernel || statement->explain_tree || statement->explain_rewrites ||
                         statement->explain_network || statement->explain_dot;
    if (statement->explain_json && is_text)
        return refuse(binder, statement->at, "FORMAT JSON with KERNEL, TREE, REWRITES, NETWORK or DOT");
    if (explain->query->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
        return refuse(binder, statement->at, "EXPLAIN of anything but SELECT");
    return bind_plan(binder, explain->query->select_stmt, &statement->plan);
}

// ---- what is refused ------------------------------------------------------------------------------------------------

typedef struct StatementName { int kind; const char *name; } StatementName;

#define CHAPTER(...)
#define REFUSED(...)
#define SAYS(...)
#define NO_FUNCTION(...)
#define NO_TYPE(...)
#define NO_OPERATOR(...)
#define ABSENT(...)

static const StatementName transaction_names[] = {
#define STATEMENT(...)
#define TRANSACTION(kind, name, ...) { PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_##kind, name },
#include "sql/refusals.def"
};

static const StatementName statement_names[] = {
#undef STATEMENT
#undef TRANSACTION
#define STATEMENT(node, name, ...) { PG_QUERY__NODE__NODE_##node, name },
#define TRANSACTION(...)
#include "sql/refusals.def"
};

static const char *name_of(const StatementName *names, int n_names, int kind, const char *otherwise)
{
    for (int i = 0; i < n_names; i++)
        if (names[i].kind == kind) return names[i].name;
    return otherwise;
}

static weft_status refuse_statement(Binder *binder, const ParseNode *node, int at)
{
    if (node->node_case == PG_QUERY__NODE__NODE_TRANSACTION_STMT)
        return refuse(binder, at, name_of(transaction_names, COUNT_OF(transaction_names),
                                          (int)node->transaction_stmt->kind, "transaction control"));
    return refuse(binder, at, name_of(statement_names, COUNT_OF(statement_names), (int)node->node_case,
                                      "this statement"));
}

// ---- dispatch -------------------------------------------------------------------------------------------------------

weft_status bind_statement(Binder *binder, const PgQuery__RawStmt *raw, Statement **out)
{
    Statement *statement = arena_make(binder->arena, Statement);
    *out = statement;
    statement->kind = STATEMENT_EMPTY;
    statement->at = sql_first_token(binder->text);
    if (!raw || !raw->stmt) return WEFT_OK;
    const ParseNode *node = raw->stmt;
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_SELECT_STMT:
            statement->kind = STATEMENT_SELECT;
            return bind_plan(binder, node->select_stmt, &statement->plan);
        case PG_QUERY__NODE__NODE_EXPLAIN_STMT:      return bind_explain(binder, node->explain_stmt, statement);
        case PG_QUERY__NODE__NODE_CREATE_STMT:       return bind_create(binder, node->create_stmt, statement);
        case PG_QUERY__NODE__NODE_DROP_STMT:         return bind_drop(binder, node->drop_stmt, statement);
        case PG_QUERY__NODE__NODE_INSERT_STMT:       return bind_insert(binder, node->insert_stmt, statement);
        case PG_QUERY__NODE__NODE_COPY_STMT:         return bind_copy(binder, node->copy_stmt, statement);
        case PG_QUERY__NODE__NODE_CREATE_TABLE_AS_STMT:
            if (node->create_table_as_stmt->objtype == PG_QUERY__OBJECT_TYPE__OBJECT_MATVIEW)
                return bind_continuous_view(binder, node->create_table_as_stmt, statement);
            return bind_create_as(binder, node->create_table_as_stmt, statement);
        case PG_QUERY__NODE__NODE_VIEW_STMT:         return bind_create_view(binder, node->view_stmt, statement);
        case PG_QUERY__NODE__NODE_TRUNCATE_STMT:     return bind_truncate(binder, node->truncate_stmt, statement);
        case PG_QUERY__NODE__NODE_INDEX_STMT:        return bind_create_index(binder, node->index_stmt, statement);
        case PG_QUERY__NODE__NODE_ALTER_TABLE_STMT:  return bind_alter_table(binder, node->alter_table_stmt, statement);
        case PG_QUERY__NODE__NODE_RENAME_STMT:       return bind_rename(binder, node->rename_stmt, statement);
        case PG_QUERY__NODE__NODE_PREPARE_STMT:      return bind_prepare(binder, node->prepare_stmt, statement);
        case PG_QUERY__NODE__NODE_EXECUTE_STMT:      return bind_execute(binder, node->execute_stmt, statement);
        case PG_QUERY__NODE__NODE_DEALLOCATE_STMT:   return bind_deallocate(binder, node->deallocate_stmt, statement);
        case PG_QUERY__NODE__NODE_VARIABLE_SET_STMT: return bind_set(binder, node->variable_set_stmt, statement);
        case PG_QUERY__NODE__NODE_VARIABLE_SHOW_STMT:
            statement->kind = STATEMENT_SHOW;
            statement->name = arena_strdup(binder->arena, node->variable_show_stmt->name);
            return WEFT_OK;
        default: return refuse_statement(binder, node, statement->at);
    }
}
