// test_flow_topic.c - topics: offsets, back-pressure, retention, end of stream, threads that die, and memory order over
// a link that delays and reorders.

#include "test.h"

#include <stdlib.h>

#include "base/random.h"
#include "flow/flow_int.h"

static weft_error err;

// On threads, also where there is a GPU: tests/gpu/flow.c is about that.
__attribute__((constructor)) static void use_threads(void) { setenv("WEFT_DEVICE", "cpu", 1); }

static weft_flow *new_flow(i64 bytes_max)
{
    weft_flow *flow;
    const weft_flow_options options = { .memory = { { .bytes_max = bytes_max }, { .is_private = true } } };
    CHECK_OK(weft_flow_new(&options, &flow, &err), err);
    return flow;
}

static weft_topic *new_topic(weft_flow *flow, const char *name, weft_topic_options options)
{
    weft_topic *topic;
    options.frame_bytes = 4096;
    CHECK_OK(weft_topic_new(flow, name, &options, &topic, &err), err);
    return topic;
}

static weft_publisher *open_publisher(weft_topic *topic)
{
    weft_publisher *publisher;
    CHECK_OK(weft_publisher_open(topic, &publisher, &err), err);
    return publisher;
}

static weft_subscriber *open_subscriber(weft_topic *topic, weft_start start)
{
    weft_subscriber *subscriber;
    CHECK_OK(weft_subscriber_open(topic, start, &subscriber, &err), err);
    return subscriber;
}

static weft_status try_publish(weft_publisher *publisher, int value, int timeout_ms)
{
    weft_frame *frame;
    const weft_status taken = weft_publisher_take(publisher, timeout_ms, &frame, &err);
    if (taken)
        return taken;
    *(int *)frame->data = value;
    frame->length = sizeof(int);
    const weft_status status = weft_publisher_publish(publisher, frame, timeout_ms, &err);
    if (status)
        weft_frame_drop(frame);
    return status;
}

static void publish(weft_publisher *publisher, int value)
{
    CHECK_OK(try_publish(publisher, value, 0), err);
}

static int next_value(weft_subscriber *subscriber, u64 expected_offset)
{
    const weft_frame *frame;
    u64 offset;
    CHECK_OK(weft_subscriber_next(subscriber, 0, &frame, &offset, &err), err);
    CHECK_INT((i64)offset, (i64)expected_offset);
    CHECK_INT((i64)frame->length, sizeof(int));
    return *(const int *)frame->data;
}

static weft_status next_status(weft_subscriber *subscriber)
{
    const weft_frame *frame;
    return weft_subscriber_next(subscriber, 0, &frame, NULL, &err);
}

// ---- one after the other --------------------------------------------------------------------------------------------

TEST(topic_subscribers_have_their_own_offsets)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 });
    weft_publisher *publisher = open_publisher(topic);
    weft_subscriber *a = open_subscriber(topic, WEFT_START_OLDEST), *b = open_subscriber(topic, WEFT_START_OLDEST);
    CHECK_STATUS(next_status(a), WEFT_NOT_READY);
    for (int i = 0; i < 5; i++)
        publish(publisher, 100 + i);
    CHECK_INT(next_value(a, 0), 100);
    CHECK_INT(next_value(a, 1), 101);
    CHECK_INT(next_value(b, 0), 100);
    weft_subscriber *c = open_subscriber(topic, WEFT_START_NEXT);
    publish(publisher, 105);
    CHECK_INT(next_value(c, 5), 105);
    CHECK_INT(weft_topic_count(topic).frames_kept, 6);      // b is at the first
    for (u64 i = 1; i < 6; i++)
        CHECK_INT(next_value(b, i), 100 + (int)i);
    CHECK_INT(weft_topic_count(topic).frames_kept, 5);      // a is at the second
    weft_subscriber_close(a);
    weft_subscriber_close(b);
    weft_subscriber_release(c);
    CHECK_INT(weft_topic_count(topic).frames_kept, 0);
    weft_publisher_close(publisher);
    CHECK_STATUS(next_status(c), WEFT_END_OF_STREAM);
    weft_flow_free(flow);
}

