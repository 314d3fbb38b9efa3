// order.c - the order of joins, by cost.
//
// Each region of inner joins (region.h) is taken apart and put together anew.  A join streams one side, inputs[0],
// through a table built of the other, inputs[1]; a chain along inputs[0] is one pipeline, and what is built may be a
// chain of its own:
//
//     join                           lineitem streams through two tables; the second is built by streaming orders
//       join                         through customer
//         lineitem
//         supplier
//       join
//         orders
//         customer
//
// Up to ORDER_EXACT leaves all connected trees are compared: dynamic programming over pairs of connected sets of
// leaves, each pair once (Moerkotte and Neumann, "Analysis of Two Existing and One New Dynamic Programming Algorithm
// for the Generation of Optimal Bushy Join Trees without Cross Products", 2006), both ways round.  With more leaves,
// or where everything is joined with everything so that there are too many pairs, the pair that gives the fewest rows
// is joined first, again and again.  Parts that no equality connects are crossed at the end: the largest streams.
//
// Equal expressions form classes, and a class gives one key to every join that has members on both sides: with a.x =
// b.x and b.x = c.x the tree may begin with a and c.  All members on one side of a join are equal there, since each
// join saw to it.
//
// Not done: cross joins of tiny tables before a large one is read; LEFT joins whose right side is the larger one.

#include "plan/region.h"

#include <math.h>
#include <stdlib.h>

enum { ORDER_EXACT = 12, PAIRS_MAX = 20000 };

#define HEAVY_ROWS  1e5                // a leaf with fewer rows keeps its riders
#define HEAVY_SHARE 0.25

typedef struct Tree {
    u64          leaves;               // 0: not found yet
    double       rows, cost;
    double       rows_read;            // of the leaf that streams
    struct Tree *probe, *build;        // NULL: a leaf
} Tree;

typedef struct Search {
    Region *region;
    u64     neighbours[REGION_LEAVES];
    Tree   *trees;                     // exact: by set of leaves
    int     n_pairs;
} Search;

static u64 bit(int leaf) { return (u64)1 << leaf; }
static u64 bits_up_to(int leaf) { return leaf == 63 ? ~(u64)0 : bit(leaf + 1) - 1; }
static int lowest(u64 leaves) { return __builtin_ctzll(leaves); }

// ---- rows -----------------------------------------------------------------------------------------------------------

// What the keys of a join say about one of its sides.
typedef struct KeySide {
    double product;                    // of the keys' distinct values
    u64    leaves;                     // that the keys come from
    bool   is_unique;                  // a key tells the rows of a leaf apart, and the other leaves do not repeat them
} KeySide;

typedef struct Keyed { int n_keys; double product; KeySide a, b; } Keyed;

// The values that the class has on a side: of its members there, the fewest.
static double add_class(const Region *region, const RegionClass *class, const Tree *side, KeySide *keys)
{
    const u64 leaves = class->leaves & side->leaves;
    double    fewest = INFINITY;
    for (int m = class->first; m < class->end; m++) {
        const RegionMember *member = &region->members[m];
        if (!(side->leaves >> member->leaf & 1)) continue;
        fewest = fmin(fewest, member->n_distinct);
        keys->is_unique |= member->is_unique && side->rows <= 1.05 * region->leaves[member->leaf].rows;
    }
    keys->product *= fewest;
    keys->leaves |= leaves & -leaves;
    return fewest;
}

// Rows of the one leaf that all keys of a side come from: they cannot have more values together.
static double most_keys(const Region *region, u64 leaves)
{
    return leaves & (leaves - 1) ? INFINITY : region->leaves[lowest(leaves)].base;
}

// Several keys of one leaf that have about as many values as it has rows.
static bool is_unique_together(const Region *region, const Tree *side, const KeySide *keys, int n_keys,
                               double most_of_other)
{
    if (n_keys < 2 || (keys->leaves & (keys->leaves - 1))) return false;
    const RegionLeaf *leaf = &region->leaves[lowest(keys->leaves)];
    return estimate_keys(keys->product, n_keys, leaf->base, most_of_other) * 1.05 >= leaf->base &&
           side->rows <= 1.05 * leaf->rows;
}

