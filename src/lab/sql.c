// sql.c - see sql.h.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/sql.h"

struct LabSql {
    Lab *lab;
    weft_db *db;
    weft_session *session;
    bool is_on_gpu;
};

static void close_all(void *context)
{
    LabSql *sql = context;
    weft_disconnect(sql->session);
    weft_close(sql->db);
    sql->session = NULL;
    sql->db = NULL;
}

void sql_close(LabSql *sql)
{
    close_all(sql);
}

bool sql_is_on_gpu(const LabSql *sql)
{
    return sql->is_on_gpu;
}

weft_status sql_open(Lab *lab, LabSql **out)
{
    LabSql *sql = arena_make(lab->arena, LabSql);
    sql->lab = lab;
    sql->is_on_gpu = !lab->is_sim && !getenv("WEFT_LAB_SMALL");     // the lab's fake driver runs no queries
    TRY(weft_open(NULL, &sql->db, lab->err));
    arena_defer(lab->arena, close_all, sql);
    TRY(weft_connect(sql->db, &sql->session, lab->err));
    *out = sql;
    TRY(sql_run(sql, "set device = %s", sql->is_on_gpu ? lab->options.device : "cpu"));
    return sql->is_on_gpu ? sql_run(sql, "set gpu_wait = on") : WEFT_OK;
}

static weft_status run_in(LabSql *sql, weft_session *session, const char *text)
{
    weft_result *result;
    TRY(weft_query(session, text, &result, sql->lab->err));
    weft_result_free(result);
    return WEFT_OK;
}

weft_status sql_run(LabSql *sql, const char *format, ...)
{
    Text text = { 0 };
    va_list args;
    va_start(args, format);
    text_add_args(&text, format, args);
    va_end(args);
    const weft_status status = run_in(sql, sql->session, text.bytes);
    text_free(&text);
    return status;
}

weft_status sql_value(LabSql *sql, const char *format, const char *text, char *value, size_t room)
{
    const char *place = strstr(format, "%s");
    Text whole = { 0 };
    weft_result *result;
    ASSERT(place);
    text_add_bytes(&whole, format, (size_t)(place - format));
    text_add(&whole, "%s%s", text, place + 2);
    const weft_status status = weft_query(sql->session, whole.bytes, &result, sql->lab->err);
    text_free(&whole);
    TRY(status);
    value[0] = 0;
    if (weft_result_rows(result))
        weft_format(result, 0, 0, value, room);
    weft_result_free(result);
    return WEFT_OK;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static char *put_number(char *at, u64 number)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        *at++ = digits[--n];
    return at;
}

static u64 value_of(const SqlColumn *column, LabRandom *random, i64 row)
{
    const u64 span = MAX_OF(column->below - column->least, 1), step = MAX_OF(column->step, 1);
    return (column->is_row_number ? (u64)row : column->least + (lab_random_next(random) >> 32) % span) * step;
}

static weft_status write_rows(LabSql *sql, File *file, const char *table, const SqlRows *rows)
{
    enum { BUFFER = 1 << 16, ROW_MAX = 21 * 16 };
    LabRandom random = lab_random(sql->lab, table);
    char buffer[BUFFER], *at = buffer;
    ASSERT(rows->n_columns <= 16);
    for (i64 row = 0; row < rows->n_rows; row++) {
        for (int c = 0; c < rows->n_columns; c++) {
            at = put_number(at, value_of(&rows->columns[c], &random, row));
            *at++ = c + 1 < rows->n_columns ? ',' : '\n';
        }
        if (at - buffer > BUFFER - ROW_MAX || row + 1 == rows->n_rows) {
            TRY(file_write(file, buffer, (size_t)(at - buffer), sql->lab->err));
            at = buffer;
        }
    }
    return WEFT_OK;
}

weft_status sql_fill(LabSql *sql, const char *table, const SqlRows *rows)
{
    const char *folder = getenv("TMPDIR");
    char *path = arena_printf(sql->lab->arena, "%s/weft-lab-%d-%s.csv", folder && *folder ? folder : "/tmp",
                              (int)getpid(), table);
    File file;
    Error ignored = { 0 };
    TRY(file_create(path, &file, sql->lab->err));
    weft_status status = write_rows(sql, &file, table, rows);
    file_close(&file);
    for (int i = 0; i < MAX_OF(rows->n_times, 1) && !status; i++)
        status = sql_run(sql, "copy %s from '%s' (format csv)", table, path);
    file_remove(path, &ignored);
    return status;
}

// ---- what EXPLAIN ANALYZE says --------------------------------------------------------------------------------------

// The number behind WORD, without the commas between its digits, and in bytes where a unit of bytes follows.
static bool number_after(const char *line, const char *word, double *number)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = { { " kB", 1e3 }, { " MB", 1e6 }, { " GB", 1e9 }, { " TB", 1e12 } };
    const char *at = strstr(line, word);
    char digits[64];
    size_t n = 0;
    if (!at)
        return false;
    for (at += strlen(word); n + 1 < sizeof(digits); at++) {
        if (isdigit((u8)*at) || *at == '.')
            digits[n++] = *at;
        else if (*at != ',' || !isdigit((u8)at[1]))
            break;
    }
    digits[n] = 0;
    if (!n)
        return false;
    *number = strtod(digits, NULL);
    for (int i = 0; i < COUNT_OF(units); i++)
        if (!strncmp(at, units[i].name, strlen(units[i].name)))
            *number *= units[i].factor;
    return true;
}

// The number before WORD: "48 registers".
static bool number_before(const char *line, const char *word, double *number)
{
    const char *at = strstr(line, word);
    if (!at)
        return false;
    while (at > line && (isdigit((u8)at[-1]) || at[-1] == '.'))
        at--;
    *number = strtod(at, NULL);
    return true;
}

