// test_together.c - queries that share a scan and are served by one kernel: their answers are those that each has
// alone.
//
// A table of many small chunks, so that queries meet: the kernels for several of them are compiled when they first
// meet, and used from the next time on.

#include "test.h"
#include "engine_help.h"

enum { N_TOGETHER = 24, ROUNDS = 4, ROUNDS_MOST = 45, ROUNDS_ALONE = 40 };

// What queries that meet are to share before their rounds are over.
typedef enum Sharing { SHARES_CUBE, SHARES_JOIN_CUBE, SHARES_FUSED, SHARES_ANY, SHARES_NONE } Sharing;

static weft_session *sessions[N_TOGETHER], *alone;

static void open_tables(void)
{
    open_db(NULL);
    run("set chunk_rows = 4096");
    run("create table d (k integer, class integer, name text)");
    run("create table f (small integer, middle integer, wide integer, big bigint, key integer, word text, maybe "
        "integer, x double precision, y double precision)");
    Text sql = { 0 };
    for (int k = 0; k < 40; k++) {
        text_clear(&sql);
        text_add(&sql, "insert into d values (%d, %d, 'name %d')", k * 3, k % 5, k % 7);
        run(sql.bytes);
    }
    run("create table e (m integer, rank integer, kind text, note integer)");
    run("create table d2 (k integer, class integer, name text)");
    for (int m = -20; m < 30; m++) {
        text_clear(&sql);
        text_add(&sql, "insert into e values (%d, %d, 'kind %d', ", m, (m + 20) % 13, (m + 40) % 6);
        if (m % 7) text_add(&sql, "%d)", m % 4 + 100);
        else text_add(&sql, "null)");
        run(sql.bytes);
    }
    run("insert into d2 select * from d where k % 2 = 0");
    char path[1200];
    snprintf(path, sizeof(path), "%s", test_path("f.csv"));
    FILE *file = fopen(path, "w");
    u64 x = 88172645463325252ull;
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        fprintf(file, "%d,%d,%d,%lld,%d,w%d,%s,%.3f,%s\n", (int)(x % 11), (int)(x / 11 % 50) - 20,
                (int)(x / 550 % 2000) - 1000, (long long)(x / 7 % 4000000000000000000ull) - 2000000000000000000ll,
                (int)(x / 1100000 % 40) * 3, (int)(x % 9), x % 13 ? "5" : "", (double)(x % 100000) / 7,
                i % 1000 == 3   ? "1e200"
                : i % 1000 == 5 ? "-1e200"
                                : "0.001");
    }
    fclose(file);
    text_clear(&sql);
    text_add(&sql, "copy f from '%s' (format csv)", path);
    run(sql.bytes);
    text_free(&sql);
    for (int i = 0; i < N_TOGETHER; i++)
        CHECK_OK(weft_connect(db, &sessions[i], &err), err);
    CHECK_OK(weft_connect(db, &alone, &err), err);
}

static void close_tables(void)
{
    // A kernel for several that does not compile is never missed.
    CHECK_INT(jit_counts(db->jit)->failures, 0);
    for (int i = 0; i < N_TOGETHER; i++)
        weft_disconnect(sessions[i]);
    weft_disconnect(alone);
    close_db();
}

// The I-th query of a shape; constants at and beyond the ends of the columns come up, too.
static char *make_query(const char *shape, int i)
{
    char *sql = malloc(1000);
    snprintf(sql, 1000, shape, i % 12 - 1, i % 12 + i % 4 - 1, (i * 7) % 56 - 23, i % 5, (i * 97) % 2100 - 1050);
    return sql;
}

static char *answer_of(weft_session *by, const char *sql)
{
    weft_result *result = NULL;
    Text text = { 0 };
    CHECK_OK(weft_query(by, sql, &result, &err), err);
    result_text(result, &text);
    weft_result_free(result);
    return text.bytes;
}

