// base_int.h - shared inside src/base only.

#ifndef WEFT_BASE_INT_H
#define WEFT_BASE_INT_H

#include "base/base.h"

// Small memory that is not there: nothing sensible can go on, so say so and end the process.
_Noreturn void out_of_small_memory(size_t bytes);
void *small_alloc(size_t bytes);                            // zeroed, 16-byte aligned, never NULL; free() it
void *small_realloc(void *memory, size_t bytes);            // never NULL

#endif
