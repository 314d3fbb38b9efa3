// flow_gpu.c - what ours is compared with on a GPU: copy-kernel-copy from pageable and pinned memory and in several
// streams, and tasks of a kernel that stays (Pagoda's way).  Managed memory is in flow_managed.c.
//
// The operators are the same tile C as ours, as CUDA C through operator_words.h.  A slot has a frame on the host, one
// on the device, a stream and an event; copy-kernel-copy in N streams keeps N slots busy and waits for the oldest.
// Everything is allocated and compiled before the clock starts, since that would wait for a kernel that stays.

#include <stdlib.h>
#include <unistd.h>

#include "lab/flow_gpu.h"

extern const char lab_operator_words_text[], lab_fma_split_text[];

// ---- opening --------------------------------------------------------------------------------------------------------

static void free_slot(const CudaDriver *cu, GpuSlot *slot)
{
    void *pinned[] = { slot->pinned_in, slot->pinned_out };
    for (int i = 0; i < COUNT_OF(pinned); i++)
        if (pinned[i])
            cu->MemFreeHost(pinned[i]);
    if (slot->in)
        cu->MemFree(slot->in);
    if (slot->out)
        cu->MemFree(slot->out);
    if (slot->done)
        cu->EventDestroy(slot->done);
    if (slot->stream)
        cu->StreamDestroy(slot->stream);
    free(slot->pageable_in);
    free(slot->pageable_out);
}

static void close_flow_gpu(void *context)
{
    FlowGpu *gpu = context;
    const CudaDriver *cu;
    Error ignored = { 0 };
    if (lab_gpu_enter(gpu->lab_gpu, &cu, &ignored))
        return;
    cu->CtxSynchronize();
    for (int i = 0; i < SLOTS; i++)
        free_slot(cu, &gpu->slots[i]);
    const CuAddress memory[] = { gpu->params, gpu->ticket, gpu->managed_in, gpu->managed_out, gpu->words };
    for (int i = 0; i < COUNT_OF(memory); i++)
        if (memory[i])
            cu->MemFree(memory[i]);
    void *pinned[] = { gpu->tasks, gpu->split_in[0], gpu->split_in[1], gpu->split_out[0], gpu->split_out[1] };
    for (int i = 0; i < COUNT_OF(pinned); i++)
        if (pinned[i])
            cu->MemFreeHost(pinned[i]);
}

weft_status flow_gpu_pin(const CudaDriver *cu, size_t bytes, u8 **memory, Error *err)
{
    void *pinned;
    CUDA_TRY(cu, MemHostAlloc, (&pinned, bytes, CU_HOST_PORTABLE | CU_HOST_DEVICE_MAP), err);
    memset(pinned, 0, bytes);
    *memory = pinned;
    return WEFT_OK;
}

static weft_status open_slot(FlowGpu *gpu, GpuSlot *slot, Error *err)
{
    const CudaDriver *cu = gpu->cu;
    const size_t bytes = gpu->slot_bytes;
    TRY(flow_gpu_pin(cu, bytes, &slot->pinned_in, err));
    TRY(flow_gpu_pin(cu, bytes, &slot->pinned_out, err));
    CUDA_TRY(cu, MemAlloc, (&slot->in, bytes), err);
    CUDA_TRY(cu, MemAlloc, (&slot->out, bytes), err);
    CUDA_TRY(cu, StreamCreate, (&slot->stream, CU_STREAM_NON_BLOCKING), err);
    CUDA_TRY(cu, EventCreate, (&slot->done, CU_EVENT_DISABLE_TIMING), err);
    slot->pageable_in = calloc(1, bytes);
    slot->pageable_out = calloc(1, bytes);
    return slot->pageable_in && slot->pageable_out ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory");
}

static weft_status open_all(FlowGpu *gpu, Error *err)
{
    u8 *tasks;
    for (int i = 0; i < SLOTS; i++)
        TRY(open_slot(gpu, &gpu->slots[i], err));
    CUDA_TRY(gpu->cu, MemAlloc, (&gpu->params, sizeof(OperatorParams)), err);
    CUDA_TRY(gpu->cu, MemAlloc, (&gpu->ticket, 2 * sizeof(u64)), err);
    TRY(flow_gpu_pin(gpu->cu, sizeof(LabTasks), &tasks, err));
    gpu->tasks = (LabTasks *)tasks;
    CUDA_TRY(gpu->cu, MemHostGetDevicePointer, (&gpu->tasks_there, tasks, 0), err);
    return WEFT_OK;
}

