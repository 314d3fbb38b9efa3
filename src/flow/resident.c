// resident.c - operators on a GPU: the thread that serves them, and the kernel's coming and going.
//
// One thread of the host goes round all operators (port.c): results back, publish, post.  The kernel is launched when
// there is a round and no kernel; it leaves by itself after 10 ms without a frame.  Operators that were linked
// meanwhile enter while it is away: the thread sends it away at a round boundary, gives each its rings, loads new code,
// and launches again.  Rounds that were posted and that no block had begun stay where they are.
//
// The thread spins while rounds are under way, since a sleep costs more than a frame takes, even a large one: 20 us
// asked for are 75 us slept.  After a millisecond without any progress it sleeps in between, where cores are few much
// earlier.  When nothing is under way it waits for a bell of a topic.
//
// An error of the driver fails the flow with the name of the call.  A kernel that was lost cannot be waited for;
// nothing of it is touched again.  One that computes for ever is noticed by the watchdog (run.c), and keeps the flow's
// memory.
//
// The work vector: at first each operator has as many blocks as another; ten times a second they are shared anew, in
// proportion to the time that rounds of each took.  A block whose operator has nothing to do helps another one.

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "flow/port_int.h"

enum {
    IDLE_MS = 10, LOOK_MS = 1, SPLIT_MS = 100, SPIN_US = 50, SPIN_BUSY_US = 1000, CORES_TO_SPIN = 4, NAP_US = 20,
    WAIT_MS = 100
};

struct ResidentKernel {
    weft_flow     *flow;
    FlowCard      *card;
    Bell           bell;
    pthread_t      thread;
    weft_operator *entering;           // guarded by the flow's lock
    _Atomic bool   has_entering;
    FlowPort      *ports[FLOW_OPERATORS_MOST];              // by number; the thread's, as all that follows
    int            n_numbers;          // that were ever used
    u64            n_vectors;
    bool           needs_split, has_failed;
    double         look_at, split_at;  // when to do so next
};

Bell *resident_bell(ResidentKernel *resident) { return &resident->bell; }

void resident_enter(ResidentKernel *resident, weft_operator *op)
{
    ASSERT(mutex_is_held(&op->flow->lock));
    op->entering = resident->entering;
    resident->entering = op;
    atomic_store(&resident->has_entering, true);
    bell_ring(&resident->bell);
}

// ---- the work vector ------------------------------------------------------------------------------------------------

static u64 weight_of(const FlowPort *port) { return port && port->op ? port->busy_ns + 1 : 0; }

// Each operator gets one block at least, if there are enough, and the rest by weight.
static void split_blocks(ResidentKernel *resident)
{
    FlowCard *card = resident->card;
    const int n_workers = card->n_blocks - 1;               // block 0 is the scout
    double sum = 0;
    int n = 0, block = 1;
    for (int i = 0; i < resident->n_numbers; i++) {
        sum += (double)weight_of(resident->ports[i]);
        n += weight_of(resident->ports[i]) > 0;
    }
    for (int i = 0; i < resident->n_numbers && n > 0; i++) {
        FlowPort *port = resident->ports[i];
        if (!weight_of(port))
            continue;
        int share = 1 + (int)((double)MAX_OF(n_workers - n, 0) * (double)weight_of(port) / sum);
        share = MIN_OF(share, card->n_blocks - block);
        atomic_store_explicit(&port->op->workers, MAX_OF(share, 1), memory_order_relaxed);
        for (int k = 0; k < share; k++)
            __atomic_store_n(&card->posted->vector[block++], (unsigned char)i, __ATOMIC_RELAXED);
        port->busy_ns /= 2;                                 // the past counts, less and less
    }
    while (block < card->n_blocks)
        __atomic_store_n(&card->posted->vector[block++], (unsigned char)FLOW_NO_HOME, __ATOMIC_RELAXED);
    __atomic_store_n(&card->posted->vector_number, ++resident->n_vectors, __ATOMIC_RELEASE);
    resident->needs_split = false;
}

// ---- operators come and go ------------------------------------------------------------------------------------------

static void fail_all(ResidentKernel *resident, const Error *error)
{
    if (!resident->has_failed)
        flow_fail(resident->flow, error);
    resident->has_failed = true;
}

