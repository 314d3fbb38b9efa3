// Launch shapes for the kernels of a wave: what is solved once is found again, what is measured decides.

#include "test.h"

#include "device/gpu_plan.h"

enum { N_KERNELS = 16 };

static GpuLimits h200(void)
{
    GpuLimits limits;
    Error     err = { 0 };
    CHECK_OK(limits_of_card("H200", &limits, &err), err);
    return limits;
}

// A million rows each, with different registers.
static void small_kernels(PlanKernel *kernels, int n, int shared)
{
    static char codes[PLAN_KERNELS];
    for (int k = 0; k < n; k++)
        kernels[k] = (PlanKernel){ .code = &codes[k],
                                   .needs = { .registers = 32 + 8 * (k % 4), .shared = shared,
                                              .threads_per_block_max = 1024 },
                                   .threads = 256,
                                   .n_tiles = 512 };
}

static PlanUse ask(WavePlans *plans, const PlanKernel *kernels, int n)
{
    PlanUse use;
    wave_plans_ask(plans, kernels, n, &use);
    return use;
}

// A round in which all kernels take so long, if it is to be measured.
static bool run_round(WavePlans *plans, const PlanKernel *kernels, int n, double plain_ms, double planned_ms)
{
    KernelTime    times[PLAN_KERNELS] = { 0 };
    const PlanUse use = ask(plans, kernels, n);
    for (int k = 0; k < n; k++) times[k].end_ms = use.is_planned ? planned_ms : plain_ms;
    if (use.is_measured) wave_plans_tell(plans, &use, times);
    return use.is_planned;
}

static int rounds_planned(WavePlans *plans, const PlanKernel *kernels, int n, double plain_ms, double planned_ms,
                          int n_rounds)
{
    int n_planned = 0;
    for (int r = 0; r < n_rounds; r++) n_planned += run_round(plans, kernels, n, plain_ms, planned_ms);
    return n_planned;
}

// How many phases of equal blocks the simulated card needs.
static int phases(const GpuLimits *limits, const PlanKernel *kernels, const PlanUse *use)
{
    Arena    *arena = arena_new(NULL, "test");
    SimKernel launched[PLAN_KERNELS];
    SimStream streams[PLAN_KERNELS];
    Timeline  timeline;
    Error     err = { 0 };
    for (int k = 0; k < use->n_kernels; k++) {
        const int own = use->order[k];
        launched[k] = (SimKernel){ kernels[own].needs, use->shapes[own].threads, (int)use->shapes[own].n_blocks, 1000 };
        streams[k] = (SimStream){ &launched[k], 1 };
    }
    CHECK_OK(sim_run(arena, limits, streams, use->n_kernels, &timeline, &err), err);
    const int n_phases = timeline.n_phases;
    arena_free(arena);
    return n_phases;
}

// One that was asked for, and solved.
static PlanUse first_planned(WavePlans *plans, const PlanKernel *kernels, int n)
{
    PlanUse use = ask(plans, kernels, n);
    CHECK(!use.is_planned);                                 // nobody waits for a solution
    wave_plans_settle(plans);
    for (int r = 0; r < 20 && !use.is_planned; r++) {
        KernelTime times[PLAN_KERNELS] = { 0 };
        if (use.is_measured) wave_plans_tell(plans, &use, times);
        use = ask(plans, kernels, n);
    }
    return use;
}

TEST(sixteen_small_kernels_run_at_once)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[N_KERNELS];
    small_kernels(kernels, N_KERNELS, 0);
    const PlanUse use = first_planned(plans, kernels, N_KERNELS);
    CHECK(use.is_planned);
    CHECK_INT(phases(&limits, kernels, &use), 1);
    i64 warps = 0;
    for (int k = 0; k < N_KERNELS; k++) warps += (i64)use.shapes[k].n_blocks * use.shapes[k].threads / 32;
    CHECK(warps > (i64)limits.n_multiprocessors * limits.warps / 2);    // and fill much of the card
    wave_plans_free(plans);
}

