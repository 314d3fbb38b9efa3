// join_cubed.c - queries of one shape that differ in what they join meet on a GPU as one kernel, and each gets the
// answer that it gets alone on the CPU.
//
// Run by tests/check-gpu with the fake driver; --few with so small a pool that they may not find room; with
// WEFT_ROW_KINDS=on they look at kinds of the dimensions' rows.  A star of four
// dimensions; the shapes are those of SSB, with random constants on the dimensions and accumulators of all kinds.
// Meanwhile rows arrive, queries are cancelled, and calls of the driver fail: then members run by themselves, or on the
// CPU, and are right all the same.

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "help.h"

enum {
    N_ROWS = 20000,
    MORE_ROWS = 150,
    N_SESSIONS = 300,
    ROUND_QUERIES = 24,
    ROUNDS_LEAST = 4,
    ROUNDS_FEW = 3,
    ROUNDS_QUICK = 8,                                      // those after take longer, so that more of them meet
    ROUNDS_MOST = 40,
    RIDES_ENOUGH = 40,
    LAUNCH_MS = 10,
    MANY_ROUNDS = 5,
    SLOW_MS = 30,
    SLOW_LAUNCHES = 30,
    N_CUSTOMERS = 600,
    N_SUPPLIERS = 200,
    N_PARTS = 900,
    N_DAYS = 2000
};

static void (*launch_takes)(int ms);                       // of the fake driver
static void (*fail_call)(const char *call, int nth, int result);
static weft_session *sessions[N_SESSIONS], *onlooker;
static unsigned      x = 12345;
static int           n_rows;

static int draw(int below)
{
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return (int)(x % (unsigned)below);
}

// ---- the data -------------------------------------------------------------------------------------------------------

static void insert_rows(int n)
{
    char *sql = malloc((size_t)n * 90 + 100), *at = sql + sprintf(sql, "insert into f values ");
    for (int i = n_rows; i < n_rows + n; i++) {
        const long long big = 1000000007ll * 1000003 * (i % 2000 - 900);
        at += sprintf(at, "%s(%d,%d,%d,%d,%d,%d,%d,%lld,%d.%d)", i == n_rows ? "" : ",", i * 7 % N_CUSTOMERS,
                      i * 11 % (N_SUPPLIERS + 5), i * 13 % N_PARTS, i * 17 % N_DAYS, i % 11, i * 31 % 50,
                      i * 53 % 7919 - 900, big, i % 1000 - 300, i % 8 * 125);
    }
    load_values(onlooker, sql);
    n_rows += n;
    free(sql);
}

// (id, city, nation, region), as SSB has them: five of each in the next.
static void fill_people(const char *table, int n)
{
    char *sql = malloc((size_t)n * 80 + 100), *at = sql;
    at += sprintf(at, "create table %s (id integer, city text, nation text, region text)", table);
    must(onlooker, sql);
    at = sql + sprintf(sql, "insert into %s values ", table);
    for (int i = 0; i < n; i++) {
        const int city = i * 37 % 125;
        at += sprintf(at, "%s(%d,'city%d','nation%d','region%d')", i ? "," : "", i, city, city % 25, city % 5);
    }
    must(onlooker, sql);
    free(sql);
}

// Some parts have no brand.
static void fill_others(void)
{
    char *sql = malloc(200 << 10), *at = sql + sprintf(sql, "insert into part values ");
    must(onlooker, "create table part (id integer, brand text, category text, size integer)");
    must(onlooker, "create table days (id integer, year integer, month integer)");
    for (int i = 0; i < N_PARTS; i++) {
        at += sprintf(at, "%s(%d,", i ? "," : "", i);
        at += i % 97 == 5 ? sprintf(at, "null") : sprintf(at, "'brand%d'", i * 7 % 100);
        at += sprintf(at, ",'category%d',%d)", i * 7 % 20, i % 13);
    }
    must(onlooker, sql);
    at = sql + sprintf(sql, "insert into days values ");
    for (int i = 0; i < N_DAYS; i++)
        at += sprintf(at, "%s(%d,%d,%d)", i ? "," : "", i, 1992 + i * 7 / N_DAYS, i / 30 % 12 + 1);
    must(onlooker, sql);
    free(sql);
}

static void fill(void)
{
    must(onlooker, "set chunk_rows = 2500");
    must(onlooker, "create table f (c integer, s integer, p integer, d integer, disc integer, qty integer, "
                   "rev integer, big bigint, real double precision)");
    fill_people("customer", N_CUSTOMERS);
    fill_people("supplier", N_SUPPLIERS);
    fill_others();
    insert_rows(N_ROWS);
}

// ---- the shapes -----------------------------------------------------------------------------------------------------

typedef enum ShapeName { FLIGHT_1, FLIGHT_2, FLIGHT_3, FLIGHT_4, EXTREMES, N_SHAPES } ShapeName;

