// sql.h - Weft's own engine for experiments: tables of random numbers, queries, and what EXPLAIN ANALYZE says of them.
//
//     TRY(sql_open(lab, &sql));
//     TRY(sql_run(sql, "create table t (a integer, b integer)"));
//     TRY(sql_fill(sql, "t", &(SqlRows){ .n_columns = 2, .kinds = kinds, .n_rows = 1 << 20 }));
//     TRY(sql_measure(sql, "select sum(b) from t where a < 10", n_runs, &figures));
//
// It runs on the lab's GPU, or on the CPU where the lab's card is simulated: engines run queries, not simulations.

#ifndef WEFT_LAB_SQL_H
#define WEFT_LAB_SQL_H

#include "lab/lab_int.h"

typedef struct LabSql LabSql;

// Closed with the lab's arena at the latest.
weft_status sql_open(Lab *lab, LabSql **sql);
void        sql_close(LabSql *sql);
bool        sql_is_on_gpu(const LabSql *sql);
weft_status sql_run(LabSql *sql, const char *format, ...) PRINTF_LIKE(2, 3);

// The first value of the first row, as text: "" where there is no row.  FORMAT has one %s, for TEXT.
weft_status sql_value(LabSql *sql, const char *format, const char *text, char *value, size_t room);

typedef struct SqlColumn {
    bool is_row_number;                                     // 0, 1, 2, ...: else random
    u32  least, below;                                      // of random values
    u32  step;                                              // what values, or row numbers, are multiplied with; 0: 1
} SqlColumn;

typedef struct SqlRows {
    const SqlColumn *columns;
    int n_columns;
    i64 n_rows;
    int n_times;                                            // appended so often; 0: once
} SqlRows;

weft_status sql_fill(LabSql *sql, const char *table, const SqlRows *rows);

// Of all kernels of a query.
typedef struct SqlFigures {
    int    n_kernels;
    double time_ms;                                         // of kernels; on a GPU by its own clock
    double total_ms;                                        // by the host's clock
    double bytes_read;
    double bytes_kept;                                      // rows that were stored between kernels
    double memory;                                          // of the host, at most
    int    registers;                                       // the most of a thread; 0: not on a GPU
    double shared;                                          // the most of a block
    int    occupancy;                                       // the least, in percent
    double rows_out;                                        // of the last kernel of the first pipeline
    bool   is_elsewhere;                                    // some kernel did not run where it was told to
} SqlFigures;

// What EXPLAIN ANALYZE says.  For tests; sql_measure calls it.
void        sql_read_plan(const char *line, bool is_gpu_wanted, SqlFigures *figures);
// The fastest of so many runs, after one that does not count.
weft_status sql_measure(LabSql *sql, const char *query, int n_runs, SqlFigures *figures);
weft_status sql_measure_once(LabSql *sql, const char *query, SqlFigures *figures);
enum { SQL_AT_ONCE_MAX = 16 };

// Queries in sessions of their own with these settings, the same way: the time until all are done.  They run at once,
// or each begins when the one before has ended.
typedef struct SqlCrowd {
    const char *const *queries;
    int         n_queries;                                  // SQL_AT_ONCE_MAX at most
    const char *settings;
    bool        is_at_once;
} SqlCrowd;

weft_status sql_measure_crowd(LabSql *sql, const SqlCrowd *crowd, int n_runs, double *time_ms);

#endif
