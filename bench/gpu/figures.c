// figures.c - times and bytes out of the text of EXPLAIN ANALYZE.
//
// A kernel has a line of its own, and two more where a GPU ran it:
//
//     woven on cpu, cc, 2 threads: rows in 6,001,747, out 118,598, read 60.0 MB, chunks read 6, skipped 0, time 1.23 ms
//     woven on cuda:0: rows in 120,000,000, out 118,598, read 1.2 GB, chunks read 115, skipped 0, time 0.53 ms
//       9 x 115 blocks of 256 threads x 8 rows, 40 registers, 12.3 kB shared, occupancy 75 %, 3 launches
//       kernels 0.456 ms at 4200 GB/s (93 % of the measured 4500), 1.2 GB over the link
//
// and a join table ends its line with "built in 0.21 ms by cpu" where the host made it, and "built in 0.021 ms by
// cuda:0" where kernels did.  Text is what users get as well, so this reads what they would read.  Where time and rate
// are given, they make the bytes: "1.2 GB" has too few digits.

#define _GNU_SOURCE
#include "gpu.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// The number after WORDS in LINE, or -1.
static double number_after(const char *line, const char *words)
{
    const char *found = strstr(line, words);
    return found ? strtod(found + strlen(words), NULL) : -1;
}

// "60.0 MB" at TEXT
static double bytes_at(const char *text)
{
    static const struct { const char *unit; double factor; } units[] = { { "B", 1 },    { "kB", 1e3 },  { "MB", 1e6 },
                                                                         { "GB", 1e9 }, { "TB", 1e12 } };
    char *end;
    double number = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (int i = 0; i < COUNT(units); i++)
        if (strncmp(end, units[i].unit, strlen(units[i].unit)) == 0)
            return number * units[i].factor;
    return 0;
}

static double bytes_over_link(const char *line)
{
    const char *words = strstr(line, " over the link");
    if (!words)
        return 0;
    const char *start = words;
    while (start > line && strncmp(start, ", ", 2) != 0)
        start--;
    return bytes_at(start + 2);
}

// "1 launch", "5 launches"
static int launches_of(const char *line)
{
    const char *words = strstr(line, " launch");
    while (words && words > line && words[-1] >= '0' && words[-1] <= '9')
        words--;
    return words ? atoi(words) : 0;
}

typedef struct Kernel { double ms, bytes; } Kernel;        // as its first line has them

static bool read_kernel_line(const char *line, Figures *figures, Kernel *kernel)
{
    const char *device = strstr(line, " on c");
    const char *read = strstr(line, ", read ");
    if (!device || !read || !strstr(line, ": rows in "))
        return false;
    bool is_on_cpu = strncmp(device, " on cpu", 7) == 0;
    *kernel = (Kernel){ number_after(line, ", time "), bytes_at(read + strlen(", read ")) };
    figures->n_on_cpu += is_on_cpu;
    figures->n_on_device += !is_on_cpu;
    figures->kernels_ms += kernel->ms;
    figures->bytes += kernel->bytes;
    return true;
}

// What the device's clock says is better than what its host saw.
static void read_device_line(const char *line, Figures *figures, const Kernel *kernel)
{
    double kernels_ms = number_after(line, "    kernels "), rate = number_after(line, " ms at ");
    if (strstr(line, " blocks of "))
        figures->n_launches += launches_of(line);
    figures->bytes_link += bytes_over_link(line);
    if (kernels_ms >= 0)
        figures->kernels_ms += kernels_ms - kernel->ms;
    if (kernels_ms >= 0 && rate > 0)
        figures->bytes += kernels_ms * rate * 1e6 - kernel->bytes;
}

bool figures_of(const char *explained, Figures *figures)
{
    char *text = strdup(explained), *rest = text;
    Kernel kernel = { 0 };
    *figures = (Figures){ 0 };
    for (char *line; (line = strsep(&rest, "\n"));) {
        double build_ms = number_after(line, ", built in ");
        if (read_kernel_line(line, figures, &kernel))
            continue;
        read_device_line(line, figures, &kernel);
        if (build_ms > 0 && strstr(line, " ms by cuda")) {
            figures->kernels_ms += build_ms;
            figures->n_launches++;
        } else if (build_ms > 0) {
            figures->build_ms += build_ms;
        }
    }
    free(text);
    return figures->n_on_cpu + figures->n_on_device > 0;
}

// "table: hash, chained: value in 32 bits, 10,000,000 rows, 1.2 MB, built in 0.21 ms by cpu"; "table: direct over 70000
// keys: ..."
static bool read_table_line(const char *line, JoinFigures *join)
{
    const char *kind = strstr(line, "table: "), *built = strstr(line, ", built in "), *by = strstr(line, " ms by "),
               *bytes = built;
    if (!kind || !by || !built || by < built)
        return false;
    kind += strlen("table: ");
    const char *end = kind;
    while (end < built && *end != ':' && strncmp(end, " over ", 6) != 0 &&
           !(*end == ',' && isdigit((unsigned char)end[2])))
        end++;
    while (bytes > kind && strncmp(bytes - 2, ", ", 2) != 0)
        bytes--;
    snprintf(join->kind, sizeof join->kind, "%.*s", (int)(end - kind), kind);
    snprintf(join->bytes, sizeof join->bytes, "%.*s", (int)(built - bytes), bytes);
    snprintf(join->by, sizeof join->by, "%s", by + strlen(" ms by "));
    join->build_ms = number_after(line, ", built in ");
    return true;
}

bool join_of(const char *explained, JoinFigures *join)
{
    char *text = strdup(explained), *rest = text;
    bool is_found = false;
    for (char *line; !is_found && (line = strsep(&rest, "\n"));)
        is_found = read_table_line(line, join);
    free(text);
    return is_found;
}
