// gpu_context.c - a GPU's driver asked: its errors, its context, waiting for it.  Nothing here needs other files of it.
//
// After an error that is sticky by the driver's manual every call fails, so the device is marked lost and refuses all
// that comes.

#include "device/gpu_int.h"

#include "kernel/kernel.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#define WAIT_MS     20
#define SPIN_MS     3.0                // a stream is looked at without sleeping for so long
#define SPINNERS    4                  // unless so many do: asking takes the driver's locks
#define CANCEL_MS   5.0                // a kernel that is to stop is told again
#define ASK_MS      0.05               // else after so long, or after
#define ASK_SHARE   16                 // 1 / this of the time that it has waited,
#define ASK_MOST_MS 1.0                // but never longer

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

// ---- events ---------------------------------------------------------------------------------------------------------

weft_status event_take(Gpu *gpu, GpuEvent *event, Error *err)
{
    pthread_mutex_lock(&gpu->slots_lock);
    *event = gpu->n_events ? gpu->events[--gpu->n_events] : NULL;
    pthread_mutex_unlock(&gpu->slots_lock);
    if (!*event) GPU_TRY(gpu, EventCreate, (event, GPU_EVENT_DISABLE_TIMING), err);
    return WEFT_OK;
}

void event_give(Gpu *gpu, GpuEvent event)
{
    pthread_mutex_lock(&gpu->slots_lock);
    const bool has_room = gpu->n_events < N_EVENTS_KEPT;
    if (has_room) gpu->events[gpu->n_events++] = event;
    pthread_mutex_unlock(&gpu->slots_lock);
    if (!has_room) gpu->calls->EventDestroy(event);
}

// ---- waiting --------------------------------------------------------------------------------------------------------

struct timespec time_after_ms(int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000l;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return until;
}

void gpu_wait_a_little(Gpu *gpu, pthread_cond_t *changed)
{
    const struct timespec until = time_after_ms(WAIT_MS);
    ASSERT(mutex_is_held(&gpu->lock));
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

void run_wake(GpuRun *run) { sem_post(&run->woken); }

// It sleeps on if there is nothing for it.
void run_look(GpuRun *run)
{
    atomic_fetch_add(&run->n_looks, 1);
    sem_post(&run->woken);
}

// When it is woken, all posts were taken, so the semaphore is at 0 after that.
bool run_sleep(GpuRun *run, int ms)
{
    const struct timespec until = time_after_ms(ms);
    if (sem_timedwait(&run->woken, &until)) return false;
    if (atomic_load(&run->n_looks) == 0) return true;
    atomic_fetch_sub(&run->n_looks, 1);
    return false;
}

static bool is_stopped(const GpuRun *run) { return atomic_load_explicit(run->launch->stop, memory_order_relaxed); }

// The flag is in the launch's block; the copy overtakes the kernel, as it is in another stream.  It may even overtake
// the copy that sets the flag to 0, where kernels of others come first: so it is said again.
static void pass_on_cancel(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    gpu->calls->MemcpyHtoDAsync(in_block(run, offsetof(KernelCommon, cancel)), gpu->one, sizeof(u32),
                             gpu->control_stream);
}

void run_pass_on_cancel(GpuRun *run, double *passed_on_ms)
{
    if (!is_stopped(run) || time_now_ms() - *passed_on_ms <= CANCEL_MS || run->is_headless) return;
    pass_on_cancel(run);
    *passed_on_ms = time_now_ms();
}

// The more riders wait, and the longer it takes, the less often each of them asks: asking takes the driver's locks.
static void sleep_a_little(double waited_ms)
{
    const double ms = MIN_OF(MAX_OF(waited_ms / ASK_SHARE, ASK_MS), ASK_MOST_MS);
    nanosleep(&(struct timespec){ .tv_nsec = (long)(ms * 1e6) }, NULL);
}

weft_status run_wait_event(GpuRun *run, GpuEvent event, Error *err)
{
    Gpu         *gpu = run->gpu;
    const double start = time_now_ms();
    double       passed_on_ms = 0;
    pthread_mutex_lock(&gpu->lock);
    const double spin_ms = gpu->n_active <= SPINNERS ? SPIN_MS : 0;
    pthread_mutex_unlock(&gpu->lock);
    for (;;) {
        const GpuResult result = gpu->calls->EventQuery(event);
        // The block may be another's next.
        if (result != GPU_NOT_READY && passed_on_ms > 0) gpu_wait_for(gpu, gpu->control_stream);
        if (result != GPU_NOT_READY) return gpu_check(gpu, result, "EventQuery", err);
        run_pass_on_cancel(run, &passed_on_ms);
        const double waited_ms = time_now_ms() - start;
        if (waited_ms < spin_ms) sched_yield();
        else sleep_a_little(waited_ms);
    }
}

bool scan_is_busy(const Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    for (int r = 0; r < N_RUNS; r++)
        if (gpu->runs[r].is_used) return true;
    return false;
}
