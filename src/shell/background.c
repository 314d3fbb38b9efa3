// background.c - \bg: statements that run beside the prompt, each in a session of its own.
//
//     \bg copy s from '/run/feed.csv' (format csv)     starts it
//     \bg                                              lists what runs and what has ended since the last list
//     \bg cancel 1                                     ends it; a COPY into a stream ends behind a commit
//     \bg wait                                         until all have ended
//
// A database belongs to one process, so a pipe that feeds a stream is read here, while queries go on.  A statement gets
// the prompt's settings of how it is to run, but not its timeout.  What still runs when the shell ends is cancelled.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"

typedef struct Background {
    int           number;
    char         *sql;
    weft_session *session;
    weft_task    *task;
    struct Background *next;
} Background;

static Background *running;            // newest first; the shell has one thread
static int         n_started;

static void report_end(Shell *shell, Background *job)
{
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    if (weft_wait(job->task, &result, &error)) {
        printf("[%d] %s\n", job->number, error.message);
        if (error.hint[0])
            printf("    %s\n", error.hint);
    } else {
        for (int i = 0; i < weft_result_notices(result); i++)
            printf("[%d] notice: %s\n", job->number, weft_result_notice(result, i));
        printf("[%d] %s\n", job->number, weft_result_tag(result));
    }
    (void)shell;
    weft_result_free(result);
    weft_disconnect(job->session);
    free(job->sql);
    free(job);
}

// Reports the jobs that have ended; with WAITS all of them.
static void collect(Shell *shell, bool waits)
{
    for (Background **link = &running; *link;) {
        Background *job = *link;
        if (waits || weft_is_done(job->task)) {
            *link = job->next;
            report_end(shell, job);
        } else {
            link = &job->next;
        }
    }
}

static weft_status set_alike(weft_session *from, weft_session *to, const char *name, weft_error *error)
{
    char text[200];
    weft_result *result = NULL, *none = NULL;
    snprintf(text, sizeof text, "show %s", name);
    weft_status status = weft_query(from, text, &result, error);
    if (!status) {
        const weft_text value = weft_result_column(result, 0)->text[0];
        snprintf(text, sizeof text, "set %s = '%.*s'", name, (int)value.length, value.bytes);
        status = weft_query(to, text, &none, error);
    }
    weft_result_free(result);
    weft_result_free(none);
    return status;
}

static weft_status take_settings(weft_session *from, weft_session *to, weft_error *error)
{
    static const char *const names[] = { "device", "jit",     "priority", "sharing",
                                         "stream_commit_ms", "threads", "timezone", "weave" };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        status = set_alike(from, to, names[i], error);
    return status;
}

static bool start(Shell *shell, const char *sql)
{
    weft_error error = { .status = WEFT_OK };
    Background *job = calloc(1, sizeof *job);
    if (!job || weft_connect(shell->db, &job->session, &error) ||
        take_settings(shell->session, job->session, &error) ||
        weft_submit(job->session, sql, &job->task, &error)) {
        report_problem(shell, "\\bg: %s", job ? error.message : "out of memory");
        if (job)
            weft_disconnect(job->session);
        free(job);
        return false;
    }
    job->sql = must_copy(sql);
    job->number = ++n_started;
    job->next = running;
    running = job;
    printf("[%d] started\n", job->number);
    return true;
}

static bool cancel(Shell *shell, const char *number)
{
    const int wanted = atoi(number);
    for (Background *job = running; job; job = job->next) {
        if (job->number != wanted)
            continue;
        weft_cancel(job->session);
        return true;
    }
    report_problem(shell, "\\bg: there is no statement %s; \\bg lists them", number);
    return false;
}

bool background_run(Shell *shell, const char *argument)
{
    bool is_fine = true;
    if (!strncmp(argument, "cancel ", 7))
        is_fine = cancel(shell, argument + 7);
    else if (*argument && strcmp(argument, "wait"))
        is_fine = start(shell, argument);
    collect(shell, !strcmp(argument, "wait"));
    for (const Background *job = *argument ? NULL : running; job; job = job->next)
        printf("[%d] running: %s\n", job->number, job->sql);
    return is_fine;
}

void background_end(Shell *shell)
{
    for (Background *job = running; job; job = job->next)
        weft_cancel(job->session);
    collect(shell, true);
    fflush(stdout);
}
