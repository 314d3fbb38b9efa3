// table.c - a snapshot of a table: its columns and chunks as one commit left them.
//
// A snapshot never changes, so a reader needs no lock once it holds one.  It holds its chunks and dictionaries; what a
// later commit replaced goes when the last snapshot that shows it goes.

#include "store/store_int.h"

static Snapshot *snapshot_of(const Table *table)
{
    return (Snapshot *)(uintptr_t)table;                    // it is the first field
}

Snapshot *snapshot_new(const TableMeta *meta, Dictionary *const *dicts, const u32 *dict_counts,
                       const Chunk *const *chunks, int n_chunks)
{
    Arena *arena = arena_new(NULL, "snapshot");
    Snapshot *snapshot = arena_make(arena, Snapshot);
    Column *columns = arena_array(arena, Column, meta->n_columns);
    const Chunk **kept = arena_array(arena, const Chunk *, n_chunks);
    for (int i = 0; i < meta->n_columns; i++) {
        const ColumnMeta *column = &meta->columns[i];
        columns[i] = (Column){ .name = arena_strdup(arena, column->name), .type = column->type,
                               .not_null = column->not_null, .dict_count = dict_counts[i] };
        if (dicts[i])
            columns[i].dict = dict_hold(dicts[i]);
    }
    u64 n_rows = 0;
    for (int i = 0; i < n_chunks; i++) {
        kept[i] = chunks[i];
        n_rows += chunks[i]->n_rows;
    }
    snapshot->table = (Table){ .name = arena_strdup(arena, meta->name), .id = meta->id, .version = meta->version,
                               .n_columns = meta->n_columns, .n_chunks = n_chunks, .columns = columns, .chunks = kept,
                               .n_rows = n_rows };
    snapshot->arena = arena;
    snapshot->n_holds = 1;
    return snapshot;
}

const Table *table_hold(const Table *table)
{
    atomic_fetch_add(&snapshot_of(table)->n_holds, 1);
    return table;
}

void table_release(const Table *table)
{
    if (!table || atomic_fetch_sub(&snapshot_of(table)->n_holds, 1) > 1)
        return;
    for (int i = 0; i < table->n_columns; i++)
        dict_release(table->columns[i].dict);
    for (int i = 0; i < table->n_chunks; i++)
        chunk_release(table->chunks[i]);
    arena_free(snapshot_of(table)->arena);
}

weft_status snapshot_verify(Snapshot *snapshot, Error *err)
{
    if (atomic_load_explicit(&snapshot->is_verified, memory_order_acquire))
        return WEFT_OK;
    const Table *table = &snapshot->table;
    for (int i = 0; i < table->n_chunks; i++)
        for (int column = 0; column < table->n_columns; column++)
            TRY(chunk_verify(table->chunks[i], column, err));
    atomic_store_explicit(&snapshot->is_verified, true, memory_order_release);
    return WEFT_OK;
}

static void add_range(Type type, ColumnRange *range, const ColumnChunk *column)
{
    bool is_first = !range->has_range;
    range->has_range = true;
    if (type_is_float(type)) {
        range->fmin = is_first ? column->fmin : MIN_OF(range->fmin, column->fmin);
        range->fmax = is_first ? column->fmax : MAX_OF(range->fmax, column->fmax);
    } else {
        range->min = is_first ? column->min : MIN_OF(range->min, column->min);
        range->max = is_first ? column->max : MAX_OF(range->max, column->max);
    }
}

ColumnRange table_column_range(const Table *table, int column)
{
    ColumnRange range = { .width = table->n_chunks > 0 ? table->chunks[0]->columns[column].width : 0,
                          .bits = float_bits_none() };
    for (int i = 0; i < table->n_chunks; i++) {
        const ColumnChunk *chunk = &table->chunks[i]->columns[column];
        range.n_nulls += chunk->n_nulls;
        range.has_nan |= chunk->has_nan;
        range.bits = float_bits_unite(range.bits, chunk->bits);
        if (chunk->width != range.width)
            range.width = 0;
        if (chunk->has_range)
            add_range(table->columns[column].type, &range, chunk);
    }
    return range;
}

int table_find_column(const Table *table, const char *name)
{
    for (int i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}
