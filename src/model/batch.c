// batch.c - more kernels than fit at once: the fewest batches, each of which can be launched at once.
//
// Stage one of papers 1 and 2 (equations 23 to 30, algorithm 2), as column generation.  Kernels with equal needs are
// one type with a demand.  A pattern says how many kernels of each type are in a batch:
//
//     master:   the least sum of amounts of patterns, so that every type's demand is covered    (a linear program)
//     pricing:  the most valuable pattern, by the master's dual values                          (pattern.c, exact)
//
// A pattern that is worth more than 1 improves the master and joins it.  When there is none, the master's value,
// rounded up, is a bound: no packing has fewer batches.  Bounds come earlier, too: with any values, kernels need at
// least as many batches as they are worth, divided by the most that a pattern is worth (Farley's bound).
// Packings come from first-fit decreasing, from the master's whole amounts, and from repacking some batches.  If none
// meets the bound, a search looks for one that does; if it ends without success, the bound rises.
// All searches count their steps, so a plan takes milliseconds; if steps run out, bound and batches differ, and the
// caller sees by how much.

#include <math.h>

#include "model/model_int.h"

enum {
    PRICING_STEPS = 3000,                                   // nodes of a search for a pattern that improves the master
    PROOF_STEPS = 10000,                                    // nodes of a search that proves a bound
    MASTER_STEPS = 800,                                     // what a solution of the master costs, in such nodes
    ALL_STEPS = 38000,                                      // of all of these, for one plan
    REPACKINGS = 25,                                        // trials to repack some batches
    PACKING_STEPS = 5000,                                   // nodes of all searches for a packing
    TYPES_MAX = 256,                                        // with more, first-fit decreasing and the sums must do
};

// A pattern joins if it is worth more than 1 by that much; below that, rounding of doubles would go round in circles.
static const double join_margin = 1e-7;
static const double rounding = 1e-6;                        // of sums of dual values that are compared with counts

typedef struct Solution {
    int **batches;                                          // counts of each type
    int n;
} Solution;

// ---- types ----------------------------------------------------------------------------------------------------------

// False: a kernel of it does not fit by itself.
static bool add_type(Packing *packing, const LaunchKernel *kernel)
{
    BatchType *type = LIST_PUSH(packing->scratch, packing->types, packing->n_types);
    type->kernel = *kernel;
    type->n_choices = launch_choices(packing->scratch, packing->limits, packing->group, kernel, &type->choices);
    for (int i = 0; i < type->n_choices; i++)
        for (int resource = 0; resource < RESOURCE_N; resource++) {
            const i64 amount = type->choices[i].of[resource];
            type->least.of[resource] = i == 0 ? amount : MIN_OF(type->least.of[resource], amount);
        }
    return type->n_choices > 0;
}

// TYPE_OF gets the type of each kernel.  Returns how many kernels fit by themselves, up to the first that does not.
static int find_types(Packing *packing, const LaunchKernel *kernels, int n, int *type_of)
{
    Map *known = map_new(packing->scratch);
    for (int i = 0; i < n; i++) {
        const KernelNeeds *needs = &kernels[i].needs;
        const i64 key[] = { needs->registers, needs->shared, needs->threads_per_block_max, kernels[i].n_threads };
        u64 type;
        if (!map_get(known, key, sizeof(key), &type)) {
            type = (u64)packing->n_types;
            if (!add_type(packing, &kernels[i]))
                return i;
            map_set(known, key, sizeof(key), type);
        }
        packing->types[type].demand++;
        type_of[i] = (int)type;
    }
    return n;
}

// Of the scarcest resource.
static double size_of(const Packing *packing, const BatchType *type)
{
    const Amounts capacity = group_capacity(packing->limits, packing->group);
    double size = 0;
    for (int resource = 0; resource < RESOURCE_N; resource++)
        if (capacity.of[resource] > 0)
            size = fmax(size, (double)type->least.of[resource] / (double)capacity.of[resource]);
    return size;
}

