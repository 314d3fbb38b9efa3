// gpu_schedule.c - where the shapes of launches, their order in a wave and their streams are chosen.
//
// Blocks go through the tiles of a part in turn, so any number of blocks is right, and any number of whole warps in a
// block: the text knows neither.  Fixed at run time are the blocks of launches that end in rows (how many segments find
// room was worked out with them) and of lists of picked rows (they are in shared memory).
//
// A wave is planned where it has at least two kernels that are small: one that takes FULL_ROUNDS rounds or more alone
// fills the card, whatever runs beside it, so it is launched as without a plan, behind the small ones.  With fewer than
// two small ones nothing is looked up.

#include "device/gpu_fuse.h"
#include "device/gpu_plan.h"
#include "device/gpu_schedule.h"

#include <stdlib.h>

#define FILL_WAVES  4                  // blocks, in multiples of what fits the multiprocessors at once, where a block
                                       // has no tables to fetch
#define SHARED_FEW  ((u32)16 << 10)    // bytes of shared memory that are soon fetched
#define FULL_ROUNDS 8

enum { SEED = 20181117 };

struct WaveTimes {                     // of a run
    bool     is_wanted;                // this run is measured
    bool     is_complete;              // all of it was noted
    bool     has_plan;                 // use is to be told
    PlanUse  use;
    int      n_timers;
    GpuEvent start;                    // of the first kernel
    GpuEvent ends[PLAN_KERNELS];       // of each
};

struct GpuScheduler {
    WavePlans  *plans;                 // NULL: the card's limits are not known
    bool        measures_all;          // $WEFT_GPU_MEASURE: every wave is timed
    u64         random;                // of the schedule random
    _Atomic u64 n_waves, n_measured, span_us;
    struct WaveTimes times[N_RUNS];
};

// ---- one kernel -----------------------------------------------------------------------------------------------------

Grid schedule_grid(const Gpu *gpu, const Shape *shape, const GridWish *wish)
{
    const u64 tile = (u64)shape->threads * (u64)shape->items, each = wish->rows_at_once ? wish->rows_at_once : tile;
    const u64 blocks = (wish->rows + each - 1) / each, n = (u64)wish->n_parts;
    const u64 room = (u64)gpu->n_sms * (u64)shape->blocks_per_sm * (u64)wish->rounds;
    const u64 most = wish->is_strict ? room / n : (room + n - 1) / n;
    return (Grid){ shape->threads, (u32)MAX_OF(MIN_OF(blocks, most), 1), (u32)wish->n_parts };
}

Grid schedule_one_round(const Gpu *gpu, const Shape *shape, u64 rows, int n)
{
    return schedule_grid(gpu, shape, &(GridWish){ .rows = rows, .n_parts = n, .rounds = 1, .is_strict = true });
}

Grid schedule_parts_grid(const Gpu *gpu, const Shape *shape, const Parts *parts)
{
    const bool fetches = shape->dynamic_shared > SHARED_FEW;
    return schedule_grid(gpu, shape,
                         &(GridWish){ .rows = parts->most_rows,
                                      .n_parts = parts->n_parts,
                                      .rounds = fetches ? 1 : FILL_WAVES,
                                      .is_strict = fetches });
}

void schedule_note(GpuFigures *figures, const GpuRun *kernel, const Grid *grid)
{
    static const char *const limits[] = { [LIMIT_BLOCK] = "the size of a block",
                                          [LIMIT_BLOCKS] = "blocks",
                                          [LIMIT_WARPS] = "warps",
                                          [LIMIT_REGISTERS] = "registers",
                                          [LIMIT_SHARED] = "shared memory" };
    const Gpu        *gpu = kernel->gpu;
    const GpuCode    *code = &kernel->kernel->code;
    const KernelNeeds needs = { code->registers, code->static_shared + (int)kernel->shape.launch_shared,
                                code->threads_most };
    const u64         n_blocks = (u64)grid->x * grid->y;
    figures->n_launches++;
    if (n_blocks < (u64)figures->grid_x * figures->grid_y) return;
    figures->grid_x = grid->x, figures->grid_y = grid->y, figures->threads = grid->threads;
    if (!gpu->has_limits) return;
    const Occupancy occupancy = occupancy_of(&gpu->limits, &needs, grid->threads);
    figures->rounds = running_rounds(&gpu->limits, &needs, grid->threads, (i64)n_blocks);
    figures->model_occupancy = occupancy.share, figures->limit = limits[occupancy.limit];
}

