// test_engine.c - the engine through the public API under bad circumstances: cancelled, short of memory, failing in the
// middle, used oddly, with names made to confuse it, by several threads at once.
//
// Sizes are small, so that `make test` is quick.  WEFT_TEST_SCALE=10 makes tables ten times as large: with that a phase
// that does not look for a cancel shows.

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "test.h"
#include "engine_help.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SLOW = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { IS_SLOW = 1 };
#else
enum { IS_SLOW = 0 };
#endif
#else
enum { IS_SLOW = 0 };
#endif

static u64 scaled(u64 n_rows)
{
    const char *scale = getenv("WEFT_TEST_SCALE");
    double factor = scale ? atof(scale) : 1;
    return (u64)((double)n_rows * (factor > 0 ? factor : 1) / (IS_SLOW ? 4 : 1));
}

// ---- a query on a thread of its own ---------------------------------------------------------------------------------

typedef struct Job {
    weft_session *session;
    const char   *sql;
    pthread_t     thread;
    weft_result  *result;
    weft_error    error;
    weft_status   status;
    _Atomic bool  is_done;
    double        end_ms;
} Job;

static void *run_job(void *context)
{
    Job *job = context;
    job->status = weft_query(job->session, job->sql, &job->result, &job->error);
    job->end_ms = time_now_ms();
    job->is_done = true;
    return NULL;
}

// On the heap: a test that fails leaves its jobs running.
static Job *start_job(weft_session *of, const char *sql)
{
    Job *job = calloc(1, sizeof(*job));
    job->session = of;
    job->sql = sql;
    CHECK_INT(pthread_create(&job->thread, NULL, run_job, job), 0);
    while (!job->is_done && weft_progress(of) < 0)          // a cancel before it runs would be for nothing
        usleep(100);
    return job;
}

static void wait_for(const Job *job, double at_most_ms)
{
    double begin = time_now_ms();
    while (!job->is_done && time_now_ms() - begin < at_most_ms)
        usleep(200);
}

static weft_status end_job(Job *job)
{
    pthread_join(job->thread, NULL);
    weft_status status = job->status;
    weft_result_free(job->result);
    free(job);
    return status;
}

// ---- cancel ---------------------------------------------------------------------------------------------------------

enum {
    CANCEL_MS = IS_SLOW ? 1000 : 100, CANCEL_TRIES = 3,
    PATIENCE_MS = 60000                // where only the end counts, and the machine may be slow
};

// How long the query went on after a cancel at AT_MS: by the clock, or in time of the processor where that is less,
// since the machine may be busy with something else.
static double cancel_at(const char *sql, double at_ms, weft_status *status)
{
    Job *job = start_job(session, sql);
    wait_for(job, at_ms);
    double at = time_now_ms(), cpu_at = test_cpu_ms();
    weft_cancel(session);
    pthread_join(job->thread, NULL);
    double took = MIN_OF(test_cpu_ms() - cpu_at, job->end_ms - at);
    *status = job->status;
    CHECK((job->status == WEFT_OK) == (job->result != NULL));
    if (job->status == WEFT_QUERY_CANCELED)
        CHECK_STR(job->error.sqlstate, "57014");
    else if (job->status && job->status != WEFT_OUT_OF_MEMORY)
        CHECK_FAIL("%s failed: %s", sql, job->error.message);
    weft_result_free(job->result);
    free(job);
    return *status ? took : 0;
}

// Cancels the query early, in the middle, late: whatever it is at, it ends at once and leaves nothing behind.
// ENDLESS: it would run for minutes, or until memory ends, and is cancelled within MOST_MS.
static void check_cancel(const char *sql, double most_ms, bool is_endless)
{
    enum { POINTS = 5 };
    weft_status status;
    int n_cancelled = 0;
    double begin = time_now_ms();
    cancel_at(sql, is_endless ? most_ms : 60000, &status);
    CHECK((status == WEFT_OK) == !is_endless);
    double whole_ms = MIN_OF(time_now_ms() - begin, most_ms);
    i64 used = db->budget.used;
    for (int i = 0; i < POINTS; i++) {
        double took = 0, at = whole_ms * (i + 0.3) / POINTS;
        for (int try = 0; try < CANCEL_TRIES && (try == 0 || took > CANCEL_MS); try++) {
            took = cancel_at(sql, at, &status);
            n_cancelled += status == WEFT_QUERY_CANCELED;
            CHECK_INT(db->budget.used, used);
        }
        if (took > CANCEL_MS)
            CHECK_FAIL("%s: cancelled after %.0f of %.0f ms, it took %.0f ms to end", sql, at, whole_ms, took);
    }
    if (is_endless)
        CHECK(n_cancelled >= 2);
    CHECK_ANSWER("select 42", "42;");
}

static void open_big_db(void)
{
    open_db(NULL);
    make_big("t", scaled(400000), true);
    make_big("u", scaled(400000), false);
}

static void check_cancel_everywhere(const char *const *queries, int n_queries, bool is_endless)
{
    for (int weave = 1; weave >= 0; weave--) {
        run(weave ? "set weave = on" : "set weave = off");
        for (int i = 0; i < n_queries; i++)
            check_cancel(queries[i], is_endless ? 200 : 60000, is_endless);
    }
}

TEST(cancel_ends_a_join_that_explodes)
{
    static const char *const queries[] = {
        "select sum(a.id * b.mixed) from t a, u b",
        "select a.id, b.mixed from t a, u b",
        "select count(*), sum(b.id) from t a, u b where a.ten = b.ten",
        "select a.ten, b.mixed, count(*) from t a, u b group by a.ten, b.mixed",
        "select a.id, b.id from t a join u b on a.ten = b.ten order by 1, 2",
    };
    open_big_db();
    check_cancel_everywhere(queries, COUNT_OF(queries), true);
    close_db();
}

TEST(cancel_ends_a_group_by)
{
    static const char *const queries[] = {
        "select mixed, count(*), sum(id) from t group by mixed",
        "select mixed, ten, id, count(*), min(mixed) from t group by mixed, ten, id",
        "select word, count(*) from t group by word",
        "select distinct ten, count(*) from t group by mixed, ten",
        "select case when id > 10 then word else 'few' end, count(*) from t group by 1",
    };
    open_big_db();
    check_cancel_everywhere(queries, COUNT_OF(queries), false);
    close_db();
}

TEST(cancel_ends_a_sort)
{
    static const char *const queries[] = {
        "select id, mixed from t order by mixed desc",
        "select word, id from t order by ten, word",
        "select id from t order by mixed limit 90000",
    };
    open_big_db();
    check_cancel_everywhere(queries, COUNT_OF(queries), false);
    close_db();
}

TEST(cancel_ends_work_on_a_dictionary)
{
    static const char *const queries[] = {
        "select count(*) from t where word like '%9%8%7%6%5%4%'",
        "select count(*) from t a join t b on a.id = b.id where a.word < b.word",
        "select count(*), min(word) from t where case when id > 3 then word else 'x' end > 'word 5'",
    };
    open_big_db();
    check_cancel_everywhere(queries, COUNT_OF(queries), false);
    close_db();
}

TEST(cancel_ends_the_building_of_a_join_table)
{
    static const char *const queries[] = {
        "select count(*), sum(u.id) from t join u on t.mixed = u.mixed",
        "select count(*), sum(u.mixed) from t join u on t.id = u.id",
        "select count(*), sum(u.ten) from t join u on t.mixed = u.mixed and t.ten = u.ten and t.id = u.id",
        "select count(*) from t a join t b on a.word = b.word",
    };
    open_big_db();
    check_cancel_everywhere(queries, COUNT_OF(queries), false);
    close_db();
}

