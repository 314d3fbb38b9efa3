// rewrite_reduce.c - rows that can meet no row of the other side of their join are dropped before they are stored.
//
//     semi on o.key = l.key                      semi on o.key = l.key
//       filter of orders      57,000 rows          filter of orders
//       scan lineitem      6,000,000 rows  ->      semi on l.key = o2.key        a table of 57,000 keys is built,
//                                                    scan lineitem               lineitem streams through it, and
//                                                    filter of orders o2         230,000 rows are stored
//
// The side that is built loses rows whose key the other side (the source) does not have; they would match nothing.
// So a join of any kind that does not show such rows may be reduced: all but RIGHT and FULL.  Below groups by the key,
// whole groups are dropped; that is the "magic set" of a correlated subquery, which was made into groups of all keys:
//
//     inner on p.key = l.key                     inner on p.key = l.key
//       groups by l.key                            groups by l.key
//         scan lineitem               ->             semi on l.key = p2.key
//       filter of part                                 scan lineitem
//                                                      filter of part p2
//                                                  filter of part
//
// Any tree whose keys include those of the source will do: a scan with filters that an equality of a join below ties
// the key to is read twice, and so are rows that are stored anyway.  Where there is none, the source becomes a shared
// subplan.  One key is enough: the join itself sees to the others.
//
// An inner join is reduced only below groups: which of its sides is built was decided by cost.
// Not done: reducing by two keys together, by expressions, or by what a user of a shared subplan needs.

#include "plan/rewrite.h"

#include <math.h>

// Another pipeline must be worth it: less than half of the cost, and a millisecond of a core.
#define REDUCE_SHARE 0.5
#define REDUCE_GAIN  1e6

typedef struct Reduction { Plan *plan; Error *err; } Reduction;

// Where rows are dropped: the place in the tree, and the key's name there.
typedef struct ReduceTarget { Node **slot; int column; bool is_grouped; } ReduceTarget;

// A tree that has all keys of the source.
typedef struct KeySource {
    const Node *node;                  // NULL: none was found
    int         column;
    double      cost;                  // of a table of its keys
    bool        is_whole;              // the whole side: it is computed once and read twice
} KeySource;

typedef struct ReduceChoice { ReduceTarget target; KeySource source; double share, gain; } ReduceChoice;

static int column_of(const Expr *expr) { return expr->kind == EXPR_COLUMN ? expr->column : -1; }

// What NODE's column is called in its input; -1: it is computed here.
static int name_below(const Node *node, int column)
{
    Expr *const *exprs = node->kind == NODE_PROJECT ? node->exprs : node->keys;
    const int    n_exprs = node->kind == NODE_PROJECT ? node->n_out : node->n_keys;
    for (int c = 0; c < n_exprs; c++)
        if (node->out[c] == column) return column_of(exprs[c]);
    return -1;
}

// ---- the target -----------------------------------------------------------------------------------------------------

// Right rows without a match are never seen.
static bool hides_lone_right_rows(JoinKind kind) { return kind != JOIN_RIGHT && kind != JOIN_FULL; }

// The input of a join whose rows may be dropped by COLUMN; -1: none.
static int reducible_input(const Node *join, int column)
{
    if (!hides_lone_right_rows(join->join)) return -1;
    if (node_gives(join->inputs[0], column)) return 0;
    return join->join == JOIN_INNER && node_gives(join->inputs[1], column) ? 1 : -1;
}

// One node further down: dropping there by the key drops the same rows here.
static bool go_down(ReduceTarget *target)
{
    Node *node = *target->slot;
    int   input = 0, column = target->column;
    switch (node->kind) {
        case NODE_FILTER: input = node->inputs[0]->kind == NODE_SCAN ? -1 : 0; break;
        case NODE_SORT: input = node->n_distinct_on ? -1 : 0; break;
        case NODE_PROJECT: column = node->copies < 0 ? name_below(node, column) : -1; break;
        case NODE_AGGREGATE: column = name_below(node, column); break;
        case NODE_JOIN: input = reducible_input(node, column); break;
        default: return false;
    }
    if (input < 0 || column < 0) return false;
    target->is_grouped |= node->kind == NODE_AGGREGATE;
    target->slot = &node->inputs[input];
    target->column = column;
    return true;
}