// The kernel knows nothing of its frames any more: no round is under way, or the kernel is gone.
static void end_port(ResidentKernel *resident, FlowPort *port, weft_status status, const Error *error)
{
    weft_operator *op = port->op;
    Error problem = *error;
    pthread_mutex_lock(&resident->card->lock);
    if (!resident->has_failed && port_fetch_context(port, resident->card, &problem))
        status = problem.status;
    pthread_mutex_unlock(&resident->card->lock);
    port->op = NULL;
    resident->needs_split = true;
    atomic_store(&op->busy_since_us, 0);
    flow_operator_ended(op, status, &problem);
}

// The kernel is away: rings of operators that have ended.
static void free_ended(ResidentKernel *resident)
{
    for (int i = 0; i < resident->n_numbers; i++)
        if (resident->ports[i] && !resident->ports[i]->op) {
            port_free(resident->ports[i], resident->card);
            resident->ports[i] = NULL;
        }
}

static weft_status admit(ResidentKernel *resident, weft_operator *op, Error *err)
{
    int number = 0;
    while (number < resident->n_numbers && resident->ports[number])
        number++;
    ASSERT(number < FLOW_OPERATORS_MOST);                   // run.c admits no more
    TRY(port_new(op, number, resident->card, &resident->ports[number], err));
    resident->n_numbers = MAX_OF(resident->n_numbers, number + 1);
    return WEFT_OK;
}

static weft_operator *take_entering(ResidentKernel *resident)
{
    pthread_mutex_lock(&resident->flow->lock);
    weft_operator *list = resident->entering;
    resident->entering = NULL;
    atomic_store(&resident->has_entering, false);
    pthread_mutex_unlock(&resident->flow->lock);
    return list;
}

