// topic.c - topics: a log of frames with an index in two replicas.
//
//     publishers ──> index, a ring of entries ── copied on read, a page at a time ──> a subscriber's replica
//         │              offset, frame, length                                            │
//         └──────────> frames: one replica, read directly <─────────────────────────────┘
//
//     head          read_to            published
//      │ retained     │ unread           │
//      ▼ ▒▒▒▒▒▒▒▒▒▒▒▒ ▼ ████████████████ ▼ room
//
// Words that both sides read: `tail` and `end` are written by the publishers' side only, a subscriber's `done` by that
// subscriber only.  All else is the publishers' own, guarded by the topic's lock, which device code will not need: a
// subscriber on the host takes it only to sleep and to free what it has read.  weft_flow.h states the memory order, and
// each link_ call below is one of its rules.
//
// A frame is kept until every subscriber is done with it, and then as long as the retention says.  Publishers wait for
// the slowest subscriber.  Refused: overtaking a slow subscriber; then a subscriber could not trust an entry that it
// has copied, and every read of a frame would have to be checked afterwards.
//
// Memory.  Each open publisher guarantees its topic one frame that no other topic gets (the reserve, frame.c).  So an
// operator whose input fills the heap still finds a frame for its output, as long as those behind it go on: a full heap
// slows a topology down and does not stop it, if it has no cycle.
//
// Departs from the paper (4.2): the subscriber's replica belongs to a subscriber, not to a side, so it needs no lock;
// and publishers agree by a lock of their own side instead of an atomic across the link.

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "flow/flow_int.h"

enum { SLICE_MS = 20 };                // a wait looks again after so long, whatever happens

static int slice_of(const weft_topic *topic) { return topic->link ? 1 : SLICE_MS; }

static u64 slot_of(const weft_topic *topic, u64 offset) { return offset & (topic->entry.n_slots - 1); }

static weft_side side_of(const weft_topic *topic) { return topic->options.side; }

static void ring(weft_topic *topic)
{
    for (int i = 0; i < COUNT_OF(topic->bells); i++) {
        Bell *bell = atomic_load_explicit(&topic->bells[i], memory_order_acquire);
        if (bell)
            bell_ring(bell);
    }
}

void topic_add_bell(weft_topic *topic, Bell *bell)
{
    pthread_mutex_lock(&topic->lock);
    int i = 0;
    while (i < COUNT_OF(topic->bells) - 1 && topic->bells[i] && topic->bells[i] != bell)
        i++;
    ASSERT(!topic->bells[i] || topic->bells[i] == bell);
    atomic_store_explicit(&topic->bells[i], bell, memory_order_release);
    pthread_mutex_unlock(&topic->lock);
}

void topic_forget_bells(weft_topic *topic)
{
    for (int i = 0; i < COUNT_OF(topic->bells); i++)
        atomic_store(&topic->bells[i], NULL);
}

static weft_status fail_ended(const weft_topic *topic, Error *err)
{
    return fail(err, WEFT_END_OF_STREAM, NO_PLACE, "topic \"%s\" has ended", topic->entry.name);
}

// ---- time that a call may wait --------------------------------------------------------------------------------------

typedef struct Patience { double until_ms; bool is_endless; } Patience;

static Patience patience_of(int timeout_ms)
{
    Patience patience = { .is_endless = timeout_ms == WEFT_FOREVER };
    if (timeout_ms > 0)
        patience.until_ms = time_now_ms() + timeout_ms;
    return patience;
}

// Milliseconds to wait now, MOST at most; 0: time is up.
static int patience_left(const Patience *patience, int most)
{
    if (patience->is_endless)
        return most;
    const double left = patience->until_ms > 0 ? patience->until_ms - time_now_ms() : 0;
    return left <= 0 ? 0 : (int)MIN_OF(left + 1, most);
}

// ---- looking again instead of sleeping ------------------------------------------------------------------------------
// Frames of a GPU come every few microseconds, and a thread that sleeps costs those that wake it a call of the system.

enum { SPIN_US = 50, CORES_TO_SPIN = 4, PAUSES = 16 };

typedef struct Spinning { double until_ms; } Spinning;      // 0: it was not begun

