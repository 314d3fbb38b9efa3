// gpu_cube.c - see gpu_cube.h.
//
//     args of the run    [common | tables | state | cells' places][cells][class tables]
//                        [KernelArgs by chunk | columns | params][KernelArgs of the fold | lists of cells]
//
// The kernel is weave_cube's: a row's classes lead to a cell, which has accumulators for each of the query's groups, in
// shared memory.  So it costs the same for two queries and for sixty-four: about a scan and a half.  A second kernel
// (weave_fold_text) then puts the cells that a query wants together into its own accumulators, a part for each query
// and accumulator.  Everything else goes over the link with the arguments of the run: class tables, empty cells, lists.
//
// Only range tests: queries that join must join the same tables, and a table that only says whether there is a match
// counts as a test, too.  Groups in an array, or none.  Only cells that fit shared memory; where they do not, there are
// several cubes (gpu_fuse.c).  Others are sieved (gpu_sieve.c) or fused (gpu_fuse.c).

#include "device/gpu_cube.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_DIMS     6
#define SPAN_MOST    ((u64)1 << 16)    // values of a column that have a class each
#define LISTS_MOST   ((u64)1 << 16)    // entries of all lists
#define STATE_MOST   16
#define TABLES_MOST  64                // that a query joins
#define FOLD_ROWS    512               // groups and lanes that fold an accumulator, about,
#define FOLD_EACH    64                // and the most cells for each of them
#define CELLS_LEAST  3                 // for which there must be room: three queries that tell rows apart have as many
                                       // classes
#define MET_BEFORE   2

typedef struct CubeKernel {            // of a shape; lives as long as the device
    u64                table;
    char               name[40];       // of the members' kernel
    int                n_met;
    CodeEntry        *kernel;
    Shape              shape;
    struct CubeKernel *next;
} CubeKernel;

typedef struct CubeDim {
    int  column;                       // of the kernel
    i64  low;
    u64  size;
    int  n_classes;
    u64  cuts[2 * CUBE_MOST + 1];      // where classes begin, from low on
} CubeDim;

typedef struct ClassRange { int first, last; } ClassRange;  // classes; first > last: none

struct GpuCube {
    GpuRun      kernel, fold;          // shapes and code
    int         n_runs;
    GpuRun     *runs[CUBE_MOST];
    double      gain;
    int         n_dims;
    CubeDim     dims[MAX_DIMS];
    ClassRange  wants[CUBE_MOST][MAX_DIMS];
    u64         n_groups, n_cells;     // groups of a cell
    KernelCells cells[STATE_MOST];     // where those of each accumulator are: in shared memory, and in the cells of all
                                       // blocks
    u32         kinds;
    u64         cells_bytes;
    u64         n_listed;              // cells, in all lists
    // once written
    int         n_parts, n_folds;
    u32         most_rows, fold_rows;
    GpuAddress   parts_at, folds_at;
};

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

static const Woven *woven_of(const GpuCube *cube) { return cube->runs[0]->launch->woven; }

// ---- which fit ------------------------------------------------------------------------------------------------------

static const Range *column_range(const GpuRun *run, const Sieve *sieve)
{
    return &run->launch->source->columns[sieve->column].range;
}

static bool is_range(const GpuRun *run, const Sieve *sieve)
{
    const Range *range = column_range(run, sieve);
    return !sieve->table && range->known && !range->nullable && range->low <= range->high &&
           (u128)(range->high - range->low) < SPAN_MOST;
}

static u64 groups_of(const Woven *woven) { return woven->group_kind == GROUP_ARRAY ? woven->n_groups : 1; }

static bool have_room(const GpuRun *run, u64 n_cells)
{
    const Woven *woven = run->launch->woven;
    const u64    most = run->gpu->shared_most;
    KernelCells  cells[STATE_MOST];
    u32          kinds;
    return n_cells * groups_of(woven) <= most &&
           kernel_place_cells(woven, n_cells * groups_of(woven), most, cells, &kinds) <= most;
}

bool gpu_cube_suits(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    if (!wave_may_share(run) || !weave_can_cube(woven) || woven->n_state > STATE_MOST || woven->n_tables > TABLES_MOST)
        return false;
    if (strlen(woven->name) >= sizeof((CubeKernel *)0)->name || !have_room(run, CELLS_LEAST)) return false;
    for (int s = 0; s < woven->n_sieves; s++)
        if (woven->sieves[s].is_exact && !is_range(run, &woven->sieves[s])) return false;
    return true;
}

