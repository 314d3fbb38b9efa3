// copy.c - a text file into a table, with all cores.
//
// The workers take turns at reading: one block each of about a megabyte of whole lines, which it then parses alone and
// appends under the block's number, so rows keep the order of the file.
//
//     file   |--------block 0--------|--------block 1-------|--- ...
//     read        worker 0                 worker 1              worker 0
//     line ends        ^ last one: what is behind it is carried over to the next block
//
// Reading is a small part of the work (a memory copy, when the file is cached), and reading in order is what makes
// pipes and quoted new lines possible: whether a new line ends a row can be told only from the quotes before it.
//
// The error that is reported is the first in the file, whatever the number of workers: blocks are handed out in order,
// so when one is bad all blocks before it are finished or in work, and are finished before the copy ends.  That also
// gives the line number, as the sum of the lines of the blocks before.

#define _GNU_SOURCE                                         // memrchr

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/copy_int.h"

enum {
    BLOCK_BYTES = 1 << 19,             // 128 KiB to 4 MiB are about equally fast; less memory is better
    LINE_BYTES_MAX = 64 << 20,         // a quote that is never closed must not read the whole file into memory
    POLL_MS = 20,                      // how often a wait for a pipe looks for a cancel
};

static size_t block_bytes = BLOCK_BYTES;

void copy_set_block_bytes(size_t bytes)
{
    block_bytes = bytes > 0 ? bytes : BLOCK_BYTES;
}

// ---- the copy -------------------------------------------------------------------------------------------------------

typedef struct CopyWorker {
    CopyParser *parser;
    CopySpace   space;                 // holds its block
} CopyWorker;

typedef struct CopyRun {
    const CopyOptions *options;
    Budget       *budget;
    Append       *append;
    const Table  *table;
    _Atomic int  *progress;
    _Atomic bool *cancel;
    CopyWorker   *workers;

    pthread_mutex_t mutex;             // guards all below
    Arena       *arena;
    File         file;
    bool         is_regular, is_at_end;
    u64          size, offset;         // of a regular file
    CopySpace    carry;                // the begin of a line that the block before left over
    size_t       n_carried;
    u32         *block_lines;          // new lines in each block, once it is parsed
    int          n_blocks;
    bool         has_problem;
    CopyProblem  problem;              // the first in the file so far
} CopyRun;

static bool is_canceled(const CopyRun *copy)
{
    return copy->cancel && *copy->cancel;
}

// ---- reading --------------------------------------------------------------------------------------------------------

static weft_status fail_canceled(Error *err)
{
    return fail(err, WEFT_QUERY_CANCELED, -1, "copy was cancelled");
}

static weft_status read_pipe(CopyRun *copy, char *to, size_t length, size_t *n_read, Error *err)
{
    *n_read = 0;
    while (*n_read < length) {
        struct pollfd waiting = { .fd = copy->file.fd, .events = POLLIN };
        if (is_canceled(copy))
            return fail_canceled(err);
        if (poll(&waiting, 1, POLL_MS) == 0)
            continue;
        if (fault_now(FAULT_FILE)) {
            errno = EIO;
            return fail_errno(err, "read file", copy->file.path);
        }
        ssize_t n = read(copy->file.fd, to + *n_read, length - *n_read);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return fail_errno(err, "read file", copy->file.path);
        if (n == 0)
            break;
        *n_read += (size_t)n;
    }
    return WEFT_OK;
}

// Fewer bytes than asked for mean the end of the file.
static weft_status read_more(CopyRun *copy, char *to, size_t length, size_t *n_read, Error *err)
{
    if (copy->is_regular)
        TRY(file_read_at(&copy->file, to, length, copy->offset, n_read, err));
    else
        TRY(read_pipe(copy, to, length, n_read, err));
    copy->offset += *n_read;
    copy->is_at_end = *n_read < length;
    return WEFT_OK;
}

// What is known of a block while it is being read.
typedef struct LineScan {
    size_t n_scanned;
    bool   is_inside, is_escaped;      // csv: the state behind the scanned bytes
    size_t end;                        // behind the last new line that ends a row; 0 when there is none
} LineScan;

// Odd backslashes before a new line make it data.
static size_t last_line_end_text(const char *bytes, size_t length)
{
    const char *newline;
    while ((newline = memrchr(bytes, '\n', length)) != NULL) {
        size_t at = (size_t)(newline - bytes), n_backslashes = 0;
        while (n_backslashes < at && bytes[at - 1 - n_backslashes] == '\\')
            n_backslashes++;
        if (n_backslashes % 2 == 0)
            return at + 1;
        length = at;
    }
    return 0;
}

