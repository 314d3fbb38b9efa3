// gpu_copy.c - the columns of a run on their way to a GPU.
//
//     pinned columns    --> straight, whole, many in a call; the host does not wait
//     all others        --> through pinned stages of 2 MiB, filled by several threads
//
// Runs use two copy streams in turn, so that one copy begins while another ends:
//
//     copy stream 0  columns of run 1, its args | of run 3 | ...
//     copy stream 1  columns of run 2, its args | of run 4 | ...          event "copied" of a run in both
//     gate           args of runs whose columns are in the pool
//
// A column that a run finds in the pool may still be on its way for a run before, in either stream: so kernels wait for
// both.
//
// Kernels read up to 31 values past the last row, and the rest of a word of validity.  What is there does not matter,
// but it must be something: zeros from a stage, and from a pinned column whatever follows it in its pages.

#include "device/gpu_wave.h"

#include <sched.h>
#include <stdlib.h>

#define SPIN_MS         2.0
#define UNANSWERED_MOST 100            // questions in a row: then the device is lost
#define PAST_BYTES 256

_Static_assert(PAST_BYTES <= STAGE_SPARE, "a stage has room for what follows a column");

static u64 rounded(u64 bytes) { return (bytes + 63) / 64 * 64; }

// ---- where things lie -----------------------------------------------------------------------------------------------

// In a stored chunk the validity follows the values: then they are one copy.
static bool is_joined(const Chunk *chunk, int column)
{
    const ColumnChunk *stored = &chunk->columns[column];
    return stored->valid && stored->data &&
           (const u8 *)stored->valid == (const u8 *)stored->data + rounded(column_data_bytes(chunk, column));
}

u64 column_valid_at(const Chunk *chunk, int column)
{
    return rounded(column_data_bytes(chunk, column)) + (is_joined(chunk, column) ? 0 : PAST_BYTES);
}

u64 column_copy_bytes(const Chunk *chunk, int column)
{
    return column_valid_at(chunk, column) + rounded(column_valid_bytes(chunk, column)) + PAST_BYTES;
}

// ---- pieces ---------------------------------------------------------------------------------------------------------

bool column_is_straight(const RunChunk *chunk, int column)
{
    const u64 bytes = column_data_bytes(chunk->chunk, column);
    return pin_covers(chunk->pin, chunk->chunk->columns[column].data, bytes) > bytes / 2;
}

GpuAddress column_in_place(const RunChunk *chunk, int column)
{
    const ColumnChunk *stored = &chunk->chunk->columns[column];
    if (stored->valid && !is_joined(chunk->chunk, column)) return 0;
    return pin_address(chunk->pin, stored->data, column_copy_bytes(chunk->chunk, column));
}

static void add_piece(CopyPieces *pieces, CopyPiece piece) { *PUSH(pieces->pieces, pieces->n, pieces->room) = piece; }

// A stretch of the host's memory: what is pinned straight, as far as an extent reaches, and the rest through stages.
static void add_stretch(Wave *wave, const RunChunk *chunk, int column, const u8 *from, u64 at, u64 bytes)
{
    const Chunk *stored = chunk->from_store ? chunk->chunk : NULL;
    u64          done = 0;
    for (u64 piece; done < bytes; done += piece) {
        const u64 reach = pin_reach(chunk->pin, from + done);
        piece = reach ? MIN_OF(reach, bytes + PAST_BYTES - done) : MIN_OF(STAGE_BYTES, bytes - done);
        add_piece(reach ? &wave->straight : &wave->staged,
                  (CopyPiece){ stored, column, done == 0, from + done, at + done, piece,
                               !reach && done + piece == bytes });
        if (reach && done + piece >= bytes && done + piece < bytes + PAST_BYTES)
            add_piece(&wave->straight,
                      (CopyPiece){ .at = at + done + piece, .bytes = bytes + PAST_BYTES - done - piece });
    }
}

static void add_column(Wave *wave, const RunChunk *chunk, const ColumnCopy *copied)
{
    const Chunk       *stored = chunk->chunk;
    const ColumnChunk *column = &stored->columns[copied->column];
    const u64 data = column_data_bytes(stored, copied->column), valid = column_valid_bytes(stored, copied->column);
    const bool         joined = is_joined(stored, copied->column);
    if (!copied->copy) {               // it is only checked
        add_piece(&wave->straight, (CopyPiece){ .chunk = stored, .column = copied->column, .needs_check = true });
        return;
    }
    add_stretch(wave, chunk, copied->column, column->data, copied->copy->at, joined ? copied->valid_at + valid : data);
    if (valid && !joined)
        add_stretch(wave, chunk, copied->column, (const u8 *)column->valid, copied->copy->at + copied->valid_at, valid);
}

