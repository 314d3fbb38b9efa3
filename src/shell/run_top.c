// run_top.c - `weft run --top`: the riders of all scans, redrawn in place on standard error.
//
// A query rides on a scan for each of its pipelines; the view has a line for each ride, and then one for each query
// that waits for memory, in the order in which they will be let in.  It is drawn below the cursor, and the cursor goes
// back to where it was, so that the next view, or the results, overwrite it.

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shell/run.h"

#define EVERY_MS  500.0
#define BAR_CELLS 10

static struct Top {
    double last_ms;
    int    n_lines;                                        // on the screen
} top;

static int lines_that_fit(void)
{
    struct winsize size;
    int rows = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_row ? 24 : size.ws_row;
    return rows > 7 ? rows - 5 : 2;
}

void top_erase(void)
{
    if (top.n_lines)
        fputs("\r\033[J", stderr);
    top.n_lines = 0;
    fflush(stderr);
}

static void draw_share(const Shell *shell, int64_t done, int64_t all)
{
    const char *full = shell->has_unicode ? "\u2588" : "#", *empty = shell->has_unicode ? "\u2591" : ".";
    int filled = all > 0 ? (int)(done * BAR_CELLS / all) : BAR_CELLS;
    for (int i = 0; i < BAR_CELLS; i++)
        fputs(i < filled ? full : empty, stderr);
}

// TEXT on one line, cut to COLUMNS; nothing in it moves the cursor.
static void draw_text(const char *text, int columns)
{
    while (*text && columns > 0) {
        int width;
        size_t bytes = glyph_next(text, strlen(text), &width);
        if (width > columns)
            break;
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            fputc(' ', stderr);
        else
            fwrite(text, 1, bytes, stderr);
        text += bytes;
        columns -= width;
    }
}

static int64_t number_at(const weft_result *result, int column, size_t row)
{
    return weft_result_column(result, column)->i64[row];
}

static void draw_rider(const Shell *shell, const weft_result *riders, size_t row, int columns)
{
    const char *table = weft_result_column(riders, 1)->text[row].bytes;
    const char *label = weft_result_column(riders, 2)->text[row].bytes;
    int64_t all = number_at(riders, 3, row), done = number_at(riders, 4, row);
    char text[512];
    fprintf(stderr, "%7lld  ", (long long)number_at(riders, 0, row));
    draw_share(shell, done, all);
    snprintf(text, sizeof text, " %5lld of %-5lld %7lld %6lld  %-12s %s", (long long)done, (long long)all,
             (long long)number_at(riders, 5, row), (long long)number_at(riders, 6, row), table, label);
    draw_text(text, columns - 9 - BAR_CELLS - 1);
    fputs("\033[K\n", stderr);
}

static void draw_waiting(const weft_result *queue, size_t row, int columns)
{
    char text[256];
    snprintf(text, sizeof text, "%7lld  waits for %.1f MB of memory, place %lld, for %.1f s",
             (long long)number_at(queue, 0, row), (double)number_at(queue, 2, row) / 1e6,
             (long long)number_at(queue, 1, row), (double)number_at(queue, 3, row) / 1e3);
    draw_text(text, columns - 1);
    fputs("\033[K\n", stderr);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// "plans kept: ..., found ... of ..." and the same of parse trees.
static void draw_plans(const weft_result *plans, int columns)
{
    char   text[256];
    size_t length = 0;
    for (size_t row = 0; row < weft_result_rows(plans) && length < sizeof text; row++) {
        int64_t found = number_at(plans, 2, row), asked = found + number_at(plans, 3, row);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s: %lld kept, %.0f %% of %lld found",
                                   row ? "; " : "", weft_result_column(plans, 0)->text[row].bytes,
                                   (long long)number_at(plans, 1, row),
                                   asked ? 100.0 * (double)found / (double)asked : 0.0, (long long)asked);
    }
    draw_text(length ? text : "", columns - 1);
    fputs("\033[K\n", stderr);
}

static void draw(Run *run, const weft_result *riders, const weft_result *queue, const weft_result *plans)
{
    int columns = terminal_columns(stderr), room = lines_that_fit();
    size_t n_riders = weft_result_rows(riders), n_waiting = weft_result_rows(queue);
    size_t n_queued = least(n_waiting, (size_t)room / 3), n_shown = least(n_riders, (size_t)room - n_queued);
    char text[256];
    pthread_mutex_lock(&run->lock);
    long n_running = run->n_running;
    pthread_mutex_unlock(&run->lock);
    top_erase();
    snprintf(text, sizeof text, "%.1f s, %ld statements running, %zu of them waiting for memory, %zu rides",
             (now_ms() - run->start_ms) / 1e3, n_running, n_waiting, n_riders);
    draw_text(text, columns - 1);
    fputs("\033[K\n", stderr);
    draw_plans(plans, columns);
    draw_text("  query  chunks                    fellows  woven  table        pipeline", columns - 1);
    fputs("\033[K\n", stderr);
    for (size_t r = 0; r < n_shown; r++)
        draw_rider(&run->shell, riders, r, columns);
    for (size_t r = 0; r < n_queued; r++)
        draw_waiting(queue, r, columns);
    top.n_lines = (int)(n_shown + n_queued) + 3;
    fprintf(stderr, "\033[%dA", top.n_lines);
    fflush(stderr);
}

void top_show(Run *run)
{
    static const char sql[] = "select query, table_name, pipeline, chunks, chunks_done, fellow_riders, woven_with "
                              "from weft_riders order by query, chunks_done";
    static const char waiting[] =
        "select query, position, bytes_wanted, waited_ms from weft_queue where state = 'waiting' "
        "order by position";
    static const char kept[] = "select what, kept, found, missed from weft_plans";
    weft_result *riders = NULL, *queue = NULL, *plans = NULL;
    weft_error error = { .status = WEFT_OK };
    if (now_ms() - top.last_ms < EVERY_MS)
        return;
    top.last_ms = now_ms();
    if (weft_query(run->shell.session, sql, &riders, &error) == WEFT_OK &&
        weft_query(run->shell.session, waiting, &queue, &error) == WEFT_OK &&
        weft_query(run->shell.session, kept, &plans, &error) == WEFT_OK)
        draw(run, riders, queue, plans);
    weft_result_free(riders);
    weft_result_free(queue);
    weft_result_free(plans);
}
