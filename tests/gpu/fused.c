// fused.c - queries that meet on a GPU share a kernel, and each gets the answer that it gets alone on the CPU.
//
// Run by tests/check-gpu with the fake driver, and a pool that the table does not fit: riders then gather at the runs;
// --few by tests/check-stress-gpu.  Without WEFT_LIBCUDA it runs on a GPU (scripts/gpu-test), for as long as kernels
// may take to be compiled.  --few: fewer queries, whose kernels are the same in every round, since compute-sanitizer
// takes a second or more to make each its own.

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "help.h"

enum {
    N_ROWS = 60000,
    CHUNK_ROWS = 5000,
    N_SESSIONS = 16,
    SESSIONS_FEW = 6,
    ROUNDS_LEAST = 6,
    ROUNDS_BY_CHANCE = 30,
    ROUNDS_MOST = 150,
    LAUNCH_MS = 20,
    RIDES_ENOUGH = 100,
    RIDES_FEW = 4,
    SECONDS_MOST = 60,
    NAMES_ROUNDS = 40
};

static int n_sessions = N_SESSIONS, rides_enough = RIDES_ENOUGH;

static void fill(weft_session *session)
{
    char *sql = malloc((size_t)N_ROWS * 64 + 100), *at = sql + sprintf(sql, "insert into t values ");
    must(session, "set chunk_rows = 5000");        // CHUNK_ROWS
    must(session, "create table t (a integer, b integer, c integer, d double precision, e text, f integer)");
    must(session, "create table k (id integer, name text)");
    must(session, "insert into k values (1, 'one'), (2, 'two'), (3, 'three'), (5, 'five'), (7, 'seven')");
    for (int i = 0; i < N_ROWS; i++) {
        at += sprintf(at, "%s(%d,%d,", i ? "," : "", i * 7 % 60000, i % 100);
        at += i % 11 ? sprintf(at, "%d,", i % 9) : sprintf(at, "null,");
        at += sprintf(at, "%d.%d,'%c',%d)", i % 1000, i % 8 * 125, 'a' + i % 5, i);
    }
    load_values(session, sql);
    free(sql);
}

// Shapes: the first three are asked for with several constants at once; of the third, each has a join table of its own.
// Column f grows with the rows, so that queries want different chunks.
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
    if (n < 5)
        snprintf(sql, room, "select sum(a * b), count(*) from t where b between %d and %d and a < %d", constant,
                 constant + 10 + n, 50000 - n * 100);
    else if (n < 8)
        snprintf(sql, room, "select sum(a * b) from t where b between %d and %d and f between %d and %d", constant,
                 constant + 10 + n, n * 3000, n * 3000 + 20000);
    else if (n < 13)
        snprintf(sql, room, "select sum(a + k.id) from t, k where t.b = k.id and k.id <= %d and a < %d", n - 7,
                 40000 - n * 100);
    else snprintf(sql, room, others[(n + round) % 5], constant);
}

// All of one shape in one round, of three in the next: what is of one shape may also be fused with others.
static void make_few(int n, int round, char *sql, size_t room)
{
    static const char *const others[] = {
        "select e, sum(a), count(c), min(b) from t where b >= %d group by e order by e",
        "select sum(d), avg(a), max(c) from t where b >= %d",
        "select k.name, sum(a + b) from t, k where t.c = k.id and a > %d group by k.name order by 1",
    };
    const int constant = (n * 37 + round * 11) % 80;
    if (round % 2)
        snprintf(sql, room, "select sum(a * b), count(*) from t where b between %d and %d and a < 50000", constant,
                 constant + 10 + n);
    else snprintf(sql, room, others[n % 3], constant);
}

static void (*launch_takes)(int ms);    // of the fake driver

static void run_round(weft_session **sessions, weft_session *onlooker, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < n_sessions; i++)
        (n_sessions == SESSIONS_FEW ? make_few : make_query)(i, round, sql[i], sizeof sql[i]);
    // They meet behind the first, however busy the machine is.
    if (launch_takes && round >= ROUNDS_BY_CHANCE) launch_takes(LAUNCH_MS);
    submit_all(sessions, n_sessions, sql, tasks);
    check_all(onlooker, n_sessions, sql, tasks);
}

