// help.h - for programs that look at a database over the fake driver: one each, so that all of it is static.

#ifndef WEFT_TESTS_GPU_HELP_H
#define WEFT_TESTS_GPU_HELP_H

#include <stdio.h>
#include <stdlib.h>

#include "weft.h"

enum { ANSWER_BYTES = 1 << 16 };

static int n_passed, n_failed;

static inline void check(int is_right, const char *what, const char *got)
{
    if (is_right) n_passed++;
    else n_failed++, printf("failed: %s: %.300s\n", what, got);
}

// All cells, each with a bar behind it; frees the result.
static inline void print_result(weft_result *result, char *text)
{
    size_t length = 0;
    for (size_t r = 0; r < weft_result_rows(result); r++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[512];
            weft_format(result, c, r, value, sizeof value);
            if (length < ANSWER_BYTES - 600) length += (size_t)snprintf(text + length, ANSWER_BYTES - length, "%s|", value);
        }
    weft_result_free(result);
}

static inline char *answer(weft_session *session, const char *sql)
{
    weft_result *result;
    weft_error   error;
    char        *text = calloc(1, ANSWER_BYTES);
    if (weft_query(session, sql, &result, &error)) snprintf(text, ANSWER_BYTES, "error %s: %s", error.sqlstate, error.message);
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

#endif
