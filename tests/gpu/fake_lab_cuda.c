// fake_lab_cuda.c - a driver and an NVRTC for the lab's kernels without a GPU: a kernel is a function of the CPU whose
// threads are threads here (tests/unit/cuda_shim.h).
//
// It is for the host's side of src/lab/gpu.c, and is strict about it: memory starts out as garbage, copies must lie in
// what was allocated, and fake_lab_left() counts what was not given back.  Work is done when it is asked for, so it
// does not show what a stream forgot to wait for.  fake_lab_fail(n) makes the n-th call from then on fail.  The card
// has two multiprocessors of compute capability 9.0.  fake_lab_stubs.c has the calls that the lab does not make.

#include <stdio.h>

#include "../unit/lab_kernels.h"

#include "device/cuda_driver.h"
#include "jit/nvrtc_library.h"

// It takes the stars of parameters in macros for products.
// clang-format off
#define CALL __attribute__((visibility("default")))
#define DEFINE(symbol, parameters) CALL CuResult symbol parameters; CALL CuResult symbol parameters

enum { MEMORY_MAX = 4096, INVALID_VALUE = 1 };

static struct { u8 *first; size_t bytes; bool is_managed; } memory[MEMORY_MAX];
static int n_left, n_calls, fail_at, n_launches;

CALL int  fake_lab_left(void);
CALL void fake_lab_fail(int nth);
CALL int  fake_lab_calls(void);

CALL int fake_lab_left(void) { return n_left; }
CALL int fake_lab_calls(void) { return n_calls; }
CALL void fake_lab_fail(int nth) { fail_at = nth, n_calls = 0; }

#define ENTER if (++n_calls == fail_at) return CU_OUT_OF_MEMORY

// ---- the device -----------------------------------------------------------------------------------------------------

DEFINE(cuInit, (unsigned flags)) { return 0; }
DEFINE(cuDriverGetVersion, (int *version)) { return *version = 12990, 0; }
DEFINE(cuGetErrorName, (CuResult result, const char **name)) { return *name = "CUDA_ERROR_FAKE", 0; }
DEFINE(cuGetErrorString, (CuResult result, const char **text)) { return *text = "made to fail", 0; }
DEFINE(cuDeviceGetCount, (int *count)) { return *count = 1, 0; }
DEFINE(cuDeviceGet, (CuDevice *device, int ordinal)) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
DEFINE(cuDeviceGetName, (char *name, int capacity, CuDevice device))
{
    snprintf(name, (size_t)capacity, "fake GPU of the lab");
    return 0;
}

DEFINE(cuDeviceGetAttribute, (int *value, int attribute, CuDevice device))
{
    static const struct { int attribute, value; } known[] = {
        { CU_DEVICE_THREADS_PER_BLOCK, 1024 }, { 12, 65536 }, { CU_DEVICE_WARP_SIZE, 32 },
        { CU_DEVICE_MULTIPROCESSORS, 2 }, { CU_DEVICE_THREADS_PER_MULTIPROCESSOR, 2048 },
        { CU_DEVICE_CAPABILITY_MAJOR, 9 }, { CU_DEVICE_CAPABILITY_MINOR, 0 },
        { CU_DEVICE_SHARED_PER_MULTIPROCESSOR, 233472 }, { CU_DEVICE_REGISTERS_PER_MULTIPROCESSOR, 65536 },
        { CU_DEVICE_SHARED_PER_BLOCK_OPTIN, 232448 }, { CU_DEVICE_BLOCKS_PER_MULTIPROCESSOR, 32 },
        { CU_DEVICE_SHARED_RESERVED_PER_BLOCK, 1024 }, { CU_DEVICE_MANAGED_AT_ONCE, 1 },
    };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (known[i].attribute == attribute) return *value = known[i].value, 0;
    return INVALID_VALUE;
}

static int a_context;

DEFINE(cuDevicePrimaryCtxRetain, (CuContext *context, CuDevice device))
{
    ENTER;
    *context = (CuContext)&a_context;
    n_left++;
    return 0;
}

DEFINE(cuDevicePrimaryCtxRelease_v2, (CuDevice device)) { return n_left--, 0; }

// A kernel that stays runs beside its host: one at a time, and no other kernel meanwhile.
static struct { pthread_t thread; bool is_running; CuStream stream; const LabFunction *function; LabArgs args;
                unsigned grid, block; } resident;

