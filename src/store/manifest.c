// manifest.c - the file that says which tables there are and which files they are made of.
//
//     magic with the format's version
//     next id, number of tables
//     per table: id, version, name, columns (name, type, dictionary file), chunk files, keys and indexes, traits
//     checksum of all of the above
//
// Whatever a file holds that the manifest does not name does not exist.  A commit writes a new manifest beside the old
// one and renames it, so this file is always whole; the checksum is for disks and hands.  Still, reading trusts no
// number in it, since a checksum keeps out accidents and nothing else.

#include "store/store_int.h"

// The last character is the version.  Earlier ones are read, too.  Up to version 8 there was no char(n), and a
// varchar(n) could be longer (forget_long_limits).  Up to 7 there were plain tables only (7 means that there is a file
// of views; 8 says it).  They say nothing of views up to 6, numerics have a precision up to 5, tables no keys and
// indexes in 4, dictionaries no blocks in 3 (dict_file.c), chunks no sketches in 2, and they say less about floats in
// 1 (chunk.c).  A manifest may name files of any version: they are not rewritten.  The least version that can say it
// is written: 9 when there is a column of char(n), else 8 when there is a stream or a state, else 7 when there is a
// file of views, which must then be there, else 6 when a column is numeric without a precision, else 5 when a table
// has a key or index, else 4.
static const char magic[8] = "WEFTMAN9";
enum {
    VERSION_WITHOUT_INDEXES = '4',
    VERSION_WITHOUT_FREE = '5',
    VERSION_WITHOUT_VIEWS = '6',
    VERSION_WITHOUT_TRAITS = '7',
    VERSION_WITHOUT_CHAR = '8'
};

enum {
    MANIFEST_LEAST = sizeof(magic) + 8 + 4 + 8,
    CHUNK_RECORD = 8 + 8 + 4 + 8,
    INDEX_RECORD_LEAST = 1 + 1 + 1 + 1,
    ROWS_MAX = 1 << 30
};

// ---- metas ---------------------------------------------------------------------------------------------------------

TableMeta *meta_new(const char *name, u64 id, u64 version, int n_columns, int n_chunks)
{
    Arena *arena = arena_new(NULL, "table meta");
    TableMeta *meta = arena_make(arena, TableMeta);
    *meta = (TableMeta){ .arena = arena, .id = id, .version = version, .n_columns = n_columns, .n_chunks = n_chunks };
    meta->name = arena_strdup(arena, name);
    meta->columns = arena_array(arena, ColumnMeta, n_columns);
    meta->chunks = arena_array(arena, ChunkFile, n_chunks);
    return meta;
}

TableMeta *meta_copy(const TableMeta *meta, int n_chunks)
{
    TableMeta *copy = meta_new(meta->name, meta->id, meta->version, meta->n_columns, n_chunks);
    for (int i = 0; i < meta->n_columns; i++) {
        copy->columns[i] = meta->columns[i];
        copy->columns[i].name = arena_strdup(copy->arena, meta->columns[i].name);
    }
    for (int i = 0; i < MIN_OF(n_chunks, meta->n_chunks); i++)
        copy->chunks[i] = meta->chunks[i];
    meta_set_indexes(copy, meta->indexes, meta->n_indexes);
    copy->traits = meta->traits;
    return copy;
}

void meta_set_scale(TableMeta *meta, const Table *table, int column, int scale)
{
    ASSERT(table->columns[column].is_free && scale <= NUMERIC_DIGITS);
    meta->columns[column].type.scale = meta->columns[table->columns[column].low].type.scale = (u8)scale;
}

void meta_set_indexes(TableMeta *meta, const IndexDef *indexes, int n_indexes)
{
    meta->n_indexes = n_indexes;
    meta->indexes = arena_array(meta->arena, IndexDef, n_indexes);
    for (int i = 0; i < n_indexes; i++) {
        meta->indexes[i] = indexes[i];
        if (indexes[i].name)
            meta->indexes[i].name = arena_strdup(meta->arena, indexes[i].name);
    }
}

void meta_free(TableMeta *meta)
{
    if (meta)
        arena_free(meta->arena);
}

// ---- writing -------------------------------------------------------------------------------------------------------

