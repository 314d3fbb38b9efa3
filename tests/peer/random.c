// random.c - thousands of random queries over random tables, answered by Weft and by SQLite.
//
//     random [--seed S] [--first N] [--count N] [--seconds N] [--keep-going] [--verbose]
//     random --seed S --first N --dump                 the tables and the query, as SQL for Weft's shell
//     random --postgres CONNINFO ..                    PostgreSQL's answers, not SQLite's; empties the database
//     random --memory SIZE ..                          memory_limit of the queries, as 1 (byte): all of them spill
//     random --generator CONNINFO ..                   PostgreSQL instead of Weft: checks the generator
//
// Each query runs woven and unwoven (SET weave = on | off), so the two ways Weft has of running a query are compared
// with each other too.  Query N depends on the seed and on N alone: "--seed S --first N --count 1" runs it again.  A
// query that fails is cut down before it is shown: conditions, columns, tables and parts of expressions go as long as
// it fails the same way.  "Not supported" (0A000), "out of memory" (53200), "too many tables" (54001) and queries
// cancelled after some seconds (--seconds, 5 otherwise) are counted apart, and too many of them are a failure.

#define _GNU_SOURCE
#include "random.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum { QUERIES_PER_DATA_SET = 100 };

#define MOST_STEPS       1000000                                 // of SQLite per query: some 30 ms
#define MOST_ROWS        20000
#define MOST_UNSUPPORTED 2                                       // percent of the queries
#define MOST_TOO_LARGE   2                                       // percent that need more than this:
#define MEMORY_LIMIT     "1GB"
#define TEMP_LIMIT       "1GB"                                   // of temporary files
#define SECONDS_LIMIT    5                                       // then the query is cancelled, unless told otherwise
#define MOST_FAILURES    10                                      // then stop, unless told otherwise
#define MOST_TRIES       1000                                    // to make a failing query smaller
#define SECONDS_HANGING  60                                      // more, when it does not even end then

typedef struct Options {
    uint64_t seed, first, count;
    int      seconds;                                             // for one query
    bool     keep_going, verbose, dump;
    const char *postgres;                                         // a server that takes SQLite's place, or NULL
    const char *generator;                                        // or Weft's
    const char *memory;                                           // memory_limit once the tables are there; NULL: as is
} Options;

typedef struct Counts {
    int    passed, failed, unsupported;
    int    skipped;                                               // SQLite gave up on them, or misread them
    int    too_large;                                             // Weft ran out of memory or time on them
    double weft_ms, slowest_ms;                                   // time in Weft: of all, and of the slowest query
    uint64_t slowest;
} Counts;

typedef struct Reasons {                                          // messages of 0A000 and how often each came
    char text[32][200];
    int  count[32];
    int  n;
} Reasons;

typedef struct Test {
    Options  options;
    Peer    *weft, *other;                                        // SQLite, or what the options put in their places
    int      weft_dialect, other_dialect;
    DataSet  data;
    bool     has_data;
    char     folder[256];                                         // for files to COPY from, and databases on disk
    Counts   counts;
    Reasons  reasons;
    char     weave[8], jit[8];                                    // as set in the session now
    char    *asked;                                               // the other's last query and its answer: each query
    Rows     answer;                                              // is run with several settings of Weft
    bool     answer_ok;
} Test;

typedef enum Outcome { SAME, DIFFERENT, FAILED, UNSUPPORTED, SKIPPED, TOO_LARGE } Outcome;

typedef struct Verdict {
    Outcome outcome;
    char    sqlstate[6];
    char   *difference;                                           // to be freed
    Rows    ours;                                                 // theirs is Test.answer
    double  time_ms;                                              // that Weft took
} Verdict;

// ---- when Weft crashes or hangs, say on what ----------------------------------------------------------------------

static char running[4096] = "starting\n";                         // read by the signal handler

