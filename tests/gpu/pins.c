// pins.c - columns that pass through a GPU are pinned where they lie: the answers stay, and so does nothing else.
//
// Run by tests/check-gpu with the fake driver, which says what is registered, takes copies as late as it may, and
// complains about memory that is unmapped while it is registered.  Tables are larger than the device's pool, on disk
// (mapped files) and in memory.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

enum { N_ROWS = 480000, CHUNK_ROWS = 120000 };

static const char *const queries[] = {
    "select count(*), sum(a), min(b), max(c) from t where b > 300",
    "select b % 10, count(*), sum(c), count(c) from t group by 1 order by 1",
    "select a, c from t where a % 9973 = 5 order by a",
    "select count(*), sum(a), sum(c), count(c) from t where b = 500 and d = 13",
    "select count(*), sum(a + b), sum(c), max(d) from t where c is not null and d < 50",
};
enum { N_QUERIES = sizeof queries / sizeof *queries };

typedef struct FakeRegistered { size_t bytes, bytes_most, bytes_straight; int n_calls; } FakeRegistered;

static void (*ask_registered)(FakeRegistered *figures);
static void (*fail_at)(const char *call, int nth, int result);
static char  folder[] = "/tmp/weft-pins.XXXXXX", csv[64];
static char *expected[N_QUERIES];

typedef struct Db { weft_db *db; weft_session *session; } Db;

static FakeRegistered registered(void)
{
    FakeRegistered figures;
    ask_registered(&figures);
    return figures;
}

// ---- a database -----------------------------------------------------------------------------------------------------

static Db reopen_db(const char *name)
{
    Db         made;
    weft_error error;
    char       path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name ? name : "");
    if (weft_open(name ? path : NULL, &made.db, &error) || weft_connect(made.db, &made.session, &error)) exit(1);
    must(made.session, "set device = cuda");
    return made;
}

static Db open_db(const char *name)
{
    Db   made = reopen_db(name);
    char sql[60];
    snprintf(sql, sizeof sql, "set chunk_rows = %d", CHUNK_ROWS);
    must(made.session, sql);
    load_csv(made.session, "t", csv);
    return made;
}

static void close_db(Db made)
{
    weft_disconnect(made.session);
    weft_close(made.db);
}

// ---- what is looked at ----------------------------------------------------------------------------------------------

static void check_answers(Db made, const char *scene)
{
    for (int q = 0; q < N_QUERIES; q++) {
        char *got = answer(made.session, queries[q]);
        if (strcmp(got, expected[q]) != 0)
            printf("  %s\n  expected %.200s\n  got      %.200s\n", queries[q], expected[q], got);
        check(strcmp(got, expected[q]) == 0, scene, "an answer");
        free(got);
    }
}

// Pinning goes on in the background: columns come straight when it is done.
static int comes_straight(Db made, const char *table)
{
    char sql[100];
    int  straight = 0;
    snprintf(sql, sizeof sql, "explain analyze select sum(a), sum(b), sum(c) from %s", table);
    for (int i = 0; i < 12000 && !straight; i++) {
        char *text = answer(made.session, sql);
        straight = strstr(text, "(100 % from pinned columns)") != NULL;
        free(text);
        usleep(5000);
    }
    return straight;
}

// Where few rows are left, kernels read the host's memory.
static int reads_in_place(Db made)
{
    char *text = answer(made.session,
                        "explain analyze select count(*), sum(a), sum(c), count(c) from t where b = 500 and d = 13");
    const int in_place = strstr(text, " of columns left in the host's memory") != NULL;
    if (!in_place) puts(text);
    free(text);
    return in_place;
}

static void ask_often(Db made, const char *table, int n)
{
    char sql[100];
    snprintf(sql, sizeof sql, "select sum(a), sum(b), sum(c) from %s", table);
    for (int i = 0; i < n; i++) {
        free(answer(made.session, sql));
        usleep(5000);
    }
}