bool gpu_cube_fits(const GpuRun *a, const GpuRun *b)
{
    const Launch *x = a->launch, *y = b->launch;
    if (!weave_is_same_but_sieves(x->woven, y->woven)) return false;
    for (int c = 0; c < x->woven->n_columns; c++)
        if (x->source->chunk_column[x->woven->columns[c]] != y->source->chunk_column[y->woven->columns[c]])
            return false;
    return true;
}

// ---- classes --------------------------------------------------------------------------------------------------------

static int find_dims(GpuCube *cube)
{
    const GpuRun *run = cube->runs[0];
    const Woven  *woven = run->launch->woven;
    for (int s = 0; s < woven->n_sieves; s++) {
        bool is_new = woven->sieves[s].is_exact;
        for (int d = 0; d < cube->n_dims; d++)
            is_new = is_new && woven->columns[cube->dims[d].column] != woven->sieves[s].column;
        if (!is_new) continue;
        if (cube->n_dims == MAX_DIMS) return 0;
        CubeDim *dim = &cube->dims[cube->n_dims++];
        while (woven->columns[dim->column] != woven->sieves[s].column) dim->column++;
    }
    return cube->n_dims;
}

// All values that the column has, for any of the queries: their snapshots may differ.
static void cover(const GpuCube *cube, CubeDim *dim)
{
    i128 low = INT64_MAX, high = INT64_MIN;
    for (int r = 0; r < cube->n_runs; r++) {
        const Launch *launch = cube->runs[r]->launch;
        const Range  *range = &launch->source->columns[launch->woven->columns[dim->column]].range;
        low = MIN_OF(low, range->low), high = MAX_OF(high, range->high);
    }
    dim->low = (i64)low, dim->size = (u64)(high - low) + 1;
}

// What a query wants of the column, as distances from the lowest value: FIRST up to END.
static void wanted(const GpuRun *run, const CubeDim *dim, u64 *first, u64 *end)
{
    const Woven *woven = run->launch->woven;
    i128         low = dim->low, high = (i128)dim->low + dim->size - 1;
    for (int s = 0; s < woven->n_sieves; s++) {
        if (!woven->sieves[s].is_exact || woven->sieves[s].column != woven->columns[dim->column]) continue;
        low = MAX_OF(low, (i128)woven->sieves[s].low), high = MIN_OF(high, (i128)woven->sieves[s].high);
    }
    *first = low > high ? 0 : (u64)(low - dim->low);
    *end = low > high ? 0 : (u64)(high - dim->low) + 1;
}

static void add_cut(CubeDim *dim, u64 at)
{
    int place = dim->n_classes;
    if (at >= dim->size) return;
    while (place > 0 && dim->cuts[place - 1] > at) place--;
    if (place > 0 && dim->cuts[place - 1] == at) return;
    ASSERT(dim->n_classes < COUNT_OF(dim->cuts));
    for (int c = dim->n_classes; c > place; c--) dim->cuts[c] = dim->cuts[c - 1];
    dim->cuts[place] = at;
    dim->n_classes++;
}

static int class_of(const CubeDim *dim, u64 at)
{
    int number = dim->n_classes - 1;
    while (number > 0 && dim->cuts[number] > at) number--;
    return number;
}

static void make_classes(GpuCube *cube, int d)
{
    CubeDim *dim = &cube->dims[d];
    u64  first, end;
    cover(cube, dim);
    add_cut(dim, 0);
    for (int r = 0; r < cube->n_runs; r++) {
        wanted(cube->runs[r], dim, &first, &end);
        if (first < end) add_cut(dim, first), add_cut(dim, end);
    }
    for (int r = 0; r < cube->n_runs; r++) {
        wanted(cube->runs[r], dim, &first, &end);
        cube->wants[r][d] =
            first < end ? (ClassRange){ class_of(dim, first), class_of(dim, end - 1) } : (ClassRange){ 1, 0 };
    }
}

static u64 cells_wanted(const GpuCube *cube, int r)
{
    u64 n = 1;
    for (int d = 0; d < cube->n_dims; d++) n *= (u64)MAX_OF(cube->wants[r][d].last - cube->wants[r][d].first + 1, 0);
    return n;
}

