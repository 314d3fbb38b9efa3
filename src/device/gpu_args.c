// gpu_args.c - see gpu_args.h.
//
// The arguments of all launches of a run are in one piece of memory (RunSlot.args).  A rider with a kernel of its own
// takes some 500 bytes of it for each chunk; one that is served by a body over joins takes nothing.  Which riders these
// are is known when units have been chosen, and chunks are gathered before that.  With 4,096 riders counted as if each
// had its own kernel, a scan of 120 chunks was four runs, each of which made all bodies anew.  So a run is planned for
// so many riders that have arguments of their own as there must be room for, and for the others as there is:
//
//     gathered    any number of riders       as many chunks as OWN_RIDERS riders find room for
//     chosen      bodies, a sieve, others    first the leader's unit and what cannot be left, then others in turn
//     left        those without room         they are still on the scan, and ride in the next run
//
// Over chunks that come over the link all riders are counted, since what is left there has its columns copied again.
//
// A crowd of new shapes has no bodies yet.  Thousands of kernels over all rows would be at work while the code of these
// bodies is compiled.  So of riders that wait for code ALONE_MOST have kernels of their own in a run, the oldest ones;
// the others are left, for CODE_WAIT_MS at most from the first time on.  A rider that is left is in no run, so a cancel
// takes it off the scan.

#include "device/gpu_args.h"

#include <stdlib.h>

#define RIDER_ARGS_ONCE ((u64)512)     // of a rider's arguments, what does not grow with chunks
#define CUBE_PARTS      2              // arguments of a cube for a chunk, at most as many as so many of its riders have
#define OWN_RIDERS      (2 * SIEVE_RIDERS + 8)     // those of the leader's unit and of a sieve, with a cube's own
#define ALONE_MOST      64             // riders of a run that wait for code
#define CODE_WAIT_MS    2000.0

static u64 part_bytes(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    return sizeof(KernelArgs) + (u64)woven->n_columns * sizeof(KernelColumn) + (u64)woven->n_params * sizeof(i64) +
           unit_args_bytes(run);
}

static u64 least_args(const GpuRun *run) { return part_bytes(run) + RIDER_ARGS_ONCE; }

u64 args_once(void) { return gpu_cubes_args_bytes() + gpu_sieve_args_once(); }

bool args_suffice(const GpuRun *run)
{
    return args_once() + gpu_sieve_args_bytes() + least_args(run) <= ARGS_BYTES;
}

// ---- gathering ------------------------------------------------------------------------------------------------------

static ArgsSum plus(ArgsSum sum, u64 bytes) { return (ArgsSum){ sum.all + bytes, MAX_OF(sum.most, bytes) }; }

// What there must be room for.
static u64 needed(const Wave *wave, ArgsSum sum)
{
    return wave->is_passing ? sum.all : MIN_OF(sum.all, OWN_RIDERS * sum.most);
}

bool args_gather(Wave *wave, const GpuRun *run)
{
    const ArgsSum sum = plus(wave->least_args, least_args(run));
    // The leader comes first and always finds room; others of the list may come before it is a rider.
    if (run != wave->leader && args_once() + gpu_sieve_args_bytes() + needed(wave, sum) > wave->slot->args_bytes)
        return false;
    wave->least_args = sum;
    return true;
}

u64 args_of_riders(const Wave *wave)
{
    const ArgsSum sum = { RIDER_ARGS_ONCE * (u64)wave->n_riders, RIDER_ARGS_ONCE };
    return args_once() + needed(wave, sum);
}

static ArgsSum sum_parts(const Wave *wave, const Chunk *chunk, int number)
{
    ArgsSum sum = { 0 };
    for (int r = 0; r < wave->n_riders; r++)
        if (wave->is_uniform || wants_chunk(wave->riders[r], chunk, number) || wave->riders[r]->can_fuse)
            sum = plus(sum, part_bytes(wave->riders[r]));
    return sum;
}

void args_add_up(Wave *wave) { wave->part_args = sum_parts(wave, NULL, 0); }

u64 args_of_chunk(const Wave *wave, const Chunk *chunk, int number)
{
    const ArgsSum sum = wave->is_uniform ? wave->part_args : sum_parts(wave, chunk, number);
    return needed(wave, sum) + (wave->n_riders > 1 ? gpu_sieve_args_bytes() : 0);
}

static u64 own_args(const GpuRun *run)
{
    const u64 n_chunks = (u64)(run->can_fuse ? run->launch->source->n_chunks : run->n_wanted);
    return n_chunks * part_bytes(run) + RIDER_ARGS_ONCE;
}

u64 args_wanted(const Gpu *gpu, const GpuRun *leader)
{
    const Wave wave = { .is_passing = passes_through(gpu, leader) };
    ArgsSum    sum = { 0 };
    for (const GpuRun *run = gpu->first; run; run = run->next)
        if (run->n_wanted && wave_are_fellows(leader, run)) sum = plus(sum, own_args(run));
    const u64 sieve = gpu_sieve_args_bytes() * (u64)leader->launch->source->n_chunks;
    return MIN_OF(args_once() + needed(&wave, sum) + sieve, ARGS_MOST);
}

