// gen_load.c - rows that are made up, into tables and files.
//
//     jobs:   part | customer | supplier | date | lineorder block 0 | block 1 | block 2 | ...
//
// A table is made in blocks.  The blocks of a split table are jobs of their own; a table that is not split is a single
// job.  What is in the store does not depend on the number of workers: words of a split table have their dictionary
// codes before the first block is made, and other texts get theirs block by block, in order, as blocks get their places
// in the file.  Only these steps are done by one worker at a time for each table.

#include <pthread.h>
#include <stdio.h>

#include "shell/gen_int.h"

enum { BLOCK_UNITS = 4096, DICT_TEXTS_MOST = 1 << 30 };

// A table while it is being loaded.
typedef struct GenLoad {
    const GenTable *table;
    Append         *append;            // NULL: not into a store, or ended
    bool            is_created;        // in the store, by us
    i64            *codes[GEN_COLUMNS_MAX];      // dictionary code of each word of the column's list; -1: not yet known
    File            file;
    bool            has_file;          // made by us
    u64             file_length;       // bytes that have a place in the file
    u64             next_to_encode;    // block whose texts get their codes next
    u64             next_to_write;     // block that gets its place in the file next
    _Atomic u64     n_rows;
} GenLoad;

typedef struct Gen {
    const GenPlan    *plan;
    const GenOptions *options;
    Arena            *arena;
    GenLoad           loads[GEN_TABLES_MAX];
    u64               n_jobs, n_units;           // of all tables
    _Atomic u64       next_job, n_units_done;
    pthread_mutex_t   mutex;                     // for the error, the turns and for places in files
    pthread_cond_t    turn;
    _Atomic bool      has_failed;
    Error             error;
} Gen;

static int count_words(const Gen *gen, const GenLoad *load, int column)
{
    ASSERT(column < load->table->n_columns);
    return gen->plan->lists[load->table->columns[column].list].n_words;
}

// ---- turns: blocks of a table one after the other -------------------------------------------------------------------

// Waits until all blocks before this one have had their turn.  They are in work already, by workers that do not wait
// for this one, so waiting is safe.  False: there will be no turn, since another worker failed.
static bool wait_for_turn(Gen *gen, const u64 *next, u64 block)
{
    pthread_mutex_lock(&gen->mutex);
    while (*next != block && !gen->has_failed)
        pthread_cond_wait(&gen->turn, &gen->mutex);
    bool is_mine = *next == block;
    pthread_mutex_unlock(&gen->mutex);
    return is_mine;
}

static void end_turn(Gen *gen, u64 *next)
{
    pthread_mutex_lock(&gen->mutex);
    ++*next;
    pthread_cond_broadcast(&gen->turn);
    pthread_mutex_unlock(&gen->mutex);
}

// ---- into the store -------------------------------------------------------------------------------------------------

static weft_status intern_word(const Gen *gen, GenLoad *load, int column, i64 word, Error *err)
{
    weft_text text = gen->plan->lists[load->table->columns[column].list].words[word];
    u32 code;
    TRY(dict_intern(append_table(load->append)->columns[column].dict, text.bytes, text.length, &code, err));
    load->codes[column][word] = code;
    return WEFT_OK;
}

// Words become codes in place.
static weft_status encode_words(const Gen *gen, GenLoad *load, int column, GenBatch *batch, Error *err)
{
    i64 *codes = load->codes[column], *cells = batch->cells[column];
    for (u32 row = 0; row < batch->n_rows; row++) {
        if (codes[cells[row]] < 0)
            TRY(intern_word(gen, load, column, cells[row], err));
        cells[row] = codes[cells[row]];
    }
    return WEFT_OK;
}

static bool is_made_up(const GenColumn *column) { return column->width > 0 && !column->list; }

