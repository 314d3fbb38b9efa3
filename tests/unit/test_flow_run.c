// test_flow_run.c - operators: rounds, workers, tile C, entering and leaving, errors, the watchdog, stopping.

#include "test.h"

#include <stdlib.h>

#include "base/random.h"
#include "flow/run_int.h"

static weft_error err;

// On threads, also where there is a GPU: tests/gpu/flow.c is about that.
__attribute__((constructor)) static void use_threads(void) { setenv("WEFT_DEVICE", "cpu", 1); }

enum { ITEMS = 1024 };                 // of a frame of 4 KB

static weft_flow *new_flow(weft_flow_options options)
{
    weft_flow *flow;
    CHECK_OK(weft_flow_new(&options, &flow, &err), err);
    return flow;
}

static weft_topic *new_topic(weft_flow *flow, const char *name)
{
    weft_topic *topic;
    const weft_topic_options options = { .frame_bytes = 4096, .frames_max = 8 };
    CHECK_OK(weft_topic_new(flow, name, &options, &topic, &err), err);
    return topic;
}

static weft_operator *link_operator(weft_flow *flow, weft_topic *from, weft_operator_options options, weft_topic *to)
{
    weft_operator *op;
    CHECK_OK(weft_flow_link(flow, from, &options, to, &op, &err), err);
    return op;
}

// ---- operators of the tests -----------------------------------------------------------------------------------------

typedef struct Source { i64 n_frames; _Atomic i64 n_made; } Source;         // 0: endless

static void make_frames(weft_round *round)
{
    Source *source = round->context;
    i32 *out = round->output;
    const i64 number = atomic_fetch_add(&source->n_made, 1);
    for (int i = 0; i < ITEMS; i++)
        out[i] = (i32)(number * ITEMS + i);
    round->output_bytes = round->output_capacity;
    round->output_tag = (u64)number;
    if (source->n_frames > 0 && number + 1 >= source->n_frames)
        round->status = WEFT_END_OF_STREAM;
}

typedef struct Sink { _Atomic i64 n_frames, sum; u64 next; bool has_gap; i64 first; int delay_us; } Sink;

static void add_up(weft_round *round)
{
    Sink *sink = round->context;
    const i32 *in = round->input;
    i64 sum = 0;
    for (u64 i = 0; i < round->input_bytes / sizeof(i32); i++)
        sum += in[i];
    if (sink->n_frames == 0)
        sink->first = (i64)round->offset;
    else
        sink->has_gap |= round->offset != sink->next;
    sink->next = round->offset + 1;
    atomic_fetch_add(&sink->n_frames, 1);
    atomic_fetch_add(&sink->sum, sum);
    if (sink->delay_us)
        usleep((unsigned)sink->delay_us);
}

static i64 sum_of(i64 n_frames) { return n_frames * ITEMS * (n_frames * ITEMS - 1) / 2; }

static void copy_part(weft_round *round)                    // worker by worker
{
    const i32 *in = round->input;
    i32 *out = round->output;
    const u64 n = round->input_bytes / sizeof(i32);
    for (u64 i = n * round->thread / round->n_threads; i < n * (round->thread + 1) / round->n_threads; i++)
        out[i] = in[i];
    round->output_bytes = round->input_bytes;
    round->output_tag = round->tag;
}

static const char twice[] = "OPERATOR(twice)\n{\n    INPUT(i32, in);  OUTPUT(i32, out);  PARAMS(i32, factor);\n"
                            "    EACH_ITEM(i, N_ITEMS(i32)) out[i] = in[i] * factor[0];\n"
                            "    EMIT(i32, N_ITEMS(i32));\n}\n";

static weft_operator_options from_source(Source *source)
{
    return (weft_operator_options){ .name = "source", .compute = make_frames, .context = source };
}

static weft_operator_options to_sink(Sink *sink)
{
    return (weft_operator_options){ .name = "sink", .compute = add_up, .context = sink };
}

