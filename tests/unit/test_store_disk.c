// test_store_disk.c - databases on disk: they survive, damage is found, and a change is all there or not at all.

#include <sys/wait.h>

#include "test.h"

#include "store_help.h"

// ---- disk ----------------------------------------------------------------------------------------------------------

TEST(tables_survive_reopening)
{
    const char *path = fresh_path();
    for (int round = 0; round < 4; round++) {
        Store *store = open_store(path);
        CHECK_STR(store_path(store), path);
        if (round == 0)
            create_numbers(store);
        const Table *table = get_table(store, "numbers");
        check_numbers(table, 0, (u64)round * 1000);
        CHECK_INT(table->version, round + 1);
        table_release(table);
        append_numbers(store, round * 1000, 1000);
        store_close(store);
    }
}

TEST(a_renamed_column_of_two_words_survives_reopening)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    const i64 high = 0, low = 150;
    create(store, "t", &(ColumnDef){ "a", { TYPE_NUMERIC, 30, 2 }, false }, 1);
    append_all(store, "t", (ColumnInput[]){ { .i = &high }, { .i = &low } }, 1);
    CHECK_OK(store_rename_column(store, "t", "a", "b", NULL, &err), err);
    store_close(store);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table_find_column(table, "b"), 0);
    CHECK_STR(table->columns[table->columns[0].low].name, "b");
    CHECK_INT(integer_at(&table->chunks[0]->columns[1], 0), 150);
    table_release(table);
    store_close(store);
}

TEST(a_lost_file_of_views_is_noticed)
{
    const char *path = fresh_path(), *column = "a", *type = "bigint";
    char        views[2048], manifest_path[2048];
    Text        manifest = { 0 };
    Store      *store = open_store(path);
    create_numbers(store);
    store_close(store);
    store = open_store(path);                               // no view, no file: nothing is missing
    const ViewDef view = { .name = "v", .text = "select 1", .n_columns = 1, .columns = &column, .types = &type };
    CHECK_OK(store_create_view(store, &view, false, &err), err);
    append_numbers(store, 0, 10);
    CHECK_OK(store_drop_view(store, "v", &err), err);
    store_close(store);
    store = open_store(path);
    store_close(store);
    snprintf(views, sizeof(views), "%s/views", path);
    snprintf(manifest_path, sizeof(manifest_path), "%s/manifest", path);
    CHECK_INT(unlink(views), 0);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_CORRUPT);
    CHECK_OK(file_read_all(manifest_path, &manifest, &err), err);
    manifest.bytes[7] = '6';                                // as earlier versions wrote it
    set_checksum(&manifest);
    write_bytes(manifest_path, manifest.bytes, manifest.length);
    text_free(&manifest);
    store = open_store(path);
    store_close(store);
}

// Before version 9 there was no char(n), and a varchar(n) may have had the number that stands for it now.
TEST(a_long_varchar_of_an_earlier_version_is_no_char)
{
    const char *path = fresh_path();
    char        manifest_path[2048];
    Text        manifest = { 0 };
    Store      *store = open_store(path);
    create(store, "t", &(ColumnDef){ "c", type_text(CHAR_BASE + 4), false }, 1);
    store_close(store);
    snprintf(manifest_path, sizeof(manifest_path), "%s/manifest", path);
    CHECK_OK(file_read_all(manifest_path, &manifest, &err), err);
    CHECK_INT(manifest.bytes[7], '9');
    for (int is_earlier = 0; is_earlier < 2; is_earlier++) {
        manifest.bytes[7] = is_earlier ? '4' : '9';
        if (is_earlier) {                                   // it has no views, indexes and traits
            memmove(manifest.bytes + 20, manifest.bytes + 21, manifest.length - 21);
            manifest.length -= 1 + 4 + 1;
        }
        set_checksum(&manifest);
        write_bytes(manifest_path, manifest.bytes, manifest.length);
        store = open_store(path);
        const Table *table = get_table(store, "t");
        CHECK_INT(type_is_char(table->columns[0].type), !is_earlier);
        CHECK_INT(type_text_length(table->columns[0].type), is_earlier ? 0 : 4);
        table_release(table);
        store_close(store);
    }
    text_free(&manifest);
}

