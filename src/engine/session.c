// session.c - sessions: begun, ended, cancelled, looked at by other threads.

#include "engine/continuous.h"
#include "engine/execute.h"

#include <stdlib.h>

weft_status weft_connect(weft_db *db, weft_session **out, weft_error *error)
{
    weft_session *session = calloc(1, sizeof *session);
    error_clear(error);
    error->position = 0;
    *out = session;
    if (!session) return fail(error, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    session->db = db;
    session->settings = (Settings){
        .weave = true, .jit = JIT_AUTO, .threads = network_threads(db->network), .sharing = true, .weave_queries = true,
        .stream_commit_ms = STREAM_COMMIT_MS
    };
    session->input = 0, session->output = 1;
    settings_default_device(&session->settings);
    session->settings.keep_tables = settings_default_keep_tables();
    session->settings.row_kinds = settings_default_row_kinds();
    session->settings.gpu_generic = settings_default_gpu_generic();
    session->settings.gpu_schedule = settings_default_gpu_schedule();
    session->settings.gpu_sort = settings_default_gpu_sort();
    session->settings.gpu_wait = settings_default_gpu_wait();
    return WEFT_OK;
}

static bool is_of_store(const void *store, u64 table) { return store_may_have(store, table); }

void weft_disconnect(weft_session *session)
{
    if (!session) return;
    prepared_free_all(session);
    subscription_free(session);
    if (session->temporary) gpus_forget_with(session->db->gpus, session->db->cpu, is_of_store, session->temporary);
    store_close(session->temporary);
    free(session);
}

void weft_set_input(weft_session *session, int fd) { session->input = fd; }
void weft_set_output(weft_session *session, int fd) { session->output = fd; }

void weft_cancel(weft_session *session)
{
    atomic_store(&session->cancelled, true);
    atomic_store(&session->stop, 1);
    admission_wake(session->db->admission);
    pieces_wake(session->db->pieces, &session->stop);
    session->db->cpu->wake(session->db->cpu, &session->stop);
    gpus_wake(session->db->gpus, &session->stop);
}

int weft_queue_position(const weft_session *session) { return atomic_load(&session->position); }

double weft_progress(const weft_session *session)
{
    if (!atomic_load(&session->running)) return -1;
    const int copied = atomic_load(&session->copy_progress);
    if (copied > 0) return copied / 1000.0;
    const u64 total = atomic_load(&session->rows_total), done = atomic_load(&session->rows_done);
    return total ? MIN_OF(1.0, (double)done / (double)total) : 0;
}
