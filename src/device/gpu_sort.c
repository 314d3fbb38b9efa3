// gpu_sort.c - rows put in order by a GPU: a radix sort, 8 bits in a pass, the least significant first.
//
//     host     write(word)  pinned stages                                     rows <- pieces
//     link        keys --------->                                                ^
//     device             [keys A] -> digits, starts, scatter -> [keys B] ... [row numbers]
//
// Keys come over the link and row numbers go back; the rows themselves stay where they are.  A pass is three kernels
// (weave/sorting.c) over parts of neighbouring rows, a block each; there are as many parts as blocks run at a time.
// Passes over bits that all rows share are left out.  The last pass moves row numbers only, and the first one makes
// them up.  Keys of several words: each word comes when its turn does, and is fetched in the order reached so far.
//
// All memory is one copy in the pool, held until the end, and counts as admitted.  What the driver, the compiler or the
// pool refuses is no error of the query: the host sorts.
//
// Refused: one pass that counts and scatters (decoupled look-back).  It reads keys once instead of twice, a quarter of
// the traffic, but blocks wait for others, which the CPU meaning of kernels cannot test.

#include "device/gpu_room.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    N_DIGITS = 256,
    DIGIT_BITS = 8,
    SORT_THREADS = 512,                // of a block, at most: SORT_THREADS_ in cuda.h
    PART_UNIT = 4096,                  // rows of a part are a multiple of it: no part begins within 16 bytes
    SORT_PARTS_MOST = 4096,
    SORT_STEPS_MOST = 8 * SORT_WORDS + SORT_WORDS,
    ROOM_TRIES = 3,                    // for a run that has ended and still holds the columns that it read
};

typedef enum SortKernel { SORT_DIGITS, SORT_STARTS, SORT_SCATTER, SORT_GATHER, N_SORT_KERNELS } SortKernel;

// What the KernelArgs point to, in device memory; those of a step are copied there.
typedef struct StepArgs {
    KernelColumn columns[SORT_COLUMNS];
    i64          params[SORT_PARAMS];
    const void  *tables[SORT_TABLES];
    void        *state[SORT_STATE];
} StepArgs;

// Offsets in the copy.
typedef struct SortRoom {
    u64 common, parts, digits, current, steps;     // KernelCommon, KernelArgs by part and by digit, StepArgs
    u64 sent;                                      // all before it is written by the host, in one copy
    u64 counts, totals, keys[2], rows[2], word, bytes;
} SortRoom;

typedef struct SortRun {
    Gpu        *gpu;
    DeviceSort *sort;
    Arena      *arena;
    Fixed       kernels[N_SORT_KERNELS];
    Launch      launch;                // for what takes a run: fetching, timers
    GpuRun      run;
    Copy       *copy;
    SortRoom    room;
    u64         n_parts, part_rows;
    int         threads;
    int         n_steps, step;         // written; launched
    StepArgs    steps[SORT_STEPS_MOST];
    // a word on its way
    u64          word_at, n_pieces, piece_rows;
    int          word;
    _Atomic u64  next_piece;
    _Atomic bool is_failed;
    pthread_mutex_t lock;              // for what follows
    weft_status  status;
    Error        error;
} SortRun;

static GpuAddress address(const SortRun *s, u64 at) { return gpu_address(s->gpu, s->copy->at + at); }

static void *pointer(const SortRun *s, u64 at) { return (void *)(uintptr_t)address(s, at); }

