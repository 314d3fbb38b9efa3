// files.c - FROM 'sales.csv': the rows of a file as a table that lives as long as the statement.
//
// The file is read whole into a store in memory, whose types are guessed from its beginning (store/guess.c).  When a
// value further down does not fit its column's type, the file is read again with text for that column.  Memory counts
// against memory_limit.

#include "engine/execute.h"
#include "store/guess.h"

static void close_store(void *store) { store_close(store); }

bool file_is_meant(const char *name) { return guess_format(name) != NULL; }

static weft_status read_into(Execution *ex, Store *store, const char *path, const Guess *guess, Error *err)
{
    weft_session *session = ex->session;
    CopyFigures   figures;
    Append       *append;
    Pool         *pool = pool_new(session->settings.threads);
    weft_status   status = append_begin_new(store, "file", guess->columns, guess->n_columns, &append, err);
    if (!status) {
        status = copy_into_append(append, pool, &session->db->budget, path, &guess->options, &session->copy_progress,
                                  &session->cancelled, &figures, err);
        if (status) append_abort(append);
        else status = append_commit(append, &figures.n_rows, err);
    }
    pool_free(pool);
    atomic_store(&session->copy_progress, 0);               // from here on the query's own counts
    return status;
}

static weft_status read_guessed(Execution *ex, Store *store, const char *path, Guess *guess)
{
    for (;;) {
        Error reason;
        error_clear(&reason);
        const weft_status status = read_into(ex, store, path, guess, &reason);
        if (!status) return WEFT_OK;
        if (guess_widen(guess, &reason)) continue;
        fail(ex->err, status, -1, "%s", reason.message);
        if (reason.hint[0]) error_hint(ex->err, "%s", reason.hint);
        return status;
    }
}

weft_status file_table(Execution *ex, const char *path, const char *format, const Table **table)
{
    Guess  guess;
    Store *store;
    ex->uses_virtual = true;
    TRY(guess_file(ex->arena, path, format, &ex->session->cancelled, &guess, ex->err));
    TRY(store_open_passing(&ex->session->db->budget, &store, ex->err));
    arena_defer(ex->arena, close_store, store);
    store_set_chunk_rows(store, store_chunk_rows(ex->session->db->store));
    TRY(read_guessed(ex, store, path, &guess));
    return store_get_table(store, "file", table, ex->err);
}
