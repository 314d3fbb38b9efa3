// told.c - equal queries at once, which one of them runs for all: where the GPU did not run it, each that asked for a GPU is told so, and one that did not is not.
//
// Run by tests/check-gpu with the fake driver and a pool of 64 kB, which has no room for a chunk.

#include <unistd.h>

#include "help.h"

enum { N_SESSIONS = 8, N_ROWS = 200000, ROUNDS = 4 };

static weft_session *sessions[N_SESSIONS];

// The last one asks for no GPU.  Where it takes part, it may run what the others get, and then there is nothing to tell.
static void run_round(const char *sql, bool with_last)
{
    const int  n = with_last ? N_SESSIONS : N_SESSIONS - 1;
    weft_task *tasks[N_SESSIONS];
    for (int i = 0; i < n; i++) tasks[i] = begin(sessions[i], sql);
    for (int i = 0; i < n; i++) {
        weft_result *result = NULL;
        weft_error   error;
        char         got[40];
        if (weft_wait(tasks[i], &result, &error)) exit((printf("failed: %s\n", error.message), 1));
        snprintf(got, sizeof got, "%d notices", weft_result_notices(result));
        if (!with_last) check(weft_result_notices(result) > 0, "who asked for a GPU", got);
        else if (i == n - 1) check(weft_result_notices(result) == 0, "who did not", got);
        weft_result_free(result);
    }
}

int main(void)
{
    char       path[] = "/tmp/weft-told.XXXXXX";
    weft_db   *db;
    weft_error error;
    const int  file = mkstemp(path);
    if (file < 0 || close(file) || weft_open(NULL, &db, &error)) return 1;
    weft_session *loader = connect_alone(db, "cpu");
    write_csv(path, N_ROWS);
    load_csv(loader, "t", path);
    unlink(path);
    weft_disconnect(loader);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], i < N_SESSIONS - 1 ? "set device = cuda" : "set device = cpu");
    }
    for (int round = 0; round < ROUNDS; round++) {
        run_round("select d, count(*), sum(a) from t where b < 900 group by d order by d", round % 2);
        run_round("select count(*), sum(x.a) from t x, t y where x.a = y.a and y.b < 300", round % 2);
    }
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
