// idle.c - the queries beside a flow without frames: it should cost them nothing.
//
// The flow has an operator on the device, a publisher that publishes nothing, and a subscriber on the host that waits.
// A first frame brings its kernel onto the card, which leaves after 10 ms without frames.

#define _GNU_SOURCE
#include "gpu.h"

#include <math.h>
#include <unistd.h>
#include <weft_flow.h>

enum { IDLE_ROUNDS = 4, SETTLES_MS = 50 };

typedef struct IdleFlow { weft_flow *flow; weft_publisher *publisher; } IdleFlow;

static const char passes_on[] = "OPERATOR(passes_on)\n"
                                "{\n"
                                "    INPUT(i32, in);  OUTPUT(i32, out);\n"
                                "    MAP_ITEMS(i32, out, in, N_ITEMS(i32), x, x);\n"
                                "    EMIT(i32, N_ITEMS(i32));\n"
                                "}\n";

static void take_in(weft_round *round) { (void)round; }

static void flow_must(weft_status status, const weft_error *error)
{
    if (status)
        die("the idle flow", error->message);
}

static void publish_one(IdleFlow *idle)
{
    weft_frame *frame;
    weft_error error;
    flow_must(weft_publisher_take(idle->publisher, 1000, &frame, &error), &error);
    frame->length = sizeof(int), *(int *)frame->data = 1;
    flow_must(weft_publisher_publish(idle->publisher, frame, 1000, &error), &error);
}

static void begin(const GpuBench *gpu, IdleFlow *idle)
{
    weft_topic *there, *back;
    weft_error error;
    const weft_flow_options options = { .device = gpu->device };
    const weft_topic_options small = { .frame_bytes = 16384 };
    const weft_operator_options worker = { .name = "passes_on", .tile_c = passes_on, .side = WEFT_SIDE_DEVICE },
                                sink = { .name = "sink", .compute = take_in };
    flow_must(weft_flow_new(&options, &idle->flow, &error), &error);
    flow_must(weft_topic_new(idle->flow, "there", &small, &there, &error), &error);
    flow_must(weft_topic_new(idle->flow, "back", &small, &back, &error), &error);
    flow_must(weft_flow_link(idle->flow, there, &worker, back, NULL, &error), &error);
    flow_must(weft_flow_link(idle->flow, back, &sink, NULL, NULL, &error), &error);
    flow_must(weft_publisher_open(there, &idle->publisher, &error), &error);
    flow_must(weft_flow_start(idle->flow, &error), &error);
    publish_one(idle);
    usleep(SETTLES_MS * 1000);
}

static void end(IdleFlow *idle)
{
    weft_error error;
    weft_publisher_close(idle->publisher);
    weft_flow_stop(idle->flow, WEFT_STOP_DRAIN);
    flow_must(weft_flow_wait(idle->flow, 5000, &error), &error);
    weft_flow_free(idle->flow);
}

static void time_all(const GpuBench *gpu, double *ms)
{
    for (int q = 0; q < gpu->bench.n_queries; q++)
        for (int r = 0; r < gpu->bench.options.repeats; r++)
            ms[q] = fmin(ms[q], run_ms(gpu->weft, gpu->bench.queries[q].sql));
}

void part_idle(GpuBench *gpu)
{
    Bench   *bench = &gpu->bench;
    IdleFlow idle;
    double   without[MAX_QUERIES], beside[MAX_QUERIES], log_sum = 0, most = 0, ignored[MAX_QUERIES];
    for (int q = 0; q < bench->n_queries; q++)
        without[q] = beside[q] = ignored[q] = INFINITY;
    time_all(gpu, ignored);                                    // warm-up
    for (int r = 0; r < IDLE_ROUNDS; r++) {
        time_all(gpu, without);
        begin(gpu, &idle);
        time_all(gpu, beside);
        end(&idle);
    }
    for (int q = 0; q < bench->n_queries; q++) {
        log_sum += log(beside[q] / without[q]);
        most = fmax(most, beside[q] / without[q]);
    }
    say(bench, "## Beside a flow without frames, one query at a time; best of %d\n\n",
        IDLE_ROUNDS * bench->options.repeats);
    verdict(gpu, "longer, geometric mean", 100 * (exp(log_sum / bench->n_queries) - 1), "%", true, 2);
    say(bench, "- longer, at most: %.2f %%\n\n", 100 * (most - 1));
}
