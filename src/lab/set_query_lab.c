// set_query_lab.c - Set Query (paper 5, 6.4 and figure 15): what crosses the link with all columns, with the columns of
// the query, and with index pages looked up first; and the seven SQLs in Weft's engine.

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/flow_lab.h"
#include "lab/set_query.h"
#include "lab/skip.h"
#include "lab/sql.h"

enum { KSEQ = 0, K500K = 1, K100K = 3, K10K = 5, K1K = 6, K100 = 7, K25 = 8, K5 = 10, K2 = 12 };

#define POINT(column, value)                   \
    {                                          \
        column, 1, { { value, value } }, false \
    }
#define BETWEEN(column, low, high)          \
    {                                       \
        column, 1, { { low, high } }, false \
    }
#define KSEQ_RANGES                                                                                                 \
    {                                                                                                               \
        KSEQ, 5,                                                                                                    \
            { { 400000, 410000 }, { 420000, 430000 }, { 440000, 450000 }, { 460000, 470000 }, { 480000, 500000 } }, \
            false                                                                                                   \
    }

// The same conditions as in bench/setquery/queries; their answers are compared.
static const SkipQuery queries[SET_QUERY_SQLS] = {
    { "Q1", 1, { POINT(K100K, 2) }, 0, { 0 } },
    { "Q2-A", 2, { POINT(K2, 2), POINT(K1K, 3) }, 0, { 0 } },
    { "Q2-B", 2, { POINT(K2, 2), { K1K, 1, { { 3, 3 } }, true } }, 0, { 0 } },
    { "Q3-A", 2, { BETWEEN(KSEQ, 400000, 500000), POINT(K100, 3) }, 1, { K1K } },
    { "Q3-B", 2, { KSEQ_RANGES, POINT(K100, 3) }, 1, { K1K } },
    { "Q4-A", 3, { POINT(K2, 1), BETWEEN(K100, 81, 100), BETWEEN(K10K, 2000, 3000) }, 2, { KSEQ, K500K } },
    { "Q4-B",
      5,
      { POINT(K2, 1),
        BETWEEN(K100, 81, 100),
        BETWEEN(K10K, 2000, 3000),
        POINT(K5, 3),
        { K25, 2, { { 11, 11 }, { 19, 19 } }, false } },
      2,
      { KSEQ, K500K } },
};

static const char *const paper_columns[SET_QUERY_SQLS] = { "80-85 %", "80-85 %", "80-85 %", "80-85 %",
                                                           "80-85 %", "45-60 %", "45-60 %" };

