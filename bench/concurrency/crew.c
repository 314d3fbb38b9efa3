// crew.c - client threads, each with a connection of its own, that work when told and wait otherwise.
//
// Threads and connections are there before the clock starts.  Every figure is taken by the client itself, around its
// own call.

#define _GNU_SOURCE
#include "concurrency.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Client {
    Crew     *crew;
    Peer     *peer;
    pthread_t thread;
    int       number;
    int       round;                   // the last one it worked in
    Samples   samples;
} Client;

struct Crew {
    Client         *clients;
    int             n_clients;
    pthread_mutex_t lock;
    pthread_cond_t  go, ended;
    int             round, n_busy;
    void          (*work)(Client *client);                 // NULL: go home
    // of the round
    char *const    *queries;
    int             n_queries;
    _Atomic int     next;
    const Loop     *loop;
    double          start_ms, end_ms;                      // end: when the loop was closed
    _Atomic bool    is_closed;
    size_t          n_done, n_done_small, n_done_open;     // open: before it was closed; under the lock
};

static void *client_main(void *context)
{
    Client *client = context;
    Crew *crew = client->crew;
    for (;;) {
        pthread_mutex_lock(&crew->lock);
        while (client->round == crew->round)
            pthread_cond_wait(&crew->go, &crew->lock);
        client->round = crew->round;
        void (*work)(Client *) = crew->work;
        pthread_mutex_unlock(&crew->lock);
        if (!work)
            return NULL;
        work(client);
        pthread_mutex_lock(&crew->lock);
        if (--crew->n_busy == 0)
            pthread_cond_signal(&crew->ended);
        pthread_mutex_unlock(&crew->lock);
    }
}

// Milliseconds until the last client has ended.
static double run_round(Crew *crew, void (*work)(Client *client))
{
    pthread_mutex_lock(&crew->lock);
    crew->work = work;
    crew->n_busy = crew->n_clients;
    crew->round++;
    crew->start_ms = now_ms();
    pthread_cond_broadcast(&crew->go);
    while (work && crew->n_busy)
        pthread_cond_wait(&crew->ended, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    return now_ms() - crew->start_ms;
}

Crew *crew_new(Peer *base, int n_clients, const char *setting)
{
    Crew *crew = calloc(1, sizeof *crew);
    char error[PEER_ERROR_BYTES] = "";
    *crew = (Crew){ .clients = calloc((size_t)n_clients, sizeof(Client)), .n_clients = n_clients };
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->go, NULL);
    pthread_cond_init(&crew->ended, NULL);
    for (int i = 0; i < n_clients; i++) {
        Client *client = &crew->clients[i];
        *client = (Client){ .crew = crew, .number = i, .peer = peer_connect(base, error) };
        if (!client->peer)
            die(base->name, error);
        if (setting)
            must(client->peer, peer_run(client->peer, setting, NULL), setting);
        if (pthread_create(&client->thread, NULL, client_main, client))
            die("pthread_create", "failed");
    }
    return crew;
}

void crew_free(Crew *crew)
{
    run_round(crew, NULL);
    for (int i = 0; i < crew->n_clients; i++) {
        pthread_join(crew->clients[i].thread, NULL);
        peer_close(crew->clients[i].peer);
        free(crew->clients[i].samples.ms);
    }
    pthread_cond_destroy(&crew->ended);
    pthread_cond_destroy(&crew->go);
    pthread_mutex_destroy(&crew->lock);
    free(crew->clients);
    free(crew);
}

static double client_ms(Client *client, const char *sql)
{
    double start = now_ms();
    must(client->peer, peer_run(client->peer, sql, NULL), sql);
    return now_ms() - start;
}

// ---- each query once ---------------------------------------------------------------------------------------------

static void take_next(Client *client)
{
    Crew *crew = client->crew;
    for (int i = crew->next++; i < crew->n_queries; i = crew->next++)
        client_ms(client, crew->queries[i]);
}

static void sample_next(Client *client)
{
    Crew *crew = client->crew;
    for (int i = crew->next++; i < crew->n_queries; i = crew->next++)
        add_sample(&client->samples, crew->loop->sample(client->peer, crew->queries[i]));
}

double crew_once(Crew *crew, char *const *queries, int n_queries)
{
    crew->queries = queries;
    crew->n_queries = n_queries;
    crew->next = 0;
    return run_round(crew, take_next);
}

