// network.c - shared circular scans: which thread pushes which rows when.
//
//     table lineorder   [0][1][2][3][4][5]
//                             ^ cursor      riders q7 (wants 2 3 4 5 0 1), q9 (got on at 3; wants 3 4 5 0 1 2)
//
// Threads: as many as the machine has cores may push at a time (slots).  The thread of a query that is alone on its
// scan pushes, too, as
// long as a slot is free and nobody else's turn has come, so it needs no hand-over: its own thread does the work, and
// sleeping threads join
// when there is more than one slice.  The lock is held to take and to give back a slice, never while rows are pushed.
//
// How the riders of a chunk are served together is decided when it is opened (seats.h), outside of the lock: a query
// never waits for being
// woven with others, it is from the next chunk on.
//
// Which scan next: the one whose rider has the fewest rows to its end (a dimension table, a short query), so that small
// queries are not stuck behind large ones; every eighth turn the one that waited longest, so that none starves.
// Riders of one scan have one priority: rows that go through a crowd would cost an important query as much as all.
//
// Which chunk next: one that the rider with the fewest rows left wants, from where the scan is on; every fourth one
// that the rider wants who got
// none for longest.  Riders do not care in which order they get theirs.  A query that statistics confine to a small
// part of the table, less
// than OWN_SHARE of it and little work, has a scan of its own: what it would share is little, what it would wait is
// much.
//
// How much at a time: slices are cut so that pushing one takes no longer than SLICE_NS for all riders together, by what
// each rider's rows
// took before; a rider that is new gets a short slice first.  So nobody is kept from leaving by a rider that is slow.
//
// Each cube has slices of its own (Strand), as long as SLICE_NS lets them be, and a thread stays with a cube while it
// has rows.  A cube's tables take up most of the L2 cache: with short slices that went through all cubes in turn, each
// of them found the tables of the others there.  Riders outside of cubes go on sharing short slices.
//
// A crowd is waited for: see gathers_until.
//
// Invariants: a rider is in at most the tasks counted by n_tasks, and leaves the network only when that is 0.  A rider
// is on
// each chunk once, but a chunk may be open twice, for other riders.  A rider whose stop flag is set wants nothing any
// more, and leaves its open tasks at once, through its gates.

#include "engine/network.h"
#include "engine/seats.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_ROWS  (32 * TILE)        // alone: few calls
#define SLICE_SHARED (8 * TILE)        // several riders side by side: what one loads the next finds in the cache
#define SLICE_WOVEN (16 * TILE)        // sieved together: lists long enough to be worth a kernel call
#define SLICE_FIRST 256                // with a rider whose cost per row is not known
#define SLICE_WORTH 64                 // rows for each rider, where SLICE_NS would give fewer,
#define SLICE_MOST_LEAST (8 * TILE)    // up to so many
#define SLICE_LEAST 64                 // slices begin at multiples of it: a word of a NULL bitmap
#define MOST_OPEN   8                  // chunks of a scan,
#define OPEN_SHARE  2                  // and of those that it has 1 / this;
#define CROWD       32                 // with more riders, one at a time,
#define PATIENCE_MS 50                 // unless it takes longer than this,
#define PATIENCE_CHUNKS 2              // and than so many before it,
#define PATIENCE_MOST_MS 200           // or than this
#define GATHERED(n) ((n) - (n) / 8)    // of a crowd of n: not worth waiting for the others
#define WAIT_LEAST_MS 0.05
#define GATHER_MOST_MS 100             // a chunk may take long for one rider's sake
#define GAP_LEAST_MS 2                 // the last slices of a chunk take about as long
#define GAP_SHARE   (1 / 8.0)          // of a chunk's time: when none came or went for so long, no more are waited for
#define HERE_ROWS   32768              // of a build: fewer are pushed by the query's own thread
#define AHEAD_BYTES  ((u64)128 << 20)  // of a query's columns, where they are on disk,
#define AHEAD_STEP   4                 // chunks more each time
#define AHEAD_LEAST  ((u64)64 << 10)   // of a chunk: less comes with one page of it
#define OWN_SHARE   0.25
#define OWN_ROWS    (4 << 20)          // about a millisecond
#define SLICE_NS    1e6                // a new small query waits about so long for a thread
#define WAKE_MS     20                 // a waiting query looks at its stop flag now and then,
#define WAKE_SHARE  16                 // as many riders of a scan as this within WAKE_MS

typedef struct Scan Scan;

typedef struct Rider {
    Launch         *launch;
    Scan           *scan;
    bool            is_shared;         // its scan
    struct Rider   *next, **link;      // in its scan
    bool           *wants;             // by chunk of its source
    bool           *asked;             // to be read ahead, by chunk; NULL: there is nothing to read
    int             ask_at, n_unseen;  // next chunk to ask for, and how many are left to look at
    u64             bytes_ahead;       // asked for, and not got on yet
    int             n_wanted;
    u64             rows_left;         // in chunks that are not open for it yet
    u64             rows_open;         // in open ones
    int             n_tasks;           // open tasks it is in
    int             n_chunks;          // wanted at first
    u64             number;            // of the ride
    bool            suits;             // has sieves that are worth it
    bool            suits_cube;
    const FuseSteps *steps;            // NULL: not to be fused
    const CubeForm  *form;             // NULL: not for cubes over joins
    const ShareFacts *facts;           // NULL: not to be served with others
    u64             shape;             // see choose.h
    double          start_ms;          // when it got on
    u64             served;            // number of the opening at which it last got a chunk
    WovenAs         woven_as;          // at the newest chunk
    unsigned        woven_ways;        // at any: a bit for each
    bool            was_join_cubed;    // at any
    int             n_woven;
    double          gain;
    BodyFigures     body;
    _Atomic u32     row_ps;            // picoseconds that a row took last time; 0: not known
    bool            is_done;
    pthread_cond_t  done;
} Rider;

// What takes slices by itself: a cube, or all riders outside of cubes together.
typedef struct Strand {
    u32         next_row;
    int         n_pushing;             // threads that hold a slice of it, or add up its cells
    _Atomic u32 row_ps;                // of a cube: picoseconds that a row took; 0: not known
} Strand;

typedef struct Task {                  // an open chunk
    Scan        *scan;
    const Chunk *chunk;
    Seating      seating;
    int          n_strands;
    Strand      *strands;              // by cube; behind them that of riders outside of cubes, if there are any
    Gate        *gates;                // by seat; where one is shut, the rider may be gone
    double       open_ms;              // when it was opened
    struct Task *next;                 // in its scan
} Task;

