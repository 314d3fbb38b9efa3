// rewrite_keys.c - group keys that the other keys determine are no keys.
//
//     group by c_custkey, c_name, n_name     c_custkey tells the customer, so its name, its nation, and that one's name
//
// What determines what is proved, never guessed:
//   - a column that its table's statistics prove to be unique determines the table's other columns (unique.c), also
//     where an outer join put NULLs: there all of them are NULL;
//   - columns that an inner join or a filter makes equal determine each other, and one that is equal to a constant is
//     determined;
//   - the keys of a group determine its aggregates, and what an expression is made of determines the expression.
// A key that goes comes back as what it equals, or as "any", an aggregate that takes some row's value.  One key stays
// always: without keys there would be a row even where there is nothing to group.

#include "plan/rewrite.h"

typedef struct Determines { ColumnSet from, to; } Determines;

typedef struct Equality { int column; Expr *expr; } Equality;          // a column and what it equals

typedef struct KeysRewrite {
    Plan       *plan;
    Error      *err;
    int         n_facts;
    Determines *facts;
    int         n_equalities;
    Equality   *equalities;
} KeysRewrite;

// ---- what determines what -------------------------------------------------------------------------------------------

static Determines *add_fact(KeysRewrite *keys) { return LIST_PUSH(keys->plan->arena, keys->facts, keys->n_facts); }

static void add_equality(KeysRewrite *keys, Expr *a, Expr *b)
{
    for (int i = 0; i < 2; i++) {
        Expr *from = i ? b : a, *to = i ? a : b;
        if (to->kind != EXPR_COLUMN) continue;
        Determines *fact = add_fact(keys);
        columns_add_expr(keys->plan->arena, &fact->from, from);
        columns_add(keys->plan->arena, &fact->to, to->column);
        *LIST_PUSH(keys->plan->arena, keys->equalities, keys->n_equalities) = (Equality){ to->column, from };
    }
}

static void add_conditions(KeysRewrite *keys, const Node *node)
{
    for (int c = 0; c < node->n_conditions; c++) {
        const Expr *condition = node->conditions[c];
        if (condition->kind == EXPR_CALL && condition->op == OP_EQ)
            add_equality(keys, condition->args[0], condition->args[1]);
    }
}

static void add_scan(KeysRewrite *keys, const Node *node)
{
    for (int c = 0; c < node->n_out; c++) {
        if (!table_column_is_unique(node->table, node->table_columns[c])) continue;
        Determines *fact = add_fact(keys);
        columns_add(keys->plan->arena, &fact->from, node->out[c]);
        node_columns(keys->plan->arena, node, &fact->to);
    }
}

static void add_groups(KeysRewrite *keys, const Node *node)
{
    Determines *fact = add_fact(keys);
    for (int k = 0; k < node->n_keys; k++) columns_add(keys->plan->arena, &fact->from, node->out[k]);
    node_columns(keys->plan->arena, node, &fact->to);
}

static void add_project(KeysRewrite *keys, const Node *node)
{
    for (int c = 0; c < node->n_out; c++) {
        Determines *fact = add_fact(keys);
        columns_add_expr(keys->plan->arena, &fact->from, node->exprs[c]);
        columns_add(keys->plan->arena, &fact->to, node->out[c]);
        if (node->exprs[c]->kind == EXPR_COLUMN)
            add_equality(keys, plan_column_expr(keys->plan, node->out[c], -1), node->exprs[c]);
    }
}

// Everything that holds for the rows of NODE.  On the far side of an outer join only what a unique column determines:
// rows without a match are NULL in all columns there, which no equality, no expression and no group with a NULL key
// agrees with.
static void add_facts(KeysRewrite *keys, const Node *node, bool with_equalities)
{
    switch (node->kind) {
        case NODE_SCAN:      add_scan(keys, node); return;
        case NODE_AGGREGATE:
            if (with_equalities) add_groups(keys, node);
            return;
        case NODE_FILTER:
            if (with_equalities) add_conditions(keys, node);
            break;
        case NODE_PROJECT:
            if (with_equalities) add_project(keys, node);
            break;
        case NODE_JOIN: {
            const bool is_inner = node->join == JOIN_INNER;
            for (int k = 0; with_equalities && is_inner && k < node->n_keys; k++)
                add_equality(keys, node->keys[k], node->right_keys[k]);
            if (with_equalities && is_inner) add_conditions(keys, node);
            if (node->join == JOIN_RIGHT || node->join == JOIN_FULL) with_equalities = false;
            add_facts(keys, node->inputs[0], with_equalities);
            if (join_gives_right(node->join)) add_facts(keys, node->inputs[1], with_equalities && is_inner);
            return;
        }
        case NODE_SORT: case NODE_LIMIT: break;
        default: return;
    }
    add_facts(keys, node->inputs[0], with_equalities);
}

// All that the columns in SET determine.
static ColumnSet closure(const KeysRewrite *keys, const ColumnSet *set)
{
    ColumnSet all = { 0 };
    columns_add_all(keys->plan->arena, &all, set);
    for (bool grows = true; grows;) {
        grows = false;
        for (int f = 0; f < keys->n_facts; f++) {
            if (!columns_is_subset(&keys->facts[f].from, &all) || columns_is_subset(&keys->facts[f].to, &all)) continue;
            columns_add_all(keys->plan->arena, &all, &keys->facts[f].to);
            grows = true;
        }
    }
    return all;
}

