// shape_plans.h - plans of the shapes of texts that came last, with parameters for the literals that are compared.
//
//     if (!shape_plans_find(plans, store, &shape, home, &found)) ... bind and rewrite ...
//     if (shape_plans_wants(plans, &shape, false)) ... make one, shape_plans_add(...) ...
//
// A plan is good for the snapshots that it was made from, as plans of texts are (plans.h).  A statement that changes a
// table calls shape_plans_forget.  A kept plan is only read, so many queries may be made of it at the same time.

#ifndef WEFT_SHAPE_PLANS_H
#define WEFT_SHAPE_PLANS_H

#include "sql/sql.h"

typedef struct ShapePlans ShapePlans;

typedef struct ShapeCounts { u64 n_found, n_missed; int n_kept; } ShapeCounts;

typedef struct ShapeFound {            // a statement of its own for the text, in the arena that was handed in
    Statement          *statement;
    const Table *const *tables;        // held as long
    int                 n_tables;
    const Plan         *of;            // the plan with parameters
} ShapeFound;

ShapePlans *shape_plans_new(void);
void        shape_plans_free(ShapePlans *plans);
// HOME then holds the plan that the statement was made of.
bool        shape_plans_find(ShapePlans *plans, Store *store, const TextShape *shape, Arena *home, ShapeFound *found);
// Called for a text that was planned: whether it pays to make a plan for its shape, which came before.  IS_EAGER: it
// need not have come.
bool        shape_plans_wants(ShapePlans *plans, const TextShape *shape, bool is_eager);
void        shape_plans_discourage(ShapePlans *plans, const TextShape *shape);       // none could be made
// Takes over ARENA, in which STATEMENT lies, bound with HOLES from SHAPE's text, and rewritten, and which holds TABLES.
// EXPECTED is the same text's plan with constants.  Kept is what gives the same plan for this text.
void        shape_plans_add(ShapePlans *plans, const TextShape *shape, Arena *arena, const Statement *statement,
                            const TextHoles *holes, const Plan *expected, const Table *const *tables, int n_tables);
void        shape_plans_forget(ShapePlans *plans);
ShapeCounts shape_plans_counts(ShapePlans *plans);

#endif
