// test_sketch.c - how many different values a column has: how near the estimate is, and that it survives.

#include "test.h"

#include "store_help.h"

// Of a sketch whose standard error is 3.3 %: the values are always the same ones, so a test cannot fail by chance.
enum { PERCENT = 8 };

static void check_near(double is, double should)
{
    CHECK_DOUBLE(is, should, should * PERCENT / 100);
}

static u64 scattered(u64 number)                            // no two numbers give the same
{
    number *= 0x9e3779b97f4a7c15u;
    number ^= number >> 32;
    return number * 0xd1342543de82ef95u;
}

// ---- the sketch itself ---------------------------------------------------------------------------------------------

static Sketch sketch_of(Type type, const ColumnInput *input, u32 n_rows)
{
    Dictionary *dict = type.kind == TYPE_TEXT ? dict_new(NULL) : NULL;
    const Column column = { .name = "x", .type = type, .dict = dict };
    const Table table = { .name = "t", .n_columns = 1, .n_stored = 1, .columns = &column };
    StoredChunk *chunk;
    Sketch sketch;
    error_clear(&err);
    CHECK_OK(chunk_encode(NULL, &table, input, n_rows, &chunk, &err), err);
    sketch_column(type, &chunk->chunk.columns[0], n_rows, &sketch);
    chunk_release(&chunk->chunk);
    dict_release(dict);
    return sketch;
}

static Sketch sketch_of_integers(const i64 *values, u32 n_rows)
{
    return sketch_of(TYPE(BIGINT), &(ColumnInput){ .i = values }, n_rows);
}

static void check_equal(const Sketch *a, const Sketch *b)
{
    u8 a_bytes[SKETCH_BYTES_MAX], b_bytes[SKETCH_BYTES_MAX];
    u32 length = sketch_save(a, a_bytes);
    CHECK_INT(sketch_save(b, b_bytes), length);
    CHECK(memcmp(a_bytes, b_bytes, length) == 0);
}

// FIRST, FIRST + STEP, ..., or scattered over all 64 bits when STEP is 0.
static i64 *numbers(u64 first, u64 step, u32 n)
{
    i64 *values = malloc(sizeof(i64) * (n + 1));
    for (u32 i = 0; i < n; i++)
        values[i] = step ? (i64)(first + step * i) : (i64)scattered(first + i);
    return values;
}

TEST(a_small_range_is_counted_exactly)
{
    for (u32 n = 1; n <= SKETCH_BITS; n = n * 3 + 1) {
        i64 *values = numbers((u64)-1000, 1, n);
        Sketch sketch = sketch_of_integers(values, n);
        CHECK_INT(sketch.form, SKETCH_IS_BITMAP);
        CHECK_DOUBLE(sketch_count(&sketch), n, 0);
        free(values);
    }
}

TEST(few_values_are_counted_exactly)
{
    for (u32 n = 2; n <= SKETCH_COUPONS; n += 19) {
        i64 *values = numbers(n, 0, n);
        Sketch sketch = sketch_of_integers(values, n);
        CHECK_INT(sketch.form, SKETCH_IS_COUPONS);
        CHECK_DOUBLE(sketch_count(&sketch), n, 0);
        free(values);
    }
}

static double error_of(u64 first, u64 step, u32 n)
{
    i64 *values = numbers(first, step, n);
    Sketch sketch = sketch_of_integers(values, n);
    free(values);
    return sketch_count(&sketch) / n - 1;
}

// Over many sets of values the mean error is near 0 and its spread is what the theory says, whatever the pattern.
TEST(many_values_are_estimated_within_the_error)
{
    const u64 steps[] = { 0, 1, 2, 10, 64, 1000, 4096, 86400, (u64)1 << 20, (u64)1 << 32, 1000003 };
    const u32 counts[] = { 200, 500, 1000, 3000, 10000, 70000 };
    for (int k = 0; k < COUNT_OF(counts); k++) {
        double sum = 0, squares = 0;
        int n = 0;
        for (int s = 0; s < COUNT_OF(steps); s++)
            for (u64 first = 0; first < 12; first++, n++) {
                double error = error_of(first * 1000003 + s, steps[s], counts[k]);
                CHECK(fabs(error) < 0.17);                  // five times the standard error
                sum += error;
                squares += error * error;
            }
        CHECK(fabs(sum / n) < 0.012);
        CHECK(sqrt(squares / n) < 0.040);
    }
}

