// crowd.c - queries that are asked at once, each by a session of its own: how long they take, whether their answers are
// right, how they were woven.

#define _GNU_SOURCE
#include "gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Peer *connect_on(const GpuBench *gpu, Peer *weft, const char *device)
{
    char error[PEER_ERROR_BYTES] = "";
    Peer *peer = peer_connect(weft, error);
    if (!peer)
        die("weft", error);
    must(peer, peer_runf(peer, "set threads = %d", gpu->bench.options.threads), "set threads");
    must(peer, peer_runf(peer, "set device = '%s'", device), "set device");
    return peer;
}

void crowd_join(GpuBench *gpu, Crowd *crowd, Peer *weft, const char *sql)
{
    crowd->peers[crowd->n] = connect_on(gpu, weft, gpu->device);
    crowd->queries[crowd->n++] = strdup(sql);
}

void crowd_free(Crowd *crowd)
{
    for (int i = 0; i < crowd->n; i++) {
        peer_close(crowd->peers[i]);
        free(crowd->queries[i]);
    }
}

static void crowd_ask(const Crowd *crowd, weft_result **results)
{
    weft_task *tasks[MOST_AT_ONCE];
    weft_error error;
    for (int i = 0; i < crowd->n; i++)
        if (weft_submit(peer_weft_session(crowd->peers[i]), crowd->queries[i], &tasks[i], &error))
            die(crowd->queries[i], error.message);
    for (int i = 0; i < crowd->n; i++)
        if (weft_wait(tasks[i], &results[i], &error))
            die(crowd->queries[i], error.message);
}

static bool is_same_answer(const weft_result *a, const weft_result *b)
{
    if (weft_result_rows(a) != weft_result_rows(b) || weft_result_columns(a) != weft_result_columns(b))
        return false;
    for (size_t row = 0; row < weft_result_rows(a); row++)
        for (int column = 0; column < weft_result_columns(a); column++) {
            char x[256], y[256];
            weft_format(a, column, row, x, sizeof x);
            weft_format(b, column, row, y, sizeof y);
            if (strcmp(x, y) != 0)
                return false;
        }
    return true;
}

// What queries are told, alone and when they meet, is what the CPU tells each alone.
static void check_at_once(GpuBench *gpu, const Crowd *crowd)
{
    weft_result *results[MOST_AT_ONCE], *alone, *expected;
    weft_error error;
    Peer *cpu = connect_on(gpu, gpu->weft ? gpu->weft : crowd->peers[0], "cpu");
    crowd_ask(crowd, results);
    for (int i = 0; i < crowd->n; i++) {
        if (weft_query(peer_weft_session(cpu), crowd->queries[i], &expected, &error) ||
            weft_query(peer_weft_session(crowd->peers[i]), crowd->queries[i], &alone, &error))
            die(crowd->queries[i], error.message);
        if (!is_same_answer(results[i], expected))
            die(crowd->queries[i], "another answer among others than alone on the CPU");
        if (!is_same_answer(alone, expected))
            die(crowd->queries[i], "another answer than on the CPU");
        weft_result_free(alone);
        weft_result_free(expected);
        weft_result_free(results[i]);
    }
    peer_close(cpu);
}

// Submits all, waits for all.  Freeing the answers is not counted.
double run_at_once(const Crowd *crowd)
{
    weft_result *results[MOST_AT_ONCE];
    double start = now_ms();
    crowd_ask(crowd, results);
    double elapsed = now_ms() - start;
    for (int i = 0; i < crowd->n; i++)
        weft_result_free(results[i]);
    return elapsed;
}

// What has happened since the database was opened; kernels are 0 on the CPU.
static Counts counts_now(Peer *weft)
{
    Rows devices = { 0 }, scans = { 0 };
    double found[6] = { 0 };
    if (!peer_run(weft, "select sum(kernels) from weft_devices", &devices) ||
        !peer_run(
            weft,
            "select sum(rides), sum(rides_woven), sum(rides_cubed), sum(rides_fused), sum(rides_sieved) from "
            "weft_scans where table_name = 'lineorder'",
            &scans))
        die("what was counted", weft->error);
    for (int i = 0; i < COUNT(found); i++) {
        const char *cell = i ? rows_cell(&scans, 0, i - 1) : rows_cell(&devices, 0, 0);
        found[i] = cell ? atof(cell) : 0;
    }
    rows_free(&devices);
    rows_free(&scans);
    return (Counts){ found[0], found[1], found[2], found[3], found[4], found[5] };
}

static Counts counts_per_round(const Counts *before, const Counts *after, int n)
{
    return (Counts){ (after->kernels - before->kernels) / n, (after->scans - before->scans) / n,
                     (after->woven - before->woven) / n,     (after->one_body - before->one_body) / n,
                     (after->fused - before->fused) / n,     (after->sieved - before->sieved) / n };
}

// The first rounds compile what queries that meet need; the compilers work in the background.
AtOnce best_at_once(GpuBench *gpu, const Crowd *crowd, Peer *weft)
{
    enum { WARM_ROUNDS = 40 };
    const int n_rounds = ONCE_ROUNDS * gpu->bench.options.repeats;
    AtOnce best = { .ms = INFINITY };
    Counts before = { 0 };
    for (int r = -WARM_ROUNDS; r < n_rounds; r++) {
        if (r == 0)
            before = counts_now(weft);
        double ms = run_at_once(crowd);
        if (r < 0)
            usleep(50000);
        else
            best.ms = fmin(best.ms, ms);
    }
    const Counts after = counts_now(weft);
    best.counts = counts_per_round(&before, &after, n_rounds);
    check_at_once(gpu, crowd);                                 // with all code there
    return best;
}

void say_woven(GpuBench *gpu, const Counts *counts)
{
    say(&gpu->bench,
        "- scans of lineorder in a round: %.4g; one body %.4g, fused %.4g, sieved %.4g, by themselves %.4g\n",
        counts->scans, counts->one_body, counts->fused, counts->sieved, counts->scans - counts->woven);
}

// Launches of one round, and the share of its time that these would take one after the other, with nothing else
// meanwhile.
void say_launches(GpuBench *gpu, double kernels, double ms)
{
    if (gpu->launch_us > 0 && kernels > 0)
        say(&gpu->bench, "- launches: %.0f, one after the other %.2f %% of that time\n", kernels,
            100 * kernels * gpu->launch_us / 1e3 / ms);
}
