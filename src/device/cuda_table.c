// cuda_table.c - a join table made on the GPU, of rows that a launch left there.
//
//     stream of the launch    its kernel | survey | (head, facts and marks to the host) ... places set to zero | fill | count | (count to the host)
//
// The survey is put behind the kernel without waiting for it: how many rows there are, it reads from what the kernel counted.  The host
// is asked twice: for the shape of the table when the facts are known, and whether keys were unique.  Kernels: weave/tables.c.
//
// The parts of a table are copies in the pool that nobody has a source of, so they are held until the table is dropped, and count as
// admitted memory.  A launch that probes the table finds them by its id, like those that came over the link.

#include "device/cuda_int.h"

#include <stdlib.h>

#define ALIGNED   256
#define SPAN_MOST ((u64)1 << 30)

typedef struct MadePart {              // what a part's KernelArgs point to, in device memory
    KernelColumn columns[MADE_KEY + FILL_KEYS];
    i64          params[FILL_KEY + 2 * FILL_KEYS];
    void        *state[4];
    const void  *tables[1];
    i64          totals[3];            // written by the kernels
} MadePart;

struct MadeTable {
    u64               id, bytes;
    int               n_parts;
    Copy            **parts;
    struct MadeTable *next;
};

// ---- the survey: part of the launch's block -------------------------------------------------------------------------------------------

