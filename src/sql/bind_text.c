// bind_text.c - operators and forms of text: ||, ~ and its kin, concat, concat_ws.
//
//     a || b                      textcat(a, b), what is no text as text
//     concat(a, b)                coalesce(a::text, '') || coalesce(b::text, '')
//     concat_ws(s, a, b)          substring(coalesce(s || a::text, '') || coalesce(s || b::text, ''), length(s) + 1)

#include "plan/functions.h"
#include "sql/sql_int.h"

static Expr *empty_text(Binder *binder, int at)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = "";
    return expr_const(binder->arena, value, at);
}

static weft_status as_text(Binder *binder, Expr *arg, Expr **out)
{
    return expr_cast(binder->arena, arg, TYPE(TEXT), arg->at, out, binder->err);
}

static Expr *letter(Binder *binder, const char *text, int at)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = text, value.text.length = 1;
    return expr_const(binder->arena, value, at);
}

// As it is printed: a cast spells a boolean out, output does not.
static weft_status as_printed(Binder *binder, Expr *arg, Expr **out)
{
    const int at = arg->at;
    if (arg->type.kind != TYPE_BOOLEAN) return as_text(binder, arg, out);
    Expr *args[5] = { arg, letter(binder, "t", at), NULL, letter(binder, "f", at), term_null(binder, at) };
    TRY(bind_call(binder, OP_NOT, arg, NULL, at, &args[2]));
    return expr_case(binder->arena, args, 5, at, out, binder->err);
}

// A uuid is stored as a text and has none of its operators.
static bool is_text(const Expr *expr)
{
    return (expr->type.kind == TYPE_TEXT && !type_is_uuid(expr->type)) || expr->type.kind == TYPE_NULL;
}

static weft_status concat_two(Binder *binder, Expr *a, Expr *b, int at, Expr **out)
{
    Expr *both[2];
    TRY(as_text(binder, a, &both[0]));
    TRY(as_text(binder, b, &both[1]));
    return bind_by_name(binder, "textcat", both, 2, at, out);
}

weft_status bind_concat_operator(Binder *binder, Expr *a, Expr *b, int at, Expr **out)
{
    char left[32], right[32];
    if (is_text(a) || is_text(b)) return concat_two(binder, a, b, at, out);
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "operator does not exist: %s || %s", type_name(a->type, left),
         type_name(b->type, right));
    error_hint(binder->err, "A cast may make the types fit.");
    return WEFT_UNDEFINED_FUNCTION;
}

weft_status bind_regexp_operator(Binder *binder, const char *name, Expr *a, Expr *b, int at, Expr **out)
{
    char  left[32], right[32];
    Expr *args[2] = { a, b };
    if (!is_text(a) || !is_text(b))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "operator does not exist: %s %s %s",
                    type_name(a->type, left), name, type_name(b->type, right));
    return expr_call(binder->arena, function_find_hidden(name), args, 2, at, out, binder->err);
}

// Halves, so that many arguments are not nested deeply.
static weft_status concat_all(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    Expr *a, *b;
    *out = n_args ? args[0] : empty_text(binder, at);
    if (n_args <= 1) return WEFT_OK;
    TRY(concat_all(binder, args, n_args / 2, at, &a));
    TRY(concat_all(binder, args + n_args / 2, n_args - n_args / 2, at, &b));
    return concat_two(binder, a, b, at, out);
}

static weft_status or_empty(Binder *binder, Expr *arg, int at, Expr **out)
{
    Expr *args[2] = { arg, empty_text(binder, at) };
    return expr_call(binder->arena, OP_COALESCE, args, 2, at, out, binder->err);
}

weft_status bind_concat(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    for (int i = 0; i < n_args; i++) {
        TRY(as_printed(binder, args[i], &args[i]));
        TRY(or_empty(binder, args[i], at, &args[i]));
    }
    return concat_all(binder, args, n_args, at, out);
}

weft_status bind_concat_ws(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    Expr *separator, *parts[2], *length[2];
    if (!is_text(args[0])) return bind_no_function(binder, "concat_ws", args, n_args, at);
    TRY(as_text(binder, args[0], &separator));
    for (int i = 1; i < n_args; i++) {
        TRY(as_printed(binder, args[i], &args[i]));
        TRY(concat_two(binder, separator, args[i], at, &args[i]));
        TRY(or_empty(binder, args[i], at, &args[i]));
    }
    TRY(concat_all(binder, args + 1, n_args - 1, at, &parts[0]));
    TRY(bind_by_name(binder, "length", &separator, 1, at, &length[0]));
    length[1] = term_integer(binder, 1, at);
    TRY(expr_call(binder->arena, OP_ADD, length, 2, at, &parts[1], binder->err));
    return bind_by_name(binder, "substring", parts, 2, at, out);
}
