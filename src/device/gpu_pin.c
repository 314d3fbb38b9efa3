// gpu_pin.c - the host's memory pinned where it lies, so that columns that pass through a GPU are copied without a
// stage.
//
//     chunk    |.....column 0.....|...column 1...|.......column 2.......|   pages of its own: a mapped file, or large
//                                                                           memory
//     pinned        [   extent of column 0  ][ of column 1 ]                whole pages: the first of two neighbours
//                                                                           has the page that they share
//
// A byte that goes through a stage crosses the host's memory twice more, which is all that the host can do at half of
// the link's rate.  Pinning takes about 60 ms per GB, as long as copying it three times: so a column is pinned when it
// passes for the second time, by a thread of its own, while runs still go through stages.  A Pin knows what was done
// for a chunk; it lives until the chunk goes (the store tells us) and is held by runs whose copies may still read its
// pages.  Locks: the GPU's before ours; the store's watches before ours.
//
// A file's pages are made writable for the moment.  The mapping is private, so the kernel then gives it copies of them:
// memory twice, and the file stays as it is.  Pages of the system's own cache of files are never handed to the driver:
// a kernel that may not move them to where pinned memory has to be tries again for ever (seen with Linux 6 and driver
// 580, which did not return from pinning 2 MB).
//
// There is a limit for all pinned bytes.  When it is reached, chunks go that did not pass for twice as long as it takes
// all to pass: the plain least-recently-used rule would pin and unpin forever while a table larger than the limit is
// scanned in a circle.

#include "device/gpu_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUCKETS   4096
#define PIN_FLAGS (GPU_REGISTER_PORTABLE | GPU_REGISTER_DEVICE_MAP)

typedef struct PinExtent { u8 *first; u64 bytes; GpuAddress at; } PinExtent;  // at: for kernels; 0: they cannot read it

typedef struct PinColumn { int column, n_passes; } PinColumn;

struct Pin {
    Pins      *pins;
    u64        id;                     // of the chunk
    ChunkPages pages;
    int        n_users;                // runs that copy from it
    bool       is_busy;                // the thread is at work on its pages
    bool       is_refused;             // by the driver: not asked again
    u64        used_at;                // in passes of chunks
    int        n_extents, n_columns;
    PinExtent *extents;
    PinColumn *columns;                // that passed
    Pin       *chain;
};

typedef struct PinJob { Pin *pin; u8 *first; u64 bytes; struct PinJob *next; } PinJob;

struct Pins {
    ChunkWatch      watch;             // first
    Gpu            *gpu;
    u64             bytes_most;
    pthread_t       thread;
    pthread_mutex_t lock;              // for all below
    pthread_cond_t  wanted, settled;   // there is a job; a pin is not busy or used any more
    bool            is_closing;
    u64             n_passes, n_pins, bytes;
    PinJob         *first, *last;
    Pin            *buckets[BUCKETS];
};

// ---- pages ----------------------------------------------------------------------------------------------------------

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23         // Linux 5.14; older ones refuse it
#endif

// Each page gets a copy of its own, before the driver looks.
static void copy_pages(u8 *first, u64 bytes)
{
    const u64 page = (u64)sysconf(_SC_PAGESIZE);
    if (madvise(first, bytes, MADV_POPULATE_WRITE) == 0) return;
    for (u64 at = 0; at < bytes; at += page) ((volatile u8 *)first)[at] = first[at];
}

static GpuResult pin_file(const Gpu *gpu, u8 *first, u64 bytes)
{
    if (mprotect(first, bytes, PROT_READ | PROT_WRITE) != 0) return GPU_OUT_OF_MEMORY;
    copy_pages(first, bytes);
    const GpuResult result = gpu->calls->MemHostRegister(first, bytes, PIN_FLAGS);
    mprotect(first, bytes, PROT_READ);
    if (result) madvise(first, bytes, MADV_DONTNEED);      // the copies
    return result;
}

