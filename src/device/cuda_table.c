// cuda_table.c - a join table made on the GPU, of rows that a launch left there.
//
//     stream of the launch    its kernel, which notes ranges on the way | (head and marks to the host)
//                             ... zeros | link, order | fill | (counts to the host)
//
// The host is asked twice: for the shape of the table when the ranges are known, and whether keys were unique.  Where
// they were not, or are far apart, rows of equal key are chained (link, order) and payloads lie by row.  The kernels
// are the same for all (weave/tables.c).
//
// The parts of a table are copies in the pool without a source elsewhere, so they are held until the table is dropped,
// and count as admitted memory.  A launch that probes the table finds them by its id, like those that came over the
// link.

#include "device/cuda_int.h"

#include <stdio.h>
#include <stdlib.h>

#define ALIGNED   256
#define SPAN_MOST ((u64)1 << 30)

enum { LINK_ARGS = 0, ORDER_ARGS };    // of the parts that are links, whose numbers these are, too

typedef struct FillArgs {              // what a part's KernelArgs point to, in device memory
    KernelColumn columns[FILL_KEYS_FROM + FILL_KEYS];
    i64          params[MAX_OF((int)FILL_KEY + 2 * FILL_KEYS, (int)LINK_KEY + 3 * FILL_KEYS)];
    void        *state[ORDER_STATE];
    const void  *tables[FILL_KEYS + 1];
    i64          totals[2];            // places or keys that have a row; the longest chain
} FillArgs;

struct MadeTable {
    u64               id, bytes;
    int               n_parts;
    Copy            **parts;
    struct MadeTable *next;
};

