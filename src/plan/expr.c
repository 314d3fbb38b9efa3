// expr.c - expression nodes: made once, typed, folded, compared.
//
// Every node goes through expr_make_call (or its sister for CASE), which folds what is constant and counts.  Two counts
// keep every later walk safe: the depth bounds its stack, and the size, which counts a shared subtree as often as it is
// reached, bounds its time (nullif(x, y) uses x twice, so forty nested ones would be 2^40 visits).
//
// Folding never turns a legal statement into an error: what fails stays unfolded and fails when a row gets there, so
// CASE WHEN false THEN 1/0 ELSE 2 END is 2.

#include "plan/expr_int.h"

enum { DEPTH_MAX = 1000, SIZE_MAX_NODES = 1 << 20 };

int expr_depth_limit(void)
{
    return DEPTH_MAX;
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static Expr *node_new(Arena *arena, ExprKind kind, Type type, int at)
{
    Expr *expr = arena_make(arena, Expr);
    expr->kind = kind;
    expr->type = type;
    expr->at = at;
    expr->depth = expr->size = 1;
    return expr;
}

static Expr *const_new(Arena *arena, const Value *value, int at)
{
    Expr *expr = node_new(arena, EXPR_CONST, value->type, at);
    expr->value = *value;
    return expr;
}

Expr *expr_const(Arena *arena, Value value, int at)
{
    const bool has_text = value.type.kind == TYPE_TEXT || value.type.kind == TYPE_NULL;
    if (has_text && !value.is_null) value.text.bytes = arena_strndup(arena, value.text.bytes, value.text.length);
    return const_new(arena, &value, at);
}

Expr *expr_null(Arena *arena, Type type, int at)
{
    return const_new(arena, &(Value){ .type = type, .is_null = true }, at);
}

Expr *expr_boolean(Arena *arena, bool value, int at)
{
    return const_new(arena, &(Value){ .type = TYPE(BOOLEAN), .i = value }, at);
}

Expr *expr_column(Arena *arena, int column, Type type, int at)
{
    Expr *expr = node_new(arena, EXPR_COLUMN, type, at);
    expr->column = column;
    return expr;
}

Expr *expr_param(Arena *arena, int param, Type type, int at)
{
    Expr *expr = node_new(arena, EXPR_PARAM, type, at);
    expr->param = param;
    return expr;
}

Expr *expr_hole(Arena *arena, int param, Type type, int at)
{
    Expr *expr = expr_param(arena, param, type, at);
    expr->is_given = true;
    return expr;
}

weft_status expr_number(Arena *arena, const char *bytes, size_t length, int at, Expr **out, Error *err)
{
    Value value;
    TRY(number_parse(bytes, length, at, &value, err));
    *out = const_new(arena, &value, at);
    (*out)->is_long = value.type.kind == TYPE_DOUBLE;
    return WEFT_OK;
}

// ---- questions ------------------------------------------------------------------------------------------------------

weft_status expr_refuse_long(const Expr *expr, Error *err)
{
    if (!expr->is_long) return WEFT_OK;
    fail(err, WEFT_OUT_OF_RANGE, expr->at, "a number of more than %d digits is too long", NUMERIC_DIGITS);
    error_hint(err, "Exact numbers have %d digits at most. Cast it to double precision if one is meant.",
               NUMERIC_DIGITS);
    return WEFT_OUT_OF_RANGE;
}

Expr *expr_as_double(Arena *arena, const Expr *expr)
{
    Expr *copy = arena_make(arena, Expr);
    *copy = *expr;
    copy->is_long = false;
    return copy;
}

bool expr_is_const(const Expr *expr)
{
    return expr->kind == EXPR_CONST;
}

bool expr_is_declared(const Expr *expr)
{
    const bool is_case = expr->kind == EXPR_CASE;
    if (expr->is_declared || (!is_case && (expr->kind != EXPR_CALL || expr->op != OP_COALESCE)))
        return expr->is_declared;
    for (int i = is_case; i < expr->n_args; i += 1 + (is_case && i + 2 < expr->n_args))
        if (!expr_is_declared(expr->args[i])) return false;
    return true;
}

bool expr_is_untyped(const Expr *expr)
{
    return expr->type.kind == TYPE_NULL;
}

bool expr_is_null_const(const Expr *expr)
{
    return expr->kind == EXPR_CONST && expr->value.is_null;
}

static bool values_equal(const Value *a, const Value *b)
{
    if (!type_equal(a->type, b->type) || a->is_null != b->is_null) return false;
    if (a->is_null) return true;
    switch ((TypeKind)a->type.kind) {
        case TYPE_REAL: case TYPE_DOUBLE:                   // by bits: 0.0 and -0.0 are different expressions
            return memcmp(&a->f, &b->f, sizeof a->f) == 0;
        case TYPE_TEXT: case TYPE_NULL:
            return a->text.length == b->text.length &&
                   (a->text.length == 0 || memcmp(a->text.bytes, b->text.bytes, a->text.length) == 0);
        case TYPE_INTERVAL:
            return a->interval.months == b->interval.months && a->interval.days == b->interval.days &&
                   a->interval.micros == b->interval.micros;
        default:
            return a->i == b->i;
    }
}

bool expr_equal(const Expr *a, const Expr *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->n_args != b->n_args || !type_equal(a->type, b->type)) return false;
    if (a->size > 1 && b->size > 1 && a->size != b->size) return false;
    switch (a->kind) {
        case EXPR_CONST:  return values_equal(&a->value, &b->value);
        case EXPR_COLUMN: return a->column == b->column;
        case EXPR_PARAM:  return a->param == b->param;
        case EXPR_CALL:   if (a->op != b->op) return false;  break;
        case EXPR_CASE:   break;
    }
    for (int i = 0; i < a->n_args; i++)
        if (!expr_equal(a->args[i], b->args[i])) return false;
    return true;
}

