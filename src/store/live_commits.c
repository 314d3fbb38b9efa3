// live_commits.c - rows of several pipes in one commit.
//
//     pipe 1   parses ----> waits -.                        .-> parses ...
//     pipe 2       parses ----> commits the rows of both ---'-> parses ...
//     pipe 3           parses --------> waits, then commits the next
//
// Much of a commit costs the same however many rows it has: files are made and synced, the manifest is written, small
// chunks are merged.  So pipes that have rows do not take turns.  One commits the rows of all that have come until
// then, and while it does so the next gather.  Rows of one pipe stay together, in the order in which the pipes came.
//
// The rows are parsed before that, without the table's turn, against a snapshot of the table.  What they share with
// others is the dictionaries: any thread may add texts at any time, and a commit writes all that are there.  A text
// that no row uses does no harm.  Only where the table has other dictionaries by now, after TRUNCATE say, rows are
// parsed again (IS_STALE).
//
// A commit of several pipes that finds no memory has failed for none of them: it took more because it was shared.  Its
// pieces are gone, so all parse again, and each commits alone.  An error of a commit alone is the pipe's own.

#include "store/store_int.h"

static bool fits(const Table *made_for, const Table *now)
{
    bool is_same = made_for->id == now->id && made_for->n_stored == now->n_stored;
    for (int i = 0; i < now->n_stored && is_same; i++)
        is_same = made_for->columns[i].dict == now->columns[i].dict;
    return is_same;
}

void live_rows_release(LiveRows *rows)
{
    for (StoredChunk *next; rows->pieces; rows->pieces = next) {
        next = rows->pieces->next;
        chunk_release(&rows->pieces->chunk);
    }
    table_release(rows->made_for);
    rows->made_for = NULL;
}

static weft_status hand_over(LiveRows *rows, Append *append, Error *err)
{
    while (rows->pieces) {
        StoredChunk *piece = rows->pieces;
        rows->pieces = piece->next;
        rows->n_rows += piece->chunk.n_rows;
        TRY(append_take_piece(append, piece, err));
    }
    return WEFT_OK;
}

// Each knows the row behind its last one then.
static weft_status append_all(LiveRows *all, Append *append, Error *err)
{
    const Table *table = append_table(append);
    u64 end = table->traits.first_row + table->n_rows;
    for (LiveRows *rows = all; rows; rows = rows->next) {
        rows->is_stale = !fits(rows->made_for, table);
        if (!rows->is_stale)
            TRY(hand_over(rows, append, err));
        end += rows->n_rows;
        rows->end = end;
    }
    return WEFT_OK;
}

static weft_status commit_all(Store *store, const char *table, LiveRows *all, u32 merge_rows, Error *err)
{
    Append *append;
    TRY(append_begin(store, table, &append, err));
    append_set_merge_rows(append, merge_rows);
    weft_status status = append_all(all, append, err);
    const double start_ms = time_now_ms();
    if (status)
        append_abort(append);
    else
        status = append_commit(append, NULL, err);
    const double spent_ms = time_now_ms() - start_ms;
    for (LiveRows *rows = all; rows; rows = rows->next)
        rows->spent_ms = spent_ms;
    return status;
}

// The first of those that wait, and what shares its commit.
static LiveRows *take_those_that_wait(TableEntry *entry)
{
    LiveRows *all = entry->live_rows, **link = &all->next;
    while (!all->is_alone && *link && !(*link)->is_alone)
        link = &(*link)->next;
    entry->live_rows = *link;
    *link = NULL;
    return all;
}

static void try_again_alone(LiveRows *all)
{
    for (LiveRows *rows = all; rows; rows = rows->next) {
        rows->is_stale = rows->is_alone = true;
        rows->n_rows = 0;
    }
}

// The caller has the lock, which is given up meanwhile.
static void commit_those_that_wait(Store *store, TableEntry *entry, const char *table, u32 merge_rows)
{
    Error error = { 0 };
    LiveRows *all = take_those_that_wait(entry);
    entry->is_committing_live = true;
    pthread_mutex_unlock(&store->lock);
    if (commit_all(store, table, all, merge_rows, &error) == WEFT_OUT_OF_MEMORY && all->next) {
        try_again_alone(all);
        error_clear(&error);
    }
    pthread_mutex_lock(&store->lock);
    entry->is_committing_live = false;
    for (LiveRows *rows = all, *next; rows; rows = next) {
        next = rows->next;
        rows->error = error;
        rows->is_done = true;                               // they may be gone once the lock is given up
    }
    pthread_cond_broadcast(&store->append_ended);
}

weft_status live_rows_commit(Store *store, const char *table, LiveRows *rows, u32 merge_rows, Error *err)
{
    TableEntry *entry = store_take_entry(store, table);
    if (!entry)
        return fail_no_table(err, table);
    pthread_mutex_lock(&store->lock);
    LiveRows **link = &entry->live_rows;
    while (*link)
        link = &(*link)->next;
    *link = rows;
    while (!rows->is_done) {
        if (entry->is_committing_live)
            pthread_cond_wait(&store->append_ended, &store->lock);
        else
            commit_those_that_wait(store, entry, table, merge_rows);
    }
    pthread_mutex_unlock(&store->lock);
    store_drop_user(store, entry);
    if (rows->error.status && err)
        *err = rows->error;
    return rows->error.status;
}
