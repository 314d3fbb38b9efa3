// merge.c - groups that several workers found, as one set.
//
// Groups of an array have the same place in every set, so threads take ranges of places.  Groups of hash tables are cut
// into slices by the first bits of their hash; what belongs together is in one slice, which one thread merges:
//
//     1. all groups are sent to their slices                          threads take parts of the groups
//     2. in each slice: which groups have the same key?               threads take slices, each with a small table
//     3. now it is known how many groups there are: memory for them
//     4. in each slice: the first of each key is copied, others are added to it
//
// Parts cannot fail, so all memory is taken by the caller, between them.

#include "device/merge.h"

#include <stdlib.h>

#define SLICES_EACH  4                 // for each thread
#define SLICES_MOST  256
#define BLOCK_GROUPS 4096              // between two looks at the stop flag

void merge_cell(const Woven *woven, int slot, void *const *to, u64 at, void *const *from, u64 from_at)
{
    i64         *cell = &((i64 *)to[slot])[at];
    const i64    value = woven->state[slot].bytes == 8 ? ((const i64 *)from[slot])[from_at] : 0;
    double      *real = &((double *)to[slot])[at];
    const double number = woven->state[slot].bytes == 8 ? ((const double *)from[slot])[from_at] : 0;
    switch (woven->state[slot].kind) {
        case SLOT_SEEN: ((u8 *)to[slot])[at] |= ((const u8 *)from[slot])[from_at]; break;
        case SLOT_ADD: *cell = (i64)((u64)*cell + (u64)value); break;
        case SLOT_MIN: *cell = MIN_OF(*cell, value); break;
        case SLOT_MAX: *cell = MAX_OF(*cell, value); break;
        case SLOT_MIN_F64: if (number < *real || *real != *real) *real = number; break;
        case SLOT_MAX_F64: if (number > *real || number != number) *real = number; break;
        case SLOT_WIDE_LOW: {          // low is an unsigned word: one carry
            const u64 sum = (u64)*cell + (u64)value;
            i64      *high = &((i64 *)to[slot + 1])[at];
            *high += ((const i64 *)from[slot + 1])[from_at] + (sum < (u64)value);
            *cell = (i64)sum;
            break;
        }
        case SLOT_MIN_WIDE: case SLOT_MAX_WIDE: {
            i64       *low = &((i64 *)to[slot + 1])[at];
            const i64  other = ((const i64 *)from[slot + 1])[from_at];
            const bool is_less = value != *cell ? value < *cell : (u64)other < (u64)*low;
            if (is_less == (woven->state[slot].kind == SLOT_MIN_WIDE)) *cell = value, *low = other;
            break;
        }
        case SLOT_WIDE_HIGH: case SLOT_EXTREME_LOW: case SLOT_OUT: break;
    }
}

// ---- arrays ---------------------------------------------------------------------------------------------------------

typedef struct Adding { const Woven *woven; const GroupSet *sets; int n_sets; } Adding;

#define ADD_ALL_(type, expression)                                                                                     \
    {                                                                                                                  \
        type       *to = all;                                                                                          \
        const type *from = part;                                                                                       \
        for (u64 g = first; g < end; g++) to[g] = (type)(expression);                                                  \
    }                                                                                                                  \
    break;

// Cells of one slot.  The commonest kinds have loops that the compiler makes vectors of.
static void add_slots(const Woven *woven, int slot, void *const *to_state, void *const *from_state, u64 first, u64 end)
{
    void       *all = to_state[slot];
    const void *part = from_state[slot];
    switch (woven->state[slot].kind) {
        case SLOT_SEEN: ADD_ALL_(u8, to[g] | from[g])
        case SLOT_ADD: ADD_ALL_(u64, to[g] + from[g])
        case SLOT_MIN: ADD_ALL_(i64, MIN_OF(to[g], from[g]))
        case SLOT_MAX: ADD_ALL_(i64, MAX_OF(to[g], from[g]))
        default:
            for (u64 g = first; g < end; g++) merge_cell(woven, slot, to_state, g, from_state, g);
            break;
    }
}

