// gpu.c - the pool's kernels on an NVIDIA GPU.
//
// Kernels are compiled by NVRTC and launched through the driver, both opened while running.  Each kernel of the pool
// has one input on the device; launches of the same kernel in one run have outputs of their own, since a scan whose
// tickets another scan takes would be done at once.  Outputs are zeroed before the clock starts.
//
// The driver gives streams 8 hardware queues unless it is told otherwise before it starts; kernels of two streams that
// share one wait for each other.  So the lab asks for 32, which is all there are.

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda_driver.h"
#include "jit/nvrtc.h"
#include "lab/gpu.h"
#include "lab/kernel_args.h"
#include "lab/work.h"

enum {
    STREAMS_MAX = 256,
    SEED = 24,
    SMALL = 64,
};

extern const char lab_kernel_args_text[];

typedef struct GpuInstance {                                // what one launch of a run writes to
    CuAddress out[WORK_OUTPUTS], scratch;
} GpuInstance;

typedef struct GpuWork {
    const LabWork *work;
    i64       n_threads;                                    // that it was made for
    CuAddress in[WORK_INPUTS];
    GpuInstance **instances;
    int       n_instances;
    int       n_used;                                       // of the instances, in this run
} GpuWork;

typedef struct LoadedKernel {
    const LabKernel *kernel;
    const WorkKind *kind;
    CuModule   module;
    CuFunction function;
    KernelNeeds needs;
    int        dynamic_shared;
    GpuWork  **works;                                       // of different sizes
    int        n_works;
} LoadedKernel;

struct LabGpu {
    Arena     *arena;
    const CudaDriver *cu;
    Cubins    *cubins;
    CuDevice   device;
    int        ordinal;
    CuContext  context;
    GpuLimits  limits;
    char       name[128];
    LoadedKernel **kernels;
    int        n_kernels;
    CuModule  *modules;                                     // of lab_gpu_build
    int        n_modules;
    CuStream   streams[STREAMS_MAX];                        // made when they are first used
    CuEvent    start, end, stream_ends[STREAMS_MAX];
    CuAddress *memory;                                      // all that was allocated
    int        n_memory;
    void      *pinned;                                      // what copies of queries come from
    void      *pageable;
    CuAddress  landing;                                     // and where they go
    size_t     copy_bytes;
    bool       is_small;                                    // work is, for tests
};

// ---- opening and closing --------------------------------------------------------------------------------------------

static void close_gpu(void *context)
{
    LabGpu *gpu = context;
    const CudaDriver *cu = gpu->cu;
    if (gpu->context) {
        cu->CtxSetCurrent(gpu->context);
        cu->CtxSynchronize();
        for (int i = 0; i < gpu->n_memory; i++)
            cu->MemFree(gpu->memory[i]);
        for (int i = 0; i < gpu->n_kernels; i++)
            if (gpu->kernels[i]->module)
                cu->ModuleUnload(gpu->kernels[i]->module);
        for (int i = 0; i < gpu->n_modules; i++)
            cu->ModuleUnload(gpu->modules[i]);
        for (int i = 0; i < STREAMS_MAX; i++) {
            if (gpu->streams[i])
                cu->StreamDestroy(gpu->streams[i]);
            if (gpu->stream_ends[i])
                cu->EventDestroy(gpu->stream_ends[i]);
        }
        if (gpu->start)
            cu->EventDestroy(gpu->start);
        if (gpu->end)
            cu->EventDestroy(gpu->end);
        if (gpu->pinned)
            cu->MemFreeHost(gpu->pinned);
        cu->CtxSetCurrent(NULL);
        cu->DevicePrimaryCtxRelease(gpu->device);
    }
    free(gpu->pageable);
    cubins_free(gpu->cubins);
}

