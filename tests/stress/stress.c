// stress.c - queries arrive, are cancelled and fail at random while rows are appended, and every answer is checked.
//
//     stress [--seed N] [--seconds N] [--most N] [--clients N] [--rows N] [--disk] [--jit tcc|cc|auto]
//            [--latency MS] [--only MODE] [--verbose]
//
// A round draws a pool of queries, computes their answers alone (SET sharing = off, nothing else running), and then
// runs them in one mode after the other while a thread appends:
//
//     wave      1 to --most queries submitted at once
//     same      many identical ones that share a join table and a pipeline; the first ones above all are cancelled
//     dash      many of a dashboard's queries: of few shapes, over the same columns, sieved together
//     clients   threads that run one query after the other; another thread cancels some of them
//     faults    the same with memory that runs out now and then: 53200 is right, a wrong answer is not
//     crowd     --most sessions at once, driven by one thread (crowd.c); memory and threads run out in its second half
//
// After each round nobody may be left in the network and no shared piece alive; at the end, with the tables dropped, no
// memory counted.  A run depends on its seed and on the timing of threads: a failure may not come again with the same
// seed, but is likely to.

#define _GNU_SOURCE
#include "stress.h"

#include <getopt.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_SHOWN = 10, HANGS_S = 180, LOST_MS = 60000, N_HOLDING = 4 };

// ---- one query ---------------------------------------------------------------------------------------------------

const char *draw_settings(Random *random)
{
    static const char *const some[] = { "set weave = off; ",
                                        "set sharing = off; ",
                                        "set jit = tcc; ",
                                        "set threads = 1; ",
                                        "set priority = 5; ",
                                        "set weave_queries = off; ",
                                        "set weave_budget = 20; ",
                                        "set weave = off; set sharing = off; " };
    return random_chance(random, 30) ? some[random_below(random, COUNT_OF(some))] : "";
}

void call_prepare(Stress *stress, Call *call, Item *item, const char *settings)
{
    char jit[40] = "";
    if (stress->options.jit)
        snprintf(jit, sizeof jit, "set jit = %s; ", stress->options.jit);
    *call = (Call){ .item = item };
    if (asprintf(&call->sql, "%s%s%s", settings, jit, item->sql) < 0)
        abort();
}

void call_begin(Stress *stress, Call *call)
{
    call->from = atomic_load(&stress->data.committed);
    const int n_running = atomic_fetch_add(&stress->n_running, 1) + 1;
    int most = atomic_load(&stress->most_running);
    while (n_running > most && !atomic_compare_exchange_weak(&stress->most_running, &most, n_running)) {}
}

static void show_failure(Stress *stress, const Call *call, const char *what, const Text *why)
{
    pthread_mutex_lock(&stress->printing);
    if (atomic_load(&stress->n_failed) <= MOST_SHOWN)
        printf("FAIL seed %llu, round %d, %s\n  %s\n  %s\n%s", (unsigned long long)stress->options.seed, stress->round,
               stress->mode, call->sql, what, why->bytes ? why->bytes : "");
    fflush(stdout);
    pthread_mutex_unlock(&stress->printing);
}

void call_fail(Stress *stress, const Call *call, const char *what, Text *why)
{
    atomic_fetch_add(&stress->n_failed, 1);
    show_failure(stress, call, what, why);
    text_free(why);
}

static bool is_right(Stress *stress, const Call *call, const weft_result *result, Text *why)
{
    const Item *item = call->item;
    switch (item->check) {
    case CHECK_NOTHING: return true;
    case CHECK_LIVE:
        return answer_is_live(&stress->data, item->live, call->from, atomic_load(&stress->data.begun), result, why);
    case CHECK_ENDLESS: text_add(why, "  it came to an end\n"); return false;
    default: break;
    }
    if (item->answer)
        return answer_equal(item, result, why);
    text_add(why, "  want error %s\n", item->sqlstate);
    return false;
}

