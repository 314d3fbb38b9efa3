// lab.c - the lab's kernels through src/lab/gpu.c: compiled, launched, timed, checked, and any call failing.
//
//     WEFT_LIBCUDA=build/gpu/libfake_lab_cuda.so WEFT_LIBNVRTC=build/gpu/libfake_lab_cuda.so build/gpu/lab
//     build/gpu/lab                                       # on a GPU: small work at many shapes, all of it at three

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/flow_query.h"
#include "lab/pool.h"

static int n_passed, n_failed;
static int (*count_left)(void), (*count_calls)(void);
static void (*fail_at)(int nth);

static void check(bool is_right, const char *what, const char *got)
{
    if (is_right) n_passed++;
    else n_failed++, printf("failed: %s: %.300s\n", what, got);
}

static LabGpu *open_lab(Arena *arena, bool is_small, Error *err)
{
    LabGpu *gpu = NULL;
    error_clear(err);
    if (is_small) setenv("WEFT_LAB_SMALL", "on", 1);
    else unsetenv("WEFT_LAB_SMALL");
    return lab_gpu_open(arena, 0, &gpu, err) ? NULL : gpu;
}

// ---- answers --------------------------------------------------------------------------------------------------------

static void check_kernels(LabGpu *gpu, LabPool pool, const int *sizes, int n_sizes)
{
    for (int i = 0; i < lab_pool_count(pool); i++)
        for (int s = 0; s < n_sizes; s++) {
            const LabKernel *kernel = lab_pool(pool, i);
            Error err = { 0 };
            char what[64];
            snprintf(what, sizeof what, "%s with blocks of %d", kernel->name, sizes[s]);
            check(lab_gpu_check(gpu, kernel, sizes[s], &err) == WEFT_OK, what, err.message);
        }
}

static void show_needs(LabGpu *gpu, LabPool pool)
{
    for (int i = 0; i < lab_pool_count(pool); i++) {
        const LabKernel *kernel = lab_pool(pool, i);
        KernelNeeds needs = { 0 };
        Error err = { 0 };
        check(lab_gpu_needs(gpu, kernel, &needs, &err) == WEFT_OK, kernel->name, err.message);
        printf("%-20s %3d registers (recorded: %d), %5d bytes shared (%d)\n", kernel->name, needs.registers,
               kernel->registers_sm90, needs.shared, kernel->needs.shared);
    }
}

// ---- runs -----------------------------------------------------------------------------------------------------------

// Three streams, one kernel twice at the same time: each launch has outputs of its own.
static int make_launches(LabLaunch *launches)
{
    const LabKernel *scan = lab_pool_find(LAB_POOL_REAL, "scan"), *sum = lab_pool_find(LAB_POOL_REAL, "reduction");
    launches[0] = (LabLaunch){ scan, 64, 2, 0 };
    launches[1] = (LabLaunch){ scan, 32, 3, 1 };
    launches[2] = (LabLaunch){ sum, 96, 2, 2 };
    launches[3] = (LabLaunch){ sum, 32, 1, 0 };
    return 4;
}

static void check_timeline(const Timeline *timeline)
{
    bool is_sorted = true, is_sound = true;
    for (int i = 0; i < timeline->n_spans; i++) {
        const SimSpan *span = &timeline->spans[i];
        is_sorted &= i == 0 || span[-1].multiprocessor < span->multiprocessor ||
                     (span[-1].multiprocessor == span->multiprocessor && span[-1].start_ns <= span->start_ns);
        is_sound &= span->start_ns >= 0 && span->end_ns >= span->start_ns;
    }
    check(timeline->n_spans == 8, "a span for each block", "another number");
    check(is_sorted, "spans are by multiprocessor and start", "not sorted");
    check(is_sound, "spans begin at 0 or later and do not end before", "they do not");
    check(timeline->n_phases == timeline->n_spans && timeline->first_span[0] == 0, "an index", "none");
}

