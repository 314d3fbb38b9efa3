// test_ahead.c - columns of files come into memory when they are asked for, and not before.
//
// Where files live in memory alone, as on a tmpfs, nothing can be seen: then a test says so and is done.

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "test.h"

#include "engine/engine.h"
#include "store_help.h"

enum { N_COLUMNS = 4, N_ROWS = 500000, CHUNKS_MANY = 50 };

static void fill(const char *path, int n_chunks)
{
    static const ColumnDef columns[N_COLUMNS] = { { "a", TYPE(BIGINT), false },
                                                  { "b", TYPE(BIGINT), false },
                                                  { "c", TYPE(BIGINT), false },
                                                  { "d", TYPE(BIGINT), false } };
    Store *store = open_store(path);
    i64 *values = malloc(sizeof(i64) * N_ROWS);
    for (i64 i = 0; i < N_ROWS; i++)
        values[i] = i * 0x123456789;                           // too far apart for few bits
    store_set_chunk_rows(store, N_ROWS / (u32)n_chunks);
    create(store, "t", columns, N_COLUMNS);
    append_all(store, "t", (ColumnInput[]){ { .i = values }, { .i = values }, { .i = values }, { .i = values } },
               N_ROWS);
    free(values);
    store_close(store);
}

static void drop_from_memory(const char *path)
{
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char name[3000];
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        int file = open(name, O_RDONLY);
        if (file < 0)
            continue;
        fsync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        close(file);
    }
    closedir(dir);
}

static double share_in_memory(const Chunk *chunk, int column)
{
    const u64 page = (u64)sysconf(_SC_PAGESIZE);
    // Pages of its own alone.
    const u8 *data = chunk->columns[column].data, *first = data + (page - (uintptr_t)data % page);
    const u64 n_pages = (chunk_column_bytes(chunk, column) - page) / page;
    unsigned char *here = malloc(n_pages);
    u64 n_here = 0;
    CHECK(mincore((void *)(uintptr_t)first, n_pages * page, here) == 0);
    for (u64 p = 0; p < n_pages; p++)
        n_here += here[p] & 1;
    free(here);
    return (double)n_here / (double)n_pages;
}

static const Table *peek(Store *store)
{
    const Table *table;
    error_clear(&err);
    CHECK_OK(store_peek_table(store, "t", &table, &err), err);
    return table;
}

TEST(a_column_comes_when_it_is_asked_for)
{
    const char *path = fresh_path();
    fill(path, 1);
    drop_from_memory(path);
    Store *store = open_store(path);
    const Table *table = peek(store);
    const Chunk *chunk = table->chunks[0];
    Ahead *ahead = ahead_new();
    if (share_in_memory(chunk, 3) > 0.5) {
        print_message("files stay in memory here: nothing can be seen\n");
    } else {
        for (int column = 0; column < N_COLUMNS; column++)     // opening reads headers alone
            CHECK(share_in_memory(chunk, column) < 0.5);
        ahead_ask(ahead, chunk, 1);
        for (int i = 0; i < 6000 && share_in_memory(chunk, 1) < 1; i++)
            usleep(10000);
        CHECK(share_in_memory(chunk, 1) == 1);
        CHECK(share_in_memory(chunk, 3) < 0.5);
        for (int i = 0; i < 6000 && !chunk_is_verified(chunk, 1); i++)
            usleep(10000);
        CHECK(chunk_is_verified(chunk, 1));
        CHECK(!chunk_is_verified(chunk, 3));
    }
    ahead_free(ahead);
    table_release(table);
    store_close(store);
}

// They are held while they are asked for, and go after their table and store.
TEST(chunks_may_go_while_they_are_asked_for)
{
    const char *path = fresh_path();
    fill(path, CHUNKS_MANY);
    Ahead *ahead = ahead_new();
    for (int round = 0; round < 10; round++) {
        drop_from_memory(path);
        Store *store = open_store(path);
        const Table *table = peek(store);
        CHECK_INT(table->n_chunks, CHUNKS_MANY);
        for (int c = 0; c < table->n_chunks; c++)
            for (int column = 0; column < N_COLUMNS; column++)
                ahead_ask(ahead, table->chunks[c], column);
        table_release(table);
        store_close(store);
    }
    ahead_free(ahead);
    ahead_free(NULL);
}

