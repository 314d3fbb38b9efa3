// gpu_fuse.c - riders of a run in one kernel (weave/fuse.c), which loads each column once for all of them; and units.
//
// A GPU's kernels wait for memory, so what is saved is loads.  Each member takes registers for its parameters, sums and
// carried values, and with them threads that could hide the memory's latency, so members are few: FUSE_MOST of one
// shape, which need little but parameters, FUSE_OTHERS of different shapes.  Accumulators of groups must fit shared
// memory together.  Only columns are shared: that two queries have the same constant, too, would make another text of
// it each time.  A kernel is compiled in the background when its members have met MET_BEFORE times; until then they run
// side by side.
//
// Which riders go together, and how, is decided in src/share (choose.h) for all devices.  Here they are described, and
// what serves several of them is made.
//
// Which chunks: queries of one shape go through all that any of them wants, as their columns are the same; a query that
// does not want a chunk has no rows there (MEMBER_ROWS).  Others go together through those that all of them want, and
// by themselves through the rest.

#include "device/gpu_fuse.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define FUSE_OTHERS   3
#define CUBES_MOST    4                // in one run
#define CUBE_LEAST    3                // queries: two are better off fused
#define JOIN_CUBES    96               // the same, over joins
#define FUSE_TABLES   1                // that a member looks up: with more, nothing is saved (docs/decisions.md)
#define MET_BEFORE    2
#define GROUPS_BYTES  ((u32)48 << 10)  // of shared memory, for all accumulators
#define NAME_BYTES    32

// A query's shape: its text, which says what is done with columns, and which columns these are, hashed.  A text may be
// over several: names of columns in it are for people ("Price" and price are the same there).
typedef struct KernelName { char bytes[NAME_BYTES]; u64 columns; } KernelName;

typedef struct FusedKernel {
    u64                 table;
    int                 n_members;
    KernelName          names[FUSE_MOST];
    int                 n_met;
    CodeEntry         *kernel;        // NULL: not asked for yet
    char                name[NAME_BYTES];
    Shape               shape;
    struct FusedKernel *next;
} FusedKernel;

// ---- which can ------------------------------------------------------------------------------------------------------

static u32 groups_bytes(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    u64          bytes = 0;
    if (woven->group_kind != GROUP_ARRAY) return 0;
    for (int s = 0; s < woven->n_state; s++) bytes += (woven->n_groups * woven->state[s].bytes + 15) / 16 * 16;
    return (u32)MIN_OF(bytes, UINT32_MAX);
}

