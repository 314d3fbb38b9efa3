// append.c - rows into a table: pieces in any order from any thread, out come chunks, all or nothing.
//
//     append_rows --encode--> piece 4   piece 2     waiting: came too early
//                             piece 0, piece 1      queue: in order, fewer rows than a chunk
//                             [chunk 0] [chunk 1]   full: encoded, written and synced; no manifest names them
//     append_commit: the rest of the queue becomes the last chunk, then the manifest names them all
//
// A piece is encoded by the thread that brings it, so that it waits in few bytes; a chunk is merged from pieces by the
// thread whose piece completes it.  Both happen outside the lock, so several chunks are made at the same time.
//
// Many small appends must not leave many small chunks.  So the last chunk swallows its predecessors while they are
// less than twice its size (and the sum is not more than a chunk).  Sizes then fall by half from chunk to chunk, and a
// row is rewritten only when its chunk has grown by half: a logarithmic number of times.  Where rows are waited for,
// larger chunks are left to merge.c (append_set_merge_rows).
//
// The numbers of a column of type numeric without a precision have a scale per piece.  A chunk gets the largest that
// has come until then, and a commit brings everything to the largest of all (scale.c).  Where that is more than the
// table has, its chunks are made anew, too: the commit goes on with that table, GROWN, in place of the base.
//
// A failure at any point leaves the table as it was.  What may stay behind are texts in dictionaries, which no row
// uses; when they are many, the dictionaries are replaced by copies without them.

#include "store/store_int.h"

enum { ROWS_MAX = 1 << 30, SPARE_TEXTS = 4096 };

struct Append {
    Arena          *arena;
    Store          *store;
    TableEntry     *entry;
    Snapshot       *base;                                   // the table as it was; no other append changes it
    Snapshot       *grown;                                  // the same with larger scales; NULL: none are
    u64            *grown_files;                            // that were written for it
    int             n_grown_files;
    u32             chunk_rows, merge_rows;                 // merge_rows: see append_set_merge_rows
    bool            is_new;                                 // the table is made by the commit
    bool            has_traits, replaces;                   // see append_set_traits
    TableTraits     traits;
    const _Atomic bool *cancel;                             // ends the comparison of keys; may be NULL
    pthread_mutex_t lock;                                   // all below
    pthread_cond_t  became_idle;
    int             n_active, n_active_most;                // threads in append_rows
    Error           error;                                  // the first failure; nothing is done after it
    u64             n_rows;
    u64             next_sequence;
    StoredChunk    *waiting;                                // by sequence
    StoredChunk    *queue, *queue_end;
    u32             queue_start;                            // rows of the first piece that a chunk has taken already
    u64             queue_rows;
    const Chunk   **chunks;                                 // new ones in order; NULL while in the making
    int             n_chunks;
    bool            has_free;                               // a numeric without a precision; never changes
    u8             *scales;                                 // per stored column: the largest that has come for such
};

// ---- begin and end -------------------------------------------------------------------------------------------------

static Append *append_new(Store *store, TableEntry *entry, Snapshot *base)
{
    Arena *arena = arena_new(NULL, "append");
    Append *append = arena_make(arena, Append);
    append->arena = arena;
    append->store = store;
    append->entry = entry;
    append->base = base;
    append->chunk_rows = append->merge_rows = store->chunk_rows;
    append->scales = arena_array(arena, u8, base->table.n_stored);
    for (int i = 0; i < base->table.n_stored; i++) {
        append->has_free |= base->table.columns[i].is_free;
        append->scales[i] = base->table.columns[i].type.scale;
    }
    error_clear(&append->error);
    pthread_mutex_init(&append->lock, NULL);
    pthread_cond_init(&append->became_idle, NULL);
    return append;
}

// Texts of rows are looked up in all of the table's dictionaries.
static weft_status load_base(Store *store, TableEntry *entry, Snapshot **base, Error *err)
{
    TRY(store_load(store, entry, base, err));
    weft_status status = table_load_dicts(&(*base)->table, err);
    if (status)
        table_release(&(*base)->table);
    return status;
}

weft_status append_begin(Store *store, const char *table, Append **append, Error *err)
{
    return append_begin_unless(store, table, NULL, append, err);
}

