// run.c - a flow from the outside: topics, links, start, wait, stop.
//
// An operator of the HOST side is a thread that loops over rounds.  One of the DEVICE side belongs to the virtual
// kernel, whose workers are started with the first such operator.  A supervisor looks every quarter of the watchdog's
// time whether an operator has been in one round for longer than that.  It cannot end a thread: it fails the flow, so
// that all who wait learn of it, and counts the operator as stuck.
//
// Freeing waits for operators to return.  One that never does keeps the flow: memory that a thread may still use is not
// freed, and the log says so.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "flow/card_int.h"
#include "flow/run_int.h"
#include "kernel/kernel.h"

enum { ROUND_WAIT_MS = 50 };           // an operator that waits looks so often whether it was stopped

// ---- operators of the host ------------------------------------------------------------------------------------------

// Two looks at the clock are a quarter of what a frame costs its operator, where that does little.  So of short rounds
// one in TIMED is timed, and counts for all of them.
enum { SHORT_US = 5, TIMED = 8 };

static void compute_host(weft_operator *op, weft_round *round)
{
    const i64 number = atomic_load_explicit(&op->rounds, memory_order_relaxed);
    const bool is_timed = !op->is_short || number % TIMED == 0;
    const double began_ms = is_timed ? time_now_ms() : 0;
    const i64 since = is_timed ? (i64)(began_ms * 1000) : -(number + 1);
    atomic_store_explicit(&op->busy_since_us, since, memory_order_relaxed);
    const double time_ms = operator_compute(op, 0, 1, began_ms, round);
    atomic_store_explicit(&op->busy_since_us, 0, memory_order_relaxed);
    if (!is_timed)
        return;
    if (op->is_short)
        atomic_fetch_add_explicit(&op->busy_us, (i64)(time_ms * 1000 * (TIMED - 1)), memory_order_relaxed);
    op->is_short = time_ms * 1000 < SHORT_US;
}

static weft_status host_round(weft_operator *op, Error *err)
{
    weft_round round;
    weft_status status;
    while ((status = operator_prepare(op, ROUND_WAIT_MS, err)) == WEFT_NOT_READY) {
        atomic_fetch_add(&op->waits, 1);
        error_clear(err);
    }
    TRY(status);
    compute_host(op, &round);
    status = operator_finish(op, &round, ROUND_WAIT_MS, err);
    while (status == WEFT_NOT_READY && !atomic_load(&op->stop)) {
        error_clear(err);
        status = operator_publish(op, ROUND_WAIT_MS, err);
    }
    return status == WEFT_NOT_READY ? WEFT_END_OF_STREAM : status;
}

static void host_died(void *context)
{
    weft_operator *op = context;
    Error err = { 0 };
    atomic_store(&op->busy_since_us, 0);
    fail(&err, WEFT_OPERATOR_FAILED, NO_PLACE, "operator \"%s\" ended the thread that it ran on", op->name);
    flow_operator_ended(op, WEFT_OPERATOR_FAILED, &err);
}

static void *host_body(void *context)
{
    weft_operator *op = context;
    Error err = { 0 };
    weft_status status = WEFT_OK;
    pthread_cleanup_push(host_died, op);
    while (status == WEFT_OK)
        status = host_round(op, &err);
    pthread_cleanup_pop(0);
    flow_operator_ended(op, status, &err);
    return NULL;
}

// With the flow's lock.
static weft_status begin_on_device(weft_operator *op, Error *err)
{
    weft_flow *flow = op->flow;
    if (op->is_on_gpu && !flow->resident)
        TRY(resident_new(flow, &flow->resident, err));
    if (!op->is_on_gpu && !flow->kernel)
        TRY(virtual_new(flow, &flow->kernel, err));
    Bell *bell = op->is_on_gpu ? resident_bell(flow->resident) : virtual_bell(flow->kernel);
    if (op->input)
        topic_add_bell(op->input->topic, bell);
    if (op->output)
        topic_add_bell(op->output->topic, bell);
    op->has_begun = true;
    if (op->is_on_gpu)
        resident_enter(flow->resident, op);
    else
        virtual_enter(flow->kernel, op);
    return WEFT_OK;
}

