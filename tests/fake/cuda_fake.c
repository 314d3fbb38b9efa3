// A libcuda and NVRTC without a GPU, for tests: memory is the host's, a kernel does nothing and takes a millisecond.
//
// $FAKE_CUDA says what is wrong with it, in words: none (no GPU), broken (cuInit fails), uncounted (cuDeviceGetCount
// does), ancient (a driver of CUDA 10.2), nameless (cuDeviceGetName fails), old (GPUs that Weft does not use), new
// (GPUs that NVRTC does not know), memory (no allocation succeeds), kernel (launches fail).  Otherwise there are two
// GPUs.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "jit/nvrtc_library.h"

static bool is_wrong(const char *word)
{
    const char *words = getenv("FAKE_CUDA");
    return words && strstr(words, word);
}

// ---- the driver -----------------------------------------------------------------------------------------------------

CuResult cuInit(unsigned flags)
{
    return is_wrong("none") ? CU_NO_DEVICE : is_wrong("broken") ? 999 : CU_SUCCESS;
}

CuResult cuDriverGetVersion(int *version)
{
    *version = is_wrong("ancient") ? 10020 : 12040;
    return CU_SUCCESS;
}

CuResult cuGetErrorName(CuResult result, const char **name)
{
    *name = result == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return CU_SUCCESS;
}

CuResult cuGetErrorString(CuResult result, const char **text)
{
    *text = result == CU_OUT_OF_MEMORY ? "out of memory" : "it is a fake";
    return CU_SUCCESS;
}

CuResult cuDeviceGetCount(int *count)
{
    *count = 2;
    return is_wrong("uncounted") ? 3 : CU_SUCCESS;
}

CuResult cuDeviceGet(CuDevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal < 2 ? CU_SUCCESS : 101;
}

CuResult cuDeviceGetName(char *name, int capacity, CuDevice device)
{
    if (is_wrong("nameless")) return 3;
    snprintf(name, (size_t)capacity, "Fake %d", 1000 + device);
    return CU_SUCCESS;
}

CuResult cuDeviceTotalMem_v2(size_t *bytes, CuDevice device)
{
    *bytes = (size_t)8 << 30;
    return CU_SUCCESS;
}

CuResult cuDeviceGetAttribute(int *value, int attribute, CuDevice device)
{
    switch (attribute) {
    case CU_DEVICE_CAPABILITY_MAJOR: *value = is_wrong("old") ? 6 : is_wrong("new") ? 19 : 8; break;
    case CU_DEVICE_CAPABILITY_MINOR: *value = is_wrong("old") || is_wrong("new") ? 1 : 6; break;
    case CU_DEVICE_MULTIPROCESSORS:  *value = 28; break;
    case CU_DEVICE_CLOCK_KHZ:        *value = 1500000; break;
    case CU_DEVICE_L2_BYTES:         *value = 3 << 20; break;
    default:                         return 1;
    }
    return CU_SUCCESS;
}

CuResult cuDeviceGetPCIBusId(char *id, int capacity, CuDevice device)
{
    snprintf(id, (size_t)capacity, "0000:0%d:00.0", device + 1);
    return CU_SUCCESS;
}

CuResult cuDevicePrimaryCtxRetain(CuContext *context, CuDevice device)
{
    *context = (CuContext)context;                          // anything that is not NULL
    return CU_SUCCESS;
}

CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device)
{
    return CU_SUCCESS;
}

CuResult cuCtxSetCurrent(CuContext context)
{
    return CU_SUCCESS;
}

CuResult cuCtxGetCurrent(CuContext *context)
{
    *context = NULL;
    return CU_SUCCESS;
}

CuResult cuMemGetInfo_v2(size_t *bytes_free, size_t *bytes_total)
{
    *bytes_free = (size_t)16 << 20;
    *bytes_total = (size_t)8 << 30;
    return CU_SUCCESS;
}

CuResult cuMemAlloc_v2(CuAddress *address, size_t bytes)
{
    void *memory = is_wrong("memory") ? NULL : malloc(bytes);
    *address = (CuAddress)(uintptr_t)memory;
    return memory ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

CuResult cuMemFree_v2(CuAddress address)
{
    free((void *)(uintptr_t)address);
    return CU_SUCCESS;
}

CuResult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    *memory = malloc(bytes);
    return *memory ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

CuResult cuMemFreeHost(void *memory)
{
    free(memory);
    return CU_SUCCESS;
}

CuResult cuMemcpyHtoDAsync_v2(CuAddress to, const void *from, size_t bytes, CuStream stream)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CU_SUCCESS;
}

CuResult cuMemcpyDtoHAsync_v2(void *to, CuAddress from, size_t bytes, CuStream stream)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return CU_SUCCESS;
}

CuResult cuMemsetD8Async(CuAddress to, unsigned char value, size_t count, CuStream stream)
{
    memset((void *)(uintptr_t)to, value, count);
    return CU_SUCCESS;
}

CuResult cuStreamCreate(CuStream *stream, unsigned flags)
{
    *stream = (CuStream)stream;
    return CU_SUCCESS;
}

CuResult cuStreamDestroy_v2(CuStream stream)
{
    return CU_SUCCESS;
}

CuResult cuStreamSynchronize(CuStream stream)
{
    return CU_SUCCESS;
}

CuResult cuEventCreate(CuEvent *event, unsigned flags)
{
    *event = (CuEvent)event;
    return CU_SUCCESS;
}

CuResult cuEventDestroy_v2(CuEvent event)
{
    return CU_SUCCESS;
}

CuResult cuEventRecord(CuEvent event, CuStream stream)
{
    return CU_SUCCESS;
}

CuResult cuEventSynchronize(CuEvent event)
{
    return CU_SUCCESS;
}

CuResult cuEventElapsedTime(float *time_ms, CuEvent start, CuEvent end)
{
    *time_ms = 1;
    return CU_SUCCESS;
}

CuResult cuModuleLoadData(CuModule *module, const void *image)
{
    *module = (CuModule)module;
    return CU_SUCCESS;
}

CuResult cuModuleUnload(CuModule module)
{
    return CU_SUCCESS;
}

CuResult cuModuleGetFunction(CuFunction *function, CuModule module, const char *name)
{
    *function = (CuFunction)function;
    return CU_SUCCESS;
}

CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CuFunction function, int threads,
                                                     size_t dynamic_shared)
{
    *blocks = 4;
    return CU_SUCCESS;
}

CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_shared, CuStream stream, void **parameters,
                        void **extra)
{
    return is_wrong("kernel") ? 719 : CU_SUCCESS;
}

// ---- NVRTC ----------------------------------------------------------------------------------------------------------

NvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 12;
    *minor = 4;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(NvrtcResult result);
const char *nvrtcGetErrorString(NvrtcResult result)
{
    return "it is a fake";
}

NvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcGetSupportedArchs(int *architectures)
{
    architectures[0] = 86;
    architectures[1] = 90;
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcCreateProgram(NvrtcProgram *program, const char *text, const char *name, int n_headers,
                               const char *const *headers, const char *const *header_names)
{
    *program = (NvrtcProgram)program;
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcDestroyProgram(NvrtcProgram *program)
{
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcCompileProgram(NvrtcProgram program, int n_options, const char *const *options)
{
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcGetCUBINSize(NvrtcProgram program, size_t *bytes)
{
    *bytes = 4;
    return NVRTC_SUCCESS;
}

NvrtcResult nvrtcGetCUBIN(NvrtcProgram program, char *cubin)
{
    memcpy(cubin, "code", 4);
    return NVRTC_SUCCESS;
}