weft_status append_begin_unless(Store *store, const char *table, const _Atomic bool *cancel, Append **append,
                                Error *err)
{
    *append = NULL;
    TableEntry *entry = store_take_entry(store, table);
    if (!entry)
        return fail_no_table(err, table);
    weft_status status = store_check_writable(store, err);
    if (!status)
        status = store_take_turn(store, entry, cancel, err);
    if (!status) {
        Snapshot *base;
        status = load_base(store, entry, &base, err);
        if (!status)
            *append = append_new(store, entry, base);
        else
            store_end_turn(store, entry);
    }
    if (status)
        store_drop_user(store, entry);
    else
        (*append)->cancel = cancel;
    return status;
}

weft_status append_begin_new(Store *store, const char *name, const ColumnDef *columns, int n_columns, Append **append,
                             Error *err)
{
    TableEntry *entry;
    *append = NULL;
    TRY(store_check_writable(store, err));
    TRY(store_make_entry(store, name, columns, n_columns, &entry, err));
    table_hold(&entry->current->table);
    entry->is_appending = true;                             // nobody else knows it yet
    *append = append_new(store, entry, entry->current);
    (*append)->is_new = true;
    return WEFT_OK;
}

static void append_end(Append *append)
{
    table_release(&append->base->table);
    store_end_turn(append->store, append->entry);
    store_drop_user(append->store, append->entry);
    pthread_cond_destroy(&append->became_idle);
    pthread_mutex_destroy(&append->lock);
    arena_free(append->arena);
}

// The table that the new rows are put to.
static const Table *target(const Append *append)
{
    return append->grown ? &append->grown->table : &append->base->table;
}

const Table *append_table(const Append *append)
{
    return &append->base->table;
}

// ---- making a chunk ------------------------------------------------------------------------------------------------

typedef struct ChunkJob {                                   // slices to be merged; each holds its piece
    Arena *arena;
    ChunkSlice *slices;
    int    n_slices;
    const u8 *scales;                                       // that the chunk gets
} ChunkJob;

static void job_add(ChunkJob *job, const Chunk *held, u32 start, u32 count)
{
    *LIST_PUSH(job->arena, job->slices, job->n_slices) = (ChunkSlice){ held, start, count };
}

static void job_free(ChunkJob *job)
{
    for (int i = 0; i < job->n_slices; i++)
        chunk_release(job->slices[i].chunk);
    arena_free(job->arena);
}

// Moves N_ROWS from the front of the queue into the job.
static void take_from_queue(Append *append, u64 n_rows, ChunkJob *job)
{
    ASSERT(n_rows <= append->queue_rows);
    append->queue_rows -= n_rows;
    while (n_rows > 0) {
        StoredChunk *piece = append->queue;
        ASSERT(append->queue_start < piece->chunk.n_rows);
        u32 start = append->queue_start, left = piece->chunk.n_rows - start, count = (u32)MIN_OF(left, n_rows);
        job_add(job, count < left ? chunk_hold(&piece->chunk) : &piece->chunk, start, count);
        append->queue_start = count < left ? start + count : 0;
        if (count == left)
            append->queue = piece->next;
        n_rows -= count;
    }
    if (!append->queue)
        append->queue_end = NULL;
}

static weft_status align_job(const Append *append, ChunkJob *job, Error *err)
{
    const Table *table = target(append);
    for (int i = 0; i < job->n_slices && append->has_free; i++) {
        StoredChunk *scaled;
        const Chunk *chunk = job->slices[i].chunk;
        if (chunk_has_scales(table, chunk, job->scales))
            continue;
        TRY(chunk_rescale(append->store->budget, table, chunk, job->scales, 0, &scaled, err));
        chunk_release(chunk);
        job->slices[i].chunk = &scaled->chunk;
    }
    return WEFT_OK;
}

static weft_status make_in_memory(const Append *append, const ChunkJob *job, StoredChunk **chunk, Error *err)
{
    const Table *table = &append->base->table;
    ASSERT(job->n_slices > 0);
    const Chunk *only = job->slices[0].chunk;
    if (job->n_slices == 1 && job->slices[0].count == only->n_rows) {
        *chunk = chunk_stored(chunk_hold(only));
        return WEFT_OK;
    }
    return chunk_merge(append->store->budget, table, job->slices, job->n_slices, chunk, err);
}

