// gpu_fuse.c - riders of a run in one kernel (weave/fuse.c), which loads each column once for all of them.
//
// A GPU's kernels wait for memory, so what is saved is loads:
//
//     gain = bytes per row of each member's columns, added up / bytes per row of all columns; at most GAIN_MOST
//
// since what a member computes is not shared: 14 filter-and-sum queries over 120 M rows in kernels of 8, 4 and 2 took
// 2.1 ms on an H200, and 0.22 ms each alone.  Worth a kernel from GAIN_LEAST on.  Each member takes registers for its
// parameters, sums and carried values, and with them threads that could hide the memory's latency, so members are few:
// FUSE_MOST of one shape, which need little but parameters, FUSE_OTHERS of different shapes.  Accumulators of groups
// must fit shared memory together.  Only columns are shared: that two queries have the same constant, too, would make
// another text of it each time.
//
// Queries of one shape whose tests are ranges are better off in a cube (gpu_cube.c), which costs the same for any
// number.
//
// Which chunks: queries of one shape go through all that any of them wants, as their columns are the same; a query that
// does not want a chunk has no rows there (MEMBER_ROWS).  Others go together through those that all of them want, and
// by themselves through the rest.
//
// Which ones: queries of one shape go together eight, four or two at a time, so that there are few texts.  Different
// shapes get partners for life when they first meet, those with whom they have most columns in common: the same
// dashboards meet again and again, in another order each time.  A kernel is compiled in the background when its members
// have met MET_BEFORE times; until then they run side by side.

#include "device/gpu_fuse.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <stdlib.h>

#define FUSE_OTHERS   3
#define CUBES_MOST    4                // in one run
#define JOIN_CUBES    16               // the same, over joins
#define FUSE_TABLES   1                // that a member looks up: with more, nothing is saved (docs/decisions.md)
#define GAIN_LEAST    1.2
#define GAIN_MOST     1.5
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
    Shape               shape;
    double              gain;
    struct FusedKernel *next;
} FusedKernel;

typedef struct Partners {              // shapes that go together
    u64              table;
    int              n_members;
    KernelName       names[FUSE_OTHERS];
    u64              columns;          // bit per column of the table, of all of them
    struct Partners *next;
} Partners;

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

static u64 columns_of(const GpuRun *run)
{
    const Launch *launch = run->launch;
    u64           columns = 0;
    for (int c = 0; c < launch->woven->n_columns; c++)
        columns |= (u64)1 << (launch->source->chunk_column[launch->woven->columns[c]] & 63);
    return columns;
}

static double bytes_per_row(const GpuRun *run, u64 columns)
{
    const Chunk *chunk = run->launch->source->chunks[0];
    double       bytes = 0;
    for (int c = 0; c < 64; c++)
        if (columns >> c & 1 && run->launch->source->n_chunks) bytes += chunk->columns[c].width;
    return bytes;
}

