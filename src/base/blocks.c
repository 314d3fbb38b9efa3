// blocks.c - the blocks that arenas are made of, kept by each thread for its next arena.
//
// A query makes and frees a dozen arenas, whose blocks double from 1 KiB to 256 KiB.  The C library's calloc looks for
// each of them in its bins, cuts and merges them, and clears all of a block, of which half is used.  Here a thread
// keeps what it frees, by size, and clears what was used when the block is used again:
//
//     kept[0]: 1 KiB ─> 1 KiB      kept[1]: 2 KiB ─> 2 KiB      ...      kept[8]: 256 KiB
//
// No lock: a block that another thread made is kept by the thread that frees it.  A thread keeps 512 KiB at most, and
// 64 threads keep any; a thread that ends gives back what it has.  A crowd has a thread for each of thousands of
// queries, which would keep too much, and what such a thread kept is in no cache of the CPU when its turn comes again.
// So all others share shelves, one for each of a few CPUs, with a lock each and 2 MiB at most.
//
// Under a sanitizer nothing is kept, so that a use after the end of an arena is seen.

#define _GNU_SOURCE                    // sched_getcpu
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/base_int.h"

enum { THREADS_MOST = 64, BYTES_MOST = 512 << 10, N_SHELVES = 16, SHELF_BYTES_MOST = 2 << 20 };

typedef struct SpareBlock { struct SpareBlock *next; size_t used; } SpareBlock;   // at the beginning of what is kept

typedef struct BlockCache {
    enum { CACHE_NEW, CACHE_OPEN, CACHE_NONE } state;
    size_t     bytes;
    SpareBlock *kept[BLOCK_CLASSES];
} BlockCache;

// Of the threads that keep nothing of their own.
typedef struct Shelf {
    _Alignas(128) pthread_mutex_t lock;
    size_t      bytes;
    SpareBlock *kept[BLOCK_CLASSES];
} Shelf;

static Shelf                    shelves[N_SHELVES];
static _Thread_local BlockCache cache;
static pthread_once_t           once = PTHREAD_ONCE_INIT;
static pthread_key_t            at_exit_of_thread;
static bool                     has_key;
static _Atomic int              n_threads;

static void give_back(void *context)
{
    BlockCache *of_thread = context;
    for (int c = 0; c < BLOCK_CLASSES; c++)
        while (of_thread->kept[c]) {
            SpareBlock *block = of_thread->kept[c];
            of_thread->kept[c] = block->next;
            free(block);
        }
    of_thread->state = CACHE_NONE;
    atomic_fetch_sub(&n_threads, 1);
}

static void set_up(void)
{
    for (int s = 0; s < N_SHELVES; s++) pthread_mutex_init(&shelves[s].lock, NULL);
    has_key = pthread_key_create(&at_exit_of_thread, give_back) == 0;
}

static void open_cache(void)
{
    cache.state = CACHE_NONE;
    pthread_once(&once, set_up);
    if (!has_key) return;
    if (atomic_fetch_add(&n_threads, 1) < THREADS_MOST && pthread_setspecific(at_exit_of_thread, &cache) == 0)
        cache.state = CACHE_OPEN;
    else atomic_fetch_sub(&n_threads, 1);
}

static size_t bytes_of(int class) { return (size_t)BLOCK_LEAST << class; }

static Shelf *shelf_here(void) { return &shelves[(unsigned)MAX_OF(sched_getcpu(), 0) % N_SHELVES]; }

// NULL: there is none.
static SpareBlock *take_shared(int class)
{
    Shelf *shelf = shelf_here();
    pthread_mutex_lock(&shelf->lock);
    SpareBlock *block = shelf->kept[class];
    if (block) shelf->kept[class] = block->next, shelf->bytes -= bytes_of(class);
    pthread_mutex_unlock(&shelf->lock);
    return block;
}

// False: there is no room.
static bool give_shared(SpareBlock *block, int class, size_t used)
{
    Shelf *shelf = shelf_here();
    pthread_mutex_lock(&shelf->lock);
    const bool has_room = shelf->bytes + bytes_of(class) <= SHELF_BYTES_MOST;
    if (has_room) {
        *block = (SpareBlock){ shelf->kept[class], used };
        shelf->kept[class] = block, shelf->bytes += bytes_of(class);
    }
    pthread_mutex_unlock(&shelf->lock);
    return has_room;
}

static SpareBlock *take_own(int class)
{
    SpareBlock *block = cache.kept[class];
    if (block) cache.kept[class] = block->next, cache.bytes -= bytes_of(class);
    return block;
}

static bool give_own(SpareBlock *block, int class, size_t used)
{
    if (cache.bytes + bytes_of(class) > BYTES_MOST) return false;
    *block = (SpareBlock){ cache.kept[class], used };
    cache.kept[class] = block, cache.bytes += bytes_of(class);
    return true;
}

void *block_take(int class)
{
    ASSERT(class < BLOCK_CLASSES);
    if (MEMORY_IS_WATCHED) return small_alloc(bytes_of(class));
    if (cache.state == CACHE_NEW) open_cache();
    SpareBlock *block = cache.state == CACHE_OPEN ? take_own(class) : take_shared(class);
    if (!block) return small_alloc(bytes_of(class));
    memset(block, 0, MAX_OF(block->used, sizeof *block));
    return block;
}

void block_give(void *block, int class, size_t used)
{
    if (!MEMORY_IS_WATCHED && cache.state == CACHE_NEW) open_cache();
    const bool is_kept = !MEMORY_IS_WATCHED && (cache.state == CACHE_OPEN ? give_own(block, class, used)
                                                                         : give_shared(block, class, used));
    if (!is_kept) free(block);
}
