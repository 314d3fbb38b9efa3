// gpu_sieve.c - see gpu_sieve.h.
//
//     memory of the run   [who wants a value: a table for each column][a bit per row: chunk by chunk, for each query]
//     args of the run     [KernelArgs of t_who by column | its tests]
//                         [KernelArgs of t_sieve by chunk | columns | params | state]
//     streams             first rider: t_who, t_sieve ──> all riders: their own kernels over their rows
//
// Whether it pays is decided in src/share (cost_sieve).  A query that keeps a large share of its rows is better off
// alone.  Measured on an H200 with the tests of the 13 queries of SSB, 120 M rows: t_sieve 1.12 ms (blocks of 1024
// threads, for which its registers and tables leave room; 1.18 with 512), without part 0.74, without part and customer
// 0.48; their own kernels over the rows left 0.02 to 0.11 ms each, instead of 0.22 to 0.6.
//
// One kernel for all sets of queries over a table: it has every column that was ever tested there, SIEVE_COLUMNS at
// most, those with small tables first, and does not load columns that no query tests in this run.  So it is compiled
// anew only when a column is added, or more queries than a bit set holds have come together.

#include "device/gpu_schedule.h"
#include "device/gpu_sieve.h"
#include "device/gpu_fuse.h"
#include "kernel/kernel.h"

#include <stdlib.h>

#define PASS_MOST     0.25
#define MET_BEFORE    2
#define WAVES         8                // blocks, in multiples of what fits the multiprocessors at once, at most: 120 M
                                       // rows took 1.12 ms with 8, 1.21 with 2
#define FETCH_SHARE   4                // of tables that all blocks fetch: 1 / this of the rows' bytes, unless
                                       // multiprocessors went without work
#define TESTS_MOST    (SIEVE_RIDERS * 4)       // all of them, and of one column
#define NAME_BYTES    40
#define MEMORY_SHARE  8                // of the pool: 1 / this, at most;
#define EVICT_SHARE   64               // so little that copies which were not used for longest make way for it

typedef struct SieveTable {            // of a table of the database; lives as long as the device
    u64                table;
    int                n_columns;
    int                numbers[SIEVE_COLUMNS];
    u8                 widths[SIEVE_COLUMNS];
    u64                sizes[SIEVE_COLUMNS];       // values, when they were added: their order
    u64                most[SIEVE_COLUMNS];        // values, that were ever seen
    CodeEntry        *kernels[4];     // by lane: 1, 2, 4, 8 bytes; NULL: not asked for with these columns
    u32                shared[4];      // bit c: the table of column c is in shared memory
    Shape              shapes[4];
    struct SieveTable *next;
} SieveTable;

typedef struct PickedKernel {          // a query's kernel, over some of the rows
    u64                  table;
    char                 name[NAME_BYTES];
    u32                  groups;       // kinds of accumulators in shared memory
    int                  n_met;
    CodeEntry          *kernel;
    Shape                shape;
    struct PickedKernel *next;
} PickedKernel;

typedef struct Tested {                // of this run
    i64 low;
    u64 size, wants;                   // bits of the queries that test it; 0: none
    u64 at;                            // of its table in the pool
} Tested;

typedef struct SievedRider { GpuRun *run, kernel; Parts parts; } SievedRider;  // kernel: shape and code

struct GpuSieve {
    SieveTable *table;
    int         lane;
    double      gain;
    int         n_riders;
    SievedRider riders[SIEVE_RIDERS];
    Tested      columns[SIEVE_COLUMNS];
    GpuRun      who, sieve;            // shapes and code
    KernelSpot  spots[SIEVE_COLUMNS];  // of near tables
    u32         near_bytes;
    u64         bits_at, bits_bytes;   // of one query
    u64        *chunk_at;              // by chunk of the wave: in the bits of a query
    // once written
    int         n_whos, n_parts;
    u32         most_rows, most_values;
    GpuAddress   whos_at, parts_at;
};

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

// ---- which can ------------------------------------------------------------------------------------------------------

static const SourceColumn *source_column(const GpuRun *run, const Sieve *sieve)
{
    return &run->launch->source->columns[sieve->column];
}

