// prepared.c - statements that a session keeps by name, and their parameters.
//
// A prepared statement is its text.  Its tree is kept (sql/trees.c), its kernels are (literals are parameters of
// kernels anyway), so that binding it again with the values at hand costs little, and plans can use what the values
// prove. A parameter without a type is a literal without a type: it becomes what its place asks for, as in PostgreSQL.

#include <stdio.h>

#include "engine/execute.h"

const Prepared *prepared_find(const weft_session *session, const char *name)
{
    for (const Prepared *p = session->prepared; p; p = p->next)
        if (strcmp(p->name, name) == 0) return p;
    return NULL;
}

void prepared_free_all(weft_session *session)
{
    while (session->prepared) {
        Prepared *prepared = session->prepared;
        session->prepared = prepared->next;
        arena_free(prepared->arena);
    }
}

// A numeric without a precision has the digits of its value; of NULL it has none behind the point.
static Type type_of_null(Type type)
{
    return type_is_free_numeric(type) ? (Type){ TYPE_NUMERIC, 38, 0 } : type;
}

Value *prepared_nulls(Arena *arena, const Type *types, int n_types, int n_params)
{
    Value *params = arena_array(arena, Value, n_params + 1);
    for (int i = 0; i < n_params; i++)
        params[i] = (Value){ .type = i < n_types ? type_of_null(types[i]) : TYPE(NULL), .is_null = true };
    return params;
}

bool prepared_may_be_null(weft_status status)
{
    return status == WEFT_NOT_NULL_VIOLATION || status == WEFT_NULL_NOT_ALLOWED;
}

// A query is bound once with NULLs, so that names that do not exist are found now.
static weft_status check(Execution *ex, const Statement *statement)
{
    Arena      *home = arena_new(NULL, "prepare");
    Statement  *inner = NULL;
    const int   n_params = MAX_OF(statement->n_types, sql_count_params(statement->text));
    const Names names =
        execution_names(ex, prepared_nulls(home, statement->types, statement->n_types, n_params), n_params);
    weft_status status = sql_bind(home, statement->text, &names, &inner, ex->err);
    if (status && ex->err->position >= 0) ex->err->position += statement->text_at;
    if (ex->lookup) status = ex->lookup;
    const bool is_ours = prepared_may_be_null(status);
    if (!status && (inner->kind == STATEMENT_EMPTY || inner->kind == STATEMENT_PREPARE ||
                    inner->kind == STATEMENT_EXECUTE || inner->kind == STATEMENT_DEALLOCATE))
        status = fail(ex->err, WEFT_SYNTAX_ERROR, -1, "this statement cannot be prepared");
    arena_free(home);
    if (is_ours) error_clear(ex->err);
    return is_ours ? WEFT_OK : status;
}

weft_status run_prepare(Execution *ex, const Statement *statement)
{
    weft_session *session = ex->session;
    if (prepared_find(session, statement->name))
        return fail(ex->err, WEFT_DUPLICATE_STATEMENT, statement->at, "prepared statement \"%s\" already exists",
                    statement->name);
    TRY(check(ex, statement));
    Arena    *arena = arena_new(NULL, "prepared");
    Prepared *prepared = arena_make(arena, Prepared);
    *prepared = (Prepared){ .arena = arena, .name = arena_strdup(arena, statement->name),
                            .text = arena_strdup(arena, statement->text), .n_types = statement->n_types,
                            .types = arena_array(arena, Type, statement->n_types + 1), .next = session->prepared };
    for (int i = 0; i < statement->n_types; i++) prepared->types[i] = statement->types[i];
    session->prepared = prepared;
    snprintf(ex->result->tag, sizeof ex->result->tag, "PREPARE");
    return WEFT_OK;
}

weft_status run_deallocate(Execution *ex, const Statement *statement)
{
    weft_session *session = ex->session;
    snprintf(ex->result->tag, sizeof ex->result->tag, statement->name ? "DEALLOCATE" : "DEALLOCATE ALL");
    if (!statement->name) {
        prepared_free_all(session);
        return WEFT_OK;
    }
    for (Prepared **link = &session->prepared; *link; link = &(*link)->next) {
        Prepared *prepared = *link;
        if (strcmp(prepared->name, statement->name) != 0) continue;
        *link = prepared->next;
        arena_free(prepared->arena);
        return WEFT_OK;
    }
    return fail(ex->err, WEFT_UNDEFINED_STATEMENT, statement->at, "prepared statement \"%s\" does not exist",
                statement->name);
}

// A number given for a parameter without a type is what its digits say, wherever a literal text would be.
static Value open_value(Execution *ex, const Value *argument)
{
    Value        open = { .type = TYPE(NULL), .is_null = argument->is_null };
    const size_t length = argument->is_null ? 0 : value_format(argument, NULL, 0);
    char        *bytes = arena_alloc(ex->arena, length + 1);
    if (!argument->is_null) value_format(argument, bytes, length + 1);
    open.text.bytes = bytes;
    open.text.length = (u32)length;
    return open;
}

static weft_status cast_value(Execution *ex, const Value *argument, Type type, int at, Value *value)
{
    const EvalContext context = { .arena = ex->arena };
    Expr             *expr = expr_const(ex->arena, *argument, at);
    TRY(expr_cast(ex->arena, expr, type, at, &expr, ex->err));
    TRY(expr_eval(expr, &context, value, ex->err));
    value->type = type;
    return WEFT_OK;
}

// For a parameter of type numeric without a precision: no digit of the argument is lost.
static weft_status free_value(Execution *ex, const Value *argument, int at, Value *value)
{
    const Type  type = argument->type;
    weft_status status = WEFT_OK;
    Error       local;
    error_clear(&local);
    *value = *argument;
    if (argument->is_null) return cast_value(ex, argument, type_of_null(TYPE_OF_FREE_NUMERIC), at, value);
    if (type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC) return WEFT_OK;
    if (type_is_float(type)) status = value_free_of_float(argument->f, type.kind == TYPE_REAL, value, &local);
    else if (type.kind == TYPE_NULL || type.kind == TYPE_TEXT)
        status = value_parse_free(argument->text.bytes, argument->text.length, value, &local);
    else return cast_value(ex, argument, (Type){ TYPE_NUMERIC, 38, 0 }, at, value);
    if (!status) return WEFT_OK;
    fail(ex->err, status, at, "%s", local.message);
    if (local.hint[0]) error_hint(ex->err, "%s", local.hint);
    return status;
}

weft_status prepared_values(Execution *ex, const Prepared *prepared, const Value *arguments, int n_arguments, int at,
                            Value **values)
{
    *values = arena_array(ex->arena, Value, n_arguments + 1);
    if (n_arguments < prepared->n_types)
        return fail(ex->err, WEFT_SYNTAX_ERROR, at, "wrong number of parameters for prepared statement \"%s\"",
                    prepared->name);
    for (int i = 0; i < n_arguments; i++) {
        const Type type = i < prepared->n_types ? prepared->types[i] : TYPE(NULL);
        if (type.kind == TYPE_NULL) (*values)[i] = open_value(ex, &arguments[i]);
        else if (type_is_free_numeric(type)) TRY(free_value(ex, &arguments[i], at, &(*values)[i]));
        else TRY(cast_value(ex, &arguments[i], type, at, &(*values)[i]));
    }
    return WEFT_OK;
}
