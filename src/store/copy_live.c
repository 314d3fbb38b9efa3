// copy_live.c - COPY into a stream from a pipe, which may never end: commits as it goes.
//
//     pipe --> reader thread --> bytes that wait --> whole lines --> copy_into_append --> commit --> "row N is durable"
//
// A commit takes all whole lines that wait, once the first of them has waited for COMMIT_MS or they are many; sooner
// where the views of the stream have nothing else to do, but not before a quarter of COMMIT_MS or twice the time that
// the last commit needed for the disk, so that a slow disk has no more commits than without it.  While a commit runs
// the reader goes on, so a pipe that is faster than the disk has larger commits, not more.  Rows of a commit are there
// after a crash, all or none, so a writer that goes on behind the last durable row loses none and repeats none.  A
// cancel ends the copy behind one more commit.  A bad row fails the commit that it is in; earlier ones stay.
//
// Each commit finds the table by its name.  TRUNCATE is no matter; a table that was dropped ends the copy, also where
// another has its name by then: the columns of the options are not those of that one (CopyOptions.table_id).

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/copy_int.h"
#include "store/store_int.h"
#include "store/stream.h"

// Beyond BYTES_ENOUGH the reader waits for a commit: more would only take memory, which is cleared first, and leave the
// caches before it is parsed.  Where these are not one whole line it goes on, up to WAITING_MOST.
enum { LINES_ENOUGH = 65536, BYTES_ENOUGH = 8 << 20, WAITING_MOST = 64 << 20 };
enum { READ_BYTES = 256 << 10, FIRST_BYTES = 1 << 20, WAKE_MS = 20 };
enum { MERGE_ROWS_LIVE = 1 << 17 };                         // that a commit rewrites at most: see merge.c
enum { SOONEST_SHARE = 4, LOOK_MS = 1 };                    // of commit_ms; between looks at whether rows are awaited

typedef struct LiveReader {
    CopyStream     *input;
    const CopyOptions *options;
    Budget         *budget;
    pthread_t       thread;
    _Atomic bool    stop;              // it is to end
    pthread_mutex_t mutex;             // guards all below
    pthread_cond_t  changed;
    CopySpace       waiting;           // with room for BLOCK_PADDING behind the bytes, since a commit takes it as it is
    size_t          n_bytes;
    CopyReturns     returns;
    size_t          n_seen;            // of these bytes, for line ends
    u64             n_newlines;        // among them
    double          since_ms;          // the first of them came
    bool            lacks_line;        // among these bytes there is no whole one
    bool            is_at_end;         // or failed, or was told to end
    Error           error;
} LiveReader;

// ---- reading --------------------------------------------------------------------------------------------------------

typedef u8 Bytes16 __attribute__((vector_size(16)));

enum { BLOCKS_MOST = 255 };            // that a counter of a byte can count

// Of whole blocks of 16 bytes: lane by lane, since a new line is in every other block or so.
static u64 count_in_blocks(const char *bytes, size_t n_blocks)
{
    Bytes16 counts = { 0 };
    u64 n = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        Bytes16 block;
        memcpy(&block, bytes + b * sizeof block, sizeof block);
        counts -= (Bytes16)(block == '\n');
    }
    for (size_t lane = 0; lane < sizeof counts; lane++)
        n += counts[lane];
    return n;
}

static u64 count_newlines(const char *bytes, size_t length)
{
    u64 n = 0;
    size_t at = 0;
    while (length - at >= sizeof(Bytes16)) {
        const size_t n_blocks = MIN_OF((length - at) / sizeof(Bytes16), (size_t)BLOCKS_MOST);
        n += count_in_blocks(bytes + at, n_blocks);
        at += n_blocks * sizeof(Bytes16);
    }
    for (; at < length; at++)
        n += bytes[at] == '\n';
    return n;
}