static int column_number(const GpuRun *run, const Sieve *sieve)
{
    return run->launch->source->chunk_column[sieve->column];
}

static bool is_usable(const GpuRun *run, const Sieve *sieve)
{
    return share_is_sievable(&share_gpu_costs, source_column(run, sieve));
}

bool gpu_sieve_suits(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    return wave_may_meet(run) && woven->can_pick && strlen(woven->name) < NAME_BYTES && run->facts->pass <= PASS_MOST;
}

bool gpu_sieve_tests(const GpuRun *run, int column)
{
    if (!run->can_sieve) return false;
    for (int s = 0; s < run->launch->woven->n_sieves; s++)
        if (column_number(run, &run->launch->woven->sieves[s]) == column &&
            is_usable(run, &run->launch->woven->sieves[s]))
            return true;
    return false;
}

// ---- the columns of a table -----------------------------------------------------------------------------------------

static SieveTable *find_table(Gpu *gpu, u64 id)
{
    SieveTable *table = gpu->sieves;
    while (table && table->table != id) table = table->next;
    if (table) return table;
    table = calloc(1, sizeof *table);
    *table = (SieveTable){ .table = id, .next = gpu->sieves };
    gpu->sieves = table;
    return table;
}

static int find_column(const SieveTable *table, int number)
{
    int c = 0;
    while (c < table->n_columns && table->numbers[c] != number) c++;
    return c < table->n_columns ? c : -1;
}

// Small tables first: they are near, and drop rows before the far ones are asked.
static void add_column(SieveTable *table, int number, u8 width, u64 size)
{
    int at = table->n_columns;
    if (table->n_columns == SIEVE_COLUMNS || find_column(table, number) >= 0) return;
    for (; at > 0 && table->sizes[at - 1] > size; at--)
        table->numbers[at] = table->numbers[at - 1], table->widths[at] = table->widths[at - 1],
        table->sizes[at] = table->sizes[at - 1], table->most[at] = table->most[at - 1];
    ASSERT(table->n_columns < SIEVE_COLUMNS);
    table->numbers[at] = number, table->widths[at] = width, table->sizes[at] = table->most[at] = size;
    table->n_columns++;
    memset(table->kernels, 0, sizeof table->kernels);      // of fewer columns: they stay with the device, unused
}

static void add_columns(SieveTable *table, const GpuRun *run)
{
    for (int s = 0; s < run->launch->woven->n_sieves; s++) {
        const Sieve *sieve = &run->launch->woven->sieves[s];
        const Range *range = &source_column(run, sieve)->range;
        if (is_usable(run, sieve))
            add_column(table, column_number(run, sieve), source_column(run, sieve)->width,
                       (u64)(range->high - range->low) + 1);
    }
}

// Where a sieve of a run is looked up; -1: nowhere, its kernel tests it.  Widths can differ between snapshots.
static int place_in(const SieveTable *table, const GpuRun *run, const Sieve *test)
{
    const int c = is_usable(run, test) ? find_column(table, column_number(run, test)) : -1;
    return c >= 0 && table->widths[c] == source_column(run, test)->width ? c : -1;
}

static int place_of(const GpuSieve *sieve, const GpuRun *run, const Sieve *test)
{
    return place_in(sieve->table, run, test);
}

// The share that its sieves leave here: of the columns that have a place.
static double placed_share(const SieveTable *table, const GpuRun *run)
{
    double pass = 1;
    for (int s = 0; s < run->launch->woven->n_sieves; s++)
        if (place_in(table, run, &run->launch->woven->sieves[s]) >= 0) pass *= run->facts->tests[s].pass;
    return pass;
}

// ---- code -----------------------------------------------------------------------------------------------------------

static int lane_for(int n) { return n <= 8 ? 0 : n <= 16 ? 1 : n <= 32 ? 2 : 3; }

static u64 table_bytes(u64 size, int lane) { return args_rounded(size << lane); }