weft_status flow_gpu_open(FlowLab *flow, Error *err)
{
    FlowGpu *gpu = arena_make(flow->arena, FlowGpu);
    gpu->lab_gpu = flow->lab->gpu;
    const bool is_small = lab_gpu_is_small(gpu->lab_gpu);
    TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    gpu->n_multiprocessors = flow->lab->limits.n_multiprocessors;
    gpu->threads = is_small ? 32 : 256;
    gpu->blocks_max = is_small ? 1 : 8 * gpu->n_multiprocessors;
    gpu->slot_bytes = FLOW_PAGE;
    for (int i = 0; i < flow->n_sizes; i++)
        gpu->slot_bytes = MAX_OF(gpu->slot_bytes, flow->sizes[i]);
    arena_defer(flow->arena, close_flow_gpu, gpu);
    TRY(open_all(gpu, err));
    flow->gpu = gpu;
    return WEFT_OK;
}

// ---- operators ------------------------------------------------------------------------------------------------------

weft_status flow_gpu_operator(FlowGpu *gpu, const LabOperator *op, const BuiltOperator **found, Error *err)
{
    char tasks[64], topics[64];
    const char *names[] = { op->name, tasks, topics };
    for (int i = 0; i < gpu->n_built; i++)
        if (gpu->built[i].text == op->text) {
            *found = &gpu->built[i];
            return WEFT_OK;
        }
    ASSERT(gpu->n_built < COUNT_OF(gpu->built));
    BuiltOperator *built = &gpu->built[gpu->n_built];
    snprintf(tasks, sizeof(tasks), "%s_tasks", op->name);
    snprintf(topics, sizeof(topics), "%s_topics", op->name);
    TRY(lab_gpu_build(gpu->lab_gpu, lab_operator_words_text, op->text, names, COUNT_OF(names), built->functions, err));
    built->text = op->text;
    gpu->n_built++;
    *found = built;
    return WEFT_OK;
}

weft_status flow_gpu_prepare(FlowLab *flow, const FlowTrial *trial, const BuiltOperator **built, Error *err)
{
    FlowGpu *gpu = flow->gpu;
    GpuSlot *slot = &gpu->slots[0];
    OperatorParams params;
    if (trial->frame_bytes > gpu->slot_bytes)
        return fail(err, WEFT_TOO_LONG, -1, "frames of %zu bytes have no room", trial->frame_bytes);
    TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    TRY(flow_gpu_operator(gpu, trial->op, built, err));
    operator_params(trial->op, trial->frame_bytes, &params);
    CUDA_TRY(gpu->cu, MemcpyHtoDAsync, (gpu->params, &params, sizeof(params), slot->stream), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (slot->stream), err);
    for (int i = 0; i < SLOTS; i++)
        gpu->slots[i].is_busy = false;
    return WEFT_OK;
}

weft_status flow_gpu_launch(FlowGpu *gpu, CuFunction function, const FlowTrial *trial, CuAddress in, CuAddress out,
                            CuStream stream, Error *err)
{
    LabArgs args = { .in = { (const void *)in, (const void *)gpu->params },
                     .out = { (void *)out },
                     .n = { trial->frame_bytes } };
    void *parameters[] = { &args };
    const size_t wanted = trial->frame_bytes / 16 / (size_t)gpu->threads;
    const unsigned blocks = (unsigned)MIN_OF(MAX_OF(wanted, 1), (size_t)gpu->blocks_max);
    CUDA_TRY(gpu->cu, LaunchKernel, (function, blocks, 1, 1, (unsigned)gpu->threads, 1, 1, 0, stream, parameters, NULL),
             err);
    return WEFT_OK;
}

// ---- copy-kernel-copy -----------------------------------------------------------------------------------------------

typedef struct CopiesRun {
    FlowGpu *gpu;
    const FlowWay *way;
    const FlowTrial *trial;
    CuFunction function;
    FlowLog log;
    i64 n_invocations;
    u64 seen;
} CopiesRun;

static u8 *host_in(const CopiesRun *run, const GpuSlot *slot)
{
    return run->way->is_pinned ? slot->pinned_in : slot->pageable_in;
}

