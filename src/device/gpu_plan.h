// gpu_plan.h - launch shapes for the kernels of a wave, from the model (src/model): solved in the background, and kept.
//
//     WavePlans *plans = wave_plans_new(&limits, false);
//     wave_plans_ask(plans, kernels, n, &use);             // at once: the shapes of an earlier solution, or none yet
//     ... launch in use.order; if use.is_measured, with a timer before and after each kernel ...
//     wave_plans_tell(plans, &use, times);                      // feedback
//     wave_plans_free(plans);
//
// A set of kernels is known by its signature: code, shared memory and size of each, in any order.  Which of both ways
// is quicker, planned or plain, is measured: the quicker one is used.  Any thread may call; none waits for a solution.

#ifndef WEFT_GPU_PLAN_H
#define WEFT_GPU_PLAN_H

#include "model/model.h"

enum { PLAN_KERNELS = 48 };            // of a wave; larger ones are not planned

typedef struct WavePlans WavePlans;

typedef struct PlanKernel {
    const void *code;                  // equal: the same code
    KernelNeeds needs;                 // shared memory as it is launched
    int         threads;               // of a block, where nothing is planned
    bool        has_fixed_threads;     // they must stay
    u64         n_tiles;               // blocks of so many threads that have something to do
} PlanKernel;

typedef struct PlanShape { int threads; u64 n_blocks; } PlanShape;

typedef struct PlanUse {
    bool      is_planned;              // else shapes and order are as without a plan
    bool      is_measured;             // wave_plans_tell is wanted
    int       n_kernels;
    PlanShape shapes[PLAN_KERNELS];    // by the caller's number
    int       order[PLAN_KERNELS];     // the caller's numbers, as they are to be launched
    // for wave_plans_tell
    u64       key;
    u32       version;
    int       places[PLAN_KERNELS];    // of the caller's kernels in the plan
} PlanUse;

typedef struct KernelTime { double start_ms, end_ms; } KernelTime;     // by one clock

typedef struct WavePlanCounts {
    u64    n_asked, n_found, n_planned;                     // waves: all; whose set was solved already; run as planned
    u64    n_solved, n_failed;                              // solutions
    double solve_ms;                                        // of all, on one core
} WavePlanCounts;

// Forced: waves are planned whenever there is a solution, whatever is quicker.
WavePlans *wave_plans_new(const GpuLimits *limits, bool is_forced);
void       wave_plans_free(WavePlans *plans);               // waits for a solution that has begun
// N from 2 to PLAN_KERNELS.
void       wave_plans_ask(WavePlans *plans, const PlanKernel *kernels, int n, PlanUse *use);
void       wave_plans_tell(WavePlans *plans, const PlanUse *use, const KernelTime *times); // by the caller's number
// False: several sets were measured, and none of them was quicker with its plan.
bool       wave_plans_may_pay(const WavePlans *plans);
WavePlanCounts wave_plans_count(WavePlans *plans);
void       wave_plans_settle(WavePlans *plans);             // for tests: until no set waits to be solved

#endif
