// base_int.h - shared inside src/base only.

#ifndef WEFT_BASE_INT_H
#define WEFT_BASE_INT_H

#include "base/base.h"

// Small memory that is not there: nothing sensible can go on, so say so and end the process.
_Noreturn void out_of_small_memory(size_t bytes);
void *small_alloc(size_t bytes);                            // zeroed, 16-byte aligned, never NULL; free() it
void *small_realloc(void *memory, size_t bytes);            // never NULL

// Blocks of BLOCK_LEAST << class bytes, zeroed.  A thread keeps those that it gives back, for the next time: only the
// first USED bytes of them may differ from 0.  CLASS is below BLOCK_CLASSES.
enum { BLOCK_LEAST = 1 << 10, BLOCK_CLASSES = 9 };
void *block_take(int class);
void  block_give(void *block, int class, size_t used);

// Memory checkers want to see each block taken from the system and given back.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEMORY_IS_WATCHED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { MEMORY_IS_WATCHED = 1 };
#else
enum { MEMORY_IS_WATCHED = 0 };
#endif
#else
enum { MEMORY_IS_WATCHED = 0 };
#endif

// Blocks of PAGES_LEAST to PAGES_MOST bytes, the latter excluded: zeroed, and no other block shares a page of the
// system with them.  NULL: the system refuses.  Some of what is freed stays with the process.  Any thread may call.
#define PAGES_LEAST ((size_t)64 << 10)
#define PAGES_MOST  ((size_t)8 << 20)
bool  pages_take(size_t bytes);                             // whether blocks of this size are made here
void *pages_alloc(size_t bytes);
void  pages_free(void *memory, size_t bytes);               // BYTES as allocated
void *pages_map(size_t bytes, size_t alignment);            // from the system; NULL: refused; munmap() it

// XXH3 of HASH_LONG bytes or more, by the widest vectors that this CPU has; each gives the same number.
enum { HASH_LONG = 1024 };
u64 hash_long(const void *bytes, size_t length);
#if defined(__x86_64__)
u64 hash_long_avx2(const void *bytes, size_t length);       // where the CPU has AVX2
u64 hash_long_avx512(const void *bytes, size_t length);     // where the CPU has AVX512F
#endif

#endif
