// words.c - calls of high_word and low_word (functions_wide.c), made and found.

#include "plan/functions.h"

static bool is_call_of(const Expr *expr, const char *name)
{
    const Function *function = expr->kind == EXPR_CALL ? function_of(expr->op) : NULL;
    return function && function->is_hidden && strcmp(function->names[0], name) == 0;
}

bool expr_is_high_word(const Expr *expr)
{
    return is_call_of(expr, "high_word");
}

bool expr_is_low_word(const Expr *expr)
{
    return is_call_of(expr, "low_word");
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
