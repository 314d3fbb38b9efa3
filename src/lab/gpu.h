// gpu.h - the lab's GPU for parts of an experiment that launch kernels of their own (gpu.c).

#ifndef WEFT_LAB_GPU_H
#define WEFT_LAB_GPU_H

#include "device/cuda_driver.h"
#include "lab/pool.h"

// The driver, with the lab's context current in the calling thread.
weft_status lab_gpu_enter(LabGpu *gpu, const CudaDriver **cu, Error *err);
int         lab_gpu_ordinal(const LabGpu *gpu);
bool        lab_gpu_is_small(const LabGpu *gpu);            // $WEFT_LAB_SMALL: a test
// Compiles a text after kernel_args.h and PRELUDE and finds its functions.  The module is unloaded with the GPU.
weft_status lab_gpu_build(LabGpu *gpu, const char *prelude, const char *text, const char *const *names, int n_names,
                          CuFunction *functions, Error *err);

#endif
