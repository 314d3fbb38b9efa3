// flow.c - flows on a GPU: the kernel that stays, over the fake driver (tests/check-flow-gpu) or on a card.
//
// Frames go there and back, through chains on both sides, in one piece and in many; the kernel leaves the card and
// comes back, operators enter while it runs, memory grows under it; every call of the driver fails in turn; operators
// fail, hang, die; the card is lost.  Nothing hangs, no frame is lost, and errors name the call.

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "help.h"
#include "weft_flow.h"

enum { ITEMS = 1024, TEXT_BYTES = 400, WAIT_MS = 60000 };  // the last: for what comes in milliseconds, mostly

static void (*fail_at)(const char *call, int nth, int result);             // NULL: a real card
static weft_error err;

static void expect(bool is_right, const char *what) { check(is_right, what, err.message); }

static void ok(weft_status status, const char *what)
{
    check(status == WEFT_OK, what, err.message);
}

// ---- operators ------------------------------------------------------------------------------------------------------

typedef struct Source { int64_t n_frames; _Atomic int64_t n_made; } Source;             // 0: endless
typedef struct Sink { _Atomic int64_t n_frames, sum; uint64_t next; bool has_gap; int64_t dies_at; } Sink;

static void make_frames(weft_round *round)
{
    Source *source = round->context;
    int32_t *out = round->output;
    const int64_t number = atomic_fetch_add(&source->n_made, 1), n = (int64_t)(round->output_capacity / 4);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)(number + i % 7);
    round->output_bytes = round->output_capacity;
    round->output_tag = (uint64_t)number;
    round->status = source->n_frames > 0 && number + 1 >= source->n_frames ? WEFT_END_OF_STREAM : WEFT_OK;
}

static int64_t sum_of(int64_t n_frames, int64_t n_items, int64_t factor)
{
    int64_t sum = 0;
    for (int64_t f = 0; f < n_frames; f++)
        sum += f * n_items;
    for (int64_t i = 0; i < n_items; i++)
        sum += n_frames * (i % 7);
    return sum * factor;
}

static void add_up(weft_round *round)
{
    Sink *sink = round->context;
    const int32_t *in = round->input;
    int64_t sum = 0;
    for (uint64_t i = 0; i < round->input_bytes / 4; i++)
        sum += in[i];
    sink->has_gap |= round->offset != sink->next;
    sink->next = round->offset + 1;
    atomic_fetch_add(&sink->n_frames, 1);
    atomic_fetch_add(&sink->sum, sum);
    if (sink->dies_at && sink->n_frames >= sink->dies_at)
        pthread_exit(NULL);
}

static void pass_on(weft_round *round)
{
    if (round->thread > 0)                                  // of several workers on threads, one is enough
        return;
    memcpy(round->output, round->input, round->input_bytes);
    round->output_bytes = round->input_bytes;
    round->output_tag = round->tag;
}

static const char copy_text[] = "OPERATOR(copy)\n{\n    INPUT(i32, in);  OUTPUT(i32, out);\n"
                                "    COPY_ITEMS(i32, out, in, N_ITEMS(i32));\n"
                                "    EMIT(i32, N_ITEMS(i32));\n    EMIT_TAG(TAG);\n}\n";
static const char times_text[] = "static i32 times(i32 a, i32 b) { return a * b; }\n"
                                 "OPERATOR(times_n)\n{\n    INPUT(i32, in);  OUTPUT(i32, out);  PARAMS(i32, factor);\n"
                                 "    EACH_ITEM(i, N_ITEMS(i32)) out[i] = times(in[i], factor[0]);\n"
                                 "    EMIT(i32, N_ITEMS(i32));\n    EMIT_TAG(TAG);\n}\n";
static const char count_text[] = "typedef struct Total { u64 n, next, gaps; } Total;\n"
                                 "OPERATOR(count)\n{\n    OUTPUT(u64, out);  STATE(Total, total);\n"
                                 "    if (!IS_FIRST_WORKER) return;\n"
                                 "    if (IS_END) {\n        out[0] = total->n;\n        EMIT(u64, 1);\n    } else {\n"
                                 "        total->n++;\n        total->gaps += TAG != total->next;\n"
                                 "        total->next = TAG + 1;\n    }\n}\n";

static weft_operator_options source_of(Source *source)
{
    return (weft_operator_options){ .name = "source", .compute = make_frames, .context = source };
}

static weft_operator_options sink_of(Sink *sink)
{
    return (weft_operator_options){ .name = "sink", .compute = add_up, .context = sink };
}

static weft_operator_options copy_on_device(void)
{
    return (weft_operator_options){ .name = "copy", .tile_c = copy_text, .side = WEFT_SIDE_DEVICE };
}

static weft_flow *new_flow(weft_flow_options options)
{
    weft_flow *flow = NULL;
    if (!options.device)
        options.device = "cuda:0";
    ok(weft_flow_new(&options, &flow, &err), "a flow on cuda:0");
    if (!flow)
        exit(1);
    return flow;
}

static weft_topic *new_topic(weft_flow *flow, int number, int64_t frame_bytes, weft_side side)
{
    weft_topic *topic = NULL;
    char name[20];
    snprintf(name, sizeof(name), "t%d", number);
    ok(weft_topic_new(flow, name, &(weft_topic_options){ .frame_bytes = frame_bytes, .side = side }, &topic, &err),
       "a topic");
    return topic;
}