static ScanFigures figures_of(const char *table)
{
    Arena *arena = arena_new(NULL, "figures");
    DeviceFigures figures;
    ScanFigures found = { 0 };
    db->cpu->list(db->cpu, arena, &figures);
    for (int i = 0; i < figures.n_scans; i++)
        if (strcmp(figures.scans[i].table, table) == 0)
            found = figures.scans[i];
    arena_free(arena);
    return found;
}

static ScanFigures figures(void) { return figures_of("f"); }

// Rides on the scan for long, and keeps it from being done before all have come: on one core, too, they meet.
static weft_task *start_slow_one(void)
{
    weft_task *slow;
    CHECK_OK(weft_submit(session, "select sum(wide * b.k + c.k) from f, d b, d c where small < 100", &slow, &err), err);
    usleep(3000);
    return slow;
}

static void end_slow_one(weft_task *slow)
{
    weft_result *result;
    weft_cancel(session);
    weft_status status = weft_wait(slow, &result, &err);
    CHECK(status == WEFT_OK || status == WEFT_QUERY_CANCELED);
    weft_result_free(result);
}

static void check_round(char **queries, char **answers, bool beside_slow)
{
    weft_task *tasks[N_TOGETHER], *slow = beside_slow ? start_slow_one() : NULL;
    for (int i = 0; i < N_TOGETHER; i++)
        CHECK_OK(weft_submit(sessions[i], queries[i], &tasks[i], &err), err);
    for (int i = 0; i < N_TOGETHER; i++) {
        weft_result *result;
        Text text = { 0 };
        CHECK_OK(weft_wait(tasks[i], &result, &err), err);
        result_text(result, &text);
        if (strcmp(text.bytes, answers[i]) != 0)
            CHECK_FAIL("%s\nalone    %.300s\ntogether %.300s", queries[i], answers[i], text.bytes);
        weft_result_free(result);
        text_free(&text);
    }
    if (slow)
        end_slow_one(slow);
    jit_wait_idle(db->jit);
}

static bool has_shared(const ScanFigures *figures, Sharing wanted)
{
    if (wanted == SHARES_JOIN_CUBE) return figures->rides_join_cubed > 0;
    if (wanted == SHARES_FUSED) return figures->rides_fused > 0;
    return wanted == SHARES_NONE || figures->rides_cubed > 0 || (wanted == SHARES_ANY && figures->rides_fused > 0);
}

// Runs them over and over, until a kernel for several of them has been used: that of a cube, or any.
static ScanFigures check_together(char **queries, Sharing wanted)
{
    char *answers[N_TOGETHER];
    weft_result *result;
    ScanFigures before = figures(), after = before;
    CHECK_OK(weft_query(alone, "set sharing = off", &result, &err), err);
    weft_result_free(result);
    for (int i = 0; i < N_TOGETHER; i++)
        answers[i] = answer_of(alone, queries[i]);
    jit_wait_idle(db->jit);
    for (int round = 0; round < ROUNDS || (round < ROUNDS_MOST && !has_shared(&after, wanted)); round++) {
        check_round(queries, answers, round >= ROUNDS_ALONE);
        after = figures();
        CHECK(after.rides_woven <= after.n_rides && after.rides_fused <= after.rides_woven &&
              after.rides_cubed <= after.rides_woven && after.rides_join_cubed <= after.rides_cubed);
        after.rides_join_cubed -= before.rides_join_cubed;
        after.rides_cubed -= before.rides_cubed, after.rides_fused -= before.rides_fused;
    }
    for (int i = 0; i < N_TOGETHER; i++) {
        free(queries[i]);
        free(answers[i]);
    }
    return after;
}

// Whether the shape's queries were ever served by one body.
static bool check_shape(const char *shape, Sharing wanted)
{
    char *queries[N_TOGETHER];
    for (int i = 0; i < N_TOGETHER; i++)
        queries[i] = make_query(shape, i);
    return check_together(queries, wanted).rides_cubed > 0;
}

