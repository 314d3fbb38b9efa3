// peak.c - EXPLAIN ANALYZE says what share of its memory's speed a GPU achieved: of the measured speed, which is
// measured when the first one asks, and once; of the nominal one, and without a word more, where others are at work or
// it cannot be measured.
//
// Run by tests/check-gpu with the fake driver and code that is waited for.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { COMPILE_MS = 1500, BUSY_MS = 60000 };

#define EXPLAINED "explain analyze select sum(a) from t"
#define ENOUGH    "268435456"
#define TOO_LITTLE "37748736"

static void (*fail_at)(const char *call, int nth, int result), (*compile_takes)(int ms), (*busy)(int ms),
    (*go_on)(void);
static int (*count)(const char *call), (*has_come)(void);

static weft_db      *db;
static weft_session *asking, *other;

// All that is run here has been compiled once it returns.
static void open_all(const char *device_memory, const char *cache)
{
    weft_error error;
    setenv("WEFT_FAKE_CUDA_MEMORY", device_memory, 1);
    setenv("WEFT_CACHE", cache, 1);
    if (weft_open(NULL, &db, &error)) exit((printf("failed: %s\n", error.message), 1));
    asking = connect_alone(db, "cuda:0"), other = connect_alone(db, "cuda:0");
    must(asking, "create table t (a integer)");
    must(asking, "insert into t values (1), (2), (3)");
    must(asking, "select sum(a) from t");
    must(other, "select max(a) from t");
}

static void close_all(void)
{
    weft_disconnect(asking);
    weft_disconnect(other);
    weft_close(db);
}

static void check_says(const char *share, const char *when)
{
    char *text = answer(asking, EXPLAINED);
    check(strstr(text, share) != NULL, when, text);
    free(text);
}

static void test_is_measured_once(const char *cache)
{
    open_all(ENOUGH, cache);
    compile_takes(COMPILE_MS);
    char       *text = answer(asking, EXPLAINED);
    const char *total = strstr(text, "total ");
    check(strstr(text, "% of the measured ") != NULL, "the first one measures", text);
    check(total && atof(total + 6) < COMPILE_MS, "which is no time of the query", text);
    free(text);
    check_says("% of the measured ", "the second one knows it");
    close_all();
    compile_takes(0);
    open_all(ENOUGH, cache);
    const int n_allocated = count("cuMemAlloc");
    check_says("% of the measured ", "so does one of another process");
    check(count("cuMemAlloc") == n_allocated, "it was written down", "and is measured again");
    close_all();
}

static void test_others_are_at_work(void)
{
    weft_result *result = NULL;
    weft_error   error;
    open_all(ENOUGH, "");
    busy(BUSY_MS);
    weft_task *task = begin(other, "select max(a) from t");
    wait_for_launch(has_come, task);
    check_says("% of the nominal 1024)", "while others are at work");
    check(!weft_is_done(task), "the other one is at work", "it was done");
    go_on();
    if (weft_wait(task, &result, &error)) check(0, "the other one", error.message);
    weft_result_free(result);
    check_says("% of the measured ", "when they are done");
    close_all();
}

static void test_too_little_memory(void)
{
    open_all(TOO_LITTLE, "");
    check_says("% of the nominal 1024)", "where there is too little memory");
    const int n_before = count("cuMemAlloc");
    check_says("% of the nominal 1024)", "nor the next time");
    check(count("cuMemAlloc") == n_before, "it is tried once", "and again");
    close_all();
}

static void test_calls_fail(void)
{
    static const char *const calls[] = { "cuMemGetInfo",        "cuMemAlloc",       "cuStreamCreate",
                                         "nvrtcCompileProgram", "cuModuleLoadData", "cuDevicePrimaryCtxRetain" };
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++) {
        open_all(ENOUGH, "");
        fail_at(calls[i], 1, 2);
        n_notices = 0;
        check_says("% of the nominal 1024)", calls[i]);
        check(n_notices == 0, calls[i], "a notice");
        fail_at("", 0, 0);
        close_all();                   // the fake driver ends the process when something is left
    }
}

int main(void)
{
    char        cache[] = "/tmp/weft-peak.XXXXXX", command[64];
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    *(void **)&compile_takes = fake ? dlsym(fake, "fake_nvrtc_takes") : NULL;
    *(void **)&busy = fake ? dlsym(fake, "fake_cuda_busy") : NULL;
    *(void **)&go_on = fake ? dlsym(fake, "fake_cuda_go_on") : NULL;
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_count") : NULL;
    *(void **)&has_come = fake ? dlsym(fake, "fake_cuda_has_come") : NULL;
    if (!fail_at || !compile_takes || !busy || !go_on || !count || !has_come)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(cache)) return puts("failed: no temporary folder"), 1;
    setenv("WEFT_GPU_WAIT", "on", 1);
    test_is_measured_once(cache);
    test_others_are_at_work();
    test_too_little_memory();
    test_calls_fail();
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    if (system(command)) printf("%s is left\n", cache);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
