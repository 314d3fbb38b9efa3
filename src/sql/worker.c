// worker.c - the threads that parse: few, with deep stacks, kept for good.
//
// libpg_query keeps a memory context per thread and makes a new pthread key for each thread that it meets, and never
// deletes it: after 1,024 threads no library in the process gets a key any more.  So statements are not parsed on a
// thread of their own but handed to a worker that was made for an earlier one:
//
//     session thread ── job ──> worker (256 MiB of stack)         an idle one, a new one while there are few, or
//          waits     <── done ──┘                                 the first to become idle
//
// Who waits for a worker sees its stop flag; what a worker has begun it ends, since that is bounded (README.md).
// Stack pages are address space until they are touched, and go back to the system after a long statement.

#define _GNU_SOURCE                                         // MAP_STACK, MAP_NORESERVE

#include "sql/sql_int.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STACK_WANTED = 256 << 20, STACK_LEAST = 1 << 20, STACK_KEPT = 1 << 20, WORKERS_MOST = 16, WAKE_MS = 20 };

typedef struct Worker {
    struct Worker *next_idle;
    pthread_cond_t changed;            // there is a job, or it is done
    void         (*work)(void *context, size_t stack_bytes);   // NULL: idle, or done
    void          *context;
    char          *stack;              // above its guard page
    size_t         stack_bytes;
} Worker;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards all below and all workers
static pthread_cond_t  has_idle = PTHREAD_COND_INITIALIZER;
static Worker         *idle;
static int             n_workers;
static int             n_most;                             // workers; found out once: it takes a look at files
static pthread_once_t  once = PTHREAD_ONCE_INIT;

// Threads do not survive a fork: the child starts anew, with the lock free.
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_child(void)
{
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&has_idle, NULL);
    idle = NULL;
    n_workers = 0;
}

static void set_up(void)
{
    n_most = MIN_OF(MAX_OF(2 * cpu_count(), 2), WORKERS_MOST);
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

// The frames of worker_thread itself are at the upper end, well within what is kept.
static void give_back_stack(const Worker *worker)
{
    if (worker->stack_bytes > STACK_KEPT) madvise(worker->stack, worker->stack_bytes - STACK_KEPT, MADV_DONTNEED);
}

static void *worker_thread(void *argument)
{
    Worker *worker = argument;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!worker->work) pthread_cond_wait(&worker->changed, &mutex);
        pthread_mutex_unlock(&mutex);
        worker->work(worker->context, worker->stack_bytes);
        give_back_stack(worker);
        pthread_mutex_lock(&mutex);
        worker->work = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    return NULL;
}

// Signals are for the program's own threads.
static bool start_thread(Worker *worker)
{
    sigset_t       blocked, before;
    pthread_attr_t attributes;
    pthread_t      thread;
    if (pthread_attr_init(&attributes)) return false;
    sigfillset(&blocked);
    const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF };
    for (int i = 0; i < COUNT_OF(own_faults); i++) sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const bool is_started = pthread_attr_setstack(&attributes, worker->stack, worker->stack_bytes) == 0 &&
                            pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                            pthread_create(&thread, &attributes, worker_thread, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

// The lowest page is a guard: running off the end must hit it and nothing else.
static bool try_stack(Worker *worker, size_t bytes)
{
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    if (fault_now(FAULT_MEMORY)) return false;
    char *memory = mmap(NULL, bytes + guard, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return false;
    worker->stack = memory + guard;
    worker->stack_bytes = bytes;
    if (mprotect(memory, guard, PROT_NONE) == 0 && start_thread(worker)) return true;
    munmap(memory, bytes + guard);
    return false;
}

static Worker *worker_new(void)
{
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) return NULL;
    pthread_cond_init(&worker->changed, NULL);
    for (size_t bytes = STACK_WANTED; bytes >= STACK_LEAST; bytes /= 2)
        if (try_stack(worker, bytes)) return worker;
    pthread_cond_destroy(&worker->changed);
    free(worker);
    return NULL;
}

// A statement that waits for its turn looks at its stop flag now and then.
static void wait_for_idle(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAKE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&has_idle, &mutex, &until);
}

// Called and returns with the mutex held.
static weft_status take_worker(Worker **worker, const _Atomic u32 *stop, Error *err)
{
    bool may_grow = true;
    while (!idle) {
        if (may_grow && n_workers < n_most) {
            n_workers++;
            pthread_mutex_unlock(&mutex);
            *worker = worker_new();
            pthread_mutex_lock(&mutex);
            if (*worker) return WEFT_OK;
            n_workers--;
            may_grow = false;
        } else if (n_workers == 0) {
            fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused a thread");
            error_hint(err,
                       "The process may have reached its limit on threads or address space (ulimit -u, ulimit -v).");
            return WEFT_OUT_OF_MEMORY;
        } else {
            wait_for_idle();
        }
        if (stop && atomic_load(stop)) {
            pthread_cond_signal(&has_idle);                 // a worker that became idle meanwhile is for somebody else
            return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        }
    }
    *worker = idle;
    idle = idle->next_idle;
    return WEFT_OK;
}

weft_status sql_worker_run(void (*work)(void *context, size_t stack_bytes), void *context,
                           const _Atomic u32 *stop, Error *err)
{
    Worker *worker;
    pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
    const weft_status status = take_worker(&worker, stop, err);
    if (status == WEFT_OK) {
        worker->context = context;
        worker->work = work;
        pthread_cond_broadcast(&worker->changed);
        while (worker->work) pthread_cond_wait(&worker->changed, &mutex);
        worker->next_idle = idle;
        idle = worker;
        pthread_cond_signal(&has_idle);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}
