// Every call of libcuda and NVRTC that Weft knows, each answering "not supported" (801).  Weak: cuda_fake.c has those
// that a test needs.  From the same lists as the real tables, so a call that is added there is here as well.

#include "device/cuda_driver.h"
#include "jit/nvrtc_library.h"

// clang-format off
#define CUDA_CALL(field, symbol, parameters)  \
    CuResult symbol parameters;               \
    __attribute__((weak)) CuResult symbol parameters { return 801; }
#define NVRTC_CALL(field, symbol, parameters) \
    NvrtcResult symbol parameters;            \
    __attribute__((weak)) NvrtcResult symbol parameters { return 801; }

CUDA_CALLS(CUDA_CALL)
CUDA_OPTIONAL_CALLS(CUDA_CALL)
NVRTC_CALLS(NVRTC_CALL)
// clang-format on
