// gpu_fixed.c - kernels that a GPU's device has for itself, as launches that have neither a source nor a query.

#include "device/gpu_fixed.h"

void fixed_describe(Fixed *fixed, Gpu *gpu, const char *text, const char *name)
{
    *fixed = (Fixed){ .woven = { .text = text, .name = name },
                      .launch = { .woven = &fixed->woven, .source = &fixed->none, .sink = SINK_GROUPS },
                      .run = { .gpu = gpu, .launch = &fixed->launch } };
}

weft_status fixed_code(Gpu *gpu, Fixed *fixed, Error *err)
{
    TRY(gpu_enter(gpu, err));          // another thread makes the code
    TRY(kernel_get(gpu, &fixed->run, err));
    return kernel_shape(gpu, &fixed->run, err);
}

bool fixed_is_ready(Gpu *gpu, const Fixed *fixed)
{
    const bool is_ready = kernel_wait_ms(gpu, &fixed->launch) <= 0;
    if (!is_ready) ready_begin(gpu);
    return is_ready;
}
