// test_admission.c - who may run beside whom: the rules by themselves, and queries that do not all fit at once.
//
// The first half asks and leaves on one thread, so every order is as written.  The second half runs queries under a
// memory limit that holds a few of many: all must get the right answer, and none may fail because of the others.

#include <pthread.h>
#include <unistd.h>

#include "test.h"
#include "engine_help.h"

#define MB ((i64)1 << 20)

// ---- the rules ------------------------------------------------------------------------------------------------------

static Budget     budget;
static Admission *admission;

static void begin(i64 limit)
{
    budget = (Budget){ .limit = limit };
    admission = admission_new(&budget);
}

static Claim *ask_for(i64 bytes, int priority, u64 key)
{
    const Part parts[] = { { key, bytes } };
    return admission_ask(admission, &(Wish){ .query = 1, .priority = priority, .n_parts = 1, .parts = parts });
}

static Claim *ask(i64 bytes)
{
    return ask_for(bytes, 0, 0);
}

static Claim *ask_alone(i64 bytes)
{
    const Part parts[] = { { 0, bytes } };
    return admission_ask(admission, &(Wish){ .is_alone = true, .n_parts = 1, .parts = parts });
}

static int place(Claim *claim)
{
    return claim_figures(claim).position;
}

// As a query does: counted in its budget.
static void *use(Claim *claim, i64 bytes)
{
    void *memory;
    Error error;
    error_clear(&error);
    CHECK_OK(mem_alloc(claim_budget(claim), (size_t)bytes, &memory, &error), error);
    return memory;
}

static void give_back(Claim *claim, void *memory, i64 bytes)
{
    mem_free(claim_budget(claim), memory, (size_t)bytes);
}

TEST(what_fits_runs_and_the_rest_waits)
{
    begin(100);
    Claim *a = ask(60), *b = ask(40), *c = ask(1);
    CHECK(claim_is_running(a) && claim_is_running(b) && !claim_is_running(c));
    CHECK_INT(place(c), 1);
    claim_leave(b);
    CHECK(claim_is_running(c));
    CHECK_INT(place(c), 0);
    claim_leave(a);
    claim_leave(c);
    admission_free(admission);
}

// A long queue is not looked at for each that leaves: those that it made room for are let in a little later.
static void *wait_and_leave(void *claim)
{
    Error error;
    error_clear(&error);
    CHECK_OK(claim_wait(claim, &error), error);
    claim_leave(claim);
    return NULL;
}

TEST(all_of_a_long_queue_run_in_the_end)
{
    enum { WAITING = 500 };
    pthread_t threads[WAITING];
    begin(100);
    Claim *all = ask(100);
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_leave, ask(1 + i % 60)), 0);
    claim_leave(all);
    for (int i = 0; i < WAITING; i++)
        pthread_join(threads[i], NULL);
    CHECK(!admission_is_busy(admission));
    admission_free(admission);
}

// Only a newcomer and the first of a long queue look through it, now and then.  No thread of this test waits in the
// queue, so claims come and go until one of them has looked.
static void look_until(bool (*is_so)(Claim *claim, int position), Claim *claim, int position)
{
    enum { PAUSE_US = 1000, LOOKS = 60000 };
    for (int i = 0; i < LOOKS && !is_so(claim, position); i++) {
        usleep(PAUSE_US);
        claim_leave(ask(40));
    }
    CHECK(is_so(claim, position));
}

static bool is_running(Claim *claim, int position)
{
    (void)position;
    return claim_is_running(claim);
}

static bool is_at(Claim *claim, int position) { return place(claim) == position; }

