// continuous.c - continuous views: fed with the new rows of their stream, saved, loaded again.
//
//     stream   |---- rows before POSITION ----|-- new rows --|
//                           |                        |
//              kept groups (in memory)  <--append--  the view's groups of these rows alone, by its woven query
//
// A view's state is a table in memory: keys and partial aggregates (plan/continuous.c).  A round runs the query of
// every view over the same new rows, at the same time, so that the scan weaves them; views of one shape have one query
// together (families.c).  Its groups are appended; when the table has grown to twice its groups, it is merged.  So a
// row costs the same however long the stream is.
//
// What a view has is saved now and then (view_saves.c), with the row of the stream up to which it counts.  After a
// crash the rows behind that are fed again, so saves may be rare.  Retention keeps rows that some view has not saved.
// A view whose query fails stops where it is, and weft_views says why.  Small chunks of streams are merged
// (stream_merges.c).
//
// One thread does all of that (feed_all).  CREATE and DROP change the list of views between two rounds.

#include "engine/continuous_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUND_ROWS = 4 << 20,              // rows of a round at most
    MERGE_ROWS = 1 << 16,              // rows of a state that need not be merged
    IDLE_MS = 200,
};

static void wait_ms(Streams *streams, int time_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)time_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&streams->changed, &streams->lock, &until);
}

static ContinuousView *find_view(const Streams *streams, const char *name)
{
    for (int i = 0; i < streams->n_views; i++)
        if (strcmp(streams->views[i]->name, name) == 0) return streams->views[i];
    return NULL;
}

// ---- merging --------------------------------------------------------------------------------------------------------

static weft_status merge_into(ContinuousView *view, const ViewRows *rows, Store *to, const TableTraits *traits,
                              u64 *n_rows, Error *err)
{
    Append *append;
    u64     n_appended;
    TRY(view_merge(view, view->session, rows, to, traits, &append, n_rows, err));
    return append_commit(append, &n_appended, err);
}

static weft_status merge_if_large(ContinuousView *view, const TableTraits *seen, Error *err)
{
    Store      *states = view->streams->states;
    ViewRows    rows = { 0 };
    weft_status status = WEFT_OK;
    TRY(store_peek_table(states, view->state, &rows.own, err));
    if (rows.own->n_rows > 2 * view->n_merged + MERGE_ROWS)
        status = merge_into(view, &rows, states, seen, &view->n_merged, err);
    view_release_rows(&rows);
    return status;
}

// ---- late rows ------------------------------------------------------------------------------------------------------

static i64 stored_value(const ColumnChunk *column, u32 row)
{
    switch (column->width) {
        case 1:  return column->base + ((const u8 *)column->data)[row];
        case 2:  return column->base + ((const u16 *)column->data)[row];
        case 4:  return column->base + ((const u32 *)column->data)[row];
        default: return (i64)((u64)column->base + ((const u64 *)column->data)[row]);
    }
}

// A row is late when its time lies more than the watermark before the latest of the rows before it: that depends on the
// order of the stream alone, not on where rounds begin.  KEEP gets a 0 for such rows.
static weft_status find_late(const ContinuousView *view, u8 *keep, TableTraits *seen, Error *err)
{
    u64 at = 0;
    for (int c = 0; c < view->rows->n_chunks; c++) {
        const Chunk       *chunk = view->rows->chunks[c];
        const ColumnChunk *column = &chunk->columns[view->event_column];
        TRY(chunk_verify(chunk, view->event_column, err));
        for (u32 r = 0; r < chunk->n_rows; r++, at++) {
            if (column->valid && !(column->valid[r / 64] >> r % 64 & 1)) continue;
            const i64 time = stored_value(column, r);
            if (seen->has_latest && time < seen->latest - view->watermark_us) {
                keep[at] = 0;
                seen->n_late++;
            } else if (!seen->has_latest || time > seen->latest) {
                seen->has_latest = true;
                seen->latest = time;
            }
        }
    }
    return WEFT_OK;
}

