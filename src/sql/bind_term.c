// bind_term.c - expressions and columns put together: what the rest of binding builds with.
//
// A column that a project or a group makes prints as what it stands for.  Subqueries can stack such columns (y + y of
// y + y of ...), so what would print long prints by its name instead.

#include "plan/functions.h"
#include "sql/sql_int.h"

enum { QUERY_SIZE_MAX = 1 << 22, PRINTED_MAX = 1000 };

// ---- constants and calls --------------------------------------------------------------------------------------------

Expr *term_boolean(Binder *binder, bool value, int at)
{
    return expr_const(binder->arena, (Value){ .type = TYPE(BOOLEAN), .i = value }, at);
}

Expr *term_null(Binder *binder, int at)
{
    return expr_const(binder->arena, (Value){ .type = TYPE(NULL), .is_null = true }, at);
}

Expr *term_integer(Binder *binder, int value, int at)
{
    return expr_const(binder->arena, (Value){ .type = TYPE(INTEGER), .i = value }, at);
}

// NOT stays until group keys are found: not (not b) contains the key not b.
weft_status bind_call(Binder *binder, Op op, Expr *a, Expr *b, int at, Expr **out)
{
    Expr *args[2] = { a, b };
    if (op == OP_NOT) return expr_not(binder->arena, a, at, out, binder->err);
    return expr_call(binder->arena, op, args, b ? 2 : 1, at, out, binder->err);
}

weft_status bind_no_function(Binder *binder, const char *name, Expr *const *args, int n_args, int at)
{
    Text types = { 0 };
    char buffer[32];
    for (int i = 0; i < n_args; i++)
        text_add(&types, "%s%s", i ? ", " : "",
                 args[i]->type.kind == TYPE_NULL ? "unknown" : type_name(args[i]->type, buffer));
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function %s(%s) does not exist", name,
         text_keep(binder->arena, &types));
    error_hint(binder->err, "A cast may make the types fit.");
    return WEFT_UNDEFINED_FUNCTION;
}

weft_status bind_by_name(Binder *binder, const char *name, Expr *const *args, int n_args, int at, Expr **out)
{
    const Op op = function_find(name, args, n_args);
    if (op == OP_N) return bind_no_function(binder, name, args, n_args, at);
    return expr_call(binder->arena, op, args, n_args, at, out, binder->err);
}

// The parser makes one list of (a or b) or c.  A few terms become what was written, so that a group key a or b is found
// in it; many are log n deep.
weft_status bind_chain(Binder *binder, Op op, Expr **args, int n_args, int at, Expr **out)
{
    enum { FEW_TERMS = 16 };
    const int n_left = n_args <= FEW_TERMS ? n_args - 1 : n_args / 2;
    Expr     *left, *right;
    *out = args[0];
    if (n_args == 1) return WEFT_OK;
    TRY(bind_chain(binder, op, args, n_left, at, &left));
    TRY(bind_chain(binder, op, args + n_left, n_args - n_left, at, &right));
    return bind_call(binder, op, left, right, at, out);
}

weft_status bind_settle(Binder *binder, Expr *expr, Expr **out)
{
    *out = expr;
    TRY(expr_refuse_long(expr, binder->err));
    if (expr->type.kind != TYPE_NULL) return WEFT_OK;
    return expr_coerce(binder->arena, expr, TYPE(TEXT), expr->at, out, binder->err);
}

weft_status bind_count(Binder *binder, const Expr *expr)
{
    binder->size += expr->size;
    if (binder->size <= QUERY_SIZE_MAX) return WEFT_OK;
    fail(binder->err, WEFT_TOO_COMPLEX, expr->at, "query is too large");
    error_hint(binder->err, "The limit is %d operators and operands, repeated ones included.", QUERY_SIZE_MAX);
    return WEFT_TOO_COMPLEX;
}

weft_status bind_conjuncts(Binder *binder, Expr *condition, Expr ***list, int *n_list)
{
    TRY(expr_fold_nots(binder->arena, condition, &condition, binder->err));
    plan_split_condition(binder->arena, condition, list, n_list);
    return bind_count(binder, condition);
}

// ---- NULLs ----------------------------------------------------------------------------------------------------------

