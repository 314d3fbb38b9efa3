// choose_int.h - a choice while it is made, as the files that make it see it.

#ifndef WEFT_CHOOSE_INT_H
#define WEFT_CHOOSE_INT_H

#include "share/choose.h"

typedef struct Choosing {
    Arena            *arena;
    ShareKept        *kept;
    const ShareWays  *ways;
    const ShareRider *riders;
    int               n_riders;
    bool             *is_taken;        // in a unit
    bool             *awaits;          // its body pays, but has no code yet: not worth compiling something else for
    bool             *was_fused;       // it was to be, but there is no code yet
    bool              left_to_sieve;   // what could be fused was expected to be better off in one
    int               n_sieved;        // that suit a sieve and are in no unit
    int               n_made[SHARE_WAYS];
    int               n_units;
    ShareUnit        *units;           // room for as many as there are riders
} Choosing;

static inline bool suits(const Choosing *choosing, int rider, ShareWay way)
{
    return choosing->riders[rider].ways & SHARE_BIT(way);
}

// Whether there may be another unit of this way.
static inline bool has_units_left(const Choosing *choosing, ShareWay way)
{
    const ShareLimits *limits = &choosing->ways->limits[way];
    return limits->most > 0 && (!limits->units || choosing->n_made[way] < limits->units);
}

// Asks the device for something that serves these riders, numbers in LIST.  If it is done, they are a unit, in this
// order, less those that a sieve left out.
ShareMade choosing_make(Choosing *choosing, ShareWay way, const int *list, int n, int number, double gain,
                        bool is_alike);
// What ASK gave is a unit; its riders are numbers in LIST.
void choosing_add(Choosing *choosing, const ShareAsk *ask, const int *list);
// The members of LIST, as the cost model and the device want them.
const ShareFacts **choosing_facts(const Choosing *choosing, const int *list, int n);           // to be freed
const ShareRider **choosing_riders(const Choosing *choosing, const int *list, int n);          // to be freed

// Expected gain of a sieve of these.
double choosing_sieve_gain(const Choosing *choosing, const int *list, int n);

void choose_bodies(Choosing *choosing);                     // bodies.c
// fusing.c.  BEATS_SIEVE: only those that are expected to save more than a sieve would.
void choose_fused(Choosing *choosing, bool beats_sieve);

#endif
