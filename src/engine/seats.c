// seats.c - see seats.h.
//
// In this order: queries of one shape become one body (cube.h); of the others, those that share steps are fused
// (fuse.h), where that is expected
// to beat a sieve; of the rest those that look for few rows are sieved together (sieve.h).  Each only if its cost model
// says that it pays, and
// one body and fused kernels only once their code is there: until then their riders are served as if there were none.

#include "engine/seats.h"

#include <stdlib.h>
#include <string.h>

#define MOST_FUSED 16                  // kernels of several queries for a chunk: choosing them takes time, too
#define FEW_FUSED  32                  // queries to choose from.  Among more, when it was in vain
#define MANY_VAIN  8                   // times in a row, chunks are left out, 2, then 4,
#define MOST_WAIT  5                   // up to 2 to the power of this

// ---- orders of seats ------------------------------------------------------------------------------------------------

// By kernel, then by what it is handed, so that the same queries come in the same order whoever came first.
static int by_kernel_and_steps(const Seat *x, const Seat *y)
{
    const int order = strcmp(x->member.launch->woven->name, y->member.launch->woven->name);
    const u64 a = x->member.steps ? x->member.steps->hash : 0, b = y->member.steps ? y->member.steps->hash : 0;
    if (order) return order;
    if (a != b) return a < b ? -1 : 1;
    return x->member.ride < y->member.ride ? -1 : x->member.ride > y->member.ride;
}

// Plain ones, then sieved ones, then fused kernel by fused kernel, then cube by cube.
static int by_way(const void *a, const void *b)
{
    const Seat *x = a, *y = b;
    if (x->as != y->as) return x->as < y->as ? -1 : 1;
    if (x->with != y->with) return x->with < y->with ? -1 : 1;
    if (x->as == WOVEN_FUSED) return by_kernel_and_steps(x, y);
    return x->member.ride < y->member.ride ? -1 : x->member.ride > y->member.ride;
}

static bool is_for_cube(const Seat *seat) { return seat->suits_cube && seat->as == WOVEN_NOT && !seat->awaits_cube; }

static int by_kernel(const void *a, const void *b)
{
    const Seat *x = a, *y = b;
    const bool p = is_for_cube(x), q = is_for_cube(y);
    const int  order = p != q
                          ? (p ? -1 : 1)
                          : strcmp(x->member.launch->woven->name, y->member.launch->woven->name);
    return order ? order : x->member.ride < y->member.ride ? -1 : x->member.ride > y->member.ride;
}

// Those that are in no cube yet and could be in one over joins first, by what they do, then as they came.
static bool is_for_join_cube(const Seat *seat)
{
    return seat->suits_join_cube && seat->as == WOVEN_NOT && !seat->awaits_cube;
}