// With the flow's lock.
static weft_status begin_operator(weft_operator *op, Error *err)
{
    if (op->options.side == WEFT_SIDE_DEVICE)
        return begin_on_device(op, err);
    op->workers = 1;
    if (thread_start(&op->thread, NULL, host_body, op))
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "the system gives no thread for operator \"%s\"", op->name);
    op->has_thread = op->has_begun = true;
    return WEFT_OK;
}

// ---- the watchdog ---------------------------------------------------------------------------------------------------

// With the flow's lock.  A round that was not timed began when it was seen first, at the latest.
static i64 busy_since(weft_operator *op, i64 now_us)
{
    const i64 since = atomic_load(&op->busy_since_us);
    if (since >= 0)
        return since;
    if (since != op->watched_round)
        op->watched_since_us = now_us;
    op->watched_round = since;
    return op->watched_since_us;
}

// With the flow's lock, under which the error is written, too: weft_flow_wait does not wait for operators that are
// stuck, so it may return as soon as the lock is free.
static bool fail_if_stuck(weft_flow *flow)
{
    const i64 now_us = (i64)(time_now_ms() * 1000), most_us = (i64)flow->options.watchdog_ms * 1000;
    const weft_operator *first = NULL;
    for (weft_operator *op = flow->operators; op; op = op->next) {
        const i64 since = busy_since(op, now_us);
        const bool is_stuck = since > 0 && now_us - since > most_us && !atomic_load(&op->has_ended);
        if (is_stuck && !atomic_exchange(&op->is_stuck, true) && !first)
            first = op;
        if (!is_stuck)
            atomic_store(&op->is_stuck, false);
    }
    if (!first)
        return false;
    Error err = { 0 };
    fail(&err, WEFT_OPERATOR_FAILED, NO_PLACE, "operator \"%s\" has computed one frame for more than %d ms",
         first->name, flow->options.watchdog_ms);
    flow_note_failure(flow, &err);
    return true;
}

// Memory comes from the card, so without it even operators of the host would wait for ever.  With the flow's lock,
// which it lets go meanwhile.
static void fail_if_card_is_lost(weft_flow *flow)
{
    Error err = { 0 };
    if (!flow->card || flow->error.status || card_check(flow->card, &err) == WEFT_OK)
        return;
    pthread_mutex_unlock(&flow->lock);
    flow_fail(flow, &err);
    pthread_mutex_lock(&flow->lock);
}

static void *supervise(void *context)
{
    weft_flow *flow = context;
    const int pause_ms = MAX_OF(1, MIN_OF(flow->options.watchdog_ms / 4, 250));
    pthread_mutex_lock(&flow->lock);
    while (!atomic_load(&flow->is_leaving)) {
        fail_if_card_is_lost(flow);
        if (fail_if_stuck(flow)) {
            pthread_mutex_unlock(&flow->lock);
            flow_wake(flow);
            pthread_mutex_lock(&flow->lock);
            continue;
        }
        wait_for(&flow->changed, &flow->lock, pause_ms);
    }
    pthread_mutex_unlock(&flow->lock);
    return NULL;
}

// ---- starting and ending --------------------------------------------------------------------------------------------

