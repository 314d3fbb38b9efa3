// squad.c - see squad.h.
//
// Every job has a thread of its own while it runs, since a query may wait long (for a pipe, for its turn) and must not
// keep another from
// starting: a thread is started whenever none is idle.  A few are kept for later.

#include "engine/squad.h"

#include <pthread.h>
#include <stdlib.h>

#define KEPT_IDLE 64

struct Squad {
    pthread_mutex_t lock;
    pthread_cond_t  has_job, job_done, thread_left;
    SquadJob            *first, **last;     // not yet taken
    int             n_waiting, n_idle, n_threads;
    bool            is_closing;
};

Squad *squad_new(void)
{
    Squad *squad = calloc(1, sizeof *squad);
    pthread_mutex_init(&squad->lock, NULL);
    pthread_cond_init(&squad->has_job, NULL);
    pthread_cond_init(&squad->job_done, NULL);
    pthread_cond_init(&squad->thread_left, NULL);
    squad->last = &squad->first;
    return squad;
}

static SquadJob *take_job(Squad *squad)
{
    SquadJob *job = squad->first;
    squad->first = job->next;
    if (!squad->first) squad->last = &squad->first;
    squad->n_waiting--;
    return job;
}

static void *work(void *context)
{
    Squad *squad = context;
    pthread_mutex_lock(&squad->lock);
    for (;;) {
        while (!squad->first && !squad->is_closing && squad->n_idle < KEPT_IDLE) {
            squad->n_idle++;
            pthread_cond_wait(&squad->has_job, &squad->lock);
            squad->n_idle--;
        }
        if (!squad->first) break;
        SquadJob *job = take_job(squad);
        pthread_mutex_unlock(&squad->lock);
        job->run(job);
        pthread_mutex_lock(&squad->lock);
        job->is_done = true;
        pthread_cond_broadcast(&squad->job_done);
    }
    squad->n_threads--;
    pthread_cond_signal(&squad->thread_left);
    pthread_mutex_unlock(&squad->lock);
    return NULL;
}

static bool start_thread(Squad *squad)
{
    pthread_t      thread;
    pthread_attr_t detached;
    if (pthread_attr_init(&detached)) return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const bool ok = thread_start(&thread, &detached, work, squad) == 0;
    pthread_attr_destroy(&detached);
    squad->n_threads += ok;
    return ok;
}

bool squad_start(Squad *squad, SquadJob *job)
{
    bool ok = true;
    pthread_mutex_lock(&squad->lock);
    if (squad->n_waiting >= squad->n_idle) ok = start_thread(squad);
    if (ok) {
        job->is_done = false, job->next = NULL;
        *squad->last = job;
        squad->last = &job->next;
        squad->n_waiting++;
        pthread_cond_signal(&squad->has_job);
    }
    pthread_mutex_unlock(&squad->lock);
    return ok;
}

bool squad_is_done(Squad *squad, const SquadJob *job)
{
    pthread_mutex_lock(&squad->lock);
    const bool is_done = job->is_done;
    pthread_mutex_unlock(&squad->lock);
    return is_done;
}

void squad_wait(Squad *squad, const SquadJob *job)
{
    pthread_mutex_lock(&squad->lock);
    while (!job->is_done) pthread_cond_wait(&squad->job_done, &squad->lock);
    pthread_mutex_unlock(&squad->lock);
}

void squad_free(Squad *squad)
{
    if (!squad) return;
    pthread_mutex_lock(&squad->lock);
    squad->is_closing = true;
    pthread_cond_broadcast(&squad->has_job);
    while (squad->n_threads) pthread_cond_wait(&squad->thread_left, &squad->lock);
    pthread_mutex_unlock(&squad->lock);
    pthread_mutex_destroy(&squad->lock);
    pthread_cond_destroy(&squad->has_job);
    pthread_cond_destroy(&squad->job_done);
    pthread_cond_destroy(&squad->thread_left);
    free(squad);
}