bool expr_is_never(const Expr *condition)
{
    return condition->kind == EXPR_CONST && (condition->value.is_null || !condition->value.i);
}

// ---- inner nodes ----------------------------------------------------------------------------------------------------

static weft_status count_nodes(Expr *expr, Error *err)
{
    i64 size = 1;
    for (int i = 0; i < expr->n_args; i++) {
        expr->depth = MAX_OF(expr->depth, MAX_OF(expr->args[i]->depth, 1) + 1);
        size += MAX_OF(expr->args[i]->size, 1);
    }
    if (expr->depth <= DEPTH_MAX && size <= SIZE_MAX_NODES) {
        expr->size = (int)size;
        return WEFT_OK;
    }
    if (expr->depth > DEPTH_MAX) {
        fail(err, WEFT_TOO_COMPLEX, expr->at, "expression is nested too deeply");
        error_hint(err, "The limit is %d levels.", DEPTH_MAX);
    } else {
        fail(err, WEFT_TOO_COMPLEX, expr->at, "expression is too large");
        error_hint(err, "The limit is %d operators and operands, repeated ones included.", SIZE_MAX_NODES);
    }
    return WEFT_TOO_COMPLEX;
}

static bool all_const(Expr *const *args, int n_args)
{
    for (int i = 0; i < n_args; i++)
        if (args[i]->kind != EXPR_CONST) return false;
    return true;
}

static bool any_null(Expr *const *args, int n_args)
{
    for (int i = 0; i < n_args; i++)
        if (expr_is_null_const(args[i])) return true;
    return false;
}

static bool has_input(const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN || expr->kind == EXPR_PARAM) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_input(expr->args[i])) return true;
    return false;
}

// NULL + 1/0 is an error and not NULL: what has no input and was not folded, fails.
static bool any_failing(Expr *const *args, int n_args)
{
    for (int i = 0; i < n_args; i++)
        if (args[i]->kind != EXPR_CONST && !has_input(args[i])) return true;
    return false;
}

static Expr *fold(Arena *arena, Expr *expr)
{
    if (!op_has(expr->op, OP_LAX) && any_null(expr->args, expr->n_args) && !any_failing(expr->args, expr->n_args))
        return expr_null(arena, expr->type, expr->at);
    if (!all_const(expr->args, expr->n_args)) return expr;
    const EvalContext context = { .arena = arena };
    Value             value;
    Error             ignored;
    error_clear(&ignored);
    if (expr_eval(expr, &context, &value, &ignored)) return expr;
    return const_new(arena, &value, expr->at);
}

weft_status expr_make_call(Arena *arena, Op op, Type type, Expr **args, int n_args, int at, Expr **out, Error *err)
{
    Expr *expr = node_new(arena, EXPR_CALL, type, at);
    expr->op = op;
    expr->args = args;
    expr->n_args = n_args;
    TRY(count_nodes(expr, err));
    *out = fold(arena, expr);
    return WEFT_OK;
}

Expr *expr_with_args(Arena *arena, const Expr *call, Expr **args, int n_args)
{
    Expr *expr = arena_make(arena, Expr);
    *expr = *call;
    expr->args = args;
    expr->n_args = n_args;
    expr->size = 1;
    for (int i = 0; i < n_args; i++) expr->size += MAX_OF(args[i]->size, 1);
    return expr;
}

weft_status expr_make_case(Arena *arena, Type type, Expr **args, int n_args, int at, Expr **out, Error *err)
{
    Expr *expr = *out = node_new(arena, EXPR_CASE, type, at);
    expr->args = args, expr->n_args = n_args;
    return count_nodes(expr, err);
}

// ---- leaves replaced ------------------------------------------------------------------------------------------------

// *IS_CHANGED: an argument is another one now; *ARGS is then a new list.
static weft_status replace_args(Arena *arena, const Expr *expr, ReplaceLeaf *give, void *context, Expr ***args,
                                bool *is_changed, Error *err)
{
    *is_changed = false;
    *args = arena_array(arena, Expr *, expr->n_args + 1);
    for (int i = 0; i < expr->n_args; i++) {
        TRY(expr_replace(arena, expr->args[i], give, context, &(*args)[i], err));
        *is_changed |= (*args)[i] != expr->args[i];
    }
    return WEFT_OK;
}

// What stands in for a leaf has its type, so the types above still hold.
weft_status expr_replace(Arena *arena, const Expr *expr, ReplaceLeaf *give, void *context, Expr **out, Error *err)
{
    Expr **args;
    bool   is_changed;
    *out = (Expr *)(uintptr_t)expr;
    if (expr->kind == EXPR_CONST) return WEFT_OK;
    if (expr->kind == EXPR_COLUMN || expr->kind == EXPR_PARAM) {
        const Expr *instead = give(context, expr);
        if (instead) *out = (Expr *)(uintptr_t)instead;
        return WEFT_OK;
    }
    TRY(replace_args(arena, expr, give, context, &args, &is_changed, err));
    if (!is_changed) return WEFT_OK;
    if (expr->kind == EXPR_CALL)
        return expr_make_call(arena, expr->op, expr->type, args, expr->n_args, expr->at, out, err);
    return expr_make_case(arena, expr->type, args, expr->n_args, expr->at, out, err);
}
