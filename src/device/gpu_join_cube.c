// gpu_join_cube.c - see gpu_join_cube.h.
//
//     pool    [atoms of a column's values]          a copy for each column; stays while the atoms do
//             [class of an atom | states | places | pairs of cells and groups]      a copy for each set of queries
//             [cells | KernelArgs by chunk, with columns and params | KernelArgs of t_collect]      of this run alone
//
// The kernel is weave_join_cube's: a value leads to its atom, that to its class, the classes of a row to a slot, and a
// row that no query wants is gone at once.  Cells are in shared memory where they fit, else in memory that all blocks
// share, which then is mostly the L2 cache: few rows get so far.  Small tables are in shared memory, too: the 32 looks
// of a warp fall on as many lines of a table, which the L1 cache serves one after the other (three of SSB's bodies took
// 4 to 20 % less on an H200).  What is where is compiled in, so a shape has several kernels, made in the background.  A
// second kernel (t_collect) adds each query's cells to its own groups.  So a query more costs what its classes cost,
// and the number of queries has no limit but that of cells (gpu_fuse.c makes several cubes where they are too many).
//
// Join tables are mostly in the device's memory, where they were made, and classes are made by the host (share/slots.c,
// which looks at every entry of a table once).  So a query's own thread fetches them before it gets on: a byte or two
// for each key, once for all queries that share the table, and only when the kernel for its shape is there and other
// queries are about.  Refused: classes made by a kernel from bit sets, since sets of hundreds of queries are as many
// bytes a key as a table is for twenty; and columns of the dimension on the host, which may have to be read from disk.
//
// What is sent: atoms only when a new test has split some; the rest is small.  It goes in the stream of the first
// query, and an event of the shape tells later cubes that atoms they find have come.

#include "device/gpu_join_cube.h"
#include "device/gpu_kinds.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

#define SHAPES_MOST   256              // known; queries of others are never cubes
#define KEPT_MOST     ((u64)64 << 20)  // bytes of slots that are kept for the next cubes of their shapes,
#define KEPT_SHARE    32               // and 1 / this of the database's memory
#define MET_BEFORE    2
#define MET_CROWD     64               // riders of a shape at once, or so many: some of them wait for the kernel
#define ITEMS_AT_FIRST 8               // rows per thread, though cells may be far: few rows get there
#define NEAR_MOST     ((u64)48 << 10)  // bytes of a table that each block fetches
#define NEAR_STEP     ((u64)4 << 10)   // shared memory is asked for in steps, so that a shape's few fits are known
#define CELLS_MOST    ((u64)4 << 20)   // bytes: of 50 MB or so of L2, with columns passing through
#define MEMORY_SHARE  8                // of the pool: 1 / this, at most
#define SEND_NS       5e4              // e: of a join table that is sent, and for each of its bytes, with what fills it
#define FILL_NS       1.0

enum { KEY_ATOMS = 2, KEY_BODY = 3 };  // of copies, as KEY_TABLE

struct JoinRide {                      // of a launch
    Arena          *arena;
    CubeForm        form;              // its tables are those of the host, if it has them
    bool            has_tables;        // or their kinds
};

// Code of a shape, by what it has in shared memory.
typedef struct JoinKernel {
    CodeEntry  *code;
    Shape       shape;
    u32         near;                  // a bit for each table
    bool        has_cells;
} JoinKernel;

enum { KERNELS_MOST = 6, NEAR_TABLES = 32, SLOTS_MOST = 8 };

// Of the latest cube over some kinds; used by the dispatcher only.  Kept apart by kinds, since classes are of kinds: of
// two cubes of a run that are of one shape, one over finer kinds than the other, both have classes for the next run.
typedef struct JoinSlots {
    u64         kinds[CUBE_TESTS];     // ids, by test, as in CubeTest
    Slots      *slots;                 // NULL: none yet, or no more
    Arena      *arena;
    u64         version;               // of what is sent for it
    int         n_members;
    u64        *members;               // numbers of launches
    u64         used;                  // when
    u64         refused_first, refused_last;   // members that no slots could be made for: the first, the last
    int         n_refused;             // and how many; 0: none
} JoinSlots;

typedef struct JoinShape {             // lives as long as the device
    Arena      *arena;
    u64         table;
    CubeForm    form;                  // but for tables
    int         order[CUBE_TESTS];
    Woven      *woven;
    int        *numbers;               // by column of the kernel: that of the table, or -1 - test: a column of kinds
    bool        has_kinds;             // some test looks at one
    int         n_met;
    int         n_kernels;
    JoinKernel  kernels[KERNELS_MOST]; // the first has nothing in shared memory, and will do for any tables and cells
    _Atomic bool is_ready;             // it is
    JoinSlots   slots[SLOTS_MOST];
    GpuEvent    sent;                  // all that was sent for cubes of this shape
    bool        has_sent;
    struct JoinShape *next;
} JoinShape;

typedef struct CollectArgs {
    i64         params[COLLECT_PARAMS];
    const void *tables[COLLECT_TABLES];
    void       *state[COLLECT_STATE];
} CollectArgs;

struct GpuJoinCube {
    JoinShape   *shape;
    JoinSlots   *own;                  // of the shape: those of this cube while it is put together
    GpuRun       kernel, collect;      // shapes and code
    int          n_runs;
    GpuRun     **runs;
    int         *numbers;              // by run: its place among the members that the slots were made for
    double       gain;
    SlotFigures  figures;
    KernelCells *cells;                // by state slot
    u32          kinds;
    u64          cells_bytes;
    bool         is_shared;            // cells are in shared memory until a block ends
    KernelSpot   spots[NEAR_TABLES];   // of tables that are there
    // once sent
    int          n_parts, n_collects;
    u32          most_rows, most_pairs;
    GpuAddress   parts_at, collects_at;
};

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

static u64 rounded(u64 bytes) { return (bytes + 63) / 64 * 64; }

// ---- a query's own thread -------------------------------------------------------------------------------------------

static bool are_others_about(Gpu *gpu, u64 table)
{
    int n = 0;
    pthread_mutex_lock(&gpu->slots_lock);
    for (int i = 0; i < EXPECTED_MOST; i++)
        if (gpu->expected[i].n > 0 && gpu->expected[i].table == table) n = gpu->expected[i].n;
    pthread_mutex_unlock(&gpu->slots_lock);
    pthread_mutex_lock(&gpu->lock);
    for (const GpuRun *run = gpu->first; run && !n; run = run->next) n += run->launch->table == table;
    pthread_mutex_unlock(&gpu->lock);
    return n > 0;
}

