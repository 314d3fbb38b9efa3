// fuse.c - see fuse.h.
// src/share decides which queries are fused, and whether it pays (fusing.c, cost_fused).

#include "engine/fuse.h"

#include <stdio.h>
#include <stdlib.h>

struct Fused {
    _Atomic int n_users;
    int         n_members;
    SieveMember members[FUSE_MEMBERS];
    Code       *code;
    Jit        *jit;
    double      saves_ns;              // expected, per row
    BodyFigures figures;
};

static FuseMember as_part(const SieveMember *member)
{
    return (FuseMember){ member->launch->woven, member->launch->source->chunk_column };
}

bool fuse_suits(const Launch *launch)
{
    const Woven *woven = launch->woven;
    return launch->jit && launch->sink == SINK_GROUPS && weave_can_fuse(woven) && woven->n_counts > 0;
}

const FuseSteps *fuse_steps(Arena *arena, const Launch *launch)
{
    const FuseMember part = { launch->woven, launch->source->chunk_column };
    return weave_fuse_steps(arena, &part);
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

Fused *fuse_make(const SieveMember *members, int n_members)
{
    Fused     *fused = calloc(1, sizeof *fused);
    Arena     *arena = arena_new(NULL, "fuse");
    FuseMember parts[FUSE_MEMBERS];
    const char *name;
    for (int m = 0; m < n_members; m++) parts[m] = as_part(&members[m]);
    const char *text = weave_fuse(arena, parts, n_members, false, &name);
    atomic_init(&fused->n_users, 1);
    fused->n_members = n_members;
    memcpy(fused->members, members, (size_t)n_members * sizeof *members);
    const FuseSteps  *steps[FUSE_MEMBERS];
    const ShareFacts *facts[FUSE_MEMBERS];
    for (int m = 0; m < n_members; m++) steps[m] = members[m].steps, facts[m] = members[m].facts;
    const FuseCosts costs = cost_fused(&share_cpu_costs, facts, steps, n_members);
    fused->saves_ns = costs.alone - costs.together;
    fused->jit = members[0].launch->jit;
    fused->code = jit_later(fused->jit, text, name);
    snprintf(fused->figures.kernel, sizeof fused->figures.kernel, "%s", name);
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

BodyFigures fused_figures(const Fused *fused) { return fused->figures; }

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
    if (n_in < fused->n_members ||
        !device->push_fused(device, fused->code, launches, fused->n_members, slot, chunks, first, end))
        for (int m = 0; m < fused->n_members; m++)
            if (is_in[m]) device->push(device, launches[m], slot, chunks[m], first, end);
    for (int m = 0; m < fused->n_members; m++)
        if (is_in[m]) gate_leave(&gates[m]);
}
