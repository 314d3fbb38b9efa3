// faults.c - every call of the driver fails once, at each place where a query makes it; the answers stay right.
//
// Run by tests/check-gpu with the fake driver.  For each call and each n: the nth such call fails, with an error that
// passes and with one that takes the context along.  A query then runs on the CPU and says so, or SET device refuses;
// nothing is left, and the next database finds the device as if nothing had happened.  An error that passes costs those
// their device that met it, and nobody after them.  With "unwoven" every operator is a kernel of its own, and rows
// stay on the device in between.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

static const char *const calls[] = {
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuMemHostAlloc",
    "cuMemAlloc",
    "cuEventCreate",
    "cuMemGetInfo",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemsetD8Async",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuLaunchKernel",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuStreamSynchronize",
    "nvrtcCompileProgram",
};

static const char *const queries[] = {
    "select count(*), sum(v), min(v), max(v) from f where k > 3",
    "select g, count(*), sum(v), min(x) from f group by g order by g",
    "select k, count(*) from f group by k order by k",
    "select d.name, sum(f.v) from f join d on f.k = d.k group by d.name order by d.name",
    "select v, x from f where v % 97 = 5",
    "select a.v, b.v from f a join f b on a.v = b.k where a.k < 20 order by 1, 2",
    ("select a.name, count(b.name), sum(f.v) from f join d a on f.k = a.k join d b on f.v % 100 = b.k "
     "where f.g is not null and f.x < 40 group by a.name order by a.name"),
};
enum {
    N_QUERIES = sizeof queries / sizeof *queries,
    N_CALLS = sizeof calls / sizeof *calls,
    NTH_MOST = 400,
    STAYS = 700
};

static char *expected[N_QUERIES];
static int   n_passed, n_failed, n_fallbacks;
static int   is_unwoven;

static char *answer(weft_session *session, const char *sql)
{
    weft_result *result;
    weft_error   error;
    size_t       length = 0;
    char        *text = calloc(1, 1 << 20);
    if (weft_query(session, sql, &result, &error)) {
        snprintf(text, 1 << 20, "error %s: %s", error.sqlstate, error.message);
        return text;
    }
    n_fallbacks += weft_result_notices(result) > 0;
    for (size_t r = 0; r < weft_result_rows(result); r++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[64];
            weft_format(result, c, r, value, sizeof value);
            length += (size_t)snprintf(text + length, (1 << 20) - length, "%s|", value);
        }
    weft_result_free(result);
    return text;
}

static int run(weft_session *session, const char *sql, weft_error *error)
{
    weft_result *result = NULL;
    const int    status = weft_query(session, sql, &result, error);
    weft_result_free(result);
    return status;
}

static void must(weft_session *session, const char *sql)
{
    weft_error error;
    if (!run(session, sql, &error)) return;
    printf("failed: %.80s: %s\n", sql, error.message);
    exit(1);
}

static char rows_path[2][1024];                              // of f and of d, written once: every try reads them

static FILE *new_file(char path[1024])
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, 1024, "%s/weft-faults-XXXXXX", folder && *folder ? folder : "/tmp");
    const int number = mkstemp(path);
    FILE     *file = number < 0 ? NULL : fdopen(number, "w");
    if (!file) perror(path), exit(1);
    return file;
}

// Not by INSERT: to parse so many values again and again took longer than the queries.
static void write_rows(void)
{
    FILE *file = new_file(rows_path[0]);
    for (int i = 0; i < 1500; i++)
        fprintf(file, "%d,%s,%d,%d.5\n", i * 7 % 113, i % 11 ? i % 3 ? "a" : "b" : "", i, i % 50);
    fclose(file);
    file = new_file(rows_path[1]);
    for (int i = 0; i < 100; i++) fprintf(file, "%d,n%d\n", i, i % 13);
    fclose(file);
}

