// gpu_kernel.c - which code a launch needs, and the shape of the launch.
//
// What goes to shared memory is decided before compiling, since it is an option of the compiler: first the accumulators
// of groups, then join tables from the smallest on, as long as they leave room for enough threads.  Rows per thread,
// threads and blocks come after it, from the registers and the shared memory that the compiled kernel takes: the driver
// says how many blocks of a size fit a multiprocessor, and the size that keeps most threads busy is taken; the larger
// one where shared memory is used, since a block's tables serve more rows.  Where few threads stay busy, the kernel is
// compiled for fewer rows per thread as well, and the better one is kept.

#include "device/gpu_int.h"
#include "jit/jit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED_GROUPS_MOST ((u64)48 << 10)
#define SHARED_TABLE_MOST  ((u64)32 << 10)     // a larger table would be fetched for longer than it is used
#define NEAR_BYTES         ((u64)12 << 10)     // of the first groups of a hash table, which serve few rows where there
                                               // are many groups
#define NEAR_MOST          1024
#define NEAR_LEAST         16
#define ROWS_FOR_SHARED    ((u64)1 << 16)      // few rows are not worth fetching tables for

static u64 round_up(u64 bytes, u64 unit) { return (bytes + unit - 1) / unit * unit; }

// ---- what goes to shared memory -------------------------------------------------------------------------------------

static u32 cells_kind(SlotKind kind)
{
    switch (kind) {
        case SLOT_SEEN: return CELLS_SEEN;
        case SLOT_ADD: return CELLS_ADD;
        case SLOT_MIN: return CELLS_MIN;
        case SLOT_MAX: return CELLS_MAX;
        case SLOT_MIN_F64: return CELLS_MIN_F64;
        case SLOT_MAX_F64: return CELLS_MAX_F64;
        case SLOT_WIDE_LOW: return CELLS_WIDE_LOW;
        default: return CELLS_WIDE_HIGH;
    }
}

u64 kernel_place_cells(const Woven *woven, u64 n, u64 most, KernelCells *cells, u32 *kinds)
{
    u64 at = 0;
    *kinds = 0;
    for (int s = 0; s < woven->n_state && at <= most; s++) {
        cells[s] =
            (KernelCells){ .init = woven->state[s].init, .at = (u32)at, .kind = cells_kind(woven->state[s].kind) };
        at += round_up(n * woven->state[s].bytes, 16);
        *kinds |= 1u << cells[s].kind;
    }
    return at;
}

// Groups of a hash table are numbered as they come, so those that most rows belong to are mostly among the first.  120
// M rows of 50 groups took 30.7 ms on an H200 with all additions in memory that all blocks share, and 2.1 so; of
// 1,000,000 groups 7.8 and 8.1.
static u64 place_near_groups(GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    u64          bytes = 0;
    for (int s = 0; s < woven->n_state; s++) bytes += woven->state[s].bytes;
    run->shape.n_near = (u32)MIN_OF(NEAR_BYTES / MAX_OF(bytes, 1), NEAR_MOST);
    if (run->shape.n_near < NEAR_LEAST) return run->shape.n_near = 0;
    return kernel_place_cells(woven, run->shape.n_near, SHARED_GROUPS_MOST, run->cells, &run->shape.near_groups);
}

static u64 place_groups(GpuRun *run, u64 most)
{
    const Woven *woven = run->launch->woven;
    u32          kinds;
    if (run->launch->sink != SINK_GROUPS || woven->n_state == 0) return 0;
    if (woven->group_kind == GROUP_HASH) return place_near_groups(run);
    if (woven->group_kind != GROUP_ARRAY) return 0;
    const u64 at = kernel_place_cells(woven, woven->n_groups, SHARED_GROUPS_MOST, run->cells, &kinds);
    if (at > MIN_OF(most, SHARED_GROUPS_MOST)) return 0;
    run->shape.shared_groups = kinds;
    return at;
}

static int smallest_table(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    int          best = -1;
    for (int t = 0; t < MIN_OF(woven->n_tables, 32); t++) {
        if (run->shape.shared_tables >> t & 1 || !woven->table_facts[t].bytes) continue;
        if (best < 0 || woven->table_facts[t].bytes < woven->table_facts[best].bytes) best = t;
    }
    return best;
}

