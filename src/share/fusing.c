// fusing.c - whose kernels become one.
//
// By what they save (a CPU): the two that save most, then always the one that adds most to what is saved, until nobody
// does or the members' memory together is too much.  Each pair is compared, so among many it takes long, and others are
// chosen each time, whose code is never there: after each time in vain it is tried less often.
//
// By text (a GPU, where only columns are shared, and a compile takes long): riders of one text go together in a few
// sizes, so that there are few texts.  Different texts get partners for life when they first meet, those with whom they
// have most columns in common: the same dashboards meet again and again, in another order each time.
//
// What few rows pass may be done with less by a sieve, which takes one more with all others for next to nothing.
// Measured on a CPU with 64 SSB queries with random constants at SF 1: 181 ms where any gain was enough to fuse them,
// 104 where it has to be SIEVED_GAIN.

#include "share/choose_int.h"

#include <stdlib.h>

#define SIEVED_GAIN     2.0
#define MEMBERS_MOST    16
#define CANDIDATES_MOST 128            // looked at pair by pair
#define FEW_FUSED       32             // riders to choose from.  Among more, when it was in vain
#define MANY_VAIN       8              // times in a row, choices are left out, 2, then 4,
#define MOST_WAIT       5              // up to 2 to the power of this
#define PARTNERS_MOST   1024           // sets of partners; later texts get none
#define TEXTS_MOST      8              // of a set
#define ALIKE_LEAST     0.5            // of the columns that partners read, those that both do

struct SharePartners {                 // texts that go together
    int            n;
    u64            texts[TEXTS_MOST];
    u64            columns;            // bit per column of the table, of all of them
    SharePartners *next;
};

void share_kept_free(ShareKept *kept)
{
    for (SharePartners *partners = kept->partners, *next; partners; partners = next) {
        next = partners->next;
        free(partners);
    }
    free(kept->rooms);
    *kept = (ShareKept){ 0 };
}

static const ShareRider *rider_at(const Choosing *choosing, int r) { return &choosing->riders[r]; }

static int list_candidates(const Choosing *choosing, int *list)
{
    int n = 0;
    for (int r = 0; r < choosing->n_riders; r++)
        if (suits(choosing, r, SHARE_FUSED) && !choosing->is_taken[r] && !choosing->awaits[r] &&
            !choosing->was_fused[r])
            list[n++] = r;
    return n;
}

// ---- by what they save ----------------------------------------------------------------------------------------------

static FuseCosts costs_of(const Choosing *choosing, const int *list, int n)
{
    const ShareFacts *facts[MEMBERS_MOST];
    const FuseSteps  *steps[MEMBERS_MOST];
    ASSERT(n <= MEMBERS_MOST);
    for (int m = 0; m < n; m++) {
        facts[m] = rider_at(choosing, list[m])->facts;
        steps[m] = rider_at(choosing, list[m])->steps;
    }
    return cost_fused(choosing->ways->costs, facts, n && steps[0] ? steps : NULL, n);
}

static double saved_ns(const Choosing *choosing, const int *list, int n)
{
    const FuseCosts costs = costs_of(choosing, list, n);
    return costs.alone - costs.together;
}

static bool share_nothing(const FuseSteps *a, const FuseSteps *b)
{
    for (int s = 0; s < a->n_steps; s++)
        if (weave_has_step(b->steps, b->n_steps, &a->steps[s])) return false;
    return true;
}

static bool may_meet(const Choosing *choosing, int a, int b, u64 bytes)
{
    const ShareWays  *ways = choosing->ways;
    const ShareRider *x = rider_at(choosing, a), *y = rider_at(choosing, b);
    return bytes + y->fuse_bytes <= ways->fuse_bytes && !share_nothing(x->steps, y->steps) &&
           ways->fits(ways->device, SHARE_FUSED, x, y);
}

