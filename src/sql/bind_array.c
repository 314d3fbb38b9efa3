// bind_array.c - arrays where their elements are what is meant: x = ANY (ARRAY[1, 2]), x <> ALL ('{1,2}').
//
// There are no values of an array type.  An array is ARRAY[...], a literal, or a cast of one, and becomes the list of
// its elements.

#include <ctype.h>

#include "sql/sql_int.h"

enum { ELEMENTS_MOST = 1 << 16 };

typedef struct Elements { Expr **list; int n; } Elements;

static weft_status add_element(Binder *binder, Elements *elements, Expr *element, int at)
{
    if (elements->n == ELEMENTS_MOST)
        return fail(binder->err, WEFT_TOO_LONG, at, "an array can have at most %d elements", ELEMENTS_MOST);
    *LIST_PUSH(binder->arena, elements->list, elements->n) = element;
    return WEFT_OK;
}

// ---- literals: {1, 2, NULL, "a,b"} ----------------------------------------------------------------------------------

static weft_status malformed(Binder *binder, const Value *text, int at)
{
    return fail(binder->err, WEFT_BAD_TEXT, at, "malformed array literal: \"%.*s\"", (int)text->text.length,
                text->text.bytes);
}

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

// One element from *AT on, which is moved behind it.  False: it is none.
static bool read_element(const char **from, char *out, size_t *length, bool *is_quoted)
{
    const char *at = *from;
    size_t      n = 0, n_kept = 0;                          // blanks at the end are no part of it, unless quoted
    *is_quoted = *at == '"';
    if (*is_quoted) at++;
    for (; *is_quoted ? *at != '"' : *at != ',' && *at != '}'; at++) {
        if (*at == '\\') at++;
        else if (!*is_quoted && (*at == '{' || *at == '"')) return false;
        if (!*at) return false;
        out[n++] = *at;
        if (*is_quoted || !isspace((unsigned char)*at) || at[-1] == '\\') n_kept = n;
    }
    *from = skip_blanks(at + *is_quoted);
    *length = n_kept;
    return *is_quoted || n_kept > 0;
}

static Expr *literal_element(Binder *binder, const char *bytes, size_t length, bool is_quoted, int at)
{
    Value value = { .type = TYPE(NULL) };
    if (!is_quoted && length == 4 && strncasecmp(bytes, "null", 4) == 0) return term_null(binder, at);
    value.text.bytes = bytes, value.text.length = (u32)length;
    return expr_const(binder->arena, value, at);
}

static weft_status read_literal(Binder *binder, const Value *text, int at, Elements *elements)
{
    const char *from = skip_blanks(arena_printf(binder->arena, "%.*s", (int)text->text.length, text->text.bytes));
    char       *bytes = arena_alloc(binder->arena, strlen(from) + 1);
    size_t      length;
    bool        is_quoted;
    if (*from != '{') return malformed(binder, text, at);
    from = skip_blanks(from + 1);
    if (*from == '}') return *skip_blanks(from + 1) ? malformed(binder, text, at) : WEFT_OK;
    for (;; from = skip_blanks(from + 1)) {
        if (*from == '{') return refuse(binder, at, "an array of arrays");
        if (!read_element(&from, bytes, &length, &is_quoted)) return malformed(binder, text, at);
        TRY(add_element(binder, elements, literal_element(binder, bytes, length, is_quoted, at), at));
        if (*from != ',') break;
    }
    return *from == '}' && !*skip_blanks(from + 1) ? WEFT_OK : malformed(binder, text, at);
}

// ---- any form -------------------------------------------------------------------------------------------------------

static weft_status bind_elements(Binder *binder, const ParseNode *node, Elements *elements, bool *is_null);

static weft_status bind_list(Binder *binder, const PgQuery__AArrayExpr *array, Elements *elements)
{
    for (size_t i = 0; i < array->n_elements; i++) {
        Expr *element;
        if (array->elements[i]->node_case == PG_QUERY__NODE__NODE_A_ARRAY_EXPR)
            return refuse(binder, node_at(array->elements[i]), "an array of arrays");
        TRY(binder->bind_expr(binder, array->elements[i], &element));
        TRY(add_element(binder, elements, element, array->location));
    }
    if (!elements->n) return WEFT_OK;
    return expr_unify(binder->arena, elements->list, elements->n, 1, "ARRAY", array->location, binder->err);
}