static void make_query(ShapeName shape, char *sql)
{
    const int year = 1992 + draw(7);
    switch (shape) {
        case FLIGHT_1:
            snprintf(sql, QUERY_BYTES,
                     "select sum(rev * disc), count(*) from f, days where d = days.id and year = %d and disc between "
                     "%d and %d and qty < %d",
                     year, draw(5), 5 + draw(6), 10 + draw(30));
            break;
        case FLIGHT_2:
            snprintf(sql, QUERY_BYTES,
                     "select sum(rev), year, brand from f, days, part, supplier where d = days.id and p = part.id and "
                     "s = supplier.id and category = 'category%d' and region = 'region%d' group by year, brand "
                     "order by 2, 3",
                     draw(20), draw(5));
            break;
        case FLIGHT_3:
            snprintf(sql, QUERY_BYTES,
                     "select customer.city, supplier.city, year, sum(big), count(*) from f, customer, supplier, days "
                     "where c = customer.id and s = supplier.id and d = days.id and customer.nation = 'nation%d' and "
                     "supplier.nation = 'nation%d' and year >= %d group by 1, 2, 3 order by 1, 2, 3",
                     draw(25), draw(25), year);
            break;
        case FLIGHT_4:
            snprintf(sql, QUERY_BYTES,
                     "select year, category, sum(rev - qty), avg(rev) from f, customer, supplier, part, days where c = "
                     "customer.id and s = supplier.id and p = part.id and d = days.id and customer.region = 'region%d' "
                     "and supplier.region = 'region%d' and size < %d group by 1, 2 order by 1, 2",
                     draw(5), draw(5), 2 + draw(9));
            break;
        default:
            snprintf(sql, QUERY_BYTES,
                     "select brand, min(big), max(rev), sum(real), count(*) from f, part, days where p = part.id and d "
                     "= days.id and month = %d and size between %d and %d group by brand order by 1",
                     1 + draw(12), draw(6), 6 + draw(6));
    }
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

typedef struct Round { int n; bool is_cancelled, adds_rows, is_slow; const char *fails; int nth; } Round;

static bool is_right(weft_task *task, const char *sql, bool may_be_cancelled)
{
    weft_result *result = NULL;
    weft_error   error;
    char        *got = calloc(1, ANSWER_BYTES), *expected = answer(onlooker, sql);
    const weft_status status = weft_wait(task, &result, &error);
    if (status) snprintf(got, ANSWER_BYTES, "error: %s", error.message);
    else print_result(result, got);
    const bool ok = strcmp(got, expected) == 0 || (may_be_cancelled && status && strcmp(error.sqlstate, "57014") == 0);
    check(ok, sql, got);
    if (!ok) printf("expected %.300s\n", expected);
    free(got);
    free(expected);
    return ok;
}

// Rows that arrive are in no query: their day is not among the days.  Their chunk has columns of the same widths as
// others: queries over columns of several widths are never one body.
static void add_rows(void)
{
    char sql[250];
    snprintf(sql, sizeof sql,
             "insert into f select c, s, p, case when disc < 5 then %d else %d end, disc, qty, rev, big, real from f "
             "limit %d",
             N_DAYS + 1, N_DAYS + 400, MORE_ROWS);
    must(onlooker, sql);
}

static bool saw_riders, saw_network;

// What an onlooker is told of a body while it runs.
static void look_at_bodies(void)
{
    char *riders = answer(onlooker, "select count(*) from weft_riders where table_name = 'f' and woven_as = 'one body' "
                                    "and shared_kernel like 'j_%' and classes > 0 and slots > 0 and cells >= slots "
                                    "and expected_gain > 1");
    char *network = answer(onlooker, "explain (network) select 1");
    saw_riders |= atoi(riders) > 1;
    saw_network |= strstr(network, "one body, ") && strstr(network, "; over joins: ");
    free(riders);
    free(network);
}

static bool are_done(weft_task *const *tasks, int n)
{
    while (n > 0 && weft_is_done(tasks[n - 1])) n--;
    return n == 0;
}

// Launches take longer, so that more queries meet, and are looked at.  On a busy machine it takes a while until a body
// runs: they are looked at until both views have told of one, or all queries have ended.
static void slow_down(weft_task *const *tasks, int n)
{
    for (int t = 0; !are_done(tasks, n); t++) {
        const bool has_seen = saw_riders && saw_network;
        if (t >= SLOW_LAUNCHES && has_seen) return;
        launch_takes(SLOW_MS), usleep(SLOW_MS * 700);
        if (!has_seen) look_at_bodies();
    }
}

static void run_round(ShapeName shape, const Round *round)
{
    static char sql[N_SESSIONS][QUERY_BYTES];
    weft_task  *tasks[N_SESSIONS];
    for (int i = 0; i < round->n; i++) make_query(shape == N_SHAPES ? (ShapeName)(i % N_SHAPES) : shape, sql[i]);
    launch_takes(LAUNCH_MS);                               // they meet behind the first
    if (round->fails) fail_call(round->fails, round->nth, 1);
    for (int i = 0; i < round->n; i++) {
        tasks[i] = begin(sessions[i], sql[i]);
        if (round->adds_rows && i == round->n / 2) add_rows();
    }
    if (round->is_slow) slow_down(tasks, round->n);
    for (int i = 0; round->is_cancelled && i < round->n; i += 5) weft_cancel(sessions[i]);
    for (int i = 0; i < round->n; i++) is_right(tasks[i], sql[i], round->is_cancelled && i % 5 == 0);
    if (round->fails) fail_call("", 0, 0);
}

static long long number_of(const char *sql)
{
    char           *text = answer(onlooker, sql);
    const long long value = atoll(text);
    free(text);
    return value;
}

static long long n_join_cubed(void)
{
    return number_of("select rides_join_cubed from weft_scans where table_name = 'f'");
}

static void check_kinds(void)
{
    const char     *how = getenv("WEFT_ROW_KINDS");
    const long long n = number_of("select kind_columns from weft_devices");
    if (how && strcmp(how, "on") == 0) check(n > 0, "columns of kinds are made", "none was");
    if (how && strcmp(how, "off") == 0) check(n == 0, "no column of kinds is made", "one was");
}

// Many rides while they come soon, some at any rate.
static bool are_few(int round, long long n_rides)
{
    return round < ROUNDS_LEAST || (round < ROUNDS_MOST && n_rides < (round < 2 * ROUNDS_QUICK ? RIDES_ENOUGH : 1));
}

static void run_shape(ShapeName shape)
{
    const long long before = n_join_cubed();
    int             round = 0;
    for (; are_few(round, n_join_cubed() - before); round++)
        run_round(shape, &(Round){ .n = round % 4 == 3 ? 1 + draw(5) : ROUND_QUERIES,
                                   .is_cancelled = round % 5 == 4,
                                   .adds_rows = round % 3 == 2,
                                   .is_slow = round >= ROUNDS_QUICK });
    printf("shape %d, %d rounds: %lld scans were in cubes over joins\n", shape + 1, round, n_join_cubed() - before);
    check(n_join_cubed() > before, "queries of one shape that join are one", "none was");
}

// Each call fails once at some place, in turn.
static void run_faults(void)
{
    static const char *const calls[] = { "cuMemcpyHtoDAsync", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent",
                                         "cuLaunchKernel", "cuMemcpyDtoHAsync", "cuEventCreate" };
    for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++)
        run_round(FLIGHT_2, &(Round){ .n = 12, .fails = calls[c], .nth = 40 + 13 * c });
}

