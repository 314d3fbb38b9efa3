// test_faults.c - statements while memory, compilers and files fail: a clean error, nothing lost, nothing left behind,
// and the right answer the next time.
//
// Every statement is run with its first call of a kind failing, then with its second, and so on until it passes
// untouched.

#include <dirent.h>
#include <fcntl.h>

#include "test.h"
#include "engine_help.h"

enum { FAULTS_MOST = 2000 };           // a statement that needs more calls than this is not for here

static void no_faults(void)
{
    for (int kind = 0; kind < FAULT_N; kind++)
        fault_set((FaultKind)kind, 0, false);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static const char *const setup =
    "set chunk_rows = 64;"
    "create table fact (id bigint, digit bigint, price decimal(10,2), size real, name text);"
    "create table dim (id bigint, name text, weight double precision)";

static void make_tables(void)
{
    Text sql = { 0 };
    run(setup);
    text_add(&sql, "insert into fact values ");
    for (int i = 0; i < 200; i++) {
        text_add(&sql, "%s(%d, %d, %d.%02d, %d.5, ", i ? ", " : "", i, i % 10, i, i % 100, i);
        text_add(&sql, i % 7 ? "'name %d')" : "null)", i % 20);
    }
    run(sql.bytes);
    run("insert into dim values (0, 'name 0', 0), (1, 'name 1', 1.5), (2, 'name 2', 2.5), (3, null, null), (4, "
        "'other', -1), (4, 'twice', 9)");
    text_free(&sql);
}

static const char *const queries[] = {
    "select 1, 'text', null",
    "select * from fact where id < 5 order by id",
    "select count(*), sum(id), sum(price), avg(size), min(name), max(name) from fact",
    "select digit, count(*), sum(price) from fact group by digit order by 1",
    "select name, min(id), max(size) from fact group by name order by 1 nulls first",
    "select id * 1000003, digit, name, count(*) from fact where id < 30 group by 1, 2, 3 order by 1",
    "select distinct digit, count(*) from fact group by name, digit order by 1, 2 limit 5",
    "select f.id, d.name from fact f join dim d on f.digit = d.id order by f.id, d.name limit 9",
    "select d.name, sum(f.price), count(*) from fact f join dim d on f.digit = d.id group by d.name order by 1",
    "select count(*), sum(d.weight) from fact f join dim d on f.name = d.name",
    "select count(*) from fact f join dim d on f.digit = d.id and f.name = d.name and f.size > d.weight",
    "select count(*), sum(a.id) from fact a, dim b where a.id < 50",
    "select a.id, b.id, c.name from fact a join fact b on a.id = b.id + 1 join dim c on b.digit = c.id order by 1, 3 "
    "limit 6",
    "select count(*) from fact where name like '%1%' or name is null",
    "select count(*) from fact where name in ('name 1', 'name 2') and price between 10 and 90.5",
    "select id from fact order by name desc nulls last, id limit 7 offset 3",
    "select case when id % 2 = 0 then name else 'odd' end as which, count(*) from fact group by 1 order by 1 limit 4",
    "select coalesce(f.name, d.name), count(*) from fact f join dim d on f.digit = d.id group by 1 order by 2 desc, 1 "
    "limit 4",
    "select count(*) from fact f join dim d on f.digit = d.id where f.name < d.name",
    "select sum(price) from fact having count(*) > 5",
    "select name, rows from weft_tables order by 1",
    "explain select count(*) from fact where id > 5",
};

static char *answers[COUNT_OF(queries)];

static void free_answers(void)
{
    for (int i = 0; i < COUNT_OF(queries); i++)
        free(answers[i]);
}

static void note_answers(void)
{
    static bool is_registered;
    if (!is_registered)
        atexit(free_answers);
    is_registered = true;
    for (int i = 0; i < COUNT_OF(queries); i++) {
        free(answers[i]);
        answers[i] = strdup(answer(queries[i]));
    }
}

// The answer is the noted one.  What was compiled may be said in notices, not in the answer.
static void check_answer(int query_number)
{
    CHECK_STR(answer(queries[query_number]), answers[query_number]);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static void check_memory_faults(int query_number)
{
    static Text text;
    i64 used = db->budget.used;
    for (int nth = 1;; nth++) {
        weft_result *result;
        CHECK(nth < FAULTS_MOST);
        fault_set(FAULT_MEMORY, nth, false);
        weft_status status = weft_query(session, queries[query_number], &result, &err);
        bool was_hit = fault_count(FAULT_MEMORY) >= nth;
        no_faults();
        if (status) {
            CHECK(was_hit && result == NULL);
            CHECK_STR(err.sqlstate, "53200");
            CHECK_HAS(err.message, "memory");
        } else {                                            // some allocations can be done without
            result_text(result, &text);
            weft_result_free(result);
            CHECK_STR(text.bytes, answers[query_number]);
        }
        CHECK_INT(db->budget.used, used);
        if (!was_hit)
            break;
    }
    check_answer(query_number);
}

TEST(memory_faults_are_survived)
{
    static const char *const modes[] = { "set jit = auto", "set threads = 1", "set sharing = off", "set weave = off" };
    open_db(NULL);
    make_tables();
    for (int mode = 0; mode < COUNT_OF(modes); mode++) {
        run(modes[mode]);
        note_answers();
        for (int i = 0; i < COUNT_OF(queries); i++)
            check_memory_faults(i);
    }
    close_db();
}

// Statements that change something: all or nothing.
static void check_change_faults(FaultKind kind, const char *sql, const char *count, const char *before,
                                const char *after)
{
    for (int nth = 1;; nth++) {
        CHECK(nth < FAULTS_MOST);
        fault_set(kind, nth, false);
        weft_status status = try_run(sql);
        weft_error said = err;
        bool was_hit = fault_count(kind) >= nth;
        no_faults();
        const char *is = answer(count);
        if (status)
            CHECK(was_hit);
        if (strcmp(is, status ? before : after) != 0)
            CHECK_FAIL("%s with fault %d: %s (%s), then %s", sql, nth, weft_status_name(status), said.message, is);
        if (status && kind == FAULT_MEMORY)
            CHECK_STR(said.sqlstate, "53200");
        if (!was_hit)
            break;
        if (!status) {                                      // passed all the same: undo, for the next one
            run("drop table if exists made");
            if (!strstr(sql, "create table"))
                run("create table made (n bigint, word text); insert into made values (1, 'one')");
        }
    }
}

static void check_changes(FaultKind kind)
{
    static const char *const tables = "select count(*) from weft_tables where name = 'made'";
    static const char *const rows = "select count(*), min(word), max(word) from made";
    char copy[1200];
    const char *path = test_path("three.txt");
    FILE *file = fopen(path, "w");
    fputs("2|two\n3|three\n4|four\n", file);
    CHECK_INT(fclose(file), 0);
    snprintf(copy, sizeof(copy), "copy made from '%s' (delimiter '|')", path);
    check_change_faults(kind, "create table made (n bigint, word text)", tables, "0;", "1;");
    run("insert into made values (1, 'one')");
    check_change_faults(kind, "insert into made values (2, 'two'), (3, 'three'), (4, 'four')", rows, "1|one|one;",
                        "4|four|two;");
    run("drop table made; create table made (n bigint, word text); insert into made values (1, 'one')");
    check_change_faults(kind, copy, rows, "1|one|one;", "4|four|two;");
    for (int nth = 1;; nth++) {
        CHECK(nth < FAULTS_MOST);
        fault_set(kind, nth, false);
        weft_status status = try_run("drop table made");
        bool was_hit = fault_count(kind) >= nth;
        no_faults();
        CHECK_ANSWER(tables, status ? "1;" : "0;");
        if (status)
            CHECK_ANSWER(rows, "4|four|two;");
        if (!status && !was_hit)
            break;
        if (!status) {
            run("create table made (n bigint, word text); insert into made values (1, 'one')");
            run(copy);
        }
    }
}

TEST(memory_faults_leave_changes_done_or_not_done)
{
    open_db(NULL);
    check_changes(FAULT_MEMORY);
    close_db();
    open_db(fresh_path());
    check_changes(FAULT_MEMORY);
    close_db();
}

TEST(a_fault_hits_one_query_and_not_its_neighbour)
{
    weft_session *other;
    weft_task *first, *second;
    weft_result *result;
    open_db(NULL);
    make_tables();
    note_answers();
    CHECK_OK(weft_connect(db, &other, &err), err);
    for (int nth = 1; nth < 60; nth++) {                    // both want the same tables and the same answer
        int number = 7 + nth % 6;
        fault_set(FAULT_MEMORY, nth, false);
        CHECK_OK(weft_submit(session, queries[number], &first, &err), err);
        CHECK_OK(weft_submit(other, queries[number], &second, &err), err);
        int n_failed = 0;
        weft_status status = weft_wait(first, &result, &err);
        CHECK(status == WEFT_OK || status == WEFT_OUT_OF_MEMORY);
        n_failed += status != WEFT_OK;
        weft_result_free(result);
        status = weft_wait(second, &result, &err);
        CHECK(status == WEFT_OK || status == WEFT_OUT_OF_MEMORY);
        n_failed += status != WEFT_OK;
        weft_result_free(result);
        no_faults();
        CHECK(n_failed <= 1);
        check_answer(number);
    }
    weft_disconnect(other);
    close_db();
}

// ---- compilers ------------------------------------------------------------------------------------------------------

static const char *const modes_of_jit[] = { "set jit = auto", "set jit = tcc", "set jit = cc" };

// Fresh code every time: neither in memory nor on disk.
static void open_uncached_db(const char *mode)
{
    setenv("WEFT_CACHE", "", 1);
    open_db(NULL);
    make_tables();
    run(mode);
}

TEST(compile_faults_fall_back_to_the_other_compiler)
{
    static const int numbers[] = { 3, 8 };                  // one kernel, and one with a join: two
    for (int mode = 0; mode < COUNT_OF(modes_of_jit); mode++)
        for (int q = 0; q < COUNT_OF(numbers); q++)
            for (int nth = 1; nth <= 3; nth++) {
                static Text text;
                open_uncached_db(modes_of_jit[mode]);
                if (nth == 1 && mode == 0)
                    note_answers();
                close_db();
                open_uncached_db(modes_of_jit[mode]);
                fault_set(FAULT_COMPILE, nth, false);
                weft_result *result = query(queries[numbers[q]]);
                bool was_hit = fault_count(FAULT_COMPILE) >= nth;
                no_faults();
                result_text(result, &text);
                CHECK_STR(text.bytes, answers[numbers[q]]);
                if (was_hit && mode > 0) {                  // in AUTO the background compiler may have been hit
                    CHECK(weft_result_notices(result) > 0);
                    CHECK_HAS(weft_result_notice(result, 0), mode == 1 ? "tcc" : "cc");
                }
                weft_result_free(result);
                text_free(&text);
                check_answer(numbers[q]);
                close_db();
            }
}

TEST(a_kernel_that_no_compiler_takes_is_an_error)
{
    for (int mode = 0; mode < COUNT_OF(modes_of_jit); mode++) {
        open_uncached_db(modes_of_jit[mode]);
        i64 used = db->budget.used;
        for (int i = 0; i < COUNT_OF(queries); i += 3) {
            fault_set(FAULT_COMPILE, 1, true);
            weft_status status = try_run(queries[i]);
            bool was_hit = fault_count(FAULT_COMPILE) > 0;
            no_faults();
            CHECK_INT(status, was_hit ? WEFT_KERNEL_BUILD : WEFT_OK);
            CHECK_INT(db->budget.used, used);
        }
        run(mode == 2 ? "set jit = tcc" : "set jit = auto");
        run(queries[3]);                                    // the next one tries again
        close_db();
    }
}

static const char *write_script(const char *name, const char *body)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "w");
    fprintf(file, "#!/bin/sh\n%s\n", body);
    CHECK_INT(fclose(file), 0);
    CHECK_INT(chmod(path, 0755), 0);
    return path;
}

