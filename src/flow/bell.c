// bell.c - wakes threads that wait for something to happen anywhere.
//
// A waiter reads the number of rings, looks whether there is work, and waits only if the bell has not rung since.  So
// no ring between look and wait is lost, and a ring that no thread waits for costs one atomic addition.

#include <time.h>

#include "flow/flow_int.h"

void bell_init(Bell *bell)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&bell->lock, NULL);
    pthread_cond_init(&bell->rung, &attributes);
    pthread_condattr_destroy(&attributes);
}

void bell_destroy(Bell *bell)
{
    pthread_mutex_destroy(&bell->lock);
    pthread_cond_destroy(&bell->rung);
}

void bell_ring(Bell *bell)
{
    atomic_fetch_add(&bell->number, 1);
    if (atomic_load(&bell->n_waiting) == 0)
        return;
    pthread_mutex_lock(&bell->lock);
    pthread_cond_broadcast(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

struct timespec time_after(int time_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += time_ms % 1000 * 1000000L;
    until.tv_sec += time_ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

void wait_for(pthread_cond_t *condition, pthread_mutex_t *lock, int time_ms)
{
    const struct timespec until = time_after(time_ms);
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cond_timedwait(condition, lock, &until);
    pthread_setcancelstate(before, NULL);
}

void bell_wait(Bell *bell, u64 number, int time_ms)
{
    pthread_mutex_lock(&bell->lock);
    atomic_fetch_add(&bell->n_waiting, 1);
    if (atomic_load(&bell->number) == number)
        wait_for(&bell->rung, &bell->lock, time_ms);
    atomic_fetch_sub(&bell->n_waiting, 1);
    pthread_mutex_unlock(&bell->lock);
}
