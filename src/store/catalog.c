// catalog.c - the store: which tables there are, and how a change of that becomes lasting.
//
//     sales.weft/  lock              flock: one process at a time
//                  manifest          which tables, which files (manifest.c)
//                  1f.chunk, ...     rows (chunk.c), never changed once written
//                  2.dict, ...       dictionaries (dict_file.c), only ever longer
//
// A change writes and syncs its new chunks as 1f.chunk.new, then writes manifest.new, syncs it, gives the chunks their
// names, renames manifest.new over manifest, and syncs the directory.  That rename is the moment: before it the old
// state holds, in memory and on disk; after it the new.
//
// What a crash leaves goes at the next open: *.chunk.new; what a whole manifest.new names and manifest does not; and
// what is older than the manifest (ids below its next one) and not in it.  Files that are newer than the manifest and
// that nothing explains stay: somebody may have put an older manifest back.
//
// Between changes manifest.new is a spare: space on disk for the next manifest, so that DROP TABLE works on a full
// disk.
//
// One case is left: the rename worked, but the directory could not be synced.  Then it is not known which manifest a
// crash would leave, so we put the old one back and report the failure.  If even that fails, the change is in doubt: in
// memory the old state goes on, and nothing that either state needs is touched until a manifest has been written for
// good (store_settle).
//
// Tables are loaded when first asked for: opening a database reads the manifest only.
// Locks: commit_lock (changes, slow, one at a time) before lock (the catalog, short).  Readers take only the latter.

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <fcntl.h>
#include <unistd.h>

#include "store/store_int.h"

enum {
    SPARE_BYTES = 16 << 10,                                 // of manifest.new between changes, at least
    WAKE_MS = 20,
};

// ---- files ---------------------------------------------------------------------------------------------------------

static const char *const suffixes[] = { [FILE_CHUNK] = "chunk", [FILE_DICT] = "dict" };

static const char *named_path(const Store *store, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", store->path, name); // open has seen to it that this fits
    return path;
}

static void file_name(FileKind kind, u64 id, char name[32])
{
    ASSERT((unsigned)kind < (unsigned)COUNT_OF(suffixes) && id != 0);
    snprintf(name, 32, "%llx.%s", (unsigned long long)id, suffixes[kind]);
}

const char *store_file_path(const Store *store, FileKind kind, u64 id, char path[PATH_BYTES])
{
    char name[32];
    path[0] = '\0';
    if (!store->path)
        return path;
    file_name(kind, id, name);
    return named_path(store, name, path);
}

const char *store_new_chunk_path(const Store *store, u64 id, char path[PATH_BYTES])
{
    store_file_path(store, FILE_CHUNK, id, path);
    strcat(path, NEW_SUFFIX);                               // open has seen to it that this fits
    return path;
}

void store_remove_file(const Store *store, FileKind kind, u64 id)
{
    char path[PATH_BYTES];
    if (store->path)
        (void)file_remove(store_file_path(store, kind, id, path), NULL);
}

// Whether it is named as our chunks and dictionaries are.
static bool is_data_file(const char *name)
{
    const char *dot = strchr(name, '.');
    if (!dot || dot == name || strspn(name, "0123456789abcdef") != (size_t)(dot - name))
        return false;
    return strcmp(dot + 1, suffixes[FILE_CHUNK]) == 0 || strcmp(dot + 1, suffixes[FILE_DICT]) == 0;
}

// A chunk that was never committed: 1f.chunk.new.
static bool is_new_chunk(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot && dot != name && strspn(name, "0123456789abcdef") == (size_t)(dot - name) &&
           strcmp(dot, ".chunk" NEW_SUFFIX) == 0;
}

// ---- the manifest's way to disk ------------------------------------------------------------------------------------

// Over the spare, whose blocks are there already.
static weft_status write_new_manifest(const char *path, const Text *bytes, Error *err)
{
    File file;
    TRY(file_open_over(path, &file, err));
    weft_status status = file_write(&file, bytes->bytes, bytes->length, err);
    if (!status)
        status = file_truncate(&file, bytes->length, err);
    if (!status)
        status = file_sync(&file, err);
    file_close(&file);
    return status;
}