static bool is_not_null(const Binder *binder, int column)
{
    return columns_has(&binder->not_null, column) && !columns_has(&binder->made_null, column);
}

static bool all_not_null(const Binder *binder, const Expr *expr)
{
    for (int i = 0; i < expr->n_args; i++)
        if (!term_is_not_null(binder, expr->args[i])) return false;
    return true;
}

bool term_is_not_null(const Binder *binder, const Expr *expr)
{
    switch (expr->kind) {
        case EXPR_CONST:  return !expr->value.is_null;
        case EXPR_COLUMN: return is_not_null(binder, expr->column);
        case EXPR_PARAM:  return expr->is_given;
        case EXPR_CASE:   return false;
        case EXPR_CALL:   break;
    }
    if (function_of(expr->op) && function_of(expr->op)->may_be_null) return false;
    switch (expr->op) {
        case OP_IS_NULL: case OP_IS_NOT_NULL: return true;
        case OP_COALESCE: return term_is_not_null(binder, expr->args[expr->n_args - 1]);
        default:          return all_not_null(binder, expr);
    }
}

// ---- columns --------------------------------------------------------------------------------------------------------

// Whether no more than *LEFT nodes print; *LEFT is counted down.
static bool is_short(const Plan *plan, const Expr *expr, int *left)
{
    if (--*left < 0) return false;
    if (expr->kind == EXPR_COLUMN) {
        const PlanColumn *column = &plan->columns[expr->column];
        const Expr       *inner = column->agg ? column->agg->arg : column->value;
        return !inner || is_short(plan, inner, left);
    }
    for (int i = 0; i < expr->n_args; i++)
        if (!is_short(plan, expr->args[i], left)) return false;
    return true;
}

void term_name_long_columns(Binder *binder, const int *columns, int n_columns)
{
    for (int i = 0; i < n_columns; i++) {
        PlanColumn *column = &binder->plan->columns[columns[i]];
        const Expr *shown = column->agg ? column->agg->arg : column->value;
        int         left = PRINTED_MAX;
        if (shown && !is_short(binder->plan, shown, &left)) column->agg = NULL, column->value = NULL;
    }
}

int term_column(Binder *binder, Expr *expr, const char *name)
{
    const int column = plan_add_column(binder->plan, expr->type, name, NULL);
    binder->plan->columns[column].value = expr;
    binder->plan->columns[column].is_declared = expr_is_declared(expr);
    term_name_long_columns(binder, &column, 1);
    if (term_is_not_null(binder, expr)) columns_add(binder->arena, &binder->not_null, column);
    return column;
}

weft_status term_of_column(Binder *binder, int column, int at, Expr **out)
{
    *out = plan_column_expr(binder->plan, column, at);
    return columns_has(&binder->intervals, column) ? interval_of_stored(binder->arena, *out, at, out, binder->err)
                                                   : WEFT_OK;
}

weft_status term_stored(Binder *binder, Expr *expr, Expr **out)
{
    *out = expr;
    return expr->type.kind == TYPE_INTERVAL ? interval_as_number(binder->arena, expr, expr->at, out, binder->err)
                                            : WEFT_OK;
}

Expr **term_stored_all(Binder *binder, Expr *const *exprs, int n_exprs)
{
    Expr **list = arena_array(binder->arena, Expr *, n_exprs + 1);
    for (int i = 0; i < n_exprs; i++)
        if (term_stored(binder, exprs[i], &list[i])) list[i] = exprs[i];
    return list;
}

// A column that is shown twice is another one the second time; so is one of a query around this one.
Node *term_project(Binder *binder, Node *node, Expr **exprs, const char *const *names, int n_exprs)
{
    int      *columns = arena_array(binder->arena, int, n_exprs + 1);
    ColumnSet used = { 0 }, given = { 0 };
    node_columns(binder->arena, node, &given);
    for (int i = 0; i < n_exprs; i++) {
        const bool stays = exprs[i]->kind == EXPR_COLUMN && !columns_has(&used, exprs[i]->column) &&
                           columns_has(&given, exprs[i]->column);
        columns[i] = stays ? exprs[i]->column : term_column(binder, exprs[i], names[i]);
        columns_add(binder->arena, &used, columns[i]);
    }
    return plan_project(binder->plan, node, exprs, columns, n_exprs);
}
