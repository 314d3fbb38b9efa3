// answer.c - is this the right answer?
//
// Everything must be equal, sums of floats within a relative 1e-9: the order of addition is not fixed.  Where no ORDER
// BY fixes the order of rows, both answers are sorted first.  Floats come last in that order, so that a sum's last bits
// cannot change it: rows that differ only in such a sum do not exist, since the keys of groups are unique.

#define _GNU_SOURCE
#include "stress.h"

#include <math.h>
#include <stdlib.h>

static bool is_float(const weft_column *column)
{
    return column->type == WEFT_REAL || column->type == WEFT_DOUBLE;
}

static bool is_null(const weft_column *column, size_t row)
{
    return column->is_null && column->is_null[row];
}

static int compare_numbers(i128 a, i128 b)
{
    return a < b ? -1 : a > b;
}

static i128 wide(weft_int128 value)
{
    return (i128)((u128)value.low | (u128)(u64)value.high << 64);
}

static int compare_texts(weft_text a, weft_text b)
{
    const int order = memcmp(a.bytes, b.bytes, MIN_OF(a.length, b.length));
    return order ? order : compare_numbers((i128)a.length, (i128)b.length);
}

static int compare_cells(const weft_column *a, size_t row_a, const weft_column *b, size_t row_b)
{
    if (is_null(a, row_a) || is_null(b, row_b))
        return is_null(a, row_a) - is_null(b, row_b);
    if (is_float(a))
        return a->f64[row_a] < b->f64[row_b] ? -1 : a->f64[row_a] > b->f64[row_b];
    if (a->type == WEFT_TEXT)
        return compare_texts(a->text[row_a], b->text[row_b]);
    if (a->type == WEFT_NUMERIC)
        return compare_numbers(wide(a->i128[row_a]), wide(b->i128[row_b]));
    return compare_numbers(a->i64[row_a], b->i64[row_b]);
}

static bool is_close(double a, double b)
{
    return a == b || (a != a && b != b) || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool equal_cells(const weft_column *a, size_t row_a, const weft_column *b, size_t row_b)
{
    if (is_float(a) && !is_null(a, row_a) && !is_null(b, row_b))
        return is_close(a->f64[row_a], b->f64[row_b]);
    return compare_cells(a, row_a, b, row_b) == 0;
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const weft_result *result = context;
    const size_t row_a = *(const size_t *)a, row_b = *(const size_t *)b;
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            const weft_column *column = weft_result_column(result, c);
            if (is_float(column) != (pass == 1))
                continue;
            const int order = compare_cells(column, row_a, column, row_b);
            if (order)
                return order;
        }
    return 0;
}

static size_t *row_order(const weft_result *result, bool is_sorted)
{
    const size_t n_rows = weft_result_rows(result);
    size_t *order = malloc((n_rows + 1) * sizeof *order);
    for (size_t r = 0; r < n_rows; r++)
        order[r] = r;
    if (is_sorted)
        qsort_r(order, n_rows, sizeof *order, compare_rows, (void *)(uintptr_t)result);
    return order;
}

static void add_row(Text *why, const char *what, const weft_result *result, size_t row)
{
    char buffer[200];
    text_add(why, "  %s row %zu:", what, row);
    for (int c = 0; c < weft_result_columns(result); c++) {
        weft_format(result, c, row, buffer, sizeof buffer);
        text_add(why, " | %s", is_null(weft_result_column(result, c), row) ? "NULL" : buffer);
    }
    text_add(why, "\n");
}

static bool equal_rows(const weft_result *want, const weft_result *got, int n_columns, bool is_sorted, Text *why)
{
    size_t *order_want = row_order(want, is_sorted), *order_got = row_order(got, is_sorted);
    bool is_equal = true;
    for (size_t r = 0; is_equal && r < weft_result_rows(want); r++)
        for (int c = 0; is_equal && c < n_columns; c++) {
            const weft_column *a = weft_result_column(want, c), *b = weft_result_column(got, c);
            if (equal_cells(a, order_want[r], b, order_got[r]))
                continue;
            is_equal = false;
            text_add(why, "  column %d of row %zu differs%s\n", c, r, is_sorted ? " once sorted" : "");
            add_row(why, "want", want, order_want[r]);
            add_row(why, "got ", got, order_got[r]);
        }
    free(order_want);
    free(order_got);
    return is_equal;
}

