// ahead.c - columns of files are read, and checked, before a scan waits for them.
//
// A thread that touches a mapped file waits for each piece that is not in memory, and the system reads little beyond
// it, or, where its own reading ahead is set to megabytes, what is not needed: sixteen threads that scanned so got an
// eighth of what the disk gives (0.42 of 3.3 GB/s on a virtual disk).  Threads of ours ask for whole columns instead,
// several at a time, since asking is itself work: the system makes room for the pages meanwhile.  A column that was not
// checked against its checksum yet is, so that the scan finds it done.

#include "store/store_int.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_MOST 8
#define ITEMS_MOST   4096              // further columns are read by the scan itself
#define RECENT_MOST  4096              // columns that were requested last,
#define RECENT_MS    1000              // and are not requested again for so long

typedef struct AheadItem { const Chunk *chunk; int column; } AheadItem;  // the chunk is held

typedef struct Queue { AheadItem *items; u64 first, n; } Queue;        // a ring

typedef struct RecentAsk { const void *data; double at_ms; } RecentAsk;

struct Ahead {
    u64             page;
    pthread_mutex_t lock;              // for all below
    pthread_cond_t  wanted;
    pthread_t       threads[THREADS_MOST];
    int             n_threads;
    bool            is_started, is_closing;
    Queue           to_read, to_check; // read first, checked later: first all reads are under way
    RecentAsk       recent[RECENT_MOST];
};

Ahead *ahead_new(void)
{
    Ahead *ahead = calloc(1, sizeof *ahead);
    ahead->page = (u64)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->wanted, NULL);
    return ahead;
}

// ---- what its threads do -------------------------------------------------------------------------------------------

// By three of its pages: the system takes pages away in the order of their use, and those of a column were used
// together.
static bool is_in_memory(const Ahead *ahead, const AheadItem *item)
{
    const u8 *data = item->chunk->columns[item->column].data, *first = data - (uintptr_t)data % ahead->page;
    u64 n_pages = ((u64)(data - first) + chunk_column_bytes(item->chunk, item->column) + ahead->page - 1) / ahead->page;
    const u64 looked_at[] = { 0, n_pages / 2, n_pages - 1 };
    unsigned char here;
    for (int i = 0; i < COUNT_OF(looked_at); i++)
        if (mincore((void *)(uintptr_t)(first + looked_at[i] * ahead->page), ahead->page, &here) == 0 && !(here & 1))
            return false;
    return true;
}

static bool push(Queue *queue, AheadItem item)
{
    ASSERT(queue->items && queue->n <= ITEMS_MOST);
    if (queue->n == ITEMS_MOST)
        return false;
    queue->items[(queue->first + queue->n++) % ITEMS_MOST] = item;
    return true;
}

static bool pop(Queue *queue, AheadItem *item)
{
    if (!queue->n)
        return false;
    queue->n--;
    *item = queue->items[queue->first++ % ITEMS_MOST];
    return true;
}

// True: the item was handed on.
static bool read_item(Ahead *ahead, const AheadItem *item)
{
    const StoredChunk *stored = chunk_stored(item->chunk);
    const u8 *data = item->chunk->columns[item->column].data;
    bool is_verified = chunk_is_verified(item->chunk, item->column);
    if (is_verified && is_in_memory(ahead, item))
        return false;
    pthread_cond_signal(&ahead->wanted);                    // only now: data in memory needs no other thread
    file_ask(&stored->mapping, (u64)(data - stored->mapping.bytes), chunk_column_bytes(item->chunk, item->column));
    if (is_verified)
        return false;
    pthread_mutex_lock(&ahead->lock);
    bool is_handed_on = push(&ahead->to_check, *item);
    pthread_mutex_unlock(&ahead->lock);
    return is_handed_on;
}

static void *work(void *context)
{
    Ahead *ahead = context;
    pthread_mutex_lock(&ahead->lock);
    while (!ahead->is_closing) {
        AheadItem item;
        bool is_new = pop(&ahead->to_read, &item);
        if (!is_new && !pop(&ahead->to_check, &item)) {
            pthread_cond_wait(&ahead->wanted, &ahead->lock);
            continue;
        }
        pthread_mutex_unlock(&ahead->lock);
        if (!is_new)
            chunk_verify_asked(item.chunk, item.column);    // damage is reported to the query that uses it
        if (!is_new || !read_item(ahead, &item))
            chunk_release(item.chunk);
        pthread_mutex_lock(&ahead->lock);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

// ---- asking --------------------------------------------------------------------------------------------------------

// With the lock held.  Threads that the system refuses are not missed: then there are fewer, or scans read for
// themselves.
static void start_threads(Ahead *ahead)
{
    ASSERT(mutex_is_held(&ahead->lock) && !ahead->is_started);
    const int n_wanted = MIN_OF(MAX_OF(cpu_count(), 2), THREADS_MOST);
    ahead->is_started = true;
    ahead->to_read.items = malloc(ITEMS_MOST * sizeof(AheadItem));
    ahead->to_check.items = malloc(ITEMS_MOST * sizeof(AheadItem));
    while (ahead->to_read.items && ahead->to_check.items && ahead->n_threads < n_wanted &&
           thread_start(&ahead->threads[ahead->n_threads], NULL, work, ahead) == 0)
        ahead->n_threads++;
}

// True for the first of several requests within RECENT_MS.
static bool is_new_ask(Ahead *ahead, const void *data)
{
    ASSERT(mutex_is_held(&ahead->lock));
    const double now_ms = time_now_ms();
    RecentAsk *ask = &ahead->recent[((uintptr_t)data >> 6) * 0x9e3779b97f4a7c15u >> 52];
    if (ask->data == data && now_ms - ask->at_ms < RECENT_MS)
        return false;
    *ask = (RecentAsk){ data, now_ms };
    return true;
}

void ahead_ask(Ahead *ahead, const Chunk *chunk, int column)
{
    const StoredChunk *stored = chunk_stored(chunk);
    ASSERT(column >= 0 && column < stored->n_columns);
    if (stored->memory || !stored->mapping.bytes)
        return;
    pthread_mutex_lock(&ahead->lock);
    if (!ahead->is_started)
        start_threads(ahead);
    if (ahead->n_threads && ahead->to_read.n < ITEMS_MOST && is_new_ask(ahead, chunk->columns[column].data)) {
        push(&ahead->to_read, (AheadItem){ chunk_hold(chunk), column });
        // One recent; it wakes the next when there is something to read.
        if (ahead->to_read.n == 1)
            pthread_cond_signal(&ahead->wanted);
    }
    pthread_mutex_unlock(&ahead->lock);
}

static void drop_all(Queue *queue)
{
    for (AheadItem item; pop(queue, &item);)
        chunk_release(item.chunk);
    free(queue->items);
}

void ahead_free(Ahead *ahead)
{
    if (!ahead)
        return;
    pthread_mutex_lock(&ahead->lock);
    ahead->is_closing = true;
    pthread_cond_broadcast(&ahead->wanted);
    pthread_mutex_unlock(&ahead->lock);
    for (int t = 0; t < ahead->n_threads; t++)
        pthread_join(ahead->threads[t], NULL);
    drop_all(&ahead->to_read);
    drop_all(&ahead->to_check);
    pthread_cond_destroy(&ahead->wanted);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead);
}