static u8 *host_out(const CopiesRun *run, const GpuSlot *slot)
{
    return run->way->is_pinned ? slot->pinned_out : slot->pageable_out;
}

static weft_status submit_frame(CopiesRun *run, GpuSlot *slot, Error *err)
{
    const CudaDriver *cu = run->gpu->cu;
    const FlowTrial *trial = run->trial;
    const int n_ops = MAX_OF(trial->n_ops, 1);
    const size_t out_bytes = operator_output_bytes(trial->op, trial->frame_bytes);
    CuAddress in = slot->in, out = slot->out;
    for (int i = 0; i < n_ops; i++) {
        if (i == 0 || trial->is_back_and_forth) {
            CUDA_TRY(cu, MemcpyHtoDAsync, (in, host_in(run, slot), trial->frame_bytes, slot->stream), err);
            run->n_invocations++;
        }
        TRY(flow_gpu_launch(run->gpu, run->function, trial, in, out, slot->stream, err));
        run->n_invocations++;
        if (i == n_ops - 1 || trial->is_back_and_forth) {
            CUDA_TRY(cu, MemcpyDtoHAsync, (host_out(run, slot), out, out_bytes, slot->stream), err);
            run->n_invocations++;
            if (i < n_ops - 1)  // the host has it before it goes again
                CUDA_TRY(cu, StreamSynchronize, (slot->stream), err);
        } else {
            const CuAddress swap = in;
            in = out;
            out = swap;
        }
    }
    CUDA_TRY(cu, EventRecord, (slot->done, slot->stream), err);
    return WEFT_OK;
}

static weft_status finish_frame(CopiesRun *run, GpuSlot *slot, Error *err)
{
    if (!slot->is_busy)
        return WEFT_OK;
    slot->is_busy = false;
    CUDA_TRY(run->gpu->cu, EventSynchronize, (slot->done), err);
    run->seen += flow_look(host_out(run, slot), operator_output_bytes(run->trial->op, run->trial->frame_bytes));
    flow_log_add(&run->log, (time_now_ms() - slot->start_ms) * 1000);
    return WEFT_OK;
}

static weft_status begin_frame(CopiesRun *run, GpuSlot *slot, i64 number, Error *err)
{
    const FlowTrial *trial = run->trial;
    TRY(finish_frame(run, slot, err));
    slot->start_ms = time_now_ms();
    if (trial->input)
        memcpy(host_in(run, slot), trial->input, trial->frame_bytes);
    else
        flow_touch(host_in(run, slot), trial->frame_bytes, (u64)number);
    TRY(submit_frame(run, slot, err));
    slot->is_busy = true;
    return WEFT_OK;
}

bool flow_gpu_is_over(const FlowLab *flow, const FlowTrial *trial, i64 n_frames, double start_ms)
{
    return trial->n_frames_max ? n_frames >= trial->n_frames_max : time_now_ms() - start_ms >= flow->measure_ms;
}

static weft_status copy_frames(FlowLab *flow, CopiesRun *run, FlowFigures *figures, Error *err)
{
    const int n_slots = run->trial->is_alone ? 1 : run->way->n_at_once;
    GpuSlot *slots = run->gpu->slots;
    i64 n_frames = 0;
    TRY(begin_frame(run, &slots[0], 0, err));  // the first launch of a kernel takes longer
    TRY(finish_frame(run, &slots[0], err));
    run->log.n = run->n_invocations = 0;
    const double start_ms = time_now_ms();
    for (; !flow_gpu_is_over(flow, run->trial, n_frames, start_ms); n_frames++) {
        GpuSlot *slot = &slots[n_frames % n_slots];
        TRY(begin_frame(run, slot, n_frames, err));
        if (n_slots == 1)
            TRY(finish_frame(run, slot, err));
    }
    for (int i = 0; i < n_slots; i++)
        TRY(finish_frame(run, &slots[(n_frames + i) % n_slots], err));
    const double seconds = (time_now_ms() - start_ms) / 1000;
    if (run->trial->output)
        memcpy(run->trial->output, host_out(run, &slots[0]),
               operator_output_bytes(run->trial->op, run->trial->frame_bytes));
    flow_sum_up(run->trial, &run->log, n_frames, seconds, (double)run->n_invocations, figures);
    return WEFT_OK;
}

