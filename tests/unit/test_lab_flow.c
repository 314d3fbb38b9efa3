// test_lab_flow.c - what weft lab flow rests on: the table of Set Query, pages that are skipped, checks of RAID-6 and
// AES that can fail, and queries posted as frames.

#include "test.h"

#include "lab/flow_query.h"
#include "lab/set_query.h"
#include "lab/skip.h"

TEST(set_query_values_are_in_range_and_equally_likely)
{
    enum { ROWS = 20000 };
    for (int column = 0; column < SET_QUERY_COLUMNS; column++) {
        const u32 n_values = set_query_columns[column].n_values;
        double sum = 0;
        for (u64 row = 0; row < ROWS; row++) {
            const i32 value = set_query_value(7, row, column);
            CHECK(value >= 1 && (n_values ? value <= (i32)n_values : value == (i32)row + 1));
            sum += value;
        }
        if (n_values)  // five standard deviations of the mean
            CHECK(fabs(sum / ROWS - (n_values + 1) / 2.0) < 5 * n_values / sqrt(12.0 * ROWS));
    }
    CHECK_INT(set_query_column("k40k"), 4);
    CHECK_INT(set_query_column("k3"), -1);
}

// The answer without pages.
static u64 count_rows(const SkipTable *table, const SkipQuery *query)
{
    u64 n = 0;
    for (u64 row = 0; row < table->n_rows; row++) {
        bool is_kept = true;
        for (int t = 0; t < query->n_terms; t++) {
            const SkipTerm *term = &query->terms[t];
            const i32 value = set_query_value(table->seed, row, term->column);
            bool is_in = false;
            for (int r = 0; r < term->n_ranges; r++)
                is_in |= term->ranges[r].low <= value && value <= term->ranges[r].high;
            is_kept &= is_in != term->is_not;
        }
        n += is_kept;
    }
    return n;
}

TEST(skipped_pages_hold_no_row_of_the_answer)
{
    const int k10k = set_query_column("k10k"), k1k = set_query_column("k1k"), k2 = set_query_column("k2");
    const SkipQuery queries[] = {
        { "point", 1, { { k10k, 1, { { 5000, 5000 } }, false } }, 0, { 0 } },
        { "two points", 1, { { k10k, 2, { { 17, 17 }, { 9000, 9000 } }, false } }, 0, { 0 } },
        { "range", 1, { { 0, 1, { { 5000, 6000 } }, false } }, 1, { k1k } },
        { "not", 2, { { k2, 1, { { 1, 1 } }, true }, { k1k, 1, { { 3, 3 } }, false } }, 0, { 0 } },
    };
    for (size_t bytes = 4096; bytes <= SKIP_PAGE_MOST; bytes *= 4) {
        const SkipTable table = { .seed = 3, .n_rows = 30001, .page_bytes = bytes };
        SkipResult results[COUNT_OF(queries)];
        Error err = { 0 };
        CHECK_OK(skip_run(&table, queries, COUNT_OF(queries), results, &err), err);
        for (int q = 0; q < COUNT_OF(queries); q++) {
            CHECK_INT((i64)results[q].n_rows, (i64)count_rows(&table, &queries[q]));
            CHECK_INT((i64)results[q].bytes_all, 30001 * 4 * 13);
            CHECK(results[q].bytes_late <= results[q].bytes_indexed);
            CHECK(results[q].n_pages == (30001 * 4 + bytes - 1) / bytes);
        }
        CHECK_INT((i64)results[0].bytes_columns, 30001 * 4);
        CHECK_INT((i64)results[2].bytes_columns, 30001 * 4 * 2);
        CHECK(results[2].n_pages_read < results[2].n_pages || results[2].n_pages < 3);  // by min and max
        if (bytes == 4096) {
            CHECK(results[0].n_pages_read < results[0].n_pages / 2);  // by bloom filters
            CHECK(results[0].bytes_index > results[0].n_pages * 8);
            CHECK(results[3].n_pages_read > results[3].n_pages / 2);
        }
    }
}

TEST(wrong_raid6_and_aes_are_noticed)
{
    enum { BYTES = 4096 };
    static u8 in[BYTES], out[BYTES];
    const LabOperator *raid6 = operator_find("RAID-6"), *aes = operator_find("AES-128");
    Error err = { 0 };
    for (int i = 0; i < BYTES; i++)
        in[i] = (u8)(i * 7);
    CHECK_INT(operator_check(raid6, in, BYTES, out, &err), WEFT_DEVICE_FAILED);
    memcpy(in, operator_aes_plain, 16);
    error_clear(&err);
    CHECK_INT(operator_check(aes, in, BYTES, out, &err), WEFT_DEVICE_FAILED);
    memcpy(out, operator_aes_cipher, 16);
    error_clear(&err);
    CHECK_OK(operator_check(aes, in, BYTES, out, &err), err);
    CHECK_INT(operator_check(operator_find("sad"), in, BYTES, out, &err), WEFT_UNDEFINED_OBJECT);
    CHECK(operator_find("FMA5") == NULL);
    CHECK_INT((i64)operator_output_bytes(raid6, BYTES), BYTES / 4);
}

extern const char kernel_flow_text[];

// The sum without a kernel.
static i64 sum_where(const FilterQuery *query)
{
    const i32 *key = (const i32 *)(uintptr_t)query->columns[0];
    i64 sum = 0;
    for (u64 row = 0; row < query->n_rows; row++)
        for (u64 c = 1; c < query->n_columns; c++)
            if (key[row] >= (i32)query->low && key[row] <= (i32)query->high)
                sum += ((const i32 *)(uintptr_t)query->columns[c])[row];
    return sum;
}

TEST(posted_and_called_queries_have_the_same_sum)
{
    enum { ROWS = 5003 };
    static i32 table[QUERY_COLUMNS][ROWS];
    static const int columns[] = { 2, 4, 8 }, slices[] = { 1, 7, QUERY_FRAMES_MAX + 50 };
    Arena *arena = arena_new(NULL, "test");
    Lab lab = { .arena = arena, .is_sim = true };
    FlowLab flow = { .lab = &lab, .arena = arena, .measure_ms = 1 };
    QueryDoor *door = NULL;
    Error err = { 0 };
    flow.jit = jit_new(&(JitOptions){ .prelude = kernel_flow_text });
    for (int c = 0; c < QUERY_COLUMNS; c++)
        for (int row = 0; row < ROWS; row++)
            table[c][row] = (i32)((u32)(row + 1) * 2654435761u >> (c + 8)) - (1 << 20);
    CHECK_OK(query_door_open(&flow, &door, &err), err);
    for (int k = 0; k < COUNT_OF(columns); k++) {
        FilterQuery query = { .n_rows = ROWS, .low = 0, .high = 1 << 22, .n_columns = (u64)columns[k] };
        i64 called = 0;
        for (int c = 0; c < columns[k]; c++)
            query.columns[c] = (u64)(uintptr_t)table[c];
        const i64 should = sum_where(&query);
        CHECK(should != 0);
        CHECK_OK(query_by_call(&flow, &query, &called, &err), err);
        CHECK_INT(called, should);
        for (int s = 0; s < COUNT_OF(slices); s++) {
            i64 posted = 0;
            CHECK_OK(query_by_frames(door, &query, slices[s], &posted, &err), err);
            CHECK_INT(posted, should);
        }
    }
    query_door_close(door);
    jit_free(flow.jit);
    arena_free(arena);
}
