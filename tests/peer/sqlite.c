// sqlite.c - SQLite behind the peer interface: always there, single-threaded, and very well tested.

#define _GNU_SOURCE
#include "peer.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct SqlitePeer {
    Peer     peer;
    sqlite3 *db;
    int      limit_steps;              // 0: none
    int      calls_left;               // of the progress handler, before it gives up
} SqlitePeer;

enum { STEPS_PER_CALL = 1000 };

static int on_progress(void *context)
{
    SqlitePeer *sqlite = context;
    if (sqlite->limit_steps && --sqlite->calls_left < 0) {
        sqlite->peer.gave_up = true;
        return 1;
    }
    return 0;
}

// sqlite3_column_text would cut doubles to 15 digits.
static void push_cell(sqlite3_stmt *statement, int column, Rows *rows)
{
    char number[40];
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        rows_push(rows, NULL);
        break;
    case SQLITE_FLOAT:
        snprintf(number, sizeof number, "%.17g", sqlite3_column_double(statement, column));
        rows_push(rows, number);
        break;
    default:
        rows_push(rows, (const char *)sqlite3_column_text(statement, column));
    }
}

static int step_through(sqlite3_stmt *statement, Rows *rows)
{
    int n_columns = sqlite3_column_count(statement);
    if (rows) {
        rows_free(rows);
        rows_start(rows, n_columns);
        for (int c = 0; c < n_columns; c++)
            rows_name(rows, c, sqlite3_column_name(statement, c));
    }
    int status;
    while ((status = sqlite3_step(statement)) == SQLITE_ROW)
        for (int c = 0; rows && c < n_columns; c++)
            push_cell(statement, c, rows);
    return status;
}

static bool sqlite_fail(SqlitePeer *sqlite)
{
    snprintf(sqlite->peer.error, sizeof sqlite->peer.error, "%s", sqlite3_errmsg(sqlite->db));
    return false;
}

static bool sqlite_run(Peer *peer, const char *sql, Rows *rows)
{
    SqlitePeer *sqlite = (SqlitePeer *)peer;
    sqlite->calls_left = sqlite->limit_steps / STEPS_PER_CALL;
    for (const char *rest = sql; *rest;) {
        sqlite3_stmt *statement = NULL;
        if (sqlite3_prepare_v2(sqlite->db, rest, -1, &statement, &rest) != SQLITE_OK)
            return sqlite_fail(sqlite);
        if (!statement)
            continue;                  // blanks or a comment
        int status = step_through(statement, rows);
        if (status != SQLITE_DONE)
            sqlite_fail(sqlite);       // before finalize, which replaces the message
        sqlite3_finalize(statement);
        if (status != SQLITE_DONE)
            return false;
    }
    return true;
}

static void sqlite_close(Peer *peer)
{
    SqlitePeer *sqlite = (SqlitePeer *)peer;
    sqlite3_close(sqlite->db);
    free(sqlite);
}

Peer *peer_open_sqlite(const char *path, char error[PEER_ERROR_BYTES])
{
    SqlitePeer *sqlite = calloc(1, sizeof *sqlite);
    sqlite->peer = (Peer){ .name = "sqlite", .run = sqlite_run, .close = sqlite_close };
    if (sqlite3_open(path ? path : ":memory:", &sqlite->db) != SQLITE_OK) {
        snprintf(error, PEER_ERROR_BYTES, "%s", sqlite3_errmsg(sqlite->db));
        sqlite_close(&sqlite->peer);
        return NULL;
    }
    sqlite3_progress_handler(sqlite->db, STEPS_PER_CALL, on_progress, sqlite);
    sqlite_run(&sqlite->peer, "pragma case_sensitive_like = on", NULL);
    return &sqlite->peer;
}

void peer_sqlite_limit(Peer *peer, int steps)
{
    ((SqlitePeer *)peer)->limit_steps = steps;
}

// ---- loading ------------------------------------------------------------------------------------------------------

static int count_columns(SqlitePeer *sqlite, const char *table)
{
    char sql[256];
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql, "select * from \"%s\"", table);
    if (sqlite3_prepare_v2(sqlite->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return 0;
    int n_columns = sqlite3_column_count(statement);
    sqlite3_finalize(statement);
    return n_columns;
}

static sqlite3_stmt *prepare_insert(SqlitePeer *sqlite, const char *table, int n_columns)
{
    char sql[1024];
    int length = snprintf(sql, sizeof sql, "insert into \"%s\" values (", table);
    for (int c = 0; c < n_columns && length < (int)sizeof sql - 4; c++)
        length += snprintf(sql + length, sizeof sql - (size_t)length, c ? ",?" : "?");
    snprintf(sql + length, sizeof sql - (size_t)length, ")");
    sqlite3_stmt *statement = NULL;
    sqlite3_prepare_v2(sqlite->db, sql, -1, &statement, NULL);
    return statement;
}

// Values are bound as text; the column's affinity makes integers of them.
static bool insert_line(sqlite3_stmt *insert, char *line, int n_columns)
{
    line[strcspn(line, "\r\n")] = 0;
    char *rest = line;
    for (int c = 0; c < n_columns; c++) {
        char *field = strsep(&rest, "|");
        if (!field)
            return false;
        sqlite3_bind_text(insert, c + 1, field, -1, SQLITE_STATIC);
    }
    if (rest && *rest)
        return false;
    bool ok = sqlite3_step(insert) == SQLITE_DONE;
    sqlite3_reset(insert);
    return ok;
}

bool peer_load_sqlite(Peer *peer, const char *table, const char *path)
{
    SqlitePeer *sqlite = (SqlitePeer *)peer;
    int n_columns = count_columns(sqlite, table);
    sqlite3_stmt *insert = n_columns ? prepare_insert(sqlite, table, n_columns) : NULL;
    if (!insert)
        return sqlite_fail(sqlite);
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    long n_lines = 0;
    bool ok = in && sqlite_run(peer, "begin", NULL);
    while (ok && getline(&line, &capacity, in) > 0) {
        n_lines++;
        ok = insert_line(insert, line, n_columns);
    }
    if (!ok)
        snprintf(peer->error, sizeof peer->error, "%s: line %ld does not fit table %s", path, n_lines, table);
    sqlite3_finalize(insert);
    free(line);
    if (in)
        fclose(in);
    return ok && sqlite_run(peer, "commit", NULL);
}
