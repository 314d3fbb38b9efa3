// gpu_scan.c - the dispatcher of a GPU: runs of chunks through the kernels of all launches that want them.
//
//     run      [chunk 3][chunk 4]...[chunk 9]     q7: one launch over 3 .. 9      columns that are not in the pool
//                                                 q9: one launch over 3, 4, 8     are copied once (gpu_copy.c)
//
// The dispatcher takes the oldest launch, a run of chunks that it wants, and every other launch that wants some of
// them: that is the wave.  Where all their columns are in the pool a run is the whole table and a launch covers all of
// it; where they are not, a run is as much as is worth waiting for, and copies of the next run go on while the kernels
// of this one work.
//
//     copy streams       columns and args of run 1 | of run 2 | ...                   event "copied" per run and stream
//     a launch's stream  its block, its tables | (copied 1) its part of run 1 | ...   event "done" per run and stream
//
// The threads of queries prepare their launch before and fetch their results after; they wait for their own stream
// only.
//
// How long is a run that streams from pinned columns?  The link brings 4 MiB in 75 us.  The host needs, to put a run
// together, about 60 us for one rider and 145 for 32 of one shape (others take longer); so a run is 4 MiB and 768 KiB
// more for each rider, an eighth of the pool at most, which the link needs longer for than the host.  Two such runs are
// under way, one in each copy stream, and no more:
//
//     copy stream 0  run 1 ██████        run 3 ██████
//     copy stream 1        run 2 ██████        run 4 ██████
//
// The copy engine stays with a stream for about a millisecond while it has work there: with two runs in one stream they
// come out of turn and in bunches.
//
//     time = gathering + first run put together + bytes / link + kernels of the last run  (+ 2 runs for a late rider)
//
// Runs under way take room from columns that stay in the pool for the next time, and a late rider cannot use them, so
// that they are copied again.  Measured on an H200, 960 MB of which up to 100 stay, for one query and for 32 at once:
// 16.4 and 17.6 ms with two runs, 16.4 and 17.9 with three, 17.0 and 18.0 with four; with one stream 17.5 and 17.9.
// Through stages the host is the limit, and longer runs keep its threads busy.
//
// Columns are held from when a run is put together until it is done; then they stay in the pool until their room is
// wanted.

#include "device/gpu_args.h"
#include "device/gpu_kinds.h"
#include "device/gpu_room.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define REAP_MS     1
#define WAKE_MS     20
#define KEEP_MS     100                // after the last query
#define WAKE_SHARE  16                 // as many riders as this look within WAKE_MS
#define WAKE_MOST_MS 1000              // a cancel wakes it (gpu_wake)
#define RUN_BYTES        ((u64)4 << 20)    // of a run that streams, and for each rider
#define RUN_RIDER_BYTES  ((u64)768 << 10)
#define RUN_SHARE        8                 // of the pool: 1 / this, at most
#define RUNS_AHEAD       2                 // that stream and have not come
#define RUN_STAGED_BYTES ((u64)48 << 20)   // of a run through stages
#define CROWD_RIDERS     16                // of a run: those with kernels of their own have their results together, too
#define AHEAD_SHARE      1.25              // of the time in which a run is put together: so long before the last one
                                           // ends it is begun
#define IN_PLACE_SHARE   0.01              // of a column that is left in the host's memory, what kernels look at
#define IN_PLACE_SECTOR  128
#define READ_AHEAD_BYTES ((u64)128 << 20)  // of columns on disk
#define POLL_AGAIN_MS    0.03              // while a run is waited for,
#define POLL_CROWD_MS    0.1               // by many
#define GATHER_BYTES     ((u64)64 << 20)   // of the device's memory: so much takes longer than others to come
#define GATHER_MS        0.8               // that a scan waits for others, at most, where columns come over the link,
#define GATHER_SHARE     12                // or 1 / this of the time that it takes alone, where that is more,
#define GATHER_MOST_MS   5.0               // and never longer: a query that has not come by then waits for its join
                                           // tables;
#define GATHER_SMALL_MS  0.1               // that a small scan waits, where several are planned together
#define GATHER_FORCED_MS 1000.0            // and where a benchmark has said how many are to come
#define PREFETCHES_MOST  8                 // runs of columns that are copied during the wait;
#define GATHER_SIEVE_MS  2.5               // and where it would be sieved with them in the device's memory
#define LINK_BYTES_PER_MS   5e7        // of PCI Express 5 with 16 lanes: over a slower link a scan waits a smaller part
                                       // of its time
#define UNKNOWN_PEAK_GBS    1000.0     // of memory of which nothing is known

static bool is_stopped(const GpuRun *run) { return atomic_load_explicit(run->launch->stop, memory_order_relaxed); }

static void want_nothing(GpuRun *run)
{
    memset(run->wants, 0, (size_t)run->launch->source->n_chunks * sizeof(bool));
    run->n_wanted = 0;
}

// ---- getting columns (under the lock) -------------------------------------------------------------------------------

static u64 *bytes_new(Wave *wave, const ColumnCopy *copied)
{
    return copied->is_straight ? &wave->bytes_straight : &wave->bytes_staged;
}

// A copy brings all of a column, a kernel that reads the host's memory only what it looks at: worth it where that is
// very little, as the link is better at copies.  What it looks at is 128 bytes at a time.
static bool needs_little(const Wave *wave, const RunChunk *chunk, int column)
{
    double share = 0;
    if (!chunk->pin) return false;
    for (int r = 0; r < wave->n_riders; r++) {
        const GpuRun *run = wave->riders[r];
        if (!wants_chunk(run, chunk->chunk, chunk->number)) continue;
        // A sieve reads all of it.
        if (wave->n_riders > 1 && gpu_sieve_tests(run, column)) return false;
        for (int c = 0; c < run->launch->woven->n_columns; c++)
            if (table_column(run, c) == column)
                share += run->launch->woven->column_pass[c] * IN_PLACE_SECTOR / chunk->chunk->columns[column].width;
    }
    return share < IN_PLACE_SHARE;
}

// Chunks with id 0 are rows of one query and are not looked up: only that query could use a copy.  Rows that stayed
// here (gpu_table.c) are held by it, so they are found.
static bool hold_column(Wave *wave, RunChunk *chunk, int column, bool is_passing)
{
    ASSERT(mutex_is_held(&wave->gpu->lock));
    Gpu          *gpu = wave->gpu;
    const Chunk  *stored = chunk->chunk;
    const CopyKey key = { stored->id, (u64)(u32)column };
    ColumnCopy copied = { .column = column,
                          .copy = copy_find(gpu->frames, key),
                          .valid_at = column_valid_at(stored, column) };
    ASSERT(copied.copy || stored->columns[column].data);
    if (copied.copy && !is_passing) copied.copy->is_passing = false;       // it belongs to something that fits
    if (!copied.copy && is_passing && chunk->from_store && !chunk->pin) chunk->pin = pin_hold(gpu->pins, stored);
    if (!copied.copy && needs_little(wave, chunk, column)) copied.in_place = column_in_place(chunk, column);
    if (!copied.copy && !copied.in_place) {
        copied.copy = copy_add(gpu->frames, key, column_copy_bytes(stored, column), is_passing);
        if (!copied.copy) return false;
        copied.is_straight = column_is_straight(chunk, column);
        *PUSH(wave->new_copies, wave->n_new, wave->new_room) = copied.copy;
        *bytes_new(wave, &copied) += column_read_bytes(stored, column);
    }
    chunk->columns[chunk->n_columns++] = copied;
    return true;
}

static void release_chunk(Wave *wave, RunChunk *chunk, int n_new)
{
    for (; wave->n_new > n_new; wave->n_new--) {       // their content never came
        Copy *copy = wave->new_copies[wave->n_new - 1];
        for (int c = 0; c < chunk->n_columns; c++)
            if (chunk->columns[c].copy == copy) {
                *bytes_new(wave, &chunk->columns[c]) -= column_read_bytes(chunk->chunk, chunk->columns[c].column);
                chunk->columns[c] = chunk->columns[--chunk->n_columns];
                break;
            }
        copy_forget(wave->gpu->frames, copy);
    }
    for (int c = 0; c < chunk->n_columns; c++)
        if (chunk->columns[c].copy) copy_release(wave->gpu->frames, chunk->columns[c].copy);
    pin_release(chunk->pin);
    free(chunk->columns);
}

static bool is_column_of(const RunChunk *chunk, const Copy *copy)
{
    int c = 0;
    while (c < chunk->n_columns && chunk->columns[c].copy != copy) c++;
    return c < chunk->n_columns;
}

static void release_chunks(Wave *wave)
{
    for (; wave->n_chunks; wave->n_chunks--) {
        RunChunk *chunk = &wave->chunks[wave->n_chunks - 1];
        int       n_new = wave->n_new;             // of the chunks before
        while (n_new && is_column_of(chunk, wave->new_copies[n_new - 1])) n_new--;
        release_chunk(wave, chunk, n_new);
    }
}