static void put(Text *out, const void *bytes, size_t length)
{
    text_add_bytes(out, bytes, length);
}

static void put_u8(Text *out, u8 number)
{
    put(out, &number, sizeof(number));
}

static void put_u32(Text *out, u32 number)
{
    put(out, &number, sizeof(number));
}

static void put_u64(Text *out, u64 number)
{
    put(out, &number, sizeof(number));
}

static void put_name(Text *out, const char *name)
{
    size_t length = strlen(name);
    ASSERT(length > 0 && length <= NAME_BYTES_MAX);
    put_u8(out, (u8)length);                                // names have at most 63 bytes
    put(out, name, length);
}

static void put_column(Text *out, const ColumnMeta *column)
{
    put_name(out, column->name);
    put_u8(out, column->type.kind);
    put_u8(out, column->type.precision);
    put_u8(out, column->type.scale);
    put_u8(out, column->not_null);
    if (column->type.kind != TYPE_TEXT)
        return;
    put_u64(out, column->dict.file_id);
    put_u64(out, column->dict.length);
    put_u32(out, column->dict.count);
    put_u64(out, column->dict.checksum);
}

static void put_index(Text *out, const IndexDef *index)
{
    put_name(out, index->name);
    put_u8(out, index->kind);
    put_u8(out, index->n_columns);
    for (int i = 0; i < index->n_columns; i++)
        put_u32(out, index->columns[i]);
}

static void put_traits(Text *out, const TableMeta *meta)
{
    const TableTraits *traits = &meta->traits;
    put_u8(out, traits->kind);
    if (traits->kind == TABLE_STREAM) {
        put_u64(out, (u64)traits->retain_us);
        put_u64(out, traits->first_row);
        for (int i = 0; i < meta->n_chunks; i++) {
            put_u64(out, (u64)meta->chunks[i].arrived_first);
            put_u64(out, (u64)meta->chunks[i].arrived_last);
        }
    } else if (traits->kind == TABLE_STATE) {
        put_u64(out, traits->position);
        put_u64(out, traits->n_late);
        put_u8(out, traits->has_latest);
        put_u64(out, (u64)traits->latest);
    }
}

static void put_table(Text *out, const TableMeta *meta, u8 version)
{
    put_u64(out, meta->id);
    put_u64(out, meta->version);
    put_name(out, meta->name);
    put_u32(out, (u32)meta->n_columns);
    for (int i = 0; i < meta->n_columns; i++)
        put_column(out, &meta->columns[i]);
    put_u32(out, (u32)meta->n_chunks);
    for (int i = 0; i < meta->n_chunks; i++) {
        put_u64(out, meta->chunks[i].file_id);
        put_u64(out, meta->chunks[i].length);
        put_u32(out, meta->chunks[i].n_rows);
        put_u64(out, meta->chunks[i].checksum);
    }
    if (version > VERSION_WITHOUT_INDEXES) {
        put_u32(out, (u32)meta->n_indexes);
        for (int i = 0; i < meta->n_indexes; i++)
            put_index(out, &meta->indexes[i]);
    }
    if (version > VERSION_WITHOUT_TRAITS)
        put_traits(out, meta);
}

static bool has_free_column(const TableMeta *meta)
{
    for (int i = 0; i < meta->n_columns; i++)
        if (type_is_free_numeric(meta->columns[i].type))
            return true;
    return false;
}

static bool has_char_column(const TableMeta *meta)
{
    for (int i = 0; i < meta->n_columns; i++)
        if (type_is_char(meta->columns[i].type))
            return true;
    return false;
}

static u8 version_to_write(const TableMeta *const *tables, int n_tables, bool has_views)
{
    u8 version = has_views ? VERSION_WITHOUT_TRAITS : VERSION_WITHOUT_INDEXES;
    for (int i = 0; i < n_tables; i++) {
        if (has_char_column(tables[i]))
            return (u8)magic[sizeof(magic) - 1];
        if (tables[i]->traits.kind != TABLE_PLAIN)
            version = MAX_OF(version, VERSION_WITHOUT_CHAR);
        else if (has_free_column(tables[i]))
            version = MAX_OF(version, VERSION_WITHOUT_VIEWS);
        else if (tables[i]->n_indexes > 0)
            version = MAX_OF(version, VERSION_WITHOUT_FREE);
    }
    return version;
}