// The small ones, as they come first.
static u32 near_tables(const SieveTable *table, int lane, u64 most)
{
    u32 near = 0;
    u64 bytes = 0;
    for (int c = 0; c < table->n_columns; c++) {
        bytes += table_bytes(table->most[c], lane);
        if (bytes > most) break;
        near |= 1u << c;
    }
    return near;
}

static CodeEntry *table_kernel(Gpu *gpu, SieveTable *table, int lane)
{
    if (!table->kernels[lane]) {
        table->shared[lane] = near_tables(table, lane, gpu->shared_most);
        Arena      *arena = arena_new(NULL, "sieve");
        const char *name, *text = weave_sieve_text(arena, table->widths, table->n_columns, 1 << lane, &name);
        table->kernels[lane] =
            kernel_want(gpu, &(KernelWish){ .name = name, .text = text, .shared_tables = table->shared[lane] },
                        &table->shapes[lane]);
        arena_free(arena);
    }
    return table->kernels[lane];
}

static CodeEntry *who_kernel(Gpu *gpu)
{
    const char *name, *text = weave_who_text(&name);
    if (!gpu->who_kernel)
        gpu->who_kernel = kernel_want(gpu, &(KernelWish){ .name = name, .text = text }, &gpu->who_shape);
    return gpu->who_kernel;
}

// The generic kernel is one for all.
static const char *kernel_name(const GpuRun *run) { return run->program ? GENERIC_NAME : run->launch->woven->name; }

static PickedKernel *find_picked(Gpu *gpu, const GpuRun *run)
{
    PickedKernel *picked = gpu->picked;
    while (picked && (picked->table != run->launch->table || picked->groups != run->shape.shared_groups ||
                      strcmp(picked->name, kernel_name(run)) != 0))
        picked = picked->next;
    if (picked) return picked;
    picked = calloc(1, sizeof *picked);
    *picked = (PickedKernel){ .table = run->launch->table, .groups = run->shape.shared_groups, .next = gpu->picked };
    strcpy(picked->name, kernel_name(run));
    gpu->picked = picked;
    return picked;
}

static u32 groups_bytes(const GpuRun *run)
{
    u32 bytes = 0;
    for (int s = 0; s < run->launch->woven->n_state && run->shape.shared_groups; s++)
        bytes = MAX_OF(bytes,
                       run->cells[s].at +
                           (u32)((run->launch->woven->n_groups * run->launch->woven->state[s].bytes + 15) / 16 * 16));
    return bytes;
}

static bool is_ready(const CodeEntry *kernel) { return kernel && kernel->state == KERNEL_READY; }

// Its kernel over some of the rows; it was met once more.
static const PickedKernel *meet_picked(Gpu *gpu, const GpuRun *run)
{
    PickedKernel *picked = find_picked(gpu, run);
    if (!picked->kernel && run->program) picked->kernel = generic_picked(gpu, run, &picked->shape);
    if (!picked->kernel && ++picked->n_met >= MET_BEFORE)
        picked->kernel = kernel_want(gpu,
                                     &(KernelWish){ .name = run->launch->woven->name,
                                                    .text = run->launch->woven->text,
                                                    .shared_groups = picked->groups,
                                                    .is_picked = true },
                                     &picked->shape);
    return picked;
}

bool gpu_sieve_can(Gpu *gpu, GpuRun *run)
{
    SieveTable *table = find_table(gpu, run->launch->table);
    add_columns(table, run);
    return placed_share(table, run) <= PASS_MOST && is_ready(meet_picked(gpu, run)->kernel);
}

static bool add_rider(Gpu *gpu, GpuSieve *sieve, GpuRun *run)
{
    PickedKernel *picked = find_picked(gpu, run);
    ASSERT(sieve->n_riders < SIEVE_RIDERS);
    SievedRider *rider = &sieve->riders[sieve->n_riders];
    if (!kernel_fit(gpu, picked->kernel, &picked->shape, groups_bytes(run), run->launch->woven, &rider->kernel))
        return false;
    rider->run = run;
    sieve->n_riders++;
    return true;
}