static void check_runs(LabGpu *gpu, Arena *arena)
{
    LabLaunch launches[4];
    const int n = make_launches(launches);
    Timeline timeline = { 0 };
    Error err = { 0 };
    i64 time_ns = 0;
    check(lab_gpu_run(gpu, launches, n, &time_ns, &err) == WEFT_OK && time_ns > 0, "a set", err.message);
    check(lab_gpu_timeline(gpu, arena, launches, n, &timeline, &err) == WEFT_OK, "a timeline", err.message);
    if (!err.status) check_timeline(&timeline);
    launches[0].threads_per_block = 33;
    check(lab_gpu_run(gpu, launches, n, &time_ns, &err) == WEFT_INVALID_PARAMETER, "33 threads", "they ran");
    // More threads than the pool has: more work.
    error_clear(&err);
    const LabKernel *bins = lab_pool_find(LAB_POOL_REAL, "histogram");
    const LabLaunch alone = { bins, 128, fail_at ? 40 : 10000, 0 };
    check(lab_gpu_run(gpu, &alone, 1, &time_ns, &err) == WEFT_OK, "a kernel that has the card", err.message);
}

static void check_steps(LabGpu *gpu)
{
    const LabKernel *build = lab_pool_find(LAB_POOL_QUERY, "hash_build");
    const LabKernel *probe = lab_pool_find(LAB_POOL_QUERY, "hash_probe");
    const LabStep steps[] = {
        { LAB_STEP_COPY, 1 << 20, { 0 }, 0, -1 },
        { LAB_STEP_KERNEL, 0, { build, 64, 2, 0 }, 1, 0 },
        { LAB_STEP_COPY, 1 << 16, { 0 }, 0, -1 },
        { LAB_STEP_KERNEL, 0, { probe, 64, 2, 0 }, 2, 1 },
    };
    for (int is_pinned = 0; is_pinned < 2; is_pinned++) {
        Error err = { 0 };
        i64 time_ns = 0;
        check(lab_gpu_run_steps(gpu, steps, COUNT_OF(steps), is_pinned, &time_ns, &err) == WEFT_OK && time_ns > 0,
              "steps", err.message);
    }
}

static void check_synthetic(LabGpu *gpu)
{
    const LabKernel *a = lab_pool_find(LAB_POOL_TABLE3, "A");
    Error err = { 0 };
    i64 time_ns = 0;
    const LabLaunch launch = { a, fail_at ? 64 : a->threads_per_block, 1, 0 };
    check(lab_gpu_run(gpu, &launch, 1, &time_ns, &err) == WEFT_OK, "kernel A", err.message);
    check(time_ns > 13900000 && (fail_at || time_ns < 14500000), "kernel A takes 14 ms", "it does not");
}

// ---- any call fails: an error, nothing is left, and the next time it works ------------------------------------------

static weft_status do_some_of_all(Arena *arena, Error *err)
{
    LabLaunch launches[4];
    Timeline timeline;
    LabGpu *gpu = open_lab(arena, true, err);
    const LabKernel *sum = lab_pool_find(LAB_POOL_REAL, "reduction");
    i64 time_ns;
    if (!gpu) return err->status;
    const int n = make_launches(launches);
    const LabStep steps[] = { { LAB_STEP_COPY, 4096, { 0 }, 0, -1 }, { LAB_STEP_KERNEL, 0, { sum, 32, 1, 0 }, 1, 0 } };
    TRY(lab_gpu_check(gpu, sum, 64, err));
    TRY(lab_gpu_run(gpu, launches, n, &time_ns, err));
    TRY(lab_gpu_timeline(gpu, arena, launches, n, &timeline, err));
    TRY(lab_gpu_run_steps(gpu, steps, 2, true, &time_ns, err));
    return lab_gpu_run_steps(gpu, steps, 2, false, &time_ns, err);
}

// A filter and a sum: rows 10 to 19 of 64.
static weft_status launch_query(FlowLab *flow, Error *err)
{
    static i32 key[64], value[64];
    const FilterQuery query = { 64, 10, 19, 2, { (u64)(uintptr_t)key, (u64)(uintptr_t)value } };
    i64 sum = 0;
    for (int i = 0; i < 64; i++) key[i] = i, value[i] = 100 + i;
    if (!fail_at) return WEFT_OK;                           // a real card cannot read these arrays
    TRY(query_launch(flow, 3, &query, err));
    TRY(query_wait(flow, 3, &sum, err));
    check(sum == 10 * 100 + 145, "a filter and a sum", "another sum");
    return WEFT_OK;
}

