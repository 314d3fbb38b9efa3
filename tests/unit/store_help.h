// store_help.h - what the tests of the store share: make tables, fill them, look at them.  Include after test.h.
//
// Inline, so that a program may leave some of them unused.

#ifndef WEFT_STORE_HELP_H
#define WEFT_STORE_HELP_H

#include <dirent.h>

#include "store/store_int.h"

static Error err;                                           // of the test that runs

static inline Store *open_store(const char *path)
{
    Store *store = NULL;
    error_clear(&err);
    CHECK_OK(store_open(path, NULL, &store, &err), err);
    return store;
}

// A path that no other test has.
static inline const char *fresh_path(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof(name), "db%d.weft", ++n);
    return test_path(name);
}

static inline void create(Store *store, const char *name, const ColumnDef *columns, int n_columns)
{
    error_clear(&err);
    CHECK_OK(store_create_table(store, name, columns, n_columns, &err), err);
}

// One bigint column "n".
static inline void create_numbers(Store *store)
{
    create(store, "numbers", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1);
}

static inline weft_status try_append(Store *store, const char *table, const ColumnInput *inputs, u32 n_rows)
{
    Append *append;
    u64 n;
    error_clear(&err);
    TRY(append_begin(store, table, &append, &err));
    weft_status status = append_rows(append, 0, inputs, n_rows, &err);
    if (status) {
        append_abort(append);
        return status;
    }
    return append_commit(append, &n, &err);
}

static inline void append_all(Store *store, const char *table, const ColumnInput *inputs, u32 n_rows)
{
    CHECK_OK(try_append(store, table, inputs, n_rows), err);
}

static inline weft_status try_numbers(Store *store, i64 first, u32 count)
{
    i64 *values = malloc(sizeof(i64) * (count + 1));
    for (u32 i = 0; i < count; i++)
        values[i] = first + i;
    weft_status status = try_append(store, "numbers", &(ColumnInput){ .i = values }, count);
    free(values);
    return status;
}

static inline void append_numbers(Store *store, i64 first, u32 count)
{
    CHECK_OK(try_numbers(store, first, count), err);
}

static inline const Table *get_table(Store *store, const char *name)
{
    const Table *table;
    error_clear(&err);
    CHECK_OK(store_get_table(store, name, &table, &err), err);
    return table;
}

static inline bool is_null_at(const ColumnChunk *column, u32 row)
{
    return column->valid && !(column->valid[row / 64] >> (row % 64) & 1);
}

static inline u64 raw_at(const ColumnChunk *column, u32 row)
{
    u64 stored = 0;
    memcpy(&stored, (const u8 *)column->data + (size_t)row * column->width, column->width);
    return stored;
}

static inline i64 integer_at(const ColumnChunk *column, u32 row)
{
    return (i64)((u64)column->base + raw_at(column, row));
}

static inline double float_at(const ColumnChunk *column, u32 row)
{
    return column->width == 4 ? (double)((const float *)column->data)[row] : ((const double *)column->data)[row];
}

// The lowest bit of a nonzero finite value, found by trying.
static inline int lowest_bit(double value)
{
    int exponent;
    double digits = ldexp(frexp(value, &exponent), 53);     // an integer
    int unit = exponent - 53;
    while (fmod(digits, 2) == 0) {
        digits /= 2;
        unit++;
    }
    return unit;
}

