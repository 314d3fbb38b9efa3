// flow_pages.h - frames of columns: their layout, the index of their pages, and the words for them in tile C.
//
// Put after flow.h.  An operator names columns of its input by number, looks pages up in the index, and asks for those
// that may hold what it looks for.  What it does not ask for is not read, so it does not cross the link.
//
//     OPERATOR(revenue)
//     {
//         COLUMN(i32, day, 0);  COLUMN(f64, price, 3);
//         OUTPUT(f64, out);  PARAMS(i32, days);
//         f64 sum = 0;
//         EACH_PAGE(p, day, MAY_HOLD(day, p, days[0], days[1])) {
//             VALUES(i32, d, day, p);  VALUES(f64, x, price, p);
//             EACH_ROW(i, day, p) if (days[0] <= d[i] && d[i] <= days[1]) sum += x[i];
//         }
//         SUM_WORKERS(f64, out, sum);
//     }
//
// The frame.  Page p of every column has the same rows; those of the widest columns have 4 KB.
//
//     head | column 0 | column 1 | ...                       64 bytes each, 4 KB together
//     min and max of each page of column 0, of column 1, ... | bloom filters of column 0, of column 1, ...
//     values of column 0, page after page                    from a boundary of 4 KB on, as is each further column
//     values of column 1 ...
//
// Minima and maxima are keys: unsigned numbers in the order of the values, so that one comparison serves all types.  A
// bloom filter has 4 bits for each different value that a page is expected to hold, and two hash functions: 15 % of the
// values that are not there seem to be.  More bits would rule out more pages and cost more than they save, as the
// filter crosses the link, too.  NaN equals nothing and is between no two values, so the index leaves it out.
//
// The line of a column is read where it is used, and every worker checks it: a frame that is no frame of columns, or is
// damaged, or has other types, fails the round as CORRUPT and is not read beyond its length.  The head has what is
// counted and no place, so one worker reads it.

#ifndef WEFT_KERNEL_FLOW_PAGES_H
#define WEFT_KERNEL_FLOW_PAGES_H

enum {
    FLOW_PAGE_i32 = 1, FLOW_PAGE_i64, FLOW_PAGE_f32, FLOW_PAGE_f64,        // weft_page_type
    FLOW_PAGE_BYTES = 4096,
    FLOW_PAGE_COLUMNS_MOST = FLOW_PAGE_BYTES / 64 - 1,
    FLOW_CORRUPT = 67                  // WEFT_CORRUPT
};

typedef struct FlowPageCounts {        // weft_page_counts of weft_flow.h
    u64 pages, bytes;
    u64 pages_asked, bytes_asked;
    u64 pages_by_range, bytes_by_range;
    u64 pages_by_bloom, bytes_by_bloom;
} FlowPageCounts;

typedef struct FlowPageEntry { u64 min, max; } FlowPageEntry;               // keys; min > max: there is none

typedef struct FlowPageHead {          // the frame's first 64 bytes
    u64 n_columns, n_rows, rows_per_page;
    u64 n_pages, n_bytes;              // of all columns: pages, and bytes of values
    u64 spare[2];
    u64 check;
} FlowPageHead;

typedef struct FlowPageColumn {        // the next 64, for each column; places are bytes from the frame's begin
    u64 type, values, entries, blooms;
    u64 bloom_bits;                    // of each page, a power of two from 64 on; 0: there are no filters
    u64 n_rows, rows_per_page;
    u64 check;
} FlowPageColumn;

typedef struct FlowColumn {            // a column as its reader has it
    const unsigned char *values;
    const FlowPageEntry *entries;
    const u64           *blooms;
    u64                  n_rows;
    u32                  type, width, rows_per_page, n_pages, bloom_bits;
} FlowColumn;

// ---- keys, and the index of one page --------------------------------------------------------------------------------

static inline u64 flow_key_i64_(i64 value) { return (u64)value ^ (u64)1 << 63; }

static inline u64 flow_key_f64_(f64 value)
{
    union { f64 value; u64 bits; } x;
    x.value = value;
    if (value == 0)
        x.bits = 0;                                         // -0 is 0
    return x.bits >> 63 ? ~x.bits : x.bits | (u64)1 << 63;
}

static inline u32 flow_is_float_(u64 type) { return type == FLOW_PAGE_f32 || type == FLOW_PAGE_f64; }
static inline u32 flow_width_(u64 type) { return type == FLOW_PAGE_i32 || type == FLOW_PAGE_f32 ? 4 : 8; }

// The bits a and b of a filter, for a KEY of the type.
typedef struct FlowBloomBits { u32 a, b; } FlowBloomBits;

static inline FlowBloomBits flow_bloom_bits_(u64 type, u64 key, u32 n_bits)
{
    FlowBloomBits bits;
    u64 x = (type == FLOW_PAGE_i32 ? (u64)(u32)key : key) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    bits.a = (u32)x & (n_bits - 1);
    bits.b = (u32)(x >> 32) & (n_bits - 1);
    return bits;
}

