// kept.c - with weaving off, rows stay on the device between two kernels: in a pool of any size, whatever comes of
// them.
//
//   - with room to spare, no kernel runs twice because too little room was guessed for its rows;
//   - SET device = auto goes on where the rows are, however few are left;
//   - in pools of all sizes answers are those of the CPU; rows that find no room go to the host, and nothing is held
//     afterwards.
//
// Run by tests/check-gpu with the fake driver.

#include <dlfcn.h>
#include <unistd.h>

#include "help.h"

enum { N_COLUMNS = 8, MANY_ROWS = 4300000, SOME_ROWS = 30000, SECONDS_MOST = 60 };

static int (*count)(const char *call);

static weft_db *open_db(const char *pool, weft_session **session)
{
    weft_db   *db;
    weft_error error;
    setenv("WEFT_DEVICE_MEMORY", pool, 1);
    if (weft_open(NULL, &db, &error) || weft_connect(db, session, &error))
        exit((printf("failed: %s\n", error.message), 1));
    must(*session, "set weave = off");
    return db;
}

static void close_db(weft_db *db, weft_session *session)
{
    weft_disconnect(session);
    weft_close(db);
}

// ---- many rows ------------------------------------------------------------------------------------------------------

static void write_wide(const char *path, int n_rows)
{
    FILE *out = fopen(path, "w");
    if (!out) exit((printf("failed: %s cannot be written\n", path), 1));
    for (int i = 0; i < n_rows; i++) {
        for (int c = 0; c < N_COLUMNS; c++) fprintf(out, c ? ",%d" : "%d", (i + c) % 10);
        fputc('\n', out);
    }
    fclose(out);
}

static void load_wide(weft_session *session, const char *table, const char *path, int n_rows)
{
    char sql[300];
    write_wide(path, n_rows);
    snprintf(sql, sizeof sql, "create table %s (c0 integer, c1 integer, c2 integer, c3 integer, c4 integer, c5 integer,"
             " c6 integer, c7 integer)", table);
    must(session, sql);
    snprintf(sql, sizeof sql, "copy %s from '%s' with (format csv)", table, path);
    must(session, sql);
    remove(path);
}

static int launches_of(weft_session *session, const char *table)
{
    char sql[300];
    snprintf(sql, sizeof sql, "select sum(c0 + c1 + c2 + c3), sum(c4 + c5 + c6 + c7) from %s where c0 + c1 >= 0",
             table);
    const int before = count("cuLaunchKernel");
    must(session, sql);
    return count("cuLaunchKernel") - before;
}

// All rows pass, 64 bytes each: more than what every launch gets room for, less than a quarter of the pool.
static void check_room(weft_session *session)
{
    char got[60];
    must(session, "set device = cuda");
    const int few = launches_of(session, "few"), many = launches_of(session, "many");
    snprintf(got, sizeof got, "%d launches for few rows, %d for many", few, many);
    check(few == many && few >= 3, "no kernel runs twice for want of room", got);
}

static void check_auto(weft_session *session)
{
    const char *sql = "explain analyze select sum(c1) from many where c0 * c0 = 81 and c1 < 5";
    char       *text = NULL;
    must(session, "set device = auto");
    for (int i = 0; i < SECONDS_MOST * 20 && (!text || !strstr(text, "filter on cuda:0")); i++) {
        if (text) usleep(50000);
        free(text);
        text = answer(session, sql);
    }
    check(strstr(text, "sink on cuda:0") != NULL, "auto goes on where the rows are", text);
    free(text);
}

static void check_many(void)
{
    char          path[] = "/tmp/weft-kept.XXXXXX";
    weft_session *session;
    const int     file = mkstemp(path);
    if (file < 0 || close(file)) exit((puts("failed: no file"), 1));
    setenv("WEFT_FAKE_CUDA_MEMORY", "1700000000", 1);
    weft_db *db = open_db("1600MB", &session);
    load_wide(session, "few", path, 1000);
    load_wide(session, "many", path, MANY_ROWS);
    check_room(session);
    check_auto(session);
    close_db(db, session);
}

// ---- little room ----------------------------------------------------------------------------------------------------

static const char *const queries[] = {
    ("select k.name, count(*), sum(a), count(c), min(c) from t, k where d % 7 = k.id and b > 3"
     " group by k.name order by 1"),
    "select sum(x.a), count(y.c) from t x, t y, k where x.a = y.a and y.d % 7 = k.id and x.b < 900",
    "select a, c, k.name from t, k where d % 7 = k.id and b % 100 = 3 order by a",
    "select a, c from t where b > 500 and a % 1000 = 0",
    "select k.name, max(c) from t left join k on d % 9 = k.id where c is null or c > 10 group by k.name order by 1",
    "select a, k.name from t, k where d % 7 = k.id and b = 44 limit 3",
};
enum { N_QUERIES = sizeof queries / sizeof *queries };

static void check_given_back(weft_session *session, const char *pool)
{
    char *held = NULL;
    for (int i = 0; i < 1000 && (!held || strcmp(held, "0|") != 0); i++) {
        if (held) usleep(1000);
        free(held);
        held = answer(session, "select bytes_held from weft_devices where device = 'cuda:0'");
    }
    check(strcmp(held, "0|") == 0, pool, held);
    free(held);
}

static void check_pool(const char *pool, char **expected)
{
    weft_session *session;
    weft_db      *db = open_db(pool, &session);
    const int     is_cpu = !expected[0];
    must(session, "set chunk_rows = 4096");
    fill_table(session, "t", SOME_ROWS);
    must(session, "create table k (id integer, name text)");
    must(session, "insert into k values (0, 'a'), (1, 'b'), (2, null), (3, 'd'), (4, 'e'), (6, 'g')");
    must(session, is_cpu ? "set device = cpu" : "set device = cuda");
    for (int q = 0; q < N_QUERIES; q++) {
        char *got = answer(session, queries[q]);
        if (is_cpu) expected[q] = got;
        else check(strcmp(got, expected[q]) == 0, queries[q], got), free(got);
    }
    if (!is_cpu) check_given_back(session, pool);
    close_db(db, session);
}

int main(void)
{
    setenv("WEFT_KEEP_TABLES", "off", 1);                   // what queries hold is counted
    static const char *const pools[] = { "128kB", "192kB", "320kB", "512kB",  "768kB", "1MB",
                                         "1300kB", "1800kB", "2500kB", "4MB", "8MB", "24MB" };
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    char       *expected[N_QUERIES] = { 0 };
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_count") : NULL;
    if (!count) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    setenv("WEFT_FAKE_CUDA_MEMORY", "60000000", 1);
    check_pool("4MB", expected);
    for (size_t p = 0; p < sizeof pools / sizeof *pools; p++) check_pool(pools[p], expected);
    check_many();
    for (int q = 0; q < N_QUERIES; q++) free(expected[q]);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