static weft_operator_options copy_on(weft_side side)
{
    return (weft_operator_options){ .name = "copy", .compute = copy_part, .side = side };
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

TEST(flow_goes_there_and_back_with_tile_c)
{
    for (int workers = 1; workers <= 5; workers += 2) {
        weft_flow *flow = new_flow((weft_flow_options){ .workers = workers });
        weft_topic *there = new_topic(flow, "there"), *back = new_topic(flow, "back");
        Source source = { .n_frames = 200 };
        Sink sink = { 0 };
        i32 factor = 3;
        link_operator(flow, NULL, from_source(&source), there);
        weft_operator *op = link_operator(flow, there, (weft_operator_options){ .name = "twice", .tile_c = twice,
                                                                                .context = &factor,
                                                                                .side = WEFT_SIDE_DEVICE }, back);
        link_operator(flow, back, to_sink(&sink), NULL);
        CHECK_OK(weft_flow_run(flow, &err), err);
        CHECK_INT(sink.n_frames, 200);
        CHECK_INT(sink.sum, 3 * sum_of(200));
        CHECK(!sink.has_gap);
        const weft_operator_counts counts = weft_operator_count(op);
        CHECK_INT(counts.rounds, 200);
        CHECK_INT(counts.frames_in, 200);
        CHECK_INT(counts.frames_out, 200);
        CHECK_INT(counts.workers, workers);
        CHECK(counts.has_ended);
        CHECK_INT(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used, 0);
        weft_flow_free(flow);
    }
}

TEST(flow_tile_c_runs_on_the_host_side_too_and_says_what_is_wrong)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
    Source source = { .n_frames = 5 };
    Sink sink = { 0 };
    i32 factor = 7;
    weft_operator_options wrong = { .name = "bad", .tile_c = "OPERATOR(bad) { nonsense }" };
    CHECK_STATUS(weft_flow_link(flow, a, &wrong, b, NULL, &err), WEFT_KERNEL_BUILD);
    CHECK_INT(err.position, 0);                             // no SQL text, no place
    CHECK_STATUS(weft_flow_link(flow, a, &wrong, b, NULL, NULL), WEFT_KERNEL_BUILD);
    wrong = (weft_operator_options){ .name = "two words", .tile_c = twice };
    CHECK_STATUS(weft_flow_link(flow, a, &wrong, b, NULL, &err), WEFT_INVALID_NAME);
    wrong = (weft_operator_options){ .name = "nothing" };
    CHECK_STATUS(weft_flow_link(flow, a, &wrong, b, NULL, &err), WEFT_INVALID_PARAMETER);
    CHECK_INT(weft_topic_count(b).publishers, 0);           // nothing is left of them
    CHECK_INT(weft_topic_count(a).subscribers, 0);
    link_operator(flow, NULL, from_source(&source), a);
    link_operator(flow, a, (weft_operator_options){ .name = "twice", .tile_c = twice, .context = &factor }, b);
    link_operator(flow, b, to_sink(&sink), NULL);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK_INT(sink.sum, 7 * sum_of(5));
    weft_flow_free(flow);
}

TEST(flow_many_sources_and_sinks_share_topics)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 3 });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
    Source source = { .n_frames = 150 };                    // shared: three sources make at most 152 frames together
    Sink sinks[3] = { { 0 } }, before = { 0 };
    for (int i = 0; i < 3; i++)
        link_operator(flow, NULL, from_source(&source), a);
    link_operator(flow, a, copy_on(WEFT_SIDE_DEVICE), b);
    link_operator(flow, a, copy_on(WEFT_SIDE_HOST), b);        // so every frame comes twice
    link_operator(flow, a, to_sink(&before), NULL);
    for (int i = 0; i < 3; i++)
        link_operator(flow, b, to_sink(&sinks[i]), NULL);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK(before.n_frames >= 150 && before.n_frames <= 152);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(sinks[i].n_frames, 2 * before.n_frames);
        CHECK_INT(sinks[i].sum, 2 * before.sum);
        CHECK(!sinks[i].has_gap);
    }
    weft_flow_free(flow);
}