struct Scan {
    u64          table;                // id; 0 for a scan of its own
    bool         is_shared;
    int          priority;             // of all its riders
    int          max_threads, n_pushing;
    int          cursor;               // chunk to look at next, in the order of the newest rider's source
    u64          n_opened, n_slices;   // so far
    u64          waited_since;         // turn at which a slice was last taken
    Rider       *riders;
    int          n_riders;
    int          n_wanting;            // riders that want chunks which are not open for them yet
    int          n_crowd;              // riders that the newest chunk was opened for
    double       stirred_ms;           // when a rider last got on or off
    double       closed_ms, chunk_ms;  // when a chunk was last done, or its last slice was taken; how long one was open
    u64          least_rows;           // to the end of the rider that has fewest, as of the newest chunk
    Task        *tasks;                // open, the newest first
    bool         is_opening;           // a thread is making the sieves of the next chunk
    bool         has_newcomers;        // false: there is none that got nothing yet
    Kept         kept;                 // only touched while opening
    struct Scan *next;
};

// What a slot pushed last.  Only compared: the task may be gone.
typedef struct Habit { const Task *task; int strand; } Habit;

typedef struct Tally { u64 table; ScanFigures figures; char name[64]; } Tally;

struct Network {
    Device          device;            // first: the CPU as the engine sees it
    Device         *cpu;               // whose functions it pushes with
    pthread_mutex_t lock;
    pthread_cond_t  has_work;
    int             n_slots;
    bool           *slot_taken;
    int             n_free, n_idle;    // slots; threads of ours asleep
    u64             turn;
    Scan           *scans;
    bool            is_closing;
    int             n_threads;
    pthread_t      *threads;
    Tally          *tallies;
    int             n_tallies;
    u64             n_rides;
    void          **scratch;           // by slot
    Habit          *habits;            // by slot
    Ahead          *ahead;
    Helpers        *helpers;           // its idle threads, for parts of anybody's work
};

// ---- opening chunks -------------------------------------------------------------------------------------------------

static bool is_stopped(const Rider *rider)
{
    const Launch *launch = rider->launch;
    return atomic_load_explicit(launch->stop, memory_order_relaxed) ||
           launch->device->is_enough(launch->device, launch);
}

static void want_nothing(Rider *rider)
{
    memset(rider->wants, 0, (size_t)rider->launch->source->n_chunks * sizeof(bool));
    rider->scan->n_wanting -= rider->n_wanted > 0;
    rider->n_wanted = 0;
    rider->rows_left = 0;
}

static void finish_if_done(Rider *rider)
{
    if (rider->is_done || rider->n_tasks || rider->n_wanted) return;
    rider->is_done = true;
    pthread_cond_signal(&rider->done);
}

// Snapshots of one table mostly agree on where a chunk is; where they do not, it is found by its address.
static int chunk_number(const Rider *rider, const Chunk *chunk, int hint)
{
    const Source *source = rider->launch->source;
    if (hint < source->n_chunks && source->chunks[hint] == chunk) return hint;
    for (int c = 0; c < source->n_chunks; c++)
        if (source->chunks[c] == chunk) return c;
    return -1;
}

// The next wanted chunk from the cursor on, in the order of RIDER's source.
static int next_wanted(const Rider *rider, int cursor)
{
    const int n_chunks = rider->launch->source->n_chunks;
    for (int i = 0; i < n_chunks; i++) {
        const int c = (cursor + i) % n_chunks;
        if (rider->wants[c]) return c;
    }
    return -1;
}

static void take_seat(Task *task, Rider *rider, int chunk)
{
    Launch           *launch = rider->launch;
    const SieveMember member = { launch->device, launch, rider->number, rider->facts, rider->steps, rider->form };
    task->seating.seats[task->seating.n_seats++] = (Seat){ .rider = rider,
                                                           .member = member,
                                                           .suits_sieve = rider->suits,
                                                           .suits_cube = rider->suits_cube,
                                                           .shape = rider->shape,
                                                           .chunk = chunk,
                                                           .rows_left = rider->rows_left };
    rider->wants[chunk] = false;
    if (rider->asked && rider->asked[chunk]) rider->bytes_ahead -= launch_column_bytes(launch, chunk);
    rider->scan->n_wanting -= --rider->n_wanted == 0;
    rider->rows_left -= task->chunk->n_rows;
    rider->rows_open += task->chunk->n_rows;
    rider->n_tasks++;
    rider->served = task->scan->n_opened;
    if (launch->out.chunks_read++ == 0) launch->out.wait_ms = time_now_ms() - rider->start_ms;
    launch->out.n_beside = MAX_OF(launch->out.n_beside, task->scan->n_riders - 1);
}

static Tally *tally_of(Network *network, const Table *table)
{
    if (!table) return NULL;
    for (int i = 0; i < network->n_tallies; i++)
        if (network->tallies[i].table == table->id) return &network->tallies[i];
    network->tallies = realloc(network->tallies, (size_t)(network->n_tallies + 1) * sizeof(Tally));
    Tally *tally = &network->tallies[network->n_tallies++];
    memset(tally, 0, sizeof *tally);
    tally->table = table->id;
    strncpy(tally->name, table->name, sizeof tally->name - 1);
    return tally;
}

// Bytes of the columns that anybody in the task reads, each once; and what riders add up to.
static void count_task(Network *network, const Task *task)
{
    Tally *tally = tally_of(network, task->seating.seats[0].rider->launch->scanned);
    u8     read[2048] = { 0 };
    u64    bytes = 0, ridden = 0;
    for (int s = 0; s < task->seating.n_seats; s++) {
        Launch *launch = task->seating.seats[s].rider->launch;
        u64     own = 0;
        for (int c = 0; c < launch->woven->n_columns; c++) {
            const int number = launch->source->chunk_column[launch->woven->columns[c]];
            const u64 size = column_read_bytes(task->chunk, number);
            own += size;
            if (number < (int)sizeof read && !read[number]) bytes += size, read[number] = 1;
        }
        launch->out.rows_in += task->chunk->n_rows;
        launch->out.bytes_read += own;
        ridden += own;
    }
    if (!tally) return;
    tally->figures.chunks_read++, tally->figures.rows_read += task->chunk->n_rows, tally->figures.bytes_read += bytes;
    tally->figures.chunks_ridden += (u64)task->seating.n_seats,
        tally->figures.rows_ridden += (u64)task->seating.n_seats * task->chunk->n_rows;
    tally->figures.bytes_ridden += ridden;
}

// A ride counts once, however many of its chunks are woven.
static void count_way(ScanFigures *figures, Rider *rider)
{
    u64 *const rides[] = { [WOVEN_SIEVE] = &figures->rides_sieved,
                           [WOVEN_FUSED] = &figures->rides_fused,
                           [WOVEN_CUBE] = &figures->rides_cubed };
    const unsigned way = 1u << rider->woven_as;
    if (rider->body.is_over_joins && !rider->was_join_cubed) figures->rides_join_cubed++, rider->was_join_cubed = true;
    if (rider->woven_as == WOVEN_NOT || rider->woven_ways & way) return;
    if (!rider->woven_ways) figures->rides_woven++;
    rider->woven_ways |= way;
    ++*rides[rider->woven_as];
}

