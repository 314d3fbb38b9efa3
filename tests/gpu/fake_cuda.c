// fake_cuda.c - a driver and an NVRTC for tests without a GPU: device memory is host memory, kernels run in their CPU
// meaning.
//
// Loaded with WEFT_LIBCUDA and WEFT_LIBNVRTC.  What it is for is the host's side of the CUDA device: what is copied
// where and when, what is held and given back, what happens when a call fails.  So it is strict where a GPU is
// forgiving:
//
//   - streams are lists of work that is done only when somebody waits for it, asks for an event, or another stream
//     does; a host that writes to a pinned buffer too early, or forgets to wait for an event, gets wrong answers;
//   - copies must lie in memory that was allocated, which starts out as garbage;
//   - memory that was registered is read when a copy is done, not before; it must be whole pages that are mapped, may
//     not be registered twice, and must still be mapped when it is unregistered;
//   - a thread has a current context; calls in none, in one that was released, or for streams and modules of another
//     one end the process;
//   - parts of a launch run in reverse order, so that nothing depends on theirs;
//   - the kernel of a flow stays (fake_flow.c): its blocks are threads beside the host's.  While one is there, calls
//     end the process that a real driver may answer only when it has gone: those that allocate, free, load or unload;
//   - what is left when the context is released is named, and ends the process; but a context that was lost takes all
//     with it.
//
// Faults: fake_cuda_fail("cuLaunchKernel", 3, 719), or WEFT_FAKE_CUDA=cuLaunchKernel:3:719 in the environment, makes
// the third such call from then on fail with this result, and -3 it and all after it; after a sticky one all calls do,
// in contexts that are made later, too, until fake_cuda_fail is called again.  WEFT_FAKE_CUDA_REGISTER says how memory
// can be registered: "none", or "writable", as by drivers that know no read-only memory, or by default with the flag
// where it is read-only.  "A compiler" keeps the text: the module that is loaded from it is compiled with libtcc.
// fake_nvrtc_takes(200) makes each compile take so many milliseconds, a quick one a twentieth; fake_nvrtc_takes(0) ends
// those that run.  fake_cuda_asking_takes(200) has every third question for an event take so many microseconds,
// fake_cuda_entering_takes(200) the next thread that never had a context so many milliseconds to get one,
// fake_cuda_launch_takes(200) the next launch so many milliseconds, fake_cuda_busy(200) keeps its stream at work before
// it; both end with fake_cuda_go_on.  fake_cuda_has_come() says whether that launch has come. WEFT_FAKE_NVRTC_LOG is
// what a compile leaves in its log.  fake_cuda_count("cuLaunchKernel") says how often a call was made so far, by
// whomever; fake_cuda_bytes_to_device() and fake_cuda_bytes_to_host() what copies brought.  There are
// two GPUs of compute capability 9.0 and 256 MiB, or as WEFT_FAKE_CUDA_GPUS, WEFT_FAKE_CUDA_CAPABILITY (61) and
// WEFT_FAKE_CUDA_MEMORY (bytes) say; WEFT_FAKE_CUDA_VERSION (12990) is the driver's and the compiler's.
// WEFT_FAKE_CUDA_IDLE=ROWS,US has a launch over a chunk of more rows do nothing for so many microseconds, one launch
// after the other, so that what is left of queries over large tables is the host's part; their answers are wrong then.
// Not covered: the words of cuda.h itself (scripts/cuda-check compiles them, a GPU runs them).

#define _GNU_SOURCE                     // memfd_create
#include "device/cuda_driver.h"
#include "fake_flow.h"
#include "jit/jit_int.h"
#include "jit/nvrtc_library.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALL __attribute__((visibility("default")))

typedef struct Op Op;

typedef struct Context { int n_retained; } Context;                         // of a GPU

typedef struct Stream {
    const Context *context;
    Op            *first, *last;
    double         busy_until;
    int            n_staying;          // launches of a kernel that stays, which have not ended
    struct Stream *next;
} Stream;

// One call of cuEventRecord: who waits for an event waits for the newest one of then, whatever is recorded after it,
// and where.
typedef struct Record { Stream *stream; bool is_done; double time_ms; int n_holds; } Record;

typedef struct Event {
    struct Event *next;
    Record *record;                    // the newest; NULL: none
} Event;

// Of what the compiler makes: the text, how many rows a thread has, and which tables are in shared memory.
#define CODE_HEAD "// rows 1 near 00000000\n"
enum { ITEMS_AT = 8, NEAR_AT = 15 };

enum { CU_INVALID_HANDLE = 400 };

typedef enum PutsRows { PUTS_NONE, PUTS_BY_BLOCK, PUTS_BY_WARP } PutsRows;

typedef struct Module {
    TccCode        code;               // none: launches do nothing
    char           name[96];
    int            n_words, n_items, n_registers, n_spilled;
    u32            near;               // tables in shared memory: a bit each
    PutsRows       puts_rows;
    FakeFlow      *flow;               // a kernel that stays
    const Context *context;
    struct Module *next;
} Module;

typedef enum OpKind { OP_COPY, OP_SET, OP_LAUNCH, OP_RECORD, OP_WAIT } OpKind;

struct Op {
    OpKind        kind;
    void         *to;
    const void   *from;
    void         *own;                 // a copy of pageable memory, taken when the call was made
    size_t        bytes;
    u8            value;
    const Module *module;
    u32           n_parts, n_threads, dynamic_shared;
    Record       *record;
    Op           *next;
};

typedef enum RangeKind { RANGE_DEVICE, RANGE_PINNED, RANGE_REGISTERED } RangeKind;

enum { PAGE_MOST = 1 << 16, LARGE = 2 << 20, DEVICE_ALIGNMENT = 512, SLACK = 64, GARBAGE = 0xa5 };

typedef struct Range { u8 *first; size_t bytes; RangeKind kind; struct Range *next; } Range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Range  *ranges;
static Stream *streams;
static Event  *events;
static Module *modules;
static int     n_streams, n_events, n_modules, n_retained, n_staying, n_managed;
static _Atomic int sticky;
static Context contexts[64];           // by number of the GPU
static _Thread_local Context *current;
static size_t  bytes_device, bytes_registered, bytes_registered_most, bytes_straight, bytes_to_device, bytes_to_host;
static int     n_registering;

// ---- faults ---------------------------------------------------------------------------------------------------------

static char fault_call[64];
static int  fault_nth, fault_result, fault_seen;
static bool is_fault_read;

CALL void fake_cuda_fail(const char *call, int nth, int result);
CALL int  fake_cuda_calls(void);       // of the call named last, since then

CALL void fake_cuda_fail(const char *call, int nth, int result)
{
    pthread_mutex_lock(&lock);
    snprintf(fault_call, sizeof fault_call, "%s", call);
    fault_nth = nth, fault_result = result, fault_seen = 0, is_fault_read = true, sticky = 0;
    pthread_mutex_unlock(&lock);
}

CALL int fake_cuda_calls(void)
{
    pthread_mutex_lock(&lock);
    const int seen = fault_seen;
    pthread_mutex_unlock(&lock);
    return seen;
}

// ---- counts ---------------------------------------------------------------------------------------------------------

typedef struct Counted { const char *call; int n; } Counted;

static Counted counted[64];

CALL int    fake_cuda_count(const char *call);     // how often it was called so far
CALL size_t fake_cuda_bytes_to_device(void);       // that copies from the host were to bring so far
CALL size_t fake_cuda_bytes_to_host(void);         // the same, to the host