static Keyed keys_between(const Region *region, const Tree *a, const Tree *b)
{
    Keyed keyed = { .product = 1, .a.product = 1, .b.product = 1 };
    for (int c = 0; c < region->n_classes; c++) {
        const RegionClass *class = &region->classes[c];
        if (!(class->leaves & a->leaves) || !(class->leaves & b->leaves)) continue;
        const double left = add_class(region, class, a, &keyed.a), right = add_class(region, class, b, &keyed.b);
        keyed.product *= fmax(left, right);
        keyed.n_keys++;
    }
    if (keyed.n_keys < 2) return keyed;
    keyed.a.is_unique |= is_unique_together(region, a, &keyed.a, keyed.n_keys, most_keys(region, keyed.b.leaves));
    keyed.b.is_unique |= is_unique_together(region, b, &keyed.b, keyed.n_keys, most_keys(region, keyed.a.leaves));
    return keyed;
}

static double rows_of_pair(const Region *region, const Tree *a, const Tree *b, const Keyed *keyed)
{
    double    rows = a->rows * b->rows;
    const u64 both = a->leaves | b->leaves;
    if (keyed->n_keys)
        rows /= estimate_keys(keyed->product, keyed->n_keys, most_keys(region, keyed->a.leaves),
                              most_keys(region, keyed->b.leaves));
    for (int c = 0; c < region->n_conditions; c++) {
        const u64 needed = region->conditions[c].leaves;
        if (!(needed & ~both) && (needed & ~a->leaves) && (needed & ~b->leaves))
            rows *= region->conditions[c].selectivity;
    }
    return fmin(fmax(1, rows), ROWS_ESTIMATE_MAX);
}

// Keeps the better of what is known for A and B together and their join, either way round.
static void try_pair(Region *region, Tree *a, Tree *b, Tree *tree)
{
    const Keyed keyed = keys_between(region, a, b);
    if (!tree->leaves)
        *tree = (Tree){ .leaves = a->leaves | b->leaves, .rows = rows_of_pair(region, a, b, &keyed), .cost = INFINITY };
    const Side   x = { a->rows, a->rows_read, keyed.a.is_unique }, y = { b->rows, b->rows_read, keyed.b.is_unique };
    const double below = a->cost + b->cost;
    const double build_b = below + cost_of_join(x, y, tree->rows), build_a = below + cost_of_join(y, x, tree->rows);
    if (fmin(build_a, build_b) >= tree->cost) return;
    tree->cost = fmin(build_a, build_b);
    tree->probe = build_b <= build_a ? a : b, tree->build = build_b <= build_a ? b : a;
    tree->rows_read = tree->probe->rows_read;
}

// ---- exact: all pairs of connected sets -----------------------------------------------------------------------------

static u64 neighbours_of(const Search *search, u64 leaves)
{
    u64 all = 0;
    for (u64 rest = leaves; rest; rest &= rest - 1) all |= search->neighbours[lowest(rest)];
    return all & ~leaves;
}

static void join_pair(Search *search, u64 a, u64 b)
{
    search->n_pairs++;
    try_pair(search->region, &search->trees[a], &search->trees[b], &search->trees[a | b]);
}

// B grows by neighbours that are not in WITHOUT; each set that comes of it is joined with A.
static void grow_other(Search *search, u64 a, u64 b, u64 without)
{
    const u64 near = neighbours_of(search, b) & ~without;
    if (!near || search->n_pairs > PAIRS_MAX) return;
    for (u64 more = near & -near; more; more = (more - near) & near) join_pair(search, a, b | more);
    for (u64 more = near & -near; more; more = (more - near) & near) grow_other(search, a, b | more, without | near);
}

static void join_with_others(Search *search, u64 a)
{
    const u64 without = bits_up_to(lowest(a)) | a, near = neighbours_of(search, a) & ~without;
    for (int leaf = search->region->n_leaves - 1; leaf >= 0; leaf--) {
        if (!(near >> leaf & 1)) continue;
        join_pair(search, a, bit(leaf));
        grow_other(search, a, bit(leaf), without | (bits_up_to(leaf) & near));
    }
}

static void grow(Search *search, u64 a, u64 without)
{
    const u64 near = neighbours_of(search, a) & ~without;
    if (!near || search->n_pairs > PAIRS_MAX) return;
    for (u64 more = near & -near; more; more = (more - near) & near) join_with_others(search, a | more);
    for (u64 more = near & -near; more; more = (more - near) & near) grow(search, a | more, without | near);
}

static void start_leaf(const Region *region, int leaf, Tree *tree)
{
    *tree = (Tree){ .leaves = bit(leaf), .rows = region->leaves[leaf].rows, .rows_read = region->leaves[leaf].base };
}

static u64 component_of(const Search *search, int leaf)
{
    u64 component = bit(leaf), near;
    while ((near = neighbours_of(search, component))) component |= near;
    return component;
}