static void add_groups(void *context, int part, u64 first, u64 end)
{
    const Adding *adding = context;
    (void)part;
    for (int n = 1; n < adding->n_sets; n++)
        for (int s = 0; s < adding->woven->n_state; s++)
            add_slots(adding->woven, s, adding->sets[0].state, adding->sets[n].state, first, end);
}

bool groups_add(const Team *team, const Woven *woven, const GroupSet *sets, int n_sets)
{
    const RowParts parts = team_split(team, sets[0].n_groups);
    return team_rows(team, &parts, add_groups, &(Adding){ woven, sets, n_sets });
}

// ---- hash tables: which groups are the same -------------------------------------------------------------------------

typedef struct Found { u64 key; u32 set, group; } Found;       // a group as a worker has it

typedef struct MergeSlice {
    u64 end;                           // of its groups among all found; they begin where the slice before ends
    u64 slots, n_slots;                // its part of the small tables; a power of two
    u64 n_distinct;                    // 0 before step 2 is done
    u64 first;                         // of its groups among the merged
} MergeSlice;

typedef struct Merging {
    const Woven    *woven;
    const Team     *team;
    const GroupSet *sets;
    int             n_sets;
    u64             n_found;
    RowParts        parts;
    u64            *offsets;           // by set: where its groups begin when all are counted through
    int             bits, n_slices;    // of the hash; 2 to the power of that
    MergeSlice     *slices;
    u64            *starts;            // by part and slice: where in found the next one goes
    Found          *found;
    u32            *numbers;           // by found: of its key in the slice
    KernelSlot     *slots;             // key, first found + 1, and its number
    GroupSet       *out;
} Merging;

static int slice_of(const Merging *merging, u64 key)
{
    return (int)(HASH_SLOT(key) >> 32 >> (32 - merging->bits));
}

static int set_of(const Merging *merging, u64 number)
{
    int set = 0;
    while (set + 1 < merging->n_sets && merging->offsets[set + 1] <= number) set++;
    return set;
}

static void count_groups(void *context, int part, u64 first, u64 end)
{
    const Merging *merging = context;
    u64           *counts = merging->starts + (u64)part * (u64)merging->n_slices;
    while (first < end) {
        const int       set = set_of(merging, first);
        const GroupSet *groups = &merging->sets[set];
        const u64       offset = merging->offsets[set], until = MIN_OF(end, offset + groups->n_groups);
        for (; first < until; first++) counts[slice_of(merging, groups->keys[first - offset])]++;
    }
}

static void route_groups(void *context, int part, u64 first, u64 end)
{
    const Merging *merging = context;
    u64           *starts = merging->starts + (u64)part * (u64)merging->n_slices;
    while (first < end) {
        const int       set = set_of(merging, first);
        const GroupSet *groups = &merging->sets[set];
        const u64       offset = merging->offsets[set], until = MIN_OF(end, offset + groups->n_groups);
        for (; first < until; first++) {
            const u64 key = groups->keys[first - offset];
            merging->found[starts[slice_of(merging, key)]++] = (Found){ key, (u32)set, (u32)(first - offset) };
        }
    }
}

// Returns how many slots all slices need together.
static u64 cut_slices(Merging *merging)
{
    u64 n_found = 0, n_slots = 0;
    for (int s = 0; s < merging->n_slices; s++) {
        MergeSlice *slice = &merging->slices[s];
        const u64   first = n_found;
        for (int p = 0; p < merging->parts.n_parts; p++) {
            u64      *start = &merging->starts[(u64)p * (u64)merging->n_slices + (u64)s];
            const u64 n_here = *start;
            *start = n_found;
            n_found += n_here;
        }
        slice->end = n_found;
        slice->slots = n_slots, slice->n_slots = 16;
        while (slice->n_slots < 2 * (n_found - first)) slice->n_slots *= 2;
        n_slots += slice->n_slots;
    }
    ASSERT(n_found == merging->n_found);
    return n_slots;
}

static u64 slice_first(const Merging *merging, int slice) { return slice ? merging->slices[slice - 1].end : 0; }

static const u64 *words_of(const Merging *merging, const Found *found)
{
    return merging->sets[found->set].words + found->group * (u64)merging->woven->n_words;
}

