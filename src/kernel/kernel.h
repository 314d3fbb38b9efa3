// kernel.h - the words kernel text is written in, as text for the compilers: args.h and a dialect, ready to be put
// before a kernel.

#ifndef WEFT_KERNEL_H
#define WEFT_KERNEL_H

#include "kernel/args.h"

extern const char kernel_args_text[];
extern const char kernel_cpu_text[];
extern const char kernel_cuda_text[];
extern const char kernel_flow_text[];    // complete by itself: the words of operators of a flow
extern const char kernel_flow_pages_text[];                 // after it: those for frames of columns
// The generic kernel: the body of a kernel, after what it and the host agree on (jit/generic.c puts both together).
extern const char kernel_generic_args_text[], kernel_generic_text[];
// After both, for the kernel that stays on a GPU.
extern const char kernel_flow_args_text[], kernel_flow_loop_text[];

// What tcc's code calls, and the table behind PICK; filled in on first use.
const KernelWords *kernel_words(void);
const u16         *kernel_picks(void);

// A program (generic_args.h) instead of a kernel's code: ARGS are a kernel's, and args->common->program says what to
// do.
void kernel_run_program(void *args);
// For args->common->entries: a bit for each of the N entries of TABLE, of WIDTH bytes each, that is not 0.
void kernel_note_entries(u8 *bits, const void *table, u32 width, u64 n);
// What it chooses from, by the CPU.
void kernel_run_program_plain(KernelArgs *args), kernel_run_program_avx2(KernelArgs *args);
void kernel_run_program_avx512(KernelArgs *args);

#endif