// Takes space for the next manifest.  A wish: without it a full disk refuses the next change, as any other.
static void make_spare(const Store *store, size_t bytes)
{
    char path[PATH_BYTES];
    int fd = open(named_path(store, "manifest.new", path), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    (void)posix_fallocate(fd, 0, (off_t)MAX_OF(bytes + bytes / 4, (size_t)SPARE_BYTES));
    close(fd);
}

// Chunks of the new state get their names once the manifest that names them is on disk: see sweep.
static weft_status name_chunks(const Store *store, const TableMeta *meta, Error *err)
{
    for (int i = 0; meta && i < meta->n_chunks; i++) {
        char from[PATH_BYTES], to[PATH_BYTES];
        store_new_chunk_path(store, meta->chunks[i].file_id, from);
        if (file_exists(from))
            TRY(file_rename(from, store_file_path(store, FILE_CHUNK, meta->chunks[i].file_id, to), err));
    }
    return WEFT_OK;
}

static weft_status replace_manifest(Store *store, const Text *bytes, const TableMeta *meta, bool *is_renamed,
                                    Error *err)
{
    char fresh[PATH_BYTES], path[PATH_BYTES];
    named_path(store, "manifest.new", fresh);
    TRY(write_new_manifest(fresh, bytes, err));
    TRY(name_chunks(store, meta, err));
    TRY(dir_sync(store->path, err));                        // the names of the new files last before they are relied on
    TRY(file_rename(fresh, named_path(store, "manifest", path), err));
    *is_renamed = true;
    TRY(dir_sync(store->path, err));
    make_spare(store, bytes->length);
    return WEFT_OK;
}

// The metas of all tables, CHANGED's replaced by META (NULL: left out); sorted as the entries are.
static int collect_metas(const Store *store, const TableEntry *changed, const TableMeta *meta, const TableMeta **metas)
{
    int n = 0;
    for (int i = 0; i < store->n_entries; i++)
        if (store->entries[i] != changed)
            metas[n++] = store->entries[i]->meta;
    if (!meta)
        return n;
    int at = n++;
    for (; at > 0 && strcmp(metas[at - 1]->name, meta->name) > 0; at--)
        metas[at] = metas[at - 1];
    metas[at] = meta;
    return n;
}

static weft_status write_manifest(Store *store, const TableEntry *changed, const TableMeta *meta, bool *is_renamed,
                                  Error *err)
{
    Arena *arena = arena_new(NULL, "manifest");
    const TableMeta **metas = arena_array(arena, const TableMeta *, store->n_entries + 1);
    int n_metas = collect_metas(store, changed, meta, metas);
    Text bytes = { 0 };
    manifest_encode(metas, n_metas, store->next_id, store->has_views, &bytes);
    weft_status status = replace_manifest(store, &bytes, meta, is_renamed, err);
    text_free(&bytes);
    arena_free(arena);
    return status;
}

weft_status store_check_writable(const Store *store, Error *err)
{
    if (!store->is_read_only)
        return WEFT_OK;
    fail(err, WEFT_READ_ONLY, -1, "the database in \"%s\" can only be read", store->path);
    error_hint(err, "Its directory does not let this user write.");
    return WEFT_READ_ONLY;
}

weft_status store_settle(Store *store, Error *err)
{
    bool is_renamed = false;
    ASSERT(mutex_is_held(&store->commit_lock));
    if (store->is_in_doubt)
        TRY(write_manifest(store, NULL, NULL, &is_renamed, err));
    store->is_in_doubt = false;
    return WEFT_OK;
}

weft_status store_switch(Store *store, const TableEntry *changed, const TableMeta *meta, Error *err)
{
    bool is_renamed = false;
    ASSERT(mutex_is_held(&store->commit_lock) && !store->is_in_doubt);
    if (!store->path)
        return WEFT_OK;
    TRY(store_check_writable(store, err));
    weft_status status = write_manifest(store, changed, meta, &is_renamed, err);
    if (!status || !is_renamed)
        return status;
    store->is_in_doubt = true;
    if (store_settle(store, NULL))
        error_hint(err, "The change may or may not be there when the database is next opened.");
    return status;
}

// ---- entries -------------------------------------------------------------------------------------------------------

static TableEntry *entry_new(TableMeta *meta)
{
    Arena *arena = arena_new(NULL, "table");
    TableEntry *entry = arena_make(arena, TableEntry);
    *entry = (TableEntry){ .arena = arena, .n_users = 1, .meta = meta };
    entry->name = arena_strdup(arena, meta->name);
    pthread_mutex_init(&entry->load_lock, NULL);
    return entry;
}

static void entry_free(TableEntry *entry)
{
    if (entry->current)
        table_release(&entry->current->table);
    meta_free(entry->meta);
    pthread_mutex_destroy(&entry->load_lock);
    arena_free(entry->arena);
}

void store_drop_user(Store *store, TableEntry *entry)
{
    pthread_mutex_lock(&store->lock);
    ASSERT(entry->n_users > 0);
    bool is_last = --entry->n_users == 0;
    pthread_mutex_unlock(&store->lock);
    if (is_last)
        entry_free(entry);
}

// Where the name is, or -1.
static int find_entry(const Store *store, const char *name)
{
    ASSERT(mutex_is_held(&store->lock) || mutex_is_held(&store->commit_lock));
    int low = 0, high = store->n_entries;
    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(store->entries[middle]->name, name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

TableEntry *store_take_entry(Store *store, const char *name)
{
    TableEntry *entry = NULL;
    pthread_mutex_lock(&store->lock);
    int at = find_entry(store, name);
    if (at >= 0) {
        entry = store->entries[at];
        entry->n_users++;
    }
    pthread_mutex_unlock(&store->lock);
    return entry;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp((*(TableEntry *const *)a)->name, (*(TableEntry *const *)b)->name);
}

// Makes a new list, with ADDED and without REMOVED (either may be NULL).
static void change_entries(Store *store, TableEntry *added, const TableEntry *removed)
{
    ASSERT(mutex_is_held(&store->commit_lock));
    Arena *arena = arena_new(NULL, "catalog");
    TableEntry **entries = arena_array(arena, TableEntry *, store->n_entries + 1);
    int n = 0;
    for (int i = 0; i < store->n_entries; i++)
        if (store->entries[i] != removed)
            entries[n++] = store->entries[i];
    if (added)
        entries[n++] = added;
    qsort(entries, (size_t)n, sizeof(*entries), compare_entries);
    pthread_mutex_lock(&store->lock);
    Arena *old = store->arena;
    store->arena = arena;
    store->entries = entries;
    store->n_entries = n;
    pthread_mutex_unlock(&store->lock);
    if (old)
        arena_free(old);
}

weft_status fail_no_table(Error *err, const char *name)
{
    return fail(err, WEFT_UNDEFINED_TABLE, -1, "table \"%s\" does not exist", name);
}

// ---- open and close ------------------------------------------------------------------------------------------------

static weft_status refuse_foreign(const char *path, char **names, int n_names, Error *err)
{
    bool has_data = false, has_other = false;
    for (int i = 0; i < n_names; i++) {
        if (strcmp(names[i], "manifest") == 0)
            return WEFT_OK;
        bool is_start = strcmp(names[i], "lock") == 0 || strcmp(names[i], "manifest.new") == 0;   // a crash at birth
        has_data |= is_data_file(names[i]);
        has_other |= !is_start;
    }
    if (has_data)
        return fail(err, WEFT_CORRUPT, -1, "database \"%s\" has lost its manifest", path);
    if (!has_other)
        return WEFT_OK;
    fail(err, WEFT_IO_ERROR, -1, "directory \"%s\" is not empty and not a database", path);
    error_hint(err, "Give the name of a database, or of a directory that is empty or does not exist yet.");
    return WEFT_IO_ERROR;
}

static weft_status read_manifest(Store *store, Arena *scratch, Error *err)
{
    char path[PATH_BYTES];
    Text bytes = { 0 };
    TableMeta **metas = NULL;
    int n_metas = 0;
    u64 next_id = 1;
    named_path(store, "manifest", path);
    weft_status status = file_read_all(path, &bytes, err);
    if (!status)
        status = manifest_decode(path, bytes.bytes, bytes.length, scratch, &metas, &n_metas, &next_id, err);
    store->has_views = !status && manifest_has_views(bytes.bytes);
    text_free(&bytes);
    TRY(status);
    store->next_id = next_id;
    store->arena = arena_new(NULL, "catalog");
    store->entries = arena_array(store->arena, TableEntry *, n_metas);
    store->n_entries = n_metas;
    for (int i = 0; i < n_metas; i++)
        store->entries[i] = entry_new(metas[i]);
    return WEFT_OK;
}

static void note_file(Map *known, FileKind kind, u64 id)
{
    char name[32];
    file_name(kind, id, name);
    map_set(known, name, strlen(name), 1);
}

// A dictionary counts even while it is empty: a later state of the same table goes on in its file.
static void note_files(Map *known, const TableMeta *meta)
{
    for (int c = 0; c < meta->n_chunks; c++)
        note_file(known, FILE_CHUNK, meta->chunks[c].file_id);
    for (int c = 0; c < meta->n_columns; c++)
        if (meta->columns[c].type.kind == TYPE_TEXT)
            note_file(known, FILE_DICT, meta->columns[c].dict.file_id);
}

static bool is_in(const Map *map, const char *name)
{
    u64 ignored;
    return map_get(map, name, strlen(name), &ignored);
}

// A change was interrupted before its manifest became the current one.  Its files are not needed.
static void note_interrupted(const Store *store, Arena *scratch, Map *interrupted)
{
    char path[PATH_BYTES];
    Text bytes = { 0 };
    TableMeta **metas = NULL;
    int n_metas = 0;
    u64 ignored;
    Error none;
    error_clear(&none);
    named_path(store, "manifest.new", path);
    if (!file_read_all(path, &bytes, &none) &&
        !manifest_decode(path, bytes.bytes, bytes.length, scratch, &metas, &n_metas, &ignored, &none))
        for (int i = 0; i < n_metas; i++) {
            note_files(interrupted, metas[i]);
            meta_free(metas[i]);
        }
    text_free(&bytes);
}

// Removes what a crash left, and nothing that a damaged database might need: see the top of this file.
static void sweep(Store *store, Arena *scratch, char **names, int n_names)
{
    Map *known = map_new(scratch), *interrupted = map_new(scratch);
    const u64 next_id = store->next_id;
    int n_strange = 0;
    for (int i = 0; i < store->n_entries; i++)
        note_files(known, store->entries[i]->meta);
    note_interrupted(store, scratch, interrupted);
    for (int i = 0; i < n_names; i++) {
        char path[PATH_BYTES];
        const bool is_data = is_data_file(names[i]);
        const u64 id = is_data ? strtoull(names[i], NULL, 16) : 0;
        if (is_new_chunk(names[i]) ||
            (is_data && !is_in(known, names[i]) && (id < next_id || is_in(interrupted, names[i])))) {
            (void)file_remove(named_path(store, names[i], path), NULL);
        } else if (is_data && id >= next_id && id < DISK_IDS) {
            n_strange++;
            store->next_id = MAX_OF(store->next_id, id + 1);    // and never written over
        }
    }
    if (n_strange)
        log_warn("\"%s\" has %d files that are newer than its manifest; they are left alone", store->path, n_strange);
}

// A database whose directory we may not write to is read: with other readers, and not beside a writer.
static weft_status lock_store(Store *store, Error *err)
{
    char path[PATH_BYTES], manifest[PATH_BYTES];
    named_path(store, "manifest", manifest);
    const bool may_write = access(store->path, W_OK) == 0 || !file_exists(manifest);
    named_path(store, "lock", path);
    if (may_write)
        return file_lock(path, &store->lock_file, err);
    store->is_read_only = true;
    return file_exists(path) ? file_lock_shared(path, &store->lock_file, err) : WEFT_OK;
}

static weft_status open_in(Store *store, Arena *scratch, Error *err)
{
    char **names, path[PATH_BYTES];
    int n_names;
    bool is_renamed;
    TRY(dir_make(store->path, err));
    TRY(dir_list(scratch, store->path, &names, &n_names, err));
    TRY(refuse_foreign(store->path, names, n_names, err));  // before anything is put into it
    TRY(lock_store(store, err));
    TRY(dir_list(scratch, store->path, &names, &n_names, err));
    if (file_exists(named_path(store, "manifest", path)))
        TRY(read_manifest(store, scratch, err));
    else
        TRY(write_manifest(store, NULL, NULL, &is_renamed, err));
    TRY(views_load(store, err));
    if (store->is_read_only)
        return WEFT_OK;
    sweep(store, scratch, names, n_names);
    make_spare(store, 0);
    return WEFT_OK;
}

static weft_status open_directory(Store *store, Error *err)
{
    if (strlen(store->path) > PATH_BYTES - 64)
        return fail(err, WEFT_IO_ERROR, -1, "path of %zu bytes is too long", strlen(store->path));
    Arena *scratch = arena_new(NULL, "open");
    weft_status status = open_in(store, scratch, err);
    arena_free(scratch);
    return status;
}

// Running queries know tables by their ids, so tables of several stores in memory (of sessions, of files that are
// queried) must have different ones, which no store on disk reaches.
#define MEMORY_IDS  ((u64)1 << 63)
#define PASSING_IDS ((u64)3 << 62)
#define STORES_MASK (((u64)1 << 30) - 1)

static u64 first_memory_id(u64 kind)
{
    static _Atomic u64 n_stores;
    return kind + ((atomic_fetch_add(&n_stores, 1) & STORES_MASK) << 32);
}

bool table_is_passing(const Table *table)
{
    return table->id >= PASSING_IDS;
}

bool store_may_have(const Store *store, u64 table_id)
{
    return store->next_id < MEMORY_IDS ? table_id < MEMORY_IDS : table_id >> 32 == store->next_id >> 32;
}

weft_status store_open_passing(Budget *budget, Store **out, Error *err)
{
    TRY(store_open(NULL, budget, out, err));
    (*out)->next_id = first_memory_id(PASSING_IDS);
    return WEFT_OK;
}

weft_status store_open(const char *path, Budget *budget, Store **out, Error *err)
{
    Arena *home = arena_new(NULL, "store");
    Store *store = arena_make(home, Store);
    store->home = home;
    store->path = path ? arena_strdup(home, path) : NULL;
    store->budget = budget;
    store->lock_file.fd = -1;
    store->next_id = path ? 1 : first_memory_id(MEMORY_IDS);
    store->chunk_rows = CHUNK_ROWS;
    pthread_mutex_init(&store->commit_lock, NULL);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->append_ended, NULL);
    weft_status status = path ? open_directory(store, err) : WEFT_OK;
    if (status)
        store_close(store);
    *out = status ? NULL : store;
    return status;
}

void store_close(Store *store)
{
    if (!store)
        return;
    for (int i = 0; i < store->n_entries; i++) {
        ASSERT(!store->entries[i]->is_appending);
        store_drop_user(store, store->entries[i]);
    }
    if (store->arena)
        arena_free(store->arena);
    views_free(store);
    file_close(&store->lock_file);
    pthread_cond_destroy(&store->append_ended);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->commit_lock);
    arena_free(store->home);
}

const char *store_path(const Store *store)
{
    return store->path;
}

u32 store_chunk_rows(const Store *store)
{
    return store->chunk_rows;
}

// "sales" means sales.weft, unless there is a directory of that very name.
char *store_directory(Arena *arena, const char *name)
{
    size_t length = strlen(name);
    struct stat info;
    bool has_suffix = length > 5 && strcmp(name + length - 5, ".weft") == 0;
    if (has_suffix || (stat(name, &info) == 0 && S_ISDIR(info.st_mode)))
        return arena_strdup(arena, name);
    while (length > 1 && name[length - 1] == '/')
        length--;
    return arena_printf(arena, "%.*s.weft", (int)length, name);
}

void store_set_chunk_rows(Store *store, u32 rows)
{
    store->chunk_rows = MAX_OF(1, MIN_OF(rows, 1u << 30));
}

// ---- loading -------------------------------------------------------------------------------------------------------

typedef struct Loading {                                    // a table half loaded
    Arena       *scratch;
    Dictionary **dicts;
    u32         *dict_counts;
    Column      *columns;                                   // what chunk_check wants to know of them
    const Chunk **chunks;
    int          n_chunks;
} Loading;

static weft_status load_dicts(const Store *store, const TableMeta *meta, Loading *loading, Error *err)
{
    for (int i = 0; i < meta->n_columns; i++) {
        const ColumnMeta *column = &meta->columns[i];
        char path[PATH_BYTES];
        loading->columns[i] = (Column){ .name = column->name, .type = column->type, .not_null = column->not_null };
        if (column->type.kind != TYPE_TEXT)
            continue;
        store_file_path(store, FILE_DICT, column->dict.file_id, path);
        TRY(dict_file_open(path, &column->dict, store->budget, &loading->dicts[i], err));
        loading->columns[i].dict = loading->dicts[i];
        loading->dict_counts[i] = dict_count(loading->dicts[i]);
    }
    return WEFT_OK;
}

static weft_status load_chunks(const Store *store, const TableMeta *meta, Loading *loading, Error *err)
{
    for (int i = 0; i < meta->n_chunks; i++) {
        char path[PATH_BYTES];
        StoredChunk *chunk;
        store_file_path(store, FILE_CHUNK, meta->chunks[i].file_id, path);
        TRY(chunk_map(path, &meta->chunks[i], meta->n_columns, store->budget, &chunk, err));
        loading->chunks[loading->n_chunks++] = &chunk->chunk;
    }
    for (int i = 0; i < meta->n_chunks; i++)
        TRY(chunk_check(chunk_stored(loading->chunks[i]), meta->id, loading->columns, err));
    return WEFT_OK;
}

static weft_status load(const Store *store, const TableMeta *meta, Snapshot **out, Error *err)
{
    Arena *scratch = arena_new(NULL, "load");
    Loading loading = { scratch, arena_array(scratch, Dictionary *, meta->n_columns),
                        arena_array(scratch, u32, meta->n_columns), arena_array(scratch, Column, meta->n_columns),
                        arena_array(scratch, const Chunk *, meta->n_chunks), 0 };
    weft_status status = load_dicts(store, meta, &loading, err);
    if (!status)
        status = load_chunks(store, meta, &loading, err);
    if (!status)
        *out = snapshot_new(meta, loading.dicts, loading.dict_counts, loading.chunks, loading.n_chunks);
    else
        for (int i = 0; i < loading.n_chunks; i++)
            chunk_release(loading.chunks[i]);
    for (int i = 0; i < meta->n_columns; i++)
        dict_release(loading.dicts[i]);
    arena_free(scratch);
    return status;
}

static Snapshot *hold_current(Store *store, TableEntry *entry)
{
    pthread_mutex_lock(&store->lock);
    Snapshot *snapshot = entry->current;
    if (snapshot)
        table_hold(&snapshot->table);
    pthread_mutex_unlock(&store->lock);
    return snapshot;
}

// Commits need a loaded table, so the meta is not replaced while there is no snapshot.
weft_status store_load(Store *store, TableEntry *entry, Snapshot **held, Error *err)
{
    weft_status status = WEFT_OK;
    *held = hold_current(store, entry);
    if (*held)
        return WEFT_OK;
    pthread_mutex_lock(&entry->load_lock);
    if (!(*held = hold_current(store, entry)) && !(status = load(store, entry->meta, held, err))) {
        table_hold(&(*held)->table);
        pthread_mutex_lock(&store->lock);
        entry->current = *held;
        pthread_mutex_unlock(&store->lock);
    }
    pthread_mutex_unlock(&entry->load_lock);
    return status;
}

static weft_status get_snapshot(Store *store, const char *name, bool do_verify, const Table **table, Error *err)
{
    Snapshot *snapshot = NULL;
    *table = NULL;
    TableEntry *entry = store_take_entry(store, name);
    if (!entry)
        return fail_no_table(err, name);
    Error reason;
    error_clear(&reason);
    weft_status status = store_load(store, entry, &snapshot, &reason);
    if (!status && do_verify)
        status = snapshot_verify(snapshot, &reason);
    if (!status) {
        *table = &snapshot->table;
    } else {
        if (snapshot)
            table_release(&snapshot->table);
        pthread_mutex_lock(&store->lock);
        bool is_dropped = entry->is_dropped;                // while we loaded: its files may be gone
        pthread_mutex_unlock(&store->lock);
        if (is_dropped)
            status = fail_no_table(err, name);
        else if (err && !err->status)
            *err = reason;
    }
    store_drop_user(store, entry);
    return status;
}

weft_status store_peek_table(Store *store, const char *name, const Table **table, Error *err)
{
    return get_snapshot(store, name, false, table, err);
}

weft_status store_get_table(Store *store, const char *name, const Table **table, Error *err)
{
    return get_snapshot(store, name, true, table, err);
}

bool store_is_newest(Store *store, const Table *table)
{
    pthread_mutex_lock(&store->lock);
    const int at = find_entry(store, table->name);
    const Snapshot *current = at >= 0 ? store->entries[at]->current : NULL;
    pthread_mutex_unlock(&store->lock);
    return current && &current->table == table;
}

const Table *store_table(Store *store, const char *name)
{
    const Table *table;
    Error reason;
    error_clear(&reason);
    weft_status status = store_get_table(store, name, &table, &reason);
    if (status && status != WEFT_UNDEFINED_TABLE)
        log_warn("table \"%s\": %s", name, reason.message);
    return table;
}

static weft_status list_tables(Store *store, Arena *arena, bool has_states, const char ***names, int *n_names)
{
    pthread_mutex_lock(&store->lock);
    *n_names = 0;
    *names = arena_array(arena, const char *, store->n_entries);
    for (int i = 0; i < store->n_entries; i++)
        if (has_states || store->entries[i]->meta->traits.kind != TABLE_STATE)
            (*names)[(*n_names)++] = arena_strdup(arena, store->entries[i]->name);
    pthread_mutex_unlock(&store->lock);
    return WEFT_OK;
}

weft_status store_list(Store *store, Arena *arena, const char ***names, int *n_names)
{
    return list_tables(store, arena, false, names, n_names);
}

weft_status store_list_all(Store *store, Arena *arena, const char ***names, int *n_names)
{
    return list_tables(store, arena, true, names, n_names);
}

bool store_traits(Store *store, const char *name, TableTraits *traits)
{
    pthread_mutex_lock(&store->lock);
    const int at = find_entry(store, name);
    if (at >= 0)
        *traits = store->entries[at]->meta->traits;
    pthread_mutex_unlock(&store->lock);
    return at >= 0;
}

i64 store_bytes_on_disk(Store *store, const char *name)
{
    u64 bytes = 0;
    pthread_mutex_lock(&store->lock);
    int at = store->path ? find_entry(store, name) : -1;
    const TableMeta *meta = at >= 0 ? store->entries[at]->meta : NULL;
    for (int i = 0; meta && i < meta->n_chunks; i++)
        bytes += meta->chunks[i].length;
    for (int i = 0; meta && i < meta->n_columns; i++)
        bytes += meta->columns[i].dict.length;
    pthread_mutex_unlock(&store->lock);
    return (i64)bytes;
}

// ---- create and drop -----------------------------------------------------------------------------------------------

static weft_status check_name(const char *what, const char *name, Error *err)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES_MAX || utf8_valid_length(name, length) < length)
        return fail(err, WEFT_INVALID_NAME, -1, "name of a %s must be text of 1 to %d bytes", what, NAME_BYTES_MAX);
    return WEFT_OK;
}

