// host.c - what the host does for a query that is not the pushing of rows: the thirteen shapes of SSB with random
// constants, each shape counted on its own.
//
//     valgrind --tool=callgrind --instr-atstart=no build/bench/host DATABASE [QUERIES [SETTING ...]]
//
// Runs QUERIES (20 unless said) drawn queries of each shape, all texts different, after as many of the same shapes that
// make the code warm.  Under callgrind each shape is a part of the output, in order; without it, the time and the CPU
// time of a query are printed.  With few rows (SSB at scale 0.01) what is left is the host's share.  bench/host/run.sh
// makes the database, runs this and prints the table.

#include "../concurrency/concurrency.h"

#include <stdlib.h>
#include <time.h>
#include <weft.h>

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAS_CALLGRIND 1
#endif
#endif

#ifndef HAS_CALLGRIND
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

enum { QUERIES_UNLESS_SAID = 20 };

static void demand(weft_status status, const weft_error *error, const char *sql)
{
    if (!status) return;
    fprintf(stderr, "host: %s\n%s\n", error->message, sql);
    exit(1);
}

static void ask(weft_session *session, const char *sql)
{
    weft_error   error;
    weft_result *result;
    demand(weft_query(session, sql, &result, &error), &error, sql);
    weft_result_free(result);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void ask_all(weft_session *session, char *const *queries, int n)
{
    for (int i = 0; i < n; i++) ask(session, queries[i]);
}

// Microseconds of a query: those that pass, and those of all threads' CPUs.
static void measure(weft_session *session, int shape, int n, double *passed_us, double *cpu_us)
{
    char       **queries = draw_queries(shape, n, 4242 + (unsigned)shape);
    char         name[16];
    const double start = seconds(CLOCK_MONOTONIC), start_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    CALLGRIND_START_INSTRUMENTATION;
    ask_all(session, queries, n);
    CALLGRIND_STOP_INSTRUMENTATION;
    snprintf(name, sizeof name, "shape %d", shape + 1);
    CALLGRIND_DUMP_STATS_AT(name);
    *passed_us = 1e6 * (seconds(CLOCK_MONOTONIC) - start) / n;
    *cpu_us = 1e6 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / n;
    free_queries(queries, n);
}

int main(int argc, char **argv)
{
    static const char *const names[N_SHAPES] = { "Q1.1", "Q1.2", "Q1.3", "Q2.1", "Q2.2", "Q2.3", "Q3.1",
                                                 "Q3.2", "Q3.3", "Q3.4", "Q4.1", "Q4.2", "Q4.3" };
    const int     n = argc > 2 ? atoi(argv[2]) : QUERIES_UNLESS_SAID;
    weft_error    error;
    weft_db      *db;
    weft_session *session;
    if (argc < 2 || n < 1) return fprintf(stderr, "usage: host DATABASE [QUERIES [SETTING ...]]\n"), 2;
    demand(weft_open(argv[1], &db, &error), &error, argv[1]);
    demand(weft_connect(db, &session, &error), &error, "connect");
    for (int i = 3; i < argc; i++) ask(session, argv[i]);
    for (int round = 0; round < 2; round++)
        for (int shape = 0; shape < N_SHAPES; shape++) {
            char **queries = draw_queries(shape, n, 17 + (unsigned)shape);
            ask_all(session, queries, n);
            free_queries(queries, n);
        }
    double all_passed_us = 0, all_cpu_us = 0;
    for (int shape = 0; shape < N_SHAPES; shape++) {
        double passed_us, cpu_us;
        measure(session, shape, n, &passed_us, &cpu_us);
        all_passed_us += passed_us / N_SHAPES, all_cpu_us += cpu_us / N_SHAPES;
        printf("%s  %8.1f us  %8.1f us of CPU\n", names[shape], passed_us, cpu_us);
    }
    printf("mean  %8.1f us  %8.1f us of CPU\n", all_passed_us, all_cpu_us);
    weft_disconnect(session);
    weft_close(db);
    return 0;
}