TEST(many_tables_survive_reopening)
{
    const char *path = fresh_path();
    const char *names[] = { "m", "z", "a", "b", "aa", "\xC3\xA9" };
    Store *store = open_store(path);
    for (int i = 0; i < COUNT_OF(names); i++)
        create(store, names[i], &(ColumnDef){ "n", TYPE(BIGINT), i % 2 }, 1);
    for (int i = 0; i < COUNT_OF(names); i++)
        append_all(store, names[i], &(ColumnInput){ .i = (i64[]){ i } }, 1);
    CHECK_OK(store_drop_table(store, "b", &err), err);
    store_close(store);
    store = open_store(path);
    for (int i = 0; i < COUNT_OF(names); i++) {
        const Table *table = store_table(store, names[i]);
        CHECK_INT(table != NULL, strcmp(names[i], "b") != 0);
        if (!table)
            continue;
        check_numbers(table, i, 1);
        CHECK_INT(table->columns[0].not_null, i % 2);
        table_release(table);
    }
    create(store, "b", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1);
    const Table *a = get_table(store, "a"), *b = get_table(store, "b");
    CHECK(a->id != b->id);
    table_release(a);
    table_release(b);
    store_close(store);
}

TEST(a_path_can_be_too_long)
{
    static char path[5000];
    Store *store;
    memset(path, 'p', sizeof(path) - 1);
    error_clear(&err);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_IO_ERROR);
}

TEST(a_second_process_is_kept_out)
{
    const char *path = fresh_path();
    Store *store = open_store(path), *second;
    CHECK_STATUS(store_open(path, NULL, &second, &err), WEFT_OBJECT_IN_USE);
    CHECK(second == NULL);
    store_close(store);
    store_close(open_store(path));
}

TEST(foreign_directories_are_left_alone)
{
    const char *path = fresh_path();
    Store *store;
    char file[2048];
    CHECK_OK(dir_make(path, &err), err);
    snprintf(file, sizeof(file), "%s/thesis.tex", path);
    File foreign;
    CHECK_OK(file_create(file, &foreign, &err), err);
    file_close(&foreign);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_IO_ERROR);
    CHECK_HAS(err.message, "not empty");
    CHECK(err.hint[0] != '\0');
    CHECK_INT(count_files(path, ""), 3);                    // . and .. and the thesis
    error_clear(&err);
    CHECK(store_open(file, NULL, &store, &err) != WEFT_OK); // a file is no directory
    error_clear(&err);
    CHECK_OK(file_remove(file, &err), err);
    store_close(open_store(path));                          // an empty one is fine
}

TEST(a_lost_manifest_is_noticed)
{
    const char *path = fresh_path();
    char file[2048];
    Store *store = open_store(path);
    create_numbers(store);
    append_numbers(store, 0, 10);
    store_close(store);
    snprintf(file, sizeof(file), "%s/manifest", path);
    CHECK_OK(file_remove(file, &err), err);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_CORRUPT);
    CHECK_INT(count_files(path, ".chunk"), 1);
}

TEST(orphans_are_swept_and_strangers_stay)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create_numbers(store);
    append_numbers(store, 0, 10);
    store_close(store);
    const char *names[] = { "0.chunk", "ffff.chunk.new", "manifest.new", "notes.txt", "x.chunk" };
    for (int i = 0; i < COUNT_OF(names); i++) {
        char file[2048];
        snprintf(file, sizeof(file), "%s/%s", path, names[i]);
        write_bytes(file, "x", 1);
    }
    store = open_store(path);
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, 10);
    table_release(table);
    store_close(store);
    CHECK_INT(count_files(path, ".chunk"), 2);              // ours, and x.chunk, which we would never write
    CHECK_INT(count_files(path, ".chunk.new"), 0);
    CHECK_INT(count_files(path, ".txt"), 1);
}

// The next table would have an id that files of other stores have, or 0.
TEST(an_id_that_no_database_reaches_is_not_taken_over)
{
    const char *path = fresh_path();
    const u64   last = UINT64_MAX;
    char        file[2048];
    Text        manifest = { 0 };
    Store      *store = open_store(path);
    create_numbers(store);
    store_close(store);
    snprintf(file, sizeof(file), "%s/8000000000000001.chunk", path);
    write_bytes(file, "x", 1);
    store = open_store(path);
    append_numbers(store, 0, 10);
    store_close(store);
    CHECK_INT(count_files(path, ".chunk"), 2);              // ours, and the one that was there
    snprintf(file, sizeof(file), "%s/manifest", path);
    CHECK_OK(file_read_all(file, &manifest, &err), err);
    u64 next_id;
    memcpy(&next_id, manifest.bytes + 8, sizeof next_id);
    CHECK(next_id < 100);
    memcpy(manifest.bytes + 8, &last, sizeof last);
    set_checksum(&manifest);
    write_bytes(file, manifest.bytes, manifest.length);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_CORRUPT);
    text_free(&manifest);
}

static void copy_file(const char *from, const char *to)
{
    Text bytes = { 0 };
    CHECK_OK(file_read_all(from, &bytes, &err), err);
    write_bytes(to, bytes.bytes, bytes.length);
    text_free(&bytes);
}

