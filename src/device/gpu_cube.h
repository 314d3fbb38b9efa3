// gpu_cube.h - queries of one shape on a GPU as one: classes of values, a cell for each combination (compare
// engine/cube.h).
//
//     if (gpu_cube_meets(gpu, runs[0]) != SHARE_DONE) ...         // its kernel is not compiled yet
//     u64      args_left = gpu_cubes_args_bytes();        // for all cubes of a run
//     GpuCube *cube = gpu_cube_of(gpu, runs, n, gain, &args_left);        // NULL: no room for their cells or args
//     gpu_cube_write(wave, cube, ...);                    // into the args of the run
//     TRY(gpu_cube_launch(wave, cube, ...));              // the cube's kernel, then one that adds up cells
//     gpu_cube_free(cube);
//
// Here all tests are ranges, so classes are intervals and a query wants some that lie side by side: they are worked out
// for each run anew.

#ifndef WEFT_GPU_CUBE_H
#define WEFT_GPU_CUBE_H

#include "device/gpu_wave.h"

enum { CUBE_MOST = 64 };               // queries

typedef struct GpuCube GpuCube;

bool        gpu_cube_suits(const GpuRun *run);              // see GpuRun.can_cube
bool        gpu_cube_fits(const GpuRun *a, const GpuRun *b);
// Whether the code for queries of its shape is there; it is asked for when they meet.
ShareMade   gpu_cube_meets(Gpu *gpu, GpuRun *run);
// GAIN: expected, to be shown.
GpuCube    *gpu_cube_of(Gpu *gpu, GpuRun *const *runs, int n_runs, double gain, u64 *args_left);
u64         gpu_cubes_args_bytes(void);                     // of the args of a run, for all its cubes, besides those of
                                                            // each chunk
void        gpu_cube_pack(Wave *wave, GpuCube *cube);       // its riders have their results together, where they can
void        gpu_cube_write(Wave *wave, GpuCube *cube, const int *chunks, int n_chunks);
weft_status gpu_cube_launch(Wave *wave, const GpuCube *cube, Error *err);
void        gpu_cube_free(GpuCube *cube);
void        gpu_cubes_free(Gpu *gpu);

#endif