static void check_compiler(const char *cc)
{
    setenv("WEFT_CC", cc, 1);
    open_uncached_db("set jit = tcc");
    note_answers();
    close_db();
    open_uncached_db("set jit = cc");
    for (int i = 1; i < COUNT_OF(queries) - 2; i += 4) {
        weft_result *result = query(queries[i]);
        CHECK(weft_result_notices(result) > 0);
        CHECK_HAS(weft_result_notice(result, 0), "cc");
        weft_result_free(result);
        check_answer(i);
    }
    close_db();
    unsetenv("WEFT_CC");
}

TEST(a_compiler_that_is_missing_or_fails_is_told_and_done_without)
{
    check_compiler("/nonexistent/cc");
    check_compiler("no-such-cc-anywhere");
    check_compiler(write_script("failing-cc", "echo 'sorry' >&2; exit 1"));
    check_compiler(write_script("empty-cc", "exit 0"));
    check_compiler(write_script("killed-cc", "kill -SEGV $$"));
    check_compiler(
        write_script("garbage-cc", "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo garbage >\"$2\"; shift; done"));
    check_compiler(test_path("failing-cc.txt"));
    setenv("WEFT_CC_TIMEOUT_MS", "200", 1);
    check_compiler(write_script("sleeping-cc", "exec sleep 100"));
    unsetenv("WEFT_CC_TIMEOUT_MS");
}

