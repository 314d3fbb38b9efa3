// correlation.h - what the files that remove correlation share.
//
// A join is dependent where its right side names columns of its left side: for each left row the right side is computed
// with that row's values, and what comes out is joined to the row.  A front end makes one of a correlated subquery, and
// of LATERAL.  Nothing can run it, so rewrite_remove_correlation turns it into joins and groups first.

#ifndef WEFT_CORRELATION_H
#define WEFT_CORRELATION_H

#include "plan/rewrite.h"

// The columns of a dependent join's left side that its right side names.
typedef struct OuterColumns {
    Plan     *plan;
    Error    *err;
    Node     *join;                    // the dependent join
    ColumnSet set;
    int       n;
    int      *columns;                 // those of the set, in order
    bool     *is_nullable;
    bool      needs_domain;            // values that do not occur could raise an error
    Shared   *domain;                  // their distinct values; NULL: not needed so far
} OuterColumns;

// A column that has the value of an outer one, in a tree that names the outer one no longer.
typedef struct StandIn { int column; bool never_null; } StandIn;

bool        tree_refers_to(const OuterColumns *outer, const Node *node);
bool        exprs_refer_to(const OuterColumns *outer, Expr *const *exprs, int n_exprs);
// Puts the stand-ins, N of them, in the place of the outer columns, in all of the tree.
weft_status tree_use_stand_ins(const OuterColumns *outer, Node *node, const StandIn *stand_ins);
weft_status exprs_use_stand_ins(const OuterColumns *outer, Expr **exprs, int n_exprs, const StandIn *stand_ins);

// correlation_pull.c: conditions of the right side that name outer columns become conditions of the join, where that
// is all of the correlation; *DONE says so.  *SLOT is the join's place: a PROJECT may come to stand above it.
weft_status pull_correlation(OuterColumns *outer, Node **slot, bool *done);

// correlation_push.c: a tree that does not name the outer columns and gives stand-ins for them, beside what it gave.
weft_status push_domain(OuterColumns *outer, Node **slot, StandIn *stand_ins);
// The same below an aggregate without keys, which gets the stand-ins as its keys: a group that has no rows is missing.
weft_status push_domain_below_total(OuterColumns *outer, Node *total, StandIn *stand_ins);
// A = the stand-in, both NULL included where A can be NULL.
weft_status add_equality(const OuterColumns *outer, Conditions *list, Expr *a, bool is_nullable, StandIn stand_in);
// The aggregate's counts under fresh ids; EXPRS gets what they are above a join that may lack the group, by place in
// out: the column, or coalesce(count, 0).
weft_status rename_counts(const OuterColumns *outer, Node *total, Expr **exprs);

#endif
