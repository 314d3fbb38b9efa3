// run_rate.c - `weft run` over time: how many statements ended in each second.
//
// While it runs, a line on standard error says so once a second: on a terminal the line is rewritten in place, and
// erased at the end; with --progress and no terminal each is a line of its own.  Of runs of several seconds the summary
// draws all of them, and JSON has the counts.

#include <stdlib.h>
#include <string.h>

#include "shell/run.h"

enum { CELLS = 60, LIVE_CELLS = 30, LEVELS = 8 };

static bool is_live(const Run *run)
{
    return run->shell.err_is_terminal && run->shell.has_escapes;
}

void rate_note(Run *run, double time_ms, bool has_failed)
{
    RunRate *rate = &run->rate;
    size_t second = (size_t)((now_ms() - run->begin_ms) / 1e3);
    if (second >= rate->capacity) {
        size_t capacity = 2 * second + 64;
        rate->seconds = must_realloc(rate->seconds, capacity * sizeof *rate->seconds);
        memset(rate->seconds + rate->capacity, 0, (capacity - rate->capacity) * sizeof *rate->seconds);
        rate->capacity = capacity;
    }
    rate->seconds[second].n_ended++;
    rate->seconds[second].n_failed += has_failed;
    rate->seconds[second].sum_ms += time_ms;
    rate->n = second + 1 > rate->n ? second + 1 : rate->n;
}

// ---- seconds as a row of bars ---------------------------------------------------------------------------------------

static void put_level(const Shell *shell, double share, FILE *out)
{
    static const char *const bars[LEVELS] = { "\u2581", "\u2582", "\u2583", "\u2584",
                                              "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char plain[] = ".:-=+*%#";
    int level = (int)(share * LEVELS);
    level = level < 0 ? 0 : level >= LEVELS ? LEVELS - 1 : level;
    if (shell->has_unicode)
        fputs(bars[level], out);
    else
        fputc(plain[level], out);
}

// The mean of the seconds that cell C of N_CELLS stands for.
static double cell_rate(const RunRate *rate, size_t first, size_t n, int c, int n_cells)
{
    size_t from = first + n * (size_t)c / (size_t)n_cells, to = first + n * (size_t)(c + 1) / (size_t)n_cells;
    double sum = 0;
    for (size_t s = from; s < to; s++)
        sum += s < rate->capacity ? rate->seconds[s].n_ended : 0;
    return to > from ? sum / (double)(to - from) : 0;
}

static void put_bars(const Run *run, size_t first, size_t n, int most_cells, FILE *out)
{
    int n_cells = n < (size_t)most_cells ? (int)n : most_cells;
    double most = 0;
    for (int c = 0; c < n_cells; c++) {
        double here = cell_rate(&run->rate, first, n, c, n_cells);
        most = here > most ? here : most;
    }
    for (int c = 0; c < n_cells; c++)
        put_level(&run->shell, most > 0 ? cell_rate(&run->rate, first, n, c, n_cells) / most : 0, out);
}

// ---- while it runs --------------------------------------------------------------------------------------------------

// Of the second before NOW, which is over.
static void show_second(Run *run, size_t now)
{
    RunRate *rate = &run->rate;
    RunSecond none = { 0 };
    const RunSecond *last = now - 1 < rate->capacity ? &rate->seconds[now - 1] : &none;
    size_t first = now > LIVE_CELLS ? now - LIVE_CELLS : 0;
    fprintf(stderr, "%s%5zu s  %7u per second", is_live(run) ? "\r" : "", now, last->n_ended);
    fprintf(stderr, "  mean %.2f ms  %ld running", last->n_ended ? last->sum_ms / last->n_ended : 0, run->n_running);
    if (last->n_failed)
        fprintf(stderr, "  %u failed", last->n_failed);
    if (is_live(run)) {
        fputs("  ", stderr);
        int columns = terminal_columns(stderr);
        if (columns >= 100)
            put_bars(run, first, now - first, LIVE_CELLS, stderr);
        fputs("\033[K", stderr);
    } else {
        fputc('\n', stderr);
    }
    rate->has_line = is_live(run);
    fflush(stderr);
}

void rate_show(Run *run)
{
    RunRate *rate = &run->rate;
    size_t now = (size_t)((now_ms() - run->begin_ms) / 1e3);
    if (run->options.has_top || (!is_live(run) && !run->options.has_progress) || now <= rate->n_shown)
        return;
    rate->n_shown = now;
    show_second(run, now);
}

void rate_erase(Run *run)
{
    if (run->rate.has_line)
        fputs("\r\033[K", stderr);
    run->rate.has_line = false;
    fflush(stderr);
}

// ---- at the end -----------------------------------------------------------------------------------------------------

// The last second is only begun, and would look like a fall.
static size_t whole_seconds(const Run *run)
{
    size_t n = (size_t)(run->wall_ms / 1e3);
    return n < run->rate.n ? n : run->rate.n;
}

void print_rate(const Run *run, FILE *out)
{
    size_t n = whole_seconds(run);
    if (n < 3)
        return;
    unsigned least = run->rate.seconds[0].n_ended, most = least;
    for (size_t s = 1; s < n; s++) {
        unsigned here = run->rate.seconds[s].n_ended;
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    fprintf(out, "over time: ");
    put_bars(run, 0, n, CELLS, out);
    fprintf(out, "  %u to %u per second\n", least, most);
}

void print_rate_json(const Run *run, FILE *out)
{
    fputs("  \"each_second\": [", out);
    for (size_t s = 0; s < whole_seconds(run); s++)
        fprintf(out, "%s%u", s ? ", " : "", run->rate.seconds[s].n_ended);
    fputs("],\n", out);
}