// Where in shared memory the near tables are; false: they have grown since the kernel was compiled, and it is to be
// another one.
static bool place_near(Gpu *gpu, GpuSieve *sieve)
{
    SieveTable *table = sieve->table;
    u64         at = 0;
    for (int c = 0; c < table->n_columns; c++) {
        table->most[c] = MAX_OF(table->most[c], sieve->columns[c].size);
        if (!(table->shared[sieve->lane] >> c & 1)) continue;
        sieve->spots[c] = (KernelSpot){ .at = (u32)at, .bytes = (u32)table_bytes(sieve->columns[c].size, sieve->lane) };
        at += sieve->spots[c].bytes;
    }
    sieve->near_bytes = (u32)at;
    if (at <= gpu->shared_most) return true;
    table->kernels[sieve->lane] = NULL;
    return false;
}

static bool has_code(Gpu *gpu, GpuSieve *sieve)
{
    const Woven *woven = sieve->riders[0].run->launch->woven;  // for messages
    CodeEntry  *kernel = table_kernel(gpu, sieve->table, sieve->lane), *who = who_kernel(gpu);
    if (!is_ready(kernel) || !is_ready(who) || !place_near(gpu, sieve)) return false;
    return kernel_fit(gpu, kernel, &sieve->table->shapes[sieve->lane], sieve->near_bytes, woven, &sieve->sieve) &&
           kernel_fit(gpu, who, &gpu->who_shape, 0, woven, &sieve->who);
}

// ---- room for it ----------------------------------------------------------------------------------------------------

// All values that the column has for any of them: their snapshots may differ.
static void cover_columns(GpuSieve *sieve)
{
    i64 highs[SIEVE_COLUMNS];
    for (int r = 0; r < sieve->n_riders; r++) {
        const GpuRun *run = sieve->riders[r].run;
        for (int s = 0; s < run->launch->woven->n_sieves; s++) {
            const Sieve *test = &run->launch->woven->sieves[s];
            const int    c = place_of(sieve, run, test);
            if (c < 0) continue;
            Tested      *column = &sieve->columns[c];
            const Range *range = &source_column(run, test)->range;
            const i64    low = (i64)range->low, high = (i64)range->high;
            column->low = column->wants ? MIN_OF(column->low, low) : low;
            highs[c] = column->wants ? MAX_OF(highs[c], high) : high;
            column->wants |= (u64)1 << r;
            column->size = (u64)highs[c] - (u64)column->low + 1;
        }
    }
}

static u64 bits_bytes(const Chunk *chunk) { return args_rounded(((u64)chunk->n_rows + 7) / 8 + 8); }

// It is held until the run is done.  Columns that stay in the pool are not to go for much; those that pass go anyway.
static bool take_frames(Wave *wave, u64 bytes)
{
    Gpu     *gpu = wave->gpu;
    RunSlot *slot = wave->slot;
    pthread_mutex_lock(&gpu->lock);
    const u64  total = frames_total(gpu->frames);
    const bool evicts = wave->n_new || wave->is_passing || bytes <= total / EVICT_SHARE,
               is_taken =
                   bytes <= total / MEMORY_SHARE && frames_take_high(gpu->frames, bytes, evicts, &slot->sieve_at);
    if (is_taken) slot->sieve_bytes = bytes;
    pthread_mutex_unlock(&gpu->lock);
    return is_taken;
}

static bool take_memory(Wave *wave, GpuSieve *sieve)
{
    u64 bytes = 0;
    sieve->chunk_at = calloc((size_t)wave->n_chunks + 1, sizeof *sieve->chunk_at), sieve->bits_bytes = 0;
    for (int c = 0; c < sieve->table->n_columns; c++)
        sieve->columns[c].at = bytes, bytes += table_bytes(sieve->columns[c].size, sieve->lane);
    for (int k = 0; k < wave->n_chunks; k++)
        sieve->chunk_at[k] = sieve->bits_bytes, sieve->bits_bytes += bits_bytes(wave->chunks[k].chunk);
    sieve->bits_at = bytes;
    bytes += sieve->bits_bytes * (u64)sieve->n_riders;
    const bool is_taken = take_frames(wave, bytes);
    for (int c = 0; c < sieve->table->n_columns; c++) sieve->columns[c].at += wave->slot->sieve_at;
    sieve->bits_at += wave->slot->sieve_at;
    return is_taken;
}

