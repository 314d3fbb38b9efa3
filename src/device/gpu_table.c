// gpu_table.c - a join table, or a chunk for the next kernel, made on the GPU of rows that a launch left there.
//
//     stream of the launch    its kernel, which notes ranges on the way | (head and marks to the host)
//                             ... zeros | link, order | fill | (counts to the host)
//
// The host is asked twice: for the shape of the table when the ranges are known, and whether keys were unique.  Where
// they were not, or are far apart, rows of equal key are chained (link, order) and payloads lie by row.  The kernels
// are the same for all (weave/tables.c).
//
// The rows between two kernels of a query (weave = off) become the columns of a chunk in the same way: as many as there
// are, in as few bytes as they need, with bits that say which are not NULL.  The block of the launch, which has room
// for all rows that there might have been, is given back then.
//
//     block         [value value value value ...  (room)] [NULL flags ... (room)]      segments: where rows are from
//     t_keep         v part per column                      v
//     column        [code code code | past] [bits | past]                              held until it is dropped
//
// Blocks of threads put out rows in any order.  Where the order matters, segments are fetched, ordered by the host
// (gpu_fetch.c) and sent back as the distances that rows have to move: 24 bytes for some hundred rows.

#include "device/gpu_made.h"
#include "device/gpu_wave.h"

#include <stdio.h>
#include <stdlib.h>

#define SPAN_MOST ((u64)1 << 30)

enum { LINK_ARGS = 0, ORDER_ARGS };    // of the parts that are links, whose numbers these are, too

typedef struct FillArgs {              // what a part's KernelArgs point to, in device memory
    KernelColumn columns[FILL_KEYS_FROM + FILL_KEYS];
    i64          params[MAX_OF((int)FILL_KEY + 2 * FILL_KEYS, (int)LINK_KEY + 3 * FILL_KEYS)];
    void        *state[ORDER_STATE];
    const void  *tables[FILL_KEYS + 1];
    i64          totals[2];            // places or keys that have a row; the longest chain
} FillArgs;

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

// ---- room -----------------------------------------------------------------------------------------------------------

static MadeTable *try_table(Gpu *gpu, const void *owner, const TableFill *fill, const PartSize *sizes)
{
    pthread_mutex_lock(&gpu->lock);
    MadeTable *table = made_leaves_room(gpu, owner, sizes, fill->n_parts) ? made_take(gpu, sizes, fill->n_parts) : NULL;
    if (table) table->id = fill->table, table->owner = owner;
    pthread_mutex_unlock(&gpu->lock);
    return table;
}

static MadeTable *new_table(Gpu *gpu, const void *owner, const TableFill *fill)
{
    PartSize *sizes = calloc((size_t)fill->n_parts + 1, sizeof *sizes);
    for (int p = 0; p < fill->n_parts; p++)
        sizes[p] = (PartSize){ table_key(fill->table, fill->parts[p].number), fill->parts[p].bytes };
    MadeTable *table = try_table(gpu, owner, fill, sizes);
    if (!table) {
        gpu_relieve(gpu);
        table = try_table(gpu, owner, fill, sizes);
    }
    free(sizes);
    return table;
}

// What only the filling needs: [KernelArgs by part | FillArgs by part | codes of values, for parts that have some | a
// bit per place, or where each row is from]
typedef struct FillScratch { Copy *copy; u64 parts_at, maps_at, bits_at, bytes; } FillScratch;

static bool has_bits(const TableFill *fill) { return fill->kind == FILL_BY_KEY && fill->parts[0].width; }

static u64 bits_bytes(const TableFill *fill) { return has_bits(fill) ? aligned(fill->span / 8 + 8) : 0; }

static bool add_scratch(Gpu *gpu, FillScratch *scratch)
{
    pthread_mutex_lock(&gpu->lock);
    scratch->copy = copy_add(gpu->frames, (CopyKey){ 0 }, scratch->bytes, false);
    pthread_mutex_unlock(&gpu->lock);
    return scratch->copy != NULL;
}