static u64 place_tables(GpuRun *run, u64 at, u64 most)
{
    const Woven *woven = run->launch->woven;
    int          table;
    while ((table = smallest_table(run)) >= 0) {
        const u64 bytes = round_up(woven->table_facts[table].bytes, 16);
        if (bytes > SHARED_TABLE_MOST || at + bytes > most) break;
        run->spots[table] = (KernelSpot){ .at = (u32)at, .bytes = (u32)bytes };
        run->shape.shared_tables |= 1u << table;
        at += bytes;
    }
    return at;
}

static void place_shared(Gpu *gpu, GpuRun *run)
{
    u64 at = place_groups(run, gpu->shared_most);
    run->shape.cells_bytes = (u32)at;
    if (run->rows_wanted >= ROWS_FOR_SHARED) at = place_tables(run, at, gpu->shared_most);
    run->shape.dynamic_shared = (u32)at;
}

// Rows per thread, to begin with: how many stay shows when the kernel is compiled (load_code).  Where each row adds to
// a cell somewhere in memory that all blocks share, more of them only make a thread wait longer: 120 M rows into
// 600,000 groups of an array took 3.0 ms on an H200 with eight, 2.2 with two, 1.9 with one (but with one in eleven rows
// left 1.0, 1.0 and 1.2); into 1,000,000 groups of a hash table 18.7 with eight, 9.8 with two, 8.1 with one, and into
// 50 groups 2.1, 2.3 and 2.1.  A list of rows that a sieve left is short: more of them for each thread would leave
// others without any.  Where each row calls functions that take hundreds of instructions and have memory of their own,
// more rows for a thread gain nothing, and that memory would have it compiled four times, for eight rows down to one.
static int items_at_first(const char *text, u32 shared_groups, bool is_picked)
{
    // It reads rows that a kernel left, and nothing is written behind the last one.
    if (strstr(text, "FRESH(")) return 1;
    for (const char *at = text; (at = strstr(at, "CHAIN")); at++)          // it follows chains
        if (at[5] == '(' || strncmp(at + 5, "_PIECES", 7) == 0) return 1;
    if (strstr(text, "GROUP(")) return 1;
    if (jit_has_calls(text)) return 1;
    return is_picked || (strstr(text, "SUMS(") && !shared_groups) ? 2 : 8;
}

// Most texts are those of earlier queries, so a thread remembers by their names what was found out.
static int items_of(const Woven *woven, u32 shared_groups)
{
    static _Thread_local struct { char name[32]; bool is_shared; int items; } known[64];
    const size_t n_name = strlen(woven->name);
    const bool   is_shared = shared_groups != 0;
    const u64    at = hash_bytes(woven->name, n_name) % COUNT_OF(known);
    if (n_name >= sizeof known->name) return items_at_first(woven->text, shared_groups, false);
    if (strcmp(known[at].name, woven->name) != 0 || known[at].is_shared != is_shared) {
        known[at].items = items_at_first(woven->text, shared_groups, false);
        known[at].is_shared = is_shared;
        memcpy(known[at].name, woven->name, n_name + 1);
    }
    return known[at].items;
}

// A column is loaded without waiting for what is left of its rows where most of its sectors (32 bytes) are needed
// anyway.
#define SECTOR_BYTES 32
#define EAGER_SHARE  0.1               // the sum over SSB was 5.8 ms with 0.1, 6.0 with 0.25, 6.2 with 0.4

static u32 eager_columns(const GpuRun *run)
{
    const Launch *launch = run->launch;
    u32           eager = 0;
    for (int c = 0; c < MIN_OF(launch->woven->n_columns, 32); c++) {
        const int    width = launch->source->columns[launch->woven->columns[c]].width;
        const double dead = 1 - MIN_OF(launch->woven->column_pass[c], 1.0),
                     share = 1 - pow(dead, (double)SECTOR_BYTES / MAX_OF(width, 1));
        if (width && share >= EAGER_SHARE) eager |= 1u << c;
    }
    return eager;
}

#define BUILD_LEFT_MS  10.0             // one that should be done by now
#define QUICK_SHARE    0.6              // that quick code takes, of the time for the other
#define DEMANDS_MOST   8                // compiles that queries wait for, at once: NVRTC does not do three side by side

typedef struct KernelKey { char bytes[sizeof(((CodeEntry *)0)->key)]; } KernelKey;

