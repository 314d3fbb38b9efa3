// view_list.c - the texts of views, in one small file beside the manifest.
//
//     sales.weft/views    a word of recognition, how many, then each view: name, text, columns, what it reads, and in
//                         format 2, which is written when one is continuous, its options; a checksum
//
// A view has no rows, so a change of views is a new file, synced and renamed over the old one.  It is a file of its
// own, and the manifest says that it is there, so that its loss is noticed; manifests of formats up to 6 do not say it.
// A list of views never changes: a change makes a new one and swaps the pointer.

#include <stdio.h>
#include <stdlib.h>

#include "store/store_int.h"

static const char magic[8] = "WEFTVIW2";
enum { FORMAT_WITHOUT_OPTIONS = '1' };

enum { VIEWS_MOST = 100000, NAMES_MOST = 100000 };

struct ViewList {
    Arena   *arena;
    ViewDef *views;                    // sorted by name
    int      n_views;
};

// ---- copies ---------------------------------------------------------------------------------------------------------

static const char **copy_names(Arena *arena, const char **names, int n_names)
{
    const char **copy = arena_array(arena, const char *, n_names + 1);
    for (int i = 0; i < n_names; i++)
        copy[i] = arena_strdup(arena, names[i]);
    return copy;
}

static ViewDef copy_view(Arena *arena, const ViewDef *view)
{
    ViewDef copy = *view;
    copy.name = arena_strdup(arena, view->name);
    copy.text = arena_strdup(arena, view->text);
    copy.columns = copy_names(arena, view->columns, view->n_columns);
    copy.types = copy_names(arena, view->types, view->n_columns);
    copy.uses = copy_names(arena, view->uses, view->n_uses);
    copy.options = view->options ? arena_strdup(arena, view->options) : NULL;
    return copy;
}

static int compare_views(const void *a, const void *b)
{
    return strcmp(((const ViewDef *)a)->name, ((const ViewDef *)b)->name);
}

// The list with ADDED (may be NULL) and without the view called REMOVED (may be NULL).
static ViewList *changed_list(const ViewList *old, const ViewDef *added, const char *removed)
{
    Arena *arena = arena_new(NULL, "views");
    ViewList *list = arena_make(arena, ViewList);
    const int n_old = old ? old->n_views : 0;
    *list = (ViewList){ .arena = arena, .views = arena_array(arena, ViewDef, n_old + 1) };
    for (int i = 0; i < n_old; i++)
        if (!removed || strcmp(old->views[i].name, removed) != 0)
            list->views[list->n_views++] = copy_view(arena, &old->views[i]);
    if (added)
        list->views[list->n_views++] = copy_view(arena, added);
    qsort(list->views, (size_t)list->n_views, sizeof(ViewDef), compare_views);
    return list;
}

static const ViewDef *find(const ViewList *list, const char *name)
{
    for (int i = 0; list && i < list->n_views; i++)
        if (strcmp(list->views[i].name, name) == 0)
            return &list->views[i];
    return NULL;
}

// ---- the file -------------------------------------------------------------------------------------------------------

static void put_number(Text *out, u32 number)
{
    text_add_bytes(out, (const char *)&number, sizeof(number));
}

static void put_text(Text *out, const char *text)
{
    put_number(out, (u32)strlen(text));
    text_add_bytes(out, text, strlen(text));
}

static void put_names(Text *out, const char **names, int n_names)
{
    put_number(out, (u32)n_names);
    for (int i = 0; i < n_names; i++)
        put_text(out, names[i]);
}

static bool has_continuous(const ViewList *list)
{
    for (int i = 0; i < list->n_views; i++)
        if (list->views[i].options)
            return true;
    return false;
}

