// chains.h - rows of equal key, found and chained in the order of the source.
//
//     Chains chains = { .team = query_team(run), .budget = query_budget(run), .n_rows = n_rows, .next = next };
//     TRY(chains_by_hash(&chains, keys, NULL, 0, slots, n_slots, err));
//     // chains.n_distinct, chains.longest; next[row] is the next row of the same key, + 1
//
// Which threads work, and how many, does not show: rows of a key are always chained in their order.  The place
// of a key in a crowded part of a hash table may differ, which does not change what a look-up finds.

#ifndef WEFT_CHAINS_H
#define WEFT_CHAINS_H

#include "base/base.h"
#include "kernel/args.h"

typedef struct Chains {
    Team    team;
    Budget *budget;                    // of what is needed meanwhile
    u64     n_rows;                    // less than 2^32
    u32    *next;                      // by row: the next one of its key + 1, 0: there is none; the caller's
    // out
    u64     n_distinct, longest;       // keys; rows of one key, at most
} Chains;

// PLACES are below SPAN, one for each row.  Sets the bit of each, and counts them in n_distinct; next is not touched.
weft_status chains_set_bits(Chains *chains, const u32 *places, u8 *bits, u64 span, Error *err);
// The first row + 1 of each place in HEADS, which is all 0 before.
weft_status chains_by_place(Chains *chains, const u32 *places, u32 *heads, u64 span, Error *err);
// The key and the first row + 1 in a slot.  SLOTS, a power of two and at least twice the rows, are all 0 before.  With
// WORDS, n_words for each row, keys are only hashes of these.
weft_status chains_by_hash(Chains *chains, const u64 *keys, const u64 *words, int n_words, KernelSlot *slots,
                           u64 n_slots, Error *err);

#endif