// With the lock held.
static int *count_of(const char *call)
{
    int i = 0;
    while (i < COUNT_OF(counted) - 1 && counted[i].call && strcmp(counted[i].call, call) != 0) i++;
    counted[i].call = call;
    return &counted[i].n;
}

CALL int fake_cuda_count(const char *call)
{
    pthread_mutex_lock(&lock);
    int n = 0;
    for (int i = 0; i < COUNT_OF(counted) && counted[i].call; i++)
        if (strcmp(counted[i].call, call) == 0) n = counted[i].n;
    pthread_mutex_unlock(&lock);
    return n;
}

CALL size_t fake_cuda_bytes_to_device(void)
{
    pthread_mutex_lock(&lock);
    const size_t bytes = bytes_to_device;
    pthread_mutex_unlock(&lock);
    return bytes;
}

CALL size_t fake_cuda_bytes_to_host(void)
{
    pthread_mutex_lock(&lock);
    const size_t bytes = bytes_to_host;
    pthread_mutex_unlock(&lock);
    return bytes;
}

static _Atomic int compile_ms;

static _Atomic int n_sieved;

CALL int  fake_cuda_sieved(void);      // parts of launches that were handed bits of rows
CALL int  fake_cuda_sieved(void) { return n_sieved; }
CALL void fake_nvrtc_takes(int ms);
CALL void fake_nvrtc_takes(int ms) { compile_ms = ms; }

static _Atomic int ask_us, n_asked;

CALL void fake_cuda_asking_takes(int us);
CALL void fake_cuda_asking_takes(int us) { ask_us = us; }

static _Atomic int entering_ms;

CALL void fake_cuda_entering_takes(int ms);
CALL void fake_cuda_entering_takes(int ms) { entering_ms = ms; }

static _Atomic int launch_ms;

CALL void fake_cuda_launch_takes(int ms);
CALL void fake_cuda_launch_takes(int ms) { launch_ms = ms; }

static _Atomic int n_go_ons;

static void take_time(void)
{
    const int    ms = atomic_exchange(&launch_ms, 0), n_before = n_go_ons;
    const double until = time_now_ms() + ms;
    while (ms && n_go_ons == n_before && time_now_ms() < until) usleep(500);
}

// The stream of the next launch is at work for so long before it: what is handed to it waits, and so does who waits for
// it; others go on.
static _Atomic int busy_ms, rest_ms, n_stopped;

CALL void fake_cuda_busy(int ms);
CALL void fake_cuda_busy(int ms) { busy_ms = ms; }
CALL void fake_cuda_go_on(void);       // whatever is at work so has done it
CALL void fake_cuda_go_on(void)
{
    pthread_mutex_lock(&lock);
    for (Stream *stream = streams; stream; stream = stream->next) stream->busy_until = 0;
    pthread_mutex_unlock(&lock);
    n_go_ons++;
}

CALL int fake_cuda_has_come(void);     // the launch that was to take long, or to find its stream at work
CALL int fake_cuda_has_come(void) { return !launch_ms && !busy_ms; }

CALL void fake_cuda_rests(int ms);     // every stream, before a launch, after what comes before it
CALL void fake_cuda_rests(int ms) { rest_ms = ms; }
CALL int  fake_cuda_stopped(void);     // parts of launches that found their flag set before they began
CALL int  fake_cuda_stopped(void) { return n_stopped; }

static void read_fault(void)
{
    const char *own = getenv("WEFT_FAKE_CUDA");
    if (!is_fault_read && own) sscanf(own, "%63[^:]:%d:%d", fault_call, &fault_nth, &fault_result);
    is_fault_read = true;
}

static int complain(const char *what)
{
    fprintf(stderr, "fake_cuda: %s\n", what);
    sticky = CU_ILLEGAL_ADDRESS;
    return sticky;
}

static bool needs_context(const char *call)
{
    static const char *const others[] = { "cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent" };
    bool                     is_other = strncmp(call, "cu", 2) != 0;
    for (int i = 0; i < COUNT_OF(others); i++) is_other = is_other || strcmp(call, others[i]) == 0;
    return !is_other;
}

// It goes wrong with a driver that is used beside others, and there only: so it is not left to a test to notice.
static void check_context(const char *call, const Context *wanted)
{
    if (current && current->n_retained && (!wanted || wanted == current)) return;
    fprintf(stderr, "fake_cuda: %s in %s\n", call,
            !current               ? "no context"
            : !current->n_retained ? "a context that was released"
                                   : "a context of another GPU");
    abort();
}

// With the lock held.
static int enter(const char *call)
{
    read_fault();
    if (needs_context(call)) check_context(call, NULL);
    ++*count_of(call);
    if (sticky) return sticky;
    if (strcmp(call, fault_call) != 0) return 0;
    fault_seen++;
    if (fault_nth < 0 ? fault_seen < -fault_nth : fault_seen != fault_nth) return 0;
    if (cuda_is_sticky(fault_result)) sticky = fault_result;
    return fault_result;
}

#define ENTER(call)                                                                                                    \
    pthread_mutex_lock(&lock);                                                                                         \
    const int result_ = enter(call);                                                                                   \
    if (result_) return pthread_mutex_unlock(&lock), result_
#define LEAVE(result)                                                                                                  \
    do {                                                                                                               \
        const int leave_ = (result);                                                                                   \
        pthread_mutex_unlock(&lock);                                                                                   \
        return leave_;                                                                                                 \
    } while (0)

// ---- memory ---------------------------------------------------------------------------------------------------------

static Range *range_of(const void *memory, size_t bytes)
{
    const u8 *first = memory;
    for (Range *range = ranges; range; range = range->next)
        if (first >= range->first && first + bytes <= range->first + range->bytes) return range;
    return NULL;
}

static bool is_device(const void *memory, size_t bytes)
{
    const Range *range = range_of(memory, bytes);
    return range && range->kind == RANGE_DEVICE;
}

static bool is_pinned(const void *memory, size_t bytes)
{
    const Range *range = range_of(memory, bytes);
    return range && range->kind != RANGE_DEVICE;
}

static void add_range(void *memory, size_t bytes, RangeKind kind)
{
    Range *range = calloc(1, sizeof *range);
    *range = (Range){ memory, bytes, kind, ranges };
    ranges = range;
    if (kind == RANGE_DEVICE) bytes_device += bytes;
    if (kind == RANGE_REGISTERED) bytes_registered += bytes;
    bytes_registered_most = MAX_OF(bytes_registered_most, bytes_registered);
}

// A driver cuts small pieces of device memory at multiples of 512 bytes, not of a page.
static size_t bytes_before(size_t bytes, RangeKind kind)
{
    return kind == RANGE_DEVICE && bytes < LARGE ? DEVICE_ALIGNMENT : 0;
}

static _Noreturn void no_host_memory(void)
{
    perror("fake_cuda: no memory of the host");
    abort();
}

static size_t whole_pages(size_t bytes) { return (bytes + SLACK + PAGE_MOST - 1) / PAGE_MOST * PAGE_MOST; }

// LARGE bytes of it.
static int garbage_file(void)
{
    static int file = -1;
    if (file >= 0) return file;
    u8 *garbage = malloc(LARGE);
    if (!garbage) no_host_memory();
    memset(garbage, GARBAGE, LARGE);
    file = memfd_create("garbage", MFD_CLOEXEC);
    if (file < 0 || write(file, garbage, LARGE) != LARGE) no_host_memory();
    free(garbage);
    return file;
}

