// frame.c - who holds a frame: its publisher until it is published, then topics and users; and each topic's reserve.
//
// A frame has a count of holds.  The last drop gives it back: to the heap, or to the reserve of the topic that it
// belongs to.  A reserve has one frame for each open publisher, so that a full heap slows a topology down and does not
// stop it (see topic.c).  Frames that a publisher has taken and not yet published are in a list of its own, so that
// they come back when its thread dies.

#include "flow/flow_int.h"

static void list_add(FrameInfo **first, FrameInfo *info)
{
    info->previous = NULL;
    info->next = *first;
    if (*first)
        (*first)->previous = info;
    *first = info;
}

static void list_remove(FrameInfo **first, FrameInfo *info)
{
    if (info->previous)
        info->previous->next = info->next;
    else
        *first = info->next;
    if (info->next)
        info->next->previous = info->previous;
    info->next = info->previous = NULL;
}

void frame_note_taker(FrameInfo *info, weft_publisher *publisher)
{
    pthread_mutex_lock(&publisher->topic->books);
    info->taker = publisher;
    list_add(&publisher->taken, info);
    pthread_mutex_unlock(&publisher->topic->books);
}

void frame_forget_taker(FrameInfo *info)
{
    weft_publisher *taker = info->taker;
    if (!taker)
        return;
    pthread_mutex_lock(&taker->topic->books);
    list_remove(&taker->taken, info);
    info->taker = NULL;
    pthread_mutex_unlock(&taker->topic->books);
}

void frames_forget_taker(weft_publisher *publisher, FrameInfo *const *infos, int n)
{
    pthread_mutex_lock(&publisher->topic->books);
    for (int i = 0; i < n; i++) {
        ASSERT(infos[i]->taker == publisher);
        list_remove(&publisher->taken, infos[i]);
        infos[i]->taker = NULL;
    }
    pthread_mutex_unlock(&publisher->topic->books);
}

// The last hold of a frame of the reserve is gone.  It goes to the heap when a publisher has closed since.
static void give_to_reserve(weft_topic *topic, FrameInfo *info)
{
    pthread_mutex_lock(&topic->books);
    const bool is_wanted = topic->n_reserved <= topic->n_guaranteed;
    if (is_wanted) {
        list_add(&topic->reserve, info);
    } else {
        topic->n_reserved--;
        info->reserve_of = NULL;
    }
    pthread_mutex_unlock(&topic->books);
    if (is_wanted)
        heap_wake(topic->heap);
    else
        heap_give(info);
}

void weft_frame_hold(const weft_frame *frame)
{
    const u32 before = atomic_fetch_add_explicit(&info_of(frame)->holds, 1, memory_order_relaxed);
    ASSERT(before > 0);                                     // else the frame was free
    (void)before;
}

void weft_frame_drop(const weft_frame *frame)
{
    FrameInfo *info = info_of(frame);
    const u32 before = atomic_fetch_sub_explicit(&info->holds, 1, memory_order_acq_rel);
    ASSERT(before > 0);                                     // else it was dropped once too often
    if (before == 0)
        atomic_fetch_add(&info->holds, 1);
    if (before != 1)
        return;
    frame_forget_taker(info);
    if (info->reserve_of)
        give_to_reserve(info->reserve_of, info);
    else
        heap_give(info);
}

FrameInfo *reserve_take(weft_topic *topic)
{
    pthread_mutex_lock(&topic->books);
    FrameInfo *info = topic->reserve;
    if (info) {
        list_remove(&topic->reserve, info);
        info->frame.length = info->frame.tag = 0;
        atomic_store(&info->holds, 1);
    }
    pthread_mutex_unlock(&topic->books);
    return info;
}

weft_status reserve_add(weft_topic *topic, Error *err)
{
    FrameInfo *info;
    TRY(heap_take(topic->heap, topic->options.side, topic->entry.frame_bytes, &info, err));
    atomic_store(&info->holds, 0);
    info->reserve_of = topic;
    pthread_mutex_lock(&topic->books);
    topic->n_guaranteed++;
    topic->n_reserved++;
    list_add(&topic->reserve, info);
    pthread_mutex_unlock(&topic->books);
    return WEFT_OK;
}

void reserve_remove(weft_topic *topic)
{
    pthread_mutex_lock(&topic->books);
    topic->n_guaranteed--;
    FrameInfo *info = topic->n_reserved > topic->n_guaranteed ? topic->reserve : NULL;
    if (info) {
        list_remove(&topic->reserve, info);
        topic->n_reserved--;
        info->reserve_of = NULL;
    }
    pthread_mutex_unlock(&topic->books);
    if (info)
        heap_give(info);
}

void frames_drop_taken(weft_publisher *publisher)
{
    for (;;) {
        pthread_mutex_lock(&publisher->topic->books);
        FrameInfo *info = publisher->taken;
        pthread_mutex_unlock(&publisher->topic->books);
        if (!info)
            return;
        frame_forget_taker(info);
        weft_frame_drop(&info->frame);
    }
}

void reserve_empty(weft_topic *topic)
{
    while (topic->reserve) {
        FrameInfo *info = topic->reserve;
        list_remove(&topic->reserve, info);
        info->reserve_of = NULL;
        heap_give(info);
    }
}
