// gpu_fixed.h - kernels that a GPU's device has for itself: their text is the same for all queries.
//
//     Fixed fixed;
//     fixed_describe(&fixed, gpu, weave_keep_text(&name), name);
//     if (!fixed_is_ready(gpu, &fixed)) ...              // compiled in the background from now on
//     TRY(fixed_code(gpu, &fixed, err));                 // fixed.run: its code and shape

#ifndef WEFT_GPU_FIXED_H
#define WEFT_GPU_FIXED_H

#include "device/gpu_int.h"

// Points to itself: it stays where it was described.
typedef struct Fixed { Woven woven; Source none; Launch launch; GpuRun run; } Fixed;

// TEXT and NAME must outlive it.
void        fixed_describe(Fixed *fixed, Gpu *gpu, const char *text, const char *name);
// Compiles it, unless it is compiled; launch.stop, where it is set, ends the wait.
weft_status fixed_code(Gpu *gpu, Fixed *fixed, Error *err);
bool        fixed_is_ready(Gpu *gpu, const Fixed *fixed);

#endif
