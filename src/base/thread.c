// thread.c - a pool of workers, deep stacks, the clock.
//
// A run of the pool is a number of worker indexes to be worked off.  Threads take the next index as they wake up, and
// so does the caller when it is done with index 0:
//
//     caller   work(0) work(3)            returns once all indexes are done
//     thread 1   work(1)
//     thread 2      work(2)
//
// A worker usually takes morsels until none are left, so when the work is small the caller does all of it, finds the
// other indexes empty, and never waits for a sleeping thread.  The price: workers must not wait for each other.

#define _GNU_SOURCE                                         // sched_getaffinity

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/base_int.h"

// ---- how many cores -------------------------------------------------------------------------------------------------

// Containers limit cores by a share of time ("200000 100000" is two cores), which the affinity mask does not show.
static int cpu_quota(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return INT32_MAX;
    long long quota, period;
    int n_read = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    if (n_read != 2 || quota <= 0 || period <= 0)           // "max 100000": no limit
        return INT32_MAX;
    return (int)MIN_OF((quota + period - 1) / period, INT32_MAX);
}

static int n_cpus;

static void count_cpus(void)
{
    cpu_set_t allowed;
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        n_cores = CPU_COUNT(&allowed);
    n_cpus = (int)MAX_OF(1, MIN_OF(n_cores, cpu_quota()));
}

int cpu_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_cpus);                        // it takes reading files, and does not change
    return n_cpus;
}

// ---- threads --------------------------------------------------------------------------------------------------------

