// plans.h - plans of the queries that came last, found again by their text.
//
//     KeptPlan *kept = plans_find(plans, store, sql);
//     if (!kept) ... bind and rewrite in an arena ..., kept = plans_keep(plans, sql, arena, statement, tables, n);
//     ... run plan_statement(kept): it is never changed, so any number of queries may run it at a time ...
//     plan_release(kept);
//
// Rewrites take proofs from statistics, so a plan is good for the very snapshots it was made from: plans_find gives it
// only while they are the tables' newest.  A kept plan holds its snapshots.  A statement that changes a table calls
// plans_forget, so that nothing old stays in memory.  A plan with parameters is not kept: a run fills them in.

#ifndef WEFT_PLANS_H
#define WEFT_PLANS_H

#include "sql/sql.h"

typedef struct Plans Plans;
typedef struct KeptPlan KeptPlan;

typedef struct PlanCounts { u64 n_found, n_missed; int n_kept; } PlanCounts;

Plans *plans_new(void);
void   plans_free(Plans *plans);

KeptPlan        *plans_find(Plans *plans, Store *store, const char *text);             // NULL: there is none
bool             plans_has(Plans *plans, Store *store, const char *text);              // the same, only looked at
// Takes over ARENA, in which the statement lies and which holds the tables.  The plan can be found from here on, if its
// text came before: most texts with constants of their own never come again, and would push out those that do.  Not if
// it is too large or another thread was sooner.
KeptPlan        *plans_keep(Plans *plans, const char *text, Arena *arena, const Statement *statement,
                            const Table *const *tables, int n_tables);
const Statement *plan_statement(const KeptPlan *kept);
void             plan_release(KeptPlan *kept);                                         // NULL is fine
void             plans_forget(Plans *plans);                                           // those not in use are freed
PlanCounts       plans_counts(Plans *plans);

#endif