static void *run_resident(void *context)
{
    shim_launch(resident.function->run, &resident.args, resident.grid, resident.block);
    return NULL;
}

static void join_resident(void)
{
    if (resident.is_running) pthread_join(resident.thread, NULL);
    resident.is_running = false;
}

DEFINE(cuCtxSynchronize, (void)) { ENTER; return join_resident(), 0; }

// ---- memory ---------------------------------------------------------------------------------------------------------

static CuResult allocate(u8 **address, size_t bytes)
{
    int at = 0;
    while (at < MEMORY_MAX && memory[at].first) at++;
    if (at == MEMORY_MAX || bytes == 0) return INVALID_VALUE;
    memory[at].first = *address = malloc(bytes);
    memory[at].bytes = bytes;
    memory[at].is_managed = false;
    memset(memory[at].first, 0xa5, bytes);
    return n_left++, 0;
}

static CuResult release(const u8 *address)
{
    for (int i = 0; i < MEMORY_MAX; i++)
        if (memory[i].first == address && address) {
            free(memory[i].first);
            memory[i].first = NULL;
            return n_left--, 0;
        }
    return INVALID_VALUE;
}

static bool is_allocated(const u8 *first, size_t bytes)
{
    for (int i = 0; i < MEMORY_MAX; i++)
        if (memory[i].first && first >= memory[i].first && first + bytes <= memory[i].first + memory[i].bytes)
            return true;
    return false;
}

DEFINE(cuMemAlloc_v2, (CuAddress *address, size_t bytes)) { ENTER; return allocate((u8 **)address, bytes); }
DEFINE(cuMemFree_v2, (CuAddress address)) { return release((u8 *)address); }
DEFINE(cuMemHostAlloc, (void **host, size_t bytes, unsigned flags)) { ENTER; return allocate((u8 **)host, bytes); }
DEFINE(cuMemFreeHost, (void *host)) { return release(host); }
DEFINE(cuMemHostGetDevicePointer_v2, (CuAddress *address, void *host, unsigned flags))
{
    ENTER;
    return *address = (CuAddress)host, is_allocated(host, 1) ? 0 : INVALID_VALUE;
}

static bool is_managed(CuAddress first, size_t bytes)
{
    const u8 *at = (const u8 *)first;
    for (int i = 0; i < MEMORY_MAX; i++)
        if (memory[i].first && memory[i].is_managed && at >= memory[i].first &&
            at + bytes <= memory[i].first + memory[i].bytes)
            return true;
    return false;
}

DEFINE(cuMemAllocManaged, (CuAddress *address, size_t bytes, unsigned flags))
{
    ENTER;
    if (flags != CU_MANAGED_GLOBAL) return INVALID_VALUE;
    const CuResult result = allocate((u8 **)address, bytes);
    for (int i = 0; i < MEMORY_MAX && !result; i++)
        if (memory[i].first == (u8 *)*address) memory[i].is_managed = true;
    return result;
}

// Advice and prefetches are for managed memory only, for the card or the host, and not while a kernel stays.
DEFINE(cuMemAdvise, (CuAddress address, size_t bytes, int advice, CuDevice device))
{
    ENTER;
    const bool is_known = advice == CU_ADVISE_READ_MOSTLY || advice == CU_ADVISE_PREFERRED_LOCATION ||
                          (advice == CU_ADVISE_ACCESSED_BY && device == 0);
    if (!is_known || (device != 0 && device != CU_ON_HOST) || resident.is_running) return INVALID_VALUE;
    return is_managed(address, bytes) ? 0 : INVALID_VALUE;
}

DEFINE(cuMemPrefetchAsync, (CuAddress address, size_t bytes, CuDevice device, CuStream stream))
{
    ENTER;
    if (!stream || (device != 0 && device != CU_ON_HOST) || resident.is_running) return INVALID_VALUE;
    return is_managed(address, bytes) ? 0 : INVALID_VALUE;
}

DEFINE(cuMemcpyHtoDAsync_v2, (CuAddress to, const void *from, size_t bytes, CuStream stream))
{
    ENTER;
    if (!stream || !is_allocated((u8 *)to, bytes)) return CU_ILLEGAL_ADDRESS;
    memcpy((void *)to, from, bytes);
    return 0;
}