void call_judge(Stress *stress, const Call *call, weft_status status, const weft_result *result,
                const weft_error *error)
{
    Text why = { 0 };
    atomic_fetch_sub(&stress->n_running, 1);
    atomic_fetch_add(&stress->n_ended, 1);
    if (status == WEFT_OK) {
        if (!is_right(stress, call, result, &why)) {
            call_fail(stress, call, "wrong answer", &why);
            return;
        }
    } else if (status == WEFT_QUERY_CANCELED && call->may_be_cancelled) {
        atomic_fetch_add(&stress->n_cancelled, 1);
    } else if (status == WEFT_OUT_OF_MEMORY &&
               (atomic_load(&stress->has_faults) || call->item->check == CHECK_ENDLESS)) {
        // With weave = off an endless one would keep all matches of its first tables: it is refused.
        atomic_fetch_add(&stress->n_refused, 1);
    } else if (call->item->check == CHECK_ANSWER && !call->item->answer &&
               strcmp(error->sqlstate, call->item->sqlstate) == 0) {
        atomic_fetch_add(&stress->n_errors, 1);
    } else {
        text_add(&why, "  %s: %s\n", error->sqlstate, error->message);
        call_fail(stress, call, call->item->answer ? "failed" : "failed otherwise than alone", &why);
        return;
    }
    atomic_fetch_add(&stress->n_passed, 1);
    text_free(&why);
}

void add_latency(Stress *stress, const Call *call)
{
    Latencies *latencies = &stress->latencies;
    pthread_mutex_lock(&latencies->lock);
    if (latencies->n < MOST_LATENCIES)
        latencies->ms[latencies->n++] = (float)call->latency;
    pthread_mutex_unlock(&latencies->lock);
}

// ---- answers, computed alone -------------------------------------------------------------------------------------

static bool find_answers(Stress *stress)
{
    weft_session *session;
    weft_result *result;
    weft_error error;
    if (weft_connect(stress->db, &session, &error) || weft_query(session, "set sharing = off", &result, &error))
        return false;
    weft_result_free(result);
    for (int i = 0; i < stress->items.n; i++) {
        Item *item = &stress->items.list[i];
        if (item->check != CHECK_ANSWER)
            continue;
        weft_query(session, item->sql, &item->answer, &error);
        snprintf(item->sqlstate, sizeof item->sqlstate, "%s", error.sqlstate);
        atomic_fetch_add(&stress->n_ended, 1);
    }
    weft_disconnect(session);
    return true;
}

static void set_timeout(Call *call, Random *random)
{
    char sql[80];
    weft_result *result;
    weft_error error;
    snprintf(sql, sizeof sql, "set statement_timeout = %d", random_between(random, 1, 100));
    call->may_be_cancelled = weft_query(call->session, sql, &result, &error) == WEFT_OK;
    weft_result_free(result);
}

// ---- waves -------------------------------------------------------------------------------------------------------

static bool submit(Stress *stress, Call *call, Item *item, const char *settings, Random *random)
{
    weft_error error;
    Text why = { 0 };
    call_prepare(stress, call, item, settings);
    if (weft_connect(stress->db, &call->session, &error) == WEFT_OK) {
        call_begin(stress, call);
        if (random_chance(random, 4))
            set_timeout(call, random);
        if (weft_submit(call->session, call->sql, &call->task, &error) == WEFT_OK)
            return true;
        atomic_fetch_sub(&stress->n_running, 1);
        weft_disconnect(call->session);
    }
    text_add(&why, "  %s: %s\n", error.sqlstate, error.message);
    call_fail(stress, call, "could not be submitted", &why);
    free(call->sql);
    return false;
}

// How long all cores would have been at work for what this process has done so far.  Where other processes have the
// cores, it passes more slowly than time.
static double work_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return ((double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6) / cpu_count();
}

static void see_running(Call *call, double now, double work)
{
    call->seen_at = now;
    if (call->cancelled_at != 0)
        call->latency = MIN_OF(now - call->cancelled_at, work - call->work_at);
}