static void read_kernel(const char *line, bool is_gpu_wanted, SqlFigures *figures)
{
    double number;
    figures->n_kernels++;
    if (number_after(line, "read ", &number))
        figures->bytes_read += number;
    if (number_after(line, ", time ", &number) && !is_gpu_wanted)
        figures->time_ms += number;
    if (number_after(line, ", out ", &number))
        figures->rows_out = number;
    figures->is_elsewhere |= is_gpu_wanted && !strstr(line, " on cuda");
}

static void read_shape(const char *line, SqlFigures *figures)
{
    double number;
    if (number_before(line, " registers", &number))
        figures->registers = MAX_OF(figures->registers, (int)number);
    if (number_after(line, " registers, ", &number))
        figures->shared = MAX_OF(figures->shared, number);
    if (number_after(line, "occupancy ", &number))
        figures->occupancy = figures->occupancy ? MIN_OF(figures->occupancy, (int)number) : (int)number;
}

void sql_read_plan(const char *line, bool is_gpu_wanted, SqlFigures *figures)
{
    double number;
    if (strstr(line, "rows in "))
        read_kernel(line, is_gpu_wanted, figures);
    else if (strstr(line, " registers, "))
        read_shape(line, figures);
    else if (number_after(line, "  kernels ", &number))
        figures->time_ms += number;
    else if (strstr(line, "its rows stay in")) {
        figures->bytes_kept += number_after(strstr(line, "its rows stay in"), ": ", &number) ? number : 0;
        figures->time_ms += number_after(line, "put together in ", &number) ? number : 0;
    } else if (number_after(line, "used at most ", &number))
        figures->memory = number;
    else if (!strncmp(line, "total ", 6) && number_after(line, "total ", &number))
        figures->total_ms = number;
}

static weft_status explain(LabSql *sql, const char *query, SqlFigures *figures)
{
    weft_result *result;
    Text text = { 0 };
    *figures = (SqlFigures){ 0 };
    text_add(&text, "explain analyze %s", query);
    const weft_status status = weft_query(sql->session, text.bytes, &result, sql->lab->err);
    text_free(&text);
    TRY(status);
    for (size_t row = 0; row < weft_result_rows(result); row++) {
        char line[4096];
        weft_format(result, 0, row, line, sizeof(line));
        sql_read_plan(line, sql->is_on_gpu, figures);
    }
    weft_result_free(result);
    return WEFT_OK;
}

weft_status sql_measure(LabSql *sql, const char *query, int n_runs, SqlFigures *figures)
{
    SqlFigures run;
    TRY(explain(sql, query, figures));
    for (int i = 0; i < n_runs; i++) {
        TRY(explain(sql, query, &run));
        if (i == 0 || run.time_ms < figures->time_ms)
            *figures = run;
    }
    return WEFT_OK;
}

weft_status sql_measure_once(LabSql *sql, const char *query, SqlFigures *figures)
{
    return explain(sql, query, figures);
}

// ---- many at once ---------------------------------------------------------------------------------------------------

static void wait_for(weft_task *task, weft_error *error)
{
    weft_result *result = NULL;
    if (task)
        weft_wait(task, &result, error);
    weft_result_free(result);
}

static weft_status run_crowd(LabSql *sql, const SqlCrowd *crowd, weft_session *const *sessions, double *time_ms)
{
    weft_task *tasks[SQL_AT_ONCE_MAX] = { NULL };
    weft_error errors[SQL_AT_ONCE_MAX] = { 0 };
    const double start_ms = time_now_ms();
    for (int i = 0; i < crowd->n_queries; i++) {
        if (weft_submit(sessions[i], crowd->queries[i], &tasks[i], &errors[i]))
            tasks[i] = NULL;
        if (!crowd->is_at_once)
            wait_for(tasks[i], &errors[i]);
    }
    for (int i = 0; i < crowd->n_queries && crowd->is_at_once; i++)
        wait_for(tasks[i], &errors[i]);
    *time_ms = time_now_ms() - start_ms;
    for (int i = 0; i < crowd->n_queries; i++)
        if (errors[i].status)
            return fail(sql->lab->err, errors[i].status, -1, "%s", errors[i].message);
    return WEFT_OK;
}

static weft_status measure_crowd(LabSql *sql, const SqlCrowd *crowd, weft_session **sessions, int n_runs,
                                 double *time_ms)
{
    for (int i = 0; i < crowd->n_queries; i++) {
        Text text = { 0 };
        TRY(weft_connect(sql->db, &sessions[i], sql->lab->err));
        text_add(&text, "set device = %s;%s%s", sql->is_on_gpu ? sql->lab->options.device : "cpu",
                 sql->is_on_gpu ? "set gpu_wait = on;" : "", crowd->settings);
        const weft_status status = run_in(sql, sessions[i], text.bytes);
        text_free(&text);
        TRY(status);
    }
    for (int i = 0; i <= n_runs; i++) {
        double once_ms;
        TRY(run_crowd(sql, crowd, sessions, &once_ms));
        *time_ms = i <= 1 ? once_ms : MIN_OF(*time_ms, once_ms);
    }
    return WEFT_OK;
}

weft_status sql_measure_crowd(LabSql *sql, const SqlCrowd *crowd, int n_runs, double *time_ms)
{
    weft_session *sessions[SQL_AT_ONCE_MAX] = { NULL };
    ASSERT(crowd->n_queries <= SQL_AT_ONCE_MAX);
    const weft_status status = measure_crowd(sql, crowd, sessions, n_runs, time_ms);
    for (int i = 0; i < SQL_AT_ONCE_MAX; i++)
        weft_disconnect(sessions[i]);
    return status;
}
