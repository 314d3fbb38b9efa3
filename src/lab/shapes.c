// shapes.c - block sizes and grids: by the model, for a kernel alone, and at random.

#include <time.h>

#include "lab/lab_int.h"

weft_status lab_member(Lab *lab, const LabKernel *kernel, LabMember *member)
{
    *member = (LabMember){ .kernel = kernel, .launch = { .n_threads = lab_threads(lab, kernel) } };
    return lab_needs(lab, kernel, &member->launch.needs);
}

weft_status lab_members(Lab *lab, LabPool pool, LabMember **members, int *n_members)
{
    *n_members = lab_pool_count(pool);
    *members = arena_array(lab->arena, LabMember, *n_members);
    for (int i = 0; i < *n_members; i++)
        TRY(lab_member(lab, lab_pool(pool, i), &(*members)[i]));
    return WEFT_OK;
}

static weft_status cannot_run(Lab *lab, const LabMember *member)
{
    fail(lab->err, WEFT_TOO_LONG, -1, "kernel %s does not fit on the %s", member->kernel->name, lab->device_title);
    error_hint(lab->err, "Choose a newer card with --device.");
    return lab->err->status;
}

weft_status lab_shape_alone(Lab *lab, const LabMember *member, int stream, LabLaunch *launch)
{
    BlockSize best = { 0 };
    if (!best_block_size(&lab->limits, &member->launch.needs, member->launch.n_threads, &best))
        return cannot_run(lab, member);
    *launch = (LabLaunch){ member->kernel, best.threads_per_block, best.n_blocks, stream };
    return WEFT_OK;
}

weft_status lab_shape_random(Lab *lab, const LabMember *member, LabRandom *random, int stream, LabLaunch *launch)
{
    const int most = block_warps_max(&lab->limits, &member->launch.needs);
    if (most < 1)
        return cannot_run(lab, member);
    const i64 threads = (i64)(1 + lab_random_below(random, most)) * lab->limits.threads_per_warp;
    *launch = (LabLaunch){ member->kernel, (int)threads, (member->launch.n_threads + threads - 1) / threads, stream };
    return WEFT_OK;
}

void lab_shapes_planned(const LabMember *const *members, int n_members, const LaunchPlan *plan, LabLaunch *launches)
{
    for (int i = 0; i < n_members; i++) {
        const int own = plan->order[i];
        const LaunchShape *shape = &plan->shapes[own];
        launches[i] = (LabLaunch){ members[own]->kernel, shape->threads_per_block, shape->n_blocks, i };
    }
}

double lab_cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