static bool is_there(const ColumnCopy *copied) { return copied->copy && copied->copy->is_filled; }

void wave_list_pieces(Wave *wave)
{
    for (int k = 0; k < wave->n_chunks; k++)
        for (int c = 0; c < wave->chunks[k].n_columns; c++)
            if (!is_there(&wave->chunks[k].columns[c])) add_column(wave, &wave->chunks[k], &wave->chunks[k].columns[c]);
}

// ---- through stages -------------------------------------------------------------------------------------------------

Stage *stage_next(Gpu *gpu)
{
    pthread_mutex_lock(&gpu->stage_lock);
    Stage *stage = &gpu->stages[gpu->next_stage++ % N_STAGES];
    pthread_mutex_unlock(&gpu->stage_lock);
    return stage;
}

// What it brought before has gone.
static weft_status begin_stage(Gpu *gpu, Stage *stage, Error *err)
{
    ASSERT(mutex_is_held(&stage->lock));
    if (stage->is_used) GPU_TRY(gpu, EventSynchronize, (stage->done), err);
    stage->is_used = true;
    return WEFT_OK;
}

static weft_status end_stage(Gpu *gpu, Stage *stage, GpuStream stream, u64 at, u64 bytes, Error *err)
{
    GPU_TRY(gpu, MemcpyHtoDAsync, (gpu_address(gpu, at), stage->memory, bytes, stream), err);
    GPU_TRY(gpu, EventRecord, (stage->done, stream), err);
    return WEFT_OK;
}

static weft_status through_stage(Gpu *gpu, Stage *stage, GpuStream stream, const CopyPiece *piece, Error *err)
{
    ASSERT(piece->bytes <= STAGE_BYTES);
    TRY(begin_stage(gpu, stage, err));
    memcpy(stage->memory, piece->from, piece->bytes);
    memset(stage->memory + piece->bytes, 0, PAST_BYTES);
    return end_stage(gpu, stage, stream, piece->at, piece->bytes + (piece->is_last ? PAST_BYTES : 0), err);
}

// DONE: bytes of the first part that are written already.  Returns how many bytes were written to MEMORY.
static u64 fill_from_parts(u8 *memory, const StagePart **part, const StagePart *end, u64 *done)
{
    u64 used = 0;
    while (*part < end && used < STAGE_BYTES) {
        const u64 n = MIN_OF((*part)->room - *done, STAGE_BYTES - used),
                  n_own = *done < (*part)->bytes ? MIN_OF((*part)->bytes - *done, n) : 0;
        if (n_own) memcpy(memory + used, (const u8 *)(*part)->from + *done, n_own);
        memset(memory + used + n_own, 0, n - n_own);
        used += n, *done += n;
        if (*done == (*part)->room) (*part)++, *done = 0;
    }
    return used;
}

weft_status stage_send_parts(Gpu *gpu, GpuStream stream, u64 at, const StagePart *parts, int n_parts, Error *err)
{
    const StagePart *part = parts, *end = parts + n_parts;
    u64              done = 0;
    while (part < end) {
        Stage *stage = stage_next(gpu);
        u64    used = 0;
        pthread_mutex_lock(&stage->lock);
        weft_status status = begin_stage(gpu, stage, err);
        if (!status) used = fill_from_parts(stage->memory, &part, end, &done);
        if (used) status = end_stage(gpu, stage, stream, at, used, err);
        pthread_mutex_unlock(&stage->lock);
        if (status) return status;
        at += used;
    }
    return WEFT_OK;
}

weft_status stage_send(Gpu *gpu, GpuStream stream, u64 at, const void *from, u64 bytes, Error *err)
{
    return stage_send_parts(gpu, stream, at, &(StagePart){ from, bytes, bytes }, 1, err);
}

static weft_status check_piece(Wave *wave, const CopyPiece *piece, Error *err)
{
    const weft_status status =
        piece->chunk && piece->needs_check ? chunk_verify(piece->chunk, piece->column, err) : WEFT_OK;
    if (!status) return WEFT_OK;
    pthread_mutex_lock(&wave->lock);
    if (!wave->damaged) wave->damaged = piece->chunk, wave->damaged_column = piece->column;
    pthread_mutex_unlock(&wave->lock);
    return status;
}

