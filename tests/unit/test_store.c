// test_store.c - tables: what goes in comes out, however it came in.

#include <pthread.h>

#include "test.h"

#include "store_help.h"

// ---- the catalog ---------------------------------------------------------------------------------------------------

TEST(tables_are_created_listed_and_dropped)
{
    Store *store = open_store(NULL);
    Arena *arena = arena_new(NULL, "test");
    const char **names;
    int n_names;
    CHECK(store_path(store) == NULL);
    CHECK(store_table(store, "t") == NULL);
    create(store, "t", &(ColumnDef){ "x", TYPE(INTEGER), true }, 1);
    create(store, "a b\xC3\xA9", &(ColumnDef){ "y", TYPE(TEXT), false }, 1);
    CHECK_STATUS(store_create_table(store, "t", &(ColumnDef){ "x", TYPE(DATE), false }, 1, &err), WEFT_DUPLICATE_TABLE);
    store_list(store, arena, &names, &n_names);
    CHECK_INT(n_names, 2);
    CHECK_STR(names[0], "a b\xC3\xA9");
    CHECK_STR(names[1], "t");
    const Table *table = get_table(store, "t");
    CHECK_STR(table->name, "t");
    CHECK_INT(table->n_rows, 0);
    CHECK_INT(table->n_chunks, 0);
    CHECK(table->columns[0].not_null);
    CHECK_INT(table_find_column(table, "x"), 0);
    CHECK_INT(table_find_column(table, "X"), -1);
    error_clear(&err);
    CHECK_OK(store_drop_table(store, "t", &err), err);
    CHECK_STATUS(store_drop_table(store, "t", &err), WEFT_UNDEFINED_TABLE);
    CHECK_STR(table->columns[0].name, "x");                 // the snapshot stays
    table_release(table);
    table_release(NULL);
    arena_free(arena);
    store_close(store);
    store_close(NULL);
}

TEST(bad_definitions_are_refused)
{
    Store *store = open_store(NULL);
    ColumnDef *many = calloc(1601, sizeof(ColumnDef));
    typedef char ColumnName[16];
    ColumnName *column_names = calloc(1601, sizeof(ColumnName));
    for (int i = 0; i < 1601; i++) {
        snprintf(column_names[i], 16, "c%d", i);
        many[i] = (ColumnDef){ column_names[i], TYPE(INTEGER), false };
    }
    char long_name[65];
    memset(long_name, 'n', 64);
    long_name[64] = '\0';
    const struct { const char *table; ColumnDef columns[2]; int n_columns; weft_status status; } cases[] = {
        { "", { { "x", TYPE(DATE), false } }, 1, WEFT_INVALID_NAME },
        { "\xFF", { { "x", TYPE(DATE), false } }, 1, WEFT_INVALID_NAME },
        { long_name, { { "x", TYPE(DATE), false } }, 1, WEFT_INVALID_NAME },
        { "t", { { long_name, TYPE(DATE), false } }, 1, WEFT_INVALID_NAME },
        { "t", { { "x", TYPE(DATE), false }, { "x", TYPE(DATE), false } }, 2, WEFT_DUPLICATE_COLUMN },
        { "t", { { "x", TYPE(NUMERIC), false } }, 1, WEFT_UNSUPPORTED },
        { "t", { { "x", TYPE(INTERVAL), false } }, 1, WEFT_UNSUPPORTED },
        { "t", { { "x", { TYPE_DECIMAL, 19, 0 }, false } }, 1, WEFT_UNSUPPORTED },
        { "t", { { "x", { TYPE_DECIMAL, 3, 4 }, false } }, 1, WEFT_UNSUPPORTED },
        { "t", { { "x", TYPE(DATE), false } }, 0, WEFT_UNSUPPORTED },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        error_clear(&err);
        weft_status status = store_create_table(store, cases[i].table, cases[i].columns, cases[i].n_columns, &err);
        CHECK_INT(status, cases[i].status);
        CHECK(store_table(store, cases[i].table) == NULL);
    }
    error_clear(&err);
    CHECK_STATUS(store_create_table(store, "t", many, 1601, &err), WEFT_TOO_MANY_COLUMNS);
    create(store, long_name + 1, many, 1600);               // 63 bytes
    const Table *table = get_table(store, long_name + 1);
    CHECK_INT(table->n_columns, 1600);
    table_release(table);
    store_close(store);
    free(many);
    free(column_names);
}

// ---- who keeps something by a chunk's memory ------------------------------------------------------------------------

