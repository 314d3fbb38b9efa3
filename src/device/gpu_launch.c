// gpu_launch.c - what a launch needs in device memory, and what it leaves there.
//
//     block    [common | tables | state | spots | cells | counts | notes | program]
//                                                                           the head: written by the host, and read
//                                                                           back with small states in one copy
//              [marks]
//              [cells of slot 0 | slot 1 | ...]                             accumulators or output columns
//              [group slots | words | segments]                             set to zero
//
// A launch takes its block and its tables before it gets on a scan, or waits for others to finish, or is refused; no
// more than a share of the pool is admitted, so that columns always find frames to pass through.  Join tables are found
// again by their id: several queries, and the next ones, use one copy.  A launch that finds no room for columns or
// tables beside others gives its block back, and starts again when it has the pool to itself.
//
// Room: totals and arrays of groups know theirs.  Rows get room for all where that is not much, or where they stay for
// the next kernel; else for an eighth; groups in a hash table for a million, or for all where these are known to be
// few; what is a guess is at first no more than a quarter of what a query may have beside its tables.  A kernel that
// wants more counts on, and the whole launch is repeated with what it counted (rows) or up to eight times as much.

#include "device/gpu_room.h"
#include "kernel/kernel.h"

#include <stdlib.h>

#define ROWS_BYTES_FREE   ((u64)256 << 20)     // output up to this gets room for every row,
#define ROOM_SHARE        4                    // but rows and groups at first 1 / this of what a query may have: mostly
                                               // there are fewer than there may be
#define ROOM_LEAST        1024
#define GROUPS_ROOM       ((u64)1 << 20)
#define GROUPS_KNOWN      ((u64)1 << 22)       // more slots than their keys need are more memory to go astray in
#define GROUPS_GROW       8                    // times, as long as that fits: all rows are read again
#define ROOM_MOST         ((u64)UINT32_MAX - 4)
#define BACK_BYTES        ((u64)4 << 20)       // states up to this come back together with the head
#define PACKED_MOST       ((u64)64 << 10)      // the same, and may come with those of other launches
#define CROWD             8                    // launches that hold memory: the next ones may well be in packs
#define GROUPS_SHARE      8                    // of what a query may have: room for groups that there may be
#define OVERTAKEN_MS      100.0
#define HELD_UP_MS        200.0
#define OPEN_MS           1000.0
#define EXCLUSIVE_MS      1000.0               // longest wait for the exclusive launch, or to be it while nothing moves
#define EXCLUSIVE_MOST_MS 15000.0

static bool is_hash(const GpuRun *run)
{
    return run->launch->sink == SINK_GROUPS && run->launch->woven->group_kind == GROUP_HASH;
}

static bool is_rows(const GpuRun *run) { return run->launch->sink != SINK_GROUPS; }

// ---- room -----------------------------------------------------------------------------------------------------------

static u64 row_bytes(const Woven *woven)
{
    u64 bytes = 0;
    for (int s = 0; s < woven->n_state; s++) bytes += woven->state[s].bytes;
    return bytes;
}

static u64 most_segments(const GpuRun *run)
{
    return run->rows_wanted / segment_rows(run) + (u64)run->n_chunks_wanted + 1;
}

// Keys whose values are known to be few, and to take little memory.
static bool knows_groups(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    const u64 domain = MAX_OF(woven->group_domain, 1024),
              bytes = domain * (row_bytes(woven) + sizeof(u64) + 4 * sizeof(KernelSlot));
    return woven->group_domain && domain <= GROUPS_KNOWN &&
           (domain <= GROUPS_ROOM || bytes <= launch_admitted_most(run->gpu) / GROUPS_SHARE);
}

// All that there can be of them; else a guess, as there may be fewer.
static u64 groups_at_first(const GpuRun *run)
{
    return MIN_OF(MAX_OF(run->rows_wanted, 1024),
                  knows_groups(run) ? MAX_OF(run->launch->woven->group_domain, 1024) : GROUPS_ROOM);
}

