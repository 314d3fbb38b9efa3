// crowded.c - queries that meet on a device whose pool has room for each of them, and not for all at once: they wait
// for each other, and none is left to the CPU.
//
// Run by tests/check-stress-gpu with the fake driver and a pool of 6 MB.

#include <unistd.h>

#include "help.h"

enum { N_SESSIONS = 12, N_COLUMNS = 12, N_ROWS = 600000, N_ROUNDS = 6, N_KEYS = 60000 };

static weft_session *onlooker, *sessions[N_SESSIONS];

// Values that take four bytes.
static unsigned value_of(int row, int column) { return ((unsigned)row * 2654435761u + (unsigned)column * 40503u) >> 2; }

static void load(const char *table, const char *columns, int n_rows, void (*write_row)(FILE *out, int row))
{
    char  path[] = "/tmp/weft-crowded.XXXXXX", sql[400];
    FILE *out = fdopen(mkstemp(path), "w");
    if (!out) exit((puts("failed: no temporary file"), 1));
    for (int row = 0; row < n_rows; row++) write_row(out, row);
    fclose(out);
    snprintf(sql, sizeof sql, "create table %s (%s)", table, columns);
    must(onlooker, sql);
    snprintf(sql, sizeof sql, "copy %s from '%s' with (format csv)", table, path);
    must(onlooker, sql);
    unlink(path);
}

static void write_fact(FILE *out, int row)
{
    fprintf(out, "%d", row % N_KEYS);
    for (int c = 0; c < N_COLUMNS; c++) fprintf(out, ",%u", value_of(row, c));
    fputc('\n', out);
}

static void write_key(FILE *out, int row) { fprintf(out, "%d,%u\n", row, value_of(row, 99)); }

// A chunk of two columns is 1.6 MB, of all of them 9.6.
static void two_columns(int n, int round, char *sql)
{
    snprintf(sql, QUERY_BYTES, "select count(*), sum(c%d), max(c%d) from f where c%d > %d", n % N_COLUMNS,
             (n + 1) % N_COLUMNS, n % N_COLUMNS, 1000 * (n + round));
}

// A join table of its own for each, as no two want the same rows: half a megabyte for those with a value.
static void own_table(int n, int round, char *sql)
{
    snprintf(sql, QUERY_BYTES, "select count(*), sum(f.c%d), sum(d.v) from f, d where f.k = d.k and d.v > %d", n % 2,
             1000 * (n + round * N_SESSIONS));
}

// Groups of its own: 60,000 of 16 bytes and more.
static void own_groups(int n, int round, char *sql)
{
    snprintf(sql, QUERY_BYTES, "select k, sum(c%d) from f where c0 > %d group by k order by 2, 1 limit 5", n % 3,
             1000 * (n + round));
}

static void run_rounds(const char *what, void (*make)(int n, int round, char *sql))
{
    char counted[500];
    n_notices = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        char       sql[N_SESSIONS][QUERY_BYTES];
        weft_task *tasks[N_SESSIONS];
        for (int i = 0; i < N_SESSIONS; i++) make(i, round, sql[i]);
        submit_all(sessions, N_SESSIONS, sql, tasks);
        check_all(onlooker, N_SESSIONS, sql, tasks);
    }
    snprintf(counted, sizeof counted, "%d notices, the last: %s", n_notices, last_notice);
    check(n_notices == 0, what, counted);
}

static void check_alone(void)
{
    void (*const make[])(int, int, char *) = { two_columns, own_table, own_groups };
    for (int m = 0; m < 3; m++) {
        char sql[QUERY_BYTES];
        make[m](0, 100, sql);
        free(answer(sessions[0], sql));
        check(n_notices == 0, "alone", sql);
    }
}

int main(void)
{
    weft_db   *db;
    weft_error error;
    char       columns[300] = "k integer";
    for (int c = 0; c < N_COLUMNS; c++)
        snprintf(columns + strlen(columns), sizeof columns - strlen(columns), ", c%d bigint", c);
    if (weft_open(NULL, &db, &error) || weft_connect(db, &onlooker, &error)) return 1;
    must(onlooker, "set device = cpu");
    must(onlooker, "set chunk_rows = 200000");
    load("f", columns, N_ROWS, write_fact);
    load("d", "k integer, v bigint", N_KEYS, write_key);
    for (int i = 0; i < N_SESSIONS; i++) {
        if (weft_connect(db, &sessions[i], &error)) return 1;
        must(sessions[i], "set device = cuda");
    }
    check_alone();
    run_rounds("columns of all are more than the pool", two_columns);
    run_rounds("join tables of all are more than the pool", own_table);
    run_rounds("groups of all are more than the pool", own_groups);
    for (int i = 0; i < N_SESSIONS; i++) weft_disconnect(sessions[i]);
    weft_disconnect(onlooker);
    weft_close(db);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
