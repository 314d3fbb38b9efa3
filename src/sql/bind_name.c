// bind_name.c - what a column's name means.
//
// A scope lists the columns that can be named without a table, in the order of *, and the items of FROM that can stand
// before the dot.  A condition of a join sees only the two sides of its join, so it has a scope of its own:
//
//     a(x, y) join b(x, z) using (x)     scope: x, y, z      a.x and b.x are still there when asked for by table
//
// A name that is not found is looked for in the scopes of the queries around, and what is found there makes this query
// a correlated one: all blocks from here to before the one that has it list the column (Block.outer).

#include "sql/sql_int.h"

// Each name in a query is compared with all columns of its tables.
static inline bool is_same_name(const char *a, const char *b) { return a[0] == b[0] && strcmp(a, b) == 0; }

// ---- scopes ---------------------------------------------------------------------------------------------------------

void scope_add_column(Binder *binder, Scope *scope, ScopeColumn column)
{
    *LIST_PUSH(binder->arena, scope->columns, scope->n_columns) = column;
}

bool scope_has_name(const Scope *scope, const char *name)
{
    for (int i = 0; i < scope->n_columns; i++)
        if (is_same_name(scope->columns[i].name, name)) return true;
    return false;
}

static bool is_called(const FromItem *source, const char *name, TableHome home)
{
    return source->name && strcmp(source->name, name) == 0 && (home == HOME_ANY || source->home == home);
}

static const FromItem *find_among(const FromItem *const *sources, int n_sources, const char *name, TableHome home)
{
    for (int i = 0; i < n_sources; i++)
        if (is_called(sources[i], name, home)) return sources[i];
    return NULL;
}

// public.t and pg_temp.t may stand beside each other.
static bool is_name_taken(const Block *block, const FromItem *source)
{
    for (int i = 0; i < block->n_sources; i++) {
        const FromItem *other = block->sources[i];
        const bool      are_two = other->home != HOME_ANY && source->home != HOME_ANY && other->home != source->home;
        if (!are_two && is_called(other, source->name, HOME_ANY)) return true;
    }
    return false;
}

weft_status scope_add_source(Binder *binder, Scope *scope, const FromItem *source, int at)
{
    Block *block = binder->place.block;
    if (source->name && is_name_taken(block, source))
        return fail(binder->err, WEFT_DUPLICATE_ALIAS, at, "table name \"%s\" specified more than once", source->name);
    *LIST_PUSH(binder->arena, block->sources, block->n_sources) = source;
    *LIST_PUSH(binder->arena, scope->sources, scope->n_sources) = source;
    ScopeColumn *columns = LIST_PUSH_SOME(binder->arena, scope->columns, scope->n_columns, source->n_columns);
    for (int c = 0; c < source->n_columns; c++) columns[c] = (ScopeColumn){ source->names[c], source->columns[c] };
    return WEFT_OK;
}

// ---- what the text names --------------------------------------------------------------------------------------------

// Notes that the text names COLUMN of the scope's query, and so do the queries from here to before that one.
static void note_name(Binder *binder, const Scope *scope, int column, int at)
{
    Block *user = binder->place.block;
    for (Block *block = user; block && block != scope->owner; block = block->around)
        columns_add(binder->arena, &block->outer, column);
    *LIST_PUSH(binder->arena, binder->named, binder->n_named) =
        (NamedColumn){
            .column = column, .at = at, .owner = scope->owner, .user = user, .subquery = -1, .mark = -1
        };
}

Block *named_owner(const Binder *binder, int from)
{
    for (Block *block = binder->place.block; block; block = block->around)
        for (int i = from; i < binder->n_named; i++)
            if (binder->named[i].owner == block) return block;
    return binder->place.block;
}

void named_in_agg(Binder *binder, int from, const Block *owner)
{
    for (int i = from; i < binder->n_named; i++) binder->named[i].in_agg |= binder->named[i].owner == owner;
}

// ---- tables before the dot ------------------------------------------------------------------------------------------

static weft_status out_of_sight(Binder *binder, const char *name, int at)
{
    fail(binder->err, WEFT_UNDEFINED_TABLE, at, "invalid reference to FROM-clause entry for table \"%s\"", name);
    error_hint(binder->err,
               "There is an entry for table \"%s\", but it cannot be referenced from this part of the query.", name);
    return WEFT_UNDEFINED_TABLE;
}

// *SCOPE: the one that has it, of this query or of one around.
static weft_status find_source(Binder *binder, const char *name, TableHome home, int at, const FromItem **source,
                               const Scope **scope)
{
    for (*scope = binder->place.scope; *scope; *scope = (*scope)->outer) {
        const FromItem *const *sources = (*scope)->sources;
        int                    n_found = 0;
        *source = find_among(sources, (*scope)->n_sources, name, home);
        for (int i = 0; i < (*scope)->n_sources; i++) n_found += is_called(sources[i], name, home);
        if (n_found > 1)
            return fail(binder->err, WEFT_AMBIGUOUS_ALIAS, at, "table reference \"%s\" is ambiguous", name);
        if (*source) return WEFT_OK;
    }
    for (const Block *block = binder->place.block; block; block = block->around)
        if (find_among(block->sources, block->n_sources, name, HOME_ANY)) return out_of_sight(binder, name, at);
    return fail(binder->err, WEFT_UNDEFINED_TABLE, at, "missing FROM-clause entry for table \"%s\"", name);
}