static void count_woven(Network *network, const Task *task)
{
    const Seating *seating = &task->seating;
    Tally         *tally = tally_of(network, seating->seats[0].rider->launch->scanned);
    if (!tally || seating->n_plain == seating->n_seats) return;
    tally->figures.chunks_woven++;
    tally->figures.chunks_woven_ridden += (u64)(seating->n_seats - seating->n_plain);
    for (int s = seating->n_plain; s < seating->n_seats; s++) count_way(&tally->figures, seating->seats[s].rider);
}

// For people who ask who is woven with whom.
static void note_rider(Rider *rider, WovenAs as, int n_woven, double gain, BodyFigures body)
{
    Launch *launch = rider->launch;
    rider->woven_as = as, rider->n_woven = n_woven, rider->gain = gain, rider->body = body;
    if (n_woven <= launch->out.n_woven) return;
    launch->out.body = body;
    launch->out.woven_as = woven_as_name(as), launch->out.n_woven = n_woven, launch->out.gain = gain;
}

static void note_woven(const Seating *seating)
{
    const BodyFigures none = { 0 };
    for (int s = 0; s < seating->n_plain; s++) note_rider(seating->seats[s].rider, WOVEN_NOT, 0, 1, none);
    for (int g = 0, seat = seating->n_plain; g < seating->n_groups; g++)
        for (int end = seat + seating->groups[g].n_members; seat < end; seat++)
            note_rider(seating->seats[seat].rider, WOVEN_SIEVE, seating->groups[g].n_members, seating->groups[g].gain,
                       none);
    for (int f = 0; f < seating->n_fused; f++)
        for (int m = 0; m < seating->fused[f].n_members; m++)
            note_rider(seating->seats[seating->fused[f].first_seat + m].rider, WOVEN_FUSED, seating->fused[f].n_members,
                       seating->fused[f].gain, fused_figures(seating->fused[f].fused));
    for (int c = 0; c < seating->n_cubes; c++) {
        const CubeSeats *cube = &seating->cubes[c];
        for (int m = 0; m < cube->n_members; m++)
            note_rider(seating->seats[cube->first_seat + m].rider, WOVEN_CUBE, cube->n_members, cube->gain,
                       cube_figures(cube->cube));
    }
}

static void ask_chunk(Network *network, const Launch *launch, int chunk)
{
    const Source *source = launch->source;
    for (int c = 0; c < launch->woven->n_columns; c++)
        ahead_ask(network->ahead, source->chunks[chunk], source->chunk_column[launch->woven->columns[c]]);
}

// What the rider wants from its first chunk on, in the order in which it will mostly come.  Few more each time: a query
// that has enough early has not asked
// for much in vain.
static void read_ahead(Network *network, Rider *rider, int chunk)
{
    const Launch *launch = rider->launch;
    const int     n_chunks = launch->source->n_chunks;
    if (rider->n_unseen == n_chunks) rider->ask_at = chunk;    // its first
    for (int n_new = 0; rider->n_unseen && n_new < AHEAD_STEP && rider->bytes_ahead < AHEAD_BYTES; rider->n_unseen--) {
        const int c = rider->ask_at;
        rider->ask_at = (c + 1) % n_chunks;
        if (!rider->wants[c] && c != chunk) continue;
        rider->asked[c] = true;
        if (c != chunk) rider->bytes_ahead += launch_column_bytes(launch, c);      // that one it has just got on
        ask_chunk(network, launch, c);
        n_new++;
    }
}

// Without the lock: the scan is marked as opening, and the riders of the task's seats cannot leave.
static void weave_riders(Network *network, Scan *scan, Task *task)
{
    task->seating.n_plain = task->seating.n_seats;
    if (!seats_may_weave(&task->seating)) return;
    scan->is_opening = true;
    pthread_mutex_unlock(&network->lock);
    seats_weave(&task->seating, task->chunk, &scan->kept);
    pthread_mutex_lock(&network->lock);
    scan->is_opening = false;
    note_woven(&task->seating);
}

// The first seats.
static int n_outside_cubes(const Seating *seating)
{
    return seating->n_cubes ? seating->cubes[0].first_seat : seating->n_seats;
}

static void make_strands(Task *task)
{
    task->n_strands = task->seating.n_cubes + (n_outside_cubes(&task->seating) > 0);
    task->strands = calloc((size_t)task->n_strands, sizeof *task->strands);
}

// One that got nothing yet.  It is asked for with every slice: where there is none, all riders are looked at once only.
static Rider *newcomer(Scan *scan)
{
    for (Rider *rider = scan->has_newcomers ? scan->riders : NULL; rider; rider = rider->next)
        if (rider->n_wanted && !rider->served && !is_stopped(rider)) return rider;
    scan->has_newcomers = false;
    return NULL;
}

// Open chunks counted in: a rider in its last one still needs all of that, and with a crowd that takes long.
static u64 rows_to_end(const Rider *rider)
{
    return (rider->rows_left + rider->rows_open) >> MIN_OF(MAX_OF(rider->launch->priority, 0), 32);
}

static u64 shortest_rider(const Scan *scan)
{
    u64 rows = UINT64_MAX;
    for (const Rider *rider = scan->riders; rider; rider = rider->next) {
        if (rider->is_done) continue;
        rows = MIN_OF(rows, rows_to_end(rider));
    }
    return rows;
}

// Whose chunk is next: that of a newcomer; else that of the rider with the fewest rows left, so that a short query is
// soon done.  What it does not want waits, so
// every fourth time it is the rider that got nothing for longest.
static Rider *choose_leader(Scan *scan)
{
    Rider     *leader = newcomer(scan);
    const bool by_age = ++scan->n_opened % 4 == 0;
    if (leader) return leader;
    for (Rider *rider = scan->riders; rider; rider = rider->next) {
        if (rider->n_wanted && is_stopped(rider)) want_nothing(rider), finish_if_done(rider);
        if (!rider->n_wanted) continue;
        if (!leader || (by_age ? rider->served < leader->served : rider->rows_left < leader->rows_left)) leader = rider;
    }
    return leader;
}