static weft_status copy_staged(Wave *wave, const CopyPiece *piece, GpuStream stream, Error *err)
{
    Gpu *gpu = wave->gpu;
    TRY(check_piece(wave, piece, err));
    if (piece->chunk) chunk_expect(piece->chunk, piece->column, piece->from, piece->bytes);
    Stage *stage = stage_next(gpu);
    pthread_mutex_lock(&stage->lock);
    const weft_status status = through_stage(gpu, stage, stream, piece, err);
    pthread_mutex_unlock(&stage->lock);
    return status;
}

void wave_failed(Wave *wave, weft_status status, const Error *err)
{
    pthread_mutex_lock(&wave->lock);
    if (!wave->status) wave->status = status, wave->error = *err;
    pthread_mutex_unlock(&wave->lock);
    wave->is_failed = true;
}

static void copy_pieces(void *context, int worker)
{
    Wave *wave = context;
    Gpu  *gpu = wave->gpu;
    Error err = { 0 };
    (void)worker;
    weft_status status = gpu_enter(gpu, &err);
    for (u64 p; !status && !wave->is_failed && (p = atomic_fetch_add(&wave->next_piece, 1)) < wave->staged.n;)
        status = copy_staged(wave, &wave->staged.pieces[p], gpu->copy_streams[p % N_COPY_STREAMS], &err);
    if (status) wave_failed(wave, status, &err);
}

// ---- straight -------------------------------------------------------------------------------------------------------

// Between two copies the link stands still for about 3 us, a sixth of the time of 1 MiB, unless the driver is handed
// them together: columns of a million rows, 1 MiB each, came at 48 GB/s one by one, at 53 in fours, at 54 in sixteens,
// where 55.4 is the most (H200).
enum { BATCH_MOST = 32 };

typedef struct Batch {
    u64 n;
    GpuAddress to[BATCH_MOST], from[BATCH_MOST];
    size_t bytes[BATCH_MOST];
    GpuStream stream;
} Batch;

static weft_status copy_batch(Gpu *gpu, Batch *batch, Error *err)
{
    const u64 n = batch->n;
    batch->n = 0;
    if (n > 1 && gpu->calls->MemcpyBatchAsync) {
        GPU_TRY(gpu, MemcpyBatchAsync, (batch->to, batch->from, batch->bytes, n, batch->stream), err);
        return WEFT_OK;
    }
    for (u64 i = 0; i < n; i++)
        GPU_TRY(gpu, MemcpyHtoDAsync,
                (batch->to[i], (const void *)(uintptr_t)batch->from[i], batch->bytes[i], batch->stream), err);
    return WEFT_OK;
}

static weft_status copy_straight(Wave *wave, const CopyPiece *piece, Batch *batch, Error *err)
{
    Gpu *gpu = wave->gpu;
    TRY(check_piece(wave, piece, err));
    if (!piece->bytes) return WEFT_OK;
    if (!piece->from) {
        GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, piece->at), 0, piece->bytes, batch->stream), err);
        return WEFT_OK;
    }
    ASSERT(batch->n < BATCH_MOST);
    batch->to[batch->n] = gpu_address(gpu, piece->at), batch->from[batch->n] = (GpuAddress)(uintptr_t)piece->from,
    batch->bytes[batch->n] = piece->bytes;
    return ++batch->n == BATCH_MOST ? copy_batch(gpu, batch, err) : WEFT_OK;
}

// Runs that bring columns take turns with the streams, so that the next one is at the link when this one ends.
static GpuStream run_copy_stream(const Wave *wave) { return wave->gpu->copy_streams[wave->slot->copy_stream]; }

static weft_status copy_all_straight(Wave *wave, Error *err)
{
    Gpu  *gpu = wave->gpu;
    Batch batch = { .stream = run_copy_stream(wave) };
    for (u64 p = 0; p < wave->straight.n; p++) TRY(copy_straight(wave, &wave->straight.pieces[p], &batch, err));
    return copy_batch(gpu, &batch, err);
}

void wave_copy(Wave *wave)
{
    Error             err = { 0 };
    const u64         n_staged = wave->staged.n;
    const weft_status status = copy_all_straight(wave, &err);
    if (status) wave_failed(wave, status, &err);
    else if (n_staged > 1)
        pool_run(wave->gpu->copiers, (int)MIN_OF((u64)pool_size(wave->gpu->copiers), n_staged), copy_pieces, wave);
    else if (n_staged) copy_pieces(wave, 0);
}

// ---- the gate -------------------------------------------------------------------------------------------------------

