// gpu_schedule.h - where the shapes of launches, their order in a wave and their streams are chosen.
//
//     const Grid grid = schedule_grid(gpu, &shape, &(GridWish){ .rows = ..., .n_parts = n, .rounds = 4 });
//     schedule_wave(wave, launches, n, order);             // several kernels: by the schedule of the wave
//     TRY(schedule_begin_timers(wave, first, err));        // launch all; then schedule_end_timers
//     schedule_read_timers(gpu, slot);                     // when all kernels of the run are done
//
// Used by the dispatcher only, but for schedule_stream.  What the schedules are is in README.md.

#ifndef WEFT_GPU_SCHEDULE_H
#define WEFT_GPU_SCHEDULE_H

#include "device/gpu_wave.h"

typedef struct GridWish {
    u64  rows;                         // of the largest part
    u64  rows_at_once;                 // of a block; 0: a tile
    int  n_parts;
    int  rounds;                       // blocks, in multiples of what fits the multiprocessors at once, at most
    bool is_strict;                    // rather fewer than so many; else rounded up
} GridWish;

// A launch of a wave.  A kernel of one rider has a run; what serves several has none, and is launched as it is.
typedef struct WaveLaunch {
    GpuRun            *run;
    const struct Unit *unit;
    Parts              parts;
    Grid               grid;           // of a run
    int                timer;          // -1: none
} WaveLaunch;

Grid        schedule_grid(const Gpu *gpu, const Shape *shape, const GridWish *wish);
// Of N parts, no more blocks than fit at once: each that keeps cells to itself has them to add up.
Grid        schedule_one_round(const Gpu *gpu, const Shape *shape, u64 rows, int n);
Grid        schedule_parts_grid(const Gpu *gpu, const Shape *shape, const Parts *parts);       // without a plan
int         schedule_stream(const GpuRun *run);             // of a new launch: its number
bool        schedule_may_plan(const Gpu *gpu, const GpuRun *run);      // it is worth waiting for others like it
// Grids of all runs, and the order in which all N are launched.
void        schedule_wave(Wave *wave, WaveLaunch *launches, int n, int *order);
weft_status schedule_begin_timers(Wave *wave, const WaveLaunch *first, Error *err);    // before it is launched
weft_status schedule_end_timers(Wave *wave, const WaveLaunch *launches, int n, Error *err);
void        schedule_read_timers(Gpu *gpu, RunSlot *slot);  // without the lock
// For EXPLAIN ANALYZE: KERNEL was launched so.  With several launches, the largest.
void        schedule_note(GpuFigures *figures, const GpuRun *kernel, const Grid *grid);

void        schedule_open(Gpu *gpu);
void        schedule_close(Gpu *gpu);                       // its context is current, or gone
void        schedule_count(const Gpu *gpu, DeviceFigures *figures);

#endif
