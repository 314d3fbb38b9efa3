// test_numeric_free.c - columns of type numeric without a precision: pieces, chunks and files whose scale grows.

#include "test.h"

#include "store/copy_int.h"
#include "store_help.h"

enum { ROWS_MOST = 2000, PIECE_MOST = 40 };

// What the column must hold: the number and its own scale, which is not kept.
typedef struct Model {
    i128 numbers[ROWS_MOST];
    u8   scales[ROWS_MOST], is_null[ROWS_MOST];
    int  n_rows, scale;
} Model;

static const ColumnDef columns[] = { { "id", { TYPE_BIGINT, 0, 0 }, false },
                                     { "n", { TYPE_NUMERIC, NUMERIC_FREE, 0 }, false } };

static i128 power(int n)
{
    i128 product = 1;
    while (n-- > 0)
        product *= 10;
    return product;
}

static void check_model(Store *store, const Model *model)
{
    const Table *table = get_table(store, "t");
    CHECK(table->columns[1].is_free);
    CHECK_INT(table->columns[1].type.precision, 38);
    CHECK_INT(table->columns[1].type.scale, model->scale);
    CHECK_INT(table->n_rows, model->n_rows);
    check_statistics(table);
    int row = 0;
    for (int c = 0; c < table->n_chunks; c++)
        for (u32 i = 0; i < table->chunks[c]->n_rows; i++, row++) {
            const ColumnChunk *high = &table->chunks[c]->columns[1], *low = &table->chunks[c]->columns[2];
            CHECK_INT(integer_at(&table->chunks[c]->columns[0], i), row);
            CHECK_INT(is_null_at(high, i), model->is_null[row]);
            CHECK_INT(is_null_at(low, i), model->is_null[row]);
            if (!model->is_null[row])
                CHECK(value_of_words(integer_at(high, i), integer_at(low, i)) ==
                      model->numbers[row] * power(model->scale - model->scales[row]));
        }
    table_release(table);
}

// ---- appends --------------------------------------------------------------------------------------------------------

// A piece of the model's rows, at the largest scale that these have.
static weft_status append_piece(Append *append, const Model *model, int first, int count, u64 sequence, Error *problem)
{
    i64 ids[PIECE_MOST], high[PIECE_MOST], low[PIECE_MOST];
    u8 scale = 0;
    for (int i = first; i < first + count; i++)
        if (!model->is_null[i])
            scale = MAX_OF(scale, model->scales[i]);
    for (int i = 0; i < count; i++) {
        ids[i] = first + i;
        value_words(model->numbers[first + i] * power(MAX_OF(scale - model->scales[first + i], 0)), &high[i], &low[i]);
    }
    const u8 *nulls = model->is_null + first;
    const ColumnInput inputs[] = { { .i = ids }, { .i = high, .is_null = nulls, .scale = scale },
                                   { .i = low, .is_null = nulls, .scale = scale } };
    return append_rows(append, sequence, inputs, (u32)count, problem);
}

// Rows of scales up to MOST, whose pieces come in reverse order.
static weft_status append_some(Store *store, Model *model, u64 *state, int count, int most, Error *problem)
{
    Append *append;
    Model after = *model;
    for (int i = after.n_rows; i < after.n_rows + count; i++) {
        after.is_null[i] = random_next(state) % 5 == 0;
        after.scales[i] = (u8)(random_next(state) % (u64)(most + 1));
        after.numbers[i] = (i128)(i64)random_next(state) >> random_next(state) % 64;
        if (!after.is_null[i])
            after.scale = MAX_OF(after.scale, after.scales[i]);
    }
    TRY(append_begin(store, "t", &append, problem));
    weft_status status = WEFT_OK;
    const int n_pieces = (count + PIECE_MOST - 1) / PIECE_MOST;
    for (int p = n_pieces - 1; p >= 0 && !status; p--)
        status = append_piece(append, &after, after.n_rows + p * PIECE_MOST, MIN_OF(count - p * PIECE_MOST, PIECE_MOST),
                              (u64)p, problem);
    if (status) {
        append_abort(append);
        return status;
    }
    TRY(append_commit(append, NULL, problem));
    *model = after;
    model->n_rows += count;
    return WEFT_OK;
}

static void grow_at_random(const char *path, u32 chunk_rows)
{
    Store *store = open_store(path);
    Model *model = calloc(1, sizeof(Model)), *before = calloc(1, sizeof(Model));
    u64 state = 7 + chunk_rows;
    create(store, "t", columns, 2);
    store_set_chunk_rows(store, chunk_rows);
    for (int round = 0; round < 14; round++) {
        const Table *old = get_table(store, "t");
        *before = *model;
        CHECK_OK(append_some(store, model, &state, 1 + (int)(random_next(&state) % 120), round, &err), err);
        check_model(store, model);
        CHECK_INT(old->columns[1].type.scale, before->scale);          // who holds it sees what was there
        CHECK_INT(old->n_rows, before->n_rows);
        check_statistics(old);
        if (path && round % 4 == 3) {
            CHECK_INT(count_files(path, ".new"), 1);                    // the space for the next manifest
            table_release(old);
            store_close(store);
            store = open_store(path);
            store_set_chunk_rows(store, chunk_rows);
            check_model(store, model);
            old = NULL;
        }
        table_release(old);
    }
    if (path) {
        const Table *table = get_table(store, "t");
        CHECK_INT(count_files(path, ".chunk"), table->n_chunks);
        table_release(table);
    }
    store_close(store);
    free(model);
    free(before);
}