static int count_numerics(const ColumnDef *columns, int n_columns)
{
    int n = 0;
    for (int i = 0; i < n_columns; i++)
        n += columns[i].type.kind == TYPE_NUMERIC;
    return n;
}

static weft_status check_columns(const ColumnDef *columns, int n_columns, Error *err)
{
    char type[32];
    if (n_columns + count_numerics(columns, n_columns) > COLUMNS_MAX)
        return fail(err, WEFT_TOO_MANY_COLUMNS, -1, "tables can have at most %d columns", COLUMNS_MAX);
    if (n_columns < 1)
        return fail(err, WEFT_UNSUPPORTED, -1, "a table needs at least one column");
    for (int i = 0; i < n_columns; i++) {
        TRY(check_name("column", columns[i].name, err));
        if (!type_is_storable(columns[i].type))
            return fail(err, WEFT_UNSUPPORTED, -1, "column \"%s\" cannot have type %s", columns[i].name,
                        type_name(columns[i].type, type));
        for (int j = 0; j < i; j++)
            if (strcmp(columns[i].name, columns[j].name) == 0)
                return fail(err, WEFT_DUPLICATE_COLUMN, -1, "column \"%s\" specified more than once", columns[i].name);
    }
    return WEFT_OK;
}

// A column of low words goes by the name of the column, with a type of no digits.
static TableEntry *make_entry(Store *store, const char *name, const ColumnDef *columns, int n_columns)
{
    TableMeta *meta = meta_new(name, store->next_id++, 1, n_columns + count_numerics(columns, n_columns), 0);
    for (int i = 0, low = n_columns; i < n_columns; i++)
        if (columns[i].type.kind == TYPE_NUMERIC)
            meta->columns[low++] = (ColumnMeta){ .name = arena_strdup(meta->arena, columns[i].name),
                                                 .type = { TYPE_NUMERIC, 0, columns[i].type.scale },
                                                 .not_null = columns[i].not_null };
    for (int i = 0; i < n_columns; i++) {
        ColumnMeta *column = &meta->columns[i];
        *column = (ColumnMeta){ .name = arena_strdup(meta->arena, columns[i].name), .type = columns[i].type,
                                .not_null = columns[i].not_null };
        if (column->type.kind == TYPE_TEXT)
            column->dict.file_id = store->next_id++;
    }
    return entry_new(meta);
}

