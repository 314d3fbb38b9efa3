// left.c - what a run of a crowd takes, and what it leaves to the next one.
//
// Queries of a shape that is new: few of them ride by themselves while the kernel for all of them is compiled; the
// others are left to the next run, and ride together.  The table is so large that queries gather behind a scan of it.
// Some are cancelled while they wait, and some have a limit of time.  Then queries over so many chunks that arguments
// for all of them would fill several runs: in a body they have none, so one run serves all.
//
// Run by tests/check-gpu with the fake driver, which counts launches.  One launch takes long, so that all others meet
// behind it.  The log tells what the run behind it had.  How many runs there are until the kernel for all is there
// depends on how busy the machine is.

#include <dlfcn.h>
#include <stdbool.h>

#include "help.h"

enum {
    N_ROWS = 2200000,                  // of 34 bytes, more than 64 MiB
    N_PARTS = 1000,
    N_SESSIONS = 260,
    N_CANCELLED = 8,                   // the last ones, as the next
    N_TIMED = 8,
    LONG_MS = 60000,                   // of the first launch, until those with a limit of time are done
    MEET_MS = 400,                     // each round twice as long as the one before, up to MEET_MOST_MS: on a slow
    MEET_MOST_MS = 8000,               // machine queries take longer to come
    TIMEOUT_MS = 1000,
    FIRST_STOPPED = N_SESSIONS - N_CANCELLED - N_TIMED,
    OWN_LEAST = 60,                    // launches of the first run,
    UNITS_MOST = 72,                   // and of its units: 64 alone, and what is for several
    CROWD_LEAST = 100,                 // riders that meet in it
    CHECKED_STEP = 12,
    CHUNK_ROWS = 1000,
    N_CHUNKS = 800,                    // for each a query has more than 500 bytes of arguments
    ROUNDS_MOST = 40,
    RUN_MOST = 3,                      // launches of the first query and of one run with one body; more runs have more
    COMPILE_MS = 20
};

static void (*launch_takes)(int ms), (*compile_takes)(int ms), (*go_on)(void);
static int (*count)(const char *call), (*has_come)(void);

static char log_file[] = "/tmp/weft-left.XXXXXX";

static const char FIRST_OF_ALL[] = "select max(a + b), max(c + d) from f";

static void fill(weft_session *session)
{
    char sql[QUERY_BYTES];
    must(session, "create table f (p integer, a bigint, b bigint, c bigint, d bigint)");
    must(session, "create table part (id integer, brand text, size integer)");
    snprintf(sql, sizeof sql,
             "insert into f select g %% %d, g %% 2 * 1099511627776, g %% 3 * 1099511627776, "
             "g %% 5 * 1099511627776, g::bigint * 1000003 from generate_series(1, %d) s(g)",
             N_PARTS, N_ROWS);
    must(session, sql);
    snprintf(sql, sizeof sql,
             "insert into part select g, 'brand' || g %% 40, g %% 300 from generate_series(0, %d) s(g)", N_PARTS - 1);
    must(session, sql);
    snprintf(sql, sizeof sql, "set chunk_rows = %d", CHUNK_ROWS);
    must(session, sql);
    must(session, "create table g (p integer, a bigint, b bigint, c bigint, d bigint)");
    snprintf(sql, sizeof sql, "insert into g select * from f limit %d", CHUNK_ROWS * N_CHUNKS);
    must(session, sql);
}

static void make_query(const char *table, int n, char *sql)
{
    snprintf(sql, QUERY_BYTES,
             "select brand, sum(a), sum(b), sum(c), max(d), count(*) from %s, part where p = part.id and size between "
             "%d and %d group by brand order by brand",
             table, n, n + 20);
}

// Its answer, or its SQLSTATE.
static char *get(weft_task *task)
{
    weft_result *result = NULL;
    weft_error   error;
    char        *got = calloc(1, ANSWER_BYTES);
    if (weft_wait(task, &result, &error)) snprintf(got, ANSWER_BYTES, "%s", error.sqlstate);
    else print_result(result, got);
    return got;
}

// One that is cancelled may have been quicker.
static bool is_stopped(int n, const char *got) { return n >= FIRST_STOPPED && strcmp(got, "57014") == 0; }

// Whether it was stopped.
static bool check_one(weft_session *onlooker, int n, const char *sql, weft_task *task)
{
    char      *got = get(task);
    const bool is_asked = n % CHECKED_STEP == 0 || n >= FIRST_STOPPED;
    char      *expected = is_asked ? answer(onlooker, sql) : strdup(got);
    const bool was_stopped = is_stopped(n, got);
    check(was_stopped || (strcmp(got, expected) == 0 && strlen(got) > 5), sql, got);
    free(expected);
    free(got);
    return was_stopped;
}

// Until so many kernels were launched.
static void wait_for_launches(int n)
{
    for (int ms = 0; ms < LONG_MS && count("cuLaunchKernel") < n; ms++) usleep(1000);
}

static void wait_for_timeouts(weft_task *const *tasks)
{
    for (int i = FIRST_STOPPED; i < FIRST_STOPPED + N_TIMED; i++)
        for (int ms = 0; ms < LONG_MS / 2 && !weft_is_done(tasks[i]); ms++) usleep(1000);
}

// Of the first run of a crowd; false: there was none.
static bool find_run(int *n_riders, int *n_units)
{
    char  line[400];
    bool  found = false;
    FILE *file = fopen(log_file, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *run = strstr(line, ": run "), *units = strstr(line, "; ");
        found = run && units && sscanf(run, ": run %*u of %d riders", n_riders) == 1 && *n_riders >= CROWD_LEAST &&
                sscanf(units, "; %d units chosen", n_units) == 1;
    }
    if (file) fclose(file);
    return found;
}