// What must hold for every column chunk, computed the slow way.
static inline void check_statistics(const Table *table)
{
    u64 n_rows = 0;
    for (int c = 0; c < table->n_chunks; c++) {
        const Chunk *chunk = table->chunks[c];
        n_rows += chunk->n_rows;
        for (int k = 0; k < table->n_columns; k++) {
            const ColumnChunk *column = &chunk->columns[k];
            bool is_float = type_is_float(table->columns[k].type);
            bool has_range = false, has_nan = false, increasing = true;
            u32 n_nulls = 0;
            i64 min = 0, max = 0;
            double fmin = 0, fmax = 0;
            int unit = 0, least = 1, most = 0;
            CHECK_INT((uintptr_t)column->data % 64, 0);
            CHECK_INT((uintptr_t)column->valid % 64, 0);
            for (u32 row = 0; row < chunk->n_rows; row++) {
                if (is_null_at(column, row)) {
                    n_nulls++;
                    CHECK_INT(raw_at(column, row), 0);
                    continue;
                }
                if (is_float) {
                    double value = float_at(column, row);
                    increasing &= row > 0 ? value > float_at(column, row - 1) : value == value;
                    has_nan |= value != value;
                    if (isfinite(value) && value != 0) {
                        bool is_first = least > most;
                        unit = is_first ? lowest_bit(value) : MIN_OF(unit, lowest_bit(value));
                        least = is_first ? ilogb(value) : MIN_OF(least, ilogb(value));
                        most = is_first ? ilogb(value) : MAX_OF(most, ilogb(value));
                    }
                    if (value == value) {
                        fmin = !has_range || value < fmin ? value : fmin;
                        fmax = !has_range || value > fmax ? value : fmax;
                        has_range = true;
                    }
                } else {
                    i64 value = integer_at(column, row);
                    increasing &= row == 0 || value > integer_at(column, row - 1);
                    min = !has_range || value < min ? value : min;
                    max = !has_range || value > max ? value : max;
                    has_range = true;
                }
            }
            CHECK_INT(column->n_nulls, n_nulls);
            CHECK_INT(column->valid != NULL, n_nulls > 0);
            CHECK_INT(column->has_range, has_range);
            CHECK_INT(column->has_nan, has_nan);
            CHECK_INT(column->is_increasing, increasing && n_nulls == 0);
            if (is_float) {
                CHECK(column->bits.is_known);
                CHECK_INT(column->bits.unit, unit);
                CHECK_INT(column->bits.least, least);
                CHECK_INT(column->bits.most, most);
            }
            if (is_float && has_range) {
                CHECK(column->fmin == fmin && column->fmax == fmax);
            } else if (has_range) {
                CHECK(column->min == min && column->max == max);
                u64 range = (u64)max - (u64)min;
                u8 width = range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8;
                CHECK_INT(column->width, width);
            } else if (!is_float) {
                CHECK_INT(column->width, 1);
                CHECK_INT(column->base, 0);
            }
        }
    }
    CHECK_INT(table->n_rows, n_rows);
}

// Whether "numbers" holds FIRST, FIRST + 1, ... (COUNT of them), and nothing else.
static inline void check_numbers(const Table *table, i64 first, u64 count)
{
    CHECK_INT(table->n_rows, count);
    i64 expected = first;
    for (int c = 0; c < table->n_chunks; c++)
        for (u32 row = 0; row < table->chunks[c]->n_rows; row++, expected++)
            if (integer_at(&table->chunks[c]->columns[0], row) != expected)
                CHECK_INT(integer_at(&table->chunks[c]->columns[0], row), expected);
}

static inline int count_files(const char *path, const char *suffix)
{
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name), n_suffix = strlen(suffix);
        n += length >= n_suffix && strcmp(entry->d_name + length - n_suffix, suffix) == 0;
    }
    closedir(dir);
    return n;
}

static inline void write_bytes(const char *path, const void *bytes, size_t length)
{
    File file;
    CHECK_OK(file_create(path, &file, &err), err);
    CHECK_OK(file_write(&file, bytes, length, &err), err);
    file_close(&file);
}

// Of a manifest that was changed.
static inline void set_checksum(Text *manifest)
{
    u64 checksum = hash_bytes(manifest->bytes, manifest->length - 8);
    memcpy(manifest->bytes + manifest->length - 8, &checksum, 8);
}