// Rows came when their chunk was made.
static void set_arrival(StoredChunk *chunk)
{
    chunk->file.arrived_first = chunk->file.arrived_last = store_now_us();
}

// Sketches and writes CHUNK, and takes it over.  JOB: of which it was made; NULL: of something else.
static weft_status finish_chunk(Append *append, StoredChunk *chunk, const ChunkJob *job, int n_threads,
                                const Chunk **out, Error *err)
{
    Store *store = append->store;
    const Table *table = &append->base->table;
    StoredChunk *written;
    const ChunkSlice *slices = job ? job->slices : NULL;
    weft_status status = chunk_sketch(chunk, table->columns, slices, job ? job->n_slices : 0, n_threads, err);
    *out = status ? NULL : &chunk->chunk;
    if (status)
        chunk_release(&chunk->chunk);
    else
        set_arrival(chunk);
    if (status || !store->path)
        return status;
    char path[PATH_BYTES];
    u64 id = store->next_id++;
    store_file_path(store, FILE_CHUNK, id, path);
    status = chunk_write(chunk, path, id, table->id, store->budget, table->columns, &written, err);
    chunk_release(&chunk->chunk);
    *out = status ? NULL : &written->chunk;
    if (!status)
        set_arrival(written);
    return status;
}

static weft_status make_chunk(Append *append, ChunkJob *job, int n_threads, const Chunk **out, Error *err)
{
    StoredChunk *chunk;
    TRY(align_job(append, job, err));
    TRY(make_in_memory(append, job, &chunk, err));
    return finish_chunk(append, chunk, job, n_threads, out, err);
}

// ---- pieces --------------------------------------------------------------------------------------------------------

static weft_status insert_waiting(Append *append, StoredChunk *piece, Error *err)
{
    ASSERT(mutex_is_held(&append->lock));
    StoredChunk **link = &append->waiting;
    while (*link && (*link)->sequence < piece->sequence)
        link = &(*link)->next;
    if (piece->sequence < append->next_sequence || (*link && (*link)->sequence == piece->sequence))
        return fail(err, WEFT_INTERNAL, -1, "piece %llu was appended twice", (unsigned long long)piece->sequence);
    piece->next = *link;
    *link = piece;
    return WEFT_OK;
}

static void enqueue(Append *append, StoredChunk *piece)
{
    ASSERT(piece->chunk.n_rows > 0);
    ASSERT(!append->queue == !append->queue_end);
    piece->next = NULL;
    if (append->queue_end)
        append->queue_end->next = piece;
    else
        append->queue = piece;
    append->queue_end = piece;
    append->queue_rows += piece->chunk.n_rows;
    append->n_rows += piece->chunk.n_rows;
}

// NULLs have no scale.
static void note_scales(Append *append, const StoredChunk *piece)
{
    ASSERT(mutex_is_held(&append->lock));
    for (int i = 0; i < piece->n_columns && append->has_free; i++)
        if (append->base->table.columns[i].is_free && piece->chunk.columns[i].has_range)
            append->scales[i] = MAX_OF(append->scales[i], piece->scales[i]);
}

static void move_to_queue(Append *append)
{
    ASSERT(mutex_is_held(&append->lock));
    while (append->waiting && append->waiting->sequence == append->next_sequence) {
        StoredChunk *piece = append->waiting;
        append->waiting = piece->next;
        append->next_sequence++;
        if (piece->chunk.n_rows > 0)
            enqueue(append, piece);
        else
            chunk_release(&piece->chunk);
    }
}

// Takes over the piece.
static weft_status add_piece(Append *append, StoredChunk *piece, Error *err)
{
    pthread_mutex_lock(&append->lock);
    weft_status status = append->error.status;
    if (status)
        fail(err, status, -1, "%s", append->error.message);
    else
        status = insert_waiting(append, piece, err);
    if (status) {
        chunk_release(&piece->chunk);
    } else {
        note_scales(append, piece);
        move_to_queue(append);
    }
    pthread_mutex_unlock(&append->lock);
    return status;
}

static const u8 *copy_scales(const Append *append, Arena *arena)
{
    const size_t n = (size_t)append->base->table.n_stored;
    return memcpy(arena_array(arena, u8, n), append->scales, n);
}