static weft_status leave_out_late(ContinuousView *view, TableTraits *seen, const Table **sifted, Error *err)
{
    const u64 n_late = seen->n_late;
    u8       *keep = malloc(view->rows->n_rows + 1);
    *sifted = NULL;
    if (!keep) return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    memset(keep, 1, view->rows->n_rows);
    weft_status status = find_late(view, keep, seen, err);
    if (!status && seen->n_late > n_late)
        status = table_sift(view->rows, keep, &view->streams->db->budget, sifted, err);
    free(keep);
    return status;
}

// ---- a round --------------------------------------------------------------------------------------------------------

static weft_status take_rows(ContinuousView *view, TableTraits *seen, Error *err)
{
    const Table *sifted = NULL, *all = view->rows;
    weft_status  status = view->watermark_us < 0 ? WEFT_OK : leave_out_late(view, seen, &sifted, err);
    seen->position = view->until;
    if (!status) {
        if (sifted) view->rows = sifted;
        status = view_add_groups(view, seen, err);
        view->rows = all;
    }
    table_release(sifted);
    return status;
}

// A failure for want of memory, or because the session was stopped, is tried again.  Where only the merge fails, the
// rows are in the state already: they are seen, and must not be taken again.
static void run_view(SquadJob *job)
{
    ContinuousView *view = (ContinuousView *)job;
    TableTraits     seen = view->seen;
    Error           error = { 0 };
    weft_status     status = take_rows(view, &seen, &error);
    const bool      is_taken = !status;
    if (is_taken) status = merge_if_large(view, &seen, &error);
    const bool comes_again = status == WEFT_OUT_OF_MEMORY || status == WEFT_QUERY_CANCELED;
    pthread_mutex_lock(&view->streams->lock);
    if (is_taken) view->seen = seen;
    if (status && !comes_again) view->error = error;
    pthread_cond_broadcast(&view->streams->changed);
    pthread_mutex_unlock(&view->streams->lock);
}

// One job for each view alone and for each family; gives how many.
static int list_jobs(ContinuousView **views, int n_views, const Table *rows, u64 until, SquadJob **jobs)
{
    int n = 0;
    for (int i = 0; i < n_views; i++) {
        ContinuousView *view = views[i];
        if (!view->family) {
            view->rows = rows, view->until = until;
            view->job = (SquadJob){ .run = run_view };
            jobs[n++] = &view->job;
        } else if (view->family->views[0] == view) {
            view->family->rows = rows, view->family->until = until;
            view->family->job = (SquadJob){ .run = family_run };
            jobs[n++] = &view->family->job;
        }
    }
    return n;
}

static void run_round(Streams *streams, ContinuousView **views, int n_views, const Table *rows, u64 until)
{
    Arena     *scratch = arena_new(NULL, "round");
    SquadJob **jobs = arena_array(scratch, SquadJob *, n_views + 1);
    bool      *is_started = arena_array(scratch, bool, n_views + 1);
    const int  n_jobs = list_jobs(views, n_views, rows, until, jobs);
    for (int i = 0; i < n_jobs; i++) {
        is_started[i] = i + 1 < n_jobs && squad_start(streams->db->squad, jobs[i]);
        if (!is_started[i]) jobs[i]->run(jobs[i]);
    }
    for (int i = 0; i < n_jobs; i++)
        if (is_started[i]) squad_wait(streams->db->squad, jobs[i]);
    for (int i = 0; i < n_views; i++) views[i]->rows = NULL;
    arena_free(scratch);
}

// The views of STREAM that have seen the fewest rows, and up to where they may be fed together; *ARE_ALL: no other view
// of the stream is fed.
static int choose_views(Streams *streams, const Table *stream, ContinuousView **chosen, u64 *from, u64 *until,
                        bool *are_all)
{
    int n = 0;
    *are_all = true;
    *until = stream->traits.first_row + stream->n_rows;
    *from = *until;
    for (int i = 0; i < streams->n_views; i++) {
        ContinuousView *view = streams->views[i];
        if (view->error.status || strcmp(view->stream, stream->name) != 0) continue;
        view->seen.position = MAX_OF(view->seen.position, stream->traits.first_row);
        *from = MIN_OF(*from, view->seen.position);
    }
    for (int i = 0; i < streams->n_views; i++) {
        ContinuousView *view = streams->views[i];
        if (view->error.status || strcmp(view->stream, stream->name) != 0) continue;
        if (view->seen.position == *from) {
            chosen[n++] = view;
        } else {
            *until = MIN_OF(*until, view->seen.position);
            *are_all = false;
        }
    }
    *until = MIN_OF(*until, *from + ROUND_ROWS);
    return n;
}

