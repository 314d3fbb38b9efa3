// test_keys.c - keys of tables: what statistics prove, what is compared, what lasts.

#include <math.h>
#include <stdlib.h>

#include "test.h"

#include "store_help.h"

static const ColumnDef pair_columns[] = { { "a", TYPE(INTEGER), false }, { "b", TYPE(TEXT), false } };

static Store *open_keyed(const char *path, IndexDef index)
{
    Store *store = open_store(path);
    CHECK_OK(store_create_keyed_table(store, "t", pair_columns, 2, &index, 1, &err), err);
    return store;
}

static weft_status add_pairs(Store *store, const i64 *numbers, const char *const *texts, u32 n_rows)
{
    const Table *table = get_table(store, "t");
    i64 *codes = calloc(n_rows + 1, sizeof(i64));
    u8 *nulls = calloc(n_rows + 1, 1);
    for (u32 i = 0; i < n_rows; i++) {
        u32 code = 0;
        nulls[i] = !texts[i];
        if (texts[i])
            CHECK_OK(dict_intern(table->columns[1].dict, texts[i], strlen(texts[i]), &code, &err), err);
        codes[i] = code;
    }
    table_release(table);
    const ColumnInput inputs[] = { { .i = numbers }, { .i = codes, .is_null = nulls } };
    const weft_status status = try_append(store, "t", inputs, n_rows);
    free(codes);
    free(nulls);
    return status;
}

TEST(a_key_of_two_columns_compares_both_and_no_null)
{
    Store *store = open_keyed(NULL, (IndexDef){ .kind = INDEX_UNIQUE_KEY, .n_columns = 2, .columns = { 0, 1 } });
    CHECK_OK(add_pairs(store, (i64[]){ 1, 1, 1, 1 }, (const char *[]){ "x", "y", NULL, NULL }, 4), err);
    CHECK_OK(add_pairs(store, (i64[]){ 2, 1 }, (const char *[]){ "x", "z" }, 2), err);
    CHECK_STATUS(add_pairs(store, (i64[]){ 3, 1 }, (const char *[]){ "x", "y" }, 2), WEFT_UNIQUE_VIOLATION);
    CHECK_STR(err.message, "duplicate key value violates unique constraint \"t_a_b_key\": key (a, b)=(1, y) already "
                           "exists");
    const Table *table = get_table(store, "t");
    CHECK_INT(table->n_rows, 6);
    table_release(table);
    store_close(store);
}

// Random rows in pieces of several sizes, with small chunks, against a list.
TEST(keys_agree_with_a_list)
{
    enum { VALUES = 4000, ROUNDS = 400, ROWS_MOST = 40 };
    bool *is_there = calloc(VALUES, 1);
    u64 state = 99, n_rows = 0;
    int n_refused = 0;
    Store *store = open_store(NULL);
    const IndexDef index = { .kind = INDEX_PRIMARY_KEY, .n_columns = 1, .columns = { 0 } };
    const ColumnDef column = { "n", TYPE(BIGINT), true };
    CHECK_OK(store_create_keyed_table(store, "numbers", &column, 1, &index, 1, &err), err);
    store_set_chunk_rows(store, 64);
    for (int round = 0; round < ROUNDS; round++) {
        i64 values[ROWS_MOST];
        const u32 n = (u32)(random_next(&state) % ROWS_MOST) + 1;
        const i64 first = (i64)(random_next(&state) % (VALUES - ROWS_MOST));
        bool is_fine = true;
        for (u32 i = 0; i < n; i++)
            values[i] = round % 2 ? first + i : (i64)(random_next(&state) % VALUES);
        for (u32 i = 0; i < n; i++) {
            is_fine &= !is_there[values[i]];
            for (u32 j = 0; j < i; j++)
                is_fine &= values[i] != values[j];
        }
        const weft_status status = try_append(store, "numbers", &(ColumnInput){ .i = values }, n);
        CHECK_INT(status, is_fine ? WEFT_OK : WEFT_UNIQUE_VIOLATION);
        n_refused += !is_fine;
        for (u32 i = 0; i < n && is_fine; i++)
            is_there[values[i]] = true;
        n_rows += is_fine ? n : 0;
    }
    CHECK(n_refused > ROUNDS / 4 && n_refused < ROUNDS);
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_rows, n_rows);
    CHECK(table->n_chunks > 10);
    check_statistics(table);
    table_release(table);
    store_close(store);
    free(is_there);
}