static bool place_cells(GpuCube *cube)
{
    const Woven *woven = woven_of(cube);
    const u64    most = cube->runs[0]->gpu->shared_most;
    cube->n_groups = groups_of(woven);
    cube->n_cells = 1;
    for (int d = 0; d < cube->n_dims; d++) {
        make_classes(cube, d);
        if (cube->dims[d].size > SPAN_MOST) return false;
        cube->n_cells *= (u64)cube->dims[d].n_classes;
        cube->cells_bytes = kernel_place_cells(woven, cube->n_cells * cube->n_groups, most, cube->cells, &cube->kinds);
        if (cube->cells_bytes > most) return false;
    }
    for (int r = 0; r < cube->n_runs; r++) cube->n_listed += cells_wanted(cube, r);
    return cube->n_listed <= LISTS_MOST;
}

// ---- room for arguments ---------------------------------------------------------------------------------------------

typedef struct FoldArgs { i64 params[FOLD_PARAMS]; const void *tables[FOLD_TABLES]; void *state[FOLD_STATE]; } FoldArgs;

#define HEAD_BYTES 4096                // what is written once, and what is lost between pieces

// Besides those of each chunk: less than its queries would have by themselves.
static u64 args_bytes(const GpuCube *cube)
{
    const u64 n_state = (u64)woven_of(cube)->n_state, n_runs = (u64)cube->n_runs,
              folds = n_runs * n_state * (sizeof(KernelArgs) + sizeof(FoldArgs));
    u64 bytes = HEAD_BYTES + cube->cells_bytes + folds + cube->n_listed * sizeof(u32) + (n_runs + TABLES_MOST) * 64;
    for (int d = 0; d < cube->n_dims; d++) bytes += args_rounded(cube->dims[d].size + 16);
    return bytes;
}

u64 gpu_cubes_args_bytes(void)
{
    const u64 folds = CUBE_MOST * STATE_MOST * (sizeof(KernelArgs) + sizeof(FoldArgs));
    return MAX_DIMS * SPAN_MOST + SHARED_LIMIT + LISTS_MOST * sizeof(u32) + folds + 65536;
}

// ---- code -----------------------------------------------------------------------------------------------------------

static CubeKernel *find_code(Gpu *gpu, const GpuRun *run)
{
    CubeKernel *code = gpu->cubes;
    while (code && (code->table != run->launch->table || strcmp(code->name, run->launch->woven->name) != 0))
        code = code->next;
    if (code) return code;
    code = calloc(1, sizeof *code);
    *code = (CubeKernel){ .table = run->launch->table, .next = gpu->cubes };
    strcpy(code->name, run->launch->woven->name);
    gpu->cubes = code;
    return code;
}

static void ask_for(Gpu *gpu, CubeKernel *code, const GpuCube *cube)
{
    Arena *arena = arena_new(NULL, "cube");
    int    columns[MAX_DIMS];
    for (int d = 0; d < cube->n_dims; d++) columns[d] = cube->dims[d].column;
    const Woven *woven = weave_cube(arena, woven_of(cube), columns, cube->n_dims, sizeof(u8));
    code->kernel =
        kernel_want(gpu, &(KernelWish){ .name = woven->name, .text = woven->text, .shared_groups = cube->kinds },
                    &code->shape);
    log_debug("%s: %s, a kernel for all queries of a shape, is compiled", gpu->name, woven->name);
    arena_free(arena);
}

static CodeEntry *fold_kernel(Gpu *gpu)
{
    const char *name, *text = weave_fold_text(&name);
    if (!gpu->fold_kernel)
        gpu->fold_kernel = kernel_want(gpu, &(KernelWish){ .name = name, .text = text }, &gpu->fold_shape);
    return gpu->fold_kernel;
}

// Asked for when such queries have met before.
static void look_for_code(Gpu *gpu, CubeKernel *code, GpuRun *run)
{
    GpuCube *cube = calloc(1, sizeof *cube);
    cube->runs[0] = run, cube->n_runs = 1;
    if (find_dims(cube)) {
        kernel_place_cells(woven_of(cube), 1, run->gpu->shared_most, cube->cells, &cube->kinds);
        ask_for(gpu, code, cube);
    }
    free(cube);
}

ShareMade gpu_cube_meets(Gpu *gpu, GpuRun *run)
{
    CodeEntry *fold = fold_kernel(gpu);
    CubeKernel *code = find_code(gpu, run);
    if (!code->kernel && ++code->n_met >= MET_BEFORE) look_for_code(gpu, code, run);
    if (code->kernel && code->kernel->state == KERNEL_READY && fold->state == KERNEL_READY) return SHARE_DONE;
    return code->kernel && code->kernel->state == KERNEL_FAILED ? SHARE_NO : SHARE_LATER;
}