TEST(flow_more_operators_than_workers_take_turns)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 2 });
    weft_topic *topics[11];
    char name[16];
    Source source = { .n_frames = 60 };
    Sink sink = { 0 };
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        topics[i] = new_topic(flow, name);
    }
    link_operator(flow, NULL, from_source(&source), topics[0]);
    for (int i = 0; i < 10; i++)
        link_operator(flow, topics[i], copy_on(WEFT_SIDE_DEVICE), topics[i + 1]);
    link_operator(flow, topics[10], to_sink(&sink), NULL);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK_INT(sink.n_frames, 60);
    CHECK_INT(sink.sum, sum_of(60));
    weft_flow_free(flow);
}

// A sum over all frames, which goes out at the end: the paper's flows have no such operator.
static void reduce(weft_round *round)
{
    i64 *total = round->context;
    const i32 *in = round->input;
    if (round->at_end) {
        *(i64 *)round->output = *total;
        round->output_bytes = sizeof(i64);
        return;
    }
    for (u64 i = 0; i < round->input_bytes / sizeof(i32); i++)
        *total += in[i];
}

static void take_total(weft_round *round) { *(i64 *)round->context = *(const i64 *)round->input; }

TEST(flow_an_operator_may_say_something_at_the_end)
{
    for (int side = 0; side < 2; side++) {
        weft_flow *flow = new_flow((weft_flow_options){ .workers = 1 });
        weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
        Source source = { .n_frames = 30 };
        i64 total = 0, seen = -1;
        link_operator(flow, NULL, from_source(&source), a);
        link_operator(flow, a, (weft_operator_options){ .name = "reduce", .compute = reduce, .context = &total,
                                                        .side = (weft_side)side, .wants_end = true }, b);
        link_operator(flow, b, (weft_operator_options){ .name = "total", .compute = take_total, .context = &seen },
                      NULL);
        CHECK_OK(weft_flow_run(flow, &err), err);
        CHECK_INT(seen, sum_of(30));
        CHECK_INT(weft_topic_count(b).frames_published, 1);
        weft_flow_free(flow);
    }
}

TEST(flow_completes_in_a_heap_of_one_frame_for_each_publisher)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 2, .memory = { { .bytes_max = 3 * 4096 },
                                                                              { .bytes_max = 4096 } } });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b"), *c = new_topic(flow, "c");
    Source source = { .n_frames = 100 };
    Sink sink = { 0 };
    link_operator(flow, NULL, from_source(&source), a);
    link_operator(flow, a, copy_on(WEFT_SIDE_DEVICE), b);
    link_operator(flow, b, copy_on(WEFT_SIDE_HOST), c);
    link_operator(flow, c, to_sink(&sink), NULL);
    weft_topic *one_more;
    weft_publisher *none;
    CHECK_OK(weft_topic_new(flow, "d", NULL, &one_more, &err), err);
    CHECK_STATUS(weft_publisher_open(one_more, &none, &err), WEFT_OUT_OF_MEMORY);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK_INT(sink.sum, sum_of(100));
    weft_flow_free(flow);
}

