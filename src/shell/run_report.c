// run_report.c - the summary of `weft run`: times, and how often tables were read.
//
// Times read is rows pushed from a table over its rows; "without sharing" counts them for each rider, which is what
// every query for itself would have read.  Chunks that statistics rule out count on neither side, so one query may read
// a table 0.2 times.  Woven is the number of riders that one kernel served, on average over the chunks where one did.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shell/run.h"

// ---- what the tables say ----------------------------------------------------------------------------------------

static TableReads *figures_of(FigureList *list, const char *name)
{
    for (int i = 0; i < list->n_tables; i++)
        if (!strcmp(list->tables[i].name, name))
            return &list->tables[i];
    list->tables = must_realloc(list->tables, (size_t)(list->n_tables + 1) * sizeof *list->tables);
    list->tables[list->n_tables] = (TableReads){ .name = must_copy(name) };
    return &list->tables[list->n_tables++];
}

static weft_result *ask(Run *run, const char *sql)
{
    weft_result *result = NULL;
    weft_error error = { .status = WEFT_OK };
    if (weft_query(run->shell.session, sql, &result, &error))
        report_error(&run->shell, &error, NULL, NULL, 1);
    return result;
}

static int64_t number_at(const weft_result *result, int column, size_t row)
{
    return weft_result_column(result, column)->i64[row];
}

// A table that was dropped and made anew has two lines: they are added up.
static void add_scan(FigureList *list, const weft_result *scans, size_t row)
{
    TableReads *table = figures_of(list, weft_result_column(scans, 0)->text[row].bytes);
    int64_t *const fields[] = { &table->rides, &table->chunks_read, &table->chunks_ridden, &table->rows_read,
                                &table->rows_ridden, &table->bytes_read, &table->bytes_ridden, &table->chunks_woven,
                                &table->chunks_woven_ridden, &table->rides_woven };
    for (int i = 0; i < (int)(sizeof fields / sizeof *fields); i++)
        *fields[i] += number_at(scans, i + 1, row);
}

bool figures_take(Run *run, FigureList *list)
{
    weft_result *scans =
        ask(run, "select table_name, rides, chunks_read, chunks_ridden, rows_read, rows_ridden, "
                 "bytes_read, bytes_ridden, chunks_woven, chunks_woven_ridden, rides_woven from weft_scans");
    weft_result *tables = ask(run, "select name, rows from weft_tables");
    bool is_fine = scans && tables;
    for (size_t r = 0; is_fine && r < weft_result_rows(scans); r++)
        if (strncmp(weft_result_column(scans, 0)->text[r].bytes, "weft_", 5))
            add_scan(list, scans, r);
    for (size_t r = 0; is_fine && r < weft_result_rows(tables); r++)
        figures_of(list, weft_result_column(tables, 0)->text[r].bytes)->rows = number_at(tables, 1, r);
    weft_result_free(scans);
    weft_result_free(tables);
    return is_fine;
}

void figures_subtract(FigureList *list, const FigureList *before)
{
    for (int i = 0; i < list->n_tables; i++) {
        TableReads *table = &list->tables[i];
        for (int j = 0; j < before->n_tables; j++) {
            const TableReads *old = &before->tables[j];
            if (strcmp(table->name, old->name))
                continue;
            table->rides -= old->rides;
            table->chunks_read -= old->chunks_read, table->chunks_ridden -= old->chunks_ridden;
            table->rows_read -= old->rows_read, table->rows_ridden -= old->rows_ridden;
            table->bytes_read -= old->bytes_read, table->bytes_ridden -= old->bytes_ridden;
            table->chunks_woven -= old->chunks_woven, table->chunks_woven_ridden -= old->chunks_woven_ridden;
            table->rides_woven -= old->rides_woven;
        }
    }
}

