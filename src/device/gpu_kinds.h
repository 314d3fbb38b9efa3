// gpu_kinds.h - columns of kinds on a GPU (weave.h, Kinds): beside a column of keys, the kind of each row.
//
//     if (!gpu_kinds_are_ready(gpu)) ...                  // their kernel is asked for
//     TRY(gpu_kinds_columns(wave, kinds, column, chunks, n_chunks, columns, err));    // while a run is put together
//     TRY(gpu_kinds_launch(wave, err));                   // behind the run's gate, before kernels that read them
//     TRY(gpu_kinds_wait(gpu, stream, err));              // those kernels go on when all columns of kinds are made
//
// Made once for a chunk, from the keys in the device's memory, and kept there like any copy.  All of it by the
// dispatcher.

#ifndef WEFT_GPU_KINDS_H
#define WEFT_GPU_KINDS_H

#include "device/gpu_wave.h"

bool        gpu_kinds_are_ready(Gpu *gpu);
// COLUMN of the table, for these chunks of the wave: each gets an entry of COLUMNS.  Held until the run is done.
weft_status gpu_kinds_columns(Wave *wave, const Kinds *kinds, int column, const int *chunks, int n_chunks,
                              KernelColumn *columns, Error *err);
weft_status gpu_kinds_launch(Wave *wave, Error *err);
weft_status gpu_kinds_wait(Gpu *gpu, GpuStream stream, Error *err);
void        gpu_kinds_forget(Wave *wave);                   // what was listed for a run
void        gpu_kinds_close(Gpu *gpu);

#endif
