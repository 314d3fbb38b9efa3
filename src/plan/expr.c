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

Expr *expr_column(Arena *arena, int relation, int column, Type type, int at)
{
    Expr *expr = node_new(arena, EXPR_COLUMN, type, at);
    expr->relation = relation;
    expr->column = column;
    return expr;
}

weft_status expr_number(Arena *arena, const char *bytes, size_t length, int at, Expr **out, Error *err)
{
    Value value;
    TRY(number_parse(bytes, length, at, &value, err));
    *out = const_new(arena, &value, at);
    return WEFT_OK;
}

// ---- questions ------------------------------------------------------------------------------------------------------

bool expr_is_const(const Expr *expr)
{
    return expr->kind == EXPR_CONST;
}

bool expr_is_untyped(const Expr *expr)
{
    return expr->type.kind == TYPE_NULL;
}

bool expr_is_null_const(const Expr *expr)
{
    return expr->kind == EXPR_CONST && expr->value.is_null;
}

static bool is_boolean_const(const Expr *expr, bool value)
{
    return expr->kind == EXPR_CONST && expr->type.kind == TYPE_BOOLEAN && !expr->value.is_null &&
           (expr->value.i != 0) == value;
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
            return a->interval.months == b->interval.months && a->interval.days == b->interval.days;
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
        case EXPR_COLUMN: return a->relation == b->relation && a->column == b->column;
        case EXPR_KEY:
        case EXPR_AGG:    return a->index == b->index;
        case EXPR_CALL:   if (a->op != b->op) return false;  break;
        case EXPR_CASE:   break;
    }
    for (int i = 0; i < a->n_args; i++)
        if (!expr_equal(a->args[i], b->args[i])) return false;
    return true;
}

bool expr_is_never(const Expr *condition) { return condition->kind == EXPR_CONST && (condition->value.is_null || !condition->value.i); }

u64 expr_relations(const Expr *expr)
{
    u64 relations = expr->kind == EXPR_COLUMN ? (u64)1 << expr->relation : 0;
    for (int i = 0; i < expr->n_args; i++) relations |= expr_relations(expr->args[i]);
    return relations;
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

static bool is_strict(Op op)
{
    return op != OP_AND && op != OP_OR && op != OP_COALESCE && op != OP_IS_NULL && op != OP_IS_NOT_NULL && op != OP_IN;
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
    if (expr->kind == EXPR_COLUMN || expr->kind == EXPR_KEY || expr->kind == EXPR_AGG) return true;
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
    if (is_strict(expr->op) && any_null(expr->args, expr->n_args) && !any_failing(expr->args, expr->n_args))
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

weft_status expr_make_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    *out = arg;
    if (type_equal(arg->type, type)) return WEFT_OK;
    Expr **args = arena_array(arena, Expr *, 1);
    args[0] = arg;
    return expr_make_call(arena, OP_CAST, type, args, 1, at, out, err);
}

// ---- operators with an identity or a way out ------------------------------------------------------------------------

static const Op negation[OP_N] = {
    [OP_EQ] = OP_NE, [OP_NE] = OP_EQ, [OP_LT] = OP_GE, [OP_GE] = OP_LT, [OP_GT] = OP_LE, [OP_LE] = OP_GT,
    [OP_IS_NULL] = OP_IS_NOT_NULL, [OP_IS_NOT_NULL] = OP_IS_NULL,
};

// NOT a < b is a >= b, for NULL and NaN too: comparisons are total.
static weft_status simplify_not(Call *call)
{
    Expr *arg = call->args[0];
    if (arg->kind != EXPR_CALL) return WEFT_OK;
    if (arg->op == OP_NOT) call->result = arg->args[0];
    if (!negation[arg->op]) return WEFT_OK;
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
#define OP_COUNT(name, text, n_args) n_args,
        PLAN_OP_LIST(OP_COUNT)
#undef OP_COUNT
    };
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
    Expr *expr = node_new(arena, EXPR_CASE, args[n_args - 1]->type, at);
    expr->args = args;
    expr->n_args = n_args;
    *out = expr;
    return count_nodes(expr, err);
}

// ---- casts ----------------------------------------------------------------------------------------------------------

static weft_status cannot_cast(const Expr *arg, Type type, int at, Error *err)
{
    char from[32], to[32];
    return fail(err, WEFT_CANNOT_COERCE, at, "cannot cast type %s to %s", type_label(arg->type, from),
                type_label(type, to));
}

