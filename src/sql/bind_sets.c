// bind_sets.c - GROUPING SETS, ROLLUP, CUBE and grouping().
//
// The sets of GROUP BY are multiplied out to a list; a set is a mask of the block's keys.  Each becomes an aggregate,
// and all of them one union:
//
//     group by rollup (a, b)          {a, b}, {a}, {}
//
//     union all   project a, b, sum       aggregate sum(x) by a, b   <- FROM
//                 project a, NULL, sum    aggregate sum(sum) by a    <- the rows of the first
//                 project NULL, NULL, sum aggregate sum(sum)         <- the rows of the second
//
// A set is computed from the smallest one that contains it, where all aggregates can be put together from parts:
// counts, exact sums, extremes.  Sums of floats, averages and DISTINCT cannot; then every set reads FROM.  So it does
// where windows below the groups give what is aggregated (WITHIN GROUP, string_agg): each set has windows of its own.
//
// Rows that depend on a row of a query around are not shared, and so not fed from set to set: each set gets a copy of
// FROM, from which plan/ then removes the correlation as from any other.

#include "plan/functions.h"
#include "sql/sql_int.h"

enum { SETS_MAX = 4096, CUBE_MAX = 12, SET_KEYS_MAX = 64, INLINED_READS = 8 };

// ---- the list of sets -----------------------------------------------------------------------------------------------

typedef struct SetList { u64 *sets; int n_sets; } SetList;

static weft_status add_set(Binder *binder, SetList *list, u64 set, int at)
{
    if (list->n_sets == SETS_MAX)
        return fail(binder->err, WEFT_TOO_COMPLEX, at, "too many grouping sets present (maximum %d)", SETS_MAX);
    *LIST_PUSH(binder->arena, list->sets, list->n_sets) = set;
    return WEFT_OK;
}

// An expression, or several in brackets.
static weft_status set_of(Binder *binder, Block *block, BindKey *bind_key, const ParseNode *node, u64 *set)
{
    int key;
    *set = 0;
    if (node->node_case == PG_QUERY__NODE__NODE_ROW_EXPR) {
        for (size_t i = 0; i < node->row_expr->n_args; i++) {
            u64 one;
            TRY(set_of(binder, block, bind_key, node->row_expr->args[i], &one));
            *set |= one;
        }
        return WEFT_OK;
    }
    TRY(bind_key(binder, block, node, &key));
    if (key >= SET_KEYS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, node_at(node), "grouping sets can have at most %d expressions",
                    SET_KEYS_MAX);
    *set = (u64)1 << key;
    return WEFT_OK;
}

static weft_status expand_rollup(Binder *binder, const u64 *elements, int n, int at, SetList *out)
{
    for (int length = n; length >= 0; length--) {
        u64 set = 0;
        for (int i = 0; i < length; i++) set |= elements[i];
        TRY(add_set(binder, out, set, at));
    }
    return WEFT_OK;
}

static weft_status expand_cube(Binder *binder, const u64 *elements, int n, int at, SetList *out)
{
    if (n > CUBE_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, at, "CUBE is limited to %d elements", CUBE_MAX);
    for (u64 choice = (u64)1 << n; choice-- > 0;) {
        u64 set = 0;
        for (int i = 0; i < n; i++)
            if (choice >> (n - 1 - i) & 1) set |= elements[i];
        TRY(add_set(binder, out, set, at));
    }
    return WEFT_OK;
}

static weft_status expand(Binder *binder, Block *block, BindKey *bind_key, const ParseNode *node, SetList *out)
{
    const int at = node_at(node);
    u64       set;
    if (node->node_case != PG_QUERY__NODE__NODE_GROUPING_SET) {
        TRY(set_of(binder, block, bind_key, node, &set));
        return add_set(binder, out, set, at);
    }
    const PgQuery__GroupingSet *sets = node->grouping_set;
    const int                   n = (int)sets->n_content;
    if (sets->kind == PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_EMPTY) return add_set(binder, out, 0, at);
    if (sets->kind == PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_SETS) {
        for (int i = 0; i < n; i++) TRY(expand(binder, block, bind_key, sets->content[i], out));
        return WEFT_OK;
    }
    u64 *elements = arena_array(binder->arena, u64, n + 1);
    for (int i = 0; i < n; i++) TRY(set_of(binder, block, bind_key, sets->content[i], &elements[i]));
    return sets->kind == PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_CUBE ? expand_cube(binder, elements, n, at, out)
                                                                       : expand_rollup(binder, elements, n, at, out);
}

