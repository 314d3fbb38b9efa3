// flow_bench.c - how fast frames go there and back: throughput with many under way, and the latency of one.
//
//     flow_bench [--device cuda:0] [--frame 16384] [--frames 200000] [--ahead 512] [--hops 1] [--touch]
//
//     publisher ──> [there] ──> copy, tile C on the DEVICE side ──> ... ──> [back] ──> subscriber
//
// The host's threads publish and subscribe without waiting in the system, and do not touch the frames (--touch: they
// write and check each of them), so what is measured is topics, the kernel and the link.  With --hops N there are N
// such operators in a row; topics between them are of the DEVICE side.  A topic holds --ahead frames; without it 512,
// and fewer where these would be more than 16 MiB.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft_flow.h>

enum { AHEAD_BYTES = 16 << 20 };

typedef struct Bench {
    const char *device;
    long        frame_bytes, n_frames, n_hops, n_ahead;     // n_ahead: frames that a topic holds
    int         is_touching;
    weft_flow  *flow;
    weft_topic *there, *back;
    long        n_wrong;
} Bench;

static const char copy[] = "OPERATOR(copy)\n"
                           "{\n"
                           "    INPUT(u32, in);  OUTPUT(u32, out);\n"
                           "    COPY_ITEMS(u32, out, in, N_ITEMS(u32));\n"
                           "    EMIT(u32, N_ITEMS(u32));\n"
                           "    EMIT_TAG(TAG);\n"
                           "}\n";

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void die(const weft_error *error)
{
    fprintf(stderr, "%s%s%s\n", error->message, error->hint[0] ? "; hint: " : "", error->hint);
    exit(1);
}

// Between two looks: the topic's lock is wanted by others.
static void pause_a_little(void)
{
    for (volatile int i = 0; i < 30; i++)
        continue;
}

// Asks again and again: a sleep would cost more than a frame takes.
static weft_status publish(const Bench *bench, weft_publisher *publisher, uint64_t number, weft_error *error)
{
    weft_frame *frame;
    weft_status status;
    while ((status = weft_publisher_take(publisher, 0, &frame, error)) == WEFT_OUT_OF_MEMORY)
        pause_a_little();
    if (status)
        return status;
    frame->length = (uint64_t)bench->frame_bytes;
    frame->tag = number;
    if (bench->is_touching)
        memset(frame->data, (int)(number & 255), frame->length);
    while ((status = weft_publisher_publish(publisher, frame, 0, error)) == WEFT_NOT_READY)
        pause_a_little();
    return status;
}

static weft_status take(Bench *bench, weft_subscriber *subscriber, uint64_t number, weft_error *error)
{
    const weft_frame *frame;
    weft_status status;
    while ((status = weft_subscriber_next(subscriber, 0, &frame, NULL, error)) == WEFT_NOT_READY)
        pause_a_little();
    if (status)
        return status;
    bench->n_wrong += frame->tag != number || frame->length != (uint64_t)bench->frame_bytes;
    if (bench->is_touching) {
        const unsigned char *bytes = frame->data, expected = (unsigned char)(number & 255);
        bench->n_wrong += bytes[0] != expected || memcmp(bytes, bytes + 1, frame->length - 1) != 0;
    }
    return WEFT_OK;
}

static void *publish_all(void *context)
{
    const Bench *bench = context;
    weft_publisher *publisher;
    weft_error error;
    if (weft_publisher_open(bench->there, &publisher, &error))
        die(&error);
    for (long i = 0; i < bench->n_frames; i++)
        if (publish(bench, publisher, (uint64_t)i, &error))
            die(&error);
    weft_publisher_close(publisher);
    return NULL;
}

static void build(Bench *bench)
{
    const weft_flow_options options = { .device = bench->device, .buffer_bytes = 16 << 20 };
    const weft_operator_options worker = { .name = "copy", .tile_c = copy, .side = WEFT_SIDE_DEVICE };
    weft_topic *from;
    weft_error error;
    if (weft_flow_new(&options, &bench->flow, &error))
        die(&error);
    for (long i = 0; i <= bench->n_hops; i++, from = bench->back) {
        char name[32];
        const weft_topic_options topic = { .frame_bytes = bench->frame_bytes, .frames_max = (int)bench->n_ahead,
            .side = i == 0 || i == bench->n_hops ? WEFT_SIDE_HOST : WEFT_SIDE_DEVICE };
        snprintf(name, sizeof(name), "hop_%ld", i);
        if (weft_topic_new(bench->flow, name, &topic, &bench->back, &error) ||
            (i > 0 && weft_flow_link(bench->flow, from, &worker, bench->back, NULL, &error)))
            die(&error);
        if (i == 0)
            bench->there = bench->back;
    }
}

