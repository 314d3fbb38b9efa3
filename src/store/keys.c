// keys.c - no two rows of a table are equal in the columns of a key: checked when rows are appended.
//
// There is no index to look into.  A commit gathers the keys of its new rows in a hash table, where equal ones meet,
// and then looks up the keys of the table's rows.  Statistics spare most of that:
//
//     new rows      are increasing from chunk to chunk      differ from each other: nothing is gathered
//     old chunk     its range does not meet the new one     is not read
//
// So rows that come in order of their key, as most do, cost nothing.  A text that the column has not seen yet has a
// code above all others, so new texts cost little, too.  A row somewhere in the middle of n rows costs a scan of its
// key's columns.  Refused: an index in memory for each key, which would have to be built by the first append of each
// process, and kept.
//
// A key is compared by words of 64 bits: a number as it is stored, the code of a text, the bits of a float, where -0 is
// 0 and all NaN are one.  A row with a NULL in its key equals no other.

#include <math.h>

#include "store/store_int.h"

enum { BLOCK_ROWS = 1024, BLOCKS_PER_LOOK = 64, WORDS_MAX = 2 * INDEX_COLUMNS_MAX, VALUE_SHOWN = 100 };

#define KEYS_MAX ((u64)1 << 31)                             // rows of one append

typedef struct Key {
    const Table    *table;
    const IndexDef *index;
    int             n_words;
    int             words[WORDS_MAX];                       // stored columns; two for a number of 128 bits
} Key;

typedef struct KeyBound {                                   // of the new rows, for a word; at least as wide as they are
    bool is_known;                                          // false: floats
    bool is_empty;                                          // all are NULL
    i64  min, max;
} KeyBound;

typedef struct KeySet {                                     // the keys of the new rows, open addressing
    u64    *rows;                                           // n_words each
    u32    *slots;                                          // row + 1; 0: free
    u64     n_rows, mask;
    size_t  rows_bytes, slots_bytes;
} KeySet;

typedef struct KeyCheck {
    Key            key;
    const NewRows *fresh;
    KeyBound       bounds[WORDS_MAX];
    KeySet         set;
    bool           is_new_index;                            // for the message
    u32            n_blocks;                                // since the last look at cancel
    u64           *block;                                   // keys of BLOCK_ROWS rows, those with NULL left out
    u8            *nulls;
    Error         *err;
} KeyCheck;

static Key key_of(const Table *table, const IndexDef *index)
{
    Key key = { .table = table, .index = index };
    for (int i = 0; i < index->n_columns; i++) {
        const Column *column = &table->columns[index->columns[i]];
        key.words[key.n_words++] = index->columns[i];
        if (column->low && !type_is_stored_interval(column->type))   // equal where equally long: the high word
            key.words[key.n_words++] = column->low;
    }
    return key;
}

// ---- what statistics prove -----------------------------------------------------------------------------------------

static Type word_type(const Key *key, int word)
{
    return key->table->columns[key->words[word]].type;
}

static void find_bounds(KeyCheck *check)
{
    for (int w = 0; w < check->key.n_words; w++) {
        KeyBound *bound = &check->bounds[w];
        *bound = (KeyBound){ .is_known = !type_is_float(word_type(&check->key, w)), .is_empty = true };
        for (int i = 0; i < check->fresh->n_slices && bound->is_known; i++) {
            const ColumnChunk *column = &check->fresh->slices[i].chunk->columns[check->key.words[w]];
            if (!column->has_range)
                continue;
            bound->min = bound->is_empty ? column->min : MIN_OF(bound->min, column->min);
            bound->max = bound->is_empty ? column->max : MAX_OF(bound->max, column->max);
            bound->is_empty = false;
        }
    }
}

static bool is_before(Type type, const ColumnChunk *a, const ColumnChunk *b)
{
    return type_is_float(type) ? a->fmax < b->fmin : a->max < b->min;
}