// '{1,2}'::integer[]: the type is the elements'.
static weft_status bind_cast_array(Binder *binder, const PgQuery__TypeCast *cast, Elements *elements, bool *is_null)
{
    PgQuery__TypeName name = *cast->type_name;
    PgQuery__TypeCast one = *cast;
    TRY(bind_elements(binder, cast->arg, elements, is_null));
    name.n_array_bounds = 0;
    one.type_name = &name;
    for (int i = 0; i < elements->n; i++) TRY(bind_cast(binder, &one, elements->list[i], &elements->list[i]));
    if (!elements->n) return WEFT_OK;                       // numerics have one scale: that of the longest
    return expr_unify(binder->arena, elements->list, elements->n, 1, "ARRAY", cast->location, binder->err);
}

static weft_status bind_elements(Binder *binder, const ParseNode *node, Elements *elements, bool *is_null)
{
    Expr *literal;
    if (node->node_case == PG_QUERY__NODE__NODE_A_ARRAY_EXPR) return bind_list(binder, node->a_array_expr, elements);
    if (node->node_case == PG_QUERY__NODE__NODE_TYPE_CAST && node->type_cast->type_name->n_array_bounds)
        return bind_cast_array(binder, node->type_cast, elements, is_null);
    TRY(binder->bind_expr(binder, node, &literal));
    if (!expr_is_const(literal) || literal->type.kind != TYPE_NULL)
        return refuse(binder, node_at(node), "an array that is neither ARRAY[...] nor a literal");
    *is_null = literal->value.is_null;
    return *is_null ? WEFT_OK : read_literal(binder, &literal->value, node_at(node), elements);
}

weft_status bind_array(Binder *binder, const ParseNode *node, Expr ***list, int *n, bool *is_null)
{
    Elements elements = { 0 };
    *is_null = false;
    TRY(bind_elements(binder, node, &elements, is_null));
    *list = elements.list, *n = elements.n;
    return WEFT_OK;
}

// ---- ANY and ALL ----------------------------------------------------------------------------------------------------

static bool are_const(Expr *const *exprs, int n)
{
    for (int i = 0; i < n; i++)
        if (!expr_is_const(exprs[i])) return false;
    return true;
}

// x = any (constants) is a search, and x <> all (constants) its opposite.
static weft_status search_constants(Binder *binder, Expr *x, Expr *const *list, int n, bool is_all, int at, Expr **out)
{
    Expr **args = arena_array(binder->arena, Expr *, n + 1);
    args[0] = x;
    memcpy(args + 1, list, (size_t)n * sizeof *args);
    TRY(expr_call(binder->arena, OP_IN, args, n + 1, at, out, binder->err));
    return is_all ? bind_call(binder, OP_NOT, *out, NULL, at, out) : WEFT_OK;
}

weft_status bind_any_of_array(Binder *binder, const PgQuery__AExpr *expr, const char *name, bool is_all,
                              BindNamed *compare, Expr **out)
{
    const int at = expr->location;
    Expr     *x, **list;
    int       n;
    bool      is_null;
    TRY(binder->bind_expr(binder, expr->lexpr, &x));
    TRY(bind_array(binder, expr->rexpr, &list, &n, &is_null));
    *out = is_null ? term_null(binder, at) : term_boolean(binder, is_all, at);
    if (is_null || n == 0) return WEFT_OK;
    if (n > 1 && strcmp(name, is_all ? "<>" : "=") == 0 && are_const(list, n))
        return search_constants(binder, x, list, n, is_all, at, out);
    Expr **terms = arena_array(binder->arena, Expr *, n);
    for (int i = 0; i < n; i++) TRY(compare(binder, name, x, list[i], at, &terms[i]));
    return bind_chain(binder, is_all ? OP_AND : OP_OR, terms, n, at, out);
}