// A full chunk's rows and its place among the new chunks, or false when there are not enough rows.
static bool take_job(Append *append, ChunkJob *job, int *at)
{
    pthread_mutex_lock(&append->lock);
    bool is_enough = append->queue_rows >= append->chunk_rows;
    if (is_enough) {
        *job = (ChunkJob){ .arena = arena_new(NULL, "chunk") };
        job->scales = copy_scales(append, job->arena);
        take_from_queue(append, append->chunk_rows, job);
        *at = append->n_chunks;
        *LIST_PUSH(append->arena, append->chunks, append->n_chunks) = NULL;
    }
    pthread_mutex_unlock(&append->lock);
    return is_enough;
}

static weft_status make_full_chunks(Append *append, Error *err)
{
    ChunkJob job;
    int at;
    while (take_job(append, &job, &at)) {
        const Chunk *chunk;
        weft_status status = make_chunk(append, &job, 1, &chunk, err);
        job_free(&job);
        TRY(status);
        pthread_mutex_lock(&append->lock);
        append->chunks[at] = chunk;
        pthread_mutex_unlock(&append->lock);
    }
    return WEFT_OK;
}

static weft_status add_rows(Append *append, u64 sequence, const ColumnInput *inputs, u32 n_rows, Error *err)
{
    const Table *table = &append->base->table;
    StoredChunk *piece;
    if (n_rows > ROWS_MAX)
        return fail(err, WEFT_TOO_LONG, -1, "a piece of %u rows is too long", n_rows);
    TRY(chunk_encode(append->store->budget, table, inputs, n_rows, &piece, err));
    piece->sequence = sequence;
    TRY(add_piece(append, piece, err));
    return make_full_chunks(append, err);
}

weft_status append_take_piece(Append *append, StoredChunk *piece, Error *err)
{
    ASSERT(append->n_active == 0 && !append->waiting);
    append->n_active_most++;                                // some thread has made it
    piece->sequence = append->next_sequence;
    TRY(add_piece(append, piece, err));
    return make_full_chunks(append, err);
}

weft_status append_rows(Append *append, u64 sequence, const ColumnInput *inputs, u32 n_rows, Error *err)
{
    Error reason;
    error_clear(&reason);
    pthread_mutex_lock(&append->lock);
    append->n_active++;
    append->n_active_most = MAX_OF(append->n_active_most, append->n_active);
    pthread_mutex_unlock(&append->lock);
    weft_status status = add_rows(append, sequence, inputs, n_rows, &reason);
    pthread_mutex_lock(&append->lock);
    if (status && !append->error.status)
        append->error = reason;
    ASSERT(append->n_active > 0);
    if (--append->n_active == 0)
        pthread_cond_broadcast(&append->became_idle);
    pthread_mutex_unlock(&append->lock);
    if (status && err && !err->status)
        *err = reason;
    return status;
}

static void wait_until_idle(Append *append)
{
    pthread_mutex_lock(&append->lock);
    while (append->n_active > 0)
        pthread_cond_wait(&append->became_idle, &append->lock);
    pthread_mutex_unlock(&append->lock);
}

// ---- commit: one thread, nothing active ----------------------------------------------------------------------------

// A chunk of a stream goes when its youngest row may: one that is swallowed again and again would stay for good.
static bool is_too_old_to_swallow(const Append *append, const Chunk *chunk)
{
    const i64 retain_us = append->base->table.traits.retain_us;
    return retain_us > 0 && store_now_us() - chunk_stored(chunk)->file.arrived_first > retain_us / 8;
}

// How many of the old chunks stay as they are; the others are small and become part of the last new chunk.
static int chunks_to_keep(const Append *append)
{
    const Table *table = &append->base->table;
    u64 n_rows = append->queue_rows;
    int n_keep = table->n_chunks;
    if (append->replaces)
        return 0;
    if (append->n_chunks > 0 || n_rows == 0)
        return n_keep;
    for (; n_keep > 0; n_keep--) {
        if (is_too_old_to_swallow(append, table->chunks[n_keep - 1]))
            break;
        u64 before = table->chunks[n_keep - 1]->n_rows;
        if (before >= 2 * n_rows || before + n_rows > append->merge_rows)
            break;
        n_rows += before;
    }
    return n_keep;
}

