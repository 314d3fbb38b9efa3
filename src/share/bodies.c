// bodies.c - riders of one shape as one body: who with whom, over columns or over joins, and how many at a time.
//
// Riders are sorted by the hash of their shape, so the work grows with the number of riders, not with its square.
// Where the device says that riders of one hash do not fit, they are several groups.
//
// A rider can suit both kinds of bodies.  A body over joins may take riders with different join tables, a body over
// columns is cheaper for those with the same.  So for each group over joins, what it is expected to cost is weighed
// against what its riders would cost in bodies over columns, or without one.
//
// Where the cells of a body do not fit, half of its riders are tried, and the others are the next body; but riders of a
// body over columns first see whether one over joins takes all of them.  How many fitted last time is kept, and how
// many did not, so that what is known to fail is not tried each time.

#include "share/choose_int.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define SIEVE_GAIN   1.1               // over the same riders in a sieve: estimates are off by as much,
#define FIRST_GAIN   1.1               // and over bodies over columns
#define APART_MOST   8                 // groups of one hash; the others are in none
#define TRIED_AGAIN  64                // choices until more riders are tried than fitted
#define ROOMS_MOST   1024              // shapes that something is kept about

typedef struct BodyGroup {
    ShareWay way;
    u64      hash;
    int      n;
    int     *list;                     // numbers of riders
    int      n_asked;
    bool     is_first;                 // over joins: tried before those over columns
    bool     was_refused;              // over columns: all of them do not fit
    bool     is_asked, has_met;        // whether they have met; they are asked once
    int      n_judged;                 // over joins: the first so many of these riders were judged; 0: none were
    double   judged_ns;                // what the run takes as one body of them, but for making it
} BodyGroup;

typedef struct BodyGroups { int n; BodyGroup *groups; } BodyGroups;

// ---- groups ---------------------------------------------------------------------------------------------------------

typedef struct BodyKey { u64 hash, class, number; int rider; } BodyKey;

static int by_key(const void *a, const void *b)
{
    const BodyKey *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static BodyKey *list_keys(const Choosing *choosing, ShareWay way, int *n)
{
    BodyKey *keys = malloc(((size_t)choosing->n_riders + 1) * sizeof *keys);
    *n = 0;
    for (int r = 0; r < choosing->n_riders; r++) {
        const ShareRider *rider = &choosing->riders[r];
        if (!suits(choosing, r, way)) continue;
        keys[(*n)++] = way == SHARE_JOINS
                           ? (BodyKey){ rider->member.form->hash, (u64)rider->sees, rider->number, r }
                           : (BodyKey){ rider->shape, (u64)rider->wants, rider->number, r };
    }
    qsort(keys, (size_t)*n, sizeof *keys, by_key);
    return keys;
}

// Those of N keys that fit the first become a group, the others are moved to the front.  Returns how many these are.
static int cut_group(const Choosing *choosing, ShareWay way, BodyKey *keys, int n, BodyGroup *group)
{
    const ShareWays  *ways = choosing->ways;
    const ShareRider *first = &choosing->riders[keys[0].rider];
    int               n_left = 0;
    *group = (BodyGroup){ .way = way, .hash = keys[0].hash, .list = arena_array(choosing->arena, int, n) };
    for (int k = 0; k < n; k++) {
        if (k == 0 || ways->fits(ways->device, way, first, &choosing->riders[keys[k].rider]))
            group->list[group->n++] = keys[k].rider;
        else keys[n_left++] = keys[k];
    }
    return n_left;
}

// A rider that would have to make something to ride alone may be in a body by itself.
static int least_of(const Choosing *choosing, ShareWay way, int rider)
{
    return way == SHARE_JOINS && choosing->riders[rider].own_ns > 0 ? 1 : choosing->ways->limits[way].least;
}

static BodyGroups list_groups(const Choosing *choosing, ShareWay way)
{
    BodyGroups groups = { 0 };
    int        n;
    if (!has_units_left(choosing, way)) return groups;
    BodyKey *keys = list_keys(choosing, way, &n);
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n; end++)
            if (keys[end].hash != keys[first].hash || keys[end].class != keys[first].class) break;
        int n_left = end - first;
        for (int g = 0; g < APART_MOST && n_left > 0; g++) {
            BodyGroup group;
            n_left = cut_group(choosing, way, keys + first, n_left, &group);
            if (group.n >= least_of(choosing, way, group.list[0]))
                *LIST_PUSH(choosing->arena, groups.groups, groups.n) = group;
        }
    }
    free(keys);
    return groups;
}