// The largest first: so first-fit decreasing tries them.
static void sort_types(Packing *packing, int *type_of, int n_kernels)
{
    const int n = packing->n_types;
    BatchType *sorted = arena_array(packing->scratch, BatchType, n);
    int *old = arena_array(packing->scratch, int, n), *new_place = arena_array(packing->scratch, int, n);
    for (int i = 0; i < n; i++) {
        const double size = size_of(packing, &packing->types[i]);
        int at = i;
        for (; at > 0 && size_of(packing, &packing->types[old[at - 1]]) < size; at--)
            old[at] = old[at - 1];
        old[at] = i;
    }
    for (int i = 0; i < n; i++) {
        sorted[i] = packing->types[old[i]];
        new_place[old[i]] = i;
    }
    for (int i = 0; i < n_kernels; i++)
        type_of[i] = new_place[type_of[i]];
    packing->types = sorted;
    packing->order = arena_array(packing->scratch, int, n);
    for (int i = 0; i < n; i++)
        packing->order[i] = i;
}

static int *demands(const Packing *packing)
{
    int *left = arena_array(packing->scratch, int, packing->n_types);
    for (int type = 0; type < packing->n_types; type++)
        left[type] = packing->types[type].demand;
    return left;
}

// No packing has fewer batches: the sum of each resource must fit.
static void bound_by_sums(Packing *packing)
{
    const Amounts capacity = group_capacity(packing->limits, packing->group);
    double most = 0;
    for (int resource = 0; resource < RESOURCE_N; resource++) {
        i64 sum = 0;
        for (int type = 0; type < packing->n_types; type++)
            sum += packing->types[type].demand * packing->types[type].least.of[resource];
        const double batches = sum > 0 ? (double)sum / (double)capacity.of[resource] : 0;
        if (batches > most) {
            most = batches;
            packing->scarcest = resource;
        }
    }
    packing->bound = (int)ceil(most - rounding);
}

// ---- first-fit decreasing -------------------------------------------------------------------------------------------

// How many of a type the sums allow beside what is in the batch: more than that cannot be launched.
static int most_by_sums(const Packing *packing, const int *batch, int type)
{
    const Amounts capacity = group_capacity(packing->limits, packing->group);
    const Amounts *each = &packing->types[type].least;
    i64 most = INT32_MAX;
    for (int resource = 0; resource < RESOURCE_N; resource++) {
        i64 room = capacity.of[resource];
        for (int other = 0; other < packing->n_types; other++)
            room -= batch[other] * packing->types[other].least.of[resource];
        if (each->of[resource] > 0)
            most = MIN_OF(most, room / each->of[resource]);
    }
    return (int)MAX_OF(most, 0);
}

// Adds as many of a type as can be launched with the rest, N at most.  Returns their number.
static int add_to(const Packing *packing, int *batch, int type, int n)
{
    for (n = MIN_OF(n, most_by_sums(packing, batch, type)); n > 0; n--) {
        batch[type] += n;
        if (pattern_is_possible(packing, batch))
            return n;
        batch[type] -= n;
    }
    return 0;
}

static int *add_batch(const Packing *packing, Solution *solution, const int *counts)
{
    int *batch = arena_array(packing->scratch, int, packing->n_types);
    *LIST_PUSH(packing->scratch, solution->batches, solution->n) = batch;
    if (counts)
        memcpy(batch, counts, sizeof(int) * (size_t)packing->n_types);
    return batch;
}

// Into the batches that there are and into new ones.
static void fill_first_fit(const Packing *packing, Solution *solution, const int *left, const int *order)
{
    for (int place = 0; place < packing->n_types; place++) {
        const int type = order[place];
        int n = left[type];
        for (int i = 0; i < solution->n && n > 0; i++)
            n -= add_to(packing, solution->batches[i], type, n);
        while (n > 0) {
            const int added = add_to(packing, add_batch(packing, solution, NULL), type, n);
            ASSERT(added > 0);                              // one fits by itself: find_types has seen to it
            n -= added;
        }
    }
}

// ---- the master -----------------------------------------------------------------------------------------------------

typedef struct Master {
    const Packing *packing;
    CoverLp *cover;
    const int *demand;
    Solution columns;
    const double *amounts;                                  // of each column; NULL: columns came after they were found
    double *values;                                         // of a kernel of each type
    double lp_value;
    int steps_left;
    int bound;                                              // no packing has fewer batches
    double *bound_values;                                   // from which it follows,
    double most;                                            // by which no pattern is worth more
} Master;

