// bind_expr.c - expressions: parse tree to typed tree.
//
// Whatever plan/ has no operator for is said with those it has:
//
//     a BETWEEN b AND c       a >= b and a <= c
//     a IN (1, 2, b)          a in (1, 2) or a = b
//     a IS DISTINCT FROM b    coalesce(a <> b, a is not null or b is not null)
//     a IS NOT TRUE           not coalesce(a, false)
//     NULLIF(a, b)            case when a = b then null else a end
//     GREATEST(a, b, ...)     case when a >= b and ... then a when ...; a NULL loses
//
// Arguments may then occur twice.  Nodes never change, so both places share one, and its size counts twice (see
// plan/expr.c).

#include "sql/sql_int.h"

// Not inlined into bind_expr, which calls itself through all of them: each level of nesting would take the stack of all
// together, and trees that are kept are bound on small stacks (NESTING_KEPT).
#define APART __attribute__((noinline))

enum { GREATEST_ARGS_MAX = 64 };

// ---- lists and conditions -------------------------------------------------------------------------------------------

static weft_status bind_exprs(Binder *binder, ParseNode *const *nodes, size_t n_nodes, Expr ***out)
{
    *out = arena_array(binder->arena, Expr *, n_nodes + 1);
    for (size_t i = 0; i < n_nodes; i++) TRY(bind_expr(binder, nodes[i], &(*out)[i]));
    return WEFT_OK;
}

weft_status bind_condition(Binder *binder, const ParseNode *node, Expr **out)
{
    char buffer[32];
    TRY(bind_expr(binder, node, out));
    if ((*out)->type.kind != TYPE_BOOLEAN && (*out)->type.kind != TYPE_NULL)
        return fail(binder->err, WEFT_TYPE_MISMATCH, node_at(node), "argument of %s must be type boolean, not type %s",
                    binder->place.clause, type_name((*out)->type, buffer));
    return expr_coerce(binder->arena, *out, TYPE(BOOLEAN), node_at(node), out, binder->err);
}

// ---- constants ------------------------------------------------------------------------------------------------------

static APART weft_status bind_const(Binder *binder, const PgQuery__AConst *constant, Expr **out)
{
    const int at = constant->location;
    Value     value = { .type = TYPE(NULL) };
    bind_note_literal(binder, at);
    *out = term_null(binder, at);
    if (constant->isnull) return WEFT_OK;
    switch (constant->val_case) {
        case PG_QUERY__A__CONST__VAL_IVAL:
            value = (Value){ .type = TYPE(INTEGER), .i = constant->ival->ival };
            break;
        case PG_QUERY__A__CONST__VAL_FVAL:
            return expr_number(binder->arena, constant->fval->fval, strlen(constant->fval->fval), at, out, binder->err);
        case PG_QUERY__A__CONST__VAL_BOOLVAL:
            value = (Value){ .type = TYPE(BOOLEAN), .i = constant->boolval->boolval };
            break;
        case PG_QUERY__A__CONST__VAL_SVAL:
            value.text.bytes = constant->sval->sval;
            value.text.length = (u32)strlen(constant->sval->sval);
            break;
        default: return fail(binder->err, WEFT_UNSUPPORTED, at, "bit strings are not supported yet");
    }
    *out = expr_const(binder->arena, value, at);
    return WEFT_OK;
}

// ---- operators ------------------------------------------------------------------------------------------------------

typedef struct NamedOp { const char *name; Op op; } NamedOp;

static const NamedOp named_ops[] = {
    { "+", OP_ADD }, { "-", OP_SUB }, { "*", OP_MUL }, { "/", OP_DIV }, { "%", OP_MOD }, { "=", OP_EQ },
    { "<>", OP_NE }, { "<", OP_LT },  { "<=", OP_LE }, { ">", OP_GT },  { ">=", OP_GE },
};

// The operator's own name, without OPERATOR(pg_catalog. ...).
static const char *op_name(const PgQuery__AExpr *expr)
{
    const char *name = expr->n_name ? node_string(expr->name[expr->n_name - 1]) : NULL;
    return name ? name : "?";
}

static weft_status unknown_operator(Binder *binder, const PgQuery__AExpr *expr)
{
    if (refuse_known(binder, expr->location, REFUSAL_OPERATOR, op_name(expr))) return WEFT_UNSUPPORTED;
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, expr->location, "operator does not exist: %s", op_name(expr));
}