TEST(a_set_is_found_again_in_any_order)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[N_KERNELS], turned[N_KERNELS];
    small_kernels(kernels, N_KERNELS, 4096);
    for (int k = 0; k < N_KERNELS; k++) turned[k] = kernels[N_KERNELS - 1 - k];
    const PlanUse one = first_planned(plans, kernels, N_KERNELS);
    PlanUse       other = ask(plans, turned, N_KERNELS);
    for (int r = 0; r < 20 && !other.is_planned; r++) {
        KernelTime times[PLAN_KERNELS] = { 0 };
        if (other.is_measured) wave_plans_tell(plans, &other, times);
        other = ask(plans, turned, N_KERNELS);
    }
    CHECK(one.is_planned && other.is_planned && one.key == other.key);
    for (int k = 0; k < N_KERNELS; k++) {
        CHECK_INT((i64)one.shapes[k].n_blocks, (i64)other.shapes[N_KERNELS - 1 - k].n_blocks);
        CHECK_INT(one.order[k], N_KERNELS - 1 - other.order[k]);
    }
    const WavePlanCounts counts = wave_plans_count(plans);
    CHECK_INT((i64)counts.n_solved, 1);
    CHECK(counts.n_found > 1 && counts.n_planned > 1);
    kernels[0].n_tiles *= 2;                                // another set
    CHECK(!ask(plans, kernels, N_KERNELS).is_planned);
    wave_plans_settle(plans);
    CHECK_INT((i64)wave_plans_count(plans).n_solved, 2);
    wave_plans_free(plans);
}

TEST(kernels_that_do_not_fit_together_are_batches_that_do)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[8];
    small_kernels(kernels, 8, 100 << 10);                   // two to a multiprocessor, four to a pair
    const PlanUse use = first_planned(plans, kernels, 8);
    CHECK(use.is_planned);
    CHECK_INT(phases(&limits, kernels, &use), 2);
    wave_plans_free(plans);
}

TEST(blocks_that_must_stay_do)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[N_KERNELS];
    small_kernels(kernels, N_KERNELS, 0);
    kernels[3].has_fixed_threads = true;
    const PlanUse use = first_planned(plans, kernels, N_KERNELS);
    CHECK(use.is_planned && use.shapes[3].threads == 256 && use.shapes[3].n_blocks > 0);
    wave_plans_free(plans);
}

TEST(the_quicker_way_is_used)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[4];
    small_kernels(kernels, 4, 0);
    ask(plans, kernels, 4);
    wave_plans_settle(plans);
    rounds_planned(plans, kernels, 4, 2.0, 1.0, 20);
    CHECK(rounds_planned(plans, kernels, 4, 2.0, 1.0, 640) >= 620);        // the other way is looked at now and then
    rounds_planned(plans, kernels, 4, 1.0, 2.0, 1000);                      // it changes: noticed
    CHECK(rounds_planned(plans, kernels, 4, 1.0, 2.0, 640) <= 20);
    CHECK(rounds_planned(plans, kernels, 4, 1.0, 0.97, 1000) <= 40);        // too little to change for
    wave_plans_free(plans);
}

// One round of another length says nothing: spans only grow by what else goes on.
TEST(a_round_that_was_disturbed_does_not_count)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[4];
    small_kernels(kernels, 4, 0);
    ask(plans, kernels, 4);
    wave_plans_settle(plans);
    for (int r = 0; r < 8; r++) run_round(plans, kernels, 4, 1.0, r < 6 ? 5.0 : 0.8);      // the first ones planned
    CHECK(rounds_planned(plans, kernels, 4, 1.0, 0.8, 40) >= 36);
    wave_plans_free(plans);
}

