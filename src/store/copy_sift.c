// copy_sift.c - a block to rows; with ON_ERROR ignore, without the bad ones.
//
// The parser stops at the first bad row of a block.  To leave out that one and go on, the rows are tried again in runs:
// of many as long as they are good, of few behind a bad one, so that a block of bad rows costs a few times what a good
// one does.  What is good is put together and parsed once more as a whole.

#include "store/copy_int.h"
#include "store/store_int.h"

enum { RUN_LEAST = 16, RUN_MOST = 1 << 16 };

// What the file can cause, row by row: not memory, the disk or a cancel.
static bool is_of_row(const CopyProblem *problem)
{
    switch (problem->error.status) {
    case WEFT_BAD_COPY: case WEFT_BAD_TEXT: case WEFT_OUT_OF_RANGE: case WEFT_BAD_DATETIME:
    case WEFT_DATETIME_OVERFLOW: case WEFT_NOT_NULL_VIOLATION: case WEFT_BAD_ENCODING: case WEFT_TOO_LONG:
    case WEFT_TEXT_TOO_LONG: case WEFT_INVALID_PARAMETER: case WEFT_UNSUPPORTED: case WEFT_INTERVAL_OVERFLOW:
        return problem->line >= 0;
    default:
        return false;
    }
}

static weft_status run_json(CopyRows *rows, const CopyBlock *block, CopyProblem *problem)
{
    CopyBlock made;
    CopyProblem later = { .line = -1, .column = -1, .sequence = block->sequence };
    copy_json_block(rows->json, block, &made, &later);
    *problem = (CopyProblem){ .line = -1, .column = -1, .sequence = block->sequence };
    if (later.error.status && !is_of_row(&later))
        *problem = later;
    else if (made.length == 0)
        copy_parser_clear(rows->parser);
    else if (copy_parser_run(rows->parser, &made, problem) && problem->line >= 0)
        copy_json_place(rows->json, block, problem);        // before the line that is no JSON
    if (!problem->error.status)
        *problem = later;
    return problem->error.status;
}

static weft_status run_once(CopyRows *rows, const CopyBlock *block, CopyProblem *problem)
{
    return rows->json ? run_json(rows, block, problem) : copy_parser_run(rows->parser, block, problem);
}

static u32 count_newlines(const CopyBlock *block, size_t length)
{
    u32 n = 0;
    for (size_t i = 0; i < length; i++)
        n += block->bytes[i] == '\n';
    return n;
}

// ---- leaving rows out -----------------------------------------------------------------------------------------------

// Where each row ends, as offsets behind its new line; what is behind the last whole row counts as one.
static weft_status find_rows(CopyRows *rows, const CopyBlock *block, u32 *n_rows, Error *err)
{
    const FieldIndex *index = copy_parser_index(rows->parser);
    const u32 most = rows->json ? count_newlines(block, block->length) + 1 : index->n_rows + 1;
    u32 n = 0;
    TRY(copy_space_reserve(&rows->bounds, (size_t)(most + 1) * sizeof(u32), rows->budget, err));
    u32 *ends = (u32 *)(void *)rows->bounds.bytes;
    if (rows->json) {
        for (size_t i = 0; i < block->length; i++)
            if (block->bytes[i] == '\n')
                ends[n++] = (u32)i + 1;
    } else {
        for (; n < index->n_rows; n++)
            ends[n] = index->ends[index->row_ends[n]] + 1;
    }
    if (block->length > (n ? ends[n - 1] : 0))
        ends[n++] = (u32)block->length;
    *n_rows = n;
    return WEFT_OK;
}

static void reject(CopyRows *rows, const CopyBlock *block, u32 start, u32 end, const CopyProblem *problem)
{
    if (rows->n_rejected++ == 0) {
        rows->first_rejected = *problem;
        rows->first_rejected.sequence = block->sequence;
        rows->first_rejected.line = count_newlines(block, start);
    }
    text_add_bytes(&rows->rejected, block->bytes + start, end - start);
    if (end == start || block->bytes[end - 1] != '\n')
        text_add_bytes(&rows->rejected, "\n", 1);
}

