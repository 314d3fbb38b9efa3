// crowd.c - thousands of clients: sessions that few threads drive through weft_submit.
//
// A client that were a thread would measure the system's scheduler as much as Weft.  Here a driver has its share of the
// sessions; whenever a task of one of them is done, Weft says so (weft_submit_notify), and the driver takes the answer
// and submits the next query:
//
//     driver ── weft_submit_notify ──> a thread of Weft ── notify: time taken, put on the driver's list ──> driver
//
// Latency is from the submit to the notice.  What a driver does afterwards (freeing the answer, checking it) is part of
// the client's time to think, and of the load.

#define _GNU_SOURCE
#include "concurrency.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef enum Phase { PHASE_WARM, PHASE_COUNTING, PHASE_CLOSED } Phase;

typedef struct Driver Driver;

typedef struct Seat {                  // one client
    Driver      *driver;
    Peer        *peer;
    int          number;
    weft_task   *task;
    CrowdQuery   query;
    double       start_ms, end_ms;
    struct Seat *next;                 // among those that are done
} Seat;

struct Driver {
    Crowd          *crowd;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  has_done;
    Seat           *done;              // under the lock
    int             n_in_flight;
    size_t          n_noticed;
    Samples         samples[MOST_KINDS];
    int             first;             // its clients: FIRST, FIRST + n_drivers, ...
};

struct Crowd {
    Seat            *seats;
    int              n_clients, n_drivers;
    Driver           drivers[MOST_DRIVERS];
    // of the loop
    const CrowdLoop *loop;
    double           start_ms, count_ms, end_ms;
    double           cpu_ms;           // of the whole process, while answers are counted
    size_t           n_done, n_counted;
    Phase            phase;            // these under the lock
    pthread_mutex_t  lock;
};

Crowd *crowd_new(Peer *weft, int n_clients, const char *setting)
{
    Crowd *crowd = calloc(1, sizeof *crowd);
    char error[PEER_ERROR_BYTES] = "";
    crowd->n_clients = n_clients;
    crowd->n_drivers = n_clients < MOST_DRIVERS ? n_clients : MOST_DRIVERS;
    crowd->seats = calloc((size_t)n_clients, sizeof *crowd->seats);
    pthread_mutex_init(&crowd->lock, NULL);
    for (int d = 0; d < crowd->n_drivers; d++) {
        Driver *driver = &crowd->drivers[d];
        driver->crowd = crowd;
        driver->first = d;
        pthread_mutex_init(&driver->lock, NULL);
        pthread_cond_init(&driver->has_done, NULL);
    }
    for (int i = 0; i < n_clients; i++) {
        Seat *seat = &crowd->seats[i];
        *seat = (Seat){ .driver = &crowd->drivers[i % crowd->n_drivers], .number = i };
        seat->peer = peer_connect(weft, error);
        if (!seat->peer)
            die("weft", error);
        if (setting)
            must(seat->peer, peer_run(seat->peer, setting, NULL), setting);
    }
    return crowd;
}

Peer *crowd_peer(const Crowd *crowd, int client)
{
    return crowd->seats[client].peer;
}

void crowd_free(Crowd *crowd)
{
    for (int i = 0; i < crowd->n_clients; i++)
        peer_close(crowd->seats[i].peer);
    for (int d = 0; d < crowd->n_drivers; d++) {
        for (int k = 0; k < MOST_KINDS; k++)
            free(crowd->drivers[d].samples[k].ms);
        pthread_cond_destroy(&crowd->drivers[d].has_done);
        pthread_mutex_destroy(&crowd->drivers[d].lock);
    }
    pthread_mutex_destroy(&crowd->lock);
    free(crowd->seats);
    free(crowd);
}

// ---- one query after the other -------------------------------------------------------------------------------------

static void on_done(void *context)
{
    Seat *seat = context;
    Driver *driver = seat->driver;
    seat->end_ms = now_ms();
    pthread_mutex_lock(&driver->lock);
    seat->next = driver->done;
    if (!driver->done)
        pthread_cond_signal(&driver->has_done);
    driver->done = seat;
    pthread_mutex_unlock(&driver->lock);
}

static void submit_next(Seat *seat)
{
    const CrowdLoop *loop = seat->driver->crowd->loop;
    weft_error error;
    loop->next(loop->context, seat->number, &seat->query);
    seat->driver->n_in_flight++;
    seat->start_ms = now_ms();
    if (weft_submit_notify(peer_weft_session(seat->peer), seat->query.sql, on_done, seat, &seat->task, &error))
        die(seat->query.sql, error.message);
}

