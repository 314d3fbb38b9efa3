// gpu.c - the pool's kernels on a GPU.  Not built yet: every call says so.

#include "lab/pool.h"

static weft_status refuse(Error *err)
{
    fail(err, WEFT_UNSUPPORTED, -1, "the lab does not run on a GPU yet");
    error_hint(err, "Use a simulated card: --device sim:h200.");
    return err->status;
}

weft_status lab_gpu_open(Arena *arena, int ordinal, LabGpu **gpu, Error *err)
{
    *gpu = NULL;
    return refuse(err);
}

const GpuLimits *lab_gpu_limits(const LabGpu *gpu)
{
    return NULL;
}

weft_status lab_gpu_needs(LabGpu *gpu, const LabKernel *kernel, KernelNeeds *needs, Error *err)
{
    return refuse(err);
}

weft_status lab_gpu_run(LabGpu *gpu, const LabLaunch *launches, int n_launches, i64 *makespan_ns, Error *err)
{
    return refuse(err);
}

weft_status lab_gpu_check(LabGpu *gpu, const LabKernel *kernel, int threads_per_block, Error *err)
{
    return refuse(err);
}