// Every device that is opened takes pools, and a test writes to little of them: filling them was a third of the time of
// tests that open many devices.  So a large range maps one file of garbage again and again, and the kernel copies a
// page when it is written to.  A touch of the page behind the range ends the process.
static u8 *map_garbage(size_t bytes)
{
    const size_t whole = whole_pages(bytes);
    u8 *memory = mmap(NULL, whole + PAGE_MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) no_host_memory();
    for (size_t at = 0; at < whole; at += LARGE)
        if (mmap(memory + at, MIN_OF(LARGE, whole - at), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                 garbage_file(), 0) == MAP_FAILED)
            no_host_memory();
    return memory;
}

// Garbage at first, so that what is read before it is written shows.
static void *new_range(size_t bytes, RangeKind kind)
{
    const size_t before = bytes_before(bytes, kind);
    void *memory = NULL;
    if (bytes >= LARGE) {
        memory = map_garbage(bytes);
    } else {
        if (posix_memalign(&memory, 4096, before + bytes + SLACK)) no_host_memory();
        memory = (u8 *)memory + before;
        memset(memory, GARBAGE, bytes);
    }
    add_range(memory, bytes, kind);
    return memory;
}

static void free_range(Range *range)
{
    if (range->kind == RANGE_REGISTERED) bytes_registered -= range->bytes;
    else if (range->bytes >= LARGE) munmap(range->first, whole_pages(range->bytes) + PAGE_MOST);
    else free(range->first - bytes_before(range->bytes, range->kind));
    free(range);
}

static bool drop_range(const void *memory, RangeKind kind)
{
    for (Range **link = &ranges; *link; link = &(*link)->next) {
        Range *range = *link;
        if (range->first != memory || range->kind != kind) continue;
        *link = range->next;
        if (kind == RANGE_DEVICE) bytes_device -= range->bytes;
        free_range(range);
        return true;
    }
    return false;
}

// ---- memory that is registered --------------------------------------------------------------------------------------

// Now; ever; copied from it; calls.
typedef struct FakeRegistered { size_t bytes, bytes_most, bytes_straight; int n_calls; } FakeRegistered;

CALL void fake_cuda_registered(FakeRegistered *figures);

CALL void fake_cuda_registered(FakeRegistered *figures)
{
    pthread_mutex_lock(&lock);
    *figures = (FakeRegistered){ bytes_registered, bytes_registered_most, bytes_straight, n_registering };
    pthread_mutex_unlock(&lock);
}

static bool is_writable(const void *memory)
{
    FILE              *maps = fopen("/proc/self/maps", "r");
    char               line[512], rights[8] = "";
    unsigned long long first, end;
    bool               writable = false;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx %7s", &first, &end, rights) == 3 && (uintptr_t)memory >= first &&
            (uintptr_t)memory < end)
            writable = rights[1] == 'w';
    if (maps) fclose(maps);
    return writable;
}

static bool is_mapped(u8 *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char here;
    for (size_t at = 0; at < bytes; at += page)
        if (mincore(memory + at, page, &here) != 0) return false;
    return true;
}

static bool overlaps(const u8 *memory, size_t bytes)
{
    for (const Range *range = ranges; range; range = range->next)
        if (range->kind == RANGE_REGISTERED && memory < range->first + range->bytes && range->first < memory + bytes)
            return true;
    return false;
}

// As a driver does that may write to it: private pages become the process's own.  Others read meanwhile, and see the
// same.
__attribute__((no_sanitize("thread"))) static void touch(u8 *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 4096) {
        volatile u8 *byte = memory + at;
        *byte = *byte;
    }
}

static int register_range(u8 *memory, size_t bytes, unsigned flags)
{
    const char  *how = getenv("WEFT_FAKE_CUDA_REGISTER");
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool   read_only = flags & CU_REGISTER_READ_ONLY;
    n_registering++;
    if (how && strcmp(how, "none") == 0) return 801;
    if (how && strcmp(how, "writable") == 0 && read_only) return 801;
    if (!bytes || (uintptr_t)memory % page || bytes % page || !is_mapped(memory, bytes))
        return complain("memory registered that is not whole pages");
    if (overlaps(memory, bytes)) return 712;
    if (!read_only && !is_writable(memory)) return 1;
    if (!read_only) touch(memory, bytes);
    add_range(memory, bytes, RANGE_REGISTERED);
    return 0;
}

static int unregister_range(u8 *memory)
{
    const Range *range = range_of(memory, 1);
    if (!range || range->kind != RANGE_REGISTERED || range->first != memory)
        return complain("memory unregistered that is not registered");
    if (!is_mapped(memory, range->bytes)) return complain("memory unmapped before it was unregistered");
    drop_range(memory, RANGE_REGISTERED);
    return 0;
}

