// bind_recursive.c - WITH RECURSIVE: a first term, UNION, and a term that names the query itself.
//
//     with recursive x (n) as (select 1 union all select n + 1 from x where n < 5) ...
//
// The whole is a REPEAT node; where the second term names x it reads the rows that the last round added.  What the
// second term may not do is what PostgreSQL does not let it do: name the query twice, in a subquery of an expression,
// on the side of an outer join that NULLs are made for, or below an aggregate.  The types of columns are those of the
// first term.
//
// The names of a WITH RECURSIVE hide tables from its beginning on, so a query that names a later one is refused, not
// given a table of that name.

#include "sql/sql_int.h"

// ---- names ----------------------------------------------------------------------------------------------------------

const With *hide_with_queries(Binder *binder, const PgQuery__WithClause *clause)
{
    const With *newest = binder->with;
    for (size_t i = 0; i < clause->n_ctes; i++) {
        With *with = arena_make(binder->arena, With);
        *with = (With){ .name = arena_strdup(binder->arena, clause->ctes[i]->common_table_expr->ctename),
                        .is_hidden = true,
                        .next = newest };
        newest = with;
    }
    return newest;
}

// ---- what the second term may not do --------------------------------------------------------------------------------

static bool reads_round(const Node *node, const Node *repeat)
{
    if (node->kind == NODE_REPEAT && node->repeat == repeat) return true;
    if (node->kind == NODE_SHARED) return reads_round(node->shared->root, repeat);
    for (int i = 0; i < node->n_inputs; i++)
        if (reads_round(node->inputs[i], repeat)) return true;
    return false;
}

// A recursive query around that is not bound yet.
static bool reads_other_round(const Node *node, const Node *repeat)
{
    if (node->kind == NODE_REPEAT && node->repeat && node->repeat != repeat && !node->repeat->n_inputs) return true;
    if (node->kind == NODE_SHARED) return reads_other_round(node->shared->root, repeat);
    for (int i = 0; i < node->n_inputs; i++)
        if (reads_other_round(node->inputs[i], repeat)) return true;
    return false;
}

// Why what INPUT of NODE gives may not come from the last round; NULL: it may.
static const char *why_not_below(const Node *node, int input)
{
    if (node->kind == NODE_AGGREGATE && node->n_aggs)
        return "aggregate functions are not allowed in a recursive query's recursive term";
    if (node->kind == NODE_SET && node->set == SET_EXCEPT && input == 1)
        return "recursive reference to query \"%s\" must not appear within EXCEPT";
    if (node->kind != NODE_JOIN) return NULL;
    const bool is_outer = node->join == JOIN_FULL || (node->join == JOIN_LEFT && input == 1) ||
                          (node->join == JOIN_RIGHT && input == 0);
    if (is_outer) return "recursive reference to query \"%s\" must not appear within an outer join";
    const bool is_subquery = input == 1 && node->join != JOIN_INNER && node->join != JOIN_LEFT;
    return is_subquery ? "recursive reference to query \"%s\" must not appear within a subquery" : NULL;
}

static weft_status check_term(Binder *binder, const Node *node, const Node *repeat, const char *name, int at)
{
    if (node->kind == NODE_SHARED) return check_term(binder, node->shared->root, repeat, name, at);
    for (int i = 0; i < node->n_inputs; i++) {
        const char *why = reads_round(node->inputs[i], repeat) ? why_not_below(node, i) : NULL;
        if (why)
            return fail(binder->err, WEFT_INVALID_RECURSION, at, "%s", arena_printf(binder->arena, why, name));
        TRY(check_term(binder, node->inputs[i], repeat, name, at));
    }
    return WEFT_OK;
}

// A use that is not in the term's tree is in a subquery whose one value is a parameter.
static weft_status check_uses(Binder *binder, const Node *term, const Node *repeat, const With *with)
{
    const Recursion *recursion = with->recursion;
    if (recursion->n_uses > 1)
        return fail(binder->err, WEFT_INVALID_RECURSION, recursion->at,
                    "recursive reference to query \"%s\" must not appear more than once", with->name);
    if (!reads_round(term, repeat))
        return fail(binder->err, WEFT_INVALID_RECURSION, recursion->at,
                    "recursive reference to query \"%s\" must not appear within a subquery", with->name);
    return check_term(binder, term, repeat, with->name, recursion->at);
}

