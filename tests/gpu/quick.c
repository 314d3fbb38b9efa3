// quick.c - code that is compiled quickly runs first, and better code after it.
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

enum { SLOW_MS = 1000, PATIENCE = 4000 };                  // looks, of 5 ms

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
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) exit(1);
    ask("create table f (k integer, v integer)");
    ask("insert into f select n % 10, n from generate_series(1, 2000) g (n)");
    ask("set device = cuda");
    usleep(100000);                    // the compiler's own start is over
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
    explain_until("explain analyze select sum(v) from f where v < 10", is_best);
    check(is_best(said), "then better code", said);
    check(!strcmp(ask("select sum(v) from f where v < 10"), "45|"), "with the same answer", said);
    check(count(QUICK) == n_quick + 1 && count(BEST) == n_best + warm + 1, "each was compiled once", "more often");
    takes(0);
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

int main(void)
{
    void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    setenv("WEFT_FAKE_CUDA_VERSION", "13000", 1);
    setenv("WEFT_FAKE_CUDA_MEMORY", "37748736", 1);        // too little for its speed to be measured: a compile, too
    setenv("WEFT_CACHE", "", 1);
    if (!fake) return 1;
    *(void **)&fail_at = dlsym(fake, "fake_cuda_fail");
    *(void **)&count = dlsym(fake, "fake_cuda_count");
    *(void **)&takes = dlsym(fake, "fake_nvrtc_takes");
    quick_then_best();
    quick_fails();
    waits_for_all();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
