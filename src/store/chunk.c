// chunk.c - some rows of a table, column by column, in memory or in a file of their own.
//
//     header  magic, rows, columns, table, file          } checksum in the manifest
//             per column: base, width, statistics, ...   }
//             per column: sketch of its values           }
//     columns data, and a bitmap where there are NULLs    } checksum in the header; each part is 64-byte aligned
//
// In memory there are only the columns; a file is mapped and read in place.  Where each part begins follows from the
// rows, the widths and the NULLs, so no offset is stored that could be wrong.  Opening checks everything but the
// column data: that is read once when it is first wanted, column by column (chunk_verify), so that opening a large
// database is quick. Numbers are little-endian, as on all machines we run on.

#include <stdio.h>
#include <unistd.h>

#include "store/store_int.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are mapped as they are");

static const char magic[8] = "WEFTCHK1";

typedef struct FileHeader {
    char magic[8];
    u32  n_rows, n_columns;
    u64  table_id, file_id;
    u64  length;                                            // of the file
    u64  zero[3];
} FileHeader;

typedef struct BitsHeader {                                 // FloatBits
    i16 unit, least, most;
    u16 is_known;
} BitsHeader;

typedef struct ColumnHeader {
    union {
        i64        base;
        BitsHeader bits;                                    // floats; all 0 in format 1, which did not know them
    };
    i64 min, max;                                           // of floats: their bits
    u64 checksum;
    u32 n_nulls;
    u8  width, flags;
    u16 sketch_bytes;                                       // 0 in formats 1 and 2, which had no sketches
} ColumnHeader;

enum { FLAG_HAS_RANGE = 1, FLAG_HAS_NAN = 2, FLAG_IS_INCREASING = 4, FLAGS_ALL = 7 };

// ---- where things are ----------------------------------------------------------------------------------------------

static u64 sketches_at(int n_columns)
{
    return sizeof(FileHeader) + (u64)n_columns * sizeof(ColumnHeader);
}

static u64 header_bytes(int n_columns, u64 sketch_bytes)
{
    return aligned(sketches_at(n_columns) + sketch_bytes);
}

// Places the sketches, whose lengths are set, one after another.
static void place_sketches(StoredChunk *chunk, const u8 *at)
{
    for (int i = 0; i < chunk->n_columns; i++) {
        chunk->sketches[i].bytes = at;
        at += chunk->sketches[i].length;
    }
}

static u64 all_sketches_bytes(const StoredChunk *chunk)
{
    u64 bytes = 0;
    for (int i = 0; i < chunk->n_columns; i++)
        bytes += chunk->sketches[i].length;
    return bytes;
}

static u64 data_bytes(const ColumnChunk *column, u32 n_rows)
{
    return aligned((u64)n_rows * column->width);
}

static u64 column_bytes(const ColumnChunk *column, u32 n_rows)
{
    u64 valid_bytes = column->n_nulls > 0 ? aligned(((u64)n_rows + 63) / 64 * sizeof(u64)) : 0;
    return data_bytes(column, n_rows) + valid_bytes;
}

static u64 all_columns_bytes(const ColumnChunk *columns, int n_columns, u32 n_rows)
{
    u64 bytes = 0;
    for (int i = 0; i < n_columns; i++)
        bytes += column_bytes(&columns[i], n_rows);
    return bytes;
}

static void place_columns(StoredChunk *chunk, const u8 *at)
{
    u32 n_rows = chunk->chunk.n_rows;
    for (int i = 0; i < chunk->n_columns; i++) {
        ColumnChunk *column = &chunk->chunk.columns[i];
        ASSERT(column->width == 1 || column->width == 2 || column->width == 4 || column->width == 8);
        column->data = at;
        column->valid = column->n_nulls > 0 ? (const u64 *)(const void *)(at + data_bytes(column, n_rows)) : NULL;
        at += column_bytes(column, n_rows);
    }
}

// ---- life ----------------------------------------------------------------------------------------------------------

u64 chunk_new_id(void)
{
    static _Atomic u64 n_chunks;
    return ++n_chunks;
}