static bool is_of(const JoinShape *shape, const GpuRun *run)
{
    return shape->table == run->launch->table && weave_is_same_kernel(&shape->form, &run->joins->form);
}

// Under the lock, or by the dispatcher, which alone adds shapes.
static JoinShape *find_shape(const GpuRun *run)
{
    JoinShape *shape = run->gpu->join_shapes;
    while (shape && !is_of(shape, run)) shape = shape->next;
    return shape;
}

static Budget *common_budget(Budget *budget)
{
    while (budget->parent) budget = budget->parent;
    return budget;
}

static u64 part_bytes(const Woven *woven, u64 table, int number)
{
    for (int t = 0; t < woven->n_tables; t++)
        if (woven->table_facts[t].owner == table && woven->table_facts[t].number == number)
            return woven->table_facts[t].bytes;
    return 0;
}

// Part NUMBER of the table in the host's memory; NULL: it cannot be.
static const void *part_here(GpuRun *run, const JoinTable *table, int number)
{
    const u64 bytes = part_bytes(run->launch->woven, table->id, number);
    return bytes ? table_part_here(run->gpu, table->id, number, bytes, common_budget(run->launch->budget)) : NULL;
}

// A copy of TABLE whose entries are in the host's memory; NULL: they cannot be.
static const JoinTable *table_here(GpuRun *run, const JoinTable *table)
{
    if (!table->remote) return table;
    JoinTable *own = arena_make(run->joins->arena, JoinTable);
    *own = *table;
    if (table->shape != SHAPE_DIRECT) {
        own->slots = part_here(run, table, TABLE_SLOTS);
        return own->slots ? own : NULL;
    }
    own->payloads = arena_array(run->joins->arena, Payload, table->n_payloads);
    for (int p = 0; p < table->n_payloads; p++) {
        own->payloads[p] = table->payloads[p];
        own->payloads[p].data = part_here(run, table, TABLE_PAYLOADS + 3 * p);
        if (!own->payloads[p].data) return NULL;
    }
    return own;
}

static SlotMember slot_member(const GpuRun *run)
{
    return (SlotMember){ run->launch->woven, run->launch->source, &run->joins->form };
}

static bool looks_at_kinds(const GpuRun *run, int test)
{
    const SlotMember member = slot_member(run);
    return slots_kinds(&member, 1, test) != NULL;
}

// The kernel of a shape looks at kinds wherever tables have them.
static void fetch_tables(GpuRun *run)
{
    CubeForm *form = &run->joins->form;
    for (int t = 0; t < form->n_tests; t++) {
        if (!form->tests[t].table) continue;
        if (form->tests[t].kinds) {
            if (!looks_at_kinds(run, t)) return;
            run->can_do_without_tables = true;
            continue;
        }
        const JoinTable *here = table_here(run, form->tests[t].table);
        if (!here) return;
        form->tests[t].table = here;
    }
    run->joins->has_tables = slots_can_read(form);
}

void gpu_join_cube_look(GpuRun *run)
{
    Gpu          *gpu = run->gpu;
    const Launch *launch = run->launch;
    ASSERT(!run->joins);
    run->can_do_without_tables = false;
    if (!wave_may_share(run) || !launch->budget || !are_others_about(gpu, launch->table)) return;
    Arena          *arena = arena_new(NULL, "join cube");
    const CubeForm *form = slots_form(arena, launch->woven, launch->source);
    if (!form) {
        arena_free(arena);
        return;
    }
    run->joins = arena_make(arena, struct JoinRide);
    run->joins->arena = arena, run->joins->form = *form;
    pthread_mutex_lock(&gpu->lock);
    const JoinShape *shape = find_shape(run);
    pthread_mutex_unlock(&gpu->lock);
    if (shape && shape->is_ready) fetch_tables(run);
    run->can_do_without_tables = run->can_do_without_tables && run->joins->has_tables;
}

// Filled by the dispatcher, and sent while it waits.
double gpu_join_cube_own_ns(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    double       ns = 0;
    for (int t = run->n_tables; t < woven->n_tables && run->can_do_without_tables; t++)
        if (woven->table_facts[t].late) ns += SEND_NS + FILL_NS * (double)woven->table_facts[t].bytes;
    return ns;
}

void gpu_join_cube_forget(GpuRun *run)
{
    if (run->joins) arena_free(run->joins->arena);
    run->joins = NULL;
}

// ---- which fit ------------------------------------------------------------------------------------------------------

// It looked for its tables when it came, and the kernel was not there then.  Kinds need not be fetched; what must be, a
// query's own thread fetches.
static bool can_read_now(const GpuRun *run)
{
    const CubeForm *form = &run->joins->form;
    for (int t = 0; t < form->n_tests; t++) {
        const JoinTable *table = form->tests[t].table;
        if (table && (form->tests[t].kinds ? !looks_at_kinds(run, t) : table->remote != NULL)) return false;
    }
    return slots_can_read(form);
}

bool gpu_join_cube_can(const GpuRun *run)
{
    if (!run->joins) return false;
    if (!run->joins->has_tables) run->joins->has_tables = can_read_now(run);
    return run->joins->has_tables;
}

const CubeForm *gpu_join_cube_form(const GpuRun *run) { return run->joins ? &run->joins->form : NULL; }

bool gpu_join_cube_fits(const GpuRun *a, const GpuRun *b)
{
    return a->joins && b->joins && weave_is_same_form(&a->joins->form, &b->joins->form);
}

static SlotMember *slot_members(GpuRun *const *runs, int n)
{
    SlotMember *members = calloc((size_t)n, sizeof *members);
    for (int i = 0; i < n; i++) members[i] = slot_member(runs[i]);
    return members;
}

// ---- code -----------------------------------------------------------------------------------------------------------

static void choose_order(JoinShape *shape, GpuRun *const *runs, int n)
{
    SlotMember *members = slot_members(runs, n);
    double      costs[CUBE_TESTS];
    cost_join_looks(&share_gpu_costs, &members[0], costs);
    slots_order(members, n, costs, false, shape->order);
    free(members);
}