// ---- files ----------------------------------------------------------------------------------------------------------

TEST(file_faults_leave_changes_done_or_not_done)
{
    const char *path = fresh_path();
    setenv("WEFT_CACHE", "", 1);                            // its files would be counted, too
    open_db(path);
    run("create table kept (n bigint, word text); insert into kept values (7, 'seven')");
    check_changes(FAULT_FILE);
    CHECK_ANSWER("select * from kept", "7|seven;");
    close_db();
    open_db(path);
    CHECK_ANSWER("select * from kept", "7|seven;");
    close_db();
}

TEST(file_faults_while_opening_and_reading)
{
    const char *path = fresh_path();
    setenv("WEFT_CACHE", "", 1);
    open_db(path);
    make_tables();
    note_answers();
    close_db();
    for (int nth = 1;; nth++) {
        CHECK(nth < FAULTS_MOST);
        fault_set(FAULT_FILE, nth, false);
        weft_status status = weft_open(path, &db, &err);
        bool is_open = status == WEFT_OK;
        if (is_open) {
            CHECK_OK(weft_connect(db, &session, &err), err);
            status = try_run(queries[8]);
        }
        bool was_hit = fault_count(FAULT_FILE) >= nth;
        no_faults();
        if (status)
            CHECK(was_hit && (status == WEFT_IO_ERROR || status == WEFT_UNDEFINED_FILE || status == WEFT_DISK_FULL));
        if (is_open) {
            check_answer(8);
            check_answer(2);
            close_db();
        }
        if (!was_hit)
            break;
    }
    open_db(path);
    for (int i = 0; i < COUNT_OF(queries); i++)
        check_answer(i);
    close_db();
}