// Cancels those whose time has come, and looks how long they are still seen running: this thread may have to wait for a
// core, too, and that is not their fault.  A cancelled query that goes on has not heard of it.
bool calls_cancel(Stress *stress, Call *calls, int n_calls)
{
    const double now = time_now_ms(), work = work_ms();
    bool is_any_left = false;
    for (int i = 0; i < n_calls; i++) {
        Call *call = &calls[i];
        if (call->cancel_at == 0 || call->is_timed)
            continue;
        is_any_left = true;
        if (weft_is_done(call->task)) {
            call->is_timed = true;
            if (call->cancelled_at != 0)
                add_latency(stress, call);
            continue;
        }
        see_running(call, now, work);
        if (call->cancelled_at == 0 && now >= call->cancel_at) {
            call->seen_at = call->cancelled_at = time_now_ms();
            call->work_at = work;
            weft_cancel(call->session);
        } else if (call->cancelled_at != 0 && now > call->cancelled_at + LOST_MS) {
            Text why = { 0 };
            call_fail(stress, call, "a cancel was lost, or took a minute", &why);
            call->cancelled_at = now;
            weft_cancel(call->session);
        }
    }
    return is_any_left;
}

static void end_call(Stress *stress, Call *call)
{
    weft_result *result;
    weft_error error;
    const weft_status status = weft_wait(call->task, &result, &error);
    call_judge(stress, call, status, result, &error);
    weft_result_free(result);
    weft_disconnect(call->session);
    free(call->sql);
}

void call_plan_cancel(Call *call, double within_ms, Random *random)
{
    call->may_be_cancelled = true;
    call->cancel_at = time_now_ms() + (random_chance(random, 20) ? 0 : within_ms * random_below(random, 1000) / 1000);
}

typedef struct Wave {
    int n_calls;
    Item *items[3];
    int n_items, percent_cancelled;
    bool is_dash, is_held_up;
} Wave;  // n_items 0: any

// NUMBER counts from 0.  Queries are quicker than they arrive; where endless ones hold them up, they meet on the scan.
static Item *draw_for(Stress *stress, const Wave *wave, int number, Random *random)
{
    if (wave->is_held_up && number < N_HOLDING)
        return items_draw_endless(&stress->items, random);
    if (wave->is_dash)
        return items_draw_dash(&stress->items, random);
    return wave->n_items ? wave->items[random_below(random, wave->n_items)] : items_draw(&stress->items, random);
}

static void run_wave(Stress *stress, const Wave *wave, Random *random)
{
    Call *calls = calloc((size_t)wave->n_calls, sizeof *calls);
    int n_calls = 0;
    for (int i = 0; i < wave->n_calls; i++) {
        Item *item = draw_for(stress, wave, i, random);
        Call *call = &calls[n_calls];
        if (!submit(stress, call, item,
                    wave->is_held_up && i < N_HOLDING ? "set sharing = off; " : draw_settings(random), random))
            continue;
        n_calls++;
        // The first ones of identical queries make what the others wait for.
        const bool is_early = wave->n_items && i < 3;
        if (item->check == CHECK_ENDLESS || random_chance(random, is_early ? 60 : wave->percent_cancelled))
            call_plan_cancel(call, wave->is_held_up && i < N_HOLDING ? 600 : 60, random);
        if (random_chance(random, 2))
            usleep((useconds_t)random_below(random, 3000));
        calls_cancel(stress, calls, n_calls);
    }
    while (calls_cancel(stress, calls, n_calls))
        usleep(500);
    for (int i = 0; i < n_calls; i++)
        end_call(stress, &calls[i]);
    free(calls);
}

// Small ones as often as large ones.
static int draw_size(Stress *stress, int most)
{
    int n = 1;
    while (n < most && random_chance(&stress->random, 75))
        n *= 2;
    n = random_between(&stress->random, MAX_OF(n / 2, 1), n);
    return MIN_OF(n, most);
}

static void waves(Stress *stress, double until)
{
    bool is_first = true;  // it has all: the size that is asked for is reached
    while (time_now_ms() < until) {
        const Wave wave = { .n_calls = is_first ? stress->options.most : draw_size(stress, stress->options.most),
                            .percent_cancelled = 12,
                            .is_held_up = random_chance(&stress->random, 30) };
        run_wave(stress, &wave, &stress->random);
        is_first = false;
    }
}