static bool take_scratch(Gpu *gpu, const TableFill *fill, u64 n_rows, FillScratch *scratch)
{
    const u64 n_parts = (u64)fill->n_parts;
    scratch->parts_at = aligned(n_parts * sizeof(KernelArgs));
    scratch->maps_at = scratch->parts_at + aligned(n_parts * sizeof(FillArgs));
    scratch->bits_at = scratch->maps_at;
    for (int p = 0; p < fill->n_parts; p++) scratch->bits_at += aligned(fill->parts[p].n_codes * sizeof(u32));
    scratch->bytes = scratch->bits_at + (fill->kind == FILL_BY_KEY ? bits_bytes(fill) : n_rows * sizeof(u64));
    return add_scratch(gpu, scratch);
}

static GpuAddress in_scratch(const Gpu *gpu, const FillScratch *scratch, u64 at)
{
    return gpu_address(gpu, scratch->copy->at + at);
}

static void give_scratch(Gpu *gpu, FillScratch *scratch)
{
    if (!scratch->copy) return;
    pthread_mutex_lock(&gpu->lock);
    copy_forget(gpu->frames, scratch->copy);
    pthread_mutex_unlock(&gpu->lock);
}

// ---- what the kernel is handed --------------------------------------------------------------------------------------

static KernelColumn slot_column(const GpuRun *run, int slot, u32 width)
{
    return (KernelColumn){ .data = pointer(in_block(run, run->slot_at[slot])), .width = width };
}

// A column that is not looked at is loaded all the same: it must be there.
static void write_columns(const GpuRun *run, const TableFill *fill, const FillPart *part, FillArgs *args)
{
    ASSERT(fill->n_keys > 0 && fill->n_keys <= FILL_KEYS);
    const int value = part->value >= 0 ? part->value : fill->keys[0].value;
    args->columns[FILL_VALUE] = slot_column(run, value, 8);
    args->columns[FILL_NULL] = slot_column(run, part->null >= 0 ? part->null : value, 1);
    for (int k = 0; k < fill->n_keys; k++) {
        args->columns[FILL_KEYS_FROM + k] = slot_column(run, fill->keys[k].value, 8);
        args->params[FILL_KEY + 2 * k] = fill->keys[k].low,
                                    args->params[FILL_KEY + 2 * k + 1] = (i64)fill->keys[k].stride;
    }
}

static void write_params(const TableFill *fill, int p, i64 *params)
{
    const FillPart *part = &fill->parts[p];
    params[FILL_WIDTH] = part->width, params[FILL_BASE] = part->base, params[FILL_NULL_CODE] = (i64)part->null_code,
    params[FILL_PLUS] = (i64)part->plus;
    params[FILL_HAS_NULLS] = part->null >= 0, params[FILL_HAS_CODES] = part->codes != NULL,
    params[FILL_IS_SET] = part->is_set;
    params[FILL_IS_COUNTED] = part->is_valid || (p == 0 && fill->kind == FILL_BY_KEY);
    params[FILL_IS_BY_ROW] = fill->kind != FILL_BY_KEY, params[FILL_IS_VALID] = part->is_valid;
}

typedef struct FillWriter {
    const GpuRun *run;
    const TableFill *fill;
    const MadeTable *table;
    const FillScratch *scratch;
    KernelArgs *args;
    FillArgs *own;
} FillWriter;

static void *part_address(const FillWriter *w, int p)
{
    return pointer(gpu_address(w->run->gpu, w->table->parts[p]->at));
}

static GpuAddress own_address(const FillWriter *w, int p)
{
    return in_scratch(w->run->gpu, w->scratch, w->scratch->parts_at + (u64)p * sizeof(FillArgs));
}

static void *from_address(const FillWriter *w)
{
    return pointer(in_scratch(w->run->gpu, w->scratch, w->scratch->bits_at));
}

static void write_args(const FillWriter *w, int p, u64 n_rows)
{
    const GpuAddress at = own_address(w, p);
    w->args[p] = (KernelArgs){ .row_end = (u32)n_rows,
                               .columns = pointer(at + offsetof(FillArgs, columns)),
                               .params = pointer(at + offsetof(FillArgs, params)),
                               .state = pointer(at + offsetof(FillArgs, state)),
                               .tables = pointer(at + offsetof(FillArgs, tables)),
                               .common = pointer(in_block(w->run, 0)) };
}