static int by_form(const void *a, const void *b)
{
    const Seat *x = a, *y = b;
    const bool  p = is_for_join_cube(x), q = is_for_join_cube(y);
    if (p != q) return p ? -1 : 1;
    if (p && x->member.form->hash != y->member.form->hash) return x->member.form->hash < y->member.form->hash ? -1 : 1;
    return x->member.ride < y->member.ride ? -1 : x->member.ride > y->member.ride;
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

// A cube over columns that had too many classes or cells is not tried again with as many members: to find it out costs
// nearly what the cube does, and is for nothing with each chunk.  Fewer than those may fit.
static RefusedCube *refused_for(Kept *kept, const char *name)
{
    for (int r = 0; r < kept->n_refused; r++)
        if (strcmp(kept->refused[r].name, name) == 0) return &kept->refused[r];
    return NULL;
}

static void note_refused(Kept *kept, const char *name, int n_members)
{
    RefusedCube *refused = refused_for(kept, name);
    if (!refused) {
        kept->refused = realloc(kept->refused, (size_t)(kept->n_refused + 1) * sizeof *kept->refused);
        refused = &kept->refused[kept->n_refused++];
        refused->name = strdup(name);
    }
    refused->n_members = n_members;
}

static Cube *cube_over_columns(Kept *kept, const SieveMember *members, int n_members, int *numbers)
{
    const char        *name = members[0].launch->woven->name;
    const RefusedCube *refused = refused_for(kept, name);
    if (refused && n_members >= refused->n_members) return NULL;
    Cube *cube = cube_for(kept, &over_columns, 0, members, n_members, numbers);
    if (!cube) note_refused(kept, name, n_members);
    return cube;
}

// Seats FIRST .. END have one kernel: those that fit the first of them become a cube, if it pays and its code is there.
static void make_cube(Seating *seating, const Chunk *chunk, Kept *kept, int first, int end)
{
    SieveMember *members = malloc(CUBE_MEMBERS * sizeof *members);
    int          n_members = 0;
    u64          rows_left = 0;
    CubeSeats    seats = { .gain = 0 };
    for (int s = first; s < end && n_members < CUBE_MEMBERS; s++) {
        members[n_members] = seating->seats[s].member;
        if (n_members && !cube_fits(&members[0], &members[n_members])) continue;       // some other time
        n_members++;
        rows_left = MAX_OF(rows_left, seating->seats[s].rows_left);
    }
    seats.numbers = calloc((size_t)n_members + 1, sizeof *seats.numbers);
    if (cube_pays(members, n_members, &seats.gain))
        seats.cube = cube_over_columns(kept, members, n_members, seats.numbers);
    if (seats.cube && cube_is_ready(seats.cube, rows_left)) seats.run = cube_open(seats.cube, chunk);
    for (int s = first, m = 0; s < end && m < n_members && seats.cube; s++) {
        if (seating->seats[s].member.ride != members[m].ride) continue;
        if (seats.run) seating->seats[s].as = WOVEN_CUBE, seating->seats[s].with = seating->n_cubes;
        else seating->seats[s].awaits_cube = true;
        m++;
    }
    seats.n_members = n_members;
    if (seats.run) seating->cubes[seating->n_cubes++] = seats;
    else give_up_cube(&seats);
    free(members);
}

static void make_cubes(Seating *seating, const Chunk *chunk, Kept *kept)
{
    qsort(seating->seats, (size_t)seating->n_seats, sizeof *seating->seats, by_kernel);
    int n_seats = 0;
    while (n_seats < seating->n_seats && is_for_cube(&seating->seats[n_seats])) n_seats++;
    for (int first = 0, end; first < n_seats; first = end) {
        const char *name = seating->seats[first].member.launch->woven->name;
        for (end = first + 1; end < n_seats; end++)
            if (strcmp(seating->seats[end].member.launch->woven->name, name) != 0) break;
        if (end - first < 2) continue;
        seating->cubes = realloc(seating->cubes, (size_t)(seating->n_cubes + 1) * sizeof *seating->cubes);
        make_cube(seating, chunk, kept, first, end);
    }
}

// ---- one body over joins --------------------------------------------------------------------------------------------

// Seats FIRST ..  END become a cube, if it pays and its code is there; NUMBER: of its shape.  Returns how many of them
// it is for, at most those, fewer where cells or classes would be too many; 0: it is for none.
static int make_join_cube(Seating *seating, const Chunk *chunk, Kept *kept, int first, int end, int number)
{
    SieveMember *members = malloc((size_t)(end - first) * sizeof *members);
    CubeSeats    seats = { .n_members = end - first };
    u64          rows_left = 0;
    int          n_sieved = 0;
    for (int s = 0; s < seating->n_seats; s++)
        n_sieved += seating->seats[s].suits_sieve && seating->seats[s].as == WOVEN_NOT;
    seats.numbers = calloc((size_t)(end - first), sizeof *seats.numbers);
    for (int s = first; s < end; s++) members[s - first] = seating->seats[s].member;
    while (seats.n_members > 1 && join_cube_pays(members, seats.n_members, n_sieved, &seats.gain) &&
           !(seats.cube = cube_for(kept, &over_joins, number, members, seats.n_members, seats.numbers)))
        seats.n_members /= 2;
    const int n_members = seats.cube ? seats.n_members : 0;
    for (int s = first; s < first + n_members; s++) rows_left = MAX_OF(rows_left, seating->seats[s].rows_left);
    if (seats.cube && cube_is_ready(seats.cube, rows_left)) seats.run = cube_open(seats.cube, chunk);
    for (int s = first; s < first + n_members; s++) {
        Seat *seat = &seating->seats[s];
        if (seats.run) seat->as = WOVEN_CUBE, seat->with = seating->n_cubes;
        else seat->awaits_cube = true;
    }
    if (seats.run) {
        seating->cubes = realloc(seating->cubes, (size_t)(seating->n_cubes + 1) * sizeof *seating->cubes);
        seating->cubes[seating->n_cubes++] = seats;
    } else {
        give_up_cube(&seats);
    }
    free(members);
    return n_members;
}

// WITH_PAYLOADS: only those that group by what they join.  The others are better off in a cube of stored columns, where
// its cells are few enough.
static void make_join_cubes(Seating *seating, const Chunk *chunk, Kept *kept, bool with_payloads)
{
    qsort(seating->seats, (size_t)seating->n_seats, sizeof *seating->seats, by_form);
    int n_seats = 0;
    while (n_seats < seating->n_seats && is_for_join_cube(&seating->seats[n_seats])) n_seats++;
    for (int first = 0, end; first < n_seats; first = end) {
        for (end = first + 1; end < n_seats; end++)
            if (!join_cube_fits(&seating->seats[first].member, &seating->seats[end].member)) break;
        if (with_payloads && !join_cube_has_payloads(seating->seats[first].member.form)) continue;
        for (int at = first, number = 0, n; end - at > 1; at += n, number++)
            if (!(n = make_join_cube(seating, chunk, kept, at, end, number))) break;
    }
}

// ---- fused ----------------------------------------------------------------------------------------------------------

static Fused *fused_for(Kept *kept, const SieveMember *members, int n_members)
{
    for (int f = 0; f < kept->n_fused; f++)
        if (fuse_is_for(kept->fused[f], members, n_members)) return fuse_hold(kept->fused[f]);
    return fuse_make(members, n_members);
}

static int by_text(const void *a, const void *b) { return by_kernel_and_steps(*(Seat *const *)a, *(Seat *const *)b); }

// What few rows pass may be done with less by a sieve, which needs no compiler, and takes one more with all others for
// next to nothing.  Measured
// with 64 SSB queries with random constants at SF 1: 181 ms where any gain was enough to fuse them, 104 where it has to
// be SIEVED_GAIN.
#define SIEVED_GAIN 2.0

static bool is_sieve_better(Seat *const *seats, int n_seats, double gain)
{
    SieveMember members[FUSE_MEMBERS];
    double      sieve_gain;
    int         n_sieved = 0;
    for (int s = 0; s < n_seats; s++) {
        members[s] = seats[s]->member;
        n_sieved += seats[s]->suits_sieve;
    }
    if (2 * n_sieved > n_seats && gain < SIEVED_GAIN) return true;
    return n_sieved == n_seats && sieve_pays(members, n_seats, &sieve_gain) && sieve_gain > gain;
}

// Those among SEATS that save most become one kernel.  They are put in the order of their kernels, so that the same
// queries give the same
// text in whatever order they came.  False when nobody is left who would save anything; else the rest are the first
// *N_SEATS.
static bool make_fused(Seating *seating, Kept *kept, Seat **seats, int *n_seats)
{
    SieveMember *candidates = malloc((size_t)*n_seats * sizeof *candidates), members[FUSE_MEMBERS];
    Seat        *chosen[FUSE_MEMBERS] = { 0 };
    int          numbers[FUSE_MEMBERS], n_left = 0;
    FusedSeats   fused = { 0 };
    for (int s = 0; s < *n_seats; s++) candidates[s] = seats[s]->member;
    const int n = fuse_choose(candidates, *n_seats, numbers, &fused.gain);
    free(candidates);
    for (int m = 0; m < n; m++) chosen[m] = seats[numbers[m]];
    if (!n || is_sieve_better(chosen, n, fused.gain)) return false;
    for (int m = 0; m < n; m++) {
        chosen[m]->as = WOVEN_FUSED, chosen[m]->with = seating->n_fused;
        fused.rows_left = MAX_OF(fused.rows_left, chosen[m]->rows_left);
    }
    for (int s = 0; s < *n_seats; s++)
        if (seats[s]->as != WOVEN_FUSED) seats[n_left++] = seats[s];
    *n_seats = n_left;
    qsort(chosen, (size_t)n, sizeof *chosen, by_text);
    for (int m = 0; m < n; m++) members[m] = chosen[m]->member;
    fused.n_members = n;
    fused.fused = fused_for(kept, members, n);
    seating->fused = realloc(seating->fused, (size_t)(seating->n_fused + 1) * sizeof *seating->fused);
    seating->fused[seating->n_fused++] = fused;
    return true;
}

// What was not ready yet stays with the scan, and is looked at again when the next chunk is opened.
static void keep_fused(Seating *seating, Kept *kept)
{
    for (int f = 0; f < kept->n_fused; f++) fuse_release(kept->fused[f]);
    kept->fused = realloc(kept->fused, (size_t)(seating->n_fused + 1) * sizeof *kept->fused);
    kept->n_fused = seating->n_fused;
    for (int f = 0; f < seating->n_fused; f++) kept->fused[f] = fuse_hold(seating->fused[f].fused);
    int n_ready = 0;
    for (int f = 0; f < seating->n_fused; f++) {
        const bool is_ready = fuse_is_ready(seating->fused[f].fused, seating->fused[f].rows_left);
        for (int s = 0; s < seating->n_seats; s++) {
            Seat *seat = &seating->seats[s];
            if (seat->as != WOVEN_FUSED || seat->with != f) continue;
            if (is_ready) seat->with = n_ready;
            else seat->as = WOVEN_NOT, seat->with = -1;
        }
        if (is_ready) seating->fused[n_ready++] = seating->fused[f];
        else fuse_release(seating->fused[f].fused);
    }
    seating->n_fused = n_ready;
}

// Among many queries of many shapes it takes long to choose, each pair is compared, and others are chosen each time:
// their code is never there.  So after each time in vain it is tried less often.
static bool should_choose(Kept *kept, int n_seats)
{
    if (n_seats < 2) return false;
    if (n_seats <= FEW_FUSED || !kept->n_unfused) return true;
    kept->n_unfused--;
    return false;
}

static void note_choice(Kept *kept, bool was_chosen, bool any_ready)
{
    if (any_ready) kept->n_in_vain = kept->n_unfused = 0;
    else if (was_chosen && ++kept->n_in_vain > MANY_VAIN)
        kept->n_unfused = 1 << MIN_OF(kept->n_in_vain - MANY_VAIN, MOST_WAIT);
}

static void make_all_fused(Seating *seating, Kept *kept)
{
    Seat **seats = malloc((size_t)seating->n_seats * sizeof *seats);
    int    n_seats = 0;
    for (int s = 0; s < seating->n_seats; s++)
        if (seating->seats[s].as == WOVEN_NOT && seating->seats[s].member.steps && !seating->seats[s].awaits_cube)
            seats[n_seats++] = &seating->seats[s];
    if (should_choose(kept, n_seats))
        while (n_seats > 1 && seating->n_fused < MOST_FUSED && make_fused(seating, kept, seats, &n_seats)) {}
    const bool was_chosen = seating->n_fused > 0;
    keep_fused(seating, kept);
    note_choice(kept, was_chosen, seating->n_fused > 0);
    free(seats);
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

static bool make_group(Seating *seating, Kept *kept, int first_seat, int n_members)
{
    SieveMember members[SIEVE_MEMBERS];
    Group      *group = &seating->groups[seating->n_groups];
    for (int m = 0; m < n_members; m++) {
        members[m] = seating->seats[first_seat + m].member;
        group->chunks[m] = seating->seats[first_seat + m].chunk;
    }
    if (!sieve_pays(members, n_members, &group->gain)) return false;
    group->set = set_for(kept, seating->n_groups, members, n_members);
    group->n_members = n_members;
    return group->set != NULL;
}

// Seats n_plain .. END are to be sieved together.
static void make_groups(Seating *seating, Kept *kept, int end)
{
    int at = seating->n_plain;
    seating->groups = calloc((size_t)((end - at) / SIEVE_MEMBERS + 1), sizeof *seating->groups);
    while (at < end && make_group(seating, kept, at, MIN_OF(end - at, SIEVE_MEMBERS))) {
        at += seating->groups[seating->n_groups].n_members;
        seating->n_groups++;
    }
    for (int s = at; s < end; s++) {                           // did not pay: side by side
        const Seat seat = seating->seats[s];
        memmove(&seating->seats[seating->n_plain + 1], &seating->seats[seating->n_plain],
                (size_t)(s - seating->n_plain) * sizeof seat);
        seating->seats[seating->n_plain++] = seat;
    }
}

// ---- all of them ----------------------------------------------------------------------------------------------------

const char *woven_as_name(WovenAs as)
{
    static const char *const names[] = { [WOVEN_SIEVE] = "sieved", [WOVEN_FUSED] = "fused", [WOVEN_CUBE] = "one body" };
    return names[as];
}

bool seats_may_weave(const Seating *seating)
{
    int n_suit = 0;
    for (int s = 0; s < seating->n_seats; s++)
        n_suit += seating->seats[s].suits_sieve || seating->seats[s].suits_cube ||
                  seating->seats[s].suits_join_cube || seating->seats[s].member.steps;
    return n_suit > 1;
}

static int *chunks_of(const Seating *seating, int first_seat, int n_seats)
{
    int *chunks = malloc((size_t)n_seats * sizeof *chunks);
    for (int s = 0; s < n_seats; s++) chunks[s] = seating->seats[first_seat + s].chunk;
    return chunks;
}

// Where the seats of each cube and fused kernel are, now that they are in order.
static void place_seats(Seating *seating)
{
    int seat = seating->n_seats;
    for (int c = seating->n_cubes - 1; c >= 0; c--) {
        CubeSeats *seats = &seating->cubes[c];
        seats->first_seat = seat -= seats->n_members;
        seats->chunks = chunks_of(seating, seat, seats->n_members);
    }
    for (int f = seating->n_fused - 1; f >= 0; f--) {
        FusedSeats *seats = &seating->fused[f];
        seats->first_seat = seat -= seats->n_members;
        seats->chunks = chunks_of(seating, seat, seats->n_members);
    }
}

void seats_weave(Seating *seating, const Chunk *chunk, Kept *kept)
{
    int n_sieved = 0, n_one_kernel = 0;
    make_join_cubes(seating, chunk, kept, true);
    make_cubes(seating, chunk, kept);
    make_join_cubes(seating, chunk, kept, false);
    make_all_fused(seating, kept);
    for (int s = 0; s < seating->n_seats; s++) {
        Seat *seat = &seating->seats[s];
        if (seat->as == WOVEN_CUBE || seat->as == WOVEN_FUSED) n_one_kernel++;
        else seat->as = seat->suits_sieve ? WOVEN_SIEVE : WOVEN_NOT, seat->with = -1, n_sieved += seat->suits_sieve;
    }
    qsort(seating->seats, (size_t)seating->n_seats, sizeof *seating->seats, by_way);
    place_seats(seating);
    seating->n_plain = seating->n_seats - n_sieved - n_one_kernel;
    if (n_sieved > 1) make_groups(seating, kept, seating->n_plain + n_sieved);
    else seating->n_plain += n_sieved;
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
    for (int r = 0; r < kept->n_refused; r++) free(kept->refused[r].name);
    free(kept->refused);
    free(kept->fused);
    free(kept->cubes);
    free(kept->sets);
}