static size_t memory_bytes(void)
{
    const char *own = getenv("WEFT_FAKE_CUDA_MEMORY");
    return own ? (size_t)strtoull(own, NULL, 10) : (size_t)256 << 20;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

typedef struct Call {
    const Module *module;
    KernelArgs args;
    KernelCommon *common;
    u32 n_threads;
    void **scratch;
} Call;

enum { STATES_MOST = 512, COUNTS_MOST = 4096, MEMBERS_MOST = 64 };

static void no_room(KernelCommon *common) { if (!common->failed) common->failed = NO_ROOM; }

static u32 insert(KernelArgs *args, u64 key, const u64 *words)
{
    Call     *call = args->host;
    const u64 group = call->common->n_used++;
    if (group >= call->common->n_room) {
        no_room(call->common);
        return 0;
    }
    u64 at = HASH_SLOT(key) & args->groups_mask;
    while (args->groups[at].row) at = (at + 1) & args->groups_mask;
    args->groups[at] = (KernelSlot){ .key = key, .row = (u32)group + 1 };
    memcpy(args->group_words + group * (u64)call->module->n_words, words ? words : &key,
           8 * (size_t)call->module->n_words);
    return (u32)group;
}

static u64 room(KernelArgs *args, u32 n_rows)
{
    Call         *call = args->host;
    KernelCommon *common = call->common;
    const u64     first = TAKEN_ROWS(common->n_used), segment = TAKEN_SEGMENTS(common->n_used);
    if (!n_rows) return MIN_OF(first, common->n_room);
    common->n_used += (u64)1 << 32 | n_rows;
    if (segment < common->segments_room)
        common->segments[segment] = (KernelSegment){ args->place + args->row_first, first, n_rows };
    else no_room(common);
    if (first + n_rows <= common->n_room && !common->failed) return first;
    no_room(common);
    args->state = call->scratch;       // what is written from here on is never read
    return 0;
}

static void give_words(KernelArgs *args, Call *call)
{
    static u64       counts[COUNTS_MOST];
    static const u32 never = 0;
    args->insert = insert, args->room = room, args->picks = kernel_picks(), args->words = kernel_words(),
    args->host = call;
    args->failed = 0, args->cancel = &never;
    if (!args->counts) args->counts = counts;
}

static void take_failure(const KernelArgs *args)
{
    if (args->failed && !args->common->failed) args->common->failed = args->failed;
}

// A kernel of several queries reads each one's arguments.
static void run_members(Call *call, KernelArgs *members, KernelArgs **pointers)
{
    KernelArgs *args = &call->args;
    for (u32 m = 0; m < args->n_members; m++) {
        if (!is_device(args->members + m, sizeof *args->members) || !is_device(args->members[m], sizeof *members)) {
            complain("a member's arguments are not in device memory");
            return;
        }
        members[m] = *args->members[m];
        pointers[m] = &members[m];
        give_words(&members[m], call);
    }
    args->members = pointers;
    call->module->code.function(args);
    for (u32 m = 0; m < args->n_members; m++) take_failure(&members[m]);
}

// Only rows whose bit is set: lists of them, as the CPU has them.
static void run_sieved(Call *call)
{
    enum { MORSEL = 1 << 16 };
    KernelArgs *args = &call->args;
    const u32   row_end = args->row_end;
    u16        *rows = malloc((MORSEL + 8) * sizeof *rows);
    n_sieved++;
    if (!is_device(args->sieved, (row_end + 7) / 8)) complain("the bits of rows are not in device memory");
    for (u32 base = 0; base < row_end; base += MORSEL) {
        u32 n = 0;
        for (u32 row = base; row < MIN_OF(base + MORSEL, row_end); row++)
            if (args->sieved[row >> 3] >> (row & 7) & 1) rows[n++] = (u16)(row - base);
        args->picked = rows, args->row_base = base, args->row_first = 0, args->row_end = n;
        if (n) call->module->code.function(args);
    }
    free(rows);
}

// Rows are put out tile by tile, as cuda.h has them, the last one first: a GPU's blocks come in any order.
static void run_tiles(Call *call)
{
    KernelArgs *args = &call->args;
    const u32 row_end = args->row_end,
              tile = (call->module->puts_rows == PUTS_BY_WARP ? 32 : call->n_threads) * (u32)call->module->n_items;
    for (u32 n = (row_end + tile - 1) / tile; n-- > 0;) {
        args->row_first = n * tile, args->row_end = MIN_OF(args->row_first + tile, row_end);
        call->module->code.function(args);
    }
}

static void run_part(Call *call)
{
    KernelArgs *args = &call->args, members[MEMBERS_MOST], *pointers[MEMBERS_MOST];
    u8         *tile = malloc((size_t)TILE * 16);
    void       *states[STATES_MOST];
    for (int s = 0; s < STATES_MOST; s++) states[s] = tile;
    call->scratch = states, call->common = args->common;
    give_words(args, call);
    n_stopped += call->common->cancel != 0;
    if (args->n_members) run_members(call, members, pointers);
    else if (args->sieved) run_sieved(call);
    else if (call->module->puts_rows) run_tiles(call);
    else call->module->code.function(args);
    take_failure(args);
    free(tile);
}

// WEFT_FAKE_CUDA_IDLE: launches over larger chunks do nothing for so long.
typedef struct Idle { bool is_read; u32 rows; double ms, until; } Idle;

static Idle *idle_launches(void)
{
    static Idle idle = { .rows = ~0u };
    const char *own = idle.is_read ? NULL : getenv("WEFT_FAKE_CUDA_IDLE");
    unsigned    us = 0;
    if (own && sscanf(own, "%u,%u", &idle.rows, &us) == 2) idle.ms = us * 1e-3;
    idle.is_read = true;
    return &idle;
}

static bool is_idle(const Op *op) { return ((const KernelArgs *)op->from)->row_end > idle_launches()->rows; }

// The card is at work for one launch at a time.
static void be_idle(Stream *stream)
{
    Idle *idle = idle_launches();
    idle->until = MAX_OF(idle->until, time_now_ms()) + idle->ms;
    stream->busy_until = idle->until;
}

// Blocks fetch these tables: each is in device memory and has a place of its own in shared memory.
static bool is_near_sound(const Op *op, const KernelArgs *args)
{
    for (int k = 0; k < 32; k++) {
        if (!(op->module->near >> k & 1)) continue;
        const KernelSpot *spot = &args->common->spots[k];
        if (!is_device(spot, sizeof *spot) || spot->at % 16 || spot->bytes % 16 ||
            spot->at + (u64)spot->bytes > op->dynamic_shared ||
            (spot->bytes && !is_device(args->tables[k], spot->bytes)))
            return false;
        for (int j = 0; j < k; j++) {
            const KernelSpot *other = &args->common->spots[j];
            if ((op->module->near >> j & 1) && spot->at < other->at + other->bytes &&
                other->at < spot->at + spot->bytes)
                return false;
        }
    }
    return true;
}

static void run_launch(void *context, size_t stack_bytes)
{
    const Op         *op = context;
    const KernelArgs *parts = op->from;
    (void)stack_bytes;
    if (!op->module->code.function || is_idle(op)) return;
    for (u32 p = op->n_parts; p-- > 0;) {
        Call call = { .module = op->module, .args = parts[p], .n_threads = op->n_threads };
        if (!is_device(&parts[p], sizeof *parts) || !is_device(parts[p].common, sizeof *parts[p].common)) {
            complain("the arguments of a kernel are not in device memory");
            return;
        }
        if (!is_near_sound(op, &parts[p])) {
            complain("a table has no place in shared memory");
            return;
        }
        run_part(&call);
    }
}

// ---- streams --------------------------------------------------------------------------------------------------------

static Record *hold(Record *record)
{
    if (record) record->n_holds++;
    return record;
}

static void release(Record *record)
{
    if (record && --record->n_holds == 0) free(record);
}

static bool is_done(const Record *record) { return !record || record->is_done; }

static void run_op(Op *op)
{
    Error err = { 0 };
    switch (op->kind) {
        case OP_COPY: memcpy(op->to, op->own ? op->own : op->from, op->bytes); break;
        case OP_SET: memset(op->to, op->value, op->bytes); break;
        case OP_LAUNCH: run_with_stack((size_t)64 << 20, run_launch, op, &err); break;
        case OP_RECORD: op->record->is_done = true, op->record->time_ms = time_now_ms(); break;
        case OP_WAIT: break;
    }
    release(op->record);
}

static bool is_held_up(const Stream *stream)
{
    const Op *op = stream->first;
    return time_now_ms() < stream->busy_until || stream->n_staying > 0 ||
           (op && op->kind == OP_WAIT && !is_done(op->record) && is_held_up(op->record->stream));
}

// Others go on meanwhile.
static void wait_while_held_up(void)
{
    pthread_mutex_unlock(&lock);
    usleep(500);
    pthread_mutex_lock(&lock);
}

static bool run_one(Stream *stream)
{
    Op *op = stream->first;
    if (!op || is_held_up(stream)) return false;
    // It stays where it is: others may come by meanwhile.
    if (op->kind == OP_WAIT && !is_done(op->record)) return run_one(op->record->stream);
    stream->first = op->next;
    if (!stream->first) stream->last = NULL;
    run_op(op);
    if (rest_ms && op->kind != OP_LAUNCH && stream->first && stream->first->kind == OP_LAUNCH)
        stream->busy_until = time_now_ms() + rest_ms;
    if (op->kind == OP_LAUNCH && is_idle(op)) be_idle(stream);
    free(op->own);
    free(op);
    return true;
}

static void run_until(Record *record)
{
    while (!is_done(record) && (run_one(record->stream) || is_held_up(record->stream)))
        if (is_held_up(record->stream)) wait_while_held_up();
}

static void run_all(Stream *stream)
{
    while (run_one(stream) || ((stream->first || stream->n_staying) && is_held_up(stream)))
        if (is_held_up(stream)) wait_while_held_up();
}

// ---- a kernel that stays --------------------------------------------------------------------------------------------

static void check_nothing_stays(const char *call)
{
    if (!n_staying || sticky) return;
    fprintf(stderr, "fake_cuda: %s while a kernel stays: it may wait for ever\n", call);
    abort();
}

static void has_ended(void *context)
{
    Stream *stream = context;
    pthread_mutex_lock(&lock);
    stream->n_staying--;
    n_staying--;
    pthread_mutex_unlock(&lock);
}

// It runs beside the host from now on; what was handed to the stream before comes first.
static int launch_staying(const Module *module, void **parameters, u32 n_blocks, Stream *stream)
{
    const void *args = *(void **)parameters[0];
    run_all(stream);
    if (!is_pinned(args, 1)) return complain("the arguments of a kernel that stays are not in pinned memory");
    if (sticky) return sticky;
    stream->n_staying++;
    n_staying++;
    fake_flow_launch(module->flow, args, n_blocks, &sticky, has_ended, stream);
    return 0;
}

static int push(CuStream to, Op op)
{
    Stream *stream = (Stream *)to;
    Op     *copy = malloc(sizeof *copy);
    if (!stream) return complain("the default stream is used");
    check_context("work for a stream", stream->context);
    *copy = op;
    copy->next = NULL;
    if (stream->last) stream->last->next = copy;
    else stream->first = copy;
    stream->last = copy;
    return 0;
}

// ---- the driver -----------------------------------------------------------------------------------------------------

// It takes the stars below for products.
// clang-format off
#define DEFINE(symbol, parameters) CALL CuResult symbol parameters; CALL CuResult symbol parameters

DEFINE(cuInit, (unsigned flags)) { (void)flags; ENTER("cuInit"); LEAVE(0); }
// WEFT_FAKE_CUDA_VERSION=13000: driver and compiler are as new as that.
static int fake_version(void)
{
    const char *own = getenv("WEFT_FAKE_CUDA_VERSION");
    return own ? atoi(own) : 12990;
}

DEFINE(cuDriverGetVersion, (int *version)) { *version = fake_version(); return 0; }
DEFINE(cuGetErrorName, (CuResult result, const char **name))
{
    *name = result == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return 0;
}

DEFINE(cuGetErrorString, (CuResult result, const char **text))
{
    *text = result == CU_OUT_OF_MEMORY ? "out of memory" : "made to fail";
    return 0;
}

static int own_number(const char *variable, int standard)
{
    const char *own = getenv(variable);
    return own ? atoi(own) : standard;
}

static int n_gpus(void) { return own_number("WEFT_FAKE_CUDA_GPUS", 2); }
enum { SM_REGISTERS = 65536, SM_PARTITIONS = 4 };

static int capability(void) { return own_number("WEFT_FAKE_CUDA_CAPABILITY", 90); }

// As Turing (7.5), Ada (8.9) and Hopper have it.
static int threads_per_sm(void) { return capability() < 80 ? 1024 : capability() == 89 ? 1536 : 2048; }
static int shared_per_sm(void) { return (capability() < 80 ? 64 : capability() == 89 ? 100 : 228) << 10; }
static int blocks_per_sm(void) { return capability() < 80 ? 16 : capability() == 89 ? 24 : 32; }
static int shared_reserved(void) { return capability() < 80 ? 0 : 1024; }
static int shared_per_block(void) { return capability() < 80 ? 64 << 10 : shared_per_sm() - 1024; }

DEFINE(cuDeviceGetCount, (int *count)) { *count = n_gpus(); return 0; }
DEFINE(cuDeviceGet, (CuDevice *device, int ordinal)) { *device = ordinal; return ordinal < n_gpus() ? 0 : 101; }
DEFINE(cuDeviceGetName, (char *name, int capacity, CuDevice device))
{
    snprintf(name, (size_t)capacity, "fake card %d", device);
    return 0;
}

DEFINE(cuDeviceTotalMem_v2, (size_t *bytes, CuDevice device)) { (void)device; *bytes = memory_bytes(); return 0; }
DEFINE(cuDeviceGetPCIBusId, (char *id, int capacity, CuDevice device))
{
    (void)device;
    snprintf(id, (size_t)capacity, "0000:00:00.0");
    return 0;
}

DEFINE(cuDeviceGetAttribute, (int *value, int attribute, CuDevice device))
{
    (void)device;
    switch (attribute) {
        case CU_DEVICE_CAPABILITY_MAJOR: *value = capability() / 10; break;
        case CU_DEVICE_CAPABILITY_MINOR: *value = capability() % 10; break;
        case CU_DEVICE_MULTIPROCESSORS: *value = 2; break;
        case CU_DEVICE_THREADS_PER_MULTIPROCESSOR: *value = threads_per_sm(); break;
        case CU_DEVICE_SHARED_PER_BLOCK_OPTIN: *value = shared_per_block(); break;
        case CU_DEVICE_SHARED_PER_MULTIPROCESSOR: *value = shared_per_sm(); break;
        case CU_DEVICE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_BLOCKS_PER_MULTIPROCESSOR: *value = blocks_per_sm(); break;
        case CU_DEVICE_REGISTERS_PER_BLOCK:
        case CU_DEVICE_REGISTERS_PER_MULTIPROCESSOR: *value = SM_REGISTERS; break;
        case CU_DEVICE_SHARED_RESERVED_PER_BLOCK: *value = shared_reserved(); break;
        case CU_DEVICE_L2_BYTES: *value = 1 << 20; break;
        case CU_DEVICE_MEMORY_CLOCK_KHZ: *value = 1000000; break;
        case CU_DEVICE_MEMORY_BUS_BITS: *value = 4096; break;
        default: *value = 1; break;
    }
    return 0;
}

DEFINE(cuDevicePrimaryCtxRetain, (CuContext *context, CuDevice device))
{
    ENTER("cuDevicePrimaryCtxRetain");
    n_retained++;
    contexts[device].n_retained++;
    *context = (CuContext)(void *)&contexts[device];
    LEAVE(0);
}

static void forget_all(void)
{
    while (ranges) drop_range(ranges->first, ranges->kind);
    while (streams) {
        Stream *stream = streams;
        streams = stream->next;
        for (Op *op = stream->first, *next; op; op = next)
            next = op->next, release(op->record), free(op->own), free(op);
        free(stream);
    }
    for (Event *event = events, *next; event; event = next) next = event->next, release(event->record), free(event);
    for (Module *module = modules, *next; module; module = next)
        next = module->next, tcc_unload(&module->code), fake_flow_unload(module->flow), free(module);
    events = NULL, modules = NULL;
    n_streams = n_events = n_modules = 0;
}

DEFINE(cuDevicePrimaryCtxRelease_v2, (CuDevice device))
{
    pthread_mutex_lock(&lock);
    while (n_staying && sticky) wait_while_held_up();
    contexts[device].n_retained--;
    const bool is_last = --n_retained == 0;
    if (is_last && sticky) forget_all();
    pthread_mutex_unlock(&lock);
    if (!is_last || !(ranges || n_streams || n_events || n_modules)) return 0;
    fprintf(stderr, "fake_cuda: left when the context was released: %zu bytes of the device, %d streams, %d events, %d "
                    "modules%s\n", bytes_device, n_streams, n_events,
            n_modules, ranges ? ", allocations" : "");
    abort();
}

DEFINE(cuCtxSetCurrent, (CuContext context))
{
    static _Thread_local bool has_come;
    const int                 ms = has_come ? 0 : atomic_exchange(&entering_ms, 0);
    has_come = true;
    if (ms) usleep((useconds_t)ms * 1000);
    ENTER("cuCtxSetCurrent");
    current = (Context *)context;
    LEAVE(0);
}

DEFINE(cuCtxGetCurrent, (CuContext *context)) { *context = (CuContext)(void *)current; return 0; }

DEFINE(cuCtxSynchronize, (void))
{
    ENTER("cuCtxSynchronize");
    for (Stream *stream = streams; stream; stream = stream->next) run_all(stream);
    LEAVE(sticky);
}

DEFINE(cuModuleUnload, (CuModule module))
{
    ENTER("cuModuleUnload");
    check_nothing_stays("cuModuleUnload");
    check_context("cuModuleUnload", ((const Module *)module)->context);
    Module **link = &modules;
    while (*link != (Module *)module) link = &(*link)->next;
    *link = (*link)->next;
    tcc_unload(&((Module *)module)->code);
    fake_flow_unload(((Module *)module)->flow);
    free(module);
    n_modules--;
    LEAVE(0);
}

// Words that mean nothing on a CPU, as its host looks for itself.
static const char gpu_words[] =
    "#undef NOTE\n#undef NOTE_NULL\n#undef MARK\n#undef MEMBER_ROWS\n"
    "#define MEMBER_ROWS(live) if (!A->row_end) live##_rows = live##_n = 0;\n"
    "#define NOTE(k, value) { KernelNote *n_ = A->common->notes + k; const i64 v_ = (value); if (v_ < n_->low) n_->low "
    "= v_; if (v_ > n_->high) n_->high = v_; }\n"
    "#define NOTE_NULL(k) A->common->notes[k].n_nulls++;\n"
    "#define MARK(k, value) { KernelNote *n_ = A->common->notes + k; const u64 a_ = (u64)(value) - n_->first; if (a_ < "
    "n_->n_marks) n_->marks[a_] = 1; }\n";

static int count_word(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

// A thread has registers for 64 values of columns; what it adds up takes some, too.
static void count_registers(const char *image, const char *text, Module *made)
{
    made->n_items = image[ITEMS_AT] - '0';
    made->near = (u32)strtoul(image + NEAR_AT, NULL, 16);
    const int n_values = count_word(text, "LOAD") * made->n_items;
    made->n_spilled = MAX_OF(n_values - 64, 0) * 8;
    made->n_registers = MIN_OF(24 + MIN_OF(n_values, 64) + 6 * count_word(text, "TOTAL("), 255);
}

// The text after the prelude, in its CPU meaning.
DEFINE(cuModuleLoadData, (CuModule *module, const void *image))
{
    ENTER("cuModuleLoadData");
    check_nothing_stays("cuModuleLoadData");
    static char *prelude;
    Error        err = { 0 };
    Module      *made = calloc(1, sizeof *made);
    const char  *text = strstr(image, "\nKERNEL("), *words = strstr(image, "u64 words[");
    while (text && strstr(text + 1, "\nKERNEL(")) text = strstr(text + 1, "\nKERNEL(");
    if (!prelude) {
        Text both = { 0 };
        text_add(&both, "%s\n%s\n%s\n", kernel_args_text, kernel_cpu_text, gpu_words);
        prelude = both.bytes;
    }
    const bool is_measure = !text && strstr(image, "weft_read");           // device/measure.c
    const bool is_flow = fake_flow_is(image);
    if (is_flow && fake_flow_load(image, &made->flow, &err)) LEAVE(complain(err.message));
    if (is_flow) strcpy(made->name, "flow_kernel"), text = NULL;
    if (!is_measure && !is_flow && (!text || sscanf(text, "\nKERNEL(%95[^)])", made->name) != 1)) {
        free(made);
        LEAVE(200);
    }
    made->n_words = words ? atoi(words + 10) : 1;
    made->n_registers = 32;
    if (text) count_registers(image, text, made);
    if (text && (strstr(text, "ROOM(") || strstr(text, "ROOM_NOW_(")))         // the latter: the generic kernel
        made->puts_rows = strstr(text, "MATCHES(") ? PUTS_BY_WARP : PUTS_BY_BLOCK;
    if (!is_measure && !is_flow && tcc_build(&(KernelText){ prelude, text, made->name }, &made->code, &err))
        LEAVE(complain(err.message));
    made->next = modules;
    made->context = current;
    modules = made;
    *module = (CuModule)made;
    n_modules++;
    LEAVE(0);
}

DEFINE(cuModuleGetFunction, (CuFunction *function, CuModule module, const char *name))
{
    ENTER("cuModuleGetFunction");
    *function = (CuFunction)module;
    const char *own = ((const Module *)module)->name;
    LEAVE(!*own || strcmp(name, own) == 0 ? 0 : 500);
}

// By NVIDIA's occupancy calculator: registers are given to warps in units of 256, in the partition that a warp lives
// in; shared memory to blocks in units of 128 bytes, 256 before 8.0.
static int warp_registers(const Module *module) { return (module->n_registers * 32 + 255) / 256 * 256; }

static int warps_by_registers(const Module *module)
{
    return SM_REGISTERS / SM_PARTITIONS / warp_registers(module) * SM_PARTITIONS;
}

static int threads_most(const Module *module) { return MIN_OF(32 * warps_by_registers(module), 1024); }

DEFINE(cuFuncGetAttribute, (int *value, int attribute, CuFunction function))
{
    ENTER("cuFuncGetAttribute");
    const Module *module = (const Module *)function;
    *value = attribute == CU_FUNC_REGISTERS               ? module->n_registers
             : attribute == CU_FUNC_LOCAL_BYTES           ? module->n_spilled
             : attribute == CU_FUNC_MAX_THREADS_PER_BLOCK ? threads_most(module)
                                                          : 0;
    LEAVE(0);
}

DEFINE(cuFuncSetAttribute, (CuFunction function, int attribute, int value))
{
    (void)function, (void)attribute, (void)value;
    ENTER("cuFuncSetAttribute");
    LEAVE(0);
}

DEFINE(cuOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *blocks, CuFunction function, int threads, size_t dynamic_shared))
{
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    const Module *module = (const Module *)function;
    const int     warps = (threads + 31) / 32;
    const size_t  unit = capability() < 80 ? 256 : 128,
                  shared = (dynamic_shared + (size_t)shared_reserved() + unit - 1) / unit * unit;
    *blocks = MIN_OF(MIN_OF(blocks_per_sm(), threads_per_sm() / 32 / warps), warps_by_registers(module) / warps);
    if (shared) *blocks = (int)MIN_OF((size_t)*blocks, (size_t)shared_per_sm() / shared);
    if (threads > 1024 || dynamic_shared > (size_t)shared_per_block()) *blocks = 0;
    LEAVE(0);
}

DEFINE(cuMemGetInfo_v2, (size_t *bytes_free, size_t *bytes_total))
{
    ENTER("cuMemGetInfo");
    *bytes_total = memory_bytes();
    *bytes_free = *bytes_total - MIN_OF(bytes_device, *bytes_total);
    LEAVE(0);
}

DEFINE(cuMemAlloc_v2, (CuAddress *address, size_t bytes))
{
    ENTER("cuMemAlloc");
    check_nothing_stays("cuMemAlloc");
    if (bytes_device + bytes > memory_bytes()) LEAVE(CU_OUT_OF_MEMORY);
    *address = (CuAddress)(uintptr_t)new_range(bytes, RANGE_DEVICE);
    LEAVE(0);
}

DEFINE(cuMemFree_v2, (CuAddress address))
{
    ENTER("cuMemFree");
    check_nothing_stays("cuMemFree");
    LEAVE(drop_range((void *)(uintptr_t)address, RANGE_DEVICE) ? 0 : complain("memory freed that is not there"));
}

// Managed memory: both sides use it, it is freed as the device's, and it is advised where it is.
DEFINE(cuMemAllocManaged, (CuAddress *address, size_t bytes, unsigned flags))
{
    ENTER("cuMemAllocManaged");
    check_nothing_stays("cuMemAllocManaged");
    if (flags != CU_MANAGED_GLOBAL || bytes == 0) LEAVE(complain("managed memory of an unknown kind"));
    *address = (CuAddress)(uintptr_t)new_range(bytes, RANGE_DEVICE);
    n_managed++;
    LEAVE(0);
}

DEFINE(cuMemAdvise, (CuAddress address, size_t bytes, int advice, CuDevice device))
{
    ENTER("cuMemAdvise");
    if (!is_device((void *)(uintptr_t)address, bytes)) LEAVE(complain("advice for memory that is not there"));
    if (device == CU_ON_HOST && advice == CU_ADVISE_ACCESSED_BY) LEAVE(complain("advice that says nothing"));
    LEAVE(0);
}

CALL int fake_cuda_managed(void);
CALL int fake_cuda_managed(void) { return n_managed; }

DEFINE(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))
{
    (void)flags;
    ENTER("cuMemHostAlloc");
    check_nothing_stays("cuMemHostAlloc");
    *memory = new_range(bytes, RANGE_PINNED);
    LEAVE(0);
}

