// bind_forms.c - functions and operators that are said with others: those of any number of arguments or of any type.
//
//     format('%s is %L', a, b)    coalesce(a::text, '') || ' is ' || quote_nullable(b)
//     num_nulls(a, b)             case when a is null then 1 else 0 end + ...
//     a similar to 'x%'           a ~ '^(?:x.*)$'
//     a ^ b, |/ a, a & b          power(a, b), sqrt(a), a hidden function

#include <ctype.h>

#include "plan/functions.h"
#include "sql/sql_int.h"

static Expr *text_term(Binder *binder, const char *bytes, size_t length, int at)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = bytes, value.text.length = (u32)length;
    return expr_const(binder->arena, value, at);
}

// ---- operators ------------------------------------------------------------------------------------------------------

typedef struct OpForm { const char *name, *function; int n_args; bool is_bits; } OpForm;

static const OpForm op_forms[] = {
    { "^", "power", 2, false }, { "|/", "sqrt", 1, false }, { "||/", "cbrt", 1, false }, { "@", "abs", 1, false },
    { "^@", "starts_with", 2, false }, { "&", "bits_and", 2, true }, { "|", "bits_or", 2, true },
    { "#", "bits_xor", 2, true }, { "~", "bits_not", 1, true }, { "<<", "shift_left", 2, true },
    { ">>", "shift_right", 2, true },
};

static const OpForm *find_op_form(const char *name, int n_args)
{
    for (int i = 0; i < COUNT_OF(op_forms); i++)
        if (op_forms[i].n_args == n_args && strcmp(op_forms[i].name, name) == 0) return &op_forms[i];
    return NULL;
}

bool bind_is_op_form(const char *name, int n_args) { return find_op_form(name, n_args) != NULL; }

static weft_status no_such_operator(Binder *binder, const char *name, Expr *const *args, int n_args, int at)
{
    char left[32], right[32];
    const char *first = args[0]->type.kind == TYPE_NULL ? "unknown" : type_name(args[0]->type, left);
    if (n_args == 1)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "operator does not exist: %s %s", name, first);
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "operator does not exist: %s %s %s", first, name,
                args[1]->type.kind == TYPE_NULL ? "unknown" : type_name(args[1]->type, right));
}

// A literal beside an integer is one, too.
static weft_status settle_bits(Binder *binder, Expr **args, int n_args)
{
    for (int i = 0; i < n_args; i++) {
        const Expr *other = args[n_args - 1 - i];
        if (args[i]->type.kind == TYPE_NULL && type_is_integer(other->type))
            TRY(expr_coerce(binder->arena, args[i], other->type, args[i]->at, &args[i], binder->err));
    }
    return WEFT_OK;
}

weft_status bind_op_form(Binder *binder, const char *name, Expr **args, int n_args, int at, Expr **out)
{
    const OpForm *form = find_op_form(name, n_args);
    if (form->is_bits) {
        TRY(settle_bits(binder, args, n_args));
        for (int i = 0; i < n_args; i++)
            if (!type_is_integer(args[i]->type)) return no_such_operator(binder, name, args, n_args, at);
        return expr_call(binder->arena, function_find_hidden(form->function), args, n_args, at, out, binder->err);
    }
    const Op op = function_find(form->function, args, n_args);
    if (op == OP_N) return no_such_operator(binder, name, args, n_args, at);
    return expr_call(binder->arena, op, args, n_args, at, out, binder->err);
}

// ---- SIMILAR TO -----------------------------------------------------------------------------------------------------

// A bracket expression as it stands; the place behind it.
static const char *copy_bracket(const char *from, Text *out)
{
    const char *at = from + 1;
    if (*at == '^') at++;
    if (*at == ']') at++;
    while (*at && *at != ']') at++;
    if (*at) at++;
    text_add_bytes(out, from, (size_t)(at - from));
    return at;
}