TEST(a_merge_is_the_sketch_of_the_union)
{
    static const struct { u64 first, step; u32 n; } sets[] = {
        { 0, 1, 1 },       { 0, 1, 100 },      { 50, 1, 100 },     { 5000, 1, 700 },   { (u64)-3000, 1, 6000 },
        { 9000, 1, 90 },   { 0, 0, 1 },        { 7, 0, 100 },      { 100, 0, 150 },    { 0, 0, 5000 },
        { 2500, 0, 9000 }, { 1 << 20, 3, 9999 }, { INT64_MAX, 1, 1 }, { (u64)INT64_MIN, 1, 3 }, { 63, 1, 66 },
    };
    for (int a = 0; a < COUNT_OF(sets); a++) {
        for (int b = 0; b < COUNT_OF(sets); b++) {
            u32 n = sets[a].n, n_all = n + sets[b].n;
            i64 *values = malloc(sizeof(i64) * n_all), *one = numbers(sets[a].first, sets[a].step, n);
            i64 *other = numbers(sets[b].first, sets[b].step, sets[b].n);
            memcpy(values, one, sizeof(i64) * n);
            memcpy(values + n, other, sizeof(i64) * sets[b].n);
            Sketch both = sketch_of_integers(one, n), second = sketch_of_integers(other, sets[b].n);
            Sketch all = sketch_of_integers(values, n_all), nothing = { 0 };
            sketch_merge(&both, &second);
            check_equal(&both, &all);
            sketch_merge(&both, &nothing);
            sketch_merge(&nothing, &both);
            check_equal(&nothing, &all);
            free(values);
            free(one);
            free(other);
        }
    }
}

TEST(how_a_column_is_stored_does_not_matter)
{
    enum { N = 30000 };
    i64 *narrow = numbers(100, 2, N), *wide = numbers(100, 2, N + 1);
    wide[N] = (i64)1 << 40;                                 // 8 bytes for each value
    Sketch a = sketch_of_integers(narrow, N), b = sketch_of_integers(wide, N + 1);
    Sketch one = sketch_of_integers(wide + N, 1);
    sketch_merge(&a, &one);
    check_equal(&a, &b);
    wide[N] = (i64)1 << 30;                                 // 4 bytes
    a = sketch_of_integers(narrow, N);
    b = sketch_of_integers(wide, N + 1);
    one = sketch_of_integers(wide + N, 1);
    sketch_merge(&a, &one);
    check_equal(&a, &b);
    free(narrow);
    free(wide);
}

TEST(zeros_of_both_signs_are_one_value_and_so_are_all_nan)
{
    double other_nan;
    u64 bits = 0xfff8000000001234u;
    memcpy(&other_nan, &bits, sizeof(bits));
    const double values[] = { 0.0, -0.0, NAN, other_nan, 1.5, (double)INFINITY, -(double)INFINITY, 1.5, -1.5 };
    const Type types[] = { TYPE(DOUBLE), TYPE(REAL) };
    for (int i = 0; i < 2; i++) {
        Sketch sketch = sketch_of(types[i], &(ColumnInput){ .f = values }, COUNT_OF(values));
        CHECK_DOUBLE(sketch_count(&sketch), 6, 0);
    }
}

TEST(nulls_are_not_counted)
{
    const i64 integers[] = { 7, 0, 9, 0 }, far[] = { 1, 0, (i64)1 << 50, 0 };
    const double floats[] = { 7, 0, 9, 0 };
    const u8 is_null[] = { 0, 1, 0, 1 }, all_null[] = { 1, 1, 1, 1 };
    Sketch sketch = sketch_of(TYPE(INTEGER), &(ColumnInput){ .i = integers, .is_null = is_null }, 4);
    CHECK_DOUBLE(sketch_count(&sketch), 2, 0);
    sketch = sketch_of(TYPE(BIGINT), &(ColumnInput){ .i = far, .is_null = is_null }, 4);
    CHECK_DOUBLE(sketch_count(&sketch), 2, 0);
    sketch = sketch_of(TYPE(DOUBLE), &(ColumnInput){ .f = floats, .is_null = is_null }, 4);
    CHECK_DOUBLE(sketch_count(&sketch), 2, 0);
    sketch = sketch_of(TYPE(TEXT), &(ColumnInput){ .i = integers, .is_null = all_null }, 4);
    CHECK_DOUBLE(sketch_count(&sketch), 0, 0);
    CHECK_INT(sketch.form, SKETCH_IS_EMPTY);
}

