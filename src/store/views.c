// views.c - views made, dropped and renamed, under names that no table has.

#include "store/store_int.h"

// The file comes before the manifest that says that it is there, so that no crash between them looks like a loss.
static weft_status note_views(Store *store, Error *err)
{
    ASSERT(mutex_is_held(&store->commit_lock));
    if (store->has_views)
        return WEFT_OK;
    TRY(views_make_file(store, err));
    TRY(store_settle(store, err));
    store->has_views = true;
    const weft_status status = store_switch(store, NULL, NULL, err);
    if (status)
        store->has_views = false;
    return status;
}

weft_status store_create_view(Store *store, const ViewDef *view, bool may_replace, Error *err)
{
    if (strlen(view->name) == 0 || strlen(view->name) > NAME_BYTES_MAX)
        return fail(err, WEFT_INVALID_NAME, -1, "name of a view must be text of 1 to %d bytes", NAME_BYTES_MAX);
    pthread_mutex_lock(&store->commit_lock);
    const bool is_replaced = may_replace && views_find(store, view->name);
    weft_status status = store_check_writable(store, err);
    if (!status && !is_replaced)
        status = store_check_free(store, view->name, err);
    if (!status)
        status = note_views(store, err);
    if (!status)
        status = views_change(store, view, view->name, err);
    pthread_mutex_unlock(&store->commit_lock);
    return status;
}

static weft_status fail_no_view(Error *err, const char *name)
{
    return fail(err, WEFT_UNDEFINED_TABLE, -1, "view \"%s\" does not exist", name);
}

weft_status store_drop_view(Store *store, const char *name, Error *err)
{
    pthread_mutex_lock(&store->commit_lock);
    weft_status status = store_check_writable(store, err);
    if (!status)
        status = views_find(store, name) ? views_change(store, NULL, name, err) : fail_no_view(err, name);
    pthread_mutex_unlock(&store->commit_lock);
    return status;
}

weft_status store_rename_view(Store *store, const char *name, const char *new_name, Error *err)
{
    pthread_mutex_lock(&store->commit_lock);
    Arena *scratch = arena_new(NULL, "rename");
    const ViewDef *view = store_view(store, scratch, name);
    weft_status status = view ? store_check_free(store, new_name, err) : fail_no_view(err, name);
    if (!status)
        status = store_check_writable(store, err);
    if (!status) {
        ViewDef renamed = *view;
        renamed.name = new_name;
        status = views_change(store, &renamed, name, err);
    }
    arena_free(scratch);
    pthread_mutex_unlock(&store->commit_lock);
    return status;
}