TEST(cancel_ends_a_copy)
{
    const char *path = test_path("big.txt");
    FILE *file = fopen(path, "w");
    u64 n_rows = scaled(600000);
    char sql[1200];
    for (u64 i = 0; i < n_rows; i++)
        fprintf(file, "%llu|%llu|word %llu\n", (unsigned long long)i, (unsigned long long)i * 7919,
                (unsigned long long)i);
    CHECK_INT(fclose(file), 0);
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        open_db(on_disk ? fresh_path() : NULL);
        run("create table c (id bigint, n bigint, word text)");
        snprintf(sql, sizeof(sql), "copy c from '%s' (delimiter '|')", path);
        weft_status status;
        double begin = time_now_ms(), took = 0;
        cancel_at(sql, 60000, &status);
        CHECK_INT(status, WEFT_OK);
        double whole_ms = time_now_ms() - begin;
        u64 n_copies = 1;
        for (int i = 0; i < 4; i++) {
            for (int try = 0; try < CANCEL_TRIES && (try == 0 || took > CANCEL_MS); try++) {
                took = cancel_at(sql, whole_ms * (i + 0.3) / 4, &status);
                n_copies += status == WEFT_OK;
                char should[64];
                snprintf(should, sizeof(should), "%llu;", (unsigned long long)(n_copies * n_rows));
                CHECK_ANSWER("select count(*) from c", should);
            }
            if (took > CANCEL_MS)
                CHECK_FAIL("COPY took %.0f ms to end", took);
        }
        close_db();
    }
}

// What waits for something that may never come can be cancelled, too: a pipe that nobody writes to, and the turn to
// append.
TEST(cancel_ends_a_wait)
{
    static const char *const names[] = { "pipe0", "pipe1" };
    char copies[2][1200];
    weft_session *sessions[4];
    Job *jobs[4];
    open_db(NULL);
    for (int i = 0; i < 4; i++)
        CHECK_OK(weft_connect(db, &sessions[i], &err), err);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(mkfifo(test_path(names[i]), 0600), 0);
        snprintf(copies[i], sizeof(copies[i]), "copy c%d from '%s'", i, test_path(names[i]));
    }
    run("create table c0 (n bigint); create table c1 (n bigint)");
    for (int i = 0; i < 2; i++) {                           // two that read, then two that wait for the first of these
        jobs[i] = start_job(sessions[i], copies[i]);
        usleep(30000);
    }
    jobs[2] = start_job(sessions[2], copies[0]);
    jobs[3] = start_job(sessions[3], "insert into c0 values (1)");
    usleep(50000);
    CHECK_ANSWER("select count(*) from c0", "0;");
    for (int i = 3; i >= 0; i--) {
        CHECK(!jobs[i]->is_done);
        weft_cancel(sessions[i]);
        wait_for(jobs[i], PATIENCE_MS);
        CHECK(jobs[i]->is_done);
        CHECK_INT(end_job(jobs[i]), WEFT_QUERY_CANCELED);
        weft_disconnect(sessions[i]);
    }
    CHECK_ANSWER("insert into c0 values (2); insert into c1 values (3); select c0.n, c1.n from c0, c1", "2|3;");
    close_db();
}

TEST(a_timeout_ends_a_query)
{
    open_big_db();
    run("set statement_timeout = 100");
    fails("select sum(a.id * b.mixed) from t a, u b", WEFT_QUERY_CANCELED);
    CHECK_HAS(err.message, "timeout");
    CHECK_STR(err.sqlstate, "57014");
    run("set statement_timeout = 0; select count(*) from t");
    close_db();
}

TEST(cancel_ends_only_its_own_query)
{
    static const char *const queries[] = { "select count(*) from t where ten < 3", "select sum(mixed) from u",
                                           "select 1" };
    weft_session *other;
    open_big_db();
    CHECK_OK(weft_connect(db, &other, &err), err);
    Job *heavy = start_job(other, "select sum(a.id * b.mixed) from t a, u b");
    usleep(100000);
    for (int i = 0; i < COUNT_OF(queries); i++) {           // a heavy query holds nobody up for long
        Job *light = start_job(session, queries[i]);
        wait_for(light, PATIENCE_MS);
        CHECK(light->is_done && !heavy->is_done);
        CHECK_INT(end_job(light), WEFT_OK);
    }
    weft_cancel(session);                                   // nothing runs here
    usleep(50000);
    CHECK(!heavy->is_done);
    weft_cancel(other);
    CHECK_INT(end_job(heavy), WEFT_QUERY_CANCELED);
    weft_disconnect(other);
    run("select count(*) from u");
    close_db();
}

TEST(cancel_while_waiting_for_another_query)
{
    static const char *const sql = "select sum(a.id * b.mixed) from t a, u b";
    weft_session *other;
    open_big_db();
    CHECK_OK(weft_connect(db, &other, &err), err);
    i64 used = db->budget.used;
    for (int which = 0; which < 2; which++) {               // two that share everything; one of them is cancelled
        Job *first = start_job(session, sql);
        usleep(100000);
        Job *second = start_job(other, sql);
        usleep(100000);
        weft_cancel(which ? session : other);
        wait_for(which ? first : second, PATIENCE_MS);
        CHECK(which ? first->is_done && !second->is_done : second->is_done && !first->is_done);
        weft_cancel(which ? other : session);
        CHECK_INT(end_job(first), WEFT_QUERY_CANCELED);
        CHECK_INT(end_job(second), WEFT_QUERY_CANCELED);
        CHECK_INT(db->budget.used, used);
    }
    weft_disconnect(other);
    close_db();
}

TEST(cancel_right_after_submit_is_not_lost)
{
    weft_task *task;
    weft_result *result;
    open_big_db();
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_submit(session, "select sum(a.id * b.mixed) from t a, u b", &task, &err), err);
        weft_cancel(session);
        CHECK_STATUS(weft_wait(task, &result, &err), WEFT_QUERY_CANCELED);
        CHECK(result == NULL);
    }
    close_db();
}

TEST(cancel_ends_a_row_of_statements)
{
    open_big_db();
    run("create table done (n bigint)");
    Job *job =
        start_job(session, "select count(*) from t a, u b where a.mixed * b.mixed = 7; insert into done values (1)");
    usleep(100000);
    weft_cancel(session);
    CHECK_INT(end_job(job), WEFT_QUERY_CANCELED);
    CHECK_ANSWER("select count(*) from done", "0;");
    close_db();
}