// The first is told that it is, since it looks for room from then on; the others are told a little later.
TEST(places_in_a_long_queue_are_told_now_and_then)
{
    enum { WAITING = 100 };
    Claim *claims[WAITING];
    begin(100);
    Claim *a = ask(60), *b = ask(40);
    for (int i = 0; i < WAITING; i++)
        claims[i] = ask(40);
    CHECK_INT(place(claims[0]), 1);
    CHECK_INT(place(claims[WAITING - 1]), WAITING);
    claim_leave(b);
    look_until(is_running, claims[0], 0);
    CHECK(!claim_is_running(claims[1]));
    CHECK_INT(place(claims[1]), 1);
    claim_leave(claims[0]);
    look_until(is_running, claims[1], 0);
    CHECK(!claim_is_running(claims[2]));
    CHECK_INT(place(claims[2]), 1);
    look_until(is_at, claims[WAITING - 1], WAITING - 2);
    // Two in a hurry are before all of them.  They know it at once, and pass them.
    Claim *first = ask_for(40, 1, 0), *second = ask_for(40, 1, 0);
    CHECK_INT(place(first), 1);
    CHECK_INT(place(second), 2);
    look_until(is_at, claims[2], 3);
    claim_leave(claims[1]);
    look_until(is_running, first, 0);
    CHECK(!claim_is_running(second) && !claim_is_running(claims[2]));
    CHECK_INT(place(second), 1);
    claim_leave(first);
    claim_leave(second);
    for (int i = 2; i < WAITING; i++)
        claim_leave(claims[i]);
    claim_leave(a);
    CHECK(!admission_is_busy(admission));
    admission_free(admission);
}

TEST(without_a_limit_everybody_runs)
{
    Claim *claims[300];
    begin(0);
    for (int i = 0; i < 300; i++) {
        claims[i] = ask(INT64_MAX / 4);
        CHECK(claim_is_running(claims[i]));
    }
    for (int i = 0; i < 300; i++)
        claim_leave(claims[i]);
    admission_free(admission);
}

