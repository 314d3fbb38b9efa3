// heap.c - frames of pages from one user-space heap per side.
//
// A heap is a list of buffers of up to 16 MiB.  A buffer is cut into frames of one size, a power of two, and has a bit
// for each: 1 is taken.  To take a frame is to flip a bit from 0 to 1, probing word after word from where the thread
// found one last, so threads seldom meet; to give it back is to flip the bit again.  No lock, unless all buffers are
// full.  Then, one thread at a time:
//
//     1. an empty buffer of this side is cut anew, for this size
//     2. a new buffer is taken from the memory (half as large again and again, while it is refused)
//     3. a frame is stolen from the other side's buffers, or an empty one of these is cut anew
//     4. empty buffers that are too small are given back, and 2 is tried again
//
// Invariant: a buffer's size, memory and infos change only while all of its bits are set by the thread that changes
// them. So whoever has a bit can rely on them, and looks at the size once more after taking the bit.
//
// Departs from the paper (4.4): its frames have one size, and unused buffers change sides; here sizes mix, and single
// frames are lent to the other side, too.
//
// Errors of callers are found in builds with asserts.  A frame given back twice has no hold, or a clear bit.  A free
// frame's pages begin with a pattern that is looked at when the frame is taken again, and ASan is told that they are
// free.  Frames that never came back are counted by heap_free.

#include <stdlib.h>

#include "base/random.h"
#include "flow/flow_int.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define HIDE(memory, bytes) ASAN_POISON_MEMORY_REGION(memory, bytes)
#define SHOW(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#define HIDE(memory, bytes) ((void)0)
#define SHOW(memory, bytes) ((void)0)
#endif

#define PAGE          ((u64)WEFT_FRAME_LEAST)
#define BUFFER_MOST   ((u64)WEFT_FRAME_MOST)
#define BUFFER_USUAL  ((u64)4 << 20)
#define POISON        0xdbdbdbdbdbdbdbdbu

enum {
    BITS_MOST = WEFT_FRAME_MOST / WEFT_FRAME_LEAST,
    WORDS = BITS_MOST / 64,
    BUFFERS_MOST = 4096,
    POISON_WORDS = 8                   // of each page
};

struct HeapBuffer {
    _Atomic u64 bits[WORDS];           // 1: taken, or there is no such frame
    _Atomic int shift;                 // frames have 1 << shift bytes; 0: the buffer has no memory
    _Atomic u32 n_words;               // that have a frame: how far to probe
    FrameHeap  *heap;
    weft_side   side;
    u8         *memory;
    u64         bytes;
    void       *raw;                   // what the memory's take returned
    u64         raw_bytes;
    FrameInfo  *infos;                 // one for each bit; kept as long as the heap, so that old pointers are valid
};

typedef struct HeapSide {
    weft_memory           memory;
    _Atomic(HeapBuffer *) buffers[BUFFERS_MOST];
    _Atomic u32           n_buffers;   // slots in use, with memory or without
    i64                   bytes, bytes_most, n_live, n_grown, n_given;      // guarded by the heap's lock
    // Takers and givers are different threads, mostly, so their counters are in lines of their own.
    _Alignas(64) _Atomic i64 taken, stolen, refused;        // for this side
    _Alignas(64) _Atomic i64 freed;                         // of this side's buffers
} HeapSide;

struct FrameHeap {
    HeapSide        sides[WEFT_N_SIDES];
    u64             buffer_bytes;
    bool            grows_faster;      // the caller has left the size of buffers to us
    Budget          budget;            // of memory of the process: only counts
    pthread_mutex_t lock;              // held to cut, grow, steal and give back buffers
    Bell            freed;             // rings when a frame comes back
};

FrameHeap *heap_of(const FrameInfo *info) { return info->buffer->heap; }

// ---- bits -----------------------------------------------------------------------------------------------------------

static u64 empty_word(u64 n_frames, int word)               // the bits of an empty buffer: those behind its last frame
{
    const u64 first = (u64)word * 64;
    if (n_frames >= first + 64)
        return 0;
    return n_frames <= first ? ~(u64)0 : ~(u64)0 << (n_frames - first);
}

static u64 frames_in(const HeapBuffer *buffer)
{
    const int shift = atomic_load_explicit(&buffer->shift, memory_order_relaxed);
    return shift ? buffer->bytes >> shift : 0;
}