// ---- leaving --------------------------------------------------------------------------------------------------------

typedef struct Keeping { u64 bytes_left; int n_alone; double now; } Keeping;

// Of those that write_unit writes for a rider.
static int n_parts(const Wave *wave, const Unit *unit, const GpuRun *run)
{
    int n = unit->fused ? unit->n_chunks : 0;
    if (wave->is_uniform) return n + wave->n_chunks - unit->n_chunks;
    for (int k = 0, u = 0; k < wave->n_chunks; k++) {
        if (u < unit->n_chunks && unit->chunks[u] == k) u++;
        else n += wave_wants(wave, run, k);
    }
    return n;
}

// A body over joins has arguments of its own, and goes through all chunks that its riders want.
static u64 unit_bytes(const Wave *wave, const Unit *unit)
{
    u64 bytes = 0;
    if (unit->join_cube) return 0;
    if (unit->cube) bytes = CUBE_PARTS * (u64)unit->n_chunks * part_bytes(wave->riders[unit->riders[0]]);
    for (int i = 0; i < unit->n_riders; i++) {
        const GpuRun *run = wave->riders[unit->riders[i]];
        const u64     n = (u64)n_parts(wave, unit, run);
        if (n) bytes += n * part_bytes(run) + RIDER_ARGS_ONCE;
    }
    return bytes;
}

// The leader gets on, or it might never.  Sieves and bodies over joins have memory of the pool already.
static bool must_stay(const Wave *wave, const Unit *unit)
{
    int i = 0;
    while (i < unit->n_riders && wave->riders[unit->riders[i]] != wave->leader) i++;
    return i < unit->n_riders || unit->sieve || unit->join_cube;
}

// One of many riders whose body has no code yet.  Only where scans take so long that riders gather for the next one.
static bool may_wait_for_code(const Wave *wave, const Unit *unit, Keeping *keeping)
{
    if (!unit->awaits || !wave->slot->gathers || ++keeping->n_alone <= ALONE_MOST) return false;
    GpuRun *run = wave->riders[unit->riders[0]];
    if (!run->left_ms) run->left_ms = keeping->now;
    return keeping->now - run->left_ms < CODE_WAIT_MS;
}

static bool stays(const Wave *wave, const Unit *unit, Keeping *keeping)
{
    const u64 bytes = unit_bytes(wave, unit);
    if (bytes > keeping->bytes_left || may_wait_for_code(wave, unit, keeping)) return false;
    keeping->bytes_left -= bytes;
    return true;
}

// By rider; to be freed.
static bool *list_left(const Wave *wave, const Unit *units, int n_units)
{
    bool   *is_left = calloc((size_t)wave->n_riders, sizeof *is_left);
    Keeping keeping = { wave->slot->args_bytes - args_once() - (u64)wave->n_chunks * gpu_sieve_args_bytes(), 0,
                        time_now_ms() };
    for (int u = 0; u < n_units; u++) {
        if (!must_stay(wave, &units[u])) continue;
        const u64 bytes = unit_bytes(wave, &units[u]);
        ASSERT(bytes <= keeping.bytes_left);
        keeping.bytes_left -= bytes;
    }
    for (int u = 0; u < n_units; u++)
        if (!must_stay(wave, &units[u]) && !stays(wave, &units[u], &keeping))
            for (int i = 0; i < units[u].n_riders; i++) is_left[units[u].riders[i]] = true;
    return is_left;
}

// Those that are left behind the others; both in their order.  PLACES: where each is now.
static void move_riders(Wave *wave, const bool *is_left, int *places)
{
    GpuRun **riders = malloc((size_t)wave->n_riders * sizeof *riders);
    int      n = 0;
    for (int left = 0; left < 2; left++) {
        for (int r = 0; r < wave->n_riders; r++)
            if (is_left[r] == left) places[r] = n, riders[n++] = wave->riders[r];
        if (!left) wave->n_left = wave->n_riders - n;
    }
    memcpy(wave->riders, riders, (size_t)n * sizeof *riders);
    wave->n_riders -= wave->n_left;
    free(riders);
}

int units_keep(Wave *wave, Unit *units, int n_units)
{
    if (wave->n_riders == 1) return n_units;
    bool *is_left = list_left(wave, units, n_units);
    int  *places = calloc((size_t)wave->n_riders, sizeof *places), n = 0;
    move_riders(wave, is_left, places);
    for (int u = 0; u < n_units; u++) {
        if (is_left[units[u].riders[0]]) {
            free(units[u].chunks);
            gpu_cube_free(units[u].cube);
            continue;
        }
        for (int i = 0; i < units[u].n_riders; i++) units[u].riders[i] = places[units[u].riders[i]];
        units[n++] = units[u];
    }
    if (wave->n_left) log_debug("%s: %d riders are left to the next run", wave->gpu->name, wave->n_left);
    free(places);
    free(is_left);
    return n;
}
