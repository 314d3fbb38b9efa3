// streams.c - tables that grow at their end and lose rows at their begin: what retention drops, and parts of a stream.
//
//     row    first_row                                          first_row + n_rows
//            |--chunk--|--chunk--|--chunk--|-chunk-|-|
//             too old   too old, but KEEP_FROM is here: it stays
//
// Whole chunks go, when their youngest row is too old.  They go by a commit as any other: the manifest names the rest
// and the new first row, then the files are removed.  Snapshots that are held keep their chunks mapped.

#include <time.h>

#include "store/store_int.h"

i64 store_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (i64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// ---- retention ------------------------------------------------------------------------------------------------------

typedef struct Expiry { i64 now_us; u64 keep_from, *n_dropped; } Expiry;

// How many chunks at the begin of the table may go, and how many rows they have.
static int count_expired(const Table *table, const Expiry *expiry, u64 *n_rows)
{
    int n = 0;
    *n_rows = 0;
    for (; n < table->n_chunks && table->traits.retain_us > 0; n++) {
        const ChunkFile *file = &chunk_stored(table->chunks[n])->file;
        const u64 end = table->traits.first_row + *n_rows + table->chunks[n]->n_rows;
        if (end > expiry->keep_from || expiry->now_us - file->arrived_last <= table->traits.retain_us)
            break;
        *n_rows += table->chunks[n]->n_rows;
    }
    return n;
}

static weft_status expire_entry(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const Expiry *expiry = context;
    u64 n_rows;
    const int n_gone = count_expired(&held->table, expiry, &n_rows);
    if (n_gone == 0)
        return WEFT_OK;
    TableMeta *meta = meta_copy(entry->meta, entry->meta->n_chunks);
    if (store->path) {
        meta->n_chunks -= n_gone;
        memmove(meta->chunks, meta->chunks + n_gone, (size_t)meta->n_chunks * sizeof(*meta->chunks));
    }
    meta->traits.first_row += n_rows;
    TRY(store_put_rest(store, entry, held, meta, n_gone, err));
    *expiry->n_dropped = n_rows;
    return WEFT_OK;
}

weft_status store_expire(Store *store, const char *name, i64 now_us, u64 keep_from, u64 *n_dropped, Error *err)
{
    const Expiry expiry = { now_us, keep_from, n_dropped };
    const Table *table;
    u64 n_rows;
    *n_dropped = 0;
    TRY(store_peek_table(store, name, &table, err));
    const bool is_due = count_expired(table, &expiry, &n_rows) > 0;     // most often not: then no turn is taken
    table_release(table);
    return is_due ? store_change_table(store, name, NULL, expire_entry, &expiry, err) : WEFT_OK;
}

// ---- parts ----------------------------------------------------------------------------------------------------------

static Snapshot *snapshot_of_chunks(const Table *table, const Chunk *const *chunks, int n_chunks)
{
    Arena *scratch = arena_new(NULL, "slice");
    TableMeta *meta = meta_new(table->name, table->id, table->version, table->n_stored, 0);
    Dictionary **dicts = arena_array(scratch, Dictionary *, table->n_stored);
    u32 *counts = arena_array(scratch, u32, table->n_stored);
    for (int i = 0; i < table->n_stored; i++) {
        const Column *column = &table->columns[i];
        meta->columns[i] = (ColumnMeta){ .name = column->name, .type = column->type, .not_null = column->not_null };
        dicts[i] = column->dict;
        counts[i] = column->dict_count;
    }
    meta->traits = table->traits;
    Snapshot *snapshot = snapshot_new(meta, dicts, counts, chunks, n_chunks);
    meta_free(meta);
    arena_free(scratch);
    return snapshot;
}

static weft_status verify_columns(const Table *table, const Chunk *chunk, Error *err)
{
    for (int i = 0; i < table->n_stored; i++)
        TRY(chunk_verify(chunk, i, err));
    return WEFT_OK;
}

// Part of a chunk as a chunk of its own, held.
static weft_status cut_chunk(const Table *table, const Chunk *chunk, u32 start, u32 count, Budget *budget,
                             const Chunk **out, Error *err)
{
    StoredChunk *made;
    if (start == 0 && count == chunk->n_rows) {
        *out = chunk_hold(chunk);
        return WEFT_OK;
    }
    TRY(verify_columns(table, chunk, err));
    TRY(chunk_merge(budget, table, &(ChunkSlice){ chunk, start, count }, 1, &made, err));
    *out = &made->chunk;
    return WEFT_OK;
}

weft_status table_slice(const Table *table, u64 first, u64 n_rows, Budget *budget, const Table **out, Error *err)
{
    Arena *scratch = arena_new(NULL, "slice");
    const Chunk **chunks = arena_array(scratch, const Chunk *, table->n_chunks + 1);
    int n_chunks = 0;
    weft_status status = WEFT_OK;
    u64 begin = 0;
    ASSERT(first <= table->n_rows && n_rows <= table->n_rows - first);
    for (int i = 0; i < table->n_chunks && !status; begin += table->chunks[i++]->n_rows) {
        const u64 from = MAX_OF(begin, first), to = MIN_OF(begin + table->chunks[i]->n_rows, first + n_rows);
        if (from >= to)
            continue;
        status = cut_chunk(table, table->chunks[i], (u32)(from - begin), (u32)(to - from), budget, &chunks[n_chunks],
                           err);
        n_chunks += !status;
    }
    if (!status)
        *out = &snapshot_of_chunks(table, chunks, n_chunks)->table;
    for (int i = 0; i < n_chunks && status; i++)
        chunk_release(chunks[i]);
    arena_free(scratch);
    return status;
}

weft_status table_sift(const Table *table, const u8 *keep, Budget *budget, const Table **out, Error *err)
{
    Arena *scratch = arena_new(NULL, "sift");
    ChunkSlice *slices = NULL;
    StoredChunk *made = NULL;
    int n_slices = 0;
    u64 row = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < table->n_chunks && !status; i++) {
        const u32 n_rows = table->chunks[i]->n_rows;
        status = verify_columns(table, table->chunks[i], err);
        for (u32 r = 0, end; r < n_rows; r = end) {
            for (end = r; end < n_rows && keep[row + end] == keep[row + r]; end++) { }
            if (keep[row + r])
                *LIST_PUSH(scratch, slices, n_slices) = (ChunkSlice){ table->chunks[i], r, end - r };
        }
        row += n_rows;
    }
    if (!status && n_slices > 0)
        status = chunk_merge(budget, table, slices, n_slices, &made, err);
    if (!status)
        *out = &snapshot_of_chunks(table, (const Chunk *[]){ made ? &made->chunk : NULL }, made != NULL)->table;
    arena_free(scratch);
    return status;
}