static void write_part(const FillWriter *w, int p, u64 map_at)
{
    FillArgs *own = &w->own[p];
    write_columns(w->run, w->fill, &w->fill->parts[p], own);
    write_params(w->fill, p, own->params);
    own->state[FILL_PLACES] = part_address(w, p);
    own->state[FILL_BITS] = w->fill->parts[p].width ? pointer(in_scratch(w->run->gpu, w->scratch, w->scratch->bits_at))
                                                    : part_address(w, p);
    own->state[FILL_COUNT] = pointer(own_address(w, p) + offsetof(FillArgs, totals));
    own->tables[0] = pointer(in_scratch(w->run->gpu, w->scratch, map_at));
    write_args(w, p, w->run->n_used);
}

static void write_link(const FillWriter *w)
{
    const TableFill *fill = w->fill;
    FillArgs        *own = &w->own[LINK_ARGS];
    own->params[LINK_IS_HASH] = fill->kind == FILL_HASH, own->params[LINK_HAS_WORDS] = fill->has_words,
    own->params[LINK_MASK] = (i64)(fill->span - 1);
    own->params[LINK_SEGMENTS] = (i64)w->run->n_segments;
    for (int k = 0; k < fill->n_keys; k++) {
        const FillKey *key = &fill->keys[k];
        i64           *params = own->params + LINK_KEY + 3 * k;
        own->columns[k] = slot_column(w->run, key->value, 8);
        own->tables[k] = own->columns[k].data;
        params[0] = key->low, params[1] = (i64)key->stride, params[2] = key->is_float;
    }
    for (int p = LINK_SLOTS; p <= LINK_WORDS; p++)
        own->state[p] = part_address(w, p < LINK_WORDS || fill->has_words ? p : LINK_SLOTS);
    own->tables[fill->n_keys] = pointer(in_block(w->run, w->run->segments_at));
    own->state[LINK_FROM] = from_address(w);
    write_args(w, LINK_ARGS, w->run->n_used);
}

static void write_order(const FillWriter *w)
{
    FillArgs *own = &w->own[ORDER_ARGS];
    own->params[ORDER_IS_HASH] = w->fill->kind == FILL_HASH;
    own->tables[0] = from_address(w);
    own->state[ORDER_SLOTS] = part_address(w, LINK_SLOTS), own->state[ORDER_NEXT] = part_address(w, LINK_NEXT);
    for (int t = 0; t < COUNT_OF(own->totals); t++)
        own->state[ORDER_KEYS + t] =
            pointer(own_address(w, ORDER_ARGS) + offsetof(FillArgs, totals) + (u64)t * sizeof *own->totals);
    write_args(w, ORDER_ARGS, w->fill->span);
}

// What goes to the scratch in one copy.  The stream is idle: the rows are there, and counted.
static bool area_is_pinned(const GpuRun *run, const FillScratch *scratch)
{
    return run->pinned && scratch->bits_at <= PINNED_SLOT_BYTES;
}

static u8 *area_new(const GpuRun *run, const FillScratch *scratch)
{
    return area_is_pinned(run, scratch) ? memset(run->pinned, 0, scratch->bits_at) : calloc(1, scratch->bits_at);
}

static weft_status area_send(const GpuRun *run, const FillScratch *scratch, u8 *area, Error *err)
{
    Gpu              *gpu = run->gpu;
    const weft_status status =
        gpu_check(gpu, gpu->calls->MemcpyHtoDAsync(in_scratch(gpu, scratch, 0), area, scratch->bits_at, run->stream),
                  "MemcpyHtoDAsync", err);
    if (!area_is_pinned(run, scratch)) free(area);         // pageable: the driver has taken a copy
    return status;
}

static weft_status send_args(GpuRun *run, const TableFill *fill, const MadeTable *table, const FillScratch *scratch,
                             Error *err)
{
    u8              *area = area_new(run, scratch);
    u64              map_at = scratch->maps_at;
    const FillWriter writer = {
        run, fill, table, scratch, (KernelArgs *)(void *)area, (FillArgs *)(void *)(area + scratch->parts_at)
    };
    if (fill->kind != FILL_BY_KEY) write_link(&writer), write_order(&writer);
    for (int p = 0; p < fill->n_parts; p++) {
        const u64 map_bytes = fill->parts[p].n_codes * sizeof(u32);
        if (!fill->parts[p].is_link) write_part(&writer, p, map_at);
        if (map_bytes) memcpy(area + map_at, fill->parts[p].codes, map_bytes);
        map_at += aligned(map_bytes);
    }
    return area_send(run, scratch, area, err);
}