TEST(a_larger_priority_goes_first_and_then_who_came_first)
{
    const int priorities[] = { 0, 5, 0, 10, 5 }, places[] = { 4, 2, 5, 1, 3 };
    Claim *claims[5];
    begin(100);
    Claim *all = ask(100);
    for (int i = 0; i < 5; i++)
        claims[i] = ask_for(100, priorities[i], 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(place(claims[i]), places[i]);
    claim_leave(all);
    for (int next = 1; next <= 5; next++)
        for (int i = 0; i < 5; i++) {
            if (places[i] != next)
                continue;
            CHECK(claim_is_running(claims[i]));
            claim_leave(claims[i]);
        }
    admission_free(admission);
}

TEST(a_position_is_kept_where_the_wish_says)
{
    _Atomic int position = 77;
    const Part parts[] = { { 0, 100 } };
    begin(100);
    Claim *all = ask(100), *first = ask(100);
    Claim *second = admission_ask(admission, &(Wish){ .n_parts = 1, .parts = parts, .position = &position });
    CHECK_INT(position, 2);
    claim_leave(first);                                     // one that waits may leave: it was cancelled
    CHECK_INT(position, 1);
    claim_leave(all);
    CHECK_INT(position, 0);
    CHECK(claim_is_running(second));
    claim_leave(second);
    admission_free(admission);
}

TEST(others_pass_a_big_one_but_not_for_ever)
{
    Claim *running[PASSES_MOST + 1];
    begin(10000);
    Claim *half = ask(5000), *big = ask(7000);
    for (int i = 0; i < PASSES_MOST; i++) {
        running[i] = ask(80);
        CHECK(claim_is_running(running[i]));
    }
    Claim *other = ask(80), *important = ask_for(80, 10, 0);
    CHECK(!claim_is_running(other) && !claim_is_running(important));           // it was passed often enough
    CHECK_INT(place(big), 1);
    claim_leave(half);
    CHECK(claim_is_running(big) && claim_is_running(other) && claim_is_running(important));
    for (int i = 0; i < PASSES_MOST; i++)
        claim_leave(running[i]);
    claim_leave(big);
    claim_leave(other);
    claim_leave(important);
    admission_free(admission);
}

TEST(what_is_small_passes_all_within_its_share)
{
    enum { LIMIT = 1 << 20, SMALL = LIMIT / SMALL_PART, N = SMALL_PART / SMALL_SHARE };
    Claim *small[N];
    begin(LIMIT);
    Claim *all = ask(LIMIT), *big = ask(LIMIT / 2);
    for (int i = 0; i < N; i++) {
        small[i] = ask(SMALL);                              // nothing is in use yet: it is only expected to be
        CHECK(claim_is_running(small[i]));
    }
    Claim *late = ask(SMALL), *not_small = ask(SMALL + 1);
    CHECK(!claim_is_running(late) && !claim_is_running(not_small));            // their share is taken
    claim_leave(small[0]);
    CHECK(claim_is_running(late));
    claim_leave(late);
    void *memory = use(all, LIMIT - SMALL + 1);
    Claim *no_room = ask(SMALL);
    CHECK(!claim_is_running(no_room));                      // what is in use is in use
    give_back(all, memory, LIMIT - SMALL + 1);
    claim_leave(all);
    CHECK(claim_is_running(big) && claim_is_running(no_room) && claim_is_running(not_small));
    for (int i = 1; i < N; i++)
        claim_leave(small[i]);
    claim_leave(big);
    claim_leave(no_room);
    claim_leave(not_small);
    admission_free(admission);
}

TEST(small_ones_starve_nobody)
{
    begin(1 << 20);
    Claim *small = ask(10), *all = ask(1 << 20);
    int n_passed = 0;
    for (; !claim_is_running(all); n_passed++) {            // there is always a small one
        Claim *next = ask(10);
        claim_leave(small);
        small = next;
        CHECK(n_passed <= SMALL_PASSES_MOST);
    }
    CHECK_INT(n_passed, SMALL_PASSES_MOST + 1);
    CHECK(claim_is_running(small));                         // beside it: nothing is in use
    claim_leave(all);
    claim_leave(small);
    admission_free(admission);
}

TEST(priority_starves_nobody)
{
    begin(100);
    Claim *runs = ask(100), *humble = ask(100);
    int n_before = 0;
    while (!claim_is_running(humble)) {
        Claim *important = ask_for(100, 10, 0);
        claim_leave(runs);
        runs = important;
        CHECK(++n_before <= PASSES_MOST + 1);
        if (claim_is_running(humble))
            break;
        CHECK(claim_is_running(important));
    }
    CHECK_INT(n_before, PASSES_MOST + 1);
    claim_leave(humble);
    claim_leave(runs);
    admission_free(admission);
}

TEST(one_that_needs_more_than_there_is_runs_alone_until_the_facts_are_known)
{
    const Part parts[] = { { 0, 5000 }, { 0, 10 } };
    begin(100);
    Claim *first = ask(1);
    Claim *huge = admission_ask(admission, &(Wish){ .n_parts = 2, .parts = parts });
    CHECK(!claim_is_running(huge));
    claim_leave(first);
    CHECK(claim_is_running(huge));
    Claim *other = ask(20);
    CHECK(!claim_is_running(other));
    void *table = use(huge, 70);                            // what it was afraid of takes 70
    claim_made(huge, 0, true);
    CHECK(claim_is_running(other));                         // 70 + 10 + 20
    CHECK_INT(claim_figures(huge).reserved, 80);
    CHECK_INT(claim_figures(huge).wanted, 5010);
    give_back(huge, table, 70);
    claim_leave(huge);
    claim_leave(other);
    admission_free(admission);
}

TEST(what_is_used_counts_where_it_is_more_than_expected)
{
    begin(100);
    Claim *a = ask(10);
    void *memory = use(a, 90);
    Claim *b = ask(20);
    CHECK(!claim_is_running(b));
    give_back(a, memory, 90);
    claim_leave(a);
    CHECK(claim_is_running(b));
    memory = use(b, 20);
    CHECK_INT(budget.used, 20);                             // expected and used are not added up
    Claim *c = ask(80);
    CHECK(claim_is_running(c));
    give_back(b, memory, 20);
    claim_leave(b);
    claim_leave(c);
    admission_free(admission);
}

TEST(memory_of_no_query_counts)
{
    void *table;
    Error error;
    begin(100);
    CHECK_OK(mem_alloc(&budget, 50, &table, &error), error);
    Claim *a = ask(30), *b = ask(30);
    CHECK(claim_is_running(a) && !claim_is_running(b));
    mem_free(&budget, table, 50);                           // nobody tells the admission: the first in the queue looks
    error_clear(&error);
    CHECK_OK(claim_wait(b, &error), error);
    claim_leave(a);
    claim_leave(b);
    admission_free(admission);
}

TEST(a_shared_part_counts_once)
{
    begin(100);
    Claim *maker = ask_for(90, 0, 7), *user = ask_for(90, 0, 7), *stranger = ask_for(90, 0, 8);
    CHECK(claim_is_running(maker) && claim_is_running(user) && !claim_is_running(stranger));
    CHECK_INT(claim_figures(user).reserved, 0);
    claim_leave(maker);                                     // it failed: the other one makes it
    CHECK(claim_is_running(stranger));
    claim_make(user, 0);
    CHECK_INT(claim_figures(user).reserved, 90);
    claim_leave(stranger);
    Claim *late = ask_for(90, 0, 7);
    CHECK(claim_is_running(late));
    claim_made(user, 0, false);                             // it cannot be found any more
    claim_made(late, 0, false);
    Claim *later = ask_for(200, 0, 7);
    CHECK(!claim_is_running(later));
    claim_leave(user);
    claim_leave(late);
    CHECK(claim_is_running(later));
    claim_leave(later);
    admission_free(admission);
}

TEST(an_alone_wish_is_alone)
{
    begin(100);
    Claim *a = ask(10), *b = ask(10), *alone = ask_alone(10), *c = ask(10), *important = ask_for(10, 10, 0);
    CHECK(claim_is_running(a) && claim_is_running(b) && !claim_is_running(alone) && !claim_is_running(c));
    CHECK(!claim_is_running(important));
    CHECK_INT(place(alone), 1);
    claim_leave(a);
    CHECK(!claim_is_running(alone) && !claim_is_running(c));
    claim_leave(b);
    CHECK(claim_is_running(alone) && !claim_is_running(c));
    CHECK(!claim_had_company(alone));
    claim_made(alone, 0, false);
    CHECK(!claim_is_running(c));
    claim_leave(alone);
    CHECK(claim_is_running(c) && claim_is_running(important));
    CHECK(claim_had_company(c) && claim_had_company(important));
    claim_leave(c);
    claim_leave(important);
    admission_free(admission);
}

TEST(company_is_remembered)
{
    begin(100);
    Claim *a = ask(10);
    CHECK(!claim_had_company(a));
    Claim *b = ask(10);
    claim_leave(b);
    CHECK(claim_had_company(a));
    claim_leave(a);
    admission_free(admission);
}

TEST(a_look_runs_at_once_and_is_not_in_the_list)
{
    ClaimFigures *figures;
    int n_figures;
    Arena *arena = arena_new(NULL, "test");
    begin(100);
    Claim *all = ask(100), *waits = ask(100);
    Claim *look = admission_ask(admission, &(Wish){ .is_look = true });
    CHECK(claim_is_running(look));
    void *memory = use(look, 1000);                         // beside the limit
    CHECK_INT(budget.used, 0);
    admission_list(admission, arena, &figures, &n_figures);
    CHECK_INT(n_figures, 2);
    CHECK_INT(figures[0].position, 0);
    CHECK_INT(figures[1].position, 1);
    void *too_much;
    CHECK_STATUS(mem_alloc(claim_budget(look), 100 << 20, &too_much, &(Error){ 0 }), WEFT_OUT_OF_MEMORY);
    give_back(look, memory, 1000);
    claim_leave(look);
    claim_leave(waits);
    claim_leave(all);
    arena_free(arena);
    admission_free(admission);
}

TEST(a_claim_is_used_again_once_nothing_is_counted_in_it)
{
    begin(0);
    Claim *a = ask(10);
    void *result = use(a, 10);
    claim_leave(a);
    Claim *b = ask(10);
    CHECK(a != b);
    give_back(a, result, 10);
    claim_leave(b);
    CHECK_INT(budget.used, 0);
    Claim *c = ask(10), *d = ask(10);
    CHECK((c == a && d == b) || (c == b && d == a));
    CHECK_INT(claim_figures(c).most, 0);
    claim_leave(c);
    claim_leave(d);
    admission_free(admission);
}

typedef struct Waiter { Claim *claim; weft_status status; Error error; double end_ms; } Waiter;

static void *wait_on_thread(void *context)
{
    Waiter *waiter = context;
    error_clear(&waiter->error);
    waiter->status = claim_wait(waiter->claim, &waiter->error);
    waiter->end_ms = time_now_ms();
    return NULL;
}

TEST(whoever_waits_sees_its_stop_flag)
{
    _Atomic u32 stop = 0;
    const Part parts[] = { { 0, 100 } };
    pthread_t threads[3];
    Waiter waiters[3];
    begin(100);
    Claim *all = ask(100);
    for (int i = 0; i < 3; i++) {                           // the last can be stopped; it is not the first in the queue
        waiters[i] =
            (Waiter){ .claim = admission_ask(admission,
                                             &(Wish){ .n_parts = 1, .parts = parts, .stop = i == 2 ? &stop : NULL }) };
        CHECK_INT(pthread_create(&threads[i], NULL, wait_on_thread, &waiters[i]), 0);
    }
    usleep(20000);
    atomic_store(&stop, 1);
    admission_wake(admission);
    pthread_join(threads[2], NULL);
    CHECK_STATUS(waiters[2].status, WEFT_QUERY_CANCELED);
    claim_leave(waiters[2].claim);
    claim_leave(all);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STATUS(waiters[i].status, WEFT_OK);
        claim_leave(waiters[i].claim);
    }
    admission_free(admission);
}