static ReduceTarget target_of(Node **side, int column)
{
    ReduceTarget target = { side, column, false };
    while (go_down(&target)) continue;
    return target;
}

// ---- the source -----------------------------------------------------------------------------------------------------

// Reading it a second time costs little: a scan, or stored rows, with filters and projects.
static bool is_read_twice(const Node *node)
{
    if (node->kind == NODE_SHARED) return true;
    if (node->kind == NODE_FILTER || (node->kind == NODE_PROJECT && node->copies < 0))
        return is_read_twice(node->inputs[0]);
    return tree_is_cheap(node);
}

static void consider(KeySource *best, const Node *node, int column)
{
    const double cost = cost_of_keys(node->rows, base_rows(node));
    if (best->node && best->cost <= cost) return;
    *best = (KeySource){ .node = node, .column = column, .cost = cost };
}

static void find_source(const Node *node, int column, KeySource *best);

// The key is in every row of the left side, and equal to the other half of a pair of keys where only matches come out.
static void find_in_join(const Node *join, int column, KeySource *best)
{
    const bool is_match = join->join == JOIN_INNER || join->join == JOIN_SEMI;
    if (!hides_lone_right_rows(join->join)) return;
    if (node_gives(join->inputs[0], column)) find_source(join->inputs[0], column, best);
    else if (join->join == JOIN_INNER) find_source(join->inputs[1], column, best);
    for (int k = 0; k < join->n_keys && is_match; k++) {
        const int left = column_of(join->keys[k]), right = column_of(join->right_keys[k]);
        if (left < 0 || right < 0 || !type_equal(join->keys[k]->type, join->right_keys[k]->type)) continue;
        if (left == column) find_source(join->inputs[1], right, best);
        if (right == column) find_source(join->inputs[0], left, best);
    }
}

static void find_source(const Node *node, int column, KeySource *best)
{
    if (column < 0 || !node_gives(node, column)) return;
    if (is_read_twice(node)) consider(best, node, column);
    switch (node->kind) {
        case NODE_FILTER: find_source(node->inputs[0], column, best); return;
        case NODE_PROJECT: case NODE_AGGREGATE: find_source(node->inputs[0], name_below(node, column), best); return;
        case NODE_JOIN: find_in_join(node, column, best); return;
        default: return;
    }
}

// The best part of SIDE, or SIDE itself where storing its rows is better.
static KeySource source_of(const Node *side, int column)
{
    KeySource       best = { 0 };
    const double whole = cost_of_keys(side->rows, 0) + cost_of_stored(side->rows, side->rows);
    find_source(side, column, &best);
    if (!best.node || whole < best.cost)
        best = (KeySource){ .node = side, .column = column, .cost = whole, .is_whole = true };
    return best;
}

// ---- the choice -----------------------------------------------------------------------------------------------------

// The share of the target's rows that have a key of the source.
static double share_of(const Plan *plan, const ReduceTarget *target, const KeySource *source)
{
    const double keys = fmin(source->node->rows, plan->columns[source->column].n_distinct);
    return fmin(1, fmax(1, keys) / fmax(1, plan->columns[target->column].n_distinct));
}

static double gain_of(const Plan *plan, const ReduceTarget *target, const KeySource *source, double share)
{
    const double rows = (*target->slot)->rows, n_keys = fmin(rows, plan->columns[target->column].n_distinct);
    const double before = cost_of_stored(rows, n_keys);
    const double after = source->cost + cost_of_probe(rows, source->node->rows, share * rows) +
                         cost_of_stored(share * rows, share * n_keys);
    if (plan->is_eager) return 2 * REDUCE_GAIN;
    return after < REDUCE_SHARE * before ? before - after : 0;
}

// SIDE (0 or 1) by pair K of keys: columns, and of an inner join groups.
static bool is_candidate(const Plan *plan, Node *join, int side, int k, ReduceTarget *target, int *other)
{
    const int own = column_of(side ? join->right_keys[k] : join->keys[k]);
    *other = column_of(side ? join->keys[k] : join->right_keys[k]);
    if (own < 0 || *other < 0) return false;
    *target = target_of(&join->inputs[side], own);
    return join->join != JOIN_INNER || target->is_grouped || plan->is_eager;
}

