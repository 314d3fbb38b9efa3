// gpu_room.h - launches that wait for room in the pool.
//
//     RoomWaiter waiter;
//     room_wait_begin(&waiter, run, bytes);
//     while (!has_room(run)) room_wait(&waiter);               // with the device's lock, as all of this
//     room_wait_end(&waiter);
//
// Thousands may wait.  If each of them were woken whenever something changes, they would have the processors and the
// lock for themselves.  So a launch that gives memory back wakes those that can have it, the oldest first.  The others
// look by themselves: the more of them there are, the less often.

#ifndef WEFT_GPU_ROOM_H
#define WEFT_GPU_ROOM_H

#include "device/gpu_int.h"

typedef struct RoomWaiter {
    GpuRun            *run;
    u64                bytes;          // to be admitted beside others; ROOM_ALONE: no other launch may hold any
    struct RoomWaiter *next, **link;   // by age
    pthread_cond_t     woken;
    bool               is_woken;       // and has not looked yet
} RoomWaiter;

#define ROOM_ALONE UINT64_MAX

void room_wait_begin(RoomWaiter *waiter, GpuRun *run, u64 bytes);
void room_wait(RoomWaiter *waiter);    // until there may be room, or it is time to look at the clock
void room_wait_end(RoomWaiter *waiter);
void room_given(Gpu *gpu);             // memory was given back, or a launch is exclusive no more
void room_wake(Gpu *gpu, const _Atomic u32 *stop);          // whose queries are to stop

#endif
