// first.c - a first program with Weft: make a table, fill it, ask, read the answer column by column.
//
//     cc first.c $(pkg-config --cflags --libs weft) -o first && ./first      after make install

#include <stdio.h>
#include <weft.h>

// Runs SQL of which only success is of interest.
static int run(weft_session *session, const char *sql)
{
    weft_result *result;
    weft_error error;
    if (weft_query(session, sql, &result, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%s\n", weft_result_tag(result));               // what was done: "CREATE TABLE", "INSERT 0 4"
    weft_result_free(result);
    return 0;
}

// A result is a set of columns, each a plain array: no call per value, no text to parse.
static int show_totals(weft_session *session)
{
    weft_result *result;
    weft_error error;
    const char *sql = "select city, count(*), sum(price) from sales group by city order by city";
    if (weft_query(session, sql, &result, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const weft_column *city = weft_result_column(result, 0), *n = weft_result_column(result, 1);
    for (size_t row = 0; row < weft_result_rows(result); row++) {
        char total[64];
        weft_format(result, 2, row, total, sizeof total);  // a sum of decimals has 128 bits: easiest as text
        printf("%-8s %lld sales, %s in all\n", city->is_null && city->is_null[row] ? "nowhere" : city->text[row].bytes,
               (long long)n->i64[row], total);
    }
    weft_result_free(result);                              // the arrays go with it
    return 0;
}

// An error has a code, a message, and the character of the SQL text where it was found.
static void show_error(weft_session *session)
{
    weft_result *result;
    weft_error error;
    const char *sql = "select sum(prise) from sales";
    if (weft_query(session, sql, &result, &error))
        printf("%s\n%*s^\n%s (SQLSTATE %s)\n", sql, error.position > 0 ? error.position - 1 : 0, "",
               error.message, error.sqlstate);
    else
        weft_result_free(result);
}

int main(void)
{
    weft_db *db = NULL;
    weft_session *session = NULL;
    weft_error error;

    // NULL opens a database in memory; a path would keep it in that directory.
    if (weft_open(NULL, &db, &error) || weft_connect(db, &session, &error)) {
        fprintf(stderr, "%s\n", error.message);
        weft_close(db);
        return 1;
    }
    int failed = run(session, "create table sales (city text, price decimal(8,2))")
        || run(session, "insert into sales values ('Oslo', 2.50), ('Rome', 4), ('Oslo', 1.25), (null, 10)")
        || show_totals(session);
    if (!failed)
        show_error(session);
    weft_disconnect(session);
    weft_close(db);
    return failed;
}