// ---- filling --------------------------------------------------------------------------------------------------------

static weft_status set_zero(GpuRun *run, const TableFill *fill, const MadeTable *table, const FillScratch *scratch,
                            Error *err)
{
    Gpu *gpu = run->gpu;
    for (int p = 0; p < fill->n_parts; p++)
        GPU_TRY(gpu, MemsetD8Async,
                (gpu_address(gpu, table->parts[p]->at), 0, fill->parts[p].bytes + TABLE_PAST, run->stream), err);
    if (has_bits(fill))
        GPU_TRY(gpu, MemsetD8Async, (in_scratch(gpu, scratch, scratch->bits_at), 0, bits_bytes(fill), run->stream),
                err);
    return WEFT_OK;
}

typedef enum FixedKind { KERNEL_FILL, KERNEL_LINK, KERNEL_ORDER, KERNEL_KEEP } FixedKind;

static void describe_kernel(Gpu *gpu, Arena *arena, FixedKind kind, int n_keys, Fixed *fixed)
{
    const char *name, *text;
    switch (kind) {
        case KERNEL_FILL: text = weave_fill_text(arena, n_keys, &name); break;
        case KERNEL_LINK: text = weave_link_text(arena, n_keys, &name); break;
        case KERNEL_ORDER: text = weave_order_text(&name); break;
        default: text = weave_keep_text(&name); break;
    }
    fixed_describe(fixed, gpu, text, name);
}

// Parts FIRST and N_PARTS - 1 after it, each over N_ROWS rows.
typedef struct Work { FixedKind kind; int first, n_parts; u64 n_rows; } Work;

static weft_status launch_kernel(GpuRun *run, const Work *work, const Fixed *fixed, const FillScratch *scratch,
                                 Error *err)
{
    Gpu         *gpu = run->gpu;
    GpuAddress    at = in_scratch(gpu, scratch, (u64)work->first * sizeof(KernelArgs));
    void        *parameters[] = { &at };
    const Shape *shape = &fixed->run.shape;
    const u64 tile = (u64)shape->threads * (u64)shape->items,
              room = 2 * (u64)gpu->n_sms * (u64)shape->blocks_per_sm / (u64)work->n_parts;
    const u32    blocks = (u32)MAX_OF(1, MIN_OF((work->n_rows + tile - 1) / tile, room));
    TRY(timer_begin(run, err));
    GPU_TRY(gpu, LaunchKernel,
            (fixed->run.kernel->code.function, blocks, (unsigned)work->n_parts, 1, (unsigned)shape->threads, 1, 1,
             shape->launch_shared, run->stream, parameters, NULL),
            err);
    gpu->n_kernels++;
    return timer_end(run, err);
}

static weft_status do_work(GpuRun *run, int n_keys, const Work *work, const FillScratch *scratch, Error *err)
{
    Arena *arena = arena_new(NULL, "fill");
    Fixed  fixed;
    describe_kernel(run->gpu, arena, work->kind, n_keys, &fixed);
    fixed.launch.stop = run->launch->stop;
    weft_status status = fixed_code(run->gpu, &fixed, err);
    if (!status) status = launch_kernel(run, work, &fixed, scratch, err);
    arena_free(arena);
    return status;
}

static weft_status launch_all(GpuRun *run, const TableFill *fill, const FillScratch *scratch, Error *err)
{
    int n_links = 0;
    while (n_links < fill->n_parts && fill->parts[n_links].is_link) n_links++;
    const int n_keys = fill->n_keys, n_fills = fill->n_parts - n_links;
    if (n_links) TRY(do_work(run, n_keys, &(Work){ KERNEL_LINK, LINK_ARGS, 1, run->n_used }, scratch, err));
    if (n_links) TRY(do_work(run, n_keys, &(Work){ KERNEL_ORDER, ORDER_ARGS, 1, fill->span }, scratch, err));
    return n_fills ? do_work(run, n_keys, &(Work){ KERNEL_FILL, n_links, n_fills, run->n_used }, scratch, err)
                   : WEFT_OK;
}

