// program_avx2.c - programs run on CPUs with AVX2; see program.c.

#include "base/base.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx2")
#endif

#define RUN_PROGRAM kernel_run_program_avx2
#include "kernel/program_loops.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
