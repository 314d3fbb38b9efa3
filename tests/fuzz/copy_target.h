// copy_target.h - files of a format through COPY, through the guesses of read_csv and `weft import`, and checked.
//
// A file is read as one block by one worker and with tiny ones by two: status, message, rows and
// rejected rows must be the same.  What was read must have the statistics that its chunks claim.

#ifndef WEFT_FUZZ_COPY_TARGET_H
#define WEFT_FUZZ_COPY_TARGET_H

#include <sys/mman.h>
#include <unistd.h>

#include "store/copy_int.h"
#include "store/guess.h"
#include "target.h"

enum { COPY_MEMORY = 256 << 20, COPY_INPUT_MOST = 4096, WHOLE_BLOCK = 8192, TINY_BLOCK = 7 };

typedef struct Outcome { weft_status status; char message[512]; CopyFigures figures; } Outcome;

static Store *store;
static Budget budget = { .limit = COPY_MEMORY };
static Pool  *one_worker, *two_workers;

static void copy_target_begin(void)
{
    static const ColumnDef columns[] = {
        { "a", TYPE(INTEGER), false }, { "b", TYPE(TEXT), false }, { "d", TYPE(DATE), false },
        { "n", { .kind = TYPE_DECIMAL, .precision = 9, .scale = 2 }, false }, { "f", TYPE(DOUBLE), false },
        { "t", TYPE(TIMESTAMPTZ), false }, { "w", { .kind = TYPE_NUMERIC, .precision = 30, .scale = 5 }, false },
        { "k", TYPE(BOOLEAN), false }, { "v", { TYPE_TEXT, 3, 0 }, false }, { "c", TYPE(TIME), false },
        { "u", TYPE_OF_UUID, false },
    };
    Error err;
    error_clear(&err);
    if (store) return;
    require_ok(store_open(NULL, &budget, &store, &err), &err);
    require_ok(store_create_table(store, "wide", columns, COUNT_OF(columns), &err), &err);
    require_ok(store_create_table(store, "narrow", columns, 2, &err), &err);
    one_worker = pool_new(1);
    two_workers = pool_new(2);
}

static int file_of(const uint8_t *bytes, size_t length)
{
    const int fd = memfd_create("fuzz", 0);
    require(fd >= 0 && write(fd, bytes, length) == (ssize_t)length, "the input is in a file");
    return fd;
}

static Outcome read_it(int fd, const char *table, CopyOptions options, size_t block, Pool *pool)
{
    Outcome outcome = { 0 };
    const Table *read;
    Error err;
    error_clear(&err);
    copy_set_block_bytes(block);
    lseek(fd, 0, SEEK_SET);
    options.is_std = true;
    options.fd = fd;
    outcome.status = copy_from_file(store, pool, &budget, table, "input", &options, NULL, NULL, &outcome.figures, &err);
    require_told(outcome.status, &err);
    snprintf(outcome.message, sizeof outcome.message, "%s", err.message);
    if (outcome.status) return outcome;
    require_ok(store_get_table(store, table, &read, &err), &err);
    check_table(read);
    require(read->n_rows == outcome.figures.n_rows, "the rows that were counted are there");
    table_release(read);
    require_ok(store_truncate_table(store, table, NULL, &err), &err);
    return outcome;
}

static void read_both_ways(int fd, const char *table, const CopyOptions *options)
{
    const Outcome whole = read_it(fd, table, *options, WHOLE_BLOCK, one_worker);
    const Outcome cut = read_it(fd, table, *options, TINY_BLOCK, two_workers);
    require(whole.status == cut.status, "the status does not depend on blocks and workers");
    if (strcmp(whole.message, cut.message) != 0) fprintf(stderr, "%s\n%s\n", whole.message, cut.message);
    require(strcmp(whole.message, cut.message) == 0, "the message does not depend on blocks and workers");
    require(whole.status || (whole.figures.n_rows == cut.figures.n_rows &&
                             whole.figures.n_rejected == cut.figures.n_rejected),
            "the rows do not depend on blocks and workers");
}

// As files.c and import.c do it: columns that do not fit become text, until all fit.
static weft_status read_guessed(const char *path, Guess *guess, Error *err)
{
    for (int tries = 0;; tries++) {
        Append *append;
        CopyFigures figures;
        error_clear(err);
        TRY(append_begin_new(store, "guessed", guess->columns, guess->n_columns, &append, err));
        weft_status status = copy_into_append(append, one_worker, &budget, path, &guess->options, NULL, NULL, &figures,
                                              err);
        if (status) append_abort(append);
        else status = append_commit(append, &figures.n_rows, err);
        if (!status || !guess_widen(guess, err)) return status;
        require(tries <= guess->n_columns, "each try makes a column text");
    }
}

static void guess_it(int fd, const char *format)
{
    char path[64];
    Guess guess;
    Error err;
    Arena *arena = arena_new(NULL, "fuzz");
    const Table *read;
    error_clear(&err);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    copy_set_block_bytes(WHOLE_BLOCK);
    weft_status status = guess_file(arena, path, format, NULL, &guess, &err);
    if (!status) status = read_guessed(path, &guess, &err);
    require_told(status, &err);
    if (!status) {
        require_ok(store_get_table(store, "guessed", &read, &err), &err);
        check_table(read);
        table_release(read);
        require_ok(store_drop_table(store, "guessed", &err), &err);
    }
    arena_free(arena);
}

#endif