static weft_status check_types(Binder *binder, const Bound sides[2], const Node *repeat, const With *with)
{
    for (int i = 0; i < repeat->n_out; i++) {
        const bool is_interval = columns_has(&binder->intervals, repeat->out[i]);
        const Type type = is_interval ? TYPE(INTERVAL) : binder->plan->columns[repeat->out[i]].type;
        char       first[32], overall[32];
        if (type_equal(type, sides[0].exprs[i]->type)) continue;
        fail(binder->err, WEFT_TYPE_MISMATCH, sides[1].exprs[i]->at,
             "recursive query \"%s\" column %d has type %s in non-recursive term but type %s overall", with->name,
             i + 1, type_name(type, first), type_name(sides[0].exprs[i]->type, overall));
        error_hint(binder->err, "Cast the output of the non-recursive term, or of the recursive one, to the type that "
                                "you want.");
        return WEFT_TYPE_MISMATCH;
    }
    return WEFT_OK;
}

// ---- numbers that get more digits -----------------------------------------------------------------------------------

// A number without a precision takes what the rounds make of it, as in PostgreSQL.  The second term is bound again over
// columns that have the digits that it gave.  Where it then gives more behind the point once more (x * 1.5), no column
// has room for what many rounds make, and rounding it would change what it means.
enum { TRIES = 3 };

static bool is_exact_number(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC; }

// Whether TYPES changed: the second term is to be bound again.
static bool widen_types(const Bound *start, const Bound *sides, Type *types)
{
    bool has_changed = false;
    for (int i = 0; i < start->n_columns; i++) {
        const Type overall = sides[0].exprs[i]->type;
        if (type_equal(types[i], overall) || !is_exact_number(types[i]) || !is_exact_number(overall)) continue;
        if (expr_is_declared(start->exprs[i])) continue;
        types[i] = type_is_quotient(overall) ? overall : (Type){ TYPE_NUMERIC, 38, overall.scale };
        has_changed = true;
    }
    return has_changed;
}

static weft_status cast_numbers(Binder *binder, const Type *types, Bound *side)
{
    for (int i = 0; i < side->n_columns; i++) {
        Expr **expr = &side->exprs[i];
        if (is_exact_number(types[i]) && !type_equal(types[i], (*expr)->type))
            TRY(expr_cast(binder->arena, *expr, types[i], (*expr)->at, expr, binder->err));
    }
    return WEFT_OK;
}

static bool has_clauses(const PgQuery__SelectStmt *stmt)
{
    return stmt->n_sort_clause || stmt->limit_count || stmt->limit_offset;
}

static weft_status check_clauses(Binder *binder, const PgQuery__SelectStmt *stmt, int at)
{
    if (stmt->n_sort_clause) return refuse(binder, at, "ORDER BY in a recursive query");
    if (stmt->limit_count || stmt->limit_offset) return refuse(binder, at, "LIMIT or OFFSET in a recursive query");
    return WEFT_OK;
}

// ---- the query ------------------------------------------------------------------------------------------------------

static int *add_columns(Binder *binder, const Bound *bound, const char *const *names)
{
    int *columns = arena_array(binder->arena, int, bound->n_columns + 1);
    for (int i = 0; i < bound->n_columns; i++)
        columns[i] = side_column(binder, bound->exprs[i], names[i]);
    return columns;
}

static Bound copy_bound(Binder *binder, const Bound *bound)
{
    Bound copy = *bound;
    copy.exprs = arena_array(binder->arena, Expr *, bound->n_columns + 1);
    for (int i = 0; i < bound->n_columns; i++) copy.exprs[i] = bound->exprs[i];
    return copy;
}

// The second term, where WITH's name is the last round.
static weft_status bind_term(Binder *binder, const PgQuery__SelectStmt *stmt, const With *itself, Bound *out)
{
    const With *outside = binder->with;
    const Place place = binder->place;
    binder->with = itself;
    binder->place.keeps_literals = true;
    TRY(binder->bind_query(binder, stmt, out));
    binder->place = place;
    binder->with = outside;
    return WEFT_OK;
}