TEST(scales_grow_from_append_to_append)
{
    grow_at_random(NULL, 64);
    grow_at_random(NULL, 1000);
    grow_at_random(fresh_path(), 50);
}

TEST(truncate_forgets_the_scale)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    const i64 zero = 0, number = 12345;
    create(store, "t", columns, 2);
    append_all(store, "t", (ColumnInput[]){ { .i = &zero }, { .i = &zero, .scale = 4 }, { .i = &number, .scale = 4 } },
               1);
    CHECK_OK(store_truncate_table(store, "t", NULL, &err), err);
    store_close(store);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->columns[1].type.scale, 0);
    table_release(table);
    store_close(store);
}

// ---- what does not fit ----------------------------------------------------------------------------------------------

static weft_status append_one(Store *store, i128 number, u8 scale)
{
    i64 id = 0, high, low;
    value_words(number, &high, &low);
    return try_append(store, "t", (ColumnInput[]){ { .i = &id }, { .i = &high, .scale = scale },
                                                   { .i = &low, .scale = scale } }, 1);
}

TEST(more_than_38_digits_at_one_scale_are_refused)
{
    const char *path = fresh_path();
    Store *store = open_store(path);
    create(store, "t", columns, 2);
    CHECK_OK(append_one(store, power(37) - 1, 0), err);
    CHECK_STATUS(append_one(store, 12, 2), WEFT_OUT_OF_RANGE);          // the old number has no room for two more
    CHECK(strstr(err.message, "9999999999999999999999999999999999999") && strstr(err.message, "\"n\""));
    CHECK_OK(append_one(store, 12, 1), err);
    CHECK_STATUS(append_one(store, power(37), 0), WEFT_OUT_OF_RANGE);   // nor has this one for one
    CHECK(strstr(err.message, "row 1"));
    CHECK_OK(append_one(store, 0, 1), err);
    store_close(store);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->n_rows, 3);
    CHECK_INT(table->columns[1].type.scale, 1);
    CHECK_INT(count_files(path, ".chunk"), table->n_chunks);
    table_release(table);
    store_close(store);
}

// ---- failures -------------------------------------------------------------------------------------------------------

// Every call of a commit that grows the scale of two chunks fails once.  Returns whether there was no such call.
static bool strike(const char *path, FaultKind kind, i64 nth, bool and_all_after)
{
    Store *store = open_store(path);
    Model *model = calloc(1, sizeof(Model));
    u64 state = 11;
    Error problem;
    create(store, "t", columns, 2);
    store_set_chunk_rows(store, 16);
    CHECK_OK(append_some(store, model, &state, 36, 1, &err), err);
    error_clear(&problem);
    fault_set(kind, nth, and_all_after);
    weft_status status = append_some(store, model, &state, 25, 9, &problem);
    bool is_past = fault_count(kind) < nth;
    fault_set(kind, 0, false);
    CHECK_INT(problem.status, status);
    check_model(store, model);
    if (status)
        CHECK_OK(append_some(store, model, &state, 25, 12, &err), err);
    check_model(store, model);
    if (path) {
        store_close(store);
        store = open_store(path);
        check_model(store, model);
        const Table *table = get_table(store, "t");
        CHECK_INT(count_files(path, ".chunk"), table->n_chunks);
        table_release(table);
    }
    store_close(store);
    free(model);
    return is_past;
}

TEST(a_failure_while_scales_grow_leaves_the_old_state)
{
    for (i64 nth = 1; !strike(fresh_path(), FAULT_FILE, nth, false);)
        nth += 1 + nth / 8;                                 // files are slow: not every one of the later
    for (i64 nth = 1; !strike(NULL, FAULT_MEMORY, nth, false);)
        nth++;
}

// ---- damage ---------------------------------------------------------------------------------------------------------

// Where the type of the column NAME is: behind the length of its name and the name.
static size_t type_at(const Text *manifest, const char *name, int nth)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i + length + 4 < manifest->length; i++)
        if ((size_t)manifest->bytes[i] == length && memcmp(manifest->bytes + i + 1, name, length) == 0 && nth-- == 0)
            return i + 1 + length;
    return 0;
}

