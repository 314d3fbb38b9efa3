// nodes.c - what all binding needs: places and names of parse nodes, messages, tables.

#include "sql/sql_int.h"

// ---- messages -------------------------------------------------------------------------------------------------------

weft_status refuse(Binder *binder, int at, const char *what)
{
    const Refusal *refusal = refusal_find(REFUSAL_FEATURE, what);
    fail(binder->err, WEFT_UNSUPPORTED, at, "%s is not supported yet", what);
    if (refusal && refusal->instead) error_hint(binder->err, "%s", refusal->instead);
    return WEFT_UNSUPPORTED;
}

bool refuse_known(Binder *binder, int at, RefusalKind kind, const char *name)
{
    static const char *const kinds[] = { [REFUSAL_FUNCTION] = "function", [REFUSAL_TYPE] = "type",
                                         [REFUSAL_OPERATOR] = "operator" };
    const Refusal *refusal = refusal_find(kind, name);
    if (!refusal) return false;
    fail(binder->err, WEFT_UNSUPPORTED, at, "%s %s is not supported yet", kinds[kind], name);
    if (refusal->instead) error_hint(binder->err, "%s", refusal->instead);
    return true;
}

weft_status refuse_word(Binder *binder, const char *word, const char *what)
{
    return refuse(binder, sql_find_word(binder->text, word), what);
}

// ---- parse nodes ----------------------------------------------------------------------------------------------------

const char *node_string(const ParseNode *node)
{
    return node->node_case == PG_QUERY__NODE__NODE_STRING ? node->string->sval : NULL;
}

int node_at(const ParseNode *node)
{
    if (!node) return -1;
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_A_CONST:           return node->a_const->location;
        case PG_QUERY__NODE__NODE_A_EXPR:            return node->a_expr->location;
        case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:      return node->a_array_expr->location;
        case PG_QUERY__NODE__NODE_A_INDIRECTION:     return node_at(node->a_indirection->arg);
        case PG_QUERY__NODE__NODE_BOOL_EXPR:         return node->bool_expr->location;
        case PG_QUERY__NODE__NODE_BOOLEAN_TEST:      return node->boolean_test->location;
        case PG_QUERY__NODE__NODE_CASE_EXPR:         return node->case_expr->location;
        case PG_QUERY__NODE__NODE_COALESCE_EXPR:     return node->coalesce_expr->location;
        case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:    return node->collate_clause->location;
        case PG_QUERY__NODE__NODE_COLUMN_DEF:        return node->column_def->location;
        case PG_QUERY__NODE__NODE_COLUMN_REF:        return node->column_ref->location;
        case PG_QUERY__NODE__NODE_CONSTRAINT:        return node->constraint->location;
        case PG_QUERY__NODE__NODE_DEF_ELEM:          return node->def_elem->location;
        case PG_QUERY__NODE__NODE_FUNC_CALL:         return node->func_call->location;
        case PG_QUERY__NODE__NODE_GROUPING_FUNC:     return node->grouping_func->location;
        case PG_QUERY__NODE__NODE_GROUPING_SET:      return node->grouping_set->location;
        case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:      return node->min_max_expr->location;
        case PG_QUERY__NODE__NODE_NAMED_ARG_EXPR:    return node->named_arg_expr->location;
        case PG_QUERY__NODE__NODE_NULL_TEST:         return node->null_test->location;
        case PG_QUERY__NODE__NODE_PARAM_REF:         return node->param_ref->location;
        case PG_QUERY__NODE__NODE_RANGE_VAR:         return node->range_var->location;
        case PG_QUERY__NODE__NODE_RES_TARGET:        return node->res_target->location;
        case PG_QUERY__NODE__NODE_ROW_EXPR:          return node->row_expr->location;
        case PG_QUERY__NODE__NODE_SELECT_STMT:
            return node->select_stmt->n_target_list ? node_at(node->select_stmt->target_list[0]) : -1;
        case PG_QUERY__NODE__NODE_SET_TO_DEFAULT:    return node->set_to_default->location;
        case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION: return node->sqlvalue_function->location;
        case PG_QUERY__NODE__NODE_SUB_LINK:          return node->sub_link->location;
        case PG_QUERY__NODE__NODE_TYPE_CAST:
            return node->type_cast->location >= 0 ? node->type_cast->location : node->type_cast->type_name->location;
        case PG_QUERY__NODE__NODE_XML_EXPR:          return node->xml_expr->location;
        case PG_QUERY__NODE__NODE_XML_SERIALIZE:     return node->xml_serialize->location;
        default:                                     return -1;
    }
}

