// blocks.c - the blocks that arenas are made of, kept by each thread for its next arena.
//
// A query makes and frees a dozen arenas, whose blocks double from 1 KiB to 256 KiB.  The C library's calloc looks for
// each of them in its bins, cuts and merges them, and clears all of a block, of which half is used.  Here a thread
// keeps what it frees, by size, and clears what was used when the block is used again:
//
//     kept[0]: 1 KiB ─> 1 KiB      kept[1]: 2 KiB ─> 2 KiB      ...      kept[8]: 256 KiB
//
// No lock: a block that another thread made is kept by the thread that frees it.  A thread keeps 512 KiB at most, and
// 64 threads keep any; a thread that ends gives back what it has.  Under a sanitizer nothing is kept, so that a use
// after the end of an arena is seen.

#include <pthread.h>
#include <stdlib.h>

#include "base/base_int.h"

enum { THREADS_MOST = 64, BYTES_MOST = 512 << 10 };

typedef struct SpareBlock { struct SpareBlock *next; size_t used; } SpareBlock;   // at the beginning of what is kept

typedef struct BlockCache {
    enum { CACHE_NEW, CACHE_OPEN, CACHE_NONE } state;
    size_t     bytes;
    SpareBlock *kept[BLOCK_CLASSES];
} BlockCache;

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

static void set_up(void) { has_key = pthread_key_create(&at_exit_of_thread, give_back) == 0; }

static void open_cache(void)
{
    cache.state = CACHE_NONE;
    pthread_once(&once, set_up);
    if (MEMORY_IS_WATCHED || !has_key) return;
    if (atomic_fetch_add(&n_threads, 1) < THREADS_MOST && pthread_setspecific(at_exit_of_thread, &cache) == 0)
        cache.state = CACHE_OPEN;
    else atomic_fetch_sub(&n_threads, 1);
}

static size_t bytes_of(int class) { return (size_t)BLOCK_LEAST << class; }

void *block_take(int class)
{
    SpareBlock *block = cache.kept[class];
    ASSERT(class < BLOCK_CLASSES);
    if (!block) return small_alloc(bytes_of(class));
    cache.kept[class] = block->next;
    cache.bytes -= bytes_of(class);
    memset(block, 0, MAX_OF(block->used, sizeof *block));
    return block;
}

void block_give(void *memory, int class, size_t used)
{
    SpareBlock *block = memory;
    if (cache.state == CACHE_NEW) open_cache();
    if (cache.state == CACHE_NONE || cache.bytes + bytes_of(class) > BYTES_MOST) {
        free(memory);
        return;
    }
    *block = (SpareBlock){ cache.kept[class], used };
    cache.kept[class] = block;
    cache.bytes += bytes_of(class);
}
