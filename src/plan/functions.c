// functions.c - the lists of functions, and what all functions have in common.
//
// A new family is a line below and a file; a new function is a descriptor in its family's file.

#include "plan/functions.h"

#include "plan/expr_int.h"

extern const FunctionFamily functions_math, functions_number, functions_date, functions_time, functions_text,
    functions_regexp, functions_format, functions_hidden, functions_series, functions_wide;

static const FunctionFamily *const families[] = {
    &functions_math, &functions_number, &functions_date, &functions_time, &functions_regexp, &functions_text,
    &functions_format, &functions_hidden, &functions_series, &functions_wide
};

int functions_count(void)
{
    int n = 0;
    for (int f = 0; f < COUNT_OF(families); f++) n += families[f]->n_functions;
    return n;
}

const Function *function_at(int i)
{
    for (int f = 0; f < COUNT_OF(families); f++) {
        if (i < families[f]->n_functions) return &families[f]->functions[i];
        i -= families[f]->n_functions;
    }
    return NULL;
}

const FunctionFamily *function_family(int i)
{
    return i < COUNT_OF(families) ? families[i] : NULL;
}

const Function *function_of(Op op)
{
    return op >= OP_FUNCTION ? function_at((int)op - OP_FUNCTION) : NULL;
}

static Op op_at(int i)
{
    return function_at(i)->op ? function_at(i)->op : (Op)(OP_FUNCTION + i);
}

static bool has_name(const Function *function, const char *name)
{
    for (int n = 0; n < COUNT_OF(function->names) && function->names[n]; n++)
        if (strcmp(function->names[n], name) == 0) return true;
    return false;
}

// ---- types ----------------------------------------------------------------------------------------------------------

static bool is_decimal(Type type)
{
    return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

// Whether the argument obeys the rule; *TYPE: what it becomes.
static bool obeys(ArgRule rule, const Expr *arg, Type *type)
{
    const bool is_literal = arg->type.kind == TYPE_NULL;
    *type = arg->type;
    switch (rule) {
        case ARG_DOUBLE:
            *type = TYPE(DOUBLE);
            return is_literal || type_is_number(arg->type);
        case ARG_NUMBER:
            if (is_literal) *type = TYPE(DOUBLE);
            return is_literal || type_is_number(arg->type);
        case ARG_EXACT:   return type_is_exact(arg->type);
        case ARG_DECIMAL: return is_decimal(arg->type);
        case ARG_DATE:
            *type = TYPE(DATE);
            return is_literal || arg->type.kind == TYPE_DATE;
        case ARG_DIGITS: return type_is_integer(arg->type) || (arg->kind == EXPR_CONST && arg->value.is_null);
        case ARG_BIGINT: return arg->type.kind == TYPE_BIGINT;
        case ARG_MOMENT: return arg->type.kind == TYPE_DATE || arg->type.kind >= TYPE_TIMESTAMP;
        case ARG_TIME:   return arg->type.kind == TYPE_TIME;
        case ARG_TIMESTAMP:
            *type = TYPE(TIMESTAMP);
            return is_literal || arg->type.kind == TYPE_DATE || arg->type.kind == TYPE_TIMESTAMP ||
                   arg->type.kind == TYPE_TIMESTAMPTZ;
        case ARG_INTERVAL:
            *type = TYPE(INTERVAL);
            return is_literal || arg->type.kind == TYPE_INTERVAL || arg->type.kind == TYPE_TIME;
        case ARG_CONSTANT: return arg->kind == EXPR_CONST;
        case ARG_TEXT:
            *type = TYPE(TEXT);
            return is_literal || (arg->type.kind == TYPE_TEXT && !type_is_uuid(arg->type));
        case ARG_INTEGER:
            *type = TYPE(INTEGER);
            return is_literal || arg->type.kind == TYPE_INTEGER || arg->type.kind == TYPE_SMALLINT;
    }
    return false;
}

bool function_types(const Function *function, Expr *const *args, int n_args, Type *types, Type *result)
{
    if (n_args != function->n_args) return false;
    for (int i = 0; i < n_args; i++)
        if (!obeys(function->args[i], args[i], &types[i])) return false;
    *result = types[0];
    return !function->types || function->types(args, types, result);
}

// ---- names ----------------------------------------------------------------------------------------------------------

static bool is_callable(const Function *function, const char *name)
{
    return !function->is_field && !function->is_hidden && has_name(function, name);
}

bool function_is_name(const char *name)
{
    for (int i = 0; i < functions_count(); i++)
        if (is_callable(function_at(i), name)) return true;
    return false;
}

Op function_find(const char *name, Expr *const *args, int n_args)
{
    Type types[FUNCTION_ARGS], result;
    for (int i = 0; i < functions_count(); i++) {
        const Function *function = function_at(i);
        if (!is_callable(function, name)) continue;
        if (function->op ? n_args == function->n_args : function_types(function, args, n_args, types, &result))
            return op_at(i);
    }
    return OP_N;
}

Op function_find_field(const char *name, Expr *arg)
{
    Type types[FUNCTION_ARGS], result;
    for (int i = 0; i < functions_count(); i++)
        if (function_at(i)->is_field && has_name(function_at(i), name) &&
            function_types(function_at(i), &arg, 1, types, &result))
            return op_at(i);
    return OP_N;
}

bool function_is_field(const char *name)
{
    for (int i = 0; i < functions_count(); i++)
        if (function_at(i)->is_field && has_name(function_at(i), name)) return true;
    return false;
}

Op function_find_hidden(const char *name)
{
    for (int i = 0; i < functions_count(); i++)
        if (function_at(i)->is_hidden && has_name(function_at(i), name)) return op_at(i);
    return OP_N;
}

// ---- values ---------------------------------------------------------------------------------------------------------

int function_n_values(const Function *function)
{
    int n = 0;
    while (n < function->n_args && function->args[n] != ARG_DIGITS && function->args[n] != ARG_CONSTANT) n++;
    return n;
}

bool function_can_fail(const Function *function)
{
    return function->checks[0].fails || function->overflow || function->can_overflow || function->can_fail;
}

static weft_status eval_f64(const Function *function, const Expr *call, const Value *args, Value *value, Error *err)
{
    const double x = args[0].f, y = function_n_values(function) > 1 ? args[1].f : 0;
    const double r = function->formula->f64(x, y, 0);
    value->f = call->type.kind == TYPE_REAL ? (double)(float)r : r;
    for (int c = 0; c < FUNCTION_CHECKS && function->checks[c].fails; c++)
        if (function->checks[c].fails->f64(x, y, r) != 0)
            return fail(err, function->checks[c].status, call->at, "%s", function->checks[c].message);
    return WEFT_OK;
}

static weft_status eval_whole(const Function *function, const Expr *call, const Value *args, Value *value, Error *err)
{
    const i128 k = function->k ? function->k(call) : 1, m = function->m ? function->m(call) : 1;
    value->i = function->formula->whole(args[0].i, k, m, 0);
    for (int c = 0; c < FUNCTION_CHECKS && function->checks[c].fails; c++)
        if (function->checks[c].fails->whole(args[0].i, k, m, value->i))
            return fail(err, function->checks[c].status, call->at, "%s", function->checks[c].message);
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

weft_status function_eval(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)
{
    const Function *function = function_of(call->op);
    if (function->eval_in) return function->eval_in(arena, call, args, value, err);
    if (function->eval) return function->eval(call, args, value, err);
    if (type_is_float(args[0].type)) return eval_f64(function, call, args, value, err);
    return eval_whole(function, call, args, value, err);
}
