// having.h - a condition on groups as a range of one aggregate.
//
//     sum(quantity) > 300.00             the cell of the sum is in [30001, ...]
//
// The interpreter takes some 40 ns for a group, a look at its cell 2 (TPC-H Q18, SF 1).

#ifndef WEFT_HAVING_H
#define WEFT_HAVING_H

#include "plan/plan.h"

// What holds: numbers from LOW to HIGH (none where LOW > HIGH), or all others.
typedef struct CellRange { i64 low, high; bool is_outside; } CellRange;

// The column that CONDITION compares with a constant and needs nothing else; -1: there is no such column.
int  having_column(const Expr *condition);
// RANGE says for which values of 64 bits CONDITION is true, which has such a column, of TYPE.  False: it fails for some
// of them, or the values of TYPE are no numbers in order.
bool having_range(const Expr *condition, Type type, CellRange *range);

static inline bool range_has(const CellRange *range, i64 number)
{
    return ((number >= range->low) & (number <= range->high)) != range->is_outside;
}

#endif