static SkipTable table_of(const FlowLab *flow, size_t page_bytes)
{
    const i64 rows = flow->lab->options.rows, usual = flow->lab->is_sim ? SET_QUERY_ROWS / 10 : SET_QUERY_ROWS;
    return (
        SkipTable){ .seed = flow->lab->options.seed, .n_rows = (u64)(rows ? rows : usual), .page_bytes = page_bytes };
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

static double saved(u64 bytes, u64 of)
{
    return of ? 1 - (double)bytes / (double)of : NAN;
}

static weft_status show_bytes(FlowLab *flow, const SkipTable *table, const SkipResult *results)
{
    Lab *lab = flow->lab;
    double values[SET_QUERY_SQLS * 3];
    const char *groups[SET_QUERY_SQLS];
    static const char *const series[] = { "all 13 columns", "columns of the query", "and index pages" };
    Text svg = { 0 };
    LabTable *out = lab_table_new(lab, "flow-set-query-bytes",
                                  arena_printf(lab->arena, "Megabytes over the link, pages of %s",
                                               flow_size_text(lab, table->page_bytes)));
    lab_column(out, "query", LAB_LEFT);
    lab_column(out, "all columns", LAB_RIGHT);
    lab_column(out, "its columns", LAB_RIGHT);
    lab_column(out, "saved", LAB_RIGHT);
    lab_column(out, "paper", LAB_RIGHT);
    lab_column(out, "with index pages", LAB_RIGHT);
    lab_column(out, "of them index", LAB_RIGHT);
    lab_column(out, "saved further", LAB_RIGHT);
    lab_column(out, "paper further", LAB_RIGHT);
    lab_column(out, "with late outputs", LAB_RIGHT);
    lab_column(out, "pages read", LAB_RIGHT);
    for (int q = 0; q < SET_QUERY_SQLS; q++) {
        const SkipResult *result = &results[q];
        groups[q] = queries[q].title;
        values[q * 3] = (double)result->bytes_all / 1e6;
        values[q * 3 + 1] = (double)result->bytes_columns / 1e6;
        values[q * 3 + 2] = (double)result->bytes_indexed / 1e6;
        lab_row(out, queries[q].title, lab_number(lab, values[q * 3], 2), lab_number(lab, values[q * 3 + 1], 2),
                lab_percent(lab, saved(result->bytes_columns, result->bytes_all)), paper_columns[q],
                lab_number(lab, values[q * 3 + 2], 2), lab_number(lab, (double)result->bytes_index / 1e6, 2),
                lab_percent(lab, saved(result->bytes_indexed, result->bytes_columns)), "5-61 %",
                lab_percent(lab, saved(result->bytes_late, result->bytes_columns)),
                lab_percent(lab, (double)result->n_pages_read / (double)MAX_OF(result->n_pages, 1)));
    }
    TRY(lab_table_end(out));
    plot_bars(&(BarPlot){ .title = "Bytes over the link",
                          .description = "Megabytes that cross the link, for each query.",
                          .y_label = "MB",
                          .groups = groups,
                          .n_groups = SET_QUERY_SQLS,
                          .series = series,
                          .n_series = 3,
                          .values = values,
                          .y_is_log = true },
              &svg);
    return lab_plot(lab, "flow-set-query-plot", "Bytes over the link (beside the paper's figure 15a)", &svg);
}

// Q1 with each of the columns that the benchmark has for KN: the value 2 may be in every page, or in few.
static weft_status show_columns(FlowLab *flow, const SkipTable *table)
{
    static const char *const names[] = { "kseq", "k100k", "k10k", "k1k", "k100", "k25", "k10", "k5", "k4", "k2" };
    Lab *lab = flow->lab;
    SkipQuery own[COUNT_OF(names)];
    SkipResult results[COUNT_OF(names)];
    LabTable *out = lab_table_new(lab, "flow-set-query-columns", "Q1, KN = 2, for each KN of the benchmark");
    for (int i = 0; i < COUNT_OF(names); i++)
        own[i] = (SkipQuery){ names[i], 1, { POINT(set_query_column(names[i]), 2) }, 0, { 0 } };
    TRY(skip_run(table, own, COUNT_OF(own), results, lab->err));
    lab_column(out, "KN", LAB_LEFT);
    lab_column(out, "rows", LAB_RIGHT);
    lab_column(out, "pages read", LAB_RIGHT);
    lab_column(out, "saved by columns", LAB_RIGHT);
    lab_column(out, "saved further by index pages", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(names); i++)
        lab_row(out, names[i], lab_count_text(lab, (i64)results[i].n_rows),
                lab_percent(lab, (double)results[i].n_pages_read / (double)MAX_OF(results[i].n_pages, 1)),
                lab_percent(lab, saved(results[i].bytes_columns, results[i].bytes_all)),
                lab_percent(lab, saved(results[i].bytes_indexed, results[i].bytes_columns)));
    return lab_table_end(out);
}

static weft_status show_page_sizes(FlowLab *flow)
{
    static const size_t sizes[] = { 4096, 16384, 65536 };
    Lab *lab = flow->lab;
    LabTable *out = lab_table_new(lab, "flow-set-query-pages", "Share of its columns that a query reads, by page size");
    SkipResult results[COUNT_OF(sizes)][SET_QUERY_SQLS];
    lab_column(out, "query", LAB_LEFT);
    for (int s = 0; s < COUNT_OF(sizes); s++) {
        const SkipTable table = table_of(flow, sizes[s]);
        lab_progress(lab, "page sizes", s, COUNT_OF(sizes));
        lab_column(out, flow_size_text(lab, sizes[s]), LAB_RIGHT);
        TRY(skip_run(&table, queries, SET_QUERY_SQLS, results[s], lab->err));
    }
    for (int q = 0; q < SET_QUERY_SQLS; q++) {
        const char *cells[1 + COUNT_OF(sizes)] = { queries[q].title };
        for (int s = 0; s < COUNT_OF(sizes); s++)
            cells[1 + s] =
                lab_percent(lab, (double)results[s][q].bytes_indexed / (double)MAX_OF(results[s][q].bytes_columns, 1));
        lab_row_cells(out, COUNT_OF(cells), cells);
    }
    return lab_table_end(out);
}

// ---- the engine -----------------------------------------------------------------------------------------------------

static char *put_value(char *at, i32 value)
{
    char digits[12];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static weft_status write_rows(const SkipTable *table, File *file, Error *err)
{
    enum { BUFFER = 1 << 20, ROW_MAX = SET_QUERY_COLUMNS * 11 };
    char *buffer = malloc(BUFFER), *at = buffer;
    weft_status status = buffer ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory");
    for (u64 row = 0; row < table->n_rows && !status; row++) {
        for (int column = 0; column < SET_QUERY_COLUMNS; column++) {
            at = put_value(at, set_query_value(table->seed, row, column));
            *at++ = column + 1 < SET_QUERY_COLUMNS ? ',' : '\n';
        }
        if (at - buffer > BUFFER - ROW_MAX || row + 1 == table->n_rows) {
            status = file_write(file, buffer, (size_t)(at - buffer), err);
            at = buffer;
        }
    }
    free(buffer);
    return status;
}

static weft_status load_table(FlowLab *flow, LabSql *sql, const SkipTable *table, Error *err)
{
    const char *folder = getenv("TMPDIR");
    char *path =
        arena_printf(flow->arena, "%s/weft-lab-%d-bench.csv", folder && *folder ? folder : "/tmp", (int)getpid());
    Text columns = { 0 };
    Error ignored = { 0 };
    File file;
    for (int i = 0; i < SET_QUERY_COLUMNS; i++)
        text_add(&columns, "%s%s integer not null", i ? ", " : "", set_query_columns[i].name);
    weft_status status = sql_run(sql, "create table bench (%s)", columns.bytes);
    text_free(&columns);
    TRY(status);
    TRY(file_create(path, &file, err));
    status = write_rows(table, &file, err);
    file_close(&file);
    if (!status)
        status = sql_run(sql, "copy bench from '%s' (format csv)", path);
    file_remove(path, &ignored);
    return status;
}

// The answer of the engine in the form of SkipResult: a count, a sum, or rows and the sum of their first column.
static weft_status answer_of(LabSql *sql, int q, u64 *n_rows, u64 *sum)
{
    char text[64];
    const bool is_rows = queries[q].n_outputs == 2;
    TRY(sql_value(sql, is_rows ? "select coalesce(sum(kseq), 0) from (%s) t" : "%s", set_query_sqls[q].text, text,
                  sizeof(text)));
    const u64 value = strtoull(text, NULL, 10);
    *n_rows = *sum = value;
    if (!is_rows)
        return WEFT_OK;
    TRY(sql_value(sql, "select count(*) from (%s) t", set_query_sqls[q].text, text, sizeof(text)));
    *n_rows = strtoull(text, NULL, 10);
    return WEFT_OK;
}

static bool is_same_answer(int q, const SkipResult *result, u64 n_rows, u64 sum)
{
    return (queries[q].n_outputs == 1 || result->n_rows == n_rows) && (queries[q].n_outputs == 0 || result->sum == sum);
}

static weft_status run_sqls(FlowLab *flow, LabSql *sql, const SkipResult *results)
{
    Lab *lab = flow->lab;
    LabTable *out = lab_table_new(lab, "flow-set-query-sql", "The seven SQLs in Weft's engine");
    lab_column(out, "query", LAB_LEFT);
    lab_column(out, "rows", LAB_RIGHT);
    lab_column(out, "same answer", LAB_LEFT);
    lab_column(out, "total, ms", LAB_RIGHT);
    lab_column(out, "kernels, ms", LAB_RIGHT);
    lab_column(out, "read, MB", LAB_RIGHT);
    for (int q = 0; q < SET_QUERY_SQLS; q++) {
        SqlFigures figures = { 0 };
        u64 n_rows, sum;
        lab_progress(lab, "Set Query", q, SET_QUERY_SQLS);
        TRY(answer_of(sql, q, &n_rows, &sum));
        TRY(sql_measure(sql, set_query_sqls[q].text, flow->n_runs, &figures));
        lab_row(out, queries[q].title, lab_count_text(lab, (i64)results[q].n_rows),
                is_same_answer(q, &results[q], n_rows, sum) ? "yes" : "NO", lab_number(lab, figures.total_ms, 2),
                lab_number(lab, figures.time_ms, 3), lab_number(lab, figures.bytes_read / 1e6, 2));
    }
    return lab_table_end(out);
}

static weft_status show_engine(FlowLab *flow, const SkipTable *table, const SkipResult *results)
{
    Lab *lab = flow->lab;
    Error *own = lab->err, err = { 0 };
    LabSql *sql;
    lab_progress(lab, "loading bench", 0, 1);
    lab->err = &err;  // what fails here must not end the rest
    weft_status status = sql_open(lab, &sql);
    if (!status) {
        status = load_table(flow, sql, table, &err);
        if (!status)
            status = run_sqls(flow, sql, results);
        sql_close(sql);
    }
    lab->err = own;
    if (status)
        lab_say(lab, "The SQLs were not run: %s", err.message);
    return WEFT_OK;
}

weft_status flow_set_query(FlowLab *flow)
{
    Lab *lab = flow->lab;
    const SkipTable table = table_of(flow, 4096);
    SkipResult results[SET_QUERY_SQLS];
    lab_section(lab, "Set Query: pages that never cross the link (figure 15)");
    lab_say(lab,
            "A table of %" PRIu64 " rows and 13 columns of 4 bytes, in pages of one column. Bytes are counted from "
            "the pages that a query reads; index pages count, too. The paper has 6.5 GB for ten million rows of 13 "
            "scalar columns, which does not add up: 13 columns of 4 bytes are 0.52 GB. It does not say which column "
            "KN stands for in Q1 to Q3; here it is K100K, K1K and K100, and the second table has the others. "
            "Values like 2 and 3 are at the edge of a column, so min-max entries alone rule out many pages. Late "
            "outputs are the paper's direct read taken further: a column that is only returned is read for pages "
            "where a row is left.",
            table.n_rows);
    lab_progress(lab, "pages", 0, 1);
    TRY(skip_run(&table, queries, SET_QUERY_SQLS, results, lab->err));
    TRY(show_bytes(flow, &table, results));
    TRY(show_columns(flow, &table));
    TRY(show_page_sizes(flow));
    return show_engine(flow, &table, results);
}