static weft_operator *add(weft_flow *flow, weft_topic *from, weft_operator_options options, weft_topic *to)
{
    weft_operator *op = NULL;
    ok(weft_flow_link(flow, from, &options, to, &op, &err), options.name);
    return op;
}

// ---- there and back -------------------------------------------------------------------------------------------------

static void there_and_back(int64_t frame_bytes, int64_t n_frames, bool is_managed)
{
    weft_flow *flow = new_flow((weft_flow_options){ .is_managed = is_managed });
    weft_topic *there = new_topic(flow, 0, frame_bytes, WEFT_SIDE_HOST),
               *back = new_topic(flow, 1, frame_bytes, WEFT_SIDE_HOST);
    Source source = { .n_frames = n_frames };
    Sink sink = { 0 };
    int32_t factor = 3;
    add(flow, NULL, source_of(&source), there);
    weft_operator *op = add(flow, there, (weft_operator_options){ .name = "times_n", .tile_c = times_text,
                                                                  .context = &factor, .context_bytes = sizeof(factor),
                                                                  .side = WEFT_SIDE_DEVICE }, back);
    add(flow, back, sink_of(&sink), NULL);
    ok(weft_flow_run(flow, &err), "there and back");
    const weft_operator_counts counts = weft_operator_count(op);
    const weft_gpu_counts gpu = weft_flow_gpu_counts(flow);
    expect(sink.n_frames == n_frames && !sink.has_gap, "all frames came back in order");
    expect(sink.sum == sum_of(n_frames, frame_bytes / 4, factor), "with the right numbers");
    expect(counts.is_on_gpu && counts.rounds == n_frames && counts.frames_in == n_frames &&
               counts.frames_out == n_frames && counts.has_ended, "counters of the operator");
    expect(gpu.launches >= 1 && gpu.blocks >= 2 && strcmp(gpu.device, "cuda:0") == 0, "counters of the kernel");
    expect(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).frames_used == 0, "all frames were given back");
    weft_subscriber *left_open;
    ok(weft_subscriber_open(there, WEFT_START_OLDEST, &left_open, &err), "a handle that is never closed");
    weft_flow_free(flow);
}

// C(G)nC: topics between GPU operators are in device memory.  C(GC)n: each hop goes over the link.
// The paper's memory, as a setting: the same answers, and the driver was asked for it.
static void managed_memory(void)
{
    const char *driver = getenv("WEFT_LIBCUDA");
    void *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    int (*count)(void) = NULL;
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_managed") : NULL;
    const int before = count ? count() : 0;
    there_and_back(4096, 300, true);
    there_and_back(262144, 30, true);
    expect(!count || count() >= before + 2, "frames were managed memory");
}

static void chain(int n, bool is_host_between)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    Source source = { .n_frames = 60 };
    Sink sink = { 0 };
    int number = 0;
    weft_topic *topic = new_topic(flow, number++, 4096, WEFT_SIDE_HOST), *next;
    add(flow, NULL, source_of(&source), topic);
    for (int i = 0; i < n; i++, topic = next) {
        const bool is_last = i == n - 1;
        next = new_topic(flow, number++, 4096, is_last || is_host_between ? WEFT_SIDE_HOST : WEFT_SIDE_DEVICE);
        add(flow, topic, copy_on_device(), next);
        if (is_host_between && !is_last) {
            weft_topic *between = next;
            next = new_topic(flow, number++, 4096, WEFT_SIDE_HOST);
            add(flow, between, (weft_operator_options){ .name = "pass", .compute = pass_on }, next);
        }
    }
    add(flow, topic, sink_of(&sink), NULL);
    ok(weft_flow_run(flow, &err), is_host_between ? "C(GC)n" : "C(G)nC");
    expect(sink.n_frames == 60 && !sink.has_gap && sink.sum == sum_of(60, ITEMS, 1), "a chain loses nothing");
    expect(is_host_between || n == 1 || weft_flow_heap_counts(flow, WEFT_SIDE_DEVICE).frames_taken > 0,
           "topics between GPU operators are in device memory");
    weft_flow_free(flow);
}

typedef struct Total { uint64_t n, next, gaps; } Total;

static void state_and_end(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    Source source = { .n_frames = 100 };
    Sink sink = { 0 };
    Total total = { 0 };
    add(flow, NULL, source_of(&source), in);
    add(flow, in, (weft_operator_options){ .name = "count", .tile_c = count_text, .context = &total,
                                           .context_bytes = sizeof(total), .side = WEFT_SIDE_DEVICE,
                                           .wants_end = true }, out);
    add(flow, out, sink_of(&sink), NULL);
    ok(weft_flow_run(flow, &err), "an operator with STATE");
    expect(sink.n_frames == 1 && sink.sum == 100, "says its total at the end");
    expect(total.n == 100 && total.gaps == 0, "has seen all frames in order, and its state came back");
    weft_flow_free(flow);
}