DEFINE(cuMemFreeHost, (void *memory))
{
    ENTER("cuMemFreeHost");
    check_nothing_stays("cuMemFreeHost");
    LEAVE(drop_range(memory, RANGE_PINNED) ? 0 : complain("pinned memory freed that is not there"));
}

DEFINE(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))
{
    ENTER("cuMemHostRegister");
    LEAVE(register_range(memory, bytes, flags));
}

DEFINE(cuMemHostUnregister, (void *memory)) { ENTER("cuMemHostUnregister"); LEAVE(unregister_range(memory)); }
DEFINE(cuMemHostGetDevicePointer_v2, (CuAddress *address, void *memory, unsigned flags))
{
    (void)flags;
    ENTER("cuMemHostGetDevicePointer");
    *address = (CuAddress)(uintptr_t)memory;
    LEAVE(0);
}

static int push_copy(CuAddress to, const void *from, size_t bytes, CuStream stream)
{
    Op op = { .kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes };
    if (!is_device(op.to, bytes)) return complain("a copy to what is not device memory");
    if (is_pinned(from, 1) && !is_pinned(from, bytes)) return complain("a copy from more than is pinned");
    if (!is_pinned(from, bytes)) op.own = memcpy(malloc(bytes + 1), from, bytes);
    else if (range_of(from, bytes)->kind == RANGE_REGISTERED) bytes_straight += bytes;
    bytes_to_device += bytes;
    return push(stream, op);
}

