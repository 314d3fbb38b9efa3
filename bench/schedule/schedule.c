// schedule.c - what gpu_schedule makes of small kernels, and whether model is ever slower than plain.
//
//     schedule small [--device cuda] [--rows N] [--rounds N] [--queries N]
//     schedule ssb --db DB --folder bench/ssb/queries [--device cuda] [--rounds N]
//
// small  16 different kernels over one table of a million rows, with weave_queries = off, so that they are 16 launches.
//        WEFT_GPU_GATHER makes each round one wave, WEFT_GPU_MEASURE has the device's clock say how long it was, from
//        the first kernel's begin to the last one's end; the wall clock says how long all answers took.  Schedules take
//        turns, round by round, after rounds that are not counted: in these, model solves the set and chooses.
// ssb    The 13 queries, one after the other and at once: plain and model take turns, the best of each counts.
//
// Answers are compared with the CPU's first.  Figures of the fake driver mean nothing.

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weft.h"

enum { N_SMALL = 16, ROUNDS = 100, WARM_ROUNDS = 40, SSB_ROUNDS = 20, SSB_QUERIES = 13, TEXT_BYTES = 1 << 16 };

static const char *const schedules[] = { "sequential", "random", "multiqx", "plain", "model" };
enum { N_SCHEDULES = sizeof schedules / sizeof *schedules, SEQUENTIAL = 0, PLAIN = 3, MODEL = 4 };

static const char *const small_queries[N_SMALL] = {
    "select count(*), sum(a) from t where b < 500",
    "select sum(a), min(c) from t where d between 10 and 60",
    "select d, sum(a) from t group by d order by d",
    "select b, sum(a) from t group by b order by b",
    "select d, count(*), max(c) from t where b > 300 group by d order by d",
    "select b, min(a), max(a) from t group by b order by b",
    "select sum(a * d), sum(b * d) from t",
    "select count(*), avg(c) from t where a % 7 = 3",
    "select e, sum(a), sum(c) from t group by e order by e",
    "select d, sum(a + b) from t where e < 25 group by d order by d",
    "select b, count(*) from t where d < 50 group by b order by b",
    "select min(a - b), max(a + b) from t where e > 5",
    "select sum(c) from t where b between 100 and 800 and d > 20",
    "select e, min(c), max(c) from t where a > 1000 group by e order by e",
    "select count(*) from t where (a + b) % 3 = 0 and d < 90",
    "select d, e, sum(a) from t group by d, e order by d, e",
};

typedef struct Options { const char *device, *db, *folder; int n_rows, n_rounds, n_queries; } Options;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "schedule: %s: %s\n", what, why);
    exit(1);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// ---- queries --------------------------------------------------------------------------------------------------------

static void must(weft_session *session, const char *sql)
{
    weft_result *result = NULL;
    weft_error   error;
    if (weft_query(session, sql, &result, &error)) die(sql, error.message);
    weft_result_free(result);
}

static void set(weft_session *session, const char *name, const char *value)
{
    char sql[100];
    snprintf(sql, sizeof sql, "set %s = '%s'", name, value);
    must(session, sql);
}

static void print_cells(weft_result *result, char *text)
{
    size_t length = 0;
    text[0] = 0;
    for (size_t r = 0; r < weft_result_rows(result); r++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            char cell[200];
            weft_format(result, c, r, cell, sizeof cell);
            if (length < TEXT_BYTES - 300)
                length += (size_t)snprintf(text + length, TEXT_BYTES - length, "%s|", cell);
        }
}

static void answer(weft_session *session, const char *sql, char *text)
{
    weft_result *result = NULL;
    weft_error   error;
    if (weft_query(session, sql, &result, &error)) die(sql, error.message);
    print_cells(result, text);
    weft_result_free(result);
}

static double number(weft_session *session, const char *sql)
{
    static char text[TEXT_BYTES];
    answer(session, sql, text);
    return atof(text);
}