bool answer_equal(const Item *item, const weft_result *got, Text *why)
{
    const weft_result *want = item->answer;
    const int n_columns = weft_result_columns(want);
    if (weft_result_rows(want) != weft_result_rows(got) || n_columns != weft_result_columns(got)) {
        text_add(why, "  want %zu rows of %d columns, got %zu of %d\n", weft_result_rows(want), n_columns,
                 weft_result_rows(got), weft_result_columns(got));
        return false;
    }
    for (int c = 0; c < n_columns; c++)
        if (weft_result_column(want, c)->type != weft_result_column(got, c)->type) {
            text_add(why, "  column %d has another type\n", c);
            return false;
        }
    if (item->is_ordered)
        return equal_rows(want, got, n_columns, false, why);
    return equal_rows(want, got, item->n_sorted, false, why) && equal_rows(want, got, n_columns, true, why);
}

// ---- live answers ------------------------------------------------------------------------------------------------

static i64 number_at(const weft_result *result, int c, size_t row)
{
    const weft_column *column = weft_result_column(result, c);
    if (is_null(column, row))
        return INT64_MIN;
    return column->type == WEFT_NUMERIC ? (i64)wide(column->i128[row]) : column->i64[row];
}

static bool is_number(const weft_result *got, int c, size_t row, i64 want, Text *why)
{
    if (number_at(got, c, row) == want)
        return true;
    text_add(why, "  column %d of row %zu should be %lld\n", c, row, (long long)want);
    add_row(why, "got ", got, row);
    return false;
}

static bool is_of_codes(const Totals *totals, const weft_result *got, Text *why)
{
    for (int code = 0; code < N_CODES; code++)
        if (!is_number(got, 0, (size_t)code, code - N_CODES / 2, why) ||
            !is_number(got, 1, (size_t)code, totals->code_rows[code], why) ||
            !is_number(got, 2, (size_t)code, totals->code_qty[code], why))
            return false;
    return true;
}

static bool is_of_batches(const Data *data, int last, const weft_result *got, Text *why)
{
    for (int batch = 0; batch <= last; batch++) {
        const i64 before = batch ? data->totals[batch - 1].n_rows : 0;
        if (!is_number(got, 0, (size_t)batch, batch, why) ||
            !is_number(got, 1, (size_t)batch, data->totals[batch].n_rows - before, why))
            return false;
    }
    return true;
}

// The batch up to which the answer saw rows, by its number of rows; -1: none from FROM to TO.
static int batch_of(const Data *data, i64 n_rows, int from, int to)
{
    for (int batch = from; batch <= to; batch++)
        if (data->totals[batch].n_rows == n_rows)
            return batch;
    return -1;
}

static i64 rows_seen(LiveKind live, const weft_result *got)
{
    i64 n_rows = 0;
    if (live == LIVE_TOTALS || live == LIVE_JOIN)
        return weft_result_rows(got) == 1 ? number_at(got, 0, 0) : -1;
    for (size_t r = 0; r < weft_result_rows(got); r++)
        n_rows += number_at(got, 1, r);
    return n_rows;
}

bool answer_is_live(const Data *data, LiveKind live, int from, int to, const weft_result *got, Text *why)
{
    const i64 n_rows = rows_seen(live, got);
    const int batch = batch_of(data, n_rows, from, to);
    const Totals *totals = &data->totals[MAX_OF(batch, 0)];
    if (batch < 0) {
        text_add(why, "  %lld rows seen: batches %d to %d have %lld to %lld\n", (long long)n_rows, from, to,
                 (long long)data->totals[from].n_rows, (long long)data->totals[to].n_rows);
        return false;
    }
    switch (live) {
    case LIVE_TOTALS:
        return is_number(got, 1, 0, totals->n_qty, why) && is_number(got, 2, 0, totals->sum_qty, why) &&
               is_number(got, 3, 0, totals->sum_price, why) && is_number(got, 4, 0, totals->n_rows - 1, why) &&
               is_number(got, 5, 0, batch, why);
    case LIVE_JOIN: return is_number(got, 1, 0, totals->sum_qty, why) && is_number(got, 2, 0, batch, why);
    case LIVE_CODES: return weft_result_rows(got) == N_CODES && is_of_codes(totals, got, why);
    default: return weft_result_rows(got) == (size_t)batch + 1 && is_of_batches(data, batch, got, why);
    }
}