// The first N of its list are left; where others are gone, what was judged was not these.
static void set_size(BodyGroup *group, int n)
{
    if (n != group->n) group->n_judged = 0;
    group->n = n;
}

// Riders that found something else, or wait for it, are gone.
static void keep_left(const Choosing *choosing, BodyGroup *group)
{
    int n = 0;
    for (int i = 0; i < group->n; i++)
        if (!choosing->is_taken[group->list[i]] && !choosing->awaits[group->list[i]]) group->list[n++] = group->list[i];
    set_size(group, n);
}

// ---- whether it pays ------------------------------------------------------------------------------------------------

static double own_ns(const Choosing *choosing, const int *list, int n)
{
    double ns = 0;
    for (int i = 0; i < n; i++) ns += choosing->riders[list[i]].own_ns;
    return ns;
}

static double alone_ns(const Choosing *choosing, const int *list, int n)
{
    double ns = 0;
    for (int i = 0; i < n; i++) ns += choosing->riders[list[i]].facts->alone;
    return ns;
}

static bool pays_over_columns(const Choosing *choosing, const int *list, int n, double *gain)
{
    const ShareCosts *costs = choosing->ways->costs;
    *gain = alone_ns(choosing, list, n) / cost_columns(costs, choosing->riders[list[0]].facts);
    return *gain >= costs->least_columns;
}

static double run_ns(const Choosing *choosing, double row_ns, int n_launches)
{
    return row_ns * choosing->ways->rows + choosing->ways->costs->launch * n_launches;
}

// A device may have few sieves, for so many riders each: of those that suit one, how many find a place.
static double share_sieved(const Choosing *choosing)
{
    const ShareLimits *limits = &choosing->ways->limits[SHARE_SIEVED];
    const double       most = limits->units ? (double)limits->units * limits->most : INFINITY;
    return fmin(1, most / MAX_OF(choosing->n_sieved, 1));
}

// What the riders cost in sieves, those that suit one, and alone.
static double apart_ns(const Choosing *choosing, const int *list, int n)
{
    const ShareFacts **sieved = malloc((size_t)n * sizeof *sieved);
    const int          n_launches = n + 2;
    int                n_sieved = 0;
    double             ns = 0;
    for (int i = 0; i < n; i++)
        if (suits(choosing, list[i], SHARE_SIEVED)) sieved[n_sieved++] = choosing->riders[list[i]].facts;
        else ns += choosing->riders[list[i]].facts->alone;
    if (n_sieved) {
        const double taken = share_sieved(choosing);
        ns += taken * cost_sieve_part(choosing->ways->costs, sieved, n_sieved, choosing->n_sieved);
        for (int i = 0; i < n_sieved; i++) ns += (1 - taken) * sieved[i]->alone;
    }
    free(sieved);
    return run_ns(choosing, ns, n_launches) + own_ns(choosing, list, n);
}

static SlotMember *members_of(const Choosing *choosing, const int *list, int n)
{
    SlotMember *members = malloc((size_t)n * sizeof *members);
    for (int i = 0; i < n; i++) members[i] = choosing->riders[list[i]].member;
    return members;
}