static void add_similar(const char *pattern, char escape, Text *out)
{
    text_add(out, "^(?:");
    for (const char *at = pattern; *at;) {
        if (escape && *at == escape && at[1]) {
            text_add(out, "\\%c", at[1]);
            at += 2;
        } else if (*at == '[') {
            at = copy_bracket(at, out);
        } else {
            if (*at == '%') text_add(out, ".*");
            else if (*at == '_') text_add(out, ".");
            else if (*at == '(') text_add(out, "(?:");
            else if (strchr("\\.^$", *at)) text_add(out, "\\%c", *at);
            else text_add_bytes(out, at, 1);
            at++;
        }
    }
    text_add(out, ")$");
}

static bool is_text_const(const Expr *expr)
{
    return expr_is_const(expr) && !expr->value.is_null &&
           (expr->type.kind == TYPE_NULL || expr->type.kind == TYPE_TEXT);
}

// The parser gives similar_to_escape(pattern [, escape]) for the pattern.
weft_status bind_similar(Binder *binder, const PgQuery__AExpr *expr, const char *name, Expr **out)
{
    const PgQuery__FuncCall *call = expr->rexpr->node_case == PG_QUERY__NODE__NODE_FUNC_CALL ? expr->rexpr->func_call
                                                                                             : NULL;
    const int at = expr->location;
    Expr     *text, *args[2] = { 0 };
    Text      pattern = { 0 };
    char      escape = '\\';
    if (!call || call->n_args < 1 || call->n_args > 2) return refuse(binder, at, "this form of SIMILAR TO");
    TRY(binder->bind_expr(binder, expr->lexpr, &text));
    for (size_t i = 0; i < call->n_args; i++) {
        TRY(binder->bind_expr(binder, call->args[i], &args[i]));
        if (!is_text_const(args[i])) return refuse(binder, at, "SIMILAR TO with a pattern that is not constant");
    }
    if (args[1] && args[1]->value.text.length > 1)
        return fail(binder->err, WEFT_BAD_ESCAPE, at, "invalid escape string");
    if (args[1]) escape = args[1]->value.text.length ? args[1]->value.text.bytes[0] : 0;
    add_similar(arena_printf(binder->arena, "%.*s", (int)args[0]->value.text.length, args[0]->value.text.bytes), escape,
                &pattern);
    const size_t length = pattern.length;
    return bind_regexp_operator(binder, name, text, text_term(binder, text_keep(binder->arena, &pattern), length, at),
                                at, out);
}

// ---- format ---------------------------------------------------------------------------------------------------------

typedef struct Format {
    Binder     *binder;
    Expr      **args;                  // behind the format
    int         n_args, next;          // next: the argument that comes next
    Expr       *text;                  // so far; NULL: nothing
    int         at;
} Format;

static weft_status append(Format *format, Expr *part)
{
    if (!format->text) {
        format->text = part;
        return WEFT_OK;
    }
    return bind_concat_operator(format->binder, format->text, part, format->at, &format->text);
}

static weft_status printed(Binder *binder, Expr *arg, Expr **out)              // a NULL becomes ""
{
    return bind_concat(binder, &arg, 1, arg->at, out);
}

static weft_status quote_literal(Binder *binder, Expr *arg, int at, Expr **out)
{
    TRY(expr_cast(binder->arena, arg, TYPE(TEXT), at, &arg, binder->err));
    return bind_by_name(binder, "quote_literal", &arg, 1, at, out);
}

static weft_status quote_nullable(Binder *binder, Expr *arg, int at, Expr **out)
{
    Expr *args[2] = { NULL, text_term(binder, "NULL", 4, at) };
    TRY(quote_literal(binder, arg, at, &args[0]));
    return expr_call(binder->arena, OP_COALESCE, args, 2, at, out, binder->err);
}

static weft_status convert(Format *format, char kind, Expr *arg, Expr **out)
{
    Binder *binder = format->binder;
    switch (kind) {
        case 's': return printed(binder, arg, out);
        case 'L': return quote_nullable(binder, arg, format->at, out);
        case 'I':
            if (expr_is_const(arg) && arg->value.is_null)
                return fail(binder->err, WEFT_NULL_NOT_ALLOWED, format->at,
                            "null values cannot be formatted as an SQL identifier");
            if (!term_is_not_null(binder, arg))
                return refuse(binder, format->at, "format with %I of a value that can be NULL");
            TRY(printed(binder, arg, &arg));
            return bind_by_name(binder, "quote_ident", &arg, 1, format->at, out);
        default:
            fail(binder->err, WEFT_INVALID_PARAMETER, format->at, "unrecognized format() type specifier \"%c\"", kind);
            error_hint(binder->err, "For a single \"%%\" use \"%%%%\".");
            return WEFT_INVALID_PARAMETER;
    }
}

