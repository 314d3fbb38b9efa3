// tight.c - chunks that take nearly all of a pool: each of them finds room, wherever blocks and columns of the queries
// before have lain.
//
// Run by tests/check-gpu with the fake driver and a pool of 1 MB, which is 16 frames: of a chunk, b takes 9 and d takes
// 5.

#include "help.h"

enum { N_ROWS = 600000, N_ROUNDS = 24, N_SESSIONS = 4 };

static weft_session *onlooker, *sessions[N_SESSIONS];

static void make(int n, char *sql)
{
    static const char *const shapes[] = { "select count(*), sum(b) from t where d < %d",
                                          "select count(*), sum(d) from t where b < %d",
                                          "select count(*) from t where d = %d" };
    snprintf(sql, QUERY_BYTES, shapes[n % 3], 5 + n);
}

static void check_notices(const char *what)
{
    char counted[40];
    snprintf(counted, sizeof counted, "%d notices", n_notices);
    check(n_notices == 0, what, counted);
    n_notices = 0;
}

static void run_alone(void)
{
    for (int n = 0; n < N_ROUNDS; n++) {
        char       sql[1][QUERY_BYTES];
        weft_task *task;
        make(n, sql[0]);
        submit_all(sessions, 1, sql, &task);
        check_all(onlooker, 1, sql, &task);
    }
    check_notices("one after the other");
}

static void run_at_once(void)
{
    for (int n = 0; n < N_ROUNDS; n += N_SESSIONS) {
        char       sql[N_SESSIONS][QUERY_BYTES];
        weft_task *tasks[N_SESSIONS];
        for (int i = 0; i < N_SESSIONS; i++) make(n + i, sql[i]);
        submit_all(sessions, N_SESSIONS, sql, tasks);
        check_all(onlooker, N_SESSIONS, sql, tasks);
    }
    check_notices("at once");
}

int main(void)
{
    weft_db   *db;
    weft_error error;
    if (weft_open(NULL, &db, &error)) return 1;
    onlooker = connect_alone(db, "cpu");
    must(onlooker, "set chunk_rows = 262144");
    fill_table(onlooker, "t", N_ROWS);
    for (int i = 0; i < N_SESSIONS; i++) sessions[i] = connect_alone(db, "cuda");
    run_alone();
    run_at_once();
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
