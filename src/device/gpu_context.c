// gpu_context.c - a GPU's driver asked: its errors, its context, waiting for it.  Nothing here needs other files of it.
//
// After an error that is sticky by the driver's manual every call fails, so the device is marked lost and refuses all
// that comes.

#include "device/gpu_int.h"

#include <stdio.h>

#define WAIT_MS 20

GpuAddress gpu_address(const Gpu *gpu, u64 at) { return gpu->memory + at; }

// ---- errors ---------------------------------------------------------------------------------------------------------

// When the program ends while a thread of the device works, that is logged for debugging only.
static void lose(Gpu *gpu, const Error *err, bool is_ending)
{
    pthread_mutex_lock(&gpu->stage_lock);          // is_lost and its reason become visible together
    const bool is_first = !atomic_exchange(&gpu->is_lost, true);
    if (is_first) gpu->lost_error = *err;
    pthread_mutex_unlock(&gpu->stage_lock);
    if (is_first && is_ending) log_debug("device %s went with the program: %s", gpu->name, err->message);
    else if (is_first)
        log_warn("device %s is lost: %s; queries run on the CPU until Weft is started anew", gpu->name, err->message);
}

void gpu_lose(Gpu *gpu, const Error *err) { lose(gpu, err, false); }

weft_status gpu_check(Gpu *gpu, GpuResult result, const char *call, Error *err)
{
    if (result == GPU_SUCCESS) return WEFT_OK;
    const weft_status status = gpu->vendor->check(result, call, err);
    if (!gpu->vendor->is_sticky(result)) return status;
    // Tried on an H200: neither the context's last release nor a reset mends it, and contexts beside it fail, too.
    gpu->is_gone = true;
    error_hint(err, "%s", gpu->vendor->lost_hint);
    lose(gpu, err, gpu->vendor->is_ending(result));
    return status;
}

static void lost_reason(Gpu *gpu, char *why, size_t capacity)
{
    pthread_mutex_lock(&gpu->stage_lock);
    snprintf(why, capacity, "device %s was lost: %.200s", gpu->name, gpu->lost_error.message);
    pthread_mutex_unlock(&gpu->stage_lock);
}

bool gpu_is_lost(Gpu *gpu, char *why, size_t capacity)
{
    if (!gpu->is_lost) return false;
    if (why) lost_reason(gpu, why, capacity);
    return true;
}

weft_status gpu_enter(Gpu *gpu, Error *err)
{
    char why[300];
    if (gpu_is_lost(gpu, why, sizeof why)) return fail(err, WEFT_DEVICE_FAILED, -1, "%s", why);
    GPU_TRY(gpu, CtxSetCurrent, (gpu->context), err);
    return WEFT_OK;
}

GpuContext gpu_visit(const Gpu *gpu)
{
    GpuContext before = NULL;
    gpu->calls->CtxGetCurrent(&before);
    return before;
}

void gpu_leave(const Gpu *gpu, GpuContext before)
{
    if (before != gpu->context) gpu->calls->CtxSetCurrent(before);
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void gpu_wait_a_little(Gpu *gpu, pthread_cond_t *changed)
{
    struct timespec until;
    ASSERT(mutex_is_held(&gpu->lock));
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAIT_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(changed, &gpu->lock, &until);
}

// Memory is given back after it.  A device that cannot say that it is done with it is as good as lost.
void gpu_wait_for(Gpu *gpu, GpuStream stream)
{
    Error why = { 0 };
    bool  is_done = false;
    for (int t = 0; t < CALL_TRIES && !is_done && !gpu->is_lost; t++)
        is_done = !gpu_check(gpu, gpu->calls->StreamSynchronize(stream), "StreamSynchronize", &why);
    if (!is_done && !gpu->is_lost) gpu_lose(gpu, &why);
}

void run_wait_quietly(GpuRun *run) { gpu_wait_for(run->gpu, run->stream); }

bool scan_is_busy(const Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    for (int r = 0; r < N_RUNS; r++)
        if (gpu->runs[r].is_used) return true;
    return false;
}