// ---- checks --------------------------------------------------------------------------------------------------------

typedef struct Checking { const Table *table; Ahead *ahead; _Atomic int n_right, n_damaged; } Checking;

static void *check_all_columns(void *context)
{
    Checking *checking = context;
    for (int c = 0; c < checking->table->n_chunks; c++)
        for (int column = 0; column < N_COLUMNS; column++) {
            Error error = { 0 };
            ahead_ask(checking->ahead, checking->table->chunks[c], column);
            if (chunk_verify(checking->table->chunks[c], column, &error) == WEFT_OK)
                checking->n_right += chunk_is_verified(checking->table->chunks[c], column);
            else
                checking->n_damaged += error.status == WEFT_CORRUPT;
        }
    return NULL;
}

static void damage_last_byte(const char *path)
{
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL);
    CHECK(fseek(file, -200, SEEK_END) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, -200, SEEK_END) == 0);
    fputc(byte ^ 1, file);
    CHECK(fclose(file) == 0);
}

// One thread checks a column while others wait for it: each is told what it found, and nobody goes on before.
TEST(every_thread_is_told_of_damage)
{
    enum { N_THREADS = 8, N_CHUNKS = 4 };
    const char *path = fresh_path();
    fill(path, N_CHUNKS);
    for (int round = 0; round < 5; round++) {
        Store *store = open_store(path);
        Checking checking = { peek(store), ahead_new(), 0, 0 };
        pthread_t threads[N_THREADS];
        if (round == 0)
            damage_last_byte(chunk_stored(checking.table->chunks[2])->path);
        for (int t = 0; t < N_THREADS; t++)
            CHECK_INT(pthread_create(&threads[t], NULL, check_all_columns, &checking), 0);
        for (int t = 0; t < N_THREADS; t++)
            pthread_join(threads[t], NULL);
        CHECK_INT(checking.n_damaged, N_THREADS);
        CHECK_INT(checking.n_right, N_THREADS * (N_CHUNKS * N_COLUMNS - 1));
        ahead_free(checking.ahead);
        table_release(checking.table);
        store_close(store);
    }
}

TEST(chunks_in_memory_are_not_asked_for)
{
    Store *store = open_store(NULL);
    Ahead *ahead = ahead_new();
    create_numbers(store);
    append_numbers(store, 0, 1000);
    const Table *table = get_table(store, "numbers");
    ahead_ask(ahead, table->chunks[0], 0);
    check_numbers(table, 0, 1000);
    table_release(table);
    ahead_free(ahead);
    store_close(store);
}

// ---- scans ---------------------------------------------------------------------------------------------------------

static void run(weft_session *session, const char *sql, weft_error *error)
{
    weft_result *result = NULL;
    CHECK_OK(weft_query(session, sql, &result, error), *error);
    weft_result_free(result);
}

// It has enough after a few rows, but chunks that it would have come to were asked for.
TEST(a_scan_reads_ahead)
{
    enum { N_CHUNKS = 8 };
    const char *path = fresh_path();
    weft_db *db;
    weft_session *session;
    weft_error error;
    fill(path, N_CHUNKS);
    drop_from_memory(path);
    CHECK_OK(weft_open(path, &db, &error), error);
    CHECK_OK(weft_connect(db, &session, &error), error);
    run(session, "set device = cpu", &error);
    const Table *table;
    CHECK_OK(store_peek_table(db->store, "t", &table, &err), err);
    if (share_in_memory(table->chunks[3], 3) > 0.5) {
        print_message("files stay in memory here: nothing can be seen\n");
    } else {
        run(session, "select b from t limit 1", &error);
        for (int i = 0; i < 6000 && !chunk_is_verified(table->chunks[3], 1); i++)
            usleep(10000);
        CHECK(chunk_is_verified(table->chunks[3], 1));         // the fourth
        CHECK(!chunk_is_verified(table->chunks[N_CHUNKS - 1], 1));
        CHECK(!chunk_is_verified(table->chunks[3], 0));
    }
    table_release(table);
    weft_disconnect(session);
    weft_close(db);
}