// Every launch asks for its code twice, so this is not left to the library's printf.
PRINTF_LIKE(1, 2) static KernelKey key_make(const char *format, ...)
{
    KernelKey key;
    va_list   args;
    key.bytes[0] = '\0';
    va_start(args, format);
    format_args(key.bytes, sizeof key.bytes, format, args);
    va_end(args);
    return key;
}

static KernelKey key_of(const GpuRun *run)
{
    return key_make("%.*s %d %x %x %x %x", 60, run->launch->woven->name, run->shape.items, run->shape.shared_tables,
                    run->shape.shared_groups, run->shape.eager, run->shape.near_groups);
}

// What the compiler has to know, and with it which code it is.
static KernelKey choose_code(Gpu *gpu, GpuRun *run)
{
    run->shape.eager = eager_columns(run);
    place_shared(gpu, run);
    run->shape.items = items_of(run->launch->woven, run->shape.shared_groups);
    return key_of(run);
}

// ---- code that a query waits for: a thread of its own makes it, as a compiler cannot be told to stop, and a query can

struct Demand { pthread_t thread; Gpu *gpu; CodeEntry *kernel; bool is_done; struct Demand *next; };

static void build_on_demand(Gpu *gpu, CodeEntry *kernel)
{
    Error own = { 0 };
    kernel_build(gpu, kernel, &own);   // a failure is the kernel's
    pthread_mutex_lock(&gpu->lock);
    gpu->warm = NULL;
    ASSERT(gpu->n_demanded > 0);
    if (--gpu->n_demanded == 0) pthread_cond_broadcast(&gpu->wanted);
    pthread_cond_broadcast(&gpu->built);           // there is a place for the next one
    pthread_mutex_unlock(&gpu->lock);
}

static void *demand_thread(void *context)
{
    Demand *demand = context;
    build_on_demand(demand->gpu, demand->kernel);
    pthread_mutex_lock(&demand->gpu->lock);
    demand->is_done = true;
    pthread_mutex_unlock(&demand->gpu->lock);
    return NULL;
}

// Under the lock, so that the thread reports its result only after kernel_begin.  False: the system refused a thread.
static bool start_demand(Gpu *gpu, CodeEntry *kernel)
{
    Demand *demand = calloc(1, sizeof *demand);
    *demand = (Demand){ .gpu = gpu, .kernel = kernel, .next = gpu->demands };
    const bool is_started = thread_start(&demand->thread, NULL, demand_thread, demand) == 0;
    if (is_started) gpu->demands = demand;
    else free(demand);
    return is_started;
}

// With the lock.  Those that are done, or ALL, out of the list.
static Demand *take_demands(Gpu *gpu, bool all)
{
    Demand *taken = NULL;
    ASSERT(mutex_is_held(&gpu->lock));
    for (Demand **link = &gpu->demands, *demand; (demand = *link);) {
        if (!all && !demand->is_done) {
            link = &demand->next;
            continue;
        }
        *link = demand->next;
        demand->next = taken, taken = demand;
    }
    return taken;
}

static void join_demands(Demand *demands)
{
    for (Demand *demand = demands, *next; demand; demand = next) {
        next = demand->next;
        pthread_join(demand->thread, NULL);
        free(demand);
    }
}

void demands_stop(Gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    Demand *all = take_demands(gpu, true);
    pthread_mutex_unlock(&gpu->lock);
    join_demands(all);
}

// Under the lock.  If the system refuses a thread and no other query builds, the caller builds it itself, without the
// lock, and cannot be cancelled until it is done.
static bool build_for(Gpu *gpu, CodeEntry *kernel)
{
    ASSERT(mutex_is_held(&gpu->lock) && gpu->n_demanded < DEMANDS_MOST);
    const bool has_thread = start_demand(gpu, kernel);
    if (!has_thread && gpu->n_demanded) return false;
    gpu->n_demanded++;
    kernel_begin(kernel);
    if (has_thread) return true;
    pthread_mutex_unlock(&gpu->lock);
    build_on_demand(gpu, kernel);
    pthread_mutex_lock(&gpu->lock);
    return true;
}

static bool is_to_be_built(const CodeEntry *kernel)
{
    return kernel->state == KERNEL_NOTED || kernel->state == KERNEL_QUEUED;
}

