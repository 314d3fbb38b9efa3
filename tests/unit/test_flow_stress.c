// test_flow_stress.c - publishers and subscribers that die, slow consumers, full heaps, topics that close: all at once.
//
// Each run draws its threads from a seed.  Whatever happens, every thread returns, every frame that a healthy
// subscriber got is whole and in order, the healthy ones see all that was published from their start on, and no frame
// leaks.

#include "test.h"

#include <stdlib.h>

#include <sched.h>

#include "base/random.h"
#include "flow/flow_int.h"

// On threads, also where there is a GPU: tests/gpu/flow.c is about that.
__attribute__((constructor)) static void use_threads(void) { setenv("WEFT_DEVICE", "cpu", 1); }

enum { N_PUBLISHERS = 4, N_SUBSCRIBERS = 4, N_FRAMES = 150 };

typedef struct Shared {
    weft_flow          *flow;
    weft_topic         *topic;
    u64                 seed;
    _Atomic i64         n_published, n_bad;
    pthread_barrier_t   start;
} Shared;

typedef struct Actor {
    Shared         *shared;
    int             number;
    bool            is_doomed;         // ends its thread in the middle
    bool            is_slow;
    weft_publisher *publisher;         // opened before the start, by another thread
    i64             n_seen;
    u64             first, last;
    weft_status     end;
} Actor;

static void pause_now_and_then(const Actor *actor, u64 i)
{
    if (actor->is_slow && random_bits(actor->shared->seed + (u64)actor->number, i) % 8 == 0)
        usleep(200);
    else if (i % 16 == 0)
        sched_yield();
}

static bool publish_one(Actor *actor, u64 i)
{
    weft_frame *frame;
    weft_error err;
    if (weft_publisher_take(actor->publisher, WEFT_FOREVER, &frame, &err))
        return false;
    const u64 n_words = 2 + random_bits(actor->shared->seed, i) % 500;
    u64 *words = frame->data;
    words[0] = ((u64)actor->number << 32) + i;
    for (u64 w = 1; w < n_words; w++)
        words[w] = random_bits(words[0], w);
    frame->length = n_words * sizeof(u64);
    frame->tag = words[0];
    if (weft_publisher_publish(actor->publisher, frame, WEFT_FOREVER, &err)) {
        weft_frame_drop(frame);
        return false;
    }
    atomic_fetch_add(&actor->shared->n_published, 1);
    return true;
}

static void *publisher_body(void *context)
{
    Actor *actor = context;
    weft_frame *in_hand;
    weft_error err;
    pthread_barrier_wait(&actor->shared->start);
    for (u64 i = 0; i < N_FRAMES && publish_one(actor, i); i++) {
        pause_now_and_then(actor, i);
        if (actor->is_doomed && i == N_FRAMES / 3) {
            weft_publisher_take(actor->publisher, 1, &in_hand, &err);
            pthread_exit(NULL);
        }
    }
    weft_publisher_close(actor->publisher);
    return NULL;
}

static bool is_whole(const weft_frame *frame, u64 *last_of)
{
    const u64 *words = frame->data, n_words = frame->length / sizeof(u64);
    bool is = words[0] == frame->tag;
    for (u64 w = 1; w < n_words; w++)
        is &= words[w] == random_bits(words[0], w);
    const u64 publisher = words[0] >> 32, i = words[0] & 0xffffffff;
    is &= publisher < N_PUBLISHERS && (last_of[publisher] == UINT64_MAX || i == last_of[publisher] + 1);
    last_of[publisher % N_PUBLISHERS] = i;                  // of one publisher they come in its order
    return is;
}

static void *subscriber_body(void *context)
{
    Actor *actor = context;
    weft_subscriber *subscriber;
    weft_error err;
    u64 offset, last_of[N_PUBLISHERS];
    memset(last_of, 0xff, sizeof(last_of));
    weft_subscriber_open(actor->shared->topic, WEFT_START_OLDEST, &subscriber, &err);
    pthread_barrier_wait(&actor->shared->start);
    for (const weft_frame *frame;;) {
        actor->end = weft_subscriber_next(subscriber, WEFT_FOREVER, &frame, &offset, &err);
        if (actor->end)
            break;
        if (!is_whole(frame, last_of) || (actor->n_seen > 0 && offset != actor->last + 1))
            atomic_fetch_add(&actor->shared->n_bad, 1);
        if (actor->n_seen++ == 0)
            actor->first = offset;
        actor->last = offset;
        pause_now_and_then(actor, offset);
        if (actor->is_doomed && actor->n_seen == 20)
            pthread_exit(NULL);                             // with a frame in its hands
    }
    weft_subscriber_close(subscriber);
    return NULL;
}

