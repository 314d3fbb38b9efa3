// index_names.c - indexes by name, and names for those that come without one: t_pkey, t_a_b_key, t_a_idx.
//
// Tables, views and indexes share one space of names, as in PostgreSQL.

#include <stdio.h>

#include "store/store_int.h"

TableEntry *index_find(const Store *store, const char *name, int *at)
{
    for (int i = 0; i < store->n_entries; i++) {
        const TableMeta *meta = store->entries[i]->meta;
        for (*at = 0; *at < meta->n_indexes; ++*at)
            if (meta->indexes[*at].name && strcmp(meta->indexes[*at].name, name) == 0)
                return store->entries[i];
    }
    return NULL;
}

static bool is_taken(Store *store, const TableMeta *meta, const char *name, int n_before)
{
    int ignored;
    bool is_there = strcmp(meta->name, name) == 0 || views_find(store, name) || index_find(store, name, &ignored);
    for (int i = 0; i < store->n_entries; i++)
        is_there |= strcmp(store->entries[i]->name, name) == 0;
    for (int i = 0; i < n_before; i++)
        is_there |= strcmp(meta->indexes[i].name, name) == 0;
    return is_there;
}

// The longer of the two is cut until both and the ending fit, between characters.
static void fit_name(const char *table, const char *columns, const char *ending, char name[NAME_BYTES_MAX + 1])
{
    size_t n_table = strlen(table), n_columns = strlen(columns);
    const size_t room = NAME_BYTES_MAX - strlen(ending) - (n_columns > 0);
    while (n_table + n_columns > room) {
        size_t *longer = n_table > n_columns ? &n_table : &n_columns;
        const char *text = n_table > n_columns ? table : columns;
        do
            --*longer;
        while (*longer && ((unsigned char)text[*longer] & 0xc0) == 0x80);
    }
    snprintf(name, NAME_BYTES_MAX + 1, "%.*s%s%.*s%s", (int)n_table, table, n_columns ? "_" : "", (int)n_columns,
             columns, ending);
}

static const char *choose_name(Store *store, const TableMeta *meta, int at)
{
    static const char *const endings[] = { [INDEX_PLAIN] = "_idx", [INDEX_UNIQUE] = "_idx",
                                           [INDEX_UNIQUE_KEY] = "_key", [INDEX_PRIMARY_KEY] = "_pkey" };
    const IndexDef *index = &meta->indexes[at];
    char ending[32], name[NAME_BYTES_MAX + 1];
    Text columns = { 0 };
    for (int i = 0; i < index->n_columns && index->kind != INDEX_PRIMARY_KEY; i++)
        text_add(&columns, "%s%s", i ? "_" : "", meta->columns[index->columns[i]].name);
    if (index->n_columns == 0)
        text_add(&columns, "expr");
    for (int n = 0; ; n++) {
        snprintf(ending, sizeof(ending), n ? "%s%d" : "%s", endings[index->kind], n);
        fit_name(meta->name, columns.bytes ? columns.bytes : "", ending, name);
        if (!is_taken(store, meta, name, at))
            break;
    }
    text_free(&columns);
    return arena_strdup(meta->arena, name);
}

static weft_status name_index(Store *store, TableMeta *meta, int at, Error *err)
{
    IndexDef *index = &meta->indexes[at];
    if (!index->name)
        index->name = choose_name(store, meta, at);
    else if (strlen(index->name) == 0 || strlen(index->name) > NAME_BYTES_MAX)
        return fail(err, WEFT_INVALID_NAME, -1, "name of an index must be text of 1 to %d bytes", NAME_BYTES_MAX);
    else if (is_taken(store, meta, index->name, at))
        return fail(err, WEFT_DUPLICATE_TABLE, -1, "relation \"%s\" already exists", index->name);
    return WEFT_OK;
}

weft_status index_name_new(Store *store, TableMeta *meta, Error *err)
{
    return name_index(store, meta, meta->n_indexes - 1, err);
}

weft_status index_name_all(Store *store, TableMeta *meta, Error *err)
{
    for (int i = 0; i < meta->n_indexes; i++)
        TRY(name_index(store, meta, i, err));
    return WEFT_OK;
}