static APART weft_status bind_prefix(Binder *binder, const PgQuery__AExpr *expr, Expr **out)
{
    const char *name = op_name(expr);
    char        type[32];
    Expr       *arg;
    const bool is_form = bind_is_op_form(name, 1);
    if (!is_form && strcmp(name, "+") != 0 && strcmp(name, "-") != 0) return unknown_operator(binder, expr);
    TRY(bind_expr(binder, expr->rexpr, &arg));
    if (is_form) return bind_op_form(binder, name, &arg, 1, expr->location, out);
    TRY(bind_call(binder, OP_NEG, arg, NULL, expr->location, out));
    if (*name == '-') return WEFT_OK;
    if (type_is_time(arg->type))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, expr->location, "operator does not exist: + %s",
                    type_name(arg->type, type));
    *out = arg;                                             // + checks the type and changes nothing
    return arg->type.kind == TYPE_NULL ? expr_coerce(binder->arena, arg, TYPE(DOUBLE), arg->at, out, binder->err)
                                       : WEFT_OK;
}

static bool is_text_operator(const char *name)
{
    static const char *const names[] = { "||", "~", "~*", "!~", "!~*", "~~", "!~~", "~~*", "!~~*" };
    for (int i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static APART weft_status bind_binary(Binder *binder, Op op, const ParseNode *a, const ParseNode *b, int at, Expr **out)
{
    Expr *sides[2];
    if (is_row(a) || is_row(b)) return bind_row_comparison(binder, op, a, b, at, out);
    TRY(bind_expr(binder, a, &sides[0]));
    TRY(bind_expr(binder, b, &sides[1]));
    TRY(bind_call(binder, op, sides[0], sides[1], at, out));
    bind_hole(binder, op, (const ParseNode *[]){ a, b }, sides, out);
    return WEFT_OK;
}

// LIKE, NOT LIKE, ILIKE and NOT ILIKE as PostgreSQL's operators.
static weft_status bind_like_operator(Binder *binder, const char *name, Expr *const *sides, int at, Expr **out)
{
    const bool is_negated = *name == '!';
    TRY(expr_call(binder->arena, name[is_negated + 2] ? OP_ILIKE : OP_LIKE, sides, 2, at, out, binder->err));
    return is_negated ? bind_call(binder, OP_NOT, *out, NULL, at, out) : WEFT_OK;
}

static weft_status bind_operator(Binder *binder, const PgQuery__AExpr *expr, Expr **out)
{
    const char *name = op_name(expr);
    Expr       *sides[2];
    if (!expr->lexpr) return bind_prefix(binder, expr, out);
    for (int i = 0; i < COUNT_OF(named_ops); i++)
        if (strcmp(named_ops[i].name, name) == 0)
            return bind_binary(binder, named_ops[i].op, expr->lexpr, expr->rexpr, expr->location, out);
    const bool is_form = bind_is_op_form(name, 2);
    if (!is_form && !is_text_operator(name)) return unknown_operator(binder, expr);
    TRY(bind_expr(binder, expr->lexpr, &sides[0]));
    TRY(bind_expr(binder, expr->rexpr, &sides[1]));
    if (is_form) return bind_op_form(binder, name, sides, 2, expr->location, out);
    if (*name == '|') return bind_concat_operator(binder, sides[0], sides[1], expr->location, out);
    if (strstr(name, "~~")) return bind_like_operator(binder, name, sides, expr->location, out);
    return bind_regexp_operator(binder, name, sides[0], sides[1], expr->location, out);
}

// LIKE ... ESCAPE arrives as like_escape(pattern, escape).
static APART weft_status bind_like(Binder *binder, const PgQuery__AExpr *expr, Op op, Expr **out)
{
    const ParseNode *pattern = expr->rexpr, *escape = NULL;
    Expr       *args[3];
    if (pattern->node_case == PG_QUERY__NODE__NODE_FUNC_CALL && pattern->func_call->n_funcname == 2 &&
        pattern->func_call->n_args == 2) {
        const char *name = node_string(pattern->func_call->funcname[1]);
        if (name && strcmp(name, "like_escape") == 0) {
            escape = pattern->func_call->args[1];
            pattern = pattern->func_call->args[0];
        }
    }
    TRY(bind_expr(binder, expr->lexpr, &args[0]));
    TRY(bind_expr(binder, pattern, &args[1]));
    if (escape) TRY(bind_expr(binder, escape, &args[2]));
    TRY(expr_call(binder->arena, op, args, escape ? 3 : 2, expr->location, out, binder->err));
    if (!escape) bind_hole(binder, op, (const ParseNode *[]){ expr->lexpr, pattern }, args, out);
    return *op_name(expr) == '!' ? bind_call(binder, OP_NOT, *out, NULL, expr->location, out) : WEFT_OK;
}

// An operator that gives a boolean, by its name: of ANY and ALL.
static weft_status bind_named(Binder *binder, const char *name, Expr *a, Expr *b, int at, Expr **out)
{
    for (int i = 0; i < COUNT_OF(named_ops); i++)
        if (named_ops[i].op >= OP_EQ && strcmp(named_ops[i].name, name) == 0)
            return bind_call(binder, named_ops[i].op, a, b, at, out);
    if (strstr(name, "~~") && is_text_operator(name))
        return bind_like_operator(binder, name, (Expr *[]){ a, b }, at, out);
    if (strchr(name, '~') && is_text_operator(name)) return bind_regexp_operator(binder, name, a, b, at, out);
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "operator does not exist: %s with ANY or ALL", name);
}

static APART weft_status bind_between(Binder *binder, const PgQuery__AExpr *expr, bool is_negated, Expr **out)
{
    Expr *above, *below;
    if (expr->rexpr->node_case != PG_QUERY__NODE__NODE_LIST || expr->rexpr->list->n_items != 2)
        return fail(binder->err, WEFT_INTERNAL, expr->location, "BETWEEN without two bounds");
    ParseNode *const *bounds = expr->rexpr->list->items;
    if (is_row(expr->lexpr)) {
        TRY(bind_row_comparison(binder, is_negated ? OP_LT : OP_GE, expr->lexpr, bounds[0], expr->location, &above));
        TRY(bind_row_comparison(binder, is_negated ? OP_GT : OP_LE, expr->lexpr, bounds[1], expr->location, &below));
        return bind_call(binder, is_negated ? OP_OR : OP_AND, above, below, expr->location, out);
    }
    const Op above_op = is_negated ? OP_LT : OP_GE, below_op = is_negated ? OP_GT : OP_LE;
    Expr    *arg, *low, *high;
    TRY(bind_expr(binder, expr->lexpr, &arg));
    TRY(bind_expr(binder, bounds[0], &low));
    TRY(bind_call(binder, above_op, arg, low, expr->location, &above));
    TRY(bind_expr(binder, bounds[1], &high));                // the call above may have given $1 its type
    TRY(bind_call(binder, below_op, arg, high, expr->location, &below));
    bind_hole(binder, above_op, (const ParseNode *[]){ expr->lexpr, bounds[0] }, (Expr *[]){ arg, low }, &above);
    bind_hole(binder, below_op, (const ParseNode *[]){ expr->lexpr, bounds[1] }, (Expr *[]){ arg, high }, &below);
    return bind_call(binder, is_negated ? OP_OR : OP_AND, above, below, expr->location, out);
}

// The bounds in either order.
static weft_status bind_between_symmetric(Binder *binder, const PgQuery__AExpr *expr, bool is_negated, Expr **out)
{
    const int at = expr->location;
    Expr     *arg, *bounds[2], *ways[2];
    if (expr->rexpr->node_case != PG_QUERY__NODE__NODE_LIST || expr->rexpr->list->n_items != 2)
        return fail(binder->err, WEFT_INTERNAL, at, "BETWEEN without two bounds");
    TRY(bind_expr(binder, expr->lexpr, &arg));
    for (int i = 0; i < 2; i++) TRY(bind_expr(binder, expr->rexpr->list->items[i], &bounds[i]));
    for (int i = 0; i < 2; i++) {
        Expr *above, *below;
        TRY(bind_call(binder, OP_GE, arg, bounds[i], at, &above));
        TRY(bind_call(binder, OP_LE, arg, bounds[1 - i], at, &below));
        TRY(bind_call(binder, OP_AND, above, below, at, &ways[i]));
    }
    TRY(bind_call(binder, OP_OR, ways[0], ways[1], at, out));
    return is_negated ? bind_call(binder, OP_NOT, *out, NULL, at, out) : WEFT_OK;
}

// Constants are searched, the rest is compared one by one.  NOT IN is AND of what is not equal.
static APART weft_status bind_in(Binder *binder, const PgQuery__AExpr *expr, Expr **out)
{
    const int  at = expr->location;
    const bool is_negated = *op_name(expr) == '<';
    const Op   compare = is_negated ? OP_NE : OP_EQ;
    if (expr->rexpr->node_case != PG_QUERY__NODE__NODE_LIST)
        return fail(binder->err, WEFT_INTERNAL, at, "IN without a list");
    if (is_row(expr->lexpr)) return bind_row_in_list(binder, expr, is_negated, out);
    const PgQuery__List *list = expr->rexpr->list;
    Expr **terms = arena_array(binder->arena, Expr *, list->n_items + 2),
         **constants = arena_array(binder->arena, Expr *, list->n_items + 1);
    const ParseNode **nodes = arena_array(binder->arena, const ParseNode *, list->n_items + 1);
    int    n_terms = 0, n_constants = 1;
    nodes[0] = expr->lexpr;
    TRY(bind_expr(binder, expr->lexpr, &constants[0]));
    for (size_t i = 0; i < list->n_items; i++) {
        Expr *item;
        TRY(bind_expr(binder, list->items[i], &item));
        if (expr_is_const(item)) nodes[n_constants] = list->items[i], constants[n_constants++] = item;
        else TRY(bind_call(binder, compare, constants[0], item, at, &terms[n_terms++]));
    }
    if (n_constants == 2) {
        TRY(bind_call(binder, compare, constants[0], constants[1], at, &terms[n_terms]));
        bind_hole(binder, compare, nodes, constants, &terms[n_terms++]);
    }
    if (n_constants > 2) {
        TRY(expr_call(binder->arena, OP_IN, constants, n_constants, at, &terms[n_terms], binder->err));
        bind_list_holes(binder, nodes, constants, n_constants, &terms[n_terms]);
        if (is_negated) TRY(bind_call(binder, OP_NOT, terms[n_terms], NULL, at, &terms[n_terms]));
        n_terms++;
    }
    return bind_chain(binder, is_negated ? OP_AND : OP_OR, terms, n_terms, at, out);
}

static APART weft_status bind_distinct_from(Binder *binder, const PgQuery__AExpr *expr, bool is_negated, Expr **out)
{
    const int at = expr->location;
    Expr     *a, *b;
    if (is_row(expr->lexpr) || is_row(expr->rexpr)) {
        TRY(bind_rows_distinct(binder, expr->lexpr, expr->rexpr, at, out));
    } else {
        TRY(bind_expr(binder, expr->lexpr, &a));
        TRY(bind_expr(binder, expr->rexpr, &b));
        TRY(bind_distinct(binder, a, b, at, out));
    }
    return is_negated ? bind_call(binder, OP_NOT, *out, NULL, at, out) : WEFT_OK;
}

static APART weft_status bind_nullif(Binder *binder, const PgQuery__AExpr *expr, Expr **out)
{
    Expr *a, *b, *equal;
    TRY(bind_expr(binder, expr->lexpr, &a));
    TRY(bind_expr(binder, expr->rexpr, &b));
    TRY(bind_call(binder, OP_EQ, a, b, expr->location, &equal));
    Expr *args[3] = { equal, term_null(binder, expr->location), a };
    TRY(expr_case(binder->arena, args, 3, expr->location, out, binder->err));
    (*out)->is_declared = expr_is_declared(a);
    return WEFT_OK;
}

static APART weft_status bind_a_expr(Binder *binder, const PgQuery__AExpr *expr, Expr **out)
{
    switch (expr->kind) {
        case PG_QUERY__A__EXPR__KIND__AEXPR_OP:           return bind_operator(binder, expr, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_LIKE:         return bind_like(binder, expr, OP_LIKE, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_ILIKE:        return bind_like(binder, expr, OP_ILIKE, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_IN:           return bind_in(binder, expr, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN:      return bind_between(binder, expr, false, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN:  return bind_between(binder, expr, true, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_DISTINCT:     return bind_distinct_from(binder, expr, false, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_DISTINCT: return bind_distinct_from(binder, expr, true, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF:       return bind_nullif(binder, expr, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ANY:
            return bind_any_of_array(binder, expr, op_name(expr), false, bind_named, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL:
            return bind_any_of_array(binder, expr, op_name(expr), true, bind_named, out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_SIMILAR:      return bind_similar(binder, expr, op_name(expr), out);
        case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN_SYM:  return bind_between_symmetric(binder, expr, false, out);
        default:                                          return bind_between_symmetric(binder, expr, true, out);
    }
}

// ---- logic ----------------------------------------------------------------------------------------------------------

static weft_status bind_bool(Binder *binder, const PgQuery__BoolExpr *expr, Expr **out)
{
    Expr **args;
    TRY(bind_exprs(binder, expr->args, expr->n_args, &args));
    if (expr->boolop == PG_QUERY__BOOL_EXPR_TYPE__NOT_EXPR)
        return bind_call(binder, OP_NOT, args[0], NULL, expr->location, out);
    const Op op = expr->boolop == PG_QUERY__BOOL_EXPR_TYPE__AND_EXPR ? OP_AND : OP_OR;
    return bind_chain(binder, op, args, (int)expr->n_args, expr->location, out);
}

static weft_status bind_null_test(Binder *binder, const PgQuery__NullTest *test, Expr **out)
{
    Expr *arg;
    if (is_row(test->arg)) return bind_row_null_test(binder, test, out);
    TRY(bind_expr(binder, test->arg, &arg));
    const bool is_null = test->nulltesttype == PG_QUERY__NULL_TEST_TYPE__IS_NULL;
    return bind_call(binder, is_null ? OP_IS_NULL : OP_IS_NOT_NULL, arg, NULL, test->location, out);
}

static weft_status bind_boolean_test(Binder *binder, const PgQuery__BooleanTest *test, Expr **out)
{
    const char *clause = binder->place.clause;
    const int   kind = (int)test->booltesttype;
    Expr       *arg;
    binder->place.clause = "IS";
    TRY(bind_condition(binder, test->arg, &arg));
    binder->place.clause = clause;
    if (kind == PG_QUERY__BOOL_TEST_TYPE__IS_UNKNOWN)
        return bind_call(binder, OP_IS_NULL, arg, NULL, test->location, out);
    if (kind == PG_QUERY__BOOL_TEST_TYPE__IS_NOT_UNKNOWN)
        return bind_call(binder, OP_IS_NOT_NULL, arg, NULL, test->location, out);
    const bool about_true = kind == PG_QUERY__BOOL_TEST_TYPE__IS_TRUE || kind == PG_QUERY__BOOL_TEST_TYPE__IS_NOT_TRUE;
    const bool is_negated = kind == PG_QUERY__BOOL_TEST_TYPE__IS_NOT_TRUE || kind == PG_QUERY__BOOL_TEST_TYPE__IS_FALSE;
    TRY(bind_call(binder, OP_COALESCE, arg, term_boolean(binder, !about_true, test->location), test->location, out));
    return is_negated ? bind_call(binder, OP_NOT, *out, NULL, test->location, out) : WEFT_OK;
}

// ---- choices --------------------------------------------------------------------------------------------------------

static weft_status bind_case(Binder *binder, const PgQuery__CaseExpr *expr, Expr **out)
{
    Expr **args = arena_array(binder->arena, Expr *, 2 * expr->n_args + 1), *operand = NULL;
    int    n_args = 0;
    const bool is_lazy = binder->place.is_lazy;
    if (expr->arg) TRY(bind_expr(binder, expr->arg, &operand));
    for (size_t i = 0; i < expr->n_args; i++) {
        const PgQuery__CaseWhen *when = expr->args[i]->case_when;
        Expr *condition;
        TRY(bind_expr(binder, when->expr, &condition));
        if (operand) TRY(bind_call(binder, OP_EQ, operand, condition, when->location, &condition));
        args[n_args++] = condition;
        binder->place.is_lazy = true;
        TRY(bind_expr(binder, when->result, &args[n_args++]));
    }
    args[n_args] = term_null(binder, expr->location);
    if (expr->defresult) TRY(bind_expr(binder, expr->defresult, &args[n_args]));
    binder->place.is_lazy = is_lazy;
    return expr_case(binder->arena, args, n_args + 1, expr->location, out, binder->err);
}

static weft_status bind_coalesce(Binder *binder, const PgQuery__CoalesceExpr *expr, Expr **out)
{
    Expr     **args = arena_array(binder->arena, Expr *, expr->n_args + 1);
    const bool is_lazy = binder->place.is_lazy;
    for (size_t i = 0; i < expr->n_args; i++) {
        TRY(bind_expr(binder, expr->args[i], &args[i]));
        binder->place.is_lazy = true;
    }
    binder->place.is_lazy = is_lazy;
    return expr_call(binder->arena, OP_COALESCE, args, (int)expr->n_args, expr->location, out, binder->err);
}

// Argument I wins when it beats every other that is not NULL.
static weft_status beats_others(Binder *binder, Op op, Expr **args, int n_args, int i, int at, Expr **out)
{
    Expr **terms = arena_array(binder->arena, Expr *, n_args), *is_there;
    int    n_terms = 0;
    TRY(bind_call(binder, OP_IS_NOT_NULL, args[i], NULL, at, &is_there));
    for (int j = 0; j < n_args; j++) {
        if (j == i) continue;
        Expr *compared;
        TRY(bind_call(binder, op, args[i], args[j], at, &compared));
        TRY(bind_call(binder, OP_COALESCE, compared, is_there, at, &terms[n_terms++]));
    }
    return bind_chain(binder, OP_AND, terms, n_terms, at, out);
}

static weft_status bind_min_max(Binder *binder, const PgQuery__MinMaxExpr *expr, Expr **out)
{
    const int at = expr->location, n = (int)expr->n_args;
    const Op  op = expr->op == PG_QUERY__MIN_MAX_OP__IS_GREATEST ? OP_GE : OP_LE;
    Expr    **args, *common;
    if (n > GREATEST_ARGS_MAX) return refuse(binder, at, "GREATEST or LEAST of more than 64 arguments");
    TRY(bind_exprs(binder, expr->args, expr->n_args, &args));
    TRY(expr_call(binder->arena, OP_COALESCE, args, n, at, &common, binder->err));     // only for the type of all
    for (int i = 0; i < n; i++)
        TRY(expr_cast(binder->arena, args[i], common->type, args[i]->at, &args[i], binder->err));
    *out = args[0];
    if (n == 1) return WEFT_OK;
    Expr **branches = arena_array(binder->arena, Expr *, 2 * n);
    for (int i = 0; i + 1 < n; i++) {
        TRY(beats_others(binder, op, args, n, i, at, &branches[2 * i]));
        branches[2 * i + 1] = args[i];
    }
    branches[2 * n - 2] = args[n - 1];
    return expr_case(binder->arena, branches, 2 * n - 1, at, out, binder->err);
}

static weft_status bind_type_cast(Binder *binder, const PgQuery__TypeCast *cast, Expr **out)
{
    Expr *arg;
    TRY(bind_expr(binder, cast->arg, &arg));
    return bind_cast(binder, cast, arg, out);
}

static weft_status bind_sub_link(Binder *binder, const PgQuery__SubLink *link, Expr **out)
{
    if (binder->bind_subquery) return binder->bind_subquery(binder, link, out);
    return refuse(binder, link->location, "a subquery in INSERT");
}

// ---- what is refused ------------------------------------------------------------------------------------------------

static weft_status bind_text_value(Binder *binder, const char *text, int at, Expr **out)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = text, value.text.length = (u32)strlen(text);
    *out = expr_const(binder->arena, value, at);
    return WEFT_OK;
}

static APART weft_status bind_value_function(Binder *binder, const PgQuery__SQLValueFunction *function, Expr **out)
{
    const int at = function->location, digits = (int)function->typmod;
    switch ((int)function->op) {
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_DATE: return bind_now(binder, TYPE(DATE), -1, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_TIMESTAMP:
            return bind_now(binder, TYPE(TIMESTAMPTZ), -1, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_TIMESTAMP_N:
            return bind_now(binder, TYPE(TIMESTAMPTZ), digits, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_LOCALTIME: return bind_now(binder, TYPE(TIME), -1, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_LOCALTIME_N: return bind_now(binder, TYPE(TIME), digits, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_LOCALTIMESTAMP:
            return bind_now(binder, TYPE(TIMESTAMP), -1, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_LOCALTIMESTAMP_N:
            return bind_now(binder, TYPE(TIMESTAMP), digits, at, out);
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_TIME:
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_TIME_N: return refuse(binder, at, "CURRENT_TIME");
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_CATALOG: return refuse(binder, at, "CURRENT_CATALOG");
        case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_SCHEMA: return bind_text_value(binder, "public", at, out);
        default: return refuse(binder, at, "CURRENT_USER");
    }
}

// A value that is known when the statement is bound, as a literal is.  Where it has no type, the first date or time
// that it is read as is its type from then on: ts > $1 and ts < $1 + interval '1 day'.
static APART weft_status bind_param(Binder *binder, const PgQuery__ParamRef *param, Expr **out)
{
    const Names *names = binder->names;
    if (param->number < 1 || param->number > names->n_params)
        return fail(binder->err, WEFT_UNDEFINED_PARAMETER, param->location, "there is no parameter $%d", param->number);
    const Value *value = &names->params[param->number - 1];
    *out = expr_const(binder->arena, *value, param->location);
    if (value->type.kind != TYPE_NULL || !binder->param_types) return WEFT_OK;
    Type *type = &binder->param_types[param->number - 1];
    if (type->kind != TYPE_NULL) return expr_cast(binder->arena, *out, *type, param->location, out, binder->err);
    (*out)->decides = type;
    return WEFT_OK;
}

static weft_status refuse_expr(Binder *binder, const ParseNode *node)
{
    const int at = node_at(node);
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_ROW_EXPR:          return refuse(binder, at, "a row (a, b)");
        case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:      return refuse(binder, at, "ARRAY");
        case PG_QUERY__NODE__NODE_A_INDIRECTION:     return refuse(binder, at, "an array subscript or field");
        case PG_QUERY__NODE__NODE_NAMED_ARG_EXPR:    return refuse(binder, at, "a named argument");
        case PG_QUERY__NODE__NODE_CURRENT_OF_EXPR:   return refuse(binder, at, "CURRENT OF");
        case PG_QUERY__NODE__NODE_XML_EXPR:
        case PG_QUERY__NODE__NODE_XML_SERIALIZE:     return refuse(binder, at, "XML");
        case PG_QUERY__NODE__NODE_SET_TO_DEFAULT:
            return fail(binder->err, WEFT_SYNTAX_ERROR, at, "DEFAULT is not allowed in this context");
        default:                                     return refuse(binder, at, "this expression");
    }
}

// All text compares by bytes.
static weft_status bind_collate(Binder *binder, const PgQuery__CollateClause *clause, Expr **out)
{
    const char *name = clause->n_collname ? node_string(clause->collname[clause->n_collname - 1]) : NULL;
    if (!name || (strcmp(name, "C") != 0 && strcmp(name, "POSIX") != 0 && strcmp(name, "ucs_basic") != 0))
        return refuse(binder, clause->location, "COLLATE of another order than C");
    TRY(bind_expr(binder, clause->arg, out));
    return bind_settle(binder, *out, out);
}

// ---- any expression -------------------------------------------------------------------------------------------------

weft_status bind_expr(Binder *binder, const ParseNode *node, Expr **out)
{
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_A_CONST:       return bind_const(binder, node->a_const, out);
        case PG_QUERY__NODE__NODE_COLUMN_REF:    return bind_column(binder, node->column_ref, out);
        case PG_QUERY__NODE__NODE_A_EXPR:        return bind_a_expr(binder, node->a_expr, out);
        case PG_QUERY__NODE__NODE_BOOL_EXPR:     return bind_bool(binder, node->bool_expr, out);
        case PG_QUERY__NODE__NODE_NULL_TEST:     return bind_null_test(binder, node->null_test, out);
        case PG_QUERY__NODE__NODE_BOOLEAN_TEST:  return bind_boolean_test(binder, node->boolean_test, out);
        case PG_QUERY__NODE__NODE_CASE_EXPR:     return bind_case(binder, node->case_expr, out);
        case PG_QUERY__NODE__NODE_COALESCE_EXPR: return bind_coalesce(binder, node->coalesce_expr, out);
        case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:  return bind_min_max(binder, node->min_max_expr, out);
        case PG_QUERY__NODE__NODE_TYPE_CAST:     return bind_type_cast(binder, node->type_cast, out);
        case PG_QUERY__NODE__NODE_FUNC_CALL:     return bind_function(binder, node->func_call, out);
        case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
            return bind_value_function(binder, node->sqlvalue_function, out);
        case PG_QUERY__NODE__NODE_GROUPING_FUNC: return bind_grouping(binder, node->grouping_func, out);
        case PG_QUERY__NODE__NODE_SUB_LINK:      return bind_sub_link(binder, node->sub_link, out);
        case PG_QUERY__NODE__NODE_PARAM_REF:     return bind_param(binder, node->param_ref, out);
        case PG_QUERY__NODE__NODE_COLLATE_CLAUSE: return bind_collate(binder, node->collate_clause, out);
        default:                                 return refuse_expr(binder, node);
    }
}