static bool fit_code(Gpu *gpu, GpuCube *cube)
{
    const Woven *woven = woven_of(cube);
    CubeKernel  *code = find_code(gpu, cube->runs[0]);
    return kernel_fit(gpu, code->kernel, &code->shape, (u32)cube->cells_bytes, woven, &cube->kernel) &&
           kernel_fit(gpu, gpu->fold_kernel, &gpu->fold_shape, 0, woven, &cube->fold);
}

GpuCube *gpu_cube_of(Gpu *gpu, GpuRun *const *runs, int n_runs, double gain, u64 *args_left)
{
    GpuCube *cube = calloc(1, sizeof *cube);
    ASSERT(n_runs > 0 && n_runs <= CUBE_MOST);
    cube->n_runs = n_runs, cube->gain = gain;
    memcpy(cube->runs, runs, (size_t)n_runs * sizeof *runs);
    if (find_dims(cube) && place_cells(cube) && args_bytes(cube) <= *args_left && fit_code(gpu, cube)) {
        *args_left -= args_bytes(cube);
        return cube;
    }
    free(cube);
    return NULL;
}

void gpu_cube_free(GpuCube *cube) { free(cube); }

void gpu_cubes_free(Gpu *gpu)
{
    for (CubeKernel *code = gpu->cubes, *next; code; code = next) {
        next = code->next;
        free(code);
    }
    gpu->cubes = NULL;
}

// ---- what the kernels are handed ------------------------------------------------------------------------------------

static GpuAddress write_class_table(Wave *wave, const CubeDim *dim)
{
    _Static_assert(2 * CUBE_MOST + 1 <= UINT8_MAX, "a byte tells all classes of a column");
    GpuAddress at;
    u8       *classes = wave_take_args(wave, dim->size + 16, &at);
    for (int c = 0; c < dim->n_classes; c++) {
        const u64 end = c + 1 < dim->n_classes ? dim->cuts[c + 1] : dim->size;
        memset(classes + dim->cuts[c], c, end - dim->cuts[c]);
    }
    return at;
}

typedef struct CubeHead { GpuAddress common, tables, state, cells; } CubeHead;

static GpuAddress cells_address(const GpuCube *cube, const CubeHead *head, int s)
{
    return head->cells + cube->cells[s].at;
}

// As they are before the first row.
static GpuAddress write_cells(Wave *wave, const GpuCube *cube)
{
    const Woven *woven = woven_of(cube);
    GpuAddress    at;
    u8 *cells = wave_take_args(wave, cube->cells_bytes, &at);
    for (int s = 0; s < woven->n_state; s++)
        for (u64 c = 0; c < cube->n_cells * cube->n_groups && cube->cells[s].init; c++)
            ((u64 *)(void *)(cells + cube->cells[s].at))[c] = cube->cells[s].init;
    return at;
}

static CubeHead write_head(Wave *wave, const GpuCube *cube)
{
    const Woven  *woven = woven_of(cube);
    const GpuRun *first = cube->runs[0];
    const int     n_state = woven->n_state;
    CubeHead      head;
    GpuAddress     places_at;
    KernelCommon *common = wave_take_args(wave, sizeof *common, &head.common);
    void **tables = wave_take_args(wave, (u64)(woven->n_tables + cube->n_dims + 1) * sizeof *tables, &head.tables);
    void        **state = wave_take_args(wave, (u64)(n_state + 1) * sizeof *state, &head.state);
    memcpy(wave_take_args(wave, (u64)n_state * sizeof *cube->cells, &places_at), cube->cells,
           (size_t)n_state * sizeof *cube->cells);
    head.cells = write_cells(wave, cube);
    *common = (KernelCommon){ .n_room = cube->n_cells * cube->n_groups,
                              .cells = pointer(places_at),
                              .n_groups = (u32)(cube->n_cells * cube->n_groups),
                              .n_state = (u32)n_state };
    for (int s = 0; s < n_state; s++) state[s] = pointer(cells_address(cube, &head, s));
    for (int t = 0; t < woven->n_tables; t++) tables[t] = pointer(gpu_address(first->gpu, first->tables[t]->at));
    for (int d = 0; d < cube->n_dims; d++)
        tables[woven->n_tables + d] = pointer(write_class_table(wave, &cube->dims[d]));
    return head;
}