typedef struct Mourner { ChunkWatch watch; int n_gone; u64 last_id; i64 last_value; } Mourner;

static void count_gone(ChunkWatch *watch, const Chunk *chunk)
{
    Mourner *mourner = (Mourner *)watch;                    // it is the first field
    mourner->n_gone++;
    mourner->last_id = chunk->id;
    mourner->last_value = integer_at(&chunk->columns[0], 0);            // its memory is still there
}

TEST(whoever_watches_is_told_before_a_chunk_goes)
{
    Store *store = open_store(NULL);
    Mourner mourner = { .watch = { .gone = count_gone } }, late = { .watch = { .gone = count_gone } };
    create_numbers(store);
    append_numbers(store, 7, 100);
    chunks_watch(&mourner.watch);
    chunks_watch(&late.watch);
    chunks_unwatch(&late.watch);
    const Table *table = get_table(store, "numbers");
    u64 id = table->chunks[0]->id;
    mourner.n_gone = 0;                                     // appending makes chunks that do not stay
    error_clear(&err);
    CHECK_OK(store_drop_table(store, "numbers", &err), err);
    CHECK_INT(mourner.n_gone, 0);                           // the snapshot holds it
    table_release(table);
    CHECK_INT(mourner.n_gone, 1);
    CHECK_INT(mourner.last_id, id);
    CHECK_INT(mourner.last_value, 7);
    chunks_unwatch(&mourner.watch);
    CHECK_INT(late.n_gone, 0);
    store_close(store);
}

static ChunkPages pages_of(Store *store, const Table **table)
{
    *table = get_table(store, "numbers");
    return chunk_pages((*table)->chunks[0]);
}

TEST(a_chunk_knows_its_own_pages)
{
    const Table *table;
    Store *small = open_store(NULL), *large = open_store(NULL), *mapped = open_store(fresh_path());
    create_numbers(small), create_numbers(large), create_numbers(mapped);
    append_numbers(small, 0, 100), append_numbers(large, 0, 900000), append_numbers(mapped, 0, 100);
    CHECK(pages_of(small, &table).first == NULL);           // it lies among other people's memory
    table_release(table);
    ChunkPages pages = pages_of(large, &table);
    const u8 *data = table->chunks[0]->columns[0].data;
    CHECK(!pages.is_file && data >= pages.first &&
          data + 900000 * table->chunks[0]->columns[0].width <= pages.first + pages.bytes);
    table_release(table);
    pages = pages_of(mapped, &table);
    data = table->chunks[0]->columns[0].data;
    CHECK(pages.is_file && data > pages.first && data < pages.first + pages.bytes);
    CHECK_INT((uintptr_t)pages.first % 4096 + pages.bytes % 4096, 0);
    table_release(table);
    store_close(small), store_close(large), store_close(mapped);
}

// ---- round trips ---------------------------------------------------------------------------------------------------

enum { N_KINDS = 9, N_TRIP = 1000 };

static const ColumnDef all_kinds[N_KINDS] = {
    { "b", { TYPE_BOOLEAN, 0, 0 }, false },  { "s", { TYPE_SMALLINT, 0, 0 }, false },
    { "i", { TYPE_INTEGER, 0, 0 }, false },  { "l", { TYPE_BIGINT, 0, 0 }, false },
    { "d", { TYPE_DECIMAL, 12, 2 }, false }, { "r", { TYPE_REAL, 0, 0 }, false },
    { "f", { TYPE_DOUBLE, 0, 0 }, false },   { "t", { TYPE_DATE, 0, 0 }, false },
    { "x", { TYPE_TEXT, 0, 0 }, false },
};

typedef struct Trip {
    i64    integers[N_KINDS][N_TRIP];
    double floats[N_KINDS][N_TRIP];
    u8     is_null[N_KINDS][N_TRIP];
} Trip;