static weft_status check_stop(const SortRun *s, Error *err)
{
    if (!s->sort->stop || !atomic_load_explicit(s->sort->stop, memory_order_relaxed)) return WEFT_OK;
    return fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

// ---- code -----------------------------------------------------------------------------------------------------------

static void describe(SortRun *s)
{
    const int   width = s->sort->width;
    const char *name, *text;
    for (int k = 0; k < N_SORT_KERNELS; k++) {
        switch ((SortKernel)k) {
            case SORT_DIGITS: text = weave_digits_text(s->arena, width, &name); break;
            case SORT_STARTS: text = weave_starts_text(&name); break;
            case SORT_SCATTER: text = weave_scatter_text(s->arena, width, &name); break;
            default: text = weave_gather_text(&name); break;
        }
        fixed_describe(&s->kernels[k], s->gpu, text, name);
    }
}

static int n_kernels(const SortRun *s) { return s->sort->n_words > 1 ? N_SORT_KERNELS : SORT_GATHER; }

// All that are missing are asked for at once.
static bool has_code(SortRun *s)
{
    bool is_ready = true;
    for (int k = 0; k < n_kernels(s); k++) is_ready &= fixed_is_ready(s->gpu, &s->kernels[k]);
    return is_ready;
}

static weft_status get_code(SortRun *s, Error *err)
{
    for (int k = 0; k < n_kernels(s); k++) {
        s->kernels[k].launch.stop = s->launch.stop;
        TRY(fixed_code(s->gpu, &s->kernels[k], err));
    }
    return WEFT_OK;
}

// Blocks of all kernels have the same size, and there are as many parts as blocks of the last and largest kernel run at
// a time, but none is shorter than a tile.
static weft_status choose_parts(SortRun *s, Error *err)
{
    Gpu *gpu = s->gpu;
    int  blocks = 0;
    s->threads = SORT_THREADS;
    for (int k = 0; k < n_kernels(s); k++)
        s->threads = MIN_OF(s->threads, s->kernels[k].run.kernel->code.threads_most / 32 * 32);
    const GpuCode *code = &s->kernels[SORT_SCATTER].run.kernel->code;
    GPU_TRY(gpu, OccupancyMaxActiveBlocksPerMultiprocessor, (&blocks, code->function, s->threads, 0), err);
    if (s->threads < 32 || blocks < 1)
        return fail(err, WEFT_DEVICE_FAILED, -1, "kernels of the sort do not fit a multiprocessor");
    const u64 wanted = MIN_OF((u64)gpu->n_sms * (u64)blocks, SORT_PARTS_MOST), n_rows = s->sort->n_rows;
    s->part_rows = ((n_rows + wanted - 1) / wanted + PART_UNIT - 1) / PART_UNIT * PART_UNIT;
    s->n_parts = (n_rows + s->part_rows - 1) / s->part_rows;
    return WEFT_OK;
}

// ---- room -----------------------------------------------------------------------------------------------------------

static u64 put(u64 *end, u64 bytes)
{
    const u64 at = *end;
    *end += aligned(bytes);
    return at;
}

static void lay_out(SortRun *s)
{
    SortRoom *room = &s->room;
    const u64 n_rows = s->sort->n_rows, key_bytes = n_rows * (u64)s->sort->width;
    u64       end = 0;
    room->common = put(&end, sizeof(KernelCommon));
    room->parts = put(&end, s->n_parts * sizeof(KernelArgs));
    room->digits = put(&end, N_DIGITS * sizeof(KernelArgs));
    room->current = put(&end, sizeof(StepArgs));
    room->steps = put(&end, SORT_STEPS_MOST * sizeof(StepArgs));
    room->sent = end;
    room->counts = put(&end, N_DIGITS * s->n_parts * sizeof(u32));
    room->totals = put(&end, N_DIGITS * sizeof(u32));
    for (int i = 0; i < 2; i++) room->keys[i] = put(&end, key_bytes), room->rows[i] = put(&end, n_rows * sizeof(u32));
    room->word = put(&end, s->sort->n_words > 1 ? key_bytes : 0);
    room->bytes = end;
}

// Under the lock.
static bool try_room(SortRun *s)
{
    Gpu *gpu = s->gpu;
    if (gpu->bytes_admitted + s->room.bytes > launch_admitted_most(gpu)) return false;
    s->copy = copy_add(gpu->frames, (CopyKey){ 0 }, s->room.bytes, false);
    if (s->copy) gpu->bytes_admitted += s->room.bytes;
    return s->copy != NULL;
}

static weft_status take_room(SortRun *s, Error *err)
{
    Gpu *gpu = s->gpu;
    pthread_mutex_lock(&gpu->lock);
    bool has_room = try_room(s);
    if (!has_room) relieve_unlocked(gpu);
    for (int t = 0; t < ROOM_TRIES && !has_room && (t == 0 || scan_is_busy(gpu)); t++) {
        if (t) gpu_wait_a_little(gpu, &gpu->changed);
        has_room = try_room(s);
    }
    pthread_mutex_unlock(&gpu->lock);
    if (has_room) return WEFT_OK;
    return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of device memory: the sort needs %s, and the pool of %s has %s",
                mem_size_text(s->room.bytes).text, gpu->name, mem_size_text(launch_admitted_most(gpu)).text);
}

