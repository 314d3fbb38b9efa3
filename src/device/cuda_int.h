// cuda_int.h - shared by the files of NVIDIA's GPUs: what a Gpu has that is CUDA's own.

#ifndef WEFT_CUDA_INT_H
#define WEFT_CUDA_INT_H

#include "device/cuda.h"
#include "device/gpu_int.h"
#include "jit/nvrtc.h"

typedef struct CudaGpu {
    Gpu               gpu;             // first: what the files gpu_*.c see
    GpuCalls          calls;
    const CudaDriver *cu;
    int               number;
    CuDevice          handle;
    char             *prelude;         // the words of kernel texts
    Cubins           *cubins;
    void            (*close)(Device *device);              // of any GPU
} CudaGpu;

static inline CudaGpu *cuda_gpu(Gpu *gpu) { return (CudaGpu *)(void *)gpu; }
#define CUDA_GPU_TRY(cuda, field, arguments, err)                                                                      \
    TRY(gpu_check(&(cuda)->gpu, (cuda)->cu->field arguments, #field, (err)))

// cuda_code.c: see GpuVendor
weft_status cuda_check_compiler(const CudaGpu *cuda, Error *err);      // there is one, and it knows this card
weft_status cuda_load_code(Gpu *gpu, const CodeJob *job, GpuCode *code, bool *was_cached, Error *err);
bool        cuda_has_code(Gpu *gpu, const CodeJob *job);
bool        cuda_can_be_quick(Gpu *gpu);
void        cuda_warm_compiler(Gpu *gpu);

// cuda_peak.c
void        peak_recall(CudaGpu *cuda);                     // when it is opened
void        peak_tell(Device *device, GpuFigures *figures);            // see Device.tell_peak

#endif
