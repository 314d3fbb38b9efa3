// disk.c - data that is on disk alone: how fast a query reads it, beside what the disk gives to threads that do nothing
// but read.
//
// Pages of files are dropped from the system's cache before each run.  The plain reads are over the same files, a
// megabyte at a time; those that go past that cache tell what the disk gives, those that go through it, as all of
// Weft's do, what of it the system hands on to who leaves reading ahead to it.

#define _GNU_SOURCE
#include "gpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { READERS_MOST = 64, FILES_MOST = 4096, PIECE = 1 << 20 };

typedef struct Files { char *paths[FILES_MOST]; uint64_t bytes[FILES_MOST], bytes_all; int n; } Files;

static void find_files(const char *folder, Files *files)
{
    DIR *dir = opendir(folder);
    if (!dir)
        die(folder, "cannot be read");
    for (struct dirent *entry; (entry = readdir(dir)) && files->n < FILES_MOST;) {
        char *path;
        struct stat found;
        if (entry->d_name[0] == '.' || asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
            continue;
        if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
            find_files(path, files);
        if (stat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size < PIECE) {
            free(path);
            continue;
        }
        files->bytes[files->n] = (uint64_t)found.st_size;
        files->bytes_all += (uint64_t)found.st_size;
        files->paths[files->n++] = path;
    }
    closedir(dir);
}

static void free_files(Files *files)
{
    for (int f = 0; f < files->n; f++)
        free(files->paths[f]);
}

static uint64_t bytes_in_memory(int file, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n_pages = (bytes + page - 1) / page;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    unsigned char *here = malloc(n_pages);
    uint64_t n_here = 0;
    if (mapped == MAP_FAILED || !here || mincore(mapped, bytes, here) != 0)
        die("a file's pages", "cannot be asked for");
    for (uint64_t p = 0; p < n_pages; p++)
        n_here += here[p] & 1;
    munmap(mapped, bytes);
    free(here);
    return n_here * page;
}

// Share of the bytes that the system keeps in memory all the same, as it does where files live nowhere else.
static double drop_from_memory(const Files *files)
{
    uint64_t left = 0;
    for (int f = 0; f < files->n; f++) {
        int file = open(files->paths[f], O_RDONLY);
        if (file < 0)
            die(files->paths[f], "cannot be read");
        fsync(file);                                           // what is not written yet is not dropped
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        left += bytes_in_memory(file, files->bytes[f]);
        close(file);
    }
    return (double)left / (double)files->bytes_all;
}

// ---- plain reads ----------------------------------------------------------------------------------------------------

typedef struct Reading {
    const Files *files;
    _Atomic uint64_t next, done;
    uint64_t most;
    int flags;
    _Atomic bool is_refused;
} Reading;

// Where the next megabyte is: pieces are numbered over all files.
static bool take_piece(Reading *reading, int *file, uint64_t *at)
{
    uint64_t piece = atomic_fetch_add(&reading->next, 1);
    for (*file = 0; *file < reading->files->n; ++*file) {
        uint64_t n_pieces = reading->files->bytes[*file] / PIECE;
        *at = piece * PIECE;
        if (piece < n_pieces)
            return atomic_load(&reading->done) < reading->most;
        piece -= n_pieces;
    }
    return false;
}

static void *read_pieces(void *context)
{
    Reading *reading = context;
    void *memory = NULL;
    int number, opened = -1, file = -1;
    uint64_t at;
    if (posix_memalign(&memory, 4096, PIECE))
        return NULL;
    while (take_piece(reading, &number, &at)) {
        if (number != opened) {
            if (file >= 0)
                close(file);
            file = open(reading->files->paths[number], O_RDONLY | reading->flags);
            opened = number;
        }
        ssize_t got = file < 0 ? -1 : pread(file, memory, PIECE, (off_t)at);
        if (got <= 0) {
            reading->is_refused = true;
            break;
        }
        atomic_fetch_add(&reading->done, (uint64_t)got);
    }
    if (file >= 0)
        close(file);
    free(memory);
    return NULL;
}

// GB/s.  FLAGS: O_DIRECT goes past the cache; NAN where files cannot be read so.
static double read_plainly(const Files *files, int n_readers, uint64_t most, int flags)
{
    pthread_t readers[READERS_MOST];
    Reading reading = { .files = files, .most = most, .flags = flags };
    int n = 0;
    drop_from_memory(files);
    double start = now_ms();
    while (n < n_readers && pthread_create(&readers[n], NULL, read_pieces, &reading) == 0)
        n++;
    for (int r = 0; r < n; r++)
        pthread_join(readers[r], NULL);
    return reading.is_refused ? NAN : (double)reading.done / (now_ms() - start) / 1e6;
}

// ---- what the disk did ----------------------------------------------------------------------------------------------

typedef struct DiskUse { double busy_ms, queued_ms; } DiskUse; // queued: summed over requests

// As the system counts it, for the disk that the database is on; NAN where it does not.
static DiskUse disk_use(const char *db)
{
    struct stat found;
    char path[100];
    DiskUse use = { NAN, NAN };
    if (stat(db, &found) != 0)
        return use;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(found.st_dev), minor(found.st_dev));
    FILE *file = fopen(path, "r");
    if (!file)
        return use;
    if (fscanf(file, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lf %lf", &use.busy_ms, &use.queued_ms) != 2)
        use = (DiskUse){ NAN, NAN };
    fclose(file);
    return use;
}

// ---- the part -------------------------------------------------------------------------------------------------------

// One query in a new process; the code is in its cache, and the device is awake.  Dropped: the data is on disk alone.
int child_disk(GpuBench *gpu)
{
    Files *files = calloc(1, sizeof *files);
    double left = 1;
    find_files(gpu->bench.options.db, files);
    if (!strcmp(gpu->bench.options.child_query, "dropped"))
        left = drop_from_memory(files);
    Peer *weft = open_on_device(gpu);
    Figures figures;
    char *sql = shape_query(0);
    run_ms(weft, "select sum(d_year) from date where d_year > 1993");
    DiskUse before = disk_use(gpu->bench.options.db);
    double start = now_ms();
    explain_analyze(weft, sql, &figures);
    double query_ms = now_ms() - start;
    DiskUse after = disk_use(gpu->bench.options.db);
    printf("%.6f %.0f %.6f %.6f %.6f %.6f\n", query_ms, figures.bytes_link > 0 ? figures.bytes_link : figures.bytes,
           left, run_ms(weft, sql), after.busy_ms - before.busy_ms, after.queued_ms - before.queued_ms);
    free(sql);
    peer_close(weft);
    free_files(files);
    free(files);
    return 0;
}

typedef struct DiskTimes { double ms, again_ms, bytes, left; DiskUse use; } DiskTimes;         // use: in the best run

static DiskTimes time_query(GpuBench *gpu, const char *how)
{
    DiskTimes best = { .ms = INFINITY, .again_ms = INFINITY };
    for (int r = -1; r < gpu->bench.options.repeats; r++) {    // the first one makes the code
        double answers[6];
        ask_child(&gpu->bench, &(Child){ "disk", how, "WEFT_GPU_WAIT", "on", gpu->device }, answers, COUNT(answers));
        if (r < 0)
            continue;
        if (answers[0] < best.ms)
            best.use = (DiskUse){ answers[4], answers[5] };
        best =
            (DiskTimes){ fmin(best.ms, answers[0]), fmin(best.again_ms, answers[3]), answers[1], answers[2], best.use };
    }
    return best;
}

static double best_plain_rate(GpuBench *gpu, const Files *files, uint64_t bytes, int flags)
{
    static const int READERS[] = { 1, 4, 16, 64 };
    double best = 0;
    say(&gpu->bench,
        "- threads that do nothing but read, %s the system's cache:", flags & O_DIRECT ? "past" : "through");
    for (int i = 0; i < COUNT(READERS); i++) {
        double rate = 0;
        for (int r = 0; r < gpu->bench.options.repeats; r++)
            rate = fmax(rate, read_plainly(files, READERS[i], bytes, flags));
        say(&gpu->bench, "%s %d: %.2f GB/s", i ? "," : "", READERS[i], rate);
        best = fmax(best, rate);
    }
    say(&gpu->bench, "\n");
    return best;
}

void part_disk(GpuBench *gpu)
{
    Bench *bench = &gpu->bench;
    Files *files = calloc(1, sizeof *files);
    say(bench, "## On disk alone: a filter-and-sum query, the first in its process; best of %d\n\n",
        bench->options.repeats);
    find_files(bench->options.db, files);
    DiskTimes dropped = time_query(gpu, "dropped"), kept = time_query(gpu, "kept");
    if (!(dropped.left < 0.05)) {
        say(bench, "Not measured: the files are small, or the system keeps them in memory.\n\n");
    } else {
        double best = best_plain_rate(gpu, files, (uint64_t)dropped.bytes * 2, O_DIRECT),
               rate = dropped.bytes / dropped.ms / 1e6;
        best_plain_rate(gpu, files, (uint64_t)dropped.bytes * 2, 0);
        say(bench,
            "- the query: %.1f ms for %.0f MB, %.2f GB/s; with the files in the system's cache %.1f ms; the second "
            "time %.1f ms\n",
            dropped.ms, dropped.bytes / 1e6, rate, kept.ms, dropped.again_ms);
        if (dropped.use.busy_ms > 0)
            say(bench, "- the disk was at work for %.0f %% of that time, on %.0f requests in the mean\n",
                fmin(100, 100 * dropped.use.busy_ms / dropped.ms), dropped.use.queued_ms / dropped.ms);
        if (best > 0)                                          // else files cannot be read past the cache
            say(bench, "- of the best rate past the cache: %.0f %%\n", 100 * rate / best);
        say(bench, "\n");
    }
    free_files(files);
    free(files);
}
