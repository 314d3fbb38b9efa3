// scale.c - the numbers of a column of type numeric without a precision, brought to one scale.
//
// Kernels know one scale for a column of a table: that of the value with the most digits behind the point.  A value
// with more of them may come at any time, so an append encodes each piece of rows with a scale of its own, and a commit
// brings all to the largest: the pieces, the chunks that the append has made before, and the chunks of the table, which
// are made anew and replaced like those that a last chunk swallows (append.c).  Snapshots that readers hold keep
// theirs.
//
// The other way would be a scale in the file of each chunk, and numbers that are changed when they are read.  Then
// statistics, which are proofs, would be known only after the data has been read, and every process would pay again for
// what is paid once here.  A table's scale grows 38 times at most, and rarely more than once or twice.

#include <stdio.h>

#include "store/store_int.h"

static bool is_all_zero(const ColumnChunk *column)
{
    return !column->has_range || (column->min == 0 && column->max == 0);
}

// 0 is 0 at every scale.
static bool is_at_scale(const Table *table, const Chunk *chunk, int column, const u8 *scales)
{
    return !table->columns[column].is_free || chunk_stored(chunk)->scales[column] >= scales[column] ||
           (is_all_zero(&chunk->columns[column]) && is_all_zero(&chunk->columns[table->columns[column].low]));
}

bool chunk_has_scales(const Table *table, const Chunk *chunk, const u8 *scales)
{
    for (int i = 0; i < table->n_columns; i++)
        if (!is_at_scale(table, chunk, i, scales))
            return false;
    return true;
}

// ---- a column ------------------------------------------------------------------------------------------------------

typedef struct ScaledColumn {
    i64 *high, *low;
    u8  *nulls;
} ScaledColumn;

static bool is_valid(const u64 *valid, u32 row)
{
    return !valid || (valid[row / 64] >> (row % 64) & 1);
}

static i64 word_at(const ColumnChunk *column, u32 row)
{
    u64 stored = 0;
    memcpy(&stored, (const u8 *)column->data + (size_t)row * column->width, column->width);
    return (i64)((u64)column->base + stored);
}

static weft_status fail_scale(const Column *column, i128 number, int scale, int to_scale, u64 row, Error *err)
{
    char text[64], place[64] = "";
    const Value value = { .type = { TYPE_NUMERIC, NUMERIC_DIGITS, (u8)scale }, .i = number };
    value_format(&value, text, sizeof(text));
    if (row)
        snprintf(place, sizeof(place), " in row %llu of the new ones", (unsigned long long)row);
    fail(err, WEFT_OUT_OF_RANGE, -1,
         "numeric field overflow: the value %s of column \"%s\"%s takes more than %d digits beside one with %d digits "
         "behind the point",
         text, column->name, place, NUMERIC_DIGITS, to_scale);
    error_hint(err, "A column of type numeric has %d digits and one scale; numeric(p,s) rounds to s digits.",
               NUMERIC_DIGITS);
    return WEFT_OUT_OF_RANGE;
}

// FIRST_ROW: what the chunk's first row is called in messages, or 0.
static weft_status scale_column(const Table *table, const Chunk *chunk, int at, int to_scale, u64 first_row,
                                ScaledColumn *out, Error *err)
{
    const ColumnChunk *highs = &chunk->columns[at], *lows = &chunk->columns[table->columns[at].low];
    const int scale = chunk_stored(chunk)->scales[at];
    for (u32 row = 0; row < chunk->n_rows; row++) {
        out->nulls[row] = !is_valid(highs->valid, row);
        if (out->nulls[row])
            continue;
        i128 number = value_of_words(word_at(highs, row), word_at(lows, row));
        if (!value_scale_up(&number, to_scale - scale))
            return fail_scale(&table->columns[at], number, scale, to_scale, first_row ? first_row + row : 0, err);
        value_words(number, &out->high[row], &out->low[row]);
    }
    return WEFT_OK;
}

// ---- a chunk -------------------------------------------------------------------------------------------------------

// Inputs for the columns that change; those of the others are NULL.
static weft_status scale_columns(const Table *table, const Chunk *chunk, const u8 *scales, u64 first_row,
                                 const ScaledColumn *space, ColumnInput *inputs, Error *err)
{
    int n = 0;
    for (int i = 0; i < table->n_columns; i++) {
        if (is_at_scale(table, chunk, i, scales))
            continue;
        ScaledColumn column = space[n++];
        TRY(scale_column(table, chunk, i, scales[i], first_row, &column, err));
        const u8 *nulls = chunk->columns[i].n_nulls > 0 ? column.nulls : NULL;
        inputs[i] = (ColumnInput){ .i = column.high, .is_null = nulls, .scale = scales[i] };
        inputs[table->columns[i].low] = (ColumnInput){ .i = column.low, .is_null = nulls, .scale = scales[i] };
    }
    return WEFT_OK;
}

static int count_changes(const Table *table, const Chunk *chunk, const u8 *scales)
{
    int n = 0;
    for (int i = 0; i < table->n_columns; i++)
        n += !is_at_scale(table, chunk, i, scales);
    return n;
}

// Memory for N columns: 17 bytes for each row.
static weft_status make_space(Budget *budget, Arena *arena, u32 n_rows, int n, ScaledColumn **columns, void **memory,
                              size_t *bytes, Error *err)
{
    const size_t words = (size_t)n_rows * sizeof(i64);
    *bytes = (2 * words + aligned(n_rows)) * (size_t)n;
    TRY(mem_alloc(budget, *bytes, memory, err));
    *columns = arena_array(arena, ScaledColumn, n);
    u8 *nulls = (u8 *)*memory + 2 * words * (size_t)n;
    for (int i = 0; i < n; i++) {
        (*columns)[i].high = (i64 *)*memory + (size_t)(2 * i) * n_rows;
        (*columns)[i].low = (i64 *)*memory + (size_t)(2 * i + 1) * n_rows;
        (*columns)[i].nulls = nulls + aligned(n_rows) * (size_t)i;
    }
    return WEFT_OK;
}

weft_status chunk_rescale(Budget *budget, const Table *table, const Chunk *chunk, const u8 *scales, u64 first_row,
                          StoredChunk **out, Error *err)
{
    ScaledColumn *columns;
    void *memory = NULL;
    size_t bytes = 0;
    *out = NULL;
    for (int i = 0; i < table->n_stored; i++)
        TRY(chunk_verify(chunk, i, err));
    Arena *arena = arena_new(NULL, "scale");
    ColumnInput *inputs = arena_array(arena, ColumnInput, table->n_stored);
    const int n = count_changes(table, chunk, scales);
    weft_status status = make_space(budget, arena, chunk->n_rows, n, &columns, &memory, &bytes, err);
    if (!status)
        status = scale_columns(table, chunk, scales, first_row, columns, inputs, err);
    if (!status)
        status = chunk_replace_columns(budget, table, chunk, inputs, out, err);
    mem_free(budget, memory, bytes);
    arena_free(arena);
    return status;
}