// Topics in a row with one to three copies between each two, on either side, in a heap with little more than what each
// publisher is guaranteed: every sink must see every frame once for each way that leads to it.
static void run_random(u64 seed)
{
    u64 n_random = 0;
    const int n_topics = 2 + (int)(random_bits(seed, n_random++) % 3);
    int n_copies[4], n_publishers = 1;
    i64 n_ways = 1;
    for (int i = 0; i + 1 < n_topics; i++) {
        n_copies[i] = 1 + (int)(random_bits(seed, n_random++) % 3);
        n_ways *= n_copies[i];
        n_publishers += n_copies[i];
    }
    const i64 spare = (i64)(random_bits(seed, n_random++) % 6);
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 1 + (int)(random_bits(seed, n_random++) % 4),
                                                    .memory = { { .bytes_max = (n_publishers + spare) * 4096 },
                                                                { .is_private = true } } });
    weft_topic *topics[5];
    Source source = { .n_frames = 25 };
    Sink sinks[3] = { { 0 } };
    char name[16];
    for (int i = 0; i < n_topics; i++) {
        const weft_topic_options options = { .frame_bytes = 4096,
                                             .frames_max = 1 + (int)(random_bits(seed, n_random++) % 10) };
        snprintf(name, sizeof(name), "t%d", i);
        CHECK_OK(weft_topic_new(flow, name, &options, &topics[i], &err), err);
    }
    link_operator(flow, NULL, from_source(&source), topics[0]);
    for (int i = 0; i + 1 < n_topics; i++)
        for (int k = 0; k < n_copies[i]; k++)
            link_operator(flow, topics[i], copy_on((weft_side)(random_bits(seed, n_random++) % 2)), topics[i + 1]);
    for (int i = 0; i < 3; i++)
        link_operator(flow, topics[n_topics - 1], to_sink(&sinks[i]), NULL);
    CHECK_OK(weft_flow_run(flow, &err), err);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(sinks[i].n_frames, 25 * n_ways);
        CHECK_INT(sinks[i].sum, n_ways * sum_of(25));
    }
    CHECK_INT(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used, 0);
    weft_flow_free(flow);
}

TEST(flow_random_topologies_lose_no_frame_in_small_heaps)
{
    for (u64 seed = 0; seed < 25; seed++)
        run_random(seed);
}

// ---- operators enter and leave a running flow -----------------------------------------------------------------------

static void wait_for_frames(const _Atomic i64 *n_frames, i64 wanted)
{
    while (atomic_load(n_frames) < wanted)
        usleep(200);
}

TEST(flow_operators_enter_a_running_flow_and_miss_no_frame)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 2 });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b"), *c = new_topic(flow, "c");
    Source source = { 0 };
    Sink first = { 0 }, second = { 0 };
    link_operator(flow, NULL, from_source(&source), a);
    weft_operator *old = link_operator(flow, a, copy_on(WEFT_SIDE_DEVICE), b);
    link_operator(flow, b, to_sink(&first), NULL);
    CHECK_OK(weft_flow_start(flow, &err), err);
    wait_for_frames(&first.n_frames, 20);
    weft_operator_options copy = copy_on(WEFT_SIDE_DEVICE);    // from where the topic is now
    weft_operator *late = link_operator(flow, a, copy, c);
    link_operator(flow, c, to_sink(&second), NULL);
    wait_for_frames(&second.n_frames, 20);
    weft_operator_stop(old);                                // leaves; the late one goes on alone
    const i64 seen = second.n_frames;
    wait_for_frames(&second.n_frames, seen + 20);
    CHECK(weft_operator_count(old).has_ended);
    weft_flow_stop(flow, WEFT_STOP_DRAIN);
    CHECK_OK(weft_flow_wait(flow, WEFT_FOREVER, &err), err);
    CHECK(!first.has_gap && !second.has_gap);
    CHECK_INT(first.first, 0);
    CHECK_INT(weft_operator_count(late).frames_in, second.n_frames);
    CHECK_INT(weft_topic_count(a).frames_kept, 0);          // all that was made was computed
    weft_flow_free(flow);
}

TEST(flow_stop_now_leaves_frames_and_drain_does_not)
{
    for (int how = 0; how < 2; how++) {
        weft_flow *flow = new_flow((weft_flow_options){ .workers = 2 });
        weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
        Source source = { 0 };
        Sink sink = { .delay_us = 500 };
        link_operator(flow, NULL, from_source(&source), a);
        link_operator(flow, a, copy_on(WEFT_SIDE_DEVICE), b);
        link_operator(flow, b, to_sink(&sink), NULL);
        CHECK_OK(weft_flow_start(flow, &err), err);
        CHECK_STATUS(weft_flow_start(flow, &err), WEFT_SESSION_BUSY);
        CHECK_STATUS(weft_flow_wait(flow, 1, &err), WEFT_NOT_READY);
        wait_for_frames(&sink.n_frames, 5);
        weft_flow_stop(flow, how ? WEFT_STOP_NOW : WEFT_STOP_DRAIN);
        CHECK_OK(weft_flow_wait(flow, WEFT_FOREVER, &err), err);
        if (!how)
            CHECK_INT(sink.n_frames, source.n_made);
        else
            CHECK(sink.n_frames <= source.n_made);
        weft_flow_free(flow);
    }
}

