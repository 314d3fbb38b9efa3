// test_gen.c - the Star Schema Benchmark: keys that resolve, formulas that hold, shares that are those of the paper,
// and the same rows whatever the number of workers.

#include <fcntl.h>

#include "gen_data.h"

// The generator is part of the program, not of the library.
#include "shell/gen.c"
#include "shell/gen_load.c"
#include "shell/gen_random.c"
#include "shell/gen_setquery.c"
#include "shell/gen_ssb.c"
#include "shell/gen_tpch.c"
#include "shell/gen_tpch_text.c"
#include "shell/gen_words.c"

// ---- a generated database -------------------------------------------------------------------------------------------

static weft_status generate_into(Data *data, const GenOptions *options, int n_workers)
{
    Pool *pool = pool_new(n_workers);
    error_clear(&data->err);
    weft_status status = gen_ssb(data->store, pool, options, &data->err);
    pool_free(pool);
    return status;
}

static Data make_data(double scale, u64 seed, int n_workers)
{
    Data data = empty_data();
    GenOptions options = { .scale = scale, .seed = seed };
    CHECK_OK(generate_into(&data, &options, n_workers), data.err);
    return data;
}

static void check_between(const i64 *values, i64 n, i64 low, i64 high)
{
    i64 min = INT64_MAX, max = INT64_MIN;
    for (i64 i = 0; i < n; i++) {
        min = MIN_OF(min, values[i]);
        max = MAX_OF(max, values[i]);
    }
    CHECK_INT(min, low);
    CHECK_INT(max, high);
}

// Five standard deviations of a count of N tries with this probability, and a little for counts near zero.
static void check_share(const char *what, i64 count, i64 n, double probability)
{
    double expected = (double)n * probability, tolerance = 5 * sqrt(expected * (1 - probability)) + 3;
    if (!(fabs((double)count - expected) <= tolerance))
        CHECK_FAIL("%s: %lld of %lld, should be %.1f +- %.1f", what, (long long)count, (long long)n, expected,
                   tolerance);
}

// ---- sizes and keys -------------------------------------------------------------------------------------------------

TEST(gen_row_counts)
{
    Data data = make_data(0.01, 1, 2);
    CHECK_INT(row_count(&data, "part"), 2000);
    CHECK_INT(row_count(&data, "customer"), 300);
    CHECK_INT(row_count(&data, "supplier"), 20);
    CHECK_INT(row_count(&data, "date"), 2557);
    i64 n_lines = row_count(&data, "lineorder");
    CHECK(n_lines > 58500 && n_lines < 61500);              // 15,000 orders of 1 to 7 lines
    free_data(&data);
}

TEST(gen_sizes_follow_the_paper)
{
    GenOptions options = { .scale = 1 };
    Rules rules = make_rules(&options);
    CHECK_INT(rules.n_parts, 200000);
    CHECK_INT(rules.n_customers, 30000);
    CHECK_INT(rules.n_suppliers, 2000);
    CHECK_INT(rules.n_orders, 1500000);
    const struct { double scale; i64 n_parts; } larger[] = {
        { 2, 400000 }, { 3, 400000 }, { 4, 600000 }, { 10, 800000 }, { 100, 1400000 }
    };
    for (int i = 0; i < COUNT_OF(larger); i++) {
        options.scale = larger[i].scale;
        CHECK_INT(make_rules(&options).n_parts, larger[i].n_parts);
    }
    options.scale = 1e-9;
    CHECK_INT(make_rules(&options).n_suppliers, 1);
}

TEST(gen_tiny_and_wrong_scales)
{
    Data data = make_data(1e-9, 1, 2);
    CHECK_INT(row_count(&data, "customer"), 1);
    CHECK(row_count(&data, "lineorder") >= 1);
    free_data(&data);
    const double wrong[] = { 0, -1, NAN, INFINITY, 351 };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        GenOptions options = { .scale = wrong[i], .seed = 1 };
        data = empty_data();
        CHECK_STATUS(generate_into(&data, &options, 1), WEFT_INVALID_PARAMETER);
        free_data(&data);
    }
}

