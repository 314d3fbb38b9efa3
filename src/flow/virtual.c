// virtual.c - the virtual kernel: operators of the DEVICE side share a few workers, round by round.
//
// This is the paper's algorithm 2 for one thread block, with threads as warps.  Each round the leader (worker 0) looks
// which operators have a frame and room, writes the work vector, and all workers compute:
//
//     work vector   worker   0    1    2    3        A has an input frame and three workers for it,
//                   operator A    A    A    B        B one; C has no frame and sits the round out
//                   thread   0    1    2    0
//
// Between two rounds nothing is computed, so that is where new operators enter, ended ones leave and free their
// workers, and results are published.  An operator whose topic is full keeps its frame and tries again; nothing here
// ever waits for one operator while another could run.  An operator without a frame sits out 1, 2, 4, up to 8 rounds;
// when none has one, the leader sleeps until a topic rings, or a little longer each time.
//
// A worker that ends its thread inside an operator fails the flow: it is noticed by a cleanup handler, which does the
// worker's part of the round's bookkeeping, so no one waits for it.
// Not here: several blocks.  On a GPU each block will run this loop on its part of the frames.

#include <stdio.h>
#include <stdlib.h>

#include "flow/run_int.h"

enum { IDLE_MS_MOST = 20, SKIP_MOST = 8, SPINS = 200 };

typedef struct WorkItem {              // of the work vector
    weft_operator *op;                 // NULL: nothing to do in this round
    u32            thread, n_threads;
    weft_round     round;
    double         time_ms;
} WorkItem;

struct VirtualKernel {
    weft_flow     *flow;
    Bell           bell;               // a topic of ours changed, or an operator entered
    Bell           round_bell;         // a round begins
    _Atomic u64    round;              // that has begun, from 1 on
    Bell           done_bell;          // the last worker is done
    int            n_workers;
    pthread_t      threads[WEFT_WORKERS_MOST];
    int            n_threads;          // that were started
    weft_operator *entering;           // guarded by the flow's lock
    weft_operator *running[KERNEL_OPERATORS_MOST];          // the leader's
    int            n_running, next_first;
    WorkItem       vector[WEFT_WORKERS_MOST];
    _Atomic int    n_left;             // workers that have not finished the round
    _Atomic bool   is_broken;          // a worker is gone
    u64            n_rounds;
};

typedef struct WorkerStart { VirtualKernel *kernel; int worker; } WorkerStart;

Bell *virtual_bell(VirtualKernel *kernel) { return &kernel->bell; }

void virtual_enter(VirtualKernel *kernel, weft_operator *op)
{
    ASSERT(mutex_is_held(&op->flow->lock));
    op->entering = kernel->entering;
    kernel->entering = op;
    bell_ring(&kernel->bell);
}

// ---- operators come and go: the leader, between rounds --------------------------------------------------------------

static void end_operator(VirtualKernel *kernel, int i, weft_status status, const Error *error)
{
    weft_operator *op = kernel->running[i];
    kernel->running[i] = kernel->running[--kernel->n_running];
    flow_operator_ended(op, status, error);
}

static void let_enter(VirtualKernel *kernel)
{
    pthread_mutex_lock(&kernel->flow->lock);
    while (kernel->entering && kernel->n_running < KERNEL_OPERATORS_MOST) {
        weft_operator *op = kernel->entering;
        kernel->entering = op->entering;
        kernel->running[kernel->n_running++] = op;
    }
    pthread_mutex_unlock(&kernel->flow->lock);
}

// OK: it can run now.  NOT_READY: not in this round.
static weft_status make_ready(weft_operator *op, Error *err)
{
    if (op->is_publishing && !atomic_load(&op->stop)) {
        const weft_status status = operator_publish(op, 0, err);
        if (status != WEFT_OK)
            return status;
    }
    TRY(operator_prepare(op, 0, err));
    return !op->output || topic_has_room(op->output->topic, 0) ? WEFT_OK : WEFT_NOT_READY;
}

static void sit_out(weft_operator *op)
{
    op->n_idle = MIN_OF(op->n_idle + 1, 16);
    op->n_skip = MIN_OF((1 << MIN_OF(op->n_idle, 8)) / 2, SKIP_MOST) - 1;
    atomic_fetch_add_explicit(&op->waits, 1, memory_order_relaxed);
}

static int find_ready(VirtualKernel *kernel, weft_operator **ready)
{
    int n_ready = 0;
    for (int i = 0; i < kernel->n_running; i++) {
        weft_operator *op = kernel->running[i];
        Error err = { 0 };
        if (op->n_skip > 0) {
            op->n_skip--;
            continue;
        }
        const weft_status status = make_ready(op, &err);
        if (status == WEFT_OK) {
            op->n_idle = 0;
            ready[n_ready++] = op;
        } else if (status == WEFT_NOT_READY) {
            sit_out(op);
        } else {
            end_operator(kernel, i--, status, &err);
        }
    }
    return n_ready;
}

