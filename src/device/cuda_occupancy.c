// cuda_occupancy.c - whether the model (src/model) and the driver agree on how many blocks a multiprocessor holds.
//
// Every kernel that is there is asked about with every block size, with the shared memory that it was launched with and
// with more.  For tests: tests/gpu/occupancy.c, and WEFT_CHECK_OCCUPANCY=on, which checks when a device is closed.

#include "device/cuda_int.h"

#include <stdio.h>

enum { THREADS_LEAST = 32, THREADS_MOST = 1024 };

// As the driver sees it.  A block that it does not take at all is none.
static int blocks_of_driver(const CudaGpu *cuda, const GpuCode *code, int threads, u32 dynamic_shared)
{
    int            blocks = 0;
    const CuResult result =
        cuda->cu->OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, code->function, threads, dynamic_shared);
    return result == CU_SUCCESS ? blocks : 0;
}

static void check_size(const CudaGpu *cuda, const CodeEntry *kernel, int threads, u32 dynamic_shared,
                       OccupancyCheck *check)
{
    const GpuCode    *code = &kernel->code;
    const KernelNeeds needs = { code->registers, code->static_shared + (int)dynamic_shared, code->threads_most };
    const int         expected = blocks_of_driver(cuda, code, threads, dynamic_shared),
                      got = occupancy_of(&cuda->gpu.limits, &needs, threads).blocks;
    check->n_shapes++;
    if (got == expected) return;
    if (!check->n_wrong++)
        snprintf(check->first_wrong, sizeof check->first_wrong,
                 "%.60s, %d threads, %d registers, %d + %u bytes of shared memory: the model says %d blocks, %s %d",
                 kernel->key, threads, code->registers, code->static_shared, dynamic_shared, got, cuda->gpu.name,
                 expected);
}

static void check_kernel(CudaGpu *cuda, const CodeEntry *kernel, OccupancyCheck *check)
{
    const u32 most = (u32)(cuda->gpu.shared_per_block - kernel->code.static_shared);
    const u32 also[] = { 0, 1000, 12 << 10, 40 << 10, 64 << 10, most };
    check->n_kernels++;
    for (int threads = THREADS_LEAST; threads <= THREADS_MOST; threads++) {
        for (int s = 0; s < COUNT_OF(also); s++)
            if (also[s] <= most) check_size(cuda, kernel, threads, also[s], check);
        for (int f = 0; f < MIN_OF(kernel->n_fits, N_FITS); f++)
            check_size(cuda, kernel, threads, kernel->fits[f].launch_shared, check);
    }
}

bool cuda_check_occupancy(Device *device, OccupancyCheck *check)
{
    CudaGpu         *cuda = cuda_gpu((Gpu *)device);
    Error            ignored = { 0 };
    const GpuContext before = gpu_visit(&cuda->gpu);
    *check = (OccupancyCheck){ 0 };
    const bool can_check = cuda->gpu.has_limits && !gpu_enter(&cuda->gpu, &ignored);
    for (const CodeEntry *kernel = cuda->gpu.kernels; can_check && kernel; kernel = kernel->next)
        if (kernel->state == KERNEL_READY) check_kernel(cuda, kernel, check);
    gpu_leave(&cuda->gpu, before);
    return can_check;
}