weft_status weft_flow_start(weft_flow *flow, weft_error *error)
{
    weft_status status = WEFT_OK;
    error_clear(error);
    pthread_mutex_lock(&flow->lock);
    if (flow->is_running || atomic_load(&flow->stop)) {
        status = fail(error, WEFT_SESSION_BUSY, NO_PLACE, "the flow was started already");
    } else {
        flow->is_running = true;
        if (flow->options.watchdog_ms > 0)
            flow->has_supervisor = thread_start(&flow->supervisor, NULL, supervise, flow) == 0;
        if (flow->options.watchdog_ms > 0 && !flow->has_supervisor)
            status = fail(error, WEFT_OUT_OF_MEMORY, NO_PLACE, "the system gives no thread for the watchdog");
        prepare_memory(flow);
        for (weft_operator *op = flow->operators; op && status == WEFT_OK; op = op->next)
            status = begin_operator(op, error);
    }
    pthread_mutex_unlock(&flow->lock);
    if (status == WEFT_OUT_OF_MEMORY)
        flow_fail(flow, error);
    return status;
}

// Operators that are still to end and may be waited for; with the flow's lock.
static int count_live(const weft_flow *flow)
{
    int n_live = 0;
    for (const weft_operator *op = flow->operators; op; op = op->next)
        n_live += !atomic_load(&op->has_ended) && !atomic_load(&op->is_stuck) && op->has_begun;
    for (const weft_operator *op = flow->operators; op; op = op->next)
        if (atomic_load(&op->is_stuck) && op->options.side == WEFT_SIDE_DEVICE)     // its round never ends
            for (const weft_operator *other = flow->operators; other; other = other->next)
                n_live -= other->options.side == WEFT_SIDE_DEVICE && other->has_begun &&
                          !atomic_load(&other->has_ended) && !atomic_load(&other->is_stuck);
    return MAX_OF(n_live, 0);
}

weft_status weft_flow_wait(weft_flow *flow, int timeout_ms, weft_error *error)
{
    const double until = time_now_ms() + timeout_ms;
    weft_status status = WEFT_OK;
    error_clear(error);
    pthread_mutex_lock(&flow->lock);
    while (count_live(flow) > 0) {
        const double left = timeout_ms < 0 ? 1000 : until - time_now_ms();
        if (left <= 0)
            break;
        wait_for(&flow->changed, &flow->lock, (int)MIN_OF(left + 1, 1000));
    }
    if (flow->error.status) {
        if (error)
            *error = flow->error;
        status = flow->error.status;
    } else if (count_live(flow) > 0) {
        status = fail(error, WEFT_NOT_READY, NO_PLACE, "operators of the flow are still running");
    }
    pthread_mutex_unlock(&flow->lock);
    return status;
}

weft_status weft_flow_run(weft_flow *flow, weft_error *error)
{
    TRY(weft_flow_start(flow, error));
    return weft_flow_wait(flow, WEFT_FOREVER, error);
}

void weft_flow_stop(weft_flow *flow, weft_stop how)
{
    atomic_store(&flow->is_draining, true);
    if (how == WEFT_STOP_NOW)
        atomic_store(&flow->stop, 1);
    else
        for (weft_topic *topic = atomic_load(&flow->newest); topic; topic = topic->older)
            topic_close_foreign(topic);
    flow_wake(flow);
}

void weft_operator_stop(weft_operator *op)
{
    atomic_store(&op->stop, 1);
    flow_wake(op->flow);
}

// ---- topics and links -----------------------------------------------------------------------------------------------