static void add_column(Master *master, const int *counts)
{
    add_batch(master->packing, &master->columns, counts);
    cover_add(master->cover, counts);
    master->amounts = NULL;
}

static bool solve_master(Master *master)
{
    const double *values;
    if (!cover_solve(master->cover, &master->lp_value, &values, &master->amounts))
        return false;
    for (int type = 0; type < master->packing->n_types; type++)
        master->values[type] = fmax(values[type], 0);
    return true;
}

static double worth_of_all(const Master *master)
{
    double worth = 0;
    for (int type = 0; type < master->packing->n_types; type++)
        worth += master->demand[type] * master->values[type];
    return worth;
}

// All that are found on the way to the best one join.
static void join(Enumeration *enumeration, const int *counts, double value)
{
    add_column(enumeration->context, counts);
    enumeration->threshold = value;
}

// Kernels need at least as many batches as they are worth, divided by the most that a batch is worth.
static void raise_bound(Master *master, double most)
{
    const int bound = (int)ceil(worth_of_all(master) / most - rounding);
    if (bound > master->bound) {
        master->bound = bound;
        master->most = most;
        memcpy(master->bound_values, master->values, sizeof(double) * (size_t)master->packing->n_types);
    }
}

// By values or by sums.
static int known_bound(const Master *master)
{
    return MAX_OF(master->bound, master->packing->bound);
}

// Adds patterns that are worth more than that, and raises the bound if it can.  False: none was found.
static bool price(Master *master, double worth, int steps)
{
    Enumeration enumeration = { .packing = master->packing,
                                .left = master->demand,
                                .values = master->values,
                                .threshold = worth,
                                .must = -1,
                                .steps_left = MIN_OF(steps, master->steps_left),
                                .visit = join,
                                .context = master };
    master->steps_left -= enumeration.steps_left;
    patterns_visit(&enumeration);
    master->steps_left += enumeration.steps_left;
    const bool is_complete = enumeration.steps_left > 0;
    raise_bound(master, is_complete ? enumeration.threshold : fmax(enumeration.value_bound, worth));
    return enumeration.threshold > worth;
}

// A bound is proved by a search for a pattern that is worth too much for it.  That is far shorter than one for any that
// is worth more than 1, so if that one was cut short, others follow, for ever lower bounds.  False: there is a pattern
// that is worth too much, and it has joined the master.
static bool prove_bound(Master *master)
{
    const double worth = worth_of_all(master);
    const int most = (int)ceil(worth / (1 + join_margin) - rounding);
    for (int bound = most; bound > MAX_OF(1, known_bound(master)) && master->steps_left > 0; bound--)
        if (price(master, fmax(worth / (bound - 1) - rounding, 1 + join_margin), PROOF_STEPS))
            return false;
    return true;
}

// Until a packing into so many batches is known to be the best, or no pattern improves the master, or time is up.
static void generate_columns(Master *master, int n_batches)
{
    while (known_bound(master) < n_batches && master->steps_left > MASTER_STEPS && solve_master(master)) {
        master->steps_left -= MASTER_STEPS;
        if (!price(master, 1 + join_margin, PRICING_STEPS) && prove_bound(master))
            return;
    }
}

// ---- the search for a packing ---------------------------------------------------------------------------------------

typedef struct Valued {
    int *counts;
    double value;
} Valued;

typedef struct Collected {
    Arena *arena;
    Valued *items;
    int n;
} Collected;

typedef struct PackSearch {
    const Packing *packing;
    const double *values;
    double most;                                            // that a batch is worth
    int *left;
    int steps_left;
    Solution solution;
} PackSearch;

// The most valuable first.
static void collect(Enumeration *enumeration, const int *counts, double value)
{
    Collected *all = enumeration->context;
    const size_t bytes = sizeof(int) * (size_t)enumeration->packing->n_types;
    int *copy = arena_alloc(all->arena, bytes);
    memcpy(copy, counts, bytes);
    LIST_PUSH(all->arena, all->items, all->n);
    int at = all->n - 1;
    for (; at > 0 && all->items[at - 1].value < value; at--)
        all->items[at] = all->items[at - 1];
    all->items[at] = (Valued){ copy, value };
}

