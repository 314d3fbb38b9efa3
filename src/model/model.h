// model.h - arithmetic of a GPU's scheduler: what fits on a multiprocessor at once, and what runs when.
//
// The limits of a card come from the table (limits_of_card, limits_of_capability) or from what a driver reports
// (limits_of_driver).  Everything else is computed from limits and from what kernels need:
//
//     TRY(limits_of_card("GTX 680", &limits, err));
//     Occupancy alone = occupancy_of(&limits, &needs, 256);
//
// No call here touches a device or starts a thread, so schedules can be tested without a GPU.  Any thread may call;
// nothing is shared.  The ideas, the papers' equations and their corrections are in README.md.

#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "base/base.h"

// ---- architectures --------------------------------------------------------------------------------------------------

enum { PARTITIONS_MAX = 8 };                                // of a multiprocessor; today's have 2 or 4

typedef struct GpuLimits {
    const char *name;                                       // of the card; NULL: not from the table
    int  major, minor;                                      // compute capability
    int  n_multiprocessors;
    // of a thread and of a block
    int  threads_per_warp;
    int  registers_per_thread;
    int  threads_per_block;
    int  registers_per_block;
    int  shared_per_block;                                  // bytes that a kernel may ask for
    // of a multiprocessor
    int  blocks;
    int  warps;
    int  registers;
    int  shared;                                            // bytes
    // how they are allocated
    int  n_partitions;                                      // equal parts, each with its registers and its warps
    int  register_unit;                                     // registers of a warp are a multiple of it
    int  shared_unit;                                       // bytes of a block are a multiple of it
    int  shared_reserved;                                   // bytes that the system adds to every block
    // of the card
    int  grids;                                             // kernels that have blocks running
    bool has_hyper_q;                                       // a queue per stream instead of one for all
} GpuLimits;

// What a driver reports about a device, under the names of CUDA's device attributes.
typedef struct DriverReport {
    int major, minor;
    int n_multiprocessors;
    int threads_per_warp, threads_per_block, threads_per_multiprocessor, blocks_per_multiprocessor;
    int registers_per_block, registers_per_multiprocessor;
    int shared_per_block;                                   // the most that a kernel can opt in to
    int shared_per_multiprocessor;
    int shared_reserved;                                    // per block; 0 where the driver does not know it
} DriverReport;

// A card of the table by its name ("Tesla K40").  UNDEFINED_OBJECT for any other name.
weft_status limits_of_card(const char *name, GpuLimits *limits, Error *err);
// Any card of that capability.  UNDEFINED_OBJECT for one that is not in the table: a guess would look like a fact.
weft_status limits_of_capability(int major, int minor, int n_multiprocessors, GpuLimits *limits, Error *err);
// A card as its driver describes it.  Drivers do not report allocation units: these are the table's for the newest
// capability that is not newer than the card's.  NO_DEVICE where the numbers cannot be those of a GPU.
weft_status limits_of_driver(const DriverReport *report, GpuLimits *limits, Error *err);
int         limits_card_count(void);
const char *limits_card_name(int card);

// ---- one kernel -----------------------------------------------------------------------------------------------------

typedef struct KernelNeeds {
    int registers;                                          // of a thread
    int shared;                                             // bytes of a block
    int threads_per_block_max;                              // that the code was compiled for; 0: the card's limit
} KernelNeeds;

// What a block takes from its multiprocessor, allocation units included.
typedef struct BlockCost {
    int warps;
    int registers_per_warp;
    int registers;                                          // warps times registers_per_warp
    int shared;                                             // bytes, with what the system reserves
} BlockCost;

typedef enum LimitKind {
    LIMIT_BLOCK,                                            // not even one block can run
    LIMIT_BLOCKS,
    LIMIT_WARPS,
    LIMIT_REGISTERS,
    LIMIT_SHARED,
} LimitKind;

typedef struct Occupancy {
    int blocks_by_warps, blocks_by_registers, blocks_by_shared; // concurrent blocks if nothing else were a limit
    int blocks;                                             // concurrent blocks per multiprocessor
    int warps;
    int threads;
    double share;                                           // of the warps that the multiprocessor can hold
    LimitKind limit;                                        // the resource that keeps one more block away
} Occupancy;

// THREADS_PER_BLOCK is at least 1.  A block that no multiprocessor takes has occupancy 0 and LIMIT_BLOCK.
Occupancy occupancy_of(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block);
// For a block that is allowed.
BlockCost block_cost(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block);
bool      block_is_allowed(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block);
// The most whole warps that a block of this kernel may have; 0: it cannot run on this card.
int       block_warps_max(const GpuLimits *limits, const KernelNeeds *needs);

// How often a grid of N_BLOCKS fills the card until all have run.  0: it cannot run.
i64 running_rounds(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block, i64 n_blocks);

typedef struct BlockSize {
    int threads_per_block;
    i64 n_blocks;
    i64 rounds;
} BlockSize;