void manifest_encode(const TableMeta *const *tables, int n_tables, u64 next_id, bool has_views, Text *out)
{
    const u8 version = version_to_write(tables, n_tables, has_views);
    put(out, magic, sizeof(magic) - 1);
    put_u8(out, version);
    put_u64(out, next_id);
    put_u32(out, (u32)n_tables);
    if (version > VERSION_WITHOUT_TRAITS)
        put_u8(out, has_views);
    for (int i = 0; i < n_tables; i++) {
        ASSERT(i == 0 || strcmp(tables[i - 1]->name, tables[i]->name) < 0);
        put_table(out, tables[i], version);
    }
    put_u64(out, hash_bytes(out->bytes, out->length));
}

// ---- reading -------------------------------------------------------------------------------------------------------

// A cursor that remembers its own failure: past the end, everything reads as 0.
typedef struct Cursor {
    const u8 *at, *end;
    bool      is_bad;
} Cursor;

static void get(Cursor *cursor, void *to, size_t length)
{
    cursor->is_bad |= (size_t)(cursor->end - cursor->at) < length;
    if (cursor->is_bad) {
        memset(to, 0, length);
        return;
    }
    memcpy(to, cursor->at, length);
    cursor->at += length;
}

static u8 get_u8(Cursor *cursor)
{
    u8 number;
    get(cursor, &number, sizeof(number));
    return number;
}

static u32 get_u32(Cursor *cursor)
{
    u32 number;
    get(cursor, &number, sizeof(number));
    return number;
}

static u64 get_u64(Cursor *cursor)
{
    u64 number;
    get(cursor, &number, sizeof(number));
    return number;
}

static u64 get_id(Cursor *cursor, u64 next_id)
{
    u64 id = get_u64(cursor);
    cursor->is_bad |= id == 0 || id >= next_id;
    return id;
}

static void get_name(Cursor *cursor, char name[NAME_BYTES_MAX + 1])
{
    u8 length = get_u8(cursor);
    cursor->is_bad |= length == 0 || length > NAME_BYTES_MAX;
    if (cursor->is_bad)
        length = 0;
    get(cursor, name, length);
    name[length] = '\0';
    cursor->is_bad |= utf8_valid_length(name, length) < length;
}

static bool is_low_words(const ColumnMeta *column)
{
    return column->type.kind == TYPE_NUMERIC && column->type.precision == 0;
}

static void get_column(Cursor *cursor, Arena *arena, u64 next_id, ColumnMeta *column)
{
    char name[NAME_BYTES_MAX + 1];
    get_name(cursor, name);
    column->name = arena_strdup(arena, name);
    column->type.kind = get_u8(cursor);
    column->type.precision = get_u8(cursor);
    column->type.scale = get_u8(cursor);
    u8 not_null = get_u8(cursor);
    column->not_null = not_null;
    cursor->is_bad |= not_null > 1 || (!type_is_storable(column->type) && !is_low_words(column));
    if (column->type.kind != TYPE_TEXT)
        return;
    column->dict.file_id = get_id(cursor, next_id);
    column->dict.length = get_u64(cursor);
    column->dict.count = get_u32(cursor);
    column->dict.checksum = get_u64(cursor);
    cursor->is_bad |= column->dict.count > DICT_MAX || (column->dict.length == 0) != (column->dict.count == 0);
}

static void get_chunk(Cursor *cursor, u64 next_id, ChunkFile *chunk)
{
    chunk->file_id = get_id(cursor, next_id);
    chunk->length = get_u64(cursor);
    chunk->n_rows = get_u32(cursor);
    chunk->checksum = get_u64(cursor);
    cursor->is_bad |= chunk->n_rows == 0 || chunk->n_rows > ROWS_MAX;
}

static bool has_twin_columns(const TableMeta *meta)
{
    for (int i = 0; i < meta->n_columns; i++)
        for (int j = 0; j < i && !is_low_words(&meta->columns[i]); j++)
            if (strcmp(meta->columns[i].name, meta->columns[j].name) == 0)
                return true;
    return false;
}

