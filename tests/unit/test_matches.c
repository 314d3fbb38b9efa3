// test_matches.c - matches that are multiplied: the same counts as when each is visited, and counts beyond visiting.

#include "test.h"
#include "engine_help.h"

#define ROWS 3000

static i64 number_hundred(u64 row) { return (i64)(row * 7919 % 100); }

static void make_tables(void)
{
    const NumberOf numbers[] = { number_id, number_ten, number_hundred, number_mixed, number_ten };
    open_db(":memory:");
    run("set device = cpu; set jit = tcc; set chunk_rows = 1024");
    run("create table a (id bigint, ten bigint, hundred bigint, mixed bigint, word text)");
    run("create table b (id bigint, ten bigint, hundred bigint, mixed bigint, word text)");
    fill("a", numbers, 5, ROWS);
    fill("b", numbers, 5, ROWS / 10);
    run("create table n as select case when id % 3 = 0 then null else ten end as ten,"
        " case when id % 5 = 0 then null else hundred % 4 end as four, id from b");
}

static const char *const queries[] = {
    "select count(*) from a, b",
    "select count(*), count(a.id), min(a.mixed), max(a.word) from a join b on a.ten = b.ten",
    "select count(*), sum(a.id) from a join b on a.ten = b.ten",                  // a sum visits them all
    "select a.hundred, count(*), max(a.id) from a join b on a.ten = b.ten group by 1 order by 1",
    "select b.ten, count(*), min(b.ten) from a join b on a.hundred % 10 = b.hundred % 10 group by 1 order by 1",
    "select count(*), count(n.ten), count(n.four), min(n.four) from a join n on a.ten = n.ten",
    "select n.four, count(*), count(n.ten) from a left join n on a.ten = n.ten group by 1 order by 1",
    "select count(*), count(n.four) from a left join n on a.ten = n.ten + 5",
    "select count(*), count(n.four) from a left join n on a.ten = n.ten and n.four < a.hundred % 4",
    "select count(*) from a join n on a.ten = n.ten and n.four < a.hundred % 4",
    "select count(*) from a join b on a.ten = b.ten join n on n.four = b.hundred % 4",
    "select n.four, count(*) from a join b on a.ten = b.ten left join n on n.four = b.hundred % 5"
    " group by 1 order by 1",
    "select count(*) from a join b on a.word = b.word join b c on c.ten = a.ten",
    "select b.ten, max(c.ten), count(*) from a join b on a.ten = b.ten and a.hundred % 2 = b.hundred % 2"
    " join b c on c.hundred % 10 = b.ten group by 1 order by 1",
    "select count(distinct b.ten), count(*) from a join b on a.ten = b.ten",
    "select count(*) from a where exists (select * from b where b.ten = a.ten and b.id > a.id)",
    "select count(*) filter (where a.id < 100), count(case when a.id > 7 then 1 end) from a join b on a.ten = b.ten",
    "select count(*) from a join b on a.ten = b.ten where a.id < 0",
    "select count(*) from (select a.ten from a join b on a.ten = b.ten) x join b on x.ten = b.ten having count(*) > 1",
};

TEST(counts_are_the_same_as_of_visited_matches)
{
    make_tables();
    for (int q = 0; q < COUNT_OF(queries); q++) {
        run("set weave = off");                             // each join stores its rows
        char *should = strdup(answer(queries[q]));
        run("set weave = on");
        CHECK_ANSWER(queries[q], should);
        run("set threads = 1");
        CHECK_ANSWER(queries[q], should);
        run("set threads = 4");
        free(should);
    }
    close_db();
}

// Nobody has the time to visit 3000 * 300 * 300 * 300 * 300 rows.
TEST(rows_that_are_only_counted_are_not_visited)
{
    make_tables();
    run("set statement_timeout = '20s'");
    CHECK_ANSWER("select count(*) from a, b, b c, b d, b e", "24300000000000;");
    CHECK_ANSWER("select a.id % 2, count(*), max(a.id) from a, b, b c, b d, b e group by 1 order by 1",
                 "0|12150000000000|2998;1|12150000000000|2999;");
    // five tables of 1,000 rows in a chain of columns of 10 values
    run("create table t as select id % 10 as x, id / 10 % 10 as y from a where id < 1000");
    CHECK_ANSWER("select count(*) from t a join t b on a.y = b.x join t c on b.y = c.x join t d on c.y = d.x"
                 " join t e on d.y = e.x", "100000000000;");
    CHECK_ANSWER("select count(*), min(n), max(n) from (select e.y, count(*) as n from t a join t b on a.y = b.x"
                 " join t c on b.y = c.x join t d on c.y = d.x join t e on d.y = e.x group by 1) z",
                 "10|10000000000|10000000000;");
    // 7.3e20 rows are more than a count can say: they are visited, and the query is stopped
    run("set statement_timeout = '100ms'");
    fails("select count(*) from a, a b, a c, a d, a e, a f", WEFT_QUERY_CANCELED);
    close_db();
}