static weft_status run_copies(FlowLab *flow, const FlowWay *way, const FlowTrial *trial,
                              FlowFigures *figures, Error *err)
{
    const BuiltOperator *built;
    TRY(flow_gpu_prepare(flow, trial, &built, err));
    Arena *scratch = arena_new(NULL, "copies");
    CopiesRun run = {
        .gpu = flow->gpu, .way = way, .trial = trial, .function = built->functions[0], .log = flow_log_new(scratch)
    };
    const weft_status status = copy_frames(flow, &run, figures, err);
    if (status)
        flow->gpu->cu->CtxSynchronize();
    arena_free(scratch);
    return status;
}

// ---- tasks of a kernel that stays -----------------------------------------------------------------------------------

typedef struct TaskRun {
    FlowGpu *gpu;
    const FlowTrial *trial;
    FlowLog log;
    u64 n_posted;
    int n_parts, n_at_once;
    u64 seen;
} TaskRun;

static weft_status wait_for_tasks(const TaskRun *run, u64 first, Error *err)
{
    const double start_ms = time_now_ms();
    for (u64 number = first; number < run->n_posted; number++) {
        const LabTask *task = &run->gpu->tasks->tasks[number % LAB_TASKS];
        while (__atomic_load_n(&task->done, __ATOMIC_ACQUIRE) != number + 1) {
            const double waited_ms = time_now_ms() - start_ms;
            if (waited_ms > TASK_WAIT_MS)
                return fail(err, WEFT_DEVICE_FAILED, -1, "a task was not done within %d ms", TASK_WAIT_MS);
            if (waited_ms > TASK_SPIN_MS)
                usleep(100);
        }
    }
    return WEFT_OK;
}

static void post_frame(TaskRun *run, const GpuSlot *slot)
{
    for (int part = 0; part < run->n_parts; part++) {
        const u64 number = run->n_posted++;
        LabTask *task = &run->gpu->tasks->tasks[number % LAB_TASKS];
        *task = (LabTask){ .in = slot->in,
                           .out = slot->out,
                           .bytes = run->trial->frame_bytes,
                           .part = (unsigned)part,
                           .n_parts = (unsigned)run->n_parts };
        __atomic_store_n(&task->posted, number + 1, __ATOMIC_RELEASE);
    }
}

// As many frames as there are slots: copied, then computed, then copied back.
static weft_status run_batch_of_tasks(TaskRun *run, i64 number, Error *err)
{
    const CudaDriver *cu = run->gpu->cu;
    const FlowTrial *trial = run->trial;
    const size_t out_bytes = operator_output_bytes(trial->op, trial->frame_bytes);
    const double start_ms = time_now_ms();
    const u64 first = run->n_posted;
    CuStream copies = run->gpu->slots[1].stream;  // the kernel has that of slot 0
    for (int i = 0; i < run->n_at_once; i++) {
        GpuSlot *slot = &run->gpu->slots[i];
        if (trial->input)
            memcpy(slot->pinned_in, trial->input, trial->frame_bytes);
        else
            flow_touch(slot->pinned_in, trial->frame_bytes, (u64)(number + i));
        CUDA_TRY(cu, MemcpyHtoDAsync, (slot->in, slot->pinned_in, trial->frame_bytes, copies), err);
    }
    CUDA_TRY(cu, StreamSynchronize, (copies), err);
    for (int i = 0; i < run->n_at_once; i++)
        post_frame(run, &run->gpu->slots[i]);
    TRY(wait_for_tasks(run, first, err));
    for (int i = 0; i < run->n_at_once; i++)
        CUDA_TRY(cu, MemcpyDtoHAsync, (run->gpu->slots[i].pinned_out, run->gpu->slots[i].out, out_bytes, copies), err);
    CUDA_TRY(cu, StreamSynchronize, (copies), err);
    for (int i = 0; i < run->n_at_once; i++) {
        run->seen += flow_look(run->gpu->slots[i].pinned_out, out_bytes);
        flow_log_add(&run->log, (time_now_ms() - start_ms) * 1000);
    }
    return WEFT_OK;
}