// Backwards from the end, where it is known whether we are inside quotes: each quote changes that.
static size_t last_line_end_csv(const char *bytes, size_t length, char quote, bool is_inside)
{
    for (;;) {
        const char *found = memrchr(bytes, quote, length);
        size_t start = found ? (size_t)(found - bytes) + 1 : 0;
        const char *newline = is_inside ? NULL : memrchr(bytes + start, '\n', length - start);
        if (newline)
            return (size_t)(newline - bytes) + 1;
        if (!found)
            return 0;
        length = start - 1;
        is_inside = !is_inside;
    }
}

static void scan_escapes(LineScan *scan, const CopyOptions *options, const char *bytes, size_t length)
{
    for (; scan->n_scanned < length; scan->n_scanned++) {
        char byte = bytes[scan->n_scanned];
        if (byte == options->quote && !scan->is_escaped)
            scan->is_inside = !scan->is_inside;
        scan->is_escaped = scan->is_inside && byte == options->escape && !scan->is_escaped;
        if (byte == '\n' && !scan->is_inside)
            scan->end = scan->n_scanned + 1;
    }
}

static void scan_quotes(LineScan *scan, char quote, const char *bytes, size_t length)
{
    scan->is_inside ^= copy_is_odd(bytes + scan->n_scanned, length - scan->n_scanned, quote);
    scan->n_scanned = length;
    scan->end = last_line_end_csv(bytes, length, quote, scan->is_inside);
}

static void scan_lines(LineScan *scan, const CopyOptions *options, const char *bytes, size_t length)
{
    if (!options->csv)
        scan->end = last_line_end_text(bytes, length);
    else if (options->escape != options->quote)
        scan_escapes(scan, options, bytes, length);
    else
        scan_quotes(scan, options->quote, bytes, length);
}

// Reads until there is a line end with something behind it, so that it is always known which block is the last.
static weft_status read_lines(CopyRun *copy, CopySpace *space, size_t *length, size_t *end, Error *err)
{
    LineScan scan = { 0 };
    *length = copy->n_carried;
    for (;;) {
        size_t n_read;
        size_t n_free = space->capacity - BLOCK_PADDING - *length;
        TRY(read_more(copy, space->bytes + *length, n_free, &n_read, err));
        *length += n_read;
        *end = *length;
        if (copy->is_at_end)
            return WEFT_OK;
        scan_lines(&scan, copy->options, space->bytes, *length - 1);
        *end = scan.end;
        if (scan.end > 0)
            return WEFT_OK;
        if (*length > LINE_BYTES_MAX)
            return fail(err, WEFT_TOO_LONG, -1, "a line is longer than %d MiB", LINE_BYTES_MAX >> 20);
        TRY(copy_space_grow(space, space->capacity * 2, *length, copy->budget, err));
    }
}

static size_t block_capacity(const CopyRun *copy)
{
    size_t bytes = block_bytes;
    if (copy->size > 0 && copy->offset == 0)
        bytes = MIN_OF(bytes, copy->size + 1);              // one more, to see the end
    return MAX_OF(bytes, copy->n_carried * 2) + BLOCK_PADDING;
}

static weft_status carry_over(CopyRun *copy, const char *bytes, size_t length, Error *err)
{
    copy->n_carried = 0;
    TRY(copy_space_reserve(&copy->carry, length, copy->budget, err));
    if (length > 0)
        memcpy(copy->carry.bytes, bytes, length);
    copy->n_carried = length;
    return WEFT_OK;
}

static bool is_line_end(const CopyOptions *options, const char *bytes, size_t end)
{
    return end == 0 || (options->csv ? bytes[end - 1] == '\n' : last_line_end_text(bytes, end) == end);
}

// The mark that some editors put at the begin of UTF-8 files.
static void skip_mark(CopyBlock *block)
{
    if (block->length > 3 && memcmp(block->bytes, "\xEF\xBB\xBF", 3) == 0) {
        block->bytes += 3;
        block->length -= 3;
    }
}

