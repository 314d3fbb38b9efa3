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

#endif