// Columns of kinds come behind those of the source.
static void number_columns(JoinShape *shape, const Source *source)
{
    for (int c = 0; c < shape->woven->n_columns; c++) {
        const int column = shape->woven->columns[c];
        shape->numbers[c] =
            column < source->n_columns ? source->chunk_column[column] : -1 - (column - source->n_columns);
    }
}

static JoinShape *new_shape(GpuRun *const *runs, int n)
{
    const Launch   *launch = runs[0]->launch;
    const CubeForm *form = &runs[0]->joins->form;
    Arena          *arena = arena_new(NULL, "join shape");
    JoinShape      *shape = arena_make(arena, JoinShape);
    shape->arena = arena, shape->table = launch->table, shape->form = *form;
    shape->form.key = arena_strndup(arena, form->key, form->length);
    choose_order(shape, runs, n);
    int kinds[CUBE_TESTS];
    for (int t = 0; t < form->n_tests; t++) {
        kinds[t] = form->tests[t].kinds ? launch->source->n_columns + t : -1;
        shape->has_kinds = shape->has_kinds || form->tests[t].kinds;
    }
    shape->woven = weave_join_cube(arena, &(FuseMember){ launch->woven, launch->source->chunk_column }, form,
                                   shape->order, CUBE_BY_ATOM, kinds);
    shape->numbers = arena_array(arena, int, shape->woven->n_columns + 1);
    number_columns(shape, launch->source);
    for (int t = 0; t < shape->form.n_tests; t++) shape->form.tests[t].table = NULL;
    return shape;
}

static JoinShape *shape_of(Gpu *gpu, GpuRun *const *runs, int n)
{
    int        n_shapes = 0;
    JoinShape *shape = find_shape(runs[0]);
    for (const JoinShape *other = gpu->join_shapes; other; other = other->next) n_shapes++;
    if (shape || n_shapes >= SHAPES_MOST) return shape;
    shape = new_shape(runs, n);
    pthread_mutex_lock(&gpu->lock);
    shape->next = gpu->join_shapes, gpu->join_shapes = shape;
    pthread_mutex_unlock(&gpu->lock);
    return shape;
}

static u32 kinds_of(const Woven *woven)
{
    KernelCells *cells = calloc((size_t)woven->n_state + 1, sizeof *cells);
    u32          kinds;
    kernel_place_cells(woven, 1, UINT64_MAX, cells, &kinds);
    free(cells);
    return kinds;
}

static void ask_for(Gpu *gpu, JoinShape *shape, bool has_cells, u32 near)
{
    JoinKernel      *kernel = &shape->kernels[shape->n_kernels++];
    const KernelWish wish = { .name = shape->woven->name,
                              .text = shape->woven->text,
                              .items = ITEMS_AT_FIRST,
                              .shared_tables = near,
                              .shared_groups = has_cells ? kinds_of(shape->woven) : 0 };
    kernel->has_cells = has_cells, kernel->near = near;
    kernel->code = kernel_want(gpu, &wish, &kernel->shape);
    log_debug("%s: %s, a kernel for all queries of a shape with joins, is compiled", gpu->name, shape->woven->name);
}

static CodeEntry *collect_kernel(Gpu *gpu)
{
    const char *name, *text = weave_collect_text(&name);
    if (!gpu->collect_kernel)
        gpu->collect_kernel = kernel_want(gpu, &(KernelWish){ .name = name, .text = text }, &gpu->collect_shape);
    return gpu->collect_kernel;
}

static bool is_ready(const CodeEntry *kernel) { return kernel && kernel->state == KERNEL_READY; }

ShareMade gpu_join_cube_meets(Gpu *gpu, GpuRun *const *runs, int n)
{
    JoinShape *shape = shape_of(gpu, runs, n);
    if (!shape) return SHARE_NO;
    const CodeEntry *collect = collect_kernel(gpu);
    if (!shape->n_kernels && (++shape->n_met >= MET_BEFORE || n >= MET_CROWD)) ask_for(gpu, shape, false, 0);
    const bool has_kinds = !shape->has_kinds || gpu_kinds_are_ready(gpu);
    const CodeEntry *first = shape->kernels[0].code;
    if (is_ready(first) && is_ready(collect) && has_kinds) shape->is_ready = true;
    if (shape->is_ready) return SHARE_DONE;
    return first && first->state == KERNEL_FAILED ? SHARE_NO : SHARE_LATER;
}

// ---- what was made before -------------------------------------------------------------------------------------------

static bool is_over(const JoinSlots *own, const CubeForm *form)
{
    int t = 0;
    while (t < form->n_tests && own->kinds[t] == form->tests[t].kinds) t++;
    return t == form->n_tests;
}

// Those over the kinds of FORM; else those that were not used for the longest time.
static JoinSlots *slots_over(JoinShape *shape, const CubeForm *form)
{
    JoinSlots *oldest = &shape->slots[0];
    for (int s = 0; s < SLOTS_MOST; s++) {
        JoinSlots *own = &shape->slots[s];
        if (own->used && is_over(own, form)) return own;
        if (own->used < oldest->used) oldest = own;
    }
    return oldest;
}

// The places among those that the latest slots were made for; false: they are others, or mostly gone.
static bool find_members(const JoinSlots *own, GpuRun *const *runs, int n, int *numbers)
{
    if (!own->slots || !is_over(own, &runs[0]->joins->form) || n > own->n_members || 2 * n < own->n_members)
        return false;
    for (int i = 0, m = 0; i < n; i++, m++) {
        while (m < own->n_members && own->members[m] != runs[i]->number) m++;
        if (m == own->n_members) return false;
        numbers[i] = m;
    }
    return true;
}

const Slots *gpu_join_cube_made(GpuRun *const *runs, int n, bool *is_all)
{
    JoinShape       *shape = find_shape(runs[0]);
    const CubeForm  *form = &runs[0]->joins->form;
    const JoinSlots *own = shape ? slots_over(shape, form) : NULL;
    int             *numbers = calloc((size_t)n, sizeof *numbers);
    *is_all = own && find_members(own, runs, n, numbers);
    free(numbers);
    return own && is_over(own, form) ? own->slots : NULL;
}

// ---- slots ----------------------------------------------------------------------------------------------------------

