// model_int.h - what the files of src/model share.

#ifndef WEFT_MODEL_INT_H
#define WEFT_MODEL_INT_H

#include "model/model.h"

static inline int ceil_div(int number, int by)
{
    return number / by + (number % by != 0);
}

static inline int round_up(int number, int unit)
{
    return ceil_div(number, unit) * unit;
}

static inline int round_down(int number, int unit)
{
    return number / unit * unit;
}

// How many warps with so many registers run at once on a multiprocessor, if nothing else is a limit.
int warps_by_registers(const GpuLimits *limits, int registers_per_warp);

// ---- blocks on a multiprocessor (place.c) ---------------------------------------------------------------------------

typedef struct Partition {
    int warps, registers;
} Partition;

typedef struct Load {                                       // what the blocks on one multiprocessor take of it
    int blocks, warps, shared;
    Partition partitions[PARTITIONS_MAX];
} Load;

typedef struct Place {                                      // warps of a block in each partition
    u16 warps[PARTITIONS_MAX];
} Place;

// Adds a block if there is room for it.  False: LOAD is as it was.
bool load_add(const GpuLimits *limits, Load *load, const BlockCost *cost, Place *place);
void load_remove(Load *load, const BlockCost *cost, const Place *place);

// Discipline 1: the next block of a kernel goes to the multiprocessor that runs the fewest blocks of that kernel; among
// equals to the one with the fewest warps, then to the first.  OWN has the kernel's blocks on each of the N_LOADS
// multiprocessors.  Returns where the block was added, or -1 where none has room.
int loads_spread(const GpuLimits *limits, Load *loads, const int *own, int n_loads, const BlockCost *cost,
                 Place *place);

#endif