static weft_status take_old_chunks(const Append *append, int n_keep, ChunkJob *job, Error *err)
{
    const Table *table = target(append);
    for (int i = n_keep; i < table->n_chunks && !append->replaces; i++) {
        const Chunk *chunk = table->chunks[i];
        for (int column = 0; column < table->n_stored; column++)
            TRY(chunk_verify(chunk, column, err));
        job_add(job, chunk_hold(chunk), 0, chunk->n_rows);
    }
    return WEFT_OK;
}

static weft_status make_last_chunk(Append *append, int n_keep, Error *err)
{
    if (append->queue_rows == 0)
        return WEFT_OK;
    ChunkJob job = { .arena = arena_new(NULL, "last chunk"), .scales = append->scales };
    const Chunk *chunk = NULL;
    weft_status status = take_old_chunks(append, n_keep, &job, err);
    if (!status) {
        take_from_queue(append, append->queue_rows, &job);
        status = make_chunk(append, &job, append->n_active_most, &chunk, err);  // those that brought rows are idle now
    }
    if (!status && n_keep < target(append)->n_chunks && !append->replaces)
        chunk_stored(chunk)->file.arrived_first =
            chunk_stored(target(append)->chunks[n_keep])->file.arrived_first;
    job_free(&job);
    if (!status)
        *LIST_PUSH(append->arena, append->chunks, append->n_chunks) = chunk;
    return status;
}

// What the manifest will say: the dictionaries up to COUNTS, and the new chunks behind the kept ones.
static weft_status make_meta(Append *append, int n_keep, const u32 *counts, TableMeta **out, Error *err)
{
    const Store *store = append->store;
    const Table *table = target(append);
    int n_files = store->path ? n_keep + append->n_chunks : 0;
    TableMeta *meta = meta_copy(append->entry->meta, n_files);
    meta->version++;
    if (append->has_traits)
        meta->traits = append->traits;
    for (int i = 0; i < table->n_columns; i++)
        if (table->columns[i].is_free)
            meta_set_scale(meta, table, i, append->scales[i]);
    weft_status status = WEFT_OK;
    for (int i = 0; i < table->n_stored && store->path && !status; i++) {
        char path[PATH_BYTES];
        DictFile old = meta->columns[i].dict;
        if (!table->columns[i].dict)
            continue;
        store_file_path(store, FILE_DICT, old.file_id, path);
        status = dict_file_extend(path, &old, table->columns[i].dict, counts[i], &meta->columns[i].dict, err);
    }
    for (int i = 0; i < n_files; i++) {
        const Chunk *chunk = i < n_keep ? table->chunks[i] : append->chunks[i - n_keep];
        ASSERT(chunk);
        meta->chunks[i] = chunk_stored(chunk)->file;
    }
    if (status)
        meta_free(meta);
    *out = status ? NULL : meta;
    return status;
}

// A snapshot with the first N_KEEP chunks of the base and the new ones.
static Snapshot *make_snapshot(const Append *append, const TableMeta *meta, int n_keep, Dictionary *const *dicts,
                               const u32 *counts)
{
    const Table *table = target(append);
    Arena *scratch = arena_new(NULL, "snapshot");
    const Chunk **chunks = arena_array(scratch, const Chunk *, n_keep + append->n_chunks);
    for (int i = 0; i < n_keep; i++)
        chunks[i] = chunk_hold(table->chunks[i]);
    for (int i = 0; i < append->n_chunks; i++)
        chunks[n_keep + i] = chunk_hold(append->chunks[i]);
    Snapshot *snapshot = snapshot_new(meta, dicts, counts, chunks, n_keep + append->n_chunks);
    snapshot->is_verified = append->base->is_verified;      // the new chunks are
    arena_free(scratch);
    return snapshot;
}

// Frees the old ones.  META may be NULL: it stays.
static void swap_in(Append *append, TableMeta *meta, Snapshot *snapshot)
{
    TableEntry *entry = append->entry;
    pthread_mutex_lock(&append->store->lock);
    TableMeta *old_meta = meta ? entry->meta : NULL;
    Snapshot *old = entry->current;
    entry->meta = meta ? meta : entry->meta;
    entry->current = snapshot;
    pthread_mutex_unlock(&append->store->lock);
    meta_free(old_meta);
    table_release(&old->table);
}

