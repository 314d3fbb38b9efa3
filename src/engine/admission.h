// admission.h - memory is admitted, not hoped for: which queries run now, which wait, and in which order.
//
//     Claim *claim = admission_ask(admission, &wish);      // its place in the queue; it may run already
//     status = claim_wait(claim, err);                     // returns when it may run, or was cancelled while it waited
//     ... allocate from claim_budget(claim) ...
//     claim_made(claim, part, ...);                        // facts take the place of the estimate
//     claim_leave(claim);                                  // always, once its memory is free again; others may run now
//
// A query says what it expects to need, in parts: a join table each, the groups or rows, the result.  It may run when
// that fits beside what is in use and what those who run have still to take.  Rules:
//
// - Order: a larger priority first, then who came first.  One that does not fit may be passed by later ones that do,
//   but only PASSES_MOST times; then it goes before all others, and only small ones pass it any more.
// - A small one (SMALL_PART of the limit) does not wait for what others are only expected to take: it is let in when
//   it fits into what is really free, as long as small ones together need no more than SMALL_SHARE of the limit.  So a
//   look at a dimension table is not stuck behind large queries.  One that was passed by SMALL_PASSES_MOST of them is
//   passed by nobody any more: nobody starves.
// - When nothing runs, the first may run whatever it needs: nothing is refused for its estimate.  One that needs more
//   than there is therefore runs alone, until its parts turn out small enough.
// - A part has a key when queries share it (pieces.h).  It counts for one of those who run with that key, the others
//   get it free.
// - An alone wish runs when nothing else does, and nothing else is let in beside it: the second try of a query that met
//   the limit.
// - A look (a query over nothing but weft_ tables) runs at once, with a small allowance beside the limit: one must be
//   able to see a full house.
// - Looking through a long queue takes a fifth of the time at most, so memory that comes free may be given a little
//   later.  The first of the queue and a newcomer learn their places at once, the others within some 20 ms.
//
// Queries cannot deadlock: they wait here before they hold anything that others wait for, and never again while they
// run.  Estimates only decide who runs when; the limit itself is kept by the budget.  A claim's budget may be
// counted in after the query left (tables that others still use, the result): claims are kept until it is 0, and
// then used again. Any thread may call.

#ifndef WEFT_ADMISSION_H
#define WEFT_ADMISSION_H

#include "base/base.h"

#define PASSES_MOST       32
#define SMALL_PASSES_MOST 1024
#define SMALL_PART        128          // of the limit, as a divisor
#define SMALL_SHARE       16

typedef struct Admission Admission;
typedef struct Claim Claim;

typedef struct Part { u64 key; i64 bytes; } Part;              // key 0: shared with nobody

typedef struct Wish {
    u64                query;          // number, for people
    int                priority;       // larger goes first
    bool               is_alone, is_look;
    i64                most_bytes;     // of memory; 0: as far as the limit goes
    TempSpace         *temp;           // what it wants beyond that goes there; NULL: it fails
    int                n_parts;
    const Part        *parts;          // copied
    const _Atomic u32 *stop;           // ends the wait; whoever sets it calls admission_wake
    _Atomic int       *position;       // its place in the queue is kept here, 0: it does not wait; may be NULL
} Wish;

typedef struct ClaimFigures {
    u64    query;
    int    position, priority;         // position 0: it runs
    bool   is_alone;
    i64    wanted, reserved, used, most;       // most: that it ever used
    i64    temp_bytes;                 // that ever went into temporary files
    double waited_ms;                  // until now, or until it was let in
} ClaimFigures;

Admission *admission_new(Budget *budget);                      // whose limit is to be kept; it outlives all results
void       admission_free(Admission *admission);
bool       admission_is_busy(Admission *admission);            // somebody runs
void       admission_wake(Admission *admission);               // those whose stop flag is set see it now
void admission_list(Admission *admission, Arena *arena, ClaimFigures **figures,
                    int *n_figures);  // who runs, then who waits, in order

Claim      *admission_ask(Admission *admission, const Wish *wish);
bool        claim_is_running(Claim *claim);
weft_status claim_wait(Claim *claim, Error *err);
Budget     *claim_budget(Claim *claim);
void claim_make(Claim *claim, int part);              // it makes the part after all, where another query was to
void claim_made(Claim *claim, int part, bool stays);  // the part is there; STAYS: whoever comes later can have it
bool        claim_had_company(Claim *claim);                   // another query ran at some time while this one did
ClaimFigures claim_figures(Claim *claim);
void        claim_leave(Claim *claim);                         // NULL is fine

#endif
