// gpu_args.h - room for the arguments of a run, and the units that it leaves to the next one.
//
//     args_gather(wave, run)                              // whether one more rider finds room
//     bytes = args_of_chunk(wave, chunk, number);         // what a chunk more takes, at most
//     n_units = units_keep(wave, units, n_units);         // once it is known how riders are served
//
// Used by the dispatcher only.

#ifndef WEFT_GPU_ARGS_H
#define WEFT_GPU_ARGS_H

#include "device/gpu_fuse.h"

u64  args_once(void);                                       // of a run, whatever its chunks and riders
bool args_suffice(const GpuRun *run);                       // it could ride alone, over one chunk
// RUN gets on if its arguments find room beside those of the riders so far, with one chunk.
bool args_gather(Wave *wave, const GpuRun *run);
u64  args_of_riders(const Wave *wave);                      // whatever the chunks
void args_add_up(Wave *wave);                               // once its riders are known, where they are uniform
u64  args_of_chunk(const Wave *wave, const Chunk *chunk, int number);
// What the leader and all that may ride with it need room for in one run over all their chunks.  Under the lock.
u64  args_wanted(const Gpu *gpu, const GpuRun *leader);
// Returns how many of UNITS stay, and moves them to the front.  Riders of the others follow behind those of the wave
// (wave->n_left); what was made for these units is freed.
int  units_keep(Wave *wave, Unit *units, int n_units);

#endif
