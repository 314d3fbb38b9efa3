// frames.c - see frames.h.
//
// A bit per frame says whether it is taken; a run is looked for from where the last one was found, but only in the
// first part of the pool, twice as long as what is taken.  So small things that stay lie close together, and large ones
// that are soon given back (frames_take_high) find room at the other end:
//
//     [columns tables . blocks . . tables . |                                         | large, for one run]
//                             twice what is taken
//
// Without that limit small things came to lie all over the pool of 111 GB, with gaps as large as what had been between
// them, and from a few thousand queries on a sieve of more than 25 of them found no room.
//
// Copies that are not held form a list in the order of their last use.  When there is no run long enough they go, one
// by one from the old end, until there is one: with columns of a few sizes in one pool little is evicted that would not
// have been next.

#include "device/frames.h"

#include <stdlib.h>

#define BUCKETS      ((u64)1 << 16)
#define WINDOW_LEAST ((u64)4096)       // frames

struct Frames {
    u64   n_frames, n_free;
    u64  *taken;                       // a bit each
    u64   next;                        // where to look first
    u64   bytes_held, bytes_copied;
    Copy *oldest, *newest;             // that are not held
    Copy *buckets[BUCKETS];
};

static u64 frames_for(u64 bytes) { return MAX_OF((bytes + FRAME_BYTES - 1) / FRAME_BYTES, 1); }

Frames *frames_new(u64 bytes)
{
    Frames *frames = calloc(1, sizeof *frames);
    frames->n_frames = frames->n_free = bytes / FRAME_BYTES;
    frames->taken = calloc(frames->n_frames / 64 + 1, sizeof(u64));
    return frames;
}

static Copy **bucket_of(Frames *frames, CopyKey key)
{
    return &frames->buckets[hash_bytes(&key, sizeof key) % BUCKETS];
}

void frames_free(Frames *frames)
{
    if (!frames) return;
    for (u64 b = 0; b < BUCKETS; b++)
        for (Copy *copy = frames->buckets[b], *next; copy; copy = next) {
            next = copy->chain;
            free(copy);
        }
    free(frames->taken);
    free(frames);
}

u64 frames_total(const Frames *frames) { return frames->n_frames * FRAME_BYTES; }
u64 frames_held(const Frames *frames) { return frames->bytes_held; }
u64 frames_copied(const Frames *frames) { return frames->bytes_copied; }

// ---- runs of frames -------------------------------------------------------------------------------------------------

static void mark(Frames *frames, u64 first, u64 n, bool taken)
{
    ASSERT(n > 0 && first + n <= frames->n_frames);
    for (u64 f = first; f < first + n; f++) {
        ASSERT((frames->taken[f / 64] >> (f % 64) & 1) != taken);
        if (taken) frames->taken[f / 64] |= (u64)1 << (f % 64);
        else frames->taken[f / 64] &= ~((u64)1 << (f % 64));
    }
    if (taken) frames->n_free -= n;
    else frames->n_free += n;
}

// The next frame from FROM on that is taken, or is not; TO: none before it.
static u64 next_frame(const Frames *frames, u64 from, u64 to, bool taken)
{
    while (from < to) {
        const u64 word = taken ? frames->taken[from / 64] : ~frames->taken[from / 64], rest = word >> (from % 64);
        if (rest) return MIN_OF(from + (u64)__builtin_ctzll(rest), to);
        from = (from / 64 + 1) * 64;
    }
    return to;
}

// A run of N free frames in [from, to).
static bool find_run(const Frames *frames, u64 from, u64 to, u64 n, u64 *first)
{
    while ((from = next_frame(frames, from, to, false)) < to) {
        const u64 end = next_frame(frames, from, MIN_OF(to, from + n), true);
        if (end - from >= n) {
            *first = from;
            return true;
        }
        from = end;
    }
    return false;
}

static bool take_run(Frames *frames, u64 from, u64 to, u64 n, u64 *first)
{
    if (n > frames->n_free || !find_run(frames, from, to, n, first)) return false;
    mark(frames, *first, n, true);
    frames->next = *first + n;
    return true;
}

// The frame behind the last one before END that is taken, or is not; 0: none is.
static u64 behind_last(const Frames *frames, u64 end, bool taken)
{
    while (end > 0) {
        const u64 at = (end - 1) / 64, n = end - at * 64;
        const u64 word = (taken ? frames->taken[at] : ~frames->taken[at]) & (n < 64 ? ((u64)1 << n) - 1 : ~(u64)0);
        if (word) return at * 64 + 64 - (u64)__builtin_clzll(word);
        end = at * 64;
    }
    return 0;
}

static bool take_highest(Frames *frames, u64 n, u64 *first)
{
    u64 end = n <= frames->n_free ? frames->n_frames : 0;
    while ((end = behind_last(frames, end, false)) > 0) {
        const u64 from = behind_last(frames, end, true);
        if (end - from >= n) {
            *first = end - n;
            mark(frames, *first, n, true);
            return true;
        }
        end = from;
    }
    return false;
}

// ---- copies ---------------------------------------------------------------------------------------------------------

static void unlist(Frames *frames, Copy *copy)
{
    if (copy->older) copy->older->newer = copy->newer;
    else frames->oldest = copy->newer;
    if (copy->newer) copy->newer->older = copy->older;
    else frames->newest = copy->older;
    copy->older = copy->newer = NULL;
}