static u64 aligned(u64 bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static CuAddress in_block(const GpuRun *run, u64 at) { return gpu_address(run->gpu, run->block_at + at); }

static void *pointer(CuAddress address) { return (void *)(uintptr_t)address; }

// One more than there are columns: the count is a part, too.
u64 survey_bytes(const Launch *launch)
{
    if (!launch->n_facts) return 0;
    const u64 n_parts = (u64)launch->n_facts + 1;
    return aligned(n_parts * sizeof(KernelArgs)) + aligned(n_parts * sizeof(MadePart));
}

u64 marks_bytes(const Launch *launch)
{
    u64 bytes = 0;
    for (int f = 0; f < launch->n_facts; f++) bytes += launch->facts[f].n_marks;
    return aligned(bytes);
}

static u64 parts_offset(const GpuRun *run) { return run->survey_at + aligned(((u64)run->launch->n_facts + 1) * sizeof(KernelArgs)); }

static CuAddress part_at(const GpuRun *run, int part, size_t member)
{
    return in_block(run, parts_offset(run) + (u64)part * sizeof(MadePart) + member);
}

// ARGS and PARTS are the host's, as they will be in the block.
static void link_part(const GpuRun *run, int number, u32 n_rows, KernelArgs *args)
{
    args[number] = (KernelArgs){ .row_end = n_rows, .columns = pointer(part_at(run, number, offsetof(MadePart, columns))),
                                 .params = pointer(part_at(run, number, offsetof(MadePart, params))), .state = pointer(part_at(run, number, offsetof(MadePart, state))),
                                 .tables = pointer(part_at(run, number, offsetof(MadePart, tables))), .common = pointer(in_block(run, 0)) };
}

static KernelColumn slot_column(const GpuRun *run, int slot, u32 width) { return (KernelColumn){ .data = pointer(in_block(run, run->slot_at[slot])), .width = width }; }

static void column_of(const GpuRun *run, int value, int null, MadePart *part)
{
    part->columns[MADE_VALUE] = slot_column(run, value, 8);
    part->columns[MADE_NULL] = slot_column(run, null >= 0 ? null : value, 1);  // where there are no NULLs it is not looked at, but loaded
}

void survey_write(const GpuRun *run, u8 *head)
{
    const Launch *launch = run->launch;
    KernelArgs   *args = (KernelArgs *)(void *)(head + run->survey_at);
    MadePart     *parts = (MadePart *)(void *)(head + parts_offset(run));
    u64           marks_at = run->marks_at;
    for (int f = 0; f < launch->n_facts; f++) {
        const RowFacts *facts = &launch->facts[f];
        link_part(run, f, 0, args);
        column_of(run, facts->value, facts->null, &parts[f]);
        parts[f].params[SURVEY_HAS_NULLS] = facts->null >= 0, parts[f].params[SURVEY_FIRST] = facts->marks_low, parts[f].params[SURVEY_MARKS] = (i64)facts->n_marks;
        parts[f].totals[0] = INT64_MAX, parts[f].totals[1] = INT64_MIN;
        for (int t = 0; t < 3; t++) parts[f].state[t] = pointer(part_at(run, f, offsetof(MadePart, totals) + (size_t)t * sizeof(i64)));
        parts[f].state[3] = pointer(in_block(run, marks_at));
        marks_at += facts->n_marks;
    }
}

// ---- launching ------------------------------------------------------------------------------------------------------------------------

// A kernel that is the same for all, and how it is launched.
static weft_status fixed_kernel(Gpu *gpu, const char *name, const char *text, GpuRun *kernel, Launch *launch, Woven *woven, Error *err)
{
    *woven = (Woven){ .name = name, .text = text };
    *launch = (Launch){ .woven = woven, .sink = SINK_GROUPS };
    *kernel = (GpuRun){ .gpu = gpu, .launch = launch };
    TRY(kernel_get(gpu, kernel, err));
    return kernel_shape(gpu, kernel, err);
}

static weft_status launch_fixed(GpuRun *run, const char *name, const char *text, int first_part, int n_parts, u64 n_rows, Error *err)
{
    Gpu      *gpu = run->gpu;
    GpuRun    kernel;
    Launch    launch;
    Woven     woven;
    TRY(fixed_kernel(gpu, name, text, &kernel, &launch, &woven, err));
    CuAddress    at = in_block(run, run->survey_at + (u64)first_part * sizeof(KernelArgs));
    void        *parameters[] = { &at };
    const Shape *shape = &kernel.shape;
    const u64    tile = (u64)shape->threads * (u64)shape->items, room = 2 * (u64)gpu->n_sms * (u64)shape->blocks_per_sm / (u64)n_parts;
    const u32    blocks = (u32)MAX_OF(1, MIN_OF((n_rows + tile - 1) / tile, room));
    GPU_TRY(gpu, LaunchKernel, (kernel.kernel->function, blocks, (unsigned)n_parts, 1, (unsigned)shape->threads, 1, 1, shape->dynamic_shared, run->stream, parameters, NULL), err);
    return WEFT_OK;
}

// A pair of events around work of the launch's stream, for EXPLAIN ANALYZE.
static weft_status timer(GpuRun *run, bool is_begin, Error *err)
{
    Gpu *gpu = run->gpu;
    if (!run->is_timed) return WEFT_OK;
    if (is_begin) TRY(launch_add_timer(run, err));
    GPU_TRY(gpu, EventRecord, (run->timers[run->n_timers - (is_begin ? 2 : 1)], run->stream), err);
    return WEFT_OK;
}

// The kernel cannot have counted more rows than there is room for, so the survey need not wait for the count.
static bool can_follow(const GpuRun *run) { return run->launch->woven->fan_out <= 1 && run->n_room >= run->rows_wanted; }

static weft_status copy_counts(GpuRun *run, Error *err)
{
    Gpu            *gpu = run->gpu;
    const CuAddress n_used = in_block(run, offsetof(KernelCommon, n_used));
    for (int f = 0; f < run->launch->n_facts; f++)
        GPU_TRY(gpu, MemcpyDtoDAsync, (in_block(run, run->survey_at + (u64)f * sizeof(KernelArgs) + offsetof(KernelArgs, row_end)), n_used, sizeof(u32), run->stream), err);
    return WEFT_OK;
}

static weft_status survey_now(GpuRun *run, Error *err)
{
    const char *name, *text = weave_survey_text(&name);
    TRY(copy_counts(run, err));
    TRY(timer(run, true, err));
    TRY(launch_fixed(run, name, text, 0, run->launch->n_facts, run->rows_wanted, err));
    return timer(run, false, err);
}

// Behind the kernel, in its stream, where it may be; else survey_read does it, once rows are counted.
weft_status survey_follow(GpuRun *run, Error *err)
{
    run->is_surveyed = false;
    if (!run->launch->n_facts || !can_follow(run)) return WEFT_OK;
    run->is_surveyed = true;
    return survey_now(run, err);
}

static void read_facts(GpuRun *run)
{
    const MadePart *parts = (const MadePart *)(const void *)(run->back + parts_offset(run));
    const u8       *marks = run->back + run->marks_at;
    for (int f = 0; f < run->launch->n_facts; f++) {
        RowFacts *facts = &run->launch->facts[f];
        facts->low = parts[f].totals[0], facts->high = parts[f].totals[1], facts->has_null = parts[f].totals[2] != 0;
        if (facts->n_marks) memcpy(facts->marks, marks, facts->n_marks);
        marks += facts->n_marks;
    }
}

// The head of the block is at the host.
weft_status survey_read(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    if (!run->is_surveyed) {
        TRY(survey_now(run, err));
        GPU_TRY(gpu, MemcpyDtoHAsync, (run->back, in_block(run, 0), run->copied_bytes, run->stream), err);
        GPU_TRY(gpu, StreamSynchronize, (run->stream), err);
    }
    read_facts(run);
    return WEFT_OK;
}

// ---- the table ------------------------------------------------------------------------------------------------------------------------------

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

// The codes of values, for the parts that have some: copies that only this fill uses.
typedef struct Maps { Copy *copies[64]; int n; } Maps;

static bool take_maps(Gpu *gpu, const TableFill *fill, Maps *maps)
{
    bool fits = true;
    pthread_mutex_lock(&gpu->lock);
    for (int p = 0; p < fill->n_parts && fits; p++) {
        if (!fill->parts[p].codes) continue;
        Copy *copy = maps->n < COUNT_OF(maps->copies) ? copy_add(gpu->frames, (CopyKey){ 0 }, fill->parts[p].n_codes * sizeof(u32), false) : NULL;
        if (copy) maps->copies[maps->n++] = copy;
        else fits = false;
    }
    pthread_mutex_unlock(&gpu->lock);
    return fits;
}

static void give_maps(Gpu *gpu, Maps *maps)
{
    pthread_mutex_lock(&gpu->lock);
    for (int m = 0; m < maps->n; m++) copy_forget(gpu->frames, maps->copies[m]);
    pthread_mutex_unlock(&gpu->lock);
}

static weft_status send_maps(GpuRun *run, const TableFill *fill, const Maps *maps, Error *err)
{
    Gpu *gpu = run->gpu;
    for (int p = 0, m = 0; p < fill->n_parts; p++)
        if (fill->parts[p].codes) GPU_TRY(gpu, MemcpyHtoDAsync, (gpu_address(gpu, maps->copies[m++]->at), fill->parts[p].codes, fill->parts[p].n_codes * sizeof(u32), run->stream), err);
    return WEFT_OK;
}

static void write_fill(const GpuRun *run, const TableFill *fill, const MadeTable *table, const Maps *maps, KernelArgs *args, MadePart *parts)
{
    for (int p = 0, m = 0; p < fill->n_parts; p++) {
        const FillPart *part = &fill->parts[p];
        const int       value = part->is_set ? fill->keys[0].value : part->value;
        i64            *params = parts[p].params;
        link_part(run, p, (u32)run->n_used, args);
        column_of(run, value, part->is_set ? -1 : part->null, &parts[p]);
        params[FILL_WIDTH] = part->width, params[FILL_BASE] = part->base, params[FILL_NULL_CODE] = (i64)part->null_code, params[FILL_PLUS] = (i64)part->plus;
        params[FILL_HAS_NULLS] = part->null >= 0, params[FILL_HAS_CODES] = part->codes != NULL, params[FILL_IS_SET] = part->is_set;
        for (int k = 0; k < fill->n_keys; k++) {
            parts[p].columns[MADE_KEY + k] = slot_column(run, fill->keys[k].value, 8);
            params[FILL_KEY + 2 * k] = fill->keys[k].low, params[FILL_KEY + 2 * k + 1] = (i64)fill->keys[k].stride;
        }
        parts[p].state[0] = pointer(gpu_address(run->gpu, table->parts[p]->at));
        if (part->codes) parts[p].tables[0] = pointer(gpu_address(run->gpu, maps->copies[m++]->at));
    }
}

// Bits are counted a word at a time.  What is behind the last place was set to zero with the rest.
static u32 count_rows(const TableFill *fill) { return (u32)(fill->parts[0].width ? fill->span : (fill->span + 63) / 64); }

static void write_count(const GpuRun *run, const TableFill *fill, const MadeTable *table, int number, KernelArgs *args, MadePart *part)
{
    const bool is_bits = fill->parts[0].width == 0;
    link_part(run, number, count_rows(fill), args);
    part->columns[0] = (KernelColumn){ .data = pointer(gpu_address(run->gpu, table->parts[0]->at)), .width = is_bits ? 8 : fill->parts[0].width };
    part->params[COUNT_IS_BITS] = is_bits;
    part->state[0] = pointer(part_at(run, number, offsetof(MadePart, totals)));
}

static weft_status send_parts(GpuRun *run, const TableFill *fill, const MadeTable *table, const Maps *maps, Error *err)
{
    Gpu              *gpu = run->gpu;
    const u64         bytes = survey_bytes(run->launch);
    u8               *area = calloc(1, bytes);
    KernelArgs       *args = (KernelArgs *)(void *)area;
    MadePart         *parts = (MadePart *)(void *)(area + parts_offset(run) - run->survey_at);
    write_fill(run, fill, table, maps, args, parts);
    write_count(run, fill, table, fill->n_parts, args, &parts[fill->n_parts]);
    const weft_status status = gpu_check(gpu, gpu->cu->MemcpyHtoDAsync(in_block(run, run->survey_at), area, bytes, run->stream), "cuMemcpyHtoDAsync", err);
    free(area);
    return status;
}

static weft_status launch_fill(GpuRun *run, const TableFill *fill, Error *err)
{
    Arena      *arena = arena_new(NULL, "fill");
    const char *name, *text = weave_fill_text(arena, fill->n_keys, &name), *count_name, *count_text = weave_count_text(&count_name);
    weft_status status = timer(run, true, err);
    if (!status) status = launch_fixed(run, name, text, 0, fill->n_parts, run->n_used, err);
    if (!status) status = launch_fixed(run, count_name, count_text, fill->n_parts, 1, count_rows(fill), err);
    if (!status) status = timer(run, false, err);
    arena_free(arena);
    return status;
}

static weft_status fill_table(GpuRun *run, TableFill *fill, const MadeTable *table, const Maps *maps, Error *err)
{
    Gpu *gpu = run->gpu;
    i64  n_places = 0;
    for (int p = 0; p < fill->n_parts; p++)
        GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, table->parts[p]->at), 0, fill->parts[p].bytes + TABLE_PAST, run->stream), err);
    TRY(send_maps(run, fill, maps, err));
    TRY(send_parts(run, fill, table, maps, err));
    TRY(launch_fill(run, fill, err));
    GPU_TRY(gpu, MemcpyDtoHAsync, (&n_places, part_at(run, fill->n_parts, offsetof(MadePart, totals)), sizeof n_places, run->stream), err);
    GPU_TRY(gpu, StreamSynchronize, (run->stream), err);
    fill->n_places = (u64)n_places;
    return WEFT_OK;
}

