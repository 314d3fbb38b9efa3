// runs.h - groups that did not fit into memory: runs in temporary files, cut into partitions, merged one by one.
//
//     runs = group_runs_new(woven, budget);
//     TRY(group_runs_add(runs, &set, err));                       // any thread: a worker's table is full; it is empty now
//     TRY(group_runs_merge(runs, &team, &merged, err));           // every key once
//     group_runs_free(runs);
//
// A run is what one table of groups held: its groups in the order of their partitions, a file.  A partition has the
// keys of which some bits of the hash are the same, so a key is in the same partition of every run, and a partition is
// merged on its own.  There are so many partitions that one is small even when all together are hundreds of times as
// large as the memory for them.

#ifndef WEFT_RUNS_H
#define WEFT_RUNS_H

#include "device/merge.h"

typedef struct GroupRuns GroupRuns;

GroupRuns  *group_runs_new(const Woven *woven, Budget *budget);
// SET is copied: groups of a hash table, their keys given.
weft_status group_runs_add(GroupRuns *runs, const GroupSet *set, Error *err);
weft_status group_runs_merge(GroupRuns *runs, const Team *team, GroupSet *out, Error *err);   // groups_free frees OUT
int         group_runs_count(const GroupRuns *runs);
u64         group_runs_groups(const GroupRuns *runs);              // of all runs
void        group_runs_free(GroupRuns *runs);                      // NULL is fine

#endif
