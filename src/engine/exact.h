// exact.h - the end of an exact sum: from its parts to the nearest double; averages of exact numbers.
//
// Kernels add floats as integers (weave/sink.c): the sum is parts[0] + parts[1] * 2^digits + parts[2] * 2^(2 * digits)
// + ...,
// in multiples of 2^unit.  The parts overlap and have signs of their own; here they become one number and are rounded,
// once.

#ifndef WEFT_EXACT_H
#define WEFT_EXACT_H

#include "store/store.h"

#define EXACT_BITS 2304                // n_parts * digits may be up to this

// The sum divided by DIVISOR (1, or the count of an average), to nearest, ties to even; beyond the largest double an
// infinity.
double exact_round(const i64 *parts, int n_parts, int digits, int unit, u64 divisor);
// What that rounding took away (of the sum itself), rounded in its turn; 0 of an infinity.
double exact_rest(const i64 *parts, int n_parts, int digits, int unit);
// avg of exact numbers of type ARG, from their sum, which is in VALUE; VALUE's type is avg's.  False: beyond 38 digits.
bool   exact_average(Value *value, Type arg, i64 count);

#endif
