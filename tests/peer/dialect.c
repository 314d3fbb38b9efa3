// dialect.c - random statements over the whole dialect: Weft against PostgreSQL, and Weft against itself.
//
//     dialect --postgres CONNINFO [--seed S] [--first N] [--count N] [--keep-going] [--verbose]
//     dialect --oracles ..                            TLP and NoREC (oracles.c); needs no other engine
//     dialect .. --seconds N                          end after so long, whatever the count
//     dialect .. --first N --dump                     the tables and the statement, as SQL
//
// Rows must agree, and so must errors: the same class of SQLSTATE on both sides.  Where one side alone reports bad data
// (class 22), that is a difference if every expression meets every row; else PostgreSQL may have looked at fewer rows,
// or more.  All other differences are failures unless explained.def explains them by name.  A failing statement is cut
// down before it is shown.

#define _GNU_SOURCE
#include "dialect.h"

#include <fnmatch.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "peer.h"

enum { STATEMENTS_PER_DATA_SET = 100, MOST_ROWS = 50000, MOST_TRIES = 600, MOST_FAILURES = 10, SECONDS_HANGING = 60 };

typedef struct Explained { const char *name, *theirs, *ours, *says, *they_say; SetAside *set_aside; } Explained;

static const Explained EXPLAINED_LIST[] = {
#define EXPLAINED(name, theirs, ours, says) { name, theirs, ours, says, "", NULL },
#define EXPLAINED_ERRORS(name, theirs, ours, says, they_say) { name, theirs, ours, says, they_say, NULL },
#define EXPLAINED_ROWS(name, set_aside) { name, "ok", "ok", "", "", set_aside },
#include "explained.def"
#undef EXPLAINED
#undef EXPLAINED_ERRORS
#undef EXPLAINED_ROWS
};

typedef enum Outcome { SAME, SAME_ERROR, DIFFERENT, OTHER_ORDER, SKIPPED, TOO_LARGE, EXPLAINED_DIFFERENCE } Outcome;

typedef struct Options {
    uint64_t seed, first, count;
    double   seconds;                                             // 0: until all have run
    bool     oracles, keep_going, verbose, dump;
    const char *postgres;
} Options;

typedef struct Run {
    Options     options;
    Peer       *weft, *postgres;
    DialectData data;
    bool        has_data;
    char        weave[8];
    int         counts[EXPLAINED_DIFFERENCE + 1];
    int         n_explained[COUNT_OF(EXPLAINED_LIST)];
    double      weft_ms, postgres_ms;
} Run;

typedef struct Verdict {
    Outcome outcome;
    int     explained;                                            // which line of the list
    char    ours[6], theirs[6];                                   // SQLSTATEs, empty for rows
    char   *difference;                                           // to be freed
} Verdict;

// ---- when Weft crashes or hangs, say on what ----------------------------------------------------------------------

static char running[8192] = "starting\n";                         // read by the signal handler

static void on_signal(int number)
{
    const char *what = number == SIGALRM ? "\nFAIL: no answer after a minute:\n" : "\nFAIL: crashed while running:\n";
    if (write(2, what, strlen(what)) < 0 || write(2, running, strlen(running)) < 0)
        _exit(2);
    if (number == SIGALRM)
        _exit(1);
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void)
{
    static const int NUMBERS[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM };
    for (int i = 0; i < COUNT_OF(NUMBERS); i++)
        signal(NUMBERS[i], on_signal);
}

// ---- data ---------------------------------------------------------------------------------------------------------

static void must(Peer *peer, const char *sql)
{
    if (peer_run(peer, sql, NULL))
        return;
    printf("FAIL: %s cannot set up the tables: %s\n  %.400s\n", peer->name, peer->error, sql);
    exit(1);
}

static void fill(Run *run, Peer *peer)
{
    for (int t = 0; t < N_DIALECT_TABLES; t++) {
        char *create = dialect_create_sql(t), *insert = dialect_insert_sql(&run->data, t);
        must(peer, create);
        if (insert)
            must(peer, insert);
        free(create);
        free(insert);
    }
}

