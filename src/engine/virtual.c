// virtual.c - tables that are made when asked for: weft_tables, weft_columns, weft_scans, weft_riders, weft_queue,
// weft_indexes, information_schema.tables, columns, table_constraints and key_column_usage, and the row behind a SELECT
// without FROM.

#include <stdio.h>

#include "device/cuda_driver.h"
#include "engine/continuous.h"
#include "engine/engine.h"

enum { COLUMNS_MOST = 15 };            // of a virtual table

#define TYPE_OF_GAIN ((Type){ .kind = TYPE_DECIMAL, .precision = 18, .scale = 1 })

typedef struct Maker {
    weft_db *db;
    weft_session *session;
    Store   *store;                    // in memory, lives as long as the query
    Append  *append;
    u64      n_rows;
    Error   *err;
} Maker;

static void close_store(void *store) { store_close(store); }

static weft_status add_row(Maker *maker, const Value *values, int n_columns)
{
    ColumnInput  inputs[COLUMNS_MOST];
    i64          numbers[COLUMNS_MOST];
    u8           nulls[COLUMNS_MOST];
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
    const Value row[] = { text_value(table->name), int_value(TYPE_BIGINT, (i64)table->n_rows),
                          int_value(TYPE_INTEGER, table->n_chunks),
                          int_value(TYPE_BIGINT, store_bytes_on_disk(maker->db->store, table->name)) };
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_columns(Maker *maker, const Table *table)
{
    for (int c = 0; c < table->n_columns; c++) {
        char        type[32];
        const Value row[] = { text_value(table->name), int_value(TYPE_INTEGER, c + 1),
                              text_value(table->columns[c].name),
                              text_value(column_type_name(&table->columns[c], type)),
                              int_value(TYPE_BOOLEAN, table->columns[c].not_null) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

// ---- streams and continuous views -----------------------------------------------------------------------------------

static weft_status fill_streams(Maker *maker, const Table *table)
{
    const TableTraits *traits = &table->traits;
    if (traits->kind != TABLE_STREAM) return WEFT_OK;
    const Value row[] = { text_value(table->name), int_value(TYPE_BIGINT, (i64)(traits->first_row + table->n_rows)),
                          int_value(TYPE_BIGINT, (i64)traits->first_row),
                          { .type = TYPE(BIGINT), .i = traits->retain_us / 1000, .is_null = !traits->retain_us } };
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_views(Maker *maker, Arena *arena)
{
    ViewFigures *views;
    const int    n_views = streams_figures(maker->db->streams, arena, &views);
    for (int i = 0; i < n_views; i++) {
        Value error = text_value(views[i].error ? views[i].error : "");
        error.is_null = !views[i].error;
        const Value row[] = { text_value(views[i].name), text_value(views[i].stream),
                              int_value(TYPE_BIGINT, (i64)views[i].position),
                              int_value(TYPE_BIGINT, (i64)views[i].saved),
                              int_value(TYPE_BIGINT, (i64)views[i].n_kept),
                              int_value(TYPE_BIGINT, (i64)views[i].n_late),
                              { .type = TYPE(TIMESTAMP), .i = views[i].watermark, .is_null = !views[i].has_watermark },
                              error, int_value(TYPE_BIGINT, views[i].n_together) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

// ---- information_schema ---------------------------------------------------------------------------------------------

typedef struct Relation {              // a table or view, as the standard's tables show it
    const char    *schema, *kind;
    const Table   *table;              // NULL: a view
    const ViewDef *view;
} Relation;

typedef weft_status (*ShowRelation)(Maker *maker, const Relation *relation);

static weft_status show_tables_of(Maker *maker, Arena *arena, Store *store, const Relation *like, ShowRelation show)
{
    const char **names;
    int          n_names;
    TRY(store_list(store, arena, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        Relation relation = *like;
        if (store_peek_table(store, names[i], &relation.table, &(Error){ 0 }))
            continue;  // dropped meanwhile, or damaged
        const weft_status status = show(maker, &relation);
        table_release(relation.table);
        TRY(status);
    }
    return WEFT_OK;
}

static weft_status show_relations(Maker *maker, Arena *arena, ShowRelation show)
{
    const ViewDef *views;
    int            n_views;
    Store         *own = maker->session->temporary;
    TRY(show_tables_of(maker, arena, maker->db->store, &(Relation){ .schema = "public", .kind = "BASE TABLE" }, show));
    if (own)
        TRY(show_tables_of(maker, arena, own, &(Relation){ .schema = "pg_temp", .kind = "LOCAL TEMPORARY" }, show));
    store_list_views(maker->db->store, arena, &views, &n_views);
    for (int i = 0; i < n_views; i++)
        TRY(show(maker, &(Relation){ .schema = "public", .kind = "VIEW", .view = &views[i] }));
    return WEFT_OK;
}

static const char *relation_name(const Relation *relation)
{
    return relation->table ? relation->table->name : relation->view->name;
}

static weft_status show_table(Maker *maker, const Relation *relation)
{
    const Value row[] = { text_value("weft"), text_value(relation->schema), text_value(relation_name(relation)),
                          text_value(relation->kind) };
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_schema_tables(Maker *maker, Arena *arena) { return show_relations(maker, arena, show_table); }

typedef struct ShownType {             // a type as the standard shows it; -1: NULL
    char name[32], udt[16];            // udt: PostgreSQL's own name
    int  length, octets, precision, radix, scale, time_digits;
} ShownType;

// WHOLE is a type with its digits, such as type_whole_name gives.
static ShownType shown_type(const char *whole)
{
    static const struct { const char *name, *shown; int octets, precision, radix, scale, time_digits; } types[] = {
        { "smallint", NULL, -1, 16, 2, 0, -1 },
        { "integer", NULL, -1, 32, 2, 0, -1 },
        { "bigint", NULL, -1, 64, 2, 0, -1 },
        { "real", NULL, -1, 24, 2, -1, -1 },
        { "double precision", NULL, -1, 53, 2, -1, -1 },
        { "decimal", "numeric", -1, -1, 10, -1, -1 },
        { "numeric", NULL, -1, -1, 10, -1, -1 },
        { "text", NULL, 1 << 30, -1, -1, -1, -1 },
        { "char", "character", 1 << 30, -1, -1, -1, -1 },
        { "bpchar", "character", 1 << 30, -1, -1, -1, -1 },
        { "varchar", "character varying", 1 << 30, -1, -1, -1, -1 },
        { "date", NULL, -1, -1, -1, -1, 0 },
        { "timestamp without time zone", NULL, -1, -1, -1, -1, 6 },
        { "timestamp with time zone", NULL, -1, -1, -1, -1, 6 },
        { "time without time zone", NULL, -1, -1, -1, -1, 6 },
        { "interval", NULL, -1, -1, -1, -1, 6 },
    };
    static const struct { const char *name, *udt; } udts[] = {
        { "smallint", "int2" }, { "integer", "int4" }, { "bigint", "int8" }, { "real", "float4" },
        { "double precision", "float8" }, { "decimal", "numeric" }, { "boolean", "bool" },
        { "timestamp without time zone", "timestamp" }, { "timestamp with time zone", "timestamptz" },
        { "time without time zone", "time" }, { "char", "bpchar" }, { "character", "bpchar" },
    };
    ShownType shown = { .length = -1, .octets = -1, .precision = -1, .radix = -1, .scale = -1, .time_digits = -1 };
    int       first = -1, second = -1;
    snprintf(shown.name, sizeof shown.name, "%.*s", (int)strcspn(whole, "("), whole);
    if (strchr(whole, '(')) (void)sscanf(strchr(whole, '('), "(%d,%d", &first, &second);
    snprintf(shown.udt, sizeof shown.udt, "%.15s", shown.name);
    for (int i = 0; i < COUNT_OF(udts); i++)
        if (strcmp(shown.name, udts[i].name) == 0) snprintf(shown.udt, sizeof shown.udt, "%s", udts[i].udt);
    for (int i = 0; i < COUNT_OF(types); i++) {
        if (strcmp(shown.name, types[i].name) != 0) continue;
        if (types[i].shown) snprintf(shown.name, sizeof shown.name, "%s", types[i].shown);
        shown.precision = types[i].precision, shown.radix = types[i].radix, shown.scale = types[i].scale;
        shown.octets = types[i].octets, shown.time_digits = types[i].time_digits;
        if (first >= 0 && shown.radix == 10) shown.precision = first, shown.scale = second;
        if (first >= 0 && shown.octets >= 0) shown.length = first, shown.octets = 4 * first;
        break;
    }
    return shown;
}

static Value whole_or_null(int number)
{
    Value value = int_value(TYPE_INTEGER, number);
    value.is_null = number < 0;
    return value;
}

static weft_status show_columns(Maker *maker, const Relation *relation)
{
    const int n_columns = relation->table ? relation->table->n_columns : relation->view->n_columns;
    Value     no_text = text_value("");
    no_text.is_null = true;
    for (int c = 0; c < n_columns; c++) {
        char            type[32];
        const Column   *column = relation->table ? &relation->table->columns[c] : NULL;
        const ShownType shown = shown_type(column ? column_type_name(column, type) : relation->view->types[c]);
        const Value row[] = { text_value("weft"),
                              text_value(relation->schema),
                              text_value(relation_name(relation)),
                              text_value(column ? column->name : relation->view->columns[c]),
                              int_value(TYPE_INTEGER, c + 1),
                              no_text,
                              text_value(column && column->not_null ? "NO" : "YES"),
                              text_value(shown.name),
                              whole_or_null(shown.length),
                              whole_or_null(shown.octets),
                              whole_or_null(shown.precision),
                              whole_or_null(shown.radix),
                              whole_or_null(shown.scale),
                              whole_or_null(shown.time_digits),
                              text_value(shown.udt) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status fill_schema_views(Maker *maker, Arena *arena)
{
    const ViewDef *views;
    int            n_views;
    store_list_views(maker->db->store, arena, &views, &n_views);
    for (int i = 0; i < n_views; i++) {
        const Value row[] = { text_value("weft"), text_value("public"), text_value(views[i].name),
                              text_value(views[i].text), text_value("NONE"), text_value("NO"), text_value("NO") };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status fill_schemata(Maker *maker, Arena *arena)
{
    const char *const schemas[] = { "public", "information_schema", "pg_temp" };
    (void)arena;
    for (int i = 0; i < COUNT_OF(schemas); i++) {
        const Value row[] = { text_value("weft"), text_value(schemas[i]) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status show_constraints(Maker *maker, const Relation *relation)
{
    for (int i = 0; relation->table && i < relation->table->n_indexes; i++) {
        const IndexDef *index = &relation->table->indexes[i];
        const bool      is_primary = index->kind == INDEX_PRIMARY_KEY;
        const Value     row[] = { text_value("weft"), text_value(relation->schema), text_value(index->name),
                                  text_value("weft"), text_value(relation->schema), text_value(relation->table->name),
                                  text_value(is_primary ? "PRIMARY KEY" : "UNIQUE"), text_value("NO"),
                                  text_value("NO") };
        if (is_primary || index->kind == INDEX_UNIQUE_KEY) TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status fill_schema_constraints(Maker *maker, Arena *arena)
{
    return show_relations(maker, arena, show_constraints);
}

static weft_status show_key_columns(Maker *maker, const Relation *relation)
{
    for (int i = 0; relation->table && i < relation->table->n_indexes; i++) {
        const IndexDef *index = &relation->table->indexes[i];
        const bool      is_key = index->kind == INDEX_PRIMARY_KEY || index->kind == INDEX_UNIQUE_KEY;
        for (int c = 0; c < index->n_columns && is_key; c++) {
            const Value row[] = { text_value("weft"), text_value(relation->schema), text_value(index->name),
                                  text_value("weft"), text_value(relation->schema), text_value(relation->table->name),
                                  text_value(relation->table->columns[index->columns[c]].name),
                                  int_value(TYPE_INTEGER, c + 1) };
            TRY(add_row(maker, row, COUNT_OF(row)));
        }
    }
    return WEFT_OK;
}

static weft_status fill_schema_key_columns(Maker *maker, Arena *arena)
{
    return show_relations(maker, arena, show_key_columns);
}

// Beside the constraints also indexes, which PostgreSQL shows in pg_indexes.
static weft_status fill_indexes(Maker *maker, const Table *table)
{
    static const char *const kinds[] = { [INDEX_PLAIN] = "index", [INDEX_UNIQUE] = "unique index",
                                         [INDEX_UNIQUE_KEY] = "unique", [INDEX_PRIMARY_KEY] = "primary key" };
    for (int i = 0; i < table->n_indexes; i++) {
        const IndexDef *index = &table->indexes[i];
        Text            columns = { 0 };
        for (int c = 0; c < index->n_columns; c++)
            text_add(&columns, "%s%s", c ? ", " : "", table->columns[index->columns[c]].name);
        const Value row[] = { text_value(table->name), text_value(index->name), text_value(kinds[index->kind]),
                              text_value(columns.bytes ? columns.bytes : ""),
                              int_value(TYPE_BOOLEAN, index->kind != INDEX_PLAIN) };
        const weft_status status = add_row(maker, row, COUNT_OF(row));
        text_free(&columns);
        TRY(status);
    }
    return WEFT_OK;
}

static weft_status fill_schema_columns(Maker *maker, Arena *arena)
{
    return show_relations(maker, arena, show_columns);
}

static weft_status fill_one_row(Maker *maker, Arena *arena)
{
    const Value row[] = { int_value(TYPE_INTEGER, 1) };
    (void)arena;
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_plans(Maker *maker, Arena *arena)
{
    const PlanCounts plans = plans_counts(maker->db->plans);
    const ShapeCounts shapes = shape_plans_counts(maker->db->shape_plans);
    const TreeCounts trees = tree_counts();
    const Value      of_plans[] = { text_value("plans"), int_value(TYPE_INTEGER, plans.n_kept),
                                    int_value(TYPE_BIGINT, (i64)plans.n_found),
                                    int_value(TYPE_BIGINT, (i64)plans.n_missed) };
    const Value      of_trees[] = { text_value("parse trees"), int_value(TYPE_INTEGER, trees.n_trees),
                                    int_value(TYPE_BIGINT, trees.n_found), int_value(TYPE_BIGINT, trees.n_missed) };
    const Value      of_shapes[] = { text_value("plans of shapes"), int_value(TYPE_INTEGER, shapes.n_kept),
                                     int_value(TYPE_BIGINT, (i64)shapes.n_found),
                                     int_value(TYPE_BIGINT, (i64)shapes.n_missed) };
    (void)arena;
    TRY(add_row(maker, of_plans, COUNT_OF(of_plans)));
    TRY(add_row(maker, of_shapes, COUNT_OF(of_shapes)));
    return add_row(maker, of_trees, COUNT_OF(of_trees));
}

static weft_status fill_compilers(Maker *maker, Arena *arena)
{
    const JitCounts *jit = jit_counts(maker->db->jit);
    const Value      row[] = { int_value(TYPE_BIGINT, jit->memory_hits),  int_value(TYPE_BIGINT, jit->disk_hits),
                               int_value(TYPE_BIGINT, jit->tcc_compiles), int_value(TYPE_BIGINT, jit->tcc_us),
                               int_value(TYPE_BIGINT, jit->cc_compiles),  int_value(TYPE_BIGINT, jit->cc_us),
                               int_value(TYPE_BIGINT, jit->put_off),      int_value(TYPE_BIGINT, jit->failures),
                               int_value(TYPE_BIGINT, jit->programs),     int_value(TYPE_BIGINT, jit->program_us) };
    (void)arena;
    return add_row(maker, row, COUNT_OF(row));
}

static weft_status fill_scans(Maker *maker, Arena *arena)
{
    const DeviceFigures figures = gpus_figures_with(maker->db->gpus, maker->db->cpu, arena);
    for (int i = 0; i < figures.n_scans; i++) {
        const ScanFigures *scan = &figures.scans[i];
        const Value row[] = { text_value(scan->table),
                              int_value(TYPE_BIGINT, (i64)scan->n_rides),
                              int_value(TYPE_BIGINT, (i64)scan->chunks_read),
                              int_value(TYPE_BIGINT, (i64)scan->chunks_ridden),
                              int_value(TYPE_BIGINT, (i64)scan->rows_read),
                              int_value(TYPE_BIGINT, (i64)scan->rows_ridden),
                              int_value(TYPE_BIGINT, (i64)scan->bytes_read),
                              int_value(TYPE_BIGINT, (i64)scan->bytes_ridden),
                              int_value(TYPE_BIGINT, (i64)scan->chunks_woven),
                              int_value(TYPE_BIGINT, (i64)scan->rides_woven),
                              int_value(TYPE_BIGINT, (i64)scan->rides_fused),
                              int_value(TYPE_BIGINT, (i64)scan->rides_cubed),
                              int_value(TYPE_BIGINT, (i64)scan->rides_sieved),
                              int_value(TYPE_BIGINT, (i64)scan->chunks_woven_ridden),
                              int_value(TYPE_BIGINT, (i64)scan->rides_join_cubed) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static Value text_or_null(const char *text)
{
    Value value = text_value(text ? text : "");
    value.is_null = !text;
    return value;
}

static Value count_or_null(u64 count, const BodyFigures *body)
{
    Value value = int_value(TYPE_BIGINT, (i64)count);
    value.is_null = !body->n_classes;
    return value;
}

// Expected: time alone / together, with a decimal.
static Value gain_value(const RiderFigures *rider)
{
    return (Value){ .type = TYPE_OF_GAIN, .i = (i64)(rider->gain * 10 + 0.5), .is_null = !rider->n_woven };
}

static weft_status fill_riders(Maker *maker, Arena *arena)
{
    const DeviceFigures figures = gpus_figures_with(maker->db->gpus, maker->db->cpu, arena);
    for (int i = 0; i < figures.n_riders; i++) {
        const RiderFigures *rider = &figures.riders[i];
        const BodyFigures  *body = &rider->body;
        const Value row[] = { int_value(TYPE_BIGINT, (i64)rider->query),
                              text_value(rider->table),
                              text_value(rider->label),
                              text_value(rider->kernel),
                              int_value(TYPE_INTEGER, rider->n_chunks),
                              int_value(TYPE_INTEGER, rider->n_chunks_done),
                              int_value(TYPE_INTEGER, rider->n_fellow),
                              int_value(TYPE_INTEGER, rider->n_woven),
                              text_or_null(rider->n_woven ? rider->woven_as : NULL),
                              text_or_null(body->kernel[0] ? body->kernel : NULL),
                              count_or_null(body->n_classes, body),
                              count_or_null(body->n_slots, body),
                              count_or_null(body->n_cells, body),
                              gain_value(rider) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

// Those that are open: nobody opens one by looking.
static weft_status fill_devices(Maker *maker, Arena *arena)
{
    const char   *name;
    DeviceFigures figures;
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        if (!gpus_figures(maker->db->gpus, g, arena, &name, &figures)) continue;
        const Value row[] = { text_value(name), int_value(TYPE_BIGINT, (i64)figures.n_kernels),
                              int_value(TYPE_BIGINT, (i64)figures.bytes),
                              int_value(TYPE_BIGINT, (i64)figures.bytes_held),
                              int_value(TYPE_BIGINT, (i64)figures.bytes_copied),
                              int_value(TYPE_BIGINT, (i64)figures.n_waves),
                              int_value(TYPE_BIGINT, (i64)figures.n_planned),
                              int_value(TYPE_BIGINT, (i64)figures.n_solved),
                              int_value(TYPE_BIGINT, (i64)figures.n_unsolved),
                              int_value(TYPE_BIGINT, (i64)figures.n_measured),
                              int_value(TYPE_BIGINT, (i64)figures.measured_us),
                              int_value(TYPE_BIGINT, (i64)figures.n_generic),
                              int_value(TYPE_BIGINT, (i64)figures.n_kind_columns) };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static weft_status fill_queue(Maker *maker, Arena *arena)
{
    ClaimFigures *claims;
    int           n_claims;
    admission_list(maker->db->admission, arena, &claims, &n_claims);
    for (int i = 0; i < n_claims; i++) {
        const ClaimFigures *claim = &claims[i];
        const Value row[] = {
            int_value(TYPE_BIGINT, (i64)claim->query),    text_value(claim->position ? "waiting" : "running"),
            int_value(TYPE_INTEGER, claim->position),     int_value(TYPE_INTEGER, claim->priority),
            int_value(TYPE_BOOLEAN, claim->is_alone),     int_value(TYPE_BIGINT, claim->wanted),
            int_value(TYPE_BIGINT, claim->reserved),      int_value(TYPE_BIGINT, claim->used),
            int_value(TYPE_BIGINT, (i64)claim->waited_ms), int_value(TYPE_BIGINT, claim->temp_bytes)
        };
        TRY(add_row(maker, row, COUNT_OF(row)));
    }
    return WEFT_OK;
}

static const struct VirtualTable {
    const char *name;
    ColumnDef   columns[COLUMNS_MOST];
    int         n_columns;
    weft_status (*fill)(Maker *maker, const Table *table);                     // once per table of the database, or
    weft_status (*fill_all)(Maker *maker, Arena *arena);
} virtual_tables[] = {
    { "weft_tables",
      { { "name", TYPE(TEXT), true },
        { "rows", TYPE(BIGINT), true },
        { "chunks", TYPE(INTEGER), true },
        { "bytes", TYPE(BIGINT), true } },
      4,
      fill_tables,
      NULL },
    { "weft_streams",
      { { "name", TYPE(TEXT), true },
        { "rows_durable", TYPE(BIGINT), true },
        { "first_row", TYPE(BIGINT), true },
        { "retain_ms", TYPE(BIGINT), false } },
      4,
      fill_streams,
      NULL },
    { "weft_views",
      { { "name", TYPE(TEXT), true },
        { "stream", TYPE(TEXT), true },
        { "rows_seen", TYPE(BIGINT), true },
        { "rows_saved", TYPE(BIGINT), true },
        { "rows_kept", TYPE(BIGINT), true },
        { "late_rows", TYPE(BIGINT), true },
        { "watermark", TYPE(TIMESTAMP), false },
        { "error", TYPE(TEXT), false },
        { "together", TYPE(BIGINT), true } },
      9,
      NULL,
      fill_views },
    { "weft_columns",
      { { "table_name", TYPE(TEXT), true },
        { "position", TYPE(INTEGER), true },
        { "column_name", TYPE(TEXT), true },
        { "type", TYPE(TEXT), true },
        { "not_null", TYPE(BOOLEAN), true } },
      5,
      fill_columns,
      NULL },
    { "weft_scans",
      { { "table_name", TYPE(TEXT), true },
        { "rides", TYPE(BIGINT), true },
        { "chunks_read", TYPE(BIGINT), true },
        { "chunks_ridden", TYPE(BIGINT), true },
        { "rows_read", TYPE(BIGINT), true },
        { "rows_ridden", TYPE(BIGINT), true },
        { "bytes_read", TYPE(BIGINT), true },
        { "bytes_ridden", TYPE(BIGINT), true },
        { "chunks_woven", TYPE(BIGINT), true },
        { "rides_woven", TYPE(BIGINT), true },
        { "rides_fused", TYPE(BIGINT), true },
        { "rides_cubed", TYPE(BIGINT), true },
        { "rides_sieved", TYPE(BIGINT), true },
        { "chunks_woven_ridden", TYPE(BIGINT), true },
        { "rides_join_cubed", TYPE(BIGINT), true } },
      15,
      NULL,
      fill_scans },
    { "weft_riders",
      { { "query", TYPE(BIGINT), true },
        { "table_name", TYPE(TEXT), true },
        { "pipeline", TYPE(TEXT), true },
        { "kernel", TYPE(TEXT), true },
        { "chunks", TYPE(INTEGER), true },
        { "chunks_done", TYPE(INTEGER), true },
        { "fellow_riders", TYPE(INTEGER), true },
        { "woven_with", TYPE(INTEGER), true },
        { "woven_as", TYPE(TEXT), false },
        { "shared_kernel", TYPE(TEXT), false },
        { "classes", TYPE(BIGINT), false },
        { "slots", TYPE(BIGINT), false },
        { "cells", TYPE(BIGINT), false },
        { "expected_gain", TYPE_OF_GAIN, false } },
      14,
      NULL,
      fill_riders },
    { "weft_devices",
      { { "device", TYPE(TEXT), true },
        { "kernels", TYPE(BIGINT), true },
        { "bytes", TYPE(BIGINT), true },
        { "bytes_held", TYPE(BIGINT), true },
        { "bytes_copied", TYPE(BIGINT), true },
        { "waves", TYPE(BIGINT), true },
        { "waves_planned", TYPE(BIGINT), true },
        { "plans_solved", TYPE(BIGINT), true },
        { "plans_failed", TYPE(BIGINT), true },
        { "waves_measured", TYPE(BIGINT), true },
        { "measured_us", TYPE(BIGINT), true },
        { "generic", TYPE(BIGINT), true },
        { "kind_columns", TYPE(BIGINT), true } },
      13,
      NULL,
      fill_devices },
    { "weft_queue",
      { { "query", TYPE(BIGINT), true },
        { "state", TYPE(TEXT), true },
        { "position", TYPE(INTEGER), true },
        { "priority", TYPE(INTEGER), true },
        { "alone", TYPE(BOOLEAN), true },
        { "bytes_wanted", TYPE(BIGINT), true },
        { "bytes_reserved", TYPE(BIGINT), true },
        { "bytes_used", TYPE(BIGINT), true },
        { "waited_ms", TYPE(BIGINT), true },
        { "bytes_spilled", TYPE(BIGINT), true } },
      10,
      NULL,
      fill_queue },
    { "weft_compilers",
      { { "found_in_memory", TYPE(BIGINT), true },
        { "found_on_disk", TYPE(BIGINT), true },
        { "tcc_compiles", TYPE(BIGINT), true },
        { "tcc_us", TYPE(BIGINT), true },
        { "cc_compiles", TYPE(BIGINT), true },
        { "cc_us", TYPE(BIGINT), true },
        { "cc_put_off", TYPE(BIGINT), true },
        { "failures", TYPE(BIGINT), true },
        { "programs", TYPE(BIGINT), true },
        { "program_us", TYPE(BIGINT), true } },
      10,
      NULL,
      fill_compilers },
    { "weft_plans",
      { { "what", TYPE(TEXT), true },
        { "kept", TYPE(INTEGER), true },
        { "found", TYPE(BIGINT), true },
        { "missed", TYPE(BIGINT), true } },
      4,
      NULL,
      fill_plans },
    { "information_schema.tables",
      { { "table_catalog", TYPE(TEXT), true },
        { "table_schema", TYPE(TEXT), true },
        { "table_name", TYPE(TEXT), true },
        { "table_type", TYPE(TEXT), true } },
      4,
      NULL,
      fill_schema_tables },
    { "information_schema.columns",
      { { "table_catalog", TYPE(TEXT), true },
        { "table_schema", TYPE(TEXT), true },
        { "table_name", TYPE(TEXT), true },
        { "column_name", TYPE(TEXT), true },
        { "ordinal_position", TYPE(INTEGER), true },
        { "column_default", TYPE(TEXT), false },
        { "is_nullable", TYPE(TEXT), true },
        { "data_type", TYPE(TEXT), true },
        { "character_maximum_length", TYPE(INTEGER), false },
        { "character_octet_length", TYPE(INTEGER), false },
        { "numeric_precision", TYPE(INTEGER), false },
        { "numeric_precision_radix", TYPE(INTEGER), false },
        { "numeric_scale", TYPE(INTEGER), false },
        { "datetime_precision", TYPE(INTEGER), false },
        { "udt_name", TYPE(TEXT), true } },
      15,
      NULL,
      fill_schema_columns },
    { "information_schema.views",
      { { "table_catalog", TYPE(TEXT), true },
        { "table_schema", TYPE(TEXT), true },
        { "table_name", TYPE(TEXT), true },
        { "view_definition", TYPE(TEXT), true },
        { "check_option", TYPE(TEXT), true },
        { "is_updatable", TYPE(TEXT), true },
        { "is_insertable_into", TYPE(TEXT), true } },
      7,
      NULL,
      fill_schema_views },
    { "information_schema.schemata",
      { { "catalog_name", TYPE(TEXT), true }, { "schema_name", TYPE(TEXT), true } },
      2,
      NULL,
      fill_schemata },
    { "information_schema.table_constraints",
      { { "constraint_catalog", TYPE(TEXT), true },
        { "constraint_schema", TYPE(TEXT), true },
        { "constraint_name", TYPE(TEXT), true },
        { "table_catalog", TYPE(TEXT), true },
        { "table_schema", TYPE(TEXT), true },
        { "table_name", TYPE(TEXT), true },
        { "constraint_type", TYPE(TEXT), true },
        { "is_deferrable", TYPE(TEXT), true },
        { "initially_deferred", TYPE(TEXT), true } },
      9,
      NULL,
      fill_schema_constraints },
    { "information_schema.key_column_usage",
      { { "constraint_catalog", TYPE(TEXT), true },
        { "constraint_schema", TYPE(TEXT), true },
        { "constraint_name", TYPE(TEXT), true },
        { "table_catalog", TYPE(TEXT), true },
        { "table_schema", TYPE(TEXT), true },
        { "table_name", TYPE(TEXT), true },
        { "column_name", TYPE(TEXT), true },
        { "ordinal_position", TYPE(INTEGER), true } },
      8,
      NULL,
      fill_schema_key_columns },
    { "weft_indexes",
      { { "table_name", TYPE(TEXT), true },
        { "index_name", TYPE(TEXT), true },
        { "kind", TYPE(TEXT), true },
        { "columns", TYPE(TEXT), true },
        { "is_unique", TYPE(BOOLEAN), true } },
      5,
      fill_indexes,
      NULL },
    { "weft_one_row", { { "one", TYPE(INTEGER), true } }, 1, NULL, fill_one_row },
};

static weft_status fill(Maker *maker, Arena *arena, const struct VirtualTable *def)
{
    const char **names;
    int          n_names;
    if (def->fill_all) return def->fill_all(maker, arena);
    TRY(store_list(maker->db->store, arena, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        const Table *table;
        if (store_peek_table(maker->db->store, names[i], &table, &(Error){ 0 }))
            continue;  // dropped meanwhile, or damaged
        const weft_status status = def->fill(maker, table);
        table_release(table);
        TRY(status);
    }
    return WEFT_OK;
}

weft_status virtual_table(weft_session *session, Arena *arena, const char *name, const Table **table, Error *err)
{
    weft_db *db = session->db;
    Maker maker = { .db = db, .session = session, .err = err };
    u64   n_rows;
    *table = NULL;
    for (int i = 0; i < COUNT_OF(virtual_tables); i++) {
        const struct VirtualTable *def = &virtual_tables[i];
        if (strcmp(name, def->name) != 0) continue;
        TRY(store_open_passing(&db->looks, &maker.store, err));
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
