// test_spill.c - queries that need more than memory_limit: the same answers through temporary files, and nothing left.
//
// Answers are noted without a limit.  Then memory is short, and each query must say the same, woven and unwoven, with
// any number of threads.  Files, space on the disk, descriptors or the query itself fail in the middle: the error says
// so, and neither memory nor temporary space nor a descriptor is left.

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "test.h"
#include "engine_help.h"

#define ROWS 12000

static i64 number_three(u64 row) { return (i64)(row / 3); }

static void make_tables(void)
{
    const NumberOf numbers[] = { number_id, number_three, number_mixed, number_ten, number_mixed };
    open_db(":memory:");
    run("set device = cpu; set jit = tcc; set chunk_rows = 8192");
    run("create table a (id bigint, three bigint, mixed bigint, ten bigint, word text)");
    run("create table b (id bigint, three bigint, mixed bigint, ten bigint, word text)");
    fill("a", numbers, 5, ROWS);
    fill("b", numbers, 5, ROWS / 2);
}

#define FLOATS "cast(id as double precision) / 7"

static const char *const queries[] = {
    // sorts: one key, several, texts, floats, NULLs, both directions, with OFFSET, all columns
    "select * from a order by mixed",
    "select id, word from a order by ten desc, mixed",
    "select word, id from a order by word desc",
    "select " FLOATS " as f, case when ten = 3 then null else mixed end as n from a order by 2 nulls first, 1 desc",
    "select case when ten = 3 then null else word end as w, id from a order by 1 desc nulls last, 2 offset 5000",
    "select id, ten from a order by ten",                            // equal rows stay in order
    "select distinct on (ten, three % 1000) ten, three, id from a order by ten, three % 1000, mixed",
    "select upper(word) as u, id from a order by 1",
    "select id::numeric * 100000000000000000000 as n from a order by mixed",
    // rows without an order
    "select id, mixed, word from a where ten < 9",
    "select a.id, b.word from a left join b on a.mixed = b.mixed order by a.id",
    // groups: one word, several, text, floats, all aggregates, HAVING, ordered, distinct
    "select mixed, count(*), sum(id), min(word), max(ten), avg(id) from a group by mixed order by mixed",
    "select mixed, word, ten, count(*), sum(" FLOATS ") from a group by mixed, word, ten order by 1",
    "select count(*), sum(c), sum(s), min(m) from (select three, count(*) as c, sum(mixed) as s, min(word) as m from a"
    " group by three * 1000003, three) z",
    "select " FLOATS " as f, count(*) from a group by 1 having count(*) > 0 order by 1 desc",
    "select case when ten = 3 then null else mixed end as k, count(*), stddev(id) from a group by 1 order by 1 limit 9",
    "select count(distinct mixed), count(distinct word), sum(distinct three) from a",
    "select distinct word, mixed from a order by 2",
    "select mixed * 1000000000000::numeric as n, sum(id::numeric * 100000000000000000000) from a group by 1 order by 1",
    // joins: each kind and shape
    "select count(*), sum(b.id), min(b.word) from a join b on a.mixed = b.mixed",
    "select a.id, b.id, b.word from a join b on a.three = b.three order by a.id, b.id",
    "select count(*), sum(b.id), count(b.id) from a left join b on a.mixed = b.mixed",
    "select count(*), sum(a.id), sum(b.mixed) from a full join b on a.mixed + 1 = b.mixed",
    "select count(*), sum(id) from a where mixed in (select mixed from b where ten < 5)",
    "select count(*), sum(id) from a where mixed not in (select mixed from b where ten < 5)",
    "select count(*), sum(a.id) from a join b on a.mixed = b.mixed and a.word = b.word and a.ten = b.ten",
    "select b.ten, count(*), sum(a.id) from a join b on a.word = b.word group by b.ten order by 1",
    "select count(*), sum(a.id) from a join b on a.mixed = b.mixed join b c on c.three = a.three",
    "select count(*), sum(a.id) from a join (select mixed, count(*) as n from b group by mixed) g on a.mixed = g.mixed",
    // windows, sets, recursion, subqueries
    "select sum(r * id), max(s) from (select id, row_number() over (order by mixed) as r,"
    " sum(id) over (partition by ten order by mixed) as s from a) z",
    "select count(*), sum(mixed) from (select mixed from a union select mixed + 1 from b) z",
    "select count(*), sum(mixed) from (select mixed from a except select mixed from b) z",
    "select count(*), sum(mixed) from (select mixed from a intersect all select mixed from b) z",
    "with recursive r(n) as (select 1 union select n + 1 from r where n < 3000) select count(*), sum(n) from r",
    "select sum(id) from a where mixed > (select avg(mixed) from b) ",
    "select ten, string_agg(word, ',' order by mixed) from a where id < 3000 group by ten order by ten",
    "select percentile_cont(0.5) within group (order by mixed) from a",
};