static void get_dicts(const Append *append, Arena *scratch, Dictionary ***dicts, u32 **counts)
{
    const Table *table = &append->base->table;
    *dicts = arena_array(scratch, Dictionary *, table->n_stored);
    *counts = arena_array(scratch, u32, table->n_stored);
    for (int i = 0; i < table->n_stored; i++) {
        (*dicts)[i] = table->columns[i].dict;
        (*counts)[i] = (*dicts)[i] ? dict_count((*dicts)[i]) : 0;
    }
}

// Holds commit_lock.
static weft_status publish(Append *append, int n_keep, Arena *scratch, Error *err)
{
    Store *store = append->store;
    Dictionary **dicts;
    u32 *counts;
    TableMeta *meta;
    ASSERT(mutex_is_held(&store->commit_lock));
    ASSERT(n_keep >= 0 && n_keep <= append->base->table.n_chunks);
    if (append->entry->is_dropped)                          // set under commit_lock too
        return fail_no_table(err, append->entry->name);
    TRY(store_settle(store, err));
    if (append->is_new)
        TRY(store_check_free(store, append->entry->name, err));
    get_dicts(append, scratch, &dicts, &counts);
    TRY(make_meta(append, n_keep, counts, &meta, err));
    weft_status status = store_switch(store, append->entry, meta, err);
    if (status) {
        meta_free(meta);
        return status;
    }
    swap_in(append, meta, make_snapshot(append, meta, n_keep, dicts, counts));
    if (append->is_new)
        store_add_entry(store, append->entry);
    const Table *old = &append->base->table, *kept = target(append);
    for (int i = 0; i < old->n_chunks; i++)
        if (i >= n_keep || old->chunks[i] != kept->chunks[i])
            store_remove_file(store, FILE_CHUNK, chunk_stored(old->chunks[i])->file.file_id);
    return WEFT_OK;
}

// All new rows against each other and against the table's, while they are still apart from these.
static weft_status check_keys(const Append *append, Error *err)
{
    const Table *table = target(append);
    if (table->n_indexes == 0)
        return WEFT_OK;
    Arena *scratch = arena_new(NULL, "keys");
    ChunkSlice *slices = NULL;
    int n_slices = 0;
    for (int i = 0; i < append->n_chunks; i++)
        *LIST_PUSH(scratch, slices, n_slices) = (ChunkSlice){ append->chunks[i], 0, append->chunks[i]->n_rows };
    u32 start = append->queue_start;
    for (const StoredChunk *piece = append->queue; piece; piece = piece->next, start = 0)
        *LIST_PUSH(scratch, slices, n_slices) = (ChunkSlice){ &piece->chunk, start, piece->chunk.n_rows - start };
    const NewRows rows = { slices, n_slices, append->store->budget, append->cancel };
    weft_status status = keys_check_append(table, &rows, err);
    arena_free(scratch);
    return status;
}

// ---- one scale for all ----------------------------------------------------------------------------------------------

static weft_status align_queue(Append *append, u64 first_row, Error *err)
{
    u64 row = first_row - append->queue_start;
    for (StoredChunk **link = &append->queue; *link; row += (*link)->chunk.n_rows, link = &(*link)->next) {
        StoredChunk *piece = *link, *scaled;
        if (chunk_has_scales(target(append), &piece->chunk, append->scales))
            continue;
        TRY(chunk_rescale(append->store->budget, target(append), &piece->chunk, append->scales, row, &scaled, err));
        scaled->sequence = piece->sequence;
        scaled->next = piece->next;
        *link = scaled;
        if (append->queue_end == piece)
            append->queue_end = scaled;
        chunk_release(&piece->chunk);
    }
    return WEFT_OK;
}

// A new chunk that was made before a larger scale came.
static weft_status align_chunk(Append *append, const Chunk **chunk, u64 first_row, Error *err)
{
    StoredChunk *scaled;
    const Chunk *made;
    char path[PATH_BYTES];
    TRY(chunk_rescale(append->store->budget, target(append), *chunk, append->scales, first_row, &scaled, err));
    TRY(finish_chunk(append, scaled, NULL, append->n_active_most, &made, err));
    if (append->store->path)
        (void)file_remove(store_new_chunk_path(append->store, chunk_stored(*chunk)->file.file_id, path), NULL);
    chunk_release(*chunk);
    *chunk = made;
    return WEFT_OK;
}