// A key of one word that increases all along.
static bool new_rows_differ(const KeyCheck *check)
{
    const ColumnChunk *before = NULL;
    if (check->key.n_words != 1)
        return false;
    for (int i = 0; i < check->fresh->n_slices; i++) {
        const ColumnChunk *column = &check->fresh->slices[i].chunk->columns[check->key.words[0]];
        if (!column->is_increasing || (before && !is_before(word_type(&check->key, 0), before, column)))
            return false;
        before = column;
    }
    return true;
}

static bool may_meet(const KeyCheck *check, const Chunk *old)
{
    for (int w = 0; w < check->key.n_words; w++) {
        const KeyBound *bound = &check->bounds[w];
        const ColumnChunk *column = &old->columns[check->key.words[w]];
        if (bound->is_known && (bound->is_empty || !column->has_range || column->max < bound->min ||
                                column->min > bound->max))
            return false;
    }
    return true;
}

// ---- keys of some rows ---------------------------------------------------------------------------------------------

static u64 float_word(double number)
{
    u64 bits;
    if (isnan(number))
        number = NAN;
    number = number == 0 ? 0 : number;                      // -0
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

#define GATHER(stored, value)                                                          \
    do {                                                                               \
        const stored *from = (const stored *)column->data + first;                     \
        for (u32 i = 0; i < count; i++)                                                \
            to[i * stride] = (value);                                                  \
    } while (0)

static void gather_word(Type type, const ColumnChunk *column, u32 first, u32 count, u64 *to, u32 stride)
{
    const u64 base = (u64)column->base;
    if (type_is_float(type) && column->width == 4)
        GATHER(float, float_word((double)from[i]));
    else if (type_is_float(type))
        GATHER(double, float_word(from[i]));
    else if (column->width == 1)
        GATHER(u8, base + from[i]);
    else if (column->width == 2)
        GATHER(u16, base + from[i]);
    else if (column->width == 4)
        GATHER(u32, base + from[i]);
    else
        GATHER(u64, base + from[i]);
}

// Into check->block; returns how many have no NULL.
static u32 gather_block(KeyCheck *check, const Chunk *chunk, u32 first, u32 count)
{
    const Key *key = &check->key;
    const u32 n_words = (u32)key->n_words;
    bool has_nulls = false;
    for (u32 w = 0; w < n_words; w++) {
        const ColumnChunk *column = &chunk->columns[key->words[w]];
        gather_word(word_type(key, (int)w), column, first, count, check->block + w, n_words);
        if (!column->valid)
            continue;
        if (!has_nulls)
            memset(check->nulls, 0, count);
        has_nulls = true;
        for (u32 i = 0; i < count; i++)
            check->nulls[i] |= !(column->valid[(first + i) / 64] >> ((first + i) % 64) & 1);
    }
    if (!has_nulls)
        return count;
    u32 n = 0;
    for (u32 i = 0; i < count; i++)
        if (!check->nulls[i])
            memmove(check->block + n_words * n++, check->block + n_words * i, n_words * sizeof(u64));
    return n;
}

static weft_status look_at_cancel(KeyCheck *check)
{
    if (++check->n_blocks % BLOCKS_PER_LOOK != 0 || !check->fresh->cancel || !*check->fresh->cancel)
        return WEFT_OK;
    return fail(check->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

// ---- the message ---------------------------------------------------------------------------------------------------

static void add_value(Text *text, const Column *column, const u64 *words)
{
    char buffer[64];
    Value value = { .type = column->type };
    if (column->type.kind == TYPE_TEXT) {
        const weft_text shown = dict_get(column->dict, (u32)words[0]);
        size_t length = MIN_OF((size_t)shown.length, (size_t)VALUE_SHOWN);
        while (length < shown.length && length && ((u8)shown.bytes[length] & 0xc0) == 0x80)
            length--;                                       // not within a character
        text_add_bytes(text, shown.bytes, length);
        text_add(text, "%s", length < shown.length ? "..." : "");
        return;
    }
    if (type_is_float(column->type))
        memcpy(&value.f, words, sizeof(value.f));
    else if (column->low)
        value.i = ((i128)(i64)words[0] << 64) + (i64)words[1];
    else
        value.i = (i64)words[0];
    (void)value_format(&value, buffer, sizeof(buffer));
    text_add(text, "%s", buffer);
}

// Key (a, b)=(1, x), as PostgreSQL says it.
static weft_status fail_duplicate(const KeyCheck *check, const u64 *words)
{
    const Key *key = &check->key;
    Text text = { 0 };
    for (int i = 0; i < key->index->n_columns; i++)
        text_add(&text, "%s%s", i ? ", " : "", key->table->columns[key->index->columns[i]].name);
    text_add(&text, ")=(");
    for (int i = 0; i < key->index->n_columns; i++) {
        const Column *column = &key->table->columns[key->index->columns[i]];
        text_add(&text, "%s", i ? ", " : "");
        add_value(&text, column, words);
        words += column->low ? 2 : 1;
    }
    if (check->is_new_index)
        fail(check->err, WEFT_UNIQUE_VIOLATION, -1, "could not create unique index \"%s\": key (%s) is duplicated",
             key->index->name, text.bytes);
    else
        fail(check->err, WEFT_UNIQUE_VIOLATION, -1,
             "duplicate key value violates unique constraint \"%s\": key (%s) already exists", key->index->name,
             text.bytes);
    text_free(&text);
    return WEFT_UNIQUE_VIOLATION;
}

// ---- the new rows' keys --------------------------------------------------------------------------------------------

static weft_status set_make(KeyCheck *check)
{
    KeySet *set = &check->set;
    u64 n_rows = 0, n_slots = 16;
    void *rows, *slots;
    for (int i = 0; i < check->fresh->n_slices; i++)
        n_rows += check->fresh->slices[i].count;
    if (n_rows > KEYS_MAX)
        return fail(check->err, WEFT_TOO_LONG, -1, "more than %llu rows at once into a table with keys",
                    (unsigned long long)KEYS_MAX);
    while (n_slots < n_rows + n_rows / 2)
        n_slots *= 2;
    const size_t rows_bytes = (size_t)(n_rows + 1) * (size_t)check->key.n_words * sizeof(u64);
    TRY(mem_alloc(check->fresh->budget, rows_bytes, &rows, check->err));
    set->rows = rows;
    set->rows_bytes = rows_bytes;
    TRY(mem_alloc(check->fresh->budget, n_slots * sizeof(u32), &slots, check->err));
    set->slots = slots;
    set->slots_bytes = n_slots * sizeof(u32);
    memset(slots, 0, set->slots_bytes);
    set->mask = n_slots - 1;
    return WEFT_OK;
}

static void set_free(const KeyCheck *check)
{
    mem_free(check->fresh->budget, check->set.rows, check->set.rows_bytes);
    mem_free(check->fresh->budget, check->set.slots, check->set.slots_bytes);
}

// The slot of an equal key, or the free one where it would be.
static u32 *set_slot(const KeyCheck *check, const u64 *words)
{
    const KeySet *set = &check->set;
    const size_t bytes = (size_t)check->key.n_words * sizeof(u64);
    for (u64 at = hash_bytes(words, bytes) & set->mask;; at = (at + 1) & set->mask) {
        u32 *slot = &set->slots[at];
        if (!*slot || memcmp(set->rows + (u64)(*slot - 1) * (u64)check->key.n_words, words, bytes) == 0)
            return slot;
    }
}

static weft_status set_add(KeyCheck *check, const u64 *words)
{
    KeySet *set = &check->set;
    u32 *slot = set_slot(check, words);
    if (*slot)
        return fail_duplicate(check, words);
    memcpy(set->rows + set->n_rows * (u64)check->key.n_words, words, (size_t)check->key.n_words * sizeof(u64));
    *slot = (u32)++set->n_rows;
    return WEFT_OK;
}

static weft_status add_slice(KeyCheck *check, const ChunkSlice *slice)
{
    for (u32 done = 0; done < slice->count; done += BLOCK_ROWS) {
        const u32 count = MIN_OF(slice->count - done, (u32)BLOCK_ROWS);
        const u32 n = gather_block(check, slice->chunk, slice->start + done, count);
        for (u32 i = 0; i < n; i++)
            TRY(set_add(check, check->block + i * (u32)check->key.n_words));
        TRY(look_at_cancel(check));
    }
    return WEFT_OK;
}

static weft_status look_up_chunk(KeyCheck *check, const Chunk *old)
{
    const KeyBound *bound = &check->bounds[0];
    const u32 n_words = (u32)check->key.n_words;
    for (int w = 0; w < check->key.n_words; w++)
        TRY(chunk_verify(old, check->key.words[w], check->err));
    for (u32 done = 0; done < old->n_rows; done += BLOCK_ROWS) {
        const u32 n = gather_block(check, old, done, MIN_OF(old->n_rows - done, (u32)BLOCK_ROWS));
        for (u32 i = 0; i < n; i++) {
            const u64 *words = check->block + i * n_words;
            if (bound->is_known && ((i64)words[0] < bound->min || (i64)words[0] > bound->max))
                continue;
            if (*set_slot(check, words))
                return fail_duplicate(check, words);
        }
        TRY(look_at_cancel(check));
    }
    return WEFT_OK;
}

// ---- a key ---------------------------------------------------------------------------------------------------------

static weft_status run_check(KeyCheck *check, Arena *scratch, const Chunk *const *old, int n_old)
{
    bool meets = false;
    find_bounds(check);
    for (int i = 0; i < n_old && !meets; i++)
        meets = may_meet(check, old[i]);
    if (!meets && new_rows_differ(check))
        return WEFT_OK;
    check->block = arena_array(scratch, u64, BLOCK_ROWS * check->key.n_words);
    check->nulls = arena_array(scratch, u8, BLOCK_ROWS);
    TRY(set_make(check));
    for (int i = 0; i < check->fresh->n_slices; i++)
        TRY(add_slice(check, &check->fresh->slices[i]));
    for (int i = 0; i < n_old; i++)
        if (may_meet(check, old[i]))
            TRY(look_up_chunk(check, old[i]));
    return WEFT_OK;
}

static weft_status check_key(const Table *table, const IndexDef *index, const NewRows *fresh, bool is_new_index,
                             Error *err)
{
    Arena *scratch = arena_new(NULL, "key");
    KeyCheck *check = arena_make(scratch, KeyCheck);
    check->key = key_of(table, index);
    check->fresh = fresh;
    check->is_new_index = is_new_index;
    check->err = err;
    weft_status status = run_check(check, scratch, table->chunks, is_new_index ? 0 : table->n_chunks);
    set_free(check);
    arena_free(scratch);
    return status;
}

weft_status keys_check_append(const Table *table, const NewRows *rows, Error *err)
{
    for (int i = 0; i < table->n_indexes; i++)
        if (table->indexes[i].kind != INDEX_PLAIN)
            TRY(check_key(table, &table->indexes[i], rows, false, err));
    return WEFT_OK;
}

weft_status keys_check_table(const Table *table, const IndexDef *index, Budget *budget, const _Atomic bool *cancel,
                             Error *err)
{
    Arena *scratch = arena_new(NULL, "keys of a table");
    ChunkSlice *slices = arena_array(scratch, ChunkSlice, table->n_chunks + 1);
    weft_status status = WEFT_OK;
    for (int i = 0; i < table->n_chunks && !status; i++) {
        slices[i] = (ChunkSlice){ table->chunks[i], 0, table->chunks[i]->n_rows };
        for (int c = 0; c < index->n_columns && !status; c++) {
            const int column = index->columns[c], low = table->columns[column].low;
            status = chunk_verify(table->chunks[i], column, err);
            if (!status && low)
                status = chunk_verify(table->chunks[i], low, err);
        }
    }
    if (!status)
        status = check_key(table, index, &(NewRows){ slices, table->n_chunks, budget, cancel }, true, err);
    arena_free(scratch);
    return status;
}