static int columns_wanted(const Wave *wave, const Chunk *chunk, int hint)
{
    int n = wave->is_uniform ? wave->n_columns : 0;
    for (int r = 0; r < wave->n_riders && !wave->is_uniform; r++)
        if (wants_chunk(wave->riders[r], chunk, hint)) n += wave->riders[r]->launch->woven->n_columns;
    return n;
}

// Of all riders, for any chunk, where they want the same ones.
static void add_up_riders(Wave *wave)
{
    u64 has = 0;                       // of the first columns: many riders want the same ones
    if (wave->has_sums) return;
    wave->has_sums = true, wave->n_columns = 0;
    args_add_up(wave);
    for (int r = 0; r < wave->n_riders; r++) {
        const GpuRun *run = wave->riders[r];
        for (int c = 0; c < run->launch->woven->n_columns; c++) {
            const int column = table_column(run, c);
            int       known = column < 64 ? wave->n_columns : 0;
            if (column < 64 && has >> column & 1) continue;
            while (known < wave->n_columns && wave->columns[known] != column) known++;
            if (known < wave->n_columns) continue;
            if (column < 64) has |= (u64)1 << column;
            *PUSH(wave->columns, wave->n_columns, wave->columns_room) = column;
        }
    }
}

// Adds a chunk with all columns that any rider of the wave wants; false: there is no room for it now.
static bool add_chunk(Wave *wave, const GpuRun *leader, int number)
{
    ASSERT(mutex_is_held(&wave->gpu->lock));
    const Source *source = leader->launch->source;
    const Chunk  *stored = source->chunks[number];
    const int     n_new = wave->n_new;
    RunChunk      chunk = { .chunk = stored, .number = number, .from_store = source->from_store };
    bool          is_complete = true;
    u64           has = 0;             // of the first columns: many riders want the same ones
    chunk.columns = calloc((size_t)columns_wanted(wave, stored, number) + 1, sizeof *chunk.columns);
    for (int c = 0; wave->is_uniform && c < wave->n_columns && is_complete; c++)
        is_complete = hold_column(wave, &chunk, wave->columns[c], wave->is_passing);
    for (int r = 0; r < wave->n_riders && is_complete && !wave->is_uniform; r++) {
        if (!wants_chunk(wave->riders[r], stored, number)) continue;
        for (int c = 0; c < wave->riders[r]->launch->woven->n_columns && is_complete; c++) {
            const int column = table_column(wave->riders[r], c);
            if (column < 64 ? has >> column & 1 : chunk_column(&chunk, column) != NULL) continue;
            is_complete = hold_column(wave, &chunk, column, wave->is_passing);
            if (column < 64) has |= (u64)1 << column;
        }
    }
    if (!is_complete) {
        release_chunk(wave, &chunk, n_new);
        return false;
    }
    for (int c = 0; c < chunk.n_columns; c++)
        if (chunk.columns[c].copy && !chunk.columns[c].copy->is_filled)
            pin_pass(chunk.pin, chunk.columns[c].column, stored->columns[chunk.columns[c].column].data,
                     column_copy_bytes(stored, chunk.columns[c].column));
    pin_use(chunk.pin);
    *PUSH(wave->chunks, wave->n_chunks, wave->chunks_room) = chunk;
    return true;
}

static bool want_same(const GpuRun *a, const GpuRun *b)
{
    const Source *x = a->launch->source, *y = b->launch->source;
    const size_t  n = (size_t)x->n_chunks;
    return a == b || (x->n_chunks == y->n_chunks && memcmp(a->wants, b->wants, n * sizeof *a->wants) == 0 &&
                      (x->chunks == y->chunks || memcmp(x->chunks, y->chunks, n * sizeof(Chunk *)) == 0));
}

// As many as arguments find room for with one chunk, and of those that the generic kernel runs as many as one sieve
// serves: by itself each of them would keep all others waiting.  The rest lead later.
static void gather_riders(Wave *wave, const GpuRun *leader)
{
    ASSERT(mutex_is_held(&wave->gpu->lock));
    int n_generic = leader->program != NULL;
    wave->is_uniform = true, wave->leader = leader, wave->is_passing = passes_through(wave->gpu, leader);
    args_gather(wave, leader);
    for (GpuRun *run = wave->gpu->first; run; run = run->next) {
        if (is_stopped(run)) want_nothing(run);
        if (!run->n_wanted || !wave_are_fellows(leader, run)) continue;
        if (run != leader && run->program && n_generic++ >= SIEVE_RIDERS) continue;
        if (run != leader && !args_gather(wave, run)) continue;
        wave->is_uniform = wave->is_uniform && want_same(leader, run);
        *PUSH(wave->riders, wave->n_riders, wave->riders_room) = run;
    }
}

// It takes several runs, at least where its columns are not in the pool.
static bool is_long(const Gpu *gpu, const GpuRun *run)
{
    return run->bytes_wanted > RUN_STAGED_BYTES || passes_through(gpu, run);
}

// A run must not take so much of the pool that the next ones find no room.
static bool is_long_enough(const Wave *wave)
{
    const u64 most = frames_total(wave->gpu->frames) / RUN_SHARE;
    return wave->bytes_straight >= MIN_OF(RUN_BYTES + RUN_RIDER_BYTES * (u64)wave->n_riders, most) ||
           wave->bytes_staged > MIN_OF(RUN_STAGED_BYTES, most);
}

// As many chunks as the leader wants and one run may have; 0: not even one found room.
static void gather_chunks(Wave *wave, const GpuRun *leader)
{
    const Source *source = leader->launch->source;
    const u64     once = args_of_riders(wave);
    if (wave->is_uniform) add_up_riders(wave);
    for (int c = 0; c < source->n_chunks && wave->n_chunks < PARTS_MAX; c++) {
        if (!leader->wants[c]) continue;
        const u64 bytes = args_of_chunk(wave, source->chunks[c], c);
        if (wave->n_chunks && wave->args_bytes + bytes + once > wave->slot->args_bytes) return;
        if (wave->n_chunks && is_long_enough(wave)) return;
        if (!add_chunk(wave, leader, c)) return;
        wave->args_bytes += bytes;
    }
}

// What all riders want of a chunk is asked for, unless it was; all of it is counted.
static u64 ask_for_chunk(Wave *wave, const Chunk *chunk, int hint)
{
    u64 bytes = 0, has = 0;            // of the first columns: many riders want the same ones
    for (int r = 0; r < wave->n_riders; r++) {
        GpuRun    *run = wave->riders[r];
        const int  number = chunk_number(run, chunk, hint);
        if (number < 0 || !run->wants[number]) continue;
        for (int c = 0; c < run->launch->woven->n_columns; c++) {
            const int column = table_column(run, c);
            if (column < 64 && has >> column & 1) continue;
            if (column < 64) has |= (u64)1 << column;
            bytes += column_read_bytes(chunk, column);
            if (number >= run->asked_until) ahead_ask(wave->gpu->ahead, chunk, column);
        }
        run->asked_until = MAX_OF(run->asked_until, number + 1);
    }
    return bytes;
}

// This run and what comes after it, where it is on disk.  What comes straight is in memory.
static void read_ahead(Wave *wave, const GpuRun *leader)
{
    const Source *source = leader->launch->source;
    u64           bytes = 0;
    if (!wave->bytes_staged || !source->from_store) return;
    for (int c = wave->chunks[0].number; c < source->n_chunks && bytes < READ_AHEAD_BYTES; c++)
        if (leader->wants[c]) bytes += ask_for_chunk(wave, source->chunks[c], c);
}

// ---- launching (without the lock) -----------------------------------------------------------------------------------

static void *device_pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

static KernelArgs part_args(const GpuRun *run, const RunChunk *chunk, u64 place)
{
    KernelArgs args = { .row_end = chunk->chunk->n_rows,
                        .place = place,
                        .tables = device_pointer(in_block(run, run->tables_at)),
                        .state = device_pointer(in_block(run, run->state_at)),
                        .common = device_pointer(in_block(run, 0)) };
    if (run->is_counted) args.counts = device_pointer(in_block(run, run->counts_at));
    if (run->n_slots) {
        args.groups = device_pointer(in_block(run, run->slots_at)), args.groups_mask = run->n_slots - 1;
        args.group_words = device_pointer(in_block(run, run->words_at));
    }
    return args;
}

