// cost.c - estimates: how many rows, how many different values, and what a join costs.
//
// Values are taken to be spread evenly and columns to be independent.  A column's count of distinct values is that of
// its domain: a filter on another column leaves it (a tenth of the orders still refers to customers all over), a
// filter on the column itself shrinks it.  So a join keeps |L| |R| / max(d(L), d(R)) pairs per key, whatever was
// filtered before:
//
//     orders (1000 of 1,500,000), customer (30,000 of 150,000): 1000 * 30,000 / 150,000 = 200
//
// Keys that come together (partkey, suppkey) have at most as many values as the smaller side has rows without its
// filters.
//
// The cost of a join, in units of about a nanosecond of one core:
//   - each row of the probe side looks up, each row of the build side is stored, each row that comes out is carried on;
//   - a build pays more per row than a probe: it writes, it takes memory, and the next pipeline waits for it;
//   - tables that do not fit a cache cost more on both sides;
//   - a table in which a key occurs once is an array or a hash table without chains, and a probe of it gives one row at
//     most; where keys repeat, both sides pay double;
//   - what is left of the largest table should not become a table itself unless that saves much: how little is left is
//     a guess that grows worse with the rows it is made from, and queries share a scan best that ends in their
//     answers.  So a build whose stream reads a larger table than the probe side's pays for each row it reads.

#include "plan/rewrite.h"

#include <math.h>

#define THIRD (1.0 / 3)

// ---- distinct values ------------------------------------------------------------------------------------------------

static double width_of(Range range)
{
    if (!range.known || range.low > range.high) return INFINITY;
    return (double)range.high - (double)range.low + 1;
}

double plan_distinct_of(const Plan *plan, const Expr *expr)
{
    double product = 1;
    switch (expr->kind) {
        case EXPR_CONST: case EXPR_PARAM: return 1;
        case EXPR_COLUMN: return fmax(1, plan->columns[expr->column].n_distinct);
        default: break;
    }
    if (expr->type.kind == TYPE_BOOLEAN) return 2;
    if (expr->kind == EXPR_CASE) {
        product = plan_distinct_of(plan, expr->args[expr->n_args - 1]);
        for (int i = 1; i < expr->n_args; i += 2) product += plan_distinct_of(plan, expr->args[i]);
    } else {
        for (int i = 0; i < expr->n_args; i++) product *= plan_distinct_of(plan, expr->args[i]);
    }
    return fmax(1, fmin(product, expr->type.kind == TYPE_TEXT ? product : width_of(plan_range(plan, expr))));
}

double estimate_groups(const Plan *plan, Expr *const *keys, int n_keys, double rows)
{
    double product = 1;
    for (int k = 0; k < n_keys; k++) product *= plan_distinct_of(plan, keys[k]);
    return n_keys ? fmin(rows, product) : 1;
}

// ---- filters --------------------------------------------------------------------------------------------------------

// The share of X's values that lie below the constant.
static double share_below(const Plan *plan, const Expr *x, const Value *value)
{
    const Range range = plan_range(plan, x);
    if (value->is_null || x->type.kind == TYPE_TEXT) return THIRD;
    const bool   is_float = type_is_float(x->type);
    const double low = is_float ? range.f.low : (double)range.low, high = is_float ? range.f.high : (double)range.high;
    const double at = is_float ? value->f : (double)value->i;
    if (is_float ? !range.f.known : !range.known) return THIRD;
    if (high <= low) return at >= low ? 1 : 0;
    return fmin(1, fmax(0, (at - low) / (high - low)));
}

// Sums and counts have ranges that say little: taken to fall off from their mean on, as exp(-x / mean) does.
static double share_above_mean(const Plan *plan, const Expr *x, const Value *value)
{
    const double at = type_is_float(x->type) ? value->f : (double)value->i;
    return at > 0 ? exp(-at / plan->columns[x->column].typical) : 1;
}

