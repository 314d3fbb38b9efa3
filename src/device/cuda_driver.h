// cuda_driver.h - NVIDIA's driver, opened while running: a table of its functions, without CUDA's headers.
//
//     const CudaDriver *cu;
//     TRY(cuda_need(&cu, err));                                  // fails with NO_DEVICE and says what is missing
//     CUDA_TRY(cu, MemAlloc, (&address, bytes), err);            // "cuMemAlloc: out of memory (CUDA_ERROR_...)"
//     if (cuda_is_sticky(result)) ...                            // the context is gone: mark the device lost
//
// Field names are the driver's without "cu" and without the version, which is pinned here (cuMemAlloc_v2 is MemAlloc).
// The library is opened once in a process, by the first call, and kept.  $WEFT_LIBCUDA names another file (tests have
// a fake one).  NVRTC, the compiler, is in jit/nvrtc_library.h, as the jit comes before devices.

#ifndef WEFT_CUDA_DRIVER_H
#define WEFT_CUDA_DRIVER_H

#include "device/gpu_driver.h"

typedef GpuResult   CuResult;
typedef int         CuDevice;
typedef GpuAddress  CuAddress;                              // CUdeviceptr: an address in device memory
typedef GpuContext  CuContext;
typedef GpuModule   CuModule;
typedef GpuFunction CuFunction;
typedef GpuStream   CuStream;                               // NULL: the default stream
typedef GpuEvent    CuEvent;

enum {                                                      // of CuResult
    CU_SUCCESS = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_DEINITIALIZED = 4,                                   // the program ends
    CU_NO_DEVICE = 100,
    CU_NOT_READY = 600,                                     // of the queries: not done yet
    CU_ILLEGAL_ADDRESS = 700,
};

enum {                                                      // of DeviceGetAttribute
    CU_DEVICE_THREADS_PER_BLOCK = 1,
    CU_DEVICE_SHARED_PER_BLOCK = 8,                         // bytes, without opting in
    CU_DEVICE_WARP_SIZE = 10,
    CU_DEVICE_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_CLOCK_KHZ = 13,
    CU_DEVICE_MULTIPROCESSORS = 16,
    CU_DEVICE_IS_INTEGRATED = 18,
    CU_DEVICE_MAPS_HOST_MEMORY = 19,
    CU_DEVICE_COMPUTE_MODE = 20,
    CU_DEVICE_HAS_ECC = 32,
    CU_DEVICE_MEMORY_CLOCK_KHZ = 36,
    CU_DEVICE_MEMORY_BUS_BITS = 37,
    CU_DEVICE_L2_BYTES = 38,
    CU_DEVICE_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_COPY_ENGINES = 40,
    CU_DEVICE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_CAPABILITY_MINOR = 76,
    CU_DEVICE_SHARED_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_MANAGED_AT_ONCE = 89,                         // both sides use managed memory while a kernel runs
    CU_DEVICE_SHARED_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_SHARED_RESERVED_PER_BLOCK = 111,
};

enum {                                                      // of FuncGetAttribute and FuncSetAttribute
    CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_SHARED_BYTES = 1,                               // static
    CU_FUNC_LOCAL_BYTES = 3,                                // per thread: spilled registers and arrays
    CU_FUNC_REGISTERS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED_BYTES = 8,                   // set it to go past SHARED_PER_BLOCK
    CU_FUNC_SHARED_CARVEOUT = 9,                            // percent of L1
};

enum {                                                      // flags
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_BLOCKING_SYNC = 1,                             // EventSynchronize sleeps instead of spinning
    CU_EVENT_DISABLE_TIMING = 2,
    CU_HOST_PORTABLE = 1, CU_HOST_DEVICE_MAP = 2, CU_HOST_WRITE_COMBINED = 4,    // MemHostAlloc
    CU_MANAGED_GLOBAL = 1,                                  // MemAllocManaged
    CU_REGISTER_PORTABLE = 1, CU_REGISTER_DEVICE_MAP = 2, CU_REGISTER_READ_ONLY = 8,    // MemHostRegister
};