void figures_free(FigureList *list)
{
    for (int i = 0; i < list->n_tables; i++)
        free(list->tables[i].name);
    free(list->tables);
    *list = (FigureList){ 0 };
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// ---- times ------------------------------------------------------------------------------------------------------

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// The smallest time that SHARE of all times do not exceed.
static double percentile(const double *sorted, size_t n, double share)
{
    size_t rank = (size_t)ceil(share * (double)n);
    return sorted[rank ? rank - 1 : 0];
}

// Sorts TIMES_MS in place.
static Times times_of(double *times_ms, size_t n)
{
    if (!n)
        return (Times){ 0 };
    double sum = 0;
    qsort(times_ms, n, sizeof *times_ms, compare_doubles);
    for (size_t i = 0; i < n; i++)
        sum += times_ms[i];
    return (Times){ .n = n, .min = times_ms[0], .mean = sum / (double)n, .p50 = percentile(times_ms, n, 0.5),
                    .p90 = percentile(times_ms, n, 0.9), .p95 = percentile(times_ms, n, 0.95),
                    .p99 = percentile(times_ms, n, 0.99), .max = times_ms[n - 1] };
}

// *SORTED: all of them, to be freed.
static Times times_of_all(const Run *run, double **sorted)
{
    size_t n = 0;
    double *all = NULL;
    for (long i = 0; i < run->n_statements; i++)
        n += run->statements[i].n_times;
    all = must_realloc(NULL, (n + 1) * sizeof *all);
    n = 0;
    for (long i = 0; i < run->n_statements; i++) {
        const RunStatement *statement = &run->statements[i];
        if (!statement->n_times)
            continue;
        memcpy(all + n, statement->times_ms, statement->n_times * sizeof *all);
        n += statement->n_times;
    }
    *sorted = all;
    return times_of(all, n);
}

// What all statements would take one after the other, each at its best.
static double sum_of_best(const Run *run)
{
    double sum = 0;
    for (long i = 0; i < run->n_statements; i++)
        sum += times_of(run->statements[i].times_ms, run->statements[i].n_times).min;
    return sum;
}

static size_t count_failed(const Run *run)
{
    size_t n = 0;
    for (long i = 0; i < run->n_statements; i++)
        n += run->statements[i].n_failed;
    return n;
}

static size_t count_noticed(const Run *run, const char **first)
{
    size_t n = 0;
    for (long i = 0; i < run->n_statements; i++) {
        if (!n && run->statements[i].n_noticed) *first = run->statements[i].notice;
        n += run->statements[i].n_noticed;
    }
    return n;
}

// ---- for people ---------------------------------------------------------------------------------------------------

static const char *plural(size_t n) { return n == 1 ? "" : "s"; }

static int widest(const char *title, int width)
{
    int length = glyph_columns(title, strlen(title));
    return length > width ? length : width;
}

static void print_name(FILE *out, const char *name, int width)
{
    fprintf(out, "%s%*s", name, width - glyph_columns(name, strlen(name)), "");
}

static void print_totals(const Run *run, FILE *out)
{
    const RunOptions *options = &run->options;
    double *sorted;
    Times all = times_of_all(run, &sorted);
    size_t n_failed = count_failed(run), n_runs = all.n + n_failed;
    fprintf(out, "%zu statement%s ", n_runs, plural(n_runs));
    if (options->mode == RUN_CLIENTS)
        fprintf(out, "from %ld client%s ", options->n_clients, plural((size_t)options->n_clients));
    else if (options->mode == RUN_RATE)
        fprintf(out, "at %g per second%s ", options->rate, options->is_poisson ? " (Poisson)" : "");
    else
        fprintf(out, "%s", run->n_rounds > 1 ? "" : "at once ");
    fprintf(out, "in %.1f ms: %.1f per second", run->wall_ms, ratio((double)all.n * 1e3, run->wall_ms));
    if (run->n_rounds > 1)
        fprintf(out, "; %ld rounds of %ld at once, the best took %.1f ms", run->n_rounds, run->n_statements,
                run->best_round_ms);
    fprintf(out, "%s\n", run->is_stopped ? "; stopped" : "");
    if (n_failed)
        fprintf(out, "%zu failed\n", n_failed);
    const char *notice = "";
    const size_t n_noticed = count_noticed(run, &notice);
    if (n_noticed)
        fprintf(out, "%zu with a notice, the first: %s\n", n_noticed, notice);
    if (all.n > 1)
        fprintf(out,
                "ms: min %.2f, mean %.2f, p50 %.2f, p90 %.2f, p95 %.2f, p99 %.2f, max %.2f; at most %ld at a time\n",
                all.min, all.mean, all.p50, all.p90, all.p95, all.p99, all.max, run->most_running);
    print_rate(run, out);
    print_histogram(run, sorted, &all, out);
    free(sorted);
}

// One run each.
static void print_single_times(const Run *run, int width, FILE *out)
{
    fprintf(out, "  %9s %9s\n", "rows", "ms");
    for (long i = 0; i < run->n_statements; i++) {
        const RunStatement *statement = &run->statements[i];
        print_name(out, statement->name, width);
        if (statement->n_times)
            fprintf(out, "  %9zu %9.2f\n", statement->n_rows, statement->times_ms[0]);
        else
            fprintf(out, "  %9s %9s\n", "", statement->n_failed ? "failed" : "");
    }
}

static void print_many_times(const Run *run, int width, FILE *out)
{
    fprintf(out, "  %6s %6s %9s %9s %9s %9s %9s %9s\n", "runs", "failed", "rows", "min ms", "p50", "p95", "p99", "max");
    for (long i = 0; i < run->n_statements; i++) {
        const RunStatement *statement = &run->statements[i];
        Times times = times_of(statement->times_ms, statement->n_times);
        print_name(out, statement->name, width);
        fprintf(out, "  %6zu %6zu %9zu %9.2f %9.2f %9.2f %9.2f %9.2f\n", times.n + statement->n_failed,
                statement->n_failed, statement->n_rows, times.min, times.p50, times.p95, times.p99, times.max);
    }
}

static void print_times(const Run *run, FILE *out)
{
    int width = 9;
    size_t most_runs = 0;
    for (long i = 0; i < run->n_statements; i++) {
        const RunStatement *statement = &run->statements[i];
        width = widest(statement->name, width);
        size_t n_runs = statement->n_times + statement->n_failed;
        most_runs = n_runs > most_runs ? n_runs : most_runs;
    }
    fputc('\n', out);
    print_name(out, "statement", width);
    if (most_runs > 1)
        print_many_times(run, width, out);
    else
        print_single_times(run, width, out);
}

static void print_table(const TableReads *table, double n_rounds, int width, FILE *out)
{
    double rows = (double)table->rows * n_rounds, megabytes = 1e6 * n_rounds;
    print_name(out, table->name, width);
    fprintf(out, "  %12lld %9.1f %10.2f %15.2f %10.1f %15.1f %14.2f %9.2f\n", (long long)table->rows,
            (double)table->rides / n_rounds, ratio((double)table->rows_read, rows),
            ratio((double)table->rows_ridden, rows), (double)table->bytes_read / megabytes,
            (double)table->bytes_ridden / megabytes,
            ratio((double)table->chunks_ridden, (double)table->chunks_read),
            ratio((double)table->chunks_woven_ridden, (double)table->chunks_woven));
}

static void print_tables(const Run *run, FILE *out)
{
    int width = 9;
    double n_rounds = run->n_rounds ? (double)run->n_rounds : 1;
    for (int i = 0; i < run->figures.n_tables; i++)
        width = widest(run->figures.tables[i].name, width);
    fputc('\n', out);
    print_name(out, run->n_rounds > 1 ? "per round" : "table", width);
    fprintf(out, "  %12s %9s %10s %15s %10s %15s %14s %9s\n", "rows", "rides", "times read", "without sharing",
            "MB read", "without sharing", "rides per read", "woven");
    for (int i = 0; i < run->figures.n_tables; i++)
        if (run->figures.tables[i].rides > 0)
            print_table(&run->figures.tables[i], n_rounds, width, out);
}

void print_summary(const Run *run, FILE *out)
{
    print_totals(run, out);
    print_times(run, out);
    print_tables(run, out);
}

// ---- for programs -------------------------------------------------------------------------------------------------

static void put_times(const Times *times, FILE *out)
{
    fprintf(out, "{\"min\": %.4f, \"mean\": %.4f, \"p50\": %.4f, \"p90\": %.4f, \"p95\": %.4f, \"p99\": %.4f, "
                 "\"max\": %.4f}",
            times->min, times->mean, times->p50, times->p90, times->p95, times->p99, times->max);
}

static void put_text(const char *key, const char *text, FILE *out)
{
    fprintf(out, "\"%s\": ", key);
    put_json_string(text, strlen(text), out);
}

static void put_statement(const RunStatement *statement, FILE *out)
{
    Times times = times_of(statement->times_ms, statement->n_times);
    fputs("    {", out);
    put_text("name", statement->name, out);
    fputs(", ", out);
    put_text("file", statement->path, out);
    fprintf(out, ", \"line\": %d, \"runs\": %zu, \"failed\": %zu, \"rows\": %zu, \"ms\": ", statement->line,
            times.n + statement->n_failed, statement->n_failed, statement->n_rows);
    put_times(&times, out);
    if (statement->n_noticed) {
        fprintf(out, ", \"noticed\": %zu, ", statement->n_noticed);
        put_text("notice", statement->notice, out);
    }
    if (statement->n_failed) {
        fputs(", ", out);
        put_text("sqlstate", statement->error.sqlstate, out);
        fputs(", ", out);
        put_text("error", statement->error.message, out);
    }
    fputc('}', out);
}

static void put_table(const TableReads *table, FILE *out)
{
    fputs("    {", out);
    put_text("name", table->name, out);
    fprintf(out, ", \"rows\": %lld, \"rides\": %lld, \"chunks_read\": %lld, \"chunks_ridden\": %lld, ",
            (long long)table->rows, (long long)table->rides, (long long)table->chunks_read,
            (long long)table->chunks_ridden);
    fprintf(out, "\"rows_read\": %lld, \"rows_ridden\": %lld, \"bytes_read\": %lld, \"bytes_ridden\": %lld, ",
            (long long)table->rows_read, (long long)table->rows_ridden, (long long)table->bytes_read,
            (long long)table->bytes_ridden);
    fprintf(out, "\"chunks_woven\": %lld, \"chunks_woven_ridden\": %lld, \"rides_woven\": %lld, ",
            (long long)table->chunks_woven, (long long)table->chunks_woven_ridden, (long long)table->rides_woven);
    fprintf(out, "\"times_read\": %.4f, \"rides_per_read\": %.4f}",
            ratio((double)table->rows_read, (double)table->rows),
            ratio((double)table->chunks_ridden, (double)table->chunks_read));
}

static void put_options(const RunOptions *options, FILE *out)
{
    static const char *const modes[] = { [RUN_AT_ONCE] = "at once", [RUN_CLIENTS] = "clients", [RUN_RATE] = "rate" };
    fputs("  ", out);
    put_text("mode", modes[options->mode], out);
    if (options->mode == RUN_CLIENTS)
        fprintf(out, ", \"clients\": %ld", options->n_clients);
    if (options->mode == RUN_RATE)
        fprintf(out, ", \"rate\": %g, \"arrivals\": \"%s\"", options->rate, options->is_poisson ? "poisson" : "even");
    fputs(", \"settings\": [", out);
    for (int i = 0; i < options->n_settings; i++) {
        fputs(i ? ", " : "", out);
        put_json_string(options->settings[i], strlen(options->settings[i]), out);
    }
    fputs("],\n", out);
}

void print_summary_json(const Run *run, FILE *out)
{
    double *sorted;
    Times all = times_of_all(run, &sorted);
    size_t n_failed = count_failed(run);
    bool is_first = true;
    fputs("{\n", out);
    put_options(&run->options, out);
    fprintf(out, "  \"statements\": %ld, \"runs\": %zu, \"failed\": %zu, \"stopped\": %s,\n", run->n_statements,
            all.n + n_failed, n_failed, run->is_stopped ? "true" : "false");
    fprintf(out, "  \"wall_ms\": %.4f, \"per_second\": %.4f, \"rounds\": %ld, \"best_round_ms\": %.4f, "
                 "\"most_at_a_time\": %ld,\n", run->wall_ms, ratio((double)all.n * 1e3, run->wall_ms), run->n_rounds,
            run->best_round_ms, run->most_running);
    fprintf(out, "  \"sum_of_best_ms\": %.4f, \"ms\": ", sum_of_best(run));
    put_times(&all, out);
    fputs(",\n", out);
    print_rate_json(run, out);
    print_histogram_json(sorted, all.n, out);
    free(sorted);
    fputs("  \"queries\": [\n", out);
    for (long i = 0; i < run->n_statements; i++) {
        put_statement(&run->statements[i], out);
        fputs(i + 1 < run->n_statements ? ",\n" : "\n", out);
    }
    fputs("  ],\n  \"tables\": [", out);
    for (int i = 0; i < run->figures.n_tables; i++) {
        if (run->figures.tables[i].rides <= 0)
            continue;
        fputs(is_first ? "\n" : ",\n", out);
        put_table(&run->figures.tables[i], out);
        is_first = false;
    }
    fputs("\n  ]\n}\n", out);
}