TEST(topic_oldest_frame_is_the_first_that_is_not_read)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ .frames_max = 64 });
    weft_publisher *publisher = open_publisher(topic);
    weft_subscriber *a = open_subscriber(topic, WEFT_START_OLDEST);
    for (int i = 0; i < 6; i++)
        publish(publisher, i);
    for (u64 i = 0; i < 6; i++)
        CHECK_INT(next_value(a, i), (int)i);
    weft_subscriber *b = open_subscriber(topic, WEFT_START_OLDEST);
    CHECK_INT(next_value(b, 5), 5);                         // a holds it
    weft_subscriber_release(a);
    weft_subscriber_release(b);
    CHECK_INT(weft_topic_count(topic).frames_kept, 0);
    weft_flow_free(flow);
}

TEST(topic_index_is_copied_a_page_at_a_time)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ .frames_max = 256 });
    weft_publisher *publisher = open_publisher(topic);
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    for (int i = 0; i < 200; i++)
        publish(publisher, i);
    for (u64 i = 0; i < 200; i++)
        CHECK_INT(next_value(subscriber, i), (int)i);
    const weft_topic_counts counts = weft_topic_count(topic);
    CHECK_INT(counts.entries_copied, 200);
    CHECK_INT(counts.copies, 4);                            // 64 + 64 + 64 + 8
    weft_flow_free(flow);
}

TEST(topic_full_by_count_or_bytes_makes_publishers_wait)
{
    weft_flow *flow = new_flow(0);
    weft_topic *frames = new_topic(flow, "frames", (weft_topic_options){ .frames_max = 3 });
    weft_topic *bytes = new_topic(flow, "bytes", (weft_topic_options){ .bytes_max = 10 });
    weft_topic *one = new_topic(flow, "one", (weft_topic_options){ .bytes_max = 1 });
    weft_topic *topics[] = { frames, bytes, one };
    const int room[] = { 3, 2, 1 };                         // 10 bytes are two frames of 4; one frame always fits
    for (int t = 0; t < 3; t++) {
        weft_publisher *publisher = open_publisher(topics[t]);
        weft_subscriber *subscriber = open_subscriber(topics[t], WEFT_START_OLDEST);
        for (int i = 0; i < room[t]; i++)
            publish(publisher, i);
        CHECK_STATUS(try_publish(publisher, 99, 0), WEFT_NOT_READY);
        CHECK_STATUS(try_publish(publisher, 99, 5), WEFT_NOT_READY);
        CHECK_HAS(err.message, "is full");
        CHECK_INT(next_value(subscriber, 0), 0);
        CHECK_STATUS(try_publish(publisher, 99, 0), WEFT_NOT_READY);        // it is still being read
        weft_subscriber_release(subscriber);
        publish(publisher, 50);
        CHECK_INT(weft_topic_count(topics[t]).waits_for_room, 1);
    }
    weft_flow_free(flow);
}

TEST(topic_retains_by_count_and_bytes)
{
    weft_flow *flow = new_flow(0);
    weft_topic *by_count = new_topic(flow, "a", (weft_topic_options){ .retain_frames = 3 });
    weft_topic *by_bytes = new_topic(flow, "b", (weft_topic_options){ .retain_frames = 100, .retain_bytes = 9 });
    weft_publisher *a = open_publisher(by_count), *b = open_publisher(by_bytes);
    for (int i = 0; i < 10; i++) {
        publish(a, i);
        publish(b, i);
    }
    CHECK_INT(weft_topic_count(by_count).frames_kept, 3);
    CHECK_INT(weft_topic_count(by_bytes).frames_kept, 2);
    weft_subscriber *late = open_subscriber(by_count, WEFT_START_OLDEST);
    CHECK_INT(next_value(late, 7), 7);
    publish(a, 10);
    publish(a, 11);
    CHECK_INT(weft_topic_count(by_count).frames_kept, 5);   // the late one holds them
    CHECK_INT(next_value(late, 8), 8);
    CHECK_INT(weft_topic_count(by_count).frames_unread, 4);
    weft_subscriber_close(late);
    CHECK_INT(weft_topic_count(by_count).frames_kept, 3);
    weft_flow_free(flow);
}