// Rows in order of their key, behind those that are there, are neither gathered nor compared.
TEST(increasing_keys_need_no_memory)
{
    enum { ROWS = 1 << 16 };
    i64 *values = malloc(ROWS * sizeof(i64));
    Store *store = open_store(NULL);
    const IndexDef index = { .kind = INDEX_UNIQUE, .name = "i", .n_columns = 1, .columns = { 0 } };
    create_numbers(store);
    CHECK_OK(store_add_index(store, "numbers", &index, NULL, &err), err);
    append_numbers(store, 0, 100);
    const Table *table = get_table(store, "numbers");
    for (int i = 0; i < ROWS; i++)
        values[i] = 100 + i;
    StoredChunk *chunk;
    CHECK_OK(chunk_encode(NULL, table, &(ColumnInput){ .i = values }, ROWS, &chunk, &err), err);
    const ChunkSlice slice = { &chunk->chunk, 0, ROWS };
    fault_set(FAULT_MEMORY, 1, true);                       // the first call for memory fails
    const weft_status proved = keys_check_append(table, &(NewRows){ .slices = &slice, .n_slices = 1 }, &err);
    fault_set(FAULT_MEMORY, 0, false);
    CHECK_OK(proved, err);
    chunk_release(&chunk->chunk);
    values[5] = 99;                                         // is there
    CHECK_OK(chunk_encode(NULL, table, &(ColumnInput){ .i = values }, ROWS, &chunk, &err), err);
    const ChunkSlice other = { &chunk->chunk, 0, ROWS };
    const NewRows rows = { .slices = &other, .n_slices = 1 };
    CHECK_STATUS(keys_check_append(table, &rows, &err), WEFT_UNIQUE_VIOLATION);
    const ChunkSlice behind = { &chunk->chunk, 6, ROWS - 6 };
    CHECK_OK(keys_check_append(table, &(NewRows){ .slices = &behind, .n_slices = 1 }, &err), err);
    error_clear(&err);
    fault_set(FAULT_MEMORY, 1, true);
    CHECK_STATUS(keys_check_append(table, &rows, &err), WEFT_OUT_OF_MEMORY);
    fault_set(FAULT_MEMORY, 0, false);
    _Atomic bool is_canceled = true;
    error_clear(&err);
    chunk_release(&chunk->chunk);
    values[5] = 7000000;                                    // out of order, so all rows are compared
    CHECK_OK(chunk_encode(NULL, table, &(ColumnInput){ .i = values }, ROWS, &chunk, &err), err);
    const ChunkSlice long_one = { &chunk->chunk, 0, ROWS };
    CHECK_STATUS(keys_check_append(table, &(NewRows){ &long_one, 1, NULL, &is_canceled }, &err), WEFT_QUERY_CANCELED);
    chunk_release(&chunk->chunk);
    table_release(table);
    store_close(store);
    free(values);
}

TEST(keys_survive_reopening_and_changes_of_the_table)
{
    const char *path = fresh_path();
    Store *store = open_keyed(path, (IndexDef){ .kind = INDEX_PRIMARY_KEY, .n_columns = 1, .columns = { 0 } });
    CHECK_OK(add_pairs(store, (i64[]){ 1, 2 }, (const char *[]){ "x", "y" }, 2), err);
    const IndexDef plain = { .name = "plain", .kind = INDEX_PLAIN };
    CHECK_OK(store_add_index(store, "t", &plain, NULL, &err), err);
    store_close(store);
    store = open_store(path);
    Arena *arena = arena_new(NULL, "test");
    IndexKind kind;
    CHECK_STR(store_index_table(store, arena, "t_pkey", &kind), "t");
    CHECK_INT(kind, INDEX_PRIMARY_KEY);
    CHECK_STR(store_index_table(store, arena, "plain", &kind), "t");
    CHECK(!store_index_table(store, arena, "nothing", &kind));
    CHECK_STATUS(add_pairs(store, (i64[]){ 2 }, (const char *[]){ "z" }, 1), WEFT_UNIQUE_VIOLATION);
    CHECK_OK(store_rename_table(store, "t", "s", NULL, &err), err);
    CHECK_OK(store_truncate_table(store, "s", NULL, &err), err);
    CHECK_STR(store_index_table(store, arena, "t_pkey", &kind), "s");
    error_clear(&err);
    CHECK_STATUS(store_create_table(store, "plain", pair_columns, 2, &err), WEFT_DUPLICATE_TABLE);
    CHECK_OK(store_drop_index(store, "s", "plain", NULL, &err), err);
    error_clear(&err);
    CHECK_STATUS(store_drop_index(store, "s", "plain", NULL, &err), WEFT_UNDEFINED_OBJECT);
    store_close(store);
    store = open_store(path);
    CHECK(!store_index_table(store, arena, "plain", &kind));
    CHECK_STR(store_index_table(store, arena, "t_pkey", &kind), "s");
    arena_free(arena);
    store_close(store);
}