const char *bare_name(const ParseNode *node)
{
    if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF || node->column_ref->n_fields != 1) return NULL;
    return node_string(node->column_ref->fields[0]);
}

// The name of a subquery's column; of VALUES it is column1.
static const char *subquery_name(const PgQuery__SubLink *link)
{
    if (link->sub_link_type == PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK) return "exists";
    if (link->sub_link_type != PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK || !link->subselect) return NULL;
    const PgQuery__SelectStmt *stmt = link->subselect->select_stmt;
    while (stmt->larg) stmt = stmt->larg;
    if (stmt->n_values_lists) return "column1";
    if (!stmt->n_target_list) return NULL;
    const PgQuery__ResTarget *target = stmt->target_list[0]->res_target;
    return target->name[0] ? target->name : output_name(target->val);
}

// PostgreSQL's names for what has no AS: the strongest hint wins, a column's or function's name over a type's.
static const char *named(const ParseNode *node, int *strength)
{
    *strength = 2;
    switch (node->node_case) {
        case PG_QUERY__NODE__NODE_COLUMN_REF: {
            const PgQuery__ColumnRef *ref = node->column_ref;
            const char *name = ref->n_fields ? node_string(ref->fields[ref->n_fields - 1]) : NULL;
            if (name) return name;
            break;
        }
        case PG_QUERY__NODE__NODE_FUNC_CALL: {
            const PgQuery__FuncCall *call = node->func_call;
            const char *name = call->n_funcname ? node_string(call->funcname[call->n_funcname - 1]) : NULL;
            if (name) return name;
            break;
        }
        case PG_QUERY__NODE__NODE_A_EXPR:
            if (node->a_expr->kind == PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF) return "nullif";
            break;
        case PG_QUERY__NODE__NODE_SUB_LINK: {
            const char *name = subquery_name(node->sub_link);
            if (name) return name;
            break;
        }
        case PG_QUERY__NODE__NODE_COALESCE_EXPR: return "coalesce";
        case PG_QUERY__NODE__NODE_GROUPING_FUNC: return "grouping";
        case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:
            return node->min_max_expr->op == PG_QUERY__MIN_MAX_OP__IS_GREATEST ? "greatest" : "least";
        case PG_QUERY__NODE__NODE_TYPE_CAST: {
            const PgQuery__TypeName *type = node->type_cast->type_name;
            const char *inner = named(node->type_cast->arg, strength);
            if (*strength > 1 || !type->n_names) return inner;
            *strength = 1;
            const char *name = node_string(type->names[type->n_names - 1]);
            return name ? name : "?column?";
        }
        case PG_QUERY__NODE__NODE_CASE_EXPR: {
            *strength = 0;
            const char *inner = node->case_expr->defresult ? named(node->case_expr->defresult, strength) : NULL;
            if (*strength > 1) return inner;
            *strength = 1;
            return "case";
        }
        case PG_QUERY__NODE__NODE_A_CONST:
            if (node->a_const->val_case != PG_QUERY__A__CONST__VAL_BOOLVAL || node->a_const->isnull) break;
            *strength = 1;
            return "bool";
        default: break;
    }
    *strength = 0;
    return "?column?";
}

const char *output_name(const ParseNode *node)
{
    int strength;
    return named(node, &strength);
}

// ---- names that are close -------------------------------------------------------------------------------------------

// How many letters to change, add or drop; names have at most 63 bytes.
static int edit_distance(const char *a, const char *b)
{
    int          row[65];
    const size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > 63 || b_length > 63) return 64;
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            const int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MIN_OF(change, 1 + MIN_OF(row[j], row[j - 1]));
        }
    }
    return row[b_length];
}