// Opens the next chunk; everybody who wants it gets on.
static Task *open_chunk(Network *network, Scan *scan)
{
    const Rider *leader = choose_leader(scan);
    if (!leader) return NULL;
    const int number = next_wanted(leader, scan->cursor);
    Task *task = calloc(1, sizeof *task);
    task->scan = scan;
    task->chunk = leader->launch->source->chunks[number];
    task->seating.seats = calloc((size_t)scan->n_riders, sizeof *task->seating.seats);
    task->gates = calloc((size_t)scan->n_riders, sizeof *task->gates);
    for (Rider *rider = scan->riders; rider; rider = rider->next) {
        if (!rider->n_wanted) continue;
        const int chunk = chunk_number(rider, task->chunk, number);
        if (chunk >= 0 && rider->wants[chunk]) take_seat(task, rider, chunk);
    }
    scan->cursor = number + 1;
    scan->least_rows = shortest_rider(scan);
    scan->n_crowd = task->seating.n_seats;
    count_task(network, task);
    for (int s = 0; s < task->seating.n_seats; s++)
        if (task->seating.seats[s].rider->n_unseen)
            read_ahead(network, task->seating.seats[s].rider, task->seating.seats[s].chunk);
    weave_riders(network, scan, task);
    make_strands(task);
    count_woven(network, task);
    task->open_ms = time_now_ms();
    task->next = scan->tasks;
    scan->tasks = task;
    return task;
}

// ---- riders that are done -------------------------------------------------------------------------------------------

static void close_task(Task *task)
{
    Task **link = &task->scan->tasks;
    while (*link != task) link = &(*link)->next;
    *link = task->next;
    for (int s = 0; s < task->seating.n_seats; s++) {
        Rider *rider = task->seating.seats[s].rider;
        if (atomic_load_explicit(&task->gates[s].is_shut, memory_order_relaxed)) continue;
        rider->n_tasks--;
        rider->rows_open -= task->chunk->n_rows;
        if (rider->n_wanted && is_stopped(rider)) want_nothing(rider);
        finish_if_done(rider);
    }
    task->scan->closed_ms = time_now_ms();
    task->scan->chunk_ms = task->scan->closed_ms - task->open_ms;
    seats_release(&task->seating);
    free(task->strands);
    free(task->gates);
    free(task->seating.seats);
    free(task);
}

// ---- slices ---------------------------------------------------------------------------------------------------------

typedef struct Slice { Task *task; int strand; u32 first, end; } Slice;

// Of all strands.
static u64 rows_to_push(const Task *task)
{
    u64 n_rows = 0;
    for (int p = 0; p < task->n_strands; p++) n_rows += task->chunk->n_rows - task->strands[p].next_row;
    return n_rows;
}

static bool is_cube(const Task *task, int strand) { return strand < task->seating.n_cubes; }

// In a crowd that has just had a chunk, and of which many are gone, until when the next chunk is not to be opened; 0:
// now.  Clients whose queries ended come back within a moment with others.  A chunk costs about the same for few and
// for many, so one that is opened at once for the few that are there is one more.  Meanwhile threads are free for those
// that are on their way.  The wait ends when most of them are there, or when for a while none came or went, and at the
// latest when it has taken as long as a chunk.
static double gathers_until(const Network *network, const Scan *scan)
{
    if (scan->n_crowd <= CROWD || scan->n_wanting >= GATHERED(scan->n_crowd) || !network->n_threads) return 0;
    const double most_ms = MIN_OF(scan->chunk_ms, GATHER_MOST_MS), gap_ms = MAX_OF(GAP_SHARE * most_ms, GAP_LEAST_MS);
    const double quiet_ms = MAX_OF(scan->stirred_ms, scan->closed_ms) + gap_ms;
    const double until_ms = MIN_OF(quiet_ms, scan->closed_ms + most_ms);
    return time_now_ms() < until_ms ? until_ms : 0;
}

static bool has_slice(const Network *network, const Scan *scan)
{
    if (!scan->is_shared && scan->n_pushing >= scan->max_threads) return false;
    for (const Task *task = scan->tasks; task; task = task->next)
        if (rows_to_push(task)) return true;
    return !scan->is_opening && scan->n_wanting && !gathers_until(network, scan);
}

// Riders are not looked at here: there may be thousands, and a scan is chosen for each slice.
static Scan *choose_scan(Network *network)
{
    Scan      *best = NULL;
    const bool by_age = network->turn % 8 == 7;
    u64        best_rows = 0;
    for (Scan *scan = network->scans; scan; scan = scan->next) {
        const u64 rows = by_age ? scan->waited_since : scan->least_rows;
        if ((best && rows >= best_rows) || !has_slice(network, scan)) continue;
        best = scan, best_rows = rows;
    }
    return best;
}

// So many that ROWS of them take no longer than SLICE_NS, but LEAST at least.
static u32 rows_in_time(u32 rows, double row_ns, u32 least)
{
    return row_ns * rows <= SLICE_NS ? rows : MAX_OF((u32)(SLICE_NS / row_ns) & ~(u32)(SLICE_LEAST - 1), least);
}

static u32 cube_slice_rows(const Task *task, int strand)
{
    const u32 row_ps = atomic_load_explicit(&task->strands[strand].row_ps, memory_order_relaxed);
    return row_ps ? rows_in_time(task->chunk->n_rows, row_ps * 1e-3, SLICE_SHARED) : SLICE_SHARED;
}

// So many rows that the slice takes neither longer than SLICE_NS nor, with a new rider in it, an unknown time.
static u32 shared_slice_rows(const Task *task)
{
    const Seating *seating = &task->seating;
    const int      n_shared = n_outside_cubes(seating);
    u32 rows = seating->n_groups ? SLICE_WOVEN : n_shared > 1 ? SLICE_SHARED : SLICE_ROWS;
    double row_ns = 0;
    for (int s = 0; s < n_shared; s++) {
        if (atomic_load_explicit(&task->gates[s].is_shut, memory_order_relaxed)) continue;
        const u32 row_ps = atomic_load_explicit(&seating->seats[s].rider->row_ps, memory_order_relaxed);
        if (!row_ps) rows = SLICE_FIRST;
        row_ns += row_ps * 1e-3;
    }
    // A slice costs each rider something, however few its rows are: its code and its join tables have left the cache
    // since the slice before.  256 riders of different shapes took 61 ms of CPU time each with slices of 1,024 rows, 38
    // with 16,384.  So the more riders, the more rows at least.
    const u32 worth = (u32)n_shared * SLICE_WORTH & ~(u32)(SLICE_LEAST - 1);
    return rows_in_time(rows, row_ns, MIN_OF(MAX_OF(worth, SLICE_LEAST), SLICE_MOST_LEAST));
}

static u32 slice_rows(const Task *task, int strand)
{
    return is_cube(task, strand) ? cube_slice_rows(task, strand) : shared_slice_rows(task);
}

// The one that is nearest to its end; SKIP < 0.  Else the SKIP-th.
static Task *unfinished(const Scan *scan, int skip)
{
    Task *chosen = NULL;
    for (Task *task = scan->tasks; task; task = task->next) {
        const u64 left = rows_to_push(task);
        if (!left) continue;
        if (skip == 0) return task;
        if (skip > 0) skip--;
        else if (!chosen || left < rows_to_push(chosen)) chosen = task;
    }
    return chosen;
}