static weft_status chunk_new(Budget *budget, int n_columns, u32 n_rows, const char *path, StoredChunk **out, Error *err)
{
    size_t columns_bytes = sizeof(ColumnChunk) * (size_t)n_columns, checksums_bytes = sizeof(u64) * (size_t)n_columns;
    size_t sketches_bytes = sizeof(SavedSketch) * (size_t)n_columns;
    size_t bytes = sizeof(StoredChunk) + columns_bytes + checksums_bytes + sketches_bytes +
                   2 * (size_t)n_columns + strlen(path) + 1;
    void *memory;
    TRY(mem_alloc(budget, bytes, &memory, err));
    StoredChunk *chunk = memory;
    u8 *rest = (u8 *)memory + sizeof(StoredChunk);
    *chunk = (StoredChunk){ .n_holds = 1, .n_columns = n_columns, .budget = budget, .bytes = bytes };
    chunk->chunk.id = chunk_new_id();
    chunk->chunk.n_rows = n_rows;
    chunk->chunk.columns = (ColumnChunk *)(void *)rest;
    chunk->checksums = (u64 *)(void *)(rest += columns_bytes);
    chunk->sketches = (SavedSketch *)(void *)(rest += checksums_bytes);
    chunk->checks = (_Atomic u8 *)(void *)(rest += sketches_bytes);
    chunk->scales = memset(rest += n_columns, 0, (size_t)n_columns);
    chunk->path = memcpy(rest + n_columns, path, strlen(path) + 1);
    *out = chunk;
    return WEFT_OK;
}

StoredChunk *chunk_stored(const Chunk *chunk)
{
    return (StoredChunk *)(uintptr_t)chunk;                 // it is the first field
}

const Chunk *chunk_hold(const Chunk *chunk)
{
    const u32 n_before = atomic_fetch_add(&chunk_stored(chunk)->n_holds, 1);
    ASSERT(n_before > 0);                                   // only a holder can pass it on
    (void)n_before;
    return chunk;
}

// Calls are made under the lock, so that none is running when chunks_unwatch returns.
static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER;
static ChunkWatch     *watches;

void chunks_watch(ChunkWatch *watch)
{
    pthread_mutex_lock(&watches_lock);
    watch->next = watches;
    watches = watch;
    pthread_mutex_unlock(&watches_lock);
}

void chunks_unwatch(ChunkWatch *watch)
{
    pthread_mutex_lock(&watches_lock);
    ChunkWatch **link = &watches;
    while (*link && *link != watch)
        link = &(*link)->next;
    ASSERT(*link);
    *link = watch->next;
    pthread_mutex_unlock(&watches_lock);
}

static void tell_watches(const Chunk *chunk)
{
    pthread_mutex_lock(&watches_lock);
    for (ChunkWatch *watch = watches; watch; watch = watch->next)
        watch->gone(watch, chunk);
    pthread_mutex_unlock(&watches_lock);
}

u64 column_data_bytes(const Chunk *chunk, int column) { return (u64)chunk->n_rows * chunk->columns[column].width; }

u64 column_valid_bytes(const Chunk *chunk, int column)
{
    return chunk->columns[column].valid ? ((u64)chunk->n_rows + 63) / 64 * 8 : 0;
}

u64 column_read_bytes(const Chunk *chunk, int column)
{
    return column_data_bytes(chunk, column) + column_valid_bytes(chunk, column);
}

// A mapped file and large memory have pages of their own; small memory shares pages.
ChunkPages chunk_pages(const Chunk *chunk)
{
    const StoredChunk *stored = chunk_stored(chunk);
    u64 page = (u64)sysconf(_SC_PAGESIZE);
    const u8 *first = stored->memory ? stored->memory : stored->mapping.bytes;
    u64 bytes = stored->memory ? stored->memory_bytes : stored->mapping.length;
    if (!first || (uintptr_t)first % page || (stored->memory && !mem_has_own_pages(bytes)))
        return (ChunkPages){ 0 };
    return (ChunkPages){ first, (bytes + page - 1) / page * page, !stored->memory };
}

void chunk_release(const Chunk *chunk)
{
    if (!chunk)
        return;
    const u32 n_before = atomic_fetch_sub(&chunk_stored(chunk)->n_holds, 1);
    ASSERT(n_before > 0);
    if (n_before > 1)
        return;
    StoredChunk *stored = chunk_stored(chunk);
    tell_watches(chunk);
    file_unmap(&stored->mapping);
    mem_free(stored->budget, stored->memory, stored->memory_bytes);
    mem_free(stored->budget, stored->sketch_memory, stored->sketch_memory_bytes);
    mem_free(stored->budget, stored, stored->bytes);
}