const char *nearest_name(const char *wanted, const char *const *names, int n_names)
{
    const char *nearest = NULL;
    int         least = (int)strlen(wanted) / 3 + 1;        // more is another name, not a misspelt one
    for (int i = 0; i < n_names; i++) {
        const int distance = edit_distance(wanted, names[i]);
        if (distance > least || (distance == least && nearest) || distance >= (int)strlen(wanted)) continue;
        least = distance;
        nearest = names[i];
    }
    return nearest;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static void release_table(void *table)
{
    table_release(table);
}

// There are two schemas, public and pg_temp; names in any other are looked up as "schema.table".
const char *name_in_schema(Binder *binder, const char *schema, const char *name, TableHome *home)
{
    const bool is_temporary = strcmp(schema, "pg_temp") == 0;
    const bool is_other = schema[0] && !is_temporary && strcmp(schema, "public") != 0;
    *home = is_temporary ? HOME_TEMPORARY : schema[0] && !is_other ? HOME_PUBLIC : HOME_ANY;
    return is_other ? arena_printf(binder->arena, "%s.%s", schema, name) : arena_strdup(binder->arena, name);
}

// A view was made of tables of the database, which a table that the session made since does not hide.
weft_status bind_table_name(Binder *binder, const PgQuery__RangeVar *range, const char **name, TableHome *home)
{
    if (range->catalogname[0]) return refuse(binder, range->location, "naming a database");
    *name = name_in_schema(binder, range->schemaname, range->relname, home);
    if (*home == HOME_ANY && binder->n_views > 0) *home = HOME_PUBLIC;
    return WEFT_OK;
}

// CREATE TEMPORARY TABLE t and CREATE TABLE pg_temp.t are one.
weft_status bind_new_table_name(Binder *binder, const PgQuery__RangeVar *range, Statement *statement)
{
    const bool  is_temporary = strcmp(range->relpersistence, "t") == 0;
    const char *schema = range->schemaname;
    TRY(bind_table_name(binder, range, &statement->name, &statement->home));
    if (schema[0] && strcmp(schema, "public") != 0 && strcmp(schema, "pg_temp") != 0)
        return refuse(binder, range->location, "a schema other than public");
    if (is_temporary && statement->home == HOME_PUBLIC)
        return fail(binder->err, WEFT_INVALID_TABLE, range->location,
                    "cannot create temporary relation in non-temporary schema");
    statement->is_temporary = is_temporary || statement->home == HOME_TEMPORARY;
    statement->home = statement->is_temporary ? HOME_TEMPORARY : HOME_PUBLIC;
    return WEFT_OK;
}

// 42P01, with the nearest name as a hint.
static weft_status no_such_table(Binder *binder, const char *name, TableHome home, int at)
{
    const Names *names = binder->names;
    const char **all, *nearest = NULL;
    if (names->view && names->view(names->context, name, home))
        return fail(binder->err, WEFT_WRONG_OBJECT, at, "\"%s\" is not a table", name);
    fail(binder->err, WEFT_UNDEFINED_TABLE, at, "table \"%s\" does not exist", name);
    if (names->list) {
        const int n = names->list(names->context, binder->arena, &all);
        nearest = nearest_name(name, all, n);
    }
    if (nearest) error_hint(binder->err, "Perhaps you meant \"%s\".", nearest);
    return WEFT_UNDEFINED_TABLE;
}

weft_status bind_table(Binder *binder, const PgQuery__RangeVar *range, const Table **table)
{
    const char *name;
    TableHome   home;
    TRY(bind_table_name(binder, range, &name, &home));
    *table = binder->names->table(binder->names->context, name, home);
    if (!*table) return no_such_table(binder, name, home, range->location);
    arena_defer(binder->arena, release_table, (void *)(uintptr_t)*table);
    return WEFT_OK;
}

weft_status no_such_column(Binder *binder, const char *table, const char *const *names, int n_names, const char *name,
                           int at)
{
    const char *nearest = nearest_name(name, names, n_names);
    const weft_status status = WEFT_UNDEFINED_COLUMN;
    if (table) fail(binder->err, status, at, "column \"%s\" of table \"%s\" does not exist", name, table);
    else fail(binder->err, status, at, "column \"%s\" does not exist", name);
    if (nearest) error_hint(binder->err, "Perhaps you meant \"%s\".", nearest);
    return status;
}

weft_status unknown_column(Binder *binder, const Table *table, const char *name, int at)
{
    const char **names = arena_array(binder->arena, const char *, table->n_columns + 1);
    for (int i = 0; i < table->n_columns; i++) names[i] = table->columns[i].name;
    return no_such_column(binder, table->name, names, table->n_columns, name, at);
}