// ---- queries --------------------------------------------------------------------------------------------------------

typedef struct Client {
    weft_session *session;
    pthread_t     thread;
    const char   *sql;
    const char   *should;              // NULL: not looked at
    int           n_times;
    weft_status   status;
    weft_error    error;
    bool          is_wrong;
    _Atomic bool  is_done;
} Client;

static void *run_client(void *context)
{
    Client *client = context;
    Text text = { 0 };
    for (int i = 0; i < client->n_times && !client->status; i++) {
        weft_result *result;
        client->status = weft_query(client->session, client->sql, &result, &client->error);
        if (client->status)
            break;
        result_text(result, &text);
        client->is_wrong |= client->should && strcmp(text.bytes, client->should) != 0;
        weft_result_free(result);
    }
    text_free(&text);
    client->is_done = true;
    return NULL;
}

static void start_client(Client *client, const char *settings, const char *sql, const char *should, int n_times)
{
    *client = (Client){ .sql = sql, .should = should, .n_times = n_times };
    CHECK_OK(weft_connect(db, &client->session, &err), err);
    CHECK_OK(weft_query(client->session, settings, NULL, &err), err);
    CHECK_INT(pthread_create(&client->thread, NULL, run_client, client), 0);
}

static void end_client(Client *client)
{
    pthread_join(client->thread, NULL);
    weft_disconnect(client->session);
}

