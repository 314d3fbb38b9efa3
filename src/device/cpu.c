// cpu.c - the CPU device: rows of a chunk through a kernel, into state that is private to a slot.
//
//     push(slot, chunk, rows) -> kernel -> the slot's accumulators or rows -> finish: merged
//
// A push is the unit of everything that must not wait: cancelling, swapping in better code, stopping at a limit.
// Output rows are kept as segments, one per push, and put together in the order of the source, so a result depends
// neither on the number of threads nor on where in the table its scan began.  The kernel calls back only for what is
// rare: more room for rows, a new group.

#include "device/runs.h"
#include "kernel/generic_args.h"
#include "kernel/kernel.h"

#include <stdlib.h>

typedef struct Segment { u64 at, first, n_rows; } Segment;                    // at: chunk and row of the source

typedef struct CpuRun CpuRun;

typedef struct SlotWorker {            // of one slot
    bool          is_open;
    KernelArgs    args;                // args.host points back here
    KernelCommon  common;              // a program is in it
    CpuRun       *run;
    KernelColumn *columns;
    i64          *params;
    int           chunk;               // what columns and params are set for; -1: none
    u64           n_used, n_room;      // rows or groups in state, and how many fit
    u64           first_used;          // rows: n_used when the push began
    u64           n_counted;           // only_counts: rows that are not in the run's rows_out yet
    u64           n_to_count;          // and such rows of the last tile, whose numbers lie in state
    u64           n_slots;             // hash: of args.groups
    u64          *group_keys;          // hash: by group, for merging and growing
    Segment      *segments;
    u64           n_segments, segments_room;
    u32           morsels[N_TIERS];
    double        slow_ms;             // in other code than cc's
    Error         error;
    weft_status   status;
} SlotWorker;

struct CpuRun {
    Launch       *launch;
    _Atomic u64   rows_out;
    SlotWorker   *workers;             // by slot
    double        start_ms;
    bool          rows_merged;
    GroupRuns    *runs;                // groups that did not fit; NULL: all did, so far
    pthread_mutex_t runs_lock;
    void        **entries;             // by table: of a program's look-ups (note_entries); NULL: of none
    size_t       *entry_bytes;         // by table
    GroupSet      merged;              // state NULL: groups are in the first worker's state
};

#define ENTRIES_FROM ((size_t)16 << 10)            // bytes of a table that is worth bits beside it
#define LEAST_GROUPS 1024u             // room of a new table
#define LEAST_SLOTS  4096u

// ---- state that grows -----------------------------------------------------------------------------------------------

static u64 slot_bytes(const Woven *woven, int slot) { return woven->state[slot].bytes; }

static void init_cells(const StateSlot *slot, void *cells, u64 from, u64 to)
{
    if (slot->init == 0 || slot->bytes != 8) return;                           // fresh memory is zero
    for (u64 i = from; i < to; i++) ((u64 *)cells)[i] = slot->init;
}

static bool is_stopped(const SlotWorker *worker)
{
    return atomic_load_explicit(worker->run->launch->stop, memory_order_relaxed) != 0;
}