static void set_verified(StoredChunk *chunk)
{
    for (int i = 0; i < chunk->n_columns; i++)
        chunk->checks[i] = CHECK_RIGHT;
}

// ---- making --------------------------------------------------------------------------------------------------------

// Takes the widths and statistics in columns, and gives the columns their memory.
static weft_status give_memory(StoredChunk *chunk, Error *err)
{
    ASSERT(!chunk->memory && !chunk->mapping.bytes);
    u64 bytes = all_columns_bytes(chunk->chunk.columns, chunk->n_columns, chunk->chunk.n_rows);
    void *memory;
    TRY(mem_alloc(chunk->budget, bytes, &memory, err));
    chunk->memory = memory;
    chunk->memory_bytes = bytes;
    place_columns(chunk, memory);
    set_verified(chunk);
    return WEFT_OK;
}

// Callers check first, with better messages; but what is stored must keep the promises of its type whatever they do.
static weft_status check_input(const Table *table, const Column *column, const ColumnChunk *measured, Error *err)
{
    i64 min, max;
    char name[32];
    if (column->not_null && measured->n_nulls > 0)
        return fail(err, WEFT_NOT_NULL_VIOLATION, -1,
                    "null value in column \"%s\" of relation \"%s\" violates not-null constraint", column->name,
                    table->name);
    if (!measured->has_range || type_is_float(column->type))
        return WEFT_OK;
    type_limits(column->type, &min, &max);
    if (column->type.kind == TYPE_TEXT)
        max = (i64)dict_count(column->dict) - 1;
    if (measured->min >= min && measured->max <= max)
        return WEFT_OK;
    weft_status status = column->type.kind == TYPE_TEXT ? WEFT_INTERNAL :
                         type_is_time(column->type) ? WEFT_DATETIME_OVERFLOW : WEFT_OUT_OF_RANGE;
    return fail(err, status, -1, "value in column \"%s\" is out of range for type %s", column->name,
                type_name(column->type, name));
}

static weft_status encode_columns(StoredChunk *chunk, const Table *table, const ColumnInput *inputs, Error *err)
{
    u32 n_rows = chunk->chunk.n_rows;
    const Column *columns = table->columns;
    for (int i = 0; i < chunk->n_columns; i++) {
        encode_measure(columns[i].type, &inputs[i], n_rows, &chunk->chunk.columns[i]);
        ASSERT(inputs[i].scale <= NUMERIC_DIGITS);
        chunk->scales[i] = columns[i].is_free ? inputs[i].scale : columns[i].type.scale;
        TRY(check_input(table, &columns[i], &chunk->chunk.columns[i], err));
    }
    TRY(give_memory(chunk, err));
    for (int i = 0; i < chunk->n_columns; i++) {
        const ColumnChunk *column = &chunk->chunk.columns[i];
        encode_fill(columns[i].type, &inputs[i], n_rows, column, (void *)(uintptr_t)column->data,
                    (u64 *)(uintptr_t)column->valid);
    }
    return WEFT_OK;
}

static void copy_column(const StoredChunk *from, int at, StoredChunk *to)
{
    const ColumnChunk *column = &to->chunk.columns[at];
    memcpy((void *)(uintptr_t)column->data, from->chunk.columns[at].data, column_bytes(column, to->chunk.n_rows));
}

static weft_status replace_columns(StoredChunk *chunk, const StoredChunk *from, const Table *table,
                                   const ColumnInput *inputs, Error *err)
{
    const u32 n_rows = chunk->chunk.n_rows;
    for (int i = 0; i < chunk->n_columns; i++) {
        ColumnChunk *column = &chunk->chunk.columns[i];
        *column = from->chunk.columns[i];
        chunk->scales[i] = inputs[i].i ? inputs[i].scale : from->scales[i];
        if (inputs[i].i)
            encode_measure(table->columns[i].type, &inputs[i], n_rows, column);
    }
    TRY(give_memory(chunk, err));
    for (int i = 0; i < chunk->n_columns; i++) {
        const ColumnChunk *column = &chunk->chunk.columns[i];
        if (inputs[i].i)
            encode_fill(table->columns[i].type, &inputs[i], n_rows, column, (void *)(uintptr_t)column->data,
                        (u64 *)(uintptr_t)column->valid);
        else
            copy_column(from, i, chunk);
    }
    return WEFT_OK;
}

