// cubed.c - grouped queries of one shape that meet on a GPU are one kernel, and each gets the answer that it gets alone
// on the CPU.
//
// Run by tests/check-gpu with the fake driver, with a pool that the table fits and one that it does not; --few by
// tests/check-stress-gpu.  Without WEFT_LIBCUDA it runs on a GPU (scripts/gpu-test), for as long as kernels may take to
// be compiled.  Each shape has accumulators of other kinds, and its turn until queries of it were cubed.  --few: fewer
// queries of fewer shapes, since compute-sanitizer takes a second or more to make each kernel its own.

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "help.h"

enum {
    N_ROWS = 60000,
    MORE_ROWS = 300,
    N_SESSIONS = 16,
    SESSIONS_FEW = 6,
    ROUNDS_LEAST = 3,
    ROUNDS_MOST = 60,
    LAUNCH_MS = 20,
    RIDES_ENOUGH = 24,
    RIDES_FEW = 6,
    SECONDS_MOST = 40
};

static int n_sessions = N_SESSIONS, rides_enough = RIDES_ENOUGH;
static void (*launch_takes)(int ms);   // of the fake driver

typedef enum Wanted { CUBED, NOT_CUBED, PERHAPS_CUBED } Wanted;        // perhaps: there may be more cells than fit
                                                                       // shared memory, or no code in time

typedef struct Shape {
    const char *sql;                   // with two numbers: a range of b
    Wanted      wanted;                // its answers are to be right all the same
    bool        is_few;
} Shape;

// So many constants are a table in the kernel, and each query has its own.
#define THIRTY "0,3,6,9,12,15,18,21,24,27,30,33,36,39,42,45,48,51,54,57,60,63,66,69,72,75,78,81,84,87"

// By e there are so few groups that each cell has a lane of its own, by c so many that one lane puts all of a group's
// together, and not all groups have rows in a range.  Sums of g take 128 bits; of n, which has NULLs, rows are never
// picked from a list, and no cube is made; x has so many digits that its sum has more slots than a cube over columns
// takes, but not more than one over joins, which serves such queries once its code is there.
static const Shape shapes[] = {
    { "select e, count(*), sum(a), min(a), max(c), avg(a) from t where b between %d and %d group by e order by e",
      CUBED, true },
    { "select e, h, sum(g), avg(g), min(g), max(g) from t where b between %d and %d and f < 59000 group by e, h order "
      "by 1, 2",
      CUBED, true },
    { "select count(*), min(c), max(g), sum(g), sum(c) from t where b between %d and %d and c >= -140", CUBED, false },
    { "select c, min(a) from t where b between %d and %d group by c order by c", CUBED, false },
    { "select c, max(g) from t where b between %d and %d group by c order by c", CUBED, false },
    { "select c, sum(g) from t where b between %d and %d group by c order by c", CUBED, true },
    { "select e, h from t where b between %d and %d group by e, h order by 1, 2", CUBED, false },
    { "select k.name, sum(g), max(c), count(*) from t, k where t.h = k.id and b between %d and %d group by k.name "
      "order by 1",
      CUBED, true },
    { "select k.name, l.name, min(g), sum(a + k.size) from t, k, l where t.h = k.id and t.c = l.id and b between %d "
      "and %d group by k.name, l.name order by 1, 2",
      CUBED, false },
    { "select e, sum(d), avg(d), count(*) from t where b between %d and %d group by e order by e", CUBED, false },
    { "select e, sum(a), count(*) from t where b between %d and %d and c in (" THIRTY ") group by e order by e", CUBED,
      false },
    { "select h, min(a), count(*) from t where b between %d and %d and e in ('a', 'c', 'e') group by h order by h",
      CUBED, false },
    { "select c, sum(g), min(a), max(a), count(*) from t where b between %d and %d group by c order by c",
      PERHAPS_CUBED, false },
    { "select e, sum(n), count(n), min(n), avg(n), count(*) from t where b between %d and %d group by e order by e",
      NOT_CUBED, false },
    { "select h, sum(x), max(a) from t where b between %d and %d group by h order by h", PERHAPS_CUBED, false },
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static char *add_row(char *at, int i, bool is_first)
{
    const long long big = 1000000007ll * 1000003 * (i % 2000 - 900);
    at += sprintf(at, "%s(%d,%d,%d,", is_first ? "" : ",", i * 7 % 60000, i / 7 * 3 % 50 * 2, i * 13 % 300 - 150);
    at += sprintf(at, "%d.%d,'%c',%d,%lld,%d,", i % 1000 - 300, i % 8 * 125, 'a' + i % 5, i, big, i * 11 % 7 - 3);
    at += i % 11 ? sprintf(at, "%d,", i % 90 - 40) : sprintf(at, "null,");
    return at + sprintf(at, "%s)", i % 1000 ? "0.25" : i % 3 ? "1e300" : "-1e-300");
}

static void insert(weft_session *session, int first, int n)
{
    char *sql = malloc((size_t)n * 120 + 100), *at = sql + sprintf(sql, "insert into t values ");
    for (int i = first; i < first + n; i++) at = add_row(at, i, i == first);
    load_values(session, sql);
    free(sql);
}

// Values of b are even; c, g and h are negative at times; f grows with the rows.
static void fill(weft_session *session)
{
    char *sql = malloc(32 << 10), *at;
    must(session, "set chunk_rows = 5000");
    must(
        session,
        "create table t (a integer, b integer, c integer, d double precision, e text, f integer, g bigint, h integer, "
        "n integer, x double precision)");
    must(session, "create table k (id integer, name text, size integer)");
    must(session, "create table l (id integer, name text)");
    must(session,
         "insert into k values (-3, 'one', 4), (-2, 'two', 5), (0, 'three', -6), (1, 'one', 7), (3, 'four', 8)");
    at = sql + sprintf(sql, "insert into l values ");
    for (int i = -150; i < 150; i++) at += sprintf(at, "%s(%d,'%c')", i > -150 ? "," : "", i, 'p' + (i + 150) % 3);
    must(session, sql);
    free(sql);
    insert(session, 0, N_ROWS);
}

// The first wants all that there is, the second what lies between two values, the third what is past the last.
static void make_query(const Shape *shape, int n, int round, char *sql)
{
    const int low = (n * 37 + round * 11) % 80;
    if (n < 3)
        snprintf(sql, QUERY_BYTES, shape->sql, (int[]){ 0, 31, 200 }[n], (int[]){ 97 + round % 2, 31, 300 + round }[n]);
    else snprintf(sql, QUERY_BYTES, shape->sql, low, low + 10 + n);
}

static void run_round(weft_session **sessions, weft_session *onlooker, const Shape *shape, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < n_sessions; i++) make_query(shape, i, round, sql[i]);
    if (launch_takes) launch_takes(LAUNCH_MS);         // they meet behind the first
    submit_all(sessions, n_sessions, sql, tasks);
    check_all(onlooker, n_sessions, sql, tasks);
}