static const int FATAL[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
static struct sigaction fatal_before[COUNT_OF(FATAL)];            // a sanitizer's handlers, when there is one

static void say_running(const char *what)
{
    if (write(2, what, strlen(what)) < 0 || write(2, running, strlen(running)) < 0)
        _exit(2);
}

// Called by AddressSanitizer, when it is linked in, before its report.
void __asan_on_error(void) __attribute__((visibility("default")));
void __asan_on_error(void)
{
    say_running("\nFAIL: memory error while running:\n");
}

static void on_fatal(int number)
{
    say_running("\nFAIL: crashed while running:\n");
    for (int i = 0; i < COUNT_OF(FATAL); i++)
        sigaction(FATAL[i], &fatal_before[i], NULL);
    if (number == SIGABRT)
        raise(number);                                            // the others happen again on return
}

static void on_alarm(int number)
{
    (void)number;
    say_running("\nFAIL: no answer after a minute:\n");
    _exit(1);
}

static void catch_signals(void)
{
    for (int i = 0; i < COUNT_OF(FATAL); i++)
        sigaction(FATAL[i], &(struct sigaction){ .sa_handler = on_fatal }, &fatal_before[i]);
    signal(SIGALRM, on_alarm);
}

// ---- cancelling what takes too long ------------------------------------------------------------------------------

// SQLite looks first at conditions without columns and at LIMIT 0, and then skips a join that Weft computes.
static struct Watchdog {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    Peer           *running;                                      // NULL: nothing to watch
    struct timespec deadline;
    int             seconds;
} watchdog = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *watch(void *context)
{
    (void)context;
    pthread_mutex_lock(&watchdog.lock);
    for (;;) {
        if (!watchdog.running) {
            pthread_cond_wait(&watchdog.changed, &watchdog.lock);
        } else if (pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &watchdog.deadline) == ETIMEDOUT &&
                   watchdog.running) {
            peer_cancel(watchdog.running);
            watchdog.running = NULL;
        }
    }
    return NULL;
}

static void watch_peer(Peer *peer)
{
    pthread_mutex_lock(&watchdog.lock);
    watchdog.running = peer;
    clock_gettime(CLOCK_REALTIME, &watchdog.deadline);
    watchdog.deadline.tv_sec += watchdog.seconds;
    pthread_cond_signal(&watchdog.changed);
    pthread_mutex_unlock(&watchdog.lock);
}

// ---- data ---------------------------------------------------------------------------------------------------------

static void must(Peer *peer, bool ok, const char *sql)
{
    if (ok)
        return;
    printf("FAIL: %s cannot set up the tables: %s\n  %.400s\n", peer->name, peer->error, sql);
    exit(1);
}

static void run_setup(Peer *peer, char *sql)
{
    must(peer, peer_run(peer, sql, NULL), sql);
    free(sql);
}

static void insert_rows(Test *test, Peer *peer, int table, int dialect)
{
    enum { ROWS_PER_INSERT = 150 };
    int n_rows = test->data.tables[table].n_rows;
    for (int row = 0; row < n_rows; row += ROWS_PER_INSERT)
        run_setup(peer, data_insert_sql(&test->data, table, row, MIN_OF(ROWS_PER_INSERT, n_rows - row), dialect));
}

static void copy_rows(Test *test, int table)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.csv", test->folder, test->data.tables[table].name);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        exit(1);
    }
    data_write_csv(&test->data, table, out);
    fclose(out);
    char *sql;
    if (asprintf(&sql, "copy %s from '%s' (format csv)", test->data.tables[table].name, path) < 0)
        abort();
    run_setup(test->weft, sql);
    unlink(path);
}

static Peer *open_postgres(const char *conninfo)
{
    char error[PEER_ERROR_BYTES] = "";
    Peer *peer = peer_open_postgres(conninfo, error);
    if (!peer) {
        printf("FAIL: cannot open a database: %s\n", error);
        exit(1);
    }
    must(peer, peer_run(peer, "drop schema public cascade; create schema public", NULL), "drop schema");
    return peer;
}