// LENGTH 0: there are no more.
static weft_status keep_bytes(LiveReader *reader, const char *bytes, size_t length)
{
    const size_t needed = reader->n_bytes + length;
    if (needed + BLOCK_PADDING > reader->waiting.capacity)
        TRY(copy_space_grow(&reader->waiting, MAX_OF(2 * needed, (size_t)FIRST_BYTES), reader->n_bytes, reader->budget,
                            &reader->error));
    memcpy(reader->waiting.bytes + reader->n_bytes, bytes, length);
    if (reader->n_bytes == 0)
        reader->since_ms = time_now_ms();
    reader->n_bytes = needed;
    const size_t n_before = reader->n_seen;
    weft_status status = WEFT_OK;
    copy_returns_mend(&reader->returns, reader->options, reader->waiting.bytes, needed, length == 0, &reader->n_seen);
    if (reader->returns.is_mixed) {
        reader->n_bytes = reader->n_seen;                   // the line with another end is not of the last commit
        status = copy_returns_fail(reader->options, &reader->error);
    }
    reader->n_newlines += count_newlines(reader->waiting.bytes + n_before, reader->n_seen - n_before);
    return status;
}

static bool is_enough(const LiveReader *reader)
{
    return reader->n_bytes > (reader->lacks_line ? (size_t)WAITING_MOST : (size_t)BYTES_ENOUGH);
}

static void *read_all(void *context)
{
    LiveReader *reader = context;
    char *bytes = malloc(READ_BYTES);
    bool is_ending = !bytes;
    while (!is_ending) {
        Error error = { 0 };
        size_t n_read = 0;
        const weft_status status = stream_read_some(reader->input, bytes, READ_BYTES, &n_read, &error);
        pthread_mutex_lock(&reader->mutex);
        if (status)
            reader->error = error;
        else
            (void)keep_bytes(reader, bytes, n_read);
        while (is_enough(reader) && !atomic_load(&reader->stop))
            pthread_cond_wait(&reader->changed, &reader->mutex);
        is_ending = reader->error.status || n_read == 0;
        pthread_cond_broadcast(&reader->changed);
        pthread_mutex_unlock(&reader->mutex);
    }
    pthread_mutex_lock(&reader->mutex);
    if (!bytes)
        fail(&reader->error, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    reader->is_at_end = true;
    pthread_cond_broadcast(&reader->changed);
    pthread_mutex_unlock(&reader->mutex);
    free(bytes);
    return NULL;
}

// ---- taking lines ---------------------------------------------------------------------------------------------------

static void wait_a_little(LiveReader *reader, double time_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(MAX_OF(time_ms, 0.1) * 1e6);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&reader->changed, &reader->mutex, &until);
}

// Bytes up to the end of the last whole line; at the end of the pipe all of them.
static size_t whole_lines(const LiveReader *reader)
{
    LineScan scan = { 0 };
    if (reader->is_at_end && !reader->error.status)
        return reader->n_bytes;
    if (reader->n_bytes > 0)
        copy_scan_lines(&scan, reader->options, reader->waiting.bytes, reader->n_bytes);
    return scan.end;
}

// TAKEN gets the space of the bytes that wait, and the rest, behind the first LENGTH, goes into its former space.
static weft_status take_space(LiveReader *reader, CopySpace *taken, size_t length, u64 *n_newlines, Error *err)
{
    const size_t n_left = reader->n_bytes - length;
    TRY(copy_space_reserve(taken, n_left + BLOCK_PADDING, reader->budget, err));
    memcpy(taken->bytes, reader->waiting.bytes + length, n_left);
    const CopySpace waiting = reader->waiting;
    reader->waiting = *taken;
    *taken = waiting;
    const u64 n_left_newlines = count_newlines(reader->waiting.bytes, n_left);
    *n_newlines = reader->n_newlines - n_left_newlines;
    reader->n_bytes = n_left, reader->n_newlines = n_left_newlines;
    reader->n_seen -= MIN_OF(length, reader->n_seen);
    reader->since_ms = time_now_ms();
    pthread_cond_broadcast(&reader->changed);
    return WEFT_OK;
}

// How long the first of the bytes that wait may still do so; the last commit took SPENT_MS.
static double ms_until_due(const LiveReader *reader, const LiveCommits *commits, double spent_ms)
{
    const double waited_ms = time_now_ms() - reader->since_ms;
    const double soonest_ms = MAX_OF(commits->commit_ms / SOONEST_SHARE, 2 * spent_ms);
    if (waited_ms >= soonest_ms && waited_ms < commits->commit_ms && commits->is_awaited(commits->context))
        return 0;
    return commits->commit_ms - waited_ms;
}