static double run_many(Bench *bench)
{
    weft_subscriber *subscriber;
    weft_error error;
    pthread_t thread;
    build(bench);
    if (weft_subscriber_open(bench->back, WEFT_START_OLDEST, &subscriber, &error) ||
        weft_flow_start(bench->flow, &error))
        die(&error);
    if (pthread_create(&thread, NULL, publish_all, bench))
        exit(1);
    double began = 0;
    const long warm = bench->n_frames / 10;                 // the heap grows, and the kernel comes
    for (long i = 0; i < bench->n_frames; i++) {
        if (i == warm)
            began = now_us();
        if (take(bench, subscriber, (uint64_t)i, &error))
            die(&error);
    }
    const double seconds = (now_us() - began) / 1e6;
    pthread_join(thread, NULL);
    if (weft_flow_wait(bench->flow, 10000, &error))
        die(&error);
    const weft_gpu_counts gpu = weft_flow_gpu_counts(bench->flow);
    printf("device %s, %d blocks, %lld launches, sent away %lld times\n", gpu.device[0] ? gpu.device : "cpu",
           gpu.blocks, (long long)gpu.launches, (long long)gpu.left_asked);
    weft_flow_free(bench->flow);
    return (double)(bench->n_frames - warm) / seconds;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// One frame at a time.
static void run_one(Bench *bench, long n, double *times)
{
    weft_publisher *publisher;
    weft_subscriber *subscriber;
    weft_error error;
    build(bench);
    if (weft_publisher_open(bench->there, &publisher, &error) ||
        weft_subscriber_open(bench->back, WEFT_START_OLDEST, &subscriber, &error) ||
        weft_flow_start(bench->flow, &error))
        die(&error);
    for (long i = 0; i < n; i++) {
        const double began = now_us();
        if (publish(bench, publisher, (uint64_t)i, &error) || take(bench, subscriber, (uint64_t)i, &error))
            die(&error);
        times[i] = now_us() - began;
    }
    weft_publisher_close(publisher);
    weft_flow_free(bench->flow);
    qsort(times, (size_t)n, sizeof(*times), compare);
}

int main(int argc, char **argv)
{
    Bench bench = { .frame_bytes = 16384, .n_frames = 20000, .n_hops = 1 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--touch") == 0)
            bench.is_touching = 1;
        else if (i + 1 < argc && strcmp(argv[i], "--device") == 0)
            bench.device = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--frame") == 0)
            bench.frame_bytes = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--frames") == 0)
            bench.n_frames = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--hops") == 0)
            bench.n_hops = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--ahead") == 0)
            bench.n_ahead = atol(argv[++i]);
        else
            return fprintf(stderr, "flow_bench [--device D] [--frame BYTES] [--frames N] [--ahead N] [--hops N] "
                                   "[--touch]\n"), 2;
    }
    if (bench.n_ahead < 1)
        bench.n_ahead = 512L * bench.frame_bytes <= AHEAD_BYTES ? 512 : AHEAD_BYTES / bench.frame_bytes;
    if (bench.n_ahead < 4)
        bench.n_ahead = 4;
    if (bench.frame_bytes < 4 || bench.n_frames < 10 || bench.n_hops < 1 || bench.n_hops > 60)
        return fprintf(stderr, "frames have 4 bytes at least, and there are 10 of them and a hop at least\n"), 2;
    const long n_single = bench.n_frames < 20000 ? bench.n_frames / 10 : 2000;
    double *times = malloc((size_t)n_single * sizeof(*times));
    if (!times)
        return 1;
    const double rate = run_many(&bench);
    printf("%ld frames of %ld bytes, %ld hops: %.0f frames/s, %.3f GB/s each way\n", bench.n_frames, bench.frame_bytes,
           bench.n_hops, rate, rate * (double)bench.frame_bytes / 1e9);
    run_one(&bench, n_single, times);
    printf("one frame there and back: p50 %.1f us, p99 %.1f us, worst %.1f us\n", times[n_single / 2],
           times[n_single * 99 / 100], times[n_single - 1]);
    printf("%ld frames were wrong\n", bench.n_wrong);
    free(times);
    return bench.n_wrong != 0;
}