static GpuResult pin_pages(Pins *pins, const Pin *pin, u8 *first, u64 bytes)
{
    Gpu  *gpu = pins->gpu;
    Error ignored = { 0 };
    if (gpu_enter(gpu, &ignored)) return GPU_OUT_OF_MEMORY;
    const double   start = time_now_ms();
    const GpuResult result =
        pin->pages.is_file ? pin_file(gpu, first, bytes) : gpu->calls->MemHostRegister(first, bytes, PIN_FLAGS);
    if (!result)
        log_debug("%s: %llu KiB of the host's memory were pinned in %.1f ms", gpu->name,
                  (unsigned long long)bytes >> 10, time_now_ms() - start);
    gpu_check(gpu, result, "MemHostRegister", &ignored);
    if (result)
        log_debug("%s: %llu KiB of the host's memory are not pinned: %s", gpu->name, (unsigned long long)bytes >> 10,
                  ignored.message);
    return result;
}

// Any thread may call.
static void unpin_pages(Pins *pins, const Pin *pin, const PinExtent *extents, int n_extents, bool is_kept)
{
    Gpu  *gpu = pins->gpu;
    Error ignored = { 0 };
    if (!n_extents || gpu->is_gone) return;                // what such a context had went with it
    const GpuContext before = gpu_visit(gpu);
    if (gpu->calls->CtxSetCurrent(gpu->context) == GPU_SUCCESS) {
        if (gpu->is_lost) gpu->calls->CtxSynchronize();       // copies may still be under way
        for (int e = 0; e < n_extents; e++)
            gpu_check(gpu, gpu->calls->MemHostUnregister(extents[e].first), "MemHostUnregister", &ignored);
        gpu_leave(gpu, before);
    }
    for (int e = 0; e < n_extents && is_kept && pin->pages.is_file; e++)
        madvise(extents[e].first, extents[e].bytes, MADV_DONTNEED);
}

// ---- the books (under the lock) -------------------------------------------------------------------------------------

static Pin **link_of(Pins *pins, u64 id)
{
    ASSERT(mutex_is_held(&pins->lock));
    Pin **link = &pins->buckets[id % BUCKETS];
    while (*link && (*link)->id != id) link = &(*link)->chain;
    return link;
}

static Pin *pin_of(Pins *pins, const Chunk *chunk)
{
    Pin **link = link_of(pins, chunk->id), *pin = *link;
    if (pin) return pin;
    const ChunkPages pages = chunk_pages(chunk);
    if (!pages.first) return NULL;
    *link = pin = calloc(1, sizeof *pin);
    *pin = (Pin){ .pins = pins, .id = chunk->id, .pages = pages };
    pins->n_pins++;
    return pin;
}

static void free_pin(Pin *pin)
{
    free(pin->extents);
    free(pin->columns);
    free(pin);
}

static u64 extents_bytes(const Pin *pin)
{
    u64 bytes = 0;
    for (int e = 0; e < pin->n_extents; e++) bytes += pin->extents[e].bytes;
    return bytes;
}

static const PinExtent *extent_at(const Pin *pin, const u8 *at)
{
    for (int e = 0; e < pin->n_extents; e++)
        if (at >= pin->extents[e].first && at < pin->extents[e].first + pin->extents[e].bytes) return &pin->extents[e];
    return NULL;
}

static void push_job(Pins *pins, PinJob job)
{
    ASSERT(mutex_is_held(&pins->lock));
    ASSERT(!pins->first == !pins->last);
    PinJob *copy = malloc(sizeof *copy);
    *copy = job;
    if (pins->last) pins->last->next = copy;
    else pins->first = copy;
    pins->last = copy;
    pthread_cond_signal(&pins->wanted);
}

static bool pop_job(Pins *pins, PinJob *job)
{
    ASSERT(mutex_is_held(&pins->lock));
    PinJob *first = pins->first;
    if (!first) return false;
    *job = *first;
    pins->first = first->next;
    if (!first->next) pins->last = NULL;
    free(first);
    return true;
}

