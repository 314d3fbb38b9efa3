// table.c - a snapshot of a table: its columns and chunks as one commit left them.
//
// A snapshot never changes, so a reader needs no lock once it holds one.  It holds its chunks and dictionaries; what a
// later commit replaced goes when the last snapshot that shows it goes.

#include "store/store_int.h"

static Snapshot *snapshot_of(const Table *table)
{
    return (Snapshot *)(uintptr_t)table;                    // it is the first field
}

// Low words come last, in the order of their columns.  Returns how many columns come before them.
static int find_low_words(Column *columns, int n_stored)
{
    int n_columns = n_stored;
    for (int i = 0; i < n_stored; i++)
        n_columns -= columns[i].type.kind == TYPE_NUMERIC && !columns[i].type.precision;
    for (int i = 0, low = n_columns; i < n_columns; i++)
        if (columns[i].type.kind == TYPE_NUMERIC)
            columns[i].low = low++;
    return n_columns;
}

static void copy_indexes(Arena *arena, const TableMeta *meta, Table *table)
{
    IndexDef *indexes = arena_array(arena, IndexDef, meta->n_indexes);
    for (int i = 0; i < meta->n_indexes; i++) {
        indexes[i] = meta->indexes[i];
        indexes[i].name = arena_strdup(arena, meta->indexes[i].name);
    }
    table->indexes = indexes;
    table->n_indexes = meta->n_indexes;
}

Snapshot *snapshot_new(const TableMeta *meta, Dictionary *const *dicts, const u32 *dict_counts,
                       const Chunk *const *chunks, int n_chunks)
{
    ASSERT(meta->n_columns > 0 && n_chunks >= 0);
    Arena *arena = arena_new(NULL, "snapshot");
    Snapshot *snapshot = arena_make(arena, Snapshot);
    Column *columns = arena_array(arena, Column, meta->n_columns);
    const Chunk **kept = arena_array(arena, const Chunk *, n_chunks);
    for (int i = 0; i < meta->n_columns; i++) {
        const ColumnMeta *column = &meta->columns[i];
        columns[i] = (Column){ .name = arena_strdup(arena, column->name), .type = column->type,
                               .not_null = column->not_null, .dict_count = dict_counts[i],
                               .is_free = type_is_free_numeric(column->type) };
        if (columns[i].is_free)
            columns[i].type.precision = NUMERIC_DIGITS;
        if (dicts[i])
            columns[i].dict = dict_hold(dicts[i]);
    }
    u64 n_rows = 0;
    for (int i = 0; i < n_chunks; i++) {
        kept[i] = chunks[i];
        n_rows += chunks[i]->n_rows;
    }
    snapshot->table = (Table){ .name = arena_strdup(arena, meta->name), .id = meta->id, .version = meta->version,
                               .n_columns = find_low_words(columns, meta->n_columns), .n_stored = meta->n_columns,
                               .n_chunks = n_chunks, .columns = columns, .chunks = kept,
                               .n_rows = n_rows };
    copy_indexes(arena, meta, &snapshot->table);
    snapshot->table.traits = meta->traits;
    snapshot->distincts = arena_array(arena, _Atomic double, meta->n_columns);
    snapshot->arena = arena;
    snapshot->n_holds = 1;
    return snapshot;
}

const Table *table_hold(const Table *table)
{
    const u32 n_before = atomic_fetch_add(&snapshot_of(table)->n_holds, 1);
    ASSERT(n_before > 0);
    (void)n_before;
    return table;
}

void table_release(const Table *table)
{
    if (!table)
        return;
    const u32 n_before = atomic_fetch_sub(&snapshot_of(table)->n_holds, 1);
    ASSERT(n_before > 0);
    if (n_before > 1)
        return;
    for (int i = 0; i < table->n_stored; i++)
        dict_release(table->columns[i].dict);
    for (int i = 0; i < table->n_chunks; i++)
        chunk_release(table->chunks[i]);
    arena_free(snapshot_of(table)->arena);
}

weft_status table_load_dicts(const Table *table, Error *err)
{
    for (int column = 0; column < table->n_columns; column++)
        if (table->columns[column].dict)
            TRY(dict_check_all(table->columns[column].dict, err));
    return WEFT_OK;
}

weft_status snapshot_verify(Snapshot *snapshot, Error *err)
{
    if (atomic_load_explicit(&snapshot->is_verified, memory_order_acquire))
        return WEFT_OK;
    const Table *table = &snapshot->table;
    TRY(table_load_dicts(table, err));
    for (int i = 0; i < table->n_chunks; i++)
        for (int column = 0; column < table->n_stored; column++)
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
    ASSERT(column >= 0 && column < table->n_stored);
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

// ---- distinct values -----------------------------------------------------------------------------------------------

// There cannot be more: as many as there are values, codes in the dictionary, integers in the range.
static double most_distinct(const Column *column, bool has_range, i64 min, i64 max, u64 n_values)
{
    double most = (double)n_values;
    if (column->type.kind == TYPE_TEXT)
        most = MIN_OF(most, column->dict_count);
    if (has_range && !type_is_float(column->type))
        most = MIN_OF(most, (double)((u64)max - (u64)min) + 1);
    return most;
}

// Whether no value comes twice, because each chunk is increasing and begins above the one before.
static bool is_increasing(const Table *table, int at)
{
    bool is_float = type_is_float(table->columns[at].type);
    const ColumnChunk *before = NULL;
    for (int i = 0; i < table->n_chunks; i++) {
        const ColumnChunk *column = &table->chunks[i]->columns[at];
        if (!column->is_increasing)
            return false;
        if (before && (is_float ? before->fmax >= column->fmin : before->max >= column->min))
            return false;
        before = column;
    }
    return true;
}

static double count_distinct(const Table *table, int at)
{
    const Column *column = &table->columns[at];
    ColumnRange range = table_column_range(table, at);
    u64 n_values = table->n_rows - range.n_nulls;
    if (is_increasing(table, at) || n_values <= 1)
        return (double)MAX_OF(n_values, 1);
    Sketch all = { 0 };
    double unknown = 0;                                     // in chunks without a sketch
    for (int i = 0; i < table->n_chunks; i++) {
        Sketch sketch;
        const Chunk *chunk = table->chunks[i];
        const ColumnChunk *part = &chunk->columns[at];
        const SavedSketch *saved = &chunk_stored(chunk)->sketches[at];
        if (sketch_load(&sketch, saved->bytes, saved->length))
            sketch_merge(&all, &sketch);
        else
            unknown += most_distinct(column, part->has_range, part->min, part->max, chunk->n_rows - part->n_nulls);
    }
    double most = most_distinct(column, range.has_range, range.min, range.max, n_values);
    return MAX_OF(MIN_OF(sketch_count(&all) + unknown, most), 1);
}

// Two threads may both count, and find the same.  Of numbers in two words, the more various word says it.
double table_distinct(const Table *table, int column)
{
    const int low = table->columns[column].low;
    const double count_low = low ? table_distinct(table, low) : 0;
    _Atomic double *kept = &snapshot_of(table)->distincts[column];
    double count = atomic_load_explicit(kept, memory_order_relaxed);
    if (count == 0 && table->n_rows > 0) {
        count = count_distinct(table, column);
        atomic_store_explicit(kept, count, memory_order_relaxed);
    }
    return MAX_OF(count, count_low);
}

int table_find_column(const Table *table, const char *name)
{
    for (int i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}