static void open_weft(Run *run)
{
    static const char *const SETTINGS[] = { "set chunk_rows = 64", "set chunk_rows = 1000" };
    char error[PEER_ERROR_BYTES] = "";
    Rng rng = rng_from(run->options.seed, 13, run->data.number);
    peer_close(run->weft);
    run->weft = peer_open_weft(NULL, error);
    if (!run->weft) {
        printf("FAIL: cannot open a database: %s\n", error);
        exit(1);
    }
    run->weave[0] = 0;
    must(run->weft, SETTINGS[rng_below(&rng, 2)]);
    must(run->weft, rng_chance(&rng, 50) ? "set threads = 1" : "set threads = 2");
    must(run->weft, "set jit = tcc");
    must(run->weft, "set memory_limit = '1GB'");
    must(run->weft, "set statement_timeout = 5000");
}

static void set_zone(Run *run)
{
    static const char *const ZONES[] = { "UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata" };
    Rng rng = rng_from(run->options.seed, 14, run->data.number);
    const char *zone = ZONES[rng_below(&rng, COUNT_OF(ZONES))];
    if (!peer_runf(run->weft, "set timezone = '%s'", zone) ||
        (run->postgres && !peer_runf(run->postgres, "set timezone = '%s'", zone)))
        exit(1);
}

static void open_data(Run *run, uint64_t number)
{
    dialect_data_draw(&run->data, run->options.seed, number);
    run->has_data = true;
    open_weft(run);
    set_zone(run);
    fill(run, run->weft);
    if (run->postgres) {
        must(run->postgres, "set statement_timeout = 0");
        must(run->postgres, "drop table if exists t0, t1, t2");
        fill(run, run->postgres);
        must(run->postgres, "analyze t0, t1, t2");
        must(run->postgres, "set statement_timeout = 2000");
    }
}

static void set_weave(Run *run, const char *weave)
{
    if (strcmp(run->weave, weave) && !peer_runf(run->weft, "set weave = %s", weave))
        exit(1);
    snprintf(run->weave, sizeof run->weave, "%s", weave);
}

// ---- judging ------------------------------------------------------------------------------------------------------

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

static bool is_data_error(const char *state)
{
    return begins(state, "22") || begins(state, "21");
}

static bool is_state(const char *wanted, const char *state)
{
    if (!strcmp(wanted, "binds"))
        return !state[0] || is_data_error(state);
    return !strcmp(wanted, "ok") ? !state[0] : begins(state, wanted);
}

// PATTERN is a part of the text, and may have the wildcards of file names.
static bool mentions(const char *text, const char *pattern)
{
    char *around;
    if (asprintf(&around, "*%s*", pattern) < 0)
        abort();
    bool found = fnmatch(around, text, 0) == 0;
    free(around);
    return found;
}

static void explain_by(Verdict *verdict, int line)
{
    verdict->outcome = EXPLAINED_DIFFERENCE;
    verdict->explained = line;
}

static void explain_errors(Verdict *verdict)
{
    for (int i = 0; i < COUNT_OF(EXPLAINED_LIST); i++) {
        const Explained *e = &EXPLAINED_LIST[i];
        if (!e->set_aside && is_state(e->theirs, verdict->theirs) && is_state(e->ours, verdict->ours) &&
            mentions(verdict->difference, e->says) && mentions(verdict->difference, e->they_say)) {
            explain_by(verdict, i);
            return;
        }
    }
}

// Each rule takes away what it is about, which changes the rows: it is the cause if the rows then agree.
static void explain_rows(Verdict *verdict, const Statement *statement, const char *sql, Rows *ours, Rows *theirs)
{
    for (int i = 0; i < COUNT_OF(EXPLAINED_LIST); i++) {
        if (!EXPLAINED_LIST[i].set_aside || !EXPLAINED_LIST[i].set_aside(statement, sql, ours, theirs))
            continue;
        char *difference = dialect_difference(statement, ours, theirs);
        if (!difference) {
            explain_by(verdict, i);
            return;
        }
        free(difference);
    }
}

static bool is_too_large(const char *state)
{
    return !strcmp(state, "53200") || !strcmp(state, "57014") || !strcmp(state, "54001");
}

