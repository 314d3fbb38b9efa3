// fetched.c - columns that come over the link while a scan waits for other queries: answers stay right when calls fail,
// queries are cancelled and tables go meanwhile.
//
// Run by tests/check-gpu with the fake driver and a pool that the tables do not fit.  They pass through it again and
// again, so they are pinned and come straight, which is when they are fetched ahead; the log tells how often.

#include <dlfcn.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "help.h"

enum { N_SESSIONS = 12, N_ROWS = 480000, SECONDS = 3, SECONDS_MOST = 60, FETCHES_LEAST = 5 };

typedef struct Scene { const char *what; bool has_faults, has_cancels, has_drops; } Scene;

static void (*fail_at)(const char *call, int nth, int result);
static unsigned seed = 7;
static char     folder[] = "/tmp/weft-fetched.XXXXXX", rows[64], log_file[64];

static void make_query(int n, int round, const char *table, char *sql)
{
    const int x = (n * 37 + round * 11) % 900;
    switch ((n + round) % 5) {
    case 0: snprintf(sql, QUERY_BYTES, "select count(*), sum(a), min(b), max(c) from %s where b > %d", table, x); break;
    case 1:
        snprintf(sql, QUERY_BYTES,
                 "select b %% 10, count(*), sum(c), count(c) from %s where d < %d group by 1 order by 1", table,
                 x % 97 + 1);
        break;
    case 2:
        snprintf(sql, QUERY_BYTES, "select count(*), sum(a + b), sum(c), max(d) from %s where c is not null and d < %d",
                 table, x % 97);
        break;
    case 3:
        snprintf(sql, QUERY_BYTES, "select count(*), sum(a), sum(c), count(c) from %s where b = %d and d = 13", table,
                 x);
        break;
    default:
        snprintf(sql, QUERY_BYTES, "select count(*), sum(d), sum(c) from %s where b between %d and %d", table, x,
                 x + 40);
        break;
    }
}

static void make_one_fail(void)
{
    static const char *const calls[] = { "cuMemcpyBatchAsync", "cuMemcpyHtoDAsync", "cuEventRecord",
                                         "cuStreamWaitEvent",  "cuMemsetD8Async",   "cuLaunchKernel",
                                         "cuEventQuery",       "cuCtxSetCurrent",   "cuEventSynchronize",
                                         "cuStreamSynchronize" };
    fail_at(calls[rand_r(&seed) % 10], 1 + rand_r(&seed) % 60, 2);
}

static void cancel_some(weft_session **sessions)
{
    for (int k = 0; k < 8; k++) {
        usleep((useconds_t)(rand_r(&seed) % 1500));
        weft_cancel(sessions[rand_r(&seed) % N_SESSIONS]);
    }
}

// What a query over a table that goes is told is its own affair; an error may only be that of a cancel.
static void check_task(weft_session *onlooker, const char *sql, weft_task *task, const Scene *scene, bool table_goes)
{
    weft_result *result = NULL;
    weft_error   error;
    char        *got = calloc(1, ANSWER_BYTES);
    if (weft_wait(task, &result, &error))
        check(table_goes || (scene->has_cancels && strcmp(error.sqlstate, "57014") == 0), sql, error.message);
    else {
        print_result(result, got);
        char *expected = table_goes ? strdup(got) : answer(onlooker, sql);
        check(strcmp(got, expected) == 0, sql, got);
        free(expected);
    }
    free(got);
}

static void run_round(weft_session **sessions, weft_session *onlooker, const Scene *scene, int round)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < N_SESSIONS; i++) make_query(i, round, scene->has_drops && i % 2 ? "u" : "t", sql[i]);
    if (scene->has_faults) make_one_fail();
    submit_all(sessions, N_SESSIONS, sql, tasks);
    if (scene->has_cancels) cancel_some(sessions);
    if (scene->has_drops) must(onlooker, "drop table u");
    for (int i = 0; i < N_SESSIONS; i++) check_task(onlooker, sql[i], tasks[i], scene, scene->has_drops && i % 2);
    if (scene->has_drops) load_csv(onlooker, "u", rows);
}

static int count_fetches(void)
{
    char  line[300];
    int   n = 0;
    FILE *file = fopen(log_file, "r");
    while (file && fgets(line, sizeof line, file)) n += strstr(line, "while others are waited for") != NULL;
    if (file) fclose(file);
    return n;
}

static void run_scene(weft_session **sessions, weft_session *onlooker, const Scene *scene)
{
    const time_t start = time(NULL);
    const int    n_before = count_fetches();
    char         n_fetched[40];
    for (int round = 0; time(NULL) - start < SECONDS ||
                        (time(NULL) - start < SECONDS_MOST && count_fetches() - n_before < FETCHES_LEAST);
         round++)
        run_round(sessions, onlooker, scene, round);
    fail_at("", 0, 0);
    snprintf(n_fetched, sizeof n_fetched, "%d times", count_fetches() - n_before);
    check(count_fetches() - n_before >= FETCHES_LEAST, scene->what, n_fetched);
}

int main(void)
{
    static const Scene scenes[] = { { .what = "fetched ahead" },
                                    { "fetched ahead, calls fail", .has_faults = true },
                                    { "fetched ahead, queries are cancelled", .has_cancels = true },
                                    { "fetched ahead, tables go", .has_cancels = true, .has_drops = true } };
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (!fail_at) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(folder)) return puts("failed: no temporary folder"), 1;
    snprintf(rows, sizeof rows, "%s/rows.csv", folder);
    snprintf(log_file, sizeof log_file, "%s/log", folder);
    setenv("WEFT_LOG", "debug", 1);
    if (!freopen(log_file, "w", stderr)) return puts("failed: no log"), 1;
    write_csv(rows, N_ROWS);
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set sharing = off");
    must(onlooker, "set chunk_rows = 120000");
    load_csv(onlooker, "t", rows);
    load_csv(onlooker, "u", rows);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    for (size_t s = 0; s < sizeof scenes / sizeof *scenes; s++) run_scene(sessions, onlooker, &scenes[s]);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    unlink(rows);
    unlink(log_file);
    rmdir(folder);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
