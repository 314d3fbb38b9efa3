// flow_managed.c - managed memory: a kernel over it for each frame (the paper's KoUM), and XeFlow's own way, topics
// over it with a rule for each of their layers (paper 5, 4.2), which are switched on one after the other.
//
//     catalog    read by both sides all the time       rule: read-mostly, so that each side has a replica
//     index      one replica, which both sides use     rule: two, each preferred on its own side; copied on read
//     frames     move to whoever touches them          rule: preferred on the publishers' side, read there directly
//
// The host is source and sink in one thread.  The kernel stays, and its blocks subscribe and publish by themselves
// (NAME_topics of operator_words.h).  Frames to the device and back have one slot number, which the host gives out: the
// paper's heap on the device is not what is compared here.  The word that says stop is pinned, so that the kernel
// leaves whatever becomes of the rest.
//
// The host cannot map memory of a GPU on PCIe: what it reads of frames and entries that are preferred there moves to it
// by page faults, and back with the next write.

#include <unistd.h>

#include "lab/flow_gpu.h"
#include "lab/page_faults.h"

// ---- a kernel over managed memory -----------------------------------------------------------------------------------

static weft_status open_managed(FlowGpu *gpu, Error *err)
{
    if (!gpu->cu->MemAllocManaged)
        return fail(err, WEFT_NO_DEVICE, -1, "this driver has no managed memory");
    if (!gpu->managed_in)
        CUDA_TRY(gpu->cu, MemAllocManaged, (&gpu->managed_in, gpu->slot_bytes, CU_MANAGED_GLOBAL), err);
    if (!gpu->managed_out)
        CUDA_TRY(gpu->cu, MemAllocManaged, (&gpu->managed_out, gpu->slot_bytes, CU_MANAGED_GLOBAL), err);
    return WEFT_OK;
}

static weft_status run_managed_frame(FlowGpu *gpu, CuFunction function, const FlowTrial *trial, i64 number,
                                     FlowLog *log, Error *err)
{
    const size_t out_bytes = operator_output_bytes(trial->op, trial->frame_bytes);
    CuStream stream = gpu->slots[0].stream;
    u8 *in = (u8 *)gpu->managed_in, *out = (u8 *)gpu->managed_out;
    const double start_ms = time_now_ms();
    if (trial->input)
        memcpy(in, trial->input, trial->frame_bytes);
    else
        flow_touch(in, trial->frame_bytes, (u64)number);
    for (int i = 0; i < MAX_OF(trial->n_ops, 1); i++) {
        TRY(flow_gpu_launch(gpu, function, trial, (CuAddress)in, (CuAddress)out, stream, err));
        u8 *swap = in;
        in = out;
        out = swap;
    }
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    flow_look(in, out_bytes);  // the last output
    if (trial->output)
        memcpy(trial->output, in, out_bytes);
    flow_log_add(log, (time_now_ms() - start_ms) * 1000);
    return WEFT_OK;
}

static weft_status run_managed_frames(FlowLab *flow, CuFunction function, const FlowTrial *trial, FlowLog *log,
                                      FlowFigures *figures, Error *err)
{
    i64 n_frames = 0;
    TRY(run_managed_frame(flow->gpu, function, trial, 0, log, err));
    log->n = 0;
    const double start_ms = time_now_ms();
    for (; !flow_gpu_is_over(flow, trial, n_frames, start_ms); n_frames++)
        TRY(run_managed_frame(flow->gpu, function, trial, n_frames, log, err));
    const double seconds = (time_now_ms() - start_ms) / 1000;
    flow_sum_up(trial, log, n_frames, seconds, (double)n_frames * MAX_OF(trial->n_ops, 1), figures);
    return WEFT_OK;
}

static weft_status run_managed(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures,
                               Error *err)
{
    const BuiltOperator *built;
    TRY(flow_gpu_prepare(flow, trial, &built, err));
    TRY(open_managed(flow->gpu, err));
    Arena *scratch = arena_new(NULL, "managed");
    FlowLog log = flow_log_new(scratch);
    const weft_status status = run_managed_frames(flow, built->functions[0], trial, &log, figures, err);
    if (status)
        flow->gpu->cu->CtxSynchronize();
    arena_free(scratch);
    return status;
}

