// same.c - whether two trees compute the same rows.
//
// The ids of their columns differ, since every column has its own, so a map from one tree's ids to the other's is
// filled in on the way up: columns that leaves and computing nodes make are paired by place.

#include "plan/expr_int.h"
#include "plan/window.h"

typedef struct Pairing {
    int *other;                        // by column of the first tree: the second's; -1: none, and equal only to itself
} Pairing;

static int pair_of(const Pairing *pairing, int column)
{
    return pairing->other[column] >= 0 ? pairing->other[column] : column;
}

static bool same_expr(const Pairing *pairing, const Expr *a, const Expr *b)
{
    if (a->kind != b->kind || a->n_args != b->n_args || !type_equal(a->type, b->type)) return false;
    if (a->kind == EXPR_COLUMN) return pair_of(pairing, a->column) == b->column;
    if (a->n_args == 0) return expr_equal(a, b);
    if (a->kind == EXPR_CALL && a->op != b->op) return false;
    for (int i = 0; i < a->n_args; i++)
        if (!same_expr(pairing, a->args[i], b->args[i])) return false;
    return true;
}

static bool same_exprs(const Pairing *pairing, Expr *const *a, Expr *const *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!same_expr(pairing, a[i], b[i])) return false;
    return true;
}

static bool same_aggs(const Pairing *pairing, const Node *a, const Node *b)
{
    for (int i = 0; i < a->n_aggs; i++) {
        const Agg *x = &a->aggs[i], *y = &b->aggs[i];
        if (x->kind != y->kind || x->is_distinct != y->is_distinct || !x->arg != !y->arg) return false;
        if (x->arg && !same_expr(pairing, x->arg, y->arg)) return false;
    }
    return true;
}

static bool same_sort(const Pairing *pairing, const Node *a, const Node *b)
{
    for (int i = 0; i < a->n_sort; i++) {
        const SortKey *x = &a->sort[i], *y = &b->sort[i];
        if (pair_of(pairing, x->column) != y->column || x->descending != y->descending ||
            x->nulls_first != y->nulls_first)
            return false;
    }
    return true;
}

static bool same_values(const Node *a, const Node *b)
{
    if (a->n_rows != b->n_rows) return false;
    for (u64 i = 0; i < a->n_rows * (u64)a->n_out; i++) {
        const Expr x = { .kind = EXPR_CONST, .type = a->values[i].type, .value = a->values[i] };
        const Expr y = { .kind = EXPR_CONST, .type = b->values[i].type, .value = b->values[i] };
        if (!expr_equal(&x, &y)) return false;
    }
    return true;
}

static bool same_counts(const Node *a, const Node *b)
{
    return a->kind == b->kind && a->n_inputs == b->n_inputs && a->n_out == b->n_out &&
           a->n_conditions == b->n_conditions && a->n_keys == b->n_keys && a->n_aggs == b->n_aggs &&
           a->n_sort == b->n_sort && a->n_distinct_on == b->n_distinct_on &&
           a->run_skipped == b->run_skipped && a->run_more == b->run_more;
}

static bool same_lengths(const Node *a, const Node *b)
{
    return a->n_by_length == b->n_by_length &&
           (!a->n_by_length || memcmp(a->by_length, b->by_length, (size_t)a->n_by_length * sizeof(bool)) == 0);
}

// What is particular to the kind; the inputs are the same already.
static bool same_work(const Pairing *pairing, const Node *a, const Node *b)
{
    switch (a->kind) {
    case NODE_SCAN:
        return a->table == b->table && memcmp(a->table_columns, b->table_columns, (size_t)a->n_out * sizeof(int)) == 0;
    case NODE_VALUES: return same_values(a, b);
    case NODE_FILTER: return same_exprs(pairing, a->conditions, b->conditions, a->n_conditions);
    case NODE_PROJECT: return a->copies < 0 && b->copies < 0 && same_exprs(pairing, a->exprs, b->exprs, a->n_out);
    case NODE_JOIN:
        return a->join == b->join && same_exprs(pairing, a->conditions, b->conditions, a->n_conditions) &&
               same_exprs(pairing, a->keys, b->keys, a->n_keys) &&
               same_exprs(pairing, a->right_keys, b->right_keys, a->n_keys);
    case NODE_AGGREGATE: return same_exprs(pairing, a->keys, b->keys, a->n_keys) && same_aggs(pairing, a, b);
    case NODE_SORT: return same_sort(pairing, a, b);
    case NODE_LIMIT: return a->limit == b->limit && a->offset == b->offset;
    case NODE_SET: return a->set == b->set && a->is_all == b->is_all && same_lengths(a, b);
    case NODE_SHARED: return true;                     // the shared trees are, as the inputs of other nodes
    case NODE_WINDOW:
        return same_exprs(pairing, a->keys, b->keys, a->n_keys) && window_is_same(a->windows, b->windows);
    case NODE_REPEAT: return !a->n_inputs && a->repeat == b->repeat;
    }
    return false;
}

static bool same_tree(Pairing *pairing, const Node *a, const Node *b)
{
    if (a == b) return true;
    if (!same_counts(a, b)) return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (!same_tree(pairing, a->inputs[i], b->inputs[i])) return false;
    if (a->kind == NODE_SHARED && !same_tree(pairing, a->shared->root, b->shared->root)) return false;
    if (!same_work(pairing, a, b)) return false;
    for (int i = 0; i < a->n_out; i++) {
        if (a->out[i] == b->out[i]) continue;
        if (pairing->other[a->out[i]] >= 0 && pairing->other[a->out[i]] != b->out[i]) return false;
        pairing->other[a->out[i]] = b->out[i];
    }
    return true;
}

bool plan_is_same_tree(const Plan *plan, const Node *a, const Node *b)
{
    Arena  *scratch = arena_new(plan->arena, "pairing");
    Pairing pairing = { arena_array(scratch, int, plan->n_columns + 1) };
    for (int c = 0; c < plan->n_columns; c++) pairing.other[c] = -1;
    const bool is_same = same_tree(&pairing, a, b);
    arena_free(scratch);
    return is_same;
}