static bool best_pair(const Choosing *choosing, const int *candidates, int n, int *chosen, double *saved)
{
    *saved = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            const int pair[] = { candidates[a], candidates[b] };
            if (!may_meet(choosing, pair[0], pair[1], rider_at(choosing, pair[0])->fuse_bytes)) continue;
            const double own = saved_ns(choosing, pair, 2);
            if (own > *saved) *saved = own, chosen[0] = pair[0], chosen[1] = pair[1];
        }
    return *saved > 0;
}

static bool is_among(const int *list, int n, int rider)
{
    for (int i = 0; i < n; i++)
        if (list[i] == rider) return true;
    return false;
}

// Puts the candidate that adds most at the end of the chosen ones; false when none adds anything.
static bool add_best(const Choosing *choosing, const int *candidates, int n, int *chosen, int n_chosen, u64 bytes,
                     double *saved)
{
    const double before = *saved;
    int          best = -1;
    for (int c = 0; c < n; c++) {
        if (is_among(chosen, n_chosen, candidates[c]) || !may_meet(choosing, chosen[0], candidates[c], bytes)) continue;
        chosen[n_chosen] = candidates[c];
        const double own = saved_ns(choosing, chosen, n_chosen + 1);
        if (own > *saved) *saved = own, best = candidates[c];
    }
    if (best >= 0) chosen[n_chosen] = best;
    return *saved > before;
}

static int find_members(const Choosing *choosing, const int *candidates, int n_candidates, int *chosen, double *gain)
{
    const ShareWays *ways = choosing->ways;
    const int        most = MIN_OF(ways->limits[SHARE_FUSED].most, MEMBERS_MOST);
    double           saved;
    int              n = 2;
    n_candidates = MIN_OF(n_candidates, CANDIDATES_MOST);
    if (!best_pair(choosing, candidates, n_candidates, chosen, &saved)) return 0;
    u64 bytes = rider_at(choosing, chosen[0])->fuse_bytes + rider_at(choosing, chosen[1])->fuse_bytes;
    while (n < most && add_best(choosing, candidates, n_candidates, chosen, n, bytes, &saved))
        bytes += rider_at(choosing, chosen[n++])->fuse_bytes;
    const FuseCosts costs = costs_of(choosing, chosen, n);
    *gain = costs.alone / costs.together;
    return *gain >= ways->costs->least_fused ? n : 0;
}

static bool is_sieve_better(const Choosing *choosing, const int *list, int n, double gain)
{
    int n_sieved = 0;
    for (int i = 0; i < n; i++) n_sieved += suits(choosing, list[i], SHARE_SIEVED);
    if (!choosing->ways->limits[SHARE_SIEVED].most) return false;
    if (2 * n_sieved > n && gain < SIEVED_GAIN) return true;
    if (n_sieved < n) return false;
    const double sieve_gain = choosing_sieve_gain(choosing, list, n);
    return sieve_gain >= choosing->ways->costs->least_sieve && sieve_gain > gain;
}

// By kernel, then by what it is handed, so that the same riders give the same text in whatever order they came.
static bool comes_before(const Choosing *choosing, int a, int b)
{
    const ShareRider *x = rider_at(choosing, a), *y = rider_at(choosing, b);
    const int         order = strcmp(x->member.woven->name, y->member.woven->name);
    if (order) return order < 0;
    return x->steps->hash != y->steps->hash ? x->steps->hash < y->steps->hash : x->number < y->number;
}

static void sort_members(const Choosing *choosing, int *list, int n)
{
    for (int i = 1; i < n; i++)
        for (int at = i; at > 0 && comes_before(choosing, list[at], list[at - 1]); at--) {
            const int swap = list[at];
            list[at] = list[at - 1], list[at - 1] = swap;
        }
}

