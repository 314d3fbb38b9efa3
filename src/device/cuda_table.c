// cuda_table.c - a join table made on the GPU, of rows that a launch left there.
//
//     stream of the launch    its kernel, which notes ranges on the way | (head and marks to the host) ... zeros | fill | (count to the host)
//
// The host is asked twice: for the shape of the table when the ranges are known, and whether keys were unique.  The kernel that fills the
// table is the same for all (weave/tables.c).
//
// The parts of a table are copies in the pool that nobody has a source of, so they are held until the table is dropped, and count as
// admitted memory.  A launch that probes the table finds them by its id, like those that came over the link.

#include "device/cuda_int.h"

#include <stdio.h>
#include <stdlib.h>

#define ALIGNED   256
#define SPAN_MOST ((u64)1 << 30)

typedef struct FillArgs {              // what a part's KernelArgs point to, in device memory
    KernelColumn columns[FILL_KEYS_FROM + FILL_KEYS];
    i64          params[FILL_KEY + 2 * FILL_KEYS];
    void        *state[FILL_STATE];
    const void  *tables[1];
    i64          n_places;
} FillArgs;

struct MadeTable {
    u64               id, bytes;
    int               n_parts;
    Copy            **parts;
    struct MadeTable *next;
};

static u64 aligned(u64 bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static void *pointer(CuAddress address) { return (void *)(uintptr_t)address; }

// ---- notes: part of the launch's block ----------------------------------------------------------------------------------------------

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
        notes[f] = (KernelNote){ .low = INT64_MAX, .high = INT64_MIN, .marks = pointer(in_block(run, marks_at)), .first = (u64)facts->marks_low, .n_marks = facts->n_marks };
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

// ---- room ---------------------------------------------------------------------------------------------------------------------------

static void free_table(Gpu *gpu, MadeTable *table)                     // under the lock
{
    for (int p = 0; p < table->n_parts; p++) copy_forget(gpu->frames, table->parts[p]);
    gpu->bytes_admitted -= table->bytes;
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
        Copy *copy = copy_add(gpu->frames, table_key(fill->table, fill->parts[p].number), fill->parts[p].bytes + TABLE_PAST, false);
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

// What only the filling needs: [KernelArgs by part | FillArgs by part | codes of values, for parts that have some | a bit per place]
typedef struct Scratch { Copy *copy; u64 parts_at, maps_at, bits_at, bytes; } Scratch;

static u64 bits_bytes(const TableFill *fill) { return aligned(fill->span / 8 + 8); }

static bool take_scratch(Gpu *gpu, const TableFill *fill, Scratch *scratch)
{
    const u64 n_parts = (u64)fill->n_parts;
    scratch->parts_at = aligned(n_parts * sizeof(KernelArgs));
    scratch->maps_at = scratch->parts_at + aligned(n_parts * sizeof(FillArgs));
    scratch->bits_at = scratch->maps_at;
    for (int p = 0; p < fill->n_parts; p++) scratch->bits_at += aligned(fill->parts[p].n_codes * sizeof(u32));
    scratch->bytes = scratch->bits_at + (fill->parts[0].width ? bits_bytes(fill) : 0);
    pthread_mutex_lock(&gpu->lock);
    scratch->copy = copy_add(gpu->frames, (CopyKey){ 0 }, scratch->bytes, false);
    pthread_mutex_unlock(&gpu->lock);
    return scratch->copy != NULL;
}

static CuAddress in_scratch(const Gpu *gpu, const Scratch *scratch, u64 at) { return gpu_address(gpu, scratch->copy->at + at); }

static void give_scratch(Gpu *gpu, Scratch *scratch)
{
    if (!scratch->copy) return;
    pthread_mutex_lock(&gpu->lock);
    copy_forget(gpu->frames, scratch->copy);
    pthread_mutex_unlock(&gpu->lock);
}

// ---- what the kernel is handed ---------------------------------------------------------------------------------------------------------

static KernelColumn slot_column(const GpuRun *run, int slot, u32 width) { return (KernelColumn){ .data = pointer(in_block(run, run->slot_at[slot])), .width = width }; }

// A column that is not looked at is loaded all the same: it must be there.
static void write_columns(const GpuRun *run, const TableFill *fill, const FillPart *part, FillArgs *args)
{
    const int value = part->value >= 0 ? part->value : fill->keys[0].value;
    args->columns[FILL_VALUE] = slot_column(run, value, 8);
    args->columns[FILL_NULL] = slot_column(run, part->null >= 0 ? part->null : value, 1);
    for (int k = 0; k < fill->n_keys; k++) {
        args->columns[FILL_KEYS_FROM + k] = slot_column(run, fill->keys[k].value, 8);
        args->params[FILL_KEY + 2 * k] = fill->keys[k].low, args->params[FILL_KEY + 2 * k + 1] = (i64)fill->keys[k].stride;
    }
}

static void write_params(const FillPart *part, bool is_counted, i64 *params)
{
    params[FILL_WIDTH] = part->width, params[FILL_BASE] = part->base, params[FILL_NULL_CODE] = (i64)part->null_code, params[FILL_PLUS] = (i64)part->plus;
    params[FILL_HAS_NULLS] = part->null >= 0, params[FILL_HAS_CODES] = part->codes != NULL, params[FILL_IS_SET] = part->is_set, params[FILL_IS_COUNTED] = is_counted;
}

static void write_part(const GpuRun *run, const TableFill *fill, int p, const MadeTable *table, const Scratch *scratch, u64 map_at, KernelArgs *args, FillArgs *own)
{
    const Gpu      *gpu = run->gpu;
    const CuAddress at = in_scratch(gpu, scratch, scratch->parts_at + (u64)p * sizeof *own), places = gpu_address(gpu, table->parts[p]->at);
    write_columns(run, fill, &fill->parts[p], own);
    write_params(&fill->parts[p], p == 0, own->params);
    own->state[FILL_PLACES] = pointer(places);
    own->state[FILL_BITS] = pointer(fill->parts[p].width ? in_scratch(gpu, scratch, scratch->bits_at) : places);
    own->state[FILL_COUNT] = pointer(at + offsetof(FillArgs, n_places));
    own->tables[0] = pointer(in_scratch(gpu, scratch, map_at));
    *args = (KernelArgs){ .row_end = (u32)run->n_used, .columns = pointer(at + offsetof(FillArgs, columns)), .params = pointer(at + offsetof(FillArgs, params)),
                          .state = pointer(at + offsetof(FillArgs, state)), .tables = pointer(at + offsetof(FillArgs, tables)), .common = pointer(in_block(run, 0)) };
}

// All in one copy.  The stream is idle: the rows are there, and counted.
static weft_status send_args(GpuRun *run, const TableFill *fill, const MadeTable *table, const Scratch *scratch, Error *err)
{
    Gpu       *gpu = run->gpu;
    const bool is_small = run->slip && scratch->bits_at <= SLIP_BYTES;
    u8        *area = is_small ? memset(run->slip, 0, scratch->bits_at) : calloc(1, scratch->bits_at);
    u64        map_at = scratch->maps_at;
    for (int p = 0; p < fill->n_parts; p++) {
        const u64 map_bytes = fill->parts[p].n_codes * sizeof(u32);
        write_part(run, fill, p, table, scratch, map_at, (KernelArgs *)(void *)area + p, (FillArgs *)(void *)(area + scratch->parts_at) + p);
        if (map_bytes) memcpy(area + map_at, fill->parts[p].codes, map_bytes);
        map_at += aligned(map_bytes);
    }
    const weft_status status = gpu_check(gpu, gpu->cu->MemcpyHtoDAsync(in_scratch(gpu, scratch, 0), area, scratch->bits_at, run->stream), "cuMemcpyHtoDAsync", err);
    if (!is_small) free(area);
    return status;
}

// ---- filling --------------------------------------------------------------------------------------------------------------------------

static weft_status set_zero(GpuRun *run, const TableFill *fill, const MadeTable *table, const Scratch *scratch, Error *err)
{
    Gpu *gpu = run->gpu;
    for (int p = 0; p < fill->n_parts; p++)
        GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, table->parts[p]->at), 0, fill->parts[p].bytes + TABLE_PAST, run->stream), err);
    if (fill->parts[0].width) GPU_TRY(gpu, MemsetD8Async, (in_scratch(gpu, scratch, scratch->bits_at), 0, bits_bytes(fill), run->stream), err);
    return WEFT_OK;
}