DEFINE(cuMemcpyDtoHAsync_v2, (void *to, CuAddress from, size_t bytes, CuStream stream))
{
    ENTER;
    if (!stream || !is_allocated((u8 *)from, bytes)) return CU_ILLEGAL_ADDRESS;
    memcpy(to, (void *)from, bytes);
    return 0;
}

DEFINE(cuMemsetD8Async, (CuAddress to, unsigned char value, size_t count, CuStream stream))
{
    ENTER;
    if (!stream || !is_allocated((u8 *)to, count)) return CU_ILLEGAL_ADDRESS;
    memset((void *)to, value, count);
    return 0;
}

// ---- streams and events ---------------------------------------------------------------------------------------------

typedef struct Event { double time_ms; } Event;

DEFINE(cuStreamCreate, (CuStream *stream, unsigned flags))
{
    ENTER;
    *stream = malloc(1);
    return n_left++, 0;
}

DEFINE(cuStreamDestroy_v2, (CuStream stream)) { return free(stream), n_left--, 0; }
DEFINE(cuStreamSynchronize, (CuStream stream))
{
    if (stream && stream == resident.stream) join_resident();
    ENTER;
    return stream ? 0 : INVALID_VALUE;
}
DEFINE(cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))
{
    ENTER;
    return stream && event ? 0 : INVALID_VALUE;
}

DEFINE(cuEventCreate, (CuEvent *event, unsigned flags))
{
    ENTER;
    *event = calloc(1, sizeof(Event));
    return n_left++, 0;
}

DEFINE(cuEventDestroy_v2, (CuEvent event)) { return free(event), n_left--, 0; }
DEFINE(cuEventSynchronize, (CuEvent event)) { ENTER; return event ? 0 : INVALID_VALUE; }
DEFINE(cuEventRecord, (CuEvent event, CuStream stream))
{
    ENTER;
    if (!event || !stream) return INVALID_VALUE;
    ((Event *)event)->time_ms = time_now_ms();
    return 0;
}

DEFINE(cuEventElapsedTime, (float *time_ms, CuEvent start, CuEvent end))
{
    ENTER;
    *time_ms = (float)(((Event *)end)->time_ms - ((Event *)start)->time_ms);
    return 0;
}

// ---- code: the compiler keeps the text, and the module the name of its last kernel ----------------------------------

DEFINE(cuModuleLoadData, (CuModule *module, const void *image))
{
    ENTER;
    *module = malloc(1);
    return n_left++, 0;
}

DEFINE(cuModuleUnload, (CuModule module)) { return free(module), n_left--, 0; }
DEFINE(cuModuleGetFunction, (CuFunction *function, CuModule module, const char *name))
{
    ENTER;
    for (int i = 0; i < COUNT_OF(lab_functions); i++)
        if (!strcmp(lab_functions[i].name, name)) return *function = (CuFunction)&lab_functions[i], 0;
    return INVALID_VALUE;
}

DEFINE(cuFuncGetAttribute, (int *value, int attribute, CuFunction function))
{
    ENTER;
    *value = attribute == CU_FUNC_REGISTERS ? 32 : attribute == CU_FUNC_MAX_THREADS_PER_BLOCK ? 1024 : 4096;
    return 0;
}

DEFINE(cuFuncSetAttribute, (CuFunction function, int attribute, int value)) { ENTER; return 0; }

DEFINE(cuLaunchKernel, (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_shared, CuStream stream,
                        void **parameters, void **extra))
{
    ENTER;
    if (!stream || grid_y * grid_z * block_y * block_z != 1 || block_x % 32 || block_x > 1024 || extra)
        return INVALID_VALUE;
    const LabFunction *called = (const LabFunction *)function;
    if (resident.is_running) return INVALID_VALUE;
    n_launches++;
    if (!strstr(called->name, "_tasks") && !strstr(called->name, "_topics"))
        return shim_launch(called->run, parameters[0], grid_x, block_x), 0;
    resident.function = called;
    resident.args = *(const LabArgs *)parameters[0];
    resident.grid = grid_x;
    resident.block = block_x;
    resident.stream = stream;
    resident.is_running = pthread_create(&resident.thread, NULL, run_resident, NULL) == 0;
    return resident.is_running ? 0 : CU_OUT_OF_MEMORY;
}

