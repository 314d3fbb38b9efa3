// fuse.c - see fuse.h.
//
// Cost model, nanoseconds per row of the table: fused members take the steps that all of them have once.
//
//     steps     a test over all rows TEST_NS, making the selection of it PICK_NS, another step STEP_NS for each row
//     that gets to it
//     alone     all steps of all members, and SINK_NS for each row that gets to a sink
//     together  the shared steps once, then each member's others over what is left (a test then costs FILTER_NS for
//     each such row), and the sinks
//     gain      alone / together
//
// Loads are no reason to fuse on a CPU: a slice is in the cache when the next kernel comes.  Measured with 16 sums by
// group over 6 M rows:
// 112 ms of CPU time one kernel after the other slice by slice, 125 tile by tile, 110 with no sharing at all.  So
// nothing shared does not
// pay, and a tenth is asked for; more of those that a sieve would take (seats.c).
//
// Who with whom: the two that save most, then always the one that adds most to what is saved, until nobody does or the
// members' tiles
// together no longer fit the cache.

#include "engine/fuse.h"

#include <stdlib.h>

#define TEST_NS   0.1
#define PICK_NS   0.2
#define FILTER_NS 0.8
#define STEP_NS   1.5
#define SINK_NS   1.5
#define LEAST_GAIN 1.1
#define MOST_CANDIDATES 128            // looked at pair by pair whenever a chunk is opened
#define STACK_MAX ((u64)384 << 10)     // of tiles: more is no longer in L2, and on a stack of its own (device/cpu.c)

struct Fused {
    _Atomic int n_users;
    int         n_members;
    SieveMember members[FUSE_MEMBERS];
    Code       *code;
    Jit        *jit;
    double      saves_ns;              // expected, per row
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

// ---- who with whom --------------------------------------------------------------------------------------------------

// The steps but those in SHARED, from where PASS of the rows are left.
static double steps_ns(const FuseStep *steps, int n_steps, const FuseStep *shared, int n_shared, double *pass)
{
    const bool has_selection = n_shared > 0;
    double     ns = 0;
    bool       is_mask = false;
    for (int s = 0; s < n_steps; s++) {
        if (weave_has_step(shared, n_shared, &steps[s])) continue;
        const bool is_test = steps[s].is_test && !has_selection;
        ns += is_test ? TEST_NS : *pass * (steps[s].is_test ? FILTER_NS : STEP_NS);
        if (is_test && !is_mask) ns += PICK_NS, is_mask = true;
        *pass *= steps[s].pass;
    }
    return ns;
}

typedef struct FuseCosts { double alone, together; } FuseCosts;

static FuseCosts costs_of(const FuseSteps *const *steps, int n_members)
{
    FuseStep  shared[FUSE_STEPS];
    const int n_shared = weave_shared_steps(steps, n_members, shared);
    double    left = 1;
    FuseCosts costs = { .together = steps_ns(shared, n_shared, NULL, 0, &left) };
    for (int m = 0; m < n_members; m++) {
        double alone = 1, rest = left;
        costs.alone += steps_ns(steps[m]->steps, steps[m]->n_steps, NULL, 0, &alone) + alone * SINK_NS;
        costs.together += steps_ns(steps[m]->steps, steps[m]->n_steps, shared, n_shared, &rest) + rest * SINK_NS;
    }
    if (!n_shared) costs.together = costs.alone;
    return costs;
}

static double saved_ns(const FuseSteps *const *steps, int n_members)
{
    const FuseCosts costs = costs_of(steps, n_members);
    return costs.alone - costs.together;
}

static u64 stack_bytes(const SieveMember *member) { return member->launch->woven->fused_bytes * TILE; }

static bool share_nothing(const FuseSteps *a, const FuseSteps *b)
{
    for (int s = 0; s < a->n_steps; s++)
        if (weave_has_step(b->steps, b->n_steps, &a->steps[s])) return false;
    return true;
}

static bool best_pair(const SieveMember *candidates, int n_candidates, int *chosen, double *saved)
{
    *saved = 0;
    for (int a = 0; a < n_candidates; a++)
        for (int b = a + 1; b < n_candidates; b++) {
            if (candidates[a].device != candidates[b].device || share_nothing(candidates[a].steps, candidates[b].steps))
                continue;
            if (stack_bytes(&candidates[a]) + stack_bytes(&candidates[b]) > STACK_MAX) continue;
            const double own = saved_ns((const FuseSteps *[]){ candidates[a].steps, candidates[b].steps }, 2);
            if (own > *saved) *saved = own, chosen[0] = a, chosen[1] = b;
        }
    return *saved > 0;
}

// Puts the candidate that adds most at the end of the chosen ones; false when none adds anything.
static bool add_best(const SieveMember *candidates, int n_candidates, int *chosen, int n_chosen, u64 bytes,
                     double *saved)
{
    const FuseSteps *steps[FUSE_MEMBERS];
    const double     before = *saved;
    for (int m = 0; m < n_chosen; m++) steps[m] = candidates[chosen[m]].steps;
    for (int c = 0; c < n_candidates; c++) {
        bool is_in =
            candidates[c].device != candidates[chosen[0]].device || bytes + stack_bytes(&candidates[c]) > STACK_MAX;
        for (int m = 0; m < n_chosen && !is_in; m++) is_in = chosen[m] == c;
        if (is_in || share_nothing(steps[0], candidates[c].steps)) continue;
        steps[n_chosen] = candidates[c].steps;
        const double own = saved_ns(steps, n_chosen + 1);
        if (own > *saved) *saved = own, chosen[n_chosen] = c;
    }
    return *saved > before;
}

static double gain_of(const SieveMember *candidates, const int *chosen, int n_chosen)
{
    const FuseSteps *steps[FUSE_MEMBERS];
    for (int m = 0; m < n_chosen; m++) steps[m] = candidates[chosen[m]].steps;
    const FuseCosts costs = costs_of(steps, n_chosen);
    return costs.alone / costs.together;
}

int fuse_choose(const SieveMember *candidates, int n_candidates, int *chosen, double *gain)
{
    double saved;
    int    n = 2;
    n_candidates = MIN_OF(n_candidates, MOST_CANDIDATES);
    if (!best_pair(candidates, n_candidates, chosen, &saved)) return 0;
    u64 bytes = stack_bytes(&candidates[chosen[0]]) + stack_bytes(&candidates[chosen[1]]);
    while (n < FUSE_MEMBERS && add_best(candidates, n_candidates, chosen, n, bytes, &saved))
        bytes += stack_bytes(&candidates[chosen[n++]]);
    *gain = gain_of(candidates, chosen, n);
    return *gain > LEAST_GAIN ? n : 0;
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
    const FuseSteps *steps[FUSE_MEMBERS];
    for (int m = 0; m < n_members; m++) steps[m] = members[m].steps;
    fused->saves_ns = saved_ns(steps, n_members);
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
    if (n_in < fused->n_members ||
        !device->push_fused(device, fused->code, launches, fused->n_members, slot, chunks, first, end))
        for (int m = 0; m < fused->n_members; m++)
            if (is_in[m]) device->push(device, launches[m], slot, chunks[m], first, end);
    for (int m = 0; m < fused->n_members; m++)
        if (is_in[m]) gate_leave(&gates[m]);
}