static bool has_branches(const Statement *statement)
{
    char *sql = tree_sql(statement->root);
    bool found = strstr(sql, "case ") || strstr(sql, "coalesce(");
    free(sql);
    return found;
}

static void judge_errors(Run *run, const Statement *statement, Verdict *verdict)
{
    const char *ours = verdict->ours, *theirs = verdict->theirs;
    if (asprintf(&verdict->difference, "weft: %s\n    postgres: %s", *ours ? run->weft->error : "rows",
                 *theirs ? run->postgres->error : "rows") < 0)
        abort();
    verdict->outcome = DIFFERENT;
    if (is_too_large(ours) || is_too_large(theirs))
        verdict->outcome = TOO_LARGE;
    else if (!strcmp(theirs, "0A000"))
        verdict->outcome = SKIPPED;
    else if (*ours && *theirs && !strncmp(ours, theirs, 2))
        verdict->outcome = SAME_ERROR;
    else
        explain_errors(verdict);
    bool is_data = (!*ours || is_data_error(ours)) && (!*theirs || is_data_error(theirs));
    // PostgreSQL computes constants while it plans, those of branches that no row takes as well (its manual: 4.2.14).
    bool is_early = !*ours && has_branches(statement);
    if (verdict->outcome == DIFFERENT && is_data && (!statement->has_all_rows || is_early || (*ours && *theirs)))
        verdict->outcome = OTHER_ORDER;
}

static Verdict judge_peer(Run *run, const Statement *statement, const char *weave)
{
    Verdict verdict = { 0 };
    Rows ours = { 0 }, theirs = { 0 };
    char *sql = tree_sql(statement->root);
    double start = time_now_ms();
    bool theirs_ok = peer_run(run->postgres, sql, &theirs);
    run->postgres_ms += time_now_ms() - start;
    snprintf(verdict.theirs, sizeof verdict.theirs, "%s", theirs_ok ? "" : run->postgres->sqlstate);
    set_weave(run, weave);
    start = time_now_ms();
    alarm(SECONDS_HANGING);
    bool ours_ok = peer_run(run->weft, sql, &ours);
    alarm(0);
    run->weft_ms += time_now_ms() - start;
    snprintf(verdict.ours, sizeof verdict.ours, "%s", ours_ok ? "" : run->weft->sqlstate);
    if (!ours_ok || !theirs_ok) {
        judge_errors(run, statement, &verdict);
    } else {
        verdict.difference = theirs.n_rows > MOST_ROWS ? NULL : dialect_difference(statement, &ours, &theirs);
        verdict.outcome = verdict.difference ? DIFFERENT : SAME;
        if (verdict.difference)
            explain_rows(&verdict, statement, sql, &ours, &theirs);
    }
    rows_free(&ours);
    rows_free(&theirs);
    free(sql);
    return verdict;
}

// Errors are no subject here: each text computes other expressions.
static Verdict judge_oracle(Run *run, const Statement *statement, const char *weave)
{
    Verdict verdict = { .outcome = SKIPPED };
    Rows whole_rows = { 0 }, parts_rows = { 0 };
    char *whole, *parts;
    oracle_sql(statement, &whole, &parts);
    set_weave(run, weave);
    alarm(SECONDS_HANGING);
    double start = time_now_ms();
    bool whole_ok = peer_run(run->weft, whole, &whole_rows);
    bool ok = whole_ok && peer_run(run->weft, parts, &parts_rows);
    alarm(0);
    run->weft_ms += time_now_ms() - start;
    if (ok) {
        verdict.difference = dialect_difference(statement, &whole_rows, &parts_rows);
        verdict.outcome = verdict.difference ? DIFFERENT : SAME;
    } else {
        snprintf(verdict.ours, sizeof verdict.ours, "%s", run->weft->sqlstate);
        verdict.difference = strdup(run->weft->error);
        if (is_too_large(verdict.ours))
            verdict.outcome = TOO_LARGE;
        else if (is_data_error(verdict.ours) || !strcmp(verdict.ours, "42803"))      // an aggregate of constants alone
            verdict.outcome = SKIPPED;
        else {
            verdict.outcome = DIFFERENT;
            explain_errors(&verdict);
        }
    }
    rows_free(&whole_rows);
    rows_free(&parts_rows);
    free(whole);
    free(parts);
    return verdict;
}

