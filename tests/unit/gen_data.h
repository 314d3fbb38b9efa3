// gen_data.h - a generated database, and what tests of generators ask of it.

#ifndef WEFT_GEN_DATA_H
#define WEFT_GEN_DATA_H

#include "test.h"

#include "store/store.h"

typedef struct Data {
    Budget *budget;
    Store  *store;
    Arena  *arena;
    Error   err;
} Data;

static inline Data empty_data(void)
{
    Data data = { .arena = arena_new(NULL, "test") };
    data.budget = arena_make(data.arena, Budget);
    error_clear(&data.err);
    CHECK_OK(store_open(NULL, data.budget, &data.store, &data.err), data.err);
    return data;
}

static inline void free_data(Data *data)
{
    store_close(data->store);
    CHECK_INT(data->budget->used, 0);
    arena_free(data->arena);
}

static inline i64 row_count(Data *data, const char *name)
{
    const Table *table = store_table(data->store, name);
    i64 n_rows = table ? (i64)table->n_rows : -1;
    table_release(table);
    return n_rows;
}

// All values of a column; codes when it is text.
static inline i64 *read_column(Data *data, const char *name, const char *column_name)
{
    const Table *table = store_table(data->store, name);
    CHECK(table != NULL);
    int number = table_find_column(table, column_name);
    CHECK(number >= 0);
    i64 *values = arena_array(data->arena, i64, table->n_rows + 1), *to = values;
    for (int i = 0; i < table->n_chunks; i++) {
        const ColumnChunk *chunk = &table->chunks[i]->columns[number];
        CHECK(chunk->valid == NULL);
        for (u32 row = 0; row < table->chunks[i]->n_rows; row++) {
            *to++ = chunk->base + (chunk->width == 1   ? ((const u8 *)chunk->data)[row]
                                   : chunk->width == 2 ? ((const u16 *)chunk->data)[row]
                                   : chunk->width == 4 ? (i64)((const u32 *)chunk->data)[row]
                                                       : ((const i64 *)chunk->data)[row]);
        }
    }
    table_release(table);
    return values;
}

// All texts of a column, kept as long as the data.
static inline const char **read_texts(Data *data, const char *name, const char *column_name)
{
    const i64 *codes = read_column(data, name, column_name);
    const Table *table = store_table(data->store, name);
    const Dictionary *dict = table->columns[table_find_column(table, column_name)].dict;
    const char **texts = arena_array(data->arena, const char *, table->n_rows + 1);
    for (u64 row = 0; row < table->n_rows; row++)
        texts[row] = dict_get(dict, (u32)codes[row]).bytes;
    table_release(table);
    return texts;
}

// ---- two of them ----------------------------------------------------------------------------------------------------

static inline bool same_bytes(const ColumnChunk *a, const ColumnChunk *b, u32 n_rows)
{
    return a->width == b->width && a->base == b->base && memcmp(a->data, b->data, (size_t)a->width * n_rows) == 0;
}

static inline bool same_table(Data *a, Data *b, const char *name)
{
    const Table *x = store_table(a->store, name), *y = store_table(b->store, name);
    bool is_same = x->n_rows == y->n_rows && x->n_chunks == y->n_chunks;
    for (int column = 0; is_same && column < x->n_columns; column++) {
        const Column *left = &x->columns[column], *right = &y->columns[column];
        is_same = left->dict_count == right->dict_count;
        for (u32 code = 0; is_same && code < left->dict_count; code++)
            is_same = !strcmp(dict_get(left->dict, code).bytes, dict_get(right->dict, code).bytes);
        for (int i = 0; is_same && i < x->n_chunks; i++)
            is_same = x->chunks[i]->n_rows == y->chunks[i]->n_rows &&
                      same_bytes(&x->chunks[i]->columns[column], &y->chunks[i]->columns[column], x->chunks[i]->n_rows);
    }
    table_release(x);
    table_release(y);
    return is_same;
}

static inline const char *tbl_path(const char *dir, const char *table)
{
    char name[256];
    snprintf(name, sizeof(name), "%s/%s.tbl", dir, table);
    return test_path(name);
}

// Fills COPIED's table from DIR/NAME.tbl, and compares it with DATA's value by value.
static inline void check_file(Data *data, Data *copied, const char *dir, const char *name)
{
    CopyOptions form = { .delimiter = '|', .trailing_delimiter = true, .null_text = "\\N" };
    Pool *pool = pool_new(1);
    const Table *table = store_table(data->store, name);
    ColumnDef columns[20];
    CopyFigures figures;
    for (int column = 0; column < table->n_columns; column++)
        columns[column] = (ColumnDef){ table->columns[column].name, table->columns[column].type, true };
    CHECK_OK(store_create_table(copied->store, name, columns, table->n_columns, &copied->err), copied->err);
    CHECK_OK(copy_from_file(copied->store, pool, copied->budget, name, tbl_path(dir, name), &form, NULL, NULL, &figures,
                            &copied->err),
             copied->err);
    CHECK_INT(figures.n_rows, table->n_rows);
    for (int column = 0; column < table->n_columns; column++) {
        const char *column_name = table->columns[column].name;
        bool is_text = table->columns[column].dict != NULL;
        const i64 *a = read_column(data, name, column_name), *b = read_column(copied, name, column_name);
        const char **x = is_text ? read_texts(data, name, column_name) : NULL;
        const char **y = is_text ? read_texts(copied, name, column_name) : NULL;
        for (u64 row = 0; row < figures.n_rows; row++)
            CHECK(is_text ? !strcmp(x[row], y[row]) : a[row] == b[row]);
    }
    table_release(table);
    pool_free(pool);
}

#endif