static void note_lines(LiveReader *reader, bool lacks_line)
{
    if (lacks_line != reader->lacks_line)
        pthread_cond_broadcast(&reader->changed);
    reader->lacks_line = lacks_line;
}

// Waits until a commit is due; the last took SPENT_MS.  TAKEN gets the lines; *LENGTH 0: there are no more.
static weft_status take_lines(LiveReader *reader, const LiveCommits *commits, double spent_ms, CopySpace *taken,
                              size_t *length, u64 *n_newlines, bool *is_end, Error *err)
{
    weft_status status = WEFT_OK;
    *length = 0;
    pthread_mutex_lock(&reader->mutex);
    for (;;) {
        if (atomic_load(commits->cancel)) {
            atomic_store(&reader->stop, true);
            pthread_cond_broadcast(&reader->changed);
        }
        const double left_ms = reader->n_bytes ? ms_until_due(reader, commits, spent_ms) : WAKE_MS;
        const bool is_due = reader->n_bytes && (left_ms <= 0 || reader->n_newlines >= LINES_ENOUGH ||
                                                reader->n_bytes > BYTES_ENOUGH);
        *length = is_due || reader->is_at_end ? whole_lines(reader) : 0;
        note_lines(reader, is_due && !*length);
        if (is_due && !*length && reader->n_bytes > WAITING_MOST)
            status = fail(err, WEFT_TOO_LONG, -1, "a line is longer than %d MiB", WAITING_MOST >> 20);
        if (*length || reader->is_at_end || status)
            break;
        // Due: a line is longer than what came.
        wait_a_little(reader, is_due || !reader->n_bytes ? WAKE_MS : MIN_OF(left_ms, LOOK_MS));
    }
    *is_end = reader->is_at_end && *length == reader->n_bytes;
    if (*length && !status)
        status = take_space(reader, taken, *length, n_newlines, err);
    pthread_mutex_unlock(&reader->mutex);
    return status;
}

// ---- commits --------------------------------------------------------------------------------------------------------

typedef struct LiveCopy {
    Store          *store;
    Pool           *pool;
    Budget         *budget;
    const char     *table, *path;
    const _Atomic bool *cancel;
    CopyOptions     options;           // of the next commit: only the first has a header
    CopyLines       lines;
    CopyFigures    *figures;
    double          spent_ms;          // by the last commit, once its rows were parsed
} LiveCopy;

// Parses against the table as it is now.  Where that fails, texts of the lines are in its dictionaries already.
static weft_status parse_lines(LiveCopy *copy, LiveRows *rows, CopyFigures *figures, Error *err)
{
    *rows = (LiveRows){ .is_alone = rows->is_alone };
    TRY(store_check_writable(copy->store, err));
    TRY(store_peek_table(copy->store, copy->table, &rows->made_for, err));
    weft_status status = table_load_dicts(rows->made_for, err);
    if (!status)
        status = copy_lines_to_pieces(rows->made_for, copy->pool, copy->budget, copy->path, &copy->options,
                                      &copy->lines, &rows->pieces, figures, err);
    if (status) {
        live_rows_release(rows);
        append_shed_texts(copy->store, copy->table, copy->cancel);
    }
    return status;
}

static weft_status commit_lines(LiveCopy *copy, char *bytes, size_t length, u64 n_newlines, u64 *durable, Error *err)
{
    CopyFigures figures = { 0 };
    LiveRows rows = { .is_stale = true };
    copy->lines.bytes = bytes;
    copy->lines.length = length;
    while (rows.is_stale) {
        TRY(parse_lines(copy, &rows, &figures, err));
        const weft_status status = live_rows_commit(copy->store, copy->table, &rows, MERGE_ROWS_LIVE, err);
        live_rows_release(&rows);
        TRY(status);
    }
    copy->spent_ms = rows.spent_ms;
    if (figures.n_rejected && !copy->figures->n_rejected)
        memcpy(copy->figures->first_rejected, figures.first_rejected, sizeof(figures.first_rejected));
    copy->figures->n_rejected += figures.n_rejected;
    copy->figures->n_rows += rows.n_rows;
    copy->options.header = false;
    copy->lines.n_before += n_newlines;
    copy->lines.is_continued = true;
    *durable = rows.end;
    return WEFT_OK;
}