// What does not depend on rows and groups.
static void lay_out_head(GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    u64          at = aligned(sizeof(KernelCommon));
    run->tables_at = at, at += aligned((u64)(woven->n_tables + 1) * sizeof(void *));
    run->state_at = at, at += aligned((u64)(woven->n_state + 1) * sizeof(void *));
    run->spots_at = at, at += aligned((u64)(woven->n_tables + 1) * sizeof(KernelSpot));
    run->cells_at = at, at += aligned((u64)(woven->n_state + 1) * sizeof(KernelCells));
    run->counts_at = at, at += aligned((u64)(woven->n_counts + 1) * sizeof(u64));
    run->notes_at = at, at += notes_bytes(run->launch);
    run->program_at = at, at += aligned(run->program_bytes);
    run->head_bytes = at;
    run->marks_at = at, at += marks_bytes(run->launch);
    run->room_at = at;
}

static u64 state_bytes(const StateSlot *slot, u64 n_room) { return aligned(n_room * slot->bytes + 8); }

static u64 words_bytes(const Woven *woven, u64 n_groups)
{
    return aligned(n_groups * (u64)woven->n_words * sizeof(u64));
}

static u64 slots_for(u64 n_groups)
{
    u64 n_slots = 1024;
    while (n_slots < 2 * n_groups) n_slots *= 2;
    return n_slots;
}

static void lay_out_room(GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    u64          at = run->room_at;
    for (int s = 0; s < woven->n_state; s++) run->slot_at[s] = at, at += state_bytes(&woven->state[s], run->n_room);
    run->copied_bytes = !is_rows(run) && !is_hash(run) && at <= BACK_BYTES ? at : run->room_at;
    run->n_slots = 0;
    if (is_hash(run)) {
        run->n_slots = slots_for(run->n_room);
        run->slots_at = at, at += aligned(run->n_slots * sizeof(KernelSlot));
        run->words_at = at, at += words_bytes(woven, run->n_room);
    }
    run->segments_at = at, at += aligned(run->segments_room * sizeof(KernelSegment));
    run->block_bytes = at;
    run->can_pack = run->launch->table && !run->launch->n_facts && !run->is_timed && !run->is_counted &&
                    run->copied_bytes == at && at <= PACKED_MOST;
}

// ---- admission ------------------------------------------------------------------------------------------------------

// A part that the host does not have: the device made it, and has counted it already.
static bool is_made_here(const Woven *woven, int table)
{
    const WovenTable *facts = &woven->table_facts[table];
    return !woven->tables[table] && !facts->late && facts->owner && facts->bytes;
}

static u64 tables_bytes(const Woven *woven)
{
    u64 bytes = 0;
    for (int t = 0; t < woven->n_tables; t++)
        if (!is_made_here(woven, t)) bytes += aligned(woven->table_facts[t].bytes + 1);
    return bytes;
}

// Of what a query may have, what its tables leave, and its rows of the kernel before: those that the device made are
// admitted, too.
static u64 beside_tables(const GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    const u64    most = launch_admitted_most(run->gpu);
    u64          bytes = rows_kept_bytes(run->launch);
    for (int t = 0; t < woven->n_tables; t++) bytes += aligned(woven->table_facts[t].bytes + 1);
    return most - MIN_OF(most, bytes);
}

// The same, and room for the columns of its largest chunk: a launch that grew beyond that would have read all rows for
// nothing.
static u64 beside_columns(const GpuRun *run)
{
    const u64 left = beside_tables(run), pool = left + frames_total(run->gpu->frames) - launch_admitted_most(run->gpu);
    return MIN_OF(left, pool - MIN_OF(pool, run->chunk_bytes));
}

static bool groups_fit(const GpuRun *run, u64 n_groups, u64 most)
{
    const Woven *woven = run->launch->woven;
    u64 bytes = run->room_at + aligned(slots_for(n_groups) * sizeof(KernelSlot)) + words_bytes(woven, n_groups);
    for (int s = 0; s < woven->n_state; s++) bytes += state_bytes(&woven->state[s], n_groups);
    return bytes <= most;
}

// A step of a query whose operators are kernels of their own: often most rows pass.
static bool stays_for_next(const GpuRun *run) { return run->launch->sink == SINK_ROWS && run->launch->n_facts; }

