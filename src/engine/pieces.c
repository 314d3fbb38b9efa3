// pieces.c - see pieces.h.

#include "engine/pieces.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef enum PieceState { PIECE_MAKING, PIECE_READY, PIECE_FAILED } PieceState;

struct Piece {
    char         *signature;
    Arena        *arena;
    void         *value;
    PieceState    state;
    int           n_users;             // who hold it or wait for it
    bool          is_listed;
    int           n_notices;
    const char  **notices;             // in its arena
    struct Piece *next;
};

struct Pieces {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    Piece          *first;
    _Atomic u64     n_shared;
    _Atomic int     n_live;
};

#define WAKE_MS 20                     // a waiting query looks at its stop flag at least this often

Pieces *pieces_new(void)
{
    Pieces *pieces = calloc(1, sizeof *pieces);
    pthread_mutex_init(&pieces->lock, NULL);
    pthread_cond_init(&pieces->changed, NULL);
    return pieces;
}

void pieces_free(Pieces *pieces)
{
    if (!pieces) return;
    pthread_mutex_destroy(&pieces->lock);
    pthread_cond_destroy(&pieces->changed);
    free(pieces);
}

static void unlist(Pieces *pieces, Piece *piece)
{
    Piece **link = &pieces->first;
    if (!piece->is_listed) return;
    while (*link != piece) link = &(*link)->next;
    *link = piece->next;
    piece->is_listed = false;
}

static Piece *find(const Pieces *pieces, const char *signature)
{
    Piece *piece = pieces->first;
    while (piece && strcmp(piece->signature, signature) != 0) piece = piece->next;
    return piece;
}

static Piece *list_new(Pieces *pieces, const char *signature)
{
    Piece *piece = calloc(1, sizeof *piece);
    *piece = (Piece){ .signature = strdup(signature),
                      .arena = arena_new(NULL, "shared piece"),
                      .state = PIECE_MAKING,
                      .n_users = 1,
                      .is_listed = true,
                      .next = pieces->first };
    pieces->first = piece;
    atomic_fetch_add(&pieces->n_live, 1);
    return piece;
}

// Called with the lock held; frees outside of it.
static void drop_use(Pieces *pieces, Piece *piece)
{
    if (--piece->n_users > 0) return;
    unlist(pieces, piece);
    atomic_fetch_sub(&pieces->n_live, 1);
    pthread_mutex_unlock(&pieces->lock);
    arena_free(piece->arena);
    free(piece->signature);
    free(piece);
    pthread_mutex_lock(&pieces->lock);
}

static void wait_a_little(Pieces *pieces)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAKE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&pieces->changed, &pieces->lock, &until);
}

weft_status pieces_get(Pieces *pieces, const char *signature, const _Atomic u32 *stop, Piece **out, bool *must_make,
                       Error *err)
{
    weft_status status = WEFT_OK;
    *out = NULL, *must_make = false;
    pthread_mutex_lock(&pieces->lock);
    while (!*out && !status) {
        Piece *piece = find(pieces, signature);
        if (!piece) {
            *out = list_new(pieces, signature);
            *must_make = true;
            break;
        }
        piece->n_users++;
        while (piece->state == PIECE_MAKING && !atomic_load(stop)) wait_a_little(pieces);
        if (piece->state == PIECE_READY) {
            atomic_fetch_add(&pieces->n_shared, 1);
            *out = piece;
            break;
        }
        if (atomic_load(stop)) status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        drop_use(pieces, piece);       // it failed: look again, perhaps to make it
    }
    pthread_mutex_unlock(&pieces->lock);
    return status;
}

void piece_made(Pieces *pieces, Piece *piece, void *value, bool ok, bool keep)
{
    pthread_mutex_lock(&pieces->lock);
    piece->value = value;
    piece->state = ok ? PIECE_READY : PIECE_FAILED;
    if (!ok || !keep) unlist(pieces, piece);
    pthread_cond_broadcast(&pieces->changed);
    pthread_mutex_unlock(&pieces->lock);
}

void piece_add_notice(Piece *piece, const char *notice)
{
    *LIST_PUSH(piece->arena, piece->notices, piece->n_notices) = arena_strdup(piece->arena, notice);
}

int         piece_notices(const Piece *piece) { return piece->n_notices; }
const char *piece_notice(const Piece *piece, int n) { return piece->notices[n]; }

Arena *piece_arena(Piece *piece) { return piece->arena; }
void  *piece_value(const Piece *piece) { return piece->value; }

void piece_release(Pieces *pieces, Piece *piece)
{
    if (!piece) return;
    pthread_mutex_lock(&pieces->lock);
    drop_use(pieces, piece);
    pthread_mutex_unlock(&pieces->lock);
}

u64 pieces_shared(const Pieces *pieces) { return atomic_load(&pieces->n_shared); }
int pieces_count(const Pieces *pieces) { return atomic_load(&pieces->n_live); }