// PIN NULL: all of them.
static void drop_jobs(Pins *pins, const Pin *pin)
{
    PinJob **link = &pins->first;
    pins->last = NULL;
    while (*link) {
        PinJob *job = *link;
        if (pin && job->pin != pin) {
            pins->last = job;
            link = &job->next;
            continue;
        }
        *link = job->next;
        free(job);
    }
}

// ---- pinning (by the thread, under the lock, which it lets go of for the driver's calls) ----------------------------

static Pin *oldest_pin(Pins *pins)
{
    ASSERT(mutex_is_held(&pins->lock));
    Pin *oldest = NULL;
    for (int b = 0; b < BUCKETS; b++)
        for (Pin *pin = pins->buckets[b]; pin; pin = pin->chain) {
            if (!pin->n_extents || pin->n_users || pin->is_busy || pins->n_passes - pin->used_at <= 2 * pins->n_pins)
                continue;
            if (!oldest || pin->used_at < oldest->used_at) oldest = pin;
        }
    return oldest;
}

static void set_idle(Pins *pins, Pin *pin)
{
    ASSERT(mutex_is_held(&pins->lock));
    ASSERT(pin->is_busy);
    pin->is_busy = false;
    pthread_cond_broadcast(&pins->settled);
}

static void unpin(Pins *pins, Pin *pin)
{
    PinExtent *extents = pin->extents;
    const int  n_extents = pin->n_extents;
    ASSERT(mutex_is_held(&pins->lock) && !pin->is_busy);
    ASSERT(pins->bytes >= extents_bytes(pin));
    pins->bytes -= extents_bytes(pin);
    pin->extents = NULL, pin->n_extents = 0, pin->n_columns = 0;       // it may come again
    pin->is_busy = true;
    pthread_mutex_unlock(&pins->lock);
    unpin_pages(pins, pin, extents, n_extents, true);
    free(extents);
    pthread_mutex_lock(&pins->lock);
    set_idle(pins, pin);
}

static bool make_room(Pins *pins, u64 bytes)
{
    while (pins->bytes + bytes > pins->bytes_most) {
        Pin *pin = bytes <= pins->bytes_most ? oldest_pin(pins) : NULL;
        if (!pin) return false;
        unpin(pins, pin);
    }
    return true;
}

// There may be room when they pass the next time.
static void ask_again(Pin *pin)
{
    for (int c = 0; c < pin->n_columns; c++) pin->columns[c].n_passes = MIN_OF(pin->columns[c].n_passes, 1);
}

static bool pin_stretch(Pins *pins, Pin *pin, u8 *first, u64 bytes)
{
    GpuAddress at = 0;
    pthread_mutex_unlock(&pins->lock);
    const GpuResult result = pin_pages(pins, pin, first, bytes);
    if (!result && pins->gpu->calls->MemHostGetDevicePointer(&at, first, 0)) at = 0;
    pthread_mutex_lock(&pins->lock);
    if (result) return false;
    pin->extents = realloc(pin->extents, (size_t)(pin->n_extents + 1) * sizeof *pin->extents);
    pin->extents[pin->n_extents++] = (PinExtent){ first, bytes, at };
    pins->bytes += bytes;
    return true;
}

// What of the pages from FIRST on is not pinned yet, up to END or the next extent.
static u8 *stretch_end(const Pin *pin, u8 *first, u8 *end)
{
    for (int e = 0; e < pin->n_extents; e++)
        if (pin->extents[e].first > first && pin->extents[e].first < end) end = pin->extents[e].first;
    return end;
}

// Neighbours that are asked for together are pinned together: then no copy has to be cut where two extents meet.
static bool take_neighbour(Pins *pins, PinJob *job)
{
    for (PinJob **link = &pins->first, *last = NULL; *link; last = *link, link = &(*link)->next) {
        PinJob *other = *link;
        u8  *end = job->first + job->bytes, *other_end = other->first + other->bytes;
        if (other->pin != job->pin || other->first > end || job->first > other_end) continue;
        job->first = MIN_OF(job->first, other->first);
        job->bytes = (u64)(MAX_OF(end, other_end) - job->first);
        *link = other->next;
        if (pins->last == other) pins->last = last;
        free(other);
        return true;
    }
    return false;
}

