// dict.c - text to code and back, append-only.
//
//     index: hash -> slot {tag, code + 1}          entries: code -> {bytes, length}, in blocks of 256, 512, 1024, ...
//     +---------+---------+---------+              +-----+-----+   +-----+-----+-----+-----+
//     | tag   1 |    0    | tag   2 |              |  0  |  1  |   |  2  |  3  | ... |     |
//     +---------+---------+---------+              +-----+-----+   +-----+-----+-----+-----+
//
// Imports look up every field of every row, nearly always with success, so a hit takes no lock.  What a reader can
// reach never moves: entries stay in their blocks, and an index that became too small is kept until the dictionary goes
// (all of them together are no larger than the current one).  A writer, under the mutex, writes the entry, then the
// count, then the slot, each released to readers that acquire it; so a reader that sees a slot sees its entry and a
// count above its code.  A reader that works with an old index may miss a new entry; dict_intern then looks again under
// the mutex.
//
// A dictionary that lies in a file has its count from the start, and its texts from dict_load on: a query pays only for
// the columns that it touches.  The texts of a file are read where they lie (text_blocks.c) and have no entries: these
// begin with the first code that was given out since (STORED).  Files of the old format are put into entries.
//
// The index is made when it is first worth it: most queries look for a few texts at most, and to look at the lengths of
// all texts takes a hundredth of the time.

#include <stdlib.h>

#include "store/text_blocks.h"

enum {
    FIRST_BLOCK_LOG = 8,
    N_BLOCKS = 32 - FIRST_BLOCK_LOG,
    FIRST_SLOTS = 64,
    BYTES_BLOCK_MIN = 1 << 10,
    BYTES_BLOCK_MAX = 1 << 20,
    SCANS_MOST = 16                                         // that are cheaper than an index
};

typedef struct Entry {
    const char *bytes;                                      // NUL-terminated
    u32         length;
    u32         place;                                      // low half of the hash: where in the index to begin
} Entry;

#define INTERN_AHEAD 64                                     // texts whose slots are fetched at once

typedef struct Index {
    struct Index *older;                                    // outgrown, but perhaps being read
    size_t        bytes;                                    // of this struct
    u64           mask;                                     // n_slots - 1; a power of two
    _Atomic u64   slots[];                                  // high half of the hash, code + 1; 0: empty
} Index;

typedef struct Bytes {                                      // a block of texts
    struct Bytes *older;
    size_t        size;                                     // of this struct and what follows
} Bytes;

typedef struct Ranks {
    struct Ranks *next;
    size_t        bytes;
    u32           count;
    int           n_holds;
    bool          is_in_file;                               // goes with its last user: it takes a query's disk
    u32           ranks[];
} Ranks;

struct Dictionary {
    Arena            *arena;                                // of this struct only
    _Atomic u32       n_holds;
    Budget           *budget;
    pthread_mutex_t   lock;                                 // writers of all but the ranks
    _Atomic u32       count;
    _Atomic(Index *)  index;
    TextBlocks       *stored;                               // texts of the first codes, in a file; NULL: none
    u32               n_stored;
    _Atomic(Entry *)  blocks[N_BLOCKS];                     // of the codes from n_stored on
    Bytes            *texts;                                // newest first
    char             *text_at;                              // free room in the newest
    size_t            text_left;
    pthread_mutex_t   ranks_lock;                           // apart: ranking takes long, and reads what never moves
    Ranks            *ranks;                                // newest first
    DictNotes         notes;
    pthread_mutex_t   load_lock;
    _Atomic bool      is_loaded;                            // its texts are here
    DictLoader        loader;                               // until they are, or as long as STORED
    _Atomic u32       n_scans;                              // texts looked for without an index
};

// ---- life ----------------------------------------------------------------------------------------------------------