TEST(cancel_of_nothing_is_harmless)
{
    open_db(NULL);
    weft_cancel(session);
    CHECK_ANSWER("select 1", "1;");
    weft_cancel(session);
    weft_cancel(session);
    CHECK_ANSWER("select 2", "2;");
    close_db();
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static void limit_memory(i64 bytes_more)
{
    char sql[100];
    snprintf(sql, sizeof(sql), "set memory_limit = '%lld kB'", (long long)((db->budget.used + bytes_more) / 1024));
    run(sql);
}

TEST(memory_limit_ends_what_grows)
{
    static const char *const queries[] = {
        "select * from t",                                                       // rows
        "select mixed, count(*) from t group by mixed",                          // groups
        "select mixed, id, ten, sum(id) from t group by mixed, id, ten",
        "select distinct ten, min(id) from t group by mixed, ten",
        "select count(*), sum(u.id) from t join u on t.mixed = u.mixed",         // a join table
        "select id from t order by mixed",                                       // a sort
        "select a.id, b.id from t a, u b",                                       // a result without an end
    };
    open_big_db();
    run("set temp_limit = off");
    for (int weave = 1; weave >= 0; weave--) {
        run(weave ? "set weave = on" : "set weave = off");
        for (int i = 0; i < COUNT_OF(queries); i++) {
            bool is_endless = strstr(queries[i], "t a, u b") != NULL;
            if (!is_endless)
                run(queries[i]);                            // first, so that what is kept for later is there
            i64 used = db->budget.used;
            limit_memory(1 << 20);
            fails(queries[i], WEFT_OUT_OF_MEMORY);
            CHECK_STR(err.sqlstate, "53200");
            CHECK_HAS(err.message, "memory_limit");
            CHECK_INT(db->budget.used, used);
            CHECK_ANSWER("select count(*), min(id), max(ten) from t where id < 100", "100|0|9;");
            run("set memory_limit = 0");
            if (!is_endless)
                run(queries[i]);
            CHECK_INT(db->budget.used, used);
        }
    }
    close_db();
}

TEST(texts_are_ranked_in_files_beyond_memory_limit)
{
    open_big_db();
    limit_memory(1 << 20);
    run("set temp_limit = off");
    i64 used = db->budget.used;
    fails("select min(word), max(word) from t", WEFT_OUT_OF_MEMORY);
    CHECK_HAS(err.message, "memory_limit");
    CHECK_INT(db->budget.used, used);
    run("set temp_limit = auto");
    CHECK_ANSWER("select min(word) from t", "word 0 of 3;");
    CHECK_INT(temp_used(db->temp), 0);
    run("set memory_limit = 0");
    CHECK_ANSWER("select min(word) from t", "word 0 of 3;");
    close_db();
}

TEST(memory_limit_ends_copy_and_insert)
{
    const char *path = test_path("rows.txt");
    FILE *file = fopen(path, "w");
    char sql[1200], should[64];
    int n_rows = 100000;
    for (int i = 0; i < n_rows; i++)
        fprintf(file, "%d|word %d\n", i * 37, i);
    CHECK_INT(fclose(file), 0);
    open_db(NULL);
    run("create table c (n bigint, word text); insert into c values (1, 'one')");
    snprintf(sql, sizeof(sql), "copy c from '%s' (delimiter '|')", path);
    i64 used = db->budget.used;
    limit_memory(1 << 20);
    fails(sql, WEFT_OUT_OF_MEMORY);
    CHECK_HAS(err.message, "memory_limit");
    CHECK_INT(db->budget.used, used);
    CHECK_ANSWER("select count(*) from c", "1;");
    run("set memory_limit = 0");
    run(sql);
    snprintf(should, sizeof(should), "%d;", n_rows + 1);
    CHECK_ANSWER("select count(*) from c", should);
    run("drop table c");
    CHECK_ANSWER("select 1", "1;");
    close_db();
}

TEST(memory_comes_back_when_texts_are_sorted_again_and_again)
{
    i64 used_before = 0;
    open_db(NULL);
    run("create table w (word text)");
    for (int i = 0; i < 300; i++) {
        char sql[100];
        snprintf(sql, sizeof(sql), "insert into w values ('word %d')", i);
        run(sql);
        run("select word from w order by word");
        run("select min(word), max(word) from w");
        if (i == 200)
            used_before = db->budget.used;
    }
    CHECK(db->budget.used - used_before < 100000);          // ranks of one length at a time, not of all there ever were
    close_db();
}

// ---- errors in the middle of a query --------------------------------------------------------------------------------

// n rows in chunks of 64 Ki; x is 0 in the last row only, big is near the end of bigint there, and null is NULL there.
static i64 late_x(u64 row)
{
    return row == 199999 ? 0 : (i64)(row % 7) + 1;
}

static i64 late_big(u64 row)
{
    return row == 199999 ? INT64_MAX - 1 : (i64)row;
}

static void open_late_db(void)
{
    const NumberOf numbers[] = { number_id, late_x, late_big };
    open_db(NULL);
    run("set chunk_rows = 65536; set threads = 2; create table late (id bigint, x bigint, big bigint)");
    fill("late", numbers, 3, 200000);
}

typedef struct Failing {
    const char *sql;                   // ^ stands before the place of the error
    weft_status status;
} Failing;

static void check_failing_place(const Failing *failing)
{
    char sql[1000];
    const char *mark = strchr(failing->sql, '^');
    snprintf(sql, sizeof(sql), "%.*s%s", mark ? (int)(mark - failing->sql) : 0, failing->sql,
             mark ? mark + 1 : failing->sql);
    fails(sql, failing->status);
    CHECK_INT(err.position, mark ? mark - failing->sql + 1 : 0);
}

static void check_failing(const Failing *failing)
{
    i64 used = db->budget.used;
    check_failing_place(failing);
    CHECK_INT(db->budget.used, used);
}

TEST(errors_of_subscribe_have_a_place)
{
    static const Failing failing[] = {
        { "subscribe to ^nothing", WEFT_UNDEFINED_TABLE },
        { "SUBSCRIBE /* x */ TO  ^\"Nothing\";", WEFT_UNDEFINED_TABLE },
        { "subscribe to ^plain", WEFT_WRONG_OBJECT },
        { "subscribe to ^gone", WEFT_UNDEFINED_TABLE },
        { "subscribe to ^stopped", WEFT_DIVISION_BY_ZERO },
    };
    open_db(NULL);
    run("create view plain as select 1; create table s (n bigint) with (stream); insert into s values (1);"
        "create materialized view gone with (continuous) as select count(*) from s;"
        "create materialized view stopped with (continuous) as select sum(1 / n) from s");
    run("subscribe to gone");
    run("subscribe to stopped");
    run("drop materialized view gone; insert into s values (0)");
    for (int i = 0; i < COUNT_OF(failing); i++)             // a round of the views may hold memory at any time
        check_failing_place(&failing[i]);
    close_db();
}

TEST(an_error_in_a_late_row_ends_the_query)
{
    static const Failing failing[] = {
        { "select sum(100 ^/ x) from late", WEFT_DIVISION_BY_ZERO },
        { "select id, 100 ^/ x from late", WEFT_DIVISION_BY_ZERO },
        { "select id ^% x, count(*) from late group by 1", WEFT_DIVISION_BY_ZERO },
        { "select count(*) from late where 10 ^/ x > 1", WEFT_DIVISION_BY_ZERO },
        { "select max(big ^+ 10) from late", WEFT_OUT_OF_RANGE },
        { "select id from late where big ^* 2 > 5 order by id", WEFT_OUT_OF_RANGE },
        { "select count(*) from late a join late b on a.id = b.id where 1 ^/ a.x = 1", WEFT_DIVISION_BY_ZERO },
        { "select count(*) from late a join late b on a.id = b.big ^+ 2", WEFT_OUT_OF_RANGE },
        { "select sum(a.x ^/ (b.x - 1)) from late a, late b", WEFT_DIVISION_BY_ZERO },
        { "select a.x ^/ (b.x - 1) from late a, late b", WEFT_DIVISION_BY_ZERO },
        { "select id from late where case when id = 199999 then id ^/ (id - 199999) else 1 end = 1",
          WEFT_DIVISION_BY_ZERO },
    };
    static const char *const modes[] = { "set jit = auto", "set weave = off", "set weave = on; set jit = tcc" };
    open_late_db();
    for (int mode = 0; mode < COUNT_OF(modes); mode++) {
        run(modes[mode]);
        for (int i = 0; i < COUNT_OF(failing); i++)
            // Off: stores all rows of the join first.
            if (mode != 1 || !strstr(failing[i].sql, "late a, late b"))
                check_failing(&failing[i]);
        CHECK_ANSWER("select count(*), sum(id) from late", "200000|19999900000;");
    }
    close_db();
}

TEST(guards_keep_errors_away)
{
    static const struct {
        const char *sql, *answer;
    } guarded[] = {
        { "select sum(case when x <> 0 then 100 / x end) from late", "7371468;" },
        { "select sum(case when x = 0 then 0 else 100 / x end) from late", "7371468;" },
        { "select count(*) from late where x <> 0 and 10 / x > 1", "142857;" },
        { "select count(*) from late where 10 / x > 1 and x <> 0", "142857;" },
        { "select count(*) from late where x <> 0 and id >= 0 and 10 / x > 1 and big < 999999", "142857;" },
        { "select count(*) from late where case when x <> 0 then 10 / x else 0 end > 1", "142857;" },
        { "select count(*) from late where id = 199999 and (x = 0 or 10 / x > 1)", "1;" },
        { "select count(*) from late where id = 199999 and not (x <> 0 and 10 / x > 1)", "1;" },
        { "select (x <> 0 and 10 / x > 1) from late where id > 199997 order by id", "t;f;" },
        { "select coalesce(x, 10 / x) from late where id = 199999", "0;" },
        { "select 10 / x from late where x <> 0 and id > 199995 order by id", "1;10;5;" },
    };
    static const char *const modes[] = { "set jit = auto", "set weave = off", "set weave = on; set jit = tcc" };
    open_late_db();
    for (int mode = 0; mode < COUNT_OF(modes); mode++) {
        run(modes[mode]);
        for (int i = 0; i < COUNT_OF(guarded); i++)
            CHECK_ANSWER(guarded[i].sql, guarded[i].answer);
    }
    close_db();
}

TEST(a_limit_ends_a_join_that_explodes)
{
    open_big_db();
    i64 used = db->budget.used;
    limit_memory(256 << 20);
    run("set temp_limit = off");
    CHECK_ANSWER("select a.id - a.id from t a, u b limit 3", "0;0;0;");
    CHECK_ANSWER("select 1 from t a, u b limit 2 offset 5000", "1;1;");
    CHECK_ANSWER("select 1 from t a join u b on a.ten = b.ten where a.id >= 7 limit 1", "1;");
    CHECK_INT(db->budget.used, used);
    run("set weave = off");                                 // stores all rows of the join first
    fails("select a.id - a.id from t a, u b limit 3", WEFT_OUT_OF_MEMORY);
    CHECK_INT(db->budget.used, used);
    close_db();
}

// ---- odd use of the API ---------------------------------------------------------------------------------------------

TEST(empty_statements_are_fine)
{
    static const char *const texts[] = { "",           " ", ";", ";;;", " ; \n;\t", "-- a comment", "/* a comment */",
                                         "-- a\n;-- b" };
    weft_result *result;
    open_db(NULL);
    for (int i = 0; i < COUNT_OF(texts); i++) {
        result = query(texts[i]);
        CHECK_INT(weft_result_rows(result), 0);
        CHECK_INT(weft_result_columns(result), 0);
        weft_result_free(result);
    }
    CHECK_OK(weft_query(session, NULL, &result, &err), err);
    weft_result_free(result);
    CHECK_OK(weft_query(session, "select 1", NULL, &err), err);
    CHECK_STATUS(weft_query(session, "select x", &result, NULL), WEFT_UNDEFINED_COLUMN);
    CHECK(result == NULL);
    CHECK_STATUS(weft_query(session, "select x", NULL, NULL), WEFT_UNDEFINED_COLUMN);
    weft_result_free(NULL);
    weft_disconnect(NULL);
    weft_close(NULL);
    close_db();
}

TEST(the_last_statement_gives_the_result)
{
    open_db(NULL);
    CHECK_ANSWER("select 1; select 2", "2;");
    CHECK_ANSWER("select 1; select 2;", "2;");
    CHECK_ANSWER("select 1; select 2; ;; \n", "2;");
    CHECK_ANSWER("select 1; select 2; -- that is all\n", "2;");
    CHECK_ANSWER("select 1;; /* nothing; here */ ; select 3 /* the; end */", "3;");
    CHECK_ANSWER("select 'a;b'; select $$;$$ as \"x;y\"", ";;");
    close_db();
}

TEST(an_error_has_its_place_in_the_whole_text)
{
    open_db(NULL);
    fails("create table a (n bigint); insert into a values (1); select nn from a; insert into a values (2)",
          WEFT_UNDEFINED_COLUMN);
    CHECK_INT(err.position, 61);
    CHECK_ANSWER("select * from a", "1;");                  // what came before stays, what came after did not run
    fails("select 'ü', 1;\nselect 'ä' from b", WEFT_UNDEFINED_TABLE);
    CHECK_INT(err.position, 32);                            // characters, not bytes
    fails("select 1; select 1 +; select 3", WEFT_SYNTAX_ERROR);
    CHECK_INT(err.position, 21);
    fails("; ;\n select 1 / (1 - 1)", WEFT_DIVISION_BY_ZERO);
    CHECK_INT(err.position, 15);
    CHECK_ANSWER("select n from a", "1;");
    close_db();
}

TEST(very_long_statements_are_fine)
{
    Text sql = { 0 };
    open_db(NULL);
    run("create table n (x bigint)");
    text_add(&sql, "insert into n values ");
    for (int i = 0; i < 20000; i++)
        text_add(&sql, "%s(%d)", i ? ", " : "", i);
    run(sql.bytes);
    CHECK_ANSWER("select count(*), sum(x) from n", "20000|199990000;");
    text_clear(&sql);
    text_add(&sql, "select count(*) from n where x in (");
    for (int i = 0; i < 10000; i++)
        text_add(&sql, "%s%d", i ? ", " : "", 2 * i);
    text_add(&sql, ")");
    CHECK_ANSWER(sql.bytes, "10000;");
    text_clear(&sql);
    text_add(&sql, "select 1");
    for (int i = 0; i < 300000; i++)
        text_add(&sql, "          ");
    text_add(&sql, ", 2 -- %s", "long");
    CHECK_ANSWER(sql.bytes, "1|2;");
    text_clear(&sql);
    text_add(&sql, "select count(*) from n where x < 0");
    for (int i = 0; i < 500; i++)
        text_add(&sql, " or x = %d", i * 3);
    CHECK_ANSWER(sql.bytes, "500;");
    text_clear(&sql);
    text_add(&sql, "select ");
    for (int i = 0; i < 100000; i++)
        text_add(&sql, "(");
    weft_status status = try_run(sql.bytes);                // refused, not crashed
    CHECK(status == WEFT_TOO_COMPLEX || status == WEFT_SYNTAX_ERROR);
    text_free(&sql);
    CHECK_ANSWER("select count(*) from n", "20000;");
    close_db();
}

// Columns c0 .. cN-1; values that need another width in each chunk.
static void make_wide(int n_columns, int n_rows)
{
    Text sql = { 0 };
    text_add(&sql, "create table wide (");
    for (int c = 0; c < n_columns; c++)
        text_add(&sql, "%sc%d bigint", c ? ", " : "", c);
    text_add(&sql, ")");
    run(sql.bytes);
    for (int piece = 0; piece < 2; piece++) {
        text_clear(&sql);
        text_add(&sql, "insert into wide values ");
        for (int r = 0; r < n_rows; r++) {
            text_add(&sql, "%s(", r ? ", " : "");
            for (int c = 0; c < n_columns; c++)
                text_add(&sql, "%s%lld", c ? ", " : "", (long long)(r + c) * (piece ? 100000 : 1));
            text_add(&sql, ")");
        }
        run(sql.bytes);
    }
    text_free(&sql);
}

TEST(many_columns_are_fine)
{
    Text sql = { 0 }, should = { 0 };
    weft_result *result;
    open_db(NULL);
    make_wide(1600, 3);
    static const char *const modes[] = { "set jit = auto", "set weave = off" };
    for (int mode = 0; mode < COUNT_OF(modes); mode++) {
        run(modes[mode]);
        result = query("select * from wide");
        CHECK_INT(weft_result_columns(result), 1600);
        CHECK_INT(weft_result_rows(result), 6);
        CHECK_STR(weft_result_column(result, 1599)->name, "c1599");
        CHECK_INT(weft_result_column(result, 1599)->i64[2], 1601);
        CHECK_INT(weft_result_column(result, 1599)->i64[5], 160100000);
        weft_result_free(result);
        CHECK_ANSWER("select c0, c800, c1599 from wide where c700 = 702", "2|802|1601;");
    }
    text_add(&sql, "select ");
    for (int c = 0; c < 1600; c++) {
        text_add(&sql, "%ssum(c%d)", c ? ", " : "", c);
        text_add(&should, "%s%lld", c ? "|" : "", (3LL + 3 * c) * 100001);
    }
    text_add(&sql, " from wide");
    text_add(&should, ";");
    CHECK_ANSWER(sql.bytes, should.bytes);
    text_clear(&sql);
    text_add(&sql, "create table wider (");
    for (int c = 0; c < 1601; c++)
        text_add(&sql, "%sc%d bigint", c ? ", " : "", c);
    text_add(&sql, ")");
    fails(sql.bytes, WEFT_TOO_MANY_COLUMNS);
    text_free(&sql);
    text_free(&should);
    close_db();
}

TEST(many_group_keys_are_fine_or_refused)
{
    Text keys = { 0 }, sql = { 0 };
    open_db(NULL);
    make_wide(110, 3);
    for (int n = 1; n <= 110; n = n < 60 ? n + 13 : n + 1) {
        text_clear(&keys);
        for (int c = 0; c < n; c++)
            text_add(&keys, "%sc%d", c ? ", " : "", c);
        text_clear(&sql);
        text_add(&sql, "select %s, count(*) from wide group by %s order by 1", keys.bytes, keys.bytes);
        weft_status status = try_run(sql.bytes);
        if (status)
            CHECK_INT(status, WEFT_TOO_COMPLEX);
        CHECK(status == WEFT_OK || n > 60);
        text_clear(&sql);
        text_add(&sql, "select count(*) from wide having count(*) > 0");
        CHECK_ANSWER(sql.bytes, "6;");
    }
    text_free(&keys);
    text_free(&sql);
    close_db();
}

TEST(many_tables_are_fine_or_refused)
{
    static const int counts[] = { 2, 10, 40, 63, 64, 65, 100 };
    Text sql = { 0 };
    open_db(NULL);
    run("create table k (id bigint, n bigint); insert into k values (1, 10), (2, 20), (3, 30)");
    for (int i = 0; i < COUNT_OF(counts); i++) {
        for (int is_star = 0; is_star < 2; is_star++) {
            text_clear(&sql);
            text_add(&sql, "select count(*), sum(t0.n), max(t%d.n) from k t0", counts[i] - 1);
            for (int t = 1; t < counts[i]; t++)
                text_add(&sql, " join k t%d on t%d.id = t%d.id", t, is_star ? 0 : t - 1, t);
            if (counts[i] <= 64)
                CHECK_ANSWER(sql.bytes, "3|60|30;");
            else
                fails(sql.bytes, WEFT_TOO_COMPLEX);
        }
    }
    run("set weave = off");
    text_clear(&sql);
    text_add(&sql, "select count(*), sum(t0.n) from k t0");
    for (int t = 1; t < 20; t++)
        text_add(&sql, " join k t%d on t0.id = t%d.id", t, t);
    CHECK_ANSWER(sql.bytes, "3|60;");
    text_free(&sql);
    close_db();
}

TEST(empty_tables_join_everywhere)
{
    static const char *const orders[] = { "e, f, g", "f, e, g", "f, g, e" };
    static const char *const conditions[] = { "", " where e.id = f.id and f.id = g.id", " where e.id = f.id",
                                              " where f.id = g.id", " where e.name = f.name and e.id < g.id" };
    static const char *const outputs[] = { "count(*), sum(f.n), min(g.name)", "e.id, f.n, g.name", "f.name, count(*)" };
    char sql[300];
    open_db(NULL);
    for (int which = 0; which < 2; which++)                 // which one is empty
        for (int weave = 0; weave < 2; weave++) {
            run(weave ? "set weave = on" : "set weave = off");
            run("create table e (id bigint, n bigint, name text); create table f (id bigint, n bigint, name text);"
                "create table g (id bigint, n bigint, name text)");
            run("insert into g values (1, 1, 'a'), (2, 2, 'b')");
            run(which ? "insert into e values (1, 1, 'a'), (null, null, null)"
                      : "insert into f values (1, 1, 'a'), (3, null, 'c')");
            for (int o = 0; o < COUNT_OF(orders); o++)
                for (int c = 0; c < COUNT_OF(conditions); c++)
                    for (int what = 0; what < COUNT_OF(outputs); what++) {
                        snprintf(sql, sizeof(sql), "select %s from %s%s%s", outputs[what], orders[o], conditions[c],
                                 what == 2 ? " group by f.name" : "");
                        CHECK_ANSWER(sql, what == 0 ? "0|-|-;" : "");
                    }
            CHECK_ANSWER("select max(id), min(name), count(n), count(*) from e where id > 100", "-|-|0|0;");
            run("drop table e; drop table f; drop table g");
        }
    close_db();
}

// ---- names ----------------------------------------------------------------------------------------------------------

// Each of the names as a column of one table, in several orders: whatever kernels make of them, they stay apart.
static void check_names(const char *const *names, int n_names, int shift)
{
    Text create = { 0 }, insert = { 0 }, list = { 0 }, sums = { 0 }, odd = { 0 };
    text_add(&create, "create table named (");
    text_add(&insert, "insert into named values (");
    for (int i = 0; i < n_names; i++) {
        const char *name = names[(i * shift) % n_names];
        text_add(&create, "%s\"%s\" %s", i ? ", " : "", name,
                 i % 3 == 1 ? "text"
                 : i % 3    ? "double precision"
                            : "bigint");
        text_add(&insert, "%s", i ? ", " : "");
        text_add(&insert, i % 3 == 1 ? "'%d'" : "%d", i);
        text_add(&list, "%s\"%s\"", i ? ", " : "", name);
        if (i % 3 == 0) {
            text_add(&sums, "%ssum(case when \"%s\" > 3 then \"%s\" + 1 else -\"%s\" end)", i ? ", " : "", name, name,
                     name);
            text_add(&odd, "%s\"%s\" >= 0", i ? " and " : "", name);
        }
    }
    text_add(&create, ")");
    text_add(&insert, "), (");
    for (int i = 0; i < n_names; i++) {
        text_add(&insert, "%s", i ? ", " : "");
        if (i % 5 == 0)
            text_add(&insert, "null");
        else
            text_add(&insert, i % 3 == 1 ? "'%d'" : "%d", i + 1000);
    }
    text_add(&insert, ")");
    run(create.bytes);
    run(insert.bytes);
    Text sql = { 0 }, should = { 0 };
    text_add(&sql, "select %s from named where %s", list.bytes, odd.bytes);
    for (int i = 0; i < n_names; i++)
        text_add(&should, "%s%d", i ? "|" : "", i);
    text_add(&should, ";");
    CHECK_ANSWER(sql.bytes, should.bytes);
    text_clear(&sql);
    text_clear(&should);
    text_add(&sql, "select %s from named where %s", sums.bytes, odd.bytes);
    for (int i = 0; i < n_names; i += 3)
        text_add(&should, "%s%d", i ? "|" : "", i > 3 ? i + 1 : -i);
    text_add(&should, ";");
    CHECK_ANSWER(sql.bytes, should.bytes);
    text_clear(&sql);
    text_add(
        &sql,
        "select count(*) from named \"a\" join named \"live\" on \"a\".\"%s\" = \"live\".\"%s\" where \"a\".\"%s\" < 5",
        names[0], names[0], names[0]);
    CHECK_ANSWER(sql.bytes, "1;");
    run("drop table named");
    Text *const all[] = { &create, &insert, &list, &sums, &odd, &sql, &should };
    for (int i = 0; i < COUNT_OF(all); i++)
        text_free(all[i]);
}

// ---- signatures -----------------------------------------------------------------------------------------------------

static const Table *table_named(void *context, const char *name, TableHome home)
{
    return home == HOME_TEMPORARY ? NULL : store_table(context, name);
}

// Of the last pipeline, with those of its tables in it where ARE_BUILDS_SIGNED, as in a query.
static char *signature_of(Arena *arena, const char *sql, bool are_builds_signed)
{
    const Names names = { .table = table_named, .context = db->store, .stop = NULL };
    Statement  *statement;
    QueryRun    run = { .own = arena, .arena = arena, .session = session, .err = &err };
    CHECK_OK(sql_bind(arena, sql, &names, &statement, &err), err);
    run.plan = statement->plan;
    CHECK_OK(plan_rewrite(statement->plan, NULL, &err), err);
    CHECK_OK(plan_cut(arena, run.plan, &run.graph, &err), err);
    const int last = run.graph->n_pipelines - 1;
    run.signatures = arena_array(arena, Signature, last + 1);
    for (int p = are_builds_signed ? 0 : last; p <= last; p++) run.signatures[p] = query_signature(&run, p);
    CHECK_INT(strlen(run.signatures[last].text), run.signatures[last].length);
    return run.signatures[last].text;
}

TEST(equal_signatures_mean_equal_work)
{
    static const char *const same[][2] = {
        { "select sum(n) from f, a, b where f.a = a.id and f.b = b.id and a.v = 1 and b.v = 2",
          "select sum(x.n) from f x, a y, b z where x.a = y.id and x.b = z.id and y.v = 1 and z.v = 2" },
        { "select a.v, count(*) from f, a where f.a = a.id group by a.v",
          "select a2.v, count(*) from f f2, a a2 where f2.a = a2.id group by a2.v" },
    };
    static const char *const others[] = {
        // all of them differ
        "select sum(n) from f, a, b where f.a = a.id and f.b = b.id and a.v = 1 and b.v = 2",
        "select sum(n) from f, a, b where f.a = a.id and f.b = b.id and a.v = 2 and b.v = 1",
        "select sum(n) from f, a x, a y where f.a = x.id and f.b = y.id and x.v = 1 and y.v = 2",
        "select sum(x.v) from f, a x, a y where f.a = x.id and f.b = y.id",
        "select sum(y.v) from f, a x, a y where f.a = x.id and f.b = y.id",
        "select sum(x.v) from f, a x, a y where f.a = x.id and x.v = y.id",
        "select sum(y.v) from f, a x, a y where f.a = x.id and x.v = y.id",
        "select x.v, count(*) from f, a x, a y where f.a = x.id and x.v = y.id group by x.v",
        "select y.v, count(*) from f, a x, a y where f.a = x.id and x.v = y.id group by y.v",
        "select sum(n) from f",
        "select sum(n) from f where b = 1",
        "select sum(b) from f",
        "select count(*) from f where t = 'x'",
        "select count(*) from f where t = 'y'",
    };
    open_db(NULL);
    run("create table f (a integer not null, b integer not null, n bigint, t text); insert into f values (1, 2, 3, "
        "'x'), (2, 1, 4, 'y'), (1, 1, 5, 'z'), (2, 2, 6, 'x')");
    run("create table a (id integer not null, v integer); insert into a values (1, 1), (2, 2)");
    run("create table b (id integer not null, v integer); insert into b values (1, 2), (2, 1)");
    Arena *arena = arena_new(NULL, "test");
    char  *texts[COUNT_OF(others)];
    for (int signs = 0; signs < 2; signs++) {
        for (int i = 0; i < COUNT_OF(same); i++)
            CHECK_STR(signature_of(arena, same[i][0], signs), signature_of(arena, same[i][1], signs));
        for (int i = 0; i < COUNT_OF(others); i++) {
            texts[i] = signature_of(arena, others[i], signs);
            for (int j = 0; j < i; j++)
                if (strcmp(texts[i], texts[j]) == 0) CHECK_FAIL("the same: %s, %s", others[i], others[j]);
        }
    }
    arena_free(arena);
    close_db();
}

// Texts of a result may lie in a dictionary: it stays as long as the result does.
TEST(results_outlive_their_tables)
{
    open_db(NULL);
    run("create table gone (x text, n integer); insert into gone values ('one', 1), ('two', 2), ('two', 3), (null, 4)");
    weft_result *groups = query("select x, max(x) from gone group by x order by x"),
                *rows = query("select x from gone order by n");
    run("drop table gone");
    run("create table gone (x text); insert into gone values ('other'), ('texts')");
    CHECK_STR(groups->columns[0].text[0].bytes, "one");
    CHECK_STR(groups->columns[0].text[1].bytes, "two");
    CHECK(groups->columns[0].is_null[2]);
    CHECK_STR(groups->columns[1].text[1].bytes, "two");
    CHECK_STR(rows->columns[0].text[2].bytes, "two");
    weft_result_free(groups);
    weft_result_free(rows);
    close_db();
}

TEST(names_of_columns_can_be_anything)
{
    static const char *const names[] = {
        "int",
        "x_base",
        "x",
        "live",
        "live_n",
        "live1",
        "live_mask",
        "i",
        "A",
        "a",
        "e1",
        "e0",
        "e2_null",
        "e0_null",
        "p2",
        "p2_u",
        "o1",
        "o0",
        "über",
        "uber",
        "ÜBER",
        "ueber",
        "_",
        "__",
        "0",
        "0x",
        "x_all",
        "x_valid",
        "x_valid_all",
        "x_col",
        "x_low",
        "x_span",
        "x_row",
        "x_at",
        "x_of",
        "x_null",
        "x_map",
        "x_picked",
        "X",
        "x ",
        " x",
        "x.y",
        "x,y",
        "x-y",
        "x/*",
        "*/",
        "//",
        "x\\",
        "\"\"",
        "'",
        "%s",
        "%n",
        "{",
        "}",
        "#define",
        "return",
        "while",
        "double",
        "u64",
        "f64",
        "i64",
        "TILE",
        "LOAD",
        "KERNEL",
        "group",
        "key",
        "words",
        "count",
        "sum",
        "select",
        "from",
        "t_",
        "k_",
        "c_",
        "s_",
        "named",
        "linux",
        "unix",
        "main",
        "asm",
        "typeof",
        "bool",
        "true",
        "null",
        "NULL",
        "日本語",
        "日本",
        "😀",
        "x\ty",
        "x\ny",
        "a1_",
        "a0_",
        "codes",
        "ranks",
        "column",
        "column_c",
        "column_2_c",
        "x_2_c",
        "x_c",
        "int_c",
        "stored",
        "named_row",
        "named_slots",
        "a_row",
        "a_next",
        "live_row",
        "out_",
        "m_",
        "row_first",
        "A->state",
        "a_very_long_name_that_goes_on_and_on_for_longer_than_any_other_name",
        "a_very_long_name_that_goes_on_and_on_for_longer",
        "a_very_long_name_that_goes_on_an",
        "a_very_long_name_that_goes_on_and",
        "a_very_long_name_that_goes_on_and_o",
    };
    static const char *const modes[] = { "set jit = auto", "set jit = tcc", "set jit = auto; set weave = off" };
    open_db(NULL);
    for (int mode = 0; mode < COUNT_OF(modes); mode++) {
        run(modes[mode]);
        for (int shift = 1; shift <= 17; shift += 4)
            if (COUNT_OF(names) % shift || shift == 1)
                check_names(names, COUNT_OF(names), shift);
    }
    close_db();
}

TEST(many_columns_of_one_name_after_cleaning_stay_apart)
{
    enum { N = 1000 };
    static char names[N][32];
    const char *pointers[N];
    open_db(NULL);
    for (int i = 0; i < N; i++) {
        int length = 0;
        for (int bit = 0; bit < 10; bit++)
            length += snprintf(names[i] + length, sizeof(names[i]) - (size_t)length, "%s", i >> bit & 1 ? "+" : "-");
        pointers[i] = names[i];
    }
    double begin = test_cpu_ms();
    check_names(pointers, N, 1);
    CHECK(test_cpu_ms() - begin < (IS_SLOW ? 60000 : 6000));
    close_db();
}

TEST(an_empty_name_is_refused)
{
    open_db(NULL);
    CHECK(try_run("create table \"\" (n bigint)") != WEFT_OK);
    CHECK(try_run("create table t (\"\" bigint)") != WEFT_OK);
    CHECK_ANSWER("select 1", "1;");
    close_db();
}

TEST(names_of_tables_can_be_anything)
{
    static const char *const names[] = { "live", "int", "x.y", "über", "A",  "a",      "../up",
                                         "/",    "a/b", "con", "-",    "%s", "日本語", "'; --" };
    char sql[400];
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        const char *path = on_disk ? fresh_path() : NULL;
        open_db(path);
        for (int i = 0; i < COUNT_OF(names); i++) {
            snprintf(sql, sizeof(sql),
                     "create table \"%s\" (id bigint, \"live\" text); insert into \"%s\" values (%d, 'v%d')", names[i],
                     names[i], i, i);
            run(sql);
        }
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < COUNT_OF(names); i++) {
                char should[32];
                snprintf(sql, sizeof(sql),
                         "select a.id, b.live from \"%s\" a join \"%s\" b on a.id = b.id and a.live = b.live", names[i],
                         names[i]);
                snprintf(should, sizeof(should), "%d|v%d;", i, i);
                CHECK_ANSWER(sql, should);
            }
            close_db();
            if (!on_disk)
                break;
            open_db(path);
        }
        if (on_disk)
            close_db();
    }
}