bool has_grouping_sets(const PgQuery__SelectStmt *stmt)
{
    for (size_t i = 0; i < stmt->n_group_clause; i++)
        if (stmt->group_clause[i]->node_case == PG_QUERY__NODE__NODE_GROUPING_SET) return true;
    return false;
}

static void drop_repeated(SetList *list)
{
    int n_kept = 0;
    for (int i = 0; i < list->n_sets; i++) {
        int k = 0;
        while (k < n_kept && list->sets[k] != list->sets[i]) k++;
        if (k == n_kept) list->sets[n_kept++] = list->sets[i];
    }
    list->n_sets = n_kept;
}

weft_status bind_sets(Binder *binder, Block *block, BindKey *bind_key)
{
    const PgQuery__SelectStmt *stmt = block->stmt;
    SetList                    all = { 0 };
    TRY(add_set(binder, &all, 0, -1));
    for (size_t i = 0; i < stmt->n_group_clause; i++) {
        SetList item = { 0 }, product = { 0 };
        TRY(expand(binder, block, bind_key, stmt->group_clause[i], &item));
        for (int a = 0; a < all.n_sets; a++)
            for (int b = 0; b < item.n_sets; b++)
                TRY(add_set(binder, &product, all.sets[a] | item.sets[b], node_at(stmt->group_clause[i])));
        all = product;
    }
    if (stmt->group_distinct) drop_repeated(&all);
    block->sets = all.sets, block->n_sets = all.n_sets;
    return WEFT_OK;
}

// ---- grouping() -----------------------------------------------------------------------------------------------------

bool is_grouping_column(const Block *block, int column)
{
    for (int i = 0; i < block->n_groupings; i++)
        if (block->groupings[i].column == column) return true;
    return false;
}

// A bit for each argument, the last one's is 1: whether the set leaves it out.
static weft_status value_of_grouping(Binder *binder, const Block *block, const GroupingCall *call, u64 set, int *value)
{
    *value = 0;
    for (int i = 0; i < call->n_args; i++) {
        int k = 0;
        while (k < block->n_named_keys && !expr_equal(block->keys[k], call->args[i])) k++;
        if (k == block->n_named_keys)
            return fail(binder->err, WEFT_GROUPING_ERROR, call->args[i]->at,
                        "arguments to GROUPING must be grouping expressions of the associated query level");
        *value = *value * 2 + !(set >> k & 1);
    }
    return WEFT_OK;
}

// ---- the union ------------------------------------------------------------------------------------------------------

typedef struct Branch {                // a set's rows
    u64     set;
    Shared *shared;                    // its aggregate, where other sets read it; NULL: not yet
    Node   *aggregate;                 // keys of the set first
} Branch;

typedef struct SetBuilder {
    Binder *binder;
    Block  *block;
    Node   *source;                    // keys, arguments of aggregates, then what windows and
    ColumnSet windowed;                // arguments that have one of these columns of theirs need
    int    *args;                      // by aggregate: its argument's place in the source; -1: it is no column of it
    Shared *input;                     // the source, where several branches read it; NULL: not yet
    bool    is_correlated;             // it depends on a row of a query around
    int     n_reads;
    Expr  **lifted;                    // what only the interpreter computes, right above an aggregate
    int    *lifted_columns, n_lifted;
    Branch *branches;
} SetBuilder;

static bool can_be_put_together(const SetBuilder *b)
{
    const Block *block = b->block;
    if (b->n_lifted || b->is_correlated || block->n_ordered || block->n_joined) return false;
    for (int a = 0; a < block->n_aggs; a++) {
        const Agg *agg = &block->aggs[a].agg;
        const bool is_sum = agg->kind == AGG_SUM && !type_is_float(agg->type);
        const bool is_other = agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL || agg->kind == AGG_MIN ||
                              agg->kind == AGG_MAX;
        if (agg->is_distinct || (!is_sum && !is_other)) return false;
    }
    return true;
}

typedef struct SourceList { Expr **exprs; int *columns, n; } SourceList;

static void add_source(SetBuilder *b, SourceList *list, Expr *expr, int column)
{
    int n_columns = list->n;
    *LIST_PUSH(b->binder->arena, list->columns, n_columns) = column;
    *LIST_PUSH(b->binder->arena, list->exprs, list->n) = expr;
}