// The next block, of length 0 at the end of the file.
static weft_status read_block(CopyRun *copy, CopySpace *space, CopyBlock *block, Error *err)
{
    ASSERT(mutex_is_held(&copy->mutex));
    *block = (CopyBlock){ .sequence = (u64)copy->n_blocks };
    if (copy->is_at_end)
        return WEFT_OK;
    TRY(copy_space_reserve(space, block_capacity(copy), copy->budget, err));
    if (copy->n_carried > 0)
        memcpy(space->bytes, copy->carry.bytes, copy->n_carried);
    size_t length, end;
    TRY(read_lines(copy, space, &length, &end, err));
    TRY(carry_over(copy, space->bytes + end, length - end, err));
    if (copy->is_at_end && !is_line_end(copy->options, space->bytes, end))
        space->bytes[end++] = '\n';                         // the last line may lack it
    block->bytes = space->bytes;
    block->length = end;
    block->is_last = copy->is_at_end;
    if (block->sequence == 0)
        skip_mark(block);
    return WEFT_OK;
}

// ---- the workers ----------------------------------------------------------------------------------------------------

// Call with the mutex held.
static void note_problem(CopyRun *copy, const CopyProblem *problem)
{
    ASSERT(mutex_is_held(&copy->mutex));
    ASSERT(problem->error.status);
    if (!copy->has_problem || problem->sequence < copy->problem.sequence)
        copy->problem = *problem;
    copy->has_problem = true;
}

static void show_progress(CopyRun *copy)
{
    if (copy->progress && copy->size > 0)
        *copy->progress = (int)(999.0 * (double)MIN_OF(copy->offset, copy->size) / (double)copy->size);
}

static bool take_block(CopyRun *copy, CopyWorker *worker, CopyBlock *block)
{
    CopyProblem problem = { .line = -1, .column = -1 };
    pthread_mutex_lock(&copy->mutex);
    bool is_going_on = !copy->has_problem;
    if (is_going_on) {
        if (is_canceled(copy))
            fail_canceled(&problem.error);
        else
            read_block(copy, &worker->space, block, &problem.error);
        problem.sequence = (u64)copy->n_blocks;
        if (problem.error.status == WEFT_TOO_LONG)
            problem.line = 0;                               // the first that is not in a block
        if (problem.error.status)
            note_problem(copy, &problem);
        is_going_on = !problem.error.status && block->length > 0;
    }
    if (is_going_on) {
        *LIST_PUSH(copy->arena, copy->block_lines, copy->n_blocks) = 0;
        show_progress(copy);
    }
    pthread_mutex_unlock(&copy->mutex);
    return is_going_on;
}

static void finish_block(CopyRun *copy, const CopyWorker *worker, const CopyBlock *block, const CopyProblem *problem)
{
    pthread_mutex_lock(&copy->mutex);
    ASSERT(block->sequence < (u64)copy->n_blocks);
    copy->block_lines[block->sequence] = copy_parser_newlines(worker->parser);
    if (problem->error.status)
        note_problem(copy, problem);
    pthread_mutex_unlock(&copy->mutex);
}

static void copy_blocks(void *context, int number)
{
    CopyRun *copy = context;
    CopyWorker *worker = &copy->workers[number];
    CopyBlock block;
    while (take_block(copy, worker, &block)) {
        CopyProblem problem;
        if (copy_parser_run(worker->parser, &block, &problem) == WEFT_OK) {
            u32 n_rows;
            const ColumnInput *inputs = copy_parser_columns(worker->parser, &n_rows);
            append_rows(copy->append, block.sequence, inputs, n_rows, &problem.error);
        }
        finish_block(copy, worker, &block, &problem);
    }
}

// ---- begin and end --------------------------------------------------------------------------------------------------

static weft_status report(const CopyRun *copy, Error *err)
{
    const CopyProblem *problem = &copy->problem;
    weft_status status = problem->error.status;
    const char *message = problem->error.message;
    unsigned long long line = (unsigned long long)problem->line + 1;
    for (u64 i = 0; problem->line >= 0 && i < problem->sequence; i++)
        line += copy->block_lines[i];
    if (problem->line < 0)
        status = fail(err, status, -1, "%s", message);
    else if (problem->column < 0)
        status = fail(err, status, -1, "line %llu: %s", line, message);
    else
        status = fail(err, status, -1, "line %llu, column %s: %s", line, copy->table->columns[problem->column].name,
                      message);
    if (problem->error.hint[0])
        error_hint(err, "%s", problem->error.hint);
    return status;
}