TEST(an_older_manifest_put_back_costs_no_file)
{
    const char *path = fresh_path();
    char manifest[2048], kept[2048], newer[2048];
    snprintf(manifest, sizeof(manifest), "%s/manifest", path);
    snprintf(kept, sizeof(kept), "%s/kept", path);
    snprintf(newer, sizeof(newer), "%s/newer", path);
    Store *store = open_store(path);
    create_numbers(store);
    copy_file(manifest, kept);
    append_numbers(store, 0, 10);
    store_close(store);
    copy_file(manifest, newer);
    copy_file(kept, manifest);
    store = open_store(path);                               // the older state, without rows
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_rows, 0);
    table_release(table);
    append_numbers(store, 0, 3);                            // and its new files do not replace the newer ones
    store_close(store);
    copy_file(newer, manifest);
    store = open_store(path);
    table = get_table(store, "numbers");
    check_numbers(table, 0, 10);
    table_release(table);
    store_close(store);
}

static void make_text_database(const char *path)
{
    const ColumnDef columns[] = {
        { "x", TYPE(TEXT), false }, { "f", TYPE(REAL), false }, { "i", TYPE(INTEGER), false },
    };
    Store *store = open_store(path);
    create(store, "t", columns, 3);
    Append *append;
    u64 n_rows;
    i64 codes[5], integers[5] = { 5, 4, 1000, 2, 1 };
    double floats[5] = { 1, 2, 3, 4, 5 };
    CHECK_OK(append_begin(store, "t", &append, &err), err);
    intern_numbered(append_table(append)->columns[0].dict, "word", 0, 5, codes);
    const u8 is_null[5] = { 0, 1, 0, 0, 0 };
    const ColumnInput inputs[] = { { .i = codes }, { .f = floats, .is_null = is_null }, { .i = integers } };
    CHECK_OK(append_rows(append, 0, inputs, 5, &err), err);
    CHECK_OK(append_commit(append, &n_rows, &err), err);
    store_close(store);
}

// Opens and uses everything there is.  OK only when the database is as make_text_database left it.
static weft_status use_text_database(const char *path)
{
    Store *store;
    const Table *table;
    error_clear(&err);
    TRY(store_open(path, NULL, &store, &err));
    weft_status status = store_get_table(store, "t", &table, &err);
    if (!status) {
        CHECK_INT(table->n_rows, 5);
        CHECK_STR(dict_get(table->columns[0].dict, (u32)integer_at(&table->chunks[0]->columns[0], 4)).bytes, "word 4");
        CHECK(float_at(&table->chunks[0]->columns[1], 4) == 5);
        CHECK_INT(integer_at(&table->chunks[0]->columns[2], 2), 1000);
        table_release(table);
    }
    store_close(store);
    return status;
}

TEST(every_flipped_byte_is_noticed)
{
    const char *path = fresh_path();
    make_text_database(path);
    CHECK_OK(use_text_database(path), err);
    Arena *arena = arena_new(NULL, "test");
    char **names;
    int n_names, n_flips = 0;
    CHECK_OK(dir_list(arena, path, &names, &n_names, &err), err);
    for (int i = 0; i < n_names; i++) {
        char file[2048];
        Text bytes = { 0 };
        if (strcmp(names[i], "manifest.new") == 0)          // space for the next manifest: nothing is in it
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, names[i]);
        CHECK_OK(file_read_all(file, &bytes, &err), err);
        for (size_t at = 0; at < bytes.length; at++, n_flips++) {
            bytes.bytes[at] = (char)(bytes.bytes[at] ^ (1 << at % 8));
            write_bytes(file, bytes.bytes, bytes.length);
            CHECK_STATUS(use_text_database(path), WEFT_CORRUPT);
            bytes.bytes[at] = (char)(bytes.bytes[at] ^ (1 << at % 8));
        }
        for (size_t length = 0; length < bytes.length; length += 7) {
            write_bytes(file, bytes.bytes, length);
            CHECK_STATUS(use_text_database(path), WEFT_CORRUPT);
        }
        write_bytes(file, bytes.length ? bytes.bytes : "", bytes.length);
        CHECK_OK(use_text_database(path), err);
        text_free(&bytes);
    }
    CHECK(n_flips > 500);
    arena_free(arena);
}

TEST(a_missing_file_is_noticed)
{
    const char *path = fresh_path();
    const char *suffixes[] = { ".chunk", ".dict" };
    make_text_database(path);
    Arena *arena = arena_new(NULL, "test");
    char **names;
    int n_names, n_tried = 0;
    CHECK_OK(dir_list(arena, path, &names, &n_names, &err), err);
    for (int i = 0; i < n_names; i++) {
        for (int k = 0; k < 2; k++) {
            if (!strstr(names[i], suffixes[k]))
                continue;
            char file[2048], aside[4096];
            snprintf(file, sizeof(file), "%s/%s", path, names[i]);
            snprintf(aside, sizeof(aside), "%s.aside", file);
            CHECK_OK(file_rename(file, aside, &err), err);
            CHECK_STATUS(use_text_database(path), WEFT_CORRUPT);
            CHECK_HAS(err.message, "missing");
            error_clear(&err);
            CHECK_OK(file_rename(aside, file, &err), err);
            n_tried++;
        }
    }
    CHECK_INT(n_tried, 2);
    CHECK_OK(use_text_database(path), err);
    arena_free(arena);
}

