// expr_cast.c - casts: which there are, which happen by themselves, and those between dates and times, which are
// functions (functions_time.c).

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/time.h"

bool is_moment(Type type)
{
    return type.kind == TYPE_DATE || type.kind >= TYPE_TIMESTAMP;
}

// Arguments become what the function takes.
weft_status time_call(Arena *arena, const char *hidden, Expr *const *args, int n_args, int at, Expr **out, Error *err)
{
    const Op op = function_find_hidden(hidden);
    Type     types[FUNCTION_ARGS], result;
    Expr   **own = arena_array(arena, Expr *, n_args);
    if (!function_types(function_of(op), args, n_args, types, &result))
        return fail(err, WEFT_UNDEFINED_FUNCTION, at, "no such operator on dates or times");
    for (int i = 0; i < n_args; i++) {
        own[i] = args[i];
        const bool is_fixed = function_of(op)->args[i] == ARG_CONSTANT;
        if (!is_fixed && !type_equal(args[i]->type, types[i]))
            TRY(expr_make_cast(arena, args[i], types[i], at, &own[i], err));
    }
    return expr_make_call(arena, op, result, own, n_args, at, out, err);
}

// ---- dates and times -----------------------------------------------------------------------------------------------

bool time_can_cast(TypeKind from, TypeKind to, bool is_implicit)
{
    if (from == to) return true;
    switch (from) {
        case TYPE_DATE:        return to == TYPE_TIMESTAMP || to == TYPE_TIMESTAMPTZ;
        case TYPE_TIMESTAMP:   return to == TYPE_TIMESTAMPTZ || (!is_implicit && (to == TYPE_DATE || to == TYPE_TIME));
        case TYPE_TIMESTAMPTZ: return !is_implicit && (to == TYPE_TIMESTAMP || to == TYPE_DATE || to == TYPE_TIME);
        case TYPE_TIME:        return to == TYPE_INTERVAL;
        case TYPE_INTERVAL:    return !is_implicit && to == TYPE_TIME;
        default:               return false;
    }
}

static Expr *zone_const(Arena *arena, u8 zone, int at)
{
    return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = zone }, at);
}

static weft_status to_local(Arena *arena, Expr *arg, int at, Expr **out, Error *err)
{
    Expr *args[2] = { arg, zone_const(arena, arg->type.scale, at) };
    if (!arg->type.scale) return time_call(arena, "as_timestamp", args, 1, at, out, err);
    return time_call(arena, "zone_to_local", args, 2, at, out, err);
}

// The zone is part of the type, where functions do not put it.
static weft_status from_local(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    Expr *args[2] = { arg, zone_const(arena, type.scale, at) };
    if (!type.scale) return time_call(arena, "as_timestamptz", args, 1, at, out, err);
    TRY(time_call(arena, "zone_from_local", args, 2, at, out, err));
    (*out)->type = type;
    if ((*out)->kind == EXPR_CONST) (*out)->value.type = type;
    return WEFT_OK;
}

weft_status time_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    const TypeKind from = arg->type.kind, to = type.kind;
    Expr          *stamp = arg;
    if (expr_is_null_const(arg)) {
        *out = expr_null(arena, type, at);
        return WEFT_OK;
    }
    if (from == TYPE_TIME) return time_call(arena, "time_interval", &arg, 1, at, out, err);
    if (from == TYPE_INTERVAL) return time_call(arena, "interval_to_time", &arg, 1, at, out, err);
    if (from == TYPE_DATE) TRY(time_call(arena, "date_to_timestamp", &arg, 1, at, &stamp, err));
    if (from == TYPE_TIMESTAMPTZ) TRY(to_local(arena, arg, at, &stamp, err));
    switch (to) {
        case TYPE_DATE:        return time_call(arena, "timestamp_to_date", &stamp, 1, at, out, err);
        case TYPE_TIME:        return time_call(arena, "timestamp_to_time", &stamp, 1, at, out, err);
        case TYPE_TIMESTAMPTZ: return from_local(arena, stamp, type, at, out, err);
        default:               *out = stamp; return WEFT_OK;
    }
}

// ---- any types -----------------------------------------------------------------------------------------------------

weft_status expr_make_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    *out = arg;
    if (type_equal(arg->type, type)) return WEFT_OK;
    if (type_is_time(arg->type) && type_is_time(type)) return time_cast(arena, arg, type, at, out, err);
    Expr **args = arena_array(arena, Expr *, 1);
    args[0] = arg;
    return expr_make_call(arena, OP_CAST, type, args, 1, at, out, err);
}

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
    *out = expr_const(arena, value, at);
    if (arg->decides && type_is_time(type)) *arg->decides = type;
    return WEFT_OK;
}

static bool is_castable(TypeKind from, TypeKind to)
{
    if (from == to) return true;
    if (type_is_number((Type){ .kind = (u8)from }) && type_is_number((Type){ .kind = (u8)to })) return true;
    if (type_is_time((Type){ .kind = (u8)from }) && time_can_cast(from, to, false)) return true;
    return (from == TYPE_BOOLEAN && to == TYPE_INTEGER) || (from == TYPE_INTEGER && to == TYPE_BOOLEAN);
}

// Only texts become uuids, and uuids only texts.
static bool is_uuid_castable(Type from, Type to)
{
    if (type_is_uuid(from)) return to.kind == TYPE_TEXT;
    return !type_is_uuid(to) || from.kind == TYPE_TEXT || from.kind == TYPE_NULL;
}

weft_status expr_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err)
{
    *out = arg;
    if (type.kind == TYPE_TEXT) TRY(expr_refuse_long(arg, err));
    if (arg->is_long) *out = arg = expr_as_double(arena, arg);
    if (type_equal(arg->type, type)) return WEFT_OK;
    if (!is_uuid_castable(arg->type, type)) return cannot_cast(arg, type, at, err);
    const bool with_text = expr_is_untyped(arg) || arg->type.kind == TYPE_TEXT || type.kind == TYPE_TEXT;
    if (with_text && arg->kind == EXPR_CONST && (expr_is_untyped(arg) || arg->type.kind != TYPE_TEXT))
        return cast_const_now(arena, arg, type, at, out, err);
    if (with_text) return expr_make_cast(arena, arg, type, at, out, err);
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
    if (type_is_time(arg->type) && time_can_cast(arg->type.kind, type.kind, true))
        return expr_make_cast(arena, arg, type, at, out, err);
    if (is_widening(arg->type, type)) return expr_make_cast(arena, arg, type, at, out, err);
    return fail(err, WEFT_TYPE_MISMATCH, at, "type %s where %s is expected", type_label(arg->type, from),
                type_label(type, to));
}
