// measure.c - how fast memory is: read by the CPU, copied to a GPU, read by a GPU.
//
// Each figure is the best of a few passes over a buffer much larger than any cache.  A pass reads and does next to
// nothing else, so what comes out is the limit that a scan can reach, and what EXPLAIN ANALYZE may be compared with.

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda_driver.h"
#include "device/survey.h"
#include "jit/nvrtc.h"

enum { N_PASSES = 5, N_LAUNCHES = 1000, READ_THREADS = 256 };

static double rate(size_t bytes, double time_ms)
{
    return time_ms > 0 ? (double)bytes / time_ms / 1e6 : 0;
}

// ---- the CPU --------------------------------------------------------------------------------------------------------

typedef u64 Lane __attribute__((vector_size(32)));          // the compiler splits it where registers are smaller

typedef struct Reading {
    const Lane  *memory;
    size_t       n_lanes;
    int          n_workers;
    _Atomic u64  sum;                                       // so that reading is not for nothing
} Reading;

static void read_part(void *context, int worker)
{
    Reading *reading = context;
    size_t part = reading->n_lanes / (size_t)reading->n_workers & ~(size_t)3;
    const Lane *lanes = reading->memory + part * (size_t)worker;
    Lane sums[4] = { { 0 } };                               // four chains, so that adding is never the limit
    for (size_t i = 0; i < part; i += 4)
        for (int k = 0; k < 4; k++)
            sums[k] += lanes[i + (size_t)k];
    Lane sum = sums[0] + sums[1] + sums[2] + sums[3];
    reading->sum += sum[0] + sum[1] + sum[2] + sum[3];
}

typedef struct Filling { u8 *memory; size_t bytes; int n_workers; } Filling;

// By the threads that read it: memory lies near the processor that touches it first.
static void fill_part(void *context, int worker)
{
    Filling *filling = context;
    size_t part = filling->bytes / (size_t)filling->n_workers;
    memset(filling->memory + part * (size_t)worker, 1, part);
}

static double read_speed(Pool *pool, const void *memory, size_t bytes, int n_workers)
{
    Reading reading = { .memory = memory, .n_lanes = bytes / sizeof(Lane), .n_workers = n_workers };
    double best_ms = 0;
    for (int pass = 0; pass < N_PASSES; pass++) {
        double start = time_now_ms();
        pool_run(pool, n_workers, read_part, &reading);
        double time_ms = time_now_ms() - start;
        best_ms = pass == 0 ? time_ms : MIN_OF(best_ms, time_ms);
    }
    return rate(bytes, best_ms);
}

weft_status measure_cpu(CpuSpeeds *speeds, Error *err)
{
    CpuInfo cpu;
    Budget budget = { 0 };
    void *memory;
    survey_cpu(&cpu);
    size_t bytes = (size_t)MIN_OF(cpu.memory_bytes / 8, (i64)1 << 30) & ~(size_t)4095;
    TRY(mem_alloc(&budget, bytes, &memory, err));
    Pool *pool = pool_new(cpu.n_cores);
    pool_run(pool, pool_size(pool), fill_part, &(Filling){ memory, bytes, pool_size(pool) });
    speeds->read_all = read_speed(pool, memory, bytes, pool_size(pool));
    speeds->read_one = read_speed(pool, memory, bytes, 1);
    pool_free(pool);
    mem_free(&budget, memory, bytes);
    return WEFT_OK;
}

// ---- a GPU ----------------------------------------------------------------------------------------------------------

// A thread reads 16 bytes at a time, eight in flight; the test at the end keeps the compiler from dropping it all.
static const char kernel_text[] =
    "extern \"C\" __global__ void weft_read(const ulonglong2 *data, unsigned long long n, unsigned long long *out)\n"
    "{\n"
    "    unsigned long long sum = 0, step = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    for (; i + 7 * step < n; i += 8 * step) {\n"
    "        ulonglong2 v[8];\n"
    "        #pragma unroll\n"
    "        for (int k = 0; k < 8; k++) v[k] = __ldcs(data + i + k * step);\n"
    "        #pragma unroll\n"
    "        for (int k = 0; k < 8; k++) sum += v[k].x ^ v[k].y;\n"
    "    }\n"
    "    for (; i < n; i += step) sum += data[i].x ^ data[i].y;\n"
    "    if (sum == 0x9e3779b97f4a7c15ull) *out = sum;\n"
    "}\n"
    "extern \"C\" __global__ void weft_nothing(void) {}\n";

typedef struct GpuBench {
    const CudaDriver *cu;
    CuDevice  device;
    CuContext context, context_before;                      // the caller's thread may have one of its own
    CuStream  stream;
    CuEvent   start, end;
    CuModule  module;
    CuAddress memory;
    size_t    device_bytes, copy_bytes;
    void     *pinned;                                       // COPY_BYTES
} GpuBench;