static weft_status canceled(Error *err)
{
    return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

// Gigabytes take long to copy: a cancel is seen in between.
static weft_status copy_cells(const SlotWorker *worker, void *to, const void *from, u64 bytes, Error *err)
{
    const u64 piece = 4 << 20;
    for (u64 at = 0; at < bytes; at += piece) {
        if (is_stopped(worker)) return canceled(err);
        memcpy((u8 *)to + at, (const u8 *)from + at, MIN_OF(piece, bytes - at));
    }
    return WEFT_OK;
}

typedef struct Growing { void **memory; u64 size; void *larger; } Growing;

// The arrays that hold one cell per row or group of a worker.
static int list_growing(SlotWorker *worker, Growing *list)
{
    const Launch *launch = worker->run->launch;
    const Woven  *woven = launch->woven;
    int           n = 0;
    for (int s = 0; s < woven->n_state; s++)
        list[n++] = (Growing){ .memory = &worker->args.state[s], .size = slot_bytes(woven, s) };
    if (launch->sink == SINK_GROUPS && woven->group_kind == GROUP_HASH) {
        list[n++] = (Growing){ .memory = (void **)&worker->group_keys, .size = 8 };
        if (!woven->is_one_word)
            list[n++] = (Growing){ .memory = (void **)&worker->args.group_words, .size = 8 * (u64)woven->n_words };
    }
    return n;
}

// All arrays grow or none does, so n_room is always the size of each.
static weft_status grow_state(SlotWorker *worker, u64 n_room)
{
    const Woven *woven = worker->run->launch->woven;
    Budget      *budget = worker->run->launch->budget;
    ASSERT(n_room >= worker->n_room && worker->n_used <= worker->n_room);
    Growing     *list = calloc((size_t)woven->n_state + 2, sizeof *list);
    const int    n = list_growing(worker, list);
    weft_status  status = WEFT_OK;
    for (int i = 0; i < n && !status; i++)
        status = mem_alloc(budget, n_room * list[i].size, &list[i].larger, &worker->error);
    for (int i = 0; i < n && !status; i++)
        status = copy_cells(worker, list[i].larger, *list[i].memory, worker->n_used * list[i].size, &worker->error);
    for (int i = 0; i < n; i++) {
        if (status) {
            mem_free(budget, list[i].larger, n_room * list[i].size);
            continue;
        }
        if (i < woven->n_state) init_cells(&woven->state[i], list[i].larger, worker->n_used, n_room);
        mem_free(budget, *list[i].memory, worker->n_room * list[i].size);
        *list[i].memory = list[i].larger;
    }
    if (!status) worker->n_room = n_room;
    free(list);
    return status;
}

static void stop_with(SlotWorker *worker, weft_status status)
{
    worker->status = status;
    atomic_store_explicit(worker->run->launch->stop, 1, memory_order_relaxed);
}

static const u32 now = 1;

// Rows in the order of the source: when a push alone has as many as the limit asks for, the rest of it is not needed.
// It would be a push that turns a row into very many, or else its end is near.
static bool is_enough_of_push(const SlotWorker *worker)
{
    const i64 limit = worker->run->launch->limit;
    return limit >= 0 && !worker->status && worker->n_used - worker->first_used >= (u64)limit;
}

static bool cpu_is_enough(const Device *device, const Launch *launch)
{
    const CpuRun *run = launch->memory;
    (void)device;
    return launch->limit >= 0 && (i64)atomic_load_explicit(&run->rows_out, memory_order_relaxed) >= launch->limit;
}

#define COUNT_STEP ((u64)1 << 20)      // rows that a worker counts by itself
#define COUNT_MOST ((u64)1 << 54)      // more rows do not fit anywhere, and sums of a few of these do not overflow

static u64 count_of(const SlotWorker *worker, u64 row)
{
    u64 product = 1;
    for (int s = 0; s < worker->run->launch->woven->n_state && product < COUNT_MOST; s++)
        if (__builtin_mul_overflow(product, ((const u64 *)worker->args.state[s])[row], &product)) return COUNT_MOST;
    return MIN_OF(product, COUNT_MOST);
}

static void count_last_rows(SlotWorker *worker)
{
    const bool is_one_each = worker->run->launch->woven->n_state == 0;
    if (is_one_each) worker->n_counted += worker->n_to_count;
    for (u64 row = 0; row < worker->n_to_count && !is_one_each; row++)
        worker->n_counted = MIN_OF(worker->n_counted + count_of(worker, row), COUNT_MOST);
    worker->n_to_count = 0;
}

static void add_counted(SlotWorker *worker)
{
    _Atomic u64 *rows_out = &worker->run->rows_out;
    count_last_rows(worker);
    if (atomic_load_explicit(rows_out, memory_order_relaxed) < COUNT_MOST)
        atomic_fetch_add_explicit(rows_out, worker->n_counted, memory_order_relaxed);
    worker->n_counted = 0;
}

// Rows are written over those before, which are counted by then.
static u64 count_rows(SlotWorker *worker, u32 n_rows)
{
    ASSERT(n_rows <= worker->n_room);
    count_last_rows(worker);
    if (worker->n_counted >= COUNT_STEP) add_counted(worker);
    worker->n_to_count = n_rows;
    if (cpu_is_enough(NULL, worker->run->launch)) worker->args.cancel = &now;
    return 0;
}

static u64 rows_room(KernelArgs *args, u32 n_rows)
{
    SlotWorker *worker = args->host;
    if (worker->run->launch->only_counts) return count_rows(worker, n_rows);
    if (is_enough_of_push(worker)) args->cancel = &now;
    if (worker->n_used + n_rows > worker->n_room) {
        const u64 wanted = MAX_OF(worker->n_room * 2, worker->n_used + n_rows);
        const weft_status status = worker->status ? worker->status : grow_state(worker, wanted);
        if (status) {
            stop_with(worker, status);
            worker->n_used = 0;        // the query has failed: what is written from here on is never read
        }
    }
    const u64 first = worker->n_used;
    worker->n_used += n_rows;
    return first;
}

// ---- hash groups ----------------------------------------------------------------------------------------------------

static void put_group(KernelSlot *slots, u64 mask, u64 key, u32 row)
{
    u64 at = HASH_SLOT(key) & mask;
    while (slots[at].row) at = (at + 1) & mask;
    slots[at] = (KernelSlot){ .key = key, .row = row };
}

static weft_status grow_slots(SlotWorker *worker, u64 n_slots)
{
    void *memory;
    ASSERT((n_slots & (n_slots - 1)) == 0 && n_slots > worker->n_used);
    TRY(mem_alloc(worker->run->launch->budget, n_slots * sizeof(KernelSlot), &memory, &worker->error));
    for (u64 g = 0; g < worker->n_used; g++) {
        if ((g & 4095) == 0 && is_stopped(worker)) {
            mem_free(worker->run->launch->budget, memory, n_slots * sizeof(KernelSlot));
            return canceled(&worker->error);
        }
        put_group(memory, n_slots - 1, worker->group_keys[g], (u32)g + 1);
    }
    mem_free(worker->run->launch->budget, worker->args.groups, worker->n_slots * sizeof(KernelSlot));
    worker->args.groups = memory;
    worker->args.groups_mask = n_slots - 1;
    worker->n_slots = n_slots;
    return WEFT_OK;
}

static weft_status make_room_for_group(SlotWorker *worker)
{
    if (worker->status) return worker->status;
    if (worker->n_used >= UINT32_MAX - 1)
        return fail(&worker->error, WEFT_OUT_OF_MEMORY, -1, "more than 4 billion groups");
    if (worker->n_used == worker->n_room) TRY(grow_state(worker, worker->n_room * 2));
    if (worker->n_used * 2 >= worker->n_slots) TRY(grow_slots(worker, worker->n_slots * 2));
    return WEFT_OK;
}

static u32 group_insert(KernelArgs *args, u64 key, const u64 *words)
{
    SlotWorker       *worker = args->host;
    const weft_status status = make_room_for_group(worker);
    if (status) {
        stop_with(worker, status);
        return 0;                      // there is always room for one group
    }
    const u64 group = worker->n_used++;
    const int n_words = worker->run->launch->woven->n_words;
    worker->group_keys[group] = key;
    if (words) memcpy(args->group_words + group * (u64)n_words, words, 8 * (size_t)n_words);
    put_group(args->groups, args->groups_mask, key, (u32)group + 1);
    return (u32)group;
}

static u32 find_group(SlotWorker *worker, u64 key, const u64 *words)
{
    const KernelArgs *args = &worker->args;
    const size_t      n_words = (size_t)worker->run->launch->woven->n_words;
    for (u64 at = HASH_SLOT(key) & args->groups_mask; args->groups[at].row; at = (at + 1) & args->groups_mask) {
        const u64 group = args->groups[at].row - 1;
        if (args->groups[at].key == key && (!words || !memcmp(args->group_words + group * n_words, words, 8 * n_words)))
            return (u32)group;
    }
    return group_insert(&worker->args, key, words);
}

// ---- groups that do not fit: the whole table goes to a file, between two pushes -------------------------------------
//
// Within a push group numbers are held by the kernel, so a table may grow beyond its share there, by as many groups as
// a push finds.

static u64 bytes_of_groups(SlotWorker *worker, u64 n_room, u64 n_slots)
{
    Growing  *list = calloc((size_t)worker->run->launch->woven->n_state + 2, sizeof *list);
    const int n = list_growing(worker, list);
    u64       bytes = n_slots * sizeof(KernelSlot);
    for (int i = 0; i < n; i++) bytes += n_room * list[i].size;
    free(list);
    return bytes;
}

static bool is_full(SlotWorker *worker)
{
    const Launch *launch = worker->run->launch;
    if (!launch->group_bytes || launch->sink != SINK_GROUPS || launch->woven->group_kind != GROUP_HASH) return false;
    const bool will_grow = worker->n_used + TILE > worker->n_room || 2 * (worker->n_used + TILE) > worker->n_slots;
    return worker->n_used && will_grow &&
           bytes_of_groups(worker, 2 * worker->n_room, 2 * worker->n_slots) > launch->group_bytes;
}

static void empty_table(SlotWorker *worker)
{
    const Woven *woven = worker->run->launch->woven;
    for (int s = 0; s < woven->n_state; s++) {
        memset(worker->args.state[s], 0, worker->n_used * slot_bytes(woven, s));
        init_cells(&woven->state[s], worker->args.state[s], 0, worker->n_used);
    }
    memset(worker->args.groups, 0, worker->n_slots * sizeof(KernelSlot));
    worker->n_used = 0;
}

// One that grew beyond its share begins small again.
static weft_status shrink_table(SlotWorker *worker)
{
    Budget   *budget = worker->run->launch->budget;
    Growing  *list = calloc((size_t)worker->run->launch->woven->n_state + 2, sizeof *list);
    const int n = list_growing(worker, list);
    for (int i = 0; i < n; i++) {
        mem_free(budget, *list[i].memory, worker->n_room * list[i].size);
        *list[i].memory = NULL;
    }
    free(list);
    mem_free(budget, worker->args.groups, worker->n_slots * sizeof(KernelSlot));
    worker->args.groups = NULL, worker->n_room = worker->n_slots = worker->n_used = 0;
    TRY(grow_state(worker, LEAST_GROUPS));
    return grow_slots(worker, LEAST_SLOTS);
}

static GroupSet groups_of(const SlotWorker *worker);

static weft_status put_into_run(SlotWorker *worker)
{
    CpuRun        *run = worker->run;
    const Launch  *launch = run->launch;
    const GroupSet set = groups_of(worker);
    pthread_mutex_lock(&run->runs_lock);
    if (!run->runs) run->runs = group_runs_new(launch->woven, launch->budget);
    pthread_mutex_unlock(&run->runs_lock);
    TRY(group_runs_add(run->runs, &set, &worker->error));
    if (bytes_of_groups(worker, worker->n_room, worker->n_slots) > launch->group_bytes) return shrink_table(worker);
    empty_table(worker);
    return WEFT_OK;
}

static weft_status merge_runs(CpuRun *run, Error *err)
{
    Launch *launch = run->launch;
    for (int n = 0; n < launch->n_slots; n++)
        if (run->workers[n].is_open && run->workers[n].n_used) {
            const weft_status status = put_into_run(&run->workers[n]);
            if (status) *err = run->workers[n].error;
            if (status) return status;
        }
    launch->out.n_runs = group_runs_count(run->runs), launch->out.groups_in_runs = group_runs_groups(run->runs);
    TRY(group_runs_merge(run->runs, &launch->team, &run->merged, err));
    group_runs_free(run->runs);
    run->runs = NULL;
    launch->out.groups = run->merged;
    launch->out.rows_out = launch_count_groups(launch);
    return WEFT_OK;
}

// ---- merging workers ------------------------------------------------------------------------------------------------

static SlotWorker *first_open(const CpuRun *run)
{
    for (int n = 0; n < run->launch->n_slots; n++)
        if (run->workers[n].is_open) return &run->workers[n];
    return NULL;
}

u64 launch_count_groups(const Launch *launch)
{
    const Woven *woven = launch->woven;
    u64          n_groups = 0;
    if (woven->group_kind != GROUP_ARRAY) return launch->out.groups.n_groups;
    const void *seen = launch->out.groups.state[woven->seen];
    for (u64 g = 0; g < launch->out.groups.n_groups; g++)
        n_groups += woven->state[woven->seen].bytes == 1 ? ((const u8 *)seen)[g] != 0 : ((const i64 *)seen)[g] != 0;
    return n_groups;
}

static GroupSet groups_of(const SlotWorker *worker)
{
    return (GroupSet){ .n_groups = worker->n_used,
                       .state = worker->args.state,
                       .keys = worker->group_keys,
                       .words = worker->args.group_words };
}

// All that have any, those of INTO first, and how many they have in all.
static int list_groups(const CpuRun *run, const SlotWorker *into, GroupSet *sets, u64 *n_groups)
{
    int n_sets = 1;
    sets[0] = groups_of(into);
    *n_groups = into->n_used;
    for (int n = 0; n < run->launch->n_slots; n++) {
        const SlotWorker *worker = &run->workers[n];
        if (!worker->is_open || worker == into || !worker->n_used) continue;
        sets[n_sets++] = groups_of(worker);
        *n_groups += worker->n_used;
    }
    return n_sets;
}

// Few groups: those of the others are put into one worker's table.
static weft_status insert_groups(SlotWorker *into, const GroupSet *sets, int n_sets)
{
    const Woven *woven = into->run->launch->woven;
    for (int n = 1; n < n_sets; n++)
        for (u64 g = 0; g < sets[n].n_groups; g++) {
            const u64 *words = woven->is_one_word ? NULL : sets[n].words + g * (u64)woven->n_words;
            if ((g & 4095) == 0 && is_stopped(into)) return canceled(&into->error);
            const u64 at = find_group(into, sets[n].keys[g], words);
            if (into->status) return into->status;
            for (int s = 0; s < woven->n_state; s++) merge_cell(woven, s, into->args.state, at, sets[n].state, g);
        }
    return WEFT_OK;
}

#define MERGE_LEAST ((u64)1 << 15)     // groups: fewer are merged before other threads are awake

static weft_status merge_sets(CpuRun *run, SlotWorker *into, const GroupSet *sets, int n_sets, u64 n_groups)
{
    const Launch *launch = run->launch;
    if (n_sets == 1) return WEFT_OK;
    if (launch->woven->group_kind != GROUP_HASH)
        return groups_add(&launch->team, launch->woven, sets, n_sets) ? WEFT_OK : canceled(&into->error);
    if (n_groups < MERGE_LEAST || n_groups >= UINT32_MAX || launch->team.n_threads <= 1)
        return insert_groups(into, sets, n_sets);
    return groups_merge(&launch->team, launch->woven, launch->budget, sets, n_sets, &run->merged, &into->error);
}

static weft_status merge_groups(CpuRun *run)
{
    SlotWorker *into = first_open(run);
    u64         n_groups;
    ASSERT(into);
    GroupSet         *sets = calloc((size_t)run->launch->n_slots + 1, sizeof *sets);
    const int         n_sets = list_groups(run, into, sets, &n_groups);
    const weft_status status = merge_sets(run, into, sets, n_sets, n_groups);
    free(sets);
    if (status) return status;
    run->launch->out.groups = run->merged.state ? run->merged : groups_of(into);
    run->launch->out.rows_out = launch_count_groups(run->launch);
    return WEFT_OK;
}

static int by_place(const void *a, const void *b)
{
    const Segment *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

typedef struct PlacedSegment { Segment segment; const SlotWorker *worker; u64 to; } PlacedSegment;

typedef struct RowCopy {
    const CpuRun        *run;
    const PlacedSegment *pieces;
    u64                  n_pieces;
    int                  n_shares;     // of the pieces, for each column
    void               **columns;
} RowCopy;

// A share of the pieces of one column.
static void copy_pieces(void *context, int part)
{
    const RowCopy *copy = context;
    const int      slot = part / copy->n_shares, share = part % copy->n_shares;
    const u64      size = slot_bytes(copy->run->launch->woven, slot);
    const u64      first = copy->n_pieces * (u64)share / (u64)copy->n_shares,
                   end = copy->n_pieces * (u64)(share + 1) / (u64)copy->n_shares;
    for (u64 p = first; p < end && !team_is_stopped(&copy->run->launch->team); p++) {
        const PlacedSegment *piece = &copy->pieces[p];
        memcpy((u8 *)copy->columns[slot] + piece->to * size,
               (const u8 *)piece->worker->args.state[slot] + piece->segment.first * size, piece->segment.n_rows * size);
    }
}

static u64 collect_pieces(const CpuRun *run, PlacedSegment *pieces)
{
    u64 n_pieces = 0;
    for (int n = 0; n < run->launch->n_slots; n++)
        for (u64 s = 0; s < run->workers[n].n_segments; s++)
            pieces[n_pieces++] = (PlacedSegment){ run->workers[n].segments[s], &run->workers[n], 0 };
    qsort(pieces, n_pieces, sizeof *pieces, by_place);                        // the segment comes first in a piece
    for (u64 p = 1; p < n_pieces; p++) pieces[p].to = pieces[p - 1].to + pieces[p - 1].segment.n_rows;
    return n_pieces;
}

static bool is_in_order(const SlotWorker *worker)
{
    for (u64 s = 1; s < worker->n_segments; s++)
        if (worker->segments[s].at < worker->segments[s - 1].at) return false;
    return true;
}

static weft_status merge_rows(CpuRun *run, Error *err)
{
    Launch      *launch = run->launch;
    const Woven *woven = launch->woven;
    u64          n_rows = 0, n_segments = 0;
    for (int n = 0; n < launch->n_slots; n++)
        n_rows += run->workers[n].n_used, n_segments += run->workers[n].n_segments;
    SlotWorker *only = first_open(run);
    launch->out.rows_out = n_rows;
    launch->out.rows = (RowSet){ .n_rows = n_rows, .columns = only->args.state };
    if (only->n_used == n_rows && is_in_order(only)) return WEFT_OK;
    PlacedSegment *pieces = malloc((n_segments + 1) * sizeof *pieces);
    const u64 n_pieces = collect_pieces(run, pieces);
    void    **columns = calloc((size_t)woven->n_state + 1, sizeof *columns);
    weft_status status = WEFT_OK;
    run->rows_merged = true;
    launch->out.rows.columns = columns;
    for (int s = 0; s < woven->n_state && !status; s++)
        status = mem_alloc(launch->budget, n_rows * slot_bytes(woven, s) + 8, &columns[s], err);
    RowCopy   copy = { run, pieces, n_pieces, team_split(&launch->team, n_rows).n_parts, columns };
    const int n_parts = woven->n_state * copy.n_shares;
    if (!status && !team_parts(copy.n_shares > 1 ? &launch->team : &(Team){ .n_threads = 1, .stop = launch->stop },
                               n_parts, copy_pieces, &copy))
        status = canceled(err);
    free(pieces);
    return status;
}

// ---- running --------------------------------------------------------------------------------------------------------

bool launch_wants_chunk(const Launch *launch, int number)
{
    const Chunk *chunk = launch->source->chunks[number];
    for (int z = 0; z < launch->woven->n_zones; z++) {
        const ZoneTest    *zone = &launch->woven->zones[z];
        const ColumnChunk *column = &chunk->columns[launch->source->chunk_column[zone->column]];
        if (!column->has_range || column->max < zone->low || column->min > zone->high) return false;
    }
    return !launch->woven->is_empty && chunk->n_rows > 0;
}

u64 launch_column_bytes(const Launch *launch, int number)
{
    const Chunk *chunk = launch->source->chunks[number];
    u64          bytes = 0;
    for (int c = 0; c < launch->woven->n_columns; c++)
        bytes += column_read_bytes(chunk, launch->source->chunk_column[launch->woven->columns[c]]);
    return bytes;
}

// A constant as the chunk stores values.  Chunks of a narrow width that got here overlap the range (zone tests), so
// clipping to what the width can hold never makes an empty range; 8 bytes hold everything and wrap.
static i64 stored_param(const Param *param, const KernelColumn *column)
{
    const i128 base = column->base, most = column->width >= 8 ? 0 : base + (((i128)1 << (8 * column->width)) - 1);
    if (param->kind == PARAM_VALUE) return param->value;
    if (param->kind == PARAM_OFFSET) return (i64)((u64)column->base - (u64)param->value);
    if (column->width >= 8)
        return (i64)((u64)param->value - (param->kind == PARAM_RANGE_LOW ? (u64)base : (u64)param->other));
    const i128 low = MAX_OF((i128)(param->kind == PARAM_RANGE_LOW ? param->value : param->other), base);
    if (param->kind == PARAM_RANGE_LOW) return (i64)(low - base);
    return (i64)(MIN_OF((i128)param->value, most) - low);
}

i64 launch_param(const Param *param, const KernelColumn *columns)
{
    return param->kind == PARAM_VALUE ? param->value : stored_param(param, &columns[param->column]);
}

static weft_status bind_chunk(SlotWorker *worker, int chunk)
{
    const Launch *launch = worker->run->launch;
    const Woven  *woven = launch->woven;
    if (worker->chunk == chunk) return WEFT_OK;
    worker->chunk = chunk;
    for (int c = 0; c < woven->n_columns && launch->source->from_store; c++)
        chunk_try_verify(launch->source->chunks[chunk], launch->source->chunk_column[woven->columns[c]]);
    for (int c = 0; c < woven->n_columns; c++) {
        const int          number = launch->source->chunk_column[woven->columns[c]];
        const ColumnChunk *column = &launch->source->chunks[chunk]->columns[number];
        if (launch->source->from_store) TRY(chunk_verify(launch->source->chunks[chunk], number, &worker->error));
        worker->columns[c] = (KernelColumn){
            .data = column->data, .valid = column->valid, .base = column->base, .width = column->width
        };
    }
    for (int p = 0; p < woven->n_params; p++) worker->params[p] = launch_param(&woven->params[p], worker->columns);
    return WEFT_OK;
}

static void keep_segment(SlotWorker *worker, u64 at, u64 first)
{
    if (worker->n_used == first || worker->status) return;
    if (worker->n_segments == worker->segments_room) {
        worker->segments_room = worker->segments_room ? worker->segments_room * 2 : 64;
        worker->segments = realloc(worker->segments, worker->segments_room * sizeof(Segment));
    }
    worker->segments[worker->n_segments++] = (Segment){ at, first, worker->n_used - first };
}

static void check_failed(SlotWorker *worker)
{
    if (!worker->args.failed || worker->status) return;
    ASSERT(worker->args.failed > 0 && worker->args.failed <= worker->run->launch->woven->n_checks);
    const Check *check = &worker->run->launch->woven->checks[worker->args.failed - 1];
    stop_with(worker, fail(&worker->error, check->status, check->at, "%s", check->message));
}

typedef struct KernelCall {
    KernelFunction function;
    KernelArgs    *args;
    u64            stack_bytes;        // that it needs
    bool           is_done;
} KernelCall;

static void do_call(void *context, size_t stack_bytes)
{
    KernelCall *call = context;
    if (stack_bytes < call->stack_bytes) return;               // the system gave less
    call->function(call->args);
    call->is_done = true;
}

// Kernels keep tiles of values on the stack, and the caller's may be small.
#define STACK_PLAIN ((u64)384 << 10)

static void call_kernel(SlotWorker *worker, KernelFunction function, KernelArgs *args, u64 tile_bytes)
{
    const u64   bytes = tile_bytes * TILE;
    KernelCall  call = { .function = function, .args = args, .stack_bytes = bytes + bytes / 2 + (1 << 20) };
    weft_status status = WEFT_OK;
    if (bytes <= STACK_PLAIN) function(args);
    else status = run_with_stack(call.stack_bytes, do_call, &call, &worker->error);
    if (!status && bytes > STACK_PLAIN && !call.is_done)
        status = fail(&worker->error, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused a stack of %llu KiB",
                      (unsigned long long)call.stack_bytes >> 10);
    if (status) stop_with(worker, status);
}

// AT is where the rows lie in the source.
static void run_rows(SlotWorker *worker, u64 at, u32 row_first, u32 row_end)
{
    CpuRun   *run = worker->run;
    JitTier   tier;
    const u64 first = worker->n_used;
    worker->args.row_first = row_first;
    worker->args.row_end = row_end;
    worker->first_used = first;
    const KernelFunction function = code_function(run->launch->code, &tier);
    const double         start_ms = tier == TIER_CC ? 0 : time_now_ms();
    if (tier == TIER_PROGRAM) worker->common.program = code_program(run->launch->code);
    call_kernel(worker, function, &worker->args, run->launch->woven->tile_bytes);
    worker->args.cancel = (const u32 *)run->launch->stop;
    worker->morsels[tier]++;
    if (tier != TIER_CC) worker->slow_ms += time_now_ms() - start_ms;
    if (run->launch->sink != SINK_GROUPS) {
        keep_segment(worker, at, first);
        atomic_fetch_add_explicit(&run->rows_out, worker->n_used - first, memory_order_relaxed);
        add_counted(worker);
    }
    check_failed(worker);
    if (!worker->status && is_full(worker)) {
        const weft_status status = put_into_run(worker);
        if (status) stop_with(worker, status);
    }
}

static weft_status open_worker(CpuRun *run, int number)
{
    ASSERT(!run->workers[number].is_open);
    SlotWorker   *worker = &run->workers[number];
    const Launch *launch = run->launch;
    const Woven  *woven = launch->woven;
    worker->run = run, worker->chunk = -1, worker->is_open = true;
    error_clear(&worker->error);
    worker->common.entries = (const u8 *const *)run->entries;
    worker->columns = calloc((size_t)woven->n_columns + 1, sizeof *worker->columns);
    worker->params = calloc((size_t)woven->n_params + 1, sizeof *worker->params);
    worker->args = (KernelArgs){ .columns = worker->columns,
                                 .params = worker->params,
                                 .tables = woven->tables,
                                 .state = calloc((size_t)woven->n_state + 1, sizeof(void *)),
                                 .counts = calloc((size_t)woven->n_counts + 1, sizeof(u64)),
                                 .cancel = (const u32 *)launch->stop,
                                 .insert = group_insert,
                                 .room = rows_room,
                                 .picks = kernel_picks(),
                                 .words = kernel_words(),
                                 .common = &worker->common,
                                 .host = worker };
    const bool is_hash = launch->sink == SINK_GROUPS && woven->group_kind == GROUP_HASH;
    const u64 n_room = launch->sink != SINK_GROUPS        ? 2 * TILE
                       : is_hash                          ? LEAST_GROUPS
                       : woven->group_kind == GROUP_ARRAY ? woven->n_groups
                                                          : 1;
    worker->status = grow_state(worker, n_room);
    if (launch->sink == SINK_GROUPS && !is_hash) worker->n_used = n_room;
    if (is_hash && !worker->status) worker->status = grow_slots(worker, LEAST_SLOTS);
    return worker->status;
}

static void close_worker(CpuRun *run, SlotWorker *worker)
{
    const Woven *woven = run->launch->woven;
    Budget      *budget = run->launch->budget;
    Growing     *list = calloc((size_t)woven->n_state + 2, sizeof *list);
    const int    n = list_growing(worker, list);
    for (int i = 0; i < n; i++) mem_free(budget, *list[i].memory, worker->n_room * list[i].size);
    free(list);
    mem_free(budget, worker->args.groups, worker->n_slots * sizeof(KernelSlot));
    free(worker->args.state);
    free(worker->args.counts);
    free(worker->columns);
    free(worker->params);
    free(worker->segments);
}

static void cpu_free_launch(Device *device, Launch *launch)
{
    CpuRun *run = launch->memory;
    (void)device;
    if (!run) return;
    run->launch = launch;              // it may have been moved since the run
    if (run->rows_merged) {
        for (int s = 0; s < launch->woven->n_state; s++)
            mem_free(launch->budget, launch->out.rows.columns[s],
                     launch->out.rows.n_rows * slot_bytes(launch->woven, s) + 8);
        free(launch->out.rows.columns);
    }
    if (run->merged.state) groups_free(launch->woven, launch->budget, &run->merged);
    group_runs_free(run->runs);
    pthread_mutex_destroy(&run->runs_lock);
    for (int n = 0; n < launch->n_slots; n++)
        if (run->workers[n].is_open) close_worker(run, &run->workers[n]);
    free(launch->out.counts);
    for (int t = 0; run->entries && t < launch->woven->n_tables; t++)
        mem_free(launch->budget, run->entries[t], run->entry_bytes[t]);
    free(run->entries);
    free(run->entry_bytes);
    free(run->workers);
    free(run);
    launch->memory = NULL;
}

static void add_up(CpuRun *run)
{
    Launch *launch = run->launch;
    launch->out.counts = calloc((size_t)launch->woven->n_counts + 1, sizeof(u64));
    launch->out.n_workers = 0;
    for (int n = 0; n < launch->n_slots; n++) {
        if (!run->workers[n].is_open) continue;
        launch->out.n_workers++;
        for (int c = 0; c < launch->woven->n_counts; c++) launch->out.counts[c] += run->workers[n].args.counts[c];
        for (int t = 0; t < N_TIERS; t++) launch->out.morsels[t] += run->workers[n].morsels[t];
        launch->out.slow_ms += run->workers[n].slow_ms;
    }
}

// A worker that fails stops the others, and they may say that they were cancelled: that is not the reason.
static weft_status first_error(const CpuRun *run, Error *err)
{
    for (int n = 0; n < run->launch->n_slots; n++) {
        if (!run->workers[n].status || run->workers[n].status == WEFT_QUERY_CANCELED) continue;
        *err = run->workers[n].error;
        return run->workers[n].status;
    }
    return atomic_load(run->launch->stop) ? canceled(err) : WEFT_OK;
}

// NULL: better code has come.
static const KernelProgram *best_program(const Code *code)
{
    JitTier tier;
    return code && code_function(code, &tier) && tier == TIER_PROGRAM ? code_program(code) : NULL;
}

// Without memory for the bits the program asks the table itself.
static void make_entries(CpuRun *run, int table, u32 width, u64 n)
{
    const Woven *woven = run->launch->woven;
    const size_t bytes = n / 8 + 8;
    void        *bits;
    Error        ignored = { 0 };
    if (!mem_fits(run->launch->budget, (i64)bytes)) return;
    if (mem_alloc(run->launch->budget, bytes, &bits, &ignored)) return;
    if (!run->entries) {
        run->entries = calloc((size_t)woven->n_tables, sizeof *run->entries);
        run->entry_bytes = calloc((size_t)woven->n_tables, sizeof *run->entry_bytes);
    }
    run->entries[table] = bits, run->entry_bytes[table] = bytes;
    kernel_note_entries(bits, woven->tables[table], width, n);
}

// A table that a program asks whether it has an entry is made smaller by a bit for each: many queries at once take the
// caches from each other.
static void note_entries(CpuRun *run)
{
    static const u32     widths[] = { [ELEMENT_U8] = 1, [ELEMENT_U16] = 2, [ELEMENT_U32] = 4, [ELEMENT_U64] = 8 };
    const Launch        *launch = run->launch;
    const KernelProgram *program = best_program(launch->code);
    if (!program) return;
    const KernelOp *ops = (const KernelOp *)(program + 1);
    for (u32 o = 0; o < program->n_ops && !atomic_load(launch->stop); o++) {
        const int    table = ops[o].y;
        const u32    width = ops[o].code == DO_PROBE && ops[o].guard < COUNT_OF(widths) ? widths[ops[o].guard] : 0;
        const size_t bytes = width ? launch->woven->table_facts[table].bytes : 0;
        const bool   is_worth = bytes >= ENTRIES_FROM && bytes / width <= launch->source->n_rows / 8;
        if (!is_worth || !launch->woven->tables[table] || (run->entries && run->entries[table])) continue;
        make_entries(run, table, width, bytes / width);
    }
}

static weft_status cpu_open(Device *device, Launch *launch, Error *err)
{
    CpuRun *run = calloc(1, sizeof *run);
    (void)device, (void)err;
    run->launch = launch;
    run->start_ms = time_now_ms();
    pthread_mutex_init(&run->runs_lock, NULL);
    run->workers = calloc((size_t)launch->n_slots, sizeof *run->workers);
    launch->memory = run;
    note_entries(run);
    return WEFT_OK;
}

// The slot's worker, ready for the chunk; NULL when the launch is stopped.
static SlotWorker *ready_worker(Launch *launch, int slot, int chunk)
{
    CpuRun *run = launch->memory;
    ASSERT(slot >= 0 && slot < launch->n_slots);
    ASSERT(chunk >= 0 && chunk < launch->source->n_chunks);
    SlotWorker *worker = &run->workers[slot];
    if (worker->status || atomic_load_explicit(launch->stop, memory_order_relaxed)) return NULL;
    weft_status status = worker->is_open ? WEFT_OK : open_worker(run, slot);
    if (!status) status = bind_chunk(worker, chunk);
    if (status) stop_with(worker, status);
    return status ? NULL : worker;
}

static void cpu_push(Device *device, Launch *launch, int slot, int chunk, u32 first, u32 end)
{
    SlotWorker *worker = ready_worker(launch, slot, chunk);
    (void)device;
    if (worker) run_rows(worker, (u64)chunk << 32 | first, first, end);
}

static void cpu_push_picked(Device *device, Launch *launch, int slot, int chunk, u32 row, const u16 *picked,
                            u32 n_picked, bool sure)
{
    SlotWorker *worker = ready_worker(launch, slot, chunk);
    (void)device;
    if (!worker) return;
    worker->args.picked = picked;
    worker->args.row_base = row;
    worker->args.sure = sure;
    run_rows(worker, (u64)chunk << 32 | row, 0, n_picked);
    worker->args.picked = NULL, worker->args.sure = 0;
}

#define FUSED_MAX 64

static bool cpu_push_fused(Device *device, const Code *code, Launch *const *launches, int n_launches, int slot,
                           const int *chunks, u32 first, u32 end)
{
    SlotWorker *workers[FUSED_MAX] = { 0 };
    KernelArgs *members[FUSED_MAX];
    u64         tile_bytes = 0;
    JitTier     tier;
    (void)device;
    if (n_launches > FUSED_MAX) return false;
    for (int m = 0; m < n_launches; m++) {
        workers[m] = ready_worker(launches[m], slot, chunks[m]);
        if (!workers[m]) return false;
        members[m] = &workers[m]->args;
        tile_bytes += launches[m]->woven->fused_bytes;
    }
    KernelArgs args = { .row_first = first, .row_end = end, .members = members, .words = kernel_words() };
    call_kernel(workers[0], code_function(code, &tier), &args, tile_bytes);
    for (int m = 0; m < n_launches; m++) {
        workers[m]->morsels[tier]++;
        check_failed(workers[m]);
    }
    return true;
}

static weft_status cpu_prepare(Device *device, Launch *cube, Error *err)
{
    CpuRun *run = cube->memory;
    (void)device;
    for (int slot = 0; slot < cube->n_slots; slot++) {
        const weft_status status = open_worker(run, slot);
        if (status) *err = run->workers[slot].error;
        if (status) return status;
    }
    return WEFT_OK;
}

static bool has_rows(const SlotWorker *worker, const Woven *woven, u64 at)
{
    const void *seen = worker->args.state[woven->seen];
    return woven->state[woven->seen].bytes == 1 ? ((const u8 *)seen)[at] != 0 : ((const i64 *)seen)[at] != 0;
}

static void add_cell(const Woven *woven, const SlotWorker *from, u64 at, SlotWorker *to, u64 group)
{
    if (!has_rows(from, woven, at)) return;
    for (int s = 0; s < woven->n_state; s++) merge_cell(woven, s, to->args.state, group, from->args.state, at);
}

// Cells that are added up, whether they have rows or not.
static bool is_additive(const Woven *woven)
{
    for (int s = 0; s < woven->n_state; s++) {
        const StateSlot *slot = &woven->state[s];
        const bool       is_sum = slot->kind == SLOT_ADD && slot->bytes == 8 && slot->init == 0;
        if (!is_sum && !(slot->kind == SLOT_SEEN && slot->bytes == 1)) return false;
    }
    return true;
}

static void add_all(const Woven *woven, const SlotWorker *from, SlotWorker *to)
{
    for (int s = 0; s < woven->n_state; s++) {
        if (woven->state[s].kind == SLOT_ADD) {
            u64 *sums = to->args.state[s];
            for (u64 cell = 0; cell < from->n_used; cell++) sums[cell] += ((const u64 *)from->args.state[s])[cell];
        } else {
            u8 *seen = to->args.state[s];
            for (u64 cell = 0; cell < from->n_used; cell++) seen[cell] |= ((const u8 *)from->args.state[s])[cell];
        }
    }
}

static void add_listed(const Woven *woven, const SlotWorker *from, const Fold *fold, SlotWorker *to)
{
    for (int s = 0; s < woven->n_state; s++) {
        if (woven->state[s].kind == SLOT_ADD) {
            u64 *sums = to->args.state[s];
            for (u32 c = 0; c < fold->n_cells; c++)
                sums[fold->groups[c]] += ((const u64 *)from->args.state[s])[fold->cells[c]];
        } else {
            u8 *seen = to->args.state[s];
            for (u32 c = 0; c < fold->n_cells; c++)
                seen[fold->groups[c]] |= ((const u8 *)from->args.state[s])[fold->cells[c]];
        }
    }
}

// Into the first slot's.  Members look at the cells again and again, so at one slot's instead of at each slot's.
static void cpu_gather(Device *device, const Launch *cube)
{
    const CpuRun *run = cube->memory;
    const bool    adds_all = is_additive(cube->woven);
    (void)device;
    for (int n = 1; n < cube->n_slots; n++) {
        if (adds_all) add_all(cube->woven, &run->workers[n], &run->workers[0]);
        for (u64 cell = 0; !adds_all && cell < run->workers[n].n_used; cell++)
            add_cell(cube->woven, &run->workers[n], cell, &run->workers[0], cell);
    }
}

static void cpu_fold(Device *device, const Launch *cube, const Fold *fold)
{
    const CpuRun *run = cube->memory;
    const Woven  *woven = fold->member->woven;
    const u64     n_groups = woven->group_kind == GROUP_ARRAY && !fold->groups ? woven->n_groups : 1;
    SlotWorker   *to = ready_worker(fold->member, fold->slot, fold->chunk);
    const bool    adds_listed = fold->groups && is_additive(woven);
    (void)device;
    if (to && adds_listed) add_listed(woven, &run->workers[0], fold, to);
    for (u32 c = 0; to && !adds_listed && c < fold->n_cells; c++)
        for (u64 g = 0; g < n_groups; g++)
            add_cell(woven, &run->workers[0], fold->cells[c] * n_groups + g, to, fold->groups ? fold->groups[c] : g);
    if (to) to->morsels[TIER_CC]++;
}

static weft_status cpu_finish(Device *device, Launch *launch, Error *err)
{
    CpuRun     *run = launch->memory;
    weft_status status = WEFT_OK;
    (void)device;
    if (!first_open(run)) status = open_worker(run, 0);                        // no rows: the empty state is the answer
    add_up(run);
    status = first_error(run, err);
    if (!status)
        status = run->runs                      ? merge_runs(run, err)
                 : launch->sink == SINK_GROUPS ? merge_groups(run)
                                               : merge_rows(run, err);
    if (launch->only_counts) launch->out.rows_out = atomic_load(&run->rows_out);
    if (status && !err->status) *err = first_open(run)->error;
    launch->out.time_ms = time_now_ms() - run->start_ms;
    return status;
}

static void cpu_close(Device *device) { free(device); }

Device *device_cpu_open(void)
{
    Device *device = calloc(1, sizeof *device);
    *device = (Device){ .name = "cpu",
                        .open = cpu_open,
                        .push = cpu_push,
                        .push_picked = cpu_push_picked,
                        .push_fused = cpu_push_fused,
                        .prepare = cpu_prepare,
                        .gather = cpu_gather,
                        .fold = cpu_fold,
                        .is_enough = cpu_is_enough,
                        .finish = cpu_finish,
                        .free_launch = cpu_free_launch,
                        .close = cpu_close };
    return device;
}
