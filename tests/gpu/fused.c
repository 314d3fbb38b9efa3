// fused.c - queries that meet on a GPU share a kernel, and each gets the answer that it gets alone on the CPU.
//
// Run by tests/check-gpu with the fake driver, and a pool that the table does not fit: riders then gather at the runs.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

enum { N_ROWS = 60000, N_SESSIONS = 16, ROUNDS_LEAST = 6, ROUNDS_MOST = 150 };

static void fill(weft_session *session)
{
    char *sql = malloc((size_t)N_ROWS * 64 + 100), *at = sql + sprintf(sql, "insert into t values ");
    must(session, "set chunk_rows = 5000");
    must(session, "create table t (a integer, b integer, c integer, d double precision, e text, f integer)");
    must(session, "create table k (id integer, name text)");
    must(session, "insert into k values (1, 'one'), (2, 'two'), (3, 'three'), (5, 'five'), (7, 'seven')");
    for (int i = 0; i < N_ROWS; i++) {
        at += sprintf(at, "%s(%d,%d,", i ? "," : "", i * 7 % 60000, i % 100);
        at += i % 11 ? sprintf(at, "%d,", i % 9) : sprintf(at, "null,");
        at += sprintf(at, "%d.%d,'%c',%d)", i % 1000, i % 8 * 125, 'a' + i % 5, i);
    }
    must(session, sql);
    free(sql);
}

// Shapes: the first three are asked for with several constants at once; of the third, each has a join table of its own.  Column f grows with the rows, so that queries want different chunks.
static void make_query(int n, int round, char *sql, size_t room)
{
    static const char *const others[] = {
        "select e, sum(a), count(c), min(b) from t where b >= %d group by e order by e",
        "select sum(d), avg(a), max(c) from t where f between %d00 and 50000",
        "select count(*), sum(b) from t, k where t.c = k.id and a > %d",
        "select sum(a), count(*) + %d from t",
        "select k.name, sum(a + b) from t, k where t.c = k.id and b < 90 and a > %d group by k.name order by 1",
    };
    const int constant = (n * 37 + round * 11) % 80;
    if (n < 5) snprintf(sql, room, "select sum(a * b), count(*) from t where b between %d and %d and a < %d", constant, constant + 10 + n, 50000 - n * 100);
    else if (n < 8) snprintf(sql, room, "select sum(a * b) from t where b between %d and %d and f between %d and %d", constant, constant + 10 + n, n * 3000, n * 3000 + 20000);
    else if (n < 13) snprintf(sql, room, "select sum(a + k.id) from t, k where t.b = k.id and k.id <= %d and a < %d", n - 7, 40000 - n * 100);
    else snprintf(sql, room, others[(n + round) % 5], constant);
}

static void run_round(weft_session **sessions, weft_session *onlooker, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < N_SESSIONS; i++) make_query(i, round, sql[i], sizeof sql[i]);
    submit_all(sessions, N_SESSIONS, sql, tasks);
    check_all(onlooker, N_SESSIONS, sql, tasks);
}

static long long number(weft_session *session, const char *sql)
{
    char           *text = answer(session, sql);
    const long long value = atoll(text);
    free(text);
    return value;
}

static void connect_all(weft_db *db, weft_session **sessions, const char *setting)
{
    weft_error error;
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) exit(1);
        must(sessions[i], "set device = cuda");
        must(sessions[i], setting);
    }
}

int main(void)
{
    static const char fused_sql[] = "select rides_fused from weft_scans where table_name = 't'", cubed_sql[] = "select rides_cubed from weft_scans where table_name = 't'";
    weft_db          *db;
    weft_session     *sessions[N_SESSIONS], *onlooker;
    weft_error        error;
    int               round = 0;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    fill(onlooker);
    connect_all(db, sessions, "set weave_queries = off");
    for (; round < 3; round++) run_round(sessions, onlooker, round);
    check(number(onlooker, fused_sql) == 0 && number(onlooker, cubed_sql) == 0, "weave_queries = off", "shared a kernel");
    for (int i = 0; i < N_SESSIONS; i++) must(sessions[i], "set weave_queries = on");
    while (round < ROUNDS_LEAST || (round < ROUNDS_MOST && (number(onlooker, fused_sql) < 100 || number(onlooker, cubed_sql) < 100))) run_round(sessions, onlooker, round++);
    check(number(onlooker, fused_sql) > 0, "kernels are shared", "never");
    check(number(onlooker, cubed_sql) > 0, "queries of one shape are one", "never");
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