TEST(a_damaged_table_takes_no_rows_and_hurts_no_other)
{
    const char *path = fresh_path();
    char file[PATH_BYTES];
    Store *store = open_store(path);
    store_set_chunk_rows(store, 4);
    create_numbers(store);
    append_numbers(store, 0, 12);
    create(store, "sound", &(ColumnDef){ "n", TYPE(BIGINT), false }, 1);
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_chunks, 3);
    store_file_path(store, FILE_CHUNK, chunk_stored(table->chunks[2])->file.file_id, file);
    table_release(table);
    store_close(store);
    CHECK_OK(file_remove(file, &err), err);
    store = open_store(path);
    CHECK_STATUS(try_numbers(store, 12, 1), WEFT_CORRUPT);
    CHECK_STATUS(try_numbers(store, 12, 1), WEFT_CORRUPT);  // and the turn was given back
    append_all(store, "sound", &(ColumnInput){ .i = (i64[]){ 0 } }, 1);
    table = get_table(store, "sound");
    check_numbers(table, 0, 1);
    table_release(table);
    store_close(store);
}

TEST(opening_and_peeking_read_no_column)
{
    const char *path = fresh_path();
    char file[PATH_BYTES];
    Store *store = open_store(path);
    create_numbers(store);
    append_numbers(store, 0, 100);
    const Table *table = get_table(store, "numbers");
    store_file_path(store, FILE_CHUNK, chunk_stored(table->chunks[0])->file.file_id, file);
    table_release(table);
    store_close(store);
    Text bytes = { 0 };
    CHECK_OK(file_read_all(file, &bytes, &err), err);
    bytes.bytes[bytes.length - 1] = (char)(bytes.bytes[bytes.length - 1] ^ 1);
    write_bytes(file, bytes.bytes, bytes.length);
    text_free(&bytes);
    store = open_store(path);
    CHECK_OK(store_peek_table(store, "numbers", &table, &err), err);
    CHECK_INT(table_column_range(table, 0).max, 99);
    CHECK_STATUS(chunk_verify(table->chunks[0], 0, &err), WEFT_CORRUPT);
    CHECK_HAS(err.message, ".chunk");
    table_release(table);
    CHECK(store_table(store, "numbers") == NULL);
    error_clear(&err);
    CHECK_STATUS(try_numbers(store, 100, 100), WEFT_CORRUPT);  // would merge the damaged chunk
    create(store, "other", &(ColumnDef){ "x", TYPE(DATE), false }, 1);
    CHECK_OK(store_drop_table(store, "numbers", &err), err);
    store_close(store);
}

static void dict_file_of(const char *path, char file[2048])
{
    Arena *arena = arena_new(NULL, "test");
    char **names;
    int n_names;
    file[0] = '\0';
    CHECK_OK(dir_list(arena, path, &names, &n_names, &err), err);
    for (int i = 0; i < n_names; i++)
        if (strstr(names[i], ".dict"))
            snprintf(file, 2048, "%s/%s", path, names[i]);
    CHECK(file[0] != '\0');
    arena_free(arena);
}

TEST(texts_are_read_when_they_are_first_needed)
{
    const char *path = fresh_path();
    const Table *table;
    char file[2048];
    u32 code = 99;
    make_text_database(path);
    dict_file_of(path, file);
    Store *store = open_store(path);
    CHECK_OK(store_peek_table(store, "t", &table, &err), err);
    Dictionary *dict = table->columns[0].dict;
    CHECK(!dict_is_loaded(dict));
    CHECK_INT(dict_count(dict), 5);
    CHECK(remove(file) == 0);                               // it is mapped: its name does not matter any more
    CHECK_OK(dict_load(dict, &err), err);
    CHECK(dict_is_loaded(dict));
    CHECK_STR(dict_get(dict, 4).bytes, "word 4");
    for (int i = 0; i < 40; i++) {                          // without an index at first, then with one
        CHECK(dict_find(dict, "word 3", 6, &code));
        CHECK_INT(code, 3);
        CHECK(!dict_find(dict, "word", 4, &code));
    }
    CHECK_OK(dict_intern(dict, "word 2", 6, &code, &err), err);
    CHECK_INT(code, 2);
    CHECK_OK(dict_intern(dict, "new", 3, &code, &err), err);
    CHECK_INT(code, 5);
    table_release(table);
    store_close(store);
}