// The word where a thread begins to probe.  Threads begin in different ones; each goes on where it found a frame last,
// so it takes neighbours, whose bits and infos are in the same lines of the cache.
static u64 *probe_place(void)
{
    static _Atomic u64   n_threads;
    static _Thread_local u64 place;
    static _Thread_local bool has_place;
    if (!has_place)
        place = random_bits(atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed), 0);
    has_place = true;
    return &place;
}

// The number of the bit that was flipped, or -1.
static int take_bit(HeapBuffer *buffer, u64 place)
{
    const u32 n_words = atomic_load_explicit(&buffer->n_words, memory_order_relaxed);
    for (u32 i = 0; i < n_words; i++) {
        const u32 word = (u32)((place + i) % n_words);
        u64 bits = atomic_load_explicit(&buffer->bits[word], memory_order_relaxed);
        while (~bits) {
            const int bit = __builtin_ctzll(~bits);
            bits = atomic_fetch_or_explicit(&buffer->bits[word], (u64)1 << bit, memory_order_acquire);
            if (!(bits >> bit & 1))
                return (int)word * 64 + bit;
        }
    }
    return -1;
}

// True: the bit was set, as it must be.
static bool clear_bit(HeapBuffer *buffer, u32 bit)
{
    const u64 mask = (u64)1 << bit % 64;
    return atomic_fetch_and_explicit(&buffer->bits[bit / 64], ~mask, memory_order_release) & mask;
}

static void open_bits(HeapBuffer *buffer, int n_words)
{
    const u64 n_frames = frames_in(buffer);
    for (int i = 0; i < n_words; i++)
        atomic_store_explicit(&buffer->bits[i], empty_word(n_frames, i), memory_order_release);
}

// Takes all frames of an empty buffer, so that it can be changed.  False: it is not empty.
static bool take_all_bits(HeapBuffer *buffer)
{
    const u64 n_frames = frames_in(buffer);
    if (n_frames == 0)
        return false;
    for (int i = 0; i < WORDS; i++) {
        u64 empty = empty_word(n_frames, i);
        if (!atomic_compare_exchange_strong_explicit(&buffer->bits[i], &empty, ~(u64)0, memory_order_acquire,
                                                     memory_order_relaxed)) {
            open_bits(buffer, i);
            return false;
        }
    }
    return true;
}

// ---- errors of callers ----------------------------------------------------------------------------------------------

static bool is_watched(const HeapBuffer *buffer)
{
#ifdef WEFT_ASSERTS
    return !buffer->heap->sides[buffer->side].memory.is_remote;
#else
    (void)buffer;
    return false;
#endif
}

static void poison(const FrameInfo *info)
{
    if (!is_watched(info->buffer))
        return;
    u8 *data = info->frame.data;
    SHOW(data, info->frame.capacity);                       // in a buffer that is cut anew it was hidden
    for (u64 at = 0; at < info->frame.capacity; at += PAGE)
        for (int i = 0; i < POISON_WORDS; i++)
            ((u64 *)(void *)(data + at))[i] = POISON;
    HIDE(data, info->frame.capacity);
}

// Whether nothing was written to the frame while it was free.
static bool is_untouched(const FrameInfo *info)
{
    const u8 *data = info->frame.data;
    if (!is_watched(info->buffer))
        return true;
    SHOW(data, info->frame.capacity);
    for (u64 at = 0; at < info->frame.capacity; at += PAGE)
        for (int i = 0; i < POISON_WORDS; i++)
            if (((const u64 *)(const void *)(data + at))[i] != POISON)
                return false;
    return true;
}

// ---- buffers: with the heap's lock ----------------------------------------------------------------------------------

static void cut(HeapBuffer *buffer, int shift)              // all of its bits are set
{
    atomic_store_explicit(&buffer->shift, shift, memory_order_relaxed);
    const u64 n_frames = frames_in(buffer);
    atomic_store_explicit(&buffer->n_words, (u32)((n_frames + 63) / 64), memory_order_relaxed);
    for (u64 i = 0; i < n_frames; i++) {
        buffer->infos[i].frame = (weft_frame){ .data = buffer->memory + (i << shift), .capacity = (u64)1 << shift,
                                               .side = buffer->side };
        buffer->infos[i].buffer = buffer;
        buffer->infos[i].bit = (u32)i;
        poison(&buffer->infos[i]);
    }
    open_bits(buffer, WORDS);
}

