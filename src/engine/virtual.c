// virtual.c - tables that are made when asked for: weft_tables and weft_columns, and the row behind a SELECT without FROM.

#include "engine/engine.h"

typedef struct Maker {
    weft_db *db;
    Store   *store;                    // in memory, lives as long as the query
    Append  *append;
    u64      n_rows;
    Error   *err;
} Maker;

static void close_store(void *store) { store_close(store); }

static weft_status add_row(Maker *maker, const Value *values, int n_columns)
{
    ColumnInput  inputs[8];
    i64          numbers[8];
    u8           nulls[8];
    const Table *table = append_table(maker->append);
    for (int c = 0; c < n_columns; c++) {
        nulls[c] = values[c].is_null;
        numbers[c] = (i64)values[c].i;
        if (values[c].type.kind == TYPE_TEXT) {
            u32 code;
            TRY(dict_intern(table->columns[c].dict, values[c].text.bytes, values[c].text.length, &code, maker->err));
            numbers[c] = code;
        }
        inputs[c] = (ColumnInput){ .i = &numbers[c], .is_null = &nulls[c] };
    }
    return append_rows(maker->append, maker->n_rows++, inputs, 1, maker->err);
}

static Value text_value(const char *text)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = text, value.text.length = (u32)strlen(text);
    return value;
}

static Value int_value(TypeKind kind, i64 number) { return (Value){ .type = { .kind = (u8)kind }, .i = number }; }

static weft_status fill_tables(Maker *maker, const Table *table)
{
    const Value row[] = { text_value(table->name), int_value(TYPE_BIGINT, (i64)table->n_rows), int_value(TYPE_INTEGER, table->n_chunks),
                          int_value(TYPE_BIGINT, store_bytes_on_disk(maker->db->store, table->name)) };
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_columns(Maker *maker, const Table *table)
{
    for (int c = 0; c < table->n_columns; c++) {
        char        type[32];
        const Value row[] = { text_value(table->name), int_value(TYPE_INTEGER, c + 1), text_value(table->columns[c].name),
                              text_value(type_name(table->columns[c].type, type)), int_value(TYPE_BOOLEAN, table->columns[c].not_null) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status fill_one_row(Maker *maker, const Table *table)
{
    const Value row[] = { int_value(TYPE_INTEGER, 1) };
    (void)table;
    return add_row(maker, row, COUNT_OF(row));
}

static const struct VirtualTable {
    const char *name;
    ColumnDef   columns[5];
    int         n_columns;
    weft_status (*fill)(Maker *maker, const Table *table);                     // once per table of the database, or once
    bool        per_table;
} virtual_tables[] = {
    { "weft_tables", { { "name", TYPE(TEXT), true }, { "rows", TYPE(BIGINT), true }, { "chunks", TYPE(INTEGER), true }, { "bytes", TYPE(BIGINT), true } }, 4,
      fill_tables, true },
    { "weft_columns", { { "table_name", TYPE(TEXT), true }, { "position", TYPE(INTEGER), true }, { "column_name", TYPE(TEXT), true },
                        { "type", TYPE(TEXT), true }, { "not_null", TYPE(BOOLEAN), true } }, 5, fill_columns, true },
    { "weft_one_row", { { "one", TYPE(INTEGER), true } }, 1, fill_one_row, false },
};

static weft_status fill(Maker *maker, Arena *arena, const struct VirtualTable *def)
{
    const char **names;
    int          n_names;
    if (!def->per_table) return def->fill(maker, NULL);
    TRY(store_list(maker->db->store, arena, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        const Table *table;
        if (store_peek_table(maker->db->store, names[i], &table, &(Error){ 0 })) continue;     // dropped meanwhile, or damaged
        const weft_status status = def->fill(maker, table);
        table_release(table);
        TRY(status);
    }
    return WEFT_OK;
}

weft_status virtual_table(weft_db *db, Arena *arena, const char *name, const Table **table, Error *err)
{
    Maker maker = { .db = db, .err = err };
    u64   n_rows;
    *table = NULL;
    for (int i = 0; i < COUNT_OF(virtual_tables); i++) {
        const struct VirtualTable *def = &virtual_tables[i];
        if (strcmp(name, def->name) != 0) continue;
        TRY(store_open(NULL, &db->budget, &maker.store, err));
        arena_defer(arena, close_store, maker.store);
        TRY(store_create_table(maker.store, def->name, def->columns, def->n_columns, err));
        TRY(append_begin(maker.store, def->name, &maker.append, err));
        const weft_status status = fill(&maker, arena, def);
        if (status) {
            append_abort(maker.append);
            return status;
        }
        TRY(append_commit(maker.append, &n_rows, err));
        *table = store_table(maker.store, def->name);
    }
    return WEFT_OK;
}
