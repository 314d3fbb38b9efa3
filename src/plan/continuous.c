// continuous.c - views whose groups are kept: what is computed of new rows, and how the answer comes from what is kept.
//
//     the view's tree            of new rows alone             the answer
//
//     project, filter                                          project, filter
//       aggregate avg(x) by k      aggregate sum(x),             project sum / count
//         filter, join               count(x) by k                 aggregate sum(sum), sum(count) by k
//           scan stream                filter, join                  scan kept groups
//                                        scan new rows
//
// Each aggregate is kept as partial ones, whose values of two sets of rows merge to that of both.  Kept groups are rows
// of a table, and a group may have several: engine/continuous.c adds those of new rows, and merges them now and then.
// Every row of the stream must count for itself, so below the groups the stream is filtered, computed with and joined,
// on the side of a join that keeps its rows.  What is above the groups is computed anew whenever the view is read.
//
// Refused: sums of floats.  Sums are exact in Weft, and a sum that was rounded once more would differ from the query's.

#include "plan/rewrite.h"

static weft_status refuse(Error *err, int at, const char *what)
{
    fail(err, WEFT_UNSUPPORTED, at, "%s is not supported yet", what);
    error_hint(err, "A continuous view is kept up to date row by row: docs/streams.md says what it may hold.");
    return WEFT_UNSUPPORTED;
}

// ---- what may be kept -----------------------------------------------------------------------------------------------

static int count_streams(const Node *node)
{
    int n = node->kind == NODE_SCAN && node->table->traits.kind == TABLE_STREAM;
    for (int i = 0; i < node->n_inputs; i++) n += count_streams(node->inputs[i]);
    return n;
}

static const char *name_of_node(NodeKind kind)
{
    switch (kind) {
        case NODE_WINDOW:    return "a window function, string_agg or an ordered aggregate in a continuous view";
        case NODE_SORT:      return "ORDER BY in a continuous view";
        case NODE_LIMIT:     return "LIMIT in a continuous view";
        case NODE_SET:       return "UNION, INTERSECT or EXCEPT in a continuous view";
        case NODE_AGGREGATE: return "groups of groups in a continuous view";
        case NODE_REPEAT:    return "WITH RECURSIVE in a continuous view";
        default:             return "a continuous view of this form";
    }
}

// Whether the rows of this side come out of the join one by one, each with what it meets on the other side.
static bool join_keeps(JoinKind join, bool is_left)
{
    return join == JOIN_INNER || (join == JOIN_RIGHT ? !is_left : is_left && join != JOIN_FULL);
}

static weft_status check_rows(const Node *node, Error *err)
{
    switch (node->kind) {
        case NODE_SCAN: return WEFT_OK;
        case NODE_FILTER: case NODE_PROJECT: return check_rows(node->inputs[0], err);
        case NODE_JOIN: {
            const int side = count_streams(node->inputs[0]) ? 0 : 1;
            if (!join_keeps(node->join, side == 0))
                return refuse(err, node->at, "an outer join that keeps rows of a table in a continuous view");
            return check_rows(node->inputs[side], err);
        }
        default: return refuse(err, node->at, name_of_node(node->kind));
    }
}

static Node *find_groups(Node *node)
{
    while (node->kind == NODE_PROJECT || node->kind == NODE_FILTER) node = node->inputs[0];
    return node;
}

static bool is_kept_type(Type type)
{
    if (type.kind == TYPE_NUMERIC) return type.precision <= 38;
    return type.kind != TYPE_NULL && type.kind != TYPE_INTERVAL;
}

static weft_status check_agg(const Agg *agg, Error *err)
{
    const bool is_sum = agg->kind == AGG_SUM || agg->kind == AGG_AVG || agg->kind == AGG_SUM_REST;
    if (agg->is_distinct) return refuse(err, agg->at, "an aggregate of DISTINCT values in a continuous view");
    if (is_sum && agg->arg && type_is_float(agg->arg->type))
        return refuse(err, agg->at, "a sum or average of real or double precision in a continuous view");
    if (agg->kind == AGG_SUM_REST || agg->kind == AGG_ANY)
        return refuse(err, agg->at, "this aggregate in a continuous view");
    return WEFT_OK;
}