static void give_room(SortRun *s)
{
    Gpu *gpu = s->gpu;
    if (!s->copy) return;
    pthread_mutex_lock(&gpu->lock);
    copy_forget(gpu->frames, s->copy);
    gpu->bytes_admitted -= s->room.bytes;
    gpu->moved_ms = time_now_ms();
    room_given(gpu);
    pthread_cond_broadcast(&gpu->changed);
    pthread_mutex_unlock(&gpu->lock);
}

// ---- steps: passes, and words that are fetched between them ---------------------------------------------------------

// Where keys and row numbers are; rows are numbered as they lie until the first pass.
typedef struct SortState { int keys, rows; bool has_rows; } SortState;

static StepArgs *new_step(SortRun *s)
{
    StepArgs *step = &s->steps[s->n_steps++];
    ASSERT(s->n_steps <= SORT_STEPS_MOST);
    *step = (StepArgs){ .state = { [SORT_COUNTS] = pointer(s, s->room.counts),
                                   [SORT_TOTALS] = pointer(s, s->room.totals) } };
    step->params[SORT_PARTS] = (i64)s->n_parts;
    return step;
}

static void add_gather(SortRun *s, const SortState *now)
{
    StepArgs *step = new_step(s);
    step->tables[SORT_WORD] = pointer(s, s->room.word);
    step->tables[SORT_ROW_OF] = pointer(s, s->room.rows[now->rows]);
    step->state[SORT_KEYS_TO] = pointer(s, s->room.keys[now->keys]);
}

static void add_pass(SortRun *s, SortState *now, int shift, bool is_last_of_word)
{
    StepArgs *step = new_step(s);
    step->params[SORT_SHIFT] = shift, step->params[SORT_HAS_ROWS] = now->has_rows,
    step->params[SORT_HAS_KEYS] = !is_last_of_word;
    step->columns[SORT_KEY] =
        (KernelColumn){ .data = pointer(s, s->room.keys[now->keys]), .width = (u32)s->sort->width };
    step->columns[SORT_ROW] = (KernelColumn){ .data = pointer(s, s->room.rows[now->rows]), .width = sizeof(u32) };
    step->state[SORT_KEYS_TO] = pointer(s, s->room.keys[!now->keys]);
    step->state[SORT_ROWS_TO] = pointer(s, s->room.rows[!now->rows]);
    now->keys = !now->keys, now->rows = !now->rows, now->has_rows = true;
}

static u64 digit_varies(const DeviceSort *sort, int word, int shift)
{
    return sort->varies[word] >> shift & (N_DIGITS - 1);
}

static int passes_of_word(const DeviceSort *sort, int word)
{
    int n = 0;
    for (int shift = 0; shift < 8 * sort->width; shift += DIGIT_BITS) n += digit_varies(sort, word, shift) != 0;
    return n;
}

// Steps of a word; a word whose rows are all the same has none.  A word that is gathered is written over the keys of
// the word before it.
static void add_word(SortRun *s, int word, SortState *now)
{
    const DeviceSort *sort = s->sort;
    int               n_left = passes_of_word(sort, word);
    if (n_left && now->has_rows) add_gather(s, now);
    for (int shift = 0; shift < 8 * sort->width; shift += DIGIT_BITS)
        if (digit_varies(sort, word, shift)) add_pass(s, now, shift, --n_left == 0);
}

static KernelArgs part_args(const SortRun *s, u64 first, u64 end, u64 place)
{
    const u64 at = s->room.current;
    return (KernelArgs){ .row_first = (u32)first,
                         .row_end = (u32)end,
                         .columns = pointer(s, at + offsetof(StepArgs, columns)),
                         .params = pointer(s, at + offsetof(StepArgs, params)),
                         .state = pointer(s, at + offsetof(StepArgs, state)),
                         .tables = pointer(s, at + offsetof(StepArgs, tables)),
                         .common = pointer(s, s->room.common),
                         .place = place };
}

static weft_status send_args(SortRun *s, Error *err)
{
    Gpu        *gpu = s->gpu;
    u8         *area = calloc(1, s->room.sent);
    KernelArgs *parts = (KernelArgs *)(void *)(area + s->room.parts),
               *digits = (KernelArgs *)(void *)(area + s->room.digits);
    for (u64 p = 0; p < s->n_parts; p++)
        parts[p] = part_args(s, p * s->part_rows, MIN_OF((p + 1) * s->part_rows, s->sort->n_rows), p);
    for (u64 d = 0; d < N_DIGITS; d++) digits[d] = part_args(s, 0, s->n_parts, d);
    memcpy(area + s->room.steps, s->steps, sizeof s->steps);
    const weft_status status =
        gpu_check(gpu, gpu->calls->MemcpyHtoDAsync(address(s, 0), area, s->room.sent, s->run.stream),
                  "MemcpyHtoDAsync", err);
    free(area);                        // pageable: the driver has taken a copy
    return status;
}