static void dashboards(Stress *stress, double until)
{
    while (time_now_ms() < until) {
        const int most = stress->options.most;
        const Wave wave = { .n_calls = random_between(&stress->random, (most + 3) / 4, most),
                            .percent_cancelled = 5,
                            .is_dash = true,
                            .is_held_up = random_chance(&stress->random, 70) };
        run_wave(stress, &wave, &stress->random);
    }
}

static void same_ones(Stress *stress, double until)
{
    while (time_now_ms() < until) {
        Wave wave = { .n_calls = draw_size(stress, MIN_OF(stress->options.most, 200)), .percent_cancelled = 10 };
        for (int i = random_below(&stress->random, 3); i >= 0; i--) {
            Item *item = items_draw_join(&stress->items, &stress->random);
            if (item)
                wave.items[wave.n_items++] = item;
        }
        if (!wave.n_items)
            return;
        run_wave(stress, &wave, &stress->random);
    }
}

// ---- clients -----------------------------------------------------------------------------------------------------

typedef struct Client {
    Stress *stress;
    weft_session *session;
    Random random;
    double until;
    _Atomic u32 cancels_begun, cancels_ended;  // by the thread that cancels
    _Atomic bool runs_endless;
    pthread_t thread;
} Client;

static void run_call(Client *client, Call *call)
{
    Stress *stress = client->stress;
    weft_result *result = NULL;
    weft_error error;
    weft_status status;
    const u32 ended = atomic_load(&client->cancels_ended);
    call->session = client->session;
    call_begin(stress, call);
    if (random_chance(&client->random, 50)) {
        status = weft_query(client->session, call->sql, &result, &error);
    } else {
        status = weft_submit(client->session, call->sql, &call->task, &error);
        if (!status)
            status = weft_wait(call->task, &result, &error);
    }
    call->may_be_cancelled = atomic_load(&client->cancels_begun) != ended;
    call_judge(stress, call, status, result, &error);
    weft_result_free(result);
}

const char *const reset_settings =
    "set weave = on; set weave_queries = on; set weave_budget = auto; set sharing = on; set jit = auto;"
    " set threads = 1000; set priority = 0; set statement_timeout = 0";

static void *client_thread(void *context)
{
    Client *client = context;
    weft_error error;
    weft_result *result;
    while (time_now_ms() < client->until) {
        Item *item = items_draw(&client->stress->items, &client->random);
        Call call;
        call_prepare(client->stress, &call, item, draw_settings(&client->random));
        atomic_store(&client->runs_endless, item->check == CHECK_ENDLESS);
        run_call(client, &call);
        atomic_store(&client->runs_endless, false);
        free(call.sql);
        if (random_chance(&client->random, 10))
            usleep((useconds_t)random_below(&client->random, 5000));
        weft_query(client->session, reset_settings, &result, &error);
        weft_result_free(result);
    }
    return NULL;
}

static void cancel_client(Client *client)
{
    atomic_fetch_add(&client->cancels_begun, 1);
    weft_cancel(client->session);
    atomic_fetch_add(&client->cancels_ended, 1);
}

// One at random now and then, and endless ones always.
static void cancel_clients(Stress *stress, Client *clients, int n_clients, double until)
{
    while (time_now_ms() < until || atomic_load(&stress->n_running) > 0) {
        usleep((useconds_t)random_below(&stress->random, 10000));
        if (random_chance(&stress->random, 50))
            cancel_client(&clients[random_below(&stress->random, n_clients)]);
        for (int i = 0; i < n_clients; i++)
            if (atomic_load(&clients[i].runs_endless) && random_chance(&stress->random, 20))
                cancel_client(&clients[i]);
    }
}

static void clients(Stress *stress, double until)
{
    const int n_clients = stress->options.n_clients;
    Client *list = calloc((size_t)n_clients, sizeof *list);
    int n_started = 0;
    for (int i = 0; i < n_clients; i++) {
        weft_error error;
        Client *client = &list[n_started];
        *client = (Client){ .stress = stress, .random = { random_next(&stress->random) }, .until = until };
        if (weft_connect(stress->db, &client->session, &error))
            continue;
        if (pthread_create(&client->thread, NULL, client_thread, client) == 0)
            n_started++;
    }
    if (n_started)
        cancel_clients(stress, list, n_started, until);
    for (int i = 0; i < n_started; i++) {
        pthread_join(list[i].thread, NULL);
        weft_disconnect(list[i].session);
    }
    free(list);
}

