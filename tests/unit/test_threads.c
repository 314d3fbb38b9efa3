// test_threads.c - answers do not depend on how many threads make join tables and merge groups.
//
// The queries below end in each shape of join table and each kind of groups, of so many rows that all threads take
// part.  What one thread answers is what 2, 4 and 7 must answer.

#include <pthread.h>
#include <unistd.h>

#include "test.h"
#include "engine_help.h"

#define ROWS 150000

static i64 number_five(u64 row) { return (i64)(row / 5); }                     // five of each, in order

static void use_threads(int n_threads)
{
    network_free(db->network);
    db->network = network_new(n_threads);
    db->cpu = network_cpu(db->network);
    session->settings.threads = n_threads;
}

static void make_tables(void)
{
    const NumberOf numbers[] = { number_id, number_five, number_mixed, number_ten, number_mixed };
    open_db(":memory:");
    run("set device = cpu; set jit = tcc; set chunk_rows = 8192");
    run("create table a (id bigint, five bigint, mixed bigint, ten bigint, word text)");
    run("create table b (id bigint, five bigint, mixed bigint, ten bigint, word text)");
    fill("a", numbers, 5, 2 * ROWS);
    fill("b", numbers, 5, ROWS);
}

// Keys and values that may be NULL.
#define C "(select id, case when ten = 3 then null else mixed end as k, " \
          "case when ten = 4 then null else cast(id as double precision) / 2 end as f from b) c"

static const char *const queries[] = {
    // bits: ascending, in no order; a table by key, with ascending keys and without
    "select count(*), sum(a.id) from a where a.five in (select id from b where ten < 8)",
    "select count(*), sum(a.id) from a where a.five in (select (mixed % 1000003) from b where ten < 8)",
    "select count(*), sum(b.mixed), min(b.word), max(b.ten) from a, b where a.five = b.id",
    "select count(*), sum(x.m), min(x.word) from a, (select 149999 - id as k, mixed as m, word from b) x"
    " where a.five = x.k",
    // chained by key; all rows have one key
    "select a.id, b.id, b.word from a, b where a.five = b.five and (a.id + b.id) % 25 = 0"
    " order by a.id, b.id",
    "select count(*), sum(b.id) from a, b where a.five = b.five",
    "select count(*), sum(x.id) from a, (select id, id - id + 7 as k from b) x where a.five = x.k",
    // hash: one word, unique and not; several words; NULLs, which meet nobody
    "select count(*), sum(b.id), min(b.word) from a, b where a.mixed = b.mixed",
    "select a.id, x.id from a, (select id, five * 1000003 as k from b) x where a.five * 1000003 = x.k"
    " and (a.id + x.id) % 25 = 0 order by a.id, x.id",
    "select count(*), sum(b.id) from a, b where a.mixed = b.mixed and a.word = b.word and a.ten = b.ten",
    "select count(*), sum(c.id), sum(c.f), count(c.f) from a, " C " where a.mixed = c.k",
    "select a.id, c.f from a, " C " where a.mixed = c.k",
    "select count(*), sum(c.f), count(c.f) from a, " C " where a.five = c.id",
    // groups: of an array, of one word, of several words
    "select id, count(*), sum(mixed), min(ten) from a group by id order by id limit 1000",
    "select mixed, count(*), sum(id), max(ten) from a group by mixed order by mixed limit 1000",
    "select sum(n), sum(s), min(m), max(m), count(*) from (select mixed as m, count(*) as n, sum(id) as s from a"
    " group by mixed) x",
    "select count(*), sum(n), min(w), max(f) from (select word as w, mixed, five as f, count(*) as n from a"
    " group by word, mixed, five) x",
    // rows put together
    "select id, mixed, word from a where ten <> 4",
};

static char *copy_answer(const char *sql) { return strdup(answer(sql)); }

TEST(answers_do_not_depend_on_threads)
{
    static const int thread_counts[] = { 2, 4, 7 };
    char            *should[COUNT_OF(queries)];
    make_tables();
    use_threads(1);
    for (int q = 0; q < COUNT_OF(queries); q++) should[q] = copy_answer(queries[q]);
    for (int t = 0; t < COUNT_OF(thread_counts); t++) {
        use_threads(thread_counts[t]);
        for (int q = 0; q < COUNT_OF(queries); q++)
            if (strcmp(answer(queries[q]), should[q]) != 0)
                CHECK_FAIL("with %d threads another answer: %s", thread_counts[t], queries[q]);
    }
    for (int q = 0; q < COUNT_OF(queries); q++) free(should[q]);
    close_db();
}

// A query of all of it: a hash table whose rows are chained, and hash groups.
#define LARGE "select count(*), sum(n) from (select a.word as w, count(*) as n from a, " \
              "(select id, five * 1000003 as k from b) x where a.five * 1000003 = x.k group by a.word, a.mixed) y"
#define LARGE_ROWS "select sum(x.n), count(*) from a, (select mixed as m, five as n from b) x where a.mixed = x.m"

TEST(the_shapes_of_tables_are_those_meant)
{
    static const struct { int query; const char *shape; } shapes[] = {
        { 0, "bits over" },     { 2, "direct over" },   { 3, "direct over" },    { 4, "direct, chained over" },
        { 6, "direct, chained over" },    { 7, "table: hash:" },  { 8, "table: hash, chained" },
    };
    char sql[600];
    make_tables();
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        snprintf(sql, sizeof sql, "explain analyze %s", queries[shapes[s].query]);
        CHECK_HAS(answer(sql), shapes[s].shape);
    }
    close_db();
}

// ---- filters --------------------------------------------------------------------------------------------------------

static i64 number_tens(u64 row) { return (i64)row * 10; }

