// flow_ours.c - the same frames through include/weft_flow.h: topics, and operators that stay.
//
//     source ──> [0] ──> op ──> [1] ──> relay ──> [2] ──> op ──> [3] ──> sink         C(GC)2; without relay C(G)2C
//
// The tag of a frame is the time at which the source let it go, which operators hand on, so the sink knows how long it
// took (of small frames, every eighth).  Frames of the first moments are not counted: the kernel comes, pages and
// tables of addresses are touched for the first time.  Where the DEVICE side is depends on the flow: threads, or a
// kernel that stays on a GPU.

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/flow_lab.h"

enum {
    BYTES_IN_FLIGHT = 16 << 20,
    FRAMES_IN_FLIGHT = 512,
    WARM_PART = 4,
    TOPICS_MAX = 2 * FLOW_OPS_MAX + 1,
    TIMED_BYTES = 65536, // of smaller frames, one in TIMED is timed: a look at the clock is a part of what they cost
    TIMED = 8,
    APART = 128, // bytes between what two threads write: not in one line of the cache, nor in two that come together
};

typedef struct FrameStream { // of one chain; shared by its source and its sink
    const FlowTrial *trial;
    double measure_ms;
    double started_ms, began_ms;       // began: when it was warm; the source's, read by others when all is over
    _Atomic u64 began_ns;              // the same for the sink; 0: not yet
    char apart[APART];
    i64 n_sent; // the source's
    char apart_too[APART];
    _Atomic i64 n_seen; // the sink's, as all that follows
    double ended_ms;    // of the last frame that was timed
    i64 n_warm;         // seen since the first frame that was timed and let go when all was warm
    i64 n_counted;      // of these, up to the last frame that was timed
    FlowLog log;
    u64 seen;
} FrameStream;

static u64 in_ns(double time_ms)
{
    return (u64)(time_ms * 1e6);
}

// ---- where operators run --------------------------------------------------------------------------------------------

void flow_choose_device(const FlowLab *flow, weft_flow_options *options)
{
    const bool is_test = getenv("WEFT_LAB_SMALL") != NULL;  // the lab's fake driver has no kernel of flow's
    options->device = flow->lab->is_sim || is_test ? "cpu" : flow->lab->options.device;
}

static void add_params(weft_operator_options *options, OperatorParams *params)
{
    options->context = params->bytes;
    options->context_bytes = sizeof(params->bytes);
}

double flow_note_place(FlowLab *flow, weft_flow *own)
{
    const weft_gpu_counts counts = weft_flow_gpu_counts(own);
    if (counts.device[0])
        snprintf(flow->place, sizeof(flow->place), "%s, in %d blocks that stay", counts.device, counts.blocks);
    else
        snprintf(flow->place, sizeof(flow->place), "threads of the CPU (the virtual kernel)");
    return (double)MAX_OF(counts.launches, 1);
}

// ---- operators of the host ------------------------------------------------------------------------------------------

// A quarter of the measurement's time comes before it; where frames are numbered, all of them count.
static void note_time(FrameStream *stream, double now_ms)
{
    if (stream->n_sent == 0)
        stream->started_ms = now_ms;
    if (stream->began_ms > 0 ||
        (!stream->trial->n_frames_max && now_ms - stream->started_ms < stream->measure_ms / WARM_PART))
        return;
    stream->began_ms = now_ms;
    atomic_store(&stream->began_ns, in_ns(now_ms));
}

static bool is_timed(const FrameStream *stream)
{
    const FlowTrial *trial = stream->trial;
    return trial->is_alone || trial->n_frames_max || trial->frame_bytes >= TIMED_BYTES || stream->n_sent % TIMED == 0;
}

// The tag is when the frame was let go; 0 where it was not timed.
static void let_go(FrameStream *stream, weft_round *round)
{
    const double now_ms = time_now_ms();
    note_time(stream, now_ms);
    round->output_tag = in_ns(now_ms);
    if (!stream->trial->n_frames_max && stream->began_ms > 0 && now_ms - stream->began_ms >= stream->measure_ms)
        round->status = WEFT_END_OF_STREAM;
}

