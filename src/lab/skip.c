// skip.c - see skip.h.
//
// The index of a page is that of flow's frames of columns (flow/page_index.h).

#include <math.h>

#include "flow/page_index.h"
#include "lab/set_query.h"
#include "lab/skip.h"

enum { BLOOM_WORDS_MAX = SKIP_PAGE_MOST / 4 * 4 / 64, MIN_MAX_BYTES = 8 };   // 4 bits a value; 4 bytes each

typedef struct SkipPage {
    i32 values[SKIP_PAGE_MOST / 4];
    FlowPageEntry entry;
    u64 bloom[BLOOM_WORDS_MAX];
    u32 bloom_bits;
} SkipPage;

// ---- pages ----------------------------------------------------------------------------------------------------------

static u32 bloom_bits_of(int column, u32 n_rows)
{
    const u32 n_values = set_query_columns[column].n_values;
    const u32 n_bits = page_bloom_bits(n_values && n_values < n_rows ? n_values : n_rows);
    return MIN_OF(n_bits, (u32)BLOOM_WORDS_MAX * 64);
}

static void make_page(const SkipTable *table, u64 first, u32 n_rows, int column, SkipPage *page)
{
    page->bloom_bits = bloom_bits_of(column, n_rows);
    for (u32 i = 0; i < n_rows; i++)
        page->values[i] = set_query_value(table->seed, first + i, column);
    page_index(FLOW_PAGE_i32, page->values, n_rows, &page->entry, page->bloom, page->bloom_bits);
}

// ---- which pages are alive ------------------------------------------------------------------------------------------

static bool is_alive_by_min_max(const SkipTerm *term, const SkipPage *page)
{
    for (int i = 0; i < term->n_ranges; i++) {
        const u64 low = flow_key_i64_(term->ranges[i].low), high = flow_key_i64_(term->ranges[i].high);
        if (term->is_not && low <= page->entry.min && page->entry.max <= high)
            return false;  // all of its values are excluded
        if (!term->is_not && flow_range_may_hold_(&page->entry, low, high))
            return true;
    }
    return term->is_not;
}

static bool has_only_points(const SkipTerm *term)
{
    for (int i = 0; i < term->n_ranges; i++)
        if (term->ranges[i].low != term->ranges[i].high)
            return false;
    return !term->is_not;
}

static bool is_alive_by_bloom(const SkipTerm *term, const SkipPage *page)
{
    for (int i = 0; i < term->n_ranges; i++)
        if (flow_bloom_may_hold_(page->bloom, page->bloom_bits, FLOW_PAGE_i32, flow_key_i64_(term->ranges[i].low)))
            return true;
    return false;
}

static bool uses_column(const SkipQuery *query, int column)
{
    for (int i = 0; i < query->n_terms; i++)
        if (query->terms[i].column == column)
            return true;
    for (int i = 0; i < query->n_outputs; i++)
        if (query->outputs[i] == column)
            return true;
    return false;
}

static int count_columns(const SkipQuery *query)
{
    int n = 0;
    for (int column = 0; column < SET_QUERY_COLUMNS; column++)
        n += uses_column(query, column);
    return n;
}

// Whether reading a page's bloom filter costs less than the pages that it is expected to spare: a value is not among
// n_rows of n_values with a chance of about exp(-n_rows / n_values).
static bool is_bloom_worth_it(const SkipTerm *term, const SkipPage *page, u32 n_rows, int n_columns)
{
    const u32 n_values = set_query_columns[term->column].n_values;
    const double absent = n_values ? exp(-(double)n_rows * term->n_ranges / n_values) : 0;
    return has_only_points(term) && absent * 0.85 * n_columns * n_rows * 4 > page->bloom_bits / 8.0;
}

static bool is_alive(const SkipQuery *query, const SkipPage *pages, u32 n_rows, int n_columns, u64 *bytes_index)
{
    bool alive = true;
    for (int i = 0; i < query->n_terms; i++) {
        *bytes_index += MIN_MAX_BYTES;
        alive &= is_alive_by_min_max(&query->terms[i], &pages[query->terms[i].column]);
    }
    for (int i = 0; i < query->n_terms && alive; i++) {
        const SkipTerm *term = &query->terms[i];
        const SkipPage *page = &pages[term->column];
        if (!is_bloom_worth_it(term, page, n_rows, n_columns))
            continue;
        *bytes_index += page->bloom_bits / 8;
        alive = is_alive_by_bloom(term, page);
    }
    return alive;
}

// ---- the answer, from pages that are alive --------------------------------------------------------------------------

static bool holds(const SkipTerm *term, i32 value)
{
    for (int i = 0; i < term->n_ranges; i++)
        if (term->ranges[i].low <= value && value <= term->ranges[i].high)
            return !term->is_not;
    return term->is_not;
}

// Returns how many rows are left.
static u32 read_pages(const SkipQuery *query, const SkipPage *pages, u32 n_rows, SkipResult *result)
{
    u32 n_kept = 0;
    for (u32 row = 0; row < n_rows; row++) {
        bool is_kept = true;
        for (int i = 0; i < query->n_terms && is_kept; i++)
            is_kept = holds(&query->terms[i], pages[query->terms[i].column].values[row]);
        n_kept += is_kept;
        if (is_kept && query->n_outputs)
            result->sum += (u64)pages[query->outputs[0]].values[row];
    }
    result->n_rows += n_kept;
    return n_kept;
}

static int count_condition_columns(const SkipQuery *query)
{
    SkipQuery conditions = *query;
    conditions.n_outputs = 0;
    return count_columns(&conditions);
}

static void run_query(const SkipQuery *query, const SkipPage *pages, u32 n_rows, SkipResult *result)
{
    const int n_columns = count_columns(query);
    const u64 page_bytes = (u64)n_rows * 4;
    u64 bytes_index = 0;
    const bool alive = is_alive(query, pages, n_rows, n_columns, &bytes_index);
    result->bytes_all += page_bytes * SET_QUERY_COLUMNS;
    result->bytes_columns += page_bytes * (u64)n_columns;
    result->bytes_index += bytes_index;
    result->bytes_indexed += bytes_index + (alive ? page_bytes * (u64)n_columns : 0);
    result->n_pages++;
    result->n_pages_read += alive;
    const bool has_rows = alive && read_pages(query, pages, n_rows, result) > 0;
    const int n_read = !alive ? 0 : has_rows ? n_columns : count_condition_columns(query);
    result->bytes_late += bytes_index + page_bytes * (u64)n_read;
}

weft_status skip_run(const SkipTable *table, const SkipQuery *queries, int n_queries, SkipResult *results, Error *err)
{
    const u64 rows_per_page = table->page_bytes / 4;
    void *memory;
    ASSERT(table->page_bytes <= SKIP_PAGE_MOST);
    TRY(mem_alloc(NULL, sizeof(SkipPage) * SET_QUERY_COLUMNS, &memory, err));
    SkipPage *pages = memory;
    memset(results, 0, sizeof(*results) * (size_t)n_queries);
    for (u64 first = 0; first < table->n_rows; first += rows_per_page) {
        const u32 n_rows = (u32)MIN_OF(rows_per_page, table->n_rows - first);
        for (int column = 0; column < SET_QUERY_COLUMNS; column++)
            make_page(table, first, n_rows, column, &pages[column]);
        for (int q = 0; q < n_queries; q++)
            run_query(&queries[q], pages, n_rows, &results[q]);
    }
    mem_free(NULL, memory, sizeof(SkipPage) * SET_QUERY_COLUMNS);
    return WEFT_OK;
}