enum {                                                      // of MemAdvise
    CU_ADVISE_READ_MOSTLY = 1,                              // a replica for each side that reads
    CU_ADVISE_PREFERRED_LOCATION = 3,
    CU_ADVISE_ACCESSED_BY = 5,                              // mapped for that side, wherever it is
    CU_ON_HOST = -1,                                        // as a device: the CPU
};

// It takes the stars below for products.
// clang-format off
// Of copies that are asked for together.
typedef struct CuCopyAttributes {
    int      source_order;             // CU_SOURCE_ORDER_...: when the source may be read
    struct { int type, id; } source_hint, target_hint;
    unsigned flags;
} CuCopyAttributes;

enum { CU_SOURCE_ORDER_STREAM = 1 };

// X(field, symbol, parameters).  Drivers from CUDA 11 on have all of them.
#define CUDA_CALLS(X)                                                                                                  \
    X(Init, cuInit, (unsigned flags))                                                                                  \
    X(DriverGetVersion, cuDriverGetVersion, (int *version))                                                            \
    X(GetErrorName, cuGetErrorName, (CuResult result, const char **name))                                              \
    X(GetErrorString, cuGetErrorString, (CuResult result, const char **text))                                          \
    X(DeviceGetCount, cuDeviceGetCount, (int *count))                                                                  \
    X(DeviceGet, cuDeviceGet, (CuDevice *device, int ordinal))                                                         \
    X(DeviceGetName, cuDeviceGetName, (char *name, int capacity, CuDevice device))                                     \
    X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CuDevice device))                                           \
    X(DeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, CuDevice device))                          \
    X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *id, int capacity, CuDevice device))                               \
    X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CuContext *context, CuDevice device))                         \
    X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CuDevice device))                                        \
    X(CtxSetCurrent, cuCtxSetCurrent, (CuContext context))                                                             \
    X(CtxGetCurrent, cuCtxGetCurrent, (CuContext *context))                                                            \
    X(CtxSynchronize, cuCtxSynchronize, (void))                                                                        \
    X(ModuleLoadData, cuModuleLoadData, (CuModule *module, const void *image))                                         \
    X(ModuleUnload, cuModuleUnload, (CuModule module))                                                                 \
    X(ModuleGetFunction, cuModuleGetFunction, (CuFunction *function, CuModule module, const char *name))               \
    X(FuncGetAttribute, cuFuncGetAttribute, (int *value, int attribute, CuFunction function))                          \
    X(FuncSetAttribute, cuFuncSetAttribute, (CuFunction function, int attribute, int value))                           \
    X(OccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,                          \
      (int *blocks, CuFunction function, int threads, size_t dynamic_shared))                                          \
    X(MemGetInfo, cuMemGetInfo_v2, (size_t *bytes_free, size_t *bytes_total))                                          \
    X(MemAlloc, cuMemAlloc_v2, (CuAddress *address, size_t bytes))                                                     \
    X(MemFree, cuMemFree_v2, (CuAddress address))                                                                      \
    X(MemHostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                     \
    X(MemFreeHost, cuMemFreeHost, (void *memory))                                                                      \
    X(MemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                             \
    X(MemHostUnregister, cuMemHostUnregister, (void *memory))                                                          \
    X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CuAddress *address, void *memory, unsigned flags))       \
    X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CuAddress to, const void *from, size_t bytes, CuStream stream))          \
    X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CuAddress from, size_t bytes, CuStream stream))                \
    X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CuAddress to, CuAddress from, size_t bytes, CuStream stream))            \
    X(MemsetD8Async, cuMemsetD8Async, (CuAddress to, unsigned char value, size_t count, CuStream stream))              \
    X(StreamCreate, cuStreamCreate, (CuStream *stream, unsigned flags))                                                \
    X(StreamCreateWithPriority, cuStreamCreateWithPriority, (CuStream *stream, unsigned flags, int priority))          \
    X(StreamDestroy, cuStreamDestroy_v2, (CuStream stream))                                                            \
    X(StreamSynchronize, cuStreamSynchronize, (CuStream stream))                                                       \
    X(StreamWaitEvent, cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))                            \
    X(EventCreate, cuEventCreate, (CuEvent *event, unsigned flags))                                                    \
    X(EventDestroy, cuEventDestroy_v2, (CuEvent event))                                                                \
    X(EventRecord, cuEventRecord, (CuEvent event, CuStream stream))                                                    \
    X(EventQuery, cuEventQuery, (CuEvent event))                                                                       \
    X(EventSynchronize, cuEventSynchronize, (CuEvent event))                                                           \
    X(EventElapsedTime, cuEventElapsedTime, (float *time_ms, CuEvent start, CuEvent end))                              \
    X(LaunchKernel, cuLaunchKernel,                                                                                    \
      (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned dynamic_shared, CuStream stream, void **parameters, void **extra))

