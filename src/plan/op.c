// op.c - the properties of operators, from their list.

#include "plan/expr_int.h"
#include "plan/functions.h"

const char *op_text(Op op)
{
    static const char *const texts[] = {
#define OP_TEXT(name, text, n_args, properties) text,
        PLAN_OP_LIST(OP_TEXT)
#undef OP_TEXT
    };
    return texts[op];
}

bool op_has(Op op, int property)
{
    static const int properties[] = {
#define OP_PROPERTIES(name, text, n_args, properties) properties,
        PLAN_OP_LIST(OP_PROPERTIES)
#undef OP_PROPERTIES
    };
    if (op >= OP_N) return property == OP_FAILS && function_can_fail(function_of(op));
    return (properties[op] & property) != 0;
}

int product_cut(const Expr *call)
{
    if (call->op != OP_MUL || call->type.kind != TYPE_NUMERIC) return 0;
    return call->args[0]->type.scale + call->args[1]->type.scale - call->type.scale;
}