static void forget_slots(JoinSlots *own)
{
    slots_free(own->slots);
    if (own->arena) arena_free(own->arena);
    free(own->members);
    own->slots = NULL, own->arena = NULL, own->members = NULL, own->n_members = 0;
}

static void forget_shape(JoinShape *shape)
{
    for (int s = 0; s < SLOTS_MOST; s++) forget_slots(&shape->slots[s]);
}

// They are for cubes over the kinds of FORM from now on.
static void use_slots(Gpu *gpu, JoinSlots *own, const CubeForm *form)
{
    if (!is_over(own, form)) {
        forget_slots(own);
        own->n_refused = 0;
        for (int t = 0; t < form->n_tests; t++) own->kinds[t] = form->tests[t].kinds;
    }
    own->used = ++gpu->n_join_cubes;
}

// What each dimension is told apart by: a shape that has values where others have kinds takes much longer.
static void log_slots(const JoinShape *shape, const Slots *slots, const Kinds *const *kinds, int n, double took_ms)
{
    const SlotFigures figures = slots ? slots_figures(slots) : (SlotFigures){ 0 };
    char              dims[256] = "";
    for (int t = 0, at = 0; t < shape->form.n_tests && at < (int)sizeof dims - 32; t++)
        at += kinds[t] ? snprintf(dims + at, sizeof dims - (size_t)at, " %d kinds", kinds[t]->n_kinds)
                       : snprintf(dims + at, sizeof dims - (size_t)at, " values");
    log_debug("%s: slots of %d queries over%s took %.1f ms%s: %llu classes, %llu slots, %llu cells, %llu pairs",
              shape->woven->name, n, dims, took_ms, slots ? "" : ", too many", (unsigned long long)figures.n_classes,
              (unsigned long long)figures.n_slots, (unsigned long long)figures.n_cells,
              (unsigned long long)figures.n_pairs);
}

static bool make_slots(const JoinShape *shape, JoinSlots *own, GpuRun *const *runs, int n)
{
    static _Atomic u64 last_version;
    const double       start_ms = time_now_ms();
    SlotMember        *members = slot_members(runs, n);
    Arena             *arena = arena_new(NULL, "slots");
    const Kinds       *kinds[CUBE_TESTS];
    for (int t = 0; t < shape->form.n_tests; t++) kinds[t] = slots_kinds(members, n, t);
    Slots             *slots = slots_make(&(SlotsWish){ .arena = arena,
                                                        .budget = common_budget(runs[0]->launch->budget),
                                                        .before = own->slots,
                                                        .takes = true,
                                                        .by_atom = true,
                                                        .members = members,
                                                        .n_members = n,
                                                        .order = shape->order,
                                                        .kinds = kinds,
                                                        .cell_bytes = CELLS_MOST });
    free(members);
    log_slots(shape, slots, kinds, n, time_now_ms() - start_ms);
    forget_slots(own);
    if (!slots) {
        arena_free(arena);
        return false;
    }
    own->slots = slots, own->arena = arena, own->version = ++last_version;
    own->members = calloc((size_t)n, sizeof *own->members), own->n_members = n;
    for (int i = 0; i < n; i++) own->members[i] = runs[i]->number;
    return true;
}

// ---- slots of several cubes at once ---------------------------------------------------------------------------------

typedef struct SlotsWork { const JoinShape *shape; JoinSlots *own; GpuRun **runs; int n; bool is_made; } SlotsWork;
typedef struct SlotsWorks { SlotsWork *works; int n; _Atomic int next; } SlotsWorks;

static void make_some(void *context, int worker)
{
    SlotsWorks *all = context;
    (void)worker;
    for (int w; (w = atomic_fetch_add(&all->next, 1)) < all->n;)
        all->works[w].is_made =
            make_slots(all->works[w].shape, all->works[w].own, all->works[w].runs, all->works[w].n);
}

static bool is_listed(const SlotsWorks *all, const JoinSlots *own)
{
    int w = 0;
    while (w < all->n && all->works[w].own != own) w++;
    return w < all->n;
}

static void list_work(Gpu *gpu, SlotsWorks *all, const JoinCubeWish *wish)
{
    JoinShape *shape = find_shape(wish->runs[0]);
    JoinSlots *own = shape ? slots_over(shape, &wish->runs[0]->joins->form) : NULL;
    int       *numbers = calloc((size_t)wish->n, sizeof *numbers);
    if (own && !is_listed(all, own) && !find_members(own, wish->runs, wish->n, numbers)) {
        use_slots(gpu, own, &wish->runs[0]->joins->form);
        all->works[all->n++] = (SlotsWork){ .shape = shape, .own = own, .runs = wish->runs, .n = wish->n };
    }
    free(numbers);
}

// The choice at hand asks for the same queries once more: has_slots then knows that they had no room.
static void note_refused(const SlotsWork *work)
{
    work->own->n_refused = work->is_made ? 0 : work->n;
    work->own->refused_first = work->runs[0]->number, work->own->refused_last = work->runs[work->n - 1]->number;
}

static bool was_refused(const JoinSlots *own, GpuRun *const *runs, int n)
{
    return own->n_refused == n && own->refused_first == runs[0]->number && own->refused_last == runs[n - 1]->number;
}

// Where they are several: classes are made of what queries have, whatever their shape, so no two wait for each other.
// The threads that fill stages have nothing to do while a run is put together.
void gpu_join_cubes_prepare(Gpu *gpu, const JoinCubeWish *wishes, int n)
{
    SlotsWorks all = { .works = calloc((size_t)n, sizeof *all.works) };
    for (int w = 0; w < n; w++) list_work(gpu, &all, &wishes[w]);
    if (all.n > 1) {
        pool_run(gpu->copiers, MIN_OF(pool_size(gpu->copiers), all.n), make_some, &all);
        for (int w = 0; w < all.n; w++) note_refused(&all.works[w]);
    }
    free(all.works);
}

// ---- code for so many cells, and tables of these sizes --------------------------------------------------------------

// Number of the first table by value: none of them is near.
static int first_by_value(const JoinShape *shape) { return cube_table_values(&shape->form, 0); }

static u64 near_bytes(const JoinShape *shape, int table)
{
    return (shape->woven->table_facts[table].bytes + 15) / 16 * 16;
}

