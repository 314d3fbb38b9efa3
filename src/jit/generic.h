// generic.h - a kernel as a program for the generic kernel, so that it can run before it is compiled.
//
//     const JitProgram program = jit_program(arena, woven);
//     if (!program.refused) ...                          // the device sends program.data with the launch
//
// The generic kernel (kernel/generic.h) does the same as the woven one, step by step, and leaves the same cells; it
// takes several times as long.

#ifndef WEFT_JIT_GENERIC_H
#define WEFT_JIT_GENERIC_H

#include "weave/weave.h"

#include "kernel/args.h"
#include "kernel/generic_args.h"

#define GENERIC_NAME "weft_generic"

typedef struct JitProgram {
    const char *refused;               // why the generic kernel cannot do this; NULL: it can
    int         n_ops;                 // of those that the device looks at
    u64         bytes;
    const void *data;                  // a KernelProgram and its operations
} JitProgram;

JitProgram jit_program(Arena *arena, const Woven *woven);      // all of it in ARENA
JitProgram jit_cpu_program(Arena *arena, const Woven *woven);  // for kernel/program.c
// A program as a launch takes it along; without steps that only count rows, where nobody wants to know.
void         jit_copy_program(void *to, const void *program, bool is_counted);
const char  *jit_generic_text(void);                             // of the generic kernel; lives as long as the process

#endif
