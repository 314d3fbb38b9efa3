// fair.c - how long short, cancelled and important queries take beside 1,000 long ones: the part fair.
//
// The clients run the SSB's longest shapes, with constants of their own, in a closed loop.  Beside them others are
// looked at, each a kind of query, so that each has its latencies:
//
//     short       a look at a dimension table, after a pause
//     one chunk   a query on lineorder that statistics confine to a chunk, after a pause
//     important   a long one with SET priority = 10, against the same with priority 0
//     cancelled   a long one that is cancelled after a while: from the cancel to its end
//     timed out   a long one with a statement_timeout of 50 ms: from the timeout to its end
//
// Each kind is measured first with no other query running.

#define _GNU_SOURCE
#include "concurrency.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LONG = 1000, N_LONG_QUICK = 100, N_TEXTS = 8192, TIMEOUT_MS = 50 };

typedef enum LookKind {
    LOOK_SHORT, LOOK_CHUNK, LOOK_PLAIN, LOOK_PRIORITY, LOOK_CANCEL, LOOK_TIMEOUT, N_LOOKS
} LookKind;

static const char *const NAMES[N_LOOKS] = {
    "short: a count over supplier",
    "one chunk of lineorder",
    "long, as the others",
    "long, with priority = 10",
    "cancelled: from the cancel to the end",
    "timed out: from the timeout to the end",
};

static const char *const SETTINGS[N_LOOKS] = {
    [LOOK_PRIORITY] = "set priority = 10",
    [LOOK_TIMEOUT] = "set statement_timeout = 50",
};

typedef struct Fair {
    char        **texts;               // of long queries
    _Atomic unsigned next;
    int           most_orderkey;
    _Atomic bool  is_over;
} Fair;

// A thread that measures one kind again and again.
typedef struct Probe {
    Fair     *fair;
    Peer     *peer;
    LookKind kind;
    uint64_t  random;
    Samples   samples;
    int       n_missed;                // cancelled or timed out: ended before that
    pthread_t thread;
} Probe;

static const char *next_text(Fair *fair)
{
    return fair->texts[fair->next++ % N_TEXTS];
}

// ---- one look ------------------------------------------------------------------------------------------------------

static double query_ms(Probe *probe, const char *sql)
{
    return run_ms(probe->peer, sql);
}

static double chunk_query_ms(Probe *probe)
{
    char sql[200];
    int first = draw_between(&probe->random, 1, probe->fair->most_orderkey - 20);
    snprintf(sql, sizeof sql, "select count(*), sum(lo_revenue) from lineorder where lo_orderkey between %d and %d",
             first, first + 20);
    return query_ms(probe, sql);
}

// From the cancel to the end; below 0: it had ended before.
static double cancel_ms(Probe *probe)
{
    weft_session *session = peer_weft_session(probe->peer);
    weft_task *task;
    weft_error error;
    const char *sql = next_text(probe->fair);
    if (weft_submit(session, sql, &task, &error))
        die(sql, error.message);
    usleep((useconds_t)draw_between(&probe->random, 1000, 20000));
    bool is_done = weft_is_done(task);
    double start = now_ms();
    weft_cancel(session);
    weft_status status = weft_wait(task, NULL, &error);
    return is_done || status != WEFT_QUERY_CANCELED ? -1 : now_ms() - start;
}

static double timeout_ms(Probe *probe)
{
    weft_error error;
    double start = now_ms();
    weft_status status = weft_query(peer_weft_session(probe->peer), next_text(probe->fair), NULL, &error);
    return status != WEFT_QUERY_CANCELED ? -1 : now_ms() - start - TIMEOUT_MS;
}

static double look(Probe *probe)
{
    switch (probe->kind) {
    case LOOK_SHORT:   return query_ms(probe, "select count(*) from supplier where s_region = 'ASIA'");
    case LOOK_CHUNK:   return chunk_query_ms(probe);
    case LOOK_CANCEL:  return cancel_ms(probe);
    case LOOK_TIMEOUT: return timeout_ms(probe);
    default:            return query_ms(probe, next_text(probe->fair));
    }
}