static bool is_same(const Merging *merging, const KernelSlot *slot, const Found *found)
{
    if (slot->key != found->key) return false;
    return merging->woven->is_one_word || !memcmp(words_of(merging, &merging->found[slot->row - 1]),
                                                  words_of(merging, found), 8 * (size_t)merging->woven->n_words);
}

static void number_groups(void *context, int number)
{
    const Merging *merging = context;
    MergeSlice    *slice = &merging->slices[number];
    KernelSlot    *slots = merging->slots + slice->slots;
    u64            n_distinct = 0;
    for (u64 f = slice_first(merging, number); f < slice->end; f++) {
        const Found *found = &merging->found[f];
        u64          at = HASH_SLOT(found->key) & (slice->n_slots - 1);
        if (f % BLOCK_GROUPS == 0 && team_is_stopped(merging->team)) return;
        while (slots[at].row && !is_same(merging, &slots[at], found)) at = (at + 1) & (slice->n_slots - 1);
        if (!slots[at].row)
            slots[at] = (KernelSlot){ .key = found->key, .row = (u32)f + 1, .spare = (u32)n_distinct++ };
        merging->numbers[f] = slots[at].spare;
    }
    slice->n_distinct = n_distinct;
}

// ---- hash tables: the same groups added up --------------------------------------------------------------------------

static void copy_group(const Merging *merging, const Found *found, u64 to)
{
    const Woven    *woven = merging->woven;
    const GroupSet *from = &merging->sets[found->set];
    for (int s = 0; s < woven->n_state; s++) {
        const size_t bytes = woven->state[s].bytes;
        memcpy((u8 *)merging->out->state[s] + to * bytes, (const u8 *)from->state[s] + found->group * bytes, bytes);
    }
    ((u64 *)(uintptr_t)merging->out->keys)[to] = found->key;
    if (!woven->is_one_word)
        memcpy((u64 *)(uintptr_t)merging->out->words + to * (u64)woven->n_words, words_of(merging, found),
               8 * (size_t)woven->n_words);
}