static u64 aligned(u64 bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static void *pointer(CuAddress address) { return (void *)(uintptr_t)address; }

// ---- notes: part of the launch's block ------------------------------------------------------------------------------

u64 notes_bytes(const Launch *launch) { return aligned((u64)launch->n_facts * sizeof(KernelNote)); }

u64 marks_bytes(const Launch *launch)
{
    u64 bytes = 0;
    for (int f = 0; f < launch->n_facts; f++) bytes += launch->facts[f].n_marks;
    return aligned(bytes);
}

void notes_write(const GpuRun *run, u8 *head)
{
    KernelNote *notes = (KernelNote *)(void *)(head + run->notes_at);
    u64         marks_at = run->marks_at;
    for (int f = 0; f < run->launch->n_facts; f++) {
        const RowFacts *facts = &run->launch->facts[f];
        notes[f] = (KernelNote){ .low = INT64_MAX,
                                 .high = INT64_MIN,
                                 .marks = pointer(in_block(run, marks_at)),
                                 .first = (u64)facts->marks_low,
                                 .n_marks = facts->n_marks };
        marks_at += facts->n_marks;
    }
}

void notes_read(const GpuRun *run)
{
    const KernelNote *notes = (const KernelNote *)(const void *)(run->back + run->notes_at);
    const u8         *marks = run->back + run->marks_at;
    for (int f = 0; f < run->launch->n_facts; f++) {
        RowFacts *facts = &run->launch->facts[f];
        facts->low = notes[f].low, facts->high = notes[f].high, facts->has_null = notes[f].n_nulls != 0;
        if (facts->n_marks) memcpy(facts->marks, marks, facts->n_marks);
        marks += facts->n_marks;
    }
}

// ---- room -----------------------------------------------------------------------------------------------------------

static void free_table(Gpu *gpu, MadeTable *table)                     // under the lock
{
    ASSERT(mutex_is_held(&gpu->lock) && gpu->bytes_admitted >= table->bytes);
    for (int p = 0; p < table->n_parts; p++) copy_forget(gpu->frames, table->parts[p]);
    gpu->bytes_admitted -= table->bytes;
    gpu->freed_ms = time_now_ms();
    pthread_cond_broadcast(&gpu->changed);
    free(table->parts);
    free(table);
}

// NULL: there is no room.
static MadeTable *new_table(Gpu *gpu, const TableFill *fill)
{
    MadeTable *table = calloc(1, sizeof *table);
    *table = (MadeTable){ .id = fill->table, .parts = calloc((size_t)fill->n_parts + 1, sizeof *table->parts) };
    for (int p = 0; p < fill->n_parts; p++) table->bytes += aligned(fill->parts[p].bytes + 1);
    pthread_mutex_lock(&gpu->lock);
    bool fits = gpu->bytes_admitted + table->bytes <= launch_admitted_most(gpu);
    gpu->bytes_admitted += table->bytes;
    for (int p = 0; p < fill->n_parts && fits; p++) {
        Copy *copy = copy_add(gpu->frames, table_key(fill->table, fill->parts[p].number),
                              fill->parts[p].bytes + TABLE_PAST, false);
        if (copy) table->parts[table->n_parts++] = copy;
        else fits = false;
    }
    if (!fits) {
        free_table(gpu, table);
        table = NULL;
    }
    pthread_mutex_unlock(&gpu->lock);
    return table;
}

// What only the filling needs: [KernelArgs by part | FillArgs by part | codes of values, for parts that have some | a
// bit per place, or where each row is from]
typedef struct FillScratch { Copy *copy; u64 parts_at, maps_at, bits_at, bytes; } FillScratch;

static bool has_bits(const TableFill *fill) { return fill->kind == FILL_BY_KEY && fill->parts[0].width; }

static u64 bits_bytes(const TableFill *fill) { return has_bits(fill) ? aligned(fill->span / 8 + 8) : 0; }

static bool take_scratch(Gpu *gpu, const TableFill *fill, u64 n_rows, FillScratch *scratch)
{
    const u64 n_parts = (u64)fill->n_parts;
    scratch->parts_at = aligned(n_parts * sizeof(KernelArgs));
    scratch->maps_at = scratch->parts_at + aligned(n_parts * sizeof(FillArgs));
    scratch->bits_at = scratch->maps_at;
    for (int p = 0; p < fill->n_parts; p++) scratch->bits_at += aligned(fill->parts[p].n_codes * sizeof(u32));
    scratch->bytes = scratch->bits_at + (fill->kind == FILL_BY_KEY ? bits_bytes(fill) : n_rows * sizeof(u64));
    pthread_mutex_lock(&gpu->lock);
    scratch->copy = copy_add(gpu->frames, (CopyKey){ 0 }, scratch->bytes, false);
    pthread_mutex_unlock(&gpu->lock);
    return scratch->copy != NULL;
}

static CuAddress in_scratch(const Gpu *gpu, const FillScratch *scratch, u64 at)
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

static CuAddress own_address(const FillWriter *w, int p)
{
    return in_scratch(w->run->gpu, w->scratch, w->scratch->parts_at + (u64)p * sizeof(FillArgs));
}

static void *from_address(const FillWriter *w)
{
    return pointer(in_scratch(w->run->gpu, w->scratch, w->scratch->bits_at));
}

static void write_args(const FillWriter *w, int p, u64 n_rows)
{
    const CuAddress at = own_address(w, p);
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

// All in one copy.  The stream is idle: the rows are there, and counted.
static weft_status send_args(GpuRun *run, const TableFill *fill, const MadeTable *table, const FillScratch *scratch,
                             Error *err)
{
    Gpu       *gpu = run->gpu;
    const bool is_small = run->pinned && scratch->bits_at <= PINNED_SLOT_BYTES;
    u8        *area = is_small ? memset(run->pinned, 0, scratch->bits_at) : calloc(1, scratch->bits_at);
    u64        map_at = scratch->maps_at;
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
    const weft_status status =
        gpu_check(gpu, gpu->cu->MemcpyHtoDAsync(in_scratch(gpu, scratch, 0), area, scratch->bits_at, run->stream),
                  "cuMemcpyHtoDAsync", err);
    if (!is_small) free(area);
    return status;
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

// A kernel that is the same for all, and how it is launched.
typedef struct Fixed { Woven woven; Source none; Launch launch; GpuRun run; } Fixed;

static void set_text(Fixed *fixed, Gpu *gpu, const char *text, const char *name)
{
    *fixed = (Fixed){ .woven = { .text = text, .name = name },
                      .launch = { .woven = &fixed->woven, .source = &fixed->none, .sink = SINK_GROUPS },
                      .run = { .gpu = gpu, .launch = &fixed->launch } };
}

static weft_status get_code(Gpu *gpu, Fixed *fixed, Error *err)
{
    TRY(gpu_enter(gpu, err));          // another thread makes the code
    TRY(kernel_get(gpu, &fixed->run, err));
    return kernel_shape(gpu, &fixed->run, err);
}

typedef enum FixedKind { KERNEL_FILL, KERNEL_LINK, KERNEL_ORDER } FixedKind;

static void describe_kernel(Gpu *gpu, Arena *arena, FixedKind kind, int n_keys, Fixed *fixed)
{
    const char *name, *text;
    if (kind == KERNEL_FILL) text = weave_fill_text(arena, n_keys, &name);
    else text = kind == KERNEL_LINK ? weave_link_text(arena, n_keys, &name) : weave_order_text(&name);
    set_text(fixed, gpu, text, name);
}

// Parts FIRST and N_PARTS - 1 after it, each over N_ROWS rows.
typedef struct Work { FixedKind kind; int first, n_parts; u64 n_rows; } Work;

static weft_status launch_kernel(GpuRun *run, const Work *work, const Fixed *fixed, const FillScratch *scratch,
                                 Error *err)
{
    Gpu         *gpu = run->gpu;
    CuAddress    at = in_scratch(gpu, scratch, (u64)work->first * sizeof(KernelArgs));
    void        *parameters[] = { &at };
    const Shape *shape = &fixed->run.shape;
    const u64 tile = (u64)shape->threads * (u64)shape->items,
              room = 2 * (u64)gpu->n_sms * (u64)shape->blocks_per_sm / (u64)work->n_parts;
    const u32    blocks = (u32)MAX_OF(1, MIN_OF((work->n_rows + tile - 1) / tile, room));
    if (run->is_timed) TRY(launch_add_timer(run, err));
    if (run->is_timed) GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 2], run->stream), err);
    GPU_TRY(gpu, LaunchKernel,
            (fixed->run.kernel->code.function, blocks, (unsigned)work->n_parts, 1, (unsigned)shape->threads, 1, 1,
             shape->launch_shared, run->stream, parameters, NULL),
            err);
    gpu->n_kernels++;
    if (run->is_timed) GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 1], run->stream), err);
    return WEFT_OK;
}