// The constant of a comparison; of a parameter that stands for one, a guess.
static const Value *value_side(const Plan *plan, const Expr *expr, Op *op, const Expr **x)
{
    const Expr *constant = expr_constant_side(expr, op, x);
    if (constant) return &constant->value;
    const int side = expr->args[1]->is_given ? 1 : 0;
    if (!expr->args[side]->is_given) return NULL;
    *op = side == 1 ? expr->op : op_mirrored(expr->op);
    *x = expr->args[1 - side];
    return plan->params[expr->args[side]->param].guess;
}

static double comparison_selectivity(const Plan *plan, const Expr *expr)
{
    Op           op = expr->op;
    const Expr  *x;
    const Value *constant = value_side(plan, expr, &op, &x);
    if (op == OP_EQ || op == OP_NE) {
        const double equal = 1 / fmax(plan_distinct_of(plan, expr->args[0]), plan_distinct_of(plan, expr->args[1]));
        return op == OP_EQ ? equal : 1 - equal;
    }
    if (!constant) return THIRD;
    // A range that ends where it begins still has a value: never less than one of them.
    const bool   is_total = x->kind == EXPR_COLUMN && plan->columns[x->column].typical > 0;
    const double least = 1 / plan_distinct_of(plan, x);
    const double below = is_total ? 1 - share_above_mean(plan, x, constant)
                                  : share_below(plan, x, constant);
    return fmin(1, fmax(least, op == OP_LT || op == OP_LE ? below : 1 - below));
}

static double in_selectivity(const Plan *plan, const Expr *expr)
{
    return fmin(1, (expr->n_args - 1) / plan_distinct_of(plan, expr->args[0]));
}

double plan_selectivity(const Plan *plan, const Expr *condition)
{
    if (condition->kind == EXPR_CONST) return expr_is_never(condition) ? 0 : 1;
    if (condition->kind != EXPR_CALL) return 0.5;
    switch (condition->op) {
        case OP_AND: return plan_selectivity(plan, condition->args[0]) * plan_selectivity(plan, condition->args[1]);
        case OP_OR: {
            const double a = plan_selectivity(plan, condition->args[0]), b = plan_selectivity(plan, condition->args[1]);
            return a + b - a * b;
        }
        case OP_NOT: return 1 - plan_selectivity(plan, condition->args[0]);
        case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
            return comparison_selectivity(plan, condition);
        case OP_IN: return in_selectivity(plan, condition);
        case OP_LIKE: case OP_ILIKE: return 0.1;
        case OP_IS_NULL: return plan_range(plan, condition->args[0]).nullable ? 0.05 : 0;
        case OP_IS_NOT_NULL: return plan_range(plan, condition->args[0]).nullable ? 0.95 : 1;
        default: return 0.5;
    }
}

static int only_column(const Expr *expr)                    // the one that it names; -1: none, -2: several
{
    int column = expr->kind == EXPR_COLUMN ? expr->column : -1;
    for (int i = 0; i < expr->n_args && column != -2; i++) {
        const int other = only_column(expr->args[i]);
        if (other != -1 && other != column) column = column == -1 ? other : -2;
    }
    return column;
}

double estimate_filter(Plan *plan, const Expr *condition)
{
    const double share = plan_selectivity(plan, condition);
    const int    column = only_column(condition);
    if (column >= 0) plan->columns[column].n_distinct = fmax(1, plan->columns[column].n_distinct * share);
    return share;
}

// ---- joins ----------------------------------------------------------------------------------------------------------

double base_rows(const Node *node)
{
    switch (node->kind) {
        case NODE_FILTER: case NODE_PROJECT: case NODE_SORT: return base_rows(node->inputs[0]);
        case NODE_JOIN: {
            const double left = base_rows(node->inputs[0]);
            return join_gives_right(node->join) ? fmax(left, base_rows(node->inputs[1])) : left;
        }
        default: return node->rows;
    }
}

double estimate_keys(double product, int n_keys, double rows_left, double rows_right)
{
    return n_keys < 2 ? product : fmax(1, fmin(product, fmin(rows_left, rows_right)));
}