// True: the caller looks again after a pause, and does not sleep yet.
static bool spins_on(const weft_topic *topic, Spinning *spinning)
{
    if (!topic->is_fast || cpu_count() < CORES_TO_SPIN)
        return false;
    const double now_ms = time_now_ms();
    if (spinning->until_ms == 0)
        spinning->until_ms = now_ms + SPIN_US / 1e3;
    return now_ms < spinning->until_ms;
}

static void pause_a_little(void)                            // a microsecond or less
{
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

// ---- what is kept: with the topic's lock ----------------------------------------------------------------------------

static void drop_oldest(weft_topic *topic)
{
    KeptFrame *kept = &topic->kept[slot_of(topic, topic->head++)];
    topic->bytes_kept -= kept->bytes;
    topic->bytes_read -= kept->bytes;
    weft_frame_drop(&kept->info->frame);
    kept->info = NULL;
}

// Sees how far subscribers are, and drops frames that all have read: beyond the retention, or all of them.
static void drop_read(weft_topic *topic, bool is_short)
{
    u64 lowest = topic->published;
    for (weft_subscriber *s = topic->subscribers; s; s = s->next) {
        const u64 done = s->is_open ? link_acquire(topic->link, side_of(topic), &s->done) : lowest;
        lowest = MIN_OF(lowest, done);                      // read once: it grows meanwhile
    }
    for (; topic->read_to < lowest; topic->read_to++)
        topic->bytes_read += topic->kept[slot_of(topic, topic->read_to)].bytes;
    const u64 frames = is_short ? 0 : (u64)topic->options.retain_frames, bytes = (u64)topic->options.retain_bytes;
    while (topic->head < topic->read_to &&
           (topic->read_to - topic->head > frames || (bytes > 0 && topic->bytes_read > bytes)))
        drop_oldest(topic);
}

static bool has_room(const weft_topic *topic, u64 bytes)
{
    const u64 n_unread = topic->published - topic->read_to, bytes_unread = topic->bytes_kept - topic->bytes_read;
    if (n_unread >= (u64)topic->options.frames_max)
        return false;
    return n_unread == 0 || topic->options.bytes_max == 0 || bytes_unread + bytes <= (u64)topic->options.bytes_max;
}

static void wake_writers(weft_topic *topic)
{
    if (topic->n_waiting_writers > 0)
        pthread_cond_broadcast(&topic->can_write);
}

// A full topic has frames for its readers, so its writers sleep on until half of it is free: one call of the system for
// many frames.
static void wake_writers_for_room(weft_topic *topic)
{
    const u64 n_unread = topic->published - topic->read_to;
    if (topic->options.bytes_max > 0 || 2 * n_unread <= (u64)topic->options.frames_max)
        wake_writers(topic);
}

static void wake_readers(weft_topic *topic)
{
    if (topic->n_waiting_readers > 0)
        pthread_cond_broadcast(&topic->can_read);
}

static void close_locked(weft_topic *topic)
{
    if (topic->is_closed)
        return;
    topic->is_closed = true;
    link_release(topic->link, side_of(topic), &topic->end, topic->published);
    wake_readers(topic);
    wake_writers(topic);
}

bool topic_has_room(weft_topic *topic, u64 bytes)
{
    pthread_mutex_lock(&topic->lock);
    drop_read(topic, false);
    const bool has = topic->is_closed || has_room(topic, bytes);    // closed: publishing tells
    pthread_mutex_unlock(&topic->lock);
    return has;
}

weft_status topic_check_host(const weft_topic *topic, Error *err)
{
    if (!topic->device[0])
        return WEFT_OK;
    fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "the frames of topic \"%s\" are in the memory of %s",
         topic->entry.name, topic->device);
    error_hint(err, "Only tile C on the DEVICE side can use them. A topic of side HOST can be used from both sides.");
    return WEFT_INVALID_PARAMETER;
}

// ---- publishing -----------------------------------------------------------------------------------------------------

static void leave_publishers(weft_publisher *publisher)     // with the topic's lock
{
    weft_topic *topic = publisher->topic;
    publisher->is_open = false;
    if (--topic->n_publishers == 0)
        close_locked(topic);
}