// ---- topics over managed memory -------------------------------------------------------------------------------------

enum { RULE_CATALOG = 1, RULE_INDEX = 2, RULE_FRAMES = 4 };
enum { TOPIC_FRAMES = 64, TOPIC_BYTES = 64 << 20 };  // in flight, of each direction
enum { LAYER_CATALOG, LAYER_PUBLISHED, LAYER_SUBSCRIBED, LAYER_FRAMES, N_LAYERS };

typedef struct TopicsRun {
    FlowGpu *gpu;
    const FlowTrial *trial;
    int rules;
    CuAddress memory[N_LAYERS][2];  // of the topic to the device and of the one back; the catalog has the first
    LabCatalog *catalog;
    int n_slots, n_free, n_parts;
    int free_slots[TOPIC_FRAMES];
    double start_ms[TOPIC_FRAMES];  // by slot
    u64 n_sent, n_seen;
    FlowLog log;
    u64 seen;
} TopicsRun;

static size_t layer_bytes(const TopicsRun *run, int layer)
{
    if (layer == LAYER_FRAMES)
        return (size_t)run->n_slots * run->trial->frame_bytes;
    return layer == LAYER_CATALOG ? FLOW_PAGE : sizeof(LabIndex);
}

static LabIndex *index_of(const TopicsRun *run, int layer, int topic)
{
    return (LabIndex *)run->memory[layer][topic];
}

// BYTES stay at HOME, and the GPU has them mapped wherever they are.
static weft_status keep_at(FlowGpu *gpu, CuAddress memory, size_t bytes, bool is_host, Error *err)
{
    const CuDevice card = lab_gpu_ordinal(gpu->lab_gpu), home = is_host ? CU_ON_HOST : card;
    CUDA_TRY(gpu->cu, MemAdvise, (memory, bytes, CU_ADVISE_PREFERRED_LOCATION, home), err);
    if (is_host)
        CUDA_TRY(gpu->cu, MemAdvise, (memory, bytes, CU_ADVISE_ACCESSED_BY, card), err);
    CUDA_TRY(gpu->cu, MemPrefetchAsync, (memory, bytes, home, gpu->slots[0].stream), err);  // mapped before it begins
    return WEFT_OK;
}

// The topic to the device (0) is published by the host, the one back by the GPU.
static weft_status apply_rules(TopicsRun *run, Error *err)
{
    FlowGpu *gpu = run->gpu;
    for (int topic = 0; topic < 2; topic++) {
        if (run->rules & RULE_INDEX) {
            TRY(keep_at(gpu, run->memory[LAYER_PUBLISHED][topic], sizeof(LabIndex), topic == 0, err));
            TRY(keep_at(gpu, run->memory[LAYER_SUBSCRIBED][topic], sizeof(LabIndex), topic == 1, err));
        }
        if (run->rules & RULE_FRAMES)
            TRY(keep_at(gpu, run->memory[LAYER_FRAMES][topic], layer_bytes(run, LAYER_FRAMES), topic == 0, err));
    }
    if (run->rules & RULE_CATALOG)
        CUDA_TRY(gpu->cu, MemAdvise,
                 (run->memory[LAYER_CATALOG][0], FLOW_PAGE, CU_ADVISE_READ_MOSTLY, lab_gpu_ordinal(gpu->lab_gpu)), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (gpu->slots[0].stream), err);
    return WEFT_OK;
}