static void source_and_sink_on_the_gpu(void)
{
    static const char source_text[] =
        "OPERATOR(upward)\n{\n    OUTPUT(u64, out);\n"
        "    EACH_ITEM(i, CAPACITY(u64)) out[i] = R->offset;\n    EMIT(u64, CAPACITY(u64));\n"
        "    EMIT_TAG(R->offset);\n    if (R->offset == 49) FAIL_WITH(1);\n}\n";        // 1: WEFT_END_OF_STREAM
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *topic = new_topic(flow, 0, 4096, WEFT_SIDE_DEVICE);
    Total total = { 0 };
    _Static_assert(WEFT_END_OF_STREAM == 1, "as the text says");
    weft_operator *source = add(flow, NULL, (weft_operator_options){ .name = "upward", .tile_c = source_text,
                                                                     .side = WEFT_SIDE_DEVICE }, topic);
    add(flow, topic, (weft_operator_options){ .name = "count", .tile_c = count_text, .context = &total,
                                              .context_bytes = sizeof(total), .side = WEFT_SIDE_DEVICE }, NULL);
    ok(weft_flow_run(flow, &err), "source and sink on the GPU");
    expect(total.n == 50 && total.gaps == 0, "what comes after the end is dropped");
    expect(weft_operator_count(source).frames_out == 50, "and not counted");
    weft_flow_free(flow);
}

// ---- frames of columns ----------------------------------------------------------------------------------------------

static const weft_page_column table_columns[] = {
    { WEFT_PAGE_I32, 0 }, { WEFT_PAGE_I64, 512 }, { WEFT_PAGE_F64, 0 } };              // day, customer, amount

// What a plain scan finds: the amounts of some days, how many pages of 512 rows there are, and how many have such days.
typedef struct Table {
    int64_t n_frames, damaged, damaged_byte;                // the frame, and which of its bytes
    double  by_day;
    int64_t n_pages, n_day_pages;
} Table;

static void make_table(weft_round *round)
{
    Table *table = round->context;
    weft_pages pages;
    round->status = weft_pages_begin(round->output, round->output_capacity, table_columns, 3, &pages, NULL);
    int32_t *day = weft_pages_column(&pages, 0);
    int64_t *customer = weft_pages_column(&pages, 1);
    double *amount = weft_pages_column(&pages, 2);
    const uint64_t n = pages.rows_max - 100;                // the last page is not full
    uint64_t last_match = UINT64_MAX;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = round->offset * n + i;
        day[i] = (int32_t)(row / 500);
        customer[i] = (int64_t)(row * 2654435761u % 100000);
        amount[i] = (double)(row % 100);
        if (day[i] < 30 || day[i] > 33)
            continue;
        table->by_day += amount[i];
        table->n_day_pages += i / 512 != last_match;
        last_match = i / 512;
    }
    table->n_pages += 3 * (int64_t)((n + 511) / 512);
    round->output_bytes = weft_pages_finish(&pages, n);
    if (table->damaged == (int64_t)round->offset)
        ((uint8_t *)round->output)[table->damaged_byte] ^= 4;
    round->status = (int64_t)round->offset + 1 < table->n_frames ? WEFT_OK : WEFT_END_OF_STREAM;
}

static void add_up_amounts(weft_round *round)
{
    for (uint64_t i = 0; i < round->input_bytes / sizeof(double); i++)
        *(double *)round->context += ((const double *)round->input)[i];
}

static const char days_text[] = "OPERATOR(days)\n{\n    COLUMN(i32, day, 0);  COLUMN(f64, amount, 2);\n"
                                "    OUTPUT(f64, out);  PARAMS(i32, days);\n    f64 sum = 0;\n"
                                "    EACH_PAGE(p, day, MAY_HOLD(day, p, days[0], days[1])) {\n"
                                "        VALUES(i32, d, day, p);  VALUES(f64, x, amount, p);\n"
                                "        EACH_ROW(i, day, p) if (days[0] <= d[i] && d[i] <= days[1]) sum += x[i];\n"
                                "    }\n    SUM_WORKERS(f64, out, sum);\n}\n";
// One customer of 100,000, in the middle of every page's range.
static const char one_text[] = "OPERATOR(one)\n{\n    COLUMN(i64, customer, 1);\n"
                                  "    EACH_PAGE(p, customer, MAY_HOLD(customer, p, 50000, 50000)) {\n"
                                  "        VALUES(i64, c, customer, p);\n"
                                  "        EACH_ROW(i, customer, p) if (c[i] == -1) FAIL_WITH(2);\n    }\n}\n";

