// results.c - results of several pieces, which several threads bring: whole and in order, also when calls fail and
// queries are cancelled meanwhile.
//
// Run by tests/check-gpu with the fake driver.  A call that fails for once leaves the query to the CPU; so does one
// that takes the context along, after which the database is opened anew.

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "help.h"

enum { N_ROWS = 400000, N_CANCELS = 12, NTH_MOST = 60, PASSES = 2, COPIES_LEAST = 14, TAKES_CONTEXT = 700 };

// Rows, with NULLs in them; groups with their keys.
static const char *const queries[] = { "select a * 5000000000, c from t where d < 90",
                                       "select a, count(*), sum(c) from t group by a" };
enum { N_QUERIES = sizeof queries / sizeof *queries };

static void (*fail_at)(const char *call, int nth, int result);
static int (*calls_seen)(void);
static uint64_t      expected[N_QUERIES];
static char          folder[] = "/tmp/weft-results.XXXXXX", path[64];
static weft_db      *db;
static weft_session *session;

static uint64_t digest_of(weft_result *result, bool in_order)
{
    uint64_t all = weft_result_rows(result);
    n_notices += weft_result_notices(result);
    for (size_t r = 0; r < weft_result_rows(result); r++) {
        uint64_t row = 14695981039346656037u;
        for (int c = 0; c < weft_result_columns(result); c++) {
            char value[64];
            weft_format(result, c, r, value, sizeof value);
            for (const char *at = value; *at; at++) row = (row ^ (unsigned char)*at) * 1099511628211u;
            row = (row ^ '|') * 1099511628211u;
        }
        all = in_order ? (all ^ row) * 1099511628211u : all + row;
    }
    weft_result_free(result);
    return all;
}

static void check_query(int q, const char *what)
{
    weft_result *result;
    weft_error   error;
    if (weft_query(session, queries[q], &result, &error)) check(0, what, error.message);
    else check(digest_of(result, q == 0) == expected[q], what, queries[q]);
}

static void open_device(void)
{
    weft_error error;
    if (weft_open(path, &db, &error) || weft_connect(db, &session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    must(session, "set device = cuda");
}

static void close_device(void)
{
    weft_disconnect(session);
    weft_close(db);
}

static void check_faults(const char *call, int result)
{
    char what[100];
    for (int q = 0; q < N_QUERIES; q++) {
        bool is_over = false;
        for (int nth = 1; nth < NTH_MOST && !is_over; nth += result == TAKES_CONTEXT ? 5 : 2) {
            snprintf(what, sizeof what, "%s call %d with %d", call, nth, result);
            fail_at(call, nth, result);
            check_query(q, what);
            is_over = calls_seen() < nth;
            const bool is_lost = result == TAKES_CONTEXT && !is_over;
            if (is_lost) close_device();
            fail_at("", 0, 0);
            if (is_lost) open_device();
        }
        check(is_over, call, "was called more often than this looks at");
    }
}

// At a time at which it may be anywhere between its first kernel and its last row.
static void check_cancel(int n)
{
    weft_task   *task;
    weft_result *result;
    weft_error   error;
    const int    q = n % N_QUERIES;
    if (weft_submit(session, queries[q], &task, &error)) exit((printf("failed: %s\n", error.message), 1));
    usleep((useconds_t)n * 4000);
    weft_cancel(session);
    if (weft_wait(task, &result, &error)) check(strcmp(error.sqlstate, "57014") == 0, "cancelled", error.message);
    else check(digest_of(result, q == 0) == expected[q], "cancelled too late", queries[q]);
}

static void make_table(void)
{
    weft_result *result;
    weft_error   error;
    char         rows[80], note[40];
    snprintf(rows, sizeof rows, "%s/rows.csv", folder);
    write_csv(rows, N_ROWS);
    open_device();
    load_csv(session, "t", rows);
    unlink(rows);
    must(session, "set device = cpu");
    for (int q = 0; q < N_QUERIES; q++) {
        if (weft_query(session, queries[q], &result, &error)) exit((printf("failed: %s\n", error.message), 1));
        expected[q] = digest_of(result, q == 0);
    }
    must(session, "set device = cuda");
    fail_at("cuMemcpyDtoHAsync", 0, 0);
    for (int q = 0; q < N_QUERIES; q++) check_query(q, "without a fault");
    snprintf(note, sizeof note, "%d copies, %d notices", calls_seen(), n_notices);
    check(calls_seen() >= COPIES_LEAST && n_notices == 0, "results come in pieces", note);
}

int main(void)
{
    static const char *const calls[] = { "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize",
                                         "cuStreamSynchronize", "cuCtxSetCurrent" };
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    *(void **)&calls_seen = fake ? dlsym(fake, "fake_cuda_calls") : NULL;
    if (!fail_at || !calls_seen) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(folder)) return puts("failed: no temporary folder"), 1;
    snprintf(path, sizeof path, "%s/t.weft", folder);
    make_table();
    for (int n = 0; n < N_CANCELS; n++) check_cancel(n);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        check_faults(calls[c], PASSES);
        check_faults(calls[c], TAKES_CONTEXT);
    }
    close_device();
    char sweep[100];
    snprintf(sweep, sizeof sweep, "rm -rf %s", folder);
    if (system(sweep)) return 1;
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