// Views whose family has failed are to be fed alone at once, unless there is no memory for that: then after a pause.
static bool has_any_seen(Streams *streams, ContinuousView *const *views, int n_views, u64 until)
{
    bool has_seen = false;
    pthread_mutex_lock(&streams->lock);
    for (int i = 0; i < n_views; i++) {
        const ViewFamily *family = views[i]->family;
        has_seen |= views[i]->seen.position == until || (family && family->has_failed && !family->could_not_end);
    }
    pthread_mutex_unlock(&streams->lock);
    return has_seen;
}

// One round for the views of a stream; false: they have seen all, or could not go on.
static bool feed_stream(Streams *streams, const char *name)
{
    Arena           *scratch = arena_new(NULL, "feed");
    ContinuousView **chosen = arena_array(scratch, ContinuousView *, streams->n_views + 1);
    const Table     *stream = NULL, *rows = NULL;
    Error            error = { 0 };
    u64              from = 0, until = 0;
    bool             is_more = false, are_all;
    if (!store_peek_table(streams->db->store, name, &stream, &error)) {
        pthread_mutex_lock(&streams->lock);
        const int n = choose_views(streams, stream, chosen, &from, &until, &are_all);
        pthread_mutex_unlock(&streams->lock);
        families_form(streams, chosen, are_all ? n : 0, n);
        if (n && from < until &&
            !table_slice(stream, from - stream->traits.first_row, until - from, &streams->db->budget, &rows, &error)) {
            run_round(streams, chosen, n, rows, until);
            is_more = has_any_seen(streams, chosen, n, until);
        }
    }
    table_release(rows);
    table_release(stream);
    arena_free(scratch);
    return is_more;
}

static bool is_first_of_stream(const Streams *streams, int at)
{
    for (int i = 0; i < at; i++)
        if (strcmp(streams->views[i]->stream, streams->views[at]->stream) == 0) return false;
    return true;
}

static bool feed_round(Streams *streams)
{
    bool is_more = false;
    for (int i = 0; i < streams->n_views; i++)
        if (is_first_of_stream(streams, i)) is_more |= feed_stream(streams, streams->views[i]->stream);
    return is_more;
}

// ---- retention ------------------------------------------------------------------------------------------------------

static u64 least_saved(Streams *streams, const char *stream)
{
    u64 least = UINT64_MAX;
    pthread_mutex_lock(&streams->lock);
    for (int i = 0; i < streams->n_views; i++)
        if (strcmp(streams->views[i]->stream, stream) == 0) least = MIN_OF(least, streams->views[i]->saved);
    pthread_mutex_unlock(&streams->lock);
    return least;
}

static void tidy_streams(Streams *streams)
{
    Arena       *scratch = arena_new(NULL, "retention");
    const char **names;
    int          n_names;
    Store       *store = streams->db->store;
    (void)store_list(store, scratch, &names, &n_names);
    for (int i = 0; i < n_names; i++) {
        TableTraits traits;
        u64         n_dropped;
        if (!store_traits(store, names[i], &traits) || traits.kind != TABLE_STREAM) continue;
        if (traits.retain_us > 0)
            (void)store_expire(store, names[i], store_now_us(), least_saved(streams, names[i]), &n_dropped,
                               &(Error){ 0 });
        merges_go_on(streams, names[i]);
    }
    arena_free(scratch);
}

// ---- the thread -----------------------------------------------------------------------------------------------------

