// test_model_sim.c - the block scheduler: figures 5 to 10 and Tables III and IV of paper 3, and what must hold anyway.

#include "test.h"

#include "model_help.h"

enum { MS = 1000000 };                                      // in nanoseconds

static SimKernel a_of(int n_blocks)                         // Table IV: 14 ms
{
    return (SimKernel){ kernel_a, 1024, n_blocks, 14 * MS };
}

static SimKernel b_of(int n_blocks)                         // 20 ms
{
    return (SimKernel){ kernel_b, 1024, n_blocks, 20 * MS };
}

static Arena *arena;

static Timeline run(const GpuLimits *limits, const SimStream *streams, int n_streams)
{
    Timeline timeline;
    arena_free(arena);
    arena = arena_new(NULL, "test");
    error_clear(&err);
    CHECK_OK(sim_run(arena, limits, streams, n_streams, &timeline, &err), err);
    return timeline;
}

static void check_phases(const Timeline *timeline, int n_phases, const int *lengths_ms)
{
    i64 before_ns = 0;
    CHECK_INT(timeline->n_phases, n_phases);
    for (int i = 0; i < n_phases; i++) {
        CHECK_INT((timeline->phase_ends_ns[i] - before_ns) / MS, lengths_ms[i]);
        before_ns = timeline->phase_ends_ns[i];
    }
}

// Blocks of a kernel of a stream that run on a multiprocessor (-1: on any) at a time.
static int count_at(const Timeline *timeline, int multiprocessor, int stream, int kernel, i64 at_ms)
{
    int n = 0;
    for (int i = 0; i < timeline->n_spans; i++) {
        const SimSpan *span = &timeline->spans[i];
        n += (multiprocessor < 0 || span->multiprocessor == multiprocessor) && span->stream == stream &&
             span->kernel == kernel && span->start_ns <= at_ms * MS && span->end_ns > at_ms * MS;
    }
    return n;
}

// ---- the figures ----------------------------------------------------------------------------------------------------

TEST(figure_5_four_of_eight_streams_run_at_once)
{
    const GpuLimits cards[] = { card("GTX 680"), card("Tesla K40") };
    const SimKernel a = a_of(4);
    SimStream streams[8];
    for (int i = 0; i < 8; i++)
        streams[i] = (SimStream){ &a, 1 };
    Timeline timeline = run(&cards[0], streams, 8);
    check_phases(&timeline, 2, (int[]){ 14, 14 });
    for (int stream = 0; stream < 8; stream++) {
        CHECK_INT(count_at(&timeline, -1, stream, 0, 0), stream < 4 ? 4 : 0);
        CHECK_INT(count_at(&timeline, -1, stream, 0, 14), stream < 4 ? 0 : 4);
    }
    // The K40's fifteen multiprocessors have room for 30 blocks: seven streams, and two blocks of the eighth.
    timeline = run(&cards[1], streams, 8);
    CHECK_INT(count_at(&timeline, -1, 6, 0, 0), 4);
    CHECK_INT(count_at(&timeline, -1, 7, 0, 0), 2);
}

TEST(figure_6_blocks_take_as_many_multiprocessors_as_possible)
{
    const GpuLimits limits = card("GTX 680");
    const SimKernel a = a_of(8), b = b_of(5);
    const SimStream streams[] = { { &a, 1 }, { &b, 1 }, { &b, 1 } };
    const Timeline timeline = run(&limits, streams, 3);
    check_phases(&timeline, 3, (int[]){ 14, 6, 20 });
    for (int mp = 0; mp < 8; mp++) {                        // phase I: one A1 everywhere, five B2 and three B3 beside
        CHECK_INT(count_at(&timeline, mp, 0, 0, 0), 1);
        CHECK_INT(count_at(&timeline, mp, 1, 0, 0), mp < 5);
        CHECK_INT(count_at(&timeline, mp, 2, 0, 0), mp >= 5);
    }
    CHECK_INT(count_at(&timeline, -1, 1, 0, 14), 5);        // phase II: no B beside a B
    CHECK_INT(count_at(&timeline, -1, 2, 0, 14), 3);
    CHECK_INT(count_at(&timeline, -1, 2, 0, 20), 2);        // phase III: the last two
}

