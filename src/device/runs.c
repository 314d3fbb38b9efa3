// runs.c - see runs.h.
//
//     worker 0   [p0 p1 p2 ..] [p0 p1 p2 ..]      runs, a file each: every array of the table, by partition
//     worker 1   [p0 p1 p2 ..]
//                  |
//                  +-> p0 of all runs -> groups_merge --+
//                      p1 of all runs -> groups_merge --+-> one set, in files
//
// Invariant: a group's state is what its rows since the last run left, so adding it up over runs is what merging
// workers does.

#include "device/runs.h"

#include <stdlib.h>

typedef struct GroupRun {
    void    *memory;                   // the file: state by slot, then keys, then words
    size_t   bytes;
    GroupSet set;
    u64      starts[GROUP_PARTITIONS + 1];
} GroupRun;

struct GroupRuns {
    const Woven    *woven;
    Budget         *budget;
    pthread_mutex_t lock;
    int             n_runs;
    GroupRun      **runs;
    u64             n_groups;
};

GroupRuns *group_runs_new(const Woven *woven, Budget *budget)
{
    GroupRuns *runs = calloc(1, sizeof *runs);
    runs->woven = woven, runs->budget = budget;
    pthread_mutex_init(&runs->lock, NULL);
    return runs;
}

static void free_run(const GroupRuns *runs, GroupRun *run)
{
    mem_free(runs->budget, run->memory, run->bytes);
    free(run->set.state);
    free(run);
}

void group_runs_free(GroupRuns *runs)
{
    if (!runs) return;
    for (int r = 0; r < runs->n_runs; r++) free_run(runs, runs->runs[r]);
    free(runs->runs);
    pthread_mutex_destroy(&runs->lock);
    free(runs);
}

int group_runs_count(const GroupRuns *runs) { return runs->n_runs; }
u64 group_runs_groups(const GroupRuns *runs) { return runs->n_groups; }

// ---- a run ----------------------------------------------------------------------------------------------------------

// Other bits than those by which groups_merge cuts slices, or a partition would be one slice.
static int partition_of(u64 key) { return (int)(HASH_SLOT(key) >> 48 & (GROUP_PARTITIONS - 1)); }

static u64 words_bytes(const Woven *woven) { return woven->is_one_word ? 0 : 8 * (u64)woven->n_words; }

static u64 group_bytes(const Woven *woven)
{
    u64 bytes = 8 + words_bytes(woven);
    for (int s = 0; s < woven->n_state; s++) bytes += woven->state[s].bytes;
    return bytes;
}

// Arrays lie one behind the other; those of 8 bytes first, as SEEN has 1.
static void lay_out(const Woven *woven, GroupRun *run, u64 n_groups)
{
    u8 *at = run->memory;
    run->set.n_groups = n_groups;
    run->set.keys = (u64 *)at, at += 8 * n_groups;
    if (!woven->is_one_word) run->set.words = (u64 *)at;
    at += words_bytes(woven) * n_groups;
    for (int wide = 1; wide >= 0; wide--)
        for (int s = 0; s < woven->n_state; s++) {
            if ((woven->state[s].bytes == 8) != wide) continue;
            run->set.state[s] = at;
            at += woven->state[s].bytes * n_groups;
        }
}

static void count_partitions(GroupRun *run, const GroupSet *set)
{
    for (u64 g = 0; g < set->n_groups; g++) run->starts[partition_of(set->keys[g]) + 1]++;
    for (int p = 0; p < GROUP_PARTITIONS; p++) run->starts[p + 1] += run->starts[p];
}

// The groups of SET by partition.
static void list_by_partition(const GroupRun *run, const GroupSet *set, u32 *list)
{
    u64 next[GROUP_PARTITIONS];
    memcpy(next, run->starts, sizeof next);
    for (u64 g = 0; g < set->n_groups; g++) list[next[partition_of(set->keys[g])]++] = (u32)g;
}

static void gather(void *to, const void *from, u64 size, const u32 *list, u64 n)
{
    if (size == 8)
        for (u64 i = 0; i < n; i++) ((u64 *)to)[i] = ((const u64 *)from)[list[i]];
    else
        for (u64 i = 0; i < n; i++) memcpy((u8 *)to + i * size, (const u8 *)from + list[i] * size, size);
}

static void copy_groups(const Woven *woven, const GroupRun *run, const GroupSet *set, const u32 *list)
{
    const u64 n = set->n_groups;
    gather((void *)(uintptr_t)run->set.keys, set->keys, 8, list, n);
    if (!woven->is_one_word) gather((void *)(uintptr_t)run->set.words, set->words, words_bytes(woven), list, n);
    for (int s = 0; s < woven->n_state; s++)
        gather(run->set.state[s], set->state[s], woven->state[s].bytes, list, n);
}

