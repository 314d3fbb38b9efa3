// api.c - include/weft.h: databases, statements, tasks.

#include "engine/kinds.h"
#include "engine/continuous.h"
#include "engine/engine.h"
#include "engine/shaped.h"
#include "engine/spill.h"
#include "jit/nvrtc_exit.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

// ---- databases ------------------------------------------------------------------------------------------------------

static const char *prelude(Arena *arena) { return arena_printf(arena, "%s\n%s\n", kernel_args_text, kernel_cpu_text); }

// The last is what people know from SQLite and DuckDB.
static bool is_in_memory(const char *path) { return !path || !*path || strcmp(path, ":memory:") == 0; }

static void trim_pieces(void *pieces) { pieces_trim(pieces); }

weft_status weft_open(const char *path, weft_db **out, weft_error *error)
{
    Arena   *arena = arena_new(NULL, "database");
    weft_db *db = arena_make(arena, weft_db);
    *out = NULL;
    error_clear(error);
    nvrtc_watch_main_thread();
    db->arena = arena;
    atomic_store(&db->budget.limit, settings_default_memory_limit());
    const weft_status status =
        store_open(is_in_memory(path) ? NULL : store_directory(arena, path), &db->budget, &db->store, error);
    if (status) {
        error->position = 0;
        arena_free(arena);
        return status;
    }
    db->temp = temp_new(settings_default_temp_directory(store_path(db->store)));
    db->admission = admission_new(&db->budget);
    db->network = network_new(cpu_count());
    db->squad = squad_new();
    db->pieces = pieces_new();
    db->kinds = kinds_book_new(&db->budget);
    db->plans = plans_new();
    db->shape_plans = shape_plans_new();
    db->deadlines = deadlines_new();
    db->cpu = network_cpu(db->network);
    db->gpus = gpus_new(trim_pieces, db->pieces);
    db->jit = jit_new(&(JitOptions){ .prelude = prelude(arena) });
    db->streams = streams_new(db, &(StreamCalls){ .names = execution_names, .run_plan = run_plan,
                                                  .append_result = change_append_result, .connect = weft_connect,
                                                  .disconnect = weft_disconnect });
    *out = db;
    return WEFT_OK;
}

void weft_close(weft_db *db)
{
    if (!db) return;
    streams_free(db->streams);
    deadlines_free(db->deadlines);
    network_free(db->network);
    squad_free(db->squad);
    pieces_free(db->pieces);
    kinds_book_free(db->kinds);
    plans_free(db->plans);
    shape_plans_free(db->shape_plans);
    jit_free(db->jit);
    gpus_free(db->gpus);
    store_close(db->store);
    admission_free(db->admission);
    temp_free(db->temp);
    arena_free(db->arena);
}

static weft_status run_select(Execution *ex, const Statement *statement)
{
    const weft_status status = run_plan(ex, statement);
    snprintf(ex->result->tag, sizeof ex->result->tag, "SELECT %zu", ex->result->n_rows);
    return status;
}

static void print_kernels(const QueryRun *run, Text *text)
{
    for (int p = 0; p < run->graph->n_pipelines; p++)
        for (int k = 0; k < run->reports[p].n_kernels; k++) {
            text_add(text, "-- pipeline %d, kernel %d of %d\n", p + 1, k + 1, run->reports[p].n_kernels);
            text_add(text, "%s\n", run->reports[p].kernels[k].woven->text);
        }
}

// The answer is made, as the query would, and dropped.  FIGURES tells of it: HAVING, ORDER BY and LIMIT are in it, and
// it is made by the CPU, wherever kernels ran; only a sort may be a GPU's, which the pipeline's line says.
static weft_status analyze(Execution *ex, QueryRun *run, AnswerFigures *figures)
{
    const double start = time_now_ms();
    weft_result *answer = result_new(ex->session->db);
    answer->budget = query_budget(run);
    const weft_status status = result_from_query(run, answer);
    *figures = (AnswerFigures){ .n_rows = answer->n_rows, .answer_ms = time_now_ms() - start };
    weft_result_free(answer);
    return status;
}

