// chains.c - rows of equal key chained by all threads of a query, without a lock or an atomic instruction.
//
// Every thread owns some slices of the table, and only the owner of a slice writes to it.  So rows are first sent to
// the slices of their keys, in two passes over parts of the rows:
//
//     rows      part 0 | part 1 | part 2          count, for each part and slice; then put each row where it belongs
//                  \  \   / |  \  /
//     routed    slice 0: 0 1 2 | slice 1: 0 1 2   in each slice rows are in the order of the source
//                  |                 |
//     table     [ slots ...    ][ slots ...    ]  from the last row to the first, so that chains begin with the first
//
// A slice is also small enough for a cache, which a large table as a whole is not.
//
// Of a hash table with open addressing, a row whose slots are taken up to the end of its slice goes on into the next
// slice, which is another thread's.  Such rows are few.  They are left over, and put in by the caller in the end.  All
// rows of a key are left over or none: the slots that the first one found taken stay taken.
//
// Few rows, or one thread: straight into the table.

#include "engine/chains.h"
#include "engine/engine.h"

#define SLICE_BYTES  ((u64)256 << 10)  // of the table: stays in a core's cache
#define SLICES_MOST  256               // as many places to write to at the same time still go quickly
#define SLICES_EACH  4                 // for each thread: slices are not of equal work
#define SLICE_SHIFT  6                 // 64 places at least, so that bits of two slices share no word
#define BLOCK_ROWS   4096              // between two looks at the stop flag

typedef struct Routing {
    const Chains *chains;
    RowParts      parts;
    const u32    *places;              // of rows; NULL: by hash of
    const u64    *keys;
    u64           mask;
    int           shift, n_slices;     // slice = place or slot >> shift
    u64          *starts;              // by part and slice: where in routed the next row of the part goes
    u64          *ends;                // by slice: where its rows end
    KernelSlot   *routed;              // key or place, and row + 1
} Routing;

typedef struct SliceWork {             // what the owner of a slice found out
    u64 n_distinct, longest;
    u64 left_over;                     // rows from here to the end of its part of routed
} SliceWork;

typedef struct Slices {
    const Routing *routing;
    SliceWork     *works;              // by slice
    u8            *bits;               // one of these
    u32           *heads, *lengths;
    KernelSlot    *slots;
    const u64     *words;
    int            n_words;
} Slices;