static weft_status encode_texts(const GenLoad *load, int column, GenBatch *batch, Error *err)
{
    enum { AT_ONCE = 1024 };
    Dictionary *dict = append_table(load->append)->columns[column].dict;
    i64 *cells = batch->cells[column];
    weft_text texts[AT_ONCE];
    u32 codes[AT_ONCE];
    for (u32 first = 0; first < batch->n_rows; first += AT_ONCE) {
        const u32 n = MIN_OF(batch->n_rows - first, (u32)AT_ONCE);
        for (u32 t = 0; t < n; t++) {
            const char *bytes = batch->texts.bytes + cells[first + t];
            texts[t] = (weft_text){ bytes, strlen(bytes) };
        }
        TRY(dict_intern_many(dict, texts, n, codes, err));
        for (u32 t = 0; t < n; t++)
            cells[first + t] = codes[t];
    }
    return WEFT_OK;
}

static weft_status encode_all_texts(const GenLoad *load, GenBatch *batch, Error *err)
{
    for (int column = 0; column < load->table->n_columns; column++) {
        if (is_made_up(&load->table->columns[column]))
            TRY(encode_texts(load, column, batch, err));
    }
    return WEFT_OK;
}

static weft_status append_batch(Gen *gen, GenLoad *load, u64 block, GenBatch *batch, Error *err)
{
    ColumnInput inputs[GEN_COLUMNS_MAX];
    ASSERT(load->table->n_columns <= GEN_COLUMNS_MAX);
    for (int column = 0; column < load->table->n_columns; column++) {
        if (load->table->columns[column].list)
            TRY(encode_words(gen, load, column, batch, err));
        inputs[column] = (ColumnInput){ .i = batch->cells[column], .is_null = NULL };
    }
    if (!wait_for_turn(gen, &load->next_to_encode, block))
        return WEFT_OK;
    TRY(encode_all_texts(load, batch, err));
    end_turn(gen, &load->next_to_encode);
    return append_rows(load->append, block, inputs, batch->n_rows, err);
}

// ---- into a file ----------------------------------------------------------------------------------------------------

static char *format_number(char *to, u64 number)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

