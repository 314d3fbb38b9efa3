// test_plans.c - plans kept by text: found again, given up when a table changes, never older than the newest snapshot.

#include <pthread.h>

#include "test.h"
#include "engine_help.h"

static PlanCounts counts(void) { return plans_counts(db->plans); }

TEST(a_text_that_comes_again_is_not_planned_again)
{
    open_db(NULL);
    run("create table t (a integer, s text); insert into t values (1, 'x'), (2, 'y')");
    CHECK_ANSWER("select sum(a) from t", "3;");
    CHECK_INT(counts().n_kept, 0);                          // it may never come again
    CHECK_ANSWER("select sum(a) from t", "3;");
    CHECK_INT(counts().n_kept, 1);
    const u64 found = counts().n_found;
    for (int i = 0; i < 5; i++) CHECK_ANSWER("select sum(a) from t", "3;");
    CHECK_INT(counts().n_found, found + 5);
    CHECK_INT(counts().n_kept, 1);
    close_db();
}

TEST(a_change_of_a_table_is_seen)
{
    open_db(NULL);
    run("create table t (a integer, s text); insert into t values (1, 'x'), (2, 'y')");
    for (int i = 0; i < 2; i++) CHECK_ANSWER("select sum(a), max(s) from t where a < 100", "3|y;");
    CHECK_INT(counts().n_kept, 1);
    run("insert into t values (40, 'z')");
    CHECK_INT(counts().n_kept, 0);
    CHECK_ANSWER("select sum(a), max(s) from t where a < 100", "43|z;");
    run("drop table t");
    CHECK_INT(counts().n_kept, 0);
    fails("select sum(a), max(s) from t where a < 100", WEFT_UNDEFINED_TABLE);
    run("create table t (s text, a bigint); insert into t values ('old', 7)");
    CHECK_ANSWER("select sum(a), max(s) from t where a < 100", "7|old;");
    close_db();
}

// A plan that was made of an older snapshot is not given out, even where nobody said that the table has changed.
TEST(a_plan_of_an_older_snapshot_is_not_found)
{
    Append     *append;
    u64         n_rows;
    const i64   number = 5;
    ColumnInput input = { .i = &number };
    open_db(NULL);
    run("create table t (a integer); insert into t values (1)");
    for (int i = 0; i < 2; i++) CHECK_ANSWER("select sum(a) from t", "1;");
    CHECK_INT(counts().n_kept, 1);
    CHECK_OK(append_begin(db->store, "t", &append, &err), err);
    CHECK_OK(append_rows(append, 0, &input, 1, &err), err);
    CHECK_OK(append_commit(append, &n_rows, &err), err);
    CHECK_INT(counts().n_kept, 1);
    CHECK_ANSWER("select sum(a) from t", "6;");
    close_db();
}

TEST(what_a_run_fills_in_or_makes_is_not_kept)
{
    open_db(NULL);
    run("create table t (a integer); insert into t values (1), (2)");
    const int n_kept = counts().n_kept;
    for (int i = 0; i < 3; i++) {
        CHECK_ANSWER("select count(*) from t where a = (select max(a) from t)", "1;");
        CHECK_ANSWER("select count(*) from weft_tables", "1;");
        CHECK_HAS(answer("explain select a from t"), "scan");
        fails("select b from t", WEFT_UNDEFINED_COLUMN);
    }
    CHECK_INT(counts().n_kept, n_kept);
    close_db();
}

TEST(the_plan_that_was_not_used_for_longest_goes)
{
    char sql[100];
    open_db(NULL);
    run("create table t (a integer); insert into t values (1)");
    CHECK_ANSWER("select a from t", "1;");
    for (int i = 0; i < 300; i++) {
        snprintf(sql, sizeof sql, "select a + %d from t", i);
        run(sql), run(sql);
        CHECK_ANSWER("select a from t", "1;");
    }
    CHECK_INT(counts().n_kept, 128);
    CHECK_INT(counts().n_found, 299);                       // the second time it was kept
    close_db();
}

TEST(texts_that_come_once_push_nothing_out)
{
    char sql[100];
    open_db(NULL);
    run("create table t (a integer); insert into t values (1)");
    for (int i = 0; i < 2; i++) CHECK_ANSWER("select a from t", "1;");
    for (int i = 0; i < 300; i++) {
        snprintf(sql, sizeof sql, "select a + %d from t", i);
        run(sql);
    }
    CHECK_INT(counts().n_kept, 1);
    CHECK_ANSWER("select a from t", "1;");
    CHECK_INT(counts().n_found, 1);
    close_db();
}

TEST(plans_are_not_kept_where_that_is_switched_off)
{
    open_db(NULL);
    run("create table t (a integer); insert into t values (1); set plan_cache = off");
    for (int i = 0; i < 3; i++) CHECK_ANSWER("select a from t", "1;");
    CHECK_INT(counts().n_kept, 0);
    run("set plan_cache = text");
    for (int i = 0; i < 3; i++) CHECK_ANSWER("select a from t", "1;");
    CHECK_INT(counts().n_kept, 1);
    CHECK_INT(counts().n_found, 1);
    close_db();
}

// The memory of rows that are gone is not held by plans.
TEST(dropped_rows_are_given_back)
{
    open_db(NULL);
    const i64 used = db->budget.used;
    make_big("t", 20000, false);
    CHECK(db->budget.used > used);
    run("select sum(id) from t"), run("select sum(id) from t");
    CHECK_INT(counts().n_kept, 1);
    run("drop table t");
    CHECK_INT(db->budget.used, used);
    close_db();
}

enum { N_THREADS = 4, N_ROUNDS = 60 };

static _Atomic int n_wrong;
static _Atomic bool is_over;

// Sums only grow, and each is one that the table had.
static void *ask(void *context)
{
    weft_session *own;
    weft_result  *result;
    weft_error    error;
    i64           last = 0;
    (void)context;
    if (weft_connect(db, &own, &error)) return atomic_fetch_add(&n_wrong, 1), NULL;
    while (!atomic_load(&is_over)) {
        if (weft_query(own, "select count(*), sum(a) from t", &result, &error)) {
            atomic_fetch_add(&n_wrong, 1);
            break;
        }
        const i64 n_rows = weft_result_column(result, 0)->i64[0];
        if (n_rows < last) atomic_fetch_add(&n_wrong, 1);
        last = n_rows;
        weft_result_free(result);
    }
    weft_disconnect(own);
    return NULL;
}

TEST(plans_are_shared_while_rows_are_added)
{
    pthread_t threads[N_THREADS];
    char      sql[100];
    open_db(NULL);
    run("create table t (a integer); insert into t values (0)");
    for (int i = 0; i < N_THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 1; i <= N_ROUNDS; i++) {
        snprintf(sql, sizeof sql, "insert into t values (%d)", i);
        run(sql);
        snprintf(sql, sizeof sql, "%d;", i + 1);
        CHECK_STR(answer("select count(*) from t"), sql);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_INT(n_wrong, 0);
    close_db();
}
