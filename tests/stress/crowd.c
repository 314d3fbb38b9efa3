// crowd.c - thousands of sessions at once, driven by one thread that is told when a task is done.
//
// Each session runs one query after the other, so that there are --most of them in flight at any time, while rows are
// appended and some queries are cancelled, time out or fail.  In the second half memory runs out now and then, and the
// system refuses threads.  Every answer is that of the query alone.

#define _GNU_SOURCE
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CANCELLED_PERCENT = 10, TIMED_PERCENT = 4, WITHIN_MS = 300, TICK_NS = 2000000 };

typedef struct Sitting {               // a session of the crowd
    struct Crowd   *crowd;
    int             number;
    bool            may_time_out;      // a query before has set a timeout, and none has ended since that set it to 0
    bool            sets_timeout;      // the query that runs does
    struct Sitting *next;              // among those that are done
} Sitting;

typedef struct Crowd {
    Stress         *stress;
    Sitting        *sittings;
    Call           *calls;             // by number; the session of a call stays the same
    int             n_sessions, n_in_flight;
    pthread_mutex_t lock;
    pthread_cond_t  has_done;
    Sitting        *done;              // under the lock
} Crowd;

static void on_done(void *context)
{
    Sitting *sitting = context;
    Crowd *crowd = sitting->crowd;
    pthread_mutex_lock(&crowd->lock);
    sitting->next = crowd->done;
    crowd->done = sitting;
    pthread_cond_signal(&crowd->has_done);
    pthread_mutex_unlock(&crowd->lock);
}

// All that are done, or NULL after a tick.
static Sitting *take_done(Crowd *crowd)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_NS;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&crowd->lock);
    if (!crowd->done)
        pthread_cond_timedwait(&crowd->has_done, &crowd->lock, &until);
    Sitting *done = crowd->done;
    crowd->done = NULL;
    pthread_mutex_unlock(&crowd->lock);
    return done;
}

// The settings of the query before are undone first, but a timeout holds for the whole text that comes after it.
static void draw_call(Crowd *crowd, Sitting *sitting, Call *call)
{
    Stress *stress = crowd->stress;
    Random *random = &stress->random;
    weft_session *session = call->session;
    char settings[400], timeout[60] = "";
    const bool may_time_out = sitting->may_time_out;
    sitting->sets_timeout = random_chance(random, TIMED_PERCENT);
    sitting->may_time_out |= sitting->sets_timeout;
    if (sitting->sets_timeout)
        snprintf(timeout, sizeof timeout, "set statement_timeout = %d; ", random_between(random, 1, 2 * WITHIN_MS));
    snprintf(settings, sizeof settings, "%s; %s%s", reset_settings, timeout, draw_settings(random));
    Item *item = items_draw(&stress->items, random);
    call_prepare(stress, call, item, settings);
    call->session = session;
    call->may_be_cancelled = may_time_out;
    if (item->check == CHECK_ENDLESS || random_chance(random, CANCELLED_PERCENT))
        call_plan_cancel(call, WITHIN_MS, random);
}

static void submit_next(Crowd *crowd, int number)
{
    Call *call = &crowd->calls[number];
    weft_error error;
    Text why = { 0 };
    draw_call(crowd, &crowd->sittings[number], call);
    call_begin(crowd->stress, call);
    crowd->n_in_flight++;
    if (!weft_submit_notify(call->session, call->sql, on_done, &crowd->sittings[number], &call->task, &error))
        return;
    crowd->n_in_flight--;
    atomic_fetch_sub(&crowd->stress->n_running, 1);
    call->cancel_at = 0;                                   // there is nothing to cancel
    // The only thread that there was may be gone, and another refused.
    if (!atomic_load(&crowd->stress->has_faults)) {
        text_add(&why, "  %s: %s\n", error.sqlstate, error.message);
        call_fail(crowd->stress, call, "could not be submitted", &why);
    }
    free(call->sql);
}

static void end_call(Crowd *crowd, Sitting *sitting)
{
    Call *call = &crowd->calls[sitting->number];
    weft_result *result;
    weft_error error;
    if (call->cancelled_at != 0 && !call->is_timed)
        add_latency(crowd->stress, call);
    const weft_status status = weft_wait(call->task, &result, &error);
    crowd->n_in_flight--;
    if (status == WEFT_OK && !sitting->sets_timeout)
        sitting->may_time_out = false;
    call_judge(crowd->stress, call, status, result, &error);
    weft_result_free(result);
    call->cancel_at = 0;
    free(call->sql);
}

static void submit_all(Crowd *crowd)
{
    for (int i = 0; i < crowd->n_sessions; i++)
        submit_next(crowd, i);
}

// From HALF on there are faults, while queries are in flight; they last until all have ended.
static void run_until(Crowd *crowd, double half, double until)
{
    Faults faults;
    bool has_faults = false;
    submit_all(crowd);
    while (crowd->n_in_flight) {
        for (Sitting *sitting = take_done(crowd), *next; sitting; sitting = next) {
            next = sitting->next;
            end_call(crowd, sitting);
            if (time_now_ms() < until)
                submit_next(crowd, sitting->number);
        }
        calls_cancel(crowd->stress, crowd->calls, crowd->n_sessions);
        if (!has_faults && time_now_ms() >= half)
            faults_start(crowd->stress, &faults), has_faults = true;
    }
    if (has_faults)
        faults_stop(&faults);
}

static void open_sessions(Crowd *crowd, int n)
{
    for (int i = 0; i < n; i++) {
        weft_error error;
        Call *call = &crowd->calls[crowd->n_sessions];
        crowd->sittings[i] = (Sitting){ .crowd = crowd, .number = i };
        if (weft_connect(crowd->stress->db, &call->session, &error) == WEFT_OK)
            crowd->n_sessions++;
    }
}

void crowd(Stress *stress, double until)
{
    const int n = stress->options.most;
    const double now = time_now_ms();
    Crowd crowd = { .stress = stress,
                    .sittings = calloc((size_t)n, sizeof(Sitting)),
                    .calls = calloc((size_t)n, sizeof(Call)),
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .has_done = PTHREAD_COND_INITIALIZER };
    open_sessions(&crowd, n);
    run_until(&crowd, now + (until - now) / 2, until);
    for (int i = 0; i < crowd.n_sessions; i++)
        weft_disconnect(crowd.calls[i].session);
    free(crowd.sittings);
    free(crowd.calls);
}
