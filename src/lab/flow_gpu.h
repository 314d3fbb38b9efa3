// flow_gpu.h - the GPU of weft lab flow's baselines: slots, compiled operators, and what its files share (flow_gpu.c).

#ifndef WEFT_LAB_FLOW_GPU_H
#define WEFT_LAB_FLOW_GPU_H

#include "lab/flow_lab.h"
#include "lab/gpu.h"
#include "lab/kernel_args.h"
#include "lab/operator_words.h"

enum {
    SLOTS = 8,
    TASK_PART = 16384,                                      // bytes of a frame that one block gets, at least
    TASK_WAIT_MS = 2000, TASK_SPIN_MS = 5,                  // until the host gives up; until it no longer spins
    SPLIT_VALUES = 4096,                                    // of a frame of fma_split
    SPLIT_FRAMES = 4096,
};

typedef struct GpuSlot {
    u8       *pinned_in, *pinned_out, *pageable_in, *pageable_out;
    CuAddress in, out;
    CuStream  stream;
    CuEvent   done;
    double    start_ms;
    bool      is_busy;
} GpuSlot;

typedef struct BuiltOperator {
    const char *text;
    CuFunction  functions[3];                               // a launch a frame; tasks; topics
} BuiltOperator;

struct FlowGpu {
    LabGpu           *lab_gpu;
    const CudaDriver *cu;
    int               n_multiprocessors, threads, blocks_max;
    size_t            slot_bytes;
    GpuSlot           slots[SLOTS];
    CuAddress         params, ticket;
    LabTasks         *tasks;                                // in pinned memory
    CuAddress         tasks_there;                          // the same for the device
    CuAddress         managed_in, managed_out;              // of a kernel over managed memory
    CuAddress         words;                                // LabTopicWords
    BuiltOperator     built[16];
    int               n_built;
    CuFunction        split[2];                             // fma_split, fma_alone
    u8               *split_in[2], *split_out[2];           // pinned
    CuAddress         split_in_there[2], split_out_there[2];
};

// Pinned, mapped for the device, zeroed.  The caller frees it with MemFreeHost.
weft_status flow_gpu_pin(const CudaDriver *cu, size_t bytes, u8 **memory, Error *err);
// Compiles the operator, if it is new.  What FOUND points to lives as long as the GPU.
weft_status flow_gpu_operator(FlowGpu *gpu, const LabOperator *op, const BuiltOperator **found, Error *err);
// Before the frames of a trial: the operator, and its parameters on the device.  Enters the GPU's context.
weft_status flow_gpu_prepare(FlowLab *flow, const FlowTrial *trial, const BuiltOperator **built, Error *err);
weft_status flow_gpu_launch(FlowGpu *gpu, CuFunction function, const FlowTrial *trial, CuAddress in, CuAddress out,
                            CuStream stream, Error *err);
bool        flow_gpu_is_over(const FlowLab *flow, const FlowTrial *trial, i64 n_frames, double start_ms);

#endif