TEST(one_body_serves_queries_of_one_shape)
{
    static const char *const shapes[] = {
        "select sum(middle * small) from f where small between %d and %d and middle < %d",
        "select count(*) from f where small between %d and %d",
        "select count(*), min(wide), max(big), sum(small), avg(middle) from f where small >= %d and small < %d and "
        "middle >= %d",
        "select sum(big) from f where small between %d and %d and middle <> 3 and middle > %d",
        "select word, count(*), sum(wide) from f where small between %d and %d and middle < %d group by word order by "
        "word",
        "select small, word, max(middle) from f where small between %d and %d and middle < %d group by small, word "
        "order by 1, 2",
        "select sum(wide) from f, d where key = k and small between %d and %d and middle < %d and class = %d",
        "select class, sum(wide) from f, d where key = k and small between %d and %d and middle < %d group by class "
        "order by 1",
        "select sum(wide) from f where small between %d and %d and middle < %d and word like '%%%d%%' and wide > %d",
        "select sum(x), avg(x * middle), count(*) from f where small between %d and %d and middle < %d",
        "select sum(y), min(small) from f where small between %d and %d and middle < %d",
        "select word, sum(y), sum(x), max(wide) from f where small between %d and %d and middle < %d group by word "
        "order by word",
    };
    open_tables();
    for (int s = 0; s < COUNT_OF(shapes); s++)
        if (!check_shape(shapes[s], SHARES_CUBE))
            CHECK_FAIL("no cube for %s", shapes[s]);
    close_tables();
}

static bool check_join_shape(const char *shape)
{
    char *queries[N_TOGETHER];
    for (int i = 0; i < N_TOGETHER; i++) queries[i] = make_query(shape, i);
    return check_together(queries, SHARES_JOIN_CUBE).rides_join_cubed > 0;
}

// They differ in what they join, so each has join tables of its own: of bits, of codes, with and without ranges.
TEST(one_body_serves_queries_that_join)
{
    static const char *const shapes[] = {
        "select class, sum(wide), count(*) from f, d where key = k and k between 6 * (%d) - 9 and 9 * (%d) + 40 "
        "group by class order by 1",
        "select name, kind, sum(wide), min(big), max(small) from f, d2, e where key = k and middle = m "
        "and rank between %d and %d + 9 and k < 3 * (%d + 30) group by name, kind order by 1, 2",
        "select kind, word, count(*), sum(x) from f, e where middle = m and rank between %d and %d + 4 and wide > %d "
        "group by kind, word order by 1, 2",
        "select note, count(*), avg(wide) from f, d, e where key = k and middle = m and rank <> %d and "
        "k > 2 * (%d) and small < 9 group by note order by 1",
        "select name, sum(y), sum(middle * small) from f, d where key = k and class between %d and %d + 2 and "
        "small between %d / 10 and 9 group by name order by 1",
    };
    open_tables();
    for (int s = 0; s < COUNT_OF(shapes); s++)
        if (!check_join_shape(shapes[s])) CHECK_FAIL("no cube over joins for %s", shapes[s]);
    close_tables();
}

// These run together, too, but not as one body.  Only some of them may share a kernel at all: the others would run all
// rounds in vain.
TEST(others_are_right_as_well)
{
    static const struct { const char *text; Sharing wanted; } shapes[] = {
        { "select count(*) from f where maybe = 5 and small between %d and %d", SHARES_NONE },
        { "select small, middle from f where wide = 7 and small between %d and %d order by 1, 2 limit 5", SHARES_NONE },
        { "select big, count(*) from f where small between %d and %d and middle = %d group by big order by 1 limit 3",
          SHARES_ANY },
        { "select name, sum(wide) from f, d where key = k and small between %d and %d and middle < %d and class = %d "
          "group by name order by 1",
          SHARES_ANY },
        { "select sum(big / (wide + 2000)) from f where small between %d and %d", SHARES_NONE },
    };
    open_tables();
    for (int s = 0; s < COUNT_OF(shapes); s++)
        check_shape(shapes[s].text, shapes[s].wanted);
    close_tables();
}

