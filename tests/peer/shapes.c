// shapes.c - random queries, each with several sets of constants: what is kept of earlier queries must not show.
//
//     shapes [--seed S] [--count N] [--verbose]
//
// Draws tables and queries as random.c does.  Each query is asked as it is drawn and with other literals, among them
// some that fit nowhere: zeros to divide by, numbers that overflow, empty ranges, dates that are none, texts in another
// case, NULL.  So are queries whose literals are compared (compared.c), which share plans.  One session has plan_cache
// on, the other off: their rows must be the same, and their errors too, with the place in the text.  A session that
// keeps nothing parses and plans each text, so it is the truth here.

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "compared.h"
#include "shapes.h"
#include "weft.h"

enum { QUERIES_PER_DATA_SET = 25, TEXTS_PER_QUERY = 5, COMPARED_PER_QUERY = 9, MOST_SHOWN = 5 };

typedef struct Test {
    uint64_t      seed;
    int           n_queries;
    bool          is_verbose;
    DataSet       data;
    weft_db      *db;
    weft_session *keeping, *fresh;
    int64_t       n_plans;             // of shapes, that were found
    int           n_passed, n_failed, n_errors, n_cut_off;      // errors: of those passed
} Test;

typedef struct Answer {
    weft_status status;
    weft_error  error;
    size_t      n_rows;
    int         n_columns;
    u64         sum;                   // of the hashes of its rows, whose order does not count, and of its names
} Answer;

// ---- answers --------------------------------------------------------------------------------------------------------

static u64 hash_of_row(const weft_result *result, size_t row)
{
    u64 hash = 17;
    for (int c = 0; c < weft_result_columns(result); c++) {
        char               cell[400];
        const weft_column *column = weft_result_column(result, c);
        const bool         is_null = column->is_null && column->is_null[row];
        const size_t       length = weft_format(result, c, row, cell, sizeof cell);
        hash = hash * 1000003 + hash_bytes(cell, MIN_OF(length, sizeof cell - 1)) + is_null;
    }
    return hash;
}

static Answer ask(weft_session *session, const char *sql)
{
    Answer       answer = { 0 };
    weft_result *result = NULL;
    answer.status = weft_query(session, sql, &result, &answer.error);
    if (answer.status) return answer;
    answer.n_rows = weft_result_rows(result);
    answer.n_columns = weft_result_columns(result);
    for (int c = 0; c < answer.n_columns; c++)
        answer.sum += hash_bytes(weft_result_column(result, c)->name, strlen(weft_result_column(result, c)->name)) +
                      (u64)weft_result_column(result, c)->type * (u64)(c + 1);
    for (size_t row = 0; row < answer.n_rows; row++) answer.sum += hash_of_row(result, row);
    weft_result_free(result);
    return answer;
}

static bool is_same(const Answer *a, const Answer *b)
{
    if (a->status != b->status) return false;
    if (a->status)
        return a->error.position == b->error.position && strcmp(a->error.message, b->error.message) == 0 &&
               strcmp(a->error.hint, b->error.hint) == 0;
    return a->n_rows == b->n_rows && a->n_columns == b->n_columns && a->sum == b->sum;
}

static void print_answer(const char *who, const Answer *answer)
{
    if (answer->status)
        printf("    %s: at %d: %s (%s)\n", who, answer->error.position, answer->error.message, answer->error.hint);
    else printf("    %s: %zu rows, sum %016" PRIx64 "\n", who, answer->n_rows, (uint64_t)answer->sum);
}

static bool is_cut_off(const Answer *answer)
{
    return answer->status == WEFT_QUERY_CANCELED || answer->status == WEFT_OUT_OF_MEMORY;
}