static bool has_index(Store *store, const char *name)
{
    Arena *arena = arena_new(NULL, "test");
    IndexKind kind;
    const bool is_there = store_index_table(store, arena, name, &kind) != NULL;
    arena_free(arena);
    return is_there;
}

// With each call for memory or to a file failing once: the index is there or it is not, and the next try works.
TEST(a_failing_call_adds_no_key)
{
    const FaultKind kinds[] = { FAULT_FILE, FAULT_MEMORY };
    const IndexDef index = { .name = "u", .kind = INDEX_UNIQUE, .n_columns = 2, .columns = { 1, 0 } };
    for (int k = 0; k < COUNT_OF(kinds); k++) {
        bool is_past = false;
        for (i64 nth = 1; !is_past && nth < 200; nth++) {
            const char *path = fresh_path();
            Store *store = open_keyed(path, (IndexDef){ .kind = INDEX_PLAIN, .name = "p" });
            CHECK_OK(add_pairs(store, (i64[]){ 2, 1, 1 }, (const char *[]){ "y", "x", "y" }, 3), err);
            error_clear(&err);
            fault_set(kinds[k], nth, false);
            const weft_status status = store_add_index(store, "t", &index, NULL, &err);
            is_past = fault_count(kinds[k]) < nth;
            fault_set(kinds[k], 0, false);
            CHECK_INT(err.status, status);
            CHECK(!is_past || !status);
            CHECK_INT(has_index(store, "u"), !status);
            store_close(store);
            store = open_store(path);
            CHECK_INT(has_index(store, "u"), !status);
            if (status)
                CHECK_OK(store_add_index(store, "t", &index, NULL, &err), err);
            CHECK_STATUS(add_pairs(store, (i64[]){ 1 }, (const char *[]){ "y" }, 1), WEFT_UNIQUE_VIOLATION);
            store_close(store);
        }
        CHECK(is_past);
    }
}

// The manifest of version 5, byte by byte: no flip is taken for another key, and none crashes.
TEST(a_damaged_key_is_noticed)
{
    const char *path = fresh_path();
    char file[2048];
    Text good = { 0 };
    Store *store = open_keyed(path, (IndexDef){ .kind = INDEX_PRIMARY_KEY, .n_columns = 2, .columns = { 0, 1 } });
    store_close(store);
    snprintf(file, sizeof(file), "%s/manifest", path);
    CHECK_OK(file_read_all(file, &good, &err), err);
    CHECK_INT(good.bytes[7], '5');
    char *bad = malloc(good.length);
    for (size_t at = 8; at < good.length - 8; at++) {
        for (int bit = 0; bit < 8; bit++) {
            Arena *arena = arena_new(NULL, "test");
            TableMeta **tables;
            int n_tables;
            u64 next_id, checksum;
            memcpy(bad, good.bytes, good.length);
            bad[at] ^= (char)(1 << bit);
            checksum = hash_bytes(bad, good.length - 8);    // as if written on purpose
            memcpy(bad + good.length - 8, &checksum, 8);
            error_clear(&err);
            if (manifest_decode("manifest", bad, good.length, arena, &tables, &n_tables, &next_id, &err) == WEFT_OK) {
                for (int i = 0; i < n_tables; i++) {
                    for (int k = 0; k < tables[i]->n_indexes; k++)
                        for (int c = 0; c < tables[i]->indexes[k].n_columns; c++)
                            CHECK(tables[i]->indexes[k].columns[c] < tables[i]->n_columns);
                    meta_free(tables[i]);
                }
            }
            arena_free(arena);
        }
    }
    free(bad);
    text_free(&good);
}

TEST(names_are_chosen_that_fit_and_are_free)
{
    Store *store = open_store(NULL);
    Arena *arena = arena_new(NULL, "test");
    IndexKind kind;
    const char *name = "a_table_with_a_name_of_sixty_three_bytes_which_is_all_that_may_";
    const ColumnDef column = { "a_column_with_a_long_name_as_well_so_that_both_have_to_be_cut", TYPE(INTEGER), false };
    const IndexDef one = { .kind = INDEX_UNIQUE_KEY, .n_columns = 1 }, two[] = { one, one };
    CHECK_INT(strlen(name), 63);
    CHECK_OK(store_create_keyed_table(store, name, &column, 1, two, 2, &err), err);
    const Table *table = get_table(store, name);
    CHECK_INT(table->n_indexes, 2);
    CHECK_INT(strlen(table->indexes[0].name), 63);
    CHECK_INT(strlen(table->indexes[1].name), 63);
    CHECK(strcmp(table->indexes[0].name, table->indexes[1].name) != 0);
    CHECK_STR(store_index_table(store, arena, table->indexes[1].name, &kind), name);
    table_release(table);
    arena_free(arena);
    store_close(store);
}