static double gain_of(GpuRun *const *runs, int n)
{
    u64    all = 0;
    double apart = 0;
    for (int i = 0; i < n; i++) all |= columns_of(runs[i]), apart += bytes_per_row(runs[i], columns_of(runs[i]));
    const double together = bytes_per_row(runs[0], all);
    return together > 0 ? MIN_OF(apart / together, GAIN_MOST) : 1;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

u64 unit_columns(const GpuRun *run)
{
    const Launch *launch = run->launch;
    u64           hash = 0;
    for (int c = 0; c < launch->woven->n_columns; c++) {
        const u64 both[] = { hash, (u64)launch->source->chunk_column[launch->woven->columns[c]] };
        hash = hash_bytes(both, sizeof both);
    }
    return hash;
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

static bool comes_before(const GpuRun *a, const GpuRun *b)
{
    const int order = strcmp(a->launch->woven->name, b->launch->woven->name);
    return order ? order < 0 : a->columns < b->columns;
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
    *fused =
        (FusedKernel){ .table = runs[0]->launch->table, .n_members = n, .gain = gain_of(runs, n), .next = gpu->fused };
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
    log_debug("%s: %s, a kernel for %d queries, is compiled: expected gain %.1f", gpu->name, name, fused->n_members,
              fused->gain);
    arena_free(arena);
}

// The kernel of these, if there is one; they have met once more.
static FusedKernel *ready_fused(Gpu *gpu, GpuRun *const *runs, int n)
{
    FusedKernel *fused = find_fused(gpu, runs, n);
    if (!fused) fused = new_fused(gpu, runs, n);
    if (fused->gain < GAIN_LEAST) return NULL;
    if (!fused->kernel && ++fused->n_met >= MET_BEFORE) ask_for(gpu, fused, runs);
    return fused->kernel && fused->kernel->state == KERNEL_READY ? fused : NULL;
}

// ---- partners -------------------------------------------------------------------------------------------------------

static Partners *partners_of(const Gpu *gpu, const GpuRun *run)
{
    for (Partners *partners = gpu->partners; partners; partners = partners->next)
        for (int i = 0; i < partners->n_members && partners->table == run->launch->table; i++)
            if (is_named(&partners->names[i], run)) return partners;
    return NULL;
}

static int n_bits(u64 bits)
{
    int n = 0;
    for (; bits; bits &= bits - 1) n++;
    return n;
}

static void find_partners(Gpu *gpu, const GpuRun *run)
{
    const u64 columns = columns_of(run);
    Partners *best = NULL;
    double    best_share = 0.5;
    for (Partners *partners = gpu->partners; partners; partners = partners->next) {
        const double share =
            (double)n_bits(partners->columns & columns) / (double)MAX_OF(1, n_bits(partners->columns | columns));
        if (partners->table != run->launch->table || partners->n_members == FUSE_OTHERS || share < best_share) continue;
        best = partners, best_share = share;
    }
    if (!best) {
        best = calloc(1, sizeof *best);
        *best = (Partners){ .table = run->launch->table, .next = gpu->partners };
        gpu->partners = best;
    }
    ASSERT(best->n_members < FUSE_OTHERS);
    best->names[best->n_members++] = name_of(run);
    best->columns |= columns;
}

// ---- units ----------------------------------------------------------------------------------------------------------

typedef struct UnitChoice {            // while units are put together
    Wave *wave;
    int   n_left;
    int  *left;                        // riders that are in none yet, by the names of their kernels
    Unit *units;
    int   n_units, n_cubes, n_join_cubes;
    int  *riders;                      // room for those of the next unit
    u64   args_left;                   // for cubes
} UnitChoice;

// RIDERS: numbers in the wave, as many as the unit has.
static void add_unit(UnitChoice *choice, const Unit *unit, const int *riders)
{
    Unit *added = &choice->units[choice->n_units++];
    *added = *unit;
    added->riders = choice->riders;
    memcpy(added->riders, riders, (size_t)unit->n_riders * sizeof *riders);
    choice->riders += unit->n_riders;
}

static GpuRun *left_rider(const UnitChoice *choice, int i) { return choice->wave->riders[choice->left[i]]; }

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

static int next_unused(const UnitChoice *choice, int i)
{
    while (i < choice->n_left && choice->left[i] < 0) i++;
    return i;
}

// The chunks that any of them wants, or all.
static int list_chunks(const Wave *wave, GpuRun *const *runs, int n, bool any, int *chunks)
{
    int n_chunks = 0;
    for (int k = 0; k < wave->n_chunks; k++) {
        int n_wanting = 0;
        for (int i = 0; i < n; i++) n_wanting += wants_chunk(runs[i], wave->chunks[k].chunk, wave->chunks[k].number);
        if (any ? n_wanting > 0 : n_wanting == n) chunks[n_chunks++] = k;
    }
    return n_chunks;
}

// Those at PLACES of the list become a unit, if there is a kernel for them.
static bool add_fused(UnitChoice *choice, const int *places, int n, bool is_same)
{
    ASSERT(n > 1 && n <= FUSE_MOST);
    GpuRun *runs[FUSE_MOST] = { 0 };
    Gpu    *gpu = choice->wave->gpu;
    Unit    unit = { .n_riders = n };
    int     riders[FUSE_MOST];
    for (int i = 0; i < n; i++) runs[i] = left_rider(choice, places[i]), riders[i] = choice->left[places[i]];
    if (unit_groups_bytes(runs, n) > GROUPS_BYTES) return false;
    unit.fused = ready_fused(gpu, runs, n);
    if (!unit.fused || !shape_unit(gpu, unit.fused, runs, &unit)) return false;
    unit.chunks = calloc((size_t)choice->wave->n_chunks + 1, sizeof *unit.chunks);
    unit.n_chunks = list_chunks(choice->wave, runs, n, is_same, unit.chunks);
    if (!unit.n_chunks) {
        free(unit.chunks);
        return false;
    }
    add_unit(choice, &unit, riders);
    for (int i = 0; i < n; i++) choice->left[places[i]] = -1;
    return true;
}

// They want the same chunks of the run: then none gets what it has had, or what its snapshot does not have.
static bool wants_same(const Wave *wave, const GpuRun *a, const GpuRun *b)
{
    for (int k = 0; k < wave->n_chunks; k++)
        if (wants_chunk(a, wave->chunks[k].chunk, wave->chunks[k].number) !=
            wants_chunk(b, wave->chunks[k].chunk, wave->chunks[k].number))
            return false;
    return true;
}

// Those like the first of the list that fit it, as places in the list.
static int list_alike(const UnitChoice *choice, int first, int *places)
{
    const GpuRun *like = left_rider(choice, first);
    int           n = 0;
    for (int i = first; i < choice->n_left && n < CUBE_MOST; i++) {
        if (choice->left[i] < 0) continue;
        const GpuRun *run = left_rider(choice, i);
        if (i == first || (run->can_cube && gpu_cube_fits(like, run) && wants_same(choice->wave, like, run)))
            places[n++] = i;
    }
    return n;
}

static bool add_cube(UnitChoice *choice, const int *places, int n)
{
    GpuRun *runs[CUBE_MOST] = { 0 };
    Unit    unit = { .n_riders = n };
    int     riders[CUBE_MOST];
    for (int i = 0; i < n; i++) runs[i] = left_rider(choice, places[i]), riders[i] = choice->left[places[i]];
    unit.cube = gpu_cube_of(choice->wave->gpu, runs, n, &choice->args_left);
    if (!unit.cube) return false;
    unit.chunks = calloc((size_t)choice->wave->n_chunks + 1, sizeof *unit.chunks);
    unit.n_chunks = list_chunks(choice->wave, runs, n, false, unit.chunks);
    add_unit(choice, &unit, riders);
    choice->n_cubes++;
    for (int i = 0; i < n; i++) choice->left[places[i]] = -1;
    return true;
}

// Where there are more classes than cells fit, half of them may do; the others are then the next cube.
static bool make_cube(UnitChoice *choice, const int *places, int n)
{
    if (n <= 2 || !gpu_cube_is_ready(choice->wave->gpu, left_rider(choice, places[0]))) return false;
    while (n > 2 && !add_cube(choice, places, n)) n /= 2;
    return n > 2;
}

// Where those like one are no cube, none of them is tried again.
static void make_cubes(UnitChoice *choice)
{
    bool *is_tried = calloc((size_t)choice->n_left + 1, sizeof *is_tried);
    choice->args_left = gpu_cubes_args_bytes();
    for (int i = next_unused(choice, 0); i < choice->n_left && choice->n_cubes < CUBES_MOST;
         i = next_unused(choice, i + 1)) {
        int places[CUBE_MOST];
        if (is_tried[i] || !left_rider(choice, i)->can_cube) continue;
        const int n = list_alike(choice, i, places);
        if (make_cube(choice, places, n)) continue;
        for (int p = 0; p < n; p++) is_tried[places[p]] = true;
    }
    free(is_tried);
}

// ---- cubes over joins -----------------------------------------------------------------------------------------------

// The chunk's rows may go through a kernel that serves this rider, too: it wants them, or knows that none of them are
// its own.  Else it has had them, or its snapshot does not have them.
static bool may_see(const GpuRun *run, const RunChunk *chunk)
{
    const int number = chunk_number(run, chunk->chunk, chunk->number);
    return number >= 0 && (run->wants[number] || !launch_wants_chunk(run->launch, number));
}

static bool see_same(const Wave *wave, const GpuRun *a, const GpuRun *b)
{
    for (int k = 0; k < wave->n_chunks; k++)
        if (may_see(a, &wave->chunks[k]) != may_see(b, &wave->chunks[k])) return false;
    return true;
}

typedef struct JoinGroup { int n; int *riders; GpuRun **runs; } JoinGroup;             // of one shape

static bool add_join_cube(UnitChoice *choice, const JoinGroup *group)
{
    Wave  *wave = choice->wave;
    Unit   unit = { .n_riders = group->n };
    double gain;
    if (!gpu_join_cube_pays(wave, group->runs, group->n, &gain)) return false;
    unit.chunks = calloc((size_t)wave->n_chunks + 1, sizeof *unit.chunks);
    unit.n_chunks = list_chunks(wave, group->runs, group->n, true, unit.chunks);
    unit.join_cube = gpu_join_cube_of(wave, group->runs, group->n, gain, unit.chunks, unit.n_chunks);
    if (!unit.join_cube) {
        free(unit.chunks);
        return false;
    }
    add_unit(choice, &unit, group->riders);
    choice->n_join_cubes++;
    return true;
}

// Where there are too many classes or cells for all of them, half may do; the others are then the next cube.
static void make_join_cube(UnitChoice *choice, const JoinGroup *all, bool *is_left)
{
    for (int at = 0; all->n - at >= JOIN_CUBE_LEAST && choice->n_join_cubes < JOIN_CUBES;) {
        JoinGroup group = { all->n - at, all->riders + at, all->runs + at };
        group.n = MIN_OF(group.n, gpu_join_cube_most(group.runs[0]));
        while (group.n >= JOIN_CUBE_LEAST && !add_join_cube(choice, &group)) group.n /= 2;
        if (group.n < JOIN_CUBE_LEAST) return;
        for (int i = 0; i < group.n; i++) is_left[group.riders[i]] = false;
        at += group.n;
    }
}

// Riders of the shape of FIRST; ONLY_READY: whose join tables are here.
static void list_shape(const UnitChoice *choice, int first, const bool *is_left, bool only_ready, JoinGroup *group)
{
    const Wave *wave = choice->wave;
    group->n = 0;
    for (int r = first; r < wave->n_riders; r++) {
        GpuRun *run = wave->riders[r];
        if (!is_left[r] || (only_ready && !gpu_join_cube_can(run)) ||
            !gpu_join_cube_fits(wave->riders[first], run) || !see_same(wave, wave->riders[first], run))
            continue;
        group->riders[group->n] = r, group->runs[group->n++] = run;
    }
}

// Queries meet whether their tables are here or not: only then is their kernel made, and tables are fetched.
static void make_join_cubes(UnitChoice *choice, bool *is_left)
{
    Wave     *wave = choice->wave;
    bool     *is_tried = calloc((size_t)wave->n_riders + 1, sizeof *is_tried);
    JoinGroup group = { .riders = calloc((size_t)wave->n_riders + 1, sizeof(int)),
                        .runs = calloc((size_t)wave->n_riders + 1, sizeof(GpuRun *)) };
    for (int r = 0; r < wave->n_riders; r++) {
        if (!is_left[r] || is_tried[r] || !wave->riders[r]->joins) continue;
        list_shape(choice, r, is_left, false, &group);
        for (int i = 0; i < group.n; i++) is_tried[group.riders[i]] = true;
        if (group.n < JOIN_CUBE_LEAST || !gpu_join_cube_meets(wave->gpu, group.runs, group.n)) continue;
        list_shape(choice, r, is_left, true, &group);
        make_join_cube(choice, &group, is_left);
    }
    free(group.riders);
    free(group.runs);
    free(is_tried);
}

// ---- sieves, and kernels of several ---------------------------------------------------------------------------------

// All riders whose tests a sieve can make; IS_LEFT: not in a cube already.
static void make_sieve(UnitChoice *choice, const bool *is_left)
{
    Wave   *wave = choice->wave;
    GpuRun *runs[SIEVE_RIDERS] = { 0 };
    int     riders[SIEVE_RIDERS], taken[SIEVE_RIDERS], n = 0;
    bool    took[SIEVE_RIDERS];
    Unit    unit = { 0 };
    for (int r = 0; r < wave->n_riders && n < SIEVE_RIDERS; r++)
        if (is_left[r] && wave->riders[r]->can_sieve) riders[n] = r, runs[n++] = wave->riders[r];
    unit.sieve = n ? gpu_sieve_of(wave, runs, n, took) : NULL;
    if (!unit.sieve) return;
    for (int i = 0; i < n; i++)
        if (took[i]) taken[unit.n_riders++] = riders[i];
    add_unit(choice, &unit, taken);
}

// Forgets those that are in a unit by now.
static void keep_left(UnitChoice *choice, bool *is_left)
{
    int n_left = 0;
    for (int u = 0; u < choice->n_units; u++)
        for (int i = 0; i < choice->units[u].n_riders; i++) is_left[choice->units[u].riders[i]] = false;
    for (int i = 0; i < choice->n_left; i++)
        if (choice->left[i] >= 0 && is_left[choice->left[i]]) choice->left[n_left++] = choice->left[i];
    choice->n_left = n_left;
}

// Some could only have been in a cube.
static void keep_fusible(UnitChoice *choice)
{
    int n_left = 0;
    for (int i = 0; i < choice->n_left; i++)
        if (left_rider(choice, i)->can_fuse) choice->left[n_left++] = choice->left[i];
    choice->n_left = n_left;
}

static void fuse_same(UnitChoice *choice)
{
    static const int sizes[] = { 8, 4, 2 };
    for (int first = 0, end; first < choice->n_left; first = end) {
        const KernelName name = name_of(left_rider(choice, first));
        for (end = first + 1; end < choice->n_left && is_named(&name, left_rider(choice, end));) end++;
        int at = first;
        for (int s = 0; s < COUNT_OF(sizes); s++)
            while (end - at >= sizes[s]) {
                int places[FUSE_MOST];
                for (int i = 0; i < sizes[s]; i++) places[i] = at + i;
                if (!add_fused(choice, places, sizes[s], true)) break;
                at += sizes[s];
            }
    }
}

// The first of each of a rider's partners that is there, in the order of the partnership.
static int list_partners(const UnitChoice *choice, const Partners *partners, int *places)
{
    int n = 0;
    for (int p = 0; p < partners->n_members; p++)
        for (int i = next_unused(choice, 0); i < choice->n_left; i = next_unused(choice, i + 1))
            if (is_named(&partners->names[p], left_rider(choice, i))) {
                places[n++] = i;
                break;
            }
    return n;
}

static void fuse_others(UnitChoice *choice)
{
    Gpu *gpu = choice->wave->gpu;
    for (int i = next_unused(choice, 0); i < choice->n_left; i = next_unused(choice, i + 1))
        if (!partners_of(gpu, left_rider(choice, i))) find_partners(gpu, left_rider(choice, i));
    for (Partners *partners = gpu->partners; partners; partners = partners->next) {
        int places[FUSE_OTHERS];
        const int n = list_partners(choice, partners, places);
        if (n > 1 && !add_fused(choice, places, n, false) && n == 3) add_fused(choice, places, 2, false);
    }
}

// Few, and mostly in order from the run before.
static void sort_by_name(UnitChoice *choice)
{
    for (int i = 1; i < choice->n_left; i++)
        for (int at = i; at > 0 && comes_before(left_rider(choice, at), left_rider(choice, at - 1)); at--) {
            const int swap = choice->left[at];
            choice->left[at] = choice->left[at - 1], choice->left[at - 1] = swap;
        }
}

static bool wants_any(const Wave *wave, const GpuRun *run)
{
    for (int k = 0; k < wave->n_chunks; k++)
        if (wants_chunk(run, wave->chunks[k].chunk, wave->chunks[k].number)) return true;
    return false;
}

// Cubes first, as they cost the same for any number of queries, those over joins after those that need no classes of
// keys; then a sieve for all others that it suits; then kernels of several; the rest by themselves.
int units_choose(Wave *wave, Unit *units, int *riders)
{
    UnitChoice choice = { .wave = wave,
                          .units = units,
                          .riders = riders,
                          .left = calloc((size_t)wave->n_riders + 1, sizeof(int)) };
    bool  *is_left = calloc((size_t)wave->n_riders + 1, sizeof *is_left);
    for (int r = 0; r < wave->n_riders; r++) {
        is_left[r] = wants_any(wave, wave->riders[r]);
        if (is_left[r] && (wave->riders[r]->can_fuse || wave->riders[r]->can_cube)) choice.left[choice.n_left++] = r;
    }
    sort_by_name(&choice);
    make_cubes(&choice);
    keep_left(&choice, is_left);
    make_join_cubes(&choice, is_left);
    keep_left(&choice, is_left);
    make_sieve(&choice, is_left);
    keep_left(&choice, is_left);
    keep_fusible(&choice);
    fuse_same(&choice);
    fuse_others(&choice);
    keep_left(&choice, is_left);
    for (int r = 0; r < wave->n_riders; r++)
        if (is_left[r]) add_unit(&choice, &(Unit){ .n_riders = 1 }, &r);
    free(is_left);
    free(choice.left);
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
    ASSERT(slot->args_used <= ARGS_BYTES);
}

static void report_launch(Wave *wave, const Unit *unit, const Grid *grid)
{
    for (int i = 0; i < unit->n_riders; i++) {
        Launch *launch = wave->riders[unit->riders[i]]->launch;
        wave->riders[unit->riders[i]]->n_fused_chunks = (u64)unit->n_chunks;
        launch->out.woven_as = "fused", launch->out.n_woven = unit->n_riders, launch->out.gain = unit->fused->gain;
        launch->out.cube = (CubeFigures){ 0 };
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
    for (Partners *partners = gpu->partners, *next; partners; partners = next) {
        next = partners->next;
        free(partners);
    }
    gpu->fused = NULL, gpu->partners = NULL;
    gpu_cubes_free(gpu);
    gpu_join_cubes_free(gpu);
    gpu_sieves_free(gpu);
}