// A quarter of the free memory of the device, at most BYTES_MOST; COPY_MOST of pinned memory.
static weft_status open_bench(GpuBench *bench, int ordinal, size_t bytes_most, size_t copy_most, Error *err)
{
    const CudaDriver *cu = bench->cu;
    size_t bytes_free, bytes_total;
    CUDA_TRY(cu, CtxGetCurrent, (&bench->context_before), err);
    CUDA_TRY(cu, DeviceGet, (&bench->device, ordinal), err);
    CUDA_TRY(cu, DevicePrimaryCtxRetain, (&bench->context, bench->device), err);
    CUDA_TRY(cu, CtxSetCurrent, (bench->context), err);
    CUDA_TRY(cu, StreamCreate, (&bench->stream, CU_STREAM_NON_BLOCKING), err);
    CUDA_TRY(cu, EventCreate, (&bench->start, 0), err);
    CUDA_TRY(cu, EventCreate, (&bench->end, 0), err);
    CUDA_TRY(cu, MemGetInfo, (&bytes_free, &bytes_total), err);
    bench->device_bytes = MIN_OF(bytes_free / 4, bytes_most) & ~(size_t)4095;
    bench->copy_bytes = MIN_OF(bench->device_bytes, copy_most);
    CUDA_TRY(cu, MemAlloc, (&bench->memory, bench->device_bytes), err);
    CUDA_TRY(cu, MemsetD8Async, (bench->memory, 0, bench->device_bytes, bench->stream), err);
    if (bench->copy_bytes) {
        CUDA_TRY(cu, MemHostAlloc, (&bench->pinned, bench->copy_bytes, 0), err);
        memset(bench->pinned, 1, bench->copy_bytes);
    }
    CUDA_TRY(cu, StreamSynchronize, (bench->stream), err);
    return WEFT_OK;
}

// What fails here fails because something before did, and that has been said.  What was asked for before it may still
// be at work.
static void close_bench(GpuBench *bench)
{
    const CudaDriver *cu = bench->cu;
    if (bench->stream)
        cu->StreamSynchronize(bench->stream);
    if (bench->module)
        cu->ModuleUnload(bench->module);
    if (bench->pinned)
        cu->MemFreeHost(bench->pinned);
    if (bench->memory)
        cu->MemFree(bench->memory);
    if (bench->start)
        cu->EventDestroy(bench->start);
    if (bench->end)
        cu->EventDestroy(bench->end);
    if (bench->stream)
        cu->StreamDestroy(bench->stream);
    if (bench->context) {
        cu->CtxSetCurrent(bench->context_before);
        cu->DevicePrimaryCtxRelease(bench->device);
    }
}

typedef enum CopyKind { COPY_TO_DEVICE, COPY_TO_HOST } CopyKind;

// By the host's clock: copies of pageable memory are made by the host.
static weft_status copy_speed(GpuBench *bench, CopyKind kind, void *host, double *speed, Error *err)
{
    const CudaDriver *cu = bench->cu;
    *speed = 0;
    for (int pass = 0; pass < N_PASSES; pass++) {
        double start = time_now_ms();
        if (kind == COPY_TO_DEVICE)
            CUDA_TRY(cu, MemcpyHtoDAsync, (bench->memory, host, bench->copy_bytes, bench->stream), err);
        else
            CUDA_TRY(cu, MemcpyDtoHAsync, (host, bench->memory, bench->copy_bytes, bench->stream), err);
        CUDA_TRY(cu, StreamSynchronize, (bench->stream), err);
        *speed = MAX_OF(*speed, rate(bench->copy_bytes, time_now_ms() - start));
    }
    return WEFT_OK;
}

static weft_status measure_copies(GpuBench *bench, GpuSpeeds *speeds, Error *err)
{
    TRY(copy_speed(bench, COPY_TO_DEVICE, bench->pinned, &speeds->to_device_pinned, err));
    TRY(copy_speed(bench, COPY_TO_HOST, bench->pinned, &speeds->to_host_pinned, err));
    void *pageable;
    Budget budget = { 0 };
    TRY(mem_alloc(&budget, bench->copy_bytes, &pageable, err));
    memset(pageable, 1, bench->copy_bytes);
    weft_status status = copy_speed(bench, COPY_TO_DEVICE, pageable, &speeds->to_device_pageable, err);
    if (status)
        bench->cu->StreamSynchronize(bench->stream);        // it may still be copied from
    mem_free(&budget, pageable, bench->copy_bytes);
    return status;
}

