// hash.c - checksums of columns and texts: XXH3 with the vectors that the CPU has.
//
// The first query of a process hashes every column that it reads.  With SSE2, which every x86-64 has, that is 7 to 10
// GB/s, less than memory gives; with AVX2 23 and with AVX-512 30 GB/s, so memory is the limit.  The compiler may use
// these only in functions for such CPUs (hash_avx2.c, hash_avx512.c), so this file asks the CPU.  On arm64 NEON is
// always there.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base_int.h"

#if !defined(__x86_64__)

u64 hash_long(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

#else

typedef u64 HashLong(const void *bytes, size_t length);

static u64 hash_long_sse2(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

static HashLong *best_hash(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return hash_long_avx512;
    return __builtin_cpu_supports("avx2") ? hash_long_avx2 : hash_long_sse2;
}

// Asked once; threads that ask at the same time find the same.
u64 hash_long(const void *bytes, size_t length)
{
    static HashLong *_Atomic best;
    HashLong *hash = atomic_load_explicit(&best, memory_order_relaxed);
    ASSERT(length >= HASH_LONG);
    if (!hash)
        atomic_store_explicit(&best, hash = best_hash(), memory_order_relaxed);
    return hash(bytes, length);
}

#endif
