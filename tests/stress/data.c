// data.c - the tables and the thread that appends.
//
// A row is a function of the seed, its number and its batch, so totals over any prefix of the batches are known without
// asking Weft.  Appended rows bring texts that the dictionaries have not seen.  Appends that fail (a NULL where none
// may be) carry a batch number that no live query may ever see.

#define _GNU_SOURCE
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NEVER_BATCH = 99999999 };

// ---- random numbers ----------------------------------------------------------------------------------------------

u64 random_next(Random *random)
{
    u64 x = random->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int random_below(Random *random, int n)
{
    return (int)(random_next(random) % (u64)n);
}

int random_between(Random *random, int low, int high)
{
    return low + random_below(random, high - low + 1);
}

bool random_chance(Random *random, int percent)
{
    return random_below(random, 100) < percent;
}

u64 mix(u64 a, u64 b)
{
    Random random = { a ^ b * 0xd6e8feb86659fd93u };
    random_next(&random);
    return random_next(&random);
}

// ---- rows --------------------------------------------------------------------------------------------------------

typedef struct Row {
    i64 id;
    int batch, cust, item, day, qty, code, size, mark;  // cust, day, qty: -1 for NULL
    i64 price;                                          // cents
    int weight;                                         // thousandths; -1: NULL
    char tag[32];                                       // "": NULL
} Row;

static Row row_of(const Data *data, i64 id, int batch)
{
    Random random = { mix(data->seed, (u64)id) };
    Row row = { .id = id, .batch = batch };
    row.cust = random_chance(&random, 5) ? -1 : random_below(&random, N_CUSTOMERS + 100);  // some have no customer
    row.item = random_below(&random, random_chance(&random, 50) ? N_ITEMS : 20);
    row.day = random_chance(&random, 2) ? -1 : random_below(&random, 1500);
    row.qty = random_chance(&random, 3) ? -1 : random_between(&random, 1, 50);
    row.code = random_below(&random, N_CODES) - N_CODES / 2;
    row.price = random_below(&random, 1000000);
    row.weight = random_chance(&random, 4) ? -1 : random_below(&random, 1000000);
    row.size = random_below(&random, N_SHELVES);
    row.mark = random_below(&random, 12);
    const int kind = random_below(&random, 100), number = random_below(&random, 40);
    if (kind < 84)
        snprintf(row.tag, sizeof row.tag, "tag_%d", number);
    else if (kind < 94)
        snprintf(row.tag, sizeof row.tag, "b%d_%d", batch, number % 7);
    return row;
}

static void add_number(Text *text, int number)
{
    if (number >= 0)
        text_add(text, "%d", number);
    else
        text_add(text, "null");
}

static void add_day(Text *text, int day, const char *quote)
{
    int year, month, of_month;
    date_to_civil(date_from_civil(2020, 1, 1) + day, &year, &month, &of_month);
    text_add(text, "%s%04d-%02d-%02d%s", quote, year, month, of_month, quote);
}

// The same row for INSERT and, with "null" as the text of NULL, for COPY.
static void add_row(Text *text, const Row *row, const char *quote)
{
    text_add(text, "%lld,%d,", (long long)row->id, row->batch);
    add_number(text, row->cust);
    text_add(text, ",%d,", row->item);
    if (row->day < 0)
        text_add(text, "null");
    else
        add_day(text, row->day, quote);
    text_add(text, ",");
    add_number(text, row->qty);
    text_add(text, ",%lld.%02lld,", (long long)(row->price / 100), (long long)(row->price % 100));
    if (row->weight < 0)
        text_add(text, "null");
    else
        text_add(text, "%d.%03d", row->weight / 1000, row->weight % 1000);
    text_add(text, ",");
    if (row->tag[0])
        text_add(text, "%s%s%s", quote, row->tag, quote);
    else
        text_add(text, "null");
    text_add(text, ",%d,%d,%d", row->code, row->size, row->mark);
}

static int batch_rows(const Data *data, int batch)
{
    if (batch < FIRST_BATCHES)
        return data->first_rows / FIRST_BATCHES;
    return 10 + (int)(mix(data->seed + 1, (u64)batch) % 400);
}

static i64 first_row(const Data *data, int batch)
{
    return batch == 0 ? 0 : data->totals[batch - 1].n_rows;
}

static void add_totals(Data *data, int batch)
{
    Totals *totals = &data->totals[batch];
    if (batch > 0)
        *totals = data->totals[batch - 1];
    else
        *totals = (Totals){ 0 };
    const i64 first = totals->n_rows;
    for (i64 id = first; id < first + batch_rows(data, batch); id++) {
        const Row row = row_of(data, id, batch);
        const int code = row.code + N_CODES / 2;
        totals->n_rows++, totals->sum_price += row.price, totals->code_rows[code]++;
        if (row.qty >= 0)
            totals->n_qty++, totals->sum_qty += row.qty, totals->code_qty[code] += row.qty;
    }
}

// ---- statements --------------------------------------------------------------------------------------------------

static weft_status run(Data *data, const char *sql, weft_error *error)
{
    weft_result *result;
    const weft_status status = weft_query(data->session, sql, &result, error);
    weft_result_free(result);
    return status;
}

static bool must_run(Data *data, const char *sql)
{
    weft_error error;
    if (run(data, sql, &error) == WEFT_OK)
        return true;
    printf("FAIL %.200s\n  %s: %s\n", sql, error.sqlstate, error.message);
    return false;
}

static bool must_run_text(Data *data, Text *sql)
{
    const bool ok = must_run(data, sql->bytes);
    text_free(sql);
    return ok;
}

static weft_status insert_rows(Data *data, int batch, i64 first, int n_rows, bool is_bad, weft_error *error)
{
    Text sql = { 0 };
    text_add(&sql, "insert into fact values ");
    for (i64 id = first; id < first + n_rows; id++) {
        const Row row = row_of(data, id, batch);
        text_add(&sql, "%s(", id == first ? "" : ", ");
        add_row(&sql, &row, "'");
        text_add(&sql, ")");
    }
    if (is_bad)
        text_add(&sql, ", (null, %d, 1, 1, null, 1, 1, 1, 'bad', 1, 1, 1)", NEVER_BATCH);
    const weft_status status = run(data, sql.bytes, error);
    text_free(&sql);
    return status;
}

static weft_status copy_rows(Data *data, int batch_first, int batch_end, weft_error *error)
{
    char path[400], sql[600];
    Text text = { 0 };
    weft_status status = WEFT_OK;
    snprintf(path, sizeof path, "%s/rows.csv", data->directory);
    snprintf(sql, sizeof sql, "copy fact from '%s' (format csv, null 'null')", path);
    for (int batch = batch_first; batch < batch_end; batch++)
        for (i64 id = first_row(data, batch); id < data->totals[batch].n_rows; id++) {
            const Row row = row_of(data, id, batch);
            add_row(&text, &row, "");
            text_add(&text, "\n");
        }
    FILE *out = fopen(path, "w");
    if (!out || fwrite(text.bytes, 1, text.length, out) != text.length || fclose(out)) {
        snprintf(error->message, sizeof error->message, "could not write %s", path);
        snprintf(error->sqlstate, sizeof error->sqlstate, "58030");
        status = WEFT_IO_ERROR;
    }
    text_free(&text);
    return status ? status : run(data, sql, error);
}

// ---- the small tables --------------------------------------------------------------------------------------------

static bool create_customers(Data *data)
{
    Text sql = { 0 };
    text_add(&sql, "create table customer(c_id integer not null, c_region text not null, c_city text, c_level smallint,"
                   " c_limit decimal(10,2)); insert into customer values ");
    for (int i = 0; i < N_CUSTOMERS; i++) {
        Random random = { mix(data->seed + 2, (u64)i) };
        text_add(&sql, "%s(%d, 'region_%d', ", i ? ", " : "", i, random_below(&random, 5));
        if (random_chance(&random, 5))
            text_add(&sql, "null, ");
        else
            text_add(&sql, "'city_%d', ", random_below(&random, 150));
        if (random_chance(&random, 5))
            text_add(&sql, "null, ");
        else
            text_add(&sql, "%d, ", random_below(&random, 8));
        text_add(&sql, "%d.%02d)", random_below(&random, 10000), random_below(&random, 100));
    }
    return must_run_text(data, &sql);
}

static bool create_items(Data *data)
{
    Text sql = { 0 };
    text_add(
        &sql,
        "create table item(i_id integer not null, i_brand text, i_kind integer, i_price decimal(8,2), i_weight double"
        " precision); insert into item values ");
    for (int i = 0; i < N_ITEMS; i++) {
        Random random = { mix(data->seed + 3, (u64)i) };
        text_add(&sql, "%s(%d, 'brand_%d', %d, %d.%02d, ", i ? ", " : "", i, random_below(&random, 25),
                 random_below(&random, 10), random_below(&random, 1000), random_below(&random, 100));
        if (random_chance(&random, 5))
            text_add(&sql, "null)");
        else
            text_add(&sql, "%.2f)", random_below(&random, 1000) / 4.0);
    }
    return must_run_text(data, &sql);
}

static bool create_offers(Data *data)
{
    Text sql = { 0 };
    text_add(
        &sql,
        "create table offer(o_item integer not null, o_kind integer, o_rate decimal(4,2), o_name text);"
        " insert into offer values ");
    for (int i = 0; i < N_OFFERS; i++) {
        Random random = { mix(data->seed + 4, (u64)i) };
        text_add(&sql, "%s(%d, %d, 0.%02d, 'tag_%d')", i ? ", " : "", random_below(&random, N_ITEMS),
                 random_below(&random, 6), random_below(&random, 100), random_below(&random, 60));
    }
    return must_run_text(data, &sql);
}

static bool create_shelves(Data *data)
{
    Text sql = { 0 };
    text_add(
        &sql,
        "create table shelf(s_id smallint not null, s_name text not null, s_floor smallint not null);"
        " insert into shelf values ");
    for (int i = 0; i < N_SHELVES; i++)
        text_add(&sql, "%s(%d, 'shelf_%d', %d)", i ? ", " : "", i, i % 30, (int)(mix(data->seed + 5, (u64)i) % 10));
    return must_run_text(data, &sql);
}

bool data_create(Data *data)
{
    weft_error error;
    data->totals = calloc(MOST_BATCHES, sizeof *data->totals);
    if (weft_connect(data->db, &data->session, &error))
        return false;
    if (!create_customers(data) || !create_items(data) || !create_offers(data) || !create_shelves(data))
        return false;
    if (!must_run(
            data,
            "create table fact(id bigint not null, batch integer not null, cust integer, item integer not null,"
            " day date, qty integer, price decimal(12,2), weight double precision, tag text, code smallint,"
            " size smallint not null,"
            " mark smallint not null)"))
        return false;
    for (int batch = 0; batch < FIRST_BATCHES; batch++)
        add_totals(data, batch);
    if (copy_rows(data, 0, FIRST_BATCHES, &error)) {
        printf("FAIL loading: %s: %s\n", error.sqlstate, error.message);
        return false;
    }
    atomic_store(&data->begun, FIRST_BATCHES - 1);
    atomic_store(&data->committed, FIRST_BATCHES - 1);
    return true;
}

void data_drop(Data *data)
{
    must_run(data, "drop table fact, customer, item, offer, shelf");
    weft_disconnect(data->session);
    free(data->totals);
}

// ---- appending ---------------------------------------------------------------------------------------------------

static void report(Data *data, const char *what, weft_status status, const weft_error *error)
{
    if (status == WEFT_OUT_OF_MEMORY && atomic_load(&data->may_fail)) {
        atomic_fetch_add(&data->n_refused, 1);
        return;
    }
    atomic_fetch_add(&data->n_failed, 1);
    printf("FAIL %s: %s: %s\n", what, error->sqlstate, error->message);
}

static void append_batch(Data *data)
{
    const int batch = atomic_load(&data->committed) + 1;
    weft_error error;
    if (batch >= MOST_BATCHES)
        return;
    add_totals(data, batch);
    atomic_store(&data->begun, batch);
    const weft_status status = random_chance(&data->random, 30) ? copy_rows(data, batch, batch + 1, &error)
                                                                : insert_rows(data, batch, first_row(data, batch),
                                                                              batch_rows(data, batch), false, &error);
    if (status) {
        report(data, "appending", status, &error);
        return;  // the same batch is tried again
    }
    atomic_store(&data->committed, batch);
    atomic_fetch_add(&data->n_appends, 1);
}

// Half of the rows are fine, and none of them must be seen.
static void append_badly(Data *data)
{
    weft_error error;
    const weft_status status = insert_rows(data, NEVER_BATCH, 1000000000, 20, true, &error);
    if (status == WEFT_NOT_NULL_VIOLATION)
        return;
    if (status == WEFT_OK)
        snprintf(error.message, sizeof error.message, "a null was taken where none may be");
    report(data, "appending a null", status ? status : WEFT_INTERNAL, &error);
}

// Rows that no query asks for, but that make a new version of a small table: join tables of old and new ones live side
// by side.
static void append_offer(Data *data)
{
    char sql[200];
    weft_error error;
    snprintf(sql, sizeof sql, "insert into offer values (-1, %d, 0.5, 'no_%d')", random_below(&data->random, 6),
             random_below(&data->random, 1000));
    const weft_status status = run(data, sql, &error);
    if (status)
        report(data, "appending an offer", status, &error);
}

static void *append_all_the_time(void *context)
{
    Data *data = context;
    while (!atomic_load(&data->is_ending)) {
        const int what = random_below(&data->random, 100);
        usleep((useconds_t)random_below(&data->random, 30000));
        if (what < 80)
            append_batch(data);
        else if (what < 90)
            append_badly(data);
        else
            append_offer(data);
    }
    return NULL;
}

void data_start(Data *data)
{
    atomic_store(&data->is_ending, false);
    if (pthread_create(&data->thread, NULL, append_all_the_time, data))
        abort();
}

void data_stop(Data *data)
{
    atomic_store(&data->is_ending, true);
    pthread_join(data->thread, NULL);
}
