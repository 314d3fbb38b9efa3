// target.h - what the targets of libFuzzer share.
//
// A target is tests/fuzz/target_NAME.c with one function, LLVMFuzzerTestOneInput: it takes any bytes and must return.
// scripts/fuzz builds it with clang and drives it by coverage; tests/check-fuzz links it with replay.c, which needs no
// clang, and gives it what libFuzzer found before.  Whatever is wrong ends the process: a sanitizer's report, or
// require().

#ifndef WEFT_FUZZ_TARGET_H
#define WEFT_FUZZ_TARGET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);          // libFuzzer calls it first, where there is one

static inline void require(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "not true: %s\n", what);
    abort();
}

static inline void require_ok(weft_status status, const Error *err)
{
    if (!status) return;
    fprintf(stderr, "failed: %s\n", err->message);
    abort();
}

// Errors that a user, a file or a limit can cause.  An internal one is a fault of Weft's.
static inline void require_told(weft_status status, const Error *err)
{
    require(status == err->status, "the error says what was returned");
    require(status != WEFT_INTERNAL && status != WEFT_KERNEL_BUILD, err->message);
    require(!status || err->message[0], "an error has a message");
}

// ---- values of a column chunk ---------------------------------------------------------------------------------------

static inline bool is_null_row(const ColumnChunk *column, u32 row)
{
    return column->valid && !(column->valid[row / 64] >> (row % 64) & 1);
}

static inline u64 stored_number(const ColumnChunk *column, u32 row)
{
    u64 number = 0;
    memcpy(&number, (const u8 *)column->data + (size_t)row * column->width, column->width);
    return number;
}

static inline double stored_float(const ColumnChunk *column, u32 row)
{
    float single;
    double number;
    if (column->width == 8) memcpy(&number, (const u8 *)column->data + (size_t)row * 8, 8);
    else memcpy(&single, (const u8 *)column->data + (size_t)row * 4, 4), number = (double)single;
    return number;
}

// Statistics are proofs, so they hold for every chunk that Weft has made from whatever input.
static inline void check_column_chunk(const Column *column, const ColumnChunk *chunk, u32 n_rows)
{
    u32 n_nulls = 0;
    i64 last = 0;
    for (u32 row = 0; row < n_rows; row++) {
        if (is_null_row(chunk, row)) {
            require(stored_number(chunk, row) == 0, "the stored value of NULL is 0");
            n_nulls++;
        } else if (type_is_float(column->type)) {
            const double number = stored_float(chunk, row);
            require(number != number ? chunk->has_nan : chunk->has_range && number >= chunk->fmin &&
                    number <= chunk->fmax, "a float is in its column's range");
        } else {
            const i64 number = (i64)((u64)chunk->base + stored_number(chunk, row));
            require(chunk->has_range && number >= chunk->min && number <= chunk->max, "a number is in its range");
            require(!chunk->is_increasing || row == 0 || number > last, "an increasing column increases");
            if (column->type.kind == TYPE_TEXT) {
                require((u64)number < column->dict_count, "a code is in the dictionary");
                const weft_text text = dict_get(column->dict, (u32)number);
                require(utf8_valid_length(text.bytes, text.length) == text.length, "text is UTF-8");
            }
            last = number;
        }
    }
    require(n_nulls == chunk->n_nulls, "NULLs are counted");
    require(n_nulls == 0 || !column->not_null, "NOT NULL is kept");
}

static inline void check_table(const Table *table)
{
    u64 n_rows = 0;
    for (int c = 0; c < table->n_chunks; c++) {
        for (int i = 0; i < table->n_stored; i++)
            check_column_chunk(&table->columns[i], &table->chunks[c]->columns[i], table->chunks[c]->n_rows);
        n_rows += table->chunks[c]->n_rows;
    }
    require(n_rows == table->n_rows, "rows are counted");
    for (int i = 0; i < table->n_columns; i++)
        require(table_distinct(table, i) <= (double)n_rows, "there are no more values than rows");
}

#endif
