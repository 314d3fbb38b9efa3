// duckdb.c - DuckDB behind the peer interface, through its C API, opened at run time.
//
// The library that scripts/duckdb fetches comes without a header, and we want to build without it; so the few functions
// needed are declared here.  They are part of DuckDB's stable C API: their signatures, and the layout of
// duckdb_result, have not changed since version 0.3.

#define _GNU_SOURCE
#include "peer.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct DuckResult {            // duckdb_result: opaque to us but for its size
    uint64_t column_count, row_count, rows_changed;
    void    *columns;
    char    *error_message;
    void    *internal_data;
} DuckResult;

// Name without its prefix, result, parameters.  Everything that returns int returns 0 for success.
// clang-format off
#define DUCK_API_LIST(X)                                                           \
    X(open,            int,          (const char *path, void **database))          \
    X(close,           void,         (void **database))                            \
    X(connect,         int,          (void *database, void **connection))          \
    X(disconnect,      void,         (void **connection))                          \
    X(query,           int,          (void *connection, const char *sql, DuckResult *result)) \
    X(destroy_result,  void,         (DuckResult *result))                         \
    X(result_error,    const char *, (DuckResult *result))                         \
    X(column_count,    uint64_t,     (DuckResult *result))                         \
    X(column_name,     const char *, (DuckResult *result, uint64_t column))        \
    X(row_count,       uint64_t,     (DuckResult *result))                         \
    X(value_varchar,   char *,       (DuckResult *result, uint64_t column, uint64_t row)) \
    X(free,            void,         (void *memory))                               \
    X(library_version, const char *, (void))

typedef struct DuckApi {
#define DUCK_FIELD(name, result, parameters) result (*name) parameters;
    DUCK_API_LIST(DUCK_FIELD)
#undef DUCK_FIELD
} DuckApi;
// clang-format on

typedef struct DuckPeer {
    Peer    peer;
    DuckApi api;
    void   *database, *connection;
    bool    has_opened;                // the database; the others are connected to it
} DuckPeer;

// The library stays open until the process ends: its threads may outlive the database by a moment.
static bool load_api(const char *library, DuckApi *api, char error[PEER_ERROR_BYTES])
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(error, PEER_ERROR_BYTES, "%s", dlerror());
        return false;
    }
#define DUCK_LOAD(name, result, parameters)                                                \
    *(void **)&api->name = dlsym(handle, "duckdb_" #name);                                 \
    if (!api->name) {                                                                      \
        snprintf(error, PEER_ERROR_BYTES, "%s has no duckdb_" #name, library);             \
        return false;                                                                      \
    }
    DUCK_API_LIST(DUCK_LOAD)
#undef DUCK_LOAD
    return true;
}

static void take_rows(const DuckApi *api, DuckResult *result, Rows *rows)
{
    uint64_t n_columns = api->column_count(result), n_rows = api->row_count(result);
    rows_start(rows, (int)n_columns);
    for (uint64_t c = 0; c < n_columns; c++)
        rows_name(rows, (int)c, api->column_name(result, c));
    for (uint64_t r = 0; r < n_rows; r++) {
        for (uint64_t c = 0; c < n_columns; c++) {
            char *cell = api->value_varchar(result, c, r);
            rows_push(rows, cell);
            api->free(cell);
        }
    }
}

static bool duck_run(Peer *peer, const char *sql, Rows *rows)
{
    DuckPeer *duck = (DuckPeer *)peer;
    DuckResult result = { 0 };
    bool ok = duck->api.query(duck->connection, sql, &result) == 0;
    if (!ok) {
        const char *message = duck->api.result_error(&result);
        snprintf(peer->error, sizeof peer->error, "%s", message ? message : "unknown error");
    } else if (rows) {
        take_rows(&duck->api, &result, rows);
    }
    duck->api.destroy_result(&result);
    return ok;
}

static void duck_close(Peer *peer)
{
    DuckPeer *duck = (DuckPeer *)peer;
    if (duck->connection)
        duck->api.disconnect(&duck->connection);
    if (duck->database && duck->has_opened)
        duck->api.close(&duck->database);
    free(duck);
}

static Peer *duck_connect(Peer *peer, char error[PEER_ERROR_BYTES])
{
    DuckPeer *duck = malloc(sizeof *duck);
    *duck = *(DuckPeer *)peer;
    duck->connection = NULL;
    duck->has_opened = false;
    if (duck->api.connect(duck->database, &duck->connection)) {
        snprintf(error, PEER_ERROR_BYTES, "duckdb refuses another connection");
        duck_close(&duck->peer);
        return NULL;
    }
    return &duck->peer;
}

Peer *peer_open_duckdb(const char *library, const char *path, char error[PEER_ERROR_BYTES])
{
    DuckPeer *duck = calloc(1, sizeof *duck);
    duck->peer = (Peer){ .name = "duckdb", .run = duck_run, .close = duck_close, .connect = duck_connect };
    duck->has_opened = true;
    if (!load_api(library, &duck->api, error)) {
        free(duck);
        return NULL;
    }
    if (duck->api.open(path, &duck->database) || duck->api.connect(duck->database, &duck->connection)) {
        snprintf(error, PEER_ERROR_BYTES, "duckdb cannot open %s", path ? path : "a database in memory");
        duck_close(&duck->peer);
        return NULL;
    }
    return &duck->peer;
}

// ---- loading ------------------------------------------------------------------------------------------------------

// DuckDB takes a '|' at the end of a line for one more column, so such files are read with a column that is then
// dropped.
static char *select_without_last(Peer *peer, const char *table, const char *path)
{
    char sql[512];
    Rows columns;
    snprintf(sql, sizeof sql, "select column_name, data_type from duckdb_columns() where table_name = '%s' "
             "order by column_index", table);
    if (!peer_run(peer, sql, &columns))
        return NULL;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out,
            "insert into \"%s\" select * exclude (after_last_bar) from read_csv('%s', delim = '|', header = false, "
            "quote = '', escape = '', auto_detect = false, columns = {",
            table, path);
    for (size_t r = 0; r < columns.n_rows; r++)
        fprintf(out, "'%s': '%s', ", rows_cell(&columns, r, 0), rows_cell(&columns, r, 1));
    fprintf(out, "'after_last_bar': 'varchar'})");
    fclose(out);
    rows_free(&columns);
    return text;
}

bool peer_load_duckdb(Peer *peer, const char *table, const char *path)
{
    if (!tbl_has_trailing_bar(path))
        return peer_runf(peer,
                         "copy \"%s\" from '%s' (delimiter '|', header false, quote '', escape '', auto_detect false)",
                         table, path);
    char *sql = select_without_last(peer, table, path);
    bool ok = sql && peer_run(peer, sql, NULL);
    free(sql);
    return ok;
}
