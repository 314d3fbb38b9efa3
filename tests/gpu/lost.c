// lost.c - a kernel of somebody else writes to an address that is not there, in the midst of our queries: the driver
// refuses every call from then on.
//
// On a GPU (scripts/gpu-test) it is done with code of its own in the context that Weft uses, too; with the fake driver
// (tests/check-gpu) the next launch fails as that would.  Queries that run, and all that come, give the CPU's answers
// and say why.  A database that the process opens later cannot have the device, and says that another process can: a
// driver that has seen such an error serves nobody in the process any more.

#include <dlfcn.h>
#include <stdbool.h>

#include "help.h"

enum { N_SESSIONS = 8, N_ROWS = 100000, ROUNDS = 3, ILLEGAL_ADDRESS = 700 };

static const char bad_text[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry bad()\n{\n    .reg .b64 %rd<2>;\n    mov.u64 %rd1, 8;\n    st.global.u64 [%rd1], %rd1;\n    ret;\n"
    "}\n";

static void *driver;

static void must_be(bool is_right, const char *what)
{
    if (!is_right) exit((printf("failed: %s\n", what), 1));
}

static void *call_named(const char *name)
{
    void *call = dlsym(driver, name);
    must_be(call, name);
    return call;
}

// Holds on to the context as any other part of a program may; the last who lets go of it makes an end of it.
static void hold_context(void)
{
    int (*get)(int *, int) = (int (*)(int *, int))call_named("cuDeviceGet");
    int (*retain)(void **, int) = (int (*)(void **, int))call_named("cuDevicePrimaryCtxRetain");
    int (*use)(void *) = (int (*)(void *))call_named("cuCtxSetCurrent");
    int   device;
    void *context;
    must_be(get(&device, 0) == 0 && retain(&context, device) == 0 && use(context) == 0,
            "the context of cuda:0 can be used");
}

static void let_go(void)
{
    int (*release)(int) = (int (*)(int))call_named("cuDevicePrimaryCtxRelease_v2");
    release(0);
}

static void write_nowhere(void)
{
    int (*load)(void **, const void *) = (int (*)(void **, const void *))call_named("cuModuleLoadData");
    int (*find)(void **, void *, const char *) =
        (int (*)(void **, void *, const char *))call_named("cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      void *, void **, void **))call_named("cuLaunchKernel");
    void *module = NULL, *function = NULL;
    must_be(load(&module, bad_text) == 0 && find(&function, module, "bad") == 0, "a kernel of its own is loaded");
    must_be(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0, "it is launched");
}

static void lose_device(void)
{
    void (*fail_at)(const char *, int, int) = (void (*)(const char *, int, int))dlsym(driver, "fake_cuda_fail");
    if (fail_at) fail_at("cuLaunchKernel", 1, ILLEGAL_ADDRESS);
    else write_nowhere();
}

static void make_query(int n, int round, char *sql, size_t room)
{
    static const char *const shapes[] = {
        "select count(*), sum(a), max(c) from t where b < %d",
        "select d, sum(b), count(c) from t where a > %d group by d order by d",
        "select k.d, sum(t.a) from t, k where t.b = k.b and k.a < %d group by k.d order by 1",
        "select a, b from t where b = %d order by a limit 50",
    };
    snprintf(sql, room, shapes[n % 4], 100 + n * 30 + round);
}

// LOSES: the device is lost when all are on their way.
static void run_round(weft_session **sessions, weft_session *onlooker, int round, bool loses)
{
    weft_task *tasks[N_SESSIONS];
    char       sql[N_SESSIONS][QUERY_BYTES];
    for (int i = 0; i < N_SESSIONS; i++) make_query(i, round, sql[i], sizeof sql[i]);
    submit_all(sessions, N_SESSIONS, sql, tasks);
    if (loses) lose_device();
    check_all(onlooker, N_SESSIONS, sql, tasks);
}

static void check_notice(weft_session *session)
{
    weft_result *result;
    weft_error   error;
    must_be(!weft_query(session, "select sum(b) from t", &result, &error), "a query is answered");
    const char *notice = weft_result_notice(result, 0);
    check(notice && strstr(notice, "the CPU did") && strstr(notice, "lost"), "a query says that the device is lost",
          notice ? notice : "nothing");
    weft_result_free(result);
}

static weft_db *open_tables(const char *path, weft_session **onlooker)
{
    weft_db   *db;
    weft_error error;
    must_be(!weft_open(NULL, &db, &error) && !weft_connect(db, onlooker, &error), "a database is opened");
    must(*onlooker, "set device = cpu");
    must(*onlooker, "set chunk_rows = 10000");
    load_csv(*onlooker, "t", path);
    load_csv(*onlooker, "k", path);
    return db;
}

static void lose_and_go_on(const char *path)
{
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    weft_db      *db = open_tables(path, &onlooker);
    for (int i = 0; i < N_SESSIONS; i++) {
        must_be(!weft_connect(db, &sessions[i], &error), "a session");
        must(sessions[i], "set device = cuda");
    }
    for (int round = 0; round < ROUNDS; round++) run_round(sessions, onlooker, round, false);
    check(n_notices == 0, "the device runs queries", "it refused some");
    hold_context();
    for (int round = 0; round < ROUNDS; round++) run_round(sessions, onlooker, round, round == 0);
    check_notice(sessions[0]);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    let_go();
}

static void open_again(const char *path)
{
    weft_session *onlooker, *session;
    weft_error    error;
    weft_result  *result = NULL;
    weft_db      *db = open_tables(path, &onlooker);
    must_be(!weft_connect(db, &session, &error), "a session");
    const int status = weft_query(session, "set device = cuda", &result, &error);
    check(status && strcmp(error.sqlstate, "58000") == 0, "a lost device is refused",
          status ? error.sqlstate : "it is not");
    check(status && strstr(error.hint, "a new process finds the GPU"), "the hint says what helps",
          status ? error.hint : "nothing");
    weft_result_free(result);
    must(session, "set device = auto");
    for (int i = 0; i < N_SESSIONS; i++) {
        char sql[QUERY_BYTES];
        make_query(i, 0, sql, sizeof sql);
        char *got = answer(session, sql), *expected = answer(onlooker, sql);
        check(strcmp(got, expected) == 0, sql, got);
        free(got);
        free(expected);
    }
    weft_disconnect(session);
    weft_disconnect(onlooker);
    weft_close(db);
}

int main(void)
{
    char        path[] = "/tmp/weft-lost.XXXXXX";
    const char *name = getenv("WEFT_LIBCUDA");
    const int   file = mkstemp(path);
    driver = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);
    must_be(driver, "there is a driver");
    must_be(file >= 0, "a file can be made");
    write_csv(path, N_ROWS);
    lose_and_go_on(path);
    open_again(path);
    remove(path);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