static void list(Frames *frames, Copy *copy)
{
    ASSERT(!copy->older && !copy->newer && frames->oldest != copy);
    copy->older = copy->is_passing ? NULL : frames->newest;
    copy->newer = copy->is_passing ? frames->oldest : NULL;
    if (copy->older) copy->older->newer = copy;
    else frames->oldest = copy;
    if (copy->newer) copy->newer->older = copy;
    else frames->newest = copy;
}

static void unchain(Frames *frames, Copy *copy)
{
    Copy **link = bucket_of(frames, copy->key);
    while (*link && *link != copy) link = &(*link)->chain;
    if (*link) *link = copy->chain;
}

static void drop(Frames *frames, Copy *copy)
{
    ASSERT(copy->n_holds == 0 && frames->bytes_copied >= copy->bytes);
    unchain(frames, copy);
    mark(frames, copy->at / FRAME_BYTES, frames_for(copy->bytes), false);
    frames->bytes_copied -= copy->bytes;
    free(copy);
}

static bool take_free(Frames *frames, u64 n, u64 *first)
{
    const u64 window = MIN_OF(2 * (frames->n_frames - frames->n_free) + n + WINDOW_LEAST, frames->n_frames);
    return (frames->next < window && take_run(frames, frames->next, window, n, first)) ||
           take_run(frames, 0, frames->n_frames, n, first);
}

// As if all copies that are not held were evicted.
static bool would_find_run(const Frames *frames, u64 n)
{
    Frames left = { .n_frames = frames->n_frames, .taken = malloc((frames->n_frames / 64 + 1) * sizeof(u64)) };
    u64    first;
    memcpy(left.taken, frames->taken, (frames->n_frames / 64 + 1) * sizeof(u64));
    for (const Copy *copy = frames->oldest; copy; copy = copy->newer)
        mark(&left, copy->at / FRAME_BYTES, frames_for(copy->bytes), false);
    const bool found = find_run(&left, 0, left.n_frames, n, &first);
    free(left.taken);
    return found;
}

// Where a copy went, there may now be a run that is long enough: only there, since there was none before.  When twice
// as much has gone as is wanted and there is still none, what is held may lie so that there will not be: then the other
// copies may as well stay.
static bool take_evicting(Frames *frames, u64 n, u64 *first)
{
    u64  n_gone = 0;
    bool is_sure = false;
    if (n > frames->n_frames) return false;
    if (take_free(frames, n, first)) return true;
    if (n * FRAME_BYTES > frames_total(frames) - frames->bytes_held) return false;
    while (frames->oldest) {
        if (n_gone >= 2 * n && !is_sure && !(is_sure = would_find_run(frames, n))) return false;
        Copy     *copy = frames->oldest;
        const u64 from = copy->at / FRAME_BYTES, to = from + frames_for(copy->bytes);
        unlist(frames, copy);
        drop(frames, copy);
        n_gone += to - from;
        if (take_run(frames, from > n ? from - n : 0, MIN_OF(to + n, frames->n_frames), n, first)) return true;
    }
    return false;
}

bool frames_take(Frames *frames, u64 bytes, u64 *at)
{
    u64 first;
    if (!take_evicting(frames, frames_for(bytes), &first)) return false;
    *at = first * FRAME_BYTES;
    frames->bytes_held += bytes;
    return true;
}

bool frames_take_high(Frames *frames, u64 bytes, bool evicts, u64 *at)
{
    u64 first;
    if (!take_highest(frames, frames_for(bytes), &first)) return evicts && frames_take(frames, bytes, at);
    *at = first * FRAME_BYTES;
    frames->bytes_held += bytes;
    return true;
}

void frames_clear(Frames *frames)
{
    for (Copy *copy; (copy = frames->oldest);) {
        unlist(frames, copy);
        drop(frames, copy);
    }
    frames->next = 0;
}

void frames_give(Frames *frames, u64 at, u64 bytes)
{
    ASSERT(at % FRAME_BYTES == 0 && frames->bytes_held >= bytes);
    mark(frames, at / FRAME_BYTES, frames_for(bytes), false);
    frames->bytes_held -= bytes;
}

Copy *copy_find(Frames *frames, CopyKey key)
{
    Copy *copy = *bucket_of(frames, key);
    if (!key.owner) return NULL;
    while (copy && (copy->key.owner != key.owner || copy->key.number != key.number)) copy = copy->chain;
    if (copy && copy->n_holds++ == 0) {
        unlist(frames, copy);
        frames->bytes_held += copy->bytes;
    }
    return copy;
}

Copy *copy_add(Frames *frames, CopyKey key, u64 bytes, bool is_passing)
{
    u64 first;
    if (!take_evicting(frames, frames_for(bytes), &first)) return NULL;
    Copy  *copy = calloc(1, sizeof *copy);
    Copy **bucket = bucket_of(frames, key);
    *copy = (Copy){
        .at = first * FRAME_BYTES, .bytes = bytes, .key = key, .n_holds = 1, .is_passing = is_passing, .chain = *bucket
    };
    *bucket = copy;
    frames->bytes_held += bytes;
    frames->bytes_copied += bytes;
    return copy;
}

void copy_release(Frames *frames, Copy *copy)
{
    ASSERT(copy->n_holds > 0 && frames->bytes_held >= copy->bytes);
    if (--copy->n_holds > 0) return;
    frames->bytes_held -= copy->bytes;
    if (copy->key.owner) list(frames, copy);
    else drop(frames, copy);
}

void copy_forget(Frames *frames, Copy *copy)
{
    unchain(frames, copy);
    copy->key.owner = 0;
    copy->chain = *bucket_of(frames, copy->key);
    *bucket_of(frames, copy->key) = copy;
    copy_release(frames, copy);
}