static Verdict judge(Run *run, const Statement *statement, const char *weave)
{
    return statement->oracle == ORACLE_PEER ? judge_peer(run, statement, weave) : judge_oracle(run, statement, weave);
}

// ---- cutting and showing ------------------------------------------------------------------------------------------

typedef struct Failure { Run *run; Statement *statement; const char *weave; const Verdict *verdict; } Failure;

static bool fails_alike(void *context)
{
    const Failure *failure = context;
    Verdict now = judge(failure->run, failure->statement, failure->weave);
    bool is_alike = now.outcome == DIFFERENT && !strcmp(now.ours, failure->verdict->ours) &&
                    !strcmp(now.theirs, failure->verdict->theirs);
    free(now.difference);
    return is_alike;
}

static void show_texts(const Statement *statement)
{
    char *whole, *parts = NULL;
    if (statement->oracle == ORACLE_PEER)
        whole = tree_sql(statement->root);
    else
        oracle_sql(statement, &whole, &parts);
    printf("    %s;\n", whole);
    if (parts)
        printf("    %s;\n", parts);
    free(whole);
    free(parts);
}

static void show_failure(Run *run, uint64_t number, Statement *statement, Verdict *verdict, const char *weave)
{
    printf("FAIL statement %" PRIu64 " (weave = %s)\n    %s\n", number, weave, verdict->difference);
    if (run->options.verbose)
        show_texts(statement);
    Failure failure = { run, statement, weave, verdict };
    Tree *root = statement->root;
    if (statement->oracle == ORACLE_PEER) {
        tree_cut(&statement->root, MOST_TRIES, fails_alike, &failure);
    } else {
        for (int i = 0; i < root->n_args; i++)
            tree_cut(&root->args[i], MOST_TRIES / 3, fails_alike, &failure);
    }
    Verdict small = judge(run, statement, weave);
    printf("  cut down to\n");
    show_texts(statement);
    printf("    %s\n", small.difference ? small.difference : "(did not fail when run again)");
    printf("  again: tests/check-dialect %s--seed %" PRIu64 " --first %" PRIu64 " --count 1      (--dump: as SQL)\n",
           run->options.oracles ? "--oracles " : "", run->options.seed, number);
    fflush(stdout);
    free(small.difference);
}

static void dump(Run *run, const Statement *statement)
{
    for (int t = 0; t < N_DIALECT_TABLES; t++) {
        char *create = dialect_create_sql(t), *insert = dialect_insert_sql(&run->data, t);
        printf("%s;\n", create);
        if (insert)
            printf("%s;\n", insert);
        free(create);
        free(insert);
    }
    show_texts(statement);
}

// ---- the run ------------------------------------------------------------------------------------------------------

static void run_statement(Run *run, uint64_t number)
{
    uint64_t data_set = number / STATEMENTS_PER_DATA_SET;
    if (!run->has_data || run->data.number != data_set)
        open_data(run, data_set);
    Arena *arena = arena_new(NULL, "statement");
    Statement statement;
    if (run->options.oracles)
        oracle_draw(arena, &run->data, run->options.seed, number, &statement);
    else
        dialect_draw(arena, &run->data, run->options.seed, number, &statement);
    if (run->options.dump) {
        dump(run, &statement);
        arena_free(arena);
        return;
    }
    char *sql = tree_sql(statement.root);
    snprintf(running, sizeof running,
             "  tests/check-dialect %s--seed %" PRIu64 " --first %" PRIu64 " --count 1\n  %s\n",
             run->options.oracles ? "--oracles " : "", run->options.seed, number, sql);
    free(sql);
    const char *weave = number % 3 == 2 ? "off" : "on";
    Verdict verdict = judge(run, &statement, weave);
    run->counts[verdict.outcome]++;
    if (verdict.outcome == EXPLAINED_DIFFERENCE)
        run->n_explained[verdict.explained]++;
    if (run->options.verbose) {
        static const char *const OUTCOMES[] = { "same", "same error", "DIFFERENT", "other order", "skipped",
                                                "too large", "explained" };
        printf("%" PRIu64 " %s %s\n", number, OUTCOMES[verdict.outcome], verdict.difference ? verdict.difference : "");
        show_texts(&statement);
    }
    if (verdict.outcome == DIFFERENT)
        show_failure(run, number, &statement, &verdict, weave);
    free(verdict.difference);
    arena_free(arena);
}

