// test_flow_heap.c - the frame heap: sizes, growing, stealing, limits, errors of callers, threads.

#include "test.h"

#include <sys/wait.h>

#include "base/random.h"
#include "flow/flow_int.h"

static FrameInfo *take(FrameHeap *heap, weft_side side, u64 bytes)
{
    FrameInfo *info = NULL;
    Error err = { 0 };
    CHECK_OK(heap_take(heap, side, bytes, &info, &err), err);
    return info;
}

static void give(FrameInfo *info)
{
    atomic_store(&info->holds, 0);
    heap_give(info);
}

TEST(heap_frames_of_all_sizes_do_not_overlap)
{
    FrameHeap *heap = heap_new(&(weft_flow_options){ 0 });
    FrameInfo *frames[64];
    int n = 0;
    for (u64 bytes = 4096; bytes <= 16 << 20; bytes *= 2)
        for (int i = 0; i < 3; i++)
            frames[n++] = take(heap, WEFT_SIDE_HOST, bytes - (u64)i);
    for (int i = 0; i < n; i++) {
        CHECK((uintptr_t)frames[i]->frame.data % 4096 == 0);
        memset(frames[i]->frame.data, i, frames[i]->frame.capacity);
    }
    for (int i = 0; i < n; i++) {
        const u8 *bytes = frames[i]->frame.data;
        for (u64 at = 0; at < frames[i]->frame.capacity; at += 512)
            CHECK_INT(bytes[at], i);
        CHECK_INT((i64)frames[i]->frame.capacity, 4096 << i / 3);
        give(frames[i]);
    }
    const weft_heap_counts counts = heap_counts(heap, WEFT_SIDE_HOST);
    CHECK_INT(counts.frames_used, 0);
    CHECK_INT(counts.frames_taken, n);
    CHECK_INT(counts.frames_freed, n);
    CHECK_INT(heap_free(heap), 0);
}

TEST(heap_grows_to_its_limit_and_then_refuses)
{
    const weft_flow_options options = { .memory = { { .bytes_max = 1 << 20 }, { .is_private = true } } };
    FrameHeap *heap = heap_new(&options);
    FrameInfo *frames[17], *none = NULL;
    Error err = { 0 };
    for (int i = 0; i < 16; i++)
        frames[i] = take(heap, WEFT_SIDE_HOST, 65536);
    CHECK_STATUS(heap_take(heap, WEFT_SIDE_HOST, 65536, &none, &err), WEFT_OUT_OF_MEMORY);
    CHECK_STR(err.sqlstate, "53200");
    CHECK_HAS(err.message, "64 KiB");
    weft_heap_counts counts = heap_counts(heap, WEFT_SIDE_HOST);
    CHECK_INT(counts.bytes, 1 << 20);
    CHECK_INT(counts.refused, 1);
    give(frames[7]);
    CHECK(take(heap, WEFT_SIDE_HOST, 65536) == frames[7]);
    for (int i = 0; i < 16; i++)
        give(frames[i]);
    CHECK_INT(heap_free(heap), 0);
}

TEST(heap_cuts_empty_buffers_anew_and_gives_small_ones_back)
{
    const weft_flow_options options = { .memory = { { .bytes_max = 1 << 20 }, { .is_private = true } },
                                        .buffer_bytes = 256 << 10 };
    FrameHeap *heap = heap_new(&options);
    FrameInfo *frames[256];
    for (int i = 0; i < 256; i++)
        frames[i] = take(heap, WEFT_SIDE_HOST, 4096);
    for (int i = 0; i < 256; i++)
        give(frames[i]);
    CHECK_INT(heap_counts(heap, WEFT_SIDE_HOST).buffers, 4);
    FrameInfo *larger = take(heap, WEFT_SIDE_HOST, 128 << 10);      // fits a buffer that was cut for 4 KB
    CHECK_INT(heap_counts(heap, WEFT_SIDE_HOST).buffers, 4);
    give(larger);
    FrameInfo *whole = take(heap, WEFT_SIDE_HOST, 1 << 20);         // fits none: four go, one comes
    weft_heap_counts counts = heap_counts(heap, WEFT_SIDE_HOST);
    CHECK_INT(counts.buffers, 1);
    CHECK_INT(counts.buffers_given, 4);
    CHECK_INT(counts.bytes_most, 1 << 20);
    give(whole);
    for (int i = 0; i < 256; i++)
        frames[i] = take(heap, WEFT_SIDE_HOST, 4096);
    for (int i = 0; i < 256; i++)
        give(frames[i]);
    CHECK_INT(heap_free(heap), 0);
}