weft_status store_check_free(Store *store, const char *name, Error *err)
{
    ASSERT(mutex_is_held(&store->commit_lock));
    int at;
    if (find_entry(store, name) >= 0 || views_find(store, name) || index_find(store, name, &at))
        return fail(err, WEFT_DUPLICATE_TABLE, -1, "relation \"%s\" already exists", name);
    return WEFT_OK;
}

void store_add_entry(Store *store, TableEntry *entry)
{
    pthread_mutex_lock(&store->lock);
    entry->n_users++;                                       // the catalog
    pthread_mutex_unlock(&store->lock);
    change_entries(store, entry, NULL);
}

weft_status store_make_entry(Store *store, const char *name, const ColumnDef *columns, int n_columns, TableEntry **out,
                             Error *err)
{
    TRY(check_name("table", name, err));
    TRY(check_columns(columns, n_columns, err));
    TableEntry *entry = make_entry(store, name, columns, n_columns);
    weft_status status = load(store, entry->meta, &entry->current, err);       // nothing to read yet
    if (status)
        entry_free(entry);
    *out = status ? NULL : entry;
    return status;
}

typedef struct TableParts { const IndexDef *indexes; int n_indexes; TableTraits traits; } TableParts;

static weft_status create(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                          const TableParts *parts, Error *err)
{
    TRY(store_check_free(store, name, err));
    TRY(store_settle(store, err));
    TableEntry *entry = make_entry(store, name, columns, n_columns);
    meta_set_indexes(entry->meta, parts->indexes, parts->n_indexes);
    entry->meta->traits = parts->traits;
    weft_status status = index_name_all(store, entry->meta, err);
    if (!status)
        status = load(store, entry->meta, &entry->current, err);           // nothing to read yet
    if (!status)
        status = store_switch(store, entry, entry->meta, err);
    if (status)
        entry_free(entry);
    else
        change_entries(store, entry, NULL);
    return status;
}