TEST(gen_dimension_keys_count_from_one)
{
    Data data = make_data(0.05, 7, 2);
    const char *const keys[][2] = { { "part", "p_partkey" }, { "customer", "c_custkey" }, { "supplier", "s_suppkey" } };
    for (int i = 0; i < COUNT_OF(keys); i++) {
        const i64 *values = read_column(&data, keys[i][0], keys[i][1]);
        for (i64 row = 0; row < row_count(&data, keys[i][0]); row++)
            CHECK_INT(values[row], row + 1);
    }
    free_data(&data);
}

TEST(gen_lineorder_keys_resolve)
{
    Data data = make_data(0.05, 7, 2);
    i64 n = row_count(&data, "lineorder");
    check_between(read_column(&data, "lineorder", "lo_partkey"), n, 1, 10000);
    check_between(read_column(&data, "lineorder", "lo_suppkey"), n, 1, 100);
    const i64 *customers = read_column(&data, "lineorder", "lo_custkey");
    check_between(customers, n, 1, 1499);                   // 1500 is a third one
    for (i64 i = 0; i < n; i++)
        CHECK(customers[i] % 3 != 0);
    bool *is_day = arena_array(data.arena, bool, 19990000);
    const i64 *days = read_column(&data, "date", "d_datekey");
    for (i64 i = 0; i < DAYS; i++)
        is_day[days[i]] = true;
    const i64 *ordered = read_column(&data, "lineorder", "lo_orderdate");
    const i64 *committed = read_column(&data, "lineorder", "lo_commitdate");
    check_between(ordered, n, 19920101, 19980802);
    for (i64 i = 0; i < n; i++)
        CHECK(is_day[ordered[i]] && is_day[committed[i]]);
    free_data(&data);
}

static i64 day_number(i64 key)
{
    return date_from_civil((int)(key / 10000), (int)(key / 100 % 100), (int)(key % 100));
}

TEST(gen_lineorder_formulas)
{
    Data data = make_data(0.02, 3, 2);
    i64 n = row_count(&data, "lineorder");
#define COLUMN(name) const i64 *name = read_column(&data, "lineorder", "lo_" #name)
    COLUMN(orderkey);
    COLUMN(linenumber);
    COLUMN(custkey);
    COLUMN(partkey);
    COLUMN(orderdate);
    COLUMN(quantity);
    COLUMN(extendedprice);
    COLUMN(ordertotalprice);
    COLUMN(discount);
    COLUMN(revenue);
    COLUMN(supplycost);
    COLUMN(tax);
    COLUMN(commitdate);
#undef COLUMN
    check_between(quantity, n, 1, 50);
    check_between(discount, n, 0, 10);
    check_between(tax, n, 0, 8);
    check_between(linenumber, n, 1, 7);
    i64 n_orders = 0;
    for (i64 first = 0, end; first < n; first = end) {
        i64 total = 0;
        n_orders++;
        CHECK_INT(orderkey[first], n_orders / 8 * 32 + n_orders % 8);
        for (end = first; end < n && orderkey[end] == orderkey[first]; end++) {
            i64 price = 90000 + partkey[end] / 10 % 20001 + 100 * (partkey[end] % 1000);
            i64 wait = day_number(commitdate[end]) - day_number(orderdate[end]);
            CHECK_INT(linenumber[end], end - first + 1);
            CHECK_INT(custkey[end], custkey[first]);
            CHECK_INT(orderdate[end], orderdate[first]);
            CHECK_INT(extendedprice[end], quantity[end] * price);
            CHECK_INT(revenue[end], extendedprice[end] * (100 - discount[end]) / 100);
            CHECK_INT(supplycost[end], 6 * price / 10);
            CHECK(wait >= 30 && wait <= 90);
            total += revenue[end] * (100 + tax[end]) / 100;
        }
        for (i64 i = first; i < end; i++)
            CHECK_INT(ordertotalprice[i], total);
    }
    CHECK_INT(n_orders, 30000);
    free_data(&data);
}

// ---- dimensions -----------------------------------------------------------------------------------------------------

