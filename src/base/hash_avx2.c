// hash_avx2.c - hash_long for CPUs with AVX2; see hash.c.

#include "base/base_int.h"

#if defined(__x86_64__)

#ifdef __clang__
#include <immintrin.h>
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

u64 hash_long_avx2(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