TEST(heap_steals_from_the_other_side)
{
    const weft_flow_options options = { .memory = { { .bytes_max = 8192 }, { .bytes_max = 16384 } },
                                        .buffer_bytes = 16384 };
    FrameHeap *heap = heap_new(&options);
    FrameInfo *frames[6], *none;
    Error err = { 0 };
    for (int i = 0; i < 2; i++)
        frames[i] = take(heap, WEFT_SIDE_HOST, 4096);
    CHECK_STATUS(heap_take(heap, WEFT_SIDE_HOST, 4096, &none, &err), WEFT_OUT_OF_MEMORY);   // none to steal yet
    give(take(heap, WEFT_SIDE_DEVICE, 8192));                       // now there is a buffer, cut for another size
    for (int i = 2; i < 6; i++) {
        frames[i] = take(heap, WEFT_SIDE_HOST, 4096);
        CHECK_INT(frames[i]->frame.side, WEFT_SIDE_DEVICE);
    }
    CHECK_INT(heap_counts(heap, WEFT_SIDE_HOST).frames_stolen, 4);
    error_clear(&err);
    CHECK_STATUS(heap_take(heap, WEFT_SIDE_HOST, 4096, &none, &err), WEFT_OUT_OF_MEMORY);
    for (int i = 0; i < 6; i++)
        give(frames[i]);
    CHECK_INT(heap_free(heap), 0);
}

// Memory behind a hook: what a pinned or a device allocator would be.
typedef struct Hook { int n_taken, n_given, n_refused; int most; } Hook;

static void *hook_take(void *context, size_t bytes)
{
    Hook *hook = context;
    if (hook->n_taken - hook->n_given >= hook->most) {
        hook->n_refused++;
        return NULL;
    }
    hook->n_taken++;
    return aligned_alloc(4096, bytes);
}

static void hook_give(void *context, void *memory, size_t bytes)
{
    (void)bytes;
    ((Hook *)context)->n_given++;
    free(memory);
}

TEST(heap_takes_memory_through_the_hook)
{
    Hook hook = { .most = 2 };
    const weft_flow_options options = {
        .memory = { { .is_private = true }, { hook_take, hook_give, &hook, .is_remote = true } },
        .buffer_bytes = 8192 };
    FrameHeap *heap = heap_new(&options);
    FrameInfo *frames[4], *none;
    Error err = { 0 };
    for (int i = 0; i < 4; i++)
        frames[i] = take(heap, WEFT_SIDE_DEVICE, 4096);
    CHECK_STATUS(heap_take(heap, WEFT_SIDE_DEVICE, 4096, &none, &err), WEFT_OUT_OF_MEMORY);
    CHECK_INT(hook.n_taken, 2);
    CHECK(hook.n_refused > 0);
    for (int i = 0; i < 4; i++)
        give(frames[i]);
    CHECK_INT(heap_free(heap), 0);
    CHECK_INT(hook.n_given, 2);
}

TEST(heap_memory_that_the_system_refuses_is_a_status)
{
    FrameHeap *heap = heap_new(&(weft_flow_options){ .memory = { { 0 }, { .is_private = true } } });
    FrameInfo *info;
    Error err = { 0 };
    fault_set(FAULT_MEMORY, 1, true);
    CHECK_STATUS(heap_take(heap, WEFT_SIDE_HOST, 1 << 20, &info, &err), WEFT_OUT_OF_MEMORY);
    fault_set(FAULT_MEMORY, 0, false);
    give(take(heap, WEFT_SIDE_HOST, 1 << 20));
    CHECK_INT(heap_free(heap), 0);
}

TEST(heap_counts_what_leaks)
{
    FrameHeap *heap = heap_new(&(weft_flow_options){ 0 });
    take(heap, WEFT_SIDE_HOST, 4096);
    give(take(heap, WEFT_SIDE_HOST, 4096));
    take(heap, WEFT_SIDE_DEVICE, 4096);
    CHECK_INT(heap_free(heap), 2);
}

// ---- errors of callers: each ends the process in builds with asserts ------------------------------------------------