// The launch's parts of the run, in the args of its slot: KernelArgs, then columns, then parameters.  CHUNKS: in this
// order; one that it does not want has no rows for it.
static Parts write_parts(const Wave *wave, const GpuRun *run, const int *chunks, int n_chunks)
{
    RunSlot      *slot = wave->slot;
    const Woven  *woven = run->launch->woven;
    Parts         parts = { .n_parts = n_chunks };
    const u64 columns_at = args_rounded((u64)parts.n_parts * sizeof(KernelArgs)),
              columns_size = (u64)woven->n_columns * sizeof(KernelColumn);
    const u64 params_at = columns_at + args_rounded((u64)parts.n_parts * columns_size),
              params_size = (u64)woven->n_params * sizeof(i64);
    const u64     base = slot->args_used;
    u8           *host = slot->args + base;
    const GpuAddress device = slot->args_at + base;
    parts.at = device;
    for (int p = 0; p < n_chunks; p++) {
        const RunChunk *chunk = &wave->chunks[chunks[p]];
        const int       number = chunk_number(run, chunk->chunk, chunk->number);
        KernelColumn *columns = (KernelColumn *)(void *)(host + columns_at + (u64)p * columns_size);
        i64          *params = (i64 *)(void *)(host + params_at + (u64)p * params_size);
        KernelArgs    args = part_args(run, chunk, (u64)(u32)number << 32);
        if (number < 0 || !run->wants[number]) args.row_end = 0;
        wave_columns(run, chunk, columns);
        launch_write_params(run, columns, params);
        args.columns = device_pointer(device + columns_at + (u64)p * columns_size);
        args.params = device_pointer(device + params_at + (u64)p * params_size);
        ((KernelArgs *)(void *)host)[p] = args;
        parts.most_rows = MAX_OF(parts.most_rows, chunk->chunk->n_rows);
    }
    slot->args_used += args_rounded(params_at + (u64)parts.n_parts * params_size);
    ASSERT(slot->args_used <= slot->args_bytes);
    return parts;
}

// WAITING: streams that wait for the gate already.
static weft_status open_stream(Wave *wave, GpuRun *run, u32 *waiting, Error *err)
{
    const u32 own = 1u << run->stream_number;
    TRY(run_use_own_stream(run, err));
    if (!(*waiting & own)) TRY(wave_wait(wave, run->stream, err));
    *waiting |= own;
    return WEFT_OK;
}

static weft_status launch_parts(Wave *wave, const WaveLaunch *launch, Error *err)
{
    Gpu    *gpu = wave->gpu;
    GpuRun *run = launch->run;
    TRY(timer_begin(run, err));
    TRY(wave_launch(gpu, run, run->stream, launch->parts.at, &launch->grid, err));
    TRY(timer_end(run, err));
    schedule_note(&run->launch->out.gpu, run, &launch->grid);
    return WEFT_OK;
}

// The chunks of a rider that its unit does not have, behind those of the unit.
static Parts rest_of(const Parts *parts, const Unit *unit)
{
    const int n_done = unit->fused ? unit->n_chunks : 0;   // a cube has arguments of its own
    return (Parts){ parts->n_parts - n_done, parts->most_rows, parts->at + (u64)n_done * sizeof(KernelArgs) };
}

// What serves several riders of a unit.
static weft_status launch_together(Wave *wave, const Unit *unit, Error *err)
{
    if (unit->fused) TRY(unit_launch_fused(wave, unit, err));
    if (unit->cube) TRY(gpu_cube_launch(wave, unit->cube, err));
    if (unit->join_cube) TRY(gpu_join_cube_launch(wave, unit->join_cube, err));
    return unit->sieve ? gpu_sieve_end(wave, unit->sieve, err) : WEFT_OK;
}

// A launch for what serves several riders, and one for each rider whose own kernel has something to do.
static int list_launches(const Wave *wave, const Unit *units, int n_units, const Parts *parts, WaveLaunch *launches)
{
    int n = 0;
    for (int u = 0; u < n_units; u++) {
        const Unit *unit = &units[u];
        if (unit->fused || unit->cube || unit->join_cube || unit->sieve) launches[n++] = (WaveLaunch){ .unit = unit };
        for (int i = 0; i < unit->n_riders && !unit->sieve; i++) {
            const Parts rest = rest_of(&parts[unit->riders[i]], unit);
            if (rest.n_parts)
                launches[n++] = (WaveLaunch){ .run = wave->riders[unit->riders[i]], .unit = unit, .parts = rest };
        }
    }
    return n;
}

// With the model all streams are opened first, while the args are on their way: kernels then begin as quickly one after
// the other as the driver takes launches.
static weft_status launch_in_order(Wave *wave, const WaveLaunch *launches, int n, const int *order, Error *err)
{
    const bool opens_first = wave->schedule == SCHEDULE_MODEL && !wave->is_passing;
    bool       has_begun = false;
    u32        waiting = 0;
    for (int i = 0; i < n && opens_first; i++)
        if (launches[order[i]].run && launches[order[i]].unit->n_riders == 1)
            TRY(open_stream(wave, launches[order[i]].run, &waiting, err));
    for (int i = 0; i < n; i++) {
        const WaveLaunch *launch = &launches[order[i]];
        if (!launch->run) {
            TRY(launch_together(wave, launch->unit, err));
            continue;
        }
        TRY(open_stream(wave, launch->run, &waiting, err));
        if (!has_begun) TRY(schedule_begin_timers(wave, launch, err));
        has_begun = true;
        TRY(launch_parts(wave, launch, err));
    }
    return schedule_end_timers(wave, launches, n, err);
}

static weft_status launch_all(Wave *wave, const Unit *units, int n_units, const Parts *parts, Error *err)
{
    const size_t room = (size_t)(wave->n_riders + n_units) + 1;
    WaveLaunch  *launches = calloc(room, sizeof *launches);
    int         *order = calloc(room, sizeof *order);
    const int    n = list_launches(wave, units, n_units, parts, launches);
    schedule_wave(wave, launches, n, order);
    const weft_status status = launch_in_order(wave, launches, n, order, err);
    free(order);
    free(launches);
    return status;
}

static void write_unit(Wave *wave, Unit *unit, Parts *parts, int *chunks)
{
    Parts *own[SIEVE_RIDERS] = { 0 };
    for (int i = 0; i < unit->n_riders; i++) {
        const GpuRun *run = wave->riders[unit->riders[i]];
        int           n = 0;
        for (; unit->fused && n < unit->n_chunks; n++) chunks[n] = unit->chunks[n];
        for (int k = 0, u = 0; k < wave->n_chunks; k++) {
            if (u < unit->n_chunks && unit->chunks[u] == k) u++;
            else if (wave_wants(wave, run, k)) chunks[n++] = k;
        }
        parts[unit->riders[i]] = write_parts(wave, run, chunks, n);
        if (unit->sieve) own[i] = &parts[unit->riders[i]];
    }
    if (unit->fused) unit_write(wave, parts, unit);
    if (unit->cube) gpu_cube_write(wave, unit->cube, unit->chunks, unit->n_chunks);
    if (unit->sieve) gpu_sieve_hand_out(wave, unit->sieve, own);
}

// All that a cube's riders want goes through its kernel: none of them needs one of its own.
static bool serves_all(const Wave *wave, const Unit *unit)
{
    for (int i = 0; i < unit->n_riders; i++) {
        const GpuRun *run = wave->riders[unit->riders[i]];
        int           n = 0;
        for (int k = 0; k < unit->n_chunks; k++) n += wave_wants(wave, run, unit->chunks[k]);
        if (n != run->n_wanted) return false;
    }
    return true;
}

// Those over joins have theirs.
static void pack_cubes(Wave *wave, const Unit *units, int n_units)
{
    for (int u = 0; u < n_units; u++)
        if (units[u].cube && serves_all(wave, &units[u])) gpu_cube_pack(wave, units[u].cube);
}

// Riders of a stream wait for each other's results then, which are there at about the same time where kernels are many.
static void pack_others(Wave *wave)
{
    GpuRun **runs = calloc((size_t)wave->n_riders, sizeof *runs);
    for (int s = 0; s < N_STREAMS && wave->n_riders >= CROWD_RIDERS; s++) {
        int n = 0;
        for (int r = 0; r < wave->n_riders; r++)
            if (wave->riders[r]->stream_number == s && !wave->riders[r]->pack) runs[n++] = wave->riders[r];
        if (n) packs_make(wave, NULL, wave->gpu->streams[s], runs, n);
    }
    free(runs);
}

// Tables that are yet to be filled, by several threads: those that fill stages have nothing to do now.
typedef struct LateTables { const Wave *wave; _Atomic int next; } LateTables;

static void fill_some(void *context, int worker)
{
    LateTables *late = context;
    (void)worker;
    for (int r; (r = atomic_fetch_add(&late->next, 1)) < late->wave->n_riders;) {
        const GpuRun *run = late->wave->riders[r];
        const Woven  *woven = run->launch->woven;
        for (int t = run->n_tables; t < woven->n_tables && !run->pack; t++)
            if (woven->table_facts[t].late) woven->table_facts[t].late->get(woven->table_facts[t].late);
    }
}

static bool is_any_late(const Wave *wave)
{
    int r = 0;
    while (r < wave->n_riders && (wave->riders[r]->pack || !wave->riders[r]->can_do_without_tables)) r++;
    return r < wave->n_riders;
}

// Those that ride by themselves after all need what they could have done without in a body.
static weft_status get_tables(const Wave *wave, Error *err)
{
    LateTables late = { .wave = wave };
    Pool      *pool = wave->gpu->copiers;
    if (is_any_late(wave)) pool_run(pool, MIN_OF(pool_size(pool), wave->n_riders), fill_some, &late);
    for (int r = 0; r < wave->n_riders; r++)
        if (!wave->riders[r]->pack) TRY(launch_get_tables(wave->riders[r], err));
    return WEFT_OK;
}