// One row in NULL_EVERY is NULL (0: none; 1: all).
static void make_trip(Trip *trip, Dictionary *dict, u32 null_every, u64 seed)
{
    u64 state = seed;
    for (int k = 0; k < N_KINDS; k++)
        for (u32 i = 0; i < N_TRIP; i++) {
            u64 random = random_next(&state);
            i64 limits[] = { 1, 32767, INT32_MAX, INT64_MAX, 999999999999, 0, 0, 2000000, 0 };
            i64 magnitude = k == 3 ? (i64)(random >> 1) : (i64)(random % (u64)(limits[k] + 1));
            trip->integers[k][i] = k > 0 && k < 8 && random % 3 == 0 ? -magnitude / 4 : magnitude;
            trip->floats[k][i] = random % 97 == 0 ? NAN : (double)(i64)random / 1e6;
            trip->is_null[k][i] = null_every > 0 && random % null_every == 0;
            if (k == 8) {
                char text[32];
                u32 code;
                size_t length = (size_t)snprintf(text, sizeof(text), "t%llu", (unsigned long long)(random % 300));
                CHECK_OK(dict_intern(dict, text, length, &code, &err), err);
                trip->integers[k][i] = code;
            }
        }
}

static void check_trip(const Table *table, const Trip *trip, u64 first_row)
{
    u64 row = 0;
    for (int c = 0; c < table->n_chunks; c++) {
        for (u32 i = 0; i < table->chunks[c]->n_rows; i++, row++) {
            if (row < first_row || row >= first_row + N_TRIP)
                continue;
            for (int k = 0; k < N_KINDS; k++) {
                const ColumnChunk *column = &table->chunks[c]->columns[k];
                u64 at = row - first_row;
                CHECK_INT(is_null_at(column, i), trip->is_null[k][at]);
                if (trip->is_null[k][at])
                    continue;
                if (!type_is_float(table->columns[k].type)) {
                    CHECK_INT(integer_at(column, i), trip->integers[k][at]);
                    continue;
                }
                double expected = k == 5 ? (double)(float)trip->floats[k][at] : trip->floats[k][at];
                double value = float_at(column, i);
                CHECK(value == expected || (value != value && expected != expected));
            }
        }
    }
}

static void trip_inputs(const Trip *trip, u32 start, ColumnInput inputs[N_KINDS])
{
    for (int k = 0; k < N_KINDS; k++) {
        inputs[k] = (ColumnInput){ .is_null = trip->is_null[k] + start };
        if (type_is_float(all_kinds[k].type))
            inputs[k].f = trip->floats[k] + start;
        else
            inputs[k].i = trip->integers[k] + start;
    }
}

static void round_trip(const char *path, u32 chunk_rows, u32 piece_rows)
{
    Store *store = open_store(path);
    store_set_chunk_rows(store, chunk_rows);
    create(store, "k", all_kinds, N_KINDS);
    static Trip trips[4];
    const u32 null_every[4] = { 0, 5, 1, 70 };
    for (int t = 0; t < 4; t++) {
        Append *append;
        u64 n_rows, sequence = 0;
        error_clear(&err);
        CHECK_OK(append_begin(store, "k", &append, &err), err);
        make_trip(&trips[t], append_table(append)->columns[8].dict, null_every[t], (u64)t + 17);
        for (u32 start = 0; start < N_TRIP; start += piece_rows) {
            ColumnInput inputs[N_KINDS];
            trip_inputs(&trips[t], start, inputs);
            CHECK_OK(append_rows(append, sequence++, inputs, MIN_OF(piece_rows, N_TRIP - start), &err), err);
        }
        CHECK_OK(append_commit(append, &n_rows, &err), err);
        CHECK_INT(n_rows, N_TRIP);
    }
    for (int pass = 0; pass < (path ? 2 : 1); pass++) {
        const Table *table = get_table(store, "k");
        CHECK_INT(table->n_rows, 4 * N_TRIP);
        CHECK_INT(table->version, 5);
        check_statistics(table);
        for (int t = 0; t < 4; t++)
            check_trip(table, &trips[t], (u64)t * N_TRIP);
        for (u32 code = 0; code < table->columns[8].dict_count; code++)
            CHECK(dict_get(table->columns[8].dict, code).bytes[0] == 't');
        table_release(table);
        if (path) {
            CHECK(store_bytes_on_disk(store, "k") > 0);
            store_close(store);
            store = open_store(path);
        }
    }
    store_close(store);
}

TEST(every_type_comes_back)
{
    const u32 shapes[][2] = {                               // rows of a chunk, of a piece
        { CHUNK_ROWS, N_TRIP }, { 64, 17 }, { 333, 100 }, { 100, N_TRIP }, { 1, 3 }, { 1000, 1 },
    };
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        round_trip(NULL, shapes[i][0], shapes[i][1]);
        if (i > 0 && i < 4)
            round_trip(fresh_path(), shapes[i][0], shapes[i][1]);
    }
}

