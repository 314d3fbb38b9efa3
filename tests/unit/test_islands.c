// test_islands.c - functions of a text column: what is kept of them with its dictionary, in how many bytes.

#include "test.h"
#include "engine_help.h"

enum { N_TEXTS = 200000, SLACK = 64 << 10 };                // of notes: their heads and keys, and texts that were made

static void open_words(void)
{
    const NumberOf numbers[] = { number_id, number_id };
    open_db(fresh_path());
    run("create table t (id bigint, word text)");           // 'word 17 of 1'
    fill("t", numbers, 2, N_TEXTS);
    CHECK_ANSWER("select count(*) from t where word = 'none'", "0;");
}

// What SQL leaves behind is BYTES_EACH for each text, and when it is run again, nothing more.
static void check_kept(const char *sql, const char *should, u64 bytes_each)
{
    const i64 before = db->budget.used;
    CHECK_ANSWER(sql, should);
    const i64 kept = db->budget.used - before;
    if (kept < (i64)(bytes_each * N_TEXTS) || kept > (i64)(bytes_each * N_TEXTS) + SLACK)
        CHECK_FAIL("%s: %lld bytes are kept, not %llu for each text", sql, (long long)kept,
                   (unsigned long long)bytes_each);
    CHECK_ANSWER(sql, should);
    CHECK_INT(db->budget.used - before, kept);
}

TEST(a_number_of_each_text_is_kept_in_as_few_bytes_as_it_needs)
{
    open_words();
    check_kept("select sum(length(word)) from t", "3088890;", 1);
    check_kept("select sum(split_part(word, ' ', 2)::integer) from t where id < 70", "2415;", 4);
    check_kept("select max(right(split_part(word, ' ', 2), 4)::integer) from t", "9999;", 2);
    check_kept("select max((split_part(word, ' ', 2) || '00000')::bigint) from t", "19999900000;", 8);
    close_db();
}

TEST(a_text_that_is_one_of_few_is_kept_in_a_byte)
{
    open_words();
    check_kept("select substring(word from 6 for 1) as digit, count(*) from t group by digit order by digit limit 2",
               "0|1;1|111111;", 1);
    // The first of these two functions is kept already.
    check_kept("select count(*) from t where substring(word from 6 for 1) in ('1', '2')", "122222;", 1);
    close_db();
}

// A text that gives NULL, or none at all, takes a byte for that beside its value.
TEST(which_texts_give_null_is_kept_where_some_do)
{
    open_words();
    check_kept("select count(*) from t where nullif(length(word), 11) > 10", "199990;", 2);
    close_db();
}
