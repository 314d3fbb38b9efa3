// seats.c - see seats.h.
//
// src/share (choose.h) decides for all devices which riders are served together, and how.  Here riders are described,
// and what serves several of them is made, or taken from the chunk before: cubes (cube.h, join_cube.h), fused kernels
// (fuse.h), sets of sieves (sieve.h).  Cubes and fused kernels only once their code is there: until then their riders
// are served as if there were none.

#include "engine/seats.h"

#include <limits.h>
#include <stdlib.h>

#define MOST_FUSED 16                  // kernels of several queries for a chunk: choosing them takes time, too

typedef struct Weaving {               // an open chunk, while its seats are woven
    Seating     *seating;
    const Chunk *chunk;
    Kept        *kept;
    int          n_fused;
    Fused       *fused[MOST_FUSED];    // those of this chunk, ready or not
} Weaving;

static Seat *seat_of(const ShareRider *rider) { return rider->self; }

static SieveMember *members_of(const ShareAsk *ask)
{
    SieveMember *members = malloc((size_t)ask->n_riders * sizeof *members);
    for (int m = 0; m < ask->n_riders; m++) members[m] = seat_of(ask->riders[m])->member;
    return members;
}

static u64 rows_left(const ShareAsk *ask)
{
    u64 most = 0;
    for (int m = 0; m < ask->n_riders; m++) most = MAX_OF(most, seat_of(ask->riders[m])->rows_left);
    return most;
}

// ---- one body -------------------------------------------------------------------------------------------------------

// Cubes over joins and others differ in what is like what, and in how they are made.
typedef struct CubeWay {
    bool  (*is_like)(const Cube *cube, const SieveMember *member);
    Cube *(*make)(Budget *budget, const Cube *before, const SieveMember *members, int n_members);
} CubeWay;

static const CubeWay over_columns = { cube_is_like, cube_make }, over_joins = { join_cube_is_like, join_cube_make };

// The cube for these members: that of the chunk before when it is the same, else a new one from it.  NUMBER: how many
// of its shape there are before it in this chunk.
static Cube *cube_for(Kept *kept, const CubeWay *way, int number, const SieveMember *members, int n_members,
                      int *numbers)
{
    Cube **before = NULL;
    for (int c = 0; c < kept->n_cubes && !before; c++)
        if (way->is_like(kept->cubes[c], &members[0]) && number-- == 0) before = &kept->cubes[c];
    if (before && cube_is_for(*before, members, n_members, numbers)) return cube_hold(*before);
    for (int m = 0; m < n_members; m++) numbers[m] = m;
    Cube *cube = way->make(members[0].launch->budget, before ? *before : NULL, members, n_members);
    if (!cube) return NULL;
    if (!before) {
        kept->cubes = realloc(kept->cubes, (size_t)(kept->n_cubes + 1) * sizeof *kept->cubes);
        before = &kept->cubes[kept->n_cubes++];
        *before = NULL;
    }
    cube_release(*before);
    *before = cube_hold(cube);
    return cube;
}

static void give_up_cube(CubeSeats *seats)
{
    cube_release(seats->cube);
    free(seats->numbers);
}

// SHARE_LATER: it has no code yet, or cannot be opened for this chunk.
static ShareMade make_cube(Weaving *weaving, ShareAsk *ask)
{
    Seating      *seating = weaving->seating;
    const CubeWay *way = ask->way == SHARE_JOINS ? &over_joins : &over_columns;
    SieveMember  *members = members_of(ask);
    CubeSeats     seats = { .n_members = ask->n_riders, .gain = ask->gain };
    seats.numbers = calloc((size_t)ask->n_riders, sizeof *seats.numbers);
    seats.cube = cube_for(weaving->kept, way, ask->number, members, ask->n_riders, seats.numbers);
    free(members);
    if (seats.cube && cube_is_ready(seats.cube, rows_left(ask))) seats.run = cube_open(seats.cube, weaving->chunk);
    if (!seats.run) {
        const bool has_cube = seats.cube != NULL;
        give_up_cube(&seats);
        return has_cube ? SHARE_LATER : SHARE_TOO_MANY;
    }
    seating->cubes = realloc(seating->cubes, (size_t)(seating->n_cubes + 1) * sizeof *seating->cubes);
    seating->cubes[seating->n_cubes++] = seats;
    return SHARE_DONE;
}

// ---- fused ----------------------------------------------------------------------------------------------------------

static Fused *fused_for(const Kept *kept, const SieveMember *members, int n_members)
{
    for (int f = 0; f < kept->n_fused; f++)
        if (fuse_is_for(kept->fused[f], members, n_members)) return fuse_hold(kept->fused[f]);
    return fuse_make(members, n_members);
}