static bool has_code(Gpu *gpu, FixedKind kind, int n_keys)
{
    Arena *arena = arena_new(NULL, "fill");
    Fixed  fixed;
    describe_kernel(gpu, arena, kind, n_keys, &fixed);
    const bool is_ready = fixed_is_ready(gpu, &fixed);
    arena_free(arena);
    return is_ready;
}

// All that are missing are asked for at once.
static bool has_codes(Gpu *gpu, const TableFill *fill)
{
    const bool can_fill = fill->parts[fill->n_parts - 1].is_link || has_code(gpu, KERNEL_FILL, fill->n_keys);
    if (fill->kind == FILL_BY_KEY) return can_fill;
    const bool can_link = has_code(gpu, KERNEL_LINK, fill->n_keys),
               can_order = has_code(gpu, KERNEL_ORDER, fill->n_keys);
    return can_fill && can_link && can_order;
}

static weft_status fill_table(GpuRun *run, TableFill *fill, const MadeTable *table, const FillScratch *scratch,
                              Error *err)
{
    Gpu *gpu = run->gpu;
    // Behind the args in the stream, which are gone by then.
    i64  pageable[2], *totals = run->pinned ? (i64 *)(void *)run->pinned : pageable;
    const u64 counted = scratch->parts_at + (fill->kind == FILL_BY_KEY ? 0 : ORDER_ARGS) * sizeof(FillArgs);
    TRY(set_zero(run, fill, table, scratch, err));
    TRY(send_args(run, fill, table, scratch, err));
    TRY(launch_all(run, fill, scratch, err));
    GPU_TRY(gpu, MemcpyDtoHAsync,
            (totals, in_scratch(gpu, scratch, counted + offsetof(FillArgs, totals)), sizeof pageable, run->stream),
            err);
    GPU_TRY(gpu, StreamSynchronize, (run->stream), err);
    fill->n_places = (u64)totals[0], fill->longest = (u64)totals[1];
    return WEFT_OK;
}

// ---- the table ------------------------------------------------------------------------------------------------------

static bool can_make(const GpuRun *run, const TableFill *fill)
{
    return fill->span <= SPAN_MOST && run->n_used && run->n_used <= SPAN_MOST && fill->n_keys <= FILL_KEYS &&
           (fill->may_compile || has_codes(run->gpu, fill));
}

static bool make_table(Gpu *gpu, GpuRun *run, TableFill *fill)
{
    const double before_ms = run->launch->out.gpu.kernel_ms;
    FillScratch  scratch = { 0 };
    Error        err = { 0 };          // the host makes the table then
    if (!can_make(run, fill) || gpu_enter(gpu, &err)) return false;
    MadeTable *table = new_table(gpu, run->launch->stop, fill);
    if (!table) return false;
    bool              fits = take_scratch(gpu, fill, run->n_used, &scratch);
    const weft_status status = fits ? fill_table(run, fill, table, &scratch, &err) : WEFT_OK;
    fits = fits && (status || fill->longest < CHAIN_TOO_LONG);
    if (status) {
        if (status != WEFT_QUERY_CANCELED) snprintf(fill->refused, sizeof fill->refused, "%.290s", err.message);
        run_wait_quietly(run);
    }
    give_scratch(gpu, &scratch);
    if (fits && !status) made_keep(gpu, table);
    else made_give_up(gpu, table);
    timers_read(run);
    fill->kernel_ms = run->launch->out.gpu.kernel_ms - before_ms;
    return fits && !status;
}

bool gpu_make_table(Device *device, Launch *launch, TableFill *fill)
{
    Gpu            *gpu = (Gpu *)device;
    GpuRun         *run = launch->memory;
    const GpuContext before = gpu_visit(gpu);
    run->launch = launch;
    run->is_timed = launch->is_explained;
    const bool is_made = make_table(gpu, run, fill);
    gpu_leave(gpu, before);
    return is_made;
}

// ---- rows between two kernels ---------------------------------------------------------------------------------------

enum { ROOM_TRIES = 3 };               // for a run that has ended and still holds the columns that it read

