// float_help.h - random floats for the tests of float ranges and sums.  Include after test.h.

#ifndef WEFT_FLOAT_HELP_H
#define WEFT_FLOAT_HELP_H

#include "base/base.h"

#include <math.h>

static u64 state;

static u64 random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33 ^ state << 31;
}

static double random_float(int least, int most)             // exponents from LEAST to below MOST, any digits, any sign
{
    double digits = 1 + (double)(random_bits() >> 12) * 0x1p-52;
    return ldexp(random_bits() >> 60 & 1 ? -digits : digits,
                 least + (int)(random_bits() % 1000003 % (u64)(most - least)));
}

#endif