static weft_status create_checked(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                                  const TableParts *parts, Error *err)
{
    TRY(check_name("table", name, err));
    TRY(check_columns(columns, n_columns, err));
    pthread_mutex_lock(&store->commit_lock);
    weft_status status = create(store, name, columns, n_columns, parts, err);
    pthread_mutex_unlock(&store->commit_lock);
    return status;
}

weft_status store_create_keyed_table(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                                     const IndexDef *indexes, int n_indexes, Error *err)
{
    return create_checked(store, name, columns, n_columns,
                          &(TableParts){ .indexes = indexes, .n_indexes = n_indexes }, err);
}

weft_status store_create_special_table(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                                       const TableTraits *traits, Error *err)
{
    return create_checked(store, name, columns, n_columns, &(TableParts){ .traits = *traits }, err);
}

weft_status store_create_table(Store *store, const char *name, const ColumnDef *columns, int n_columns, Error *err)
{
    return store_create_keyed_table(store, name, columns, n_columns, NULL, 0, err);
}

// Snapshots that are still held have their files mapped, and mapped files outlive their names.
static void remove_files(const Store *store, const TableMeta *meta)
{
    for (int i = 0; i < meta->n_chunks; i++)
        store_remove_file(store, FILE_CHUNK, meta->chunks[i].file_id);
    for (int i = 0; i < meta->n_columns; i++)
        if (meta->columns[i].type.kind == TYPE_TEXT)
            store_remove_file(store, FILE_DICT, meta->columns[i].dict.file_id);
}