weft_status weft_topic_new(weft_flow *flow, const char *name, const weft_topic_options *options, weft_topic **out,
                           weft_error *error)
{
    *out = NULL;
    error_clear(error);
    weft_topic *topic = malloc(sizeof(weft_topic));
    if (!topic)
        return fail(error, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a topic");
    weft_status status = topic_init(topic, name, options, flow->heap, &flow->stop, &flow->newest, error);
    if (status) {
        free(topic);
        return status;
    }
    CatalogEntry other;
    pthread_mutex_lock(&flow->lock);
    topic->entry.number = flow->n_topics;
    if (catalog_find(flow->catalog, WEFT_SIDE_HOST, name, &other)) {
        status = fail(error, WEFT_DUPLICATE_OBJECT, NO_PLACE, "topic \"%s\" exists already", name);
    } else if (!catalog_add(flow->catalog, WEFT_SIDE_HOST, &topic->entry)) {
        status = fail(error, WEFT_TOO_LONG, NO_PLACE, "a flow has %d topics at most", TOPICS_MAX);
    } else {
        flow->n_topics++;
        topic->is_fast = flow->card != NULL;
        if (flow->card && topic->options.side == WEFT_SIDE_DEVICE)
            snprintf(topic->device, sizeof(topic->device), "%s", flow->card->name);
        topic->older = atomic_load(&flow->newest);
        atomic_store(&flow->newest, topic);
    }
    pthread_mutex_unlock(&flow->lock);
    if (status) {
        topic_destroy(topic);
        free(topic);
        return status;
    }
    *out = topic;
    return WEFT_OK;
}

weft_topic *weft_topic_find(weft_flow *flow, weft_side from, const char *name)
{
    CatalogEntry entry;
    return catalog_find(flow->catalog, from, name, &entry) ? entry.topic : NULL;
}

static bool is_identifier(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static weft_status check_operator(const weft_operator_options *options, Error *err)
{
    const char *name = options->name;
    if (!name || !*name || strlen(name) >= TOPIC_NAME_BYTES)
        return fail(err, WEFT_INVALID_NAME, NO_PLACE, "the name of an operator has 1 to %d bytes",
                    TOPIC_NAME_BYTES - 1);
    if (!options->compute == !options->tile_c)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "operator \"%s\" needs either a function or tile C", name);
    if (options->tile_c && !is_identifier(name))
        return fail(err, WEFT_INVALID_NAME, NO_PLACE, "operator \"%s\" is tile C, so its name must be one in C", name);
    if ((unsigned)options->side >= WEFT_N_SIDES)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "operator \"%s\" is on no known side", name);
    return WEFT_OK;
}

// tcc's code at once; cc's is swapped in between two rounds when it is there.
static weft_status compile(weft_operator *op, const char *text, Error *err)
{
    weft_flow *flow = op->flow;
    const char *notice = NULL;
    pthread_mutex_lock(&flow->lock);
    if (!flow->jit) {
        Text words = { 0 };
        text_add(&words, "%s\n%s", kernel_flow_text, kernel_flow_pages_text);
        flow->jit = jit_new(&(JitOptions){ .prelude = words.bytes });
        text_free(&words);
    }
    pthread_mutex_unlock(&flow->lock);
    Error problem = { 0 };                                  // the jit wants one, users need not
    if (jit_get(flow->jit, text, op->name, JIT_AUTO, &op->code, &notice, &problem))
        return fail(err, problem.status, NO_PLACE, "operator \"%s\": %s", op->name, problem.message);
    if (notice)
        log_info("flow: operator \"%s\": %s", op->name, notice);
    if (!op->is_on_gpu)
        jit_improve(flow->jit, op->code);
    return WEFT_OK;
}

static weft_status open_ends(weft_operator *op, weft_topic *from, weft_topic *to, Error *err)
{
    if (from)
        TRY(topic_open_subscriber(from, op->options.side, op->options.start, &op->input, err));
    return to ? topic_open_publisher(to, true, &op->output, err) : WEFT_OK;
}

// With the flow's lock.
static weft_status check_room(const weft_operator *op, Error *err)
{
    int n = 0;
    if (atomic_load(&op->flow->stop))
        return fail(err, WEFT_END_OF_STREAM, NO_PLACE, "the flow was stopped");
    for (const weft_operator *other = op->flow->operators; other; other = other->next)
        n += other->options.side == WEFT_SIDE_DEVICE && !atomic_load(&other->has_ended);
    if (op->options.side == WEFT_SIDE_DEVICE && n >= KERNEL_OPERATORS_MOST)
        return fail(err, WEFT_TOO_LONG, NO_PLACE, "a flow runs %d operators on the DEVICE side at most",
                    KERNEL_OPERATORS_MOST);
    return WEFT_OK;
}