Dictionary *dict_new(Budget *budget)
{
    Arena *arena = arena_new(NULL, "dictionary");
    Dictionary *dict = arena_make(arena, Dictionary);
    dict->arena = arena;
    dict->n_holds = 1;
    dict->budget = budget;
    pthread_mutex_init(&dict->lock, NULL);
    pthread_mutex_init(&dict->ranks_lock, NULL);
    pthread_mutex_init(&dict->load_lock, NULL);
    notes_init(&dict->notes, budget, dict_release);
    dict->is_loaded = true;
    return dict;
}

Dictionary *dict_new_unloaded(Budget *budget, u32 count, DictLoader loader)
{
    Dictionary *dict = dict_new(budget);
    dict->count = count;
    dict->is_loaded = false;
    dict->loader = loader;
    return dict;
}

Dictionary *dict_hold(Dictionary *dict)
{
    const u32 n_before = atomic_fetch_add(&dict->n_holds, 1);
    ASSERT(n_before > 0);
    (void)n_before;
    return dict;
}

static size_t block_bytes(int block)
{
    return sizeof(Entry) << (block + FIRST_BLOCK_LOG);
}

static void free_texts(Dictionary *dict)
{
    for (int b = 0; b < N_BLOCKS; b++) {
        mem_free(dict->budget, dict->blocks[b], block_bytes(b));
        dict->blocks[b] = NULL;
    }
    for (Index *index = dict->index, *older; index; index = older) {
        older = index->older;
        mem_free(dict->budget, index, index->bytes);
    }
    for (Bytes *texts = dict->texts, *older; texts; texts = older) {
        older = texts->older;
        mem_free(dict->budget, texts, texts->size);
    }
    dict->index = NULL;
    dict->texts = NULL;
    dict->text_left = 0;
}

static void free_all(Dictionary *dict)
{
    notes_free(&dict->notes);
    free_texts(dict);
    for (Ranks *ranks = dict->ranks, *next; ranks; ranks = next) {
        next = ranks->next;
        mem_free(dict->budget, ranks, ranks->bytes);
    }
    text_blocks_free(dict->stored);
    if (!dict->is_loaded || dict->stored)
        dict->loader.drop(dict->loader.context);
    pthread_mutex_destroy(&dict->lock);
    pthread_mutex_destroy(&dict->ranks_lock);
    pthread_mutex_destroy(&dict->load_lock);
    arena_free(dict->arena);
}

void dict_release(Dictionary *dict)
{
    if (!dict)
        return;
    const u32 n_before = atomic_fetch_sub(&dict->n_holds, 1);
    ASSERT(n_before > 0);
    if (n_before == 1)
        free_all(dict);
}

// ---- reading: no lock ----------------------------------------------------------------------------------------------

u32 dict_count(const Dictionary *dict)
{
    return atomic_load_explicit(&dict->count, memory_order_acquire);
}

bool dict_is_loaded(const Dictionary *dict)
{
    return atomic_load_explicit(&dict->is_loaded, memory_order_acquire);
}

static int block_of(u32 code, u32 *at)
{
    u32 shifted = code + (1u << FIRST_BLOCK_LOG);           // no overflow: codes stay below 2^31
    int log = 31 - __builtin_clz(shifted);
    *at = shifted - (1u << log);
    return log - FIRST_BLOCK_LOG;
}

static Entry *entry_of(const Dictionary *dict, u32 code)
{
    u32 at;
    int block = block_of(code - dict->n_stored, &at);
    return atomic_load_explicit(&dict->blocks[block], memory_order_acquire) + at;
}

static weft_text text_at(const Dictionary *dict, u32 code)
{
    if (code < dict->n_stored)
        return text_blocks_get(dict->stored, code);
    const Entry *entry = entry_of(dict, code);
    return (weft_text){ entry->bytes, entry->length };
}

weft_text dict_get(const Dictionary *dict, u32 code)
{
    ASSERT(code < dict_count(dict));
    ASSERT(dict_is_loaded(dict));
    return text_at(dict, code);
}

