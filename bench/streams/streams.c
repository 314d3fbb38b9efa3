// streams.c - rows that come through pipes into a stream that many continuous views read.
//
//     streams [--views 100] [--pipes 1] [--seconds 5] [--rate ROWS] [--device cpu] [FOLDER]
//
// Writers fill FIFOs with CSV of four columns, 40 bytes a row; COPY reads them in the background.  First at full speed:
// rows a second, from the first byte until every view has seen the last row.  Then at half of that rate (or at --rate):
// how long it takes from when a row is written until every view has it.  At the end the views' counts are compared with
// the stream's.  FOLDER is where the database is made, and removed again; else it is in the temporary folder.

#define _GNU_SOURCE                                         // F_SETPIPE_SZ

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "weft.h"

enum { BLOCK_ROWS = 4000, ROW_BYTES = 40, N_BLOCKS = 64, PIPES_MOST = 16, MARKS_MOST = 1 << 20, SHAPES = 5 };

typedef struct Settings { int n_views, n_pipes; double seconds, rate; const char *device, *folder; } Settings;

typedef struct Writer {
    const Settings *settings;
    char            path[256];
    double          rate;              // rows a second; 0: as fast as it goes
    uint64_t        n_rows;            // written
    pthread_t       thread;
} Writer;

static char          *blocks[N_BLOCKS];                     // of BLOCK_ROWS rows each
static _Atomic uint64_t n_written;                          // by all
static double         marks_ms[MARKS_MOST];                 // when row (i + 1) * BLOCK_ROWS of a run was written
static _Atomic int    n_marks;
static atomic_bool    is_writing;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "streams: %s: %s\n", what, why);
    exit(1);
}

static void run(weft_session *session, const char *text)
{
    weft_result *result;
    weft_error   error;
    if (weft_query(session, text, &result, &error)) die(text, error.message);
    weft_result_free(result);
}

static uint64_t number(weft_session *session, const char *text)
{
    weft_result *result;
    weft_error   error;
    if (weft_query(session, text, &result, &error)) die(text, error.message);
    const uint64_t value = weft_result_rows(result) ? (uint64_t)weft_result_column(result, 0)->i64[0] : 0;
    weft_result_free(result);
    return value;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// at, sensor, reading, place: 2026-01-01 00:00:00,00012,1234,place 01
static void make_blocks(void)
{
    for (int b = 0; b < N_BLOCKS; b++) {
        char *at = blocks[b] = malloc(BLOCK_ROWS * ROW_BYTES + 1);
        for (int r = 0; r < BLOCK_ROWS; r++) {
            const unsigned random = (unsigned)(b * BLOCK_ROWS + r) * 2654435761u;
            at += sprintf(at, "2026-01-01 %02d:%02d:%02d,%05u,%04u,place %02u\n", b / 60 % 24, b % 60, r % 60,
                          10 + random % 90, 1000 + random / 97 % 9000, random % 50);
        }
        if (at - blocks[b] != BLOCK_ROWS * ROW_BYTES) die("rows", "they are not 40 bytes long");
    }
}

static void write_all(int fd, const char *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        const ssize_t n = write(fd, bytes + done, length - done);
        if (n <= 0) die("write", "the pipe was closed");
        done += (size_t)n;
    }
}

static void note_written(void)
{
    const uint64_t rows = atomic_fetch_add(&n_written, BLOCK_ROWS) + BLOCK_ROWS;
    const uint64_t mark = rows / BLOCK_ROWS - 1;
    if (mark >= MARKS_MOST) return;
    marks_ms[mark] = now_ms();
    atomic_fetch_add(&n_marks, 1);
}

static void *write_rows(void *context)
{
    Writer   *writer = context;
    const int fd = open(writer->path, O_WRONLY);
    if (fd < 0) die(writer->path, "cannot be opened");
    (void)fcntl(fd, F_SETPIPE_SZ, 1 << 20);
    const double start = now_ms();
    for (int b = 0; now_ms() - start < writer->settings->seconds * 1e3; b = (b + 1) % N_BLOCKS) {
        while (writer->rate > 0 && (double)writer->n_rows > (now_ms() - start) / 1e3 * writer->rate) usleep(200);
        write_all(fd, blocks[b], (size_t)BLOCK_ROWS * ROW_BYTES);
        writer->n_rows += BLOCK_ROWS;
        note_written();
    }
    close(fd);
    return NULL;
}

