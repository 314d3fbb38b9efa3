// pool.h - the kernels that experiments run, and how they run on a GPU.
//
// A kernel has a fixed number of threads in all, as in papers 1 and 2; an experiment chooses how many of them make a
// block.  All threads do equal work, and any launch shape gives the same result.  Needs and durations are recorded here
// for simulated cards.  On a GPU the needs are those of the compiled code, and the time is measured.

#ifndef WEFT_LAB_POOL_H
#define WEFT_LAB_POOL_H

#include "model/model.h"

typedef enum LabPool {
    LAB_POOL_REAL,                                          // 13 real kernels
    LAB_POOL_TABLE1,                                        // synthetic kernels I to V of paper 1's Table I
    LAB_POOL_TABLE3,                                        // synthetic kernels A to F of paper 3's Table III
    LAB_POOL_QUERY,                                         // kernels that only queries Q1 and Q2 of paper 2 have
    LAB_POOL_FUSE,                                          // paper 4's patterns (d) and (e), fused and unfused
} LabPool;

typedef struct LabKernel {
    const char *name;                                       // one word: "matrix_multiply", "I", "A"
    const char *title;                                      // for people: "matrix multiplication"
    KernelNeeds needs;                                      // recorded; for a simulated card
    int registers_sm90;                                     // recorded; shared memory is the same
    int warps;                                              // of the whole grid, per multiprocessor of the card
    i64 duration_ns;                                        // stated, of a block of any size; for a simulated card
    const char *duration_from;                              // where that figure comes from, in a few words
    int threads_per_block;                                  // where the source fixes it (Table III); else 0
} LabKernel;

typedef struct LabLaunch {
    const LabKernel *kernel;
    int threads_per_block;
    i64 n_blocks;
    int stream;                                             // 0, 1, ...
} LabLaunch;

int              lab_pool_count(LabPool pool);
const LabKernel *lab_pool(LabPool pool, int i);
const LabKernel *lab_pool_find(LabPool pool, const char *name);             // NULL: there is none

// ---- on a GPU (gpu.c) -----------------------------------------------------------------------------------------------
// Kernels are compiled when they are first needed; their input is made then, and stays on the device.
// $WEFT_LAB_SMALL makes their work a 64th of what it is, for tests.

typedef struct LabGpu LabGpu;

// GPU ORDINAL of the machine.  NO_DEVICE where there is none, or no compiler for it.  Closed with the arena.
weft_status      lab_gpu_open(Arena *arena, int ordinal, LabGpu **gpu, Error *err);
const GpuLimits *lab_gpu_limits(const LabGpu *gpu);                         // name is set: the device's own
weft_status      lab_gpu_needs(LabGpu *gpu, const LabKernel *kernel, KernelNeeds *needs, Error *err);
// As lab_run_set.  The time is measured on the device and holds no compiling and no copy of input.  A kernel has the
// work of the warps that the pool says; for a launch of more than twice as many threads it grows with them.
weft_status      lab_gpu_run(LabGpu *gpu, const LabLaunch *launches, int n_launches, i64 *makespan_ns, Error *err);
// The same, and when each block ran where, by the GPU's own clock from the first start on.  What TIMELINE points to
// lives in ARENA.
weft_status      lab_gpu_timeline(LabGpu *gpu, Arena *arena, const LabLaunch *launches, int n_launches,
                                  Timeline *timeline, Error *err);
// Runs the kernel with that block size and compares what it computes with the CPU's.  The error names the first
// difference.
weft_status      lab_gpu_check(LabGpu *gpu, const LabKernel *kernel, int threads_per_block, Error *err);

// ---- queries: copies and kernels that wait for each other -----------------------------------------------------------

typedef enum LabStepKind { LAB_STEP_COPY, LAB_STEP_KERNEL } LabStepKind;

typedef struct LabStep {
    LabStepKind kind;
    i64         bytes;                                      // of a copy from the host
    LabLaunch   launch;                                     // of a kernel
    int         stream;                                     // of either
    int         after;                                      // a step that must be done before, whatever its stream; -1
} LabStep;

// Runs the steps, each stream in the order of the array, and waits for all.  Copies are from pinned memory, or from
// pageable memory, for which the host waits.  The time is the host's.
weft_status lab_gpu_run_steps(LabGpu *gpu, const LabStep *steps, int n_steps, bool is_pinned, i64 *time_ns, Error *err);

#endif