// A kernel that is the same for all, and how it is launched.
typedef struct Fixed { Woven woven; Launch launch; GpuRun run; } Fixed;

static weft_status fill_kernel(Gpu *gpu, Arena *arena, int n_keys, Fixed *fixed, Error *err)
{
    *fixed = (Fixed){ .launch = { .woven = &fixed->woven, .sink = SINK_GROUPS }, .run = { .gpu = gpu, .launch = &fixed->launch } };
    fixed->woven.text = weave_fill_text(arena, n_keys, &fixed->woven.name);
    TRY(gpu_enter(gpu, err));          // another thread may have made the code
    TRY(kernel_get(gpu, &fixed->run, err));
    return kernel_shape(gpu, &fixed->run, err);
}

static weft_status launch_kernel(GpuRun *run, const TableFill *fill, const Fixed *fixed, const Scratch *scratch, Error *err)
{
    Gpu         *gpu = run->gpu;
    CuAddress    at = in_scratch(gpu, scratch, 0);
    void        *parameters[] = { &at };
    const Shape *shape = &fixed->run.shape;
    const u64    tile = (u64)shape->threads * (u64)shape->items, room = 2 * (u64)gpu->n_sms * (u64)shape->blocks_per_sm / (u64)fill->n_parts;
    const u32    blocks = (u32)MAX_OF(1, MIN_OF((run->n_used + tile - 1) / tile, room));
    if (run->is_timed) TRY(launch_add_timer(run, err));
    if (run->is_timed) GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 2], run->stream), err);
    GPU_TRY(gpu, LaunchKernel, (fixed->run.kernel->code.function, blocks, (unsigned)fill->n_parts, 1, (unsigned)shape->threads, 1, 1, shape->launch_shared, run->stream, parameters, NULL), err);
    gpu->n_kernels++;
    if (run->is_timed) GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - 1], run->stream), err);
    return WEFT_OK;
}