static void source(weft_round *round)
{
    FrameStream *stream = round->context;
    const FlowTrial *trial = stream->trial;
    while (trial->is_alone && atomic_load(&stream->n_seen) < stream->n_sent)
        sched_yield();
    if (trial->input)
        memcpy(round->output, trial->input, trial->frame_bytes);
    else
        flow_touch(round->output, trial->frame_bytes, (u64)stream->n_sent);
    if (is_timed(stream))
        let_go(stream, round);
    round->output_bytes = trial->frame_bytes;
    stream->n_sent++;
    if (trial->n_frames_max && stream->n_sent >= trial->n_frames_max)
        round->status = WEFT_END_OF_STREAM;
}

static void relay(weft_round *round)
{
    for (size_t at = 0; at < round->input_bytes; at += FLOW_PAGE)
        *(u64 *)((u8 *)round->output + at) = *(const u64 *)((const u8 *)round->input + at);
    round->output_bytes = round->input_bytes;
    round->output_tag = round->tag;
}

static void sink(weft_round *round)
{
    FrameStream *stream = round->context;
    stream->seen += flow_look(round->input, round->input_bytes);
    if (stream->trial->output)
        memcpy(stream->trial->output, round->input, round->input_bytes);
    const u64 began_ns = atomic_load(&stream->began_ns);
    const bool is_first = stream->n_warm == 0 && began_ns > 0 && round->tag >= began_ns;
    if (is_first || stream->n_warm > 0)
        stream->n_warm++;
    if (stream->n_warm > 0 && round->tag > 0) {
        stream->ended_ms = time_now_ms();
        stream->n_counted = stream->n_warm;
        flow_log_add(&stream->log, (double)(in_ns(stream->ended_ms) - round->tag) / 1000);
    }
    atomic_store_explicit(&stream->n_seen, stream->n_seen + 1, memory_order_release);
}

// ---- a chain --------------------------------------------------------------------------------------------------------

typedef struct Chain {
    weft_flow *flow;
    FrameStream stream;
    OperatorParams params;
    const char *name;  // of its topics
    weft_operator *ops[FLOW_OPS_MAX];
    int n_ops, n_topics;
} Chain;

static weft_status add_topic(Chain *chain, weft_topic **topic, Error *err)
{
    const size_t bytes = chain->stream.trial->frame_bytes;
    const weft_topic_options options = {
        .frame_bytes = (i64)bytes,
        .frames_max =
            chain->stream.trial->is_alone ? 1 : (int)MIN_OF(MAX_OF(BYTES_IN_FLIGHT / bytes, 4), FRAMES_IN_FLIGHT),
    };
    char name[32];
    snprintf(name, sizeof(name), "%s%d", chain->name, chain->n_topics++);
    return weft_topic_new(chain->flow, name, &options, topic, err);
}

static weft_status add_op(Chain *chain, weft_topic **from, Error *err)
{
    const FlowTrial *trial = chain->stream.trial;
    weft_operator_options options = { .name = trial->op->name, .tile_c = trial->op->text, .side = WEFT_SIDE_DEVICE };
    weft_topic *to;
    add_params(&options, &chain->params);
    TRY(add_topic(chain, &to, err));
    TRY(weft_flow_link(chain->flow, *from, &options, to, &chain->ops[chain->n_ops++], err));
    *from = to;
    return WEFT_OK;
}

static weft_status add_relay(Chain *chain, weft_topic **from, Error *err)
{
    const weft_operator_options options = { .name = "relay", .compute = relay };
    weft_topic *to;
    TRY(add_topic(chain, &to, err));
    TRY(weft_flow_link(chain->flow, *from, &options, to, NULL, err));
    *from = to;
    return WEFT_OK;
}

// The operators first, the source last: nothing runs before all of them are compiled.
static weft_status add_chain(Chain *chain, Error *err)
{
    const FlowTrial *trial = chain->stream.trial;
    weft_topic *first, *at;
    operator_params(trial->op, trial->frame_bytes, &chain->params);
    TRY(add_topic(chain, &first, err));
    at = first;
    for (int i = 0; i < MAX_OF(trial->n_ops, 1); i++) {
        if (i > 0 && trial->is_back_and_forth)
            TRY(add_relay(chain, &at, err));
        TRY(add_op(chain, &at, err));
    }
    TRY(weft_flow_link(chain->flow, at,
                       &(weft_operator_options){ .name = "sink", .compute = sink, .context = &chain->stream }, NULL,
                       NULL, err));
    return weft_flow_link(chain->flow, NULL,
                          &(weft_operator_options){ .name = "source", .compute = source, .context = &chain->stream },
                          first, NULL, err);
}

