// pages.c - frames of columns: laid out and indexed by their publisher, looked up and read by an operator of the host.
//
// The layout, and what looks a page up, is in kernel/flow_pages.h: tile C has the same.

#include "flow/flow_int.h"
#include "flow/page_index.h"

_Static_assert((int)FLOW_CORRUPT == WEFT_CORRUPT, "tile C says the same");
_Static_assert((int)FLOW_PAGE_i32 == WEFT_PAGE_I32 && (int)FLOW_PAGE_i64 == WEFT_PAGE_I64 &&
               (int)FLOW_PAGE_f32 == WEFT_PAGE_F32 && (int)FLOW_PAGE_f64 == WEFT_PAGE_F64 &&
               (int)FLOW_PAGE_COLUMNS_MOST == WEFT_PAGE_COLUMNS_MOST, "and has the same types");
_Static_assert(sizeof(FlowPageHead) == 64 && sizeof(FlowPageColumn) == 64, "a line each");

// ---- laying out -----------------------------------------------------------------------------------------------------

static FlowPageHead *head_of(const weft_pages *pages) { return pages->frame; }
static FlowPageColumn *line_of(const weft_pages *pages, int column)
{
    return (FlowPageColumn *)pages->frame + 1 + column;
}

static u64 round_up(u64 bytes) { return (bytes + FLOW_PAGE_BYTES - 1) / FLOW_PAGE_BYTES * FLOW_PAGE_BYTES; }

static u64 bloom_bits_of(const weft_page_column *column, u32 rows_per_page)
{
    return column->n_different ? page_bloom_bits(MIN_OF(column->n_different, rows_per_page)) : 0;
}

// Where all is in a frame with N_PAGES pages of each column.  Returns its bytes.
static u64 lay_out(const weft_page_column *columns, int n_columns, u32 rows_per_page, u64 n_pages,
                   FlowPageColumn *lines)
{
    u64 at = FLOW_PAGE_BYTES;
    for (int i = 0; i < n_columns; i++) {
        lines[i] = (FlowPageColumn){ .type = columns[i].type, .entries = at, .rows_per_page = rows_per_page,
                                     .bloom_bits = bloom_bits_of(&columns[i], rows_per_page) };
        at += n_pages * sizeof(FlowPageEntry);
    }
    for (int i = 0; i < n_columns; i++) {
        lines[i].blooms = at;
        at += n_pages * (lines[i].bloom_bits / 8);
    }
    for (int i = 0; i < n_columns; i++) {
        lines[i].values = at = round_up(at);
        at += n_pages * rows_per_page * flow_width_(lines[i].type);
    }
    return at;
}

static weft_status check_columns(const weft_page_column *columns, int n_columns, Error *err)
{
    if (n_columns < 1 || n_columns > WEFT_PAGE_COLUMNS_MOST)
        return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "a frame has 1 to %d columns, not %d",
                    WEFT_PAGE_COLUMNS_MOST, n_columns);
    for (int i = 0; i < n_columns; i++)
        if (columns[i].type < WEFT_PAGE_I32 || columns[i].type > WEFT_PAGE_F64)
            return fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "column %d of the frame has no known type", i);
    return WEFT_OK;
}

static u32 choose_rows_per_page(const weft_page_column *columns, int n_columns)
{
    u32 width = 1;
    for (int i = 0; i < n_columns; i++)
        width = MAX_OF(width, flow_width_(columns[i].type));
    return FLOW_PAGE_BYTES / width;
}

weft_status weft_pages_begin(void *frame, uint64_t capacity, const weft_page_column *columns, int n_columns,
                             weft_pages *pages, weft_error *error)
{
    error_clear(error);
    TRY(check_columns(columns, n_columns, error));
    FlowPageColumn lines[WEFT_PAGE_COLUMNS_MOST];
    const u32 rows_per_page = choose_rows_per_page(columns, n_columns);
    u64 n_pages = 1, step = 1;                              // the most that fit, by doubling and then by halves
    capacity = MIN_OF(capacity, (u64)WEFT_FRAME_MOST);
    if ((uintptr_t)frame % 64 != 0 || lay_out(columns, n_columns, rows_per_page, n_pages, lines) > capacity)
        return fail(error, WEFT_INVALID_PARAMETER, NO_PLACE, "a frame of %llu bytes has no room for a page of each of "
                    "%d columns, or it does not begin at a boundary of 64", (unsigned long long)capacity, n_columns);
    while (lay_out(columns, n_columns, rows_per_page, n_pages + step, lines) <= capacity)
        n_pages += step, step *= 2;
    for (; step > 0; step /= 2)
        if (lay_out(columns, n_columns, rows_per_page, n_pages + step, lines) <= capacity)
            n_pages += step;
    lay_out(columns, n_columns, rows_per_page, n_pages, lines);
    *pages = (weft_pages){ .frame = frame, .rows_max = n_pages * rows_per_page, .n_columns = (u32)n_columns,
                           .rows_per_page = rows_per_page };
    memset(frame, 0, FLOW_PAGE_BYTES);                      // no frame of columns yet
    memcpy(line_of(pages, 0), lines, (size_t)n_columns * sizeof(*lines));
    return WEFT_OK;
}

void *weft_pages_column(const weft_pages *pages, int column)
{
    if (column < 0 || (u32)column >= pages->n_columns)
        return NULL;
    return (u8 *)pages->frame + line_of(pages, column)->values;
}