TEST(a_sketch_comes_back_from_its_bytes)
{
    const u32 counts[] = { 1, 100, SKETCH_COUPONS, SKETCH_COUPONS + 1, 5000 };
    for (int i = 0; i < 2 * COUNT_OF(counts); i++) {
        u32 n = counts[i / 2];
        u8 bytes[SKETCH_BYTES_MAX];
        i64 *values = numbers(3, i % 2, n);
        Sketch sketch = sketch_of_integers(values, n), loaded;
        u32 length = sketch_save(&sketch, bytes);
        CHECK(sketch_load(&loaded, bytes, length));
        check_equal(&sketch, &loaded);
        CHECK(!sketch_load(&loaded, bytes, length - 1));
        CHECK(!sketch_load(&loaded, bytes, 0));
        free(values);
    }
}

TEST(random_bytes_are_no_sketch_or_a_usable_one)
{
    u64 state = 99;
    const u32 counts[] = { 40, 100, 5000 };
    for (int round = 0; round < 20000; round++) {
        u32 n = counts[round % 3];
        u8 bytes[SKETCH_BYTES_MAX];
        i64 *values = numbers(3, round % 2, n);
        Sketch sketch = sketch_of_integers(values, n), loaded;
        u32 length = sketch_save(&sketch, bytes);
        for (u64 k = random_next(&state) % 4 + 1; k > 0; k--)
            bytes[random_next(&state) % (round % 4 ? length : 16)] = (u8)random_next(&state);
        if (sketch_load(&loaded, bytes, length)) {
            sketch_merge(&sketch, &loaded);
            CHECK(sketch_count(&sketch) >= 1);
        }
        free(values);
    }
}

TEST(several_threads_make_the_same_sketches)
{
    enum { N_ROWS = 600000, N_SETS = 6 };
    Column columns[N_SETS];
    ColumnInput inputs[N_SETS];
    i64 *values[N_SETS];
    for (int i = 0; i < N_SETS; i++) {
        columns[i] = (Column){ .name = "x", .type = TYPE(BIGINT) };
        values[i] = numbers(5, (u64)i, N_ROWS);
        inputs[i] = (ColumnInput){ .i = values[i] };
    }
    const Table table = { .name = "t", .n_columns = N_SETS, .n_stored = N_SETS, .columns = columns };
    StoredChunk *chunks[2];
    for (int k = 0; k < 2; k++) {
        CHECK_OK(chunk_encode(NULL, &table, inputs, N_ROWS, &chunks[k], &err), err);
        CHECK_OK(chunk_sketch(chunks[k], columns, NULL, 0, k == 0 ? 1 : 4, &err), err);
    }
    CHECK_INT(chunks[0]->sketch_memory_bytes, chunks[1]->sketch_memory_bytes);
    CHECK(memcmp(chunks[0]->sketch_memory, chunks[1]->sketch_memory, chunks[0]->sketch_memory_bytes) == 0);
    for (int k = 0; k < 2; k++)
        chunk_release(&chunks[k]->chunk);
    for (int i = 0; i < N_SETS; i++)
        free(values[i]);
}

// ---- tables --------------------------------------------------------------------------------------------------------

enum { COLUMN_KEY, COLUMN_INTEGER, COLUMN_BIG, COLUMN_DOUBLE, COLUMN_REAL, COLUMN_TEXT, N_COLUMNS };

static const ColumnDef all_columns[N_COLUMNS] = {
    { "k", { TYPE_INTEGER, 0, 0 }, true }, { "i", { TYPE_INTEGER, 0, 0 }, false },
    { "b", { TYPE_BIGINT, 0, 0 }, false }, { "d", { TYPE_DOUBLE, 0, 0 }, false },
    { "r", { TYPE_REAL, 0, 0 }, false },   { "x", { TYPE_TEXT, 0, 0 }, false },
};