static weft_status drop(Store *store, const char *name, Error *err)
{
    int at = find_entry(store, name);
    if (at < 0)
        return fail_no_table(err, name);
    TableEntry *entry = store->entries[at];
    TRY(store_check_writable(store, err));
    TRY(store_settle(store, err));
    TRY(store_switch(store, entry, NULL, err));
    change_entries(store, NULL, entry);
    pthread_mutex_lock(&store->lock);
    entry->is_dropped = true;
    pthread_cond_broadcast(&store->append_ended);           // waiting appends end
    pthread_mutex_unlock(&store->lock);
    remove_files(store, entry->meta);
    store_drop_user(store, entry);
    return WEFT_OK;
}

// ---- turns: one at a time appends to a table, or changes it as a whole -------------------------------------------

// Wakes up now and then, to check for a cancel.
static void wait_a_little(Store *store)
{
    struct timespec until;
    ASSERT(mutex_is_held(&store->lock));
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAKE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&store->append_ended, &store->lock, &until);
}

weft_status store_take_turn(Store *store, TableEntry *entry, const _Atomic bool *cancel, Error *err)
{
    bool is_canceled = false;
    pthread_mutex_lock(&store->lock);
    while (entry->is_appending && !entry->is_dropped && !is_canceled) {
        wait_a_little(store);
        is_canceled = cancel && *cancel;
    }
    bool is_dropped = entry->is_dropped;
    if (!is_dropped && !is_canceled)
        entry->is_appending = true;
    pthread_mutex_unlock(&store->lock);
    if (is_canceled)
        return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
    return is_dropped ? fail_no_table(err, entry->name) : WEFT_OK;
}