// Those that find room behind AT: classes and states, which each row looks up, before places of cells.
static u32 choose_near(const JoinShape *shape, u64 at, u64 most)
{
    u32 near = 0;
    for (int t = 0; t < MIN_OF(first_by_value(shape), NEAR_TABLES); t++) {
        const u64 bytes = near_bytes(shape, t);
        if (!bytes || bytes > NEAR_MOST || at + bytes > most) continue;
        near |= 1u << t, at += bytes;
    }
    return near;
}

// Bytes of shared memory.
static u64 place_near(GpuJoinCube *cube, const JoinKernel *kernel)
{
    u64 at = kernel->has_cells ? cube->cells_bytes : 0;
    memset(cube->spots, 0, sizeof cube->spots);
    for (int t = 0; t < NEAR_TABLES; t++) {
        if (!(kernel->near >> t & 1)) continue;
        const u64 bytes = near_bytes(cube->shape, t);
        cube->spots[t] = (KernelSpot){ .at = (u32)at, .bytes = (u32)bytes };
        at += bytes;
    }
    return (at + NEAR_STEP - 1) / NEAR_STEP * NEAR_STEP;
}

static bool is_known(const JoinShape *shape, bool has_cells, u32 near)
{
    for (int k = 0; k < shape->n_kernels; k++)
        if (shape->kernels[k].has_cells == has_cells && shape->kernels[k].near == near) return true;
    return false;
}

static bool is_nearer(const JoinKernel *a, const JoinKernel *b)
{
    if (!b || a->has_cells != b->has_cells) return !b || a->has_cells;
    return __builtin_popcount(a->near) > __builtin_popcount(b->near);
}

// Asks for the best kernel, and takes the best of those that are compiled and have room.
static bool fit_code(Gpu *gpu, GpuJoinCube *cube)
{
    JoinShape        *shape = cube->shape;
    const bool        may_share = cube->cells_bytes <= gpu->shared_most;
    const u32         near = choose_near(shape, may_share ? cube->cells_bytes : 0, gpu->shared_most);
    const JoinKernel *best = NULL;
    if (!is_known(shape, may_share, near) && shape->n_kernels < KERNELS_MOST) ask_for(gpu, shape, may_share, near);
    for (int k = 0; k < shape->n_kernels; k++) {
        const JoinKernel *kernel = &shape->kernels[k];
        if (is_ready(kernel->code) && place_near(cube, kernel) <= gpu->shared_most && is_nearer(kernel, best))
            best = kernel;
    }
    if (!best) return false;
    cube->is_shared = best->has_cells;
    return kernel_fit(gpu, best->code, &best->shape, (u32)place_near(cube, best), shape->woven, &cube->kernel) &&
           kernel_fit(gpu, gpu->collect_kernel, &gpu->collect_shape, 0, shape->woven, &cube->collect);
}

// ---- what is sent ---------------------------------------------------------------------------------------------------

// Behind all that was sent for this shape before: atoms that are found have come by then.
static weft_status begin_sending(Gpu *gpu, JoinShape *shape, GpuStream stream, Error *err)
{
    if (!shape->sent) GPU_TRY(gpu, EventCreate, (&shape->sent, GPU_EVENT_DISABLE_TIMING), err);
    if (shape->has_sent) GPU_TRY(gpu, StreamWaitEvent, (stream, shape->sent, 0), err);
    return WEFT_OK;
}

static weft_status end_sending(Gpu *gpu, JoinShape *shape, GpuStream stream, Error *err)
{
    if (!shape->sent) return WEFT_OK;
    GPU_TRY(gpu, EventRecord, (shape->sent, stream), err);
    shape->has_sent = true;
    return WEFT_OK;
}

static weft_status no_room(Error *err) { return fail(err, WEFT_OUT_OF_MEMORY, -1, "no room for a cube"); }

// Held by the run; sent unless it is there.  *AT: its address.
static weft_status send_once(Wave *wave, GpuStream stream, CopyKey key, const StagePart *parts, int n_parts,
                             GpuAddress *at, Error *err)
{
    bool is_new;
    u64  bytes = 0;
    for (int p = 0; p < n_parts; p++) bytes += parts[p].room;
    Copy *copy = wave_hold(wave, key, bytes, &is_new);
    if (!copy) return no_room(err);
    *at = gpu_address(wave->gpu, copy->at);
    if (!is_new) return WEFT_OK;
    const weft_status status = stage_send_parts(wave->gpu, stream, copy->at, parts, n_parts, err);
    if (status) wave_forget(wave, copy);
    return status;
}

// Small tables, cells of pairs and groups of pairs, one behind the other.  They go straight to pinned memory from where
// they were made: for a crowd they are megabytes.
typedef struct BodyPlan { int n_parts; StagePart *parts; u64 bytes; } BodyPlan;

static void add_part(BodyPlan *plan, const void *from, u64 bytes, u64 past)
{
    const u64 room = rounded(bytes + past);
    plan->parts[plan->n_parts++] = (StagePart){ from, bytes, room };
    plan->bytes += room;
}

static BodyPlan plan_body(const GpuJoinCube *cube)
{
    const Woven    *woven = cube->shape->woven;
    const int       n_tables = first_by_value(cube->shape);
    const SlotPairs pairs = slots_all_pairs(cube->own->slots);
    BodyPlan        plan = { .parts = calloc((size_t)n_tables + 2, sizeof *plan.parts) };
    for (int t = 0; t < n_tables; t++) add_part(&plan, woven->tables[t], woven->table_facts[t].bytes, 0);
    add_part(&plan, pairs.cells, pairs.n * sizeof(u32), 0);
    add_part(&plan, pairs.groups, pairs.n * sizeof(u32), 64);
    return plan;
}

// Where the kernels find what was sent.
typedef struct SentBody { void **tables; GpuAddress cells, groups; } SentBody;