TEST(topic_retention_makes_way_when_memory_is_short)
{
    weft_flow *flow = new_flow(64 << 10);                   // 16 frames
    weft_topic *old = new_topic(flow, "old", (weft_topic_options){ .retain_frames = 100 });
    weft_topic *busy = new_topic(flow, "busy", (weft_topic_options){ 0 });
    weft_publisher *a = open_publisher(old), *b = open_publisher(busy);
    for (int i = 0; i < 12; i++)
        publish(a, i);
    CHECK_INT(weft_topic_count(old).frames_kept, 12);
    weft_subscriber *subscriber = open_subscriber(busy, WEFT_START_OLDEST);
    for (int i = 0; i < 14; i++)
        publish(b, i);
    CHECK_INT(weft_topic_count(old).frames_kept, 0);
    CHECK_INT(next_value(subscriber, 0), 0);
    weft_flow_free(flow);
}

TEST(topic_reserve_gives_each_publisher_a_frame_in_a_full_heap)
{
    weft_flow *flow = new_flow(16 << 10);                   // 4 frames
    weft_topic *first = new_topic(flow, "first", (weft_topic_options){ 0 });
    weft_topic *second = new_topic(flow, "second", (weft_topic_options){ 0 });
    weft_subscriber *reader = open_subscriber(first, WEFT_START_OLDEST);
    weft_subscriber *behind = open_subscriber(second, WEFT_START_OLDEST);
    weft_publisher *a = open_publisher(first), *b = open_publisher(second);
    int n = 0;
    while (try_publish(a, n, 0) == WEFT_OK)
        n++;
    CHECK_STATUS(err.status, WEFT_OUT_OF_MEMORY);
    CHECK_INT(n, 3);
    for (int round = 0; round < 10; round++) {              // the second topic goes on with its own frame
        publish(b, round);
        CHECK_STATUS(try_publish(b, round, 0), WEFT_OUT_OF_MEMORY);
        CHECK_INT(next_value(behind, (u64)round), round);
        weft_subscriber_release(behind);
    }
    CHECK_INT(next_value(reader, 0), 0);
    weft_publisher_close(b);                                // gives its frame back to all
    CHECK_STATUS(try_publish(a, 7, 0), WEFT_OK);
    weft_flow_free(flow);
}

TEST(topic_ends_when_its_last_publisher_closes)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 });
    weft_publisher *a = open_publisher(topic), *b = open_publisher(topic), *late;
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    publish(a, 1);
    weft_publisher_close(a);
    publish(b, 2);
    weft_publisher_close(b);
    CHECK_INT(next_value(subscriber, 0), 1);
    CHECK_INT(next_value(subscriber, 1), 2);
    CHECK_STATUS(next_status(subscriber), WEFT_END_OF_STREAM);
    CHECK_STATUS(next_status(subscriber), WEFT_END_OF_STREAM);
    CHECK_STR(err.sqlstate, "02000");
    CHECK_STATUS(weft_publisher_open(topic, &late, &err), WEFT_END_OF_STREAM);
    CHECK(!late);
    weft_flow_free(flow);
}

TEST(topic_closed_with_frames_in_flight_loses_none)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 });
    weft_publisher *publisher = open_publisher(topic);
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    const weft_frame *in_hand;
    weft_frame *taken;
    publish(publisher, 1);
    publish(publisher, 2);
    CHECK_OK(weft_subscriber_next(subscriber, 0, &in_hand, NULL, &err), err);
    CHECK_OK(weft_publisher_take(publisher, 0, &taken, &err), err);
    weft_frame_hold(in_hand);
    weft_topic_close(topic);
    CHECK_STATUS(weft_publisher_publish(publisher, taken, 0, &err), WEFT_END_OF_STREAM);
    weft_publisher_close(publisher);                        // drops the frame that was taken
    CHECK_INT(next_value(subscriber, 1), 2);
    CHECK_INT(*(const int *)in_hand->data, 1);              // held beyond the topic's own
    CHECK_STATUS(next_status(subscriber), WEFT_END_OF_STREAM);
    CHECK_INT(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used, 1);
    weft_frame_drop(in_hand);
    CHECK_INT(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used, 0);
    weft_flow_free(flow);
}

