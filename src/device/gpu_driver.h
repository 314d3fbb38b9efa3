// gpu_driver.h - what Weft asks of a GPU's driver: a table of calls, which the file of a vendor fills in (cuda.c).
//
//     GPU_TRY(gpu, EventRecord, (event, stream), err);           // gpu_int.h: fails with the driver's words
//
// Calls, their arguments and their meaning are those of CUDA's driver API without its prefix; other vendors' are
// modelled on it.  Files gpu_*.c use nothing of a driver but this; what compiles and loads code, knows a card's
// properties and owns the context is a GpuVendor (gpu_int.h).

#ifndef WEFT_GPU_DRIVER_H
#define WEFT_GPU_DRIVER_H

#include "base/base.h"

typedef int                  GpuResult;
typedef u64                  GpuAddress;                    // in device memory
typedef struct GpuContext_  *GpuContext;
typedef struct GpuModule_   *GpuModule;
typedef struct GpuFunction_ *GpuFunction;
typedef struct GpuStream_   *GpuStream;                     // NULL: the default stream
typedef struct GpuEvent_    *GpuEvent;

enum {                                                      // of GpuResult
    GPU_SUCCESS = 0,
    GPU_OUT_OF_MEMORY = 2,
    GPU_NOT_READY = 600,                                    // of the queries: not done yet
};

enum {                                                      // flags
    GPU_STREAM_NON_BLOCKING = 1,
    GPU_EVENT_BLOCKING_SYNC = 1,                            // EventSynchronize sleeps instead of spinning
    GPU_EVENT_DISABLE_TIMING = 2,
    GPU_HOST_PORTABLE = 1,                                  // MemHostAlloc
    GPU_REGISTER_PORTABLE = 1, GPU_REGISTER_DEVICE_MAP = 2,     // MemHostRegister
};

// It takes the stars below for products.
// clang-format off
#define GPU_CALLS(X)                                                                                                   \
    X(CtxSetCurrent, (GpuContext context))                                                                             \
    X(CtxGetCurrent, (GpuContext *context))                                                                            \
    X(CtxSynchronize, (void))                                                                                          \
    X(ModuleUnload, (GpuModule module))                                                                                \
    X(OccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, GpuFunction function, int threads, size_t shared))      \
    X(MemGetInfo, (size_t *bytes_free, size_t *bytes_total))                                                           \
    X(MemAlloc, (GpuAddress *address, size_t bytes))                                                                   \
    X(MemFree, (GpuAddress address))                                                                                   \
    X(MemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                     \
    X(MemFreeHost, (void *memory))                                                                                     \
    X(MemHostRegister, (void *memory, size_t bytes, unsigned flags))                                                   \
    X(MemHostUnregister, (void *memory))                                                                               \
    X(MemHostGetDevicePointer, (GpuAddress *address, void *memory, unsigned flags))                                    \
    X(MemcpyHtoDAsync, (GpuAddress to, const void *from, size_t bytes, GpuStream stream))                              \
    X(MemcpyDtoHAsync, (void *to, GpuAddress from, size_t bytes, GpuStream stream))                                    \
    X(MemcpyDtoDAsync, (GpuAddress to, GpuAddress from, size_t bytes, GpuStream stream))                               \
    X(MemsetD8Async, (GpuAddress to, unsigned char value, size_t count, GpuStream stream))                             \
    X(StreamCreate, (GpuStream *stream, unsigned flags))                                                               \
    X(StreamCreateWithPriority, (GpuStream *stream, unsigned flags, int priority))                                     \
    X(StreamDestroy, (GpuStream stream))                                                                               \
    X(StreamSynchronize, (GpuStream stream))                                                                           \
    X(StreamWaitEvent, (GpuStream stream, GpuEvent event, unsigned flags))                                             \
    X(EventCreate, (GpuEvent *event, unsigned flags))                                                                  \
    X(EventDestroy, (GpuEvent event))                                                                                  \
    X(EventRecord, (GpuEvent event, GpuStream stream))                                                                 \
    X(EventQuery, (GpuEvent event))                                                                                    \
    X(EventSynchronize, (GpuEvent event))                                                                              \
    X(EventElapsedTime, (float *time_ms, GpuEvent start, GpuEvent end))                                                \
    X(LaunchKernel,                                                                                                    \
      (GpuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,    \
       unsigned block_z, unsigned dynamic_shared, GpuStream stream, void **parameters, void **extra))

typedef struct GpuCalls {
#define GPU_FIELD(field, parameters) GpuResult (*field) parameters;
    GPU_CALLS(GPU_FIELD)
#undef GPU_FIELD
    // clang-format on
    // May be NULL.  Several copies from pinned memory of the host, whose source is read when the stream comes to it.
    GpuResult (*MemcpyBatchAsync)(GpuAddress *to, GpuAddress *from, size_t *bytes, size_t count, GpuStream stream);
} GpuCalls;

#endif
