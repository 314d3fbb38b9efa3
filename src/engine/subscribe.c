// subscribe.c - SUBSCRIBE TO v: the rows of a continuous view that changed, each time it is asked.
//
// A session remembers the hashes of the rows that it was given last.  When the view has seen more rows of its stream,
// it is read again, and the rows whose hash is new are the answer.  Rows that are gone (HAVING) are not reported.  A
// client asks again and again; the shell does, until Ctrl-C.

#include <stdio.h>
#include <stdlib.h>

#include "engine/continuous.h"

typedef struct Subscription {
    char *name;
    u64   position;                    // rows of the stream that the rows below are about
    u64   n_rows, *hashes;             // sorted
    bool  has_rows;                    // false: nothing was given yet
} Subscription;

void subscription_free(weft_session *session)
{
    Subscription *subscription = session->subscription;
    if (!subscription) return;
    free(subscription->name);
    free(subscription->hashes);
    free(subscription);
    session->subscription = NULL;
}

static Subscription *subscription_of(weft_session *session, const char *name)
{
    if (session->subscription && strcmp(session->subscription->name, name) == 0) return session->subscription;
    subscription_free(session);
    session->subscription = calloc(1, sizeof(Subscription));
    session->subscription->name = strdup(name);
    return session->subscription;
}

static int compare_hashes(const void *a, const void *b)
{
    const u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return (x > y) - (x < y);
}

static bool is_text(const weft_column *column)
{
    return column->type == WEFT_TEXT || column->type == WEFT_INTERVAL || column->type == WEFT_UUID;
}

static size_t cell_width(const weft_column *column)
{
    return column->type == WEFT_NUMERIC ? sizeof(weft_int128) : is_text(column) ? sizeof(weft_text) : 8;
}

static u64 hash_row(const weft_result *result, size_t row, Text *scratch)
{
    scratch->length = 0;
    for (int c = 0; c < result->n_columns; c++) {
        const weft_column *column = &result->columns[c];
        const bool         is_null = column->is_null && column->is_null[row];
        const size_t       width = cell_width(column);
        text_add_bytes(scratch, is_null ? "N" : "V", 1);
        if (is_null) continue;
        if (is_text(column)) {
            text_add_bytes(scratch, (const char *)&column->text[row].length, sizeof column->text[row].length);
            text_add_bytes(scratch, column->text[row].bytes, column->text[row].length);
        } else {
            text_add_bytes(scratch, (const char *)column->i64 + row * width, width);
        }
    }
    return hash_bytes(scratch->bytes, scratch->length);
}

static void move_row(weft_result *result, size_t to, size_t from)
{
    for (int c = 0; c < result->n_columns; c++) {
        weft_column *column = &result->columns[c];
        const size_t width = cell_width(column);
        char        *data = (char *)(uintptr_t)column->i64;
        memcpy(data + to * width, data + from * width, width);
        if (column->is_null) ((u8 *)(uintptr_t)column->is_null)[to] = column->is_null[from];
        if (column->shown) ((u8 *)(uintptr_t)column->shown)[to] = column->shown[from];
    }
}

// Leaves the rows that are not among those of last time, and remembers all.
static void leave_changed(Subscription *subscription, weft_result *result)
{
    const size_t n_rows = result->n_rows;
    u64         *hashes = malloc((n_rows + 1) * sizeof *hashes);
    Text         scratch = { 0 };
    size_t       n_kept = 0;
    for (size_t row = 0; row < n_rows; row++) {
        hashes[row] = hash_row(result, row, &scratch);
        if (subscription->has_rows && bsearch(&hashes[row], subscription->hashes, subscription->n_rows,
                                              sizeof *hashes, compare_hashes))
            continue;
        if (n_kept != row) move_row(result, n_kept, row);
        n_kept++;
    }
    qsort(hashes, n_rows, sizeof *hashes, compare_hashes);
    free(subscription->hashes);
    subscription->hashes = hashes;
    subscription->n_rows = n_rows;
    subscription->has_rows = true;
    result->n_rows = n_kept;
    text_free(&scratch);
}

// Places of errors are in the query's text, which the user has not written.
static weft_status read_view(Execution *ex, const char *name, int at, ReadView read)
{
    Text        query = { 0 };
    weft_result *result = NULL;
    text_add(&query, "select * from \"");
    for (const char *c = name; *c; c++) text_add(&query, *c == '"' ? "\"\"" : "%c", *c);
    text_add(&query, "\"");
    const weft_status status = read(ex->session, query.bytes, &result, ex->err);
    text_free(&query);
    if (status) ex->err->position = at;
    if (status) return status;
    arena_free(ex->result->arena);
    ex->result = result;
    return WEFT_OK;
}

weft_status run_subscribe(Execution *ex, const char *name, int at, ReadView read)
{
    weft_session  *session = ex->session;
    const ViewDef *view = store_view(session->db->store, ex->arena, name);
    if (!view || !view->options)
        return fail(ex->err, view ? WEFT_WRONG_OBJECT : WEFT_UNDEFINED_TABLE, at,
                    view ? "\"%s\" is not a continuous view" : "continuous view \"%s\" does not exist", name);
    Subscription *subscription = subscription_of(session, name);
    do {
        if (subscription->has_rows)
            TRY(streams_wait_change(session->db->streams, name, at, &subscription->position, &session->cancelled,
                                    ex->err));
        TRY(read_view(ex, name, at, read));
        leave_changed(subscription, ex->result);
    } while (!ex->result->n_rows);
    snprintf(ex->result->tag, sizeof ex->result->tag, "SUBSCRIBE %zu", ex->result->n_rows);
    return WEFT_OK;
}