static void make_sparse(void)
{
    const NumberOf numbers[] = { number_id, number_ten, number_tens };
    open_db(":memory:");
    run("set device = cpu; set jit = tcc");
    run("create table a (id bigint, ten bigint, tens bigint)");
    run("create table b (id bigint, ten bigint, tens bigint)");
    fill("a", numbers, 3, ROWS + 100000);
    fill("b", numbers, 3, ROWS);
}

// Keys are sparse, so the table is hashed; few rows meet any, so a bit for each key is asked first.
TEST(a_filter_goes_before_a_hash_table)
{
    make_sparse();
    const char *plan = answer("explain analyze select sum(b.id) from a, b where a.tens = b.tens and b.ten < 3");
    CHECK_HAS(plan, "table: hash, filter over ");
    CHECK_HAS(answer("explain (kernel) select sum(b.id) from a, b where a.tens = b.tens and b.ten < 3"), "BIT_TEST(");
    CHECK(!strstr(answer("explain analyze select sum(b.id) from a, b where a.tens = b.tens * 3 and b.ten < 9"),
                  "filter over"));     // most rows of b are there
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        use_threads(n_threads);
        CHECK_ANSWER("select count(*), sum(b.id), sum(a.id) from a, b where a.tens = b.tens and b.ten < 3",
                     "45000|3374820000|3374820000;");
        // a key that is no stored column, and what it finds out of the range of the filter
        CHECK_ANSWER("select count(*), sum(b.id) from a, b where a.tens - 7 = b.tens and b.ten < 3", "0|-;");
        CHECK_ANSWER("select count(*), sum(b.id) from a, b where a.tens * 2 - 400 = b.tens and b.ten < 3",
                     "30000|2249880000;");
        // the other kinds of joins
        CHECK_ANSWER("select count(*), sum(id) from a where tens in (select tens from b where ten < 3)",
                     "45000|3374820000;");
        CHECK_ANSWER("select count(*), count(x.id) from a left join (select id, tens from b where ten < 3) x"
                     " on a.tens = x.tens", "250000|45000;");
    }
    close_db();
}

TEST(a_memory_limit_met_anywhere_leaves_nothing)
{
    static const char *const large[] = { LARGE, LARGE_ROWS };
    make_tables();
    use_threads(4);
    run("set temp_limit = off");
    for (int q = 0; q < COUNT_OF(large); q++) {
        char     *should = copy_answer(large[q]);
        const i64 before = db->budget.used;
        int       n_refused = 0;
        for (i64 more = 1 << 16; ; more += more / 4) {
            db->budget.limit = before + more;
            if (!try_run(large[q])) break;
            CHECK_STR(err.sqlstate, "53200");
            CHECK_INT(db->budget.used, before);
            n_refused++;
        }
        CHECK(n_refused > 10);
        db->budget.limit = TEST_MEMORY;
        CHECK_ANSWER(large[q], should);
        CHECK_INT(db->budget.used, before);
        free(should);
    }
    close_db();
}

typedef struct Canceler { unsigned delay_us; } Canceler;

static void *cancel_later(void *context)
{
    Canceler *canceler = context;
    usleep(canceler->delay_us);
    weft_cancel(session);
    return NULL;
}

TEST(a_cancel_in_the_middle_leaves_nothing)
{
    make_tables();
    use_threads(4);
    char     *should = copy_answer(LARGE);
    const i64 before = db->budget.used;
    int       n_canceled = 0;
    for (unsigned delay_us = 0; delay_us < 60000; delay_us += 1500) {
        Canceler  canceler = { .delay_us = delay_us };
        pthread_t thread;
        CHECK_INT(pthread_create(&thread, NULL, cancel_later, &canceler), 0);
        const weft_status status = try_run(LARGE);
        pthread_join(thread, NULL);
        CHECK(status == WEFT_OK || status == WEFT_QUERY_CANCELED);
        n_canceled += status == WEFT_QUERY_CANCELED;
        CHECK_INT(db->budget.used, before);
    }
    CHECK(n_canceled > 0);
    CHECK_ANSWER(LARGE, should);
    free(should);
    close_db();
}

// All threads of the network make tables of their own queries, and help each other.
typedef struct Client { pthread_t thread; int number; bool is_wrong; } Client;

static char *wanted[COUNT_OF(queries)];

static void *ask_all(void *context)
{
    Client       *client = context;
    weft_session *own;
    Text          text = { 0 };
    weft_error    problem;
    if (weft_connect(db, &own, &problem)) return NULL;
    own->settings.threads = 4;
    for (int q = client->number % 2; q < COUNT_OF(queries); q += 2) {          // two of them ask the same
        weft_result *result = NULL;
        if (weft_query(own, queries[q], &result, &problem)) client->is_wrong = true;
        else result_text(result, &text);
        client->is_wrong |= !result || strcmp(text.bytes, wanted[q]) != 0;
        weft_result_free(result);
    }
    text_free(&text);
    weft_disconnect(own);
    return NULL;
}

TEST(queries_help_each_other)
{
    Client clients[4] = { 0 };
    make_tables();
    use_threads(4);
    for (int q = 0; q < COUNT_OF(queries); q++) wanted[q] = copy_answer(queries[q]);
    for (int c = 0; c < COUNT_OF(clients); c++) {
        clients[c].number = c;
        CHECK_INT(pthread_create(&clients[c].thread, NULL, ask_all, &clients[c]), 0);
    }
    for (int c = 0; c < COUNT_OF(clients); c++) {
        pthread_join(clients[c].thread, NULL);
        CHECK(!clients[c].is_wrong);
    }
    for (int q = 0; q < COUNT_OF(queries); q++) free(wanted[q]);
    close_db();
}