// ---- a filter over texts of two tables ------------------------------------------------------------------------------

TEST(a_text_of_several_tables_is_compared_whole)
{
    open_db(NULL);
    run("create table a (id bigint, k bigint, name text); create table b (k bigint, name text)");
    run("insert into a values (1, 1, 'ax'), (2, 2, 'ay'), (3, 1, 'az'), (4, 2, 'aw'), (5, 1, null)");
    run("insert into b values (1, 'bx'), (2, 'by')");
    for (int weave = 1; weave >= 0; weave--) {
        run(weave ? "set weave = on" : "set weave = off");
        CHECK_ANSWER(
            "select a.id from a join b on a.k = b.k where case when a.id < 3 then a.name else b.name end like 'b%' "
            "order by 1",
            "3;4;5;");
        CHECK_ANSWER("select a.id from a join b on a.k = b.k where coalesce(a.name, b.name) = 'bx'", "5;");
        CHECK_ANSWER("select count(*) from a join b on case when a.k = 1 then 'bx' else 'by' end = b.name", "5;");
    }
    close_db();
}

// ---- several threads ------------------------------------------------------------------------------------------------

typedef struct Client {
    pthread_t     thread;
    weft_session *session;
    int           number, n_rounds;
    char          problem[600];
} Client;

static bool client_runs(Client *client, const char *sql, Text *text)
{
    weft_result *result;
    weft_error error;
    if (weft_query(client->session, sql, &result, &error)) {
        snprintf(client->problem, sizeof(client->problem), "%.200s: %.200s", sql, error.message);
        return false;
    }
    if (text)
        result_text(result, text);
    weft_result_free(result);
    return true;
}

