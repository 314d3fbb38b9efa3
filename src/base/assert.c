// assert.c - the end of a program that finds itself in a state which it rules out.

#define _GNU_SOURCE                                         // gettid

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "weft: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

#ifdef __GLIBC__

// glibc keeps the owner's thread id in every locked mutex.  Asking the system for our own id takes longer than most of
// what is done under a lock, so it is remembered; the child of a fork has another one.
static _Thread_local pid_t own_id;

static void forget_own_id(void)
{
    own_id = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_own_id);
}

bool mutex_is_held(const pthread_mutex_t *mutex)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (own_id == 0) {
        pthread_once(&once, watch_forks);
        own_id = gettid();
    }
    return mutex->__data.__owner == own_id;
}

#else

bool mutex_is_held(const pthread_mutex_t *mutex)
{
    (void)mutex;
    return true;
}

#endif