static u64 rows_of(const Wave *wave)
{
    u64 n = 0;
    for (int k = 0; k < wave->n_chunks; k++) n += wave->chunks[k].chunk->n_rows;
    return n;
}

static bool is_rider(const GpuSieve *sieve, const GpuRun *run)
{
    int r = 0;
    while (r < sieve->n_riders && sieve->riders[r].run != run) r++;
    return r < sieve->n_riders;
}

// For half of them where there is no room for all, and so on.
static bool find_room(Wave *wave, GpuSieve *sieve)
{
    for (; sieve->n_riders > 1; sieve->n_riders /= 2) {
        sieve->lane = lane_for(sieve->n_riders);
        memset(sieve->columns, 0, sizeof sieve->columns);
        cover_columns(sieve);
        if (!has_code(wave->gpu, sieve)) return false;
        if (take_memory(wave, sieve)) return true;
        log_debug("%s: no room for a sieve of %d queries", wave->gpu->name, sieve->n_riders);
        free(sieve->chunk_at);
        sieve->chunk_at = NULL;
    }
    return false;
}

GpuSieve *gpu_sieve_of(Wave *wave, GpuRun *const *runs, int n, double gain, bool *took)
{
    Gpu      *gpu = wave->gpu;
    GpuSieve *sieve = calloc(1, sizeof *sieve);
    int       n_tests = 0;
    sieve->table = find_table(gpu, runs[0]->launch->table), sieve->gain = gain;
    for (int i = 0; i < n; i++) {
        const int n_own = runs[i]->launch->woven->n_sieves;
        if (sieve->n_riders < SIEVE_RIDERS && n_tests + n_own <= TESTS_MOST && add_rider(gpu, sieve, runs[i]))
            n_tests += n_own;
    }
    if (!find_room(wave, sieve)) {
        gpu_sieve_free(sieve);
        return NULL;
    }
    for (int i = 0; i < n; i++) took[i] = is_rider(sieve, runs[i]);
    return sieve;
}

void gpu_sieve_free(GpuSieve *sieve)
{
    if (sieve) free(sieve->chunk_at);
    free(sieve);
}

void gpu_sieves_free(Gpu *gpu)
{
    for (SieveTable *table = gpu->sieves, *next; table; table = next) {
        next = table->next;
        free(table);
    }
    for (PickedKernel *picked = gpu->picked, *next; picked; picked = next) {
        next = picked->next;
        free(picked);
    }
    gpu->sieves = NULL, gpu->picked = NULL;
}

// ---- what the kernels are handed ------------------------------------------------------------------------------------

enum { SIEVED_PARAMS = SIEVED_COLUMN + 3 * SIEVE_COLUMNS };

u64 gpu_sieve_args_bytes(void)
{
    return sizeof(KernelArgs) + SIEVE_COLUMNS * sizeof(KernelColumn) + SIEVED_PARAMS * sizeof(i64) +
           SIEVE_RIDERS * sizeof(void *);
}

u64 gpu_sieve_args_once(void)
{
    return 2 * args_rounded(sizeof(KernelCommon)) + SIEVE_COLUMNS * sizeof(KernelSpot) +
           args_rounded(SIEVE_COLUMNS * sizeof(void *)) +
           SIEVE_COLUMNS * (sizeof(KernelArgs) + WHO_PARAMS * sizeof(i64) + 2 * sizeof(void *)) +
           TESTS_MOST * sizeof(KernelTest) + 4096;
}

// The part of a join table that tells which keys it has, among what the run's kernel is handed; 0: none of it.
static GpuAddress keys_of(const GpuRun *run, const JoinTable *table, u64 *width)
{
    const Woven *woven = run->launch->woven;
    const int    number = table->shape == SHAPE_DIRECT ? TABLE_PAYLOADS : TABLE_SLOTS;
    *width = table->shape == SHAPE_DIRECT  ? table->payloads[0].width
             : table->shape == SHAPE_HEADS ? sizeof(u32)
                                         : table->is_bytes;
    for (int t = 0; t < woven->n_tables && table->shape != SHAPE_HASH; t++)
        if (woven->table_facts[t].owner == table->id && woven->table_facts[t].number == number)
            return gpu_address(run->gpu, run->tables[t]->at);
    return 0;
}

