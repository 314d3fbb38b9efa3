// ahead.c - columns of files read into memory before somebody waits for them.
//
// A thread that touches a mapped file waits for each piece that is not in memory, and the kernel reads little beyond it: eight threads that
// scan so got a fifth of what the disk gives (0.6 of 3.3 GB/s on a virtual disk).  Threads of ours ask the kernel for whole columns instead.  Asking is itself
// work, since the kernel makes room for the pages meanwhile: one thread that asks is not enough either.
//
// What is asked for is addresses, not chunks.  When their chunk is gone the kernel says so, or asks for what is there now: a waste, no harm.

#include "store/store_int.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_MOST 8
#define PIECE_BYTES  ((u64)256 << 10)
#define PIECES_MOST  16384             // 4 GiB: who asks for more has to read it himself
#define LOOKS        4096              // columns that were asked for last,
#define LOOK_MS      1000              // and are not looked at again for so long

typedef struct Piece {                 // of a column, or all of it
    u8  *first;                        // begin of a page
    u64  bytes;
    bool is_missing;                   // false: maybe it is in memory
} Piece;

typedef struct Look { const void *data; double at_ms; } Look;

struct Ahead {
    u64             page;
    pthread_mutex_t lock;              // for all below
    pthread_cond_t  wanted;
    pthread_t       threads[THREADS_MOST];
    int             n_threads;
    bool            is_closing;
    u64             first, n_pieces;   // in the ring
    Piece          *pieces;            // NULL: nobody has asked yet
    Look            looks[LOOKS];
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

// By three of its pages: the system takes pages away in the order of their use, and those of a column were used together.
static bool is_in_memory(const Ahead *ahead, const Piece *piece)
{
    const u64 n_pages = (piece->bytes + ahead->page - 1) / ahead->page, looked_at[] = { 0, n_pages / 2, n_pages - 1 };
    unsigned char here;
    for (int i = 0; i < COUNT_OF(looked_at); i++)
        if (mincore(piece->first + looked_at[i] * ahead->page, ahead->page, &here) == 0 && !(here & 1))
            return false;
    return true;
}

static void push_piece(Ahead *ahead, Piece piece)
{
    if (ahead->n_pieces < PIECES_MOST)
        ahead->pieces[(ahead->first + ahead->n_pieces++) % PIECES_MOST] = piece;
}

static void cut_up(Ahead *ahead, const Piece *column)
{
    pthread_mutex_lock(&ahead->lock);
    for (u64 at = 0; at < column->bytes; at += PIECE_BYTES)
        push_piece(ahead, (Piece){ column->first + at, MIN_OF(PIECE_BYTES, column->bytes - at), true });
    pthread_cond_broadcast(&ahead->wanted);
    pthread_mutex_unlock(&ahead->lock);
}

static void do_piece(Ahead *ahead, const Piece *piece)
{
    if (piece->is_missing)
        (void)madvise(piece->first, piece->bytes, MADV_WILLNEED);
    else if (!is_in_memory(ahead, piece))
        cut_up(ahead, piece);
}

static void *ask_kernel(void *context)
{
    Ahead *ahead = context;
    pthread_mutex_lock(&ahead->lock);
    while (!ahead->is_closing) {
        if (!ahead->n_pieces) {
            pthread_cond_wait(&ahead->wanted, &ahead->lock);
            continue;
        }
        Piece piece = ahead->pieces[ahead->first++ % PIECES_MOST];
        ahead->n_pieces--;
        pthread_mutex_unlock(&ahead->lock);
        do_piece(ahead, &piece);
        pthread_mutex_lock(&ahead->lock);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

// ---- asking --------------------------------------------------------------------------------------------------------

// With the lock held.  Threads that the system refuses are not missed: then there are fewer, or scans read for themselves.
static void start_threads(Ahead *ahead)
{
    const int n_wanted = MIN_OF(MAX_OF(cpu_count(), 2), THREADS_MOST);
    ahead->pieces = malloc(PIECES_MOST * sizeof *ahead->pieces);
    while (ahead->pieces && ahead->n_threads < n_wanted &&
           thread_start(&ahead->threads[ahead->n_threads], NULL, ask_kernel, ahead) == 0)
        ahead->n_threads++;
}

// True for the first who looks, for a while.
static bool begin_look(Ahead *ahead, const void *data)
{
    const double now_ms = time_now_ms();
    Look *look = &ahead->looks[((uintptr_t)data >> 6) * 0x9e3779b97f4a7c15u >> 52];
    if (look->data == data && now_ms - look->at_ms < LOOK_MS)
        return false;
    *look = (Look){ data, now_ms };
    return true;
}

void ahead_ask(Ahead *ahead, const Chunk *chunk, int column)
{
    const StoredChunk *stored = chunk_stored(chunk);
    const u8 *data = chunk->columns[column].data;
    const u64 before = (uintptr_t)data % ahead->page;
    if (stored->memory || !stored->mapping.bytes)
        return;
    pthread_mutex_lock(&ahead->lock);
    if (begin_look(ahead, data)) {
        if (!ahead->pieces)
            start_threads(ahead);
        if (ahead->n_threads)
            push_piece(ahead, (Piece){ (u8 *)(uintptr_t)data - before, before + chunk_column_bytes(chunk, column), false });
        pthread_cond_signal(&ahead->wanted);
    }
    pthread_mutex_unlock(&ahead->lock);
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
    pthread_cond_destroy(&ahead->wanted);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead->pieces);
    free(ahead);
}