static void keep_table(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    for (int p = 0; p < table->n_parts; p++) table->parts[p]->is_filled = true;
    table->next = gpu->tables;
    gpu->tables = table;
    pthread_mutex_unlock(&gpu->lock);
}

static void give_up_table(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    free_table(gpu, table);
    pthread_mutex_unlock(&gpu->lock);
}

bool gpu_make_table(Device *device, Launch *launch, TableFill *fill)
{
    Gpu         *gpu = (Gpu *)device;
    GpuRun      *run = launch->memory;
    const double before_ms = launch->gpu.kernel_ms;
    Maps         maps = { 0 };
    Error        own = { 0 };
    run->launch = launch;
    run->is_timed = launch->is_explained;
    if (fill->span > SPAN_MOST || fill->n_keys > FILL_KEYS || fill->n_parts > launch->n_facts || !run->n_used || gpu_enter(gpu, &own)) return false;
    MadeTable *table = new_table(gpu, fill);
    if (!table) return false;
    const bool        fits = take_maps(gpu, fill, &maps);
    const weft_status status = fits ? fill_table(run, fill, table, &maps, &own) : WEFT_OK;
    if (status) run_wait_quietly(run);
    give_maps(gpu, &maps);
    if (fits && !status) keep_table(gpu, table);
    else give_up_table(gpu, table);
    run_read_timers(run);
    fill->kernel_ms = launch->gpu.kernel_ms - before_ms;
    return fits && !status;
}

