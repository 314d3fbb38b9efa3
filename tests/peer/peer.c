// peer.c - what all engines share, and Weft's own side of the interface.

#define _GNU_SOURCE
#include "peer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

bool peer_run(Peer *peer, const char *sql, Rows *rows)
{
    if (rows)
        *rows = (Rows){ 0 };
    peer->error[0] = peer->sqlstate[0] = 0;
    peer->gave_up = false;
    return peer->run(peer, sql, rows);
}

bool peer_runf(Peer *peer, const char *format, ...)
{
    char *sql;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&sql, format, args);
    va_end(args);
    if (length < 0)
        abort();
    bool ok = peer_run(peer, sql, NULL);
    free(sql);
    return ok;
}

void peer_close(Peer *peer)
{
    if (peer)
        peer->close(peer);
}

Peer *peer_connect(Peer *peer, char error[PEER_ERROR_BYTES])
{
    if (peer->connect)
        return peer->connect(peer, error);
    snprintf(error, PEER_ERROR_BYTES, "%s has one connection here", peer->name);
    return NULL;
}

char *read_whole_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    char *text = NULL, block[65536];
    size_t length = 0, got;
    FILE *out = open_memstream(&text, &length);
    while ((got = fread(block, 1, sizeof block, in)) > 0)
        fwrite(block, 1, got, out);
    bool is_broken = ferror(in);
    fclose(in);
    fclose(out);
    if (is_broken) {
        free(text);
        return NULL;
    }
    return text;
}

bool tbl_has_trailing_bar(const char *path)
{
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = in ? getline(&line, &capacity, in) : -1;
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    bool is_trailing = length > 0 && line[length - 1] == '|';
    free(line);
    if (in)
        fclose(in);
    return is_trailing;
}

// ---- Weft ---------------------------------------------------------------------------------------------------------

typedef struct WeftPeer {
    Peer          peer;
    weft_db      *db;
    weft_session *session;
    bool          has_opened;          // the database; the others are connected to it
} WeftPeer;

void peer_weft_rows(const weft_result *result, Rows *rows)
{
    int n_columns = weft_result_columns(result);
    rows_start(rows, n_columns);
    for (int c = 0; c < n_columns; c++)
        rows_name(rows, c, weft_result_column(result, c)->name);
    size_t capacity = 256;
    char *buffer = malloc(capacity);
    for (size_t r = 0; n_columns && r < weft_result_rows(result); r++) {
        for (int c = 0; c < n_columns; c++) {
            const weft_column *column = weft_result_column(result, c);
            if (column->is_null && column->is_null[r]) {
                rows_push(rows, NULL);
                continue;
            }
            size_t length = weft_format(result, c, r, buffer, capacity);
            if (length >= capacity) {
                capacity = length + 1;
                buffer = realloc(buffer, capacity);
                weft_format(result, c, r, buffer, capacity);
            }
            rows_push(rows, buffer);
        }
    }
    free(buffer);
}

static bool weft_run(Peer *peer, const char *sql, Rows *rows)
{
    WeftPeer *weft = (WeftPeer *)peer;
    weft_result *result = NULL;
    weft_error error = { 0 };
    if (weft_query(weft->session, sql, &result, &error)) {
        snprintf(peer->error, sizeof peer->error, "%s: %s", error.sqlstate, error.message);
        snprintf(peer->sqlstate, sizeof peer->sqlstate, "%s", error.sqlstate);
        return false;
    }
    if (rows)
        peer_weft_rows(result, rows);
    weft_result_free(result);
    return true;
}

static void weft_peer_close(Peer *peer)
{
    WeftPeer *weft = (WeftPeer *)peer;
    weft_disconnect(weft->session);
    if (weft->has_opened)
        weft_close(weft->db);
    free(weft);
}

static Peer *connect_weft(Peer *peer, char error[PEER_ERROR_BYTES])
{
    WeftPeer *weft = calloc(1, sizeof *weft);
    weft_error why = { 0 };
    weft->peer = *peer;
    weft->db = ((WeftPeer *)peer)->db;
    if (weft_connect(weft->db, &weft->session, &why)) {
        snprintf(error, PEER_ERROR_BYTES, "%s: %s", why.sqlstate, why.message);
        weft_peer_close(&weft->peer);
        return NULL;
    }
    return &weft->peer;
}

Peer *peer_open_weft(const char *path, char error[PEER_ERROR_BYTES])
{
    WeftPeer *weft = calloc(1, sizeof *weft);
    weft->peer = (Peer){ .name = "weft", .run = weft_run, .close = weft_peer_close, .connect = connect_weft };
    weft->has_opened = true;
    weft_error why = { 0 };
    if (weft_open(path, &weft->db, &why) || weft_connect(weft->db, &weft->session, &why)) {
        snprintf(error, PEER_ERROR_BYTES, "%s: %s", why.sqlstate, why.message);
        weft_peer_close(&weft->peer);
        return NULL;
    }
    return &weft->peer;
}

weft_session *peer_weft_session(Peer *weft)
{
    return ((WeftPeer *)weft)->session;
}

void peer_cancel(Peer *weft)
{
    weft_cancel(((WeftPeer *)weft)->session);
}

bool peer_load_weft(Peer *peer, const char *table, const char *path)
{
    return peer_runf(peer, "copy %s from '%s' (delimiter '|', trailing_delimiter)", table, path);
}
