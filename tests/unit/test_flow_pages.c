// test_flow_pages.c - frames of columns: random pages beside a plain scan, counts, damage, operators that read them.

#include "test.h"

#include <stdlib.h>

#include "base/random.h"
#include "flow/page_index.h"
#include "weft_flow.h"

static weft_error err;

// On threads, also where there is a GPU: tests/gpu/flow.c is about that.
__attribute__((constructor)) static void use_threads(void) { setenv("WEFT_DEVICE", "cpu", 1); }

enum { FRAME_BYTES = 128 * 1024, COLUMNS = 4 };

static _Alignas(4096) u8 frame[FRAME_BYTES];

static const weft_page_column all_types[COLUMNS] = {
    { WEFT_PAGE_I32, 1000 }, { WEFT_PAGE_I64, 1000 }, { WEFT_PAGE_F32, 1000 }, { WEFT_PAGE_F64, 1000 } };

static u64 n_random;                                        // drawn so far

static u64 draw(u64 below) { return random_bits(20, n_random++) % below; }

static bool is_float(weft_page_type type) { return type == WEFT_PAGE_F32 || type == WEFT_PAGE_F64; }

static void put(void *values, weft_page_type type, u64 i, i64 whole, double real)
{
    switch (type) {
    case WEFT_PAGE_I32: ((i32 *)values)[i] = (i32)whole; break;
    case WEFT_PAGE_I64: ((i64 *)values)[i] = whole; break;
    case WEFT_PAGE_F32: ((float *)values)[i] = (float)real; break;
    case WEFT_PAGE_F64: ((double *)values)[i] = real; break;
    }
}

static i64 whole_at(const void *values, weft_page_type type, u64 i)
{
    return type == WEFT_PAGE_I32 ? ((const i32 *)values)[i] : ((const i64 *)values)[i];
}