static bool ends_the_process(void (*body)(FrameHeap *))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(2);
        body(heap_new(&(weft_flow_options){ 0 }));
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void free_twice(FrameHeap *heap)
{
    FrameInfo *info;
    Error err = { 0 };
    heap_take(heap, WEFT_SIDE_HOST, 4096, &info, &err);
    weft_frame_drop(&info->frame);
    weft_frame_drop(&info->frame);
}

static void write_after_free(FrameHeap *heap)
{
    FrameInfo *infos[8];
    Error err = { 0 };
    heap_take(heap, WEFT_SIDE_HOST, 4 << 20, &infos[0], &err);
    volatile u8 *old = infos[0]->frame.data;
    weft_frame_drop(&infos[0]->frame);
    old[8192] = 1;
    heap_take(heap, WEFT_SIDE_HOST, 4 << 20, &infos[1], &err);
}

static void behave(FrameHeap *heap)
{
    FrameInfo *info;
    Error err = { 0 };
    heap_take(heap, WEFT_SIDE_HOST, 4096, &info, &err);
    weft_frame_hold(&info->frame);
    weft_frame_drop(&info->frame);
    weft_frame_drop(&info->frame);
    heap_free(heap);
}

TEST(heap_finds_double_frees_and_use_after_free)
{
    CHECK(!ends_the_process(behave));
#ifdef WEFT_ASSERTS
    CHECK(ends_the_process(free_twice));
    CHECK(ends_the_process(write_after_free));
#else
    CHECK(!ends_the_process(free_twice));
#endif
}

// ---- threads --------------------------------------------------------------------------------------------------------

enum { N_THREADS = 4, N_STEPS = 8000, N_HELD = 24 };

typedef struct Hammer { FrameHeap *heap; int number; i64 n_refused; bool is_wrong; } Hammer;

// Takes and gives frames of mixed sizes at random; each frame carries its owner's mark, which nobody else may write.
static void *hammer(void *context)
{
    Hammer *h = context;
    FrameInfo *held[N_HELD] = { NULL };
    for (u64 i = 0; i < N_STEPS; i++) {
        const u64 random = random_bits((u64)h->number, i);
        FrameInfo **place = &held[random % N_HELD];
        if (*place) {
            const u64 *words = (*place)->frame.data, last = (*place)->frame.capacity / 8 - 1;
            h->is_wrong |= words[0] != (u64)h->number || words[last] != (u64)(uintptr_t)place;
            give(*place);
            *place = NULL;
            continue;
        }
        Error err = { 0 };
        if (heap_take(h->heap, (weft_side)(random >> 20 & 1), (u64)4096 << (random >> 32) % 5, place, &err)) {
            h->n_refused++;
            *place = NULL;
            continue;
        }
        u64 *words = (*place)->frame.data;
        words[0] = (u64)h->number;
        words[(*place)->frame.capacity / 8 - 1] = (u64)(uintptr_t)place;
    }
    for (int i = 0; i < N_HELD; i++)
        if (held[i])
            give(held[i]);
    return NULL;
}

TEST(heap_serves_many_threads)
{
    const weft_flow_options options = { .memory = { { .bytes_max = 1 << 18 }, { .bytes_max = 1 << 17 } },
                                        .buffer_bytes = 64 << 10 };
    FrameHeap *heap = heap_new(&options);
    Hammer hammers[N_THREADS];
    pthread_t threads[N_THREADS];
    i64 n_refused = 0;
    for (int i = 0; i < N_THREADS; i++) {
        hammers[i] = (Hammer){ .heap = heap, .number = i + 1 };
        CHECK_INT(thread_start(&threads[i], NULL, hammer, &hammers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!hammers[i].is_wrong);
        n_refused += hammers[i].n_refused;
    }
    const weft_heap_counts host = heap_counts(heap, WEFT_SIDE_HOST), device = heap_counts(heap, WEFT_SIDE_DEVICE);
    printf("%lld taken, %lld stolen, %lld refused, %lld buffers given back\n",
           (long long)(host.frames_taken + device.frames_taken), (long long)(host.frames_stolen + device.frames_stolen),
           (long long)n_refused, (long long)(host.buffers_given + device.buffers_given));
    CHECK(n_refused > 0 && host.frames_stolen + device.frames_stolen > 0);      // it was full, and both sides lent
    CHECK_INT(host.frames_used + device.frames_used, 0);
    CHECK(host.bytes_most <= 1 << 18 && device.bytes_most <= 1 << 17);
    CHECK_INT(heap_free(heap), 0);
}
