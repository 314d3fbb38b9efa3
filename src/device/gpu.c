// gpu.c - a GPU as a device: opened, used, lost, closed.  Its context is the vendor's (cuda.c).
//
// Everything a query needs of the driver is taken when the device is opened: one pool of memory, streams, pinned
// stages, slots for runs, events for 64 launches at once (more make theirs, which are kept for the next ones; EXPLAIN
// ANALYZE makes its own).  A query takes frames of the pool and gives them back.
//
// A failed check in the kernel, a cancel and a damaged chunk fail the query.  Errors of the driver, its compiler or the
// pool only refuse the launch, and the CPU runs it.  After an error that is sticky by the driver's manual every call
// fails, so the device is marked lost and refuses all that comes; other launches that were on it find out by
// themselves.

#include "device/gpu_join_cube.h"
#include "device/gpu_kinds.h"
#include "device/gpu_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define POOL_SHARE     80              // percent of the memory that is free
#define POOL_LEAST     ((u64)1 << 20)
#define PINNED_SHARE   50              // percent of the host's memory
#define COPIERS_MOST   14
#define FETCHERS_MOST  14
#define FIRST_PRIORITY (-100)          // the driver takes the highest that it has
#define COMPILE_MS     150.0           // expected of the first compile

// ---- a scan ---------------------------------------------------------------------------------------------------------

static u8 *take_pinned_slot(Gpu *gpu)
{
    pthread_mutex_lock(&gpu->slots_lock);
    const bool has_one = gpu->pinned_taken != UINT64_MAX;
    const int  slot = has_one ? __builtin_ctzll(~gpu->pinned_taken) : 0;
    gpu->pinned_taken |= (u64)1 << slot;
    pthread_mutex_unlock(&gpu->slots_lock);
    return has_one ? gpu->pinned_slots + (u64)slot * PINNED_SLOT_BYTES : NULL;
}

static void give_pinned_slot(Gpu *gpu, const u8 *slot)
{
    if (!slot) return;
    ASSERT(slot >= gpu->pinned_slots && slot < gpu->pinned_slots + N_PINNED_SLOTS * PINNED_SLOT_BYTES);
    pthread_mutex_lock(&gpu->slots_lock);
    gpu->pinned_taken &= ~((u64)1 << ((u64)(slot - gpu->pinned_slots) / PINNED_SLOT_BYTES));
    pthread_mutex_unlock(&gpu->slots_lock);
}

static GpuRun *new_run(Gpu *gpu, Launch *launch)
{
    GpuRun      *run = calloc(1, sizeof *run);
    const Woven *woven = launch->woven;
    const int    n_chunks = launch->source->n_chunks;
    *run = (GpuRun){ .gpu = gpu, .launch = launch };
    sem_init(&run->woken, 0, 0);
    run->wants = calloc((size_t)n_chunks + 1, sizeof *run->wants);
    run->slot_at = calloc((size_t)woven->n_state + 1, sizeof *run->slot_at);
    run->cells = calloc((size_t)woven->n_state + 1, sizeof *run->cells);
    run->spots = calloc((size_t)woven->n_tables + 1, sizeof *run->spots);
    run->tables = calloc((size_t)woven->n_tables + 1, sizeof *run->tables);
    for (int c = 0; c < n_chunks; c++) {
        if (!launch_wants_chunk(launch, c)) {
            launch->out.chunks_skipped++;
            continue;
        }
        run->n_chunks_wanted++;
        run->rows_wanted += launch->source->chunks[c]->n_rows;
        const u64 bytes = launch_column_bytes(launch, c);
        run->bytes_wanted += bytes;
        if (launch->source->kept) continue;            // its columns are in the pool already
        run->chunk_bytes = MAX_OF(run->chunk_bytes, bytes + (u64)woven->n_columns * FRAME_BYTES);
    }
    run->number = gpu->n_launches++;
    run->pinned = take_pinned_slot(gpu);
    run->stream_number = schedule_stream(run);
    run->stream = gpu->streams[run->stream_number];
    return run;
}