// Columns of kinds belong to the run: one of its streams waits for them.
static weft_status wait_for_kinds(const Wave *wave, Error *err)
{
    if (!wave->n_kinds) return WEFT_OK;
    return gpu_kinds_wait(wave->gpu, wave->gpu->streams[wave->riders[0]->at_stream], err);
}

// Of riders that waited with it and are in no pack.
static weft_status write_blocks(const Wave *wave, Error *err)
{
    for (int r = 0; r < wave->n_riders; r++)
        if (!wave->riders[r]->pack) TRY(launch_write(wave->riders[r], err));
    return WEFT_OK;
}

static weft_status launch_units(Wave *wave, Unit *units, Parts *parts, int *chunks, int *riders, Error *err)
{
    const int   n_units = units_keep(wave, units, units_choose(wave, units, riders));
    ASSERT(n_units <= wave->n_riders);
    wave->slot->times.chosen = time_now_ms(), wave->slot->times.n_units = n_units;
    weft_status status = get_tables(wave, err);
    for (int u = 0; u < n_units && !status; u++)           // a sieve is at work while the rest is written
        if (units[u].sieve) status = gpu_sieve_begin(wave, units[u].sieve, err);
    if (!status) pack_cubes(wave, units, n_units);
    if (!status) pack_others(wave);
    if (!status) status = write_blocks(wave, err);
    for (int u = 0; u < n_units && !status; u++) write_unit(wave, &units[u], parts, chunks);
    if (!status) status = wave_gate(wave, err);
    if (!status) status = gpu_kinds_launch(wave, err);
    if (!status) status = launch_all(wave, units, n_units, parts, err);
    if (!status) status = wait_for_kinds(wave, err);
    for (int u = 0; u < n_units; u++) {
        free(units[u].chunks);
        gpu_cube_free(units[u].cube);
        gpu_join_cube_free(units[u].join_cube);
        gpu_sieve_free(units[u].sieve);
    }
    return status;
}

// A rider that is done fetches its results in its own stream, which must not wait for later work of others.  Those of a
// cube's pack are on their way, and whatever is at work for one rider of a stream is waited for by all of it.
static weft_status return_riders(const Wave *wave, Error *err)
{
    u32 told[N_STREAMS] = { 0 };       // by stream: which others go on behind it
    for (int r = 0; r < wave->n_riders; r++) {
        GpuRun   *run = wave->riders[r];
        const u32 own = 1u << run->stream_number;
        if (!run->pack && !wave_completes(wave, run)) continue;
        if (run->is_headless || told[run->at_stream] & own) run->at_stream = run->stream_number;
        told[run->at_stream] |= own;
        TRY(run_use_own_stream(run, err));
    }
    return WEFT_OK;
}

static weft_status launch_riders(Wave *wave, Error *err)
{
    Gpu     *gpu = wave->gpu;
    RunSlot *slot = wave->slot;
    Parts   *parts = calloc((size_t)wave->n_riders, sizeof *parts);
    Unit    *units = calloc((size_t)wave->n_riders, sizeof *units);
    int     *chunks = calloc((size_t)wave->n_chunks + 1, sizeof *chunks);
    int     *in_units = calloc((size_t)wave->n_riders, sizeof *in_units);
    weft_status status = launch_units(wave, units, parts, chunks, in_units, err);
    for (int r = 0; r < wave->n_riders && !status; r++) {
        const int s = wave->riders[r]->at_stream;
        if (slot->streams >> s & 1) continue;
        status = gpu_check(gpu, gpu->calls->EventRecord(slot->done[s], gpu->streams[s]), "EventRecord", err);
        slot->streams |= 1u << s;
    }
    if (!status) status = return_riders(wave, err);
    if (!status) status = packs_fetch(wave, NULL, err);
    free(in_units);
    free(chunks);
    free(units);
    free(parts);
    return status;
}

// A failed run has no event to wait for: its work must end before its memory is given back.
static void wait_for_failed_work(const Wave *wave)
{
    Gpu *gpu = wave->gpu;
    for (int s = 0; s < N_COPY_STREAMS; s++) gpu_wait_for(gpu, gpu->copy_streams[s]);
    gpu_wait_for(gpu, gpu->gate_stream);
    gpu_wait_for(gpu, gpu->kinds_stream);
    for (int r = 0; r < wave->n_riders; r++) gpu_wait_for(gpu, wave->riders[r]->stream);
}

static void run_wave(Wave *wave, bool is_prefetch)
{
    Error       err = { 0 };
    weft_status status = gpu_enter(wave->gpu, &err);
    wave->slot->args_used = wave->slot->args_sent = 0;
    if (!status) wave_list_pieces(wave);
    if (!status) wave_copy(wave);
    if (!status && !wave->is_failed) status = is_prefetch ? wave_gate(wave, &err) : launch_riders(wave, &err);
    if (status) wave_failed(wave, status, &err);
    if (!wave->is_failed) return;
    wait_for_failed_work(wave);
    packs_undo(wave, NULL);
}

// ---- slots ----------------------------------------------------------------------------------------------------------

// How long riders waited for each part of their run: says whether the host or the card is what a crowd waits for.
static void log_run(const Gpu *gpu, const RunSlot *slot)
{
    const RunTimes *times = &slot->times;
    if (!times->chosen) return;        // it failed, or only brought columns
    log_debug("%s: run %llu of %d riders: the oldest had waited %.2f ms; %d units chosen in %.2f, issued in %.2f, "
              "done %.2f ms later; %d launches wait",
              gpu->name, (unsigned long long)slot->number, times->n_riders, times->begun - times->oldest,
              times->n_units, times->chosen - times->begun, times->issued - times->chosen,
              time_now_ms() - times->issued, gpu->n_attached);
}

static double mean_of(double before, double now) { return before > 0 ? (before + now) / 2 : now; }

// Of runs that others wait for.  Work on the device is counted from when the run before was done.
static void note_pace(RunPace *pace, const RunTimes *times)
{
    const double now = time_now_ms();
    pace->prepared_ms = mean_of(pace->prepared_ms, times->issued - times->begun);
    pace->worked_ms = mean_of(pace->worked_ms, now - MAX_OF(times->issued, pace->last_done));
    pace->last_done = now;
}

static void end_slot(Gpu *gpu, RunSlot *slot)
{
    ASSERT(mutex_is_held(&gpu->lock));
    ASSERT(slot->is_used);
    log_run(gpu, slot);
    if (slot->gathers) note_pace(&gpu->pace, &slot->times);
    for (int c = 0; c < slot->n_copies; c++) copy_release(gpu->frames, slot->copies[c]);
    for (int p = 0; p < slot->n_pins; p++) pin_release(slot->pins[p]);
    if (slot->sieve_bytes) frames_give(gpu->frames, slot->sieve_at, slot->sieve_bytes);
    slot->sieve_bytes = 0;
    free(slot->copies);
    free(slot->pins);
    slot->copies = NULL, slot->n_copies = 0, slot->pins = NULL, slot->n_pins = 0, slot->streams = 0;
    slot->is_used = slot->waits_for_copies = slot->has_gate = slot->is_streaming = false;
    slot->has_arrived = false;
    slot->gathers = 0;
    gpu->moved_ms = time_now_ms();
    room_given(gpu);
    pthread_cond_broadcast(&gpu->changed);
}

static bool is_done(Gpu *gpu, RunSlot *slot)
{
    if (gpu->is_lost) return true;
    bool is_done = slot_has_arrived(gpu, slot);
    for (int s = 0; s < N_STREAMS && is_done; s++)
        if (slot->streams >> s & 1) is_done = event_has_arrived(gpu, slot->done[s]);
    return is_done || gpu->is_lost;
}

static RunSlot *oldest_slot(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    RunSlot *oldest = NULL;
    for (int r = 0; r < N_RUNS; r++)
        if (gpu->runs[r].is_used && (!oldest || gpu->runs[r].number < oldest->number)) oldest = &gpu->runs[r];
    return oldest;
}

// Only the dispatcher uses and ends slots, so it may release the lock for a driver call.
static bool unlock_for_driver(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    const bool was_dispatching = gpu->is_dispatching;
    gpu->is_dispatching = true;
    pthread_mutex_unlock(&gpu->lock);
    return was_dispatching;
}

static void relock(Gpu *gpu, bool was_dispatching)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->is_dispatching = was_dispatching;
}

// A driver call may take long while other threads call the driver, and those must not wait for our lock.
static void reap(Gpu *gpu)
{
    bool       can_end[N_RUNS];
    const bool was_dispatching = unlock_for_driver(gpu);
    for (int r = 0; r < N_RUNS; r++) {
        can_end[r] = gpu->runs[r].is_used && is_done(gpu, &gpu->runs[r]);
        if (can_end[r]) schedule_read_timers(gpu, &gpu->runs[r]);
    }
    relock(gpu, was_dispatching);
    for (int r = 0; r < N_RUNS; r++)
        if (can_end[r]) end_slot(gpu, &gpu->runs[r]);
}