// Those among the candidates that save most become one kernel.  False when nobody is left who would save anything.
static bool fuse_best(Choosing *choosing, int *candidates, int *n_candidates, bool beats_sieve, bool *was_chosen)
{
    int       chosen[MEMBERS_MOST + 1], n_left = 0;
    double    gain;
    const int n = find_members(choosing, candidates, *n_candidates, chosen, &gain);
    if (!n) return false;
    if (beats_sieve && is_sieve_better(choosing, chosen, n, gain)) {
        choosing->left_to_sieve = true;
        return false;
    }
    *was_chosen = true;
    sort_members(choosing, chosen, n);
    choosing_make(choosing, SHARE_FUSED, chosen, n, choosing->n_made[SHARE_FUSED], gain, false);
    for (int m = 0; m < n; m++) choosing->was_fused[chosen[m]] = true;
    for (int c = 0; c < *n_candidates; c++)
        if (!choosing->was_fused[candidates[c]]) candidates[n_left++] = candidates[c];
    *n_candidates = n_left;
    return true;
}

static bool should_choose(ShareKept *kept, int n_candidates)
{
    if (n_candidates < 2) return false;
    if (n_candidates <= FEW_FUSED || !kept->n_unfused) return true;
    kept->n_unfused--;
    return false;
}

static void note_choice(ShareKept *kept, bool was_chosen, bool any_ready)
{
    if (any_ready) kept->n_in_vain = kept->n_unfused = 0;
    else if (was_chosen && ++kept->n_in_vain > MANY_VAIN)
        kept->n_unfused = 1 << MIN_OF(kept->n_in_vain - MANY_VAIN, MOST_WAIT);
}

static void fuse_by_savings(Choosing *choosing, bool beats_sieve)
{
    const ShareLimits *limits = &choosing->ways->limits[SHARE_FUSED];
    int               *list = arena_array(choosing->arena, int, choosing->n_riders + 1);
    int                n = list_candidates(choosing, list), n_tried = 0;
    const int          n_before = choosing->n_made[SHARE_FUSED];
    bool               was_chosen = false;
    if (should_choose(choosing->kept, n))
        while (n > 1 && n_tried++ < limits->units && has_units_left(choosing, SHARE_FUSED) &&
               fuse_best(choosing, list, &n, beats_sieve, &was_chosen)) {}
    note_choice(choosing->kept, was_chosen, choosing->n_made[SHARE_FUSED] > n_before);
}

// ---- by text --------------------------------------------------------------------------------------------------------

static u64 column_bits(const ShareFacts *facts)
{
    u64 bits = 0;
    for (int c = 0; c < facts->n_columns; c++) bits |= (u64)1 << (facts->columns[c].number & 63);
    return bits;
}

static bool fuse_these(Choosing *choosing, const int *list, int n, bool is_alike)
{
    const ShareFacts *facts[TEXTS_MOST];
    u64               bytes = 0;
    ASSERT(n > 1 && n <= TEXTS_MOST);
    for (int i = 0; i < n; i++) {
        facts[i] = rider_at(choosing, list[i])->facts;
        bytes += rider_at(choosing, list[i])->fuse_bytes;
    }
    if (bytes > choosing->ways->fuse_bytes || !has_units_left(choosing, SHARE_FUSED)) return false;
    const FuseCosts costs = cost_fused(choosing->ways->costs, facts, NULL, n);
    const double    gain = costs.together > 0 ? costs.alone / costs.together : 1;
    if (gain < choosing->ways->costs->least_fused) return false;
    return choosing_make(choosing, SHARE_FUSED, list, n, 0, gain, is_alike) == SHARE_DONE;
}

typedef struct FuseKey { u64 text, number; int rider; } FuseKey;

