// pipeline.c - a bound query as a tree of pipelines.
//
// The largest relation is scanned last and never stored: it is the root.  Every other relation becomes a table that is
// probed by the relation it is joined to:
//
//     from lineorder, date, customer, nation        nation -> customer -+
//                                                     date -------------+-> lineorder -> sink
//
// A relation is attached to the lowest pipeline that has the columns its join conditions need, so a snowflake's outer
// branches shrink the inner tables before the root is scanned.  Conditions that close a cycle become filters of the lowest
// pipeline that sees all their relations.  Relations that no equality reaches are crossed at the root.
// Not done: bushy trees whose two halves are both large, and reordering by cost beyond "smallest first".

#include "plan/plan.h"

#include <math.h>

typedef struct Tree {
    Arena       *arena;
    const Query *query;
    int          parent[MAX_RELATIONS];        // relation whose pipeline probes this one; -1: root or not attached yet
    bool         attached[MAX_RELATIONS];
    double       rows[MAX_RELATIONS];          // estimated, after its own filters
    u64          subtree[MAX_RELATIONS];       // relations available in its pipeline
    bool        *used;                         // conjunct became a join key
    int          root;
    Pipeline     pipelines[MAX_RELATIONS];     // by relation, until they are put in order
} Tree;

static u64 bit(int relation) { return (u64)1 << relation; }

// ---- estimates ---------------------------------------------------------------------------------------------------------

static double column_distinct(const Query *query, const Expr *column)
{
    const Table      *table = query->relations[column->relation].table;
    const ColumnRange range = table_column_range(table, column->column);
    const Column     *def = &table->columns[column->column];
    if (def->type.kind == TYPE_TEXT) return MAX_OF(1, def->dict_count);
    if (!range.has_range || type_is_float(def->type)) return MAX_OF(1, (double)table->n_rows);
    return MAX_OF(1, MIN_OF((double)range.max - (double)range.min + 1, (double)table->n_rows));
}

// The share of the column's range that lies below the constant.
static double share_below(const Query *query, const Expr *column, const Value *value)
{
    const ColumnRange range = table_column_range(query->relations[column->relation].table, column->column);
    const double      third = 1.0 / 3;
    if (value->is_null || !range.has_range || column->type.kind == TYPE_TEXT) return third;
    const bool   is_float = type_is_float(column->type);
    const double low = is_float ? range.fmin : (double)range.min, high = is_float ? range.fmax : (double)range.max;
    const double at = is_float ? value->f : (double)value->i;
    if (high <= low) return at >= low ? 1 : 0;
    return fmin(1, fmax(0, (at - low) / (high - low)));
}

static double comparison_selectivity(const Query *query, const Expr *expr)
{
    const Expr *column = expr->args[0], *constant = expr->args[1];
    Op          op = expr->op;
    if (column->kind == EXPR_CONST) {
        const Expr *swap = column;
        column = constant, constant = swap;
        op = op == OP_LT ? OP_GT : op == OP_LE ? OP_GE : op == OP_GT ? OP_LT : op == OP_GE ? OP_LE : op;
    }
    if (column->kind != EXPR_COLUMN || constant->kind != EXPR_CONST) return op == OP_EQ ? 0.1 : 1.0 / 3;
    switch (op) {
        case OP_EQ: return 1 / column_distinct(query, column);
        case OP_NE: return 1 - 1 / column_distinct(query, column);
        case OP_LT: case OP_LE: return share_below(query, column, &constant->value);
        default: return 1 - share_below(query, column, &constant->value);
    }
}

double plan_selectivity(const Query *query, const Expr *expr)
{
    if (expr->kind == EXPR_CONST) return !expr->value.is_null && expr->value.i ? 1 : 0;
    if (expr->kind != EXPR_CALL) return 0.5;
    switch (expr->op) {
        case OP_AND: return plan_selectivity(query, expr->args[0]) * plan_selectivity(query, expr->args[1]);
        case OP_OR: {
            const double a = plan_selectivity(query, expr->args[0]), b = plan_selectivity(query, expr->args[1]);
            return a + b - a * b;
        }
        case OP_NOT: return 1 - plan_selectivity(query, expr->args[0]);
        case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE: return comparison_selectivity(query, expr);
        case OP_IN:
            if (expr->args[0]->kind != EXPR_COLUMN) return 0.2;
            return fmin(1, (expr->n_args - 1) / column_distinct(query, expr->args[0]));
        case OP_LIKE: case OP_ILIKE: return 0.1;
        case OP_IS_NULL: return 0.05;
        case OP_IS_NOT_NULL: return 0.95;
        default: return 0.5;
    }
}

// ---- the tree ---------------------------------------------------------------------------------------------------------------

