// expr_call.c - calls and CASE as front ends make them: arguments counted, typed, simplified.

#include "plan/expr_int.h"

static bool is_boolean_const(const Expr *expr, bool value)
{
    return expr->kind == EXPR_CONST && expr->type.kind == TYPE_BOOLEAN && !expr->value.is_null &&
           (expr->value.i != 0) == value;
}

// ---- operators with an identity or a way out ------------------------------------------------------------------------

static const Op negation[OP_N] = {
    [OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE, [OP_GE] = OP_LT, [OP_GT] = OP_LE, [OP_LE] = OP_GT,
    [OP_IS_NULL] = OP_IS_NOT_NULL, [OP_IS_NOT_NULL] = OP_IS_NULL,
};

static bool is_comparison(const Expr *expr) { return expr->op < OP_N && negation[expr->op]; }

// Whether NOT before it can go down to comparisons and constants.
static bool has_opposite(const Expr *expr)
{
    if (expr->kind != EXPR_CALL || is_comparison(expr)) return expr->kind == EXPR_CALL || expr->kind == EXPR_CONST;
    return (expr->op == OP_AND || expr->op == OP_OR) && has_opposite(expr->args[0]) && has_opposite(expr->args[1]);
}

static weft_status opposite_of(const Call *call, Expr *expr, Expr **out)
{
    Expr *args[2];
    if (expr->kind == EXPR_CONST || is_comparison(expr))
        return expr_call(call->arena, OP_NOT, &expr, 1, expr->at, out, call->err);
    for (int i = 0; i < 2; i++) TRY(opposite_of(call, expr->args[i], &args[i]));
    return expr_call(call->arena, expr->op == OP_AND ? OP_OR : OP_AND, args, 2, expr->at, out, call->err);
}

// NOT a IS DISTINCT FROM b, which is coalesce(a <> b, a is not null or b is not null).
static weft_status simplify_not_coalesce(Call *call, const Expr *coalesce)
{
    Expr **args = arena_array(call->arena, Expr *, coalesce->n_args);
    for (int i = 0; i < coalesce->n_args; i++)
        if (!has_opposite(coalesce->args[i])) return WEFT_OK;
    for (int i = 0; i < coalesce->n_args; i++) TRY(opposite_of(call, coalesce->args[i], &args[i]));
    return expr_call(call->arena, OP_COALESCE, args, coalesce->n_args, coalesce->at, &call->result, call->err);
}

// NOT a < b is a >= b, for NULL and NaN too: comparisons are total.
static weft_status simplify_not(Call *call)
{
    Expr *arg = call->args[0];
    if (arg->kind != EXPR_CALL) return WEFT_OK;
    if (arg->op == OP_NOT) call->result = arg->args[0];
    if (arg->op == OP_COALESCE) return simplify_not_coalesce(call, arg);
    if (!is_comparison(arg)) return WEFT_OK;
    return expr_make_call(call->arena, negation[arg->op], arg->type, arg->args, arg->n_args, arg->at, &call->result,
                          call->err);
}

static void simplify_logic(Call *call)
{
    const bool decides = call->op == OP_OR;
    for (int i = 0; i < 2; i++) {
        if (is_boolean_const(call->args[i], decides)) call->result = call->args[i];
        else if (!call->result && is_boolean_const(call->args[i], !decides)) call->result = call->args[1 - i];
    }
}

// Drops NULLs and whatever comes after an argument that is never NULL.
static void simplify_coalesce(Call *call)
{
    Expr *last_null = NULL;
    int   n_kept = 0;
    for (int i = 0; i < call->n_args; i++) {
        if (expr_is_null_const(call->args[i])) {
            last_null = call->args[i];
            continue;
        }
        call->args[n_kept++] = call->args[i];
        if (call->args[i]->kind == EXPR_CONST) break;
    }
    call->n_args = n_kept;
    if (n_kept == 0) call->result = last_null;
    if (n_kept == 1) call->result = call->args[0];
}

static weft_status simplify(Call *call)
{
    switch (call->op) {
        case OP_NOT:          return simplify_not(call);
        case OP_AND: case OP_OR: simplify_logic(call);  break;
        case OP_COALESCE:     simplify_coalesce(call);  break;
        default: break;
    }
    return WEFT_OK;
}

// ---- constructors ---------------------------------------------------------------------------------------------------

static bool fits_count(Op op, int n_args)
{
    static const int counts[] = {
#define OP_COUNT(name, text, n_args, properties) n_args,
        PLAN_OP_LIST(OP_COUNT)
#undef OP_COUNT
    };
    if (op >= OP_N) return op > OP_N && n_args >= 1;       // functions check their arguments
    if (op == OP_LIKE || op == OP_ILIKE) return n_args == 2 || n_args == 3;
    if (op == OP_IN) return n_args >= 2;
    return counts[op] < 0 ? n_args >= 1 : n_args == counts[op];
}

weft_status expr_call(Arena *arena, Op op, Expr *const *args, int n_args, int at, Expr **out, Error *err)
{
    if (op == OP_CAST || !fits_count(op, n_args)) return fail(err, WEFT_INTERNAL, at, "wrong number of arguments");
    Call call = { .arena = arena, .op = op, .n_args = n_args, .at = at, .err = err };
    call.args = arena_array(arena, Expr *, n_args);
    memcpy(call.args, args, sizeof(Expr *) * (size_t)n_args);
    TRY(type_call(&call));
    if (!call.result) TRY(simplify(&call));
    *out = call.result;
    if (call.result) return WEFT_OK;
    return expr_make_call(arena, call.op, call.type, call.args, call.n_args, at, out, err);
}

// ---- NOT as it was written ------------------------------------------------------------------------------------------

weft_status expr_not(Arena *arena, Expr *arg, int at, Expr **out, Error *err)
{
    Call call = { .arena = arena, .op = OP_NOT, .n_args = 1, .at = at, .err = err };
    call.args = arena_array(arena, Expr *, 1);
    call.args[0] = arg;
    TRY(type_call(&call));
    *out = call.result;
    return call.result ? WEFT_OK : expr_make_call(arena, OP_NOT, call.type, call.args, 1, at, out, err);
}

static weft_status fold_not(Arena *arena, Expr *expr, Expr **args, Expr **out, Error *err)
{
    Call call = { .arena = arena, .op = OP_NOT, .args = args, .n_args = 1, .at = expr->at, .err = err };
    TRY(simplify_not(&call));
    *out = call.result ? call.result : expr;
    if (call.result || args == expr->args) return WEFT_OK;
    return expr_make_call(arena, OP_NOT, expr->type, args, 1, expr->at, out, err);
}

weft_status expr_fold_nots(Arena *arena, Expr *expr, Expr **out, Error *err)
{
    Expr **args = expr->args, *arg;
    *out = expr;
    for (int i = 0; i < expr->n_args; i++) {
        TRY(expr_fold_nots(arena, expr->args[i], &arg, err));
        if (arg == args[i]) continue;
        if (args == expr->args) {
            args = arena_array(arena, Expr *, expr->n_args);
            memcpy(args, expr->args, sizeof(Expr *) * (size_t)expr->n_args);
        }
        args[i] = arg;
    }
    if (expr->kind == EXPR_CALL && expr->op == OP_NOT) return fold_not(arena, expr, args, out, err);
    if (args == expr->args) return WEFT_OK;
    if (expr->kind == EXPR_CASE) return expr_make_case(arena, expr->type, args, expr->n_args, expr->at, out, err);
    return expr_make_call(arena, expr->op, expr->type, args, expr->n_args, expr->at, out, err);
}

// ---- CASE -----------------------------------------------------------------------------------------------------------

// Keeps the branches that can be taken: drops those behind a false condition, and ends at a true one.
static int live_branches(Expr **args, int n_args)
{
    int n_kept = 0;
    for (int i = 0; i + 1 < n_args; i += 2) {
        if (is_boolean_const(args[i], true)) {
            args[n_kept++] = args[i + 1];
            return n_kept;
        }
        if (args[i]->kind == EXPR_CONST) continue;          // false or NULL
        args[n_kept++] = args[i];
        args[n_kept++] = args[i + 1];
    }
    args[n_kept++] = args[n_args - 1];
    return n_kept;
}

static weft_status coerce_conditions(Arena *arena, Expr **args, int n_args, Error *err)
{
    char buffer[32];
    for (int i = 0; i + 1 < n_args; i += 2) {
        if (args[i]->type.kind != TYPE_BOOLEAN && !expr_is_untyped(args[i]))
            return fail(err, WEFT_TYPE_MISMATCH, args[i]->at, "argument of CASE/WHEN must be type boolean, not type %s",
                        type_label(args[i]->type, buffer));
        TRY(expr_coerce(arena, args[i], TYPE(BOOLEAN), args[i]->at, &args[i], err));
    }
    return WEFT_OK;
}

weft_status expr_case(Arena *arena, Expr *const *given, int n_args, int at, Expr **out, Error *err)
{
    if (n_args < 1 || n_args % 2 == 0) return fail(err, WEFT_INTERNAL, at, "wrong number of arguments");
    Expr **args = arena_array(arena, Expr *, n_args + 1);
    memcpy(args, given, sizeof(Expr *) * (size_t)n_args);
    TRY(coerce_conditions(arena, args, n_args, err));
    // The results are every second argument, and the last: with one slot moved they are every second.
    args[n_args] = args[n_args - 1];
    TRY(expr_unify(arena, args + 1, (n_args + 1) / 2, 2, "CASE", at, err));
    args[n_args - 1] = args[n_args];
    n_args = live_branches(args, n_args);
    *out = args[0];
    if (n_args == 1) return WEFT_OK;
    return expr_make_case(arena, args[n_args - 1]->type, args, n_args, at, out, err);
}
