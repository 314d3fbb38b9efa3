// gpu_plan.c - launch shapes for the kernels of a wave: signature, cache, solving in the background, feedback.
//
//     ask ──> signature ──> known? ── no ──> plain now, and queued for the solving thread
//                             │ yes
//                             └──> planned or plain, whichever was measured to be quicker; now and then the other
//
// A plan has all kernels of a wave run at once: each gets a share of the card's threads, in proportion to its tiles and
// its weight, and its blocks go through several tiles in turn.  The largest scale at which launch_plan finds room is
// taken.  Kernels whose shared memory does not fit together are packed into batches first (batch_plan), and each batch
// fills the card; the hardware starts blocks of the next batch when those of the one before leave room.
//
// Feedback.  The span of a wave (first kernel begins, last one ends) is measured in its first rounds, alternately
// with and without the plan, and then now and then; the least of the last ones counts.  The way in use changes only
// where the other is better by HYSTERESIS.  Kernels that end late get more weight, and the set is solved again; a
// solution that is not better is taken back.  Where no set was quicker with its plan, scans do not wait for others
// to be planned with.

#include "device/gpu_plan.h"

#include <math.h>
#include <stdlib.h>

enum {
    PLANS_KEPT = 64,
    QUEUE_MOST = 4,                    // sets that wait to be solved: where each wave is a new set, few are worth it
    TRIES = 4,                         // measured rounds of each way, before one is chosen
    LOOK_AGAIN = 64,                   // rounds, after which the other way is measured once,
    LOOK_OWN = 16,                     // and the one in use
    JUDGED_FEW = 4,                    // sets, of which none was quicker with a plan: it is not waited for more
    ADJUST_MOST = 4,                   // times that weights are changed
    BISECTIONS = 10,
};

#define HYSTERESIS   0.97              // the other way must take so much of the time, at most
#define SPREAD_MOST  1.25              // the longest kernel over the mean: weights stay up to here
#define WEIGHT_MOST  8.0
#define SCALE_LEAST  (1.0 / 65536)
#define BATCH_SHARE  8                 // of a card's threads that a kernel asks for in a batch: 1 / this, at most
#define SMOOTHING    0.25

typedef enum PlanState { PLAN_QUEUED, PLAN_READY, PLAN_FAILED } PlanState;

typedef struct WaveSolution { int n_batches; PlanShape shapes[PLAN_KERNELS]; int order[PLAN_KERNELS]; } WaveSolution;

typedef enum WaveWay { WAY_PLAIN, WAY_PLANNED } WaveWay;

typedef struct WavePlan {              // of a set of kernels; free where n_kernels is 0
    u64        key;
    PlanState  state;
    bool       is_queued;              // to be solved, or solved again
    u32        version;                // grows when the solution changes, and when the place is another set's
    int        n_kernels;
    PlanKernel kernels[PLAN_KERNELS];  // in the order of the signature
    double     weights[PLAN_KERNELS];
    WaveSolution   solution;
    WaveSolution   before;                 // and its time, while a new one is tried
    double     before_ms;              // 0: none is tried
    double     spans_ms[2][TRIES];     // by WaveWay, the last ones
    double     span_ms[2];             // the least of them: what else the host and the card do only adds to a span
    int        n_spans[2];
    double     kernel_ms[PLAN_KERNELS];                     // as planned, smoothed
    WaveWay    way;
    int        n_adjusted;
    u64        n_rounds, used_at;
} WavePlan;

struct WavePlans {
    GpuLimits       limits;
    bool            is_forced;         // whatever was measured
    _Atomic bool    may_pay;           // see wave_plans_may_pay
    pthread_mutex_t lock;              // for all below
    pthread_cond_t  changed;           // a set is queued or solved, or it is time to end
    pthread_t       thread;
    bool            has_thread, is_closing, is_solving;
    u64             n_uses;
    WavePlan        plans[PLANS_KEPT];
    WavePlanCounts      counts;
};

// ---- signature ------------------------------------------------------------------------------------------------------

// Two leading bits more: tables that grow a little are the same set.
static u64 size_class(u64 n)
{
    int shift = 0;
    while (n >> shift > 7) shift++;
    return (u64)shift << 3 | n >> shift;
}

static int compare_kernels(const PlanKernel *a, const PlanKernel *b)
{
    const u64 x = size_class(a->n_tiles), y = size_class(b->n_tiles);
    if (a->code != b->code) return (uintptr_t)a->code < (uintptr_t)b->code ? -1 : 1;
    if (a->needs.shared != b->needs.shared) return a->needs.shared < b->needs.shared ? -1 : 1;
    return x < y ? -1 : x > y;
}