static void check_client(Client *client)
{
    end_client(client);
    if (client->status)
        CHECK_FAIL("%s failed: %s", client->sql, client->error.message);
    if (client->is_wrong)
        CHECK_FAIL("%s has a wrong answer", client->sql);
}

static Claim *take_all(void)
{
    const Part parts[] = { { 0, (i64)1 << 50 } };
    return admission_ask(db->admission, &(Wish){ .query = 4711, .n_parts = 1, .parts = parts });
}

static void wait_until_in_queue(int n)
{
    char sql[100], should[16];
    snprintf(sql, sizeof(sql), "select count(*) >= %d from weft_queue where state = 'waiting'", n);
    snprintf(should, sizeof(should), "t;");
    for (int i = 0; i < 10000 && strcmp(answer(sql), should) != 0; i++)
        usleep(1000);
    CHECK_ANSWER(sql, should);
}

// Many, each with an own constant: nothing is shared.
static void make_queries(char (*sqls)[256], int n, const char *const *forms, int n_forms)
{
    for (int i = 0; i < n; i++)
        snprintf(sqls[i], sizeof(sqls[i]), forms[i % n_forms], i);
}

enum { N_CLIENTS = 72, N_ROWS = 60000 };

static void run_many(const char *const *forms, int n_forms, i64 room, const char *settings)
{
    static char sqls[N_CLIENTS][256];
    static Client clients[N_CLIENTS];
    char *shoulds[N_CLIENTS], limit[64];
    open_db(NULL);
    make_big("t", N_ROWS, false);
    make_big("u", N_ROWS, false);
    make_queries(sqls, N_CLIENTS, forms, n_forms);
    for (int i = 0; i < N_CLIENTS; i++)
        shoulds[i] = strdup(answer(sqls[i]));
    i64 used = db->budget.used;
    snprintf(limit, sizeof(limit), "set memory_limit = %lld", (long long)(used + room));
    run(limit);
    for (int i = 0; i < N_CLIENTS; i++)
        start_client(&clients[i], settings, sqls[i], shoulds[i], 2);
    for (int i = 0; i < N_CLIENTS; i++) {
        check_client(&clients[i]);
        free(shoulds[i]);
    }
    CHECK_INT(db->budget.used, used);
    CHECK_ANSWER("select count(*) from weft_queue", "0;");
    close_db();
}

