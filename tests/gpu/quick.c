// quick.c - code that is compiled quickly runs first, and better code after it.
//
// In a crowd neither is compiled for a kernel that came once.
//
// Run by tests/check-gpu with the fake driver, as new as NVRTC 13, which can leave optimisations out.

#include <dlfcn.h>

#include "help.h"

typedef void FailAt(const char *call, int nth, int result);
typedef int  Count(const char *call);
typedef void Takes(int ms);

static FailAt *fail_at;
static Count  *count;
static Takes  *takes;

#define QUICK "nvrtcCompileProgram, quick"
#define BEST  "nvrtcCompileProgram"

enum {
    SLOW_MS = 20000,                   // of quick code a twentieth; ended as soon as that was seen
    PATIENCE = 12000,                  // looks, of 5 ms
    N_STARTS = 2                       // compiles of the compiler's own start
};

static weft_db      *db;
static weft_session *session;
static char         *said = NULL;

static const char *ask(const char *sql)
{
    free(said);
    return said = answer(session, sql);
}

static void open_session(void)
{
    weft_error error;
    const int  n_before = count(QUICK) + count(BEST);
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) exit(1);
    ask("create table f (k integer, v integer)");
    ask("insert into f select n % 10, n from generate_series(1, 2000) g (n)");
    ask("set device = cuda");
    for (int n = 0; n < PATIENCE && count(QUICK) + count(BEST) - n_before < N_STARTS; n++) usleep(5000);
}

static void close_session(void)
{
    weft_disconnect(session);
    weft_close(db);
}

#define IS_BETTER_COMING(text) (strstr(text, "better code is compiled meanwhile") != NULL)

static const char *explain_until(const char *sql, bool (*is_so)(const char *text))
{
    int n = 0;
    while (!is_so(ask(sql)) && n++ < PATIENCE) usleep(5000);
    return said;
}

static bool is_quick(const char *text) { return strstr(text, "woven on cuda:0") && IS_BETTER_COMING(text); }
static bool is_best(const char *text) { return strstr(text, "woven on cuda:0") && !IS_BETTER_COMING(text); }

static void quick_then_best(void)
{
    const int n_quick = count(QUICK), n_best = count(BEST);
    open_session();
    const int warm = count(BEST) - n_best;
    takes(SLOW_MS);
    check(!strcmp(ask("select sum(v) from f where v < 10"), "45|"), "the CPU answers at first", said);
    explain_until("explain analyze select sum(v) from f where v < 10", is_quick);
    check(is_quick(said), "then quick code does", said);
    check(count(QUICK) == n_quick + 1 && count(BEST) == n_best + warm, "before the other is there", "it was not");
    takes(0);
    explain_until("explain analyze select sum(v) from f where v < 10", is_best);
    check(is_best(said), "then better code", said);
    check(!strcmp(ask("select sum(v) from f where v < 10"), "45|"), "with the same answer", said);
    check(count(QUICK) == n_quick + 1 && count(BEST) == n_best + warm + 1, "each was compiled once", "more often");
    close_session();
}

static void quick_fails(void)
{
    open_session();
    fail_at(QUICK, -1, 6);
    check(!strcmp(ask("select max(v) from f where v < 20"), "19|"), "the CPU answers", said);
    explain_until("explain analyze select max(v) from f where v < 20", is_best);
    check(is_best(said), "where quick code fails, better code is made all the same", said);
    fail_at("none", 0, 0);
    close_session();
}

static void waits_for_all(void)
{
    open_session();
    const int n_quick = count(QUICK);
    ask("set gpu_wait = on");
    check(is_best(ask("explain analyze select min(v) from f where v > 20")) && count(QUICK) == n_quick,
          "with gpu_wait nothing is compiled quickly", said);
    close_session();
}

// WEFT_GPU_CODE=quick: for tests, which run each kernel once.
static void quick_alone(void)
{
    setenv("WEFT_GPU_CODE", "quick", 1);
    open_session();
    const int n_quick = count(QUICK), n_best = count(BEST);
    ask("set gpu_wait = on");
    check(is_best(ask("explain analyze select sum(v), min(v) from f where v > 30")), "a query waits for quick code",
          said);
    check(count(QUICK) == n_quick + 1 && count(BEST) == n_best, "which is all that is compiled", "it was not");
    ask("set gpu_wait = off");
    explain_until("explain analyze select max(v), min(v) from f where v > 30", is_best);
    check(is_best(said) && count(QUICK) == n_quick + 2 && count(BEST) == n_best, "in the background, too", said);
    setenv("WEFT_GPU_CODE", "best", 1);
    close_session();
}