static void check_answers(weft_session *cpu, weft_session *gpu, const char *const *queries, int n)
{
    static char expected[TEXT_BYTES], got[TEXT_BYTES];
    for (int q = 0; q < n; q++) {
        answer(cpu, queries[q], expected);
        answer(gpu, queries[q], got);
        if (strcmp(expected, got) != 0) die(queries[q], "the CPU has another answer");
    }
}

// Milliseconds until all have their answers.
static double run_at_once(weft_session **sessions, const char *const *queries, int n)
{
    weft_task   *tasks[N_SMALL];
    weft_error   error;
    weft_result *result;
    const double start = now_ms();
    for (int i = 0; i < n; i++)
        if (weft_submit(sessions[i], queries[i], &tasks[i], &error)) die(queries[i], error.message);
    for (int i = 0; i < n; i++) {
        if (weft_wait(tasks[i], &result, &error)) die(queries[i], error.message);
        weft_result_free(result);
    }
    return now_ms() - start;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n ? values[n / 2] : 0;
}

// ---- small kernels --------------------------------------------------------------------------------------------------

static void fill(weft_session *session, int n_rows)
{
    char  path[] = "/tmp/weft-schedule.XXXXXX", sql[200];
    FILE *out = fdopen(mkstemp(path), "w");
    if (!out) die(path, "cannot be written");
    for (int i = 0; i < n_rows; i++)
        fprintf(out, "%d,%d,%d,%d,%d\n", (int)(i * 2654435761u % 1000003u), (int)(i * 31ll % 1009), i % 5000, i % 97,
                (int)(i * 7ll % 50));
    fclose(out);
    must(session, "create table t (a integer, b integer, c bigint, d integer, e integer)");
    snprintf(sql, sizeof sql, "copy t from '%s' with (format csv)", path);
    must(session, sql);
    remove(path);
}

typedef struct Samples { int n; double wave_ms[ROUNDS * 10], wall_ms[ROUNDS * 10]; } Samples;

// A round of one schedule.  Its wave is measured where it was one.
static void run_round(weft_session **sessions, weft_session *onlooker, int n, const char *schedule, Samples *samples)
{
    for (int i = 0; i < n; i++) set(sessions[i], "gpu_schedule", schedule);
    const double waves = number(onlooker, "select waves_measured from weft_devices"),
                 us = number(onlooker, "select measured_us from weft_devices"),
                 wall_ms = run_at_once(sessions, small_queries, n);
    // The dispatcher reads its clock when it next looks at the run.
    double n_waves = 0;
    for (int t = 0; t < 200 && n_waves < 1; t++) {
        usleep(1000);
        n_waves = number(onlooker, "select waves_measured from weft_devices") - waves;
    }
    if (!samples || n_waves != 1) return;
    samples->wave_ms[samples->n] = (number(onlooker, "select measured_us from weft_devices") - us) * 1e-3;
    samples->wall_ms[samples->n++] = wall_ms;
}

static void print_small(Samples *samples, int n_kernels, int n_rows)
{
    double wave_ms[N_SCHEDULES], wall_ms[N_SCHEDULES];
    for (int s = 0; s < N_SCHEDULES; s++) {
        wave_ms[s] = median(samples[s].wave_ms, samples[s].n);
        wall_ms[s] = median(samples[s].wall_ms, samples[s].n);
    }
    printf("%d kernels over %d rows, weave_queries = off; medians\n\n", n_kernels, n_rows);
    printf("| gpu_schedule | rounds | wave, device clock (ms) | sequential / it | plain / it | all answers (ms) |\n");
    printf("| --- | --- | --- | --- | --- | --- |\n");
    for (int s = 0; s < N_SCHEDULES; s++)
        printf("| %s | %d | %.4f | %.2f | %.2f | %.3f |\n", schedules[s], samples[s].n, wave_ms[s],
               wave_ms[SEQUENTIAL] / wave_ms[s], wave_ms[PLAIN] / wave_ms[s], wall_ms[s]);
    printf("\ntarget: model at least 1.50 times sequential and 1.10 times plain: %s\n\n",
           wave_ms[SEQUENTIAL] / wave_ms[MODEL] >= 1.5 && wave_ms[PLAIN] / wave_ms[MODEL] >= 1.1 ? "met" : "not met");
}