// A pipeline that is split rides with its first kernel only; those that are not are still one body.
TEST(split_pipelines_run_beside_those_that_are_not)
{
    static const char *const shapes[] = {
        "select class, sum(wide) from f, d where key = k and small between %d and %d and middle < %d group by class "
        "order by 1",
        "select sum(wide) from f, d where key = k and small between %d and %d and middle < %d and class = %d",
        "select word, count(*), sum(wide) from f where small between %d and %d and middle < %d group by word order by "
        "word",
    };
    open_tables();
    for (int i = 0; i < N_TOGETHER; i += 3) {
        weft_result *result;
        const char  *budget = i % 2 ? "set weave_budget = 16" : "set weave_budget = 34";
        CHECK_OK(weft_query(sessions[i], budget, &result, &err), err);
        weft_result_free(result);
    }
    for (int s = 0; s < COUNT_OF(shapes); s++)
        if (!check_shape(shapes[s], true))
            CHECK_FAIL("no cube for %s", shapes[s]);
    close_tables();
}

// Queries that look at the same rows: the same filters and joins, other sums and groups.
TEST(queries_with_the_same_filters_are_fused)
{
    static const char *const froms[] = {
        "from f where small between 2 and 6 and middle < 9",
        "from f, d where key = k and class = 3 and small < 7",
        "from f, d where key = k and small < 9 and wide % 3 = 1",
        "from f where word like '%3%' or middle = 2",
        "from f where maybe > 3 and small < 10",
    };
    static const char *const sinks[] = {
        "select count(*) %s",
        "select sum(middle) %s",
        "select sum(wide), min(big) %s",
        "select word, sum(small) %s group by word order by word",
        "select big, count(*) %s group by big order by big limit 3",
        "select small, max(middle), avg(wide) %s group by small order by 1",
        "select sum(big), count(maybe) %s",
        "select sum(x), sum(y) %s",
        "select word, avg(y) %s group by 1 order by 1",
        "select maybe, sum(big) %s group by maybe order by 1",
        "select sum(wide / (wide + 1001)) %s",
        "select count(*), max(word) %s",
        "select middle, small, count(*) %s group by middle, small order by 1, 2 limit 9",
    };
    open_tables();
    for (int f = 0; f < COUNT_OF(froms); f++) {
        char *queries[N_TOGETHER];
        for (int i = 0; i < N_TOGETHER; i++) {
            queries[i] = malloc(1000);
            snprintf(queries[i], 1000, sinks[(i * 5 + f) % COUNT_OF(sinks)], froms[f]);
        }
        if (!check_together(queries, SHARES_FUSED).rides_fused)
            CHECK_FAIL("not fused: %s", froms[f]);
    }
    close_tables();
}