weft_status plan_check_continuous(const Plan *plan, Error *err)
{
    const Node *groups = find_groups(plan->root);
    if (plan->n_shared) return refuse(err, -1, "WITH in a continuous view");
    if (plan->n_params) return refuse(err, plan->params[0].at, "a subquery with one value in a continuous view");
    if (plan->is_momentary)            // a stored timestamptz, too: how it is read depends on the session's time zone
        return refuse(err, -1, "the current time, random() or a timestamptz in a continuous view");
    const int n_streams = count_streams(plan->root);
    if (n_streams > 1) return refuse(err, -1, "a join of streams in a continuous view");
    if (n_streams == 0) {
        fail(err, WEFT_WRONG_OBJECT, -1, "a continuous view reads a stream");
        error_hint(err, "CREATE TABLE ... WITH (stream) makes one.");
        return WEFT_WRONG_OBJECT;
    }
    if (groups->kind != NODE_AGGREGATE && groups->kind != NODE_SCAN && groups->kind != NODE_JOIN)
        return refuse(err, groups->at, name_of_node(groups->kind));
    if (groups->kind != NODE_AGGREGATE)
        return refuse(err, -1, "a continuous view without GROUP BY and aggregates");
    for (int a = 0; a < groups->n_aggs; a++) TRY(check_agg(&groups->aggs[a], err));
    return check_rows(groups->inputs[0], err);
}

const Table *plan_stream(const Node *node)
{
    const Table *found = node->kind == NODE_SCAN && node->table->traits.kind == TABLE_STREAM ? node->table : NULL;
    for (int i = 0; i < node->n_inputs && !found; i++) found = plan_stream(node->inputs[i]);
    return found;
}

// ---- partial aggregates ---------------------------------------------------------------------------------------------

typedef struct Partial { AggKind kind, merge; } Partial;

// What AGG is kept as; gives how many.
static int partials_of(AggKind kind, Partial partials[2])
{
    switch (kind) {
        case AGG_COUNT_ALL: case AGG_COUNT: partials[0] = (Partial){ kind, AGG_SUM }; return 1;
        case AGG_AVG:
            partials[0] = (Partial){ AGG_SUM, AGG_SUM };
            partials[1] = (Partial){ AGG_COUNT, AGG_SUM };
            return 2;
        default: partials[0] = (Partial){ kind, kind }; return 1;
    }
}

// As it is stored: the zone of a time is the reader's.
static Type kept_type(Type type) { return type.kind == TYPE_TIMESTAMPTZ ? TYPE(TIMESTAMPTZ) : type; }

static weft_status keep_column(Plan *plan, KeptGroups *kept, Type type, AggKind merge, int at, int *column, Error *err)
{
    if (!is_kept_type(type)) return refuse(err, at, "a key or aggregate of this type in a continuous view");
    *column = plan_add_column(plan, type, arena_printf(plan->arena, "c%d", kept->n_columns), NULL);
    *LIST_PUSH(plan->arena, kept->columns, kept->n_columns) = (KeptColumn){ kept_type(type), merge };
    return WEFT_OK;
}

static weft_status keep_aggs(Plan *plan, const Node *groups, KeptGroups *kept, Agg *aggs, int *columns, int *n_aggs,
                             Error *err)
{
    for (int a = 0; a < groups->n_aggs; a++) {
        const Agg *agg = &groups->aggs[a];
        Partial    partials[2];
        const int  n_partials = partials_of(agg->kind, partials);
        for (int p = 0; p < n_partials; p++, (*n_aggs)++) {
            if (n_partials == 1) aggs[*n_aggs] = *agg;
            else TRY(expr_agg(partials[p].kind, agg->arg, agg->at, &aggs[*n_aggs], err));
            TRY(keep_column(plan, kept, aggs[*n_aggs].type, partials[p].merge, agg->at, &columns[*n_aggs], err));
        }
    }
    return WEFT_OK;
}