static void open_weft(Test *test, Rng *rng)
{
    char path[512], error[PEER_ERROR_BYTES] = "";
    bool is_on_disk = rng_chance(rng, 30);
    snprintf(path, sizeof path, "%s/db%" PRIu64 ".weft", test->folder, test->data.number);
    test->weft = peer_open_weft(is_on_disk ? path : NULL, error);
    if (!test->weft) {
        printf("FAIL: cannot open a database: %s\n", error);
        exit(1);
    }
    int n_threads = rng_between(rng, 1, 4);
    must(test->weft, peer_runf(test->weft, "set threads = %d", n_threads), "set threads");
    must(test->weft, peer_run(test->weft, "set memory_limit = '" MEMORY_LIMIT "'", NULL), "set memory_limit");
    must(test->weft, peer_run(test->weft, "set temp_limit = '" TEMP_LIMIT "'", NULL), "set temp_limit");
    test->weave[0] = test->jit[0] = 0;
}

static void close_data(Test *test)
{
    peer_close(test->weft);
    peer_close(test->other);
    test->weft = test->other = NULL;
    rows_free(&test->answer);
    free(test->asked);
    test->asked = NULL;
}

static void open_other(Test *test)
{
    char error[PEER_ERROR_BYTES] = "";
    test->other_dialect = test->options.postgres ? IN_POSTGRES : IN_SQLITE;
    test->other = test->options.postgres ? open_postgres(test->options.postgres) : peer_open_sqlite(NULL, error);
}

// Small chunks, so that even these tables have several.
static void choose_chunk_rows(Test *test, Rng *rng)
{
    static const int SIZES[] = { 64, 256, 1000, 4096, 1 << 20 };
    int n_rows = SIZES[rng_below(rng, COUNT_OF(SIZES))];
    must(test->weft, peer_runf(test->weft, "set chunk_rows = %d", n_rows), "set chunk_rows");
}

static void open_ours(Test *test, Rng *rng)
{
    if (test->options.generator) {
        test->weft_dialect = IN_POSTGRES;
        test->weft = open_postgres(test->options.generator);
        return;
    }
    open_weft(test, rng);
    choose_chunk_rows(test, rng);
}

static void open_data(Test *test, uint64_t number)
{
    close_data(test);
    data_draw(&test->data, test->options.seed, number);
    test->has_data = true;
    Rng rng = rng_from(test->options.seed, 3, number);
    open_ours(test, &rng);
    open_other(test);
    for (int t = 0; t < test->data.n_tables; t++) {
        run_setup(test->weft, data_create_sql(&test->data, t, test->weft_dialect));
        run_setup(test->other, data_create_sql(&test->data, t, test->other_dialect));
        insert_rows(test, test->other, t, test->other_dialect);
        if (rng_chance(&rng, 50) && test->weft_dialect == IN_WEFT)
            copy_rows(test, t);
        else
            insert_rows(test, test->weft, t, test->weft_dialect);
    }
    if (test->options.memory && test->weft_dialect == IN_WEFT)
        must(test->weft, peer_runf(test->weft, "set memory_limit = '%s'", test->options.memory), "set memory_limit");
    if (test->other_dialect == IN_SQLITE)
        peer_sqlite_limit(test->other, MOST_STEPS);
}

static void dump(Test *test, const char *sql)
{
    for (int t = 0; t < test->data.n_tables; t++) {
        char *create = data_create_sql(&test->data, t, IN_WEFT);
        printf("%s;\n", create);
        free(create);
        for (int row = 0; row < test->data.tables[t].n_rows; row++) {
            char *insert = data_insert_sql(&test->data, t, row, 1, IN_WEFT);
            printf("%s;\n", insert);
            free(insert);
        }
    }
    printf("%s;\n", sql);
}

// ---- one query ----------------------------------------------------------------------------------------------------