static const char *notice_of(Db made, const char *sql)
{
    static char  text[400];
    weft_result *result;
    weft_error   error;
    if (weft_query(made.session, sql, &result, &error)) return "";
    const char *notice = weft_result_notice(result, 0);
    snprintf(text, sizeof text, "%s", notice ? notice : "");
    weft_result_free(result);
    return text;
}

// ---- scenes ---------------------------------------------------------------------------------------------------------

static void play(const char *scene, const char *name)
{
    Db made = open_db(name);
    check_answers(made, scene);
    check(comes_straight(made, "t"), scene, "columns come straight from pinned memory");
    const size_t before = registered().bytes_straight;
    check_answers(made, scene);
    check_answers(made, scene);
    check(registered().bytes_straight > before, scene, "copies were made from it");
    check(reads_in_place(made), scene, "kernels read it in place");

    must(made.session, "insert into t values (1, 2, 3, 4)");          // the last chunk is replaced
    must(made.session, "insert into t values (1, 2, 3, 4)");
    check(comes_straight(made, "t"), scene, "after rows were appended, too");
    const size_t all = registered().bytes;
    load_csv(made.session, "u", csv);
    check(comes_straight(made, "u"), scene, "another table is pinned as well");
    check(registered().bytes > all, scene, "beside the first");
    must(made.session, "drop table u");
    check(registered().bytes == all, scene, "what is dropped is unpinned");
    must(made.session, "drop table t");
    check(registered().bytes == 0, scene, "nothing stays pinned");
    load_csv(made.session, "t", csv);
    check(comes_straight(made, "t"), scene, "and again");
    close_db(made);                                                    // the driver complains about what is left
    check(registered().bytes == 0, scene, "closing unpins");
}

static void play_refused(const char *scene, const char *name)
{
    setenv("WEFT_FAKE_CUDA_REGISTER", "none", 1);
    Db        made = open_db(name);
    const int before = registered().n_calls;
    ask_often(made, "t", 6);
    const int calls = registered().n_calls;
    check(calls > before, scene, "it was tried");
    ask_often(made, "t", 6);
    check(registered().n_calls == calls, scene, "and not again once it was refused");
    check_answers(made, scene);
    check(registered().bytes == 0, scene, "nothing is pinned");
    close_db(made);
    unsetenv("WEFT_FAKE_CUDA_REGISTER");
}

static void play_limit(const char *scene)
{
    setenv("WEFT_PINNED_MEMORY", "1500kB", 1);
    Db made = open_db("limit");
    for (int i = 0; i < 3; i++) check_answers(made, scene);           // other columns pass here, too
    ask_often(made, "t", 10);
    const size_t bytes = registered().bytes;
    check(bytes > 0 && bytes <= 1500 << 10, scene, "as much is pinned as may be");
    load_csv(made.session, "u", csv);
    ask_often(made, "u", 3);
    must(made.session, "drop table u");
    check(registered().bytes > 0, scene, "a table that passes a few times does not drive out what is used");
    load_csv(made.session, "u", csv);
    ask_often(made, "u", 30);
    must(made.session, "drop table t");
    check(registered().bytes > 0, scene, "one that passes often does");
    check(registered().bytes <= 1500 << 10, scene, "and takes no more");
    close_db(made);
    setenv("WEFT_PINNED_MEMORY", "0", 1);
    made = open_db("none");
    ask_often(made, "t", 5);
    check(registered().bytes == 0, scene, "none is pinned where none may be");
    close_db(made);
    setenv("WEFT_PINNED_MEMORY", "much", 1);
    made = open_db("misspelt");
    ask_often(made, "t", 5);
    check(registered().bytes > 0, scene, "a limit that is not understood is as if it were not there");
    close_db(made);
    unsetenv("WEFT_PINNED_MEMORY");
}