// What is left; LARGEST is the first type of it, or -1.
static double worth_left(const PackSearch *search, int *largest)
{
    double worth = 0;
    *largest = -1;
    for (int type = search->packing->n_types - 1; type >= 0; type--) {
        worth += search->left[type] * search->values[type];
        if (search->left[type] > 0)
            *largest = type;
    }
    return worth;
}

static void take(PackSearch *search, const int *counts, int sign)
{
    for (int type = 0; type < search->packing->n_types; type++)
        search->left[type] -= sign * counts[type];
}

static bool search_packing(PackSearch *search, int n_batches);

static bool try_batch(PackSearch *search, const int *counts, int n_batches)
{
    take(search, counts, 1);
    const bool is_found = search_packing(search, n_batches - 1);
    take(search, counts, -1);
    if (is_found)
        add_batch(search->packing, &search->solution, counts);
    return is_found;
}

// Packs what is left into so many batches.  First the batch of the largest kernel: if there is a solution, there is one
// with a maximal pattern there, since other batches can do with fewer kernels; and the pattern leaves no more worth
// than the other batches can take.
static bool search_packing(PackSearch *search, int n_batches)
{
    int largest;
    const double worth = worth_left(search, &largest);
    if (largest < 0)
        return true;
    if (n_batches == 0 || search->steps_left == 0)
        return false;
    Arena *arena = arena_new(search->packing->scratch, "packing");
    Collected found = { .arena = arena };
    Enumeration enumeration = { .packing = search->packing,
                                .left = search->left,
                                .values = search->values,
                                .threshold = worth - search->most * (n_batches - 1) - rounding,
                                .must = largest,
                                .is_maximal = true,
                                .steps_left = search->steps_left,
                                .visit = collect,
                                .context = &found };
    patterns_visit(&enumeration);
    search->steps_left = enumeration.steps_left;
    bool is_found = false;
    for (int i = 0; i < found.n && !is_found; i++)
        is_found = try_batch(search, found.items[i].counts, n_batches);
    arena_free(arena);
    return is_found;
}

// Raises the bound or lowers the number of batches until they meet, or until the steps are used up.
static void close_gap(const Master *master, int *bound, Solution *best)
{
    PackSearch search = { .packing = master->packing,
                          .values = master->bound_values,
                          .most = master->most,
                          .left = demands(master->packing),
                          .steps_left = PACKING_STEPS };
    while (*bound < best->n) {
        if (search_packing(&search, *bound)) {
            *best = search.solution;
            return;
        }
        if (search.steps_left == 0)
            return;
        ++*bound;
    }
}

// ---- whole amounts --------------------------------------------------------------------------------------------------

// The pattern without what is not left.  False: that is empty, or cannot be launched.
static bool cut_to(const Packing *packing, const int *counts, const int *left, int *cut)
{
    int n = 0, n_cut = 0;
    for (int type = 0; type < packing->n_types; type++) {
        cut[type] = MIN_OF(counts[type], left[type]);
        n += counts[type];
        n_cut += cut[type];
    }
    return n_cut > 0 && (n_cut == n || pattern_is_possible(packing, cut));
}

static void add_cut(const Packing *packing, Solution *solution, const int *cut, int *left)
{
    add_batch(packing, solution, cut);
    for (int type = 0; type < packing->n_types; type++)
        left[type] -= cut[type];
}

// Whole amounts of the master's patterns.
static void take_whole_amounts(const Master *master, Solution *solution, int *left, int *cut)
{
    for (int i = 0; i < master->columns.n; i++)
        for (int times = (int)floor(master->amounts[i] + rounding); times > 0; times--)
            if (cut_to(master->packing, master->columns.batches[i], left, cut))
                add_cut(master->packing, solution, cut, left);
}

// Whole amounts, and first-fit decreasing for the rest.
static Solution round_amounts(const Master *master)
{
    const Packing *packing = master->packing;
    Solution solution = { 0 };
    int *left = demands(packing), *cut = arena_array(packing->scratch, int, packing->n_types);
    take_whole_amounts(master, &solution, left, cut);
    fill_first_fit(packing, &solution, left, packing->order);
    return solution;
}

// ---- by trial -------------------------------------------------------------------------------------------------------

// From 0 to 1; the same ones in every run.
static double draw(u64 *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (1 << 24);
}

