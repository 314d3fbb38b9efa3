// target_sql.c - any text: bound, planned and run on small tables, within limits of time and memory.
//
// The text is bound first against tables of the same names that nothing changes, and all that binding promises is
// checked.  What can be bound is run, with tcc, woven or not, on a database in memory; a statement that changes
// something gets a database of its own.  COPY and SET are bound only: one would reach files, the other the limits.

#include "../unit/bound_help.h"
#include "sql/sql.h"
#include "target.h"
#include "weft.h"

enum { SQL_INPUT_MOST = 4096 };

static const char *const making[] = {
    "create table t (a integer, b bigint, s smallint, p decimal(12,2), q decimal(12,4), r real, f double precision, "
    "d date, x text, k boolean, w decimal(30,5), m timestamp, z timestamptz, c time, v varchar(3), i uuid)",
    "create table u (a integer not null, z text, e date)",
    "insert into u select i, case when i % 4 > 0 then 'u' || i % 3 end, date '2026-01-01' + i from "
    "generate_series(1, 9) g(i)",
    "insert into t select i % 7, i::bigint * 1000000007, i % 5 - 2, i * 1.25, i / 7.0, i % 3, i / 8.0, "
    "date '2026-01-01' + i, 'text ' || i % 6, i % 2 = 0, i * 12345678901234567.89, "
    "timestamp '2026-01-01 10:00:00' + i * interval '1 hour', "
    "timestamptz '2026-03-29 00:30:00+00' + i * interval '1 hour', time '10:00', 'ab' || i % 3, "
    "'00112233-4455-6677-8899-aabbccddeef0' from generate_series(1, 70) g(i)",
    "insert into t (a) values (null), (2147483647), (-2147483648)",
};
static const char *const limits[] = {
    "set jit = tcc", "set device = cpu", "set memory_limit = '64MB'", "set temp_limit = off",
    "set statement_timeout = '1s'",
};

static weft_db      *db;
static weft_session *session;

static void run_or_die(const char *sql)
{
    weft_result *result;
    weft_error   error;
    if (weft_query(session, sql, &result, &error)) {
        fprintf(stderr, "%s: %s\n", sql, error.message);
        abort();
    }
    weft_result_free(result);
}

static void close_database(void)
{
    weft_disconnect(session);
    weft_close(db);
    db = NULL;
    session = NULL;
}

static void open_database(void)
{
    weft_error error;
    setenv("WEFT_CACHE", "", 1);                            // tcc's code is not worth keeping
    require(!weft_open(NULL, &db, &error) && !weft_connect(db, &session, &error), "a database can be opened");
    for (int i = 0; i < COUNT_OF(making); i++) run_or_die(making[i]);
    for (int i = 0; i < COUNT_OF(limits); i++) run_or_die(limits[i]);
}

// ---- binding --------------------------------------------------------------------------------------------------------

static Store *store;                                        // with the same tables, without rows

static void make_tables(void)
{
    static const ColumnDef t_columns[] = {
        { "a", TYPE(INTEGER), false },  { "b", TYPE(BIGINT), false },           { "s", TYPE(SMALLINT), false },
        { "p", { TYPE_DECIMAL, 12, 2 }, false },                                { "q", { TYPE_DECIMAL, 12, 4 }, false },
        { "r", TYPE(REAL), false },     { "f", TYPE(DOUBLE), false },           { "d", TYPE(DATE), false },
        { "x", TYPE(TEXT), false },     { "k", TYPE(BOOLEAN), false },          { "w", { TYPE_NUMERIC, 30, 5 }, false },
        { "m", TYPE(TIMESTAMP), false }, { "z", TYPE(TIMESTAMPTZ), false },     { "c", TYPE(TIME), false },
        { "v", { TYPE_TEXT, 3, 0 }, false },                                    { "i", TYPE_OF_UUID, false },
    };
    static const ColumnDef u_columns[] = { { "a", TYPE(INTEGER), true }, { "z", TYPE(TEXT), false },
                                           { "e", TYPE(DATE), false } };
    Error err;
    error_clear(&err);
    require_ok(store_open(NULL, NULL, &store, &err), &err);
    require_ok(store_create_table(store, "t", t_columns, COUNT_OF(t_columns), &err), &err);
    require_ok(store_create_table(store, "u", u_columns, COUNT_OF(u_columns), &err), &err);
}

