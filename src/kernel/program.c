// program.c - programs run on the CPU (program_loops.h), by the instructions that it has.
//
// The compiler may use AVX2 and AVX-512 only in functions for such CPUs (program_avx2.c, program_avx512.c), so this
// file asks the CPU.  On arm64 NEON is always there.

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#define RUN_PROGRAM kernel_run_program_plain
#include "kernel/program_loops.h"

#define NOTE_ENTRIES_(type)                                                                                            \
    {                                                                                                                  \
        const type *entries = table;                                                                                   \
        for (u64 e = 0; e < n; e += 8) {                                                                               \
            u64 eight = 0;                                                                                             \
            for (u32 b = 0; b < 8 && e + b < n; b++) eight |= (u64)(entries[e + b] != 0) << b;                         \
            bits[e >> 3] = (u8)eight;                                                                                  \
        }                                                                                                              \
    }

void kernel_note_entries(u8 *bits, const void *table, u32 width, u64 n)
{
    switch (width) {
        case 1: NOTE_ENTRIES_(u8) break;
        case 2: NOTE_ENTRIES_(u16) break;
        case 4: NOTE_ENTRIES_(u32) break;
        default: NOTE_ENTRIES_(u64) break;
    }
}

#if !defined(__x86_64__)

void kernel_run_program(void *args) { kernel_run_program_plain(args); }

#else

typedef void ProgramRunner(KernelArgs *args);

static ProgramRunner *best_runner(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return kernel_run_program_avx512;
    return __builtin_cpu_supports("avx2") ? kernel_run_program_avx2 : kernel_run_program_plain;
}

// Asked once; threads that ask at the same time find the same.
void kernel_run_program(void *args)
{
    static ProgramRunner *_Atomic best;
    ProgramRunner *runner = atomic_load_explicit(&best, memory_order_relaxed);
    if (!runner) atomic_store_explicit(&best, runner = best_runner(), memory_order_relaxed);
    runner(args);
}

#endif