static void free_run(GpuRun *run)
{
    ASSERT(!run->has_block && !run->is_attached);
    sem_destroy(&run->woken);
    give_pinned_slot(run->gpu, run->pinned);
    free(run->wants);
    free(run->slot_at);
    free(run->cells);
    free(run->spots);
    free(run->tables);
    free(run->timers);
    free(run->program);
    free(run);
}

static void forget_progress(Launch *launch)
{
    launch->out.chunks_read = 0, launch->out.rows_in = 0, launch->out.bytes_read = 0;
    launch->out.gpu.n_repeats++;
}

static weft_status run_once(GpuRun *run, bool *again, Error *err)
{
    gpu_join_cube_look(run);
    weft_status status = launch_open(run, err);
    if (!status) status = scan_ride(run, err);
    gpu_join_cube_forget(run);
    if (!status) launch_admit_others(run);           // its columns need no more room
    if (!status && !run->pack) status = launch_write(run, err);            // it was in no run: no chunk is wanted
    if (!status && !run->pack) status = launch_ask_back(run, err);
    if (!status) status = scan_wait(run, err);
    if (!status) status = launch_results(run, again, err);
    pack_leave(run);
    if (status) run_wait_quietly(run);
    // Else with its rows, when they are no longer wanted.
    if (status || *again || !run->launch->out.keeps_rows) launch_close(run);
    return status;
}

static weft_status run_until_done(GpuRun *run, Error *err)
{
    bool        again = true;
    weft_status status = WEFT_OK;
    while (again && !status) {
        // gpu_list looks at what lies beside it, and a compiler may read both at once.
        pthread_mutex_lock(&run->gpu->lock);
        run->is_crowded = false;
        pthread_mutex_unlock(&run->gpu->lock);
        status = run_once(run, &again, err);
        if (status == WEFT_OUT_OF_MEMORY && run->is_crowded && launch_wait_for_room(run))
            *err = (Error){ 0 }, again = true, status = WEFT_OK;
        if (again && !status) forget_progress(run->launch);
    }
    launch_admit_others(run);
    return status;
}

// EXPLAIN ANALYZE: rows that left each step.  Counting makes a kernel up to a third slower, so it is timed without and
// then runs again.
static weft_status count_steps(GpuRun *run, Error *err)
{
    Launch             *launch = run->launch;
    const LaunchOutcome timed = launch->out;
    const double        start = time_now_ms();
    run->is_timed = false, run->is_counted = true;
    launch_free_results(run);
    if (run->has_block) launch_close(run);
    const weft_status status = run_until_done(run, err);
    launch->out.gpu = timed.gpu, launch->out.chunks_read = timed.chunks_read, launch->out.rows_in = timed.rows_in,
    launch->out.bytes_read = timed.bytes_read;
    launch->out.gpu.count_ms = time_now_ms() - start;
    return status;
}

static weft_status run_launch(GpuRun *run, Error *err)
{
    Gpu         *gpu = run->gpu;
    const double start = time_now_ms();
    TRY(gpu_enter(gpu, err));
    TRY(generic_get(gpu, run, err));
    TRY(kernel_shape(gpu, run, err));
    run->launch->out.compile_ms = time_now_ms() - start;
    TRY(event_take(gpu, &run->done, err));
    run->is_timed = run->launch->is_explained;
    weft_status status = run_until_done(run, err);
    timers_read(run);
    run->launch->out.time_ms = time_now_ms() - start - run->launch->out.compile_ms;
    if (!status && run->launch->is_explained && run->launch->woven->n_counts) status = count_steps(run, err);
    event_give(gpu, run->done);
    return status;
}

static bool is_device_fault(weft_status status)
{
    return status == WEFT_DEVICE_FAILED || status == WEFT_NO_DEVICE || status == WEFT_KERNEL_BUILD ||
           status == WEFT_OUT_OF_MEMORY;
}

static void gpu_free_launch(Device *device, Launch *launch)
{
    GpuRun *run = launch->memory;
    (void)device;
    if (!run) return;
    run->launch = launch;              // it may have been moved since
    launch_free_results(run);
    if (run->has_block) launch_close(run);
    free_run(run);
    launch->memory = NULL;
}