static char *answers[COUNT_OF(queries)];

static void free_answers(void)
{
    for (int i = 0; i < COUNT_OF(queries); i++) free(answers[i]), answers[i] = NULL;
}

static void note_answers(void)
{
    for (int i = 0; i < COUNT_OF(queries); i++) {
        free(answers[i]);
        answers[i] = strdup(answer(queries[i]));
    }
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int  n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

static void limit_memory(i64 bytes_more) { db->budget.limit = db->budget.used + bytes_more; }

static void no_faults(void)
{
    for (int kind = 0; kind < FAULT_N; kind++) fault_set((FaultKind)kind, 0, false);
}

typedef struct Before { i64 used; int n_descriptors; } Before;

static Before before(void) { return (Before){ db->budget.used, count_descriptors() }; }

static void check_nothing_left(Before was)
{
    CHECK_INT(db->budget.used, was.used);
    CHECK_INT(temp_used(db->temp), 0);
    CHECK_INT(count_descriptors(), was.n_descriptors);
}

static void check_all(i64 bytes)
{
    const Before was = before();
    limit_memory(bytes);
    for (int i = 0; i < COUNT_OF(queries); i++) {
        CHECK_ANSWER(queries[i], answers[i]);
        check_nothing_left(was);
    }
    db->budget.limit = TEST_MEMORY;
}

TEST(answers_are_the_same_through_temporary_files)
{
    make_tables();
    note_answers();
    check_all(300 << 10);
    check_all(100);                                         // next to nothing is left for queries
    run("set threads = 1");
    check_all(300 << 10);
    run("set threads = 4; set weave = off");
    check_all(300 << 10);
    free_answers();
    close_db();
}

TEST(a_query_that_fits_does_not_spill)
{
    make_tables();
    limit_memory(64 << 20);
    const char *told = answer("explain analyze select * from a order by mixed");
    CHECK(!strstr(told, "spilled"));
    limit_memory(300 << 10);
    told = answer("explain analyze select * from a order by mixed");
    CHECK_HAS(told, "spilled: ");
    CHECK_HAS(told, "sorted through temporary files: ");
    CHECK_HAS(answer("explain (analyze, format json) select * from a order by mixed"), "\"spilled_bytes\": ");
    CHECK_HAS(answer("explain analyze select sum(b.id) from a join b on a.mixed = b.mixed"),
              "joined through temporary files: 1 join");
    CHECK_HAS(answer("explain analyze select mixed, count(*) from a group by mixed"), "partitions in temporary files");
    run("set temp_limit = off");
    fails("select * from a order by mixed", WEFT_OUT_OF_MEMORY);
    CHECK_HAS(err.message, "memory_limit");
    close_db();
}

TEST(temp_limit_ends_a_query)
{
    make_tables();
    const Before was = before();
    limit_memory(300 << 10);
    run("set temp_limit = '600kB'");
    fails("select * from a order by mixed", WEFT_TEMP_LIMIT);
    CHECK_STR(err.sqlstate, "53400");
    CHECK_HAS(err.message, "temp_limit");
    check_nothing_left(was);
    run("set temp_limit = auto");
    CHECK_ANSWER("select count(*) from (select mixed from a group by mixed) z", "12000;");
    close_db();
}

// The error names as many rows as COUNT counts, and nothing was put into a file.
static void check_cannot_fit(const char *sql, const char *count)
{
    const Before was = before();
    char         told[100];
    snprintf(told, sizeof told, "a join gives %s", strcmp(count, "more") ? answer(count) : "more than ");
    char *end = strchr(told, ';');
    if (end) strcpy(end, " rows");
    fails(sql, WEFT_OUT_OF_MEMORY);
    CHECK_STR(err.sqlstate, "53200");
    CHECK_HAS(err.message, told);
    check_nothing_left(was);
}

static void check_joins_that_explode(void)
{
#define OF_TEN "from a join b on a.ten = b.ten"
#define COUNT_TEN "select sum(x.n * y.n) from (select ten, count(*) as n from a group by ten) x join" \
    " (select ten, count(*) as n from b group by ten) y on x.ten = y.ten"
    check_cannot_fit("select a.id, b.id, a.word from a, b", "select 12000 * 6000");
    check_cannot_fit("select * " OF_TEN, COUNT_TEN);
    check_cannot_fit("select a.id, b.id " OF_TEN " order by b.mixed, a.id", COUNT_TEN);
    check_cannot_fit("select a.id, b.id " OF_TEN " limit 5000000", COUNT_TEN);
    check_cannot_fit("with j as materialized (select a.id as i, b.id as k " OF_TEN ") select count(*)"
                     " from j x, j y where x.i = y.k", COUNT_TEN);
    check_cannot_fit("select a.id, b.id from a left join b on a.ten = b.ten + 5",
                     "select sum(x.n * coalesce(y.n, 1)) from (select ten, count(*) as n from a group by ten) x"
                     " left join (select ten + 5 as ten, count(*) as n from b group by 1) y on x.ten = y.ten");
    check_cannot_fit("select a.id, b.id, c.id " OF_TEN " join b c on c.ten = a.ten",
                     "select sum(x.n * y.n * y.n) from (select ten, count(*) as n from a group by ten) x join"
                     " (select ten, count(*) as n from b group by ten) y on x.ten = y.ten");
    check_cannot_fit("select a.id, b.id, c.id " OF_TEN " join b c on c.ten = b.three % 10",
                     "select 12000::bigint * 600 * 600");
    check_cannot_fit("select a.id, b.id " OF_TEN " and a.mixed < b.mixed", "more");
    check_cannot_fit("create table c as select a.id, b.id as other " OF_TEN, COUNT_TEN);
    check_cannot_fit("insert into a (id) select a.id " OF_TEN, COUNT_TEN);
}

TEST(a_join_that_cannot_fit_is_refused_before_its_rows_are_made)
{
    make_tables();
    limit_memory(300 << 10);
    run("set temp_limit = '20MB'");
    check_joins_that_explode();
    run("set threads = 1");
    check_joins_that_explode();
    // rows are counted, and fit: the chains alone would have allowed for 7,200,000
    char *should = strdup(
        answer("select sum(c * n), sum(a_sum * n), sum(b_sum * c) from"
               " (select ten, sum(id) as a_sum, count(*) as c from a where id % 500 = 0 group by ten) x join"
               " (select ten, count(*) as n, sum(id) as b_sum from b group by ten) y on x.ten = y.ten"));
    CHECK_ANSWER("select count(*), sum(a_id), sum(b_id) from (select a.id as a_id, b.id as b_id " OF_TEN
                 " where a.id % 500 = 0 order by b.mixed, a.id limit 5000000) z", should);
    free(should);
    close_db();
}

// A count multiplies matches where there is room to prepare that, and visits them elsewhere, as a sum does.
static void write_joins(char *sql, size_t room, const char *what)
{
    int at = snprintf(sql, room, "select %s from a", what);
    for (int j = 0; j < 12; j++)
        at += snprintf(sql + at, room - (size_t)at, " left join b b%d on a.three = b%d.three", j, j);
    snprintf(sql + at, room - (size_t)at, " where a.id + a.ten < 0");
}

TEST(a_count_needs_no_more_memory_than_a_sum)
{
    char sum[1000], count[1000];
    int  n_fit = 0;
    make_tables();
    write_joins(sum, sizeof sum, "sum(a.id)");
    write_joins(count, sizeof count, "count(*)");
    run("set temp_limit = off");
    for (i64 bytes = 300 << 10; bytes < 900 << 10; bytes += 50 << 10) {
        limit_memory(bytes);
        if (try_run(sum)) continue;
        CHECK_ANSWER(count, "0;");
        n_fit++;
    }
    CHECK(n_fit > 0);
    close_db();
}

// Results keep their files until they are freed.
TEST(a_result_in_temporary_files_outlives_its_query)
{
    static Text text;
    make_tables();
    char *should = strdup(answer("select * from a order by mixed"));
    const Before was = before();
    limit_memory(300 << 10);
    weft_result *result = query("select * from a order by mixed");
    CHECK(temp_used(db->temp) > 0);
    run("select count(*) from a group by mixed");
    result_text(result, &text);
    CHECK_STR(text.bytes, should);
    weft_result_free(result);
    check_nothing_left(was);
    free(should);
    text_free(&text);
    close_db();
}

// ---- faults ---------------------------------------------------------------------------------------------------------

// A step through all calls would take long: the distance grows.
static void check_faults(FaultKind kind, const char *sql, const char *should, const char *state, const char *other)
{
    const Before was = before();
    int          n_failed = 0;
    for (int nth = 1;; nth += 1 + nth / 4) {
        weft_result *result;
        static Text  text;
        fault_set(kind, nth, false);
        const weft_status status = weft_query(session, sql, &result, &err);
        const bool        was_hit = fault_count(kind) >= nth;
        no_faults();
        if (status) {
            CHECK(was_hit && !result);
            if (strcmp(err.sqlstate, other) != 0) CHECK_STR(err.sqlstate, state);
            n_failed++;
        } else {
            result_text(result, &text);
            weft_result_free(result);
            CHECK_STR(text.bytes, should);
        }
        check_nothing_left(was);
        if (!was_hit) break;
    }
    CHECK(n_failed > 0);
}

TEST(faults_of_files_and_disks_are_survived)
{
    static const int some[] = { 0, 11, 12, 20, 29 };
    make_tables();
    note_answers();
    limit_memory(300 << 10);
    for (int i = 0; i < COUNT_OF(some); i++) {
        check_faults(FAULT_FILE, queries[some[i]], answers[some[i]], "58030", "58030");
        check_faults(FAULT_SPACE, queries[some[i]], answers[some[i]], "53100", "53100");
        check_faults(FAULT_MEMORY, queries[some[i]], answers[some[i]], "53200", "53200");
    }
    CHECK_ANSWER(queries[0], answers[0]);
    free_answers();
    close_db();
}

TEST(a_directory_that_is_not_there_is_an_error)
{
    char sql[600];
    make_tables();
    const Before was = before();
    limit_memory(300 << 10);
    fails("set temp_directory = '/nowhere/at/all'", WEFT_UNDEFINED_FILE);
    CHECK(temp_set_directory(db->temp, "/nowhere/at/all"));  // it went after it was set
    fails("select * from a order by mixed", WEFT_UNDEFINED_FILE);
    CHECK_HAS(err.hint, "temp_directory");
    check_nothing_left(was);
    snprintf(sql, sizeof sql, "set temp_directory = '%s'", test_path("."));
    run(sql);
    CHECK_ANSWER("select count(*) from (select mixed from a group by mixed) z", "12000;");
    close_db();
}

// ---- cancel, and several at once ------------------------------------------------------------------------------------

static void *cancel_later(void *delay_us)
{
    usleep(*(unsigned *)delay_us);
    weft_cancel(session);
    return NULL;
}

TEST(a_cancel_in_the_middle_leaves_nothing)
{
    static const int some[] = { 0, 11, 20, 29 };
    make_tables();
    note_answers();
    const Before was = before();
    limit_memory(300 << 10);
    for (unsigned delay_us = 200; delay_us < 100000; delay_us += delay_us / 2)
        for (int i = 0; i < COUNT_OF(some); i++) {
            pthread_t canceler;
            CHECK_INT(pthread_create(&canceler, NULL, cancel_later, &delay_us), 0);
            const weft_status status = try_run(queries[some[i]]);
            pthread_join(canceler, NULL);
            CHECK(status == WEFT_OK || status == WEFT_QUERY_CANCELED);
            check_nothing_left(was);
        }
    CHECK_ANSWER(queries[0], answers[0]);
    free_answers();
    close_db();
}

typedef struct Client { pthread_t thread; int first; int n_wrong; } Client;

static void *run_client(void *context)
{
    Client       *client = context;
    weft_session *own;
    weft_error    problem;
    Text          text = { 0 };
    if (weft_connect(db, &own, &problem)) return NULL;
    own->settings.jit = JIT_TCC;                            // cc would have descriptors of its own, for a while
    for (int i = client->first; i < COUNT_OF(queries); i += 4) {
        weft_result *result = NULL;
        if (weft_query(own, queries[i], &result, &problem)) client->n_wrong++;
        else result_text(result, &text);
        if (result && strcmp(text.bytes, answers[i]) != 0) client->n_wrong++;
        weft_result_free(result);
    }
    text_free(&text);
    weft_disconnect(own);
    return NULL;
}

TEST(several_spill_at_once)
{
    Client clients[4] = { 0 };
    make_tables();
    note_answers();
    const Before was = before();
    limit_memory(600 << 10);
    for (int c = 0; c < 4; c++) {
        clients[c].first = c;
        CHECK_INT(pthread_create(&clients[c].thread, NULL, run_client, &clients[c]), 0);
    }
    for (int c = 0; c < 4; c++) {
        pthread_join(clients[c].thread, NULL);
        CHECK_INT(clients[c].n_wrong, 0);
    }
    check_nothing_left(was);
    free_answers();
    close_db();
}