static weft_status read_limits(LabGpu *gpu, Error *err)
{
    DriverReport report = { 0 };
    const struct {
        int attribute, *value;
    } asked[] = {
        { CU_DEVICE_CAPABILITY_MAJOR, &report.major },
        { CU_DEVICE_CAPABILITY_MINOR, &report.minor },
        { CU_DEVICE_MULTIPROCESSORS, &report.n_multiprocessors },
        { CU_DEVICE_WARP_SIZE, &report.threads_per_warp },
        { CU_DEVICE_THREADS_PER_BLOCK, &report.threads_per_block },
        { CU_DEVICE_THREADS_PER_MULTIPROCESSOR, &report.threads_per_multiprocessor },
        { CU_DEVICE_BLOCKS_PER_MULTIPROCESSOR, &report.blocks_per_multiprocessor },
        { CU_DEVICE_REGISTERS_PER_BLOCK, &report.registers_per_block },
        { CU_DEVICE_REGISTERS_PER_MULTIPROCESSOR, &report.registers_per_multiprocessor },
        { CU_DEVICE_SHARED_PER_BLOCK_OPTIN, &report.shared_per_block },
        { CU_DEVICE_SHARED_PER_MULTIPROCESSOR, &report.shared_per_multiprocessor },
        { CU_DEVICE_SHARED_RESERVED_PER_BLOCK, &report.shared_reserved },
    };
    for (int i = 0; i < COUNT_OF(asked); i++)
        CUDA_TRY(gpu->cu, DeviceGetAttribute, (asked[i].value, asked[i].attribute, gpu->device), err);
    TRY(limits_of_driver(&report, &gpu->limits, err));
    CUDA_TRY(gpu->cu, DeviceGetName, (gpu->name, sizeof(gpu->name), gpu->device), err);
    gpu->limits.name = gpu->name;
    return cuda_check_capability("cuda", gpu->name, report.major, report.minor, err);
}

static weft_status open_gpu(LabGpu *gpu, int ordinal, Error *err)
{
    const CudaDriver *cu = gpu->cu;
    TRY(cuda_check_number(ordinal, err));
    gpu->ordinal = ordinal;
    CUDA_TRY(cu, DeviceGet, (&gpu->device, ordinal), err);
    TRY(read_limits(gpu, err));
    CUDA_TRY(cu, DevicePrimaryCtxRetain, (&gpu->context, gpu->device), err);
    CUDA_TRY(cu, CtxSetCurrent, (gpu->context), err);
    CUDA_TRY(cu, EventCreate, (&gpu->start, 0), err);
    CUDA_TRY(cu, EventCreate, (&gpu->end, 0), err);
    return WEFT_OK;
}

weft_status lab_gpu_open(Arena *arena, int ordinal, LabGpu **out, Error *err)
{
    const CudaDriver *cu;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);         // too late if the program has used CUDA before
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);              // a kernel that is loaded at its launch would be timed, too
    TRY(cuda_need(&cu, err));
    LabGpu *gpu = arena_make(arena, LabGpu);
    gpu->arena = arena;
    gpu->cu = cu;
    gpu->cubins = cubins_new(NULL);
    gpu->is_small = getenv("WEFT_LAB_SMALL") != NULL;
    arena_defer(arena, close_gpu, gpu);
    TRY(open_gpu(gpu, ordinal, err));
    *out = gpu;
    return WEFT_OK;
}

const GpuLimits *lab_gpu_limits(const LabGpu *gpu)
{
    return &gpu->limits;
}

// Others, as the engine, may have set another context for this thread.
static weft_status enter(LabGpu *gpu, Error *err)
{
    CUDA_TRY(gpu->cu, CtxSetCurrent, (gpu->context), err);
    return WEFT_OK;
}

static weft_status allocate(LabGpu *gpu, size_t bytes, CuAddress *address, Error *err)
{
    CUDA_TRY(gpu->cu, MemAlloc, (address, MAX_OF(bytes, 16)), err);
    *LIST_PUSH(gpu->arena, gpu->memory, gpu->n_memory) = *address;
    return WEFT_OK;
}

static weft_status stream_of(LabGpu *gpu, int number, CuStream *stream, Error *err)
{
    if (number < 0 || number >= STREAMS_MAX)
        return fail(err, WEFT_TOO_LONG, -1, "stream %d: there are %d", number, STREAMS_MAX);
    if (!gpu->streams[number]) {
        CUDA_TRY(gpu->cu, StreamCreate, (&gpu->streams[number], CU_STREAM_NON_BLOCKING), err);
        CUDA_TRY(gpu->cu, EventCreate, (&gpu->stream_ends[number], CU_EVENT_DISABLE_TIMING), err);
    }
    *stream = gpu->streams[number];
    return WEFT_OK;
}

// ---- code -----------------------------------------------------------------------------------------------------------

// How many values a synthetic thread keeps so that it is given as many registers as one with so many would be: found by
// compiling for sm_75 and sm_90, which agree up to the unit of allocation.  8 are not to be had: it takes 12.
static int live_values(int registers)
{
    static const struct {
        int registers, live;
    } known[] = { { 8, 1 }, { 11, 1 }, { 16, 5 }, { 24, 12 }, { 32, 20 }, { 33, 25 }, { 40, 28 }, { 44, 33 } };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (registers <= known[i].registers)
            return known[i].live;
    return registers - 11;
}

