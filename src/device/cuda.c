// cuda.c - an NVIDIA GPU: its driver's calls, its properties and its context.  What is done with it is in gpu.c.

#include "device/cuda_int.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)GPU_SUCCESS == (int)CU_SUCCESS && (int)GPU_OUT_OF_MEMORY == (int)CU_OUT_OF_MEMORY &&
                   (int)GPU_NOT_READY == (int)CU_NOT_READY,
               "results are CUDA's");
_Static_assert((int)GPU_STREAM_NON_BLOCKING == (int)CU_STREAM_NON_BLOCKING &&
                   (int)GPU_EVENT_BLOCKING_SYNC == (int)CU_EVENT_BLOCKING_SYNC &&
                   (int)GPU_EVENT_DISABLE_TIMING == (int)CU_EVENT_DISABLE_TIMING &&
                   (int)GPU_HOST_PORTABLE == (int)CU_HOST_PORTABLE &&
                   (int)GPU_REGISTER_PORTABLE == (int)CU_REGISTER_PORTABLE &&
                   (int)GPU_REGISTER_DEVICE_MAP == (int)CU_REGISTER_DEVICE_MAP,
               "flags are CUDA's");

// ---- calls ----------------------------------------------------------------------------------------------------------

static GpuResult copy_batch(GpuAddress *to, GpuAddress *from, size_t *bytes, size_t count, GpuStream stream)
{
    CuCopyAttributes attributes = { .source_order = CU_SOURCE_ORDER_STREAM };
    size_t           first = 0;
    return cuda_driver()->MemcpyBatchAsync(to, from, bytes, count, &attributes, &first, 1, stream);
}

static void take_calls(CudaGpu *cuda)
{
#define CUDA_TAKE(field, parameters) .field = cuda->cu->field,
    cuda->calls = (GpuCalls){ GPU_CALLS(CUDA_TAKE).MemcpyBatchAsync = cuda->cu->MemcpyBatchAsync ? copy_batch : NULL };
#undef CUDA_TAKE
    cuda->gpu.calls = &cuda->calls;
}

static weft_status check(GpuResult result, const char *call, Error *err)
{
    char name[80];
    snprintf(name, sizeof name, "cu%s", call);
    return cuda_check(cuda_driver(), result, name, err);
}

static bool is_ending(GpuResult result) { return result == CU_DEINITIALIZED; }

// ---- opening --------------------------------------------------------------------------------------------------------

// What the model is to know of the card.  A driver that does not say is no failure: then nothing is predicted.
static void read_limits(CudaGpu *cuda)
{
    DriverReport report = { .major = cuda->gpu.major, .minor = cuda->gpu.minor };
    Error        why = { 0 };
    const struct { int *to, attribute;
    } wanted[] = {
        { &report.n_multiprocessors, CU_DEVICE_MULTIPROCESSORS },
        { &report.threads_per_warp, CU_DEVICE_WARP_SIZE },
        { &report.threads_per_block, CU_DEVICE_THREADS_PER_BLOCK },
        { &report.threads_per_multiprocessor, CU_DEVICE_THREADS_PER_MULTIPROCESSOR },
        { &report.blocks_per_multiprocessor, CU_DEVICE_BLOCKS_PER_MULTIPROCESSOR },
        { &report.registers_per_block, CU_DEVICE_REGISTERS_PER_BLOCK },
        { &report.registers_per_multiprocessor, CU_DEVICE_REGISTERS_PER_MULTIPROCESSOR },
        { &report.shared_per_block, CU_DEVICE_SHARED_PER_BLOCK_OPTIN },
        { &report.shared_per_multiprocessor, CU_DEVICE_SHARED_PER_MULTIPROCESSOR },
        { &report.shared_reserved, CU_DEVICE_SHARED_RESERVED_PER_BLOCK },
    };
    for (int i = 0; i < COUNT_OF(wanted); i++)
        if (cuda->cu->DeviceGetAttribute(wanted[i].to, wanted[i].attribute, cuda->handle)) *wanted[i].to = 0;
    cuda->gpu.has_limits = limits_of_driver(&report, &cuda->gpu.limits, &why) == WEFT_OK;
    if (!cuda->gpu.has_limits) log_debug("%s: the model does not know the card: %s", cuda->gpu.name, why.message);
}

static weft_status read_properties(CudaGpu *cuda, Error *err)
{
    Gpu *gpu = &cuda->gpu;
    CUDA_GPU_TRY(cuda, DeviceGet, (&cuda->handle, cuda->number), err);
    CUDA_GPU_TRY(cuda, DeviceGetName, (gpu->card, sizeof gpu->card, cuda->handle), err);
    const struct { int *to, attribute;
    } wanted[] = {
        { &gpu->major, CU_DEVICE_CAPABILITY_MAJOR },
        { &gpu->minor, CU_DEVICE_CAPABILITY_MINOR },
        { &gpu->n_sms, CU_DEVICE_MULTIPROCESSORS },
        { &gpu->threads_per_sm, CU_DEVICE_THREADS_PER_MULTIPROCESSOR },
        { &gpu->shared_per_block, CU_DEVICE_SHARED_PER_BLOCK_OPTIN },
        { &gpu->shared_per_sm, CU_DEVICE_SHARED_PER_MULTIPROCESSOR },
    };
    for (int i = 0; i < COUNT_OF(wanted); i++)
        CUDA_GPU_TRY(cuda, DeviceGetAttribute, (wanted[i].to, wanted[i].attribute, cuda->handle), err);
    gpu->shared_most = gpu_shared_most(gpu);
    read_limits(cuda);
    int clock_khz = 0, bus_bits = 0;       // a card may not say
    cuda->cu->DeviceGetAttribute(&clock_khz, CU_DEVICE_MEMORY_CLOCK_KHZ, cuda->handle);
    cuda->cu->DeviceGetAttribute(&bus_bits, CU_DEVICE_MEMORY_BUS_BITS, cuda->handle);
    gpu->peak_gbs = 2e-6 * clock_khz * bus_bits / 8;       // two transfers per clock
    return cuda_check_capability(gpu->name, gpu->card, gpu->major, gpu->minor, err);
}