// The publisher's thread has ended.  Its handle stays valid, for whoever closes it.
static void abandon_publisher(void *context)
{
    weft_publisher *publisher = context;
    weft_topic *topic = publisher->topic;
    pthread_mutex_lock(&topic->lock);
    const bool was_open = publisher->is_open;
    if (was_open) {
        topic->has_died = true;
        fail(&topic->error, WEFT_OPERATOR_FAILED, NO_PLACE,
             "a publisher of topic \"%s\" ended its thread without closing it", topic->entry.name);
        leave_publishers(publisher);
    }
    pthread_mutex_unlock(&topic->lock);
    frames_drop_taken(publisher);
    if (was_open)
        reserve_remove(topic);
    ring(topic);
}

weft_status topic_open_publisher(weft_topic *topic, bool is_operator, weft_publisher **out, Error *err)
{
    *out = NULL;
    TRY(reserve_add(topic, err));
    weft_publisher *publisher = calloc(1, sizeof(weft_publisher));
    pthread_mutex_lock(&topic->lock);
    const bool is_closed = topic->is_closed;
    if (publisher && !is_closed) {
        *publisher = (weft_publisher){ .topic = topic, .next = topic->publishers, .number = topic->next_publisher++,
                                       .is_open = true, .is_operator = is_operator };
        publisher->owned.abandon = abandon_publisher;
        publisher->owned.context = publisher;
        topic->publishers = publisher;
        topic->n_publishers++;
    }
    pthread_mutex_unlock(&topic->lock);
    if (!publisher || is_closed) {
        reserve_remove(topic);
        free(publisher);
        return is_closed ? fail_ended(topic, err)
                         : fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a publisher");
    }
    *out = publisher;
    return WEFT_OK;
}

weft_status weft_publisher_open(weft_topic *topic, weft_publisher **publisher, weft_error *error)
{
    *publisher = NULL;
    error_clear(error);
    TRY(topic_check_host(topic, error));
    TRY(topic_open_publisher(topic, false, publisher, error));
    owned_adopt(&(*publisher)->owned);
    return WEFT_OK;
}

bool publisher_is_over(weft_publisher *publisher)
{
    const weft_topic *topic = publisher->topic;
    return atomic_load(&topic->is_closed) || !atomic_load(&publisher->is_open) || atomic_load(topic->stop);
}

// Memory is short: no topic of the flow keeps frames that all have read.
static void drop_retained(weft_topic *any)
{
    for (weft_topic *topic = atomic_load(any->newest); topic; topic = topic->older) {
        pthread_mutex_lock(&topic->lock);
        drop_read(topic, true);
        wake_writers(topic);
        pthread_mutex_unlock(&topic->lock);
    }
}

// NULL: ERR says why.
static FrameInfo *take_frame(weft_topic *topic, Error *err)
{
    FrameInfo *info = NULL;
    if (heap_take(topic->heap, side_of(topic), topic->entry.frame_bytes, &info, err) == WEFT_OK)
        return info;
    info = reserve_take(topic);
    if (!info) {
        drop_retained(topic);
        error_clear(err);
        if (heap_take(topic->heap, side_of(topic), topic->entry.frame_bytes, &info, err))
            info = reserve_take(topic);
    }
    if (info)
        error_clear(err);
    return info;
}

weft_status weft_publisher_take(weft_publisher *publisher, int timeout_ms, weft_frame **frame, weft_error *error)
{
    weft_topic *topic = publisher->topic;
    const Patience patience = patience_of(timeout_ms);
    *frame = NULL;
    owned_adopt(&publisher->owned);
    for (;;) {
        error_clear(error);
        if (publisher_is_over(publisher))
            return fail_ended(topic, error);
        const u64 number = heap_number(topic->heap);
        FrameInfo *info = take_frame(topic, error);
        if (info) {
            frame_note_taker(info, publisher);
            *frame = &info->frame;
            return WEFT_OK;
        }
        const int time_ms = patience_left(&patience, slice_of(topic));
        if (time_ms == 0)
            return WEFT_OUT_OF_MEMORY;
        heap_wait(topic->heap, number, time_ms);
    }
}