static void pin_columns(Pins *pins, Pin *pin, PinJob *job)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    while (take_neighbour(pins, job)) continue;
    u8 *at = job->first - (uintptr_t)job->first % page, *end = (u8 *)(uintptr_t)pin->pages.first + pin->pages.bytes;
    if ((u64)(end - job->first) > job->bytes) end = job->first + job->bytes;
    end += (page - (uintptr_t)end % page) % page;
    while (at < end && !pin->is_refused && !pins->is_closing) {
        const PinExtent *there = extent_at(pin, at);
        u8              *until = there ? there->first + there->bytes : stretch_end(pin, at, end);
        if (!there && !make_room(pins, (u64)(until - at))) {
            ask_again(pin);
            return;
        }
        if (!there && !pin_stretch(pins, pin, at, (u64)(until - at))) pin->is_refused = true;
        at = until;
    }
}

// ---- the thread -----------------------------------------------------------------------------------------------------

static void do_job(Pins *pins, PinJob *job)
{
    job->pin->is_busy = true;
    pin_columns(pins, job->pin, job);
    set_idle(pins, job->pin);
}

static void *work(void *context)
{
    Pins *pins = context;
    PinJob job;
    pthread_mutex_lock(&pins->lock);
    while (!pins->is_closing) {
        if (pop_job(pins, &job)) do_job(pins, &job);
        else pthread_cond_wait(&pins->wanted, &pins->lock);
    }
    pthread_mutex_unlock(&pins->lock);
    return NULL;
}

// ---- what the store says --------------------------------------------------------------------------------------------

static void chunk_gone(ChunkWatch *watch, const Chunk *chunk)
{
    Pins *pins = (Pins *)watch;
    pthread_mutex_lock(&pins->lock);
    Pin *pin = *link_of(pins, chunk->id);
    while (pin && (pin->is_busy || pin->n_users)) pthread_cond_wait(&pins->settled, &pins->lock);
    if (pin) {
        drop_jobs(pins, pin);
        *link_of(pins, chunk->id) = pin->chain;
        pins->n_pins--;
        pins->bytes -= extents_bytes(pin);
    }
    pthread_mutex_unlock(&pins->lock);
    if (!pin) return;
    unpin_pages(pins, pin, pin->extents, pin->n_extents, false);
    free_pin(pin);
}

// ---- what the dispatcher asks ---------------------------------------------------------------------------------------

Pin *pin_hold(Pins *pins, const Chunk *chunk)
{
    if (!pins) return NULL;
    pthread_mutex_lock(&pins->lock);
    Pin *pin = pin_of(pins, chunk);
    if (pin) pin->n_users++;
    pthread_mutex_unlock(&pins->lock);
    return pin;
}

void pin_use(Pin *pin)
{
    if (!pin) return;
    pthread_mutex_lock(&pin->pins->lock);
    pin->used_at = ++pin->pins->n_passes;
    pthread_mutex_unlock(&pin->pins->lock);
}

static PinColumn *passing_column(Pin *pin, int column)
{
    for (int c = 0; c < pin->n_columns; c++)
        if (pin->columns[c].column == column) return &pin->columns[c];
    pin->columns = realloc(pin->columns, (size_t)(pin->n_columns + 1) * sizeof *pin->columns);
    pin->columns[pin->n_columns] = (PinColumn){ .column = column };
    return &pin->columns[pin->n_columns++];
}

void pin_pass(Pin *pin, int column, const void *from, u64 bytes)
{
    if (!pin || !pin->pins->bytes_most) return;
    pthread_mutex_lock(&pin->pins->lock);
    if (!pin->is_refused && ++passing_column(pin, column)->n_passes == 2)
        push_job(pin->pins, (PinJob){ .pin = pin, .first = (u8 *)(uintptr_t)from, .bytes = bytes });
    pthread_mutex_unlock(&pin->pins->lock);
}