// A chunk of the table.  Those that the last new one swallows need no file.
static weft_status grow_chunk(Append *append, const Chunk *chunk, bool is_kept, const Chunk **out, Error *err)
{
    StoredChunk *scaled;
    if (chunk_has_scales(&append->base->table, chunk, append->scales)) {
        *out = chunk_hold(chunk);
        return WEFT_OK;
    }
    TRY(chunk_rescale(append->store->budget, &append->base->table, chunk, append->scales, 0, &scaled, err));
    if (!is_kept) {
        *out = &scaled->chunk;
        return WEFT_OK;
    }
    TRY(finish_chunk(append, scaled, NULL, append->n_active_most, out, err));
    if (append->store->path)
        *LIST_PUSH(append->arena, append->grown_files, append->n_grown_files) = chunk_stored(*out)->file.file_id;
    return WEFT_OK;
}

static Snapshot *grown_snapshot(const Append *append, const Chunk *const *chunks)
{
    const Table *table = &append->base->table;
    TableMeta *meta = meta_copy(append->entry->meta, 0);
    Arena *scratch = arena_new(NULL, "grown");
    Dictionary **dicts = arena_array(scratch, Dictionary *, table->n_stored);
    u32 *counts = arena_array(scratch, u32, table->n_stored);
    for (int i = 0; i < table->n_stored; i++) {
        dicts[i] = table->columns[i].dict;
        counts[i] = table->columns[i].dict_count;
        if (table->columns[i].is_free)
            meta_set_scale(meta, table, i, append->scales[i]);
    }
    Snapshot *grown = snapshot_new(meta, dicts, counts, chunks, table->n_chunks);
    grown->is_verified = append->base->is_verified;
    meta_free(meta);
    arena_free(scratch);
    return grown;
}

static weft_status grow_base(Append *append, int n_keep, Error *err)
{
    const Table *table = &append->base->table;
    Arena *scratch = arena_new(NULL, "grow");
    const Chunk **chunks = arena_array(scratch, const Chunk *, table->n_chunks);
    weft_status status = WEFT_OK;
    for (int i = 0; i < table->n_chunks && !status; i++) {
        status = grow_chunk(append, table->chunks[i], i < n_keep, &chunks[i], err);
        if (!status && append->cancel && atomic_load(append->cancel))
            status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
    }
    if (!status)
        append->grown = grown_snapshot(append, chunks);
    for (int i = 0; i < table->n_chunks && status; i++)
        chunk_release(chunks[i]);
    arena_free(scratch);
    return status;
}

// From here on all numbers of a column have one scale, which keys can be compared by.
static weft_status align_all(Append *append, int n_keep, Error *err)
{
    bool is_larger = false;
    u64 row = 1;
    for (int i = 0; i < append->base->table.n_stored; i++)
        is_larger |= append->scales[i] > append->base->table.columns[i].type.scale;
    if (is_larger)
        TRY(grow_base(append, n_keep, err));
    for (int i = 0; i < append->n_chunks; i++) {
        if (!chunk_has_scales(target(append), append->chunks[i], append->scales))
            TRY(align_chunk(append, &append->chunks[i], row, err));
        row += append->chunks[i]->n_rows;
    }
    return align_queue(append, row, err);
}

static weft_status commit(Append *append, Error *err)
{
    ASSERT(append->n_active == 0);
    if (append->error.status)
        return fail(err, append->error.status, -1, "%s", append->error.message);
    if (append->waiting)
        return fail(err, WEFT_INTERNAL, -1, "piece %llu was never appended", (unsigned long long)append->next_sequence);
    if (append->n_rows == 0 && !append->is_new && !append->has_traits)
        return WEFT_OK;
    int n_keep = chunks_to_keep(append);
    if (append->has_free)
        TRY(align_all(append, n_keep, err));
    TRY(check_keys(append, err));
    TRY(make_last_chunk(append, n_keep, err));
    Arena *scratch = arena_new(NULL, "commit");
    pthread_mutex_lock(&append->store->commit_lock);
    weft_status status = publish(append, n_keep, scratch, err);
    pthread_mutex_unlock(&append->store->commit_lock);
    arena_free(scratch);
    return status;
}

// ---- undo ----------------------------------------------------------------------------------------------------------

static void release_list(StoredChunk *piece)
{
    for (StoredChunk *next; piece; piece = next) {
        next = piece->next;
        chunk_release(&piece->chunk);
    }
}