// The second term over columns of TYPES.  What an earlier try left in the plan is forgotten.
static weft_status try_round(Binder *binder, const PgQuery__SelectStmt *stmt, const With *with, With *itself,
                             const Type *types, const Bound *start, Bound sides[2], Node **repeat)
{
    sides[0] = copy_bound(binder, start);
    TRY(cast_numbers(binder, types, &sides[0]));
    *repeat = plan_repeat(binder->plan, stmt->all, add_columns(binder, &sides[0], with->names), sides[0].n_columns);
    if (!stmt->all) compare_by_length(binder, *repeat);
    itself->repeat = *repeat;
    TRY(bind_term(binder, stmt->rarg, itself, &sides[1]));
    return unify_sides(binder, SET_UNION, sides);
}

static weft_status bind_rounds(Binder *binder, const PgQuery__SelectStmt *stmt, const With *with, With *itself,
                               Recursion *recursion, int at, Bound sides[2], Node **repeat)
{
    const Bound start = sides[0];
    const int   n_params = binder->plan->n_params, n_scans = binder->plan->n_scans;
    Type       *types = arena_array(binder->arena, Type, start.n_columns + 1);
    for (int i = 0; i < start.n_columns; i++) types[i] = start.exprs[i]->type;
    for (int n_tries = 0;; n_tries++) {
        *recursion = (Recursion){ 0 };
        *itself = (With){ .name = with->name, .names = with->names, .recursion = recursion, .around = with->around,
                          .next = binder->with };
        TRY(try_round(binder, stmt, with, itself, types, &start, sides, repeat));
        if (!recursion->n_uses || !widen_types(&start, sides, types)) return WEFT_OK;
        if (n_tries == TRIES)
            return refuse(binder, at, "a recursive query whose numbers get more digits behind the point each round");
        binder->plan->n_params = n_params, binder->plan->n_scans = n_scans;
    }
}

static weft_status bind_recursion(Binder *binder, const PgQuery__SelectStmt *stmt, const With *with, Node *repeat,
                                  Bound sides[2], int at)
{
    TRY(check_clauses(binder, stmt, at));
    TRY(check_types(binder, sides, repeat, with));
    repeat->inputs[0] = side_rows(binder, &sides[0]), repeat->inputs[1] = side_rows(binder, &sides[1]);
    for (int i = 0; i < 2; i++)
        if (reads_other_round(repeat->inputs[i], repeat))
            return refuse(binder, at, "WITH RECURSIVE that reads rows of a recursive query around it");
    TRY(check_uses(binder, repeat->inputs[1], repeat, with));
    repeat->n_inputs = 2, repeat->at = at;
    return WEFT_OK;
}

weft_status bind_recursive_query(Binder *binder, const PgQuery__CommonTableExpr *expr, With *with)
{
    const PgQuery__SelectStmt *stmt = expr->ctequery->select_stmt;
    const int                  at = expr->location;
    Bound                     *sides = arena_array(binder->arena, Bound, 2);
    Recursion                  recursion = { 0 };
    With                      *itself = arena_make(binder->arena, With);
    TRY(binder->bind_query(binder, stmt->larg, &sides[0]));
    with->names = sides[0].names;
    TRY(bind_column_names(binder, "WITH query", with->name, expr->aliascolnames, expr->n_aliascolnames, with->names,
                          sides[0].n_columns, at));
    Node *repeat;
    TRY(bind_rounds(binder, stmt, with, itself, &recursion, at, sides, &repeat));
    if (sides[0].is_correlated || sides[1].is_correlated)
        return refuse(binder, at, "WITH RECURSIVE that names columns of a query around it");
    if (!recursion.n_uses && has_clauses(stmt)) return WEFT_OK;
    if (!recursion.n_uses) {
        const int *columns = add_columns(binder, &sides[0], with->names);
        Node      *left = side_rows(binder, &sides[0]), *right = side_rows(binder, &sides[1]);
        with->root = plan_set(binder->plan, SET_UNION, stmt->all, left, right, columns);
        if (!stmt->all) compare_by_length(binder, with->root);
    } else {
        TRY(bind_recursion(binder, stmt, itself, repeat, sides, at));
        with->root = repeat;
    }
    with->shared = plan_share(binder->plan, with->root, with->name);
    return WEFT_OK;
}
