// told.c - equal queries at once, which one of them runs for all: where the GPU did not run it, each that asked for a
// GPU is told so, and one that did not is not.
//
// Run by tests/check-gpu with the fake driver and a pool of 64 kB, which has no room for a chunk.

#include "help.h"

enum { N_SESSIONS = 8, N_ROWS = 200000, ROUNDS = 4 };

static weft_session *sessions[N_SESSIONS];

// The first one asks for the CPU, and is at work when the others come: they share what one of them runs, not what it
// does.
static void run_round(const char *sql)
{
    weft_task *tasks[N_SESSIONS];
    for (int i = 0; i < N_SESSIONS; i++) tasks[i] = begin(sessions[i], sql);
    for (int i = 0; i < N_SESSIONS; i++) {
        weft_result *result = NULL;
        weft_error   error;
        char         got[40];
        if (weft_wait(tasks[i], &result, &error)) exit((printf("failed: %s\n", error.message), 1));
        snprintf(got, sizeof got, "%d notices", weft_result_notices(result));
        check((weft_result_notices(result) > 0) == (i > 0), i ? "who asked for a GPU" : "who did not", got);
        weft_result_free(result);
    }
}

int main(void)
{
    weft_db   *db;
    weft_error error;
    if (weft_open(NULL, &db, &error)) return 1;
    weft_session *loader = connect_alone(db, "cpu");
    fill_table(loader, "t", N_ROWS);
    weft_disconnect(loader);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], i ? "set device = cuda" : "set device = cpu");
    }
    for (int round = 0; round < ROUNDS; round++) {
        run_round("select d, count(*), sum(a) from t where b < 900 group by d order by d");
        run_round("select count(*), sum(x.a) from t x, t y where x.a = y.a and y.b < 300");
    }
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