// Types by about their size.
static void shuffle_order(const Packing *packing, u64 *state, int *order, double *keys)
{
    for (int type = 0; type < packing->n_types; type++) {
        int at = type;
        keys[type] = size_of(packing, &packing->types[type]) * (0.5 + draw(state));
        for (; at > 0 && keys[order[at - 1]] < keys[type]; at--)
            order[at] = order[at - 1];
        order[at] = type;
    }
}

// All batches but about DROPPED of them, which are in LEFT.
static Solution drop_some(const Packing *packing, const Solution *solution, double dropped, u64 *state, int *left)
{
    Solution rest = { 0 };
    memset(left, 0, sizeof(int) * (size_t)packing->n_types);
    for (int i = 0; i < solution->n; i++) {
        if (draw(state) * solution->n >= dropped)
            add_batch(packing, &rest, solution->batches[i]);
        else
            for (int type = 0; type < packing->n_types; type++)
                left[type] += solution->batches[i][type];
    }
    return rest;
}

// Takes some batches apart and packs their kernels again in another order, many times.
static void repack(const Packing *packing, int bound, Solution *best)
{
    int *left = arena_array(packing->scratch, int, packing->n_types);
    int *order = arena_array(packing->scratch, int, packing->n_types);
    double *keys = arena_array(packing->scratch, double, packing->n_types);
    u64 state = 1;
    for (int trial = 0; trial < REPACKINGS && best->n > bound; trial++) {
        Solution other = drop_some(packing, best, 3, &state, left);
        shuffle_order(packing, &state, order, keys);
        fill_first_fit(packing, &other, left, order);
        if (other.n <= best->n)
            *best = other;
    }
}

// ---- the plan -------------------------------------------------------------------------------------------------------

// By column generation.
static void run_master(Master *master, const LpLibrary *lp, const Solution *first)
{
    const Packing *packing = master->packing;
    master->values = arena_array(packing->scratch, double, packing->n_types);
    master->bound_values = arena_array(packing->scratch, double, packing->n_types);
    master->cover = cover_new(packing->scratch, lp, master->demand, packing->n_types);
    for (int i = 0; i < first->n; i++)
        add_column(master, first->batches[i]);
    generate_columns(master, first->n);
}

static void improve(const Packing *packing, const LpLibrary *lp, Solution *best, BatchPlan *plan)
{
    Master master = { .packing = packing, .demand = demands(packing), .steps_left = ALL_STEPS };
    if (packing->n_types <= TYPES_MAX && packing->bound < best->n)
        run_master(&master, lp, best);
    plan->is_bound_known = true;
    plan->bound = MAX_OF(packing->bound, master.bound);
    plan->n_patterns = master.columns.n;
    plan->lp_value = master.lp_value;
    if (master.amounts && plan->bound < best->n) {
        const Solution rounded = round_amounts(&master);
        if (rounded.n <= best->n)
            *best = rounded;
    }
    repack(packing, plan->bound, best);
    if (master.bound > 0)
        close_gap(&master, &plan->bound, best);
}

// Gives the kernels of each type to the batches.
static void fill_batches(Arena *arena, const Packing *packing, const Solution *solution, const LaunchKernel *kernels,
                         const int *type_of, BatchPlan *plan)
{
    int *next = arena_array(packing->scratch, int, packing->n_types);
    plan->n_batches = solution->n;
    plan->batches = arena_array(arena, KernelBatch, solution->n);
    for (int i = 0; i < solution->n; i++) {
        KernelBatch *batch = &plan->batches[i];
        LaunchKernel *own = NULL;
        int n_own = 0;
        for (int type = 0; type < packing->n_types; type++)
            for (int k = 0; k < solution->batches[i][type]; k++) {
                while (type_of[next[type]] != type)         // there are as many as the batches ask for
                    next[type]++;
                *LIST_PUSH(packing->scratch, own, n_own) = kernels[next[type]];
                *LIST_PUSH(arena, batch->kernels, batch->n_kernels) = next[type]++;
            }
        const bool fits = launch_plan_group(arena, packing->limits, packing->group, own, n_own, &batch->plan);
        ASSERT(fits);                                       // pattern_is_possible said so
        (void)fits;
    }
}