// Places of the kernels.  The same set has the same order, in whatever order it was submitted.
static void sort_kernels(const PlanKernel *kernels, int n, int *at, int *places)
{
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && compare_kernels(&kernels[i], &kernels[at[k - 1]]) < 0; k--) at[k] = at[k - 1];
        at[k] = i;
    }
    for (int k = 0; k < n; k++) places[at[k]] = k;
}

static u64 signature(const PlanKernel *kernels, int n, const int *at)
{
    u64 words[3 * PLAN_KERNELS];
    for (int k = 0; k < n; k++) {
        const PlanKernel *kernel = &kernels[at[k]];
        words[3 * k] = (u64)(uintptr_t)kernel->code, words[3 * k + 1] = (u64)kernel->needs.shared;
        words[3 * k + 2] = size_class(kernel->n_tiles);
    }
    return hash_bytes(words, (size_t)(3 * n) * sizeof *words);
}

// ---- solving (without the lock) -------------------------------------------------------------------------------------

static u64 threads_of(const PlanKernel *kernel) { return kernel->n_tiles * (u64)kernel->threads; }

static LaunchKernel wanted_at(const WavePlan *plan, int k, double scale)
{
    const double all = (double)threads_of(&plan->kernels[k]), wanted = all * plan->weights[k] * scale;
    return (LaunchKernel){ plan->kernels[k].needs, (i64)MAX_OF(MIN_OF(wanted, all), 1) };
}

static bool fits_at(Arena *arena, const GpuLimits *limits, const WavePlan *plan, const int *members, int n,
                    double scale, LaunchPlan *launch)
{
    LaunchKernel kernels[PLAN_KERNELS];
    for (int i = 0; i < n; i++) kernels[i] = wanted_at(plan, members[i], scale);
    return launch_plan(arena, limits, kernels, n, launch);
}

// The same number of threads in blocks of another size, where the size is not to be chosen.
static PlanShape shape_of(const PlanKernel *kernel, const LaunchShape *launch)
{
    const u64 n_threads = (u64)launch->n_blocks * (u64)launch->threads_per_block, own = (u64)kernel->threads;
    if (!kernel->has_fixed_threads) return (PlanShape){ launch->threads_per_block, (u64)launch->n_blocks };
    return (PlanShape){ kernel->threads, MAX_OF((n_threads + own - 1) / own, 1) };
}

// All members at once, as large as they fit.  False: they do not, however small.
static bool solve_batch(Arena *arena, const GpuLimits *limits, const WavePlan *plan, const int *members, int n,
                        int first, WaveSolution *solution)
{
    LaunchPlan launch, larger;
    double     low = SCALE_LEAST, high = 1;
    if (fits_at(arena, limits, plan, members, n, high, &launch)) low = high;
    else if (!fits_at(arena, limits, plan, members, n, low, &launch)) return false;
    for (int b = 0; b < BISECTIONS && low < high * 0.99; b++) {
        const double middle = sqrt(low * high);
        if (fits_at(arena, limits, plan, members, n, middle, &larger)) low = middle, launch = larger;
        else high = middle;
    }
    for (int i = 0; i < n; i++) {
        solution->shapes[members[i]] = shape_of(&plan->kernels[members[i]], &launch.shapes[i]);
        solution->order[first + i] = members[launch.order[i]];
    }
    return true;
}

static weft_status solve_batches(Arena *arena, const GpuLimits *limits, const WavePlan *plan, WaveSolution *solution,
                                 Error *err)
{
    const i64    card = (i64)limits->n_multiprocessors * limits->warps * limits->threads_per_warp;
    LaunchKernel kernels[PLAN_KERNELS];
    BatchPlan    batches;
    int          n_done = 0;
    for (int k = 0; k < plan->n_kernels; k++) {
        kernels[k] = wanted_at(plan, k, 1);
        kernels[k].n_threads = MIN_OF(kernels[k].n_threads, MAX_OF(card / BATCH_SHARE, 1));
    }
    Error             no_library = { 0 };
    const LpLibrary  *lp = lp_library(&no_library);
    TRY(batch_plan(arena, limits, lp, kernels, plan->n_kernels, &batches, err));
    for (int b = 0; b < batches.n_batches; b++) {
        const KernelBatch *batch = &batches.batches[b];
        if (!solve_batch(arena, limits, plan, batch->kernels, batch->n_kernels, n_done, solution))
            return fail(err, WEFT_TOO_LONG, -1, "a batch does not fit");
        n_done += batch->n_kernels;
    }
    solution->n_batches = batches.n_batches;
    return WEFT_OK;
}