static void estimate_relations(Tree *tree)
{
    const Query *query = tree->query;
    for (int r = 0; r < query->n_relations; r++) {
        tree->parent[r] = -1;
        tree->subtree[r] = bit(r);
        tree->rows[r] = (double)query->relations[r].table->n_rows;
        for (int c = 0; c < query->n_conjuncts; c++)
            if (expr_relations(query->conjuncts[c]) == bit(r)) tree->rows[r] *= plan_selectivity(query, query->conjuncts[c]);
    }
    for (int r = 1; r < query->n_relations; r++)
        if (query->relations[r].table->n_rows > query->relations[tree->root].table->n_rows) tree->root = r;
    tree->attached[tree->root] = true;
}

// Whether the conjunct says RELATION's expression = something of attached relations only; gives both sides.
static bool is_join_key(const Tree *tree, const Expr *conjunct, int relation, Expr **own, Expr **other, u64 *other_relations)
{
    if (conjunct->kind != EXPR_CALL || conjunct->op != OP_EQ) return false;
    for (int side = 0; side < 2; side++) {
        const u64 a = expr_relations(conjunct->args[side]), b = expr_relations(conjunct->args[1 - side]);
        u64       attached = 0;
        for (int r = 0; r < tree->query->n_relations; r++) attached |= tree->attached[r] ? bit(r) : 0;
        if (a != bit(relation) || b == 0 || (b & ~attached)) continue;
        *own = conjunct->args[side], *other = conjunct->args[1 - side], *other_relations = b;
        return true;
    }
    return false;
}

// The lowest pipeline in which all of RELATIONS (attached ones) are available.
static int lowest_with(const Tree *tree, u64 relations)
{
    int home = -1;
    for (int r = 0; r < tree->query->n_relations && home < 0; r++)
        if (relations & bit(r)) home = r;
    if (home < 0) return tree->root;
    while (relations & ~tree->subtree[home]) home = tree->parent[home];
    return home;
}

static int next_to_attach(const Tree *tree)
{
    int best = -1;
    for (int r = 0; r < tree->query->n_relations; r++) {
        if (tree->attached[r] || (best >= 0 && tree->rows[r] >= tree->rows[best])) continue;
        for (int c = 0; c < tree->query->n_conjuncts; c++) {
            Expr *own, *other;
            u64   relations;
            if (!is_join_key(tree, tree->query->conjuncts[c], r, &own, &other, &relations)) continue;
            best = r;
            break;
        }
    }
    return best;
}

static void attach(Tree *tree, int relation)
{
    const Query *query = tree->query;
    Probe        probe = { .build = relation };
    u64          needed = 0;
    Expr        *own, *other;
    u64          relations;
    Pipeline    *build = &tree->pipelines[relation];
    for (int c = 0; c < query->n_conjuncts; c++)
        if (is_join_key(tree, query->conjuncts[c], relation, &own, &other, &relations)) needed |= relations;
    const int home = lowest_with(tree, needed);
    for (int c = 0; c < query->n_conjuncts; c++) {
        if (!is_join_key(tree, query->conjuncts[c], relation, &own, &other, &relations)) continue;
        *LIST_PUSH(tree->arena, build->keys, build->n_keys) = own;
        *LIST_PUSH(tree->arena, probe.keys, probe.n_keys) = other;
        tree->used[c] = true;
    }
    *LIST_PUSH(tree->arena, tree->pipelines[home].probes, tree->pipelines[home].n_probes) = probe;
    tree->attached[relation] = true;
    tree->parent[relation] = home;
    for (int r = home; r >= 0; r = tree->parent[r]) tree->subtree[r] |= bit(relation);
}

static void attach_all(Tree *tree)
{
    for (int n = 1; n < tree->query->n_relations; n++) {
        int relation = next_to_attach(tree);
        for (int r = 0; relation < 0; r++)
            if (!tree->attached[r]) relation = r;      // nothing joins it: a cross join at the root
        attach(tree, relation);
    }
}

// Nothing passes: then no table need be built either.
static void place_everywhere(Tree *tree, Expr *filter)
{
    for (int r = 0; r < tree->query->n_relations; r++) {
        Pipeline *pipeline = &tree->pipelines[r];
        *LIST_PUSH(tree->arena, pipeline->filters, pipeline->n_filters) = filter;
    }
}

static void place_filters(Tree *tree)
{
    for (int c = 0; c < tree->query->n_conjuncts; c++) {
        if (tree->used[c]) continue;
        Expr     *filter = tree->query->conjuncts[c];
        if (expr_is_never(filter)) {
            place_everywhere(tree, filter);
            continue;
        }
        Pipeline *home = &tree->pipelines[lowest_with(tree, expr_relations(filter))];
        *LIST_PUSH(tree->arena, home->filters, home->n_filters) = filter;
    }
}