TEST(a_damaged_dictionary_is_found_when_its_texts_are_needed)
{
    const char *path = fresh_path();
    const Table *table;
    char file[2048];
    make_text_database(path);
    dict_file_of(path, file);
    Text bytes = { 0 };
    CHECK_OK(file_read_all(file, &bytes, &err), err);
    bytes.bytes[bytes.length - 1] = (char)(bytes.bytes[bytes.length - 1] ^ 1);
    write_bytes(file, bytes.bytes, bytes.length);
    text_free(&bytes);
    Store *store = open_store(path);
    CHECK_OK(store_peek_table(store, "t", &table, &err), err);
    for (int i = 0; i < 2; i++) {                           // each time anew
        error_clear(&err);
        CHECK_STATUS(dict_load(table->columns[0].dict, &err), WEFT_CORRUPT);
        CHECK_HAS(err.message, ".dict");
    }
    table_release(table);
    Append *append;
    error_clear(&err);
    CHECK_STATUS(append_begin(store, "t", &append, &err), WEFT_CORRUPT);
    CHECK(store_table(store, "t") == NULL);
    error_clear(&err);
    CHECK_OK(store_drop_table(store, "t", &err), err);
    store_close(store);
}

TEST(a_longer_dictionary_file_is_cut)
{
    const char *path = fresh_path();
    char file[2048];
    make_text_database(path);
    Arena *arena = arena_new(NULL, "test");
    char **names;
    int n_names;
    CHECK_OK(dir_list(arena, path, &names, &n_names, &err), err);
    for (int i = 0; i < n_names; i++)
        if (strstr(names[i], ".dict"))
            snprintf(file, sizeof(file), "%s/%s", path, names[i]);
    File tail;
    CHECK_OK(file_open_append(file, &tail, &err), err);
    CHECK_OK(file_write(&tail, "garbage of a crash", 18, &err), err);
    file_close(&tail);
    CHECK_OK(use_text_database(path), err);
    Store *store = open_store(path);
    Append *append;
    u64 n_rows;
    i64 codes[2];
    double floats[2] = { 6, 7 };
    CHECK_OK(append_begin(store, "t", &append, &err), err);
    intern_numbered(append_table(append)->columns[0].dict, "word", 5, 2, codes);
    const ColumnInput inputs[] = { { .i = codes }, { .f = floats }, { .i = codes } };
    CHECK_OK(append_rows(append, 0, inputs, 2, &err), err);
    CHECK_OK(append_commit(append, &n_rows, &err), err);
    store_close(store);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->columns[0].dict_count, 7);
    CHECK_STR(dict_get(table->columns[0].dict, 6).bytes, "word 6");
    table_release(table);
    store_close(store);
    arena_free(arena);
}

// ---- damage on purpose ---------------------------------------------------------------------------------------------

// Whatever is in the manifest, opening gives an error or a store that can be used.
static void use_whatever_there_is(const char *path)
{
    Store *store;
    error_clear(&err);
    if (store_open(path, NULL, &store, &err)) {
        CHECK(err.status == WEFT_CORRUPT || err.status == WEFT_UNSUPPORTED);
        return;
    }
    Arena *arena = arena_new(NULL, "test");
    const char **names;
    int n_names;
    store_list(store, arena, &names, &n_names);
    for (int i = 0; i < n_names; i++) {
        const Table *table;
        error_clear(&err);
        if (store_get_table(store, names[i], &table, &err) == WEFT_OK)
            table_release(table);
    }
    arena_free(arena);
    store_close(store);
}

TEST(a_database_of_format_1_is_read_and_one_of_the_future_is_refused)
{
    const char *path = fresh_path();
    make_text_database(path);
    make_older(path, '1');
    CHECK_OK(use_text_database(path), err);
    Store *store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK(!table_column_range(table, 1).bits.is_known);
    table_release(table);
    store_close(store);
    char file[2048];
    Text manifest = { 0 };
    snprintf(file, sizeof(file), "%s/manifest", path);
    CHECK_OK(file_read_all(file, &manifest, &err), err);
    manifest.bytes[7] = '9' + 1;
    set_checksum(&manifest);
    write_bytes(file, manifest.bytes, manifest.length);
    CHECK_STATUS(store_open(path, NULL, &store, &err), WEFT_UNSUPPORTED);
    text_free(&manifest);
}