// Inserts 1000 rows of sum 0 at a time: whatever is read in between, the sum is 0 and the count full.
static void *insert_rows(void *context)
{
    Client *client = context;
    Text sql = { 0 };
    for (int round = 0; round < client->n_rounds && !client->problem[0]; round++) {
        text_clear(&sql);
        text_add(&sql, "insert into shared values ");
        for (int i = 0; i < 1000; i++)
            text_add(&sql, "%s(%d, %d, 'word %d')", i ? ", " : "", i % 2 ? i : -i - 1, i % 10, i % 50 + round * 3);
        client_runs(client, sql.bytes, NULL);
    }
    text_free(&sql);
    return NULL;
}

static void *read_rows(void *context)
{
    static const char *const queries[] = {
        "select sum(n), count(*) % 1000 from shared",
        "select sum(a.n), count(*) % 1000 from shared a join digits b on a.digit = b.digit",
        "select sum(s), sum(c) % 1000 from shared_by",
        "select sum(n), count(*) % 1000 from shared where word like 'word%'",
    };
    Client *client = context;
    Text text = { 0 };
    for (int round = 0; round < client->n_rounds && !client->problem[0]; round++) {
        int which = (client->number + round) % 4;
        if (which == 2) {
            client_runs(client, "select word, n from shared order by word desc, n limit 5", &text);
            continue;
        }
        if (client_runs(client, queries[which], &text) && strcmp(text.bytes, "0|0;") != 0 &&
            strcmp(text.bytes, "-|0;") != 0)
            snprintf(client->problem, sizeof(client->problem), "%s: %.300s", queries[which], text.bytes);
    }
    text_free(&text);
    return NULL;
}

