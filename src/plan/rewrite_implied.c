// rewrite_implied.c - what is known of a join's key is known of what it is equal to.
//
//     filter a.k < 10  joined on a.k = b.k        b.k < 10, too, before anything is built or probed
//
// In a region of inner joins (region.h) a condition on one member of a class holds for all of them.  Any other join's
// right side need not have rows that no left row can match, so a condition on the left key goes to the right side; of
// a semi join the other way round, too.  Only conditions that cannot fail travel.  That equal expressions may be
// joined directly is order.c's business, which works on classes.

#include "plan/region.h"

typedef struct Implied { Plan *plan; Error *err; } Implied;

static bool has_constant_rest(const Expr *call)
{
    for (int i = 1; i < call->n_args; i++)
        if (call->args[i]->kind != EXPR_CONST && call->args[i]->kind != EXPR_PARAM) return false;
    return true;
}

// The one column that the condition is about; -1: several, or it had better stay where it is.
static int subject_of(const Expr *condition)
{
    Op          op;
    const Expr *x = NULL;
    if (condition->kind != EXPR_CALL) return -1;
    if (condition->op == OP_IN || condition->op == OP_LIKE)
        x = has_constant_rest(condition) ? condition->args[0] : NULL;
    else if (condition->op == OP_OR) {
        const int a = subject_of(condition->args[0]), b = subject_of(condition->args[1]);
        return a == b ? a : -1;
    } else if (!expr_constant_side(condition, &op, &x) && condition->op >= OP_EQ && condition->op <= OP_GE) {
        x = condition->args[1]->kind == EXPR_PARAM   ? condition->args[0]
            : condition->args[0]->kind == EXPR_PARAM ? condition->args[1]
                                                     : NULL;
    }
    return x && x->kind == EXPR_COLUMN ? x->column : -1;
}

// Conditions with a subject that hold for every row that comes out of the node.
static void add_facts(const Implied *i, const Node *node, Conditions *facts)
{
    if (node->kind == NODE_FILTER)
        for (int c = 0; c < node->n_conditions; c++)
            if (subject_of(node->conditions[c]) >= 0)
                *LIST_PUSH(i->plan->arena, facts->items, facts->n) = node->conditions[c];
    switch (node->kind) {
        case NODE_FILTER: case NODE_PROJECT: case NODE_SORT: add_facts(i, node->inputs[0], facts); break;
        case NODE_JOIN:
            if (node->join != JOIN_RIGHT && node->join != JOIN_FULL) add_facts(i, node->inputs[0], facts);
            if (node->join == JOIN_INNER) add_facts(i, node->inputs[1], facts);
            break;
        default: break;
    }
}

// FACT about a column as a condition on EXPR, which is equal to the column.
static weft_status transfer(const Implied *i, const Expr *fact, const Expr *expr, Expr **out)
{
    Substitution substitution = { .n = i->plan->n_columns };
    substitution.map = arena_array(i->plan->arena, const Expr *, substitution.n + 1);
    substitution.map[subject_of(fact)] = expr;
    return expr_substitute(i->plan, fact, &substitution, out, i->err);
}

// Puts FACT, about SUBJECT's column, onto *SLOT, where EXPR is equal to it.
static weft_status add_fact(const Implied *i, const Expr *fact, const Expr *subject, const Expr *expr,
                            const Conditions *known, Conditions *news)
{
    Expr *condition;
    if (!type_equal(subject->type, expr->type) || expr_can_fail(expr)) return WEFT_OK;
    TRY(transfer(i, fact, expr, &condition));
    if (!conditions_has(known, condition) && !conditions_has(news, condition))
        *LIST_PUSH(i->plan->arena, news->items, news->n) = condition;
    return WEFT_OK;
}

// ---- regions --------------------------------------------------------------------------------------------------------

static weft_status spread_fact(const Implied *i, const Region *region, const Expr *fact, const Conditions *known,
                               Conditions *news)
{
    const int subject = subject_of(fact);
    for (int m = 0; m < region->n_members; m++) {
        const RegionMember *from = &region->members[m];
        if (from->expr->kind != EXPR_COLUMN || from->expr->column != subject) continue;
        for (int e = 0; e < region->n_members; e++) {
            const RegionMember *to = &region->members[e];
            if (e != m && to->group == from->group)
                TRY(add_fact(i, fact, from->expr, to->expr, &known[to->leaf], &news[to->leaf]));
        }
    }
    return WEFT_OK;
}

static weft_status spread_in_region(const Implied *i, Node **slot)
{
    Region *region = arena_make(i->plan->arena, Region);
    region->plan = i->plan, region->err = i->err;
    TRY(region_collect(region, slot));
    if (region->n_leaves < 2) return WEFT_OK;
    TRY(region_classify(region));
    Conditions *known = arena_array(i->plan->arena, Conditions, region->n_leaves),
               *news = arena_array(i->plan->arena, Conditions, region->n_leaves);
    for (int l = 0; l < region->n_leaves; l++) add_facts(i, *region->leaves[l].slot, &known[l]);
    for (int l = 0; l < region->n_leaves; l++)
        for (int f = 0; f < known[l].n; f++) TRY(spread_fact(i, region, known[l].items[f], known, news));
    for (int l = 0; l < region->n_leaves; l++)
        if (news[l].n) TRY(push_conditions(i->plan, region->leaves[l].slot, &news[l], i->err));
    return WEFT_OK;
}

// ---- other joins ----------------------------------------------------------------------------------------------------

static weft_status spread_to_side(const Implied *i, Node *join, int from)
{
    Conditions facts = { 0 }, known = { 0 }, news = { 0 };
    add_facts(i, join->inputs[from], &facts);
    if (!facts.n) return WEFT_OK;
    add_facts(i, join->inputs[1 - from], &known);
    for (int k = 0; k < join->n_keys; k++) {
        const Expr *subject = from ? join->right_keys[k] : join->keys[k],
                   *expr = from ? join->keys[k] : join->right_keys[k];
        for (int f = 0; f < facts.n && subject->kind == EXPR_COLUMN; f++)
            if (subject_of(facts.items[f]) == subject->column)
                TRY(add_fact(i, facts.items[f], subject, expr, &known, &news));
    }
    return news.n ? push_conditions(i->plan, &join->inputs[1 - from], &news, i->err) : WEFT_OK;
}

static weft_status spread(const Implied *i, Node **slot, bool is_in_region)
{
    Node      *node = *slot;
    const bool starts = region_starts(node);
    if (starts && !is_in_region) TRY(spread_in_region(i, slot));
    if (node->kind == NODE_JOIN && node->join != JOIN_INNER && node->join != JOIN_RIGHT && node->join != JOIN_FULL) {
        TRY(spread_to_side(i, node, 0));
        if (node->join == JOIN_SEMI) TRY(spread_to_side(i, node, 1));
    }
    for (int n = 0; n < node->n_inputs; n++)
        TRY(spread(i, &node->inputs[n], starts && (n == 0 || node->join == JOIN_INNER)));
    return WEFT_OK;
}

weft_status rewrite_implied(Plan *plan, Node **root, Error *err)
{
    const Implied i = { plan, err };
    return spread(&i, root, false);
}