static int read_number(const char **at)
{
    int number = 0;
    for (; isdigit((unsigned char)**at); ++*at) number = MIN_OF(number * 10 + (**at - '0'), 1 << 20);
    return number;
}

// %[position$][-][width]kind; AT is behind the %.
static weft_status read_specifier(Format *format, const char **at)
{
    const char *from = *at;
    int         position = 0, width = 0;
    bool        is_left;
    Expr       *part;
    const int   number = read_number(&from);
    if (*from == '$' && from > *at) position = number, from++;
    else from = *at;
    if (position == 0 && from != *at)
        return fail(format->binder->err, WEFT_INVALID_PARAMETER, format->at,
                    "format specifies argument 0, but arguments are numbered from 1");
    for (is_left = false; *from == '-'; from++) is_left = true;
    if (*from == '*') return refuse(format->binder, format->at, "format with a width that is an argument");
    width = read_number(&from);
    if (!*from)
        return fail(format->binder->err, WEFT_INVALID_PARAMETER, format->at, "unterminated format() type specifier");
    if (position) format->next = position - 1;
    if (format->next >= format->n_args && strchr("sIL", *from))
        return fail(format->binder->err, WEFT_INVALID_PARAMETER, format->at, "too few arguments for format()");
    Expr *const arg = format->next < format->n_args ? format->args[format->next]
                                                    : term_null(format->binder, format->at);
    format->next++;
    TRY(convert(format, *from, arg, &part));
    *at = from + 1;
    if (!width) return append(format, part);
    Expr *args[2] = { part, term_integer(format->binder, is_left ? -width : width, format->at) };
    TRY(expr_call(format->binder->arena, function_find_hidden("padded"), args, 2, format->at, &part,
                  format->binder->err));
    return append(format, part);
}

static weft_status bind_format(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    Format format = { .binder = binder, .args = args + 1, .n_args = n_args - 1, .at = at };
    *out = expr_const(binder->arena, (Value){ .type = TYPE(TEXT), .is_null = true }, at);
    if (expr_is_const(args[0]) && args[0]->value.is_null) return WEFT_OK;
    if (!is_text_const(args[0])) return refuse(binder, at, "format with a pattern that is not constant");
    const char *from = arena_printf(binder->arena, "%.*s", (int)args[0]->value.text.length, args[0]->value.text.bytes);
    while (*from) {
        const size_t length = strcspn(from, "%");
        if (length) TRY(append(&format, text_term(binder, from, length, at)));
        from += length;
        if (!*from) break;
        if (*++from == '%') TRY(append(&format, text_term(binder, from++, 1, at)));
        else TRY(read_specifier(&format, &from));
    }
    *out = format.text ? format.text : text_term(binder, "", 0, at);
    return WEFT_OK;
}

// ---- functions ------------------------------------------------------------------------------------------------------

static weft_status count_nulls(Binder *binder, Op test, Expr **args, int n_args, int at, Expr **out)
{
    *out = term_integer(binder, 0, at);
    for (int i = 0; i < n_args; i++) {
        Expr *branch[3] = { NULL, term_integer(binder, 1, at), term_integer(binder, 0, at) }, *one;
        TRY(bind_call(binder, test, args[i], NULL, at, &branch[0]));
        TRY(expr_case(binder->arena, branch, 3, at, &one, binder->err));
        TRY(bind_call(binder, OP_ADD, *out, one, at, out));
    }
    return WEFT_OK;
}

// All dates and times are finite.
static weft_status bind_isfinite(Binder *binder, Expr *arg, int at, Expr **out)
{
    char  buffer[32];
    Expr *args[3] = { NULL, term_boolean(binder, true, at), term_null(binder, at) };
    if (!type_is_time(arg->type) || arg->type.kind == TYPE_TIME)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function isfinite(%s) does not exist",
                    arg->type.kind == TYPE_NULL ? "unknown" : type_name(arg->type, buffer));
    TRY(bind_call(binder, OP_IS_NOT_NULL, arg, NULL, at, &args[0]));
    return expr_case(binder->arena, args, 3, at, out, binder->err);
}

