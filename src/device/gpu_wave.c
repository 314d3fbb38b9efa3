// gpu_wave.c - a wave while it is put together: chunks and columns as kernels get them, arguments, launches, streams.

#include "device/gpu_wave.h"

#include <stdlib.h>

static void *device_pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

// ---- chunks and columns ---------------------------------------------------------------------------------------------

int table_column(const GpuRun *run, int c)
{
    return run->launch->source->chunk_column[run->launch->woven->columns[c]];
}

bool wave_are_fellows(const GpuRun *leader, const GpuRun *other)
{
    return other == leader || (leader->launch->table && leader->launch->table == other->launch->table);
}

int chunk_number(const GpuRun *run, const Chunk *chunk, int hint)
{
    const Source *source = run->launch->source;
    if (hint < source->n_chunks && source->chunks[hint] == chunk) return hint;
    for (int c = 0; c < source->n_chunks; c++)
        if (source->chunks[c] == chunk) return c;
    return -1;
}

bool wants_chunk(const GpuRun *run, const Chunk *chunk, int hint)
{
    const int number = chunk_number(run, chunk, hint);
    return number >= 0 && run->wants[number];
}

bool wave_wants(const Wave *wave, const GpuRun *run, int chunk)
{
    return wave->is_uniform || wants_chunk(run, wave->chunks[chunk].chunk, wave->chunks[chunk].number);
}

int wave_n_wanted(const Wave *wave, const GpuRun *run)
{
    int n = 0;
    if (wave->is_uniform) return wave->n_chunks;
    for (int k = 0; k < wave->n_chunks; k++) n += wave_wants(wave, run, k);
    return n;
}

bool wave_completes(const Wave *wave, const GpuRun *run)
{
    return wave_n_wanted(wave, run) == run->n_wanted;
}

const ColumnCopy *chunk_column(const RunChunk *chunk, int column)
{
    for (int c = 0; c < chunk->n_columns; c++)
        if (chunk->columns[c].column == column) return &chunk->columns[c];
    return NULL;
}

KernelColumn wave_column(const Gpu *gpu, const RunChunk *chunk, int number)
{
    const ColumnChunk *stored = &chunk->chunk->columns[number];
    const ColumnCopy  *copied = chunk_column(chunk, number);
    KernelColumn       column = { .base = stored->base, .width = stored->width };
    if (!copied) return column;
    const GpuAddress at = copied->copy ? gpu_address(gpu, copied->copy->at) : copied->in_place;
    column.data = device_pointer(at), column.valid = stored->valid ? device_pointer(at + copied->valid_at) : NULL;
    return column;
}

void wave_columns(const GpuRun *run, const RunChunk *chunk, KernelColumn *columns)
{
    for (int c = 0; c < run->launch->woven->n_columns; c++)
        columns[c] = wave_column(run->gpu, chunk, table_column(run, c));
}

bool wave_may_meet(const GpuRun *run)
{
    const Launch *launch = run->launch;
    return launch->may_weave && launch->table && !run->is_timed && !run->is_counted && launch->sink == SINK_GROUPS;
}

// Kernels of several are made of texts.
bool wave_may_share(const GpuRun *run) { return wave_may_meet(run) && !run->program; }

// ---- copies besides columns -----------------------------------------------------------------------------------------

Copy *wave_hold(Wave *wave, CopyKey key, u64 bytes, bool *is_new)
{
    Gpu *gpu = wave->gpu;
    pthread_mutex_lock(&gpu->lock);
    Copy *copy = key.owner ? copy_find(gpu->frames, key) : NULL;
    *is_new = !copy;
    if (!copy) copy = copy_add(gpu->frames, key, bytes, false);
    pthread_mutex_unlock(&gpu->lock);
    if (copy) *PUSH(wave->held, wave->n_held, wave->held_room) = (HeldCopy){ copy, *is_new };
    return copy;
}

// The run holds it on: what was to be written there may be under way.
void wave_forget(Wave *wave, Copy *copy)
{
    pthread_mutex_lock(&wave->gpu->lock);
    copy->n_holds++;
    copy_forget(wave->gpu->frames, copy);
    pthread_mutex_unlock(&wave->gpu->lock);
    for (int h = 0; h < wave->n_held; h++)
        if (wave->held[h].copy == copy) wave->held[h].is_new = false;
}

// ---- arguments and launches -----------------------------------------------------------------------------------------

void *wave_take_args(Wave *wave, u64 bytes, GpuAddress *at)
{
    RunSlot *slot = wave->slot;
    void    *host = slot->args + slot->args_used;
    *at = slot->args_at + slot->args_used;
    slot->args_used += args_rounded(bytes);
    ASSERT(slot->args_used <= slot->args_bytes);
    memset(host, 0, bytes);
    return host;
}

weft_status wave_launch(Gpu *gpu, const GpuRun *kernel, GpuStream stream, GpuAddress parts, const Grid *grid,
                        Error *err)
{
    void *parameters[] = { &parts };
    ASSERT(grid->x > 0 && grid->y > 0 && grid->threads > 0 && grid->threads % 32 == 0);
    GPU_TRY(gpu, LaunchKernel,
            (kernel->kernel->code.function, grid->x, grid->y, 1, (unsigned)grid->threads, 1, 1,
             kernel->shape.launch_shared, stream, parameters, NULL),
            err);
    gpu->n_kernels++;
    return WEFT_OK;
}

weft_status wave_join(Gpu *gpu, GpuRun *const *riders, int n_riders, Error *err)
{
    const GpuRun *first = riders[0];
    // Once for each stream: what riders have there is there before they get on.
    u32           joined = 1u << first->stream_number;
    for (int i = 0; i < n_riders; i++) {
        const GpuRun *run = riders[i];
        if (joined >> run->at_stream & 1) continue;
        joined |= 1u << run->at_stream;
        GPU_TRY(gpu, EventRecord, (run->done, gpu->streams[run->at_stream]), err);
        GPU_TRY(gpu, StreamWaitEvent, (first->stream, run->done, 0), err);
    }
    for (int i = 0; i < n_riders; i++) riders[i]->at_stream = first->stream_number;
    return WEFT_OK;
}

weft_status wave_fork(Gpu *gpu, GpuRun *const *riders, int n_riders, Error *err)
{
    const GpuRun *first = riders[0];
    u32           notified = 1u << first->stream_number;
    GPU_TRY(gpu, EventRecord, (first->done, first->stream), err);
    for (int i = 1; i < n_riders; i++) {
        if (notified >> riders[i]->stream_number & 1) continue;
        notified |= 1u << riders[i]->stream_number;
        GPU_TRY(gpu, StreamWaitEvent, (riders[i]->stream, first->done, 0), err);
    }
    for (int i = 0; i < n_riders; i++) riders[i]->at_stream = riders[i]->stream_number;
    return WEFT_OK;
}

weft_status run_use_own_stream(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    if (run->at_stream == run->stream_number) return WEFT_OK;
    GPU_TRY(gpu, EventRecord, (run->done, gpu->streams[run->at_stream]), err);
    GPU_TRY(gpu, StreamWaitEvent, (run->stream, run->done, 0), err);
    run->at_stream = run->stream_number;
    return WEFT_OK;
}
