// warm.c - from an empty cache of code to all queries on the device.
//
// A new process runs the queries in turn, again and again, and nothing waits for the compiler (gpu_wait = off), until a
// whole round ran on the device.  Another process does a few rounds on the CPU alone, its cache empty as well.

#define _GNU_SOURCE
#include "gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 200, CPU_ROUNDS = 3 };
enum { SECONDS, ROUNDS, ELSEWHERE, MOST_MS, N_ANSWERS = MOST_MS + MAX_QUERIES };   // what a process says

// Gives how many of the queries had a kernel on the CPU.
static int run_round(GpuBench *gpu, Peer *weft, double *most_ms)
{
    int n_elsewhere = 0;
    for (int q = 0; q < gpu->bench.n_queries; q++) {
        Figures      figures;
        const double start = now_ms();
        explain_analyze(weft, gpu->bench.queries[q].sql, &figures);
        most_ms[q] = fmax(most_ms[q], now_ms() - start);
        n_elsewhere += figures.n_on_cpu > 0;
    }
    return n_elsewhere;
}

static bool is_over(const GpuBench *gpu, int n_rounds, int n_elsewhere)
{
    if (!strcmp(gpu->device, "cpu"))
        return n_rounds == CPU_ROUNDS;
    return !n_elsewhere || n_rounds == MOST_ROUNDS;
}

int child_warm(GpuBench *gpu)
{
    double most_ms[MAX_QUERIES] = { 0 };
    int    n_rounds = 0, n_elsewhere;
    load_queries(&gpu->bench);
    Peer *weft = open_on_device(gpu);
    touch_columns(weft);
    must(weft, peer_run(weft, "set gpu_wait = off", NULL), "set gpu_wait");
    const double start = now_ms();
    do
        n_elsewhere = run_round(gpu, weft, most_ms);
    while (!is_over(gpu, ++n_rounds, n_elsewhere));
    printf("%.6f %d %d", (now_ms() - start) / 1e3, n_rounds, n_elsewhere);
    for (int q = 0; q < MAX_QUERIES; q++)
        printf(" %.6f", most_ms[q]);
    printf("\n");
    peer_close(weft);
    return 0;
}

static void ask(GpuBench *gpu, const char *device, double *answers)
{
    char cache[600];
    make_empty_cache(&gpu->bench, cache, sizeof cache);
    ask_child(&gpu->bench, &(Child){ "warm", "-", "WEFT_CACHE", cache, device }, answers, N_ANSWERS);
    remove_tree(cache);
}

void part_warm(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    double ours[N_ANSWERS], alone[N_ANSWERS];
    int    n_slower = 0;
    ask(gpu, gpu->device, ours);
    ask(gpu, "cpu", alone);
    say(bench, "## From an empty cache of code to all queries on the device\n\n");
    say(bench, "The slowest run of each query, by EXPLAIN ANALYZE, until all ran there; and of %d on the CPU.\n\n",
        CPU_ROUNDS);
    say(bench, "| query | meanwhile, ms | on the CPU alone, ms |\n| :-- | --: | --: |\n");
    for (int q = 0; q < bench->n_queries; q++) {
        say(bench, "| %s | %.2f | %.2f |\n", bench->queries[q].name, ours[MOST_MS + q], alone[MOST_MS + q]);
        n_slower += ours[MOST_MS + q] > alone[MOST_MS + q];
    }
    say(bench, "\n- rounds: %.0f; queries that had a kernel on the CPU in the last one: %.0f\n", ours[ROUNDS],
        ours[ELSEWHERE]);
    verdict(gpu, "until all ran on the device", ours[SECONDS], "s", true, 1.5);
    say(bench, "- slower than on the CPU alone: %d of %d\n\n", n_slower, bench->n_queries);
}