// A driver cuts small pieces of device memory at multiples of 512 bytes.  One more page then has the boundary in it.
static void *take_pages(HeapSide *side, HeapBuffer *buffer, u64 bytes)
{
    const weft_memory *memory = &side->memory;
    u8 *raw = memory->take(memory->context, bytes);
    if (raw && (uintptr_t)raw % PAGE != 0) {
        memory->give(memory->context, raw, bytes);
        buffer->raw_bytes = bytes + PAGE;
        raw = memory->take(memory->context, buffer->raw_bytes);
    }
    buffer->raw = raw;
    buffer->memory = (u8 *)(((uintptr_t)raw + PAGE - 1) / PAGE * PAGE);
    return buffer->memory;
}

static void *take_memory(FrameHeap *heap, HeapSide *side, HeapBuffer *buffer, u64 bytes)
{
    buffer->raw = NULL;
    if (side->memory.bytes_max > 0 && (i64)bytes > side->memory.bytes_max - side->bytes)
        return NULL;
    buffer->raw_bytes = bytes;
    if (side->memory.take)
        return take_pages(side, buffer, bytes);
    if (!mem_has_own_pages(bytes))
        buffer->raw_bytes += PAGE;
    Error ignored = { 0 };
    if (mem_alloc(&heap->budget, buffer->raw_bytes, &buffer->raw, &ignored))
        return buffer->raw = NULL;
    buffer->memory = (u8 *)(((uintptr_t)buffer->raw + PAGE - 1) / PAGE * PAGE);
    return buffer->memory;
}

static void give_memory(FrameHeap *heap, HeapSide *side, HeapBuffer *buffer)
{
    if (is_watched(buffer))
        SHOW(buffer->memory, buffer->bytes);
    if (side->memory.take)
        side->memory.give(side->memory.context, buffer->raw, buffer->raw_bytes);
    else
        mem_free(&heap->budget, buffer->raw, buffer->raw_bytes);
    side->bytes -= (i64)buffer->bytes;
    side->n_live--;
    side->n_given++;
}

// A slot without memory, all bits set.
static HeapBuffer *find_slot(FrameHeap *heap, weft_side which)
{
    HeapSide *side = &heap->sides[which];
    const u32 n = side->n_buffers;
    for (u32 i = 0; i < n; i++)
        if (side->buffers[i]->shift == 0)
            return side->buffers[i];
    HeapBuffer *buffer = n < BUFFERS_MOST ? calloc(1, sizeof(HeapBuffer)) : NULL;
    FrameInfo *infos = buffer ? calloc(BITS_MOST, sizeof(FrameInfo)) : NULL;
    if (!infos) {
        free(buffer);
        return NULL;
    }
    buffer->heap = heap;
    buffer->side = which;
    buffer->infos = infos;
    for (int i = 0; i < WORDS; i++)
        buffer->bits[i] = ~(u64)0;
    atomic_store_explicit(&side->buffers[n], buffer, memory_order_release);
    atomic_store_explicit(&side->n_buffers, n + 1, memory_order_release);
    return buffer;
}

// By WANTED bytes, or by half as much again and again while it is refused.
static bool grow_by(FrameHeap *heap, weft_side which, int shift, u64 wanted)
{
    HeapSide *side = &heap->sides[which];
    HeapBuffer *buffer = find_slot(heap, which);
    const u64 least = (u64)1 << shift;
    for (u64 bytes = MAX_OF(wanted, least); buffer && bytes >= least; bytes = bytes / 2 / PAGE * PAGE)
        if (take_memory(heap, side, buffer, bytes)) {
            buffer->bytes = bytes;
            side->bytes += (i64)bytes;
            side->bytes_most = MAX_OF(side->bytes_most, side->bytes);
            side->n_live++;
            side->n_grown++;
            cut(buffer, shift);
            return true;
        }
    return false;
}

// Memory that is not the process's own is dear: a GPU's kernel leaves for it.  So the more there is, the more is added.
static bool grow(FrameHeap *heap, weft_side which, int shift)
{
    const HeapSide *side = &heap->sides[which];
    const bool is_dear = side->memory.take && heap->grows_faster;
    const u64 bytes = is_dear ? MIN_OF(MAX_OF((u64)side->bytes, heap->buffer_bytes), BUFFER_MOST) : heap->buffer_bytes;
    return grow_by(heap, which, shift, bytes / PAGE * PAGE);
}

