// change.c - statements that change what is stored: INSERT, COPY FROM, CREATE, DROP, TRUNCATE, ALTER ... RENAME, views.
//
// Rows come from the statement, from a file or from a query, whose result is put into the table once it is complete:
// INSERT INTO t SELECT ... FROM t reads what was there before.  A table that CREATE TABLE AS makes appears with its
// rows.

#include <stdio.h>

#include "engine/continuous.h"
#include "engine/execute.h"

enum { PIECE_ROWS = 1 << 16 };         // of a query's result that are appended at once

// ---- INSERT ... VALUES ----------------------------------------------------------------------------------------------

typedef struct InsertColumn {
    i64 *numbers;
    u8  *nulls;
    i64 *low;                          // words of a numeric
    u8   scale;                        // of a numeric without a precision
} InsertColumn;

// The largest scale of the values: each has its own where the column is numeric without a precision.
static u8 largest_scale(const Table *table, const Statement *statement, int c)
{
    u8 scale = 0;
    for (u64 r = 0; r < statement->n_rows; r++) {
        const Value *value = &statement->rows[r * (u64)table->n_columns + (u64)c];
        if (!value->is_null) scale = MAX_OF(scale, value->type.scale);
    }
    return scale;
}

static weft_status fail_digits(const Column *column, u64 row, Error *err)
{
    fail(err, WEFT_OUT_OF_RANGE, -1, "numeric field overflow");
    error_hint(err, "The value of column \"%s\" in row %llu takes more than 38 digits beside those of other rows.",
               column->name, (unsigned long long)row + 1);
    return WEFT_OUT_OF_RANGE;
}

static weft_status convert_column(Append *append, const Statement *statement, int c, InsertColumn *out, Error *err)
{
    const Table *table = append_table(append);
    out->scale = table->columns[c].is_free ? largest_scale(table, statement, c) : 0;
    for (u64 r = 0; r < statement->n_rows; r++) {
        const Value *value = &statement->rows[r * (u64)table->n_columns + (u64)c];
        out->nulls[r] = value->is_null;
        if (value->is_null) {
            if (table->columns[c].not_null)
                return fail(err, WEFT_NOT_NULL_VIOLATION, -1,
                            "null value in column \"%s\" violates not-null constraint", table->columns[c].name);
        } else if (table->columns[c].type.kind == TYPE_TEXT) {
            u32 code;
            TRY(dict_intern(table->columns[c].dict, value->text.bytes, value->text.length, &code, err));
            out->numbers[r] = code;
        } else if (type_is_float(table->columns[c].type)) {
            memcpy(&out->numbers[r], &value->f, sizeof(double));
        } else if (table->columns[c].is_free) {
            i128 number = value->i;
            if (!value_scale_up(&number, out->scale - value->type.scale))
                return fail_digits(&table->columns[c], r, err);
            value_words(number, &out->numbers[r], &out->low[r]);
        } else if (table->columns[c].low) {
            value_words(value->i, &out->numbers[r], &out->low[r]);
        } else {
            out->numbers[r] = (i64)value->i;
        }
    }
    return WEFT_OK;
}

static weft_status insert_into(Execution *ex, const Statement *statement, Append *append)
{
    const Table *table = append_table(append);
    ColumnInput *inputs = arena_array(ex->arena, ColumnInput, table->n_stored);
    if (statement->n_rows > UINT32_MAX) return fail(ex->err, WEFT_TOO_LONG, -1, "too many rows in one INSERT");
    for (int c = 0; c < table->n_columns; c++) {
        const int    low = table->columns[c].low;
        InsertColumn column = { arena_array(ex->arena, i64, statement->n_rows + 1),
                                arena_array(ex->arena, u8, statement->n_rows + 1),
                                low ? arena_array(ex->arena, i64, statement->n_rows + 1) : NULL, 0 };
        TRY(convert_column(append, statement, c, &column, ex->err));
        const u8 *nulls = memchr(column.nulls, 1, statement->n_rows) ? column.nulls : NULL;
        inputs[c] = (ColumnInput){ .i = column.numbers, .is_null = nulls, .scale = column.scale };
        if (low) inputs[low] = (ColumnInput){ .i = column.low, .is_null = nulls, .scale = column.scale };
    }
    return append_rows(append, 0, inputs, (u32)statement->n_rows, ex->err);
}