static weft_status read_table(Table *table, int64_t frame_bytes)
{
    static const int32_t days[] = { 30, 33 };
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *topic = new_topic(flow, 0, frame_bytes, WEFT_SIDE_HOST),
               *partial = new_topic(flow, 1, frame_bytes, WEFT_SIDE_HOST);
    double sum = 0;
    add(flow, NULL, (weft_operator_options){ .name = "table", .compute = make_table, .context = table }, topic);
    weft_operator *by_day = add(flow, topic, (weft_operator_options){
        .name = "days", .tile_c = days_text, .context = (void *)(uintptr_t)days, .context_bytes = sizeof(days),
        .side = WEFT_SIDE_DEVICE }, partial);
    weft_operator *one = add(flow, topic, (weft_operator_options){ .name = "one", .tile_c = one_text,
                                                                   .side = WEFT_SIDE_DEVICE }, NULL);
    add(flow, partial, (weft_operator_options){ .name = "sink", .compute = add_up_amounts, .context = &sum }, NULL);
    const weft_status status = weft_flow_run(flow, &err);
    const weft_operator_counts counts = weft_operator_count(by_day), few = weft_operator_count(one);
    if (!status) {
        expect(counts.is_on_gpu && sum == table->by_day && sum > 0, "pages give the sum of a plain scan");
        expect(counts.pages.pages == table->n_pages, "the pages of all columns are counted");
        expect(counts.pages.pages_asked == 2 * table->n_day_pages, "those of matching days are read, of two columns");
        expect(counts.pages.pages_by_range == table->n_pages / 3 - table->n_day_pages &&
                   counts.pages.pages_by_bloom == 0, "minimum and maximum rule out the others");
        expect(counts.pages.bytes_asked + counts.pages.bytes_by_range < counts.pages.bytes, "and bytes are counted");
        expect(few.pages.pages_asked + few.pages.pages_by_bloom + few.pages.pages_by_range == table->n_pages / 3 &&
                   few.pages.pages_by_bloom > table->n_pages / 3 / 2, "filters rule out most pages of one value");
    }
    weft_flow_free(flow);
    return status;
}

static void frames_of_columns(void)
{
    for (int64_t bytes = 32768; bytes <= 262144; bytes *= 2) {              // one block for a frame, and up to eight
        Table table = { .n_frames = 40, .damaged = -1 };
        ok(read_table(&table, bytes), "frames of columns");
    }
    Table column = { .n_frames = 40, .damaged = 7, .damaged_byte = 64 + 9 };
    expect(read_table(&column, 65536) == WEFT_CORRUPT, "a frame with a damaged column fails its operator");
    Table head = { .n_frames = 40, .damaged = 7, .damaged_byte = 8 };       // its columns are as they were
    expect(read_table(&head, 65536) == WEFT_CORRUPT, "a frame with a damaged head fails its operator");
}

// ---- coming and going -----------------------------------------------------------------------------------------------

static void publish(weft_publisher *publisher, int n)
{
    for (int k = 0; k < n; k++) {
        weft_frame *frame;
        ok(weft_publisher_take(publisher, WAIT_MS, &frame, &err), "an empty frame");
        for (int i = 0; i < ITEMS; i++)
            ((int32_t *)frame->data)[i] = 1;
        frame->length = frame->capacity;
        ok(weft_publisher_publish(publisher, frame, WAIT_MS, &err), "published");
    }
}

static void wait_until(_Atomic int64_t *count, int64_t n)
{
    for (int i = 0; i < WAIT_MS && *count < n; i++)
        usleep(1000);
}

static void leaves_when_idle_and_comes_back(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    Sink sink = { 0 };
    weft_publisher *publisher;
    ok(weft_publisher_open(in, &publisher, &err), "a publisher");
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&sink), NULL);
    ok(weft_flow_start(flow, &err), "started");
    for (int times = 1; times <= 3; times++) {
        publish(publisher, 5);
        wait_until(&sink.n_frames, 5 * times);
        expect(sink.n_frames == 5 * times, "frames come back after an idle time");
        for (int i = 0; i < WAIT_MS && weft_flow_gpu_counts(flow).is_running; i++)
            usleep(1000);
        expect(!weft_flow_gpu_counts(flow).is_running, "the kernel leaves when no frame comes");
        expect(weft_flow_gpu_counts(flow).left_idle >= times, "by itself");
    }
    weft_publisher_close(publisher);
    ok(weft_flow_wait(flow, WAIT_MS, &err), "ends");
    expect(sink.sum == 15 * ITEMS, "nothing is lost");
    weft_flow_free(flow);
}

static void enters_while_it_runs(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST),
               *late = new_topic(flow, 2, 4096, WEFT_SIDE_HOST);
    Source source = { 0 };
    Sink first = { 0 }, second = { 0 };
    int32_t factor = 5;
    add(flow, NULL, source_of(&source), in);
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&first), NULL);
    ok(weft_flow_start(flow, &err), "started");
    wait_until(&first.n_frames, 50);
    add(flow, out, (weft_operator_options){ .name = "times_n", .tile_c = times_text, .context = &factor,
                                            .context_bytes = sizeof(factor), .side = WEFT_SIDE_DEVICE,
                                            .start = WEFT_START_NEXT }, late);
    second.next = 0;
    add(flow, late, sink_of(&second), NULL);
    wait_until(&second.n_frames, 50);
    weft_flow_stop(flow, WEFT_STOP_DRAIN);
    ok(weft_flow_wait(flow, WAIT_MS, &err), "drained");
    expect(first.n_frames == source.n_made && !first.has_gap, "the operator that was there loses no frame");
    expect(first.sum == sum_of(source.n_made, ITEMS, 1), "nor a number");
    expect(second.n_frames >= 50 && !second.has_gap, "the new one has all from then on");
    expect(weft_flow_gpu_counts(flow).launches >= 2, "the kernel was launched anew for it");
    weft_flow_free(flow);
}