// Reading text must not wait for a row: kernels know no text, and PostgreSQL reads literals at once too.
static weft_status cast_const_now(Arena *arena, const Expr *arg, Type type, int at, Expr **out, Error *err)
{
    Value value;
    TRY(value_cast(arena, &arg->value, type, at, &value, err));
    *out = const_new(arena, &value, at);
    return WEFT_OK;
}

static bool is_castable(TypeKind from, TypeKind to)
{
    if (from == to) return true;
    if (type_is_number((Type){ .kind = (u8)from }) && type_is_number((Type){ .kind = (u8)to })) return true;
    return (from == TYPE_BOOLEAN && to == TYPE_INTEGER) || (from == TYPE_INTEGER && to == TYPE_BOOLEAN);
}

weft_status expr_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    char buffer[32];
    *out = arg;
    if (type_equal(arg->type, type)) return WEFT_OK;
    const bool with_text = expr_is_untyped(arg) || arg->type.kind == TYPE_TEXT || type.kind == TYPE_TEXT;
    if (with_text && arg->kind == EXPR_CONST) return cast_const_now(arena, arg, type, at, out, err);
    if (with_text)
        return fail(err, WEFT_UNSUPPORTED, at,
                    "casts %s text of anything but constants are not supported yet (here: %s)",
                    type.kind == TYPE_TEXT ? "to" : "from",
                    type_label(type.kind == TYPE_TEXT ? arg->type : type, buffer));
    if (!is_castable(arg->type.kind, type.kind)) return cannot_cast(arg, type, at, err);
    return expr_make_cast(arena, arg, type, at, out, err);
}

static int number_rank(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: return 1;
        case TYPE_INTEGER:  return 2;
        case TYPE_BIGINT:   return 3;
        case TYPE_DECIMAL:  return 4;
        case TYPE_NUMERIC:  return 5;
        case TYPE_REAL:     return 6;
        case TYPE_DOUBLE:   return 7;
        default:            return 0;
    }
}

static bool is_widening(Type from, Type to)
{
    if (!number_rank(from) || number_rank(from) > number_rank(to)) return false;
    if (from.kind != TYPE_DECIMAL || type_is_float(to)) return true;
    return to.scale >= from.scale &&
           (to.kind == TYPE_NUMERIC || to.precision - to.scale >= from.precision - from.scale);
}

weft_status expr_coerce(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    char from[32], to[32];
    *out = arg;
    if (type_equal(arg->type, type)) return WEFT_OK;
    if (expr_is_untyped(arg) && arg->kind == EXPR_CONST) return cast_const_now(arena, arg, type, at, out, err);
    if (is_widening(arg->type, type)) return expr_make_cast(arena, arg, type, at, out, err);
    return fail(err, WEFT_TYPE_MISMATCH, at, "type %s where %s is expected", type_label(arg->type, from),
                type_label(type, to));
}

// ---- aggregates -----------------------------------------------------------------------------------------------------

static Type sum_type(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: case TYPE_INTEGER: return TYPE(BIGINT);
        case TYPE_BIGINT:   return (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, 0 };
        case TYPE_DECIMAL:  return (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, type.scale };
        default:            return TYPE(DOUBLE);
    }
}

static bool agg_takes(AggKind kind, Type type)
{
    const bool is_column_number = type_is_number(type) && type.kind != TYPE_NUMERIC;
    switch (kind) {
        case AGG_SUM: case AGG_AVG: return is_column_number;
        case AGG_MIN: case AGG_MAX: return is_column_number || type.kind == TYPE_DATE || type.kind == TYPE_TEXT;
        default:                    return true;
    }
}

weft_status expr_agg(AggKind kind, Expr *arg, int at, Agg *out, Error *err)
{
    char buffer[32];
    *out = (Agg){ .kind = kind, .arg = arg, .type = TYPE(BIGINT), .at = at };
    if (kind == AGG_COUNT_ALL) return WEFT_OK;
    if (!agg_takes(kind, arg->type))
        return fail(err, WEFT_UNDEFINED_FUNCTION, at, "function %s(%s) does not exist", agg_name(kind),
                    type_label(arg->type, buffer));
    if (kind == AGG_SUM) out->type = sum_type(arg->type);
    if (kind == AGG_AVG) out->type = TYPE(DOUBLE);
    if (kind == AGG_MIN || kind == AGG_MAX) out->type = arg->type;
    return WEFT_OK;
}