static void print_answer(const QueryRun *run, const AnswerFigures *answer, Text *text)
{
    const int  last = run->graph->n_pipelines - 1;
    const bool is_sorted = run->graph->pipelines[last].finish.n_sort && !run->reports[last].sort.device;
    text_add(text, "answer of %zu row%s %smade on cpu in %.2f ms\n", (size_t)answer->n_rows,
             answer->n_rows == 1 ? "" : "s", is_sorted ? "sorted and " : "", answer->answer_ms);
    spill_print(run, text);
    text_add(text, "total %.2f ms\n", answer->total_ms);
}

static weft_status explain_analyzed(Execution *ex, QueryRun *run, const Statement *statement, double start_ms,
                                    Text *text)
{
    AnswerFigures answer;
    TRY(analyze(ex, run, &answer));
    answer.total_ms = time_now_ms() - start_ms;        // of the query: what it is compared with may be measured now
    if (statement->explain_json) {
        explain_json(run, &answer, text);
    } else {
        explain_plan(run, true, text);
        print_answer(run, &answer, text);
    }
    return WEFT_OK;
}

static weft_status explain_run(Execution *ex, QueryRun *run, const Statement *statement, Text *text)
{
    const double start = time_now_ms();
    run->only_weave = !statement->explain_analyze;
    TRY(query_run(run));
    if (statement->explain_analyze) TRY(explain_analyzed(ex, run, statement, start, text));
    if (statement->explain_kernel) print_kernels(run, text);
    return WEFT_OK;
}

// A query of this text would not be planned again.
static bool is_plan_kept(const Execution *ex)
{
    const weft_session *session = ex->session;
    const char         *query = ex->text ? sql_explained(ex->text) : NULL;
    return query && !session->temporary && session->settings.plan_cache != KEEP_NOTHING &&
           plans_has(session->db->plans, session->db->store, query);
}

static weft_status explain_only(Execution *ex, QueryRun *run, const Statement *statement, Text *text)
{
    if (statement->explain_network || statement->explain_dot) {
        explain_network(ex->session->db, run->arena, statement->explain_dot, text);
        return WEFT_OK;
    }
    TRY(query_foresee(run));
    if (statement->explain_json) explain_json(run, NULL, text);
    else if (query_has_kernels(run)) explain_plan(run, false, text);
    else text_add(text, "constants: no pipeline\n");
    if (!statement->explain_json && is_plan_kept(ex)) text_add(text, "the plan of this text is kept\n");
    return WEFT_OK;
}

static weft_status explain_body(Execution *ex, QueryRun *run, const Statement *statement)
{
    const bool  asks_network = statement->explain_network || statement->explain_dot;
    const bool  has_work = run->plan && (run->plan->n_scans || run->plan->is_recursive);
    const bool  runs = has_work && !asks_network && (statement->explain_analyze || statement->explain_kernel);
    Text        text = { 0 };
    run->is_explained = true;
    weft_status status = runs ? explain_run(ex, run, statement, &text) : explain_only(ex, run, statement, &text);
    if (!status) status = result_from_lines(ex->result, "QUERY PLAN", text.bytes ? text.bytes : "", ex->err);
    text_free(&text);
    return status;
}

static weft_status run_explain(Execution *ex, const Statement *statement)
{
    if (statement->plan) {
        Text              trace = { 0 };
        const weft_status rewritten =
            plan_rewrite(statement->plan, statement->explain_rewrites ? &trace : NULL, ex->err);
        if (!rewritten && statement->explain_tree) plan_print(statement->plan, &trace);
        const bool        is_shown = statement->explain_tree || statement->explain_rewrites;
        const weft_status shown = rewritten || !is_shown ? rewritten
                                                         : result_from_lines(ex->result, "QUERY PLAN",
                                                                             trace.bytes ? trace.bytes : "", ex->err);
        text_free(&trace);
        if (shown || is_shown) return shown;
    }
    const weft_status status = run_tries(ex, statement, explain_body);
    snprintf(ex->result->tag, sizeof ex->result->tag, "EXPLAIN");
    return status;
}