// The scales of slices are equal, but where all numbers are 0.
static void merge_scales(StoredChunk *chunk, const ChunkSlice *slices, int n_slices)
{
    for (int i = 0; i < chunk->n_columns; i++)
        for (int k = 0; k < n_slices; k++)
            chunk->scales[i] = MAX_OF(chunk->scales[i], chunk_stored(slices[k].chunk)->scales[i]);
}

static weft_status merge_columns(StoredChunk *chunk, const Column *columns, const ChunkSlice *slices, int n_slices,
                                 Error *err)
{
    merge_scales(chunk, slices, n_slices);
    for (int i = 0; i < chunk->n_columns; i++)
        merge_measure(columns[i].type, slices, n_slices, i, &chunk->chunk.columns[i]);
    TRY(give_memory(chunk, err));
    for (int i = 0; i < chunk->n_columns; i++) {
        const ColumnChunk *column = &chunk->chunk.columns[i];
        merge_fill(columns[i].type, slices, n_slices, i, column, (void *)(uintptr_t)column->data,
                   (u64 *)(uintptr_t)column->valid);
    }
    return WEFT_OK;
}

static weft_status keep_or_release(weft_status status, StoredChunk *chunk, StoredChunk **out)
{
    if (status)
        chunk_release(&chunk->chunk);
    *out = status ? NULL : chunk;
    return status;
}

weft_status chunk_encode(Budget *budget, const Table *table, const ColumnInput *inputs, u32 n_rows, StoredChunk **out,
                         Error *err)
{
    StoredChunk *chunk;
    TRY(chunk_new(budget, table->n_stored, n_rows, "", &chunk, err));
    return keep_or_release(encode_columns(chunk, table, inputs, err), chunk, out);
}

weft_status chunk_replace_columns(Budget *budget, const Table *table, const Chunk *chunk, const ColumnInput *inputs,
                                  StoredChunk **out, Error *err)
{
    StoredChunk *made;
    TRY(chunk_new(budget, table->n_stored, chunk->n_rows, "", &made, err));
    return keep_or_release(replace_columns(made, chunk_stored(chunk), table, inputs, err), made, out);
}

weft_status chunk_merge(Budget *budget, const Table *table, const ChunkSlice *slices, int n_slices, StoredChunk **out,
                        Error *err)
{
    u32 n_rows = 0;
    ASSERT(n_slices > 0);
    for (int i = 0; i < n_slices; i++) {
        ASSERT(slices[i].start + slices[i].count <= slices[i].chunk->n_rows);
        n_rows += slices[i].count;
    }
    StoredChunk *chunk;
    TRY(chunk_new(budget, table->n_stored, n_rows, "", &chunk, err));
    return keep_or_release(merge_columns(chunk, table->columns, slices, n_slices, err), chunk, out);
}

// ---- sketches ------------------------------------------------------------------------------------------------------

enum { SKETCH_THREADS_MAX = 8, SKETCH_ROWS_PER_THREAD = 1 << 17 };

typedef struct SketchWork {
    StoredChunk  *chunk;
    const Column *columns;
    _Atomic int   next;                                     // column that nobody has begun
    u8            (*saved)[SKETCH_BYTES_MAX];               // per column
} SketchWork;

static void *sketch_columns(void *context)
{
    SketchWork *work = context;
    StoredChunk *chunk = work->chunk;
    for (int i; (i = work->next++) < chunk->n_columns;) {
        Sketch sketch;
        sketch_column(work->columns[i].type, &chunk->chunk.columns[i], chunk->chunk.n_rows, &sketch);
        chunk->sketches[i].length = sketch_save(&sketch, work->saved[i]);
    }
    return NULL;
}

