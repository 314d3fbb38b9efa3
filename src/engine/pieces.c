// pieces.c - see pieces.h.
//
// Thousands of queries may look for pieces and wait for them: they are found by a hash of their signature, and each has
// a condition of its own, so one that is made wakes only the queries that wait for it.

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
    u64           hash;                // of the signature
    pthread_cond_t changed;            // it was made, or a query that waits for it is to stop
    struct Piece *next, **link;        // in its bucket
    double        share;               // of the room for pieces that stay; 0: it does not
    u64           n_trims;             // when it was listed
    struct Piece *newer, *older;       // of those that stay
};

// A query that waits, on its own stack.
typedef struct PieceWait { Piece *piece; const _Atomic u32 *stop; struct PieceWait *next, **link; } PieceWait;

enum { N_BUCKETS = 8192 };              // twice as many as pieces that stay

struct Pieces {
    pthread_mutex_t lock;
    Piece          *buckets[N_BUCKETS];
    PieceWait      *waits;
    int             n_waits;
    _Atomic u64     n_shared;
    _Atomic int     n_live;
    Piece          *newest, *oldest;   // that stay though no query uses them
    int             n_kept;
    double          share;             // of the room, that these take
    u64             n_trims;           // a table may have changed each time
};

#define WAKE_MS    20                  // a waiting query looks at its stop flag now and then,
#define WAKE_SHARE 16                  // as many queries as this within WAKE_MS; pieces_wake does not wait for it
#define KEPT_MOST  4096                // pieces that stay

Pieces *pieces_new(void)
{
    Pieces *pieces = calloc(1, sizeof *pieces);
    pthread_mutex_init(&pieces->lock, NULL);
    return pieces;
}

void pieces_free(Pieces *pieces)
{
    if (!pieces) return;
    pieces_trim(pieces);
    pthread_mutex_destroy(&pieces->lock);
    free(pieces);
}

static void unlist(Piece *piece)
{
    if (!piece->is_listed) return;
    *piece->link = piece->next;
    if (piece->next) piece->next->link = piece->link;
    piece->is_listed = false;
}

static Piece *find(const Pieces *pieces, const char *signature, u64 hash)
{
    Piece *piece = pieces->buckets[hash % N_BUCKETS];
    while (piece && (piece->hash != hash || strcmp(piece->signature, signature) != 0)) piece = piece->next;
    return piece;
}

static Piece *list_new(Pieces *pieces, const char *signature, u64 hash)
{
    Piece  *piece = calloc(1, sizeof *piece);
    Piece **bucket = &pieces->buckets[hash % N_BUCKETS];
    *piece = (Piece){ .signature = strdup(signature),
                      .arena = arena_new(NULL, "shared piece"),
                      .state = PIECE_MAKING,
                      .n_users = 1,
                      .is_listed = true,
                      .n_trims = pieces->n_trims,
                      .hash = hash,
                      .next = *bucket,
                      .link = bucket };
    pthread_cond_init(&piece->changed, NULL);
    if (piece->next) piece->next->link = &piece->next;
    *bucket = piece;
    atomic_fetch_add(&pieces->n_live, 1);
    return piece;
}

// ---- pieces that stay -----------------------------------------------------------------------------------------------

static void keep_newest(Pieces *pieces, Piece *piece)
{
    piece->older = pieces->newest, piece->newer = NULL;
    if (piece->older) piece->older->newer = piece;
    else pieces->oldest = piece;
    pieces->newest = piece;
    pieces->n_kept++, pieces->share += piece->share;
}

static void keep_no_more(Pieces *pieces, Piece *piece)
{
    if (piece->newer) piece->newer->older = piece->older;
    else pieces->newest = piece->older;
    if (piece->older) piece->older->newer = piece->newer;
    else pieces->oldest = piece->newer;
    pieces->n_kept--, pieces->share = pieces->n_kept ? pieces->share - piece->share : 0;
}

static void free_piece(Piece *piece)
{
    arena_free(piece->arena);
    pthread_cond_destroy(&piece->changed);
    free(piece->signature);
    free(piece);
}

// Pieces that are to be freed, in a list by next: without the lock, since a device may have to wait.
static void free_list(Piece *piece)
{
    for (Piece *next; piece; piece = next) {
        next = piece->next;
        free_piece(piece);
    }
}