static weft_status load_kernels(GpuBench *bench, CuFunction *reader, CuFunction *nothing, Error *err)
{
    CubinJob job = { .prelude = "", .text = kernel_text, .driver_version = bench->cu->version };
    Text     cubin = { 0 };
    bool     was_cached;
    CUDA_TRY(bench->cu, DeviceGetAttribute, (&job.major, CU_DEVICE_CAPABILITY_MAJOR, bench->device), err);
    CUDA_TRY(bench->cu, DeviceGetAttribute, (&job.minor, CU_DEVICE_CAPABILITY_MINOR, bench->device), err);
    Cubins     *cubins = cubins_new("");                    // what is measured once is not worth a file
    weft_status status = cubins_get(cubins, &job, &cubin, &was_cached, err);
    if (!status)
        status = cuda_check(bench->cu, bench->cu->ModuleLoadData(&bench->module, cubin.bytes), "cuModuleLoadData", err);
    text_free(&cubin);
    cubins_free(cubins);
    TRY(status);
    CUDA_TRY(bench->cu, ModuleGetFunction, (reader, bench->module, "weft_read"), err);
    CUDA_TRY(bench->cu, ModuleGetFunction, (nothing, bench->module, "weft_nothing"), err);
    return WEFT_OK;
}

static weft_status time_reader(GpuBench *bench, CuFunction reader, double *speed, Error *err)
{
    const CudaDriver *cu = bench->cu;
    int n_blocks = 0, n_multiprocessors = 0;
    CUDA_TRY(cu, DeviceGetAttribute, (&n_multiprocessors, CU_DEVICE_MULTIPROCESSORS, bench->device), err);
    CUDA_TRY(cu, OccupancyMaxActiveBlocksPerMultiprocessor, (&n_blocks, reader, READ_THREADS, 0), err);
    u64 n_pieces = bench->device_bytes / 16;
    CuAddress out = bench->memory;                          // never written
    void *arguments[] = { &bench->memory, &n_pieces, &out };
    float time_ms;
    for (int pass = 0; pass < N_PASSES; pass++) {
        CUDA_TRY(cu, EventRecord, (bench->start, bench->stream), err);
        CUDA_TRY(cu, LaunchKernel,
                 (reader, (unsigned)(n_blocks * n_multiprocessors), 1, 1, READ_THREADS, 1, 1, 0, bench->stream,
                  arguments, NULL),
                 err);
        CUDA_TRY(cu, EventRecord, (bench->end, bench->stream), err);
        CUDA_TRY(cu, EventSynchronize, (bench->end), err);
        CUDA_TRY(cu, EventElapsedTime, (&time_ms, bench->start, bench->end), err);
        *speed = MAX_OF(*speed, rate(bench->device_bytes, time_ms));
    }
    return WEFT_OK;
}

static weft_status time_launches(GpuBench *bench, CuFunction nothing, double *launch_us, Error *err)
{
    const CudaDriver *cu = bench->cu;
    for (int pass = 0; pass < N_PASSES; pass++) {
        double start = time_now_ms();
        for (int i = 0; i < N_LAUNCHES; i++)
            CUDA_TRY(cu, LaunchKernel, (nothing, 1, 1, 1, 32, 1, 1, 0, bench->stream, NULL, NULL), err);
        CUDA_TRY(cu, StreamSynchronize, (bench->stream), err);
        double time_us = (time_now_ms() - start) * 1e3 / N_LAUNCHES;
        *launch_us = pass == 0 ? time_us : MIN_OF(*launch_us, time_us);
    }
    return WEFT_OK;
}

static weft_status measure_kernels(GpuBench *bench, GpuSpeeds *speeds, Error *err)
{
    CuFunction reader, nothing;
    TRY(load_kernels(bench, &reader, &nothing, err));
    TRY(time_reader(bench, reader, &speeds->read, err));
    return time_launches(bench, nothing, &speeds->launch_us, err);
}

weft_status measure_gpu(int ordinal, GpuSpeeds *speeds, Error *err)
{
    GpuBench bench = { 0 };
    *speeds = (GpuSpeeds){ 0 };
    TRY(cuda_need(&bench.cu, err));
    weft_status status = open_bench(&bench, ordinal, (size_t)4 << 30, (size_t)256 << 20, err);
    if (!status)
        status = measure_copies(&bench, speeds, err);
    if (!status)
        measure_kernels(&bench, speeds, &speeds->no_kernel);               // copies are worth telling without it
    close_bench(&bench);
    return status;
}

static weft_status measure_reads(GpuBench *bench, double *speed, Error *err)
{
    CuFunction reader, nothing;
    int        cache_bytes = 0;
    // 0 when it does not know.
    bench->cu->DeviceGetAttribute(&cache_bytes, CU_DEVICE_L2_BYTES, bench->device);
    if (bench->device_bytes < (size_t)8 * (size_t)MAX_OF(cache_bytes, 1))
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "too little device memory is free to measure how fast it is read");
    TRY(load_kernels(bench, &reader, &nothing, err));
    return time_reader(bench, reader, speed, err);
}

weft_status measure_gpu_reads(int ordinal, double *speed, Error *err)
{
    GpuBench bench = { 0 };
    *speed = 0;
    TRY(cuda_need(&bench.cu, err));
    weft_status status = open_bench(&bench, ordinal, (size_t)1 << 30, 0, err);
    if (!status)
        status = measure_reads(&bench, speed, err);
    close_bench(&bench);
    return status;
}
