// test_kinds.c - kinds of a dimension's rows: how many there are, when there are none, and that join tables made by
// kinds give the answers of those made of all rows.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "engine/kinds.h"
#include "engine_help.h"

static u64 x = 88172645463325252ull;

static u32 draw(u32 below)
{
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (u32)(x >> 20) % below;
}

// d: 1,000 rows, keys with gaps; city tells nation; note is NULL in places; code is the row's own.
static void open_star_of(int n_rows)
{
    char sql[200];
    open_db(NULL);
    run("create table d (k integer, nation text, city text, day date, note smallint, code integer);"
        "insert into d select 3 * g - 500, 'nation ' || g % 7, 'city ' || g % 70, date '2020-01-01' + (g % 5)::integer,"
        "  case when g % 11 > 3 then g % 3 end, g from generate_series(1, 1000) s (g);"
        "create table f (k integer, v integer, w integer)");
    snprintf(sql, sizeof sql,
             "insert into f select (g * 7919) %% 3200 - 600, g %% 100, g %% 13 from generate_series(1, %d) s (g)",
             n_rows);
    run(sql);
    run("set row_kinds = on");
}

static void open_star(void) { open_star_of(20000); }

static _Atomic u32 stop;

static const Kinds *kinds_of(const char *table, const char *key, const char *columns)
{
    const Table *snapshot = store_table(db->store, table);
    char         list[100], *name;
    int          places[8], n = 0;
    CHECK(snapshot != NULL);
    snprintf(list, sizeof list, "%s", columns);
    for (char *at = list; (name = strtok(at, " ")); at = NULL) places[n++] = table_find_column(snapshot, name);
    const Kinds *kinds = kinds_get(db->kinds, db->store, snapshot, table_find_column(snapshot, key), places, n,
                                   &stop);
    table_release(snapshot);
    return kinds;
}

static int count_kinds(const char *columns)
{
    const Kinds *kinds = kinds_of("d", "k", columns);
    const int    n = kinds ? kinds->n_kinds - 1 : 0;
    u64          n_rows = 0;
    for (int k = 1; k <= n; k++) n_rows += kinds->n_rows[k];
    if (kinds) CHECK_INT(n_rows, 1000);
    kinds_release(kinds);
    return n;
}

TEST(rows_with_the_same_values_are_of_one_kind)
{
    open_star();
    CHECK_INT(count_kinds("nation"), 7);
    CHECK_INT(count_kinds("nation city"), 70);              // finer ones take the place of those before
    CHECK_INT(count_kinds("nation"), 70);
    CHECK_INT(count_kinds("day"), 70);                      // the day is that of the city's number
    CHECK_INT(count_kinds("note"), 275);                    // NULL, 0, 1 or 2 in each city, as rows have it
    CHECK_INT(kinds_count(db->kinds), 1);
    CHECK_INT(count_kinds("note day city nation"), 275);
    close_db();
}

TEST(there_are_no_kinds_where_they_would_be_too_many)
{
    open_star();
    run("create table many (k integer, a integer, b integer, c integer);"
        "insert into many select g, g, g % 50, g % 3 from generate_series(1, 5000) s (g)");
    CHECK(!kinds_of("many", "k", "a"));
    CHECK(!kinds_of("many", "k", "a"));                     // known by now
    const Kinds *kinds = kinds_of("many", "k", "b");
    CHECK(kinds && kinds->n_kinds == 51);
    CHECK(!kinds_of("many", "k", "b a"));
    kinds_release(kinds);
    close_db();
}

TEST(a_set_that_needs_many_kinds_has_them_apart_from_the_few_of_others)
{
    open_star();
    run("create table part (k integer, brand integer, size integer, note integer);"
        "insert into part select g, g % 100, g / 100 % 50, g % 7 from generate_series(0, 19999) s (g)");
    const Kinds *brands = kinds_of("part", "k", "brand"), *sizes = kinds_of("part", "k", "brand size"),
                *again = kinds_of("part", "k", "brand");
    CHECK(brands && brands->n_kinds == 101);
    CHECK(sizes && sizes->n_kinds == 5001);
    CHECK(again == brands);
    CHECK(!kinds_of("part", "k", "brand size note"));       // 20,000: a kind for each row
    kinds_release(brands);
    kinds_release(sizes);
    kinds_release(again);
    close_db();
}