static void cuda_close(Gpu *gpu)
{
    CudaGpu *cuda = cuda_gpu(gpu);
    if (gpu->context) cuda->cu->DevicePrimaryCtxRelease(cuda->handle);
    cubins_free(cuda->cubins);
    free(cuda->prelude);
}

static const GpuVendor nvidia = {
    .lost_hint = "The driver refuses all that this process asks of it from now on; a new process finds the GPU again.",
    .check = check,
    .is_sticky = cuda_is_sticky,
    .is_ending = is_ending,
    .load_code = cuda_load_code,
    .has_code = cuda_has_code,
    .can_be_quick = cuda_can_be_quick,
    .warm_compiler = cuda_warm_compiler,
    .close = cuda_close,
};

static weft_status open_parts(CudaGpu *cuda, const CudaOptions *options, Error *err)
{
    TRY(cuda_check_number(cuda->number, err));
    TRY(read_properties(cuda, err));
    TRY(cuda_check_compiler(cuda, err));
    CUDA_GPU_TRY(cuda, DevicePrimaryCtxRetain, (&cuda->gpu.context, cuda->handle), err);
    return gpu_open(&cuda->gpu, options->memory_bytes, err);
}

static weft_status open_gpu(CudaGpu *cuda, const CudaOptions *options, Error *err)
{
    TRY(cuda_need(&cuda->cu, err));
    take_calls(cuda);
    const GpuContext  before = gpu_visit(&cuda->gpu);
    const weft_status status = open_parts(cuda, options, err);
    if (!status) peak_recall(cuda);
    gpu_leave(&cuda->gpu, before);
    return status;
}

// For what the driver says without a word of what to do about it.
static void hint_opening(weft_status status, Error *err)
{
    if (status == WEFT_OUT_OF_MEMORY)
        error_hint(
            err,
            "Another process may have the memory: nvidia-smi lists them. WEFT_DEVICE_MEMORY=2GB makes Weft take less "
            "of a GPU's.");
    else error_hint(err, "nvidia-smi says more about the GPU and its driver.");
}

// For tests: WEFT_CHECK_OCCUPANCY=on.
static void close_checked(Device *device)
{
    const char    *wanted = getenv("WEFT_CHECK_OCCUPANCY");
    OccupancyCheck check;
    if (wanted && strcmp(wanted, "on") == 0 && cuda_check_occupancy(device, &check)) {
        if (check.n_wrong)
            log_warn("occupancy of %s: %d of %d shapes of %d kernels differ: %s", device->name, check.n_wrong,
                     check.n_shapes, check.n_kernels, check.first_wrong);
        else
            log_warn("occupancy of %s: %d shapes of %d kernels agree with the driver", device->name, check.n_shapes,
                     check.n_kernels);
    }
    cuda_gpu((Gpu *)device)->close(device);
}

weft_status device_cuda_open(int number, const CudaOptions *options, Device **device, Error *err)
{
    CudaGpu *cuda = calloc(1, sizeof *cuda);
    Text     prelude = { 0 };
    cuda->number = number;
    cuda->gpu.vendor = &nvidia;
    snprintf(cuda->gpu.name, sizeof cuda->gpu.name, "cuda:%d", number);
    gpu_init(&cuda->gpu);
    cuda->gpu.device.tell_peak = peak_tell;
    cuda->close = cuda->gpu.device.close, cuda->gpu.device.close = close_checked;
    text_add(&prelude, "%s\n%s", kernel_args_text, kernel_cuda_text);
    cuda->prelude = prelude.bytes;
    cuda->cubins = cubins_new(options->cache_dir);
    *device = &cuda->gpu.device;
    const weft_status status = open_gpu(cuda, options, err);
    if (!status) return WEFT_OK;
    hint_opening(status, err);
    (*device)->close(*device);
    *device = NULL;
    return status;
}

void cuda_warm(Device *device) { gpu_warm((Gpu *)device); }

bool cuda_is_lost(const Device *device, char *why, size_t capacity)
{
    return gpu_is_lost((Gpu *)(uintptr_t)device, why, capacity);
}

CudaMemory cuda_memory(Device *device)
{
    Gpu *gpu = (Gpu *)device;
    pthread_mutex_lock(&gpu->lock);
    const CudaMemory memory = { frames_total(gpu->frames), frames_held(gpu->frames), frames_copied(gpu->frames) };
    pthread_mutex_unlock(&gpu->lock);
    return memory;
}