TEST(widths_are_the_narrowest)
{
    const struct { i64 min, max; u8 width; } cases[] = {
        { 7, 7, 1 }, { -100, 155, 1 }, { -100, 156, 2 }, { 0, 65535, 2 }, { 0, 65536, 4 },
        { INT64_MAX - 255, INT64_MAX, 1 }, { INT64_MIN, INT64_MIN + 256, 2 },
        { -1, 4294967294, 4 }, { -1, 4294967295, 8 },
        { INT64_MIN, INT64_MAX, 8 }, { INT64_MIN, 0, 8 }, { -1, INT64_MAX, 8 },
    };
    Store *store = open_store(NULL);
    for (int i = 0; i < COUNT_OF(cases); i++) {
        for (int with_null = 0; with_null < 2; with_null++) {
            create_numbers(store);
            i64 values[] = { cases[i].max, 12345, cases[i].min, cases[i].min + (cases[i].max > cases[i].min) };
            u8 is_null[] = { 0, 1, 0, 0 };
            values[1] = with_null ? 12345 : cases[i].max;
            append_all(store, "numbers", &(ColumnInput){ .i = values, .is_null = with_null ? is_null : NULL }, 4);
            const Table *table = get_table(store, "numbers");
            const ColumnChunk *column = &table->chunks[0]->columns[0];
            CHECK_INT(column->width, cases[i].width);
            CHECK_INT(column->base, cases[i].min);
            for (u32 row = 0; row < 4; row++)
                CHECK_INT(integer_at(column, row), with_null && row == 1 ? cases[i].min : values[row]);
            check_statistics(table);
            ColumnRange range = table_column_range(table, 0);
            CHECK(range.has_range && range.min == cases[i].min && range.max == cases[i].max);
            CHECK_INT(range.width, cases[i].width);
            CHECK_INT(range.n_nulls, with_null);
            table_release(table);
            CHECK_OK(store_drop_table(store, "numbers", &err), err);
        }
    }
    store_close(store);
}

// Merging takes chunks of one width and base into those of another.
TEST(merged_chunks_change_width)
{
    const i64 magnitudes[] = { 100, 30000, 2000000000, INT64_MAX - 1 };
    for (int first = 0; first < 4; first++)
        for (int second = 0; second < 4; second++) {
            Store *store = open_store(NULL);
            create_numbers(store);
            i64 a[3] = { magnitudes[first], 5, -magnitudes[first] };
            i64 b[3] = { 1, -magnitudes[second], magnitudes[second] };
            u8 nulls[3] = { 0, 1, 0 };
            append_all(store, "numbers", &(ColumnInput){ .i = a, .is_null = first % 2 ? nulls : NULL }, 3);
            append_all(store, "numbers", &(ColumnInput){ .i = b, .is_null = second % 2 ? nulls : NULL }, 3);
            const Table *table = get_table(store, "numbers");
            CHECK_INT(table->n_chunks, 1);
            check_statistics(table);
            const ColumnChunk *column = &table->chunks[0]->columns[0];
            for (u32 i = 0; i < 3; i++) {
                CHECK_INT(is_null_at(column, i), first % 2 && nulls[i]);
                CHECK_INT(is_null_at(column, 3 + i), second % 2 && nulls[i]);
                CHECK(is_null_at(column, i) || integer_at(column, i) == a[i]);
                CHECK(is_null_at(column, 3 + i) || integer_at(column, 3 + i) == b[i]);
            }
            table_release(table);
            store_close(store);
        }
}

// A piece is cut between chunks, and each part gets the width and base that it needs.
TEST(parts_of_pieces_change_width)
{
    const i64 magnitudes[] = { 0, 1, 200, 30000, 2000000000, INT64_MAX };
    enum { N = 6 * 8 };
    for (int with_nulls = 0; with_nulls < 2; with_nulls++) {
        Store *store = open_store(NULL);
        store_set_chunk_rows(store, 8);
        create_numbers(store);
        i64 values[N + 3];
        u8 is_null[N + 3];
        for (int i = 0; i < N + 3; i++) {                   // all widths in one piece; each chunk has one
            i64 magnitude = magnitudes[MAX_OF(i - 3, 0) / 8];
            values[i] = i % 2 ? magnitude : -magnitude + 5;
            is_null[i] = with_nulls && i % 3 == 0;
        }
        for (int widest = 2; widest <= 6; widest++) {       // pieces of 1, 2, 4 and 8 bytes
            Append *append;
            u64 n_rows;
            u32 n = 3 + (u32)widest * 8;
            CHECK_OK(append_begin(store, "numbers", &append, &err), err);
            CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = values, .is_null = is_null }, n, &err), err);
            CHECK_OK(append_commit(append, &n_rows, &err), err);
        }
        const Table *table = get_table(store, "numbers");
        check_statistics(table);
        u32 row = 0, n = 3 + 2 * 8;
        for (int c = 0; c < table->n_chunks; c++)
            for (u32 i = 0; i < table->chunks[c]->n_rows; i++, row++) {
                const ColumnChunk *column = &table->chunks[c]->columns[0];
                if (row == n) {
                    row = 0;
                    n += 8;
                }
                CHECK_INT(is_null_at(column, i), is_null[row]);
                CHECK(is_null[row] || integer_at(column, i) == values[row]);
            }
        CHECK_INT(row, n);
        table_release(table);
        store_close(store);
    }
}