TEST(many_queries_that_do_not_fit_together_all_succeed)
{
    static const char *const forms[] = {
        "select mixed, count(*), sum(id) from t where id >= %d group by mixed order by mixed limit 3",
        "select count(*), sum(u.id), sum(t.ten) from t join u on t.mixed = u.mixed where u.id >= %d",
        "select id + %d, mixed, ten from t order by mixed desc limit 2",
        "select t.mixed, max(u.id) from t join u on t.id = u.mixed + %d group by t.mixed order by 2 desc, 1 limit 3",
    };
    run_many(forms, COUNT_OF(forms), 24 * MB, "");
    run_many(forms, COUNT_OF(forms), 24 * MB, "set sharing = off; set priority = 3");
}

// x %% 2147483647 = x is true of every row, and is thought to be of one in ten: three of these, and an estimate is a
// thousandth of the truth.
TEST(queries_whose_estimates_are_wrong_all_succeed)
{
    static const char *const forms[] = {
        "select mixed, id, count(*) from t where mixed %% 2147483647 = mixed and id %% 2147483647 = id and ten %% 11 = "
        "ten and id >= %d "
        "group by mixed, id order by mixed limit 3",
    };
    run_many(forms, COUNT_OF(forms), 24 * MB, "");
}

TEST(equal_queries_count_once)
{
    static Client clients[N_CLIENTS];
    char limit[64];
    open_db(NULL);
    make_big("t", N_ROWS, false);
    static const char sql[] = "select mixed, count(*) from t group by mixed order by mixed limit 1";
    run(sql);
    snprintf(limit, sizeof(limit), "set memory_limit = %lld", (long long)(db->budget.used + 60 * MB));
    run(limit);
    Claim *all = take_all();
    for (int i = 0; i < N_CLIENTS; i++)
        start_client(&clients[i], "", sql, "0|1;", 1);
    wait_until_in_queue(N_CLIENTS);
    claim_leave(all);
    for (int i = 0; i < N_CLIENTS; i++)
        check_client(&clients[i]);
    close_db();
}

// ---- seen from outside ----------------------------------------------------------------------------------------------

TEST(the_queue_can_be_seen)
{
    Client clients[3];
    open_db(NULL);
    make_big("t", 1000, false);
    run("set memory_limit = '4MB'");                        // so little that nothing is small
    Claim *all = take_all();
    start_client(&clients[0], "", "select count(*) from t", "1000;", 1);
    wait_until_in_queue(1);
    start_client(&clients[1], "set priority = 7", "select sum(id) from t", "499500;", 1);
    wait_until_in_queue(2);
    start_client(&clients[2], "", "explain analyze select ten, count(*) from t group by ten", NULL, 1);
    wait_until_in_queue(3);
    CHECK_ANSWER(
        "select state, position, priority, alone, bytes_wanted > 0, bytes_reserved, bytes_used, waited_ms >= 0 from "
        "weft_queue "
        "where state = 'waiting' order by position",
        "waiting|1|7|f|t|0|0|t;waiting|2|0|f|t|0|0|t;waiting|3|0|f|t|0|0|t;");
    CHECK_ANSWER("select query, state, bytes_reserved from weft_queue where query = 4711",
                 "4711|running|1125899906842624;");
    CHECK_INT(weft_queue_position(clients[0].session), 2);
    CHECK_INT(weft_queue_position(clients[1].session), 1);
    CHECK_INT(weft_queue_position(session), 0);
    CHECK_DOUBLE(weft_progress(clients[0].session), 0, 0);
    CHECK_HAS(answer("explain (network) select 1"), "waiting for memory, place 1, priority 7, for ");
    CHECK_HAS(answer("explain (network) select 1"), "query 4711: running");
    CHECK_HAS(answer("explain (dot) select 1"), "waits, place 3: ");
    claim_leave(all);
    for (int i = 0; i < 3; i++)
        check_client(&clients[i]);
    CHECK_ANSWER("select count(*) from weft_queue", "0;");
    close_db();
}