static weft_status run_show(Execution *ex, const Statement *statement)
{
    Text        text = { 0 };
    weft_status status = settings_show(ex->session, statement->name, statement->at, &text, ex->err);
    if (!status) status = result_from_lines(ex->result, statement->name, text.bytes, ex->err);
    snprintf(ex->result->tag, sizeof ex->result->tag, "SHOW");
    text_free(&text);
    return status;
}

static weft_status run_execute(Execution *ex, const Statement *statement);

static weft_status run_statement(Execution *ex, const Statement *statement)
{
    switch (statement->kind) {
        case STATEMENT_SELECT:       return run_select(ex, statement);
        case STATEMENT_EXPLAIN:      return run_explain(ex, statement);
        case STATEMENT_CREATE_TABLE: case STATEMENT_DROP_TABLE: case STATEMENT_INSERT: case STATEMENT_COPY:
        case STATEMENT_INSERT_QUERY: case STATEMENT_CREATE_AS: case STATEMENT_CREATE_VIEW: case STATEMENT_TRUNCATE:
        case STATEMENT_ADD_INDEX: case STATEMENT_DROP_INDEX:
        case STATEMENT_RENAME:       return run_change(ex, statement);
        case STATEMENT_COPY_TO:      return run_copy_to(ex, statement);
        case STATEMENT_PREPARE:      return run_prepare(ex, statement);
        case STATEMENT_DEALLOCATE:   return run_deallocate(ex, statement);
        case STATEMENT_EXECUTE:      return run_execute(ex, statement);
        case STATEMENT_SHOW:         return run_show(ex, statement);
        case STATEMENT_SET:
            snprintf(ex->result->tag, sizeof ex->result->tag, "SET");
            return settings_set(ex->session, statement->name, statement->value, statement->at, ex->err);
        case STATEMENT_EMPTY: break;
    }
    return WEFT_OK;
}

static void free_statement(void *home) { arena_free(home); }

static bool has_query(const Statement *statement)
{
    return statement->plan && statement->kind != STATEMENT_EXPLAIN && statement->kind != STATEMENT_CREATE_VIEW;
}

static bool may_keep_plan(const Execution *ex, const Statement *statement)
{
    const Plan *plan = statement->plan;
    return statement->kind == STATEMENT_SELECT && !ex->uses_virtual && !ex->quotient_scale && !plan->n_params &&
           !plan->is_momentary && ex->session->settings.plan_cache != KEEP_NOTHING;
}

// A continuous view is read once it has seen the rows that were committed before the statement.  Not while names are
// looked up: that is done by threads that others wait for.
static bool wait_for_views(Execution *ex)
{
    if (!ex->n_behind || ex->has_waited) return false;
    for (int i = 0; i < ex->n_behind; i++)
        streams_wait(ex->session->db->streams, ex->behind[i], &ex->session->cancelled);
    ex->has_waited = true;
    return true;
}

// What is bound lies in an arena of its own, which a plan that is kept takes along.  A plan is rewritten once.
static weft_status prepare(Execution *ex, const char *sql, const Value *params, int n_params, const TextShape *shape,
                           Statement **statement, KeptPlan **kept)
{
    Names       names = execution_names(ex, params, n_params);
    Arena      *home = arena_new(NULL, "statement");
    names.shape = shape;
    weft_status status = sql_bind(home, sql, &names, statement, ex->err);
    if (ex->lookup) status = ex->lookup;
    if (!status && wait_for_views(ex)) {
        arena_free(home);
        home = arena_new(NULL, "statement");
        status = sql_bind(home, sql, &names, statement, ex->err);
        if (ex->lookup) status = ex->lookup;
    }
    if (!status && has_query(*statement)) {
        status = plan_rewrite((*statement)->plan, NULL, ex->err);
        if (!status && !n_params && may_keep_plan(ex, *statement)) {
            if (shape) shaped_offer(ex, sql, shape, (*statement)->plan);
            *kept = plans_keep(ex->session->db->plans, sql, home, *statement, ex->tables, ex->n_tables);
            return WEFT_OK;
        }
    }
    arena_defer(ex->arena, free_statement, home);
    return status;
}

