// packed.c - what many queries in one body ask of the driver, counted: it does not grow with their number.
//
// First content, arguments and results of all members go by one operation each, and one member waits for all.  So twice
// as many queries make as many calls, but for those that came before there was a crowd.  Two kinds of bodies: queries
// that differ in a range of a column, and queries that differ in what they join, whose tables are there from the round
// before.  Min and max begin with other values than zero.  Queries that are not woven together have a kernel each, and
// all else together.  Then queries are cancelled and calls fail in the middle of
// it: answers stay right.
//
// Run by tests/check-gpu with the fake driver.

#include <dlfcn.h>
#include <stdbool.h>

#include "help.h"

enum {
    N_ROWS = 20000,
    N_PARTS = 400,
    N_SESSIONS = 160,
    FEW = 40,
    MANY = 160,
    ROUNDS_LEAST = 3,
    BLOCK_MS = 200,                    // each round a fifth longer than the one before, up to BLOCK_MOST_MS: on a slow
    BLOCK_MOST_MS = 5000,              // machine queries take longer to come
    ROUNDS_MOST = 40,
    FAULT_MS = 100,
    CALLS_MOST = 60,                   // of a body, for any number of members; 36 to 44 were seen
    STREAMS_MOST = 100                 // of eight streams, besides a launch for each query; 71 were seen
};

static int (*count)(const char *call), (*has_come)(void);
static void (*launch_takes)(int ms);
static void (*fail_call)(const char *call, int nth, int result);
static weft_session *sessions[N_SESSIONS], *first, *onlooker;

static const char *const calls[] = { "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async",
                                     "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize",
                                     "cuEventSynchronize", "cuLaunchKernel" };

// EventQuery is asked as often as time passes.
static int n_calls(void)
{
    int n = 0;
    for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++) n += count(calls[c]);
    return n;
}

static void fill(void)
{
    char *sql = malloc(N_ROWS * 60), *at = sql + sprintf(sql, "insert into f values ");
    must(onlooker, "set chunk_rows = 5000");
    must(onlooker, "create table f (p integer, a integer, b integer, d integer)");
    must(onlooker, "create table part (id integer, brand text, size integer)");
    for (int i = 0; i < N_ROWS; i++)
        at += sprintf(at, "%s(%d,%d,%d,%d)", i ? "," : "", i * 13 % N_PARTS, i * 53 % 7919 - 900, i * 31 % 1009,
                      i % 11);
    load_values(onlooker, sql);
    at = sql + sprintf(sql, "insert into part values ");
    for (int i = 0; i < N_PARTS; i++)
        at += sprintf(at, "%s(%d,'brand%d',%d)", i ? "," : "", i, i * 7 % 40, i % 200);
    load_values(onlooker, sql);
    free(sql);
}

typedef enum Kind { RANGES, EXTREMES, JOINS, ALONE, N_KINDS } Kind;

static void make_query(Kind kind, int i, char *sql)
{
    if (kind == JOINS)
        snprintf(sql, QUERY_BYTES,
                 "select brand, sum(a), count(*) from f, part where p = part.id and size between %d and %d group by "
                 "brand order by brand",
                 i, i + 20);
    else
        snprintf(sql, QUERY_BYTES, "select d, %s, count(*) from f where b between %d and %d group by d order by d",
                 kind == EXTREMES ? "min(a), max(a)" : "sum(a)", i / 10 * 20, 500 + i % 10 * 20);
}

// A query whose launch takes long, and all others behind it.  Returns the calls of all.
static int meet(Kind kind, int n, int block_ms, bool is_cancelled)
{
    static char sql[N_SESSIONS][QUERY_BYTES];
    weft_task  *tasks[N_SESSIONS];
    for (int i = 0; i < n; i++) make_query(kind, i, sql[i]);
    const int before = n_calls();
    launch_takes(block_ms);
    weft_task *blocker = begin(first, "select max(a + b) from f where b >= 0");
    wait_for_launch(has_come, blocker);
    submit_all(sessions, n, sql, tasks);
    if (is_cancelled) usleep((unsigned)block_ms * 1000);
    for (int i = 0; is_cancelled && i < n; i += 3) weft_cancel(sessions[i]);
    for (int i = 0; i < n; i++) {
        weft_result *result = NULL;
        weft_error   error;
        char        *got = calloc(1, ANSWER_BYTES), *expected = answer(onlooker, sql[i]);
        const weft_status status = weft_wait(tasks[i], &result, &error);
        if (status) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
        else print_result(result, got);
        check(strcmp(got, expected) == 0 || (is_cancelled && status && strcmp(error.sqlstate, "57014") == 0), sql[i],
              got);
        free(got);
        free(expected);
    }
    weft_result *result = NULL;
    weft_error   error;
    check(!weft_wait(blocker, &result, &error), "the first query", "it failed");
    weft_result_free(result);
    return n_calls() - before;
}

// In the first rounds code is compiled, and in some not all of them meet.
static int fewest(Kind kind, int n, int enough)
{
    int    least = meet(kind, n, BLOCK_MS, false);
    double block_ms = BLOCK_MS;
    for (int round = 1; round < ROUNDS_LEAST || (round < ROUNDS_MOST && least > enough); round++) {
        block_ms = block_ms * 1.2 < BLOCK_MOST_MS ? block_ms * 1.2 : BLOCK_MOST_MS;
        const int n_now = meet(kind, n, (int)block_ms, false);
        if (n_now < least) least = n_now;
    }
    return least;
}

static void check_kind(Kind kind)
{
    char got[100];
    for (int i = 0; i < N_SESSIONS; i++)
        must(sessions[i], kind == ALONE ? "set weave_queries = off" : "set weave_queries = on");
    // 64 at most are in a body over columns; by themselves each has its kernel.
    const int few_most = kind == ALONE ? STREAMS_MOST + FEW : CALLS_MOST,
              many_most = kind == ALONE   ? STREAMS_MOST + MANY
                          : kind == JOINS ? CALLS_MOST
                                          : CALLS_MOST * ((MANY + 63) / 64);
    const int few = fewest(kind, FEW, few_most), many = fewest(kind, MANY, many_most);
    snprintf(got, sizeof got, "%d calls for %d queries, %d for %d", few, FEW, many, MANY);
    printf("kind %d: %s\n", kind, got);
    check(few <= few_most && many <= many_most, "calls do not grow with members", got);
}

static void check_faults(void)
{
    for (Kind kind = 0; kind < N_KINDS; kind++)
        for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++)
            for (int nth = 1; nth < 20; nth += 9) {
                fail_call(calls[c], nth + c, 1);
                meet(kind, FEW, FAULT_MS, nth == 10);
                fail_call("", 0, 0);
            }
}

int main(void)
{
    weft_db    *db;
    weft_error  error;
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_count") : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    *(void **)&fail_call = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    *(void **)&has_come = fake ? dlsym(fake, "fake_cuda_has_come") : NULL;
    if (!count || !launch_takes || !fail_call || !has_come)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error) || weft_connect(db, &first, &error))
        return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    must(first, "set device = cuda");
    fill();
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    for (Kind kind = 0; kind < N_KINDS; kind++) check_kind(kind);
    for (Kind kind = 0; kind < N_KINDS; kind++) meet(kind, MANY, BLOCK_MS, true);
    check_faults();
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_disconnect(first);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
