// nvrtc_library.h - NVRTC, the compiler from CUDA C++ to code for a GPU, opened while running: a table of its
// functions.
//
//     const Nvrtc *nvrtc;
//     TRY(nvrtc_need(driver_version, &nvrtc, err));               // fails with NO_DEVICE and says what is missing
//     NVRTC_TRY(nvrtc, CreateProgram, (&program, text, name, 0, NULL, NULL), err);
//
// Field names are NVRTC's without "nvrtc".  The library is opened once in a process and kept: the current major version
// or one of the two before, but none newer than the driver, which could not load its code.  $WEFT_LIBNVRTC names a
// file.

#ifndef WEFT_NVRTC_LIBRARY_H
#define WEFT_NVRTC_LIBRARY_H

#include "base/base.h"

typedef int                    NvrtcResult;                 // 0: success
typedef struct NvrtcProgram_  *NvrtcProgram;

enum { NVRTC_SUCCESS = 0, NVRTC_OUT_OF_MEMORY = 1, NVRTC_COMPILATION = 6 };

// It takes the stars below for products.
// clang-format off
// X(field, symbol, parameters).  From CUDA 11.2 on all are there.
#define NVRTC_CALLS(X)                                                                                                 \
    X(Version, nvrtcVersion, (int *major, int *minor))                                                                 \
    X(CreateProgram, nvrtcCreateProgram,                                                                               \
      (NvrtcProgram *program, const char *text, const char *name, int n_headers, const char *const *headers,          \
       const char *const *header_names))                                                                               \
    X(DestroyProgram, nvrtcDestroyProgram, (NvrtcProgram *program))                                                    \
    X(CompileProgram, nvrtcCompileProgram, (NvrtcProgram program, int n_options, const char *const *options))          \
    X(GetProgramLogSize, nvrtcGetProgramLogSize, (NvrtcProgram program, size_t *bytes))                                \
    X(GetProgramLog, nvrtcGetProgramLog, (NvrtcProgram program, char *log))                                            \
    X(GetCUBINSize, nvrtcGetCUBINSize, (NvrtcProgram program, size_t *bytes))                                          \
    X(GetCUBIN, nvrtcGetCUBIN, (NvrtcProgram program, char *cubin))                                                    \
    X(GetNumSupportedArchs, nvrtcGetNumSupportedArchs, (int *count))                                                   \
    X(GetSupportedArchs, nvrtcGetSupportedArchs, (int *architectures))

typedef struct Nvrtc {
#define NVRTC_FIELD(field, symbol, parameters) NvrtcResult (*field) parameters;
    NVRTC_CALLS(NVRTC_FIELD)
#undef NVRTC_FIELD
    // clang-format on
    const char *(*GetErrorString)(NvrtcResult result);
    const char *path;                                       // NULL: none was found, no call may be made
    int         major, minor;                               // its version
    Error       problem;                                    // why it cannot be used; status OK when it can
} Nvrtc;

// Whatever was found; never NULL.  DRIVER_VERSION as the driver says it (13000 is CUDA 13.0), 0 for any; the first call
// decides.  Any thread.
const Nvrtc *nvrtc_library(int driver_version);
weft_status  nvrtc_need(int driver_version, const Nvrtc **nvrtc, Error *err);

// OK for success, else KERNEL_BUILD or OUT_OF_MEMORY with NVRTC's words.  CALL is "nvrtcCompileProgram".
weft_status nvrtc_check(const Nvrtc *nvrtc, NvrtcResult result, const char *call, Error *err);
// OK where it compiles for compute capability MAJOR.MINOR, else NO_DEVICE.
weft_status nvrtc_check_capability(const Nvrtc *nvrtc, int major, int minor, Error *err);

#define NVRTC_TRY(nvrtc, field, arguments, err) \
    TRY(nvrtc_check((nvrtc), (nvrtc)->field arguments, "nvrtc" #field, (err)))

#endif