static weft_status add_source_keys(SetBuilder *b, SourceList *list)
{
    Binder *binder = b->binder;
    Expr   *key;
    for (int k = 0; k < b->block->n_keys; k++) {
        TRY(bind_values_of_marks(binder, b->block, b->block->keys[k], &key));
        if (key->type.kind == TYPE_INTERVAL) TRY(interval_as_length(binder->arena, key, -1, &key, binder->err));
        add_source(b, list, key, term_column(binder, key, "key"));
    }
    return WEFT_OK;
}

// NEEDED: the columns that arguments need which are computed above windows.
static weft_status add_source_args(SetBuilder *b, SourceList *list, ColumnSet *needed)
{
    Binder *binder = b->binder;
    Block  *block = b->block;
    b->args = arena_array(binder->arena, int, block->n_aggs + 1);
    for (int a = 0; a < block->n_aggs; a++) {
        Expr **arg = &block->aggs[a].agg.arg;
        b->args[a] = -1;
        if (!*arg) continue;
        TRY(bind_values_of_marks(binder, block, *arg, arg));
        if (expr_uses_any(*arg, &b->windowed)) {
            columns_add_expr(binder->arena, needed, *arg);
            continue;
        }
        b->args[a] = list->n;
        add_source(b, list, *arg, term_column(binder, *arg, "value"));
    }
    return WEFT_OK;
}

// All keys and arguments as columns, so that each set's aggregate names columns alone.
static weft_status build_source(SetBuilder *b)
{
    Binder    *binder = b->binder;
    Block     *block = b->block;
    SourceList list = { 0 };
    ColumnSet  needed = { 0 }, outer = { 0 };
    ordered_columns(binder, block, &needed, &b->windowed);
    joined_columns(binder, block, &needed, &b->windowed);
    TRY(add_source_keys(b, &list));
    TRY(add_source_args(b, &list, &needed));
    for (int column = columns_next(&needed, -1); column >= 0; column = columns_next(&needed, column))
        if (node_gives(block->node, column)) add_source(b, &list, plan_column_expr(binder->plan, column, -1), column);
    b->source = plan_project(binder->plan, block->node, list.exprs, list.columns, list.n);
    plan_free_columns(binder->arena, b->source, &outer);
    b->is_correlated = columns_count(&outer) > 0;
    return WEFT_OK;
}

static Node *read_shared(const SetBuilder *b, Shared *shared)
{
    return plan_reference(b->binder->plan, shared, NULL, -1);
}

// The source's rows for one more branch, under columns of their own.
static weft_status read_source(SetBuilder *b, Node **out)
{
    b->n_reads++;
    *out = b->source;
    if (b->is_correlated) return b->n_reads == 1 ? WEFT_OK : copy_rows(b->binder, b->source, -1, out);
    if (!b->input) b->input = plan_share(b->binder->plan, b->source, NULL);
    b->input->is_kept = b->n_reads > INLINED_READS;
    *out = read_shared(b, b->input);
    return WEFT_OK;
}

static Expr *column_of(const SetBuilder *b, int column) { return plan_column_expr(b->binder->plan, column, -1); }

static int fresh_like(const SetBuilder *b, int column)
{
    const PlanColumn like = b->binder->plan->columns[column];
    const int        fresh = plan_add_column(b->binder->plan, like.type, like.name, like.qualifier);
    b->binder->plan->columns[fresh].is_declared = like.is_declared;
    return fresh;
}

static int keys_before(u64 set, int key) { return __builtin_popcountll(set & (((u64)1 << key) - 1)); }

// The rows that a branch aggregates: those of the source, and windows over them by the branch's keys.
static weft_status build_rows(SetBuilder *b, const Branch *branch, GroupRows *rows)
{
    Binder *binder = b->binder;
    *rows = (GroupRows){ .n_map = binder->plan->n_columns };
    TRY(read_source(b, &rows->node));
    rows->keys = arena_array(binder->arena, Expr *, b->block->n_keys + 1);
    for (int k = 0; k < b->block->n_keys; k++)
        if (branch->set >> k & 1) rows->keys[rows->n_keys++] = column_of(b, rows->node->out[k]);
    if (!columns_count(&b->windowed)) return WEFT_OK;
    rows->map = arena_array(binder->arena, int, rows->n_map + 1);
    for (int c = 0; c < rows->n_map; c++) rows->map[c] = -1;
    for (int i = 0; i < b->source->n_out; i++) rows->map[b->source->out[i]] = rows->node->out[i];
    TRY(build_ordered(binder, b->block, rows));
    return build_joined(binder, b->block, rows);
}

