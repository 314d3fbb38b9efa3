// ahead.c - a scan of columns that are on disk asks for those of later chunks before it comes to them, for all who
// ride.
//
// Run by tests/check-gpu with the fake driver and a pool that takes a few chunks.  The first chunk is damaged, which
// ends the query, so that the last ones are checked only if they were asked for.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

#include "engine/engine.h"
#include "store/store_int.h"

enum {
    QUERIES_MOST = 3,
    N_ROWS = 480000,
    ROWS_OF_CHUNK = 32000,
    N_CHUNKS = N_ROWS / ROWS_OF_CHUNK,
    MS_MOST = 10000,
    LAUNCH_MS = 500
};

enum { A, B, C, D };                   // columns

static void (*launch_takes)(int ms);

static char folder[] = "/tmp/weft-ahead.XXXXXX";

static weft_session *open_database(const char *path, weft_db **db)
{
    weft_session *session;
    weft_error    error;
    if (weft_open(path, db, &error) || weft_connect(*db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
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
    must(session, "create table other (a integer)");
    must(session, "insert into other values (1), (2)");
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

static void wait_for_checks(const Table *table, int column, int n)
{
    for (int ms = 0; ms < MS_MOST && n_checked(table, column) < n; ms++) usleep(1000);
}

// Queries that meet: while a launch of another takes long, they come.
static void run_together(weft_db *db, weft_session *session, const char **sql, int n)
{
    weft_session *sessions[QUERIES_MOST];
    weft_task    *tasks[QUERIES_MOST], *first;
    weft_error    error;
    launch_takes(n > 1 ? LAUNCH_MS : 0);
    if (weft_submit(session, "select sum(a) from other", &first, &error))
        exit((printf("failed: %s\n", error.message), 1));
    usleep(LAUNCH_MS * 1000 / 4);
    for (int i = 0; i < n; i++) {
        if (weft_connect(db, &sessions[i], &error)) exit((printf("failed: %s\n", error.message), 1));
        must(sessions[i], "set device = cuda");
        if (weft_submit(sessions[i], sql[i], &tasks[i], &error)) exit((printf("failed: %s\n", error.message), 1));
    }
    for (int i = 0; i < n; i++) {
        weft_result *result = NULL;
        const int status = weft_wait(tasks[i], &result, &error);
        if (strstr(sql[i], "sum(b)"))
            check(status && strcmp(error.sqlstate, "XX001") == 0, "a damaged chunk",
                  status ? error.message : "an answer");
        else check(!status, "a query that does not read the damaged column", error.message);
        weft_result_free(result);
        weft_disconnect(sessions[i]);
    }
    weft_result *result = NULL;
    check(!weft_wait(first, &result, &error), "a query beside them", error.message);
    weft_result_free(result);
}

// Queries over columns B and D, or over B alone; the last reads D, and B has nothing to do with it.
static void look(const char *path, int n)
{
    static const char *sql[] = { "select sum(b) from t", "select sum(b), sum(d) from t", "select max(d) from t" };
    const Table  *table;
    weft_db      *db;
    Error         err = { 0 };
    weft_session *session = open_database(path, &db);          // anew: nothing is checked yet
    if (store_peek_table(db->store, "t", &table, &err)) exit((printf("failed: %s\n", err.message), 1));
    check_count(table->n_chunks, N_CHUNKS, "chunks of the table");
    check_count(n_checked(table, B), 0, "chunks that are checked before the query");
    run_together(db, session, sql, n);
    wait_for_checks(table, B, N_CHUNKS - 1);
    check_count(n_checked(table, B), N_CHUNKS - 1, "chunks that are checked after a query that ended at the first");
    if (n > 1) wait_for_checks(table, D, N_CHUNKS);
    check_count(n_checked(table, D), n > 1 ? N_CHUNKS : 0,
                "chunks of which a column is checked that another query reads");
    check_count(n_checked(table, A), 0, "chunks of which a column is checked that nobody reads");
    table_release(table);
    close_database(db, session);
}

static void damage_first(const char *path)
{
    const Table  *table;
    weft_db      *db;
    Error         err = { 0 };
    weft_session *session = open_database(path, &db);
    if (store_peek_table(db->store, "t", &table, &err)) exit((printf("failed: %s\n", err.message), 1));
    damage(table->chunks[0], B);
    table_release(table);
    close_database(db, session);
}

int main(void)
{
    char        path[64], command[64];
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    if (!launch_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(folder)) return puts("failed: no folder"), 1;
    snprintf(path, sizeof path, "%s/t.weft", folder);
    make_table(path);
    damage_first(path);
    look(path, 1);
    look(path, 2);
    look(path, 3);
    snprintf(command, sizeof command, "rm -r %s", folder);
    check(system(command) == 0, "taking the folder away", command);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
