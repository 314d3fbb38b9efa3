// hash_avx512.c - hash_long for CPUs with AVX512F; see hash.c.

#include "base/base_int.h"

#if defined(__x86_64__)

#ifdef __clang__
#include <immintrin.h>
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

u64 hash_long_avx512(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