static const char *type_word(Type type, char buffer[32])
{
    switch ((TypeKind)type.kind) {
        case TYPE_NULL:        return "unknown";
        case TYPE_DECIMAL: case TYPE_NUMERIC: return "numeric";
        case TYPE_TIMESTAMP:   return "timestamp without time zone";
        case TYPE_TIMESTAMPTZ: return "timestamp with time zone";
        case TYPE_TIME:        return "time without time zone";
        case TYPE_TEXT:        return type_is_uuid(type) ? "uuid" : "text";
        default:               return type_name(type, buffer);
    }
}

static weft_status bind_typeof(Binder *binder, const Expr *arg, int at, Expr **out)
{
    char        buffer[32];
    const char *word = type_word(arg->type, buffer);
    *out = text_term(binder, arena_strdup(binder->arena, word), strlen(word), at);
    return WEFT_OK;
}

static weft_status bind_make_stamp(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    TRY(bind_by_name(binder, "make_timestamp", args, n_args, at, out));
    return expr_cast(binder->arena, *out, bind_zoned(binder), at, out, binder->err);
}

typedef struct Form { const char *name; int n_least, n_most; } Form;

static const Form forms[] = {
    { "format", 1, 1 << 20 }, { "num_nulls", 1, 1 << 20 }, { "num_nonnulls", 1, 1 << 20 }, { "quote_nullable", 1, 1 },
    { "quote_literal", 1, 1 }, { "isfinite", 1, 1 }, { "pg_typeof", 1, 1 }, { "make_timestamptz", 6, 6 },
    { "pi", 0, 0 }, { "version", 0, 0 }, { "current_schema", 0, 0 },
};

static const Form *find_form(const char *name)
{
    for (int i = 0; i < COUNT_OF(forms); i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

bool bind_is_form(const char *name) { return find_form(name) != NULL; }

static weft_status bind_form_of(Binder *binder, const char *name, Expr **args, int n_args, int at, Expr **out)
{
    static const char version[] = "Weft " WEFT_VERSION;
    const Value       pi = { .type = TYPE(DOUBLE), .f = 3.14159265358979323846 };
    if (strcmp(name, "format") == 0) return bind_format(binder, args, n_args, at, out);
    if (strcmp(name, "num_nulls") == 0) return count_nulls(binder, OP_IS_NULL, args, n_args, at, out);
    if (strcmp(name, "num_nonnulls") == 0) return count_nulls(binder, OP_IS_NOT_NULL, args, n_args, at, out);
    if (strcmp(name, "quote_nullable") == 0) return quote_nullable(binder, args[0], at, out);
    if (strcmp(name, "quote_literal") == 0) return quote_literal(binder, args[0], at, out);
    if (strcmp(name, "isfinite") == 0) return bind_isfinite(binder, args[0], at, out);
    if (strcmp(name, "pg_typeof") == 0) return bind_typeof(binder, args[0], at, out);
    if (strcmp(name, "make_timestamptz") == 0) return bind_make_stamp(binder, args, n_args, at, out);
    if (strcmp(name, "pi") == 0) *out = expr_const(binder->arena, pi, at);
    else if (strcmp(name, "version") == 0) *out = text_term(binder, version, sizeof version - 1, at);
    else *out = text_term(binder, "public", 6, at);
    return WEFT_OK;
}

weft_status bind_form(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const Form *form = find_form(name);
    const int   n_args = (int)MIN_OF(call->n_args, 1 << 20);
    Expr      **args = arena_array(binder->arena, Expr *, n_args + 1);
    if (n_args < form->n_least || n_args > form->n_most)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location,
                    "function %s with %d argument%s does not exist", name, n_args, n_args == 1 ? "" : "s");
    if (call->func_variadic) return refuse(binder, call->location, "VARIADIC");
    for (int i = 0; i < n_args; i++) TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    return bind_form_of(binder, name, args, n_args, call->location, out);
}
