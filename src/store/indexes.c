// indexes.c - keys and indexes of tables that are there already: added, dropped, found.

#include "store/store_int.h"

typedef struct IndexChange {
    const IndexDef     *index;         // to add
    const char         *name;          // to drop
    const _Atomic bool *cancel;
} IndexChange;

static weft_status check_no_nulls(const Table *table, const IndexDef *index, Error *err)
{
    for (int i = 0; i < index->n_columns; i++)
        if (table_column_range(table, index->columns[i]).n_nulls > 0)
            return fail(err, WEFT_NOT_NULL_VIOLATION, -1, "column \"%s\" of table \"%s\" contains null values",
                        table->columns[index->columns[i]].name, table->name);
    return WEFT_OK;
}

static bool has_primary_key(const TableMeta *meta)
{
    for (int i = 0; i < meta->n_indexes; i++)
        if (meta->indexes[i].kind == INDEX_PRIMARY_KEY)
            return true;
    return false;
}

// The columns of a primary key, and their low words, take no NULL from now on.
static void forbid_nulls(const Table *table, const IndexDef *index, TableMeta *meta)
{
    for (int i = 0; i < index->n_columns; i++) {
        const int column = index->columns[i], low = table->columns[column].low;
        meta->columns[column].not_null = true;
        if (low)
            meta->columns[low].not_null = true;
    }
}

static weft_status check_rows(const Store *store, const Table *table, const IndexDef *index, const IndexChange *change,
                              Error *err)
{
    if (index->kind == INDEX_PLAIN)
        return WEFT_OK;
    TRY(table_load_dicts(table, err));                      // for the message
    TRY(keys_check_table(table, index, store->budget, change->cancel, err));
    return index->kind == INDEX_PRIMARY_KEY ? check_no_nulls(table, index, err) : WEFT_OK;
}

static weft_status add_index(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const IndexChange *change = context;
    TableMeta *meta = meta_copy(entry->meta, entry->meta->n_chunks);
    IndexDef *indexes = arena_array(meta->arena, IndexDef, meta->n_indexes + 1);
    weft_status status = WEFT_OK;
    memcpy(indexes, meta->indexes, (size_t)meta->n_indexes * sizeof(IndexDef));
    indexes[meta->n_indexes] = *change->index;
    if (change->index->kind == INDEX_PRIMARY_KEY && has_primary_key(meta))
        status = fail(err, WEFT_INVALID_TABLE, -1, "multiple primary keys for table \"%s\" are not allowed",
                      entry->name);
    if (!status) {
        meta_set_indexes(meta, indexes, meta->n_indexes + 1);
        status = index_name_new(store, meta, err);
    }
    if (!status)
        status = check_rows(store, &held->table, &meta->indexes[meta->n_indexes - 1], change, err);
    if (status) {
        meta_free(meta);
        return status;
    }
    if (change->index->kind == INDEX_PRIMARY_KEY)
        forbid_nulls(&held->table, change->index, meta);
    return store_put_meta(store, entry, held, meta, err);
}

weft_status store_add_index(Store *store, const char *table, const IndexDef *index, const _Atomic bool *cancel,
                            Error *err)
{
    return store_change_table(store, table, cancel, add_index, &(IndexChange){ .index = index, .cancel = cancel }, err);
}

static weft_status drop_index(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err)
{
    const IndexChange *change = context;
    TableMeta *meta = meta_copy(entry->meta, entry->meta->n_chunks);
    int n_left = 0;
    for (int i = 0; i < meta->n_indexes; i++)
        if (strcmp(meta->indexes[i].name, change->name) != 0)
            meta->indexes[n_left++] = meta->indexes[i];
    if (n_left == meta->n_indexes) {
        meta_free(meta);
        return fail(err, WEFT_UNDEFINED_OBJECT, -1, "index \"%s\" does not exist", change->name);
    }
    meta->n_indexes = n_left;
    return store_put_meta(store, entry, held, meta, err);
}

weft_status store_drop_index(Store *store, const char *table, const char *name, const _Atomic bool *cancel, Error *err)
{
    return store_change_table(store, table, cancel, drop_index, &(IndexChange){ .name = name }, err);
}

const char *store_index_table(Store *store, Arena *arena, const char *name, IndexKind *kind)
{
    int at;
    const char *table = NULL;
    pthread_mutex_lock(&store->lock);
    const TableEntry *entry = index_find(store, name, &at);
    if (entry) {
        table = arena_strdup(arena, entry->name);
        *kind = (IndexKind)entry->meta->indexes[at].kind;
    }
    pthread_mutex_unlock(&store->lock);
    return table;
}