static void print_counts(weft_session *onlooker)
{
    printf("waves %.0f, planned %.0f; sets solved %.0f, failed %.0f\n\n",
           number(onlooker, "select waves from weft_devices"),
           number(onlooker, "select waves_planned from weft_devices"),
           number(onlooker, "select plans_solved from weft_devices"),
           number(onlooker, "select plans_failed from weft_devices"));
}

static void connect_all(weft_db *db, const Options *options, weft_session **sessions, int n, weft_session **onlooker)
{
    weft_error error;
    if (weft_connect(db, onlooker, &error)) die("connect", error.message);
    set(*onlooker, "device", "cpu");
    for (int i = 0; i < n; i++) {
        if (weft_connect(db, &sessions[i], &error)) die("connect", error.message);
        set(sessions[i], "device", options->device);
        set(sessions[i], "gpu_wait", "on");
    }
}

static void bench_small(const Options *options)
{
    static Samples samples[N_SCHEDULES];
    weft_db       *db;
    weft_session  *sessions[N_SMALL], *onlooker;
    weft_error     error;
    char           gather[20];
    snprintf(gather, sizeof gather, "%d", options->n_queries);
    setenv("WEFT_GPU_GATHER", gather, 1);
    setenv("WEFT_GPU_MEASURE", "on", 1);
    if (weft_open(NULL, &db, &error)) die("open", error.message);
    connect_all(db, options, sessions, options->n_queries, &onlooker);
    fill(onlooker, options->n_rows);
    for (int i = 0; i < options->n_queries; i++) set(sessions[i], "weave_queries", "off");
    set(sessions[0], "sharing", "off");                     // alone, it would wait for the others
    check_answers(onlooker, sessions[0], small_queries, options->n_queries);
    set(sessions[0], "sharing", "on");
    for (int r = 0; r < WARM_ROUNDS; r++) run_round(sessions, onlooker, options->n_queries, schedules[MODEL], NULL);
    for (int r = 0; r < options->n_rounds; r++)
        for (int s = 0; s < N_SCHEDULES; s++)
            run_round(sessions, onlooker, options->n_queries, schedules[s], &samples[s]);
    print_small(samples, options->n_queries, options->n_rows);
    print_counts(onlooker);
    for (int i = 0; i < options->n_queries; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
}

// ---- SSB ------------------------------------------------------------------------------------------------------------

typedef struct QueryFile { char name[64]; char *sql; } QueryFile;

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const QueryFile *)a)->name, ((const QueryFile *)b)->name);
}

static char *read_file(const char *folder, const char *name)
{
    char  path[600], *text = calloc(1, TEXT_BYTES);
    FILE *in = (snprintf(path, sizeof path, "%s/%s", folder, name), fopen(path, "r"));
    if (!in || !text) die(path, "cannot be read");
    text[fread(text, 1, TEXT_BYTES - 1, in)] = 0;
    fclose(in);
    for (size_t end = strlen(text); end && strchr("; \n", text[end - 1]);) text[--end] = 0;
    return text;
}

static int read_queries(const char *folder, QueryFile *files)
{
    DIR *directory = opendir(folder);
    int  n = 0;
    if (!directory) die(folder, "cannot be read");
    for (const struct dirent *entry; (entry = readdir(directory)) && n < SSB_QUERIES;) {
        const char *end = strrchr(entry->d_name, '.');
        if (entry->d_name[0] != 'q' || !end || strcmp(end, ".sql") != 0 || strlen(entry->d_name) > 60) continue;
        snprintf(files[n].name, sizeof files[n].name, "%.60s", entry->d_name);
        files[n++].sql = read_file(folder, entry->d_name);
    }
    closedir(directory);
    qsort(files, (size_t)n, sizeof *files, compare_files);
    return n;
}

typedef struct Best { double ms[2]; } Best;                // of plain, of model

static void keep_best(Best *best, int which, double ms)
{
    if (best->ms[which] <= 0 || ms < best->ms[which]) best->ms[which] = ms;
}

