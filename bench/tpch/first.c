// first.c - the first query of a new process, beside the same query hot: what starting costs.
//
// Every query is run by processes of its own.  A process opens the database, runs the query once (first) and then again
// and again (hot, the best).  Compiled code is in the cache on disk, and the files of the database are in the system's
// page cache: what is left is the process's start, opening, dictionaries, plans, code that is loaded, pages mapped.
// CPU is the time that all threads of the process took together; on a machine that is shared it says more than a clock.

#define _GNU_SOURCE
#include "first.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PROCESSES_PER_QUERY = 5, N_ANSWERS = 6, MOST_EXTRA_MS = 30 };

static const char START_NAME[] = "WEFT_BENCH_START_MS";

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

// All code of the query goes to the cache on disk.
static int compile_for_cache(Peer *weft, const char *sql)
{
    must(weft, peer_run(weft, "set jit = cc", NULL), "set jit");
    must(weft, peer_run(weft, sql, NULL), sql);
    printf("0\n");
    return 0;
}

static int measure(const Bench *bench, Peer *weft, const char *sql, double start_ms)
{
    double open_wall = now_ms() - start_ms, open_cpu = cpu_ms();
    double first_wall = run_ms(weft, sql), first_cpu = cpu_ms() - open_cpu;
    double hot_wall = INFINITY, hot_cpu = INFINITY;
    for (int r = 0; r < bench->options.repeats; r++) {
        double cpu = cpu_ms();
        hot_wall = fmin(hot_wall, run_ms(weft, sql));
        hot_cpu = fmin(hot_cpu, cpu_ms() - cpu);
    }
    printf("%.6f %.6f %.6f %.6f %.6f %.6f\n", open_wall, first_wall, hot_wall, open_cpu, first_cpu, hot_cpu);
    return 0;
}

int first_as_child(Bench *bench)
{
    const char *start = getenv(START_NAME);
    char *sql = read_whole_file(bench->options.child_query);
    if (!start || !sql)
        die(bench->options.child_query, "cannot be read");
    Peer *weft = open_weft(bench);
    int status = strcmp(bench->options.child, "compile") == 0 ? compile_for_cache(weft, sql)
                                                              : measure(bench, weft, sql, atof(start));
    peer_close(weft);
    free(sql);
    return status;
}

static void ask(const Bench *bench, const char *what, const char *path, double *answers, int n_answers)
{
    char start[32];
    snprintf(start, sizeof start, "%.6f", now_ms());
    ask_child(bench, &(Child){ .what = what, .query_path = path, .name = START_NAME, .value = start }, answers,
              n_answers);
}

static void best_of_processes(const Bench *bench, const char *path, double best[N_ANSWERS])
{
    ask(bench, "compile", path, best, 1);
    for (int i = 0; i < N_ANSWERS; i++)
        best[i] = INFINITY;
    for (int p = 0; p < PROCESSES_PER_QUERY; p++) {
        double answers[N_ANSWERS];
        ask(bench, "measure", path, answers, N_ANSWERS);
        for (int i = 0; i < N_ANSWERS; i++)
            best[i] = fmin(best[i], answers[i]);
    }
}

void part_first(Bench *bench)
{
    double worst = -INFINITY;
    say(bench, "## First query of a process, code in the cache on disk; best of %d processes, ms\n\n",
        PROCESSES_PER_QUERY);
    say(bench, "| query | start and open | first | hot | more than hot | CPU: start and open | first | hot | more |\n"
               "| :---- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (int q = 0; q < bench->n_queries; q++) {
        double b[N_ANSWERS];
        best_of_processes(bench, bench->queries[q].path, b);
        double more = b[0] + b[1] - b[2];
        worst = fmax(worst, more);
        say(bench, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", bench->queries[q].name, b[0],
            b[1], b[2], more, b[3], b[4], b[5], b[3] + b[4] - b[5]);
    }
    say(bench, "\nThe most that a first query takes beyond hot, from the start of its process on: **%.1f ms** "
               "(the target is %d)\n\n", worst, MOST_EXTRA_MS);
}