// With the calling thread and as many others as pay; those that the system refuses are done without.
static void sketch_together(SketchWork *work, int n_threads)
{
    pthread_t threads[SKETCH_THREADS_MAX];
    int n_useful = (int)(work->chunk->chunk.n_rows / SKETCH_ROWS_PER_THREAD), n = 0;
    int n_others = MIN_OF(MIN_OF(n_threads, n_useful), SKETCH_THREADS_MAX) - 1;
    while (n < n_others && thread_start(&threads[n], NULL, sketch_columns, work) == 0)
        n++;
    sketch_columns(work);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

// Whether the sketches of whole chunks make that of all, as they do for columns that have any.
static bool merge_sketches(SketchWork *work, const ChunkSlice *slices, int n_slices)
{
    for (int i = 0; i < n_slices; i++)
        if (slices[i].count != slices[i].chunk->n_rows)
            return false;
    for (int column = 0; column < work->chunk->n_columns; column++) {
        Sketch all = { .form = SKETCH_IS_EMPTY }, part;
        for (int i = 0; i < n_slices; i++) {
            const SavedSketch *saved = &chunk_stored(slices[i].chunk)->sketches[column];
            if (!sketch_load(&part, saved->bytes, saved->length))
                return false;
            sketch_merge(&all, &part);
        }
        work->chunk->sketches[column].length = sketch_save(&all, work->saved[column]);
    }
    return n_slices > 0;
}

weft_status chunk_sketch(StoredChunk *chunk, const Column *columns, const ChunkSlice *slices, int n_slices,
                         int n_threads, Error *err)
{
    if (chunk->sketch_memory)
        return WEFT_OK;
    Arena *scratch = arena_new(NULL, "sketches");
    SketchWork work = { .chunk = chunk, .columns = columns };
    work.saved = arena_alloc(scratch, sizeof(work.saved[0]) * (size_t)chunk->n_columns);
    if (!merge_sketches(&work, slices, n_slices))
        sketch_together(&work, n_threads);
    void *memory;
    u64 bytes = all_sketches_bytes(chunk);
    weft_status status = mem_alloc(chunk->budget, bytes, &memory, err);
    if (!status) {
        chunk->sketch_memory = memory;
        chunk->sketch_memory_bytes = bytes;
        place_sketches(chunk, memory);
        for (int i = 0; i < chunk->n_columns; i++)
            memcpy((u8 *)(uintptr_t)chunk->sketches[i].bytes, work.saved[i], chunk->sketches[i].length);
    }
    arena_free(scratch);
    return status;
}

// ---- writing -------------------------------------------------------------------------------------------------------

static ColumnHeader describe_column(Type type, const ColumnChunk *column, u32 n_rows)
{
    ColumnHeader header = { .base = column->base, .n_nulls = column->n_nulls, .width = column->width };
    if (type_is_float(type)) {
        header.bits = (BitsHeader){ column->bits.unit, column->bits.least, column->bits.most, column->bits.is_known };
        memcpy(&header.min, &column->fmin, sizeof(header.min));
        memcpy(&header.max, &column->fmax, sizeof(header.max));
    } else {
        header.min = column->min;
        header.max = column->max;
    }
    header.flags = (u8)((column->has_range ? FLAG_HAS_RANGE : 0) | (column->has_nan ? FLAG_HAS_NAN : 0) |
                        (column->is_increasing ? FLAG_IS_INCREASING : 0));
    header.checksum = hash_bytes(column->data, column_bytes(column, n_rows));
    return header;
}

static void describe(const StoredChunk *chunk, u64 table_id, const Column *columns, const ChunkFile *file, u8 *header)
{
    FileHeader all = { .n_rows = file->n_rows, .n_columns = (u32)chunk->n_columns, .table_id = table_id,
                       .file_id = file->file_id, .length = file->length };
    memcpy(all.magic, magic, sizeof(magic));
    memcpy(header, &all, sizeof(all));
    for (int i = 0; i < chunk->n_columns; i++) {
        ColumnHeader column = describe_column(columns[i].type, &chunk->chunk.columns[i], file->n_rows);
        column.sketch_bytes = (u16)chunk->sketches[i].length;
        memcpy(header + sizeof(all) + (size_t)i * sizeof(column), &column, sizeof(column));
    }
    if (chunk->sketch_memory)
        memcpy(header + sketches_at(chunk->n_columns), chunk->sketch_memory, chunk->sketch_memory_bytes);
}

static weft_status write_parts(const char *path, const u8 *header, size_t n_header, const u8 *body, size_t n_body,
                               Error *err)
{
    File file;
    TRY(file_create(path, &file, err));
    weft_status status = file_write(&file, header, n_header, err);
    if (!status)
        status = file_write(&file, body, n_body, err);
    if (!status)
        status = file_sync(&file, err);
    file_close(&file);
    return status;
}

static weft_status write_file(const StoredChunk *chunk, const char *path, u64 table_id, const Column *columns,
                              ChunkFile *file, Error *err)
{
    void *header;
    size_t n_header = header_bytes(chunk->n_columns, chunk->sketch_memory_bytes);
    TRY(mem_alloc(chunk->budget, n_header, &header, err));
    describe(chunk, table_id, columns, file, header);
    file->checksum = hash_bytes(header, n_header);
    weft_status status = write_parts(path, header, n_header, chunk->memory, chunk->memory_bytes, err);
    mem_free(chunk->budget, header, n_header);
    return status;
}

weft_status chunk_write(const StoredChunk *chunk, const char *path, u64 file_id, u64 table_id, Budget *budget,
                        const Column *columns, StoredChunk **out, Error *err)
{
    ASSERT(chunk->memory && file_id != 0);
    char fresh[PATH_BYTES];
    ASSERT(strlen(path) + sizeof(NEW_SUFFIX) <= PATH_BYTES);
    snprintf(fresh, sizeof(fresh), "%s" NEW_SUFFIX, path);
    ChunkFile file = { .file_id = file_id, .n_rows = chunk->chunk.n_rows,
                       .length = header_bytes(chunk->n_columns, chunk->sketch_memory_bytes) + chunk->memory_bytes };
    StoredChunk *written;
    weft_status status = write_file(chunk, fresh, table_id, columns, &file, err);
    if (!status)
        status = chunk_map(fresh, &file, chunk->n_columns, budget, &written, err);
    if (!status)
        status = keep_or_release(chunk_check(written, table_id, columns, err), written, out);
    if (status) {
        file_remove(fresh, NULL);                           // else the next open sweeps it
    } else {
        set_verified(*out);                                 // we have just written it
        memcpy((*out)->scales, chunk->scales, (size_t)chunk->n_columns);
        ((char *)(uintptr_t)(*out)->path)[strlen(path)] = '\0';    // what messages call it
    }
    return status;
}

// ---- opening -------------------------------------------------------------------------------------------------------

#define LITTLE_BYTES ((u64)64 << 10)                         // comes with the first page that is touched

static weft_status fail_damaged(const char *path, Error *err)
{
    return fail(err, WEFT_CORRUPT, -1, "chunk file \"%s\" is damaged", path);
}

static bool are_bits_sound(const BitsHeader *bits)
{
    static const BitsHeader unknown;
    FloatBits none = float_bits_none();
    if (bits->is_known != 1)
        return memcmp(bits, &unknown, sizeof(unknown)) == 0;
    if (bits->least > bits->most)
        return bits->unit == none.unit && bits->least == none.least && bits->most == none.most;
    return bits->unit >= -1074 && bits->unit <= bits->least && bits->most <= 1023;
}

static bool is_float_sound(Type type, const ColumnHeader *header, u32 n_rows)
{
    bool has_range = header->flags & FLAG_HAS_RANGE, has_nan = header->flags & FLAG_HAS_NAN;
    return header->width == (type.kind == TYPE_REAL ? 4 : 8) && are_bits_sound(&header->bits) &&
           (has_range || has_nan) == (header->n_nulls < n_rows);
}

// Statistics are proofs, so they must fit the type and the width.
static bool is_integer_sound(const Column *column, const ColumnHeader *header, u32 n_rows)
{
    i64 min, max;
    bool has_range = header->flags & FLAG_HAS_RANGE;
    if ((header->width != 1 && header->width != 2 && header->width != 4 && header->width != 8) ||
        has_range != (header->n_nulls < n_rows) || (header->flags & FLAG_HAS_NAN))
        return false;
    if (!has_range)
        return header->width == 1 && header->base == 0;
    type_limits(column->type, &min, &max);
    if (column->type.kind == TYPE_TEXT)
        max = (i64)dict_count(column->dict) - 1;
    u64 range = (u64)header->max - (u64)header->min;
    return header->min >= min && header->max <= max && header->min <= header->max && header->base == header->min &&
           (header->width == 8 || range >> (8 * header->width) == 0);
}

static bool is_column_sound(const Column *column, const ColumnHeader *header, u32 n_rows)
{
    if (header->n_nulls > (column->not_null ? 0 : n_rows) || header->flags > FLAGS_ALL)
        return false;
    if ((header->flags & FLAG_IS_INCREASING) && header->n_nulls > 0)
        return false;
    return type_is_float(column->type) ? is_float_sound(column->type, header, n_rows)
                                       : is_integer_sound(column, header, n_rows);
}

static void take_column(Type type, const ColumnHeader *header, ColumnChunk *column)
{
    *column = (ColumnChunk){ .base = header->base, .width = header->width, .n_nulls = header->n_nulls,
                             .has_range = header->flags & FLAG_HAS_RANGE, .has_nan = header->flags & FLAG_HAS_NAN,
                             .is_increasing = header->flags & FLAG_IS_INCREASING };
    if (type_is_float(type)) {
        column->base = 0;
        column->bits = (FloatBits){ header->bits.is_known, header->bits.unit, header->bits.least, header->bits.most };
        memcpy(&column->fmin, &header->min, sizeof(column->fmin));
        memcpy(&column->fmax, &header->max, sizeof(column->fmax));
    } else {
        column->min = header->min;
        column->max = header->max;
    }
}

static ColumnHeader column_header(const StoredChunk *chunk, int column)
{
    ColumnHeader header;
    memcpy(&header, chunk->mapping.bytes + sizeof(FileHeader) + (size_t)column * sizeof(header), sizeof(header));
    return header;
}

// How long the header is takes the lengths of the sketches, before the checksum has shown that they are right.
static bool take_sketches(StoredChunk *chunk)
{
    if (chunk->mapping.length != chunk->file.length || chunk->mapping.length < header_bytes(chunk->n_columns, 0))
        return false;
    for (int i = 0; i < chunk->n_columns; i++) {
        chunk->sketches[i].length = column_header(chunk, i).sketch_bytes;
        if (chunk->sketches[i].length > SKETCH_BYTES_MAX)
            return false;
    }
    place_sketches(chunk, chunk->mapping.bytes + sketches_at(chunk->n_columns));
    return chunk->mapping.length >= header_bytes(chunk->n_columns, all_sketches_bytes(chunk));
}

static bool is_header_sound(const StoredChunk *chunk, u64 n_header, u64 table_id)
{
    FileHeader header;
    if (hash_bytes(chunk->mapping.bytes, n_header) != chunk->file.checksum)
        return false;
    memcpy(&header, chunk->mapping.bytes, sizeof(header));
    return memcmp(header.magic, magic, sizeof(magic)) == 0 && header.n_rows > 0 &&
           header.n_rows == chunk->file.n_rows && header.n_columns == (u32)chunk->n_columns &&
           header.table_id == table_id && header.file_id == chunk->file.file_id && header.length == chunk->file.length;
}

static weft_status take_columns(StoredChunk *chunk, u64 table_id, const Column *columns, Error *err)
{
    if (!take_sketches(chunk))
        return fail_damaged(chunk->path, err);
    u64 n_header = header_bytes(chunk->n_columns, all_sketches_bytes(chunk));
    if (!is_header_sound(chunk, n_header, table_id))
        return fail_damaged(chunk->path, err);
    for (int i = 0; i < chunk->n_columns; i++) {
        ColumnHeader header = column_header(chunk, i);
        if (!is_column_sound(&columns[i], &header, chunk->chunk.n_rows))
            return fail_damaged(chunk->path, err);
        take_column(columns[i].type, &header, &chunk->chunk.columns[i]);
        chunk->checksums[i] = header.checksum;
        chunk->scales[i] = columns[i].type.scale;
    }
    if (n_header + all_columns_bytes(chunk->chunk.columns, chunk->n_columns, chunk->chunk.n_rows) != chunk->file.length)
        return fail_damaged(chunk->path, err);
    place_columns(chunk, chunk->mapping.bytes + n_header);
    return WEFT_OK;
}

weft_status chunk_map(const char *path, const ChunkFile *file, int n_columns, Budget *budget, StoredChunk **out,
                      Error *err)
{
    StoredChunk *chunk;
    *out = NULL;
    if (!file_exists(path))
        return fail(err, WEFT_CORRUPT, -1, "chunk file \"%s\" is missing", path);
    TRY(chunk_new(budget, n_columns, file->n_rows, path, &chunk, err));
    chunk->file = *file;
    weft_status status = file_map(path, &chunk->mapping, err);
    file_ask(&chunk->mapping, 0, header_bytes(n_columns, (u64)n_columns * SKETCH_BYTES_MAX));
    return keep_or_release(status, chunk, out);
}

weft_status chunk_check(StoredChunk *chunk, u64 table_id, const Column *columns, Error *err)
{
    // Of the megabytes behind the header most may never be wanted.
    bool is_large = chunk->mapping.length > LITTLE_BYTES;
    if (is_large)
        file_read_little(&chunk->mapping, true);
    weft_status status = take_columns(chunk, table_id, columns, err);
    if (is_large)
        file_read_little(&chunk->mapping, false);
    return status;
}

u64 chunk_column_bytes(const Chunk *chunk, int column)
{
    return column_bytes(&chunk->columns[column], chunk->n_rows);
}

// A thread that finds another at the same column waits: it is read and hashed once.
static pthread_mutex_t checks_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  check_ended = PTHREAD_COND_INITIALIZER;

// Asked for as a whole, it is on its way before the first byte is waited for, and nothing behind it is read.  Asking
// looks up each page, even where all are in memory, so what was asked for is not asked for again.
static bool is_column_right(const StoredChunk *chunk, int column, bool is_asked_for)
{
    const u8 *data = chunk->chunk.columns[column].data;
    u64 bytes = chunk_column_bytes(&chunk->chunk, column);
    if (bytes > LITTLE_BYTES && !is_asked_for)
        file_ask(&chunk->mapping, (u64)(data - chunk->mapping.bytes), bytes);
    return hash_bytes(data, bytes) == chunk->checksums[column];
}

static bool begin_check(StoredChunk *chunk, int column)
{
    u8 none = CHECK_NONE;
    return atomic_compare_exchange_strong(&chunk->checks[column], &none, CHECK_AT_WORK);
}

static bool do_check(StoredChunk *chunk, int column, bool is_asked_for)
{
    ASSERT(chunk->checks[column] == CHECK_AT_WORK && chunk->mapping.bytes);
    bool is_right = is_column_right(chunk, column, is_asked_for);
    atomic_store_explicit(&chunk->checks[column], is_right ? CHECK_RIGHT : CHECK_NONE, memory_order_release);
    pthread_mutex_lock(&checks_lock);
    pthread_cond_broadcast(&check_ended);
    pthread_mutex_unlock(&checks_lock);
    return is_right;
}

static void wait_for_check(const StoredChunk *chunk, int column)
{
    pthread_mutex_lock(&checks_lock);
    while (atomic_load_explicit(&chunk->checks[column], memory_order_acquire) == CHECK_AT_WORK)
        pthread_cond_wait(&check_ended, &checks_lock);
    pthread_mutex_unlock(&checks_lock);
}

bool chunk_is_verified(const Chunk *chunk, int column)
{
    return atomic_load_explicit(&chunk_stored(chunk)->checks[column], memory_order_acquire) == CHECK_RIGHT;
}

void chunk_expect(const Chunk *chunk, int column, const void *from, u64 bytes)
{
    const StoredChunk *stored = chunk_stored(chunk);
    if (!stored->memory && !chunk_is_verified(chunk, column))
        file_ask(&stored->mapping, (u64)((const u8 *)from - stored->mapping.bytes), bytes);
}

static void try_verify(const Chunk *chunk, int column, bool is_asked_for)
{
    StoredChunk *stored = chunk_stored(chunk);
    if (!chunk_is_verified(chunk, column) && begin_check(stored, column))
        (void)do_check(stored, column, is_asked_for);
}

void chunk_try_verify(const Chunk *chunk, int column) { try_verify(chunk, column, false); }

void chunk_verify_asked(const Chunk *chunk, int column) { try_verify(chunk, column, true); }

weft_status chunk_verify(const Chunk *chunk, int column, Error *err)
{
    StoredChunk *stored = chunk_stored(chunk);
    ASSERT(column >= 0 && column < stored->n_columns);
    while (!chunk_is_verified(chunk, column)) {
        if (!begin_check(stored, column))
            wait_for_check(stored, column);
        else if (!do_check(stored, column, false))
            return fail_damaged(stored->path, err);
    }
    return WEFT_OK;
}