// N_ROWS rows in pieces, among them N_DISTINCT different values in each column but the key, which has no two equal.
// Every 7th row is NULL there when WITH_NULLS.
static void append_distinct(Store *store, u64 first, u32 n_rows, u32 n_distinct, bool with_nulls)
{
    enum { PIECE = 10000 };
    static i64 keys[PIECE], integers[PIECE], bigs[PIECE], codes[PIECE];
    static double doubles[PIECE], reals[PIECE];
    static u8 is_null[PIECE];
    Append *append;
    u64 n;
    CHECK_OK(append_begin(store, "t", &append, &err), err);
    Dictionary *dict = append_table(append)->columns[COLUMN_TEXT].dict;
    for (u32 row = 0; row < n_rows; row += PIECE) {
        u32 n_piece = MIN_OF(n_rows - row, PIECE);
        for (u32 i = 0; i < n_piece; i++) {
            u32 value = (u32)((u64)(row + i) * 7919 % n_distinct);  // 7919 is prime, so all come
            keys[i] = (i64)first + row + i;
            integers[i] = value;
            bigs[i] = (i64)scattered(value);
            doubles[i] = sqrt(value);
            reals[i] = (double)value - 0.5;
            is_null[i] = with_nulls && (row + i) % 7 == 0;
            intern_numbered(dict, "text", value, 1, &codes[i]);
        }
        const u8 *null = with_nulls ? is_null : NULL;
        const ColumnInput inputs[N_COLUMNS] = {
            { .i = keys },
            { .i = integers, .is_null = null },
            { .i = bigs, .is_null = null },
            { .f = doubles, .is_null = null },
            { .f = reals, .is_null = null },
            { .i = codes, .is_null = null },
        };
        CHECK_OK(append_rows(append, row / PIECE, inputs, n_piece, &err), err);
    }
    CHECK_OK(append_commit(append, &n, &err), err);
}

static void check_distinct(const Table *table, u32 n_distinct)
{
    CHECK_DOUBLE(table_distinct(table, COLUMN_KEY), (double)table->n_rows, 0);
    for (int i = 1; i < N_COLUMNS; i++) {
        double count = table_distinct(table, i);
        if (n_distinct <= SKETCH_COUPONS)
            CHECK_DOUBLE(count, n_distinct, 0);
        else
            check_near(count, n_distinct);
        CHECK(count == table_distinct(table, i));
    }
    if (n_distinct <= SKETCH_BITS) {
        CHECK_DOUBLE(table_distinct(table, COLUMN_INTEGER), n_distinct, 0);
        CHECK_DOUBLE(table_distinct(table, COLUMN_TEXT), n_distinct, 0);
    }
}

// Several chunks, made by two appends; in memory or, with a PATH, on disk and opened again.
static void check_table_of(const char *path, u32 n_rows, u32 n_distinct, bool with_nulls)
{
    Store *store = open_store(path);
    store_set_chunk_rows(store, n_rows / 3 + 1);
    create(store, "t", all_columns, N_COLUMNS);
    append_distinct(store, 0, n_rows, n_distinct, with_nulls);
    append_distinct(store, n_rows, n_rows / 2, MIN_OF(n_distinct, n_rows / 3), with_nulls);
    for (int round = 0; round < (path ? 2 : 1); round++) {
        const Table *table = get_table(store, "t");
        CHECK(table->n_chunks > 1);
        check_distinct(table, n_distinct);
        table_release(table);
        if (path) {
            store_close(store);
            store = open_store(path);
        }
    }
    store_close(store);
}

TEST(tables_in_memory_know_their_distinct_values)
{
    check_table_of(NULL, 100, 1, false);
    check_table_of(NULL, 100, 10, false);
    check_table_of(NULL, 5000, 150, true);
    check_table_of(NULL, 30000, 1000, true);
    check_table_of(NULL, 300000, 100000, true);
}

TEST(a_million_values_are_estimated)
{
    check_table_of(NULL, 1000000, 1000000, false);
}

TEST(distinct_values_survive_reopening)
{
    check_table_of(fresh_path(), 100, 10, true);
    check_table_of(fresh_path(), 5000, 1000, true);
    check_table_of(fresh_path(), 200000, 100000, false);
}

TEST(small_appends_are_counted_as_they_come)
{
    Store *store = open_store(NULL);
    create_numbers(store);
    const Table *table = get_table(store, "numbers");
    CHECK_DOUBLE(table_distinct(table, 0), 0, 0);
    table_release(table);
    for (i64 i = 0; i < 100; i++) {
        i64 values[2] = { i * 1000003 % 50 * 1000000, i % 50 };
        append_all(store, "numbers", &(ColumnInput){ .i = values }, 2);
        table = get_table(store, "numbers");
        CHECK_DOUBLE(table_distinct(table, 0), MIN_OF(2 * i + (i == 0), 99), 1);
        table_release(table);
    }
    store_close(store);
}

TEST(rows_of_nulls_alone_count_as_one)
{
    Store *store = open_store(NULL);
    create_numbers(store);
    append_all(store, "numbers", &(ColumnInput){ .i = (i64[]){ 0, 0 }, .is_null = (u8[]){ 1, 1 } }, 2);
    const Table *table = get_table(store, "numbers");
    CHECK_DOUBLE(table_distinct(table, 0), 1, 0);
    table_release(table);
    store_close(store);
}