DEFINE(cuMemcpyHtoDAsync_v2, (CuAddress to, const void *from, size_t bytes, CuStream stream))
{
    ENTER("cuMemcpyHtoDAsync");
    LEAVE(push_copy(to, from, bytes, stream));
}

DEFINE(cuMemcpyBatchAsync_v2, (CuAddress *to, CuAddress *from, size_t *bytes, size_t count,
                               CuCopyAttributes *attributes, size_t *firsts, size_t n_attributes, CuStream stream))
{
    ENTER("cuMemcpyBatchAsync");
    const bool is_known = n_attributes == 1 && firsts[0] == 0 && attributes->source_order == CU_SOURCE_ORDER_STREAM;
    int        result = is_known ? 0 : complain("copies with attributes that are not understood");
    for (size_t i = 0; i < count && !result; i++) {
        const void *source = (const void *)(uintptr_t)from[i];
        result = is_pinned(source, bytes[i]) ? push_copy(to[i], source, bytes[i], stream)
                                             : complain("a batch of copies from memory that is not pinned");
    }
    LEAVE(result);
}

DEFINE(cuMemcpyDtoHAsync_v2, (void *to, CuAddress from, size_t bytes, CuStream stream))
{
    ENTER("cuMemcpyDtoHAsync");
    if (!is_device((const void *)(uintptr_t)from, bytes)) LEAVE(complain("a copy from what is not device memory"));
    bytes_to_host += bytes;
    const int result =
        push(stream, (Op){ .kind = OP_COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes });
    if (!result && !is_pinned(to, bytes)) run_all((Stream *)stream);
    LEAVE(result ? result : sticky);
}

