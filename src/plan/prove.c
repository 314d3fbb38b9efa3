// prove.c - what is known of each column and node, from the leaves up.
//
// A column has one range for the whole plan, so that range must hold wherever the column is seen.  While the walk goes
// up, ranges are narrowed by filters and join keys, and what is computed above a filter (a project's column, a group
// key, an aggregate) keeps what it gained.  The narrowed column itself does not: the filter that narrows it reads it
// too, and the engine may take steps in another order.  So at the end of the walk narrowed columns get back what their
// node proved:
//
//     scan t: x in 0 .. 1000  ->  filter x < 10  ->  project y = x * x        x: 0 .. 1000 again, y: 0 .. 81
//
// NULLs that an outer join adds stay, for the column as a whole.  Nothing is taken from the value of a parameter.
// Estimates (rows, distinct values) are made on the same walk, see cost.c.

#include "plan/rewrite.h"
#include "plan/window.h"

#include <math.h>

#define ROWS_MANY ((i128)1 << 62)                           // and no more: products of two still fit

typedef struct Narrowed { int column; Range range; } Narrowed;

typedef struct Prover {
    Plan     *plan;
    int       n_narrowed;
    Narrowed *narrowed;                // what the columns' nodes proved
} Prover;

// ---- narrowing ------------------------------------------------------------------------------------------------------

static void narrow(Prover *prover, int column, Range range)
{
    Range *seen = &prover->plan->columns[column].range;
    bool   is_kept = false;
    for (int n = 0; n < prover->n_narrowed && !is_kept; n++) is_kept = prover->narrowed[n].column == column;
    if (!is_kept) *LIST_PUSH(prover->plan->arena, prover->narrowed, prover->n_narrowed) = (Narrowed){ column, *seen };
    *seen = range;
}

static void make_nullable(Prover *prover, const Node *side)
{
    for (int c = 0; c < side->n_out; c++) {
        prover->plan->columns[side->out[c]].range.nullable = true;
        for (int n = 0; n < prover->n_narrowed; n++)
            if (prover->narrowed[n].column == side->out[c]) prover->narrowed[n].range.nullable = true;
    }
}

static void end_narrowing(Prover *prover)
{
    for (int n = 0; n < prover->n_narrowed; n++)
        prover->plan->columns[prover->narrowed[n].column].range = prover->narrowed[n].range;
}

static void narrow_to(Prover *prover, int column, i128 low, i128 high)
{
    Range range = prover->plan->columns[column].range;
    if (!range.known || (low <= range.low && high >= range.high)) return;
    range.low = MAX_OF(range.low, low), range.high = MIN_OF(range.high, high);
    narrow(prover, column, range);
}

// Codes of texts say nothing across dictionaries, floats have bounds of their own.
static bool has_numbers(const Expr *expr) { return expr->type.kind != TYPE_TEXT && !type_is_float(expr->type); }

static void narrow_by_comparison(Prover *prover, const Expr *condition)
{
    Op          op;
    const Expr *x;
    const Expr *constant = expr_constant_side(condition, &op, &x);
    if (!constant || constant->value.is_null || x->kind != EXPR_COLUMN || !has_numbers(x)) return;
    const Range seen = prover->plan->columns[x->column].range;
    const i128  c = constant->value.i;
    switch (op) {
        case OP_EQ: narrow_to(prover, x->column, c, c); break;
        case OP_LT: narrow_to(prover, x->column, seen.low, c - 1); break;
        case OP_LE: narrow_to(prover, x->column, seen.low, c); break;
        case OP_GT: narrow_to(prover, x->column, c + 1, seen.high); break;
        case OP_GE: narrow_to(prover, x->column, c, seen.high); break;
        default: break;
    }
}

// Its constants are sorted, NULL last; parameters are not.
static void narrow_by_list(Prover *prover, const Expr *condition)
{
    for (int i = 1; i < condition->n_args; i++)
        if (!expr_is_const(condition->args[i])) return;
    const Expr *x = condition->args[0], *last = condition->args[condition->n_args - 1];
    if (last->value.is_null && condition->n_args > 2) last = condition->args[condition->n_args - 2];
    if (last->value.is_null || x->kind != EXPR_COLUMN || !has_numbers(x)) return;
    narrow_to(prover, x->column, condition->args[1]->value.i, last->value.i);
}