// The best tree for each component.  False: there were too many pairs.
static bool search_exact(Search *search, Tree **parts, int *n_parts)
{
    const int n = search->region->n_leaves;
    search->trees = arena_array(search->region->plan->arena, Tree, (size_t)1 << n);
    for (int leaf = 0; leaf < n; leaf++) start_leaf(search->region, leaf, &search->trees[bit(leaf)]);
    for (int leaf = n - 1; leaf >= 0; leaf--) {
        join_with_others(search, bit(leaf));
        grow(search, bit(leaf), bits_up_to(leaf));
    }
    if (search->n_pairs > PAIRS_MAX) return false;
    u64 done = 0;
    for (int leaf = 0; leaf < n; leaf++) {
        if (done >> leaf & 1) continue;
        const u64 component = component_of(search, leaf);
        parts[(*n_parts)++] = &search->trees[component];
        done |= component;
    }
    return true;
}

// ---- greedy ---------------------------------------------------------------------------------------------------------

static void search_greedy(Search *search, Tree **parts, int *n_parts)
{
    Region *region = search->region;
    for (int leaf = 0; leaf < region->n_leaves; leaf++) {
        parts[leaf] = arena_make(region->plan->arena, Tree);
        start_leaf(region, leaf, parts[leaf]);
    }
    *n_parts = region->n_leaves;
    for (;;) {
        Tree best = { 0 };
        int  at_a = -1, at_b = -1;
        for (int a = 0; a < *n_parts; a++)
            for (int b = a + 1; b < *n_parts; b++) {
                Tree tree = { 0 };
                if (!(neighbours_of(search, parts[a]->leaves) & parts[b]->leaves)) continue;
                try_pair(region, parts[a], parts[b], &tree);
                if (at_a >= 0 && (tree.rows > best.rows || (tree.rows == best.rows && tree.cost >= best.cost)))
                    continue;
                best = tree, at_a = a, at_b = b;
            }
        if (at_a < 0) return;
        Tree *joined = arena_make(region->plan->arena, Tree);
        *joined = best;
        parts[at_a] = joined;
        parts[at_b] = parts[--*n_parts];
    }
}

// ---- the tree anew --------------------------------------------------------------------------------------------------

static int order_by_rows(const void *a, const void *b)
{
    const Tree *x = *(Tree *const *)a, *y = *(Tree *const *)b;
    return (x->rows < y->rows) - (x->rows > y->rows);
}

// The largest part streams through the others; the smallest first, so that what passes is small as long as possible.
static Tree *cross_parts(Region *region, Tree **parts, int n_parts)
{
    qsort(parts, (size_t)n_parts, sizeof *parts, order_by_rows);
    Tree *whole = parts[0];
    for (int p = n_parts - 1; p > 0; p--) {
        Tree *crossed = arena_make(region->plan->arena, Tree);
        *crossed = (Tree){ .leaves = whole->leaves | parts[p]->leaves,
                           .rows = fmin(whole->rows * parts[p]->rows, ROWS_ESTIMATE_MAX),
                           .probe = whole,
                           .build = parts[p] };
        whole = crossed;
    }
    return whole;
}

static int streamed_leaf(const Tree *tree)
{
    while (tree->probe) tree = tree->probe;
    return lowest(tree->leaves);
}

// A member of the class on a side; of the leaf that streams if there is one, so that the join need not wait for
// another.
static Expr *pick_member(const Region *region, const RegionClass *class, const Tree *side)
{
    const int streamed = streamed_leaf(side);
    Expr     *picked = NULL;
    for (int m = class->first; m < class->end; m++) {
        const RegionMember *member = &region->members[m];
        if (!(side->leaves >> member->leaf & 1)) continue;
        if (!picked || member->leaf == streamed) picked = member->expr;
        if (member->leaf == streamed) break;
    }
    return picked;
}

typedef struct Keys { Conditions left, right; } Keys;

static void add_key(const Region *region, Keys *keys, Expr *left, Expr *right)
{
    *LIST_PUSH(region->plan->arena, keys->left.items, keys->left.n) = left;
    *LIST_PUSH(region->plan->arena, keys->right.items, keys->right.n) = right;
}

