// ahead.c - a scan of columns that are on disk asks for those of later chunks before it comes to them.
//
// Run by tests/check-gpu with the fake driver and a pool that takes a few chunks.  The first chunk is damaged, which ends the query, so that the last ones are
// checked only if they were asked for.

#include <unistd.h>

#include "help.h"

#include "engine/engine.h"
#include "store/store_int.h"

enum { N_ROWS = 480000, ROWS_OF_CHUNK = 32000, N_CHUNKS = N_ROWS / ROWS_OF_CHUNK, COLUMN_READ = 1, COLUMN_OTHER = 0, MS_MOST = 10000 };

static char folder[] = "/tmp/weft-ahead.XXXXXX";

static weft_session *open_database(const char *path, weft_db **db)
{
    weft_session *session;
    weft_error    error;
    if (weft_open(path, db, &error) || weft_connect(*db, &session, &error)) exit((printf("failed: %s\n", error.message), 1));
    must(session, "set device = cuda");
    return session;
}

static void close_database(weft_db *db, weft_session *session)
{
    weft_disconnect(session);
    weft_close(db);
}

static void make_table(const char *path)
{
    char          rows[64], sql[64];
    weft_db      *db;
    weft_session *session = open_database(path, &db);
    snprintf(rows, sizeof rows, "%s/rows.csv", folder);
    snprintf(sql, sizeof sql, "set chunk_rows = %d", ROWS_OF_CHUNK);
    must(session, sql);
    write_csv(rows, N_ROWS);
    load_csv(session, "t", rows);
    close_database(db, session);
}

static int n_checked(const Table *table, int column)
{
    int n = 0;
    for (int c = 0; c < table->n_chunks; c++) n += chunk_is_verified(table->chunks[c], column);
    return n;
}

static void damage(const Chunk *chunk, int column)
{
    const StoredChunk *stored = chunk_stored(chunk);
    FILE              *file = fopen(stored->path, "r+b");
    const u8          *data = chunk->columns[column].data;
    if (!file || fseek(file, data - stored->mapping.bytes, SEEK_SET) || fputc(*data ^ 1, file) == EOF || fclose(file))
        exit((printf("failed: %s cannot be written\n", stored->path), 1));
}

static void check_count(int n, int wanted, const char *what)
{
    char got[20];
    snprintf(got, sizeof got, "%d", n);
    check(n == wanted, what, got);
}

int main(void)
{
    char          path[64], command[64];
    weft_db      *db;
    const Table  *table;
    Error         err = { 0 };
    if (!mkdtemp(folder)) return puts("failed: no folder"), 1;
    snprintf(path, sizeof path, "%s/t.weft", folder);
    make_table(path);
    weft_session *session = open_database(path, &db);          // anew: nothing is checked yet
    if (store_peek_table(db->store, "t", &table, &err)) return printf("failed: %s\n", err.message), 1;
    check_count(table->n_chunks, N_CHUNKS, "chunks of the table");
    check_count(n_checked(table, COLUMN_READ), 0, "chunks that are checked before the query");
    damage(table->chunks[0], COLUMN_READ);
    char *got = answer(session, "select sum(b) from t");
    check(strncmp(got, "error XX001", 11) == 0, "a damaged chunk", got);
    for (int ms = 0; ms < MS_MOST && n_checked(table, COLUMN_READ) < N_CHUNKS - 1; ms++) usleep(1000);
    check_count(n_checked(table, COLUMN_READ), N_CHUNKS - 1, "chunks that are checked after a query that ended at the first");
    check_count(n_checked(table, COLUMN_OTHER), 0, "chunks of which a column is checked that nobody reads");
    free(got);
    table_release(table);
    close_database(db, session);
    snprintf(command, sizeof command, "rm -r %s", folder);
    check(system(command) == 0, "taking the folder away", command);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