bool unit_suits(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    if (!wave_may_share(run) || !weave_can_fuse(woven)) return false;
    if (strlen(woven->name) >= NAME_BYTES || woven->group_kind == GROUP_HASH || woven->n_tables > FUSE_TABLES)
        return false;
    return woven->group_kind == GROUP_ONE || (run->shape.shared_groups && groups_bytes(run) <= GROUPS_BYTES / 2);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

static u64 columns_of(const GpuRun *run)
{
    const Launch *launch = run->launch;
    u64           hash = 0;
    for (int c = 0; c < launch->woven->n_columns; c++) {
        const u64 both[] = { hash, (u64)launch->source->chunk_column[launch->woven->columns[c]] };
        hash = hash_bytes(both, sizeof both);
    }
    return hash;
}

void unit_look(GpuRun *run, Arena *arena)
{
    const Launch *launch = run->launch;
    const u64     text[] = { share_text(launch->woven, launch->source), launch->table };
    run->columns = columns_of(run), run->facts = NULL;
    if (!wave_may_meet(run)) return;
    run->facts = share_facts(arena, &share_gpu_costs, launch->woven, launch->source);
    run->shape_key = share_shape(launch->woven, launch->source), run->text_key = hash_bytes(text, sizeof text);
}

static KernelName name_of(const GpuRun *run)
{
    KernelName name = { .columns = run->columns };
    strcpy(name.bytes, run->launch->woven->name);
    return name;
}

static bool is_named(const KernelName *name, const GpuRun *run)
{
    return name->columns == run->columns && strcmp(name->bytes, run->launch->woven->name) == 0;
}

static FusedKernel *find_fused(const Gpu *gpu, GpuRun *const *runs, int n)
{
    for (FusedKernel *fused = gpu->fused; fused; fused = fused->next) {
        if (fused->n_members != n || fused->table != runs[0]->launch->table) continue;
        int same = 0;
        while (same < n && is_named(&fused->names[same], runs[same])) same++;
        if (same == n) return fused;
    }
    return NULL;
}

static FusedKernel *new_fused(Gpu *gpu, GpuRun *const *runs, int n)
{
    FusedKernel *fused = calloc(1, sizeof *fused);
    *fused = (FusedKernel){ .table = runs[0]->launch->table, .n_members = n, .next = gpu->fused };
    for (int i = 0; i < n; i++) fused->names[i] = name_of(runs[i]);
    gpu->fused = fused;
    return fused;
}

static void ask_for(Gpu *gpu, FusedKernel *fused, GpuRun *const *runs)
{
    ASSERT(fused->n_members <= FUSE_MOST && !fused->kernel);
    Arena      *arena = arena_new(NULL, "fuse");
    FuseMember  members[FUSE_MOST];
    const char *name;
    u32         kinds = 0;
    for (int i = 0; i < fused->n_members; i++) {
        members[i] = (FuseMember){ runs[i]->launch->woven, runs[i]->launch->source->chunk_column };
        kinds |= runs[i]->shape.shared_groups;
    }
    const char *text = weave_fuse(arena, members, fused->n_members, true, &name);
    fused->kernel =
        kernel_want(gpu, &(KernelWish){ .name = name, .text = text, .shared_groups = kinds }, &fused->shape);
    log_debug("%s: %s, a kernel for %d queries, is compiled", gpu->name, name, fused->n_members);
    snprintf(fused->name, sizeof fused->name, "%s", name);
    arena_free(arena);
}

// The kernel of these, if there is one; they have met once more.
static FusedKernel *ready_fused(Gpu *gpu, GpuRun *const *runs, int n)
{
    FusedKernel *fused = find_fused(gpu, runs, n);
    if (!fused) fused = new_fused(gpu, runs, n);
    if (!fused->kernel && ++fused->n_met >= MET_BEFORE) ask_for(gpu, fused, runs);
    return fused->kernel && fused->kernel->state == KERNEL_READY ? fused : NULL;
}

// ---- units ----------------------------------------------------------------------------------------------------------

typedef struct UnitChoice {            // while units are put together
    Wave *wave;
    u64   args_left;                   // for cubes
} UnitChoice;

static GpuRun *run_of(const ShareRider *rider) { return rider->self; }

static GpuRun **runs_of(const ShareRider *const *riders, int n)
{
    GpuRun **runs = malloc((size_t)n * sizeof *runs);
    for (int i = 0; i < n; i++) runs[i] = run_of(riders[i]);
    return runs;
}

static u32 unit_groups_bytes(GpuRun *const *runs, int n)
{
    u32 bytes = 0;
    for (int i = 0; i < n; i++) bytes += groups_bytes(runs[i]);
    return bytes;
}

static bool shape_unit(Gpu *gpu, FusedKernel *fused, GpuRun *const *runs, Unit *unit)
{
    return kernel_fit(gpu, fused->kernel, &fused->shape, unit_groups_bytes(runs, fused->n_members),
                      runs[0]->launch->woven, &unit->kernel);
}

// The chunks that any of them wants, or all.
static void list_chunks(const Wave *wave, GpuRun *const *runs, int n, bool any, Unit *unit)
{
    unit->chunks = calloc((size_t)wave->n_chunks + 1, sizeof *unit->chunks);
    for (int k = 0; k < wave->n_chunks; k++) {
        int n_wanting = 0;
        for (int i = 0; i < n && !wave->is_uniform; i++) n_wanting += wave_wants(wave, runs[i], k);
        if (wave->is_uniform) n_wanting = n;
        if (any ? n_wanting > 0 : n_wanting == n) unit->chunks[unit->n_chunks++] = k;
    }
}

static ShareMade make_fused(UnitChoice *choice, const ShareAsk *ask, GpuRun *const *runs, Unit *unit)
{
    ASSERT(ask->n_riders > 1 && ask->n_riders <= FUSE_MOST);
    Gpu *gpu = choice->wave->gpu;
    unit->fused = ready_fused(gpu, runs, ask->n_riders);
    if (!unit->fused) return SHARE_LATER;
    if (!shape_unit(gpu, unit->fused, runs, unit)) return SHARE_NO;
    list_chunks(choice->wave, runs, ask->n_riders, ask->is_alike, unit);
    return unit->n_chunks ? SHARE_DONE : SHARE_NO;
}

static ShareMade make_cube(UnitChoice *choice, const ShareAsk *ask, GpuRun *const *runs, Unit *unit)
{
    unit->cube = gpu_cube_of(choice->wave->gpu, runs, ask->n_riders, ask->gain, &choice->args_left);
    if (unit->cube) list_chunks(choice->wave, runs, ask->n_riders, false, unit);
    return unit->cube ? SHARE_DONE : SHARE_NO;
}

static ShareMade make_join_cube(UnitChoice *choice, const ShareAsk *ask, GpuRun *const *runs, Unit *unit)
{
    list_chunks(choice->wave, runs, ask->n_riders, true, unit);
    return gpu_join_cube_of(choice->wave, runs, ask->n_riders, ask->gain, unit->chunks, unit->n_chunks,
                            &unit->join_cube);
}

static ShareMade make_sieve(UnitChoice *choice, const ShareAsk *ask, GpuRun *const *runs, Unit *unit)
{
    unit->sieve = gpu_sieve_of(choice->wave, runs, ask->n_riders, ask->gain, ask->took);
    return unit->sieve ? SHARE_DONE : SHARE_NO;
}

// ---- what src/share asks --------------------------------------------------------------------------------------------

static bool fits(void *device, ShareWay way, const ShareRider *a, const ShareRider *b)
{
    (void)device;
    return way == SHARE_COLUMNS ? gpu_cube_fits(run_of(a), run_of(b))
           : way == SHARE_JOINS ? gpu_join_cube_fits(run_of(a), run_of(b))
                                : true;
}

static ShareMade meet(void *device, ShareWay way, const ShareRider *const *riders, int n)
{
    Gpu      *gpu = ((UnitChoice *)device)->wave->gpu;
    GpuRun  **runs = runs_of(riders, n);
    ShareMade made = way == SHARE_JOINS ? gpu_join_cube_meets(gpu, runs, n) : gpu_cube_meets(gpu, runs[0]);
    free(runs);
    return made;
}

static bool can(void *device, ShareWay way, const ShareRider *rider)
{
    Gpu *gpu = ((UnitChoice *)device)->wave->gpu;
    return way == SHARE_JOINS    ? gpu_join_cube_can(run_of(rider))
           : way == SHARE_SIEVED ? gpu_sieve_can(gpu, run_of(rider))
                                 : true;
}

static const Slots *made(void *device, const ShareRider *const *riders, int n, bool *is_all)
{
    GpuRun     **runs = runs_of(riders, n);
    const Slots *slots = gpu_join_cube_made(runs, n, is_all);
    (void)device;
    free(runs);
    return slots;
}

static void prepare(void *device, const ShareAsk *asks, int n)
{
    JoinCubeWish *wishes = calloc((size_t)n, sizeof *wishes);
    for (int a = 0; a < n; a++)
        wishes[a] = (JoinCubeWish){ runs_of(asks[a].riders, asks[a].n_riders), asks[a].n_riders };
    gpu_join_cubes_prepare(((UnitChoice *)device)->wave->gpu, wishes, n);
    for (int a = 0; a < n; a++) free(wishes[a].runs);
    free(wishes);
}

static ShareMade make(void *device, ShareAsk *ask)
{
    GpuRun  **runs = runs_of(ask->riders, ask->n_riders);
    Unit     *unit = calloc(1, sizeof *unit);
    ShareMade made = ask->way == SHARE_COLUMNS  ? make_cube(device, ask, runs, unit)
                     : ask->way == SHARE_JOINS  ? make_join_cube(device, ask, runs, unit)
                     : ask->way == SHARE_SIEVED ? make_sieve(device, ask, runs, unit)
                                                : make_fused(device, ask, runs, unit);
    free(runs);
    if (made == SHARE_DONE) ask->handle = unit;
    else free(unit->chunks), free(unit);
    return made;
}

// ---- choosing -------------------------------------------------------------------------------------------------------

// The chunk's rows may go through a kernel that serves this rider, too: it wants them, or knows that none of them are
// its own.  Else it has had them, or its snapshot does not have them.
static bool may_see(const GpuRun *run, const RunChunk *chunk)
{
    const int number = chunk_number(run, chunk->chunk, chunk->number);
    return number >= 0 && (run->wants[number] || !launch_wants_chunk(run->launch, number));
}

typedef struct ChunkSets { Map *map; u8 *chunks; u64 n; } ChunkSets;   // sets of the wave's chunks, each with a number

static int number_of(ChunkSets *sets, int n_chunks)
{
    u64 number;
    if (map_get(sets->map, sets->chunks, (size_t)n_chunks, &number)) return (int)number;
    map_set(sets->map, sets->chunks, (size_t)n_chunks, sets->n);
    return (int)sets->n++;
}

// Riders with one number want the same chunks of the run: then none gets what it has had, or what its snapshot does not
// have.  False: it wants none.
static bool set_wants(const Wave *wave, const GpuRun *run, ChunkSets *sets, ShareRider *rider)
{
    bool any = false;
    for (int k = 0; k < wave->n_chunks; k++)
        any |= sets->chunks[k] = wave_wants(wave, run, k);
    rider->wants = number_of(sets, wave->n_chunks);
    return any;
}

static void set_sees(const Wave *wave, const GpuRun *run, ChunkSets *sets, ShareRider *rider)
{
    for (int k = 0; k < wave->n_chunks; k++) sets->chunks[k] = may_see(run, &wave->chunks[k]);
    rider->sees = number_of(sets, wave->n_chunks);
}

static ShareRider describe(GpuRun *run, int number)
{
    const Launch *launch = run->launch;
    return (ShareRider){ .self = run,
                         .number = (u64)number,
                         .ways = (run->can_cube ? SHARE_BIT(SHARE_COLUMNS) : 0) |
                                 (run->joins ? SHARE_BIT(SHARE_JOINS) : 0) |
                                 (run->can_fuse ? SHARE_BIT(SHARE_FUSED) : 0) |
                                 (run->can_sieve ? SHARE_BIT(SHARE_SIEVED) : 0),
                         .shape = run->shape_key,
                         .text = run->text_key,
                         .member = { launch->woven, launch->source, gpu_join_cube_form(run) },
                         .facts = run->facts,
                         .own_ns = gpu_join_cube_own_ns(run),
                         .fuse_bytes = groups_bytes(run) };
}

// Those that want something of the run.  NUMBERS: which of the wave they are.
static int list_riders(const Wave *wave, Arena *arena, ShareRider *riders, int *numbers)
{
    ChunkSets sets = { .map = map_new(arena), .chunks = arena_array(arena, u8, wave->n_chunks + 1) };
    int       n = 0;
    for (int r = 0; r < wave->n_riders; r++) {
        ShareRider rider = describe(wave->riders[r], r);
        // Where all want all of it there is one set.
        if (!wave->is_uniform && !set_wants(wave, wave->riders[r], &sets, &rider)) continue;
        if (!wave->is_uniform && wave->riders[r]->joins) set_sees(wave, wave->riders[r], &sets, &rider);
        riders[n] = rider, numbers[n++] = r;
    }
    return n;
}

static double rows_of(const Wave *wave)
{
    double n = 0;
    for (int k = 0; k < wave->n_chunks; k++) n += wave->chunks[k].chunk->n_rows;
    return n;
}

static bool wants_any(const Wave *wave, const GpuRun *run)
{
    for (int k = 0; k < wave->n_chunks; k++)
        if (wants_chunk(run, wave->chunks[k].chunk, wave->chunks[k].number)) return true;
    return false;
}

static ShareChoice choose(Wave *wave, Arena *arena, const ShareRider *riders, int n_riders)
{
    static const int sizes[] = { FUSE_MOST, 4, 2, 0 };
    UnitChoice       choice = { .wave = wave, .args_left = gpu_cubes_args_bytes() };
    const double     rows = rows_of(wave);
    const ShareWays  ways = { .costs = &share_gpu_costs,
                              .device = &choice,
                              .limits = { [SHARE_COLUMNS] = { CUBE_LEAST, CUBE_MOST, CUBES_MOST },
                                          [SHARE_JOINS] = { 2, INT_MAX, JOIN_CUBES },
                                          [SHARE_FUSED] = { 2, FUSE_MOST, 0 },
                                          [SHARE_SIEVED] = { 2, rows < SIEVE_ROWS_LEAST ? 0 : SIEVE_RIDERS, 1 } },
                              .rows = MAX_OF(rows, 1),
                              .near_bytes = (double)wave->gpu->shared_most,
                              .fuse_bytes = GROUPS_BYTES,
                              .fuse_sizes = sizes,
                              .fuse_others = FUSE_OTHERS,
                              .fits = fits,
                              .make = make,
                              .meet = meet,
                              .can = can,
                              .made = made,
                              .prepare = prepare };
    return share_choose(arena, &wave->gpu->share, &ways, riders, n_riders);
}

static void log_choice(const Wave *wave, const ShareChoice *choice)
{
    int n_units[SHARE_WAYS] = { 0 }, n[SHARE_WAYS] = { 0 };
    for (int u = 0; u < choice->n_units; u++)
        n_units[choice->units[u].way]++, n[choice->units[u].way] += choice->units[u].n_riders;
    log_debug("%d riders, %d chunks: %d in %d bodies over joins, %d in %d over columns, %d sieved, %d fused, %d alone",
              wave->n_riders, wave->n_chunks, n[SHARE_JOINS], n_units[SHARE_JOINS], n[SHARE_COLUMNS],
              n_units[SHARE_COLUMNS], n[SHARE_SIEVED], n[SHARE_FUSED], n[SHARE_ALONE]);
}

int units_choose(Wave *wave, Unit *units, int *room)
{
    if (wave->n_riders == 1) {
        *room = 0, units[0] = (Unit){ .n_riders = 1, .riders = room, .gain = 1 };
        return wants_any(wave, wave->riders[0]);
    }
    Arena            *arena = arena_new(NULL, "choice");
    ShareRider       *riders = arena_array(arena, ShareRider, wave->n_riders + 1);
    int              *numbers = arena_array(arena, int, wave->n_riders + 1);
    const ShareChoice choice = choose(wave, arena, riders, list_riders(wave, arena, riders, numbers));
    for (int u = 0; u < choice.n_units; u++) {
        const ShareUnit *chosen = &choice.units[u];
        units[u] = chosen->handle ? *(Unit *)chosen->handle : (Unit){ 0 };
        units[u].riders = room, units[u].n_riders = chosen->n_riders, units[u].gain = chosen->gain;
        units[u].awaits = chosen->awaits;
        for (int i = 0; i < chosen->n_riders; i++) *room++ = numbers[chosen->riders[i]];
        free(chosen->handle);
    }
    log_choice(wave, &choice);
    arena_free(arena);
    return choice.n_units;
}

// ---- launching ------------------------------------------------------------------------------------------------------

u64 unit_args_bytes(const GpuRun *run) { return run->can_fuse ? sizeof(KernelArgs) + sizeof(void *) : 0; }

static void *device_pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

static KernelArgs *args_of(const RunSlot *slot, const Parts *parts)
{
    return (KernelArgs *)(void *)(slot->args + (parts->at - slot->args_at));
}

// KernelArgs for each chunk, then for each chunk its members'.
void unit_write(Wave *wave, const Parts *parts, Unit *unit)
{
    RunSlot   *slot = wave->slot;
    const u64  n_chunks = (u64)unit->n_chunks, members_at = args_rounded(n_chunks * sizeof(KernelArgs));
    u8        *host = slot->args + slot->args_used;
    void     **members = (void **)(void *)(host + members_at);
    u32        shared_at = 0;
    unit->parts = (Parts){ .n_parts = unit->n_chunks, .at = slot->args_at + slot->args_used };
    for (int i = 0; i < unit->n_riders; i++) {
        const Parts *own = &parts[unit->riders[i]];
        for (int p = 0; p < unit->n_chunks; p++) {
            args_of(slot, own)[p].shared_at = shared_at;
            members[p * unit->n_riders + i] = device_pointer(own->at + (u64)p * sizeof(KernelArgs));
        }
        shared_at += groups_bytes(wave->riders[unit->riders[i]]);
        unit->parts.most_rows = MAX_OF(unit->parts.most_rows, own->most_rows);
    }
    for (int p = 0; p < unit->n_chunks; p++)
        ((KernelArgs *)(void *)host)[p] = (KernelArgs){
            .row_end = wave->chunks[unit->chunks[p]].chunk->n_rows,
            .common = args_of(slot, &parts[unit->riders[0]])[p].common,
            .n_members = (u32)unit->n_riders,
            .members = device_pointer(unit->parts.at + members_at + (u64)(p * unit->n_riders) * sizeof(void *))
        };
    slot->args_used += members_at + args_rounded(n_chunks * (u64)unit->n_riders * sizeof(void *));
    ASSERT(slot->args_used <= slot->args_bytes);
}

static void report_launch(Wave *wave, const Unit *unit, const Grid *grid)
{
    for (int i = 0; i < unit->n_riders; i++) {
        Launch *launch = wave->riders[unit->riders[i]]->launch;
        wave->riders[unit->riders[i]]->n_fused_chunks = (u64)unit->n_chunks;
        launch->out.woven_as = "fused", launch->out.n_woven = unit->n_riders, launch->out.gain = unit->gain;
        launch->out.body = (BodyFigures){ 0 };
        snprintf(launch->out.body.kernel, sizeof launch->out.body.kernel, "%s", unit->fused->name);
        schedule_note(&launch->out.gpu, &unit->kernel, grid);
    }
}

weft_status unit_launch_fused(Wave *wave, const Unit *unit, Error *err)
{
    Gpu       *gpu = wave->gpu;
    GpuRun    *first = wave->riders[unit->riders[0]];
    const Grid grid = schedule_parts_grid(gpu, &unit->kernel.shape, &unit->parts);
    TRY(wave_wait(wave, first->stream, err));
    GpuRun *riders[FUSE_MOST] = { 0 };
    for (int i = 0; i < unit->n_riders; i++) riders[i] = wave->riders[unit->riders[i]];
    TRY(wave_join(gpu, riders, unit->n_riders, err));
    TRY(wave_launch(gpu, &unit->kernel, first->stream, unit->parts.at, &grid, err));
    report_launch(wave, unit, &grid);
    return WEFT_OK;
}

void units_free(Gpu *gpu)
{
    for (FusedKernel *fused = gpu->fused, *next; fused; fused = next) {
        next = fused->next;
        free(fused);
    }
    gpu->fused = NULL;
    share_kept_free(&gpu->share);
    gpu_cubes_free(gpu);
    gpu_join_cubes_free(gpu);
    gpu_sieves_free(gpu);
}