static weft_status send_body(Wave *wave, GpuJoinCube *cube, GpuStream stream, SentBody *sent, Error *err)
{
    const JoinShape *shape = cube->shape;
    const BodyPlan   plan = plan_body(cube);
    const int        n_tables = first_by_value(shape);
    GpuAddress       at = 0;
    weft_status      status = send_once(wave, stream, (CopyKey){ cube->own->version, (u64)KEY_BODY << 32 }, plan.parts,
                                        plan.n_parts, &at, err);
    for (int t = 0; t < n_tables; at += plan.parts[t++].room) sent->tables[t] = pointer(at);
    sent->cells = at, sent->groups = at + plan.parts[n_tables].room;
    free(plan.parts);
    for (int d = 0; d < shape->form.n_tests && !status; d++) {
        const int t = cube_table_values(&shape->form, d);
        if (!shape->woven->tables[t]) continue;            // its kinds are a column
        const u64       bytes = shape->woven->table_facts[t].bytes;
        const StagePart atoms = { shape->woven->tables[t], bytes, bytes };
        status = send_once(wave, stream, (CopyKey){ slots_version(cube->own->slots, d), (u64)KEY_ATOMS << 32 }, &atoms,
                           1, &at, err);
        sent->tables[t] = pointer(at);
    }
    return status;
}

// ---- what the kernels are handed ------------------------------------------------------------------------------------

// The memory of a run: cells, then arguments, which are written here and sent together.
typedef struct CubeRoom { GpuAddress at; u8 *host; u64 used, bytes; } CubeRoom;

static void *take(CubeRoom *room, u64 bytes, GpuAddress *at)
{
    void *host = room->host + room->used;
    *at = room->at + room->used;
    room->used += rounded(bytes);
    ASSERT(room->used <= room->bytes);
    return host;
}

static u64 args_bytes(const GpuJoinCube *cube, int n_chunks)
{
    const Woven *woven = cube->shape->woven;
    const u64 n_collects = (u64)cube->n_runs * (u64)woven->n_state,
              by_chunk = sizeof(KernelArgs) + (u64)woven->n_columns * sizeof(KernelColumn) +
                         (u64)woven->n_params * sizeof(i64),
              once = sizeof(KernelCommon) + (u64)(woven->n_tables + woven->n_state) * sizeof(void *) +
                     (u64)woven->n_state * sizeof(KernelCells) + sizeof cube->spots;
    return (u64)n_chunks * by_chunk + n_collects * (sizeof(KernelArgs) + sizeof(CollectArgs)) + once + 16 * 64;
}

typedef struct JoinCubeHead { GpuAddress common, tables, state, cells; } JoinCubeHead;

static JoinCubeHead write_head(const GpuJoinCube *cube, CubeRoom *room, const SentBody *sent, GpuAddress cells_at)
{
    const Woven  *woven = cube->shape->woven;
    JoinCubeHead      head = { .cells = cells_at };
    GpuAddress    places_at, spots_at;
    KernelCommon *common = take(room, sizeof *common, &head.common);
    void        **tables = take(room, (u64)(woven->n_tables + 1) * sizeof *tables, &head.tables);
    void        **state = take(room, (u64)(woven->n_state + 1) * sizeof *state, &head.state);
    memcpy(take(room, (u64)woven->n_state * sizeof *cube->cells, &places_at), cube->cells,
           (size_t)woven->n_state * sizeof *cube->cells);
    memcpy(take(room, sizeof cube->spots, &spots_at), cube->spots, sizeof cube->spots);
    *common = (KernelCommon){ .n_room = cube->figures.n_cells,
                              .spots = pointer(spots_at),
                              .cells = pointer(places_at),
                              .n_groups = (u32)cube->figures.n_cells,
                              .n_state = cube->is_shared ? (u32)woven->n_state : 0 };
    memcpy(tables, sent->tables, (size_t)woven->n_tables * sizeof *tables);
    for (int s = 0; s < woven->n_state; s++) state[s] = pointer(head.cells + cube->cells[s].at);
    return head;
}

// By test and chunk; those of tests without kinds are not set.  To be freed.
static KernelColumn *kind_columns(Wave *wave, const GpuJoinCube *cube, const int *chunks, int n_chunks,
                                  weft_status *status, Error *err)
{
    const CubeForm *form = &cube->runs[0]->joins->form;
    KernelColumn   *columns = calloc((size_t)(form->n_tests * n_chunks) + 1, sizeof *columns);
    *status = WEFT_OK;
    for (int t = 0; t < form->n_tests && !*status; t++)
        if (form->tests[t].kinds)
            *status = gpu_kinds_columns(wave, form->tests[t].table->kinds, form->tests[t].number, chunks, n_chunks,
                                        columns + t * n_chunks, err);
    return columns;
}

static void write_parts(const Wave *wave, GpuJoinCube *cube, CubeRoom *room, const JoinCubeHead *head,
                        const int *chunks, int n_chunks, const KernelColumn *kinds)
{
    const Woven  *woven = cube->shape->woven;
    const u64     n_columns = (u64)woven->n_columns, n_params = (u64)woven->n_params;
    GpuAddress    columns_at, params_at;
    KernelArgs   *args = take(room, (u64)n_chunks * sizeof *args, &cube->parts_at);
    KernelColumn *columns = take(room, (u64)n_chunks * n_columns * sizeof *columns, &columns_at);
    i64          *params = take(room, (u64)n_chunks * n_params * sizeof *params, &params_at);
    cube->n_parts = n_chunks;
    for (u64 p = 0; p < (u64)n_chunks; p++) {
        const RunChunk *chunk = &wave->chunks[chunks[p]];
        for (u64 c = 0; c < n_columns; c++) {
            const int number = cube->shape->numbers[c];
            columns[p * n_columns + c] = number >= 0 ? wave_column(wave->gpu, chunk, number)
                                                     : kinds[(u64)(-1 - number) * (u64)n_chunks + p];
        }
        for (u64 i = 0; i < n_params; i++)
            params[p * n_params + i] = launch_param(&woven->params[i], columns + p * n_columns);
        args[p] = (KernelArgs){ .row_end = chunk->chunk->n_rows,
                                .columns = pointer(columns_at + p * n_columns * sizeof *columns),
                                .params = pointer(params_at + p * n_params * sizeof *params),
                                .tables = pointer(head->tables),
                                .state = pointer(head->state),
                                .common = pointer(head->common) };
        cube->most_rows = MAX_OF(cube->most_rows, chunk->chunk->n_rows);
    }
}