static void fill_catalog(TopicsRun *run)
{
    const int subscribed = run->rules & RULE_INDEX ? LAYER_SUBSCRIBED : LAYER_PUBLISHED;
    LabCatalog *catalog = (LabCatalog *)run->memory[LAYER_CATALOG][0];
    memset(catalog, 0, FLOW_PAGE);
    catalog->params = run->gpu->params;
    catalog->n_parts = (unsigned)run->n_parts;
    for (int topic = 0; topic < 2; topic++) {
        catalog->published[topic] = run->memory[LAYER_PUBLISHED][topic];
        catalog->subscribed[topic] = run->memory[subscribed][topic];
        memset(index_of(run, LAYER_PUBLISHED, topic), 0, sizeof(LabIndex));
        if (subscribed == LAYER_SUBSCRIBED)
            memset(index_of(run, LAYER_SUBSCRIBED, topic), 0, sizeof(LabIndex));
    }
    run->catalog = catalog;
}

static weft_status take_layers(TopicsRun *run, Error *err)
{
    const CudaDriver *cu = run->gpu->cu;
    int at_once = 0;
    if (!cu->MemAllocManaged || !cu->MemAdvise || !cu->MemPrefetchAsync)
        return fail(err, WEFT_NO_DEVICE, -1, "this driver has no managed memory");
    CUDA_TRY(cu, DeviceGetAttribute, (&at_once, CU_DEVICE_MANAGED_AT_ONCE, lab_gpu_ordinal(run->gpu->lab_gpu)), err);
    if (!at_once)
        return fail(err, WEFT_NO_DEVICE, -1, "the host cannot use managed memory while a kernel runs on this card");
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int topic = 0; topic < (layer == LAYER_CATALOG ? 1 : 2); topic++)
            if (layer != LAYER_SUBSCRIBED || run->rules & RULE_INDEX)
                CUDA_TRY(cu, MemAllocManaged, (&run->memory[layer][topic], layer_bytes(run, layer), CU_MANAGED_GLOBAL),
                         err);
    if (!run->gpu->words)
        CUDA_TRY(cu, MemAlloc, (&run->gpu->words, sizeof(LabTopicWords)), err);
    return WEFT_OK;
}

static void give_layers(TopicsRun *run)
{
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int topic = 0; topic < 2; topic++)
            if (run->memory[layer][topic])
                run->gpu->cu->MemFree(run->memory[layer][topic]);
}

static weft_status start_topics(TopicsRun *run, CuFunction function, Error *err)
{
    FlowGpu *gpu = run->gpu;
    CuStream stream = gpu->slots[0].stream;
    LabArgs args = { .out = { (void *)gpu->tasks_there, (void *)run->memory[LAYER_CATALOG][0] },
                     .scratch = (void *)gpu->words,
                     .n = { (u64)run->n_parts } };
    void *parameters[] = { &args };
    __atomic_store_n(&gpu->tasks->stop, 0, __ATOMIC_RELEASE);  // the first word of the tasks
    CUDA_TRY(gpu->cu, MemsetD8Async, (gpu->words, 0, sizeof(LabTopicWords), stream), err);
    CUDA_TRY(gpu->cu, StreamSynchronize, (stream), err);
    CUDA_TRY(gpu->cu, LaunchKernel,
             (function, (unsigned)gpu->n_multiprocessors, 1, 1, (unsigned)gpu->threads, 1, 1, 0, stream, parameters,
              NULL),
             err);
    return WEFT_OK;
}

// ---- the host's side of the topics ----------------------------------------------------------------------------------

static u8 *frame_at(const TopicsRun *run, int topic, int slot)
{
    return (u8 *)run->memory[LAYER_FRAMES][topic] + (size_t)slot * run->trial->frame_bytes;
}