TEST(a_damaged_scale_is_refused)
{
    const char *path = fresh_path();
    char file[2048];
    Store *store = open_store(path);
    create(store, "t", &(ColumnDef){ "price", { TYPE_NUMERIC, NUMERIC_FREE, 0 }, false }, 1);
    const i64 high = 0, low = 150;
    append_all(store, "t", (ColumnInput[]){ { .i = &high, .scale = 2 }, { .i = &low, .scale = 2 } }, 1);
    store_close(store);
    Text manifest = { 0 };
    snprintf(file, sizeof(file), "%s/manifest", path);
    CHECK_OK(file_read_all(file, &manifest, &err), err);
    CHECK_INT(manifest.bytes[7], '6');
    const size_t first = type_at(&manifest, "price", 0), second = type_at(&manifest, "price", 1);
    CHECK(first && second);
    const struct { size_t at; char byte; weft_status status; } damages[] = {
        { first + 2, 39, WEFT_CORRUPT }, { first + 2, 3, WEFT_CORRUPT },       // unlike that of the low words
        { second + 2, 1, WEFT_CORRUPT }, { first + 1, 41, WEFT_CORRUPT }, { first + 1, 39, WEFT_CORRUPT },
        { 7, '5', WEFT_CORRUPT },        { 7, 'A', WEFT_UNSUPPORTED },
    };
    for (int i = 0; i < COUNT_OF(damages); i++) {
        const char was = manifest.bytes[damages[i].at];
        manifest.bytes[damages[i].at] = damages[i].byte;
        set_checksum(&manifest);
        write_bytes(file, manifest.bytes, manifest.length);
        error_clear(&err);
        CHECK_STATUS(store_open(path, NULL, &store, &err), damages[i].status);
        manifest.bytes[damages[i].at] = was;
    }
    set_checksum(&manifest);
    write_bytes(file, manifest.bytes, manifest.length);
    store = open_store(path);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->columns[0].type.scale, 2);
    table_release(table);
    store_close(store);
    text_free(&manifest);
}

// ---- COPY -----------------------------------------------------------------------------------------------------------

static weft_status copy_lines(Store *store, int n_workers, const char *text, bool ignores, CopyFigures *figures)
{
    const char *path = test_path("numbers.csv");
    const CopyOptions options = { .delimiter = ',', .csv = true, .null_text = "", .quote = '"', .escape = '"',
                                  .ignores_errors = ignores };
    Pool *pool = pool_new(n_workers);
    write_bytes(path, text, strlen(text));
    error_clear(&err);
    weft_status status = copy_from_file(store, pool, NULL, "t", path, &options, NULL, NULL, figures, &err);
    pool_free(pool);
    return status;
}

// Values of 1 to 9 digits behind the point, in blocks of a few rows and in one.
static void copy_growing(size_t block_bytes, int n_workers)
{
    Model *model = calloc(1, sizeof(Model));
    Text text = { 0 };
    CopyFigures figures;
    Store *store = open_store(NULL);
    u64 state = 3;
    create(store, "t", columns, 2);
    store_set_chunk_rows(store, 100);
    for (int i = 0; i < 700; i++) {
        const int scale = (int)(random_next(&state) % (u64)(1 + i / 80));
        const i64 number = (i64)(random_next(&state) % 1000000);
        model->is_null[i] = number % 7 == 0;
        model->numbers[i] = i % 2 ? number : -number;
        model->scales[i] = (u8)scale;
        if (model->is_null[i]) {
            text_add(&text, "%d,\n", i);
            continue;
        }
        char digits[64];
        const Value value = { .type = { TYPE_NUMERIC, 38, (u8)scale }, .i = model->numbers[i] };
        value_format(&value, digits, sizeof(digits));
        text_add(&text, "%d,%s\n", i, digits);
        model->scale = MAX_OF(model->scale, scale);
    }
    model->n_rows = 700;
    copy_set_block_bytes(block_bytes);
    CHECK_OK(copy_lines(store, n_workers, text.bytes, false, &figures), err);
    copy_set_block_bytes(0);
    CHECK_INT(figures.n_rows, 700);
    check_model(store, model);
    text_free(&text);
    store_close(store);
    free(model);
}

TEST(copy_grows_in_the_middle_of_a_piece)
{
    copy_growing(0, 1);
    copy_growing(100, 1);
    copy_growing(300, 3);
}

TEST(copy_names_the_line_that_does_not_fit)
{
    CopyFigures figures;
    Store *store = open_store(NULL);
    const char *text = "0,1.5\n1,12345678901234567890123456789012345678\n2,x\n";
    create(store, "t", columns, 2);
    CHECK_STATUS(copy_lines(store, 1, text, false, &figures), WEFT_OUT_OF_RANGE);
    CHECK(strstr(err.message, "line 2") && strstr(err.message, "column n"));
    CHECK_STATUS(copy_lines(store, 1, "0,1\n1,1.123456789012345678901234567890123456789\n", false, &figures),
                 WEFT_OUT_OF_RANGE);
    CHECK(strstr(err.message, "line 2"));
    CHECK_OK(copy_lines(store, 1, text, true, &figures), err);
    CHECK_INT(figures.n_rows, 1);
    CHECK_INT(figures.n_rejected, 2);
    const Table *table = get_table(store, "t");
    CHECK_INT(table->columns[1].type.scale, 1);
    table_release(table);
    store_close(store);
}