TEST(topic_a_held_frame_goes_on_to_another_topic_without_a_copy)
{
    weft_flow *flow = new_flow(0);
    weft_topic *from = new_topic(flow, "from", (weft_topic_options){ 0 });
    weft_topic *to = new_topic(flow, "to", (weft_topic_options){ 0 });
    weft_publisher *publisher = open_publisher(from), *forward = open_publisher(to);
    weft_subscriber *reader = open_subscriber(from, WEFT_START_OLDEST), *last = open_subscriber(to, WEFT_START_OLDEST);
    const weft_frame *frame, *again;
    publish(publisher, 42);
    CHECK_OK(weft_subscriber_next(reader, 0, &frame, NULL, &err), err);
    weft_frame_hold(frame);
    CHECK_OK(weft_publisher_publish(forward, frame, 0, &err), err);
    weft_subscriber_release(reader);
    CHECK_OK(weft_subscriber_next(last, 0, &again, NULL, &err), err);
    CHECK(again->data == frame->data);
    CHECK_INT(*(const int *)again->data, 42);
    weft_flow_free(flow);                                   // topics that share a frame, in any order
}

TEST(topic_names_and_options_are_checked)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 }), *none;
    CHECK_STATUS(weft_topic_new(flow, "t", NULL, &none, &err), WEFT_DUPLICATE_OBJECT);
    CHECK_STATUS(weft_topic_new(flow, "", NULL, &none, &err), WEFT_INVALID_NAME);
    CHECK_STATUS(weft_topic_new(flow, "x", &(weft_topic_options){ .frame_bytes = 32 << 20 }, &none, &err),
                 WEFT_INVALID_PARAMETER);
    CHECK_STATUS(weft_topic_new(flow, "x", &(weft_topic_options){ .frames_max = -1 }, &none, &err),
                 WEFT_INVALID_PARAMETER);
    CHECK(weft_topic_find(flow, WEFT_SIDE_HOST, "t") == topic);
    CHECK(weft_topic_find(flow, WEFT_SIDE_DEVICE, "t") == topic);
    CHECK(!weft_topic_find(flow, WEFT_SIDE_HOST, "u"));
    weft_publisher *publisher = open_publisher(topic);
    weft_frame *frame;
    CHECK_OK(weft_publisher_take(publisher, 0, &frame, &err), err);
    frame->length = 5000;
    CHECK_STATUS(weft_publisher_publish(publisher, frame, 0, &err), WEFT_INVALID_PARAMETER);
    char name[16];
    for (int i = 1; i < TOPICS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        new_topic(flow, name, (weft_topic_options){ .frames_max = 1 });
    }
    CHECK_STATUS(weft_topic_new(flow, "one too many", NULL, &none, &err), WEFT_TOO_LONG);
    weft_flow_free(flow);
}

// ---- threads that end without closing -------------------------------------------------------------------------------

static void *publish_and_die(void *context)
{
    weft_publisher *publisher;
    weft_frame *never;
    weft_error e;
    weft_publisher_open(context, &publisher, &e);
    weft_frame *frame;
    weft_publisher_take(publisher, WEFT_FOREVER, &frame, &e);
    *(int *)frame->data = 77;
    frame->length = sizeof(int);
    weft_publisher_publish(publisher, frame, WEFT_FOREVER, &e);
    weft_publisher_take(publisher, WEFT_FOREVER, &never, &e);       // and has one in its hands
    pthread_exit(NULL);
}

TEST(topic_a_publisher_that_dies_ends_the_stream_with_an_error)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 });
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    pthread_t thread;
    const weft_frame *frame;
    CHECK_INT(pthread_create(&thread, NULL, publish_and_die, topic), 0);
    CHECK_OK(weft_subscriber_next(subscriber, WEFT_FOREVER, &frame, NULL, &err), err);
    CHECK_INT(*(const int *)frame->data, 77);               // what it published is there
    CHECK_STATUS(weft_subscriber_next(subscriber, WEFT_FOREVER, &frame, NULL, &err), WEFT_OPERATOR_FAILED);
    CHECK_HAS(err.message, "without closing");
    pthread_join(thread, NULL);
    CHECK_INT(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used, 0);
    weft_flow_free(flow);
}