// Entries whose texts are neighbours, from CODE on: those of one block of entries and one block of texts, most often.
static void run_of_entries(const Dictionary *dict, u32 code, TextRun *run)
{
    u32 at;
    int block = block_of(code - dict->n_stored, &at);
    const Entry *entries = atomic_load_explicit(&dict->blocks[block], memory_order_acquire) + at;
    u32 most = MIN_OF((1u << (block + FIRST_BLOCK_LOG)) - at, dict_count(dict) - code), n = 1;
    while (n < most && entries[n].bytes == entries[n - 1].bytes + entries[n - 1].length + 1)
        n++;
    *run = (TextRun){ .first = code, .n_texts = n, .bytes = entries[0].bytes, .offsets = entries,
                      .width = sizeof(Entry) };
    run->n_bytes = (u64)(entries[n - 1].bytes - entries[0].bytes) + entries[n - 1].length + 1;
}

bool dict_run(const Dictionary *dict, u32 code, TextRun *run)
{
    ASSERT(code < dict_count(dict));
    ASSERT(dict_is_loaded(dict));
    if (code < dict->n_stored)
        return text_blocks_run(dict->stored, code, run);
    run_of_entries(dict, code, run);
    return true;
}

u64 text_run_offset(const TextRun *run, u32 at)
{
    if (run->width == 2)
        return ((const u16 *)run->offsets)[at];
    if (run->width == 4)
        return ((const u32 *)run->offsets)[at];
    return at == run->n_texts ? run->n_bytes : (u64)(((const Entry *)run->offsets)[at].bytes - run->bytes);
}

weft_status dict_status(const Dictionary *dict, Error *err)
{
    return dict_is_loaded(dict) && dict->stored ? text_blocks_status(dict->stored, err) : WEFT_OK;
}

static bool find(const Dictionary *dict, const Index *index, const char *bytes, size_t length, u64 hash, u32 *code)
{
    if (!index)
        return false;
    for (u64 i = (u32)hash & index->mask;; i = (i + 1) & index->mask) {
        u64 slot = atomic_load_explicit(&index->slots[i], memory_order_acquire);
        if (slot == 0)
            return false;
        if (slot >> 32 != hash >> 32)
            continue;
        weft_text text = text_at(dict, (u32)slot - 1);
        if (text.length == length && (length == 0 || memcmp(text.bytes, bytes, length) == 0)) {
            *code = (u32)slot - 1;
            return true;
        }
    }
}

static Index *current_index(const Dictionary *dict)
{
    return atomic_load_explicit(&dict->index, memory_order_acquire);
}

// Without an index.  Whoever adds a text makes one first, so there are no more entries than were loaded.
static bool scan(const Dictionary *dict, const char *bytes, size_t length, u64 hash, u32 *code)
{
    if (dict->stored)
        return text_blocks_find(dict->stored, bytes, length, code);
    u32 count = dict_count(dict);
    for (u32 first = 0, n; first < count; first += n) {
        u32 at;
        int block = block_of(first, &at);
        const Entry *entries = atomic_load_explicit(&dict->blocks[block], memory_order_acquire);
        n = MIN_OF(count - first, 1u << (block + FIRST_BLOCK_LOG));
        for (u32 i = 0; i < n; i++)
            if (entries[i].place == (u32)hash && entries[i].length == length &&
                (length == 0 || memcmp(entries[i].bytes, bytes, length) == 0)) {
                *code = first + i;
                return true;
            }
    }
    return false;
}

// ---- writing: under the lock ---------------------------------------------------------------------------------------

static u64 slot_of(u64 hash, u32 code)
{
    return (hash >> 32 << 32) | (code + 1);
}

static void put_slot(Index *index, u32 place, u64 slot)
{
    u64 i = place & index->mask;
    while (atomic_load_explicit(&index->slots[i], memory_order_relaxed) != 0)
        i = (i + 1) & index->mask;
    atomic_store_explicit(&index->slots[i], slot, memory_order_release);
}