// ---- memory that runs out ----------------------------------------------------------------------------------------

static void *make_faults(void *context)
{
    Faults *faults = context;
    Budget *budget = &faults->stress->db->budget;
    while (!atomic_load(&faults->is_ending)) {
        const bool by_limit = random_chance(&faults->random, 30);
        if (by_limit)
            atomic_store(&budget->limit, atomic_load(&budget->used) + random_below(&faults->random, 4 << 20) + 1);
        else
            fault_set(FAULT_MEMORY, random_between(&faults->random, 1, 300), random_chance(&faults->random, 30));
        if (random_chance(&faults->random, 30))
            fault_set(FAULT_THREAD, random_between(&faults->random, 1, 20), random_chance(&faults->random, 50));
        usleep((useconds_t)random_below(&faults->random, 20000));
        atomic_store(&budget->limit, 0);
        fault_set(FAULT_MEMORY, 0, false);
        fault_set(FAULT_THREAD, 0, false);
        usleep((useconds_t)random_below(&faults->random, 20000));
    }
    return NULL;
}

void faults_start(Stress *stress, Faults *faults)
{
    *faults = (Faults){ .stress = stress, .random = { random_next(&stress->random) } };
    atomic_store(&stress->has_faults, true);
    atomic_store(&stress->data.may_fail, true);
    if (pthread_create(&faults->thread, NULL, make_faults, faults))
        abort();
}

void faults_stop(Faults *faults)
{
    atomic_store(&faults->is_ending, true);
    pthread_join(faults->thread, NULL);
    atomic_store(&faults->stress->has_faults, false);
}

static void with_faults(Stress *stress, double until)
{
    Faults faults;
    faults_start(stress, &faults);
    while (time_now_ms() < until) {
        const Wave wave = { .n_calls = draw_size(stress, MIN_OF(stress->options.most, 100)), .percent_cancelled = 5 };
        if (random_chance(&stress->random, 70))
            run_wave(stress, &wave, &stress->random);
        else
            clients(stress, MIN_OF(until, time_now_ms() + 300));
    }
    faults_stop(&faults);
}

// ---- rounds ------------------------------------------------------------------------------------------------------

static const struct Mode {
    const char *name;
    void (*run)(Stress *stress, double until);
} modes[] = {
    { "wave", waves }, { "same", same_ones }, { "dash", dashboards }, { "clients", clients }, { "faults", with_faults },
    { "crowd", crowd },
};

static void fail_state(Stress *stress, const char *what, i64 count)
{
    atomic_fetch_add(&stress->n_failed, 1);
    printf("FAIL seed %llu, round %d: %s: %lld\n", (unsigned long long)stress->options.seed, stress->round, what,
           (long long)count);
}

// Nobody runs: then nothing of anybody may be left.
static void check_rest(Stress *stress)
{
    Arena *arena = arena_new(NULL, "check");
    DeviceFigures figures;
    stress->db->cpu->list(stress->db->cpu, arena, &figures);
    if (figures.n_riders)
        fail_state(stress, "pipelines left in the network", figures.n_riders);
    if (pieces_count(stress->db->pieces))
        fail_state(stress, "shared pieces left", pieces_count(stress->db->pieces));
    arena_free(arena);
}

static void run_modes(Stress *stress, double seconds)
{
    int n_modes = 0;
    for (int m = 0; m < COUNT_OF(modes); m++)
        n_modes += !stress->options.only || strcmp(stress->options.only, modes[m].name) == 0;
    for (int m = 0; m < COUNT_OF(modes); m++) {
        if (stress->options.only && strcmp(stress->options.only, modes[m].name) != 0)
            continue;
        const i64 before = atomic_load(&stress->n_passed);
        const double start = time_now_ms();
        stress->mode = modes[m].name;
        data_start(&stress->data);
        modes[m].run(stress, start + seconds * 1000 / n_modes);
        data_stop(&stress->data);
        atomic_store(&stress->data.may_fail, false);
        check_rest(stress);
        if (stress->options.is_verbose)
            printf("round %d %-8s %7lld queries in %.1f s, %d batches\n", stress->round, stress->mode,
                   (long long)(atomic_load(&stress->n_passed) - before), (time_now_ms() - start) / 1000,
                   atomic_load(&stress->data.committed));
        fflush(stdout);
    }
}