// What topics may hold is there before the first frame, so nothing sends the kernel away.
static void memory_is_there_before(int64_t frame_bytes, int frames_max, int64_t bytes_max)
{
    weft_flow *flow = new_flow((weft_flow_options){ .memory = { { .bytes_max = bytes_max } } });
    const weft_topic_options options = { .frame_bytes = frame_bytes, .frames_max = frames_max };
    weft_topic *in = NULL, *out = NULL;
    Source source = { .n_frames = 40 };
    Sink sink = { 0 };
    ok(weft_topic_new(flow, "in", &options, &in, &err), "a topic of large frames");
    ok(weft_topic_new(flow, "out", &options, &out, &err), "and another");
    add(flow, NULL, source_of(&source), in);
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&sink), NULL);
    ok(weft_flow_start(flow, &err), "started");
    const weft_heap_counts before = weft_flow_heap_counts(flow, WEFT_SIDE_HOST);
    ok(weft_flow_wait(flow, WAIT_MS, &err), "all frames were computed");
    const weft_heap_counts after = weft_flow_heap_counts(flow, WEFT_SIDE_HOST);
    expect(sink.n_frames == 40 && !sink.has_gap, "and none is lost");
    if (bytes_max > 0) {
        expect(after.bytes <= bytes_max, "a limit below what topics may hold is kept");
    } else {
        expect(before.bytes >= 2 * frames_max * frame_bytes, "memory for what topics may hold");
        expect(after.buffers_grown == before.buffers_grown, "and no more was wanted");
        expect(weft_flow_gpu_counts(flow).left_asked == 0, "so the kernel stayed");
    }
    weft_flow_free(flow);
}

static void memory_before(void)
{
    memory_is_there_before(1 << 20, 8, 0);
    memory_is_there_before(4 << 20, 4, 0);
    memory_is_there_before(1 << 20, 8, 12 << 20);
}

// Every buffer is one frame, so the heap grows again and again under the kernel: for topics that were made before the
// start it would have grown before.
static void memory_grows_under_it(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ .buffer_bytes = 4096 });
    ok(weft_flow_start(flow, &err), "started without topics");
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_DEVICE);
    Source source = { .n_frames = 80 };
    Total total = { 0 };
    add(flow, out, (weft_operator_options){ .name = "count", .tile_c = count_text, .context = &total,
                                            .context_bytes = sizeof(total), .side = WEFT_SIDE_DEVICE }, NULL);
    add(flow, in, copy_on_device(), out);
    add(flow, NULL, source_of(&source), in);
    ok(weft_flow_wait(flow, WAIT_MS, &err), "memory grows while the kernel runs");
    expect(weft_flow_heap_counts(flow, WEFT_SIDE_HOST).buffers_grown > 4, "buffer after buffer");
    expect(total.n == 80 && total.gaps == 0, "nothing is lost meanwhile");
    weft_flow_free(flow);
    flow = new_flow((weft_flow_options){ .memory = { { .bytes_max = 16384 }, { .bytes_max = 8192 } },
                                         .buffer_bytes = 4096 });
    Sink sink = { 0 };
    source = (Source){ .n_frames = 50 };
    in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    add(flow, NULL, source_of(&source), in);
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&sink), NULL);
    ok(weft_flow_run(flow, &err), "a heap of four frames is enough");
    expect(sink.n_frames == 50 && !sink.has_gap, "and slows down only");
    weft_flow_free(flow);
}

// ---- ends of all kinds ----------------------------------------------------------------------------------------------

// Frames without an end, through one operator of the card.
static weft_flow *start_copies(Source *source, Sink *sink, size_t frame_bytes)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, frame_bytes, WEFT_SIDE_HOST),
               *out = new_topic(flow, 1, frame_bytes, WEFT_SIDE_HOST);
    add(flow, NULL, source_of(source), in);
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(sink), NULL);
    ok(weft_flow_start(flow, &err), "started");
    return flow;
}

static void stops_while_busy(weft_stop how)
{
    Source source = { 0 };
    Sink sink = { 0 };
    weft_flow *flow = start_copies(&source, &sink, 65536);
    wait_until(&sink.n_frames, 20);
    weft_flow_stop(flow, how);
    ok(weft_flow_wait(flow, WAIT_MS, &err), "stopped while busy");
    expect(!sink.has_gap, "without a gap");
    expect(how == WEFT_STOP_NOW || sink.n_frames == source.n_made, "drained to the last frame");
    weft_flow_free(flow);
}

static void operator_stops(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    Source source = { 0 };
    Sink sink = { 0 };
    add(flow, NULL, source_of(&source), in);
    weft_operator *op = add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&sink), NULL);
    ok(weft_flow_start(flow, &err), "started");
    wait_until(&sink.n_frames, 20);
    weft_operator_stop(op);
    for (int i = 0; i < WAIT_MS && !weft_operator_count(op).has_ended; i++)
        usleep(1000);
    expect(weft_operator_count(op).has_ended, "one operator is taken out");
    weft_flow_free(flow);
}

