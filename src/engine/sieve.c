// sieve.c - see sieve.h.
//
//     value of lo_discount  ->  0b0110     riders 1 and 2 want it
//     value of lo_orderdate ->  0b0011     AND -> 0b0010: the row goes into rider 1's list
//
// Bits are as wide as the number of members needs (8, 16, 32 or 64), so that tables stay in the caches.  Columns are
// looked at in the order
// of what a look-up costs and drops.  Only rows that members who sieve by the column still want are looked up, where
// these are expected to be
// few; so the wide tables, which lie far from the core, are asked last and seldom.
//
// Whether it pays is decided in src/share (cost_sieve).

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#include "engine/sieve.h"

#include <math.h>
#include <stdlib.h>

#define MAX_COLUMNS    SHARE_COLUMNS_MOST
#define SUITS_PASS     0.25            // a member that keeps more than this is quicker over all rows
#define ASK_NS         0.4             // whether a row is to be looked up
#define DENSE_FROM     0.6             // share of rows; more are looked up without asking

typedef struct SieveColumn {
    int    number;                     // column of the table
    i64    low;                        // value of the first entry
    u64    size;                       // entries
    u64    members;                    // bits of those who sieve by it
    bool   is_dense;                   // looked at for all rows, not only for those that such members still want
    double left;                       // expected share of rows with any bit once it was looked at
    void  *who;                        // size entries of the set's lane width
} SieveColumn;

struct SieveSet {
    _Atomic int n_users;
    int         n_members, lane;       // lane: bytes per bit set
    SieveMember members[SIEVE_MEMBERS];
    u8          bit[SIEVE_MEMBERS];    // of each member; it keeps it from set to set
    u64         bits;                  // that members have
    bool        sure[SIEVE_MEMBERS];   // all of the member's exact sieves are in the columns
    int         n_columns;
    SieveColumn columns[MAX_COLUMNS];
    Budget     *budget;
    void       *memory;
    size_t      bytes;
};

// ---- which suit -----------------------------------------------------------------------------------------------------

bool sieve_is_usable(const Launch *launch, const Sieve *sieve)
{
    return share_is_sievable(&share_cpu_costs, &launch->source->columns[sieve->column]);
}

bool sieve_suits(const Launch *launch, const ShareFacts *facts)
{
    for (int t = 0; launch->woven->can_pick && t < facts->n_tests; t++)
        if (facts->tests[t].is_usable) return facts->pass <= SUITS_PASS;
    return false;
}

static double reach_ns(double bytes) { return share_reach(share_cpu_costs.sieve_reach, bytes); }

static int lane_for(int n_members) { return n_members <= 8 ? 1 : n_members <= 16 ? 2 : n_members <= 32 ? 4 : 8; }

// ---- making a set ---------------------------------------------------------------------------------------------------

static SieveColumn *column_for(SieveSet *set, int number)
{
    for (int c = 0; c < set->n_columns; c++)
        if (set->columns[c].number == number) return &set->columns[c];
    if (set->n_columns == MAX_COLUMNS) return NULL;
    SieveColumn *column = &set->columns[set->n_columns++];
    *column = (SieveColumn){ .number = number, .low = INT64_MAX };
    return column;
}

// The columns that anybody sieves by, and the range of values that anybody's snapshot has there.
static void find_columns(SieveSet *set)
{
    for (int m = 0; m < set->n_members; m++) {
        const Launch *launch = set->members[m].launch;
        set->sure[m] = true;
        for (int s = 0; s < launch->woven->n_sieves; s++) {
            const Sieve *sieve = &launch->woven->sieves[s];
            const bool is_in =
                sieve_is_usable(launch, sieve) && column_for(set, launch->source->chunk_column[sieve->column]);
            if (sieve->is_exact && !is_in) set->sure[m] = false;
        }
    }
    for (int c = 0; c < set->n_columns; c++) {
        SieveColumn *column = &set->columns[c];
        i64          high = INT64_MIN;
        for (int m = 0; m < set->n_members; m++) {
            const Source *source = set->members[m].launch->source;
            for (int s = 0; s < source->n_columns; s++) {
                if (source->chunk_column[s] != column->number) continue;
                column->low = MIN_OF(column->low, (i64)source->columns[s].range.low);
                high = MAX_OF(high, (i64)source->columns[s].range.high);
            }
        }
        column->size = (u64)(high - column->low) + 1;
    }
}