static weft_status run_tasks_of(FlowLab *flow, TaskRun *run, FlowFigures *figures, Error *err)
{
    i64 n_frames = 0;
    TRY(run_batch_of_tasks(run, 0, err));
    run->log.n = 0;
    const double start_ms = time_now_ms();
    for (; !flow_gpu_is_over(flow, run->trial, n_frames, start_ms); n_frames += run->n_at_once)
        TRY(run_batch_of_tasks(run, n_frames, err));
    const double seconds = (time_now_ms() - start_ms) / 1000;
    flow_sum_up(run->trial, &run->log, n_frames, seconds, 2.0 * (double)n_frames, figures);
    if (run->trial->output)
        memcpy(run->trial->output, run->gpu->slots[0].pinned_out,
               operator_output_bytes(run->trial->op, run->trial->frame_bytes));
    return WEFT_OK;
}

static weft_status start_tasks(FlowGpu *gpu, CuFunction function, Error *err)
{
    const CudaDriver *cu = gpu->cu;
    CuStream stream = gpu->slots[0].stream;
    LabArgs args = { .out = { NULL, (void *)gpu->tasks_there }, .scratch = (void *)gpu->ticket };
    void *parameters[] = { &args };
    memset(gpu->tasks, 0, sizeof(*gpu->tasks));
    gpu->tasks->params = gpu->params;
    CUDA_TRY(cu, MemsetD8Async, (gpu->ticket, 0, 2 * sizeof(u64), stream), err);
    CUDA_TRY(cu, StreamSynchronize, (stream), err);
    CUDA_TRY(cu, LaunchKernel,
             (function, (unsigned)gpu->n_multiprocessors, 1, 1, (unsigned)gpu->threads, 1, 1, 0, stream, parameters,
              NULL),
             err);
    return WEFT_OK;
}

// Copies between two operators are what the way is measured by; a chain of tasks without them would be another way.
static weft_status run_tasks(FlowLab *flow, const FlowWay *way, const FlowTrial *trial,
                             FlowFigures *figures, Error *err)
{
    FlowGpu *gpu = flow->gpu;
    const BuiltOperator *built;
    TRY(flow_gpu_prepare(flow, trial, &built, err));
    TRY(start_tasks(gpu, built->functions[1], err));
    Arena *scratch = arena_new(NULL, "tasks");
    const int parts = (int)(trial->frame_bytes / TASK_PART);
    TaskRun run = { .gpu = gpu,
                    .trial = trial,
                    .log = flow_log_new(scratch),
                    .n_at_once = trial->is_alone ? 1 : SLOTS,
                    .n_parts = MIN_OF(MAX_OF(parts, 1), MIN_OF(gpu->n_multiprocessors, LAB_TASKS / SLOTS)) };
    weft_status status = run_tasks_of(flow, &run, figures, err);
    __atomic_store_n(&gpu->tasks->stop, 1, __ATOMIC_RELEASE);
    Error late = { 0 };
    const weft_status stopped =
        cuda_check(gpu->cu, gpu->cu->StreamSynchronize(gpu->slots[0].stream), "cuStreamSynchronize", &late);
    if (!status && stopped)
        status = fail(err, stopped, -1, "%s", late.message);
    arena_free(scratch);
    return status;
}

const FlowWay flow_way_pageable = { "copy-kernel-copy, pageable", run_copies, 1, false, 0 };
const FlowWay flow_way_pinned = { "copy-kernel-copy, pinned", run_copies, 1, true, 0 };
const FlowWay flow_way_streams_2 = { "the same, 2 streams", run_copies, 2, true, 0 };
const FlowWay flow_way_streams_4 = { "the same, 4 streams", run_copies, 4, true, 0 };
const FlowWay flow_way_streams_8 = { "the same, 8 streams", run_copies, 8, true, 0 };
const FlowWay flow_way_tasks = { "copy-task-copy", run_tasks, SLOTS, true, 0 };

// ---- two operators in one kernel, and in two at once ----------------------------------------------------------------

static int split_frames(const FlowGpu *gpu)
{
    return lab_gpu_is_small(gpu->lab_gpu) ? 4 : SPLIT_FRAMES;
}

static weft_status open_split(FlowGpu *gpu, Error *err)
{
    static const char *const names[] = { "fma_split", "fma_alone" };
    const size_t bytes = (size_t)split_frames(gpu) * SPLIT_VALUES * sizeof(float);
    if (!gpu->split[0])
        TRY(lab_gpu_build(gpu->lab_gpu, "", lab_fma_split_text, names, 2, gpu->split, err));
    for (int i = 0; i < 2; i++) {
        if (!gpu->split_in[i])
            TRY(flow_gpu_pin(gpu->cu, bytes, &gpu->split_in[i], err));
        if (!gpu->split_out[i])
            TRY(flow_gpu_pin(gpu->cu, bytes, &gpu->split_out[i], err));
        CUDA_TRY(gpu->cu, MemHostGetDevicePointer, (&gpu->split_in_there[i], gpu->split_in[i], 0), err);
        CUDA_TRY(gpu->cu, MemHostGetDevicePointer, (&gpu->split_out_there[i], gpu->split_out[i], 0), err);
    }
    return WEFT_OK;
}