// A line of the file, counted from 0.
static const char *file_line(Data *data, const char *path, int number)
{
    Text text = { 0 };
    CHECK_OK(file_read_all(path, &text, &data->err), data->err);
    const char *start = text.bytes;
    for (int i = 0; i < number; i++)
        start = strchr(start, '\n') + 1;
    const char *line = arena_strndup(data->arena, start, strcspn(start, "\n"));
    text_free(&text);
    return line;
}

TEST(gen_dates_are_those_of_dbgen)
{
    Data data = empty_data();
    GenOptions options = { .scale = 0.0001, .seed = 1, .tbl_dir = test_path("dates") };
    CHECK_OK(generate_into(&data, &options, 2), data.err);
    const char *path = test_path("dates/date.tbl");
    CHECK_STR(file_line(&data, path, 0),
              "19920101|January 1, 1992|Thursday|January|1992|199201|Jan1992|5|1|1|1|1|Winter|0|0|1|1|");
    CHECK_STR(file_line(&data, path, 59),
              "19920229|February 29, 1992|Sunday|February|1992|199202|Feb1992|1|29|60|2|9|Winter|0|1|0|0|");
    CHECK_STR(file_line(&data, path, 2549),
              "19981224|December 24, 1998|Friday|December|1998|199812|Dec1998|6|24|358|12|52|Christmas|0|0|1|1|");
    CHECK_STR(file_line(&data, path, 2556),
              "19981231|December 31, 1998|Friday|December|1998|199812|Dec1998|6|31|365|12|53|Christmas|0|1|0|1|");
    CHECK_STR(file_line(&data, path, 2557), "");
    free_data(&data);
}

TEST(gen_texts_have_their_form)
{
    Data data = make_data(0.05, 1, 2);
    const char **names = read_texts(&data, "part", "p_name"), **colors_ = read_texts(&data, "part", "p_color");
    const char **mfgrs = read_texts(&data, "part", "p_mfgr"), **categories = read_texts(&data, "part", "p_category");
    const char **brands = read_texts(&data, "part", "p_brand1");
    for (i64 i = 0; i < row_count(&data, "part"); i++) {
        size_t first = strcspn(names[i], " ");
        CHECK(strlen(names[i]) <= 22 && names[i][first] == ' ');
        CHECK(strncmp(names[i], names[i] + first + 1, first) != 0 || names[i][2 * first + 1]);
        CHECK(strncmp(names[i], colors_[i], first) != 0 || colors_[i][first]);
        CHECK(strcmp(names[i] + first + 1, colors_[i]) != 0);
        CHECK(strncmp(categories[i], mfgrs[i], 6) == 0 && strlen(categories[i]) == 7);
        CHECK(strncmp(brands[i], categories[i], 7) == 0);
        int brand = atoi(brands[i] + 7);
        CHECK(brand >= 1 && brand <= 40 && brands[i][7] != '0');
    }
    const char **cities = read_texts(&data, "customer", "c_city");
    const char **nations_ = read_texts(&data, "customer", "c_nation");
    const char **customers = read_texts(&data, "customer", "c_name");
    const char **phones = read_texts(&data, "customer", "c_phone");
    const char **addresses = read_texts(&data, "customer", "c_address");
    for (i64 i = 0; i < row_count(&data, "customer"); i++) {
        char city[16], name[32];
        snprintf(city, sizeof(city), "%-9.9s%c", nations_[i], cities[i][9]);
        snprintf(name, sizeof(name), "Customer#%09d", (int)i + 1);
        CHECK_STR(cities[i], city);
        CHECK_STR(customers[i], name);
        CHECK_INT(strlen(phones[i]), 15);
        CHECK(strlen(addresses[i]) >= 6 && strlen(addresses[i]) <= 24);
    }
    free_data(&data);
}