static weft_status copy_until_end(LiveCopy *copy, LiveReader *reader, const LiveCommits *commits, Error *err)
{
    CopySpace taken = { 0 };
    weft_status status = WEFT_OK;
    u64 durable = 0, n_newlines = 0;
    for (size_t length = 1; length > 0 && !status;) {
        status = take_lines(reader, commits, copy->spent_ms, &taken, &length, &n_newlines, &copy->lines.is_end, err);
        if (!status && length > 0)
            status = commit_lines(copy, taken.bytes, length, n_newlines, &durable, err);
        if (!status && length > 0)
            commits->committed(commits->context, durable);
    }
    copy_space_free(&taken, copy->budget);
    if (!status && reader->error.status)                    // the reader has ended
        status = fail(err, reader->error.status, -1, "%s", reader->error.message);
    if (status && reader->error.hint[0])
        error_hint(err, "%s", reader->error.hint);
    if (status && copy->figures->n_rows > 0)
        error_hint(err, "%llu rows were copied before; the last durable row of the stream is row %llu.",
                   (unsigned long long)copy->figures->n_rows, (unsigned long long)durable);
    return status;
}

// ---- begin and end --------------------------------------------------------------------------------------------------

bool copy_is_live(const char *path, const CopyOptions *options)
{
    struct stat info;
    const int failed = options->is_std ? fstat(options->fd, &info) : stat(path, &info);
    return !failed && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

// A FIFO without a writer would hold up open(), which no cancel ends; reading waits for its first writer.
static weft_status open_pipe(const char *path, const CopyOptions *options, int *fd, Error *err)
{
    *fd = options->is_std ? options->fd : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return *fd < 0 ? fail_errno(err, "open file", path) : WEFT_OK;
}

static weft_status run_reader(LiveCopy *copy, LiveReader *reader, const LiveCommits *commits, Error *err)
{
    pthread_mutex_init(&reader->mutex, NULL);
    pthread_cond_init(&reader->changed, NULL);
    weft_status status = WEFT_OK;
    if (thread_start(&reader->thread, NULL, read_all, reader) != 0) {
        status = fail(err, WEFT_OUT_OF_MEMORY, -1, "the system refused a thread for the copy");
    } else {
        status = copy_until_end(copy, reader, commits, err);
        pthread_mutex_lock(&reader->mutex);
        atomic_store(&reader->stop, true);
        pthread_cond_broadcast(&reader->changed);
        pthread_mutex_unlock(&reader->mutex);
        pthread_join(reader->thread, NULL);
    }
    copy_space_free(&reader->waiting, copy->budget);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->mutex);
    return status;
}

static void free_memory(LiveCopy *copy)
{
    for (int i = 0; i < pool_size(copy->pool); i++) {
        copy_space_free(&copy->lines.memory[i].ends, copy->budget);
        copy_space_free(&copy->lines.memory[i].row_ends, copy->budget);
        copy_space_free(&copy->lines.memory[i].values, copy->budget);
    }
}

weft_status copy_live(Store *store, Pool *pool, Budget *budget, const char *table, const char *path,
                      const CopyOptions *options, const LiveCommits *commits, CopyFigures *figures, Error *err)
{
    LiveCopy copy = { .store = store, .pool = pool, .budget = budget, .table = table, .path = path,
                      .cancel = commits->cancel, .options = *options, .figures = figures };
    LiveReader reader = { .options = options, .budget = budget };
    int fd;
    *figures = (CopyFigures){ 0 };
    TRY(open_pipe(path, options, &fd, err));
    Arena *arena = arena_new(NULL, "live copy");
    copy.lines.memory = arena_array(arena, CopyMemory, pool_size(pool));
    copy.options.is_std = false;
    weft_status status = stream_open_read(path, fd, &reader.stop, &reader.input, err);
    if (!status)
        status = run_reader(&copy, &reader, commits, err);
    free_memory(&copy);
    arena_free(arena);
    stream_close(reader.input);
    if (!options->is_std)
        close(fd);
    return status;
}