u64 pin_reach(Pin *pin, const void *from)
{
    if (!pin) return 0;
    pthread_mutex_lock(&pin->pins->lock);
    const PinExtent *extent = extent_at(pin, from);
    const u64        bytes = extent ? (u64)(extent->first + extent->bytes - (const u8 *)from) : 0;
    pthread_mutex_unlock(&pin->pins->lock);
    return bytes;
}

GpuAddress pin_address(Pin *pin, const void *from, u64 bytes)
{
    GpuAddress at = 0;
    if (!pin) return 0;
    pthread_mutex_lock(&pin->pins->lock);
    const PinExtent *extent = extent_at(pin, from);
    const u64        offset = extent ? (u64)((const u8 *)from - extent->first) : 0;
    if (extent && extent->at && offset + bytes <= extent->bytes) at = extent->at + offset;
    pthread_mutex_unlock(&pin->pins->lock);
    return at;
}

u64 pin_covers(Pin *pin, const void *from, u64 bytes)
{
    const u8 *first = from, *end = first + bytes;
    u64       covered = 0;
    if (!pin) return 0;
    pthread_mutex_lock(&pin->pins->lock);
    for (int e = 0; e < pin->n_extents; e++) {
        const u8 *low = MAX_OF(first, pin->extents[e].first),
                 *high = MIN_OF(end, pin->extents[e].first + pin->extents[e].bytes);
        if (low < high) covered += (u64)(high - low);
    }
    pthread_mutex_unlock(&pin->pins->lock);
    return covered;
}

void pin_release(Pin *pin)
{
    if (!pin) return;
    Pins *pins = pin->pins;
    pthread_mutex_lock(&pins->lock);
    ASSERT(pin->n_users > 0);
    if (--pin->n_users == 0) pthread_cond_broadcast(&pins->settled);
    pthread_mutex_unlock(&pins->lock);
}

// ---- life -----------------------------------------------------------------------------------------------------------

Pins *pins_new(Gpu *gpu, u64 bytes_most)
{
    Pins *pins = calloc(1, sizeof *pins);
    *pins = (Pins){ .watch = { .gone = chunk_gone }, .gpu = gpu, .bytes_most = bytes_most };
    pthread_mutex_init(&pins->lock, NULL);
    pthread_cond_init(&pins->wanted, NULL);
    pthread_cond_init(&pins->settled, NULL);
    if (thread_start(&pins->thread, NULL, work, pins) == 0) {
        chunks_watch(&pins->watch);
        return pins;
    }
    log_warn("%s: the system refused a thread; the host's memory is not pinned", gpu->name);
    free(pins);
    return NULL;
}

static Pin *any_pinned(const Pins *pins)
{
    for (int b = 0; b < BUCKETS; b++)
        for (Pin *pin = pins->buckets[b]; pin; pin = pin->chain)
            if (pin->n_extents && !pin->is_busy) return pin;
    return NULL;
}

// Chunks may be released at the same time: chunk_gone waits for a pin that is busy.
static void unpin_all(Pins *pins)
{
    pthread_mutex_lock(&pins->lock);
    for (Pin *pin; (pin = any_pinned(pins));) unpin(pins, pin);
    pthread_mutex_unlock(&pins->lock);
}

void pins_free(Pins *pins)
{
    if (!pins) return;
    pthread_mutex_lock(&pins->lock);
    pins->is_closing = true;
    pthread_cond_signal(&pins->wanted);
    pthread_mutex_unlock(&pins->lock);
    pthread_join(pins->thread, NULL);
    unpin_all(pins);
    chunks_unwatch(&pins->watch);
    drop_jobs(pins, NULL);
    for (int b = 0; b < BUCKETS; b++)
        for (Pin *pin = pins->buckets[b], *next; pin; pin = next) {
            next = pin->chain;
            free_pin(pin);
        }
    pthread_cond_destroy(&pins->settled);
    pthread_cond_destroy(&pins->wanted);
    pthread_mutex_destroy(&pins->lock);
    free(pins);
}