TEST(floats_without_a_number_have_no_range)
{
    Store *store = open_store(NULL);
    create(store, "f", &(ColumnDef){ "f", TYPE(DOUBLE), false }, 1);
    append_all(store, "f", &(ColumnInput){ .f = (double[]){ NAN, 1, NAN }, .is_null = (u8[]){ 0, 1, 0 } }, 3);
    const Table *table = get_table(store, "f");
    CHECK(!table_column_range(table, 0).has_range);
    CHECK(table->chunks[0]->columns[0].has_nan);
    table_release(table);
    append_all(store, "f", &(ColumnInput){ .f = (double[]){ -INFINITY, 0 } }, 2);
    table = get_table(store, "f");
    ColumnRange range = table_column_range(table, 0);
    CHECK(range.has_range && range.fmin == -INFINITY && range.fmax == 0);
    check_statistics(table);
    table_release(table);
    store_close(store);
}

TEST(floats_have_their_exponents_and_lowest_bit_measured)
{
    Store *store = open_store(NULL);
    create(store, "f", &(ColumnDef){ "f", TYPE(DOUBLE), false }, 1);
    append_all(store, "f", &(ColumnInput){ .f = (double[]){ 0, -0.0, NAN, -INFINITY } }, 4);
    const Table *table = get_table(store, "f");
    check_statistics(table);
    CHECK(table_column_range(table, 0).bits.least > table_column_range(table, 0).bits.most);
    table_release(table);
    append_all(store, "f", &(ColumnInput){ .f = (double[]){ 0.75, -96, 3 } }, 3);
    table = get_table(store, "f");
    check_statistics(table);
    FloatBits bits = table_column_range(table, 0).bits;
    CHECK(bits.is_known);
    CHECK_INT(bits.unit, -2);
    CHECK_INT(bits.least, -1);
    CHECK_INT(bits.most, 6);
    table_release(table);
    append_all(store, "f", &(ColumnInput){ .f = (double[]){ 0x1p-1074, 0x1.8p-1060, 0x1.fffffffffffffp1023 } }, 3);
    table = get_table(store, "f");
    check_statistics(table);
    bits = table_column_range(table, 0).bits;
    CHECK_INT(bits.unit, -1074);
    CHECK_INT(bits.least, -1074);
    CHECK_INT(bits.most, 1023);
    table_release(table);
    store_close(store);
}

TEST(values_must_fit_their_type)
{
    Store *store = open_store(NULL);
    create(store, "k", all_kinds, N_KINDS);
    create(store, "n", &(ColumnDef){ "x", TYPE(INTEGER), true }, 1);
    CHECK_STATUS(try_append(store, "n", &(ColumnInput){ .i = (i64[]){ 1 }, .is_null = (u8[]){ 1 } }, 1),
                 WEFT_NOT_NULL_VIOLATION);
    CHECK_STATUS(try_append(store, "n", &(ColumnInput){ .i = (i64[]){ 1, 2147483648 } }, 2), WEFT_OUT_OF_RANGE);
    CHECK_STATUS(try_append(store, "missing", &(ColumnInput){ .i = (i64[]){ 1 } }, 1), WEFT_UNDEFINED_TABLE);
    i64 bad[N_KINDS] = { 2, 40000, 1ll << 31, 0, 1000000000000, 0, 0, 3000000, 0 };
    for (int k = 0; k < N_KINDS; k++) {
        i64 zero[1] = { 0 };
        double one[1] = { 1 };
        u8 yes[1] = { 1 };
        ColumnInput inputs[N_KINDS];
        for (int j = 0; j < N_KINDS; j++) {
            inputs[j] = (ColumnInput){ .i = j == k ? &bad[k] : zero, .is_null = j == 8 && k != 8 ? yes : NULL };
            if (type_is_float(all_kinds[j].type))
                inputs[j].f = one;
        }
        weft_status expected = k == 3 || k == 5 || k == 6 ? WEFT_OK : k == 7 ? WEFT_DATETIME_OVERFLOW :
                               k == 8 ? WEFT_INTERNAL : WEFT_OUT_OF_RANGE;
        CHECK_INT(try_append(store, "k", inputs, 1), expected);
    }
    store_close(store);
}