static void *feed_all(void *context)
{
    Streams *streams = context;
    pthread_mutex_lock(&streams->lock);
    while (!streams->is_closing) {
        const u64 n_wakes = streams->n_wakes;
        streams->n_wakes_taken = n_wakes;
        if (streams->n_changing) {
            wait_ms(streams, IDLE_MS);
            continue;
        }
        streams->is_at_work = true;
        pthread_mutex_unlock(&streams->lock);
        const bool is_more = feed_round(streams);
        saves_go_on(streams);
        tidy_streams(streams);
        pthread_mutex_lock(&streams->lock);
        streams->is_at_work = false;
        pthread_cond_broadcast(&streams->changed);
        if (!is_more && n_wakes == streams->n_wakes && !streams->is_closing) wait_ms(streams, IDLE_MS);
    }
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

void streams_wake(Streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    streams->n_wakes++;
    if (!streams->has_thread && !streams->is_closing)
        streams->has_thread = thread_start(&streams->thread, NULL, feed_all, streams) == 0;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
}

// A wake that the thread has not answered counts as work.
bool streams_await_rows(Streams *streams, const char *stream)
{
    bool has_view = false;
    pthread_mutex_lock(&streams->lock);
    const bool is_idle = streams->has_thread && !streams->is_at_work && streams->n_wakes == streams->n_wakes_taken;
    for (int i = 0; i < streams->n_views && is_idle && !has_view; i++)
        has_view = !streams->views[i]->error.status && strcmp(streams->views[i]->stream, stream) == 0;
    pthread_mutex_unlock(&streams->lock);
    return has_view;
}

// From here on the thread is between two rounds, and no view is being saved, until end_change.
static void begin_change(Streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    streams->n_changing++;
    while (streams->is_at_work) pthread_cond_wait(&streams->changed, &streams->lock);
    streams->is_at_work = true;
    saves_wait(streams);
    pthread_mutex_unlock(&streams->lock);
}

static void end_change(Streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    streams->n_changing--;
    streams->is_at_work = false;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
}

// ---- views come and go ----------------------------------------------------------------------------------------------

static void free_view(ContinuousView *view)
{
    family_leave(view);
    if (view->session) view->streams->calls.disconnect(view->session);
    arena_free(view->arena);
}

// Options are a text: the watermark in microseconds, the number of the column that it is about, the time zone.
static weft_status new_view(Streams *streams, const ViewDef *def, ContinuousView **out, Error *err)
{
    Arena          *arena = arena_new(NULL, "continuous view");
    ContinuousView *view = arena_make(arena, ContinuousView);
    long long       watermark_us = -1;
    char            zone[64] = "UTC";
    *out = view;
    *view = (ContinuousView){ .streams = streams, .arena = arena, .name = arena_strdup(arena, def->name),
                              .text = arena_strdup(arena, def->text), .stream = "",
                              .state = arena_printf(arena, STATE_PREFIX "%s", def->name) };
    TRY(streams->calls.connect(streams->db, &view->session, err));
    if (sscanf(def->options, "%lld %d %63s", &watermark_us, &view->event_column, zone) < 3 ||
        !zone_find_named(zone, strlen(zone), &view->session->settings.zone))
        return fail(err, WEFT_CORRUPT, -1, "the options of view \"%s\" are damaged", def->name);
    view->watermark_us = watermark_us;
    Execution   ex = view_execution(view->session, NULL, err);
    Statement  *statement;
    KeptGroups  kept;
    weft_status status = view_bind(streams, &ex, def->text, &kept, &statement);
    if (!status) {
        view->stream = arena_strdup(arena, plan_stream(statement->plan->root)->name);
        view->kept = kept;
        view->kept.columns = arena_array(arena, KeptColumn, kept.n_columns);
        memcpy(view->kept.columns, kept.columns, (size_t)kept.n_columns * sizeof *kept.columns);
        view->has_form = plan_family_form(statement->plan, arena, &view->form);
    }
    view_execution_end(&ex);
    return status;
}

static void add_to_list(Streams *streams, ContinuousView *view)
{
    pthread_mutex_lock(&streams->lock);
    *LIST_PUSH(streams->arena, streams->views, streams->n_views) = view;
    pthread_mutex_unlock(&streams->lock);
}

// The state as it was saved, in memory.
static weft_status load_state(ContinuousView *view, Error *err)
{
    Streams    *streams = view->streams;
    ViewRows    rows = { 0 };
    TRY(store_peek_table(streams->db->store, view->state, &rows.own, err));
    view->seen = rows.own->traits;
    view->saved = view->seen.position;
    weft_status status = view_create_state(streams->states, view->state, &view->kept, &view->seen, err);
    if (!status) status = merge_into(view, &rows, streams->states, &view->seen, &view->n_merged, err);
    view_release_rows(&rows);
    return status;
}

static void load_views(Streams *streams)
{
    Arena         *scratch = arena_new(NULL, "views");
    const ViewDef *views;
    int            n_views;
    store_list_views(streams->db->store, scratch, &views, &n_views);
    for (int i = 0; i < n_views; i++) {
        ContinuousView *view;
        Error           error = { 0 };
        if (!views[i].options) continue;
        weft_status status = new_view(streams, &views[i], &view, &error);
        if (!status) status = load_state(view, &error);
        if (status) view->error = error;
        add_to_list(streams, view);
    }
    arena_free(scratch);
}

// Of a view whose creation or removal was interrupted.
static bool drop_orphans(Streams *streams)
{
    Arena       *scratch = arena_new(NULL, "orphans");
    Store       *store = streams->db->store;
    const char **names;
    int          n_names;
    bool         has_stream = false;
    (void)store_list_all(store, scratch, &names, &n_names);
    for (int i = 0; i < n_names; i++) {
        TableTraits traits = { 0 };
        if (!store_traits(store, names[i], &traits)) continue;
        has_stream |= traits.kind == TABLE_STREAM;
        const ViewDef *view = traits.kind == TABLE_STATE && strlen(names[i]) > strlen(STATE_PREFIX)
                                  ? store_view(store, scratch, names[i] + strlen(STATE_PREFIX)) : NULL;
        if (traits.kind == TABLE_STATE && !(view && view->options))
            (void)store_drop_table(store, names[i], &(Error){ 0 });
    }
    arena_free(scratch);
    return has_stream;
}

Streams *streams_new(weft_db *db, const StreamCalls *calls)
{
    Streams *streams = arena_make(db->arena, Streams);
    *streams = (Streams){ .db = db, .calls = *calls, .arena = arena_new(NULL, "continuous views") };
    pthread_mutex_init(&streams->lock, NULL);
    pthread_cond_init(&streams->changed, NULL);
    (void)store_open(NULL, &db->budget, &streams->states, &(Error){ 0 });
    const bool has_stream = drop_orphans(streams);
    load_views(streams);
    if (has_stream) streams_wake(streams);
    return streams;
}

void streams_free(Streams *streams)
{
    if (!streams) return;
    pthread_mutex_lock(&streams->lock);
    streams->is_closing = true;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
    if (streams->has_thread) pthread_join(streams->thread, NULL);
    saves_end(streams);
    merges_end(streams);
    for (int i = 0; i < streams->n_views; i++) {
        if (!streams->views[i]->error.status) (void)save_view(streams->views[i], &(Error){ 0 });
        free_view(streams->views[i]);
    }
    store_close(streams->states);
    pthread_cond_destroy(&streams->changed);
    pthread_mutex_destroy(&streams->lock);
    arena_free(streams->arena);
}

// ---- CREATE and DROP ------------------------------------------------------------------------------------------------

static bool is_event_time(const Table *stream, int column)
{
    const TypeKind kind = stream->columns[column].type.kind;
    return kind == TYPE_TIMESTAMP || kind == TYPE_TIMESTAMPTZ;
}

// The column that the watermark is about: the one that was named, or the only one of its type.
static weft_status find_event_time(Execution *ex, const Statement *statement, const Table *stream, int *column)
{
    int n = 0;
    *column = 0;
    if (statement->watermark_us < 0) return WEFT_OK;
    for (int i = 0; i < stream->n_columns; i++) {
        if (!is_event_time(stream, i) || (statement->column && strcmp(stream->columns[i].name, statement->column) != 0))
            continue;
        *column = i;
        n++;
    }
    if (n == 1) return WEFT_OK;
    fail(ex->err, WEFT_INVALID_PARAMETER, statement->at, "a watermark needs a timestamp column of stream \"%s\"",
         stream->name);
    error_hint(ex->err, "Say which one: WITH (continuous, watermark = '10 seconds', event_time = column).");
    return WEFT_INVALID_PARAMETER;
}

static weft_status check_uses(Execution *ex, const Statement *statement, const ViewDef *view)
{
    for (int i = 0; i < view->n_uses; i++) {
        const ViewDef *used = store_view(ex->session->db->store, ex->arena, view->uses[i]);
        if (used && used->options)
            return fail(ex->err, WEFT_UNSUPPORTED, statement->at,
                        "a continuous view of a continuous view is not supported yet");
    }
    if (strlen(STATE_PREFIX) + strlen(view->name) > NAME_MOST)
        return fail(ex->err, WEFT_INVALID_NAME, statement->at, "the name of a continuous view has at most %d bytes",
                    NAME_MOST - (int)strlen(STATE_PREFIX));
    return WEFT_OK;
}

// Called between two rounds, so that no row goes before the view is known.  SETTINGS: its queries run with these, until
// the database is closed.
static weft_status add_view(Streams *streams, const ViewDef *def, const Settings *settings, Error *err)
{
    ContinuousView *view;
    const Table    *stream = NULL;
    Store          *store = streams->db->store;
    weft_status     status = new_view(streams, def, &view, err);
    if (view->session) view->session->settings = *settings;
    if (!status) status = store_peek_table(store, view->stream, &stream, err);
    if (!status) {
        view->seen = (TableTraits){ .kind = TABLE_STATE, .position = stream->traits.first_row };
        view->saved = view->seen.position;
        table_release(stream);
        status = view_create_state(streams->states, view->state, &view->kept, &view->seen, err);
    }
    if (!status) {
        status = view_create_state(store, view->state, &view->kept, &view->seen, err);
        if (!status) {
            status = store_create_view(store, def, false, err);
            if (status) (void)store_drop_table(store, view->state, &(Error){ 0 });
        }
        if (status) (void)store_drop_table(streams->states, view->state, &(Error){ 0 });
    }
    if (status) free_view(view);
    else add_to_list(streams, view);
    return status;
}

weft_status streams_create_view(Execution *ex, const Statement *statement, const ViewDef *view)
{
    Streams *streams = ex->session->db->streams;
    ViewDef  def = *view;
    int      event_column;
    TRY(plan_check_continuous(statement->plan, ex->err));
    TRY(check_uses(ex, statement, view));
    TRY(find_event_time(ex, statement, plan_stream(statement->plan->root), &event_column));
    def.options = arena_printf(ex->arena, "%lld %d %s", (long long)statement->watermark_us, event_column,
                               zone_name(ex->session->settings.zone));
    begin_change(streams);
    const weft_status status = add_view(streams, &def, &ex->session->settings, ex->err);
    end_change(streams);
    TRY(status);
    streams_wake(streams);
    streams_wait(streams, view->name, &ex->session->cancelled);
    return WEFT_OK;
}

weft_status streams_drop_view(Streams *streams, const char *name, Error *err)
{
    begin_change(streams);
    weft_status status = store_drop_view(streams->db->store, name, err);
    if (!status) {
        pthread_mutex_lock(&streams->lock);
        ContinuousView *view = find_view(streams, name);
        for (int i = 0, n = 0; view && i < streams->n_views; i++)
            if (streams->views[i] != view) streams->views[n++] = streams->views[i];
        streams->n_views -= view != NULL;
        pthread_cond_broadcast(&streams->changed);
        pthread_mutex_unlock(&streams->lock);
        if (view) {
            (void)store_drop_table(streams->states, view->state, &(Error){ 0 });
            status = store_drop_table(streams->db->store, view->state, err);
            free_view(view);
        }
    }
    end_change(streams);
    return status == WEFT_UNDEFINED_TABLE ? WEFT_OK : status;
}

// ---- what others ask ------------------------------------------------------------------------------------------------

static weft_status fail_state(Streams *streams, const char *name, Error *err)
{
    pthread_mutex_lock(&streams->lock);
    const ContinuousView *view = find_view(streams, name);
    const bool            has_error = view && view->error.status;
    const weft_status     status = fail(err, has_error ? view->error.status : WEFT_UNDEFINED_TABLE, -1,
                                        "continuous view \"%s\" could not be loaded: %s", name,
                                        has_error ? view->error.message : "it is being dropped");
    pthread_mutex_unlock(&streams->lock);
    return status;
}

weft_status streams_state(Streams *streams, const char *name, Arena *arena, ViewRows *rows, Error *err)
{
    char        table[NAME_MOST + 1];
    weft_status status;
    *rows = (ViewRows){ 0 };
    snprintf(table, sizeof table, STATE_PREFIX "%s", name);
    pthread_mutex_lock(&streams->lock);
    const ContinuousView *view = find_view(streams, name);
    status = view_peek(streams, view, table, arena, rows, &(Error){ 0 });
    pthread_mutex_unlock(&streams->lock);
    return status ? fail_state(streams, name, err) : WEFT_OK;
}

// Row behind the last that the view's stream has; 0: there is no such view.
static u64 stream_end(Streams *streams, const char *name)
{
    const Table *stream = NULL;
    char         stream_name[NAME_MOST + 1] = "";
    pthread_mutex_lock(&streams->lock);
    const ContinuousView *view = find_view(streams, name);
    if (view) snprintf(stream_name, sizeof stream_name, "%s", view->stream);
    pthread_mutex_unlock(&streams->lock);
    if (!view || store_peek_table(streams->db->store, stream_name, &stream, &(Error){ 0 })) return 0;
    const u64 end = stream->traits.first_row + stream->n_rows;
    table_release(stream);
    return end;
}

void streams_wait(Streams *streams, const char *name, const _Atomic bool *cancel)
{
    const u64 end = stream_end(streams, name);
    pthread_mutex_lock(&streams->lock);
    for (;;) {
        const ContinuousView *view = find_view(streams, name);
        if (!view || view->error.status || view->seen.position >= end || atomic_load(cancel) || !streams->has_thread)
            break;
        wait_ms(streams, 20);
    }
    pthread_mutex_unlock(&streams->lock);
}

weft_status streams_wait_change(Streams *streams, const char *name, int at, u64 *position, const _Atomic bool *cancel,
                                Error *err)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&streams->lock);
    for (;;) {
        const ContinuousView *view = find_view(streams, name);
        if (atomic_load(cancel)) status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        else if (!view) status = fail(err, WEFT_UNDEFINED_TABLE, at, "continuous view \"%s\" does not exist", name);
        else if (view->error.status)
            status = fail(err, view->error.status, at, "continuous view \"%s\" has stopped: %s", name,
                          view->error.message);
        const u64 seen = view && !status ? view->seen.position : 0;
        if (status) break;
        if (seen > *position) {
            *position = seen;
            break;
        }
        wait_ms(streams, 20);
    }
    pthread_mutex_unlock(&streams->lock);
    return status;
}