static weft_status compile(LabGpu *gpu, LoadedKernel *loaded, Text *cubin, Error *err)
{
    char live[32];
    bool was_cached;
    const char *defines[] = { live };
    snprintf(live, sizeof(live), "LIVE=%d", live_values(loaded->kernel->needs.registers));
    const CubinJob job = { .prelude = lab_kernel_args_text, .text = loaded->kind->text,
                           .driver_version = gpu->cu->version, .major = gpu->limits.major,
                           .minor = gpu->limits.minor, .n_defines = 1, .defines = defines };
    return cubins_get(gpu->cubins, &job, cubin, &was_cached, err);
}

static weft_status load(LabGpu *gpu, LoadedKernel *loaded, Error *err)
{
    const CudaDriver *cu = gpu->cu;
    Text cubin = { 0 };
    int static_shared = 0;
    weft_status status = compile(gpu, loaded, &cubin, err);
    if (!status)
        status = cuda_check(cu, cu->ModuleLoadData(&loaded->module, cubin.bytes), "cuModuleLoadData", err);
    text_free(&cubin);
    if (status)
        return status;
    CUDA_TRY(cu, ModuleGetFunction, (&loaded->function, loaded->module, loaded->kind->function), err);
    CUDA_TRY(cu, FuncGetAttribute, (&loaded->needs.registers, CU_FUNC_REGISTERS, loaded->function), err);
    CUDA_TRY(cu, FuncGetAttribute, (&static_shared, CU_FUNC_SHARED_BYTES, loaded->function), err);
    CUDA_TRY(cu, FuncGetAttribute,
             (&loaded->needs.threads_per_block_max, CU_FUNC_MAX_THREADS_PER_BLOCK, loaded->function), err);
    loaded->dynamic_shared = loaded->kind == &work_synthetic ? loaded->kernel->needs.shared : 0;
    loaded->needs.shared = static_shared + loaded->dynamic_shared;
    // As the model has it: as much shared memory as there can be.
    CUDA_TRY(cu, FuncSetAttribute, (loaded->function, CU_FUNC_SHARED_CARVEOUT, 100), err);
    return WEFT_OK;
}

static weft_status find_kernel(LabGpu *gpu, const LabKernel *kernel, LoadedKernel **found, Error *err)
{
    for (int i = 0; i < gpu->n_kernels; i++)
        if (gpu->kernels[i]->kernel == kernel) {
            *found = gpu->kernels[i];
            return WEFT_OK;
        }
    LoadedKernel *loaded = arena_make(gpu->arena, LoadedKernel);
    loaded->kernel = kernel;
    loaded->kind = work_find(kernel->name);
    if (!loaded->kind)
        loaded->kind = &work_synthetic;
    const weft_status status = load(gpu, loaded, err);
    if (status && loaded->module)
        gpu->cu->ModuleUnload(loaded->module);
    if (status)
        return status;
    *LIST_PUSH(gpu->arena, gpu->kernels, gpu->n_kernels) = loaded;
    *found = loaded;
    return WEFT_OK;
}

// ---- kernels of others ----------------------------------------------------------------------------------------------

weft_status lab_gpu_enter(LabGpu *gpu, const CudaDriver **cu, Error *err)
{
    *cu = gpu->cu;
    return enter(gpu, err);
}

int lab_gpu_ordinal(const LabGpu *gpu)
{
    return gpu->ordinal;
}

bool lab_gpu_is_small(const LabGpu *gpu)
{
    return gpu->is_small;
}

static weft_status load_text(LabGpu *gpu, const char *prelude, const char *text, CuModule *module, Error *err)
{
    Text words = { 0 }, cubin = { 0 };
    bool was_cached;
    text_add(&words, "%s%s", lab_kernel_args_text, prelude);
    const CubinJob job = { .prelude = words.bytes, .text = text, .driver_version = gpu->cu->version,
                           .major = gpu->limits.major, .minor = gpu->limits.minor };
    weft_status status = cubins_get(gpu->cubins, &job, &cubin, &was_cached, err);
    if (!status)
        status = cuda_check(gpu->cu, gpu->cu->ModuleLoadData(module, cubin.bytes), "cuModuleLoadData", err);
    text_free(&words);
    text_free(&cubin);
    return status;
}