static void run_one(u64 seed)
{
    Shared shared = { .seed = seed };
    Actor publishers[N_PUBLISHERS] = { 0 }, subscribers[N_SUBSCRIBERS] = { 0 };
    pthread_t threads[N_PUBLISHERS + N_SUBSCRIBERS];
    weft_error err;
    const weft_flow_options options = { .memory = { { .bytes_max = (N_PUBLISHERS + (i64)(seed % 12)) * 4096 },
                                                    { .is_private = true } } };
    const weft_topic_options topic = { .frame_bytes = 4096, .frames_max = 1 + (int)(seed * 7 % 40),
                                       .bytes_max = seed % 3 ? 0 : 20000, .retain_frames = (int)(seed % 4) };
    CHECK_OK(weft_flow_new(&options, &shared.flow, &err), err);
    CHECK_OK(weft_topic_new(shared.flow, "t", &topic, &shared.topic, &err), err);
    pthread_barrier_init(&shared.start, NULL, N_PUBLISHERS + N_SUBSCRIBERS);
    bool has_death = false;
    for (int i = 0; i < N_PUBLISHERS; i++) {
        const u64 random = random_bits(seed, (u64)i + 1000);
        publishers[i] = (Actor){ &shared, i, .is_doomed = random % 3 == 0, .is_slow = random % 5 == 0 };
        CHECK_OK(weft_publisher_open(shared.topic, &publishers[i].publisher, &err), err);
        has_death |= publishers[i].is_doomed;
    }
    for (int i = 0; i < N_SUBSCRIBERS; i++) {
        const u64 random = random_bits(seed, (u64)i + 2000);
        subscribers[i] = (Actor){ &shared, 100 + i, .is_doomed = i > 0 && random % 3 == 0, .is_slow = random % 4 == 0 };
    }
    for (int i = 0; i < N_PUBLISHERS; i++)
        CHECK_INT(thread_start(&threads[i], NULL, publisher_body, &publishers[i]), 0);
    for (int i = 0; i < N_SUBSCRIBERS; i++)
        CHECK_INT(thread_start(&threads[N_PUBLISHERS + i], NULL, subscriber_body, &subscribers[i]), 0);
    for (int i = 0; i < N_PUBLISHERS + N_SUBSCRIBERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(shared.n_bad, 0);
    for (int i = 0; i < N_SUBSCRIBERS; i++)
        if (!subscribers[i].is_doomed) {
            CHECK_INT(subscribers[i].n_seen, shared.n_published);
            CHECK_INT(subscribers[i].end, has_death ? WEFT_OPERATOR_FAILED : WEFT_END_OF_STREAM);
        }
    const weft_topic_counts counts = weft_topic_count(shared.topic);
    CHECK_INT(counts.publishers + counts.subscribers, 0);
    CHECK_INT(weft_flow_heap_counts(shared.flow, WEFT_SIDE_HOST).frames_used, counts.frames_kept);
    weft_flow_free(shared.flow);
    pthread_barrier_destroy(&shared.start);
}

TEST(flow_stress_deaths_slow_readers_and_full_heaps)
{
    for (u64 seed = 0; seed < 16; seed++)
        run_one(seed);
}

// ---- handles opened and closed all the time, and a topic that is closed under everyone's hands ----------------------

static void *come_and_go(void *context)
{
    Shared *shared = context;
    const weft_frame *frame;
    weft_error err;
    for (u64 i = 0;; i++) {
        weft_subscriber *subscriber;
        if (weft_subscriber_open(shared->topic, (weft_start)(i % 2), &subscriber, &err))
            return NULL;
        weft_status status = WEFT_OK;
        for (u64 k = 0; k < i % 5 && status == WEFT_OK; k++)
            status = weft_subscriber_next(subscriber, 5, &frame, NULL, &err);
        weft_subscriber_close(subscriber);
        if (status == WEFT_END_OF_STREAM)
            return NULL;
        if (status == WEFT_OK)
            atomic_fetch_add(&shared->n_published, 1);
    }
}

static void *publish_in_turns(void *context)
{
    Shared *shared = context;
    weft_error err;
    for (;;) {
        weft_publisher *publisher;
        if (weft_publisher_open(shared->topic, &publisher, &err))
            return NULL;                                    // END_OF_STREAM, or no memory for one more
        Actor actor = { .shared = shared, .publisher = publisher };
        for (u64 i = 0; i < 10; i++)
            if (!publish_one(&actor, i)) {
                weft_publisher_close(publisher);
                return NULL;
            }
        weft_publisher_close(publisher);
    }
}

TEST(flow_stress_a_topic_closes_under_everyones_hands)
{
    for (int round = 0; round < 10; round++) {
        Shared shared = { .seed = (u64)round };
        pthread_t threads[6];
        weft_error err;
        weft_publisher *keeps_it_open;
        const weft_flow_options options = { .memory = { { .bytes_max = 12 * 4096 }, { .is_private = true } } };
        const weft_topic_options topic = { .frame_bytes = 4096, .frames_max = 4, .retain_frames = 2 };
        CHECK_OK(weft_flow_new(&options, &shared.flow, &err), err);
        CHECK_OK(weft_topic_new(shared.flow, "t", &topic, &shared.topic, &err), err);
        CHECK_OK(weft_publisher_open(shared.topic, &keeps_it_open, &err), err);
        for (int i = 0; i < 6; i++)
            CHECK_INT(thread_start(&threads[i], NULL, i < 3 ? publish_in_turns : come_and_go, &shared), 0);
        usleep(20000);
        if (round % 2)
            weft_topic_close(shared.topic);
        else
            weft_flow_stop(shared.flow, WEFT_STOP_NOW);
        for (int i = 0; i < 6; i++)
            pthread_join(threads[i], NULL);
        weft_publisher_close(keeps_it_open);
        CHECK_INT(weft_flow_heap_counts(shared.flow, WEFT_SIDE_HOST).frames_used,
                  weft_topic_count(shared.topic).frames_kept);
        weft_flow_free(shared.flow);
    }
}