// Of a table of few chunks all would soon be open, each with fewer riders.
static int most_open(const Scan *scan)
{
    return MIN_OF(MAX_OF(scan->riders->launch->source->n_chunks / OPEN_SHARE, 2), MOST_OPEN);
}

// In a crowd there are always newcomers: each open chunk would get those of a short while only, and riders would wait
// for many chunks to end.  So newcomers wait for the end of the open one, unless that takes long.
static bool may_open(const Scan *scan, int n_open)
{
    if (scan->n_riders <= CROWD) return n_open < most_open(scan);
    double opened_ms = 0;
    for (const Task *task = scan->tasks; task; task = task->next) opened_ms = MAX_OF(opened_ms, task->open_ms);
    const double patience_ms = MAX_OF(PATIENCE_CHUNKS * scan->chunk_ms, PATIENCE_MS);
    return n_open < 2 && time_now_ms() > opened_ms + MIN_OF(patience_ms, PATIENCE_MOST_MS);
}

// Open chunks take turns.  Who comes while one is open need not wait for its end: another is opened, if it may be;
// else, the one that
// ends first is hurried, since with turns all of them would end late.
static Task *open_task(Scan *scan)
{
    int n_open = 0;
    for (Task *task = scan->tasks; task; task = task->next) n_open += rows_to_push(task) > 0;
    const bool is_awaited = n_open && !scan->is_opening && newcomer(scan);
    if (!n_open || (is_awaited && may_open(scan, n_open))) return NULL;
    const bool hurries = is_awaited || scan->n_riders > CROWD;
    return unfinished(scan, hurries ? -1 : (int)(scan->n_slices++ % (u64)n_open));
}

// The slot's strand while it has rows; else the one that fewest threads are in, and of those the one with most rows.
static int choose_strand(const Task *task, const Habit *habit)
{
    int chosen = -1;
    for (int p = 0; p < task->n_strands; p++) {
        const Strand *strand = &task->strands[p], *best = &task->strands[MAX_OF(chosen, 0)];
        if (strand->next_row >= task->chunk->n_rows) continue;
        if (habit->task == task && habit->strand == p) return p;
        if (chosen < 0 || strand->n_pushing < best->n_pushing ||
            (strand->n_pushing == best->n_pushing && strand->next_row < best->next_row))
            chosen = p;
    }
    return MAX_OF(chosen, 0);          // a chunk without rows has none to choose
}

static bool take_slice(Network *network, int slot, Slice *slice)
{
    for (;;) {
        Scan *scan = choose_scan(network);
        if (!scan) return false;
        Task *task = open_task(scan);
        if (!task) task = open_chunk(network, scan);
        if (!task) continue;           // its riders were all stopped: they want nothing now
        const int p = choose_strand(task, &network->habits[slot]);
        Strand     *strand = &task->strands[p];
        const u32 rows = slice_rows(task, p), left = task->chunk->n_rows - strand->next_row;
        *slice = (Slice){ task, p, strand->next_row, strand->next_row + MIN_OF(rows, left) };
        strand->next_row = slice->end;
        strand->n_pushing++;
        if (!rows_to_push(task)) scan->closed_ms = time_now_ms();
        network->habits[slot] = (Habit){ task, p };
        scan->n_pushing++;
        scan->waited_since = network->turn++;
        return true;
    }
}

static u32 row_ps_of(double time_ms, u32 n_rows)
{
    const double row_ps = time_ms * 1e9 / n_rows;
    return row_ps < 1 ? 1 : row_ps > 4e9 ? (u32)4e9 : (u32)row_ps;
}

// Rows went through the rider in TIME_MS: its progress, and what to expect of the next ones.
static void note_rows(Rider *rider, u32 n_rows, double time_ms)
{
    const Launch *launch = rider->launch;
    atomic_store_explicit(&rider->row_ps, row_ps_of(time_ms, n_rows), memory_order_relaxed);
    if (launch->rows_done) atomic_fetch_add_explicit(launch->rows_done, n_rows, memory_order_relaxed);
}

static double push_plain(const Slice *slice, int slot, double start_ms)
{
    const Task *task = slice->task;
    for (int s = 0; s < task->seating.n_plain; s++) {
        const Seat *seat = &task->seating.seats[s];
        if (!gate_enter(&task->gates[s])) continue;
        Launch *launch = seat->rider->launch;
        launch->device->push(launch->device, launch, slot, seat->chunk, slice->first, slice->end);
        const double now_ms = time_now_ms();
        note_rows(seat->rider, slice->end - slice->first, now_ms - start_ms);
        start_ms = now_ms;
        gate_leave(&task->gates[s]);
    }
    return start_ms;
}

// The slice went through these together.
static void note_members(const Slice *slice, int first_seat, int n_members, double time_ms)
{
    const Task *task = slice->task;
    for (int s = first_seat; s < first_seat + n_members; s++) {
        if (!gate_enter(&task->gates[s])) continue;
        note_rows(task->seating.seats[s].rider, slice->end - slice->first, time_ms / n_members);
        gate_leave(&task->gates[s]);
    }
}

// The same since START_MS.  Returns the time.
static double note_since(const Slice *slice, int first_seat, int n_members, double start_ms)
{
    const double now_ms = time_now_ms();
    note_members(slice, first_seat, n_members, now_ms - start_ms);
    return now_ms;
}

// What a cube's kernel looks at belongs to its members: one of them must be there.
static Gate *enter_any(Gate *gates, int n_gates)
{
    for (int g = 0; g < n_gates; g++)
        if (gate_enter(&gates[g])) return &gates[g];
    return NULL;
}

static void push_fused(const Slice *slice, int slot, double start_ms)
{
    const Task *task = slice->task;
    for (int f = 0; f < task->seating.n_fused; f++) {
        const FusedSeats *seats = &task->seating.fused[f];
        fuse_push(seats->fused, seats->chunks, &task->gates[seats->first_seat], slot, slice->first, slice->end);
        start_ms = note_since(slice, seats->first_seat, seats->n_members, start_ms);
    }
}

// A thread that was put aside meanwhile says nothing about the cube: the next slice would be too short.
static void note_pace(Strand *strand, double time_ms, u32 n_rows)
{
    const u32 before = atomic_load_explicit(&strand->row_ps, memory_order_relaxed);
    const u32 row_ps = row_ps_of(time_ms, n_rows);
    const u32 most = before && before < UINT32_MAX / 2 ? 2 * before : UINT32_MAX;
    atomic_store_explicit(&strand->row_ps, MIN_OF(row_ps, most), memory_order_relaxed);
}