// Low words come last, one column for each numeric, in their order.  They go by its name, which is not relied on: a
// column was once renamed without them.
static bool has_lost_words(const TableMeta *meta)
{
    int n_columns = 0;
    while (n_columns < meta->n_columns && !is_low_words(&meta->columns[n_columns]))
        n_columns++;
    int low = n_columns;
    for (int i = 0; i < n_columns; i++) {
        if (meta->columns[i].type.kind != TYPE_NUMERIC)
            continue;
        if (low == meta->n_columns || !is_low_words(&meta->columns[low]))
            return true;
        if (type_is_free_numeric(meta->columns[i].type) && meta->columns[low].type.scale != meta->columns[i].type.scale)
            return true;
        low++;
    }
    return low != meta->n_columns;
}

static void get_index(Cursor *cursor, TableMeta *meta, IndexDef *index)
{
    char name[NAME_BYTES_MAX + 1];
    get_name(cursor, name);
    index->name = arena_strdup(meta->arena, name);
    index->kind = get_u8(cursor);
    index->n_columns = get_u8(cursor);
    cursor->is_bad |= index->kind > INDEX_PRIMARY_KEY || index->n_columns > INDEX_COLUMNS_MAX ||
                      (index->kind != INDEX_PLAIN && index->n_columns == 0);
    for (int i = 0; i < index->n_columns && !cursor->is_bad; i++) {
        const u32 column = get_u32(cursor);
        cursor->is_bad |= column >= (u32)meta->n_columns || is_low_words(&meta->columns[column]);
        index->columns[i] = (u16)column;
    }
}

static void get_indexes(Cursor *cursor, TableMeta *meta)
{
    const u32 n_indexes = get_u32(cursor);
    cursor->is_bad |= n_indexes > (size_t)(cursor->end - cursor->at) / INDEX_RECORD_LEAST;
    if (cursor->is_bad)
        return;
    meta->n_indexes = (int)n_indexes;
    meta->indexes = arena_array(meta->arena, IndexDef, n_indexes);
    for (int i = 0; i < meta->n_indexes && !cursor->is_bad; i++)
        get_index(cursor, meta, &meta->indexes[i]);
}

// Row numbers are far from overflow, whatever is added to them.
static u64 get_row_number(Cursor *cursor)
{
    const u64 row = get_u64(cursor);
    cursor->is_bad |= row >= 1ull << 62;
    return row;
}

static void get_stream(Cursor *cursor, TableMeta *meta)
{
    meta->traits.retain_us = (i64)get_u64(cursor);
    meta->traits.first_row = get_row_number(cursor);
    cursor->is_bad |= meta->traits.retain_us < 0;
    for (int i = 0; i < meta->n_chunks; i++) {
        meta->chunks[i].arrived_first = (i64)get_u64(cursor);
        meta->chunks[i].arrived_last = (i64)get_u64(cursor);
    }
}

static void get_traits(Cursor *cursor, TableMeta *meta)
{
    TableTraits *traits = &meta->traits;
    traits->kind = get_u8(cursor);
    cursor->is_bad |= traits->kind > TABLE_STATE;
    if (traits->kind == TABLE_STREAM) {
        get_stream(cursor, meta);
    } else if (traits->kind == TABLE_STATE) {
        traits->position = get_row_number(cursor);
        traits->n_late = get_u64(cursor);
        const u8 has_latest = get_u8(cursor);
        cursor->is_bad |= has_latest > 1;
        traits->has_latest = has_latest == 1;
        traits->latest = (i64)get_u64(cursor);
    }
}

// Where char(n) is now, files of earlier versions have limits of more than TEXT_LENGTH_MAX characters.
static void forget_long_limits(TableMeta *meta)
{
    for (int i = 0; i < meta->n_columns; i++) {
        ColumnMeta *column = &meta->columns[i];
        if (!type_is_char(column->type))
            continue;
        log_warn("column \"%s\" of table \"%s\" is text now: varchar(%d) is longer than %d", column->name, meta->name,
                 type_text_code(column->type), TEXT_LENGTH_MAX);
        column->type = TYPE(TEXT);
    }
}