// ---- the index ------------------------------------------------------------------------------------------------------

static void index_column(const weft_pages *pages, FlowPageColumn *line)
{
    FlowColumn column;
    flow_column_set_(pages->frame, line, &column);
    for (u32 page = 0; page < pages->n_pages; page++) {
        const u64 at = (u64)page * column.rows_per_page * column.width;
        page_index(column.type, column.values + at, flow_page_rows_(&column, page),
                   (FlowPageEntry *)&column.entries[page], (u64 *)column.blooms + (u64)page * (column.bloom_bits / 64),
                   column.bloom_bits);
    }
}

uint64_t weft_pages_finish(weft_pages *pages, uint64_t n_rows)
{
    FlowPageHead *head = head_of(pages);
    u64 length = FLOW_PAGE_BYTES;
    pages->n_rows = MIN_OF(n_rows, pages->rows_max);
    pages->n_pages = (u32)((pages->n_rows + pages->rows_per_page - 1) / pages->rows_per_page);
    *head = (FlowPageHead){ .n_columns = pages->n_columns, .n_rows = pages->n_rows,
                            .rows_per_page = pages->rows_per_page,
                            .n_pages = (u64)pages->n_pages * pages->n_columns };
    for (int i = 0; i < (int)pages->n_columns; i++) {
        FlowPageColumn *line = line_of(pages, i);
        const u64 n_bytes = pages->n_rows * flow_width_(line->type);
        line->n_rows = pages->n_rows;
        index_column(pages, line);
        line->check = flow_line_check_((const u64 *)line, (u64)i + 1);
        head->n_bytes += n_bytes;
        length = line->values + n_bytes;
    }
    head->check = flow_line_check_((const u64 *)head, 0);
    return length;
}

// ---- reading --------------------------------------------------------------------------------------------------------

// The head, and that each column is as it says.
static bool is_good(const weft_round *round)
{
    const FlowPageHead *head = round->input;
    if (!head || (uintptr_t)head % 64 != 0 || round->input_bytes < FLOW_PAGE_BYTES ||
        head->check != flow_line_check_((const u64 *)head, 0) || head->n_columns > FLOW_PAGE_COLUMNS_MOST)
        return false;
    const FlowPageColumn *lines = (const FlowPageColumn *)round->input + 1;
    for (u32 i = 0; i < head->n_columns; i++)
        if (!flow_column_is_good_(&lines[i], i, round->input_bytes) || lines[i].n_rows != head->n_rows ||
            lines[i].rows_per_page != head->rows_per_page)
            return false;
    return true;
}

weft_status weft_pages_open(const weft_round *round, const weft_page_column *columns, int n_columns, weft_pages *pages,
                            weft_error *error)
{
    const FlowPageHead *head = round->input;
    *pages = (weft_pages){ .rows_per_page = 1 };
    error_clear(error);
    if (!is_good(round))
        return fail(error, WEFT_CORRUPT, NO_PLACE, "the frame holds no columns, or is damaged");
    if (n_columns < 0 || (u64)n_columns > head->n_columns)
        return fail(error, WEFT_CORRUPT, NO_PLACE, "the frame has %d columns, not %d", (int)head->n_columns, n_columns);
    *pages = (weft_pages){ .frame = (void *)(uintptr_t)round->input, .counts = round->page_counts,
                           .n_rows = head->n_rows, .rows_max = head->n_rows, .n_columns = (u32)head->n_columns,
                           .rows_per_page = (u32)head->rows_per_page,
                           .n_pages = (u32)((head->n_rows + head->rows_per_page - 1) / head->rows_per_page) };
    for (int i = 0; i < n_columns; i++)
        if (line_of(pages, i)->type != columns[i].type)
            return fail(error, WEFT_CORRUPT, NO_PLACE, "column %d of the frame has another type", i);
    if (pages->counts && round->thread == 0) {
        pages->counts->pages += (i64)head->n_pages;
        pages->counts->bytes += (i64)head->n_bytes;
    }
    return WEFT_OK;
}

static bool find_column(const weft_pages *pages, int column, FlowColumn *out)
{
    if (column < 0 || (u32)column >= pages->n_columns)
        return false;
    flow_column_set_(pages->frame, line_of(pages, column), out);
    return true;
}

static FlowPageCounts *counts_of(const weft_pages *pages) { return (FlowPageCounts *)(void *)pages->counts; }

bool weft_page_may_hold_i64(const weft_pages *pages, int column, uint32_t page, int64_t low, int64_t high)
{
    FlowColumn found;
    return find_column(pages, column, &found) && flow_may_hold_i64_(counts_of(pages), &found, page, low, high);
}

bool weft_page_may_hold_f64(const weft_pages *pages, int column, uint32_t page, double low, double high)
{
    FlowColumn found;
    return find_column(pages, column, &found) && flow_may_hold_f64_(counts_of(pages), &found, page, low, high);
}

const void *weft_page_values(const weft_pages *pages, int column, uint32_t page)
{
    FlowColumn found;
    if (!find_column(pages, column, &found) || page >= found.n_pages)
        return NULL;
    return flow_page_values_(counts_of(pages), &found, page);
}

uint32_t weft_page_rows(const weft_pages *pages, uint32_t page)
{
    if (page >= pages->n_pages)
        return 0;
    return (u32)MIN_OF(pages->n_rows - (u64)page * pages->rows_per_page, pages->rows_per_page);
}