static void *probe_main(void *context)
{
    Probe *probe = context;
    while (!probe->fair->is_over) {
        usleep(5000);
        double ms = look(probe);
        if (ms < 0)
            probe->n_missed++;
        else
            add_sample(&probe->samples, ms);
    }
    return NULL;
}

// ---- all at once ---------------------------------------------------------------------------------------------------

static void probes_open(Probe *probes, Fair *fair, Peer *weft)
{
    char error[PEER_ERROR_BYTES] = "";
    for (int k = 0; k < N_LOOKS; k++) {
        probes[k] = (Probe){ .fair = fair, .kind = (LookKind)k, .random = settings.seed + (uint64_t)k,
                             .peer = peer_connect(weft, error) };
        if (!probes[k].peer)
            die("weft", error);
        if (SETTINGS[k])
            must(probes[k].peer, peer_run(probes[k].peer, SETTINGS[k], NULL), SETTINGS[k]);
    }
}

static void probes_close(Probe *probes)
{
    for (int k = 0; k < N_LOOKS; k++) {
        peer_close(probes[k].peer);
        free(probes[k].samples.ms);
    }
}

static void next_long(void *context, int client, CrowdQuery *query)
{
    (void)client;
    *query = (CrowdQuery){ .sql = next_text(context) };
}

// One kind after the other, with no other query running.
static void look_alone(Fair *fair, Probe *probes, Latencies *alone)
{
    enum { TIMES = 30 };
    for (int k = 0; k < N_LOOKS; k++) {
        progress("alone", k + 1);
        for (int i = 0; i < TIMES; i++) {
            double ms = look(&probes[k]);
            if (ms >= 0)
                add_sample(&probes[k].samples, ms);
        }
        alone[k] = latencies_of(&probes[k].samples);
        probes[k].samples.n = 0;
    }
    fair->is_over = false;
}

static void look_among(Fair *fair, Probe *probes, Peer *weft, int n_clients, CrowdFigures *figures)
{
    Crowd *crowd = crowd_new(weft, n_clients, NULL);
    CrowdLoop loop = { .next = next_long, .context = fair, .warm_ms = settings.seconds * 300,
                       .min_ms = settings.seconds * 1e3, .min_done = (size_t)n_clients };
    for (int k = 0; k < N_LOOKS; k++)
        if (pthread_create(&probes[k].thread, NULL, probe_main, &probes[k]))
            die("pthread_create", "failed");
    crowd_loop(crowd, &loop, figures);
    fair->is_over = true;
    for (int k = 0; k < N_LOOKS; k++)
        pthread_join(probes[k].thread, NULL);
    crowd_free(crowd);
}

void part_fair(Bench *bench, const Engines *engines)
{
    enum { SHAPE_Q41 = 10 };
    int n_clients = settings.is_quick ? N_LONG_QUICK : N_LONG;
    Fair fair = { .texts = draw_queries(SHAPE_Q41, N_TEXTS, settings.seed) };
    Probe probes[N_LOOKS];
    Latencies alone[N_LOOKS];
    CrowdFigures figures;
    fair.most_orderkey = (int)sum_of(engines->weft, "select max(lo_orderkey) from lineorder");
    check_all(engines, fair.texts, 3);
    probes_open(probes, &fair, engines->weft);
    look_alone(&fair, probes, alone);
    look_among(&fair, probes, engines->weft, n_clients, &figures);
    say(bench, "## Beside %d clients with long queries (Q4.1 with other constants, a closed loop)\n\n"
               "They get %.1f answers a second; p50 %.2f ms, p99 %.2f ms.\n\n", n_clients, figures.per_second,
        figures.all.p50, figures.all.p99);
    say(bench, "| | alone p50 ms | p50 ms | p95 ms | p99 ms | max ms | looks |\n"
               "| :-- | --: | --: | --: | --: | --: | --: |\n");
    for (int k = 0; k < N_LOOKS; k++) {
        Latencies among = latencies_of(&probes[k].samples);
        say(bench, "| %s | ", NAMES[k]);
        if (alone[k].n)
            say(bench, "%.2f", alone[k].p50);
        say(bench, " | %.2f | %.2f | %.2f | %.2f | %zu |\n", among.p50, among.p95, among.p99, among.max, among.n);
    }
    say(bench, "\n");
    probes_close(probes);
    free_queries(fair.texts, N_TEXTS);
}