// How many queries a chunk was read for in one kernel, in the mean since BEFORE, which becomes now.
typedef struct Woven { long long once, each; } Woven;

static long long woven_together(Woven *before)
{
    Woven now = { 0 };
    char *text = answer(onlooker, "select chunks_woven, chunks_woven_ridden from weft_scans where table_name = 'f'");
    sscanf(text, "%lld|%lld", &now.once, &now.each);
    const long long once = now.once - before->once, each = now.each - before->each;
    *before = now;
    free(text);
    return once ? each / once : 0;
}

// Equal texts are one pipeline, so there must be more than 64 different ones.  Each launch takes so long that all
// others are there when the next run begins.
static void run_many(void)
{
    long long most = 0;
    Woven     before = { 0 };
    woven_together(&before);
    for (int round = 0; round < MANY_ROUNDS && (most <= 64 || !saw_riders || !saw_network); round++) {
        run_round(FLIGHT_3, &(Round){ .n = N_SESSIONS, .is_slow = true });
        const long long n = woven_together(&before);
        most = n > most ? n : most;
    }
    printf("of %d queries at once, %lld were together\n", N_SESSIONS, most);
    check(most > 64, "more than 64 are in a cube over joins", "they were not");
    check(saw_riders, "weft_riders tells what a body keeps apart", "never");
    check(saw_network, "EXPLAIN (NETWORK) does", "never");
    run_round(N_SHAPES, &(Round){ .n = 60, .is_cancelled = true, .adds_rows = true });
    run_faults();
}

int main(int argc, char **argv)
{
    weft_db    *db;
    weft_error  error;
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    *(void **)&launch_takes = fake ? dlsym(fake, "fake_cuda_launch_takes") : NULL;
    *(void **)&fail_call = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (!launch_takes || !fail_call) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set weave_queries = off");
    fill();
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    const bool is_few = argc > 1 && strcmp(argv[1], "--few") == 0;
    for (int round = 0; is_few && round < ROUNDS_FEW; round++)
        run_round(N_SHAPES, &(Round){ .n = 2 * ROUND_QUERIES, .is_cancelled = round == 1, .adds_rows = round == 2 });
    for (ShapeName shape = 0; shape < N_SHAPES && !is_few; shape++) run_shape(shape);
    if (!is_few) run_many();
    if (!is_few) check_kinds();
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