static weft_status do_work(GpuRun *run, const TableFill *fill, const Work *work, const FillScratch *scratch, Error *err)
{
    Arena *arena = arena_new(NULL, "fill");
    Fixed  fixed;
    describe_kernel(run->gpu, arena, work->kind, fill->n_keys, &fixed);
    fixed.launch.stop = run->launch->stop;
    weft_status status = get_code(run->gpu, &fixed, err);
    if (!status) status = launch_kernel(run, work, &fixed, scratch, err);
    arena_free(arena);
    return status;
}

static weft_status launch_all(GpuRun *run, const TableFill *fill, const FillScratch *scratch, Error *err)
{
    int n_links = 0;
    while (n_links < fill->n_parts && fill->parts[n_links].is_link) n_links++;
    if (n_links) TRY(do_work(run, fill, &(Work){ KERNEL_LINK, LINK_ARGS, 1, run->n_used }, scratch, err));
    if (n_links) TRY(do_work(run, fill, &(Work){ KERNEL_ORDER, ORDER_ARGS, 1, fill->span }, scratch, err));
    if (n_links == fill->n_parts) return WEFT_OK;
    return do_work(run, fill, &(Work){ KERNEL_FILL, n_links, fill->n_parts - n_links, run->n_used }, scratch, err);
}

