// counted.c - what a query asks of the driver, counted: launches, allocations, waits, bytes over the link.
//
// Answers stay right where one of these is lost, and only a GPU would get slower.  So each is a count here:
//
//   - chunks that lie in the device's memory are scanned in one launch, however many they are;
//   - a query allocates nothing from the driver;
//   - the host waits for no kernel before it starts the next one: neither for each chunk nor for each launch;
//   - queries that meet have each column copied once for all of them;
//   - with weaving off, the rows between two kernels stay where they are.
//
// Run by tests/check-gpu with the fake driver.

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include "help.h"

enum {
    N_CHUNKS = 50,
    FEW_CHUNKS = 10,
    MORE_CHUNKS = 60,
    CHUNK_ROWS = 2000,
    STREAMED_CHUNKS = 16,
    STREAMED_ROWS = 120000
};
enum { N_AT_ONCE = 8, TRIES = 100 };

typedef struct Counts { int launches, allocations, waits; size_t bytes, bytes_back; } Counts;

static int (*count)(const char *call);
static size_t (*bytes_to_device)(void), (*bytes_to_host)(void);

static Counts counts_now(void)
{
    return (Counts){ .launches = count("cuLaunchKernel"),
                     .allocations = count("cuMemAlloc") + count("cuMemHostAlloc") + count("cuEventCreate") +
                                    count("cuStreamCreate"),
                     .bytes = bytes_to_device(),
                     .bytes_back = bytes_to_host(),
                     .waits = count("cuStreamSynchronize") + count("cuEventSynchronize") + count("cuCtxSynchronize") };
}

static Counts counts_since(Counts before)
{
    const Counts now = counts_now();
    return (Counts){ now.launches - before.launches, now.allocations - before.allocations, now.waits - before.waits,
                     now.bytes - before.bytes, now.bytes_back - before.bytes_back };
}

static Counts counts_of(weft_session *session, const char *sql)
{
    const Counts before = counts_now();
    must(session, sql);
    return counts_since(before);
}

static void check_counts(int is_right, const char *what, Counts counts)
{
    char got[200];
    snprintf(got, sizeof got, "%d launches, %d allocations, %d waits, %zu bytes to the device, %zu back",
             counts.launches, counts.allocations, counts.waits, counts.bytes, counts.bytes_back);
    check(is_right, what, got);
}

// ---- a database over a pool of its own ------------------------------------------------------------------------------

typedef struct Bench { weft_db *db; weft_session *sessions[N_AT_ONCE]; } Bench;

static void fill(weft_session *session, const char *table, int n_chunks, int chunk_rows)
{
    char folder[] = "/tmp/weft-counted.XXXXXX", rows[64], setting[64];
    if (!mkdtemp(folder)) exit((puts("failed: no temporary folder"), 1));
    snprintf(rows, sizeof rows, "%s/rows.csv", folder);
    snprintf(setting, sizeof setting, "set chunk_rows = %d", chunk_rows);
    write_csv(rows, n_chunks * chunk_rows);
    must(session, setting);
    load_csv(session, table, rows);
    unlink(rows);
    rmdir(folder);
}

static void open_bench(Bench *bench, const char *pool)
{
    weft_error error;
    setenv("WEFT_DEVICE_MEMORY", pool, 1);
    if (weft_open(NULL, &bench->db, &error)) exit((printf("failed: %s\n", error.message), 1));
    for (int i = 0; i < N_AT_ONCE; i++) {
        if (weft_connect(bench->db, &bench->sessions[i], &error)) exit((printf("failed: %s\n", error.message), 1));
        must(bench->sessions[i], "set device = cuda");
    }
}

static void close_bench(Bench *bench)
{
    for (int i = 0; i < N_AT_ONCE; i++) weft_disconnect(bench->sessions[i]);
    weft_close(bench->db);
}

// ---- resident -------------------------------------------------------------------------------------------------------