weft_status plan_keep_groups(Plan *plan, KeptGroups *kept, Error *err)
{
    const Node *groups = find_groups(plan->root);
    Agg        *aggs = arena_array(plan->arena, Agg, 2 * groups->n_aggs + 1);
    int        *keys = arena_array(plan->arena, int, groups->n_keys + 1);
    int        *columns = arena_array(plan->arena, int, 2 * groups->n_aggs + 1), n_aggs = 0;
    *kept = (KeptGroups){ .n_keys = groups->n_keys };
    for (int k = 0; k < groups->n_keys; k++)
        TRY(keep_column(plan, kept, groups->keys[k]->type, AGG_ANY, groups->keys[k]->at, &keys[k], err));
    TRY(keep_aggs(plan, groups, kept, aggs, columns, &n_aggs, err));
    if (!kept->n_columns) return refuse(err, -1, "a continuous view without keys and aggregates");
    plan->root = plan_aggregate(plan, groups->inputs[0], groups->keys, keys, groups->n_keys, aggs, columns, n_aggs);
    plan->n_visible = kept->n_columns;
    plan->names = arena_array(plan->arena, const char *, kept->n_columns + 1);
    for (int i = 0; i < kept->n_columns; i++) plan->names[i] = plan->columns[plan->root->out[i]].name;
    return WEFT_OK;
}

// ---- merging --------------------------------------------------------------------------------------------------------

// All rows of the view, its keys first.
static weft_status kept_rows(Plan *plan, const ViewRows *rows, int n_keys, Node **out, Error *err)
{
    Node *shared;
    if (!rows->shared || !rows->shared->n_rows) {
        *out = plan_scan(plan, rows->own, "kept", -1);
        return WEFT_OK;
    }
    TRY(plan_family_rows(plan, rows->shared, n_keys, &rows->wants, &shared, err));
    *out = shared;
    if (!rows->own->n_rows) return WEFT_OK;
    Node *own = plan_scan(plan, rows->own, "kept", -1);
    int  *columns = arena_array(plan->arena, int, own->n_out + 1);
    for (int c = 0; c < own->n_out; c++) columns[c] = plan_copy_column(plan, own->out[c]);
    *out = plan_set(plan, SET_UNION, true, own, shared, columns);
    return WEFT_OK;
}

// Groups of the rows: their first N_KEYS columns are the keys, MERGES says what becomes of the others.
static weft_status merge_rows(Plan *plan, const ViewRows *rows, int n_keys, const AggKind *merges, Node **out,
                              Error *err)
{
    Node *input;
    TRY(kept_rows(plan, rows, n_keys, &input, err));
    const int n_aggs = input->n_out - n_keys;
    Expr    **keys = arena_array(plan->arena, Expr *, n_keys + 1);
    Agg      *aggs = arena_array(plan->arena, Agg, n_aggs + 1);
    int      *columns = arena_array(plan->arena, int, input->n_out + 1);
    for (int c = 0; c < input->n_out; c++) {
        Expr *column = plan_column_expr(plan, input->out[c], -1);
        if (c < n_keys) keys[c] = column;
        else TRY(expr_agg(merges[c - n_keys], column, -1, &aggs[c - n_keys], err));
        columns[c] = plan_add_column(plan, c < n_keys ? column->type : aggs[c - n_keys].type,
                                     rows->own->columns[c].name, NULL);
    }
    *out = plan_aggregate(plan, input, keys, columns, n_keys, aggs, columns + n_keys, n_aggs);
    return WEFT_OK;
}

static weft_status as_type(Plan *plan, Expr *expr, Type type, Expr **out, Error *err)
{
    *out = expr;
    return type_equal(expr->type, type) ? WEFT_OK : expr_cast(plan->arena, expr, type, -1, out, err);
}

