// model_help.h - cards and the kernels of paper 3 (Tables III and IV), for the tests of src/model.

#ifndef WEFT_MODEL_HELP_H
#define WEFT_MODEL_HELP_H

#include "model/model.h"

static Error err;

static inline GpuLimits card(const char *name)
{
    GpuLimits limits;
    error_clear(&err);
    CHECK_OK(limits_of_card(name, &limits, &err), err);
    return limits;
}

static inline GpuLimits capability(int major, int minor)
{
    GpuLimits limits;
    error_clear(&err);
    CHECK_OK(limits_of_capability(major, minor, 8, &limits, &err), err);
    return limits;
}

// Table III.  Blocks of A and B have 1024 threads, the others 256.
static const KernelNeeds kernel_a = { .registers = 11 };
static const KernelNeeds kernel_b = { .registers = 33 };
static const KernelNeeds kernel_c = { .registers = 11 };
static const KernelNeeds kernel_d = { .registers = 44 };
static const KernelNeeds kernel_e = { .registers = 11, .shared = 24576 };
static const KernelNeeds kernel_f = { .registers = 44, .shared = 24576 };

// A number from 0 to LIMIT - 1; the same ones in every run.
static inline int draw(u64 *state, int limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (u64)limit);
}

#endif