// Of a table with many rows they may be more, for those queries alone that look at all of these columns.
TEST(kinds_of_many_rows_may_be_many)
{
    char sql[300], should[1 << 12];
    open_star();
    run("create table wide (k integer, a integer, b integer, c text);"
        "insert into wide select g, g % 100, g / 100 % 90, 'c' || g % 100 from generate_series(1, 40000) s (g)");
    const Kinds *few = kinds_of("wide", "k", "a"), *many = kinds_of("wide", "k", "a b"),
                *again = kinds_of("wide", "k", "a");
    CHECK(few && few->n_kinds == 101 && again && again->id == few->id);
    CHECK(many && many->n_kinds == 9001);
    kinds_release(few), kinds_release(many), kinds_release(again);
    for (int i = 0; i < 40; i++) {
        snprintf(sql, sizeof sql,
                 "select c, count(*), sum(v) from f join wide on f.k = wide.k where b between %u and %u and c %s 'c%u'"
                 " group by c order by c", draw(40), 40 + draw(50), i & 1 ? ">" : "=", draw(100));
        run("set row_kinds = off");
        snprintf(should, sizeof should, "%s", answer(sql));
        run("set row_kinds = on");
        CHECK_STR(answer(sql), should);
        CHECK_STR(answer(sql), should);
    }
    close_db();
}

// Kinds are numbered by 16 bits: the last of 60,000 is found.
TEST(answers_by_many_kinds_are_those_by_key)
{
    open_star();
    run("create table part (k integer, brand integer, size integer);"
        "insert into part select g, g % 1200, g / 1200 % 50 from generate_series(0, 149999) s (g);"
        "create table sale (k integer, n integer);"
        "insert into sale select g * 7919 % 150000, g from generate_series(1, 20000) s (g)");
    const char *const query = "select brand, count(*), sum(n) from sale join part on sale.k = part.k "
                              "where size between 40 and 49 and brand > 1195 group by brand order by brand";
    run("set row_kinds = off");
    char *by_key = strdup(answer(query));
    run("set row_kinds = on");
    CHECK_ANSWER(query, by_key);
    CHECK_INT(kinds_count(db->kinds), 1);
    free(by_key);
    close_db();
}

TEST(a_query_that_is_stopped_has_none_and_the_next_one_does)
{
    open_star();
    atomic_store(&stop, 1);
    CHECK(!kinds_of("d", "k", "city"));
    atomic_store(&stop, 0);
    CHECK_INT(count_kinds("city"), 70);
    atomic_store(&stop, 1);
    CHECK(!kinds_of("d", "k", "city note"));                // finer ones
    CHECK_INT(count_kinds("nation city"), 0);
    CHECK_INT(count_kinds("city"), 70);                     // they are there: nothing is made
    atomic_store(&stop, 0);
    CHECK_INT(count_kinds("city note"), 275);
    close_db();
}

TEST(a_key_must_be_unique_and_there)
{
    open_star();
    run("create table twice (k integer, a integer); insert into twice values (1, 1), (2, 1), (1, 2);"
        "create table lacks (k integer, a integer); insert into lacks values (1, 1), (null, 1);"
        "create table wide (k bigint, a integer); insert into wide values (1, 1), (1000000000000, 1);"
        "create table none (k integer, a integer); create table real (k integer, a double precision);"
        "insert into real values (1, 2.5)");
    CHECK(!kinds_of("twice", "k", "a"));
    CHECK(!kinds_of("lacks", "k", "a"));
    CHECK(!kinds_of("wide", "k", "a"));
    CHECK(!kinds_of("none", "k", "a"));
    CHECK(!kinds_of("real", "k", "a"));
    close_db();
}

TEST(a_change_of_the_table_is_seen_and_others_do_not_matter)
{
    open_star();
    CHECK_ANSWER("select count(*) from f join d on f.k = d.k where nation = 'nation 1'", "897;");
    CHECK_INT(kinds_count(db->kinds), 1);
    run("insert into f values (1000, 1, 1)");
    CHECK_INT(kinds_count(db->kinds), 1);
    run("insert into d values (5000, 'nation 1', 'city 1', null, null, 0); insert into f values (5000, 1, 1)");
    CHECK_INT(kinds_count(db->kinds), 0);
    CHECK_ANSWER("select count(*) from f join d on f.k = d.k where city = 'city 1' and note is null and day is null",
                 "1;");
    CHECK_INT(kinds_count(db->kinds), 1);
    db_trim(db, true);                                      // memory is short
    CHECK_INT(kinds_count(db->kinds), 0);
    close_db();
}

// ---- answers --------------------------------------------------------------------------------------------------------

static const char *const filters[] = {
    "nation = 'nation %u'", "city in ('city %u', 'city 3', 'city 44')", "day > date '2020-01-01' + %u", "note = %u",
    "note is null", "nation < 'nation %u' or note is not null", "coalesce(note, 2) <> %u", "upper(city) like '%%%u'",
    "extract(day from day) = %u", "city between 'city %u' and 'city 6'", "1 = 1", "nation = 'no such' || %u",
    "note <> %u", "note >= %u - 5", "note < %u", "note <= 99999999999 * %u", "nation <> 'nation %u'",
    "note not in (1, %u)", "note in (1, null, %u)", "note = %u or city > 'city 4' and nation <= 'nation 5'",
    "not (note = %u and day <> date '2020-01-02')", "day <= date '2020-01-01' + %u", "city is not null and note > %u",
};