static void wait_for_oldest(Gpu *gpu)
{
    RunSlot *slot = oldest_slot(gpu);
    if (!slot) return;
    const bool was_dispatching = unlock_for_driver(gpu);
    for (int s = 0; s < N_STREAMS; s++)
        if (slot->streams >> s & 1) event_wait(gpu, slot->done[s]);
    slot_wait(gpu, slot);
    schedule_read_timers(gpu, slot);
    relock(gpu, was_dispatching);
    end_slot(gpu, slot);
}

// Of runs that stream and have not come, as far as is known, the oldest when there are enough of them.
static RunSlot *oldest_ahead(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    RunSlot *oldest = NULL;
    int      n_ahead = 0;
    for (int r = 0; r < N_RUNS; r++) {
        RunSlot *slot = &gpu->runs[r];
        if (!slot->is_used || !slot->is_streaming || slot->has_arrived) continue;
        n_ahead++;
        if (!oldest || slot->number < oldest->number) oldest = slot;
    }
    return n_ahead >= RUNS_AHEAD && !gpu->is_lost ? oldest : NULL;
}

static void wait_for_copies(Gpu *gpu, const RunSlot *slot)
{
    const bool was_dispatching = unlock_for_driver(gpu);
    slot_wait(gpu, slot);
    relock(gpu, was_dispatching);
}

static RunSlot *free_slot(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    for (int r = 0; r < N_RUNS; r++)
        if (!gpu->runs[r].is_used) return &gpu->runs[r];
    return NULL;
}

// ---- a step of the dispatcher (under the lock) ----------------------------------------------------------------------

static bool came_from_pool(const Wave *wave)
{
    for (int k = 0; k < wave->n_chunks; k++)
        for (int c = 0; c < wave->chunks[k].n_columns; c++)
            if (!wave->chunks[k].columns[c].copy) return false;
    return !wave->n_new;
}

static void count_all(GpuRun *run, u64 n_chunks, u64 n_rows, u64 bytes)
{
    Launch *launch = run->launch;
    launch->out.chunks_read += n_chunks, launch->out.rows_in += n_rows, launch->out.bytes_read += bytes;
    figures_ridden(run, n_chunks, n_rows, bytes);
    if (launch->rows_done) atomic_fetch_add_explicit(launch->rows_done, n_rows, memory_order_relaxed);
}

static void count_chunks(const Wave *wave, GpuRun *run)
{
    Launch *launch = run->launch;
    u64     n_chunks = 0, n_rows = 0, bytes = 0;
    for (int k = 0; k < wave->n_chunks; k++) {
        const RunChunk *chunk = &wave->chunks[k];
        const int       number = chunk_number(run, chunk->chunk, chunk->number);
        if (number < 0 || !run->wants[number]) continue;
        for (int c = 0; c < launch->woven->n_columns; c++) {
            const int         column = table_column(run, c);
            const ColumnCopy *copied = chunk_column(chunk, column);
            if (!copied->copy) launch->out.gpu.bytes_in_place += column_read_bytes(chunk->chunk, column);
            if (!copied->copy || copied->copy->is_filled) continue;
            launch->out.gpu.bytes_host += column_read_bytes(chunk->chunk, column);
            if (copied->is_straight) launch->out.gpu.bytes_straight += column_read_bytes(chunk->chunk, column);
        }
        n_chunks++, n_rows += chunk->chunk->n_rows, bytes += launch_column_bytes(launch, number);
        ASSERT(run->n_wanted > 0);
        run->wants[number] = false;
        run->n_wanted--;
    }
    count_all(run, n_chunks, n_rows, bytes);
}

// One that wants just what this run has, from the pool, has got what was worked out when it came.
static void count_ridden(const Wave *wave, GpuRun *run, bool is_from_pool)
{
    if (!is_from_pool || run->n_wanted != run->n_chunks_wanted || !wave_completes(wave, run)) {
        count_chunks(wave, run);
        return;
    }
    want_nothing(run);
    count_all(run, (u64)run->n_chunks_wanted, run->rows_wanted, run->bytes_wanted);
}

static void keep_copies(Wave *wave)
{
    ASSERT(mutex_is_held(&wave->gpu->lock));
    ASSERT(!wave->slot->copies && !wave->slot->pins);
    RunSlot *slot = wave->slot;
    int      n = wave->n_held;
    for (int k = 0; k < wave->n_chunks; k++) n += wave->chunks[k].n_columns;
    slot->copies = calloc((size_t)n + 1, sizeof *slot->copies);
    slot->pins = calloc((size_t)wave->n_chunks + 1, sizeof *slot->pins);
    for (int k = 0; k < wave->n_chunks; k++)
        if (wave->chunks[k].pin) slot->pins[slot->n_pins++] = wave->chunks[k].pin;
    for (int k = 0; k < wave->n_chunks; k++)
        for (int c = 0; c < wave->chunks[k].n_columns; c++)
            if (wave->chunks[k].columns[c].copy) slot->copies[slot->n_copies++] = wave->chunks[k].columns[c].copy;
    for (int h = 0; h < wave->n_held; h++) slot->copies[slot->n_copies++] = wave->held[h].copy;
}

// What came only in part must not be found again; what is in flight is held until the slot ends.
static void forget_new(Wave *wave)
{
    for (int n = 0; n < wave->n_new; n++) {
        wave->new_copies[n]->n_holds++;
        copy_forget(wave->gpu->frames, wave->new_copies[n]);
    }
    for (int h = 0; h < wave->n_held; h++) {
        if (!wave->held[h].is_new) continue;
        wave->held[h].copy->n_holds++;
        copy_forget(wave->gpu->frames, wave->held[h].copy);
    }
}

static void fail_rider(GpuRun *run, weft_status status, const Error *err)
{
    run->status = status;
    run->error = *err;
    want_nothing(run);
}

static void attach(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    ASSERT(mutex_is_held(&gpu->lock) && !run->is_attached);
    run->next = NULL, run->before = gpu->last;
    if (gpu->last) gpu->last->next = run;
    else gpu->first = run;
    gpu->last = run;
    gpu->n_attached++;
    run->is_attached = true;
}

static void detach(GpuRun *run)
{
    Gpu *gpu = run->gpu;
    ASSERT(mutex_is_held(&gpu->lock) && run->is_attached && !run->is_in_run);
    if (run->before) run->before->next = run->next;
    else gpu->first = run->next;
    if (run->next) run->next->before = run->before;
    else gpu->last = run->before;
    gpu->n_attached--;
    run->is_attached = false;
}

// It gets off.  Once it is woken it needs no lock of others, and may be gone.
static void set_issued(GpuRun *run)
{
    ASSERT(mutex_is_held(&run->gpu->lock));
    run->is_issued = true;
    detach(run);
}

static bool reads(const GpuRun *run, int column)
{
    int c = 0;
    while (c < run->launch->woven->n_columns && table_column(run, c) != column) c++;
    return c < run->launch->woven->n_columns;
}

// A damaged column fails the queries that read it; the CPU runs the others.
static weft_status own_status(const Wave *wave, const GpuRun *run)
{
    const bool is_its_own = !wave->damaged || (reads(run, wave->damaged_column) && wants_chunk(run, wave->damaged, 0));
    return is_its_own ? wave->status : WEFT_DEVICE_FAILED;
}

// Members of a pack wake each other, so none is looked at any more when the first one has been woken: those that are to
// be woken here come first among the riders then.
static void settle(Wave *wave, bool is_prefetch)
{
    int        n_woken = 0;
    const bool is_from_pool = came_from_pool(wave);
    ASSERT(mutex_is_held(&wave->gpu->lock));
    if (!wave->status && !is_prefetch) figures_read(wave);
    for (int r = 0; r < wave->n_riders; r++) {
        GpuRun *run = wave->riders[r];
        run->is_in_run = false;
        if (wave->status) fail_rider(run, own_status(wave, run), &wave->error);
        else if (!is_prefetch) count_ridden(wave, run, is_from_pool);
        if (!is_prefetch) figures_woven(run);
        if (run->n_wanted) continue;
        set_issued(run);
        if (!pack_wakes(run)) wave->riders[n_woken++] = run;
    }
    for (int r = 0; r < wave->n_left; r++) wave->riders[wave->n_riders + r]->is_in_run = false;
    for (int n = 0; n < wave->n_new; n++) wave->new_copies[n]->is_filled = true;
    wave->n_riders = wave->n_left = 0;
    for (int r = 0; r < n_woken; r++) run_wake(wave->riders[r]);
}

static void free_wave(Wave *wave)
{
    for (int k = 0; k < wave->n_chunks; k++) free(wave->chunks[k].columns);
    free(wave->chunks);
    free(wave->riders);
    free(wave->new_copies);
    free(wave->held);
    free(wave->columns);
    gpu_kinds_forget(wave);
    free(wave->packs);
    free(wave->staged.pieces);
    free(wave->straight.pieces);
    pthread_mutex_destroy(&wave->lock);
}

// What the first chunk that it wants takes of the pool: each column has frames of its own.
static u64 chunk_frames_bytes(const GpuRun *run)
{
    const Source *source = run->launch->source;
    u64           n_frames = 0;
    int           number = 0;
    while (number < source->n_chunks && !run->wants[number]) number++;
    for (int c = 0; number < source->n_chunks && c < run->launch->woven->n_columns; c++)
        n_frames += (column_copy_bytes(source->chunks[number], table_column(run, c)) + FRAME_BYTES - 1) / FRAME_BYTES;
    return n_frames * FRAME_BYTES;
}

