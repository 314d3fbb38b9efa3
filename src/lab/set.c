// set.c - a set of launches on the lab's card, simulated or real.

#include "lab/lab_int.h"

weft_status lab_needs(Lab *lab, const LabKernel *kernel, KernelNeeds *needs)
{
    if (!lab->is_sim)
        return lab_gpu_needs(lab->gpu, kernel, needs, lab->err);
    *needs = kernel->needs;
    return WEFT_OK;
}

i64 lab_threads(const Lab *lab, const LabKernel *kernel)
{
    const int n = lab->limits.n_multiprocessors;
    return (i64)kernel->warps * lab->limits.threads_per_warp * MAX_OF(n - n % GROUP_MAX, 1);
}

static int count_streams(const LabLaunch *launches, int n_launches)
{
    int n_streams = 0;
    for (int i = 0; i < n_launches; i++)
        n_streams = MAX_OF(n_streams, launches[i].stream + 1);
    return n_streams;
}

static weft_status add_launch(Lab *lab, SimStream *stream, SimKernel *kernels, const LabLaunch *launch)
{
    if (launch->n_blocks > SIM_BLOCKS_MAX)
        return fail(lab->err, WEFT_TOO_LONG, -1, "%s has %lld blocks, and the simulator counts %d",
                    launch->kernel->name, (long long)launch->n_blocks, SIM_BLOCKS_MAX);
    kernels[stream->n_kernels++] = (SimKernel){ launch->kernel->needs, launch->threads_per_block,
                                                (int)launch->n_blocks, launch->kernel->duration_ns };
    stream->kernels = kernels;
    return WEFT_OK;
}

static weft_status simulate(Lab *lab, Arena *arena, const LabLaunch *launches, int n_launches, Timeline *timeline)
{
    const int n_streams = count_streams(launches, n_launches);
    SimStream *streams = arena_array(arena, SimStream, n_streams);
    int *n_kernels = arena_array(arena, int, n_streams);
    SimKernel **kernels = arena_array(arena, SimKernel *, n_streams);
    for (int i = 0; i < n_launches; i++)
        n_kernels[launches[i].stream]++;
    for (int i = 0; i < n_streams; i++)
        kernels[i] = arena_array(arena, SimKernel, n_kernels[i]);
    for (int i = 0; i < n_launches; i++)
        TRY(add_launch(lab, &streams[launches[i].stream], kernels[launches[i].stream], &launches[i]));
    return sim_run(arena, &lab->limits, streams, n_streams, timeline, lab->err);
}

weft_status lab_run_timeline(Lab *lab, Arena *arena, const LabLaunch *launches, int n_launches, Timeline *timeline)
{
    if (lab->is_sim)
        return simulate(lab, arena, launches, n_launches, timeline);
    return lab_gpu_timeline(lab->gpu, arena, launches, n_launches, timeline, lab->err);
}

weft_status lab_run_set(Lab *lab, const LabLaunch *launches, int n_launches, i64 *makespan_ns)
{
    if (!lab->is_sim)
        return lab_gpu_run(lab->gpu, launches, n_launches, makespan_ns, lab->err);
    Arena *scratch = arena_new(NULL, "set");
    Timeline timeline = { 0 };
    const weft_status status = simulate(lab, scratch, launches, n_launches, &timeline);
    *makespan_ns = timeline.n_phases ? timeline.phase_ends_ns[timeline.n_phases - 1] : 0;
    arena_free(scratch);
    return status;
}