static void print_best(const char *name, const Best *best)
{
    printf("| %s | %.3f | %.3f | %.3f |\n", name, best->ms[0], best->ms[1], best->ms[1] / best->ms[0]);
}

// One way after the other, and in the next round the other way first.  Each runs once before the clock counts: so the
// columns that the device keeps are those that this very query left there.
static void run_both_ways(weft_session **sessions, const char *const *queries, int n, int round, Best *best)
{
    static const char *const ways[] = { "plain", "model" };
    for (int turn = 0; turn < 2; turn++) {
        const int way = (round + turn) % 2;
        for (int i = 0; i < n; i++) set(sessions[i], "gpu_schedule", ways[way]);
        run_at_once(sessions, queries, n);
        keep_best(best, way, run_at_once(sessions, queries, n));
    }
}

static void bench_ssb(const Options *options)
{
    weft_db       *db;
    weft_session  *sessions[N_SMALL], *onlooker;
    weft_error     error;
    QueryFile      files[SSB_QUERIES];
    const char    *queries[SSB_QUERIES] = { 0 };
    Best           alone[SSB_QUERIES] = { 0 }, at_once = { 0 };
    double         sum = 0;
    const int      n = read_queries(options->folder, files);
    if (!n) die(options->folder, "has no q*.sql");
    if (weft_open(options->db, &db, &error)) die("open", error.message);
    for (int q = 0; q < n; q++) queries[q] = files[q].sql;
    connect_all(db, options, sessions, n, &onlooker);
    check_answers(onlooker, sessions[0], queries, n);
    for (int r = 0; r < options->n_rounds; r++) {
        for (int q = 0; q < n; q++) run_both_ways(sessions, &queries[q], 1, r, &alone[q]);
        run_both_ways(sessions, queries, n, r, &at_once);
    }
    printf("SSB, best of %d\n\n| query | plain (ms) | model (ms) | model / plain |\n| --- | --- | --- | --- |\n",
           options->n_rounds);
    for (int q = 0; q < n; q++) {
        print_best(files[q].name, &alone[q]);
        sum += log(alone[q].ms[1] / alone[q].ms[0]);
    }
    print_best("all at once", &at_once);
    const double mean = exp(sum / n);
    printf("\ngeometric mean of model / plain: %.3f (target: at most 1.02): %s; at once %.3f\n\n", mean,
           mean <= 1.02 ? "met" : "not met", at_once.ms[1] / at_once.ms[0]);
    print_counts(onlooker);
    for (int i = 0; i < n; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    for (int q = 0; q < n; q++) free(files[q].sql);
}

// ---- main -----------------------------------------------------------------------------------------------------------

static int number_option(const char *text, int most)
{
    const long n = strtol(text, NULL, 10);
    return n < 2 ? 2 : n > most ? most : (int)n;
}

static int usage(void)
{
    fputs("usage: schedule small [--device cuda] [--rows N] [--rounds N] [--queries N]\n"
          "       schedule ssb --db DB --folder DIR [--device cuda] [--rounds N]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    Options options = { .device = "cuda", .n_rows = 1000000, .n_queries = N_SMALL };
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--device") == 0) options.device = argv[i + 1];
        else if (strcmp(argv[i], "--db") == 0) options.db = argv[i + 1];
        else if (strcmp(argv[i], "--folder") == 0) options.folder = argv[i + 1];
        else if (strcmp(argv[i], "--rows") == 0) options.n_rows = number_option(argv[i + 1], 100000000);
        else if (strcmp(argv[i], "--rounds") == 0) options.n_rounds = number_option(argv[i + 1], ROUNDS * 10);
        else if (strcmp(argv[i], "--queries") == 0) options.n_queries = number_option(argv[i + 1], N_SMALL);
        else return usage();
    }
    if (argc < 2 || argc % 2) return usage();
    const int is_ssb = strcmp(argv[1], "ssb") == 0;
    if (!options.n_rounds) options.n_rounds = is_ssb ? SSB_ROUNDS : ROUNDS;
    if (is_ssb && options.db && options.folder) bench_ssb(&options);
    else if (strcmp(argv[1], "small") == 0) bench_small(&options);
    else return usage();
    return 0;
}