static weft_status gpu_ride(Device *device, Launch *launch, Error *err)
{
    Gpu            *gpu = (Gpu *)device;
    Error           own = { 0 };
    const GpuContext before = gpu_visit(gpu);
    launch->memory = new_run(gpu, launch);
    figures_begin(launch->memory);
    const weft_status status = run_launch(launch->memory, &own);
    figures_end(launch->memory);
    if (launch->is_expected) gpu_expect(device, launch->table, -1);     // it never got on
    launch->is_expected = false;
    gpu_leave(gpu, before);
    if (!status) return WEFT_OK;
    if (is_device_fault(status)) {
        gpu_free_launch(device, launch);
        snprintf(launch->out.refused, sizeof launch->out.refused, "%.290s", own.message);
        return WEFT_OK;
    }
    if (!err->status) *err = own;
    return err->status;
}

static weft_status fetch_rows(GpuRun *run, Error *err)
{
    TRY(gpu_enter(run->gpu, err));
    const weft_status status = launch_fetch_rows(run, err);
    if (status) run_wait_quietly(run);
    launch_close(run);
    return status;
}

static weft_status gpu_fetch_rows(Device *device, Launch *launch, Error *err)
{
    Gpu            *gpu = (Gpu *)device;
    GpuRun         *run = launch->memory;
    const GpuContext before = gpu_visit(gpu);
    run->launch = launch;
    const weft_status status = fetch_rows(run, err);
    gpu_leave(gpu, before);
    return status;
}

static double gpu_wait_ms(Device *device, const Launch *launch) { return generic_wait_ms((Gpu *)device, launch); }
static void gpu_get_ready(Device *device, bool all) { ready_begin((Gpu *)device, all); }

static void start_compiler(Gpu *gpu)
{
    const double start = time_now_ms();
    gpu->vendor->warm_compiler(gpu);
    tables_warm(gpu);
    log_debug("%s: the compiler's start took %.0f ms", gpu->name, time_now_ms() - start);
}

void gpu_warm(Gpu *gpu) { ready_warm(gpu, start_compiler); }

// ---- opening --------------------------------------------------------------------------------------------------------

// "50%", "12.5 %"
static bool parse_share(const char *text, double *percent)
{
    char *end;
    if (*text < '0' || *text > '9' || strpbrk(text, "xX")) return false;       // strtod takes 0x10 for a number
    *percent = MIN_OF(strtod(text, &end), 1e6);            // whatever is more than all is the same
    while (*end == ' ') end++;
    return strcmp(end, "%") == 0;
}

static bool parse_memory(const char *text, u64 bytes_there, i64 *bytes)
{
    double percent;
    if (!parse_share(text, &percent)) return mem_parse_size(text, bytes);
    *bytes = (i64)MIN_OF((double)bytes_there * percent / 100, 9e18);
    return true;
}

// A size, or a share of BYTES_THERE, from an environment variable.  Values out of range are clamped with a warning;
// invalid values are ignored with a warning.
static u64 memory_setting(const char *variable, u64 bytes_there, u64 least, u64 standard)
{
    const char *own = getenv(variable);
    i64         bytes;
    if (!own || !*own) return standard;
    if (!parse_memory(own, bytes_there, &bytes)) {
        log_warn("%s=%s is not understood: a size such as 2GB%s, or a share such as 50%%", variable, own,
                 least ? ", 64kB at least" : ", 0 for none");
        return standard;
    }
    if ((u64)bytes < least)
        log_warn("%s=%s is too small: %s are taken, the least", variable, own, mem_size_text(least).text);
    if ((u64)bytes > bytes_there)
        log_warn("%s=%s is more than there is: %s at most are taken", variable, own, mem_size_text(bytes_there).text);
    return MAX_OF(MIN_OF((u64)bytes, bytes_there), least);
}

// Of the host's memory, for columns that pass through: WEFT_PINNED_MEMORY, or half of what the machine has.
static u64 pinned_most(void)
{
    const u64 all = (u64)sysconf(_SC_PHYS_PAGES) * (u64)sysconf(_SC_PAGESIZE);
    return memory_setting("WEFT_PINNED_MEMORY", all, 0, all / 100 * PINNED_SHARE);
}