static void try_text(Test *test, const char *sql)
{
    const Answer kept = ask(test->keeping, sql), fresh = ask(test->fresh, sql);
    if (test->is_verbose) printf("%s\n", sql), print_answer("kept", &kept);
    if (is_cut_off(&kept) || is_cut_off(&fresh)) {
        test->n_cut_off++;
    } else if (is_same(&kept, &fresh)) {
        test->n_passed++;
        test->n_errors += fresh.status != WEFT_OK;
    } else if (test->n_failed++ < MOST_SHOWN) {
        printf("FAIL (seed %" PRIu64 ", data set %" PRIu64 "): %s\n", test->seed, test->data.number, sql);
        print_answer("kept", &kept), print_answer("fresh", &fresh);
    }
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void try_query(Test *test, uint64_t number)
{
    Arena      *arena = arena_new(NULL, "query");
    uint64_t    state = test->seed * 1000003 + number;
    RandomQuery query;
    query_draw(arena, &test->data, number, &query);
    char *sql = query_sql(&query, &test->data, IN_WEFT);
    try_text(test, sql);
    for (int i = 1; i < TEXTS_PER_QUERY; i++) try_text(test, text_with_others(arena, sql, &state));
    try_text(test, sql);                                    // again: by its text
    free(sql);
    arena_free(arena);
}

// Literals that are compared: plans of a shape are made for them, and used.
static void try_compared(Test *test, uint64_t number)
{
    Arena *arena = arena_new(NULL, "compared");
    Rng    values = rng_from(test->seed, 78, number);
    for (int i = 0; i < COMPARED_PER_QUERY; i++) try_text(test, compared_sql(arena, &test->data, number, &values));
    arena_free(arena);
}

static void demand(weft_status status, const weft_error *error, const char *sql)
{
    if (!status) return;
    printf("FAIL: %s\n  %.400s\n", error->message, sql);
    exit(1);
}

static void must(weft_session *session, const char *sql)
{
    weft_error error;
    demand(weft_query(session, sql, NULL, &error), &error, sql);
}

static void must_free(weft_session *session, char *sql)
{
    must(session, sql);
    free(sql);
}

static void count_plans(Test *test)
{
    weft_error   error;
    weft_result *result;
    demand(weft_query(test->keeping, "select found from weft_plans where what = 'plans of shapes'", &result, &error),
           &error, "weft_plans");
    test->n_plans += weft_result_column(result, 0)->i64[0];
    weft_result_free(result);
}

static void close_data(Test *test)
{
    if (!test->db) return;
    count_plans(test);
    weft_disconnect(test->keeping);
    weft_disconnect(test->fresh);
    weft_close(test->db);
    test->db = NULL;
}

static weft_session *connect_with(Test *test, const char *plan_cache)
{
    weft_session *session;
    weft_error    error;
    demand(weft_connect(test->db, &session, &error), &error, "connect");
    must(session, "set jit = tcc; set statement_timeout = 400; set chunk_rows = 256; set memory_limit = '300MB'");
    must(session, plan_cache);
    return session;
}

static void open_data(Test *test, uint64_t number)
{
    weft_error error;
    close_data(test);
    data_draw(&test->data, test->seed, number);
    demand(weft_open(NULL, &test->db, &error), &error, "open");
    test->keeping = connect_with(test, "set plan_cache = on");
    test->fresh = connect_with(test, "set plan_cache = off");
    for (int t = 0; t < test->data.n_tables; t++) {
        const int n_rows = MIN_OF(test->data.tables[t].n_rows, 300);
        must_free(test->keeping, data_create_sql(&test->data, t, IN_WEFT));
        for (int row = 0; row < n_rows; row += 150)
            must_free(test->keeping, data_insert_sql(&test->data, t, row, MIN_OF(150, n_rows - row), IN_WEFT));
    }
}

static bool parse_options(int argc, char **argv, Test *test)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) test->is_verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) test->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) test->n_queries = atoi(argv[++i]);
        else return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    Test test = { .seed = 1, .n_queries = 60 };
    if (!parse_options(argc, argv, &test)) {
        fprintf(stderr, "usage: shapes [--seed S] [--count N] [--verbose]\n");
        return 2;
    }
    const int64_t before = trees_found();
    for (int i = 0; i < test.n_queries; i++) {
        if (i % QUERIES_PER_DATA_SET == 0) open_data(&test, (uint64_t)i / QUERIES_PER_DATA_SET);
        try_query(&test, (uint64_t)i);
        try_compared(&test, (uint64_t)i);
    }
    close_data(&test);
    const int64_t n_found = trees_found() - before;
    printf("%d of the texts are errors, %d took too long; %lld trees and %lld plans of shapes were found\n",
           test.n_errors, test.n_cut_off, (long long)n_found, (long long)test.n_plans);
    const bool has_few = n_found < 2 * test.n_queries || test.n_plans < test.n_queries / 2;
    if (has_few || test.n_errors < test.n_queries / 10 || test.n_cut_off > test.n_queries / 4)
        test.n_failed++, printf("FAIL: too few were found, or too few errors, or too many took too long\n");
    printf("%d passed, %d failed\n", test.n_passed, test.n_failed);
    return test.n_failed != 0;
}
