// model_int.h - what the files of src/model share.

#ifndef WEFT_MODEL_INT_H
#define WEFT_MODEL_INT_H

#include "model/model.h"

static inline int ceil_div(int number, int by)
{
    return number / by + (number % by != 0);
}

static inline int round_up(int number, int unit)
{
    return ceil_div(number, unit) * unit;
}

static inline int round_down(int number, int unit)
{
    return number / unit * unit;
}

// How many warps with so many registers run at once on a multiprocessor, if nothing else is a limit.
int warps_by_registers(const GpuLimits *limits, int registers_per_warp);

#endif