static u32 place_of(const Dictionary *dict, u32 code)
{
    if (code >= dict->n_stored)
        return entry_of(dict, code)->place;
    weft_text text = text_at(dict, code);
    return (u32)hash_bytes(text.bytes, text.length);
}

static weft_status grow_index(Dictionary *dict, u64 n_slots, Error *err)
{
    ASSERT(mutex_is_held(&dict->lock));
    ASSERT((n_slots & (n_slots - 1)) == 0);
    Index *old = current_index(dict), *grown;
    size_t bytes = sizeof(Index) + n_slots * sizeof(u64);
    void *memory;
    TRY(mem_alloc(dict->budget, bytes, &memory, err));
    grown = memory;
    grown->older = old;
    grown->bytes = bytes;
    grown->mask = n_slots - 1;
    for (u64 i = 0; old && i <= old->mask; i++) {
        u64 slot = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (slot != 0)
            put_slot(grown, place_of(dict, (u32)slot - 1), slot);
    }
    for (u32 code = 0; !old && code < dict_count(dict); code++) {           // the texts of a file
        weft_text text = text_at(dict, code);
        u64 hash = hash_bytes(text.bytes, text.length);
        put_slot(grown, (u32)hash, slot_of(hash, code));
    }
    atomic_store_explicit(&dict->index, grown, memory_order_release);
    return WEFT_OK;
}

// Half full at most: a miss is then short, and a slot is only 8 bytes.
static weft_status ensure_index(Dictionary *dict, u64 count, Error *err)
{
    const Index *index = current_index(dict);
    u64 n_slots = index ? index->mask + 1 : FIRST_SLOTS;
    while (n_slots < count * 2)
        n_slots *= 2;
    return index && index->mask + 1 == n_slots ? WEFT_OK : grow_index(dict, n_slots, err);
}

static weft_status ensure_entry(Dictionary *dict, u32 code, Error *err)
{
    u32 at;
    void *memory;
    int block = block_of(code - dict->n_stored, &at);
    if (atomic_load_explicit(&dict->blocks[block], memory_order_relaxed))
        return WEFT_OK;
    TRY(mem_alloc(dict->budget, block_bytes(block), &memory, err));
    atomic_store_explicit(&dict->blocks[block], memory, memory_order_release);
    return WEFT_OK;
}

static weft_status ensure_text(Dictionary *dict, size_t bytes, Error *err)
{
    if (dict->text_left >= bytes)
        return WEFT_OK;
    size_t last = dict->texts ? dict->texts->size : 0;
    size_t size = MAX_OF(BYTES_BLOCK_MIN, MIN_OF(last * 2, BYTES_BLOCK_MAX));
    size = MAX_OF(size, sizeof(Bytes) + bytes);
    void *memory;
    TRY(mem_alloc(dict->budget, size, &memory, err));
    *(Bytes *)memory = (Bytes){ dict->texts, size };
    dict->texts = memory;
    dict->text_at = (char *)memory + sizeof(Bytes);
    dict->text_left = size - sizeof(Bytes);
    return WEFT_OK;
}

static const char *put_text(Dictionary *dict, const char *bytes, size_t length)
{
    ASSERT(dict->text_left >= length + 1);
    char *text = dict->text_at;
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
    dict->text_at += length + 1;
    dict->text_left -= length + 1;
    return text;
}

static weft_status put(Dictionary *dict, u32 code, const char *bytes, size_t length, u64 hash, Error *err)
{
    ASSERT(mutex_is_held(&dict->lock));
    TRY(ensure_entry(dict, code, err));
    TRY(ensure_text(dict, length + 1, err));
    *entry_of(dict, code) = (Entry){ put_text(dict, bytes, length), (u32)length, (u32)hash };
    return WEFT_OK;
}