TEST(gen_words_are_equally_frequent)
{
    static const struct { const char *table, *column; int n_values; } columns[] = {
        { "part", "p_mfgr", 5 },           { "part", "p_category", 25 },
        { "part", "p_brand1", 1000 },      { "part", "p_color", 92 },
        { "part", "p_type", 150 },         { "part", "p_container", 40 },
        { "customer", "c_city", 250 },     { "customer", "c_nation", 25 },
        { "customer", "c_region", 5 },     { "customer", "c_mktsegment", 5 },
        { "supplier", "s_nation", 25 },    { "supplier", "s_region", 5 },
        { "lineorder", "lo_shipmode", 7 }, { "lineorder", "lo_orderpriority", 5 },
        { "lineorder", "lo_shippriority", 1 },
    };
    Data data = make_data(0.2, 1, 2);
    for (int i = 0; i < COUNT_OF(columns); i++) {
        i64 n = row_count(&data, columns[i].table), counts[1000] = { 0 };
        const i64 *codes = read_column(&data, columns[i].table, columns[i].column);
        for (i64 row = 0; row < n; row++)
            counts[codes[row]]++;
        double spread = columns[i].table[0] == 'l' ? 4 : 1; // lines of an order share its priority
        for (int code = 0; code < columns[i].n_values; code++)
            check_share(columns[i].column, (i64)((double)counts[code] / spread), (i64)((double)n / spread),
                        1.0 / columns[i].n_values);
    }
    free_data(&data);
}

// ---- the queries ----------------------------------------------------------------------------------------------------

// Which rows of a dimension satisfy a query's condition on it, by key; and what share of the rows that is.
typedef struct Choice { bool *is_chosen; double share; } Choice;

// Rows whose text is one of two (or, with BETWEEN, from one to the other).
static Choice choose(Data *data, const char *table, const char *column, const char *low, const char *high,
                     bool is_between)
{
    const char **texts = read_texts(data, table, column);
    i64 n = row_count(data, table), n_chosen = 0, n_counted = 0;
    Choice choice = { arena_array(data->arena, bool, n + 1), 0 };
    for (i64 row = 0; row < n; row++) {
        bool is_in = is_between ? strcmp(texts[row], low) >= 0 && strcmp(texts[row], high) <= 0
                                : !strcmp(texts[row], low) || !strcmp(texts[row], high);
        choice.is_chosen[row + 1] = is_in;
        if (table[0] == 'c' && (row + 1) % 3 == 0)          // a customer who never buys
            continue;
        n_counted++;
        n_chosen += is_in;
    }
    choice.share = (double)n_chosen / (double)n_counted;
    return choice;
}

static Choice everything(Data *data, const char *table)
{
    Choice choice = { arena_array(data->arena, bool, row_count(data, table) + 1), 1 };
    memset(choice.is_chosen, 1, (size_t)row_count(data, table) + 1);
    return choice;
}

typedef struct Query {
    const char *name;
    Choice      part, supplier, customer;
    i64         from, to;                                   // order dates
    int         discount_from, discount_to, quantity_from, quantity_to;
    double      paper;                                      // the share of rows that the paper gives, about
} Query;

static double share_of_days(i64 from, i64 to)
{
    i64 first = MAX_OF(day_number(from), day_number(19920101)), last = MIN_OF(day_number(to), day_number(19980802));
    return (double)(last - first + 1) / ORDER_DAYS;
}

typedef struct Lines { i64 n, *part, *supplier, *customer, *date, *discount, *quantity; } Lines;

static Lines read_lines_of(Data *data)
{
    return (Lines){ .n = row_count(data, "lineorder"),
                    .part = read_column(data, "lineorder", "lo_partkey"),
                    .supplier = read_column(data, "lineorder", "lo_suppkey"),
                    .customer = read_column(data, "lineorder", "lo_custkey"),
                    .date = read_column(data, "lineorder", "lo_orderdate"),
                    .discount = read_column(data, "lineorder", "lo_discount"),
                    .quantity = read_column(data, "lineorder", "lo_quantity") };
}

static void check_query(const Lines *lines, const Query *query)
{
    i64 count = 0;
    for (i64 i = 0; i < lines->n; i++)
        count += query->part.is_chosen[lines->part[i]] && query->supplier.is_chosen[lines->supplier[i]] &&
                 query->customer.is_chosen[lines->customer[i]] && lines->date[i] >= query->from &&
                 lines->date[i] <= query->to && lines->discount[i] >= query->discount_from &&
                 lines->discount[i] <= query->discount_to && lines->quantity[i] >= query->quantity_from &&
                 lines->quantity[i] <= query->quantity_to;
    double share = query->part.share * query->supplier.share * query->customer.share *
                   share_of_days(query->from, query->to) * (query->discount_to - query->discount_from + 1) / 11 *
                   (query->quantity_to - query->quantity_from + 1) / 50;
    check_share(query->name, count / 4, lines->n / 4, share);       // the lines of an order are not independent
    CHECK(share > query->paper * 0.5 && share < query->paper * 2);
}