DEFINE(cuMemcpyDtoDAsync_v2, (CuAddress to, CuAddress from, size_t bytes, CuStream stream))
{
    ENTER("cuMemcpyDtoDAsync");
    void       *target = (void *)(uintptr_t)to;
    const void *source = (const void *)(uintptr_t)from;
    if (!is_device(target, bytes) || !is_device(source, bytes)) LEAVE(complain("a copy outside of device memory"));
    LEAVE(push(stream, (Op){ .kind = OP_COPY, .to = target, .from = source, .bytes = bytes }));
}

DEFINE(cuMemsetD8Async, (CuAddress to, unsigned char value, size_t count, CuStream stream))
{
    ENTER("cuMemsetD8Async");
    if (!is_device((void *)(uintptr_t)to, count)) LEAVE(complain("memory set that is not the device's"));
    LEAVE(push(stream, (Op){ .kind = OP_SET, .to = (void *)(uintptr_t)to, .bytes = count, .value = value }));
}

DEFINE(cuStreamCreate, (CuStream *stream, unsigned flags))
{
    ENTER("cuStreamCreate");
    Stream *made = calloc(1, sizeof *made);
    (void)flags;
    made->next = streams;
    made->context = current;
    streams = made;
    n_streams++;
    *stream = (CuStream)made;
    LEAVE(0);
}

DEFINE(cuStreamCreateWithPriority, (CuStream *stream, unsigned flags, int priority))
{
    (void)priority;
    return cuStreamCreate(stream, flags);
}

DEFINE(cuStreamDestroy_v2, (CuStream stream))
{
    ENTER("cuStreamDestroy");
    Stream **link = &streams;
    while (*link != (Stream *)stream) link = &(*link)->next;
    run_all(*link);
    *link = (*link)->next;
    free(stream);
    n_streams--;
    LEAVE(0);
}

DEFINE(cuStreamSynchronize, (CuStream stream))
{
    ENTER("cuStreamSynchronize");
    run_all((Stream *)stream);
    LEAVE(sticky);
}

DEFINE(cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))
{
    ENTER("cuStreamWaitEvent");
    (void)flags;
    LEAVE(push(stream, (Op){ .kind = OP_WAIT, .record = hold(((Event *)event)->record) }));
}

DEFINE(cuEventCreate, (CuEvent *event, unsigned flags))
{
    (void)flags;
    ENTER("cuEventCreate");
    Event *made = calloc(1, sizeof *made);
    made->next = events, events = made;
    *event = (CuEvent)made;
    n_events++;
    LEAVE(0);
}

// What was recorded is still waited for by who was told to.
DEFINE(cuEventDestroy_v2, (CuEvent event))
{
    ENTER("cuEventDestroy");
    Event **link = &events;
    while (*link != (Event *)event) link = &(*link)->next;
    *link = (*link)->next;
    release(((Event *)event)->record);
    free(event);
    n_events--;
    LEAVE(0);
}

DEFINE(cuEventRecord, (CuEvent event, CuStream stream))
{
    ENTER("cuEventRecord");
    Event *recorded = (Event *)event;
    release(recorded->record);
    recorded->record = calloc(1, sizeof *recorded->record);
    *recorded->record = (Record){ .stream = (Stream *)stream, .n_holds = 1 };
    LEAVE(push(stream, (Op){ .kind = OP_RECORD, .record = hold(recorded->record) }));
}