static const char *const kinds[] = {
    "select sum(a * b), count(c) from t where b between 10 and 900",
    "select d, sum(a), max(c) from t where b < 800 group by d order by d",
    "select name, sum(a) from t, names where d = id and b > 5 group by name order by name",
    "select a, b from t where b = 7 and d < 50 order by a",
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

// From the second run on: code and columns are there.
static void check_resident(weft_session *session)
{
    fill(session, "t", N_CHUNKS, CHUNK_ROWS);
    must(session, "create table names (id integer, name text)");
    must(session, "insert into names values (1, 'one'), (2, 'two'), (30, 'thirty'), (90, 'ninety')");
    const Counts first = counts_of(session, kinds[0]), second = counts_of(session, kinds[0]);
    check_counts(first.bytes > (size_t)N_CHUNKS * CHUNK_ROWS, "the first run brings columns", first);
    check_counts(second.bytes < first.bytes / 4, "the second run finds them", second);
    check_counts(second.launches == 1, "all chunks are scanned in one launch", second);
    for (int k = 0; k < N_KINDS; k++) {
        must(session, kinds[k]);
        const Counts counts = counts_of(session, kinds[k]);
        check_counts(counts.launches > 0 && !counts.allocations, kinds[k], counts);
    }
}

// ---- kernels of their own: rows stay in between ---------------------------------------------------------------------

// Nearly all rows pass all steps, so that one column of a byte, copied once, would be seen.
static const char *const unwoven[] = {
    ("select l.name, sum(a), count(c), min(r.name) from t, names l, names r "
     "where d % 5 = l.id and d % 3 = r.id and b >= 1 group by l.name order by l.name"),
    "select count(*) from t, names l, names r where d % 5 = l.id and d % 3 = r.id and b >= 1",
    "select sum(a) from (select a, b + c as e from t, names l where d % 5 = l.id and b >= 1) s where e > 20",
};
// The order of rows matters: what comes back is the answer, and segments.
static const char in_order[] = "select a, l.name from t, names l where d % 5 = l.id and b >= 1 and a % 500 = 0";
enum { N_UNWOVEN = sizeof unwoven / sizeof *unwoven, N_ROWS = N_CHUNKS * CHUNK_ROWS, LITTLE = N_ROWS / 2 };

static void check_answer(weft_session *session, const char *sql)
{
    char *got, *expected;
    must(session, "set device = cpu");
    expected = answer(session, sql);
    must(session, "set device = cuda");
    n_notices = 0;
    got = answer(session, sql);
    check(strcmp(got, expected) == 0 && !n_notices, sql, got);
    free(got);
    free(expected);
}

// A run that has ended may hold what it read for a moment.
static void check_given_back(weft_session *session)
{
    char *held = NULL;
    for (int i = 0; i < 1000 && (!held || strcmp(held, "0|") != 0); i++) {
        if (held) usleep(1000);
        free(held);
        held = answer(session, "select bytes_held from weft_devices where device = 'cuda:0'");
    }
    check(strcmp(held, "0|") == 0, "all that was held for rows is given back", held);
    free(held);
}

static void check_explained(weft_session *session)
{
    char        sql[QUERY_BYTES + 20];
    snprintf(sql, sizeof sql, "explain analyze %s", unwoven[0]);
    char       *text = answer(session, sql);
    const char *kept = "0 B over the link: its rows were in the memory of cuda:0", *at = text;
    int         n = 0;
    for (; (at = strstr(at, kept)); at++) n++;
    check(n >= 3, "EXPLAIN ANALYZE says that both joins and the sink found their rows on the device", text);
    check(strstr(text, "its rows stay in the memory of cuda:0: ") != NULL, "and that they stayed there", text);
    free(text);
}

static void check_unwoven(weft_session *session)
{
    must(session, "insert into names values (3, 'three'), (4, 'four'), (0, 'none')");
    must(session, "set weave = off");
    for (int k = 0; k < N_UNWOVEN; k++) {
        check_answer(session, unwoven[k]);
        const Counts counts = counts_of(session, unwoven[k]);
        check_counts(counts.launches > 3 && counts.bytes < LITTLE && counts.bytes_back < LITTLE, unwoven[k], counts);
        check_counts(!counts.allocations, "rows that stay take nothing from the driver", counts);
    }
    check_answer(session, in_order);
    const Counts counts = counts_of(session, in_order);
    check_counts(counts.bytes < LITTLE && counts.bytes_back < LITTLE, in_order, counts);
    check_explained(session);
    check_given_back(session);
    must(session, "set weave = on");
}

// The fewest of several runs: on a busy machine the link is waited for now and then.
static Counts fewest_waits(weft_session *session, const char *table, int enough)
{
    char   sql[100];
    Counts fewest = { .waits = INT_MAX };
    snprintf(sql, sizeof sql, "select sum(a + d), max(b) from %s where b >= 3", table);
    must(session, sql);
    for (int i = 0; i < TRIES && fewest.waits > enough; i++) {
        const Counts counts = counts_of(session, sql);
        if (counts.waits < fewest.waits) fewest = counts;
    }
    return fewest;
}

static void check_waits(weft_session *session)
{
    fill(session, "few", FEW_CHUNKS, CHUNK_ROWS);
    fill(session, "more", MORE_CHUNKS, CHUNK_ROWS);
    const Counts few = fewest_waits(session, "few", 0), more = fewest_waits(session, "more", few.waits);
    check_counts(few.launches == 1 && more.launches == 1, "as many launches for more chunks", more);
    check_counts(more.waits <= few.waits, "the host does not wait more often for more chunks", more);
}

// ---- streamed -------------------------------------------------------------------------------------------------------

// Once its columns are pinned, nothing is left to wait for but the room that runs take: 16 runs were seen to wait 0 to
// 3 times.
static void check_streamed(weft_session *session)
{
    const Counts counts = fewest_waits(session, "s", STREAMED_CHUNKS / 4);
    check_counts(counts.bytes > (size_t)STREAMED_CHUNKS * STREAMED_ROWS && counts.launches >= STREAMED_CHUNKS / 2,
                 "the table streams, in many runs", counts);
    check_counts(counts.waits <= STREAMED_CHUNKS / 4, "the host does not wait for each launch", counts);
    check_counts(!counts.allocations, "a query that streams allocates nothing", counts);
}

// Those whose columns are copied for all: seen were 0.8 to 1.2 times the bytes of one.  Queries that come late have
// some of them for themselves.
static Counts meet(Bench *bench, int round)
{
    char         sql[N_AT_ONCE][QUERY_BYTES];
    weft_task   *tasks[N_AT_ONCE];
    const Counts before = counts_now();
    for (int i = 0; i < N_AT_ONCE; i++)
        snprintf(sql[i], sizeof sql[i], "select sum(a + d), max(b) from s where b >= %d", round * N_AT_ONCE + i);
    submit_all(bench->sessions, N_AT_ONCE, sql, tasks);
    for (int i = 0; i < N_AT_ONCE; i++) {
        weft_result *result = NULL;
        weft_error   error;
        const int    status = weft_wait(tasks[i], &result, &error);
        check(!status, sql[i], status ? error.message : "");
        weft_result_free(result);
    }
    return counts_since(before);
}

static void check_met(Bench *bench)
{
    const Counts alone = counts_of(bench->sessions[0], "select sum(a + d), max(b) from s where b >= 3");
    Counts       met = meet(bench, 0);
    for (int round = 1; round < TRIES && met.bytes > 2 * alone.bytes; round++) met = meet(bench, round);
    check_counts(met.bytes <= 2 * alone.bytes, "each column comes once for all who meet", met);
    check_counts(!met.allocations, "queries that meet allocate nothing", met);
}

int main(void)
{
    setenv("WEFT_KEEP_TABLES", "off", 1);                   // what queries hold is counted
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    Bench       bench;
    *(void **)&count = fake ? dlsym(fake, "fake_cuda_count") : NULL;
    *(void **)&bytes_to_device = fake ? dlsym(fake, "fake_cuda_bytes_to_device") : NULL;
    *(void **)&bytes_to_host = fake ? dlsym(fake, "fake_cuda_bytes_to_host") : NULL;
    if (!count || !bytes_to_device || !bytes_to_host)
        return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    setenv("WEFT_FAKE_CUDA_MEMORY", "60000000", 1);
    open_bench(&bench, "24MB");
    check_resident(bench.sessions[0]);
    check_unwoven(bench.sessions[0]);
    check_waits(bench.sessions[0]);
    close_bench(&bench);
    open_bench(&bench, "4MB");
    fill(bench.sessions[0], "s", STREAMED_CHUNKS, STREAMED_ROWS);
    check_streamed(bench.sessions[0]);
    check_met(&bench);
    close_bench(&bench);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