// At a round boundary: the kernel leaves, and comes back with the next round.
static void let_enter(ResidentKernel *resident)
{
    FlowCard *card = resident->card;
    weft_operator *op = atomic_load(&resident->has_entering) ? take_entering(resident) : NULL;
    Error err = { 0 };
    if (!op)
        return;
    pthread_mutex_lock(&card->lock);
    weft_status status = resident->has_failed ? WEFT_END_OF_STREAM
                                              : card_send_away(card, resident->flow->options.stop_ms, &err);
    if (!status) {
        free_ended(resident);
        status = card_load(card, &err);
    }
    pthread_mutex_unlock(&card->lock);
    for (weft_operator *next; op; op = next) {
        next = op->entering;
        if (!status) {
            pthread_mutex_lock(&card->lock);
            status = card_send_away(card, resident->flow->options.stop_ms, &err);
            if (!status)
                status = admit(resident, op, &err);
            pthread_mutex_unlock(&card->lock);
        }
        if (status) {
            if (err.status)
                fail_all(resident, &err);
            flow_operator_ended(op, status, &err);
        }
    }
    resident->needs_split = true;
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

static bool is_under_way(const ResidentKernel *resident)
{
    for (int i = 0; i < resident->n_numbers; i++)
        if (resident->ports[i] && resident->ports[i]->n_done < resident->ports[i]->n_posted)
            return true;
    return false;
}

static bool step_all(ResidentKernel *resident)
{
    bool has_moved = false;
    for (int i = 0; i < resident->n_numbers && !resident->has_failed; i++) {
        FlowPort *port = resident->ports[i];
        Error err = { 0 };
        if (!port || !port->op)
            continue;
        const weft_status status = port_step(port, resident->card, &has_moved, &err);
        if (status == WEFT_OK)
            continue;
        has_moved = true;
        if (status == WEFT_END_OF_STREAM)
            end_port(resident, port, status, &err);
        else
            fail_all(resident, &err);                       // all end together, when the kernel is away
    }
    return has_moved;
}

// Launches the kernel if it is wanted and not there; looks now and then whether it has failed.
static void keep_running(ResidentKernel *resident)
{
    FlowCard *card = resident->card;
    const double now = time_now_ms();
    weft_status status = WEFT_OK;
    Error err = { 0 };
    if (now >= resident->split_at || resident->needs_split) {
        split_blocks(resident);
        resident->split_at = now + SPLIT_MS;
    }
    pthread_mutex_lock(&card->lock);
    if (!card_is_running(card)) {
        status = card_launch(card, resident->n_numbers, IDLE_MS, &err);
    } else if (now >= resident->look_at) {
        status = card_look(card, &err);
        resident->look_at = now + LOOK_MS;
    }
    pthread_mutex_unlock(&card->lock);
    if (status)
        fail_all(resident, &err);
}

// With no kernel, nothing writes to frames any more.
static void end_all(ResidentKernel *resident)
{
    FlowCard *card = resident->card;
    bool is_gone = false;
    while (!is_gone) {                                      // an operator that never returns: the watchdog tells
        Error err = { 0 };
        pthread_mutex_lock(&card->lock);
        is_gone = card->is_lost || card_send_away(card, CARD_LEAVE_MS, &err) == WEFT_OK;
        pthread_mutex_unlock(&card->lock);
        if (err.status && err.status != WEFT_NOT_READY)
            fail_all(resident, &err);
    }
    const Error none = { 0 };
    for (int i = 0; i < resident->n_numbers; i++)
        if (resident->ports[i] && resident->ports[i]->op)
            end_port(resident, resident->ports[i], WEFT_END_OF_STREAM, &none);
    for (weft_operator *op = take_entering(resident), *next; op; op = next) {
        next = op->entering;
        flow_operator_ended(op, WEFT_END_OF_STREAM, &none);
    }
}

static void wait_a_little(const ResidentKernel *resident, u64 number, double idle_us)
{
    const bool is_busy = is_under_way(resident);
    const int spin_us = is_busy && cpu_count() >= CORES_TO_SPIN ? SPIN_BUSY_US : SPIN_US;
    if (idle_us < spin_us)
        sched_yield();
    else if (is_busy)
        usleep(NAP_US);
    else
        bell_wait((Bell *)(uintptr_t)&resident->bell, number, WAIT_MS);
}

static void *serve(void *context)
{
    ResidentKernel *resident = context;
    weft_flow *flow = resident->flow;
    CardVisit visit;
    Error err = { 0 };
    double last_moved = time_now_ms();
    pthread_mutex_lock(&resident->card->lock);
    card_enter(resident->card, &visit, &err);
    pthread_mutex_unlock(&resident->card->lock);
    if (err.status)
        fail_all(resident, &err);
    while (!atomic_load(&flow->is_leaving)) {
        const u64 number = atomic_load(&resident->bell.number);
        let_enter(resident);
        if (atomic_load(&flow->stop) || resident->has_failed) {
            end_all(resident);
            bell_wait(&resident->bell, number, WAIT_MS);
            continue;
        }
        const bool has_moved = step_all(resident);
        if (is_under_way(resident) && !resident->has_failed)
            keep_running(resident);
        if (has_moved)
            last_moved = time_now_ms();
        else
            wait_a_little(resident, number, (time_now_ms() - last_moved) * 1000);
    }
    end_all(resident);
    card_leave(resident->card, visit);
    return NULL;
}

// ---- from the outside -----------------------------------------------------------------------------------------------

weft_status resident_new(weft_flow *flow, ResidentKernel **out, Error *err)
{
    ResidentKernel *resident = calloc(1, sizeof(ResidentKernel));
    *out = NULL;
    if (!resident)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for the operators of a GPU");
    resident->flow = flow;
    resident->card = flow->card;
    bell_init(&resident->bell);
    if (thread_start(&resident->thread, NULL, serve, resident)) {
        bell_destroy(&resident->bell);
        free(resident);
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "the system gives no thread for the operators of a GPU");
    }
    *out = resident;
    return WEFT_OK;
}

void resident_free(ResidentKernel *resident)
{
    if (!resident)
        return;
    bell_ring(&resident->bell);
    pthread_join(resident->thread, NULL);
    CardVisit visit;
    Error ignored = { 0 };
    // Of a card that was lost, the driver keeps all until the process ends, and a dying kernel may look at it.
    const bool is_in = card_enter(resident->card, &visit, &ignored) == WEFT_OK && !resident->card->is_lost;
    for (int i = 0; i < resident->n_numbers; i++)
        if (resident->ports[i])
            port_free(resident->ports[i], is_in ? resident->card : NULL);
    card_leave(resident->card, visit);
    bell_destroy(&resident->bell);
    free(resident);
}
