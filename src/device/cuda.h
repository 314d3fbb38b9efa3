// cuda.h - NVIDIA GPUs as devices: the same kernels over columns that are kept in device memory or flow through it.
//
//     if (cuda_driver()->n_gpus) TRY(device_cuda_open(0, &(CudaOptions){ 0 }, &device, err));
//     cuda_warm(device);                                 // starts the compiler in the background; returns at once
//     if (device->wait_ms(device, &launch) < 50)         // expected time to compile its kernel; 0: it is compiled
//         TRY(device->ride(device, &launch, err));       // any thread: launches over one table share its scan
//     device->get_ready(device);                         // compiles missing kernels in the background
//
// A scan fails with what the query did wrong (a division by zero), or with QUERY_CANCELED.  What the device cannot do
// or could not do this time is not the query's fault: launch.out.refused says it, and the CPU runs the query.  After an
// error that ends the driver's context the device is lost: it refuses everything, and says why.

#ifndef WEFT_CUDA_H
#define WEFT_CUDA_H

#include "device/cuda_driver.h"
#include "device/device.h"

typedef struct CudaOptions {
    u64         memory_bytes;          // of the pool; 0: $WEFT_DEVICE_MEMORY ("2GB", "50%" of what is free), else 80 %
                                       // of it
    const char *cache_dir;             // as for the jit
} CudaOptions;

typedef struct CudaMemory {            // of the pool
    u64 bytes, bytes_held, bytes_copied;
} CudaMemory;

typedef struct OccupancyCheck {
    int  n_kernels, n_shapes, n_wrong;
    char first_wrong[256];
} OccupancyCheck;

weft_status device_cuda_open(int number, const CudaOptions *options, Device **device, Error *err);
void        cuda_warm(Device *device);
bool        cuda_is_lost(const Device *device, char *why, size_t capacity);
CudaMemory  cuda_memory(Device *device);
// Compares the model's concurrent blocks with the driver's, for all compiled kernels; no query runs meanwhile.  False:
// the model does not know the card, or the device is lost.
bool        cuda_check_occupancy(Device *device, OccupancyCheck *check);

#endif
