// program_avx512.c - programs run on CPUs with AVX-512; see program.c.

#include "base/base.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw")
#endif

#define RUN_PROGRAM kernel_run_program_avx512
#include "kernel/program_loops.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
