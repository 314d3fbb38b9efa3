// kernel_args.h - what the lab's kernels and their host agree on; read by both.
//
// Texts in kernels/ are CUDA C that is C, too: a test runs them on the CPU with words of its own instead of those below
// (tests/unit/cuda_shim.h).  Every kernel takes one LabArgs, and any grid of one dimension with blocks of whole warps
// gives the same result.

#ifndef WEFT_LAB_KERNEL_ARGS_H
#define WEFT_LAB_KERNEL_ARGS_H

typedef struct LabBlockTime {                               // of a block, by the GPU's clock of nanoseconds
    unsigned long long start_ns, end_ns;
    unsigned multiprocessor, unused;
} LabBlockTime;

typedef struct LabArgs {
    const void *in[5];
    void *out[2];                                           // zeroed before the kernel begins
    void *scratch;                                          // likewise
    unsigned long long n[4];
    float f[4];
    LabBlockTime *times;                                    // one for each block; NULL: not wanted
} LabArgs;

#ifdef __CUDACC__
typedef unsigned char      u8;
typedef unsigned           u32;
typedef unsigned long long u64;

static __device__ __forceinline__ u64 lab_now(void)
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ u32 lab_multiprocessor(void)
{
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// 1,024 threads must fit, so a thread has 64 registers at most.
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(1024) name(const LabArgs A)
#define FUNCTION     static __device__ __forceinline__
#define SHARED       __shared__
#define UNROLLED     _Pragma("unroll")
#endif

#define THREAD       (threadIdx.x)
#define THREADS      (blockDim.x)
#define LANE         (threadIdx.x % 32)
#define WARP         (threadIdx.x / 32)
#define WARPS        (blockDim.x / 32)
#define GRID_THREAD  ((u64)blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_THREADS ((u64)gridDim.x * blockDim.x)
#define ALL_LANES    0xffffffffu

// The first and the last statement of a kernel: when and where the block ran.
#define BLOCK_BEGIN                                                 \
    if (A.times && THREAD == 0) {                                   \
        A.times[blockIdx.x].start_ns = lab_now();                   \
        A.times[blockIdx.x].multiprocessor = lab_multiprocessor();  \
    }
#define BLOCK_END                                                   \
    __syncthreads();                                                \
    if (A.times && THREAD == 0) A.times[blockIdx.x].end_ns = lab_now();

#endif