static weft_status launch_fill(GpuRun *run, const TableFill *fill, const Scratch *scratch, Error *err)
{
    Arena      *arena = arena_new(NULL, "fill");
    Fixed       fixed;
    weft_status status = fill_kernel(run->gpu, arena, fill->n_keys, &fixed, err);
    if (!status) status = launch_kernel(run, fill, &fixed, scratch, err);
    arena_free(arena);
    return status;
}

static weft_status fill_table(GpuRun *run, TableFill *fill, const MadeTable *table, const Scratch *scratch, Error *err)
{
    Gpu *gpu = run->gpu;
    i64  pageable = 0, *n_places = run->slip ? (i64 *)(void *)run->slip : &pageable;      // behind the args in the stream, which are gone by then
    TRY(set_zero(run, fill, table, scratch, err));
    TRY(send_args(run, fill, table, scratch, err));
    TRY(launch_fill(run, fill, scratch, err));
    GPU_TRY(gpu, MemcpyDtoHAsync, (n_places, in_scratch(gpu, scratch, scratch->parts_at + offsetof(FillArgs, n_places)), sizeof *n_places, run->stream), err);
    GPU_TRY(gpu, StreamSynchronize, (run->stream), err);
    fill->n_places = (u64)*n_places;
    return WEFT_OK;
}

// ---- the table ------------------------------------------------------------------------------------------------------------------------

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
    return fill->span <= SPAN_MOST && fill->n_keys <= FILL_KEYS && run->n_used;
}

static bool make_table(Gpu *gpu, GpuRun *run, TableFill *fill)
{
    const double before_ms = run->launch->gpu.kernel_ms;
    Scratch      scratch = { 0 };
    Error        err = { 0 };          // the host makes the table then
    if (!can_make(run, fill) || gpu_enter(gpu, &err)) return false;
    MadeTable *table = new_table(gpu, fill);
    if (!table) return false;
    const bool        fits = take_scratch(gpu, fill, &scratch);
    const weft_status status = fits ? fill_table(run, fill, table, &scratch, &err) : WEFT_OK;
    if (status) {
        snprintf(fill->refused, sizeof fill->refused, "%.290s", err.message);
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
    weft_status status = gpu_check(gpu, gpu->cu->MemcpyDtoHAsync(to, gpu_address(gpu, copy->at), bytes, gpu->table_stream), "cuMemcpyDtoHAsync", err);
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
    fill_kernel(gpu, arena, 1, &fixed, &ignored);
    arena_free(arena);
}
