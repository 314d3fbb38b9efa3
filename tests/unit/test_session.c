// test_session.c - what a program does with a session: parameters, one query at a time, descriptors for COPY,
// temporary tables.

#define _GNU_SOURCE                                         // memfd_create

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"
#include "weft.h"

static weft_db *db;
static weft_session *session;
static weft_error error;

static void open_session(void)
{
    CHECK_INT(weft_open(NULL, &db, &error), WEFT_OK);
    CHECK_INT(weft_connect(db, &session, &error), WEFT_OK);
}

static void close_session(void)
{
    weft_disconnect(session);
    weft_close(db);
}

static void run(const char *sql)
{
    if (weft_query(session, sql, NULL, &error))
        printf("%s: %s\n", sql, error.message);
    CHECK_INT(error.status, WEFT_OK);
}

// All values of the result, with | and ; behind them; frees it.
static const char *values(weft_result *result)
{
    static char text[1000];
    size_t n = 0;
    text[0] = '\0';
    for (size_t row = 0; row < weft_result_rows(result); row++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[100];
            const weft_column *column = weft_result_column(result, c);
            weft_format(result, c, row, value, sizeof value);
            const bool is_null = column->is_null && column->is_null[row];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", is_null ? "-" : value,
                                  c + 1 < weft_result_columns(result) ? "|" : ";");
        }
    weft_result_free(result);
    return text;
}

static const char *ask(weft_statement *statement)
{
    weft_result *result = NULL;
    if (weft_execute(statement, &result, &error))
        return error.message;
    return values(result);
}

TEST(parameters_are_bound_by_position)
{
    weft_statement *find, *add;
    open_session();
    run("create table t (a integer, b text, d date)");
    CHECK_INT(weft_prepare(session, "insert into t values ($1, $2, $3)", &add, &error), WEFT_OK);
    for (int i = 1; i <= 3; i++) {
        char word[20];
        snprintf(word, sizeof word, "word %d", i);
        CHECK_INT(weft_bind_int64(add, 1, i), WEFT_OK);
        CHECK_INT(weft_bind_text(add, 2, word, (size_t)-1), WEFT_OK);
        CHECK_INT(i < 3 ? weft_bind_text(add, 3, "2026-01-31", 10) : weft_bind_null(add, 3), WEFT_OK);
        CHECK_INT(weft_execute(add, NULL, &error), WEFT_OK);
    }
    CHECK_INT(weft_prepare(session, "select a, b, d from t where a >= $1 and b <> $2 order by a", &find, &error),
              WEFT_OK);
    CHECK_STR(ask(find), "");                               // nothing is bound: NULL
    weft_bind_int64(find, 1, 2);
    weft_bind_text(find, 2, "it's", 4);
    CHECK_STR(ask(find), "2|word 2|2026-01-31;3|word 3|-;");
    weft_bind_int64(find, 1, 3);
    CHECK_STR(ask(find), "3|word 3|-;");
    weft_bind_double(find, 1, 2.5);
    CHECK_STR(ask(find), "3|word 3|-;");
    weft_bind_text(find, 1, "x", 1);
    CHECK_INT(weft_execute(find, NULL, &error), WEFT_BAD_TEXT);
    CHECK_INT(weft_bind_int64(find, 0, 1), WEFT_UNDEFINED_PARAMETER);
    CHECK_INT(weft_bind_text(find, 1, "a\0b", 3), WEFT_BAD_ENCODING);
    weft_statement_free(find);
    weft_statement_free(add);
    CHECK_INT(weft_prepare(session, "select * from nothing_there", &find, &error), WEFT_UNDEFINED_TABLE);
    CHECK_INT(error.position, 15);
    CHECK(!find);
    CHECK_INT(weft_prepare(session, NULL, &find, &error), WEFT_OK);
    weft_statement_free(find);
    close_session();
}

TEST(a_busy_session_refuses_a_second_query)
{
    weft_task *task, *second = NULL;
    weft_result *result;
    open_session();
    run("create table t as select 1 as a");
    int ends[2];
    CHECK_INT(pipe(ends), 0);                               // a COPY that waits
    weft_set_input(session, ends[0]);
    CHECK_INT(weft_submit(session, "copy t from stdin", &task, &error), WEFT_OK);
    CHECK_INT(weft_submit(session, "select 1", &second, &error), WEFT_SESSION_BUSY);
    CHECK(!second);
    CHECK_STR(error.sqlstate, "55000");
    CHECK_INT(weft_query(session, "select 1", &result, &error), WEFT_SESSION_BUSY);
    CHECK(!result);
    CHECK_INT(write(ends[1], "7\n", 2), 2);
    close(ends[1]);
    CHECK_INT(weft_wait(task, NULL, NULL), WEFT_OK);
    close(ends[0]);
    CHECK_INT(weft_query(session, "select sum(a) from t", &result, &error), WEFT_OK);
    CHECK_STR(values(result), "8;");
    close_session();
}

TEST(missing_texts_do_no_harm)
{
    weft_task *task;
    weft_result *result;
    open_session();
    CHECK_INT(weft_query(session, NULL, &result, &error), WEFT_OK);
    weft_result_free(result);
    CHECK_INT(weft_submit(session, NULL, &task, &error), WEFT_OK);
    CHECK_INT(weft_wait(task, &result, &error), WEFT_OK);
    weft_result_free(result);
    CHECK_INT(weft_statement_length(NULL), 0);
    close_session();
}

TEST(copy_to_a_descriptor)
{
    char bytes[100] = "";
    int fd = memfd_create("copy", 0);
    open_session();
    run("create table t as select 1 as a, 'x' as b");
    weft_set_output(session, fd);
    run("copy t to stdout (format csv, header)");
    CHECK(pread(fd, bytes, sizeof bytes - 1, 0) > 0);
    CHECK_STR(bytes, "a,b\n1,x\n");
    close(fd);
    close_session();
}

TEST(temporary_tables_belong_to_their_session)
{
    weft_session *other;
    weft_result *result;
    open_session();
    run("create temporary table t as select 5 as a");
    CHECK_INT(weft_connect(db, &other, &error), WEFT_OK);
    CHECK_INT(weft_query(other, "select a from t", &result, &error), WEFT_UNDEFINED_TABLE);
    CHECK_INT(weft_query(other, "create table t as select 6 as a", NULL, &error), WEFT_OK);
    CHECK_INT(weft_query(session, "select a from t", &result, &error), WEFT_OK);
    CHECK_STR(values(result), "5;");
    CHECK_INT(weft_query(other, "select a from t", &result, &error), WEFT_OK);
    CHECK_STR(values(result), "6;");
    weft_disconnect(other);
    close_session();
}