static bool cut_empty_buffer(FrameHeap *heap, weft_side which, int shift)
{
    HeapSide *side = &heap->sides[which];
    for (u32 i = 0; i < side->n_buffers; i++) {
        HeapBuffer *buffer = side->buffers[i];
        if (buffer->shift != shift && buffer->shift != 0 && buffer->bytes >= (u64)1 << shift && take_all_bits(buffer)) {
            cut(buffer, shift);
            return true;
        }
    }
    return false;
}

static bool give_small_buffers(FrameHeap *heap, weft_side which, int shift)
{
    HeapSide *side = &heap->sides[which];
    bool has_given = false;
    for (u32 i = 0; i < side->n_buffers; i++) {
        HeapBuffer *buffer = side->buffers[i];
        if (buffer->shift != 0 && buffer->bytes < (u64)1 << shift && take_all_bits(buffer)) {
            give_memory(heap, side, buffer);
            atomic_store(&buffer->shift, 0);
            has_given = true;
        }
    }
    return has_given;
}

// ---- taking and giving ----------------------------------------------------------------------------------------------

// A frame of one side's buffers as they are; NULL: none.
static FrameInfo *take_from(FrameHeap *heap, weft_side which, int shift)
{
    HeapSide *side = &heap->sides[which];
    const u32 n = atomic_load_explicit(&side->n_buffers, memory_order_acquire);
    u64 *place = probe_place();
    for (u32 i = 0; i < n; i++) {
        HeapBuffer *buffer = atomic_load_explicit(&side->buffers[i], memory_order_acquire);
        if (atomic_load_explicit(&buffer->shift, memory_order_relaxed) != shift)
            continue;
        const int bit = take_bit(buffer, *place);
        if (bit < 0)
            continue;
        *place = (u64)bit / 64;
        if (atomic_load_explicit(&buffer->shift, memory_order_relaxed) == shift)
            return &buffer->infos[bit];
        clear_bit(buffer, (u32)bit);                        // it was cut anew in between
    }
    return NULL;
}

static FrameInfo *take_slowly(FrameHeap *heap, weft_side side, int shift)
{
    const weft_side other = side == WEFT_SIDE_HOST ? WEFT_SIDE_DEVICE : WEFT_SIDE_HOST;
    FrameInfo *info = take_from(heap, side, shift);
    // Another thread may take what was made, so each step goes on until it has nothing more to give.
    while (!info && (cut_empty_buffer(heap, side, shift) || grow(heap, side, shift)))
        info = take_from(heap, side, shift);
    if (!info && !heap->sides[other].memory.is_private) {
        info = take_from(heap, other, shift);
        while (!info && cut_empty_buffer(heap, other, shift))
            info = take_from(heap, other, shift);
        if (info)
            atomic_fetch_add(&heap->sides[side].stolen, 1);
    }
    while (!info && give_small_buffers(heap, side, shift) && grow(heap, side, shift))
        info = take_from(heap, side, shift);
    return info;
}

static weft_status refuse(FrameHeap *heap, weft_side side, u64 bytes, Error *err)
{
    atomic_fetch_add(&heap->sides[side].refused, 1);
    const weft_status status = fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE,
                                    "no frame of %s is free, and there is no memory for more",
                                    mem_size_text(bytes).text);
    error_hint(err, "Raise bytes_max of the flow's memory, or make frames smaller.");
    return status;
}

static int shift_of(u64 bytes)
{
    int shift = 12;
    while ((u64)1 << shift < bytes)
        shift++;
    return shift;
}

i64 heap_prepare(FrameHeap *heap, weft_side which, u64 bytes, i64 n_frames)
{
    HeapSide *side = &heap->sides[which];
    const int shift = shift_of(bytes);
    i64 n_there = 0;
    pthread_mutex_lock(&heap->lock);
    for (u32 i = 0; i < side->n_buffers; i++)
        n_there += side->buffers[i]->shift == shift ? (i64)frames_in(side->buffers[i]) : 0;
    while (n_there < n_frames) {
        const i64 before = side->bytes;
        if (!grow_by(heap, which, shift, MIN_OF((u64)(n_frames - n_there) << shift, BUFFER_MOST)))
            break;
        n_there += (side->bytes - before) >> shift;
    }
    pthread_mutex_unlock(&heap->lock);
    return n_there;
}