// The text's "phase II ran for only 8ms" is a slip: phase II has 6 ms and phase III 8, as its own figure says.
TEST(figures_7_and_8_blocks_start_as_soon_as_there_is_room)
{
    const GpuLimits limits = card("GTX 680");
    const SimKernel a = a_of(8), b = b_of(8);
    const SimStream streams[] = { { &a, 1 }, { &b, 1 }, { &a, 1 } };
    const Timeline timeline = run(&limits, streams, 3);
    check_phases(&timeline, 3, (int[]){ 14, 6, 8 });
    for (int mp = 0; mp < 8; mp++) {
        CHECK_INT(count_at(&timeline, mp, 0, 0, 0), 1);
        CHECK_INT(count_at(&timeline, mp, 2, 0, 0), 0);
        CHECK_INT(count_at(&timeline, mp, 1, 0, 14), 1);    // phase II: A3 beside B2
        CHECK_INT(count_at(&timeline, mp, 2, 0, 14), 1);
    }
}

static void four_streams(SimKernel kernels[2], SimStream streams[4])
{
    kernels[0] = a_of(8);
    kernels[1] = b_of(6);
    for (int i = 0; i < 4; i++)
        streams[i] = (SimStream){ kernels, 2 };
}

TEST(figure_9_without_hyper_q_a_stream_waits_for_those_of_higher_rank)
{
    const GpuLimits limits = card("GTX 680");
    SimKernel kernels[2];
    SimStream streams[4];
    four_streams(kernels, streams);
    const Timeline timeline = run(&limits, streams, 4);
    check_phases(&timeline, 8, (int[]){ 14, 14, 6, 14, 6, 14, 6, 14 });
    CHECK_INT(count_at(&timeline, -1, 0, 0, 0), 8);         // phase I: A1 only, though there is room for A2
    CHECK_INT(count_at(&timeline, -1, 1, 0, 0), 0);
    CHECK_INT(count_at(&timeline, -1, 0, 1, 14), 6);        // phase II: B1 and A2
    CHECK_INT(count_at(&timeline, -1, 1, 0, 14), 8);
    CHECK_INT(count_at(&timeline, -1, 1, 1, 28), 2);        // phase III: two B2 where no B1 is; no A3 yet
    CHECK_INT(count_at(&timeline, -1, 2, 0, 28), 0);
    CHECK_INT(count_at(&timeline, -1, 1, 1, 34), 6);        // phase IV: all B2, and A3
    CHECK_INT(count_at(&timeline, -1, 2, 0, 34), 8);
}

// As measured: A1 and A2, A3 and A4, then one B on each multiprocessor at a time.
TEST(figure_9_with_hyper_q_what_waits_for_room_gets_it_before_what_waits_for_a_kernel)
{
    const GpuLimits limits = card("H200");
    const int       n = limits.n_multiprocessors;
    const SimKernel kernels[] = { a_of(n), b_of(n * 6 / 8) };
    SimStream       streams[4];
    for (int i = 0; i < 4; i++)
        streams[i] = (SimStream){ kernels, 2 };
    const Timeline timeline = run(&limits, streams, 4);
    check_phases(&timeline, 5, (int[]){ 14, 14, 20, 20, 20 });
    for (int stream = 0; stream < 4; stream++)
        CHECK_INT(count_at(&timeline, -1, stream, 0, stream < 2 ? 0 : 14), n);
}

TEST(figure_10_with_hyper_q_every_a_starts_before_any_b)
{
    const GpuLimits limits = card("Tesla K40");
    const SimKernel kernels[] = { a_of(1), b_of(1) };
    SimStream streams[8];
    for (int i = 0; i < 8; i++)
        streams[i] = (SimStream){ kernels, 2 };
    Timeline timeline = run(&limits, streams, 8);
    i64 last_a = 0, first_b = INT64_MAX;
    for (int i = 0; i < timeline.n_spans; i++) {
        if (timeline.spans[i].kernel == 0)
            last_a = MAX_OF(last_a, timeline.spans[i].start_ns);
        else
            first_b = MIN_OF(first_b, timeline.spans[i].start_ns);
    }
    CHECK_INT(last_a, 0);
    CHECK_INT(first_b, 14 * MS);
    check_phases(&timeline, 2, (int[]){ 14, 20 });

    GpuLimits without = limits;                             // the same card, one queue
    without.has_hyper_q = false;
    timeline = run(&without, streams, 8);
    CHECK_INT(count_at(&timeline, -1, 0, 0, 0), 1);
    CHECK_INT(count_at(&timeline, -1, 1, 0, 0), 0);
}