static weft_status solve(const GpuLimits *limits, const WavePlan *plan, WaveSolution *solution, Error *err)
{
    int         all[PLAN_KERNELS] = { 0 };
    weft_status status = WEFT_OK;
    if (fault_now(FAULT_SOLVE)) return fail(err, WEFT_OUT_OF_MEMORY, -1, "a solution was made to fail by a fault");
    Arena *arena = arena_new(NULL, "wave plan");
    for (int k = 0; k < plan->n_kernels; k++) all[k] = k;
    *solution = (WaveSolution){ .n_batches = 1 };
    if (!solve_batch(arena, limits, plan, all, plan->n_kernels, 0, solution))
        status = solve_batches(arena, limits, plan, solution, err);
    arena_free(arena);
    return status;
}

// ---- the solving thread ---------------------------------------------------------------------------------------------

static WavePlan *next_queued(WavePlans *plans)
{
    WavePlan *oldest = NULL;
    for (int p = 0; p < PLANS_KEPT; p++) {
        WavePlan *plan = &plans->plans[p];
        if (plan->n_kernels && plan->is_queued && (!oldest || plan->used_at < oldest->used_at)) oldest = plan;
    }
    return oldest;
}

static void use_solution(WavePlan *plan, const WaveSolution *solution)
{
    plan->solution = *solution;
    plan->version++;
    plan->n_spans[WAY_PLANNED] = 0, plan->span_ms[WAY_PLANNED] = 0;
}

static void settle_plan(WavePlan *plan, weft_status status, const WaveSolution *solution)
{
    plan->is_queued = false;
    if (!status) use_solution(plan, solution);
    if (!status) plan->state = PLAN_READY;
    else if (plan->state == PLAN_QUEUED) plan->state = PLAN_FAILED;    // else what there is stays
    else plan->n_adjusted = ADJUST_MOST, plan->before_ms = 0;
}

// With the lock, which is given up meanwhile.  The place may be another set's by then.
static void solve_next(WavePlans *plans, WavePlan *plan)
{
    const WavePlan copy = *plan;
    WaveSolution       solution;
    Error          err = { 0 };
    plans->is_solving = true;
    pthread_mutex_unlock(&plans->lock);
    const double      start = time_now_ms();
    const weft_status status = solve(&plans->limits, &copy, &solution, &err);
    const double      took_ms = time_now_ms() - start;
    if (status) log_debug("a wave of %d kernels is not planned: %s", copy.n_kernels, err.message);
    else
        log_debug("a wave of %d kernels is planned in %d batches, in %.3f ms", copy.n_kernels, solution.n_batches,
                  took_ms);
    pthread_mutex_lock(&plans->lock);
    plans->is_solving = false;
    plans->counts.solve_ms += took_ms;
    if (status) plans->counts.n_failed++;
    else plans->counts.n_solved++;
    if (plan->key == copy.key && plan->version == copy.version) settle_plan(plan, status, &solution);
    pthread_cond_broadcast(&plans->changed);
}

static void *solve_all(void *context)
{
    WavePlans *plans = context;
    thread_step_back();
    pthread_mutex_lock(&plans->lock);
    while (!plans->is_closing) {
        WavePlan *plan = next_queued(plans);
        if (plan) solve_next(plans, plan);
        else pthread_cond_wait(&plans->changed, &plans->lock);
    }
    pthread_mutex_unlock(&plans->lock);
    return NULL;
}

// A refused thread is no failure: waves run plainly.
static void start_thread(WavePlans *plans)
{
    if (!plans->has_thread) plans->has_thread = thread_start(&plans->thread, NULL, solve_all, plans) == 0;
    pthread_cond_broadcast(&plans->changed);
}

WavePlans *wave_plans_new(const GpuLimits *limits, bool is_forced)
{
    WavePlans *plans = calloc(1, sizeof *plans);
    plans->limits = *limits, plans->is_forced = is_forced, plans->may_pay = true;
    pthread_mutex_init(&plans->lock, NULL);
    pthread_cond_init(&plans->changed, NULL);
    return plans;
}

void wave_plans_free(WavePlans *plans)
{
    if (!plans) return;
    pthread_mutex_lock(&plans->lock);
    plans->is_closing = true;
    pthread_cond_broadcast(&plans->changed);
    pthread_mutex_unlock(&plans->lock);
    if (plans->has_thread) pthread_join(plans->thread, NULL);
    pthread_mutex_destroy(&plans->lock);
    pthread_cond_destroy(&plans->changed);
    free(plans);
}

