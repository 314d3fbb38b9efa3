// merge.c - many small chunks of a stream become few large ones, while appends go on.
//
//     |-- 1 M --|-- 1 M --|- 100 k -|- 128 k -| ... |- 90 k -|- 128 k -|- 20 k -|
//                          '------- a run: together as many rows as a chunk may have, or nearly --'
//
// A commit of few rows merges them with small chunks before them (append.c), which takes longer the larger these are.
// Rows of a pipe are waited for, so their commits merge up to MERGE_ROWS_LIVE rows only, and the rest is done here: a
// run is merged and written without the table's turn, and takes the place of its chunks by a commit of its own.  Where
// the run is no longer there, what was written goes.  A run ends where retention wants chunks of about one age.

#include "store/store_int.h"

typedef struct ChunkRun { const Chunk *const *chunks; int n_chunks; u64 n_rows; const Chunk *merged; } ChunkRun;

// ---- which ----------------------------------------------------------------------------------------------------------

// Larger ones are left alone, so that a row is written here once or twice, and those of a fast pipe hardly ever.
static bool is_small(const Store *store, const Chunk *chunk)
{
    return chunk->n_rows <= store->chunk_rows / 4;
}

static bool may_be_together(const Table *table, const Chunk *first, const Chunk *last)
{
    const i64 retain_us = table->traits.retain_us;
    return retain_us <= 0 ||
           chunk_stored(last)->file.arrived_last - chunk_stored(first)->file.arrived_first <= retain_us / 8;
}

// The first run that no chunk can be added to.  The chunks at the end of the table wait for others.
static bool find_run(const Store *store, const Table *table, ChunkRun *run)
{
    for (int first = 0, end; first < table->n_chunks; first = MAX_OF(end, first + 1)) {
        u64 n_rows = 0;
        for (end = first; end < table->n_chunks; n_rows += table->chunks[end++]->n_rows)
            if (!is_small(store, table->chunks[end]) || n_rows + table->chunks[end]->n_rows > store->chunk_rows ||
                !may_be_together(table, table->chunks[first], table->chunks[end]))
                break;
        *run = (ChunkRun){ .chunks = table->chunks + first, .n_chunks = end - first, .n_rows = n_rows };
        if (run->n_chunks > 1 && end < table->n_chunks)
            return true;
    }
    return false;
}

// ---- merging --------------------------------------------------------------------------------------------------------

static weft_status merge_in_memory(const Store *store, const Table *table, const ChunkRun *run, StoredChunk **out,
                                   Error *err)
{
    Arena *scratch = arena_new(NULL, "merge");
    ChunkSlice *slices = arena_array(scratch, ChunkSlice, run->n_chunks);
    weft_status status = WEFT_OK;
    for (int i = 0; i < run->n_chunks && !status; i++) {
        slices[i] = (ChunkSlice){ run->chunks[i], 0, run->chunks[i]->n_rows };
        for (int column = 0; column < table->n_stored && !status; column++)
            status = chunk_verify(run->chunks[i], column, err);
    }
    if (!status)
        status = chunk_merge(store->budget, table, slices, run->n_chunks, out, err);
    if (!status) {
        status = chunk_sketch(*out, table->columns, slices, run->n_chunks, 1, err);
        if (status)
            chunk_release(&(*out)->chunk);
    }
    arena_free(scratch);
    return status;
}

static void set_arrival(const ChunkRun *run, StoredChunk *chunk)
{
    chunk->file.arrived_first = chunk_stored(run->chunks[0])->file.arrived_first;
    chunk->file.arrived_last = chunk_stored(run->chunks[run->n_chunks - 1])->file.arrived_last;
}

// Takes over CHUNK; what comes out is held.
static weft_status write_merged(Store *store, const Table *table, StoredChunk *chunk, StoredChunk **out, Error *err)
{
    char path[PATH_BYTES];
    *out = chunk;
    if (!store->path)
        return WEFT_OK;
    const u64 id = store->next_id++;
    store_file_path(store, FILE_CHUNK, id, path);
    const weft_status status = chunk_write(chunk, path, id, table->id, store->budget, table->columns, out, err);
    chunk_release(&chunk->chunk);
    return status;
}

static weft_status make_merged(Store *store, const Table *table, ChunkRun *run, Error *err)
{
    StoredChunk *chunk, *written;
    TRY(merge_in_memory(store, table, run, &chunk, err));
    TRY(write_merged(store, table, chunk, &written, err));
    set_arrival(run, written);
    run->merged = &written->chunk;
    return WEFT_OK;
}

// ---- into the table -------------------------------------------------------------------------------------------------

// Where the run is now, or -1.  Retention may have taken chunks before it, or some of it.
static int find_place(const Table *table, const ChunkRun *run)
{
    for (int i = 0; i + run->n_chunks <= table->n_chunks; i++)
        if (memcmp(table->chunks + i, run->chunks, (size_t)run->n_chunks * sizeof *run->chunks) == 0)
            return i;
    return -1;
}

static weft_status put_run(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const ChunkRun *run = context;
    const Table *table = &held->table;
    const int place = find_place(table, run), n_chunks = table->n_chunks - run->n_chunks + 1;
    if (place < 0)
        return fail(err, WEFT_WRONG_OBJECT, -1, "the chunks that were merged are gone");
    Arena *scratch = arena_new(NULL, "merge");
    const Chunk **chunks = arena_array(scratch, const Chunk *, n_chunks);
    TableMeta *meta = meta_copy(entry->meta, store->path ? n_chunks : 0);
    for (int i = 0; i < n_chunks; i++) {
        chunks[i] = i < place ? table->chunks[i] : i == place ? run->merged : table->chunks[i + run->n_chunks - 1];
        if (store->path)
            meta->chunks[i] = chunk_stored(chunks[i])->file;
    }
    const weft_status status = store_put_chunks(store, entry, held, meta, chunks, n_chunks, err);
    arena_free(scratch);
    for (int i = 0; i < run->n_chunks && !status; i++)
        store_remove_file(store, FILE_CHUNK, chunk_stored(run->chunks[i])->file.file_id);
    return status;
}

// After a commit that failed the manifest on disk may name it: then it stays.
static void remove_merged(Store *store, const Chunk *merged)
{
    char path[PATH_BYTES];
    pthread_mutex_lock(&store->commit_lock);
    const bool is_in_doubt = store->is_in_doubt;
    pthread_mutex_unlock(&store->commit_lock);
    if (is_in_doubt || !store->path)
        return;
    store_remove_file(store, FILE_CHUNK, chunk_stored(merged)->file.file_id);
    (void)file_remove(store_new_chunk_path(store, chunk_stored(merged)->file.file_id, path), NULL);
}

bool store_has_small_chunks(Store *store, const char *name)
{
    const Table *table;
    ChunkRun run;
    if (store->is_read_only || store_peek_table(store, name, &table, &(Error){ 0 }))
        return false;
    const bool has_run = table->traits.kind == TABLE_STREAM && find_run(store, table, &run);
    table_release(table);
    return has_run;
}

weft_status store_merge_small_chunks(Store *store, const char *name, Error *err)
{
    const Table *table;
    ChunkRun run;
    weft_status status = WEFT_OK;
    TRY(store_check_writable(store, err));
    TRY(store_peek_table(store, name, &table, err));
    if (table->traits.kind == TABLE_STREAM && find_run(store, table, &run)) {
        status = make_merged(store, table, &run, err);
        if (!status) {
            status = store_change_table(store, name, NULL, put_run, &run, err);
            if (status)
                remove_merged(store, run.merged);
            chunk_release(run.merged);
        }
    }
    table_release(table);
    return status;
}
