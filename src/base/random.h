// random.h - random numbers without a state: the number of a row and a seed decide, so the order in which rows are
// computed, and by how many threads, does not.

#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include "base/base.h"

// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
static inline u64 random_mix(u64 bits)
{
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

// 64 bits for the number I of a sequence.
static inline u64 random_bits(u64 seed, u64 i)
{
    return random_mix(random_mix(seed) + (i + 1) * 0x9e3779b97f4a7c15u);
}

// At least 0 and below 1: a multiple of 2^-53.
static inline double random_share(u64 bits) { return (double)(bits >> 11) * 0x1p-53; }

#endif