TEST(a_random_manifest_never_crashes)
{
    const char *path = fresh_path();
    char file[2048];
    make_text_database(path);
    snprintf(file, sizeof(file), "%s/manifest", path);
    Text good = { 0 };
    CHECK_OK(file_read_all(file, &good, &err), err);
    u64 state = 4711;
    char *bad = malloc(good.length + 64);
    for (int round = 0; round < 3000; round++) {
        size_t length = good.length;
        memcpy(bad, good.bytes, length);
        for (u64 n = random_next(&state) % 4 + 1; n > 0; n--)
            bad[random_next(&state) % length] = (char)random_next(&state);
        if (round % 5 == 0)
            length = random_next(&state) % (length + 1);
        if (round % 2 == 0 && length >= 8) {                // as if written on purpose, checksum and all
            u64 checksum = hash_bytes(bad, length - 8);
            memcpy(bad + length - 8, &checksum, 8);
        }
        Arena *arena = arena_new(NULL, "test");             // most of it needs no file
        TableMeta **tables;
        int n_tables;
        u64 next_id;
        error_clear(&err);
        if (manifest_decode("manifest", bad, length, arena, &tables, &n_tables, &next_id, &err) == WEFT_OK)
            for (int i = 0; i < n_tables; i++)
                meta_free(tables[i]);
        arena_free(arena);
        if (round % 20 == 0 && length > 0) {
            const char *copy = fresh_path();                // opening sweeps, so use a database of its own
            make_text_database(copy);
            snprintf(file, sizeof(file), "%s/manifest", copy);
            write_bytes(file, bad, length);
            use_whatever_there_is(copy);
        }
    }
    free(bad);
    text_free(&good);
}

static bool open_copy(const char *path, const ChunkFile *info, const Table *table, StoredChunk **opened)
{
    if (chunk_map(path, info, table->n_columns, NULL, opened, &err))
        return false;
    if (!chunk_check(*opened, table->id, table->columns, &err))
        return true;
    chunk_release(&(*opened)->chunk);
    return false;
}

TEST(a_random_chunk_header_never_crashes)
{
    const char *path = fresh_path();
    make_text_database(path);
    Store *store = open_store(path);
    const Table *table = get_table(store, "t");
    StoredChunk *chunk = chunk_stored(table->chunks[0]);
    const char *file = chunk->path, *copy = test_path("fuzzed.chunk");
    Text good = { 0 };
    CHECK_OK(file_read_all(file, &good, &err), err);
    u64 state = 815, n_header = chunk_header_bytes(good.bytes, 3);
    for (int round = 0; round < 2000; round++) {
        char *bad = malloc(good.length);
        memcpy(bad, good.bytes, good.length);
        for (u64 n = random_next(&state) % 3 + 1; n > 0; n--)
            bad[random_next(&state) % n_header] = (char)random_next(&state);
        ChunkFile info = chunk->file;
        info.checksum = hash_bytes(bad, n_header);          // as if written on purpose
        write_bytes(copy, bad, good.length);
        StoredChunk *opened;
        error_clear(&err);
        if (open_copy(copy, &info, table, &opened)) {
            for (int i = 0; i < table->n_columns; i++) {
                Sketch sketch;
                (void)chunk_verify(&opened->chunk, i, NULL);
                (void)sketch_load(&sketch, opened->sketches[i].bytes, opened->sketches[i].length);
            }
            chunk_release(&opened->chunk);
        } else {
            CHECK_STATUS(err.status, WEFT_CORRUPT);
        }
        free(bad);
    }
    text_free(&good);
    table_release(table);
    store_close(store);
}

// ---- failures ------------------------------------------------------------------------------------------------------

// A table with numbers and their texts, and the steps of its life, each of which a fault can strike.
static const ColumnDef faulty_columns[] = {
    { "n", { TYPE_BIGINT, 0, 0 }, false }, { "x", { TYPE_TEXT, 0, 0 }, false },
};

// Rows FIRST .. FIRST + COUNT - 1 of table "f": a number and its text.
static weft_status append_faulty(Store *store, u32 first, u32 count, Error *problem)
{
    Append *append;
    i64 numbers[64], codes[64];
    u64 n_rows;
    TRY(append_begin(store, "f", &append, problem));
    weft_status status = WEFT_OK;
    for (u32 i = 0; i < count && !status; i++) {
        char text[32];
        u32 code = 0;
        size_t length = (size_t)snprintf(text, sizeof(text), "row %u", first + i);
        numbers[i] = first + i;
        status = dict_intern(append_table(append)->columns[1].dict, text, length, &code, problem);
        codes[i] = code;
    }
    for (u32 i = 0; i < count && !status; i += 3) {         // several pieces
        const ColumnInput inputs[] = { { .i = numbers + i }, { .i = codes + i } };
        status = append_rows(append, i / 3, inputs, MIN_OF(3, count - i), problem);
    }
    if (!status)
        return append_commit(append, &n_rows, problem);
    append_abort(append);
    return status;
}

