// test_gen_tpch.c - TPC-H: the files of dbgen, whatever the number of workers, and tables that agree with them.

#include <md5.h>

#include "gen_data.h"

// The generator is part of the program, not of the library.
#include "shell/gen_load.c"
#include "shell/gen_random.c"
#include "shell/gen_tpch.c"
#include "shell/gen_tpch_text.c"
#include "shell/gen_words.c"

// At scale factor 0.01: what dbgen 2.14 writes.
static const struct { const char *name; i64 n_rows; const char *md5; } tpch_tables[GEN_TPCH_TABLES] = {
    { "region", 5, "c235841b00d29ad4f817771fcc851207" },
    { "nation", 25, "2f588e0b7fa72939b498c2abecd9fbbe" },
    { "part", 2000, "9cce16188c241c25617ca5ed6191e37e" },
    { "supplier", 100, "56e0621c472064c2a998757c70b44043" },
    { "partsupp", 8000, "c6889c3ed0939ca02475f7fb410cbb50" },
    { "customer", 1500, "a8aa97edad6d47b183a569759fbd3eec" },
    { "orders", 15000, "c8d2008fb47f47f9e56543d4cb0f4e6a" },
    { "lineitem", 60175, "4c6d44350a1f7974f56f5d3d7091c2be" },
};

static weft_status make_tables(Data *data, double scale, const char *dir, int n_workers)
{
    Pool *pool = pool_new(n_workers);
    GenOptions options = { .scale = scale, .tbl_dir = dir ? test_path(dir) : NULL };
    error_clear(&data->err);
    weft_status status = gen_tpch(data->store, pool, &options, &data->err);
    pool_free(pool);
    return status;
}

static void check_md5(const char *dir)
{
    for (int i = 0; i < GEN_TPCH_TABLES; i++) {
        char digest[MD5_DIGEST_STRING_LENGTH];
        CHECK(MD5File(tbl_path(dir, tpch_tables[i].name), digest) != NULL);
        CHECK_STR(digest, tpch_tables[i].md5);
    }
}

static i64 sum_column(Data *data, const char *name, const char *column)
{
    const i64 *values = read_column(data, name, column);
    i64 sum = 0;
    for (i64 row = 0; row < row_count(data, name); row++)
        sum += values[row];
    return sum;
}

// ---- the rows -------------------------------------------------------------------------------------------------------

TEST(gen_tpch_files_are_those_of_dbgen_with_any_number_of_workers)
{
    Data one = empty_data(), three = empty_data(), copied = empty_data();
    CHECK_OK(make_tables(&one, 0.01, "one", 1), one.err);
    CHECK_OK(make_tables(&three, 0.01, "three", 3), three.err);
    check_md5("one");
    check_md5("three");
    for (int i = 0; i < GEN_TPCH_TABLES; i++) {
        CHECK_INT(row_count(&three, tpch_tables[i].name), tpch_tables[i].n_rows);
        CHECK(same_table(&one, &three, tpch_tables[i].name));
        check_file(&three, &copied, "three", tpch_tables[i].name);
    }
    CHECK_INT(sum_column(&three, "lineitem", "l_quantity"), 153612700);
    CHECK_INT(sum_column(&three, "lineitem", "l_extendedprice"), 215218976047);
    CHECK_INT(sum_column(&three, "orders", "o_totalprice"), 212739683002);
    CHECK_INT(sum_column(&three, "customer", "c_acctbal"), 668186559);
    free_data(&one);
    free_data(&three);
    free_data(&copied);
}

