// functions_wide.c - the two words of a number of 128 bits, as functions without a name in SQL.
//
// Kernels, join tables and stored rows know words of 64 bits.  Where a value that needs more is handed on (a group key,
// a join key, an output), the engine asks for its words (engine/wide.c), and each goes the way of a bigint:
//
//     group by total      ->      group by high_word(total), low_word(total)
//
// Both are NULL where the number is.  The low word is signed: number = high * 2^64 + low, so the high word of a number
// that fits 64 bits is 0, and statistics of the high words prove that.

#include "plan/functions.h"

#include "plan/expr_int.h"

FORMULA_WHOLE(high_word, (x - (long long)x) >> 64)
FORMULA_WHOLE(low_word, (long long)x)

static bool give_bigint(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BIGINT);
    return true;
}

static Range range_of_high_word(const Function *function, const Expr *call, const Range *args)
{
    if (args[0].low > args[0].high) return args[0];
    return (Range){ .known = true, .low = high_word_host(args[0].low, 1, 1, 0),
                    .high = high_word_host(args[0].high, 1, 1, 0) };
}

static Range range_of_low_word(const Function *function, const Expr *call, const Range *args)
{
    const bool is_word = args[0].low >= INT64_MIN && args[0].high <= INT64_MAX;
    return is_word ? args[0] : (Range){ .known = true, .low = INT64_MIN, .high = INT64_MAX };
}

static const Function functions[] = {
    { .names = { "high_word" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &high_word, .range = range_of_high_word },
    { .names = { "low_word" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &low_word, .range = range_of_low_word },
};

extern const FunctionFamily functions_wide;
const FunctionFamily functions_wide = { NULL, functions, COUNT_OF(functions) };
