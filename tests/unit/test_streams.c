// test_streams.c - streams in the store: row numbers, retention, parts; what a fault leaves.

#include "test.h"

#include "store_help.h"

enum { HOUR = 3600 };                  // seconds

static Store *make_stream(const char *path, i64 retain_us)
{
    Store *store = open_store(path);
    const TableTraits traits = { .kind = TABLE_STREAM, .retain_us = retain_us };
    store_set_chunk_rows(store, 64);
    CHECK_OK(store_create_special_table(store, "numbers", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1, &traits, &err),
             err);
    return store;
}

// The rows are FIRST .. LAST - 1, each with its number.
static void check_rows(Store *store, u64 first, u64 last)
{
    const Table *table = get_table(store, "numbers");
    u64 row = table->traits.first_row;
    CHECK_INT(row, first);
    for (int c = 0; c < table->n_chunks; c++)
        for (u32 r = 0; r < table->chunks[c]->n_rows; r++)
            CHECK_INT(integer_at(&table->chunks[c]->columns[0], r), row++);
    CHECK_INT(row, last);
    table_release(table);
}

static u64 expire(Store *store, i64 later_s, u64 keep_from)
{
    u64 n_dropped = 0;
    error_clear(&err);
    CHECK_OK(store_expire(store, "numbers", store_now_us() + later_s * 1000000, keep_from, &n_dropped, &err), err);
    return n_dropped;
}

TEST(rows_keep_their_numbers_when_old_chunks_go)
{
    const char *path = fresh_path();
    Store *store = make_stream(path, (i64)HOUR * 1000000);
    for (int i = 0; i < 5; i++)
        append_numbers(store, i * 64, 64);
    const Table *held = get_table(store, "numbers");
    CHECK_INT(expire(store, HOUR / 2, UINT64_MAX), 0);      // none is old
    CHECK_INT(expire(store, 2 * HOUR, 63), 0);              // a view has not seen the first chunk
    CHECK_INT(expire(store, 2 * HOUR, 200), 192);           // the chunk that row 200 is in stays
    check_rows(store, 192, 320);
    CHECK_INT(held->n_rows, 320);                           // a reader keeps what it reads
    CHECK_INT(integer_at(&held->chunks[0]->columns[0], 5), 5);
    table_release(held);
    store_close(store);
    store = open_store(path);
    check_rows(store, 192, 320);
    append_numbers(store, 320, 10);
    check_rows(store, 192, 330);
    CHECK_INT(expire(store, 2 * HOUR, UINT64_MAX), 138);
    check_rows(store, 330, 330);
    append_numbers(store, 330, 1);
    store_close(store);
    store = open_store(path);
    check_rows(store, 330, 331);
    store_close(store);
}

TEST(without_retain_rows_stay)
{
    Store *store = make_stream(NULL, 0);
    append_numbers(store, 0, 100);
    CHECK_INT(expire(store, 1000 * HOUR, UINT64_MAX), 0);
    check_rows(store, 0, 100);
    store_close(store);
}

TEST(truncate_goes_on_with_the_next_number)
{
    Store *store = make_stream(NULL, 0);
    append_numbers(store, 0, 100);
    CHECK_OK(store_truncate_table(store, "numbers", NULL, &err), err);
    append_numbers(store, 100, 7);
    check_rows(store, 100, 107);
    store_close(store);
}

// ---- small chunks ---------------------------------------------------------------------------------------------------

// A commit as a pipe makes it, of 10 rows, which are not merged with those before them.
static void append_few(Store *store, i64 first)
{
    Append *append;
    i64 values[10];
    for (int i = 0; i < 10; i++)
        values[i] = first + i;
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    append_set_merge_rows(append, 10);
    CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = values }, 10, &err), err);
    CHECK_OK(append_commit(append, NULL, &err), err);
}

static int count_chunks(Store *store)
{
    const Table *table = get_table(store, "numbers");
    const int n = table->n_chunks;
    table_release(table);
    return n;
}