// Stores the entry, then releases the offset that covers it; with the topic's lock.  The caller wakes readers.
static void append(weft_topic *topic, const weft_publisher *publisher, FrameInfo *info)
{
    const u64 offset = topic->published;
    const IndexEntry entry = {
        .offset = offset, .frame = (u64)(uintptr_t)info, .data = (u64)(uintptr_t)info->frame.data,
        .length = info->frame.length, .capacity = info->frame.capacity, .tag = info->frame.tag,
        .publisher = publisher->number, .check = random_bits(offset, (u64)(uintptr_t)info) };
    topic->kept[slot_of(topic, offset)] = (KeptFrame){ info, info->frame.length };
    topic->bytes_kept += info->frame.length;
    topic->published++;
    topic->frames_published++;
    topic->bytes_published += (i64)info->frame.length;
    link_store(topic->link, side_of(topic), &topic->index[slot_of(topic, offset)], &entry, sizeof(entry));
    link_release(topic->link, side_of(topic), &topic->tail, offset + 1);
    if (topic->n_subscribers == 0)
        drop_read(topic, false);                            // no other call will
}

// Waits with the topic's lock until there is room for BYTES.
static weft_status wait_for_room(weft_publisher *publisher, u64 bytes, int timeout_ms, Error *err)
{
    weft_topic *topic = publisher->topic;
    const Patience patience = patience_of(timeout_ms);
    Spinning spinning = { 0 };
    bool has_waited = false;
    for (;;) {
        if (topic->is_closed || !publisher->is_open || atomic_load(topic->stop))
            return fail_ended(topic, err);
        drop_read(topic, false);
        if (has_room(topic, bytes))
            return WEFT_OK;
        const int time_ms = patience_left(&patience, slice_of(topic));
        if (time_ms == 0)
            return fail(err, WEFT_NOT_READY, NO_PLACE, "topic \"%s\" is full", topic->entry.name);
        if (spins_on(topic, &spinning)) {
            pthread_mutex_unlock(&topic->lock);
            pause_a_little();
            pthread_mutex_lock(&topic->lock);
            continue;
        }
        if (!has_waited)
            atomic_fetch_add(&topic->waits_for_room, 1);
        has_waited = true;
        topic->n_waiting_writers++;
        wait_for(&topic->can_write, &topic->lock, time_ms);
        topic->n_waiting_writers--;
    }
}

weft_status weft_publisher_publish(weft_publisher *publisher, const weft_frame *frame, int timeout_ms,
                                   weft_error *error)
{
    weft_topic *topic = publisher->topic;
    error_clear(error);
    if (frame->length > frame->capacity)
        return fail(error, WEFT_INVALID_PARAMETER, NO_PLACE, "frame of %llu bytes holds %llu",
                    (unsigned long long)frame->capacity, (unsigned long long)frame->length);
    owned_adopt(&publisher->owned);
    pthread_mutex_lock(&topic->lock);
    const weft_status status = wait_for_room(publisher, frame->length, timeout_ms, error);
    if (status == WEFT_OK) {
        frame_forget_taker(info_of(frame));
        append(topic, publisher, info_of(frame));
        wake_readers(topic);
    }
    pthread_mutex_unlock(&topic->lock);
    if (status == WEFT_OK)
        ring(topic);
    return status;
}

void weft_publisher_close(weft_publisher *publisher)
{
    if (!publisher)
        return;
    weft_topic *topic = publisher->topic;
    owned_release(&publisher->owned);
    frames_drop_taken(publisher);
    pthread_mutex_lock(&topic->lock);
    const bool was_open = publisher->is_open;
    if (was_open)
        leave_publishers(publisher);
    for (weft_publisher **p = &topic->publishers; *p; p = &(*p)->next)
        if (*p == publisher) {
            *p = publisher->next;
            break;
        }
    pthread_mutex_unlock(&topic->lock);
    if (was_open)
        reserve_remove(topic);
    free(publisher);
    ring(topic);
}

// ---- subscribing ----------------------------------------------------------------------------------------------------

static void leave_subscribers(weft_subscriber *subscriber)  // with the topic's lock
{
    weft_topic *topic = subscriber->topic;
    if (!subscriber->is_open)
        return;
    subscriber->is_open = subscriber->has_frame = false;
    topic->n_subscribers--;
    drop_read(topic, false);
    wake_writers(topic);
    wake_readers(topic);
}

static void abandon_subscriber(void *context)
{
    weft_subscriber *subscriber = context;
    weft_topic *topic = subscriber->topic;
    pthread_mutex_lock(&topic->lock);
    leave_subscribers(subscriber);
    pthread_mutex_unlock(&topic->lock);
    ring(topic);
}

