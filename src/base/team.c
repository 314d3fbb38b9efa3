// team.c - one piece of work cut into parts, for the caller and for threads that have nothing else to do.
//
//     caller     run: part 0   part 2   part 4        returns once all parts are done
//     helper 1          part 1     part 3
//     helper 2    (busy elsewhere: takes none)
//
// The threads belong to the scans (engine/network.c), which call helpers_help when they are idle.  The caller takes
// parts itself until none is left.  So a run never waits for a helper to come.  At its end it waits for parts that
// helpers have begun.
// A part may begin a run of its own for the same reason.  Several runs may be open at a time: the newest is helped
// first, since others may wait for it.
//
// Refused: Pool.  It serves one run at a time, in turn, so a short query would wait for a long one.

#include <pthread.h>
#include <stdlib.h>

#include "base/base_int.h"

// ---- helpers --------------------------------------------------------------------------------------------------------

typedef struct PartRun PartRun;

struct PartRun {                       // on the stack of its caller
    void   (*work)(void *context, int part);
    void    *context;
    int      part_next, n_parts;
    int      n_helping, n_most;        // threads at work besides the caller's, and how many may be
    PartRun *older;
};

struct Helpers {
    pthread_mutex_t lock;                                   // guards all below
    pthread_cond_t  part_done;
    PartRun        *newest;
    _Atomic int     n_runs;                                 // changed with the lock held, read without
    void          (*wake)(void *context, int n_threads);
    void           *context;
};

Helpers *helpers_new(void (*wake)(void *context, int n_threads), void *context)
{
    Helpers *helpers = small_alloc(sizeof *helpers);
    ASSERT(wake);
    pthread_mutex_init(&helpers->lock, NULL);
    pthread_cond_init(&helpers->part_done, NULL);
    helpers->wake = wake, helpers->context = context;
    return helpers;
}

void helpers_free(Helpers *helpers)
{
    if (!helpers) return;
    ASSERT(!helpers->newest);
    pthread_cond_destroy(&helpers->part_done);
    pthread_mutex_destroy(&helpers->lock);
    free(helpers);
}

// Called and left with the lock held.
static void do_part(Helpers *helpers, PartRun *run)
{
    ASSERT(mutex_is_held(&helpers->lock) && run->part_next < run->n_parts);
    const int part = run->part_next++;
    pthread_mutex_unlock(&helpers->lock);
    run->work(run->context, part);
    pthread_mutex_lock(&helpers->lock);
}

static PartRun *find_run(const Helpers *helpers)
{
    PartRun *run = helpers->newest;
    ASSERT(mutex_is_held(&helpers->lock));
    while (run && (run->part_next >= run->n_parts || run->n_helping >= run->n_most)) run = run->older;
    return run;
}

bool helpers_are_wanted(Helpers *helpers)
{
    if (!atomic_load(&helpers->n_runs)) return false;
    pthread_mutex_lock(&helpers->lock);
    const bool is_wanted = find_run(helpers) != NULL;
    pthread_mutex_unlock(&helpers->lock);
    return is_wanted;
}

bool helpers_help(Helpers *helpers)
{
    if (!atomic_load(&helpers->n_runs)) return false;
    pthread_mutex_lock(&helpers->lock);
    PartRun *run = find_run(helpers);
    if (run) {
        run->n_helping++;
        do_part(helpers, run);
        if (--run->n_helping == 0) pthread_cond_broadcast(&helpers->part_done);
    }
    pthread_mutex_unlock(&helpers->lock);
    return run != NULL;
}

static void open_run(Helpers *helpers, PartRun *run)
{
    pthread_mutex_lock(&helpers->lock);
    run->older = helpers->newest;
    helpers->newest = run;
    atomic_fetch_add(&helpers->n_runs, 1);
    pthread_mutex_unlock(&helpers->lock);
}

static void close_run(Helpers *helpers, PartRun *run)
{
    PartRun **link = &helpers->newest;
    ASSERT(mutex_is_held(&helpers->lock) && run->part_next == run->n_parts && !run->n_helping);
    while (*link != run) link = &(*link)->older;
    *link = run->older;
    atomic_fetch_sub(&helpers->n_runs, 1);
}

void helpers_run(Helpers *helpers, int n_threads, int n_parts, void (*work)(void *context, int part), void *context)
{
    PartRun run = { .work = work, .context = context, .n_parts = n_parts, .n_most = MIN_OF(n_threads, n_parts) - 1 };
    if (!helpers || run.n_most < 1) {
        for (int part = 0; part < n_parts; part++) work(context, part);
        return;
    }
    open_run(helpers, &run);
    helpers->wake(helpers->context, run.n_most);
    pthread_mutex_lock(&helpers->lock);
    while (run.part_next < run.n_parts) do_part(helpers, &run);
    while (run.n_helping) pthread_cond_wait(&helpers->part_done, &helpers->lock);
    close_run(helpers, &run);
    pthread_mutex_unlock(&helpers->lock);
}

// ---- a team: the threads that a query may use, and the flag that stops it -------------------------------------------

#define SMALL_ROWS  ((u64)1 << 16)     // so few are done by one thread before another is awake
#define BLOCK_ROWS  4096               // between two looks at the stop flag
#define PARTS_EACH  4                  // for each thread: those that come late get some, too
#define PART_ROUND  64                 // parts begin at multiples of it: bits of rows in two parts share no word

bool team_is_stopped(const Team *team)
{
    return team->stop && atomic_load_explicit(team->stop, memory_order_relaxed);
}

RowParts team_split(const Team *team, u64 n_rows)
{
    const u64 n_parts = n_rows < SMALL_ROWS || team->n_threads <= 1 ? 1 : (u64)team->n_threads * PARTS_EACH;
    const u64 rows = MAX_OF(((n_rows + n_parts - 1) / n_parts + PART_ROUND - 1) / PART_ROUND * PART_ROUND, PART_ROUND);
    return (RowParts){ .n_rows = n_rows, .part_rows = rows, .n_parts = (int)MAX_OF((n_rows + rows - 1) / rows, 1) };
}

bool team_parts(const Team *team, int n_parts, void (*work)(void *context, int part), void *context)
{
    helpers_run(team->helpers, team->n_threads, n_parts, work, context);
    return !team_is_stopped(team);
}

typedef struct RowRun {
    const Team     *team;
    const RowParts *parts;
    void          (*work)(void *context, int part, u64 first, u64 end);
    void           *context;
} RowRun;

static void do_rows(void *context, int part)
{
    const RowRun *run = context;
    const u64     end = MIN_OF((u64)(part + 1) * run->parts->part_rows, run->parts->n_rows);
    for (u64 first = (u64)part * run->parts->part_rows; first < end; first += BLOCK_ROWS) {
        if (team_is_stopped(run->team)) return;
        run->work(run->context, part, first, MIN_OF(first + BLOCK_ROWS, end));
    }
}

bool team_rows(const Team *team, const RowParts *parts, void (*work)(void *context, int part, u64 first, u64 end),
               void *context)
{
    return team_parts(team, parts->n_parts, do_rows, &(RowRun){ team, parts, work, context });
}