// Whole numbers of a row are divided by a function that has memory of its own: more rows for a thread gain nothing.
static void one_row_for_calls(void)
{
    open_session();
    ask("set gpu_wait = on");
    check(strstr(ask("explain analyze select v / 3.0 from f where v < 3"), " threads x 1 row") != NULL,
          "rows that are divided come one for each thread", said);
    check(strstr(ask("explain analyze select v + 3 from f where v < 3"), " threads x 8 row") != NULL,
          "others come eight", said);
    close_session();
}

// ---- a crowd --------------------------------------------------------------------------------------------------------

enum { MOST_OTHERS = 256 };

typedef struct Crowd { int n; weft_session *sessions[MOST_OTHERS]; weft_task *tasks[MOST_OTHERS]; } Crowd;

static void wait_until_all_run(int n)
{
    weft_session *onlooker = connect_to(db, "cpu");
    int           n_seen = 0;
    for (int i = 0; i < PATIENCE && n_seen < n; i++) {
        char *text = answer(onlooker, "select count(*) from weft_queue where state = 'running'");
        n_seen = atoi(text);
        free(text);
        if (n_seen < n) usleep(5000);
    }
    check(n_seen >= n, "queries that do not end run", "they do not");
    weft_disconnect(onlooker);
}

// Queries on the CPU that do not end, more than there are cores.
static void open_crowd(Crowd *crowd)
{
    weft_error error;
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    crowd->n = (int)(n_cores < MOST_OTHERS ? n_cores + 1 : MOST_OTHERS);
    for (int i = 0; i < crowd->n; i++) {
        if (weft_connect(db, &crowd->sessions[i], &error)) exit(1);
        must(crowd->sessions[i], "set device = cpu");
        if (weft_submit(crowd->sessions[i], "select count(*) from f a, f b, f c where a.v + b.v * c.v < a.k",
                        &crowd->tasks[i], &error))
            exit(1);
    }
    wait_until_all_run(crowd->n);
}

static void close_crowd(const Crowd *crowd)
{
    for (int i = 0; i < crowd->n; i++) {
        weft_result *result = NULL;
        weft_error   error;
        weft_cancel(crowd->sessions[i]);
        if (!weft_wait(crowd->tasks[i], &result, &error)) weft_result_free(result);
        weft_disconnect(crowd->sessions[i]);
    }
}

static void crowded(void)
{
    Crowd crowd;
    open_session();
    open_crowd(&crowd);
    const int n_before = count(QUICK) + count(BEST);
    check(!strcmp(ask("select sum(v + k) from f where v < 30 and k < 5"), "210|"), "the CPU answers in a crowd", said);
    usleep(500000);
    check(count(QUICK) + count(BEST) == n_before, "a kernel that came once is not compiled", "it was");
    explain_until("explain analyze select sum(v + k) from f where v < 30 and k < 5", is_best);
    check(is_best(said), "one that comes again is", said);
    close_crowd(&crowd);
    close_session();
}

int main(void)
{
    void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    setenv("WEFT_FAKE_CUDA_VERSION", "13000", 1);
    setenv("WEFT_FAKE_CUDA_MEMORY", "37748736", 1);        // too little for its speed to be measured: a compile, too
    setenv("WEFT_CACHE", "", 1);
    setenv("WEFT_GPU_GENERIC", "off", 1);                  // it would run what quick code is for (generic.c)
    if (!fake) return 1;
    *(void **)&fail_at = dlsym(fake, "fake_cuda_fail");
    *(void **)&count = dlsym(fake, "fake_cuda_count");
    *(void **)&takes = dlsym(fake, "fake_nvrtc_takes");
    quick_then_best();
    quick_fails();
    waits_for_all();
    quick_alone();
    one_row_for_calls();
    crowded();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