int thread_start(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *context)
{
    sigset_t blocked, before;
    ASSERT(body);
    sigfillset(&blocked);
    const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF };
    for (int i = 0; i < COUNT_OF(own_faults); i++)
        sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failure = pthread_create(thread, attributes, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

void thread_step_back(void)
{
    errno = 0;
    int ours = getpriority(PRIO_PROCESS, 0);                // of this thread: Linux has a priority for each
    if (errno == 0)
        setpriority(PRIO_PROCESS, 0, MIN_OF(ours + STEP_BACK, 19));
}

// ---- the pool -------------------------------------------------------------------------------------------------------

struct Pool {
    pthread_mutex_t mutex;                                  // guards all below
    pthread_cond_t  has_work, is_done, next_turn;
    u64             turn_next, turn_now;                    // callers queue up in order
    void          (*work)(void *context, int worker);
    void           *context;
    int             worker_next, worker_end;                // indexes not yet taken by a thread
    int             n_running;                              // indexes not yet returned
    bool            is_closing;
    int             n_threads;                              // besides the caller's
    pthread_t       threads[];
};

// The pool whose work this thread is doing.  A run inside a run of the same pool would wait for itself.
static _Thread_local const Pool *inside_pool;

static bool take_index(Pool *pool, int *worker)
{
    ASSERT(mutex_is_held(&pool->mutex));
    if (pool->worker_next >= pool->worker_end)
        return false;
    *worker = pool->worker_next++;
    return true;
}

// Works off one index; called and returns with the mutex held.
static void do_index(Pool *pool, int worker)
{
    ASSERT(mutex_is_held(&pool->mutex));
    ASSERT(worker < pool->worker_end && pool->n_running > 0);
    void (*work)(void *, int) = pool->work;
    void *context = pool->context;
    pthread_mutex_unlock(&pool->mutex);
    const Pool *outer = inside_pool;
    inside_pool = pool;
    work(context, worker);
    inside_pool = outer;
    pthread_mutex_lock(&pool->mutex);
    if (--pool->n_running == 0)
        pthread_cond_signal(&pool->is_done);
}

static void *pool_thread(void *context)
{
    Pool *pool = context;
    int worker;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_closing) {
        if (take_index(pool, &worker))
            do_index(pool, worker);
        else
            pthread_cond_wait(&pool->has_work, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

Pool *pool_new(int n_workers)
{
    int n_wanted = MAX_OF(n_workers, 1) - 1;
    Pool *pool = small_alloc(sizeof(Pool) + sizeof(pthread_t) * (size_t)n_wanted);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    pthread_cond_init(&pool->is_done, NULL);
    pthread_cond_init(&pool->next_turn, NULL);
    while (pool->n_threads < n_wanted) {
        if (thread_start(&pool->threads[pool->n_threads], NULL, pool_thread, pool) != 0) {
            log_warn("the system refused a thread: going on with %d workers of %d", pool->n_threads + 1, n_wanted + 1);
            break;
        }
        pool->n_threads++;
    }
    return pool;
}

void pool_free(Pool *pool)
{
    if (!pool)
        return;
    ASSERT(inside_pool != pool);                            // or it would wait for itself
    pthread_mutex_lock(&pool->mutex);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->next_turn);
    pthread_cond_destroy(&pool->is_done);
    pthread_cond_destroy(&pool->has_work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

int pool_size(const Pool *pool)
{
    return pool->n_threads + 1;
}

static void run_alone(int n_workers, void (*work)(void *context, int worker), void *context)
{
    for (int worker = 0; worker < n_workers; worker++)
        work(context, worker);
}

static void wait_for_turn(Pool *pool)
{
    u64 turn = pool->turn_next++;
    while (pool->turn_now != turn)
        pthread_cond_wait(&pool->next_turn, &pool->mutex);
}

static void end_turn(Pool *pool)
{
    ASSERT(mutex_is_held(&pool->mutex));
    ASSERT(pool->n_running == 0 && pool->worker_next >= pool->worker_end);
    ASSERT(pool->turn_now < pool->turn_next);
    pool->turn_now++;
    pthread_cond_broadcast(&pool->next_turn);
}

void pool_run(Pool *pool, int n_workers, void (*work)(void *context, int worker), void *context)
{
    if (n_workers < 1)
        return;
    if (inside_pool == pool) {
        run_alone(n_workers, work, context);
        return;
    }
    ASSERT(work);
    pthread_mutex_lock(&pool->mutex);
    wait_for_turn(pool);
    pool->work = work;
    pool->context = context;
    pool->worker_next = 1;
    pool->worker_end = n_workers;
    pool->n_running = n_workers;
    for (int i = 0; i < MIN_OF(n_workers - 1, pool->n_threads); i++)
        pthread_cond_signal(&pool->has_work);
    int worker = 0;
    do
        do_index(pool, worker);
    while (take_index(pool, &worker));
    while (pool->n_running > 0)
        pthread_cond_wait(&pool->is_done, &pool->mutex);
    end_turn(pool);
    pthread_mutex_unlock(&pool->mutex);
}

// ---- deep stacks ----------------------------------------------------------------------------------------------------

enum { STACK_MIN = 1 << 20 };

typedef struct StackRun {
    void (*work)(void *context, size_t stack_bytes);
    void  *context;
    size_t stack_bytes;
    const Pool *inside;                                     // the caller's: the work is done on its behalf
} StackRun;

static void *stack_thread(void *context)
{
    StackRun *run = context;
    inside_pool = run->inside;
    run->work(run->context, run->stack_bytes);
    return NULL;
}

// Pages are taken from the system only when touched, so a deep stack costs address space, not memory.  The lowest page
// is a guard: running off the end must hit it and nothing else.
static int run_on(char *memory, size_t guard, StackRun *run)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int failure = pthread_attr_init(&attributes);
    if (failure)
        return failure;
    if (mprotect(memory, guard, PROT_NONE) != 0)
        failure = errno;
    if (!failure)
        failure = pthread_attr_setstack(&attributes, memory + guard, run->stack_bytes);
    if (!failure)
        failure = thread_start(&thread, &attributes, stack_thread, run);
    pthread_attr_destroy(&attributes);
    if (!failure)
        pthread_join(thread, NULL);
    return failure;
}

static int try_stack(size_t guard, StackRun *run)
{
    if (fault_now(FAULT_MEMORY))
        return ENOMEM;
    size_t bytes = run->stack_bytes + guard;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    int failure = run_on(memory, guard, run);
    munmap(memory, bytes);
    return failure;
}

weft_status run_with_stack(size_t stack_bytes, void (*work)(void *context, size_t stack_bytes), void *context,
                           Error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t wanted = MIN_OF(MAX_OF(stack_bytes, STACK_MIN), (size_t)1 << 46);
    for (size_t bytes = wanted; bytes >= STACK_MIN; bytes /= 2) {
        StackRun run = { work, context, (bytes + page - 1) & ~(page - 1), inside_pool };
        if (try_stack(page, &run) == 0)
            return WEFT_OK;
    }
    weft_status status = fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused a thread");
    error_hint(err, "The process may have reached its limit on threads or address space (ulimit -u, ulimit -v).");
    return status;
}

// ---- the clock ------------------------------------------------------------------------------------------------------

double time_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