// EXECUTE: the text that was prepared, bound with these values.
static weft_status run_with_params(Execution *ex, const char *text, const Value *params, int n_params)
{
    Statement  *bound = NULL;
    KeptPlan   *kept = NULL;
    weft_status status = prepare(ex, text, params, n_params, NULL, &bound, &kept);
    if (!status) status = run_statement(ex, kept ? plan_statement(kept) : bound);
    plan_release(kept);
    return status;
}

static weft_status run_execute(Execution *ex, const Statement *statement)
{
    const Prepared *prepared = prepared_find(ex->session, statement->name);
    Value          *values;
    if (!prepared)
        return fail(ex->err, WEFT_UNDEFINED_STATEMENT, statement->at, "prepared statement \"%s\" does not exist",
                    statement->name);
    TRY(prepared_values(ex, prepared, statement->arguments, statement->n_arguments, statement->at, &values));
    const weft_status status = run_with_params(ex, prepared->text, values, statement->n_arguments);
    if (status) ex->err->position = statement->at;          // the place is in another text
    return status;
}

// DESCRIBE t and SHOW TABLES, said in SQL; NULL: it is something else.
static const char *meant_query(Execution *ex, const char *sql)
{
    if (sql_is_show_tables(sql))
        return "select table_name, table_type from information_schema.tables order by table_name";
    TableHome   home;
    const char *name = sql_described(ex->arena, sql, &home);
    if (!name) return NULL;
    const bool is_own = execution_store(ex, name, home) != ex->session->db->store;
    Text       quoted = { 0 };
    for (const char *c = name; *c; c++) text_add(&quoted, *c == '\'' ? "''" : "%c", *c);
    const char *query = arena_printf(ex->arena, "select column_name, " SQL_SHOWN_TYPE " as data_type, is_nullable from "
                                     "information_schema.columns where table_name = '%s' and table_schema = '%s' "
                                     "order by ordinal_position", quoted.bytes, is_own ? "pg_temp" : "public");
    const Names names = execution_names(ex, NULL, 0);
    if (!names.view(ex, name, home)) {
        const Table *table = names.table(ex, name, home);
        if (!table && !ex->lookup) {
            fail(ex->err, WEFT_UNDEFINED_TABLE, -1, "table \"%s\" does not exist", name);
            ex->lookup = WEFT_UNDEFINED_TABLE;
        }
        table_release(table);
    }
    text_free(&quoted);
    return query;
}

// A plan that was kept knows the tables of the database only.
static KeptPlan *find_kept(weft_session *session, const char *sql)
{
    const bool is_off = session->settings.plan_cache == KEEP_NOTHING;
    return session->temporary || is_off ? NULL : plans_find(session->db->plans, session->db->store, sql);
}

static weft_status execute(weft_session *session, const char *sql, const Value *params, int n_params,
                           weft_result **result, Error *err);

// A statement within another of the session.
static weft_status execute_text(weft_session *session, const char *sql, weft_result **result, Error *err)
{
    *result = NULL;
    return execute(session, sql, NULL, 0, result, err);
}

// Frees the execution.
static weft_status subscribe(Execution *ex, const char *name, int at, weft_result **result)
{
    weft_result_free(*result);
    ex->result = result_new(ex->session->db);
    const weft_status status = run_subscribe(ex, name, at, execute_text);
    *result = ex->result;
    arena_free(ex->arena);
    if (status) weft_result_free(*result);
    if (status) *result = NULL;
    return status;
}

// A plan that was kept for the text, or for its shape; else a new one.
static weft_status find_or_prepare(Execution *ex, const char *sql, const Value *params, int n_params,
                                   Statement **bound, KeptPlan **kept)
{
    weft_status      status = WEFT_OK;
    const TextShape *shape = NULL;
    if (!n_params && !ex->quotient_scale) {
        *kept = find_kept(ex->session, sql);
        if (!*kept) shape = shaped_text(ex, sql);
        if (shape) *kept = shaped_find(ex, sql, shape, &status);
    }
    return *kept || status ? status : prepare(ex, sql, params, n_params, shape, bound, kept);
}

