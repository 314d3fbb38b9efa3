// choose.h - which riders of a scan are served together, and how: one place that decides, for all devices.
//
//     Arena       *arena = arena_new(NULL, "choice");
//     ShareChoice  choice = share_choose(arena, &kept, &ways, riders, n_riders);
//     for (int u = 0; u < choice.n_units; u++) ... choice.units[u].way, .riders, .gain, .handle
//     arena_free(arena);                                  // handles are the device's
//     share_kept_free(&kept);                             // when the scan or the device ends
//
// A device describes its riders (ShareRider) and what it can do (ShareWays: limits, and functions that make what serves
// several).  Decided here: which riders are tried together, in which order, whether it is expected to pay (cost.h),
// what is tried when something does not fit, and when to stop trying.  A rider is in one unit exactly; one that is
// served by itself is a unit of its own.

#ifndef WEFT_CHOOSE_H
#define WEFT_CHOOSE_H

#include "share/cost.h"

typedef enum ShareWay { SHARE_ALONE, SHARE_COLUMNS, SHARE_JOINS, SHARE_FUSED, SHARE_SIEVED, SHARE_WAYS } ShareWay;

#define SHARE_BIT(way) (1u << (way))

typedef struct ShareRider {
    void             *self;            // the device's own
    u64               number;          // in this order riders of a unit come, but for fused ones
    u32               ways;            // bits of those that it suits
    u64               shape;           // riders in one body over columns have the same (share_shape),
    int               wants;           // and want the same rows: a number for each set of chunks
    int               sees;            // those in one body over joins may see the same, and have one form
    u64               text;            // of the same kernel over the same columns (share_text)
    SlotMember        member;          // form: NULL unless it suits joins
    const FuseSteps  *steps;           // NULL: of a device that shares columns only
    const ShareFacts *facts;
    double            own_ns;          // once, where it is in no body over joins: what it then needs is made first
    u64               fuse_bytes;      // of the memory that members of a fused kernel share
} ShareRider;

typedef enum ShareMade {
    SHARE_NO,                          // not for so many, perhaps for fewer
    SHARE_TOO_MANY,                    // the same, and it will be so the next time
    SHARE_LATER,                       // its code is not there yet
    SHARE_DONE
} ShareMade;

typedef struct ShareAsk {              // for something that serves several
    ShareWay                 way;
    int                      n_riders;
    const ShareRider *const *riders;
    int                      number;   // of those of this shape that were asked for before in this choice
    double                   gain;     // expected: time alone / together
    bool                     is_alike; // fused: of one text
    bool                    *took;     // a sieve may leave some out; all true at first
    void                    *handle;   // if it is done
} ShareAsk;

typedef struct ShareLimits { int least, most, units; } ShareLimits;    // riders of a unit; units in a choice; 0: any

typedef struct ShareWays {             // what a device can do
    const ShareCosts *costs;
    void             *device;          // handed to the functions
    ShareLimits       limits[SHARE_WAYS];          // least: 2 at least
    double            rows;            // of the run, about
    double            near_bytes;      // see cost_sieve
    u64               fuse_bytes;      // of all members of a fused kernel, at most
    // Fused by text: few texts, which come again.  Eight, four or two of one text; different texts get partners for
    // life, OTHERS at most.  NULL: by what members save together, whatever they are.
    const int        *fuse_sizes;      // 0 behind the last
    int               fuse_others;
    // The riders can be in one unit, given that their hashes are the same.
    bool      (*fits)(void *device, ShareWay way, const ShareRider *a, const ShareRider *b);
    ShareMade (*make)(void *device, ShareAsk *ask);
    // optional, NULL = always SHARE_DONE: riders of one shape met, whatever they can now.  SHARE_DONE: make may follow.
    ShareMade (*meet)(void *device, ShareWay way, const ShareRider *const *riders, int n_riders);
    bool      (*can)(void *device, ShareWay way, const ShareRider *rider);     // optional, NULL = true: it can now
    // optional, NULL = nothing: what the host made for the latest body over joins of this shape; *IS_ALL: it will do
    const Slots *(*made)(void *device, const ShareRider *const *riders, int n_riders, bool *is_all);
    // optional, NULL = nothing: bodies over joins that will most likely be asked for next, one by one.  What the host
    // makes for them can be made for all at once.
    void      (*prepare)(void *device, const ShareAsk *asks, int n_asks);
} ShareWays;

typedef struct ShareUnit {
    ShareWay way;
    int      n_riders;
    int     *riders;                   // numbers among the riders
    double   gain;
    bool     awaits;                   // alone, because the code of a body that would serve it is not there yet
    void    *handle;
} ShareUnit;

typedef struct ShareChoice { int n_units; ShareUnit *units; } ShareChoice;     // riders that are alone come last

typedef struct SharePartners SharePartners;

typedef struct ShareRoom {             // what was found out about a shape
    u64 shape;
    int way;
    int n_most;                        // riders that may find room in one body, as far as is known
    int n_fitted, n_refused;           // as many as did not long ago, 0: none; and that did not
    int n_passed_over;                 // times since then that there were more
} ShareRoom;

typedef struct ShareKept {             // from choice to choice; zeroed at first
    int            n_in_vain;          // choices in a row in which kernels were to be fused and none had code
    int            n_unfused;          // choices to come in which none are looked for
    int            n_rooms;
    ShareRoom     *rooms;
    SharePartners *partners;
} ShareKept;

// Identities of shapes.  Riders of different SHAPE are never one body over columns; those of one TEXT have one kernel
// over the same columns.
u64 share_text(const Woven *woven, const Source *source);
u64 share_shape(const Woven *woven, const Source *source);

ShareChoice share_choose(Arena *arena, ShareKept *kept, const ShareWays *ways, const ShareRider *riders, int n_riders);
void        share_kept_free(ShareKept *kept);

#endif
