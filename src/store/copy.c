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

#include <pthread.h>
#include <stdio.h>

#include "store/copy_int.h"
#include "store/store_int.h"
#include "store/stream.h"

enum {
    BLOCK_BYTES = 1 << 19,             // 128 KiB to 4 MiB are about equally fast; less memory is better
    LINE_BYTES_MAX = 64 << 20,         // a quote that is never closed must not read the whole file into memory
};

static size_t block_bytes = BLOCK_BYTES;

void copy_set_block_bytes(size_t bytes)
{
    block_bytes = bytes > 0 ? bytes : BLOCK_BYTES;
}

// ---- the copy -------------------------------------------------------------------------------------------------------

typedef struct CopyWorker {
    CopyRows  rows;
    CopySpace space;                   // holds its block
} CopyWorker;

typedef struct Rejects { Text text; bool is_done; } Rejects;       // of a block, until those before it are written

typedef struct CopyRun {
    const CopyOptions *options;
    const CopyLines *lines;            // that are copied instead of a file; NULL: a file is
    Budget       *budget;
    Append       *append;              // NULL: rows become PIECES
    StoredChunk  *pieces;              // in order
    const Table  *table;
    _Atomic int  *progress;
    _Atomic bool *cancel;
    CopyWorker   *workers;

    pthread_mutex_t mutex;             // guards all below
    Arena       *arena;
    const char  *path;                 // for messages
    CopyStream      *input;            // NULL: lines are copied
    size_t       n_taken;              // bytes of these that are in blocks
    CopyReturns  returns;
    size_t       n_before_mix;         // once it is mixed: bytes carried over before the line end that does not fit
    i64          bad_line;             // of the lines that are being read, where their line end is another; -1: none
    bool         is_at_end;
    int          n_fields;
    CopySpace    carry;                // the begin of a line that the block before left over
    size_t       n_carried;
    u32         *block_lines;          // new lines in each block, once it is parsed
    int          n_blocks;
    bool         has_problem;
    CopyProblem  problem;              // the first in the file so far
    u64          n_rejected;
    bool         has_rejected;
    CopyProblem  first_rejected;       // the first in the file so far
    CopyStream      *reject_file;          // NULL: rejected rows are only counted
    Rejects     *rejects;              // by block
    int          n_rejects, n_rejects_written;
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

// Fewer bytes than asked for mean the end of the file.
static weft_status read_more(CopyRun *copy, char *to, size_t length, size_t *n_read, Error *err)
{
    TRY(stream_read(copy->input, to, length, n_read, err));
    copy->is_at_end = *n_read < length;
    return WEFT_OK;
}

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

static size_t last_newline(const char *bytes, size_t length)
{
    const char *newline = memrchr(bytes, '\n', length);
    return newline ? (size_t)(newline - bytes) + 1 : 0;
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

void copy_scan_lines(LineScan *scan, const CopyOptions *options, const char *bytes, size_t length)
{
    if (options->json)
        scan->end = last_newline(bytes, length);
    else if (!options->csv)
        scan->end = last_line_end_text(bytes, length);
    else if (options->escape != options->quote)
        scan_escapes(scan, options, bytes, length);
    else
        scan_quotes(scan, options->quote, bytes, length);
}

static size_t count_newlines(const char *bytes, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += bytes[i] == '\n';
    return n;
}

// At AT is a line end of another kind than the first.  The lines before it come first, whatever the size of blocks, so
// that errors in them are found.
static weft_status end_before_mix(CopyRun *copy, const char *bytes, size_t at, size_t *end, Error *err)
{
    LineScan scan = { 0 };
    copy_scan_lines(&scan, copy->options, bytes, at);
    *end = scan.end;
    copy->n_before_mix = at - scan.end;
    if (scan.end > 0)
        return WEFT_OK;
    copy->bad_line = (i64)count_newlines(bytes, at);
    return copy_returns_fail(copy->options, err);
}

// Reads until there is a line end with something behind it, so that it is always known which block is the last.
static weft_status read_lines(CopyRun *copy, CopySpace *space, size_t *length, size_t *end, Error *err)
{
    LineScan scan = { 0 };
    size_t n_seen = *length = copy->n_carried;
    if (copy->returns.is_mixed) {
        copy->bad_line = (i64)count_newlines(space->bytes, copy->n_before_mix);
        return copy_returns_fail(copy->options, err);
    }
    for (;;) {
        size_t n_read;
        size_t n_free = space->capacity - BLOCK_PADDING - *length;
        TRY(read_more(copy, space->bytes + *length, n_free, &n_read, err));
        *end = *length += n_read;
        copy_returns_mend(&copy->returns, copy->options, space->bytes, *length, copy->is_at_end, &n_seen);
        if (copy->returns.is_mixed)
            return end_before_mix(copy, space->bytes, n_seen, end, err);
        if (copy->is_at_end)
            return WEFT_OK;
        copy_scan_lines(&scan, copy->options, space->bytes, *length - 1);
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
    if (stream_is_plain_file(copy->input) && stream_offset(copy->input) == 0 && stream_size(copy->input) > 0)
        bytes = MIN_OF(bytes, stream_size(copy->input) + 1);    // one more, to see the end
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
    const bool is_plain = options->csv || options->json;
    return end == 0 || (is_plain ? bytes[end - 1] == '\n' : last_line_end_text(bytes, end) == end);
}

// The mark that some editors put at the begin of UTF-8 files.
static void skip_mark(CopyBlock *block)
{
    if (block->length > 3 && memcmp(block->bytes, "\xEF\xBB\xBF", 3) == 0) {
        block->bytes += 3;
        block->length -= 3;
    }
}

// Up to the last line end of about a block's bytes, with something behind it; or all that is left.
static weft_status measure_lines(CopyRun *copy, const char *bytes, size_t n_left, size_t *end, Error *err)
{
    LineScan scan = { 0 };
    for (size_t length = block_bytes; length < n_left; length *= 2) {
        copy_scan_lines(&scan, copy->options, bytes, length);
        *end = scan.end;
        if (scan.end > 0)
            return WEFT_OK;
        if (length > LINE_BYTES_MAX)
            return fail(err, WEFT_TOO_LONG, -1, "a line is longer than %d MiB", LINE_BYTES_MAX >> 20);
    }
    *end = n_left;
    copy->is_at_end = true;
    return WEFT_OK;
}

// The next of the lines in memory, where they lie.
static weft_status take_lines(CopyRun *copy, CopyBlock *block, Error *err)
{
    char *bytes = copy->lines->bytes + copy->n_taken;
    size_t end;
    TRY(measure_lines(copy, bytes, copy->lines->length - copy->n_taken, &end, err));
    copy->n_taken += end;
    if (copy->is_at_end && !is_line_end(copy->options, bytes, end))
        bytes[end++] = '\n';
    block->bytes = bytes;
    block->length = end;
    block->is_last = copy->is_at_end && copy->lines->is_end;
    if (block->sequence == 0 && !copy->lines->is_continued)
        skip_mark(block);
    return WEFT_OK;
}

// The next block, of length 0 at the end of the file.
static weft_status read_block(CopyRun *copy, CopySpace *space, CopyBlock *block, Error *err)
{
    ASSERT(mutex_is_held(&copy->mutex));
    *block = (CopyBlock){ .sequence = (u64)copy->n_blocks };
    if (copy->is_at_end && !copy->returns.is_mixed)
        return WEFT_OK;
    if (copy->lines)
        return take_lines(copy, block, err);
    TRY(copy_space_reserve(space, block_capacity(copy), copy->budget, err));
    if (copy->n_carried > 0)
        memcpy(space->bytes, copy->carry.bytes, copy->n_carried);
    size_t length, end = 0;
    TRY(read_lines(copy, space, &length, &end, err));
    TRY(carry_over(copy, space->bytes + end, length - end, err));
    if (copy->is_at_end && !is_line_end(copy->options, space->bytes, end))
        space->bytes[end++] = '\n';                         // the last line may lack it
    block->bytes = space->bytes;
    block->length = end;
    block->is_last = copy->is_at_end && !copy->returns.is_mixed;
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
    if (!copy->progress)
        return;
    const u64 size = stream_size(copy->input), offset = stream_offset(copy->input);
    if (size > 0)
        *copy->progress = (int)(999.0 * (double)MIN_OF(offset, size) / (double)size);
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
        problem.line = problem.error.status == WEFT_TOO_LONG ? 0 : copy->bad_line;  // behind those in blocks
        if (problem.error.status)
            note_problem(copy, &problem);
        is_going_on = !problem.error.status && block->length > 0;
    }
    if (is_going_on) {
        *LIST_PUSH(copy->arena, copy->block_lines, copy->n_blocks) = 0;
        *LIST_PUSH(copy->arena, copy->rejects, copy->n_rejects) = (Rejects){ { 0 }, false };
        show_progress(copy);
    }
    pthread_mutex_unlock(&copy->mutex);
    return is_going_on;
}

// Rejected rows go to their file in the order of the blocks.  Call with the mutex held.
static void write_rejects(CopyRun *copy)
{
    while (copy->n_rejects_written < copy->n_rejects && copy->rejects[copy->n_rejects_written].is_done) {
        CopyProblem problem = { .line = -1, .column = -1, .sequence = (u64)copy->n_rejects_written };
        Text *text = &copy->rejects[copy->n_rejects_written++].text;
        if (text->length > 0 && !copy->has_problem &&
            stream_write(copy->reject_file, text->bytes, text->length, &problem.error))
            note_problem(copy, &problem);
        text_free(text);
    }
}

// Call with the mutex held.
static void note_rejected(CopyRun *copy, CopyRows *rows, u64 sequence)
{
    copy->n_rejected += rows->n_rejected;
    if (rows->n_rejected > 0 && (!copy->has_rejected || sequence < copy->first_rejected.sequence)) {
        copy->first_rejected = rows->first_rejected;
        copy->first_rejected.sequence = sequence;
        copy->has_rejected = true;
    }
    if (!copy->reject_file)
        return;
    copy->rejects[sequence] = (Rejects){ rows->rejected, true };
    rows->rejected = (Text){ 0 };
    write_rejects(copy);
}

static void finish_block(CopyRun *copy, CopyWorker *worker, const CopyBlock *block, CopyProblem *problem)
{
    if (problem->error.status)
        copy_hint(copy->options, block, copy->n_fields, problem);
    pthread_mutex_lock(&copy->mutex);
    ASSERT(block->sequence < (u64)copy->n_blocks);
    copy->block_lines[block->sequence] = worker->rows.n_newlines;
    if (problem->error.status)
        note_problem(copy, problem);
    note_rejected(copy, &worker->rows, block->sequence);
    pthread_mutex_unlock(&copy->mutex);
}

static void insert_piece(CopyRun *copy, StoredChunk *piece)
{
    pthread_mutex_lock(&copy->mutex);
    StoredChunk **link = &copy->pieces;
    while (*link && (*link)->sequence < piece->sequence)
        link = &(*link)->next;
    piece->next = *link;
    *link = piece;
    pthread_mutex_unlock(&copy->mutex);
}

static weft_status store_rows(CopyRun *copy, const CopyParser *parser, u64 sequence, Error *err)
{
    u32 n_rows;
    StoredChunk *piece;
    const ColumnInput *inputs = copy_parser_columns(parser, &n_rows);
    if (copy->append)
        return append_rows(copy->append, sequence, inputs, n_rows, err);
    TRY(chunk_encode(copy->budget, copy->table, inputs, n_rows, &piece, err));
    const weft_status status = chunk_sketch(piece, copy->table->columns, NULL, 0, 1, err);  // so that no commit need
    if (status) {
        chunk_release(&piece->chunk);
        return status;
    }
    piece->sequence = sequence;
    insert_piece(copy, piece);
    return WEFT_OK;
}

static void copy_blocks(void *context, int number)
{
    CopyRun *copy = context;
    CopyWorker *worker = &copy->workers[number];
    CopyBlock block;
    while (take_block(copy, worker, &block)) {
        CopyProblem problem;
        if (copy_rows_run(&worker->rows, &block, &problem) == WEFT_OK)
            store_rows(copy, worker->rows.parser, block.sequence, &problem.error);
        finish_block(copy, worker, &block, &problem);
    }
}

// ---- begin and end --------------------------------------------------------------------------------------------------

static unsigned long long line_of(const CopyRun *copy, const CopyProblem *problem)
{
    unsigned long long line = (unsigned long long)problem->line + 1 + (copy->lines ? copy->lines->n_before : 0);
    for (u64 i = 0; i < problem->sequence; i++)
        line += copy->block_lines[i];
    return line;
}

// The file, the line, the column: "sales.csv", line 3, column price.
static void describe_place(const CopyRun *copy, const CopyProblem *problem, Text *text)
{
    text_add(text, "\"%s\", line %llu", copy->path, line_of(copy, problem));
    if (problem->column >= 0)
        text_add(text, ", column %s", copy->table->columns[problem->column].name);
}

static weft_status report(const CopyRun *copy, Error *err)
{
    const CopyProblem *problem = &copy->problem;
    weft_status status = problem->error.status;
    Text place = { 0 };
    if (problem->line >= 0)
        describe_place(copy, problem, &place);
    status = fail(err, status, -1, "%s%s%s", place.bytes ? place.bytes : "", place.bytes ? ": " : "",
                  problem->error.message);
    if (problem->error.hint[0])
        error_hint(err, "%s", problem->error.hint);
    text_free(&place);
    return status;
}

static void report_rejected(const CopyRun *copy, CopyFigures *figures)
{
    Text place = { 0 };
    figures->n_rejected = copy->n_rejected;
    if (!copy->n_rejected)
        return;
    describe_place(copy, &copy->first_rejected, &place);
    snprintf(figures->first_rejected, sizeof(figures->first_rejected), "%.400s: %.500s", place.bytes,
             copy->first_rejected.error.message);
    text_free(&place);
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

// The table was found by its name, perhaps long after the statement was understood.
static weft_status check_table(const CopyRun *copy, Error *err)
{
    if (!copy->options->table_id || copy->table->id == copy->options->table_id)
        return WEFT_OK;
    return fail(err, WEFT_UNDEFINED_TABLE, -1, "table \"%s\" was dropped or renamed while rows were copied into it",
                copy->table->name);
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

static int count_workers(const CopyRun *copy, const Pool *pool)
{
    u64 n_blocks = copy->lines                         ? copy->lines->length / block_bytes + 1
                   : stream_is_plain_file(copy->input) ? stream_size(copy->input) / block_bytes + 1
                                                       : INT32_MAX;
    return (int)MIN_OF((u64)pool_size(pool), n_blocks);
}

// What JSON becomes is the text format.
static const CopyOptions *parsed_options(CopyRun *copy)
{
    if (!copy->options->json)
        return copy->options;
    CopyOptions *text = arena_make(copy->arena, CopyOptions);
    *text = *copy->options;
    text->delimiter = '\t';
    text->null_text = "\\N";
    text->header = text->trailing_delimiter = false;
    return text;
}

static void start_workers(CopyRun *copy, const int *columns, int n_workers)
{
    const CopyOptions *parsed = parsed_options(copy);
    copy->workers = arena_array(copy->arena, CopyWorker, n_workers);
    for (int i = 0; i < n_workers; i++) {
        CopyRows *rows = &copy->workers[i].rows;
        rows->options = copy->options;
        rows->budget = copy->budget;
        rows->parser = copy_parser_new(copy->arena, copy->table, parsed, columns, copy->n_fields, copy->budget);
        if (copy->lines)
            copy_parser_swap(rows->parser, &copy->lines->memory[i]);
        if (copy->options->json)
            rows->json = copy_json_new(copy->arena, copy->table, columns, copy->n_fields, copy->budget);
    }
}

static weft_status open_files(CopyRun *copy, const char *path, Error *err)
{
    const CopyOptions *options = copy->options;
    if (copy->lines)
        return WEFT_OK;
    TRY(stream_open_read(path, options->is_std ? options->fd : -1, copy->cancel, &copy->input, err));
    if (!options->reject_path)
        return WEFT_OK;
    // Opening it for writing would empty it.
    if (stream_reads(copy->input, options->reject_path))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "REJECT \"%.400s\" is the file that is read",
                    options->reject_path);
    return stream_open_write(options->reject_path, -1, &copy->reject_file, err);
}

static weft_status copy_all(CopyRun *copy, Pool *pool, const char *path, Error *err)
{
    int *columns = NULL;
    TRY(check_options(copy->options, err));
    TRY(check_table(copy, err));
    TRY(map_fields(copy, &columns, &copy->n_fields, err));
    TRY(open_files(copy, path, err));
    int n_workers = count_workers(copy, pool);
    start_workers(copy, columns, n_workers);
    pool_run(pool, n_workers, copy_blocks, copy);
    for (int i = 0; i < n_workers; i++) {
        if (copy->lines)
            copy_parser_swap(copy->workers[i].rows.parser, &copy->lines->memory[i]);
        copy_rows_free(&copy->workers[i].rows);
        copy_space_free(&copy->workers[i].space, copy->budget);
    }
    for (int i = copy->n_rejects_written; i < copy->n_rejects; i++)
        text_free(&copy->rejects[i].text);
    return copy->has_problem ? report(copy, err) : WEFT_OK;
}

static weft_status copy_into(CopyRun *copy, Pool *pool, const char *path, CopyFigures *figures, Error *err)
{
    copy->path = path;
    copy->arena = arena_new(NULL, "copy");
    pthread_mutex_init(&copy->mutex, NULL);
    weft_status status = copy_all(copy, pool, path, err);
    if (!status)
        report_rejected(copy, figures);
    pthread_mutex_destroy(&copy->mutex);
    stream_close(copy->input);
    if (!status && copy->reject_file)
        status = stream_finish(copy->reject_file, err);
    else
        stream_close(copy->reject_file);
    copy_space_free(&copy->carry, copy->budget);
    arena_free(copy->arena);
    return status;
}

weft_status copy_into_append(Append *append, Pool *pool, Budget *budget, const char *path, const CopyOptions *options,
                             _Atomic int *progress, _Atomic bool *cancel, CopyFigures *figures, Error *err)
{
    CopyRun copy = { .options = options, .budget = budget, .append = append, .table = append_table(append),
                     .progress = progress, .cancel = cancel, .bad_line = -1 };
    *figures = (CopyFigures){ 0 };
    return copy_into(&copy, pool, path, figures, err);
}

weft_status copy_lines_to_pieces(const Table *table, Pool *pool, Budget *budget, const char *path,
                                 const CopyOptions *options, const CopyLines *lines, StoredChunk **pieces,
                                 CopyFigures *figures, Error *err)
{
    CopyRun copy = { .options = options, .lines = lines, .budget = budget, .table = table, .bad_line = -1 };
    *figures = (CopyFigures){ 0 };
    const weft_status status = copy_into(&copy, pool, path, figures, err);
    *pieces = copy.pieces;
    return status;
}

weft_status copy_from_file(Store *store, Pool *pool, Budget *budget, const char *table, const char *path,
                           const CopyOptions *options, _Atomic int *progress, _Atomic bool *cancel,
                           CopyFigures *figures, Error *err)
{
    Append *append;
    if (progress)
        *progress = 0;
    TRY(append_begin_unless(store, table, cancel, &append, err));
    weft_status status = copy_into_append(append, pool, budget, path, options, progress, cancel, figures, err);
    if (status) {
        append_abort(append);
        return status;
    }
    TRY(append_commit(append, &figures->n_rows, err));
    if (progress)
        *progress = 1000;
    return WEFT_OK;
}