// Queries that begin alike and go on differently: more filters, joins, other constants.
TEST(queries_that_begin_alike_are_fused)
{
    static const char *const froms[][6] = {
        { "f where small between 2 and 6 and middle < 9", "f where middle < 9 and small between 2 and 6 and wide > 0",
          "f where small between 2 and 6 and middle < 9 and wide % 3 = 1",
          "f, d where key = k and class = 3 and small between 2 and 6 and middle < 9",
          "f where small between 2 and 6 and middle < 9 and maybe > 3",
          "f where small between 2 and 6 and word like '%4%' and middle < 9" },
        { "f, d where key = k and class = 3 and small < 7",
          "f, d where key = k and class = 3 and small < 7 and wide % 2 = 0",
          "f, d where key = k and class = 3 and small < 7 and middle * small > wide",
          "f, d where key = k and class = 3 and small < 7 and name = 'name 3'",
          "f, d where key = k and class = 3 and small < 7 and x > 20.5",
          "f, d where key = k and class = 3 and small < 7 and maybe is null" },
        { "f where maybe > 3 and small < 10", "f where maybe > 3 and small < 10 and big / 7 > wide",
          "f where small < 10 and maybe > 3 and word = 'w3'",
          "f where maybe > 3 and small < 10 and 100 / (middle + 21) > 4",
          "f where maybe > 3 and middle between -3 and 8 and small < 10", "f where maybe > 3 and small < 10" },
        { "f where word like '%3%' or middle = 2", "f where (word like '%3%' or middle = 2) and wide / 5 > 7",
          "f where (word like '%3%' or middle = 2) and maybe = 5",
          "f where (word like '%3%' or middle = 2) and x * 2 < 9000",
          "f where (word like '%3%' or middle = 2) and y < 1", "f where (word like '%3%' or middle = 2)" },
    };
    static const char *const sinks[] = {
        "select count(*) from %s",
        "select sum(wide), min(big) from %s",
        "select word, sum(small) from %s group by word order by word",
        "select big, count(*) from %s group by big order by big limit 3",
        "select sum(x), sum(y), avg(x * middle) from %s",
        "select maybe, sum(big), sum(y) from %s group by maybe order by 1",
        "select small, max(middle), avg(wide) from %s group by small order by 1",
    };
    open_tables();
    for (int f = 0; f < COUNT_OF(froms); f++) {
        char *queries[N_TOGETHER];
        for (int i = 0; i < N_TOGETHER; i++) {
            queries[i] = malloc(1000);
            snprintf(queries[i], 1000, sinks[(i * 5 + i / 6 + f) % COUNT_OF(sinks)], froms[f][i % 6]);
        }
        if (!check_together(queries, SHARES_FUSED).rides_fused)
            CHECK_FAIL("not fused: %s", froms[f][0]);
    }
    close_tables();
}

// A filter that fails for one fails for all that have it: each is told.
TEST(an_error_in_a_filter_of_several_is_told_to_each)
{
    static const char *const queries[] = {
        "select count(*) from f where small between 2 and 6 and middle < 9 and 7 / (wide - 7) < 3",
        "select sum(wide), max(word) from f where small between 2 and 6 and middle < 9 and 7 / (wide - 7) < 3",
        "select sum(big), min(middle) from f where small between 2 and 6 and middle < 9",
        "select max(big), min(small) from f where small between 2 and 6 and middle < 9"
    };
    open_tables();
    char *last[2] = { answer_of(session, queries[2]), answer_of(session, queries[3]) };
    for (int round = 0; round < 30; round++) {
        weft_task *tasks[4];
        for (int i = 0; i < 4; i++)
            CHECK_OK(weft_submit(sessions[i], queries[i], &tasks[i], &err), err);
        for (int i = 0; i < 4; i++) {
            weft_result *result;
            Text text = { 0 };
            weft_status status = weft_wait(tasks[i], &result, &err);
            CHECK_INT(status, i < 2 ? WEFT_DIVISION_BY_ZERO : WEFT_OK);
            if (status) continue;
            result_text(result, &text);
            CHECK_STR(text.bytes, last[i - 2]);
            weft_result_free(result);
            text_free(&text);
        }
        jit_wait_idle(db->jit);
    }
    free(last[0]);
    free(last[1]);
    close_tables();
}

// One of them fails in the middle: that is its own business.
TEST(an_error_in_a_fused_kernel_is_told_to_its_query_alone)
{
    open_tables();
    weft_task *tasks[3];
    static const char *const queries[] = {
        "select count(*) from f where small between 2 and 6 and middle < 9",
        "select sum(wide / (wide - 7)) from f where small between 2 and 6 and middle < 9",
        "select max(wide), min(word) from f where small between 2 and 6 and middle < 9"
    };
    char *first = answer_of(session, queries[0]), *last = answer_of(session, queries[2]);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 3; i++)
            CHECK_OK(weft_submit(sessions[i], queries[i], &tasks[i], &err), err);
        for (int i = 0; i < 3; i++) {
            weft_result *result;
            Text text = { 0 };
            weft_status status = weft_wait(tasks[i], &result, &err);
            CHECK_INT(status, i == 1 ? WEFT_DIVISION_BY_ZERO : WEFT_OK);
            if (status) continue;
            result_text(result, &text);
            CHECK_STR(text.bytes, i ? last : first);
            weft_result_free(result);
            text_free(&text);
        }
        jit_wait_idle(db->jit);
    }
    free(first);
    free(last);
    close_tables();
}

