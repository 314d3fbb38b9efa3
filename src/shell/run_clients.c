// run_clients.c - the clients of `weft run`: which client runs which statement when.
//
// The main thread begins a round and waits for its end; meanwhile it looks for Ctrl-C and draws the live view.  Clients
// call weft_query, each on a session of its own, which is what weft_submit does in a thread it would start for every
// statement; here the threads are there before the clock starts.
//
// Open loop: the client that holds the turn sleeps until the next arrival, gives the turn on and runs the statement.
// When no client waits for the turn it first adds one, so that an arrival never waits as long as there are fewer than
// MOST_CLIENTS.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shell/run.h"

#define TICK_MS 50

typedef struct RunJob { RunStatement *statement; double arrival_ms; } RunJob;  // arrival: on the clock of now_ms

static _Atomic bool was_interrupted;

static void on_interrupt(int number)
{
    if (was_interrupted) {                                 // a second Ctrl-C does not wait for the first
        signal(number, SIG_DFL);
        raise(number);
    }
    was_interrupted = true;
}

static struct timespec timespec_of(double time_ms)
{
    double seconds = floor(time_ms / 1e3);
    return (struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)((time_ms - seconds * 1e3) * 1e6) };
}

// ---- which statement next ---------------------------------------------------------------------------------------

// With the lock held.  Statements come in the order of the files, over and over.
static bool take_next(Run *run, double arrival_ms, RunJob *job)
{
    long limit = run->options.repeat ? run->options.repeat * run->n_statements : 0;
    if (run->is_stopped || arrival_ms >= run->deadline_ms || (limit && run->next >= limit))
        return false;
    *job = (RunJob){ &run->statements[run->next % run->n_statements], arrival_ms };
    run->next++;
    return true;
}

static bool take_at_once(Client *client, RunJob *job)
{
    Run *run = client->run;
    if (client->has_run || run->is_stopped)
        return false;
    client->has_run = true;
    *job = (RunJob){ &run->statements[client->number], run->start_ms };
    return true;
}

static bool take_closed(Run *run, RunJob *job)
{
    pthread_mutex_lock(&run->lock);
    bool is_taken = take_next(run, now_ms(), job);
    pthread_mutex_unlock(&run->lock);
    return is_taken;
}

// From 0 to 1, without 1: SplitMix64, the upper 53 bits.
static double draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

// From the last arrival to the next.
static double next_gap_ms(Run *run)
{
    double mean_ms = 1e3 / run->options.rate;
    return run->options.is_poisson ? -log1p(-draw(&run->random)) * mean_ms : mean_ms;
}