void store_end_turn(Store *store, TableEntry *entry)
{
    pthread_mutex_lock(&store->lock);
    ASSERT(entry->is_appending);
    entry->is_appending = false;
    pthread_cond_broadcast(&store->append_ended);
    pthread_mutex_unlock(&store->lock);
}

// ---- changes of a table as a whole ---------------------------------------------------------------------------------

// A snapshot of CHUNKS, whose rows are some or all of the old one's, under another meta.
static Snapshot *snapshot_under(const Snapshot *old, const TableMeta *meta, const Chunk *const *chunks, int n_chunks)
{
    const Table *table = &old->table;
    Arena *scratch = arena_new(NULL, "alter");
    Dictionary **dicts = arena_array(scratch, Dictionary *, table->n_stored);
    u32 *counts = arena_array(scratch, u32, table->n_stored);
    const Chunk **held = arena_array(scratch, const Chunk *, n_chunks);
    for (int i = 0; i < table->n_stored; i++) {
        dicts[i] = table->columns[i].dict;
        counts[i] = table->columns[i].dict_count;
    }
    for (int i = 0; i < n_chunks; i++)
        held[i] = chunk_hold(chunks[i]);
    Snapshot *snapshot = snapshot_new(meta, dicts, counts, held, n_chunks);
    snapshot->is_verified = old->is_verified;
    arena_free(scratch);
    return snapshot;
}

// Puts META and SNAPSHOT in the place of the entry's, which are freed.
static void put_in_place(Store *store, TableEntry *entry, TableMeta *meta, Snapshot *snapshot)
{
    pthread_mutex_lock(&store->lock);
    TableMeta *old_meta = entry->meta;
    Snapshot *old = entry->current;
    entry->meta = meta;
    entry->current = snapshot;
    pthread_mutex_unlock(&store->lock);
    meta_free(old_meta);
    table_release(&old->table);
}

