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
    return range_is_word(args[0]) ? args[0] : range_of_type(TYPE(BIGINT));
}

static const Function functions[] = {
    { .names = { "high_word" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &high_word, .range = range_of_high_word },
    { .names = { "low_word" }, .is_hidden = true, .n_args = 1, .args = { ARG_EXACT }, .types = give_bigint,
      .formula = &low_word, .range = range_of_low_word },
};

extern const FunctionFamily functions_wide;
const FunctionFamily functions_wide = { NULL, functions, COUNT_OF(functions) };

bool expr_is_high_word(const Expr *expr)
{
    return expr->kind == EXPR_CALL && function_of(expr->op) == &functions[0];
}

bool expr_is_low_word(const Expr *expr)
{
    return expr->kind == EXPR_CALL && function_of(expr->op) == &functions[1];
}

// Not folded: the engine looks for these calls.
static Expr *word_call(Arena *arena, const char *name, Expr *expr)
{
    Expr *call = arena_make(arena, Expr), **args = arena_array(arena, Expr *, 1);
    args[0] = expr;
    *call = (Expr){ .kind = EXPR_CALL, .type = TYPE(BIGINT), .at = expr->at, .op = function_find_hidden(name),
                    .n_args = 1, .args = args, .depth = MAX_OF(expr->depth, 1) + 1, .size = MAX_OF(expr->size, 1) + 1 };
    return call;
}

Expr *expr_high_word(Arena *arena, Expr *expr) { return word_call(arena, "high_word", expr); }
Expr *expr_low_word(Arena *arena, Expr *expr) { return word_call(arena, "low_word", expr); }