TEST(flow_drain_ends_publishers_that_are_no_operators)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *a = new_topic(flow, "a");
    Sink sink = { 0 };
    weft_publisher *publisher;
    weft_frame *frame;
    link_operator(flow, a, to_sink(&sink), NULL);
    CHECK_OK(weft_publisher_open(a, &publisher, &err), err);
    CHECK_OK(weft_flow_start(flow, &err), err);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_publisher_take(publisher, WEFT_FOREVER, &frame, &err), err);
        memset(frame->data, 0, 4096);
        *(i32 *)frame->data = i;
        frame->length = 4096;
        CHECK_OK(weft_publisher_publish(publisher, frame, WEFT_FOREVER, &err), err);
    }
    weft_flow_stop(flow, WEFT_STOP_DRAIN);
    CHECK_STATUS(weft_publisher_take(publisher, WEFT_FOREVER, &frame, &err), WEFT_END_OF_STREAM);
    CHECK_OK(weft_flow_wait(flow, WEFT_FOREVER, &err), err);
    CHECK_INT(sink.sum, 190);
    weft_flow_free(flow);                                   // closes the publisher
}

// ---- what goes wrong ------------------------------------------------------------------------------------------------

static void fail_at_3(weft_round *round)
{
    round->output_bytes = round->input_bytes;
    if (round->offset == 3 && round->thread == round->n_threads - 1)
        round->status = WEFT_DIVISION_BY_ZERO;
}

static void say_too_much(weft_round *round) { round->output_bytes = round->output_capacity + 1; }

static void exit_at_3(weft_round *round)
{
    const u32 *worker = round->context;
    if (round->offset == 3 && round->thread == *worker)
        pthread_exit(NULL);
    round->output_bytes = round->input_bytes;
}

static weft_status run_with(weft_operator_options options, int workers)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = workers });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
    Source source = { 0 };                                  // endless: only the error ends it
    Sink sink = { 0 };
    link_operator(flow, NULL, from_source(&source), a);
    link_operator(flow, a, options, b);
    link_operator(flow, b, to_sink(&sink), NULL);
    const weft_status status = weft_flow_run(flow, &err);
    weft_flow_free(flow);
    return status;
}

TEST(flow_an_operator_that_fails_ends_the_flow_with_its_status)
{
    for (int side = 0; side < 2; side++) {
        weft_operator_options options = { .name = "divide", .compute = fail_at_3, .side = (weft_side)side };
        CHECK_STATUS(run_with(options, 3), WEFT_DIVISION_BY_ZERO);
        CHECK_HAS(err.message, "operator \"divide\" failed in round 3");
        options.compute = say_too_much;
        CHECK_STATUS(run_with(options, 3), WEFT_OPERATOR_FAILED);
        CHECK_HAS(err.message, "4097 bytes");
    }
}

TEST(flow_an_operator_that_ends_its_thread_does_not_hang_the_flow)
{
    for (u32 worker = 0; worker < 3; worker++) {            // 0 is the leader of the virtual kernel
        weft_operator_options options = { .name = "leaver", .compute = exit_at_3, .context = &worker,
                                          .side = WEFT_SIDE_DEVICE };
        CHECK_STATUS(run_with(options, 3), WEFT_OPERATOR_FAILED);
        CHECK_HAS(err.message, "\"leaver\" ended the thread");
    }
    u32 worker = 0;
    CHECK_STATUS(run_with((weft_operator_options){ .name = "leaver", .compute = exit_at_3, .context = &worker }, 1),
                 WEFT_OPERATOR_FAILED);
    CHECK_HAS(err.message, "\"leaver\" ended the thread");
}

