// prepare.c - memory for frames before a flow on a GPU starts.
//
// While the kernel stays, memory cannot be had: the kernel is sent away for it, every frame under way waits, and
// pinning takes its time.  But topics say how many frames they may hold.  So what they may hold, and what is in the
// hands of publishers, is taken before the first operator begins.
//
// It is a help and no promise: what is refused now, what topics hold that are made later, and what is beyond PREPARED
// is had when it is wanted.  Where the user has set a limit that is lower than the sum, frames of all sizes must find
// their share of it, so nothing is taken before.

#include "flow/port_int.h"

#define PREPARED ((i64)256 << 20)      // of each side

enum { SIZES = 13, SIZE_LEAST_LOG2 = 12 };                  // 4 KB to 16 MB

typedef struct FrameDemand { i64 n_frames[SIZES]; } FrameDemand;            // of one side

static int size_of(const weft_topic *topic) { return __builtin_ctzll(topic->entry.frame_bytes) - SIZE_LEAST_LOG2; }

// With the topic's lock.
static i64 frames_of(const weft_topic *topic)
{
    const weft_topic_options *options = &topic->options;
    i64 n = options->frames_max;
    if (options->bytes_max > 0)
        n = MIN_OF(n, options->bytes_max / (i64)topic->entry.frame_bytes + 1);
    // The reserve of a publisher, and one frame in hand.  A publisher that is no operator often comes after the start,
    // so one is counted in any case.
    return n + options->retain_frames + 2 * (i64)MAX_OF(topic->n_publishers, 1);
}

static void add_topics(const weft_flow *flow, FrameDemand *demands)
{
    for (weft_topic *topic = atomic_load(&flow->newest); topic; topic = topic->older) {
        pthread_mutex_lock(&topic->lock);
        demands[topic->options.side].n_frames[size_of(topic)] += frames_of(topic);
        pthread_mutex_unlock(&topic->lock);
    }
}

// Rounds that are under way have their output frames.
static void add_rounds(const weft_flow *flow, FrameDemand *demands)
{
    for (const weft_operator *op = flow->operators; op; op = op->next)
        if (op->is_on_gpu && op->output) {
            const weft_topic *to = op->output->topic;
            demands[to->options.side].n_frames[size_of(to)] += (i64)port_rounds_most(op);
        }
}

static void prepare_side(weft_flow *flow, weft_side side, const FrameDemand *demand)
{
    const i64 limit = flow->options.memory[side].bytes_max;
    i64 sum = 0;
    for (int i = 0; i < SIZES; i++)
        sum += demand->n_frames[i] << (i + SIZE_LEAST_LOG2);
    if (limit > 0 && sum > limit)
        return;
    const double share = sum > PREPARED ? (double)PREPARED / (double)sum : 1;
    for (int i = 0; i < SIZES; i++)
        if (demand->n_frames[i] > 0)
            heap_prepare(flow->heap, side, (u64)1 << (i + SIZE_LEAST_LOG2), (i64)(share * (double)demand->n_frames[i]));
}

void prepare_memory(weft_flow *flow)
{
    FrameDemand demands[WEFT_N_SIDES] = { 0 };
    if (!flow->card)
        return;
    add_topics(flow, demands);
    add_rounds(flow, demands);
    for (int side = 0; side < WEFT_N_SIDES; side++)
        prepare_side(flow, side, &demands[side]);
}