// ---- appending -----------------------------------------------------------------------------------------------------

TEST(a_snapshot_does_not_change)
{
    const char *paths[] = { NULL, fresh_path() };
    for (int i = 0; i < 2; i++) {
        Store *store = open_store(paths[i]);
        create_numbers(store);
        append_numbers(store, 0, 10);
        const Table *before = get_table(store, "numbers");
        append_numbers(store, 10, 15);                      // swallows the first chunk
        const Table *after = get_table(store, "numbers");
        CHECK_INT(after->n_chunks, 1);
        CHECK_INT(before->id, after->id);
        CHECK(before->version < after->version);
        check_numbers(before, 0, 10);
        check_numbers(after, 0, 25);
        CHECK_OK(store_drop_table(store, "numbers", &err), err);
        check_numbers(table_hold(before), 0, 10);
        table_release(before);
        store_close(store);
        check_numbers(after, 0, 25);                        // even after the store is closed
        table_release(before);
        table_release(after);
    }
}

TEST(many_small_appends_leave_few_chunks)
{
    Store *store = open_store(NULL);
    store_set_chunk_rows(store, 512);
    create_numbers(store);
    u32 n = 0;
    for (int i = 0; i < 3000; i++) {
        u32 count = i % 7 == 0 ? 3 : 1;
        append_numbers(store, n, count);
        n += count;
    }
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, n);
    check_statistics(table);
    CHECK(table->n_chunks <= (int)n / 256 + 10);
    table_release(table);
    store_close(store);
}

TEST(replaced_files_go)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create_numbers(store);
    for (int i = 0; i < 40; i++)
        append_numbers(store, i, 1);
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, 40);
    CHECK_INT(count_files(path, ".chunk"), table->n_chunks);
    table_release(table);
    CHECK_OK(store_drop_table(store, "numbers", &err), err);
    CHECK_INT(count_files(path, ".chunk"), 0);
    store_close(store);
}

TEST(an_empty_append_is_no_commit)
{
    Store *store = open_store(NULL);
    create_numbers(store);
    append_numbers(store, 0, 0);
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->version, 1);
    table_release(table);
    store_close(store);
}

TEST(pieces_may_come_in_any_order)
{
    Store *store = open_store(NULL);
    store_set_chunk_rows(store, 10);
    create_numbers(store);
    const int order[] = { 3, 1, 4, 0, 2, 7, 6, 5 };
    Append *append;
    u64 n_rows;
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    for (int i = 0; i < COUNT_OF(order); i++) {
        i64 values[7];
        for (int j = 0; j < 7; j++)
            values[j] = order[i] * 7 + j;
        CHECK_OK(append_rows(append, (u64)order[i], &(ColumnInput){ .i = values }, 7, &err), err);
    }
    CHECK_OK(append_commit(append, &n_rows, &err), err);
    CHECK_INT(n_rows, 56);
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, 56);
    CHECK_INT(table->n_chunks, 6);
    CHECK_INT(table->chunks[0]->n_rows, 10);
    table_release(table);
    store_close(store);
}

TEST(wrong_sequences_are_refused)
{
    Store *store = open_store(NULL);
    create_numbers(store);
    Append *append;
    ColumnInput one = { .i = (i64[]){ 1 } };
    u64 n_rows = 99;
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    CHECK_OK(append_rows(append, 1, &one, 1, &err), err);
    CHECK_STATUS(append_commit(append, &n_rows, &err), WEFT_INTERNAL);     // 0 is missing
    CHECK_INT(n_rows, 0);
    error_clear(&err);
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    CHECK_OK(append_rows(append, 0, &one, 1, &err), err);
    CHECK_STATUS(append_rows(append, 0, &one, 1, &err), WEFT_INTERNAL);
    error_clear(&err);
    CHECK_STATUS(append_rows(append, 1, &one, 1, &err), WEFT_INTERNAL);    // nothing goes on after a failure
    CHECK_HAS(err.message, "twice");
    error_clear(&err);
    CHECK_STATUS(append_commit(append, &n_rows, &err), WEFT_INTERNAL);     // it failed before
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_rows, 0);
    table_release(table);
    store_close(store);
}