// Members come and go while the others go on: some are cancelled in the middle, some fail.
static void check_leaving(const char *shape)
{
    char *queries[N_TOGETHER], *answers[N_TOGETHER];
    for (int i = 0; i < N_TOGETHER; i++) {
        queries[i] = make_query(shape, i);
        answers[i] = answer_of(alone, queries[i]);
    }
    for (int round = 0; round < 60; round++) {
        weft_task *tasks[N_TOGETHER];
        for (int i = 0; i < N_TOGETHER; i++)
            CHECK_OK(weft_submit(sessions[i], queries[i], &tasks[i], &err), err);
        for (int i = round % 3; i < N_TOGETHER; i += 3) {
            if (round % 4 == 0) usleep(50);
            weft_cancel(sessions[i]);
        }
        for (int i = 0; i < N_TOGETHER; i++) {
            weft_result *result;
            Text text = { 0 };
            weft_status status = weft_wait(tasks[i], &result, &err);
            CHECK(status == WEFT_OK || (status == WEFT_QUERY_CANCELED && i % 3 == round % 3));
            if (status) continue;
            result_text(result, &text);
            CHECK_STR(text.bytes, answers[i]);
            weft_result_free(result);
            text_free(&text);
        }
    }
    for (int i = 0; i < N_TOGETHER; i++) {
        free(queries[i]);
        free(answers[i]);
    }
}

TEST(members_may_leave_a_cube)
{
    const char *shape = "select sum(middle * small), count(*) from f where small between %d and %d and middle < %d";
    open_tables();
    CHECK(check_shape(shape, SHARES_CUBE));
    check_leaving(shape);
    close_tables();
}

TEST(members_may_leave_a_cube_over_joins)
{
    const char *shape = "select class, kind, sum(wide) from f, d, e where key = k and middle = m and k > 5 * (%d) and "
                        "rank between %d and 12 group by class, kind order by 1, 2";
    open_tables();
    CHECK(check_join_shape(shape));
    check_leaving(shape);
    close_tables();
}

// ---- which query waits for which ------------------------------------------------------------------------------------

static void wait_for_rider(void)
{
    int n_riders = 0;
    for (double end = time_now_ms() + 60000; !n_riders && time_now_ms() < end; usleep(1000)) {
        Arena        *arena = arena_new(NULL, "riders");
        DeviceFigures figures;
        db->cpu->list(db->cpu, arena, &figures);
        n_riders = figures.n_riders;
        arena_free(arena);
    }
    CHECK(n_riders > 0);
}

// A query rides with those of its own priority: one with a larger one does not wait for rows that go through them.
TEST(a_query_with_priority_has_a_scan_of_its_own)
{
    static const char sql[] = "explain analyze select sum(wide) from f where middle > 0 and small < 100";
    open_tables();
    free(answer_of(sessions[0], "set priority = 3"));
    weft_task *slow = start_slow_one();
    wait_for_rider();
    char *first = answer_of(sessions[0], sql);
    CHECK(!weft_is_done(slow));
    CHECK_HAS(first, "scan");
    CHECK(!strstr(first, "got on a running scan"));
    end_slow_one(slow);
    free(first);
    close_tables();
}

// It is not shared, but it is counted.
TEST(a_build_over_few_rows_is_pushed_at_once)
{
    open_tables();
    const ScanFigures before = figures_of("e");
    char *answer = answer_of(sessions[0], "select count(*) from f, e where middle = m and rank < 5");
    const ScanFigures after = figures_of("e");
    CHECK_INT(after.n_rides - before.n_rides, 1);
    CHECK(after.rows_read > before.rows_read && after.bytes_read > before.bytes_read);
    CHECK_INT(after.rows_ridden - before.rows_ridden, after.rows_read - before.rows_read);
    CHECK_INT(after.chunks_ridden - before.chunks_ridden, after.chunks_read - before.chunks_read);
    free(answer);
    close_tables();
}
