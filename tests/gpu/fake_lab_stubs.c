// fake_lab_stubs.c - every call of the driver, doing nothing, where fake_lab_cuda.c has none of that name.

#include "device/cuda_driver.h"

#define STUB(field, symbol, parameters)                                                                  \
    __attribute__((weak, visibility("default"))) CuResult symbol parameters;                             \
    __attribute__((weak, visibility("default"))) CuResult symbol parameters { return 0; }
CUDA_CALLS(STUB)