TEST(gen_queries_select_what_the_paper_says)
{
    Data data = make_data(0.5, 1, 2);
    Choice all_parts = everything(&data, "part"), all_suppliers = everything(&data, "supplier");
    Choice all_customers = everything(&data, "customer");
    Choice s_america = choose(&data, "supplier", "s_region", "AMERICA", "AMERICA", false);
    Choice s_asia = choose(&data, "supplier", "s_region", "ASIA", "ASIA", false);
    Choice s_europe = choose(&data, "supplier", "s_region", "EUROPE", "EUROPE", false);
    Choice s_states = choose(&data, "supplier", "s_nation", "UNITED STATES", "UNITED STATES", false);
    Choice s_cities = choose(&data, "supplier", "s_city", "UNITED KI1", "UNITED KI5", false);
    Choice c_america = choose(&data, "customer", "c_region", "AMERICA", "AMERICA", false);
    Choice c_asia = choose(&data, "customer", "c_region", "ASIA", "ASIA", false);
    Choice c_states = choose(&data, "customer", "c_nation", "UNITED STATES", "UNITED STATES", false);
    Choice c_cities = choose(&data, "customer", "c_city", "UNITED KI1", "UNITED KI5", false);
    Choice p_12 = choose(&data, "part", "p_category", "MFGR#12", "MFGR#12", false);
    Choice p_14 = choose(&data, "part", "p_category", "MFGR#14", "MFGR#14", false);
    Choice p_brands = choose(&data, "part", "p_brand1", "MFGR#2221", "MFGR#2228", true);
    Choice p_brand = choose(&data, "part", "p_brand1", "MFGR#2221", "MFGR#2221", false);
    Choice p_mfgrs = choose(&data, "part", "p_mfgr", "MFGR#1", "MFGR#2", false);
    const i64 first = 19920101, last = 19981231;
    const Lines lines = read_lines_of(&data);
    const Query queries[] = {
        { "q11", all_parts, all_suppliers, all_customers, 19930101, 19931231, 1, 3, 1, 24, 0.019 },
        { "q12", all_parts, all_suppliers, all_customers, 19940101, 19940131, 4, 6, 26, 35, 0.00065 },
        { "q13", all_parts, all_suppliers, all_customers, 19940204, 19940210, 5, 7, 26, 35, 0.00015 },
        { "q21", p_12, s_america, all_customers, first, last, 0, 10, 1, 50, 1.0 / 125 },
        { "q22", p_brands, s_asia, all_customers, first, last, 0, 10, 1, 50, 1.0 / 625 },
        { "q23", p_brand, s_europe, all_customers, first, last, 0, 10, 1, 50, 1.0 / 5000 },
        { "q31", all_parts, s_asia, c_asia, first, 19971231, 0, 10, 1, 50, 0.034 },
        { "q32", all_parts, s_states, c_states, first, 19971231, 0, 10, 1, 50, 0.0014 },
        { "q33", all_parts, s_cities, c_cities, first, 19971231, 0, 10, 1, 50, 0.000055 },
        { "q34", all_parts, s_cities, c_cities, 19971201, 19971231, 0, 10, 1, 50, 0.00000076 },
        { "q41", p_mfgrs, s_america, c_america, first, last, 0, 10, 1, 50, 2.0 / 125 },
        { "q42", p_mfgrs, s_america, c_america, 19970101, last, 0, 10, 1, 50, 0.0046 },
        { "q43", p_14, s_states, c_america, 19970101, last, 0, 10, 1, 50, 0.000091 },
    };
    for (int i = 0; i < COUNT_OF(queries); i++)
        check_query(&lines, &queries[i]);
    free_data(&data);
}

// ---- the same again -------------------------------------------------------------------------------------------------

static const char *const all_tables[] = { "part", "customer", "supplier", "date", "lineorder" };