static ShareMade make_fused(Weaving *weaving, const ShareAsk *ask)
{
    Seating     *seating = weaving->seating;
    if (weaving->n_fused == MOST_FUSED) return SHARE_NO;
    SieveMember *members = members_of(ask);
    FusedSeats   seats = { .n_members = ask->n_riders, .gain = ask->gain };
    seats.fused = weaving->fused[weaving->n_fused++] = fused_for(weaving->kept, members, ask->n_riders);
    free(members);
    if (!fuse_is_ready(seats.fused, rows_left(ask))) return SHARE_LATER;
    fuse_hold(seats.fused);
    seating->fused = realloc(seating->fused, (size_t)(seating->n_fused + 1) * sizeof *seating->fused);
    seating->fused[seating->n_fused++] = seats;
    return SHARE_DONE;
}

// What was not ready yet stays with the scan, and is looked at again when the next chunk is opened.
static void keep_fused(const Weaving *weaving)
{
    Kept *kept = weaving->kept;
    for (int f = 0; f < kept->n_fused; f++) fuse_release(kept->fused[f]);
    kept->fused = realloc(kept->fused, (size_t)(weaving->n_fused + 1) * sizeof *kept->fused);
    kept->n_fused = weaving->n_fused;
    for (int f = 0; f < weaving->n_fused; f++) kept->fused[f] = weaving->fused[f];
}

// ---- sieved ---------------------------------------------------------------------------------------------------------

// The set for these members: that of the chunk before when it is the same, else a new one.
static SieveSet *set_for(Kept *kept, int number, const SieveMember *members, int n_members)
{
    if (number < kept->n_sets && sieve_is_for(kept->sets[number], members, n_members))
        return sieve_hold(kept->sets[number]);
    const SieveSet *before = number < kept->n_sets ? kept->sets[number] : NULL;
    SieveSet       *set = sieve_make(members[0].launch->budget, before, members, n_members);
    if (!set) return NULL;
    if (number >= kept->n_sets) {
        kept->sets = realloc(kept->sets, (size_t)(number + 1) * sizeof *kept->sets);
        while (kept->n_sets <= number) kept->sets[kept->n_sets++] = NULL;
    }
    sieve_release(kept->sets[number]);
    kept->sets[number] = sieve_hold(set);
    return set;
}

static ShareMade make_group(Weaving *weaving, const ShareAsk *ask)
{
    Seating     *seating = weaving->seating;
    SieveMember *members = members_of(ask);
    SieveSet    *set = set_for(weaving->kept, seating->n_groups, members, ask->n_riders);
    free(members);
    if (!set) return SHARE_NO;
    seating->groups = realloc(seating->groups, (size_t)(seating->n_groups + 1) * sizeof *seating->groups);
    Group *group = &seating->groups[seating->n_groups++];
    *group = (Group){ .set = set, .n_members = ask->n_riders, .gain = ask->gain };
    for (int m = 0; m < ask->n_riders; m++) group->chunks[m] = seat_of(ask->riders[m])->chunk;
    return SHARE_DONE;
}

// ---- all of them ----------------------------------------------------------------------------------------------------

const char *woven_as_name(WovenAs as)
{
    static const char *const names[] = { [WOVEN_SIEVE] = "sieved", [WOVEN_FUSED] = "fused", [WOVEN_CUBE] = "one body" };
    return names[as];
}

static u32 ways_of(const Seat *seat)
{
    return (seat->suits_cube ? SHARE_BIT(SHARE_COLUMNS) : 0) | (seat->member.form ? SHARE_BIT(SHARE_JOINS) : 0) |
           (seat->member.steps ? SHARE_BIT(SHARE_FUSED) : 0) | (seat->suits_sieve ? SHARE_BIT(SHARE_SIEVED) : 0);
}

bool seats_may_weave(const Seating *seating)
{
    int n_suit = 0;
    for (int s = 0; s < seating->n_seats; s++) n_suit += ways_of(&seating->seats[s]) != 0;
    return n_suit > 1;
}

static bool fits(void *device, ShareWay way, const ShareRider *a, const ShareRider *b)
{
    const SieveMember *x = &seat_of(a)->member, *y = &seat_of(b)->member;
    (void)device;
    return way == SHARE_COLUMNS ? cube_fits(x, y) : way == SHARE_JOINS ? join_cube_fits(x, y) : x->device == y->device;
}

static ShareMade make(void *device, ShareAsk *ask)
{
    Weaving *weaving = device;
    switch (ask->way) {
        case SHARE_COLUMNS:
        case SHARE_JOINS: return make_cube(weaving, ask);
        case SHARE_FUSED: return make_fused(weaving, ask);
        case SHARE_SIEVED: return make_group(weaving, ask);
        default: return SHARE_NO;
    }
}

static ShareRider rider_of(Seat *seat)
{
    const SieveMember *member = &seat->member;
    const Woven       *woven = member->launch->woven;
    return (ShareRider){ .self = seat,
                         .number = member->ride,
                         .ways = ways_of(seat),
                         .shape = seat->shape,
                         .member = { woven, member->launch->source, member->form },
                         .steps = member->steps,
                         .facts = member->facts,
                         .fuse_bytes = woven->fused_bytes * TILE };
}