static _Atomic bool may_go_on;

static void hang_at_3(weft_round *round)
{
    round->output_bytes = round->input_bytes;
    while (round->offset == 3 && !atomic_load(&may_go_on))
        usleep(1000);
}

TEST(flow_the_watchdog_reports_an_operator_that_hangs)
{
    for (int side = 0; side < 2; side++) {
        weft_flow *flow = new_flow((weft_flow_options){ .workers = 2, .watchdog_ms = 1000 });
        weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b");
        Source source = { 0 };
        Sink sink = { 0 };
        atomic_store(&may_go_on, false);
        link_operator(flow, NULL, from_source(&source), a);
        link_operator(flow, a, (weft_operator_options){ .name = "slow", .compute = hang_at_3,
                                                        .side = (weft_side)side }, b);
        link_operator(flow, b, to_sink(&sink), NULL);
        CHECK_STATUS(weft_flow_run(flow, &err), WEFT_OPERATOR_FAILED);      // while it still hangs
        CHECK_HAS(err.message, "\"slow\" has computed one frame for more than 1000 ms");
        CHECK(sink.n_frames <= 3);                          // it may have been about to read one
        atomic_store(&may_go_on, true);
        weft_flow_free(flow);
    }
}

static void *poll_until_it_ends(void *flow)
{
    weft_status status;
    while ((status = weft_flow_wait(flow, 0, NULL)) == WEFT_NOT_READY)
        continue;
    return (void *)(intptr_t)status;
}

// The operator that hangs is the only one that is left, so a thread that finds it stuck must find the error, too.
TEST(flow_all_who_wait_for_a_flow_that_hangs_get_its_error)
{
    enum { TIMES = 20, POLLERS = 3 };
    for (int t = 0; t < TIMES; t++) {
        weft_flow *flow = new_flow((weft_flow_options){ .watchdog_ms = 10 });
        weft_topic *topic = new_topic(flow, "a");
        Source source = { .n_frames = 4 };
        pthread_t threads[POLLERS];
        atomic_store(&may_go_on, false);
        link_operator(flow, topic, (weft_operator_options){ .name = "slow", .compute = hang_at_3 }, NULL);
        link_operator(flow, NULL, from_source(&source), topic);
        CHECK_OK(weft_flow_start(flow, &err), err);
        for (int i = 0; i < POLLERS; i++)
            CHECK_INT(pthread_create(&threads[i], NULL, poll_until_it_ends, flow), 0);
        for (int i = 0; i < POLLERS; i++) {
            void *status;
            pthread_join(threads[i], &status);
            CHECK_STATUS((weft_status)(intptr_t)status, WEFT_OPERATOR_FAILED);
        }
        atomic_store(&may_go_on, true);
        weft_flow_free(flow);
    }
}

// ---- the split of workers -------------------------------------------------------------------------------------------

enum { N_SLEPT = 60 };

typedef struct Sleeper { int us, n_frames, workers[N_SLEPT]; } Sleeper;

static void sleep_share(weft_round *round)                  // takes its time in inverse proportion to its workers
{
    Sleeper *sleeper = round->context;
    if (round->thread == 0) sleeper->workers[sleeper->n_frames++] = (int)round->n_threads;
    usleep((unsigned)(sleeper->us / (int)round->n_threads));
    round->output_bytes = round->input_bytes;
}

static void run_unequal(bool is_untuned, Sleeper *heavy, Sleeper *light)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 8, .is_untuned = is_untuned });
    weft_topic *a = new_topic(flow, "a"), *b = new_topic(flow, "b"), *c = new_topic(flow, "c");
    Source source = { .n_frames = N_SLEPT };
    *heavy = (Sleeper){ .us = 8000 }, *light = (Sleeper){ .us = 800 };
    link_operator(flow, NULL, from_source(&source), a);
    weft_operator_options sleeper = { .name = "heavy", .compute = sleep_share, .context = heavy,
                                      .side = WEFT_SIDE_DEVICE };
    link_operator(flow, a, sleeper, b);
    sleeper.name = "light";
    sleeper.context = light;
    link_operator(flow, a, sleeper, c);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK_INT(heavy->n_frames, N_SLEPT);
    CHECK_INT(light->n_frames, N_SLEPT);
    weft_flow_free(flow);
}

