// store_target.h - a small database on disk of which a target damages one file.
//
// The database is made once, its files are kept in memory, and each input gets a directory with all of them, one
// replaced.  A checksum keeps out accidents, which would be all that libFuzzer tries; so the targets can sign what they
// damaged: they write the right checksums over it, and what reads the file behind the checksums is tested, too.

#ifndef WEFT_FUZZ_STORE_TARGET_H
#define WEFT_FUZZ_STORE_TARGET_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target.h"

enum { FILES_MOST = 16, STORE_ROWS = 70, STORE_MEMORY = 256 << 20, STORE_INPUT_MOST = 1 << 14 };

typedef struct StoreFile { char name[64]; char *bytes; size_t length; } StoreFile;

static char      store_path_text[256];
static StoreFile files[FILES_MOST];
static int       n_files;
static Budget    budget = { .limit = STORE_MEMORY };

static const ColumnDef store_columns[] = {
    { "a", TYPE(INTEGER), true },  { "b", TYPE(TEXT), false },     { "d", TYPE(DATE), false },
    { "f", TYPE(DOUBLE), false },  { "r", TYPE(REAL), false },     { "k", TYPE(BOOLEAN), false },
    { "w", { .kind = TYPE_NUMERIC, .precision = 30, .scale = 5 }, false },
};
enum { STORE_COLUMNS = COUNT_OF(store_columns), STORE_STORED = STORE_COLUMNS + 1 };

static inline void in_store(char path[512], const char *name)
{
    snprintf(path, 512, "%s/%s", store_path_text, name);
}

static inline void append_sample(Store *store)
{
    i64    a[STORE_ROWS], b[STORE_ROWS], d[STORE_ROWS], k[STORE_ROWS], w[STORE_ROWS], low[STORE_ROWS];
    double f[STORE_ROWS], r[STORE_ROWS];
    u8     is_null[STORE_ROWS];
    Append *append;
    u64    n_rows;
    Error  err;
    error_clear(&err);
    require_ok(append_begin(store, "t", &append, &err), &err);
    for (int i = 0; i < STORE_ROWS; i++) {
        char text[32];
        u32  code;
        const int length = snprintf(text, sizeof text, i % 9 ? "text %d" : "\xc3\xa9%d", i % 20);
        require_ok(dict_intern(append_table(append)->columns[1].dict, text, (size_t)length, &code, &err), &err);
        a[i] = i * 3, b[i] = code, d[i] = 20000 + i % 7, k[i] = i & 1, w[i] = i % 3 - 1, low[i] = i * 1000003;
        f[i] = i * 0.25, r[i] = i % 5, is_null[i] = i % 11 == 0;
        if (is_null[i]) b[i] = 0, d[i] = 0, f[i] = 0, w[i] = 0, low[i] = 0;
    }
    const ColumnInput inputs[STORE_STORED] = {
        { .i = a }, { .i = b, .is_null = is_null }, { .i = d, .is_null = is_null }, { .f = f, .is_null = is_null },
        { .f = r }, { .i = k }, { .i = w, .is_null = is_null }, { .i = low, .is_null = is_null },
    };
    require_ok(append_rows(append, 0, inputs, STORE_ROWS, &err), &err);
    require_ok(append_commit(append, &n_rows, &err), &err);
}

static inline void empty_store(bool and_remove)
{
    struct dirent *entry;
    char path[512];
    DIR *dir = opendir(store_path_text);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.') in_store(path, entry->d_name), unlink(path);
    if (dir) closedir(dir);
    if (and_remove) rmdir(store_path_text);
}

static inline void remove_store(void) { empty_store(true); }

static inline void keep_file(const char *name)
{
    char path[512];
    struct stat status;
    in_store(path, name);
    if (stat(path, &status) || strcmp(name, "lock") == 0 || strcmp(name, "manifest.new") == 0) return;
    require(n_files < FILES_MOST, "the database has few files");
    StoreFile *file = &files[n_files++];
    FILE *stream = fopen(path, "rb");
    snprintf(file->name, sizeof file->name, "%s", name);
    file->length = (size_t)status.st_size;
    file->bytes = malloc(file->length + 1);
    require(stream && fread(file->bytes, 1, file->length, stream) == file->length, "a file can be read");
    fclose(stream);
}