// ---- other files ---------------------------------------------------------------------------------------------------

// Without sketches: as many as there can be.
TEST(an_older_database_gives_what_it_has)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    store_set_chunk_rows(store, 1000);
    create(store, "t", all_columns, N_COLUMNS);
    append_distinct(store, 0, 3000, 200, true);
    store_close(store);
    make_older(path, '2');
    store = open_store(path);
    store_set_chunk_rows(store, 1000);                      // so that the old chunks stay as they are
    const Table *table = get_table(store, "t");
    CHECK_INT(chunk_stored(table->chunks[0])->sketches[0].length, 0);
    CHECK_DOUBLE(table_distinct(table, COLUMN_KEY), 3000, 0);
    CHECK_DOUBLE(table_distinct(table, COLUMN_INTEGER), 200, 0);
    CHECK_DOUBLE(table_distinct(table, COLUMN_BIG), 2571, 0);
    CHECK_DOUBLE(table_distinct(table, COLUMN_DOUBLE), 2571, 0);
    CHECK_DOUBLE(table_distinct(table, COLUMN_TEXT), 200, 0);
    table_release(table);
    append_distinct(store, 3000, 1000, 300, false);         // chunks with and without
    for (int round = 0; round < 2; round++) {
        table = get_table(store, "t");
        check_statistics(table);
        CHECK_DOUBLE(table_distinct(table, COLUMN_INTEGER), 300, 0);
        CHECK_DOUBLE(table_distinct(table, COLUMN_BIG), 2571 + 300, 30);
        CHECK_DOUBLE(table_distinct(table, COLUMN_TEXT), 300, 0);
        table_release(table);
        store_close(store);
        store = open_store(path);
    }
    store_close(store);
}

TEST(a_damaged_sketch_is_noticed)
{
    const char *path = fresh_path();
    char file[2048];
    Store *store = open_store(path);
    create(store, "t", all_columns, N_COLUMNS);
    append_distinct(store, 0, 1000, 500, false);
    const Table *table = get_table(store, "t");
    const StoredChunk *chunk = chunk_stored(table->chunks[0]);
    snprintf(file, sizeof(file), "%s", chunk->path);
    size_t first = (size_t)(chunk->sketches[0].bytes - chunk->mapping.bytes);
    size_t end = (size_t)(chunk->sketches[N_COLUMNS - 1].bytes - chunk->mapping.bytes);
    table_release(table);
    store_close(store);
    Text bytes = { 0 };
    CHECK_OK(file_read_all(file, &bytes, &err), err);
    for (size_t at = first; at < end; at += 97) {
        bytes.bytes[at] = (char)(bytes.bytes[at] ^ 4);
        write_bytes(file, bytes.bytes, bytes.length);
        store = open_store(path);
        CHECK_STATUS(store_peek_table(store, "t", &table, &err), WEFT_CORRUPT);
        CHECK_HAS(err.message, ".chunk");
        store_close(store);
        bytes.bytes[at] = (char)(bytes.bytes[at] ^ 4);
    }
    write_bytes(file, bytes.bytes, bytes.length);
    text_free(&bytes);
    store = open_store(path);
    table = get_table(store, "t");
    check_distinct(table, 500);
    table_release(table);
    store_close(store);
}

static void *ask_for_all(void *context)
{
    const Table *table = context;
    double *counts = malloc(sizeof(double) * N_COLUMNS);
    for (int i = 0; i < N_COLUMNS; i++)
        counts[i] = table_distinct(table, i);
    return counts;
}

TEST(threads_may_ask_at_the_same_time)
{
    Store *store = open_store(NULL);
    store_set_chunk_rows(store, 5000);
    create(store, "t", all_columns, N_COLUMNS);
    append_distinct(store, 0, 50000, 20000, true);
    const Table *table = get_table(store, "t");
    pthread_t threads[4];
    double *counts[4];
    for (int i = 0; i < 4; i++)
        CHECK_INT(thread_start(&threads[i], NULL, ask_for_all, (void *)(uintptr_t)table), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], (void **)&counts[i]);
    for (int i = 0; i < 4; i++) {
        for (int column = 0; column < N_COLUMNS; column++)
            CHECK(counts[i][column] == table_distinct(table, column));
        free(counts[i]);
    }
    table_release(table);
    store_close(store);
}