static double cpu_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static bool is_counted(Crowd *crowd, double end_ms)
{
    const CrowdLoop *loop = crowd->loop;
    pthread_mutex_lock(&crowd->lock);
    crowd->n_done++;
    bool counts = crowd->phase != PHASE_WARM;
    if (crowd->phase == PHASE_COUNTING) {
        crowd->n_counted++;
        if (end_ms - crowd->count_ms >= loop->min_ms && crowd->n_counted >= loop->min_done) {
            crowd->end_ms = end_ms;
            crowd->cpu_ms = cpu_now_ms() - crowd->cpu_ms;
            crowd->phase = PHASE_CLOSED;
        }
    } else if (crowd->phase == PHASE_WARM && end_ms - crowd->start_ms >= loop->warm_ms &&
               crowd->n_done >= (size_t)crowd->n_clients) {
        crowd->count_ms = end_ms;
        crowd->cpu_ms = cpu_now_ms();
        crowd->phase = PHASE_COUNTING;
    }
    pthread_mutex_unlock(&crowd->lock);
    return counts;
}

static bool is_closed(Crowd *crowd)
{
    pthread_mutex_lock(&crowd->lock);
    bool closed = crowd->phase == PHASE_CLOSED;
    pthread_mutex_unlock(&crowd->lock);
    return closed;
}

static void take_answer(Seat *seat)
{
    Driver *driver = seat->driver;
    const CrowdLoop *loop = driver->crowd->loop;
    weft_result *result;
    weft_error error = { .status = WEFT_OK };
    weft_status status = weft_wait(seat->task, &result, &error);
    driver->n_in_flight--;
    if (status && !loop->ended)
        die(seat->query.sql, error.message);
    if (is_counted(driver->crowd, seat->end_ms)) {
        add_sample(&driver->samples[seat->query.kind], seat->end_ms - seat->start_ms);
        driver->n_noticed += result && weft_result_notices(result) > 0;
    }
    if (loop->ended)
        loop->ended(loop->context, seat->number, &seat->query, result, &error);
    weft_result_free(result);
}

static Seat *wait_for_done(Driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    while (!driver->done)
        pthread_cond_wait(&driver->has_done, &driver->lock);
    Seat *done = driver->done;
    driver->done = NULL;
    pthread_mutex_unlock(&driver->lock);
    return done;
}

static void *drive(void *context)
{
    Driver *driver = context;
    Crowd *crowd = driver->crowd;
    for (int i = driver->first; i < crowd->n_clients; i += crowd->n_drivers)
        submit_next(&crowd->seats[i]);
    while (driver->n_in_flight)
        for (Seat *seat = wait_for_done(driver), *next; seat; seat = next) {
            next = seat->next;
            take_answer(seat);
            if (!is_closed(crowd))
                submit_next(seat);
        }
    return NULL;
}

// ---- the loop ------------------------------------------------------------------------------------------------------

static void sum_up(Crowd *crowd, CrowdFigures *figures)
{
    Samples all = { 0 };
    *figures = (CrowdFigures){ .per_second = (double)crowd->n_counted * 1e3 / (crowd->end_ms - crowd->count_ms),
                                .cpu_ms = crowd->cpu_ms / (double)crowd->n_counted };
    for (int k = 0; k < MOST_KINDS; k++) {
        Samples of_kind = { 0 };
        for (int d = 0; d < crowd->n_drivers; d++)
            for (size_t s = 0; s < crowd->drivers[d].samples[k].n; s++) {
                add_sample(&of_kind, crowd->drivers[d].samples[k].ms[s]);
                add_sample(&all, crowd->drivers[d].samples[k].ms[s]);
            }
        figures->kinds[k] = latencies_of(&of_kind);
        free(of_kind.ms);
    }
    for (int d = 0; d < crowd->n_drivers; d++)
        figures->n_noticed += crowd->drivers[d].n_noticed;
    figures->all = latencies_of(&all);
    free(all.ms);
}

void crowd_loop(Crowd *crowd, const CrowdLoop *loop, CrowdFigures *figures)
{
    crowd->loop = loop;
    crowd->n_done = crowd->n_counted = 0;
    crowd->phase = PHASE_WARM;
    crowd->start_ms = now_ms();
    for (int d = 0; d < crowd->n_drivers; d++) {
        Driver *driver = &crowd->drivers[d];
        driver->n_noticed = 0;
        for (int k = 0; k < MOST_KINDS; k++)
            driver->samples[k].n = 0;
        if (pthread_create(&driver->thread, NULL, drive, driver))
            die("pthread_create", "failed");
    }
    for (int d = 0; d < crowd->n_drivers; d++)
        pthread_join(crowd->drivers[d].thread, NULL);
    sum_up(crowd, figures);
}