// May be NULL.  MemcpyBatchAsync: CUDA 13.  MemAllocManaged, MemAdvise, MemPrefetchAsync: only flows whose frames are
// managed memory and weft lab flow ask for them.  The latter two are those of CUDA 8, whose device is a number.
#define CUDA_OPTIONAL_CALLS(X)                                                                                         \
    X(MemAllocManaged, cuMemAllocManaged, (CuAddress *address, size_t bytes, unsigned flags))                          \
    X(MemAdvise, cuMemAdvise, (CuAddress address, size_t bytes, int advice, CuDevice device))                          \
    X(MemPrefetchAsync, cuMemPrefetchAsync, (CuAddress address, size_t bytes, CuDevice device, CuStream stream))       \
    X(MemcpyBatchAsync, cuMemcpyBatchAsync_v2,                                                                         \
      (CuAddress *to, CuAddress *from, size_t *bytes, size_t count, CuCopyAttributes *attributes, size_t *firsts,      \
       size_t n_attributes, CuStream stream))

typedef struct CudaDriver {
#define CUDA_FIELD(field, symbol, parameters) CuResult (*field) parameters;
    CUDA_CALLS(CUDA_FIELD)
    CUDA_OPTIONAL_CALLS(CUDA_FIELD)
#undef CUDA_FIELD
    // clang-format on
    const char *path;                                       // of the library; NULL: none was found, no call may be made
    int         version;                                    // the newest CUDA it knows: 13000 is 13.0
    int         n_gpus;                                     // 0: see problem
    Error       problem;                                    // why no GPU can be used; status OK when one can
} CudaDriver;

const CudaDriver *cuda_driver(void);                        // never NULL; whatever was found.  Any thread.
weft_status       cuda_need(const CudaDriver **driver, Error *err);    // fails when n_gpus is 0

// OK for CU_SUCCESS, else fails: OUT_OF_MEMORY, or DEVICE_FAILED for all others, with the driver's words for it.
// CALL is "cuMemAlloc".
weft_status cuda_check(const CudaDriver *driver, CuResult result, const char *call, Error *err);
// Whether the driver has a GPU of this number that Weft uses: one of the first CUDA_GPUS_MOST.
enum { CUDA_GPUS_MOST = 16 };
weft_status cuda_check_number(int number, Error *err);
// Whether Weft's kernels run on a GPU of this compute capability (7.0 is the least); NAME as in "cuda:0", CARD as the
// driver calls it.
weft_status cuda_check_capability(const char *name, const char *card, int major, int minor, Error *err);
bool        cuda_is_sticky(CuResult result);                // no call in this context will succeed any more

#define CUDA_TRY(driver, field, arguments, err) TRY(cuda_check((driver), (driver)->field arguments, "cu" #field, (err)))

#endif
