// turns.c - a short scan on a GPU has its turn between the runs of a long one, and need not wait for the last of them.
//
// Run by tests/check-stress-gpu with the fake driver, a pool that the long one passes through in many runs, and
// questions for events that take long.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_ROWS = 960000, N_TIMES = 5, TIMES_MOST = 60, ASK_US = 3000, PAUSE_US = 10000 };

static char folder[] = "/tmp/weft-turns.XXXXXX", rows[64];

static void fill(weft_session *session)
{
    snprintf(rows, sizeof rows, "%s/rows.csv", folder);
    write_csv(rows, N_ROWS);
    must(session, "set chunk_rows = 10000");
    load_csv(session, "t", rows);
    must(session, "create table u (a integer)");
    must(session, "insert into u values (1), (2)");
    unlink(rows);
    rmdir(folder);
}

// 1: the short one was done first.
static int meet(weft_session *one, weft_session *other)
{
    static const char long_scan[] = "select sum(a), sum(b), count(c), sum(d) from t";
    weft_task   *task;
    weft_result *result = NULL;
    weft_error   error;
    char        *expected = answer(one, long_scan), *got = calloc(1, ANSWER_BYTES);
    if (weft_submit(one, long_scan, &task, &error)) exit((printf("failed: %s\n", error.message), 1));
    usleep(PAUSE_US);
    char     *sum = answer(other, "select sum(a) from u");
    const int was_first = !weft_is_done(task);
    check(strcmp(sum, "3|") == 0, "a short scan beside a long one", sum);
    if (weft_wait(task, &result, &error)) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
    else print_result(result, got);
    check(strcmp(got, expected) == 0, "a long scan with a short one in between", got);
    free(sum);
    free(expected);
    free(got);
    return was_first;
}

int main(void)
{
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    weft_db      *db;
    weft_session *one, *other;
    weft_error    error;
    int           n_first = 0;
    void (*asking_takes)(int us);
    *(void **)&asking_takes = fake ? dlsym(fake, "fake_cuda_asking_takes") : NULL;
    if (!asking_takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(folder)) return puts("failed: no temporary folder"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &one, &error) || weft_connect(db, &other, &error)) return 1;
    fill(one);
    must(one, "set device = cuda");
    must(other, "set device = cuda");
    must(other, "select sum(a) from u");                    // its code is there
    asking_takes(ASK_US);
    // On a busy machine the long one may be over before the short one begins.
    for (int i = 0; i < N_TIMES || (i < TIMES_MOST && !n_first); i++) n_first += meet(one, other);
    check(n_first > 0, "a short scan need not wait for the end of a long one", "it did, every time");
    weft_disconnect(one);
    weft_disconnect(other);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