static weft_status aggregate_source(SetBuilder *b, Branch *branch)
{
    Binder   *binder = b->binder;
    Block    *block = b->block;
    int      *key_columns = arena_array(binder->arena, int, block->n_keys + 1), n_keys = 0;
    Agg      *aggs = arena_array(binder->arena, Agg, block->n_aggs + 1);
    int      *agg_columns = arena_array(binder->arena, int, block->n_aggs + 1);
    GroupRows rows;
    TRY(build_rows(b, branch, &rows));
    for (int k = 0; k < block->n_keys; k++)
        if (branch->set >> k & 1) key_columns[n_keys++] = fresh_like(b, block->key_lengths[k]);
    for (int a = 0; a < block->n_aggs; a++) {
        aggs[a] = block->aggs[a].agg;
        if (b->args[a] >= 0) aggs[a].arg = column_of(b, rows.node->out[b->args[a]]);
        else if (aggs[a].arg) TRY(rows_expr(binder, &rows, aggs[a].arg, &aggs[a].arg));
        agg_columns[a] = fresh_like(b, block->aggs[a].column);
    }
    branch->aggregate = plan_aggregate(binder->plan, rows.node, rows.keys, key_columns, n_keys, aggs, agg_columns,
                                       block->n_aggs);
    return WEFT_OK;
}

// count is the sum of counts, 0 of none; a sum of sums is of a wider type.
static weft_status restore_type(SetBuilder *b, const Agg *agg, Expr *value, Expr **out)
{
    Binder    *binder = b->binder;
    const bool is_count = agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL;
    *out = value;
    if (!type_equal(value->type, agg->type))
        TRY(expr_cast(binder->arena, value, agg->type, agg->at, out, binder->err));
    if (!is_count) return WEFT_OK;
    Expr *zero, *args[2] = { *out, NULL };
    TRY(expr_cast(binder->arena, term_integer(binder, 0, agg->at), agg->type, agg->at, &zero, binder->err));
    args[1] = zero;
    return expr_call(binder->arena, OP_COALESCE, args, 2, agg->at, out, binder->err);
}

static weft_status aggregate_finer(SetBuilder *b, Branch *branch, Branch *finer)
{
    Binder *binder = b->binder;
    Block  *block = b->block;
    Plan   *plan = binder->plan;
    if (!finer->shared) finer->shared = plan_share(plan, finer->aggregate, NULL);
    Node  *source = read_shared(b, finer->shared);
    const int n_finer = __builtin_popcountll(finer->set);
    Expr **keys = arena_array(binder->arena, Expr *, block->n_keys + 1);
    Agg   *aggs = arena_array(binder->arena, Agg, block->n_aggs + 1);
    int   *columns = arena_array(binder->arena, int, block->n_keys + block->n_aggs + 1), n_keys = 0;
    for (int k = 0; k < block->n_keys; k++) {
        if (!(branch->set >> k & 1)) continue;
        keys[n_keys] = column_of(b, source->out[keys_before(finer->set, k)]);
        columns[n_keys++] = fresh_like(b, block->key_lengths[k]);
    }
    for (int a = 0; a < block->n_aggs; a++) {
        const AggKind kind = block->aggs[a].agg.kind;
        const bool    is_extreme = kind == AGG_MIN || kind == AGG_MAX;
        Expr         *arg = column_of(b, source->out[n_finer + a]);
        aggs[a] = block->aggs[a].agg;
        aggs[a].arg = arg;
        if (!is_extreme) TRY(expr_agg(AGG_SUM, arg, aggs[a].at, &aggs[a], binder->err));
        columns[n_keys + a] = plan_add_column(plan, aggs[a].type, plan->columns[block->aggs[a].column].name, NULL);
    }
    Node  *aggregate = plan_aggregate(plan, source, keys, columns, n_keys, aggs, columns + n_keys, block->n_aggs);
    Expr **exprs = arena_array(binder->arena, Expr *, aggregate->n_out + 1);
    int   *out = arena_array(binder->arena, int, aggregate->n_out + 1);
    for (int i = 0; i < aggregate->n_out; i++) {
        exprs[i] = column_of(b, aggregate->out[i]);
        if (i >= n_keys) TRY(restore_type(b, &block->aggs[i - n_keys].agg, exprs[i], &exprs[i]));
        out[i] = exprs[i]->kind == EXPR_COLUMN ? aggregate->out[i] : term_column(binder, exprs[i], "value");
    }
    branch->aggregate = plan_project(plan, aggregate, exprs, out, aggregate->n_out);
    return WEFT_OK;
}