// Two launches: the body's, and one that adds up cells.
static double join_run_ns(const Choosing *choosing, const SlotMember *members, int n)
{
    const ShareCosts *costs = choosing->ways->costs;
    double            looks[CUBE_TESTS];
    int               order[CUBE_TESTS] = { 0 };
    cost_join_looks(costs, &members[0], looks);
    slots_order(members, n, looks, false, order);
    return run_ns(choosing, cost_joins(costs, members, n, order), 2);
}

// A group is judged twice: before what it needs is made, and when it is made.  Each member is far apart in memory, so
// what is the same both times is kept.
static double joins_ns(const Choosing *choosing, BodyGroup *group, const int *list, int n)
{
    const ShareWays   *ways = choosing->ways;
    SlotMember        *members = members_of(choosing, list, n);
    const ShareRider **riders = choosing_riders(choosing, list, n);
    bool               is_all = false;
    if (list != group->list || group->n_judged != n) {
        group->judged_ns = join_run_ns(choosing, members, n);
        group->n_judged = list == group->list ? n : 0;
    }
    const Slots *before = ways->made ? ways->made(ways->device, riders, n, &is_all) : NULL;
    const double ns = group->judged_ns + (is_all ? 0 : cost_making(ways->costs, members, n, before));
    free(riders);
    free(members);
    return ns;
}

static bool pays_over_joins(const Choosing *choosing, BodyGroup *group, const int *list, int n, double *gain)
{
    const double alone = run_ns(choosing, alone_ns(choosing, list, n), n) + own_ns(choosing, list, n),
                 together = joins_ns(choosing, group, list, n);
    *gain = alone / together;
    return *gain >= choosing->ways->costs->least_joins && apart_ns(choosing, list, n) >= SIEVE_GAIN * together;
}

// ---- how many fit ---------------------------------------------------------------------------------------------------

static ShareRoom *find_room(const ShareKept *kept, const BodyGroup *group)
{
    for (int r = 0; r < kept->n_rooms; r++)
        if (kept->rooms[r].shape == group->hash && kept->rooms[r].way == (int)group->way) return &kept->rooms[r];
    return NULL;
}

static ShareRoom *new_room(ShareKept *kept, const BodyGroup *group)
{
    if (kept->n_rooms == ROOMS_MOST) kept->n_rooms = 0;
    if (!kept->rooms) kept->rooms = calloc(ROOMS_MOST, sizeof *kept->rooms);
    ShareRoom *room = &kept->rooms[kept->n_rooms++];
    *room = (ShareRoom){ .shape = group->hash, .way = (int)group->way, .n_most = INT_MAX, .n_refused = INT_MAX };
    return room;
}

// As many as fitted are tried again, and a few more as long as so many were not refused: riders that find the same body
// from choice to choice need no new one.
static void note_room(Choosing *choosing, const BodyGroup *group, int n, ShareMade made)
{
    ShareRoom *room = find_room(choosing->kept, group);
    if (made == SHARE_TOO_MANY) {
        if (!room) room = new_room(choosing->kept, group);
        if (room->n_fitted >= n) room->n_fitted = 0;
        room->n_refused = MIN_OF(room->n_refused, n);
        room->n_most = MIN_OF(room->n_most, room->n_fitted ? room->n_fitted : n / 2), room->n_passed_over = 0;
    } else if (room && made != SHARE_NO && n >= room->n_most) {
        const int more = room->n_most + room->n_most / 4 + 1;
        room->n_fitted = n;
        if (more < room->n_refused) room->n_most = more, room->n_passed_over = 0;
    }
}

// Of N riders, those that may find room.
static int most_of(Choosing *choosing, const BodyGroup *group, int n)
{
    const ShareLimits *limits = &choosing->ways->limits[group->way];
    ShareRoom         *room = find_room(choosing->kept, group);
    n = MIN_OF(n, limits->most);
    if (!room || n <= room->n_most) return n;
    if (++room->n_passed_over < TRIED_AGAIN) return room->n_most;
    room->n_most = MAX_OF(limits->least, 2 * room->n_most), room->n_refused = INT_MAX, room->n_passed_over = 0;
    return MIN_OF(n, room->n_most);
}

