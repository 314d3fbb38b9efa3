// gpu_join_cube.h - queries of one shape on a GPU that differ in what they join, as one kernel (share/share.h).
//
//     gpu_join_cube_look(run);                            // in the query's thread: its form, and its tables
//     if (gpu_join_cube_fits(runs[0], runs[1])) ...       // in the dispatcher's, as all that follows
//     if (gpu_join_cube_meets(gpu, runs, n) != SHARE_DONE) ...    // their kernel is not compiled yet
//     gpu_join_cubes_prepare(gpu, wishes, n);             // optional: for several cubes at once
//     if (gpu_join_cube_of(wave, runs, n, gain, ..., &cube) != SHARE_DONE) ...    // too many cells, or no memory
//     TRY(gpu_join_cube_launch(wave, cube, ...));         // the cube's kernel, then one that collects cells
//     gpu_join_cube_free(cube);
//     gpu_join_cube_forget(run);                          // in the query's thread, when it has got off

#ifndef WEFT_GPU_JOIN_CUBE_H
#define WEFT_GPU_JOIN_CUBE_H

#include "device/gpu_wave.h"

typedef struct GpuJoinCube GpuJoinCube;

void         gpu_join_cube_look(GpuRun *run);
void         gpu_join_cube_forget(GpuRun *run);
bool         gpu_join_cube_can(const GpuRun *run);          // its tables are here, too
const CubeForm *gpu_join_cube_form(const GpuRun *run);      // NULL: it is for no such cube
double       gpu_join_cube_own_ns(const GpuRun *run);       // what it costs once to do without a cube
bool         gpu_join_cube_fits(const GpuRun *a, const GpuRun *b);
ShareMade    gpu_join_cube_meets(Gpu *gpu, GpuRun *const *runs, int n);    // such queries met: their kernel is there
// What the host makes for cubes of these, each of another shape, is made by several threads; gpu_join_cube_of finds it.
typedef struct JoinCubeWish { GpuRun **runs; int n; } JoinCubeWish;
void         gpu_join_cubes_prepare(Gpu *gpu, const JoinCubeWish *wishes, int n);
const Slots *gpu_join_cube_made(GpuRun *const *runs, int n, bool *is_all);   // as ShareWays.made
// Over these chunks of the wave, which may hold no rows for some of them.  Its tables and arguments are under way then;
// where the device failed at that, it is SHARE_NO, too, and what is the matter will show.
ShareMade    gpu_join_cube_of(Wave *wave, GpuRun *const *runs, int n, double gain, const int *chunks, int n_chunks,
                              GpuJoinCube **cube);
weft_status  gpu_join_cube_launch(Wave *wave, const GpuJoinCube *cube, Error *err);
void         gpu_join_cube_free(GpuJoinCube *cube);
bool         gpu_join_cubes_keep(const Gpu *gpu);           // something for the next cubes
void         gpu_join_cubes_forget(Gpu *gpu);               // that
void         gpu_join_cubes_free(Gpu *gpu);

#endif