static void fail_chunk(const GpuRun *run, Error *err)
{
    fail(
        err, WEFT_OUT_OF_MEMORY, -1,
        "out of device memory: the columns of one chunk need %s, and the pool of %s has %s for all that queries hold; "
        "WEFT_DEVICE_MEMORY sets its size",
        mem_size_text(chunk_frames_bytes(run)).text, run->gpu->name,
        mem_size_text(frames_total(run->gpu->frames)).text);
}

static void refuse_leader(GpuRun *leader)
{
    Error err = { 0 };
    if (!args_suffice(leader))
        fail(&err, WEFT_OUT_OF_MEMORY, -1, "%s takes no kernel with %d constants", leader->gpu->name,
             leader->launch->woven->n_params);
    else fail_chunk(leader, &err);
    leader->is_crowded = args_suffice(leader);
    fail_rider(leader, WEFT_OUT_OF_MEMORY, &err);
    set_issued(leader);
    run_wake(leader);
}

static bool can_share(const GpuRun *run) { return run->can_fuse || run->can_cube || run->can_sieve || run->joins; }

// The first run that may still bring columns; UINT64_MAX: none does.
static u64 first_copying_run(const Gpu *gpu)
{
    u64 first = UINT64_MAX;
    for (int r = 0; r < N_RUNS; r++)
        if (gpu->runs[r].is_used && gpu->runs[r].waits_for_copies) first = MIN_OF(first, gpu->runs[r].number);
    return first;
}

// Columns that are found in the pool may still be on their way.  Others need not wait: small scans for join tables go
// on while a large one streams.
static bool finds_copies_under_way(const Wave *wave)
{
    const u64 first = first_copying_run(wave->gpu);
    for (int k = 0; k < wave->n_chunks && first != UINT64_MAX; k++)
        for (int c = 0; c < wave->chunks[k].n_columns; c++)
            if (wave->chunks[k].columns[c].copy && wave->chunks[k].columns[c].copy->brought_by >= first) return true;
    return false;
}

static RunTimes run_begins(const Wave *wave)
{
    const double now = time_now_ms();
    RunTimes     times = { .oldest = now, .begun = now, .n_riders = wave->n_riders };
    for (int r = 0; r < wave->n_riders; r++) times.oldest = MIN_OF(times.oldest, wave->riders[r]->attached_ms);
    return times;
}

// IS_FETCH: columns come, and no kernel runs yet.
static void do_run(Wave *wave, GpuRun *leader, bool is_prefetch)
{
    Gpu *gpu = wave->gpu;
    ASSERT(mutex_is_held(&gpu->lock) && gpu->is_dispatching);
    ASSERT(wave->n_chunks > 0 && !wave->slot->is_used);
    read_ahead(wave, leader);
    wave->slot->waits_for_copies = wave->n_new || finds_copies_under_way(wave);
    wave->slot->is_streaming = wave->bytes_straight > 0;
    wave->slot->gathers = !wave->n_new && !wave->is_passing && leader->bytes_wanted >= GATHER_BYTES && can_share(leader)
                              ? leader->launch->table
                              : 0;
    wave->slot->is_used = true;
    wave->slot->number = ++gpu->n_runs;
    wave->slot->copy_stream = (int)(gpu->n_copying % N_COPY_STREAMS);
    gpu->n_copying += wave->n_new > 0;
    gpu->was_long = is_long(gpu, leader);
    for (int n = 0; n < wave->n_new; n++) wave->new_copies[n]->brought_by = wave->slot->number;
    for (int r = 0; r < wave->n_riders; r++) wave->riders[r]->is_in_run = true;
    wave->slot->times = run_begins(wave);
    pthread_mutex_unlock(&gpu->lock);
    run_wave(wave, is_prefetch);
    wave->slot->times.issued = time_now_ms();
    pthread_mutex_lock(&gpu->lock);
    keep_copies(wave);
    if (wave->status) forget_new(wave);
    settle(wave, is_prefetch);
}

static void drop_half_of_riders(Wave *wave, GpuRun *leader)
{
    for (int r = 0; r < wave->n_riders; r++)
        if (wave->riders[r] == leader) wave->riders[r] = wave->riders[0];
    wave->riders[0] = leader;
    wave->n_riders = (wave->n_riders + 1) / 2;
    wave->has_sums = false;
}

// The rest of a scan that began with others is short, and riders that want all of the table would get small parts of
// it, again and again.  They wait: what begins together ends together.  Not where columns come: these are for all.
static void leave_to_next_run(Wave *wave, const GpuRun *leader)
{
    int n = 0;
    if (wave->is_uniform || wave->n_new || wave->is_passing || wave->n_chunks < leader->n_wanted) return;
    bool is_uniform = true;
    for (int r = 0; r < wave->n_riders; r++) {
        GpuRun    *run = wave->riders[r];
        const bool is_same = want_same(leader, run);
        if (!is_same && 2 * wave_n_wanted(wave, run) < run->n_wanted) continue;
        is_uniform = is_uniform && is_same;
        wave->riders[n++] = run;
    }
    wave->n_riders = n, wave->is_uniform = is_uniform, wave->has_sums = false;
}

// Columns that all of them want may be more than the pool has room for, even empty: then fewer ride, at last the leader
// alone, and the others lead later.  Columns lie where others have left; where those of one chunk nearly fill the pool,
// what is free may be in two pieces between them: then they begin anew.
static void gather(Wave *wave, GpuRun *leader)
{
    gather_riders(wave, leader);
    if (!leader->n_wanted || !args_suffice(leader)) return;
    gather_chunks(wave, leader);
    while (!wave->n_chunks && wave->n_riders > 1 && !oldest_slot(wave->gpu)) {
        drop_half_of_riders(wave, leader);
        gather_chunks(wave, leader);
    }
    if (!wave->n_chunks && !oldest_slot(wave->gpu)) {
        frames_clear(wave->gpu->frames);
        gather_chunks(wave, leader);
    }
    if (wave->n_chunks) leave_to_next_run(wave, leader);
}

// More room for the arguments of a run, or as much as there was.  What there was is freed when the device is closed:
// the driver would wait for all that runs.
static void grow_args(Gpu *gpu, RunSlot *slot)
{
    Error      ignored = { 0 };
    void      *args = NULL;
    GpuAddress at = 0;
    if (gpu_enter(gpu, &ignored)) return;
    if (gpu_check(gpu, gpu->calls->MemHostAlloc(&args, ARGS_MOST, GPU_HOST_PORTABLE), "MemHostAlloc", &ignored)) return;
    if (gpu_check(gpu, gpu->calls->MemAlloc(&at, ARGS_MOST), "MemAlloc", &ignored)) {
        gpu->calls->MemFreeHost(args);
        return;
    }
    slot->first_args = slot->args, slot->first_args_at = slot->args_at;
    slot->args = args, slot->args_at = at, slot->args_bytes = ARGS_MOST;
    log_debug("%s: a run has %s for arguments", gpu->name, mem_size_text(ARGS_MOST).text);
}

// Where arguments are more than there is room for, a run would end after a few chunks, and all that is done for a run
// would be done again and again.  Room is found once, since the driver takes milliseconds for it.  True: the lock was
// released, and the leader may have left.
static bool finds_room_for_args(Gpu *gpu, const GpuRun *leader, RunSlot *slot)
{
    if (gpu->has_small_args || slot->args_bytes == ARGS_MOST || args_wanted(gpu, leader) <= slot->args_bytes)
        return false;
    const bool was_dispatching = unlock_for_driver(gpu);
    grow_args(gpu, slot);
    relock(gpu, was_dispatching);
    gpu->has_small_args = slot->args_bytes < ARGS_MOST;     // it is not tried again
    return true;
}

static void step(Gpu *gpu, GpuRun *leader)
{
    Wave wave = { .gpu = gpu, .slot = free_slot(gpu), .schedule = leader->launch->schedule };
    if (wave.schedule == SCHEDULE_SEQUENTIAL && oldest_slot(gpu)) {
        wait_for_oldest(gpu);          // and look again: the leader may have left
        return;
    }
    if (finds_room_for_args(gpu, leader, wave.slot)) return;
    pthread_mutex_init(&wave.lock, NULL);
    gather(&wave, leader);
    if (wave.n_chunks) do_run(&wave, leader, false);
    else if (leader->n_wanted && args_suffice(leader) && oldest_slot(gpu)) wait_for_oldest(gpu);
    else if (leader->n_wanted) refuse_leader(leader);
    free_wave(&wave);
}