static void add_conditions(const Region *region, const Tree *tree, Keys *keys, Conditions *residual)
{
    const u64 probe = tree->probe->leaves, build = tree->build->leaves;
    for (int c = 0; c < region->n_conditions; c++) {
        const RegionCondition *condition = &region->conditions[c];
        if ((condition->leaves & ~tree->leaves) || !(condition->leaves & ~probe) || !(condition->leaves & ~build))
            continue;
        if (condition->left && !(condition->left_leaves & ~probe) && !(condition->right_leaves & ~build))
            add_key(region, keys, condition->left, condition->right);
        else if (condition->left && !(condition->right_leaves & ~probe) && !(condition->left_leaves & ~build))
            add_key(region, keys, condition->right, condition->left);
        else *LIST_PUSH(region->plan->arena, residual->items, residual->n) = condition->expr;
    }
}

static Node *build_tree(const Region *region, const Tree *tree)
{
    Keys       keys = { 0 };
    Conditions residual = { 0 };
    if (!tree->probe) return *region->leaves[lowest(tree->leaves)].slot;
    Node *probe = build_tree(region, tree->probe), *build = build_tree(region, tree->build);
    for (int c = 0; c < region->n_classes; c++) {
        const RegionClass *class = &region->classes[c];
        if (!(class->leaves & tree->probe->leaves) || !(class->leaves & tree->build->leaves)) continue;
        add_key(region, &keys, pick_member(region, class, tree->probe), pick_member(region, class, tree->build));
    }
    add_conditions(region, tree, &keys, &residual);
    Node *join = plan_join(region->plan, JOIN_INNER, probe, build, residual.items, residual.n);
    join->n_keys = keys.left.n, join->keys = keys.left.items, join->right_keys = keys.right.items;
    join->rows = tree->rows;
    return join;
}

// ---- a region -------------------------------------------------------------------------------------------------------

static weft_status order(Plan *plan, Node **slot, Error *err);

// Members of one leaf in one class are equal by the leaf itself from here on.
static weft_status equate_within_leaves(Region *region)
{
    for (int a = 0; a < region->n_members; a++)
        for (int b = a + 1; b < region->n_members && region->members[b].group == region->members[a].group; b++) {
            Conditions list = { 0 };
            if (region->members[a].leaf != region->members[b].leaf) continue;
            Expr *equality;
            TRY(expr_equals(region->plan, region->members[a].expr, region->members[b].expr, &equality, region->err));
            *LIST_PUSH(region->plan->arena, list.items, list.n) = equality;
            TRY(push_conditions(region->plan, region->leaves[region->members[a].leaf].slot, &list, region->err));
        }
    return WEFT_OK;
}

// Conditions over one leaf, or none, are filters of it.
static weft_status filter_leaves(Region *region)
{
    for (int c = 0; c < region->n_conditions; c++) {
        const u64  leaves = region->conditions[c].leaves;
        Conditions list = { 0 };
        if (leaves & (leaves - 1)) continue;
        conditions_add(region->plan, &list, region->conditions[c].expr);
        TRY(push_conditions(region->plan, region->leaves[leaves ? lowest(leaves) : 0].slot, &list, region->err));
    }
    return WEFT_OK;
}

static void put_rider(Region *region, Node **tree, Node *rider)
{
    rider->inputs[0] = *tree;
    node_settle_out(region->plan, rider);
    *tree = rider;
}

// Leaves in the order that is best for each, with the riders that are small beside them.
static weft_status settle_leaf(Region *region, RegionLeaf *leaf)
{
    Node **own = arena_array(region->plan->arena, Node *, 1);          // the tree's slots are about to be rearranged
    *own = *leaf->slot;
    leaf->slot = own;
    TRY(order(region->plan, own, region->err));
    plan_prove(region->plan, *own);
    const double rows = (*own)->rows;
    for (int r = 0; r < leaf->n_riders; r++) {
        Node *rider = leaf->riders[r];
        TRY(order(region->plan, &rider->inputs[1], region->err));
        plan_prove(region->plan, rider->inputs[1]);
        const bool is_heavy = rider->inputs[1]->rows >= rows && rows >= HEAVY_ROWS;
        if (is_heavy || region->plan->is_eager) leaf->riders[leaf->n_heavy++] = rider;
        else put_rider(region, own, rider);
    }
    return WEFT_OK;
}

// Proved, or as many different values as rows in the table.
static bool tells_apart(Plan *plan, const Node *leaf, const Expr *expr, double base)
{
    ColumnSet set = { 0 };
    if (expr->kind != EXPR_COLUMN) return false;
    columns_add(plan->arena, &set, expr->column);
    return plan->columns[expr->column].n_measured * 1.05 >= base || node_is_unique(plan, leaf, &set);
}