weft_status topic_open_subscriber(weft_topic *topic, weft_side side, weft_start start, weft_subscriber **out,
                                  Error *err)
{
    *out = NULL;
    weft_subscriber *subscriber = aligned_alloc(64, (sizeof(weft_subscriber) + 63) / 64 * 64);
    if (!subscriber)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a subscriber");
    memset(subscriber, 0, sizeof(*subscriber));
    subscriber->topic = topic;
    subscriber->side = side;
    subscriber->is_open = true;
    subscriber->owned.abandon = abandon_subscriber;
    subscriber->owned.context = subscriber;
    pthread_mutex_lock(&topic->lock);
    drop_read(topic, false);                                // those that are open may not have tidied up yet
    subscriber->offset = start == WEFT_START_NEXT ? topic->published : topic->head;
    subscriber->done = subscriber->offset;
    if (subscriber->offset < topic->read_to) {              // these are unread again
        topic->read_to = topic->head;
        topic->bytes_read = 0;
    }
    subscriber->next = topic->subscribers;
    topic->subscribers = subscriber;
    topic->n_subscribers++;
    pthread_mutex_unlock(&topic->lock);
    *out = subscriber;
    return WEFT_OK;
}

weft_status weft_subscriber_open(weft_topic *topic, weft_start start, weft_subscriber **subscriber, weft_error *error)
{
    *subscriber = NULL;
    error_clear(error);
    TRY(topic_check_host(topic, error));
    TRY(topic_open_subscriber(topic, WEFT_SIDE_HOST, start, subscriber, error));
    owned_adopt(&(*subscriber)->owned);
    return WEFT_OK;
}

// Drops the frames that all subscribers have read, and wakes the threads that wait for this.
static void tidy(weft_subscriber *subscriber)
{
    weft_topic *topic = subscriber->topic;
    subscriber->n_untidied = 0;
    pthread_mutex_lock(&topic->lock);
    drop_read(topic, false);
    wake_writers_for_room(topic);
    pthread_mutex_unlock(&topic->lock);
    ring(topic);
}

// The publishers' side sees how far a subscriber is whenever it publishes.  So a subscriber need not take the topic's
// lock for every frame: it does where others wait, when it has read all there is, and after so many frames.
enum { UNTIDIED_MOST = 16 };

static bool has_waiters(const weft_topic *topic)
{
    for (int i = 0; i < COUNT_OF(topic->bells); i++) {
        const Bell *bell = atomic_load_explicit(&topic->bells[i], memory_order_acquire);
        if (bell && atomic_load(&bell->n_waiting) > 0)
            return true;
    }
    return atomic_load(&topic->n_waiting_writers) > 0 || heap_has_waiters(topic->heap);
}

static void read_one(weft_subscriber *subscriber)
{
    weft_topic *topic = subscriber->topic;
    const int most = topic->options.bytes_max > 0 ? 1 : MIN_OF(topic->options.frames_max / 4, UNTIDIED_MOST);
    subscriber->has_frame = false;
    link_release(topic->link, subscriber->side, &subscriber->done, ++subscriber->offset);
    if (++subscriber->n_untidied >= most || has_waiters(topic))
        tidy(subscriber);
}

void subscriber_read(weft_subscriber *subscriber)
{
    if (subscriber->has_frame)
        read_one(subscriber);
}

void weft_subscriber_release(weft_subscriber *subscriber)
{
    subscriber_read(subscriber);
    if (subscriber->n_untidied > 0)
        tidy(subscriber);
}

// Copies entries from OFFSET on, as many as are there and fit a page.  False: there is none.
static bool copy_page(weft_subscriber *subscriber, u64 offset)
{
    weft_topic *topic = subscriber->topic;
    const u64 tail = link_acquire(topic->link, subscriber->side, &topic->tail);
    if (tail <= offset)
        return false;
    const u64 slot = slot_of(topic, offset);
    u64 n = MIN_OF(tail - offset, (u64)INDEX_PAGE);
    n = MIN_OF(n, topic->entry.n_slots - slot);             // up to the end of the ring
    link_load(topic->link, subscriber->side, subscriber->page, &topic->index[slot], n * sizeof(IndexEntry));
    subscriber->page_first = offset;
    subscriber->page_n = n;
    atomic_fetch_add_explicit(&topic->copies, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&topic->entries_copied, (i64)n, memory_order_relaxed);
    return true;
}

