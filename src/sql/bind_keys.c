// bind_keys.c - PRIMARY KEY and UNIQUE, CREATE INDEX, DROP INDEX, ALTER TABLE ... ADD and DROP CONSTRAINT.
//
// Keys are checked by the store whenever rows are appended.  An index that promises nothing is a name: scripts that
// people bring from PostgreSQL create and drop them, and answers do not depend on them.  Its expressions are bound all
// the same, so that one that would be wrong in PostgreSQL is wrong here.  What a unique index can have there and is not
// checked here (expressions, WHERE) is refused.

#include "sql/sql_int.h"

typedef struct KeyColumns {            // those of a table that is, or of one that is being made
    const char *table;
    const char **names;
    int         n_names;
} KeyColumns;

static weft_status add_key_column(Binder *binder, const KeyColumns *columns, const char *name, int at, IndexDef *index)
{
    int found = -1;
    for (int i = 0; i < columns->n_names && found < 0; i++)
        if (strcmp(columns->names[i], name) == 0) found = i;
    if (found < 0) return no_such_column(binder, columns->table, columns->names, columns->n_names, name, at);
    for (int i = 0; i < index->n_columns && index->kind != INDEX_PLAIN; i++)
        if (index->columns[i] == found)
            return fail(binder->err, WEFT_DUPLICATE_COLUMN, at, "column \"%s\" appears twice in the key", name);
    if (index->n_columns == INDEX_COLUMNS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, at, "an index can have at most %d columns", INDEX_COLUMNS_MAX);
    index->columns[index->n_columns++] = (u16)found;
    return WEFT_OK;
}

// ---- PRIMARY KEY and UNIQUE -----------------------------------------------------------------------------------------

static weft_status refuse_key_options(Binder *binder, const PgQuery__Constraint *constraint)
{
    const int at = constraint->location;
    if (constraint->deferrable || constraint->initdeferred) return refuse(binder, at, "a key that is DEFERRABLE");
    if (constraint->nulls_not_distinct) return refuse(binder, at, "NULLS NOT DISTINCT");
    if (constraint->n_including) return refuse(binder, at, "INCLUDE in a key");
    if (constraint->n_options) return refuse(binder, at, "WITH in a key");
    if (constraint->indexname[0]) return refuse(binder, at, "a key USING INDEX");
    if (constraint->indexspace[0]) return refuse(binder, at, "TABLESPACE");
    return WEFT_OK;
}

// A constraint's name and columns.  COLUMN: the one behind which it stands; NULL: it names its columns itself.
static weft_status bind_key(Binder *binder, const PgQuery__Constraint *constraint, const KeyColumns *columns,
                            const char *column, IndexDef *index)
{
    const bool is_primary = constraint->contype == PG_QUERY__CONSTR_TYPE__CONSTR_PRIMARY;
    TRY(refuse_key_options(binder, constraint));
    index->kind = is_primary ? INDEX_PRIMARY_KEY : INDEX_UNIQUE_KEY;
    index->name = constraint->conname[0] ? arena_strdup(binder->arena, constraint->conname) : NULL;
    if (column) return add_key_column(binder, columns, column, constraint->location, index);
    for (size_t i = 0; i < constraint->n_keys; i++)
        TRY(add_key_column(binder, columns, node_string(constraint->keys[i]), constraint->location, index));
    return WEFT_OK;
}

bool is_key_constraint(const PgQuery__Constraint *constraint)
{
    return constraint->contype == PG_QUERY__CONSTR_TYPE__CONSTR_PRIMARY ||
           constraint->contype == PG_QUERY__CONSTR_TYPE__CONSTR_UNIQUE;
}