static void encode(const ViewList *list, Text *out)
{
    const bool has_options = has_continuous(list);
    const char format = has_options ? magic[sizeof(magic) - 1] : FORMAT_WITHOUT_OPTIONS;
    text_add_bytes(out, magic, sizeof(magic) - 1);
    text_add_bytes(out, &format, 1);
    put_number(out, (u32)list->n_views);
    for (int i = 0; i < list->n_views; i++) {
        const ViewDef *view = &list->views[i];
        put_text(out, view->name);
        put_text(out, view->text);
        put_names(out, view->columns, view->n_columns);
        put_names(out, view->types, view->n_columns);
        put_names(out, view->uses, view->n_uses);
        if (has_options)
            put_text(out, view->options ? view->options : "");
    }
    const u64 checksum = hash_bytes(out->bytes, out->length);
    text_add_bytes(out, (const char *)&checksum, sizeof(checksum));
}

typedef struct ViewCursor { const char *at, *end; bool is_bad; } ViewCursor;

static u32 get_number(ViewCursor *cursor)
{
    u32 number = 0;
    cursor->is_bad |= (size_t)(cursor->end - cursor->at) < sizeof(number);
    if (cursor->is_bad)
        return 0;
    memcpy(&number, cursor->at, sizeof(number));
    cursor->at += sizeof(number);
    return number;
}

static const char *get_text(ViewCursor *cursor, Arena *arena)
{
    const u32 length = get_number(cursor);
    cursor->is_bad |= (size_t)(cursor->end - cursor->at) < length;
    if (cursor->is_bad)
        return "";
    const char *text = arena_strndup(arena, cursor->at, length);
    cursor->is_bad |= strlen(text) != length || utf8_valid_length(text, length) < length;
    cursor->at += length;
    return text;
}

static const char **get_names(ViewCursor *cursor, Arena *arena, int *n_names)
{
    const u32 n = get_number(cursor);
    cursor->is_bad |= n > NAMES_MOST || n > (size_t)(cursor->end - cursor->at) / sizeof(u32);
    *n_names = cursor->is_bad ? 0 : (int)n;
    const char **names = arena_array(arena, const char *, *n_names + 1);
    for (int i = 0; i < *n_names; i++)
        names[i] = get_text(cursor, arena);
    return names;
}

static bool decode(const Text *bytes, ViewList *list)
{
    u64 checksum;
    if (bytes->length < sizeof(magic) + sizeof(u32) + sizeof(checksum) ||
        memcmp(bytes->bytes, magic, sizeof(magic) - 1) != 0)
        return false;
    const char format = bytes->bytes[sizeof(magic) - 1];
    if (format < FORMAT_WITHOUT_OPTIONS || format > magic[sizeof(magic) - 1])
        return false;
    const size_t length = bytes->length - sizeof(checksum);
    memcpy(&checksum, bytes->bytes + length, sizeof(checksum));
    if (checksum != hash_bytes(bytes->bytes, length))
        return false;
    ViewCursor cursor = { bytes->bytes + sizeof(magic), bytes->bytes + length, false };
    const u32 n_views = get_number(&cursor);
    cursor.is_bad |= n_views > VIEWS_MOST;
    for (u32 i = 0; i < n_views && !cursor.is_bad; i++) {
        ViewDef view = { 0 };
        int n_types;
        view.name = get_text(&cursor, list->arena);
        view.text = get_text(&cursor, list->arena);
        view.columns = get_names(&cursor, list->arena, &view.n_columns);
        view.types = get_names(&cursor, list->arena, &n_types);
        view.uses = get_names(&cursor, list->arena, &view.n_uses);
        cursor.is_bad |= n_types != view.n_columns;
        const char *options = format > FORMAT_WITHOUT_OPTIONS ? get_text(&cursor, list->arena) : "";
        view.options = *options ? options : NULL;
        *LIST_PUSH(list->arena, list->views, list->n_views) = view;
    }
    return !cursor.is_bad && cursor.at == cursor.end;
}

static const char *file_path(const Store *store, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", store->path, name);     // open has seen to it that this fits
    return path;
}