// ---- a round --------------------------------------------------------------------------------------------------------

// With more operators than workers, each round serves the next few of them.
static int choose(VirtualKernel *kernel, weft_operator **ready, int n_ready)
{
    weft_operator *chosen[WEFT_WORKERS_MOST];
    if (n_ready <= kernel->n_workers)
        return n_ready;
    for (int i = 0; i < kernel->n_workers; i++)
        chosen[i] = ready[(kernel->next_first + i) % n_ready];
    kernel->next_first = (kernel->next_first + kernel->n_workers) % n_ready;
    memcpy(ready, chosen, (size_t)kernel->n_workers * sizeof(*ready));
    return kernel->n_workers;
}

static void write_work_vector(VirtualKernel *kernel, weft_operator *const *ready, int n_ready)
{
    int workers[WEFT_WORKERS_MOST], at = 0;
    split_workers(ready, n_ready, kernel->n_workers, kernel->n_rounds, kernel->flow->options.is_untuned, workers);
    for (int i = 0; i < n_ready; i++) {
        atomic_store_explicit(&ready[i]->workers, workers[i], memory_order_relaxed);
        for (int thread = 0; thread < workers[i]; thread++)
            kernel->vector[at++] = (WorkItem){ .op = ready[i], .thread = (u32)thread, .n_threads = (u32)workers[i] };
    }
    ASSERT(at <= kernel->n_workers);
    while (at < kernel->n_workers)
        kernel->vector[at++] = (WorkItem){ .op = NULL };
}

static void worker_is_done(VirtualKernel *kernel)
{
    if (atomic_fetch_sub(&kernel->n_left, 1) == 1)
        bell_ring(&kernel->done_bell);
}

static void compute_item(VirtualKernel *kernel, int worker)
{
    WorkItem *item = &kernel->vector[worker];
    if (item->op)
        item->time_ms = operator_compute(item->op, item->thread, item->n_threads, time_now_ms(), &item->round);
}

static void wait_for_workers(VirtualKernel *kernel)
{
    for (int i = 0; i < SPINS && atomic_load(&kernel->n_left) > 0; i++)
        continue;
    for (;;) {
        const u64 number = atomic_load(&kernel->done_bell.number);
        if (atomic_load(&kernel->n_left) == 0)
            return;
        bell_wait(&kernel->done_bell, number, 1000);
    }
}

// What the workers of one operator left, as one round.
static double join_items(const VirtualKernel *kernel, const weft_operator *op, weft_round *round)
{
    double time_ms = 0;
    *round = (weft_round){ 0 };
    for (int i = 0; i < kernel->n_workers; i++) {
        const WorkItem *item = &kernel->vector[i];
        if (item->op != op)
            continue;
        round->output_bytes = MAX_OF(round->output_bytes, item->round.output_bytes);
        if (item->thread == 0)
            round->output_tag = item->round.output_tag;
        if (item->round.status && (!round->status || round->status == WEFT_END_OF_STREAM))
            round->status = item->round.status;
        time_ms = MAX_OF(time_ms, item->time_ms);
    }
    return time_ms;
}

static void finish(VirtualKernel *kernel, weft_operator *op)
{
    weft_round round;
    Error err = { 0 };
    const double time_ms = join_items(kernel, op, &round);
    atomic_store(&op->busy_since_us, 0);
    split_note(op, atomic_load(&op->workers), time_ms);
    const weft_status status = operator_finish(op, &round, 0, &err);
    if (status == WEFT_OK || status == WEFT_NOT_READY)
        return;
    for (int i = 0; i < kernel->n_running; i++)
        if (kernel->running[i] == op) {
            end_operator(kernel, i, status, &err);
            return;
        }
}

static void run_round(VirtualKernel *kernel, weft_operator **ready, int n_ready)
{
    n_ready = choose(kernel, ready, n_ready);
    write_work_vector(kernel, ready, n_ready);
    const i64 now_us = (i64)(time_now_ms() * 1000);
    for (int i = 0; i < n_ready; i++)
        atomic_store(&ready[i]->busy_since_us, now_us);
    atomic_store(&kernel->n_left, kernel->n_threads - 1);
    atomic_fetch_add(&kernel->round, 1);
    bell_ring(&kernel->round_bell);
    compute_item(kernel, 0);
    wait_for_workers(kernel);
    if (atomic_load(&kernel->is_broken))
        return;                                             // frames are half computed: the flow has failed
    for (int i = 0; i < n_ready; i++)
        finish(kernel, ready[i]);
    kernel->n_rounds++;
}