TEST(gen_is_the_same_with_any_number_of_workers)
{
    Data one = make_data(0.05, 42, 1), four = make_data(0.05, 42, 4), other = make_data(0.05, 43, 2);
    for (int i = 0; i < GEN_SSB_TABLES; i++) {
        CHECK(same_table(&one, &four, all_tables[i]));
        CHECK(same_table(&one, &other, all_tables[i]) == !strcmp(all_tables[i], "date"));
    }
    free_data(&one);
    free_data(&four);
    free_data(&other);
}

TEST(gen_files_are_the_same_with_any_number_of_workers)
{
    Pool *one = pool_new(1), *four = pool_new(4);
    Error err;
    error_clear(&err);
    GenOptions options = { .scale = 0.03, .seed = 5, .tbl_dir = test_path("one") };
    CHECK_OK(gen_ssb(NULL, one, &options, &err), err);
    options.tbl_dir = test_path("four");
    CHECK_OK(gen_ssb(NULL, four, &options, &err), err);
    for (int i = 0; i < GEN_SSB_TABLES; i++) {
        Text a = { 0 }, b = { 0 };
        CHECK_OK(file_read_all(tbl_path("one", all_tables[i]), &a, &err), err);
        CHECK_OK(file_read_all(tbl_path("four", all_tables[i]), &b, &err), err);
        CHECK_INT(a.length, b.length);
        CHECK_BYTES(a.bytes, b.bytes, a.length);
        text_free(&a);
        text_free(&b);
    }
    pool_free(one);
    pool_free(four);
}

// What COPY reads from the files is what the generator put into the tables.
TEST(gen_files_and_tables_agree)
{
    Data data = empty_data(), copied = empty_data();
    GenOptions options = { .scale = 0.02, .seed = 9, .tbl_dir = test_path("agree") };
    CHECK_OK(generate_into(&data, &options, 2), data.err);
    for (int i = 0; i < GEN_SSB_TABLES; i++)
        check_file(&data, &copied, "agree", all_tables[i]);
    free_data(&data);
    free_data(&copied);
}

// ---- when it cannot be done -----------------------------------------------------------------------------------------

TEST(gen_never_overwrites)
{
    Data data = make_data(0.001, 1, 1);
    GenOptions options = { .scale = 0.001, .seed = 2 };
    CHECK_STATUS(generate_into(&data, &options, 1), WEFT_DUPLICATE_TABLE);
    CHECK_STR(data.err.message, "table \"part\" exists already");
    for (int i = 0; i < 4; i++)
        CHECK_OK(store_drop_table(data.store, all_tables[i], &data.err), data.err);
    CHECK_STATUS(generate_into(&data, &options, 1), WEFT_DUPLICATE_TABLE);
    CHECK_STR(data.err.message, "table \"lineorder\" exists already");
    CHECK_INT(row_count(&data, "part"), -1);
    free_data(&data);

    data = empty_data();
    options.tbl_dir = test_path("mine");
    CHECK_OK(dir_make(options.tbl_dir, &data.err), data.err);
    FILE *file = fopen(tbl_path("mine", "date"), "w");
    CHECK(file && fclose(file) == 0);
    CHECK_STATUS(generate_into(&data, &options, 1), WEFT_DUPLICATE_TABLE);
    CHECK_HAS(data.err.message, "date.tbl\" exists already");
    CHECK_INT(row_count(&data, "part"), -1);
    CHECK(!file_exists(tbl_path("mine", "part")) && file_exists(tbl_path("mine", "date")));
    free_data(&data);
}

TEST(gen_cancel_leaves_nothing)
{
    _Atomic bool cancel = true;
    Data data = empty_data();
    GenOptions options = { .scale = 0.01, .seed = 1, .tbl_dir = test_path("canceled"), .cancel = &cancel };
    CHECK_STATUS(generate_into(&data, &options, 2), WEFT_QUERY_CANCELED);
    for (int i = 0; i < GEN_SSB_TABLES; i++) {
        CHECK_INT(row_count(&data, all_tables[i]), -1);
        CHECK(!file_exists(tbl_path("canceled", all_tables[i])));
    }
    free_data(&data);
}

