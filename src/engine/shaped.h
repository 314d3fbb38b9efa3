// shaped.h - statements of plans that were kept for the shape of their text (shape_plans.h).

#ifndef WEFT_SHAPED_H
#define WEFT_SHAPED_H

#include "engine/execute.h"

// The shape of a text that may have such a plan, in the execution's arena; NULL: it has none.
const TextShape *shaped_text(Execution *ex, const char *sql);
// The text's plan; NULL: none suits it, or *STATUS, which is an error that only tests can meet.
KeptPlan *shaped_find(Execution *ex, const char *sql, const TextShape *shape, weft_status *status);
// PLAN was made for the text, and has been rewritten: if its shape came before, one is made for the shape.
void shaped_offer(const Execution *ex, const char *sql, const TextShape *shape, const Plan *plan);

#endif