static void *make_and_drop(void *context)
{
    Client *client = context;
    char sql[200];
    for (int round = 0; round < client->n_rounds && !client->problem[0]; round++) {
        snprintf(sql, sizeof(sql), "create table own%d (n bigint); insert into own%d values (1), (2); drop table own%d",
                 client->number, client->number, client->number);
        client_runs(client, sql, NULL);
        client_runs(client, "select count(*) from weft_tables", NULL);
    }
    return NULL;
}

TEST(several_sessions_read_and_write_at_once)
{
    void *(*const bodies[])(void *) = { insert_rows, read_rows, read_rows, make_and_drop };
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        Client clients[COUNT_OF(bodies)] = { 0 };
        open_db(on_disk ? fresh_path() : NULL);
        run("set chunk_rows = 4096; create table shared (n bigint, digit bigint, word text); create table digits "
            "(digit bigint);"
            "insert into digits values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)");
        for (int i = 0; i < COUNT_OF(clients); i++) {
            clients[i].number = i;
            clients[i].n_rounds = i == 0 ? (on_disk ? 10 : 30) : (on_disk ? 20 : 60);
            CHECK_OK(weft_connect(db, &clients[i].session, &err), err);
            CHECK_INT(pthread_create(&clients[i].thread, NULL, bodies[i], &clients[i]), 0);
        }
        for (int i = 0; i < COUNT_OF(clients); i++) {
            pthread_join(clients[i].thread, NULL);
            weft_disconnect(clients[i].session);
        }
        for (int i = 0; i < COUNT_OF(clients); i++)
            if (clients[i].problem[0])
                CHECK_FAIL("client %d: %s", i, clients[i].problem);
        CHECK_ANSWER("select count(*), sum(n) from shared", on_disk ? "10000|0;" : "30000|0;");
        close_db();
    }
}