weft_status bind_table_key(Binder *binder, const PgQuery__Constraint *constraint, const char *column,
                           Statement *statement)
{
    KeyColumns columns = { .table = statement->name, .n_names = statement->n_columns };
    columns.names = arena_array(binder->arena, const char *, statement->n_columns + 1);
    for (int i = 0; i < statement->n_columns; i++) columns.names[i] = statement->columns[i].name;
    IndexDef index = { 0 };
    TRY(bind_key(binder, constraint, &columns, column, &index));
    for (int i = 0; i < statement->n_indexes && index.kind == INDEX_PRIMARY_KEY; i++)
        if (statement->indexes[i].kind == INDEX_PRIMARY_KEY)
            return fail(binder->err, WEFT_INVALID_TABLE, constraint->location,
                        "multiple primary keys for table \"%s\" are not allowed", statement->name);
    for (int i = 0; i < index.n_columns && index.kind == INDEX_PRIMARY_KEY; i++)
        statement->columns[index.columns[i]].not_null = true;
    *LIST_PUSH(binder->arena, statement->indexes, statement->n_indexes) = index;
    return WEFT_OK;
}

// ---- CREATE INDEX ---------------------------------------------------------------------------------------------------

static weft_status check_method(Binder *binder, const PgQuery__IndexStmt *stmt)
{
    static const char *const methods[] = { "btree", "hash", "brin", "gin", "gist", "spgist" };
    for (int i = 0; i < COUNT_OF(methods); i++)
        if (strcmp(stmt->access_method, methods[i]) == 0) return WEFT_OK;
    return fail(binder->err, WEFT_UNDEFINED_OBJECT, sql_find_word(binder->text, "using"),
                "access method \"%s\" does not exist", stmt->access_method);
}

static weft_status refuse_unique_options(Binder *binder, const PgQuery__IndexStmt *stmt, int at)
{
    if (stmt->where_clause) return refuse(binder, node_at(stmt->where_clause), "a unique index with WHERE");
    if (stmt->nulls_not_distinct) return refuse_word(binder, "nulls", "NULLS NOT DISTINCT");
    if (strcmp(stmt->access_method, "btree") != 0)
        return refuse_word(binder, "using", "a unique index of another method than btree");
    for (size_t i = 0; i < stmt->n_index_params; i++) {
        const PgQuery__IndexElem *element = stmt->index_params[i]->index_elem;
        if (element->expr) return refuse(binder, node_at(element->expr), "a unique index on an expression");
        if (element->n_collation) return refuse(binder, at, "COLLATE");
        if (element->n_opclass) return refuse(binder, at, "an operator class of a unique index");
    }
    return WEFT_OK;
}

static PgQuery__Node *make_node(Arena *arena, PgQuery__Node__NodeCase kind)
{
    PgQuery__Node *node = arena_make(arena, PgQuery__Node);
    pg_query__node__init(node);
    node->node_case = kind;
    return node;
}

// An item of a select list; VALUE is NULL: the constant NULL.
static PgQuery__Node *make_target(Arena *arena, PgQuery__Node *value)
{
    PgQuery__Node *node = make_node(arena, PG_QUERY__NODE__NODE_RES_TARGET);
    node->res_target = arena_make(arena, PgQuery__ResTarget);
    pg_query__res_target__init(node->res_target);
    if (!value) {
        value = make_node(arena, PG_QUERY__NODE__NODE_A_CONST);
        value->a_const = arena_make(arena, PgQuery__AConst);
        pg_query__a__const__init(value->a_const);
        value->a_const->isnull = true;
    }
    node->res_target->val = value;
    return node;
}

// Binds "select expression, ... from table where condition", to find what is wrong with them.
static weft_status check_expressions(Binder *binder, const PgQuery__IndexStmt *stmt)
{
    PgQuery__SelectStmt *select = arena_make(binder->arena, PgQuery__SelectStmt);
    PgQuery__Node       *from = make_node(binder->arena, PG_QUERY__NODE__NODE_RANGE_VAR);
    bool                 has_expression = stmt->where_clause != NULL;
    Plan                *ignored;
    pg_query__select_stmt__init(select);
    from->range_var = stmt->relation;
    select->from_clause = &from;
    select->n_from_clause = 1;
    select->where_clause = stmt->where_clause;
    select->n_target_list = stmt->n_index_params;
    select->target_list = arena_array(binder->arena, PgQuery__Node *, stmt->n_index_params + 1);
    for (size_t i = 0; i < stmt->n_index_params; i++) {
        PgQuery__Node *expr = stmt->index_params[i]->index_elem->expr;
        has_expression |= expr != NULL;
        select->target_list[i] = make_target(binder->arena, expr);
    }
    return has_expression ? bind_plan(binder, select, &ignored) : WEFT_OK;
}