static void leave_oldest(Pieces *pieces, Piece **list)
{
    Piece *piece = pieces->oldest;
    keep_no_more(pieces, piece);
    unlist(piece);
    piece->next = *list;
    *list = piece;
}

void pieces_trim(Pieces *pieces)
{
    Piece *list = NULL;
    pthread_mutex_lock(&pieces->lock);
    pieces->n_trims++;
    while (pieces->oldest) leave_oldest(pieces, &list);
    pthread_mutex_unlock(&pieces->lock);
    free_list(list);
}

void piece_keep(Piece *piece, double share) { piece->share = MAX_OF(share, 1.0 / KEPT_MOST); }

// ---- users ----------------------------------------------------------------------------------------------------------

static void add_use(Pieces *pieces, Piece *piece)
{
    if (piece->n_users++ > 0) return;
    keep_no_more(pieces, piece);
    atomic_fetch_add(&pieces->n_live, 1);
}

// It was made since the last change of a table, as far as is known.
static bool may_stay(const Pieces *pieces, const Piece *piece)
{
    return piece->state == PIECE_READY && piece->is_listed && piece->share > 0 && piece->share <= 1 &&
           piece->n_trims == pieces->n_trims;
}

// Called with the lock held; frees outside of it.
static void drop_use(Pieces *pieces, Piece *piece)
{
    Piece *list = NULL;
    if (--piece->n_users > 0) return;
    atomic_fetch_sub(&pieces->n_live, 1);
    if (may_stay(pieces, piece)) {
        keep_newest(pieces, piece);
        while (pieces->share > 1) leave_oldest(pieces, &list);
    } else {
        unlist(piece);
        piece->next = NULL;
        list = piece;
    }
    pthread_mutex_unlock(&pieces->lock);
    free_list(list);
    pthread_mutex_lock(&pieces->lock);
}

static void wait_a_little(Pieces *pieces, Piece *piece)
{
    struct timespec until;
    const i64       wait_ns = (i64)WAKE_MS * 1000000 * (1 + pieces->n_waits / WAKE_SHARE);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ns / 1000000000, until.tv_nsec += wait_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&piece->changed, &pieces->lock, &until);
}

// Until it is made or the query is to stop.
static void wait_for(Pieces *pieces, Piece *piece, const _Atomic u32 *stop)
{
    if (piece->state != PIECE_MAKING) return;
    PieceWait wait = { .piece = piece, .stop = stop, .next = pieces->waits, .link = &pieces->waits };
    if (wait.next) wait.next->link = &wait.next;
    // cppcheck-suppress autoVariables ; it is taken out below
    pieces->waits = &wait;
    pieces->n_waits++;
    while (piece->state == PIECE_MAKING && !atomic_load(stop)) wait_a_little(pieces, piece);
    *wait.link = wait.next;
    if (wait.next) wait.next->link = wait.link;
    pieces->n_waits--;
}

void pieces_wake(Pieces *pieces, const _Atomic u32 *stop)
{
    pthread_mutex_lock(&pieces->lock);
    for (PieceWait *wait = pieces->waits; wait; wait = wait->next)
        if (wait->stop == stop) pthread_cond_broadcast(&wait->piece->changed);
    pthread_mutex_unlock(&pieces->lock);
}

weft_status pieces_get(Pieces *pieces, const char *signature, const _Atomic u32 *stop, Piece **out, bool *must_make,
                       Error *err)
{
    weft_status status = WEFT_OK;
    const u64   hash = hash_bytes(signature, strlen(signature));
    *out = NULL, *must_make = false;
    pthread_mutex_lock(&pieces->lock);
    while (!*out && !status) {
        Piece *piece = find(pieces, signature, hash);
        if (!piece) {
            *out = list_new(pieces, signature, hash);
            *must_make = true;
            break;
        }
        add_use(pieces, piece);
        wait_for(pieces, piece, stop);
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
    if (!ok || !keep) unlist(piece);
    pthread_cond_broadcast(&piece->changed);
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

int pieces_kept(Pieces *pieces)
{
    pthread_mutex_lock(&pieces->lock);
    const int n = pieces->n_kept;
    pthread_mutex_unlock(&pieces->lock);
    return n;
}