DEFINE(cuEventQuery, (CuEvent event))
{
    // Not all: others get ahead of who asks meanwhile.
    if (ask_us && n_asked++ % 3 == 0) usleep((useconds_t)ask_us);
    ENTER("cuEventQuery");
    Event *asked = (Event *)event;
    const bool others_go_on = !is_done(asked->record) && is_held_up(asked->record->stream);
    for (Stream *stream = streams; stream && others_go_on; stream = stream->next) run_one(stream);
    if (!is_done(asked->record)) run_one(asked->record->stream);
    LEAVE(sticky ? sticky : is_done(asked->record) ? 0 : CU_NOT_READY);
}

DEFINE(cuEventSynchronize, (CuEvent event))
{
    ENTER("cuEventSynchronize");
    run_until(((Event *)event)->record);
    LEAVE(sticky);
}

DEFINE(cuEventElapsedTime, (float *time_ms, CuEvent start, CuEvent end))
{
    ENTER("cuEventElapsedTime");
    const Record *first = ((Event *)start)->record, *last = ((Event *)end)->record;
    if (!first || !last) LEAVE(CU_INVALID_HANDLE);             // one was never recorded
    if (!is_done(first) || !is_done(last)) LEAVE(CU_NOT_READY);
    *time_ms = (float)(last->time_ms - first->time_ms);
    LEAVE(0);
}

DEFINE(cuLaunchKernel, (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_shared, CuStream stream,
                        void **parameters, void **extra))
{
    take_time();
    ENTER("cuLaunchKernel");
    const bool is_sound = grid_x > 0 && grid_y > 0 && grid_y < 65536 && grid_z == 1 && block_x % 32 == 0 &&
                          block_x > 0 && block_x <= 1024 && block_y == 1 && block_z == 1 &&
                          dynamic_shared <= (unsigned)shared_per_block() && !extra;
    if (!is_sound) LEAVE(complain("a launch of a shape that is not possible"));
    if (((const Module *)function)->flow)
        LEAVE(launch_staying((const Module *)function, parameters, grid_x, (Stream *)stream));
    if (!parameters) LEAVE(0);         // a kernel that does nothing, to see how long that takes
    const int busy = atomic_exchange(&busy_ms, 0);
    if (busy) ((Stream *)stream)->busy_until = time_now_ms() + busy;
    LEAVE(push(stream, (Op){ .kind = OP_LAUNCH, .module = (const Module *)function, .from = *(void **)parameters[0],
                             .n_parts = grid_y, .n_threads = block_x, .dynamic_shared = dynamic_shared }));
}

// ---- NVRTC: the text is the code ------------------------------------------------------------------------------------

CALL const char *nvrtcGetErrorString(NvrtcResult result);
CALL const char *nvrtcGetErrorString(NvrtcResult result) { return result ? "made to fail" : "success"; }

DEFINE(nvrtcVersion, (int *major, int *minor))
{
    *major = fake_version() / 1000, *minor = fake_version() % 1000;
    return 0;
}

DEFINE(nvrtcCreateProgram, (NvrtcProgram *program, const char *text, const char *name, int n_headers,
                            const char *const *headers, const char *const *header_names))
{
    (void)name, (void)n_headers, (void)headers, (void)header_names;
    char *own = malloc(strlen(text) + sizeof(CODE_HEAD));
    memcpy(own, CODE_HEAD, strlen(CODE_HEAD));
    strcpy(own + strlen(CODE_HEAD), text);
    *program = (NvrtcProgram)(void *)own;
    return 0;
}

DEFINE(nvrtcDestroyProgram, (NvrtcProgram *program)) { free(*program); *program = NULL; return 0; }

// What --time=FILE asks for.
static void tell_phases(const char *path)
{
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "File name, phase name, metric, unit\nkernel.cu, CUDA C++ Frontend, 41, ms\n"
                  "kernel.cu, PTX Translation, %d, ms\n", compile_ms);
    fclose(file);
}

// As NVRTC does: its destructors are registered when it is opened and in the middle of compiles, and what it compiles
// after them falls.
static atomic_bool is_taken_down;

static void take_down(void)
{
    if (!atomic_exchange(&is_taken_down, true))
        usleep(20000);                 // for a compile to notice
}

__attribute__((constructor)) static void begin(void) { atexit(take_down); }

// Until it is told that compiles take no time.
static void spend_time(int ms)
{
    for (int i = 0; i < ms && compile_ms; i++) {
        usleep(1000);
        if (i == ms / 2) atexit(take_down);
        if (is_taken_down) abort();
    }
}

// WEFT_FAKE_NVRTC_KEEP: a folder that gets every text that is compiled, its options in a comment before it, named by
// the hash of both: what real compilers are timed with (scripts/nvrtc-times).
static void keep_text(const char *text, int n_options, const char *const *options)
{
    const char *folder = getenv("WEFT_FAKE_NVRTC_KEEP");
    Text        all = { 0 }, path = { 0 };
    if (!folder || !*folder) return;
    text_add(&all, "//");
    for (int o = 0; o < n_options; o++) text_add(&all, " %s", options[o]);
    text_add(&all, "\n%s", text);
    u64 hash = 14695981039346656037ull;
    for (size_t i = 0; i < all.length; i++) hash = (hash ^ (u8)all.bytes[i]) * 1099511628211ull;
    text_add(&path, "%s/%016llx.cu", folder, (unsigned long long)hash);
    FILE *file = fopen(path.bytes, "w");
    if (file) {
        fwrite(all.bytes, 1, all.length, file);
        fclose(file);
    }
    text_free(&all);
    text_free(&path);
}

// Quick ones are counted, and fail, as calls of another name.
DEFINE(nvrtcCompileProgram, (NvrtcProgram program, int n_options, const char *const *options))
{
    bool is_quick = false;
    for (int o = 0; o < n_options; o++) {
        int      n_items;
        unsigned near;
        char     digits[9];
        is_quick |= strncmp(options[o], "--Ofast-compile=", 16) == 0;
        if (strncmp(options[o], "--time=", 7) == 0) tell_phases(options[o] + 7);
        if (sscanf(options[o], "-DITEMS=%d", &n_items) == 1) ((char *)program)[ITEMS_AT] = (char)('0' + n_items);
        if (sscanf(options[o], "-DSHARED_TABLES_=%x", &near) != 1) continue;
        snprintf(digits, sizeof digits, "%08x", near);
        memcpy((char *)program + NEAR_AT, digits, 8);
    }
    keep_text((const char *)program + strlen(CODE_HEAD), n_options, options);
    spend_time(is_quick ? compile_ms / 20 : compile_ms);
    ENTER(is_quick ? "nvrtcCompileProgram, quick" : "nvrtcCompileProgram");
    LEAVE(0);
}

static const char *program_log(void)
{
    const char *own = getenv("WEFT_FAKE_NVRTC_LOG");
    return own ? own : "";
}

DEFINE(nvrtcGetProgramLogSize, (NvrtcProgram program, size_t *bytes))
{
    (void)program;
    *bytes = strlen(program_log()) + 1;
    return 0;
}

DEFINE(nvrtcGetProgramLog, (NvrtcProgram program, char *log)) { (void)program; strcpy(log, program_log()); return 0; }
DEFINE(nvrtcGetCUBINSize, (NvrtcProgram program, size_t *bytes))
{
    *bytes = strlen((const char *)program) + 1;
    return 0;
}

DEFINE(nvrtcGetCUBIN, (NvrtcProgram program, char *cubin)) { strcpy(cubin, (const char *)program); return 0; }
DEFINE(nvrtcGetNumSupportedArchs, (int *count)) { *count = 4; return 0; }
DEFINE(nvrtcGetSupportedArchs, (int *architectures))
{
    architectures[0] = 70, architectures[1] = 75, architectures[2] = 89, architectures[3] = 90;
    return 0;
}
