// gpu_sieve.h - many queries of a run look at a row at once: which of them does it matter to?  (Compare
// engine/sieve.h.)
//
//     if (gpu_sieve_can(gpu, run)) ...                                // its kernel over some of the rows is compiled
//     GpuSieve *sieve = gpu_sieve_of(wave, runs, n, gain, took);      // NULL: no memory, or it is not compiled yet
//     TRY(gpu_sieve_begin(wave, sieve, err));                         // launched; meanwhile:
//     gpu_sieve_hand_out(wave, sieve, parts);                         // each rider's args of the run get their bits
//     TRY(gpu_sieve_end(wave, sieve, err));                           // the riders' kernels
//     gpu_sieve_free(sieve);
//
// For each column that any of the queries tests, a table says for each value which queries want it, a bit each.  A
// kernel takes all rows of the run through these tables, once for all queries, and leaves a bit per row for each of
// them.  Every query then runs its own kernel over its rows alone: the same text, compiled to list them first (PICKED_
// in kernel/cuda.h).

#ifndef WEFT_GPU_SIEVE_H
#define WEFT_GPU_SIEVE_H

#include "device/gpu_wave.h"

enum { SIEVE_RIDERS = 64, SIEVE_COLUMNS = 12, SIEVE_ROWS_LEAST = 1 << 12 };    // rows of a run

_Static_assert(SIEVE_RIDERS <= 64, "a bit set has a bit for each rider");

typedef struct GpuSieve GpuSieve;

bool        gpu_sieve_suits(const GpuRun *run);
bool        gpu_sieve_tests(const GpuRun *run, int column);            // of the table: a sieve would look at it for
                                                                       // this run
// Asked whenever it could be in one: its kernel is compiled when it was asked before.
bool        gpu_sieve_can(Gpu *gpu, GpuRun *run);
// Of N runs, those it took: TOOK[i].  Its device memory belongs to the slot of the wave.  GAIN: expected, to be shown.
GpuSieve   *gpu_sieve_of(Wave *wave, GpuRun *const *runs, int n, double gain, bool *took);
u64         gpu_sieve_args_bytes(void);                     // of the args of a run, for each chunk, at most
u64         gpu_sieve_args_once(void);                      // and besides
weft_status gpu_sieve_begin(Wave *wave, GpuSieve *sieve, Error *err);
// PARTS: by run that it took; all chunks that it wants.
void        gpu_sieve_hand_out(Wave *wave, GpuSieve *sieve, Parts *const *parts);
weft_status gpu_sieve_end(Wave *wave, GpuSieve *sieve, Error *err);
void        gpu_sieve_free(GpuSieve *sieve);
void        gpu_sieves_free(Gpu *gpu);

#endif