static weft_status run_split(FlowGpu *gpu, FlowSplit *split, Error *err)
{
    const int n_frames = split_frames(gpu);
    CuStream stream = gpu->slots[0].stream;
    const unsigned threads = lab_gpu_is_small(gpu->lab_gpu) ? 64 : 1024;
    const int warps = (int)threads / 32 * split->warps / 32;
    LabArgs args = { .in = { (void *)gpu->split_in_there[0], (void *)gpu->split_in_there[1] },
                     .out = { (void *)gpu->split_out_there[0], (void *)gpu->split_out_there[1] },
                     .scratch = (void *)gpu->ticket,
                     .n = { SPLIT_VALUES, (u64)MAX_OF(warps, 1), (u64)n_frames,
                            split->x[0] | (u64)split->x[1] << 32 } };
    void *parameters[] = { &args };
    u64 times_ns[2] = { 0 };
    CUDA_TRY(gpu->cu, MemsetD8Async, (gpu->ticket, 0, sizeof(times_ns), stream), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    const double start_ms = time_now_ms();
    CUDA_TRY(gpu->cu, LaunchKernel,
             (gpu->split[0], (unsigned)gpu->n_multiprocessors, 1, 1, threads, 1, 1, 0, stream, parameters, NULL), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    const double ms = time_now_ms() - start_ms;
    CUDA_TRY(gpu->cu, MemcpyDtoHAsync, (times_ns, gpu->ticket, sizeof(times_ns), stream), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    for (int i = 0; i < 2; i++)
        split->round_us[i] = (double)times_ns[i] / 1000 / n_frames;
    split->gb_s = 2.0 * n_frames * SPLIT_VALUES * sizeof(float) / 1e6 / ms;
    return WEFT_OK;
}

// A launch for as many frames as a round of the split kernel has, for each of two streams.
static weft_status run_concurrent(FlowGpu *gpu, FlowSplit *split, Error *err)
{
    const int n_frames = split_frames(gpu);
    const unsigned threads = lab_gpu_is_small(gpu->lab_gpu) ? 64 : 1024;
    const int per_launch = MIN_OF(gpu->n_multiprocessors, n_frames);
    const double start_ms = time_now_ms();
    for (int first = 0; first < n_frames; first += per_launch)
        for (int i = 0; i < 2; i++) {
            const int n = MIN_OF(per_launch, n_frames - first);
            const size_t at = (size_t)first * SPLIT_VALUES * sizeof(float);
            LabArgs args = { .in = { (void *)(gpu->split_in_there[i] + at) },
                             .out = { (void *)(gpu->split_out_there[i] + at) },
                             .n = { (u64)n * SPLIT_VALUES, 0, 0, split->x[i] } };
            void *parameters[] = { &args };
            CUDA_TRY(gpu->cu, LaunchKernel,
                     (gpu->split[1], (unsigned)n, 1, 1, threads, 1, 1, 0, gpu->slots[i].stream, parameters, NULL), err);
        }
    for (int i = 0; i < 2; i++)
        CUDA_TRY(gpu->cu, StreamSynchronize, (gpu->slots[i].stream), err);
    split->gb_s = 2.0 * n_frames * SPLIT_VALUES * sizeof(float) / 1e6 / (time_now_ms() - start_ms);
    return WEFT_OK;
}

weft_status flow_gpu_split(FlowLab *flow, FlowSplit *split, Error *err)
{
    FlowGpu *gpu = flow->gpu;
    FlowSplit best = { 0 };
    TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    TRY(open_split(gpu, err));
    for (int run = 0; run <= flow->n_runs; run++) {  // one more, which warms up
        FlowSplit once = *split;
        TRY(split->warps ? run_split(gpu, &once, err) : run_concurrent(gpu, &once, err));
        if (once.gb_s > best.gb_s)
            best = once;
    }
    *split = best;
    return WEFT_OK;
}
