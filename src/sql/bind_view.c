// bind_view.c - what stands in FROM and is no table: views and files.
//
// A view is its text, bound where it is used as a subquery would be: nothing of the query around it is visible inside.
// Its columns have the names that they had when it was made.  Parsing needs a large stack, so a statement that meets a
// view on a thread that may have a small one is bound again on a worker.

#include "sql/sql_int.h"

enum { VIEWS_DEEP = 32 };

const ViewText *find_view(const Binder *binder, const char *name, TableHome home)
{
    return binder->names->view ? binder->names->view(binder->names->context, name, home) : NULL;
}

// The columns of then are the first of now: a table that a view reads with * cannot lose columns, and may gain some.
static weft_status name_columns(Binder *binder, const ViewText *view, const char *name, int at, Bound *out)
{
    if (out->n_columns < view->n_columns)
        return fail(binder->err, WEFT_WRONG_OBJECT, at, "view \"%s\" has %d columns, and its query gives %d", name,
                    view->n_columns, out->n_columns);
    out->names = arena_array(binder->arena, const char *, view->n_columns + 1);
    for (int i = 0; i < view->n_columns; i++) out->names[i] = arena_strdup(binder->arena, view->columns[i]);
    out->n_columns = view->n_columns;
    return WEFT_OK;
}

static weft_status bind_view_text(Binder *binder, const ViewText *view, Bound *out)
{
    ParseTree  *tree;
    const Place place = binder->place;
    const With *with = binder->with;
    const char *text = binder->text;
    TRY(sql_parse_text(binder->arena, view->text, &tree, binder->err));
    const PgQuery__ParseResult *result = tree_result(tree);
    const ParseNode *query = result->n_stmts == 1 ? result->stmts[0]->stmt : NULL;
    binder->place = (Place){ 0 };
    binder->with = NULL;
    binder->text = view->text;
    weft_status status =
        query && query->node_case == PG_QUERY__NODE__NODE_SELECT_STMT
            ? binder->bind_query(binder, query->select_stmt, out)
            : fail(binder->err, WEFT_CORRUPT, -1, "the text of a view is not a query");
    if (!status && view->kept) status = plan_read_groups(binder->plan, out->node, view->kept, binder->err);
    binder->place = place;
    binder->with = with;
    binder->text = text;
    tree_release(tree);
    return status;
}

weft_status bind_view(Binder *binder, const ViewText *view, const char *name, int at, Bound *out)
{
    if (!binder->is_on_worker) {
        binder->needs_worker = true;
        return fail(binder->err, WEFT_INTERNAL, at, "a view needs a larger stack");     // and is bound again: parse.c
    }
    if (binder->n_views == VIEWS_DEEP)
        return fail(binder->err, WEFT_TOO_COMPLEX, at, "views are nested more than %d deep", VIEWS_DEEP);
    binder->n_views++;
    const weft_status status = bind_view_text(binder, view, out);
    binder->n_views--;
    if (status) {                                           // the place of the error is in another text
        if (binder->err->position >= 0) error_hint(binder->err, "The error is in the view \"%s\".", name);
        binder->err->position = at;
        return status;
    }
    return name_columns(binder, view, name, at, out);
}

// ---- files ----------------------------------------------------------------------------------------------------------

static void release_table(void *table)
{
    table_release(table);
}

static const PgQuery__FuncCall *only_call(const PgQuery__RangeFunction *function)
{
    const ParseNode *list = function->n_functions == 1 ? function->functions[0] : NULL;
    const ParseNode *call = list && list->node_case == PG_QUERY__NODE__NODE_LIST && list->list->n_items
                                ? list->list->items[0]
                                : NULL;
    return call && call->node_case == PG_QUERY__NODE__NODE_FUNC_CALL ? call->func_call : NULL;
}

static const char *called(const PgQuery__RangeFunction *function)
{
    const PgQuery__FuncCall *call = only_call(function);
    return call && call->n_funcname == 1 ? node_string(call->funcname[0]) : NULL;
}

bool is_file_function(const PgQuery__RangeFunction *function)
{
    const char *name = called(function);
    return name && (strcmp(name, "read_csv") == 0 || strcmp(name, "read_json") == 0);
}

static weft_status file_path(Binder *binder, const PgQuery__FuncCall *call, const char **path)
{
    const ParseNode *argument = call->n_args == 1 ? call->args[0] : NULL;
    const bool is_const = argument && argument->node_case == PG_QUERY__NODE__NODE_A_CONST;
    if (!is_const || argument->a_const->isnull || argument->a_const->val_case != PG_QUERY__A__CONST__VAL_SVAL) {
        fail(binder->err, WEFT_UNSUPPORTED, call->location, "a file is named by one literal text");
        error_hint(binder->err, "As in read_csv('sales.csv'); COPY has options for files that look unusual.");
        return WEFT_UNSUPPORTED;
    }
    *path = arena_strdup(binder->arena, argument->a_const->sval->sval);
    return WEFT_OK;
}

weft_status bind_table_function(Binder *binder, const PgQuery__RangeFunction *function, const Table **table,
                                const char **name)
{
    const PgQuery__FuncCall *call = only_call(function);
    const char *path;
    const bool  is_csv = strcmp(called(function), "read_csv") == 0;
    if (!binder->names->file || function->ordinality || function->n_coldeflist)
        return refuse_word(binder, "from", "this use of a file in FROM");
    TRY(file_path(binder, call, &path));
    *table = binder->names->file(binder->names->context, path, is_csv ? "csv" : "json");
    if (!*table) return fail(binder->err, WEFT_UNDEFINED_FILE, call->location, "file \"%s\" cannot be read", path);
    arena_defer(binder->arena, release_table, (void *)(uintptr_t)*table);
    *name = arena_strdup(binder->arena, called(function));
    return WEFT_OK;
}
