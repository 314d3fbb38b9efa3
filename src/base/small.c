// small.c - small memory: never NULL, since nothing sensible can be done without it.

#include <stdio.h>
#include <stdlib.h>

#include "base/base_int.h"

_Noreturn void out_of_small_memory(size_t bytes)
{
    fprintf(stderr, "weft: out of memory: the system refused %zu bytes\n", bytes);
    exit(70);
}

// malloc finds the smallest pieces in the thread's own cache, where calloc does not look.
enum { THREADS_OWN_MOST = 1024 };

void *small_alloc(size_t bytes)
{
    void *memory = bytes <= THREADS_OWN_MOST ? malloc(bytes ? bytes : 1) : calloc(1, bytes);
    if (memory && bytes <= THREADS_OWN_MOST)
        memset(memory, 0, bytes);
    if (!memory)
        out_of_small_memory(bytes);
    return memory;
}

void *small_realloc(void *memory, size_t bytes)
{
    void *moved = realloc(memory, bytes);
    if (!moved)
        out_of_small_memory(bytes);
    return moved;
}