// ---- asking ---------------------------------------------------------------------------------------------------------

static WavePlan *find_plan(WavePlans *plans, u64 key, int n)
{
    for (int p = 0; p < PLANS_KEPT; p++)
        if (plans->plans[p].key == key && plans->plans[p].n_kernels == n) return &plans->plans[p];
    return NULL;
}

static int count_queued(const WavePlans *plans)
{
    int n = 0;
    for (int p = 0; p < PLANS_KEPT; p++) n += plans->plans[p].n_kernels && plans->plans[p].is_queued;
    return n;
}

// In the place of the set that was not seen for longest.  NULL: too many wait to be solved.
static WavePlan *add_plan(WavePlans *plans, u64 key, const PlanKernel *kernels, int n, const int *at)
{
    WavePlan *oldest = NULL;
    if (count_queued(plans) >= QUEUE_MOST) return NULL;
    for (int p = 0; p < PLANS_KEPT; p++) {
        WavePlan *plan = &plans->plans[p];
        if (!plan->is_queued && (!oldest || plan->used_at < oldest->used_at)) oldest = plan;
    }
    const u32 version = oldest->version + 1;
    *oldest = (WavePlan){ .key = key, .is_queued = true, .version = version, .n_kernels = n };
    for (int k = 0; k < n; k++) oldest->kernels[k] = kernels[at[k]], oldest->weights[k] = 1;
    start_thread(plans);
    return oldest;
}

static bool knows_both(const WavePlan *plan)
{
    return plan->n_spans[WAY_PLAIN] >= TRIES && plan->n_spans[WAY_PLANNED] >= TRIES;
}

// Which way this round goes, and whether it is measured.
static WaveWay choose_way(WavePlan *plan, bool is_forced, bool *is_measured)
{
    const u64 round = plan->n_rounds++;
    *is_measured = true;
    if (plan->state != PLAN_READY) {
        *is_measured = plan->state == PLAN_QUEUED && plan->n_spans[WAY_PLAIN] < TRIES;
        return WAY_PLAIN;
    }
    if (is_forced) {
        *is_measured = plan->n_spans[WAY_PLANNED] < TRIES || round % LOOK_OWN == 0;
        return WAY_PLANNED;
    }
    if (!knows_both(plan))
        return plan->n_spans[WAY_PLAIN] < TRIES && plan->n_spans[WAY_PLAIN] <= plan->n_spans[WAY_PLANNED] ? WAY_PLAIN
                                                                                                       : WAY_PLANNED;
    if (round % LOOK_AGAIN == LOOK_AGAIN - 1) return plan->way == WAY_PLAIN ? WAY_PLANNED : WAY_PLAIN;
    *is_measured = round % LOOK_OWN == 0;
    return plan->way;
}

void wave_plans_ask(WavePlans *plans, const PlanKernel *kernels, int n, PlanUse *use)
{
    int at[PLAN_KERNELS];
    ASSERT(n >= 2 && n <= PLAN_KERNELS);
    *use = (PlanUse){ .n_kernels = n };
    sort_kernels(kernels, n, at, use->places);
    use->key = signature(kernels, n, at);
    pthread_mutex_lock(&plans->lock);
    WavePlan *plan = find_plan(plans, use->key, n);
    plans->counts.n_asked++;
    plans->counts.n_found += plan && plan->state == PLAN_READY;
    if (!plan) plan = add_plan(plans, use->key, kernels, n, at);
    if (plan) {
        use->is_planned = choose_way(plan, plans->is_forced, &use->is_measured) == WAY_PLANNED;
        use->version = plan->version;
        plan->used_at = ++plans->n_uses;
        plans->counts.n_planned += use->is_planned;
        for (int k = 0; k < n; k++) {
            use->shapes[at[k]] = plan->solution.shapes[k];
            use->order[k] = at[plan->solution.order[k]];
        }
    }
    pthread_mutex_unlock(&plans->lock);
}

// ---- feedback -------------------------------------------------------------------------------------------------------

static void smooth(double *mean, int n_before, double value)
{
    *mean = n_before ? *mean + SMOOTHING * (value - *mean) : value;
}

static void note_span(WavePlan *plan, WaveWay way, double ms)
{
    plan->spans_ms[way][plan->n_spans[way] % TRIES] = ms;
    plan->n_spans[way]++;
    const int n = MIN_OF(plan->n_spans[way], TRIES);
    plan->span_ms[way] = plan->spans_ms[way][0];
    for (int t = 1; t < n; t++) plan->span_ms[way] = MIN_OF(plan->span_ms[way], plan->spans_ms[way][t]);
}