// Under the lock.  At most DEMANDS_MOST are built at once; a kernel whose query gave up before its turn is not built.
static weft_status wait_for_code(Gpu *gpu, const GpuRun *run, CodeEntry *kernel, bool *was_built, Error *err)
{
    const _Atomic u32 *stop = run->launch->stop;
    while (kernel->state == KERNEL_BUILDING || is_to_be_built(kernel)) {
        if (stop && atomic_load(stop))
            return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        if (is_to_be_built(kernel) && gpu->n_demanded < DEMANDS_MOST && build_for(gpu, kernel)) *was_built = true;
        else gpu_wait_a_little(gpu, &gpu->built);
    }
    return kernel->state == KERNEL_READY ? WEFT_OK : fail(err, kernel->error.status, -1, "%s", kernel->error.message);
}

static CodeEntry *find_ready(Gpu *gpu, const KernelKey *key)
{
    CodeEntry *kernel = kernel_find(gpu, key->bytes);
    if (kernel && kernel->state != KERNEL_READY) kernel = kernel->quick;
    return kernel && kernel->state == KERNEL_READY ? kernel : NULL;
}

// Under the lock.  Quick code is there first, unless the other is nearly done.
static CodeEntry *first_there(CodeEntry *kernel)
{
    CodeEntry *quick = kernel->quick;
    return quick && quick->state != KERNEL_FAILED && kernel->state != KERNEL_BUILDING ? quick : kernel;
}

// Under the lock.  Where quick code fails, the other is made.
static weft_status wait_for_either(Gpu *gpu, GpuRun *run, CodeEntry *kernel, bool *was_built, Error *err)
{
    run->kernel = first_there(kernel);
    const weft_status status = wait_for_code(gpu, run, run->kernel, was_built, err);
    if (!status || status == WEFT_QUERY_CANCELED || !run->kernel->is_quick) return status;
    run->kernel = kernel;
    return wait_for_code(gpu, run, kernel, was_built, err);
}

// Compiled in the background from now on, whoever else asks for it.
static void want_now(Gpu *gpu, CodeEntry *kernel)
{
    pthread_mutex_lock(&gpu->lock);
    kernel->n_asked = MAX_OF(kernel->n_asked, 2);
    pthread_mutex_unlock(&gpu->lock);
    ready_begin(gpu, false);
}

weft_status kernel_wait_until_built(Gpu *gpu, GpuRun *run, CodeEntry *kernel, Error *err)
{
    bool was_built = false;
    pthread_mutex_lock(&gpu->lock);
    Demand *done = take_demands(gpu, false);
    kernel_revive(kernel);
    const weft_status status = wait_for_code(gpu, run, kernel, &was_built, err);
    pthread_mutex_unlock(&gpu->lock);
    join_demands(done);
    return status;
}

// A compiled kernel is found without the lock.
bool kernel_find_ready(Gpu *gpu, GpuRun *run)
{
    const KernelKey key = choose_code(gpu, run);
    run->launch->out.gpu.was_cached = true;
    run->kernel = find_ready(gpu, &key);
    run->launch->out.gpu.is_quick = run->kernel && run->kernel->is_quick;
    return run->kernel != NULL;
}

bool kernel_is_in_cache(Gpu *gpu, const GpuRun *run)
{
    const Woven    *woven = run->launch->woven;
    const KernelKey key = key_of(run);
    const CodeJob   job = { .text = woven->text, .name = woven->name, .shape = &run->shape, .items = run->shape.items,
                            .is_quick = gpu->is_quick_only };
    return !kernel_find(gpu, key.bytes) && gpu->vendor->has_code(gpu, &job);
}

// Compiles the kernel unless a background thread has begun to.  All queries that need it wait, and get the error if it
// fails.
weft_status kernel_make(Gpu *gpu, GpuRun *run, Error *err)
{
    const KernelKey key = key_of(run);
    pthread_mutex_lock(&gpu->lock);
    CodeEntry *kernel = kernel_note(gpu, key.bytes, run->launch->woven, &run->shape);
    Demand     *done = take_demands(gpu, false);
    kernel_revive(kernel);
    bool              was_built = false;
    const weft_status status = wait_for_either(gpu, run, kernel, &was_built, err);
    pthread_mutex_unlock(&gpu->lock);
    join_demands(done);
    run->launch->out.gpu.was_cached = !was_built || status || run->kernel->was_cached;
    run->launch->out.gpu.is_quick = run->kernel->is_quick;
    if (run->kernel->is_quick) want_now(gpu, kernel);      // the better one, meanwhile
    return status;
}