static double real_at(const void *values, weft_page_type type, u64 i)
{
    return type == WEFT_PAGE_F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

static weft_round round_of(u64 length, weft_page_counts *counts)
{
    return (weft_round){ .input = frame, .input_bytes = length, .page_counts = counts };
}

// ---- keys -----------------------------------------------------------------------------------------------------------

TEST(keys_are_in_the_order_of_values)
{
    static const double reals[] = { -INFINITY, -1e300, -2, -1, -1e-310, 0, 1e-310, 1, 1.5, 1e300, INFINITY };
    static const i64 wholes[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX };
    for (size_t i = 0; i < COUNT_OF(reals); i++)
        for (size_t j = 0; j < COUNT_OF(reals); j++)
            CHECK((flow_key_f64_(reals[i]) < flow_key_f64_(reals[j])) == (reals[i] < reals[j]));
    for (size_t i = 0; i < COUNT_OF(wholes); i++)
        for (size_t j = 0; j < COUNT_OF(wholes); j++)
            CHECK((flow_key_i64_(wholes[i]) < flow_key_i64_(wholes[j])) == (wholes[i] < wholes[j]));
    CHECK(flow_key_f64_(-0.0) == flow_key_f64_(0.0));
}

// ---- random pages beside a plain scan -------------------------------------------------------------------------------

typedef struct Plain { bool holds, is_in_range; } Plain;    // a value from low to high; the page's range meets it

static Plain scan(const weft_pages *pages, int column, weft_page_type type, u32 page, i64 low, i64 high, double from,
                  double to)
{
    const void *values = weft_pages_column(pages, column);
    const u64 first = (u64)page * pages->rows_per_page;
    Plain plain = { false, false };
    bool is_below = false, is_above = false;                // some value is not above HIGH, not below LOW
    for (u64 i = first; i < first + weft_page_rows(pages, page); i++) {
        const bool below = is_float(type) ? real_at(values, type, i) <= to : whole_at(values, type, i) <= high;
        const bool above = is_float(type) ? real_at(values, type, i) >= from : whole_at(values, type, i) >= low;
        plain.holds |= below && above;
        is_below |= below;
        is_above |= above;
    }
    plain.is_in_range = is_below && is_above;
    return plain;
}

static bool may_hold(const weft_pages *pages, int column, u32 page, i64 low, i64 high, double from, double to)
{
    return is_float(all_types[column].type) ? weft_page_may_hold_f64(pages, column, page, from, to)
                                            : weft_page_may_hold_i64(pages, column, page, low, high);
}

// Values of SPREAD of a middle that moves from page to page; the larger, the less do pages differ.
static u64 fill(weft_pages *pages, const weft_page_column *columns, u64 n_rows, i64 spread)
{
    for (int column = 0; column < (int)pages->n_columns; column++)
        for (u64 i = 0; i < n_rows; i++) {
            const i64 middle = (i64)(i / pages->rows_per_page) * 1000 - 4000;
            const i64 value = middle + (i64)draw((u64)spread);
            put(weft_pages_column(pages, column), columns[column].type, i, value, (double)value / 4);
        }
    return weft_pages_finish(pages, n_rows);
}

TEST(no_page_that_holds_a_value_is_ruled_out)
{
    i64 n_ruled_out = 0, n_asked = 0;
    for (int times = 0; times < 60; times++) {
        weft_pages pages, read;
        const u64 capacity = 40960 + draw(FRAME_BYTES - 40960 + 1);
        CHECK_OK(weft_pages_begin(frame, capacity, all_types, COLUMNS, &pages, &err), err);
        const u64 n_rows = times % 10 == 0 ? pages.rows_max : draw(pages.rows_max + 1);
        const u64 length = fill(&pages, all_types, n_rows, times % 2 ? 1500 : 100000);
        CHECK(length <= capacity);
        const weft_round round = round_of(length, NULL);
        CHECK_OK(weft_pages_open(&round, all_types, COLUMNS, &read, &err), err);
        CHECK(read.n_rows == n_rows && read.rows_per_page == 512);
        CHECK_INT(read.n_pages, (n_rows + 511) / 512);
        for (int look = 0; look < 400; look++) {
            const int column = (int)draw(COLUMNS);
            const i64 low = (i64)draw(20000) - 6000;
            const i64 high = look % 3 == 0 ? low : low + (i64)draw(3000);
            for (u32 page = 0; page < read.n_pages; page++) {
                const double from = (double)low / 4, to = (double)high / 4;
                const Plain plain = scan(&read, column, all_types[column].type, page, low, high, from, to);
                const bool may = may_hold(&read, column, page, low, high, from, to);
                CHECK(may || !plain.holds);
                CHECK(!may || plain.is_in_range);           // what the range rules out is ruled out
                n_asked += low == high && plain.is_in_range && !plain.holds;
                n_ruled_out += low == high && plain.is_in_range && !may;
            }
        }
    }
    CHECK(n_asked > 3000);
    CHECK(n_ruled_out > n_asked * 6 / 10 && n_ruled_out < n_asked);         // by filters of 4 bits a value
}

TEST(extremes_and_nan_are_found_where_they_can_be)
{
    static const double reals[] = { NAN, -INFINITY, -0.0, 5e-324, INFINITY, -NAN };
    static const weft_page_column columns[] = { { WEFT_PAGE_F64, 512 }, { WEFT_PAGE_I64, 512 }, { WEFT_PAGE_F64, 0 } };
    weft_pages pages;
    CHECK_OK(weft_pages_begin(frame, FRAME_BYTES, columns, 3, &pages, &err), err);
    for (u64 i = 0; i < COUNT_OF(reals); i++) {
        ((double *)weft_pages_column(&pages, 0))[i] = reals[i];
        ((i64 *)weft_pages_column(&pages, 1))[i] = i % 2 ? INT64_MIN : INT64_MAX;
        ((double *)weft_pages_column(&pages, 2))[i] = NAN;
    }
    weft_pages_finish(&pages, COUNT_OF(reals));
    CHECK(weft_page_may_hold_f64(&pages, 0, 0, 0, 0) && weft_page_may_hold_f64(&pages, 0, 0, -0.0, -0.0));
    CHECK(weft_page_may_hold_f64(&pages, 0, 0, INFINITY, INFINITY));
    CHECK(weft_page_may_hold_f64(&pages, 0, 0, -INFINITY, -INFINITY));
    CHECK(weft_page_may_hold_f64(&pages, 0, 0, 5e-324, 5e-324));
    CHECK(!weft_page_may_hold_f64(&pages, 0, 0, NAN, NAN));                 // it equals nothing
    CHECK(!weft_page_may_hold_f64(&pages, 2, 0, -INFINITY, INFINITY));      // nor is it between any two
    CHECK(weft_page_may_hold_i64(&pages, 1, 0, INT64_MIN, INT64_MIN));
    CHECK(weft_page_may_hold_i64(&pages, 1, 0, INT64_MAX, INT64_MAX));
    CHECK(weft_page_may_hold_i64(&pages, 0, 0, 7, 7));                      // of a float nothing is known by integers
    CHECK(weft_page_may_hold_f64(&pages, 1, 0, 0.5, 0.5));
    CHECK(!weft_page_may_hold_f64(&pages, 0, 1, 0, 0) && !weft_page_may_hold_i64(&pages, 3, 0, 0, 0));
    CHECK(!weft_page_values(&pages, 0, 1) && !weft_page_values(&pages, -1, 0) && weft_page_rows(&pages, 1) == 0);
}

// ---- layout and counts ----------------------------------------------------------------------------------------------

TEST(values_are_where_they_were_written_and_counted)
{
    static const weft_page_column columns[] = { { WEFT_PAGE_I32, 0 }, { WEFT_PAGE_F32, 64 }, { WEFT_PAGE_I32, 0 } };
    weft_pages pages, read;
    weft_page_counts counts = { 0 };
    CHECK_OK(weft_pages_begin(frame, FRAME_BYTES, columns, 3, &pages, &err), err);
    CHECK_INT(pages.rows_per_page, 1024);                   // 4 KB of 4 bytes each
    CHECK(pages.rows_max >= 9 * 1024 && pages.rows_max % 1024 == 0);
    enum { ROWS = 5 * 1024 + 7 };
    for (int column = 0; column < 3; column++) {
        CHECK((uintptr_t)weft_pages_column(&pages, column) % 4096 == 0);
        for (u64 i = 0; i < ROWS; i++)
            put(weft_pages_column(&pages, column), columns[column].type, i, (i64)i, (double)i);
    }
    const u64 length = weft_pages_finish(&pages, ROWS);
    const weft_round round = round_of(length, &counts);
    CHECK_OK(weft_pages_open(&round, columns, 3, &read, &err), err);
    CHECK(counts.pages == 18 && counts.bytes == 3 * 4 * ROWS);
    for (u32 page = 0; page < read.n_pages; page++)
        if (weft_page_may_hold_i64(&read, 2, page, 2000, 2100)) {
            const i32 *values = weft_page_values(&read, 0, page);
            CHECK_INT(values[0], 1024 * page);
            CHECK_INT(weft_page_rows(&read, page), 1024);
        }
    CHECK(counts.pages_asked == 2 && counts.bytes_asked == 2 * 4096);       // rows 1024 to 3071
    CHECK(counts.pages_by_range == 4 && counts.bytes_by_range == 3 * 4096 + 7 * 4);
    CHECK(weft_page_may_hold_f64(&read, 1, 5, 5120, 5120));
    int n_ruled_out = 0;                                    // values between two that are there
    for (int i = 0; i < 200; i++)
        n_ruled_out += !weft_page_may_hold_f64(&read, 1, 5, 5120.5 + i / 64.0, 5120.5 + i / 64.0);
    CHECK(n_ruled_out > 150 && counts.pages_by_bloom == n_ruled_out);
    CHECK_INT(counts.bytes_by_bloom, n_ruled_out * 7 * 4);
    CHECK_INT(counts.pages, 18);
}

TEST(a_frame_without_room_or_with_wrong_columns_is_refused)
{
    weft_page_column columns[64];
    weft_pages pages;
    for (int i = 0; i < 64; i++)
        columns[i] = (weft_page_column){ WEFT_PAGE_I64, 512 };
    CHECK_STATUS(weft_pages_begin(frame, 8192, columns, 1, &pages, &err), WEFT_INVALID_PARAMETER);
    CHECK_OK(weft_pages_begin(frame, 12288, columns, 1, &pages, &err), err);
    CHECK_INT(pages.rows_max, 512);
    CHECK_STATUS(weft_pages_begin(frame, FRAME_BYTES, columns, 64, &pages, &err), WEFT_INVALID_PARAMETER);
    CHECK_STATUS(weft_pages_begin(frame, FRAME_BYTES, columns, 0, &pages, &err), WEFT_INVALID_PARAMETER);
    CHECK_STATUS(weft_pages_begin(frame + 8, 65536, columns, 1, &pages, &err), WEFT_INVALID_PARAMETER);
    columns[1].type = 5;
    CHECK_STATUS(weft_pages_begin(frame, FRAME_BYTES, columns, 2, &pages, NULL), WEFT_INVALID_PARAMETER);
    columns[1].type = WEFT_PAGE_F32;
    u8 *large = aligned_alloc(4096, WEFT_FRAME_MOST);
    CHECK_OK(weft_pages_begin(large, WEFT_FRAME_MOST, columns, 63, &pages, &err), err);
    const u64 length = weft_pages_finish(&pages, UINT64_MAX);               // no more than fit
    CHECK(pages.n_rows == pages.rows_max && length <= WEFT_FRAME_MOST && length > WEFT_FRAME_MOST * 9 / 10);
    free(large);
}

// ---- damage ---------------------------------------------------------------------------------------------------------

static u64 small_frame(void)
{
    weft_pages pages;
    CHECK_OK(weft_pages_begin(frame, FRAME_BYTES, all_types, COLUMNS, &pages, &err), err);
    return fill(&pages, all_types, 2000, 500);
}

static weft_status open_frame(u64 length, weft_pages *pages)
{
    const weft_round round = round_of(length, NULL);
    return weft_pages_open(&round, all_types, COLUMNS, pages, &err);
}

TEST(damaged_frames_are_refused)
{
    weft_pages pages;
    const u64 length = small_frame();
    CHECK_OK(open_frame(length, &pages), err);
    for (int bit = 0; bit < (1 + COLUMNS) * 64 * 8; bit++) {
        frame[bit / 8] ^= (u8)(1 << bit % 8);
        CHECK_STATUS(open_frame(length, &pages), WEFT_CORRUPT);
        CHECK(pages.n_pages == 0);
        frame[bit / 8] ^= (u8)(1 << bit % 8);
    }
    CHECK_OK(open_frame(length, &pages), err);
    CHECK_STATUS(open_frame(length - 1, &pages), WEFT_CORRUPT);
    CHECK_STATUS(open_frame(100, &pages), WEFT_CORRUPT);
    CHECK_STATUS(open_frame(0, &pages), WEFT_CORRUPT);
    const weft_round none = { .input_bytes = 8192 }, whole = round_of(length, NULL);
    CHECK_STATUS(weft_pages_open(&none, all_types, 1, &pages, &err), WEFT_CORRUPT);
    const weft_page_column other[] = { { WEFT_PAGE_I32, 0 }, { WEFT_PAGE_F64, 0 } };
    CHECK_OK(weft_pages_open(&whole, other, 1, &pages, &err), err);         // the first is enough
    CHECK_STATUS(weft_pages_open(&whole, other, 2, &pages, &err), WEFT_CORRUPT);
    CHECK(strstr(err.message, "column 1"));
    CHECK_STATUS(weft_pages_open(&whole, all_types, COLUMNS + 1, &pages, &err), WEFT_CORRUPT);
    weft_pages_begin(frame, FRAME_BYTES, all_types, COLUMNS, &pages, &err);
    CHECK_STATUS(open_frame(length, &pages), WEFT_CORRUPT);                 // laid out and not finished
    memset(frame, 0, sizeof(frame));
    CHECK_STATUS(open_frame(length, &pages), WEFT_CORRUPT);
}

// On a GPU the lanes of a warp must all go on or all leave.
TEST(all_workers_take_one_way_where_the_head_is_damaged)
{
    const u64 length = small_frame();
    for (u32 damaged = 0; damaged <= 2; damaged++) {        // none; the head; the column's line
        frame[8] ^= damaged == 1;
        frame[64 + 8] ^= damaged == 2;
        for (u32 thread = 0; thread < 33; thread++) {
            FlowPageCounts counts = { 0 };
            FlowColumn column = { 0 };
            FlowRound round = { .input = frame, .input_bytes = length, .thread = thread, .n_threads = 33,
                                .page_counts = &counts };
            CHECK_INT(flow_column_(&round, 0, FLOW_PAGE_i32, &column), damaged != 2);
            CHECK_INT(round.status, damaged == 2 || (damaged == 1 && thread == 0) ? FLOW_CORRUPT : 0);
            CHECK_INT(counts.pages > 0 && counts.bytes > 0, damaged == 0 && thread == 0);
            CHECK_INT(column.n_rows, damaged == 2 ? 0 : 2000);
        }
        frame[8] ^= damaged == 1;
        frame[64 + 8] ^= damaged == 2;
    }
}

// Lines that say of themselves that they are whole, with anything in them: what is opened lies within the frame.
TEST(no_line_leads_out_of_its_frame)
{
    const u64 length = small_frame();
    FlowPageColumn good[COLUMNS], *lines = (FlowPageColumn *)(void *)(frame + 64);
    int n_good = 0;
    memcpy(good, lines, sizeof(good));
    for (int times = 0; times < 200000; times++) {
        u64 *words = (u64 *)&lines[times % COLUMNS];
        const int at = (int)draw(7);
        FlowColumn column;
        words[at] = times % 3 ? draw(2 * length) : random_bits(9, (u64)times) >> draw(64);
        words[7] = flow_line_check_(words, (u64)(times % COLUMNS) + 1);
        if (flow_column_is_good_(&lines[times % COLUMNS], (u32)(times % COLUMNS), length)) {
            flow_column_set_(frame, &lines[times % COLUMNS], &column);
            n_good++;
            CHECK((u64)(column.values - frame) + column.n_rows * column.width <= length);
            CHECK((u64)((const u8 *)column.entries - frame) + column.n_pages * sizeof(FlowPageEntry) <= length);
            CHECK((u64)((const u8 *)column.blooms - frame) + (u64)column.n_pages * column.bloom_bits / 8 <= length);
            CHECK((u64)column.n_pages * column.rows_per_page >= column.n_rows);
        }
        memcpy(lines, good, sizeof(good));
    }
    CHECK(n_good > 1000 && n_good < 190000);
    // A filter is read word by word.  One of less than a word, at the frame's end, would be read beyond it.
    for (u64 n_bits = 1; n_bits < 64; n_bits *= 2) {
        lines[0].bloom_bits = n_bits, lines[0].blooms = length;
        lines[0].check = flow_line_check_((const u64 *)&lines[0], 1);
        CHECK(!flow_column_is_good_(&lines[0], 0, length));
    }
    memcpy(lines, good, sizeof(good));
}

// ---- operators ------------------------------------------------------------------------------------------------------

enum { DAY, CUSTOMER, AMOUNT, FLOW_COLUMNS, FRAMES = 20, N_CUSTOMERS = 100000 };

static const weft_page_column sales[FLOW_COLUMNS] = {
    [DAY] = { WEFT_PAGE_I32, 0 }, [CUSTOMER] = { WEFT_PAGE_I64, 512 }, [AMOUNT] = { WEFT_PAGE_F64, 0 } };

typedef struct Sales { double by_day, by_customer; bool is_damaged; } Sales;     // what operators should find

static i64 customer_of(u64 row) { return (i64)(row * 2654435761u % N_CUSTOMERS); }

static void make_sales(weft_round *round)
{
    weft_pages pages;
    Sales *sums = round->context;
    round->status = weft_pages_begin(round->output, round->output_capacity, sales, FLOW_COLUMNS, &pages, &err);
    for (u64 i = 0; i < pages.rows_max; i++) {
        const u64 row = round->offset * pages.rows_max + i;
        const i32 day = ((i32 *)weft_pages_column(&pages, DAY))[i] = (i32)(row / 500);
        const i64 customer = ((i64 *)weft_pages_column(&pages, CUSTOMER))[i] = customer_of(row);
        const double amount = ((double *)weft_pages_column(&pages, AMOUNT))[i] = (double)(row % 100);
        sums->by_day += day >= 17 && day <= 19 ? amount : 0;
        sums->by_customer += customer == customer_of(12345) ? amount : 0;
    }
    round->output_bytes = weft_pages_finish(&pages, pages.rows_max);
    if (sums->is_damaged && round->offset == 3)
        ((u8 *)round->output)[64 + 20] ^= 1;
    if (round->offset + 1 == FRAMES)
        round->status = WEFT_END_OF_STREAM;
}

static void sum_customer(weft_round *round)
{
    weft_pages pages;
    double *sum = round->context;
    const i64 wanted = customer_of(12345);
    round->status = weft_pages_open(round, sales, FLOW_COLUMNS, &pages, NULL);
    for (u32 page = 0; page < pages.n_pages; page++) {
        if (!weft_page_may_hold_i64(&pages, CUSTOMER, page, wanted, wanted))
            continue;
        const i64 *customer = weft_page_values(&pages, CUSTOMER, page);
        const double *amount = weft_page_values(&pages, AMOUNT, page);
        for (u32 i = 0; i < weft_page_rows(&pages, page); i++)
            *sum += customer[i] == wanted ? amount[i] : 0;
    }
}

static const char sum_days[] = "OPERATOR(sum_days)\n{\n    COLUMN(i32, day, 0);  COLUMN(f64, amount, 2);\n"
                               "    OUTPUT(f64, out);  PARAMS(i32, days);\n    f64 sum = 0;\n"
                               "    EACH_PAGE(p, day, MAY_HOLD(day, p, days[0], days[1])) {\n"
                               "        VALUES(i32, d, day, p);  VALUES(f64, x, amount, p);\n"
                               "        EACH_ROW(i, day, p) if (days[0] <= d[i] && d[i] <= days[1]) sum += x[i];\n"
                               "    }\n    SUM_WORKERS(f64, out, sum);\n}\n";

static void add_up(weft_round *round)
{
    for (u64 i = 0; i < round->input_bytes / sizeof(double); i++)
        *(double *)round->context += ((const double *)round->input)[i];
}

typedef struct Read { weft_status status; double by_day, by_customer; weft_page_counts days, customers; } Read;

static Read read_sales(Sales *sums, int workers, bool has_host)
{
    static const i32 days[] = { 17, 19 };
    Read read = { 0 };
    weft_flow *flow;
    weft_topic *table, *partial;
    weft_operator *by_day, *by_customer = NULL;
    weft_operator_options source = { .name = "source", .compute = make_sales, .context = sums },
        device = { .name = "sum_days", .tile_c = sum_days, .context = (void *)(uintptr_t)days,
                   .side = WEFT_SIDE_DEVICE },
        host = { .name = "customer", .compute = sum_customer, .context = &read.by_customer },
        sink = { .name = "sink", .compute = add_up, .context = &read.by_day };
    CHECK_OK(weft_flow_new(&(weft_flow_options){ .workers = workers }, &flow, &err), err);
    CHECK_OK(weft_topic_new(flow, "table", &(weft_topic_options){ .frame_bytes = FRAME_BYTES }, &table, &err), err);
    CHECK_OK(weft_topic_new(flow, "partial", NULL, &partial, &err), err);
    CHECK_OK(weft_flow_link(flow, NULL, &source, table, NULL, &err), err);
    CHECK_OK(weft_flow_link(flow, table, &device, partial, &by_day, &err), err);
    CHECK_OK(weft_flow_link(flow, partial, &sink, NULL, NULL, &err), err);
    if (has_host)
        CHECK_OK(weft_flow_link(flow, table, &host, NULL, &by_customer, &err), err);
    read.status = weft_flow_run(flow, &err);
    read.days = weft_operator_count(by_day).pages;
    if (by_customer)
        read.customers = weft_operator_count(by_customer).pages;
    weft_flow_free(flow);
    return read;
}

TEST(operators_sum_what_a_plain_scan_sums_and_count_pages)
{
    for (int workers = 1; workers <= 3; workers++) {
        Sales sums = { 0 };
        const Read read = read_sales(&sums, workers, true);
        CHECK_OK(read.status, err);
        CHECK(sums.by_day > 0 && sums.by_customer > 0);
        CHECK(read.by_day == sums.by_day && read.by_customer == sums.by_customer);
        const weft_page_counts *days = &read.days, *customers = &read.customers;
        CHECK(days->pages == customers->pages && days->bytes == customers->bytes);
        // Rows 8,500 to 9,999 are pages 16 to 19 of 512 rows: of two columns.
        CHECK(days->pages_asked == 8 && days->bytes_asked == 4 * 512 * 12);
        CHECK(days->pages_by_range == days->pages / 3 - 4 && days->pages_by_bloom == 0);
        CHECK(customers->pages_asked < customers->pages / 3);
        CHECK_INT(customers->pages_asked / 2 + customers->pages_by_bloom + customers->pages_by_range,
                  customers->pages / 3);
        CHECK(customers->pages_by_bloom > customers->pages / 3 / 2);
    }
}

TEST(a_damaged_frame_ends_the_flow)
{
    for (int has_host = 0; has_host <= 1; has_host++) {
        Sales sums = { .is_damaged = true };
        CHECK_INT(read_sales(&sums, 2, has_host).status, WEFT_CORRUPT);
        CHECK(strstr(err.message, "failed in round"));
    }
}

TEST(an_operator_that_wants_the_end_has_no_pages_there)
{
    static const char last[] = "OPERATOR(last)\n{\n    COLUMN(i32, day, 0);  STATE(i64, sum);\n"
                               "    EACH_PAGE(p, day, 1) sum[0]++;\n    if (IS_END) sum[0] += 1000000;\n}\n";
    i64 n_pages = 0;
    Sales sums = { 0 };
    weft_flow *flow;
    weft_topic *table;
    weft_operator *op;
    weft_operator_options source = { .name = "source", .compute = make_sales, .context = &sums },
        device = { .name = "last", .tile_c = last, .context = &n_pages, .side = WEFT_SIDE_DEVICE, .wants_end = true };
    CHECK_OK(weft_flow_new(&(weft_flow_options){ .workers = 1 }, &flow, &err), err);
    CHECK_OK(weft_topic_new(flow, "table", &(weft_topic_options){ .frame_bytes = FRAME_BYTES }, &table, &err), err);
    CHECK_OK(weft_flow_link(flow, NULL, &source, table, NULL, &err), err);
    CHECK_OK(weft_flow_link(flow, table, &device, NULL, &op, &err), err);
    CHECK_OK(weft_flow_run(flow, &err), err);
    CHECK_INT(n_pages, weft_operator_count(op).pages.pages / 3 + 1000000);
    CHECK(weft_operator_count(op).pages.pages_asked == 0);
    weft_flow_free(flow);
}