// ---- Table III: what runs together ----------------------------------------------------------------------------------

static void check_together(KernelNeeds first, KernelNeeds second, int threads_per_block, int n_second)
{
    const GpuLimits limits = card("GTX 680");
    const SimKernel kernels[] = { { first, threads_per_block, 8, MS }, { second, threads_per_block, 80, MS } };
    const SimStream streams[] = { { &kernels[0], 1 }, { &kernels[1], 1 } };
    const Timeline timeline = run(&limits, streams, 2);
    for (int mp = 0; mp < 8; mp++) {
        CHECK_INT(count_at(&timeline, mp, 0, 0, 0), 1);
        CHECK_INT(count_at(&timeline, mp, 1, 0, 0), n_second);
    }
}

TEST(one_a_and_one_b_share_a_multiprocessor)
{
    check_together(kernel_a, kernel_b, 1024, 1);
}

TEST(one_c_and_five_d_share_a_multiprocessor)
{
    check_together(kernel_c, kernel_d, 256, 5);
}

TEST(one_e_and_one_f_share_a_multiprocessor)
{
    check_together(kernel_e, kernel_f, 256, 1);
}

TEST(with_65535_registers_only_four_d_run_beside_a_c)
{
    GpuLimits limits = card("GTX 680");
    limits.registers = 65535;                               // as Table I has it
    const SimKernel c = { kernel_c, 256, 8, MS }, d = { kernel_d, 256, 80, MS };
    const SimStream streams[] = { { &c, 1 }, { &d, 1 } };
    const Timeline timeline = run(&limits, streams, 2);
    CHECK_INT(count_at(&timeline, 0, 1, 0, 0), 4);
}

// ---- what must hold for any kernels ---------------------------------------------------------------------------------

TEST(one_kernel_takes_the_rounds_of_the_model)
{
    u64 state = 2;
    for (int i = 0; i < 400; i++) {
        const GpuLimits limits = card(limits_card_name(draw(&state, limits_card_count())));
        const KernelNeeds needs = { .registers = draw(&state, 64), .shared = draw(&state, 3) * draw(&state, 9000) };
        const SimKernel kernel = { .needs = needs,
                                   .threads_per_block = 1 + draw(&state, 512),
                                   .n_blocks = 1 + draw(&state, 3000),
                                   .duration_ns = 7 };
        const Timeline timeline = run(&limits, &(SimStream){ &kernel, 1 }, 1);
        CHECK_INT(timeline.n_phases, running_rounds(&limits, &kernel.needs, kernel.threads_per_block, kernel.n_blocks));
        CHECK_INT(timeline.phase_ends_ns[timeline.n_phases - 1], 7 * timeline.n_phases);
    }
}

// Sums of what runs at the start of each span, on its multiprocessor.
static void check_span(const GpuLimits *limits, const SimStream *streams, const Timeline *timeline, int mp, i64 at_ns)
{
    int blocks = 0, warps = 0, registers = 0, shared = 0;
    for (int i = timeline->first_span[mp]; i < timeline->first_span[mp + 1]; i++) {
        const SimSpan *span = &timeline->spans[i];
        const SimKernel *kernel = &streams[span->stream].kernels[span->kernel];
        CHECK_INT(span->multiprocessor, mp);
        CHECK_INT(span->end_ns - span->start_ns, kernel->duration_ns);
        if (span->start_ns > at_ns || span->end_ns <= at_ns)
            continue;
        const BlockCost cost = block_cost(limits, &kernel->needs, kernel->threads_per_block);
        blocks++;
        warps += cost.warps;
        registers += cost.registers;
        shared += cost.shared;
    }
    CHECK(blocks <= limits->blocks && warps <= limits->warps);
    CHECK(registers <= limits->registers && shared <= limits->shared);
}