TEST(gen_tpch_types_are_those_of_the_specification)
{
    Data data = empty_data();
    const struct { const char *table, *column, *type; bool not_null; } columns[] = {
        { "region", "r_comment", "text", false },
        { "customer", "c_acctbal", "decimal(15,2)", true },
        { "orders", "o_orderkey", "integer", true },
        { "orders", "o_orderdate", "date", true },
        { "lineitem", "l_quantity", "decimal(15,2)", true },
        { "lineitem", "l_comment", "text", true },
    };
    CHECK_OK(make_tables(&data, 0.001, NULL, 2), data.err);
    for (int i = 0; i < COUNT_OF(columns); i++) {
        char name[32];
        const Table *table = store_table(data.store, columns[i].table);
        const Column *column = &table->columns[table_find_column(table, columns[i].column)];
        CHECK_STR(type_name(column->type, name), columns[i].type);
        CHECK_INT(column->not_null, columns[i].not_null);
        table_release(table);
    }
    free_data(&data);
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

TEST(gen_tpch_sizes)
{
    const struct { double scale; i64 n_suppliers, n_parts, n_customers, n_orders, n_clerks; } sizes[] = {
        { 1e-9, 1, 1, 1, 1, 1000 },
        { 0.001, 10, 200, 150, 1500, 1000 },
        { 0.29, 2900, 58000, 43500, 435000, 1000 },
        { 1, 10000, 200000, 150000, 1500000, 1000 },
        { 1.5, 15000, 300000, 225000, 2250000, 1500 },
        { 100, 1000000, 20000000, 15000000, 150000000, 100000 },
    };
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        Tpch tpch = make_tpch(sizes[i].scale);
        CHECK_INT(tpch.n_suppliers, sizes[i].n_suppliers);
        CHECK_INT(tpch.n_parts, sizes[i].n_parts);
        CHECK_INT(tpch.n_customers, sizes[i].n_customers);
        CHECK_INT(tpch.n_orders, sizes[i].n_orders);
        CHECK_INT(tpch.n_clerks, sizes[i].n_clerks);
    }
    CHECK(gen_order_key((u64)make_tpch(GEN_SCALE_MAX).n_orders) <= INT32_MAX);
}

TEST(gen_tpch_wrong_scales)
{
    const double wrong[] = { 0, -1, NAN, INFINITY, 351 };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        Data data = empty_data();
        CHECK_STATUS(make_tables(&data, wrong[i], NULL, 1), WEFT_INVALID_PARAMETER);
        free_data(&data);
    }
}

// ---- random numbers -------------------------------------------------------------------------------------------------

// Park and Miller give the 10,000th number after 1 to check an implementation with.
TEST(gen_tpch_streams_are_park_and_miller)
{
    RandomStream stream = { .value = 1 };
    for (int i = 0; i < 10000; i++)
        stream_draw(&stream, 1, 6);
    CHECK_INT(stream.value, 1043618065);
    CHECK_INT(stream_power(STREAM_FACTOR, 10000), 1043618065);
    CHECK_INT(stream_power(STREAM_FACTOR, STREAM_MODULUS - 1), 1);
}

TEST(gen_tpch_streams_are_entered_at_any_row)
{
    RandomStream walked[STREAM_N], entered[STREAM_N];
    streams_enter(walked, 0, STREAM_N - 1, 0);
    for (u64 row = 0; row < 1000; row++) {
        if (row % 97 == 0) {
            streams_enter(entered, 0, STREAM_N - 1, row);
            for (int i = 0; i < STREAM_N; i++)
                CHECK_INT(walked[i].value, entered[i].value);
        }
        stream_draw(&walked[row % STREAM_N], 0, 9);         // however many were drawn
        streams_next_row(walked, 0, STREAM_N - 1);
    }
}

// ---- when it cannot be done -----------------------------------------------------------------------------------------

static void check_nothing(Data *data, const char *dir)
{
    for (int i = 0; i < GEN_TPCH_TABLES; i++) {
        CHECK_INT(row_count(data, tpch_tables[i].name), -1);
        CHECK(!file_exists(tbl_path(dir, tpch_tables[i].name)));
    }
}

TEST(gen_tpch_cancel_leaves_nothing)
{
    _Atomic bool cancel = true;
    Data data = empty_data();
    Pool *pool = pool_new(2);
    GenOptions options = { .scale = 0.01, .tbl_dir = test_path("canceled"), .cancel = &cancel };
    CHECK_STATUS(gen_tpch(data.store, pool, &options, &data.err), WEFT_QUERY_CANCELED);
    check_nothing(&data, "canceled");
    pool_free(pool);
    free_data(&data);
}

// The text, room for its pieces, then what a worker needs, and the dictionaries.
TEST(gen_tpch_fault_leaves_nothing)
{
    const struct { FaultKind kind; int nth; } faults[] = {
        { FAULT_MEMORY, 1 }, { FAULT_MEMORY, 2 }, { FAULT_MEMORY, 3 }, { FAULT_MEMORY, 100 }, { FAULT_FILE, 12 },
    };
    for (int i = 0; i < COUNT_OF(faults); i++) {
        Data data = empty_data();
        fault_set(faults[i].kind, faults[i].nth, false);
        weft_status status = make_tables(&data, 0.01, "fault", 3);
        fault_set(faults[i].kind, 0, false);
        CHECK(status != WEFT_OK);
        check_nothing(&data, "fault");
        free_data(&data);
    }
}
