// worker.c - the threads that parse: few, with deep stacks, kept for good.
//
// libpg_query keeps a memory context per thread and makes a new pthread key for each thread that it meets, and never
// deletes it: after 1,024 threads no library in the process gets a key any more.  So statements are not parsed on a
// thread of their own but by workers that were made for earlier ones:
//
//     session threads ── jobs, first come, first served ──> workers (256 MiB of stack), at most WORKERS_MOST
//          each waits for its own    <── done ──┘
//
// A session that waits for a worker sees its stop flag; what a worker has begun it ends, since that is bounded
// (README.md).  It looks at the flag now and then, less often the more sessions wait: thousands that each look 50 times
// a second would leave the workers no time to parse.
// Stack pages are address space until they are touched, and go back to the system after a long statement.

#define _GNU_SOURCE                                         // MAP_STACK, MAP_NORESERVE

#include "sql/sql_int.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STACK_WANTED = 256 << 20, STACK_LEAST = 1 << 20, STACK_KEPT = 1 << 20, WORKERS_MOST = 16 };
enum { WAKE_MS = 20, WAKE_SHARE = 16 };                    // sessions that look at their flags within WAKE_MS

typedef struct ParseJob {              // on the stack of its session's thread
    void         (*work)(void *context, size_t stack_bytes);
    void          *context;
    bool           is_begun, is_done;
    pthread_cond_t done;
    struct ParseJob *next, **link;     // among those not yet begun
} ParseJob;

typedef struct Worker {
    char  *stack;                      // above its guard page
    size_t stack_bytes;
} Worker;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards all below and all jobs
static pthread_cond_t  has_job = PTHREAD_COND_INITIALIZER;
static ParseJob       *first, **last = &first;
static int             n_queued, n_idle, n_workers;
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
    pthread_cond_init(&has_job, NULL);
    first = NULL, last = &first;
    n_queued = n_idle = n_workers = 0;
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

static void put_job(ParseJob *job)
{
    job->next = NULL, job->link = last;
    *last = job;
    last = &job->next;
    n_queued++;
}

static void take_job(ParseJob *job)
{
    *job->link = job->next;
    if (job->next) job->next->link = job->link;
    else last = job->link;
    n_queued--;
}

static void *worker_thread(void *argument)
{
    Worker *worker = argument;
    pthread_mutex_lock(&mutex);
    for (;;) {
        n_idle++;
        while (!first) pthread_cond_wait(&has_job, &mutex);
        n_idle--;
        ParseJob *job = first;
        take_job(job);
        job->is_begun = true;
        pthread_mutex_unlock(&mutex);
        job->work(job->context, worker->stack_bytes);
        give_back_stack(worker);
        pthread_mutex_lock(&mutex);
        job->is_done = true;
        pthread_cond_signal(&job->done);
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

static bool start_worker(void)
{
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) return false;
    for (size_t bytes = STACK_WANTED; bytes >= STACK_LEAST; bytes /= 2)
        if (try_stack(worker, bytes)) return true;
    free(worker);
    return false;
}

// Called and returns with the mutex held.
static void grow(void)
{
    if (n_idle > n_queued || n_workers >= n_most) return;
    n_workers++;
    pthread_mutex_unlock(&mutex);
    const bool is_started = start_worker();
    pthread_mutex_lock(&mutex);
    if (!is_started) n_workers--;
}

// A statement that waits for its turn looks at its stop flag now and then.
static void wait_for_turn(ParseJob *job)
{
    struct timespec until;
    const i64       wait_ns = (i64)WAKE_MS * 1000000 * (1 + n_queued / WAKE_SHARE);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ns / 1000000000, until.tv_nsec += wait_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&job->done, &mutex, &until);
}

static weft_status no_worker(Error *err)
{
    fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused a thread");
    error_hint(err, "The process may have reached its limit on threads or address space (ulimit -u, ulimit -v).");
    return WEFT_OUT_OF_MEMORY;
}

// Called and returns with the mutex held.
static weft_status wait_for_end(ParseJob *job, const _Atomic u32 *stop, Error *err)
{
    while (!job->is_done) {
        weft_status status = WEFT_OK;
        if (job->is_begun) {
            pthread_cond_wait(&job->done, &mutex);
            continue;
        }
        if (n_workers == 0) status = no_worker(err);       // those that were being made were refused, too
        else if (stop && atomic_load(stop))
            status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        if (status) {
            take_job(job);
            return status;
        }
        wait_for_turn(job);
    }
    return WEFT_OK;
}

weft_status sql_worker_run(void (*work)(void *context, size_t stack_bytes), void *context,
                           const _Atomic u32 *stop, Error *err)
{
    ParseJob job = { .work = work, .context = context };
    pthread_once(&once, set_up);
    pthread_cond_init(&job.done, NULL);
    pthread_mutex_lock(&mutex);
    grow();
    put_job(&job);
    pthread_cond_signal(&has_job);
    const weft_status status = wait_for_end(&job, stop, err);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&job.done);
    return status;
}
