// beside.c - a program that uses a GPU itself finds its own context current whatever it asked Weft for, and none where
// it had none.
//
// Run by tests/check-gpu with the fake driver, which ends the process when a call is made in another context than the
// one it is for.  The program's own one is that of the second GPU, Weft uses the first.  Calls fail one after the
// other, so that tables and rows go back to the host in all the ways there are.

#include <dlfcn.h>

#include "help.h"

enum { N_ROWS = 20000, NTH_MOST = 60 };

static const char *const queries[] = {
    "select count(*), sum(a), max(c) from t where b > 300",
    "select d, sum(b), count(c) from t group by d order by d",
    "select k.d, sum(t.a) from t, k where t.b = k.b and k.a < 2000 group by k.d order by 1",
    "select t.a, k.a from t, k where t.d = k.d and k.a < 300 and t.b = 7 order by 1, 2",
    "select a, c from t where a % 97 = 5",
};
enum { N_QUERIES = sizeof queries / sizeof *queries };

static void (*fail_at)(const char *call, int nth, int result);
static int (*calls_seen)(void);
static int (*get_current)(void **context);
static int (*set_current)(void *context);
static int (*retain)(void **context, int device);
static int (*release)(int device);

static void *call_named(void *driver, const char *name)
{
    void *call = driver ? dlsym(driver, name) : NULL;
    if (!call) exit((printf("failed: the driver has no %s\n", name), 1));
    return call;
}

static void find_calls(void)
{
    const char *name = getenv("WEFT_LIBCUDA");
    void       *driver = name ? dlopen(name, RTLD_NOW) : NULL;
    *(void **)&fail_at = call_named(driver, "fake_cuda_fail");
    *(void **)&calls_seen = call_named(driver, "fake_cuda_calls");
    *(void **)&get_current = call_named(driver, "cuCtxGetCurrent");
    *(void **)&set_current = call_named(driver, "cuCtxSetCurrent");
    *(void **)&retain = call_named(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&release = call_named(driver, "cuDevicePrimaryCtxRelease_v2");
}

static void check_current(const void *own, const char *after)
{
    void *context = NULL;
    get_current(&context);
    check(context == own, after,
          !context ? "no context is current"
          : own    ? "another context is current"
                   : "a context is current");
}

static void ask_all(weft_session *session, char *const *expected, const void *own)
{
    for (int q = 0; q < N_QUERIES; q++) {
        char *got = answer(session, queries[q]);
        check(strcmp(got, expected[q]) == 0, queries[q], got);
        check_current(own, queries[q]);
        free(got);
    }
}

// False: there is no nth call any more.
static int use(const char *path, char **expected, void *own, const char *call, int nth)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    set_current(own);
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    must(session, "set chunk_rows = 5000");
    load_csv(session, "t", path);
    load_csv(session, "k", path);
    must(session, "set device = cpu");
    for (int q = 0; q < N_QUERIES && !expected[q]; q++) expected[q] = answer(session, queries[q]);
    must(session, "set device = cuda");
    check_current(own, "set device");
    fail_at(call, nth, 1);
    ask_all(session, expected, own);
    const int is_seen = calls_seen() >= nth;
    fail_at("", 0, 0);
    must(session, "drop table t");
    check_current(own, "drop table");
    weft_disconnect(session);
    weft_close(db);
    check_current(own, "weft_close");
    return is_seen;
}

// What is opened in vain is closed again.
static void open_in_vain(void *own)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    weft_result  *result = NULL;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    fail_at("cuMemAlloc", 1, 1);
    check(weft_query(session, "set device = cuda", &result, &error) != 0, "a device that fails", "it is opened");
    weft_result_free(result);
    fail_at("", 0, 0);
    check_current(own, "a device that is not opened");
    weft_disconnect(session);
    weft_close(db);
}

int main(void)
{
    static const char *const calls[] = { "", "cuLaunchKernel", "cuMemcpyDtoHAsync", "cuModuleLoadData" };
    char                     path[] = "/tmp/weft-beside.XXXXXX";
    char                    *expected[N_QUERIES] = { 0 };
    void                    *own;
    find_calls();
    if (mkstemp(path) < 0 || retain(&own, 1)) return puts("failed: no file, or no context"), 1;
    write_csv(path, N_ROWS);
    use(path, expected, NULL, "", 1);
    set_current(own);
    open_in_vain(own);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int nth = 1; nth < NTH_MOST && use(path, expected, own, calls[c], nth); nth++) continue;
    release(1);
    for (int q = 0; q < N_QUERIES; q++) free(expected[q]);
    remove(path);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
