// aggregates.h - the aggregates of SQL: one descriptor each.
//
// A few are computed as they are (AggKind).  All others are built from these: an expression above them, so that neither
// kernels nor devices know more of stddev than its sums and its count.

#ifndef WEFT_AGGREGATES_H
#define WEFT_AGGREGATES_H

#include "plan/plan.h"

// Adds an aggregate to the query at hand; *OUT names its column.
typedef struct AggBuilder {
    Arena        *arena;
    int           at;                  // where the call stands in the text
    Error        *err;
    weft_status (*add)(void *context, AggKind kind, Expr *arg, Expr **out);
    void         *context;
} AggBuilder;

typedef struct Aggregate {
    const char   *names[3];            // the first one is for people
    const char   *usage, *gives, *about;                    // for the manual: arguments, type of the result, meaning
    bool        (*takes)(Type type);   // what the argument may be
    AggKind       kind;                // what computes it, and
    Type        (*type)(Type type);    // the result's type of an argument's; or
    weft_status (*build)(const AggBuilder *builder, Expr *arg, Expr **out);    // how it is built, when set; or
    // how it is built of two arguments, both NULL where either of them is.
    weft_status (*build_pair)(const AggBuilder *builder, Expr *y, Expr *x, Expr **out);
    bool          ignores_repeats;     // DISTINCT changes nothing
} Aggregate;

const Aggregate *aggregate_at(int i);                       // NULL past the last
const Aggregate *aggregate_of_interval(const char *name);  // its overload for intervals; NULL: there is none
const Aggregate *aggregate_find(const char *name);          // NULL: there is none of this name
const char      *agg_name(AggKind kind);
bool             aggregate_is_built(const Aggregate *aggregate);
// Of ARGS, one or two of them.
weft_status      aggregate_build(const Aggregate *aggregate, const AggBuilder *builder, Expr *const *args, Expr **out);

// Whether it takes ARG (NULL: count(*)); NAME is the one in the text.  Then the aggregate itself, of KIND.
weft_status aggregate_check(const Aggregate *aggregate, const char *name, const Expr *arg, int at, Error *err);
Agg         aggregate_make(const Aggregate *aggregate, AggKind kind, Expr *arg, int at);

#endif