weft_status plan_merge_groups(Plan *plan, const ViewRows *rows, const KeptGroups *kept, Error *err)
{
    Node    *merged;
    AggKind *merges = arena_array(plan->arena, AggKind, kept->n_columns + 1);
    Expr   **exprs = arena_array(plan->arena, Expr *, kept->n_columns + 1);
    int     *columns = arena_array(plan->arena, int, kept->n_columns + 1);
    for (int c = kept->n_keys; c < kept->n_columns; c++) merges[c - kept->n_keys] = kept->columns[c].merge;
    TRY(merge_rows(plan, rows, kept->n_keys, merges, &merged, err));
    plan->names = arena_array(plan->arena, const char *, kept->n_columns + 1);
    for (int c = 0; c < kept->n_columns; c++) {
        TRY(as_type(plan, plan_column_expr(plan, merged->out[c], -1), kept->columns[c].type, &exprs[c], err));
        plan->names[c] = rows->own->columns[c].name;
        columns[c] = exprs[c]->kind == EXPR_COLUMN ? exprs[c]->column
                                                   : plan_add_column(plan, exprs[c]->type, plan->names[c], NULL);
    }
    plan->root = plan_project(plan, merged, exprs, columns, kept->n_columns);
    plan->n_visible = kept->n_columns;
    return WEFT_OK;
}

// ---- the answer -----------------------------------------------------------------------------------------------------

// The value of AGG, from the merged columns that begin at *AT.
static weft_status value_of_agg(Plan *plan, const Node *merged, const Agg *agg, int *at, Expr **out, Error *err)
{
    Expr *value = plan_column_expr(plan, merged->out[(*at)++], -1);
    if (agg->kind == AGG_AVG) {
        Expr *count = plan_column_expr(plan, merged->out[(*at)++], -1), *sum;
        TRY(as_type(plan, value, (Type){ TYPE_NUMERIC, 38, value->type.scale }, &sum, err));
        TRY(expr_call(plan->arena, OP_DIV, (Expr *[]){ sum, count }, 2, -1, &value, err));
    }
    TRY(as_type(plan, value, agg->type, &value, err));
    if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) {
        Expr *none = expr_const(plan->arena, (Value){ .type = TYPE(BIGINT) }, -1);
        TRY(expr_call(plan->arena, OP_COALESCE, (Expr *[]){ value, none }, 2, -1, &value, err));
    }
    *out = value;
    return WEFT_OK;
}

static AggKind *merges_of(Plan *plan, const Node *groups, int *n_merges)
{
    AggKind *merges = arena_array(plan->arena, AggKind, 2 * groups->n_aggs + 1);
    *n_merges = 0;
    for (int a = 0; a < groups->n_aggs; a++) {
        Partial   partials[2];
        const int n_partials = partials_of(groups->aggs[a].kind, partials);
        for (int p = 0; p < n_partials; p++) merges[(*n_merges)++] = partials[p].merge;
    }
    return merges;
}

weft_status plan_read_groups(Plan *plan, Node *root, const ViewRows *rows, Error *err)
{
    Node    *groups = find_groups(root), *merged;
    int      n_merges, at = groups->n_keys;
    Expr   **exprs = arena_array(plan->arena, Expr *, groups->n_out + 1);
    AggKind *merges = merges_of(plan, groups, &n_merges);
    if (groups->kind != NODE_AGGREGATE || groups->n_keys + n_merges != rows->own->n_columns)
        return fail(err, WEFT_CORRUPT, -1, "the groups that are kept for a view are not its query's");
    TRY(merge_rows(plan, rows, groups->n_keys, merges, &merged, err));
    for (int k = 0; k < groups->n_keys; k++)
        TRY(as_type(plan, plan_column_expr(plan, merged->out[k], -1), groups->keys[k]->type, &exprs[k], err));
    for (int a = 0; a < groups->n_aggs; a++)
        TRY(value_of_agg(plan, merged, &groups->aggs[a], &at, &exprs[groups->n_keys + a], err));
    for (int i = 0; i < groups->n_out; i++) {
        plan->columns[groups->out[i]].agg = NULL;
        plan->columns[groups->out[i]].value = exprs[i];
    }
    *groups = (Node){ .kind = NODE_PROJECT, .at = groups->at, .n_inputs = 1, .inputs = { merged },
                      .n_out = groups->n_out, .out = groups->out, .exprs = exprs, .copies = -1, .mark = -1,
                      .limit = -1 };
    return WEFT_OK;
}