// While a scan waits for others, its first columns come over the link; the run that follows finds them in the pool.
// Only straight ones: through stages the dispatcher would be busy with them for milliseconds, and those that are waited
// for could not make their join tables.
static void prefetch(Gpu *gpu, GpuRun *leader)
{
    Wave wave = { .gpu = gpu, .slot = free_slot(gpu) };
    pthread_mutex_init(&wave.lock, NULL);
    leader->n_prefetches++;
    gather_riders(&wave, leader);
    gather_chunks(&wave, leader);
    const bool is_worth_it = wave.n_new && !wave.bytes_staged;
    if (is_worth_it) log_debug("%s: columns of %d chunks come while others are waited for", gpu->name, wave.n_chunks);
    if (is_worth_it) {
        do_run(&wave, leader, true);
    } else {
        release_chunks(&wave);
        // The pool is full of what it wants, or not all of it comes straight: the next try would find the same.
        leader->n_prefetches = PREFETCHES_MOST;
    }
    free_wave(&wave);
}

// ---- the dispatcher -------------------------------------------------------------------------------------------------

static void wait_ms(Gpu *gpu, pthread_cond_t *condition, int ms)
{
    const struct timespec until = time_after_ms(ms);
    ASSERT(mutex_is_held(&gpu->lock));
    pthread_cond_timedwait(condition, &gpu->lock, &until);
}

// ---- waiting for others: a large scan is worth sharing --------------------------------------------------------------

// No thread is woken: the dispatcher polls while a rider waits for others.
void gpu_expect(Device *device, u64 table, int n)
{
    Gpu *gpu = (Gpu *)device;
    int  place = -1, unused = -1;
    pthread_mutex_lock(&gpu->slots_lock);
    for (int i = 0; i < EXPECTED_MOST; i++) {
        if (gpu->expected[i].n <= 0) unused = i;
        else if (gpu->expected[i].table == table) place = i;
    }
    if (place < 0 && n > 0) place = unused;
    if (place >= 0) {                  // else there are too many tables: no scan waits for this one
        if (gpu->expected[place].n < 0) gpu->expected[place].n = 0;
        gpu->expected[place].table = table;
        gpu->expected[place].n += n;
    }
    pthread_mutex_unlock(&gpu->slots_lock);
}

static int n_expected(Gpu *gpu, u64 table)
{
    int n = 0;
    pthread_mutex_lock(&gpu->slots_lock);
    for (int i = 0; i < EXPECTED_MOST; i++)
        if (gpu->expected[i].n > 0 && gpu->expected[i].table == table) n = gpu->expected[i].n;
    pthread_mutex_unlock(&gpu->slots_lock);
    return n;
}

static int n_here(const Gpu *gpu, u64 table)
{
    int n = 0;
    for (const GpuRun *run = gpu->first; run; run = run->next)
        n += run->launch->table == table && run->n_wanted && !run->is_issued;
    return n;
}

// Many riders of one table are examined under the lock, so what is the same for all of them is computed once.
typedef struct Arrivals { double now; u64 table; int n_coming, n_here; } Arrivals;

static Arrivals arrivals_now(void) { return (Arrivals){ .now = time_now_ms() }; }

static void count_arrivals(Gpu *gpu, u64 table, Arrivals *arrivals)
{
    if (arrivals->table == table) return;
    arrivals->table = table, arrivals->n_coming = n_expected(gpu, table), arrivals->n_here = n_here(gpu, table);
}

// What a query's kernels read of the device's memory, about two thirds of what that gives (SSB on an H200: half to nine
// tenths).
static double memory_bytes_per_ms(Gpu *gpu)
{
    GpuFigures figures = { 0 };
    peak_known(gpu, &figures);
    return (figures.peak_gbs >= 1 ? figures.peak_gbs : UNKNOWN_PEAK_GBS) * 1e6 * 2 / 3;
}

// Others are on their way to the table.  Where it comes over the link, it is copied again for a late rider; where it is
// in the device's memory, queries that are sieved together take little longer than one.  So there is a wait, of a part
// of the time that the scan takes alone for each of the others, and not long.
static bool waits_for_others(Gpu *gpu, const GpuRun *run, Arrivals *arrivals)
{
    const bool is_passing = passes_through(gpu, run);
    if (run->is_timed || (!is_passing && !run->can_sieve)) return false;
    count_arrivals(gpu, run->launch->table, arrivals);
    if (!arrivals->n_coming) return false;
    const double alone_ms = (double)run->bytes_wanted / (is_passing ? LINK_BYTES_PER_MS : memory_bytes_per_ms(gpu));
    const double wait_ms = is_passing ? MIN_OF(alone_ms * arrivals->n_coming / 4,
                                               MAX_OF(GATHER_MS, MIN_OF(alone_ms / GATHER_SHARE, GATHER_MOST_MS)))
                                      : MIN_OF(alone_ms * (arrivals->n_coming + arrivals->n_here) / 2, GATHER_SIEVE_MS);
    return arrivals->now - run->attached_ms < wait_ms;
}

// Small scans are planned together, and a set of kernels is found again only if it is the same: so where others are on
// their way, as many as can be are to be in one wave.
static bool waits_for_small_ones(Gpu *gpu, const GpuRun *run, Arrivals *arrivals)
{
    const bool   is_forced = gpu->gather_n && run->was_expected;
    const double most_ms = is_forced ? GATHER_FORCED_MS : GATHER_SMALL_MS;
    if (run->is_timed || arrivals->now - run->attached_ms >= most_ms) return false;
    if (!is_forced && !schedule_may_plan(gpu, run)) return false;
    count_arrivals(gpu, run->launch->table, arrivals);
    return is_forced ? arrivals->n_here < gpu->gather_n : arrivals->n_coming > 0;
}

// A run is expected to end by the time the next one has been put together: then the device goes on without a pause.
// What comes to the scan in between is later for it, so it is not done sooner.
static bool is_nearly_done(const Gpu *gpu, const RunSlot *slot)
{
    const RunPace *pace = &gpu->pace;
    if (slot->times.issued <= 0 || slot->times.n_riders < CROWD_RIDERS || pace->worked_ms <= 0) return false;
    const double at_work = time_now_ms() - MAX_OF(slot->times.issued, pace->last_done);
    return at_work >= pace->worked_ms - AHEAD_SHARE * pace->prepared_ms;
}

// A scan of the table is at work in the device's memory, and one more is not to be put together yet.
static bool is_scanned(const Gpu *gpu, u64 table)
{
    int  n = 0;
    bool is_next = true;
    for (int r = 0; r < N_RUNS; r++) {
        if (!gpu->runs[r].is_used || gpu->runs[r].gathers != table) continue;
        n++, is_next = is_nearly_done(gpu, &gpu->runs[r]);
    }
    return n > 1 || !is_next;
}

// One that could share a kernel also waits while a scan of its table is at work in the device's memory: it would take
// its turn only after that anyway, and meanwhile others come.
static bool is_gathering(Gpu *gpu, const GpuRun *run, Arrivals *arrivals)
{
    if (!run->launch->table) return false;
    if (run->bytes_wanted < GATHER_BYTES && !passes_through(gpu, run))
        return waits_for_small_ones(gpu, run, arrivals);
    if (waits_for_others(gpu, run, arrivals)) return true;
    return can_share(run) && is_scanned(gpu, run->launch->table);
}

static bool is_waiting(const GpuRun *run) { return run->n_wanted && !run->is_issued; }

// The oldest that need not wait for others; but after a run of a long one a short one has its turn, or it would have to
// wait for all runs of that.
static GpuRun *oldest_rider(Gpu *gpu)
{
    GpuRun *oldest = NULL;
    Arrivals arrivals = arrivals_now();
    ASSERT(mutex_is_held(&gpu->lock));
    for (GpuRun *run = gpu->first; run; run = run->next) {
        if (!is_waiting(run) || (oldest && is_long(gpu, run)) || is_gathering(gpu, run, &arrivals)) continue;
        if (!gpu->was_long || !is_long(gpu, run)) return run;
        oldest = run;
    }
    return oldest;
}

static GpuRun *oldest_waiting(const Gpu *gpu)
{
    GpuRun *run = gpu->first;
    while (run && !is_waiting(run)) run = run->next;
    return run;
}

// Polls again soon, but lets other threads have the lock first.  All riders are looked at each time, so where they are
// many it is done less often; so it is where more are waited for than may ever come (waits_for_small_ones).
static void poll_again(Gpu *gpu)
{
    const double start = time_now_ms();
    const bool   is_forced = gpu->gather_n && start - oldest_waiting(gpu)->attached_ms > GATHER_MOST_MS;
    const bool   is_crowd = gpu->n_attached >= CROWD_RIDERS || is_forced;
    gpu->is_polling = true;
    pthread_mutex_unlock(&gpu->lock);
    if (is_crowd) nanosleep(&(struct timespec){ .tv_nsec = (long)(1e6 * POLL_CROWD_MS) }, NULL);
    while (!is_crowd && time_now_ms() - start < POLL_AGAIN_MS) sched_yield();
    pthread_mutex_lock(&gpu->lock);
    gpu->is_polling = false;
}

// The first column that it wants, and so most likely the others.
static bool comes_straight(Gpu *gpu, const GpuRun *run)
{
    const Source *source = run->launch->source;
    int           c = 0;
    while (c < source->n_chunks && !run->wants[c]) c++;
    if (c == source->n_chunks || !source->from_store || !run->launch->woven->n_columns) return false;
    const RunChunk chunk = {
        .chunk = source->chunks[c], .number = c, .from_store = true, .pin = pin_hold(gpu->pins, source->chunks[c])
    };
    const bool     is_straight = chunk.pin && column_is_straight(&chunk, table_column(run, 0));
    pin_release(chunk.pin);
    return is_straight;
}