static void narrow_to_equal(Prover *prover, const Expr *a, const Expr *b)
{
    const Range x = plan_range(prover->plan, a), y = plan_range(prover->plan, b);
    if (!has_numbers(a) || !x.known || !y.known) return;
    const i128 low = MAX_OF(x.low, y.low), high = MIN_OF(x.high, y.high);
    if (a->kind == EXPR_COLUMN) narrow_to(prover, a->column, low, high);
    if (b->kind == EXPR_COLUMN) narrow_to(prover, b->column, low, high);
}

static void reject_nulls(Prover *prover, const ColumnSet *set)
{
    for (int column = columns_next(set, -1); column >= 0; column = columns_next(set, column)) {
        Range range = prover->plan->columns[column].range;
        if (!range.nullable) continue;
        range.nullable = false;
        narrow(prover, column, range);
    }
}

// The condition is true of every row from here on.
static void narrow_by(Prover *prover, const Expr *condition)
{
    ColumnSet set = { 0 };
    if (condition->kind == EXPR_CALL && condition->op == OP_AND) {
        narrow_by(prover, condition->args[0]);
        narrow_by(prover, condition->args[1]);
        return;
    }
    columns_rejected(prover->plan->arena, condition, &set);
    reject_nulls(prover, &set);
    if (condition->kind != EXPR_CALL) return;
    if (condition->op == OP_IN) narrow_by_list(prover, condition);
    else if (condition->op == OP_EQ && !expr_is_const(condition->args[0]) && !expr_is_const(condition->args[1]))
        narrow_to_equal(prover, condition->args[0], condition->args[1]);
    else narrow_by_comparison(prover, condition);
}

// ---- how many rows there can be -------------------------------------------------------------------------------------

static i128 times(i128 a, i128 b) { return a == 0 || b == 0 ? 0 : a > ROWS_MANY / b ? ROWS_MANY : a * b; }

static i128 rows_most_of_join(JoinKind kind, i128 left, i128 right)
{
    switch (kind) {
        case JOIN_INNER: return times(left, right);
        case JOIN_LEFT:  return times(left, MAX_OF(right, 1));
        case JOIN_RIGHT: return times(MAX_OF(left, 1), right);
        case JOIN_FULL:  return times(MAX_OF(left, 1), MAX_OF(right, 1)) + left + right;
        default:         return left;
    }
}