// The smallest set before it that has all of its keys, and more; NULL: none.
static Branch *find_finer(const SetBuilder *b, int number)
{
    const u64 set = b->branches[number].set;
    Branch   *best = NULL;
    for (int i = 0; i < b->block->n_sets; i++) {
        Branch *other = &b->branches[i];
        if (!other->aggregate || (other->set & set) != set || i == number) continue;
        if (!best || __builtin_popcountll(other->set) < __builtin_popcountll(best->set)) best = other;
    }
    return best;
}

// Columns of the block as this branch gives them.
typedef struct BranchColumns {
    const SetBuilder *b;
    const Branch     *branch;
    const Node       *rows;
    weft_status       status;          // of what a column stands for
} BranchColumns;

static const Expr *give_branch_column(void *context, const Expr *leaf)
{
    BranchColumns       *columns = context;
    const Block         *block = columns->b->block;
    const Branch        *branch = columns->branch;
    Binder              *binder = columns->b->binder;
    if (leaf->kind != EXPR_COLUMN) return NULL;
    for (int k = 0; k < block->n_keys; k++) {
        const bool is_key = block->key_lengths[k] == leaf->column;
        if (!is_key && block->key_columns[k] != leaf->column) continue;
        if (!(branch->set >> k & 1))
            return expr_const(binder->arena, (Value){ .type = leaf->type, .is_null = true }, leaf->at);
        if (is_key) return column_of(columns->b, columns->rows->out[keys_before(branch->set, k)]);
    }
    for (int a = 0; a < block->n_aggs; a++)
        if (block->aggs[a].column == leaf->column)
            return column_of(columns->b, columns->rows->out[__builtin_popcountll(branch->set) + a]);
    for (int g = 0; g < block->n_groupings; g++) {
        int value;
        if (block->groupings[g].column != leaf->column) continue;
        columns->status = value_of_grouping(binder, block, &block->groupings[g], branch->set, &value);
        return columns->status ? NULL : term_integer(binder, value, leaf->at);
    }
    return NULL;
}

static weft_status branch_value(BranchColumns *columns, const Expr *expr, Expr **out)
{
    Binder *binder = columns->b->binder;
    TRY(expr_replace(binder->arena, expr, give_branch_column, columns, out, binder->err));
    return columns->status;
}

// The branch as the union wants it: all keys, all aggregates, the values of grouping(), what was lifted.
static weft_status project_branch(SetBuilder *b, Branch *branch, int n_columns, const int *all, Node **out)
{
    Binder       *binder = b->binder;
    Block        *block = b->block;
    Node         *rows = branch->shared ? read_shared(b, branch->shared) : branch->aggregate;
    BranchColumns columns = { .b = b, .branch = branch, .rows = rows };
    Expr        **exprs = arena_array(binder->arena, Expr *, n_columns + 1);
    int          *ids = arena_array(binder->arena, int, n_columns + 1), n = 0, value;
    for (int k = 0; k < block->n_keys; k++)
        TRY(branch_value(&columns, column_of(b, block->key_lengths[k]), &exprs[n++]));
    for (int a = 0; a < block->n_aggs; a++)
        TRY(branch_value(&columns, column_of(b, block->aggs[a].column), &exprs[n++]));
    for (int g = 0; g < block->n_groupings; g++) {
        TRY(value_of_grouping(binder, block, &block->groupings[g], branch->set, &value));
        exprs[n++] = term_integer(binder, value, block->groupings[g].at);
    }
    for (int l = 0; l < b->n_lifted; l++) TRY(branch_value(&columns, b->lifted[l], &exprs[n++]));
    for (int i = 0; i < n; i++) ids[i] = fresh_like(b, all[i]);
    *out = plan_project(binder->plan, rows, exprs, ids, n);
    return WEFT_OK;
}

// ---- what only the interpreter computes -----------------------------------------------------------------------------

// Subqueries are joined above the union, and window functions computed.
static bool is_above(const Block *block, const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN && find_mark(block, expr->column)) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (is_above(block, expr->args[i])) return true;
    return has_window(block, expr);
}