static void first_room(GpuRun *run)
{
    const Woven *woven = run->launch->woven;
    const u64    most = beside_tables(run) / ROOM_SHARE;
    if (run->n_room) return;           // it was found to be too little
    if (is_rows(run)) {
        const u64 rows = run->rows_wanted + 1, bytes = MAX_OF(row_bytes(woven), 1);
        const bool for_all = rows * bytes <= ROWS_BYTES_FREE || stays_for_next(run);
        run->n_room = MIN_OF(for_all ? rows : rows / 8 + 1, MAX_OF(most / bytes, ROOM_LEAST));
        run->segments_room = MIN_OF(most_segments(run), run->n_room + 64);
    } else if (is_hash(run)) {
        u64 n_groups = groups_at_first(run);
        // A launch that starts again makes others wait twice.
        const bool has_all = knows_groups(run) && groups_fit(run, n_groups, beside_columns(run));
        while (!has_all && n_groups > ROOM_LEAST && !groups_fit(run, n_groups, most)) n_groups /= 2;
        run->n_room = n_groups;
    } else {
        run->n_room = woven->group_kind == GROUP_ARRAY ? woven->n_groups : 1;
    }
}

static double mebibytes(u64 bytes) { return (double)bytes / (1 << 20); }

static weft_status no_room_left(Gpu *gpu, u64 bytes, Error *err)
{
    const u64 taken = (bytes + FRAME_BYTES - 1) / FRAME_BYTES * FRAME_BYTES;
    fail(err, WEFT_OUT_OF_MEMORY, -1,
         "out of device memory: %s are needed, and what is held of %s leaves no room for them",
         mem_size_text(taken).text, gpu->name);
    error_hint(err, "WEFT_DEVICE_MEMORY sets the size of the device's pool.");
    return WEFT_OUT_OF_MEMORY;
}

// In KiB, rounded up and down, where tenths of a MiB would hide that more is needed than allowed.
static weft_status no_memory(Gpu *gpu, u64 bytes, Error *err)
{
    const u64 most = launch_admitted_most(gpu);
    // A table that would fit if others held less.
    if (bytes <= most) return no_room_left(gpu, bytes, err);
    if (bytes - most < 1 << 17 || most < 1 << 20)
        fail(err, WEFT_OUT_OF_MEMORY, -1,
             "out of device memory: %llu KiB are needed, and a query may have %llu KiB of %s",
             (unsigned long long)(bytes + 1023) >> 10, (unsigned long long)most >> 10, gpu->name);
    else
        fail(err, WEFT_OUT_OF_MEMORY, -1,
             "out of device memory: %.1f MiB are needed, and a query may have %.1f MiB of %s", mebibytes(bytes),
             mebibytes(most), gpu->name);
    error_hint(err, "WEFT_DEVICE_MEMORY sets the size of the device's pool.");
    return WEFT_OUT_OF_MEMORY;
}

// Small requests overtake large ones, but not for ever: a request that has waited OVERTAKEN_MS blocks new arrivals for
// HELD_UP_MS, so that the small ones soon leave.  If a long launch has the memory, blocking does not help: then
// arrivals are admitted for OPEN_MS, whatever waits.
static void stop_blocking(GpuRun *run, double *blocked_since)
{
    Gpu *gpu = run->gpu;
    ASSERT(mutex_is_held(&gpu->lock) && gpu->exclusive == run);
    gpu->exclusive = NULL, *blocked_since = 0;
    gpu->admits_until_ms = time_now_ms() + OPEN_MS;
    room_given(gpu);
}

static void start_blocking(GpuRun *run, double start, double *blocked_since)
{
    Gpu         *gpu = run->gpu;
    const double now = time_now_ms();
    if (!gpu->exclusive && now - start > OVERTAKEN_MS && now >= gpu->admits_until_ms)
        gpu->exclusive = run, *blocked_since = now;
    if (*blocked_since > 0 && now - *blocked_since > HELD_UP_MS) stop_blocking(run, blocked_since);
}

// No memory will be freed: nothing runs, and tables of others, if any, were not freed for a while.  A query whose
// launch is not here yet is at work on the host, which may take long on a busy machine.
static bool is_hopeless(const GpuRun *run, double start)
{
    const Gpu   *gpu = run->gpu;
    const double patience_ms[] = { [NO_TABLES] = -1,
                                   [TABLES_THAT_WAIT] = OVERTAKEN_MS + HELD_UP_MS,
                                   [TABLES_THAT_GO] = EXCLUSIVE_MOST_MS };
    return !gpu->n_active && !scan_is_busy(gpu) &&
           time_now_ms() - MAX_OF(start, gpu->moved_ms) > patience_ms[tables_of_others(run)];
}