weft_status store_change_table(Store *store, const char *table, const _Atomic bool *cancel, TableChange change,
                               const void *context, Error *err)
{
    TRY(store_check_writable(store, err));
    TableEntry *entry = store_take_entry(store, table);
    if (!entry)
        return fail_no_table(err, table);
    weft_status status = store_take_turn(store, entry, cancel, err);
    if (!status) {
        Snapshot *held = NULL;
        status = store_load(store, entry, &held, err);
        pthread_mutex_lock(&store->commit_lock);
        if (!status && entry->is_dropped)
            status = fail_no_table(err, table);
        if (!status)
            status = store_settle(store, err);
        if (!status)
            status = change(store, entry, held, context, err);
        pthread_mutex_unlock(&store->commit_lock);
        if (held)
            table_release(&held->table);
        store_end_turn(store, entry);
    }
    store_drop_user(store, entry);
    return status;
}

weft_status store_put_chunks(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta,
                             const Chunk *const *chunks, int n_chunks, Error *err)
{
    meta->version++;
    weft_status status = store_switch(store, entry, meta, err);
    if (status)
        meta_free(meta);
    else
        put_in_place(store, entry, meta, snapshot_under(held, meta, chunks, n_chunks));
    return status;
}

weft_status store_put_rest(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta, int n_gone, Error *err)
{
    TRY(store_put_chunks(store, entry, held, meta, held->table.chunks + n_gone, held->table.n_chunks - n_gone, err));
    for (int i = 0; i < n_gone && store->path; i++)
        store_remove_file(store, FILE_CHUNK, chunk_stored(held->table.chunks[i])->file.file_id);
    return WEFT_OK;
}

weft_status store_put_meta(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta, Error *err)
{
    return store_put_rest(store, entry, held, meta, 0, err);
}

typedef struct Renaming { const char *name, *new_name; } Renaming;

static weft_status truncate_entry(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    TableMeta *meta = meta_copy(entry->meta, 0);
    Snapshot *empty;
    (void)context;
    meta->version++;
    if (meta->traits.kind == TABLE_STREAM)
        meta->traits.first_row += held->table.n_rows;
    for (int i = 0; i < meta->n_columns; i++) {
        if (meta->columns[i].type.kind == TYPE_TEXT)
            meta->columns[i].dict = (DictFile){ .file_id = store->next_id++ };
        if (held->table.columns[i].is_free)
            meta_set_scale(meta, &held->table, i, 0);
    }
    weft_status status = load(store, meta, &empty, err);    // nothing to read
    if (!status) {
        status = store_switch(store, entry, meta, err);
        if (status)
            table_release(&empty->table);
    }
    if (status) {
        meta_free(meta);
        return status;
    }
    remove_files(store, entry->meta);
    put_in_place(store, entry, meta, empty);
    return WEFT_OK;
}

weft_status store_truncate_table(Store *store, const char *name, const _Atomic bool *cancel, Error *err)
{
    return store_change_table(store, name, cancel, truncate_entry, NULL, err);
}

static weft_status rename_column(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const char *name = ((const Renaming *)context)->name, *new_name = ((const Renaming *)context)->new_name;
    const int column = table_find_column(&held->table, name);
    if (column < 0)
        return fail(err, WEFT_UNDEFINED_COLUMN, -1, "column \"%s\" does not exist", name);
    if (table_find_column(&held->table, new_name) >= 0)
        return fail(err, WEFT_DUPLICATE_COLUMN, -1, "column \"%s\" of relation \"%s\" already exists", new_name,
                    entry->name);
    TableMeta *meta = meta_copy(entry->meta, entry->meta->n_chunks);
    const int low = held->table.columns[column].low;
    meta->columns[column].name = arena_strdup(meta->arena, new_name);
    if (low)
        meta->columns[low].name = meta->columns[column].name;
    return store_put_meta(store, entry, held, meta, err);
}

weft_status store_rename_column(Store *store, const char *table, const char *column, const char *new_name,
                                const _Atomic bool *cancel, Error *err)
{
    TRY(check_name("column", new_name, err));
    return store_change_table(store, table, cancel, rename_column, &(Renaming){ column, new_name }, err);
}

// Under its new name the table is another entry; appends that wait for the old one end, as after a drop.
static weft_status rename_table(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const char *new_name = ((const Renaming *)context)->new_name;
    TRY(store_check_free(store, new_name, err));
    TableMeta *meta = meta_copy(entry->meta, entry->meta->n_chunks);
    meta->version++;
    meta->name = arena_strdup(meta->arena, new_name);
    weft_status status = store_switch(store, entry, meta, err);
    if (status) {
        meta_free(meta);
        return status;
    }
    TableEntry *renamed = entry_new(meta);
    renamed->current = snapshot_under(held, meta, held->table.chunks, held->table.n_chunks);
    change_entries(store, renamed, entry);
    pthread_mutex_lock(&store->lock);
    entry->is_dropped = true;
    pthread_cond_broadcast(&store->append_ended);
    pthread_mutex_unlock(&store->lock);
    store_drop_user(store, entry);                          // the catalog's
    return WEFT_OK;
}

weft_status store_rename_table(Store *store, const char *name, const char *new_name, const _Atomic bool *cancel,
                               Error *err)
{
    TRY(check_name("table", new_name, err));
    return store_change_table(store, name, cancel, rename_table, &(Renaming){ name, new_name }, err);
}

weft_status store_drop_table(Store *store, const char *name, Error *err)
{
    pthread_mutex_lock(&store->commit_lock);
    weft_status status = drop(store, name, err);
    pthread_mutex_unlock(&store->commit_lock);
    return status;
}