static KeyColumns columns_of(Binder *binder, const Table *table)
{
    KeyColumns columns = { .table = table->name, .n_names = table->n_columns };
    columns.names = arena_array(binder->arena, const char *, table->n_columns + 1);
    for (int i = 0; i < table->n_columns; i++) columns.names[i] = table->columns[i].name;
    return columns;
}

weft_status bind_create_index(Binder *binder, const PgQuery__IndexStmt *stmt, Statement *statement)
{
    const Table *table;
    IndexDef    *index = LIST_PUSH(binder->arena, statement->indexes, statement->n_indexes);
    statement->kind = STATEMENT_ADD_INDEX;
    statement->if_exists = stmt->if_not_exists;
    statement->at = stmt->relation->location;
    TRY(check_method(binder, stmt));
    if (stmt->table_space[0]) return refuse_word(binder, "tablespace", "TABLESPACE");
    TRY(bind_table_name(binder, stmt->relation, &statement->name, &statement->home));
    TRY(bind_table(binder, stmt->relation, &table));
    index->kind = stmt->unique ? INDEX_UNIQUE : INDEX_PLAIN;
    index->name = stmt->idxname[0] ? arena_strdup(binder->arena, stmt->idxname) : NULL;
    if (stmt->unique) TRY(refuse_unique_options(binder, stmt, statement->at));
    const KeyColumns columns = columns_of(binder, table);
    for (size_t i = 0; i < stmt->n_index_params + stmt->n_index_including_params; i++) {
        const bool       is_included = i >= stmt->n_index_params;
        const ParseNode *node = is_included ? stmt->index_including_params[i - stmt->n_index_params]
                                            : stmt->index_params[i];
        IndexDef         seen = *index;                    // of what is included only the name is checked
        if (node->index_elem->expr) continue;
        TRY(add_key_column(binder, &columns, node->index_elem->name, statement->at, is_included ? &seen : index));
    }
    return check_expressions(binder, stmt);
}

// ---- ALTER TABLE ... CONSTRAINT -------------------------------------------------------------------------------------

static weft_status bind_add_key(Binder *binder, const PgQuery__RangeVar *range, const PgQuery__Constraint *constraint,
                                Statement *statement)
{
    const Table *table;
    IndexDef    *index = LIST_PUSH(binder->arena, statement->indexes, statement->n_indexes);
    statement->kind = STATEMENT_ADD_INDEX;
    TRY(bind_table(binder, range, &table));
    const KeyColumns columns = columns_of(binder, table);
    return bind_key(binder, constraint, &columns, NULL, index);
}

weft_status bind_alter_table(Binder *binder, const PgQuery__AlterTableStmt *alter, Statement *statement)
{
    const PgQuery__AlterTableCmd *command = alter->n_cmds ? alter->cmds[0]->alter_table_cmd : NULL;
    const bool adds = command && command->subtype == PG_QUERY__ALTER_TABLE_TYPE__AT_AddConstraint &&
                      command->def && is_key_constraint(command->def->constraint);
    const bool drops = command && command->subtype == PG_QUERY__ALTER_TABLE_TYPE__AT_DropConstraint;
    if (alter->objtype != PG_QUERY__OBJECT_TYPE__OBJECT_TABLE || (!adds && !drops))
        return refuse(binder, statement->at, "ALTER TABLE");
    if (alter->n_cmds > 1) return refuse(binder, statement->at, "several changes in one ALTER TABLE");
    if (alter->missing_ok) return refuse(binder, statement->at, "ALTER TABLE IF EXISTS");
    statement->at = alter->relation->location;
    TRY(bind_table_name(binder, alter->relation, &statement->name, &statement->home));
    if (adds) return bind_add_key(binder, alter->relation, command->def->constraint, statement);
    statement->kind = STATEMENT_DROP_INDEX;
    statement->if_exists = command->missing_ok;
    *LIST_PUSH(binder->arena, statement->names, statement->n_names) = arena_strdup(binder->arena, command->name);
    *LIST_PUSH(binder->arena, statement->homes, statement->n_homes) = HOME_ANY;
    return WEFT_OK;
}