static weft_status add_operator(weft_operator *op, Error *err)
{
    weft_flow *flow = op->flow;
    pthread_mutex_lock(&flow->lock);
    weft_status status = check_room(op, err);
    if (status == WEFT_OK && flow->is_running)
        status = begin_operator(op, err);
    if (status == WEFT_OK) {
        op->next = flow->operators;
        flow->operators = op;
    }
    pthread_mutex_unlock(&flow->lock);
    return status;
}

weft_status weft_flow_link(weft_flow *flow, weft_topic *from, const weft_operator_options *options, weft_topic *to,
                           weft_operator **out, weft_error *error)
{
    if (out)
        *out = NULL;
    error_clear(error);
    TRY(check_operator(options, error));
    weft_operator *op = calloc(1, sizeof(weft_operator));
    if (!op)
        return fail(error, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for an operator");
    op->flow = flow;
    op->options = *options;
    snprintf(op->name, sizeof(op->name), "%s", options->name);
    weft_status status = choose_place(op, options->tile_c, from, to, error);
    if (status == WEFT_OK && options->tile_c)
        status = compile(op, options->tile_c, error);
    op->options.name = op->options.tile_c = NULL;
    if (status == WEFT_OK)
        status = open_ends(op, from, to, error);
    if (status == WEFT_OK)
        status = add_operator(op, error);
    if (status) {
        operator_close(op);
        free(op);
        return status;
    }
    if (out)
        *out = op;
    return WEFT_OK;
}

// ---- counters -------------------------------------------------------------------------------------------------------

weft_operator_counts weft_operator_count(weft_operator *op)
{
    JitTier tier = TIER_TCC;
    if (op->code)
        code_function(op->code, &tier);
    weft_operator_counts counts = {
        .rounds = op->rounds, .frames_in = op->frames_in, .frames_out = op->frames_out,
        .busy_ms = (double)op->busy_us / 1000, .workers = op->workers, .waits = op->waits, .has_ended = op->has_ended,
        .is_compiled = tier == TIER_CC && !op->is_on_gpu, .is_on_gpu = op->is_on_gpu };
    i64 pages[PAGE_COUNTS];
    for (int i = 0; i < PAGE_COUNTS; i++)
        pages[i] = atomic_load_explicit(&op->page_counts[i], memory_order_relaxed);
    memcpy(&counts.pages, pages, sizeof(counts.pages));
    return counts;
}

weft_heap_counts weft_flow_heap_counts(weft_flow *flow, weft_side side) { return heap_counts(flow->heap, side); }

// ---- the flow -------------------------------------------------------------------------------------------------------

static weft_status check_flow(const weft_flow_options *options, Error *err)
{
    if (options->workers < 0 || options->workers > WEFT_WORKERS_MOST)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "workers is %d; 0 to %d are possible", options->workers,
                    WEFT_WORKERS_MOST);
    for (int i = 0; i < WEFT_N_SIDES; i++)
        if (!options->memory[i].take != !options->memory[i].give || options->memory[i].bytes_max < 0)
            return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE,
                        "a memory needs both take and give, and no negative limit");
    if (options->buffer_bytes < 0)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "buffer_bytes is negative");
    return WEFT_OK;
}

weft_gpu_counts weft_flow_gpu_counts(weft_flow *flow)
{
    FlowCard *card = flow->card;
    weft_gpu_counts counts = { .blocks = 0 };
    if (!card)
        return counts;
    pthread_mutex_lock(&card->lock);
    counts = (weft_gpu_counts){ .blocks = card->n_blocks, .is_running = card_is_running(card),
                                .launches = (i64)card->n_launches, .left_idle = card->n_left_idle,
                                .left_asked = card->n_left_asked, .left_turn = card->n_left_turn };
    snprintf(counts.device, sizeof(counts.device), "%s", card->name);
    pthread_mutex_unlock(&card->lock);
    return counts;
}

static void destroy(weft_flow *flow)
{
    card_close(flow->card);
    pthread_mutex_destroy(&flow->lock);
    pthread_cond_destroy(&flow->changed);
    free(flow->catalog);
    free(flow);
}

