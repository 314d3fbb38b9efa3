// args.c - so many queries with so many constants meet that their arguments do not fit one run: some of them take the
// next.
//
// Run by tests/check-gpu with the fake driver, which tells when more is copied than a buffer takes.  One launch takes
// long, so that all others meet behind it.

#include <dlfcn.h>

#include "help.h"

enum { N_SESSIONS = 800, FEW = 20, N_CONSTANTS = 35 * FEW, N_ROWS = 100, WAIT_MS = 3000, CHECKED_STEP = 80 };

static void (*launch_takes)(int ms);

// Many constants of an IN would be a table; of a few each is an argument.
static char *make_query(int n)
{
    char  *sql = malloc(200 + N_CONSTANTS * 20), *end = sql;
    end += sprintf(end, "select count(*), sum(a), sum(c) from t where d < %d and (b * d = 0", 90 + n % 7);
    for (int k = 0; k < N_CONSTANTS; k++)
        end += sprintf(end, "%s%d%s", k % FEW ? "," : " or b * d in (", (k * 37 + n * 11) % 99000,
                       k % FEW == FEW - 1 ? ")" : "");
    sprintf(end, ")");
    return sql;
}

static void submit_together(weft_session **sessions, char **sql, weft_task **tasks)
{
    weft_error error;
    launch_takes(WAIT_MS);
    for (int i = 0; i < N_SESSIONS; i++)
        if (weft_submit(sessions[i], sql[i], &tasks[i], &error)) exit((printf("failed: %s\n", error.message), 1));
}

static void check_answers(weft_session *onlooker, char **sql, weft_task **tasks)
{
    for (int i = 0; i < N_SESSIONS; i++) {
        weft_result *result;
        weft_error   error;
        char        *got = calloc(1, ANSWER_BYTES);
        if (weft_wait(tasks[i], &result, &error))
            snprintf(got, ANSWER_BYTES, "error %s: %s", error.sqlstate, error.message);
        else print_result(result, got);
        char *expected = i % CHECKED_STEP ? strdup(got) : answer(onlooker, sql[i]);
        check(strcmp(got, expected) == 0 && strncmp(got, "error", 5) != 0, "the answer of one of many", got);
        free(expected);
        free(got);
    }
    check(n_notices == 0, "a query that the device did not run", "there are notices");
}

int main(void)
{
    weft_db      *db;
    weft_error    error;
    weft_session *sessions[N_SESSIONS];
    weft_task    *tasks[N_SESSIONS];
    char         *sql[N_SESSIONS];
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    if (!launch_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error)) return printf("failed: %s\n", error.message), 1;
    weft_session *onlooker = connect_to(db, "cpu");
    fill_table(onlooker, "t", N_ROWS);
    for (int i = 0; i < N_SESSIONS; i++) sessions[i] = connect_to(db, "cuda"), sql[i] = make_query(i);
    free(answer(sessions[0], sql[0]));                      // the code is made
    submit_together(sessions, sql, tasks);
    check_answers(onlooker, sql, tasks);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]), free(sql[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