static bool run_rounds(Stress *stress)
{
    const double end = time_now_ms() + stress->options.seconds * 1000;
    const int n_rounds = MAX_OF(1, (int)(stress->options.seconds / 15));
    for (stress->round = 1; stress->round == 1 || time_now_ms() < end - 2000; stress->round++) {
        items_fill(&stress->items, &stress->data, &stress->random, 200);
        if (!find_answers(stress))
            return false;
        const double left = (end - time_now_ms()) / 1000;
        run_modes(stress, MAX_OF(left / MAX_OF(n_rounds - stress->round + 1, 1) - 0.5, 1));
        items_clear(&stress->items);
    }
    stress->round--;
    return true;
}

// ---- watchdog ----------------------------------------------------------------------------------------------------

// A query that never ends must not be mistaken for a slow test: dump core, with all threads in it.
static void *watch(void *context)
{
    Stress *stress = context;
    u64 last = 0;
    int n_quiet = 0;
    while (!atomic_load(&stress->is_over)) {
        usleep(100000);
        const u64 n_ended = atomic_load(&stress->n_ended);
        n_quiet = n_ended == last ? n_quiet + 1 : 0;
        last = n_ended;
        if (n_quiet < HANGS_S * 10)
            continue;
        printf("FAIL seed %llu, round %d, %s: no query has ended for %d s, %d are running\n",
               (unsigned long long)stress->options.seed, stress->round, stress->mode, HANGS_S,
               atomic_load(&stress->n_running));
        fflush(stdout);
        abort();
    }
    return NULL;
}

// ---- the program -------------------------------------------------------------------------------------------------

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void report_sharing(Stress *stress)
{
    Arena *arena = arena_new(NULL, "report");
    DeviceFigures figures;
    stress->db->cpu->list(stress->db->cpu, arena, &figures);
    for (const ScanFigures *scan = figures.scans; scan < figures.scans + figures.n_scans; scan++)
        printf("%-10s %9llu chunks read for %llu, %llu of them woven together for %llu; %llu rides in cubes, %llu of "
               "them over joins\n", scan->table,
               (unsigned long long)scan->chunks_read, (unsigned long long)scan->chunks_ridden,
               (unsigned long long)scan->chunks_woven, (unsigned long long)scan->chunks_woven_ridden,
               (unsigned long long)scan->rides_cubed, (unsigned long long)scan->rides_join_cubed);
    arena_free(arena);
}

