// ready.c - the CPU stands in while code for a GPU is compiled, and only then; who waits for it can be cancelled; code
// that could not be made is made later, if it can.
//
// Run by tests/check-gpu with the fake driver, whose compiler takes as long as it is told.

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weft.h"

typedef void FailAt(const char *call, int nth, int result);
typedef int  CallsSeen(void);
typedef void Takes(int ms);

static FailAt    *fail_at;
static CallsSeen *calls_seen;
static Takes     *takes;
static int        n_passed, n_failed;

#define SLOW_MS 700                    // of a compile that is waited for
#define LONG_MS 60000                  // of one that no query waits for; takes(0) ends it

static void check(int ok, const char *what, const char *seen)
{
    n_passed += ok != 0;
    n_failed += ok == 0;
    if (!ok) printf("failed: %s: %s\n", what, seen);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// All cells of the answer; a notice is one, too.
static const char *ask(weft_session *session, const char *sql)
{
    static char  text[1 << 16];
    weft_result *result;
    weft_error   error;
    size_t       length = 0;
    text[0] = 0;
    if (weft_query(session, sql, &result, &error)) {
        snprintf(text, sizeof text, "error %s: %s", error.sqlstate, error.message);
        return text;
    }
    for (size_t r = 0; r < weft_result_rows(result); r++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[2000];
            weft_format(result, c, r, value, sizeof value);
            length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", value);
        }
    if (weft_result_notices(result)) snprintf(text + length, sizeof text - length, "notice");
    weft_result_free(result);
    return text;
}

// Of the fake.  Too little for EXPLAIN ANALYZE to measure how fast it is read, which is a compile, too.
#define DEVICE_MEMORY "37748736"

enum { N_STARTS = 2 };                 // compiles of the compiler's own start

typedef struct Desk { weft_db *db; weft_session *session; } Desk;

static void insert_rows(weft_session *session)
{
    static char sql[60000];
    size_t      length = (size_t)snprintf(sql, sizeof sql, "insert into f values ");
    for (int i = 0; i < 2000; i++)
        length += (size_t)snprintf(sql + length, sizeof sql - length, "%s(1, %d)", i ? "," : "", i);
    ask(session, sql);
}

static Desk open_desk(void)
{
    Desk       desk;
    weft_error error;
    takes(0);
    fail_at("nvrtcCompileProgram", 0, 0);
    setenv("WEFT_FAKE_CUDA_MEMORY", DEVICE_MEMORY, 1);
    if (weft_open(NULL, &desk.db, &error) || weft_connect(desk.db, &desk.session, &error)) exit(1);
    ask(desk.session, "create table f (k integer, v integer)");
    insert_rows(desk.session);
    ask(desk.session, "set threads = 1");
    ask(desk.session, "set device = cuda");
    for (int ms = 0; ms < 60000 && calls_seen() < N_STARTS; ms++) usleep(1000);
    usleep(100000);                    // what it compiled is loaded
    fail_at("nvrtcCompileProgram", 0, 0);
    return desk;
}

static void close_desk(Desk *desk)
{
    weft_disconnect(desk->session);
    weft_close(desk->db);
}

static const char *explain_until(weft_session *session, const char *sql, const char *wanted)
{
    const char  *text = "";
    const double start = now_ms();
    do {
        text = ask(session, sql);
        if (!strstr(text, wanted)) usleep(5000);
    } while (!strstr(text, wanted) && now_ms() - start < 60000);
    return text;
}

#define SUM_OF_FEW "select sum(v) from f where v < 10"

static void test_stands_in(void)
{
    Desk        desk = open_desk();
    const char *text;
    takes(LONG_MS);
    const double start = now_ms();
    text = ask(desk.session, SUM_OF_FEW);
    check(!strcmp(text, "45\n"), "the CPU answers, and nobody is alarmed", text);
    text = ask(desk.session, "explain analyze " SUM_OF_FEW);
    const double took_ms = now_ms() - start;
    check(strstr(text, "woven on cpu") && strstr(text, "; code for cuda:0 is compiled meanwhile\n"),
          "EXPLAIN ANALYZE says why the CPU ran it", text);
    check(took_ms < LONG_MS && calls_seen() == 0, "nobody waits for the compiler", text);
    takes(0);
    text = explain_until(desk.session, "explain analyze " SUM_OF_FEW, "woven on cuda:0");
    check(strstr(text, "woven on cuda:0") && !strstr(text, "meanwhile"), "the GPU runs it once the code is there",
          text);
    check(calls_seen() == 1, "it is compiled once", text);
    text = ask(desk.session, "select sum(v) from f where v < 20");
    check(!strcmp(text, "190\n") && calls_seen() == 1, "another constant shares the code", text);
    close_desk(&desk);
}

// A compiler cannot be told to stop; who waits for it can, and the code is there for the next one.
static void test_cancels(void)
{
    Desk         desk = open_desk();
    weft_task   *task;
    weft_result *result = NULL;
    weft_error   error;
    ask(desk.session, "set gpu_wait = on");
    takes(LONG_MS);
    if (weft_submit(desk.session, SUM_OF_FEW, &task, &error)) exit((printf("failed: %s\n", error.message), 1));
    usleep(100000);                    // it is compiled by now
    weft_cancel(desk.session);
    const int status = weft_wait(task, &result, &error);
    check(status && !strcmp(error.sqlstate, "57014"), "who waits for the compiler can be cancelled",
          status ? error.message : "it was answered");
    weft_result_free(result);
    ask(desk.session, "set gpu_wait = off");
    const char *text = ask(desk.session, "explain analyze " SUM_OF_FEW);
    check(strstr(text, "; code for cuda:0 is compiled meanwhile\n") != NULL, "and does not wait for its end", text);
    takes(0);
    text = explain_until(desk.session, "explain analyze " SUM_OF_FEW, "woven on cuda:0");
    check(strstr(text, "woven on cuda:0") && calls_seen() == 1, "the code is used by the next one", text);
    close_desk(&desk);
}

static int count_threads(void)
{
    int            n = 0;
    DIR           *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while (tasks && (task = readdir(tasks))) n += task->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

// Each of these has a kernel of its own.
static const char *sum_number(int n)
{
    static char sql[200];
    size_t      length = (size_t)snprintf(sql, sizeof sql, "select sum(v");
    for (int bit = 0; bit < 6; bit++)
        length += (size_t)snprintf(sql + length, sizeof sql - length, n >> bit & 1 ? " + k * v" : " - k");
    snprintf(sql + length, sizeof sql - length, ") from f");
    return sql;
}

// Eight compiles at once, whoever asks, and none for who gave up before its turn.
static void test_bounds_what_waits(void)
{
    Desk desk = open_desk();
    char seen[100];
    int  n_canceled = 0;
    ask(desk.session, "set gpu_wait = on");
    ask(desk.session, "set statement_timeout = 60000");
    ask(desk.session, SUM_OF_FEW);     // threads that stay are there, the one that looks at the clock as well
    fail_at("nvrtcCompileProgram", 0, 0);
    ask(desk.session, "set statement_timeout = 15");
    const int n_before = count_threads();
    takes(LONG_MS);
    for (int q = 0; q < 40; q++) n_canceled += strncmp(ask(desk.session, sum_number(q)), "error 57014", 11) == 0;
    const int n_more = count_threads() - n_before;
    snprintf(seen, sizeof seen, "%d threads more", n_more);
    check(n_more > 0 && n_more <= 8, "queries that gave up leave a few compiles behind", seen);
    snprintf(seen, sizeof seen, "%d of 40", n_canceled);
    check(n_canceled == 40, "who waits for a place among the compiles sees its time run out", seen);
    takes(0);
    ask(desk.session, "set statement_timeout = 0");
    for (int q = 0; q < 40; q++) {
        const char *text = ask(desk.session, sum_number(q));
        if (q == 39) check(strncmp(text, "error", 5) != 0, "and is answered the next time", text);
    }
    snprintf(seen, sizeof seen, "%d compiles", calls_seen());
    check(calls_seen() == 40, "what was compiled is not compiled again", seen);
    close_desk(&desk);
}

static void test_waits(void)
{
    Desk        desk = open_desk();
    const char *text;
    takes(50);
    // 8,000 rows of which each meets 8,000: more than the CPU does during a compile.
    for (int times = 1; times < 4; times++) insert_rows(desk.session);
    text = ask(desk.session, "explain analyze select count(*) from f a join f b on a.k = b.k where a.v < b.v");
    check(strstr(text, "woven on cuda:0") != NULL, "what takes the CPU long is worth waiting for", text);
    check(strstr(text, "meanwhile") != NULL, "and the table that it joins is not", text);
    ask(desk.session, "set gpu_wait = on");
    text = ask(desk.session, "explain analyze select max(v) from f where k = 1");
    check(strstr(text, "woven on cuda:0") && !strstr(text, "meanwhile"), "gpu_wait = on waits for all code", text);
    ask(desk.session, "set gpu_wait = off");
    ask(desk.session, "set weave = off");
    takes(0);
    text = explain_until(desk.session, "explain analyze select min(v) from f where v < 7", "sink on cuda:0");
    check(strstr(text, "filter on cuda:0") ||
              strstr(explain_until(desk.session, "explain analyze select min(v) from f where v < 7",
                                   "filter on cuda:0"),
                     "sink on"),
          "operators as kernels of their own get their code, too", text);
    close_desk(&desk);
}

// A scan that cannot do without what the background compiles waits for that, and does not compile it again.
static void test_meets_the_background(void)
{
    Desk        desk = open_desk();
    const char *text;
    takes(SLOW_MS);
    ask(desk.session, SUM_OF_FEW);
    ask(desk.session, "set gpu_wait = on");
    text = ask(desk.session, "explain analyze " SUM_OF_FEW);
    check(strstr(text, "woven on cuda:0") && calls_seen() == 1, "one compile serves who waits and who does not", text);
    close_desk(&desk);
}

static void test_fails_in_the_background(void)
{
    Desk        desk = open_desk();
    const char *text;
    fail_at("nvrtcCompileProgram", 1, 6);
    ask(desk.session, SUM_OF_FEW);
    text = explain_until(desk.session, SUM_OF_FEW, "notice");
    check(!strcmp(text, "45\nnotice"), "code that could not be compiled is told by the next query", text);
    fail_at("", 0, 0);
    close_desk(&desk);
}

// Whatever fails while code is made, but for the text itself, may not fail the next time.
static void test_tries_again(void)
{
    static const struct { const char *call; int result;
    } faults[] = {
        { "cuModuleLoadData", 2 },
        { "cuModuleGetFunction", 1 },
        { "cuFuncGetAttribute", 1 },
        { "cuFuncSetAttribute", 1 },
        { "cuOccupancyMaxActiveBlocksPerMultiprocessor", 1 },
        { "nvrtcCompileProgram", 1 },  // out of memory
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        Desk desk = open_desk();
        ask(desk.session, "set gpu_wait = on");
        fail_at(faults[i].call, 1, faults[i].result);
        const char *text = ask(desk.session, SUM_OF_FEW);
        check(!strcmp(text, "45\nnotice"), faults[i].call, text);
        text = ask(desk.session, SUM_OF_FEW);
        check(!strcmp(text, "45\n"), "what has passed is over", faults[i].call);
        close_desk(&desk);             // the fake driver ends the process when something is left
    }
    Desk desk = open_desk();
    fail_at("cuModuleLoadData", 1, 2);
    const char *text = explain_until(desk.session, "explain analyze " SUM_OF_FEW, "woven on cuda:0");
    check(strstr(text, "woven on cuda:0") && calls_seen() == 2, "the background tries again, too", text);
    close_desk(&desk);
}

// A text that does not compile is not compiled again; what fails again and again is tried again, but not by each query.
static void test_gives_up(void)
{
    Desk desk = open_desk();
    ask(desk.session, "set gpu_wait = on");
    fail_at("nvrtcCompileProgram", 1, 6);
    for (int i = 0; i < 3; i++)
        check(!strcmp(ask(desk.session, SUM_OF_FEW), "45\nnotice"), "a text that does not compile", "it did later");
    check(calls_seen() == 1, "is compiled once", "and again");
    for (int is_waited_for = 0; is_waited_for < 2; is_waited_for++) {
        const char *sql = is_waited_for ? "select max(v) from f" : "select min(v) from f where k > 0";
        char        calls[20];
        ask(desk.session, is_waited_for ? "set gpu_wait = on" : "set gpu_wait = off");
        fail_at("cuModuleLoadData", -1, 2);
        for (int i = 0; i < 40; i++) ask(desk.session, sql), usleep(5000);
        snprintf(calls, sizeof calls, "%d calls", calls_seen());
        check(calls_seen() >= 2 && calls_seen() < 8, "a card that fails is not asked by each query", calls);
    }
    fail_at("", 0, 0);
    const char *text = explain_until(desk.session, "explain analyze select max(v) from f", "woven on cuda:0");
    check(strstr(text, "woven on cuda:0") != NULL, "and after a while it is", text);
    close_desk(&desk);
}

static void test_closes_meanwhile(void)
{
    static const char *const several[] = { "select min(v) from f",
                                           "select max(v) from f where v > 3",
                                           "select k, sum(v) from f group by k",
                                           "select v from f where v < 3",
                                           "select sum(v * k) from f",
                                           "select sum(v), count(*) from f where k > 0 or v = 3",
                                           "select avg(v) from f" };
    enum { N_SEVERAL = sizeof several / sizeof *several, N_COMPILERS = 4 };        // threads that compile, at most
    Desk desk = open_desk();
    char compiled[64];
    takes(SLOW_MS);
    for (int i = 0; i < N_SEVERAL; i++) ask(desk.session, several[i]);
    const int n_before = calls_seen();
    close_desk(&desk);                 // the fake driver ends the process when something is left
    snprintf(compiled, sizeof compiled, "%d before, %d in all", n_before, calls_seen());
    check(calls_seen() - n_before <= N_COMPILERS + 1, "closing waits for what has begun only", compiled);
}

int main(void)
{
    void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    setenv("WEFT_GPU_GENERIC", "off", 1);          // it would stand in before the CPU does (generic.c)
    fail_at = fake ? (FailAt *)dlsym(fake, "fake_cuda_fail") : NULL;
    calls_seen = fake ? (CallsSeen *)dlsym(fake, "fake_cuda_calls") : NULL;
    takes = fake ? (Takes *)dlsym(fake, "fake_nvrtc_takes") : NULL;
    if (!fail_at || !calls_seen || !takes) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    setenv("WEFT_GPU_WAIT", "off", 1);                     // whatever the caller likes better
    test_stands_in();
    test_cancels();
    test_bounds_what_waits();
    test_waits();
    test_meets_the_background();
    test_fails_in_the_background();
    test_tries_again();
    test_gives_up();
    test_closes_meanwhile();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
