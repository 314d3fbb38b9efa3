// herd.c - hundreds of queries wait for room in the pool: each query that ends wakes those that may have its room, and
// not all of them.
//
// Every wake-up is a thread that sleeps again soon, so the system's count of such switches is what is looked at.
//
// Run by tests/check-stress-gpu with the fake driver and a pool of 6150 kB, which has room for some 25 of them.

#include <sys/resource.h>
#include <unistd.h>

#include "help.h"

enum { N_SESSIONS = 500, N_ROWS = 40000, N_GROUPS = 20000, SWITCHES_MOST = 60 };

// ThreadSanitizer's own locks sleep, too: with it there are 100 to 140 switches for each query.
#ifdef __SANITIZE_THREAD__
#define HAS_OWN_SWITCHES true
#else
#define HAS_OWN_SWITCHES false
#endif

static weft_session *sessions[N_SESSIONS];
static char          right[200];

static void fill(weft_session *session)
{
    char  path[] = "/tmp/weft-herd.XXXXXX", sql[100];
    FILE *out = fdopen(mkstemp(path), "w");
    if (!out) exit((puts("failed: no temporary file"), 1));
    for (int row = 0; row < N_ROWS; row++) fprintf(out, "%d,%d\n", row % N_GROUPS, row);
    fclose(out);
    must(session, "create table t (g integer, a bigint)");
    snprintf(sql, sizeof sql, "copy t from '%s' with (format csv)", path);
    must(session, sql);
    unlink(path);
    // The largest group has the last rows; constants of queries leave these in.
    snprintf(right, sizeof right, "%d|%d|", N_GROUPS - 1, N_ROWS - 1);
}

static void write_query(int n, char *sql, size_t capacity)
{
    snprintf(sql, capacity, "select g, sum(a) from t where a >= %d group by g order by 2 desc limit 1", N_GROUPS + n);
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void run_all(void)
{
    weft_task  *tasks[N_SESSIONS];
    char        sql[200], text[ANSWER_BYTES];
    weft_result *result;
    weft_error  error;
    for (int i = 0; i < N_SESSIONS; i++) write_query(i, sql, sizeof sql), tasks[i] = begin(sessions[i], sql);
    for (int i = 0; i < N_SESSIONS; i++) {
        text[0] = 0;
        if (weft_wait(tasks[i], &result, &error)) snprintf(text, sizeof text, "error: %s", error.message);
        else print_result(result, text);
        check(strcmp(text, right) == 0, "one of many", text);
    }
}

int main(void)
{
    weft_db      *db;
    weft_session *cpu;
    weft_error    error;
    char          counted[80];
    if (weft_open(NULL, &db, &error)) return 1;
    cpu = connect_to(db, "cpu");
    fill(cpu);
    for (int i = 0; i < N_SESSIONS; i++) sessions[i] = connect_alone(db, "cuda");
    run_all();                                     // code is there
    const long before = switches();
    run_all();
    const double each = (double)(switches() - before) / N_SESSIONS;
    snprintf(counted, sizeof counted, "%.1f switches for each", each);
    printf("%s\n", counted);
    if (!HAS_OWN_SWITCHES) check(each <= SWITCHES_MOST, "a query that ends wakes few others", counted);
    snprintf(counted, sizeof counted, "%d notices", n_notices);
    check(n_notices == 0, "none is left to the CPU", counted);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(cpu);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