static weft_status canceled(Error *err)
{
    return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

static bool is_stopped(const Chains *chains, u64 row)
{
    return row % BLOCK_ROWS == 0 && team_is_stopped(&chains->team);
}

// ---- sending rows to their slices -----------------------------------------------------------------------------------

static u64 home_of(const Routing *routing, u64 row)
{
    return routing->places ? routing->places[row] : HASH_SLOT(routing->keys[row]) & routing->mask;
}

static void count_rows(void *context, int part, u64 first, u64 end)
{
    const Routing *routing = context;
    u64           *counts = routing->starts + (u64)part * (u64)routing->n_slices;
    for (u64 r = first; r < end; r++) counts[home_of(routing, r) >> routing->shift]++;
}

static void route_rows(void *context, int part, u64 first, u64 end)
{
    const Routing *routing = context;
    u64           *starts = routing->starts + (u64)part * (u64)routing->n_slices;
    for (u64 r = first; r < end; r++)
        routing->routed[starts[home_of(routing, r) >> routing->shift]++] =
            (KernelSlot){ .key = routing->places ? routing->places[r] : routing->keys[r], .row = (u32)r + 1 };
}

static void add_up_counts(Routing *routing)
{
    u64 n_rows = 0;
    for (int s = 0; s < routing->n_slices; s++) {
        for (int p = 0; p < routing->parts.n_parts; p++) {
            u64 *start = &routing->starts[(u64)p * (u64)routing->n_slices + (u64)s];
            const u64 n_here = *start;
            *start = n_rows;
            n_rows += n_here;
        }
        routing->ends[s] = n_rows;
    }
    ASSERT(n_rows == routing->chains->n_rows);
}

static void choose_slices(Routing *routing, u64 span, u64 bytes)
{
    const u64 n_wanted = MIN_OF(MAX_OF((u64)routing->chains->team.n_threads * SLICES_EACH, bytes / SLICE_BYTES),
                                SLICES_MOST);
    routing->shift = SLICE_SHIFT;
    while ((span - 1) >> routing->shift >= n_wanted) routing->shift++;
    routing->n_slices = (int)((span - 1) >> routing->shift) + 1;
}

// SPAN places or slots that take so many BYTES.
static weft_status route(Routing *routing, Arena *arena, u64 span, u64 bytes, Error *err)
{
    const Chains *chains = routing->chains;
    choose_slices(routing, span, bytes);
    const u64 n_starts = (u64)routing->parts.n_parts * (u64)routing->n_slices;
    TRY(counted_alloc(arena, chains->budget, n_starts * sizeof(u64), (void **)&routing->starts, err));
    TRY(counted_alloc(arena, chains->budget, (u64)routing->n_slices * sizeof(u64), (void **)&routing->ends, err));
    TRY(counted_alloc(arena, chains->budget, chains->n_rows * sizeof(KernelSlot), (void **)&routing->routed, err));
    if (!team_rows(&chains->team, &routing->parts, count_rows, routing)) return canceled(err);
    add_up_counts(routing);
    return team_rows(&chains->team, &routing->parts, route_rows, routing) ? WEFT_OK : canceled(err);
}

static u64 slice_first(const Routing *routing, int slice) { return slice ? routing->ends[slice - 1] : 0; }

// ---- what is done with one row --------------------------------------------------------------------------------------

static u64 set_bit(u8 *bits, u64 place)
{
    const u32 bit = 1u << (place & 7), byte = bits[place >> 3];
    bits[place >> 3] = (u8)(byte | bit);
    return !(byte & bit);
}

// Rows come from the last to the first, so the one that is there already comes after this one.
static void put_head(const Chains *chains, u32 *heads, u32 *lengths, u64 place, u32 row, SliceWork *work)
{
    const u32 after = heads[place];
    chains->next[row - 1] = after;
    heads[place] = row;
    lengths[row - 1] = after ? lengths[after - 1] + 1 : 1;
    work->n_distinct += !after;
    work->longest = MAX_OF(work->longest, lengths[row - 1]);
}

static bool is_same(const Slices *slices, const KernelSlot *slot, const KernelSlot *entry)
{
    const u64 n = (u64)slices->n_words;
    return slot->key == entry->key && (!slices->words || !memcmp(slices->words + (slot->row - 1) * n,
                                                                 slices->words + (entry->row - 1) * n, 8 * (size_t)n));
}

// A slot's spare word counts the rows of its key.
static void put_slot(const Slices *slices, KernelSlot *slot, const KernelSlot *entry, SliceWork *work)
{
    const u32 n_rows = slot->spare + 1;
    slices->routing->chains->next[entry->row - 1] = slot->row;
    work->n_distinct += !slot->row;
    work->longest = MAX_OF(work->longest, n_rows);
    *slot = (KernelSlot){ .key = entry->key, .row = entry->row, .spare = n_rows };
}

// False: the slots from its own to END are taken by other keys.
static bool put_hashed(const Slices *slices, const KernelSlot *entry, u64 end, SliceWork *work)
{
    KernelSlot *slots = slices->slots;
    u64         at = HASH_SLOT(entry->key) & slices->routing->mask;
    while (at < end && slots[at].row && !is_same(slices, &slots[at], entry)) at++;
    if (at < end) put_slot(slices, &slots[at], entry, work);
    return at < end;
}

static void put_wrapped(const Slices *slices, const KernelSlot *entry, SliceWork *work)
{
    KernelSlot *slots = slices->slots;
    const u64   mask = slices->routing->mask;
    u64         at = HASH_SLOT(entry->key) & mask;
    while (slots[at].row && !is_same(slices, &slots[at], entry)) at = (at + 1) & mask;
    put_slot(slices, &slots[at], entry, work);
}

// ---- bits -----------------------------------------------------------------------------------------------------------

static void slice_bits(void *context, int slice)
{
    const Slices  *slices = context;
    const Routing *routing = slices->routing;
    SliceWork      work = { 0 };
    for (u64 i = slice_first(routing, slice); i < routing->ends[slice]; i++) {
        if (is_stopped(routing->chains, i)) return;
        work.n_distinct += set_bit(slices->bits, routing->routed[i].key);
    }
    slices->works[slice] = work;
}

static weft_status add_up_works(Chains *chains, const Slices *slices, Error *err)
{
    if (team_is_stopped(&chains->team)) return canceled(err);
    for (int s = 0; s < slices->routing->n_slices; s++) {
        chains->n_distinct += slices->works[s].n_distinct;
        chains->longest = MAX_OF(chains->longest, slices->works[s].longest);
    }
    return WEFT_OK;
}

static weft_status run_slices(Chains *chains, Slices *slices, Arena *arena, void (*work)(void *context, int slice),
                              Error *err)
{
    const int n_slices = slices->routing->n_slices;
    slices->works = arena_array(arena, SliceWork, n_slices + 1);
    return team_parts(&chains->team, n_slices, work, slices) ? WEFT_OK : canceled(err);
}

static weft_status bits_in_slices(Chains *chains, Routing *routing, u8 *bits, u64 span, Error *err)
{
    Arena      *arena = arena_new(NULL, "bits");
    Slices      slices = { .routing = routing, .bits = bits };
    weft_status status = route(routing, arena, span, span / 8, err);
    if (!status) status = run_slices(chains, &slices, arena, slice_bits, err);
    if (!status) status = add_up_works(chains, &slices, err);
    arena_free(arena);
    return status;
}

weft_status chains_set_bits(Chains *chains, const u32 *places, u8 *bits, u64 span, Error *err)
{
    Routing routing = { .chains = chains, .parts = team_split(&chains->team, chains->n_rows), .places = places };
    chains->n_distinct = 0;
    if (routing.parts.n_parts > 1) return bits_in_slices(chains, &routing, bits, span, err);
    for (u64 r = 0; r < chains->n_rows; r++) {
        if (is_stopped(chains, r)) return canceled(err);
        chains->n_distinct += set_bit(bits, places[r]);
    }
    return WEFT_OK;
}

// ---- heads ----------------------------------------------------------------------------------------------------------

static void slice_heads(void *context, int slice)
{
    const Slices  *slices = context;
    const Routing *routing = slices->routing;
    SliceWork      work = { 0 };
    for (u64 i = routing->ends[slice]; i-- > slice_first(routing, slice);) {
        if (is_stopped(routing->chains, i)) return;
        put_head(routing->chains, slices->heads, slices->lengths, routing->routed[i].key, routing->routed[i].row,
                 &work);
    }
    slices->works[slice] = work;
}

static weft_status heads_here(Chains *chains, const u32 *places, u32 *heads, u32 *lengths, Error *err)
{
    SliceWork work = { 0 };
    for (u64 r = chains->n_rows; r-- > 0;) {
        if (is_stopped(chains, r)) return canceled(err);
        put_head(chains, heads, lengths, places[r], (u32)r + 1, &work);
    }
    chains->n_distinct = work.n_distinct, chains->longest = work.longest;
    return WEFT_OK;
}

static weft_status heads_in_slices(Chains *chains, Routing *routing, Slices *slices, u64 span, Arena *arena, Error *err)
{
    TRY(route(routing, arena, span, span * sizeof(u32), err));
    TRY(run_slices(chains, slices, arena, slice_heads, err));
    return add_up_works(chains, slices, err);
}

weft_status chains_by_place(Chains *chains, const u32 *places, u32 *heads, u64 span, Error *err)
{
    Arena      *arena = arena_new(NULL, "heads");
    Routing     routing = { .chains = chains, .parts = team_split(&chains->team, chains->n_rows), .places = places };
    Slices      slices = { .routing = &routing, .heads = heads };
    ASSERT(chains->n_rows < UINT32_MAX);
    chains->n_distinct = chains->longest = 0;
    weft_status status = counted_alloc(arena, chains->budget, (chains->n_rows + 1) * sizeof(u32),
                                       (void **)&slices.lengths, err);
    if (!status)
        status = routing.parts.n_parts > 1 ? heads_in_slices(chains, &routing, &slices, span, arena, err)
                                           : heads_here(chains, places, heads, slices.lengths, err);
    arena_free(arena);
    return status;
}

// ---- hash tables ----------------------------------------------------------------------------------------------------

// Rows that are left over are kept behind those that are still to come.
static void slice_hashed(void *context, int slice)
{
    const Slices  *slices = context;
    const Routing *routing = slices->routing;
    const u64      slots_end = (u64)(slice + 1) << routing->shift;
    SliceWork      work = { .left_over = routing->ends[slice] };
    for (u64 i = routing->ends[slice]; i-- > slice_first(routing, slice);) {
        if (is_stopped(routing->chains, i)) return;
        if (!put_hashed(slices, &routing->routed[i], slots_end, &work))
            routing->routed[--work.left_over] = routing->routed[i];
    }
    slices->works[slice] = work;
}

static weft_status put_left_over(Chains *chains, const Slices *slices, Error *err)
{
    const Routing *routing = slices->routing;
    for (int s = 0; s < routing->n_slices; s++)
        for (u64 i = routing->ends[s]; i-- > slices->works[s].left_over;) {
            if (is_stopped(chains, i)) return canceled(err);
            put_wrapped(slices, &routing->routed[i], &slices->works[s]);
        }
    return WEFT_OK;
}

static weft_status hash_in_slices(Chains *chains, Routing *routing, Slices *slices, Error *err)
{
    Arena      *arena = arena_new(NULL, "slots");
    const u64   n_slots = routing->mask + 1;
    weft_status status = route(routing, arena, n_slots, n_slots * sizeof(KernelSlot), err);
    if (!status) status = run_slices(chains, slices, arena, slice_hashed, err);
    if (!status) status = put_left_over(chains, slices, err);
    if (!status) status = add_up_works(chains, slices, err);
    arena_free(arena);
    return status;
}

weft_status chains_by_hash(Chains *chains, const u64 *keys, const u64 *words, int n_words, KernelSlot *slots,
                           u64 n_slots, Error *err)
{
    Routing   routing = { .chains = chains,
                          .parts = team_split(&chains->team, chains->n_rows),
                          .keys = keys,
                          .mask = n_slots - 1 };
    Slices    slices = { .routing = &routing, .slots = slots, .words = words, .n_words = n_words };
    SliceWork work = { 0 };
    ASSERT((n_slots & (n_slots - 1)) == 0 && n_slots >= 2 * chains->n_rows && chains->n_rows < UINT32_MAX);
    chains->n_distinct = chains->longest = 0;
    if (routing.parts.n_parts > 1) return hash_in_slices(chains, &routing, &slices, err);
    for (u64 r = chains->n_rows; r-- > 0;) {
        if (is_stopped(chains, r)) return canceled(err);
        put_wrapped(&slices, &(KernelSlot){ .key = keys[r], .row = (u32)r + 1 }, &work);
    }
    chains->n_distinct = work.n_distinct, chains->longest = work.longest;
    return WEFT_OK;
}
