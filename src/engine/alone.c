// alone.c - a pipeline in which a row can meet very many (a cross join) is pushed by threads of its own.
//
// The network cuts slices so short that nobody waits long for a thread.  Where a single row takes seconds that cannot
// be done: a few such
// rows would hold all slots, and every other query with them.  So these pipelines take no slot and share no scan; the
// system divides the
// cores between their threads and the network's.  Little is lost: what they spend is not spent on reading.

#include "engine/network.h"

#include <stdlib.h>

#define SLICE_ROWS TILE

typedef struct AloneSlice { int chunk; u32 first, end; } AloneSlice;

typedef struct Alone {
    Launch     *launch;
    u64         n_slices;
    AloneSlice *slices;
    _Atomic u64 next;
} Alone;

static void cut_chunk(Alone *alone, int number)
{
    Launch      *launch = alone->launch;
    const Chunk *chunk = launch->source->chunks[number];
    launch->out.chunks_read++;
    launch->out.rows_in += chunk->n_rows;
    launch->out.bytes_read += launch_column_bytes(launch, number);
    for (u32 first = 0; first < chunk->n_rows; first += SLICE_ROWS)
        alone->slices[alone->n_slices++] = (AloneSlice){ number, first, MIN_OF(first + SLICE_ROWS, chunk->n_rows) };
}

static void cut_slices(Alone *alone)
{
    Launch *launch = alone->launch;
    u64     n_most = 0;
    for (int c = 0; c < launch->source->n_chunks; c++) n_most += launch->source->chunks[c]->n_rows / SLICE_ROWS + 1;
    alone->slices = calloc(n_most + 1, sizeof *alone->slices);
    for (int c = 0; c < launch->source->n_chunks; c++) {
        if (launch_wants_chunk(launch, c)) cut_chunk(alone, c);
        else launch->out.chunks_skipped++;
    }
}

static void push_slices(void *context, int slot)
{
    Alone      *alone = context;
    Launch     *launch = alone->launch;
    while (!atomic_load_explicit(launch->stop, memory_order_relaxed) &&
           !launch->device->is_enough(launch->device, launch)) {
        const u64 number = atomic_fetch_add(&alone->next, 1);
        if (number >= alone->n_slices) return;
        const AloneSlice *slice = &alone->slices[number];
        launch->device->push(launch->device, launch, slot, slice->chunk, slice->first, slice->end);
        if (launch->rows_done)
            atomic_fetch_add_explicit(launch->rows_done, slice->end - slice->first, memory_order_relaxed);
    }
}

weft_status ride_alone(Launch *launch, Error *err)
{
    Alone alone = { .launch = launch };
    TRY(launch->device->open(launch->device, launch, err));
    cut_slices(&alone);
    const int n_threads =
        (int)MIN_OF((u64)MIN_OF(MAX_OF(launch->max_threads, 1), launch->n_slots), MAX_OF(alone.n_slices, 1));
    Pool     *pool = pool_new(n_threads);
    pool_run(pool, n_threads, push_slices, &alone);
    pool_free(pool);
    free(alone.slices);
    return launch->device->finish(launch->device, launch, err);
}