// ---- streams --------------------------------------------------------------------------------------------------------

static u64 mixed(u64 number)           // splitmix64
{
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    return number ^ number >> 31;
}

// Plain uses half of them, as many as there were before others came; small kernels of a planned wave have one each.
int schedule_stream(const GpuRun *run)
{
    const int first = run->rows_wanted < SMALL_ROWS ? 0 : N_SMALL_STREAMS;
    switch (run->launch->schedule) {
        case SCHEDULE_SEQUENTIAL:
        case SCHEDULE_MULTIQX: return 0;
        case SCHEDULE_RANDOM: return first + (int)(mixed(run->number ^ SEED) % N_SMALL_STREAMS);
        case SCHEDULE_MODEL: return first + (int)(run->number % (u64)(first ? N_PLAIN_STREAMS : N_SMALL_STREAMS));
        default: return first + (int)(run->number % N_PLAIN_STREAMS);
    }
}

// ---- random ---------------------------------------------------------------------------------------------------------

static u64 draw(struct GpuScheduler *scheduler, u64 n) { return n ? mixed(scheduler->random++) % n : 0; }

static bool has_fixed_threads(const GpuRun *run) { return run->launch->sink != SINK_GROUPS || run->shape.is_picked; }

// Blocks of more threads may need more registers than there are, so it is never larger than what the driver allowed.
static Grid random_grid(Gpu *gpu, const GpuRun *run, const Parts *parts)
{
    const Shape *shape = &run->shape;
    Grid         grid = schedule_parts_grid(gpu, shape, parts);
    const u64    tiles = (parts->most_rows + (u64)shape->items * 32 - 1) / ((u64)shape->items * 32);
    if (!has_fixed_threads(run)) grid.threads = 32 * (1 + (int)draw(gpu->scheduler, (u64)shape->threads / 32));
    grid.x = 1 + (u32)draw(gpu->scheduler, MIN_OF(2 * (u64)grid.x, MAX_OF(tiles, 1)));
    return grid;
}

static void choose_random(Wave *wave, WaveLaunch *launches, int n, int *order)
{
    for (int i = 0; i < n; i++)
        if (launches[i].run) launches[i].grid = random_grid(wave->gpu, launches[i].run, &launches[i].parts);
    for (int i = n - 1; i > 0; i--) {
        const int other = (int)draw(wave->gpu->scheduler, (u64)i + 1), kept = order[i];
        // What serves several must come before what else one of them has.
        if (launches[order[other]].run && launches[kept].run) order[i] = order[other], order[other] = kept;
    }
}

// ---- the model ------------------------------------------------------------------------------------------------------

bool schedule_may_plan(const Gpu *gpu, const GpuRun *run)
{
    const WavePlans *plans = gpu->scheduler->plans;
    return run->launch->schedule == SCHEDULE_MODEL && plans && wave_plans_may_pay(plans);
}

static PlanKernel plan_kernel(const GpuRun *run, const Parts *parts)
{
    const GpuCode *code = &run->kernel->code;
    const u64      tile = (u64)run->shape.threads * (u64)run->shape.items;
    return (PlanKernel){ .code = run->kernel,
                         .needs = { code->registers, code->static_shared + (int)run->shape.launch_shared,
                                    code->threads_most },
                         .threads = run->shape.threads,
                         .has_fixed_threads = has_fixed_threads(run),
                         .n_tiles = (u64)parts->n_parts * ((parts->most_rows + tile - 1) / tile) };
}

// Predicted rounds of the kernel alone.
static bool fills_card(const Gpu *gpu, const WaveLaunch *launch)
{
    const Shape *shape = &launch->run->shape;
    const u64    tile = (u64)shape->threads * (u64)shape->items, n = (u64)launch->parts.n_parts;
    return n * launch->parts.most_rows >= FULL_ROUNDS * tile * (u64)gpu->n_sms * (u64)shape->blocks_per_sm;
}

static int list_small(const Gpu *gpu, const WaveLaunch *launches, int n, int *small)
{
    int n_small = 0;
    for (int i = 0; i < n; i++) {
        if (!launches[i].run || fills_card(gpu, &launches[i])) continue;
        if (n_small == PLAN_KERNELS) return 0;
        small[n_small++] = i;
    }
    return n_small;
}