static inline u32 flow_range_may_hold_(const FlowPageEntry *entry, u64 low, u64 high)
{
    return low <= entry->max && entry->min <= high;
}

static inline u32 flow_bloom_may_hold_(const u64 *bloom, u32 n_bits, u64 type, u64 key)
{
    const FlowBloomBits bits = flow_bloom_bits_(type, key, n_bits);
    return (u32)(bloom[bits.a / 64] >> bits.a % 64 & bloom[bits.b / 64] >> bits.b % 64 & 1);
}

// ---- a frame and its columns ----------------------------------------------------------------------------------------

// Of line NUMBER, whose last word has it: the head is 0, column c is c + 1.
static inline u64 flow_line_check_(const u64 *line, u64 number)
{
    u64 x = 0x7765667470616765u + number;                   // "weftpage"
    for (int i = 0; i < 7; i++) {
        x = (x ^ line[i]) * 0xD6E8FEB86659FD93u;
        x ^= x >> 32;
    }
    return x;
}

static inline u32 flow_column_is_good_(const FlowPageColumn *line, u32 number, u64 frame_bytes)
{
    const u64 n_rows = line->n_rows, per_page = line->rows_per_page, width = flow_width_(line->type);
    if (line->check != flow_line_check_((const u64 *)line, number + 1) || line->type < FLOW_PAGE_i32 ||
        line->type > FLOW_PAGE_f64 || per_page == 0 || per_page > FLOW_PAGE_BYTES || n_rows > frame_bytes ||
        n_rows >> 31)
        return 0;
    const u64 n_pages = (n_rows + per_page - 1) / per_page, bloom_bytes = line->bloom_bits / 8;
    return line->values % width == 0 && line->values <= frame_bytes && n_rows * width <= frame_bytes - line->values &&
           line->entries % 8 == 0 && line->entries <= frame_bytes &&
           n_pages * sizeof(FlowPageEntry) <= frame_bytes - line->entries &&
           (line->bloom_bits & (line->bloom_bits - 1)) == 0 && line->bloom_bits % 64 == 0 &&
           bloom_bytes <= FLOW_PAGE_BYTES && line->blooms % 8 == 0 && line->blooms <= frame_bytes &&
           n_pages * bloom_bytes <= frame_bytes - line->blooms;
}

// Of a good line.
static inline void flow_column_set_(const void *frame, const FlowPageColumn *line, FlowColumn *column)
{
    const unsigned char *bytes = (const unsigned char *)frame;
    column->values = bytes + line->values;
    column->entries = (const FlowPageEntry *)(const void *)(bytes + line->entries);
    column->blooms = (const u64 *)(const void *)(bytes + line->blooms);
    column->n_rows = line->n_rows;
    column->type = (u32)line->type;
    column->width = flow_width_(line->type);
    column->rows_per_page = (u32)line->rows_per_page;
    column->n_pages = ((u32)line->n_rows + column->rows_per_page - 1) / column->rows_per_page;
    column->bloom_bits = (u32)line->bloom_bits;
}

static inline u32 flow_page_rows_(const FlowColumn *column, u64 page)
{
    const u64 first = page * column->rows_per_page;
    return page >= column->n_pages                             ? 0
           : column->n_rows - first < column->rows_per_page ? (u32)(column->n_rows - first)
                                                            : column->rows_per_page;
}

// ---- counting -------------------------------------------------------------------------------------------------------

// One page and its bytes.  On a GPU the lanes of a warp that have one page at hand, as WHERE tells, count it once.
#ifdef __CUDACC__
static inline void flow_count_page_(u64 *pages, u64 *bytes, u64 n_bytes, const void *where)
{
    const u32 same = __match_any_sync(__activemask(), (u64)where);
    if (threadIdx.x % 32 != (u32)__ffs((int)same) - 1)
        return;
    atomicAdd(pages, (u64)1);
    atomicAdd(bytes, n_bytes);
}
#else
static inline void flow_count_page_(u64 *pages, u64 *bytes, u64 n_bytes, const void *where)
{
    (void)where;
    *pages += 1;
    *bytes += n_bytes;
}
#endif

// What the frame has, read or not: one worker counts it, with the first column that it opens.  If the head is damaged,
// that worker fails the round and goes on as all others do: the words below need every lane of its warp.
static inline void flow_count_frame_(FlowRound *round)
{
    const FlowPageHead *head = (const FlowPageHead *)round->input;
    if (round->thread > 0 || !round->page_counts || round->page_counts->pages > 0)
        return;
    if (head->check != flow_line_check_((const u64 *)head, 0)) {
        round->status = FLOW_CORRUPT;
        return;
    }
    round->page_counts->pages = head->n_pages;
    round->page_counts->bytes = head->n_bytes;
}

// ---- looking up, and asking -----------------------------------------------------------------------------------------

