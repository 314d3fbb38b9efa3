// run_top.c - `weft run --top`: the riders of all scans, redrawn in place on standard error.
//
// First what sharing gained so far, by table, then a line for each kernel (a shape) and how it runs, with what it keeps
// apart and what the cost model expects of it.  A query rides on a scan for each of its pipelines; the view has a line
// for each ride, and then one for each query that waits for memory, in the order in which they will be let in.
// It is drawn below the cursor, and the cursor goes back to where it was, so that the next view, or the results,
// overwrite it.

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

// "lineorder: a read served 5.2 rides so far, a shared kernel 8.1 of them"
static void draw_scan(const weft_result *scans, size_t row, int columns)
{
    const weft_text *per_kernel = &weft_result_column(scans, 2)->text[row];
    char text[256];
    snprintf(text, sizeof text, "%s: a read served %s rides so far%s%s", weft_result_column(scans, 0)->text[row].bytes,
             weft_result_column(scans, 1)->text[row].bytes, per_kernel->length ? ", a shared kernel " : "",
             per_kernel->length ? per_kernel->bytes : "");
    draw_text(text, columns - 1);
    fputs("\033[K\n", stderr);
}

static void draw_body(const weft_result *bodies, size_t row, int columns)
{
    char text[512];
    snprintf(text, sizeof text, "%7lld %-12s %7s %6s %7s %5s %-10s %s", (long long)number_at(bodies, 0, row),
             weft_result_column(bodies, 1)->text[row].bytes, weft_result_column(bodies, 2)->text[row].bytes,
             weft_result_column(bodies, 3)->text[row].bytes, weft_result_column(bodies, 4)->text[row].bytes,
             weft_result_column(bodies, 5)->text[row].bytes, weft_result_column(bodies, 6)->text[row].bytes,
             weft_result_column(bodies, 7)->text[row].bytes);         // 79 columns with the name of a kernel
    draw_text(text, columns - 1);
    fputs("\033[K\n", stderr);
}

static void draw_title(const char *title, int columns)
{
    draw_text(title, columns - 1);
    fputs("\033[K\n", stderr);
}

// What the view is made of, in the order of the lines; asked for in one go.
typedef enum TopPart { TOP_SCANS, TOP_BODIES, TOP_RIDERS, TOP_QUEUE, TOP_PLANS, N_TOP_PARTS } TopPart;

// As many lines as there are, but of no part more than its share of the room; rides get what is left.
static void share_room(weft_result *const parts[N_TOP_PARTS], size_t room, size_t n_lines[N_TOP_PARTS])
{
    static const size_t shares[N_TOP_PARTS] = { [TOP_SCANS] = 8, [TOP_BODIES] = 3, [TOP_QUEUE] = 4 };
    for (int p = 0; p < N_TOP_PARTS; p++)
        n_lines[p] = shares[p] ? least(weft_result_rows(parts[p]), room / shares[p]) : 0;
    n_lines[TOP_RIDERS] = least(weft_result_rows(parts[TOP_RIDERS]),
                                room - n_lines[TOP_SCANS] - n_lines[TOP_BODIES] - n_lines[TOP_QUEUE]);
}

static void draw(Run *run, weft_result *const parts[N_TOP_PARTS])
{
    int columns = terminal_columns(stderr);
    size_t n_lines[N_TOP_PARTS];
    char text[256];
    share_room(parts, (size_t)lines_that_fit(), n_lines);
    pthread_mutex_lock(&run->lock);
    long n_running = run->n_running;
    pthread_mutex_unlock(&run->lock);
    top_erase();
    snprintf(text, sizeof text, "%.1f s, %ld statements running, %zu of them waiting for memory, %zu rides",
             (now_ms() - run->start_ms) / 1e3, n_running, weft_result_rows(parts[TOP_QUEUE]),
             weft_result_rows(parts[TOP_RIDERS]));
    draw_title(text, columns);
    draw_plans(parts[TOP_PLANS], columns);
    for (size_t r = 0; r < n_lines[TOP_SCANS]; r++)
        draw_scan(parts[TOP_SCANS], r, columns);
    draw_title("queries run          classes  slots   cells  gain table      shape", columns);
    for (size_t r = 0; r < n_lines[TOP_BODIES]; r++)
        draw_body(parts[TOP_BODIES], r, columns);
    draw_title("  query  chunks                    fellows  woven  table        pipeline", columns);
    for (size_t r = 0; r < n_lines[TOP_RIDERS]; r++)
        draw_rider(&run->shell, parts[TOP_RIDERS], r, columns);
    for (size_t r = 0; r < n_lines[TOP_QUEUE]; r++)
        draw_waiting(parts[TOP_QUEUE], r, columns);
    top.n_lines = (int)(n_lines[TOP_SCANS] + n_lines[TOP_BODIES] + n_lines[TOP_RIDERS] + n_lines[TOP_QUEUE]) + 4;
    fprintf(stderr, "\033[%dA", top.n_lines);
    fflush(stderr);
}

void top_show(Run *run)
{
    static const char *const asked[N_TOP_PARTS] = {
        [TOP_SCANS] = "select table_name, " TOP_PER_READ ", coalesce(" TOP_PER_KERNEL ", '') from weft_scans "
                      "where chunks_read > 0 and table_name not like 'weft%' order by bytes_ridden desc",
        [TOP_BODIES] = "select count(*), " TOP_RUNS ", coalesce(cast(max(classes) as text), ''), "
                       "coalesce(cast(max(slots) as text), ''), coalesce(cast(max(cells) as text), ''), "
                       "coalesce(cast(max(expected_gain) as text), ''), table_name, " TOP_SHAPE " from weft_riders "
                       "group by 2, 7, 8 order by 1 desc, 8",
        [TOP_RIDERS] = "select query, table_name, pipeline, chunks, chunks_done, fellow_riders, woven_with "
                       "from weft_riders order by query, chunks_done",
        [TOP_QUEUE] = "select query, position, bytes_wanted, waited_ms from weft_queue where state = 'waiting' "
                      "order by position",
        [TOP_PLANS] = "select what, kept, found, missed from weft_plans",
    };
    weft_result *parts[N_TOP_PARTS] = { NULL };
    weft_error error = { .status = WEFT_OK };
    int n_asked = 0;
    if (now_ms() - top.last_ms < EVERY_MS)
        return;
    top.last_ms = now_ms();
    while (n_asked < N_TOP_PARTS && !weft_query(run->shell.session, asked[n_asked], &parts[n_asked], &error))
        n_asked++;
    if (n_asked == N_TOP_PARTS)
        draw(run, parts);
    for (int p = 0; p < n_asked; p++)
        weft_result_free(parts[p]);
}