typedef struct Crowd {
    Append     *append;
    _Atomic int next, n_failed;
    int         n_pieces;
} Crowd;

static void append_pieces(void *context, int worker)
{
    Crowd *crowd = context;
    for (int i; (i = crowd->next++) < crowd->n_pieces;) {
        i64 values[100];
        for (int j = 0; j < 100; j++)
            values[j] = i * 100 + j;
        crowd->n_failed += append_rows(crowd->append, (u64)i, &(ColumnInput){ .i = values }, 100, NULL) != WEFT_OK;
    }
}

TEST(threads_append_together)
{
    Pool *pool = pool_new(4);
    const char *paths[] = { NULL, fresh_path() };
    for (int i = 0; i < 2; i++) {
        Store *store = open_store(paths[i]);
        store_set_chunk_rows(store, 1000);
        create_numbers(store);
        Crowd crowd = { .n_pieces = 205 };
        u64 n_rows;
        CHECK_OK(append_begin(store, "numbers", &crowd.append, &err), err);
        pool_run(pool, 4, append_pieces, &crowd);
        CHECK_INT(crowd.n_failed, 0);
        CHECK_OK(append_commit(crowd.append, &n_rows, &err), err);
        const Table *table = get_table(store, "numbers");
        check_numbers(table, 0, 20500);
        CHECK_INT(table->n_chunks, 21);
        CHECK(table->chunks[20]->columns[0].is_increasing);
        table_release(table);
        store_close(store);
    }
    pool_free(pool);
}

typedef struct Waiter {
    Store       *store;
    _Atomic bool has_begun;
} Waiter;

static void *begin_and_abort(void *context)
{
    Waiter *waiter = context;
    Append *append;
    weft_status status = append_begin(waiter->store, "numbers", &append, NULL);
    waiter->has_begun = true;
    if (!status)
        append_abort(append);
    return (void *)(uintptr_t)status;
}

TEST(a_second_appender_waits)
{
    for (int is_dropped = 0; is_dropped < 2; is_dropped++) {
        Waiter waiter = { .store = open_store(NULL) };
        create_numbers(waiter.store);
        Append *append;
        pthread_t thread;
        void *status;
        CHECK_OK(append_begin(waiter.store, "numbers", &append, &err), err);
        CHECK_INT(pthread_create(&thread, NULL, begin_and_abort, &waiter), 0);
        usleep(20000);
        CHECK(!waiter.has_begun);
        if (is_dropped)                                     // nothing to wait for any more
            CHECK_OK(store_drop_table(waiter.store, "numbers", &err), err);
        else
            append_abort(append);
        pthread_join(thread, &status);
        CHECK_INT((uintptr_t)status, is_dropped ? WEFT_UNDEFINED_TABLE : WEFT_OK);
        if (is_dropped)
            append_abort(append);
        store_close(waiter.store);
    }
}

static void *append_in_turn(void *context)
{
    Store *store = context;
    for (int i = 0; i < 20; i++) {
        Append *append;
        i64 value = i;
        u64 n_rows;
        if (append_begin(store, "numbers", &append, NULL))
            return "begin";
        if (append_rows(append, 0, &(ColumnInput){ .i = &value }, 1, NULL) || append_commit(append, &n_rows, NULL))
            return "commit";
    }
    return NULL;
}

TEST(appenders_wait_for_each_other_while_readers_read)
{
    Store *store = open_store(NULL);
    create_numbers(store);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, append_in_turn, store), 0);
    u64 last = 0;
    while (last < 60) {
        const Table *table = get_table(store, "numbers");
        u64 n_rows = 0;
        for (int c = 0; c < table->n_chunks; c++)
            n_rows += table->chunks[c]->n_rows;
        CHECK_INT(n_rows, table->n_rows);
        CHECK(table->n_rows >= last);
        last = table->n_rows;
        table_release(table);
    }
    for (int i = 0; i < 3; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        CHECK(problem == NULL);
    }
    store_close(store);
}