static MadeTable **find_table(Gpu *gpu, u64 id)                         // under the lock
{
    MadeTable **link = &gpu->tables;
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

weft_status gpu_fetch_table(Device *device, u64 id, int number, void *to, u64 bytes, Error *err)
{
    Gpu *gpu = (Gpu *)device;
    TRY(gpu_enter(gpu, err));
    pthread_mutex_lock(&gpu->lock);
    Copy *copy = copy_find(gpu->frames, table_key(id, number));
    pthread_mutex_unlock(&gpu->lock);
    if (!copy) return fail(err, WEFT_DEVICE_FAILED, -1, "%s has lost a join table", gpu->name);
    CuStream    stream = gpu->streams[id % N_STREAMS];
    weft_status status = gpu_check(gpu, gpu->cu->MemcpyDtoHAsync(to, gpu_address(gpu, copy->at), bytes, stream), "cuMemcpyDtoHAsync", err);
    if (!status) status = gpu_check(gpu, gpu->cu->StreamSynchronize(stream), "cuStreamSynchronize", err);
    pthread_mutex_lock(&gpu->lock);
    copy_release(gpu->frames, copy);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

// Queries warm up the kernels for their tables together with their own: these are the ones that nearly all want.
void tables_warm(Gpu *gpu)
{
    GpuRun      kernel;
    Launch      launch;
    Woven       woven;
    Error       ignored = { 0 };
    Arena      *arena = arena_new(NULL, "warm");
    const char *names[3], *texts[] = { weave_survey_text(&names[0]), weave_fill_text(arena, 1, &names[1]), weave_count_text(&names[2]) };
    for (int t = 0; t < COUNT_OF(texts); t++) fixed_kernel(gpu, arena_strdup(arena, names[t]), texts[t], &kernel, &launch, &woven, &ignored);
    arena_free(arena);
}
