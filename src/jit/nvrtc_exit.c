// nvrtc_exit.c - what ends the program waits for compiles; see nvrtc_exit.h.
//
// exit calls what is registered last first, and NVRTC registers destructors whenever it comes to a part of itself for
// the first time: most when it is opened, many in the first compile, some in later ones.  What waits for compiles has
// to be called before them.
//
// Where the main thread ends the program, that is certain: its own destructors run before all that is registered with
// atexit.  For other threads atexit must do.  There the waiting is registered before and after NVRTC is opened, and
// again and again during the first compiles.

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jit/nvrtc_exit.h"

#define REGISTER_US  2000
#define WAIT_SECONDS 10                                     // for a compile that never ends

enum { FIRST_COMPILES = 8 };                                // each registration takes 32 bytes; half a second has 250

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             n_inside, n_compiled;
    time_t          waits_until;                            // the program ends; 0: it does not
    _Atomic pid_t   process;                                // whose threads are inside; 0: none have been
} compiles = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

// Not for ever: a program whose main thread alone has ended goes on.
static bool is_ending(void) { return compiles.waits_until && time(NULL) < compiles.waits_until + WAIT_SECONDS; }

// Called once for each time that it was registered: they wait for one time together.
static void wait_for_compiles(void)
{
    struct timespec until = { 0 };
    int             timed_out = 0;
    if (compiles.process && compiles.process != getpid()) return;
    pthread_mutex_lock(&compiles.lock);
    if (!is_ending()) compiles.waits_until = time(NULL) + WAIT_SECONDS;
    until.tv_sec = compiles.waits_until;
    while (compiles.n_inside && !timed_out)
        timed_out = pthread_cond_timedwait(&compiles.changed, &compiles.lock, &until);
    pthread_mutex_unlock(&compiles.lock);
}

// A fork in the middle of atexit would leave its child a locked mutex, and the child could not exit.
static void lock_for_fork(void) { pthread_mutex_lock(&compiles.lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&compiles.lock); }
static void watch_forks(void) { pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork); }

// ---- the main thread ------------------------------------------------------------------------------------------------

// What C++ registers destructors of thread_local objects with, in glibc from 2.18 on.
extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void main_thread_ends(void *unused)
{
    (void)unused;
    wait_for_compiles();
}

void nvrtc_watch_main_thread(void)
{
    static bool is_watched;                                 // of the main thread alone
    if (syscall(SYS_gettid) != getpid() || is_watched || !__cxa_thread_atexit_impl) return;
    is_watched = true;
    __cxa_thread_atexit_impl(main_thread_ends, NULL, &__dso_handle);
}

// ---- other threads --------------------------------------------------------------------------------------------------

static void register_again(void)
{
    if (!is_ending()) atexit(wait_for_compiles);
}

static void register_locked(void)
{
    pthread_mutex_lock(&compiles.lock);
    register_again();
    pthread_mutex_unlock(&compiles.lock);
}

static void *keep_registering(void *context)
{
    pthread_mutex_lock(&compiles.lock);
    while (compiles.n_compiled < FIRST_COMPILES && !is_ending()) {
        if (!compiles.n_inside) {
            pthread_cond_wait(&compiles.changed, &compiles.lock);
            continue;
        }
        register_again();
        pthread_mutex_unlock(&compiles.lock);
        usleep(REGISTER_US);
        pthread_mutex_lock(&compiles.lock);
    }
    pthread_mutex_unlock(&compiles.lock);
    return context;
}

static void start_registrar(void)
{
    pthread_t      thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    thread_start(&thread, &detached, keep_registering, NULL);          // refused: what is registered so far must do
    pthread_attr_destroy(&detached);
}

// ---- compiles -------------------------------------------------------------------------------------------------------

static bool begin_inside(void)
{
    pthread_mutex_lock(&compiles.lock);
    const bool may_begin = !is_ending();
    compiles.process = getpid();
    compiles.n_inside += may_begin;
    pthread_cond_broadcast(&compiles.changed);
    pthread_mutex_unlock(&compiles.lock);
    return may_begin;
}

static void end_inside(bool has_compiled)
{
    pthread_mutex_lock(&compiles.lock);
    ASSERT(compiles.n_inside > 0);
    compiles.n_inside--;
    compiles.n_compiled += has_compiled;
    if (compiles.n_compiled <= FIRST_COMPILES) register_again();
    pthread_cond_broadcast(&compiles.changed);
    pthread_mutex_unlock(&compiles.lock);
}

bool nvrtc_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!begin_inside()) return false;
    pthread_once(&once, start_registrar);
    return true;
}

void nvrtc_leave(void) { end_inside(true); }

bool nvrtc_begin_opening(void)
{
    watch_forks();
    register_locked();
    return begin_inside();
}

void nvrtc_end_opening(bool has_begun)
{
    if (has_begun) end_inside(false);
}