// ---- damage ---------------------------------------------------------------------------------------------------------

static const char *chunk_file(const char *path)
{
    static char found[1300];
    DIR *directory = opendir(path);
    found[0] = '\0';
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strstr(entry->d_name, ".chunk"))
            snprintf(found, sizeof(found), "%s/%s", path, entry->d_name);
    closedir(directory);
    CHECK(found[0]);
    return found;
}

static void flip_byte(const char *path, off_t at)
{
    int file = open(path, O_RDWR);
    char byte = 0;
    CHECK(file >= 0 && pread(file, &byte, 1, at) == 1);
    byte ^= 0x10;
    CHECK(pwrite(file, &byte, 1, at) == 1 && close(file) == 0);
}

// Whatever byte is wrong: the right answer where it does not matter, else XX001; and the table can be dropped.
TEST(damage_is_found_by_who_reads_it)
{
    static const struct {
        const char *sql, *answer;
    } checks[] = {
        { "select count(*), sum(a) from d", "3000|4498500;" },
        { "select count(*), sum(c) from d", "3000|2250000;" },
        { "select count(*) from d where b = 'word 7'", "30;" },
        { "select count(*) from kept", "2;" },
    };
    enum { N_CHECKS = COUNT_OF(checks) };
    const char *path = fresh_path();
    Text sql = { 0 };
    bool has_failed[N_CHECKS] = { false }, was_apart = false;
    open_db(path);
    run("create table d (a bigint, b text, c double precision)");
    text_add(&sql, "insert into d values ");
    for (int i = 0; i < 3000; i++)
        text_add(&sql, "%s(%d, 'word %d', %d.5)", i ? ", " : "", i, i % 100, i / 2);
    run(sql.bytes);
    text_free(&sql);
    close_db();
    char chunk[1300];
    snprintf(chunk, sizeof(chunk), "%s", chunk_file(path));
    open_db(path);
    run("create table kept (n bigint); insert into kept values (1), (2)");
    close_db();
    struct stat info;
    CHECK_INT(stat(chunk, &info), 0);
    for (int place = 0; place < 60; place++) {
        off_t at = place < 20 ? place * 7 : info.st_size * (place - 20) / 40;
        flip_byte(chunk, at);
        open_db(path);
        int n_failed = 0;
        for (int i = 0; i < N_CHECKS; i++) {
            weft_status status = try_run(checks[i].sql);
            if (status) {
                CHECK_STR(err.sqlstate, "XX001");
                has_failed[i] = true;
                n_failed++;
            } else {
                CHECK_ANSWER(checks[i].sql, checks[i].answer);
            }
        }
        was_apart |= n_failed == 1;
        close_db();
        flip_byte(chunk, at);
    }
    CHECK(has_failed[0] && has_failed[1] && has_failed[2] && !has_failed[3] && was_apart);
    flip_byte(chunk, info.st_size / 3);
    open_db(path);
    run("drop table d");
    fails(checks[0].sql, WEFT_UNDEFINED_TABLE);
    CHECK_ANSWER(checks[3].sql, checks[3].answer);
    run("create table d (a bigint); insert into d values (5)");
    CHECK_ANSWER("select a from d", "5;");
    close_db();
}

TEST(a_file_that_is_short_or_gone_is_told)
{
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        const char *path = fresh_path();
        open_db(path);
        run("create table d (a bigint); insert into d values (1), (2), (3)");
        close_db();
        const char *chunk = chunk_file(path);
        CHECK_INT(is_gone ? remove(chunk) : truncate(chunk, 100), 0);
        weft_status status = weft_open(path, &db, &err);
        if (status) {                                       // told when it is opened
            CHECK(status == WEFT_CORRUPT || status == WEFT_UNDEFINED_FILE);
            continue;
        }
        CHECK_OK(weft_connect(db, &session, &err), err);
        status = try_run("select sum(a) from d");
        CHECK(status == WEFT_CORRUPT || status == WEFT_UNDEFINED_FILE);
        run("drop table d; create table d (a bigint)");
        CHECK_ANSWER("select count(*) from d", "0;");
        close_db();
    }
}