// ---- making them ----------------------------------------------------------------------------------------------------

static bool pays(const Choosing *choosing, BodyGroup *group, const int *list, int n, double *gain)
{
    return group->way == SHARE_JOINS ? pays_over_joins(choosing, group, list, n, gain)
                                     : pays_over_columns(choosing, list, n, gain);
}

static ShareMade make_body(Choosing *choosing, BodyGroup *group, const int *list, int n, double gain)
{
    const ShareMade made = choosing_make(choosing, group->way, list, n, group->n_asked, gain, false);
    note_room(choosing, group, n, made);
    if (made == SHARE_LATER)
        for (int i = 0; i < n; i++) choosing->awaits[list[i]] = true;
    return made;
}

// A body for as many of them as fit.  IN_PARTS: else all of them, or none.  Returns how many it is for.
static int make_largest(Choosing *choosing, BodyGroup *group, const int *list, int n, bool in_parts)
{
    const int least = least_of(choosing, group->way, list[0]),
              wanted = MIN_OF(n, choosing->ways->limits[group->way].most);
    double    gain;
    for (n = most_of(choosing, group, n); n >= least && (in_parts || n == wanted); n /= 2) {
        if (!pays(choosing, group, list, n, &gain)) return 0;
        if (make_body(choosing, group, list, n, gain) >= SHARE_LATER) {
            group->n_asked++;
            return n;
        }
    }
    group->was_refused = true;
    return 0;
}

static void await_all(Choosing *choosing, const BodyGroup *group)
{
    for (int i = 0; i < group->n; i++) choosing->awaits[group->list[i]] = true;
}

// Riders meet whether they can be in a body now or not: only then is its code made, and what they need is fetched.
static bool ask_whether_met(Choosing *choosing, BodyGroup *group)
{
    const ShareWays *ways = choosing->ways;
    ShareMade        made = SHARE_DONE;
    int              n = 0;
    if (ways->meet) {
        const ShareRider **riders = choosing_riders(choosing, group->list, group->n);
        made = ways->meet(ways->device, group->way, riders, group->n);
        free(riders);
    }
    if (made == SHARE_LATER) await_all(choosing, group);
    if (made != SHARE_DONE) return false;
    for (int i = 0; i < group->n; i++)
        if (!ways->can || ways->can(ways->device, group->way, &choosing->riders[group->list[i]]))
            group->list[n++] = group->list[i];
    set_size(group, n);
    return true;
}

static bool have_met(Choosing *choosing, BodyGroup *group)
{
    if (!group->is_asked) group->has_met = ask_whether_met(choosing, group);
    group->is_asked = true;
    return group->has_met;
}

static void make_bodies(Choosing *choosing, BodyGroup *group, bool in_parts)
{
    keep_left(choosing, group);
    const int least = group->n ? least_of(choosing, group->way, group->list[0]) : 1;
    if (group->n < least || !has_units_left(choosing, group->way) || !have_met(choosing, group)) return;
    for (int at = 0, n; group->n - at >= least && has_units_left(choosing, group->way); at += n)
        if (!(n = make_largest(choosing, group, group->list + at, group->n - at, in_parts))) return;
}

// ---- making what they need ahead ------------------------------------------------------------------------------------

// The first body of a group, as make_largest will ask for it, but for what was not tried for long.
static ShareAsk expect_ask(const Choosing *choosing, const BodyGroup *group)
{
    const ShareRoom *room = find_room(choosing->kept, group);
    int              n = MIN_OF(group->n, choosing->ways->limits[group->way].most);
    if (room) n = MIN_OF(n, room->n_most);
    return (ShareAsk){ .way = group->way, .n_riders = n, .riders = choosing_riders(choosing, group->list, n) };
}