// Of all that is free the driver keeps a little for itself, and another process may be quicker: then somewhat less,
// again and again.
static weft_status open_memory(Gpu *gpu, u64 wanted, Error *err)
{
    size_t   bytes_free, bytes_total;
    GpuResult result;
    GPU_TRY(gpu, MemGetInfo, (&bytes_free, &bytes_total), err);
    if (!wanted) wanted = memory_setting("WEFT_DEVICE_MEMORY", bytes_free, FRAME_BYTES, bytes_free / 100 * POOL_SHARE);
    wanted = MAX_OF(wanted, FRAME_BYTES);
    while ((result = gpu->calls->MemAlloc(&gpu->memory, wanted)) == GPU_OUT_OF_MEMORY && wanted > POOL_LEAST)
        wanted -= wanted / 8;
    TRY(gpu_check(gpu, result, "MemAlloc", err));
    gpu->memory_bytes = wanted;
    gpu->frames = frames_new(wanted);
    return WEFT_OK;
}

#define SHARED_OWN  ((u64)5 << 10)     // of a block: 1 KiB that the driver takes, and words like TOTAL_END
#define SHARED_UNIT ((u64)16 << 10)    // of 109 KiB an H200 keeps 96 so: with these all was measured

u64 gpu_shared_most(const Gpu *gpu)
{
    const u64 each =
        MIN_OF((u64)gpu->shared_per_sm / (u64)MAX_OF(gpu->threads_per_sm / 1024, 1), (u64)gpu->shared_per_block);
    return MIN_OF((MAX_OF(each, SHARED_OWN) - SHARED_OWN) / SHARED_UNIT * SHARED_UNIT, SHARED_LIMIT);
}

