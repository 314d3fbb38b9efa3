// functions_range.c - ranges of functions of one argument that never fall as it grows: what the ends give.

#include "plan/functions.h"

#include "plan/expr_int.h"

static Range rising(const Function *function, const Expr *call, const Range *args, Rising kind)
{
    Range range = { .low = INT64_MIN, .high = INT64_MAX };
    if (type_is_float(call->type)) range.f = float_range_of_rising(args[0].f, function->formula->f64, kind);
    if (type_is_float(call->type) || !args[0].known) return range;
    range.known = true, range.low = args[0].low, range.high = args[0].high;
    if (range.low > range.high) return range;
    const i128 k = function->k ? function->k(call) : 1, m = function->m ? function->m(call) : 1;
    range.low = function->formula->whole(args[0].low, k, m, 0);
    range.high = function->formula->whole(args[0].high, k, m, 0);
    return range;
}

Range range_of_whole(const Function *function, const Expr *call, const Range *args)
{
    return rising(function, call, args, RISING_WHOLE);
}

Range range_of_root(const Function *function, const Expr *call, const Range *args)
{
    return rising(function, call, args, RISING_ROOT);
}

Range range_of_smooth(const Function *function, const Expr *call, const Range *args)
{
    return rising(function, call, args, RISING_SMOOTH);
}