// Without what the CPU may have shared: it tells of each scan that it did instead.
static long long n_cubed(weft_session *onlooker)
{
    char           *text = answer(onlooker, "select rides_cubed from weft_scans where table_name = 't'");
    const long long value = atoll(text) - n_notices;
    free(text);
    return value;
}

static bool must_be_cubed(const Shape *shape) { return shape->wanted == CUBED; }

static bool is_enough(const Shape *shape, long long n, int round, time_t start)
{
    if (round < ROUNDS_LEAST) return false;
    return !must_be_cubed(shape) || n >= rides_enough ||
           (launch_takes ? round >= ROUNDS_MOST : time(NULL) - start >= SECONDS_MOST);
}

static void check_shape(const Shape *shape, long long n)
{
    check(n > 0 ? shape->wanted != NOT_CUBED : !must_be_cubed(shape),
          n > 0 ? "queries are not to be one" : "queries of one shape are one", shape->sql);
}

static void run_shape(weft_session **sessions, weft_session *onlooker, const Shape *shape)
{
    const long long before = n_cubed(onlooker);
    const time_t    start = time(NULL);
    int             round = 0;
    while (!is_enough(shape, n_cubed(onlooker) - before, round, start)) run_round(sessions, onlooker, shape, round++);
    const long long n = n_cubed(onlooker) - before;
    printf("%d rounds: %lld scans were cubed: %s\n", round, n, shape->sql);
    check_shape(shape, n);
}

int main(int argc, char **argv)
{
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    int           n_rows = N_ROWS;
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    if (driver && !launch_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    const bool is_few = argc > 1 && strcmp(argv[1], "--few") == 0;
    if (is_few) n_sessions = SESSIONS_FEW, rides_enough = RIDES_FEW;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    fill(onlooker);
    for (int i = 0; i < n_sessions; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        // Else sessions begin with it.
        if (!getenv("WEFT_DEVICE")) must(sessions[i], "set device = cuda");
    }
    for (int s = 0; s < N_SHAPES; s++) {
        if (is_few && !shapes[s].is_few) continue;
        run_shape(sessions, onlooker, &shapes[s]);
        insert(onlooker, n_rows, MORE_ROWS);           // ranges of values grow with it
        n_rows += MORE_ROWS;
    }
    for (int i = 0; i < n_sessions; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
