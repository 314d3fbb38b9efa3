// tables.c - join tables of all kinds, made by the device: matches of a row come in the order of the source, and all is
// as on the CPU.
//
// Run by tests/check-gpu with the fake driver, and by scripts/gpu-test on a GPU.  Keys near each other and far apart,
// one and several rows to each, of one word and of several, floats and texts; payloads with NULLs.  EXPLAIN ANALYZE
// tells who made the table: that is the device, but for a key that has too many rows.  --small-pool: there may be no
// room for it.  --few: for compute-sanitizer, which takes its time.  A number: only tables of one size, so that several
// processes compile.

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "help.h"

enum { N_FACTS = 30000, FOLDER_BYTES = 32 };

static char path[FOLDER_BYTES + 16], folder[FOLDER_BYTES] = "/tmp/weft-tables.XXXXXX";

typedef struct Rows { size_t n, n_columns; char **texts; long long *facts; } Rows;

// ---- data -----------------------------------------------------------------------------------------------------------

static uint64_t chance(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void put_float(FILE *out, uint64_t number)
{
    if (number % 97 == 0) fputs(",NaN", out);
    else if (number % 97 == 1) fputs(number & 128 ? ",0.0" : ",-0.0", out);
    else fprintf(out, ",%g", (double)(number % 1000) / 8 - 40);
}

// The columns that both tables have: keys of about N_KEYS values.
static void put_keys(FILE *out, uint64_t *state, int n_keys)
{
    const long long near = (long long)(chance(state) % (uint64_t)n_keys),
                    far = (long long)(chance(state) % (uint64_t)n_keys) - n_keys / 2;
    fprintf(out, ",%lld,%lld", near, far * 1000003000017);
    put_float(out, chance(state) % (uint64_t)n_keys);
    fprintf(out, ",k%llu", (unsigned long long)(chance(state) % (uint64_t)n_keys));
}

static void put_payloads(FILE *out, uint64_t *state)
{
    const uint64_t number = chance(state);
    if (number % 5 == 0) fputs(",", out);
    else fprintf(out, ",%d", (int)(number % 100));
    fprintf(out, ",%lld", (long long)chance(state));
    if (number % 7 == 0) fputs(",", out);
    else fprintf(out, ",%g", (double)(number % 1000) / 4);
    fprintf(out, ",name %llu\n", (unsigned long long)(number % 50));
}

static void write_table(bool is_fact, int n_rows, int n_keys)
{
    FILE    *out = fopen(path, "w");
    uint64_t state = is_fact ? 88172645463325252ull : 1181783497276652981ull;
    for (int r = 0; r < n_rows; r++) {
        // Unique where there are as many keys as rows.
        fprintf(out, "%d,%d,%lld", r, r % n_keys, (r % n_keys) * 1000000000039ll);
        put_keys(out, &state, n_keys);
        if (is_fact) fputs("\n", out);
        else put_payloads(out, &state);
    }
    fclose(out);
}

static void load(weft_session *session, const char *table, const char *columns, bool is_fact, int n_rows, int n_keys)
{
    char sql[400];
    snprintf(
        sql, sizeof sql,
        "create table %s (id integer, one integer, lone bigint, near integer, far bigint, "
         "x double precision, t text%s)",
        table, columns);
    must(session, sql);
    write_table(is_fact, n_rows, n_keys);
    snprintf(sql, sizeof sql, "copy %s from '%s' with (format csv)", table, path);
    must(session, sql);
}

// ---- rows, by fact --------------------------------------------------------------------------------------------------

static Rows read_rows(weft_session *session, const char *sql)
{
    weft_result *result;
    weft_error   error;
    Rows         rows = { 0 };
    if (weft_query(session, sql, &result, &error)) {
        check(0, sql, error.message);
        return rows;
    }
    rows = (Rows){ .n = weft_result_rows(result), .n_columns = (size_t)weft_result_columns(result) };
    rows.texts = calloc(rows.n + 1, sizeof *rows.texts), rows.facts = calloc(rows.n + 1, sizeof *rows.facts);
    for (size_t r = 0; r < rows.n; r++) {
        char   text[1000];
        size_t length = 0;
        for (int c = 0; c < (int)rows.n_columns; c++) {
            weft_format(result, c, r, text + length, sizeof text - length - 2);
            length += strlen(text + length);
            text[length++] = '|', text[length] = 0;
        }
        rows.texts[r] = strdup(text), rows.facts[r] = atoll(text);
    }
    weft_result_free(result);
    return rows;
}

static void free_rows(Rows *rows)
{
    for (size_t r = 0; r < rows->n; r++) free(rows->texts[r]);
    free(rows->texts);
    free(rows->facts);
}

// Rows of each fact in the order in which they came: devices differ in how facts follow each other, not in this.
static size_t *by_fact(const Rows *rows)
{
    size_t *order = calloc(rows->n + 1, sizeof *order), *starts = calloc(N_FACTS + 2, sizeof *starts);
    for (size_t r = 0; r < rows->n; r++) starts[rows->facts[r] + 1]++;
    for (size_t f = 0; f < N_FACTS; f++) starts[f + 1] += starts[f];
    for (size_t r = 0; r < rows->n; r++) order[starts[rows->facts[r]]++] = r;
    free(starts);
    return order;
}

static void compare_rows(const char *sql, const Rows *expected, const Rows *got)
{
    char what[300] = "";
    if (expected->n != got->n) {
        snprintf(what, sizeof what, "%zu rows instead of %zu", got->n, expected->n);
        check(0, sql, what);
        return;
    }
    size_t *a = by_fact(expected), *b = by_fact(got), r = 0;
    while (r < got->n && strcmp(expected->texts[a[r]], got->texts[b[r]]) == 0) r++;
    if (r < got->n)
        snprintf(what, sizeof what, "row %zu is %.100s, not %.100s", r, got->texts[b[r]], expected->texts[a[r]]);
    check(r == got->n, sql, what);
    free(a);
    free(b);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static void check_rows(weft_session *cpu, weft_session *gpu, const char *sql)
{
    Rows expected = read_rows(cpu, sql), got = read_rows(gpu, sql);
    compare_rows(sql, &expected, &got);
    free_rows(&expected);
    free_rows(&got);
}

static void check_maker(weft_session *gpu, const char *sql, const char *maker)
{
    char explain[1000];
    snprintf(explain, sizeof explain, "explain analyze %s", sql);
    char *text = answer(gpu, explain), *made = strstr(text, ", built in");
    check(made && strstr(made, maker) && strcspn(made, "|") > (size_t)(strstr(made, maker) - made), sql,
          made ? made : text);
    free(text);
}

static const char *const joins[] = {
    "f.one = d.one",
    "f.lone = d.lone",
    "f.near = d.near",
    "f.far = d.far",
    "f.x = d.x",
    "f.t = d.t",
    "f.near = d.near and f.far = d.far",
    "f.far = d.far and f.x = d.x",
    "f.near = d.near and f.t = d.t",
    "f.lone = d.lone and f.far = d.far and f.near = d.near",
};

static const char *const payloads[] = { "d.id", "d.id, d.p, d.w, d.name, d.big", "d.w, d.id, d.p" };

static bool is_few;                    // fewer queries

static void check_joins(weft_session *cpu, weft_session *gpu, const char *maker)
{
    char sql[600];
    for (size_t j = 0; j < sizeof joins / sizeof *joins; j++) {
        for (size_t p = is_few; p < (is_few ? 2 : sizeof payloads / sizeof *payloads); p++) {
            snprintf(sql, sizeof sql, "select f.id, %s from f, d where %s", payloads[p], joins[j]);
            check_rows(cpu, gpu, sql);
            if (maker) check_maker(gpu, sql, maker);
        }
        snprintf(sql, sizeof sql, "select 0, count(*), sum(f.id) from f, d where %s", joins[j]);           // no payload
        check_rows(cpu, gpu, sql);
        snprintf(
            sql, sizeof sql,
            "select 0, name, count(w), sum(p), min(big), max(w) from f, d where %s and d.p > 3 group by name order by "
            "name",
            joins[j]);
        check_rows(cpu, gpu, sql);
    }
    // The rows of a table that is joined with several of another.
    check_rows(
        cpu, gpu,
        "select f.id, d.id, e.id from f, d, d e where f.far = d.far and d.near = e.near and e.p = 3 and f.id < 3000");
}

static void check_size(weft_db *db, int n_dims, int n_keys, const char *maker)
{
    weft_session *cpu = connect_alone(db, "cpu"), *gpu = connect_alone(db, "cuda");
    load(cpu, "d", ", p integer, big bigint, w double precision, name text", false, n_dims, n_keys);
    check_joins(cpu, gpu, maker);
    must(cpu, "drop table d");
    weft_disconnect(cpu);
    weft_disconnect(gpu);
}

// More rows of one key than a thread puts in order.
static void check_long_chains(weft_db *db)
{
    static const char *const sql = "select f.id, d.id from f, d where f.one = d.k";
    weft_session            *cpu = connect_alone(db, "cpu"), *gpu = connect_alone(db, "cuda");
    must(cpu, "create table d (id integer, k integer)");
    FILE *out = fopen(path, "w");
    for (int r = 0; r < 20000; r++) fprintf(out, "%d,%d\n", r, r % 3 ? 7 : r);
    fclose(out);
    char copy[100];
    snprintf(copy, sizeof copy, "copy d from '%s' with (format csv)", path);
    must(cpu, copy);
    check_rows(cpu, gpu, sql);
    check_maker(gpu, sql, "by cpu");
    must(cpu, "drop table d");
    weft_disconnect(cpu);
    weft_disconnect(gpu);
}

// Rows of the table, and about how many keys they have.
static const struct { int n_rows, n_keys; } sizes[] = { { 12000, 4000 }, { 1, 1 }, { 500, 100 }, { 20000, 20000 } };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// ONLY: this one, the last of them being that of long chains; -1: all.
static void check_all_sizes(weft_db *db, int only, const char *maker)
{
    for (int s = 0; s < N_SIZES; s++)
        if (only < 0 || only == s) check_size(db, sizes[s].n_rows, sizes[s].n_keys, maker);
    if (only < 0 || only == N_SIZES) check_long_chains(db);
}

int main(int n_arguments, char **arguments)
{
    weft_db   *db;
    weft_error error;
    int        only = -1;
    bool       is_small = false;
    for (int a = 1; a < n_arguments; a++) {
        if (strcmp(arguments[a], "--few") == 0) is_few = true, only = 0;
        else if (strcmp(arguments[a], "--small-pool") == 0) is_small = true;
        else only = atoi(arguments[a]);
    }
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/rows.csv", folder);
    if (weft_open(NULL, &db, &error)) return printf("failed: %s\n", error.message), 1;
    weft_session *session = connect_alone(db, "cpu");
    load(session, "f", "", true, N_FACTS, 4000);
    check_all_sizes(db, only, is_small ? NULL : "by cuda:0");
    weft_disconnect(session);
    weft_close(db);
    unlink(path);
    rmdir(folder);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