// Where things are in a chunk file's header.
enum { CHUNK_LENGTH_AT = 32, CHUNK_COLUMNS_AT = 64, CHUNK_COLUMN_BYTES = 40, CHUNK_SKETCH_AT = 38 };

static inline u64 chunk_header_bytes(const char *bytes, int n_columns)
{
    u64 length = CHUNK_COLUMNS_AT + (u64)n_columns * CHUNK_COLUMN_BYTES;
    for (int i = 0; i < n_columns; i++) {
        u16 n_sketch;
        memcpy(&n_sketch, bytes + CHUNK_COLUMNS_AT + i * CHUNK_COLUMN_BYTES + CHUNK_SKETCH_AT, 2);
        length += n_sketch;
    }
    return aligned(length);
}

// Takes the sketches out of a chunk file, and, for format 1, the bits of the floats.
static inline void make_older_chunk(const char *path, const TableMeta *meta, ChunkFile *info, char version)
{
    Text chunk = { 0 };
    CHECK_OK(file_read_all(path, &chunk, &err), err);
    u64 n_old = chunk_header_bytes(chunk.bytes, meta->n_columns);
    for (int i = 0; i < meta->n_columns; i++) {
        char *column = chunk.bytes + CHUNK_COLUMNS_AT + i * CHUNK_COLUMN_BYTES;
        memset(column + CHUNK_SKETCH_AT, 0, 2);
        if (version == '1' && type_is_float(meta->columns[i].type))
            memset(column, 0, 8);
    }
    u64 n_used = CHUNK_COLUMNS_AT + (u64)meta->n_columns * CHUNK_COLUMN_BYTES, n_new = aligned(n_used);
    memset(chunk.bytes + n_used, 0, n_new - n_used);
    memmove(chunk.bytes + n_new, chunk.bytes + n_old, chunk.length - n_old);
    info->length = chunk.length - n_old + n_new;
    memcpy(chunk.bytes + CHUNK_LENGTH_AT, &info->length, 8);
    info->checksum = hash_bytes(chunk.bytes, n_new);
    write_bytes(path, chunk.bytes, info->length);
    text_free(&chunk);
}

// Makes a database, which must be closed, one that an older Weft could have written: VERSION is '1' or '2'.
static inline void make_older(const char *path, char version)
{
    char manifest_path[2048], chunk_path[2048];
    Text manifest = { 0 };
    snprintf(manifest_path, sizeof(manifest_path), "%s/manifest", path);
    CHECK_OK(file_read_all(manifest_path, &manifest, &err), err);
    Arena *arena = arena_new(NULL, "test");
    TableMeta **tables;
    int n_tables;
    u64 next_id;
    CHECK_OK(manifest_decode("manifest", manifest.bytes, manifest.length, arena, &tables, &n_tables, &next_id, &err),
             err);
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t]->n_chunks; i++) {
            ChunkFile *info = &tables[t]->chunks[i];
            snprintf(chunk_path, sizeof(chunk_path), "%s/%llx.chunk", path, (unsigned long long)info->file_id);
            make_older_chunk(chunk_path, tables[t], info, version);
        }
    text_free(&manifest);
    manifest_encode((const TableMeta *const *)tables, n_tables, next_id, false, &manifest);
    manifest.bytes[7] = version;
    set_checksum(&manifest);
    write_bytes(manifest_path, manifest.bytes, manifest.length);
    for (int t = 0; t < n_tables; t++)
        meta_free(tables[t]);
    arena_free(arena);
    text_free(&manifest);
}

static inline u64 random_next(u64 *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline void intern_numbered(Dictionary *dict, const char *word, u32 first, u32 count, i64 *codes)
{
    for (u32 i = 0; i < count; i++) {
        char text[64];
        u32 code;
        size_t length = (size_t)snprintf(text, sizeof(text), "%s %u", word, first + i);
        CHECK_OK(dict_intern(dict, text, length, &code, &err), err);
        codes[i] = code;
    }
}

#endif