// A byte per value: 1 where it passes the member's sieve.  ANDed, so several sieves on one column are right.
static void pass_range(u8 *pass, const SieveColumn *column, i64 low, i64 high)
{
    const i64 last = column->low + (i64)column->size - 1;
    const u64 first = low <= column->low ? 0 : low > last ? column->size : (u64)(low - column->low);
    const u64 end = high >= last ? column->size : high < column->low ? 0 : (u64)(high - column->low) + 1;
    memset(pass, 0, first);
    if (end < column->size) memset(pass + end, 0, column->size - end);
}

// Eight bits become eight bytes of 0 or 1.
static u64 spread(u64 bits)
{
    const u64 apart = bits * 0x0101010101010101ull & 0x8040201008040201ull;    // a bit left in each byte, at most
    return (apart + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
}

static void pass_bits(u8 *pass, u64 first, u64 end, const u8 *table, u64 shift)
{
    u64 v = first;
    for (; v < end && (v + shift) & 7; v++) pass[v] &= table[(v + shift) >> 3] >> ((v + shift) & 7) & 1;
    for (; v + 8 <= end; v += 8) {
        u64 eight;
        memcpy(&eight, pass + v, 8);
        eight &= spread(table[(v + shift) >> 3]);
        memcpy(pass + v, &eight, 8);
    }
    for (; v < end; v++) pass[v] &= table[(v + shift) >> 3] >> ((v + shift) & 7) & 1;
}

#define PASS_TABLE(type) for (u64 v = first; v < end; v++) pass[v] &= ((const type *)slots)[v + shift] != 0;

static void pass_table(u8 *pass, const SieveColumn *column, const JoinTable *table)
{
    // Entry v of the column is entry v + shift of the table; outside of it nothing matches.
    const u64   shift = (u64)column->low - (u64)table->keys[0].low;
    const u64   first = table->keys[0].low > column->low ? (u64)(table->keys[0].low - column->low) : 0;
    const u64   end = MIN_OF(column->size, (u64)(table->keys[0].high - column->low) + 1);
    const void *slots = table->shape == SHAPE_DIRECT ? table->payloads[0].data : table->slots;
    const int width = table->shape == SHAPE_DIRECT  ? table->payloads[0].width
                      : table->shape == SHAPE_HEADS ? 4
                      : table->is_bytes             ? 1
                                                    : 0;
    switch (width) {
        case 0: pass_bits(pass, first, end, slots, shift); break;
        case 1: PASS_TABLE(u8) break;
        case 2: PASS_TABLE(u16) break;
        case 4: PASS_TABLE(u32) break;
        default: PASS_TABLE(u64) break;
    }
}

// The byte per value that says whether it passes all of the member's sieves on this column.
static void pass_member(const Launch *launch, const SieveColumn *column, u8 *pass)
{
    memset(pass, 1, column->size);
    for (int s = 0; s < launch->woven->n_sieves; s++) {
        const Sieve *sieve = &launch->woven->sieves[s];
        if (launch->source->chunk_column[sieve->column] != column->number) continue;
        pass_range(pass, column, sieve->low, sieve->high);
        if (sieve->table) pass_table(pass, column, sieve->table);
    }
}

void sieve_values(const Launch *launch, int column, i64 low, u64 size, u8 *pass)
{
    pass_member(launch, &(SieveColumn){ .number = column, .low = low, .size = size }, pass);
}

// The share of values expected to pass them.
static double column_pass(const Launch *launch, const SieveColumn *column)
{
    double share = 1;
    for (int s = 0; s < launch->woven->n_sieves; s++)
        if (launch->source->chunk_column[launch->woven->sieves[s].column] == column->number)
            share *= share_pass(&launch->woven->sieves[s],
                                &launch->source->columns[launch->woven->sieves[s].column].range);
    return share;
}

static u8 member_with(const SieveSet *set, int bit)
{
    for (int m = 0; m < set->n_members; m++)
        if (set->bit[m] == bit) return (u8)m;
    return SIEVE_MEMBERS;
}

// The bits of NEW members, eight at a time: a byte of the bit sets is worked out for all values, then put in place.
// PASS: two bytes per value to work in.
static void fill_bits(SieveSet *set, SieveColumn *column, u64 new, u8 *pass)
{
    u8 *eight = pass + column->size, *who = column->who;
    for (int first = 0; first < 8 * set->lane; first += 8) {
        if (!(new >> first & 0xff)) continue;
        memset(eight, 0, column->size);
        for (int bit = first; bit < first + 8; bit++) {
            if (!(new >> bit & 1)) continue;
            pass_member(set->members[member_with(set, bit)].launch, column, pass);
            for (u64 v = 0; v < column->size; v++) eight[v] |= (u8)(pass[v] << (bit - first));
        }
        for (u64 v = 0; v < column->size; v++)
            who[v * (u64)set->lane + (u64)first / 8] |= eight[v];  // little-endian, as all we run on
    }
}

#define KEEP_BITS(lane_type)               \
    for (u64 v = 0; v < column->size; v++) \
        ((lane_type *)column->who)[v] = ((const lane_type *)before->who)[v] & (lane_type)keep;

static void copy_bits(const SieveSet *set, SieveColumn *column, const SieveColumn *before, u64 keep)
{
    switch (set->lane) {
        case 1: KEEP_BITS(u8) break;
        case 2: KEEP_BITS(u16) break;
        case 4: KEEP_BITS(u32) break;
        default: KEEP_BITS(u64) break;
    }
}

// What the set before worked out for the members that are in both, where its table covers the same values.
static const SieveColumn *column_before(const SieveSet *before, const SieveSet *set, const SieveColumn *column)
{
    for (int c = 0; before && before->lane == set->lane && c < before->n_columns; c++) {
        const SieveColumn *other = &before->columns[c];
        if (other->number == column->number && other->low == column->low && other->size == column->size) return other;
    }
    return NULL;
}

static void fill_column(SieveSet *set, SieveColumn *column, const SieveSet *before, u64 stay, u8 *work)
{
    const SieveColumn *old = column_before(before, set, column);
    if (old) copy_bits(set, column, old, stay);
    fill_bits(set, column, old ? set->bits & ~stay : set->bits, work);
}

// ---- the order of columns -------------------------------------------------------------------------------------------

static bool sieves_by(const Launch *launch, const SieveColumn *column)
{
    for (int s = 0; s < launch->woven->n_sieves; s++)
        if (launch->source->chunk_column[launch->woven->sieves[s].column] == column->number) return true;
    return false;
}

// What looking at the column next costs, per member and row that it drops.  ALIVE: the share of rows that each member
// still wants.
static double price(const SieveSet *set, const SieveColumn *column, const double *alive, double *looked_at)
{
    double wanted = 0, dropped = 0;
    for (int m = 0; m < set->n_members; m++) {
        if (!(column->members >> set->bit[m] & 1)) continue;
        wanted += alive[m];
        dropped += alive[m] * (1 - column_pass(set->members[m].launch, column));
    }
    *looked_at = fmin(1, wanted);
    return (ASK_NS + *looked_at * reach_ns((double)column->size * set->lane)) / (dropped + 1e-9);
}

// Always the cheapest next.
static void order_columns(SieveSet *set)
{
    double alive[SIEVE_MEMBERS];
    for (int m = 0; m < set->n_members; m++) alive[m] = 1;
    for (int c = 0; c < set->n_columns; c++)
        for (int m = 0; m < set->n_members; m++)
            if (sieves_by(set->members[m].launch, &set->columns[c])) set->columns[c].members |= (u64)1 << set->bit[m];
    for (int at = 0; at < set->n_columns; at++) {
        double best = INFINITY, share = 1, any = 0;
        int    next = at;
        for (int c = at; c < set->n_columns; c++) {
            double       looked_at;
            const double own = price(set, &set->columns[c], alive, &looked_at);
            if (own < best) best = own, next = c, share = looked_at;
        }
        const SieveColumn column = set->columns[next];
        set->columns[next] = set->columns[at];
        set->columns[at] = column;
        for (int m = 0; m < set->n_members; m++) {
            alive[m] *= column_pass(set->members[m].launch, &column);
            any += alive[m];
        }
        set->columns[at].is_dense = at == 0 || share > DENSE_FROM;
        set->columns[at].left = fmin(1, any);
    }
}

// Members of the set before keep their bits, the others get free ones; returns the bits of those that stay.
static u64 give_bits(SieveSet *set, const SieveSet *before)
{
    u64 stay = 0;
    for (int m = 0; m < set->n_members; m++) {
        set->bit[m] = SIEVE_MEMBERS;
        for (int b = 0; before && b < before->n_members; b++)
            if (before->members[b].ride == set->members[m].ride)
                set->bit[m] = before->bit[b], stay |= (u64)1 << before->bit[b];
    }
    set->bits = stay;
    for (int m = 0; m < set->n_members; m++) {
        if (set->bit[m] < SIEVE_MEMBERS) continue;
        set->bit[m] = (u8)__builtin_ctzll(~set->bits);
        set->bits |= (u64)1 << set->bit[m];
    }
    return stay;
}

// As narrow as the members need; but a set of the lane of the one before can take over what that worked out.
static int choose_lane(const SieveSet *before, int n_members)
{
    const int lane = lane_for(n_members);
    return before && before->lane > lane && before->lane <= 2 * lane ? before->lane : lane;
}

static weft_status cut_tables(SieveSet *set, Budget *budget, u8 **work)
{
    Error ignored;
    u64   most = 0;
    error_clear(&ignored);
    for (int c = 0; c < set->n_columns; c++) {
        set->bytes += (set->columns[c].size * (u64)set->lane + 63) & ~(u64)63;
        most = MAX_OF(most, set->columns[c].size);
    }
    set->budget = budget;
    set->bytes += 2 * most + 64;       // to work in
    TRY(mem_alloc(budget, set->bytes, &set->memory, &ignored));
    u8 *memory = set->memory;
    for (int c = 0; c < set->n_columns; c++) {
        set->columns[c].who = memory;
        memory += (set->columns[c].size * (u64)set->lane + 63) & ~(u64)63;
    }
    *work = memory;
    return WEFT_OK;
}

SieveSet *sieve_make(Budget *budget, const SieveSet *before, const SieveMember *members, int n_members)
{
    SieveSet *set = calloc(1, sizeof *set);
    u8       *work;
    atomic_init(&set->n_users, 1);
    set->n_members = n_members, set->lane = choose_lane(before, n_members);
    memcpy(set->members, members, (size_t)n_members * sizeof *members);
    u64 stay = give_bits(set, before);
    if (set->lane < 8 && set->bits >> (8 * set->lane)) {       // a narrower lane: the bits are given anew
        stay = give_bits(set, NULL);
        before = NULL;
    }
    find_columns(set);
    if (cut_tables(set, budget, &work)) {
        free(set);
        return NULL;
    }
    for (int c = 0; c < set->n_columns; c++) fill_column(set, &set->columns[c], before, stay, work);
    order_columns(set);
    return set;
}

SieveSet *sieve_hold(SieveSet *set)
{
    atomic_fetch_add(&set->n_users, 1);
    return set;
}

void sieve_release(SieveSet *set)
{
    if (!set || atomic_fetch_sub(&set->n_users, 1) > 1) return;
    mem_free(set->budget, set->memory, set->bytes);
    free(set);
}

bool sieve_is_for(const SieveSet *set, const SieveMember *members, int n_members)
{
    if (!set || set->n_members != n_members) return false;
    for (int m = 0; m < n_members; m++)
        if (set->members[m].ride != members[m].ride) return false;
    return true;
}

// ---- pushing --------------------------------------------------------------------------------------------------------

// A slice is looked at block by block, so that bit sets stay in L1; rows for members are collected over the slice.
#define BLOCK 2048u

typedef struct Scratch { u64 *who; u16 *live, *some, *lists; } Scratch;

size_t sieve_scratch_bytes(u32 n_rows) { return BLOCK * (8 + 2 + 2) + (size_t)n_rows * 2 * SIEVE_MEMBERS + 256; }

static Scratch cut_scratch(void *memory)
{
    u64 *words = memory;
    u16 *rows = (u16 *)(void *)(words + BLOCK);
    return (Scratch){ .who = words, .live = rows, .some = rows + BLOCK, .lists = rows + 2 * BLOCK };
}

// While most rows have a bit, columns narrow all of them (set, also); then the rows with one are listed and only they
// are looked at.
#define LOOK_FUNCTIONS(lane, key)                                                                                    \
    static u32 set_##lane##_##key(lane *who, u16 *live, u32 n, const key *stored, u64 from, const lane *table)       \
    {                                                                                                                \
        (void)live;                                                                                                  \
        for (u32 r = 0; r < n; r++)                                                                                  \
            who[r] = table[stored[r] + from];                                                                        \
        return n;                                                                                                    \
    }                                                                                                                \
    static u32 also_##lane##_##key(lane *who, u16 *live, u32 n, const key *stored, u64 from, const lane *table)      \
    {                                                                                                                \
        (void)live;                                                                                                  \
        for (u32 r = 0; r < n; r++)                                                                                  \
            who[r] &= table[stored[r] + from];                                                                       \
        return n;                                                                                                    \
    }                                                                                                                \
    static u32 live_##lane##_##key(lane *who, u16 *live, u32 n_live, const key *stored, u64 from, const lane *table) \
    {                                                                                                                \
        u32 n = 0;                                                                                                   \
        for (u32 k = 0; k < n_live; k++) {                                                                           \
            const u32 r = live[k];                                                                                   \
            who[r] &= table[stored[r] + from];                                                                       \
            live[n] = (u16)r;                                                                                        \
            n += who[r] != 0;                                                                                        \
        }                                                                                                            \
        return n;                                                                                                    \
    }                                                                                                                \
    static void some_##lane##_##key(lane *who, const u16 *some, u32 n_some, const key *stored, u64 from,             \
                                    const lane *table)                                                               \
    {                                                                                                                \
        for (u32 k = 0; k < n_some; k++)                                                                             \
            who[some[k]] &= table[stored[some[k]] + from];                                                           \
    }
