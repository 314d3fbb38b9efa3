// view_groups.c - the queries of continuous views: groups of new rows, and merges of what is kept.
//
// Each runs as a statement of a session that belongs to the view or to its family.

#include "engine/continuous_int.h"

Execution view_execution(weft_session *session, const Table *rows, Error *err)
{
    session->query_number = atomic_fetch_add(&session->db->n_queries, 1) + 1;
    atomic_store(&session->stop, 0);
    return (Execution){ .session = session, .arena = arena_new(NULL, "continuous view"), .err = err,
                        .result = result_new(session->db), .given = rows };
}

void view_execution_end(Execution *ex)
{
    if (ex->result) arena_free(ex->result->arena);
    arena_free(ex->arena);
}

// ---- groups of new rows ---------------------------------------------------------------------------------------------

weft_status view_bind(const Streams *streams, Execution *ex, const char *text, KeptGroups *kept, Statement **statement)
{
    const Names names = streams->calls.names(ex, NULL, 0);
    weft_status status = sql_bind(ex->arena, text, &names, statement, ex->err);
    if (ex->lookup) status = ex->lookup;
    if (!status) status = plan_check_continuous((*statement)->plan, ex->err);
    return status ? status : plan_keep_groups((*statement)->plan, kept, ex->err);
}

weft_status view_check_types(const KeptGroups *a, const KeptGroups *b, Error *err)
{
    bool is_same = a->n_columns == b->n_columns && a->n_keys == b->n_keys;
    for (int i = 0; is_same && i < a->n_columns; i++)
        is_same = type_equal(a->columns[i].type, b->columns[i].type);
    return is_same ? WEFT_OK
                   : fail(err, WEFT_WRONG_OBJECT, -1, "the types of the view's columns changed with its tables");
}

weft_status view_fill_append(const Streams *streams, Execution *ex, Append *append)
{
    const weft_status status = streams->calls.append_result(ex, append);
    if (status) append_abort(append);
    return status;
}

weft_status view_append_rows(const Streams *streams, Execution *ex, Store *store, const char *state,
                             const TableTraits *traits, bool replaces)
{
    Append *append;
    u64     n_rows;
    TRY(append_begin(store, state, &append, ex->err));
    append_set_traits(append, traits, replaces);
    TRY(view_fill_append(streams, ex, append));
    return append_commit(append, &n_rows, ex->err);
}

weft_status view_create_state(Store *store, const char *state, const KeptGroups *kept, const TableTraits *traits,
                              Error *err)
{
    Arena     *scratch = arena_new(NULL, "state");
    ColumnDef *columns = arena_array(scratch, ColumnDef, kept->n_columns);
    for (int i = 0; i < kept->n_columns; i++)
        columns[i] = (ColumnDef){ .name = arena_printf(scratch, "c%d", i), .type = kept->columns[i].type };
    const weft_status status = store_create_special_table(store, state, columns, kept->n_columns, traits, err);
    arena_free(scratch);
    return status;
}

weft_status view_add_groups(ContinuousView *view, const TableTraits *seen, Error *err)
{
    const Streams *streams = view->streams;
    Execution      ex = view_execution(view->session, view->rows, err);
    Statement     *statement = NULL;
    KeptGroups     kept;
    weft_status    status = view_bind(streams, &ex, view->text, &kept, &statement);
    if (!status) status = view_check_types(&view->kept, &kept, err);
    if (!status) status = plan_rewrite(statement->plan, NULL, err);
    if (!status) status = streams->calls.run_plan(&ex, statement);
    if (!status && ex.result->n_rows)
        status = view_append_rows(streams, &ex, streams->states, view->state, seen, false);
    view_execution_end(&ex);
    return status;
}

// ---- what is kept ---------------------------------------------------------------------------------------------------

// A view leaves its family in the same moment in which its state gets what the family had for it, under the lock.
weft_status view_peek(const Streams *streams, const ContinuousView *view, const char *state, Arena *arena,
                      ViewRows *rows, Error *err)
{
    *rows = (ViewRows){ 0 };
    weft_status status = store_peek_table(streams->states, state, &rows->own, err);
    if (!status && view && view->family) {
        status = store_peek_table(streams->states, view->family->state, &rows->shared, err);
        if (!status) plan_family_wants(arena, &view->family->classes, &view->form, &rows->wants);
    }
    if (status) view_release_rows(rows);
    return status;
}

weft_status view_kept_rows(const ContinuousView *view, Arena *arena, ViewRows *rows, Error *err)
{
    Streams *streams = view->streams;
    pthread_mutex_lock(&streams->lock);
    const weft_status status = view_peek(streams, view, view->state, arena, rows, err);
    pthread_mutex_unlock(&streams->lock);
    return status;
}

void view_release_rows(const ViewRows *rows)
{
    table_release(rows->own);
    table_release(rows->shared);
}

static bool has_rows(const ViewRows *rows) { return rows->own->n_rows || (rows->shared && rows->shared->n_rows); }

weft_status view_merge(const ContinuousView *view, weft_session *session, const ViewRows *rows, Store *to,
                       const TableTraits *traits, Append **append, u64 *n_rows, Error *err)
{
    const Streams *streams = view->streams;
    Execution      ex = view_execution(session, NULL, err);
    Statement      statement = { .kind = STATEMENT_SELECT, .plan = plan_new(ex.arena) };
    weft_status    status = plan_merge_groups(statement.plan, rows, &view->kept, err);
    if (!status) status = plan_rewrite(statement.plan, NULL, err);
    if (!status) status = streams->calls.run_plan(&ex, &statement);
    // Without keys a merge of no row gives one, of NULLs.
    if (!status && !has_rows(rows)) ex.result->n_rows = 0;
    *n_rows = ex.result ? ex.result->n_rows : 0;
    if (!status) status = append_begin(to, view->state, append, err);
    if (!status) {
        append_set_traits(*append, traits, true);
        status = view_fill_append(streams, &ex, *append);
    }
    view_execution_end(&ex);
    return status;
}