static int by_text(const void *a, const void *b)
{
    const FuseKey *x = a, *y = b;
    if (x->text != y->text) return x->text < y->text ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// Of one text, from FIRST to END.
static void fuse_alike(Choosing *choosing, const FuseKey *keys, int first, int end)
{
    for (const int *size = choosing->ways->fuse_sizes; *size; size++)
        for (; end - first >= *size; first += *size) {
            int list[TEXTS_MOST];
            for (int i = 0; i < *size; i++) list[i] = keys[first + i].rider;
            if (!fuse_these(choosing, list, *size, true)) break;
        }
}

static const SharePartners *partners_of(const ShareKept *kept, u64 text)
{
    for (const SharePartners *partners = kept->partners; partners; partners = partners->next)
        for (int i = 0; i < partners->n; i++)
            if (partners->texts[i] == text) return partners;
    return NULL;
}

static int n_bits(u64 bits) { return __builtin_popcountll(bits); }

static void find_partners(Choosing *choosing, u64 text, u64 columns)
{
    const int      most = MIN_OF(choosing->ways->fuse_others, TEXTS_MOST);
    SharePartners *best = NULL;
    double         best_share = ALIKE_LEAST;
    int            n_partners = 0;
    for (SharePartners *partners = choosing->kept->partners; partners; partners = partners->next, n_partners++) {
        const double share =
            (double)n_bits(partners->columns & columns) / (double)MAX_OF(1, n_bits(partners->columns | columns));
        if (partners->n < most && share >= best_share) best = partners, best_share = share;
    }
    if (!best) {
        if (n_partners >= PARTNERS_MOST) return;
        best = calloc(1, sizeof *best);
        best->next = choosing->kept->partners, choosing->kept->partners = best;
    }
    best->texts[best->n++] = text;
    best->columns |= columns;
}

// The first rider of the text that is in no unit; -1: there is none.
static int find_rider(const Choosing *choosing, const FuseKey *keys, int n, u64 text)
{
    int low = 0, high = n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (keys[middle].text < text) low = middle + 1;
        else high = middle;
    }
    for (; low < n && keys[low].text == text; low++)
        if (!choosing->is_taken[keys[low].rider]) return keys[low].rider;
    return -1;
}

static void fuse_partners(Choosing *choosing, const FuseKey *keys, int n)
{
    for (int k = 0; k < n; k++)
        if ((!k || keys[k].text != keys[k - 1].text) && !choosing->is_taken[keys[k].rider] &&
            !partners_of(choosing->kept, keys[k].text))
            find_partners(choosing, keys[k].text, column_bits(rider_at(choosing, keys[k].rider)->facts));
    for (const SharePartners *partners = choosing->kept->partners; partners; partners = partners->next) {
        int list[TEXTS_MOST], n_here = 0;
        for (int i = 0; i < partners->n; i++) {
            const int rider = find_rider(choosing, keys, n, partners->texts[i]);
            if (rider >= 0) list[n_here++] = rider;
        }
        while (n_here > 1 && !fuse_these(choosing, list, n_here, false)) n_here--;
    }
}

static void fuse_by_text(Choosing *choosing)
{
    int     *list = arena_array(choosing->arena, int, choosing->n_riders + 1);
    const int n = list_candidates(choosing, list);
    FuseKey *keys = arena_array(choosing->arena, FuseKey, n + 1);
    for (int i = 0; i < n; i++)
        keys[i] = (FuseKey){ rider_at(choosing, list[i])->text, rider_at(choosing, list[i])->number, list[i] };
    qsort(keys, (size_t)n, sizeof *keys, by_text);
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && keys[end].text == keys[first].text;) end++;
        fuse_alike(choosing, keys, first, end);
    }
    fuse_partners(choosing, keys, n);
}

// ---- both -----------------------------------------------------------------------------------------------------------

void choose_fused(Choosing *choosing, bool beats_sieve)
{
    const ShareWays *ways = choosing->ways;
    if (!has_units_left(choosing, SHARE_FUSED)) return;
    if (beats_sieve && ways->costs->fuse_own > 1 / SIEVED_GAIN) return;        // it never does
    if (ways->fuse_sizes) fuse_by_text(choosing);
    else if (beats_sieve || choosing->left_to_sieve) fuse_by_savings(choosing, beats_sieve);
}
