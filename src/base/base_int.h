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

#endif