static PartSize *column_sizes(const RowKeep *keep)
{
    PartSize *sizes = calloc((size_t)keep->n_columns + 1, sizeof *sizes);
    for (int c = 0; c < keep->n_columns; c++)
        sizes[c] = (PartSize){ { keep->chunk->id, (u64)(u32)c }, column_copy_bytes(keep->chunk, c) };
    return sizes;
}

// NULL: there is no room.
static MadeTable *new_rows(Gpu *gpu, const void *owner, const RowKeep *keep)
{
    PartSize  *sizes = column_sizes(keep);
    MadeTable *rows = NULL;
    pthread_mutex_lock(&gpu->lock);
    for (int t = 0; !rows && t < ROOM_TRIES; t++) {
        if (t > 1 && !scan_is_busy(gpu)) break;
        if (t == 1) relieve_unlocked(gpu);
        if (t > 1) gpu_wait_a_little(gpu, &gpu->changed);
        rows = made_take(gpu, sizes, keep->n_columns);
    }
    if (rows) rows->id = keep->chunk->id, rows->owner = owner, rows->is_rows = true;
    pthread_mutex_unlock(&gpu->lock);
    free(sizes);
    return rows;
}

// [KernelArgs by column | FillArgs by column | distances, where rows are to be in order]
static bool take_rows_scratch(Gpu *gpu, const RowKeep *keep, u64 n_segments, FillScratch *scratch)
{
    const u64 n_columns = (u64)keep->n_columns;
    scratch->parts_at = aligned(n_columns * sizeof(KernelArgs));
    scratch->bits_at = scratch->parts_at + aligned(n_columns * sizeof(FillArgs));
    scratch->bytes = scratch->bits_at + MAX_OF(n_segments, 1) * sizeof(KernelSegment);
    return add_scratch(gpu, scratch);
}

static void write_column(const FillWriter *w, const RowKeep *keep, int c, u64 n_segments)
{
    const ColumnChunk *column = &keep->chunk->columns[c];
    FillArgs          *own = &w->own[c];
    const GpuAddress    at = gpu_address(w->run->gpu, w->table->parts[c]->at);
    const bool         has_nulls = column->valid != NULL;
    ASSERT(!has_nulls || keep->nulls[c] >= 0);
    own->columns[KEEP_VALUE] = slot_column(w->run, keep->values[c], 8);
    // A column that is not looked at is loaded all the same.
    own->columns[KEEP_NULL] = slot_column(w->run, has_nulls ? keep->nulls[c] : keep->values[c], 1);
    own->params[KEEP_WIDTH] = column->width, own->params[KEEP_BASE] = column->base;
    own->params[KEEP_HAS_NULLS] = has_nulls, own->params[KEEP_SEGMENTS] = (i64)n_segments;
    own->tables[0] = from_address(w);
    own->state[KEEP_PLACES] = pointer(at);
    own->state[KEEP_VALID] = pointer(at + column_valid_at(keep->chunk, c));
    write_args(w, c, w->run->n_used);
}

static weft_status send_columns(GpuRun *run, const RowKeep *keep, const MadeTable *rows, const FillScratch *scratch,
                                u64 n_segments, Error *err)
{
    u8              *area = area_new(run, scratch);
    const FillWriter writer = {
        run, NULL, rows, scratch, (KernelArgs *)(void *)area, (FillArgs *)(void *)(area + scratch->parts_at)
    };
    for (int c = 0; c < keep->n_columns; c++) write_column(&writer, keep, c, n_segments);
    return area_send(run, scratch, area, err);
}

// Bits, and what kernels may read past the last row.
static weft_status clear_ends(GpuRun *run, const RowKeep *keep, const MadeTable *rows, Error *err)
{
    Gpu *gpu = run->gpu;
    for (int c = 0; c < keep->n_columns; c++) {
        const u64 from = column_data_bytes(keep->chunk, c), bytes = column_copy_bytes(keep->chunk, c) - from;
        GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, rows->parts[c]->at + from), 0, bytes, run->stream), err);
    }
    return WEFT_OK;
}