// The high words of a sum of 128 bits are the next slot's.
static CollectArgs collect_args(const GpuJoinCube *cube, const JoinCubeHead *head, const SentBody *sent, int r, int s,
                                u64 first_pair)
{
    const GpuRun *run = cube->runs[r];
    const int     high = cube->cells[s].kind == CELLS_WIDE_LOW ? s + 1 : s;
    return (CollectArgs){ .params = { [COLLECT_HOW] = cube->cells[s].kind },
                          .tables = { [COLLECT_FROM] = pointer(sent->cells + first_pair * sizeof(u32)),
                                      [COLLECT_GROUPS] = pointer(sent->groups + first_pair * sizeof(u32)),
                                      [COLLECT_CELLS] = pointer(head->cells + cube->cells[s].at),
                                      [COLLECT_HIGH_CELLS] = pointer(head->cells + cube->cells[high].at) },
                          .state = { [COLLECT_SUMS] = pointer(in_block(run, run->slot_at[s])),
                                     [COLLECT_HIGH_SUMS] = pointer(in_block(run, run->slot_at[high])) } };
}

static void write_collects(GpuJoinCube *cube, CubeRoom *room, const JoinCubeHead *head, const SentBody *sent)
{
    const int    n_state = cube->shape->woven->n_state;
    GpuAddress   own_at;
    KernelArgs  *args = take(room, (u64)(cube->n_runs * n_state) * sizeof *args, &cube->collects_at);
    CollectArgs *own = take(room, (u64)(cube->n_runs * n_state) * sizeof *own, &own_at);
    u64         *first_pair = calloc((size_t)cube->own->n_members + 1, sizeof *first_pair);
    for (int m = 0; m < cube->own->n_members; m++)
        first_pair[m + 1] = first_pair[m] + slots_pairs(cube->own->slots, m).n;
    for (int r = 0; r < cube->n_runs; r++) {
        const int m = cube->numbers[r];
        const u32 n_pairs = (u32)(first_pair[m + 1] - first_pair[m]);
        for (int s = 0; s < n_state && n_pairs; s++) {
            const GpuAddress at = own_at + (u64)cube->n_collects * sizeof *own;
            if (cube->cells[s].kind == CELLS_WIDE_HIGH) continue;
            own[cube->n_collects] = collect_args(cube, head, sent, r, s, first_pair[m]);
            args[cube->n_collects++] = (KernelArgs){ .row_end = n_pairs,
                                                     .params = pointer(at + offsetof(CollectArgs, params)),
                                                     .tables = pointer(at + offsetof(CollectArgs, tables)),
                                                     .state = pointer(at + offsetof(CollectArgs, state)),
                                                     .common = pointer(head->common) };
        }
        cube->most_pairs = MAX_OF(cube->most_pairs, n_pairs);
    }
    free(first_pair);
}

// As they are before the first row.
static weft_status clear_cells(Gpu *gpu, const GpuJoinCube *cube, GpuStream stream, u64 at, Error *err)
{
    const Woven *woven = cube->shape->woven;
    const u64    n = cube->figures.n_cells;
    weft_status  status = gpu_check(
        gpu, gpu->calls->MemsetD8Async(gpu_address(gpu, at), 0, cube->cells_bytes, stream), "MemsetD8Async", err);
    u64 *cells = malloc(n * sizeof *cells);
    for (int s = 0; s < woven->n_state && !status; s++) {
        if (!cube->cells[s].init) continue;
        for (u64 c = 0; c < n; c++) cells[c] = cube->cells[s].init;
        status = stage_send(gpu, stream, at + cube->cells[s].at, cells, n * sizeof *cells, err);
    }
    free(cells);
    return status;
}

static weft_status send_run(Wave *wave, GpuJoinCube *cube, GpuStream stream, const SentBody *sent, const int *chunks,
                            int n_chunks, Error *err)
{
    bool      is_new;
    const u64 cells_bytes = rounded(cube->cells_bytes), bytes = args_bytes(cube, n_chunks);
    Copy     *copy = wave_hold(wave, (CopyKey){ 0 }, cells_bytes + bytes, &is_new);
    if (!copy) return no_room(err);
    weft_status   status;
    KernelColumn *kinds = kind_columns(wave, cube, chunks, n_chunks, &status, err);
    if (status) {
        free(kinds);
        return status;
    }
    const GpuAddress at = gpu_address(wave->gpu, copy->at);
    CubeRoom             room = { .at = at + cells_bytes, .host = calloc(1, bytes), .bytes = bytes };
    const JoinCubeHead   head = write_head(cube, &room, sent, at);
    write_parts(wave, cube, &room, &head, chunks, n_chunks, kinds);
    free(kinds);
    write_collects(cube, &room, &head, sent);
    status = clear_cells(wave->gpu, cube, stream, copy->at, err);
    if (!status) status = stage_send(wave->gpu, stream, copy->at + cells_bytes, room.host, room.used, err);
    free(room.host);
    return status;
}

static weft_status send_all(Wave *wave, GpuJoinCube *cube, const int *chunks, int n_chunks, Error *err)
{
    Gpu            *gpu = wave->gpu;
    JoinShape      *shape = cube->shape;
    const GpuStream stream = cube->runs[0]->stream;
    SentBody        sent = { .tables = calloc((size_t)shape->woven->n_tables + 1, sizeof(void *)) };
    weft_status     status = begin_sending(gpu, shape, stream, err);
    if (!status) status = send_body(wave, cube, stream, &sent, err);
    // What came of it is found by others.
    Error      ignored = { 0 };
    const bool is_told = !end_sending(gpu, shape, stream, &ignored);
    if (!is_told) gpu_wait_for(gpu, stream);
    if (!status) {
        packs_make(wave, cube, stream, cube->runs, cube->n_runs);
        status = send_run(wave, cube, stream, &sent, chunks, n_chunks, err);
    }
    free(sent.tables);
    return status;
}

// ---- a cube ---------------------------------------------------------------------------------------------------------

static GpuJoinCube *new_cube(JoinShape *shape, GpuRun *const *runs, int n, double gain)
{
    GpuJoinCube *cube = calloc(1, sizeof *cube);
    cube->shape = shape, cube->own = slots_over(shape, &runs[0]->joins->form), cube->n_runs = n, cube->gain = gain;
    cube->runs = calloc((size_t)n, sizeof *cube->runs), cube->numbers = calloc((size_t)n, sizeof *cube->numbers);
    cube->cells = calloc((size_t)shape->woven->n_state + 1, sizeof *cube->cells);
    memcpy(cube->runs, runs, (size_t)n * sizeof *runs);
    return cube;
}

