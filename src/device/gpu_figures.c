// gpu_figures.c - the launches on a GPU, and what it has scanned: for weft_riders, weft_scans and EXPLAIN (NETWORK).
//
// A launch is listed from when it comes until it has its results, since the dispatcher may have issued all of it long
// before the device is done.  Tables are counted once for a run of chunks, and once for each rider: the difference is
// what sharing saved.

#include "device/gpu_schedule.h"

#include <stdio.h>
#include <stdlib.h>

// ---- counting --------------------------------------------------------------------------------------------------

// Under slots_lock.
static ScanFigures *figures_of(Gpu *gpu, const Table *table)
{
    ASSERT(mutex_is_held(&gpu->slots_lock));
    for (int t = 0; t < gpu->n_tables; t++)
        if (gpu->tables[t].figures.id == table->id) return &gpu->tables[t].figures;
    gpu->tables = realloc(gpu->tables, (size_t)(gpu->n_tables + 1) * sizeof *gpu->tables);
    GpuTable *made = &gpu->tables[gpu->n_tables++];
    *made = (GpuTable){ .figures = { .id = table->id } };
    snprintf(made->name, sizeof made->name, "%s", table->name);
    return &made->figures;
}

void figures_begin(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    pthread_mutex_lock(&gpu->slots_lock);
    run->next_listed = gpu->listed, run->before_listed = NULL;
    if (gpu->listed) gpu->listed->before_listed = run;
    gpu->listed = run;
    if (run->launch->scanned) figures_of(gpu, run->launch->scanned)->n_rides++;
    pthread_mutex_unlock(&gpu->slots_lock);
}

void figures_end(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    pthread_mutex_lock(&gpu->slots_lock);
    if (run->before_listed) run->before_listed->next_listed = run->next_listed;
    else gpu->listed = run->next_listed;
    if (run->next_listed) run->next_listed->before_listed = run->before_listed;
    pthread_mutex_unlock(&gpu->slots_lock);
}

void figures_read(const Wave *wave)
{
    ASSERT(mutex_is_held(&wave->gpu->lock) && wave->n_riders > 0);
    const Table *table = wave->riders[0]->launch->scanned;
    if (!table) return;
    u64 n_woven = 0;
    for (int r = 0; r < wave->n_riders; r++) {
        const GpuRun *run = wave->riders[r];
        n_woven = MAX_OF(n_woven, MAX_OF(run->n_sieved_chunks, MAX_OF(run->n_fused_chunks, run->n_cubed_chunks)));
    }
    pthread_mutex_lock(&wave->gpu->slots_lock);
    ScanFigures *figures = figures_of(wave->gpu, table);
    figures->chunks_woven += n_woven;
    for (int k = 0; k < wave->n_chunks; k++) {
        const RunChunk *chunk = &wave->chunks[k];
        figures->chunks_read++, figures->rows_read += chunk->chunk->n_rows;
        for (int c = 0; c < chunk->n_columns; c++)
            figures->bytes_read += column_read_bytes(chunk->chunk, chunk->columns[c].column);
    }
    pthread_mutex_unlock(&wave->gpu->slots_lock);
}

// 1 the first time that it has chunks.
static u64 first_time(bool *was, u64 n_chunks)
{
    const bool is_first = n_chunks && !*was;
    *was |= is_first;
    return is_first;
}

void figures_woven(GpuRun *run)
{
    ASSERT(mutex_is_held(&run->gpu->lock));
    const u64 n_chunks = run->n_fused_chunks + run->n_cubed_chunks + run->n_sieved_chunks;
    run->is_woven = n_chunks > 0;
    if (run->is_woven && run->launch->scanned) {
        pthread_mutex_lock(&run->gpu->slots_lock);
        ScanFigures *figures = figures_of(run->gpu, run->launch->scanned);
        figures->chunks_woven_ridden += n_chunks;
        figures->rides_woven += first_time(&run->was_woven, n_chunks);
        figures->rides_fused += first_time(&run->was_fused, run->n_fused_chunks);
        figures->rides_cubed += first_time(&run->was_cubed, run->n_cubed_chunks);
        figures->rides_sieved += first_time(&run->was_sieved, run->n_sieved_chunks);
        figures->rides_join_cubed += first_time(&run->was_join_cubed, run->is_join_cubed ? run->n_cubed_chunks : 0);
        pthread_mutex_unlock(&run->gpu->slots_lock);
    }
    run->n_fused_chunks = run->n_cubed_chunks = run->n_sieved_chunks = 0;
    run->is_join_cubed = false;
}