// Rounds that are under way when the output is closed write to their frames; these are no other's until they have.
static void an_output_is_closed(void)
{
    static const char late_text[] = "OPERATOR(late)\n{\n    OUTPUT(u32, out);\n    u32 k = (u32)N_ITEMS(u32) | 1;\n"
                                    "    for (u32 i = 0; i < 8000000; i++) {\n"                 // 0.1 s
                                    "        k ^= k << 13;\n        k ^= k >> 17;\n        k ^= k << 5;\n    }\n"
                                    "    EACH_ITEM(i, CAPACITY(u32)) out[i] = k | 1;\n    EMIT(u32, 1);\n}\n";
    enum { FRAMES = 6, MOST = 32 };
    weft_flow *flow = new_flow((weft_flow_options){ .memory = { { .bytes_max = MOST * 4096 } },
                                                    .buffer_bytes = MOST * 4096 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *other = new_topic(flow, 2, 4096, WEFT_SIDE_HOST), *out;
    Source source = { .n_frames = FRAMES };
    weft_subscriber *reader;
    weft_frame *frames[MOST];
    int n = 0;
    weft_publisher *publisher;
    bool is_touched = false;
    ok(weft_topic_new(flow, "full", &(weft_topic_options){ .frame_bytes = 4096, .frames_max = 1 }, &out, &err),
       "a topic for one frame");
    ok(weft_subscriber_open(out, WEFT_START_OLDEST, &reader, &err), "that nobody reads");
    ok(weft_publisher_open(other, &publisher, &err), "a publisher of another topic");
    add(flow, NULL, source_of(&source), in);
    weft_operator *op = add(flow, in, (weft_operator_options){ .name = "late", .tile_c = late_text,
                                                               .side = WEFT_SIDE_DEVICE }, out);
    ok(weft_flow_start(flow, &err), "started");
    for (int i = 0; i < WAIT_MS && weft_operator_count(op).rounds < 2; i++)
        usleep(1000);                                       // the second finds no room
    weft_topic_close(out);
    for (int i = 0; i < WAIT_MS && !weft_operator_count(op).has_ended; i++)
        usleep(1000);
    expect(weft_operator_count(op).has_ended, "the operator ends");
    for (; n < MOST && weft_publisher_take(publisher, 0, &frames[n], NULL) == WEFT_OK; n++)
        memset(frames[n]->data, 0, frames[n]->capacity);
    expect(n > MOST / 2, "most frames are free then");
    usleep(300000);
    for (int i = 0; i < n; i++)
        is_touched |= ((const uint32_t *)frames[i]->data)[0] != 0;
    expect(!is_touched, "and no round of it writes to frames that others have taken since");
    weft_publisher_close(publisher);
    weft_subscriber_close(reader);
    weft_flow_free(flow);
}

static void a_host_thread_dies(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    Source source = { 0 };
    Sink sink = { .dies_at = 20 };
    add(flow, NULL, source_of(&source), in);
    add(flow, in, copy_on_device(), out);
    add(flow, out, sink_of(&sink), NULL);
    const weft_status status = weft_flow_run(flow, &err);
    expect(status == WEFT_OPERATOR_FAILED && strstr(err.message, "sink"), "a thread that dies fails the flow");
    weft_flow_free(flow);
}

// For about a second, on a GPU and with tcc.  A compiler drops a loop whose result is not used, even one over a
// volatile variable that is a thread's own (ptxas does), so the result is one that no compiler can know to be 0 never.
static const char slow_text[] = "OPERATOR(slow)\n{\n    u32 k = (u32)N_ITEMS(u32) | 1;\n"
                                "    for (u32 i = 0; i < 80000000; i++) {\n"
                                "        k ^= k << 13;\n        k ^= k >> 17;\n        k ^= k << 5;\n    }\n"
                                "    if (k == 0) FAIL_WITH(1);\n}\n";

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void an_operator_fails(weft_status said, weft_status expected)
{
    static const char bad_text[] = "OPERATOR(bad)\n{\n    if (R->offset == 10) FAIL_WITH(PARAM_STATUS);\n"
                                   "    EMIT(i32, R->offset < 20 ? 1 : CAPACITY(i32) + 1);\n}\n";
    char text[TEXT_BYTES];
    weft_flow *flow = new_flow((weft_flow_options){ .watchdog_ms = 60000, .stop_ms = 60000 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *out = new_topic(flow, 1, 4096, WEFT_SIDE_HOST);
    Source source = { .n_frames = 40 };
    snprintf(text, sizeof(text), "#define PARAM_STATUS %d\n%s", (int)said, bad_text);
    add(flow, NULL, source_of(&source), in);
    add(flow, in, (weft_operator_options){ .name = "bad", .tile_c = text, .side = WEFT_SIDE_DEVICE }, out);
    expect(weft_flow_run(flow, &err) == expected, "an operator fails the flow");
    expect(strstr(err.message, "\"bad\"") != NULL, "and is named");
    weft_flow_free(flow);
}

static void an_operator_hangs(void)
{
    enum { WATCHDOG_MS = 100 };
    weft_flow *flow = new_flow((weft_flow_options){ .watchdog_ms = WATCHDOG_MS, .stop_ms = 60000 });
    weft_topic *in = new_topic(flow, 0, 4096, WEFT_SIDE_HOST);
    Source source = { .n_frames = 1 };
    add(flow, NULL, source_of(&source), in);
    weft_operator *op = add(flow, in, (weft_operator_options){ .name = "slow", .tile_c = slow_text,
                                                               .side = WEFT_SIDE_DEVICE }, NULL);
    const double began_ms = now_ms();
    expect(weft_flow_run(flow, &err) == WEFT_OPERATOR_FAILED, "an operator that hangs fails the flow");
    expect(strstr(err.message, "\"slow\" has computed one frame for more") != NULL, "and is named, too");
    while (!weft_operator_count(op).has_ended && now_ms() - began_ms < 60000)
        usleep(1000);
    expect(now_ms() - began_ms > 2 * WATCHDOG_MS, "it was slow enough to be noticed");
    weft_flow_free(flow);
}

static void an_operator_fails_or_hangs(void)
{
    an_operator_fails(WEFT_OUT_OF_RANGE, WEFT_OUT_OF_RANGE);
    an_operator_fails(WEFT_OK, WEFT_OPERATOR_FAILED);       // it says that there is more than the frame holds
    an_operator_hangs();
}

static void is_refused(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ 0 }), *other = NULL;
    weft_topic *near = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *far = new_topic(flow, 1, 4096, WEFT_SIDE_DEVICE);
    weft_publisher *publisher;
    weft_subscriber *subscriber;
    int32_t factor = 1;
    weft_operator_options wrong = { .name = "pass", .compute = pass_on, .side = WEFT_SIDE_DEVICE };
    expect(weft_flow_link(flow, near, &wrong, NULL, NULL, &err) == WEFT_UNSUPPORTED, "a function on a named GPU");
    wrong = (weft_operator_options){ .name = "times_n", .tile_c = times_text, .context = &factor,
                                     .side = WEFT_SIDE_DEVICE };
    expect(weft_flow_link(flow, near, &wrong, NULL, NULL, &err) == WEFT_INVALID_PARAMETER &&
               strstr(err.hint, "context_bytes"), "a context without a size");
    wrong = (weft_operator_options){ .name = "bad", .tile_c = "OPERATOR(bad) { nonsense }", .side = WEFT_SIDE_DEVICE };
    expect(weft_flow_link(flow, near, &wrong, NULL, NULL, &err) == WEFT_KERNEL_BUILD, "a text that is none");
    expect(weft_publisher_open(far, &publisher, &err) == WEFT_INVALID_PARAMETER &&
               strstr(err.message, "cuda:0"), "a publisher of the host in device memory");
    expect(weft_subscriber_open(far, WEFT_START_OLDEST, &subscriber, &err) == WEFT_INVALID_PARAMETER,
           "a subscriber of the host in device memory");
    wrong = (weft_operator_options){ .name = "pass", .compute = pass_on };
    expect(weft_flow_link(flow, far, &wrong, NULL, NULL, &err) == WEFT_INVALID_PARAMETER,
           "an operator of the host in device memory");
    weft_flow_free(flow);
    expect(weft_flow_new(&(weft_flow_options){ .device = "gpu" }, &other, &err) == WEFT_INVALID_PARAMETER && !other,
           "a device that is none");
    expect(weft_flow_new(&(weft_flow_options){ .device = "cuda:99" }, &other, &err) == WEFT_NO_DEVICE && !other,
           "a GPU that is not there");
    ok(weft_flow_new(&(weft_flow_options){ .device = "cpu" }, &other, &err), "threads, asked for");
    expect(weft_flow_gpu_counts(other).device[0] == 0, "use no GPU");
    weft_flow_free(other);
}

// By default a function of the DEVICE side runs on threads beside tile C on the GPU.
static void auto_takes_what_it_can(void)
{
    weft_flow *flow = new_flow((weft_flow_options){ .device = "auto" });
    weft_topic *a = new_topic(flow, 0, 4096, WEFT_SIDE_HOST), *b = new_topic(flow, 1, 4096, WEFT_SIDE_HOST),
               *c = new_topic(flow, 2, 4096, WEFT_SIDE_HOST);
    Source source = { .n_frames = 40 };
    Sink sink = { 0 };
    add(flow, NULL, source_of(&source), a);
    weft_operator *on_gpu = add(flow, a, copy_on_device(), b),
                  *on_threads = add(flow, b, (weft_operator_options){ .name = "pass", .compute = pass_on,
                                                                      .side = WEFT_SIDE_DEVICE }, c);
    add(flow, c, sink_of(&sink), NULL);
    ok(weft_flow_run(flow, &err), "both kinds of DEVICE operators");
    expect(sink.n_frames == 40 && !sink.has_gap, "side by side");
    expect(weft_operator_count(on_gpu).is_on_gpu && !weft_operator_count(on_threads).is_on_gpu, "each in its place");
    weft_flow_free(flow);
}

// ---- faults ---------------------------------------------------------------------------------------------------------

enum { LOST = 700 };                                        // all calls fail from then on

// A small flow, whatever fails: it comes back with the right sum, or with an error.
static weft_status small_flow(bool is_managed)
{
    weft_flow *flow = NULL;
    weft_topic *topics[3] = { NULL };
    Source source = { .n_frames = 30 };
    Sink sink = { 0 };
    int32_t factor = 2;
    const weft_operator_options times = { .name = "times_n", .tile_c = times_text, .context = &factor,
                                          .context_bytes = sizeof(factor), .side = WEFT_SIDE_DEVICE },
        copy = copy_on_device(), first = source_of(&source), last = sink_of(&sink);
    const weft_flow_options options = { .device = "cuda:0", .buffer_bytes = 65536, .is_managed = is_managed };
    weft_status status = weft_flow_new(&options, &flow, &err);
    for (int i = 0; i < 3 && !status; i++) {
        char name[8];
        snprintf(name, sizeof(name), "t%d", i);
        const weft_topic_options topic = { .frame_bytes = 4096, .side = i == 1 ? WEFT_SIDE_DEVICE : WEFT_SIDE_HOST };
        status = weft_topic_new(flow, name, &topic, &topics[i], &err);
    }
    if (!status && !(status = weft_flow_link(flow, NULL, &first, topics[0], NULL, &err)) &&
        !(status = weft_flow_link(flow, topics[0], &times, topics[1], NULL, &err)) &&
        !(status = weft_flow_link(flow, topics[1], &copy, topics[2], NULL, &err)) &&
        !(status = weft_flow_link(flow, topics[2], &last, NULL, NULL, &err)))
        status = weft_flow_run(flow, &err);
    if (!status && (sink.n_frames != 30 || sink.has_gap || sink.sum != sum_of(30, ITEMS, 2)))
        status = WEFT_CORRUPT;
    weft_flow_free(flow);
    return status;
}

static void every_call_fails(void)
{
    static const char *const calls[] = {
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate", "cuEventCreate", "cuMemHostAlloc",
        "cuMemHostGetDevicePointer", "cuMemAlloc", "cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuStreamSynchronize",
        "nvrtcCompileProgram", "cuModuleLoadData", "cuModuleGetFunction",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuLaunchKernel", "cuEventRecord", "cuEventQuery",
        "cuMemAllocManaged", "cuMemAdvise" };              // frames are managed memory for these
    static const int results[] = { 1, 2, LOST };            // an ordinary one, out of memory, the card is lost
    int n_failed_flows = 0;
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (size_t r = 0; r < 3; r++)
            for (int nth = 1; nth <= 4; nth++) {
                char what[120];
                if (strncmp(calls[c], "nvrtc", 5) == 0 && r == 2)
                    continue;
                fail_at(calls[c], nth, results[r]);
                const weft_status status = small_flow(strstr(calls[c], "Managed") || strstr(calls[c], "Advise"));
                fail_at("none", 0, 0);
                snprintf(what, sizeof(what), "%s, number %d, fails with %d", calls[c], nth, results[r]);
                n_failed_flows += status != WEFT_OK;
                // A thread that gives the context back does not look at the answer; the next call says it.  When the
                // card is lost all calls fail: another thread's may be the first to say so.
                const bool any_call = strcmp(calls[c], "cuCtxSetCurrent") == 0 || results[r] == LOST;
                const bool is_named = strstr(err.message, calls[c]) || strstr(err.message, "no frame of") ||
                                      (any_call && strstr(err.message, "cuda:0"));
                check(!status || (status != WEFT_CORRUPT && is_named), what, err.message);
            }
    expect(n_failed_flows > 40, "most of these are noticed");
    ok(small_flow(false), "the next flow runs as if nothing had been");
}

static void the_card_is_lost(void)
{
    Source source = { 0 };
    Sink sink = { 0 };
    weft_flow *flow = start_copies(&source, &sink, 4096);
    wait_until(&sink.n_frames, 50);
    fail_at("cuEventQuery", -1, LOST);
    const weft_status status = weft_flow_wait(flow, WAIT_MS, &err);
    expect(status == WEFT_DEVICE_FAILED && strstr(err.message, "(CUDA_ERROR_FAKE, 700)"), "a lost card ends the flow");
    expect(!sink.has_gap, "what came before is right");
    weft_flow_free(flow);
    fail_at("none", 0, 0);
    ok(small_flow(false), "and another flow runs when the driver does again");
}

static void frames_of_two_sizes(void)
{
    there_and_back(4096, 300, false);
    there_and_back(262144, 30, false);
}

static void chains(void)
{
    for (int n = 1; n <= 4; n++) {
        chain(n, false);
        chain(n, true);
    }
}

static void stops_in_both_ways(void)
{
    stops_while_busy(WEFT_STOP_NOW);
    stops_while_busy(WEFT_STOP_DRAIN);
}

// Each says how long it took: on a card some wait for the driver and the compiler.
static void part(const char *name, void (*run)(void))
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    run();
    clock_gettime(CLOCK_MONOTONIC, &after);
    printf("%8.0f ms  %s\n", (double)(after.tv_sec - before.tv_sec) * 1e3 +
                                (double)(after.tv_nsec - before.tv_nsec) / 1e6, name);
}

int main(void)
{
    setlinebuf(stdout);                                     // one that hangs has said what failed before
    const char *driver = getenv("WEFT_LIBCUDA");
    void *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    part("there and back", frames_of_two_sizes);
    part("managed memory", managed_memory);
    part("chains", chains);
    part("state and end", state_and_end);
    part("source and sink on the GPU", source_and_sink_on_the_gpu);
    part("frames of columns", frames_of_columns);
    part("leaves when idle and comes back", leaves_when_idle_and_comes_back);
    part("enters while it runs", enters_while_it_runs);
    part("memory is there before", memory_before);
    part("memory grows under it", memory_grows_under_it);
    part("stops while busy", stops_in_both_ways);
    part("an operator stops", operator_stops);
    part("an output is closed", an_output_is_closed);
    part("a host thread dies", a_host_thread_dies);
    part("an operator fails or hangs", an_operator_fails_or_hangs);
    part("is refused", is_refused);
    part("auto takes what it can", auto_takes_what_it_can);
    if (fail_at) {
        part("every call fails", every_call_fails);
        part("the card is lost", the_card_is_lost);
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