// SEGMENTS become the distances that rows move; *N_SEGMENTS 0: none does.
static weft_status get_distances(GpuRun *run, KernelSegment *segments, u64 *n_segments, Error *err)
{
    bool moves = false;
    TRY(fetch_segments(run, segments, err));
    for (u64 s = 0; s < run->n_segments; s++) {
        moves |= segments[s].place != segments[s].first;
        segments[s].place -= segments[s].first;
    }
    *n_segments = moves ? run->n_segments : 0;
    return WEFT_OK;
}

static weft_status fill_columns(GpuRun *run, const RowKeep *keep, const MadeTable *rows, const FillScratch *scratch,
                                KernelSegment *segments, Error *err)
{
    Gpu *gpu = run->gpu;
    u64  n_segments = 0;
    if (segments) TRY(get_distances(run, segments, &n_segments, err));
    if (n_segments)
        GPU_TRY(gpu, MemcpyHtoDAsync,
                (in_scratch(gpu, scratch, scratch->bits_at), segments, n_segments * sizeof *segments, run->stream),
                err);
    TRY(clear_ends(run, keep, rows, err));
    TRY(send_columns(run, keep, rows, scratch, n_segments, err));
    TRY(do_work(run, 0, &(Work){ KERNEL_KEEP, 0, keep->n_columns, run->n_used }, scratch, err));
    GPU_TRY(gpu, StreamSynchronize, (run->stream), err);
    return WEFT_OK;
}

static weft_status fill_in_order(GpuRun *run, const RowKeep *keep, const MadeTable *rows, const FillScratch *scratch,
                                 Error *err)
{
    Budget     *budget = run->launch->budget;
    const u64   bytes = run->n_segments * sizeof(KernelSegment) + 8;
    void       *segments = NULL;
    weft_status status = keep->in_order ? mem_alloc(budget, bytes, &segments, err) : WEFT_OK;
    if (!status) status = fill_columns(run, keep, rows, scratch, segments, err);
    if (status) run_wait_quietly(run);             // it may still read the segments
    if (segments) mem_free(budget, segments, bytes);
    return status;
}

static bool can_keep(const GpuRun *run, const RowKeep *keep)
{
    return run->n_used && run->n_used <= SPAN_MOST && keep->n_columns &&
           (keep->may_compile || has_code(run->gpu, KERNEL_KEEP, 0));
}

static bool keep_rows(Gpu *gpu, GpuRun *run, RowKeep *keep)
{
    const double before_ms = run->launch->out.gpu.kernel_ms;
    FillScratch  scratch = { 0 };
    Error        err = { 0 };          // the host gets the rows then
    if (!can_keep(run, keep) || gpu_enter(gpu, &err)) return false;
    MadeTable *rows = new_rows(gpu, run->launch->stop, keep);
    if (!rows) return false;
    const bool        fits = take_rows_scratch(gpu, keep, keep->in_order ? run->n_segments : 0, &scratch);
    const weft_status status = fits ? fill_in_order(run, keep, rows, &scratch, &err) : WEFT_OK;
    if (status && status != WEFT_QUERY_CANCELED)
        snprintf(keep->refused, sizeof keep->refused, "%.290s", err.message);
    give_scratch(gpu, &scratch);
    keep->bytes = rows->bytes;
    if (fits && !status) made_keep(gpu, rows);
    else made_give_up(gpu, rows);
    timers_read(run);
    keep->kernel_ms = run->launch->out.gpu.kernel_ms - before_ms;
    run->launch->out.gpu.kernel_ms = before_ms;
    return fits && !status;
}

bool gpu_keep_rows(Device *device, Launch *launch, RowKeep *keep)
{
    Gpu            *gpu = (Gpu *)device;
    GpuRun         *run = launch->memory;
    const GpuContext before = gpu_visit(gpu);
    run->launch = launch;
    run->is_timed = launch->is_explained;
    const bool are_kept = keep_rows(gpu, run, keep);
    gpu_leave(gpu, before);
    return are_kept;
}

// The kernel that nearly all want.
void tables_warm(Gpu *gpu)
{
    Error  ignored = { 0 };
    Fixed  fixed;
    Arena *arena = arena_new(NULL, "warm");
    describe_kernel(gpu, arena, KERNEL_FILL, 1, &fixed);
    fixed_code(gpu, &fixed, &ignored);
    arena_free(arena);
}
