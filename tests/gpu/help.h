// help.h - for programs that look at a database over the fake driver: one each, so that all of it is static.

#ifndef WEFT_TESTS_GPU_HELP_H
#define WEFT_TESTS_GPU_HELP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weft.h"

enum { ANSWER_BYTES = 1 << 16 };

static int  n_passed, n_failed, n_notices;      // of results that were printed
static char last_notice[400];

static inline void check(int is_right, const char *what, const char *got)
{
    if (is_right) n_passed++;
    else n_failed++, printf("failed: %s: %.300s\n", what, got);
}

// All cells, each with a bar behind it; frees the result.
static inline void print_result(weft_result *result, char *text)
{
    size_t length = 0;
    const int n_new = weft_result_notices(result);
    if (n_new) snprintf(last_notice, sizeof last_notice, "%s", weft_result_notice(result, n_new - 1));
    n_notices += n_new;
    for (size_t r = 0; r < weft_result_rows(result); r++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[512];
            weft_format(result, c, r, value, sizeof value);
            if (length < ANSWER_BYTES - 600)
                length += (size_t)snprintf(text + length, ANSWER_BYTES - length, "%s|", value);
        }
    weft_result_free(result);
}

static inline char *answer(weft_session *session, const char *sql)
{
    weft_result *result;
    weft_error   error;
    char        *text = calloc(1, ANSWER_BYTES);
    if (weft_query(session, sql, &result, &error))
        snprintf(text, ANSWER_BYTES, "error %s: %s", error.sqlstate, error.message);
    else print_result(result, text);
    return text;
}

static inline void must(weft_session *session, const char *sql)
{
    weft_error   error;
    weft_result *result = NULL;
    if (weft_query(session, sql, &result, &error)) {
        printf("failed: %.80s: %s\n", sql, error.message);
        exit(1);
    }
    weft_result_free(result);
}

static inline weft_session *connect_to(weft_db *db, const char *device)
{
    weft_session *session;
    weft_error    error;
    char          sql[60];
    if (weft_connect(db, &session, &error)) exit((printf("failed: %s\n", error.message), 1));
    snprintf(sql, sizeof sql, "set device = '%s'", device);
    must(session, sql);
    return session;
}

static inline weft_session *connect_alone(weft_db *db, const char *device)      // its queries share no scan
{
    weft_session *session = connect_to(db, device);
    must(session, "set sharing = off");
    return session;
}

static inline weft_task *begin(weft_session *session, const char *sql)
{
    weft_task *task;
    weft_error error;
    if (weft_submit(session, sql, &task, &error)) exit((printf("failed: %s\n", error.message), 1));
    return task;
}

// Until the launch of TASK has come that is to take long (fake_cuda_has_come), or TASK has failed before it.
static inline void wait_for_launch(int (*has_come)(void), weft_task *task)
{
    for (int ms = 0; ms < 60000 && !has_come() && !weft_is_done(task); ms++) usleep(1000);
}

// A table (a, b, c, d) of so many rows, by a file; every seventh c is NULL.
static inline void write_csv(const char *path, int n_rows)
{
    FILE *out = fopen(path, "w");
    if (!out) exit((printf("failed: %s cannot be written\n", path), 1));
    for (int i = 0; i < n_rows; i++) {
        fprintf(out, "%d,%d,", i * 3, i * 31 % 1009);
        if (i % 7) fprintf(out, "%d", i % 5000);
        fprintf(out, ",%d\n", i % 97);
    }
    fclose(out);
}

static inline void load_csv(weft_session *session, const char *table, const char *path)
{
    char sql[200];
    snprintf(sql, sizeof sql, "create table %s (a integer, b integer, c bigint, d integer)", table);
    must(session, sql);
    snprintf(sql, sizeof sql, "copy %s from '%s' with (format csv)", table, path);
    must(session, sql);
}

static inline void fill_table(weft_session *session, const char *table, int n_rows)
{
    char      path[] = "/tmp/weft-fill.XXXXXX";
    const int file = mkstemp(path);
    if (file < 0 || close(file)) exit((puts("failed: no file"), 1));
    write_csv(path, n_rows);
    load_csv(session, table, path);
    remove(path);
}

// The rows of an INSERT as lines of CSV.  Texts have no quote or comma in them.
static inline void write_values(const char *at, FILE *out)
{
    bool is_text = false;
    for (; *at; at++)
        if (*at == '\'') is_text = !is_text;
        else if (is_text) putc(*at, out);
        else if (*at == ')') putc('\n', out), at += at[1] == ',';
        else if (strncmp(at, "null", 4) == 0) at += 3;
        else if (*at != '(' && *at != ' ') putc(*at, out);
}

// "insert into TABLE values ..." of many rows, by COPY: each value of an INSERT is parsed as an expression, which took
// longer than the queries that came after it.
static inline void load_values(weft_session *session, const char *insert)
{
    char        table[40], sql[200], path[] = "/tmp/weft-load.XXXXXX";
    const int   number = mkstemp(path);
    FILE       *out = number < 0 ? NULL : fdopen(number, "w");
    const char *values = strstr(insert, " values ");
    if (!out || !values || sscanf(insert, "insert into %39s values", table) != 1) exit((puts("failed: no rows"), 1));
    write_values(values + 8, out);
    fclose(out);
    snprintf(sql, sizeof sql, "copy %s from '%s' with (format csv)", table, path);
    must(session, sql);
    remove(path);
}

enum { QUERY_BYTES = 300 };

static inline void submit_all(weft_session **sessions, int n, char sql[][QUERY_BYTES], weft_task **tasks)
{
    for (int i = 0; i < n; i++) tasks[i] = begin(sessions[i], sql[i]);
}

// Each has the answer that the onlooker gets.
static inline void check_all(weft_session *onlooker, int n, char sql[][QUERY_BYTES], weft_task **tasks)
{
    for (int i = 0; i < n; i++) {
        weft_result *result = NULL;
        weft_error   error;
        char        *got = calloc(1, ANSWER_BYTES), *expected = answer(onlooker, sql[i]);
        if (weft_wait(tasks[i], &result, &error)) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
        else print_result(result, got);
        check(strcmp(got, expected) == 0, sql[i], got);
        free(got);
        free(expected);
    }
}

#endif
