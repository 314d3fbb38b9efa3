// door.c - a query that needs much of the pool, and others that need little of it: these overtake it, but not for ever;
// and where it waits for one that is long at work, the others do not wait with it.
//
// Run by tests/check-stress-gpu with the fake driver and a pool of 6150 kB, of which queries may have 4.7 MB.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_SMALL = 12, N_ROWS = 60000, OVERTAKING_MOST = 600, LONG_MS = 60000, N_MEANWHILE = 6 };

// A large one takes 4.5 MB, a small one 182 kB: there is room for one of each, not for two small ones beside a large
// one.
static const char
    *const large = "select k, sum(a), sum(a * 3), sum(a * 5), sum(a * 7) from t group by k order by 2, 1 limit 3",
           *const small = "select g, sum(a) from t group by g order by 2, 1 limit 3";

static void (*busy)(int ms), (*go_on)(void);
static int (*has_come)(void);
static weft_db      *db;
static weft_session *cpu, *first, *second, *others[N_SMALL];
static char         *right_small, *right_large;

static void end(weft_task *task, const char *what, const char *right)
{
    weft_result *result = NULL;
    weft_error   error;
    char        *got = calloc(1, ANSWER_BYTES);
    if (weft_wait(task, &result, &error)) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
    else print_result(result, got);
    check(strcmp(got, right) == 0, what, got);
    free(got);
}

static void fill(void)
{
    char  path[] = "/tmp/weft-door.XXXXXX", sql[100];
    FILE *out = fdopen(mkstemp(path), "w");
    if (!out) exit((puts("failed: no temporary file"), 1));
    for (int row = 0; row < N_ROWS; row++)
        fprintf(out, "%d,%d,%u\n", row, row % 20000, (unsigned)row * 2654435761u >> 2);
    fclose(out);
    must(cpu, "set chunk_rows = 10000");
    must(cpu, "create table t (k integer, g integer, a bigint)");
    snprintf(sql, sizeof sql, "copy t from '%s' with (format csv)", path);
    must(cpu, sql);
    unlink(path);
    right_small = answer(cpu, small), right_large = answer(cpu, large);
}

// Those that are done begin again; how many were.
static int keep_at_work(weft_task **tasks)
{
    int n = 0;
    for (int i = 0; i < N_SMALL; i++) {
        if (tasks[i] && !weft_is_done(tasks[i])) continue;
        if (tasks[i]) end(tasks[i], "a small query", right_small), n++;
        tasks[i] = begin(others[i], small);
    }
    usleep(500);
    return n;
}

static void check_overtaken(void)
{
    weft_task *tasks[N_SMALL] = { 0 };
    char       counted[60];
    int        n = 0;
    while (n < 2 * N_SMALL) n += keep_at_work(tasks);
    weft_task *task = begin(first, large);
    for (n = 0; n < OVERTAKING_MOST && !weft_is_done(task);) n += keep_at_work(tasks);
    snprintf(counted, sizeof counted, "%d small ones were done before it", n);
    check(weft_is_done(task), "a large query", counted);
    for (int i = 0; i < N_SMALL; i++) end(tasks[i], "a small query", right_small);
    end(task, "a large query, overtaken", right_large);
}

// Fewer than there are streams: none of them has that of the long one.
static void check_others_go_on(void)
{
    busy(LONG_MS);
    weft_task *long_one = begin(first, large);
    wait_for_launch(has_come, long_one);
    weft_task *waits = begin(second, large);
    usleep(200000);
    for (int i = 0; i < N_MEANWHILE; i++) {
        char *got = answer(others[0], small);
        check(strcmp(got, right_small) == 0, "a small query, while one waits for room", got);
        free(got);
    }
    check(!weft_is_done(long_one), "small queries, while one waits for room", "were done no sooner than the long one");
    go_on();
    end(long_one, "a long query", right_large);
    end(waits, "a query that had to wait for it", right_large);
}

int main(void)
{
    weft_error  error;
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    char        counted[40];
    *(void **)&busy = fake ? dlsym(fake, "fake_cuda_busy") : NULL;
    *(void **)&go_on = fake ? dlsym(fake, "fake_cuda_go_on") : NULL;
    *(void **)&has_come = fake ? dlsym(fake, "fake_cuda_has_come") : NULL;
    if (!busy || !go_on || !has_come) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error)) return 1;
    cpu = connect_alone(db, "cpu"), first = connect_alone(db, "cuda"), second = connect_alone(db, "cuda");
    fill();
    for (int i = 0; i < N_SMALL; i++) others[i] = connect_alone(db, "cuda"), must(others[i], small);
    must(first, large);                            // code is there
    for (int round = 0; round < 3; round++) check_overtaken();
    check_others_go_on();
    snprintf(counted, sizeof counted, "%d notices", n_notices);
    check(n_notices == 0, "none is left to the CPU", counted);
    for (int i = 0; i < N_SMALL; i++) weft_disconnect(others[i]);
    weft_disconnect(cpu), weft_disconnect(first), weft_disconnect(second);
    weft_close(db);
    free(right_small), free(right_large);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