TEST(explain_analyze_says_what_memory_was_expected_and_used)
{
    open_db(NULL);
    make_big("t", 5000, false);
    const char *text = answer("explain analyze select mixed, count(*) from t group by mixed");
    CHECK_HAS(text, "memory: estimated ");
    CHECK_HAS(text, "used at most ");
    CHECK_HAS(text, "waited 0.0");
    CHECK(!strstr(text, "used at most 0 B"));
    close_db();
}

TEST(a_query_that_waits_can_be_cancelled_and_times_out)
{
    Client clients[3];
    open_db(NULL);
    make_big("t", 1000, false);
    run("set memory_limit = '4MB'");                        // so little that nothing is small
    i64 used = db->budget.used;
    Claim *all = take_all();
    start_client(&clients[0], "", "select count(*) from t", NULL, 1);
    wait_until_in_queue(1);
    start_client(&clients[1], "", "select sum(id) from t", NULL, 1);
    wait_until_in_queue(2);
    weft_cancel(clients[1].session);
    end_client(&clients[1]);
    CHECK_STATUS(clients[1].status, WEFT_QUERY_CANCELED);
    start_client(&clients[2], "set statement_timeout = 30", "select max(id) from t", NULL, 1);
    end_client(&clients[2]);
    CHECK_STATUS(clients[2].status, WEFT_QUERY_CANCELED);
    CHECK_HAS(clients[2].error.message, "statement timeout");
    weft_cancel(clients[0].session);                        // the first in the queue
    end_client(&clients[0]);
    CHECK_STATUS(clients[0].status, WEFT_QUERY_CANCELED);
    CHECK_ANSWER("select count(*) from weft_queue", "1;");
    claim_leave(all);
    CHECK_INT(db->budget.used, used);
    CHECK_ANSWER("select count(*) from t", "1000;");
    close_db();
}

TEST(a_raised_limit_lets_the_first_in)
{
    Client client;
    open_db(NULL);
    make_big("t", 1000, false);
    run("set memory_limit = '4MB'");                        // so little that nothing is small
    Claim *all = take_all();
    start_client(&client, "", "select count(*) from t", "1000;", 1);
    wait_until_in_queue(1);
    run("set memory_limit = 0");
    check_client(&client);
    claim_leave(all);
    close_db();
}

// ---- a full house ---------------------------------------------------------------------------------------------------

TEST(one_can_look_at_a_full_house)
{
    open_db(NULL);
    make_big("t", 1000, false);
    run("set memory_limit = 1");
    Claim *all = take_all();
    CHECK_ANSWER("select name, rows from weft_tables", "t|1000;");
    CHECK_ANSWER("select 1, 'text'", "1|text;");
    CHECK_ANSWER("show memory_limit", "1B;");
    CHECK_HAS(answer("explain (network) select 1"), "query 4711: running");
    CHECK_ANSWER("select id from t limit 0", "");
    CHECK_ANSWER("select count(*) from weft_queue", "1;");
    CHECK_ANSWER(
        "select a.name, b.column_name from weft_tables a join weft_columns b on a.name = b.table_name "
         "order by position",
        "t|id;t|ten;t|mixed;");
    claim_leave(all);
    run("set temp_limit = off");
    fails("select count(*) from t", WEFT_OUT_OF_MEMORY);    // nobody else is there: it is the limit itself
    CHECK_HAS(err.message, "memory_limit");
    close_db();
}