static void release_all(Append *append)
{
    release_list(append->waiting);
    release_list(append->queue);
    for (int i = 0; i < append->n_chunks; i++)
        chunk_release(append->chunks[i]);
}

// A commit that failed, on a full disk say, has written texts that no manifest counts: their space goes back at once.
static void cut_dictionaries(const Append *append)
{
    const TableMeta *meta = append->entry->meta;
    for (int i = 0; i < meta->n_columns && append->store->path; i++) {
        char path[PATH_BYTES];
        if (meta->columns[i].type.kind != TYPE_TEXT)
            continue;
        store_file_path(append->store, FILE_DICT, meta->columns[i].dict.file_id, path);
        dict_file_cut(path, &meta->columns[i].dict);
    }
}

static void drop_grown(Append *append)
{
    if (append->grown)
        table_release(&append->grown->table);
    append->grown = NULL;
}

static void remove_new_file(const Append *append, u64 id)
{
    char path[PATH_BYTES];
    store_remove_file(append->store, FILE_CHUNK, id);
    (void)file_remove(store_new_chunk_path(append->store, id, path), NULL);
}

static void remove_new_files(const Append *append)
{
    pthread_mutex_lock(&append->store->commit_lock);
    bool is_in_doubt = append->store->is_in_doubt;          // the manifest on disk may name them
    pthread_mutex_unlock(&append->store->commit_lock);
    for (int i = 0; i < append->n_chunks && !is_in_doubt; i++)
        if (append->chunks[i] && append->store->path)
            remove_new_file(append, chunk_stored(append->chunks[i])->file.file_id);
    for (int i = 0; i < append->n_grown_files && !is_in_doubt; i++)
        remove_new_file(append, append->grown_files[i]);
    if (!is_in_doubt)
        cut_dictionaries(append);
}

// Texts that came with the failed rows and that no row uses.  A few may stay: the next append finds them there.
static void shed_texts(Append *append)
{
    const Table *table = &append->base->table;
    Arena *scratch = arena_new(NULL, "dictionaries");
    Dictionary **dicts, **copies = arena_array(scratch, Dictionary *, table->n_stored);
    u32 *counts;
    bool is_changed = false;
    get_dicts(append, scratch, &dicts, &counts);
    for (int i = 0; i < table->n_stored; i++) {
        u32 n_used = table->columns[i].dict_count, n_spare = counts[i] - n_used;
        counts[i] = n_used;
        if (n_spare <= SPARE_TEXTS + n_used / 4 || dict_copy(dicts[i], n_used, append->store->budget, &copies[i], NULL))
            continue;                                       // not worth it, or no memory: then they stay
        dicts[i] = copies[i];
        is_changed = true;
    }
    append->n_chunks = 0;
    if (is_changed)
        swap_in(append, NULL, make_snapshot(append, append->entry->meta, table->n_chunks, dicts, counts));
    for (int i = 0; i < table->n_stored; i++)
        dict_release(copies[i]);
    arena_free(scratch);
}

static void undo(Append *append)
{
    remove_new_files(append);
    drop_grown(append);                                     // what follows is about the table as it was
    release_all(append);
    shed_texts(append);
}

void append_set_traits(Append *append, const TableTraits *traits, bool replaces)
{
    append->has_traits = true;
    append->traits = *traits;
    append->replaces = replaces;
}

void append_set_merge_rows(Append *append, u32 n_rows)
{
    append->merge_rows = MIN_OF(n_rows, append->chunk_rows);
}

weft_status append_commit(Append *append, u64 *n_rows, Error *err)
{
    wait_until_idle(append);
    weft_status status = commit(append, err);
    if (n_rows)
        *n_rows = status ? 0 : append->n_rows;
    if (status) {
        undo(append);
    } else {
        release_all(append);
        drop_grown(append);
    }
    append_end(append);
    return status;
}

void append_abort(Append *append)
{
    if (!append)
        return;
    wait_until_idle(append);
    undo(append);
    append_end(append);
}

void append_shed_texts(Store *store, const char *table, const _Atomic bool *cancel)
{
    Append *append;
    Error ignored = { 0 };                                  // they stay
    if (!append_begin_unless(store, table, cancel, &append, &ignored))
        append_abort(append);
}
