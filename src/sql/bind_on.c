// bind_on.c - joins with the conditions of their ON, where subqueries may stand.
//
// An inner join's subqueries are checked above it.  An outer join's are joined to the side whose columns they use.  One
// that looks at both sides looks at pairs, and above an outer join it is too late for that: rows without a match are
// there already.  So one side is computed for each row of the other, as LATERAL does, with the subquery joined to it:
//
//     a left join b on exists (select ... where x = a.x and y = b.y)        left[](a, semi[x = a.x, y = b.y](b, ...))
//
// A right join is a left one with its sides exchanged.  Of a full join the rows of b get numbers: the left join gives
// the number of each match, and a full join by number adds what it lacks.
//
//     a full join b on exists (...)        full[number = number](left[](a, semi[...](numbered b, ...)), numbered b)

#include "plan/window.h"
#include "sql/sql_int.h"

// ---- subqueries -----------------------------------------------------------------------------------------------------

static bool uses_waiting(const Block *block, int first, const Expr *expr)
{
    for (int i = first; i < block->n_marks; i++)
        if (!block->marks[i].is_placed && expr_has_column(expr, block->marks[i].column)) return true;
    return false;
}

// Takes the conditions out of the join that use a subquery which is not joined yet.
static int take_waiting(Binder *binder, Join *join, Expr ***waiting)
{
    int n_waiting = 0, n_kept = 0;
    *waiting = NULL;
    for (int i = 0; i < join->n_conditions; i++) {
        if (uses_waiting(binder->place.block, join->marks_first, join->conditions[i]))
            *LIST_PUSH(binder->arena, *waiting, n_waiting) = join->conditions[i];
        else join->conditions[n_kept++] = join->conditions[i];
    }
    join->n_conditions = n_kept;
    return n_waiting;
}

// *NODE, of which the waiting subqueries and their conditions hold.
static weft_status filter_by_waiting(Binder *binder, const Join *join, Expr **waiting, int n_waiting, Node **node)
{
    Block *block = binder->place.block;
    TRY(place_condition_marks(binder, block, join->marks_first, block->n_marks, waiting, &n_waiting, node));
    *node = plan_filter(binder->plan, *node, waiting, n_waiting);
    return WEFT_OK;
}

// A mark of an outer join's ON is joined to the side whose columns it uses; one of both sides waits.
static weft_status place_on_side(Binder *binder, Join *join, Mark *mark, bool *waits)
{
    Block *block = binder->place.block;
    if (mark->kind == MARK_RANDOM) return refuse(binder, mark->at, "random() in the condition of an outer join");
    for (int side = 0; side < 2; side++) {
        ColumnSet columns = { 0 }, used = { 0 };
        node_columns(binder->arena, join->nodes[side], &columns);
        columns_add_all(binder->arena, &columns, &block->outer);
        mark_columns(binder->arena, mark, &used);
        if (columns_is_subset(&used, &columns))
            return place_side_mark(binder, block, mark, join->conditions, join->n_conditions, &join->nodes[side]);
    }
    *waits = true;
    return WEFT_OK;
}

static weft_status settle_conditions(Binder *binder, Join *join)
{
    for (int i = 0; i < join->n_conditions; i++)
        TRY(bind_values_of_marks(binder, binder->place.block, join->conditions[i], &join->conditions[i]));
    return WEFT_OK;
}

// ---- pairs ----------------------------------------------------------------------------------------------------------

static weft_status join_pairs(Binder *binder, Join *join, Node *left, Node *right, Node **out)
{
    Expr    **waiting;
    const int n_waiting = take_waiting(binder, join, &waiting);
    TRY(filter_by_waiting(binder, join, waiting, n_waiting, &right));
    TRY(settle_conditions(binder, join));
    *out = plan_join(binder->plan, JOIN_LEFT, left, right, join->conditions, join->n_conditions);
    binder->plan->is_correlated = true;
    return WEFT_OK;
}

// ---- full joins -----------------------------------------------------------------------------------------------------

typedef struct NamesOfSide { Binder *binder; const Node *from, *to; } NamesOfSide;   // column by column