// At the end one of them may be alone, and has all workers then.
TEST(flow_workers_go_where_the_time_goes)
{
    enum { LATE = N_SLEPT / 2 };
    Sleeper heavy, light;
    run_unequal(true, &heavy, &light);
    CHECK_INT(heavy.workers[0], 4);
    CHECK_INT(light.workers[0], 4);
    int attempt = 0;
    do {                                                    // a busy machine blurs times
        run_unequal(false, &heavy, &light);
        printf("heavy %d, light %d of 8\n", heavy.workers[LATE], light.workers[LATE]);
    } while (heavy.workers[LATE] <= light.workers[LATE] && ++attempt < 50);
    CHECK(heavy.workers[LATE] > light.workers[LATE]);
}

TEST(flow_split_explores_then_fits_then_notices_drift)
{
    weft_operator a = { 0 }, b = { 0 }, *both[] = { &a, &b };
    int workers[2];
    for (u64 round = 0; round < 12; round++) {
        split_workers(both, 2, 8, round, false, workers);
        CHECK_INT(workers[0] + workers[1], 8);
        split_note(&a, workers[0], 9.0 / workers[0]);
        split_note(&b, workers[1], 1.0 / workers[1]);
    }
    CHECK(a.samples.has_fit && b.samples.has_fit);
    split_workers(both, 2, 8, 12, false, workers);
    CHECK(workers[0] > 4);
    for (int round = 0; round < 8; round++)
        split_note(&a, workers[0], 1.2);
    for (int round = 0; round < 32; round++) {
        CHECK(a.samples.has_fit);
        split_note(&a, workers[0], 0.01);                   // it has become much quicker
    }
    CHECK(!a.samples.has_fit);
}

TEST(flow_has_64_operators_on_the_device_side_at_most)
{
    weft_flow *flow = new_flow((weft_flow_options){ .workers = 1 });
    weft_topic *a = new_topic(flow, "a");
    Source source = { .n_frames = 3 };
    Sink sinks[KERNEL_OPERATORS_MOST] = { { 0 } };
    link_operator(flow, NULL, from_source(&source), a);
    for (int i = 0; i <= KERNEL_OPERATORS_MOST; i++) {
        weft_operator_options sink = to_sink(&sinks[i % KERNEL_OPERATORS_MOST]);
        sink.side = WEFT_SIDE_DEVICE;
        const weft_status expected = i < KERNEL_OPERATORS_MOST ? WEFT_OK : WEFT_TOO_LONG;
        CHECK_STATUS(weft_flow_link(flow, a, &sink, NULL, NULL, &err), expected);
    }
    CHECK_OK(weft_flow_run(flow, &err), err);
    for (int i = 0; i < KERNEL_OPERATORS_MOST; i++)
        CHECK_INT(sinks[i].n_frames, 3);
    weft_flow_free(flow);
}

TEST(flow_options_are_checked_and_an_empty_flow_ends_at_once)
{
    weft_flow *flow;
    CHECK_STATUS(weft_flow_new(&(weft_flow_options){ .workers = 33 }, &flow, &err), WEFT_INVALID_PARAMETER);
    CHECK(!flow);
    CHECK_STATUS(weft_flow_new(&(weft_flow_options){ .memory = { { .bytes_max = -1 } } }, &flow, &err),
                 WEFT_INVALID_PARAMETER);
    flow = new_flow((weft_flow_options){ 0 });
    CHECK_OK(weft_flow_run(flow, &err), err);
    weft_flow_free(flow);
    weft_flow_free(NULL);
}
