// lookup.c - what a name in FROM means: a table of the session, of the database, one that is made for the query, a
// view, a file.

#include "engine/continuous.h"

static bool is_virtual(const char *name)
{
    return strncmp(name, "weft_", 5) == 0 || strncmp(name, "information_schema.", 19) == 0;
}

Store *execution_store(const Execution *ex, const char *table, TableHome home)
{
    const weft_session *session = ex->session;
    const Table *found = NULL;
    if (home == HOME_TEMPORARY) return session->temporary;
    if (home == HOME_PUBLIC || !session->temporary ||
        store_peek_table(session->temporary, table, &found, &(Error){ 0 }))
        return session->db->store;
    table_release(found);
    return session->temporary;
}

Store *execution_target(const Execution *ex, const Statement *statement)
{
    return execution_store(ex, statement->name, statement->home);
}

Store *execution_temporary(Execution *ex)
{
    weft_session *session = ex->session;
    if (!session->temporary) (void)store_open(NULL, &session->db->budget, &session->temporary, ex->err);
    return session->temporary;
}

static void note_use(Execution *ex, const char *name)
{
    for (int i = 0; i < ex->n_used; i++)
        if (strcmp(ex->used[i], name) == 0) return;
    *LIST_PUSH(ex->arena, ex->used, ex->n_used) = arena_strdup(ex->arena, name);
}

static weft_status find_stored(Execution *ex, const char *name, TableHome home, const Table **table, Error *err)
{
    Store            *store = execution_store(ex, name, home);
    const weft_status status = store ? store_peek_table(store, name, table, err) : WEFT_UNDEFINED_TABLE;
    const bool        is_temporary = store != ex->session->db->store;
    if (!status && is_temporary) ex->uses_virtual = ex->uses_temporary = true;
    else if (!status) *LIST_PUSH(ex->arena, ex->tables, ex->n_tables) = *table;
    return status;
}

static const Table *find_table(void *context, const char *name, TableHome home)
{
    Execution   *ex = context;
    const Table *table = NULL;
    weft_status  status;
    note_use(ex, name);
    if (ex->given && home != HOME_TEMPORARY && strcmp(ex->given->name, name) == 0) return table_hold(ex->given);
    if (home != HOME_TEMPORARY && is_virtual(name)) {
        status = virtual_table(ex->session, ex->arena, name, &table, ex->err);
        ex->uses_virtual = true;
    } else {
        Error reason;
        error_clear(&reason);
        status = find_stored(ex, name, home, &table, &reason);
        if (status == WEFT_UNDEFINED_TABLE && (home == HOME_TEMPORARY || !file_is_meant(name))) return NULL;
        if (status == WEFT_UNDEFINED_TABLE) status = file_table(ex, name, NULL, &table);
        else if (status) *ex->err = reason;
    }
    if (status) ex->lookup = status;
    return table;
}

static const Table *find_file(void *context, const char *path, const char *format)
{
    Execution   *ex = context;
    const Table *table = NULL;
    const weft_status status = file_table(ex, path, format, &table);
    if (status) ex->lookup = status;
    return table;
}

static void release_state(void *state) { table_release(state); }

// A continuous view is its text over the groups that are kept.  The rows that its stream has now should be in them:
// api.c waits for that, where it may, and looks the name up again.
static weft_status find_state(Execution *ex, const char *name, ViewText *text)
{
    Streams *streams = ex->session->db->streams;
    if (!ex->has_waited) *LIST_PUSH(ex->arena, ex->behind, ex->n_behind) = arena_strdup(ex->arena, name);
    ViewRows *rows = arena_make(ex->arena, ViewRows);
    TRY(streams_state(streams, name, ex->arena, rows, ex->err));
    arena_defer(ex->arena, release_state, (void *)(uintptr_t)rows->own);
    if (rows->shared) arena_defer(ex->arena, release_state, (void *)(uintptr_t)rows->shared);
    text->kept = rows;
    return WEFT_OK;
}

// A table of the session hides a view of the same name.
static const ViewText *find_view_text(void *context, const char *name, TableHome home)
{
    Execution *ex = context;
    if (is_virtual(name) || execution_store(ex, name, home) != ex->session->db->store) return NULL;
    const ViewDef *view = store_view(ex->session->db->store, ex->arena, name);
    if (!view) return NULL;
    note_use(ex, name);
    ViewText *text = arena_make(ex->arena, ViewText);
    *text = (ViewText){ .text = view->text, .n_columns = view->n_columns, .columns = view->columns };
    if (view->options) {
        const weft_status status = find_state(ex, name, text);
        if (status) ex->lookup = status;
        if (status) return NULL;
    }
    ex->uses_virtual = true;           // a plan that is kept knows the tables that it reads, not the views
    return text;
}

static int list_names(void *context, Arena *arena, const char ***names)
{
    Execution     *ex = context;
    const char   **tables, **own = NULL;
    const ViewDef *views;
    int            n_tables, n_views, n_own = 0, n = 0;
    (void)store_list(ex->session->db->store, arena, &tables, &n_tables);
    store_list_views(ex->session->db->store, arena, &views, &n_views);
    if (ex->session->temporary) (void)store_list(ex->session->temporary, arena, &own, &n_own);
    *names = arena_array(arena, const char *, n_tables + n_views + n_own + 1);
    for (int i = 0; i < n_tables; i++) (*names)[n++] = tables[i];
    for (int i = 0; i < n_own; i++) (*names)[n++] = own[i];
    for (int i = 0; i < n_views; i++) (*names)[n++] = views[i].name;
    return n;
}

Names execution_names(Execution *ex, const Value *params, int n_params)
{
    return (Names){ .table = find_table,
                    .context = ex,
                    .stop = &ex->session->stop,
                    .view = find_view_text,
                    .zone = ex->session->settings.zone,
                    .file = find_file,
                    .list = list_names,
                    .params = params,
                    .random = &ex->session->random,
                    .n_params = n_params,
                    .quotient_scale = ex->quotient_scale,
                    .has_quotients = &ex->has_quotients,
                    .keeps = ex->session->settings.plan_cache };
}
