// kinds.c - see kinds.h.
//
// Kinds are made column by column: the kind before and the value in the next column are a kind of the new set, found by
// a hash table.  So finer kinds cost one look at the further columns of the dimension, however many there were before.

#include "engine/kinds.h"
#include "engine/engine.h"
#include "engine/pieces.h"

#include <pthread.h>
#include <stdlib.h>

#define FEW_KINDS     4096             // tables by kind stay in the nearest cache
#define MOST_KINDS    65535            // numbers have 16 bits,
#define KIND_ROWS     2                // and where they are more than few, a kind has so many rows at least, on average
#define MOST_KEYS     ((u64)1 << 23)   // of a key's range
#define MOST_ROWS     ((u64)1 << 21)   // one thread looks at them, some 50 ns for a row and column
#define MOST_FAMILIES 4                // of a table
#define SETS_BYTES    ((u64)2 << 20)   // of the sets that are kept with kinds; then all are forgotten
#define MOST_REFUSED  64               // sets of columns that are known to have no kinds
#define COLUMN_SHARE  8                // of the memory, for columns of kinds: 1 / this,
#define COLUMN_BYTES  ((u64)1 << 31)   // or this where there is no limit

struct KindColumn {
    ColumnChunk        chunk;
    u64                id;             // of the chunk that it belongs to
    int                column;
    u64                bytes;
    int                n_users;
    struct KindColumn *next;
    struct OwnKinds   *kinds;
};

enum { N_COLUMN_BUCKETS = 256 };

typedef struct OwnKinds {
    Kinds           kinds;             // first: what others see
    _Atomic int     n_users;
    Arena          *arena;             // dictionaries are held by the table
    Budget         *budget;
    const Table    *table;             // held
    int             key;               // place of the key
    int             n_columns;
    int            *places;            // of the columns that tell them apart
    i64           **cells;             // by these, then by kind
    u64           **valid;             // the same: a bit per kind; NULL: none is NULL
    i64            *low, *high;        // by kind: of the keys
    ColumnChunk    *as_rows;           // by column of places, and then the key: row r is kind r + 1
    u16            *kind_of;
    pthread_mutex_t lock;              // for columns of kinds
    KindColumn     *columns[N_COLUMN_BUCKETS];
    u64             columns_bytes;
    Arena          *sets_arena;        // under the lock, as what follows; NULL: none is kept
    Map            *sets;              // by test: address of the set
    u64             sets_bytes;
} OwnKinds;

typedef struct KindsOfTable {
    const Table         *table;        // as the families hold it
    int                  key;
    int                  n_families;
    OwnKinds            *families[MOST_FAMILIES];
    int                  n_refused;
    u64                  refused[MOST_REFUSED];    // hashes of sets of columns
    bool                 is_unsuited;              // its key is
    struct KindsOfTable *next;
} KindsOfTable;

struct KindsBook {
    pthread_mutex_t lock;              // held while kinds are made: others would make the same.  A query that is
                                       // cancelled as it waits here ends once they are made: seconds, at most
    Budget         *budget;
    KindsOfTable   *tables;
};