weft_status lab_gpu_build(LabGpu *gpu, const char *prelude, const char *text, const char *const *names, int n_names,
                          CuFunction *functions, Error *err)
{
    CuModule module;
    TRY(enter(gpu, err));
    TRY(load_text(gpu, prelude, text, &module, err));
    *LIST_PUSH(gpu->arena, gpu->modules, gpu->n_modules) = module;
    for (int i = 0; i < n_names; i++)
        CUDA_TRY(gpu->cu, ModuleGetFunction, (&functions[i], module, names[i]), err);
    return WEFT_OK;
}

weft_status lab_gpu_needs(LabGpu *gpu, const LabKernel *kernel, KernelNeeds *needs, Error *err)
{
    LoadedKernel *loaded;
    TRY(enter(gpu, err));
    TRY(find_kernel(gpu, kernel, &loaded, err));
    *needs = loaded->needs;
    return WEFT_OK;
}

// ---- work -----------------------------------------------------------------------------------------------------------

static i64 pool_threads(const LabGpu *gpu, const LabKernel *kernel)
{
    return (i64)kernel->warps * gpu->limits.threads_per_warp * gpu->limits.n_multiprocessors;
}

static weft_status copy_in(LabGpu *gpu, GpuWork *made, Error *err)
{
    CuStream stream;
    TRY(stream_of(gpu, 0, &stream, err));
    for (int i = 0; i < WORK_INPUTS; i++) {
        if (!made->work->in[i])
            continue;
        TRY(allocate(gpu, made->work->in_bytes[i], &made->in[i], err));
        CUDA_TRY(gpu->cu, MemcpyHtoDAsync, (made->in[i], made->work->in[i], made->work->in_bytes[i], stream), err);
    }
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    return WEFT_OK;
}

// Rounds that take about a millisecond at 1.7 GHz: two instructions for each value, and the loop.
static int synthetic_rounds(const LabKernel *kernel)
{
    return 1700000 / (2 * live_values(kernel->needs.registers) + 10);
}

static weft_status add_work(LabGpu *gpu, LoadedKernel *loaded, i64 n_threads, bool is_alone, GpuWork **found,
                            Error *err)
{
    const LabKernel *kernel = loaded->kernel;
    const bool is_synthetic = loaded->kind == &work_synthetic, is_timed = kernel->threads_per_block > 0;
    const int wanted = is_alone ? loaded->kind->items_alone : loaded->kind->items;
    const int items = gpu->is_small ? MAX_OF(wanted / SMALL, 1) : wanted;
    const WorkSize size = { n_threads, !is_synthetic ? items : is_timed ? INT32_MAX : synthetic_rounds(kernel) };
    GpuWork *made = arena_make(gpu->arena, GpuWork);
    LabWork *work = work_new(gpu->arena, loaded->kind, &size, SEED);
    if (is_synthetic && is_timed)
        work->n[1] = (u64)kernel->duration_ns;
    *made = (GpuWork){ .work = work, .n_threads = n_threads };
    TRY(copy_in(gpu, made, err));
    *LIST_PUSH(gpu->arena, loaded->works, loaded->n_works) = made;
    *found = made;
    return WEFT_OK;
}

// Work for so many threads: the pool's, unless there are many more of them than the pool has.  The same number of
// threads comes with different block sizes, rounded up by less than a block.  All of them get the same work, and none
// may have fewer threads than it was made for: a block that goes round once more would take as long as a whole round.
static weft_status find_work(LabGpu *gpu, LoadedKernel *loaded, i64 n_threads, GpuWork **found, Error *err)
{
    const i64 pool = pool_threads(gpu, loaded->kernel), block = gpu->limits.threads_per_block;
    const bool is_alone = loaded->kind != &work_synthetic && n_threads > 2 * pool, is_large = n_threads > 32 * block;
    const i64 at_most = is_alone ? n_threads : pool, slack = is_alone && is_large ? 2 * block : 0;
    for (int i = 0; i < loaded->n_works; i++)
        if (loaded->works[i]->n_threads <= at_most && at_most - loaded->works[i]->n_threads <= slack) {
            *found = loaded->works[i];
            return WEFT_OK;
        }
    return add_work(gpu, loaded, at_most - slack / 2, is_alone, found, err);
}