static void sleep_until(const Run *run, double time_ms)
{
    for (double now = now_ms(); now < time_ms && !run->is_stopped; now = now_ms()) {
        struct timespec until = timespec_of(fmin(time_ms, now + TICK_MS));
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

static bool client_add(Run *run, weft_error *error);

static bool take_open(Run *run, RunJob *job)
{
    run->n_waiting++;
    pthread_mutex_lock(&run->turn);
    run->n_waiting--;
    pthread_mutex_lock(&run->lock);
    bool is_taken = take_next(run, run->start_ms + run->arrival_ms, job), is_full = run->n_clients >= MOST_CLIENTS;
    run->arrival_ms += next_gap_ms(run);
    pthread_mutex_unlock(&run->lock);
    if (is_taken && !run->n_waiting && !is_full)
        client_add(run, &(weft_error){ .status = WEFT_OK });   // when it fails, arrivals wait for the clients that
                                                               // exist
    if (is_taken)
        sleep_until(run, job->arrival_ms);
    pthread_mutex_unlock(&run->turn);
    return is_taken && !run->is_stopped;
}

static bool take_job(Client *client, RunJob *job)
{
    switch (client->run->options.mode) {
    case RUN_AT_ONCE: return take_at_once(client, job);
    case RUN_CLIENTS: return take_closed(client->run, job);
    case RUN_RATE:    return take_open(client->run, job);
    }
    return false;
}

// ---- running it ------------------------------------------------------------------------------------------------

static void note_begin(Client *client)
{
    Run *run = client->run;
    pthread_mutex_lock(&run->lock);
    client->is_running = true;
    if (++run->n_running > run->most_running)
        run->most_running = run->n_running;
    pthread_mutex_unlock(&run->lock);
}

static void add_time(RunStatement *statement, double time_ms)
{
    if (statement->n_times == statement->capacity) {
        statement->capacity = statement->capacity ? 2 * statement->capacity : 16;
        statement->times_ms = must_realloc(statement->times_ms, statement->capacity * sizeof(double));
    }
    statement->times_ms[statement->n_times++] = time_ms;
}

static void note_end(Client *client, const RunJob *job, double time_ms, weft_result **result, const weft_error *error)
{
    Run *run = client->run;
    RunStatement *statement = job->statement;
    pthread_mutex_lock(&run->lock);
    client->is_running = false;
    run->n_running--;
    rate_note(run, time_ms, !*result);
    if (*result) {
        add_time(statement, time_ms);
        if (weft_result_notices(*result) && !statement->n_noticed++)
            statement->notice = must_copy(weft_result_notice(*result, 0));
        statement->n_rows = weft_result_columns(*result) ? weft_result_rows(*result) : 0;
    } else if (!statement->n_failed++) {
        statement->error = *error;
    }
    if (*result && !statement->result && !run->options.is_quiet && !run->options.is_json) {
        statement->result = *result;
        *result = NULL;
    }
    pthread_mutex_unlock(&run->lock);
}

static void run_job(Client *client, const RunJob *job)
{
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    note_begin(client);
    weft_query(client->session, job->statement->sql, &result, &error);
    note_end(client, job, now_ms() - job->arrival_ms, &result, &error);
    weft_result_free(result);
}

static bool wait_for_round(Client *client)
{
    Run *run = client->run;
    pthread_mutex_lock(&run->lock);
    while (!run->is_over && client->round == run->round)
        pthread_cond_wait(&run->go, &run->lock);
    client->round = run->round;
    client->has_run = false;
    bool is_over = run->is_over;
    pthread_mutex_unlock(&run->lock);
    return !is_over;
}

static void *client_main(void *context)
{
    Client *client = context;
    Run *run = client->run;
    RunJob job;
    while (wait_for_round(client)) {
        while (take_job(client, &job))
            run_job(client, &job);
        pthread_mutex_lock(&run->lock);
        if (--run->n_busy == 0)
            pthread_cond_signal(&run->ended);
        pthread_mutex_unlock(&run->lock);
    }
    return NULL;
}

// ---- clients come and go ----------------------------------------------------------------------------------------

static weft_status make_settings(const RunOptions *options, weft_session *session, weft_error *error)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < options->n_settings && !status; i++) {
        Buffer sql = { 0 };
        weft_result *result = NULL;
        if (setting_sql(options->settings[i], &sql))
            status = weft_query(session, sql.bytes, &result, error);
        weft_result_free(result);
        buffer_free(&sql);
    }
    return status;
}