// ---- a closed loop -----------------------------------------------------------------------------------------------

void add_sample(Samples *samples, double ms)
{
    if (samples->n == samples->capacity) {
        samples->capacity = samples->capacity ? 2 * samples->capacity : 64;
        samples->ms = realloc(samples->ms, samples->capacity * sizeof(double));
    }
    samples->ms[samples->n++] = ms;
}

static bool is_small(const Client *client)
{
    return client->crew->loop->small && client->number == 0;
}

static void pause_ms(double ms)
{
    struct timespec time = { .tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(fmod(ms, 1e3) * 1e6) };
    nanosleep(&time, NULL);
}

static void note_done(Client *client)
{
    Crew *crew = client->crew;
    const Loop *loop = crew->loop;
    pthread_mutex_lock(&crew->lock);
    if (is_small(client))
        crew->n_done_small++;
    else
        crew->n_done++;
    if (!crew->is_closed) {
        double now = now_ms();
        crew->n_done_open = crew->n_done;
        bool has_enough = crew->n_done >= (crew->n_clients > (loop->small ? 1 : 0) ? loop->min_done : 0) &&
                          crew->n_done_small >= (loop->small ? loop->min_done : 0);
        if (now - crew->start_ms >= loop->min_ms && has_enough) {
            crew->end_ms = now;
            crew->is_closed = true;
        }
    }
    pthread_mutex_unlock(&crew->lock);
}

static void run_loop(Client *client)
{
    Crew *crew = client->crew;
    const Loop *loop = crew->loop;
    uint64_t state = loop->seed * 1000003 + (uint64_t)client->number;
    for (int turn = 0; !crew->is_closed; turn++) {
        if (is_small(client))
            pause_ms(loop->pause_ms);
        const char *sql = is_small(client) ? loop->small[turn % loop->n_small]
                                           : loop->queries[draw_between(&state, 0, loop->n_queries - 1)];
        bool is_sampled = is_small(client) && loop->sample;
        add_sample(&client->samples, is_sampled ? loop->sample(client->peer, sql) : client_ms(client, sql));
        note_done(client);
    }
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const Samples *sorted, double share)
{
    size_t rank = (size_t)ceil(share * (double)sorted->n);
    return sorted->ms[rank ? rank - 1 : 0];
}

Latencies latencies_of(Samples *samples)
{
    if (!samples->n)
        return (Latencies){ 0 };
    qsort(samples->ms, samples->n, sizeof *samples->ms, compare_doubles);
    return (Latencies){ .n = samples->n, .p50 = percentile(samples, 0.5), .p95 = percentile(samples, 0.95),
                        .p99 = percentile(samples, 0.99), .max = samples->ms[samples->n - 1] };
}

static Latencies latencies(const Crew *crew, bool of_small)
{
    Samples all = { 0 };
    for (int i = 0; i < crew->n_clients; i++)
        for (size_t s = 0; is_small(&crew->clients[i]) == of_small && s < crew->clients[i].samples.n; s++)
            add_sample(&all, crew->clients[i].samples.ms[s]);
    Latencies found = latencies_of(&all);
    free(all.ms);
    return found;
}

static void clear_samples(Crew *crew)
{
    for (int i = 0; i < crew->n_clients; i++)
        crew->clients[i].samples.n = 0;
}

Latencies crew_sample(Crew *crew, char *const *queries, int n_queries, double (*sample)(Peer *peer, const char *sql))
{
    Loop loop = { .sample = sample };
    crew->loop = &loop;
    crew->queries = queries;
    crew->n_queries = n_queries;
    crew->next = 0;
    clear_samples(crew);
    run_round(crew, sample_next);
    return latencies(crew, false);
}

void crew_loop(Crew *crew, const Loop *loop, LoopFigures *figures)
{
    crew->loop = loop;
    crew->n_done = crew->n_done_small = crew->n_done_open = 0;
    crew->is_closed = false;
    clear_samples(crew);
    *figures = (LoopFigures){ .time_ms = run_round(crew, run_loop) };
    figures->per_second = (double)crew->n_done_open * 1e3 / (crew->end_ms - crew->start_ms);
    figures->large = latencies(crew, false);
    figures->small = latencies(crew, true);
}