int streams_figures(Streams *streams, Arena *arena, ViewFigures **out)
{
    pthread_mutex_lock(&streams->lock);
    const int n = streams->n_views;
    *out = arena_array(arena, ViewFigures, n + 1);
    for (int i = 0; i < n; i++) {
        const ContinuousView *view = streams->views[i];
        const Table          *state = NULL, *cells = NULL;
        (*out)[i] = (ViewFigures){ .name = arena_strdup(arena, view->name), .stream = arena_strdup(arena, view->stream),
                                   .error = view->error.status ? arena_strdup(arena, view->error.message) : NULL,
                                   .n_together = view->family ? view->family->n_views : 1,
                                   .position = view->seen.position, .saved = view->saved, .n_late = view->seen.n_late,
                                   .has_watermark = view->watermark_us >= 0 && view->seen.has_latest,
                                   .watermark = view->seen.latest - view->watermark_us };
        if (!store_peek_table(streams->states, view->state, &state, &(Error){ 0 })) (*out)[i].n_kept = state->n_rows;
        if (view->family && !store_peek_table(streams->states, view->family->state, &cells, &(Error){ 0 }))
            (*out)[i].n_kept += cells->n_rows;
        table_release(state);
        table_release(cells);
    }
    pthread_mutex_unlock(&streams->lock);
    return n;
}
