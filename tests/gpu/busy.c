// busy.c - streams are shared, and a kernel of one query may be long at work in the stream of another: nobody else
// waits for it who need not, a cancel is not overtaken, and what a call that failed left behind it in the stream writes
// to nobody else's memory.
//
// Run by tests/check-gpu with the fake driver and a pool of 1100 kB.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_STREAMS = 8, BUSY_MS = 300, REST_MS = 30, LONG_MS = 60000, N_ROWS = 3000, N_WIDE = 12000, WIDE_COLUMNS = 8 };

static const char *const long_one = "select sum(x.a * y.a) from t x join t y on x.b = y.b",
                         *const uploads = "select count(*) from u x join u y on x.b = y.b",
                         *const small = "select sum(a) from k";

static void (*fail_at)(const char *call, int nth, int result), (*busy)(int ms), (*rests)(int ms), (*go_on)(void);
static int (*n_stopped)(void), (*has_come)(void);
static weft_db      *db;
static weft_session *x, *y, *z, *other_gpu, *cpu;

static void end(weft_task *task, const char *what, const char *sqlstate)
{
    weft_result *result = NULL;
    weft_error   error;
    const int    status = weft_wait(task, &result, &error);
    check(!status || (sqlstate && strcmp(error.sqlstate, sqlstate) == 0), what, error.message);
    weft_result_free(result);
}

static void fill(void)
{
    char *sql = malloc(4 << 20), *at = sql + sprintf(sql, "insert into t values ");
    must(x, "create table t (a integer, b integer)");
    must(x, "create table u (a integer, b integer)");
    must(x, "create table k (a integer)");
    must(x, "insert into k values (1), (2)");
    for (int i = 0; i < N_ROWS; i++) at += sprintf(at, "%s(%d,%d)", i ? "," : "", i, i % 30);
    load_values(x, sql);
    memcpy(sql, "insert into u", 13);
    load_values(x, sql);
    free(sql);
    // Code is there.
    for (int i = 0; i < 2; i++) must(x, long_one), must(y, uploads), must(z, small), must(other_gpu, small);
}

// Anew, so that its columns are not in the pool.
static void make_wide(void)
{
    char *sql = malloc(4 << 20), *at = sql + sprintf(sql, "insert into wide values ");
    for (int i = 0; i < N_WIDE; i++)
        for (int c = 0; c < WIDE_COLUMNS; c++)
            at += sprintf(at, "%s%d%s", c ? "," : i ? ",(" : "(", i * 5 + c, c == WIDE_COLUMNS - 1 ? ")" : "");
    must(cpu, "drop table if exists wide");
    must(
        cpu,
        "create table wide (c0 integer, c1 integer, c2 integer, c3 integer, c4 integer, c5 integer, c6 integer, c7 "
        "integer)");
    load_values(cpu, sql);
    free(sql);
}

// X is long at work, and N launches later somebody else has its stream.
static weft_task *make_busy(int ms, int n)
{
    busy(ms);
    weft_task *task = begin(x, long_one);
    wait_for_launch(has_come, task);
    for (int i = 0; i < n; i++) must(z, small);
    return task;
}

static void check_nobody_waits(int n)
{
    weft_task *first = make_busy(LONG_MS, n), *second = begin(y, uploads);
    usleep(50000);
    must(other_gpu, small);
    check(!weft_is_done(first), "a query on another GPU", "was done no sooner than the long one");
    go_on();
    end(second, "a query with a table", NULL);
    end(first, "a long query", NULL);
}

// Cancelled when the copy of its block's head waits behind the kernel of another.
static void check_cancel(int n)
{
    weft_task *first = make_busy(BUSY_MS, n), *second = begin(y, long_one);
    usleep(50000);
    rests(REST_MS);
    weft_cancel(y);
    end(second, "a long query, cancelled", "57014");
    rests(0);
    end(first, "a long query", NULL);
}

static void check_left_behind(int n)
{
    static const char wide[] =
        "select sum(c0), sum(c1), sum(c2), sum(c3), sum(c4), sum(c5), sum(c6), sum(c7) from wide";
    for (int nth = 1; nth <= 3; nth++) {
        make_wide();
        weft_task *first = make_busy(BUSY_MS, n);
        fail_at("cuMemsetD8Async", nth, 2);
        weft_task *second = begin(y, uploads);
        usleep(100000);
        must(z, wide);                             // its columns come into the pool
        end(second, "a query whose table did not come", NULL);
        end(first, "a long query", NULL);
        fail_at("", 0, 0);
        char *found = answer(z, wide), *expected = answer(cpu, wide);
        check(strcmp(found, expected) == 0, "columns in frames that a table was to have", found);
        free(found);
        free(expected);
    }
}

int main(void)
{
    weft_error  error;
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    *(void **)&busy = fake ? dlsym(fake, "fake_cuda_busy") : NULL;
    *(void **)&go_on = fake ? dlsym(fake, "fake_cuda_go_on") : NULL;
    *(void **)&rests = fake ? dlsym(fake, "fake_cuda_rests") : NULL;
    *(void **)&n_stopped = fake ? dlsym(fake, "fake_cuda_stopped") : NULL;
    *(void **)&has_come = fake ? dlsym(fake, "fake_cuda_has_come") : NULL;
    if (!fail_at || !busy || !go_on || !rests || !n_stopped || !has_come)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error)) return 1;
    x = connect_alone(db, "cuda:0"), y = connect_alone(db, "cuda:0"), z = connect_alone(db, "cuda:0"),
    other_gpu = connect_alone(db, "cuda:1"), cpu = connect_alone(db, "cpu");
    fill();
    for (int n = 0; n < N_STREAMS; n++) check_nobody_waits(n);
    const int before = n_stopped();
    for (int n = 0; n < N_STREAMS; n++) check_cancel(n);
    check(n_stopped() > before, "a kernel finds that its query was cancelled", "never");
    for (int n = 0; n < N_STREAMS; n++) check_left_behind(n);
    weft_session *const sessions[] = { x, y, z, other_gpu, cpu };
    for (int s = 0; s < 5; s++) weft_disconnect(sessions[s]);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