static KernelTest test_of(const GpuRun *run, const Tested *column, const Sieve *sieve, int bit)
{
    KernelTest test = { .bit = (u64)1 << bit };
    i128 low = MAX_OF(sieve->low, column->low), high = MIN_OF((i128)sieve->high, (i128)column->low + column->size - 1);
    if (sieve->table) {
        test.table = pointer(keys_of(run, sieve->table, &test.width));
        test.shift = (u64)column->low - (u64)sieve->table->keys[0].low;
        if (test.table) low = MAX_OF(low, sieve->table->keys[0].low), high = MIN_OF(high, sieve->table->keys[0].high);
    }
    // None; entries past the last value must not be looked up.
    if (low > high) test.first = column->size, test.table = NULL;
    else test.first = (u64)(low - column->low), test.span = (u64)(high - low);
    return test;
}

static int list_tests(const GpuSieve *sieve, int c, KernelTest *tests)
{
    int n = 0;
    for (int r = 0; r < sieve->n_riders; r++) {
        const GpuRun *run = sieve->riders[r].run;
        for (int s = 0; s < run->launch->woven->n_sieves; s++)
            if (place_of(sieve, run, &run->launch->woven->sieves[s]) == c)
                tests[n++] = test_of(run, &sieve->columns[c], &run->launch->woven->sieves[s], r);
    }
    return n;
}

typedef struct WhoArgs { i64 params[WHO_PARAMS]; const void *tables[1]; void *state[1]; } WhoArgs;

static void write_whos(Wave *wave, GpuSieve *sieve, GpuAddress common)
{
    GpuAddress   own_at, tests_at;
    KernelArgs *args = wave_take_args(wave, SIEVE_COLUMNS * sizeof *args, &sieve->whos_at);
    WhoArgs    *own = wave_take_args(wave, SIEVE_COLUMNS * sizeof *own, &own_at);
    KernelTest *tests = wave_take_args(wave, TESTS_MOST * sizeof *tests, &tests_at);
    int         n_tests = 0;
    for (int c = 0; c < sieve->table->n_columns; c++) {
        if (!sieve->columns[c].wants) continue;
        const GpuAddress at = own_at + (u64)sieve->n_whos * sizeof *own;
        const int       n = list_tests(sieve, c, tests + n_tests);
        ASSERT(n_tests + n <= TESTS_MOST);
        own[sieve->n_whos] = (WhoArgs){ .params = { [WHO_WIDTH] = 1 << sieve->lane, [WHO_ALL] = -1, [WHO_TESTS] = n },
                                        .tables = { pointer(tests_at + (u64)n_tests * sizeof *tests) },
                                        .state = { pointer(gpu_address(wave->gpu, sieve->columns[c].at)) } };
        // To the end of its memory: a block fetches whole pieces.
        args[sieve->n_whos++] =
            (KernelArgs){ .row_end = (u32)(table_bytes(sieve->columns[c].size, sieve->lane) >> sieve->lane),
                          .params = pointer(at + offsetof(WhoArgs, params)),
                          .tables = pointer(at + offsetof(WhoArgs, tables)),
                          .state = pointer(at + offsetof(WhoArgs, state)),
                          .common = pointer(common) };
        sieve->most_values = MAX_OF(sieve->most_values, (u32)sieve->columns[c].size);
        n_tests += n;
    }
}

typedef struct SievedArgs {
    KernelColumn columns[SIEVE_COLUMNS];
    i64 params[SIEVED_PARAMS];
    void *state[SIEVE_RIDERS];
} SievedArgs;

static GpuAddress bits_address(const Gpu *gpu, const GpuSieve *sieve, int rider, int k)
{
    return gpu_address(gpu, sieve->bits_at + sieve->bits_bytes * (u64)rider + sieve->chunk_at[k]);
}