// ---- workers --------------------------------------------------------------------------------------------------------

static bool is_leaving(VirtualKernel *kernel)
{
    return atomic_load(&kernel->flow->is_leaving) || atomic_load(&kernel->is_broken);
}

static void end_all(VirtualKernel *kernel)
{
    const Error none = { 0 };
    let_enter(kernel);
    while (kernel->n_running > 0)
        end_operator(kernel, 0, WEFT_END_OF_STREAM, &none);
}

static void lead(VirtualKernel *kernel)
{
    weft_operator *ready[KERNEL_OPERATORS_MOST];
    for (int idle_ms = 1; !is_leaving(kernel);) {
        const u64 number = atomic_load(&kernel->bell.number);
        let_enter(kernel);
        const int n_ready = find_ready(kernel, ready);
        if (n_ready > 0) {
            run_round(kernel, ready, n_ready);
            idle_ms = 1;
            continue;
        }
        for (int i = 0; i < kernel->n_running; i++)
            kernel->running[i]->n_skip = 0;                 // no other runs: look at once when the bell rings
        bell_wait(&kernel->bell, number, kernel->n_running > 0 ? idle_ms : 1000);
        idle_ms = MIN_OF(2 * idle_ms, IDLE_MS_MOST);
    }
    end_all(kernel);
}

static void follow(VirtualKernel *kernel, int worker)
{
    for (u64 seen = 0;;) {
        const u64 number = atomic_load(&kernel->round_bell.number);
        if (atomic_load(&kernel->round) != seen) {
            seen++;
            if (!atomic_load(&kernel->is_broken))
                compute_item(kernel, worker);
            worker_is_done(kernel);
        } else if (is_leaving(kernel)) {
            return;
        } else {
            bell_wait(&kernel->round_bell, number, 1000);
        }
    }
}

// An operator has ended the thread of a worker.
static void worker_died(void *context)
{
    const WorkerStart *start = context;
    VirtualKernel *kernel = start->kernel;
    const weft_operator *op = kernel->vector[start->worker].op;
    Error err = { 0 };
    fail(&err, WEFT_OPERATOR_FAILED, NO_PLACE, "operator \"%s\" ended the thread that it ran on", op ? op->name : "?");
    atomic_store(&kernel->is_broken, true);
    flow_fail(kernel->flow, &err);
    if (start->worker == 0) {
        wait_for_workers(kernel);
        end_all(kernel);
    } else {
        worker_is_done(kernel);
    }
    bell_ring(&kernel->round_bell);
    free(context);
}

static void *worker_body(void *context)
{
    WorkerStart *start = context;
    pthread_cleanup_push(worker_died, start);
    if (start->worker == 0)
        lead(start->kernel);
    else
        follow(start->kernel, start->worker);
    pthread_cleanup_pop(0);
    free(start);
    return NULL;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static bool start_worker(VirtualKernel *kernel, int worker)
{
    WorkerStart *start = malloc(sizeof(WorkerStart));
    if (!start)
        return false;
    *start = (WorkerStart){ kernel, worker };
    if (thread_start(&kernel->threads[worker], NULL, worker_body, start) == 0)
        return true;
    free(start);
    return false;
}

// The leader is started last, and only then are there rounds: with as many workers as the system gave.
weft_status virtual_new(weft_flow *flow, VirtualKernel **out, Error *err)
{
    VirtualKernel *kernel = calloc(1, sizeof(VirtualKernel));
    *out = NULL;
    if (!kernel)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for the workers of the flow");
    kernel->flow = flow;
    bell_init(&kernel->bell);
    bell_init(&kernel->round_bell);
    bell_init(&kernel->done_bell);
    kernel->n_threads = 1;
    while (kernel->n_threads < flow->options.workers && start_worker(kernel, kernel->n_threads))
        kernel->n_threads++;
    kernel->n_workers = kernel->n_threads;
    if (!start_worker(kernel, 0)) {
        atomic_store(&kernel->is_broken, true);
        bell_ring(&kernel->round_bell);
        for (int i = 1; i < kernel->n_threads; i++)
            pthread_join(kernel->threads[i], NULL);
        kernel->n_threads = 0;
        virtual_free(kernel);
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "the system gives no thread for the workers of the flow");
    }
    *out = kernel;
    return WEFT_OK;
}

void virtual_free(VirtualKernel *kernel)
{
    if (!kernel)
        return;
    bell_ring(&kernel->bell);
    bell_ring(&kernel->round_bell);
    for (int i = 0; i < kernel->n_threads; i++)
        pthread_join(kernel->threads[i], NULL);
    bell_destroy(&kernel->bell);
    bell_destroy(&kernel->round_bell);
    bell_destroy(&kernel->done_bell);
    free(kernel);
}