static void push_cube(const Slice *slice, int slot)
{
    const Task      *task = slice->task;
    const CubeSeats *seats = &task->seating.cubes[slice->strand];
    const double     start_ms = time_now_ms();
    Gate            *gate = enter_any(&task->gates[seats->first_seat], seats->n_members);
    if (!gate) return;
    cube_push(seats->run, slot, slice->first, slice->end);
    gate_leave(gate);
    note_pace(&task->strands[slice->strand], time_now_ms() - start_ms, slice->end - slice->first);
}

// Members of a cube learn of their rows once for a chunk: there may be thousands.
static void fold_cube(Task *task, int strand, int slot)
{
    const CubeSeats *cube = &task->seating.cubes[strand];
    const Slice      whole = { task, strand, 0, task->chunk->n_rows };
    const double time_ms = atomic_load_explicit(&task->strands[strand].row_ps, memory_order_relaxed) * 1e-9 * whole.end;
    cube_fold(cube->run, cube->numbers, cube->chunks, cube->n_members, &task->gates[cube->first_seat], slot);
    note_members(&whole, cube->first_seat, cube->n_members, time_ms);
}

static void push_shared(Network *network, const Slice *slice, int slot)
{
    const Task *task = slice->task;
    double      start_ms = push_plain(slice, slot, time_now_ms());
    if (task->seating.n_groups && !network->scratch[slot])
        network->scratch[slot] = malloc(sieve_scratch_bytes(SLICE_WOVEN));
    for (int g = 0, seat = task->seating.n_plain; g < task->seating.n_groups; g++) {
        const Group *group = &task->seating.groups[g];
        sieve_push(group->set, task->chunk, group->chunks, &task->gates[seat], slot, slice->first, slice->end,
                   network->scratch[slot]);
        start_ms = note_since(slice, seat, group->n_members, start_ms);
        seat += group->n_members;
    }
    push_fused(slice, slot, start_ms);
}

static void push_slice(Network *network, const Slice *slice, int slot)
{
    if (is_cube(slice->task, slice->strand)) push_cube(slice, slot);
    else push_shared(network, slice, slot);
}

static bool is_pushed(const Task *task)
{
    for (int p = 0; p < task->n_strands; p++)
        if (task->strands[p].next_row < task->chunk->n_rows || task->strands[p].n_pushing) return false;
    return true;
}

// The last one out of a cube adds up its cells; the last one out of all strands closes the task.
static void give_back(Network *network, const Slice *slice, int slot)
{
    Task *task = slice->task;
    Strand *strand = &task->strands[slice->strand];
    task->scan->n_pushing--;
    if (is_cube(task, slice->strand) && strand->n_pushing == 1 && strand->next_row >= task->chunk->n_rows) {
        pthread_mutex_unlock(&network->lock);
        fold_cube(task, slice->strand, slot);
        pthread_mutex_lock(&network->lock);
    }
    strand->n_pushing--;
    if (is_pushed(task)) close_task(task);
}

static int take_slot(Network *network)
{
    for (int s = 0; s < network->n_slots; s++)
        if (!network->slot_taken[s]) {
            network->slot_taken[s] = true;
            network->n_free--;
            return s;
        }
    return -1;
}

static bool is_cancelled(const Rider *rider)
{
    return atomic_load_explicit(rider->launch->stop, memory_order_relaxed);
}

// A query's own thread pushes for itself alone.  In a slice with others it could be held up by one of them, and then
// not leave when it is
// cancelled.
static bool may_push(Network *network, const Rider *rider)
{
    if (rider->is_done || is_cancelled(rider)) return false;
    return !network->n_threads || (rider->scan->n_riders == 1 && choose_scan(network) == rider->scan);
}

// Pushes slices until there are none, or until they are no longer for OWN to push (NULL: for anybody).  Called and left
// with the lock held.
static void push_while(Network *network, const Rider *own)
{
    Slice slice;
    if (!network->n_free) return;
    const int slot = take_slot(network);
    while ((!own || may_push(network, own)) && take_slice(network, slot, &slice)) {
        if (network->n_idle && network->n_free && choose_scan(network)) pthread_cond_signal(&network->has_work);
        pthread_mutex_unlock(&network->lock);
        push_slice(network, &slice, slot);
        pthread_mutex_lock(&network->lock);
        give_back(network, &slice, slot);
    }
    network->slot_taken[slot] = false;
    network->n_free++;
    if (network->n_idle && choose_scan(network))
        pthread_cond_signal(&network->has_work);  // somebody else must go on
}

static struct timespec time_in(double wait_ms)
{
    const i64       wait_ns = (i64)(wait_ms * 1e6);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ns / 1000000000, until.tv_nsec += wait_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return until;
}

// Until there is some, or until a crowd that gathers is no longer to be waited for.
static void wait_for_work(Network *network)
{
    double until_ms = 0;
    for (const Scan *scan = network->scans; scan; scan = scan->next) {
        const double own_ms = scan->n_wanting ? gathers_until(network, scan) : 0;
        if (own_ms && (!until_ms || own_ms < until_ms)) until_ms = own_ms;
    }
    if (!until_ms) {
        pthread_cond_wait(&network->has_work, &network->lock);
        return;
    }
    const double          wait_ms = until_ms - time_now_ms();
    const struct timespec until = time_in(MAX_OF(wait_ms, 0) + WAIT_LEAST_MS);
    pthread_cond_timedwait(&network->has_work, &network->lock, &until);
}

static void *worker(void *context)
{
    Network *network = context;
    pthread_mutex_lock(&network->lock);
    while (!network->is_closing) {
        push_while(network, NULL);
        if (network->is_closing) break;
        if (helpers_are_wanted(network->helpers)) {            // slices go first: one part, and look again
            pthread_mutex_unlock(&network->lock);
            helpers_help(network->helpers);
            pthread_mutex_lock(&network->lock);
            continue;
        }
        network->n_idle++;
        wait_for_work(network);
        network->n_idle--;
    }
    pthread_mutex_unlock(&network->lock);
    return NULL;
}

// Workers that already sleep are signalled.  The others look for work before they sleep, under this lock.
static void wake_helpers(void *context, int n_threads)
{
    Network *network = context;
    pthread_mutex_lock(&network->lock);
    for (int t = 0; t < MIN_OF(n_threads, network->n_idle); t++) pthread_cond_signal(&network->has_work);
    pthread_mutex_unlock(&network->lock);
}

// ---- riding ---------------------------------------------------------------------------------------------------------

static Scan *scan_for(Network *network, const Rider *rider)
{
    const Launch *launch = rider->launch;
    for (Scan *scan = network->scans; rider->is_shared && scan; scan = scan->next)
        if (scan->is_shared && scan->table == launch->table && scan->priority == launch->priority) return scan;
    Scan *scan = calloc(1, sizeof *scan);
    *scan = (Scan){ .table = launch->table,
                    .is_shared = rider->is_shared,
                    .priority = launch->priority,
                    .max_threads = MAX_OF(launch->max_threads, 1),
                    .waited_since = network->turn,
                    .least_rows = UINT64_MAX,
                    .next = network->scans };
    network->scans = scan;
    return scan;
}