weft_status kernel_get(Gpu *gpu, GpuRun *run, Error *err)
{
    return kernel_find_ready(gpu, run) ? WEFT_OK : kernel_make(gpu, run, err);
}

// Under the lock.  A kernel that failed counts as ready (to be refused) until it is tried again.
static double build_ms(const Gpu *gpu, CodeEntry *kernel)
{
    ASSERT(mutex_is_held(&gpu->lock));
    kernel_revive(kernel);
    if (kernel->state == KERNEL_READY || kernel->state == KERNEL_FAILED) return 0;
    const CodeEntry *first = first_there(kernel);
    const double     whole_ms = first->is_quick ? QUICK_SHARE * gpu->compile_ms : gpu->compile_ms;
    if (first->state == KERNEL_READY) return 0;
    return first->state == KERNEL_BUILDING ? MAX_OF(whole_ms - (time_now_ms() - first->begun_ms), BUILD_LEFT_MS)
                                           : whole_ms;
}

// With the lock.
static double asked_ms(const Gpu *gpu, CodeEntry *kernel)
{
    kernel->n_asked++;
    if (kernel->quick) kernel->quick->n_asked++;
    return build_ms(gpu, kernel);
}

// A device that is lost is ready to refuse.
double kernel_wait_ms(Gpu *gpu, const Launch *launch, Shape *shape, u64 *n_rows)
{
    const Woven *woven = launch->woven;
    Launch       look = *launch;
    GpuRun       run = { .gpu = gpu, .launch = &look };
    if (gpu->is_lost) return 0;
    run.cells = calloc((size_t)woven->n_state + 1, sizeof *run.cells);
    run.spots = calloc((size_t)woven->n_tables + 1, sizeof *run.spots);
    for (int c = 0; c < launch->source->n_chunks; c++)
        if (launch_wants_chunk(launch, c)) run.rows_wanted += launch->source->chunks[c]->n_rows;
    const KernelKey key = choose_code(gpu, &run);
    *shape = run.shape, *n_rows = run.rows_wanted;
    free(run.cells);
    free(run.spots);
    if (find_ready(gpu, &key)) return 0;
    pthread_mutex_lock(&gpu->lock);
    CodeEntry *kernel = kernel_find(gpu, key.bytes);
    double      wait_ms = kernel ? asked_ms(gpu, kernel) : gpu->compile_ms;
    const bool  is_known = kernel != NULL;
    pthread_mutex_unlock(&gpu->lock);
    if (is_known) return wait_ms;
    const CodeJob job = { .text = woven->text, .name = woven->name, .shape = &run.shape, .items = run.shape.items,
                          .is_quick = gpu->is_quick_only };
    if (gpu->vendor->has_code(gpu, &job)) return 0;
    pthread_mutex_lock(&gpu->lock);
    kernel = kernel_note(gpu, key.bytes, run.launch->woven, &run.shape);
    kernel_note_quick(gpu, kernel);
    wait_ms = asked_ms(gpu, kernel);
    pthread_mutex_unlock(&gpu->lock);
    return wait_ms;
}

CodeEntry *kernel_want(Gpu *gpu, const KernelWish *wish, Shape *shape)
{
    Woven     woven = { .name = wish->name, .text = wish->text };
    Launch    launch = { .woven = &woven };
    GpuRun    run = { .gpu = gpu, .launch = &launch };
    KernelKey key;
    const int items =
        wish->items ? wish->items : items_at_first(wish->text, wish->shared_groups, wish->is_picked);
    *shape = run.shape = (Shape){ .items = items,
                                  .shared_groups = wish->shared_groups,
                                  .near_groups = wish->near_groups,
                                  .shared_tables = wish->shared_tables,
                                  .is_picked = wish->is_picked,
                                  .has_fixed_items = wish->has_fixed_items };
    snprintf(key.bytes, sizeof key.bytes, "%.60s %d %x %x 0 %x%s", wish->name, run.shape.items, wish->shared_tables,
             wish->shared_groups, wish->near_groups, wish->is_picked ? " picked" : "");
    pthread_mutex_lock(&gpu->lock);
    CodeEntry *kernel = kernel_note(gpu, key.bytes, run.launch->woven, &run.shape);
    pthread_mutex_unlock(&gpu->lock);
    want_now(gpu, kernel);
    return kernel;
}

