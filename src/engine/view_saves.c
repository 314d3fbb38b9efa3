// view_saves.c - what continuous views have, into the database, while rounds go on.
//
//     the thread that feeds, between two rounds:   holds what is kept for one view, as of a row of the stream
//     a thread of the squad, beside the rounds:    merges it and commits it as the rows of weft_view_NAME
//
// A save replaces the rows of the view's table in the database, and its traits say up to which row of the stream they
// count: one commit.  There is one save at a time, and no view comes or goes while it runs (saves_wait).  Saves have a
// session of their own, since that of the view may be in a round.
// Not done: one commit for several views.

#include "engine/continuous_int.h"

enum {
    SAVE_MS = 5000,                    // between two saves of a view, at least
    SAVE_SHARE = 10,                   // saves take one part in so many of the time: they have cores and the disk
};

// ---- one view -------------------------------------------------------------------------------------------------------

static void note_saved(ContinuousView *view, u64 position)
{
    pthread_mutex_lock(&view->streams->lock);
    view->saved = position;
    pthread_mutex_unlock(&view->streams->lock);
}

static weft_status save_rows(ContinuousView *view, weft_session *session, const ViewRows *rows,
                             const TableTraits *seen, Error *err)
{
    Append *append;
    u64     n_rows, n_appended;
    TRY(view_merge(view, session, rows, view->streams->db->store, seen, &append, &n_rows, err));
    TRY(append_commit(append, &n_appended, err));
    note_saved(view, seen->position);
    return WEFT_OK;
}

weft_status save_view(ContinuousView *view, Error *err)
{
    if (view->saved == view->seen.position) return WEFT_OK;
    if (!store_path(view->streams->db->store)) {
        note_saved(view, view->seen.position);
        return WEFT_OK;
    }
    Arena      *scratch = arena_new(NULL, "save");
    ViewRows    rows;
    weft_status status = view_kept_rows(view, scratch, &rows, err);
    if (!status) {
        status = save_rows(view, view->session, &rows, &view->seen, err);
        view_release_rows(&rows);
    }
    arena_free(scratch);
    return status;
}

// ---- beside the rounds ----------------------------------------------------------------------------------------------

static void run_save(SquadJob *job)
{
    ViewSave    *save = (ViewSave *)job;
    Streams     *streams = save->view->streams;
    const double start_ms = time_now_ms();
    (void)save_rows(save->view, save->session, &save->rows, &save->seen, &(Error){ 0 });
    view_release_rows(&save->rows);
    arena_free(save->arena);
    const double end_ms = time_now_ms();
    pthread_mutex_lock(&streams->lock);
    save->after_ms = end_ms + (SAVE_SHARE - 1) * (end_ms - start_ms);
    save->is_running = false;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
}

static void end_job(Streams *streams)
{
    if (streams->save.is_started) squad_wait(streams->db->squad, &streams->save.job);
    streams->save.is_started = false;
}

static void start_save(Streams *streams, ContinuousView *view)
{
    ViewSave *save = &streams->save;
    Error     error = { 0 };
    end_job(streams);
    if (!save->session && streams->calls.connect(streams->db, &save->session, &error)) return;
    save->arena = arena_new(NULL, "save");
    if (view_kept_rows(view, save->arena, &save->rows, &error)) {
        arena_free(save->arena);
        return;
    }
    save->session->settings = view->session->settings;
    save->view = view;
    save->seen = view->seen;
    save->job = (SquadJob){ .run = run_save };
    pthread_mutex_lock(&streams->lock);
    save->is_running = true;
    pthread_mutex_unlock(&streams->lock);
    save->is_started = squad_start(streams->db->squad, &save->job);
    if (!save->is_started) run_save(&save->job);
}

// The view that waits longest, if it is time for it.
static ContinuousView *choose_view(Streams *streams, double now_ms)
{
    ContinuousView *oldest = NULL;
    pthread_mutex_lock(&streams->lock);
    const bool is_time = !streams->save.is_running && now_ms >= streams->save.after_ms;
    for (int i = 0; i < streams->n_views && is_time; i++) {
        ContinuousView *view = streams->views[i];
        if (view->saved == view->seen.position) continue;
        if (!oldest || view->saved_ms < oldest->saved_ms) oldest = view;
    }
    pthread_mutex_unlock(&streams->lock);
    return oldest && now_ms - oldest->saved_ms >= SAVE_MS ? oldest : NULL;
}

void saves_go_on(Streams *streams)
{
    const double    now_ms = time_now_ms();
    ContinuousView *view = choose_view(streams, now_ms);
    if (!view) return;
    view->saved_ms = now_ms;
    if (store_path(streams->db->store)) start_save(streams, view);
    else note_saved(view, view->seen.position);
}

void saves_wait(Streams *streams)
{
    while (streams->save.is_running) pthread_cond_wait(&streams->changed, &streams->lock);
}

void saves_end(Streams *streams)
{
    end_job(streams);
    if (streams->save.session) streams->calls.disconnect(streams->save.session);
}