// "-0.50" with scale 2 becomes "-50": what SQLite holds.
static void scale_cell(char *cell, int scale)
{
    char digits[128];
    int n = 0, n_after = -1;
    for (const char *c = cell; *c && n < (int)sizeof digits - 20; c++) {
        if (*c == '.')
            n_after = 0;
        else if (*c >= '0' && *c <= '9') {
            digits[n++] = *c;
            n_after += n_after >= 0;
        }
    }
    for (int i = n_after < 0 ? 0 : n_after; i < scale; i++)
        digits[n++] = '0';
    for (int i = n_after; i > scale && n > 0 && digits[n - 1] == '0'; i--)
        n--;
    digits[n] = 0;
    const char *first = digits;
    while (first[0] == '0' && first[1])
        first++;
    bool is_negative = cell[0] == '-' && strcmp(first, "0") != 0;
    sprintf(cell, "%s%s", is_negative ? "-" : "", first);          // never longer than the room rows are given below
}

// Weft's and PostgreSQL's answers in SQLite's terms: booleans as 0 and 1, decimals scaled.
static void translate(const RandomQuery *query, Rows *rows)
{
    for (size_t r = 0; r < rows->n_rows; r++) {
        for (int c = 0; c < rows->n_columns && c < query->n_items; c++) {
            char **cell = &rows->cells[r * (size_t)rows->n_columns + (size_t)c];
            if (!*cell)
                continue;
            if (query->items[c]->kind == KIND_BOOLEAN)
                (*cell)[0] = !strcmp(*cell, "t") ? '1' : !strcmp(*cell, "f") ? '0' : '?';
            if (query->items[c]->kind == KIND_DECIMAL) {
                *cell = realloc(*cell, 160);
                scale_cell(*cell, query->items[c]->scale);
            }
        }
    }
}

static void apply_settings(Test *test, const char *weave, const char *jit)
{
    if (test->options.generator)
        return;
    if (strcmp(test->weave, weave))
        must(test->weft, peer_runf(test->weft, "set weave = %s", weave), "set weave");
    if (strcmp(test->jit, jit))
        must(test->weft, peer_runf(test->weft, "set jit = %s", jit), "set jit");
    snprintf(test->weave, sizeof test->weave, "%s", weave);
    snprintf(test->jit, sizeof test->jit, "%s", jit);
}

static void compare(const Test *test, const RandomQuery *query, Verdict *verdict)
{
    bool is_float[MAX_ITEMS];
    for (int i = 0; i < query->n_items; i++)
        is_float[i] = query->items[i]->kind == KIND_DOUBLE;
    translate(query, &verdict->ours);
    verdict->difference = rows_difference(&verdict->ours, &test->answer, is_float, query->order, query->n_order);
    verdict->outcome = verdict->difference ? DIFFERENT : SAME;
}

// Takes over SQL.
static void ask_other(Test *test, const RandomQuery *query, char *sql)
{
    if (test->asked && !strcmp(test->asked, sql)) {
        free(sql);
        return;
    }
    free(test->asked);
    rows_free(&test->answer);
    test->asked = sql;
    test->answer_ok = peer_run(test->other, sql, &test->answer);
    if (test->answer_ok && test->other_dialect != IN_SQLITE)
        translate(query, &test->answer);
}

// An aggregate that names only columns of a query around it belongs to that query.  Where it stands in the WHERE of
// that query, PostgreSQL refuses it.  SQLite does not always notice.
static bool is_refused(const Verdict *verdict)
{
    const bool is_misplaced = strstr(verdict->difference, "aggregate functions are not allowed in") != NULL;
    return !strcmp(verdict->sqlstate, "0A000") || (!strcmp(verdict->sqlstate, "42803") && is_misplaced);
}

