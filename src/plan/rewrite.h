// rewrite.h - what the rewrites of a tree share: walks, small trees made of trees, facts about conditions.
//
// A rewrite changes nodes in place.  Three things always hold between rewrites:
//   - a node has one parent, and a column is made by one node;
//   - a node's out lists what it gives in an order that its parent may rely on: a rewrite that would change the order
//     puts a PROJECT on top that restores it (node_in_order), and merge drops it where nobody looks at the order;
//   - expressions are never changed: a new one takes the place of the old.

#ifndef WEFT_REWRITE_H
#define WEFT_REWRITE_H

#include "plan/expr_int.h"

// ---- walks (walk.c) -------------------------------------------------------------------------------------------------

// Every expression of the node itself, by the place that holds it.
typedef weft_status VisitExpr(void *context, Expr **expr);
weft_status node_visit_exprs(Node *node, VisitExpr *visit, void *context);

// Every node of the tree, inputs first, by the place that holds it.  A reference is a leaf.
typedef weft_status VisitNode(void *context, Node **node);
weft_status tree_visit(Node **root, VisitNode *visit, void *context);

// Every tree of the plan: shared subplans in order, then the parameters' subplans, then the root.
weft_status plan_visit_trees(Plan *plan, VisitNode *visit, void *context);

// ---- small trees ----------------------------------------------------------------------------------------------------

// Whether these columns come out, in this order; and NODE, or a PROJECT over it, of which that is true.
bool  node_is_in_order(const Node *node, const int *columns, int n_columns);
Node *node_in_order(Plan *plan, Node *node, const int *columns, int n_columns);
Node *node_empty(Plan *plan, const Node *node);             // no rows, the same columns
void node_settle_out(Plan *plan, Node *node);  // out of filter, sort, limit and join anew, from the inputs'
bool  join_gives_right(JoinKind kind);                      // the right side's columns are among its out
int   plan_copy_column(Plan *plan, int column);             // a fresh one of the same type and name; gives its id

// A copy of the tree with fresh columns.  MAP comes from plan_new_map and gets the new ids, by old id; -1: none.
weft_status plan_clone(Plan *plan, const Node *node, int *map, Node **copy, Error *err);
int        *plan_new_map(Plan *plan);
// Scans with filters and projects: to compute it twice costs less than to keep its rows.
bool        tree_is_cheap(const Node *node);

// The list of shared subplans anew: those in use, each after those that it uses, with n_uses.
weft_status plan_order_shared(Plan *plan);

// ---- conditions -----------------------------------------------------------------------------------------------------

typedef struct Conditions {
    int    n;
    Expr **items;                                           // grows by LIST_PUSH
} Conditions;

void conditions_add(Plan *plan, Conditions *list, Expr *condition);                      // split at its ANDs
void conditions_add_all(Plan *plan, Conditions *list, Expr *const *items, int n_items);
bool conditions_has(const Conditions *list, const Expr *condition);

// OP of two; where one is NULL, the other alone.
weft_status expr_both(Plan *plan, Op op, Expr *a, Expr *b, Expr **out, Error *err);
weft_status expr_equals(Plan *plan, Expr *a, Expr *b, Expr **out, Error *err);
bool        expr_has_no_column(const Expr *expr);
// Of x < 5 and of 5 > x: 5, with *OP < and *OTHER x.  NULL: neither side is constant, or it is no comparison.
Op          op_mirrored(Op comparison);                     // > of <
const Expr *expr_constant_side(const Expr *comparison, Op *op, const Expr **other);

// Puts expressions in the place of columns: MAP[column], NULL: the column stays.  MAP has N entries.
typedef struct Substitution {
    const Expr **map;
    int          n;
} Substitution;

weft_status  expr_substitute(Plan *plan, const Expr *expr, const Substitution *substitution, Expr **out, Error *err);
// Whether BELOW's expressions may be put into ABOVE's: what comes of it is neither too deep nor too large.
bool         exprs_fit(const Node *above, const Node *below);
Substitution substitution_of(Plan *plan, const Node *node);              // of PROJECT's columns, of AGGREGATE's keys

// Columns whose NULL makes the expression NULL (strict), or the condition anything but true (rejected).
void columns_strict(Arena *arena, const Expr *expr, ColumnSet *set);
void columns_rejected(Arena *arena, const Expr *condition, ColumnSet *set);

// Puts the conditions as far down as they go (rewrite_push.c).
weft_status push_conditions(Plan *plan, Node **node, const Conditions *conditions, Error *err);

// ---- facts ----------------------------------------------------------------------------------------------------------

// Proved: no two rows agree in all of the columns; the same by the statistics of a table's chunks.
bool node_is_unique(const Plan *plan, const Node *node, const ColumnSet *columns);
bool table_column_is_unique(const Table *table, int column);

// ---- estimates (cost.c) ---------------------------------------------------------------------------------------------

double estimate_filter(Plan *plan, const Expr *condition);  // share of rows; counts its column's values anew
double estimate_join(Plan *plan, const Node *join);                      // rows; counts its keys' values anew
double estimate_groups(const Plan *plan, Expr *const *keys, int n_keys, double rows);
double estimate_keys(double product, int n_keys, double rows_left, double rows_right);   // values of all keys together
#define ROWS_ESTIMATE_MAX 1e30                               // estimates stay numbers that can be multiplied
double base_rows(const Node *node);                                      // rows as if there were no filters

typedef struct Side {
    double rows;                                            // that come
    double rows_read;                                       // of the table that streams
    bool   is_unique;                                       // by the join's keys
} Side;

double cost_of_join(Side probe, Side build, double rows_out);            // without the cost of its inputs
double cost_of_stored(double rows, double n_keys);          // rows that go into a table by a key, or into groups
double cost_of_keys(double rows, double rows_read);         // a table of the keys of ROWS, found among ROWS_READ
double cost_of_probe(double rows, double n_keys, double rows_out);       // of a table of so many keys

// ---- the rewrites ---------------------------------------------------------------------------------------------------

weft_status rewrite_remove_correlation(Plan *plan, Error *err);
weft_status rewrite_inline_shared(Plan *plan, Error *err);
weft_status rewrite_drop_names(Plan *plan, Error *err);
weft_status rewrite_fold(Plan *plan, Node **root, Error *err);
weft_status rewrite_window_args(Plan *plan, Node **root, Error *err);
weft_status rewrite_factor_or(Plan *plan, Node **root, Error *err);
weft_status rewrite_outer_to_inner(Plan *plan, Node **root, Error *err);
weft_status rewrite_full_joins(Plan *plan, Node **root, Error *err);
weft_status rewrite_pull_projects(Plan *plan, Node **root, Error *err);
weft_status rewrite_push_filters(Plan *plan, Node **root, Error *err);
weft_status rewrite_implied(Plan *plan, Node **root, Error *err);
weft_status rewrite_sets(Plan *plan, Node **root, Error *err);
weft_status rewrite_distinct_aggs(Plan *plan, Node **root, Error *err);
weft_status rewrite_drop_keys(Plan *plan, Node **root, Error *err);
weft_status rewrite_group_early(Plan *plan, Node **root, Error *err);
weft_status rewrite_order_joins(Plan *plan, Node **root, Error *err);
weft_status rewrite_reduce(Plan *plan, Node **root, Error *err);
weft_status rewrite_prune(Plan *plan, Error *err);
weft_status rewrite_merge(Plan *plan, Error *err);
weft_status rewrite_pairs(Plan *plan, Node **root, Error *err);
weft_status rewrite_host(Plan *plan, Node **root, Error *err);

#endif
