// ping_pong.c - a flow that goes there and back: numbers are made here, doubled on the other side, and added up here.
//
//     cc ping_pong.c $(pkg-config --cflags --libs weft) -o ping_pong && ./ping_pong      after make install
//
//     source ──> [there] ──> twice, tile C on a GPU if there is one ──> [back] ──> sink

#include <stdio.h>
#include <weft_flow.h>

enum { N_FRAMES = 1000 };

static void make_numbers(weft_round *round)                // called until it says END_OF_STREAM
{
    int *out = round->output, n = (int)(round->output_capacity / sizeof(int));
    for (int i = 0; i < n; i++)
        out[i] = (int)round->offset + i;
    round->output_bytes = (uint64_t)n * sizeof(int);
    round->status = round->offset + 1 < N_FRAMES ? WEFT_OK : WEFT_END_OF_STREAM;
}

static const char twice[] = "OPERATOR(twice)\n"            // shared by as many workers as it gets
                            "{\n"
                            "    INPUT(i32, in);  OUTPUT(i32, out);\n"
                            "    MAP_ITEMS(i32, out, in, N_ITEMS(i32), x, x * 2);\n"
                            "    EMIT(i32, N_ITEMS(i32));\n"
                            "}\n";

static void add_up(weft_round *round)
{
    const int *in = round->input;
    for (uint64_t i = 0; i < round->input_bytes / sizeof(int); i++)
        *(long long *)round->context += in[i];
}

int main(void)
{
    weft_flow *flow;
    weft_topic *there, *back;
    weft_error error;
    long long sum = 0, expected = 0;
    const weft_topic_options small = { .frame_bytes = 16384 };
    const weft_operator_options source = { .name = "source", .compute = make_numbers },
        worker = { .name = "twice", .tile_c = twice, .side = WEFT_SIDE_DEVICE },
        sink = { .name = "sink", .compute = add_up, .context = &sum };
    for (int i = 0; i < N_FRAMES * 4096; i++)
        expected += 2 * (i / 4096 + i % 4096);
    if (weft_flow_new(NULL, &flow, &error) || weft_topic_new(flow, "there", &small, &there, &error) ||
        weft_topic_new(flow, "back", &small, &back, &error) ||
        weft_flow_link(flow, NULL, &source, there, NULL, &error) ||
        weft_flow_link(flow, there, &worker, back, NULL, &error) ||
        weft_flow_link(flow, back, &sink, NULL, NULL, &error) ||
        weft_flow_run(flow, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%lld frames there and back: the sum is %lld\n", (long long)weft_topic_count(back).frames_published, sum);
    weft_flow_free(flow);
    return sum != expected;
}