weft_status views_load(Store *store, Error *err)
{
    char path[PATH_BYTES];
    Text bytes = { 0 };
    if (!file_exists(file_path(store, "views", path)))
        return store->has_views ? fail(err, WEFT_CORRUPT, -1, "\"%s\" is missing", path) : WEFT_OK;
    Arena *arena = arena_new(NULL, "views");
    ViewList *list = arena_make(arena, ViewList);
    list->arena = arena;
    weft_status status = file_read_all(path, &bytes, err);
    if (!status && !decode(&bytes, list))
        status = fail(err, WEFT_CORRUPT, -1, "\"%s\" is damaged", path);
    text_free(&bytes);
    if (status)
        arena_free(arena);
    else
        store->views = list;
    return status;
}

void views_free(Store *store)
{
    if (store->views)
        arena_free(store->views->arena);
    store->views = NULL;
}

static weft_status write_list(const Store *store, const ViewList *list, Error *err)
{
    char fresh[PATH_BYTES], path[PATH_BYTES];
    Text bytes = { 0 };
    File file;
    if (!store->path)
        return WEFT_OK;
    TRY(file_create(file_path(store, "views.new", fresh), &file, err));
    encode(list, &bytes);
    weft_status status = file_write(&file, bytes.bytes, bytes.length, err);
    if (!status)
        status = file_sync(&file, err);
    file_close(&file);
    text_free(&bytes);
    if (!status)
        status = file_rename(fresh, file_path(store, "views", path), err);
    if (status)
        (void)file_remove(fresh, NULL);
    return status ? status : dir_sync(store->path, err);
}

weft_status views_make_file(Store *store, Error *err)
{
    char path[PATH_BYTES];
    if (!store->path || file_exists(file_path(store, "views", path)))
        return WEFT_OK;
    ViewList *list = changed_list(store->views, NULL, NULL);
    const weft_status status = write_list(store, list, err);
    arena_free(list->arena);
    return status;
}

weft_status views_change(Store *store, const ViewDef *added, const char *removed, Error *err)
{
    ASSERT(mutex_is_held(&store->commit_lock));
    ViewList *list = changed_list(store->views, added, removed);
    const weft_status status = write_list(store, list, err);
    ViewList *old = list;
    if (!status) {
        pthread_mutex_lock(&store->lock);
        old = store->views;
        store->views = list;
        pthread_mutex_unlock(&store->lock);
    }
    if (old)
        arena_free(old->arena);
    return status;
}

// ---- what others see ------------------------------------------------------------------------------------------------

bool views_find(Store *store, const char *name)
{
    pthread_mutex_lock(&store->lock);
    const bool is_there = find(store->views, name) != NULL;
    pthread_mutex_unlock(&store->lock);
    return is_there;
}

const ViewDef *store_view(Store *store, Arena *arena, const char *name)
{
    ViewDef *copy = NULL;
    pthread_mutex_lock(&store->lock);
    const ViewDef *view = find(store->views, name);
    if (view) {
        copy = arena_make(arena, ViewDef);
        *copy = copy_view(arena, view);
    }
    pthread_mutex_unlock(&store->lock);
    return copy;
}

void store_list_views(Store *store, Arena *arena, const ViewDef **views, int *n_views)
{
    pthread_mutex_lock(&store->lock);
    *n_views = store->views ? store->views->n_views : 0;
    ViewDef *copies = arena_array(arena, ViewDef, *n_views + 1);
    for (int i = 0; i < *n_views; i++)
        copies[i] = copy_view(arena, &store->views->views[i]);
    *views = copies;
    pthread_mutex_unlock(&store->lock);
}

const char *store_user_of(Store *store, Arena *arena, const char *name)
{
    const ViewDef *views;
    int n_views;
    store_list_views(store, arena, &views, &n_views);
    for (int i = 0; i < n_views; i++)
        for (int u = 0; u < views[i].n_uses; u++)
            if (strcmp(views[i].uses[u], name) == 0)
                return views[i].name;
    return NULL;
}