// Args come right behind the columns of their run, in its stream: in another one they would come after the columns of
// all runs that the link has been handed by then.
static GpuStream args_stream(const Wave *wave)
{
    const RunSlot *slot = wave->slot;
    if (slot->waits_for_copies) return run_copy_stream(wave);
    return slot->has_gate ? wave->gpu->gate_stream : wave->riders[0]->stream;
}

static weft_status send_args(Wave *wave, Error *err)
{
    Gpu     *gpu = wave->gpu;
    RunSlot *slot = wave->slot;
    ASSERT(slot->args_sent <= slot->args_used && slot->args_used <= slot->args_bytes);
    if (slot->args_sent < slot->args_used)
        GPU_TRY(gpu, MemcpyHtoDAsync,
                (slot->args_at + slot->args_sent, slot->args + slot->args_sent, slot->args_used - slot->args_sent,
                 args_stream(wave)),
                err);
    slot->args_sent = slot->args_used;
    return WEFT_OK;
}

weft_status wave_gate(Wave *wave, Error *err)
{
    Gpu     *gpu = wave->gpu;
    RunSlot *slot = wave->slot;
    slot->has_gate = slot->waits_for_copies || wave->n_riders > 1;
    TRY(send_args(wave, err));
    if (!slot->has_gate) return WEFT_OK;                   // the only stream that needs them has them before its kernel
    if (!slot->waits_for_copies) GPU_TRY(gpu, EventRecord, (slot->args_copied, gpu->gate_stream), err);
    for (int s = 0; s < N_COPY_STREAMS && slot->waits_for_copies; s++)
        GPU_TRY(gpu, EventRecord, (slot->columns_copied[s], gpu->copy_streams[s]), err);
    return WEFT_OK;
}

// Everybody asks the streams of the copies themselves.  A stream that waited for both and told the rest told it up to a
// millisecond late on an H200, of several runs at once, and the link had nothing to do meanwhile (most likely it is not
// looked at before the engine has done what the others were handed).
static int gate_events(const RunSlot *slot, const GpuEvent **events)
{
    *events = slot->waits_for_copies ? slot->columns_copied : &slot->args_copied;
    return !slot->has_gate ? 0 : slot->waits_for_copies ? N_COPY_STREAMS : 1;
}

weft_status wave_wait(const Wave *wave, GpuStream stream, Error *err)
{
    const GpuEvent *events;
    const int      n = gate_events(wave->slot, &events);
    for (int e = 0; e < n; e++) GPU_TRY(wave->gpu, StreamWaitEvent, (stream, events[e], 0), err);
    return WEFT_OK;
}

// One that cannot be asked has not come: what waits for it may still be at work.
bool event_has_arrived(Gpu *gpu, GpuEvent event)
{
    const GpuResult result = gpu->calls->EventQuery(event);
    Error          why = { 0 };
    if (result == GPU_SUCCESS || result == GPU_NOT_READY) gpu->n_unanswered = 0;
    else if (gpu_check(gpu, result, "EventQuery", &why) && ++gpu->n_unanswered >= UNANSWERED_MOST)
        gpu_lose(gpu, &why);
    return result == GPU_SUCCESS;
}

bool slot_has_arrived(Gpu *gpu, RunSlot *slot)
{
    const GpuEvent *events;
    const int      n = gate_events(slot, &events);
    for (int e = 0; e < n && !slot->has_arrived; e++)
        if (!event_has_arrived(gpu, events[e])) return false;
    slot->has_arrived = true;
    return true;
}

// A long run takes about 300 us over the link, two take turns there, and waking up from sleep takes as long again on
// some machines: the link would run dry.  So at first an event is looked at again and again.  A dispatcher that began
// when the device was lost has no context to ask in.
void event_wait(Gpu *gpu, GpuEvent event)
{
    const double start = time_now_ms();
    Error        why = { 0 };
    bool         has_arrived = false;
    while (!gpu->is_lost && !(has_arrived = event_has_arrived(gpu, event)) && time_now_ms() - start < SPIN_MS)
        sched_yield();
    for (int t = 0; t < CALL_TRIES && !has_arrived && !gpu->is_lost; t++)
        has_arrived = !gpu_check(gpu, gpu->calls->EventSynchronize(event), "EventSynchronize", &why);
    if (!has_arrived && !gpu->is_lost) gpu_lose(gpu, &why);
}

void slot_wait(Gpu *gpu, const RunSlot *slot)
{
    const GpuEvent *events;
    const int      n = gate_events(slot, &events);
    for (int e = 0; e < n; e++) event_wait(gpu, events[e]);
}