// ---- what travels up ----------------------------------------------------------------------------------------------------------

void plan_collect_columns(Arena *arena, const Expr *expr, ColumnRef **refs, int *n_refs)
{
    if (expr->kind == EXPR_COLUMN) {
        for (int i = 0; i < *n_refs; i++)
            if ((*refs)[i].relation == expr->relation && (*refs)[i].column == expr->column) return;
        *LIST_PUSH(arena, *refs, *n_refs) = (ColumnRef){ expr->relation, expr->column };
    }
    for (int i = 0; i < expr->n_args; i++) plan_collect_columns(arena, expr->args[i], refs, n_refs);
}

static void add_payload(Tree *tree, Pipeline *pipeline, ColumnRef ref)
{
    for (int i = 0; i < pipeline->n_payload; i++)
        if (pipeline->payload[i].relation == ref.relation && pipeline->payload[i].column == ref.column) return;
    *LIST_PUSH(tree->arena, pipeline->payload, pipeline->n_payload) = ref;
}

// A column used in the pipeline of USER travels from its own pipeline up to there.
static void carry(Tree *tree, const Expr *expr, int user)
{
    ColumnRef *refs = NULL;
    int        n_refs = 0;
    plan_collect_columns(tree->arena, expr, &refs, &n_refs);
    for (int i = 0; i < n_refs; i++)
        for (int r = refs[i].relation; r != user; r = tree->parent[r]) add_payload(tree, &tree->pipelines[r], refs[i]);
}

static void carry_columns(Tree *tree)
{
    const Query *query = tree->query;
    for (int r = 0; r < query->n_relations; r++) {
        const Pipeline *pipeline = &tree->pipelines[r];
        for (int f = 0; f < pipeline->n_filters; f++) carry(tree, pipeline->filters[f], r);
        for (int k = 0; k < pipeline->n_keys; k++) carry(tree, pipeline->keys[k], r);
        for (int p = 0; p < pipeline->n_probes; p++)
            for (int k = 0; k < pipeline->probes[p].n_keys; k++) carry(tree, pipeline->probes[p].keys[k], r);
    }
    for (int k = 0; k < query->n_keys; k++) carry(tree, query->keys[k], tree->root);
    for (int a = 0; a < query->n_aggs; a++)
        if (query->aggs[a].arg) carry(tree, query->aggs[a].arg, tree->root);
    for (int o = 0; !query->is_grouped && o < query->n_outputs; o++) carry(tree, query->outputs[o].expr, tree->root);
}

// ---- in order ------------------------------------------------------------------------------------------------------------------

static int emit(Tree *tree, Plan *plan, int relation)
{
    Pipeline pipeline = tree->pipelines[relation];
    double   share = 1;
    for (int p = 0; p < pipeline.n_probes; p++) {
        const int child = pipeline.probes[p].build;
        pipeline.probes[p].build = emit(tree, plan, child);
        share *= fmin(1, plan->pipelines[pipeline.probes[p].build].rows_out / fmax(1, (double)tree->query->relations[child].table->n_rows));
    }
    pipeline.relation = relation;
    pipeline.relations = tree->subtree[relation];
    pipeline.rows_in = (double)tree->query->relations[relation].table->n_rows;
    pipeline.rows_out = tree->rows[relation] * share;
    pipeline.sink = relation != tree->root ? SINK_TABLE : tree->query->is_grouped ? SINK_GROUPS : SINK_ROWS;
    plan->pipelines[plan->n_pipelines] = pipeline;
    return plan->n_pipelines++;
}

// A total (grouped without keys) has a row even where nothing is counted.
bool plan_is_empty(const Query *query)
{
    if (query->limit == 0 || (query->having && expr_is_never(query->having))) return true;
    for (int c = 0; c < query->n_conjuncts; c++)
        if (expr_is_never(query->conjuncts[c])) return !query->is_grouped || query->n_keys > 0;
    return false;
}

weft_status plan_pipelines(Arena *arena, const Query *query, Plan **out, Error *err)
{
    if (query->n_relations > MAX_RELATIONS)
        return fail(err, WEFT_TOO_COMPLEX, -1, "more than %d tables in one query", MAX_RELATIONS);
    Tree *tree = arena_make(arena, Tree);
    Plan *plan = arena_make(arena, Plan);
    tree->arena = arena, tree->query = query;
    tree->used = arena_array(arena, bool, query->n_conjuncts + 1);
    plan->query = query;
    plan->pipelines = arena_array(arena, Pipeline, query->n_relations);
    estimate_relations(tree);
    attach_all(tree);
    place_filters(tree);
    carry_columns(tree);
    emit(tree, plan, tree->root);
    *out = plan;
    return WEFT_OK;
}