static weft_status append(Dictionary *dict, const char *bytes, size_t length, u64 hash, u32 *code, Error *err)
{
    u32 count = *code = atomic_load_explicit(&dict->count, memory_order_relaxed);
    if (count >= DICT_MAX)
        return fail(err, WEFT_TOO_LONG, -1, "a text column has more than %u different values", DICT_MAX);
    TRY(ensure_index(dict, (u64)count + 1, err));
    TRY(put(dict, count, bytes, length, hash, err));
    atomic_store_explicit(&dict->count, count + 1, memory_order_release);
    put_slot(current_index(dict), (u32)hash, slot_of(hash, count));
    return WEFT_OK;
}

static void count_scan(Dictionary *dict)
{
    if (atomic_fetch_add_explicit(&dict->n_scans, 1, memory_order_relaxed) < SCANS_MOST)
        return;
    pthread_mutex_lock(&dict->lock);
    (void)ensure_index(dict, dict_count(dict), NULL);       // without memory for it the next one tries again
    pthread_mutex_unlock(&dict->lock);
}

bool dict_find(const Dictionary *dict, const char *bytes, size_t length, u32 *code)
{
    ASSERT(dict_is_loaded(dict));
    u64 hash = hash_bytes(bytes, length);
    if (!current_index(dict))
        count_scan((Dictionary *)(uintptr_t)dict);          // an index changes nothing that callers can see
    const Index *index = current_index(dict);
    return index ? find(dict, index, bytes, length, hash, code) : scan(dict, bytes, length, hash, code);
}

static weft_status check_length(size_t length, Error *err)
{
    return length <= TEXT_BYTES_MAX ? WEFT_OK : fail(err, WEFT_TOO_LONG, -1, "text of %zu bytes is too long", length);
}

static weft_status intern(Dictionary *dict, const char *bytes, size_t length, u64 hash, u32 *code, Error *err)
{
    ASSERT(dict_is_loaded(dict));
    if (find(dict, current_index(dict), bytes, length, hash, code))
        return WEFT_OK;
    pthread_mutex_lock(&dict->lock);
    weft_status status = ensure_index(dict, dict_count(dict), err);
    if (!status && !find(dict, current_index(dict), bytes, length, hash, code))
        status = append(dict, bytes, length, hash, code, err);
    pthread_mutex_unlock(&dict->lock);
    return status;
}

weft_status dict_intern(Dictionary *dict, const char *bytes, size_t length, u32 *code, Error *err)
{
    TRY(check_length(length, err));
    return intern(dict, bytes, length, hash_bytes(bytes, length), code, err);
}

static void prefetch_slot(const Dictionary *dict, u64 hash)
{
    const Index *index = current_index(dict);
    if (index)
        __builtin_prefetch((const void *)&index->slots[(u32)hash & index->mask]);
}

weft_status dict_intern_many(Dictionary *dict, const weft_text *texts, u32 n, u32 *codes, Error *err)
{
    u64 hashes[INTERN_AHEAD];
    for (u32 first = 0; first < n; first += INTERN_AHEAD) {
        const u32 end = MIN_OF(n, first + INTERN_AHEAD);
        for (u32 t = first; t < end; t++) {
            TRY(check_length(texts[t].length, err));
            prefetch_slot(dict, hashes[t - first] = hash_bytes(texts[t].bytes, texts[t].length));
        }
        for (u32 t = first; t < end; t++)
            TRY(intern(dict, texts[t].bytes, texts[t].length, hashes[t - first], &codes[t], err));
    }
    return WEFT_OK;
}

weft_status dict_reserve(Dictionary *dict, u32 count, Error *err)
{
    pthread_mutex_lock(&dict->lock);
    weft_status status = ensure_index(dict, count, err);
    pthread_mutex_unlock(&dict->lock);
    return status;
}

