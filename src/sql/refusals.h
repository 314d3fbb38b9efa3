// refusals.h - what Weft's SQL does not do, from the one list in refusals.def.
//
//     const Refusal *refusal = refusal_find(REFUSAL_TYPE, "json");     // NULL: PostgreSQL has no such type either
//
// The binder refuses by it, hints come from it, and so do docs/sql.md and the table in the README.

#ifndef WEFT_REFUSALS_H
#define WEFT_REFUSALS_H

#include "base/base.h"

typedef enum RefusalKind {
    REFUSAL_CHAPTER, REFUSAL_FEATURE, REFUSAL_FUNCTION, REFUSAL_TYPE, REFUSAL_OPERATOR,
    REFUSAL_ABSENT                     // nothing that SQL could ask for
} RefusalKind;

typedef struct Refusal {
    RefusalKind kind;
    const char *name;                  // of a chapter: its title
    const char *message;               // NULL: "NAME is not supported yet"
    const char *shown;                 // in the README; NULL: not there.  Of a chapter: what works
    const char *example;               // NULL: none
    const char *instead;               // the hint; NULL: none
} Refusal;

const Refusal *refusal_at(int n);                           // in the list's order; NULL past its end
const Refusal *refusal_find(RefusalKind kind, const char *name);         // NULL: it is not in the list
void           refusals_write(Text *text);                  // docs/sql.md
void           refusals_write_short(Text *text);            // the table of the README

#endif
