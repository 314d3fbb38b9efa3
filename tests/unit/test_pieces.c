// test_pieces.c - join tables that stay when no query uses them: found again, gone when a table changes or memory is
// short, never older than the newest snapshot.

#include "test.h"
#include "engine_help.h"

static void open_keeping(void)
{
    open_db(NULL);
    run("set keep_tables = on");
}

static int kept(void) { return pieces_kept(db->pieces); }

static u64 found(void) { return pieces_shared(db->pieces); }

static void open_star(void)
{
    open_keeping();
    run("create table d (k integer, name text); insert into d values (1, 'one'), (2, 'two'), (3, 'three');"
        "create table f (k integer, v integer); insert into f values (1, 10), (2, 20), (3, 30), (1, 1)");
}

#define STAR "select name, sum(v) from f, d where f.k = d.k and d.k < 3 group by name order by name"

TEST(a_join_table_is_found_by_later_queries)
{
    open_star();
    CHECK_ANSWER(STAR, "one|11;two|20;");
    CHECK_INT(kept(), 1);
    CHECK_INT(pieces_count(db->pieces), 0);                 // no query uses it
    const u64 before = found();
    CHECK_ANSWER(STAR, "one|11;two|20;");
    CHECK_INT(found(), before + 1);
    CHECK_ANSWER("select count(*) from f, d where f.k = d.k and d.k < 3", "3;");       // brings no name: another table
    CHECK_INT(kept(), 2);
    close_db();
}

TEST(with_keep_tables_off_nothing_stays)
{
    open_star();
    run("set keep_tables = off");
    CHECK_ANSWER(STAR, "one|11;two|20;");
    CHECK_INT(kept(), 0);
    close_db();
}

TEST(a_change_of_a_table_is_seen)
{
    open_star();
    CHECK_ANSWER(STAR, "one|11;two|20;");
    run("insert into d values (0, 'none'); insert into f values (0, 5)");
    CHECK_INT(kept(), 0);
    CHECK_ANSWER(STAR, "none|5;one|11;two|20;");
    run("drop table d; create table d (k integer, name text); insert into d values (1, 'uno')");
    CHECK_ANSWER(STAR, "uno|11;");
    close_db();
}

// Rows are appended without a statement, as a stream's are: the table that stayed is of the snapshot before.
TEST(a_table_of_an_older_snapshot_is_not_found)
{
    Append     *append;
    u64         n_rows;
    const i64   key = 3;
    ColumnInput inputs[] = { { .i = &key }, { .i = &key } };
    open_keeping();
    run("create table d (k integer, n integer); insert into d values (1, 7);"
        "create table f (k integer); insert into f values (1), (3)");
    CHECK_ANSWER("select sum(n) from f, d where f.k = d.k", "7;");
    CHECK_INT(kept(), 1);
    CHECK_OK(append_begin(db->store, "d", &append, &err), err);
    CHECK_OK(append_rows(append, 0, inputs, 1, &err), err);
    CHECK_OK(append_commit(append, &n_rows, &err), err);
    CHECK_ANSWER("select sum(n) from f, d where f.k = d.k", "10;");
    close_db();
}

TEST(what_stays_can_be_freed)
{
    open_star();
    CHECK_ANSWER(STAR, "one|11;two|20;");
    CHECK_INT(kept(), 1);
    pieces_trim(db->pieces);
    CHECK_INT(kept(), 0);
    CHECK_ANSWER(STAR, "one|11;two|20;");
    CHECK_INT(kept(), 1);
    close_db();
}

// A table changes while a query uses what was made of it: it goes with the query.
TEST(what_is_old_does_not_stay)
{
    Pieces      *pieces = pieces_new();
    _Atomic u32  stop = 0;
    Piece       *piece;
    bool         must_make;
    CHECK_OK(pieces_get(pieces, "piece", &stop, &piece, &must_make, &err), err);
    piece_keep(piece, 0.1);
    piece_made(pieces, piece, NULL, true, true);
    pieces_trim(pieces);
    piece_release(pieces, piece);
    CHECK_INT(pieces_kept(pieces), 0);
    CHECK_INT(pieces_count(pieces), 0);
    pieces_free(pieces);
}

// So many that not all have room: those that were used last stay.
TEST(the_oldest_leave_first)
{
    enum { MANY = 4200 };
    Pieces      *pieces = pieces_new();
    _Atomic u32  stop = 0;
    char         name[32];
    Piece       *piece;
    bool         must_make;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "piece %d", i);
        CHECK_OK(pieces_get(pieces, name, &stop, &piece, &must_make, &err), err);
        CHECK(must_make);
        piece_keep(piece, 0);
        piece_made(pieces, piece, NULL, true, true);
        piece_release(pieces, piece);
    }
    CHECK_INT(pieces_kept(pieces), 4096);
    CHECK_OK(pieces_get(pieces, "piece 4199", &stop, &piece, &must_make, &err), err);
    CHECK(!must_make);
    piece_release(pieces, piece);
    CHECK_OK(pieces_get(pieces, "piece 0", &stop, &piece, &must_make, &err), err);
    CHECK(must_make);
    piece_made(pieces, piece, NULL, false, true);
    piece_release(pieces, piece);
    pieces_free(pieces);
}