static void write_params(const GpuCube *cube, const KernelColumn *columns, i64 *params)
{
    const Woven *woven = woven_of(cube);
    i64          stride = (i64)cube->n_groups;
    for (int p = 0; p < woven->n_params; p++) params[p] = launch_param(&woven->params[p], columns);
    for (int d = cube->n_dims - 1; d >= 0; d--) {
        const CubeDim *dim = &cube->dims[d];
        params[woven->n_params + 2 * d] =
            launch_param(&(Param){ .kind = PARAM_OFFSET, .value = dim->low, .column = dim->column }, columns);
        params[woven->n_params + 2 * d + 1] = stride;
        stride *= dim->n_classes;
    }
}

static void write_parts(Wave *wave, GpuCube *cube, const CubeHead *head, const int *chunks, int n_chunks)
{
    const Woven *woven = woven_of(cube);
    const u64    n_columns = (u64)woven->n_columns, n_params = (u64)(woven->n_params + 2 * cube->n_dims);
    GpuAddress    columns_at, params_at;
    KernelArgs  *args = wave_take_args(wave, (u64)n_chunks * sizeof *args, &cube->parts_at);
    KernelColumn *columns = wave_take_args(wave, (u64)n_chunks * n_columns * sizeof *columns, &columns_at);
    i64         *params = wave_take_args(wave, (u64)n_chunks * n_params * sizeof *params, &params_at);
    cube->n_parts = n_chunks;
    for (int p = 0; p < n_chunks; p++) {
        const RunChunk *chunk = &wave->chunks[chunks[p]];
        wave_columns(cube->runs[0], chunk, columns + (u64)p * n_columns);
        write_params(cube, columns + (u64)p * n_columns, params + (u64)p * n_params);
        args[p] = (KernelArgs){ .row_end = chunk->chunk->n_rows,
                                .columns = pointer(columns_at + (u64)p * n_columns * sizeof *columns),
                                .params = pointer(params_at + (u64)p * n_params * sizeof *params),
                                .tables = pointer(head->tables),
                                .state = pointer(head->state),
                                .common = pointer(head->common) };
        cube->most_rows = MAX_OF(cube->most_rows, chunk->chunk->n_rows);
    }
}

// All combinations of the classes that the query wants, as numbers of cells.
static u32 list_cells(const GpuCube *cube, int r, u32 *cells)
{
    u32 n = 1;
    cells[0] = 0;
    for (int d = 0; d < cube->n_dims; d++) {
        const ClassRange *wants = &cube->wants[r][d];
        const u32    n_list = (u32)(wants->last - wants->first + 1), n_before = n;
        n = n_before * n_list;
        // From the end: what is written lies at or after what is read.
        for (u32 at = n_before; at-- > 0;)
            for (u32 k = n_list; k-- > 0;)
                cells[at * n_list + k] = cells[at] * (u32)cube->dims[d].n_classes + (u32)wants->first + k;
    }
    return n;
}

// Lanes for each group: enough to keep threads busy, and none with many cells, but not more than there are cells.
static u32 lanes_for(const GpuCube *cube, u64 n_wanted)
{
    const u64 to_be_busy = FOLD_ROWS / cube->n_groups, to_be_short = (n_wanted + FOLD_EACH - 1) / FOLD_EACH;
    return (u32)MIN_OF(MAX_OF(MAX_OF(to_be_busy, to_be_short), 1), n_wanted);
}

typedef struct CellList { GpuAddress at; u64 n; } CellList;

// The high words of a sum of 128 bits are the next slot's.
static FoldArgs fold_args(const GpuCube *cube, const CubeHead *head, int r, int s, const CellList *list)
{
    const GpuRun *run = cube->runs[r];
    const int     high = cube->cells[s].kind == CELLS_WIDE_LOW ? s + 1 : s;
    return (FoldArgs){ .params = { [FOLD_HOW] = cube->cells[s].kind,
                                   [FOLD_INIT] = (i64)cube->cells[s].init,
                                   [FOLD_GROUPS] = (i64)cube->n_groups,
                                   [FOLD_LISTED] = (i64)list->n,
                                   [FOLD_LANES] = lanes_for(cube, list->n) },
                       .tables = { [FOLD_LIST] = pointer(list->at),
                                   [FOLD_CELLS] = pointer(cells_address(cube, head, s)),
                                   [FOLD_HIGH_CELLS] = pointer(cells_address(cube, head, high)) },
                       .state = { [FOLD_SUMS] = pointer(in_block(run, run->slot_at[s])),
                                  [FOLD_HIGH_SUMS] = pointer(in_block(run, run->slot_at[high])) } };
}

