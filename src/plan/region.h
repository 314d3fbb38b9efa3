// region.h - a part of the tree in which joins may be taken in any order: inner joins, and what rides on their leaves.
//
//     inner                          leaves a (with semi d riding on it), b, c
//       semi on a.x = d.x            conditions a.k = b.k, b.m = c.m
//         inner                      classes {a.k, b.k}, {b.m, c.m}: expressions that are equal in every row
//           a
//           b
//         d
//       c
//
// A semi or anti join rides on the leaf whose columns it names: it only drops rows; a heavy one may be taken to the top
// (order.c).  A left, single or mark join only
// adds columns: where no condition of the region names them, it is taken out and put back on top (a LEFT that is below
// could multiply rows early, a SINGLE could fail on rows that another join drops).

#ifndef WEFT_REGION_H
#define WEFT_REGION_H

#include "plan/rewrite.h"

#define REGION_LEAVES 64                                    // a bit each

typedef struct RegionLeaf {
    Node    **slot;                    // where it hangs in the tree
    ColumnSet columns;
    Node    **riders;                  // semi and anti joins, the lowest first
    int       n_riders;
    int       n_heavy;                 // so many of them, the first ones, wait until the joins are ordered
    double    rows, base;              // estimates: as it is, and as if it had no filters
} RegionLeaf;

typedef struct RegionMember {
    Expr  *expr;
    int    leaf, group;                // group: the number of its class
    double n_distinct;
    bool   is_unique;                  // about one row of the leaf for each value, before filters
} RegionMember;

typedef struct RegionClass { int first, end; u64 leaves; } RegionClass;       // its members, one after the other

typedef struct RegionCondition {       // one that is no equality between two leaves
    Expr  *expr;
    u64    leaves;
    Expr  *left, *right;               // an equality, whose sides name disjoint leaves; NULL: it is none
    u64    left_leaves, right_leaves;
    double selectivity;
} RegionCondition;

typedef struct Region {
    Plan            *plan;
    Error           *err;
    int              n_leaves;
    RegionLeaf       leaves[REGION_LEAVES];
    Conditions       pool;             // conditions of all its joins
    int              n_tops;
    Node           **tops;             // left, single and mark joins that go back on top; the highest first
    int              n_late;
    Node           **late;             // riders that go above the joins, the lowest first
    int              n_members;        // by class
    RegionMember    *members;
    int              n_classes;
    RegionClass     *classes;
    int              n_conditions;
    RegionCondition *conditions;
} Region;

// Whether a region starts at this node: an inner, semi or anti join.
bool        region_starts(const Node *node);
// Leaves, riders and conditions of the region at *SLOT.  Nothing in the tree is changed.
weft_status region_collect(Region *region, Node **slot);
// Classes and the other conditions, from what was collected.
weft_status region_classify(Region *region);
// The leaf that gives all of the columns; -1: none does.
int         region_leaf_of(const Region *region, const Expr *expr);

#endif
