// gpu_timer.c - how long the kernels of a launch took, by the device's clock: for EXPLAIN ANALYZE.

#include "device/gpu_int.h"

#include <stdlib.h>

weft_status timer_begin(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    if (!run->is_timed) return WEFT_OK;
    run->timers = realloc(run->timers, (size_t)(run->n_timers + 2) * sizeof *run->timers);
    for (int i = 0; i < 2; i++) {
        GPU_TRY(gpu, EventCreate, (&run->timers[run->n_timers], 0), err);
        run->n_timers++;
    }
    GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 2], run->stream), err);
    return WEFT_OK;
}

weft_status timer_end(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    if (run->is_timed) GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 1], run->stream), err);
    return WEFT_OK;
}

// EXPLAIN ANALYZE leaves out times that the driver does not give.
void timers_read(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    for (int t = 0; t < run->n_timers; t++) {
        float ms = 0;
        if (t % 2 == 0 && t + 1 < run->n_timers &&
            gpu->calls->EventElapsedTime(&ms, run->timers[t], run->timers[t + 1]) == GPU_SUCCESS)
            run->launch->out.gpu.kernel_ms += ms;
    }
    for (int t = 0; t < run->n_timers; t++) gpu->calls->EventDestroy(run->timers[t]);
    run->n_timers = 0;
}