// Makes the database and keeps its files, once.
static inline void store_target_begin(void)
{
    static const char *const view_names[] = { "x", "y" }, *const view_types[] = { "integer", "text" },
                      *const view_uses[] = { "t" };
    const ViewDef view = { .name = "v", .text = "select a as x, b as y from t", .n_columns = 2, .n_uses = 1,
                           .columns = (const char **)view_names, .types = (const char **)view_types,
                           .uses = (const char **)view_uses };
    struct dirent *entry;
    Store *store;
    Error err;
    error_clear(&err);
    if (n_files) return;
    setenv("WEFT_LOG", "error", 0);                         // damage is what it is about
    const char *scratch = getenv("TMPDIR");
    if (!scratch) scratch = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(store_path_text, sizeof store_path_text, "%s/weft-fuzz-%d.weft", scratch, (int)getpid());
    atexit(remove_store);
    require_ok(store_open(store_path_text, &budget, &store, &err), &err);
    require_ok(store_create_table(store, "t", store_columns, STORE_COLUMNS, &err), &err);
    require_ok(store_create_table(store, "u", store_columns, 2, &err), &err);
    require_ok(store_create_view(store, &view, false, &err), &err);
    append_sample(store);
    store_close(store);
    DIR *dir = opendir(store_path_text);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') keep_file(entry->d_name);
    closedir(dir);
}

static inline const StoreFile *kept_file(const char *suffix)
{
    for (int i = 0; i < n_files; i++) {
        const size_t length = strlen(files[i].name), n = strlen(suffix);
        if (length >= n && strcmp(files[i].name + length - n, suffix) == 0) return &files[i];
    }
    require(false, "the database has such a file");
    return NULL;
}

// Where WEFT_FUZZ_SEEDS names a directory, the seeds go there: files of the database as it is now, behind a byte that
// chooses, without the last CUT bytes.
static inline void write_seed(const char *name, u8 choice, const StoreFile *file, size_t cut)
{
    char path[1024];
    const char *directory = getenv("WEFT_FUZZ_SEEDS");
    if (!directory) return;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *stream = fopen(path, "wb");
    require(stream && fputc(choice, stream) == choice, "a seed can be written");
    require(fwrite(file->bytes, 1, file->length - cut, stream) == file->length - cut, "a seed can be written");
    fclose(stream);
}

static inline void write_file(const char *name, const void *bytes, size_t length)
{
    char path[512];
    in_store(path, name);
    FILE *stream = fopen(path, "wb");
    require(stream && fwrite(bytes, 1, length, stream) == length, "a file can be written");
    fclose(stream);
}

// All files, but those of this name with other bytes.
static inline void make_store(const char *damaged, const void *bytes, size_t length)
{
    empty_store(false);
    for (int i = 0; i < n_files; i++)
        if (strcmp(files[i].name, damaged) != 0) write_file(files[i].name, files[i].bytes, files[i].length);
    write_file(damaged, bytes, length);
}

// What the manifest of the database says; the caller frees the arena, and the metas with meta_free.
typedef struct KeptManifest {
    Arena      *arena;
    TableMeta **tables;
    int         n_tables;
    u64         next_id;
    bool        has_views;
} KeptManifest;

static inline KeptManifest kept_manifest(void)
{
    const StoreFile *file = kept_file("manifest");
    KeptManifest kept = { .arena = arena_new(NULL, "fuzz") };
    Error err;
    error_clear(&err);
    require_ok(manifest_decode("manifest", file->bytes, file->length, kept.arena, &kept.tables, &kept.n_tables,
                               &kept.next_id, &err), &err);
    kept.has_views = manifest_has_views(file->bytes);
    return kept;
}