static void chain_figures(const Chain *chain, double n_launches, FlowFigures *figures)
{
    const FrameStream *stream = &chain->stream;
    const double seconds = (stream->ended_ms - stream->began_ms) / 1000;
    double busy_ms = 0, waits = 0;
    // One kernel, or none at all, for the whole stream: nothing is asked for frame by frame.
    flow_sum_up(stream->trial, &stream->log, stream->n_counted, seconds, n_launches, figures);
    for (int i = 0; i < chain->n_ops; i++) {
        const weft_operator_counts counts = weft_operator_count(chain->ops[i]);
        busy_ms += counts.busy_ms / MAX_OF(counts.workers, 1);
        waits += (double)counts.waits;
        figures->workers = counts.workers;
    }
    const double all_ms = stream->ended_ms - stream->started_ms;
    figures->busy = all_ms > 0 ? busy_ms / all_ms : 0;      // operators count from the first frame on
    figures->waits = stream->n_sent ? waits / (double)stream->n_sent : 0;
}

static weft_status run_ours(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures, Error *err)
{
    Arena *scratch = arena_new(NULL, "ours");
    Chain *chain = arena_make(scratch, Chain);
    ASSERT(trial->n_ops <= FLOW_OPS_MAX);
    *chain =
        (Chain){ .name = "t",
                 .stream = { .trial = trial, .measure_ms = flow->measure_ms, .log = flow_log_new(scratch) } };
    weft_flow_options options = { .is_managed = way == &flow_way_ours_managed };
    flow_choose_device(flow, &options);
    weft_status status = weft_flow_new(&options, &chain->flow, err);
    if (!status)
        status = add_chain(chain, err);
    if (!status)
        status = weft_flow_run(chain->flow, err);
    if (!status)
        chain_figures(chain, flow_note_place(flow, chain->flow), figures);
    weft_flow_free(chain->flow);
    arena_free(scratch);
    return status;
}

const FlowWay flow_way_ours = { "ours", run_ours, 1, true, 0 };
const FlowWay flow_way_ours_managed = { "ours, frames in managed memory", run_ours, 1, true, 0 };

// ---- two operators side by side -------------------------------------------------------------------------------------

static weft_status run_two(FlowPair *pair, Chain *chains, int n, Error *err)
{
    double began_ms = 0, ended_ms = 0, bytes = 0;
    for (int i = 0; i < n; i++)
        TRY(add_chain(&chains[i], err));
    TRY(weft_flow_run(chains[0].flow, err));
    for (int i = 0; i < n; i++) {
        const FrameStream *stream = &chains[i].stream;
        const weft_operator_counts counts = weft_operator_count(chains[i].ops[0]);
        began_ms = i == 0 ? stream->began_ms : MIN_OF(began_ms, stream->began_ms);
        ended_ms = MAX_OF(ended_ms, stream->ended_ms);
        bytes += (double)stream->n_counted * (double)pair->frame_bytes;
        pair->workers[i] = counts.workers;
        pair->round_us[i] =
            counts.rounds ? counts.busy_ms * 1000 / (double)counts.rounds / MAX_OF(counts.workers, 1) : 0;
    }
    pair->gb_s = ended_ms > began_ms ? bytes / 1e6 / (ended_ms - began_ms) : 0;
    return WEFT_OK;
}

weft_status flow_run_pair(FlowLab *flow, FlowPair *pair, Error *err)
{
    Arena *scratch = arena_new(NULL, "pair");
    Chain *chains = arena_array(scratch, Chain, 2);
    const int n = pair->ops[1] ? 2 : 1;
    weft_flow_options options = { .workers = pair->n_workers, .is_untuned = pair->is_untuned };
    FlowTrial trials[2];
    weft_flow *both = NULL;
    flow_choose_device(flow, &options);
    weft_status status = weft_flow_new(&options, &both, err);
    for (int i = 0; i < n && !status; i++) {
        trials[i] = (FlowTrial){ .op = pair->ops[i], .frame_bytes = pair->frame_bytes };
        chains[i] =
            (Chain){ .flow = both,
                     .name = i ? "b" : "a",
                     .stream = { .trial = &trials[i], .measure_ms = flow->measure_ms, .log = flow_log_new(scratch) } };
    }
    if (!status)
        status = run_two(pair, chains, n, err);
    weft_flow_free(both);
    arena_free(scratch);
    return status;
}
