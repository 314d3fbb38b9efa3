// gpu_room.c - see gpu_room.h.

#include "device/gpu_room.h"

#define LOOK_MS       20               // the oldest looks at the clock so often,
#define LOOK_SHARE    16               // the others less often by 1 for each so many that wait,
#define LOOK_MOST_MS  200              // but they look
#define LOOKED_AT     64               // waiters, when memory was given back
#define PASSED_MOST   8                // waiters that pass room on, which is in pieces too small, until more is given

void room_wait_begin(RoomWaiter *waiter, GpuRun *run, u64 bytes)
{
    Gpu *gpu = run->gpu;
    ASSERT(mutex_is_held(&gpu->lock));
    *waiter = (RoomWaiter){ .run = run, .bytes = bytes, .link = gpu->waiting_end };
    pthread_cond_init(&waiter->woken, NULL);
    *gpu->waiting_end = waiter, gpu->waiting_end = &waiter->next;
    gpu->n_waiting++;
    run->waiter = waiter;
}

static void wake(RoomWaiter *waiter)
{
    waiter->is_woken = true;
    pthread_cond_signal(&waiter->woken);
}

void room_wait_end(RoomWaiter *waiter)
{
    Gpu       *gpu = waiter->run->gpu;
    const bool was_oldest = gpu->waiting == waiter;
    ASSERT(mutex_is_held(&gpu->lock) && gpu->n_waiting > 0);
    *waiter->link = waiter->next;
    if (waiter->next) waiter->next->link = waiter->link;
    else gpu->waiting_end = waiter->link;
    gpu->n_waiting--;
    waiter->run->waiter = NULL;
    pthread_cond_destroy(&waiter->woken);
    if (was_oldest && gpu->waiting) wake(gpu->waiting);        // it looks more often from here on
}

// What those that were woken will take is theirs.  WAITER and those behind it are looked at.
static void wake_those_that_fit(Gpu *gpu, RoomWaiter *waiter)
{
    const u64 most = launch_admitted_most(gpu);
    u64       left = most - MIN_OF(most, gpu->bytes_admitted);
    for (int n = 0; waiter && n < LOOKED_AT && left; n++, waiter = waiter->next) {
        const u64 bytes = waiter->bytes == ROOM_ALONE ? left : waiter->bytes;
        if (bytes > left || (waiter->bytes == ROOM_ALONE && gpu->n_active)) continue;
        if (!waiter->is_woken) wake(waiter);
        left -= bytes;
    }
}

// An exclusive launch is to have all that is given.
void room_given(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    gpu->n_passed = 0;
    if (!gpu->exclusive) wake_those_that_fit(gpu, gpu->waiting);
    else if (gpu->exclusive->waiter) wake(gpu->exclusive->waiter);
}

static int look_ms(const RoomWaiter *waiter)
{
    const Gpu *gpu = waiter->run->gpu;
    return gpu->waiting == waiter ? LOOK_MS : MIN_OF(LOOK_MS * (1 + gpu->n_waiting / LOOK_SHARE), LOOK_MOST_MS);
}

// It was woken and waits again: the room is in pieces too small for it, and may suit a younger one.
static void pass_on(RoomWaiter *waiter)
{
    Gpu *gpu = waiter->run->gpu;
    waiter->is_woken = false;
    if (!gpu->exclusive && gpu->n_passed++ < PASSED_MOST) wake_those_that_fit(gpu, waiter->next);
}

void room_wait(RoomWaiter *waiter)
{
    const struct timespec until = time_after_ms(look_ms(waiter));
    ASSERT(mutex_is_held(&waiter->run->gpu->lock));
    if (waiter->is_woken) pass_on(waiter);
    pthread_cond_timedwait(&waiter->woken, &waiter->run->gpu->lock, &until);
}

void room_wake(Gpu *gpu, const _Atomic u32 *stop)
{
    ASSERT(mutex_is_held(&gpu->lock));
    for (RoomWaiter *waiter = gpu->waiting; waiter; waiter = waiter->next)
        if (waiter->run->launch->stop == stop) wake(waiter);
}
