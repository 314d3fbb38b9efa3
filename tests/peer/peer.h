// peer.h - Weft, SQLite, DuckDB and PostgreSQL side by side behind one small interface, and their answers compared.
//
//     Peer *weft = peer_open_weft(NULL, error), *sqlite = peer_open_sqlite(NULL, error);
//     if (!peer_run(weft, "select a, sum(b) from t group by a", &ours)) puts(weft->error);
//     peer_run(sqlite, ..., &theirs);
//     char *difference = rows_difference(&ours, &theirs, NULL, NULL, 0);      // NULL: the same rows in any order
//
// Weft is used through weft.h alone, SQLite is linked, libduckdb and libpq are opened at run time: nothing needs them
// to build.  Answers are rows of text, which is slow and simple, as a comparison may be; a benchmark passes NULL for
// ROWS, and then the engine computes its whole answer in its own form and nothing is turned into text.

#ifndef WEFT_PEER_H
#define WEFT_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "weft.h"

typedef struct Rows {
    int    n_columns;
    size_t n_rows;
    char **names;                      // n_columns
    char **cells;                      // row by row, NULL where the value is NULL
    size_t n_cells, capacity;
} Rows;

void rows_start(Rows *rows, int n_columns);
void rows_name(Rows *rows, int column, const char *name);
void rows_push(Rows *rows, const char *cell);                    // the next cell, row by row; copies; NULL is NULL
void rows_free(Rows *rows);                                      // safe to call twice
void rows_print(const Rows *rows, size_t at_most);               // to standard output
static inline char *rows_cell(const Rows *rows, size_t row, int column)
{
    return rows->cells[row * (size_t)rows->n_columns + (size_t)column];
}

// Are these the same rows?  Order does not count, except that the columns KEYS (those of ORDER BY, N_KEYS of them)
// must read the same from top to bottom on both sides: so ties may fall either way and a wrong order is still seen.
// Columns with IS_FLOAT set (may be NULL) are compared as numbers within 1e-9 of their size, all others as text.
// Returns NULL when they agree, else what differs (to be freed).
char *rows_difference(const Rows *ours, const Rows *theirs, const bool *is_float, const int *keys, int n_keys);

#define PEER_ERROR_BYTES 1024

typedef struct Peer Peer;
struct Peer {
    const char *name;
    bool (*run)(Peer *peer, const char *sql, Rows *rows);
    void (*close)(Peer *peer);
    Peer *(*connect)(Peer *peer, char error[PEER_ERROR_BYTES]);  // NULL: one connection only (SQLite)
    char error[PEER_ERROR_BYTES];      // of the last run that failed
    char sqlstate[6];                  // Weft and PostgreSQL only
    bool gave_up;                      // SQLite and PostgreSQL: the last run went past its limit of steps or time
};

// Each opens the database at PATH, or one in memory when PATH is NULL.  NULL on failure, with the reason in ERROR.
Peer *peer_open_weft(const char *path, char error[PEER_ERROR_BYTES]);
Peer *peer_open_sqlite(const char *path, char error[PEER_ERROR_BYTES]);
Peer *peer_open_duckdb(const char *library, const char *path, char error[PEER_ERROR_BYTES]);
// A running server instead of a path; libpq is opened at run time.
Peer *peer_open_postgres(const char *conninfo, char error[PEER_ERROR_BYTES]);

bool peer_run(Peer *peer, const char *sql, Rows *rows);          // ROWS may be NULL: compute and discard
bool peer_runf(Peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));   // no rows
void peer_cancel(Peer *weft);                                    // from any thread; Weft only
void peer_close(Peer *peer);                                     // NULL is fine

// One more connection to the database of PEER, for another thread.  To be closed before PEER is.
Peer *peer_connect(Peer *peer, char error[PEER_ERROR_BYTES]);
// For what weft.h can do and peers cannot: the session, and a result as rows.
weft_session *peer_weft_session(Peer *weft);
void peer_weft_rows(const weft_result *result, Rows *rows);

// SQLite: give up on a statement after about this many steps of its machine (0: never), so that a random join cannot
// run for hours.
void peer_sqlite_limit(Peer *peer, int steps);

// Fills TABLE from a file of '|'-separated lines as the SSB and TPC-H generators write them, with or without a '|' at
// the end of each line.  For each engine its own fastest way.
bool peer_load_weft(Peer *peer, const char *table, const char *path);
bool peer_load_sqlite(Peer *peer, const char *table, const char *path);
bool peer_load_duckdb(Peer *peer, const char *table, const char *path);

char *read_whole_file(const char *path);                         // NUL-terminated, to be freed; NULL when unreadable

// True for a line that ends in '|'; so the first line of a file says which of the two forms it has.
bool tbl_has_trailing_bar(const char *path);

#endif