// ---- a word of all rows, through pinned stages ----------------------------------------------------------------------

static weft_status send_through(SortRun *s, Stage *stage, u64 first, u64 end, Error *err)
{
    Gpu      *gpu = s->gpu;
    const u64 width = (u64)s->sort->width;
    ASSERT(mutex_is_held(&stage->lock) && (end - first) * width <= STAGE_BYTES);
    if (stage->is_used) GPU_TRY(gpu, EventSynchronize, (stage->done), err);
    stage->is_used = true;
    s->sort->write(s->sort->context, s->word, first, end, stage->memory);
    GPU_TRY(gpu, MemcpyHtoDAsync,
            (address(s, s->word_at + first * width), stage->memory, (end - first) * width, s->run.stream), err);
    GPU_TRY(gpu, EventRecord, (stage->done, s->run.stream), err);
    return WEFT_OK;
}

static weft_status send_piece(SortRun *s, u64 piece, Error *err)
{
    const u64 first = piece * s->piece_rows, end = MIN_OF(first + s->piece_rows, s->sort->n_rows);
    TRY(check_stop(s, err));
    Stage *stage = stage_next(s->gpu);
    pthread_mutex_lock(&stage->lock);
    const weft_status status = send_through(s, stage, first, end, err);
    if (status) run_wait_quietly(&s->run);         // a copy from the stage may be under way, and others want it
    pthread_mutex_unlock(&stage->lock);
    return status;
}

static void send_failed(SortRun *s, weft_status status, const Error *err)
{
    pthread_mutex_lock(&s->lock);
    if (!s->status) s->status = status, s->error = *err;
    pthread_mutex_unlock(&s->lock);
    s->is_failed = true;
}

static void send_pieces(void *context, int worker)
{
    SortRun *s = context;
    Error    err = { 0 };
    (void)worker;
    weft_status status = gpu_enter(s->gpu, &err);
    for (u64 p; !status && !s->is_failed && (p = atomic_fetch_add(&s->next_piece, 1)) < s->n_pieces;)
        status = send_piece(s, p, &err);
    if (status) send_failed(s, status, &err);
}

static weft_status send_word(SortRun *s, int word, u64 at, Error *err)
{
    Pool *pool = s->gpu->fetchers;     // the others are for scans
    s->word = word, s->word_at = at, s->next_piece = 0;
    s->piece_rows = STAGE_BYTES / (u64)s->sort->width;
    s->n_pieces = (s->sort->n_rows + s->piece_rows - 1) / s->piece_rows;
    if (s->n_pieces > 1) pool_run(pool, (int)MIN_OF((u64)pool_size(pool), s->n_pieces), send_pieces, s);
    else send_pieces(s, 0);
    if (s->status) *err = s->error;
    return s->status;
}

// ---- launches -------------------------------------------------------------------------------------------------------

static weft_status launch(SortRun *s, SortKernel kernel, Error *err)
{
    Gpu         *gpu = s->gpu;
    const bool   is_starts = kernel == SORT_STARTS;
    GpuAddress   at = address(s, is_starts ? s->room.digits : s->room.parts);
    void        *parameters[] = { &at };
    const u64    n_parts = is_starts ? N_DIGITS : s->n_parts;
    GPU_TRY(gpu, LaunchKernel,
            (s->kernels[kernel].run.kernel->code.function, 1, (unsigned)n_parts, 1, (unsigned)s->threads, 1, 1, 0,
             s->run.stream, parameters, NULL),
            err);
    gpu->n_kernels++;
    return WEFT_OK;
}

static weft_status next_step(SortRun *s, Error *err)
{
    Gpu *gpu = s->gpu;
    TRY(check_stop(s, err));
    GPU_TRY(gpu, MemcpyDtoDAsync,
            (address(s, s->room.current), address(s, s->room.steps + (u64)s->step * sizeof(StepArgs)),
             sizeof(StepArgs), s->run.stream),
            err);
    s->step++;
    return WEFT_OK;
}

