// having.c - a condition on groups as a range of one aggregate.
//
// A number that is compared with a constant, as it is or as a number of another type, is on one side of it up to some
// number and on the other side from there on: casts between numbers keep the order.  So where the condition turns is
// found by asking the interpreter for some 64 numbers, and nothing about scales, rounding or digits is known here.
// Where it fails for the least or the largest number (a cast to few digits), it is left to the interpreter: it may
// fail for a group, too.

#include "engine/having.h"

typedef struct Asked { Type type; i64 number; } Asked;

static void give_number(void *context, const Expr *node, Value *value)
{
    const Asked *asked = context;
    (void)node;
    *value = (Value){ .type = asked->type, .i = asked->number };
}

// False: it fails.
static bool ask(const Expr *condition, Type type, i64 number, bool *holds)
{
    Arena            *scratch = arena_new(NULL, "having");
    Asked             asked = { type, number };
    const EvalContext context = { .arena = scratch, .column = give_number, .context = &asked };
    Error             err = { 0 };
    Value             value;
    const bool        is_known = expr_eval(condition, &context, &value, &err) == WEFT_OK;
    *holds = is_known && !value.is_null && value.i;
    arena_free(scratch);
    return is_known;
}

// CONDITION is true from some number on, or up to some number, or for all, or for none.
static bool find_turn(const Expr *condition, Type type, CellRange *range)
{
    i64  low = INT64_MIN, high = INT64_MAX;
    bool at_low, at_high, holds;
    if (!ask(condition, type, low, &at_low) || !ask(condition, type, high, &at_high)) return false;
    if (at_low == at_high) {
        *range = (CellRange){ at_low ? low : 1, at_low ? high : 0, false };
        return true;
    }
    while ((u64)high - (u64)low > 1) {                      // LOW is as the least number, HIGH as the largest
        const i64 middle = (i64)((u64)low + ((u64)high - (u64)low) / 2);
        if (!ask(condition, type, middle, &holds)) return false;
        if (holds == at_low) low = middle;
        else high = middle;
    }
    *range = at_low ? (CellRange){ INT64_MIN, low, false } : (CellRange){ high, INT64_MAX, false };
    return true;
}

static bool find_equal(const Expr *condition, Type type, CellRange *range)
{
    Expr      from = *condition, until = *condition;
    CellRange low, high;
    from.op = OP_GE, until.op = OP_LE;
    if (!find_turn(&from, type, &low) || !find_turn(&until, type, &high)) return false;
    *range = (CellRange){ MAX_OF(low.low, high.low), MIN_OF(low.high, high.high), condition->op == OP_NE };
    return true;
}

static bool is_number(Type type)
{
    return type_is_integer(type) || type_is_float(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// Its values are one number of 64 bits, in order.
static bool is_ordered(Type type)
{
    return (is_number(type) && !type_is_float(type) && !type_is_quotient(type)) || type.kind == TYPE_DATE ||
           type.kind == TYPE_TIMESTAMP || type.kind == TYPE_TIMESTAMPTZ || type.kind == TYPE_TIME;
}

int having_column(const Expr *condition)
{
    if (condition->kind != EXPR_CALL || condition->op < OP_EQ || condition->op > OP_GE) return -1;
    const int   side = condition->args[1]->kind == EXPR_CONST ? 0 : 1;
    const Expr *value = condition->args[side], *constant = condition->args[1 - side];
    if (constant->kind != EXPR_CONST || constant->value.is_null) return -1;
    while (value->kind == EXPR_CALL && value->op == OP_CAST && is_number(value->type) &&
           is_number(value->args[0]->type))
        value = value->args[0];
    return value->kind == EXPR_COLUMN ? value->column : -1;
}

bool having_range(const Expr *condition, Type type, CellRange *range)
{
    if (!is_ordered(type)) return false;
    return condition->op == OP_EQ || condition->op == OP_NE ? find_equal(condition, type, range)
                                                            : find_turn(condition, type, range);
}
