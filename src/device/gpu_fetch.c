// gpu_fetch.c - what a launch left, on its way to the host.
//
//     short    straight: the driver has stages of its own
//     long     piece by piece through pinned stages, by several threads: one piece comes over the link while others
//              are put where they belong
//     rows     the same; blocks write rows in any order, in segments that say where they are from; here they get the
//              order of the source
//
// The launch is done by then, so what it left needs no stream of kernels to come by: there it would wait for those of
// others, with a stage that others want.
//
// One thread that puts pieces where they belong, in memory that has just been taken from the system, does not keep up
// with the link: 60 million rows took 584 ms with one and 342 with several (bench/results/2026-11-16-rows-out-h200.md).

#include "device/gpu_int.h"
#include "kernel/kernel.h"

#include <stdlib.h>

#define LONG_BYTES  ((u64)256 << 10)
#define SHORT_PIECE ((u64)64 << 20)    // a cancel is seen in between

static weft_status check_stop(const GpuRun *run, Error *err)
{
    if (!atomic_load_explicit(run->launch->stop, memory_order_relaxed)) return WEFT_OK;
    return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

static weft_status copy_short(GpuRun *run, void *to, u64 at, u64 bytes, Error *err)
{
    Gpu *gpu = run->gpu;
    for (u64 done = 0; done < bytes; done += SHORT_PIECE) {
        TRY(check_stop(run, err));
        GPU_TRY(gpu, MemcpyDtoHAsync,
                ((u8 *)to + done, in_block(run, at + done), MIN_OF(SHORT_PIECE, bytes - done), gpu->fetch_stream), err);
    }
    GPU_TRY(gpu, StreamSynchronize, (gpu->fetch_stream), err);
    return WEFT_OK;
}

weft_status fetch_short(GpuRun *run, void *to, u64 at, u64 bytes, Error *err)
{
    const weft_status status = copy_short(run, to, at, bytes, err);
    if (status) gpu_wait_for(run->gpu, run->gpu->fetch_stream);
    return status;
}

// ---- pieces ---------------------------------------------------------------------------------------------------------

typedef struct Fetch {
    GpuRun              *run;
    u8                  *to;
    u64                  at, size, n_cells;        // in the block
    const KernelSegment *segments;                 // where cells belong, in the order in which they lie there; NULL: as
                                                   // they lie
    u64                  n_segments;
    u64                  n_pieces, piece_cells;
    _Atomic u64          next;
    _Atomic bool         is_failed;
    pthread_mutex_t      lock;                     // for what follows
    weft_status          status;
    Error                error;
} Fetch;

// The segment that cell FIRST is of.
static u64 find_segment(const Fetch *fetch, u64 first)
{
    u64 low = 0, high = fetch->n_segments;
    while (low < high) {
        const u64            middle = low + (high - low) / 2;
        const KernelSegment *segment = &fetch->segments[middle];
        if (segment->first + segment->n_rows > first) high = middle;
        else low = middle + 1;
    }
    return low;
}

static void put_segments(const Fetch *fetch, u64 first, u64 end, const u8 *piece)
{
    for (u64 s = find_segment(fetch, first); s < fetch->n_segments && fetch->segments[s].first < end; s++) {
        const KernelSegment *segment = &fetch->segments[s];
        const u64 from = MAX_OF(segment->first, first), until = MIN_OF(segment->first + segment->n_rows, end);
        memcpy(fetch->to + (segment->place + (from - segment->first)) * fetch->size,
               piece + (from - first) * fetch->size, (until - from) * fetch->size);
    }
}

// A stream with one copy to wait for is quicker waited for than an event, which puts its thread to sleep.
static weft_status bring(const Fetch *fetch, Stage *stage, u64 first, u64 end, Error *err)
{
    GpuRun *run = fetch->run;
    Gpu    *gpu = run->gpu;
    ASSERT(mutex_is_held(&stage->lock));
    ASSERT(first < end && (end - first) * fetch->size <= STAGE_BYTES);
    if (stage->is_used) GPU_TRY(gpu, EventSynchronize, (stage->done), err);
    GPU_TRY(gpu, MemcpyDtoHAsync,
            (stage->memory, in_block(run, fetch->at + first * fetch->size), (end - first) * fetch->size,
             gpu->fetch_stream),
            err);
    if (fetch->n_pieces == 1) {
        GPU_TRY(gpu, StreamSynchronize, (gpu->fetch_stream), err);
        return WEFT_OK;
    }
    stage->is_used = true;
    GPU_TRY(gpu, EventRecord, (stage->done, gpu->fetch_stream), err);
    GPU_TRY(gpu, EventSynchronize, (stage->done), err);
    return WEFT_OK;
}

static weft_status fetch_piece(const Fetch *fetch, u64 number, Error *err)
{
    const u64 first = number * fetch->piece_cells, end = MIN_OF(first + fetch->piece_cells, fetch->n_cells);
    TRY(check_stop(fetch->run, err));
    Stage *stage = stage_next(fetch->run->gpu);
    pthread_mutex_lock(&stage->lock);
    const weft_status status = bring(fetch, stage, first, end, err);
    // A copy into the stage may be under way, and others want it.
    if (status) gpu_wait_for(fetch->run->gpu, fetch->run->gpu->fetch_stream);
    else if (fetch->segments) put_segments(fetch, first, end, stage->memory);
    else memcpy(fetch->to + first * fetch->size, stage->memory, (end - first) * fetch->size);
    pthread_mutex_unlock(&stage->lock);
    return status;
}

static void fetch_failed(Fetch *fetch, weft_status status, const Error *err)
{
    pthread_mutex_lock(&fetch->lock);
    if (!fetch->status) fetch->status = status, fetch->error = *err;
    pthread_mutex_unlock(&fetch->lock);
    fetch->is_failed = true;
}

static void fetch_pieces(void *context, int worker)
{
    Fetch *fetch = context;
    Error  err = { 0 };
    (void)worker;
    weft_status status = gpu_enter(fetch->run->gpu, &err);
    for (u64 p; !status && !fetch->is_failed && (p = atomic_fetch_add(&fetch->next, 1)) < fetch->n_pieces;)
        status = fetch_piece(fetch, p, &err);
    if (status) fetch_failed(fetch, status, &err);
}

static weft_status fetch_all(Fetch *fetch, Error *err)
{
    Pool *pool = fetch->run->gpu->fetchers;
    fetch->piece_cells = STAGE_BYTES / fetch->size;
    fetch->n_pieces = (fetch->n_cells + fetch->piece_cells - 1) / fetch->piece_cells;
    pthread_mutex_init(&fetch->lock, NULL);
    if (fetch->n_pieces > 1) pool_run(pool, (int)MIN_OF((u64)pool_size(pool), fetch->n_pieces), fetch_pieces, fetch);
    else fetch_pieces(fetch, 0);
    pthread_mutex_destroy(&fetch->lock);
    if (fetch->status) *err = fetch->error;
    return fetch->status;
}

weft_status fetch_long(GpuRun *run, void *to, u64 at, u64 bytes, Error *err)
{
    if (bytes < LONG_BYTES) return fetch_short(run, to, at, bytes, err);
    return fetch_all(&(Fetch){ .run = run, .to = to, .at = at, .size = 1, .n_cells = bytes }, err);
}

// ---- rows in the order of the source: segments come in the order in which rows were put out, and say where they are f

u64 segment_rows(const GpuRun *run)
{
    return (run->launch->woven->has_matches ? 32 : (u64)run->shape.threads) * (u64)run->shape.items;
}

static int by_place(const void *a, const void *b)
{
    const KernelSegment *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_first(const void *a, const void *b)
{
    const KernelSegment *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

#define FEW_SEGMENTS 256               // of so many tiles one: counting looks at all tiles, 1 ns each, sorting at each
                                       // segment a dozen times and more

// Few segments are sorted.
static void order_by_sorting(KernelSegment *segments, u64 n_segments)
{
    u64 row = 0;
    qsort(segments, n_segments, sizeof *segments, by_place);
    for (u64 s = 0; s < n_segments; s++) segments[s].place = row, row += segments[s].n_rows;
    qsort(segments, n_segments, sizeof *segments, by_first);
}

// Many are counted: a tile has a number, and what was put out of it several times came in order.
static void order_by_counting(const GpuRun *run, KernelSegment *segments, u64 n_segments, u64 n_tiles)
{
    const Source *source = run->launch->source;
    const u64     tile_rows = segment_rows(run);
    u64 *starts = calloc(n_tiles + 1, sizeof *starts), *chunks = calloc((size_t)source->n_chunks + 1, sizeof *chunks),
        row = 0;
    for (int c = 0; c < source->n_chunks; c++) chunks[c + 1] = chunks[c] + source->chunks[c]->n_rows / tile_rows + 1;
    for (u64 s = 0; s < n_segments; s++) {
        const u64 chunk = MIN_OF(segments[s].place >> 32, (u64)source->n_chunks - 1);
        segments[s].place = MIN_OF(chunks[chunk] + (u32)segments[s].place / tile_rows, n_tiles - 1);
        starts[segments[s].place] += segments[s].n_rows;
    }
    for (u64 t = 0; t < n_tiles; t++) {
        const u64 n_rows = starts[t];
        starts[t] = row, row += n_rows;
    }
    for (u64 s = 0; s < n_segments; s++) {
        u64 *start = &starts[segments[s].place];
        segments[s].place = *start;
        *start += segments[s].n_rows;
    }
    free(chunks);
    free(starts);
}

// From where its rows are from to where they belong: places become row numbers of the result.
static void order_segments(const GpuRun *run, KernelSegment *segments, u64 n_segments)
{
    const Source *source = run->launch->source;
    const u64     tile_rows = segment_rows(run);
    u64           n_tiles = 0;
    for (int c = 0; c < source->n_chunks; c++) n_tiles += source->chunks[c]->n_rows / tile_rows + 1;
    if (n_segments < n_tiles / FEW_SEGMENTS) order_by_sorting(segments, n_segments);
    else order_by_counting(run, segments, n_segments, n_tiles);
}

weft_status fetch_segments(GpuRun *run, KernelSegment *segments, Error *err)
{
    TRY(fetch_long(run, segments, run->segments_at, run->n_segments * sizeof *segments, err));
    order_segments(run, segments, run->n_segments);
    return WEFT_OK;
}

static weft_status fetch_columns(GpuRun *run, KernelSegment *segments, Error *err)
{
    const Woven *woven = run->launch->woven;
    if (!woven->n_state) return WEFT_OK;           // only their number is wanted
    TRY(fetch_segments(run, segments, err));
    for (int s = 0; s < woven->n_state; s++)
        TRY(fetch_all(&(Fetch){ .run = run,
                                .to = run->state[s],
                                .at = run->slot_at[s],
                                .size = woven->state[s].bytes,
                                .n_cells = run->n_used,
                                .segments = segments,
                                .n_segments = run->n_segments },
                      err));
    return WEFT_OK;
}

weft_status fetch_in_order(GpuRun *run, Error *err)
{
    Budget     *budget = run->launch->budget;
    void       *segments = NULL;
    const u64   bytes = run->n_segments * sizeof(KernelSegment) + 8;
    weft_status status = mem_alloc(budget, bytes, &segments, err);
    if (!status) status = fetch_columns(run, segments, err);
    mem_free(budget, segments, bytes);
    return status;
}
