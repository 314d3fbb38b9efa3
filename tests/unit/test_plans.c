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

// ---- plans of shapes ------------------------------------------------------------------------------------------------

static u64 shapes_found(void) { return shape_plans_counts(db->shape_plans).n_found; }

// The plan of SQL's shape is used, and gives this.
static bool finds(const char *sql, const char *expected)
{
    const u64 before = shapes_found();
    CHECK_ANSWER(sql, expected);
    return shapes_found() == before + 1;
}

static void make_days(void)
{
    open_db(NULL);
    run("create table t (a integer, b bigint, m decimal(9,2), d date, s text, f double precision)");
    run("insert into t values (1, 10, 1.50, '2024-01-01', 'x', 0.5), (2, 20, 2.25, '2024-01-02', 'y', 1.5), "
        "(3, 30, 12.00, '2024-02-01', 'z', 2.5), (-4, 40, 99.99, '2024-03-01', '', -1)");
}

TEST(texts_of_a_shape_share_a_plan)
{
    make_days();
    CHECK_ANSWER("select sum(b) from t where a >= 2 and s <> 'y'", "30;");
    CHECK_ANSWER("select sum(b) from t where a >= 1 and s <> 'z'", "30;");
    CHECK(finds("select sum(b) from t where a >= 3 and s <> 'q'", "30;"));
    CHECK(finds("select sum(b) from t where a >= 1000 and s <> ''", "-;"));
    CHECK(finds("select  sum(b) from t where a >=  2147483647 and s <> 'it''s a long text'", "-;"));
    CHECK(!finds("select sum(b) from t where a >= 3000000000 and s <> 'q'", "-;"));       // a bigint is another type
    CHECK(!finds("select sum(b) from t where a >= -4 and s <> 'q'", "100;"));                // another shape
    close_db();
}

TEST(a_literal_that_is_not_compared_is_part_of_a_plans_key)
{
    make_days();
    CHECK_ANSWER("select a + 1 from t where a = 1 limit 1", "2;");
    CHECK_ANSWER("select a + 1 from t where a = 2 limit 1", "3;");
    CHECK(finds("select a + 1 from t where a = 3 limit 1", "4;"));
    CHECK(!finds("select a + 5 from t where a = 3 limit 1", "8;"));
    CHECK(!finds("select a + 1 from t where a = 3 limit 0", ""));
    close_db();
}

TEST(forms_of_comparisons_decide_for_the_plan)
{
    make_days();
    CHECK_ANSWER("select count(*) from t where m < 2.25", "1;");
    CHECK_ANSWER("select count(*) from t where m < 1.50", "0;");
    CHECK(finds("select count(*) from t where m < 9.99", "2;"));
    CHECK_ANSWER("select count(*) from t where m < 2.255", "2;");           // m <= 2.25
    CHECK_ANSWER("select count(*) from t where m < 99.99", "3;");           // has another digit
    CHECK_ANSWER("select count(*) from t where a < 2.5", "3;");             // a <= 2
    CHECK_ANSWER("select count(*) from t where a < 1.5", "2;");
    CHECK(finds("select count(*) from t where a < 3.5", "4;"));
    CHECK_ANSWER("select count(*) from t where a < 3.0", "3;");             // a < 3
    CHECK_ANSWER("select count(*) from t where a = 3.0", "1;");
    CHECK_ANSWER("select count(*) from t where a = 2.0", "1;");
    CHECK_ANSWER("select count(*) from t where a = 2.5", "0;");             // none is
    CHECK_ANSWER("select count(*) from t where a <= cast(2.4 as integer)", "3;");
    CHECK_ANSWER("select count(*) from t where a <= cast(1.4 as integer)", "2;");
    CHECK_ANSWER("select count(*) from t where a <= cast(2.6 as integer)", "4;");
    close_db();
}

TEST(errors_of_a_shape_are_those_of_the_text)
{
    make_days();
    CHECK_ANSWER("select count(*) from t where d = '2024-01-01' and a > 0", "1;");
    CHECK_ANSWER("select count(*) from t where d = '2024-01-02' and a > 1", "1;");
    CHECK(finds("select count(*) from t where d = '2024-02-01' and a > 2", "1;"));
    CHECK_ANSWER("select count(*) from t where d = date '2024-01-01' and a > 0", "1;");
    CHECK_ANSWER("select count(*) from t where d = date '2024-01-02' and a > 1", "1;");
    CHECK(finds("select count(*) from t where d = date '2024-02-01' and a > 2", "1;"));
    fails("select count(*) from t where d = '2024-02-30' and a > 2", WEFT_DATETIME_OVERFLOW);
    CHECK_INT(err.position, 34);
    fails("select count(*) from t where d = 'soon' and a > 2", WEFT_BAD_DATETIME);
    for (int i = 1; i < 4; i++) {
        fails(i == 1   ? "select 1 / (a - 1) from t where s <> 'x1' and b > 1"
              : i == 2 ? "select 1 / (a - 1) from t where s <> 'longer' and b > 2"
                       : "select   1 / (a - 1) from t where s <> '' and b > 3",
              WEFT_DIVISION_BY_ZERO);
        CHECK_INT(err.position, i == 3 ? 12 : 10);
    }
    close_db();
}