static u64 who_wants(const GpuSieve *sieve, const RunChunk *chunk)
{
    u64 bits = 0;
    for (int r = 0; r < sieve->n_riders; r++)
        if (wants_chunk(sieve->riders[r].run, chunk->chunk, chunk->number)) bits |= (u64)1 << r;
    return bits;
}

static void write_chunk(Wave *wave, const GpuSieve *sieve, int k, u64 all, SievedArgs *own)
{
    own->params[SIEVED_ALL] = (i64)all, own->params[SIEVED_QUERIES] = sieve->n_riders;
    for (int c = 0; c < sieve->table->n_columns; c++) {
        const Tested *column = &sieve->columns[c];
        i64          *params = own->params + SIEVED_COLUMN + 3 * c;
        own->columns[c] = wave_column(wave->gpu, &wave->chunks[k], sieve->table->numbers[c]);
        params[0] = (i64)((u64)own->columns[c].base - (u64)column->low), params[1] = (i64)column->size;
        params[2] =
            own->columns[c].data && own->columns[c].width == sieve->table->widths[c] ? (i64)(column->wants & all) : 0;
    }
    for (int r = 0; r < sieve->n_riders; r++) own->state[r] = pointer(bits_address(wave->gpu, sieve, r, k));
}

static void write_chunks(Wave *wave, GpuSieve *sieve)
{
    GpuAddress   own_at, tables_at, common, spots_at;
    KernelCommon *in_common = wave_take_args(wave, sizeof *in_common, &common);
    memcpy(wave_take_args(wave, sizeof sieve->spots, &spots_at), sieve->spots, sizeof sieve->spots);
    in_common->spots = pointer(spots_at);
    const void **tables = wave_take_args(wave, SIEVE_COLUMNS * sizeof *tables, &tables_at);
    KernelArgs *args = wave_take_args(wave, (u64)wave->n_chunks * sizeof *args, &sieve->parts_at);
    SievedArgs *own = wave_take_args(wave, (u64)wave->n_chunks * sizeof *own, &own_at);
    for (int c = 0; c < sieve->table->n_columns; c++) tables[c] = pointer(gpu_address(wave->gpu, sieve->columns[c].at));
    for (int k = 0; k < wave->n_chunks; k++) {
        const u64       all = who_wants(sieve, &wave->chunks[k]);
        const GpuAddress at = own_at + (u64)sieve->n_parts * sizeof *own;
        if (!all) continue;
        write_chunk(wave, sieve, k, all, &own[sieve->n_parts]);
        args[sieve->n_parts++] = (KernelArgs){ .row_end = wave->chunks[k].chunk->n_rows,
                                               .columns = pointer(at + offsetof(SievedArgs, columns)),
                                               .tables = pointer(tables_at),
                                               .params = pointer(at + offsetof(SievedArgs, params)),
                                               .state = pointer(at + offsetof(SievedArgs, state)),
                                               .common = pointer(common) };
        sieve->most_rows = MAX_OF(sieve->most_rows, wave->chunks[k].chunk->n_rows);
    }
}

// Each rider's parts are those of the chunks that it wants, in order.
static void hand_out_bits(Wave *wave, GpuSieve *sieve, int r, const Parts *parts)
{
    RunSlot    *slot = wave->slot;
    KernelArgs *args = (KernelArgs *)(void *)(slot->args + (parts->at - slot->args_at));
    for (int k = 0, p = 0; k < wave->n_chunks && p < parts->n_parts; k++)
        if (wants_chunk(sieve->riders[r].run, wave->chunks[k].chunk, wave->chunks[k].number))
            args[p++].sieved = pointer(bits_address(wave->gpu, sieve, r, k));
}

void gpu_sieve_hand_out(Wave *wave, GpuSieve *sieve, Parts *const *parts)
{
    for (int r = 0; r < sieve->n_riders; r++) {
        sieve->riders[r].parts = *parts[r];
        hand_out_bits(wave, sieve, r, parts[r]);
    }
}

// ---- launching ------------------------------------------------------------------------------------------------------

