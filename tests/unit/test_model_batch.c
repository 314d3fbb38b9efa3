// test_model_batch.c - batches: against brute force, the bound, without a library, and how long they take.

#include <sys/wait.h>
#include <time.h>

#include "test.h"

#include "model_help.h"

// The first test: the library is opened once per process, so another process tries a wrong one.
TEST(a_library_that_is_not_there_is_named)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        setenv("WEFT_LIBCLP", "/nonexistent/libClp.so", 1);
        const bool is_right = !lp_library(&err) && err.status == WEFT_NO_DEVICE && strstr(err.message, "WEFT_LIBCLP") &&
                              strstr(err.message, "/nonexistent/libClp.so");
        _exit(is_right ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

// NULL where CLP is not installed: then what needs it is left out, and says so.
static const LpLibrary *library(void)
{
    error_clear(&err);
    const LpLibrary *lp = lp_library(&err);
    if (!lp)
        print_message("without CLP (scripts/deps optional installs it): %s\n", err.message);
    return lp;
}

static BatchPlan plan_of(Arena *arena, const GpuLimits *limits, const LpLibrary *lp, const LaunchKernel *kernels, int n)
{
    BatchPlan plan;
    error_clear(&err);
    CHECK_OK(batch_plan(arena, limits, lp, kernels, n, &plan, &err), err);
    return plan;
}

// Every kernel is in one batch, and every batch starts at once.
static void check_plan(const GpuLimits *limits, const LaunchKernel *kernels, int n, const BatchPlan *plan)
{
    Arena *arena = arena_new(NULL, "test");
    int *seen = arena_array(arena, int, n);
    for (int i = 0; i < plan->n_batches; i++) {
        const KernelBatch *batch = &plan->batches[i];
        LaunchKernel own[128];
        LaunchPlan again;
        CHECK(batch->n_kernels > 0 && batch->n_kernels <= 128);
        for (int k = 0; k < batch->n_kernels; k++) {
            seen[batch->kernels[k]]++;
            own[k] = kernels[batch->kernels[k]];
            const LaunchShape *shape = &batch->plan.shapes[k];
            CHECK(shape->n_blocks * shape->threads_per_block >= own[k].n_threads);
        }
        CHECK(launch_plan_group(arena, limits, batch->plan.group, own, batch->n_kernels, &again));
        CHECK_INT(again.shared, batch->plan.shared);
    }
    for (int i = 0; i < n; i++)
        CHECK_INT(seen[i], 1);
    CHECK(!plan->is_bound_known || plan->bound <= plan->n_batches);
    arena_free(arena);
}

// ---- cases ----------------------------------------------------------------------------------------------------------

// Paper 1, Table I: registers and shared memory go against each other.
static const KernelNeeds synthetic[] = {
    { 8, 24576, 0 }, { 16, 12288, 0 }, { 24, 6144, 0 }, { 32, 4608, 0 }, { 40, 1536, 0 },
};

TEST(what_sums_prove_needs_no_linear_program)
{
    const GpuLimits limits = card("Tesla K40");
    LaunchKernel kernels[65];
    Arena *arena = arena_new(NULL, "test");
    for (int i = 0; i < 33; i++)                            // half of the warps each: two in a batch
        kernels[i] = (LaunchKernel){ { .registers = 16 }, (i64)limits.n_multiprocessors * 32 * 32 };
    BatchPlan plan = plan_of(arena, &limits, library(), kernels, 33);
    check_plan(&limits, kernels, 33, &plan);
    CHECK_INT(plan.n_batches, 17);
    CHECK_INT(plan.n_patterns, 0);
    CHECK_INT(plan.is_bound_known, library() != NULL);
    CHECK(!library() || plan.bound == 17);
    for (int i = 0; i < 65; i++)                            // 16 blocks on one multiprocessor, 32 on a pair
        kernels[i] = (LaunchKernel){ { .registers = 16 }, (i64)(limits.n_multiprocessors - 1) * 32 };
    plan = plan_of(arena, &limits, library(), kernels, 65);
    check_plan(&limits, kernels, 65, &plan);
    CHECK_INT(plan.group, 2);
    CHECK_INT(plan.n_batches, 3);
    CHECK_INT(plan.n_patterns, 0);
    CHECK(!library() || plan.bound == 3);
    arena_free(arena);
}

TEST(what_fits_at_once_is_one_batch)
{
    const GpuLimits limits = card("GTX TITAN X (Maxwell)");
    LaunchKernel kernels[5];
    for (int i = 0; i < 5; i++)
        kernels[i] = (LaunchKernel){ synthetic[i], 24 * 32 * 8 };
    Arena *arena = arena_new(NULL, "test");
    const BatchPlan plan = plan_of(arena, &limits, NULL, kernels, 5);
    CHECK_INT(plan.n_batches, 1);
    CHECK(plan.is_bound_known);
    CHECK_INT(plan.bound, 1);
    check_plan(&limits, kernels, 5, &plan);
    arena_free(arena);
}

TEST(no_kernels_are_no_batches)
{
    const GpuLimits limits = card("H200");
    Arena *arena = arena_new(NULL, "test");
    const BatchPlan plan = plan_of(arena, &limits, NULL, NULL, 0);
    CHECK_INT(plan.n_batches, 0);
    CHECK_INT(plan.bound, 0);
    arena_free(arena);
}

TEST(without_a_library_the_bound_is_not_known)
{
    const GpuLimits limits = card("GTX 680");
    LaunchKernel kernels[3];
    for (int i = 0; i < 3; i++)
        kernels[i] = (LaunchKernel){ { 16, 49152, 0 }, 8 * 32 };
    Arena *arena = arena_new(NULL, "test");
    const BatchPlan plan = plan_of(arena, &limits, NULL, kernels, 3);
    CHECK_INT(plan.n_batches, 2);                           // a pair holds two such blocks
    CHECK(!plan.is_bound_known);
    CHECK_INT(plan.n_types, 1);
    check_plan(&limits, kernels, 3, &plan);
    arena_free(arena);
}

// Shared memory in 16ths of a multiprocessor: 6 6 6 5 5 5 5 5 5.  First-fit decreasing pairs two 6s and needs four
// batches; 6 5 5 three times are three.
TEST(column_generation_beats_first_fit_decreasing)
{
    GpuLimits limits = capability(3, 0);
    limits.n_multiprocessors = 1;                           // no pairs
    LaunchKernel kernels[9];
    for (int i = 0; i < 9; i++)
        kernels[i] = (LaunchKernel){ { 16, (i < 3 ? 6 : 5) * 3072, 0 }, 32 };
    Arena *arena = arena_new(NULL, "test");
    CHECK_INT(plan_of(arena, &limits, NULL, kernels, 9).n_batches, 4);
    if (library()) {
        const BatchPlan plan = plan_of(arena, &limits, library(), kernels, 9);
        CHECK_INT(plan.n_batches, 3);
        CHECK(plan.is_bound_known);
        CHECK_INT(plan.bound, 3);
        CHECK_DOUBLE(plan.lp_value, 3, 1e-9);
        CHECK_INT(plan.n_types, 2);
        check_plan(&limits, kernels, 9, &plan);
    }
    arena_free(arena);
}

// Equation 19 sums registers per thread; they must be weighed by threads.  Four kernels of 40 registers are 160 of
// anything in the paper's sum, but each has 32 warps: 40,960 registers, and no two fit.
TEST(registers_are_weighed_by_threads)
{
    GpuLimits limits = capability(3, 0);
    limits.n_multiprocessors = 1;
    LaunchKernel kernels[4];
    for (int i = 0; i < 4; i++)
        kernels[i] = (LaunchKernel){ kernel_b, 1024 };
    Arena *arena = arena_new(NULL, "test");
    const BatchPlan plan = plan_of(arena, &limits, library(), kernels, 4);
    CHECK_INT(plan.n_batches, 4);
    CHECK(!library() || plan.bound == 4);
    arena_free(arena);
}

TEST(the_block_limit_counts_and_pairs_help)
{
    GpuLimits limits = card("Tesla C2070");                 // 8 blocks per multiprocessor, 16 per pair
    LaunchKernel kernels[33];
    for (int i = 0; i < 33; i++)
        kernels[i] = (LaunchKernel){ { 8, 0, 0 }, 14 * 32 };
    Arena *arena = arena_new(NULL, "test");
    BatchPlan plan = plan_of(arena, &limits, library(), kernels, 33);
    CHECK_INT(plan.n_batches, 3);
    check_plan(&limits, kernels, 33, &plan);
    limits.n_multiprocessors = 1;
    for (int i = 0; i < 33; i++)
        kernels[i].n_threads = 32;
    plan = plan_of(arena, &limits, library(), kernels, 33);
    CHECK_INT(plan.n_batches, 5);
    CHECK(!library() || plan.bound == 5);
    arena_free(arena);
}

TEST(kernels_that_fit_nowhere_are_refused)
{
    const GpuLimits limits = card("GTX 680");
    LaunchKernel kernels[] = { { kernel_a, 1024 }, { { .registers = 64 }, 32 } };
    BatchPlan plan;
    Arena *arena = arena_new(NULL, "test");
    error_clear(&err);
    CHECK_STATUS(batch_plan(arena, &limits, NULL, kernels, 2, &plan, &err), WEFT_TOO_LONG);
    CHECK_HAS(err.message, "kernel 2");
    kernels[1] = (LaunchKernel){ kernel_a, 0 };
    error_clear(&err);
    CHECK_STATUS(batch_plan(arena, &limits, NULL, kernels, 2, &plan, &err), WEFT_INVALID_PARAMETER);
    arena_free(arena);
}

TEST(many_types_are_packed_without_the_master)
{
    const GpuLimits limits = card("H200");
    enum { MANY = 300 };
    LaunchKernel kernels[MANY];
    for (int i = 0; i < MANY; i++)
        kernels[i] = (LaunchKernel){ { 32, 64 * i, 0 }, 132 * 32 * 8 };
    Arena *arena = arena_new(NULL, "test");
    const BatchPlan plan = plan_of(arena, &limits, library(), kernels, MANY);
    CHECK_INT(plan.n_types, MANY);
    CHECK_INT(plan.n_patterns, 0);
    CHECK_INT(plan.n_batches, 38);                          // 8 of 64 warps each: 37.5, and warps are what is scarce
    CHECK(!library() || (plan.is_bound_known && plan.bound == 38));
    check_plan(&limits, kernels, MANY, &plan);
    arena_free(arena);
}

// ---- brute force ----------------------------------------------------------------------------------------------------

enum { FEW = 8 };

// The fewest batches by dynamic program over all subsets; what can be launched is asked of stage two.  Group 0: of any.
static int fewest_batches(const GpuLimits *limits, int group, const LaunchKernel *kernels, int n)
{
    static bool can_run[1 << FEW];
    static int fewest[1 << FEW];
    for (int set = 1; set < 1 << n; set++) {
        LaunchKernel own[FEW];
        LaunchPlan plan;
        int n_own = 0;
        for (int i = 0; i < n; i++)
            if (set >> i & 1)
                own[n_own++] = kernels[i];
        Arena *arena = arena_new(NULL, "test");
        can_run[set] = group == 0 ? launch_plan(arena, limits, own, n_own, &plan)
                                  : launch_plan_group(arena, limits, group, own, n_own, &plan);
        arena_free(arena);
        fewest[set] = FEW + 1;
        for (int part = set; part > 0; part = (part - 1) & set)
            if (can_run[part])
                fewest[set] = MIN_OF(fewest[set], 1 + fewest[set & ~part]);
    }
    return fewest[(1 << n) - 1];
}

static void draw_few(u64 *state, const GpuLimits *limits, LaunchKernel *kernels, int n)
{
    LaunchKernel types[4];
    for (int i = 0; i < 4; i++)
        types[i] = (LaunchKernel){ { .registers = 8 + draw(state, 56),
                                     .shared = draw(state, 3) ? draw(state, 30000) : 0,
                                     .threads_per_block_max = draw(state, 3) ? 0 : 32 * (1 + draw(state, 8)) },
                                   (i64)limits->n_multiprocessors * 32 * (1 + draw(state, 24)) };
    for (int i = 0; i < n; i++)
        kernels[i] = types[draw(state, 4)];
}

TEST(packings_are_optimal)
{
    u64 state = 8;
    const LpLibrary *lp = library();
    int n_better = 0, n_several = 0, n_mixed = 0, n_compared = 0;
    for (int times = 0; lp && times < 1500; times++) {
        GpuLimits limits = card(draw(&state, 2) ? "GTX 680" : "GTX TITAN X (Maxwell)");
        limits.n_multiprocessors = 1 + draw(&state, 3);
        LaunchKernel kernels[FEW];
        const int n = 2 + draw(&state, FEW - 1);
        draw_few(&state, &limits, kernels, n);
        Arena *arena = arena_new(NULL, "test");
        BatchPlan plan;
        error_clear(&err);
        if (batch_plan(arena, &limits, lp, kernels, n, &plan, &err) == WEFT_OK) {
            check_plan(&limits, kernels, n, &plan);
            CHECK_INT(plan.n_batches, fewest_batches(&limits, plan.group, kernels, n));
            n_mixed += fewest_batches(&limits, 0, kernels, n) < plan.n_batches;
            CHECK(plan.is_bound_known);
            CHECK_INT(plan.bound, plan.n_batches);
            n_better += plan.n_batches < plan_of(arena, &limits, NULL, kernels, n).n_batches;
            n_several += plan.n_batches > 1;
            n_compared++;
        }
        arena_free(arena);
    }
    print_message("%d compared, %d with several batches, %d better than first-fit decreasing; single and paired "
                  "multiprocessors mixed would be better for %d\n",
                  n_compared, n_several, n_better, n_mixed);
    CHECK(!lp || (n_several > 500 && n_better > 0));
}

// ---- time -----------------------------------------------------------------------------------------------------------

enum { PLANS = 300 };

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of this thread, since other programs may run on its core.
static double cpu_time_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// Thirteen types, each N_OF_EACH times.  The papers publish neither resources nor threads of their thirteen kernels.
static void draw_types(u64 *state, const GpuLimits *limits, LaunchKernel *kernels, int n_of_each)
{
    for (int type = 0; type < 13; type++) {
        const LaunchKernel kernel = { { .registers = 8 + draw(state, 57),
                                        .shared = 128 * draw(state, type < 9 ? 160 : 20),
                                        .threads_per_block_max = type < 9 ? 0 : 32 * (2 + draw(state, 7)) },
                                      (i64)limits->n_multiprocessors * 32 * (1 + draw(state, 16)) };
        for (int i = 0; i < n_of_each; i++)
            kernels[type * n_of_each + i] = kernel;
    }
}

static void time_plans(const char *name, const LpLibrary *lp, int n_of_each)
{
    const GpuLimits limits = card(name);
    static double times[PLANS];
    double sum = 0, batches = 0;
    int n_proved = 0, n_known = 0, gap_most = 0;
    u64 state = 9;
    for (int i = 0; i < PLANS; i++) {
        LaunchKernel kernels[13 * 8];
        draw_types(&state, &limits, kernels, n_of_each);
        Arena *arena = arena_new(NULL, "test");
        const double start = cpu_time_ms();
        const BatchPlan plan = plan_of(arena, &limits, lp, kernels, 13 * n_of_each);
        times[i] = cpu_time_ms() - start;
        sum += times[i];
        batches += plan.n_batches;
        n_known += plan.is_bound_known;
        n_proved += plan.is_bound_known && plan.bound == plan.n_batches;
        gap_most = plan.is_bound_known ? MAX_OF(gap_most, plan.n_batches - plan.bound) : gap_most;
        if (i < 20)
            check_plan(&limits, kernels, 13 * n_of_each, &plan);
        arena_free(arena);
    }
    qsort(times, PLANS, sizeof(double), compare_doubles);
    print_message("%s, %d kernels of 13 types, %s: %.2f batches; of %d: bound known %d, proved optimal %d, "
                  "largest gap %d; mean %.2f ms, p50 %.2f, p99 %.2f, most %.2f\n",
                  name, 13 * n_of_each, lp ? "CLP" : "first fit", batches / PLANS, PLANS, n_known, n_proved, gap_most,
                  sum / PLANS, times[PLANS / 2], times[PLANS * 99 / 100], times[PLANS - 1]);
}

TEST(time_of_batches_is_printed)
{
    for (int n_of_each = 3; n_of_each <= 5; n_of_each++) {
        time_plans("GTX TITAN X (Maxwell)", NULL, n_of_each);
        if (library())
            time_plans("GTX TITAN X (Maxwell)", library(), n_of_each);
    }
    if (library())
        time_plans("H200", library(), 5);
}
