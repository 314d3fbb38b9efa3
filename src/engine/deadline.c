// deadline.c - SET statement_timeout: one thread per database sleeps until the next deadline and stops that query.
//
// The thread is started with the first deadline, so databases without timeouts have none.

#include "engine/engine.h"

#include <stdlib.h>
#include <time.h>

typedef struct Deadline { weft_session *session; double at_ms; struct Deadline *next; } Deadline;

struct Deadlines {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    Deadline       *first;             // no order: there are few
    pthread_t       thread;
    bool            has_thread, is_closing;
};

Deadlines *deadlines_new(void)
{
    Deadlines *deadlines = calloc(1, sizeof *deadlines);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&deadlines->lock, NULL);
    pthread_cond_init(&deadlines->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return deadlines;
}

// Stops what is due; returns when the next one is, or 0 when there is none.
static double stop_those_due(Deadlines *deadlines)
{
    double next = 0;
    for (Deadline *deadline = deadlines->first; deadline; deadline = deadline->next) {
        if (atomic_load(&deadline->session->timed_out)) continue;
        if (deadline->at_ms > time_now_ms()) {
            next = next == 0 ? deadline->at_ms : MIN_OF(next, deadline->at_ms);
            continue;
        }
        atomic_store(&deadline->session->timed_out, true);
        weft_cancel(deadline->session);
    }
    return next;
}

static void *watch(void *context)
{
    Deadlines *deadlines = context;
    pthread_mutex_lock(&deadlines->lock);
    while (!deadlines->is_closing) {
        const double next = stop_those_due(deadlines);
        const struct timespec until = { (time_t)(next / 1e3), (long)((next - (double)(i64)(next / 1e3) * 1e3) * 1e6) };
        if (next > 0) pthread_cond_timedwait(&deadlines->changed, &deadlines->lock, &until);
        else pthread_cond_wait(&deadlines->changed, &deadlines->lock);
    }
    pthread_mutex_unlock(&deadlines->lock);
    return NULL;
}

void deadlines_free(Deadlines *deadlines)
{
    if (!deadlines) return;
    pthread_mutex_lock(&deadlines->lock);
    deadlines->is_closing = true;
    pthread_cond_signal(&deadlines->changed);
    pthread_mutex_unlock(&deadlines->lock);
    if (deadlines->has_thread) pthread_join(deadlines->thread, NULL);
    pthread_mutex_destroy(&deadlines->lock);
    pthread_cond_destroy(&deadlines->changed);
    free(deadlines);
}

void deadline_set(Deadlines *deadlines, weft_session *session, i64 timeout_ms)
{
    Deadline *deadline = calloc(1, sizeof *deadline);
    pthread_mutex_lock(&deadlines->lock);
    *deadline = (Deadline){ session, time_now_ms() + (double)timeout_ms, deadlines->first };
    deadlines->first = deadline;
    if (!deadlines->has_thread) deadlines->has_thread = thread_start(&deadlines->thread, NULL, watch, deadlines) == 0;
    pthread_cond_signal(&deadlines->changed);
    pthread_mutex_unlock(&deadlines->lock);
}

void deadline_clear(Deadlines *deadlines, weft_session *session)
{
    pthread_mutex_lock(&deadlines->lock);
    for (Deadline **link = &deadlines->first; *link; link = &(*link)->next) {
        if ((*link)->session != session) continue;
        Deadline *gone = *link;
        *link = gone->next;
        free(gone);
        break;
    }
    pthread_mutex_unlock(&deadlines->lock);
}