// ---- CUPTI: two faults of the GPU, one of the CPU and a page each way for every launch ------------------------------

typedef struct FakeRecord { u32 kind, counter; u64 value; } FakeRecord;

static void (*give_buffer)(u8 **buffer, size_t *bytes, size_t *n_records);
static void (*read_buffer)(void *context, u32 stream, u8 *buffer, size_t bytes, size_t bytes_used);
static int first_launch;

#define DEFINE_CUPTI(symbol, parameters) CALL int symbol parameters; CALL int symbol parameters
DEFINE_CUPTI(cuptiActivityRegisterCallbacks, (void (*give)(u8 **, size_t *, size_t *),
                                              void (*read)(void *, u32, u8 *, size_t, size_t)))
{
    return give_buffer = give, read_buffer = read, 0;
}
DEFINE_CUPTI(cuptiActivityConfigureUnifiedMemoryCounter, (void *configs, u32 count)) { return count == 4 ? 0 : 1; }
DEFINE_CUPTI(cuptiActivityEnable, (int kind)) { return first_launch = n_launches, kind == 25 ? 0 : 1; }
DEFINE_CUPTI(cuptiActivityDisable, (int kind)) { return kind == 25 ? 0 : 1; }
DEFINE_CUPTI(cuptiActivityFlushAll, (u32 flags))
{
    const u64 n = (u64)(n_launches - first_launch);
    u8 *buffer = NULL;
    size_t bytes = 0, n_records = 0;
    give_buffer(&buffer, &bytes, &n_records);
    FakeRecord *records = (FakeRecord *)(void *)buffer;
    size_t at = 0;
    for (u64 i = 0; i < n && (at + 4) * sizeof(*records) <= bytes; i++) {
        records[at++] = (FakeRecord){ 25, 4, 2 };           // faults of the GPU
        records[at++] = (FakeRecord){ 25, 3, 0x1000 };      // of the CPU: an address
        records[at++] = (FakeRecord){ 25, 1, 4096 };
        records[at++] = (FakeRecord){ 25, 2, 4096 };
    }
    read_buffer(NULL, 0, buffer, bytes, at * sizeof(*records));
    return 0;
}
DEFINE_CUPTI(cuptiActivityGetNextRecord, (u8 *buffer, size_t bytes, void **record))
{
    u8 *next = *record ? (u8 *)*record + sizeof(FakeRecord) : buffer;
    return *record = next, next < buffer + bytes ? 0 : 1;
}

#define DEFINE_NVRTC(symbol, parameters) CALL NvrtcResult symbol parameters; CALL NvrtcResult symbol parameters

DEFINE_NVRTC(nvrtcVersion, (int *major, int *minor)) { return *major = 12, *minor = 9, 0; }
DEFINE_NVRTC(nvrtcCreateProgram, (NvrtcProgram *program, const char *text, const char *name, int n_headers,
                                  const char *const *headers, const char *const *header_names))
{
    return *program = (NvrtcProgram)strdup(text), 0;
}

DEFINE_NVRTC(nvrtcDestroyProgram, (NvrtcProgram *program)) { return free(*program), 0; }
DEFINE_NVRTC(nvrtcCompileProgram, (NvrtcProgram program, int n_options, const char *const *options)) { return 0; }
DEFINE_NVRTC(nvrtcGetProgramLogSize, (NvrtcProgram program, size_t *bytes)) { return *bytes = 0, 0; }
DEFINE_NVRTC(nvrtcGetProgramLog, (NvrtcProgram program, char *log)) { return 0; }
DEFINE_NVRTC(nvrtcGetCUBINSize, (NvrtcProgram program, size_t *bytes))
{
    return *bytes = strlen((const char *)program) + 1, 0;
}

DEFINE_NVRTC(nvrtcGetCUBIN, (NvrtcProgram program, char *cubin)) { return strcpy(cubin, (const char *)program), 0; }
DEFINE_NVRTC(nvrtcGetNumSupportedArchs, (int *count)) { return *count = 1, 0; }
DEFINE_NVRTC(nvrtcGetSupportedArchs, (int *architectures)) { return *architectures = 90, 0; }
CALL const char *nvrtcGetErrorString(NvrtcResult result);
CALL const char *nvrtcGetErrorString(NvrtcResult result) { return "made to fail"; }