static void check_faulty(Store *store, u64 n_rows)
{
    const Table *table = get_table(store, "f");
    CHECK_INT(table->n_rows, n_rows);
    check_statistics(table);
    u64 row = 0;
    for (int c = 0; c < table->n_chunks; c++)
        for (u32 i = 0; i < table->chunks[c]->n_rows; i++, row++) {
            char text[32];
            snprintf(text, sizeof(text), "row %llu", (unsigned long long)row);
            CHECK_INT(integer_at(&table->chunks[c]->columns[0], i), row);
            i64 code = integer_at(&table->chunks[c]->columns[1], i);
            CHECK(code < table->columns[1].dict_count);
            CHECK_STR(dict_get(table->columns[1].dict, (u32)code).bytes, text);
        }
    table_release(table);
}

static bool has_table(Store *store, const char *name)
{
    const Table *table = store_table(store, name);
    table_release(table);
    return table != NULL;
}

typedef enum Step { STEP_CREATE, STEP_FIRST, STEP_MERGE, STEP_CHUNKS, STEP_DROP, N_STEPS } Step;

static weft_status do_step(Store *store, Step step, Error *problem)
{
    switch (step) {
    case STEP_CREATE:
        return store_create_table(store, "f", faulty_columns, 2, problem);
    case STEP_FIRST:
        return append_faulty(store, 0, 5, problem);
    case STEP_MERGE:
        return append_faulty(store, 5, 6, problem);         // swallows the first chunk
    case STEP_CHUNKS:
        return append_faulty(store, 11, 40, problem);       // two full chunks and a rest
    default:
        return store_drop_table(store, "f", problem);
    }
}

// N_DONE steps were done.
static void check_state(Store *store, int n_done)
{
    const u64 n_rows[] = { 0, 0, 5, 11, 51, 0 };
    CHECK_INT(has_table(store, "f"), n_done > STEP_CREATE && n_done <= STEP_DROP);
    if (n_done > STEP_CREATE && n_done <= STEP_DROP)
        check_faulty(store, n_rows[n_done]);
}

static Store *open_after(const char *path, int n_done)
{
    Store *store = open_store(path);
    store_set_chunk_rows(store, 16);
    for (int i = 0; i < n_done; i++)
        CHECK_OK(do_step(store, (Step)i, &err), err);
    return store;
}

// Runs one step with the Nth call failing.  Returns whether there was no such call any more.
static bool strike(const char *path, FaultKind kind, int n_done, i64 nth, bool and_all_after)
{
    Store *store = open_after(path, n_done);
    Error problem;
    error_clear(&problem);
    fault_set(kind, nth, and_all_after);
    weft_status status = do_step(store, (Step)n_done, &problem);
    bool is_past = fault_count(kind) < nth;
    fault_set(kind, 0, false);
    CHECK_INT(problem.status, status);
    check_state(store, status ? n_done : n_done + 1);
    bool is_in_doubt = store->is_in_doubt;                  // only when all later calls fail, too
    CHECK(!is_in_doubt || (and_all_after && status && problem.hint[0]));
    if (nth % 2 == 0 && path) {                             // what is on disk now
        store_close(store);
        store = open_store(path);
        store_set_chunk_rows(store, 16);
        if (is_in_doubt && has_table(store, "f") == (n_done + 1 > STEP_CREATE && n_done + 1 <= STEP_DROP))
            status = WEFT_OK;                               // may have happened; decided below by its rows
        if (is_in_doubt && has_table(store, "f")) {
            const Table *table = get_table(store, "f");
            const u64 n_rows[] = { 0, 0, 5, 11, 51, 0 };
            status = table->n_rows == n_rows[n_done + 1] && n_done + 1 <= STEP_DROP ? WEFT_OK : WEFT_IO_ERROR;
            table_release(table);
        }
        check_state(store, status ? n_done : n_done + 1);
    }
    if (status)                                             // usable: the same step works now
        CHECK_OK(do_step(store, (Step)n_done, &err), err);
    check_state(store, n_done + 1);
    for (int i = n_done + 1; i < STEP_DROP; i++)
        CHECK_OK(do_step(store, (Step)i, &err), err);
    int n_all = MAX_OF(n_done + 1, STEP_DROP);
    check_state(store, n_all);
    if (path) {
        store_close(store);
        store = open_store(path);
        check_state(store, n_all);
        const Table *table = n_all == STEP_DROP ? get_table(store, "f") : NULL;
        CHECK_INT(count_files(path, ".chunk"), table ? table->n_chunks : 0);
        CHECK_INT(count_files(path, ".dict"), table ? 1 : 0);
        table_release(table);
    }
    store_close(store);
    return is_past;
}

static void strike_everywhere(FaultKind kind, bool on_disk, bool and_all_after)
{
    for (int step = 0; step < N_STEPS; step++) {
        i64 nth = 1;
        while (!strike(on_disk ? fresh_path() : NULL, kind, step, nth, and_all_after))
            nth++;
        if (on_disk && kind == FAULT_FILE)
            CHECK(nth > 8);
    }
}