static void run_crowd(weft_session *onlooker, weft_session *first, weft_session **sessions)
{
    static char sql[N_SESSIONS][QUERY_BYTES];
    weft_task  *tasks[N_SESSIONS];
    char        got[160];
    int         n_cancelled = 0, n_timed = 0, n_riders = 0, n_units = 0;
    const int   before = count("cuLaunchKernel");
    for (int i = 0; i < N_SESSIONS; i++) make_query("f", i, sql[i]);
    launch_takes(LONG_MS), compile_takes(COMPILE_MS);
    weft_task *blocker = begin(first, FIRST_OF_ALL);
    wait_for_launch(has_come, blocker);
    submit_all(sessions, N_SESSIONS, sql, tasks);
    wait_for_timeouts(tasks);
    go_on();
    wait_for_launches(before + OWN_LEAST);
    for (int i = N_SESSIONS - N_CANCELLED; i < N_SESSIONS; i++) weft_cancel(sessions[i]);
    for (int i = N_SESSIONS - 1; i >= 0; i--)
        if (check_one(onlooker, i, sql[i], tasks[i])) *(i < N_SESSIONS - N_CANCELLED ? &n_timed : &n_cancelled) += 1;
    free(get(blocker));
    compile_takes(0);
    snprintf(got, sizeof got, "%d launches for %d queries, %d cancelled, %d out of time",
             count("cuLaunchKernel") - before, N_SESSIONS, n_cancelled, n_timed);
    puts(got);
    check(n_cancelled > 0 && n_timed == N_TIMED, "those that wait are stopped", got);
    check(n_notices == 0, "a query that the device did not run", last_notice);
    check(find_run(&n_riders, &n_units), "many queries meet", "never");
    snprintf(got, sizeof got, "%d units for %d queries in the first run", n_units, n_riders);
    puts(got);
    check(n_units <= UNITS_MOST, "few ride by themselves", got);
}

// Over many chunks; returns how many kernels were launched.
static int meet(weft_session *onlooker, weft_session *first, weft_session **sessions, int meet_ms)
{
    static char sql[N_SESSIONS][QUERY_BYTES];
    weft_task  *tasks[N_SESSIONS];
    const int   before = count("cuLaunchKernel");
    for (int i = 0; i < FIRST_STOPPED; i++) make_query("g", i, sql[i]);
    launch_takes(meet_ms);
    weft_task *blocker = begin(first, "select max(a + b), max(c + d) from g");
    wait_for_launch(has_come, blocker);
    submit_all(sessions, FIRST_STOPPED, sql, tasks);
    for (int i = 0; i < FIRST_STOPPED; i++) check_one(onlooker, i, sql[i], tasks[i]);
    free(get(blocker));
    return count("cuLaunchKernel") - before;
}

// The first rounds compile, and in some not all of them meet.
static void check_chunks(weft_session *onlooker, weft_session *first, weft_session **sessions)
{
    char got[100];
    int  meet_ms = MEET_MS, least = meet(onlooker, first, sessions, meet_ms);
    for (int round = 1; round < ROUNDS_MOST && least > RUN_MOST; round++) {
        if (meet_ms < MEET_MOST_MS) meet_ms *= 2;
        const int n = meet(onlooker, first, sessions, meet_ms);
        if (n < least) least = n;
    }
    snprintf(got, sizeof got, "%d launches for %d queries over %d chunks", least, FIRST_STOPPED, N_CHUNKS);
    puts(got);
    check(least <= RUN_MOST, "one run serves all", got);
}

int main(void)
{
    weft_db      *db;
    weft_error    error;
    weft_session *sessions[N_SESSIONS];
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    *(void **)&compile_takes = fake ? dlsym(fake, "fake_nvrtc_takes") : NULL;
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_count") : NULL;
    *(void **)&go_on = fake ? dlsym(fake, "fake_cuda_go_on") : NULL;
    *(void **)&has_come = fake ? dlsym(fake, "fake_cuda_has_come") : NULL;
    if (!launch_takes || !compile_takes || !count || !go_on || !has_come)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    const int file = mkstemp(log_file);
    setenv("WEFT_LOG", "debug", 1);
    if (file < 0 || close(file) || !freopen(log_file, "w", stderr)) return puts("failed: no log"), 1;
    if (weft_open(NULL, &db, &error)) return printf("failed: %s\n", error.message), 1;
    weft_session *onlooker = connect_to(db, "cpu"), *first = connect_to(db, "cuda");
    fill(onlooker);
    for (int i = 0; i < N_SESSIONS; i++) {
        char timeout[60];
        const bool is_timed = i >= FIRST_STOPPED && i < N_SESSIONS - N_CANCELLED;
        sessions[i] = connect_to(db, "cuda");
        snprintf(timeout, sizeof timeout, "set statement_timeout = %d", is_timed ? TIMEOUT_MS : 0);
        must(sessions[i], timeout);
    }
    char sql[QUERY_BYTES];
    make_query("f", 0, sql);
    // Their own kernels are made, and columns are there.
    free(answer(first, sql));
    free(answer(first, FIRST_OF_ALL));
    run_crowd(onlooker, first, sessions);
    check_chunks(onlooker, first, sessions);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(first);
    weft_disconnect(onlooker);
    weft_close(db);
    unlink(log_file);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