// Blocks for each of N parts: as many as fit the multiprocessors at once, some times.
static Grid blocks_for(const Gpu *gpu, const Shape *shape, u64 rows, u64 rows_at_once, int n, int waves)
{
    return schedule_grid(
        gpu, shape, &(GridWish){ .rows = rows, .rows_at_once = rows_at_once, .n_parts = n, .rounds = waves });
}

// Each block fetches the near tables.  5 M rows, 40 KB of tables, blocks of 1024: 0.056 ms with eight waves, 0.050 with
// two.
static int waves_for(const Gpu *gpu, const GpuSieve *sieve, u64 rows)
{
    const Shape *shape = &sieve->sieve.shape;
    u64          width = 0;
    for (int c = 0; c < sieve->table->n_columns; c++)
        if (sieve->columns[c].wants) width += sieve->table->widths[c];
    const u64 fetched = (u64)gpu->n_sms * (u64)shape->blocks_per_sm * MAX_OF(sieve->near_bytes, 1);
    return (int)MAX_OF(1, MIN_OF(WAVES, rows * width / (FETCH_SHARE * fetched)));
}

static Grid sieve_blocks(const Wave *wave, const GpuSieve *sieve)
{
    const Shape *shape = &sieve->sieve.shape;
    return blocks_for(wave->gpu, shape, sieve->most_rows, 0, sieve->n_parts,
                      waves_for(wave->gpu, sieve, rows_of(wave)));
}

static void tell(const GpuSieve *sieve, const SievedRider *rider, const Grid *grid)
{
    Launch *launch = rider->run->launch;
    rider->run->n_sieved_chunks = (u64)rider->parts.n_parts;
    launch->out.woven_as = "sieved", launch->out.n_woven = sieve->n_riders, launch->out.gain = sieve->gain;
    launch->out.body = (BodyFigures){ 0 };
    schedule_note(&launch->out.gpu, &rider->kernel, grid);
}

static weft_status launch_rider(Wave *wave, const GpuSieve *sieve, const SievedRider *rider, Error *err)
{
    const Shape *shape = &rider->kernel.shape;
    if (!rider->parts.n_parts) return WEFT_OK;
    const Grid grid =
        blocks_for(wave->gpu, shape, rider->parts.most_rows, (u64)shape->threads * PICK_ROWS, rider->parts.n_parts, 1);
    TRY(wave_launch(wave->gpu, &rider->kernel, rider->run->stream, rider->parts.at, &grid, err));
    tell(sieve, rider, &grid);
    return WEFT_OK;
}

weft_status gpu_sieve_begin(Wave *wave, GpuSieve *sieve, Error *err)
{
    Gpu         *gpu = wave->gpu;
    GpuRun      *runs[SIEVE_RIDERS] = { 0 }, *first = sieve->riders[0].run;
    const Shape *who = &sieve->who.shape;
    GpuAddress    common;
    wave_take_args(wave, sizeof(KernelCommon), &common);
    write_whos(wave, sieve, common);
    write_chunks(wave, sieve);
    for (int r = 0; r < sieve->n_riders; r++) runs[r] = sieve->riders[r].run;
    TRY(wave_gate(wave, err));
    TRY(wave_wait(wave, first->stream, err));
    TRY(wave_join(gpu, runs, sieve->n_riders, err));
    const Grid whos = blocks_for(gpu, who, sieve->most_values, 0, sieve->n_whos, WAVES),
               sieved = sieve_blocks(wave, sieve);
    TRY(wave_launch(gpu, &sieve->who, first->stream, sieve->whos_at, &whos, err));
    TRY(wave_launch(gpu, &sieve->sieve, first->stream, sieve->parts_at, &sieved, err));
    return wave_fork(gpu, runs, sieve->n_riders, err);
}

weft_status gpu_sieve_end(Wave *wave, GpuSieve *sieve, Error *err)
{
    for (int r = 0; r < sieve->n_riders; r++) {
        TRY(wave_wait(wave, sieve->riders[r].run->stream, err));
        TRY(launch_rider(wave, sieve, &sieve->riders[r], err));
    }
    return WEFT_OK;
}