// ---- the database ---------------------------------------------------------------------------------------------------

static void make_views(weft_session *session, int n_views)
{
    static const char *const shapes[SHAPES] = {
        "select place, count(*) as n, sum(reading) as s from s where sensor <> %d group by place",
        "select sensor, count(*) as n, min(reading), max(reading) from s where reading > %d group by sensor",
        "select date_bin('1 minute', at, timestamp '2026-01-01') as m, count(*) as n, avg(reading) from s "
        "where sensor > %d group by 1",
        "select count(*) as n, sum(reading), avg(sensor) from s where reading between %d and 9000",
        "select date_bin('10 minutes', at, timestamp '2026-01-01') as m, place, count(*) as n from s "
        "where sensor < 100 - %d group by 1, 2",
    };
    char text[512], query[300];
    for (int v = 0; v < n_views; v++) {
        snprintf(query, sizeof query, shapes[v % SHAPES], v / SHAPES);
        snprintf(text, sizeof text, "create materialized view v%d with (continuous) as %s", v, query);
        run(session, text);
    }
}

static void start_copies(weft_db *db, const char *folder, Writer *writers, weft_session **sessions, weft_task **tasks,
                         const Settings *settings, double rate)
{
    weft_error error;
    char       text[400];
    for (int p = 0; p < settings->n_pipes; p++) {
        writers[p] = (Writer){ .settings = settings, .rate = rate / settings->n_pipes };
        snprintf(writers[p].path, sizeof writers[p].path, "%s/pipe%d", folder, p);
        unlink(writers[p].path);
        if (mkfifo(writers[p].path, 0600)) die(writers[p].path, "cannot be made");
        if (weft_connect(db, &sessions[p], &error)) die("connect", error.message);
        snprintf(text, sizeof text, "copy s from '%s' (format csv)", writers[p].path);
        if (weft_submit(sessions[p], text, &tasks[p], &error)) die(text, error.message);
        pthread_create(&writers[p].thread, NULL, write_rows, &writers[p]);
    }
}

// ---- a run ----------------------------------------------------------------------------------------------------------

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Looks at how far the views are until they have seen all; the times from each mark to when it was seen.
static int watch(weft_session *session, uint64_t before, double *latencies, double *end_ms)
{
    int n_seen = 0;
    for (;;) {
        const bool     was_writing = atomic_load(&is_writing);
        const uint64_t seen = number(session, "select min(rows_seen) from weft_views") - before;
        const double   now = now_ms();
        const int      n = atomic_load(&n_marks);
        while (n_seen < n && n_seen < MARKS_MOST && (uint64_t)(n_seen + 1) * BLOCK_ROWS <= seen) {
            latencies[n_seen] = now - marks_ms[n_seen];
            n_seen++;
        }
        *end_ms = now;
        if (!was_writing && seen >= atomic_load(&n_written)) return n_seen;
        usleep(2000);
    }
}

typedef struct Watcher { weft_session *session; uint64_t before; double *latencies, end_ms; int n; } Watcher;

static void *watch_thread(void *context)
{
    Watcher *w = context;
    w->n = watch(w->session, w->before, w->latencies, &w->end_ms);
    return NULL;
}