static bool start_thread(Client *client)
{
    sigset_t interrupt, before;
    sigemptyset(&interrupt);                               // Ctrl-C is for the main thread
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    bool is_started = pthread_create(&client->thread, NULL, client_main, client) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

// The new client takes part in the round that goes on, if one does.
static bool client_add(Run *run, weft_error *error)
{
    Client *client = must_realloc(NULL, sizeof *client);
    *client = (Client){ .run = run };
    if (weft_connect(run->shell.db, &client->session, error) || make_settings(&run->options, client->session, error)) {
        weft_disconnect(client->session);
        free(client);
        return false;
    }
    pthread_mutex_lock(&run->lock);
    client->number = run->n_clients;
    run->clients = must_realloc(run->clients, (size_t)(run->n_clients + 1) * sizeof *run->clients);
    bool is_started = start_thread(client);
    if (is_started) {
        run->clients[run->n_clients++] = client;
        run->n_busy += run->round > 0;
    }
    pthread_mutex_unlock(&run->lock);
    if (!is_started) {
        snprintf(error->message, sizeof error->message, "the system refused a thread");
        snprintf(error->sqlstate, sizeof error->sqlstate, "53200");
        weft_disconnect(client->session);
        free(client);
    }
    return is_started;
}

// Those to begin with: in the open loop two, so that one can wait for the next arrival.
static bool add_clients(Run *run)
{
    weft_error error = { .status = WEFT_OK };
    long n_wanted = run->options.mode == RUN_AT_ONCE ? run->n_statements : run->options.n_clients;
    while (run->n_clients < n_wanted) {
        if (client_add(run, &error))
            continue;
        report_error(&run->shell, &error, NULL, NULL, 1);
        return false;
    }
    return true;
}

static void send_clients_home(Run *run)
{
    pthread_mutex_lock(&run->lock);
    run->is_over = true;
    pthread_cond_broadcast(&run->go);
    pthread_mutex_unlock(&run->lock);
    for (long i = 0; i < run->n_clients; i++) {
        pthread_join(run->clients[i]->thread, NULL);
        weft_disconnect(run->clients[i]->session);
        free(run->clients[i]);
    }
    free(run->clients);
    run->clients = NULL;
    run->n_clients = 0;
}

// ---- rounds ------------------------------------------------------------------------------------------------------

// With the lock held.  Told anew at every tick, since a cancel that comes before its statement has begun is lost.
static void stop_if_interrupted(Run *run)
{
    if (!was_interrupted)
        return;
    run->is_stopped = true;
    for (long i = 0; i < run->n_clients; i++)
        if (run->clients[i]->is_running)
            weft_cancel(run->clients[i]->session);
}

static void wait_for_end(Run *run)
{
    pthread_mutex_lock(&run->lock);
    while (run->n_busy) {
        struct timespec until = timespec_of(now_ms() + TICK_MS);
        pthread_cond_timedwait(&run->ended, &run->lock, &until);
        stop_if_interrupted(run);
        rate_show(run);
        if (!run->options.has_top || !run->n_busy)
            continue;
        pthread_mutex_unlock(&run->lock);
        top_show(run);
        pthread_mutex_lock(&run->lock);
    }
    pthread_mutex_unlock(&run->lock);
}

static void run_round(Run *run)
{
    pthread_mutex_lock(&run->lock);
    run->n_busy = run->n_clients;
    run->round++;
    run->start_ms = now_ms();
    pthread_cond_broadcast(&run->go);
    pthread_mutex_unlock(&run->lock);
    wait_for_end(run);
    double time_ms = now_ms() - run->start_ms;
    run->best_round_ms = run->n_rounds++ ? fmin(run->best_round_ms, time_ms) : time_ms;
}

static bool has_more_rounds(const Run *run)
{
    if (run->is_stopped || run->options.mode != RUN_AT_ONCE)
        return false;
    return (!run->options.repeat || run->n_rounds < run->options.repeat) && now_ms() < run->deadline_ms;
}

static void start_locks(Run *run)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->turn, NULL);
    pthread_cond_init(&run->go, NULL);
    pthread_cond_init(&run->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void end_locks(Run *run)
{
    pthread_cond_destroy(&run->ended);
    pthread_cond_destroy(&run->go);
    pthread_mutex_destroy(&run->turn);
    pthread_mutex_destroy(&run->lock);
}

bool run_rounds(Run *run)
{
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
    FigureList before = { 0 };
    run->random = run->options.seed;
    sigaction(SIGINT, &action, NULL);
    start_locks(run);
    bool is_ready = add_clients(run) && figures_take(run, &before);
    if (is_ready) {
        run->begin_ms = now_ms();
        run->deadline_ms = run->options.duration_ms > 0 ? run->begin_ms + run->options.duration_ms : INFINITY;
        do
            run_round(run);
        while (has_more_rounds(run));
        run->wall_ms = now_ms() - run->begin_ms;
        top_erase();
        rate_erase(run);
    }
    send_clients_home(run);
    if (is_ready && figures_take(run, &run->figures))
        figures_subtract(&run->figures, &before);
    figures_free(&before);
    end_locks(run);
    return is_ready;
}
