// squad.c - see squad.h.
//
// Every job has a thread of its own while it runs, since a query may wait long (for a pipe, for its turn) and must not
// keep another from starting: a thread is started whenever none is idle.
//
// Thousands of jobs come and go, so:
// - Idle threads are a stack.  The thread that was last at work is the next to work, while its stack is in the cache;
//   the ones below it see no job for KEPT_MS and end, down to KEPT_FOREVER of them.
// - Every thread and every job has a condition of its own, so each wakes only the one thread that it is meant for.

#include "engine/squad.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { KEPT_FOREVER = 64, KEPT_MS = 5000 };

typedef struct SquadThread SquadThread;
struct SquadThread {                        // on the stack of its thread
    pthread_cond_t wake;
    SquadJob      *job;                     // NULL while it is idle
    SquadThread   *above, *below;           // among the idle ones
};

struct Squad {
    pthread_mutex_t lock;
    pthread_cond_t  thread_left;
    SquadThread    *idle;                   // the last one that became idle
    SquadJob       *first, **last;          // jobs without a thread, since the system refused one
    int             n_idle, n_threads;
    bool            is_closing;
};

typedef struct SquadStart { Squad *squad; SquadJob *job; } SquadStart;

Squad *squad_new(void)
{
    Squad *squad = calloc(1, sizeof *squad);
    pthread_mutex_init(&squad->lock, NULL);
    pthread_cond_init(&squad->thread_left, NULL);
    squad->last = &squad->first;
    return squad;
}

// ---- idle threads; with the lock held -------------------------------------------------------------------------------

static void push_idle(Squad *squad, SquadThread *thread)
{
    thread->above = NULL, thread->below = squad->idle;
    if (squad->idle) squad->idle->above = thread;
    squad->idle = thread;
    squad->n_idle++;
}

static void remove_idle(Squad *squad, SquadThread *thread)
{
    if (thread->above) thread->above->below = thread->below;
    else squad->idle = thread->below;
    if (thread->below) thread->below->above = thread->above;
    squad->n_idle--;
}

static struct timespec time_after(double ms)
{
    const double until = time_now_ms() + ms;
    return (struct timespec){ (time_t)(until / 1e3), (long)((until - (double)(i64)(until / 1e3) * 1e3) * 1e6) };
}

// Until there is a job; NULL: the thread is to end.
static SquadJob *wait_for_job(Squad *squad, SquadThread *thread)
{
    push_idle(squad, thread);
    while (!thread->job && !squad->is_closing) {
        const struct timespec until = time_after(KEPT_MS);
        if (squad->n_idle <= KEPT_FOREVER) pthread_cond_wait(&thread->wake, &squad->lock);
        else if (pthread_cond_timedwait(&thread->wake, &squad->lock, &until) == ETIMEDOUT && !thread->job &&
                 squad->n_idle > KEPT_FOREVER)
            break;
    }
    if (!thread->job) remove_idle(squad, thread);          // with a job it was taken off the list already
    return thread->job;
}

// ---- threads --------------------------------------------------------------------------------------------------------

static SquadJob *take_refused(Squad *squad)
{
    SquadJob *job = squad->first;
    if (!job) return NULL;
    squad->first = job->next;
    if (!squad->first) squad->last = &squad->first;
    return job;
}

// Without the lock; JOB is its owner's again as soon as it is marked.
static void run_job(Squad *squad, SquadJob *job)
{
    void (*const notify)(void *) = job->notify;
    void *const  context = job->notify_context;
    job->run(job);
    pthread_mutex_lock(&squad->lock);
    atomic_store(&job->is_done, true);
    if (job->is_awaited) pthread_cond_signal(&job->done);
    pthread_mutex_unlock(&squad->lock);
    if (notify) notify(context);
}

static void thread_init(SquadThread *thread)
{
    pthread_condattr_t monotonic;
    *thread = (SquadThread){ .job = NULL };
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&thread->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void *work(void *context)
{
    SquadStart  start = *(SquadStart *)context;
    Squad      *squad = start.squad;
    SquadThread self;
    free(context);
    thread_init(&self);
    for (SquadJob *job = start.job;;) {
        run_job(squad, job);
        pthread_mutex_lock(&squad->lock);
        self.job = NULL;
        job = take_refused(squad);
        if (!job) job = wait_for_job(squad, &self);
        if (!job) break;                                   // with the lock: a thread that is counted takes refused jobs
        pthread_mutex_unlock(&squad->lock);
    }
    pthread_cond_destroy(&self.wake);
    squad->n_threads--;
    pthread_cond_signal(&squad->thread_left);
    pthread_mutex_unlock(&squad->lock);
    return NULL;
}

// With the lock held, so that a thread is counted before it can end.
static bool start_thread(Squad *squad, SquadJob *job)
{
    pthread_t      thread;
    pthread_attr_t detached;
    SquadStart    *start = malloc(sizeof *start);
    if (!start || fault_now(FAULT_THREAD) || pthread_attr_init(&detached)) {
        free(start);
        return false;
    }
    *start = (SquadStart){ squad, job };
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const bool ok = thread_start(&thread, &detached, work, start) == 0;
    pthread_attr_destroy(&detached);
    if (!ok) free(start);
    squad->n_threads += ok;
    return ok;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static bool has_idle_thread(Squad *squad, SquadJob *job)
{
    SquadThread *thread = squad->idle;
    if (!thread) return false;
    remove_idle(squad, thread);
    thread->job = job;
    pthread_cond_signal(&thread->wake);
    return true;
}

// None is idle, so the next thread that is done with its job takes it.
static bool waits_for_thread(Squad *squad, SquadJob *job)
{
    if (!squad->n_threads) return false;
    *squad->last = job;
    squad->last = &job->next;
    return true;
}

bool squad_start(Squad *squad, SquadJob *job)
{
    atomic_store(&job->is_done, false);
    job->is_awaited = false, job->next = NULL;
    pthread_cond_init(&job->done, NULL);
    pthread_mutex_lock(&squad->lock);
    const bool ok = has_idle_thread(squad, job) || start_thread(squad, job) || waits_for_thread(squad, job);
    pthread_mutex_unlock(&squad->lock);
    if (!ok) pthread_cond_destroy(&job->done);
    return ok;
}

bool squad_is_done(const SquadJob *job) { return atomic_load(&job->is_done); }

void squad_wait(Squad *squad, SquadJob *job)
{
    pthread_mutex_lock(&squad->lock);
    job->is_awaited = true;
    while (!atomic_load(&job->is_done)) pthread_cond_wait(&job->done, &squad->lock);
    pthread_mutex_unlock(&squad->lock);
    pthread_cond_destroy(&job->done);
}

int squad_threads(Squad *squad)
{
    pthread_mutex_lock(&squad->lock);
    const int n_threads = squad->n_threads;
    pthread_mutex_unlock(&squad->lock);
    return n_threads;
}

void squad_free(Squad *squad)
{
    if (!squad) return;
    pthread_mutex_lock(&squad->lock);
    squad->is_closing = true;
    for (SquadThread *thread = squad->idle; thread; thread = thread->below) pthread_cond_signal(&thread->wake);
    while (squad->n_threads) pthread_cond_wait(&squad->thread_left, &squad->lock);
    pthread_mutex_unlock(&squad->lock);
    pthread_mutex_destroy(&squad->lock);
    pthread_cond_destroy(&squad->thread_left);
    free(squad);
}