TEST(a_table_dropped_meanwhile_takes_no_rows)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create_numbers(store);
    Append *append;
    u64 n_rows;
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = (i64[]){ 1 } }, 1, &err), err);
    CHECK_OK(store_drop_table(store, "numbers", &err), err);
    create_numbers(store);                                  // another one of that name
    CHECK_STATUS(append_commit(append, &n_rows, &err), WEFT_UNDEFINED_TABLE);
    const Table *table = get_table(store, "numbers");
    CHECK_INT(table->n_rows, 0);
    table_release(table);
    CHECK_INT(count_files(path, ".chunk"), 0);
    store_close(store);
}

TEST(an_abort_leaves_nothing)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    store_set_chunk_rows(store, 2);
    create_numbers(store);
    append_numbers(store, 0, 3);
    int n_files = count_files(path, "");
    Append *append;
    CHECK_OK(append_begin(store, "numbers", &append, &err), err);
    CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = (i64[]){ 7, 8, 9 } }, 3, &err), err);
    CHECK_OK(append_rows(append, 2, &(ColumnInput){ .i = (i64[]){ 7, 8, 9 } }, 3, &err), err);
    CHECK_INT(count_files(path, ""), n_files + 1);
    append_abort(append);
    append_abort(NULL);
    CHECK_INT(count_files(path, ""), n_files);
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, 3);
    table_release(table);
    append_numbers(store, 3, 3);
    table = get_table(store, "numbers");
    check_numbers(table, 0, 6);
    table_release(table);
    store_close(store);
}

TEST(texts_of_aborted_rows_are_shed_when_many)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create(store, "t", &(ColumnDef){ "x", TYPE(TEXT), false }, 1);
    enum { N = 20000 };
    static i64 codes[N];
    for (int round = 0; round < 3; round++) {
        Append *append;
        u64 n_rows;
        CHECK_OK(append_begin(store, "t", &append, &err), err);
        intern_numbered(append_table(append)->columns[0].dict, "kept", (u32)round * 10, 10, codes);
        CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = codes }, 10, &err), err);
        CHECK_OK(append_commit(append, &n_rows, &err), err);
        const Table *old = get_table(store, "t");
        CHECK_OK(append_begin(store, "t", &append, &err), err);
        intern_numbered(append_table(append)->columns[0].dict, "aborted", 0, N, codes);
        CHECK_OK(append_rows(append, 0, &(ColumnInput){ .i = codes }, N, &err), err);
        append_abort(append);
        const Table *table = get_table(store, "t");
        CHECK(table->columns[0].dict != old->columns[0].dict);
        CHECK_INT(dict_count(table->columns[0].dict), (round + 1) * 10);
        CHECK_INT(table->columns[0].dict_count, (round + 1) * 10);
        CHECK_STR(dict_get(table->columns[0].dict, 3).bytes, "kept 3");
        CHECK_STR(dict_get(old->columns[0].dict, 3).bytes, "kept 3");
        table_release(table);
        table_release(old);
    }
    store_close(store);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->n_rows, 30);
    CHECK_INT(table->columns[0].dict_count, 30);
    CHECK_STR(dict_get(table->columns[0].dict, 29).bytes, "kept 29");
    table_release(table);
    store_close(store);
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST(memory_counts_and_comes_back)
{
    const char *paths[] = { NULL, fresh_path() };
    for (int i = 0; i < 2; i++) {
        Budget budget = { 0 };
        Store *store;
        error_clear(&err);
        CHECK_OK(store_open(paths[i], &budget, &store, &err), err);
        create_numbers(store);
        append_numbers(store, 0, 100000);
        if (!paths[i])
            CHECK(budget.used >= 400000);
        const Table *table = get_table(store, "numbers");
        CHECK_OK(store_drop_table(store, "numbers", &err), err);
        check_numbers(table, 0, 100000);
        store_close(store);
        table_release(table);
        CHECK_INT(budget.used, 0);
    }
}

TEST(a_budget_is_kept)
{
    Budget budget = { .limit = 1 << 20 };
    Store *store;
    error_clear(&err);
    CHECK_OK(store_open(NULL, &budget, &store, &err), err);
    create_numbers(store);
    append_numbers(store, 0, 1000);
    CHECK_STATUS(try_numbers(store, INT64_MAX - 2000000, 2000000), WEFT_OUT_OF_MEMORY);
    CHECK_HAS(err.message, "memory_limit");
    const Table *table = get_table(store, "numbers");
    check_numbers(table, 0, 1000);
    table_release(table);
    append_numbers(store, 1000, 1000);
    store_close(store);
    CHECK_INT(budget.used, 0);
}