static void merge_slice(void *context, int number)
{
    const Merging    *merging = context;
    const MergeSlice *slice = &merging->slices[number];
    u64               n_seen = 0;
    for (u64 f = slice_first(merging, number); f < slice->end; f++) {
        const Found *found = &merging->found[f];
        const u64    to = slice->first + merging->numbers[f];
        if (f % BLOCK_GROUPS == 0 && team_is_stopped(merging->team)) return;
        if (merging->numbers[f] == n_seen) {                   // the first of its key: they are numbered as they come
            copy_group(merging, found, to);
            n_seen++;
            continue;
        }
        for (int s = 0; s < merging->woven->n_state; s++)
            merge_cell(merging->woven, s, merging->out->state, to, merging->sets[found->set].state, found->group);
    }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

void groups_free(const Woven *woven, Budget *budget, GroupSet *set)
{
    for (int s = 0; set->state && s < woven->n_state; s++)
        mem_free(budget, set->state[s], set->n_groups * woven->state[s].bytes + 8);
    mem_free(budget, (void *)(uintptr_t)set->keys, set->n_groups * 8 + 8);
    mem_free(budget, (void *)(uintptr_t)set->words, set->n_groups * 8 * (u64)woven->n_words + 8);
    free(set->state);
    *set = (GroupSet){ 0 };
}

static weft_status room_for_groups(const Merging *merging, Budget *budget, u64 n_groups, Error *err)
{
    const Woven *woven = merging->woven;
    GroupSet    *out = merging->out;
    *out = (GroupSet){ .n_groups = n_groups, .state = calloc((size_t)woven->n_state + 1, sizeof(void *)) };
    for (int s = 0; s < woven->n_state; s++)
        TRY(mem_alloc(budget, n_groups * woven->state[s].bytes + 8, &out->state[s], err));
    TRY(mem_alloc(budget, n_groups * 8 + 8, (void **)&out->keys, err));
    return woven->is_one_word ? WEFT_OK
                              : mem_alloc(budget, n_groups * 8 * (u64)woven->n_words + 8, (void **)&out->words, err);
}

void groups_copy(const Woven *woven, const GroupSet *to, u64 at, const GroupSet *from)
{
    for (int s = 0; s < woven->n_state; s++) {
        const u64 bytes = woven->state[s].bytes;
        memcpy((u8 *)to->state[s] + at * bytes, from->state[s], from->n_groups * bytes);
    }
    memcpy((u64 *)(uintptr_t)to->keys + at, from->keys, from->n_groups * 8);
    if (!woven->is_one_word)
        memcpy((u64 *)(uintptr_t)to->words + at * (u64)woven->n_words, from->words,
               from->n_groups * 8 * (u64)woven->n_words);
}

typedef struct Taken { void **memory; size_t bytes; } Taken;

static weft_status take(Budget *budget, Taken *taken, void **memory, size_t bytes, Error *err)
{
    *taken = (Taken){ memory, bytes };
    return mem_alloc(budget, bytes, memory, err);
}

// ---- the steps ------------------------------------------------------------------------------------------------------

static weft_status canceled(Error *err)
{
    return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

static void count_found(Merging *merging, u64 *offsets)
{
    merging->offsets = offsets;
    for (int n = 0; n < merging->n_sets; n++) {
        offsets[n] = merging->n_found;
        merging->n_found += merging->sets[n].n_groups;
    }
    while (1 << merging->bits < MIN_OF(merging->team->n_threads * SLICES_EACH, SLICES_MOST)) merging->bits++;
    merging->n_slices = 1 << merging->bits;
    merging->parts = team_split(merging->team, merging->n_found);
}

static weft_status find_same(Merging *merging, Budget *budget, Taken *taken, Error *err)
{
    const u64   n_starts = (u64)merging->parts.n_parts * (u64)merging->n_slices;
    const Team *team = merging->team;
    TRY(take(budget, &taken[0], (void **)&merging->starts, n_starts * sizeof(u64), err));
    TRY(take(budget, &taken[1], (void **)&merging->slices, (size_t)merging->n_slices * sizeof(MergeSlice), err));
    TRY(take(budget, &taken[2], (void **)&merging->found, merging->n_found * sizeof(Found), err));
    TRY(take(budget, &taken[3], (void **)&merging->numbers, merging->n_found * sizeof(u32), err));
    if (!team_rows(team, &merging->parts, count_groups, merging)) return canceled(err);
    const u64 n_slots = cut_slices(merging);
    TRY(take(budget, &taken[4], (void **)&merging->slots, n_slots * sizeof(KernelSlot), err));
    if (!team_rows(team, &merging->parts, route_groups, merging)) return canceled(err);
    return team_parts(team, merging->n_slices, number_groups, merging) ? WEFT_OK : canceled(err);
}

static weft_status add_same(Merging *merging, Budget *budget, Error *err)
{
    u64 n_groups = 0;
    for (int s = 0; s < merging->n_slices; s++) {
        merging->slices[s].first = n_groups;
        n_groups += merging->slices[s].n_distinct;
    }
    TRY(room_for_groups(merging, budget, n_groups, err));
    return team_parts(merging->team, merging->n_slices, merge_slice, merging) ? WEFT_OK : canceled(err);
}

weft_status groups_merge(const Team *team, const Woven *woven, Budget *budget, const GroupSet *sets, int n_sets,
                         GroupSet *out, Error *err)
{
    enum { N_TAKEN = 5 };
    Merging merging = { .woven = woven, .team = team, .sets = sets, .n_sets = n_sets, .out = out };
    Taken   taken[N_TAKEN] = { 0 };
    u64    *offsets = calloc((size_t)n_sets + 1, sizeof *offsets);
    *out = (GroupSet){ 0 };
    count_found(&merging, offsets);
    ASSERT(merging.n_found < UINT32_MAX);
    weft_status status = find_same(&merging, budget, taken, err);
    if (!status) status = add_same(&merging, budget, err);
    for (int t = 0; t < N_TAKEN; t++)
        if (taken[t].memory) mem_free(budget, *taken[t].memory, taken[t].bytes);
    free(offsets);
    if (status) groups_free(woven, budget, out);
    return status;
}
