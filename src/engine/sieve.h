// sieve.h - many queries look at a row at once: which of them does it matter to?
//
// Every rider of a scan has sieves: ranges and join tables over stored columns.  For each such column a table says,
// value by
// value, which riders it passes, one bit per rider (as in CJOIN and SharedDB).  A row's bit set is the AND over the
// columns; each
// rider is then handed the list of its rows and runs its own kernel over them.  So a row is looked at once per column
// instead of once
// per query and column, and a query more costs little more than the rows that match it.
//
// A set is made for a set of riders when a chunk is opened, and used for all later chunks until the set changes.

#ifndef WEFT_SIEVE_H
#define WEFT_SIEVE_H

#include "device/device.h"
#include "share/cost.h"

#define SIEVE_MEMBERS 64
#define WORTH_COMPILING_MS \
    20.0  // a kernel for several queries takes cc about 80 ms of one core; it is kept, and such queries come again

typedef struct SieveSet SieveSet;      // immutable once made; counted, since open chunks use it

typedef struct SieveMember {
    Device *device;
    Launch *launch;                    // alive while a chunk it wants is open
    u64     ride;                      // its number: tells members apart when they are gone
    const ShareFacts *facts;           // what the cost model knows of it
    const FuseSteps *steps;            // see fuse.h; NULL: it cannot be fused
    const CubeForm  *form;             // see join_cube.h; NULL: it is for no cube over joins
} SieveMember;

// Whether sieving pays for this launch at all.
bool      sieve_suits(const Launch *launch, const ShareFacts *facts);
// A byte per value LOW, LOW + 1, ... of the table's column: 1 where it passes all of the launch's sieves there.
void      sieve_values(const Launch *launch, int column, i64 low, u64 size, u8 *pass);
bool sieve_is_usable(const Launch *launch,
                     const Sieve *sieve);  // over a range of values that is known and not too wide
// BEFORE, or NULL: the set of the chunk before; what it worked out for members that are in both is taken over.
SieveSet *sieve_make(Budget *budget, const SieveSet *before, const SieveMember *members,
                     int n_members);  // NULL: no memory; then unsieved
SieveSet *sieve_hold(SieveSet *set);
void      sieve_release(SieveSet *set);                                                      // NULL is fine
bool      sieve_is_for(const SieveSet *set, const SieveMember *members, int n_members);      // made for exactly these

// A rider that is stopped leaves an open chunk at once: it shuts its gate and waits until nobody is inside.
typedef struct Gate { _Atomic u32 n_inside; _Atomic bool is_shut; } Gate;

static inline bool gate_enter(Gate *gate)                              // false: its rider may be gone
{
    atomic_fetch_add(&gate->n_inside, 1);
    if (!atomic_load(&gate->is_shut)) return true;
    atomic_fetch_sub(&gate->n_inside, 1);
    return false;
}

static inline void gate_leave(Gate *gate) { atomic_fetch_sub(&gate->n_inside, 1); }

// Rows FIRST .. END of the chunk (at most 65,536) through all members whose gate is open; CHUNKS[m] is the chunk's
// number in
// member m's source.  SCRATCH: sieve_scratch_bytes() of memory that is the calling thread's.
void sieve_push(const SieveSet *set, const Chunk *chunk, const int *chunks, Gate *gates, int slot, u32 first, u32 end,
                void *scratch);
size_t    sieve_scratch_bytes(u32 n_rows);

#endif