// Proved: no more rows than these come out.  References in references are followed to some depth only: each may be used
// twice by the next one.
static i128 rows_most(const Node *node, int depth)
{
    const i128 most = node->n_inputs ? rows_most(node->inputs[0], depth) : ROWS_MANY;
    switch (node->kind) {
        case NODE_SCAN:    return (i128)node->table->n_rows;
        case NODE_VALUES:  return (i128)node->n_rows;
        case NODE_REPEAT:  return ROWS_MANY;
        case NODE_SHARED:  return depth < 4 ? rows_most(node->shared->root, depth + 1) : ROWS_MANY;
        case NODE_JOIN:
            return MIN_OF(ROWS_MANY, rows_most_of_join(node->join, most, rows_most(node->inputs[1], depth)));
        case NODE_SET:
            return node->set == SET_UNION ? MIN_OF(ROWS_MANY, most + rows_most(node->inputs[1], depth)) : most;
        case NODE_LIMIT:   return node->limit >= 0 ? MIN_OF(most, (i128)node->limit) : most;
        case NODE_PROJECT: return node->copies >= 0 ? ROWS_MANY : most;
        case NODE_AGGREGATE: return node->n_keys ? most : 1;
        default:           return most;
    }
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

Range plan_range_of_stored(const Table *table, int column)
{
    const ColumnRange known = table_column_range(table, column);
    const Column     *def = &table->columns[column];
    Range             range = range_of_type(def->type);
    range.nullable = known.n_nulls > 0;
    if (type_is_float(def->type)) {
        range.f = float_range_of_bits(known.bits, known.has_range, known.fmin, known.fmax, known.has_nan);
        return range;
    }
    if (!known.has_range) return (Range){ .known = true, .nullable = range.nullable, .low = 0, .high = -1 };
    const Range words = { .known = true, .nullable = range.nullable, .low = known.min, .high = known.max };
    if (def->low && (known.min || known.max)) return range_of_words(words);
    if (def->low) {                    // every number is its low word
        const ColumnRange low = table_column_range(table, def->low);
        return (Range){ .known = true, .nullable = range.nullable, .low = low.min, .high = low.max };
    }
    if (def->type.kind == TYPE_TEXT)
        return (Range){ .known = true, .nullable = range.nullable, .low = 0, .high = (i128)def->dict_count - 1 };
    return (Range){ .known = true, .nullable = range.nullable, .low = known.min, .high = known.max };
}

// Statistics do not change while the plan lives: they are read once.
static void measure(PlanColumn *column, Range range, double n_distinct)
{
    column->is_measured = true;
    column->measured = range, column->n_measured = fmax(1, n_distinct);
}

static void use_measured(PlanColumn *column)
{
    column->range = column->measured, column->n_distinct = column->n_measured;
}

static void prove_scan(Prover *prover, Node *node)
{
    for (int c = 0; c < node->n_out; c++) {
        PlanColumn *column = &prover->plan->columns[node->out[c]];
        const int   place = node->table_columns[c];
        if (!column->is_measured)
            measure(column, plan_range_of_stored(node->table, place), table_distinct(node->table, place));
        use_measured(column);
    }
    node->rows = (double)node->table->n_rows;
}

static Range range_of_rows(const Node *node, int place, Type type)
{
    Range range = range_of_type(type);
    range = (Range){ .known = true, .low = 0, .high = -1, .f = float_range_none() };
    for (u64 row = 0; row < node->n_rows; row++)
        range = range_unite(range, range_of_value(&node->values[row * (u64)node->n_out + (u64)place]));
    return range;
}

static void prove_values(Prover *prover, Node *node)
{
    for (int c = 0; c < node->n_out; c++) {
        PlanColumn *column = &prover->plan->columns[node->out[c]];
        if (!column->is_measured) measure(column, range_of_rows(node, c, column->type), (double)node->n_rows);
        use_measured(column);
    }
    node->rows = (double)node->n_rows;
}

static void prove_reference(Prover *prover, Node *node)
{
    const Node *root = node->shared->root;
    for (int c = 0; c < node->n_out && c < root->n_out; c++) {
        const PlanColumn from = prover->plan->columns[root->out[c]];
        prover->plan->columns[node->out[c]].range = from.range;
        prover->plan->columns[node->out[c]].n_distinct = from.n_distinct;
    }
    node->rows = root->rows;
}

// ---- inner nodes ----------------------------------------------------------------------------------------------------

static void prove_filter(Prover *prover, Node *node)
{
    node->rows = node->inputs[0]->rows;
    for (int c = 0; c < node->n_conditions; c++) {
        node->rows *= estimate_filter(prover->plan, node->conditions[c]);
        narrow_by(prover, node->conditions[c]);            // so the other end of BETWEEN is judged within what is left
    }
}

static void set_column(Plan *plan, int column, Range range, double n_distinct, double rows)
{
    plan->columns[column].range = range;
    plan->columns[column].n_distinct = fmax(1, fmin(n_distinct, rows));
}

static void prove_project(Prover *prover, Node *node)
{
    Plan *plan = prover->plan;
    node->rows = node->inputs[0]->rows;
    for (int c = 0; c < node->n_out; c++) {
        const Expr *expr = node->exprs[c];
        if (expr->kind == EXPR_COLUMN && expr->column == node->out[c]) continue;
        const double n_distinct = plan_distinct_of(plan, expr);
        // A renamed column keeps the count of its domain, beyond the rows that are left.
        set_column(plan, node->out[c], plan_range(plan, expr), n_distinct,
                   expr->kind == EXPR_COLUMN ? n_distinct : node->rows);
    }
}

static void narrow_by_join(Prover *prover, const Node *node)
{
    for (int k = 0; k < node->n_keys; k++) {
        ColumnSet set = { 0 };
        columns_strict(prover->plan->arena, node->keys[k], &set);
        columns_strict(prover->plan->arena, node->right_keys[k], &set);
        reject_nulls(prover, &set);
        narrow_to_equal(prover, node->keys[k], node->right_keys[k]);
    }
    for (int c = 0; c < node->n_conditions; c++) narrow_by(prover, node->conditions[c]);
}

static void prove_join(Prover *prover, Node *node)
{
    const JoinKind kind = node->join;
    node->rows = estimate_join(prover->plan, node);
    if (kind == JOIN_INNER || kind == JOIN_SEMI) narrow_by_join(prover, node);
    if (kind == JOIN_LEFT || kind == JOIN_SINGLE || kind == JOIN_FULL) make_nullable(prover, node->inputs[1]);
    if (kind == JOIN_RIGHT || kind == JOIN_FULL) make_nullable(prover, node->inputs[0]);
    if (kind != JOIN_MARK) return;
    Range range = range_of_type(TYPE(BOOLEAN));
    range.nullable = false;
    set_column(prover->plan, node->mark, range, 2, 2);
}

// Between one and MOST values are added; each lies in ARG.
static Range range_of_sum(Range arg, Type type, i128 most)
{
    const i128 limit = (i128)1 << 63;
    Range      range = range_of_type(type);
    const bool is_small = arg.known && arg.low <= arg.high && arg.low > -limit && arg.high < limit;
    if (type_is_float(type) || !is_small || most > ((i128)1 << 60)) return range;
    const i128 low = arg.low < 0 ? arg.low * MAX_OF(most, 1) : arg.low,
               high = arg.high > 0 ? arg.high * MAX_OF(most, 1) : arg.high;
    if (range.known) return (Range){ .known = true, .low = MAX_OF(low, range.low), .high = MIN_OF(high, range.high) };
    return (Range){ .known = true, .low = low, .high = high };
}

static Range range_of_agg(const Plan *plan, const Node *node, const Agg *agg)
{
    const Range arg = agg->arg ? plan_range(plan, agg->arg) : range_of_type(agg->type);
    Range       range = range_of_type(agg->type);
    switch (agg->kind) {
        case AGG_COUNT_ALL: case AGG_COUNT:
            return (Range){ .known = true, .low = 0, .high = MIN_OF(rows_most(node->inputs[0], 0), (i128)INT64_MAX) };
        case AGG_SUM: range = range_of_sum(arg, agg->type, rows_most(node->inputs[0], 0)); break;
        case AGG_MIN: case AGG_MAX: case AGG_ANY: range = arg; break;
        default: break;
    }
    range.nullable = arg.nullable || node->n_keys == 0;
    return range;
}

static double typical_agg(const Plan *plan, const Node *node, const Agg *agg)
{
    const double per_group = node->inputs[0]->rows / fmax(1, node->rows);
    if (agg->kind == AGG_COUNT_ALL || agg->kind == AGG_COUNT) return per_group;
    if (agg->kind != AGG_SUM || type_is_float(agg->type)) return 0;
    const Range arg = plan_range(plan, agg->arg);
    return arg.known && arg.low <= arg.high ? per_group * ((double)arg.low + (double)arg.high) / 2 : 0;
}

static void prove_aggregate(Prover *prover, Node *node)
{
    Plan *plan = prover->plan;
    node->rows = estimate_groups(plan, node->keys, node->n_keys, node->inputs[0]->rows);
    for (int k = 0; k < node->n_keys; k++)
        set_column(plan, node->out[k], plan_range(plan, node->keys[k]), plan_distinct_of(plan, node->keys[k]),
                   INFINITY);
    for (int a = 0; a < node->n_aggs; a++) {
        const int column = node->out[node->n_keys + a];
        set_column(plan, column, range_of_agg(plan, node, &node->aggs[a]), node->rows, node->rows);
        plan->columns[column].typical = typical_agg(plan, node, &node->aggs[a]);
    }
}

static void prove_sort(Prover *prover, Node *node)
{
    double product = 1;
    node->rows = node->inputs[0]->rows;
    for (int k = 0; k < node->n_distinct_on; k++) product *= prover->plan->columns[node->sort[k].column].n_distinct;
    if (node->n_distinct_on) node->rows = fmin(node->rows, product * ((double)node->run_more + 1));
}

static void prove_limit(Node *node)
{
    node->rows = fmax(0, node->inputs[0]->rows - (double)node->offset);
    if (node->limit >= 0) node->rows = fmin(node->rows, (double)node->limit);
}

// Codes of texts are those of each side's dictionary: nothing is known of both together.
static Range range_of_either(Type type, Range a, Range b)
{
    Range range = range_of_type(type);
    range.nullable = a.nullable || b.nullable;
    return type.kind == TYPE_TEXT ? range : range_unite(a, b);
}

static void prove_set(Prover *prover, Node *node)
{
    Plan       *plan = prover->plan;
    const Node *left = node->inputs[0], *right = node->inputs[1];
    node->rows = node->set == SET_UNION ? left->rows + right->rows : left->rows;
    for (int c = 0; c < node->n_out; c++) {
        const PlanColumn a = plan->columns[left->out[c]], b = plan->columns[right->out[c]];
        set_column(plan, node->out[c], range_of_either(plan->columns[node->out[c]].type, a.range, b.range),
                   a.n_distinct + (node->set == SET_UNION ? b.n_distinct : 0), node->rows);
    }
}

// Nothing is proved of rows that come from rows of the same kind.  How many rounds there are is a guess.
static void prove_repeat(Prover *prover, Node *node)
{
    const double n_rounds = 10;
    Plan        *plan = prover->plan;
    node->rows = node->n_inputs ? node->inputs[0]->rows + n_rounds * node->inputs[1]->rows : node->repeat->rows;
    if (!node->n_inputs && node->repeat->inputs[0]) node->rows = node->repeat->inputs[0]->rows;
    for (int c = 0; c < node->n_out; c++) {
        Range range = range_of_type(plan->columns[node->out[c]].type);
        range.nullable = true;
        set_column(plan, node->out[c], range, node->rows, node->rows);
    }
}

static void prove(Prover *prover, Node *node)
{
    for (int i = 0; i < node->n_inputs; i++) prove(prover, node->inputs[i]);
    switch (node->kind) {
        case NODE_SCAN:      prove_scan(prover, node); break;
        case NODE_VALUES:    prove_values(prover, node); break;
        case NODE_FILTER:    prove_filter(prover, node); break;
        case NODE_PROJECT:   prove_project(prover, node); break;
        case NODE_JOIN:      prove_join(prover, node); break;
        case NODE_AGGREGATE: prove_aggregate(prover, node); break;
        case NODE_SORT:      prove_sort(prover, node); break;
        case NODE_LIMIT:     prove_limit(node); break;
        case NODE_SET:       prove_set(prover, node); break;
        case NODE_SHARED:    prove_reference(prover, node); break;
        case NODE_WINDOW:
            node->rows = node->inputs[0]->rows;
            window_prove(prover->plan, node, rows_most(node->inputs[0], 0));
            break;
        case NODE_REPEAT:    prove_repeat(prover, node); break;
    }
}

void plan_prove(Plan *plan, Node *root)
{
    Prover prover = { .plan = plan };
    prove(&prover, root);
    end_narrowing(&prover);
}

// ---- no rows --------------------------------------------------------------------------------------------------------

static bool has_never(const Node *node)
{
    for (int c = 0; c < node->n_conditions; c++)
        if (expr_is_never(node->conditions[c])) return true;
    return false;
}

static bool join_is_empty(const Plan *plan, const Node *node)
{
    const bool left = plan_is_empty(plan, node->inputs[0]);
    switch (node->join) {
        case JOIN_INNER: case JOIN_SEMI: return left || has_never(node) || plan_is_empty(plan, node->inputs[1]);
        case JOIN_RIGHT: return plan_is_empty(plan, node->inputs[1]);
        case JOIN_FULL:  return left && plan_is_empty(plan, node->inputs[1]);
        default:         return left;
    }
}

bool plan_is_empty(const Plan *plan, const Node *node)
{
    switch (node->kind) {
        case NODE_VALUES:    return node->n_rows == 0;
        case NODE_FILTER:    return has_never(node) || plan_is_empty(plan, node->inputs[0]);
        case NODE_PROJECT: case NODE_SORT: case NODE_WINDOW: return plan_is_empty(plan, node->inputs[0]);
        case NODE_JOIN:      return join_is_empty(plan, node);
        case NODE_AGGREGATE: return node->n_keys > 0 && plan_is_empty(plan, node->inputs[0]);
        case NODE_LIMIT:     return node->limit == 0 || plan_is_empty(plan, node->inputs[0]);
        case NODE_SET:
            return plan_is_empty(plan, node->inputs[0]) &&
                   (node->set != SET_UNION || plan_is_empty(plan, node->inputs[1]));
        case NODE_SHARED:    return node->shared->root->kind == NODE_VALUES && node->shared->root->n_rows == 0;
        default:             return false;
    }
}