static weft_status lift(SetBuilder *b, Expr *expr, Expr **out)
{
    Binder    *binder = b->binder;
    const bool is_interval = expr->type.kind == TYPE_INTERVAL && !expr_is_const(expr);
    *out = expr;
    if (is_above(b->block, expr)) return WEFT_OK;
    if (is_interval) TRY(term_stored(binder, expr, &expr));
    if (!expr_is_interpreted(expr)) return WEFT_OK;
    int n_columns = b->n_lifted;
    *LIST_PUSH(binder->arena, b->lifted_columns, n_columns) =
        plan_add_column(binder->plan, expr->type, "value", NULL);
    *LIST_PUSH(binder->arena, b->lifted, b->n_lifted) = expr;
    if (is_interval) columns_add(binder->arena, &binder->intervals, b->lifted_columns[b->n_lifted - 1]);
    return term_of_column(binder, b->lifted_columns[b->n_lifted - 1], expr->at, out);
}

static weft_status lift_all(SetBuilder *b)
{
    Block *block = b->block;
    for (int i = 0; i < block->n_outputs; i++) TRY(lift(b, block->outputs[i].expr, &block->outputs[i].expr));
    for (int i = 0; i < block->n_having; i++) TRY(lift(b, block->having[i], &block->having[i]));
    for (int i = 0; i < block->n_window_keys; i++) TRY(lift(b, block->window_keys[i], &block->window_keys[i]));
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

// Sets with more keys first: those that others are computed from.
static weft_status aggregate_all(SetBuilder *b)
{
    Block     *block = b->block;
    const bool is_fed = can_be_put_together(b);
    for (int size = block->n_keys; size >= 0; size--)
        for (int i = 0; i < block->n_sets; i++) {
            Branch *branch = &b->branches[i];
            if (__builtin_popcountll(branch->set) != size) continue;
            Branch *finer = is_fed ? find_finer(b, i) : NULL;
            if (finer) TRY(aggregate_finer(b, branch, finer));
            else TRY(aggregate_source(b, branch));
        }
    return WEFT_OK;
}

weft_status build_sets(Binder *binder, Block *block)
{
    SetBuilder b = { .binder = binder, .block = block };
    int        n = 0, *all;
    Node      *rows = NULL, *branch;
    if (!block->n_sets) {              // grouping() of plain GROUP BY
        block->sets = arena_array(binder->arena, u64, 1), block->n_sets = 1;
        block->sets[0] = block->n_keys < 64 ? ((u64)1 << block->n_keys) - 1 : UINT64_MAX;
    }
    if (block->n_keys > SET_KEYS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, -1, "grouping sets can have at most %d expressions",
                    SET_KEYS_MAX);
    TRY(lift_all(&b));
    TRY(build_source(&b));
    b.branches = arena_array(binder->arena, Branch, block->n_sets + 1);
    for (int i = 0; i < block->n_sets; i++) b.branches[i].set = block->sets[i];
    TRY(aggregate_all(&b));
    all = arena_array(binder->arena, int, block->n_keys + block->n_aggs + block->n_groupings + b.n_lifted + 1);
    for (int k = 0; k < block->n_keys; k++) all[n++] = block->key_lengths[k];
    for (int a = 0; a < block->n_aggs; a++) all[n++] = block->aggs[a].column;
    for (int g = 0; g < block->n_groupings; g++) all[n++] = block->groupings[g].column;
    for (int l = 0; l < b.n_lifted; l++) all[n++] = b.lifted_columns[l];
    for (int i = 0; i < block->n_sets; i++) {
        int *ids = arena_array(binder->arena, int, n + 1);
        TRY(project_branch(&b, &b.branches[i], n, all, &branch));
        for (int c = 0; c < n; c++) ids[c] = i + 1 == block->n_sets ? all[c] : fresh_like(&b, all[c]);
        rows = rows ? plan_set(binder->plan, SET_UNION, true, rows, branch, ids) : branch;
    }
    if (block->n_sets == 1) {
        Expr **exprs = arena_array(binder->arena, Expr *, n + 1);
        for (int c = 0; c < n; c++) exprs[c] = column_of(&b, rows->out[c]);
        rows = plan_project(binder->plan, rows, exprs, all, n);
    }
    block->node = rows;
    return WEFT_OK;
}
