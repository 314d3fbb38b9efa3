// postgres.c - PostgreSQL behind the peer interface, through libpq, opened at run time.
//
// PostgreSQL reads Weft's dialect as it is.  Nothing is started here: a server must run, with a database that we may
// empty and whose text sorts by bytes (createdb --locale=C --template=template0).

#define _GNU_SOURCE
#include "peer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Name without its prefix, result, parameters.
// clang-format off
#define PQ_API_LIST(X)                                                      \
    X(connectdb,        void *,       (const char *conninfo))               \
    X(finish,           void,         (void *connection))                   \
    X(status,           int,          (const void *connection))             \
    X(errorMessage,     char *,       (const void *connection))             \
    X(exec,             void *,       (void *connection, const char *sql))  \
    X(clear,            void,         (void *result))                       \
    X(resultStatus,     int,          (const void *result))                 \
    X(resultErrorField, char *,       (const void *result, int field))      \
    X(ntuples,          int,          (const void *result))                 \
    X(nfields,          int,          (const void *result))                 \
    X(fname,            char *,       (const void *result, int column))     \
    X(getvalue,         char *,       (const void *result, int row, int column)) \
    X(getisnull,        int,          (const void *result, int row, int column))

typedef struct PqApi {
#define PQ_FIELD(name, result, parameters) result (*name) parameters;
    PQ_API_LIST(PQ_FIELD)
#undef PQ_FIELD
} PqApi;
// clang-format on

enum { PQ_CONNECTION_OK = 0, PQ_COMMAND_OK = 1, PQ_TUPLES_OK = 2, PQ_FIELD_SQLSTATE = 'C' };

typedef struct PostgresPeer {
    Peer  peer;
    PqApi api;
    void *connection;
} PostgresPeer;

static bool load_api(PqApi *api, char error[PEER_ERROR_BYTES])
{
    void *handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(error, PEER_ERROR_BYTES, "%s", dlerror());
        return false;
    }
#define PQ_LOAD(name, result, parameters)                                                \
    *(void **)&api->name = dlsym(handle, "PQ" #name);                                    \
    if (!api->name) {                                                                    \
        snprintf(error, PEER_ERROR_BYTES, "libpq has no PQ" #name);                      \
        return false;                                                                    \
    }
    PQ_API_LIST(PQ_LOAD)
#undef PQ_LOAD
    return true;
}

static void take_rows(PostgresPeer *postgres, void *result, Rows *rows)
{
    const PqApi *api = &postgres->api;
    int n_columns = api->nfields(result), n_rows = api->ntuples(result);
    rows_free(rows);
    rows_start(rows, n_columns);
    for (int c = 0; c < n_columns; c++)
        rows_name(rows, c, api->fname(result, c));
    for (int row = 0; row < n_rows; row++)
        for (int c = 0; c < n_columns; c++)
            rows_push(rows, api->getisnull(result, row, c) ? NULL : api->getvalue(result, row, c));
}

static bool postgres_run(Peer *peer, const char *sql, Rows *rows)
{
    PostgresPeer *postgres = (PostgresPeer *)peer;
    void *result = postgres->api.exec(postgres->connection, sql);
    int status = postgres->api.resultStatus(result);
    bool ok = status == PQ_COMMAND_OK || status == PQ_TUPLES_OK;
    if (ok && rows)
        take_rows(postgres, result, rows);
    if (!ok) {
        const char *state = postgres->api.resultErrorField(result, PQ_FIELD_SQLSTATE);
        snprintf(peer->sqlstate, sizeof peer->sqlstate, "%s", state ? state : "");
        snprintf(peer->error, sizeof peer->error, "%s", postgres->api.errorMessage(postgres->connection));
        peer->gave_up = !strcmp(peer->sqlstate, "57014");         // statement_timeout
    }
    postgres->api.clear(result);
    return ok;
}

static void postgres_close(Peer *peer)
{
    PostgresPeer *postgres = (PostgresPeer *)peer;
    if (postgres->connection)
        postgres->api.finish(postgres->connection);
    free(postgres);
}

Peer *peer_open_postgres(const char *conninfo, char error[PEER_ERROR_BYTES])
{
    static const char SETTINGS[] = "set client_min_messages = error; set statement_timeout = 2000";
    PostgresPeer *postgres = calloc(1, sizeof *postgres);
    postgres->peer = (Peer){ .name = "postgres", .run = postgres_run, .close = postgres_close };
    bool ok = load_api(&postgres->api, error);
    if (ok) {
        postgres->connection = postgres->api.connectdb(conninfo);
        ok = postgres->api.status(postgres->connection) == PQ_CONNECTION_OK;
        if (!ok)
            snprintf(error, PEER_ERROR_BYTES, "%s", postgres->api.errorMessage(postgres->connection));
    }
    if (ok && postgres_run(&postgres->peer, SETTINGS, NULL))
        return &postgres->peer;
    postgres_close(&postgres->peer);
    return NULL;
}
