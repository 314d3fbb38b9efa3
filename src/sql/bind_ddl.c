// bind_ddl.c - CREATE TABLE and DROP TABLE.
//
// A table is its columns (names, types, NOT NULL) and its keys (bind_keys.c).  Other constraints are refused, not
// ignored.

#include "sql/sql_int.h"

enum { COLUMNS_MAX = 1600 };                                // as in PostgreSQL

// ---- CREATE TABLE ---------------------------------------------------------------------------------------------------

static const char *constraint_name(int kind)
{
    switch (kind) {
        case PG_QUERY__CONSTR_TYPE__CONSTR_DEFAULT:   return "DEFAULT";
        case PG_QUERY__CONSTR_TYPE__CONSTR_IDENTITY:  return "GENERATED AS IDENTITY";
        case PG_QUERY__CONSTR_TYPE__CONSTR_GENERATED: return "GENERATED ALWAYS AS";
        case PG_QUERY__CONSTR_TYPE__CONSTR_CHECK:     return "CHECK";
        case PG_QUERY__CONSTR_TYPE__CONSTR_EXCLUSION: return "EXCLUDE";
        case PG_QUERY__CONSTR_TYPE__CONSTR_FOREIGN:   return "REFERENCES";
        default:                                      return "DEFERRABLE";
    }
}

static weft_status bind_constraints(Binder *binder, const PgQuery__ColumnDef *column, ColumnDef *def)
{
    bool is_nullable = false;
    for (size_t i = 0; i < column->n_constraints; i++) {
        const PgQuery__Constraint *constraint = column->constraints[i]->constraint;
        if (constraint->contype == PG_QUERY__CONSTR_TYPE__CONSTR_NOTNULL) def->not_null = true;
        else if (constraint->contype == PG_QUERY__CONSTR_TYPE__CONSTR_NULL) is_nullable = true;
        else if (!is_key_constraint(constraint))
            return refuse(binder, constraint->location, constraint_name((int)constraint->contype));
        if (is_nullable && def->not_null)
            return fail(binder->err, WEFT_SYNTAX_ERROR, constraint->location,
                        "conflicting NULL/NOT NULL declarations for column \"%s\" of table", column->colname);
    }
    return WEFT_OK;
}

static weft_status bind_column_def(Binder *binder, const PgQuery__ColumnDef *column, ColumnDef *def)
{
    TypeDetail detail;
    if (!column->type_name)
        return fail(binder->err, WEFT_SYNTAX_ERROR, column->location, "column \"%s\" has no type", column->colname);
    if (column->coll_clause) return refuse(binder, column->coll_clause->location, "COLLATE");
    if (column->compression[0] || column->storage[0] || column->n_fdwoptions)
        return refuse(binder, column->location, "a storage option");
    TRY(bind_type(binder, column->type_name, &detail));
    if (detail.type.kind == TYPE_INTERVAL && column->type_name->n_typmods)
        return refuse(binder, column->type_name->location, "a column of an interval with fields or a precision");
    if (detail.type.kind == TYPE_INTERVAL) detail.type = TYPE_OF_STORED_INTERVAL;
    def->name = arena_strdup(binder->arena, column->colname);
    def->type = detail.type;
    return bind_constraints(binder, column, def);
}

static weft_status add_column(Binder *binder, const PgQuery__ColumnDef *column, Map *seen, Statement *statement)
{
    u64 ignored;
    if (map_get(seen, column->colname, strlen(column->colname), &ignored))
        return fail(binder->err, WEFT_DUPLICATE_COLUMN, column->location, "column \"%s\" specified more than once",
                    column->colname);
    map_set(seen, column->colname, strlen(column->colname), 1);
    if (statement->n_columns == COLUMNS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, column->location, "tables can have at most %d columns",
                    COLUMNS_MAX);
    return bind_column_def(binder, column, LIST_PUSH(binder->arena, statement->columns, statement->n_columns));
}

// Keys come when all columns are known.
static weft_status bind_table_keys(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement)
{
    for (size_t i = 0; i < create->n_table_elts; i++) {
        const ParseNode *element = create->table_elts[i];
        if (element->node_case == PG_QUERY__NODE__NODE_CONSTRAINT) {
            TRY(bind_table_key(binder, element->constraint, NULL, statement));
            continue;
        }
        const PgQuery__ColumnDef *column = element->column_def;
        for (size_t k = 0; k < column->n_constraints; k++)
            if (is_key_constraint(column->constraints[k]->constraint))
                TRY(bind_table_key(binder, column->constraints[k]->constraint, column->colname, statement));
    }
    return WEFT_OK;
}