// No rider can run yet: the first that waits for others, if its columns can be copied during the wait.
static GpuRun *rider_to_prefetch(Gpu *gpu)
{
    GpuRun *run =
        gpu->is_dispatching || gpu->is_polling || gpu->is_closing || oldest_rider(gpu) ? NULL : oldest_waiting(gpu);
    if (!run || !run->launch->table || !passes_through(gpu, run) || run->n_prefetches >= PREFETCHES_MOST ||
        !free_slot(gpu) || oldest_ahead(gpu))
        return NULL;
    return comes_straight(gpu, run) ? run : NULL;
}

// There is one dispatcher at a time: its thread, or a query that finds it idle and saves two thread switches.
static void dispatch_run(Gpu *gpu, GpuRun *leader, void (*how)(Gpu *, GpuRun *))
{
    ASSERT(mutex_is_held(&gpu->lock) && !gpu->is_dispatching);
    gpu->is_dispatching = true;
    how(gpu, leader);
    gpu->is_dispatching = false;
    pthread_cond_broadcast(&gpu->changed);
}

static bool is_next(Gpu *gpu, const GpuRun *run)
{
    return !gpu->is_dispatching && !gpu->is_closing && !run->is_issued && oldest_rider(gpu) == run;
}

// While the dispatcher polls it looks at all riders, again and again: a rider that comes need not do so, too.
static bool can_dispatch_itself(Gpu *gpu, const GpuRun *run)
{
    if (gpu->is_polling) return false;
    if (is_next(gpu, run) && (!free_slot(gpu) || oldest_ahead(gpu))) reap(gpu);
    return is_next(gpu, run) && free_slot(gpu) && !oldest_ahead(gpu);
}

// Classes are kept for the next queries, but they are counted in the database's memory: not for long.
static void rest(Gpu *gpu)
{
    const double start = time_now_ms();
    if (!gpu_join_cubes_keep(gpu)) {
        pthread_cond_wait(&gpu->changed, &gpu->lock);
        return;
    }
    wait_ms(gpu, &gpu->changed, KEEP_MS);
    if (!gpu->first && time_now_ms() - start >= KEEP_MS) gpu_join_cubes_forget(gpu);
}

static void *dispatch(void *context)
{
    Gpu  *gpu = context;
    Error err = { 0 };
    // Runs enter the context themselves; waiting for them does not.
    for (int t = 0; t < CALL_TRIES && gpu_enter(gpu, &err); t++) continue;
    pthread_mutex_lock(&gpu->lock);
    while (!gpu->is_closing) {
        if (gpu->is_dispatching) {
            pthread_cond_wait(&gpu->changed, &gpu->lock);
            continue;
        }
        reap(gpu);
        // It was set while the lock was released, and is not signalled again.
        if (gpu->is_closing) break;
        GpuRun  *leader = oldest_rider(gpu), *waiting = leader ? NULL : rider_to_prefetch(gpu);
        RunSlot *ahead = leader ? oldest_ahead(gpu) : NULL;
        if (ahead) wait_for_copies(gpu, ahead);            // and look again: the leader may have left
        else if (leader && free_slot(gpu)) dispatch_run(gpu, leader, step);
        else if (leader) wait_for_oldest(gpu);
        else if (waiting) dispatch_run(gpu, waiting, prefetch);
        else if (oldest_waiting(gpu)) poll_again(gpu);
        else if (scan_is_busy(gpu)) wait_ms(gpu, &gpu->changed, REAP_MS);
        else rest(gpu);
    }
    while (gpu->is_dispatching) pthread_cond_wait(&gpu->changed, &gpu->lock);
    while (oldest_slot(gpu)) wait_for_oldest(gpu);
    pthread_mutex_unlock(&gpu->lock);
    return NULL;
}

weft_status scan_start(Gpu *gpu, Error *err)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->has_dispatcher = thread_start(&gpu->dispatcher, NULL, dispatch, gpu) == 0;
    const bool is_started = gpu->has_dispatcher;
    pthread_mutex_unlock(&gpu->lock);
    return is_started ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "the system refused a thread for %s", gpu->name);
}

void scan_stop(Gpu *gpu)
{
    if (!gpu->has_dispatcher) return;
    pthread_mutex_lock(&gpu->lock);
    gpu->is_closing = true;
    pthread_cond_broadcast(&gpu->changed);
    pthread_mutex_unlock(&gpu->lock);
    pthread_join(gpu->dispatcher, NULL);
    gpu->has_dispatcher = false;
}

// ---- riding ---------------------------------------------------------------------------------------------------------

// A rider that waits looks at its stop flag now and then.  The more riders wait, the less often each one looks, since
// looking takes the lock.
static int wake_ms(const Gpu *gpu)
{
    return MIN_OF(WAKE_MS * (1 + gpu->n_attached / WAKE_SHARE), WAKE_MOST_MS);
}

// A rider that was cancelled or failed may have work left in another rider's stream; its memory is freed only when that
// is done.
static void finish_early(GpuRun *run)
{
    Gpu  *gpu = run->gpu;
    Error ignored = { 0 };
    if (run_use_own_stream(run, &ignored)) gpu_wait_for(gpu, gpu->streams[run->at_stream]);
}

// One that is in no run may leave at once.  One that is issued waits for its pack; its kernel is told.
static void look_at_stop(GpuRun *run, double *passed_on_ms)
{
    Gpu *gpu = run->gpu;
    if (!is_stopped(run)) return;
    pthread_mutex_lock(&gpu->lock);
    const bool is_in_pack = run->is_issued && run->pack;
    if (!run->is_in_run && !run->is_issued) {
        want_nothing(run);
        set_issued(run);
        run_wake(run);
    }
    pthread_mutex_unlock(&gpu->lock);
    if (is_in_pack) run_pass_on_cancel(run, passed_on_ms);
}

// Those that are on the scan, and those that wait for memory: others are woken soon.
void gpu_wake(Device *device, const _Atomic u32 *stop)
{
    Gpu *gpu = (Gpu *)device;
    pthread_mutex_lock(&gpu->lock);
    for (GpuRun *run = gpu->first; run; run = run->next)
        if (run->launch->stop == stop) run_look(run);
    room_wake(gpu, stop);
    pthread_mutex_unlock(&gpu->lock);
}

static void sleep_until_issued(GpuRun *run, int look_ms)
{
    double passed_on_ms = 0;
    while (!run_sleep(run, look_ms)) look_at_stop(run, &passed_on_ms);
    if (passed_on_ms > 0) gpu_wait_for(run->gpu, run->gpu->control_stream);
}

weft_status scan_ride(GpuRun *run, Error *err)
{
    Gpu       *gpu = run->gpu;
    Arena     *arena = arena_new(NULL, "ride");
    unit_look(run, arena);
    const bool has_tables = run->n_tables == run->launch->woven->n_tables;
    const bool can_fuse = has_tables && unit_suits(run), can_cube = has_tables && gpu_cube_suits(run),
               can_sieve = has_tables && gpu_sieve_suits(run);
    int n_wanted = 0;
    for (int c = 0; c < run->launch->source->n_chunks; c++)
        n_wanted += run->wants[c] = launch_wants_chunk(run->launch, c);
    pthread_mutex_lock(&gpu->lock);
    run->can_fuse = can_fuse, run->can_cube = can_cube, run->can_sieve = can_sieve;
    run->n_wanted = n_wanted, run->asked_until = 0, run->n_prefetches = 0;
    run->at_stream = run->stream_number;
    run->is_issued = false;
    run->status = WEFT_OK;
    run->attached_ms = time_now_ms(), run->left_ms = 0;
    run->was_expected = run->launch->is_expected;
    if (run->launch->is_expected) gpu_expect(&gpu->device, run->launch->table, -1);
    run->launch->is_expected = false;
    attach(run);
    if (run->n_wanted == 0) set_issued(run), run_wake(run);
    const bool leads = can_dispatch_itself(gpu, run);
    GpuRun    *waiting = leads || run->is_issued ? NULL : rider_to_prefetch(gpu);
    if (leads) dispatch_run(gpu, run, step);
    else if (waiting) dispatch_run(gpu, waiting, prefetch);
    else if (!gpu->is_polling) pthread_cond_broadcast(&gpu->changed);
    const int look_ms = wake_ms(gpu);
    pthread_mutex_unlock(&gpu->lock);
    sleep_until_issued(run, look_ms);
    const weft_status status = run->status;
    if (status) *err = run->error;
    run->facts = NULL;
    arena_free(arena);
    finish_early(run);
    return status;
}

weft_status scan_wait(GpuRun *run, Error *err)
{
    Gpu *gpu = run->gpu;
    if (run->pack) return pack_wait(run, err);
    GPU_TRY(gpu, EventRecord, (run->done, run->stream), err);
    return run_wait_event(run, run->done, err);
}