// Most joins have none, and need not be proved for it.
static bool has_candidate(const Plan *plan, Node *join, int side)
{
    ReduceTarget target;
    int          other;
    for (int k = 0; k < join->n_keys; k++)
        if (is_candidate(plan, join, side, k, &target, &other)) return true;
    return false;
}

// Reduces SIDE of the join by the other one: the pair of keys that gains the most.
static void choose(const Plan *plan, Node *join, int side, ReduceChoice *best)
{
    for (int k = 0; k < join->n_keys; k++) {
        ReduceChoice choice = { 0 };
        int          other;
        if (!is_candidate(plan, join, side, k, &choice.target, &other)) continue;
        choice.source = source_of(join->inputs[1 - side], other);
        choice.share = share_of(plan, &choice.target, &choice.source);
        choice.gain = gain_of(plan, &choice.target, &choice.source, choice.share);
        if (choice.gain > best->gain) *best = choice;
    }
}

// ---- the change -----------------------------------------------------------------------------------------------------

// SIDE's rows become a shared subplan: a copy of it with columns of its own, since SIDE's are named above.
static weft_status share_side(const Reduction *r, Node **side, KeySource *source)
{
    Plan *plan = r->plan;
    Node *root, *old = *side;
    TRY(plan_clone(plan, old, plan_new_map(plan), &root, r->err));
    Shared *shared = plan_share(plan, root, NULL);
    shared->is_kept = true;
    plan_prove(plan, root);
    Node  *reference = plan_reference(plan, shared, NULL, -1);
    Expr **exprs = arena_array(plan->arena, Expr *, old->n_out + 1);
    for (int c = 0; c < old->n_out; c++) exprs[c] = plan_column_expr(plan, reference->out[c], -1);
    *side = plan_project(plan, reference, exprs, old->out, old->n_out);
    source->node = *side;
    return WEFT_OK;
}

static weft_status reduce(const Reduction *r, Node *join, int side, ReduceChoice *choice)
{
    Plan *plan = r->plan;
    Node *keys;
    if (choice->source.is_whole) TRY(share_side(r, &join->inputs[1 - side], &choice->source));
    int *map = plan_new_map(plan);
    TRY(plan_clone(plan, choice->source.node, map, &keys, r->err));
    Node *semi = plan_join(plan, JOIN_SEMI, *choice->target.slot, keys, NULL, 0);
    semi->n_keys = 1;
    semi->keys = arena_array(plan->arena, Expr *, 1);
    semi->right_keys = arena_array(plan->arena, Expr *, 1);
    semi->keys[0] = plan_column_expr(plan, choice->target.column, -1);
    semi->right_keys[0] = plan_column_expr(plan, map[choice->source.column], -1);
    *choice->target.slot = semi;
    return WEFT_OK;
}

static weft_status reduce_join(void *context, Node **slot)
{
    const Reduction *r = context;
    Node            *join = *slot;
    if (join->kind != NODE_JOIN || !hides_lone_right_rows(join->join)) return WEFT_OK;
    for (int side = 1; side >= (join->join == JOIN_INNER ? 0 : 1); side--) {
        ReduceChoice best = { .gain = REDUCE_GAIN };
        if (r->plan->n_scans >= MAX_RELATIONS) return WEFT_OK;
        if (!has_candidate(r->plan, join, side)) continue;
        for (int i = 0; i < 2; i++) plan_prove(r->plan, join->inputs[i]);      // values as they are below the join
        choose(r->plan, join, side, &best);
        if (!best.target.slot) continue;
        TRY(reduce(r, join, side, &best));
        plan_prove(r->plan, join);
        return WEFT_OK;
    }
    return WEFT_OK;
}

weft_status rewrite_reduce(Plan *plan, Node **root, Error *err)
{
    Reduction r = { plan, err };
    return tree_visit(root, reduce_join, &r);
}