static const Table *find_table(void *context, const char *name, TableHome home)
{
    (void)context;
    return home == HOME_TEMPORARY ? NULL : store_table(store, name);
}

// generate_series is rows before it is a plan, and planning does not look at statement_timeout: many rows are only
// bound, for the sake of speed.
static bool has_many_rows(const Node *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (has_many_rows(node->inputs[i])) return true;
    return node->kind == NODE_VALUES && node->n_rows > 10000;
}

static bool is_large(const Plan *plan)
{
    for (int i = 0; i < plan->n_shared; i++)
        if (has_many_rows(plan->shared[i]->root)) return true;
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].subplan && has_many_rows(plan->params[i].subplan)) return true;
    return has_many_rows(plan->root);
}

// What it does; EMPTY: it cannot be bound, or must not be run.
static StatementKind bind_it(const char *sql)
{
    Arena *arena = arena_new(NULL, "fuzz");
    const Names names = { .table = find_table };
    StatementKind kind = STATEMENT_EMPTY;
    Statement *statement;
    Error err;
    error_clear(&err);
    const weft_status status = sql_bind(arena, sql, &names, &statement, &err);
    require_told(status, &err);
    require(err.position >= -1 && err.position <= (int)strlen(sql), "the place is in the text");
    require(sql_statement_length(sql) <= strlen(sql), "a statement is part of the text");
    if (!status) {
        const char *fault = statement->plan ? plan_fault(statement->plan) : NULL;
        require(!fault, fault);
        if (!statement->plan || !is_large(statement->plan)) kind = statement->kind;
    }
    arena_free(arena);
    return kind;
}

// ---- running --------------------------------------------------------------------------------------------------------

static void print_all(const weft_result *result)
{
    char text[64];
    for (int c = 0; c < weft_result_columns(result); c++)
        for (size_t r = 0; r < MIN_OF(weft_result_rows(result), (size_t)100); r++)
            (void)weft_format(result, c, r, text, sizeof text);
}

static void run_it(const char *sql, bool is_woven)
{
    weft_result *result = NULL;
    weft_error   error;
    if (weft_query(session, is_woven ? "set weave = on" : "set weave = off", &result, &error)) {
        require(error.status == WEFT_QUERY_CANCELED, error.message);   // a busy machine
        return;
    }
    weft_result_free(result);
    const weft_status status = weft_query(session, sql, &result, &error);
    require(!status == (result != NULL), "there is a result or an error");
    if (status == WEFT_INTERNAL || status == WEFT_KERNEL_BUILD) fprintf(stderr, "%s\n", error.message);
    require(status != WEFT_INTERNAL && status != WEFT_KERNEL_BUILD, "no internal error");
    if (result) print_all(result);
    weft_result_free(result);
}

static bool may_run(StatementKind kind)
{
    switch (kind) {
    case STATEMENT_COPY: case STATEMENT_COPY_TO: case STATEMENT_SET: case STATEMENT_EMPTY: return false;
    default: return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > SQL_INPUT_MOST) return 0;
    if (!store) make_tables();
    char *sql = malloc(size + 1);
    memcpy(sql, data, size);
    sql[size] = '\0';
    const StatementKind kind = bind_it(sql);
    if (may_run(kind)) {
        if (!db) open_database();
        run_it(sql, size & 1);
        if (kind != STATEMENT_SELECT && kind != STATEMENT_EXPLAIN && kind != STATEMENT_SHOW) close_database();
    }
    free(sql);
    return 0;
}