void figures_ridden(GpuRun *run, u64 n_chunks, u64 n_rows, u64 bytes)
{
    if (!run->launch->scanned) return;
    pthread_mutex_lock(&run->gpu->slots_lock);
    ScanFigures *figures = figures_of(run->gpu, run->launch->scanned);
    figures->chunks_ridden += n_chunks, figures->rows_ridden += n_rows, figures->bytes_ridden += bytes;
    pthread_mutex_unlock(&run->gpu->slots_lock);
}

// ---- listing --------------------------------------------------------------------------------------------------------

static int count_fellows(const Gpu *gpu, const GpuRun *run)
{
    int n = 0;
    for (const GpuRun *other = gpu->listed; other; other = other->next_listed)
        n += other != run && run->launch->table && other->launch->table == run->launch->table;
    return n;
}

// What is written while a run is put together is left alone.
static RiderFigures rider_figures(const Gpu *gpu, const GpuRun *run, Arena *arena)
{
    const Launch *launch = run->launch;
    const bool    is_woven = run->is_woven && !run->is_in_run;
    return (RiderFigures){ .query = launch->query,
                            .table = arena_strdup(arena, launch->scanned ? launch->scanned->name : "stored rows"),
                            .label = arena_strdup(arena, launch->label ? launch->label : ""),
                            .kernel = arena_strdup(arena, launch->woven->name),
                            .n_chunks = run->n_chunks_wanted,
                            .n_chunks_done =
                                run->is_attached || run->is_issued ? run->n_chunks_wanted - run->n_wanted : 0,
                            .n_fellow = count_fellows(gpu, run),
                            .woven_as = is_woven ? launch->out.woven_as : NULL,
                            .n_woven = is_woven ? launch->out.n_woven : 0,
                            .gain = is_woven ? launch->out.gain : 1,
                            .body = is_woven ? launch->out.body : (BodyFigures){ 0 } };
}

void gpu_list(Device *device, Arena *arena, DeviceFigures *figures)
{
    Gpu *gpu = (Gpu *)device;
    *figures = (DeviceFigures){ .n_kernels = gpu->n_kernels, .n_generic = gpu->n_generic,
                                .n_kind_columns = gpu->n_kind_columns };
    pthread_mutex_lock(&gpu->lock);
    figures->bytes = frames_total(gpu->frames), figures->bytes_held = frames_held(gpu->frames),
    figures->bytes_copied = frames_copied(gpu->frames);
    pthread_mutex_lock(&gpu->slots_lock);
    for (const GpuRun *run = gpu->listed; run; run = run->next_listed)
        *LIST_PUSH(arena, figures->riders, figures->n_riders) = rider_figures(gpu, run, arena);
    for (int t = 0; t < gpu->n_tables; t++) {
        ScanFigures *scan = LIST_PUSH(arena, figures->scans, figures->n_scans);
        *scan = gpu->tables[t].figures;
        scan->table = arena_strdup(arena, gpu->tables[t].name);
    }
    pthread_mutex_unlock(&gpu->slots_lock);
    pthread_mutex_unlock(&gpu->lock);
    schedule_count(gpu, figures);
}

void gpu_forget(Device *device, bool (*which)(const void *context, u64 table), const void *context)
{
    Gpu *gpu = (Gpu *)device;
    int  n = 0;
    pthread_mutex_lock(&gpu->slots_lock);
    for (int t = 0; t < gpu->n_tables; t++)
        if (!which(context, gpu->tables[t].figures.id)) gpu->tables[n++] = gpu->tables[t];
    gpu->n_tables = n;
    pthread_mutex_unlock(&gpu->slots_lock);
}

void peak_known(const Gpu *gpu, GpuFigures *figures)
{
    const int measured = gpu->measured_gbs;
    figures->peak_gbs = measured ? measured : gpu->peak_gbs;
    figures->is_peak_measured = measured > 0;
}