// The baselines of weft lab flow: some frames by each way, a query, and a split kernel.
static weft_status do_some_flow(Arena *arena, Error *err)
{
    static const FlowWay *const ways[] = { &flow_way_pageable, &flow_way_streams_2, &flow_way_tasks,
                                           &flow_way_managed,  &flow_way_topics,    &flow_way_xeflow };
    Lab lab = { .arena = arena, .err = err, .gpu = open_lab(arena, true, err) };
    FlowLab *flow = arena_make(arena, FlowLab);
    const FlowTrial trial = { .op = operator_find("RAID-6"), .frame_bytes = 4096, .n_frames_max = 2 };
    FlowSplit split = { .x = { 4, 8 }, .warps = 16 }, concurrent = { .x = { 4, 8 } };
    FlowFigures figures;
    if (!lab.gpu) return err->status;
    lab.limits = *lab_gpu_limits(lab.gpu);
    *flow = (FlowLab){ .lab = &lab, .arena = arena, .sizes = { 4096 }, .n_sizes = 1, .measure_ms = 1, .n_runs = 1 };
    TRY(flow_gpu_open(flow, err));
    for (int i = 0; i < COUNT_OF(ways); i++) TRY(ways[i]->run(flow, ways[i], &trial, &figures, err));
    TRY(launch_query(flow, err));
    TRY(flow_gpu_split(flow, &split, err));
    return flow_gpu_split(flow, &concurrent, err);
}

static void check_failures(weft_status (*work)(Arena *arena, Error *err))
{
    int nth = 1;
    for (bool is_failing = true; is_failing && nth < 1000; nth++) {
        Arena *arena = arena_new(NULL, "test");
        Error err = { 0 };
        char what[64];
        fail_at(nth);
        const weft_status status = work(arena, &err);
        is_failing = count_calls() >= nth;
        snprintf(what, sizeof what, "call %d fails", nth);
        check(!is_failing || status != WEFT_OK, what, "no error");
        fail_at(0);
        arena_free(arena);
        check(count_left() == 0, what, "something is left");
    }
    check(nth > 50 && nth < 1000, "calls of all kinds failed", "too few");
}

static void check_all_kernels(LabGpu *gpu, const int *sizes, int n_sizes)
{
    check_kernels(gpu, LAB_POOL_REAL, sizes, n_sizes);
    check_kernels(gpu, LAB_POOL_QUERY, sizes, n_sizes);
    check_kernels(gpu, LAB_POOL_FUSE, sizes, n_sizes);
}

// Answers at every block size of so many warps, with little work: the CPU's side takes longest.
static void check_many_shapes(void)
{
    static const int many[] = { 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024 };
    Arena *arena = arena_new(NULL, "test");
    Error err = { 0 };
    LabGpu *gpu = open_lab(arena, true, &err);
    check(gpu != NULL, "the GPU opens", err.message);
    if (gpu) check_all_kernels(gpu, many, COUNT_OF(many));
    arena_free(arena);
}

int main(void)
{
    static const int some[] = { 64, 160 }, three[] = { 64, 256, 1024 };
    const char *driver = getenv("WEFT_LIBCUDA");
    void *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&count_left = fake ? dlsym(fake, "fake_lab_left") : NULL;
    *(void **)&count_calls = fake ? dlsym(fake, "fake_lab_calls") : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_lab_fail") : NULL;
    Arena *arena = arena_new(NULL, "test");
    Error err = { 0 };
    LabGpu *gpu = open_lab(arena, fail_at != NULL, &err);
    if (!gpu) return printf("failed: %s\n", err.message), 1;
    printf("%s\n", lab_gpu_limits(gpu)->name);
    for (int pool = LAB_POOL_REAL; pool <= LAB_POOL_FUSE; pool++) show_needs(gpu, (LabPool)pool);
    check_all_kernels(gpu, fail_at ? some : three, fail_at ? COUNT_OF(some) : COUNT_OF(three));
    check_runs(gpu, arena);
    check_steps(gpu);
    check_synthetic(gpu);
    arena_free(arena);
    if (fail_at) {
        check_failures(do_some_of_all);
        check_failures(do_some_flow);
    } else {
        check_many_shapes();
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
