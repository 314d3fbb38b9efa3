// riders.c - queries on a GPU are seen from outside: weft_riders and EXPLAIN (NETWORK) while they run, weft_scans
// after.
//
// Run by tests/check-stress-gpu with the fake driver.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

enum { N_ROWS = 50000, N_AT_ONCE = 4, MOST_TRIES = 100 };

static void fill(weft_session *session)
{
    char *sql = malloc((size_t)N_ROWS * 24 + 100), *at = sql + sprintf(sql, "insert into t values ");
    must(session, "set chunk_rows = 5000");
    must(session, "create table t (a integer, b integer)");
    for (int i = 0; i < N_ROWS; i++) at += sprintf(at, "%s(%d,%d)", i ? "," : "", i, i % 1000);
    must(session, sql);
    free(sql);
}

typedef struct Seen { int riders, fellows, kernel, network; } Seen;

// What an onlooker sees while queries are on the device.
static void look(weft_session *onlooker, Seen *seen)
{
    char *riders = answer(
        onlooker,
        "select count(*), max(fellow_riders), min(kernel), max(chunks), min(chunks - chunks_done) from weft_riders "
        "where table_name = 't'");
    char *network = answer(onlooker, "explain (network) select 1");
    int   n_riders = 0, n_fellows = 0;
    if (sscanf(riders, "%d|%d|", &n_riders, &n_fellows) == 2 && n_riders) {
        seen->riders = 1;
        seen->fellows |= n_fellows > 0;
        seen->kernel |= strstr(riders, "|p_") && strstr(riders, "|10|") && !strchr(riders, '-');
    }
    seen->network |= strstr(network, "scan of t") && strstr(network, "of 10");
    free(riders);
    free(network);
}

static void run_at_once(weft_session **sessions, weft_session *onlooker, Seen *seen)
{
    weft_task *tasks[N_AT_ONCE];
    weft_error error;
    for (int i = 0; i < N_AT_ONCE; i++) {                       // equal ones would run once
        char sql[120];
        snprintf(sql, sizeof sql,
                 "select b, sum(a), count(*), min(a * 3 + b), max(a - b) from t where a >= %d group by b", i);
        if (weft_submit(sessions[i], sql, &tasks[i], &error)) exit(1);
    }
    while (!weft_is_done(tasks[0]) || !weft_is_done(tasks[N_AT_ONCE - 1])) look(onlooker, seen);
    for (int i = 0; i < N_AT_ONCE; i++) {
        weft_result *result = NULL;
        const int    status = weft_wait(tasks[i], &result, &error);
        check(!status, "a query", error.message);
        weft_result_free(result);
    }
}

int main(void)
{
    weft_db      *db;
    weft_session *sessions[N_AT_ONCE], *onlooker;
    weft_error    error;
    Seen          seen = { 0 };
    int           n_tries = 0;
    long long     rides = 0, chunks_read = 0, chunks_ridden = 0, rows_ridden = 0, bytes_read = 0, bytes_ridden = 0;
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    fill(onlooker);
    for (int i = 0; i < N_AT_ONCE; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    while (n_tries++ < MOST_TRIES && !(seen.riders && seen.fellows && seen.kernel && seen.network))
        run_at_once(sessions, onlooker, &seen);
    check(seen.riders, "weft_riders shows them", "never");
    check(seen.fellows, "weft_riders shows who rides together", "never");
    check(seen.kernel, "weft_riders shows kernel and chunks", "never");
    check(seen.network, "EXPLAIN (NETWORK) shows them", "never");
    char *scans = answer(
        onlooker,
        "select rides, chunks_read, chunks_ridden, rows_ridden, bytes_read, bytes_ridden from weft_scans where "
        "table_name = 't'");
    sscanf(scans, "%lld|%lld|%lld|%lld|%lld|%lld|", &rides, &chunks_read, &chunks_ridden, &rows_ridden, &bytes_read,
           &bytes_ridden);
    check(rides == (long long)(n_tries - 1) * N_AT_ONCE, "weft_scans counts rides", scans);
    check(chunks_ridden == rides * 10 && rows_ridden == rides * N_ROWS, "weft_scans counts what was ridden", scans);
    check(chunks_read >= 10 && chunks_read <= chunks_ridden && bytes_read > 0 && bytes_read <= bytes_ridden,
          "weft_scans counts what was read", scans);
    free(scans);
    for (int i = 0; i < N_AT_ONCE; i++) weft_disconnect(sessions[i]);
    must(onlooker, "select sum(a) from t");
    scans = answer(onlooker, "select count(*), sum(rides) from weft_scans where table_name = 't'");
    char expected[40];
    snprintf(expected, sizeof expected, "1|%lld|", rides + 1);
    check(strcmp(scans, expected) == 0, "CPU and GPU are one row", scans);
    free(scans);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