static void play_faults(const char *scene)
{
    for (int k = 0; k < 4; k++)
        for (int nth = 1; nth <= 6; nth++) {
            char name[40];
            snprintf(name, sizeof name, "fault%d-%d", k, nth);
            Db made = open_db(name);
            fail_at(k < 2 ? "cuMemHostRegister" : "cuMemcpyBatchAsync", nth, k % 2 ? 700 : 2);
            ask_often(made, "t", 4);
            check_answers(made, scene);
            close_db(made);
            fail_at("", 0, 0);
        }
}

// A device that does not say any more whether it is done is lost, but its context is not: all that is pinned is
// unpinned, when its chunk goes and at the end.
static void play_unanswered(const char *scene)
{
    Db made = open_db("unanswered");
    check(comes_straight(made, "t"), scene, "columns are pinned");
    load_csv(made.session, "u", csv);
    check(comes_straight(made, "u"), scene, "of two tables");
    fail_at("cuEventQuery", -1, 1);
    ask_often(made, "t", 1);
    fail_at("", 0, 0);
    check_answers(made, scene);
    check(strstr(notice_of(made, "select sum(a) from t"), "was lost") != NULL, scene, "the device is lost");
    const size_t all = registered().bytes;
    check(all > 0, scene, "what was pinned still is");
    must(made.session, "drop table u");
    check(registered().bytes < all, scene, "what is dropped is unpinned");
    close_db(made);                                                    // the driver complains about what is left
    check(registered().bytes == 0, scene, "closing unpins");
}

// Chunks that go while runs still copy from them: dropped at once by another session.
static void play_dropped(const char *scene)
{
    Db            made = open_db("dropped");
    weft_session *other;
    weft_error    error;
    if (weft_connect(made.db, &other, &error)) exit(1);
    for (int i = 0; i < 10; i++) {
        weft_task   *task;
        weft_result *result = NULL;
        ask_often(made, "t", 3);
        if (weft_submit(made.session, "select sum(a), sum(b), sum(c), sum(d) from t", &task, &error)) exit(1);
        must(other, "drop table t");
        if (i % 2) weft_cancel(made.session);
        const weft_status status = weft_wait(task, &result, &error);
        check(status == WEFT_OK || strcmp(error.sqlstate, "57014") == 0 || strcmp(error.sqlstate, "42P01") == 0, scene,
              "a query ends as it should");
        weft_result_free(result);
        load_csv(made.session, "t", csv);
    }
    check_answers(made, scene);
    weft_disconnect(other);
    close_db(made);
}

// Chunks that are not in memory are asked for before they are wanted.
static void play_cold(const char *scene)
{
    char path[100], file[400];
    close_db(open_db("cold"));
    snprintf(path, sizeof path, "%s/cold.weft", folder);
    DIR *files = opendir(path);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        const int fd = open(file, O_RDONLY);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);      // they were synced
        close(fd);
    }
    if (files) closedir(files);
    Db made = reopen_db("cold");
    check_answers(made, scene);
    close_db(made);
}

int main(void)
{
    void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    *(void **)&ask_registered = fake ? dlsym(fake, "fake_cuda_registered") : NULL;
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (!ask_registered || !fail_at) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (!mkdtemp(folder)) return puts("failed: no folder"), 1;
    snprintf(csv, sizeof csv, "%s/rows.csv", folder);
    write_csv(csv, N_ROWS);
    Db made = open_db(NULL);
    must(made.session, "set device = cpu");
    for (int q = 0; q < N_QUERIES; q++) expected[q] = answer(made.session, queries[q]);
    close_db(made);

    play("a file", "file");
    play("in memory", NULL);
    setenv("WEFT_FAKE_CUDA_REGISTER", "writable", 1);
    play("a file, by a driver that wants to write", "writable");
    unsetenv("WEFT_FAKE_CUDA_REGISTER");
    play_refused("refused, a file", "refused");
    play_refused("refused, in memory", NULL);
    play_limit("a limit");
    play_faults("a fault");
    play_unanswered("unanswered");
    play_dropped("dropped while it passes");
    play_cold("read from disk");

    for (int q = 0; q < N_QUERIES; q++) free(expected[q]);
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) n_failed++, puts("failed: the folder stays");
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