// *RESULT is the last statement's: it stays when this one is empty (a comment after the last ';').  *HAS_QUOTIENTS: a
// quotient may have been too large for QUOTIENT_SCALE.
static weft_status execute_once(weft_session *session, const char *sql, const Value *params, int n_params,
                                int quotient_scale, bool *has_quotients, weft_result **result, Error *err)
{
    Execution   ex = { .session = session, .arena = arena_new(NULL, "query"), .err = err,
                       .quotient_scale = quotient_scale };
    int         at = -1;
    const char *subscribed = n_params ? NULL : sql_subscribed(ex.arena, sql, &at);
    if (subscribed) return subscribe(&ex, subscribed, at, result);
    const char *meant = n_params ? NULL : meant_query(&ex, sql);
    if (meant) sql = meant;
    ex.text = sql;
    Statement  *bound = NULL;
    KeptPlan   *kept = NULL;
    weft_status status = ex.lookup;
    if (!status) status = find_or_prepare(&ex, sql, params, n_params, &bound, &kept);
    const Statement *statement = kept ? plan_statement(kept) : bound;
    if (status || !*result || statement->kind != STATEMENT_EMPTY) {
        weft_result_free(*result);
        *result = ex.result = result_new(session->db);
        if (!status) status = run_statement(&ex, statement);
        *result = ex.result;           // a second try has a result of its own
    }
    *has_quotients = ex.has_quotients || (kept && statement->has_quotients);
    arena_free(ex.arena);
    plan_release(kept);
    if (status) {
        weft_result_free(*result);
        *result = NULL;
    }
    return status;
}

// Integers and floats are out of range whatever room quotients have: that is the error, and no further try helps.
static bool is_of_other_numbers(const Error *err)
{
    static const char *const messages[] = { "smallint out of range", "integer out of range", "bigint out of range",
                                            "value out of range: overflow", "value out of range: underflow" };
    for (int i = 0; i < COUNT_OF(messages); i++)
        if (strcmp(err->message, messages[i]) == 0) return true;
    return false;
}

// Quotients have room for 24 digits behind the point.  Where that leaves too little before it, the statement, which has
// changed nothing, is bound and run again with fewer; with fewer than 16, a quotient that loses digits fails.
static weft_status execute(weft_session *session, const char *sql, const Value *params, int n_params,
                           weft_result **result, Error *err)
{
    static const int scales[] = { 0, 20, 16, -1 };
    weft_status      status = WEFT_OK;
    for (int i = 0; i < COUNT_OF(scales); i++) {
        Error first = *err;
        bool  has_quotients = false;
        status = execute_once(session, sql, params, n_params, scales[i], &has_quotients, result, err);
        if (status != WEFT_OUT_OF_RANGE || !has_quotients || is_of_other_numbers(err)) break;
        if (i + 1 == COUNT_OF(scales)) {
            error_hint(err, "Quotients of double precision may be larger.");
            break;
        }
        *err = first;
        atomic_store(&session->stop, atomic_load(&session->cancelled));
    }
    return status;
}

// The place of an error, from a byte in the statement to a character in the whole text.
static int position_in(const char *sql, size_t statement_at, int at)
{
    int characters = 1;
    if (at < 0) return 0;
    for (size_t i = 0; i < statement_at + (size_t)at && sql[i]; i++)
        characters += ((unsigned char)sql[i] & 0xC0) != 0x80;
    return characters;
}

// Cancels from here on are for the query that is about to run.
static void begin_query(weft_session *session)
{
    atomic_store(&session->cancelled, false);
    atomic_store(&session->timed_out, false);
    atomic_store(&session->stop, 0);
    atomic_store(&session->copy_progress, 0);
    atomic_store(&session->rows_total, 0);
}

// A session runs one query at a time: a second one is refused before it touches what the first one uses.
static weft_status take_session(weft_session *session, weft_error *error)
{
    error_clear(error);
    error->position = 0;
    if (!atomic_exchange(&session->running, true)) {
        begin_query(session);
        return WEFT_OK;
    }
    fail(error, WEFT_SESSION_BUSY, -1, "the session is running another query");
    error_hint(error, "Wait for it with weft_wait, or use a session for each query.");
    error->position = 0;
    return WEFT_SESSION_BUSY;
}

