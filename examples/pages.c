// pages.c - a table goes through a topic by column, in pages with an index; two operators read the pages they need.
//
//     cc pages.c $(pkg-config --cflags --libs weft) -o pages && ./pages                   after make install
//
//     sales ──> [table] ──┬──> revenue, tile C: amounts of some days ──> [sums] ──> total      DEVICE side
//                         └──> customer: amounts of one customer                               HOST side
//
// Days go up, so minimum and maximum rule out almost all pages for revenue.  A customer may be anywhere, so only bloom
// filters help the other.  On a GPU the pages that are not asked for never cross the link.

#include <stdio.h>
#include <weft_flow.h>

enum { DAY, STORE, CUSTOMER, AMOUNT, DISCOUNT, N_COLUMNS };
enum { N_FRAMES = 50, ROWS_PER_DAY = 2000, N_CUSTOMERS = 100000, WANTED = 45777 };

static const weft_page_column columns[N_COLUMNS] = {
    [DAY] = { WEFT_PAGE_I32, 0 },
    [STORE] = { WEFT_PAGE_I32, 0 },
    [CUSTOMER] = { WEFT_PAGE_I64, 512 },                   // looked up by value: a filter for 512 of them in each page
    [AMOUNT] = { WEFT_PAGE_F64, 0 },
    [DISCOUNT] = { WEFT_PAGE_F64, 0 },
};
static const int days[] = { 40, 42 };                      // from, to

typedef struct Sums { double revenue, customer; } Sums;

static void make_sales(weft_round *round)                  // writes columns where they are in the frame
{
    Sums *expected = round->context;
    weft_pages pages;
    round->status = weft_pages_begin(round->output, round->output_capacity, columns, N_COLUMNS, &pages, NULL);
    if (round->status)
        return;
    int *day = weft_pages_column(&pages, DAY), *store = weft_pages_column(&pages, STORE);
    int64_t *customer = weft_pages_column(&pages, CUSTOMER);
    double *amount = weft_pages_column(&pages, AMOUNT), *discount = weft_pages_column(&pages, DISCOUNT);
    for (uint64_t i = 0; i < pages.rows_max; i++) {
        const uint64_t row = round->offset * pages.rows_max + i;
        day[i] = (int)(row / ROWS_PER_DAY);
        store[i] = (int)(row % 40);
        customer[i] = (int64_t)(row * 2654435761u % N_CUSTOMERS);
        amount[i] = (double)(row % 100);
        discount[i] = 0.05;
        expected->revenue += day[i] >= days[0] && day[i] <= days[1] ? amount[i] : 0;
        expected->customer += customer[i] == WANTED ? amount[i] : 0;
    }
    round->output_bytes = weft_pages_finish(&pages, pages.rows_max);
    round->status = round->offset + 1 < N_FRAMES ? WEFT_OK : WEFT_END_OF_STREAM;
}

static const char revenue_text[] =
    "OPERATOR(revenue)\n"
    "{\n"
    "    COLUMN(i32, day, 0);  COLUMN(f64, amount, 3);\n"
    "    OUTPUT(f64, out);  PARAMS(i32, days);\n"
    "    f64 sum = 0;\n"
    "    EACH_PAGE(p, day, MAY_HOLD(day, p, days[0], days[1])) {\n"
    "        VALUES(i32, d, day, p);  VALUES(f64, x, amount, p);\n"
    "        EACH_ROW(i, day, p) if (days[0] <= d[i] && d[i] <= days[1]) sum += x[i];\n"
    "    }\n"
    "    SUM_WORKERS(f64, out, sum);\n"
    "}\n";

static void sum_customer(weft_round *round)
{
    Sums *found = round->context;
    weft_pages pages;
    round->status = weft_pages_open(round, columns, N_COLUMNS, &pages, NULL);
    for (uint32_t p = 0; p < pages.n_pages; p++) {
        if (!weft_page_may_hold_i64(&pages, CUSTOMER, p, WANTED, WANTED))
            continue;
        const int64_t *customer = weft_page_values(&pages, CUSTOMER, p);
        const double *amount = NULL;                       // asked for when a row needs it
        for (uint32_t i = 0; i < weft_page_rows(&pages, p); i++) {
            if (customer[i] != WANTED)
                continue;
            amount = amount ? amount : weft_page_values(&pages, AMOUNT, p);
            found->customer += amount[i];
        }
    }
}

static void add_up(weft_round *round)
{
    Sums *found = round->context;
    for (uint64_t i = 0; i < round->input_bytes / sizeof(double); i++)
        found->revenue += ((const double *)round->input)[i];
}

static void print_pages(const char *name, weft_page_counts n)
{
    printf("%-9s read %lld of %lld pages (%.1f of %.1f MB); min and max ruled out %lld, bloom filters %lld\n", name,
           (long long)n.pages_asked, (long long)n.pages, (double)n.bytes_asked / 1e6, (double)n.bytes / 1e6,
           (long long)n.pages_by_range, (long long)n.pages_by_bloom);
}

int main(void)
{
    weft_flow *flow;
    weft_topic *table, *sums;
    weft_operator *by_day, *by_customer;
    weft_error error;
    Sums expected = { 0 }, found = { 0 };
    const weft_operator_options source = { .name = "sales", .compute = make_sales, .context = &expected },
        revenue = { .name = "revenue", .tile_c = revenue_text, .context = (void *)days, .context_bytes = sizeof days,
                    .side = WEFT_SIDE_DEVICE },
        customer = { .name = "customer", .compute = sum_customer, .context = &found },
        sink = { .name = "total", .compute = add_up, .context = &found };
    if (weft_flow_new(NULL, &flow, &error) ||
        weft_topic_new(flow, "table", &(weft_topic_options){ .frame_bytes = 262144 }, &table, &error) ||
        weft_topic_new(flow, "sums", NULL, &sums, &error) ||
        weft_flow_link(flow, NULL, &source, table, NULL, &error) ||
        weft_flow_link(flow, table, &revenue, sums, &by_day, &error) ||
        weft_flow_link(flow, table, &customer, NULL, &by_customer, &error) ||
        weft_flow_link(flow, sums, &sink, NULL, NULL, &error) || weft_flow_run(flow, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const weft_page_counts days_read = weft_operator_count(by_day).pages,
                           customer_read = weft_operator_count(by_customer).pages;
    print_pages("revenue", days_read);
    print_pages("customer", customer_read);
    printf("revenue of days %d to %d: %.0f; of customer %d: %.0f\n", days[0], days[1], found.revenue, WANTED,
           found.customer);
    weft_flow_free(flow);
    return found.revenue != expected.revenue || found.customer != expected.customer || found.revenue == 0 ||
           found.customer == 0 || days_read.bytes_asked > days_read.bytes / 10 ||
           customer_read.bytes_asked > customer_read.bytes / 10;
}
