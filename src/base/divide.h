// divide.h - many numbers divided by the same one: a multiplication and two shifts for each.
//
//     const Divisor by = divisor_of(stride);
//     ... divided(number, by)                                // number / stride
//
// After Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994), figure 4.1.

#ifndef WEFT_DIVIDE_H
#define WEFT_DIVIDE_H

#include "base/base.h"

typedef struct Divisor { u64 factor; u8 first, second; } Divisor;

// NUMBER is not 0.
static inline Divisor divisor_of(u64 number)
{
    const int n_bits = number > 1 ? 64 - __builtin_clzll(number - 1) : 0;      // the least with 2^n_bits >= NUMBER
    const u64 rest = (n_bits == 64 ? 0 : (u64)1 << n_bits) - number;
    return (Divisor){ (u64)(((u128)rest << 64) / number) + 1, (u8)MIN_OF(n_bits, 1), (u8)MAX_OF(n_bits - 1, 0) };
}

static inline u64 divided(u64 number, Divisor by)
{
    const u64 high = (u64)(((u128)by.factor * number) >> 64);
    return (high + ((number - high) >> by.first)) >> by.second;
}

#endif