static weft_status run_statements(weft_session *session, const char *sql, const Value *params, int n_params,
                                  weft_result **result, weft_error *error)
{
    size_t      at = 0;
    weft_status status = WEFT_OK;
    do {
        const size_t length = sql_statement_length(sql + at);
        char        *statement = length ? strndup(sql + at, length) : strdup(sql + at);
        if (atomic_load(&session->cancelled)) {
            status = fail(error, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
            weft_result_free(*result);
            *result = NULL;
        } else {
            status = execute(session, statement, params, n_params, result, error);
        }
        error->position = status ? position_in(sql, at, error->position) : 0;
        free(statement);
        at = length ? at + length : strlen(sql);
    } while (!status && sql[at]);
    return status;
}

static weft_status run_query(weft_session *session, const char *sql, const Value *params, int n_params,
                             weft_result **result, weft_error *error)
{
    const i64 timeout_ms = session->settings.timeout_ms;
    *result = NULL;
    error_clear(error);
    if (timeout_ms) deadline_set(session->db->deadlines, session, timeout_ms);
    session->query_number = atomic_fetch_add(&session->db->n_queries, 1) + 1;
    const weft_status status = run_statements(session, sql, params, n_params, result, error);
    if (timeout_ms) deadline_clear(session->db->deadlines, session);
    if (status == WEFT_QUERY_CANCELED && atomic_load(&session->timed_out))
        snprintf(error->message, sizeof error->message, "canceling statement due to statement timeout");
    atomic_store(&session->running, false);
    return status;
}

weft_status weft_query(weft_session *session, const char *sql, weft_result **out, weft_error *error)
{
    weft_error   unwanted_error;
    weft_result *result;
    if (!error) error = &unwanted_error;
    if (out) *out = NULL;
    TRY(take_session(session, error));
    const weft_status status = run_query(session, sql ? sql : "", NULL, 0, &result, error);
    if (out) *out = result;
    else weft_result_free(result);
    return status;
}

// ---- prepared statements --------------------------------------------------------------------------------------------

struct weft_statement {
    weft_session *session;
    Arena        *arena;               // of this struct and the texts bound to it
    char         *sql;
    int           n_params;
    Value        *params;
};

enum { PARAMS_MOST = 65535 };

weft_status weft_prepare(weft_session *session, const char *sql, weft_statement **out, weft_error *error)
{
    weft_error unwanted_error;
    if (!error) error = &unwanted_error;
    *out = NULL;
    TRY(take_session(session, error));
    Arena      *arena = arena_new(NULL, "prepared");
    Execution   ex = { .session = session, .arena = arena_new(NULL, "prepare"), .err = error };
    Statement  *statement;
    const int   n_params = sql_count_params(sql ? sql : "");
    const Names names = execution_names(&ex, prepared_nulls(ex.arena, NULL, 0, n_params), n_params);
    error_clear(error);
    weft_status status = sql_bind(ex.arena, sql ? sql : "", &names, &statement, error);
    if (ex.lookup) status = ex.lookup;
    if (prepared_may_be_null(status)) {
        status = WEFT_OK;
        error_clear(error);
    }
    error->position = status ? position_in(sql ? sql : "", 0, error->position) : 0;
    arena_free(ex.arena);
    atomic_store(&session->running, false);
    if (status) {
        arena_free(arena);
        return status;
    }
    weft_statement *made = arena_make(arena, weft_statement);
    *made = (weft_statement){ .session = session, .arena = arena, .sql = arena_strdup(arena, sql ? sql : "") };
    if (n_params) (void)weft_bind_null(made, n_params);     // and all before it
    *out = made;
    return WEFT_OK;
}

// Room for parameter NUMBER, from 1 on; those that nobody bound are NULL.
static weft_status put_param(weft_statement *statement, int number, Value value)
{
    if (number < 1 || number > PARAMS_MOST) return WEFT_UNDEFINED_PARAMETER;
    while (statement->n_params < number)
        *LIST_PUSH(statement->arena, statement->params, statement->n_params) =
            (Value){ .type = TYPE(NULL), .is_null = true };
    statement->params[number - 1] = value;
    return WEFT_OK;
}

weft_status weft_bind_null(weft_statement *statement, int number)
{
    return put_param(statement, number, (Value){ .type = TYPE(NULL), .is_null = true });
}

weft_status weft_bind_bool(weft_statement *statement, int number, bool value)
{
    return put_param(statement, number, (Value){ .type = TYPE(BOOLEAN), .i = value });
}

weft_status weft_bind_int64(weft_statement *statement, int number, int64_t value)
{
    return put_param(statement, number, (Value){ .type = TYPE(BIGINT), .i = value });
}

weft_status weft_bind_double(weft_statement *statement, int number, double value)
{
    return put_param(statement, number, (Value){ .type = TYPE(DOUBLE), .f = value });
}

weft_status weft_bind_text(weft_statement *statement, int number, const char *bytes, size_t length)
{
    Value value = { .type = TYPE(NULL), .is_null = !bytes };
    if (bytes && length == (size_t)-1) length = strlen(bytes);
    if (bytes && (length > UINT32_MAX / 2 || memchr(bytes, 0, length))) return WEFT_BAD_ENCODING;
    if (bytes) {
        value.text.bytes = arena_strndup(statement->arena, bytes, length);
        value.text.length = (u32)length;
    }
    return put_param(statement, number, value);
}

weft_status weft_execute(weft_statement *statement, weft_result **out, weft_error *error)
{
    weft_error   unwanted_error;
    weft_result *result;
    if (!error) error = &unwanted_error;
    if (out) *out = NULL;
    TRY(take_session(statement->session, error));
    const weft_status status =
        run_query(statement->session, statement->sql, statement->params, statement->n_params, &result, error);
    if (out) *out = result;
    else weft_result_free(result);
    return status;
}

void weft_statement_free(weft_statement *statement)
{
    if (statement) arena_free(statement->arena);
}

// ---- tasks ----------------------------------------------------------------------------------------------------------

struct weft_task {
    SquadJob       job;                 // first: the squad knows a task by it
    weft_session *session;
    char         *sql;
    weft_result  *result;
    weft_error    error;
    weft_status   status;
};

static void run_task(SquadJob *job)
{
    weft_task *task = (weft_task *)job;
    task->status = run_query(task->session, task->sql, NULL, 0, &task->result, &task->error);
}

weft_status weft_submit(weft_session *session, const char *sql, weft_task **out, weft_error *error)
{
    return weft_submit_notify(session, sql, NULL, NULL, out, error);
}

weft_status weft_submit_notify(weft_session *session, const char *sql, void (*notify)(void *context), void *context,
                               weft_task **out, weft_error *error)
{
    weft_error unwanted_error;
    if (!error) error = &unwanted_error;
    *out = NULL;
    TRY(take_session(session, error)); // here, so that a cancel right after the submit is not lost
    weft_task *task = calloc(1, sizeof *task);
    *task = (weft_task){ .job = { .run = run_task, .notify = notify, .notify_context = context },
                         .session = session,
                         .sql = strdup(sql ? sql : "") };
    *out = task;
    if (squad_start(session->db->squad, &task->job)) return WEFT_OK;
    atomic_store(&session->running, false);
    free(task->sql);
    free(task);
    *out = NULL;
    fail(error, WEFT_OUT_OF_MEMORY, -1, "the system refused a thread for the query");
    error->position = 0;
    return WEFT_OUT_OF_MEMORY;
}

bool weft_is_done(const weft_task *task) { return squad_is_done(&task->job); }

weft_status weft_wait(weft_task *task, weft_result **result, weft_error *error)
{
    squad_wait(task->session->db->squad, &task->job);
    const weft_status status = task->status;
    if (result) *result = task->result;
    else weft_result_free(task->result);
    if (error) *error = task->error;
    free(task->sql);
    free(task);
    return status;
}

size_t weft_statement_length(const char *sql) { return sql ? sql_statement_length(sql) : 0; }
