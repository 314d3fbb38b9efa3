// region.c - finds the regions of region.h.

#include "plan/region.h"

static bool is_rider(JoinKind kind) { return kind == JOIN_SEMI || kind == JOIN_ANTI; }
static bool is_top(JoinKind kind) { return kind == JOIN_LEFT || kind == JOIN_SINGLE || kind == JOIN_MARK; }

bool region_starts(const Node *node)
{
    return node->kind == NODE_JOIN && (node->join == JOIN_INNER || is_rider(node->join));
}

static bool passes_through(const Node *node)
{
    if (node->kind != NODE_PROJECT || node->copies >= 0) return false;
    for (int c = 0; c < node->n_out; c++)
        if (node->exprs[c]->kind != EXPR_COLUMN || node->exprs[c]->column != node->out[c]) return false;
    return true;
}

static void add_leaf(Region *region, Node **slot)
{
    RegionLeaf *leaf = &region->leaves[region->n_leaves++];
    *leaf = (RegionLeaf){ .slot = slot };
    node_columns(region->plan->arena, *slot, &leaf->columns);
}

int region_leaf_of(const Region *region, const Expr *expr)
{
    for (int l = 0; l < region->n_leaves; l++)
        if (expr_uses_only(expr, &region->leaves[l].columns)) return l;
    return -1;
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static weft_status collect(Region *region, Node **slot, int room);

static weft_status add_join_conditions(Region *region, const Node *node)
{
    for (int k = 0; k < node->n_keys; k++) {
        Expr *equality;
        TRY(expr_equals(region->plan, node->keys[k], node->right_keys[k], &equality, region->err));
        *LIST_PUSH(region->plan->arena, region->pool.items, region->pool.n) = equality;
    }
    conditions_add_all(region->plan, &region->pool, node->conditions, node->n_conditions);
    return WEFT_OK;
}

// Columns of the left side that the join's keys and conditions name.
static ColumnSet left_columns(Region *region, const Node *node)
{
    ColumnSet all = { 0 }, right = { 0 }, left = { 0 };
    for (int k = 0; k < node->n_keys; k++) columns_add_expr(region->plan->arena, &all, node->keys[k]);
    for (int c = 0; c < node->n_conditions; c++) columns_add_expr(region->plan->arena, &all, node->conditions[c]);
    node_columns(region->plan->arena, node->inputs[1], &right);
    for (int column = columns_next(&all, -1); column >= 0; column = columns_next(&all, column))
        if (!columns_has(&right, column)) columns_add(region->plan->arena, &left, column);
    return left;
}

// Whether a leaf from FIRST on gives them all; the join then rides on it.
static bool ride(Region *region, Node *node, int first)
{
    const ColumnSet needed = left_columns(region, node);
    for (int l = first; l < region->n_leaves; l++) {
        RegionLeaf *leaf = &region->leaves[l];
        if (!columns_is_subset(&needed, &leaf->columns)) continue;
        *LIST_PUSH(region->plan->arena, leaf->riders, leaf->n_riders) = node;
        return true;
    }
    return false;
}

static weft_status collect_rider(Region *region, Node **slot, int room)
{
    const int        first = region->n_leaves, n_tops = region->n_tops;
    const Conditions pool = region->pool;
    TRY(collect(region, &(*slot)->inputs[0], room));
    if (ride(region, *slot, first)) return WEFT_OK;
    // Back to where it was.  Lists that grew are begun anew at their next growth, so what is cut off must be copied.
    Conditions kept = { 0 };
    Node     **tops = NULL;
    int        n_kept = 0;
    for (int c = 0; c < pool.n; c++) *LIST_PUSH(region->plan->arena, kept.items, kept.n) = pool.items[c];
    for (int t = 0; t < n_tops; t++) *LIST_PUSH(region->plan->arena, tops, n_kept) = region->tops[t];
    region->pool = kept, region->tops = tops, region->n_tops = n_kept, region->n_leaves = first;
    add_leaf(region, slot);
    return WEFT_OK;
}

// Whether the columns that the join adds are named by conditions above it.
static bool is_used_above(const Region *region, const Node *node)
{
    ColumnSet given = { 0 };
    if (node->join == JOIN_MARK) columns_add(region->plan->arena, &given, node->mark);
    else node_columns(region->plan->arena, node->inputs[1], &given);
    for (int c = 0; c < region->pool.n; c++)
        if (expr_uses_any(region->pool.items[c], &given)) return true;
    return false;
}

// ROOM: leaves that may still come of this part, so that there are never too many.
static weft_status collect(Region *region, Node **slot, int room)
{
    Node *node = *slot;
    if (passes_through(node)) return collect(region, &node->inputs[0], room);
    if (node->kind == NODE_JOIN && node->join == JOIN_INNER && room >= 2) {
        TRY(add_join_conditions(region, node));
        TRY(collect(region, &node->inputs[0], room - 1));
        return collect(region, &node->inputs[1], REGION_LEAVES - region->n_leaves);
    }
    if (node->kind == NODE_JOIN && is_rider(node->join)) return collect_rider(region, slot, room);
    if (node->kind == NODE_JOIN && is_top(node->join) && !is_used_above(region, node)) {
        *LIST_PUSH(region->plan->arena, region->tops, region->n_tops) = node;
        return collect(region, &node->inputs[0], room);
    }
    add_leaf(region, slot);
    return WEFT_OK;
}

weft_status region_collect(Region *region, Node **slot) { return collect(region, slot, REGION_LEAVES); }

// ---- classes --------------------------------------------------------------------------------------------------------

static u64 leaves_of(const Region *region, const Expr *expr)
{
    u64 leaves = 0;
    for (int l = 0; l < region->n_leaves; l++)
        if (expr_uses_any(expr, &region->leaves[l].columns)) leaves |= (u64)1 << l;
    return leaves;
}

static int member_of(Region *region, Expr *expr, int leaf)
{
    for (int m = 0; m < region->n_members; m++)
        if (expr_equal(region->members[m].expr, expr)) return m;
    *LIST_PUSH(region->plan->arena, region->members, region->n_members) =
        (RegionMember){ .expr = expr, .leaf = leaf, .group = region->n_members };
    return region->n_members - 1;
}

static void make_equal(Region *region, int a, int b)
{
    const int keep = region->members[a].group, drop = region->members[b].group;
    for (int m = 0; m < region->n_members; m++)
        if (region->members[m].group == drop) region->members[m].group = keep;
}

static bool is_one_leaf(u64 leaves) { return leaves && !(leaves & (leaves - 1)); }

static void add_condition(Region *region, Expr *expr)
{
    RegionCondition condition = { .expr = expr, .leaves = leaves_of(region, expr) };
    if (expr->kind == EXPR_CALL && expr->op == OP_EQ) {
        const u64 left = leaves_of(region, expr->args[0]), right = leaves_of(region, expr->args[1]);
        if (is_one_leaf(left) && is_one_leaf(right) && left != right) {
            const int a = member_of(region, expr->args[0], __builtin_ctzll(left));
            make_equal(region, a, member_of(region, expr->args[1], __builtin_ctzll(right)));
            return;
        }
        if (left && right && !(left & right)) {
            condition.left = expr->args[0], condition.right = expr->args[1];
            condition.left_leaves = left, condition.right_leaves = right;
        }
    }
    *LIST_PUSH(region->plan->arena, region->conditions, region->n_conditions) = condition;
}

// Classes are numbered 0, 1, ... and members put in their order.
static void number_classes(Region *region)
{
    RegionMember *sorted = arena_array(region->plan->arena, RegionMember, region->n_members + 1);
    int           n_sorted = 0;
    for (int m = 0; m < region->n_members; m++) {
        bool is_first = true;
        for (int e = 0; e < m; e++) is_first &= region->members[e].group != region->members[m].group;
        if (!is_first) continue;
        for (int e = m; e < region->n_members; e++)
            if (region->members[e].group == region->members[m].group) {
                sorted[n_sorted] = region->members[e];
                sorted[n_sorted++].group = -1 - region->n_classes;     // negative: not a group of the old list
            }
        region->n_classes++;
    }
    region->members = sorted;
    region->classes = arena_array(region->plan->arena, RegionClass, region->n_classes + 1);
    for (int m = n_sorted - 1; m >= 0; m--) {
        sorted[m].group = -1 - sorted[m].group;
        RegionClass *class = &region->classes[sorted[m].group];
        class->first = m;
        class->end = MAX_OF(class->end, m + 1);
        class->leaves |= (u64)1 << sorted[m].leaf;
    }
}

weft_status region_classify(Region *region)
{
    for (int c = 0; c < region->pool.n; c++) add_condition(region, region->pool.items[c]);
    number_classes(region);
    return WEFT_OK;
}