static const Expr *give_renamed(void *context, const Expr *leaf)
{
    const NamesOfSide *names = context;
    for (int c = 0; leaf->kind == EXPR_COLUMN && c < names->from->n_out; c++)
        if (names->from->out[c] == leaf->column)
            return plan_column_expr(names->binder->plan, names->to->out[c], leaf->at);
    return NULL;
}

static weft_status rename_all(NamesOfSide *names, Expr **exprs, int n_exprs)
{
    Binder *binder = names->binder;
    for (int i = 0; i < n_exprs; i++)
        TRY(expr_replace(binder->arena, exprs[i], give_renamed, names, &exprs[i], binder->err));
    return WEFT_OK;
}

// The conditions, and what waits, are of the rows TO instead of FROM.
static weft_status rename_side(Binder *binder, Join *join, const Node *from, const Node *to)
{
    NamesOfSide names = { binder, from, to };
    Block   *block = binder->place.block;
    TRY(rename_all(&names, join->conditions, join->n_conditions));
    for (int i = join->marks_first; i < block->n_marks; i++) {
        Mark *mark = &block->marks[i];
        if (mark->is_placed) continue;
        TRY(rename_all(&names, mark->args, mark->n_args));
        TRY(plan_replace_leaves(binder->arena, mark->rows, give_renamed, &names, binder->err));
    }
    return WEFT_OK;
}

static bool is_correlated(const Binder *binder, const Node *node)
{
    ColumnSet free_columns = { 0 };
    plan_free_columns(binder->arena, node, &free_columns);
    return columns_count(&free_columns) > 0;
}

// The rows that are numbered must be the same both times, so that they cannot be those of a query around this one.
static weft_status join_full_pairs(Binder *binder, Join *join, int at, Node **out)
{
    Plan     *plan = binder->plan;
    const int side = is_correlated(binder, join->nodes[1]) ? 0 : 1;
    Node     *rows = join->nodes[side], *copy, *pairs, *equal[2];
    if (is_correlated(binder, rows))
        return refuse(binder, at, "a subquery over both sides of a FULL join of correlated subqueries");
    TRY(copy_rows(binder, rows, at, &copy));
    Shared *shared = plan_share(plan, plan_number_rows(plan, copy), NULL);
    for (int i = 0; i < 2; i++) equal[i] = plan_reference(plan, shared, NULL, -1);
    TRY(rename_side(binder, join, rows, equal[0]));
    TRY(join_pairs(binder, join, join->nodes[1 - side], equal[0], &pairs));
    Expr *numbers[2], **condition = arena_array(binder->arena, Expr *, 1);
    for (int i = 0; i < 2; i++) numbers[i] = plan_column_expr(plan, equal[i]->out[rows->n_out], at);
    TRY(bind_call(binder, OP_EQ, numbers[0], numbers[1], at, condition));
    *out = plan_join(plan, JOIN_FULL, pairs, plan_numbered_as(plan, equal[1], rows), condition, 1);
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

weft_status join_inner_on(Binder *binder, Join *join, Node **out)
{
    Expr    **waiting;
    const int n_waiting = take_waiting(binder, join, &waiting);
    *out = plan_join(binder->plan, JOIN_INNER, join->nodes[0], join->nodes[1], join->conditions, join->n_conditions);
    return filter_by_waiting(binder, join, waiting, n_waiting, out);
}

weft_status join_outer_on(Binder *binder, Join *join, Node **out)
{
    Block *block = binder->place.block;
    int    at = -1;                                         // of a subquery over both sides
    for (int i = join->marks_first; i < block->n_marks; i++) {
        bool waits = false;
        TRY(place_on_side(binder, join, &block->marks[i], &waits));
        if (waits && at < 0) at = block->marks[i].at;
    }
    if (at >= 0 && join->kind == JOIN_FULL) return join_full_pairs(binder, join, at, out);
    const bool is_right = join->kind == JOIN_RIGHT;
    if (at >= 0) return join_pairs(binder, join, join->nodes[is_right], join->nodes[!is_right], out);
    TRY(settle_conditions(binder, join));
    *out = plan_join(binder->plan, join->kind, join->nodes[0], join->nodes[1], join->conditions, join->n_conditions);
    return WEFT_OK;
}