TEST(a_failing_file_call_leaves_the_old_state)
{
    strike_everywhere(FAULT_FILE, true, false);
}

TEST(a_dying_disk_leaves_one_of_both_states)
{
    strike_everywhere(FAULT_FILE, true, true);
}

TEST(failing_memory_leaves_the_old_state)
{
    strike_everywhere(FAULT_MEMORY, false, false);
    strike_everywhere(FAULT_MEMORY, true, false);
    strike_everywhere(FAULT_MEMORY, true, true);
}

// A commit whose outcome nobody knows: the new manifest is in place, the directory is not synced, and neither is the
// old one put back.  Returns the store; NTH is the file call from which on all failed.
static Store *open_in_doubt(const char *path, i64 nth)
{
    Store *store = open_after(path, STEP_MERGE);
    Error problem;
    error_clear(&problem);
    fault_set(FAULT_FILE, nth, true);
    weft_status status = do_step(store, STEP_MERGE, &problem);
    fault_set(FAULT_FILE, 0, false);
    check_state(store, status ? STEP_MERGE : STEP_MERGE + 1);
    return store;
}

// The next change fails as well, at any point: whichever manifest is there then, its files are whole.
TEST(a_change_in_doubt_keeps_its_files)
{
    i64 nth = 0;
    for (bool is_in_doubt = false; !is_in_doubt;) {
        Store *store = open_in_doubt(fresh_path(), ++nth);
        is_in_doubt = store->is_in_doubt;
        store_close(store);
        CHECK(nth < 100);
    }
    bool was_old = false, was_doubtful = false;
    for (i64 next = 1;; next++) {
        const char *path = fresh_path();
        Store *store = open_in_doubt(path, nth);
        CHECK(store->is_in_doubt);
        Error problem;
        error_clear(&problem);
        fault_set(FAULT_FILE, next, false);
        weft_status status = append_faulty(store, 5, 2, &problem);
        bool is_past = fault_count(FAULT_FILE) < next;
        fault_set(FAULT_FILE, 0, false);
        check_faulty(store, status ? 5 : 7);
        store_close(store);
        store = open_store(path);
        const Table *table = get_table(store, "f");
        u64 n_rows = table->n_rows;
        table_release(table);
        CHECK(status ? n_rows == 5 || n_rows == 11 : n_rows == 7);
        check_faulty(store, n_rows);
        was_old |= n_rows == 5;
        was_doubtful |= n_rows == 11;
        store_close(store);
        if (is_past)
            break;
    }
    CHECK(was_old && was_doubtful);
}

TEST(opening_may_fail_and_be_tried_again)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        for (i64 nth = 1;; nth++) {
            const char *path = fresh_path();
            if (!is_new)
                store_close(open_after(path, STEP_CHUNKS));
            Store *store;
            const Table *table = NULL;
            Error problem;
            error_clear(&problem);
            fault_set(FAULT_FILE, nth, false);
            weft_status status = store_open(path, NULL, &store, &problem);
            if (!status && !is_new && (status = store_get_table(store, "f", &table, &problem)))
                store_close(store);
            bool is_past = fault_count(FAULT_FILE) < nth;
            fault_set(FAULT_FILE, 0, false);
            if (status) {
                CHECK_STATUS(status, WEFT_IO_ERROR);
                store = open_store(path);
            }
            table_release(table);
            check_state(store, is_new ? 0 : STEP_CHUNKS);
            store_close(store);
            if (is_past)
                break;
        }
    }
}

// The process is gone in the middle of an append: no destructor, no cleaning.
TEST(a_killed_process_leaves_the_old_state)
{
    for (int n_rows = 0; n_rows < 3; n_rows++) {
        const char *path = fresh_path();
        store_close(open_after(path, STEP_CHUNKS));
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            Store *store;
            Append *append;
            i64 numbers[20], codes[20] = { 0 };
            u32 code;
            for (int i = 0; i < 20; i++)
                numbers[i] = 11 + i;
            const ColumnInput inputs[] = { { .i = numbers }, { .i = codes } };
            if (store_open(path, NULL, &store, NULL) || append_begin(store, "f", &append, NULL))
                _exit(1);
            store_set_chunk_rows(store, 4);
            (void)dict_intern(append_table(append)->columns[1].dict, "row 11", 6, &code, NULL);
            for (int i = 0; i < n_rows; i++)
                if (append_rows(append, (u64)i, inputs, 20, NULL))
                    _exit(1);
            _exit(0);
        }
        int how;
        CHECK_INT(waitpid(child, &how, 0), child);
        CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        Store *store = open_store(path);
        check_state(store, STEP_CHUNKS);
        CHECK_INT(count_files(path, ".chunk"), 1);
        store_close(store);
    }
}