TEST(a_table_can_be_dropped_while_it_is_read)
{
    char should[64];
    weft_session *other;
    open_big_db();
    CHECK_OK(weft_connect(db, &other, &err), err);
    weft_result *kept = query("select word from t where id < 3 order by id");
    Job *job =
        start_job(other, "select count(*), count(word), sum(id - id) from t where word like '%1%2%' or word like 'w%'");
    while (!job->is_done && !other->rows_total)             // until it has found its tables
        usleep(100);
    run("drop table t");
    fails("select count(*) from t", WEFT_UNDEFINED_TABLE);
    run("create table t (n bigint); insert into t values (7)");
    pthread_join(job->thread, NULL);
    CHECK_INT(job->status, WEFT_OK);
    static Text text;
    result_text(job->result, &text);
    snprintf(should, sizeof(should), "%llu|%llu|0;", (unsigned long long)scaled(400000),
             (unsigned long long)scaled(400000));
    CHECK_STR(text.bytes, should);
    weft_result_free(job->result);
    free(job);
    CHECK_ANSWER("select * from t", "7;");
    result_text(kept, &text);                               // a result outlives what it came from
    CHECK_STR(text.bytes, "word 0 of 3;word 506952114 of 3;word 1013904228 of 3;");
    weft_result_free(kept);
    weft_disconnect(other);
    text_free(&text);
    close_db();
}

