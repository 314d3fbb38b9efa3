// crew.c - see crew.h.
//
// Every job has a thread of its own while it runs, since a query may wait long (for a pipe, for its turn) and must not keep another from
// starting: a thread is started whenever none is idle.  A few are kept for later.

#include "engine/crew.h"

#include <pthread.h>
#include <stdlib.h>

#define KEPT_IDLE 64

struct Crew {
    pthread_mutex_t lock;
    pthread_cond_t  has_job, job_done, thread_left;
    CrewJob            *first, **last;     // not yet taken
    int             n_waiting, n_idle, n_threads;
    bool            is_closing;
};

Crew *crew_new(void)
{
    Crew *crew = calloc(1, sizeof *crew);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->has_job, NULL);
    pthread_cond_init(&crew->job_done, NULL);
    pthread_cond_init(&crew->thread_left, NULL);
    crew->last = &crew->first;
    return crew;
}

static CrewJob *take_job(Crew *crew)
{
    CrewJob *job = crew->first;
    crew->first = job->next;
    if (!crew->first) crew->last = &crew->first;
    crew->n_waiting--;
    return job;
}

static void *work(void *context)
{
    Crew *crew = context;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!crew->first && !crew->is_closing && crew->n_idle < KEPT_IDLE) {
            crew->n_idle++;
            pthread_cond_wait(&crew->has_job, &crew->lock);
            crew->n_idle--;
        }
        if (!crew->first) break;
        CrewJob *job = take_job(crew);
        pthread_mutex_unlock(&crew->lock);
        job->run(job);
        pthread_mutex_lock(&crew->lock);
        job->is_done = true;
        pthread_cond_broadcast(&crew->job_done);
    }
    crew->n_threads--;
    pthread_cond_signal(&crew->thread_left);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static bool start_thread(Crew *crew)
{
    pthread_t      thread;
    pthread_attr_t detached;
    if (pthread_attr_init(&detached)) return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const bool ok = thread_start(&thread, &detached, work, crew) == 0;
    pthread_attr_destroy(&detached);
    crew->n_threads += ok;
    return ok;
}

bool crew_start(Crew *crew, CrewJob *job)
{
    bool ok = true;
    pthread_mutex_lock(&crew->lock);
    if (crew->n_waiting >= crew->n_idle) ok = start_thread(crew);
    if (ok) {
        job->is_done = false, job->next = NULL;
        *crew->last = job;
        crew->last = &job->next;
        crew->n_waiting++;
        pthread_cond_signal(&crew->has_job);
    }
    pthread_mutex_unlock(&crew->lock);
    return ok;
}

bool crew_is_done(Crew *crew, const CrewJob *job)
{
    pthread_mutex_lock(&crew->lock);
    const bool is_done = job->is_done;
    pthread_mutex_unlock(&crew->lock);
    return is_done;
}

void crew_wait(Crew *crew, const CrewJob *job)
{
    pthread_mutex_lock(&crew->lock);
    while (!job->is_done) pthread_cond_wait(&crew->job_done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

void crew_free(Crew *crew)
{
    if (!crew) return;
    pthread_mutex_lock(&crew->lock);
    crew->is_closing = true;
    pthread_cond_broadcast(&crew->has_job);
    while (crew->n_threads) pthread_cond_wait(&crew->thread_left, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    pthread_mutex_destroy(&crew->lock);
    pthread_cond_destroy(&crew->has_job);
    pthread_cond_destroy(&crew->job_done);
    pthread_cond_destroy(&crew->thread_left);
    free(crew);
}