static bool wants_own_scan(const Rider *rider)
{
    const Source *source = rider->launch->source;
    return (double)rider->rows_left < OWN_SHARE * (double)source->n_rows && rider->rows_left < OWN_ROWS;
}

static void get_on(Network *network, Rider *rider)
{
    Launch    *launch = rider->launch;
    const int  n_chunks = launch->source->n_chunks;
    rider->start_ms = time_now_ms();
    rider->wants = calloc((size_t)n_chunks + 1, sizeof(bool));
    for (int c = 0; c < n_chunks; c++) {
        rider->wants[c] = launch_wants_chunk(launch, c);
        if (rider->wants[c]) rider->n_wanted++, rider->rows_left += launch->source->chunks[c]->n_rows;
        else launch->out.chunks_skipped++;
    }
    rider->n_chunks = rider->n_wanted;
    if (launch->source->from_store && rider->n_wanted && launch_column_bytes(launch, 0) >= AHEAD_LEAST &&
        chunk_pages(launch->source->chunks[0]).is_file) {
        rider->asked = calloc((size_t)n_chunks, sizeof(bool));
        rider->n_unseen = n_chunks;
    }
    rider->is_shared = launch->table && !wants_own_scan(rider);
    rider->number = ++network->n_rides;
    const bool may_weave = launch->may_weave && rider->is_shared;
    rider->suits = may_weave && sieve_suits(launch, rider->facts);
    rider->suits_cube = may_weave && cube_suits(launch);
    if (!rider->is_shared) rider->steps = NULL, rider->form = NULL;
    rider->is_done = rider->n_wanted == 0;
    rider->scan = scan_for(network, rider);
    rider->next = rider->scan->riders, rider->link = &rider->scan->riders;
    if (rider->next) rider->next->link = &rider->next;
    rider->scan->riders = rider;
    rider->scan->n_riders++;
    rider->scan->n_wanting += rider->n_wanted > 0;
    rider->scan->stirred_ms = time_now_ms();
    rider->scan->least_rows = MIN_OF(rider->scan->least_rows, rows_to_end(rider));
    rider->scan->has_newcomers = true;
    Tally *tally = tally_of(network, rider->launch->scanned);
    if (tally) tally->figures.n_rides++;
}

static void get_off(Network *network, Rider *rider)
{
    Scan *scan = rider->scan;
    *rider->link = rider->next;
    if (rider->next) rider->next->link = rider->link;
    scan->stirred_ms = time_now_ms();
    if (--scan->n_riders <= CROWD) scan->least_rows = shortest_rider(scan);
    if (scan->n_riders > 0) return;
    Scan **at = &network->scans;
    while (*at != scan) at = &(*at)->next;
    *at = scan->next;
    kept_release(&scan->kept);
    free(scan);
}

// Sees its stop flag now and then, less often the more ride with it; Device.wake does not wait for that.
static void wait_a_little(Network *network, Rider *rider)
{
    const struct timespec until = time_in(WAKE_MS * (1.0 + rider->scan->n_riders / WAKE_SHARE));
    pthread_cond_timedwait(&rider->done, &network->lock, &until);
    if (rider->n_wanted && is_stopped(rider)) want_nothing(rider);
    finish_if_done(rider);
}

static void wake(Device *device, const _Atomic u32 *stop)
{
    Network *network = (Network *)device;
    pthread_mutex_lock(&network->lock);
    for (Scan *scan = network->scans; scan; scan = scan->next)
        for (Rider *rider = scan->riders; rider; rider = rider->next)
            if (rider->launch->stop == stop) pthread_cond_signal(&rider->done);
    pthread_mutex_unlock(&network->lock);
}

// Shuts the rider's gate in the task; false when some thread is inside, or when the rider must stay: a chunk lives as
// long as somebody who
// rides on it, so the last one sees the task closed.
static bool shut_gate(Rider *rider, Task *task)
{
    bool is_out = true, is_in = false, is_last = true;
    for (int s = 0; s < task->seating.n_seats; s++) {
        Gate *gate = &task->gates[s];
        if (task->seating.seats[s].rider == rider) {
            is_in = true;
            if (!atomic_exchange(&gate->is_shut, true)) rider->n_tasks--;
            if (atomic_load(&gate->n_inside)) is_out = false;
        } else if (!atomic_load_explicit(&gate->is_shut, memory_order_relaxed)) {
            is_last = false;
        }
    }
    if (!is_in || !is_last) return is_out;
    for (int p = 0; p < task->n_strands; p++) task->strands[p].next_row = task->chunk->n_rows; // nobody wants the rest
    if (!is_pushed(task)) return false;
    close_task(task);
    return true;
}

static bool shut_gates(Rider *rider)
{
    bool is_out = true;
    for (Task *task = rider->scan->tasks, *next; task; task = next) {
        next = task->next;
        is_out = shut_gate(rider, task) && is_out;
    }
    return is_out;
}

// A cancelled or failed rider does not wait for the others in its open chunks.
static void leave_early(Network *network, Rider *rider)
{
    want_nothing(rider);
    while (!shut_gates(rider)) {       // its own kernel sees the stop flag: this is short
        pthread_mutex_unlock(&network->lock);
        sched_yield();
        pthread_mutex_lock(&network->lock);
    }
    finish_if_done(rider);             // not yet when a chunk that it is to be in is just being opened
}

// ---- builds over few rows -------------------------------------------------------------------------------------------

static bool is_small_build(const Launch *launch)
{
    const double  n_rows = (double)launch->source->n_rows * MAX_OF(launch->woven->fan_out, 1);
    return launch->sink == SINK_TABLE && n_rows <= HERE_ROWS;
}

static void count_here(Network *network, const Launch *launch)
{
    const LaunchOutcome *out = &launch->out;
    pthread_mutex_lock(&network->lock);
    Tally *tally = tally_of(network, launch->scanned);
    if (tally) {
        ScanFigures *figures = &tally->figures;
        figures->n_rides++;
        figures->chunks_read += (u64)out->chunks_read, figures->chunks_ridden += (u64)out->chunks_read;
        figures->rows_read += out->rows_in, figures->rows_ridden += out->rows_in;
        figures->bytes_read += out->bytes_read, figures->bytes_ridden += out->bytes_read;
    }
    pthread_mutex_unlock(&network->lock);
}

static bool is_over(const Launch *launch) { return atomic_load_explicit(launch->stop, memory_order_relaxed); }