static bool has_slots(Gpu *gpu, GpuJoinCube *cube)
{
    const JoinShape *shape = cube->shape;
    JoinSlots       *own = cube->own;
    use_slots(gpu, own, &cube->runs[0]->joins->form);
    if (!find_members(own, cube->runs, cube->n_runs, cube->numbers)) {
        if (was_refused(own, cube->runs, cube->n_runs) || !make_slots(shape, own, cube->runs, cube->n_runs))
            return false;
        for (int r = 0; r < cube->n_runs; r++) cube->numbers[r] = r;
    }
    slots_fill_in(own->slots, shape->woven);
    cube->figures = slots_figures(own->slots);
    cube->cells_bytes =
        kernel_place_cells(shape->woven, cube->figures.n_cells, UINT32_MAX / 2, cube->cells, &cube->kinds);
    return cube->figures.n_cells > 0;
}

// All that it takes of the pool for a while.
static bool is_small(const Gpu *gpu, const GpuJoinCube *cube, int n_chunks)
{
    const BodyPlan plan = plan_body(cube);
    u64            bytes = plan.bytes + cube->cells_bytes + args_bytes(cube, n_chunks);
    for (int d = 0; d < cube->shape->form.n_tests; d++) bytes += slots_class_bytes(cube->own->slots, d);
    free(plan.parts);
    return bytes <= frames_total(gpu->frames) / MEMORY_SHARE;
}

ShareMade gpu_join_cube_of(Wave *wave, GpuRun *const *runs, int n, double gain, const int *chunks, int n_chunks,
                           GpuJoinCube **made)
{
    Gpu         *gpu = wave->gpu;
    Error        ignored = { 0 };
    GpuJoinCube *cube = new_cube(find_shape(runs[0]), runs, n, gain);
    const bool   has_room = has_slots(gpu, cube) && is_small(gpu, cube, n_chunks);
    if (has_room && n_chunks && fit_code(gpu, cube) && !send_all(wave, cube, chunks, n_chunks, &ignored)) {
        *made = cube;
        return SHARE_DONE;
    }
    packs_undo(wave, cube);
    gpu_join_cube_free(cube);
    return has_room ? SHARE_NO : SHARE_TOO_MANY;
}

// Adds what they all take, and finds those that were not used for the longest time.
static u64 add_kept(JoinShape *shape, JoinSlots **oldest)
{
    u64 bytes = 0;
    for (int s = 0; s < SLOTS_MOST; s++) {
        JoinSlots *own = &shape->slots[s];
        bytes += own->slots ? slots_bytes(own->slots) : 0;
        if (own->slots && (!*oldest || own->used < (*oldest)->used)) *oldest = own;
    }
    return bytes;
}

// Slots that were used last are kept.  BUDGET: what they are counted in.
static void keep_few(Gpu *gpu, const Budget *budget)
{
    const u64 most = budget->limit ? MIN_OF(KEPT_MOST, (u64)budget->limit / KEPT_SHARE) : KEPT_MOST;
    for (;;) {
        u64        bytes = 0;
        JoinSlots *oldest = NULL;
        for (JoinShape *shape = gpu->join_shapes; shape; shape = shape->next) bytes += add_kept(shape, &oldest);
        if (bytes <= most) return;
        forget_slots(oldest);
    }
}

void gpu_join_cube_free(GpuJoinCube *cube)
{
    if (!cube) return;
    keep_few(cube->runs[0]->gpu, common_budget(cube->runs[0]->launch->budget));
    free(cube->runs);
    free(cube->numbers);
    free(cube->cells);
    free(cube);
}

bool gpu_join_cubes_keep(const Gpu *gpu)
{
    for (const JoinShape *shape = gpu->join_shapes; shape; shape = shape->next)
        for (int s = 0; s < SLOTS_MOST; s++)
            if (shape->slots[s].slots) return true;
    return false;
}

void gpu_join_cubes_forget(Gpu *gpu)
{
    for (JoinShape *shape = gpu->join_shapes; shape; shape = shape->next) forget_shape(shape);
}

void gpu_join_cubes_free(Gpu *gpu)
{
    for (JoinShape *shape = gpu->join_shapes, *next; shape; shape = next) {
        next = shape->next;
        forget_shape(shape);
        if (shape->sent && !gpu->is_gone) gpu->calls->EventDestroy(shape->sent);     // its context is current
        arena_free(shape->arena);
    }
    gpu->join_shapes = NULL;
}

// ---- launching ------------------------------------------------------------------------------------------------------

static void tell(const Wave *wave, const GpuJoinCube *cube, const Grid *grid)
{
    BodyFigures body = { .is_over_joins = true, .n_classes = cube->figures.n_classes,
                         .n_slots = cube->figures.n_slots, .n_cells = cube->figures.n_cells };
    snprintf(body.kernel, sizeof body.kernel, "%s", cube->shape->woven->name);
    for (int r = 0; r < cube->n_runs; r++) {
        GpuRun        *run = cube->runs[r];
        LaunchOutcome *out = &run->launch->out;
        run->n_cubed_chunks = (u64)wave_n_wanted(wave, run), run->is_join_cubed = true;
        out->woven_as = "one body", out->n_woven = cube->n_runs, out->gain = cube->gain;
        out->body = body;
        schedule_note(&out->gpu, &cube->kernel, grid);
    }
}

weft_status gpu_join_cube_launch(Wave *wave, const GpuJoinCube *cube, Error *err)
{
    Gpu       *gpu = wave->gpu;
    GpuRun    *first = cube->runs[0];
    const Grid grid = schedule_one_round(gpu, &cube->kernel.shape, cube->most_rows, cube->n_parts);
    TRY(wave_wait(wave, first->stream, err));
    TRY(wave_join(gpu, cube->runs, cube->n_runs, err));
    if (cube->shape->has_kinds) TRY(gpu_kinds_wait(gpu, first->stream, err));
    TRY(wave_launch(gpu, &cube->kernel, first->stream, cube->parts_at, &grid, err));
    if (cube->n_collects) {
        const Grid collects = schedule_one_round(gpu, &cube->collect.shape, cube->most_pairs, cube->n_collects);
        TRY(wave_launch(gpu, &cube->collect, first->stream, cube->collects_at, &collects, err));
    }
    TRY(packs_fetch(wave, cube, err));
    tell(wave, cube, &grid);
    return WEFT_OK;
}