static Verdict judge(Test *test, const RandomQuery *query, const char *weave, const char *jit)
{
    Verdict verdict = { 0 };
    ask_other(test, query, query_sql(query, &test->data, test->other_dialect));
    // SQLite takes (0 and x) for the number 0, and that, in GROUP BY and ORDER BY, for a position.  An aggregate that
    // names only columns of a query around it belongs to that one, and there it may stand where none is allowed.
    bool is_misread = !test->answer_ok && (strstr(test->other->error, "BY term out of range") ||
                                           strstr(test->other->error, "misuse of aggregate"));
    if (test->other->gave_up || is_misread || test->answer.n_rows > MOST_ROWS) {
        verdict.outcome = SKIPPED;
        return verdict;
    }
    if (!test->answer_ok) {
        verdict.outcome = FAILED;
        if (asprintf(&verdict.difference, "%s: %s\n      %s", test->other->name, test->other->error, test->asked) < 0)
            abort();
        return verdict;
    }
    char *sql = query_sql(query, &test->data, test->weft_dialect);
    apply_settings(test, weave, jit);
    alarm((unsigned)(watchdog.seconds + SECONDS_HANGING));
    double start_ms = time_now_ms();
    watch_peer(test->options.generator ? NULL : test->weft);
    bool ok = peer_run(test->weft, sql, &verdict.ours);
    watch_peer(NULL);
    verdict.time_ms = time_now_ms() - start_ms;
    if (ok) {
        compare(test, query, &verdict);
    } else {
        memcpy(verdict.sqlstate, test->weft->sqlstate, sizeof verdict.sqlstate);
        verdict.difference = strdup(test->weft->error);
        bool is_too_large = !strcmp(verdict.sqlstate, "53200") || !strcmp(verdict.sqlstate, "53400") ||
                            !strcmp(verdict.sqlstate, "57014") || !strcmp(verdict.sqlstate, "54001");
        verdict.outcome = is_too_large ? TOO_LARGE : is_refused(&verdict) ? UNSUPPORTED : FAILED;
    }
    alarm(0);
    free(sql);
    return verdict;
}

static void verdict_free(Verdict *verdict)
{
    rows_free(&verdict->ours);
    free(verdict->difference);
    *verdict = (Verdict){ 0 };
}

// ---- cutting a failing query down ---------------------------------------------------------------------------------

typedef struct Failure {                                          // what must stay the same
    Test        *test;
    RandomQuery *query;
    const char  *weave, *jit;
    Outcome      outcome;
    char         sqlstate[6];
} Failure;

static bool fails_alike(void *context)
{
    const Failure *failure = context;
    Verdict verdict = judge(failure->test, failure->query, failure->weave, failure->jit);
    bool is_same = verdict.outcome == failure->outcome && !strcmp(verdict.sqlstate, failure->sqlstate);
    verdict_free(&verdict);
    return is_same;
}

static void cut_down(Test *test, RandomQuery *query, const Verdict *verdict, const char *weave, const char *jit)
{
    Failure failure = { .test = test, .query = query, .weave = weave, .jit = jit, .outcome = verdict->outcome };
    memcpy(failure.sqlstate, verdict->sqlstate, sizeof failure.sqlstate);
    query_cut(query, MOST_TRIES, fails_alike, &failure);
}

// ---- the run ------------------------------------------------------------------------------------------------------

static void show_failure(Test *test, uint64_t number, RandomQuery *query, Verdict *verdict, const char *weave,
                         const char *jit)
{
    char *sql = query_sql(query, &test->data, IN_WEFT);
    printf("FAIL query %" PRIu64 " (weave = %s, jit = %s)\n    %s\n    %s\n", number, weave, jit, sql,
           verdict->difference);
    free(sql);
    if (strcmp(verdict->sqlstate, "42803"))                       // cut, a grouped query often gets this error rightly
        cut_down(test, query, verdict, weave, jit);
    Verdict small = judge(test, query, weave, jit);
    char *weft_sql = query_sql(query, &test->data, IN_WEFT);
    char *other_sql = query_sql(query, &test->data, test->other_dialect);
    printf("  cut down to\n    %s\n    %s\n", weft_sql,
           small.difference ? small.difference : "(did not fail when run again)");
    if (strcmp(weft_sql, other_sql))
        printf("    in %s: %s\n", test->other->name, other_sql);
    if (small.outcome == DIFFERENT) {
        printf("    %s, %zu rows:\n", test->weft->name, small.ours.n_rows);
        rows_print(&small.ours, 8);
        printf("    %s, %zu rows:\n", test->other->name, test->answer.n_rows);
        rows_print(&test->answer, 8);
    }
    printf("  again: tests/check-random --seed %" PRIu64 " --first %" PRIu64 " --count 1      (--dump: as SQL)\n",
           test->options.seed, number);
    fflush(stdout);
    verdict_free(&small);
    free(weft_sql);
    free(other_sql);
}