static void count_key(Plan *plan, const Expr *key, double n_distinct)
{
    if (key->kind == EXPR_COLUMN)
        plan->columns[key->column].n_distinct = fmin(plan->columns[key->column].n_distinct, n_distinct);
}

// Pairs that match.  What both sides have in common is the smaller of the two domains.
static double matching_pairs(Plan *plan, const Node *join, bool keeps_left)
{
    double product = 1, pairs = join->inputs[0]->rows * join->inputs[1]->rows;
    for (int k = 0; k < join->n_keys; k++) {
        const double left = plan_distinct_of(plan, join->keys[k]), right = plan_distinct_of(plan, join->right_keys[k]);
        product *= fmax(left, right);
        if (!keeps_left) count_key(plan, join->keys[k], fmin(left, right));
        count_key(plan, join->right_keys[k], fmin(left, right));
    }
    if (join->n_keys)
        pairs /= estimate_keys(product, join->n_keys, base_rows(join->inputs[0]), base_rows(join->inputs[1]));
    for (int c = 0; c < join->n_conditions; c++) {
        // What an OR over both sides says of one side alone is a filter there already.
        const bool is_or = join->conditions[c]->kind == EXPR_CALL && join->conditions[c]->op == OP_OR;
        pairs *= is_or ? 0.5 : plan_selectivity(plan, join->conditions[c]);
    }
    return fmin(pairs, ROWS_ESTIMATE_MAX);
}

// The share of the left rows that find a match: of the left keys' domain, what the right side still has.
static double matching_share(const Plan *plan, const Node *join)
{
    const double rows = join->inputs[1]->rows;
    double       left = 1, right = 1;
    if (!join->n_keys) return rows >= 0.5 ? 0.9 : 0;
    for (int k = 0; k < join->n_keys; k++) {
        left *= plan_distinct_of(plan, join->keys[k]);
        right *= plan_distinct_of(plan, join->right_keys[k]);
    }
    left = estimate_keys(left, join->n_keys, base_rows(join->inputs[0]), INFINITY);
    return fmin(1, fmin(right, rows) / fmax(1, left));
}

double estimate_join(Plan *plan, const Node *join)
{
    const double left = join->inputs[0]->rows, right = join->inputs[1]->rows;
    switch (join->join) {
        case JOIN_INNER:  return matching_pairs(plan, join, false);
        case JOIN_LEFT:   return fmax(left, matching_pairs(plan, join, true));
        case JOIN_RIGHT:  return fmax(right, matching_pairs(plan, join, true));
        case JOIN_FULL:   return fmax(left, right) + fmin(left, right) / 2;
        case JOIN_SEMI:   return left * matching_share(plan, join);
        case JOIN_ANTI:   return left * fmax(0.05, 1 - matching_share(plan, join));
        default:          return left;
    }
}

#define COST_PROBE  1.0
#define COST_BUILD  4.0
#define COST_OUT    0.5
#define COST_BREAK  0.25
#define COST_REPEAT 2.0

static double cache_factor(double rows) { return rows < 2e4 ? 1 : rows < 4e5 ? 1.5 : rows < 4e6 ? 2.5 : 4; }

double cost_of_join(Side probe, Side build, double rows_out)
{
    const double repeats = build.is_unique ? 1 : COST_REPEAT;
    const double broken = build.rows_read > probe.rows_read ? COST_BREAK * build.rows_read : 0;
    return repeats * cache_factor(build.rows) * (COST_PROBE * probe.rows + COST_BUILD * build.rows) +
           COST_OUT * rows_out + broken;
}

double cost_of_stored(double rows, double n_keys) { return COST_REPEAT * COST_BUILD * cache_factor(n_keys) * rows; }

double cost_of_keys(double rows, double rows_read)
{
    return COST_BUILD * cache_factor(rows) * rows + COST_BREAK * rows_read;
}

double cost_of_probe(double rows, double n_keys, double rows_out)
{
    return COST_PROBE * cache_factor(n_keys) * rows + COST_OUT * rows_out;
}
