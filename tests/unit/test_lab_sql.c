// test_lab_sql.c - what the lab reads from EXPLAIN ANALYZE, and the rows that it makes.

#include "test.h"

#include "lab/sql.h"

static SqlFigures read_lines(const char *const *lines, int n_lines, bool is_gpu_wanted)
{
    SqlFigures figures = { 0 };
    for (int i = 0; i < n_lines; i++)
        sql_read_plan(lines[i], is_gpu_wanted, &figures);
    return figures;
}

TEST(figures_of_a_gpu)
{
    static const char *const lines[] = {
        "pipeline 3: scan t -> rows  (rows 4, estimated out 2)",
        "  join on cuda:0: rows in 4, out 3, read 960.2 MB, chunks read 1, skipped 0, time 1.77 ms",
        "    1 x 1 blocks of 256 threads x 8 rows, 48 registers, 8.1 kB shared, occupancy 62 %, 1 launch",
        "    kernels 0.142 ms at 0.0 GB/s (0 % of the measured 1912), 12 B over the link",
        "    its rows stay in the memory of cuda:0: 2.3 kB, put together in 0.059 ms",
        "    after join d1: 3 rows",
        "  sink on cuda:0: rows in 3, out 1,234,567, read 9 B, chunks read 1, skipped 0, time 0.63 ms",
        "    1 x 1 blocks of 256 threads x 8 rows, 40 registers, 0 B shared, occupancy 75 %, 1 launch",
        "    kernels 0.119 ms at 0.0 GB/s (0 % of the measured 1912): its rows were in the memory of cuda:0",
        "memory: estimated 325.0 kB, used at most 216 B, waited 0.00 ms to be admitted",
        "answer of 3 rows made on cpu in 0.01 ms",
        "total 30.23 ms",
    };
    const SqlFigures figures = read_lines(lines, COUNT_OF(lines), true);
    CHECK_INT(figures.n_kernels, 2);
    CHECK_DOUBLE(figures.time_ms, 0.142 + 0.059 + 0.119, 1e-9);
    CHECK_DOUBLE(figures.bytes_read, 960.2e6 + 9, 1);
    CHECK_DOUBLE(figures.bytes_kept, 2300, 1e-9);
    CHECK_INT(figures.registers, 48);
    CHECK_DOUBLE(figures.shared, 8100, 1e-9);
    CHECK_INT(figures.occupancy, 62);
    CHECK_DOUBLE(figures.rows_out, 1234567, 0);
    CHECK_DOUBLE(figures.memory, 216, 0);
    CHECK_DOUBLE(figures.total_ms, 30.23, 1e-9);
    CHECK(!figures.is_elsewhere);
}

TEST(figures_of_a_cpu_and_a_fallback)
{
    static const char *const lines[] = {
        "  woven on cpu, cc, 2 threads: rows in 1,000,000, out 124,966, read 16.0 MB, chunks read 1, skipped 0, time "
        "12.49 ms + 0.01 ms to get the code",
        "total 14.41 ms",
    };
    const SqlFigures figures = read_lines(lines, COUNT_OF(lines), false);
    CHECK_INT(figures.n_kernels, 1);
    CHECK_DOUBLE(figures.time_ms, 12.49, 1e-9);
    CHECK_DOUBLE(figures.bytes_read, 16e6, 1);
    CHECK_INT(figures.registers, 0);
    CHECK(!figures.is_elsewhere);
    CHECK(read_lines(lines, COUNT_OF(lines), true).is_elsewhere);
}

// The engine's own words: if they change, the lab must learn them.
TEST(explain_analyze_is_understood)
{
    static const SqlColumn columns[] = { { .is_row_number = true, .step = 3 }, { .least = 10, .below = 20 } };
    Error err = { 0 };
    Lab lab = { .arena = arena_new(NULL, "test"), .err = &err, .is_sim = true, .options = { .seed = 1 } };
    LabSql *sql;
    SqlFigures figures;
    CHECK_OK(sql_open(&lab, &sql), err);
    CHECK_OK(sql_run(sql, "create table t (a integer, b integer); set jit = tcc"), err);
    CHECK_OK(sql_fill(sql, "t", &(SqlRows){ columns, 2, 1000, 2 }), err);
    CHECK_OK(sql_measure(sql, "select a, b from t where a >= 2700 and b between 10 and 19", 1, &figures), err);
    CHECK_INT(figures.n_kernels, 1);
    CHECK_DOUBLE(figures.rows_out, 200, 0);                 // of twice 900 to 999
    CHECK(figures.time_ms > 0 && figures.total_ms > 0 && figures.bytes_read > 0 && figures.memory > 0);
    CHECK_OK(sql_run(sql, "set weave = off"), err);
    CHECK_OK(sql_measure(sql, "select a, b from t where a >= 2700 and b < 15", 1, &figures), err);
    CHECK_INT(figures.n_kernels, 3);
    for (int is_at_once = 0; is_at_once < 2; is_at_once++) {
        double time_ms = 0;
        const char *queries[] = { "select sum(a) from t", "select sum(b) from t", "select count(*) from t" };
        const SqlCrowd crowd = { queries, 3, "set jit = tcc", is_at_once };
        error_clear(&err);
        CHECK_OK(sql_measure_crowd(sql, &crowd, 1, &time_ms), err);
        CHECK(time_ms > 0);
        queries[1] = "select sum(x) from t";
        CHECK_STATUS(sql_measure_crowd(sql, &crowd, 1, &time_ms), WEFT_UNDEFINED_COLUMN);
    }
    arena_free(lab.arena);
}