#define LOOK_LANE(lane)                                                                               \
    LOOK_FUNCTIONS(lane, u8)                                                                          \
    LOOK_FUNCTIONS(lane, u16) LOOK_FUNCTIONS(lane, u32)                                               \
        LOOK_FUNCTIONS(lane, u64) static u32 list_##lane(const lane *who, u16 *live, u32 n_rows)      \
    {                                                                                                 \
        u32 n = 0;                                                                                    \
        for (u32 r = 0; r < n_rows; r++) {                                                            \
            live[n] = (u16)r;                                                                         \
            n += who[r] != 0;                                                                         \
        }                                                                                             \
        return n;                                                                                     \
    }                                                                                                 \
    static u32 ask_all_##lane(const lane *who, u16 *some, u32 n_rows, lane members)                   \
    {                                                                                                 \
        u32 n = 0;                                                                                    \
        for (u32 r = 0; r < n_rows; r++) {                                                            \
            some[n] = (u16)r;                                                                         \
            n += (who[r] & members) != 0;                                                             \
        }                                                                                             \
        return n;                                                                                     \
    }                                                                                                 \
    static u32 ask_live_##lane(const lane *who, u16 *some, const u16 *live, u32 n_live, lane members) \
    {                                                                                                 \
        u32 n = 0;                                                                                    \
        for (u32 k = 0; k < n_live; k++) {                                                            \
            some[n] = live[k];                                                                        \
            n += (who[live[k]] & members) != 0;                                                       \
        }                                                                                             \
        return n;                                                                                     \
    }
