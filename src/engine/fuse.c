// fuse.c - see fuse.h.
//
// Cost model: fused members save the steps of all but one.  What a step costs is known where it is a sieve (sieve.c); others count as STEP_NS.
// Loads are no reason to fuse on a CPU: a slice is in the cache when the next kernel comes.  Measured with 16 sums by group over 6 M rows:
// 112 ms of CPU time one kernel after the other slice by slice, 125 tile by tile, 110 with no sharing at all.

#include "engine/fuse.h"

#include <stdlib.h>

#define STEP_NS  1.0
#define SINK_NS  1.0                   // per row that gets there
#define STACK_MAX ((u64)512 << 10)     // of tiles: more is no longer in L2

struct Fused {
    _Atomic int n_users;
    int         n_members;
    SieveMember members[FUSE_MEMBERS];
    Code       *code;
    Jit        *jit;
    double      saves_ns;              // expected, per row
};

static FuseMember as_part(const SieveMember *member) { return (FuseMember){ member->launch->woven, member->launch->source->chunk_column }; }

bool fuse_suits(const Launch *launch)
{
    return launch->jit && launch->sink == SINK_GROUPS && weave_can_fuse(launch->woven) && launch->woven->n_counts > 0;
}

bool fuse_fits(const SieveMember *a, const SieveMember *b)
{
    const FuseMember x = as_part(a), y = as_part(b);
    if (a->device != b->device || x.woven->steps_hash != y.woven->steps_hash) return false;
    Arena     *arena = arena_new(NULL, "fuse");
    const bool fits = weave_has_same_steps(arena, &x, &y);
    arena_free(arena);
    return fits;
}

static double steps_ns(const Launch *launch, double *pass)
{
    const Woven *woven = launch->woven;
    *pass = 1;
    for (int s = 0; s < woven->n_sieves; s++) *pass *= sieve_pass_share(launch, &woven->sieves[s]);
    return woven->n_sieves ? sieve_alone_ns(launch) : STEP_NS * woven->n_counts;
}

bool fuse_pays(const SieveMember *members, int n_members, double *gain)
{
    double    pass;
    const double steps = steps_ns(members[0].launch, &pass), sinks = n_members * pass * SINK_NS;
    u64       bytes = 0;
    for (int m = 0; m < n_members; m++) bytes += members[m].launch->woven->tile_bytes * TILE;
    *gain = (n_members * steps + sinks) / (steps + sinks);
    return n_members > 1 && *gain > 1.1 && bytes <= STACK_MAX;
}

Fused *fuse_make(const SieveMember *members, int n_members)
{
    Fused     *fused = calloc(1, sizeof *fused);
    Arena     *arena = arena_new(NULL, "fuse");
    FuseMember parts[FUSE_MEMBERS];
    const char *name;
    for (int m = 0; m < n_members; m++) parts[m] = as_part(&members[m]);
    const char *text = weave_fuse(arena, parts, n_members, &name);
    atomic_init(&fused->n_users, 1);
    fused->n_members = n_members;
    memcpy(fused->members, members, (size_t)n_members * sizeof *members);
    double pass;
    fused->saves_ns = (n_members - 1) * steps_ns(members[0].launch, &pass);
    fused->jit = members[0].launch->jit;
    fused->code = jit_later(fused->jit, text, name);
    arena_free(arena);
    return fused;
}

Fused *fuse_hold(Fused *fused)
{
    atomic_fetch_add(&fused->n_users, 1);
    return fused;
}

void fuse_release(Fused *fused)
{
    if (fused && atomic_fetch_sub(&fused->n_users, 1) == 1) free(fused);
}

bool fuse_is_for(const Fused *fused, const SieveMember *members, int n_members)
{
    if (!fused || fused->n_members != n_members) return false;
    for (int m = 0; m < n_members; m++)
        if (fused->members[m].ride != members[m].ride) return false;
    return true;
}

bool fuse_is_ready(const Fused *fused, u64 rows_left)
{
    JitTier tier;
    if (code_function(fused->code, &tier)) return true;
    jit_want(fused->jit, fused->code, fused->saves_ns * 1e-6 * (double)rows_left > WORTH_COMPILING_MS);
    return false;
}

// All or one by one: the kernel is of all of them, and one that is gone cannot take part.
void fuse_push(const Fused *fused, const int *chunks, Gate *gates, int slot, u32 first, u32 end)
{
    Launch *launches[FUSE_MEMBERS];
    bool    is_in[FUSE_MEMBERS] = { 0 };
    int     n_in = 0;
    Device *device = fused->members[0].device;
    for (int m = 0; m < fused->n_members; m++) {
        is_in[m] = gate_enter(&gates[m]);
        n_in += is_in[m];
        launches[m] = fused->members[m].launch;
    }
    if (n_in < fused->n_members || !device->push_fused(device, fused->code, launches, fused->n_members, slot, chunks, first, end))
        for (int m = 0; m < fused->n_members; m++)
            if (is_in[m]) device->push(device, launches[m], slot, chunks[m], first, end);
    for (int m = 0; m < fused->n_members; m++)
        if (is_in[m]) gate_leave(&gates[m]);
}