static int report(Run *run, double time_ms)
{
    for (int i = 0; i < COUNT_OF(EXPLAINED_LIST); i++)
        if (run->n_explained[i])
            printf("  %d times: %s\n", run->n_explained[i], EXPLAINED_LIST[i].name);
    const int *n = run->counts;
    printf("seed %" PRIu64 ": %.1f s, %.1f of them in Weft, %.1f in PostgreSQL\n", run->options.seed, time_ms / 1000,
           run->weft_ms / 1000, run->postgres_ms / 1000);
    printf("%d the same rows, %d the same error, %d explained, %d errors that depend on the order of evaluation, "
           "%d left out, %d out of memory or time\n",
           n[SAME], n[SAME_ERROR], n[EXPLAINED_DIFFERENCE], n[OTHER_ORDER], n[SKIPPED], n[TOO_LARGE]);
    printf("%d passed, %d failed\n", n[SAME] + n[SAME_ERROR], n[DIFFERENT]);
    return n[DIFFERENT] ? 1 : 0;
}

static bool parse_options(int argc, char **argv, Options *options)
{
    static const struct option LONG[] = {
        { "seed", required_argument, NULL, 's' }, { "first", required_argument, NULL, 'f' },
        { "count", required_argument, NULL, 'c' }, { "postgres", required_argument, NULL, 'p' },
        { "seconds", required_argument, NULL, 't' },
        { "oracles", no_argument, NULL, 'o' },    { "keep-going", no_argument, NULL, 'k' },
        { "verbose", no_argument, NULL, 'v' },    { "dump", no_argument, NULL, 'd' }, { 0 } };
    *options = (Options){ .seed = 1, .count = 1000 };
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (option) {
        case 's': options->seed = strtoull(optarg, NULL, 10); break;
        case 'f': options->first = strtoull(optarg, NULL, 10); break;
        case 'c': options->count = strtoull(optarg, NULL, 10); break;
        case 'p': options->postgres = optarg; break;
        case 't': options->seconds = atof(optarg); break;
        case 'o': options->oracles = true; break;
        case 'k': options->keep_going = true; break;
        case 'v': options->verbose = true; break;
        case 'd': options->dump = true; options->count = 1; break;
        default: return false;
        }
    }
    return optind == argc && (options->oracles || options->postgres || options->dump);
}

static void open_postgres(Run *run)
{
    char error[PEER_ERROR_BYTES] = "";
    if (!run->options.postgres || run->options.oracles)
        return;
    run->postgres = peer_open_postgres(run->options.postgres, error);
    if (!run->postgres) {
        printf("FAIL: cannot reach PostgreSQL: %s\n", error);
        exit(1);
    }
    must(run->postgres, "set intervalstyle = postgres; set extra_float_digits = 1");
}

int main(int argc, char **argv)
{
    static Run run;
    if (!parse_options(argc, argv, &run.options)) {
        fprintf(stderr, "usage: dialect --postgres CONNINFO | --oracles [--seed S] [--first N] [--count N]\n"
                        "               [--seconds N] [--keep-going] [--verbose] [--dump]\n");
        return 2;
    }
    catch_signals();
    open_postgres(&run);
    double start = time_now_ms();
    for (uint64_t i = 0; i < run.options.count; i++) {
        if (run.options.seconds > 0 && time_now_ms() - start > run.options.seconds * 1000) {
            printf("ended by --seconds after %" PRIu64 " statements\n", i);
            break;
        }
        run_statement(&run, run.options.first + i);
        if (run.counts[DIFFERENT] >= MOST_FAILURES && !run.options.keep_going) {
            printf("stopped after %d failures; --keep-going runs them all\n", run.counts[DIFFERENT]);
            break;
        }
    }
    peer_close(run.weft);
    peer_close(run.postgres);
    return run.options.dump ? 0 : report(&run, time_now_ms() - start);
}
