// cuda_shim.h - the words of CUDA that the lab's kernels use, on the CPU: a thread of a block is a thread here.
//
//     #include "cuda_shim.h"
//     #include "lab/kernels/md5.cu"                               // defines md5(LabArgs)
//     shim_launch(md5, &args, n_blocks, threads_per_block);
//
// Blocks run one after the other, the last one first, so nothing may depend on their order; the threads of a block run
// side by side and wait for each other where the kernel says so.  Shared memory is a static variable: it holds garbage
// of the block before.  Under `make TSAN=1` accesses that a barrier should have kept apart are reported.

#ifndef WEFT_CUDA_SHIM_H
#define WEFT_CUDA_SHIM_H

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "lab/kernel_args.h"

typedef struct ShimIndex { u32 x; } ShimIndex;

static _Thread_local ShimIndex threadIdx;
static ShimIndex blockIdx, blockDim, gridDim;

#define LAB_SHIM                                            // operator_words.h is for kernels here, too
#define KERNEL(name) static void name(const LabArgs A)
#define FUNCTION     static inline
#define SHARED       static
#define UNROLLED

enum { SHIM_THREADS_MAX = 1024 };

static pthread_barrier_t shim_block, shim_warps[32];
static u64 shim_lanes[SHIM_THREADS_MAX];                    // what a thread shows the others of its warp

static inline void __syncthreads(void)
{
    pthread_barrier_wait(&shim_block);
}

// The value of the lane FROM of this warp; its own where there is none.
static inline u64 shim_shuffle(u64 value, int from)
{
    const u32 warp = threadIdx.x / 32;
    u64 got = value;
    shim_lanes[threadIdx.x] = value;
    pthread_barrier_wait(&shim_warps[warp]);
    if (from >= 0 && from < 32)
        got = shim_lanes[warp * 32 + (u32)from];
    pthread_barrier_wait(&shim_warps[warp]);
    return got;
}

#define __shfl_down_sync(mask, value, by) \
    ((__typeof__(value))shim_shuffle((u64)(value), (int)(threadIdx.x % 32) + (int)(by)))
#define __shfl_up_sync(mask, value, by) \
    ((__typeof__(value))shim_shuffle((u64)(value), (int)(threadIdx.x % 32) - (int)(by)))

#define __shfl_sync(mask, value, from) ((__typeof__(value))shim_shuffle((u64)(value), (int)(from)))
#define __popc(bits)                   __builtin_popcount(bits)

// A bit for each lane of the warp whose value is true.
static inline u32 __ballot_sync(u32 mask, bool is_true)
{
    u32 votes = 0;
    for (int lane = 0; lane < 32; lane++)
        votes |= (u32)(shim_shuffle(is_true, lane) != 0) << lane;
    return votes & mask;
}

#define atomicAdd(at, value)  __atomic_fetch_add((at), (value), __ATOMIC_RELAXED)
#define atomicExch(at, value) __atomic_exchange_n((at), (value), __ATOMIC_RELAXED)
#define atomicCAS(at, is, to)                                                                          \
    __extension__({                                                                                    \
        __typeof__(*(at)) seen_ = (is);                                                                \
        __atomic_compare_exchange_n((at), &seen_, (to), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);    \
        seen_;                                                                                         \
    })

// TSan knows no fences, so there it is an atomic that all threads change.
#ifdef __SANITIZE_THREAD__
static int shim_fence __attribute__((unused));
#define __threadfence_system() ((void)__atomic_fetch_add(&shim_fence, 1, __ATOMIC_SEQ_CST))
#else
#define __threadfence_system() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

static inline u64 lab_now(void)
{
    return (u64)(time_now_ms() * 1e6);
}

static inline u32 lab_multiprocessor(void)
{
    return blockIdx.x % 4;
}

// ---- launches -------------------------------------------------------------------------------------------------------

typedef struct ShimThread {
    void (*kernel)(const LabArgs);
    const LabArgs *args;
    u32 number;
} ShimThread;

static inline void *shim_run_thread(void *context)
{
    const ShimThread *thread = context;
    threadIdx.x = thread->number;
    for (u32 block = gridDim.x; block-- > 0;) {
        if (threadIdx.x == 0)
            blockIdx.x = block;
        __syncthreads();
        thread->kernel(*thread->args);
        __syncthreads();
    }
    return NULL;
}

static inline void shim_launch(void (*kernel)(const LabArgs), const LabArgs *args, u32 n_blocks, u32 threads_per_block)
{
    static ShimThread threads[SHIM_THREADS_MAX];
    static pthread_t handles[SHIM_THREADS_MAX];
    pthread_attr_t attributes;
    gridDim.x = n_blocks;
    blockDim.x = threads_per_block;
    pthread_barrier_init(&shim_block, NULL, threads_per_block);
    for (u32 w = 0; w < threads_per_block / 32; w++)
        pthread_barrier_init(&shim_warps[w], NULL, 32);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (u32 t = 0; t < threads_per_block; t++) {
        threads[t] = (ShimThread){ kernel, args, t };
        if (pthread_create(&handles[t], &attributes, shim_run_thread, &threads[t]))
            abort();
    }
    for (u32 t = 0; t < threads_per_block; t++)
        pthread_join(handles[t], NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&shim_block);
    for (u32 w = 0; w < threads_per_block / 32; w++)
        pthread_barrier_destroy(&shim_warps[w]);
}

#endif