// What meets the limit because of others is run again alone; this one meets it alone, too, and says so once.
TEST(what_meets_the_limit_alone_fails)
{
    Client clients[8];
    char limit[64];
    open_db(NULL);
    make_big("t", N_ROWS, false);
    i64 used = db->budget.used;
    snprintf(limit, sizeof(limit), "set memory_limit = %lld", (long long)(used + MB));
    run(limit);
    run("set temp_limit = off");
    for (int i = 0; i < 8; i++)
        start_client(&clients[i], "",
                     i % 2 ? "select count(*) from t where id < 50"
                           : "select a.id, b.id from t a, t b where a.id * b.id = 77 and a.id < 2000",
                     i % 2 ? "50;" : NULL, i % 2 ? 20 : 1);
    for (int i = 1; i < 8; i += 2)
        check_client(&clients[i]);
    for (int i = 0; i < 8; i += 2)
        weft_cancel(clients[i].session);
    for (int i = 0; i < 8; i += 2)
        end_client(&clients[i]);
    for (int i = 0; i < 8; i++)
        start_client(&clients[i], "", i % 2 ? "select count(*) from t where id < 50" : "select * from t",
                     i % 2 ? "50;" : NULL, i % 2 ? 20 : 1);
    for (int i = 0; i < 8; i++) {
        if (i % 2) {
            check_client(&clients[i]);
            continue;
        }
        end_client(&clients[i]);
        CHECK_STATUS(clients[i].status, WEFT_OUT_OF_MEMORY);
        CHECK_HAS(clients[i].error.message, "memory_limit");
    }
    CHECK_INT(db->budget.used, used);
    close_db();
}

TEST(an_insert_waits_for_memory_that_queries_have)
{
    Client client;
    open_db(NULL);
    run("create table c (n bigint)");
    i64 used = db->budget.used;
    db->budget.limit = used + 10 * MB;
    Claim *company = admission_ask(db->admission, &(Wish){ .query = 1 });
    i64 taken = db->budget.limit - db->budget.used;
    void *memory = use(company, taken);
    start_client(&client, "", "insert into c values (1), (2), (3)", NULL, 1);
    wait_until_in_queue(1);
    CHECK_INT(weft_queue_position(client.session), 1);
    give_back(company, memory, taken);
    claim_leave(company);
    check_client(&client);
    CHECK_ANSWER("select count(*), sum(n) from c", "3|6;");
    db->budget.limit = db->budget.used;
    fails("insert into c values (4)", WEFT_OUT_OF_MEMORY);  // nobody else is there
    db->budget.limit = TEST_MEMORY;
    CHECK_ANSWER("select count(*), sum(n) from c", "3|6;");
    close_db();
}

static bool all_done(const Client *clients, int n)
{
    for (int i = 0; i < n; i++)
        if (!clients[i].is_done)
            return false;
    return true;
}

// The n-th allocation fails while others run: whoever it hits is run again, and everybody gets the right answer.
TEST(memory_that_is_refused_while_others_run)
{
    static const char *const forms[] = {
        "select mixed, count(*), sum(id) from t where id >= %d group by mixed order by mixed limit 2",
        "select count(*), sum(u.id) from t join u on t.mixed = u.mixed where u.id >= %d",
    };
    enum { N = 6 };
    static char sqls[N][256];
    Client clients[N];
    char *shoulds[N];
    open_db(NULL);
    make_big("t", 3000, false);
    make_big("u", 3000, false);
    make_queries(sqls, N, forms, COUNT_OF(forms));
    for (int i = 0; i < N; i++)
        shoulds[i] = strdup(answer(sqls[i]));
    i64 used = db->budget.used;
    for (int nth = 1; nth < 120; nth += 3) {
        Claim *company = admission_ask(db->admission, &(Wish){ .query = 1 });
        fault_set(FAULT_MEMORY, nth, false);
        for (int i = 0; i < N; i++)
            start_client(&clients[i], "", sqls[i], shoulds[i], 1);
        while (fault_count(FAULT_MEMORY) < nth && !all_done(clients, N))
            usleep(50);
        claim_leave(company);                               // not before: whoever it hits is to have company
        for (int i = 0; i < N; i++)
            check_client(&clients[i]);
        fault_set(FAULT_MEMORY, 0, false);
        CHECK_INT(db->budget.used, used);
    }
    for (int i = 0; i < N; i++)
        free(shoulds[i]);
    close_db();
}