static void push_here(Launch *launch, int chunk)
{
    const u32 n_rows = launch->source->chunks[chunk]->n_rows;
    for (u32 first = 0; first < n_rows && !is_over(launch); first += SLICE_SHARED) {
        const u32 end = MIN_OF(first + SLICE_SHARED, n_rows);
        launch->device->push(launch->device, launch, 0, chunk, first, end);
        if (launch->rows_done) atomic_fetch_add_explicit(launch->rows_done, end - first, memory_order_relaxed);
    }
    launch->out.chunks_read++;
    launch->out.rows_in += n_rows;
    launch->out.bytes_read += launch_column_bytes(launch, chunk);
}

// The rows take some 10 us, less than the query would take to fall asleep and to be woken again.  In a crowd there is
// one such build for each joined table of each query.
static weft_status ride_here(Network *network, Launch *launch, Error *err)
{
    TRY(launch->device->open(launch->device, launch, err));
    for (int c = 0; c < launch->source->n_chunks && !is_over(launch); c++) {
        if (launch_wants_chunk(launch, c)) push_here(launch, c);
        else launch->out.chunks_skipped++;
    }
    count_here(network, launch);
    return launch->device->finish(launch->device, launch, err);
}

static weft_status ride(Device *device, Launch *launch, Error *err)
{
    Network *network = (Network *)device;
    Rider    rider = { .launch = launch };
    Arena   *arena = NULL;
    if (launch->is_alone) return ride_alone(launch, err);
    if (is_small_build(launch)) return ride_here(network, launch, err);
    TRY(device->open(device, launch, err));
    if (launch->may_weave && launch->table) {
        arena = arena_new(NULL, "ride");
        rider.facts = share_facts(arena, &share_cpu_costs, launch->woven, launch->source);
        rider.shape = share_shape(launch->woven, launch->source);
        if (fuse_suits(launch)) rider.steps = fuse_steps(arena, launch);
        rider.form = join_cube_form(arena, launch);
    }
    pthread_cond_init(&rider.done, NULL);
    pthread_mutex_lock(&network->lock);
    get_on(network, &rider);
    while (!rider.is_done) {
        push_while(network, &rider);
        if (is_cancelled(&rider)) leave_early(network, &rider);
        if (!rider.is_done) wait_a_little(network, &rider);
    }
    get_off(network, &rider);
    pthread_mutex_unlock(&network->lock);
    pthread_cond_destroy(&rider.done);
    free(rider.wants);
    free(rider.asked);
    arena_free(arena);
    return device->finish(device, launch, err);
}

// ---- for people -----------------------------------------------------------------------------------------------------

static RiderFigures figures_of(const Rider *rider, Arena *arena)
{
    const Launch *launch = rider->launch;
    return (RiderFigures){ .query = launch->query,
                           .table = arena_strdup(arena, launch->scanned ? launch->scanned->name : "stored rows"),
                           .label = arena_strdup(arena, launch->label),
                           .kernel = arena_strdup(arena, launch->woven->name),
                           .n_chunks = rider->n_chunks,
                           .n_chunks_done = rider->n_chunks - rider->n_wanted - rider->n_tasks,
                           .n_fellow = rider->scan->n_riders - 1,
                           .woven_as = woven_as_name(rider->woven_as),
                           .n_woven = rider->n_woven,
                           .gain = rider->gain,
                           .body = rider->body };
}

static void list(Device *device, Arena *arena, DeviceFigures *figures)
{
    Network *network = (Network *)device;
    *figures = (DeviceFigures){ 0 };
    pthread_mutex_lock(&network->lock);
    for (const Scan *scan = network->scans; scan; scan = scan->next)
        for (const Rider *rider = scan->riders; rider; rider = rider->next)
            *LIST_PUSH(arena, figures->riders, figures->n_riders) = figures_of(rider, arena);
    for (int i = 0; i < network->n_tallies; i++) {
        ScanFigures *scan = LIST_PUSH(arena, figures->scans, figures->n_scans);
        *scan = network->tallies[i].figures;
        scan->id = network->tallies[i].table;
        scan->table = arena_strdup(arena, network->tallies[i].name);
    }
    pthread_mutex_unlock(&network->lock);
}

static void forget(Device *device, bool (*which)(const void *context, u64 table), const void *context)
{
    Network *network = (Network *)device;
    int      n = 0;
    pthread_mutex_lock(&network->lock);
    for (int i = 0; i < network->n_tallies; i++)
        if (!which(context, network->tallies[i].table)) network->tallies[n++] = network->tallies[i];
    network->n_tallies = n;
    pthread_mutex_unlock(&network->lock);
}

// ---- the network as a whole -----------------------------------------------------------------------------------------

static void close_network(Device *device) { network_free((Network *)device); }

Network *network_new(int n_threads)
{
    Network *network = calloc(1, sizeof *network);
    network->cpu = device_cpu_open();
    network->device = *network->cpu;
    network->device.ride = ride, network->device.wake = wake, network->device.list = list,
    network->device.forget = forget,
    network->device.close = close_network;
    pthread_mutex_init(&network->lock, NULL);
    pthread_cond_init(&network->has_work, NULL);
    network->n_slots = network->n_free = MAX_OF(n_threads, 1);
    network->slot_taken = calloc((size_t)network->n_slots, sizeof(bool));
    network->threads = calloc((size_t)network->n_slots, sizeof(pthread_t));
    network->scratch = calloc((size_t)network->n_slots, sizeof(void *));
    network->habits = calloc((size_t)network->n_slots, sizeof *network->habits);
    network->ahead = ahead_new();
    network->helpers = helpers_new(wake_helpers, network);
    for (int t = 0; t < network->n_slots; t++) {               // one for each slot: the callers' threads may be waiting
        if (thread_start(&network->threads[network->n_threads], NULL, worker, network) != 0) {
            log_warn("the system refused a thread: going on with %d", network->n_threads);
            break;
        }
        network->n_threads++;
    }
    return network;
}

void network_free(Network *network)
{
    if (!network) return;
    pthread_mutex_lock(&network->lock);
    network->is_closing = true;
    pthread_cond_broadcast(&network->has_work);
    pthread_mutex_unlock(&network->lock);
    for (int t = 0; t < network->n_threads; t++) pthread_join(network->threads[t], NULL);
    pthread_mutex_destroy(&network->lock);
    pthread_cond_destroy(&network->has_work);
    free(network->slot_taken);
    free(network->threads);
    for (int t = 0; t < network->n_slots; t++) free(network->scratch[t]);
    free(network->scratch);
    free(network->habits);
    free(network->tallies);
    ahead_free(network->ahead);
    helpers_free(network->helpers);
    network->cpu->close(network->cpu);
    free(network);
}

Device *network_cpu(Network *network) { return &network->device; }

int network_threads(const Network *network) { return network->n_slots; }

Helpers *network_helpers(Network *network) { return network->helpers; }