// Whether the code is compiled.  If not, it is compiled in the background.
static bool has_code(Gpu *gpu, FixedKind kind, int n_keys)
{
    Arena *arena = arena_new(NULL, "fill");
    Fixed  fixed;
    describe_kernel(gpu, arena, kind, n_keys, &fixed);
    const bool is_ready = kernel_wait_ms(gpu, &fixed.launch) <= 0;
    if (!is_ready) ready_begin(gpu);
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

static void keep_table(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    for (int p = 0; p < table->n_parts; p++) table->parts[p]->is_filled = true;
    table->next = gpu->made;
    gpu->made = table;
    pthread_mutex_unlock(&gpu->lock);
}

static void give_up_table(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    free_table(gpu, table);
    pthread_mutex_unlock(&gpu->lock);
}

static bool can_make(const GpuRun *run, const TableFill *fill)
{
    return fill->span <= SPAN_MOST && run->n_used && run->n_used <= SPAN_MOST && fill->n_keys <= FILL_KEYS &&
           (fill->may_compile || has_codes(run->gpu, fill));
}

static bool make_table(Gpu *gpu, GpuRun *run, TableFill *fill)
{
    const double before_ms = run->launch->gpu.kernel_ms;
    FillScratch  scratch = { 0 };
    Error        err = { 0 };          // the host makes the table then
    if (!can_make(run, fill) || gpu_enter(gpu, &err)) return false;
    MadeTable *table = new_table(gpu, fill);
    if (!table) return false;
    bool              fits = take_scratch(gpu, fill, run->n_used, &scratch);
    const weft_status status = fits ? fill_table(run, fill, table, &scratch, &err) : WEFT_OK;
    fits = fits && (status || fill->longest < CHAIN_TOO_LONG);
    if (status) {
        if (status != WEFT_QUERY_CANCELED) snprintf(fill->refused, sizeof fill->refused, "%.290s", err.message);
        run_wait_quietly(run);
    }
    give_scratch(gpu, &scratch);
    if (fits && !status) keep_table(gpu, table);
    else give_up_table(gpu, table);
    run_read_timers(run);
    fill->kernel_ms = run->launch->gpu.kernel_ms - before_ms;
    return fits && !status;
}

bool gpu_make_table(Device *device, Launch *launch, TableFill *fill)
{
    Gpu            *gpu = (Gpu *)device;
    GpuRun         *run = launch->memory;
    const CuContext before = gpu_visit(gpu);
    run->launch = launch;
    run->is_timed = launch->is_explained;
    const bool is_made = make_table(gpu, run, fill);
    gpu_leave(gpu, before);
    return is_made;
}

bool tables_of_others(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    ASSERT(mutex_is_held(&run->gpu->lock));
    for (const MadeTable *made = run->gpu->made; made; made = made->next) {
        int t = 0;
        while (t < woven->n_tables && woven->table_facts[t].owner != made->id) t++;
        if (t == woven->n_tables) return true;
    }
    return false;
}

static MadeTable **find_table(Gpu *gpu, u64 id)                         // under the lock
{
    MadeTable **link = &gpu->made;
    ASSERT(mutex_is_held(&gpu->lock));
    while (*link && (*link)->id != id) link = &(*link)->next;
    return link;
}

void gpu_drop_table(Device *device, u64 id)
{
    Gpu *gpu = (Gpu *)device;
    pthread_mutex_lock(&gpu->lock);
    MadeTable **link = find_table(gpu, id), *table = *link;
    if (table) {
        *link = table->next;
        free_table(gpu, table);
    }
    pthread_mutex_unlock(&gpu->lock);
}

static weft_status fetch_table(Gpu *gpu, u64 id, int number, void *to, u64 bytes, Error *err)
{
    TRY(gpu_enter(gpu, err));
    pthread_mutex_lock(&gpu->lock);
    Copy *copy = copy_find(gpu->frames, table_key(id, number));
    pthread_mutex_unlock(&gpu->lock);
    if (!copy) return fail(err, WEFT_DEVICE_FAILED, -1, "%s has lost a join table", gpu->name);
    weft_status status =
        gpu_check(gpu, gpu->cu->MemcpyDtoHAsync(to, gpu_address(gpu, copy->at), bytes, gpu->table_stream),
                  "cuMemcpyDtoHAsync", err);
    if (!status) status = gpu_check(gpu, gpu->cu->StreamSynchronize(gpu->table_stream), "cuStreamSynchronize", err);
    if (status) gpu_wait_for(gpu, gpu->table_stream);
    pthread_mutex_lock(&gpu->lock);
    copy_release(gpu->frames, copy);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

weft_status gpu_fetch_table(Device *device, u64 id, int number, void *to, u64 bytes, Error *err)
{
    Gpu              *gpu = (Gpu *)device;
    const CuContext   before = gpu_visit(gpu);
    const weft_status status = fetch_table(gpu, id, number, to, bytes, err);
    gpu_leave(gpu, before);
    return status;
}

// The kernel that nearly all want.
void tables_warm(Gpu *gpu)
{
    Error  ignored = { 0 };
    Fixed  fixed;
    Arena *arena = arena_new(NULL, "warm");
    describe_kernel(gpu, arena, KERNEL_FILL, 1, &fixed);
    get_code(gpu, &fixed, &ignored);
    arena_free(arena);
}