static weft_status insert_once(Execution *ex, const Statement *statement)
{
    Append *append;
    u64     n_rows = 0;
    TRY(append_begin_unless(execution_target(ex, statement), statement->name, &ex->session->cancelled, &append,
                            ex->err));
    const weft_status status = insert_into(ex, statement, append);
    if (status) append_abort(append);
    else TRY(append_commit(append, &n_rows, ex->err));
    snprintf(ex->result->tag, sizeof ex->result->tag, "INSERT 0 %llu", (unsigned long long)n_rows);
    return status;
}

// Rows that found no memory because of queries find it when these are done: nothing of the first try is left.
static weft_status run_insert(Execution *ex, const Statement *statement)
{
    weft_session *session = ex->session;
    weft_status   status = insert_once(ex, statement);
    if (status != WEFT_OUT_OF_MEMORY || !admission_is_busy(session->db->admission)) return status;
    error_clear(ex->err);
    const Wish wish = { .query = session->query_number,
                        .priority = session->settings.priority,
                        .is_alone = true,
                        .stop = &session->stop,
                        .position = &session->position };
    Claim     *claim = admission_ask(session->db->admission, &wish);
    if (!claim_is_running(claim)) db_trim(ex->session->db, true);
    status = claim_wait(claim, ex->err);
    if (!status) status = insert_once(ex, statement);
    claim_leave(claim);
    return status;
}

// ---- rows of a query ------------------------------------------------------------------------------------------------

typedef struct ResultPiece { u64 first; u32 n_rows; } ResultPiece;