static weft_status fill_run(GroupRuns *runs, GroupRun *run, const GroupSet *set, Error *err)
{
    u32 *list = malloc((set->n_groups + 1) * sizeof *list);
    if (!list) return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused a list of groups");
    run->bytes = set->n_groups * group_bytes(runs->woven) + 8;
    const weft_status status = mem_alloc_in_file(runs->budget, run->bytes, &run->memory, err);
    if (!status) {
        lay_out(runs->woven, run, set->n_groups);
        count_partitions(run, set);
        list_by_partition(run, set, list);
        copy_groups(runs->woven, run, set, list);
    }
    free(list);
    return status;
}

weft_status group_runs_add(GroupRuns *runs, const GroupSet *set, Error *err)
{
    GroupRun *run = calloc(1, sizeof *run);
    ASSERT(set->n_groups < UINT32_MAX);
    run->set.state = calloc((size_t)runs->woven->n_state + 1, sizeof(void *));
    const weft_status status = fill_run(runs, run, set, err);
    if (status) {
        free_run(runs, run);
        return status;
    }
    pthread_mutex_lock(&runs->lock);
    runs->runs = realloc(runs->runs, (size_t)(runs->n_runs + 1) * sizeof *runs->runs);
    runs->runs[runs->n_runs++] = run;
    runs->n_groups += set->n_groups;
    pthread_mutex_unlock(&runs->lock);
    return WEFT_OK;
}

// ---- merging --------------------------------------------------------------------------------------------------------

typedef struct RunMerge {
    GroupRuns  *runs;
    const Team *team;
    GroupSet   *sets;                  // by run: the partition at hand
    void      **states;                // by run and slot
    GroupSet   *out;                   // has so many groups so far
} RunMerge;

static GroupSet part_of_run(const RunMerge *merge, int number, int partition)
{
    const Woven    *woven = merge->runs->woven;
    const GroupRun *run = merge->runs->runs[number];
    const u64       first = run->starts[partition];
    GroupSet        part = { .n_groups = run->starts[partition + 1] - first,
                             .state = merge->states + (size_t)number * (size_t)woven->n_state,
                             .keys = run->set.keys + first };
    if (!woven->is_one_word) part.words = run->set.words + first * (u64)woven->n_words;
    for (int s = 0; s < woven->n_state; s++)
        part.state[s] = (u8 *)run->set.state[s] + first * woven->state[s].bytes;
    return part;
}

static weft_status merge_partition(RunMerge *merge, int partition, Error *err)
{
    GroupRuns *runs = merge->runs;
    GroupSet   merged;
    int        n_sets = 0;
    for (int r = 0; r < runs->n_runs; r++) {
        merge->sets[n_sets] = part_of_run(merge, r, partition);
        n_sets += merge->sets[n_sets].n_groups > 0;
    }
    if (!n_sets) return WEFT_OK;
    TRY(groups_merge(merge->team, runs->woven, runs->budget, merge->sets, n_sets, &merged, err));
    groups_copy(runs->woven, merge->out, merge->out->n_groups, &merged);
    merge->out->n_groups += merged.n_groups;
    groups_free(runs->woven, runs->budget, &merged);
    return WEFT_OK;
}

// In files, as long as if no key were in two runs; n_groups says how much of that is used.
static weft_status room_in_files(const GroupRuns *runs, GroupSet *out, Error *err)
{
    const Woven *woven = runs->woven;
    const u64    n = runs->n_groups;
    out->state = calloc((size_t)woven->n_state + 1, sizeof(void *));
    for (int s = 0; s < woven->n_state; s++)
        TRY(mem_alloc_in_file(runs->budget, n * woven->state[s].bytes + 8, &out->state[s], err));
    TRY(mem_alloc_in_file(runs->budget, n * 8 + 8, (void **)(uintptr_t)&out->keys, err));
    if (woven->is_one_word) return WEFT_OK;
    return mem_alloc_in_file(runs->budget, n * words_bytes(woven) + 8, (void **)(uintptr_t)&out->words, err);
}

weft_status group_runs_merge(GroupRuns *runs, const Team *team, GroupSet *out, Error *err)
{
    const Woven *woven = runs->woven;
    RunMerge    *merge = calloc(1, sizeof *merge);
    weft_status  status;
    *out = (GroupSet){ 0 };
    merge->runs = runs, merge->team = team, merge->out = out;
    merge->sets = calloc((size_t)runs->n_runs + 1, sizeof *merge->sets);
    merge->states = calloc((size_t)runs->n_runs * (size_t)woven->n_state + 1, sizeof *merge->states);
    status = room_in_files(runs, out, err);
    for (int p = 0; p < GROUP_PARTITIONS && !status; p++) status = merge_partition(merge, p, err);
    if (status) groups_free(woven, runs->budget, out);
    free(merge->states);
    free(merge->sets);
    free(merge);
    return status;
}