LOOK_LANE(u8)
LOOK_LANE(u16)
LOOK_LANE(u32)
LOOK_LANE(u64)

typedef enum LookMode { LOOK_SET, LOOK_ALSO, LOOK_LIVE, LOOK_SOME } LookMode;

#define LOOK(lane, key)                                                                                    \
    (mode == LOOK_SET    ? set_##lane##_##key((lane *)who, rows, n, (const key *)data, from, column->who)  \
     : mode == LOOK_ALSO ? also_##lane##_##key((lane *)who, rows, n, (const key *)data, from, column->who) \
     : mode == LOOK_LIVE ? live_##lane##_##key((lane *)who, rows, n, (const key *)data, from, column->who) \
                         : (some_##lane##_##key((lane *)who, rows, n, (const key *)data, from, column->who), n))
#define LOOK_BY_KEY(lane) \
    (width == 1 ? LOOK(lane, u8) : width == 2 ? LOOK(lane, u16) : width == 4 ? LOOK(lane, u32) : LOOK(lane, u64))

// Narrows by one column; N is the number of rows, or of those in ROWS.
static u32 look(const SieveSet *set, const SieveColumn *column, const ColumnChunk *chunk, u32 first, void *who,
                u16 *rows, u32 n, LookMode mode)
{
    const int   width = chunk->width;
    const void *data = (const u8 *)chunk->data + (size_t)first * (size_t)width;
    const u64   from = (u64)chunk->base - (u64)column->low;
    switch (set->lane) {
        case 1: return LOOK_BY_KEY(u8);
        case 2: return LOOK_BY_KEY(u16);
        case 4: return LOOK_BY_KEY(u32);
        default: return LOOK_BY_KEY(u64);
    }
}

#define ASK(lane)                                                                                            \
    (is_listed ? ask_live_##lane((const lane *)scratch->who, scratch->some, scratch->live, n, (lane)members) \
               : ask_all_##lane((const lane *)scratch->who, scratch->some, n, (lane)members))

// The rows among N that MEMBERS still want, in scratch->some.
static u32 ask(const SieveSet *set, const Scratch *scratch, bool is_listed, u32 n, u64 members)
{
    switch (set->lane) {
        case 1: return ASK(u8);
        case 2: return ASK(u16);
        case 4: return ASK(u32);
        default: return ASK(u64);
    }
}

static u32 relist(const SieveSet *set, const Scratch *scratch, u32 n_live)
{
    u32 n = 0;
    for (u32 k = 0; k < n_live; k++) {
        const u32 row = scratch->live[k];
        const u64 bits = set->lane == 1   ? ((const u8 *)scratch->who)[row]
                         : set->lane == 2 ? ((const u16 *)scratch->who)[row]
                         : set->lane == 4 ? ((const u32 *)scratch->who)[row]
                                          : scratch->who[row];
        scratch->live[n] = (u16)row;
        n += bits != 0;
    }
    return n;
}

static u32 list_live(const SieveSet *set, const Scratch *scratch, u32 n_rows)
{
    switch (set->lane) {
        case 1: return list_u8((const u8 *)scratch->who, scratch->live, n_rows);
        case 2: return list_u16((const u16 *)scratch->who, scratch->live, n_rows);
        case 4: return list_u32((const u32 *)scratch->who, scratch->live, n_rows);
        default: return list_u64(scratch->who, scratch->live, n_rows);
    }
}

#define LIST_AT 0.5                    // once fewer rows than this are expected to have a bit

static u32 look_at_all(const SieveSet *set, const Chunk *chunk, u32 first, u32 n_rows, const Scratch *scratch)
{
    bool is_listed = false;
    u32  n = n_rows;
    for (int c = 0; c < set->n_columns && n; c++) {
        const SieveColumn *column = &set->columns[c];
        const ColumnChunk *stored = &chunk->columns[column->number];
        if (column->is_dense) {
            n = look(set, column, stored, first, scratch->who, scratch->live, n,
                     is_listed ? LOOK_LIVE
                     : c       ? LOOK_ALSO
                               : LOOK_SET);
        } else {
            const u32 n_some = ask(set, scratch, is_listed, n, column->members);
            look(set, column, stored, first, scratch->who, scratch->some, n_some, LOOK_SOME);
        }
        const bool is_last = c + 1 == set->n_columns;
        if (!is_listed && (column->left < LIST_AT || is_last)) n = list_live(set, scratch, n), is_listed = true;
        else if (is_listed && is_last && !column->is_dense) n = relist(set, scratch, n);
    }
    return n;
}

// From bit sets to lists, without a branch that depends on the data: round after round every row that has bits left
// gives one away.
// LIVE is used up.
#define DEAL_LANE(lane, lowest)                                                                                \
    static void deal_##lane(lane *who, u16 *live, u32 n_live, u32 base, u16 *lists, u32 n_rows, u32 *n_listed) \
    {                                                                                                          \
        for (u32 n = n_live, left; n; n = left) {                                                              \
            left = 0;                                                                                          \
            for (u32 k = 0; k < n; k++) {                                                                      \
                const u32 row = live[k];                                                                       \
                const lane bits = who[row], rest = (lane)(bits & (bits - 1));                                  \
                const u32 bit = (u32)lowest(bits);                                                             \
                lists[(size_t)bit * n_rows + n_listed[bit]++] = (u16)(base + row);                             \
                who[row] = rest;                                                                               \
                live[left] = (u16)row;                                                                         \
                left += rest != 0;                                                                             \
            }                                                                                                  \
        }                                                                                                      \
    }
DEAL_LANE(u8, __builtin_ctz)
DEAL_LANE(u16, __builtin_ctz)
DEAL_LANE(u32, __builtin_ctz)
DEAL_LANE(u64, __builtin_ctzll)

static void deal_out(const SieveSet *set, const Scratch *scratch, u32 n_live, u32 base, u32 n_rows, u32 *n_listed)
{
    switch (set->lane) {
        case 1: deal_u8((u8 *)scratch->who, scratch->live, n_live, base, scratch->lists, n_rows, n_listed); break;
        case 2: deal_u16((u16 *)scratch->who, scratch->live, n_live, base, scratch->lists, n_rows, n_listed); break;
        case 4: deal_u32((u32 *)scratch->who, scratch->live, n_live, base, scratch->lists, n_rows, n_listed); break;
        default: deal_u64(scratch->who, scratch->live, n_live, base, scratch->lists, n_rows, n_listed); break;
    }
}

// Stored values lead into tables here, so damaged ones must not get this far; the members' own checks then say what is
// wrong.
static bool is_intact(const SieveSet *set, const Chunk *chunk)
{
    Error ignored;
    error_clear(&ignored);
    for (int c = 0; c < set->n_columns; c++)
        if (chunk_verify(chunk, set->columns[c].number, &ignored)) return false;
    return true;
}

static void push_unsieved(const SieveSet *set, const int *chunks, Gate *gates, int slot, u32 first, u32 end)
{
    for (int m = 0; m < set->n_members; m++) {
        const SieveMember *member = &set->members[m];
        if (!gate_enter(&gates[m])) continue;
        member->device->push(member->device, member->launch, slot, chunks[m], first, end);
        gate_leave(&gates[m]);
    }
}

// One slice on its way through a set.
typedef struct Sieving {
    const SieveSet *set;
    const int      *chunks;
    Gate           *gates;
    int             slot;
    u32             first, n_rows;
    Scratch         scratch;
    u32             n_listed[SIEVE_MEMBERS];
} Sieving;

static void push_lists(const Sieving *s)
{
    for (int m = 0; m < s->set->n_members; m++) {
        const SieveMember *member = &s->set->members[m];
        const u32          bit = s->set->bit[m];
        if (!s->n_listed[bit] || !gate_enter(&s->gates[m])) continue;
        member->device->push_picked(member->device, member->launch, s->slot, s->chunks[m], s->first,
                                    s->scratch.lists + (size_t)bit * s->n_rows, s->n_listed[bit], s->set->sure[m]);
        gate_leave(&s->gates[m]);
    }
}

void sieve_push(const SieveSet *set, const Chunk *chunk, const int *chunks, Gate *gates, int slot, u32 first, u32 end,
                void *memory)
{
    Sieving s = { .set = set,
                  .chunks = chunks,
                  .gates = gates,
                  .slot = slot,
                  .first = first,
                  .n_rows = end - first,
                  .scratch = cut_scratch(memory) };
    if (!is_intact(set, chunk)) {
        push_unsieved(set, chunks, gates, slot, first, end);
        return;
    }
    for (u32 at = 0; at < s.n_rows; at += BLOCK) {
        const u32 n_live = look_at_all(set, chunk, first + at, MIN_OF(BLOCK, s.n_rows - at), &s.scratch);
        if (n_live) deal_out(set, &s.scratch, n_live, at, s.n_rows, s.n_listed);
    }
    push_lists(&s);
}