static const IndexEntry *find_entry(weft_subscriber *subscriber, u64 offset)
{
    const u64 place = offset - subscriber->page_first;
    if (offset >= subscriber->page_first && place < subscriber->page_n)
        return &subscriber->page[place];
    return copy_page(subscriber, offset) ? subscriber->page : NULL;
}

static bool is_whole(const IndexEntry *entry, u64 offset)
{
    return entry->offset == offset && entry->check == random_bits(entry->offset, entry->frame);
}

static weft_status fail_damaged(const weft_topic *topic, u64 offset, Error *err)
{
    return fail(err, WEFT_DEVICE_FAILED, NO_PLACE, "index entry %llu of topic \"%s\" arrived damaged",
                (unsigned long long)offset, topic->entry.name);
}

// What the publisher wrote is in the cache of its core, or of none: it is on its way while the caller is at the frame
// before.
static void fetch_ahead(const weft_subscriber *subscriber, const IndexEntry *entry)
{
    if (entry + 1 >= subscriber->page + subscriber->page_n)
        return;
    __builtin_prefetch((const void *)(uintptr_t)entry[1].frame);
    __builtin_prefetch((const void *)(uintptr_t)entry[1].data);
}

static weft_status hand_out(weft_subscriber *subscriber, const IndexEntry *entry, const weft_frame **frame, u64 *offset,
                            Error *err)
{
    if (!is_whole(entry, subscriber->offset))
        return fail_damaged(subscriber->topic, subscriber->offset, err);
    fetch_ahead(subscriber, entry);
    subscriber->has_frame = true;
    *frame = &((const FrameInfo *)(uintptr_t)entry->frame)->frame;
    if (offset)
        *offset = entry->offset;
    return WEFT_OK;
}

static weft_status tell_end(weft_topic *topic, Error *err)
{
    pthread_mutex_lock(&topic->lock);
    const weft_status status = topic->has_died ? fail(err, WEFT_OPERATOR_FAILED, NO_PLACE, "%s", topic->error.message)
                                               : fail_ended(topic, err);
    pthread_mutex_unlock(&topic->lock);
    return status;
}

static void wait_for_frame(weft_subscriber *subscriber, int time_ms, bool is_first)
{
    weft_topic *topic = subscriber->topic;
    pthread_mutex_lock(&topic->lock);
    if (topic->link || (topic->published <= subscriber->offset && !topic->is_closed && subscriber->is_open &&
                        !atomic_load(topic->stop))) {
        if (is_first)
            atomic_fetch_add(&topic->waits_for_frames, 1);
        topic->n_waiting_readers++;
        wait_for(&topic->can_read, &topic->lock, time_ms);
        topic->n_waiting_readers--;
    }
    pthread_mutex_unlock(&topic->lock);
}

weft_status weft_subscriber_next(weft_subscriber *subscriber, int timeout_ms, const weft_frame **frame,
                                 uint64_t *offset, weft_error *error)
{
    weft_topic *topic = subscriber->topic;
    const Patience patience = patience_of(timeout_ms);
    *frame = NULL;
    error_clear(error);
    owned_adopt(&subscriber->owned);
    if (subscriber->has_frame)
        read_one(subscriber);
    Spinning spinning = { 0 };
    bool is_first = true;
    for (;;) {
        if (atomic_load(topic->stop))
            return fail_ended(topic, error);
        const IndexEntry *entry = find_entry(subscriber, subscriber->offset);
        if (entry)
            return hand_out(subscriber, entry, frame, offset, error);
        if (subscriber->n_untidied > 0)
            tidy(subscriber);
        if (link_acquire(topic->link, subscriber->side, &topic->end) <= subscriber->offset)
            return tell_end(topic, error);
        const int time_ms = patience_left(&patience, slice_of(topic));
        if (time_ms == 0)
            return fail(error, WEFT_NOT_READY, NO_PLACE, "topic \"%s\" has no frame yet", topic->entry.name);
        if (spins_on(topic, &spinning)) {
            pause_a_little();
            continue;
        }
        wait_for_frame(subscriber, time_ms, is_first);
        is_first = false;
    }
}

