// flow_query.c - see flow_query.h.

#include <stdlib.h>

#include "lab/flow_gpu.h"
#include "lab/flow_query.h"

enum { QUERY_WAIT_MS = 5000, TOPIC_FRAMES_MAX = 2 * QUERY_FRAMES_MAX };

static const LabOperator *filter_sums(void)
{
    return operator_find("filter and sums");
}

// ---- frames ---------------------------------------------------------------------------------------------------------

struct QueryDoor {
    FlowLab *lab;
    weft_flow *flow;
    weft_topic *queries, *answers;
    weft_publisher *publisher;
    weft_subscriber *subscriber;
};

static weft_status open_door(FlowLab *flow, QueryDoor *door, Error *err)
{
    const weft_topic_options frames = { .frame_bytes = WEFT_FRAME_LEAST, .frames_max = TOPIC_FRAMES_MAX };
    const weft_operator_options op = { .name = filter_sums()->name,
                                       .tile_c = filter_sums()->text,
                                       .side = WEFT_SIDE_DEVICE };
    weft_flow_options options = { 0 };
    flow_choose_device(flow, &options);
    TRY(weft_flow_new(&options, &door->flow, err));
    TRY(weft_topic_new(door->flow, "queries", &frames, &door->queries, err));
    TRY(weft_topic_new(door->flow, "answers", &frames, &door->answers, err));
    TRY(weft_publisher_open(door->queries, &door->publisher, err));
    TRY(weft_subscriber_open(door->answers, WEFT_START_OLDEST, &door->subscriber, err));
    TRY(weft_flow_link(door->flow, door->queries, &op, door->answers, NULL, err));
    TRY(weft_flow_start(door->flow, err));
    flow_note_place(flow, door->flow);
    return WEFT_OK;
}

weft_status query_door_open(FlowLab *flow, QueryDoor **out, Error *err)
{
    QueryDoor *door = calloc(1, sizeof(*door));
    *out = NULL;
    if (!door)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory");
    door->lab = flow;
    const weft_status status = open_door(flow, door, err);
    if (status)
        query_door_close(door);
    else
        *out = door;
    return status;
}

void query_door_close(QueryDoor *door)
{
    if (!door)
        return;
    if (door->publisher)
        weft_publisher_close(door->publisher);
    if (door->subscriber)
        weft_subscriber_close(door->subscriber);
    weft_flow_free(door->flow);
    free(door);
}

static weft_status post_slice(QueryDoor *door, const FilterQuery *slice, Error *err)
{
    weft_frame *frame;
    TRY(weft_publisher_take(door->publisher, QUERY_WAIT_MS, &frame, err));
    memcpy(frame->data, slice, sizeof(*slice));
    frame->length = sizeof(*slice);
    const weft_status status = weft_publisher_publish(door->publisher, frame, QUERY_WAIT_MS, err);
    if (status)
        weft_frame_drop(frame);
    return status;
}

// Slice I of N has rows first_of(i) to first_of(i + 1).
static u64 first_of(const FilterQuery *query, int i, int n)
{
    return query->n_rows * (u64)i / (u64)n;
}

static weft_status post_number(QueryDoor *door, const FilterQuery *query, int i, int n, Error *err)
{
    const u64 first = first_of(query, i, n);
    const FilterQuery slice = query_slice(query, first, first_of(query, i + 1, n) - first);
    return post_slice(door, &slice, err);
}

weft_status query_post(QueryDoor *door, const FilterQuery *query, int n_slices, Error *err)
{
    for (int i = 0; i < n_slices; i++)
        TRY(post_number(door, query, i, n_slices, err));
    return WEFT_OK;
}

// The next frame's partial sums.
static weft_status take_slice(QueryDoor *door, i64 *sum, Error *err)
{
    const weft_frame *frame;
    TRY(weft_subscriber_next(door->subscriber, QUERY_WAIT_MS, &frame, NULL, err));
    const i64 *sums = frame->data;
    for (u64 i = 0; i < frame->length / sizeof(i64); i++)
        *sum += sums[i];
    weft_subscriber_release(door->subscriber);
    return WEFT_OK;
}

weft_status query_take(QueryDoor *door, int n_slices, i64 *sum, Error *err)
{
    *sum = 0;
    for (int i = 0; i < n_slices; i++)
        TRY(take_slice(door, sum, err));
    return WEFT_OK;
}

weft_status query_by_frames(QueryDoor *door, const FilterQuery *query, int n_slices, i64 *sum, Error *err)
{
    int n_posted = 0;
    *sum = 0;
    for (int n_taken = 0; n_taken < n_slices; n_taken++) {
        for (; n_posted < n_slices && n_posted - n_taken < QUERY_FRAMES_MAX; n_posted++)
            TRY(post_number(door, query, n_posted, n_slices, err));
        TRY(take_slice(door, sum, err));
    }
    return WEFT_OK;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

weft_status query_by_call(FlowLab *flow, const FilterQuery *query, i64 *sum, Error *err)
{
    static const OperatorParams none;
    KernelFunction function;
    TRY(flow_function(flow, filter_sums(), &function, err));
    flow_call(function, query, sizeof(*query), sum, sizeof(*sum), &none);
    return WEFT_OK;
}

// ---- launches -------------------------------------------------------------------------------------------------------

// Arguments and result are beside each other, so that one copy brings the arguments and zeroes the result.
typedef struct LaunchWords {
    FilterQuery query;
    i64 sum;
} LaunchWords;

weft_status query_launch(FlowLab *flow, int slot_number, const FilterQuery *query, Error *err)
{
    enum { ROWS_OF_A_THREAD = 4 };
    FlowGpu *gpu = flow->gpu;
    GpuSlot *slot = &gpu->slots[slot_number];
    const BuiltOperator *built;
    LaunchWords *words = (LaunchWords *)slot->pinned_in;
    TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    TRY(flow_gpu_operator(gpu, filter_sums(), &built, err));
    *words = (LaunchWords){ .query = *query };
    LabArgs args = { .in = { (const void *)slot->in },
                     .out = { (void *)(slot->in + offsetof(LaunchWords, sum)) },
                     .n = { sizeof(*query) } };
    void *parameters[] = { &args };
    const u64 wanted = query->n_rows / ROWS_OF_A_THREAD / (u64)gpu->threads;
    const unsigned blocks = (unsigned)MIN_OF(MAX_OF(wanted, 1), (u64)gpu->blocks_max);
    CUDA_TRY(gpu->cu, MemcpyHtoDAsync, (slot->in, words, sizeof(*words), slot->stream), err);
    CUDA_TRY(gpu->cu, LaunchKernel,
             (built->functions[0], blocks, 1, 1, (unsigned)gpu->threads, 1, 1, 0, slot->stream, parameters, NULL), err);
    CUDA_TRY(gpu->cu, MemcpyDtoHAsync,
             (slot->pinned_out, slot->in + offsetof(LaunchWords, sum), sizeof(i64), slot->stream), err);
    CUDA_TRY(gpu->cu, EventRecord, (slot->done, slot->stream), err);
    return WEFT_OK;
}

weft_status query_wait(FlowLab *flow, int slot_number, i64 *sum, Error *err)
{
    const GpuSlot *slot = &flow->gpu->slots[slot_number];
    CUDA_TRY(flow->gpu->cu, EventSynchronize, (slot->done), err);
    memcpy(sum, slot->pinned_out, sizeof(*sum));
    return WEFT_OK;
}