static u64 next_id(void)
{
    static _Atomic u64 last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static OwnKinds *own(const Kinds *kinds) { return (OwnKinds *)(uintptr_t)kinds; }

// ---- columns of the dimension ---------------------------------------------------------------------------------------

static i64 stored_at(const ColumnChunk *chunk, u64 row)
{
    switch (chunk->width) {
        case 1:  return chunk->base + (i64)((const u8 *)chunk->data)[row];
        case 2:  return chunk->base + (i64)((const u16 *)chunk->data)[row];
        case 4:  return chunk->base + (i64)((const u32 *)chunk->data)[row];
        default: return (i64)((u64)chunk->base + ((const u64 *)chunk->data)[row]);
    }
}

static bool is_null_at(const ColumnChunk *chunk, u64 row)
{
    return chunk->valid && !(chunk->valid[row >> 6] >> (row & 63) & 1);
}

// Values that are one word, and equal where their bits are.
static bool is_suited(const Table *table, int place)
{
    const Column *column = &table->columns[place];
    if (column->low || type_is_float(column->type) || column->type.kind == TYPE_INTERVAL) return false;
    return column->type.kind != TYPE_TEXT || column->dict;
}

static bool is_suited_key(const Table *table, int key)
{
    const ColumnRange range = table_column_range(table, key);
    return is_suited(table, key) && table->columns[key].type.kind != TYPE_TEXT && range.has_range && !range.n_nulls &&
           (u64)range.max - (u64)range.min < MOST_KEYS && table->n_rows <= MOST_ROWS;
}

static bool is_readable(const Table *table, int place)
{
    Error ignored;
    error_clear(&ignored);
    for (int c = 0; c < table->n_chunks; c++)
        if (chunk_verify(table->chunks[c], place, &ignored)) return false;
    return true;
}

// ---- making ---------------------------------------------------------------------------------------------------------

static bool take(OwnKinds *kinds, u64 n, u64 size, void *out)
{
    Error ignored;
    error_clear(&ignored);
    return mem_fits(kinds->budget, (i64)(n * size + 64)) &&
           counted_alloc(kinds->arena, kinds->budget, n * size + 64, out, &ignored) == WEFT_OK;
}

static void free_kinds(OwnKinds *kinds)
{
    for (int b = 0; b < N_COLUMN_BUCKETS; b++)
        for (KindColumn *column = kinds->columns[b], *next; column; column = next) {
            next = column->next;
            mem_free(kinds->budget, (void *)(uintptr_t)column->chunk.data, column->bytes);
            free(column);
        }
    pthread_mutex_destroy(&kinds->lock);
    arena_free(kinds->sets_arena);
    table_release(kinds->table);
    arena_free(kinds->arena);
}

// All that does not depend on columns.  NULL: no memory.
static OwnKinds *new_kinds(Budget *budget, const Table *table, int key, int n_columns)
{
    const ColumnRange range = table_column_range(table, key);
    Arena            *arena = arena_new(NULL, "kinds");
    OwnKinds         *kinds = arena_make(arena, OwnKinds);
    atomic_init(&kinds->n_users, 1);
    pthread_mutex_init(&kinds->lock, NULL);
    kinds->arena = arena, kinds->budget = budget, kinds->table = table_hold(table), kinds->key = key;
    kinds->kinds.id = next_id(), kinds->kinds.low = range.min, kinds->kinds.size = (u64)range.max - (u64)range.min + 1;
    kinds->places = arena_array(arena, int, n_columns + 1);
    kinds->cells = arena_array(arena, i64 *, n_columns + 1), kinds->valid = arena_array(arena, u64 *, n_columns + 1);
    if (take(kinds, kinds->kinds.size, sizeof(u16), &kinds->kind_of)) return kinds;
    free_kinds(kinds);
    return NULL;
}

typedef struct KindsWish {             // of a query
    const int         *places;         // of columns that are to tell kinds apart
    int                n_places;
    const _Atomic u32 *stop;           // it is to end
} KindsWish;

static bool is_stopped(const KindsWish *wish) { return atomic_load_explicit(wish->stop, memory_order_relaxed); }

// Looks every few thousand rows.
static bool should_stop(const KindsWish *wish, u64 row) { return (row & 4095) == 0 && is_stopped(wish); }

// Kind 1 is every row's.  False: two rows have one key, or the query was stopped.
static bool find_keys(OwnKinds *kinds, const KindsWish *wish)
{
    const Table *table = kinds->table;
    for (int c = 0; c < table->n_chunks; c++) {
        const ColumnChunk *keys = &table->chunks[c]->columns[kinds->key];
        for (u64 r = 0; r < table->chunks[c]->n_rows; r++) {
            u16 *kind = &kinds->kind_of[(u64)stored_at(keys, r) - (u64)kinds->kinds.low];
            if (*kind || should_stop(wish, r)) return false;
            *kind = 1;
        }
    }
    kinds->kinds.n_kinds = 2;
    return true;
}

typedef struct Finer {                 // what becomes of kinds when they are told apart by one more column
    Map *numbers;                      // by kind before, whether the value is NULL, and value
    int  n_kinds, n_most;
    u16  before[MOST_KINDS];           // by kind
    i64  cell[MOST_KINDS];
    bool is_null[MOST_KINDS];
} Finer;

typedef struct FinerKey { u64 kind, is_null; i64 cell; } FinerKey;

// 0: too many.
static u16 finer_kind(Finer *finer, const FinerKey *key)
{
    u64 number;
    if (map_get(finer->numbers, key, sizeof *key, &number)) return (u16)number;
    if (finer->n_kinds == finer->n_most) return 0;
    number = (u64)finer->n_kinds++;
    map_set(finer->numbers, key, sizeof *key, number);
    finer->before[number] = (u16)key->kind, finer->cell[number] = key->cell, finer->is_null[number] = key->is_null;
    return (u16)number;
}

// False: too many, or the query was stopped.
static bool split_rows(OwnKinds *kinds, int place, const KindsWish *wish, Finer *finer)
{
    const Table *table = kinds->table;
    FinerKey     last = { .kind = 0 };
    u16          number = 0;
    for (int c = 0; c < table->n_chunks; c++) {
        const ColumnChunk *keys = &table->chunks[c]->columns[kinds->key], *cells = &table->chunks[c]->columns[place];
        for (u64 r = 0; r < table->chunks[c]->n_rows; r++) {
            u16           *kind = &kinds->kind_of[(u64)stored_at(keys, r) - (u64)kinds->kinds.low];
            const bool     is_null = is_null_at(cells, r);
            const FinerKey key = { *kind, is_null, is_null ? 0 : stored_at(cells, r) };
            if (!number || memcmp(&key, &last, sizeof key) != 0) number = finer_kind(finer, &key);
            if (!number || should_stop(wish, r)) return false;
            last = key, *kind = number;
        }
    }
    return true;
}

static bool move_cells(OwnKinds *kinds, const Finer *finer, int column, const i64 *from, const u64 *from_valid)
{
    const u64 n = (u64)finer->n_kinds;
    i64      *cells;
    u64      *valid = NULL;
    if (!take(kinds, n, sizeof *cells, &cells) || (from_valid && !take(kinds, n / 64 + 1, sizeof *valid, &valid)))
        return false;
    for (u64 k = 1; k < n; k++) {
        const u64 before = finer->before[k];
        cells[k] = from[before];
        if (valid && from_valid[before >> 6] >> (before & 63) & 1) valid[k >> 6] |= (u64)1 << (k & 63);
    }
    kinds->cells[column] = cells, kinds->valid[column] = valid;
    return true;
}

static bool add_cells(OwnKinds *kinds, const Finer *finer, int column)
{
    const u64 n = (u64)finer->n_kinds;
    bool      has_null = false;
    i64      *cells;
    u64      *valid = NULL;
    for (u64 k = 1; k < n; k++) has_null |= finer->is_null[k];
    if (!take(kinds, n, sizeof *cells, &cells) || (has_null && !take(kinds, n / 64 + 1, sizeof *valid, &valid)))
        return false;
    for (u64 k = 1; k < n; k++) {
        cells[k] = finer->cell[k];
        if (valid && !finer->is_null[k]) valid[k >> 6] |= (u64)1 << (k & 63);
    }
    kinds->cells[column] = cells, kinds->valid[column] = valid;
    return true;
}

// By one more column.  False: too many, no memory, or the query was stopped.
static bool tell_apart(OwnKinds *kinds, int place, const KindsWish *wish, Finer *finer)
{
    Arena *scratch = arena_new(NULL, "finer kinds");
    finer->numbers = map_new(scratch), finer->n_kinds = 1;
    bool ok = split_rows(kinds, place, wish, finer);
    arena_free(scratch);
    for (int c = 0; c < kinds->n_columns && ok; c++)
        ok = move_cells(kinds, finer, c, kinds->cells[c], kinds->valid[c]);
    ok = ok && add_cells(kinds, finer, kinds->n_columns);
    kinds->places[kinds->n_columns++] = place;
    kinds->kinds.n_kinds = finer->n_kinds;
    return ok;
}

// What is known of each kind's rows.
static bool count_rows(OwnKinds *kinds)
{
    const u64 n = (u64)kinds->kinds.n_kinds;
    u32      *n_rows;
    if (!take(kinds, n, sizeof *n_rows, &n_rows) || !take(kinds, n, sizeof(i64), &kinds->low) ||
        !take(kinds, n, sizeof(i64), &kinds->high))
        return false;
    for (u64 v = 0; v < kinds->kinds.size; v++) {
        const u64 kind = kinds->kind_of[v];
        const i64 key = (i64)((u64)kinds->kinds.low + v);
        if (!n_rows[kind]++) kinds->low[kind] = key;
        kinds->high[kind] = key;
    }
    kinds->kinds.n_rows = n_rows, kinds->kinds.kind_of = kinds->kind_of;
    return true;
}

// A column of the kinds as rows.  Cells of kinds that are NULL get a value of the range, as kernels may compute with
// them before they look at the bits.
static bool make_rows(OwnKinds *kinds, int c)
{
    const u64  n = (u64)kinds->kinds.n_kinds;
    const u64 *valid = kinds->valid[c];
    i64       *cells = kinds->cells[c], low = INT64_MAX, high = INT64_MIN;
    u64       *bits = NULL;
    if (valid && !take(kinds, n / 64 + 1, sizeof *bits, &bits)) return false;
    for (u64 k = 1; k < n; k++) {
        if (valid && !(valid[k >> 6] >> (k & 63) & 1)) continue;
        if (bits) bits[(k - 1) >> 6] |= (u64)1 << ((k - 1) & 63);
        low = MIN_OF(low, cells[k]), high = MAX_OF(high, cells[k]);
    }
    const bool has_range = low <= high;
    for (u64 k = 1; k < n && bits; k++)
        if (!(valid[k >> 6] >> (k & 63) & 1)) cells[k] = has_range ? low : 0;
    kinds->as_rows[c] = (ColumnChunk){ .data = cells + 1, .valid = bits, .width = 8, .has_range = has_range,
                                       .min = has_range ? low : 0, .max = has_range ? high : 0 };
    return true;
}

// Row r is kind r + 1.
static bool number_rows(OwnKinds *kinds)
{
    const int n = kinds->kinds.n_kinds;
    i64      *numbers;
    if (!take(kinds, (u64)n, sizeof *numbers, &numbers)) return false;
    for (int k = 1; k < n; k++) numbers[k - 1] = k;
    kinds->as_rows[kinds->n_columns] =
        (ColumnChunk){ .data = numbers, .width = 8, .has_range = true, .min = 1, .max = n - 1 };
    return true;
}

static bool make_all_rows(OwnKinds *kinds)
{
    kinds->as_rows = arena_array(kinds->arena, ColumnChunk, kinds->n_columns + 1);
    bool ok = number_rows(kinds);
    for (int c = 0; c < kinds->n_columns && ok; c++) ok = make_rows(kinds, c);
    return ok;
}

static bool has_place(const OwnKinds *kinds, int place)
{
    for (int c = 0; c < kinds->n_columns; c++)
        if (kinds->places[c] == place) return true;
    return false;
}

static void copy_kinds(OwnKinds *kinds, const OwnKinds *before)
{
    memcpy(kinds->kind_of, before->kind_of, kinds->kinds.size * sizeof *kinds->kind_of);
    memcpy(kinds->places, before->places, (size_t)before->n_columns * sizeof *kinds->places);
    memcpy(kinds->cells, before->cells, (size_t)before->n_columns * sizeof *kinds->cells);
    memcpy(kinds->valid, before->valid, (size_t)before->n_columns * sizeof *kinds->valid);
    kinds->n_columns = before->n_columns, kinds->kinds.n_kinds = before->kinds.n_kinds;
}

// BEFORE, or NULL: they are told apart further.  NULL: they cannot be, there are MOST of them or more, or the query was
// stopped.  Cells of BEFORE are only pointed to until each column was moved, which every further column does; so there
// must be one.
static OwnKinds *make_kinds(Budget *budget, const KindsOfTable *of, const OwnKinds *before, const KindsWish *wish,
                            int most)
{
    OwnKinds *kinds = new_kinds(budget, of->table, of->key, wish->n_places + (before ? before->n_columns : 0));
    Finer    *finer = malloc(sizeof *finer);
    bool      ok = kinds != NULL;
    finer->n_most = most;
    if (ok && before) copy_kinds(kinds, before);
    else if (ok) ok = find_keys(kinds, wish);
    for (int p = 0; p < wish->n_places && ok; p++)
        if (!has_place(kinds, wish->places[p])) ok = tell_apart(kinds, wish->places[p], wish, finer);
    ok = ok && count_rows(kinds) && make_all_rows(kinds);
    free(finer);
    if (ok) return kinds;
    if (kinds) free_kinds(kinds);
    return NULL;
}

// ---- the book -------------------------------------------------------------------------------------------------------

KindsBook *kinds_book_new(Budget *budget)
{
    KindsBook *book = calloc(1, sizeof *book);
    pthread_mutex_init(&book->lock, NULL);
    book->budget = budget;
    return book;
}

const Kinds *kinds_hold(const Kinds *kinds)
{
    atomic_fetch_add(&own(kinds)->n_users, 1);
    return kinds;
}

void kinds_release(const Kinds *kinds)
{
    if (kinds && atomic_fetch_sub(&own(kinds)->n_users, 1) == 1) free_kinds(own(kinds));
}

void kinds_release_deferred(void *kinds) { kinds_release(kinds); }

static void forget_table(KindsOfTable *entry)
{
    for (int f = 0; f < entry->n_families; f++) kinds_release(&entry->families[f]->kinds);
    table_release(entry->table);
    free(entry);
}

static void trim(KindsBook *book, Store *store, bool is_all)           // under the lock
{
    for (KindsOfTable **link = &book->tables; *link;) {
        KindsOfTable *entry = *link;
        if (!is_all && store_is_newest(store, entry->table)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        forget_table(entry);
    }
}

void kinds_trim(KindsBook *book, Store *store, bool is_all)
{
    pthread_mutex_lock(&book->lock);
    trim(book, store, is_all);
    pthread_mutex_unlock(&book->lock);
}

void kinds_book_free(KindsBook *book)
{
    if (!book) return;
    kinds_trim(book, NULL, true);
    pthread_mutex_destroy(&book->lock);
    free(book);
}

int kinds_count(KindsBook *book)
{
    int n = 0;
    pthread_mutex_lock(&book->lock);
    for (const KindsOfTable *entry = book->tables; entry; entry = entry->next) n += entry->n_families;
    pthread_mutex_unlock(&book->lock);
    return n;
}

static KindsOfTable *find_table(KindsBook *book, const Table *table, int key)
{
    KindsOfTable *entry = book->tables;
    while (entry && (entry->table != table || entry->key != key)) entry = entry->next;
    if (entry) return entry;
    entry = calloc(1, sizeof *entry);
    *entry = (KindsOfTable){ .table = table_hold(table), .key = key, .next = book->tables };
    entry->is_unsuited = !is_suited_key(table, key) || !is_readable(table, key);
    return book->tables = entry;
}

static bool has_all(const OwnKinds *kinds, const KindsWish *wish)
{
    for (int p = 0; p < wish->n_places; p++)
        if (!has_place(kinds, wish->places[p])) return false;
    return true;
}

static bool are_suited(const Table *table, const KindsWish *wish)
{
    for (int p = 0; p < wish->n_places; p++) {
        const int place = wish->places[p];
        if (!is_suited(table, place) || table_distinct(table, place) > MOST_KINDS || !is_readable(table, place))
            return false;
    }
    return true;
}

static u64 hash_of(const KindsWish *wish)
{
    u64 hash = 0;                      // of the set: the order does not count
    for (int p = 0; p < wish->n_places; p++) hash += hash_bytes(&wish->places[p], sizeof wish->places[p]);
    return hash;
}

static bool is_refused(const KindsOfTable *entry, u64 hash)
{
    for (int r = 0; r < entry->n_refused; r++)
        if (entry->refused[r] == hash) return true;
    return entry->is_unsuited || entry->n_refused == MOST_REFUSED;
}

// Finer kinds of a family that has more than ABOVE and would have fewer than MOST, or a family of its own.
static OwnKinds *make_family(KindsBook *book, KindsOfTable *entry, const KindsWish *wish, int above, int most)
{
    for (int f = 0; f < entry->n_families; f++) {
        OwnKinds *family = entry->families[f];
        if (family->kinds.n_kinds <= above || family->kinds.n_kinds >= most) continue;
        OwnKinds *finer = make_kinds(book->budget, entry, family, wish, most);
        if (!finer && is_stopped(wish)) return NULL;
        if (!finer) continue;
        kinds_release(&family->kinds);
        return entry->families[f] = finer;
    }
    if (entry->n_families == MOST_FAMILIES || most <= above) return NULL;
    OwnKinds *first = make_kinds(book->budget, entry, NULL, wish, most);
    if (first) entry->families[entry->n_families++] = first;
    return first;
}

// The fewest that will do.
static OwnKinds *find_family(const KindsOfTable *entry, const KindsWish *wish)
{
    OwnKinds *best = NULL;
    for (int f = 0; f < entry->n_families; f++) {
        OwnKinds *family = entry->families[f];
        if (has_all(family, wish) && (!best || family->kinds.n_kinds < best->kinds.n_kinds)) best = family;
    }
    return best;
}

static int most_kinds(const Table *table) { return (int)MIN_OF(table->n_rows / KIND_ROWS, MOST_KINDS); }

static OwnKinds *find_kinds(KindsBook *book, KindsOfTable *entry, const KindsWish *wish)
{
    OwnKinds *found = find_family(entry, wish);
    if (found) return found;
    const u64 hash = hash_of(wish);
    if (is_refused(entry, hash)) return NULL;
    if (are_suited(entry->table, wish)) {
        // A family of few is not made one of many for a query that needs many: others look at it.
        found = make_family(book, entry, wish, 0, FEW_KINDS);
        if (!found && !is_stopped(wish))
            found = make_family(book, entry, wish, FEW_KINDS, most_kinds(entry->table));
    }
    if (!found && !is_stopped(wish)) entry->refused[entry->n_refused++] = hash;
    return found;
}

const Kinds *kinds_get(KindsBook *book, Store *store, const Table *table, int key, const int *places, int n_places,
                       const _Atomic u32 *stop)
{
    const KindsWish wish = { places, n_places, stop };
    if (n_places < 1 || !store_is_newest(store, table)) return NULL;
    pthread_mutex_lock(&book->lock);
    OwnKinds    *found = find_kinds(book, find_table(book, table, key), &wish);
    const Kinds *kinds = found ? kinds_hold(&found->kinds) : NULL;
    pthread_mutex_unlock(&book->lock);
    return kinds;
}

// ---- kinds as rows --------------------------------------------------------------------------------------------------

i64 kinds_low_key(const Kinds *kinds, u64 kind) { return own(kinds)->low[kind]; }
i64 kinds_high_key(const Kinds *kinds, u64 kind) { return own(kinds)->high[kind]; }

static int column_at(const OwnKinds *kinds, int place)
{
    int c = 0;
    while (c < kinds->n_columns && kinds->places[c] != place) c++;
    return c;
}

bool kinds_cells(const Kinds *kinds, int place, KindCells *cells)
{
    const OwnKinds *mine = own(kinds);
    const int       c = column_at(mine, place);
    if (c == mine->n_columns) return false;
    *cells = (KindCells){ mine->cells[c], mine->valid[c], &mine->table->columns[place] };
    return true;
}

// ---- sets of kinds --------------------------------------------------------------------------------------------------

static u64 set_words(const OwnKinds *kinds) { return (u64)kinds->kinds.n_kinds / 64 + 1; }

bool kinds_find_set(const Kinds *kinds, const void *test, size_t length, u64 *set)
{
    OwnKinds *mine = own(kinds);
    u64       at;
    pthread_mutex_lock(&mine->lock);
    const bool found = mine->sets && map_get(mine->sets, test, length, &at);
    if (found) memcpy(set, (const void *)(uintptr_t)at, set_words(mine) * sizeof *set);
    pthread_mutex_unlock(&mine->lock);
    return found;
}

static void forget_sets(OwnKinds *kinds)
{
    arena_free(kinds->sets_arena);
    kinds->sets_arena = arena_new(NULL, "sets of kinds");
    kinds->sets = map_new(kinds->sets_arena), kinds->sets_bytes = 0;
}

void kinds_keep_set(const Kinds *kinds, const void *test, size_t length, const u64 *set)
{
    OwnKinds *mine = own(kinds);
    u64       ignored;
    pthread_mutex_lock(&mine->lock);
    if (!mine->sets || mine->sets_bytes > SETS_BYTES) forget_sets(mine);
    if (!map_get(mine->sets, test, length, &ignored)) {
        u64 *kept = arena_array(mine->sets_arena, u64, set_words(mine));
        memcpy(kept, set, set_words(mine) * sizeof *set);
        map_set(mine->sets, test, length, (u64)(uintptr_t)kept);
        mine->sets_bytes += length + set_words(mine) * sizeof *set;
    }
    pthread_mutex_unlock(&mine->lock);
}

static void add_column(const OwnKinds *kinds, int c, SourceColumn *column, ColumnChunk *chunk)
{
    *chunk = kinds->as_rows[c];
    i64 low = chunk->min, high = chunk->has_range ? chunk->max : -1;
    if (column->dict && chunk->has_range) low = 0, high = (i64)column->dict_count - 1;     // any code
    column->range = (Range){ .known = true, .nullable = chunk->valid != NULL, .low = low, .high = high };
}

Source *kinds_source(const Kinds *kinds, Arena *arena, const Pipeline *pipeline, const ColumnSet *needed)
{
    const OwnKinds *mine = own(kinds);
    Source         *source = arena_make(arena, Source);
    Chunk          *chunk = arena_make(arena, Chunk);
    const Chunk   **chunks = arena_array(arena, const Chunk *, 1);
    int            *chunk_column = arena_array(arena, int, pipeline->n_columns + 1);
    chunks[0] = chunk;
    *chunk = (Chunk){ .n_rows = (u32)kinds->n_kinds - 1,
                      .columns = arena_array(arena, ColumnChunk, pipeline->n_columns + 1) };
    *source = (Source){ .name = pipeline->name,
                        .columns = arena_array(arena, SourceColumn, pipeline->n_columns + 1),
                        .n_chunks = chunk->n_rows > 0,
                        .chunks = chunks,
                        .chunk_column = chunk_column,
                        .n_rows = chunk->n_rows };
    for (int i = 0; i < pipeline->n_columns; i++) {
        const int     place = pipeline->places[i], at = source->n_columns;
        const Column *column = &mine->table->columns[place];
        if (!columns_has(needed, pipeline->columns[i])) continue;
        source->columns[at] = (SourceColumn){ .id = pipeline->columns[i], .name = column->name, .type = column->type,
                                              .dict = column->dict, .dict_count = column->dict_count, .width = 8 };
        add_column(mine, place == mine->key ? mine->n_columns : column_at(mine, place), &source->columns[at],
                   &chunk->columns[at]);
        chunk_column[at] = at;
        source->n_columns++;
    }
    return source;
}

// ---- columns of kinds, beside columns of keys -----------------------------------------------------------------------

#define KINDS_OF_KEYS(type)                                                                                            \
    for (u64 r = 0; r < n_rows; r++) {                                                                                 \
        const u64 at = (u64)((const type *)keys->data)[r] + shift;                                                     \
        out[r] = at < kinds->size ? kinds->kind_of[at] : 0;                                                            \
    }

static void fill_column(const Kinds *kinds, const ColumnChunk *keys, u64 n_rows, u16 *out)
{
    const u64 shift = (u64)keys->base - (u64)kinds->low;
    switch (keys->width) {
        case 1:  KINDS_OF_KEYS(u8) break;
        case 2:  KINDS_OF_KEYS(u16) break;
        case 4:  KINDS_OF_KEYS(u32) break;
        default: KINDS_OF_KEYS(u64) break;
    }
}

static KindColumn **find_column(OwnKinds *kinds, u64 chunk, int column)
{
    KindColumn **link = &kinds->columns[(chunk * 31 + (u64)column) % N_COLUMN_BUCKETS];
    while (*link && ((*link)->id != chunk || (*link)->column != column)) link = &(*link)->next;
    return link;
}

static void drop_unused(OwnKinds *kinds)
{
    for (int b = 0; b < N_COLUMN_BUCKETS; b++)
        for (KindColumn **link = &kinds->columns[b]; *link;) {
            KindColumn *column = *link;
            if (column->n_users) {
                link = &column->next;
                continue;
            }
            *link = column->next;
            kinds->columns_bytes -= column->bytes;
            mem_free(kinds->budget, (void *)(uintptr_t)column->chunk.data, column->bytes);
            free(column);
        }
}

static u64 columns_most(const OwnKinds *kinds)
{
    const i64 limit = atomic_load(&kinds->budget->limit);
    return limit ? (u64)limit / COLUMN_SHARE : COLUMN_BYTES;
}

// Under the lock.  NULL: no memory.
static KindColumn *make_column(OwnKinds *kinds, const Chunk *chunk, int column)
{
    Error     ignored;
    void     *memory;
    const u64 bytes = ((u64)chunk->n_rows * sizeof(u16) + 127) / 64 * 64;
    error_clear(&ignored);
    if (kinds->columns_bytes + bytes > columns_most(kinds)) drop_unused(kinds);
    if (kinds->columns_bytes + bytes > columns_most(kinds)) return NULL;
    if (!mem_fits(kinds->budget, (i64)bytes) || mem_alloc(kinds->budget, bytes, &memory, &ignored)) return NULL;
    KindColumn *made = calloc(1, sizeof *made);
    fill_column(&kinds->kinds, &chunk->columns[column], chunk->n_rows, memory);
    made->chunk = (ColumnChunk){ .data = memory, .width = sizeof(u16), .has_range = true, .min = 0,
                                 .max = kinds->kinds.n_kinds - 1 };
    made->id = chunk->id, made->column = column, made->bytes = bytes, made->kinds = kinds;
    kinds->columns_bytes += bytes;
    return made;
}

KindColumn *kinds_column(const Kinds *kinds, const Chunk *chunk, int column)
{
    OwnKinds *mine = own(kinds);
    Error     ignored;
    error_clear(&ignored);
    if (!chunk->id || chunk->columns[column].valid || chunk_verify(chunk, column, &ignored)) return NULL;
    pthread_mutex_lock(&mine->lock);
    KindColumn **link = find_column(mine, chunk->id, column);
    if (!*link) {
        KindColumn *made = make_column(mine, chunk, column);
        link = find_column(mine, chunk->id, column);       // room may have been made
        *link = made;
    }
    KindColumn *found = *link;
    if (found) found->n_users++;
    pthread_mutex_unlock(&mine->lock);
    return found;
}

const ColumnChunk *kind_column_chunk(const KindColumn *column) { return &column->chunk; }

void kind_column_release(KindColumn *column)
{
    if (!column) return;
    pthread_mutex_lock(&column->kinds->lock);
    column->n_users--;
    pthread_mutex_unlock(&column->kinds->lock);
}

// ---- all that is kept for later queries -----------------------------------------------------------------------------

void db_trim(weft_db *db, bool is_short)
{
    pieces_trim(db->pieces);
    kinds_trim(db->kinds, db->store, is_short);
}