TEST(small_chunks_of_a_stream_become_large_ones)
{
    const char *path = fresh_path();
    Store *store = make_stream(path, 0);
    for (int i = 0; i < 20; i++)
        append_few(store, i * 10);
    const Table *held = get_table(store, "numbers");
    CHECK_INT(held->n_chunks, 20);                          // of 10 rows each: 64 would be a chunk
    int n_merges = 0;
    for (; store_has_small_chunks(store, "numbers"); n_merges++)
        CHECK_OK(store_merge_small_chunks(store, "numbers", &err), err);
    CHECK_INT(n_merges, 3);                                 // three of 60 rows, and two, which wait for others
    CHECK_INT(count_chunks(store), 5);
    check_rows(store, 0, 200);
    CHECK_INT(held->n_chunks, 20);                          // a reader keeps what it reads
    CHECK_INT(integer_at(&held->chunks[19]->columns[0], 9), 199);
    table_release(held);
    append_few(store, 200);
    store_close(store);
    store = open_store(path);
    check_rows(store, 0, 210);
    store_close(store);
}

TEST(chunks_that_retention_drops_at_other_times_stay_apart)
{
    Store *store = make_stream(NULL, (i64)HOUR * 1000000);
    for (int i = 0; i < 5; i++)
        append_few(store, i * 10);
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_chunks, 5);
    for (int i = 0; i < 5; i++)                             // one came each half hour
        chunk_stored(table->chunks[i])->file.arrived_first = chunk_stored(table->chunks[i])->file.arrived_last =
            (i64)i * HOUR / 2 * 1000000;
    CHECK(!store_has_small_chunks(store, "numbers"));
    for (int i = 0; i < 5; i++)
        chunk_stored(table->chunks[i])->file.arrived_first = chunk_stored(table->chunks[i])->file.arrived_last =
            (i64)(i / 2) * HOUR / 2 * 1000000;              // two together
    table_release(table);
    while (store_has_small_chunks(store, "numbers"))
        CHECK_OK(store_merge_small_chunks(store, "numbers", &err), err);
    table = get_table(store, "numbers");
    CHECK_INT(table->n_chunks, 3);
    CHECK_INT(chunk_stored(table->chunks[1])->file.arrived_last, (i64)HOUR / 2 * 1000000);
    table_release(table);
    check_rows(store, 0, 50);
    store_close(store);
}

TEST(rows_stay_whatever_fails_while_chunks_are_merged)
{
    const char *path = fresh_path();
    bool was_hit = true;
    Store *store = make_stream(path, 0);
    i64 n_rows = 0;
    for (int kind = 0; kind < 2; kind++, was_hit = true)
        for (int nth = 1; was_hit; nth++) {
            CHECK(nth < 100);
            for (int i = 0; i < 8; i++, n_rows += 10)
                append_few(store, n_rows);
            CHECK(store_has_small_chunks(store, "numbers"));
            fault_set(kind ? FAULT_MEMORY : FAULT_FILE, nth, false);
            error_clear(&err);
            (void)store_merge_small_chunks(store, "numbers", &err);
            was_hit = fault_count(kind ? FAULT_MEMORY : FAULT_FILE) >= nth;
            fault_set(kind ? FAULT_MEMORY : FAULT_FILE, 0, false);
            check_rows(store, 0, (u64)n_rows);
            store_close(store);
            store = open_store(path);
            store_set_chunk_rows(store, 64);
            check_rows(store, 0, (u64)n_rows);
            CHECK_INT(count_files(path, ".chunk"), count_chunks(store));
        }
    store_close(store);
}

// ---- files ----------------------------------------------------------------------------------------------------------

static char format_of(const char *path)
{
    char name[512], byte = 0;
    snprintf(name, sizeof(name), "%s/manifest", path);
    FILE *file = fopen(name, "rb");
    CHECK(file && fseek(file, 7, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1);
    fclose(file);
    return byte;
}

TEST(only_databases_with_a_stream_have_the_new_format)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create(store, "plain", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1);
    CHECK_INT(format_of(path), '4');
    CHECK_OK(store_create_special_table(store, "s", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1,
                                        &(TableTraits){ .kind = TABLE_STREAM }, &err), err);
    CHECK_INT(format_of(path), '8');
    CHECK_OK(store_create_view(store, &(ViewDef){ .name = "v", .text = "select 1" }, false, &err), err);
    store_close(store);
    store = open_store(path);                               // with its views
    CHECK(store->has_views);
    CHECK_OK(store_drop_table(store, "s", &err), err);
    CHECK_INT(format_of(path), '7');
    store_close(store);
    store = open_store(path);
    CHECK(store->has_views);
    store_close(store);
}