static weft_status open_streams(Gpu *gpu, Error *err)
{
    // Small scans, as of tables that are joined, do not wait for the end of large ones.
    for (int s = 0; s < N_STREAMS; s++)
        GPU_TRY(gpu, StreamCreateWithPriority,
                (&gpu->streams[s], GPU_STREAM_NON_BLOCKING, s < N_SMALL_STREAMS ? FIRST_PRIORITY : 0), err);
    for (int s = 0; s < N_COPY_STREAMS; s++)
        GPU_TRY(gpu, StreamCreate, (&gpu->copy_streams[s], GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, StreamCreate, (&gpu->gate_stream, GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, StreamCreate, (&gpu->table_stream, GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, StreamCreate, (&gpu->fetch_stream, GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, StreamCreate, (&gpu->control_stream, GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, StreamCreate, (&gpu->kinds_stream, GPU_STREAM_NON_BLOCKING), err);
    GPU_TRY(gpu, MemHostAlloc, ((void **)&gpu->one, sizeof *gpu->one, GPU_HOST_PORTABLE), err);
    GPU_TRY(gpu, MemHostAlloc, ((void **)&gpu->pinned_slots, N_PINNED_SLOTS * PINNED_SLOT_BYTES, GPU_HOST_PORTABLE),
            err);
    *gpu->one = 1;
    return WEFT_OK;
}

static weft_status open_events(Gpu *gpu, Error *err)
{
    for (; gpu->n_events < N_EVENTS; gpu->n_events++)
        GPU_TRY(gpu, EventCreate, (&gpu->events[gpu->n_events], GPU_EVENT_DISABLE_TIMING), err);
    return WEFT_OK;
}

static weft_status open_stages(Gpu *gpu, Error *err)
{
    const unsigned quiet = GPU_EVENT_DISABLE_TIMING | GPU_EVENT_BLOCKING_SYNC;
    for (int s = 0; s < N_STAGES; s++) {
        GPU_TRY(gpu, MemHostAlloc, ((void **)&gpu->stages[s].memory, STAGE_BYTES + STAGE_SPARE, GPU_HOST_PORTABLE),
                err);
        GPU_TRY(gpu, EventCreate, (&gpu->stages[s].done, quiet), err);
    }
    for (int r = 0; r < N_RUNS; r++) {
        RunSlot *slot = &gpu->runs[r];
        GPU_TRY(gpu, MemHostAlloc, ((void **)&slot->args, ARGS_BYTES, GPU_HOST_PORTABLE), err);
        GPU_TRY(gpu, MemAlloc, (&slot->args_at, ARGS_BYTES), err);
        slot->args_bytes = ARGS_BYTES;
        GPU_TRY(gpu, EventCreate, (&slot->args_copied, quiet), err);
        for (int s = 0; s < N_COPY_STREAMS; s++) GPU_TRY(gpu, EventCreate, (&slot->columns_copied[s], quiet), err);
        for (int s = 0; s < N_STREAMS; s++) GPU_TRY(gpu, EventCreate, (&slot->done[s], quiet), err);
    }
    return WEFT_OK;
}

static void close_stream(const Gpu *gpu, GpuStream stream)
{
    if (!stream) return;
    gpu->calls->StreamSynchronize(stream);
    gpu->calls->StreamDestroy(stream);
}

static void close_slot(const Gpu *gpu, const RunSlot *slot)
{
    const GpuCalls *calls = gpu->calls;
    if (slot->args) calls->MemFreeHost(slot->args);
    if (slot->args_at) calls->MemFree(slot->args_at);
    if (slot->first_args) calls->MemFreeHost(slot->first_args);
    if (slot->first_args_at) calls->MemFree(slot->first_args_at);
    if (slot->args_copied) calls->EventDestroy(slot->args_copied);
    for (int s = 0; s < N_COPY_STREAMS; s++)
        if (slot->columns_copied[s]) calls->EventDestroy(slot->columns_copied[s]);
    for (int s = 0; s < N_STREAMS; s++)
        if (slot->done[s]) calls->EventDestroy(slot->done[s]);
}

static void close_memory(Gpu *gpu)
{
    const GpuCalls *calls = gpu->calls;
    for (int s = 0; s < N_STREAMS; s++) close_stream(gpu, gpu->streams[s]);
    for (int s = 0; s < N_COPY_STREAMS; s++) close_stream(gpu, gpu->copy_streams[s]);
    close_stream(gpu, gpu->gate_stream);
    close_stream(gpu, gpu->table_stream);
    close_stream(gpu, gpu->fetch_stream);
    close_stream(gpu, gpu->control_stream);
    close_stream(gpu, gpu->kinds_stream);
    gpu_kinds_close(gpu);
    if (gpu->one) calls->MemFreeHost(gpu->one);
    if (gpu->pinned_slots) calls->MemFreeHost(gpu->pinned_slots);
    for (int e = 0; e < gpu->n_events; e++) calls->EventDestroy(gpu->events[e]);
    for (int s = 0; s < N_STAGES; s++) {
        if (gpu->stages[s].memory) calls->MemFreeHost(gpu->stages[s].memory);
        if (gpu->stages[s].done) calls->EventDestroy(gpu->stages[s].done);
    }
    for (int r = 0; r < N_RUNS; r++) close_slot(gpu, &gpu->runs[r]);
    if (gpu->memory) calls->MemFree(gpu->memory);
}

// A context that is gone, or cannot be entered, frees its memory itself when it is released.
static void close_driver(Gpu *gpu)
{
    if (!gpu->context) return;
    const GpuContext before = gpu_visit(gpu);
    bool            is_here = false;
    for (int t = 0; t < CALL_TRIES && !is_here && !gpu->is_gone; t++)
        is_here = gpu->calls->CtxSetCurrent(gpu->context) == GPU_SUCCESS;
    if (!is_here) gpu->is_gone = true;
    units_free(gpu);
    kernels_free(gpu);
    schedule_close(gpu);
    packs_close(gpu, is_here);
    if (is_here) close_memory(gpu);
    gpu_leave(gpu, before);
}

static void gpu_close(Device *device)
{
    Gpu *gpu = (Gpu *)device;
    ASSERT(!gpu->first && !gpu->n_active && !gpu->listed);     // no query is on it any more
    ready_stop(gpu);
    demands_stop(gpu);
    scan_stop(gpu);
    pins_free(gpu->pins);
    ahead_free(gpu->ahead);
    close_driver(gpu);
    gpu->vendor->close(gpu);
    pool_free(gpu->copiers);
    pool_free(gpu->fetchers);
    frames_free(gpu->frames);
    for (int s = 0; s < N_STAGES; s++) pthread_mutex_destroy(&gpu->stages[s].lock);
    pthread_mutex_destroy(&gpu->lock);
    pthread_mutex_destroy(&gpu->slots_lock);
    pthread_mutex_destroy(&gpu->stage_lock);
    pthread_mutex_destroy(&gpu->tables_lock);
    pthread_cond_destroy(&gpu->changed);
    pthread_cond_destroy(&gpu->built);
    pthread_cond_destroy(&gpu->wanted);
    free(gpu->tables);
    free(gpu);
}

// For benchmarks and tests: small scans that were announced wait until so many of their table are there.
static int gather_setting(void)
{
    const char *own = getenv("WEFT_GPU_GATHER");
    char       *end = NULL;
    const long  n = own && *own ? strtol(own, &end, 10) : 0;
    if (!end || (!*end && n >= 0 && n <= 1000)) return (int)n;
    log_warn("WEFT_GPU_GATHER=%s is not understood: a number of queries up to 1000, 0 for none", own);
    return 0;
}

// For tests of answers, which compile thousands of kernels and run each of them over a few rows: code that is made in
// half the time, once.
static bool is_quick_only(Gpu *gpu)
{
    const char *own = getenv("WEFT_GPU_CODE");
    const bool  is_quick = own && strcmp(own, "quick") == 0;
    if (own && *own && !is_quick && strcmp(own, "best") != 0)
        log_warn("WEFT_GPU_CODE=%s is not understood: quick or best", own);
    return is_quick && gpu->vendor->can_be_quick(gpu);
}

weft_status gpu_open(Gpu *gpu, u64 memory_bytes, Error *err)
{
    TRY(gpu_enter(gpu, err));
    TRY(open_streams(gpu, err));
    TRY(open_events(gpu, err));
    TRY(open_stages(gpu, err));
    TRY(open_memory(gpu, memory_bytes, err));
    gpu->copiers = pool_new(MAX_OF(1, MIN_OF(COPIERS_MOST, cpu_count() - 2)));
    gpu->fetchers = pool_new(MAX_OF(2, MIN_OF(FETCHERS_MOST, cpu_count() - 2)));
    gpu->pins = pins_new(gpu, pinned_most());
    gpu->ahead = ahead_new();
    gpu->gather_n = gather_setting();
    gpu->is_quick_only = is_quick_only(gpu);
    schedule_open(gpu);
    return scan_start(gpu, err);
}

// Waking a thread takes longer than most work under these locks, so a waiting thread spins for a while before it
// sleeps.
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
#ifdef __GLIBC__
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

void gpu_init(Gpu *gpu)
{
    gpu->compile_ms = COMPILE_MS;
    gpu->device = (Device){ .name = gpu->name,
                            .ride = gpu_ride,
                            .make_table = gpu_make_table,
                            .fetch_rows = gpu_fetch_rows,
                            .fetch_table = gpu_fetch_table,
                            .drop_table = gpu_drop_table,
                            .kept_most = gpu_kept_most,
                            .keep_rows = gpu_keep_rows,
                            .fetch_column = gpu_fetch_column,
                            .drop_rows = gpu_drop_rows,
                            .sort = gpu_sort,
                            .wait_ms = gpu_wait_ms,
                            .get_ready = gpu_get_ready,
                            .list = gpu_list,
                            .forget = gpu_forget,
                            .expect = gpu_expect,
                            .wake = gpu_wake,
                            .free_launch = gpu_free_launch,
                            .close = gpu_close };
    init_lock(&gpu->lock);
    init_lock(&gpu->slots_lock);
    pthread_mutex_init(&gpu->stage_lock, NULL);
    pthread_mutex_init(&gpu->tables_lock, NULL);
    for (int s = 0; s < N_STAGES; s++) pthread_mutex_init(&gpu->stages[s].lock, NULL);
    pthread_cond_init(&gpu->changed, NULL);
    gpu->waiting_end = &gpu->waiting;
    pthread_cond_init(&gpu->built, NULL);
    pthread_cond_init(&gpu->wanted, NULL);
}