// The block size with the fewest running rounds for N_THREADS (1 or more); among equals the one with the fewest threads
// beyond N_THREADS, then the largest occupancy, then the smallest block.  False: the kernel cannot run on this card.
bool best_block_size(const GpuLimits *limits, const KernelNeeds *needs, i64 n_threads, BlockSize *best);

// ---- streams: the block scheduler, simulated ------------------------------------------------------------------------
// Streams are ranked by their place in the array.  The kernels of a stream run one after the other.

enum { SIM_BLOCKS_MAX = 1 << 20, SIM_KERNELS_MAX = 1 << 12 };   // of one run

typedef struct SimKernel {
    KernelNeeds needs;
    int threads_per_block;
    int n_blocks;
    i64 duration_ns;                                        // of a block, whatever runs beside it
} SimKernel;

typedef struct SimStream {
    const SimKernel *kernels;
    int n_kernels;
} SimStream;

typedef struct SimSpan {                                    // a block ran here, from then to then
    int multiprocessor;
    int stream, kernel, block;                              // kernel: of the stream; block: of the kernel
    i64 start_ns, end_ns;
} SimSpan;

typedef struct Timeline {
    SimSpan *spans;                                         // by multiprocessor, then by start
    int n_spans;
    int *first_span;                                        // of each multiprocessor, and n_spans at the end
    i64 *phase_ends_ns;                                     // ascending: the times at which blocks ended
    int n_phases;
} Timeline;

// Runs the streams on an idle card.  What TIMELINE points to lives in ARENA.  INVALID_PARAMETER for a kernel that no
// multiprocessor can run or that has no blocks; TOO_LONG for more blocks or a longer time than the simulator counts.
weft_status sim_run(Arena *arena, const GpuLimits *limits, const SimStream *streams, int n_streams, Timeline *timeline,
                    Error *err);

// ---- several kernels at once: launch parameters ---------------------------------------------------------------------

enum { GROUP_MAX = 2 };                                     // multiprocessors that share the blocks of a launch

typedef struct LaunchKernel {
    KernelNeeds needs;
    i64 n_threads;                                          // of the whole grid, 1 or more: all of them run at once
} LaunchKernel;

typedef struct LaunchShape {
    int threads_per_block;
    int blocks;                                             // per group of multiprocessors
    i64 n_blocks;                                           // of the grid: blocks times groups
} LaunchShape;

typedef struct LaunchPlan {
    int group;                                              // multiprocessors that share blocks: 1, else 2
    int n_groups;
    int blocks, warps, registers;                           // sums over all kernels, per group
    i64 shared;                                             // bytes, likewise: the least that is possible
    LaunchShape *shapes;                                    // of each kernel
    int *order;                                             // in which the kernels are to be launched
} LaunchPlan;

// Block sizes and grids with which all threads of all kernels run at once, with the least shared memory.  Launched in
// the plan's order on an idle card, every block starts at once.  False: there are none, so the kernels need several
// batches.  Whether there are does not depend on the order of the array.  What PLAN points to lives in ARENA.
bool launch_plan(Arena *arena, const GpuLimits *limits, const LaunchKernel *kernels, int n_kernels, LaunchPlan *plan);
// The same for groups of so many multiprocessors.
bool launch_plan_group(Arena *arena, const GpuLimits *limits, int group, const LaunchKernel *kernels, int n_kernels,
                       LaunchPlan *plan);

// ---- more kernels than fit at once: batches -------------------------------------------------------------------------

// A library that solves linear programs: COIN-OR's CLP, which is opened at the first call and never closed.  NULL where
// it is not installed; WHY says what was tried.
typedef struct LpLibrary LpLibrary;
const LpLibrary *lp_library(Error *why);

typedef struct KernelBatch {
    int *kernels;                                           // places in the caller's array
    int n_kernels;
    LaunchPlan plan;                                        // of these kernels, in this order
} KernelBatch;

typedef struct BatchPlan {
    KernelBatch *batches;
    int n_batches;
    int group;                                              // multiprocessors that share blocks, in all batches
    bool is_bound_known;                                    // false without a library
    int  bound;                                             // no plan for such groups has fewer batches
    double lp_value;                                        // of the linear program; 0 where sums were proof enough
    int  n_types;                                           // kernels with equal needs and threads are one type
    int  n_patterns;                                        // sets of kernels that the linear program saw
} BatchPlan;

// Packs the kernels into few batches, each of which launch_plan can run at once.  Without a library (LP is NULL) it is
// first-fit decreasing, and the bound is not known.  What PLAN points to lives in ARENA.  TOO_LONG for a kernel that
// does not fit by itself; INVALID_PARAMETER for one without threads.
weft_status batch_plan(Arena *arena, const GpuLimits *limits, const LpLibrary *lp, const LaunchKernel *kernels,
                       int n_kernels, BatchPlan *plan, Error *err);

#endif