weft_status weft_flow_new(const weft_flow_options *options, weft_flow **out, weft_error *error)
{
    *out = NULL;
    error_clear(error);
    if (options)
        TRY(check_flow(options, error));
    weft_flow *flow = calloc(1, sizeof(weft_flow));
    Catalog *catalog = aligned_alloc(64, (sizeof(Catalog) + 63) / 64 * 64);
    if (!flow || !catalog) {
        free(flow);
        free(catalog);
        return fail(error, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a flow");
    }
    memset(catalog, 0, sizeof(*catalog));
    if (options)
        flow->options = *options;
    if (flow->options.workers == 0)
        flow->options.workers = MIN_OF(cpu_count(), WEFT_WORKERS_MOST);
    if (flow->options.watchdog_ms == 0)
        flow->options.watchdog_ms = 10000;
    if (flow->options.stop_ms <= 0)
        flow->options.stop_ms = 10000;
    flow->catalog = catalog;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&flow->lock, NULL);
    pthread_cond_init(&flow->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    const weft_status status = choose_device(flow, error);
    flow->heap = status ? NULL : heap_new(&flow->options);
    if (!flow->heap) {
        destroy(flow);
        return status ? status : fail(error, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a flow");
    }
    *out = flow;
    return WEFT_OK;
}

// Whether all operators have ended within stop_ms.
static bool end_operators(weft_flow *flow)
{
    const double until = time_now_ms() + flow->options.stop_ms;
    pthread_mutex_lock(&flow->lock);
    for (;;) {
        int n_live = 0;
        for (weft_operator *op = flow->operators; op; op = op->next)
            n_live += op->has_begun && !atomic_load(&op->has_ended);
        const double left = until - time_now_ms();
        if (n_live == 0 || left <= 0) {
            pthread_mutex_unlock(&flow->lock);
            return n_live == 0;
        }
        wait_for(&flow->changed, &flow->lock, (int)MIN_OF(left + 1, 1000));
    }
}

static void join_threads(weft_flow *flow)
{
    pthread_mutex_lock(&flow->lock);
    atomic_store(&flow->is_leaving, true);
    pthread_cond_broadcast(&flow->changed);
    pthread_mutex_unlock(&flow->lock);
    if (flow->has_supervisor)
        pthread_join(flow->supervisor, NULL);
    for (weft_operator *op = flow->operators; op; op = op->next)
        if (op->has_thread)
            pthread_join(op->thread, NULL);
    for (weft_topic *topic = atomic_load(&flow->newest); topic; topic = topic->older)
        topic_forget_bells(topic);                          // handles that are still open ring when they are closed
    virtual_free(flow->kernel);
    resident_free(flow->resident);
}

static void free_parts(weft_flow *flow)
{
    while (flow->operators) {
        weft_operator *op = flow->operators;
        flow->operators = op->next;
        operator_close(op);                                 // of a flow that never ran
        free(op);
    }
    for (weft_topic *topic = atomic_load(&flow->newest); topic; topic = topic->older)
        topic_empty(topic);
    for (weft_topic *topic = atomic_load(&flow->newest); topic;) {
        weft_topic *older = topic->older;
        topic_destroy(topic);
        free(topic);
        topic = older;
    }
    if (flow->jit)
        jit_free(flow->jit);
    const i64 n_leaked = heap_free(flow->heap);
    if (n_leaked > 0)
        log_warn("flow: %lld frames were never given back", (long long)n_leaked);
}

void weft_flow_free(weft_flow *flow)
{
    if (!flow)
        return;
    weft_flow_stop(flow, WEFT_STOP_NOW);
    if (!end_operators(flow)) {
        log_warn("flow: an operator did not return within %d ms; its flow is not freed", flow->options.stop_ms);
        return;
    }
    join_threads(flow);
    free_parts(flow);
    destroy(flow);
}
