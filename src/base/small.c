// small.c - small memory: never NULL, since nothing sensible can be done without it.

#include <stdio.h>
#include <stdlib.h>

#include "base/base_int.h"

_Noreturn void out_of_small_memory(size_t bytes)
{
    fprintf(stderr, "weft: out of memory: the system refused %zu bytes\n", bytes);
    exit(70);
}

void *small_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
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