// Rows a second.
static double one_run(weft_db *db, weft_session *session, const char *folder, const Settings *settings, double rate)
{
    Writer        writers[PIPES_MOST];
    weft_session *sessions[PIPES_MOST];
    weft_task    *tasks[PIPES_MOST];
    weft_error    error;
    Watcher       watcher = { .session = session, .before = number(session, "select rows_durable from weft_streams"),
                              .latencies = malloc(MARKS_MOST * sizeof(double)) };
    pthread_t     thread;
    atomic_store(&n_written, 0), atomic_store(&n_marks, 0), atomic_store(&is_writing, true);
    const double start = now_ms();
    start_copies(db, folder, writers, sessions, tasks, settings, rate);
    pthread_create(&thread, NULL, watch_thread, &watcher);
    for (int p = 0; p < settings->n_pipes; p++) pthread_join(writers[p].thread, NULL);
    for (int p = 0; p < settings->n_pipes; p++) {
        weft_result *result;
        if (weft_wait(tasks[p], &result, &error)) die("copy", error.message);
        weft_result_free(result);
        weft_disconnect(sessions[p]);
    }
    atomic_store(&is_writing, false);
    pthread_join(thread, NULL);
    const double seconds = (watcher.end_ms - start) / 1e3, n_rows = (double)atomic_load(&n_written);
    qsort(watcher.latencies, (size_t)watcher.n, sizeof(double), compare_times);
    const int last = watcher.n - 1;
    printf("| %s | %.0f | %.1f | %.2f | %.1f | %.1f | %.1f |\n", rate > 0 ? "paced" : "full speed", n_rows, seconds,
           n_rows / seconds / 1e6, last < 0 ? 0 : watcher.latencies[last / 2],
           last < 0 ? 0 : watcher.latencies[(int)(last * 0.99)], last < 0 ? 0 : watcher.latencies[last]);
    fflush(stdout);
    free(watcher.latencies);
    return n_rows / seconds;
}

// Every view of the fourth shape counts all rows of its range.
static void check_views(weft_session *session, int n_views)
{
    char text[200];
    for (int v = 3; v < n_views; v += SHAPES) {
        snprintf(text, sizeof text, "select n from v%d", v);
        const uint64_t found = number(session, text);
        snprintf(text, sizeof text, "select count(*) from s where reading between %d and 9000", v / SHAPES);
        const uint64_t expected = number(session, text);
        if (found != expected) die(text, "a view has another count than its stream");
    }
}

static void usage(void)
{
    die("usage", "[--views N] [--pipes N] [--seconds S] [--rate ROWS] [--device D] [FOLDER]");
}

static Settings read_options(int argc, char **argv)
{
    static const struct option options[] = { { "views", 1, NULL, 'v' },   { "pipes", 1, NULL, 'p' },
                                             { "seconds", 1, NULL, 's' }, { "rate", 1, NULL, 'r' },
                                             { "device", 1, NULL, 'd' },  { NULL, 0, NULL, 0 } };
    Settings settings = { .n_views = 100, .n_pipes = 1, .seconds = 5 };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
        case 'v': settings.n_views = atoi(optarg); break;
        case 'p': settings.n_pipes = atoi(optarg); break;
        case 's': settings.seconds = atof(optarg); break;
        case 'r': settings.rate = atof(optarg); break;
        case 'd': settings.device = optarg; break;
        default: usage();
    }
    if (settings.n_views < 1 || settings.n_pipes < 1 || settings.n_pipes > PIPES_MOST || settings.seconds <= 0) usage();
    settings.folder = optind < argc ? argv[optind] : NULL;
    return settings;
}

int main(int argc, char **argv)
{
    const Settings settings = read_options(argc, argv);
    char           folder[200], path[256], text[256];
    weft_db       *db;
    weft_session  *session;
    weft_error     error;
    const char    *base = settings.folder ? settings.folder : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(folder, sizeof folder, "%s/weft-streams.XXXXXX", base);
    if (!mkdtemp(folder)) die(folder, "cannot be made");
    snprintf(path, sizeof path, "%s/s.weft", folder);
    make_blocks();
    if (weft_open(path, &db, &error) || weft_connect(db, &session, &error)) die(path, error.message);
    if (settings.device) {
        snprintf(text, sizeof text, "set device = '%s'", settings.device);
        run(session, text);
    }
    run(session, "create table s (at timestamp, sensor integer, reading integer, place text) with (stream)");
    make_views(session, settings.n_views);
    printf("%d continuous views of %d shapes, %d pipe%s, rows of %d bytes; milliseconds from a row's write until every "
           "view has it\n\n", settings.n_views, SHAPES, settings.n_pipes, settings.n_pipes > 1 ? "s" : "", ROW_BYTES);
    printf("| way | rows | s | million rows/s | p50 ms | p99 ms | most ms |\n"
           "| :-- | --: | --: | --: | --: | --: | --: |\n");
    const double most = one_run(db, session, folder, &settings, 0);
    one_run(db, session, folder, &settings, settings.rate > 0 ? settings.rate : most / 2);
    check_views(session, settings.n_views);
    weft_disconnect(session);
    weft_close(db);
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    return system(text) != 0;
}