static TableMeta *get_table(Cursor *cursor, u64 next_id, u8 version_of_file)
{
    char name[NAME_BYTES_MAX + 1];
    u64 id = get_id(cursor, next_id), version = get_u64(cursor);
    get_name(cursor, name);
    u32 n_columns = get_u32(cursor);
    cursor->is_bad |= n_columns == 0 || n_columns > COLUMNS_MAX;
    TableMeta *meta = meta_new(name, id, version, cursor->is_bad ? 0 : (int)n_columns, 0);
    for (int i = 0; i < meta->n_columns && !cursor->is_bad; i++)
        get_column(cursor, meta->arena, next_id, &meta->columns[i]);
    if (version_of_file <= VERSION_WITHOUT_CHAR && !cursor->is_bad)
        forget_long_limits(meta);
    u32 n_chunks = get_u32(cursor);
    cursor->is_bad |= n_chunks > (size_t)(cursor->end - cursor->at) / CHUNK_RECORD;
    if (cursor->is_bad)
        return meta;
    meta->n_chunks = (int)n_chunks;
    meta->chunks = arena_array(meta->arena, ChunkFile, n_chunks);
    for (int i = 0; i < meta->n_chunks; i++)
        get_chunk(cursor, next_id, &meta->chunks[i]);
    if (version_of_file > VERSION_WITHOUT_INDEXES)
        get_indexes(cursor, meta);
    if (version_of_file > VERSION_WITHOUT_TRAITS && !cursor->is_bad)
        get_traits(cursor, meta);
    cursor->is_bad |= has_twin_columns(meta) || has_lost_words(meta);
    return meta;
}

static weft_status check_frame(const char *path, const u8 *bytes, size_t length, Error *err)
{
    u64 checksum;
    bool is_damaged = length < MANIFEST_LEAST || memcmp(bytes, magic, sizeof(magic) - 1) != 0;
    if (!is_damaged) {
        memcpy(&checksum, bytes + length - sizeof(checksum), sizeof(checksum));
        is_damaged = checksum != hash_bytes(bytes, length - sizeof(checksum));
    }
    if (is_damaged)
        return fail(err, WEFT_CORRUPT, -1, "\"%s\" is damaged or not the manifest of a database", path);
    u8 version = bytes[sizeof(magic) - 1];
    if (version < '1' || version > (u8)magic[sizeof(magic) - 1])
        return fail(err, WEFT_UNSUPPORTED, -1, "\"%s\" was written by a version of Weft with another format", path);
    return WEFT_OK;
}

bool manifest_has_views(const void *bytes)
{
    const u8 *manifest = bytes, version = manifest[sizeof(magic) - 1];
    return version > VERSION_WITHOUT_TRAITS ? manifest[MANIFEST_LEAST - 8] == 1 : version > VERSION_WITHOUT_VIEWS;
}

weft_status manifest_decode(const char *path, const void *bytes, size_t length, Arena *arena, TableMeta ***tables,
                            int *n_tables, u64 *next_id, Error *err)
{
    *tables = NULL;
    *n_tables = 0;
    TRY(check_frame(path, bytes, length, err));
    Cursor cursor = { (const u8 *)bytes + sizeof(magic), (const u8 *)bytes + length - sizeof(u64), false };
    *next_id = get_u64(&cursor);
    cursor.is_bad |= *next_id == 0 || *next_id > DISK_IDS;
    u32 n_wanted = get_u32(&cursor);
    const char *last = "";
    const u8 version = ((const u8 *)bytes)[sizeof(magic) - 1];
    if (version > VERSION_WITHOUT_TRAITS)
        cursor.is_bad |= get_u8(&cursor) > 1;
    for (u32 i = 0; i < n_wanted && !cursor.is_bad; i++) {
        TableMeta *meta = get_table(&cursor, *next_id, version);
        *LIST_PUSH(arena, *tables, *n_tables) = meta;
        cursor.is_bad |= version <= VERSION_WITHOUT_FREE && has_free_column(meta);
        cursor.is_bad |= strcmp(last, meta->name) >= 0;     // sorted, so no two are equal
        last = meta->name;
    }
    if (!cursor.is_bad && cursor.at == cursor.end)
        return WEFT_OK;
    for (int i = 0; i < *n_tables; i++)
        meta_free((*tables)[i]);
    *n_tables = 0;
    return fail(err, WEFT_CORRUPT, -1, "\"%s\" is damaged", path);
}