// ASan does not see that the thread's stack is left here.
__attribute__((no_sanitize("address"))) static void *wait_until_cancelled(void *context)
{
    const weft_frame *frame;
    weft_subscriber *subscriber;
    weft_error e;
    weft_subscriber_open(context, WEFT_START_OLDEST, &subscriber, &e);
    weft_subscriber_next(subscriber, WEFT_FOREVER, &frame, NULL, &e);
    for (;;)
        pthread_testcancel();                               // has a frame, never lets go of it
    return NULL;
}

TEST(topic_a_subscriber_that_dies_holds_nobody_up)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ .frames_max = 2 });
    weft_publisher *publisher = open_publisher(topic);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, wait_until_cancelled, topic), 0);
    while (weft_topic_count(topic).subscribers == 0)
        usleep(100);
    publish(publisher, 1);
    publish(publisher, 2);
    CHECK_STATUS(try_publish(publisher, 3, 0), WEFT_NOT_READY);
    pthread_cancel(thread);
    CHECK_OK(try_publish(publisher, 3, WEFT_FOREVER), err);         // waits until it is gone
    pthread_join(thread, NULL);
    CHECK_INT(weft_topic_count(topic).subscribers, 0);
    weft_flow_free(flow);
}

static void *close_elsewhere(void *context)
{
    weft_error e;
    weft_frame *frame;
    weft_publisher_take(context, 0, &frame, &e);            // owns it now
    frame->length = 4;
    weft_publisher_publish(context, frame, 0, &e);
    weft_publisher_close(context);
    return NULL;
}

TEST(topic_a_handle_may_be_closed_by_another_thread)
{
    weft_flow *flow = new_flow(0);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ 0 });
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    weft_publisher *publisher = open_publisher(topic);
    pthread_t thread;
    pthread_create(&thread, NULL, close_elsewhere, publisher);
    pthread_join(thread, NULL);
    const weft_frame *frame;
    CHECK_OK(weft_subscriber_next(subscriber, 0, &frame, NULL, &err), err);
    CHECK_STATUS(next_status(subscriber), WEFT_END_OF_STREAM);
    weft_flow_free(flow);
}

// ---- memory order: a link that delays and reorders ------------------------------------------------------------------

enum { FRAME_WORDS = 64, N_SIM_FRAMES = 60 };

typedef struct SimRun { int n_torn, n_out_of_order, n_read; } SimRun;

static u64 sim_word(u64 seed, int frame, int word) { return random_bits(seed, (u64)frame * FRAME_WORDS + (u64)word); }

static void sim_write(LinkSim *sim, weft_publisher *publisher, u64 seed, int number)
{
    weft_frame *frame;
    if (weft_publisher_take(publisher, 0, &frame, &err))
        return;
    frame->length = FRAME_WORDS * sizeof(u64);
    for (int i = 0; i < FRAME_WORDS; i++) {
        const u64 word = sim_word(seed, number, i);
        link_store(link_sim_link(sim), WEFT_SIDE_DEVICE, (u64 *)frame->data + i, &word, sizeof(word));
    }
    CHECK_OK(weft_publisher_publish(publisher, frame, 0, &err), err);
}

static void sim_read(LinkSim *sim, weft_subscriber *subscriber, u64 seed, SimRun *run)
{
    const weft_frame *frame;
    u64 offset, words[FRAME_WORDS];
    const weft_status status = weft_subscriber_next(subscriber, 0, &frame, &offset, &err);
    if (status == WEFT_NOT_READY)
        return;
    if (status == WEFT_DEVICE_FAILED) {                     // a torn entry was noticed
        run->n_torn++;
        run->n_read++;
        subscriber->offset++;
        return;
    }
    CHECK_OK(status, err);
    run->n_out_of_order += offset != (u64)run->n_read;
    link_load(link_sim_link(sim), WEFT_SIDE_HOST, words, frame->data, sizeof(words));
    bool is_torn = false;
    for (int i = 0; i < FRAME_WORDS; i++)
        is_torn |= words[i] != sim_word(seed, run->n_read, i);
    run->n_torn += is_torn;
    run->n_read++;
}

