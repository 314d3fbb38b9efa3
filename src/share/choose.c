// choose.c - see choose.h.
//
// The order in which ways are tried:
//
//     one body      over columns or over joins, whichever is expected to cost less for its riders (bodies.c).  First,
//                   since a row then costs the same for any number of riders: nothing else gets cheaper with each one
//     fused         where that is expected to beat a sieve: SIEVED_GAIN (fusing.c)
//     sieved        strangers that look for few rows
//     fused         of those that no sieve took
//     alone
//
// Each only if the cost model expects a gain.  The order is the same for all devices; a GPU's fused kernels save too
// little to be tried before its sieve.

#include "share/choose_int.h"

// ---- identities -----------------------------------------------------------------------------------------------------

static u64 mix(u64 hash, u64 value) { return hash_bytes((const u64[]){ hash, value }, 2 * sizeof(u64)); }

u64 share_text(const Woven *woven, const Source *source)
{
    u64 hash = hash_bytes(woven->name, strlen(woven->name));
    for (int c = 0; c < woven->n_columns; c++) hash = mix(hash, (u64)source->chunk_column[woven->columns[c]]);
    return hash;
}

// All that weave_is_same_but_sieves compares and that can be hashed: equal tables may lie in different places.
u64 share_shape(const Woven *woven, const Source *source)
{
    u64 hash = mix(share_text(woven, source), woven->n_groups);
    for (int p = 0; p < woven->n_params; p++) {
        const Param *param = &woven->params[p];
        if (!param->is_sieved) hash = mix(mix(hash, (u64)param->kind), (u64)param->value ^ (u64)param->other << 32);
    }
    for (int t = 0; t < woven->n_tables; t++)
        if (t >= 64 || !(woven->sieved_tables >> t & 1)) hash = mix(hash, woven->table_facts[t].owner);
    return hash;
}

// ---- sieves ---------------------------------------------------------------------------------------------------------

static int list_sieved(const Choosing *choosing, int *list)
{
    const ShareWays *ways = choosing->ways;
    int              n = 0;
    for (int r = 0; r < choosing->n_riders; r++)
        if (!choosing->is_taken[r] && suits(choosing, r, SHARE_SIEVED) &&
            (!ways->can || ways->can(ways->device, SHARE_SIEVED, &choosing->riders[r])))
            list[n++] = r;
    return n;
}

// As they come, so many at a time.  The first ones that it does not pay for are the last.
static void choose_sieves(Choosing *choosing)
{
    const ShareWays   *ways = choosing->ways;
    const ShareLimits *limits = &ways->limits[SHARE_SIEVED];
    if (choosing->n_sieved < limits->least || !has_units_left(choosing, SHARE_SIEVED)) return;
    int      *list = arena_array(choosing->arena, int, choosing->n_riders);
    const int n_all = list_sieved(choosing, list);
    for (int at = 0, n; n_all - at >= limits->least && has_units_left(choosing, SHARE_SIEVED); at += n) {
        n = MIN_OF(n_all - at, limits->most);
        const double gain = choosing_sieve_gain(choosing, list + at, n);
        if (gain < ways->costs->least_sieve ||
            choosing_make(choosing, SHARE_SIEVED, list + at, n, choosing->n_made[SHARE_SIEVED], gain, false) !=
                SHARE_DONE)
            return;
    }
}

// ---- all of them ----------------------------------------------------------------------------------------------------

static void choose_alone(Choosing *choosing)
{
    for (int r = 0; r < choosing->n_riders; r++) {
        if (choosing->is_taken[r]) continue;
        choosing_add(choosing, &(ShareAsk){ .way = SHARE_ALONE, .n_riders = 1, .gain = 1 }, &r);
        choosing->units[choosing->n_units - 1].awaits = choosing->awaits[r];
    }
}

ShareChoice share_choose(Arena *arena, ShareKept *kept, const ShareWays *ways, const ShareRider *riders, int n_riders)
{
    Choosing choosing = { .arena = arena,
                          .kept = kept,
                          .ways = ways,
                          .riders = riders,
                          .n_riders = n_riders,
                          .is_taken = arena_array(arena, bool, n_riders + 1),
                          .awaits = arena_array(arena, bool, n_riders + 1),
                          .was_fused = arena_array(arena, bool, n_riders + 1),
                          .units = arena_array(arena, ShareUnit, n_riders + 1) };
    for (int r = 0; r < n_riders; r++) choosing.n_sieved += suits(&choosing, r, SHARE_SIEVED);
    choose_bodies(&choosing);
    choose_fused(&choosing, true);
    choose_sieves(&choosing);
    choose_fused(&choosing, false);
    choose_alone(&choosing);
    return (ShareChoice){ choosing.n_units, choosing.units };
}