typedef struct BatchAttempt {                                    // with groups of some size
    Packing packing;
    int *type_of;                                           // of each kernel
    int n_fit;                                              // kernels that fit by themselves, up to one that does not
    Solution first;                                         // by first-fit decreasing, if all fit
} BatchAttempt;

// Only if fewer batches than that are possible.
static void try_group(BatchAttempt *attempt, Arena *scratch, const GpuLimits *limits, int group,
                      const LaunchKernel *kernels, int n, int fewer_than)
{
    Packing *packing = &attempt->packing;
    *attempt = (BatchAttempt){ .packing = { .scratch = scratch, .limits = limits, .group = group } };
    attempt->type_of = arena_array(scratch, int, n);
    packing->answers = arena_make(scratch, Answers);
    packing->answers->known = map_new(scratch);
    packing->tables = arena_array(scratch, TableSpace, RESOURCE_N);
    attempt->n_fit = find_types(packing, kernels, n, attempt->type_of);
    bound_by_sums(packing);
    if (attempt->n_fit == n && packing->bound < fewer_than) {
        sort_types(packing, attempt->type_of, n);
        fill_first_fit(packing, &attempt->first, demands(packing), packing->order);
    } else {
        attempt->first.n = INT32_MAX;
    }
}

static void finish(Arena *arena, BatchAttempt *attempt, const LpLibrary *lp, const LaunchKernel *kernels,
                   BatchPlan *plan)
{
    const Packing *packing = &attempt->packing;
    Solution *best = &attempt->first;
    *plan = (BatchPlan){ .group = packing->group, .n_types = packing->n_types };
    plan->is_bound_known = best->n <= 1;                    // kernels need a batch
    plan->bound = MIN_OF(best->n, 1);
    if (lp && best->n > 1)
        improve(packing, lp, best, plan);
    fill_batches(arena, packing, best, kernels, attempt->type_of, plan);
}

// Pairs are for kernels that one multiprocessor cannot hold, and for more kernels than it has blocks (paper 1).  They
// also save shared memory, since a kernel has half as many blocks.
static bool can_pairs_help(const BatchAttempt *single, int n_kernels)
{
    const Resource scarcest = single->packing.scarcest;
    return single->n_fit < n_kernels || scarcest == RESOURCE_BLOCKS || scarcest == RESOURCE_SHARED;
}

// Pairs are taken if they need fewer batches, but only looked at if first-fit decreasing finds that.  Where it finds
// fewer than single multiprocessors need by their sums, these need not be packed.
static weft_status plan_in(Arena *arena, Arena *scratch, const GpuLimits *limits, const LpLibrary *lp,
                           const LaunchKernel *kernels, int n, BatchPlan *plan, Error *err)
{
    BatchAttempt single, pairs = { .first.n = INT32_MAX };
    *plan = (BatchPlan){ .n_batches = INT32_MAX };
    try_group(&single, scratch, limits, 1, kernels, n, INT32_MAX);
    if (can_pairs_help(&single, n) && single.first.n > 1)
        try_group(&pairs, scratch, limits, 2, kernels, n, single.first.n);
    if (single.n_fit == n && single.packing.bound <= pairs.first.n)
        finish(arena, &single, lp, kernels, plan);
    if (pairs.first.n < plan->n_batches)
        finish(arena, &pairs, lp, kernels, plan);
    if (plan->n_batches < INT32_MAX)
        return WEFT_OK;
    return fail(err, WEFT_TOO_LONG, -1, "kernel %d does not fit on a multiprocessor by itself",
                MAX_OF(single.n_fit, pairs.n_fit) + 1);
}

weft_status batch_plan(Arena *arena, const GpuLimits *limits, const LpLibrary *lp, const LaunchKernel *kernels,
                       int n_kernels, BatchPlan *plan, Error *err)
{
    for (int i = 0; i < n_kernels; i++)
        if (kernels[i].n_threads < 1)
            return fail(err, WEFT_INVALID_PARAMETER, -1, "kernel %d has no threads", i + 1);
    Arena *scratch = arena_new(arena, "batches");
    const weft_status status = plan_in(arena, scratch, limits, lp, kernels, n_kernels, plan, err);
    arena_free(scratch);
    return status;
}