weft_status dict_append(Dictionary *dict, const char *bytes, size_t length, u64 hash, Error *err)
{
    u32 code;
    pthread_mutex_lock(&dict->lock);
    weft_status status = append(dict, bytes, length, hash, &code, err);
    pthread_mutex_unlock(&dict->lock);
    return status;
}

// ---- loading -------------------------------------------------------------------------------------------------------

weft_status dict_put(Dictionary *dict, u32 code, const char *bytes, size_t length, u64 hash, Error *err)
{
    ASSERT(!dict_is_loaded(dict) && code < dict_count(dict));
    pthread_mutex_lock(&dict->lock);
    weft_status status = put(dict, code, bytes, length, hash, err);
    pthread_mutex_unlock(&dict->lock);
    return status;
}

void dict_put_blocks(Dictionary *dict, TextBlocks *texts)
{
    ASSERT(!dict_is_loaded(dict) && !dict->stored);
    dict->stored = texts;
    dict->n_stored = dict_count(dict);
}

weft_status dict_load(Dictionary *dict, Error *err)
{
    if (dict_is_loaded(dict))
        return dict_status(dict, err);
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&dict->load_lock);
    if (!dict_is_loaded(dict)) {
        status = dict->loader.load(dict, dict->loader.context, err);
        if (status) {
            free_texts(dict);                               // the next load begins anew
        } else {
            if (!dict->stored)
                dict->loader.drop(dict->loader.context);
            atomic_store_explicit(&dict->is_loaded, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&dict->load_lock);
    return status;
}

weft_status dict_check_all(Dictionary *dict, Error *err)
{
    TRY(dict_load(dict, err));
    return dict->stored ? text_blocks_check(dict->stored, err) : WEFT_OK;
}

weft_status dict_copy(const Dictionary *from, u32 count, Budget *budget, Dictionary **copy, Error *err)
{
    Dictionary *dict = dict_new(budget);
    weft_status status = dict_reserve(dict, count, err);
    for (u32 code = 0; code < count && !status; code++) {
        weft_text text = dict_get(from, code);
        status = dict_append(dict, text.bytes, text.length, hash_bytes(text.bytes, text.length), err);
    }
    if (status)
        dict_release(dict);
    else
        *copy = dict;
    return status;
}

// ---- notes ---------------------------------------------------------------------------------------------------------

const DictNote *dict_note_find(Dictionary *dict, u32 count, const void *key, size_t length)
{
    return notes_find(&dict->notes, count, key, length);
}

void dict_note_release(Dictionary *dict, const DictNote *note)
{
    notes_release(&dict->notes, note);
}

void dict_note_put(Dictionary *dict, u32 count, const void *key, size_t length, DictNote note)
{
    if (note.made)
        dict_hold(note.made);
    notes_put(&dict->notes, count, key, length, note);
}

// ---- ranks ---------------------------------------------------------------------------------------------------------
// Codes stand in order of first use, so ordering by text needs each code's rank.  We keep the newest ranks; when the
// dictionary has grown since, only the new codes are sorted and merged into the old order.

static weft_text text_of(const void *dict, u32 code)
{
    return text_at(dict, code);
}

static TextKey sort_key(const Dictionary *dict, u32 code)
{
    weft_text text = text_at(dict, code);
    u64 prefix = 0;
    for (u32 i = 0; i < 8; i++)
        prefix = prefix << 8 | (i < text.length ? (u8)text.bytes[i] : 0);
    return (TextKey){ prefix, code };
}

static int compare_keys(const void *a, const void *b, void *context)
{
    const TextKey *left = a, *right = b;
    if (left->prefix != right->prefix)
        return left->prefix < right->prefix ? -1 : 1;
    weft_text l = text_at(context, left->code), r = text_at(context, right->code);
    return compare_bytes(l.bytes, l.length, r.bytes, r.length);
}

// Looked at every few thousand steps of a loop.
static bool is_stopped(const _Atomic u32 *stop, u32 step)
{
    return (step & 4095) == 0 && stop && atomic_load_explicit(stop, memory_order_relaxed);
}

typedef struct Sorting {
    const Dictionary  *dict;
    const _Atomic u32 *stop;
    TextKey           *keys, *spare;                        // room for all
} Sorting;

static bool rank_codes(Sorting *sorting, const Ranks *old, u32 count, u32 *ranks)
{
    u32 n_old = old ? old->count : 0;
    for (u32 code = 0; code < count; code++) {
        if (is_stopped(sorting->stop, code))
            return false;
        sorting->keys[code < n_old ? old->ranks[code] : code].code = code;
    }
    if (!texts_sort(sorting->keys + n_old, sorting->spare, count - n_old, text_of, sorting->dict, sorting->stop))
        return false;
    for (u32 i = 0; n_old > 0 && i < count; i++) {          // to merge both
        if (is_stopped(sorting->stop, i))
            return false;
        sorting->keys[i] = sort_key(sorting->dict, sorting->keys[i].code);
    }
    void *context = (void *)(uintptr_t)sorting->dict;
    const TextKey *keys = sorting->keys;
    u32 rank = 0, i = 0, j = n_old;
    while (i < n_old || j < count) {
        if (is_stopped(sorting->stop, rank))
            return false;
        bool take_old = j == count || (i < n_old && compare_keys(&keys[i], &keys[j], context) < 0);
        ranks[keys[take_old ? i++ : j++].code] = rank++;
    }
    return true;
}

// Drops ranks that are not held, except the newest in memory, from which the next are made.
static void drop_old_ranks(Dictionary *dict)
{
    ASSERT(mutex_is_held(&dict->ranks_lock));
    bool has_newest = false;
    for (Ranks **link = &dict->ranks; *link;) {
        Ranks *ranks = *link;
        bool is_newest = !has_newest && !ranks->is_in_file;
        has_newest |= is_newest;
        if (ranks->n_holds > 0 || is_newest) {
            link = &ranks->next;
            continue;
        }
        *link = ranks->next;
        mem_free(dict->budget, ranks, ranks->bytes);
    }
}

static weft_status fill_ranks(const Dictionary *dict, const Ranks *old, RanksWith with, Ranks *ranks, Error *err)
{
    size_t bytes = (size_t)ranks->count * sizeof(TextKey);
    Budget *budget = with.budget ? with.budget : dict->budget;
    void *keys, *spare;
    TRY(mem_alloc(budget, bytes, &keys, err));
    weft_status status = mem_alloc(budget, bytes, &spare, err);
    Sorting sorting = { dict, with.stop, keys, spare };
    if (!status && !rank_codes(&sorting, old, ranks->count, ranks->ranks))
        status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
    mem_free(budget, keys, bytes);
    mem_free(budget, spare, bytes);
    return status;
}

// Ranks stay with the dictionary, so they count in its budget.  What that refuses is in a file where the query spills.
static weft_status room_for_ranks(Dictionary *dict, RanksWith with, size_t bytes, Ranks **out, Error *err)
{
    Budget *query = with.budget;
    void *memory;
    bool is_in_file = query && query->temp && !mem_fits(dict->budget, (i64)bytes);
    weft_status status = is_in_file ? mem_alloc_in_file(query, bytes, &memory, err)
                                    : mem_alloc(dict->budget, bytes, &memory, err);
    if (status && query)
        atomic_store(&query->was_refused, true);            // files may help
    TRY(status);
    *out = memory;
    (*out)->bytes = bytes;
    (*out)->is_in_file = is_in_file;
    return WEFT_OK;
}

static weft_status make_ranks(Dictionary *dict, const Ranks *old, u32 count, RanksWith with, Ranks **out, Error *err)
{
    size_t bytes = sizeof(Ranks) + (size_t)count * sizeof(u32);
    TRY(room_for_ranks(dict, with, bytes, out, err));
    Ranks *ranks = *out;
    ranks->count = count;
    weft_status status = fill_ranks(dict, old, with, ranks, err);
    if (status)
        mem_free(dict->budget, ranks, bytes);
    return status;
}

static Ranks *find_ranks(const Dictionary *dict, u32 count)
{
    Ranks *ranks = dict->ranks;
    while (ranks && ranks->count != count)
        ranks = ranks->next;
    return ranks;
}

// The newest that can be a part of the ranks of COUNT codes.
static Ranks *find_part(const Dictionary *dict, u32 count)
{
    Ranks *ranks = dict->ranks;
    while (ranks && ranks->count > count)
        ranks = ranks->next;
    return ranks;
}

// Somebody else may have been quicker: then NEW is not needed.
static const u32 *put_ranks(Dictionary *dict, Ranks *new)
{
    ASSERT(mutex_is_held(&dict->ranks_lock));
    Ranks *ranks = find_ranks(dict, new->count);
    if (ranks) {
        mem_free(dict->budget, new, new->bytes);
    } else {
        ranks = new;
        ranks->next = dict->ranks;
        dict->ranks = ranks;
    }
    ranks->n_holds++;
    return ranks->ranks;
}

// The lock is released while the codes are sorted, so that a thread that waits for it can be cancelled soon.
weft_status dict_get_ranks(Dictionary *dict, u32 count, RanksWith with, const u32 **out, Error *err)
{
    pthread_mutex_lock(&dict->ranks_lock);
    Ranks *ranks = find_ranks(dict, count), *old = ranks ? NULL : find_part(dict, count);
    if (ranks)
        ranks->n_holds++;
    if (old)
        old->n_holds++;
    pthread_mutex_unlock(&dict->ranks_lock);
    *out = ranks ? ranks->ranks : NULL;
    if (ranks)
        return WEFT_OK;
    weft_status status = make_ranks(dict, old, count, with, &ranks, err);
    pthread_mutex_lock(&dict->ranks_lock);
    if (!status)
        *out = put_ranks(dict, ranks);
    if (old)
        old->n_holds--;
    drop_old_ranks(dict);
    pthread_mutex_unlock(&dict->ranks_lock);
    return status;
}

const u32 *dict_ranks(Dictionary *dict, u32 count)
{
    const u32 *ranks;
    return dict_get_ranks(dict, count, (RanksWith){ 0 }, &ranks, NULL) ? NULL : ranks;
}

bool dict_has_ranks(Dictionary *dict, u32 count)
{
    pthread_mutex_lock(&dict->ranks_lock);
    bool has_ranks = find_ranks(dict, count) != NULL;
    pthread_mutex_unlock(&dict->ranks_lock);
    return has_ranks;
}

void dict_ranks_release(Dictionary *dict, const u32 *ranks)
{
    if (!ranks)
        return;
    pthread_mutex_lock(&dict->ranks_lock);
    Ranks *held = (Ranks *)(uintptr_t)((const u8 *)ranks - offsetof(Ranks, ranks));
    ASSERT(held->n_holds > 0);
    held->n_holds--;
    drop_old_ranks(dict);
    pthread_mutex_unlock(&dict->ranks_lock);
}

typedef struct HeldRanks { Dictionary *dict; const u32 *ranks; } HeldRanks;

static void release_ranks(void *context)
{
    const HeldRanks *held = context;
    dict_ranks_release(held->dict, held->ranks);
    dict_release(held->dict);
}

weft_status dict_hold_ranks(Arena *arena, Dictionary *dict, u32 count, RanksWith with, const u32 **ranks, Error *err)
{
    TRY(dict_get_ranks(dict, count, with, ranks, err));
    HeldRanks *held = arena_make(arena, HeldRanks);
    *held = (HeldRanks){ dict_hold(dict), *ranks };
    arena_defer(arena, release_ranks, held);
    return WEFT_OK;
}