static void estimate_leaf(Region *region, int l)
{
    RegionLeaf *leaf = &region->leaves[l];
    plan_prove(region->plan, *leaf->slot);
    leaf->rows = fmax(1, (*leaf->slot)->rows);
    leaf->base = fmax(leaf->rows, base_rows(*leaf->slot));
    for (int m = 0; m < region->n_members; m++) {
        RegionMember *member = &region->members[m];
        if (member->leaf != l) continue;
        member->n_distinct = plan_distinct_of(region->plan, member->expr);
        member->is_unique = tells_apart(region->plan, *leaf->slot, member->expr, leaf->base);
    }
}

static void connect_leaves(Search *search)
{
    const Region *region = search->region;
    for (int a = 0; a < region->n_members; a++)
        for (int b = 0; b < region->n_members; b++) {
            const RegionMember *x = &region->members[a], *y = &region->members[b];
            if (x->group == y->group && x->leaf != y->leaf) search->neighbours[x->leaf] |= bit(y->leaf);
        }
    for (int c = 0; c < region->n_conditions; c++) {
        const Expr *expr = region->conditions[c].expr;
        const bool  is_or = expr->kind == EXPR_CALL && expr->op == OP_OR;    // filters say the most of it already
        region->conditions[c].selectivity = is_or ? 0.5 : plan_selectivity(region->plan, expr);
    }
}

static Tree *find_tree(Region *region)
{
    Search search = { .region = region };
    Tree **parts = arena_array(region->plan->arena, Tree *, region->n_leaves + 1);
    int    n_parts = 0;
    connect_leaves(&search);
    if (region->n_leaves > ORDER_EXACT || !search_exact(&search, parts, &n_parts))
        search_greedy(&search, parts, &n_parts);
    return cross_parts(region, parts, n_parts);
}

static weft_status put_tops_back(Region *region, Node **tree)
{
    for (int t = region->n_tops - 1; t >= 0; t--) {
        Node *top = region->tops[t];
        TRY(order(region->plan, &top->inputs[1], region->err));
        top->inputs[0] = *tree;
        node_settle_out(region->plan, top);
        *tree = top;
    }
    return WEFT_OK;
}

// A heavy rider builds a table as large as its leaf.  Where the joins leave few of the leaf's rows it goes above them,
// so that few rows look it up, and the table can be reduced to their keys (rewrite_reduce.c); else on the leaf, after
// which the tree is looked for anew.
static Tree *place_heavy_riders(Region *region, Tree *tree)
{
    bool is_changed = false;
    for (int l = 0; l < region->n_leaves; l++) {
        RegionLeaf *leaf = &region->leaves[l];
        const bool  goes_up = tree->rows < HEAVY_SHARE * leaf->rows || region->plan->is_eager;
        for (int r = 0; r < leaf->n_heavy; r++) {
            if (goes_up) *LIST_PUSH(region->plan->arena, region->late, region->n_late) = leaf->riders[r];
            else put_rider(region, leaf->slot, leaf->riders[r]);
        }
        is_changed |= leaf->n_heavy && !goes_up;
        if (leaf->n_heavy && !goes_up) estimate_leaf(region, l);
    }
    return is_changed ? find_tree(region) : tree;
}

static weft_status order_region(Region *region, Node **slot)
{
    const int  n_out = (*slot)->n_out;
    const int *out = (*slot)->out;
    TRY(region_classify(region));
    for (int l = 0; l < region->n_leaves; l++) TRY(settle_leaf(region, &region->leaves[l]));
    TRY(equate_within_leaves(region));
    TRY(filter_leaves(region));
    for (int l = 0; l < region->n_leaves; l++) estimate_leaf(region, l);
    Node *tree = build_tree(region, place_heavy_riders(region, find_tree(region)));
    for (int r = 0; r < region->n_late; r++) put_rider(region, &tree, region->late[r]);
    TRY(put_tops_back(region, &tree));
    *slot = node_in_order(region->plan, tree, out, n_out);
    return WEFT_OK;
}

static weft_status order(Plan *plan, Node **slot, Error *err)
{
    if (region_starts(*slot)) {
        Region *region = arena_make(plan->arena, Region);
        region->plan = plan, region->err = err;
        TRY(region_collect(region, slot));
        if (region->n_leaves > 1) return order_region(region, slot);
    }
    for (int i = 0; i < (*slot)->n_inputs; i++) TRY(order(plan, &(*slot)->inputs[i], err));
    return WEFT_OK;
}

// References take their estimates from the subplan, so each tree is proved before the next one is ordered.
weft_status rewrite_order_joins(Plan *plan, Node **root, Error *err)
{
    TRY(order(plan, root, err));
    plan_prove(plan, *root);
    return WEFT_OK;
}