TEST(which_literals_are_equal_is_part_of_a_plans_key)
{
    make_days();
    CHECK_ANSWER("select count(*) from t where a = 1 or b = 20 or a = 2", "2;");
    CHECK_ANSWER("select count(*) from t where a = 3 or b = 10 or a = 2", "3;");
    CHECK(finds("select count(*) from t where a = 1 or b = 30 or a = 3", "2;"));
    CHECK(!finds("select count(*) from t where a = 1 or b = 30 or a = 1", "2;"));
    CHECK_ANSWER("select count(*) from t where a = 2 or b = 10 or a = 2", "2;");
    CHECK(finds("select count(*) from t where a = 3 or b = 99 or a = 3", "1;"));
    CHECK_ANSWER("select count(*) from t where (a = 1 and b = 10) or (a = 2 and b = 20)", "2;");
    CHECK_ANSWER("select count(*) from t where (a = 3 and b = 30) or (a = 1 and b = 20)", "1;");
    CHECK_ANSWER("select count(*) from t where (a = 1 and b = 10) or (a = 1 and b = 20)", "1;");
    CHECK_ANSWER("select count(*) from t where (a = 1 and b = 10) or (a = 2 and b = 10)", "1;");
    CHECK_ANSWER("select count(*) from t where a between 3 and 1", "0;");
    CHECK_ANSWER("select count(*) from t where a between 1 and 3", "3;");
    CHECK(finds("select count(*) from t where a between 2 and 1", "0;"));
    CHECK_ANSWER("select count(*) from t where a between 2 and 2", "1;");
    close_db();
}

TEST(lists_of_a_shape_are_sorted_anew)
{
    make_days();
    CHECK_ANSWER("select sum(b) from t where a in (3, 1, 2)", "60;");
    CHECK_ANSWER("select sum(b) from t where a in (9, 1, 2)", "30;");
    CHECK(finds("select sum(b) from t where a in (7, 3, 1)", "40;"));
    CHECK_ANSWER("select sum(b) from t where a in (7, 7, 1)", "10;");
    CHECK_ANSWER("select sum(b) from t where s not in ('x', 'y') and b <> 30", "40;");
    CHECK_ANSWER("select sum(b) from t where s not in ('', 'y') and b <> 40", "40;");
    CHECK(finds("select sum(b) from t where s not in ('z', '') and b <> 10", "20;"));
    close_db();
}

TEST(plans_of_shapes_go_when_a_table_changes)
{
    make_days();
    for (int i = 0; i < 2; i++) run(i ? "select sum(b) from t where a > 1" : "select sum(b) from t where a > 2");
    CHECK(shape_plans_counts(db->shape_plans).n_kept > 0);
    run("insert into t values (9, 900, 1, '2024-01-01', 'n', 0)");
    CHECK_INT(shape_plans_counts(db->shape_plans).n_kept, 0);
    CHECK_ANSWER("select sum(b) from t where a > 3", "900;");
    for (int i = 0; i < 2; i++) run(i ? "select sum(b) from t where a > 1" : "select sum(b) from t where a > 2");
    run("create temporary table t (a integer, b integer); insert into t values (7, 70)");
    CHECK_ANSWER("select sum(b) from t where a > 5", "70;");
    close_db();
}

TEST(plans_of_shapes_are_made_where_that_is_asked_for)
{
    make_days();
    run("set plan_cache = text");
    for (int i = 0; i < 3; i++) run(i ? "select sum(b) from t where a > 1" : "select sum(b) from t where a > 2");
    run("set plan_cache = off");
    for (int i = 0; i < 3; i++) run(i ? "select sum(b) from t where a > 1" : "select sum(b) from t where a > 2");
    CHECK_INT(shape_plans_counts(db->shape_plans).n_kept, 0);
    close_db();
}

enum { N_THREADS = 4, N_ROUNDS = 60 };

static _Atomic int n_wrong;
static _Atomic bool is_over;

// Sums only grow, and each is one that the table had.
static void *ask_shape(void *context)
{
    weft_session *own;
    weft_result  *result;
    weft_error    error;
    char          sql[100];
    (void)context;
    if (weft_connect(db, &own, &error)) return atomic_fetch_add(&n_wrong, 1), NULL;
    for (int i = 0; !atomic_load(&is_over); i = (i + 7) % 1000) {
        snprintf(sql, sizeof sql, "select count(*) from t where a <= 0 or a between %d and %d", 5000 + i, 9000 - i);
        if (weft_query(own, sql, &result, &error)) {
            atomic_fetch_add(&n_wrong, 1);
            break;
        }
        if (weft_result_column(result, 0)->i64[0] != 1) atomic_fetch_add(&n_wrong, 1);
        weft_result_free(result);
    }
    weft_disconnect(own);
    return NULL;
}

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
    for (int i = 0; i < N_THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, i % 2 ? ask_shape : ask, NULL), 0);
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