static weft_status add_instance(LabGpu *gpu, GpuWork *work, Error *err)
{
    GpuInstance *instance = arena_make(gpu->arena, GpuInstance);
    for (int i = 0; i < WORK_OUTPUTS; i++)
        if (work->work->out_bytes[i])
            TRY(allocate(gpu, work->work->out_bytes[i], &instance->out[i], err));
    if (work->work->scratch_bytes)
        TRY(allocate(gpu, work->work->scratch_bytes, &instance->scratch, err));
    *LIST_PUSH(gpu->arena, work->instances, work->n_instances) = instance;
    return WEFT_OK;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

typedef struct ReadyLaunch {
    LoadedKernel *kernel;
    GpuWork   *work;
    GpuInstance *instance;
    LabArgs    args;
    CuStream   stream;
} ReadyLaunch;

static weft_status clear_output(LabGpu *gpu, const ReadyLaunch *ready, Error *err)
{
    const LabWork *work = ready->work->work;
    for (int i = 0; i < WORK_OUTPUTS; i++)
        if (ready->instance->out[i])
            CUDA_TRY(gpu->cu, MemsetD8Async, (ready->instance->out[i], 0, work->out_bytes[i], gpu->streams[0]), err);
    if (ready->instance->scratch)
        CUDA_TRY(gpu->cu, MemsetD8Async, (ready->instance->scratch, 0, work->scratch_bytes, gpu->streams[0]), err);
    return WEFT_OK;
}

static LabArgs args_of(const ReadyLaunch *ready, CuAddress times)
{
    LabArgs args = { .scratch = (void *)ready->instance->scratch, .times = (LabBlockTime *)times };
    for (int i = 0; i < WORK_INPUTS; i++)
        args.in[i] = (const void *)ready->work->in[i];
    for (int i = 0; i < WORK_OUTPUTS; i++)
        args.out[i] = (void *)ready->instance->out[i];
    for (int i = 0; i < WORK_NUMBERS; i++)
        args.n[i] = ready->work->work->n[i], args.f[i] = ready->work->work->f[i];
    return args;
}

static weft_status check_shape(const LoadedKernel *loaded, const LabLaunch *launch, Error *err)
{
    const int threads = launch->threads_per_block, most = loaded->needs.threads_per_block_max;
    if (threads < 32 || threads % 32 || threads > most || launch->n_blocks < 1 || launch->n_blocks > INT32_MAX)
        return fail(err, WEFT_INVALID_PARAMETER, -1, "%s: %lld blocks of %d threads cannot be launched",
                    loaded->kernel->name, (long long)launch->n_blocks, threads);
    return WEFT_OK;
}

// Everything that takes memory or compiles, before the clock starts.
static weft_status make_ready(LabGpu *gpu, const LabLaunch *launch, CuAddress times, ReadyLaunch *ready, Error *err)
{
    const i64 n_threads = launch->n_blocks * launch->threads_per_block;
    TRY(find_kernel(gpu, launch->kernel, &ready->kernel, err));
    TRY(check_shape(ready->kernel, launch, err));
    TRY(find_work(gpu, ready->kernel, n_threads, &ready->work, err));
    if (ready->work->n_used == ready->work->n_instances)
        TRY(add_instance(gpu, ready->work, err));
    ready->instance = ready->work->instances[ready->work->n_used++];
    TRY(stream_of(gpu, launch->stream, &ready->stream, err));
    ready->args = args_of(ready, times);
    return clear_output(gpu, ready, err);
}

static void begin_run(LabGpu *gpu)
{
    for (int i = 0; i < gpu->n_kernels; i++)
        for (int w = 0; w < gpu->kernels[i]->n_works; w++)
            gpu->kernels[i]->works[w]->n_used = 0;
}

static weft_status launch_kernel(LabGpu *gpu, const LabLaunch *launch, ReadyLaunch *ready, Error *err)
{
    void *parameters[] = { &ready->args };
    CUDA_TRY(gpu->cu, LaunchKernel,
             (ready->kernel->function, (unsigned)launch->n_blocks, 1, 1, (unsigned)launch->threads_per_block, 1, 1,
              (unsigned)ready->kernel->dynamic_shared, ready->stream, parameters, NULL), err);
    return WEFT_OK;
}

// The clock: an event in the first stream for which all others wait, and one after all of them.
static weft_status start_clock(LabGpu *gpu, const bool *is_used, Error *err)
{
    CUDA_TRY(gpu->cu, CtxSynchronize, (), err);
    CUDA_TRY(gpu->cu, EventRecord, (gpu->start, gpu->streams[0]), err);
    for (int i = 1; i < STREAMS_MAX; i++)
        if (is_used[i])
            CUDA_TRY(gpu->cu, StreamWaitEvent, (gpu->streams[i], gpu->start, 0), err);
    return WEFT_OK;
}

static weft_status stop_clock(LabGpu *gpu, const bool *is_used, i64 *time_ns, Error *err)
{
    float time_ms = 0;
    for (int i = 1; i < STREAMS_MAX; i++)
        if (is_used[i]) {
            CUDA_TRY(gpu->cu, EventRecord, (gpu->stream_ends[i], gpu->streams[i]), err);
            CUDA_TRY(gpu->cu, StreamWaitEvent, (gpu->streams[0], gpu->stream_ends[i], 0), err);
        }
    CUDA_TRY(gpu->cu, EventRecord, (gpu->end, gpu->streams[0]), err);
    CUDA_TRY(gpu->cu, EventSynchronize, (gpu->end), err);
    CUDA_TRY(gpu->cu, EventElapsedTime, (&time_ms, gpu->start, gpu->end), err);
    *time_ns = (i64)((double)time_ms * 1e6);
    return WEFT_OK;
}

// TIMES: an address for the times of each launch's blocks; NULL: they are not wanted.
static weft_status run_launches(LabGpu *gpu, Arena *scratch, const LabLaunch *launches, int n_launches,
                                const CuAddress *times, ReadyLaunch **out, i64 *time_ns, Error *err)
{
    ReadyLaunch *ready = arena_array(scratch, ReadyLaunch, n_launches);
    bool *is_used = arena_array(scratch, bool, STREAMS_MAX);
    CuStream first;
    TRY(stream_of(gpu, 0, &first, err));
    begin_run(gpu);
    for (int i = 0; i < n_launches; i++) {
        TRY(make_ready(gpu, &launches[i], times ? times[i] : 0, &ready[i], err));
        is_used[launches[i].stream] = true;
    }
    TRY(start_clock(gpu, is_used, err));
    for (int i = 0; i < n_launches; i++)
        TRY(launch_kernel(gpu, &launches[i], &ready[i], err));
    TRY(stop_clock(gpu, is_used, time_ns, err));
    if (out)
        *out = ready;
    return WEFT_OK;
}

weft_status lab_gpu_run(LabGpu *gpu, const LabLaunch *launches, int n_launches, i64 *makespan_ns, Error *err)
{
    Arena *scratch = arena_new(NULL, "run");
    weft_status status = enter(gpu, err);
    if (!status)
        status = run_launches(gpu, scratch, launches, n_launches, NULL, NULL, makespan_ns, err);
    arena_free(scratch);
    return status;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static weft_status check_output(LabGpu *gpu, Arena *scratch, const ReadyLaunch *ready, Error *err)
{
    const LabWork *work = ready->work->work;
    void *out[WORK_OUTPUTS] = { NULL };
    for (int i = 0; i < WORK_OUTPUTS; i++) {
        if (!work->out_bytes[i])
            continue;
        out[i] = arena_alloc(scratch, work->out_bytes[i]);
        CUDA_TRY(gpu->cu, MemcpyDtoHAsync, (out[i], ready->instance->out[i], work->out_bytes[i], gpu->streams[0]), err);
    }
    CUDA_TRY(gpu->cu, StreamSynchronize, (gpu->streams[0]), err);
    return work_check(work, (const void *const *)out, err);
}

static weft_status run_and_check(LabGpu *gpu, Arena *scratch, const LabLaunch *launch, Error *err)
{
    ReadyLaunch *ready;
    i64 time_ns;
    TRY(enter(gpu, err));
    TRY(run_launches(gpu, scratch, launch, 1, NULL, &ready, &time_ns, err));
    return check_output(gpu, scratch, ready, err);
}

weft_status lab_gpu_check(LabGpu *gpu, const LabKernel *kernel, int threads_per_block, Error *err)
{
    Arena *scratch = arena_new(NULL, "check");
    const i64 n_threads = pool_threads(gpu, kernel);
    const LabLaunch launch = { .kernel = kernel, .threads_per_block = threads_per_block,
                               .n_blocks = (n_threads + threads_per_block - 1) / MAX_OF(threads_per_block, 1) };
    const weft_status status = run_and_check(gpu, scratch, &launch, err);
    arena_free(scratch);
    return status;
}

// ---- timelines ------------------------------------------------------------------------------------------------------

static int by_multiprocessor(const void *a, const void *b)
{
    const SimSpan *left = a, *right = b;
    if (left->multiprocessor != right->multiprocessor)
        return left->multiprocessor < right->multiprocessor ? -1 : 1;
    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

static int by_value(const void *a, const void *b)
{
    const i64 left = *(const i64 *)a, right = *(const i64 *)b;
    return (left > right) - (left < right);
}

static int multiprocessor_count(const LabGpu *gpu, const LabBlockTime *times, int n)
{
    int count = gpu->limits.n_multiprocessors;
    for (int i = 0; i < n; i++)
        count = MAX_OF(count, (int)MIN_OF(times[i].multiprocessor, 4095u) + 1);
    return count;
}

static void index_timeline(const LabGpu *gpu, Arena *arena, const LabBlockTime *times, Timeline *timeline)
{
    const int n = timeline->n_spans, n_multiprocessors = multiprocessor_count(gpu, times, n);
    qsort(timeline->spans, (size_t)n, sizeof(*timeline->spans), by_multiprocessor);
    timeline->first_span = arena_array(arena, int, n_multiprocessors + 1);
    for (int m = 0, s = 0; m <= n_multiprocessors; m++) {
        while (s < n && timeline->spans[s].multiprocessor < m)
            s++;
        timeline->first_span[m] = m == n_multiprocessors ? n : s;
    }
    timeline->phase_ends_ns = arena_array(arena, i64, n);
    for (int i = 0; i < n; i++)
        timeline->phase_ends_ns[i] = timeline->spans[i].end_ns;
    qsort(timeline->phase_ends_ns, (size_t)n, sizeof(i64), by_value);
    timeline->n_phases = n;
}

// Spans from the times of all launches' blocks, which lie one after the other.
static void make_timeline(const LabGpu *gpu, Arena *arena, const LabLaunch *launches, int n_launches,
                          const LabBlockTime *times, int n_blocks, Timeline *timeline)
{
    int n_in_stream[STREAMS_MAX] = { 0 };
    u64 first_ns = UINT64_MAX;
    SimSpan *spans = timeline->spans = arena_array(arena, SimSpan, n_blocks);
    timeline->n_spans = n_blocks;
    for (int i = 0; i < n_blocks; i++)
        first_ns = MIN_OF(first_ns, times[i].start_ns);
    for (int launch = 0, at = 0; launch < n_launches; launch++) {
        const int kernel = n_in_stream[launches[launch].stream]++;
        for (int block = 0; block < launches[launch].n_blocks; block++, at++)
            spans[at] = (SimSpan){ (int)MIN_OF(times[at].multiprocessor, 4095u), launches[launch].stream, kernel, block,
                                   (i64)(times[at].start_ns - first_ns), (i64)(times[at].end_ns - first_ns) };
    }
    index_timeline(gpu, arena, times, timeline);
}

static weft_status run_timed(LabGpu *gpu, Arena *scratch, const LabLaunch *launches, int n_launches, int n_blocks,
                             CuAddress device_times, LabBlockTime *times, Error *err)
{
    CuAddress *addresses = arena_array(scratch, CuAddress, n_launches), at = device_times;
    i64 time_ns;
    for (int i = 0; i < n_launches; i++) {
        addresses[i] = at;
        at += (u64)launches[i].n_blocks * sizeof(LabBlockTime);
    }
    TRY(run_launches(gpu, scratch, launches, n_launches, addresses, NULL, &time_ns, err));
    CUDA_TRY(gpu->cu, MemcpyDtoHAsync, (times, device_times, (u64)n_blocks * sizeof(*times), gpu->streams[0]), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (gpu->streams[0]), err);
    return WEFT_OK;
}

weft_status lab_gpu_timeline(LabGpu *gpu, Arena *arena, const LabLaunch *launches, int n_launches, Timeline *timeline,
                             Error *err)
{
    i64 n_blocks = 0;
    CuAddress device_times;
    for (int i = 0; i < n_launches; i++)
        n_blocks += MAX_OF(launches[i].n_blocks, 0);
    if (n_blocks > SIM_BLOCKS_MAX)
        return fail(err, WEFT_TOO_LONG, -1, "a timeline has %d blocks at most", SIM_BLOCKS_MAX);
    TRY(enter(gpu, err));
    CUDA_TRY(gpu->cu, MemAlloc, (&device_times, MAX_OF((size_t)n_blocks, 1) * sizeof(LabBlockTime)), err);
    Arena *scratch = arena_new(NULL, "timeline");
    LabBlockTime *times = arena_array(scratch, LabBlockTime, MAX_OF(n_blocks, 1));
    const weft_status status =
        run_timed(gpu, scratch, launches, n_launches, (int)n_blocks, device_times, times, err);
    if (!status)
        make_timeline(gpu, arena, launches, n_launches, times, (int)n_blocks, timeline);
    if (status)
        gpu->cu->CtxSynchronize();                          // kernels that were launched may still write there
    gpu->cu->MemFree(device_times);
    arena_free(scratch);
    return status;
}

// ---- queries --------------------------------------------------------------------------------------------------------

static weft_status make_room_for_copies(LabGpu *gpu, size_t bytes, Error *err)
{
    if (bytes <= gpu->copy_bytes)
        return WEFT_OK;
    gpu->copy_bytes = 0;
    if (gpu->pinned)
        CUDA_TRY(gpu->cu, MemFreeHost, (gpu->pinned), err);
    gpu->pinned = NULL;
    CUDA_TRY(gpu->cu, MemHostAlloc, (&gpu->pinned, bytes, CU_HOST_PORTABLE), err);
    free(gpu->pageable);
    gpu->pageable = malloc(bytes);
    if (!gpu->pageable)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory for %zu bytes", bytes);
    memset(gpu->pinned, 1, bytes);
    memset(gpu->pageable, 1, bytes);
    TRY(allocate(gpu, bytes, &gpu->landing, err));
    gpu->copy_bytes = bytes;
    return WEFT_OK;
}

typedef struct ReadyStep {
    ReadyLaunch launch;
    CuEvent     done;                                       // NULL: nobody waits for it
} ReadyStep;

static weft_status make_steps_ready(LabGpu *gpu, const LabStep *steps, int n_steps, ReadyStep *ready, Error *err)
{
    CuStream stream;
    size_t bytes = 0;
    TRY(stream_of(gpu, 0, &stream, err));
    begin_run(gpu);
    for (int i = 0; i < n_steps; i++) {
        LabLaunch launch = steps[i].launch;
        launch.stream = steps[i].stream;
        TRY(stream_of(gpu, steps[i].stream, &ready[i].launch.stream, err));
        if (steps[i].kind == LAB_STEP_KERNEL)
            TRY(make_ready(gpu, &launch, 0, &ready[i].launch, err));
        else
            bytes = MAX_OF(bytes, (size_t)steps[i].bytes);
        if (steps[i].after >= 0 && !ready[steps[i].after].done)
            CUDA_TRY(gpu->cu, EventCreate, (&ready[steps[i].after].done, CU_EVENT_DISABLE_TIMING), err);
    }
    return make_room_for_copies(gpu, bytes, err);
}

static weft_status run_step(LabGpu *gpu, const LabStep *step, const ReadyStep *ready, ReadyStep *own, bool is_pinned,
                            Error *err)
{
    const CudaDriver *cu = gpu->cu;
    if (step->after >= 0)
        CUDA_TRY(cu, StreamWaitEvent, (own->launch.stream, ready[step->after].done, 0), err);
    if (step->kind == LAB_STEP_KERNEL)
        TRY(launch_kernel(gpu, &step->launch, &own->launch, err));
    else if (step->bytes > 0)
        CUDA_TRY(cu, MemcpyHtoDAsync,
                 (gpu->landing, is_pinned ? gpu->pinned : gpu->pageable, (size_t)step->bytes, own->launch.stream), err);
    if (own->done)
        CUDA_TRY(cu, EventRecord, (own->done, own->launch.stream), err);
    return WEFT_OK;
}

static weft_status run_steps(LabGpu *gpu, const LabStep *steps, int n_steps, ReadyStep *ready, bool is_pinned,
                             i64 *time_ns, Error *err)
{
    TRY(make_steps_ready(gpu, steps, n_steps, ready, err));
    CUDA_TRY(gpu->cu, CtxSynchronize, (), err);
    const double start_ms = time_now_ms();
    for (int i = 0; i < n_steps; i++)
        TRY(run_step(gpu, &steps[i], ready, &ready[i], is_pinned, err));
    CUDA_TRY(gpu->cu, CtxSynchronize, (), err);
    *time_ns = (i64)((time_now_ms() - start_ms) * 1e6);
    return WEFT_OK;
}

weft_status lab_gpu_run_steps(LabGpu *gpu, const LabStep *steps, int n_steps, bool is_pinned, i64 *time_ns, Error *err)
{
    Arena *scratch = arena_new(NULL, "steps");
    ReadyStep *ready = arena_array(scratch, ReadyStep, MAX_OF(n_steps, 1));
    weft_status status = enter(gpu, err);
    if (!status)
        status = run_steps(gpu, steps, n_steps, ready, is_pinned, time_ns, err);
    for (int i = 0; i < n_steps; i++)
        if (ready[i].done)
            gpu->cu->EventDestroy(ready[i].done);
    arena_free(scratch);
    return status;
}