TEST(where_no_plan_was_quicker_none_is_waited_for)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    for (int set = 0; set < 4; set++) {
        PlanKernel kernels[4];
        CHECK(wave_plans_may_pay(plans));
        small_kernels(kernels, 4, 1024 * (set + 1));
        ask(plans, kernels, 4);
        wave_plans_settle(plans);
        rounds_planned(plans, kernels, 4, 1.0, 1.0, 20);
    }
    CHECK(!wave_plans_may_pay(plans));
    PlanKernel quicker[4];
    small_kernels(quicker, 4, 8192);
    ask(plans, quicker, 4);
    wave_plans_settle(plans);
    rounds_planned(plans, quicker, 4, 1.0, 0.5, 20);
    CHECK(wave_plans_may_pay(plans));
    wave_plans_free(plans);
}

static u64 threads_of(const PlanUse *use, int k) { return (u64)use->shapes[k].threads * use->shapes[k].n_blocks; }

// The last of them takes four times as long as others with N_THREADS, and is quicker with more if HELPS.
static PlanUse run_uneven(WavePlans *plans, const PlanKernel *kernels, int n, u64 n_threads, bool helps)
{
    PlanUse use = { 0 };
    for (int r = 0; r < 400; r++) {
        KernelTime times[PLAN_KERNELS] = { 0 };
        use = ask(plans, kernels, n);
        const double last_ms = helps && use.is_planned ? 4.0 * (double)n_threads / (double)threads_of(&use, n - 1) : 4;
        for (int k = 0; k < n; k++) times[k].end_ms = !use.is_planned ? 9 : k == n - 1 ? last_ms : 1;
        if (use.is_measured) wave_plans_tell(plans, &use, times);
        wave_plans_settle(plans);
    }
    while (!use.is_planned) use = ask(plans, kernels, n);
    return use;
}

TEST(a_kernel_that_ends_late_gets_more_where_it_helps)
{
    const GpuLimits limits = h200();
    for (int helps = 0; helps < 2; helps++) {
        PlanKernel kernels[8];
        WavePlans *plans = wave_plans_new(&limits, false);
        small_kernels(kernels, 8, 0);
        const PlanUse before = first_planned(plans, kernels, 8);
        const PlanUse after = run_uneven(plans, kernels, 8, threads_of(&before, 7), helps);
        const i64     n_solved = (i64)wave_plans_count(plans).n_solved;
        CHECK(n_solved > 1 && n_solved < 10);               // not for ever
        if (helps) CHECK(threads_of(&after, 7) > threads_of(&before, 7));
        else CHECK_INT((i64)threads_of(&after, 7), (i64)threads_of(&before, 7));       // taken back
        wave_plans_free(plans);
    }
}

TEST(a_forced_plan_is_used_whatever_is_measured)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, true);
    PlanKernel      kernels[4];
    small_kernels(kernels, 4, 0);
    CHECK(!ask(plans, kernels, 4).is_planned);
    wave_plans_settle(plans);
    CHECK_INT(rounds_planned(plans, kernels, 4, 1.0, 2.0, 100), 100);
    wave_plans_free(plans);
}

TEST(what_cannot_be_solved_stays_plain)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[4];
    small_kernels(kernels, 4, 0);
    fault_set(FAULT_SOLVE, 1, true);
    ask(plans, kernels, 4);
    wave_plans_settle(plans);
    CHECK_INT(rounds_planned(plans, kernels, 4, 2.0, 1.0, 200), 0);
    CHECK_INT((i64)wave_plans_count(plans).n_failed, 1);    // not tried for each wave
    fault_set(FAULT_SOLVE, 0, false);
    wave_plans_free(plans);
}

TEST(many_sets_have_their_turn)
{
    const GpuLimits limits = h200();
    WavePlans      *plans = wave_plans_new(&limits, false);
    PlanKernel      kernels[4];
    small_kernels(kernels, 4, 0);
    for (int set = 1; set <= 200; set++) {
        kernels[0].needs.shared = set * 16;
        ask(plans, kernels, 4);
        wave_plans_settle(plans);
        CHECK_INT((i64)wave_plans_count(plans).n_solved, set);
    }
    wave_plans_free(plans);
}