static void publish_frame(TopicsRun *run)
{
    const FlowTrial *trial = run->trial;
    const int slot = run->free_slots[--run->n_free];
    LabIndex *index = (LabIndex *)run->catalog->published[0];
    run->start_ms[slot] = time_now_ms();
    if (trial->input)
        memcpy(frame_at(run, 0, slot), trial->input, trial->frame_bytes);
    else
        flow_touch(frame_at(run, 0, slot), trial->frame_bytes, run->n_sent);
    LabEntry *entry = &index->entries[run->n_sent % LAB_INDEX];
    const u64 words[] = { (u64)(uintptr_t)frame_at(run, 0, slot), (u64)(uintptr_t)frame_at(run, 1, slot),
                          trial->frame_bytes, run->n_sent, (u64)slot };
    unsigned long long *const to[] = { &entry->in, &entry->out, &entry->bytes, &entry->tag, &entry->slot };
    for (int i = 0; i < COUNT_OF(to); i++)
        __atomic_store_n(to[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&index->tail, ++run->n_sent, __ATOMIC_RELEASE);
}

// How many entries of the topic back are there; with the index's rule after they were copied to the host's replica.
static u64 look_for_frames(TopicsRun *run)
{
    LabIndex *mine = (LabIndex *)run->catalog->subscribed[1], *theirs = (LabIndex *)run->catalog->published[1];
    const u64 from = mine == theirs ? 0 : mine->tail;
    if (mine != theirs && from > run->n_seen)
        return from;
    u64 to = __atomic_load_n(&theirs->tail, __ATOMIC_ACQUIRE);
    if (mine == theirs)
        return to;
    to = MIN_OF(to, (from / LAB_INDEX_PAGE + 1) * LAB_INDEX_PAGE);
    for (u64 at = from; at < to; at++) {
        const LabEntry *entry = &theirs->entries[at % LAB_INDEX];
        mine->entries[at % LAB_INDEX].slot = __atomic_load_n(&entry->slot, __ATOMIC_RELAXED);
    }
    mine->tail = to;
    return to;
}

static weft_status take_frame(TopicsRun *run, Error *err)
{
    const FlowTrial *trial = run->trial;
    const size_t out_bytes = operator_output_bytes(trial->op, trial->frame_bytes);
    const LabIndex *index = (const LabIndex *)run->catalog->subscribed[1];
    const u64 slot = __atomic_load_n(&index->entries[run->n_seen % LAB_INDEX].slot, __ATOMIC_RELAXED);
    if (slot >= (u64)run->n_slots)
        return fail(err, WEFT_DEVICE_FAILED, -1, "an entry of the index names slot %llu", (unsigned long long)slot);
    run->seen += flow_look(frame_at(run, 1, (int)slot), out_bytes);
    if (trial->output)
        memcpy(trial->output, frame_at(run, 1, (int)slot), out_bytes);
    flow_log_add(&run->log, (time_now_ms() - run->start_ms[slot]) * 1000);
    run->free_slots[run->n_free++] = (int)slot;
    run->n_seen++;
    return WEFT_OK;
}

// A look at an entry that the GPU writes may move its page, so there is a pause between two.
static weft_status wait_for_frame(TopicsRun *run, Error *err)
{
    const double began_ms = time_now_ms(), pause_ms = 0.002;
    double looked_ms = began_ms;
    while (look_for_frames(run) <= run->n_seen) {
        if (looked_ms - began_ms > TASK_WAIT_MS)
            return fail(err, WEFT_DEVICE_FAILED, -1, "a frame did not come back within %d ms", TASK_WAIT_MS);
        if (looked_ms - began_ms > TASK_SPIN_MS)
            usleep(100);
        const double until_ms = looked_ms + pause_ms;
        while (looked_ms < until_ms)
            looked_ms = time_now_ms();
    }
    return WEFT_OK;
}

// As many frames as have a slot go; then those that came back are taken.
static weft_status pump_frames(FlowLab *flow, TopicsRun *run, i64 first, double start_ms, Error *err)
{
    for (;;) {
        while (run->n_free > 0 && !flow_gpu_is_over(flow, run->trial, (i64)run->n_sent - first, start_ms))
            publish_frame(run);
        if (run->n_seen == run->n_sent)
            return WEFT_OK;
        TRY(wait_for_frame(run, err));
        do
            TRY(take_frame(run, err));
        while (run->n_seen < run->n_sent && look_for_frames(run) > run->n_seen);
    }
}

static weft_status run_topics_of(FlowLab *flow, TopicsRun *run, FlowFigures *figures, Error *err)
{
    publish_frame(run);  // one frame more: the first takes longer
    TRY(wait_for_frame(run, err));
    TRY(take_frame(run, err));
    run->log.n = 0;
    const double start_ms = time_now_ms();
    TRY(pump_frames(flow, run, 1, start_ms, err));
    const double seconds = (time_now_ms() - start_ms) / 1000;
    flow_sum_up(run->trial, &run->log, (i64)run->n_seen - 1, seconds, 1, figures);
    return WEFT_OK;
}

static weft_status stop_topics(FlowGpu *gpu, weft_status status, Error *err)
{
    Error late = { 0 };
    __atomic_store_n(&gpu->tasks->stop, 1, __ATOMIC_RELEASE);
    const weft_status stopped =
        cuda_check(gpu->cu, gpu->cu->StreamSynchronize(gpu->slots[0].stream), "cuStreamSynchronize", &late);
    return status || !stopped ? status : fail(err, stopped, -1, "%s", late.message);
}

static weft_status run_topics_in(FlowLab *flow, TopicsRun *run, FlowFigures *figures, Error *err)
{
    const BuiltOperator *built;
    if (run->trial->n_ops > 1)
        return fail(err, WEFT_UNSUPPORTED, -1, "topics over managed memory have one operator");
    TRY(flow_gpu_prepare(flow, run->trial, &built, err));
    TRY(take_layers(run, err));
    fill_catalog(run);
    TRY(apply_rules(run, err));
    TRY(start_topics(run, built->functions[2], err));
    return stop_topics(run->gpu, run_topics_of(flow, run, figures, err), err);
}

static weft_status run_topics(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures,
                              Error *err)
{
    Arena *scratch = arena_new(NULL, "topics");
    TopicsRun *run = arena_make(scratch, TopicsRun);
    const int parts = (int)(trial->frame_bytes / TASK_PART), most = (int)(TOPIC_BYTES / trial->frame_bytes);
    *run = (TopicsRun){ .gpu = flow->gpu, .trial = trial, .rules = way->rules, .log = flow_log_new(scratch) };
    run->n_slots = trial->is_alone ? 1 : MIN_OF(MAX_OF(most, 4), TOPIC_FRAMES);
    run->n_parts = MIN_OF(MAX_OF(parts, 1), run->gpu->n_multiprocessors);
    for (; run->n_free < run->n_slots; run->n_free++)
        run->free_slots[run->n_free] = run->n_free;
    const weft_status status = run_topics_in(flow, run, figures, err);
    if (status)
        flow->gpu->cu->CtxSynchronize();
    give_layers(run);
    arena_free(scratch);
    return status;
}

const FlowWay flow_way_managed = { "kernel over managed memory", run_managed, 1, true, 0 };
const FlowWay flow_way_topics = { "managed topics, no rule", run_topics, 1, true, 0 };
const FlowWay flow_way_catalog = { "managed topics, catalog's rule", run_topics, 1, true, RULE_CATALOG };
const FlowWay flow_way_index = { "managed topics, catalog's and index's", run_topics, 1, true,
                                 RULE_CATALOG | RULE_INDEX };
const FlowWay flow_way_xeflow = { "XeFlow: managed topics, all rules", run_topics, 1, true,
                                  RULE_CATALOG | RULE_INDEX | RULE_FRAMES };

// ---- page faults ----------------------------------------------------------------------------------------------------

weft_status flow_gpu_faults(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, PageFaults *per_gb, Error *err)
{
    FlowFigures figures = { 0 };
    TRY(page_faults_begin(lab_gpu_ordinal(flow->gpu->lab_gpu), err));
    const weft_status status = way->run(flow, way, trial, &figures, err);
    const PageFaults counted = page_faults_end();
    TRY(status);
    // One frame more than is timed.
    const double gb = (double)(figures.n_frames + 1) * (double)trial->frame_bytes / 1e9;
    *per_gb = (PageFaults){ counted.gpu / gb, counted.cpu / gb, counted.bytes_there / gb, counted.bytes_back / gb };
    return WEFT_OK;
}
