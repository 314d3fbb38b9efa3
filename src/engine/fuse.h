// fuse.h - queries over one table as one kernel: what they begin with, the same filters and joins, is done once.
//
// Steps that all members have (tests, filters, look-ups in join tables) are taken once, then each member's own and its
// sink follow
// (weave/fuse.c).  Members keep their own state.  Compiled in the background when they meet; until then they run as
// they would without.

#ifndef WEFT_FUSE_H
#define WEFT_FUSE_H

#include "engine/sieve.h"

#define FUSE_MEMBERS 16                // what a kernel keeps per row and per member must stay in the cache
#define FUSE_BYTES   ((u64)384 << 10)  // bytes of tiles: more leaves L2, and needs a stack of its own

typedef struct Fused Fused;            // immutable once made; counted, since open chunks use it

bool   fuse_suits(const Launch *launch);
const FuseSteps *fuse_steps(Arena *arena, const Launch *launch);  // what it has in common with others is found by these
Fused *fuse_make(const SieveMember *members, int n_members);
Fused *fuse_hold(Fused *fused);
void   fuse_release(Fused *fused);                                             // NULL is fine
bool   fuse_is_for(const Fused *fused, const SieveMember *members, int n_members);
BodyFigures fused_figures(const Fused *fused);                                // its kernel
bool   fuse_is_ready(const Fused *fused, u64 rows_left);                       // as cube_is_ready

// Rows of a chunk through all members whose gate is open; CHUNKS[m] is the chunk's number in member m's source.
void   fuse_push(const Fused *fused, const int *chunks, Gate *gates, int slot, u32 first, u32 end);

#endif