static Grid planned_grid(const WaveLaunch *launch, const PlanShape *shape)
{
    const u64 n = (u64)launch->parts.n_parts, tile = (u64)shape->threads * (u64)launch->run->shape.items;
    const u64 tiles = (launch->parts.most_rows + tile - 1) / tile, wanted = (shape->n_blocks + n - 1) / n;
    return (Grid){ shape->threads, (u32)MAX_OF(MIN_OF(wanted, tiles), 1), (u32)n };
}

// What serves several first, then the planned ones, then those that fill the card.
static void order_planned(const WaveLaunch *launches, int n, const int *small, const PlanUse *use, int *order)
{
    int n_done = 0, s = 0;
    for (int i = 0; i < n; i++)
        if (!launches[i].run) order[n_done++] = i;
    for (int k = 0; k < use->n_kernels; k++) order[n_done++] = small[use->order[k]];
    for (int i = 0; i < n; i++) {
        if (s < use->n_kernels && small[s] == i) s++;
        else if (launches[i].run) order[n_done++] = i;
    }
    ASSERT(n_done == n);
}

static struct WaveTimes *times_of(Gpu *gpu, const RunSlot *slot) { return &gpu->scheduler->times[slot - gpu->runs]; }

static void choose_planned(Wave *wave, WaveLaunch *launches, int n, int *order)
{
    Gpu             *gpu = wave->gpu;
    struct WaveTimes *times = times_of(gpu, wave->slot);
    int              small[PLAN_KERNELS];
    PlanKernel       kernels[PLAN_KERNELS];
    const int        n_small = gpu->scheduler->plans ? list_small(gpu, launches, n, small) : 0;
    // Where columns come over the link, that is what the time goes into.
    if (n_small < 2 || wave->is_passing) return;
    for (int s = 0; s < n_small; s++) kernels[s] = plan_kernel(launches[small[s]].run, &launches[small[s]].parts);
    wave_plans_ask(gpu->scheduler->plans, kernels, n_small, &times->use);
    times->has_plan = times->is_wanted = times->use.is_measured;
    if (times->is_wanted)
        for (int s = 0; s < n_small; s++) launches[small[s]].timer = s;
    times->n_timers = times->is_wanted ? n_small : 0;
    if (!times->use.is_planned) return;
    for (int s = 0; s < n_small; s++)
        launches[small[s]].grid = planned_grid(&launches[small[s]], &times->use.shapes[s]);
    order_planned(launches, n, small, &times->use, order);
}

// ---- a wave ---------------------------------------------------------------------------------------------------------

static void time_all(struct WaveTimes *times, WaveLaunch *launches, int n)
{
    times->is_wanted = true, times->has_plan = false, times->n_timers = 0;
    for (int i = 0; i < n && times->n_timers < PLAN_KERNELS; i++)
        if (launches[i].run) launches[i].timer = times->n_timers++;
}

void schedule_wave(Wave *wave, WaveLaunch *launches, int n, int *order)
{
    Gpu              *gpu = wave->gpu;
    struct WaveTimes *times = times_of(gpu, wave->slot);
    times->is_wanted = times->is_complete = times->has_plan = false, times->n_timers = 0;
    for (int i = 0; i < n; i++) {
        order[i] = i;
        launches[i].timer = -1;
        if (launches[i].run)
            launches[i].grid = schedule_parts_grid(gpu, &launches[i].run->shape, &launches[i].parts);
    }
    gpu->scheduler->n_waves++;
    if (wave->schedule == SCHEDULE_RANDOM) choose_random(wave, launches, n, order);
    if (wave->schedule == SCHEDULE_MODEL) choose_planned(wave, launches, n, order);
    if (gpu->scheduler->measures_all && !times->is_wanted) time_all(times, launches, n);
}

// ---- timers ---------------------------------------------------------------------------------------------------------
// Between the launches of a wave nothing else is asked of the driver, since that takes about as long as a small kernel:
// the first begin is noted before them, and the end of each behind them, in its stream.  Where a timer cannot be made
// the wave is not measured: no query depends on it.

static bool make_event(Gpu *gpu, GpuEvent *event)
{
    if (!*event && gpu->calls->EventCreate(event, 0)) *event = NULL;
    return *event != NULL;
}