// Column NUMBER of the round's input.  0: the frame has no such column, and the round has failed.  All workers get the
// same answer: a warp leaves the operator as a whole.  At the end of the input a column has no pages.
static inline u32 flow_column_(FlowRound *round, u32 number, u32 type, FlowColumn *column)
{
    const FlowPageColumn *line = (const FlowPageColumn *)round->input;
    column->n_pages = 0;
    column->rows_per_page = 1;
    if (!round->input && round->at_end)
        return 1;
    if (round->input)
        line += 1 + number;
    if (!round->input || number >= FLOW_PAGE_COLUMNS_MOST || round->input_bytes < FLOW_PAGE_BYTES ||
        !flow_column_is_good_(line, number, round->input_bytes) || line->type != type) {
        round->status = FLOW_CORRUPT;
        return 0;
    }
    flow_count_frame_(round);
    flow_column_set_(round->input, line, column);
    return 1;
}

// Reads the index only.  LOW and HIGH are keys; where they are one, the filter is asked, too.
static inline u32 flow_may_hold_(FlowPageCounts *counts, const FlowColumn *column, u64 page, u64 low, u64 high)
{
    const u64 n_bytes = (u64)flow_page_rows_(column, page) * column->width;
    if (n_bytes == 0)
        return 0;
    if (!flow_range_may_hold_(&column->entries[page], low, high)) {
        if (counts)
            flow_count_page_(&counts->pages_by_range, &counts->bytes_by_range, n_bytes, &column->entries[page]);
        return 0;
    }
    if (low != high || column->bloom_bits == 0 ||
        flow_bloom_may_hold_(column->blooms + page * (column->bloom_bits / 64), column->bloom_bits, column->type, low))
        return 1;
    if (counts)
        flow_count_page_(&counts->pages_by_bloom, &counts->bytes_by_bloom, n_bytes, &column->entries[page]);
    return 0;
}

static inline u32 flow_may_hold_i64_(FlowPageCounts *counts, const FlowColumn *column, u64 page, i64 low, i64 high)
{
    return flow_is_float_(column->type) ||                  // nothing is known of other types
           flow_may_hold_(counts, column, page, flow_key_i64_(low), flow_key_i64_(high));
}

static inline u32 flow_may_hold_f64_(FlowPageCounts *counts, const FlowColumn *column, u64 page, f64 low, f64 high)
{
    return !flow_is_float_(column->type) ||
           flow_may_hold_(counts, column, page, flow_key_f64_(low), flow_key_f64_(high));
}

static inline const void *flow_page_values_(FlowPageCounts *counts, const FlowColumn *column, u64 page)
{
    const unsigned char *values = column->values + page * column->rows_per_page * column->width;
    if (counts)
        flow_count_page_(&counts->pages_asked, &counts->bytes_asked,
                         (u64)flow_page_rows_(column, page) * column->width, values);
    return values;
}

// ---- words ----------------------------------------------------------------------------------------------------------

// Leaves the operator where the frame has no column NUMBER of that type.
#define COLUMN(type, name, number)                                                                                     \
    FlowColumn name;                                                                                                   \
    if (!flow_column_(R, (number), FLOW_PAGE_##type, &name)) return

#define MAY_HOLD(column, page, low, high)     flow_may_hold_i64_(R->page_counts, &(column), (page), (low), (high))
#define MAY_HOLD_F64(column, page, low, high) flow_may_hold_f64_(R->page_counts, &(column), (page), (low), (high))
#define VALUES(type, name, column, page) \
    const type *name = (const type *)flow_page_values_(R->page_counts, &(column), (page))

// EACH_PAGE(p, column, condition) { ... }: this worker's pages for which the condition holds.  EACH_ROW(i, column, p):
// rows of page p.  On a GPU a warp has the page and its lanes the rows, and the lanes look up the warp's next 32 pages
// side by side, as each look costs a way over the link.  No break out of EACH_PAGE: it would end the page there, and
// the loop on a CPU.
#ifndef __CUDACC__
#define EACH_PAGE(page, column, condition) EACH_ITEM(page, (column).n_pages) if (condition)
#define EACH_ROW(i, column, page) \
    for (u32 i = 0, i##_end = flow_page_rows_(&(column), (page)); i < i##_end; i++)
#else
#define EACH_PAGE(page, column, condition)                                                                             \
    for (u64 page##_n = (column).n_pages, page##_by = R->n_threads / 32, page##_at = R->thread / 32;                   \
         page##_at < page##_n; page##_at += 32 * page##_by)                                                            \
        for (u32 page##_live = __ballot_sync(0xffffffffu, [&](u64 page) -> bool {                                      \
                 return page < page##_n && (condition);                                                                \
             }(page##_at + R->thread % 32 * page##_by));                                                               \
             page##_live; page##_live &= page##_live - 1)                                                              \
            for (u64 page = page##_at + (u64)(__ffs((int)page##_live) - 1) * page##_by, page##_once = 1; page##_once;  \
                 page##_once = 0)
#define EACH_ROW(i, column, page) \
    for (u32 i = R->thread % 32, i##_end = flow_page_rows_(&(column), (page)); i < i##_end; i += 32)
#endif

#endif
