// sieved.c - queries that meet on a GPU look at a row at once, and each gets the answer that it gets alone on the CPU.
//
// Run by tests/check-gpu with the fake driver, and a pool that the tables do not fit: riders then gather at the runs.
// The fake hands a kernel only the rows whose bits are set, so a bit that is missing shows.  Queries have much to read
// and little to keep, so that sharing their tests pays.  Without WEFT_LIBCUDA it runs on a GPU, where no call is made
// to fail (scripts/gpu-test), and takes the time that the kernels take to be compiled.  --few: fewer queries, of four
// shapes only, since compute-sanitizer takes a second or more to make each kernel its own.

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "help.h"

enum {
    N_ROWS = 60000,
    CHUNK_ROWS = 5000,
    N_SESSIONS = 20,
    ROUNDS_LEAST = 8,
    ROUNDS_MOST = 150,
    PARTS_ENOUGH = 150,
    RIDES_ENOUGH = 10,
    RIDES_FEW = 4,
    SECONDS_MOST = 60,
    SHAPES = 11,
    SHAPES_FEW = 4,
    INSERT_ROWS = 10000,
    MANY_COLUMNS = 14,
    SIEVE_COLUMNS = 12
};

static int (*parts_sieved)(void);      // of the fake driver
static int n_woven_seen;               // by weft_riders, with how many others at most
static void (*fail_at)(const char *call, int nth, int result);

static int n_sessions = N_SESSIONS, n_shapes = SHAPES, rides_enough = RIDES_ENOUGH;

typedef void MakeQuery(int n, int round, char *sql, size_t room);

static const char wide[] = "sum(g), sum(h), min(i), max(j)";

static char *add_wide(char *at, long long i)
{
    return at +
           sprintf(at, "%lld,%lld,%lld,%lld)", i * 1000000007ll, i * 1000000009ll, i * -1000000021ll, i * 1000000033ll);
}

static char *begin_row(weft_session *session, const char *table, char *sql, char *at, int i)
{
    const bool is_first = i % INSERT_ROWS == 0;
    if (is_first && i) load_values(session, sql);
    if (is_first) at = sql + sprintf(sql, "insert into %s values ", table);
    return at + sprintf(at, "%s(", is_first ? "" : ",");
}

// Column n has NULLs, c and i have negative values, f grows with the rows.
static void fill_t(weft_session *session)
{
    char *sql = malloc(4 << 20), *at = sql;
    must(
        session,
        "create table t (a integer, b integer, n integer, c integer, d integer, e text, f integer, g bigint, h bigint, "
        "i bigint, j bigint)");
    must(session, "create table k (id integer, name text, size integer)");
    must(session, "create table wide (id integer, v integer)");
    for (int i = 0; i < N_ROWS; i++) {
        at = begin_row(session, "t", sql, at, i);
        at += sprintf(at, "%d,%d,", i * 7 % 60000, i % 100);
        at += i % 11 ? sprintf(at, "%d,", i % 300 - 150) : sprintf(at, "null,");
        at += sprintf(at, "%d,%d,'%c',%d,", i * 13 % 300 - 150, i * 31 % 5000, 'a' + i % 5, i / 10);
        at = add_wide(at, i);
    }
    load_values(session, sql);
    at = sql + sprintf(sql, "insert into k values ");
    for (int i = 0; i < 300; i++) at += sprintf(at, "%s(%d,'name %d',%d)", i ? "," : "", i - 150, i % 7, i % 40);
    must(session, sql);
    at = sql + sprintf(sql, "insert into wide values ");
    for (int i = 0; i < 5000; i++) at += sprintf(at, "%s(%d,%d)", i ? "," : "", i, i * 13 % 1000);
    load_values(session, sql);
    free(sql);
}

static void fill_many(weft_session *session)
{
    char *sql = malloc(4 << 20), *at = sql + sprintf(sql, "create table many (");
    for (int c = 0; c < MANY_COLUMNS; c++) at += sprintf(at, "k%d integer, ", c);
    sprintf(at, "g bigint, h bigint, i bigint, j bigint)");
    must(session, sql);
    for (int i = 0; i < N_ROWS; i++) {
        at = begin_row(session, "many", sql, at, i);
        for (int c = 0; c < MANY_COLUMNS; c++) at += sprintf(at, "%d,", (i * (2 * c + 3) + c) % 101);
        at = add_wide(at, i);
    }
    load_values(session, sql);
    free(sql);
}

// Ranges, bit tables, tables with payloads, rows that nobody wants, NULLs, dictionary codes, groups in arrays and in
// hash tables, chunks that only some want.
static void any_shape(int n, int round, char *sql, size_t room)
{
    const int x = (n * 37 + round * 11) % 60;
    switch (n % n_shapes) {
    case 0:
        snprintf(sql, room, "select %s, sum(a * d), count(*) from t where b between %d and %d and d < %d", wide, x,
                 x + 3, 1000 + x);
        break;
    case 1:
        snprintf(sql, room,
                 "select k.name, %s, count(*) from t, k where t.c = k.id and k.size = %d group by k.name order by 1",
                 wide, x % 40);
        break;
    case 2:
        snprintf(
            sql, room,
            "select wide.v, %s from t, wide where t.d = wide.id and wide.v between %d and %d "
             "group by wide.v order by 1",
            wide, x, x + 20);
        break;
    case 3:
        snprintf(
            sql, room,
            "select count(*), %s from t, k, wide where t.c = k.id and t.d = wide.id and k.size < %d and wide.v < %d",
            wide, 1 + x % 8, 100 + x);
        break;
    case 4:
        snprintf(sql, room, "select e, %s from t where f between %d and %d group by e order by e", wide, x * 50,
                 x * 50 + 900);
        break;
    case 5:
        snprintf(sql, room, "select a, %s from t where b = %d and d between 100 and %d group by a order by a", wide, x,
                 400 + x);
        break;
    case 6: snprintf(sql, room, "select sum(a + %d), %s from t where c = %d", x, wide, x - 30); break;
    case 7: snprintf(sql, room, "select sum(a), %s from t where d > 100000 + %d", wide, x); break;
    case 8:
        snprintf(sql, room, "select %s from t, k where t.c = k.id and k.name = 'name %d' and k.size > %d and b < 20",
                 wide, x % 9, x % 35);
        break;
    case 9: snprintf(sql, room, "select count(n), %s from t where n = %d", wide, x - 30); break;
    default:
        snprintf(
            sql, room,
            "select e, count(*), %s from t, wide where t.d = wide.id and wide.v = %d and e < 'd' group by e order by e",
            wide, x);
        break;
    }
}

