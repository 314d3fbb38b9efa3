// spill.h - a query that needs more than memory_limit goes through temporary files.
//
//     first try                 as always: fastest, shared with others
//     met the limit, had company   again, alone (admission.h)
//     met the limit alone          again, spilling: run->spills
//
// A query that spills gets half of the memory that is free, and a scan and threads of its own, on the CPU.  Others run
// in the other half, and do not wait for its disk.  All large memory that it wants beyond its half is in
// temporary files (base/temp.c): rows, stored rows, the result.  What is read and written in order needs no more than
// that.  What is used at random is cut into partitions that fit.
//
// Any number of tries leaves nothing: memory and files go with the query's arenas and launches.

#ifndef WEFT_SPILL_H
#define WEFT_SPILL_H

#include "engine/engine.h"

bool        spill_is_possible(const QueryRun *run);            // the limit ended this try, and files would not
weft_status spill_wait_for_memory(QueryRun *run);              // its claim, as of admission.h
u64         spill_group_bytes(const QueryRun *run);            // of a worker's table of groups; 0: it does not spill
// Memory that is in a file at any rate; freed with the arena.
weft_status spill_alloc(QueryRun *run, Arena *arena, size_t bytes, void **out);
// Sorting: VIEWS become views of the sorted rows, the first N_WANTED of them; equal rows stay in order (spill_sort.c).
// Suits: the query spills, and memory for sorting them is not there.  WITH: how rows that fit are sorted, and compared.
typedef struct SortWith {
    weft_status (*sort)(QueryRun *run, View *views, u64 n_rows, const ViewKey *keys, int n_keys, u64 **rows);
    int         (*compare)(const View *view, u64 a, u64 b);
} SortWith;
bool        spill_sort_suits(const QueryRun *run, u64 n_rows, u64 n_wanted);
weft_status spill_sort(QueryRun *run, SortWith with, View *views, int n_views, const ViewKey *keys, int n_keys,
                       u64 n_rows, u64 n_wanted);
// Joins (spill_join.c).  Suits: the table of these rows will not fit, and its key can be divided.  Cut: run->join_parts
// has the rows then, and TABLE is a description without contents.
bool        spill_join_suits(const QueryRun *run, int pipeline, const Launch *launch);
weft_status spill_join_cut(QueryRun *run, int pipeline, const Launch *launch, JoinTable **table);
JoinParts  *spill_join_parts(const QueryRun *run, const JoinTable *table);     // NULL: it is whole
int         spill_join_count(const JoinParts *parts);
int         spill_join_key(const JoinParts *parts);             // the key by whose ranges it is cut
weft_status spill_join_table(QueryRun *run, const JoinParts *parts, int part, Arena *home, JoinTable **table);
// What a probing row of this part meets; KEY: that of the probe.  *FILTER NULL: all rows do.
weft_status spill_join_filter(QueryRun *run, const JoinParts *parts, int part, Expr *key, Expr **filter);
void        spill_join_end(QueryRun *run, JoinParts *parts);
void        spill_print(const QueryRun *run, Text *text);      // for EXPLAIN ANALYZE; nothing where nothing was spilled

#endif