static double span_of(const PlanUse *use, const KernelTime *times)
{
    double first = times[0].start_ms, last = times[0].end_ms;
    for (int i = 1; i < use->n_kernels; i++)
        first = MIN_OF(first, times[i].start_ms), last = MAX_OF(last, times[i].end_ms);
    return last - first;
}

// A solution with other weights was tried: it stays only if it is better.
static void judge_new(WavePlan *plan)
{
    const bool is_better = plan->span_ms[WAY_PLANNED] < plan->before_ms;
    if (!is_better) {
        const double before_ms = plan->before_ms;
        use_solution(plan, &plan->before);
        for (int t = 0; t < TRIES; t++) note_span(plan, WAY_PLANNED, before_ms);
        plan->n_adjusted = ADJUST_MOST;
    }
    plan->before_ms = 0;
}

static void choose_favourite(WavePlan *plan)
{
    const WaveWay other = plan->way == WAY_PLAIN ? WAY_PLANNED : WAY_PLAIN;
    if (plan->span_ms[other] < HYSTERESIS * plan->span_ms[plan->way]) plan->way = other;
}

// Kernels that take longer than the mean get more of the card, the others less.
static void adjust_weights(WavePlans *plans, WavePlan *plan)
{
    double sum = 0, most = 0;
    for (int k = 0; k < plan->n_kernels; k++) sum += plan->kernel_ms[k], most = MAX_OF(most, plan->kernel_ms[k]);
    const double mean = sum / plan->n_kernels;
    if (plan->n_adjusted >= ADJUST_MOST || plan->way != WAY_PLANNED || mean <= 0 || most < SPREAD_MOST * mean) return;
    for (int k = 0; k < plan->n_kernels; k++) {
        const double weight = plan->weights[k] * sqrt(MAX_OF(plan->kernel_ms[k], mean / 16) / mean);
        plan->weights[k] = MAX_OF(MIN_OF(weight, WEIGHT_MOST), 1 / WEIGHT_MOST);
    }
    plan->n_adjusted++;
    plan->before = plan->solution, plan->before_ms = plan->span_ms[WAY_PLANNED];
    plan->is_queued = true;
    start_thread(plans);
}

static bool may_pay(const WavePlans *plans)
{
    int n_judged = 0, n_paid = 0;
    for (int p = 0; p < PLANS_KEPT; p++) {
        const WavePlan *plan = &plans->plans[p];
        const bool      is_judged = plan->n_kernels && knows_both(plan);
        n_judged += is_judged;
        n_paid += is_judged && plan->way == WAY_PLANNED;
    }
    return plans->is_forced || n_judged < JUDGED_FEW || n_paid > 0;
}

void wave_plans_tell(WavePlans *plans, const PlanUse *use, const KernelTime *times)
{
    pthread_mutex_lock(&plans->lock);
    WavePlan     *plan = find_plan(plans, use->key, use->n_kernels);
    const WaveWay way = use->is_planned ? WAY_PLANNED : WAY_PLAIN;
    // A plain round is as good whatever the solution is.
    if (plan && (way == WAY_PLAIN || plan->version == use->version)) {
        for (int i = 0; i < use->n_kernels && way == WAY_PLANNED; i++)
            smooth(&plan->kernel_ms[use->places[i]], plan->n_spans[way], times[i].end_ms - times[i].start_ms);
        note_span(plan, way, span_of(use, times));
        if (knows_both(plan) && !plan->is_queued) {
            if (plan->before_ms > 0) judge_new(plan);
            choose_favourite(plan);
            adjust_weights(plans, plan);
        }
        plans->may_pay = may_pay(plans);
    }
    pthread_mutex_unlock(&plans->lock);
}

bool wave_plans_may_pay(const WavePlans *plans) { return plans->may_pay; }

WavePlanCounts wave_plans_count(WavePlans *plans)
{
    pthread_mutex_lock(&plans->lock);
    const WavePlanCounts counts = plans->counts;
    pthread_mutex_unlock(&plans->lock);
    return counts;
}

void wave_plans_settle(WavePlans *plans)
{
    pthread_mutex_lock(&plans->lock);
    while (plans->has_thread && (plans->is_solving || next_queued(plans)))
        pthread_cond_wait(&plans->changed, &plans->lock);
    pthread_mutex_unlock(&plans->lock);
}
