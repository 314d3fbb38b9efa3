// test_crowd.c - thousands of sessions: tasks that tell when they are done, crowds that ride together, threads that the
// system refuses, and timeouts, of which each stops its own query.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/squad.h"
#include "test.h"

enum { N_SESSIONS = 500, N_QUERIES = 2000 };

static weft_db *db;
static weft_error error;

static void open_db(void)
{
    weft_session *session;
    CHECK_INT(weft_open(NULL, &db, &error), WEFT_OK);
    CHECK_INT(weft_connect(db, &session, &error), WEFT_OK);
    weft_query(session, "create table t as select g as a from generate_series(1, 1000) as s (g)", NULL, &error);
    CHECK_INT(error.status, WEFT_OK);
    weft_disconnect(session);
}

static weft_session *connect(void)
{
    weft_session *session = NULL;
    CHECK_INT(weft_connect(db, &session, &error), WEFT_OK);
    return session;
}

// ---- a program that waits for any of many ---------------------------------------------------------------------------

typedef struct Slot Slot;
struct Slot { weft_session *session; weft_task *task; int least; Slot *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_done = PTHREAD_COND_INITIALIZER;
static Slot *done;
static int n_notified;

static void on_done(void *context)
{
    Slot *slot = context;
    pthread_mutex_lock(&lock);
    slot->next = done, done = slot;
    n_notified++;
    pthread_cond_signal(&has_done);
    pthread_mutex_unlock(&lock);
}

static Slot *next_done(void)
{
    pthread_mutex_lock(&lock);
    while (!done) pthread_cond_wait(&has_done, &lock);
    Slot *slot = done;
    done = slot->next;
    pthread_mutex_unlock(&lock);
    return slot;
}

static void submit(Slot *slot, int number)
{
    char sql[100];
    slot->least = number % 997;
    snprintf(sql, sizeof sql, "select count(*) from t where a > %d", slot->least);
    CHECK_INT(weft_submit_notify(slot->session, sql, on_done, slot, &slot->task, &error), WEFT_OK);
}

TEST(one_thread_drives_many_sessions)
{
    static Slot slots[N_SESSIONS];
    int n_right = 0, n_submitted = 0;
    open_db();
    done = NULL, n_notified = 0;
    for (int i = 0; i < N_SESSIONS; i++) {
        slots[i].session = connect();
        submit(&slots[i], n_submitted++);
    }
    for (int ended = 0; ended < N_QUERIES; ended++) {
        Slot *slot = next_done();
        weft_result *result = NULL;
        n_right += weft_is_done(slot->task);
        CHECK_INT(weft_wait(slot->task, &result, &error), WEFT_OK);
        n_right += result && weft_result_column(result, 0)->i64[0] == 1000 - slot->least;
        weft_result_free(result);
        if (n_submitted < N_QUERIES) submit(slot, n_submitted++);
    }
    CHECK_INT(n_right, 2 * N_QUERIES);
    CHECK_INT(n_notified, N_QUERIES);                      // each once
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(slots[i].session);
    weft_close(db);
}

// ---- a crowd rides together -----------------------------------------------------------------------------------------

enum { N_CROWD = 96, N_CROWD_QUERIES = 1000, CROWD_ROWS = 1000000, N_TRIES = 20 };

static void ask_crowd(Slot *slot, int number)
{
    char sql[100];
    slot->least = number % 997;
    snprintf(sql, sizeof sql, "select count(*), sum(a * b) from big where a > %d", slot->least);
    CHECK_INT(weft_submit_notify(slot->session, sql, on_done, slot, &slot->task, &error), WEFT_OK);
}

static ScanFigures figures_of_big(void)
{
    Arena *arena = arena_new(NULL, "figures");
    DeviceFigures all;
    ScanFigures found = { 0 };
    db->cpu->list(db->cpu, arena, &all);
    for (int s = 0; s < all.n_scans; s++)
        if (strcmp(all.scans[s].table, "big") == 0) found = all.scans[s];
    arena_free(arena);
    return found;
}

static int n_right;

// Returns how many queries a chunk was for, about.
static int ride_crowd(Slot *slots)
{
    const ScanFigures before = figures_of_big();
    int n_submitted = 0;
    for (int i = 0; i < N_CROWD; i++) ask_crowd(&slots[i], n_submitted++);
    for (int ended = 0; ended < N_CROWD_QUERIES; ended++) {
        Slot *slot = next_done();
        weft_result *result = NULL;
        CHECK_INT(weft_wait(slot->task, &result, &error), WEFT_OK);
        n_right += result && weft_result_column(result, 0)->i64[0] == CROWD_ROWS / 1000 * (999 - slot->least);
        weft_result_free(result);
        if (n_submitted < N_CROWD_QUERIES) ask_crowd(slot, n_submitted++);
    }
    const ScanFigures after = figures_of_big();
    CHECK_INT(after.chunks_ridden - before.chunks_ridden, N_CROWD_QUERIES);
    return N_CROWD_QUERIES / (int)(after.chunks_read - before.chunks_read);
}

// Queries that ended together are waited for when their clients come back with others: else most chunks are opened for
// the few that come first.  On a busy machine some clients come late, so one crowd of several will do.
TEST(clients_that_come_back_ride_together)
{
    static Slot slots[N_CROWD];
    int n_together = 0, n_tries = 0;
    open_db();
    done = NULL, n_right = 0;
    weft_session *session = connect();
    weft_query(session, "create table big as select g % 1000 as a, g as b from generate_series(1, 1000000) as s (g)",
               NULL, &error);
    CHECK_INT(error.status, WEFT_OK);
    for (int i = 0; i < N_CROWD; i++) slots[i].session = connect();
    for (; n_tries < N_TRIES && n_together < N_CROWD / 3; n_tries++) n_together = ride_crowd(slots);
    CHECK_INT(n_right, n_tries * N_CROWD_QUERIES);
    CHECK(n_together >= N_CROWD / 3);
    for (int i = 0; i < N_CROWD; i++) weft_disconnect(slots[i].session);
    weft_disconnect(session);
    weft_close(db);
}

// A program may do without threads of its own: what is told of the end of one query waits for it and asks the next.
typedef struct Chain { weft_session *session; weft_task *task; int n_left; i64 sum; } Chain;

static void ask_next(void *context)
{
    Chain *chain = context;
    weft_result *result = NULL;
    weft_wait(chain->task, &result, NULL);
    chain->sum += result ? weft_result_column(result, 0)->i64[0] : 0;
    weft_result_free(result);
    pthread_mutex_lock(&lock);
    const int n_left = --chain->n_left;
    pthread_cond_signal(&has_done);
    pthread_mutex_unlock(&lock);
    if (n_left) weft_submit_notify(chain->session, "select 7", ask_next, chain, &chain->task, NULL);
}

TEST(a_notice_may_wait_and_submit)
{
    Chain chain = { .n_left = 20 };
    open_db();
    chain.session = connect();
    CHECK_INT(weft_submit_notify(chain.session, "select 7", ask_next, &chain, &chain.task, &error), WEFT_OK);
    pthread_mutex_lock(&lock);
    while (chain.n_left) pthread_cond_wait(&has_done, &lock);
    pthread_mutex_unlock(&lock);
    CHECK_INT(chain.sum, 140);
    weft_disconnect(chain.session);
    weft_close(db);
}

// ---- threads --------------------------------------------------------------------------------------------------------

TEST(without_a_thread_a_query_waits_for_one_or_fails)
{
    weft_task *tasks[50], *none;
    weft_session *sessions[50];
    weft_result *result;
    open_db();
    for (int i = 0; i < 50; i++) sessions[i] = connect();
    fault_set(FAULT_THREAD, 1, true);                      // from the first on
    CHECK_INT(weft_submit(sessions[0], "select 1", &none, &error), WEFT_OUT_OF_MEMORY);
    CHECK_STR(error.sqlstate, "53200");
    CHECK(!none);
    fault_set(FAULT_THREAD, 2, true);                      // one thread and no more: it takes one query after the other
    for (int i = 0; i < 50; i++)
        CHECK_INT(weft_submit(sessions[i], "select count(*) from t where a % 3 = 1", &tasks[i], &error), WEFT_OK);
    for (int i = 49; i >= 0; i--) {
        CHECK_INT(weft_wait(tasks[i], &result, &error), WEFT_OK);
        CHECK_INT(weft_result_column(result, 0)->i64[0], 334);
        weft_result_free(result);
    }
    CHECK_INT(squad_threads(db->squad), 1);
    fault_set(FAULT_THREAD, 0, false);
    for (int i = 0; i < 50; i++) weft_disconnect(sessions[i]);
    weft_close(db);
}

// ---- timeouts -------------------------------------------------------------------------------------------------------

enum { N_TIMED = 60, N_STOPPED = 6 };

// It would take minutes.
static const char endless[] = "select count(*) from t a, t b, t c, t d where a.a + b.a + c.a + d.a = 5";

// The first few are shorter than their queries, and come in no order.
static int timeout_of(int i)
{
    return i < N_STOPPED ? 40 + 20 * (i * 5 % 7) : 60000 + 100 * (i * 7 % 31);
}

TEST(each_timeout_stops_its_own_query)
{
    weft_session *sessions[N_TIMED];
    weft_task *tasks[N_TIMED];
    double begun[N_STOPPED];
    char sql[100];
    open_db();
    for (int i = 0; i < N_TIMED; i++) {
        sessions[i] = connect();
        snprintf(sql, sizeof sql, "set statement_timeout = %d", timeout_of(i));
        CHECK_INT(weft_query(sessions[i], sql, NULL, &error), WEFT_OK);
    }
    for (int i = 0; i < N_STOPPED; i++) {
        begun[i] = time_now_ms();
        CHECK_INT(weft_submit(sessions[i], endless, &tasks[i], &error), WEFT_OK);
    }
    for (int round = 0; round < 5; round++) {              // theirs are set and cleared meanwhile, in many orders
        for (int i = N_STOPPED; i < N_TIMED; i++)
            CHECK_INT(weft_submit(sessions[i], "select count(*) from t", &tasks[i], &error), WEFT_OK);
        for (int i = N_TIMED - 1; i >= N_STOPPED; i--) CHECK_INT(weft_wait(tasks[i], NULL, &error), WEFT_OK);
    }
    for (int i = 0; i < N_STOPPED; i++) {
        CHECK_INT(weft_wait(tasks[i], NULL, &error), WEFT_QUERY_CANCELED);
        CHECK_STR(error.message, "canceling statement due to statement timeout");
        CHECK(time_now_ms() - begun[i] >= timeout_of(i));
    }
    for (int i = 0; i < N_TIMED; i++) weft_disconnect(sessions[i]);
    weft_close(db);
}
