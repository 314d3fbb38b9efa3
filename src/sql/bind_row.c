// bind_row.c - rows of fields, (a, b) and ROW(a, b), where they are compared: there are no values of such a type.
//
//     (a, b) = (c, d)                a = c and b = d
//     (a, b) < (c, d)                a < c or (a = c and b < d)
//     (a, b) in ((1, 2), (3, 4))     (a, b) = (1, 2) or (a, b) = (3, 4)
//     (a, b) is null                 a is null and b is null
//
// NULLs need nothing more: the fields are looked at from the left until a pair is unequal or NULL, and AND and OR of
// three values say the same.  (a, b) in (select ...) is a join (bind_subquery.c).

#include "sql/sql_int.h"

typedef struct RowPair { Expr **a, **b; int n; } RowPair;

bool is_row(const ParseNode *node) { return node && node->node_case == PG_QUERY__NODE__NODE_ROW_EXPR; }

static weft_status bind_fields(Binder *binder, const ParseNode *node, Expr ***fields, int *n)
{
    const PgQuery__RowExpr *row = node->row_expr;
    *n = (int)row->n_args;
    *fields = arena_array(binder->arena, Expr *, row->n_args + 1);
    for (int i = 0; i < *n; i++) TRY(binder->bind_expr(binder, row->args[i], &(*fields)[i]));
    return WEFT_OK;
}

static weft_status check_rows(Binder *binder, const ParseNode *a, const ParseNode *b, int at)
{
    if (a->node_case == PG_QUERY__NODE__NODE_SUB_LINK || b->node_case == PG_QUERY__NODE__NODE_SUB_LINK)
        return refuse(binder, at, "(a, b) = (subquery)");
    if (!is_row(a) || !is_row(b)) return refuse(binder, at, "a comparison of a row (a, b) with a single value");
    if (a->row_expr->n_args != b->row_expr->n_args)
        return fail(binder->err, WEFT_SYNTAX_ERROR, at, "unequal number of entries in row expressions");
    if (a->row_expr->n_args == 0)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "cannot compare rows of zero length");
    return WEFT_OK;
}

static weft_status bind_pair_of_rows(Binder *binder, const ParseNode *a, const ParseNode *b, int at, RowPair *pair)
{
    TRY(check_rows(binder, a, b, at));
    TRY(bind_fields(binder, a, &pair->a, &pair->n));
    return bind_fields(binder, b, &pair->b, &pair->n);
}

// Field by field: all are equal, or one is not.
static weft_status compare_fields(Binder *binder, Op op, const RowPair *pair, int at, Expr **out)
{
    Expr **terms = arena_array(binder->arena, Expr *, pair->n);
    for (int i = 0; i < pair->n; i++) TRY(bind_call(binder, op, pair->a[i], pair->b[i], at, &terms[i]));
    return bind_chain(binder, op == OP_EQ ? OP_AND : OP_OR, terms, pair->n, at, out);
}

// From the last field on: it decides where all before it are equal.
static weft_status order_fields(Binder *binder, Op op, const RowPair *pair, int at, Expr **out)
{
    const Op strictly = op == OP_LT || op == OP_LE ? OP_LT : OP_GT;
    TRY(bind_call(binder, op, pair->a[pair->n - 1], pair->b[pair->n - 1], at, out));
    for (int i = pair->n - 2; i >= 0; i--) {
        Expr *before, *equal;
        TRY(bind_call(binder, strictly, pair->a[i], pair->b[i], at, &before));
        TRY(bind_call(binder, OP_EQ, pair->a[i], pair->b[i], at, &equal));
        TRY(bind_call(binder, OP_AND, equal, *out, at, out));
        TRY(bind_call(binder, OP_OR, before, *out, at, out));
    }
    return WEFT_OK;
}

weft_status bind_row_comparison(Binder *binder, Op op, const ParseNode *a, const ParseNode *b, int at, Expr **out)
{
    RowPair pair;
    if (op < OP_EQ || op > OP_GE) return refuse(binder, at, "this operator on a row (a, b)");
    TRY(bind_pair_of_rows(binder, a, b, at, &pair));
    return op == OP_EQ || op == OP_NE ? compare_fields(binder, op, &pair, at, out)
                                      : order_fields(binder, op, &pair, at, out);
}

weft_status bind_row_in_list(Binder *binder, const PgQuery__AExpr *expr, bool is_negated, Expr **out)
{
    const PgQuery__List *list = expr->rexpr->list;
    const int            at = expr->location;
    Expr               **terms = arena_array(binder->arena, Expr *, list->n_items + 1);
    RowPair              pair;
    TRY(bind_fields(binder, expr->lexpr, &pair.a, &pair.n));
    for (size_t i = 0; i < list->n_items; i++) {
        TRY(check_rows(binder, expr->lexpr, list->items[i], at));
        TRY(bind_fields(binder, list->items[i], &pair.b, &pair.n));
        TRY(compare_fields(binder, is_negated ? OP_NE : OP_EQ, &pair, at, &terms[i]));
    }
    return bind_chain(binder, is_negated ? OP_AND : OP_OR, terms, (int)list->n_items, at, out);
}

weft_status bind_distinct(Binder *binder, Expr *a, Expr *b, int at, Expr **out)
{
    Expr *compared, *a_known, *b_known, *nulls;
    TRY(bind_call(binder, OP_NE, a, b, at, &compared));
    TRY(bind_call(binder, OP_IS_NOT_NULL, a, NULL, at, &a_known));
    TRY(bind_call(binder, OP_IS_NOT_NULL, b, NULL, at, &b_known));
    TRY(bind_call(binder, OP_OR, a_known, b_known, at, &nulls));
    return bind_call(binder, OP_COALESCE, compared, nulls, at, out);
}

weft_status bind_rows_distinct(Binder *binder, const ParseNode *a, const ParseNode *b, int at, Expr **out)
{
    RowPair pair;
    TRY(bind_pair_of_rows(binder, a, b, at, &pair));
    Expr **terms = arena_array(binder->arena, Expr *, pair.n);
    for (int i = 0; i < pair.n; i++) TRY(bind_distinct(binder, pair.a[i], pair.b[i], at, &terms[i]));
    return bind_chain(binder, OP_OR, terms, pair.n, at, out);
}

// IS NULL: all fields are; IS NOT NULL: none is.
weft_status bind_row_null_test(Binder *binder, const PgQuery__NullTest *test, Expr **out)
{
    const Op op = test->nulltesttype == PG_QUERY__NULL_TEST_TYPE__IS_NULL ? OP_IS_NULL : OP_IS_NOT_NULL;
    Expr   **fields;
    int      n;
    TRY(bind_fields(binder, test->arg, &fields, &n));
    for (int i = 0; i < n; i++) TRY(bind_call(binder, op, fields[i], NULL, test->location, &fields[i]));
    if (n == 0) return refuse(binder, test->location, "a row without fields");
    return bind_chain(binder, OP_AND, fields, n, test->location, out);
}