// ---- the shape ------------------------------------------------------------------------------------------------------

static bool recall_fit(Gpu *gpu, const CodeEntry *kernel, u32 dynamic_shared, Fit *fit)
{
    bool is_found = false;
    pthread_mutex_lock(&gpu->slots_lock);
    for (int f = 0; f < MIN_OF(kernel->n_fits, N_FITS) && !is_found; f++) {
        is_found = kernel->fits[f].dynamic_shared == dynamic_shared;
        if (is_found) *fit = kernel->fits[f];
    }
    pthread_mutex_unlock(&gpu->slots_lock);
    return is_found;
}

static void note_fit(Gpu *gpu, CodeEntry *kernel, const Fit *fit)
{
    pthread_mutex_lock(&gpu->slots_lock);
    kernel->fits[kernel->n_fits % N_FITS] = *fit;
    kernel->n_fits = kernel->n_fits + 1 < 2 * N_FITS ? kernel->n_fits + 1 : N_FITS;
    pthread_mutex_unlock(&gpu->slots_lock);
}

weft_status kernel_shape(Gpu *gpu, GpuRun *run, Error *err)
{
    const GpuCode *code = &run->kernel->code;
    Shape      *shape = &run->shape;
    GpuFigures *figures = &run->launch->out.gpu;
    Fit         fit;
    ASSERT(run->kernel->state == KERNEL_READY);
    if (!recall_fit(gpu, run->kernel, shape->dynamic_shared, &fit)) {
        TRY(kernel_find_fit(gpu, code, shape, &fit, err));
        if (!fit.threads)
            return fail(err, WEFT_DEVICE_FAILED, -1,
                        "kernel %s does not fit a multiprocessor: %d registers, %u bytes of shared memory",
                        run->launch->woven->name, code->registers, shape->dynamic_shared);
        note_fit(gpu, run->kernel, &fit);
    }
    shape->threads = fit.threads, shape->blocks_per_sm = fit.blocks_per_sm, shape->items = code->items,
    shape->launch_shared = fit.launch_shared;
    figures->registers = code->registers;
    figures->shared_bytes = code->static_shared + (int)shape->launch_shared;
    figures->threads = shape->threads, figures->items = shape->items, figures->blocks_per_sm = shape->blocks_per_sm;
    figures->occupancy = 100 * fit.threads * fit.blocks_per_sm / MAX_OF(gpu->threads_per_sm, 1);
    return WEFT_OK;
}

bool kernel_fit(Gpu *gpu, CodeEntry *kernel, const Shape *shape, u32 dynamic_shared, const Woven *woven, GpuRun *run)
{
    Launch launch = { .woven = woven };
    Error  ignored = { 0 };
    if (!kernel || kernel->state != KERNEL_READY) return false;
    *run = (GpuRun){ .gpu = gpu, .launch = &launch, .kernel = kernel, .shape = *shape };
    run->shape.dynamic_shared = dynamic_shared;
    const weft_status status = kernel_shape(gpu, run, &ignored);
    run->launch = NULL;
    return !status;
}

// ---- kernels that a device has for itself: launches that have neither a source nor a query --------------------------

void fixed_describe(Fixed *fixed, Gpu *gpu, const char *text, const char *name)
{
    *fixed = (Fixed){ .woven = { .text = text, .name = name },
                      .launch = { .woven = &fixed->woven, .source = &fixed->none, .sink = SINK_GROUPS },
                      .run = { .gpu = gpu, .launch = &fixed->launch } };
}

weft_status fixed_code(Gpu *gpu, Fixed *fixed, Error *err)
{
    TRY(gpu_enter(gpu, err));          // another thread makes the code
    TRY(kernel_get(gpu, &fixed->run, err));
    return kernel_shape(gpu, &fixed->run, err);
}

bool fixed_is_ready(Gpu *gpu, const Fixed *fixed)
{
    Shape      ignored;
    u64        n_rows;
    const bool is_ready = kernel_wait_ms(gpu, &fixed->launch, &ignored, &n_rows) <= 0;
    if (!is_ready) ready_begin(gpu, true);
    return is_ready;
}