// ---- several frames at a time, for a device that computes them side by side --------------------------------------

weft_status subscriber_peek(weft_subscriber *subscriber, u64 offset, const IndexEntry **entry, Error *err)
{
    weft_topic *topic = subscriber->topic;
    *entry = NULL;
    const IndexEntry *found = find_entry(subscriber, offset);
    if (!found && link_acquire(topic->link, subscriber->side, &topic->end) > offset)
        return WEFT_NOT_READY;
    if (!found)
        return tell_end(topic, err);
    if (!is_whole(found, offset))
        return fail_damaged(topic, offset, err);
    *entry = found;
    return WEFT_OK;
}

void subscriber_done(weft_subscriber *subscriber, u64 offset)
{
    weft_topic *topic = subscriber->topic;
    subscriber->offset = offset;
    link_release(topic->link, subscriber->side, &subscriber->done, offset);
    tidy(subscriber);
}

FrameInfo *publisher_take_now(weft_publisher *publisher)
{
    FrameInfo *info = take_frame(publisher->topic, NULL);
    if (info)
        frame_note_taker(info, publisher);
    return info;
}

// How many of N, in order, the topic has room for; with its lock.
static int count_fitting(const weft_topic *topic, FrameInfo *const *infos, int n)
{
    const u64 bytes_max = (u64)topic->options.bytes_max;
    u64 n_unread = topic->published - topic->read_to, bytes = topic->bytes_kept - topic->bytes_read;
    int n_fit = 0;
    for (; n_fit < n && n_unread < (u64)topic->options.frames_max; n_fit++, n_unread++) {
        bytes += infos[n_fit]->frame.length;
        if (n_unread > 0 && bytes_max > 0 && bytes > bytes_max)
            break;
    }
    return n_fit;
}

weft_status publisher_publish_many(weft_publisher *publisher, FrameInfo *const *infos, int n, int *n_published,
                                   Error *err)
{
    weft_topic *topic = publisher->topic;
    *n_published = 0;
    if (publisher_is_over(publisher))
        return fail_ended(topic, err);
    pthread_mutex_lock(&topic->lock);
    if (!topic->is_closed) {
        drop_read(topic, false);
        *n_published = count_fitting(topic, infos, n);
        frames_forget_taker(publisher, infos, *n_published);
        for (int i = 0; i < *n_published; i++)
            append(topic, publisher, infos[i]);
        wake_readers(topic);
    }
    pthread_mutex_unlock(&topic->lock);
    if (*n_published > 0)
        ring(topic);
    return *n_published < n ? WEFT_NOT_READY : WEFT_OK;
}

void weft_subscriber_close(weft_subscriber *subscriber)
{
    if (!subscriber)
        return;
    weft_topic *topic = subscriber->topic;
    owned_release(&subscriber->owned);
    pthread_mutex_lock(&topic->lock);
    leave_subscribers(subscriber);
    for (weft_subscriber **s = &topic->subscribers; *s; s = &(*s)->next)
        if (*s == subscriber) {
            *s = subscriber->next;
            break;
        }
    pthread_mutex_unlock(&topic->lock);
    free(subscriber);
    ring(topic);
}

// ---- the topic ------------------------------------------------------------------------------------------------------

void weft_topic_close(weft_topic *topic)
{
    pthread_mutex_lock(&topic->lock);
    close_locked(topic);
    pthread_mutex_unlock(&topic->lock);
    ring(topic);
}

void topic_close_foreign(weft_topic *topic)
{
    bool has_operator = false;
    pthread_mutex_lock(&topic->lock);
    for (weft_publisher *p = topic->publishers; p; p = p->next)
        has_operator |= p->is_open && p->is_operator;
    if (!has_operator)
        close_locked(topic);
    pthread_mutex_unlock(&topic->lock);
    ring(topic);
}

void topic_wake(weft_topic *topic)
{
    pthread_mutex_lock(&topic->lock);
    pthread_cond_broadcast(&topic->can_read);
    pthread_cond_broadcast(&topic->can_write);
    pthread_mutex_unlock(&topic->lock);
    ring(topic);
}