static void many_query(int n, int round, int first, int second, char *sql, size_t room)
{
    const int x = (n * 7 + round) % 90;
    snprintf(sql, room, "select %s(g), %s, count(*) from many where k%d between %d and %d and k%d < 50%s",
             n & 1 ? "sum" : "max", wide, first, x, x + 2, second, n & 2 ? " and h > -5" : "");
}

static void first_columns(int n, int round, char *sql, size_t room)
{
    many_query(n, round, n % SIEVE_COLUMNS, (n + 4) % SIEVE_COLUMNS, sql, room);
}

// More than a sieve has.
static void last_columns(int n, int round, char *sql, size_t room)
{
    many_query(n, round, SIEVE_COLUMNS + n % 2, SIEVE_COLUMNS + n % 2, sql, room);
}

static void run_round(weft_session **sessions, weft_session *onlooker, MakeQuery *make_query, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < n_sessions; i++) make_query(i, round, sql[i], sizeof sql[i]);
    submit_all(sessions, n_sessions, sql, tasks);
    char *woven = answer(onlooker, "select max(woven_with) from weft_riders where table_name in ('t', 'many')");
    n_woven_seen = atoi(woven) > n_woven_seen ? atoi(woven) : n_woven_seen;
    free(woven);
    check_all(onlooker, n_sessions, sql, tasks);
}

// On a GPU: rides, without what the CPU may have sieved, which tells of each scan that it did instead.
static int n_sieved(weft_session *onlooker)
{
    if (parts_sieved) return parts_sieved();
    char     *text = answer(onlooker, "select sum(rides_sieved) from weft_scans where table_name in ('t', 'many')");
    const int n = atoi(text) - n_notices;
    free(text);
    return n;
}

static void run_rounds(weft_session **sessions, weft_session *onlooker, MakeQuery *make_query, const char *what)
{
    const int    enough = n_sieved(onlooker) + (parts_sieved ? PARTS_ENOUGH : rides_enough);
    const time_t start = time(NULL);
    for (int round = 0;
         round < ROUNDS_LEAST ||
         ((parts_sieved ? round < ROUNDS_MOST : time(NULL) - start < SECONDS_MOST) && n_sieved(onlooker) < enough);
         round++)
        run_round(sessions, onlooker, make_query, round);
    check(n_sieved(onlooker) >= enough, what, "are seldom sieved together");
}

// A call fails in the midst of a wave: what it has begun must be over before its memory is another's.
static void run_failing(weft_session **sessions, weft_session *onlooker)
{
    static const char *const calls[] = { "cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord", "cuMemcpyHtoDAsync",
                                         "cuEventQuery" };
    for (int round = 0; round < 80; round++) {
        fail_at(calls[round % 5], 5 + round * 7 % 97, 701);    // too many resources: it passes
        run_round(sessions, onlooker, first_columns, round);
    }
    fail_at("", 0, 0);
    run_rounds(sessions, onlooker, first_columns, "queries after failures");
}

// Where a scan takes long enough to be looked at; on a busy machine the look may come too late, and then again.
static void check_shown(weft_session **sessions, weft_session *onlooker)
{
    const time_t start = time(NULL);
    for (int round = 0; n_woven_seen <= 1 && time(NULL) - start < SECONDS_MOST; round++)
        run_round(sessions, onlooker, first_columns, round);
    char *woven = answer(
        onlooker,
        "select chunks_woven > 0, chunks_woven_ridden >= 2 * chunks_woven, rides_woven between 2 and rides from "
        "weft_scans where table_name = 'many'");
    check(strcmp(woven, "t|t|t|") == 0, "weft_scans counts what was woven", woven);
    free(woven);
    check(n_woven_seen > 1, "weft_riders shows who is woven with others", "never");
}

int main(int argc, char **argv)
{
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&parts_sieved = fake ? dlsym(fake, "fake_cuda_sieved") : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (driver && (!parts_sieved || !fail_at)) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    const bool is_few = argc > 1 && strcmp(argv[1], "--few") == 0;
    if (is_few) n_sessions = 6, n_shapes = SHAPES_FEW, rides_enough = RIDES_FEW;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    must(onlooker, "set chunk_rows = 5000");       // CHUNK_ROWS
    fill_t(onlooker);
    fill_many(onlooker);
    for (int i = 0; i < n_sessions; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        // Else sessions begin with it.
        if (!getenv("WEFT_DEVICE")) must(sessions[i], "set device = cuda");
    }
    run_rounds(sessions, onlooker, any_shape, "queries of any shapes");
    if (!is_few) run_rounds(sessions, onlooker, first_columns, "queries over many columns");
    for (int round = 0; round < 20 && !is_few; round++) run_round(sessions, onlooker, last_columns, round);
    if (fail_at && !is_few) run_failing(sessions, onlooker);
    if (parts_sieved && !is_few) check_shown(sessions, onlooker);
    for (int i = 0; i < n_sessions; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