static void set_state(Store *store, u64 position, u32 n_rows)
{
    Append *append;
    i64 values[8] = { 0 };
    for (u32 i = 0; i < n_rows; i++)
        values[i] = (i64)position;
    error_clear(&err);
    if (append_begin(store, "state", &append, &err))
        return;
    append_set_traits(append, &(TableTraits){ .kind = TABLE_STATE, .position = position, .n_late = 3,
                                              .has_latest = true, .latest = -5 }, true);
    if (append_rows(append, 0, &(ColumnInput){ .i = values }, n_rows, &err))
        append_abort(append);
    else
        (void)append_commit(append, NULL, &err);
}

// The rows and the position are those of one commit.
static u64 check_state(Store *store)
{
    const Table *table = get_table(store, "state");
    const u64 position = table->traits.position;
    CHECK_INT(table->n_rows, position % 8);
    for (int c = 0; c < table->n_chunks; c++)
        for (u32 r = 0; r < table->chunks[c]->n_rows; r++)
            CHECK_INT(integer_at(&table->chunks[c]->columns[0], r), position);
    table_release(table);
    return position;
}

TEST(a_state_and_its_position_change_together_whatever_fails)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    u64 position = 0;
    bool was_hit = true;
    CHECK_OK(store_create_special_table(store, "state", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1,
                                        &(TableTraits){ .kind = TABLE_STATE }, &err), err);
    for (int nth = 1; was_hit; nth++) {
        CHECK(nth < 200);
        fault_set(FAULT_FILE, nth, false);
        set_state(store, position + 1, (u32)((position + 1) % 8));
        was_hit = fault_count(FAULT_FILE) >= nth;
        fault_set(FAULT_FILE, 0, false);
        const u64 is = check_state(store);
        CHECK(is == position || is == position + 1);
        store_close(store);
        store = open_store(path);
        position = check_state(store);                      // in doubt at most: either of them
        CHECK(position == is || position == is + 1);
    }
    CHECK(position > 0);
    const Table *table = get_table(store, "state");
    CHECK_INT(table->traits.n_late, 3);
    CHECK_INT(table->traits.latest, -5);
    table_release(table);
    store_close(store);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

TEST(a_slice_has_its_rows_and_no_others)
{
    Store *store = make_stream(NULL, 0);
    append_numbers(store, 0, 300);
    const Table *table = get_table(store, "numbers");
    for (u64 first = 0; first <= 300; first += 37)
        for (u64 n_rows = 0; first + n_rows <= 300; n_rows += 53) {
            const Table *slice;
            u64 row = first;
            CHECK_OK(table_slice(table, first, n_rows, store->budget, &slice, &err), err);
            CHECK_INT(slice->n_rows, n_rows);
            for (int c = 0; c < slice->n_chunks; c++)
                for (u32 r = 0; r < slice->chunks[c]->n_rows; r++)
                    CHECK_INT(integer_at(&slice->chunks[c]->columns[0], r), row++);
            table_release(slice);
        }
    table_release(table);
    store_close(store);
}

TEST(sifted_rows_are_those_that_are_kept)
{
    Store *store = make_stream(NULL, 0);
    u8 keep[150];
    u64 n = 0, at = 0;
    const Table *sifted;
    append_numbers(store, 0, 150);
    const Table *table = get_table(store, "numbers");
    for (int i = 0; i < 150; i++)
        n += keep[i] = i % 7 != 0 && i % 11 != 3;
    CHECK_OK(table_sift(table, keep, store->budget, &sifted, &err), err);
    CHECK_INT(sifted->n_rows, n);
    for (u32 r = 0; r < n; r++, at++) {
        while (!keep[at])
            at++;
        CHECK_INT(integer_at(&sifted->chunks[0]->columns[0], r), at);
    }
    table_release(sifted);
    memset(keep, 0, sizeof(keep));
    CHECK_OK(table_sift(table, keep, store->budget, &sifted, &err), err);
    CHECK_INT(sifted->n_rows, 0);
    table_release(sifted);
    table_release(table);
    store_close(store);
}
