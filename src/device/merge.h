// merge.h - groups that several workers found, as one set.
//
//     TRY(groups_merge(&team, woven, budget, sets, n_sets, &merged, err));      // hash groups
//     groups_free(woven, budget, &merged);
//
// Which thread merges what does not show in what a group holds; groups of a hash table come in no order.

#ifndef WEFT_MERGE_H
#define WEFT_MERGE_H

#include "device/device.h"

// Adds cell FROM_AT of a worker's state to cell AT of another's; both by state slot.  Of a wide sum, the slot of the
// low word does both.
void merge_cell(const Woven *woven, int slot, void *const *to, u64 at, void *const *from, u64 from_at);

// Array groups: all cells of the sets after the first are added to those of the first.  False: it was stopped.
bool groups_add(const Team *team, const Woven *woven, const GroupSet *sets, int n_sets);

// Hash groups of all sets, each key once, in new memory.  Keys must be given, also where there are words.  On failure
// OUT is empty.
weft_status groups_merge(const Team *team, const Woven *woven, Budget *budget, const GroupSet *sets, int n_sets,
                         GroupSet *out, Error *err);
void        groups_copy(const Woven *woven, const GroupSet *to, u64 at, const GroupSet *from);  // all, from AT on
void        groups_free(const Woven *woven, Budget *budget, GroupSet *set);

#endif