static bool make_timers(Gpu *gpu, struct WaveTimes *times)
{
    bool has_all = make_event(gpu, &times->start);
    for (int t = 0; t < times->n_timers && has_all; t++) has_all = make_event(gpu, &times->ends[t]);
    return has_all;
}

weft_status schedule_begin_timers(Wave *wave, const WaveLaunch *first, Error *err)
{
    Gpu              *gpu = wave->gpu;
    struct WaveTimes *times = times_of(gpu, wave->slot);
    times->is_wanted = times->is_wanted && first->run && make_timers(gpu, times);
    if (times->is_wanted) GPU_TRY(gpu, EventRecord, (times->start, first->run->stream), err);
    return WEFT_OK;
}

weft_status schedule_end_timers(Wave *wave, const WaveLaunch *launches, int n, Error *err)
{
    Gpu              *gpu = wave->gpu;
    struct WaveTimes *times = times_of(gpu, wave->slot);
    for (int i = 0; i < n && times->is_wanted; i++)
        if (launches[i].timer >= 0)
            GPU_TRY(gpu, EventRecord, (times->ends[launches[i].timer], launches[i].run->stream), err);
    times->is_complete = times->is_wanted;
    return WEFT_OK;
}

// All from the first begin on: a kernel that was launched late and ends late is to get more of the card, too.
static bool read_times(Gpu *gpu, const struct WaveTimes *times, KernelTime *read)
{
    for (int t = 0; t < times->n_timers; t++) {
        float end_ms = 0;
        if (gpu->calls->EventElapsedTime(&end_ms, times->start, times->ends[t])) return false;
        read[t] = (KernelTime){ 0, end_ms };
    }
    return times->n_timers > 0;
}

static double span_of(const KernelTime *read, int n)
{
    double first = read[0].start_ms, last = read[0].end_ms;
    for (int t = 1; t < n; t++) first = MIN_OF(first, read[t].start_ms), last = MAX_OF(last, read[t].end_ms);
    return last - first;
}

void schedule_read_timers(Gpu *gpu, RunSlot *slot)
{
    struct GpuScheduler *scheduler = gpu->scheduler;
    struct WaveTimes    *times = times_of(gpu, slot);
    KernelTime           read[PLAN_KERNELS];
    if (!times->is_wanted) return;
    times->is_wanted = false;
    if (gpu->is_lost || !times->is_complete || !read_times(gpu, times, read)) return;
    scheduler->n_measured++;
    scheduler->span_us += (u64)(1000 * MAX_OF(span_of(read, times->n_timers), 0));
    if (times->has_plan) wave_plans_tell(scheduler->plans, &times->use, read);
}

// ---- opening --------------------------------------------------------------------------------------------------------

void schedule_open(Gpu *gpu)
{
    const char *measure = getenv("WEFT_GPU_MEASURE"), *plan = getenv("WEFT_GPU_PLAN");
    const bool  is_forced = plan && strcmp(plan, "always") == 0;
    gpu->scheduler = calloc(1, sizeof *gpu->scheduler);
    gpu->scheduler->measures_all = measure && strcmp(measure, "on") == 0;
    gpu->scheduler->random = SEED;
    if (gpu->has_limits) gpu->scheduler->plans = wave_plans_new(&gpu->limits, is_forced);
}

static void close_timers(Gpu *gpu, const struct WaveTimes *times)
{
    if (times->start) gpu->calls->EventDestroy(times->start);
    for (int t = 0; t < PLAN_KERNELS; t++)
        if (times->ends[t]) gpu->calls->EventDestroy(times->ends[t]);
}

void schedule_close(Gpu *gpu)
{
    if (!gpu->scheduler) return;
    for (int r = 0; r < N_RUNS && !gpu->is_gone; r++)
        close_timers(gpu, &gpu->scheduler->times[r]);
    wave_plans_free(gpu->scheduler->plans);
    free(gpu->scheduler);
    gpu->scheduler = NULL;
}

void schedule_count(const Gpu *gpu, DeviceFigures *figures)
{
    const struct GpuScheduler *scheduler = gpu->scheduler;
    const WavePlanCounts counts = scheduler->plans ? wave_plans_count(scheduler->plans) : (WavePlanCounts){ 0 };
    figures->n_waves = scheduler->n_waves, figures->n_planned = counts.n_planned, figures->n_solved = counts.n_solved,
    figures->n_unsolved = counts.n_failed, figures->n_measured = scheduler->n_measured,
    figures->measured_us = scheduler->span_us;
}
