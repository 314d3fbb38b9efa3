// statement.c - one statement to its result, its notices or its error, and how long it took.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shell/shell.h"

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// "12.345 ms", and for long ones also in words a person reads without counting digits.
static void print_time(double time_ms)
{
    if (time_ms < 1000)
        fprintf(stderr, "Time: %.3f ms\n", time_ms);
    else if (time_ms < 60000)
        fprintf(stderr, "Time: %.3f ms (%.1f s)\n", time_ms, time_ms / 1000);
    else
        fprintf(stderr, "Time: %.3f ms (%d min %d s)\n", time_ms, (int)(time_ms / 60000), (int)(time_ms / 1000) % 60);
}

// SUBSCRIBE TO v: prints the changes, and asks for the next.  Ctrl-C or a timeout ends it, as it should.
static weft_status show_changes(Shell *shell, const char *sql, weft_result **result, weft_error *error)
{
    show_result(shell, *result);
    fflush(stdout);
    weft_result_free(*result);
    const weft_status status = weft_query(shell->session, sql, result, error);
    if (status != WEFT_QUERY_CANCELED)
        return status;
    return weft_query(shell->session, "", result, error);
}

bool run_statement(Shell *shell, const char *sql, const char *name, int line)
{
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };

    fflush(stdout);                                        // COPY ... TO STDOUT writes past it
    if (shell->last_sql != sql) {
        free(shell->last_sql);
        shell->last_sql = must_copy(sql);
    }
    watch_begin();
    double start_ms = now_ms();
    weft_status status = weft_query(shell->session, sql, &result, &error);
    while (!status && !strncmp(weft_result_tag(result), "SUBSCRIBE", 9))
        status = show_changes(shell, sql, &result, &error);
    double time_ms = now_ms() - start_ms;
    watch_end();

    if (status) {
        fflush(stdout);                                    // so that both streams in one file keep their order
        report_error(shell, &error, sql, name, line);
    } else {
        report_notices(result);
        show_result(shell, result);
    }
    weft_result_free(result);
    if (shell->has_timing)
        print_time(time_ms);
    return status == WEFT_OK;
}
