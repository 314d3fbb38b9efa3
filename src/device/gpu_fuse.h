// gpu_fuse.h - riders of a run in one kernel.  Shared by gpu_fuse.c and gpu_scan.c; used by the dispatcher only.

#ifndef WEFT_GPU_FUSE_H
#define WEFT_GPU_FUSE_H

#include "device/gpu_cube.h"
#include "device/gpu_join_cube.h"
#include "device/gpu_sieve.h"

enum { FUSE_MOST = 8 };                // riders in one kernel

typedef struct Unit {                  // of a run: what is one launch
    int                n_riders;
    int               *riders;                     // numbers in the wave; units_choose was given room for them
    struct FusedKernel *fused;                     // all NULL: it is one rider, by its own kernel
    GpuCube            *cube;
    GpuJoinCube        *join_cube;
    GpuSieve           *sieve;
    GpuRun             kernel;                     // fused: shape and code
    double             gain;                       // expected: time alone / together
    bool               awaits;                     // it is alone only until the code of a body is there
    int                n_chunks, *chunks;          // fused or a cube: of the wave; what else a rider wants goes through
                                                   // its own kernel
    Parts              parts;
} Unit;

bool        unit_suits(const GpuRun *run);
void        unit_look(GpuRun *run, Arena *arena);            // what tells which runs go together, within ARENA
// UNITS, ROOM: space for as many as the wave has riders.  Returns how many units there are.
int         units_choose(Wave *wave, Unit *units, int *room);
u64         unit_args_bytes(const GpuRun *run);                                // that a chunk needs more, at most
void        unit_write(Wave *wave, const Parts *parts, Unit *unit);            // its parts, in the args of the run
weft_status unit_launch_fused(Wave *wave, const Unit *unit, Error *err);

#endif
