// hot.c - the part that all workloads have: each query alone, warm, beside DuckDB; see bench.h.

#include <math.h>

#include "bench.h"

static void time_hot(Bench *bench, Peer *weft, Peer *duckdb, const BenchQuery *query, double *weft_ms,
                     double *duckdb_ms)
{
    must(weft, peer_run(weft, "set jit = cc", NULL), "set jit");
    check_answers(weft, duckdb, query->name, query->sql);
    must(weft, peer_run(weft, "set jit = auto", NULL), "set jit");
    *weft_ms = *duckdb_ms = INFINITY;
    for (int r = -2; r < bench->options.repeats; r++) {        // the first two are warm-up
        double ours = run_ms(weft, query->sql), theirs = run_ms(duckdb, query->sql);
        if (r < 0)
            continue;
        *weft_ms = fmin(*weft_ms, ours);
        *duckdb_ms = fmin(*duckdb_ms, theirs);
    }
}

void table_begin(Bench *bench, const char *first_column)
{
    say(bench, "| %-5s | Weft ms | DuckDB ms | DuckDB / Weft |\n| :---- | ------: | --------: | ------------: |\n",
        first_column);
}

void table_row(Bench *bench, TimeTable *table, const char *name, double weft_ms, double duckdb_ms)
{
    say(bench, "| %-5s | %7.2f | %9.2f | %13.2f |\n", name, weft_ms, duckdb_ms, duckdb_ms / weft_ms);
    table->weft_sum += weft_ms;
    table->duckdb_sum += duckdb_ms;
    table->log_sum += log(duckdb_ms / weft_ms);
    table->n++;
}

void table_end(Bench *bench, const TimeTable *table)
{
    say(bench, "| sum   | %7.2f | %9.2f | %13.2f |\n", table->weft_sum, table->duckdb_sum,
        table->duckdb_sum / table->weft_sum);
    say(bench, "\nGeometric mean of DuckDB / Weft: **%.2f**\n\n", exp(table->log_sum / table->n));
}

void part_hot(Bench *bench)
{
    Peer *weft = open_weft(bench), *duckdb = open_duckdb(bench);
    TimeTable table = { 0 };
    say(bench, "## Hot: data in memory, code compiled; best of %d alternating runs\n\n", bench->options.repeats);
    table_begin(bench, "query");
    for (int q = 0; q < bench->n_queries; q++) {
        double weft_ms, duckdb_ms;
        time_hot(bench, weft, duckdb, &bench->queries[q], &weft_ms, &duckdb_ms);
        table_row(bench, &table, bench->queries[q].name, weft_ms, duckdb_ms);
    }
    table_end(bench, &table);
    peer_close(weft);
    peer_close(duckdb);
}
