// wide_form.c - functions of numbers of more than 64 bits, by operators, which kernels know for 128 bits:
//
//     abs(x)    ->  CASE WHEN x < 0 THEN -x ELSE x END
//     trunc(x, n)  ->  x - x % unit
//     sign(x)   ->  CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 WHEN x = 0 THEN 0 END
//     floor(x)  ->  CASE WHEN n > x THEN n - 1 ELSE n END,    n the nearest whole number

#include "plan/functions.h"
#include "weave/weave_int.h"

static weft_status compare_with(Arena *arena, Op op, Expr *a, Expr *b, Expr **out, Error *err)
{
    return expr_call(arena, op, (Expr *[]){ a, b }, 2, a->at, out, err);
}

static Expr *whole(Arena *arena, int number)
{
    return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = number }, -1);
}

// CASE WHEN a OP b THEN yes ELSE no END, of the type of the call.
static weft_status choose(Arena *arena, const Expr *call, Op op, Expr *a, Expr *b, Expr *yes, Expr *no, Expr **out,
                          Error *err)
{
    Expr *is;
    TRY(compare_with(arena, op, a, b, &is, err));
    TRY(expr_cast(arena, yes, call->type, call->at, &yes, err));
    TRY(expr_cast(arena, no, call->type, call->at, &no, err));
    return expr_case(arena, (Expr *[]){ is, yes, no }, 3, call->at, out, err);
}

static weft_status size_of(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    Expr *x = call->args[0], *negated;
    TRY(expr_call(arena, OP_NEG, &x, 1, call->at, &negated, err));
    return choose(arena, call, OP_LT, x, whole(arena, 0), negated, x, out, err);
}

static weft_status sign_of(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    Expr *x = call->args[0], *rest, *null = expr_const(arena, (Value){ .type = call->type, .is_null = true }, -1);
    TRY(choose(arena, call, OP_EQ, x, whole(arena, 0), whole(arena, 0), null, &rest, err));
    TRY(choose(arena, call, OP_LT, x, whole(arena, 0), whole(arena, -1), rest, &rest, err));
    return choose(arena, call, OP_GT, x, whole(arena, 0), whole(arena, 1), rest, out, err);
}

// The nearest whole number, and one less or more where that is beyond the number on the wrong side.
static weft_status whole_of(Arena *arena, const Expr *call, Op beyond, Op step, Expr **out, Error *err)
{
    Expr *x = call->args[0], *nearest, *next;
    TRY(expr_cast(arena, x, call->type, call->at, &nearest, err));
    TRY(expr_call(arena, step, (Expr *[]){ nearest, whole(arena, 1) }, 2, call->at, &next, err));
    return choose(arena, call, beyond, nearest, x, next, nearest, out, err);
}

static weft_status floor_of(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    return whole_of(arena, call, OP_GT, OP_SUB, out, err);
}

static weft_status ceil_of(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    return whole_of(arena, call, OP_LT, OP_ADD, out, err);
}

static weft_status trunc_of(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    Expr *up, *down;
    TRY(ceil_of(arena, call, &up, err));
    TRY(floor_of(arena, call, &down, err));
    return choose(arena, call, OP_LT, call->args[0], whole(arena, 0), up, down, out, err);
}

// X without its digits below the unit that the call names: x - x % unit.
static weft_status cut_at_unit(Arena *arena, const Expr *call, Expr *x, Expr **out, Error *err)
{
    const Function *function = function_of(call->op);
    Expr           *rest = x;
    if (function->m(call) != 0) {                           // else the unit has more digits than any number
        Expr *unit = expr_const(arena, (Value){ .type = call->args[0]->type, .i = function->k(call) }, -1);
        TRY(expr_call(arena, OP_MOD, (Expr *[]){ x, unit }, 2, call->at, &rest, err));
    }
    TRY(expr_call(arena, OP_SUB, (Expr *[]){ x, rest }, 2, call->at, out, err));
    return expr_cast(arena, *out, call->type, call->at, out, err);
}

// Half a unit away from zero, then cut.
static weft_status round_to_unit(Arena *arena, const Expr *call, Expr **out, Error *err)
{
    Expr       *x = call->args[0], *is_negative, *step, *moved;
    const i128  half = function_of(call->op)->k(call) / 2;
    Expr *const up = expr_const(arena, (Value){ .type = x->type, .i = half }, -1),
         *const down = expr_const(arena, (Value){ .type = x->type, .i = -half }, -1);
    TRY(compare_with(arena, OP_LT, x, whole(arena, 0), &is_negative, err));
    TRY(expr_case(arena, (Expr *[]){ is_negative, down, up }, 3, call->at, &step, err));
    TRY(expr_call(arena, OP_ADD, (Expr *[]){ x, step }, 2, call->at, &moved, err));
    return cut_at_unit(arena, call, moved, out, err);
}

weft_status weave_wide_form(Arena *arena, WideForm form, const Expr *call, Expr **out, Error *err)
{
    switch (form) {
        case WIDE_FORM_SIZE: return size_of(arena, call, out, err);
        case WIDE_FORM_SIGN: return sign_of(arena, call, out, err);
        case WIDE_FORM_FLOOR: return floor_of(arena, call, out, err);
        case WIDE_FORM_CEIL: return ceil_of(arena, call, out, err);
        case WIDE_FORM_TRUNC: return trunc_of(arena, call, out, err);
        case WIDE_FORM_CUT: return cut_at_unit(arena, call, call->args[0], out, err);
        case WIDE_FORM_ROUND: return round_to_unit(arena, call, out, err);
        case WIDE_FORM_NONE: break;
    }
    return fail(err, WEFT_INTERNAL, call->at, "a function without a form for 128 bits");
}