static int by_ride(const void *a, const void *b)
{
    const Seat *x = a, *y = b;
    return x->member.ride < y->member.ride ? -1 : x->member.ride > y->member.ride;
}

static int *chunks_of(const Seating *seating, int first_seat, int n_seats)
{
    int *chunks = malloc((size_t)n_seats * sizeof *chunks);
    for (int s = 0; s < n_seats; s++) chunks[s] = seating->seats[first_seat + s].chunk;
    return chunks;
}

// Puts the seats of all units of these ways behind the first N of SEATS; returns how many there are then.
static int place_units(const Seating *seating, const ShareChoice *choice, u32 ways, Seat *seats, int n)
{
    for (int u = 0; u < choice->n_units; u++)
        for (int i = 0; ways & SHARE_BIT(choice->units[u].way) &&
                        i < choice->units[u].n_riders;
             i++)
            seats[n++] = seating->seats[choice->units[u].riders[i]];
    return n;
}

// In the order of seats.h.  Units are in the order in which they were made, as groups, fused kernels and cubes are.
static void place_seats(Seating *seating, const ShareChoice *choice)
{
    Seat *seats = malloc((size_t)seating->n_seats * sizeof *seats);
    int   n = seating->n_plain = place_units(seating, choice, SHARE_BIT(SHARE_ALONE), seats, 0);
    n = place_units(seating, choice, SHARE_BIT(SHARE_SIEVED), seats, n);
    const int first_fused = n;
    n = place_units(seating, choice, SHARE_BIT(SHARE_FUSED), seats, n);
    const int first_cube = n;
    n = place_units(seating, choice, SHARE_BIT(SHARE_COLUMNS) | SHARE_BIT(SHARE_JOINS), seats, n);
    ASSERT(n == seating->n_seats);
    memcpy(seating->seats, seats, (size_t)n * sizeof *seats);
    free(seats);
    for (int f = 0, seat = first_fused; f < seating->n_fused; seat += seating->fused[f++].n_members) {
        seating->fused[f].first_seat = seat;
        seating->fused[f].chunks = chunks_of(seating, seat, seating->fused[f].n_members);
    }
    for (int c = 0, seat = first_cube; c < seating->n_cubes; seat += seating->cubes[c++].n_members) {
        seating->cubes[c].first_seat = seat;
        seating->cubes[c].chunks = chunks_of(seating, seat, seating->cubes[c].n_members);
    }
}

void seats_weave(Seating *seating, const Chunk *chunk, Kept *kept)
{
    Arena          *arena = arena_new(NULL, "choice");
    ShareRider     *riders = arena_array(arena, ShareRider, seating->n_seats + 1);
    Weaving         weaving = { .seating = seating, .chunk = chunk, .kept = kept };
    const ShareWays ways = { .costs = &share_cpu_costs,
                             .device = &weaving,
                             .limits = { [SHARE_COLUMNS] = { 2, CUBE_MEMBERS, 0 },
                                         [SHARE_JOINS] = { 2, INT_MAX, 0 },
                                         [SHARE_FUSED] = { 2, FUSE_MEMBERS, MOST_FUSED },
                                         [SHARE_SIEVED] = { 2, SIEVE_MEMBERS, 0 } },
                             .rows = chunk->n_rows,
                             .fuse_bytes = FUSE_BYTES,
                             .fits = fits,
                             .make = make };
    qsort(seating->seats, (size_t)seating->n_seats, sizeof *seating->seats, by_ride);
    for (int s = 0; s < seating->n_seats; s++) riders[s] = rider_of(&seating->seats[s]);
    const ShareChoice choice = share_choose(arena, &kept->share, &ways, riders, seating->n_seats);
    keep_fused(&weaving);
    place_seats(seating, &choice);
    arena_free(arena);
}

void seats_release(Seating *seating)
{
    for (int g = 0; g < seating->n_groups; g++) sieve_release(seating->groups[g].set);
    for (int c = 0; c < seating->n_cubes; c++) {
        cube_close(seating->cubes[c].run);
        give_up_cube(&seating->cubes[c]);
        free(seating->cubes[c].chunks);
    }
    for (int f = 0; f < seating->n_fused; f++) {
        fuse_release(seating->fused[f].fused);
        free(seating->fused[f].chunks);
    }
    free(seating->fused);
    free(seating->cubes);
    free(seating->groups);
}

void kept_release(Kept *kept)
{
    for (int i = 0; i < kept->n_sets; i++) sieve_release(kept->sets[i]);
    for (int c = 0; c < kept->n_cubes; c++) cube_release(kept->cubes[c]);
    for (int f = 0; f < kept->n_fused; f++) fuse_release(kept->fused[f]);
    free(kept->fused);
    free(kept->cubes);
    free(kept->sets);
    share_kept_free(&kept->share);
}
