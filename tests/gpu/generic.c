// generic.c - the generic kernel of a GPU: what it serves has the answers of the CPU, nobody waits for a compiler where
// it can serve, and people are told.
//
// Run by tests/check-gpu with the fake driver, and by scripts/gpu-test on a GPU (--card: whose compiler takes the time
// that it takes).  With a folder, a database of SSB: ad-hoc queries of bench/concurrency over it, all of which it must
// serve; --times: their kernel times, by the generic kernel and by their own.

#include <dlfcn.h>
#include <time.h>

#include "help.h"

// Two of its functions have the names of others in help.h.
#define must      bench_must
#define check_all bench_check_all
#include "../../bench/concurrency/draw.c"
#include "../../bench/concurrency/strangers.c"
#undef must
#undef check_all

typedef void Takes(int ms);

static Takes *takes;                   // of the fake; NULL: it is a GPU
static bool   is_card;

enum { N_ROWS = 20000, N_RANDOM_QUERIES = 400, SLOW_MS = 60000 };

static double clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static long n_served(weft_session *session)
{
    char *text = answer(session, "select sum(generic) from weft_devices");
    long  n = atol(text);
    free(text);
    return n;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static void insert_rows(weft_session *session, uint64_t *state)
{
    static char sql[1 << 18];
    for (int row = 0; row < N_ROWS;) {
        size_t length = (size_t)snprintf(sql, sizeof sql, "insert into t values ");
        for (int i = 0; i < 1000; i++, row++) {
            char b[24] = "null", d[24] = "null", s[24] = "null";
            if (draw_between(state, 0, 9)) snprintf(b, sizeof b, "%d", draw_between(state, -500, 500));
            if (draw_between(state, 0, 4)) snprintf(d, sizeof d, "%d.5", draw_between(state, -9000, 9000));
            if (draw_between(state, 0, 6)) snprintf(s, sizeof s, "'text %d'", draw_between(state, 0, 40));
            length += (size_t)snprintf(sql + length, sizeof sql - length, "%s(%d, %s, %d, %s, %s, %d.%02d, %d)",
                                       i ? "," : "", draw_between(state, 1, 60), b, draw_between(state, 0, 90000), d, s,
                                       draw_between(state, -50, 50), draw_between(state, 0, 99),
                                       draw_between(state, 0, 3000));
        }
        must(session, sql);
    }
}

static void make_tables(weft_session *session)
{
    uint64_t state = 7;
    must(session, "create table t (a integer not null, b integer, c bigint not null, d double precision, s text,"
                  " n decimal(9,2), k integer not null)");
    must(session, "create table u (k integer not null, w integer, name text)");
    must(session, "create table far (k bigint not null, z integer)");
    insert_rows(session, &state);
    must(session, "insert into u select k, min(a), min(s) from t where k % 3 <> 1 group by k");
    must(session, "insert into far select c * 100000000, min(b) from t where c % 7 = 2 group by c");
}

// ---- queries with the answers of the CPU ----------------------------------------------------------------------------

typedef struct Desk { weft_db *db; weft_session *cpu, *gpu; } Desk;

static Desk open_desk(const char *path)
{
    Desk       desk;
    weft_error error;
    if (weft_open(path, &desk.db, &error)) exit((printf("failed: %s\n", error.message), 1));
    desk.cpu = connect_alone(desk.db, "cpu");
    desk.gpu = connect_alone(desk.db, "cuda");
    must(desk.gpu, "set gpu_generic = always");
    return desk;
}

static void close_desk(Desk *desk)
{
    weft_disconnect(desk->cpu);
    weft_disconnect(desk->gpu);
    weft_close(desk->db);
}

static void check_same(const Desk *desk, const char *sql)
{
    char *expected = answer(desk->cpu, sql), *got = answer(desk->gpu, sql);
    check(!strcmp(expected, got), sql, got);
    free(expected);
    free(got);
}

static const char *const SERVED[] = {
    "select count(*), sum(a), min(b), max(b), avg(c), count(b) from t",
    "select sum(d), min(d), max(d), count(d) from t where a < 30",
    "select a, count(*), sum(b), min(c), max(d), sum(n) from t group by a order by a",
    "select s, count(*), sum(c) from t where s in ('text 3', 'text 7', 'text 9') group by s order by s",
    "select s, count(*) from t where s like '%1%' group by s order by s",
    "select c, count(*), sum(b) from t group by c order by c limit 50",
    "select sum(case when b > 0 then c when b is null then -1 else a end) from t",
    "select sum(coalesce(b, a) * 3), min(a - c), max(n * a) from t where b is not null or a = 7",
    "select a % 7, sum(b / a), count(*) from t where a between 5 and 50 group by 1 order by 1",
    "select u.w, count(*), sum(t.c) from t, u where t.k = u.k and u.w < 20 group by u.w order by 1",
    "select count(*), sum(z) from t, far where t.c * 100000000 = far.k",
    "select a, b, c, d, s from t where c % 100 = 3 order by a, b, c, d, s limit 200",
    "select count(*) from t where a not in (1, 2, 3) and not (b > 10 and c < 50000)",
    "select count(*), sum(w) from t left join u on t.k = u.k",
    "select count(*) from t where exists (select 1 from u where u.k = t.k and u.w > 5)",
};

// Not by the generic kernel: several matches, several key words, functions.
static const char *const OTHERS[] = {
    "select count(*) from t a, t b where a.k = b.k and a.c < 3000",
    "select a, d, count(*) from t group by a, d order by a, d limit 20",
    "select sum(sqrt(c)) from t",
};

static void test_answers(const Desk *desk)
{
    for (size_t i = 0; i < COUNT(SERVED); i++) {
        const long before = n_served(desk->cpu);
        check_same(desk, SERVED[i]);
        check(n_served(desk->cpu) > before, "it is served by the generic kernel", SERVED[i]);
    }
    for (size_t i = 0; i < COUNT(OTHERS); i++) check_same(desk, OTHERS[i]);
    const long before = n_served(desk->cpu);
    must(desk->gpu, "set gpu_generic = off");
    check_same(desk, SERVED[0]);
    check(n_served(desk->cpu) == before, "switched off, it serves nothing", "");
    must(desk->gpu, "set gpu_generic = always");
}

// What fails in a row fails there, too, and only in rows that come so far.
static void test_errors(const Desk *desk)
{
    check_same(desk, "select sum(a / (a - 7)) from t");
    check_same(desk, "select sum(case when a <> 7 then c / (a - 7) else 0 end) from t");
    check_same(desk, "select sum(c * 9223372036854775) from t where a = 3");
    check_same(desk, "select max((c * 30000)::integer) from t");
}

// ---- random shapes --------------------------------------------------------------------------------------------------

static const char *draw_of(const char *const *list, int n, uint64_t *state)
{
    return list[draw_between(state, 0, n - 1)];
}

static void put_value(FILE *out, int depth, uint64_t *state)
{
    static const char *const columns[] = { "a", "b", "c", "k", "3", "-11", "1000" };
    const int kind = depth > 2 ? 0 : draw_between(state, 0, 9);
    if (kind < 5) {
        fputs(draw_of(columns, COUNT(columns), state), out);
        return;
    }
    fputs(kind == 8 ? "coalesce(" : kind == 9 ? "case when " : "(", out);
    put_value(out, depth + 1, state);
    fprintf(out, "%s", kind == 8 ? ", " : kind == 9 ? " > 40 then " : draw_between(state, 0, 1) ? " + " : " - ");
    put_value(out, depth + 1, state);
    if (kind == 9) fputs(" else ", out), put_value(out, depth + 1, state);
    fputs(kind == 9 ? " end" : ")", out);
}

static void put_condition(FILE *out, int depth, uint64_t *state)
{
    static const char *const tests[] = { "a <= 40", "b between -200 and 150", "b is null", "c in (5, 70, 4000)",
                                         "s = 'text 4'", "s like 'text 1%'", "d > 100", "n < 12.5", "k % 5 = 2" };
    const int kind = depth > 2 ? 0 : draw_between(state, 0, 6);
    if (kind < 3) {
        fputs(draw_of(tests, COUNT(tests), state), out);
    } else if (kind < 5) {
        fputs("(", out);
        put_condition(out, depth + 1, state);
        fputs(kind == 3 ? " or " : " and ", out);
        put_condition(out, depth + 1, state);
        fputs(")", out);
    } else if (kind == 5) {
        fputs("not (", out);
        put_condition(out, depth + 1, state);
        fputs(")", out);
    } else {
        put_value(out, depth + 1, state);
        fputs(draw_between(state, 0, 1) ? " < " : " <> ", out);
        put_value(out, depth + 1, state);
    }
}

static char *draw_random(uint64_t *state)
{
    static const char *const keys[] = { "a", "s", "b % 10", "c", "w", "k / 100" };
    static const char *const sums[] = { "sum", "min", "max" };
    char       *sql = NULL;
    size_t      length;
    FILE       *out = open_memstream(&sql, &length);
    const int   how = draw_between(state, 0, 3);
    const char *key = draw_of(keys, COUNT(keys), state);
    const bool  joins = how == 3 || *key == 'w';
    fprintf(out, "select %s%s", how ? key : "", how ? ", " : "");
    for (int i = draw_between(state, 1, 3); i > 0; i--) {
        fprintf(out, "%s(", draw_of(sums, COUNT(sums), state));
        put_value(out, 0, state);
        fputs("), ", out);
    }
    fprintf(out, "count(*) from (select t.*%s from t%s) as v where ", joins ? ", u.w" : ", a as w",
            joins ? " join u on t.k = u.k" : "");
    put_condition(out, 0, state);
    if (how) fprintf(out, " group by %s order by 1, 2, 3", key);
    fclose(out);
    return sql;
}

static void test_random(const Desk *desk)
{
    uint64_t state = 20;
    int      n = 0;
    for (int i = 0; i < N_RANDOM_QUERIES / (is_card ? 4 : 1); i++) {
        char      *sql = draw_random(&state);
        const long before = n_served(desk->cpu);
        check_same(desk, sql);
        n += n_served(desk->cpu) > before;
        free(sql);
    }
    char seen[60];
    snprintf(seen, sizeof seen, "%d", n);
    check(n > N_RANDOM_QUERIES / (is_card ? 4 : 1) * 3 / 4, "it serves most random shapes", seen);
}

// ---- nobody waits ---------------------------------------------------------------------------------------------------

// Shapes that never came before: the number of terms is part of each.
static const char *new_shape(bool is_explained)
{
    static char sql[2000];
    static int  n_terms;
    const char *explain = is_explained ? "explain analyze " : "";
    size_t      length = (size_t)snprintf(sql, sizeof sql, "%sselect count(*), sum(a", explain);
    n_terms++;
    for (int i = 0; i < n_terms; i++)
        length += (size_t)snprintf(sql + length, sizeof sql - length, i % 3 ? " - k" : " + a");
    snprintf(sql + length, sizeof sql - length, ") from t where a >= 0");
    return sql;
}

static void test_nobody_waits(const Desk *desk)
{
    const double start = clock_ms();
    char        *text;
    must(desk->gpu, "set gpu_generic = auto");
    must(desk->gpu, "set gpu_wait = off");
    must(desk->gpu, "set threads = 1");                    // more cores would be quicker than so small a GPU
    text = answer(desk->gpu, new_shape(true));             // it is there: the tests before wanted it
    check(strstr(text, "woven on cuda:0") && strstr(text, "by the generic kernel"), "EXPLAIN ANALYZE says so", text);
    free(text);
    if (takes) takes(SLOW_MS);
    const long   before = n_served(desk->cpu);
    const double began = clock_ms();
    text = answer(desk->gpu, new_shape(false));
    check(n_served(desk->cpu) == before + 1, "a new shape is served by it", text);
    if (takes) check(clock_ms() - began < SLOW_MS, "and waits for no compiler", text);
    free(text);
    if (takes) takes(0);
    char again[2000];
    snprintf(again, sizeof again, "%s", new_shape(true));
    do {
        text = answer(desk->gpu, again);
        const bool is_own = strstr(text, "woven on cuda:0") && !strstr(text, "generic");
        free(text);
        if (is_own) break;
        usleep(20000);
    } while (clock_ms() - start < 60000);
    check(clock_ms() - start < 60000, "its own kernel serves it once that is compiled", again);
    must(desk->gpu, "set gpu_wait = on");
    must(desk->gpu, "set gpu_generic = always");
}

// ---- ad-hoc queries over SSB ----------------------------------------------------------------------------------------

// Every kernel that the device ran was the generic one.
static bool is_all_generic(const char *text)
{
    for (const char *line = text; (line = strstr(line, " on cuda:0: rows in")); line++) {
        const size_t length = strcspn(line, "\n|");
        const char  *generic = strstr(line, "by the generic kernel");
        if (!generic || generic > line + length) return false;
    }
    return strstr(text, " on cuda:0: rows in") != NULL;
}

static void test_strangers(const char *path, int n)
{
    Desk   desk = open_desk(path);
    char **queries = draw_strangers(n, 5);
    for (int i = 0; i < n; i++) {
        char  explain[3000];
        check_same(&desk, queries[i]);
        snprintf(explain, sizeof explain, "explain analyze %s", queries[i]);
        char *text = answer(desk.gpu, explain);
        check(is_all_generic(text), queries[i], text);
        free(text);
        free(queries[i]);
    }
    free(queries);
    close_desk(&desk);
}

// ---- times ----------------------------------------------------------------------------------------------------------

// Of the kernels of a query, by the device's clock: the least of three.
static double kernel_ms(weft_session *session, const char *sql)
{
    double best = 1e9;
    char   explain[3000];
    snprintf(explain, sizeof explain, "explain analyze %s", sql);
    for (int i = 0; i < 3; i++) {
        char  *text = answer(session, explain);
        double sum = 0;
        for (const char *at = text; (at = strstr(at, "|    kernels ")); at++) sum += atof(at + 13);
        if (sum < best) best = sum;
        free(text);
    }
    return best;
}

static void print_times(const char *path, int n)
{
    Desk   desk = open_desk(path);
    char **queries = draw_strangers(n, 9);
    double generic_sum = 0, own_sum = 0;
    for (int i = 0; i < n; i++) {
        must(desk.gpu, "set gpu_generic = always");
        const double generic = kernel_ms(desk.gpu, queries[i]);
        must(desk.gpu, "set gpu_generic = off");
        const double own = kernel_ms(desk.gpu, queries[i]);
        printf("generic %7.2f ms, own %7.2f ms\n", generic, own);
        generic_sum += generic, own_sum += own;
        free(queries[i]);
    }
    printf("generic %7.2f ms, own %7.2f ms in the mean of %d\n", generic_sum / n, own_sum / n, n);
    check(own_sum > 0, "kernels are timed", "they are not");
    free(queries);
    close_desk(&desk);
}

int main(int n_args, char **args)
{
    const char *path = NULL;
    bool        has_times = false;
    setenv("WEFT_GPU_WAIT", "on", 1);
    for (int i = 1; i < n_args; i++)
        if (!strcmp(args[i], "--card")) is_card = true;
        else if (!strcmp(args[i], "--times")) has_times = true;
        else path = args[i];
    if (!is_card) {
        void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
        takes = fake ? (Takes *)(uintptr_t)dlsym(fake, "fake_nvrtc_takes") : NULL;
        if (!takes) exit((printf("failed: no fake driver\n"), 1));
    }
    if (path && has_times) {
        print_times(path, 20);
    } else if (path) {
        test_strangers(path, is_card ? 200 : 100);
    } else {
        Desk desk = open_desk(NULL);
        make_tables(desk.cpu);
        test_answers(&desk);
        test_errors(&desk);
        test_random(&desk);
        test_nobody_waits(&desk);
        close_desk(&desk);
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed > 0;
}