static weft_status run_passes(SortRun *s, int word, bool is_gathered, Error *err)
{
    if (is_gathered) {
        TRY(next_step(s, err));
        TRY(launch(s, SORT_GATHER, err));
    }
    for (int p = passes_of_word(s->sort, word); p > 0; p--) {
        TRY(next_step(s, err));
        for (SortKernel kernel = SORT_DIGITS; kernel <= SORT_SCATTER; kernel++) TRY(launch(s, kernel, err));
        s->sort->n_passes++;
    }
    return WEFT_OK;
}

static weft_status sort_word(SortRun *s, int word, SortState *now, Error *err)
{
    GpuRun    *run = &s->run;
    const bool is_gathered = now->has_rows;
    if (!passes_of_word(s->sort, word)) return WEFT_OK;
    TRY(send_word(s, word, is_gathered ? s->room.word : s->room.keys[0], err));
    now->has_rows = true;
    TRY(timer_begin(run, err));
    TRY(run_passes(s, word, is_gathered, err));
    return timer_end(run, err);
}

static void number_rows(const DeviceSort *sort)
{
    for (u64 r = 0; r < sort->n_rows; r++) sort->rows[r] = (u32)r;
}

static weft_status sort_words(SortRun *s, Error *err)
{
    DeviceSort *sort = s->sort;
    SortState   planned = { 0 }, now = { 0 };
    for (int w = sort->n_words; w-- > 0;) add_word(s, w, &planned);
    if (!planned.has_rows) {           // all keys are equal
        number_rows(sort);
        return WEFT_OK;
    }
    TRY(send_args(s, err));
    for (int w = sort->n_words; w-- > 0;) TRY(sort_word(s, w, &now, err));
    GPU_TRY(s->gpu, StreamSynchronize, (s->run.stream), err);
    s->run.block_at = s->copy->at;
    return fetch_long(&s->run, sort->rows, s->room.rows[planned.rows], sort->n_rows * sizeof *sort->rows, err);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static weft_status sort_rows(SortRun *s, Error *err)
{
    TRY(gpu_enter(s->gpu, err));
    describe(s);
    if (!s->sort->may_compile && !has_code(s)) {
        s->sort->is_unready = true;
        return fail(err, WEFT_DEVICE_FAILED, -1, "its code is being compiled");
    }
    TRY(get_code(s, err));
    TRY(choose_parts(s, err));
    lay_out(s);
    TRY(take_room(s, err));
    s->sort->bytes = s->room.bytes;
    return sort_words(s, err);
}

static void begin(SortRun *s, Gpu *gpu, DeviceSort *sort)
{
    static _Atomic u32 never;
    const u64          number = gpu->n_sorts++;
    s->gpu = gpu, s->sort = sort;
    s->arena = arena_new(NULL, "sort");
    s->launch.stop = sort->stop ? (_Atomic u32 *)(uintptr_t)sort->stop : &never;
    s->run = (GpuRun){ .gpu = gpu,
                       .launch = &s->launch,
                       .stream = gpu->streams[N_SMALL_STREAMS + number % N_PLAIN_STREAMS],
                       .is_timed = sort->is_explained };
    pthread_mutex_init(&s->lock, NULL);
}

static void end(SortRun *s)
{
    timers_read(&s->run);
    s->sort->kernel_ms = s->launch.out.gpu.kernel_ms;
    free(s->run.timers);
    give_room(s);
    pthread_mutex_destroy(&s->lock);
    arena_free(s->arena);
    free(s);
}

weft_status gpu_sort(Device *device, DeviceSort *sort, Error *err)
{
    Gpu             *gpu = (Gpu *)device;
    SortRun         *s = calloc(1, sizeof *s);
    const double     start = time_now_ms();
    const GpuContext before = gpu_visit(gpu);
    Error            own = { 0 };
    ASSERT(sort->n_rows <= SORT_ROWS_MOST && sort->n_words > 0 && sort->n_words <= SORT_WORDS);
    ASSERT(sort->width == 8 || (sort->width == 4 && sort->n_words == 1));
    begin(s, gpu, sort);
    const weft_status status = sort->n_rows ? sort_rows(s, &own) : WEFT_OK;
    if (status && s->copy) run_wait_quietly(&s->run);              // its memory may be at work
    end(s);
    gpu_leave(gpu, before);
    sort->time_ms = time_now_ms() - start;
    if (status == WEFT_QUERY_CANCELED) *err = own;
    else if (status) snprintf(sort->refused, sizeof sort->refused, "%.290s", own.message);
    return status == WEFT_QUERY_CANCELED ? status : WEFT_OK;
}