// Columns whose names are the same in a kernel's text: queries of one text, over other columns.
static void fill_names(weft_session *session)
{
    char *sql = malloc((size_t)N_ROWS * 40 + 100), *at = sql + sprintf(sql, "insert into names values ");
    must(session, "create table names (\"Price\" integer, price integer, \"Qty\" integer, qty integer)");
    for (int i = 0; i < N_ROWS; i++)
        at += sprintf(at, "%s(%d,%d,%d,%d)", i ? "," : "", i % 7, 100 + i % 13, i % 11, 50 + i % 17);
    load_values(session, sql);
    free(sql);
}

static void run_names(weft_session **sessions, weft_session *onlooker, int round, bool is_mixed)
{
    enum { N = 4 };
    weft_task *tasks[N];
    char       sql[N][QUERY_BYTES];
    for (int i = 0; i < N; i++) {
        const bool is_other = is_mixed && (i + round / 2) % 2;
        snprintf(sql[i], QUERY_BYTES, "select sum(\"%s\" * %d + \"%s\") from names", is_other ? "price" : "Price",
                 3 + (round * N + i) % 50, is_other ? "qty" : "Qty");
    }
    if (launch_takes) launch_takes(LAUNCH_MS);
    submit_all(sessions, N, sql, tasks);
    check_all(onlooker, N, sql, tasks);
}

static long long n_all_rides(weft_session *onlooker, const char *column)
{
    char sql[100];
    snprintf(sql, sizeof sql, "select %s from weft_scans where table_name = 't'", column);
    char           *text = answer(onlooker, sql);
    const long long value = atoll(text);
    free(text);
    return value;
}

// COLUMN of weft_scans, without what the CPU may have shared: it tells of each scan that it did instead.
static long long n_rides(weft_session *onlooker, const char *column)
{
    return n_all_rides(onlooker, column) - n_notices;
}

// Each ride counts once, however many of its chunks had a kernel with others.
static void check_once(weft_session *onlooker)
{
    char *right =
        answer(onlooker,
               "select rides_woven > 0, rides_woven <= rides, rides_fused <= rides_woven, rides_cubed <= rides_woven, "
               "rides_sieved <= rides_woven, rides_woven <= rides_fused + rides_cubed + rides_sieved, "
               "chunks_woven_ridden >= 2 * chunks_woven from weft_scans where table_name = 't'");
    check(strcmp(right, "t|t|t|t|t|t|t|") == 0, "weft_scans counts rides that were woven", right);
    free(right);
}

static bool are_enough(weft_session *onlooker)
{
    return n_rides(onlooker, "rides_fused") >= rides_enough && n_rides(onlooker, "rides_cubed") >= rides_enough;
}

static void connect_all(weft_db *db, weft_session **sessions, const char *setting)
{
    weft_error error;
    for (int i = 0; i < n_sessions; i++) {
        if (weft_connect(db, &sessions[i], &error)) exit(1);
        // Else sessions begin with it.
        if (!getenv("WEFT_DEVICE")) must(sessions[i], "set device = cuda");
        must(sessions[i], setting);
    }
}

int main(int argc, char **argv)
{
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    int           round = 0;
    const char   *driver = getenv("WEFT_LIBCUDA");
    const bool    is_fake = driver != NULL;
    void         *fake = is_fake ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    if (argc > 1 && strcmp(argv[1], "--few") == 0) n_sessions = SESSIONS_FEW, rides_enough = RIDES_FEW;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    fill(onlooker);
    connect_all(db, sessions, "set weave_queries = off");
    for (; round < 3; round++) run_round(sessions, onlooker, round);
    check(n_all_rides(onlooker, "rides_fused") == 0 && n_all_rides(onlooker, "rides_cubed") == 0, "weave_queries = off",
          "shared a kernel");
    for (int i = 0; i < n_sessions; i++) must(sessions[i], "set weave_queries = on");
    const time_t start = time(NULL);
    while (round < ROUNDS_LEAST ||
           ((is_fake ? round < ROUNDS_MOST : time(NULL) - start < SECONDS_MOST) && !are_enough(onlooker)))
        run_round(sessions, onlooker, round++);
    printf("%d rounds: %lld scans were fused, %lld cubed\n", round, n_rides(onlooker, "rides_fused"),
           n_rides(onlooker, "rides_cubed"));
    check(n_rides(onlooker, "rides_fused") > 0, "kernels are shared", "never");
    check(n_rides(onlooker, "rides_cubed") > 0, "queries of one shape are one", "never");
    check_once(onlooker);
    fill_names(onlooker);
    for (round = 0; round < NAMES_ROUNDS; round++) run_names(sessions, onlooker, round, round >= NAMES_ROUNDS / 2);
    for (int i = 0; i < n_sessions; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
