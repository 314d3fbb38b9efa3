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

typedef struct BlockPlace {                                      // warps of a block in each partition
    u16 warps[PARTITIONS_MAX];
} BlockPlace;

// Adds a block if there is room for it.  False: LOAD is as it was.
bool load_add(const GpuLimits *limits, Load *load, const BlockCost *cost, BlockPlace *place);
void load_remove(Load *load, const BlockCost *cost, const BlockPlace *place);

// Discipline 1: the next block of a kernel goes to the multiprocessor that runs the fewest blocks of that kernel; among
// equals to the one with the fewest warps, then to the first.  OWN has the kernel's blocks on each of the N_LOADS
// multiprocessors.  Returns where the block was added, or -1 where none has room.
int loads_spread(const GpuLimits *limits, Load *loads, const int *own, int n_loads, const BlockCost *cost,
                 BlockPlace *place);

// ---- what a kernel takes of a group of multiprocessors (launch.c) ---------------------------------------------------

typedef enum Resource {
    RESOURCE_BLOCKS,
    RESOURCE_WARPS,
    RESOURCE_REGISTERS,
    RESOURCE_SHARED,
    RESOURCE_GRIDS,                                         // kernels that run at once
    RESOURCE_N,
} Resource;

typedef struct Amounts {
    i64 of[RESOURCE_N];
} Amounts;

Amounts group_capacity(const GpuLimits *limits, int group);
// All choices that no other beats in every resource.  Sums over kernels within the capacity are necessary for a launch
// of them all, but not enough: launch_plan_group decides.  Returns their number; 0: the kernel does not fit by itself.
int launch_choices(Arena *arena, const GpuLimits *limits, int group, const LaunchKernel *kernel, Amounts **choices);

// ---- sets of kernels that run at once (pattern.c) -------------------------------------------------------------------

typedef struct BatchType {
    LaunchKernel kernel;
    int demand;
    Amounts *choices;
    int n_choices;
    Amounts least;                                          // of any choice, resource by resource
} BatchType;

typedef struct Answers {                                    // of stage two, by counts: the same ones are asked again
    Map *known;
    int n_asked;
} Answers;

typedef struct TableSpace {
    double *numbers;
    int n;
} TableSpace;

typedef struct Packing {
    Arena *scratch;
    const GpuLimits *limits;
    int group;                                              // multiprocessors that share the blocks of a batch
    BatchType *types;                                       // the largest first
    int n_types;
    int *order;                                             // 0, 1, 2, ...: this order, for first-fit decreasing
    int bound;                                              // that follows from the sums,
    Resource scarcest;                                      // and from this one
    Answers *answers;
    TableSpace *tables;                                     // for pattern.c, one per resource
} Packing;

// Enumerates patterns: sets of kernels that can run at once, as a count of each type; at most LEFT of each, and worth
// more than THRESHOLD by VALUES.  VISIT gets each of them, and may raise the threshold and lower the steps.
typedef struct Enumeration {
    const Packing *packing;
    const int *left;
    const double *values;                                   // of a kernel of each type, 0 or more
    double threshold;
    int must;                                               // a type of which one must be in it; -1: none
    bool is_maximal;                                        // only sets to which no kernel can be added
    int steps_left;                                         // nodes of the search tree; 0 at the end: it was cut short
    double value_bound;                                     // out: no pattern is worth more
    void (*visit)(struct Enumeration *enumeration, const int *counts, double value);
    void *context;
} Enumeration;

void patterns_visit(Enumeration *enumeration);
// Whether stage two finds a launch for so many kernels of each type.
bool pattern_is_possible(const Packing *packing, const int *counts);

// ---- linear programs (lp.c) -----------------------------------------------------------------------------------------

// Minimise the sum of amounts, so that the columns, each taken in its amount, cover the demand of every row.
typedef struct CoverLp CoverLp;
CoverLp *cover_new(Arena *arena, const LpLibrary *library, const int *demand, int n_rows);
void     cover_add(CoverLp *cover, const int *counts);
// False: the library found no optimum.  VALUES has a dual value per row, AMOUNTS one per column; both belong to COVER
// until the next call.
bool     cover_solve(CoverLp *cover, double *value, const double **values, const double **amounts);

#endif
