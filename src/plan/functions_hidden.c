// functions_hidden.c - functions without a name in SQL, which aggregates are built with.

#include "plan/functions.h"

#include "plan/expr_int.h"

static bool give_double(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DOUBLE);
    return true;
}

// sum(x * x) - sum(x)^2 / n of doubles that were rounded: 2^-50 of the first is what rounding may have left.
static double squares_of_doubles(double n, double sum, double sum_of_squares)
{
    const double squares = sum_of_squares - sum * (sum / n);
    return n == 1 && squares == squares ? 0 : squares < sum_of_squares * 0x1p-50 ? 0 : squares;
}

// Exact where 128 bits hold n * sum(x * x), as they hold the square of the sum then: it is not larger.
static weft_status eval_squares(const Expr *call, const Value *args, Value *value, Error *err)
{
    const i128   n = args[0].i, sum = args[1].i, sum_of_squares = args[2].i;
    const double unit = (double)ten_to(call->args[2]->type.scale);
    i128         a, b;
    if (multiply_wide(n, sum_of_squares, &a) && multiply_wide(sum, sum, &b))
        value->f = (double)(a - b) / ((double)n * unit);
    else
        value->f = squares_of_doubles((double)n, (double)sum, (double)sum_of_squares) / unit;
    return WEFT_OK;
}

static const Function functions[] = {
    { .names = { "squares" }, .is_hidden = true, .n_args = 3, .args = { ARG_BIGINT, ARG_EXACT, ARG_EXACT },
      .types = give_double, .eval = eval_squares },
};

extern const FunctionFamily functions_hidden;
const FunctionFamily functions_hidden = { NULL, functions, COUNT_OF(functions) };