// ---- keys that go ---------------------------------------------------------------------------------------------------

static bool is_determined(const KeysRewrite *keys, const Node *node, const bool *is_dropped, int key)
{
    ColumnSet others = { 0 };
    for (int k = 0; k < node->n_keys; k++) {
        if (k == key || is_dropped[k]) continue;
        if (expr_equal(node->keys[k], node->keys[key])) return true;
        if (node->keys[k]->kind == EXPR_COLUMN) columns_add(keys->plan->arena, &others, node->keys[k]->column);
    }
    others = closure(keys, &others);
    return expr_uses_only(node->keys[key], &others);
}

// Texts first: they are the widest keys.  Gives how many go.
static int find_dropped(const KeysRewrite *keys, const Node *node, bool *is_dropped)
{
    int n_dropped = 0;
    for (int round = 0; round < 2; round++)
        for (int k = node->n_keys - 1; k >= 0; k--) {
            const bool is_text = node->keys[k]->type.kind == TYPE_TEXT;
            if (is_dropped[k] || is_text != (round == 0) || n_dropped == node->n_keys - 1) continue;
            is_dropped[k] = is_determined(keys, node, is_dropped, k);
            n_dropped += is_dropped[k];
        }
    return n_dropped;
}

static Expr *kept_key(const KeysRewrite *keys, const Node *node, const bool *is_dropped, const Expr *expr)
{
    for (int k = 0; k < node->n_keys; k++)
        if (!is_dropped[k] && expr_equal(node->keys[k], expr)) return plan_column_expr(keys->plan, node->out[k], -1);
    return NULL;
}

// What stands for a key that goes: a constant, or a key that stays and is equal; NULL: neither.  Floats that are equal
// may be 0 and -0, and equal decimals and integers of another type would need a cast.
static Expr *stand_in(const KeysRewrite *keys, const Node *node, const bool *is_dropped, Expr *key)
{
    if (expr_is_const(key) || key->is_given) return key;
    Expr *instead = kept_key(keys, node, is_dropped, key);
    for (int e = 0; e < keys->n_equalities && !instead; e++) {
        Expr *equal = keys->equalities[e].expr;
        if (key->kind != EXPR_COLUMN || keys->equalities[e].column != key->column) continue;
        if (!type_equal(equal->type, key->type) || type_is_float(key->type)) continue;
        instead = expr_is_const(equal) || equal->is_given ? equal : kept_key(keys, node, is_dropped, equal);
    }
    return instead;
}

static void drop_keys(const KeysRewrite *keys, Node **slot, const bool *is_dropped)
{
    Node  *node = *slot;
    Plan  *plan = keys->plan;
    int    n_keys = 0, n_aggs = node->n_aggs;
    Expr **kept = arena_array(plan->arena, Expr *, node->n_keys + 1),
         **exprs = arena_array(plan->arena, Expr *, node->n_out + 1);
    Agg   *aggs = arena_array(plan->arena, Agg, node->n_out + 1);
    int *key_columns = arena_array(plan->arena, int, node->n_out + 1),
        *agg_columns = arena_array(plan->arena, int, node->n_out + 1);
    for (int a = 0; a < node->n_aggs; a++) aggs[a] = node->aggs[a], agg_columns[a] = node->out[node->n_keys + a];
    for (int c = 0; c < node->n_out; c++) exprs[c] = plan_column_expr(plan, node->out[c], -1);
    for (int k = 0; k < node->n_keys; k++) {
        Expr *instead = is_dropped[k] ? stand_in(keys, node, is_dropped, node->keys[k]) : NULL;
        if (!is_dropped[k]) {
            key_columns[n_keys] = node->out[k];
            kept[n_keys++] = node->keys[k];
        } else if (instead) {
            exprs[k] = instead;
        } else {
            aggs[n_aggs] =
                (Agg){ .kind = AGG_ANY, .arg = node->keys[k], .type = node->keys[k]->type, .at = node->keys[k]->at };
            agg_columns[n_aggs++] = node->out[k];
        }
    }
    Node *groups = plan_aggregate(plan, node->inputs[0], kept, key_columns, n_keys, aggs, agg_columns, n_aggs);
    *slot = plan_project(plan, groups, exprs, node->out, node->n_out);
}

static weft_status rewrite_node(void *context, Node **slot)
{
    KeysRewrite *keys = context;
    Node        *node = *slot;
    if (node->kind != NODE_AGGREGATE || node->n_keys < 2) return WEFT_OK;
    bool *is_dropped = arena_array(keys->plan->arena, bool, node->n_keys);
    keys->facts = NULL, keys->n_facts = 0, keys->equalities = NULL, keys->n_equalities = 0;
    add_facts(keys, node->inputs[0], true);
    if (find_dropped(keys, node, is_dropped)) drop_keys(keys, slot, is_dropped);
    return WEFT_OK;
}

weft_status rewrite_drop_keys(Plan *plan, Node **root, Error *err)
{
    KeysRewrite keys = { .plan = plan, .err = err };
    return tree_visit(root, rewrite_node, &keys);
}