static weft_status check_options(const CopyOptions *options, Error *err)
{
    const char *reserved = options->csv ? "\n\r" : "\n\r\\";
    if (!options->delimiter || strchr(reserved, options->delimiter))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "the delimiter cannot be a new line, a backslash or empty");
    if (options->csv && (!options->quote || strchr("\n\r", options->quote) || options->quote == options->delimiter))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "the quote cannot be a new line, the delimiter or empty");
    return WEFT_OK;
}

// Which column each field goes to.
static weft_status map_fields(const CopyRun *copy, int **columns, int *n_fields, Error *err)
{
    const Table *table = copy->table;
    const CopyOptions *options = copy->options;
    int n = options->columns ? options->n_columns : table->n_columns;
    int *map = arena_array(copy->arena, int, n);
    bool *is_in_file = arena_array(copy->arena, bool, table->n_columns);
    for (int i = 0; i < n; i++) {
        map[i] = options->columns ? options->columns[i] : i;
        if (is_in_file[map[i]])
            return fail(err, WEFT_DUPLICATE_COLUMN, -1, "column \"%s\" is named twice", table->columns[map[i]].name);
        is_in_file[map[i]] = true;
    }
    for (int i = 0; i < table->n_columns; i++) {
        if (!is_in_file[i] && table->columns[i].not_null)
            return fail(err, WEFT_NOT_NULL_VIOLATION, -1, "column \"%s\" forbids null and is not in the list",
                        table->columns[i].name);
    }
    *columns = map;
    *n_fields = n;
    return WEFT_OK;
}

static weft_status open_input(CopyRun *copy, const char *path, Error *err)
{
    struct stat info;
    TRY(file_open_read(path, &copy->file, err));
    if (fstat(copy->file.fd, &info) != 0)
        return fail_errno(err, "inspect file", path);
    copy->is_regular = S_ISREG(info.st_mode);
    copy->size = copy->is_regular ? (u64)info.st_size : 0;
    if (copy->is_regular)
        (void)posix_fadvise(copy->file.fd, 0, 0, POSIX_FADV_SEQUENTIAL);      // a hint; nothing is lost without it
    return WEFT_OK;
}

static int count_workers(const CopyRun *copy, const Pool *pool)
{
    u64 n_blocks = copy->is_regular ? copy->size / block_bytes + 1 : INT32_MAX;
    return (int)MIN_OF((u64)pool_size(pool), n_blocks);
}

static weft_status copy_all(CopyRun *copy, Pool *pool, const char *path, Error *err)
{
    int *columns = NULL;
    int n_fields = 0;
    TRY(check_options(copy->options, err));
    TRY(map_fields(copy, &columns, &n_fields, err));
    TRY(open_input(copy, path, err));
    int n_workers = count_workers(copy, pool);
    copy->workers = arena_array(copy->arena, CopyWorker, n_workers);
    for (int i = 0; i < n_workers; i++)
        copy->workers[i].parser =
            copy_parser_new(copy->arena, copy->table, copy->options, columns, n_fields, copy->budget);
    pool_run(pool, n_workers, copy_blocks, copy);
    for (int i = 0; i < n_workers; i++) {
        copy_parser_free(copy->workers[i].parser);
        copy_space_free(&copy->workers[i].space, copy->budget);
    }
    return copy->has_problem ? report(copy, err) : WEFT_OK;
}

static weft_status copy_into(CopyRun *copy, Pool *pool, const char *path, Error *err)
{
    copy->table = append_table(copy->append);
    copy->file.fd = -1;
    copy->arena = arena_new(NULL, "copy");
    pthread_mutex_init(&copy->mutex, NULL);
    weft_status status = copy_all(copy, pool, path, err);
    pthread_mutex_destroy(&copy->mutex);
    file_close(&copy->file);
    copy_space_free(&copy->carry, copy->budget);
    arena_free(copy->arena);
    return status;
}

weft_status copy_from_file(Store *store, Pool *pool, Budget *budget, const char *table, const char *path,
                           const CopyOptions *options, _Atomic int *progress, _Atomic bool *cancel, u64 *n_rows,
                           Error *err)
{
    CopyRun copy = { .options = options, .budget = budget, .progress = progress, .cancel = cancel };
    if (progress)
        *progress = 0;
    TRY(append_begin_unless(store, table, cancel, &copy.append, err));
    weft_status status = copy_into(&copy, pool, path, err);
    if (status) {
        append_abort(copy.append);
        return status;
    }
    TRY(append_commit(copy.append, n_rows, err));
    if (progress)
        *progress = 1000;
    return WEFT_OK;
}
