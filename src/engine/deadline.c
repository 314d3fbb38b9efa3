// deadline.c - SET statement_timeout: one thread per database sleeps until the next deadline and stops that query.
//
// The thread is started with the first deadline, so databases without timeouts have none.  Thousands of sessions may
// have a deadline each, set and cleared with every query: they are a heap with the earliest first, and the thread is
// woken only for one that is earlier than what it sleeps for, so with timeouts of one length almost never.

#include "engine/engine.h"

#include <stdlib.h>
#include <time.h>

typedef struct Deadline { weft_session *session; double at_ms; } Deadline;

struct Deadlines {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    Deadline       *heap;              // the earliest first; a session knows its place (deadline_place)
    int             n, capacity;
    double          wakes_at_ms;       // when the thread looks again; 0: it sleeps until woken
    pthread_t       thread;
    bool            has_thread, is_closing;
};

// ---- the heap; with the lock held -----------------------------------------------------------------------------------

static void put_at(Deadlines *deadlines, int place, Deadline deadline)
{
    deadlines->heap[place] = deadline;
    deadline.session->deadline_place = place + 1;
}

static void move_up(Deadlines *deadlines, int place, Deadline deadline)
{
    for (; place > 0 && deadlines->heap[(place - 1) / 2].at_ms > deadline.at_ms; place = (place - 1) / 2)
        put_at(deadlines, place, deadlines->heap[(place - 1) / 2]);
    put_at(deadlines, place, deadline);
}

static void move_down(Deadlines *deadlines, int place, Deadline deadline)
{
    for (int child; (child = 2 * place + 1) < deadlines->n; place = child) {
        if (child + 1 < deadlines->n && deadlines->heap[child + 1].at_ms < deadlines->heap[child].at_ms) child++;
        if (deadlines->heap[child].at_ms >= deadline.at_ms) break;
        put_at(deadlines, place, deadlines->heap[child]);
    }
    put_at(deadlines, place, deadline);
}

static void remove_at(Deadlines *deadlines, int place)
{
    deadlines->heap[place].session->deadline_place = 0;
    const Deadline last = deadlines->heap[--deadlines->n];
    if (place == deadlines->n) return;
    if (place > 0 && deadlines->heap[(place - 1) / 2].at_ms > last.at_ms) move_up(deadlines, place, last);
    else move_down(deadlines, place, last);
}

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
    while (deadlines->n) {
        const Deadline earliest = deadlines->heap[0];
        if (earliest.at_ms > time_now_ms()) return earliest.at_ms;
        remove_at(deadlines, 0);
        atomic_store(&earliest.session->timed_out, true);
        weft_cancel(earliest.session);
    }
    return 0;
}

static void *watch(void *context)
{
    Deadlines *deadlines = context;
    pthread_mutex_lock(&deadlines->lock);
    while (!deadlines->is_closing) {
        const double next = deadlines->wakes_at_ms = stop_those_due(deadlines);
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
    free(deadlines->heap);
    free(deadlines);
}

void deadline_set(Deadlines *deadlines, weft_session *session, i64 timeout_ms)
{
    const Deadline deadline = { session, time_now_ms() + (double)timeout_ms };
    pthread_mutex_lock(&deadlines->lock);
    if (deadlines->n == deadlines->capacity) {
        deadlines->capacity = MAX_OF(16, 2 * deadlines->capacity);
        deadlines->heap = realloc(deadlines->heap, (size_t)deadlines->capacity * sizeof *deadlines->heap);
        if (!deadlines->heap) abort();                      // as small allocations do
    }
    move_up(deadlines, deadlines->n++, deadline);
    if (!deadlines->has_thread) deadlines->has_thread = thread_start(&deadlines->thread, NULL, watch, deadlines) == 0;
    if (deadlines->wakes_at_ms == 0 || deadline.at_ms < deadlines->wakes_at_ms)
        pthread_cond_signal(&deadlines->changed);
    pthread_mutex_unlock(&deadlines->lock);
}

void deadline_clear(Deadlines *deadlines, weft_session *session)
{
    pthread_mutex_lock(&deadlines->lock);
    if (session->deadline_place) remove_at(deadlines, session->deadline_place - 1);
    pthread_mutex_unlock(&deadlines->lock);
}
