// scheduled.c - queries that meet on a GPU without being woven together: every gpu_schedule gives the answers of the
// CPU, whatever fails; model solves a set of kernels once and finds it again.
//
// Run by tests/check-gpu with the fake driver, with pools that the table fits and does not; with --unsolved (and
// WEFT_FAULT=solve:1+) no set can be solved, and all waves are plain.  Without WEFT_LIBCUDA it runs on a GPU.
// WEFT_GPU_GATHER=12 makes waves of all queries, so that a set comes again, and WEFT_GPU_PLAN=always uses plans
// whatever is quicker, which the fake driver cannot tell: with both, a solution must be used again.  --few: fewer
// rounds, for tests/check-stress-gpu.

#include <dlfcn.h>
#include <stdbool.h>

#include "help.h"

enum { N_ROWS = 20000, N_SESSIONS = 12, N_ROUNDS = 5, MODEL_ROUNDS = 20, ROUNDS_FEW = 2, MODEL_ROUNDS_FEW = 10,
       REUSE_ROUNDS = 100 };

static int n_rounds = N_ROUNDS, n_model_rounds = MODEL_ROUNDS;

static const char *const schedules[] = { "plain", "sequential", "random", "multiqx", "model" };

// Sums, groups in an array and in a hash table, joins, rows: kernels of every kind of sink.
static char queries[N_SESSIONS][QUERY_BYTES] = {
    "select count(*), sum(a), min(b), max(c) from t where b < 700",
    "select d, count(*), sum(a) from t group by d order by d",
    "select b, max(a) from t where d > 10 group by b order by b",
    "select a::double precision, count(*) from t where b < 5 group by 1 order by 1",
    "select a, b from t where b = 17 order by a",
    "select k.size, sum(t.a) from t, k where t.d = k.id group by k.size order by 1",
    "select count(c), sum(c), avg(c) from t where c between 100 and 4000",
    "select d, sum(c) from t where a % 3 = 0 and b > 500 group by d order by d",
    "select min(a + b), max(a - b) from t where d between 5 and 90",
    "select b, d, count(*) from t where b < 20 group by b, d order by b, d",
    "select count(*) from t, k where t.d = k.id and k.size > 3 and t.b < 300",
    "select sum(a * 2), sum(b * 3) from t where c is null",
};

static void (*fail_at)(const char *call, int nth, int result);         // of the fake driver

static long long counted(weft_session *onlooker, const char *column)
{
    char sql[100];
    snprintf(sql, sizeof sql, "select sum(%s) from weft_devices", column);
    char           *text = answer(onlooker, sql);
    const long long n = atoll(text);
    free(text);
    return n;
}

static void run_round(weft_session **sessions, weft_session *onlooker)
{
    weft_task *tasks[N_SESSIONS];
    submit_all(sessions, N_SESSIONS, queries, tasks);
    check_all(onlooker, N_SESSIONS, queries, tasks);
}

static void set_all(weft_session **sessions, const char *schedule)
{
    char sql[60];
    snprintf(sql, sizeof sql, "set gpu_schedule = %s", schedule);
    for (int i = 0; i < N_SESSIONS; i++) must(sessions[i], sql);
}

static void run_schedules(weft_session **sessions, weft_session *onlooker)
{
    for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
        set_all(sessions, schedules[s]);
        for (int r = 0; r < n_rounds; r++) run_round(sessions, onlooker);
    }
    // Each session has its own.
    char sql[60];
    for (int i = 0; i < N_SESSIONS; i++) {
        snprintf(sql, sizeof sql, "set gpu_schedule = %s", schedules[i % 5]);
        must(sessions[i], sql);
    }
    for (int r = 0; r < n_rounds; r++) run_round(sessions, onlooker);
}

// All of them are there before a wave begins, so the same set comes again and again; where the machine is busy, not
// each time.
static void check_reuse(weft_session **sessions, weft_session *onlooker)
{
    const long long planned = counted(onlooker, "waves_planned"), solved = counted(onlooker, "plans_solved");
    bool            is_reused = false;
    for (int r = 0; r < REUSE_ROUNDS && !is_reused; r++) {
        run_round(sessions, onlooker);
        is_reused = counted(onlooker, "waves_planned") - planned > counted(onlooker, "plans_solved") - solved + 3;
    }
    check(is_reused, "a solution is used again", "it was not");
}

static void run_model(weft_session **sessions, weft_session *onlooker, bool is_unsolved)
{
    const long long waves = counted(onlooker, "waves");
    set_all(sessions, "model");
    for (int r = 0; r < n_model_rounds; r++) run_round(sessions, onlooker);
    const long long n_waves = counted(onlooker, "waves") - waves, solved = counted(onlooker, "plans_solved"),
                    n_planned = counted(onlooker, "waves_planned"), failed = counted(onlooker, "plans_failed");
    if (getenv("WEFT_GPU_GATHER") && getenv("WEFT_GPU_PLAN")) check_reuse(sessions, onlooker);
    printf("model: %lld waves, %lld planned; %lld sets solved, %lld not\n", n_waves, n_planned, solved, failed);
    if (is_unsolved) {
        check(n_planned == 0 && solved == 0, "nothing is planned", "something was");
        check(failed > 0, "solutions fail", "none did");
    } else {
        check(n_planned > 0, "waves are planned", "none was");
        check(failed == 0, "no solution fails", "one did");
        check(counted(onlooker, "waves_measured") > 0, "waves are measured", "none was");
    }
}

// What only planned waves call, or others beside them.
static void run_faults(weft_session **sessions, weft_session *onlooker)
{
    static const struct { const char *call; int nth; } faults[] = {
        { "cuEventCreate", 1 },  { "cuEventRecord", 3 },      { "cuEventRecord", 20 }, { "cuEventElapsedTime", 1 },
        { "cuLaunchKernel", 1 }, { "cuLaunchKernel", 5 },     { "cuStreamWaitEvent", 2 },
    };
    if (!fail_at) return;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
            set_all(sessions, schedules[s]);
            fail_at(faults[f].call, faults[f].nth, 1);
            run_round(sessions, onlooker);
            fail_at("", 0, 0);
        }
}

static void fill(weft_session *onlooker)
{
    fill_table(onlooker, "t", N_ROWS);
    must(onlooker, "create table k (id integer, size integer)");
    for (int i = 0; i < 97; i += 2) {
        char sql[80];
        snprintf(sql, sizeof sql, "insert into k values (%d, %d)", i, i % 11);
        must(onlooker, sql);
    }
}

int main(int argc, char **argv)
{
    setenv("WEFT_KEEP_TABLES", "off", 1);                   // small kernels, again and again, are what is planned
    weft_db      *db;
    weft_session *sessions[N_SESSIONS], *onlooker;
    weft_error    error;
    const char   *driver = getenv("WEFT_LIBCUDA");
    void         *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    const bool    is_unsolved = argc > 1 && strcmp(argv[1], "--unsolved") == 0,
                  is_few = argc > 1 && strcmp(argv[1], "--few") == 0;
    if (is_few) n_rounds = ROUNDS_FEW, n_model_rounds = MODEL_ROUNDS_FEW;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (driver && !fail_at) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    fill(onlooker);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        if (!getenv("WEFT_DEVICE")) must(sessions[i], "set device = cuda");
        must(sessions[i], "set gpu_wait = on");
        must(sessions[i], "set weave_queries = off");
    }
    if (!is_unsolved) run_schedules(sessions, onlooker);
    run_model(sessions, onlooker, is_unsolved);
    if (!is_unsolved && !is_few) run_faults(sessions, onlooker);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