static weft_status intern_texts(Execution *ex, const Column *column, const weft_column *from, ResultPiece piece,
                                ColumnInput *input)
{
    i64 *codes = arena_array(ex->arena, i64, piece.n_rows + 1);
    for (u32 r = 0; r < piece.n_rows; r++) {
        const u64 row = piece.first + r;
        u32       code;
        if (from->is_null && from->is_null[row]) continue;
        if (r % 4096 == 0 && atomic_load(&ex->session->cancelled))
            return fail(ex->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        TRY(dict_intern(column->dict, from->text[row].bytes, from->text[row].length, &code, ex->err));
        codes[r] = code;
    }
    input->i = codes;
    return WEFT_OK;
}

// Numbers of 128 bits as two columns of words.
static void split_words(Execution *ex, const weft_column *from, ResultPiece piece, ColumnInput *high, ColumnInput *low)
{
    i64 *highs = arena_array(ex->arena, i64, piece.n_rows + 1), *lows = arena_array(ex->arena, i64, piece.n_rows + 1);
    for (u32 r = 0; r < piece.n_rows; r++) {
        const weft_int128 number = from->i128[piece.first + r];
        if (from->is_null && from->is_null[piece.first + r]) continue;
        value_words((i128)((u128)number.low | (u128)(u64)number.high << 64), &highs[r], &lows[r]);
    }
    high->i = highs;
    *low = (ColumnInput){ .i = lows, .is_null = high->is_null };
}

// A number of the result for a column of type numeric without a precision: with the digits behind the point that it
// shows.
static weft_status free_value(const weft_column *from, u64 row, Value *value, Error *err)
{
    if (from->type == WEFT_REAL || from->type == WEFT_DOUBLE)
        return value_free_of_float(from->f64[row], from->type == WEFT_REAL, value, err);
    if (from->type != WEFT_NUMERIC) return fail(err, WEFT_INTERNAL, -1, "a number has another type than its column");
    const weft_int128 number = from->i128[row];
    *value = (Value){ .type = { TYPE_NUMERIC, 38, from->scale },
                      .i = (i128)((u128)number.low | (u128)(u64)number.high << 64) };
    if (from->shown)
        for (; value->type.scale > from->shown[row]; value->type.scale--) value->i /= 10;     // a 0 that is not shown
    return WEFT_OK;
}

static weft_status convert_free(Execution *ex, const Column *column, const weft_column *from, ResultPiece piece,
                                ColumnInput *high, ColumnInput *low)
{
    i64   *highs = arena_array(ex->arena, i64, piece.n_rows + 1), *lows = arena_array(ex->arena, i64, piece.n_rows + 1);
    Value *values = arena_array(ex->arena, Value, piece.n_rows + 1);
    u8     scale = 0;
    for (u32 r = 0; r < piece.n_rows; r++) {
        values[r].is_null = from->is_null && from->is_null[piece.first + r];
        if (values[r].is_null) continue;
        TRY(free_value(from, piece.first + r, &values[r], ex->err));
        scale = MAX_OF(scale, values[r].type.scale);
    }
    for (u32 r = 0; r < piece.n_rows; r++) {
        if (values[r].is_null) continue;
        if (!value_scale_up(&values[r].i, scale - values[r].type.scale))
            return fail_digits(column, piece.first + r, ex->err);
        value_words(values[r].i, &highs[r], &lows[r]);
    }
    *high = (ColumnInput){ .i = highs, .is_null = high->is_null, .scale = scale };
    *low = (ColumnInput){ .i = lows, .is_null = high->is_null, .scale = scale };
    return WEFT_OK;
}

// A column of the result as the store takes it.  The plan has given it the type of the table's column.
static weft_status convert_piece(Execution *ex, const Table *table, int c, ResultPiece piece, ColumnInput *inputs)
{
    const weft_column *from = &ex->result->columns[c];
    ColumnInput       *input = &inputs[c];
    const Column      *column = &table->columns[c];
    const u8          *nulls = from->is_null ? from->is_null + piece.first : NULL;
    const bool         has_null = nulls && memchr(nulls, 1, piece.n_rows);
    if (has_null && column->not_null)
        return fail(ex->err, WEFT_NOT_NULL_VIOLATION, -1,
                    "null value in column \"%s\" of table \"%s\" violates not-null constraint", column->name,
                    table->name);
    *input = (ColumnInput){ .is_null = has_null ? nulls : NULL };
    if (column->type.kind == TYPE_TEXT) return intern_texts(ex, column, from, piece, input);
    if (column->is_free) return convert_free(ex, column, from, piece, input, &inputs[column->low]);
    if ((from->type == WEFT_NUMERIC) != (column->low != 0))
        return fail(ex->err, WEFT_INTERNAL, -1, "a number has another width than its column");
    if (column->low) split_words(ex, from, piece, input, &inputs[column->low]);
    else if (type_is_float(column->type)) input->f = from->f64 + piece.first;
    else input->i = from->i64 + piece.first;
    return WEFT_OK;
}

weft_status change_append_result(Execution *ex, Append *append)
{
    const Table *table = append_table(append);
    const u64    n_rows = ex->result->n_rows;
    u64          sequence = 0;
    for (u64 first = 0; first < n_rows; first += PIECE_ROWS) {
        Arena      *scratch = arena_new(NULL, "piece"), *outer = ex->arena;
        const ResultPiece piece = { first, (u32)MIN_OF(n_rows - first, (u64)PIECE_ROWS) };
        ColumnInput *inputs = arena_array(scratch, ColumnInput, table->n_stored);
        weft_status  status = WEFT_OK;
        ex->arena = scratch;
        for (int c = 0; c < table->n_columns && !status; c++) status = convert_piece(ex, table, c, piece, inputs);
        ex->arena = outer;
        if (!status) status = append_rows(append, sequence++, inputs, piece.n_rows, ex->err);
        arena_free(scratch);
        TRY(status);
    }
    return WEFT_OK;
}

// The rows went into a table: the statement gives none.
static void drop_rows(Execution *ex)
{
    ex->result->n_rows = 0;
    ex->result->n_columns = 0;
}

static weft_status end_append(Execution *ex, Append *append, weft_status status, u64 *n_rows)
{
    if (status) {
        append_abort(append);
        return status;
    }
    return append_commit(append, n_rows, ex->err);
}

static weft_status run_insert_query(Execution *ex, const Statement *statement)
{
    Append *append;
    u64     n_rows = 0;
    TRY(run_plan(ex, statement));
    TRY(append_begin_unless(execution_target(ex, statement), statement->name, &ex->session->cancelled, &append,
                            ex->err));
    TRY(end_append(ex, append, change_append_result(ex, append), &n_rows));
    drop_rows(ex);
    snprintf(ex->result->tag, sizeof ex->result->tag, "INSERT 0 %llu", (unsigned long long)n_rows);
    return WEFT_OK;
}

// ---- COPY FROM ------------------------------------------------------------------------------------------------------

static void notice_rejected(Execution *ex, const CopyFigures *figures)
{
    if (!figures->n_rejected) return;
    result_add_notice(ex->result, arena_printf(ex->arena, "%llu row%s left out; the first: %s",
                                               (unsigned long long)figures->n_rejected,
                                               figures->n_rejected == 1 ? " was" : "s were", figures->first_rejected));
}

typedef struct LiveTarget { weft_session *session; const char *stream; } LiveTarget;

static void note_commit(void *context, u64 n_durable)
{
    weft_db *db = ((const LiveTarget *)context)->session->db;
    (void)n_durable;                   // weft_streams shows it
    plans_forget(db->plans);
    shape_plans_forget(db->shape_plans);
    db_trim(db, false);
    streams_wake(db->streams);
}

static bool is_row_awaited(void *context)
{
    const LiveTarget *target = context;
    return streams_await_rows(target->session->db->streams, target->stream);
}

static bool is_live_copy(const Execution *ex, const Statement *statement, const CopyOptions *options)
{
    TableTraits traits;
    return store_traits(execution_target(ex, statement), statement->name, &traits) &&
           traits.kind == TABLE_STREAM && copy_is_live(statement->path ? statement->path : "", options);
}

// From a pipe into a stream: commits as it goes on.
static weft_status run_live_copy(Execution *ex, const Statement *statement, const CopyOptions *options, Pool *pool,
                                 CopyFigures *figures)
{
    weft_session     *session = ex->session;
    LiveTarget        target = { session, statement->name };
    const LiveCommits commits = { .commit_ms = session->settings.stream_commit_ms,
                                  .cancel = &session->cancelled,
                                  .committed = note_commit,
                                  .is_awaited = is_row_awaited,
                                  .context = &target };
    if (options->reject_path)
        return fail(ex->err, WEFT_UNSUPPORTED, statement->at,
                    "REJECT with a pipe into a stream is not supported yet");
    TRY(copy_live(session->db->store, pool, &session->db->budget, statement->name, statement->path, options, &commits,
                  figures, ex->err));
    TableTraits  traits;
    const Table *table = NULL;
    if (store_traits(session->db->store, statement->name, &traits) &&
        !store_peek_table(session->db->store, statement->name, &table, &(Error){ 0 }))
        result_add_notice(ex->result,
                          arena_printf(ex->arena, "the last durable row of stream \"%s\" is row %llu", statement->name,
                                       (unsigned long long)(table->traits.first_row + table->n_rows)));
    table_release(table);
    return WEFT_OK;
}

// With threads of its own: a COPY may take long, or wait for a pipe, and must not hold up others.
static weft_status run_copy(Execution *ex, const Statement *statement)
{
    weft_session     *session = ex->session;
    Pool             *pool = pool_new(session->settings.threads);
    CopyOptions       options = statement->copy;
    CopyFigures       figures;
    options.fd = session->input;
    const weft_status status =
        is_live_copy(ex, statement, &options)
            ? run_live_copy(ex, statement, &options, pool, &figures)
            : copy_from_file(execution_target(ex, statement), pool, &session->db->budget, statement->name,
                             statement->path, &options, &session->copy_progress, &session->cancelled, &figures,
                             ex->err);
    pool_free(pool);
    TRY(status);
    notice_rejected(ex, &figures);
    snprintf(ex->result->tag, sizeof ex->result->tag, "COPY %llu", (unsigned long long)figures.n_rows);
    return WEFT_OK;
}

// ---- CREATE TABLE ---------------------------------------------------------------------------------------------------

static weft_status check_new_name(Execution *ex, const Statement *statement)
{
    if (strncmp(statement->name, "weft_", 5) == 0)
        return fail(ex->err, WEFT_INVALID_NAME, statement->at, "names that begin with weft_ are reserved");
    return WEFT_OK;
}

// With IF NOT EXISTS: whether it does, which is then noticed.
static bool is_there_already(Execution *ex, const Statement *statement, Store *store)
{
    const Table *old = NULL;
    if (!statement->if_exists || store_peek_table(store, statement->name, &old, &(Error){ 0 })) return false;
    result_add_notice(ex->result, arena_printf(ex->arena, "table \"%s\" exists already, skipping", statement->name));
    table_release(old);
    return true;
}

static weft_status target_store(Execution *ex, const Statement *statement, Store **store)
{
    *store = statement->is_temporary ? execution_temporary(ex) : ex->session->db->store;
    if (!*store) return ex->err->status;
    store_set_chunk_rows(*store, store_chunk_rows(ex->session->db->store));
    return WEFT_OK;
}

static weft_status run_create(Execution *ex, const Statement *statement)
{
    Store *store;
    snprintf(ex->result->tag, sizeof ex->result->tag, "CREATE TABLE");
    TRY(target_store(ex, statement, &store));
    if (is_there_already(ex, statement, store)) return WEFT_OK;
    TRY(check_new_name(ex, statement));
    if (statement->traits.kind == TABLE_STREAM)
        return store_create_special_table(store, statement->name, statement->columns, statement->n_columns,
                                          &statement->traits, ex->err);
    return store_create_keyed_table(store, statement->name, statement->columns, statement->n_columns,
                                    statement->indexes, statement->n_indexes, ex->err);
}

static weft_status run_create_as(Execution *ex, const Statement *statement)
{
    Append *append;
    Store  *store;
    u64     n_rows = 0;
    TRY(target_store(ex, statement, &store));
    snprintf(ex->result->tag, sizeof ex->result->tag, "CREATE TABLE AS");
    if (is_there_already(ex, statement, store)) return WEFT_OK;
    TRY(check_new_name(ex, statement));
    if (!statement->without_data) TRY(run_plan(ex, statement));
    TRY(append_begin_new(store, statement->name, statement->columns, statement->n_columns, &append, ex->err));
    TRY(end_append(ex, append, statement->without_data ? WEFT_OK : change_append_result(ex, append), &n_rows));
    drop_rows(ex);
    if (statement->without_data) snprintf(ex->result->tag, sizeof ex->result->tag, "CREATE TABLE AS");
    else snprintf(ex->result->tag, sizeof ex->result->tag, "SELECT %llu", (unsigned long long)n_rows);
    return WEFT_OK;
}

// ---- views ----------------------------------------------------------------------------------------------------------

static weft_status run_create_view(Execution *ex, const Statement *statement)
{
    ViewDef view = { .name = statement->name, .text = statement->text, .n_columns = statement->n_columns,
                     .uses = ex->used, .n_uses = ex->n_used };
    TRY(check_new_name(ex, statement));
    if (ex->uses_temporary)
        return fail(ex->err, WEFT_UNSUPPORTED, statement->at, "a view of temporary tables is not supported yet");
    view.columns = arena_array(ex->arena, const char *, view.n_columns + 1);
    view.types = arena_array(ex->arena, const char *, view.n_columns + 1);
    for (int i = 0; i < view.n_columns; i++) {
        const Type type = statement->columns[i].type;
        char       name[32];
        view.columns[i] = statement->columns[i].name;
        view.types[i] = arena_strdup(ex->arena, type_whole_name(type, name));
    }
    for (int i = 0; i < view.n_uses; i++)                   // OR REPLACE of a view by one that reads itself
        if (strcmp(view.uses[i], view.name) == 0)
            return fail(ex->err, WEFT_WRONG_OBJECT, statement->at, "view \"%s\" cannot read itself", view.name);
    const char *user = statement->or_replace ? store_user_of(ex->session->db->store, ex->arena, view.name) : NULL;
    if (user)
        return fail(ex->err, WEFT_UNSUPPORTED, statement->at,
                    "replacing a view that the view \"%s\" reads is not supported yet", user);
    snprintf(ex->result->tag, sizeof ex->result->tag,
             statement->is_continuous ? "CREATE MATERIALIZED VIEW" : "CREATE VIEW");
    if (statement->is_continuous) return streams_create_view(ex, statement, &view);
    return store_create_view(ex->session->db->store, &view, statement->or_replace, ex->err);
}

static bool is_among(const char *name, const char *const *names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static weft_status remove_view(Execution *ex, const ViewDef *view)
{
    weft_db *db = ex->session->db;
    return view->options ? streams_drop_view(db->streams, view->name, ex->err)
                         : store_drop_view(db->store, view->name, ex->err);
}

// DROP VIEW of a continuous view, and DROP MATERIALIZED VIEW of another.
static weft_status check_view_kind(Execution *ex, const Statement *statement, const ViewDef *view)
{
    const bool is_continuous = view->options != NULL;
    if (is_continuous == statement->is_continuous) return WEFT_OK;
    fail(ex->err, WEFT_WRONG_OBJECT, statement->at, "\"%s\" is not a %sview", view->name,
         is_continuous ? "" : "materialized ");
    error_hint(ex->err, "Use DROP %sVIEW to remove it.", is_continuous ? "MATERIALIZED " : "");
    return WEFT_WRONG_OBJECT;
}

// Views that read NAME and are not dropped themselves: an error, or with CASCADE they go first.
static weft_status drop_users(Execution *ex, const Statement *statement, const char *name)
{
    Store         *store = ex->session->db->store;
    const ViewDef *views;
    int            n_views;
    store_list_views(store, ex->arena, &views, &n_views);
    for (int i = 0; i < n_views; i++) {
        if (!is_among(name, views[i].uses, views[i].n_uses)) continue;
        if (statement->is_view && is_among(views[i].name, statement->names, statement->n_names)) continue;
        if (!statement->cascade) {
            fail(ex->err, WEFT_DEPENDENT_OBJECTS, statement->at, "cannot drop \"%s\" because the view \"%s\" reads it",
                 name, views[i].name);
            error_hint(ex->err, "Use DROP ... CASCADE to drop the view too.");
            return WEFT_DEPENDENT_OBJECTS;
        }
        TRY(drop_users(ex, statement, views[i].name));
        const weft_status status = remove_view(ex, &views[i]);
        if (status != WEFT_UNDEFINED_TABLE) TRY(status);    // it may have gone as the user of another
        else error_clear(ex->err);
    }
    return WEFT_OK;
}

static weft_status drop_view(Execution *ex, const Statement *statement, int i, bool is_checking)
{
    const char    *name = statement->names[i];
    Store         *store = execution_store(ex, name, statement->homes[i]);
    const ViewDef *view = store_view(store, ex->arena, name);
    const Table   *table = NULL;
    if (view) {
        TRY(check_view_kind(ex, statement, view));
        if (!is_checking || !statement->cascade) TRY(drop_users(ex, statement, name));
        return is_checking ? WEFT_OK : remove_view(ex, view);
    }
    if (!store_peek_table(store, name, &table, &(Error){ 0 })) {
        table_release(table);
        fail(ex->err, WEFT_WRONG_OBJECT, statement->at, "\"%s\" is not a view", name);
        error_hint(ex->err, "Use DROP TABLE to remove a table.");
        return WEFT_WRONG_OBJECT;
    }
    if (statement->if_exists) return WEFT_OK;
    return fail(ex->err, WEFT_UNDEFINED_TABLE, statement->at, "view \"%s\" does not exist", name);
}

static bool is_table(const void *id, u64 table) { return *(const u64 *)id == table; }

static weft_status drop_stored(Execution *ex, Store *store, const char *name, u64 id)
{
    const weft_db *db = ex->session->db;
    TRY(store_drop_table(store, name, ex->err));
    gpus_forget_with(db->gpus, db->cpu, is_table, &id);
    return WEFT_OK;
}

static weft_status drop_table(Execution *ex, const Statement *statement, int i, bool is_checking)
{
    const char       *name = statement->names[i];
    Store            *store = execution_store(ex, name, statement->homes[i]);
    const Table      *table = NULL;
    const weft_status found = store_peek_table(store, name, &table, &(Error){ 0 });
    const u64         id = table ? table->id : 0;
    table_release(table);              // a damaged table can be dropped, too
    if (found != WEFT_UNDEFINED_TABLE) {
        const bool is_stored = store == ex->session->db->store;
        if (is_stored && (!is_checking || !statement->cascade)) TRY(drop_users(ex, statement, name));
        return is_checking ? WEFT_OK : drop_stored(ex, store, name, id);
    }
    if (store_view(store, ex->arena, name)) {
        fail(ex->err, WEFT_WRONG_OBJECT, statement->at, "\"%s\" is not a table", name);
        error_hint(ex->err, "Use DROP VIEW to remove a view.");
        return WEFT_WRONG_OBJECT;
    }
    if (statement->if_exists) return WEFT_OK;
    return fail(ex->err, WEFT_UNDEFINED_TABLE, statement->at, "table \"%s\" does not exist", name);
}

static weft_status run_drop(Execution *ex, const Statement *statement)
{
    snprintf(ex->result->tag, sizeof ex->result->tag,
             statement->is_continuous ? "DROP MATERIALIZED VIEW" : statement->is_view ? "DROP VIEW" : "DROP TABLE");
    for (int pass = 0; pass < 2; pass++)           // all are there before the first one goes
        for (int i = 0; i < statement->n_names; i++)
            TRY((statement->is_view ? drop_view : drop_table)(ex, statement, i, pass == 0));
    return WEFT_OK;
}

// ---- TRUNCATE, RENAME -----------------------------------------------------------------------------------------------

// Rows that no view has seen would go.
static weft_status check_truncate(Execution *ex, const Statement *statement, int i)
{
    TableTraits traits;
    const char *name = statement->names[i];
    Store      *store = execution_store(ex, name, statement->homes[i]);
    if (!store_traits(store, name, &traits) || traits.kind != TABLE_STREAM) return WEFT_OK;
    const char *user = store_user_of(store, ex->arena, name);
    return user ? fail(ex->err, WEFT_UNSUPPORTED, statement->at,
                       "TRUNCATE of a stream that the view \"%s\" reads is not supported yet", user)
                : WEFT_OK;
}

static weft_status run_truncate(Execution *ex, const Statement *statement)
{
    for (int i = 0; i < statement->n_names; i++) TRY(check_truncate(ex, statement, i));
    for (int i = 0; i < statement->n_names; i++)
        TRY(store_truncate_table(execution_store(ex, statement->names[i], statement->homes[i]), statement->names[i],
                                 &ex->session->cancelled, ex->err));
    snprintf(ex->result->tag, sizeof ex->result->tag, "TRUNCATE TABLE");
    return WEFT_OK;
}

// A view is the text of its query, in which names would have to be changed.
static weft_status check_no_users(Execution *ex, const Statement *statement, const Store *store)
{
    Store      *lasting = ex->session->db->store;
    const char *user = store == lasting ? store_user_of(lasting, ex->arena, statement->name) : NULL;
    if (!user) return WEFT_OK;
    return fail(ex->err, WEFT_UNSUPPORTED, statement->at, "renaming what the view \"%s\" reads is not supported yet",
                user);
}

static weft_status run_rename(Execution *ex, const Statement *statement)
{
    Store       *store = execution_target(ex, statement);
    const Table *table = NULL;
    const bool   is_table = !store_peek_table(store, statement->name, &table, &(Error){ 0 });
    const bool   is_view = !is_table && store_view(store, ex->arena, statement->name);
    table_release(table);
    snprintf(ex->result->tag, sizeof ex->result->tag, statement->is_view ? "ALTER VIEW" : "ALTER TABLE");
    if (!is_table && !is_view) {
        if (!statement->if_exists)
            return fail(ex->err, WEFT_UNDEFINED_TABLE, statement->at, "relation \"%s\" does not exist",
                        statement->name);
        result_add_notice(ex->result, arena_printf(ex->arena, "relation \"%s\" does not exist, skipping",
                                                   statement->name));
        return WEFT_OK;
    }
    if (strncmp(statement->new_name, "weft_", 5) == 0 && !statement->column)
        return fail(ex->err, WEFT_INVALID_NAME, statement->at, "names that begin with weft_ are reserved");
    TRY(check_no_users(ex, statement, store));
    const ViewDef *view = is_view ? store_view(store, ex->arena, statement->name) : NULL;
    if (view && view->options)
        return fail(ex->err, WEFT_UNSUPPORTED, statement->at, "renaming a continuous view is not supported yet");
    if (is_view) return store_rename_view(store, statement->name, statement->new_name, ex->err);
    if (statement->column)
        return store_rename_column(store, statement->name, statement->column, statement->new_name,
                                   &ex->session->cancelled, ex->err);
    return store_rename_table(store, statement->name, statement->new_name, &ex->session->cancelled, ex->err);
}

// ---- keys and indexes -----------------------------------------------------------------------------------------------

// Where the index is: among the session's own tables or among those of all.
static Store *index_store(Execution *ex, const char *name, TableHome home, const char **table, IndexKind *kind)
{
    Store *const stores[] = { ex->session->temporary, ex->session->db->store };
    for (int i = 0; i < COUNT_OF(stores); i++) {
        if (home == (i == 0 ? HOME_PUBLIC : HOME_TEMPORARY)) continue;
        *table = stores[i] ? store_index_table(stores[i], ex->arena, name, kind) : NULL;
        if (*table) return stores[i];
    }
    return NULL;
}

static weft_status run_add_index(Execution *ex, const Statement *statement)
{
    const IndexDef *index = statement->indexes;
    Store          *store = execution_target(ex, statement);
    TableTraits     traits;
    if (index->kind != INDEX_PLAIN && store_traits(store, statement->name, &traits) &&
        traits.kind == TABLE_STREAM)
        return fail(ex->err, WEFT_UNSUPPORTED, statement->at, "a key of a stream is not supported yet");
    const bool      is_constraint = index->kind == INDEX_PRIMARY_KEY || index->kind == INDEX_UNIQUE_KEY;
    const char     *table;
    IndexKind       kind;
    snprintf(ex->result->tag, sizeof ex->result->tag, is_constraint ? "ALTER TABLE" : "CREATE INDEX");
    if (index->name && strncmp(index->name, "weft_", 5) == 0)
        return fail(ex->err, WEFT_INVALID_NAME, statement->at, "names that begin with weft_ are reserved");
    const TableHome home = store == ex->session->db->store ? HOME_PUBLIC : HOME_TEMPORARY;
    if (statement->if_exists && index->name && index_store(ex, index->name, home, &table, &kind)) {
        result_add_notice(ex->result,
                          arena_printf(ex->arena, "relation \"%s\" already exists, skipping", index->name));
        return WEFT_OK;
    }
    TRY(store_add_index(store, statement->name, index, &ex->session->cancelled, ex->err));
    if (index->kind == INDEX_PLAIN)
        result_add_notice(ex->result, "Weft reads tables without indexes: nothing but the name is kept");
    return WEFT_OK;
}

// ALTER TABLE ... DROP CONSTRAINT: where the table is.
static TableHome index_home(const Execution *ex, const Statement *statement, int i)
{
    if (!statement->name) return statement->homes[i];
    return execution_target(ex, statement) == ex->session->db->store ? HOME_PUBLIC : HOME_TEMPORARY;
}

static weft_status drop_index(Execution *ex, const Statement *statement, int i, bool is_checking)
{
    const char *table, *name = statement->names[i];
    IndexKind   kind = INDEX_PLAIN;
    Store      *store = index_store(ex, name, index_home(ex, statement, i), &table, &kind);
    const bool  is_constraint = store && (kind == INDEX_PRIMARY_KEY || kind == INDEX_UNIQUE_KEY);
    if (statement->name && (!is_constraint || strcmp(table, statement->name) != 0)) store = NULL;
    if (!store && statement->if_exists) {
        if (is_checking)
            result_add_notice(ex->result, arena_printf(ex->arena, "%s \"%s\" does not exist, skipping",
                                                       statement->name ? "constraint" : "index", name));
        return WEFT_OK;
    }
    if (!store && statement->name)
        return fail(ex->err, WEFT_UNDEFINED_OBJECT, statement->at, "constraint \"%s\" of table \"%s\" does not exist",
                    name, statement->name);
    if (!store) return fail(ex->err, WEFT_UNDEFINED_OBJECT, statement->at, "index \"%s\" does not exist", name);
    if (is_constraint && !statement->name) {
        fail(ex->err, WEFT_DEPENDENT_OBJECTS, statement->at,
             "cannot drop index \"%s\" because the table \"%s\" has it as a constraint", name, table);
        error_hint(ex->err, "Use ALTER TABLE ... DROP CONSTRAINT.");
        return WEFT_DEPENDENT_OBJECTS;
    }
    return is_checking ? WEFT_OK : store_drop_index(store, table, name, &ex->session->cancelled, ex->err);
}

static weft_status run_drop_index(Execution *ex, const Statement *statement)
{
    const Table *table = NULL;
    snprintf(ex->result->tag, sizeof ex->result->tag, statement->name ? "ALTER TABLE" : "DROP INDEX");
    if (statement->name) {
        TRY(store_peek_table(execution_target(ex, statement), statement->name, &table, ex->err));
        table_release(table);
    }
    for (int pass = 0; pass < 2; pass++)           // all are there before the first one goes
        for (int i = 0; i < statement->n_names; i++)
            TRY(drop_index(ex, statement, i, pass == 0));
    return WEFT_OK;
}

// ---- which one ------------------------------------------------------------------------------------------------------

// A name with pg_temp. is looked up in the session's store, which is there from here on.
static weft_status make_home(Execution *ex, const Statement *statement)
{
    bool is_needed = statement->home == HOME_TEMPORARY;
    for (int i = 0; i < statement->n_homes; i++) is_needed |= statement->homes[i] == HOME_TEMPORARY;
    return is_needed && !execution_temporary(ex) ? ex->err->status : WEFT_OK;
}

static weft_status change(Execution *ex, const Statement *statement)
{
    TRY(make_home(ex, statement));
    switch (statement->kind) {
        case STATEMENT_CREATE_TABLE: return run_create(ex, statement);
        case STATEMENT_CREATE_AS:    return run_create_as(ex, statement);
        case STATEMENT_CREATE_VIEW:  return run_create_view(ex, statement);
        case STATEMENT_DROP_TABLE:   return run_drop(ex, statement);
        case STATEMENT_INSERT:       return run_insert(ex, statement);
        case STATEMENT_INSERT_QUERY: return run_insert_query(ex, statement);
        case STATEMENT_COPY:         return run_copy(ex, statement);
        case STATEMENT_TRUNCATE:     return run_truncate(ex, statement);
        case STATEMENT_RENAME:       return run_rename(ex, statement);
        case STATEMENT_ADD_INDEX:    return run_add_index(ex, statement);
        case STATEMENT_DROP_INDEX:   return run_drop_index(ex, statement);
        default:                     return fail(ex->err, WEFT_INTERNAL, -1, "this statement changes nothing");
    }
}

// A stream was made, or has rows that its views have not seen.
static void wake_streams(Execution *ex, const Statement *statement)
{
    TableTraits traits;
    if (statement->name && store_traits(ex->session->db->store, statement->name, &traits) &&
        traits.kind == TABLE_STREAM)
        streams_wake(ex->session->db->streams);
}

// Plans and join tables that were kept hold snapshots, which have become old.
weft_status run_change(Execution *ex, const Statement *statement)
{
    const weft_status status = change(ex, statement);
    plans_forget(ex->session->db->plans);
    shape_plans_forget(ex->session->db->shape_plans);
    db_trim(ex->session->db, false);
    wake_streams(ex, statement);
    return status;
}