// No kernel of a stream starts before the one before it has ended; without Hyper-Q no stream starts early.
static void check_order(const GpuLimits *limits, const Timeline *timeline)
{
    for (int i = 0; i < timeline->n_spans; i++)
        for (int j = 0; j < timeline->n_spans; j++) {
            const SimSpan *before = &timeline->spans[i], *after = &timeline->spans[j];
            if (before->stream == after->stream && before->kernel < after->kernel)
                CHECK(before->end_ns <= after->start_ns);
            if (!limits->has_hyper_q && before->stream < after->stream)
                CHECK(before->start_ns <= after->start_ns);
        }
}

static SimKernel draw_kernel(u64 *state)
{
    return (SimKernel){ .needs = { .registers = 1 + draw(state, 60), .shared = draw(state, 2) * draw(state, 24000) },
                        .threads_per_block = 32 * (1 + draw(state, 32)),
                        .n_blocks = 1 + draw(state, 20),
                        .duration_ns = draw(state, 50) };
}

TEST(random_streams_keep_the_limits_and_the_order)
{
    u64 state = 3;
    for (int times = 0; times < 150; times++) {
        GpuLimits limits = card(draw(&state, 2) ? "GTX 680" : "Tesla K40");
        limits.n_multiprocessors = 1 + draw(&state, 6);
        SimKernel kernels[4][3];
        SimStream streams[4];
        for (int i = 0; i < 4; i++) {
            streams[i] = (SimStream){ kernels[i], draw(&state, 4) };
            for (int j = 0; j < 3; j++)
                kernels[i][j] = draw_kernel(&state);
        }
        const Timeline timeline = run(&limits, streams, 4);
        for (int i = 0; i < timeline.n_spans; i++)
            check_span(&limits, streams, &timeline, timeline.spans[i].multiprocessor, timeline.spans[i].start_ns);
        check_order(&limits, &timeline);
    }
}

TEST(no_more_kernels_run_at_once_than_the_card_allows)
{
    GpuLimits limits = card("H200");
    const SimKernel kernel = { { .registers = 16 }, .threads_per_block = 32, .n_blocks = 1, .duration_ns = MS };
    SimStream streams[200];
    for (int i = 0; i < 200; i++)
        streams[i] = (SimStream){ &kernel, 1 };
    const Timeline timeline = run(&limits, streams, 200);
    CHECK_INT(timeline.n_phases, 2);
    int n_first = 0;
    for (int i = 0; i < timeline.n_spans; i++)
        n_first += timeline.spans[i].start_ns == 0;
    CHECK_INT(n_first, 128);
}

TEST(no_streams_and_empty_streams_are_over_at_once)
{
    const GpuLimits limits = card("GTX 680");
    CHECK_INT(run(&limits, NULL, 0).n_spans, 0);
    CHECK_INT(run(&limits, &(SimStream){ 0 }, 1).n_phases, 0);
}

TEST(kernels_that_cannot_run_are_refused)
{
    const GpuLimits limits = card("GTX 680");
    SimKernel kernel = a_of(1);
    const SimStream stream = { &kernel, 1 };
    Timeline timeline;
    Arena *scratch = arena_new(NULL, "test");
    kernel.needs.registers = 64;
    error_clear(&err);
    CHECK_STATUS(sim_run(scratch, &limits, &stream, 1, &timeline, &err), WEFT_INVALID_PARAMETER);
    CHECK_HAS(err.message, "kernel 1 of stream 1");
    kernel = a_of(0);
    error_clear(&err);
    CHECK_STATUS(sim_run(scratch, &limits, &stream, 1, &timeline, &err), WEFT_INVALID_PARAMETER);
    kernel = a_of(SIM_BLOCKS_MAX + 1);
    error_clear(&err);
    CHECK_STATUS(sim_run(scratch, &limits, &stream, 1, &timeline, &err), WEFT_TOO_LONG);
    kernel = a_of(3);
    kernel.duration_ns = INT64_MAX / 2;
    error_clear(&err);
    CHECK_STATUS(sim_run(scratch, &limits, &stream, 1, &timeline, &err), WEFT_TOO_LONG);
    arena_free(scratch);
    arena_free(arena);
    arena = NULL;
}