static void copy(weft_session *session, const char *table, const char *path)
{
    char sql[1200];
    snprintf(sql, sizeof sql, "copy %s from '%s' (format csv)", table, path);
    must(session, sql);
}

static void fill(weft_session *session)
{
    must(session, "set chunk_rows = 256");
    if (is_unwoven) must(session, "set weave = off");
    must(session, "create table f (k integer, g text, v integer, x double precision)");
    must(session, "create table d (k integer, name text)");
    copy(session, "f", rows_path[0]);
    copy(session, "d", rows_path[1]);
}

static void check_all(weft_session *session, const char *what, int nth, int result)
{
    for (int q = 0; q < N_QUERIES; q++) {
        char *got = answer(session, queries[q]);
        if (strcmp(got, expected[q]) == 0) {
            n_passed++;
        } else {
            n_failed++;
            printf("failed: %s call %d with %d: %s\n  expected %.200s\n  got      %.200s\n", what, nth, result,
                   queries[q], expected[q], got);
        }
        free(got);
    }
}

// The driver's, and NVRTC's.
static int out_of_memory(const char *call) { return strncmp(call, "cu", 2) == 0 ? 2 : 1; }

typedef void FailAt(const char *call, int nth, int result);
typedef int  CallsSeen(void);

// False: there is no nth call any more.
static int try_fault(FailAt *fail_at, CallsSeen *calls_seen, const char *call, int nth, int result)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) exit(1);
    fill(session);
    fail_at(call, nth, result);
    if (run(session, "set device = cuda", &error) && strcmp(error.sqlstate, "58000") != 0 &&
        strcmp(error.sqlstate, "53200") != 0) {
        n_failed++;
        printf("failed: %s call %d with %d: SET said %s %s\n", call, nth, result, error.sqlstate, error.message);
    }
    check_all(session, call, nth, result);
    const int seen = calls_seen(), n_before = n_fallbacks;
    if (seen >= nth && result != STAYS) check_all(session, call, nth, result);
    if (n_fallbacks != n_before)
        n_failed++, printf("failed: %s call %d with %d: queries after it ran on the CPU, too\n", call, nth, result);
    weft_disconnect(session);
    weft_close(db);
    fail_at("", 0, 0);
    return seen >= nth;
}

int main(int n_args, char **args)
{
    weft_db      *db;
    weft_session *session;
    weft_error    error;
    const int     step = n_args > 1 ? atoi(args[1]) : 1;       // of n, after the first ten
    is_unwoven = n_args > 2 && strcmp(args[2], "unwoven") == 0;
    void         *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    FailAt       *fail_at = fake ? (FailAt *)dlsym(fake, "fake_cuda_fail") : NULL;
    CallsSeen    *calls_seen = fake ? (CallsSeen *)dlsym(fake, "fake_cuda_calls") : NULL;
    if (!fail_at || !calls_seen) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) return 1;
    write_rows();
    fill(session);
    must(session, "set device = cpu");
    for (int q = 0; q < N_QUERIES; q++) expected[q] = answer(session, queries[q]);
    must(session, "set device = cuda");
    check_all(session, "no", 0, 0);
    if (n_fallbacks) n_failed++, puts("failed: the device refused without a fault");
    weft_disconnect(session);
    weft_close(db);
    for (int c = 0; c < N_CALLS; c++)
        for (int k = 0; k < 2; k++)
            for (int nth = 1;
                 nth < NTH_MOST && try_fault(fail_at, calls_seen, calls[c], nth, k ? STAYS : out_of_memory(calls[c]));
                 nth += nth < 10 ? 1 : step)
                continue;
    if (!n_fallbacks) n_failed++, puts("failed: no fault made a query run on the CPU");
    for (int q = 0; q < N_QUERIES; q++) free(expected[q]);
    for (int f = 0; f < 2; f++) remove(rows_path[f]);
    printf("%d queries ran on the CPU for a fault\n%d passed, %d failed\n", n_fallbacks, n_passed, n_failed);
    return n_failed != 0;
}