static weft_status check_options(const weft_topic_options *options, Error *err)
{
    if (options->frame_bytes < 0 || options->frame_bytes > WEFT_FRAME_MOST)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "frame_bytes is %lld; at most %d are possible",
                    (long long)options->frame_bytes, WEFT_FRAME_MOST);
    if (options->frames_max < 0 || options->frames_max > 65536 || options->retain_frames < 0 ||
        options->retain_frames > 65536)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "frames_max and retain_frames are 65536 at most");
    if (options->bytes_max < 0 || options->retain_bytes < 0 || (unsigned)options->side >= WEFT_N_SIDES)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "bytes_max, retain_bytes or side is out of range");
    return WEFT_OK;
}

static void init_locks(weft_topic *topic)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&topic->can_read, &attributes);
    pthread_cond_init(&topic->can_write, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&topic->lock, NULL);
    pthread_mutex_init(&topic->books, NULL);
}

weft_status topic_init(weft_topic *topic, const char *name, const weft_topic_options *options, FrameHeap *heap,
                       const _Atomic u32 *stop, _Atomic(weft_topic *) *newest, Error *err)
{
    memset(topic, 0, sizeof(*topic));
    if (options)
        topic->options = *options;
    TRY(check_options(&topic->options, err));
    if (!name || !*name || strlen(name) >= TOPIC_NAME_BYTES)
        return fail(err, WEFT_INVALID_NAME, NO_PLACE, "the name of a topic has 1 to %d bytes", TOPIC_NAME_BYTES - 1);
    if (topic->options.frames_max == 0)
        topic->options.frames_max = 64;
    snprintf(topic->entry.name, sizeof(topic->entry.name), "%s", name);
    topic->entry.frame_bytes = WEFT_FRAME_LEAST;
    while (topic->entry.frame_bytes < (u64)(topic->options.frame_bytes ? topic->options.frame_bytes : 65536))
        topic->entry.frame_bytes *= 2;
    topic->entry.n_slots = 1;
    while (topic->entry.n_slots < (u64)topic->options.frames_max + (u64)topic->options.retain_frames)
        topic->entry.n_slots *= 2;
    topic->entry.side = topic->options.side;
    topic->entry.topic = topic;
    topic->index = aligned_alloc(64, topic->entry.n_slots * sizeof(IndexEntry));
    topic->kept = calloc(topic->entry.n_slots, sizeof(KeptFrame));
    if (!topic->index || !topic->kept) {
        free(topic->index);
        free(topic->kept);
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for topic \"%s\"", name);
    }
    memset(topic->index, 0, topic->entry.n_slots * sizeof(IndexEntry));
    topic->heap = heap;
    topic->stop = stop;
    topic->newest = newest;
    topic->end = UINT64_MAX;
    init_locks(topic);
    return WEFT_OK;
}

void topic_empty(weft_topic *topic)
{
    while (topic->subscribers)
        weft_subscriber_close(topic->subscribers);
    while (topic->publishers)
        weft_publisher_close(topic->publishers);
    topic->read_to = topic->published;
    topic->bytes_read = topic->bytes_kept;
    while (topic->head < topic->published)
        drop_oldest(topic);
}

void topic_destroy(weft_topic *topic)
{
    reserve_empty(topic);
    pthread_mutex_destroy(&topic->lock);
    pthread_mutex_destroy(&topic->books);
    pthread_cond_destroy(&topic->can_read);
    pthread_cond_destroy(&topic->can_write);
    free(topic->index);
    free(topic->kept);
}

weft_topic_counts weft_topic_count(weft_topic *topic)
{
    pthread_mutex_lock(&topic->lock);
    drop_read(topic, false);
    const weft_topic_counts counts = {
        .frames_published = topic->frames_published, .bytes_published = topic->bytes_published,
        .frames_kept = (i64)(topic->published - topic->head), .bytes_kept = (i64)topic->bytes_kept,
        .frames_unread = (i64)(topic->published - topic->read_to), .entries_copied = topic->entries_copied,
        .copies = topic->copies, .waits_for_room = topic->waits_for_room, .waits_for_frames = topic->waits_for_frames,
        .publishers = topic->n_publishers, .subscribers = topic->n_subscribers };
    pthread_mutex_unlock(&topic->lock);
    return counts;
}