// An exclusive launch found no room for columns or tables before: its block must not lie in the middle of the pool.
static bool take_frames(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    ASSERT(mutex_is_held(&gpu->lock) && !run->has_block);
    if (gpu->exclusive == run && !gpu->n_active) frames_clear(gpu->frames);
    return frames_take(gpu->frames, run->block_bytes, &run->block_at);
}

static void wait_for_room(RoomWaiter *waiter, GpuRun *run, u64 bytes)
{
    if (!run->waiter) room_wait_begin(waiter, run, bytes);
    room_wait(waiter);
}

static weft_status take_block(GpuRun *run, Error *err)
{
    Gpu         *gpu = run->gpu;
    const u64    need = run->block_bytes + tables_bytes(run->launch->woven);
    const double start = time_now_ms();
    double       blocked_since = 0;
    bool         is_relieved = false;
    weft_status  status = WEFT_OK;
    RoomWaiter   waiter;
    pthread_mutex_lock(&gpu->lock);
    tables_waited_for(run, 1);
    while (!run->has_block && !status) {
        start_blocking(run, start, &blocked_since);
        if (need > launch_admitted_most(gpu)) status = no_memory(gpu, need, err);
        else if (gpu->is_lost) status = gpu_enter(gpu, err);
        else if (atomic_load(run->launch->stop))
            status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        else if (gpu->exclusive && gpu->exclusive != run && time_now_ms() - start < EXCLUSIVE_MS)
            wait_for_room(&waiter, run, need);
        else if (gpu->bytes_admitted + need <= launch_admitted_most(gpu) && take_frames(run)) run->has_block = true;
        else if (!is_relieved) is_relieved = relieve_unlocked(gpu);
        else if (is_hopeless(run, start)) status = no_room_left(gpu, need, err);
        // The launch that has the memory waits for us.
        else if (blocked_since > 0 && !gpu->n_active) stop_blocking(run, &blocked_since);
        else wait_for_room(&waiter, run, need);
    }
    if (run->waiter) room_wait_end(&waiter);
    tables_waited_for(run, -1);
    if (run->has_block) gpu->bytes_admitted += need, gpu->n_active++;
    run->may_wait = run->can_pack && gpu->n_active > CROWD && !passes_through(gpu, run);
    if (blocked_since > 0) gpu->exclusive = NULL, room_given(gpu);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void launch_close(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    pthread_mutex_lock(&gpu->lock);
    for (int t = 0; t < run->n_tables; t++) copy_release(gpu->frames, run->tables[t]);
    run->n_tables = 0;
    if (run->has_block) {
        ASSERT(gpu->n_active > 0 && gpu->bytes_admitted >= run->block_bytes);
        frames_give(gpu->frames, run->block_at, run->block_bytes);
        gpu->bytes_admitted -= run->block_bytes + tables_bytes(run->launch->woven);
        gpu->moved_ms = time_now_ms();
        gpu->n_active--;
        run->has_block = false;
        room_given(gpu);
    }
    pthread_cond_broadcast(&gpu->changed);
    pthread_mutex_unlock(&gpu->lock);
}

// Other launches have the memory, and two launches without room must not keep it from each other.  So one at a time
// waits until no other launch has a block, while none is admitted.  The wait is limited: some kernels take long.
bool launch_wait_for_room(GpuRun *run)
{
    Gpu         *gpu = run->gpu;
    const double start = time_now_ms();
    bool         is_exclusive = false, may_wait;
    RoomWaiter   waiter;
    gpu_relieve(gpu);
    pthread_mutex_lock(&gpu->lock);
    may_wait = gpu->exclusive != run;  // else it had all of the pool
    while (may_wait && !is_exclusive) {
        const double now = time_now_ms();
        may_wait = !gpu->is_lost && !atomic_load(run->launch->stop) && now - start < EXCLUSIVE_MOST_MS &&
                   now - MAX_OF(start, gpu->moved_ms) < EXCLUSIVE_MS;
        if (!gpu->exclusive) gpu->exclusive = run;
        is_exclusive = may_wait && gpu->exclusive == run && !gpu->n_active && !scan_is_busy(gpu);
        if (may_wait && !is_exclusive) wait_for_room(&waiter, run, ROOM_ALONE);
    }
    if (run->waiter) room_wait_end(&waiter);
    pthread_mutex_unlock(&gpu->lock);
    return is_exclusive;
}

void launch_admit_others(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    pthread_mutex_lock(&gpu->lock);
    if (gpu->exclusive == run) {
        gpu->exclusive = NULL;
        room_given(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static weft_status upload_table(Gpu *gpu, GpuStream stream, const Copy *copy, const void *data, u64 bytes, Error *err)
{
    GPU_TRY(gpu, MemcpyHtoDAsync, (gpu_address(gpu, copy->at), data, bytes, stream), err);
    GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, copy->at + bytes), 0, TABLE_PAST, stream), err);
    return WEFT_OK;
}

// A shared table is used in other streams, so its copy must be complete before another launch can find it.  It goes
// through a stream of its own, because the launch's stream may be busy with kernels of others.  A copy that failed may
// still be under way, so it is waited for before its frames are reused.
static weft_status send_table(GpuRun *run, const Copy *copy, const void *data, u64 bytes, bool is_shared, Error *err)
{
    Gpu           *gpu = run->gpu;
    const GpuStream stream = is_shared ? gpu->table_stream : run->stream;
    weft_status    status = upload_table(gpu, stream, copy, data, bytes, err);
    if (!status && is_shared) status = gpu_check(gpu, gpu->calls->StreamSynchronize(stream), "StreamSynchronize", err);
    if (status) gpu_wait_for(gpu, stream);
    return status;
}

static weft_status get_table(GpuRun *run, int table, Error *err)
{
    Gpu              *gpu = run->gpu;
    const WovenTable *facts = &run->launch->woven->table_facts[table];
    const CopyKey     key = table_key(facts->owner, facts->number);
    const bool        is_made = is_made_here(run->launch->woven, table);
    const u64         bytes = MAX_OF(facts->bytes, 1);
    pthread_mutex_lock(&gpu->lock);
    Copy *copy = copy_find(gpu->frames, key);
    bool  is_new = !copy;
    if (is_new && !is_made) copy = copy_add(gpu->frames, key, bytes + TABLE_PAST, false);
    if (copy) run->tables[run->n_tables++] = copy;
    run->is_crowded = !copy && !is_made;
    pthread_mutex_unlock(&gpu->lock);
    if (!copy && is_made)
        return fail(err, WEFT_DEVICE_FAILED, -1, "a join table is not in the memory of %s", gpu->name);
    if (!copy) return no_memory(gpu, bytes, err);
    if (!is_new || !facts->bytes) return WEFT_OK;
    const void *data = facts->late ? facts->late->get(facts->late) : run->launch->woven->tables[table];
    const weft_status status = data ? send_table(run, copy, data, facts->bytes, facts->owner != 0, err)
                                    : fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: no room for a join table");
    if (!status) return WEFT_OK;
    pthread_mutex_lock(&gpu->lock);
    copy_forget(gpu->frames, copy);
    run->n_tables--;
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

weft_status launch_get_tables(GpuRun *run, Error *err)
{
    Gpu        *gpu = run->gpu;
    const int   n_tables = run->launch->woven->n_tables;
    weft_status status = WEFT_OK;
    if (run->n_tables == n_tables) return WEFT_OK;
    pthread_mutex_lock(&gpu->tables_lock);
    for (int t = run->n_tables; t < n_tables && !status; t++) status = get_table(run, t, err);
    pthread_mutex_unlock(&gpu->tables_lock);
    return status;
}

// ---- the block ------------------------------------------------------------------------------------------------------

static void *device_pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

void launch_write_head(const GpuRun *run, u8 *head)
{
    const Woven  *woven = run->launch->woven;
    KernelCommon *common = (KernelCommon *)(void *)head;
    ASSERT(run->n_tables == woven->n_tables);
    void        **tables = (void **)(void *)(head + run->tables_at), **state = (void **)(void *)(head + run->state_at);
    *common =
        (KernelCommon){ .n_room = run->n_room,
                        .segments_room = run->segments_room,
                        .segments = device_pointer(in_block(run, run->segments_at)),
                        .spots = device_pointer(in_block(run, run->spots_at)),
                        .cells = device_pointer(in_block(run, run->cells_at)),
                        .n_groups = run->shape.near_groups ? run->shape.n_near : (u32)MIN_OF(run->n_room, UINT32_MAX),
                        .n_state = run->shape.shared_groups || run->shape.near_groups ? (u32)woven->n_state : 0 };
    for (int t = 0; t < woven->n_tables; t++) tables[t] = device_pointer(gpu_address(run->gpu, run->tables[t]->at));
    for (int s = 0; s < woven->n_state; s++) state[s] = device_pointer(in_block(run, run->slot_at[s]));
    memcpy(head + run->spots_at, run->spots, (size_t)woven->n_tables * sizeof *run->spots);
    memcpy(head + run->cells_at, run->cells, (size_t)woven->n_state * sizeof *run->cells);
    if (run->program) {
        common->program = device_pointer(in_block(run, run->program_at));
        jit_copy_program(head + run->program_at, run->program, run->is_counted);
    }
    if (run->launch->n_facts) {
        common->notes = device_pointer(in_block(run, run->notes_at));
        notes_write(run, head);
    }
}

// A pattern of eight bytes all over: a piece from here, then copies of what is there already.
static weft_status fill_slot(GpuRun *run, int slot, Error *err)
{
    Gpu      *gpu = run->gpu;
    u64       piece[512];
    const u64 bytes = run->n_room * 8;
    u64       done = MIN_OF(bytes, sizeof piece);
    for (int i = 0; i < COUNT_OF(piece); i++) piece[i] = run->launch->woven->state[slot].init;
    GPU_TRY(gpu, MemcpyHtoDAsync, (in_block(run, run->slot_at[slot]), piece, done, run->stream), err);
    for (u64 more; done < bytes; done += more) {
        more = MIN_OF(done, bytes - done);
        GPU_TRY(gpu, MemcpyDtoDAsync,
                (in_block(run, run->slot_at[slot] + done), in_block(run, run->slot_at[slot]), more, run->stream), err);
    }
    return WEFT_OK;
}

// What is set before kernels see it.  Output and segments are written before they are read.
static u64 set_bytes(const GpuRun *run)
{
    return is_rows(run) ? run->marks_at + marks_bytes(run->launch) : run->segments_at;
}

static bool has_init(const GpuRun *run, int slot) { return !is_rows(run) && run->launch->woven->state[slot].init; }

bool launch_has_init(const GpuRun *run)
{
    int s = 0;
    while (s < run->launch->woven->n_state && !has_init(run, s)) s++;
    return s < run->launch->woven->n_state;
}

void launch_write_state(const GpuRun *run, u8 *state)
{
    for (int s = 0; s < run->launch->woven->n_state; s++) {
        u64 *cells = (u64 *)(void *)(state + (run->slot_at[s] - run->room_at));
        for (u64 g = 0; has_init(run, s) && g < run->n_room; g++) cells[g] = run->launch->woven->state[s].init;
    }
}

// A small block goes as it is to be, in one copy.
static weft_status write_small_block(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    memset(run->pinned, 0, set_bytes(run));
    launch_write_head(run, run->pinned);
    launch_write_state(run, run->pinned + run->room_at);
    GPU_TRY(gpu, MemcpyHtoDAsync, (in_block(run, 0), run->pinned, set_bytes(run), run->stream), err);
    return WEFT_OK;
}

static weft_status write_large_block(GpuRun *run, Error *err)
{
    Gpu        *gpu = run->gpu;
    u8         *head = calloc(1, run->head_bytes);
    weft_status status = WEFT_OK;
    launch_write_head(run, head);
    if (set_bytes(run) > run->head_bytes)
        status = gpu_check(gpu,
                           gpu->calls->MemsetD8Async(in_block(run, run->head_bytes), 0,
                                                     set_bytes(run) - run->head_bytes, run->stream),
                           "MemsetD8Async", err);
    if (!status)
        status = gpu_check(gpu, gpu->calls->MemcpyHtoDAsync(in_block(run, 0), head, run->head_bytes, run->stream),
                           "MemcpyHtoDAsync", err);
    free(head);                        // pageable: the driver has taken a copy
    for (int s = 0; s < run->launch->woven->n_state && !status; s++)
        if (has_init(run, s)) status = fill_slot(run, s, err);
    return status;
}

weft_status launch_write(GpuRun *run, Error *err)
{
    if (run->is_written) return WEFT_OK;
    TRY(launch_get_tables(run, err));
    run->is_written = true;
    return run->pinned && set_bytes(run) <= PINNED_SLOT_BYTES ? write_small_block(run, err)
                                                              : write_large_block(run, err);
}

weft_status launch_open(GpuRun *run, Error *err)
{
    if (is_rows(run) && (double)run->rows_wanted * run->launch->woven->fan_out >= UINT32_MAX)
        return fail(err, WEFT_DEVICE_FAILED, -1, "it may put out more than 4 billion rows");
    lay_out_head(run);
    first_room(run);
    lay_out_room(run);
    TRY(take_block(run, err));
    if (!run->may_wait || !run->can_do_without_tables) TRY(launch_get_tables(run, err));
    run->is_written = false;
    return run->may_wait ? WEFT_OK : launch_write(run, err);
}

// ---- a part ---------------------------------------------------------------------------------------------------------

void launch_write_params(const GpuRun *run, const KernelColumn *columns, i64 *params)
{
    const Woven *woven = run->launch->woven;
    for (int p = 0; p < woven->n_params; p++) params[p] = launch_param(&woven->params[p], columns);
}

// ---- results --------------------------------------------------------------------------------------------------------

static weft_status new_state(GpuRun *run, u64 n, Error *err)
{
    const Woven *woven = run->launch->woven;
    run->state = calloc((size_t)woven->n_state + 1, sizeof *run->state);
    run->state_bytes = calloc((size_t)woven->n_state + 1, sizeof *run->state_bytes);
    for (int s = 0; s < woven->n_state; s++) {
        TRY(mem_alloc(run->launch->budget, n * woven->state[s].bytes + 8, &run->state[s], err));
        run->state_bytes[s] = n * woven->state[s].bytes + 8;
    }
    return WEFT_OK;
}

static weft_status fetch_rows(GpuRun *run, Error *err)
{
    Launch     *launch = run->launch;
    weft_status status = new_state(run, run->n_used, err);
    if (!status) status = fetch_in_order(run, err);
    launch->out.rows = (RowSet){ .n_rows = run->n_used, .columns = run->state };
    launch->out.keeps_rows = false;
    return status;
}

weft_status launch_fetch_rows(GpuRun *run, Error *err) { return fetch_rows(run, err); }

static weft_status keep_rows(GpuRun *run)
{
    Launch *launch = run->launch;
    launch->out.rows = (RowSet){ .n_rows = run->n_used };
    launch->out.keeps_rows = true;
    notes_read(run);
    return WEFT_OK;
}

// Keys by group, as the kernel has noted them.
static weft_status fetch_keys(GpuRun *run, u64 n_groups, Error *err)
{
    const Woven *woven = run->launch->woven;
    const u64    bytes = n_groups * (u64)woven->n_words * 8;
    u64        **to = woven->is_one_word ? &run->keys : &run->words;
    *(woven->is_one_word ? &run->keys_bytes : &run->words_bytes) = bytes + 8;
    TRY(mem_alloc(run->launch->budget, bytes + 8, (void **)to, err));
    return fetch_long(run, *to, run->words_at, bytes, err);
}

static weft_status fetch_groups(GpuRun *run, Error *err)
{
    Launch      *launch = run->launch;
    const Woven *woven = launch->woven;
    const u64    n = is_hash(run) ? run->n_used : run->n_room;
    TRY(new_state(run, n, err));
    for (int s = 0; s < woven->n_state; s++) {
        const u64 bytes = n * woven->state[s].bytes;
        if (run->slot_at[s] + bytes <= run->copied_bytes)
            memcpy(run->state[s], run->back_state + (run->slot_at[s] - run->room_at), bytes);
        else TRY(fetch_long(run, run->state[s], run->slot_at[s], bytes, err));
    }
    if (is_hash(run)) TRY(fetch_keys(run, n, err));
    launch->out.groups = (GroupSet){ .n_groups = n, .state = run->state, .keys = run->keys, .words = run->words };
    launch->out.rows_out = launch_count_groups(launch);
    return WEFT_OK;
}

// So many times as many, but no more than there are rows, or values of their key.
static u64 more_groups(const GpuRun *run, u64 factor)
{
    const Woven *woven = run->launch->woven;
    const u64    rows = (u64)MIN_OF((double)run->rows_wanted * MAX_OF(woven->fan_out, 1), (double)ROOM_MOST);
    const u64    most = woven->group_domain ? MIN_OF(rows, woven->group_domain) : rows;
    return MIN_OF(run->n_room * factor, most > run->n_room ? most : ROOM_MOST);
}

// More room; false: there is no more.
static bool grow(GpuRun *run, const KernelCommon *common)
{
    if (is_rows(run)) {
        run->n_room = MAX_OF(run->n_room, TAKEN_ROWS(common->n_used));
        run->segments_room = MAX_OF(run->segments_room, TAKEN_SEGMENTS(common->n_used));
        return true;
    }
    const u64 n_groups = run->n_room, most = beside_columns(run);
    u64       factor = GROUPS_GROW;
    if (n_groups >= ROOM_MOST) return false;
    while (factor > 2 && !groups_fit(run, more_groups(run, factor), most)) factor /= 2;
    run->n_room = more_groups(run, factor);
    return true;
}

static weft_status failed_check(const GpuRun *run, i32 failed, Error *err)
{
    ASSERT(failed > 0 && failed <= run->launch->woven->n_checks);
    const Check *check = &run->launch->woven->checks[failed - 1];
    return fail(err, check->status, check->at, "%s", check->message);
}

// The copy is in the stream behind the kernels, so that a launch waits once for both.
weft_status launch_ask_back(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    run->is_coming = run->pinned && run->copied_bytes <= PINNED_SLOT_BYTES;
    if (run->is_coming)
        GPU_TRY(gpu, MemcpyDtoHAsync, (run->pinned, in_block(run, 0), run->copied_bytes, run->stream), err);
    return WEFT_OK;
}

static void forget_back(GpuRun *run)
{
    free(run->back_own);
    run->back_own = NULL, run->back = run->back_state = NULL;
}

static weft_status get_back(GpuRun *run, Error *err)
{
    if (run->pack) return WEFT_OK;     // it has been set
    forget_back(run);
    if (!run->is_coming) run->back_own = malloc(run->copied_bytes);
    run->back = run->is_coming ? run->pinned : run->back_own, run->back_state = run->back + run->room_at;
    return run->is_coming ? WEFT_OK : fetch_short(run, run->back_own, 0, run->copied_bytes, err);
}

// *AGAIN: there was too little room; launch_close and launch_open make more.
weft_status launch_results(GpuRun *run, bool *again, Error *err)
{
    Launch      *launch = run->launch;
    const Woven *woven = launch->woven;
    *again = false;
    TRY(get_back(run, err));
    static const KernelCommon none;    // a body counts nothing and checks nothing
    const KernelCommon *common = run->back ? (const KernelCommon *)(const void *)run->back : &none;
    if (common->failed > 0 && common->failed <= woven->n_checks) return failed_check(run, common->failed, err);
    if (atomic_load(launch->stop)) return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
    if (common->failed) {
        *again = grow(run, common);
        return *again ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "more than 4 billion groups");
    }
    run->n_used = is_rows(run) ? TAKEN_ROWS(common->n_used) : common->n_used;
    run->n_segments = is_rows(run) ? TAKEN_SEGMENTS(common->n_used) : 0;
    launch->out.counts = calloc((size_t)woven->n_counts + 1, sizeof(u64));
    if (run->back) memcpy(launch->out.counts, run->back + run->counts_at, (size_t)woven->n_counts * sizeof(u64));
    if (!is_rows(run)) return fetch_groups(run, err);
    launch->out.rows_out = run->n_used;
    return launch->n_facts ? keep_rows(run) : fetch_rows(run, err);
}

void launch_free_results(GpuRun *run)
{
    Budget *budget = run->launch->budget;
    for (int s = 0; run->state && s < run->launch->woven->n_state; s++)
        mem_free(budget, run->state[s], run->state_bytes[s]);
    mem_free(budget, run->keys, run->keys_bytes);
    mem_free(budget, run->words, run->words_bytes);
    free(run->state);
    free(run->state_bytes);
    forget_back(run);
    free(run->launch->out.counts);
    run->launch->out.counts = NULL;
    run->state = NULL, run->state_bytes = NULL, run->keys = NULL, run->words = NULL;
}