static weft_status refuse_table_options(Binder *binder, const PgQuery__CreateStmt *create)
{
    const int at = create->relation->location;
    if (strcmp(create->relation->relpersistence, "u") == 0) return refuse(binder, at, "CREATE UNLOGGED TABLE");
    if (create->partspec) return refuse(binder, create->partspec->location, "PARTITION BY");
    if (create->partbound) return refuse(binder, create->partbound->location, "PARTITION OF");
    if (create->n_inh_relations) return refuse(binder, node_at(create->inh_relations[0]), "INHERITS");
    if (create->of_typename) return refuse(binder, create->of_typename->location, "CREATE TABLE OF");
    if (create->tablespacename[0]) return refuse(binder, sql_find_word(binder->text, "tablespace"), "TABLESPACE");
    if (create->access_method[0]) return refuse(binder, sql_find_word(binder->text, "using"), "USING");
    if (create->oncommit > PG_QUERY__ON_COMMIT_ACTION__ONCOMMIT_NOOP) return refuse(binder, at, "ON COMMIT");
    return WEFT_OK;
}

weft_status bind_create(Binder *binder, const PgQuery__CreateStmt *create, Statement *statement)
{
    statement->kind = STATEMENT_CREATE_TABLE;
    statement->if_exists = create->if_not_exists;
    statement->at = create->relation->location;
    TRY(refuse_table_options(binder, create));
    TRY(bind_new_table_name(binder, create->relation, statement));
    TRY(bind_stream_options(binder, create, statement));
    Map *seen = map_new(binder->arena);
    for (size_t i = 0; i < create->n_table_elts; i++) {
        const ParseNode *element = create->table_elts[i];
        if (element->node_case == PG_QUERY__NODE__NODE_CONSTRAINT) {
            if (is_key_constraint(element->constraint)) continue;
            return refuse(binder, element->constraint->location, constraint_name((int)element->constraint->contype));
        }
        if (element->node_case != PG_QUERY__NODE__NODE_COLUMN_DEF)
            return refuse(binder, sql_find_word(binder->text, "like"), "LIKE in CREATE TABLE");
        TRY(add_column(binder, element->column_def, seen, statement));
    }
    if (statement->n_columns == 0) return refuse(binder, statement->at, "a table without columns");
    TRY(bind_table_keys(binder, create, statement));
    return check_stream(binder, statement);
}

// ---- DROP -----------------------------------------------------------------------------------------------------

static const char *object_name(int kind)
{
    switch (kind) {
        case PG_QUERY__OBJECT_TYPE__OBJECT_SEQUENCE:  return "DROP SEQUENCE";
        case PG_QUERY__OBJECT_TYPE__OBJECT_SCHEMA:    return "DROP SCHEMA";
        case PG_QUERY__OBJECT_TYPE__OBJECT_FUNCTION:  return "DROP FUNCTION";
        case PG_QUERY__OBJECT_TYPE__OBJECT_TYPE:      return "DROP TYPE";
        case PG_QUERY__OBJECT_TYPE__OBJECT_EXTENSION: return "DROP EXTENSION";
        case PG_QUERY__OBJECT_TYPE__OBJECT_TRIGGER:   return "DROP TRIGGER";
        case PG_QUERY__OBJECT_TYPE__OBJECT_FOREIGN_TABLE: return "DROP FOREIGN TABLE";
        default:                                      return "DROP of anything but a table";
    }
}

// A list of one or two strings: [schema,] table.
static weft_status bind_dropped(Binder *binder, const ParseNode *object, int at, const char **name, TableHome *home)
{
    const PgQuery__List *parts = object->node_case == PG_QUERY__NODE__NODE_LIST ? object->list : NULL;
    const char *last = parts && parts->n_items ? node_string(parts->items[parts->n_items - 1]) : NULL;
    const char *schema = parts && parts->n_items == 2 ? node_string(parts->items[0]) : "";
    if (!last || !schema || parts->n_items > 2) return refuse(binder, at, "naming a database");
    *name = name_in_schema(binder, schema, last, home);
    return WEFT_OK;
}

weft_status bind_drop(Binder *binder, const PgQuery__DropStmt *drop, Statement *statement)
{
    statement->kind = STATEMENT_DROP_TABLE;
    statement->if_exists = drop->missing_ok;
    statement->is_continuous = drop->remove_type == PG_QUERY__OBJECT_TYPE__OBJECT_MATVIEW;
    statement->is_view = drop->remove_type == PG_QUERY__OBJECT_TYPE__OBJECT_VIEW || statement->is_continuous;
    statement->cascade = drop->behavior == PG_QUERY__DROP_BEHAVIOR__DROP_CASCADE;
    if (drop->remove_type == PG_QUERY__OBJECT_TYPE__OBJECT_INDEX) statement->kind = STATEMENT_DROP_INDEX;
    else if (!statement->is_view && drop->remove_type != PG_QUERY__OBJECT_TYPE__OBJECT_TABLE)
        return refuse(binder, statement->at, object_name((int)drop->remove_type));
    for (size_t i = 0; i < drop->n_objects; i++)
        TRY(bind_dropped(binder, drop->objects[i], statement->at,
                         LIST_PUSH(binder->arena, statement->names, statement->n_names),
                         LIST_PUSH(binder->arena, statement->homes, statement->n_homes)));
    return WEFT_OK;
}