static void count_reason(Reasons *reasons, const char *text)
{
    int i = 0;
    while (i < reasons->n && strncmp(reasons->text[i], text, sizeof reasons->text[i] - 1))
        i++;
    if (i == COUNT_OF(reasons->count))
        return;
    if (i == reasons->n)
        snprintf(reasons->text[reasons->n++], sizeof reasons->text[i], "%s", text);
    reasons->count[i]++;
}

// cc takes a tenth of a second for each new kernel, and without weaving a query has many.
static const char *choose_jit(Rng *rng)
{
    int draw = rng_below(rng, 1000);
    return draw < 4 ? "cc" : draw < 8 ? "auto" : "tcc";
}

static void note_running(Test *test, uint64_t number, const RandomQuery *query)
{
    char *sql = query_sql(query, &test->data, IN_WEFT);
    snprintf(running, sizeof running, "  tests/check-random --seed %" PRIu64 " --first %" PRIu64 " --count 1\n  %s\n",
             test->options.seed, number, sql);
    if (test->options.verbose)
        printf("%" PRIu64 " %s\n", number, sql);
    if (test->options.dump)
        dump(test, sql);
    free(sql);
}

static Outcome run_settings(Test *test, uint64_t number, RandomQuery *query, const char *jit)
{
    static const char *const WEAVE[] = { "on", "off" };
    for (int w = 0; w < COUNT_OF(WEAVE); w++) {
        Verdict verdict = judge(test, query, WEAVE[w], jit);
        Outcome outcome = verdict.outcome;
        test->counts.weft_ms += verdict.time_ms;
        if (verdict.time_ms > test->counts.slowest_ms && strcmp(jit, "cc")) {
            test->counts.slowest_ms = verdict.time_ms;
            test->counts.slowest = number;
        }
        if (outcome == UNSUPPORTED || outcome == TOO_LARGE)
            count_reason(&test->reasons, verdict.difference);
        if (test->options.verbose && (outcome == UNSUPPORTED || outcome == TOO_LARGE))
            printf("    no answer (weave = %s): %s\n", WEAVE[w], verdict.difference);
        if (outcome == DIFFERENT || outcome == FAILED)
            show_failure(test, number, query, &verdict, WEAVE[w], jit);
        verdict_free(&verdict);
        if (outcome != SAME)
            return outcome;
    }
    return SAME;
}

static void run_query(Test *test, uint64_t number)
{
    uint64_t data_set = number / QUERIES_PER_DATA_SET;
    if (!test->has_data || test->data.number != data_set)
        open_data(test, data_set);
    Arena *arena = arena_new(NULL, "query");
    RandomQuery query;
    query_draw(arena, &test->data, number, &query);
    note_running(test, number, &query);
    Rng rng = rng_from(test->options.seed, 4, number);
    Outcome outcome = test->options.dump ? SKIPPED : run_settings(test, number, &query, choose_jit(&rng));
    test->counts.passed += outcome == SAME;
    test->counts.failed += outcome == DIFFERENT || outcome == FAILED;
    test->counts.unsupported += outcome == UNSUPPORTED;
    test->counts.skipped += outcome == SKIPPED;
    test->counts.too_large += outcome == TOO_LARGE;
    arena_free(arena);
}

static void fail_above(Counts *counts, int n, int most_percent, const char *what)
{
    int n_run = counts->passed + counts->failed + counts->unsupported + counts->too_large;
    if (n_run < 100 || n * 100 <= n_run * most_percent)
        return;
    printf("FAIL: more than %d %% of the queries %s\n", most_percent, what);
    counts->failed++;
}