static char *format_digits(char *to, int number, int n_digits)
{
    for (int i = n_digits - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + n_digits;
}

static char *format_money(char *to, i64 cents)
{
    if (cents < 0) {
        *to++ = '-';
        cents = -cents;
    }
    to = format_number(to, (u64)cents / 100);
    *to++ = '.';
    return format_digits(to, (int)(cents % 100), 2);
}

static char *format_date(char *to, i64 days)
{
    int year, month, day;
    date_to_civil((i32)days, &year, &month, &day);
    to = format_digits(to, year, 4);
    *to++ = '-';
    to = format_digits(to, month, 2);
    *to++ = '-';
    return format_digits(to, day, 2);
}

static char *format_text(char *to, const char *bytes, size_t length)
{
    memcpy(to, bytes, length);
    return to + length;
}

static char *format_cell(const Gen *gen, const GenColumn *column, const GenBatch *batch, i64 cell, char *to)
{
    switch (column->width) {
    case GEN_INTEGER:
    case GEN_BIGINT:
        return format_number(to, (u64)cell);
    case GEN_MONEY:
        return format_money(to, cell);
    case GEN_QUANTITY:
        return format_number(to, (u64)cell / 100);
    case GEN_DATE:
        return format_date(to, cell);
    }
    if (!column->list)
        return format_text(to, batch->texts.bytes + cell, strlen(batch->texts.bytes + cell));
    weft_text word = gen->plan->lists[column->list].words[cell];
    return format_text(to, word.bytes, word.length);
}

// As dbgen writes: a '|' behind every field, the last one too.
static size_t format_batch(const Gen *gen, const GenTable *table, const GenBatch *batch, char *to)
{
    char *start = to;
    for (u32 row = 0; row < batch->n_rows; row++) {
        for (int column = 0; column < table->n_columns; column++) {
            to = format_cell(gen, &table->columns[column], batch, batch->cells[column][row], to);
            *to++ = '|';
        }
        *to++ = '\n';
    }
    return (size_t)(to - start);
}

static size_t line_bytes_max(const GenTable *table)
{
    size_t bytes = 1;
    for (int column = 0; column < table->n_columns; column++)
        bytes += (table->columns[column].width > 0 ? (size_t)table->columns[column].width : 20) + 1;
    return bytes;
}

// A block's place in the file is known once all blocks before it are formatted.
static weft_status write_in_turn(Gen *gen, GenLoad *load, u64 block, const char *bytes, size_t length, Error *err)
{
    if (!wait_for_turn(gen, &load->next_to_write, block))
        return WEFT_OK;
    u64 place = load->file_length;
    load->file_length += length;
    end_turn(gen, &load->next_to_write);
    return file_write_at(&load->file, bytes, length, place, err);
}

// ---- the workers ----------------------------------------------------------------------------------------------------

typedef struct GenWorker {
    GenBatch batch;
    i64     *cells;                    // memory of the batch
    char    *lines;                    // of a block, for the file; NULL when there is none
    size_t   cells_bytes, lines_bytes;
} GenWorker;

static u64 count_blocks(const GenTable *table)
{
    return (table->n_units + BLOCK_UNITS - 1) / BLOCK_UNITS;
}

static bool is_canceled(const Gen *gen)
{
    return gen->options->cancel && *gen->options->cancel;
}

static void show_progress(Gen *gen, u64 n_units)
{
    u64 n_done = atomic_fetch_add(&gen->n_units_done, n_units) + n_units;
    if (gen->options->progress)
        *gen->options->progress = (int)(999 * n_done / gen->n_units);
}

static weft_status make_block(Gen *gen, GenLoad *load, u64 block, GenWorker *worker, Error *err)
{
    const GenTable *table = load->table;
    GenBatch *batch = &worker->batch;
    u64 first = block * BLOCK_UNITS;
    ASSERT(first < table->n_units);
    u32 n_units = (u32)MIN_OF((u64)BLOCK_UNITS, table->n_units - first);
    if (is_canceled(gen))
        return fail(err, WEFT_QUERY_CANCELED, -1, "generating was cancelled");
    text_clear(&batch->texts);
    table->fill(gen->plan->rules, first, n_units, batch);
    ASSERT(batch->n_rows <= n_units * table->unit_rows_max);
    atomic_fetch_add(&load->n_rows, batch->n_rows);
    size_t length = worker->lines ? format_batch(gen, table, batch, worker->lines) : 0;
    ASSERT(length <= worker->lines_bytes);
    if (load->append)
        TRY(append_batch(gen, load, block, batch, err));
    if (worker->lines)
        TRY(write_in_turn(gen, load, block, worker->lines, length, err));
    show_progress(gen, n_units);
    return WEFT_OK;
}

static u64 count_jobs(const GenTable *table)
{
    return table->is_split ? count_blocks(table) : 1;
}

static weft_status do_job(Gen *gen, u64 job, GenWorker *worker, Error *err)
{
    GenLoad *load = gen->loads;
    ASSERT(job < gen->n_jobs);
    for (; job >= count_jobs(load->table); load++)
        job -= count_jobs(load->table);
    if (load->table->is_split)
        return make_block(gen, load, job, worker, err);
    for (u64 block = 0; block < count_blocks(load->table) && !gen->has_failed; block++)
        TRY(make_block(gen, load, block, worker, err));
    return WEFT_OK;
}

static weft_status worker_begin(const Gen *gen, GenWorker *worker, Error *err)
{
    size_t n_rows_max = 0, lines_bytes = 0;
    void *memory;
    for (int i = 0; i < gen->plan->n_tables; i++) {
        const GenTable *table = &gen->plan->tables[i];
        size_t n_rows = (size_t)MIN_OF((u64)BLOCK_UNITS, table->n_units) * table->unit_rows_max;
        n_rows_max = MAX_OF(n_rows_max, n_rows);
        lines_bytes = MAX_OF(lines_bytes, n_rows * line_bytes_max(table));
    }
    worker->cells_bytes = n_rows_max * GEN_COLUMNS_MAX * sizeof(i64);
    TRY(mem_alloc(NULL, worker->cells_bytes, &memory, err));
    worker->cells = memory;
    for (int column = 0; column < GEN_COLUMNS_MAX; column++)
        worker->batch.cells[column] = worker->cells + n_rows_max * (size_t)column;
    if (gen->options->tbl_dir) {
        TRY(mem_alloc(NULL, lines_bytes, &memory, err));
        worker->lines = memory;
        worker->lines_bytes = lines_bytes;
    }
    return WEFT_OK;
}

static void worker_end(GenWorker *worker)
{
    mem_free(NULL, worker->cells, worker->cells_bytes);
    mem_free(NULL, worker->lines, worker->lines_bytes);
    text_free(&worker->batch.texts);
}

static void note_failure(Gen *gen, const Error *err)
{
    pthread_mutex_lock(&gen->mutex);
    if (!gen->has_failed)
        gen->error = *err;
    gen->has_failed = true;
    pthread_cond_broadcast(&gen->turn);
    pthread_mutex_unlock(&gen->mutex);
}

static bool take_job(Gen *gen, u64 *job)
{
    if (gen->has_failed)
        return false;
    *job = atomic_fetch_add(&gen->next_job, 1);
    return *job < gen->n_jobs;
}

static void work(void *context, int number)
{
    Gen *gen = context;
    GenWorker worker = { 0 };
    Error err = { 0 };
    u64 job;
    (void)number;
    if (!take_job(gen, &job))
        return;
    worker_begin(gen, &worker, &err);
    do {
        if (!err.status)
            do_job(gen, job, &worker, &err);
    } while (!err.status && take_job(gen, &job));
    if (err.status)
        note_failure(gen, &err);
    worker_end(&worker);
}

// ---- begin and end --------------------------------------------------------------------------------------------------

static weft_status check_is_new(Store *store, const GenTable *table, Error *err)
{
    const Table *old = NULL;
    if (store_peek_table(store, table->name, &old, NULL) == WEFT_UNDEFINED_TABLE)
        return WEFT_OK;
    table_release(old);
    weft_status status = fail(err, WEFT_DUPLICATE_TABLE, -1, "table \"%s\" exists already", table->name);
    error_hint(err, "Tables are never overwritten: take a new database, or drop the tables first.");
    return status;
}

// Blocks of a split table are encoded side by side, so its words get their codes before.
static weft_status prepare_codes(const Gen *gen, GenLoad *load, Error *err)
{
    for (int column = 0; column < load->table->n_columns; column++) {
        int n_words = count_words(gen, load, column);
        load->codes[column] = arena_array(gen->arena, i64, n_words);
        for (int word = 0; word < n_words; word++) {
            load->codes[column][word] = -1;
            if (load->table->is_split)
                TRY(intern_word(gen, load, column, word, err));
        }
    }
    return WEFT_OK;
}

// Most texts that are not from a list differ.  A dictionary that grows has its entries found anew each time.
static weft_status reserve_texts(GenLoad *load, Error *err)
{
    const u64 n_rows = load->table->n_units * load->table->unit_rows_max / 2;
    const Column *columns = append_table(load->append)->columns;
    for (int column = 0; column < load->table->n_columns; column++)
        if (is_made_up(&load->table->columns[column]))
            TRY(dict_reserve(columns[column].dict, (u32)MIN_OF(n_rows, (u64)DICT_TEXTS_MOST), err));
    return WEFT_OK;
}

static Type column_type(const GenColumn *column)
{
    switch (column->width) {
    case GEN_INTEGER:
        return TYPE(INTEGER);
    case GEN_BIGINT:
        return TYPE(BIGINT);
    case GEN_MONEY:
    case GEN_QUANTITY:
        return (Type){ TYPE_DECIMAL, 15, 2 };
    case GEN_DATE:
        return TYPE(DATE);
    default:
        return TYPE(TEXT);
    }
}

static weft_status begin_table(Gen *gen, Store *store, GenLoad *load, Error *err)
{
    ColumnDef columns[GEN_COLUMNS_MAX];
    for (int i = 0; i < load->table->n_columns; i++) {
        const GenColumn *column = &load->table->columns[i];
        columns[i] = (ColumnDef){ column->name, column_type(column), !column->may_be_null };
    }
    TRY(store_create_table(store, load->table->name, columns, load->table->n_columns, err));
    load->is_created = true;
    TRY(append_begin(store, load->table->name, &load->append, err));
    TRY(reserve_texts(load, err));
    return prepare_codes(gen, load, err);
}

static weft_status begin_store(Gen *gen, Store *store, Error *err)
{
    for (int i = 0; i < gen->plan->n_tables; i++)
        TRY(check_is_new(store, &gen->plan->tables[i], err));
    for (int i = 0; i < gen->plan->n_tables; i++)
        TRY(begin_table(gen, store, &gen->loads[i], err));
    return WEFT_OK;
}

static weft_status begin_file(const char *dir, GenLoad *load, Error *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s.tbl", dir, load->table->name) >= (int)sizeof(path))
        return fail(err, WEFT_INVALID_NAME, -1, "directory name is too long");
    if (file_exists(path))
        return fail(err, WEFT_DUPLICATE_TABLE, -1, "file \"%s\" exists already", path);
    TRY(file_create(path, &load->file, err));
    load->has_file = true;
    return WEFT_OK;
}

static weft_status begin_files(Gen *gen, Error *err)
{
    TRY(dir_make(gen->options->tbl_dir, err));
    for (int i = 0; i < gen->plan->n_tables; i++)
        TRY(begin_file(gen->options->tbl_dir, &gen->loads[i], err));
    return WEFT_OK;
}

static weft_status commit(GenLoad *load, Error *err)
{
    Append *append = load->append;
    u64 n_rows;
    load->append = NULL;                                    // ended, whether it succeeds or not
    return append ? append_commit(append, &n_rows, err) : WEFT_OK;
}

static weft_status load_all(Gen *gen, Store *store, Pool *pool, Error *err)
{
    if (store)
        TRY(begin_store(gen, store, err));
    if (gen->options->tbl_dir)
        TRY(begin_files(gen, err));
    pool_run(pool, pool_size(pool), work, gen);
    if (gen->has_failed) {
        fail(err, gen->error.status, -1, "%s", gen->error.message);
        if (gen->error.hint[0])
            error_hint(err, "%s", gen->error.hint);
        return gen->error.status;
    }
    for (int i = 0; i < gen->plan->n_tables; i++)
        TRY(commit(&gen->loads[i], err));
    return WEFT_OK;
}

// The first error is the one to tell, so those of cleaning up are not listened to.
static void undo(Gen *gen, Store *store)
{
    for (int i = 0; i < gen->plan->n_tables; i++) {
        GenLoad *load = &gen->loads[i];
        if (load->append)
            append_abort(load->append);
        if (load->is_created)
            store_drop_table(store, load->table->name, NULL);
        if (load->has_file)
            file_remove(load->file.path, NULL);
    }
}

static void finish(const Gen *gen)
{
    for (int i = 0; gen->options->counts && i < gen->plan->n_tables; i++)
        gen->options->counts[i] = (GenCount){ gen->plan->tables[i].name, gen->loads[i].n_rows };
    if (gen->options->progress)
        *gen->options->progress = 1000;
}

weft_status gen_load(const GenPlan *plan, Store *store, Pool *pool, const GenOptions *options, Error *err)
{
    ASSERT(plan->n_tables <= GEN_TABLES_MAX && plan->lists[0].n_words == 0);
    Arena *arena = arena_new(NULL, "gen");
    Gen *gen = arena_make(arena, Gen);
    gen->plan = plan;
    gen->options = options;
    gen->arena = arena;
    for (int i = 0; i < plan->n_tables; i++) {
        gen->loads[i].table = &plan->tables[i];
        gen->loads[i].file.fd = -1;
        gen->n_jobs += count_jobs(&plan->tables[i]);
        gen->n_units += plan->tables[i].n_units;
    }
    pthread_mutex_init(&gen->mutex, NULL);
    pthread_cond_init(&gen->turn, NULL);
    weft_status status = load_all(gen, store, pool, err);
    for (int i = 0; i < plan->n_tables; i++)
        file_close(&gen->loads[i].file);
    if (status)
        undo(gen, store);
    else
        finish(gen);
    pthread_cond_destroy(&gen->turn);
    pthread_mutex_destroy(&gen->mutex);
    arena_free(arena);
    return status;
}