// A publisher on one side and a subscriber on the other take steps at random.  RETAIN keeps all frames, so that a link
// that breaks the rules does not write to freed ones.
static SimRun run_sim(LinkSimOptions options, bool retain)
{
    weft_flow *flow = new_flow(0);
    LinkSim *sim = link_sim_new(&options);
    weft_topic *topic = new_topic(flow, "t", (weft_topic_options){ .frames_max = retain ? N_SIM_FRAMES : 5,
                                                                   .retain_frames = retain ? N_SIM_FRAMES : 0,
                                                                   .side = WEFT_SIDE_DEVICE });
    topic->link = link_sim_link(sim);
    weft_subscriber *subscriber = open_subscriber(topic, WEFT_START_OLDEST);
    weft_publisher *publisher = open_publisher(topic);
    SimRun run = { 0 };
    int n_written = 0;
    for (u64 i = 0; run.n_read < N_SIM_FRAMES && i < 1000000; i++) {
        switch (random_bits(options.seed + 1, i) % 3) {
        case 0:
            if (n_written < N_SIM_FRAMES && topic_has_room(topic, FRAME_WORDS * sizeof(u64)))
                sim_write(sim, publisher, options.seed, n_written++);
            break;
        case 1: sim_read(sim, subscriber, options.seed, &run); break;
        default: link_sim_step(sim); break;
        }
    }
    weft_publisher_close(publisher);
    while (!link_sim_is_idle(sim))
        link_sim_step(sim);
    weft_flow_free(flow);
    link_sim_free(sim);
    return run;
}

TEST(link_every_frame_arrives_whole_and_in_order_over_a_link_that_reorders)
{
    for (u64 seed = 0; seed < 60; seed++) {
        const SimRun run = run_sim((LinkSimOptions){ .seed = seed, .delay_most = 1 + (int)(seed * 7 % 200),
                                                     .stale_percent = (int)(seed * 13 % 100) }, seed % 2);
        CHECK_INT(run.n_read, N_SIM_FRAMES);
        CHECK_INT(run.n_torn, 0);
        CHECK_INT(run.n_out_of_order, 0);
    }
}

TEST(link_without_release_or_acquire_is_noticed)            // so the test above can fail
{
    int n_torn_release = 0, n_torn_acquire = 0;
    for (u64 seed = 0; seed < 5; seed++) {
        const LinkSimOptions no_release = { .seed = seed, .delay_most = 100, .ignores_release = true };
        const LinkSimOptions no_acquire = { .seed = seed, .delay_most = 20, .stale_percent = 50,
                                            .ignores_acquire = true };
        n_torn_release += run_sim(no_release, true).n_torn;
        n_torn_acquire += run_sim(no_acquire, true).n_torn;
    }
    CHECK(n_torn_release > 0);
    CHECK(n_torn_acquire > 0);
}

TEST(link_catalog_replicas_are_whole_at_any_time)
{
    for (u64 seed = 0; seed < 20; seed++) {
        LinkSim *sim = link_sim_new(&(LinkSimOptions){ .seed = seed, .delay_most = 50, .stale_percent = 60 });
        Catalog *catalog = aligned_alloc(64, (sizeof(Catalog) + 63) / 64 * 64);
        memset(catalog, 0, sizeof(*catalog));
        catalog->link = link_sim_link(sim);
        u64 n_added = 0;
        for (u64 i = 0; i < 400; i++) {
            CatalogEntry entry = { .number = n_added, .frame_bytes = n_added * 3 };
            snprintf(entry.name, sizeof(entry.name), "topic %llu", (unsigned long long)n_added);
            if (random_bits(seed, i) % 4 == 0 && n_added < 50) {
                CHECK(catalog_add(catalog, WEFT_SIDE_HOST, &entry));
                n_added++;
            }
            u64 n_seen = 0;
            for (; catalog_get(catalog, WEFT_SIDE_DEVICE, n_seen, &entry); n_seen++) {
                char name[TOPIC_NAME_BYTES];
                snprintf(name, sizeof(name), "topic %llu", (unsigned long long)n_seen);
                CHECK_STR(entry.name, name);
                CHECK_INT((i64)entry.frame_bytes, (i64)n_seen * 3);
            }
            CHECK(n_seen <= n_added);
        }
        CatalogEntry found;
        while (!link_sim_is_idle(sim))
            link_sim_step(sim);
        CHECK(catalog_find(catalog, WEFT_SIDE_DEVICE, "topic 7", &found));
        CHECK_INT((i64)found.number, 7);
        free(catalog);
        link_sim_free(sim);
    }
}