static const char *const groups[] = { "nation", "city", "note", "day", "f.w", "city || nation" };

static void draw_query(char *sql, size_t room)
{
    char        filter[2][120];
    const char *group = groups[draw(COUNT_OF(groups))];
    for (int i = 0; i < 2; i++) {
        const u32 number = draw(7);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(filter[i], sizeof filter[i], filters[draw(COUNT_OF(filters))], number);
#pragma GCC diagnostic pop
    }
    snprintf(sql, room,
             "select %s, count(*), sum(v) from f %s join d on f.k = d.k and %s where %s and v < %u"
             " group by 1 order by 1",
             group, draw(4) ? "" : "left", filter[0], draw(2) ? filter[1] : "w > 2", 20 + draw(80));
}

static const char *make_list(Text *sql, bool is_text, int n)
{
    const char *column = is_text ? "city" : "note";
    text_clear(sql);
    text_add(sql, "select %s, count(*), sum(v) from f join d on f.k = d.k where %s in (null", column, column);
    for (int i = 0; i < n; i++) text_add(sql, is_text ? ", 'city %d'" : ", %d", 3 * i - 2);
    text_add(sql, ") group by 1 order by 1");
    return sql->bytes;
}

// Few enough to be compared with each kind, and too many: a kernel does it.
TEST(answers_by_lists_of_constants_are_those_of_all_rows)
{
    static const int lengths[] = { 3, 20, 3000, 20000 };
    char             should[1 << 14];
    Text             sql = { 0 };
    open_star();
    for (int i = 0; i < 2 * COUNT_OF(lengths); i++) {
        make_list(&sql, i & 1, lengths[i / 2]);
        run("set row_kinds = off");
        snprintf(should, sizeof should, "%s", answer(sql.bytes));
        run("set row_kinds = on");
        CHECK_STR(answer(sql.bytes), should);
    }
    CHECK(kinds_count(db->kinds) > 0);
    text_free(&sql);
    close_db();
}

TEST(answers_are_those_of_all_rows)
{
    char sql[500], should[1 << 16];
    open_star_of(6400);                                     // every key twice
    for (int i = 0; i < 400; i++) {
        draw_query(sql, sizeof sql);
        run("set row_kinds = off");
        snprintf(should, sizeof should, "%s", answer(sql));
        run("set row_kinds = on");
        CHECK_STR(answer(sql), should);
    }
    CHECK(kinds_count(db->kinds) > 0);
    close_db();
}

// Many at once, which may become bodies over columns of kinds; tests/check-cubes demands that they do.
enum { N_AT_ONCE = 24, N_ROUNDS = 16 };

TEST(answers_at_once_are_those_of_each_alone)
{
    weft_session *sessions[N_AT_ONCE];
    weft_task    *tasks[N_AT_ONCE];
    char          sql[N_AT_ONCE][300], *should[N_AT_ONCE];
    u64           n_wrong = 0;
    open_star();
    run("set jit = cc; insert into f select k, v, w from f; insert into f select k, v, w from f");
    for (int i = 0; i < N_AT_ONCE; i++) {
        CHECK_OK(weft_connect(db, &sessions[i], &err), err);
        weft_query(sessions[i], "set row_kinds = on", NULL, &err);
        snprintf(sql[i], sizeof sql[i],
                 "select city, sum(v) from f, d where f.k = d.k and nation = 'nation %d' and note = %d and w < %d"
                 " group by city order by city", i % 7, i % 3, 3 + i % 10);
        run("set row_kinds = off");
        should[i] = strdup(answer(sql[i]));
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N_AT_ONCE; i++) CHECK_OK(weft_submit(sessions[i], sql[i], &tasks[i], &err), err);
        for (int i = 0; i < N_AT_ONCE; i++) {
            weft_result *result;
            static Text  text;
            CHECK_OK(weft_wait(tasks[i], &result, &err), err);
            result_text(result, &text);
            n_wrong += strcmp(text.bytes, should[i]) != 0;
            weft_result_free(result);
        }
    }
    CHECK_INT(n_wrong, 0);
    for (int i = 0; i < N_AT_ONCE; i++) {
        weft_disconnect(sessions[i]);
        free(should[i]);
    }
    close_db();
}

TEST(with_little_memory_answers_are_the_same)
{
    open_star();
    run("set memory_limit = '3MB'");
    for (int i = 0; i < 5; i++)
        CHECK_ANSWER("select count(*) from f join d on f.k = d.k where nation = 'nation 1'", "897;");
    close_db();
}