// The table's name in schema.table.column, table.column or table.*; NULL when there is none.
static weft_status qualifier(Binder *binder, const PgQuery__ColumnRef *ref, const char **table, TableHome *home)
{
    *table = NULL, *home = HOME_ANY;
    if (ref->n_fields > 3) return refuse(binder, ref->location, "naming a database");
    if (ref->n_fields == 3) {
        const char *schema = node_string(ref->fields[0]);
        if (!schema || (strcmp(schema, "public") != 0 && strcmp(schema, "pg_temp") != 0))
            return refuse(binder, ref->location, "a schema other than public");
        *home = strcmp(schema, "public") == 0 ? HOME_PUBLIC : HOME_TEMPORARY;
    }
    if (ref->n_fields > 1) {
        *table = node_string(ref->fields[ref->n_fields - 2]);
        if (!*table) return fail(binder->err, WEFT_SYNTAX_ERROR, ref->location, "improper use of \"*\"");
    }
    return WEFT_OK;
}

// ---- columns --------------------------------------------------------------------------------------------------------

static weft_status ambiguous(Binder *binder, const char *name, int at)
{
    return fail(binder->err, WEFT_AMBIGUOUS_COLUMN, at, "column reference \"%s\" is ambiguous", name);
}

static weft_status bind_qualified(Binder *binder, const char *table, TableHome home, const char *name, int at,
                                  Expr **out)
{
    const FromItem *source;
    const Scope    *scope;
    int             found = -1;
    TRY(find_source(binder, table, home, at, &source, &scope));
    for (int i = 0; i < source->n_columns; i++) {
        if (!is_same_name(source->names[i], name)) continue;
        if (found >= 0) return ambiguous(binder, name, at);
        found = i;
    }
    if (found < 0) return no_such_column(binder, source->shown, source->names, source->n_columns, name, at);
    note_name(binder, scope, source->columns[found], at);
    return term_of_column(binder, source->columns[found], at, out);
}

static weft_status no_column(Binder *binder, const char *name, int at)
{
    const Scope *scope = binder->place.scope;
    const int    n_columns = scope ? scope->n_columns : 0;
    const char **names = arena_array(binder->arena, const char *, n_columns + 1);
    for (int i = 0; i < n_columns; i++) names[i] = scope->columns[i].name;
    return no_such_column(binder, NULL, names, n_columns, name, at);
}

// NULL: the scope has none of that name.
static weft_status find_column(Binder *binder, const Scope *scope, const char *name, int at, const ScopeColumn **found)
{
    for (int i = 0; i < scope->n_columns; i++) {
        if (!is_same_name(scope->columns[i].name, name)) continue;
        if (*found) return ambiguous(binder, name, at);
        *found = &scope->columns[i];
    }
    return WEFT_OK;
}

weft_status bind_column(Binder *binder, const PgQuery__ColumnRef *ref, Expr **out)
{
    const int    at = ref->location;
    const char  *table, *name = ref->n_fields ? node_string(ref->fields[ref->n_fields - 1]) : NULL;
    const ScopeColumn *found = NULL;
    TableHome          home;
    if (!name) return fail(binder->err, WEFT_SYNTAX_ERROR, at, "row expansion via \"*\" is not supported here");
    TRY(qualifier(binder, ref, &table, &home));
    if (table) return bind_qualified(binder, table, home, name, at, out);
    for (const Scope *scope = binder->place.scope; scope && !found; scope = scope->outer) {
        TRY(find_column(binder, scope, name, at, &found));
        if (found) note_name(binder, scope, found->column, at);
    }
    if (!found) return no_column(binder, name, at);
    return term_of_column(binder, found->column, at, out);
}

weft_status bind_star(Binder *binder, const PgQuery__ColumnRef *ref, const ScopeColumn **columns, int *n_columns)
{
    const Scope    *scope = binder->place.scope;
    const char     *table;
    const FromItem *source;
    const Scope    *found;
    TableHome       home;
    TRY(qualifier(binder, ref, &table, &home));
    *columns = scope->columns, *n_columns = scope->n_columns;
    if (!table) {
        if (scope->n_sources) return WEFT_OK;
        return fail(binder->err, WEFT_SYNTAX_ERROR, ref->location, "SELECT * with no tables specified is not valid");
    }
    TRY(find_source(binder, table, home, ref->location, &source, &found));
    for (int i = 0; i < source->n_columns; i++) note_name(binder, found, source->columns[i], ref->location);
    ScopeColumn *list = arena_array(binder->arena, ScopeColumn, source->n_columns + 1);
    for (int i = 0; i < source->n_columns; i++) list[i] = (ScopeColumn){ source->names[i], source->columns[i] };
    *columns = list, *n_columns = source->n_columns;
    return WEFT_OK;
}