TEST(gen_fault_leaves_nothing)
{
    const FaultKind kinds[] = { FAULT_FILE, FAULT_MEMORY };
    for (int kind = 0; kind < COUNT_OF(kinds); kind++) {
        for (int nth = 1, step = 1;; nth += step, step += nth / 20) {
            Data data = empty_data();
            GenOptions options = { .scale = 0.02, .seed = 1, .tbl_dir = test_path(kind ? "no-memory" : "no-file") };
            fault_set(kinds[kind], nth, false);
            weft_status status = generate_into(&data, &options, 1 + nth % 3);
            fault_set(kinds[kind], 0, false);
            for (int i = 0; i < GEN_SSB_TABLES; i++)
                CHECK_INT(row_count(&data, all_tables[i]) >= 0, !status);
            bool has_file = file_exists(tbl_path(kind ? "no-memory" : "no-file", "lineorder"));
            CHECK_INT(has_file, !status);
            free_data(&data);
            if (!status)
                break;
        }
    }
}

TEST(gen_progress_and_counts)
{
    _Atomic int done = -1;
    GenCount counts[GEN_SSB_TABLES];
    Data data = empty_data();
    GenOptions options = { .scale = 0.01, .seed = 1, .progress = &done, .counts = counts };
    CHECK_OK(generate_into(&data, &options, 2), data.err);
    CHECK_INT(done, 1000);
    for (int i = 0; i < GEN_SSB_TABLES; i++)
        CHECK_INT(counts[i].n_rows, row_count(&data, counts[i].table));
    free_data(&data);
}

// ---- the command ----------------------------------------------------------------------------------------------------

// The exit status; what it prints goes nowhere.
static int run_command(const char *const *words)
{
    char *argv[16] = { 0 };
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = strdup(words[argc]);
    fflush(NULL);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    char *first = argv[0];
    int status = gen_main(argc, argv);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(nowhere);
    free(first);                                            // gen_main puts its own name there
    for (int i = 1; i < argc; i++)
        free(argv[i]);
    return status;
}

#define COMMAND(...) run_command((const char *const[]){ "gen", __VA_ARGS__, NULL })

TEST(gen_command)
{
    const char *database = test_path("made.weft"), *dir = test_path("made");
    CHECK_INT(COMMAND("ssb", "--sf", "0.01", "--seed", "3", "--tbl", dir, database), 0);
    CHECK_INT(COMMAND("ssb", "--sf", "0.01", database), 1);
    Budget budget = { 0 };
    Store *store;
    Error err;
    error_clear(&err);
    CHECK_OK(store_open(database, &budget, &store, &err), err);
    const Table *table = store_table(store, "customer");
    CHECK(table && table->n_rows == 300);
    table_release(table);
    store_close(store);
    CHECK(file_exists(tbl_path("made", "lineorder")));
}

TEST(gen_command_tpch)
{
    const char *dir = test_path("tpch");
    CHECK_INT(COMMAND("tpch", "--sf", "0.001", "--threads", "2", "--tbl", dir), 0);
    CHECK(file_exists(tbl_path("tpch", "lineitem")) && file_exists(tbl_path("tpch", "region")));
    CHECK_INT(COMMAND("tpch", "--sf", "0.001", "--tbl", dir), 1);
}

TEST(gen_command_line_errors)
{
    CHECK_INT(COMMAND("--help"), 0);
    CHECK_INT(run_command((const char *const[]){ "gen", NULL }), 2);
    CHECK_INT(COMMAND("tpcds", "x"), 2);
    CHECK_INT(COMMAND("tpch"), 2);
    CHECK_INT(COMMAND("tpch", "--sf", "351", "x"), 2);
    CHECK_INT(COMMAND("tpch", "--seed", "1", "x"), 2);
    CHECK_INT(COMMAND("--seed", "1", "tpch", "x"), 2);
    CHECK_INT(COMMAND("ssb"), 2);
    CHECK_INT(COMMAND("ssb", "--sf", "0", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--sf", "nan", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--sf", "1000", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--sf", "1x", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--seed", "-1", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--threads", "0", "x"), 2);
    CHECK_INT(COMMAND("ssb", "--what", "x"), 2);
    CHECK_INT(COMMAND("ssb", "x", "y"), 2);
    CHECK(!file_exists("x.weft"));
}