static CellList write_list(Wave *wave, const GpuCube *cube, int r)
{
    CellList list = { .n = cells_wanted(cube, r) };
    if (list.n) list_cells(cube, r, wave_take_args(wave, list.n * sizeof(u32), &list.at));
    return list;
}

static void write_folds(Wave *wave, GpuCube *cube, const CubeHead *head)
{
    const int   n_state = woven_of(cube)->n_state;
    GpuAddress   own_at;
    KernelArgs *args = wave_take_args(wave, (u64)(cube->n_runs * n_state) * sizeof *args, &cube->folds_at);
    FoldArgs   *own = wave_take_args(wave, (u64)(cube->n_runs * n_state) * sizeof *own, &own_at);
    for (int r = 0; r < cube->n_runs; r++) {
        const CellList list = write_list(wave, cube, r);
        for (int s = 0; s < n_state && list.n; s++) {
            const GpuAddress at = own_at + (u64)cube->n_folds * sizeof *own;
            const u32       n_rows = (u32)cube->n_groups * lanes_for(cube, list.n);
            if (cube->cells[s].kind == CELLS_WIDE_HIGH) continue;
            own[cube->n_folds] = fold_args(cube, head, r, s, &list);
            args[cube->n_folds++] = (KernelArgs){ .row_end = n_rows,
                                                  .params = pointer(at + offsetof(FoldArgs, params)),
                                                  .tables = pointer(at + offsetof(FoldArgs, tables)),
                                                  .state = pointer(at + offsetof(FoldArgs, state)),
                                                  .common = pointer(head->common) };
            cube->fold_rows = MAX_OF(cube->fold_rows, n_rows);
        }
    }
}

void gpu_cube_pack(Wave *wave, GpuCube *cube)
{
    packs_make(wave, cube, cube->runs[0]->stream, cube->runs, cube->n_runs);
}

void gpu_cube_write(Wave *wave, GpuCube *cube, const int *chunks, int n_chunks)
{
    ASSERT(woven_of(cube)->n_state <= STATE_MOST && n_chunks > 0);
    const CubeHead head = write_head(wave, cube);
    write_parts(wave, cube, &head, chunks, n_chunks);
    write_folds(wave, cube, &head);
}

// ---- launching ------------------------------------------------------------------------------------------------------

static void tell(const GpuCube *cube, const Grid *grid)
{
    BodyFigures figures = { .n_slots = cube->n_cells, .n_cells = cube->n_cells * cube->n_groups };
    snprintf(figures.kernel, sizeof figures.kernel, "c_%s", woven_of(cube)->name + 2);       // as weave_cube names it
    for (int d = 0; d < cube->n_dims; d++) figures.n_classes += (u64)cube->dims[d].n_classes;
    for (int r = 0; r < cube->n_runs; r++) {
        Launch *launch = cube->runs[r]->launch;
        cube->runs[r]->n_cubed_chunks = (u64)cube->n_parts;
        launch->out.woven_as = "one body", launch->out.n_woven = cube->n_runs, launch->out.gain = cube->gain;
        launch->out.body = figures;
        schedule_note(&launch->out.gpu, &cube->kernel, grid);
    }
}

weft_status gpu_cube_launch(Wave *wave, const GpuCube *cube, Error *err)
{
    Gpu      *gpu = wave->gpu;
    GpuRun   *first = cube->runs[0];
    const Grid grid = schedule_one_round(gpu, &cube->kernel.shape, cube->most_rows, cube->n_parts);
    TRY(wave_wait(wave, first->stream, err));
    TRY(wave_join(gpu, cube->runs, cube->n_runs, err));
    TRY(wave_launch(gpu, &cube->kernel, first->stream, cube->parts_at, &grid, err));
    if (cube->n_folds) {
        const Grid folds = schedule_one_round(gpu, &cube->fold.shape, cube->fold_rows, cube->n_folds);
        TRY(wave_launch(gpu, &cube->fold, first->stream, cube->folds_at, &folds, err));
    }
    TRY(packs_fetch(wave, cube, err));
    tell(cube, &grid);
    return WEFT_OK;
}