weft_status heap_take(FrameHeap *heap, weft_side side, u64 bytes, FrameInfo **out, Error *err)
{
    ASSERT(bytes > 0 && bytes <= BUFFER_MOST);
    const int shift = shift_of(bytes);
    FrameInfo *info = take_from(heap, side, shift);
    if (!info) {
        pthread_mutex_lock(&heap->lock);
        info = take_slowly(heap, side, shift);
        pthread_mutex_unlock(&heap->lock);
    }
    if (!info)
        return refuse(heap, side, (u64)1 << shift, err);
    const bool is_clean = is_untouched(info);
    ASSERT(is_clean);                                       // else somebody wrote to a frame that was free
    (void)is_clean;
    atomic_fetch_add_explicit(&heap->sides[side].taken, 1, memory_order_relaxed);
    info->frame.length = info->frame.tag = 0;
    info->reserve_of = NULL;
    info->taker = NULL;
    info->next = info->previous = NULL;
    atomic_store_explicit(&info->holds, 1, memory_order_relaxed);
    *out = info;
    return WEFT_OK;
}

void heap_give(FrameInfo *info)
{
    FrameHeap *heap = info->buffer->heap;
    HeapSide *side = &heap->sides[info->buffer->side];
    ASSERT(atomic_load(&info->holds) == 0);
    poison(info);
    atomic_fetch_add_explicit(&side->freed, 1, memory_order_relaxed);
    const bool was_taken = clear_bit(info->buffer, info->bit);
    ASSERT(was_taken);                                      // else it was given back twice
    (void)was_taken;
    bell_ring(&heap->freed);
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void heap_wake(FrameHeap *heap) { bell_ring(&heap->freed); }

bool heap_has_waiters(FrameHeap *heap) { return atomic_load(&heap->freed.n_waiting) > 0; }

u64 heap_number(FrameHeap *heap) { return atomic_load(&heap->freed.number); }

void heap_wait(FrameHeap *heap, u64 number, int time_ms) { bell_wait(&heap->freed, number, time_ms); }

// ---- the heap -------------------------------------------------------------------------------------------------------

FrameHeap *heap_new(const weft_flow_options *options)
{
    FrameHeap *heap = aligned_alloc(64, (sizeof(FrameHeap) + 63) / 64 * 64);
    if (!heap)
        return NULL;
    memset(heap, 0, sizeof(*heap));
    for (int i = 0; i < WEFT_N_SIDES; i++)
        heap->sides[i].memory = options->memory[i];
    const u64 wanted = options->buffer_bytes > 0 ? (u64)options->buffer_bytes : BUFFER_USUAL;
    heap->buffer_bytes = MAX_OF(MIN_OF(wanted, BUFFER_MOST) / PAGE * PAGE, PAGE);
    heap->grows_faster = options->buffer_bytes == 0;
    pthread_mutex_init(&heap->lock, NULL);
    bell_init(&heap->freed);
    return heap;
}

// Of this side's buffers: what was taken there, for this side or stolen for the other.
static i64 frames_used(const FrameHeap *heap, weft_side which)
{
    const HeapSide *side = &heap->sides[which], *other = &heap->sides[!which];
    return side->taken - side->stolen + other->stolen - side->freed;
}

i64 heap_free(FrameHeap *heap)
{
    i64 n_leaked = 0;
    for (int which = 0; which < WEFT_N_SIDES; which++) {
        HeapSide *side = &heap->sides[which];
        n_leaked += frames_used(heap, which);
        for (u32 i = 0; i < side->n_buffers; i++) {
            HeapBuffer *buffer = side->buffers[i];
            if (buffer->shift)
                give_memory(heap, side, buffer);
            free(buffer->infos);
            free(buffer);
        }
    }
    pthread_mutex_destroy(&heap->lock);
    bell_destroy(&heap->freed);
    free(heap);
    return n_leaked;
}

weft_heap_counts heap_counts(FrameHeap *heap, weft_side which)
{
    HeapSide *side = &heap->sides[which];
    pthread_mutex_lock(&heap->lock);
    const weft_heap_counts counts = {
        .bytes = side->bytes, .bytes_most = side->bytes_most, .buffers = side->n_live,
        .buffers_grown = side->n_grown, .buffers_given = side->n_given, .frames_used = frames_used(heap, which),
        .frames_taken = side->taken, .frames_freed = side->freed, .frames_stolen = side->stolen,
        .refused = side->refused };
    pthread_mutex_unlock(&heap->lock);
    return counts;
}