static void prepare_bodies(Choosing *choosing, const BodyGroups *joins)
{
    const ShareWays   *ways = choosing->ways;
    const ShareLimits *limits = &ways->limits[SHARE_JOINS];
    ShareAsk          *asks = ways->prepare ? calloc((size_t)joins->n + 1, sizeof *asks) : NULL;
    int                n = 0;
    for (int g = 0; asks && g < joins->n && (!limits->units || n < limits->units); g++) {
        BodyGroup *group = &joins->groups[g];
        if (group->is_first && have_met(choosing, group) && group->n &&
            group->n >= least_of(choosing, SHARE_JOINS, group->list[0]))
            asks[n++] = expect_ask(choosing, group);
    }
    if (n > 1) ways->prepare(ways->device, asks, n);
    for (int a = 0; a < n; a++) free((void *)(uintptr_t)asks[a].riders);
    free(asks);
}

// ---- which kind -----------------------------------------------------------------------------------------------------

// By rider, per row: its part of what a body over columns is expected to cost; -1: there is none for it.
static double *expect_parts(const Choosing *choosing, const BodyGroups *columns)
{
    double *parts = arena_array(choosing->arena, double, choosing->n_riders + 1), gain;
    for (int r = 0; r < choosing->n_riders; r++) parts[r] = -1;
    for (int g = 0; g < columns->n; g++) {
        const BodyGroup *group = &columns->groups[g];
        const ShareRoom *room = find_room(choosing->kept, group);
        const int        n = MIN_OF(group->n, choosing->ways->limits[SHARE_COLUMNS].most);
        if ((room && room->n_most < n) || !pays_over_columns(choosing, group->list, n, &gain)) continue;
        const double part = cost_columns(choosing->ways->costs, choosing->riders[group->list[0]].facts) / n;
        for (int i = 0; i < group->n; i++) parts[group->list[i]] = part;
    }
    return parts;
}

// Whether a body over joins is expected to cost less than its riders in bodies over columns, and without one.
static bool beats_columns(const Choosing *choosing, BodyGroup *group, const double *parts)
{
    int   *others = malloc((size_t)group->n * sizeof *others), n_others = 0;
    double ns = 0;
    for (int i = 0; i < group->n; i++)
        if (parts[group->list[i]] >= 0) ns += parts[group->list[i]];
        else others[n_others++] = group->list[i];
    ns = run_ns(choosing, ns, 0);
    if (n_others) ns += MIN_OF(apart_ns(choosing, others, n_others),
                               run_ns(choosing, alone_ns(choosing, others, n_others), n_others) +
                                   own_ns(choosing, others, n_others));
    free(others);
    return ns > FIRST_GAIN * joins_ns(choosing, group, group->list, group->n);
}

static bool suit_joins(const Choosing *choosing, const BodyGroup *group)
{
    for (int i = 0; i < group->n; i++)
        if (!suits(choosing, group->list[i], SHARE_JOINS)) return false;
    return true;
}

void choose_bodies(Choosing *choosing)
{
    BodyGroups    columns = list_groups(choosing, SHARE_COLUMNS), joins = list_groups(choosing, SHARE_JOINS);
    const double *parts = expect_parts(choosing, &columns);
    for (int g = 0; g < joins.n; g++) joins.groups[g].is_first = beats_columns(choosing, &joins.groups[g], parts);
    prepare_bodies(choosing, &joins);
    for (int g = 0; g < joins.n; g++)
        if (joins.groups[g].is_first) make_bodies(choosing, &joins.groups[g], true);
    for (int g = 0; g < columns.n; g++)
        make_bodies(choosing, &columns.groups[g], !suit_joins(choosing, &columns.groups[g]));
    for (int g = 0; g < joins.n; g++)
        if (!joins.groups[g].is_first) make_bodies(choosing, &joins.groups[g], true);
    for (int g = 0; g < columns.n; g++)
        if (columns.groups[g].was_refused) make_bodies(choosing, &columns.groups[g], true);
}
