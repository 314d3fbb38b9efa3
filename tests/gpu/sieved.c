// sieved.c - queries that meet on a GPU look at a row at once, and each gets the answer that it gets alone on the CPU.
//
// Run by tests/check-gpu with the fake driver, and a pool that the table does not fit: riders then gather at the runs.  The fake hands a kernel only
// the rows whose bits are set, so a bit that is missing shows.

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "help.h"

enum { N_ROWS = 60000, N_SESSIONS = 20, ROUNDS_LEAST = 8, ROUNDS_MOST = 150, PARTS_ENOUGH = 300 };

static void fill(weft_session *session)
{
    char *sql = malloc(1 << 20), *at = sql;
    must(session, "set chunk_rows = 5000");
    must(session, "create table t (a integer, b integer, c integer, d integer, e text, f integer, g bigint, h bigint, i bigint, j bigint)");
    must(session, "create table k (id integer, name text, size integer)");
    must(session, "create table wide (id integer, v integer)");
    for (int i = 0; i < N_ROWS; i++) {
        const bool is_first = i % 10000 == 0;
        if (is_first && i) must(session, sql);
        if (is_first) at = sql + sprintf(sql, "insert into t values ");
        at += sprintf(at, "%s(%d,%d,", is_first ? "" : ",", i * 7 % 60000, i % 100);
        at += i % 11 ? sprintf(at, "%d,", i % 300 - 150) : sprintf(at, "null,");
        at += sprintf(at, "%d,'%c',%d,", i * 31 % 5000, 'a' + i % 5, i / 10);
        at += sprintf(at, "%lld,%lld,%lld,%lld)", i * 1000000007ll, i * 1000000009ll, i * -1000000021ll, i * 1000000033ll);
    }
    must(session, sql);
    at = sql + sprintf(sql, "insert into k values ");
    for (int i = 0; i < 300; i++) at += sprintf(at, "%s(%d,'name %d',%d)", i ? "," : "", i - 150, i % 7, i % 40);
    must(session, sql);
    at = sql + sprintf(sql, "insert into wide values ");
    for (int i = 0; i < 5000; i++) at += sprintf(at, "%s(%d,%d)", i ? "," : "", i, i * 13 % 1000);
    must(session, sql);
    free(sql);
}

// Ranges, bit tables, tables with payloads, rows that nobody wants, NULLs, dictionary codes, groups in arrays and in hash tables, chunks that only some want.
static void make_query(int n, int round, char *sql, size_t room)
{
    static const char wide[] = "sum(g), sum(h), min(i), max(j)";       // so much to read that sharing tests pays
    const int         x = (n * 37 + round * 11) % 60;
    switch (n % 10) {
        case 0: snprintf(sql, room, "select %s, sum(a * d), count(*) from t where b between %d and %d and d < %d", wide, x, x + 3, 1000 + x); break;
        case 1: snprintf(sql, room, "select k.name, %s, count(*) from t, k where t.c = k.id and k.size = %d group by k.name order by 1", wide, x % 40); break;
        case 2: snprintf(sql, room, "select wide.v, %s from t, wide where t.d = wide.id and wide.v between %d and %d group by wide.v order by 1", wide, x, x + 20); break;
        case 3: snprintf(sql, room, "select count(*), %s from t, k, wide where t.c = k.id and t.d = wide.id and k.size < %d and wide.v < %d", wide, 1 + x % 8, 100 + x); break;
        case 4: snprintf(sql, room, "select e, %s from t where f between %d and %d group by e order by e", wide, x * 50, x * 50 + 900); break;
        case 5: snprintf(sql, room, "select a, %s from t where b = %d and d between 100 and %d group by a order by a", wide, x, 400 + x); break;
        case 6: snprintf(sql, room, "select sum(a + %d), %s from t where c = %d", x, wide, x - 30); break;
        case 7: snprintf(sql, room, "select sum(a), %s from t where d > 100000 + %d", wide, x); break;
        case 8: snprintf(sql, room, "select %s from t, k where t.c = k.id and k.name = 'name %d' and k.size > %d and b < 20", wide, x % 9, x % 35); break;
        default: snprintf(sql, room, "select e, count(*), %s from t, wide where t.d = wide.id and wide.v = %d and e < 'd' group by e order by e", wide, x); break;
    }
}

static void run_round(weft_session **sessions, weft_session *onlooker, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][300];
    weft_error error;
    for (int i = 0; i < N_SESSIONS; i++) {
        make_query(i, round, sql[i], sizeof sql[i]);
        if (weft_submit(sessions[i], sql[i], &tasks[i], &error)) exit((printf("failed: %s\n", error.message), 1));
    }
    for (int i = 0; i < N_SESSIONS; i++) {
        weft_result *result = NULL;
        char        *got = calloc(1, ANSWER_BYTES), *expected = answer(onlooker, sql[i]);
        if (weft_wait(tasks[i], &result, &error)) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
        else print_result(result, got);
        check(strcmp(got, expected) == 0, sql[i], got);
        free(got);
        free(expected);
    }
}

int main(void)
{
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    int           round = 0;
    void         *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    int         (*parts_sieved)(void) = fake ? (int (*)(void))dlsym(fake, "fake_cuda_sieved") : NULL;
    if (!parts_sieved) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    fill(onlooker);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    while (round < ROUNDS_LEAST || (round < ROUNDS_MOST && parts_sieved() < PARTS_ENOUGH)) run_round(sessions, onlooker, round++);
    check(parts_sieved() >= PARTS_ENOUGH, "queries are sieved together", "seldom");
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