static inline void write_manifest(KeptManifest *kept)
{
    Text text = { 0 };
    manifest_encode((const TableMeta *const *)kept->tables, kept->n_tables, kept->next_id, kept->has_views,
                    &text);
    write_file("manifest", text.bytes, text.length);
    text_free(&text);
}

static inline void forget_manifest(KeptManifest *kept)
{
    for (int i = 0; i < kept->n_tables; i++) meta_free(kept->tables[i]);
    arena_free(kept->arena);
}

// ---- reading all of it ----------------------------------------------------------------------------------------------

// Signed damage may lie about what a column holds, so the numbers are read and not believed.
static inline u64 sum_of_table(const Table *table)
{
    u64 sum = 0;
    for (int c = 0; c < table->n_chunks; c++)
        for (int i = 0; i < table->n_stored; i++) {
            const ColumnChunk *chunk = &table->chunks[c]->columns[i];
            for (u32 row = 0; row < table->chunks[c]->n_rows; row++)
                sum += is_null_row(chunk, row) ? 1 : (u64)chunk->base + stored_number(chunk, row);
        }
    return sum;
}

static inline void read_texts(const Column *column)
{
    u32 code;
    const u32 *ranks = dict_ranks(column->dict, column->dict_count);
    for (u32 i = 0; i < column->dict_count; i++) {
        const weft_text text = dict_get(column->dict, i);
        require(text.bytes[text.length] == '\0', "a text ends");
        require(dict_find(column->dict, text.bytes, text.length, &code), "a text is found");
        const weft_text found = dict_get(column->dict, code);
        require(found.length == text.length && memcmp(found.bytes, text.bytes, text.length) == 0, "it is that text");
        require(!ranks || ranks[i] < column->dict_count, "a rank is one of as many as there are texts");
    }
    dict_ranks_release(column->dict, ranks);
}

typedef enum Trust { MAY_LIE, IS_TRUE } Trust;              // what the statistics of the chunks are

static inline weft_status read_table(Store *store, const char *name, Trust trust)
{
    const Table *table;
    Error err;
    error_clear(&err);
    const weft_status status = store_get_table(store, name, &table, &err);
    require_told(status, &err);
    if (status) return status;
    static volatile u64 sum;
    sum = sum_of_table(table);
    (void)sum;
    if (trust == IS_TRUE) check_table(table);
    for (int i = 0; i < table->n_columns; i++) {
        (void)table_column_range(table, i);
        require(table_distinct(table, i) <= (double)table->n_rows, "there are no more values than rows");
        if (table->columns[i].dict) read_texts(&table->columns[i]);
    }
    table_release(table);
    return WEFT_OK;
}

static inline void read_views(Store *store, Arena *arena)
{
    const ViewDef *views;
    int n_views;
    store_list_views(store, arena, &views, &n_views);
    for (int i = 0; i < n_views; i++)
        require(store_view(store, arena, views[i].name) != NULL, "a view in the list is there");
}

// Opens the database, reads every table, makes and drops one; the first error, or OK.
static inline weft_status use_store(Trust trust)
{
    Store *store;
    const char **names;
    int n_names;
    Error err;
    error_clear(&err);
    weft_status first = store_open(store_path_text, &budget, &store, &err);
    require_told(first, &err);
    if (first) return first;
    Arena *arena = arena_new(NULL, "fuzz");
    require_ok(store_list(store, arena, &names, &n_names), &err);
    for (int i = 0; i < n_names; i++) {
        const weft_status status = read_table(store, names[i], trust);
        if (!first) first = status;
    }
    read_views(store, arena);
    weft_status status = store_create_table(store, "another", store_columns, 2, &err);
    require_told(status, &err);
    error_clear(&err);
    if (n_names) require_told(store_drop_table(store, names[0], &err), &err);
    arena_free(arena);
    store_close(store);
    require(atomic_load(&budget.used) == 0, "a closed database holds no memory");
    return first;
}

#endif
