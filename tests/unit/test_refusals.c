// test_refusals.c - what src/sql/refusals.def says is refused is refused, in these words; and the manual says the same.

#include "test.h"

#include "engine_help.h"
#include "sql/refusals.h"

static void make_tables(void)
{
    open_db(NULL);
    run("create table t (a integer, b integer, x text, d date, p decimal(12,2), f double precision, m timestamp)");
    run("create table u (a integer, c integer)");
    run("insert into t values (1, 2, 'x', '2026-01-01', 1.5, 2.5, '2026-01-01 10:00:00')");
}

static int n_wrong;                                         // all are told before the test fails

static void check_refused(const Refusal *refusal, const char *sql, const char *message)
{
    weft_result *result = NULL;
    const bool works = weft_query(session, sql, &result, &err) == WEFT_OK;
    const bool is_right = !works && strcmp(err.sqlstate, "0A000") == 0 && strcmp(err.message, message) == 0 &&
                          (!refusal->instead || refusal->message || strcmp(err.hint, refusal->instead) == 0);
    weft_result_free(result);
    n_wrong += !is_right;
    if (works) printf("it works: delete \"%s\" from src/sql/refusals.def: %s\n", refusal->name, sql);
    else if (!is_right)
        printf("%s: \"%s\" (%s, hint \"%s\") instead of \"%s\"\n", sql, err.message, err.sqlstate, err.hint, message);
}

TEST(examples_are_refused_by_their_names)
{
    char message[256];
    make_tables();
    n_wrong = 0;
    for (int n = 0; refusal_at(n); n++) {
        const Refusal *refusal = refusal_at(n);
        if (refusal->kind != REFUSAL_FEATURE || !refusal->example) continue;
        snprintf(message, sizeof message, "%s is not supported yet", refusal->name);
        check_refused(refusal, refusal->example, refusal->message ? refusal->message : message);
    }
    close_db();
    CHECK_INT(n_wrong, 0);
}

static void check_named(const Refusal *refusal, const char *sql, const char *what)
{
    char statement[256], message[256];
    snprintf(statement, sizeof statement, sql, refusal->name);
    snprintf(message, sizeof message, "%s %s is not supported yet", what, refusal->name);
    check_refused(refusal, statement, message);
}

TEST(functions_types_and_operators_are_refused_by_their_names)
{
    make_tables();
    n_wrong = 0;
    for (int n = 0; refusal_at(n); n++) {
        const Refusal *refusal = refusal_at(n);
        if (refusal->kind == REFUSAL_FUNCTION) check_named(refusal, "select pg_catalog.%s(a) from t", "function");
        if (refusal->kind == REFUSAL_TYPE) check_named(refusal, "select null::\"%s\"", "type");
        if (refusal->kind == REFUSAL_OPERATOR)
            check_named(refusal, "select a operator(pg_catalog.%s) b from t", "operator");
    }
    close_db();
    CHECK_INT(n_wrong, 0);
}

TEST(no_refusal_stands_twice)
{
    for (int a = 0; refusal_at(a); a++)
        for (int b = 0; b < a; b++)
            if (refusal_at(a)->kind == refusal_at(b)->kind && refusal_at(a)->example && refusal_at(b)->example)
                CHECK(strcmp(refusal_at(a)->name, refusal_at(b)->name) != 0);
}

TEST(each_chapter_of_the_readme_says_what_works)
{
    CHECK(refusal_at(0)->kind == REFUSAL_CHAPTER);
    for (int n = 0; refusal_at(n); n++) CHECK(refusal_at(n)->name != NULL);
}