TEST(signals_are_left_to_the_program)
{
    sigset_t usr1, before, pending;
    int got;
    open_big_db();
    run("select a.ten, count(*) from t a join u b on a.id = b.id group by a.ten; set statement_timeout = 100000; "
        "select 1");
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
    // Would end the process if any of the engine's threads took it.
    CHECK_INT(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    CHECK_INT(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGUSR1));
    CHECK_INT(sigwait(&usr1, &got), 0);
    CHECK_INT(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    close_db();
}

// A table made from a text that is put together lives as long as anybody uses it, not as long as who made it.
TEST(a_shared_join_table_outlives_its_maker)
{
    static const char *const sql =
        "select count(*) from t a join named b on case when a.ten < 5 then 'low' else 'high' end ="
        " case when b.id < 5 then 'low' else b.name end";
    weft_session *other;
    open_big_db();
    run("create table named (id bigint, name text); insert into named values (1, 'x'), (2, 'y'), (7, 'high')");
    CHECK_OK(weft_connect(db, &other, &err), err);
    for (int i = 0; i < 20; i++) {
        Job *first = start_job(session, sql);
        usleep(1000 * (i % 5));
        Job *second = start_job(other, sql);
        usleep(500 * i);
        weft_cancel(session);
        end_job(first);
        CHECK_INT(end_job(second), WEFT_OK);
    }
    weft_disconnect(other);
    close_db();
}

// An OR, or a list, says between which values every row lies that passes.
TEST(chunks_are_skipped_that_no_branch_of_an_or_wants)
{
    static const struct { const char *filter, *chunks, *count; } cases[] = {
        { "a between 400 and 500 or a between 800 and 900", "chunks read 1, skipped 19", "202;" },
        { "a in (5, 1500, null)", "chunks read 2, skipped 18", "2;" },
        { "(a < 100 and b = 3) or (b = 2 and a between 2000 and 2100) or a = 7", "chunks read 3, skipped 17", "29;" },
        { "d between 4.5 and 5.5 or d = 1200", "chunks read 2, skipped 18", "2;" },
        { "n between 400 and 500 or n = 1200", "chunks read 2, skipped 18", "87;" },
        { "a in (30000, 40000)", "chunks read 0, skipped 20", "0;" },
        { "a < 10 or b = 2", "chunks read 20, skipped 0", "2864;" },
        { "n < 10 or n is null", "chunks read 20, skipped 0", "2864;" },
        { "not (a between 400 and 500 or a = 7)", "chunks read 20, skipped 0", "19898;" },
    };
    open_db(NULL);
    run("set chunk_rows = 1000; create table z (a integer, b integer, d decimal(10,2), n integer)");
    run("insert into z select i, i % 7, i, case when i % 7 <> 2 then i end from generate_series(1, 20000) g(i)");
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char text[300];
        snprintf(text, sizeof text, "explain analyze select count(*) from z where %s", cases[i].filter);
        CHECK_HAS(answer(text), cases[i].chunks);
        CHECK_ANSWER(text + strlen("explain analyze "), cases[i].count);
    }
    close_db();
}

TEST(nothing_is_read_where_no_row_can_pass)
{
    open_db(NULL);
    make_big("t", 5000, false);
    make_big("u", 5000, false);
    const char *text = answer("explain analyze select count(*), sum(u.id) from t join u on t.id = u.mixed where 1 = 2");
    CHECK_HAS(text, "chunks read 0, skipped 0");
    CHECK(!strstr(text, "chunks read 1"));
    CHECK_HAS(answer("explain analyze select t.ten from t join u on t.id = u.id limit 0"), "nothing was run");
    CHECK_HAS(answer("explain analyze select ten from t group by ten having 1 > 2"), "nothing was run");
    CHECK_ANSWER("select table_name from weft_scans where rows_read > 0", "");
    close_db();
}

TEST(rows_with_several_matches_are_counted_as_often)
{
    open_db(NULL);
    make_big("t", 100, false);
    make_big("u", 1000, false);
    const char *text = answer("explain analyze select count(*), sum(t.id) from u join t on u.ten = t.ten");
    CHECK_HAS(text, "after join t: 10,000 rows");
    text = answer("explain analyze select u.id, t.id from u join t on u.ten = t.ten where u.id + t.id > 500");
    CHECK_HAS(text, "after join t: 10,000 rows");
    close_db();
}

// ---- groups ---------------------------------------------------------------------------------------------------------

TEST(groups_by_a_key_without_large_gaps_are_an_array)
{
    open_db(NULL);
    run("create table g as select i as k, i * 100 as far from generate_series(1, 60000) as s(i)");
    CHECK(!strstr(answer("explain (kernel) select k, sum(far) from g group by k"), "GROUP("));
    CHECK_HAS(answer("explain (kernel) select far, sum(k) from g group by far"), "GROUP(");
    CHECK_HAS(answer("explain (kernel) select k, sum(far) from g where far < 1000 group by k"), "GROUP(");
    run("set memory_limit = '4MB'");
    CHECK_HAS(answer("explain (kernel) select k, sum(far) from g group by k"), "GROUP(");
    close_db();
}

// ---- weave_budget ---------------------------------------------------------------------------------------------------

static int times_in(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) text++, n++;
    return n;
}

TEST(explain_says_where_a_pipeline_is_split_and_why)
{
    static const char *const sql = "select u.ten, sum(t.id) from u join t on u.id = t.id"
                                   " where u.mixed + 1 > 5 and u.ten < 4 group by u.ten";
    char explain[300], analyze[300], kernel[300];
    snprintf(explain, sizeof explain, "explain %s", sql);
    snprintf(analyze, sizeof analyze, "explain analyze %s", sql);
    snprintf(kernel, sizeof kernel, "explain (kernel) %s", sql);
    open_db(NULL);
    make_big("t", 100, false);
    make_big("u", 1000, false);
    CHECK(!strstr(answer(explain), "split before") && !strstr(answer(analyze), "split before"));
    CHECK_INT(times_in(answer(kernel), "KERNEL("), 2);      // the table, and the sum
    run("set weave_budget = 28");
    CHECK_HAS(answer(explain), "  split before join t: about ");
    CHECK_HAS(answer(explain), " registers with join t, the budget is 28 registers; stores about ");
    CHECK_HAS(answer(analyze), "  split before join t: about ");
    CHECK_HAS(answer(analyze), "; stores about 444 rows of 2 columns, 7.1 kB");
    CHECK_HAS(answer(analyze), "  woven on cpu");
    CHECK_HAS(answer(analyze), "  join on cpu");
    CHECK_INT(times_in(answer(kernel), "KERNEL("), 4);
    run("set weave_budget = '0, 16B'");
    CHECK_HAS(answer(analyze), " shared with ");
    CHECK_HAS(answer(analyze), ", the budget is 16 B shared; stores about ");
    run("set weave_budget = 28");
    run("set weave = off");
    CHECK(!strstr(answer(analyze), "split before"));        // every step is a kernel, whatever it needs
    CHECK_HAS(answer("explain analyze select sum(id) from t"), "  sink on cpu");
    close_db();
}

TEST(a_split_is_where_few_rows_pass)
{
    open_db(NULL);
    make_big("a", 5000, false);
    make_big("b", 1000, false);
    // With the sink it is too much; least is stored before the join multiplies the rows.
    run("set weave_budget = 36");
    const char *text = answer("explain analyze select sum(a.id + b.id), sum(a.mixed), min(b.mixed) from a join b"
                              " on a.ten = b.ten where a.id < 2000");
    CHECK_HAS(text, "  split before join b: ");
    CHECK_HAS(text, "registers with the sink, ");
    close_db();
}

// Rows that are stored between kernels are counted when a query is admitted.
TEST(stored_rows_of_a_split_are_part_of_the_estimate)
{
    open_db(NULL);
    make_big("t", 20000, false);
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        if (i) run("set weave_budget = 16");
        const char *text = answer("explain analyze select sum(id + mixed) from t where ten + 1 > 3");
        const char *estimate = strstr(text, "memory: estimated ");
        char        unit[3];
        CHECK(estimate && sscanf(estimate, "memory: estimated %lf %2s", &bytes[i], unit) == 2);
        bytes[i] *= unit[0] == 'M' ? 1e6 : 1e3;
    }
    CHECK(bytes[1] > bytes[0] + 20000 * 9);
    close_db();
}

// Of `10 / n = 3 or 10 / n = 4 or ...`, and of `n in (3, 4, ...)`.
static size_t kernel_length(const char *first, const char *next, const char *last, int count)
{
    Text sql = { 0 };
    text_add(&sql, "explain (kernel) select count(*) from t where %s3", first);
    for (int k = 0; k < count; k++) text_add(&sql, "%s%d", next, 4 + k);
    text_add(&sql, "%s", last);
    const size_t length = strlen(answer(sql.bytes));
    text_free(&sql);
    return length;
}

TEST(the_text_of_a_kernel_does_not_outgrow_its_query)
{
    open_db(NULL);
    run("create table t (n bigint); insert into t values (7), (0)");
    CHECK(kernel_length("10 / n = ", " or 10 / n = ", "", 320) <
          40 * kernel_length("10 / n = ", " or 10 / n = ", "", 10));
    CHECK(kernel_length("n * n in (", ", ", ")", 3000) <= kernel_length("n * n in (", ", ", ")", 30));
    CHECK(kernel_length("n * n in (1000000000000, ", ", ", ")", 3000) <=
          kernel_length("n * n in (1000000000000, ", ", ", ")", 30));
    close_db();
}