// Tries the rows FIRST .. LAST - 1 of the block.  *N_GOOD: those before the first bad one.
static weft_status try_rows(CopyRows *rows, const CopyBlock *block, u32 first, u32 last, u32 n_rows, u32 *n_good,
                            CopyProblem *problem)
{
    const u32 *ends = (const u32 *)(const void *)rows->bounds.bytes;
    const u32 start = first ? ends[first - 1] : 0;
    const CopyBlock part = { .bytes = block->bytes + start, .length = ends[last - 1] - start, .sequence = 1,
                             .is_last = block->is_last && last == n_rows };
    *n_good = last - first;
    if (!run_once(rows, &part, problem))
        return WEFT_OK;
    if (!is_of_row(problem)) {
        if (problem->line >= 0)
            problem->line += count_newlines(block, start);
        return problem->error.status;
    }
    *n_good = 0;
    while (first + *n_good < last - 1 && ends[first + *n_good] <= start + problem->row_start)
        (*n_good)++;
    return WEFT_OK;
}

static weft_status sift(CopyRows *rows, const CopyBlock *block, CopyProblem *problem)
{
    u32 n_rows, run = RUN_LEAST;
    Error err = { 0 };
    if (find_rows(rows, block, &n_rows, &err)) {
        *problem = (CopyProblem){ .error = err, .line = -1, .column = -1, .sequence = block->sequence };
        return err.status;
    }
    const u32 *ends = (const u32 *)(const void *)rows->bounds.bytes;
    u32 at = block->sequence == 0 && rows->options->header && n_rows > 0 ? 1 : 0;
    text_add_bytes(&rows->kept, block->bytes, at ? ends[0] : 0);
    while (at < n_rows) {
        const u32 last = MIN_OF(at + run, n_rows), start = at ? ends[at - 1] : 0;
        u32 n_good;
        TRY(try_rows(rows, block, at, last, n_rows, &n_good, problem));
        const u32 good_end = n_good ? ends[at + n_good - 1] : start;
        text_add_bytes(&rows->kept, block->bytes + start, good_end - start);
        at += n_good;
        run = at == last ? MIN_OF(2 * run, (u32)RUN_MOST) : RUN_LEAST;
        if (at == last)
            continue;
        reject(rows, block, good_end, ends[at], problem);
        at++;
    }
    return WEFT_OK;
}

static weft_status run_without_bad(CopyRows *rows, const CopyBlock *block, CopyProblem *problem)
{
    static const char padding[BLOCK_PADDING];
    TRY(sift(rows, block, problem));
    CopyBlock good = *block;
    good.length = rows->kept.length;
    text_add_bytes(&rows->kept, padding, sizeof(padding));
    good.bytes = rows->kept.bytes;
    *problem = (CopyProblem){ .line = -1, .column = -1, .sequence = block->sequence };
    if (good.length > 0)
        return run_once(rows, &good, problem);
    copy_parser_clear(rows->parser);
    return WEFT_OK;
}

weft_status copy_rows_run(CopyRows *rows, const CopyBlock *block, CopyProblem *problem)
{
    rows->n_rejected = 0;
    text_clear(&rows->kept);
    text_clear(&rows->rejected);
    weft_status status = run_once(rows, block, problem);
    rows->n_newlines = rows->json ? count_newlines(block, block->length) : copy_parser_newlines(rows->parser);
    if (status && rows->options->ignores_errors && is_of_row(problem))
        status = run_without_bad(rows, block, problem);
    problem->sequence = block->sequence;
    return status;
}

void copy_rows_free(CopyRows *rows)
{
    copy_parser_free(rows->parser);
    copy_json_free(rows->json);
    copy_space_free(&rows->bounds, rows->budget);
    text_free(&rows->kept);
    text_free(&rows->rejected);
}