static void report(Stress *stress)
{
    Latencies *latencies = &stress->latencies;
    const int n = latencies->n;
    qsort(latencies->ms, (size_t)n, sizeof *latencies->ms, compare_floats);
    const float most = n ? latencies->ms[n - 1] : 0;
    printf("%d rounds, %lld batches appended (%lld tries refused), at most %d queries at once\n", stress->round,
           (long long)stress->data.n_appends, (long long)stress->data.n_refused, atomic_load(&stress->most_running));
    printf("%lld cancelled, %lld failed as they should, %lld refused for memory; %llu pieces shared\n",
           (long long)stress->n_cancelled, (long long)stress->n_errors, (long long)stress->n_refused,
           (unsigned long long)pieces_shared(stress->db->pieces));
    report_sharing(stress);
    if (n)
        printf("seen running after a cancel: p50 %.1f ms, p99 %.1f ms, most %.1f ms of %d\n", latencies->ms[n / 2],
               latencies->ms[n * 99 / 100], most, n);
    if (stress->options.latency_ms > 0 && most > stress->options.latency_ms)
        fail_state(stress, "ms from a cancel to the end of the query", (i64)most);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static bool open_all(Stress *stress, const char *directory)
{
    char path[512];
    weft_error error;
    weft_result *result;
    snprintf(path, sizeof path, "%s/stress.weft", directory);
    if (weft_open(stress->options.on_disk ? path : NULL, &stress->db, &error)) {
        printf("FAIL opening: %s\n", error.message);
        return false;
    }
    stress->data = (Data){ .db = stress->db,
                           .seed = mix(stress->options.seed, 1),
                           .first_rows = stress->options.n_rows,
                           .directory = directory,
                           .random = { mix(stress->options.seed, 2) } };
    weft_session *session;
    if (weft_connect(stress->db, &session, &error) || weft_query(session, "set chunk_rows = 4096", &result, &error))
        return false;
    weft_result_free(result);
    weft_disconnect(session);
    return data_create(&stress->data);
}

static void run_all(Stress *stress, const char *directory)
{
    pthread_t watchdog;
    if (pthread_create(&watchdog, NULL, watch, stress))
        abort();
    if (open_all(stress, directory) && run_rounds(stress)) {
        report(stress);
        data_drop(&stress->data);
        // A GPU keeps classes for a tenth of a second, and more where the machine is busy.
        for (int wait = 0; wait < 6000 && atomic_load(&stress->db->budget.used); wait++) usleep(10000);
        if (atomic_load(&stress->db->budget.used))
            fail_state(stress, "bytes counted when all tables are gone", atomic_load(&stress->db->budget.used));
    } else {
        atomic_fetch_add(&stress->n_failed, 1);
    }
    atomic_fetch_add(&stress->n_failed, stress->data.n_failed);
    weft_close(stress->db);
    atomic_store(&stress->is_over, true);
    pthread_join(watchdog, NULL);
}

static bool read_options(int argc, char **argv, Options *options)
{
    static const struct option names[] = {
        { "seed", 1, NULL, 's' }, { "seconds", 1, NULL, 't' }, { "most", 1, NULL, 'm' }, { "clients", 1, NULL, 'c' },
        { "rows", 1, NULL, 'r' }, { "disk", 0, NULL, 'd' },    { "jit", 1, NULL, 'j' },  { "latency", 1, NULL, 'l' },
        { "only", 1, NULL, 'o' }, { "verbose", 0, NULL, 'v' }, { NULL, 0, NULL, 0 },
    };
    *options = (Options){ .seed = 1, .seconds = 20, .most = 1000, .n_clients = 32, .n_rows = 200000 };
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 's': options->seed = strtoull(optarg, NULL, 10); break;
        case 't': options->seconds = strtod(optarg, NULL); break;
        case 'm': options->most = MAX_OF(atoi(optarg), 1); break;
        case 'c': options->n_clients = MAX_OF(atoi(optarg), 1); break;
        case 'r': options->n_rows = MAX_OF(atoi(optarg), 1000); break;
        case 'd': options->on_disk = true; break;
        case 'j': options->jit = optarg; break;
        case 'l': options->latency_ms = strtod(optarg, NULL); break;
        case 'o': options->only = optarg; break;
        case 'v': options->is_verbose = true; break;
        default: return false;
        }
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    static Stress stress = { .printing = PTHREAD_MUTEX_INITIALIZER,
                             .latencies = { .lock = PTHREAD_MUTEX_INITIALIZER } };
    char directory[300];
    if (!read_options(argc, argv, &stress.options)) {
        fprintf(
            stderr,
            "stress [--seed N] [--seconds N] [--most N] [--clients N] [--rows N] [--disk] [--jit tcc|cc|auto]"
            " [--latency MS] [--only wave|same|dash|clients|faults|crowd] [--verbose]\n");
        return 2;
    }
    snprintf(directory, sizeof directory, "%s/weft-stress.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(directory)) {
        perror(directory);
        return 2;
    }
    stress.random.state = mix(stress.options.seed, 3);
    stress.mode = "loading";
    run_all(&stress, directory);
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    printf("%lld passed, %lld failed\n", (long long)stress.n_passed, (long long)stress.n_failed);
    return stress.n_failed > 0;
}