static int report(Test *test, double time_ms)
{
    Counts *counts = &test->counts;
    for (int i = 0; i < test->reasons.n; i++)
        printf("  %d times: %s\n", test->reasons.count[i], test->reasons.text[i]);
    printf("seed %" PRIu64 ": %.1f s, %.1f of them in Weft, slowest query %.0f ms (%" PRIu64 ")\n", test->options.seed,
           time_ms / 1000, counts->weft_ms / 1000, counts->slowest_ms, counts->slowest);
    printf("%d not supported, %d out of memory or time, %d left out as too large for SQLite\n", counts->unsupported,
           counts->too_large, counts->skipped);
    fail_above(counts, counts->unsupported, MOST_UNSUPPORTED, "are not supported");
    fail_above(counts, counts->too_large, MOST_TOO_LARGE, "need too much memory or time");
    printf("%d passed, %d failed\n", counts->passed, counts->failed);
    return counts->failed ? 1 : 0;
}

static void make_folder(Test *test)
{
    const char *parent = getenv("TMPDIR");
    snprintf(test->folder, sizeof test->folder, "%s/weft-random.XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(test->folder)) {
        perror(test->folder);
        exit(1);
    }
    // A kernel that an earlier run compiled must not hide what this one does.
    char cache[300];
    snprintf(cache, sizeof cache, "%s/cache", test->folder);
    mkdir(cache, 0700);
    setenv("WEFT_CACHE", cache, 1);
}

static void remove_folder(const char *folder)
{
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        fprintf(stderr, "cannot remove %s\n", folder);
}

static bool parse_options(int argc, char **argv, Options *options)
{
    static const struct option LONG[] = {
        { "seed", required_argument, NULL, 's' }, { "first", required_argument, NULL, 'f' },
        { "count", required_argument, NULL, 'c' }, { "seconds", required_argument, NULL, 't' },
        { "keep-going", no_argument, NULL, 'k' }, { "verbose", no_argument, NULL, 'v' },
        { "dump", no_argument, NULL, 'd' },
        { "memory", required_argument, NULL, 'm' },
        { "postgres", required_argument, NULL, 'p' }, { "generator", required_argument, NULL, 'g' }, { 0 } };
    *options = (Options){ .seed = 1, .count = 4000, .seconds = SECONDS_LIMIT };
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (option) {
        case 's': options->seed = strtoull(optarg, NULL, 10); break;
        case 'f': options->first = strtoull(optarg, NULL, 10); break;
        case 'c': options->count = strtoull(optarg, NULL, 10); break;
        case 't': options->seconds = atoi(optarg); break;
        case 'k': options->keep_going = true; break;
        case 'v': options->verbose = true; break;
        case 'p': options->postgres = optarg; break;
        case 'g': options->generator = optarg; break;
        case 'm': options->memory = optarg; break;
        case 'd': options->dump = true; options->count = 1; break;
        default: return false;
        }
    }
    return optind == argc && options->seconds > 0;
}

int main(int argc, char **argv)
{
    Test test = { 0 };
    if (!parse_options(argc, argv, &test.options)) {
        fprintf(stderr, "usage: random [--seed S] [--first N] [--count N] [--seconds N] [--keep-going] [--verbose]\n"
                        "              [--dump] [--memory SIZE] [--postgres CONNINFO | --generator CONNINFO]\n");
        return 2;
    }
    make_folder(&test);
    catch_signals();
    watchdog.seconds = test.options.seconds;
    if (pthread_create(&watchdog.thread, NULL, watch, NULL))
        return 1;
    double start_ms = time_now_ms();
    for (uint64_t i = 0; i < test.options.count; i++) {
        run_query(&test, test.options.first + i);
        if (test.counts.failed >= MOST_FAILURES && !test.options.keep_going) {
            printf("stopped after %d failures; --keep-going runs them all\n", test.counts.failed);
            break;
        }
    }
    close_data(&test);
    remove_folder(test.folder);
    return test.options.dump ? 0 : report(&test, time_now_ms() - start_ms);
}
