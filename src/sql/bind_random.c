// bind_random.c - random(), gen_random_uuid() and setseed().
//
// A random number belongs to a row, and each time that random() is written it is another one.  So it is a column, which
// a window makes where the expression stands (bind_mark.c): no rewrite can compute it twice, fold it or move it away
// from its rows.  The number comes from the row's place and a seed that the statement draws from the session.

#include "base/random.h"
#include "plan/functions.h"
#include "sql/sql_int.h"

#include <math.h>
#include <time.h>

// The next seed of the session.  It is not kept with a plan: the next run draws another one.
static u64 draw_seed(Binder *binder)
{
    RandomSource    own = { 0 };                            // where there is no session
    RandomSource   *source = binder->names->random ? binder->names->random : &own;
    struct timespec now = { 0 };
    if (!source->is_seeded) {
        clock_gettime(CLOCK_REALTIME, &now);
        source->seed = random_mix((u64)now.tv_sec * 1000000007u + (u64)now.tv_nsec) ^ (u64)(uintptr_t)source;
        source->is_seeded = true;
    }
    if (binder->plan) binder->plan->is_momentary = true;
    return random_bits(source->seed, source->n_drawn++);
}

// A number for each row; where there are no rows (INSERT ... VALUES), one for the expression.
static weft_status bind_number(Binder *binder, Type type, int at, Expr **out)
{
    Mark      mark = { .kind = MARK_RANDOM, .at = at, .seed = draw_seed(binder) };
    const u64 bits = random_bits(mark.seed, 0);
    if (binder->place.block) {
        mark.rows = plan_values(binder->plan, 1, 0, NULL, NULL);
        mark.column = plan_add_column(binder->plan, type, "random", NULL);
        return add_mark(binder, mark, out);
    }
    Value value = { .type = type };
    if (type.kind == TYPE_DOUBLE) value.f = random_share(bits);
    else value.i = (i64)bits;
    *out = expr_const(binder->arena, value, at);
    return WEFT_OK;
}

// Of version 4: 122 random bits.
static weft_status bind_uuid(Binder *binder, int at, Expr **out)
{
    Expr *words[2];
    for (int i = 0; i < 2; i++) TRY(bind_number(binder, TYPE(BIGINT), at, &words[i]));
    return expr_call(binder->arena, function_find_hidden("uuid_of_bits"), words, 2, at, out, binder->err);
}

// Takes effect when the statement is bound: numbers to the right of it and in later statements follow from the seed.
static weft_status bind_setseed(Binder *binder, Expr *arg, int at, Expr **out)
{
    Value value = { 0 };
    TRY(expr_cast(binder->arena, arg, TYPE(DOUBLE), at, &arg, binder->err));
    if (!expr_is_const(arg)) return refuse(binder, at, "setseed of a value that is not constant");
    value = arg->value;
    if (!value.is_null && !(fabs(value.f) <= 1))
        return fail(binder->err, WEFT_INVALID_PARAMETER, at, "setseed parameter %g is out of allowed range [-1,1]",
                    value.f);
    if (!value.is_null && binder->names->random) {
        u64 bits;
        value.f += 0.0;                                     // -0 is 0
        memcpy(&bits, &value.f, sizeof bits);
        *binder->names->random = (RandomSource){ .is_seeded = true, .seed = random_mix(bits) };
    }
    if (binder->plan) binder->plan->is_momentary = true;
    Value nothing = { .type = TYPE(TEXT), .is_null = value.is_null, .text.bytes = "" };
    *out = expr_const(binder->arena, nothing, at);
    return WEFT_OK;
}

bool bind_is_random(const char *name)
{
    return strcmp(name, "random") == 0 || strcmp(name, "gen_random_uuid") == 0 || strcmp(name, "setseed") == 0;
}

weft_status bind_random(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const size_t n_args = strcmp(name, "setseed") == 0;
    Expr        *arg;
    if (call->n_args != n_args)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location,
                    "function %s with %zu argument%s does not exist", name, call->n_args,
                    call->n_args == 1 ? "" : "s");
    if (*name == 'g') return bind_uuid(binder, call->location, out);
    if (*name == 'r') return bind_number(binder, TYPE(DOUBLE), call->location, out);
    TRY(binder->bind_expr(binder, call->args[0], &arg));
    return bind_setseed(binder, arg, call->location, out);
}
